/* SPDX-License-Identifier: MIT
 * stage.c - the callbacks that every stage made of a network shares on the CPU. */
#include "cpu_stage.h"

#include <stdlib.h>

int nn_stage_create(sp_ctx *ctx, const void *params, void **self) {
  nn_stage *s = calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for a network");
  s->params = params;
  *self = s;
  return SP_OK;
}

void nn_stage_destroy(void *self) {
  nn_stage *s = self;
  nn_cpu_clear(&s->cpu);
  free(s);
}

int nn_stage_plan(sp_ctx *ctx, void *self, sp_plan *plan, nn_builder build) {
  nn_stage *s = self;
  nn_net net = {0};
  nn_binds b = {.n_in = 1, .n_out = 1};
  int st = build(ctx, s->params, plan, &net, &b);
  if (!st) st = nn_cpu_plan(ctx, &s->cpu, plan, &net, b.in, b.n_in, b.out, b.n_out);
  nn_clear(&net);
  return st;
}

int nn_stage_prepare(sp_ctx *ctx, void *self, const sp_io *io) {
  return nn_cpu_prepare(ctx, &((nn_stage *)self)->cpu, io);
}

int nn_stage_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  return nn_cpu_forward(ctx, &((nn_stage *)self)->cpu, io);
}

int nn_stage_backward(sp_ctx *ctx, void *self, const sp_io *io) {
  return nn_cpu_backward(ctx, &((nn_stage *)self)->cpu, io);
}

int nn_stage_apply(sp_ctx *ctx, void *self, const sp_io *io) { return nn_cpu_apply(ctx, &((nn_stage *)self)->cpu, io); }
