/* SPDX-License-Identifier: MIT
 * concat_cpu.c - the stage `concat` on the CPU. */
#include <string.h>

#include "../../kits/par.h"
#include "concat.h"

typedef struct concat_job {
  const sp_io *io;
  concat_runs r;
  int64_t per_item; /* outer runs of one work item */
} concat_job;

#define ITEM_ELEMENTS 16384

static void job_fill(concat_job *j, const void *self, const sp_io *io) {
  j->io = io;
  concat_runs_of(&j->r, self, &io->in[0]);
  j->per_item = j->r.all >= ITEM_ELEMENTS || !j->r.all ? 1 : ITEM_ELEMENTS / j->r.all;
}

static int run_items(sp_ctx *ctx, concat_job *j, int (*fn)(void *, int64_t, int)) {
  return par_run(ctx, (j->r.outer + j->per_item - 1) / j->per_item, fn, j);
}

static int join(void *arg, int64_t item, int worker) {
  const concat_job *j = arg;
  const sp_list *in = &j->io->in[0];
  int64_t o = item * j->per_item, end = o + j->per_item < j->r.outer ? o + j->per_item : j->r.outer;
  for (; o < end; o++) {
    float *y = (float *)j->io->out[0].t[0].data + o * j->r.all;
    for (uint32_t k = 0; k < in->n; y += j->r.run[k++])
      memcpy(y, (const float *)in->t[k].data + o * j->r.run[k], (size_t)j->r.run[k] * sizeof *y);
  }
  (void)worker;
  return SP_OK;
}

static int split(void *arg, int64_t item, int worker) {
  const concat_job *j = arg;
  const sp_list *din = &j->io->din[0];
  const float *grad = j->io->dout[0].t[0].data;
  int64_t o = item * j->per_item, end = o + j->per_item < j->r.outer ? o + j->per_item : j->r.outer;
  for (; o < end; o++) {
    int64_t at = o * j->r.all;
    for (uint32_t k = 0; k < din->n; at += j->r.run[k++]) {
      float *dx = din->t[k].data;
      int64_t n = j->r.run[k];
      if (!dx) continue;
      dx += o * n;
      if (j->io->din_acc[0][k])
        for (int64_t i = 0; i < n && grad; i++) dx[i] += grad[at + i];
      else if (grad) memcpy(dx, grad + at, (size_t)n * sizeof *dx);
      else memset(dx, 0, (size_t)n * sizeof *dx);
    }
  }
  (void)worker;
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  concat_job j;
  job_fill(&j, self, io);
  return run_items(ctx, &j, join);
}

static int backward(sp_ctx *ctx, void *self, const sp_io *io) {
  concat_job j;
  job_fill(&j, self, io);
  return run_items(ctx, &j, split);
}

SP_STAGE_CPU(CONCAT_PAIR, .forward = forward, .backward = backward);
