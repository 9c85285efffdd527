/* SPDX-License-Identifier: MIT
 * check_image_writer.c - the stage `image_writer`: what it writes reads back, also at the original's size. */
#include <check.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugins/kits/image/image.h"
#include "tests/kit/harness.h"
#include "tests/kit/image_files.h"
#include "base/util.h"

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

START_TEST(test_by_number) {
  im_buf px = {NULL, 0};
  char name[64];
  int w, h;
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
    }
  }
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
  refuses(writer(if_dir, "", 0, 0, 0), SP_E_INVALID, "neither image nor mask is wired");
  refuses(writer("", "", 0, 1, 1), SP_E_INVALID, "dir is empty");
  refuses(writer(if_dir, "images = \"x.jpg\"", 0, 1, 1), SP_E_INVALID, "a file name with one *");
  refuses(writer(if_dir, "images = \"*/x.jpg\"", 0, 1, 1), SP_E_INVALID, "a file name with one *");
  refuses(writer(if_dir, "images = \"*.bmp\"", 0, 1, 1), SP_E_INVALID, "must end in .png, .jpg or .jpeg");
  refuses(writer(if_dir, "masks = \"*.jpg\"", 0, 1, 1), SP_E_INVALID, "must end in .png; labels would not survive");
  refuses(writer(if_dir, "overlays = \"*.png\"", 0, 1, 0), SP_E_INVALID, "needs both image and mask");
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
  tcase_add_test(c, test_by_class);
  tcase_add_test(c, test_refusals);
  tcase_add_test(c, test_classes_refused);
  tcase_add_test(c, test_sizes_must_fit);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
