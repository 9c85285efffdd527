/* SPDX-License-Identifier: MIT
 * check_util.c - arrays that grow, log lines. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "tests/kit/suite.h"

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

/* What sp_log() writes to stderr. */
static const char *logged(int level, const char *words) {
  static char line[4096];
  FILE *f = tmpfile();
  int was = dup(STDERR_FILENO);
  ck_assert(f && was >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
  sp_log(level, "%s", words);
  ck_assert_int_ge(dup2(was, STDERR_FILENO), 0);
  close(was);
  rewind(f);
  line[fread(line, 1, sizeof line - 1, f)] = 0;
  fclose(f);
  return line;
}

START_TEST(a_log_line_is_one_line) {
  char words[3000];
  ck_assert_str_eq(logged(SP_LOG_INFO, "a\nb\tc\x1b[2J"), "spcore: a b c?[2J\n");
  ck_assert_str_eq(logged(SP_LOG_DEBUG, "too much"), "");
  sp_log_level(SP_LOG_DEBUG);
  ck_assert_str_eq(logged(SP_LOG_DEBUG, "asked for"), "spcore: asked for\n");
  memset(words, 'x', sizeof words - 1);
  words[sizeof words - 1] = 0;
  const char *line = logged(SP_LOG_ERROR, words);
  ck_assert_ptr_eq(strchr(line, '\n'), line + strlen(line) - 1);
  ck_assert_int_eq(strncmp(line, "spcore: xxx", 11), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("util");
  TCase *tc = tcase_create("util");
  tcase_add_test(tc, growing_never_overflows);
  tcase_add_test(tc, a_log_line_is_one_line);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
