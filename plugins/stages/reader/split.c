/* SPDX-License-Identifier: MIT
 * split.c - which samples are for training and which for validation, which of the folds they are in, and which are
 * taken where a part of them is wanted.
 *
 * All of it depends on the hashes of names, so that files that come, go or are renamed seldom move another sample. Of
 * masks the hash alone decides: the count is about val_fraction * total. Where samples have labels each class is
 * divided by itself: its share stays within a tenth of what it should be, or one sample, and a class of two samples and
 * more is in both parts. Sets that are made up do not grow: they are ranked by a hash of the number, and the first
 * round(val_fraction * total) are for validation. Of a set with splits of its own the one that is asked for is
 * taken. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"
#include "table.h"

#define CHOICE UINT64_C(0xD1B54A32D192ED03) /* for what is chosen before the split */

/* Sorted by class, then by hash: an order that has nothing to do with that of the files. */
typedef struct ranked {
  uint64_t hash;
  double place; /* in the order in which a part is taken */
  int64_t label;
  uint32_t index;
} ranked;

static int by_hash(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static int by_place(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->place != y->place) return (x->place > y->place) - (x->place < y->place);
  return x->label != y->label ? (x->label > y->label) - (x->label < y->label) : by_hash(a, b);
}

static int by_index(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static int has_labels(const rd_self *self) { return self->table && self->gives & RD_LABEL; }

/* Moves all of `from` to `to`, ordered by the numbers from 0 to `keys` - 1 that key() gives: samples of one keep their
 * order. `ends` has keys + 1 places of 0. */
static void spread(const ranked *from, ranked *to, size_t n, uint32_t *ends, size_t keys,
                   size_t (*key)(const ranked *, int64_t), int64_t of) {
  for (size_t i = 0; i < n; i++) ends[key(from + i, of) + 1]++;
  for (size_t k = 0; k < keys; k++) ends[k + 1] += ends[k];
  for (size_t i = 0; i < n; i++) to[ends[key(from + i, of)]++] = from[i];
}

static size_t bucket(const ranked *r, int64_t n) { return (size_t)((r->hash >> 32) * (uint64_t)n >> 32); }

static size_t label_from(const ranked *r, int64_t lowest) { return (size_t)(r->label - lowest); }

/* Of millions of samples in the time of a few passes: hashes are spread evenly, so a bucket for each sample has one or
 * two; one that has many, as of a file that is listed often, is sorted. 0: no memory. */
static int sort_by_class(ranked *r, size_t n) {
  int64_t lowest = INT64_MAX, highest = INT64_MIN;
  for (size_t i = 0; i < n; i++) {
    if (r[i].label < lowest) lowest = r[i].label;
    if (r[i].label > highest) highest = r[i].label;
  }
  size_t labels = (size_t)(highest - lowest) + 1, most = labels > n ? labels : n;
  ranked *other = malloc(n * sizeof *other);
  uint32_t *ends = calloc(most + 1, sizeof *ends);
  if (other && ends) {
    spread(r, other, n, ends, n, bucket, (int64_t)n);
    for (size_t from = 0, end; from < n; from = end) {
      for (end = from + 1; end < n && bucket(other + end, (int64_t)n) == bucket(other + from, (int64_t)n);) end++;
      if (end - from > 1) qsort(other + from, end - from, sizeof *other, by_hash);
    }
    memset(ends, 0, (most + 1) * sizeof *ends);
    spread(other, r, n, ends, labels, label_from, lowest);
  }
  free(ends);
  free(other);
  return other && ends;
}

/* The n numbers in `list`, by class and hash; NULL: no memory. */
static ranked *rank(sp_ctx *ctx, const rd_self *self, const uint32_t *list, size_t n, uint64_t factor) {
  ranked *r = calloc(n + !n, sizeof *r);
  for (size_t i = 0; r && i < n; i++)
    r[i] = (ranked){self->kind->hash(self, list[i]) * factor, 0,
                    has_labels(self) ? self->table->samples[list[i]].label : 0, list[i]};
  if (r && n && !sort_by_class(r, n)) {
    free(r);
    r = NULL;
  }
  if (!r) ctx->host->fail(ctx, SP_E_NOMEM, "no memory to choose from %zu samples", n);
  return r;
}

/* Where the class ends that begins at `from`. */
static size_t class_end(const ranked *r, size_t from, size_t n) {
  size_t end = from;
  while (end < n && r[end].label == r[from].label) end++;
  return end;
}

/* ---- a part of all ---- */
/* Of the n numbers in `list` keeps `most`: the first of an order in which each class is spread evenly. */
static int take(sp_ctx *ctx, rd_self *self, uint32_t *list, size_t n, size_t most) {
  ranked *r = rank(ctx, self, list, n, CHOICE);
  if (!r) return SP_E_NOMEM;
  for (size_t from = 0, end; from < n; from = end) {
    end = class_end(r, from, n);
    for (size_t i = from; i < end; i++) r[i].place = ((double)(i - from) + 0.5) / (double)(end - from);
  }
  qsort(r, n, sizeof *r, by_place);
  for (size_t i = 0; i < most; i++) list[i] = r[i].index;
  free(r);
  qsort(list, most, sizeof *list, by_index);
  return SP_OK;
}

/* Adds the samples from ... to of the whole set: all, or so many as `samples` and `limit` say. The first of a folder of
 * classes would be of its first classes only. */
static int add(sp_ctx *ctx, rd_self *self, uint64_t from, uint64_t to) {
  uint32_t *list = self->list + self->length;
  size_t all = (size_t)(to - from), n = all, limit = (size_t)self->p->limit;
  size_t most = self->table && !self->p->files.n ? (size_t)self->p->samples : 0;
  int rc = SP_OK;
  for (size_t i = 0; i < n; i++) list[i] = (uint32_t)(from + i);
  if (most && most < n) {
    if (has_labels(self)) rc = take(ctx, self, list, n, most);
    n = most;
  }
  if (!rc && limit && limit < n) {
    rc = take(ctx, self, list, n, limit);
    n = limit;
  }
  self->length += n;
  return rc;
}

/* ---- the split ---- */
static int is_below(uint64_t hash, double fraction) { return (double)hash < fraction * 18446744073709551616.0; }

/* How many of a class's n samples are for validation; below: as many as their hashes say. */
static size_t share_of(size_t n, size_t below, double fraction, int labelled) {
  double wanted = fraction * (double)n, slack = wanted > 10 ? wanted / 10 : 1;
  size_t least = fraction > 0 && n > 1, most = n > 1 && fraction < 1 ? n - 1 : n;
  if (labelled && n > 1) { /* of one sample the hash alone decides */
    size_t low = wanted > slack ? (size_t)(wanted - slack + 0.999999) : 0, high = (size_t)(wanted + slack);
    if (low > least) least = low;
    if (high < most) most = high > least ? high : least;
  }
  return below < least ? least : below > most ? most : below;
}

/* The split where the hashes alone give each class its share, as they do in a large set: no order is needed then. Else,
 * and without memory, 0, and the sides are to be found another way. */
static int divide_by_hash(const rd_self *self, size_t all, double fraction, size_t *n_val) {
  typedef struct count {
    uint32_t n, below;
  } count;
  const rd_sample *s = self->table ? self->table->samples : NULL;
  int labelled = has_labels(self), good = 1;
  int64_t lowest = INT64_MAX, highest = INT64_MIN;
  if (!s || self->p->folds || all < 2) return 0;
  for (size_t i = 0; labelled && i < all; i++) {
    int64_t label = s[self->list[i]].label;
    lowest = label < lowest ? label : lowest;
    highest = label > highest ? label : highest;
  }
  size_t classes = labelled ? (size_t)(highest - lowest) + 1 : 1;
  count *counts = classes <= all ? calloc(classes, sizeof *counts) : NULL;
  if (!counts) return 0;
  for (size_t i = 0; i < all; i++) {
    uint32_t k = self->list[i];
    count *c = counts + (labelled ? s[k].label - lowest : 0);
    self->side[k] = (uint8_t)is_below(self->kind->hash(self, k), fraction);
    c->n++;
    c->below += self->side[k];
  }
  *n_val = 0;
  for (size_t k = 0; k < classes; k++) {
    *n_val += counts[k].below;
    good &= share_of(counts[k].n, counts[k].below, fraction, labelled) == counts[k].below;
  }
  free(counts);
  return good && (*n_val || fraction <= 0);
}

/* Marks those for validation: place 1. How many there are. */
static size_t divide(const rd_self *self, ranked *r, size_t n, double fraction) {
  size_t n_val = 0, lowest = 0;
  if (!self->table || n == 1) {
    n_val = n == 1 ? fraction >= 0.5 : (size_t)((double)n * fraction + 0.5);
    for (size_t i = 0; i < n_val; i++) r[i].place = 1;
    return n_val;
  }
  for (size_t from = 0, end; from < n; from = end) {
    end = class_end(r, from, n);
    size_t below = 0;
    while (below < end - from && is_below(r[from + below].hash, fraction)) below++;
    size_t k = share_of(end - from, below, fraction, has_labels(self));
    for (size_t i = from; i < end && i - from < k; i++) r[i].place = 1;
    n_val += k;
    if (r[from].hash < r[lowest].hash) lowest = from;
  }
  if (n_val || fraction <= 0) return n_val;
  r[lowest].place = 1; /* each class has one sample */
  return 1;
}

/* One after another, class by class: every sample is in one fold, and each class in all of them by its share. */
static size_t fold(const rd_self *self, ranked *r, size_t n) {
  size_t folds = (size_t)self->p->folds, n_val = 0;
  for (size_t i = 0; i < n; i++) {
    r[i].place = i % folds + 1 == (size_t)self->p->fold;
    n_val += r[i].place > 0;
  }
  return n_val;
}

static int check_folds(sp_ctx *ctx, const rd_self *self) {
  const rd_params *p = self->p;
  if (p->fold && !p->folds)
    return ctx->host->fail(ctx, SP_E_INVALID, "fold = %" PRId64 " wants the number of folds, too: `folds = 5`",
                           p->fold);
  if (!p->folds) return SP_OK;
  if (p->val_fraction.n)
    return ctx->host->fail(ctx, SP_E_INVALID, "val_fraction and folds both say what is for validation; leave one out");
  if (p->folds < 2) return ctx->host->fail(ctx, SP_E_RANGE, "folds = 1: one fold would be all samples; `folds = 5`");
  if (p->fold < 1 || p->fold > p->folds)
    return ctx->host->fail(ctx, SP_E_RANGE, "fold = %" PRId64 ", but the folds are 1 to %" PRId64 ": `fold = 1`",
                           p->fold, p->folds);
  return SP_OK;
}

/* The same by the order of hashes within each class. */
static int divide_in_order(sp_ctx *ctx, rd_self *self, size_t all, double fraction, size_t *n_val) {
  ranked *r = rank(ctx, self, self->list, all, 1);
  if (!r) return SP_E_NOMEM;
  *n_val = self->p->folds ? fold(self, r, all) : divide(self, r, all, fraction);
  for (size_t i = 0; i < all; i++) self->side[r[i].index] = r[i].place > 0;
  free(r);
  return SP_OK;
}

static int part(sp_ctx *ctx, rd_self *self) {
  double fraction = self->p->val_fraction.n ? self->p->val_fraction.v[0] : self->p->default_val_fraction;
  size_t all = (size_t)self->length, n = 0;
  if (!self->table && self->p->split == RD_ALL &&
      !self->p->check) { /* which is which nobody asks, of billions perhaps */
    size_t folds = (size_t)self->p->folds, fold = (size_t)self->p->fold;
    self->n_split[1] = folds      ? (all + folds - fold) / folds
                       : all == 1 ? fraction >= 0.5
                                  : (size_t)((double)all * fraction + 0.5);
    self->n_split[0] = all - self->n_split[1];
    return SP_OK;
  }
  size_t n_val;
  self->side = calloc(self->total, 1);
  if (!self->side) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %zu samples", all);
  int rc = divide_by_hash(self, all, fraction, &n_val) ? SP_OK : divide_in_order(ctx, self, all, fraction, &n_val);
  if (rc) return rc;
  self->n_split[0] = all - n_val;
  self->n_split[1] = n_val;
  for (size_t i = 0; self->p->split != RD_ALL && i < all; i++)
    if (self->side[self->list[i]] == (self->p->split == RD_VAL)) self->list[n++] = self->list[i];
  if (self->p->split == RD_ALL) return SP_OK;
  if (!n && self->p->folds)
    return ctx->host->fail(ctx, SP_E_RANGE, "%zu samples leave none for %s in fold %" PRId64 " of %" PRId64, all,
                           self->p->split == RD_VAL ? "validation" : "training", self->p->fold, self->p->folds);
  if (!n && all == 1)
    return ctx->host->fail(ctx, SP_E_RANGE, "1 sample is none for %s; give two or more",
                           self->p->split == RD_VAL ? "validation" : "training");
  if (!n)
    return ctx->host->fail(ctx, SP_E_RANGE,
                           "%zu samples with val_fraction = %g leave none for %s; give more, or `val_fraction = 0.5`",
                           all, fraction, self->p->split == RD_VAL ? "validation" : "training");
  self->length = n;
  return SP_OK;
}

int rd_part_of(const rd_self *self, uint64_t index) {
  return self->own_splits ? index >= self->ends[0] : self->side && self->side[index];
}

int rd_split(sp_ctx *ctx, rd_self *self) {
  int checked = check_folds(ctx, self);
  if (checked) return checked;
  self->list = calloc(self->total, sizeof *self->list);
  if (!self->list) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %" PRIu64 " samples", self->total);
  if (!self->own_splits) {
    int rc = add(ctx, self, 0, self->total);
    return rc ? rc : part(ctx, self);
  }
  uint64_t most = self->p->samples ? (uint64_t)self->p->samples : self->total;
  if (self->p->limit && (uint64_t)self->p->limit < most) most = (uint64_t)self->p->limit;
  int rc = SP_OK;
  for (int k = 0; k < 2; k++) {
    uint64_t from = k ? self->ends[0] : 0, n = self->ends[k] - from;
    self->n_split[k] = n < most ? n : most;
    if (!rc && (self->p->split == RD_ALL || self->p->split == RD_TRAIN + k)) rc = add(ctx, self, from, self->ends[k]);
  }
  return rc;
}
