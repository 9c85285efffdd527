/* SPDX-License-Identifier: MIT
 * check_device_cpu.c - the device cpu alone: the thread of a stream. What holds for every device is in
 * check_device.c. */
#include <fenv.h>

#include "device/cpu.h"
#include "tests/kit/device_kit.h"

static int op_mode(void *arg, void *native) {
  (void)native;
  *(int *)arg = fegetround();
  return SP_OK;
}

/* Whatever a library has done to the thread that opens it. */
START_TEST(a_stream_begins_with_the_default_floating_point_mode) {
  int mode = -1;
  set_up(&sp_device_cpu);
  fesetround(FE_UPWARD);
  void *s = stream_new("rounds");
  fesetround(FE_TONEAREST);
  submit(s, op_mode, &mode);
  ck_assert_int_eq(type->stream_sync(ctx, s), SP_OK);
  ck_assert_int_eq(mode, FE_TONEAREST);
  type->stream_close(s);
  tear_down();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("device cpu");
  TCase *cpu = tcase_create("cpu");
  tcase_add_test(cpu, a_stream_begins_with_the_default_floating_point_mode);
  suite_add_tcase(suite, cpu);
  return kit_run(suite);
}
