/* SPDX-License-Identifier: MIT
 * check_text.c - strings that grow, JSON, nearest words. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tests/kit/suite.h"

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

int main(void) {
  Suite *suite = suite_create("text");
  TCase *tc = tcase_create("text");
  tcase_add_test(tc, strings_grow);
  tcase_add_test(tc, json_strings);
  tcase_add_test(tc, json_numbers);
  tcase_add_test(tc, nearest_word);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
