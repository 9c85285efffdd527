/* SPDX-License-Identifier: MIT
 * add_cpu.c - the stage `add` on the CPU. */
#include <string.h>

#include "../../kits/par.h"
#include "../../kits/spec.h"
#include "add.h"

#define CHUNK 16384 /* elements per work item */

typedef struct add_job {
  const sp_io *io;
  int64_t count;
} add_job;

static int add_chunk(void *arg, int64_t chunk, int worker) {
  const add_job *j = arg;
  const sp_list *in = &j->io->in[0];
  int64_t at = chunk * CHUNK, n = j->count - at < CHUNK ? j->count - at : CHUNK;
  float *y = (float *)j->io->out[0].t[0].data + at;
  memcpy(y, (const float *)in->t[0].data + at, (size_t)n * sizeof *y);
  for (uint32_t k = 1; k < in->n; k++) {
    const float *x = (const float *)in->t[k].data + at;
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
  }
  (void)worker;
  return SP_OK;
}

static int pass_chunk(void *arg, int64_t chunk, int worker) {
  const add_job *j = arg;
  const sp_list *din = &j->io->din[0];
  int64_t at = chunk * CHUNK, n = j->count - at < CHUNK ? j->count - at : CHUNK;
  const float *dy = j->io->dout[0].t[0].data;
  for (uint32_t k = 0; k < din->n; k++) {
    float *dx = din->t[k].data;
    if (!dx) continue;
    dx += at;
    if (j->io->din_acc[0][k])
      for (int64_t i = 0; i < n && dy; i++) dx[i] += dy[at + i];
    else if (dy) memcpy(dx, dy + at, (size_t)n * sizeof *dx);
    else memset(dx, 0, (size_t)n * sizeof *dx);
  }
  (void)worker;
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  add_job j = {io, spec_elements(&io->out[0].t[0].spec)};
  (void)self;
  return par_run(ctx, (j.count + CHUNK - 1) / CHUNK, add_chunk, &j);
}

static int backward(sp_ctx *ctx, void *self, const sp_io *io) {
  add_job j = {io, spec_elements(&io->out[0].t[0].spec)};
  (void)self;
  return par_run(ctx, (j.count + CHUNK - 1) / CHUNK, pass_chunk, &j);
}

SP_STAGE_CPU(ADD_PAIR, .forward = forward, .backward = backward);
