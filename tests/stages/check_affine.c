/* SPDX-License-Identifier: MIT
 * check_affine.c - the stage affine; tests/parity/warp.py compares it with torchvision. */
#include "tests/kit/aug_kit.h"
#include "tests/kit/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "plugins/kits/warp/warp.h"

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

static void open_given(aug_kit *k, const char *params, int64_t n, int64_t c, int64_t h, int64_t w, int dtype, int order,
                       const float *numbers) {
  int64_t shape[2] = {n, 6};
  kit_open(k, "affine", params, n, c, h, w, dtype, order, true);
  kit_ok(k, spt_input_of(k->t, KIT_DRAWN, SP_F32, 2, shape, SP_ROW_MAJOR, numbers));
  kit_plan(k, 1);
  kit_forward(k);
}

/* By whole pixels, quarters and a scale of 2 it is known which pixel comes from where. */
START_TEST(known_places) {
  static const float numbers[] = {0, 0, 0, 1, 0, 0, 0,    3, -2, 1,   0, 0, 90, 0, 0,
                                  1, 0, 0, 0, 0, 0, 0.5f, 0, 0,  180, 0, 0, 1,  0, 0};
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++)
      for (int mode = 0; mode < 2; mode++) {
        aug_kit k;
        const int64_t c = 3, side = 17;
        open_given(&k, mode ? "{ mode = \"bilinear\", fill = 7, mask_fill = 7 }" : "{ fill = 7, mask_fill = 7 }", 5, c,
                   side, side, dtypes[d], orders[o], numbers);
        void *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
        uint8_t *m = kit_get(&k, SPT_OUT, KIT_MASKS, 0);
        for (int64_t e = 0; e < 5 * c * side * side; e++) {
          int64_t s = e / (c * side * side), p = e / (side * side) % c, i = e / side % side, j = e % side, a = i, b = j;
          if (s == 1) a = i + 2, b = j - 3;
          if (s == 2) a = side - 1 - j, b = i; /* clockwise */
          if (s == 3) a = 2 * i - 8, b = 2 * j - 8;
          if (s == 4) a = side - 1 - i, b = side - 1 - j;
          bool inside = a >= 0 && a < side && b >= 0 && b < side;
          double want = inside ? kit_at(x, dtypes[d], ((s * c + p) * side + a) * side + b) : 7;
          kit_each(fabs(kit_at(y, dtypes[d], e) - want) <= (mode && dtypes[d] == SP_F32 && s ? 255 * 2e-5 : 0),
                   "sample %d, pixel %d, %d is %g, not %g", (int)s, (int)i, (int)j, kit_at(y, dtypes[d], e), want);
          if (p == 0)
            ck_assert_double_eq(m[(s * side + i) * side + j],
                                inside ? kit_at(x, dtypes[d], (s * c * side + a) * side + b) : 7);
        }
        free(x);
        free(y);
        free(m);
        kit_close(&k);
      }
}
END_TEST

/* The smallest images, all of them seen or none; maps that overflow give the fill, or a copy of one pixel, and end. */
START_TEST(extremes) {
  static const float numbers[] = {45, 0, 0, 1, 0,  0, 0,     1e30f, 0,      1, 0,  0,     0, 0, 0, 1e-30f, 0, 0,
                                  0,  0, 0, 1, 90, 0, 1e30f, 0,     -1e30f, 1, 45, 89.9f, 7, 1, 1, 1e30f,  0, 90};
  static const int64_t sides[][2] = {{1, 1}, {1, 9}, {9, 1}, {2, 2}, {3, 700}};
  for (size_t s = 0; s < sizeof sides / sizeof *sides; s++)
    for (int d = 0; d < 2; d++)
      for (int o = 0; o < 2; o++)
        for (int mode = 0; mode < 2; mode++) {
          aug_kit k;
          open_given(&k, mode ? "{ mode = \"bilinear\", fill = 3 }" : "{ fill = 3 }", 6, 3, sides[s][0], sides[s][1],
                     dtypes[d], orders[o], numbers);
          void *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
          for (int64_t e = 0; e < 6 * 3 * sides[s][0] * sides[s][1]; e++) {
            double v = kit_at(y, dtypes[d], e);
            kit_each(v >= 0 && v <= 255.01, "element %d is %g", (int)e, v);
          }
          for (int64_t e = 0, each = 3 * sides[s][0] * sides[s][1]; e < each; e++) /* far away */
            ck_assert_double_eq(kit_at(y, dtypes[d], each + e), 3);
          free(y);
          kit_close(&k);
        }
}
END_TEST

/* What is outside of the image is not seen, be it no number, and nothing is multiplied by it. */
START_TEST(outside_is_nothing) {
  static const float numbers[] = {45, 0, 0, 1, 0, 0};
  for (int o = 0; o < 2; o++)
    for (int i = 0; i < 2; i++) {
      int64_t shape[2] = {1, 6};
      aug_kit k;
      kit_open(&k, "affine", "{ mode = \"bilinear\", fill = 7 }", 1, 3, 20, 20, SP_F32, orders[o], false);
      kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 2, shape, SP_ROW_MAJOR, numbers));
      kit_plan(&k, 1);
      float *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0);
      for (int c = 0; c < 3; c++) x[c * 400] = i ? NAN : INFINITY;
      kit_ok(&k, spt_set(k.t, SPT_IN, KIT_IMAGES, 0, x));
      kit_forward(&k);
      float *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
      for (int e = 0; e < 1200; e++) ck_assert_msg(isfinite(y[e]), "element %d is %g", e, (double)y[e]);
      free(x);
      free(y);
      kit_close(&k);
    }
}
END_TEST

START_TEST(properties) {
  kit_aligned("affine", "{ degrees = 45, shear = 20, mask_fill = 0 }");
  kit_aligned("affine", "{ translate = 0.5, scale = { 0.3, 3 }, shear = { 10, 20, -30, 0 }, fill = 9, mask_fill = 9 }");
  kit_by_id("affine", "{ degrees = 45, translate = 0.3 }");
  kit_by_id("affine", "{ shear = 40, scale = { 0.5, 2 }, mode = \"bilinear\", fill = 3, p = 0.5 }");
  kit_draw_modes("affine", "{ degrees = 45, scale = { 1, 1 }, shear = { 1, 20 } }", NAN);
}
END_TEST

/* Outside of training a sample stays as it is, bit for bit. */
START_TEST(still) {
  aug_kit k;
  kit_open(&k, "affine", "{ degrees = 45, translate = 1, scale = { 2, 3 }, shear = 30, mode = \"bilinear\" }", 3, 3, 31,
           17, SP_F32, SP_ROW_MAJOR, false);
  kit_plan(&k, 0);
  kit_forward(&k);
  float *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
  float *v = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
  ck_assert_mem_eq(x, y, sizeof(float) * 3 * 3 * 31 * 17);
  for (int i = 0; i < 18; i++) ck_assert_double_eq(v[i], i % 6 == 3);
  free(x);
  free(y);
  free(v);
  kit_close(&k);
}
END_TEST

START_TEST(draws) {
  kit_uniform("affine", "{ degrees = 45 }", 1, 1, 0, -45, 45, 18);
  kit_uniform("affine", "{ degrees = { 10, 20 } }", 1, 1, 0, 10, 20, 10);
  kit_uniform("affine", "{ translate = { 0.5, 0.25 } }", 1, 41, 1, -20.5, 20.5, 41);
  kit_uniform("affine", "{ translate = { 0, 0.5 } }", 41, 1, 2, -20.5, 20.5, 41);
  kit_uniform("affine", "{ scale = { 0.5, 2 } }", 1, 1, 3, 0.5, 2, 15);
  kit_uniform("affine", "{ shear = 30 }", 1, 1, 4, -30, 30, 15);
  kit_uniform("affine", "{ shear = { -5, 5, 10, 20 } }", 1, 1, 5, 10, 20, 10);
}
END_TEST

START_TEST(refusals) {
  static const struct {
    const char *params, *words;
  } bad[] = {{"{ degrees = { 20, 10 } }", "'degrees' goes from 20 down to 10; the smaller number comes first"},
             {"{ scale = { 2, 1 } }", "'scale' goes from 2 down to 1"},
             {"{ scale = 0 }", "scale"},
             {"{ translate = 1.5 }", "translate"},
             {"{ shear = { 1, 2, 3 } }", "shear has 3 numbers; it takes 1, 2, or 4"},
             {"{ shear = { 1, 2, 3, 1 } }", "'shear' along y goes from 3 down to 1"},
             {"{ center = 4 }", "center = 4 is one number; it takes two, x and y"},
             {"{ fill = { 1, 2 } }", "fill has 2 numbers, but image 1 has 3 channels; give one or as many"},
             {"{ fill = 256 }", "fill is 256, but image 1 is of bytes: 0..255"},
             {"{ mode = \"cubic\" }", "nearest"},
             {"{ p = 2 }", "'p'"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) kit_refuses("affine", bad[i].params, 1, 3, 8, 8, bad[i].words);
  aug_kit k;
  kit_open(&k, "affine", "{ mask_fill = -1 }", 1, 3, 8, 8, SP_U8, 0, true);
  kit_refused(&k, spt_plan(k.t, 1), "mask_fill is -1, but mask 1 is of bytes: 0..255");
  kit_close(&k);
  static const float values[] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0};
  int64_t shape[2] = {2, 6};
  for (int i = 0; i < 7; i++) {
    float numbers[12];
    char words[96];
    for (int e = 0; e < 12; e++) numbers[e] = values[e];
    numbers[i == 6 ? 9 : 6 + i] = i == 6 ? -1 : i % 2 ? NAN : INFINITY;
    snprintf(words, sizeof words, "sample 41: number %d of its 6 on 'affines' is bad: all must be finite",
             i == 6 ? 4 : i + 1);
    kit_open(&k, "affine", "{}", 2, 3, 8, 8, SP_U8, 0, false);
    kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 2, shape, 0, numbers));
    kit_plan(&k, 1);
    spt_set_id(k.t, 0, 40);
    spt_set_id(k.t, 1, 41);
    kit_refused(&k, spt_forward(k.t, 0), words);
    kit_close(&k);
  }
  kit_open(&k, "affine", "{}", 2, 3, 8, 8, SP_U8, 0, false);
  shape[1] = 5;
  kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 2, shape, 0, NULL));
  kit_refused(&k, spt_plan(k.t, 1), "'affines' must be 2 x 6, one row a sample");
  kit_close(&k);
}
END_TEST

int main(void) {
  Suite *s = suite_create("affine");
  TCase *c = tcase_create("affine");
  tcase_set_timeout(c, 600);
  tcase_add_test(c, known_places);
  tcase_add_test(c, extremes);
  tcase_add_test(c, outside_is_nothing);
  tcase_add_test(c, properties);
  tcase_add_test(c, still);
  tcase_add_test(c, draws);
  tcase_add_test(c, refusals);
  suite_add_tcase(s, c);
  return suite_run(s);
}
