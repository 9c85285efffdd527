/* SPDX-License-Identifier: MIT
 * check_err.c - errors keep their words, a status has a name. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/cure.h"
#include "base/err.h"
#include "tests/kit/suite.h"

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

static const char *cured(const char *text) {
  static char words[200];
  snprintf(words, sizeof words, "%s", text);
  sp_cure_words(words, sizeof words, "reader");
  return words;
}

START_TEST(cures_are_typed_as_the_command_takes_them) {
  const char *words = "take fewer, or `drop_last = false`, `it` or ` = ` or `a = `";
  ck_assert_str_eq(cured(words), "take fewer, or drop_last = false, `it` or ` = ` or `a = `");
  sp_cure_option(NULL, NULL);
  ck_assert_str_eq(cured("`drop_last = false`, so"), "drop_last = false (--set reader.drop_last=false), so");
  ck_assert_str_eq(cured("one ` alone, `x"), "one ` alone, `x");
  ck_assert_str_eq(cured("`path = \"it's a\"`"), "path = \"it's a\" (--set 'reader.path=it'\\''s a')");
  sp_cure_option("reader.classes", "--classes");
  sp_cure_option("reader.orient", "--orient");
  ck_assert_str_eq(cured("`classes = N`"), "classes = N (--classes N)");
  ck_assert_str_eq(cured("`orient = false`"), "orient = false (--no-orient)");
  ck_assert_str_eq(cured("`orient = true` `class = 1`"), "orient = true (--orient) class = 1 (--set reader.class=1)");
  ck_assert_uint_eq(strlen(cured("`a = 01234567890123456789012345678901234567890123456789012345678901234567890123456789"
                                 "01234567890123456789012345678901234567890123456789`")), 199);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("err");
  TCase *tc = tcase_create("err");
  tcase_add_test(tc, errors_keep_their_words);
  tcase_add_test(tc, long_words_are_cut);
  tcase_add_test(tc, cures_are_typed_as_the_command_takes_them);
  tcase_add_test(tc, status_has_name_and_words);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
