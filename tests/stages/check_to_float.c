/* SPDX-License-Identifier: MIT
 * check_to_float.c - the stage `to_float`. */
#include <check.h>

#include "tests/kit/harness.h"
#include "base/util.h"
#include "tests/kit/suite.h"

static void ok(spt *t) { ck_assert_msg(!spt_failed(t), "%s", spt_error(t)); }

START_TEST(test_to_float) {
  static uint8_t in[2 * 3 * 130 * 131];
  static float out[SP_ARRAY(in)];
  const int64_t shape[] = {2, 3, 130, 131};
  int order = _i & 1 ? SP_CHANNELS_LAST : SP_ROW_MAJOR, scale = _i >> 1;
  for (size_t i = 0; i < SP_ARRAY(in); i++) in[i] = (uint8_t)(i * 31 + i / 256);
  spt *t = spt_new("to_float", scale ? "{ scale = true }" : NULL, 3);
  ok(t);
  spt_input_of(t, 0, SP_U8, 4, shape, order, in);
  spt_plan(t, 0);
  spt_forward(t, 0);
  ok(t);
  ck_assert_int_eq(spt_spec(t, SPT_OUT, 0, 0)->order, order);
  ck_assert_int_eq(spt_get(t, SPT_OUT, 0, 0, out), SP_OK);
  for (size_t i = 0; i < SP_ARRAY(in); i++) {
    float want = scale ? (float)in[i] * (1.0f / 255.0f) : (float)in[i];
    ck_assert(out[i] == want);
  }
  spt_free(t);
}
END_TEST

int main(void) {
  Suite *s = suite_create("to_float");
  TCase *c = tcase_create("to_float");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, test_to_float, 0, 4);
  suite_add_tcase(s, c);
  return suite_run(s);
}
