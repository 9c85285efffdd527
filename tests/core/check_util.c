/* SPDX-License-Identifier: MIT
 * check_util.c - errors, strings, nearest words, tensor specs. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

START_TEST(errors_keep_their_words) {
  sp_err err;
  ck_assert_int_eq(sp_fail(&err, SP_E_SHAPE, "got %d dims", 3), SP_E_SHAPE);
  ck_assert_str_eq(err.msg, "got 3 dims");
  ck_assert_int_eq(sp_prefix(&err, "stage '%s'", "crop"), SP_E_SHAPE);
  ck_assert_str_eq(err.msg, "stage 'crop': got 3 dims");
  sp_fail(&err, SP_E_IO, "again: %s", err.msg); /* its own words as an argument */
  ck_assert_str_eq(err.msg, "again: stage 'crop': got 3 dims");
  ck_assert_int_eq(sp_fail(&err, SP_OK, "no"), SP_E_INTERNAL); /* a failure never looks like success */
  ck_assert_int_eq(sp_nomem(&err, 12345, "a tensor"), SP_E_NOMEM);
  ck_assert_str_eq(err.msg, "out of memory: 12345 bytes for a tensor");
}
END_TEST

START_TEST(long_words_are_cut) {
  static char text[5000];
  sp_err err;
  memset(text, 'x', sizeof text - 1);
  sp_fail(&err, SP_E_IO, "%s", text);
  ck_assert_uint_eq(strlen(err.msg), sizeof err.msg - 1);
  sp_prefix(&err, "front");
  ck_assert_uint_eq(strlen(err.msg), sizeof err.msg - 1);
  ck_assert_int_eq(strncmp(err.msg, "front: xxx", 10), 0);
  sp_prefix(&err, "%s", text);
  ck_assert_uint_eq(strlen(err.msg), sizeof err.msg - 1);
  err.msg[0] = 0;
  sp_prefix(&err, "p");
  ck_assert_str_eq(err.msg, "p: ");
}
END_TEST

START_TEST(status_has_name_and_words) {
  ck_assert_str_eq(sp_status_name(SP_E_SHAPE), "SP_E_SHAPE");
  ck_assert_str_eq(sp_status_words(SP_E_SHAPE), "shapes do not fit");
  ck_assert_str_eq(sp_status_name(17), "unknown status");
}
END_TEST

START_TEST(strings_grow) {
  sp_sb sb = {0};
  ck_assert_str_eq(sp_sb_str(&sb), "");
  for (int i = 0; i < 1000; i++) sp_sb_putf(&sb, "%d,", i % 10);
  ck_assert_uint_eq(sb.n, 2000);
  sp_sb_putf(&sb, "%0*d", 3000, 7); /* longer than any buffer inside */
  ck_assert_uint_eq(strlen(sp_sb_str(&sb)), 5000);
  ck_assert_int_eq(sb.s[4999], '7');
  ck_assert(!sb.broken);
  sp_sb_free(&sb);
  ck_assert_str_eq(sp_sb_str(&sb), "");
}
END_TEST

static void json_is(const char *s, const char *want) {
  sp_sb sb = {0};
  sp_sb_json(&sb, s);
  ck_assert_str_eq(sp_sb_str(&sb), want);
  sp_sb_free(&sb);
}

START_TEST(json_strings) {
  json_is("", "\"\"");
  json_is("a\"b\\c\n\t\x01", "\"a\\\"b\\\\c\\n\\t\\u0001\"");
  json_is("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
#define BAD "\xEF\xBF\xBD"
  json_is("\xFFx", "\"" BAD "x\"");
  json_is("\xC3", "\"" BAD "\"");                 /* cut off */
  json_is("\xC0\xAF", "\"" BAD BAD "\"");         /* overlong */
  json_is("\xED\xA0\x80", "\"" BAD BAD BAD "\""); /* surrogate */
  json_is("\xF4\x90\x80\x80", "\"" BAD BAD BAD BAD "\"");
}
END_TEST

static void num_is(double v, const char *want) {
  sp_sb sb = {0};
  sp_sb_json_num(&sb, v);
  ck_assert_str_eq(sp_sb_str(&sb), want);
  sp_sb_free(&sb);
}

START_TEST(json_numbers) {
  num_is(0.1, "0.1");
  num_is(3, "3");
  num_is(-0.0, "-0");
  num_is(0.1 + 0.2, "0.30000000000000004");
  num_is(5e-324, "5e-324");
  num_is(NAN, "\"NaN\"");
  num_is(-INFINITY, "\"-Infinity\"");
  uint64_t h = SP_FNV64;
  for (int i = 0; i < 2000; i++) {
    double v;
    h = sp_fnv64(h, &i, sizeof i);
    memcpy(&v, &h, sizeof v);
    if (!isfinite(v)) continue;
    sp_sb sb = {0};
    sp_sb_json_num(&sb, v);
    ck_assert(strtod(sp_sb_str(&sb), NULL) == v);
    sp_sb_free(&sb);
  }
}
END_TEST

START_TEST(nearest_word) {
  static const char *const names[] = {"lr", "momentum", "weight_decay", "classes", "size", NULL};
  ck_assert_str_eq(sp_nearest("momentun", names), "momentum");
  ck_assert_str_eq(sp_nearest("weightdecay", names), "weight_decay");
  ck_assert_str_eq(sp_nearest("LR", names), "lr");
  ck_assert_str_eq(sp_nearest("rl", names), "lr");
  ck_assert_str_eq(sp_nearest("clases", names), "classes");
  ck_assert_ptr_null(sp_nearest("zebra", names));
  ck_assert_ptr_null(sp_nearest("", names));
  char longer[200];
  memset(longer, 'a', 199);
  longer[199] = 0;
  ck_assert_ptr_null(sp_nearest(longer, names));
}
END_TEST

START_TEST(growing_never_overflows) {
  int *a = NULL;
  size_t cap = 0;
  ck_assert(sp_grow(&a, &cap, 5, sizeof *a) && cap >= 5);
  size_t was = cap;
  ck_assert(!sp_grow(&a, &cap, SIZE_MAX / 2, sizeof *a));
  ck_assert_uint_eq(cap, was);
  free(a);
}
END_TEST

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
  Suite *suite = suite_create("util");
  TCase *tc = tcase_create("util");
  tcase_add_test(tc, errors_keep_their_words);
  tcase_add_test(tc, long_words_are_cut);
  tcase_add_test(tc, status_has_name_and_words);
  tcase_add_test(tc, strings_grow);
  tcase_add_test(tc, json_strings);
  tcase_add_test(tc, json_numbers);
  tcase_add_test(tc, nearest_word);
  tcase_add_test(tc, growing_never_overflows);
  tcase_add_test(tc, spec_sizes);
  tcase_add_test(tc, spec_orders);
  tcase_add_loop_test(tc, spec_copies, 0, 4);
  suite_add_tcase(suite, tc);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
