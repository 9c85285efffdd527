/* SPDX-License-Identifier: MIT
 * array_labels.c - labels.npy: a class for each image, a column of 0 and 1 for each of several labels, or numbers. What
 * may be two of these is asked. */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kits/image/image.h"
#include "values.h"

#define BLOCK 65536 /* elements that are read at once, or a row */

typedef struct labels {
  rd_listing *l;
  const char *path;
  rd_array a;
  int type; /* IM_U8 ... */
  int is_whole;
  int64_t columns;
  const uint32_t *source; /* of the images, and of the second ones or UINT32_MAX */
  rd_words *words;
  size_t left; /* rows left out, as a number is missing */
} labels;

/* What all rows are like. Rows are -1 where there is no such row. */
typedef struct look {
  int64_t several, none, other,
      fraction; /* the first row with more than one 1, with no 1, that is not of 0 and 1, with a fraction */
  int ones;     /* in row `several` */
  float value;  /* in row `other`, else in `fraction` */
} look;

static int SP_PRINTF(2, 3) refuse(const labels *s, const char *fmt, ...) {
  char is[128], want[400];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(want, sizeof want, fmt, ap);
  va_end(ap);
  im_npy_words(&s->a.is, is, sizeof is);
  return s->l->ctx->host->fail(s->l->ctx, SP_E_DATA, "%s holds %s; %s", s->path, is, want);
}

static int read_bytes(const labels *s, int64_t at, void *to, size_t n) {
  if (!rd_array_read(&s->a, at, to, n)) return SP_OK;
  return s->l->ctx->host->fail(s->l->ctx, SP_E_IO, "%s: %s", s->path,
                               errno ? strerror(errno) : "it has become shorter");
}

/* ---- rows ---- */
static void swap(uint8_t *p, size_t n, int item) {
  for (size_t i = 0; i < n; i++, p += item)
    for (int k = 0; k < item / 2; k++) {
      uint8_t v = p[k];
      p[k] = p[item - 1 - k];
      p[item - 1 - k] = v;
    }
}

/* Calls see() for each row; it returns a status. */
static int each_row(labels *s, int (*see)(labels *s, int64_t row, const float *v, void *arg), void *arg) {
  int64_t n = s->a.is.shape[0], at_once = s->columns < BLOCK ? BLOCK / s->columns : 1;
  size_t row = (size_t)s->columns * (size_t)s->a.is.item;
  uint8_t *bytes = malloc((size_t)at_once * row);
  float *v = malloc((size_t)at_once * (size_t)s->columns * sizeof *v);
  int rc = bytes && v ? SP_OK : rd_no_memory(s->l), is_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  for (int64_t i = 0; !rc && i < n; i += at_once) {
    int64_t k = n - i < at_once ? n - i : at_once;
    size_t elements = (size_t)(k * s->columns);
    if ((rc = read_bytes(s, i * (int64_t)row, bytes, (size_t)k * row))) break;
    if (s->a.is.item > 1 && s->a.is.big_endian != is_big) swap(bytes, elements, s->a.is.item);
    im_to_floats(bytes, s->type, elements, v);
    for (int64_t r = 0; !rc && r < k; r++) rc = see(s, i + r, v + r * s->columns, arg);
  }
  free(bytes);
  free(v);
  return rc;
}

static int look_at(labels *s, int64_t row, const float *v, void *arg) {
  look *l = arg;
  int ones = 0;
  for (int64_t c = 0; c < s->columns; c++) {
    if (v[c] == 1) ones++;
    else if (v[c] != 0 && l->other < 0) l->other = row, l->value = v[c];
    if (!(v[c] == floorf(v[c])) && l->fraction < 0) {
      l->fraction = row;
      l->value = v[c];
    }
  }
  if (ones > 1 && l->several < 0) l->several = row, l->ones = ones;
  if (!ones && l->none < 0) l->none = row;
  return SP_OK;
}

static rd_sample *add_row(labels *s, int64_t row) {
  char name[32];
  rd_sample *to = rd_add_sample(s->l->t);
  if (!to) return NULL;
  snprintf(name, sizeof name, "%05" PRId64, row);
  to->image = (rd_ref){.at = (uint64_t)row, .source = s->source[0]};
  if (s->source[1] < UINT32_MAX) {
    rd_ref *second = rd_add_second(s->l->t);
    if (!second) return NULL;
    *second = (rd_ref){.at = (uint64_t)row, .source = s->source[1]};
  }
  to->key = rd_hash_name(name);
  return to;
}

/* ---- one class ---- */
static int add_class(labels *s, int64_t row, const char *word) {
  char where[4096 + 32];
  rd_sample *to = add_row(s, row);
  snprintf(where, sizeof where, "%s, row %" PRId64, s->path, row);
  return to && !rd_add_word(s->words, word, strlen(word), where, &to->label) ? SP_OK : rd_no_memory(s->l);
}

/* Of whole numbers as they are in the file, with all of their digits. */
static int take_whole(labels *s) {
  enum { AT_ONCE = 8192 };
  uint8_t block[AT_ONCE * 8];
  int64_t n = s->a.is.shape[0], item = s->a.is.item;
  int rc = SP_OK;
  for (int64_t i = 0; !rc && i < n; i++) {
    int64_t k = i % AT_ONCE, left = n - i < AT_ONCE ? n - i : AT_ONCE;
    char word[32];
    if (!k && (rc = read_bytes(s, i * item, block, (size_t)(left * item)))) return rc;
    const uint8_t *p = block + k * item;
    uint64_t v = 0;
    for (int b = 0; b < item; b++) v = v << 8 | p[s->a.is.big_endian ? b : item - 1 - b];
    if (s->a.is.type == 'i' && item < 8 && v >> (8 * item - 1)) v |= ~UINT64_C(0) << 8 * item;
    if (s->a.is.type == 'i') snprintf(word, sizeof word, "%" PRId64, (int64_t)v);
    else snprintf(word, sizeof word, "%" PRIu64, v);
    rc = add_class(s, i, word);
  }
  return rc;
}

static int take_float(labels *s, int64_t row, const float *v, void *arg) {
  char word[32];
  (void)arg;
  snprintf(word, sizeof word, "%.0f", (double)v[0]);
  return add_class(s, row, word);
}

static int take_one_hot(labels *s, int64_t row, const float *v, void *arg) {
  char word[32];
  int64_t c = 0;
  (void)arg;
  while (v[c] != 1) c++;
  snprintf(word, sizeof word, "%" PRId64, c);
  return add_class(s, row, word);
}

/* One number for each image that is no whole one by its type. */
static int take_floats(labels *s, const look *k) {
  if (k->fraction >= 0)
    return refuse(s,
                  "row %" PRId64 " is %g, which is no class, so it is for target = \"numbers\" (train_cls.lua, "
                  "`target = \"numbers\"`)",
                  k->fraction, (double)k->value);
  if (s->l->p->csv.cells != RD_CELLS_NAME)
    return refuse(s,
                  "all are whole numbers, and may be classes, `cells = \"name\"`, or numbers, `target = \"numbers\"`");
  return each_row(s, take_float, NULL);
}

static int take_columns(labels *s, const look *k) {
  int vector = s->l->p->csv.cells == RD_CELLS_VECTOR;
  if (k->other >= 0 && (vector || s->is_whole))
    return refuse(s,
                  "row %" PRId64 " has a %g: several labels are 0 and 1, a column for each class; "
                  "`target = \"numbers\"` reads numbers",
                  k->other, (double)k->value);
  if (k->other >= 0)
    return refuse(s,
                  "row %" PRId64 " has a %g, so it is for target = \"numbers\" (train_cls.lua, `target = \"numbers\"`)",
                  k->other, (double)k->value);
  if (k->several < 0 && k->none < 0) {
    if (vector) return each_row(s, take_one_hot, NULL);
    return refuse(
        s, "each row has one 1, and may be one class, `cells = \"vector\"`, several labels, `target = \"labels\"`, "
           "or numbers, `target = \"numbers\"`");
  }
  char row[64];
  if (k->several >= 0) snprintf(row, sizeof row, "row %" PRId64 " has %d of 1", k->several, k->ones);
  else snprintf(row, sizeof row, "row %" PRId64 " has no 1", k->none);
  return refuse(s, "%s, %s", row,
                s->is_whole || vector
                    ? "so it is for target = \"labels\" (train_cls.lua, `target = \"labels\"`)"
                    : "so these are several labels, `target = \"labels\"`, or numbers, `target = \"numbers\"`");
}

/* ---- several labels, numbers ---- */
static int take_labels(labels *s, int64_t row, const float *v, void *arg) {
  rd_sample *to = add_row(s, row);
  int rc = SP_OK;
  (void)arg;
  if (!to) return rd_no_memory(s->l);
  to->cells.at = s->l->t->n_cells;
  for (int64_t c = 0; !rc && c < s->columns; c++)
    if (v[c] == 1) rc = rd_add_class(s->l, (uint32_t)c);
  to->cells.n = (uint32_t)(s->l->t->n_cells - to->cells.at);
  return rc;
}

static int take_numbers(labels *s, int64_t row, const float *v, void *arg) {
  int64_t c = 0;
  int rc = SP_OK;
  (void)arg;
  while (c < s->columns && isfinite(v[c])) c++;
  if (c < s->columns && s->l->p->csv.missing == RD_MISSING_SKIP) return s->left++, SP_OK;
  if (c < s->columns)
    return s->l->ctx->host->fail(s->l->ctx, SP_E_DATA,
                                 "%s: row %" PRId64 ", column %" PRId64
                                 " is %g, which is no number; `missing = \"skip\"` leaves such rows out",
                                 s->path, row, c, (double)v[c]);
  rd_sample *to = add_row(s, row);
  if (!to) return rd_no_memory(s->l);
  to->cells = (rd_cells){.at = s->l->t->n_cells, .n = (uint32_t)s->columns};
  for (c = 0; !rc && c < s->columns; c++) rc = rd_add_number(s->l, v[c]);
  return rc;
}

static int several(labels *s, const look *k) {
  if (s->a.is.ndim < 2)
    return refuse(s,
                  "several labels are N x C of 0 and 1, a column for each class; `target = \"class\"` reads one class "
                  "for each image");
  if (k->other < 0) return each_row(s, take_labels, NULL);
  return refuse(s,
                "row %" PRId64 " has a %g, and several labels are 0 and 1, a column for each class: "
                "`target = \"numbers\"` reads numbers",
                k->other, (double)k->value);
}

static int all_numbers(labels *s) {
  if (s->columns > RD_MOST_NUMBERS) return refuse(s, "an image has at most %d numbers", RD_MOST_NUMBERS);
  int rc = each_row(s, take_numbers, NULL);
  if (!rc && s->left)
    rd_note(s->l, "%zu row%s of %s without a number %s left out", s->left, s->left == 1 ? "" : "s", s->path,
            s->left == 1 ? "is" : "are");
  return rc;
}

/* Both parts have as many columns. */
static int count_columns(labels *s) {
  rd_table *t = s->l->t;
  if (t->classes && t->classes != s->columns)
    return s->l->ctx->host->fail(s->l->ctx, SP_E_DATA,
                                 "%s has %" PRId64 " columns, and that of the other part %" PRId64
                                 ": save both with the same",
                                 s->path, s->columns, t->classes);
  if (t->classes) return SP_OK;
  t->classes = s->columns;
  return rd_name_values(s->l, s->l->p->path, s->path, "value", s->columns);
}

/* ---- the file ---- */
static int check(labels *s, int64_t n) {
  const im_npy *is = &s->a.is;
  s->type = is->type == 'b' && is->item == 1 ? IM_U8 : im_npy_type(is);
  s->columns = rd_array_row(&s->a);
  s->is_whole = is->type == 'u' || is->type == 'i' || is->type == 'b';
  int flat = is->ndim == 1 || (is->ndim == 2 && s->columns > 0);
  for (int k = 2; k < is->ndim && is->shape[0] == n; k++) flat |= s->columns == is->shape[1];
  if (s->type >= 0 && flat && is->shape[0] == n && s->columns > 0 && s->columns <= RD_MOST_CLASSES) return SP_OK;
  return refuse(s,
                "labels are %" PRId64
                " numbers, one for each image, or so many rows: of 0 and 1, a column for each class, or of numbers",
                n);
}

int rd_list_array_labels(rd_listing *l, rd_words *words, const char *path, int64_t n, const uint32_t source[2]) {
  labels s = {.l = l, .path = path, .source = source, .words = words};
  look k = {-1, -1, -1, -1, 0, 0};
  int target = l->p->target, rc = rd_array_open(l->ctx, path, &s.a);
  if (rc) return rc;
  rc = check(&s, n);
  int by_type = target == RD_TARGET_CLASS && s.is_whole && s.columns == 1;
  if (!rc && !by_type && target != RD_TARGET_NUMBERS) rc = each_row(&s, look_at, &k);
  if (!rc && target != RD_TARGET_CLASS && !(target == RD_TARGET_LABELS && s.a.is.ndim < 2)) rc = count_columns(&s);
  if (!rc)
    rc = by_type                       ? take_whole(&s)
         : target == RD_TARGET_NUMBERS ? all_numbers(&s)
         : target == RD_TARGET_LABELS  ? several(&s, &k)
         : s.columns == 1              ? take_floats(&s, &k)
                                       : take_columns(&s, &k);
  rd_array_close(&s.a);
  return rc;
}
