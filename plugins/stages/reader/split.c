/* SPDX-License-Identifier: MIT
 * split.c - which samples are for training and which for validation.
 *
 * Samples are ranked by a hash of their name or number; the first round(val_fraction * total) are for validation. So
 * the count is exact, and neither seed nor order of reading has a part in it. Of a folder with splits of its own only the
 * one that is asked for is listed at all. */
#include <inttypes.h>
#include <stdlib.h>

#include "reader.h"

static int by_hash(const void *a, const void *b) {
  const rd_ranked *x = a, *y = b;
  if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

void rd_rank(rd_ranked *r, size_t n) { qsort(r, n, sizeof *r, by_hash); }

static int by_index(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static int part(sp_ctx *ctx, rd_self *self) {
  double fraction = self->p->val_fraction.n ? self->p->val_fraction.v[0] : RD_VAL_FRACTION;
  uint64_t n_val = (uint64_t)((double)self->total * fraction + 0.5);
  uint64_t from = self->p->split == RD_VAL ? 0 : n_val, to = self->p->split == RD_VAL ? n_val : self->total;
  if (from == to)
    return ctx->host->fail(ctx, SP_E_RANGE,
                           "%" PRIu64
                           " samples with val_fraction = %g leave none for %s; give more, or another val_fraction",
                           self->total, fraction, self->p->split == RD_VAL ? "validation" : "training");
  rd_ranked *r = calloc(self->total, sizeof *r);
  if (!r) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory to split %" PRIu64 " samples", self->total);
  for (uint64_t i = 0; i < self->total; i++) r[i] = (rd_ranked){self->kind->hash(self, i), i};
  rd_rank(r, self->total);
  self->length = to - from;
  for (uint64_t i = 0; i < self->length; i++) self->list[i] = (uint32_t)r[from + i].index;
  free(r);
  qsort(self->list, self->length, sizeof *self->list, by_index);
  return SP_OK;
}

int rd_split(sp_ctx *ctx, rd_self *self) {
  self->list = calloc(self->total, sizeof *self->list);
  if (!self->list) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %" PRIu64 " samples", self->total);
  if (self->p->split != RD_ALL && !self->own_splits) return part(ctx, self);
  for (uint64_t i = 0; i < self->total; i++) self->list[i] = (uint32_t)i;
  self->length = self->total;
  return SP_OK;
}
