/* SPDX-License-Identifier: MIT
 * check_metrics.c - what score_histogram, calibration, deviation, depth_error and boundary count on the device: the
 * bits of the cpu, in any batch, captured and replayed, and the same failures. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <check.h>

#include "tests/kit/twin.h"

static const twin_limits same_bits = {0, 0, 0, 0};
static const int orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

enum { U8, I32, I64, FLOATS };

static const struct {
  const char *stage, *name, *params;
  int ndim;
  int64_t shape[4];
  int targets;
} cases[] = {{"score_histogram", "one sample", NULL, 2, {1, 2}, I64},
             {"score_histogram", "classes", NULL, 2, {300, 7}, I32},
             {"score_histogram", "odds in few bins", "{ bins = 64 }", 4, {2, 5, 19, 23}, I64},
             {"score_histogram", "bins beyond shared memory", "{ bins = 8192 }", 4, {2, 3, 9, 9}, I64},
             {"score_histogram", "probability", "{ scale = 'probability', bins = 101 }", 4, {3, 4, 17, 17}, I32},
             {"score_histogram", "one logit", "{ ignore_index = 255 }", 4, {2, 1, 31, 9}, U8},
             {"score_histogram", "numbers", NULL, 2, {90, 6}, FLOATS},
             {"score_histogram", "maps of numbers", NULL, 4, {2, 3, 13, 11}, FLOATS},
             {"calibration", "one sample", NULL, 2, {1, 3}, I64},
             {"calibration", "classes", NULL, 2, {300, 7}, I32},
             {"calibration", "masks", "{ bins = 4 }", 4, {2, 5, 19, 23}, I64},
             {"calibration", "one logit", "{ ignore_index = 255 }", 4, {2, 1, 31, 9}, U8},
             {"calibration", "numbers", "{ bins = 1000 }", 4, {2, 3, 13, 11}, FLOATS},
             {"deviation", "one number", NULL, 2, {1, 1}, FLOATS},
             {"deviation", "a list", NULL, 1, {700}, FLOATS},
             {"deviation", "columns", NULL, 2, {300, 5}, FLOATS},
             {"deviation", "maps", NULL, 4, {3, 2, 23, 29}, FLOATS},
             {"depth_error", "a list", "{ least = 0.5 }", 1, {700}, FLOATS},
             {"depth_error", "maps", "{ least = 0.1, scale = 2.5, offset = 6.3 }", 4, {3, 2, 23, 29}, FLOATS},
             {"boundary", "one pixel", NULL, 4, {1, 2, 1, 1}, I64},
             {"boundary", "masks", NULL, 4, {2, 3, 21, 27}, I32},
             {"boundary", "far", "{ tolerance = 4, ignore_index = 255 }", 4, {3, 5, 12, 15}, U8},
             {"boundary", "one logit", "{ tolerance = 2 }", 4, {2, 1, 16, 16}, I64}};

/* Numbers with some that are not known; labels in blocks, so that they have boundaries. */
static void targets(twin *w, int k, int order) {
  int64_t n = 1, shape[4] = {cases[k].shape[0]};
  int type = cases[k].targets, ndim = cases[k].ndim, rows = 1;
  for (int d = 1, to = 1; d < ndim; d++)
    if (type == FLOATS || d > 1) shape[to++] = cases[k].shape[d];
  ndim -= type != FLOATS;
  for (int d = 0; d < ndim; d++) n *= shape[d];
  if (ndim == 3) rows = (int)shape[2];
  int64_t classes = cases[k].shape[1] > 1 ? cases[k].shape[1] : 2;
  void *y = calloc((size_t)n, 8);
  ck_assert_ptr_nonnull(y);
  if (type == FLOATS) spt_random(y, n, 9, cases[k].stage[0] == 'd' ? -3.0f : -0.5f, 1.0f);
  for (int64_t i = 0; i < n; i++) {
    int64_t v = (i % rows / 3 + i / rows / 4 * 2) % classes;
    if (type == FLOATS && i % 11 == 3) ((float *)y)[i] = NAN;
    if (type == U8) ((uint8_t *)y)[i] = i % 13 == 6 ? 255 : (uint8_t)v;
    if (type == I32) ((int32_t *)y)[i] = i % 13 == 6 ? -100 : (int32_t)v;
    if (type == I64) ((int64_t *)y)[i] = i % 13 == 6 ? -100 : v;
  }
  static const int types[] = {SP_U8, SP_I32, SP_I64, SP_F32};
  twin_input(w, 1, types[type], ndim, shape, type == FLOATS && ndim == 4 ? order : SP_ROW_MAJOR, y);
  free(y);
}

/* Logits of some size, with a few that are no numbers, infinite, or as sure as can be. */
static void logits(twin *w, int k, int order, float spread) {
  int64_t n = 1;
  for (int d = 0; d < cases[k].ndim; d++) n *= cases[k].shape[d];
  float *x = malloc((size_t)n * sizeof *x);
  ck_assert_ptr_nonnull(x);
  spt_random(x, n, (uint64_t)k + 1, -spread, spread);
  for (int64_t i = 0; i < n && n > 20; i++)
    if (i % 97 == 50) x[i] = i % 2 ? NAN : i % 3 ? INFINITY : -INFINITY;
    else if (i % 89 == 7) x[i] = i % 2 ? 400.0f : -60.0f;
  twin_input(w, 0, SP_F32, cases[k].ndim, cases[k].shape, cases[k].ndim == 4 ? order : SP_ROW_MAJOR, x);
  free(x);
}

START_TEST(counts) {
  for (int order = 0; order < (cases[_i].ndim == 4 ? 4 : 1); order++) {
    twin w;
    if (order > 1 && cases[_i].targets != FLOATS) break;
    twin_open(&w, cases[_i].stage, cases[_i].name, cases[_i].params, SP_PRECISION_FP32, same_bits);
    logits(&w, _i, orders[order % 2], 6);
    targets(&w, _i, orders[order / 2]);
    twin_plan(&w, 0);
    twin_forward(&w, 0);
    twin_compare(&w, SPT_OUT);
    twin_repeat(&w, false);
    if (cases[_i].shape[0] > 1) {
      twin_run_batch(&w, cases[_i].shape[0] - 1);
      twin_forward(&w, 2);
      twin_compare(&w, SPT_OUT);
    }
    twin_close(&w);
  }
}
END_TEST

static const struct {
  const char *stage;
  int64_t classes;
  int numbers;
  int64_t at, value; /* of targets */
} bad[] = {{"score_histogram", 3, 0, 41, 3}, {"score_histogram", 1, 0, 7, 2}, {"score_histogram", 3, 1, 100, 2},
           {"calibration", 3, 0, 41, -1},    {"calibration", 1, 0, 83, 2},    {"calibration", 3, 1, 3, 2},
           {"boundary", 3, 0, 42, 3},        {"boundary", 1, 0, 0, 2}};

START_TEST(bad_targets) {
  int64_t shape[4] = {2, bad[_i].classes, 6, 7}, rows[3] = {2, 6, 7};
  float x[2 * 3 * 42] = {0}, t[2 * 3 * 42] = {0};
  int64_t y[84] = {0};
  twin w;
  t[bad[_i].at] = (float)bad[_i].value;
  y[bad[_i].at % 84] = bad[_i].value;
  twin_open(&w, bad[_i].stage, "bad target", NULL, SP_PRECISION_FP32, same_bits);
  twin_input(&w, 0, SP_F32, 4, shape, SP_ROW_MAJOR, x);
  if (bad[_i].numbers) twin_input(&w, 1, SP_F32, 4, shape, SP_ROW_MAJOR, t);
  else twin_input(&w, 1, SP_I64, 3, rows, SP_ROW_MAJOR, y);
  twin_plan(&w, 0);
  int a = spt_forward(w.a, 5), b = spt_forward(w.b, 5);
  ck_assert_int_eq(a, bad[_i].numbers ? SP_E_RANGE : SP_E_DATA);
  ck_assert_int_eq(a, b);
  ck_assert_str_eq(spt_error(w.a), spt_error(w.b));
  twin_close(&w);
}
END_TEST

int main(void) {
  Suite *s = suite_create("cuda metrics");
  TCase *c = tcase_create("metrics");
  tcase_add_loop_test(c, counts, 0, (int)SP_ARRAY(cases));
  tcase_add_loop_test(c, bad_targets, 0, (int)SP_ARRAY(bad));
  suite_add_tcase(s, c);
  return twin_run(s);
}
