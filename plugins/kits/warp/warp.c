/* SPDX-License-Identifier: MIT
 * warp.c - parameters and checks that the stages which take pixels from elsewhere share. */
#include "warp.h"

const char *const warp_modes[] = {"nearest", "bilinear", NULL};

warp_how warp_how_of(const sp_io *io, const warp_params *p) {
  warp_how how = {.mode = p->mode, .mask_fill = aug_mask_fill(io, p->mask_fill), .fills = (int32_t)p->fill.n};
  for (uint32_t c = 0; c < p->fill.n; c++) how.fill[c] = (float)p->fill.v[c];
  return how;
}

int warp_in_order(sp_ctx *ctx, const char *what, const sp_floats *range) {
  if (range->n < 2 || range->v[0] <= range->v[1]) return SP_OK;
  return ctx->host->fail(ctx, SP_E_RANGE, "'%s' goes from %g down to %g; the smaller number comes first", what,
                         range->v[0], range->v[1]);
}

int warp_plan(sp_ctx *ctx, const warp_params *p, sp_plan *plan, int64_t *h, int64_t *w) {
  int rc = aug_plan_in(ctx, plan, h, w);
  if (!rc) rc = aug_check_fill(ctx, plan, "fill", &p->fill, 1);
  if (!rc) rc = aug_check_mask_fill(ctx, plan, p->mask_fill);
  return rc ? rc : aug_plan_out(plan, *h, *w, 0);
}
