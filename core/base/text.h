/* SPDX-License-Identifier: MIT
 * text.h - strings that grow, JSON, the nearest of several words. */
#ifndef SP_CORE_TEXT_H
#define SP_CORE_TEXT_H

#include <spcore/abi.h>

#include <stdbool.h>
#include <stddef.h>

char *sp_strdup(const char *s); /* NULL when out of memory */

/* A string that grows. Zero-initialised is empty. Running out of memory truncates it and sets `broken`. */
typedef struct sp_sb {
  char *s;
  size_t n, cap;
  bool broken;
} sp_sb;
void sp_sb_put(sp_sb *sb, const char *s);
void sp_sb_putf(sp_sb *sb, const char *fmt, ...) SP_PRINTF(2, 3);
/* As a JSON string, quotes included; bytes that are no UTF-8 become U+FFFD. */
void sp_sb_json(sp_sb *sb, const char *s);
void sp_sb_json_num(sp_sb *sb, double v); /* shortest text that reads back the same; NaN and infinities as strings */
const char *sp_sb_str(const sp_sb *sb);   /* never NULL */
void sp_sb_free(sp_sb *sb);

/* The name in `names` (ended by NULL) nearest to `word`, or NULL if none is near. */
const char *sp_nearest(const char *word, const char *const *names);

#endif
