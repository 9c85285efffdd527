/* SPDX-License-Identifier: MIT
 * err.h - errors with words, and what a status is called. */
#ifndef SP_CORE_ERR_H
#define SP_CORE_ERR_H

#include <spcore/abi.h>

#include <stdarg.h>
#include <stddef.h>

/* Words of the failure that a call reports. Core functions return an sp_status and, when it is not SP_OK, have filled
 * *err (never NULL). */
typedef struct sp_err {
  int status;
  char msg[1536];
} sp_err;

/* Sets err and returns status. */
int sp_fail(sp_err *err, int status, const char *fmt, ...) SP_PRINTF(3, 4);
int sp_vfail(sp_err *err, int status, const char *fmt, va_list ap);
/* Puts "fmt: " in front of the words already there; returns err->status. */
int sp_prefix(sp_err *err, const char *fmt, ...) SP_PRINTF(2, 3);
int sp_nomem(sp_err *err, size_t bytes, const char *what);

const char *sp_status_name(int status);  /* "SP_E_SHAPE" */
const char *sp_status_words(int status); /* "shapes do not fit" */

#endif
