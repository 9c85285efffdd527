/* SPDX-License-Identifier: MIT
 * check_spec.c - sizes, orders and copies of tensors. */
#include <check.h>

#include "base/spec.h"
#include "tests/kit/suite.h"

START_TEST(spec_sizes) {
  sp_spec s = {.dtype = SP_F32, .ndim = 4, .shape = {8, 3, 256, 256}};
  char buf[128];
  ck_assert_int_eq(sp_spec_count(&s), 8 * 3 * 65536);
  ck_assert_int_eq(sp_spec_bytes(&s), 4 * 8 * 3 * 65536);
  ck_assert_str_eq(sp_spec_str(&s, buf, sizeof buf), "float32[8,3,256,256]");
  ck_assert_str_eq(sp_spec_str(&s, buf, 10), "float32[8");
  s.order = SP_CHANNELS_LAST;
  ck_assert_str_eq(sp_spec_str(&s, buf, sizeof buf), "float32[8,3,256,256], channels last");
  sp_spec scalar = {.dtype = SP_I64};
  ck_assert_int_eq(sp_spec_bytes(&scalar), 8);
  s.shape[2] = INT64_MAX / 4;
  ck_assert_int_eq(sp_spec_count(&s), -1);
  s.shape[3] = 0; /* empty, however large the rest */
  ck_assert_int_eq(sp_spec_count(&s), 0);
  s.shape[3] = -1;
  ck_assert_int_eq(sp_spec_count(&s), -1);
  scalar.dtype = 99;
  ck_assert_int_eq(sp_spec_bytes(&scalar), -1);
  scalar.ndim = 9;
  ck_assert_int_eq(sp_spec_count(&scalar), -1);
}
END_TEST

START_TEST(spec_orders) {
  sp_spec s = {.dtype = SP_F32, .ndim = 4, .shape = {2, 3, 4, 5}};
  int64_t stride[SP_MAX_DIMS];
  sp_spec_strides(&s, stride);
  ck_assert(stride[0] == 60 && stride[1] == 20 && stride[2] == 5 && stride[3] == 1);
  s.order = SP_CHANNELS_LAST;
  ck_assert(sp_spec_order_ok(&s));
  sp_spec_strides(&s, stride);
  ck_assert(stride[0] == 60 && stride[1] == 1 && stride[2] == 15 && stride[3] == 3);
  sp_spec other = s;
  ck_assert(sp_spec_equal(&s, &other));
  other.order = SP_ROW_MAJOR;
  ck_assert(!sp_spec_equal(&s, &other));
  s.order = SP_ORDER4(0, 2, 2, 1);
  ck_assert(!sp_spec_order_ok(&s));
  s.order = SP_ORDER4(0, 2, 4, 1);
  ck_assert(!sp_spec_order_ok(&s));
  s.order = SP_ORDER4(1, 2, 3, 0) | 0x10000; /* more digits than dimensions */
  ck_assert(!sp_spec_order_ok(&s));
}
END_TEST

START_TEST(spec_copies) {
  static const int dtype[] = {SP_U8, SP_F16, SP_F32, SP_F64};
  sp_spec a = {.dtype = dtype[_i], .ndim = 4, .shape = {2, 3, 4, 5}}, b = a;
  size_t size = sp_dtype_size(a.dtype);
  unsigned char src[120 * 8], mid[120 * 8], back[120 * 8];
  int64_t sa[SP_MAX_DIMS], sb[SP_MAX_DIMS];
  b.order = SP_ORDER4(3, 0, 2, 1);
  for (size_t i = 0; i < sizeof src; i++) src[i] = (unsigned char)(i * 37 + i / 256);
  sp_spec_copy(&b, mid, &a, src);
  sp_spec_strides(&a, sa);
  sp_spec_strides(&b, sb);
  for (int n = 0; n < 2; n++)
    for (int c = 0; c < 3; c++)
      for (int h = 0; h < 4; h++)
        for (int w = 0; w < 5; w++) {
          size_t from = (size_t)(n * sa[0] + c * sa[1] + h * sa[2] + w * sa[3]);
          size_t to = (size_t)(n * sb[0] + c * sb[1] + h * sb[2] + w * sb[3]);
          ck_assert_mem_eq(mid + to * size, src + from * size, size);
        }
  sp_spec_copy(&a, back, &b, mid);
  ck_assert_mem_eq(back, src, 120 * size);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("spec");
  TCase *tc = tcase_create("spec");
  tcase_add_test(tc, spec_sizes);
  tcase_add_test(tc, spec_orders);
  tcase_add_loop_test(tc, spec_copies, 0, 4);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
