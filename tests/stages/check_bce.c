/* SPDX-License-Identifier: MIT
 * check_bce.c - bce, mse, l1 and huber: values and gradients by their definitions, targets in either order, refusals,
 * and the same bits however the work is cut. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "tests/kit/harness.h"
#include "tests/kit/suite.h"

enum { LOGITS, LABELS };
enum { LOSS, STATUS, VALID };
enum { BCE, MSE, L1, HUBER, KINDS };

static const char *const names[KINDS] = {"bce", "mse", "l1", "huber"};
static const char *const given[KINDS] = {"{ pos_weight = 3 }", "{ weight = 0.5 }", "{ weight = 0.5 }",
                                         "{ weight = 0.5, delta = 1.5 }"};
#define DELTA 1.5

static const int orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};
static spt *t;

static void teardown(void) {
  spt_free(t);
  t = NULL;
}

static void ok(int rc) { ck_assert_msg(rc == SP_OK, "%s", spt_error(t)); }

static void begin(const char *name, const char *params, int threads, const int64_t *shape, int order, float lo,
                  float hi) {
  int64_t all = shape[0] * shape[1] * shape[2] * shape[3];
  float *v = malloc((size_t)all * sizeof *v);
  ck_assert_ptr_nonnull(v);
  spt_random(v, all, 11, lo, hi);
  spt_free(t);
  t = spt_new(name, params, threads);
  ok(spt_failed(t));
  ok(spt_input_of(t, LOGITS, SP_F32, 4, shape, order, v));
  free(v);
}

static void float_targets(const int64_t *shape, int order) {
  int64_t all = shape[0] * shape[1] * shape[2] * shape[3];
  float *v = malloc((size_t)all * sizeof *v);
  ck_assert_ptr_nonnull(v);
  spt_random(v, all, 12, 0, 1);
  ok(spt_input_of(t, LABELS, SP_F32, 4, shape, order, v));
  free(v);
}

/* Of x and the target y; w: what a 1 counts. */
static double bce(double x, double y, double w) { return (1 - y) * log1p(exp(x)) + w * y * log1p(exp(-x)); }
static double bce_slope(double x, double y, double w) { return (1 - y) / (1 + exp(-x)) - w * y / (1 + exp(x)); }

static double cost(int kind, double d) {
  if (kind == MSE) return d * d;
  if (kind == L1) return fabs(d);
  return fabs(d) > DELTA ? DELTA * (fabs(d) - DELTA / 2) : d * d / 2;
}
static double cost_slope(int kind, double d) {
  if (kind == MSE) return 2 * d;
  if (kind == L1) return (d > 0) - (d < 0);
  return fabs(d) > DELTA ? DELTA * ((d > 0) - (d < 0)) : d;
}

/* Runs, and compares with the sums over `counted` numbers; y is in row-major order, below 0 where it does not count. */
static void compare(int64_t all, const float *y, int kind, double w, double weight) {
  float *x = malloc((size_t)all * sizeof *x), *g = malloc((size_t)all * sizeof *g), loss;
  double want = 0;
  int64_t valid, m = 0;
  ck_assert(x && g);
  ok(spt_plan(t, 1));
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_IN, LOGITS, 0, x));
  ok(spt_get(t, SPT_DIN, LOGITS, 0, g));
  ok(spt_get(t, SPT_OUT, LOSS, 0, &loss));
  ok(spt_get(t, SPT_OUT, VALID, 0, &valid));
  for (int64_t i = 0; i < all; i++) m += y[i] >= 0;
  ck_assert_int_eq(valid, m);
  for (int64_t i = 0; i < all; i++) {
    double d = (double)x[i] - y[i], k = weight / (double)m;
    double slope = kind == BCE ? bce_slope(x[i], y[i], w) : cost_slope(kind, d);
    if (y[i] < 0) slope = 0;
    else want += k * (kind == BCE ? bce(x[i], y[i], w) : cost(kind, d));
    ck_assert_double_eq_tol(g[i], k * slope, 1e-6 * fabs(k * slope) + 1e-7 * fabs(k));
  }
  ck_assert_double_eq_tol(loss, want, 1e-6 * fabs(want));
  free(x), free(g);
}

static const int64_t shapes[][4] = {{1, 1, 1, 1}, {2, 3, 4, 5}, {2, 10, 37, 41}, {3, 65, 9, 7}};

START_TEST(numbers_as_targets) {
  for (size_t k = 0; k < SP_ARRAY(shapes); k++)
    for (int kind = 0; kind < KINDS; kind++) {
      const int64_t *s = shapes[k], all = s[0] * s[1] * s[2] * s[3];
      float *y = malloc((size_t)all * sizeof *y);
      ck_assert_ptr_nonnull(y);
      begin(names[kind], given[kind], 2, s, orders[_i % 2], -6, 6);
      float_targets(s, orders[_i / 2]);
      ok(spt_plan(t, 1));
      ok(spt_get(t, SPT_IN, LABELS, 0, y));
      compare(all, y, kind, 3, kind == BCE ? 1 : 0.5);
      free(y);
    }
}
END_TEST

START_TEST(labels_as_targets) {
  static const int64_t s[4] = {3, 1, 33, 40}, rows[3] = {3, 33, 40};
  enum { ALL = 3 * 33 * 40 };
  uint8_t labels[ALL];
  float *y = malloc(ALL * sizeof *y);
  ck_assert_ptr_nonnull(y);
  for (int i = 0; i < ALL; i++)
    labels[i] = i % 7 == 3 ? 255 : i * 31 % 3 == 0, y[i] = labels[i] == 255 ? -1 : labels[i];
  begin("bce", "{ pos_weight = 0.25, ignore_index = 255, weight = 2 }", 2, s, orders[_i], -6, 6);
  ok(spt_input_of(t, LABELS, SP_U8, 3, rows, 0, labels));
  compare(ALL, y, BCE, 0.25, 2);
  labels[2 * 33 * 40 + 5] = 2;
  ok(spt_set(t, SPT_IN, LABELS, 0, labels));
  ck_assert_int_eq(spt_forward(t, 0), SP_E_DATA);
  ck_assert_msg(strstr(spt_error(t), "sample 2: label 2 is outside 0..1"), "%s", spt_error(t));
  for (int i = 0; i < ALL; i++) labels[i] = 255;
  ok(spt_set(t, SPT_IN, LABELS, 0, labels));
  ok(spt_forward(t, 0));
  float loss;
  ok(spt_get(t, SPT_OUT, LOSS, 0, &loss));
  ck_assert_float_eq(loss, 0);
  free(y);
}
END_TEST

START_TEST(gradients_are_slopes) {
  static const int64_t s[4] = {2, 3, 4, 5};
  begin(names[_i / 4], given[_i / 4], 2, s, orders[_i / 2 % 2], 1.1f, 4); /* away from where a slope jumps */
  float_targets(s, orders[_i % 2]);
  ok(spt_plan(t, 1));
  ok(spt_gradcheck(t, 1e-2, 2e-3, 1e-5, 120));
}
END_TEST

START_TEST(same_bits_for_any_team) {
  static const int64_t s[4] = {2, 10, 60, 61};
  enum { ALL = 2 * 10 * 60 * 61 };
  float *first = malloc(ALL * sizeof *first), *g = malloc(ALL * sizeof *g), loss[3];
  ck_assert(first && g);
  for (int k = 0; k < 3; k++) {
    begin(names[_i], NULL, 1 + k, s, SP_ROW_MAJOR, -6, 6);
    float_targets(s, SP_CHANNELS_LAST);
    ok(spt_plan(t, 1));
    ok(spt_forward(t, 0));
    ok(spt_get(t, SPT_DIN, LOGITS, 0, k ? g : first));
    ok(spt_get(t, SPT_OUT, LOSS, 0, &loss[k]));
    ck_assert_mem_eq(&loss[k], loss, sizeof *loss);
    if (k) ck_assert_mem_eq(g, first, ALL * sizeof *g);
  }
  free(first), free(g);
}
END_TEST

START_TEST(a_loss_that_is_not_finite_stops) {
  static const int64_t s[4] = {1, 2, 1, 2};
  float x[4] = {0, 1, NAN, 2};
  for (int k = 0; k < 2; k++) {
    begin(names[_i], k ? "{ nonfinite = 'ignore' }" : NULL, 1, s, SP_ROW_MAJOR, -1, 1);
    float_targets(s, SP_ROW_MAJOR);
    ok(spt_plan(t, 1));
    ok(spt_set(t, SPT_IN, LOGITS, 0, x));
    ck_assert_int_eq(spt_forward(t, 0), k ? SP_OK : SP_E_RANGE);
    if (!k) ck_assert_msg(strstr(spt_error(t), "the loss is not finite"), "%s", spt_error(t));
  }
}
END_TEST

START_TEST(targets_are_probabilities) {
  static const int64_t s[4] = {2, 3, 4, 5};
  static const float bad[] = {1.25f, -0.5f, NAN};
  static const char *const words[] = {"target 1.25 is", "target -0.5 is", "target nan is"};
  float y[120] = {0};
  for (int k = 0; k < 3; k++) {
    begin("bce", NULL, 2, s, orders[_i % 2], -1, 1);
    y[61] = bad[k], y[100] = 9;
    ok(spt_input_of(t, LABELS, SP_F32, 4, s, orders[_i / 2], y));
    ok(spt_plan(t, 1));
    spt_set_id(t, 1, 12);
    ck_assert_int_eq(spt_forward(t, 0), SP_E_INVALID);
    ck_assert_msg(strstr(spt_error(t), "sample 12: target ") != NULL, "%s", spt_error(t));
    ck_assert_msg(strstr(spt_error(t), words[k]) || _i / 2, "%s", spt_error(t)); /* the first as they lie in memory */
    ck_assert_msg(strstr(spt_error(t), "outside 0..1") != NULL, "%s", spt_error(t));
  }
}
END_TEST

static void refused(const char *name, int type, int dims, const int64_t *target, int order, const char *words) {
  static const int64_t s[4] = {2, 3, 4, 5};
  begin(name, NULL, 1, s, SP_ROW_MAJOR, -1, 1);
  ok(spt_input_of(t, LABELS, type, dims, target, order, NULL));
  ck_assert_int_ne(spt_plan(t, 1), SP_OK);
  ck_assert_msg(strstr(spt_error(t), words), "'%s' is not in '%s'", words, spt_error(t));
}

START_TEST(shapes_that_do_not_fit) {
  static const int64_t other[4] = {2, 3, 5, 4}, three[3] = {2, 4, 5}, same[4] = {2, 3, 4, 5};
  for (int k = 0; k < KINDS; k++) {
    refused(names[k], SP_F32, 4, other, 0, "dimension 2 of the target is 5, of the input 4");
    refused(names[k], SP_F32, 3, three, 0, "the target has 3 dimensions, the input 4");
    refused(names[k], SP_F32, 4, same, SP_ORDER4(3, 2, 1, 0), "the target is neither row-major nor channels-last");
  }
  refused("bce", SP_I32, 3, three, 0, "labels of 0 and 1 want one logit each, but dimension 1 is 3");
  refused("bce", SP_I32, 4, same, 0, "labels are 2 x 3 x 4 x 5, but the logits want 2 x 4 x 5");
}
END_TEST

int main(void) {
  Suite *s = suite_create("bce");
  TCase *c = tcase_create("bce");
  tcase_add_checked_fixture(c, NULL, teardown);
  tcase_add_loop_test(c, numbers_as_targets, 0, 4);
  tcase_add_loop_test(c, labels_as_targets, 0, 2);
  tcase_add_loop_test(c, gradients_are_slopes, 0, 4 * KINDS);
  tcase_add_loop_test(c, same_bits_for_any_team, 0, KINDS);
  tcase_add_loop_test(c, a_loss_that_is_not_finite_stops, 0, KINDS);
  tcase_add_loop_test(c, targets_are_probabilities, 0, 4);
  tcase_add_test(c, shapes_that_do_not_fit);
  suite_add_tcase(s, c);
  return suite_run(s);
}
