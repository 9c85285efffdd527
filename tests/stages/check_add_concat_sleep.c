/* SPDX-License-Identifier: MIT
 * check_add_concat_sleep.c - add, concat and sleep. */
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

static const int orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

static void input(int64_t n, int64_t c, int64_t h, int64_t w, int order, uint64_t seed) {
  int64_t shape[4] = {n, c, h, w}, all = n * c * h * w;
  float *v = malloc((size_t)all * sizeof *v);
  ck_assert_ptr_nonnull(v);
  spt_random(v, all, seed, -1, 1);
  ok(spt_input_of(t, 0, SP_F32, 4, shape, order, v));
  free(v);
}

static void refused(int rc, const char *words) {
  ck_assert_int_ne(rc, SP_OK);
  ck_assert_msg(strstr(spt_error(t), words) != NULL, "'%s' is not in '%s'", words, spt_error(t));
}

static void begin(const char *stage, const char *params) {
  spt_free(t);
  t = spt_new(stage, params, 2);
  ok(spt_failed(t));
}

START_TEST(add_sums_in_order) {
  enum { N = 2 * 3 * 100 * 90 };
  float *x[3], *y = malloc(N * sizeof *y);
  begin("add", NULL);
  for (int i = 0; i < 3; i++) input(2, 3, 100, 90, orders[_i], (uint64_t)i);
  ok(spt_plan(t, 1));
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_OUT, 0, 0, y));
  ck_assert_int_eq(spt_spec(t, SPT_OUT, 0, 0)->order, orders[_i]);
  for (int i = 0; i < 3; i++) {
    x[i] = malloc(N * sizeof *x[i]);
    ok(spt_get(t, SPT_IN, 0, i, x[i]));
  }
  for (int k = 0; k < N; k++) ck_assert_float_eq(y[k], (x[0][k] + x[1][k]) + x[2][k]);
  ok(spt_gradcheck(t, 1e-1, 2e-2, 1e-3, 10));
  for (int i = 0; i < 3; i++) free(x[i]);
  free(y);
}
END_TEST

START_TEST(concat_along_each_axis) {
  static const char *const params[] = {NULL, "{ axis = 2 }", "{ axis = 3 }"};
  for (int axis = 1; axis <= 3; axis++) {
    enum { A = 3, B = 5, N = 2, C = 4, H = 6, W = 7 };
    int64_t size[4] = {N, C, H, W}, part[2] = {A, B};
    static float x[2][N * 7 * 7 * 7], y[N * 8 * 8 * 8];
    begin("concat", params[axis - 1]);
    for (int i = 0; i < 2; i++) {
      size[axis] = part[i];
      input(size[0], size[1], size[2], size[3], orders[_i], (uint64_t)i);
    }
    ok(spt_plan(t, 1));
    ok(spt_forward(t, 0));
    ok(spt_get(t, SPT_OUT, 0, 0, y));
    for (int i = 0; i < 2; i++) ok(spt_get(t, SPT_IN, 0, i, x[i]));
    const sp_spec *out = spt_spec(t, SPT_OUT, 0, 0);
    ck_assert_int_eq(out->shape[axis], A + B);
    ck_assert_int_eq(out->order, orders[_i]);
    for (int64_t k = 0; k < sp_spec_count(out); k++) {
      int64_t at[4], rest = k;
      for (int d = 3; d >= 0; d--) at[d] = rest % out->shape[d], rest /= out->shape[d];
      int which = at[axis] >= A;
      if (which) at[axis] -= A;
      const int64_t *s = spt_spec(t, SPT_IN, 0, which)->shape;
      ck_assert_float_eq(y[k], x[which][((at[0] * s[1] + at[1]) * s[2] + at[2]) * s[3] + at[3]]);
    }
    ok(spt_gradcheck(t, 1e-1, 1e-2, 1e-3, 40));
  }
}
END_TEST

START_TEST(concat_large) { /* several work items, and inner runs longer than one */
  begin("concat", NULL);
  input(3, 4, 90, 100, orders[_i], 1);
  input(3, 2, 90, 100, orders[_i], 2);
  ok(spt_plan(t, 1));
  ok(spt_gradcheck(t, 1e-1, 5e-2, 1e-3, 3));
}
END_TEST

START_TEST(unwanted_and_missing_gradients) {
  static const char *const names[] = {"add", "concat", "sleep"};
  for (int k = 0; k < 3; k++) {
    float dx[16];
    begin(names[k], NULL);
    input(1, 2, 2, 4, 0, 1);
    input(1, 2, 2, 4, 0, 2);
    ok(spt_plan(t, 1));
    ok(spt_forward(t, 0));
    spt_want(t, SPT_DIN, 0, 0, 0);
    ok(spt_backward(t));
    for (int i = 0; i < spt_count(t, SPT_DOUT, 0); i++) spt_want(t, SPT_DOUT, 0, i, 0);
    spt_want(t, SPT_DIN, 0, 0, 1);
    ok(spt_backward(t)); /* no gradient comes back: zero */
    for (int i = 0; i < 2; i++) {
      ok(spt_get(t, SPT_DIN, 0, i, dx));
      for (int e = 0; e < 16; e++) ck_assert_float_eq(dx[e], 0);
    }
    spt_set_acc(t, 1, 0);
    for (int e = 0; e < 16; e++) dx[e] = 4;
    ok(spt_set(t, SPT_DIN, 0, 1, dx));
    ok(spt_backward(t));
    ok(spt_get(t, SPT_DIN, 0, 1, dx));
    for (int e = 0; e < 16; e++) ck_assert_float_eq(dx[e], 4);
  }
}
END_TEST

START_TEST(refusals) {
  static const char *const names[] = {"add", "concat"};
  for (int k = 0; k < 2; k++) {
    begin(names[k], NULL);
    refused(spt_plan(t, 1), "wire at least one tensor to 'x'");
    begin(names[k], NULL);
    input(1, 2, 3, 4, 0, 1);
    input(1, 2, 3, 4, SP_CHANNELS_LAST, 1);
    refused(spt_plan(t, 1), "tensor 2 lies in another memory order than tensor 1");
  }
  begin("add", NULL);
  input(1, 2, 3, 4, 0, 1);
  input(1, 3, 3, 4, 0, 1);
  refused(spt_plan(t, 1), "tensor 2 has another shape than tensor 1");
  begin("concat", NULL);
  input(1, 2, 3, 4, 0, 1);
  input(1, 2, 5, 4, 0, 1);
  refused(spt_plan(t, 1), "dimension 2 of tensor 2 is 5, of tensor 1 it is 3");
  begin("concat", "{ axis = 4 }");
  input(1, 2, 3, 4, 0, 1);
  refused(spt_plan(t, 1), "axis is 4, but the tensors have 4 dimensions");
  spt_free(t);
  t = spt_new("concat", "{ axis = 0 }", 1);
  refused(spt_failed(t), "axis");
}
END_TEST

START_TEST(sleep_takes_its_time_and_copies) {
  int64_t shape[2] = {2, 5};
  uint8_t x[10], y[10];
  static const char *const params[] = {"{ ms = 30, backward_ms = 20 }", "{ ms = 30, backward_ms = 20, spin = true }"};
  begin("sleep", params[_i]);
  for (int i = 0; i < 10; i++) x[i] = (uint8_t)(i * 3);
  ok(spt_input_of(t, 0, SP_U8, 2, shape, 0, x));
  input(2, 1, 2, 2, SP_CHANNELS_LAST, 1);
  ok(spt_plan(t, 1));
  double from = sp_now();
  ok(spt_forward(t, 0));
  ck_assert_double_ge(sp_now() - from, 0.030);
  ok(spt_get(t, SPT_OUT, 0, 0, y));
  ck_assert_mem_eq(x, y, sizeof x);
  ck_assert_mem_eq(spt_raw(t, SPT_IN, 0, 1), spt_raw(t, SPT_OUT, 0, 1), 8 * sizeof(float));
  from = sp_now();
  ok(spt_backward(t));
  ck_assert_double_ge(sp_now() - from, 0.020);
}
END_TEST

START_TEST(sleep_passes_gradients) {
  begin("sleep", NULL);
  input(2, 3, 4, 5, orders[_i], 1);
  input(2, 3, 1, 1, orders[_i], 2);
  ok(spt_plan(t, 1));
  ok(spt_gradcheck(t, 1e-1, 1e-3, 1e-3, 10));
}
END_TEST

START_TEST(sleep_fails_at_its_step) {
  begin("sleep", "{ fail_at_step = 2 }");
  input(1, 1, 1, 1, 0, 1);
  ok(spt_plan(t, 0));
  ok(spt_forward(t, 0));
  ok(spt_forward(t, 1));
  refused(spt_forward(t, 2), "told to fail here (fail_at_step = 2)");
  ck_assert_msg(strstr(spt_error(t), "step 3") != NULL, "%s", spt_error(t));
  ok(spt_plan(t, 0));
  ok(spt_forward(t, 3));
}
END_TEST

int main(void) {
  Suite *s = suite_create("add_concat_sleep");
  TCase *c = tcase_create("add_concat_sleep");
  tcase_add_checked_fixture(c, NULL, teardown);
  tcase_add_loop_test(c, add_sums_in_order, 0, 2);
  tcase_add_loop_test(c, concat_along_each_axis, 0, 2);
  tcase_add_loop_test(c, concat_large, 0, 2);
  tcase_add_test(c, unwanted_and_missing_gradients);
  tcase_add_test(c, refusals);
  tcase_add_loop_test(c, sleep_takes_its_time_and_copies, 0, 2);
  tcase_add_loop_test(c, sleep_passes_gradients, 0, 2);
  tcase_add_test(c, sleep_fails_at_its_step);
  tcase_set_timeout(c, 30);
  suite_add_tcase(s, c);
  return suite_run(s);
}
