/* SPDX-License-Identifier: MIT
 * check_image_writer.c - the stage `image_writer`: what it writes reads back, also at the original's size. */
#include <check.h>
#include <math.h>
#include <png.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plugins/kits/image/image.h"
#include "tests/kit/harness.h"
#include "tests/kit/image_files.h"
#include "base/util.h"
#include "tests/kit/suite.h"

enum { N = 3, H = 12, W = 15 };
static uint8_t image[N * 3 * H * W], mask[N * H * W]; /* row-major: planes */

static void begin(void) {
  if_begin();
  for (int i = 0; i < N * 3 * H * W; i++) image[i] = (uint8_t)(i * 7);
  for (int i = 0; i < N * H * W; i++) mask[i] = (uint8_t)(i / W % 3 == 2 ? 255 : i % W / 5);
}

static spt *writer(const char *dir, const char *more, int order, int with_image, int with_mask) {
  const int64_t shape[] = {N, 3, H, W}, mshape[] = {N, H, W};
  char params[1400];
  snprintf(params, sizeof params, "{ dir = \"%s\", %s }", dir, more);
  spt *t = spt_new("image_writer", params, 2);
  if (spt_failed(t)) return t;
  if (with_image) spt_input_of(t, 0, SP_U8, 4, shape, order, image);
  if (with_mask) spt_input_of(t, 1, SP_U8, 3, mshape, SP_ROW_MAJOR, mask);
  spt_set_batch(t, N);
  spt_plan(t, 0);
  return t;
}

static void run(spt *t) {
  ck_assert_msg(!spt_failed(t), "%s", spt_error(t));
  spt_forward(t, 0);
  ck_assert_msg(!spt_failed(t), "%s", spt_error(t));
  spt_free(t);
}

static void load(const char *name, int labels, im_buf *px, int *w, int *h) {
  im_decoder d = {.size = 0};
  ck_assert_msg(im_load(&d, if_path(name)) == SP_OK, "%s: %s", name, d.why);
  int rc = labels ? im_labels(&d, 1 << 20, px, w, h) : im_rgb(&d, 1 << 20, px, w, h);
  ck_assert_msg(rc == SP_OK, "%s: %s", name, d.why);
  im_decoder_free(&d);
}

static int rgb_at(int sample, int pixel, int c) { return image[(sample * 3 + c) * H * W + pixel]; }

/* A pixel all of whose neighbours have its label has so many 256ths of the label's colour -> 1; others: 0. */
static int check_blended(const uint8_t *o, int sample, int k, int background, int part) {
  const uint8_t *m = mask + sample * H * W;
  uint8_t c[3];
  int x = k % W, y = k / W;
  if (m[k] == background || m[k] == 255) return 0;
  if ((x > 0 && m[k - 1] != m[k]) || (x + 1 < W && m[k + 1] != m[k]) || (y > 0 && m[k - W] != m[k]) ||
      (y + 1 < H && m[k + W] != m[k]))
    return 0;
  im_label_colour(m[k], c);
  for (int i = 0; i < 3; i++) ck_assert_int_eq(o[i], (rgb_at(sample, k, i) * (256 - part) + c[i] * part + 128) / 256);
  return 1;
}

START_TEST(test_by_number) {
  im_buf px = {NULL, 0};
  char name[64];
  int w, h, within = 0;
  run(writer(if_path("new/folder"), "images = \"p/*.png\", overlays = \"o_*.png\"", _i ? SP_CHANNELS_LAST : 0, 1, 1));
  for (int i = 0; i < N; i++) {
    snprintf(name, sizeof name, "new/folder/p/%05d.png", i);
    load(name, 0, &px, &w, &h);
    ck_assert(w == W && h == H);
    for (int k = 0; k < H * W * 3; k++) ck_assert_int_eq(((uint8_t *)px.p)[k], rgb_at(i, k / 3, k % 3));
    snprintf(name, sizeof name, "new/folder/masks/%05d.png", i);
    load(name, 1, &px, &w, &h);
    ck_assert_mem_eq(px.p, mask + i * H * W, H * W);
    snprintf(name, sizeof name, "new/folder/o_%05d.png", i);
    load(name, 0, &px, &w, &h);
    for (int k = 0; k < H * W; k++) { /* clear where there is no class, the label's colour on its edge */
      const uint8_t *o = (uint8_t *)px.p + k * 3, label = mask[i * H * W + k];
      if (label == 0 || label == 255)
        for (int c = 0; c < 3; c++) ck_assert_int_eq(o[c], rgb_at(i, k, c));
      if (label == 1 && k % W == 5) ck_assert(o[0] == 128 && o[1] == 0 && o[2] == 0);
      within += check_blended(o, i, k, 0, 90); /* 35 % */
    }
  }
  ck_assert_int_gt(within, 0);
  im_buf_free(&px);
}
END_TEST

/* Label 0 as a class like others; how much of the colours covers the image. */
START_TEST(test_background) {
  im_buf px = {NULL, 0};
  int w, h, within = 0;
  run(writer(if_dir, "images = \"\", overlays = \"b_*.png\", background = -1, opacity = 0.5", 0, 1, 1));
  load("b_00000.png", 0, &px, &w, &h);
  for (int k = 0; k < H * W; k++) within += check_blended((uint8_t *)px.p + k * 3, 0, k, -1, 128);
  ck_assert_int_gt(within, 0);
  im_buf_free(&px);
}
END_TEST

START_TEST(test_original_size) {
  im_buf px = {NULL, 0};
  char more[1200];
  int w, h;
  if_pair("big", 45, 36, 0);
  snprintf(more, sizeof more,
           "images = \"\", masks = \"*_mask.png\", overlays = \"*_overlay.jpg\", "
           "names = { { \"big\", original = \"%s\" }, { \"b\" }, { \"c\" } }",
           if_path("images/big.png"));
  run(writer(if_dir, more, 0, 1, 1));
  load("big_mask.png", 1, &px, &w, &h);
  ck_assert(w == 45 && h == 36);
  for (int k = 0; k < 45 * 36; k++) ck_assert_uint_eq(((uint8_t *)px.p)[k], mask[k / 45 / 3 * W + k % 45 / 3]);
  load("big_overlay.jpg", 0, &px, &w, &h);
  ck_assert(w == 45 && h == 36);
  load("c_mask.png", 1, &px, &w, &h);
  ck_assert(w == W && h == H);
  ck_assert_int_ne(access(if_path("images/00000.jpg"), F_OK), 0);
  im_buf_free(&px);
}
END_TEST

/* ---- scores ---- */
enum { C = 5, SH = 7, SW = 6 };
static float scores[N * C * SH * SW]; /* row-major */

/* The score of class c at pixel x of y of dw x dh, in double. */
static double enlarged(int sample, int c, int x, int y, int dw, int dh) {
  const float *v = scores + (sample * C + c) * SH * SW;
  double fx = fmax(0, (double)SW / dw * (x + 0.5) - 0.5), fy = fmax(0, (double)SH / dh * (y + 0.5) - 0.5);
  int x0 = (int)fx, y0 = (int)fy, x1 = x0 + (x0 < SW - 1), y1 = y0 + (y0 < SH - 1);
  double a = v[y0 * SW + x0] * (1 - fx + x0) + v[y0 * SW + x1] * (fx - x0);
  double b = v[y1 * SW + x0] * (1 - fx + x0) + v[y1 * SW + x1] * (fx - x0);
  return a * (1 - fy + y0) + b * (fy - y0);
}

/* The label is the class of the largest score, or its score differs by rounding alone. */
static void best_of_all(const char *name, int sample, int dw, int dh) {
  im_buf px = {NULL, 0};
  int w, h;
  load(name, 1, &px, &w, &h);
  ck_assert_msg(w == dw && h == dh, "%d x %d", w, h);
  for (int k = 0; k < w * h; k++) {
    int label = ((uint8_t *)px.p)[k];
    ck_assert_int_lt(label, C);
    for (int c = 0; c < C; c++)
      ck_assert(enlarged(sample, c, k % w, k / w, w, h) <= enlarged(sample, label, k % w, k / w, w, h) + 1e-5);
  }
  im_buf_free(&px);
}

static spt *of_scores(const char *more, int order, int with_image) {
  const int64_t shape[] = {N, 3, H, W}, sshape[] = {N, C, SH, SW};
  char params[1400];
  snprintf(params, sizeof params, "{ dir = \"%s\", images = \"\", masks = \"*.png\", %s }", if_dir, more);
  spt_random(scores, N * C * SH * SW, 3, -4, 4);
  spt *t = spt_new("image_writer", params, 2);
  if (with_image) spt_input_of(t, 0, SP_U8, 4, shape, order, image);
  spt_input_of(t, 3, SP_F32, 4, sshape, order, scores);
  spt_set_batch(t, N);
  spt_plan(t, 0);
  return t;
}

/* At the size of the file that a sample came from, larger and smaller; of the image; their own. */
START_TEST(test_scores) {
  char more[2800];
  int order = _i ? SP_CHANNELS_LAST : SP_ROW_MAJOR;
  if_pair("big", 301, 36, 0);
  if_pair("small", 4, 3, 0);
  snprintf(more, sizeof more,
           "overlays = \"o_*.png\", names = { { \"a\", original = \"%s\" }, { \"b\", original = \"%s\" }, { \"c\" } }",
           if_path("images/big.png"), if_path("images/small.png"));
  run(of_scores(more, order, 1));
  best_of_all("a.png", 0, 301, 36);
  best_of_all("b.png", 1, 4, 3);
  best_of_all("c.png", 2, W, H);
  run(of_scores("", order, 0));
  best_of_all("00001.png", 1, SW, SH);
}
END_TEST

/* ---- folders of classes ---- */
static spt *by_class(const char *more, int dtype, const void *labels) {
  const int64_t shape[] = {N, 3, H, W}, mshape[] = {N, H, W}, n[] = {N};
  char params[1400];
  snprintf(params, sizeof params, "{ dir = \"%s\", %s }", if_path("out"), more);
  spt *t = spt_new("image_writer", params, 2);
  if (spt_failed(t)) return t;
  spt_input_of(t, 0, SP_U8, 4, shape, 0, image);
  spt_input_of(t, 1, SP_U8, 3, mshape, 0, mask);
  if (labels) spt_input_of(t, 2, dtype, 1, n, 0, labels);
  spt_set_batch(t, N);
  spt_plan(t, 0);
  return t;
}

static const uint8_t bytes[N] = {1, 0, 1};
static const int32_t wide[N] = {300, 2, 300}, beyond[N] = {0, 1, 2}, none[N] = {0, -1, 0};

START_TEST(test_by_class) {
  run(by_class("images = \"*.png\", masks = \"m/mask_*.png\", class_names = \"a cat\ndog\n\"", SP_U8, bytes));
  run(by_class("images = \"i/*.jpg\", masks = \"\"", SP_I32, wide));
  static const char *const files[] = {"dog/00000.png",        "a cat/00001.png",        "dog/00002.png",
                                      "m/dog/mask_00000.png", "m/a cat/mask_00001.png", "m/dog/mask_00002.png",
                                      "i/300/00000.jpg",      "i/2/00001.jpg",          "i/300/00002.jpg"};
  im_buf px = {NULL, 0};
  int w, h;
  for (size_t k = 0; k < SP_ARRAY(files); k++) {
    char name[64];
    snprintf(name, sizeof name, "out/%s", files[k]);
    load(name, k / 3 == 1, &px, &w, &h);
    ck_assert(w == W && h == H);
    if (k < 3) ck_assert_int_eq(((uint8_t *)px.p)[40], rgb_at((int)k, 13, 1));
  }
  im_buf_free(&px);
}
END_TEST

static void refuses(spt *t, int status, const char *words) {
  if (!spt_failed(t)) spt_forward(t, 0);
  int good = spt_failed(t) == status && strstr(spt_error(t), words);
  ck_assert_msg(good, "status %d, \"%s\" in: %s", spt_failed(t), words, spt_error(t));
  spt_free(t);
}

START_TEST(test_refusals) {
  refuses(writer(if_dir, "", 0, 0, 0), SP_E_INVALID, "neither image nor mask nor logits are wired");
  refuses(writer("", "", 0, 1, 1), SP_E_INVALID, "dir is empty");
  refuses(writer(if_dir, "images = \"x.jpg\"", 0, 1, 1), SP_E_INVALID, "a file name with one *");
  refuses(writer(if_dir, "images = \"*/x.jpg\"", 0, 1, 1), SP_E_INVALID, "a file name with one *");
  refuses(writer(if_dir, "images = \"*.bmp\"", 0, 1, 1), SP_E_INVALID, "must end in .png, .jpg or .jpeg");
  refuses(writer(if_dir, "masks = \"*.jpg\"", 0, 1, 1), SP_E_INVALID, "must end in .png; labels would not survive");
  refuses(writer(if_dir, "overlays = \"*.png\"", 0, 1, 0), SP_E_INVALID, "needs both image and mask, or logits");
  refuses(writer(if_dir, "probabilities = \"*.npy\"", 0, 1, 1), SP_E_INVALID, "needs logits");
  refuses(writer(if_dir, "probabilities = \"*.jpg\"", 0, 1, 1), SP_E_INVALID, "must end in .npy or .png");
  refuses(writer(if_dir, "names = { {\"../x\"} }", 0, 1, 1), SP_E_INVALID, "is no plain file name");
  refuses(writer(if_dir, "names = { {\"x\"}, {\"y\"} }", 0, 1, 1), SP_E_RANGE, "sample 2 has no name: names has 2");
  if_put("file", "x", 1);
  refuses(writer(if_path("file/below"), "", 0, 1, 1), SP_E_IO, "file/below: Not a directory");
  refuses(writer(if_dir, "names = { {\"x\", original = \"/nowhere.png\"}, {\"y\"}, {\"z\"} }", 0, 1, 1), SP_E_IO,
          "/nowhere.png: No such file");
}
END_TEST

START_TEST(test_classes_refused) {
  refuses(by_class("class_names = \"a\nb\"", SP_I32, beyond), SP_E_RANGE, "sample 2 has label 2, class_names has 2");
  refuses(by_class("class_names = \"a\nb\"", SP_I32, none), SP_E_RANGE, "sample 1 has label -1, which is no class");
  refuses(by_class("", SP_I32, none), SP_E_RANGE, "sample 1 has label -1");
  refuses(by_class("class_names = \"a\nb\"", SP_U8, NULL), SP_E_INVALID,
          "class_names are given, but label is not wired");
  refuses(by_class("class_names = \"a\n../b\"", SP_U8, bytes), SP_E_INVALID,
          "class_names, line 2: \"../b\" is no plain");
  refuses(by_class("class_names = \"a\n\nb\"", SP_U8, bytes), SP_E_INVALID, "class_names, line 2: \"\" is no plain");
  if_put("out/images/full", "x", 1); /* a file where a folder should be: the folder's files cannot be made */
  refuses(by_class("class_names = \"b\nfull\"", SP_U8, bytes), SP_E_IO, "out/images/full/00000.jpg: ");
}
END_TEST

/* ---- what else is told of a picture ---- */
static void file_bytes(const char *name, uint8_t *to, size_t n) {
  FILE *f = fopen(if_path(name), "rb");
  ck_assert_msg(f != NULL, "%s", name);
  ck_assert_uint_eq(fread(to, 1, n, f), n);
  ck_assert_int_eq(getc(f), EOF);
  fclose(f);
}

START_TEST(test_probabilities) {
  static uint8_t file[256 + C * 36 * 31 * 4];
  const float *v = (const float *)(void *)(file + 256);
  char more[1400];
  if_pair("big", 31, 36, 0);
  snprintf(more, sizeof more,
           "probabilities = \"p/*.npy\", names = { { \"a\", original = \"%s\" }, { \"b\" }, { \"c\" } }",
           if_path("images/big.png"));
  run(of_scores(more, 0, 1));
  file_bytes("p/a.npy", file, sizeof file);
  ck_assert_mem_eq(file, "\x93NUMPY\x01\x00\xf6\x00{'descr': '<f4', 'fortran_order': False, 'shape': (5, 36, 31, ), }",
                   71);
  ck_assert_int_eq(file[255], '\n');
  for (int k = 0; k < 36 * 31; k++) {
    double sum = 0;
    for (int c = 0; c < C; c++) sum += exp(enlarged(0, c, k % 31, k / 31, 31, 36));
    for (int c = 0; c < C; c++)
      ck_assert_double_eq_tol(v[c * 36 * 31 + k], exp(enlarged(0, c, k % 31, k / 31, 31, 36)) / sum, 1e-5);
  }
  run(of_scores("probabilities = \"*_p.png\"", 0, 1));
  im_buf px = {NULL, 0}, mask_px = {NULL, 0};
  int w, h;
  load("00002_p.png", 0, &px, &w, &h);
  load("00002.png", 1, &mask_px, &w, &h);
  ck_assert(w == W && h == H);
  for (int k = 0; k < W * H; k++) {
    double sum = 0;
    for (int c = 0; c < C; c++) sum += exp(enlarged(2, c, k % W, k / W, W, H));
    double p = exp(enlarged(2, ((uint8_t *)mask_px.p)[k], k % W, k / W, W, H)) / sum;
    ck_assert_double_eq_tol(((uint8_t *)px.p)[3 * k], p * 65535 / 256, 1.01); /* the high byte */
  }
  im_buf_free(&px);
  im_buf_free(&mask_px);
}
END_TEST

START_TEST(test_counts) {
  int32_t size[N * 2];
  int64_t pixels[N * C];
  char more[1400];
  if_pair("big", 31, 36, 0);
  snprintf(more, sizeof more, "names = { { \"a\", original = \"%s\" }, { \"b\" }, { \"c\" } }",
           if_path("images/big.png"));
  spt *t = of_scores(more, 0, 1);
  spt_forward(t, 0);
  ck_assert_msg(!spt_failed(t), "%s", spt_error(t));
  ck_assert_int_eq(spt_get(t, SPT_OUT, 0, 0, size), SP_OK);
  ck_assert_int_eq(spt_get(t, SPT_OUT, 1, 0, pixels), SP_OK);
  spt_free(t);
  for (int i = 0; i < N; i++) {
    im_buf px = {NULL, 0};
    int w, h;
    load(i == 0 ? "a.png" : i == 1 ? "b.png" : "c.png", 1, &px, &w, &h);
    ck_assert(size[2 * i] == h && size[2 * i + 1] == w);
    for (int k = 0; k < w * h; k++) pixels[i * C + ((uint8_t *)px.p)[k]]--;
    for (int c = 0; c < C; c++) ck_assert_int_eq(pixels[i * C + c], 0);
    im_buf_free(&px);
  }
}
END_TEST

/* The overlay's own rows are those without a legend; below stand the classes that are there, but 0. */
START_TEST(test_legend) {
  im_buf plain = {NULL, 0}, px = {NULL, 0};
  int w, h, w2, h2, seen[256] = {0};
  uint8_t colour[3];
  run(writer(if_dir, "images = \"\", overlays = \"o_*.png\"", 0, 1, 1));
  load("o_00000.png", 0, &plain, &w, &h);
  run(writer(if_dir, "images = \"\", overlays = \"l_*.png\", legend = \"ground\nA\nB\nnone\"", 0, 1, 1));
  load("l_00000.png", 0, &px, &w2, &h2);
  ck_assert(w2 == w && h2 == h + 4 + 2 * 13);
  ck_assert_mem_eq(px.p, plain.p, (size_t)(w * h * 3));
  for (int k = w * h; k < w2 * h2; k++) {
    for (int label = 0; label < 4; label++) {
      im_label_colour((uint8_t)label, colour);
      seen[label] += !memcmp((uint8_t *)px.p + 3 * k, colour, 3);
    }
  }
  ck_assert(seen[1] == 9 * 9 || seen[1] == 9 * 9 - 7 * 7); /* an outline, and within what the overlay shows */
  ck_assert(seen[2] == 9 * 9 || seen[2] == 9 * 9 - 7 * 7);
  ck_assert_int_eq(seen[3], 0);
  run(writer(if_dir, "images = \"\", overlays = \"n_*.png\", legend = \"ground\"", 0, 1, 1));
  load("n_00000.png", 0, &px, &w2, &h2);
  ck_assert(w2 == w && h2 == h);
  im_buf_free(&plain);
  im_buf_free(&px);
}
END_TEST

START_TEST(test_scores_refused) {
  const int64_t shape[] = {N, 256, 2, 2}, mshape[] = {N, H, W};
  char more[1400];
  refuses(of_scores("overlays = \"o_*.png\"", 0, 0), SP_E_INVALID, "needs both image and mask, or logits");
  spt *t = of_scores("", 0, 0);
  spt_input_of(t, 1, SP_U8, 3, mshape, SP_ROW_MAJOR, mask);
  spt_plan(t, 0);
  refuses(t, SP_E_INVALID, "mask and logits are wired");
  snprintf(more, sizeof more, "{ dir = \"%s\" }", if_dir);
  t = spt_new("image_writer", more, 1);
  spt_input_of(t, 3, SP_F32, 4, shape, SP_ROW_MAJOR, NULL);
  spt_plan(t, 0);
  refuses(t, SP_E_SHAPE, "logits of 256 classes");
  if_pair("big", 45, 36, 0);
  snprintf(more, sizeof more, "max_pixels = 1600, names = { { \"a\", original = \"%s\" }, { \"b\" }, { \"c\" } }",
           if_path("images/big.png"));
  refuses(of_scores(more, 0, 0), SP_E_DATA,
          "big.png: 45 x 36 pixels, and max_pixels is 1600; max_pixels = 1620 takes it");
}
END_TEST

START_TEST(test_sizes_must_fit) {
  const int64_t shape[] = {N, 3, H, W}, mshape[] = {N, W, H};
  char params[400];
  snprintf(params, sizeof params, "{ dir = \"%s\" }", if_dir);
  spt *t = spt_new("image_writer", params, 1);
  spt_input_of(t, 0, SP_U8, 4, shape, 0, image);
  spt_input_of(t, 1, SP_U8, 3, mshape, 0, mask);
  spt_plan(t, 0);
  refuses(t, SP_E_SHAPE, "image is 12 x 15, but mask is 15 x 12");
}
END_TEST

int main(void) {
  Suite *s = suite_create("image_writer");
  TCase *c = tcase_create("image_writer");
  tcase_set_timeout(c, 60);
  tcase_add_checked_fixture(c, begin, if_end);
  tcase_add_loop_test(c, test_by_number, 0, 2);
  tcase_add_test(c, test_original_size);
  tcase_add_test(c, test_background);
  tcase_add_loop_test(c, test_scores, 0, 2);
  tcase_add_test(c, test_probabilities);
  tcase_add_test(c, test_counts);
  tcase_add_test(c, test_legend);
  tcase_add_test(c, test_scores_refused);
  tcase_add_test(c, test_by_class);
  tcase_add_test(c, test_refusals);
  tcase_add_test(c, test_classes_refused);
  tcase_add_test(c, test_sizes_must_fit);
  suite_add_tcase(s, c);
  return suite_run(s);
}
