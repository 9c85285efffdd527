/* SPDX-License-Identifier: MIT
 * add.c - the sum of tensors of one shape, in list order. */
#include <stdlib.h>
#include <string.h>

#include <spcore/plugin.h>

#include "../par.h"

#define CHUNK 16384 /* elements per work item */

typedef struct add_job {
  const sp_io *io;
  int64_t count;
} add_job;

static int64_t elements(const sp_spec *s) {
  int64_t n = 1;
  for (int d = 0; d < s->ndim; d++) n *= s->shape[d];
  return n;
}

static int add_create(sp_ctx *ctx, const void *params, void **self) {
  (void)ctx, (void)params;
  *self = NULL;
  return SP_OK;
}

static void add_destroy(void *self) { (void)self; }

static int add_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const sp_speclist *in = &plan->in[0];
  (void)self;
  if (!in->n) return ctx->host->fail(ctx, SP_E_INVALID, "nothing to add: wire at least one tensor to 'x'");
  for (uint32_t i = 1; i < in->n; i++) {
    const sp_spec *a = &in->spec[0], *b = &in->spec[i];
    if (a->ndim != b->ndim || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape))
      return ctx->host->fail(ctx, SP_E_SHAPE, "tensor %u has another shape than tensor 1", i + 1);
    if (a->order != b->order)
      return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "tensor %u lies in another memory order than tensor 1", i + 1);
  }
  plan->out[0].n = 1;
  plan->out[0].spec[0] = in->spec[0];
  return SP_OK;
}

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

static int add_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  add_job j = {io, elements(&io->out[0].t[0].spec)};
  (void)self;
  return par_run(ctx, (j.count + CHUNK - 1) / CHUNK, add_chunk, &j);
}

static int add_backward(sp_ctx *ctx, void *self, const sp_io *io) {
  add_job j = {io, elements(&io->out[0].t[0].spec)};
  (void)self;
  return par_run(ctx, (j.count + CHUNK - 1) / CHUNK, pass_chunk, &j);
}

static const sp_port add_inputs[] = {
    {.name = "x", .dtypes = SP_DT(SP_F32), .ndim = -1, .flags = SP_PORT_LIST, .doc = "tensors of one shape"},
    {.name = NULL}};
static const sp_port add_outputs[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "their sum"},
                                      {.name = NULL}};
static const sp_stage_type add_type = {.size = sizeof(sp_stage_type),
                                       .name = "add",
                                       .device = "cpu",
                                       .doc = "Sum of tensors of one shape",
                                       .inputs = add_inputs,
                                       .outputs = add_outputs,
                                       .create = add_create,
                                       .destroy = add_destroy,
                                       .plan = add_plan,
                                       .forward = add_forward,
                                       .backward = add_backward};
static const sp_stage_type *const stages[] = {&add_type, NULL};

SP_EXPORT const sp_plugin spcore_plugin = {.size = sizeof(sp_plugin),
                                           .abi = SP_ABI,
                                           .name = "add",
                                           .version = "0.1",
                                           .license = "MIT",
                                           .doc = "Sum of tensors",
                                           .stages = stages};
