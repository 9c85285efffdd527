/* SPDX-License-Identifier: MIT
 * check_harness.c - the harness finds each mistake that a stage can make. */
#include <stdio.h>
#include <string.h>

#include <check.h>

#include "tests/harness.h"

static const struct {
  const char *mistake, *words;
} cases[] = {
    {"none", NULL},
    {"input_gradient", "input 'x' [0]: element 2: backward gives"},
    {"weight_gradient", "weight 'weight' [0]: element 0: backward gives"},
    {"accumulation", "input 'x' [0]: accumulation does not add"},
    {"update", "the update in place is not weights + dw_scale * gradient"},
    {"overrun", "wrote outside of output 0"},
    {"scratch", "wrote outside of scratch"},
    {"input", "changed an input or a trained weight in forward()"},
    {"weight", "changed an input or a trained weight in forward()"},
    {"unwritten", "left over"},
    {"stale_scratch", "a gradient is not finite"},
};

START_TEST(finds) {
  char params[64];
  float x[6];
  int64_t shape[2] = {2, 3};
  snprintf(params, sizeof params, "{ mistake = '%s' }", cases[_i].mistake);
  spt_random(x, 6, 1, -1, 1);
  spt *t = spt_new("mistakes", params, 1);
  ck_assert_msg(!spt_failed(t), "%s", spt_error(t));
  ck_assert_int_eq(spt_input_of(t, 0, SP_F32, 2, shape, 0, x), SP_OK);
  ck_assert_int_eq(spt_plan(t, 1), SP_OK);
  int rc = spt_gradcheck(t, 1e-2, 1e-3, 1e-4, 10);
  if (!cases[_i].words) ck_assert_msg(!rc, "%s", spt_error(t));
  else ck_assert_msg(rc && strstr(spt_error(t), cases[_i].words), "'%s' is not in '%s'", cases[_i].words, spt_error(t));
  spt_free(t);
}
END_TEST

START_TEST(tables) {
  sp_err err;
  sp_value v;
  ck_assert_int_eq(spt_table(&v, "{ 1, -2.5, 'a b', t = { x = true, \"y\" }, n = nil, trueish = 3; }", &err), SP_OK);
  ck_assert_uint_eq(v.n_items, 3);
  ck_assert_int_eq(v.items[0].i, 1);
  ck_assert_double_eq(v.items[1].d, -2.5);
  ck_assert_str_eq(v.items[2].s, "a b");
  ck_assert_int_eq(sp_value_get(sp_value_get(&v, "t"), "x")->i, 1);
  ck_assert_str_eq(sp_value_get(&v, "t")->items[0].s, "y");
  ck_assert_int_eq(sp_value_get(&v, "trueish")->i, 3);
  sp_value_free(&v);
  static const char *const bad[] = {"", "{", "{ 1 2 }", "{ 'a }", "7", "{} x", "{ a = }"};
  for (size_t i = 0; i < SP_ARRAY(bad); i++) ck_assert_int_eq(spt_table(&v, bad[i], &err), SP_E_FORMAT);
}
END_TEST

int main(void) {
  Suite *s = suite_create("harness");
  TCase *c = tcase_create("harness");
  tcase_add_loop_test(c, finds, 0, (int)SP_ARRAY(cases));
  tcase_add_test(c, tables);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
