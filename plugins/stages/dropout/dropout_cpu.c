/* SPDX-License-Identifier: MIT
 * dropout_cpu.c - the stage `dropout` on the CPU. */
#include <stdbool.h>
#include <string.h>

#include "../../kits/par.h"
#include "../../kits/stateless.h"
#include "dropout.h"

#define CHUNK 16384 /* elements of a sample in one work item */

typedef struct drop_job {
  const sp_io *io;
  drop_shape s;
  int64_t each, chunks; /* elements and work items of a sample */
  const float *from;    /* NULL: zeros */
  float *to;
  bool add;
} drop_job;

static void drop(const drop_job *j, uint64_t id, int64_t at, int64_t n, const float *from, float *to) {
  sp_rng4 draws;
  int64_t group = -1;
  for (int64_t i = at; i < at + n; i++) {
    int64_t unit = drop_unit(&j->s, i);
    if (unit / 4 != group) draws = sp_rng(j->io->step->key, id, (uint32_t)(group = unit / 4));
    float v = drop_keeps(j->s.limit, draws.v[unit % 4]) ? from[i] * j->s.scale : 0;
    to[i] = j->add ? to[i] + v : v;
  }
}

static int drop_chunk(void *arg, int64_t item, int worker) {
  const drop_job *j = arg;
  int64_t sample = item / j->chunks, at = item % j->chunks * CHUNK;
  int64_t n = j->each - at < CHUNK ? j->each - at : CHUNK;
  const float *from = j->from ? j->from + sample * j->each : NULL;
  float *to = j->to + sample * j->each;
  if (from && j->io->step->training) drop(j, drop_id(j->io->step, j->io->ids, sample), at, n, from, to);
  else if (from) memcpy(to + at, from + at, (size_t)n * sizeof *to);
  else if (!j->add) memset(to + at, 0, (size_t)n * sizeof *to);
  (void)worker;
  return SP_OK;
}

static int run(sp_ctx *ctx, void *self, const sp_io *io, const float *from, float *to, bool add) {
  drop_job j = {.io = io, .s = dropout_shape(self, &io->out[0].t[0].spec), .from = from, .to = to, .add = add};
  j.each = j.s.channels * j.s.px;
  j.chunks = (j.each + CHUNK - 1) / CHUNK;
  return par_run(ctx, j.s.n * j.chunks, drop_chunk, &j);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  return run(ctx, self, io, io->in[0].t[0].data, io->out[0].t[0].data, false);
}

/* What was dropped is drawn again. */
static int backward(sp_ctx *ctx, void *self, const sp_io *io) {
  float *dx = io->din[0].t[0].data;
  return dx ? run(ctx, self, io, io->dout[0].t[0].data, dx, io->din_acc[0][0]) : SP_OK;
}

SP_STAGE_CPU(DROPOUT_PAIR, .forward = forward, .backward = backward);
