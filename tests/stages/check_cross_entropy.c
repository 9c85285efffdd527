/* SPDX-License-Identifier: MIT
 * check_cross_entropy.c - cross_entropy and confusion: values, gradients; and of all losses against class labels:
 * refusals, and the same bits however the work is cut. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "tests/kit/harness.h"
#include "tests/kit/suite.h"

enum { LOGITS, LABELS };
enum { LOSS, STATUS, VALID };

static spt *t;

static void teardown(void) {
  spt_free(t);
  t = NULL;
}

static void ok(int rc) { ck_assert_msg(rc == SP_OK, "%s", spt_error(t)); }

/* Fills t with random logits of n x c x h x w and the given labels. */
static void stage(const char *name, const char *params, int threads, int64_t n, int64_t c, int64_t h, int64_t w,
                  int order, float spread, const int64_t *labels) {
  int64_t x[4] = {n, c, h, w}, y[3] = {n, h, w};
  float *v = malloc((size_t)(n * c * h * w) * sizeof *v);
  ck_assert_ptr_nonnull(v);
  spt_random(v, n * c * h * w, 11, -spread, spread);
  spt_free(t);
  t = spt_new(name, params, threads);
  ok(spt_failed(t));
  ok(spt_input_of(t, LOGITS, SP_F32, 4, x, order, v));
  ok(spt_input_of(t, LABELS, SP_I64, 3, y, 0, labels));
  free(v);
}

static int64_t *draw_labels(int64_t n, int64_t c) {
  int64_t *y = malloc((size_t)n * sizeof *y);
  ck_assert_ptr_nonnull(y);
  for (int64_t i = 0; i < n; i++) y[i] = i * 7919 % c;
  return y;
}

static float loss_value(void) {
  float v;
  ok(spt_get(t, SPT_OUT, LOSS, 0, &v));
  return v;
}

/* The textbook formula in double. */
static double reference(const float *x, const int64_t *y, int64_t n, int64_t c, int64_t px, int64_t ignore,
                        double *grad) {
  double loss = 0;
  int64_t m = 0;
  for (int64_t i = 0; i < n * px; i++) m += y[i] != ignore;
  for (int64_t i = 0; i < n; i++)
    for (int64_t p = 0; p < px; p++) {
      const float *v = x + i * c * px + p;
      double top = -INFINITY, sum = 0;
      int64_t label = y[i * px + p];
      for (int64_t k = 0; k < c; k++) top = fmax(top, v[k * px]);
      for (int64_t k = 0; k < c; k++) sum += exp(v[k * px] - top);
      for (int64_t k = 0; k < c; k++)
        grad[(i * c + k) * px + p] = label == ignore ? 0 : (exp(v[k * px] - top) / sum - (k == label)) / (double)m;
      if (label != ignore) loss += (log(sum) + top - v[label * px]) / (double)m;
    }
  return loss;
}

static void compare(int64_t n, int64_t c, int64_t h, int64_t w, int order, float spread, int threads) {
  int64_t count = n * c * h * w, px = h * w, *y = draw_labels(n * px, c);
  float *x = malloc((size_t)count * sizeof *x), *g = malloc((size_t)count * sizeof *g);
  double *want = malloc((size_t)count * sizeof *want);
  ck_assert(x && g && want);
  if (n * px > 3) y[3] = -100;
  stage("cross_entropy", NULL, threads, n, c, h, w, order, spread, y);
  ok(spt_plan(t, 1));
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_IN, LOGITS, 0, x));
  ok(spt_get(t, SPT_DIN, LOGITS, 0, g));
  double loss = reference(x, y, n, c, px, -100, want);
  ck_assert_double_eq_tol(loss_value(), loss, 1e-6 * loss + 1e-12);
  for (int64_t i = 0; i < count; i++)
    ck_assert_msg(fabs(g[i] - want[i]) <= 1e-6 * fabs(want[i]) + 1e-7 / (double)(n * px), "%lld: %.9g, not %.9g",
                  (long long)i, g[i], want[i]);
  free(x), free(g), free(want), free(y);
}

static const int orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};
/* What holds of each is tested here. */
static const char *const losses[] = {"cross_entropy", "dice", "focal", "jaccard", "tversky", "lovasz"};

START_TEST(equals_the_formula) {
  int order = orders[_i];
  compare(1, 1, 1, 1, order, 3, 1);
  compare(2, 3, 4, 5, order, 3, 2);
  compare(3, 10, 33, 37, order, 20, 2);
  compare(2, 64, 9, 9, order, 5, 2);
  compare(2, 65, 9, 9, order, 5, 2);
  compare(1, 1000, 3, 3, order, 5, 2);
  compare(2, 10, 80, 80, order, 200, 2);
}
END_TEST

/* PyTorch's definition with class weights: each class takes its share times its weight, the mean is over the weights of
 * the labels. */
static double smooth_reference(const float *x, const int64_t *y, int64_t n, int64_t c, int64_t px,
                               const double *weights, double smoothing, double *grad) {
  double loss = 0, sum = 0, even = 0;
  for (int64_t i = 0; i < n * px; i++) sum += y[i] < 0 ? 0 : weights[y[i]];
  for (int64_t k = 0; k < c; k++) even += weights[k] / (double)c;
  for (int64_t i = 0; i < n * px; i++) {
    const float *v = x + i / px * c * px + i % px;
    double top = -INFINITY, all = 0, own = y[i] < 0 ? 0 : (1 - smoothing) * weights[y[i]];
    for (int64_t k = 0; k < c; k++) top = fmax(top, v[k * px]);
    for (int64_t k = 0; k < c; k++) all += exp(v[k * px] - top);
    for (int64_t k = 0; k < c; k++) {
      double part = (k == y[i] ? own : 0) + smoothing / (double)c * weights[k], log_p = v[k * px] - top - log(all);
      double *g = &grad[(v - x) + k * px];
      *g = y[i] < 0 ? 0 : ((own + smoothing * even) * exp(log_p) - part) / sum;
      if (y[i] >= 0) loss -= part * log_p / sum;
    }
  }
  return loss;
}

static void compare_smooth(int64_t n, int64_t c, int64_t h, int order, const char *weights, float spread) {
  int64_t px = h * h, count = n * c * px, *y = draw_labels(n * px, c);
  float *x = malloc((size_t)count * sizeof *x), *g = malloc((size_t)count * sizeof *g);
  double *want = malloc((size_t)count * sizeof *want), *w = malloc((size_t)c * sizeof *w), heaviest = 0, unit = 0;
  char params[4096];
  size_t at =
      (size_t)snprintf(params, sizeof params, "{ label_smoothing = 0.15%s", weights ? ", class_weights = {" : "");
  ck_assert(x && g && want && w);
  for (int64_t k = 0; k < c; k++) {
    w[k] = weights ? 0.5 * (double)(k % 4) : 1;
    if (weights) at += (size_t)snprintf(params + at, sizeof params - at, "%g,", w[k]);
  }
  snprintf(params + at, sizeof params - at, "%s", weights ? "} }" : " }");
  for (int64_t i = 2; i < n * px; i += 5) y[i] = -100;
  stage("cross_entropy", params, 2, n, c, h, h, order, spread, y);
  ok(spt_plan(t, 1));
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_IN, LOGITS, 0, x));
  ok(spt_get(t, SPT_DIN, LOGITS, 0, g));
  double loss = smooth_reference(x, y, n, c, px, w, 0.15, want);
  ck_assert_double_eq_tol(loss_value(), loss, 1e-6 * loss);
  for (int64_t i = 0; i < n * px; i++) unit += y[i] < 0 ? 0 : w[y[i]];
  for (int64_t k = 0; k < c; k++) heaviest = fmax(heaviest, w[k]);
  for (int64_t i = 0; i < count; i++)
    ck_assert_msg(fabs(g[i] - want[i]) <= 1e-6 * fabs(want[i]) + 2e-7 * heaviest / unit, "%lld: %.9g, not %.9g",
                  (long long)i, g[i], want[i]);
  free(x), free(g), free(want), free(w), free(y);
}

START_TEST(smoothing_equals_the_formula) {
  static const int64_t classes[] = {2, 10, 64, 65, 130};
  for (size_t k = 0; k < SP_ARRAY(classes); k++) {
    compare_smooth(2, classes[k], 9, orders[_i], NULL, 5);
    compare_smooth(2, classes[k], 9, orders[_i], "some", 20);
  }
}
END_TEST

START_TEST(gradient_of_smoothing_is_the_slope) {
  static const int64_t classes[] = {5, 70};
  for (int k = 0; k < 2; k++) {
    int64_t *y = draw_labels(2 * 3 * 4, classes[k]);
    y[5] = -100;
    stage("cross_entropy",
          k ? "{ label_smoothing = 0.3 }" : "{ label_smoothing = 0.3, class_weights = {1, 2, 0.5, 0, 3} }", 2, 2,
          classes[k], 3, 4, orders[_i], 2, y);
    ok(spt_plan(t, 1));
    ok(spt_gradcheck(t, 1e-2, 2e-3, 1e-5, 120));
    free(y);
  }
}
END_TEST

START_TEST(gradient_is_the_slope) {
  int64_t *y = draw_labels(2 * 3 * 4, 5);
  y[5] = -100;
  stage("cross_entropy", "{ class_weights = { 1, 2, 0.5, 0, 3 }, weight = 1.5 }", 2, 2, 5, 3, 4, orders[_i], 2, y);
  ok(spt_plan(t, 1));
  ok(spt_gradcheck(t, 1e-2, 1e-3, 1e-5, 120));
  free(y);
}
END_TEST

START_TEST(same_bits_for_any_team_and_order) {
  enum { N = 2, C = 10, S = 100, ALL = N * C * S * S };
  int64_t *y = draw_labels(N * S * S, C);
  float *first = malloc(ALL * sizeof *first), *g = malloc(ALL * sizeof *g), loss = 0;
  ck_assert(first && g);
  for (int k = 0; k < 6; k++) {
    stage(_i ? losses[_i - 1] : "cross_entropy", _i ? NULL : "{ label_smoothing = 0.1 }", 1 + k % 3, N, C, S, S,
          orders[k / 3], 5, y);
    ok(spt_plan(t, 1));
    ok(spt_forward(t, 0));
    ok(spt_get(t, SPT_DIN, LOGITS, 0, k ? g : first));
    if (!k) loss = loss_value();
    else ck_assert_mem_eq(g, first, ALL * sizeof *g);
    /* the blocks of a row-major image end where its samples end, so the sum may round otherwise between orders only */
    if (k < 3) ck_assert_float_eq(loss_value(), loss);
    else ck_assert_float_eq_tol(loss_value(), loss, 1e-7f * loss);
  }
  free(y), free(first), free(g);
}
END_TEST

START_TEST(gradients_add_where_asked) {
  enum { N = 2, C = 7, S = 9 };
  static const int classes[] = {C, 70};
  for (int k = 0; k < 2; k++) {
    int64_t c = classes[k], all = N * c * S * S, *y = draw_labels(N * S * S, c);
    float *once = malloc((size_t)all * sizeof *once), *sum = malloc((size_t)all * sizeof *sum);
    ck_assert(once && sum);
    stage(losses[_i / 2], NULL, 2, N, c, S, S, orders[_i % 2], 5, y);
    ok(spt_plan(t, 1));
    ok(spt_forward(t, 0));
    ok(spt_get(t, SPT_DIN, LOGITS, 0, once));
    for (int64_t i = 0; i < all; i++) sum[i] = 1;
    ok(spt_set(t, SPT_DIN, LOGITS, 0, sum));
    spt_set_acc(t, 1, 0);
    ok(spt_forward(t, 0));
    ok(spt_get(t, SPT_DIN, LOGITS, 0, sum));
    for (int64_t i = 0; i < all; i++) ck_assert_float_eq_tol(sum[i], 1 + once[i], 2e-7f);
    free(once), free(sum), free(y);
  }
}
END_TEST

START_TEST(without_gradient) {
  int64_t *y = draw_labels(2 * 9, 4);
  stage(losses[_i / 2], NULL, 2, 2, 4, 3, 3, orders[_i % 2], 2, y);
  ok(spt_plan(t, 1));
  ok(spt_forward(t, 0));
  float with = loss_value();
  spt_want(t, SPT_DIN, LOGITS, 0, 0);
  ok(spt_forward(t, 0));
  ck_assert_float_eq(loss_value(), with);
  ok(spt_plan(t, 0));
  ok(spt_forward(t, 0));
  ck_assert_float_eq(loss_value(), with);
  free(y);
}
END_TEST

START_TEST(nothing_counts) {
  int64_t y[8], valid;
  float g[2 * 3 * 4];
  for (int i = 0; i < 8; i++) y[i] = 255;
  stage(losses[_i / 2], "{ ignore_index = 255 }", 2, 2, 3, 2, 2, orders[_i % 2], 2, y);
  ok(spt_plan(t, 1));
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_OUT, VALID, 0, &valid));
  ok(spt_get(t, SPT_DIN, LOGITS, 0, g));
  ck_assert_float_eq(loss_value(), 0);
  ck_assert_int_eq(valid, 0);
  for (int i = 0; i < 24; i++) ck_assert_float_eq(g[i], 0);
}
END_TEST

/* What lies under an ignored label must not matter, broken numbers included; elsewhere they must show. */
START_TEST(broken_numbers) {
  int64_t y[4] = {0, 255, 1, 2};
  float x[12], g[12];
  for (int i = 0; i < 12; i++) x[i] = (float)i / 4;
  for (int c = 0; c < 3; c++) x[c * 4 + 1] = c ? INFINITY : NAN;
  stage(losses[_i / 2], "{ ignore_index = 255, nonfinite = 'ignore' }", 2, 1, 3, 2, 2, orders[_i % 2], 2, y);
  ok(spt_plan(t, 1));
  ok(spt_set(t, SPT_IN, LOGITS, 0, x));
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_DIN, LOGITS, 0, g));
  ck_assert(isfinite(loss_value()) && g[1] == 0 && g[5] == 0 && g[9] == 0);
  x[4] = NAN;
  ok(spt_set(t, SPT_IN, LOGITS, 0, x));
  ok(spt_forward(t, 0));
  ck_assert(isnan(loss_value()));
  x[4] = -INFINITY;
  ok(spt_set(t, SPT_IN, LOGITS, 0, x));
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_DIN, LOGITS, 0, g));
  ck_assert(isfinite(loss_value()) && g[4] == 0);
}
END_TEST

static void refused(int rc, const char *words) {
  ck_assert_int_ne(rc, SP_OK);
  ck_assert_msg(strstr(spt_error(t), words) != NULL, "'%s' is not in '%s'", words, spt_error(t));
}

START_TEST(a_loss_that_is_not_finite_stops) {
  static const float bad[] = {NAN, INFINITY};
  int64_t y[4] = {0, 255, 1, 2};
  float x[12] = {0};
  int kinds = strcmp(losses[_i / 2], "focal") ? 2 : 1; /* to which an infinite logit of the right class is right */
  for (int k = 0; k < kinds; k++) {
    stage(losses[_i / 2], "{ ignore_index = 255 }", 2, 1, 3, 2, 2, orders[_i % 2], 2, y);
    ok(spt_plan(t, 1));
    x[0] = 0, x[1] = bad[k]; /* under an ignored label */
    ok(spt_set(t, SPT_IN, LOGITS, 0, x));
    ok(spt_forward(t, 0));
    x[0] = bad[k];
    ok(spt_set(t, SPT_IN, LOGITS, 0, x));
    int rc = spt_forward(t, 0);
    ck_assert_int_eq(rc, SP_E_RANGE);
    refused(rc, "the loss is not finite");
    ck_assert(isnan(loss_value()));
    y[2] = 7; /* comes first: it may be the cause */
    ok(spt_set(t, SPT_IN, LABELS, 0, y));
    rc = spt_forward(t, 0);
    ck_assert_int_eq(rc, SP_E_DATA);
    refused(rc, "label 7 is outside 0..2");
    y[2] = 1;
  }
}
END_TEST

START_TEST(label_out_of_range) {
  for (size_t k = 0; k <= SP_ARRAY(losses); k++) {
    int64_t y[16] = {0};
    y[13] = -1, y[6] = 3; /* the first in order is named: sample 1, at position 2 */
    stage(k ? losses[k - 1] : "confusion", NULL, 2, 4, 3, 2, 2, orders[_i], 2, y);
    ok(spt_plan(t, 1));
    spt_set_id(t, 1, 77);
    int rc = spt_forward(t, 0);
    ck_assert_int_eq(rc, SP_E_DATA);
    refused(rc, "sample 77: label 3 is outside 0..2");
    y[6] = 0;
    ok(spt_set(t, SPT_IN, LABELS, 0, y));
    refused(spt_forward(t, 0), "sample 3: label -1 is outside 0..2");
  }
}
END_TEST

START_TEST(short_batch) {
  int64_t *y = draw_labels(4 * 9, 5);
  float part[2 * 5 * 9], loss;
  stage(losses[_i / 2], NULL, 2, 2, 5, 3, 3, orders[_i % 2], 2, y);
  ok(spt_plan(t, 1));
  ok(spt_forward(t, 0));
  loss = loss_value();
  ok(spt_get(t, SPT_IN, LOGITS, 0, part));
  stage(losses[_i / 2], NULL, 2, 4, 5, 3, 3, orders[_i % 2], 2, y);
  ok(spt_plan(t, 1));
  /* the first samples of a tensor lie first, in either order */
  memset(spt_raw(t, SPT_IN, LOGITS, 0), 0xFF, 4 * 5 * 9 * sizeof(float));
  sp_spec rows = *spt_spec(t, SPT_IN, LOGITS, 0), half = rows;
  half.shape[0] = rows.shape[0] = 2;
  rows.order = SP_ROW_MAJOR;
  sp_spec_copy(&half, spt_raw(t, SPT_IN, LOGITS, 0), &rows, part);
  ok(spt_run_batch(t, 2));
  ok(spt_forward(t, 0));
  ck_assert_float_eq(loss_value(), loss);
  free(y);
}
END_TEST

START_TEST(counts_pairs) {
  float x[2 * 3 * 2] = {1, 5, 2, 5, 2, 0, /* sample 0: classes of position 0 are 1,2,2: a tie; of position 1: 5,5,0 */
                        0, 9, 0, 1, 7, 2};
  int64_t shape[4] = {2, 3, 1, 2}, label_shape[3] = {2, 1, 2}, y[4] = {2, 0, 1, 255}, c[9];
  const int64_t want[9] = {1, 0, 0, 0, 0, 1, 0, 1, 0};
  t = spt_new("confusion", "{ ignore_index = 255 }", 3);
  ok(spt_input_of(t, LOGITS, SP_F32, 4, shape, orders[_i], x));
  ok(spt_input_of(t, LABELS, SP_I64, 3, label_shape, 0, y));
  ok(spt_plan(t, 0));
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_OUT, 0, 0, c));
  ck_assert_mem_eq(c, want, sizeof c);
}
END_TEST

START_TEST(shapes_that_do_not_fit) {
  int64_t x[4] = {2, 3, 4, 5}, y[3] = {2, 5, 4};
  t = spt_new("cross_entropy", NULL, 1);
  ok(spt_input_of(t, LOGITS, SP_F32, 4, x, 0, NULL));
  ok(spt_input_of(t, LABELS, SP_U8, 3, y, 0, NULL));
  refused(spt_plan(t, 1), "labels are 2 x 5 x 4, but the logits want 2 x 4 x 5");
  spt_free(t);
  t = spt_new("cross_entropy", "{ class_weights = { 1, 1 } }", 1);
  y[1] = 4, y[2] = 5;
  ok(spt_input_of(t, LOGITS, SP_F32, 4, x, 0, NULL));
  ok(spt_input_of(t, LABELS, SP_U8, 3, y, 0, NULL));
  refused(spt_plan(t, 1), "class_weights has 2 numbers, but there are 3 classes");
  spt_free(t);
  t = spt_new("cross_entropy", NULL, 1);
  ok(spt_input_of(t, LOGITS, SP_F32, 4, x, SP_ORDER4(3, 2, 1, 0), NULL));
  ok(spt_input_of(t, LABELS, SP_U8, 3, y, 0, NULL));
  refused(spt_plan(t, 1), "neither row-major nor channels-last");
  spt_free(t);
  t = spt_new("cross_entropy", "{ label_smoothing = 1 }", 1);
  refused(spt_failed(t), "label_smoothing is 1, but must be below 1");
}
END_TEST

int main(void) {
  Suite *s = suite_create("loss");
  TCase *c = tcase_create("loss");
  tcase_add_checked_fixture(c, NULL, teardown);
  tcase_add_loop_test(c, equals_the_formula, 0, 2);
  tcase_add_loop_test(c, gradient_is_the_slope, 0, 2);
  tcase_add_loop_test(c, smoothing_equals_the_formula, 0, 2);
  tcase_add_loop_test(c, gradient_of_smoothing_is_the_slope, 0, 2);
  tcase_add_loop_test(c, same_bits_for_any_team_and_order, 0, 1 + (int)SP_ARRAY(losses));
  tcase_add_loop_test(c, gradients_add_where_asked, 0, 2 * (int)SP_ARRAY(losses));
  tcase_add_loop_test(c, without_gradient, 0, 2 * (int)SP_ARRAY(losses));
  tcase_add_loop_test(c, nothing_counts, 0, 2 * (int)SP_ARRAY(losses));
  tcase_add_loop_test(c, broken_numbers, 0, 2 * (int)SP_ARRAY(losses));
  tcase_add_loop_test(c, a_loss_that_is_not_finite_stops, 0, 2 * (int)SP_ARRAY(losses));
  tcase_add_loop_test(c, label_out_of_range, 0, 2);
  tcase_add_loop_test(c, short_batch, 0, 2 * (int)SP_ARRAY(losses));
  tcase_add_loop_test(c, counts_pairs, 0, 2);
  tcase_add_test(c, shapes_that_do_not_fit);
  tcase_set_timeout(c, 30);
  suite_add_tcase(s, c);
  return suite_run(s);
}
