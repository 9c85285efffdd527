/* SPDX-License-Identifier: MIT
 * split.c - which samples are for training and which for validation.
 *
 * A hash of its name decides on a sample's side, and nothing else: files that come, go or are renamed move no other sample.
 * So the count is about val_fraction * total. Where all would be on one side, the nearest one changes it. Sets that are made
 * up do not grow: they are ranked by a hash of the number, and the first round(val_fraction * total) are for validation. Of
 * a set with splits of its own the one that is asked for is taken. */
#include <inttypes.h>
#include <stdlib.h>

#include "reader.h"

#define CHOICE UINT64_C(0xD1B54A32D192ED03)

/* Sorted by hash: an order that has nothing to do with that of the files. */
typedef struct ranked {
  uint64_t hash;
  uint32_t index;
} ranked;

static int by_hash(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static int by_index(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Of the n numbers in `list` keeps those that are from ... to by the rank of their hash times `factor`, ascending. */
static int keep_ranks(sp_ctx *ctx, rd_self *self, uint32_t *list, size_t n, uint64_t factor, size_t from, size_t to) {
  ranked *r = calloc(n, sizeof *r);
  if (!r) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory to choose from %zu samples", n);
  for (size_t i = 0; i < n; i++) r[i] = (ranked){self->kind->hash(self, list[i]) * factor, list[i]};
  qsort(r, n, sizeof *r, by_hash);
  for (size_t i = from; i < to; i++) list[i - from] = r[i].index;
  free(r);
  qsort(list, to - from, sizeof *list, by_index);
  return SP_OK;
}

/* Adds the samples from ... to of the whole set: all, or `samples` of them. The first of a folder of classes would be
 * of its first classes only, so there a hash of the name chooses; not the one that the split goes by, so that samples
 * which stay seldom change their side. */
static int add(sp_ctx *ctx, rd_self *self, uint64_t from, uint64_t to) {
  uint32_t *list = self->list + self->length;
  size_t n = (size_t)(to - from), most = self->table && !self->p->files.n ? (size_t)self->p->samples : 0;
  if (!most || most > n) most = n;
  for (size_t i = 0; i < n; i++) list[i] = (uint32_t)(from + i);
  self->length += most;
  return most < n && self->gives & RD_LABEL ? keep_ranks(ctx, self, list, n, CHOICE, 0, most) : SP_OK;
}

/* How many of the samples have a hash in the lower part of the range; the ranks below are theirs. */
static uint64_t count_below(const rd_self *self, double fraction) {
  const double range = 18446744073709551616.0;
  uint64_t n = 0;
  if (self->length == 1) return fraction >= 0.5; /* there is nothing to divide */
  for (uint64_t i = 0; i < self->length; i++) n += (double)self->kind->hash(self, self->list[i]) < fraction * range;
  if (n == 0 && fraction > 0) return 1;
  return n == self->length && fraction < 1 ? n - 1 : n;
}

static int part(sp_ctx *ctx, rd_self *self) {
  double fraction = self->p->val_fraction.n ? self->p->val_fraction.v[0] : self->p->default_val_fraction;
  uint64_t all = self->length;
  uint64_t n_val = self->table ? count_below(self, fraction) : (uint64_t)((double)all * fraction + 0.5);
  uint64_t from = self->p->split == RD_VAL ? 0 : n_val, to = self->p->split == RD_VAL ? n_val : all;
  self->n_split[0] = all - n_val;
  self->n_split[1] = n_val;
  if (self->p->split == RD_ALL) return SP_OK;
  if (from == to)
    return ctx->host->fail(ctx, SP_E_RANGE,
                           "%" PRIu64
                           " samples with val_fraction = %g leave none for %s; give more, or another val_fraction",
                           all, fraction, self->p->split == RD_VAL ? "validation" : "training");
  self->length = to - from;
  return keep_ranks(ctx, self, self->list, all, 1, from, to);
}

int rd_split(sp_ctx *ctx, rd_self *self) {
  self->list = calloc(self->total, sizeof *self->list);
  if (!self->list) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %" PRIu64 " samples", self->total);
  if (!self->own_splits) {
    int rc = add(ctx, self, 0, self->total);
    return rc ? rc : part(ctx, self);
  }
  uint64_t most = self->p->samples ? (uint64_t)self->p->samples : self->total;
  int rc = SP_OK;
  for (int k = 0; k < 2; k++) {
    uint64_t from = k ? self->ends[0] : 0, n = self->ends[k] - from;
    self->n_split[k] = n < most ? n : most;
    if (!rc && (self->p->split == RD_ALL || self->p->split == RD_TRAIN + k)) rc = add(ctx, self, from, self->ends[k]);
  }
  return rc;
}
