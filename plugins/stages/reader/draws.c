/* SPDX-License-Identifier: MIT
 * draws.c - how often each sample of the split is drawn: as `sampling` says of its class. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

/* How often classes are to come, relative to each other, of "balanced" or a number for each. */
static int read_shares(sp_ctx *ctx, const rd_self *self, double *share) {
  const char *at = self->p->sampling;
  double sum = 0;
  int64_t n = 0;
  if (!strcmp(at, "balanced")) {
    for (int64_t c = 0; c < self->classes; c++) share[c] = 1;
    return SP_OK;
  }
  for (; *at; n++) {
    char *end;
    double v = strtod(at, &end);
    end += strspn(end, " ");
    if (end == at || (*end && *end != ',') || !(v >= 0 && v <= 1e30))
      return ctx->host->fail(
          ctx, SP_E_INVALID,
          "sampling = \"%s\": \"balanced\" or a number of at least 0 for each class is expected, as in "
          "`sampling = \"1,2,1\"`",
          self->p->sampling);
    if (n < self->classes) share[n] = v;
    sum += v;
    at = *end ? end + 1 : end;
  }
  if (n != self->classes)
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "sampling = \"%s\": there are %" PRId64 " classes, and %" PRId64 " number%s",
                           self->p->sampling, self->classes, n, n == 1 ? "" : "s");
  if (sum <= 0)
    return ctx->host->fail(ctx, SP_E_INVALID, "sampling = \"%s\": no class is ever drawn", self->p->sampling);
  return SP_OK;
}

static int64_t label_of(const rd_self *self, uint64_t i) { return self->table->samples[self->list[i]].label; }

static int fill(sp_ctx *ctx, rd_self *self, double *share, uint64_t *count) {
  double sum = 0;
  int rc = read_shares(ctx, self, share);
  for (uint64_t i = 0; i < self->length && !rc; i++) count[label_of(self, i)]++;
  for (uint64_t i = 0; i < self->length && !rc; i++) {
    int64_t c = label_of(self, i);
    self->draws[i] = (float)(share[c] / (double)count[c]);
    sum += self->draws[i];
  }
  if (!rc && !(sum > 0))
    rc = ctx->host->fail(ctx, SP_E_DATA, "sampling = \"%s\": of the classes that are drawn there is no sample",
                         self->p->sampling);
  return rc;
}

int rd_make_draws(sp_ctx *ctx, rd_self *self) {
  if (!*self->p->sampling) return SP_OK;
  if (!self->table || !(self->gives & RD_LABEL))
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "sampling = \"%s\" goes by the class of each image, and %s%s; take `sampling = \"\"`",
                           self->p->sampling, self->p->path,
                           self->table ? " has none with this target" : ", which is made up, has all alike");
  double *share = calloc((size_t)self->classes + 1, sizeof *share);
  uint64_t *count = calloc((size_t)self->classes + 1, sizeof *count);
  self->draws = calloc(self->length + 1, sizeof *self->draws);
  int rc = share && count && self->draws
               ? fill(ctx, self, share, count)
               : ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the draws of %" PRIu64 " samples", self->length);
  free(share);
  free(count);
  return rc;
}
