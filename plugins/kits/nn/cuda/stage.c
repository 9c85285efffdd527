/* SPDX-License-Identifier: MIT
 * stage.c - the callbacks that every stage made of a network shares on CUDA. */
#include "cuda_stage.h"

#include <stdlib.h>

int nnc_stage_create(sp_ctx *ctx, const void *params, void **self) {
  nnc_stage *s = calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for a network");
  s->params = params;
  *self = s;
  return SP_OK;
}

void nnc_stage_destroy(void *self) {
  nnc_stage *s = self;
  nn_cuda_clear(&s->cuda);
  free(s);
}

int nnc_stage_plan(sp_ctx *ctx, void *self, sp_plan *plan, nn_builder build) {
  nnc_stage *s = self;
  nn_net net = {0};
  nn_binds b = {.n_in = 1, .n_out = 1};
  int st = build(ctx, s->params, plan, &net, &b);
  if (!st) st = nn_cuda_plan(ctx, &s->cuda, plan, &net, b.in, b.n_in, b.out, b.n_out);
  nn_clear(&net);
  return st;
}

int nnc_stage_prepare(sp_ctx *ctx, void *self, const sp_io *io) {
  return nn_cuda_prepare(ctx, &((nnc_stage *)self)->cuda, io);
}

int nnc_stage_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  return nn_cuda_forward(ctx, &((nnc_stage *)self)->cuda, io);
}

int nnc_stage_backward(sp_ctx *ctx, void *self, const sp_io *io) {
  return nn_cuda_backward(ctx, &((nnc_stage *)self)->cuda, io);
}

int nnc_stage_apply(sp_ctx *ctx, void *self, const sp_io *io) {
  return nn_cuda_apply(ctx, &((nnc_stage *)self)->cuda, io);
}
