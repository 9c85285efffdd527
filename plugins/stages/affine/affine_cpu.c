/* SPDX-License-Identifier: MIT
 * affine_cpu.c - the stage `affine` on the CPU. */
#include "../../kits/warp/warp_cpu.h"
#include "affine.h"

#include <string.h>

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const affine_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const warp_affine *given = aug_given(ctx, io, "affines", &rc);
  if (rc) return rc;
  warp_map *maps = io->scratch;
  warp_affine *told = io->out[AUG_DRAWN].t->data;
  int64_t *status = io->out[AUG_STATUS].t->data;
  aug_dice dice = aug_dice_of(io, &p->warp.draws);
  affine_range range = affine_range_of(p, jobs.job[0].h, jobs.job[0].w);
  memset(status, 0, 4 * sizeof *status);
  for (int64_t i = 0; i < jobs.n; i++) {
    warp_affine v = given ? given[i] : affine_draw(&dice, i, &range);
    int bad = affine_bad(&v);
    aug_note(status, bad, io->ids ? (int64_t)io->ids[i] : i, bad, 0);
    maps[i] = affine_map(&v, &range);
    if (told) told[i] = v;
  }
  warp_how how = warp_how_of(io, &p->warp);
  return warp_all(ctx, &jobs, &how, maps);
}

AUG_CPU_STAGE(affine, "affine", AFFINE_DOC, SP_STAGE_STOCHASTIC, .status_doc = AFFINE_STATUS_DOC,
              .create = stateless_create, .destroy = stateless_destroy, .plan = affine_plan, .forward = forward);
