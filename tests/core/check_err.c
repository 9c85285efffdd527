/* SPDX-License-Identifier: MIT
 * check_err.c - errors keep their words, a status has a name. */
#include <check.h>
#include <string.h>

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

int main(void) {
  Suite *suite = suite_create("err");
  TCase *tc = tcase_create("err");
  tcase_add_test(tc, errors_keep_their_words);
  tcase_add_test(tc, long_words_are_cut);
  tcase_add_test(tc, status_has_name_and_words);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
