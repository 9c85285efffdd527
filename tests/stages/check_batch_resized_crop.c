/* SPDX-License-Identifier: MIT
 * check_batch_resized_crop.c - the stage batch_resized_crop. */
#include "tests/kit/aug_kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/stages/batch_resized_crop/batch_resized_crop.h"
#include "tests/kit/suite.h"

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

/* ---- the windows ---- */
enum { C = 3, H = 46, W = 37, BOXES = 9 };
static const int32_t boxes[BOXES][4] = {{0, 0, H, W},     {0, 0, 1, 1},   {H - 1, W - 1, 1, 1},
                                        {3, 5, 12, 9},    {7, 1, 5, 30},  {10, 0, 36, 3},
                                        {20, 20, 12, 17}, {0, 4, 24, 18}, {1, 1, 45, 36}};

/* Sample `i` of a tensor of channels x H x W elements: the window, row-major. */
static void window(char *to, const char *from, int64_t channels, size_t bytes, int i) {
  const int32_t *b = boxes[i];
  for (int64_t c = 0; c < channels; c++)
    for (int32_t r = 0; r < b[2]; r++, to += (size_t)b[3] * bytes)
      memcpy(to, from + (size_t)(((i * channels + c) * H + b[0] + r) * W + b[1]) * bytes, (size_t)b[3] * bytes);
}

/* What the stage `resize` makes of the window alone. */
static void compare(const aug_kit *k, int i, const char *params, int dtype, int order, const char *x, const char *m) {
  size_t bytes = dtype == SP_U8 ? 1 : 4;
  int64_t shape[4] = {1, C, boxes[i][2], boxes[i][3]}, mask[3] = {1, boxes[i][2], boxes[i][3]};
  char *image = malloc(C * H * W * bytes), *labels = malloc(H * W);
  ck_assert(image && labels);
  window(image, x, C, bytes, i);
  window(labels, m, 1, 1, i);
  aug_kit one = {.t = spt_new("resize", params, 1)};
  kit_ok(&one, spt_input_of(one.t, KIT_IMAGES, dtype, 4, shape, order, image));
  kit_ok(&one, spt_input_of(one.t, KIT_MASKS, SP_U8, 3, mask, SP_ROW_MAJOR, labels));
  kit_plan(&one, 0);
  kit_forward(&one);
  char *want = kit_get(&one, SPT_OUT, KIT_IMAGES, 0), *got = kit_get(k, SPT_OUT, KIT_IMAGES, 0);
  char *want_mask = kit_get(&one, SPT_OUT, KIT_MASKS, 0), *got_mask = kit_get(k, SPT_OUT, KIT_MASKS, 0);
  const sp_spec *s = spt_spec(one.t, SPT_OUT, KIT_IMAGES, 0);
  size_t all = (size_t)sp_spec_count(s) * bytes, pixels = all / bytes / C;
  ck_assert_msg(!memcmp(got + (size_t)i * all, want, all), "box %d, %s: another image", i, params);
  ck_assert_msg(!memcmp(got_mask + (size_t)i * pixels, want_mask, pixels), "box %d, %s: another mask", i, params);
  free(want);
  free(got);
  free(want_mask);
  free(got_mask);
  free(image);
  free(labels);
  kit_close(&one);
}

START_TEST(windows) {
  static const char *const params[] = {"{ size = { 12, 9 } }",
                                       "{ size = { 24, 40 } }",
                                       "{ size = 1 }",
                                       "{ size = { 12, 9 }, antialias = false }",
                                       "{ size = { 36, 36 } }",
                                       "{ size = { 12, 9 }, interpolation = \"bicubic\" }",
                                       "{ size = { 24, 40 }, interpolation = \"bicubic\" }"};
  int64_t shape[2] = {BOXES, 4};
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++) {
      aug_kit k;
      kit_open(&k, "batch_resized_crop", params[_i], BOXES, C, H, W, dtypes[d], orders[o], true);
      kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_I32, 2, shape, SP_ROW_MAJOR, boxes));
      kit_plan(&k, 1);
      kit_forward(&k);
      char *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *m = kit_get(&k, SPT_IN, KIT_MASKS, 0);
      int32_t *told = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
      ck_assert_mem_eq(told, boxes, sizeof boxes);
      for (int i = 0; i < BOXES; i++) compare(&k, i, params[_i], dtypes[d], orders[o], x, m);
      free(x);
      free(m);
      free(told);
      kit_close(&k);
    }
}
END_TEST

/* ---- the draws ---- */
/* N windows of images of h x w. */
static int32_t *drawn(const char *params, int64_t n, int64_t h, int64_t w, int training) {
  aug_kit k;
  kit_open(&k, "batch_resized_crop", params, n, 1, h, w, SP_U8, SP_ROW_MAJOR, false);
  kit_plan(&k, training);
  kit_forward(&k);
  int32_t *b = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
  kit_close(&k);
  return b;
}

/* Areas are uniform, so are the ratios' logarithms and the places that are left; a whole number of pixels is half a
 * pixel away from what was drawn. The limits are five times the standard error of N draws. */
START_TEST(as_torchvision) {
  enum { N = 4000, SIDE = 96 };
  int32_t *b = drawn("{ size = 2, scale = { 0.1, 0.5 }, ratio = { 0.5, 2 } }", N, SIDE, SIDE, 1);
  double area = 0, ratio = 0, top = 0, left = 0;
  for (int i = 0; i < N; i++) {
    double h = b[4 * i + 2], w = b[4 * i + 3], a = h * w / (SIDE * SIDE), r = log2(w / h);
    ck_assert_msg(a > 0.1 * 0.97 && a < 0.5 * 1.03 && fabs(r) < 1.05, "window of %g x %g", h, w);
    ck_assert(b[4 * i] >= 0 && b[4 * i] + h <= SIDE && b[4 * i + 1] >= 0 && b[4 * i + 1] + w <= SIDE);
    area += a / N;
    ratio += r / N;
    top += (b[4 * i] + 0.5) / (SIDE - h + 1) / N;
    left += (b[4 * i + 1] + 0.5) / (SIDE - w + 1) / N;
  }
  double error = 5 / sqrt(12.0 * N); /* of a uniform number in 0..1 */
  ck_assert_msg(fabs(area - 0.3) < 0.4 * error + 0.002, "mean area %g", area);
  ck_assert_msg(fabs(ratio) < 2 * error, "mean of log2 of the ratio %g", ratio);
  ck_assert_msg(fabs(top - 0.5) < error && fabs(left - 0.5) < error, "mean place %g, %g", top, left);
  free(b);
}
END_TEST

/* Where no window of such a ratio fits ten times, and outside of training, it is the middle one: torchvision's rule. */
START_TEST(middle) {
  static const struct {
    const char *params;
    int h, w, training;
    int32_t want[4];
  } list[] = {{"{ size = 4 }", 40, 40, 0, {0, 0, 40, 40}},
              {"{ size = 4 }", 40, 100, 0, {0, 23, 40, 53}},
              {"{ size = 4 }", 100, 41, 0, {22, 0, 55, 41}},
              {"{ size = 4, scale = 1, ratio = 1 }", 9, 20, 1, {0, 5, 9, 9}},
              {"{ size = 4, scale = 1, ratio = 500 }", 9, 20, 1, {4, 0, 1, 20}},
              {"{ size = 4, scale = 1, ratio = 1 }", 16, 16, 1, {0, 0, 16, 16}}};
  for (size_t i = 0; i < SP_ARRAY(list); i++) {
    int32_t *b = drawn(list[i].params, 2, list[i].h, list[i].w, list[i].training);
    for (int k = 0; k < 8; k++)
      ck_assert_msg(b[k] == list[i].want[k % 4], "case %zu: number %d is %d, not %d", i, k, b[k], list[i].want[k % 4]);
    free(b);
  }
}
END_TEST

START_TEST(exponential) {
  for (double x = -7; x <= 7; x += 0.0137) {
    double want = exp(x), got = aug_exp(x);
    ck_assert_msg(fabs(got - want) <= 1e-15 * want, "e^%g is %.17g, not %.17g", x, got, want);
  }
  ck_assert(aug_exp(0) == 1.0);
}
END_TEST

START_TEST(properties) {
  kit_by_id("batch_resized_crop", "{ size = { 20, 17 } }");
  kit_by_id("batch_resized_crop", "{ size = { 50, 9 }, scale = { 0.5, 1 }, antialias = false }");
  kit_by_id("batch_resized_crop", "{ size = { 20, 17 }, interpolation = \"bicubic\" }");
  kit_draw_modes("batch_resized_crop", "{ size = 20 }", NAN);
}
END_TEST

START_TEST(refusals) {
  kit_refuses("batch_resized_crop", "{}", 1, 3, 8, 8, "size");
  kit_refuses("batch_resized_crop", "{ size = 4, scale = { 0.5, 0.2 } }", 1, 3, 8, 8,
              "'scale' goes from 0.5 down to 0.2");
  kit_refuses("batch_resized_crop", "{ size = 0 }", 1, 3, 8, 8, "size");
  kit_refuses("batch_resized_crop", "{ size = 4, interpolation = \"bicubic\", antialias = false }", 1, 3, 8, 8,
              "\"bicubic\" is with antialiasing alone");
  kit_refuses("batch_resized_crop", "{ size = 4, scale = 0 }", 1, 3, 8, 8, "it must be above 0");
  kit_refuses("batch_resized_crop", "{ size = 4, scale = { 0.5, 1.5 } }", 1, 3, 8, 8, "scale");
  kit_refuses("batch_resized_crop", "{ size = 4, ratio = { 2, 1 } }", 1, 3, 8, 8, "'ratio' goes from 2 down to 1");
  kit_refuses("batch_resized_crop", "{ size = 4, ratio = 0 }", 1, 3, 8, 8, "ratio");
  static const int32_t bad[][4] = {{-1, 0, 2, 2}, {0, -7, 2, 2}, {0, 0, 0, 2},
                                   {0, 0, 2, -3}, {7, 0, 2, 1},  {0, 1, 2, 8}};
  static const char *const words[] = {"-1, where 0 is the bound", "-7, where 0 is", "0, where 1 is",
                                      "-3, where 1 is",           "9, where 8 is",  "9, where 8 is"};
  int64_t shape[2] = {1, 4};
  for (size_t i = 0; i < SP_ARRAY(bad); i++) {
    aug_kit k;
    kit_open(&k, "batch_resized_crop", "{ size = 4 }", 1, 3, 8, 8, SP_U8, 0, false);
    kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_I32, 2, shape, 0, bad[i]));
    kit_plan(&k, 1);
    kit_refused(&k, spt_forward(k.t, 0), words[i]);
    kit_close(&k);
  }
}
END_TEST

int main(void) {
  Suite *s = suite_create("resized crop");
  TCase *c = tcase_create("resized crop");
  tcase_set_timeout(c, 600);
  tcase_add_loop_test(c, windows, 0, 7);
  tcase_add_test(c, as_torchvision);
  tcase_add_test(c, middle);
  tcase_add_test(c, exponential);
  tcase_add_test(c, properties);
  tcase_add_test(c, refusals);
  suite_add_tcase(s, c);
  return suite_run(s);
}
