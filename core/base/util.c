/* SPDX-License-Identifier: MIT
 * util.c - small helpers: memory, clock, hash, log. */
#include "base/util.h"

#include "base/line.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void *sp_calloc(size_t n, size_t size) { return calloc(n ? n : 1, size ? size : 1); }

bool sp_grow(void *array, size_t *cap, size_t n, size_t size) {
  if (n <= *cap) return true;
  size_t want = *cap > SIZE_MAX / 2 ? n : *cap * 2;
  if (want < n) want = n;
  if (want < 16) want = 16;
  if (!size || want > SIZE_MAX / size) return false;
  void *old, *grown;
  memcpy(&old, array, sizeof old);
  grown = realloc(old, want * size);
  if (!grown) return false;
  memcpy(array, &grown, sizeof grown);
  *cap = want;
  return true;
}

double sp_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

uint64_t sp_fnv64(uint64_t h, const void *data, size_t n) {
  const unsigned char *p = data;
  for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * UINT64_C(0x100000001B3);
  return h;
}

static atomic_int log_limit = SP_LOG_INFO;

int sp_log_level(int level) { return atomic_exchange(&log_limit, level); }

bool sp_log_says(int level) { return level <= atomic_load(&log_limit); }

void sp_log(int level, const char *fmt, ...) {
  if (!sp_log_says(level)) return;
  char line[2048] = "spcore: ";
  size_t at = strlen(line);
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(line + at, sizeof line - at - 1, fmt, ap);
  va_end(ap);
  if (n < 0) return;
  at = at + (size_t)n < sizeof line - 1 ? at + (size_t)n : sizeof line - 2;
  /* One line it stays, and no byte of a file's name steers the terminal. */
  for (size_t i = 0; i < at; i++) {
    unsigned char c = (unsigned char)line[i];
    if (c == '\n' || c == '\t') line[i] = ' ';
    else if (c < 0x20 || c == 0x7f) line[i] = '?';
  }
  line[at++] = '\n';
  sp_line_error(line, at);
}
