/* SPDX-License-Identifier: MIT
 * check_value.c - tables of values: growth, overwriting, ownership. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/value.h"
#include "tests/kit/suite.h"

START_TEST(nil_grows_into_a_table) {
  sp_value v = {0};
  sp_value *item = sp_value_push(&v);
  ck_assert_ptr_nonnull(item);
  ck_assert_int_eq(v.type, SP_V_TABLE);
  ck_assert_int_eq(item->type, SP_V_NIL);
  ck_assert_uint_eq(v.n_items, 1);
  sp_value_free(&v);
  ck_assert_int_eq(v.type, SP_V_NIL);
  ck_assert_uint_eq(v.n_items, 0);
}
END_TEST

START_TEST(a_plain_value_takes_no_fields) {
  sp_value v = {.type = SP_V_INT, .i = 3};
  ck_assert_ptr_null(sp_value_push(&v));
  ck_assert_ptr_null(sp_value_put(&v, "x"));
  ck_assert_int_eq(v.i, 3);
}
END_TEST

START_TEST(fields_are_found_and_kept_once) {
  sp_value v = {0};
  char key[16];
  for (int i = 0; i < 100; i++) {
    snprintf(key, sizeof key, "k%d", i);
    sp_value *f = sp_value_put(&v, key);
    *f = (sp_value){.type = SP_V_INT, .i = i};
  }
  sp_value_put(&v, "k7")->i = 70;
  ck_assert_uint_eq(v.n_fields, 100);
  ck_assert_int_eq(sp_value_get(&v, "k7")->i, 70);
  ck_assert_int_eq(sp_value_get(&v, "k99")->i, 99);
  ck_assert_ptr_null(sp_value_get(&v, "k100"));
  sp_value_free(&v);
}
END_TEST

START_TEST(strings_are_copied) {
  char text[] = "one";
  sp_value v = {0};
  ck_assert(sp_value_set_str(sp_value_put(&v, "s"), text));
  text[0] = 'X';
  ck_assert_str_eq(sp_value_get(&v, "s")->s, "one");
  ck_assert(sp_value_set_str(sp_value_put(&v, "s"), "two"));
  ck_assert_str_eq(sp_value_get(&v, "s")->s, "two");
  sp_value *inner = sp_value_push(sp_value_put(&v, "list"));
  ck_assert(sp_value_set_str(inner, "deep"));
  sp_value_free(&v);
}
END_TEST

int main(void) {
  Suite *s = suite_create("value");
  TCase *tc = tcase_create("value");
  tcase_add_test(tc, nil_grows_into_a_table);
  tcase_add_test(tc, a_plain_value_takes_no_fields);
  tcase_add_test(tc, fields_are_found_and_kept_once);
  tcase_add_test(tc, strings_are_copied);
  suite_add_tcase(s, tc);
  return suite_run(s);
}
