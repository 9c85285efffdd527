/* SPDX-License-Identifier: MIT
 * text.c - strings that grow, JSON, the nearest of several words. */
#include "base/text.h"

#include "base/util.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *sp_strdup(const char *s) {
  size_t n = strlen(s) + 1;
  char *copy = malloc(n);
  if (copy) memcpy(copy, s, n);
  return copy;
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

static void put_bytes(sp_sb *sb, const char *s, size_t n) {
  if (sb->broken) return;
  if (n > SIZE_MAX - sb->n - 1 || !sp_grow(&sb->s, &sb->cap, sb->n + n + 1, 1)) {
    sb->broken = true;
    return;
  }
  memcpy(sb->s + sb->n, s, n);
  sb->n += n;
  sb->s[sb->n] = 0;
}

void sp_sb_put(sp_sb *sb, const char *s) { put_bytes(sb, s, strlen(s)); }

void sp_sb_putf(sp_sb *sb, const char *fmt, ...) {
  char small[256];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(small, sizeof small, fmt, ap);
  va_end(ap);
  if (n < 0) {
    sb->broken = true;
  } else if ((size_t)n < sizeof small) {
    put_bytes(sb, small, (size_t)n);
  } else if (!sb->broken) {
    if (!sp_grow(&sb->s, &sb->cap, sb->n + (size_t)n + 1, 1)) {
      sb->broken = true;
      return;
    }
    va_start(ap, fmt);
    vsnprintf(sb->s + sb->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    sb->n += (size_t)n;
  }
}

/* Bytes of the UTF-8 sequence at s, 0 if it is none (overlong forms, surrogates and values past U+10FFFF are none). */
static size_t utf8_len(const unsigned char *s) {
  if (s[0] < 0x80) return 1;
  size_t n = s[0] >= 0xC2 && s[0] <= 0xDF ? 2 : s[0] >= 0xE0 && s[0] <= 0xEF ? 3 : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4 : 0;
  for (size_t i = 1; i < n; i++)
    if ((s[i] & 0xC0) != 0x80) return 0;
  if (s[0] == 0xE0 && s[1] < 0xA0) return 0;
  if (s[0] == 0xED && s[1] > 0x9F) return 0;
  if (s[0] == 0xF0 && s[1] < 0x90) return 0;
  if (s[0] == 0xF4 && s[1] > 0x8F) return 0;
  return n;
}

void sp_sb_json(sp_sb *sb, const char *s) {
  put_bytes(sb, "\"", 1);
  for (const unsigned char *p = (const unsigned char *)s; *p;) {
    size_t n = utf8_len(p);
    if (!n) {
      sp_sb_put(sb, "\xEF\xBF\xBD");
      n = 1;
    } else if (*p == '"' || *p == '\\') {
      char esc[2] = {'\\', (char)*p};
      put_bytes(sb, esc, 2);
    } else if (*p == '\n') {
      put_bytes(sb, "\\n", 2);
    } else if (*p == '\t') {
      put_bytes(sb, "\\t", 2);
    } else if (*p < 0x20 || *p == 0x7F) {
      sp_sb_putf(sb, "\\u%04x", *p);
    } else {
      put_bytes(sb, (const char *)p, n);
    }
    p += n;
  }
  put_bytes(sb, "\"", 1);
}

void sp_sb_json_num(sp_sb *sb, double v) {
  if (isnan(v)) {
    sp_sb_put(sb, "\"NaN\"");
    return;
  }
  if (isinf(v)) {
    sp_sb_put(sb, v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    return;
  }
  char text[40];
  /* A decimal of up to 15 digits survives the way through a normal double, so 15 finds every shorter one too. */
  for (int digits = fabs(v) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, v);
    if (strtod(text, NULL) == v) break;
  }
  char *comma = strchr(text, ','); /* a library may have set a locale with a decimal comma */
  if (comma) *comma = '.';
  sp_sb_put(sb, text);
}

const char *sp_sb_str(const sp_sb *sb) { return sb->s ? sb->s : ""; }

void sp_sb_free(sp_sb *sb) {
  free(sb->s);
  *sb = (sp_sb){0};
}

/* ---- nearest word ------------------------------------------------------------------------------------------------ */

#define WORD_MAX 63

/* Edits (insert, delete, replace, swap of neighbours) between two words, in either case. */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb) {
  size_t row[3][WORD_MAX + 1];
  size_t *two = row[0], *one = row[1], *cur = row[2];
  for (size_t j = 0; j <= nb; j++) one[j] = two[j] = j;
  for (size_t i = 1; i <= na; i++) {
    int ca = tolower((unsigned char)a[i - 1]);
    cur[0] = i;
    for (size_t j = 1; j <= nb; j++) {
      int cb = tolower((unsigned char)b[j - 1]);
      size_t d = one[j - 1] + (ca != cb);
      if (one[j] + 1 < d) d = one[j] + 1;
      if (cur[j - 1] + 1 < d) d = cur[j - 1] + 1;
      if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) && cb == tolower((unsigned char)a[i - 2]) &&
          two[j - 2] + 1 < d)
        d = two[j - 2] + 1;
      cur[j] = d;
    }
    size_t *spare = two;
    two = one;
    one = cur;
    cur = spare;
  }
  return one[nb];
}

const char *sp_nearest(const char *word, const char *const *names) {
  size_t n = strlen(word), best = 0;
  const char *found = NULL;
  if (n > WORD_MAX) return NULL;
  for (; *names; names++) {
    size_t m = strlen(*names), longer = m > n ? m : n;
    if (m > WORD_MAX) continue;
    size_t d = edit_distance(word, n, *names, m);
    if (d >= longer || d > (longer + 2) / 3 || (found && d >= best)) continue;
    found = *names;
    best = d;
  }
  return found;
}
