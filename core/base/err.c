/* SPDX-License-Identifier: MIT
 * err.c - errors with words, and what a status is called. */
#include "base/err.h"

#include <stdio.h>
#include <string.h>

int sp_vfail(sp_err *err, int status, const char *fmt, va_list ap) {
  char text[sizeof err->msg]; /* the arguments may point into err->msg */
  vsnprintf(text, sizeof text, fmt, ap);
  memcpy(err->msg, text, sizeof text);
  err->status = status < 0 ? status : SP_E_INTERNAL; /* a failure never looks like success */
  return err->status;
}

int sp_fail(sp_err *err, int status, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  status = sp_vfail(err, status, fmt, ap);
  va_end(ap);
  return status;
}

int sp_prefix(sp_err *err, const char *fmt, ...) {
  char text[sizeof err->msg];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  if (n < 0) return err->status;
  size_t at = (size_t)n < sizeof text - 3 ? (size_t)n : sizeof text - 3;
  size_t keep = strlen(err->msg), room = sizeof text - at - 3;
  if (keep > room) keep = room;
  memcpy(text + at, ": ", 2);
  memcpy(text + at + 2, err->msg, keep);
  text[at + 2 + keep] = 0;
  memcpy(err->msg, text, sizeof text);
  return err->status;
}

int sp_nomem(sp_err *err, size_t bytes, const char *what) {
  return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes for %s", bytes, what);
}

const char *sp_status_name(int status) {
  switch (status) {
#define CASE(name, value, words) \
  case value: return #name;
    SP_STATUS_LIST(CASE)
#undef CASE
  }
  return "unknown status";
}

const char *sp_status_words(int status) {
  switch (status) {
#define CASE(name, value, words) \
  case value: return words;
    SP_STATUS_LIST(CASE)
#undef CASE
  }
  return "unknown status";
}
