/* SPDX-License-Identifier: MIT
 * check_accuracy.c - accuracy: counts against plain loops, ties, NaN, labels that do not count or are out of range; and
 * cross_entropy of a row of logits per sample. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "tests/kit/harness.h"
#include "base/util.h"
#include "tests/kit/suite.h"

enum { LOGITS, LABELS };
enum { TOP1, TOPK, COUNTED };

static spt *t;

static void teardown(void) {
  spt_free(t);
  t = NULL;
}

static void ok(int rc) { ck_assert_msg(rc == SP_OK, "%s", spt_error(t)); }

static void stage(const char *params, int threads, int64_t n, int64_t c, const float *x, int type, const int64_t *y) {
  int64_t shape[2] = {n, c};
  void *labels = malloc((size_t)n * 8);
  ck_assert_ptr_nonnull(labels);
  for (int64_t i = 0; i < n; i++) {
    if (type == SP_U8) ((uint8_t *)labels)[i] = (uint8_t)y[i];
    else if (type == SP_I32) ((int32_t *)labels)[i] = (int32_t)y[i];
    else ((int64_t *)labels)[i] = y[i];
  }
  spt_free(t);
  t = spt_new("accuracy", params, threads);
  ok(spt_failed(t));
  ok(spt_input_of(t, LOGITS, SP_F32, 2, shape, 0, x));
  ok(spt_input_of(t, LABELS, type, 1, shape, 0, labels));
  free(labels);
  ok(spt_plan(t, 0));
}

static void counts(int64_t got[3]) {
  for (int i = 0; i < 3; i++) ok(spt_get(t, SPT_OUT, i, 0, &got[i]));
}

static void expect(int64_t top1, int64_t topk, int64_t counted) {
  int64_t got[3];
  ok(spt_forward(t, 0));
  counts(got);
  ck_assert_msg(got[TOP1] == top1 && got[TOPK] == topk && got[COUNTED] == counted,
                "%lld, %lld of %lld, not %lld, %lld of %lld", (long long)got[TOP1], (long long)got[TOPK],
                (long long)got[COUNTED], (long long)top1, (long long)topk, (long long)counted);
}

/* By sorting: takes the largest out k times, the first of equals, as argmax does. */
static void by_hand(const float *x, const int64_t *y, int64_t n, int64_t c, int64_t k, int64_t ignore,
                    int64_t want[3]) {
  char *taken = malloc((size_t)c);
  ck_assert_ptr_nonnull(taken);
  memset(want, 0, 3 * sizeof *want);
  for (int64_t i = 0; i < n; i++) {
    if (y[i] == ignore) continue;
    want[COUNTED]++;
    memset(taken, 0, (size_t)c);
    for (int64_t r = 0; r < k && r < c; r++) {
      int64_t best = -1;
      for (int64_t j = 0; j < c; j++)
        if (!taken[j] && (best < 0 || x[i * c + j] > x[i * c + best])) best = j;
      taken[best] = 1;
      want[TOP1] += !r && best == y[i];
      want[TOPK] += best == y[i];
    }
  }
  free(taken);
}

static const struct {
  int64_t n, c, k;
  int type;
} sizes[] = {{1, 1, 5, SP_U8},      {32, 10, 5, SP_I64},   {7, 3, 5, SP_I32},       {64, 100, 1, SP_U8},
             {50, 1000, 5, SP_I64}, {4000, 10, 3, SP_I32}, {1, 65536, 100, SP_I64}, {5, 20000, 5, SP_I32},
             {16390, 2, 1, SP_U8},  {33, 37, 36, SP_I64},  {33, 37, 37, SP_I64}};

/* Whole numbers as logits: many ties. Any team gives the same counts. */
START_TEST(equals_plain_loops) {
  int64_t n = sizes[_i].n, c = sizes[_i].c, k = sizes[_i].k, want[3];
  int64_t ignore = sizes[_i].type == SP_U8 ? 255 : -100, *y = malloc((size_t)n * sizeof *y);
  float *x = malloc((size_t)(n * c) * sizeof *x);
  char params[64];
  ck_assert(x && y);
  snprintf(params, sizeof params, "{ k = %d, ignore_index = %d }", (int)k, (int)ignore);
  for (int ties = 0; ties < 2; ties++) {
    spt_random(x, n * c, 3, -4, 4);
    for (int64_t i = 0; i < n * c && ties; i++) x[i] = rintf(x[i]);
    for (int64_t i = 0; i < n; i++) y[i] = n > 1 && i % 9 == 4 ? ignore : i * 7919 % c;
    by_hand(x, y, n, c, k, ignore, want);
    for (int threads = 1; threads <= 3; threads++) {
      stage(params, threads, n, c, x, sizes[_i].type, y);
      expect(want[TOP1], want[TOPK], want[COUNTED]);
    }
  }
  free(x), free(y);
}
END_TEST

START_TEST(ties_go_to_the_first) {
  const float x[6] = {1, 3, 3, 3, 0, 3};
  const int64_t top1[6] = {0, 1, 0, 0, 0, 0}, top3[6] = {0, 1, 1, 1, 0, 0};
  for (int64_t y = 0; y < 6; y++) {
    stage("{ k = 3 }", 1, 1, 6, x, SP_I64, &y);
    expect(top1[y], top3[y], 1);
  }
}
END_TEST

/* k = 1 is the same as top1; and a k beyond the classes takes all. */
START_TEST(small_and_large_k) {
  float x[40 * 3];
  int64_t y[40], got[3];
  spt_random(x, 120, 9, -1, 1);
  for (int i = 0; i < 40; i++) y[i] = i % 3;
  stage("{ k = 1 }", 2, 40, 3, x, SP_I64, y);
  ok(spt_forward(t, 0));
  counts(got);
  ck_assert_int_eq(got[TOP1], got[TOPK]);
  ck_assert(got[TOP1] > 0 && got[TOP1] < 40);
  stage(NULL, 2, 40, 3, x, SP_I64, y);
  expect(got[TOP1], 40, 40);
  stage("{ k = 65536 }", 2, 40, 3, x, SP_I64, y);
  expect(got[TOP1], 40, 40);
}
END_TEST

/* A label whose logit is NaN is never right, whatever k is; another's NaN counts as larger than all. */
START_TEST(not_a_number) {
  float x[4] = {NAN, 2, 1, -INFINITY};
  static const int64_t want[4][3] = {{0, 0, 0}, {0, 1, 1}, {0, 0, 1}, {0, 0, 0}}; /* k = 1, 2, 3 */
  for (int64_t y = 0; y < 4; y++)
    for (int k = 1; k <= 3; k++) {
      char params[32];
      snprintf(params, sizeof params, "{ k = %d }", k);
      stage(params, 1, 1, 4, x, SP_I64, &y);
      expect(0, want[y][k - 1], 1);
    }
  int64_t y = 0;
  stage("{ k = 100 }", 1, 1, 4, x, SP_I64, &y);
  expect(0, 0, 1);
  x[0] = INFINITY, y = 0;
  stage("{ k = 1 }", 1, 1, 4, x, SP_I64, &y);
  expect(1, 1, 1);
  x[1] = INFINITY, y = 1; /* equal infinities */
  stage("{ k = 2 }", 1, 1, 4, x, SP_I64, &y);
  expect(0, 1, 1);
}
END_TEST

START_TEST(nothing_counts) {
  float x[12] = {0};
  int64_t y[4] = {7, 7, 7, 7};
  stage("{ ignore_index = 7 }", 1, 4, 3, x, SP_I64, y);
  expect(0, 0, 0);
  y[1] = 2;
  stage("{ ignore_index = 7 }", 1, 4, 3, x, SP_I64, y);
  expect(0, 1, 1);
}
END_TEST

static void refused(int rc, const char *words) {
  ck_assert_int_ne(rc, SP_OK);
  ck_assert_msg(strstr(spt_error(t), words) != NULL, "'%s' is not in '%s'", words, spt_error(t));
}

/* The first one is named, also where another work item finds a later one. */
START_TEST(label_out_of_range) {
  enum { N = 10000, C = 4 };
  float *x = calloc(N * C, sizeof *x);
  int64_t *y = calloc(N, sizeof *y);
  ck_assert(x && y);
  y[9999] = -1, y[4100] = 4, y[4101] = 9;
  stage(NULL, 2, N, C, x, SP_I64, y);
  spt_set_id(t, 4100, 77);
  int rc = spt_forward(t, 0);
  ck_assert_int_eq(rc, SP_E_DATA);
  refused(rc, "sample 77: label 4 is outside 0..3");
  y[4100] = y[4101] = 3;
  ok(spt_set(t, SPT_IN, LABELS, 0, y));
  refused(spt_forward(t, 0), "sample 9999: label -1 is outside 0..3");
  free(x), free(y);
}
END_TEST

START_TEST(short_batch) {
  float x[6 * 3];
  int64_t y[6] = {0, 1, 2, 0, 1, 99}, want[3];
  spt_random(x, 18, 4, -1, 1);
  by_hand(x, y, 5, 3, 2, -100, want);
  stage("{ k = 2 }", 2, 6, 3, x, SP_I64, y);
  ok(spt_run_batch(t, 5));
  expect(want[TOP1], want[TOPK], 5);
}
END_TEST

static void plan_with(const char *params, int ndim, const int64_t *x, int label_ndim, const int64_t *y) {
  spt_free(t);
  t = spt_new("accuracy", params, 1);
  if (spt_failed(t)) return;
  spt_input_of(t, LOGITS, SP_F32, ndim, x, 0, NULL);
  spt_input_of(t, LABELS, SP_U8, label_ndim, y, 0, NULL);
}

START_TEST(what_does_not_fit) {
  int64_t x[4] = {2, 3, 4, 5}, y[3] = {3, 4, 5};
  plan_with(NULL, 2, x, 1, y);
  refused(spt_plan(t, 0), "labels are 3, but the logits want 2");
  plan_with(NULL, 4, x, 1, y);
  refused(spt_plan(t, 0), "2 dimensions");
  plan_with("{ k = 0 }", 2, x, 1, y);
  refused(spt_failed(t), "'k': 0 is below 1");
  plan_with("{ k = 1.5 }", 2, x, 1, y);
  refused(spt_failed(t), "'k'");
}
END_TEST

/* The loss that goes with it takes the same inputs. */
START_TEST(loss_of_rows) {
  enum { N = 6, C = 10 };
  float x[N * C], g[N * C], loss;
  int64_t y[N] = {3, 0, 9, -100, 3, 7}, shape[2] = {N, C}, valid;
  double want = 0;
  spt_random(x, N * C, 8, -3, 3);
  t = spt_new("cross_entropy", NULL, 2);
  ok(spt_input_of(t, LOGITS, SP_F32, 2, shape, 0, x));
  ok(spt_input_of(t, LABELS, SP_I64, 1, shape, 0, y));
  ok(spt_plan(t, 1));
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_OUT, 0, 0, &loss));
  ok(spt_get(t, SPT_OUT, 2, 0, &valid));
  ok(spt_get(t, SPT_DIN, LOGITS, 0, g));
  for (int i = 0; i < N; i++) {
    double sum = 0;
    for (int c = 0; c < C; c++) sum += exp((double)x[i * C + c]);
    if (y[i] >= 0) want += (log(sum) - (double)x[i * C + y[i]]) / 5;
    for (int c = 0; c < C; c++) {
      double slope = y[i] < 0 ? 0 : (exp((double)x[i * C + c]) / sum - (c == y[i])) / 5;
      ck_assert_double_eq_tol((double)g[i * C + c], slope, 1e-6);
    }
  }
  ck_assert_double_eq_tol((double)loss, want, 1e-5);
  ck_assert_int_eq(valid, 5);
}
END_TEST

int main(void) {
  Suite *s = suite_create("accuracy");
  TCase *c = tcase_create("accuracy");
  tcase_add_checked_fixture(c, NULL, teardown);
  tcase_add_loop_test(c, equals_plain_loops, 0, (int)SP_ARRAY(sizes));
  tcase_add_test(c, ties_go_to_the_first);
  tcase_add_test(c, small_and_large_k);
  tcase_add_test(c, not_a_number);
  tcase_add_test(c, nothing_counts);
  tcase_add_test(c, label_out_of_range);
  tcase_add_test(c, short_batch);
  tcase_add_test(c, what_does_not_fit);
  tcase_add_test(c, loss_of_rows);
  tcase_set_timeout(c, 600);
  suite_add_tcase(s, c);
  return suite_run(s);
}
