/* SPDX-License-Identifier: MIT
 * limbs_cpu.c - exact sums over pairs on the CPU: the scratch and the call. */
#include "limbs_cpu.h"

#include "../par.h"

static int64_t chunks_of(const logit_shape *s) { return (s->n * s->px + LIMB_CHUNK - 1) / LIMB_CHUNK; }

int limb_cpu_plan(sp_ctx *ctx, sp_plan *plan, int rows) {
  logit_shape s;
  int rc = limb_plan(ctx, plan, rows);
  if (rc) return rc;
  logit_shape_of(&s, &plan->in[LIMB_IN_INPUT].spec[0]);
  plan->scratch_bytes = (size_t)(s.classes * chunks_of(&s) * rows * LIMBS) * sizeof(int64_t);
  return SP_OK;
}

int limb_cpu_forward(sp_ctx *ctx, const sp_io *io, const void *params,
                     int (*chunk)(void *arg, int64_t item, int worker)) {
  limb_run r = {.params = params, .cells = io->out[0].t[0].spec.shape[1] * LIMBS, .tables = io->scratch};
  limb_job_of(&r.job, io);
  r.chunks = chunks_of(&r.job.s);
  int64_t columns = r.job.s.classes, *out = r.job.tables;
  int rc = par_run(ctx, columns * r.chunks, chunk, &r);
  if (rc) return rc;
  memset(out, 0, (size_t)(columns * r.cells) * sizeof *out);
  for (int64_t item = 0; item < columns * r.chunks; item++)
    for (int64_t i = 0; i < r.cells; i++) out[item / r.chunks * r.cells + i] += r.tables[item * r.cells + i];
  return SP_OK;
}
