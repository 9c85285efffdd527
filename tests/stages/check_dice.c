/* SPDX-License-Identifier: MIT
 * check_dice.c - the losses dice, jaccard and tversky: values and gradients by their definitions. What holds of every
 * loss is in check_cross_entropy.c. */
#include <math.h>
#include <stdlib.h>

#include <check.h>

#include "tests/kit/harness.h"
#include "tests/kit/suite.h"

enum { LOGITS, LABELS };

static const int orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};
static spt *t;

static void teardown(void) {
  spt_free(t);
  t = NULL;
}

static void ok(int rc) { ck_assert_msg(rc == SP_OK, "%s", spt_error(t)); }

/* Labels of every class but the last two, each fifth is ignored. */
static void stage(const char *name, const char *params, int64_t n, int64_t c, int64_t h, int64_t w, int order,
                  int64_t *y) {
  int64_t x[4] = {n, c, h, w}, shape[3] = {n, h, w}, all = n * c * h * w;
  float *v = malloc((size_t)all * sizeof *v);
  ck_assert_ptr_nonnull(v);
  spt_random(v, all, 11, -4, 4);
  for (int64_t i = 0; i < n * h * w; i++) y[i] = i % 5 == 2 ? -100 : i * 7919 % (c > 2 ? c - 2 : c);
  spt_free(t);
  t = spt_new(name, params, 2);
  ok(spt_failed(t));
  ok(spt_input_of(t, LOGITS, SP_F32, 4, x, order, v));
  ok(spt_input_of(t, LABELS, SP_I64, 3, shape, 0, y));
  ok(spt_plan(t, 1));
  free(v);
}

/* p and the sums of each class: 0 both, 1 probabilities, 2 labels. */
static void sums_of(const float *x, const int64_t *y, int64_t n, int64_t c, int64_t px, double *p, double *sums) {
  for (int64_t i = 0; i < n * px; i++) {
    int64_t at = i / px * c * px + i % px;
    double all = 0;
    for (int64_t k = 0; k < c; k++) all += exp(x[at + k * px]);
    for (int64_t k = 0; k < c; k++) {
      p[at + k * px] = exp(x[at + k * px]) / all;
      if (y[i] < 0) continue;
      sums[3 * k + 1] += p[at + k * px];
      if (y[i] == k) sums[3 * k] += p[at + k * px], sums[3 * k + 2] += 1;
    }
  }
}

/* The score is
 * (top * both + smooth) / (alpha * false positives + beta * false negatives + both_below * both + smooth). */
typedef struct form {
  const char *name;
  double top, alpha, beta, both_below, gamma;
} form;
static const form dice = {"dice", 2, 1, 1, 2, 1}, jaccard = {"jaccard", 1, 1, 1, 1, 1};

static double below(const form *f, const double *s) {
  return f->alpha * (s[1] - s[0]) + f->beta * (s[2] - s[0]) + f->both_below * s[0];
}

static void compare(const form *f, int64_t n, int64_t c, int64_t h, int order, const char *params, double smooth,
                    double eps) {
  int64_t px = h * h, count = n * c * px, *y = calloc((size_t)(n * px), sizeof *y);
  float *x = malloc((size_t)count * sizeof *x), *g = malloc((size_t)count * sizeof *g), loss;
  double *p = malloc((size_t)count * sizeof *p), *sums = calloc((size_t)c * 3, sizeof *sums), want = 0, most = 0;
  ck_assert(y && x && g && p && sums);
  stage(f->name, params, n, c, h, h, order, y);
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_IN, LOGITS, 0, x));
  ok(spt_get(t, SPT_DIN, LOGITS, 0, g));
  ok(spt_get(t, SPT_OUT, 0, 0, &loss));
  sums_of(x, y, n, c, px, p, sums);
  for (int64_t k = 0; k < c; k++) {
    const double *s = &sums[3 * k];
    if (s[2] > 0) want += (1 - (f->top * s[0] + smooth) / fmax(below(f, s) + smooth, eps)) / (double)c;
  }
  double steep = want > 0 ? f->gamma * pow(want, f->gamma - 1) : 0;
  want = pow(want, f->gamma);
  ck_assert_double_eq_tol(loss, want, 1e-6 * fabs(want) + 1e-12);
  for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(g[i]));
  for (int64_t i = 0; i < n * px; i++) {
    int64_t at = i / px * c * px + i % px;
    double mean = 0, q[128];
    for (int64_t k = 0; k < c; k++) {
      const double *s = &sums[3 * k];
      double d = fmax(below(f, s) + smooth, eps), counts = s[2] > 0 && y[i] >= 0;
      double own = y[i] == k, falls = below(f, s) + smooth < eps ? 0 : own ? f->both_below - f->beta : f->alpha;
      q[k] = steep * counts / (double)c * ((f->top * s[0] + smooth) / (d * d) * falls - own * f->top / d);
      mean += q[k] * p[at + k * px];
    }
    for (int64_t k = 0; k < c; k++)
      ck_assert_double_eq_tol(g[at + k * px], p[at + k * px] * (q[k] - mean), 1e-6 * most + 1e-12);
  }
  free(y), free(x), free(g), free(p), free(sums);
}

START_TEST(equals_the_formula) {
  int order = orders[_i];
  const form focal = {"tversky", 1, 0.3, 0.7, 1, 0.75}, steep = {"tversky", 1, 0.5, 0.5, 1, 2},
             forms[] = {dice, jaccard};
  for (int k = 0; k < 2; k++) {
    compare(&forms[k], 1, 1, 1, order, NULL, 0, 1e-7);
    compare(&forms[k], 2, 3, 5, order, NULL, 0, 1e-7);
    compare(&forms[k], 2, 10, 37, order, "{ smooth = 1 }", 1, 1e-7);
    compare(&forms[k], 2, 65, 9, order, "{ eps = 1e-3 }", 0, 1e-3);
    compare(&forms[k], 2, 5, 9, order, "{ eps = 60 }", 0, 60); /* larger than some classes' sums */
  }
  compare(&focal, 2, 3, 5, order, "{ alpha = 0.3, beta = 0.7, gamma = 0.75 }", 0, 1e-7);
  compare(&focal, 2, 10, 37, order, "{ alpha = 0.3, beta = 0.7, gamma = 0.75, smooth = 2 }", 2, 1e-7);
  compare(&steep, 2, 5, 9, order, "{ gamma = 2, eps = 30 }", 0, 30);
}
END_TEST

START_TEST(gradient_is_the_slope) {
  int64_t y[2 * 3 * 4];
  static const char *const names[] = {"dice", "dice", "jaccard", "tversky"};
  static const char *const params[] = {NULL, "{ smooth = 2, weight = 3, eps = 9 }", NULL,
                                       "{ alpha = 0.2, gamma = 1.5 }"};
  stage(names[_i / 2], params[_i / 2], 2, 5, 3, 4, orders[_i % 2], y);
  ok(spt_gradcheck(t, 1e-2, 2e-3, 1e-5, 120));
}
END_TEST

/* Scores that are all 1: the power of 0, and no slope. */
START_TEST(nothing_wrong) {
  int64_t y[4], all = 4;
  float x[8], g[8], loss;
  stage("tversky", _i ? "{ gamma = 0.5 }" : "{ gamma = 2 }", 1, 2, 2, 2, SP_ROW_MAJOR, y);
  for (int i = 0; i < all; i++) x[i] = y[i] ? -200 : 200, x[all + i] = -x[i];
  ok(spt_set(t, SPT_IN, LOGITS, 0, x));
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_OUT, 0, 0, &loss));
  ok(spt_get(t, SPT_DIN, LOGITS, 0, g));
  ck_assert_float_eq(loss, 0);
  for (int i = 0; i < 2 * all; i++) ck_assert_float_eq(g[i], 0);
}
END_TEST

int main(void) {
  Suite *s = suite_create("dice");
  TCase *c = tcase_create("dice");
  tcase_add_checked_fixture(c, NULL, teardown);
  tcase_add_loop_test(c, equals_the_formula, 0, 2);
  tcase_add_loop_test(c, gradient_is_the_slope, 0, 8);
  tcase_add_loop_test(c, nothing_wrong, 0, 2);
  suite_add_tcase(s, c);
  return suite_run(s);
}
