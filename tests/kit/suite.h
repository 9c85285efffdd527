/* SPDX-License-Identifier: MIT
 * suite.h - how a program of tests ends. */
#ifndef SP_TESTS_SUITE_H
#define SP_TESTS_SUITE_H

#include <check.h>

/* Runs it; what main() returns. */
static inline int suite_run(Suite *suite) {
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}

#endif
