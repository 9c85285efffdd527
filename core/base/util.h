/* SPDX-License-Identifier: MIT
 * util.h - small helpers: memory, clock, hash, log. It brings errors, text and specs along, since nearly every file of
 * core needs most of them; a header that needs errors alone includes err.h. */
#ifndef SP_CORE_UTIL_H
#define SP_CORE_UTIL_H

#include "base/err.h"
#include "base/spec.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *sp_calloc(size_t n, size_t size);
/* Grows *array (of elements of `size` bytes) to hold n elements; false when out of memory. */
bool sp_grow(void *array, size_t *cap, size_t n, size_t size);

double sp_now(void);                                       /* seconds, monotonic */
uint64_t sp_fnv64(uint64_t h, const void *data, size_t n); /* h: start with SP_FNV64 */
#define SP_FNV64 UINT64_C(0xCBF29CE484222325)

/* A step in words: people count from 1, as the bar and reports do; what programs read and are given counts from 0. */
static inline uint64_t sp_step_said(uint64_t step) { return step + 1; }

/* Log lines go to stderr as "spcore: words"; level above the limit is dropped. Thread-safe. */
int sp_log_level(int level); /* what is above is not said; returns the limit that was there */
bool sp_log_says(int level); /* from a signal handler, too */
void sp_log(int level, const char *fmt, ...) SP_PRINTF(2, 3);

#define SP_ARRAY(a) (sizeof(a) / sizeof((a)[0]))

#endif
