/* SPDX-License-Identifier: MIT
 * cross_entropy_cpu.c - mean cross-entropy over the labels that count and its gradient in the same pass, on the CPU. */
#include "../../kits/par.h"
#include "ce_kernel.h"
#include "ce_soft.h"
#include "cross_entropy.h"

typedef struct pass {
  ce_job job;
  ce_fn kernel;
} pass;

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  logit_shape s;
  int rc = ce_plan(ctx, self, pl);
  if (rc) return rc;
  logit_shape_of(&s, &pl->in[LOSS_IN_LOGITS].spec[0]);
  pl->scratch_bytes = (size_t)loss_chunks(&s) * (sizeof(label_sum) + sizeof(double) + sizeof(int64_t));
  return SP_OK;
}

static int run_kernel(void *arg, int64_t chunk, int worker) {
  const pass *a = arg;
  a->kernel(&a->job, chunk);
  (void)worker;
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const ce *c = self;
  pass a = {.kernel = ce_choose()};
  ce_job *j = &a.job;
  loss_job l;
  label_sum *parts = io->scratch, all;
  int rows;
  ce_job_of(&l, c, io, &rows);
  if (l.shares) return ce_soft_loss(ctx, &l, rows, &c->smooth, c->class_weights);
  int64_t chunks = loss_chunks(&l.shape);
  int rc = loss_count(ctx, &l, c->class_weights, parts, &all);
  if (rc) return rc;
  *j = (ce_job){.shape = l.shape,
                .x = l.x,
                .g = l.g,
                .acc = l.acc,
                .labels = l.labels,
                .label_dtype = l.label_dtype,
                .ignore = l.ignore,
                .class_weights = c->class_weights,
                .smooth = c->smooth,
                .loss = (double *)(parts + chunks)};
  if (all.counted) j->scale = (float)(l.weight / loss_full(&l, all.weight) * (double)io->step->loss_scale);
  if ((rc = par_run(ctx, chunks, run_kernel, &a))) return rc;
  double loss = 0;
  for (int64_t i = 0; i < chunks; i++) loss += j->loss[i];
  loss_result(&l, &all, all.counted ? l.weight * (loss / all.weight) : 0);
  return SP_OK;
}

SP_STAGE_CPU(CROSS_ENTROPY_PAIR, .plan = plan, .forward = forward);
