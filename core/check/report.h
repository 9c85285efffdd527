/* SPDX-License-Identifier: MIT
 * report.h - the lines of a conformance report about one stage. */
#ifndef SP_CORE_CHECK_REPORT_H
#define SP_CORE_CHECK_REPORT_H

#include "check/conformance.h"

typedef struct report {
  sp_conform_fn line;
  void *arg;
  const char *stage;
  int failed;
} report;

void report_ok(report *rep, const char *what);
void report_notice(report *rep, const char *what, const char *words);
void report_bad(report *rep, const char *what, const char *words);
/* ok, or bad with the words; returns `good`. */
bool report_check(report *rep, bool good, const char *what, const char *words);

#endif
