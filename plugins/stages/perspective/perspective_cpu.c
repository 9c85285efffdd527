/* SPDX-License-Identifier: MIT
 * perspective_cpu.c - the stage `perspective` on the CPU. */
#include "../../kits/warp/warp_cpu.h"
#include "perspective.h"

#include <string.h>

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const perspective_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const warp_corners *given = aug_given(ctx, io, "corners", &rc);
  if (rc) return rc;
  warp_map *maps = io->scratch;
  warp_corners *told = io->out[AUG_DRAWN].t->data;
  int64_t *status = io->out[AUG_STATUS].t->data;
  aug_dice dice = aug_dice_of(io, &p->warp.draws);
  perspective_range range = perspective_range_of(p, jobs.job[0].h, jobs.job[0].w);
  memset(status, 0, 4 * sizeof *status);
  for (int64_t i = 0; i < jobs.n; i++) {
    warp_corners v = given ? given[i] : perspective_draw(&dice, i, &range);
    int bad = warp_corners_bad(&v, range.h, range.w);
    aug_note(status, bad, io->ids ? (int64_t)io->ids[i] : i, 0, 0);
    maps[i] = perspective_map(&v, &range);
    if (told) told[i] = v;
  }
  warp_how how = warp_how_of(io, &p->warp);
  return warp_all(ctx, &jobs, &how, maps);
}

AUG_CPU_STAGE(perspective, "perspective", PERSPECTIVE_DOC, SP_STAGE_STOCHASTIC, .status_doc = PERSPECTIVE_STATUS_DOC,
              .create = stateless_create, .destroy = stateless_destroy, .plan = perspective_plan, .forward = forward);
