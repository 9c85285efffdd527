/* SPDX-License-Identifier: MIT
 * check_gemm.c - gemm beside a loop in double precision. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "tests/kit/harness.h"
#include "tests/kit/suite.h"

static spt *t;

static void ok(int rc) { ck_assert_msg(rc == SP_OK, "%s", spt_error(t)); }

static void teardown(void) {
  spt_free(t);
  t = NULL;
}

static void begin(const char *params, int threads) {
  spt_free(t);
  t = spt_new("gemm", params, threads);
  ok(spt_failed(t));
}

static float *input(int port, int64_t rows, int64_t cols, uint64_t seed) {
  int64_t shape[2] = {rows, cols};
  float *v = malloc((size_t)(rows * cols) * sizeof *v);
  ck_assert_ptr_nonnull(v);
  spt_random(v, rows * cols, seed, -1, 1);
  ok(spt_input_of(t, port, SP_F32, 2, shape, SP_ROW_MAJOR, v));
  return v;
}

static void compare(const float *a, const float *b, int64_t m, int64_t n, int64_t k) {
  float *c = malloc((size_t)((m + 1) * n) * sizeof *c); /* as many rows as were planned */
  ok(spt_get(t, SPT_OUT, 0, 0, c));
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0, size = 0;
      for (int64_t x = 0; x < k; x++) {
        sum += (double)a[i * k + x] * b[x * n + j];
        size += fabs((double)a[i * k + x] * b[x * n + j]);
      }
      ck_assert_msg(fabs(c[i * n + j] - sum) <= 1e-6 * size + 1e-7, "c[%d][%d] is %g, wanted %g", (int)i, (int)j,
                    (double)c[i * n + j], sum);
    }
  free(c);
}

static const int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 7}, {64, 64, 64}, {257, 19, 33}, {31, 513, 128}};

START_TEST(as_a_loop) {
  const int64_t *s = sizes[_i];
  for (int threads = 1; threads <= 3; threads += 2)
    for (int repeat = 0; repeat < 2; repeat++) {
      begin(repeat ? "{ times = 3 }" : NULL, threads);
      float *a = input(0, s[0], s[2], 1), *b = input(1, s[2], s[1], 2);
      ok(spt_plan(t, 0));
      ok(spt_forward(t, 0));
      compare(a, b, s[0], s[1], s[2]);
      free(a);
      free(b);
    }
}
END_TEST

/* The constant b, and fewer rows than planned. */
START_TEST(one_factor) {
  begin("{ n = 9 }", 2);
  float *a = input(0, 6, 4, 1), b[4 * 9];
  ok(spt_plan(t, 0));
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_WEIGHT, 0, 0, b));
  ck_assert_str_eq(spt_weight_name(t, 0), "b");
  compare(a, b, 6, 9, 4);
  ok(spt_run_batch(t, 5));
  ok(spt_forward(t, 0));
  compare(a, b, 5, 9, 4);
  free(a);
}
END_TEST

static void refused(int rc, const char *words) {
  ck_assert_int_ne(rc, SP_OK);
  ck_assert_msg(strstr(spt_error(t), words) != NULL, "'%s' is not in '%s'", words, spt_error(t));
}

START_TEST(what_does_not_fit) {
  begin(NULL, 1);
  free(input(0, 3, 4, 1));
  free(input(1, 5, 2, 1));
  refused(spt_plan(t, 0), "a has 4 columns, but b has 5 rows");
  begin("{ n = 3 }", 1);
  free(input(0, 3, 4, 1));
  free(input(1, 4, 2, 1));
  refused(spt_plan(t, 0), "n is 3, but b has 2 columns");
}
END_TEST

int main(void) {
  Suite *s = suite_create("gemm");
  TCase *c = tcase_create("gemm");
  tcase_add_checked_fixture(c, NULL, teardown);
  tcase_add_loop_test(c, as_a_loop, 0, (int)(sizeof sizes / sizeof *sizes));
  tcase_add_test(c, one_factor);
  tcase_add_test(c, what_does_not_fit);
  suite_add_tcase(s, c);
  return suite_run(s);
}
