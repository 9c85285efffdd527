/* SPDX-License-Identifier: MIT
 * check_dropout.c - dropout: how much, of what, drawn anew for each sample and epoch and by nothing else. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "tests/kit/harness.h"
#include "tests/kit/suite.h"

enum { N = 4, C = 6, PX = 50 * 40, EACH = C * PX, ALL = N * EACH };

static spt *t;
static float x[ALL], y[ALL], other[ALL];

static void ok(int rc) { ck_assert_msg(rc == SP_OK, "%s", spt_error(t)); }

static void teardown(void) {
  spt_free(t);
  t = NULL;
}

static void begin(const char *params, int order, int training) {
  const int64_t shape[4] = {N, C, 50, 40};
  spt_free(t);
  t = spt_new("dropout", params, 2);
  ok(spt_failed(t));
  for (int i = 0; i < ALL; i++) x[i] = 1 + (float)i;
  ok(spt_input_of(t, 0, SP_F32, 4, shape, order, x));
  ok(spt_plan(t, training));
}

static void run(float *out) {
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_OUT, 0, 0, out));
}

static int dropped(const float *v, int from, int n) {
  int k = 0;
  for (int i = from; i < from + n; i++) k += v[i] == 0;
  return k;
}

START_TEST(a_share_is_dropped_and_the_rest_scaled) {
  static const struct {
    const char *params;
    double p;
  } cases[] = {{NULL, 0.5}, {"{ p = 0.1 }", 0.1}, {"{ p = 0.75 }", 0.75}};
  for (size_t k = 0; k < SP_ARRAY(cases); k++) {
    float scale = (float)(1 / (1 - cases[k].p));
    begin(cases[k].params, SP_ROW_MAJOR, 1);
    run(y);
    for (int i = 0; i < ALL; i++) ck_assert(y[i] == 0 || y[i] == x[i] * scale);
    for (int s = 0; s < N; s++)
      ck_assert_double_eq_tol((double)dropped(y, s * EACH, EACH) / EACH, cases[k].p, 0.02); /* 4 sigma: 0.018 */
    ck_assert(memcmp(y, y + EACH, EACH * sizeof *y) != 0);
  }
  begin("{ p = 1 }", SP_ROW_MAJOR, 1);
  run(y);
  ck_assert_int_eq(dropped(y, 0, ALL), ALL);
  begin("{ p = 0 }", SP_ROW_MAJOR, 1);
  run(y);
  ck_assert_mem_eq(y, x, sizeof x);
}
END_TEST

START_TEST(nothing_is_dropped_where_nothing_is_trained) {
  begin(NULL, SP_ROW_MAJOR, 0);
  run(y);
  ck_assert_mem_eq(y, x, sizeof x);
}
END_TEST

START_TEST(whole_maps) {
  int gone = 0;
  begin("{ maps = true }", _i ? SP_CHANNELS_LAST : SP_ROW_MAJOR, 1);
  run(y);
  for (int m = 0; m < N * C; m++) {
    int n = dropped(y, m * PX, PX);
    ck_assert(n == 0 || n == PX);
    gone += n == PX;
  }
  ck_assert_int_gt(gone, 4);
  ck_assert_int_lt(gone, 20);
}
END_TEST

/* Neither by the order in memory, nor by the sample's place in the batch, nor by the step. */
START_TEST(drawn_by_the_samples_id) {
  begin(NULL, SP_ROW_MAJOR, 1);
  run(y);
  begin(NULL, SP_CHANNELS_LAST, 1);
  run(other);
  ck_assert_mem_eq(y, other, sizeof y);
  begin(NULL, SP_ROW_MAJOR, 1);
  spt_set_id(t, 0, SP_ID(0, 3));
  spt_set_id(t, 3, SP_ID(1, 0));
  ok(spt_forward(t, 7));
  ok(spt_get(t, SPT_OUT, 0, 0, other));
  for (int i = 0; i < EACH; i++) ck_assert_int_eq(other[i] == 0, y[3 * EACH + i] == 0);
  ck_assert_mem_eq(other + EACH, y + EACH, 2 * EACH * sizeof *y);
  int same = 0;
  for (int i = 0; i < EACH; i++) same += (other[3 * EACH + i] == 0) == (y[i] == 0);
  ck_assert_int_lt(abs(same - EACH / 2), EACH / 20); /* another epoch */
  begin(NULL, SP_ROW_MAJOR, 1);
  spt_set_seed(t, 2);
  ok(spt_plan(t, 1));
  run(other);
  ck_assert(memcmp(y, other, sizeof y) != 0);
}
END_TEST

START_TEST(gradients_pass_where_values_do) {
  begin(_i ? "{ maps = true }" : "{ p = 0.25 }", SP_ROW_MAJOR, 1);
  run(y);
  for (int i = 0; i < ALL; i++) other[i] = 2;
  ok(spt_set(t, SPT_DOUT, 0, 0, other));
  ok(spt_backward(t));
  ok(spt_get(t, SPT_DIN, 0, 0, other));
  for (int i = 0; i < ALL; i++) ck_assert_float_eq(other[i], y[i] == 0 ? 0 : _i ? 4 : 2 * (float)(1 / 0.75));
  ok(spt_gradcheck(t, 1, 5e-2, 1e-2, 10));
  spt_want(t, SPT_DOUT, 0, 0, 0);
  ok(spt_backward(t));
  ok(spt_get(t, SPT_DIN, 0, 0, other));
  ck_assert_int_eq(dropped(other, 0, ALL), ALL);
}
END_TEST

START_TEST(refusals) {
  const int64_t shape[3] = {2, 3, 4};
  spt_free(t);
  t = spt_new("dropout", "{ maps = true }", 1);
  ok(spt_input_of(t, 0, SP_F32, 1, shape, 0, NULL));
  ck_assert_int_ne(spt_plan(t, 1), SP_OK);
  ck_assert_ptr_nonnull(strstr(spt_error(t), "'x' has 1 dimensions, N x C x ... is wanted"));
  spt_free(t);
  t = spt_new("dropout", "{ p = 1.5 }", 1);
  ck_assert_int_ne(spt_failed(t), SP_OK);
}
END_TEST

int main(void) {
  Suite *s = suite_create("dropout");
  TCase *c = tcase_create("dropout");
  tcase_add_checked_fixture(c, NULL, teardown);
  tcase_add_test(c, a_share_is_dropped_and_the_rest_scaled);
  tcase_add_test(c, nothing_is_dropped_where_nothing_is_trained);
  tcase_add_loop_test(c, whole_maps, 0, 2);
  tcase_add_test(c, drawn_by_the_samples_id);
  tcase_add_loop_test(c, gradients_pass_where_values_do, 0, 2);
  tcase_add_test(c, refusals);
  suite_add_tcase(s, c);
  return suite_run(s);
}
