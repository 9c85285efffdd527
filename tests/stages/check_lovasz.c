/* SPDX-License-Identifier: MIT
 * check_lovasz.c - the Lovasz-softmax loss: values and gradients by the definition of Berman et al. 2018. What holds of
 * every loss is in check_cross_entropy.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static int64_t label_of(int64_t i, int64_t c) {
  return i % 5 == 2 ? -100 : c == 1 ? i * 7919 % 2 : i * 7919 % (c > 2 ? c - 2 : c);
}

/* Labels of every class but the last two, each fifth is ignored. */
static void stage(const char *params, int64_t n, int64_t c, int64_t side, int order, int64_t *y) {
  int64_t x[4] = {n, c, side, side}, shape[3] = {n, side, side}, all = n * c * side * side;
  float *v = malloc((size_t)all * sizeof *v);
  ck_assert_ptr_nonnull(v);
  spt_random(v, all, 11, -4, 4);
  for (int64_t i = 0; i < n * side * side; i++) y[i] = label_of(i, c);
  spt_free(t);
  t = spt_new("lovasz", params, 2);
  ok(spt_failed(t));
  ok(spt_input_of(t, LOGITS, SP_F32, 4, x, order, v));
  ok(spt_input_of(t, LABELS, SP_I64, 3, shape, 0, y));
  ok(spt_plan(t, 1));
  free(v);
}

typedef struct item {
  double error;
  int64_t at, is_true;
} item;

static int larger_first(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (x->error != y->error) return x->error < y->error ? 1 : -1;
  return x->at < y->at ? -1 : x->at > y->at;
}

static double jaccard(double truth, double hits, double others) {
  return truth + others > 0 ? 1 - (truth - hits) / (truth + others) : 0;
}

/* Of the sorted items: the loss, and of each item in slope[at] by how much the error counts. */
static double lovasz(item *items, int64_t n, double truth, double *slope) {
  double hits = 0, others = 0, loss = 0, before = 0;
  qsort(items, (size_t)n, sizeof *items, larger_first);
  for (int64_t i = 0; i < n; i++) {
    hits += (double)items[i].is_true, others += (double)!items[i].is_true;
    double now = jaccard(truth, hits, others);
    loss += items[i].error * (now - before);
    slope[items[i].at] = now - before;
    before = now;
  }
  return loss;
}

/* The loss and the gradient, of logits in row-major order. */
static double reference(const float *x, const int64_t *y, int64_t n, int64_t c, int64_t px, int all_classes,
                        double *g) {
  int64_t positions = n * px, there = 0;
  double *p = calloc((size_t)(positions * c), sizeof *p), *q = calloc((size_t)(positions * c), sizeof *q), loss = 0;
  item *items = malloc((size_t)positions * sizeof *items);
  ck_assert(p && q && items);
  for (int64_t i = 0; i < positions; i++) {
    double sum = 0;
    for (int64_t k = 0; k < c; k++) sum += exp(x[(i / px * c + k) * px + i % px]);
    for (int64_t k = 0; k < c; k++) p[k * positions + i] = exp(x[(i / px * c + k) * px + i % px]) / sum;
  }
  for (int64_t k = 0; k < c; k++) {
    int64_t m = 0, truth = 0;
    for (int64_t i = 0; i < positions; i++) {
      if (y[i] < 0) continue;
      int64_t is_true = y[i] == (c == 1 ? 1 : k);
      double v = c == 1 ? x[i] : p[k * positions + i], error = is_true ? 1 - v : c == 1 ? 1 + v : v;
      items[m++] = (item){c == 1 ? fmax(error, 0) : error, i, is_true};
      truth += is_true;
    }
    if (c > 1 && !truth && !all_classes) continue;
    loss += lovasz(items, m, (double)truth, &q[k * positions]);
    there++;
    for (int64_t i = 0; i < m; i++)
      q[k * positions + items[i].at] *= items[i].is_true ? -1 : c == 1 && items[i].error == 0 ? 0 : 1;
    for (int64_t i = 0; i < m; i++)
      if (c == 1 && items[i].error == 0) q[items[i].at] = 0;
  }
  for (int64_t i = 0; i < positions; i++) {
    double mean = 0;
    for (int64_t k = 0; k < c; k++) mean += p[k * positions + i] * q[k * positions + i];
    for (int64_t k = 0; k < c; k++) {
      double own = q[k * positions + i];
      g[(i / px * c + k) * px + i % px] = (c == 1 ? own : p[k * positions + i] * (own - mean)) / (double)there;
    }
  }
  free(p), free(q), free(items);
  return loss / (double)there;
}

static void compare(int64_t n, int64_t c, int64_t side, int order, const char *params) {
  int64_t px = side * side, count = n * c * px, *y = calloc((size_t)(n * px), sizeof *y);
  float *x = malloc((size_t)count * sizeof *x), *g = malloc((size_t)count * sizeof *g), loss;
  double *want = calloc((size_t)count, sizeof *want), most = 0;
  ck_assert(y && x && g && want);
  stage(params, n, c, side, order, y);
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_IN, LOGITS, 0, x));
  ok(spt_get(t, SPT_DIN, LOGITS, 0, g));
  ok(spt_get(t, SPT_OUT, 0, 0, &loss));
  double of = reference(x, y, n, c, px, params && strstr(params, "all") != NULL, want);
  ck_assert_double_eq_tol(loss, of, 1e-6 * of + 1e-7); /* 1 - p of a p near 1 */
  for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(want[i]));
  for (int64_t i = 0; i < count; i++)
    ck_assert_msg(fabs(g[i] - want[i]) <= 1e-6 * most + 6e-8, "%lld: %.9g, not %.9g", (long long)i, g[i], want[i]);
  free(y), free(x), free(g), free(want);
}

START_TEST(equals_the_formula) {
  int order = orders[_i];
  compare(1, 2, 1, order, NULL);
  compare(2, 3, 5, order, NULL);
  compare(2, 10, 9, order, NULL);
  compare(2, 10, 9, order, "{ over = 'all' }");
  compare(2, 70, 4, order, NULL);
  compare(1, 1, 1, order, NULL);
  compare(3, 1, 20, order, NULL);
}
END_TEST

START_TEST(gradient_is_the_slope) {
  int64_t y[2 * 3 * 3];
  stage(_i / 2 ? "{ weight = 3, over = 'all' }" : NULL, 2, 5, 3, orders[_i % 2], y);
  ok(spt_gradcheck(t, 1e-3, 2e-2, 1e-4, 90)); /* so small a step leaves the order as it is */
}
END_TEST

/* Of equal errors the first position comes first; labels none of which is of a class cost its largest error. */
START_TEST(ties_and_none) {
  int64_t shape[4] = {1, 1, 1, 4}, rows[3] = {1, 1, 4}, y[4] = {0, 0, 0, 0};
  float x[4] = {0.5f, 2, 2, -3}, g[4], loss;
  t = spt_new("lovasz", NULL, 1);
  ok(spt_input_of(t, LOGITS, SP_F32, 4, shape, orders[_i], x));
  ok(spt_input_of(t, LABELS, SP_I64, 3, rows, 0, y));
  ok(spt_plan(t, 1));
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_OUT, 0, 0, &loss));
  ok(spt_get(t, SPT_DIN, LOGITS, 0, g));
  ck_assert_float_eq(loss, 3);
  ck_assert(g[0] == 0 && g[1] == 1 && g[2] == 0 && g[3] == 0);
  y[2] = 2;
  ok(spt_set(t, SPT_IN, LABELS, 0, y));
  ck_assert_int_eq(spt_forward(t, 0), SP_E_DATA);
  ck_assert_msg(strstr(spt_error(t), "label 2 is outside 0..1"), "%s", spt_error(t));
}
END_TEST

int main(void) {
  Suite *s = suite_create("lovasz");
  TCase *c = tcase_create("lovasz");
  tcase_add_checked_fixture(c, NULL, teardown);
  tcase_add_loop_test(c, equals_the_formula, 0, 2);
  tcase_add_loop_test(c, gradient_is_the_slope, 0, 4);
  tcase_add_loop_test(c, ties_and_none, 0, 2);
  suite_add_tcase(s, c);
  return suite_run(s);
}
