/* SPDX-License-Identifier: MIT
 * check_harness.c - the harness finds each mistake that a stage can make, also through the memory of a device. */
#include <stdio.h>
#include <string.h>

#include <check.h>
#include <spcore/device.h>

#include "tests/kit/harness.h"
#include "tests/kit/suite.h"

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

static spt *open_stage(const char *device, const char *mistake) {
  char params[64];
  float x[6];
  int64_t shape[2] = {2, 3};
  snprintf(params, sizeof params, "{ mistake = '%s' }", mistake);
  spt_random(x, 6, 1, -1, 1);
  spt *t = spt_new_on(device, "mistakes", params, 1);
  ck_assert_msg(!spt_failed(t), "%s", spt_error(t));
  ck_assert_int_eq(spt_input_of(t, 0, SP_F32, 2, shape, 0, x), SP_OK);
  ck_assert_msg(!spt_plan(t, 1), "%s", spt_error(t));
  return t;
}

static void find(const char *device, const char *mistake, const char *words) {
  spt *t = open_stage(device, mistake);
  int rc = spt_gradcheck(t, 1e-2, 1e-3, 1e-4, 10);
  if (!words) ck_assert_msg(!rc, "%s", spt_error(t));
  else ck_assert_msg(rc && strstr(spt_error(t), words), "'%s' is not in '%s'", words, spt_error(t));
  spt_free(t);
}

START_TEST(finds) { find("cpu", cases[_i].mistake, cases[_i].words); }
END_TEST

START_TEST(finds_through_copies) { find("copy", cases[_i].mistake, cases[_i].words); }
END_TEST

/* A replayed graph computes with the values that are there then. */
START_TEST(capture) {
  float want[6], got[6], x[6], g[6];
  spt *a = open_stage("cpu", "none"), *b = open_stage("copy", "none");
  spt_set_capture(b, SPT_CAPTURE);
  for (int round = 0; round < 3; round++) {
    spt_random(x, 6, 10 + (uint64_t)round, -1, 1);
    spt_random(g, 6, 20 + (uint64_t)round, -1, 1);
    for (int k = 0; k < 2; k++) {
      spt *t = k ? b : a;
      ck_assert_int_eq(spt_set(t, SPT_IN, 0, 0, x), SP_OK);
      ck_assert_msg(!spt_forward(t, (uint64_t)round), "%s", spt_error(t));
      ck_assert_int_eq(spt_set(t, SPT_DOUT, 0, 0, g), SP_OK);
      ck_assert_msg(!spt_backward(t), "%s", spt_error(t));
      spt_get(t, SPT_DIN, 0, 0, k ? got : want);
    }
    ck_assert_mem_eq(got, want, sizeof got);
    spt_get(a, SPT_OUT, 0, 0, want);
    spt_get(b, SPT_OUT, 0, 0, got);
    ck_assert_mem_eq(got, want, sizeof got);
    spt_set_capture(b, SPT_REPLAY);
  }
  spt_free(a);
  spt_free(b);
}
END_TEST

START_TEST(devices) {
  char why[512];
  ck_assert_int_eq(spt_device_ready("cpu", why, sizeof why), SP_OK);
  ck_assert_int_eq(spt_device_ready("nonesuch", why, sizeof why), SP_E_NOTFOUND);
  ck_assert_msg(strstr(why, "there is no device 'nonesuch'") != NULL, "%s", why);
  ck_assert_int_eq(spt_device_ready("copy:x", why, sizeof why), SP_E_INVALID);
  ck_assert_msg(strstr(why, "device 'copy:x': NAME or NAME:NUMBER is wanted") != NULL, "%s", why);
  ck_assert_int_eq(spt_device_ready("copy", why, sizeof why), SP_OK);
  ck_assert_int_ne(spt_device_flags("copy") & SP_DEVICE_CAPTURE, 0);
  spt *t = spt_new_on("copy", "mistakes", NULL, 1), *u = spt_new_on("cpu:0", "mistakes", NULL, 1);
  ck_assert_int_eq(spt_failed(t), SP_OK);
  ck_assert_msg(strstr(spt_error(u), "device 'copy' is in use still") != NULL, "%s", spt_error(u));
  spt_free(t);
  spt_free(u);
  spt_device_close();
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
  tcase_add_loop_test(c, finds_through_copies, 0, (int)SP_ARRAY(cases));
  tcase_add_test(c, capture);
  tcase_add_test(c, devices);
  tcase_add_test(c, tables);
  suite_add_tcase(s, c);
  return suite_run(s);
}
