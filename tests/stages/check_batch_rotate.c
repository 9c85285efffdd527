/* SPDX-License-Identifier: MIT
 * check_batch_rotate.c - the stage batch_rotate; tests/parity/rotate.py compares it with torchvision. */
#include "tests/kit/aug_kit.h"
#include "tests/kit/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

static void open_turned(aug_kit *k, const char *params, int64_t n, int64_t c, int64_t h, int64_t w, int dtype,
                        int order, const float *angles) {
  kit_open(k, "batch_rotate", params, n, c, h, w, dtype, order, true);
  kit_ok(k, spt_input_of(k->t, KIT_DRAWN, SP_F32, 1, &n, SP_ROW_MAJOR, angles));
  kit_plan(k, 1);
  kit_forward(k);
}

/* Turns by quarters are exact permutations: up to 180 degrees on any canvas, 90 on a square one. */
static void quarters(int64_t c, int64_t h, int64_t w, int dtype, int order, const char *mode) {
  static const float angles[] = {0, 180, -180, 360, 90, -90};
  int n = h == w ? 6 : 4;
  char params[96];
  aug_kit k;
  snprintf(params, sizeof params, "{ degrees = 1, mode = \"%s\" }", mode);
  open_turned(&k, params, n, c, h, w, dtype, order, angles);
  void *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
  uint8_t *m = kit_get(&k, SPT_OUT, KIT_MASKS, 0);
  for (int64_t e = 0; e < n * c * h * w; e++) {
    int64_t s = e / (c * h * w), p = e / (h * w) % c, i = e / w % h, j = e % w, from_i = i, from_j = j;
    if (s == 1 || s == 2) from_i = h - 1 - i, from_j = w - 1 - j;
    if (s == 4) from_i = j, from_j = w - 1 - i; /* counter-clockwise */
    if (s == 5) from_i = h - 1 - j, from_j = i;
    double want = kit_at(x, dtype, ((s * c + p) * h + from_i) * w + from_j), got = kit_at(y, dtype, e);
    kit_each(fabs(got - want) <= (mode[0] == 'n'   ? 0
                                  : dtype == SP_U8 ? 1
                                                   : 255 * 2e-5),
             "%g degrees, %lld x %lld: pixel %lld, %lld is %g, not %g", (double)angles[s], (long long)h, (long long)w,
             (long long)i, (long long)j, got, want);
    if (p == 0) ck_assert_double_eq(m[(s * h + i) * w + j], kit_at(x, dtype, ((s * c) * h + from_i) * w + from_j));
  }
  free(x);
  free(y);
  free(m);
  kit_close(&k);
}

START_TEST(exact_turns) {
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++) {
      quarters(3, 16, 16, dtypes[d], orders[o], "nearest");
      quarters(1, 15, 15, dtypes[d], orders[o], "nearest");
      quarters(3, 9, 14, dtypes[d], orders[o], "nearest");
      quarters(2, 1, 1, dtypes[d], orders[o], "nearest");
      quarters(3, 1, 12, dtypes[d], orders[o], "nearest");
      quarters(3, 16, 16, dtypes[d], orders[o], "bilinear");
    }
}
END_TEST

/* Corners turn away; what comes in is the fill, and bilinear edges are blended with it. */
START_TEST(fills) {
  static const float angle[] = {45};
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++)
      for (int mode = 0; mode < 2; mode++) {
        aug_kit k;
        open_turned(&k,
                    mode ? "{ degrees = 1, fill = { 10, 20, 30 }, mask_fill = 77, mode = \"bilinear\" }"
                         : "{ degrees = 1, fill = { 10, 20, 30 }, mask_fill = 77 }",
                    1, 3, 20, 20, dtypes[d], orders[o], angle);
        void *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
        uint8_t *m = kit_get(&k, SPT_OUT, KIT_MASKS, 0);
        for (int c = 0; c < 3; c++) ck_assert_double_eq(kit_at(y, dtypes[d], c * 400), 10 + 10 * c);
        ck_assert_uint_eq(m[0], 77);
        ck_assert_uint_eq(m[399], 77);
        free(y);
        free(m);
        kit_close(&k);
      }
  aug_kit k; /* the label that losses ignore */
  open_turned(&k, "{ degrees = 1 }", 1, 1, 20, 20, SP_U8, 0, angle);
  uint8_t *m = kit_get(&k, SPT_OUT, KIT_MASKS, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
  ck_assert_uint_eq(m[0], 255);
  ck_assert_uint_eq(y[0], 0);
  free(m);
  free(y);
  kit_close(&k);
}
END_TEST

/* Turned by 45 degrees nothing sees the first pixel; what lies outside is not it, and not zero times it either. */
START_TEST(outside_is_nothing) {
  static const float angle[] = {45};
  for (int o = 0; o < 2; o++)
    for (int i = 0; i < 2; i++) {
      int64_t n = 1;
      aug_kit k;
      kit_open(&k, "batch_rotate", "{ degrees = 1, mode = \"bilinear\", fill = 7 }", 1, 3, 20, 20, SP_F32, orders[o],
               false);
      kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 1, &n, SP_ROW_MAJOR, angle));
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
  kit_aligned("batch_rotate", "{ degrees = 45, mask_fill = 0 }");
  kit_aligned("batch_rotate", "{ degrees = { 100, 250 }, fill = 9, mask_fill = 9 }");
  kit_by_id("batch_rotate", "{ degrees = 45 }");
  kit_by_id("batch_rotate", "{ degrees = 45, mode = \"bilinear\", fill = 3 }");
  kit_draw_modes("batch_rotate", "{ degrees = 45 }", 0);
}
END_TEST

START_TEST(draws) {
  kit_uniform("batch_rotate", "{ degrees = 45 }", 1, 1, 0, -45, 45, 18);
  kit_uniform("batch_rotate", "{ degrees = -45 }", 1, 1, 0, -45, 45, 18);
  kit_uniform("batch_rotate", "{ degrees = { 10, 20 } }", 1, 1, 0, 10, 20, 10);
}
END_TEST

START_TEST(refusals) {
  kit_refuses("batch_rotate", "{}", 1, 3, 8, 8, "degrees");
  kit_refuses("batch_rotate", "{ degrees = 1e9 }", 1, 3, 8, 8, "degrees");
  kit_refuses("batch_rotate", "{ degrees = { 20, 10 } }", 1, 3, 8, 8,
              "degrees = {20, 10}: the first is the lowest angle");
  kit_refuses("batch_rotate", "{ degrees = 5, fill = { 1, 2 } }", 1, 3, 8, 8,
              "fill has 2 numbers, but image 1 has 3 channels; give one or as many");
  kit_refuses("batch_rotate", "{ degrees = 5, fill = 256 }", 1, 3, 8, 8,
              "fill is 256, but image 1 is of bytes: 0..255");
  aug_kit k;
  kit_open(&k, "batch_rotate", "{ degrees = 5, mask_fill = -1 }", 1, 3, 8, 8, SP_U8, 0, true);
  kit_refused(&k, spt_plan(k.t, 1), "mask_fill is -1, but mask 1 is of bytes: 0..255");
  kit_close(&k);
  static const float bad[][2] = {{1, NAN}, {INFINITY, 2}};
  int64_t two = 2, three = 3;
  for (int i = 0; i < 2; i++) {
    kit_open(&k, "batch_rotate", "{ degrees = 5 }", 2, 3, 8, 8, SP_U8, 0, false);
    kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 1, &two, 0, bad[i]));
    kit_plan(&k, 1);
    spt_set_id(k.t, 0, 40);
    spt_set_id(k.t, 1, 41);
    kit_refused(&k, spt_forward(k.t, 0),
                i ? "sample 40: an angle on 'angles' is not a finite number" : "sample 41: an angle on 'angles'");
    kit_close(&k);
  }
  kit_open(&k, "batch_rotate", "{ degrees = 5 }", 2, 3, 8, 8, SP_U8, 0, false);
  kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 1, &three, 0, NULL));
  kit_refused(&k, spt_plan(k.t, 1), "'angles' must be 2 numbers, one a sample");
  kit_close(&k);
}
END_TEST

START_TEST(nan_as_parameter) {
  sp_value v;
  sp_err err;
  ck_assert_int_eq(spt_table(&v, "{ degrees = 0.5 }", &err), SP_OK);
  sp_value_put(&v, "degrees")->d = NAN;
  spt *t = spt_new_value("batch_rotate", &v, 1);
  ck_assert_int_ne(spt_failed(t), SP_OK);
  ck_assert_msg(strstr(spt_error(t), "degrees") && strstr(spt_error(t), "a finite number"), "%s", spt_error(t));
  spt_free(t);
  sp_value_free(&v);
}
END_TEST

int main(void) {
  Suite *s = suite_create("rotate");
  TCase *c = tcase_create("rotate");
  tcase_set_timeout(c, 600);
  tcase_add_test(c, exact_turns);
  tcase_add_test(c, fills);
  tcase_add_test(c, outside_is_nothing);
  tcase_add_test(c, properties);
  tcase_add_test(c, draws);
  tcase_add_test(c, refusals);
  tcase_add_test(c, nan_as_parameter);
  suite_add_tcase(s, c);
  return suite_run(s);
}
