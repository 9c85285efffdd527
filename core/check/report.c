/* SPDX-License-Identifier: MIT
 * report.c - the lines of a conformance report about one stage. */
#include "check/report.h"

void report_ok(report *rep, const char *what) { rep->line(rep->arg, SP_CONFORM_OK, rep->stage, what, ""); }

void report_notice(report *rep, const char *what, const char *words) {
  rep->line(rep->arg, SP_CONFORM_NOTICE, rep->stage, what, words);
}

void report_bad(report *rep, const char *what, const char *words) {
  rep->failed++;
  rep->line(rep->arg, SP_CONFORM_FAILED, rep->stage, what, words);
}

bool report_check(report *rep, bool good, const char *what, const char *words) {
  if (good) report_ok(rep, what);
  else report_bad(rep, what, words);
  return good;
}
