/* SPDX-License-Identifier: MIT
 * util.c - errors with words, strings that grow, small helpers. */
#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- errors ------------------------------------------------------------------------------------------------------ */

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

/* ---- memory ------------------------------------------------------------------------------------------------------ */

char *sp_strdup(const char *s) {
  size_t n = strlen(s) + 1;
  char *copy = malloc(n);
  if (copy) memcpy(copy, s, n);
  return copy;
}

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

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

size_t sp_dtype_size(int dtype) {
  switch (dtype) {
#define CASE(name, value, bytes, word) \
  case value: return bytes;
    SP_DTYPE_LIST(CASE)
#undef CASE
  }
  return 0;
}

const char *sp_dtype_name(int dtype) {
  switch (dtype) {
#define CASE(name, value, bytes, word) \
  case value: return word;
    SP_DTYPE_LIST(CASE)
#undef CASE
  }
  return "unknown dtype";
}

int64_t sp_spec_count(const sp_spec *s) {
  if (s->ndim < 0 || s->ndim > SP_MAX_DIMS) return -1;
  int64_t n = 1;
  bool empty = false;
  for (int d = 0; d < s->ndim; d++) {
    if (s->shape[d] < 0) return -1;
    empty = empty || s->shape[d] == 0;
  }
  for (int d = 0; !empty && d < s->ndim; d++)
    if (__builtin_mul_overflow(n, s->shape[d], &n)) return -1;
  return empty ? 0 : n;
}

int64_t sp_spec_bytes(const sp_spec *s) {
  int64_t n = sp_spec_count(s), size = (int64_t)sp_dtype_size(s->dtype);
  if (n < 0 || !size || __builtin_mul_overflow(n, size, &n)) return -1;
  return n;
}

/* Dimensions from the outermost to the innermost; false if `order` is no permutation of them. */
static bool order_dims(const sp_spec *s, int dims[SP_MAX_DIMS]) {
  uint32_t order = (uint32_t)s->order, seen = 0;
  if (s->ndim < 0 || s->ndim > SP_MAX_DIMS) return false;
  for (int i = s->ndim; i-- > 0; order >>= 4) {
    int d = s->order == SP_ROW_MAJOR ? i : (int)(order & 15);
    if (d >= s->ndim || (seen & 1u << d)) return false;
    seen |= 1u << d;
    dims[i] = d;
  }
  return order == 0;
}

bool sp_spec_order_ok(const sp_spec *s) {
  int dims[SP_MAX_DIMS];
  return order_dims(s, dims);
}

bool sp_spec_equal(const sp_spec *a, const sp_spec *b) {
  if (a->dtype != b->dtype || a->ndim != b->ndim || a->order != b->order) return false;
  for (int d = 0; d < a->ndim && d < SP_MAX_DIMS; d++)
    if (a->shape[d] != b->shape[d]) return false;
  return true;
}

char *sp_spec_str(const sp_spec *s, char *buf, size_t n) {
  size_t at = 0;
  if (!n) return buf;
#define PUT(...)                                                    \
  do {                                                              \
    int w_ = snprintf(buf + at, n - at, __VA_ARGS__);               \
    if (w_ > 0) at = at + (size_t)w_ < n ? at + (size_t)w_ : n - 1; \
  } while (0)
  PUT("%s[", sp_dtype_name(s->dtype));
  for (int d = 0; d < s->ndim && d < SP_MAX_DIMS; d++) PUT("%s%lld", d ? "," : "", (long long)s->shape[d]);
  PUT("]");
  if (s->order == SP_CHANNELS_LAST && s->ndim == 4) PUT(", channels last");
  else if (s->order != SP_ROW_MAJOR) PUT(", order 0x%x", (unsigned)s->order);
#undef PUT
  return buf;
}

void sp_spec_strides(const sp_spec *s, int64_t stride[SP_MAX_DIMS]) {
  int dims[SP_MAX_DIMS];
  for (int d = 0; d < SP_MAX_DIMS; d++) stride[d] = 0;
  if (!order_dims(s, dims)) return;
  int64_t step = 1;
  for (int i = s->ndim; i-- > 0;) {
    stride[dims[i]] = step;
    step *= s->shape[dims[i]];
  }
}

static void copy_row(char *dst, const char *src, int64_t n, int64_t src_step, size_t size) {
#define ROW(type)                                                                               \
  for (int64_t i = 0; i < n; i++, dst += sizeof(type), src += src_step * (int64_t)sizeof(type)) \
  memcpy(dst, src, sizeof(type))
  switch (size) {
    case 1: ROW(uint8_t); break;
    case 2: ROW(uint16_t); break;
    case 4: ROW(uint32_t); break;
    default: ROW(uint64_t); break;
  }
#undef ROW
}

void sp_spec_copy(const sp_spec *ds, void *dst, const sp_spec *ss, const void *src) {
  int64_t count = sp_spec_count(ds), bytes = sp_spec_bytes(ds);
  int dims[SP_MAX_DIMS];
  if (count <= 0 || bytes <= 0 || !order_dims(ds, dims)) return;
  if (ds->order == ss->order || ds->ndim < 2) {
    memcpy(dst, src, (size_t)bytes);
    return;
  }
  size_t size = sp_dtype_size(ds->dtype);
  int64_t from[SP_MAX_DIMS], at[SP_MAX_DIMS] = {0}, offset = 0;
  sp_spec_strides(ss, from);
  /* Rows of the destination, one after another: `at` counts its dimensions from the outermost, `offset` follows in the
   * source. */
  int last = ds->ndim - 1;
  int64_t row = ds->shape[dims[last]];
  for (char *out = dst;; out += (size_t)row * size) {
    copy_row(out, (const char *)src + offset * (int64_t)size, row, from[dims[last]], size);
    int i = last - 1;
    for (; i >= 0; i--) {
      offset += from[dims[i]];
      if (++at[i] < ds->shape[dims[i]]) break;
      offset -= at[i] * from[dims[i]];
      at[i] = 0;
    }
    if (i < 0) return;
  }
}

/* ---- clock, hash, log -------------------------------------------------------------------------------------------- */

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

void sp_log_level(int level) { atomic_store(&log_limit, level); }

void sp_log(int level, const char *fmt, ...) {
  if (level > atomic_load(&log_limit)) return;
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
  /* One write call for the whole line, so that lines of several threads or processes do not mix. */
  for (size_t done = 0; done < at;) {
    ssize_t w = write(STDERR_FILENO, line + done, at - done);
    if (w < 0 && errno == EINTR) continue;
    if (w <= 0) return;
    done += (size_t)w;
  }
}
