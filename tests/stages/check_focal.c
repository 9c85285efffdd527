/* SPDX-License-Identifier: MIT
 * check_focal.c - the focal loss: values and gradients by its definition. What holds of every loss is in
 * check_cross_entropy.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "tests/kit/harness.h"
#include "tests/kit/suite.h"

enum { LOGITS, LABELS };
enum { LOSS, STATUS, VALID };

static const int orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};
static spt *t;

static void teardown(void) {
  spt_free(t);
  t = NULL;
}

static void ok(int rc) { ck_assert_msg(rc == SP_OK, "%s", spt_error(t)); }

/* Each fifth label is ignored. */
static void stage(const char *params, int64_t n, int64_t c, int64_t h, int order, int64_t *y) {
  int64_t x[4] = {n, c, h, h}, shape[3] = {n, h, h}, all = n * c * h * h;
  float *v = malloc((size_t)all * sizeof *v);
  ck_assert_ptr_nonnull(v);
  spt_random(v, all, 11, -6, 6);
  for (int64_t i = 0; i < n * h * h; i++) y[i] = i % 5 == 2 ? -100 : i * 7919 % c;
  spt_free(t);
  t = spt_new("focal", params, 2);
  ok(spt_failed(t));
  ok(spt_input_of(t, LOGITS, SP_F32, 4, x, order, v));
  ok(spt_input_of(t, LABELS, SP_I64, 3, shape, 0, y));
  ok(spt_plan(t, 1));
  free(v);
}

/* Each class's logit against all others: weight * (1 - p)^gamma * -log p, and by differences in double its slope. */
static double term(double x, int own, double gamma, double alpha) {
  double cost = log1p(exp(own ? -x : x)), wrong = -expm1(-cost);
  return (alpha < 0 ? 1 : own ? alpha : 1 - alpha) * pow(wrong, gamma) * cost;
}

static void compare(int64_t n, int64_t c, int64_t h, int order, const char *params, double gamma, double alpha) {
  int64_t px = h * h, count = n * c * px, *y = calloc((size_t)(n * px), sizeof *y), valid, m = 0;
  float *x = malloc((size_t)count * sizeof *x), *g = malloc((size_t)count * sizeof *g), loss;
  double want = 0, step = 1e-5;
  ck_assert(y && x && g);
  stage(params, n, c, h, order, y);
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_IN, LOGITS, 0, x));
  ok(spt_get(t, SPT_DIN, LOGITS, 0, g));
  ok(spt_get(t, SPT_OUT, LOSS, 0, &loss));
  ok(spt_get(t, SPT_OUT, VALID, 0, &valid));
  for (int64_t i = 0; i < n * px; i++) m += y[i] >= 0;
  ck_assert_int_eq(valid, m);
  for (int64_t i = 0; i < n * px; i++)
    for (int64_t k = 0; k < c; k++) {
      int64_t at = (i / px * c + k) * px + i % px;
      int own = y[i] == k, counts = y[i] >= 0;
      double slope = (term(x[at] + step, own, gamma, alpha) - term(x[at] - step, own, gamma, alpha)) / (2 * step);
      if (counts) want += term(x[at], own, gamma, alpha) / (double)m;
      ck_assert_double_eq_tol(g[at], counts ? slope / (double)m : 0, 1e-6 * fabs(slope) / (double)m + 1e-9 / (double)m);
    }
  ck_assert_double_eq_tol(loss, want, 1e-6 * want + 1e-12);
  free(y), free(x), free(g);
}

START_TEST(equals_the_formula) {
  int order = orders[_i];
  compare(1, 1, 1, order, NULL, 2, -1);
  compare(2, 3, 5, order, NULL, 2, -1);
  compare(2, 10, 37, order, "{ gamma = 1.5, alpha = 0.25 }", 1.5, 0.25);
  compare(2, 65, 9, order, "{ gamma = 0 }", 0, -1);
  compare(2, 4, 9, order, "{ gamma = 0.5, alpha = 0 }", 0.5, 0);
}
END_TEST

START_TEST(gradient_is_the_slope) {
  int64_t y[2 * 16];
  stage(_i / 2 ? "{ gamma = 1, alpha = 0.75, weight = 3 }" : NULL, 2, 5, 4, orders[_i % 2], y);
  ok(spt_gradcheck(t, 1e-2, 2e-3, 1e-5, 120));
}
END_TEST

START_TEST(alpha_out_of_range) {
  t = spt_new("focal", "{ alpha = -0.5 }", 1);
  ck_assert_int_eq(spt_failed(t), SP_E_RANGE);
  ck_assert_msg(strstr(spt_error(t), "alpha is -0.5, but must be 0 to 1, or -1 for none"), "%s", spt_error(t));
}
END_TEST

int main(void) {
  Suite *s = suite_create("focal");
  TCase *c = tcase_create("focal");
  tcase_add_checked_fixture(c, NULL, teardown);
  tcase_add_loop_test(c, equals_the_formula, 0, 2);
  tcase_add_loop_test(c, gradient_is_the_slope, 0, 4);
  tcase_add_test(c, alpha_out_of_range);
  suite_add_tcase(s, c);
  return suite_run(s);
}
