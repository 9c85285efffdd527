/* SPDX-License-Identifier: MIT
 * concat.c - tensors one behind the other along an axis, in list order. */
#include <stdlib.h>
#include <string.h>

#include <spcore/plugin.h>

#include "../par.h"

typedef struct concat_params {
  int64_t axis;
} concat_params;

typedef struct concat {
  const concat_params *p;
} concat;

/* In memory a tensor is `outer` runs; one run of input k is `run[k]` elements, side by side with the others' runs. */
typedef struct concat_job {
  const sp_io *io;
  int64_t outer, all, run[SP_MAX_LIST];
  int64_t per_item; /* outer runs of one work item */
} concat_job;

#define ITEM_ELEMENTS 16384

/* The dimension that lies at place `i`, counted from outside. */
static int dim_at(const sp_spec *s, int i) {
  return s->order == SP_ROW_MAJOR ? i : (s->order >> 4 * (s->ndim - 1 - i)) & 15;
}

static int concat_create(sp_ctx *ctx, const void *params, void **self) {
  concat *c = calloc(1, sizeof *c);
  if (!c) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the instance");
  c->p = params;
  *self = c;
  return SP_OK;
}

static void concat_destroy(void *self) { free(self); }

static int concat_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const concat *c = self;
  const sp_speclist *in = &plan->in[0];
  sp_spec *out = plan->out[0].spec;
  if (!in->n) return ctx->host->fail(ctx, SP_E_INVALID, "nothing to concatenate: wire at least one tensor to 'x'");
  const sp_spec *a = &in->spec[0];
  if (c->p->axis >= a->ndim)
    return ctx->host->fail(ctx, SP_E_SHAPE, "axis is %lld, but the tensors have %d dimensions", (long long)c->p->axis,
                           a->ndim);
  *out = *a;
  for (uint32_t i = 1; i < in->n; i++) {
    const sp_spec *b = &in->spec[i];
    if (a->ndim != b->ndim)
      return ctx->host->fail(ctx, SP_E_SHAPE, "tensor %u has %d dimensions, tensor 1 has %d", i + 1, b->ndim, a->ndim);
    if (a->order != b->order)
      return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "tensor %u lies in another memory order than tensor 1", i + 1);
    for (int d = 0; d < a->ndim; d++)
      if (d != c->p->axis && a->shape[d] != b->shape[d])
        return ctx->host->fail(ctx, SP_E_SHAPE, "dimension %d of tensor %u is %lld, of tensor 1 it is %lld", d, i + 1,
                               (long long)b->shape[d], (long long)a->shape[d]);
    if (__builtin_add_overflow(out->shape[c->p->axis], b->shape[c->p->axis], &out->shape[c->p->axis]))
      return ctx->host->fail(ctx, SP_E_SHAPE, "the tensors are too large together");
  }
  plan->out[0].n = 1;
  return SP_OK;
}

static void job_fill(concat_job *j, const concat *c, const sp_io *io) {
  const sp_list *in = &io->in[0];
  const sp_spec *a = &in->t[0].spec;
  int64_t inner = 1;
  int place = 0;
  *j = (concat_job){.io = io, .outer = 1};
  while (dim_at(a, place) != c->p->axis) j->outer *= a->shape[dim_at(a, place++)];
  for (int i = place + 1; i < a->ndim; i++) inner *= a->shape[dim_at(a, i)];
  for (uint32_t k = 0; k < in->n; k++) j->all += j->run[k] = in->t[k].spec.shape[c->p->axis] * inner;
  j->per_item = j->all >= ITEM_ELEMENTS || !j->all ? 1 : ITEM_ELEMENTS / j->all;
}

static int run_items(sp_ctx *ctx, concat_job *j, int (*fn)(void *, int64_t, int)) {
  return par_run(ctx, (j->outer + j->per_item - 1) / j->per_item, fn, j);
}

static int join(void *arg, int64_t item, int worker) {
  const concat_job *j = arg;
  const sp_list *in = &j->io->in[0];
  int64_t o = item * j->per_item, end = o + j->per_item < j->outer ? o + j->per_item : j->outer;
  for (; o < end; o++) {
    float *y = (float *)j->io->out[0].t[0].data + o * j->all;
    for (uint32_t k = 0; k < in->n; y += j->run[k++])
      memcpy(y, (const float *)in->t[k].data + o * j->run[k], (size_t)j->run[k] * sizeof *y);
  }
  (void)worker;
  return SP_OK;
}

static int split(void *arg, int64_t item, int worker) {
  const concat_job *j = arg;
  const sp_list *din = &j->io->din[0];
  const float *grad = j->io->dout[0].t[0].data;
  int64_t o = item * j->per_item, end = o + j->per_item < j->outer ? o + j->per_item : j->outer;
  for (; o < end; o++) {
    int64_t at = o * j->all;
    for (uint32_t k = 0; k < din->n; at += j->run[k++]) {
      float *dx = din->t[k].data;
      int64_t n = j->run[k];
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

static int concat_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  concat_job j;
  job_fill(&j, self, io);
  return run_items(ctx, &j, join);
}

static int concat_backward(sp_ctx *ctx, void *self, const sp_io *io) {
  concat_job j;
  job_fill(&j, self, io);
  return run_items(ctx, &j, split);
}

static const sp_port concat_inputs[] = {{.name = "x",
                                         .dtypes = SP_DT(SP_F32),
                                         .ndim = -1,
                                         .flags = SP_PORT_LIST,
                                         .doc = "tensors that differ along the axis only"},
                                        {.name = NULL}};
static const sp_port concat_outputs[] = {
    {.name = "y", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "one behind the other"}, {.name = NULL}};
static const sp_param concat_param_table[] = {
    {.name = "axis",
     .type = SP_PARAM_INT,
     .offset = offsetof(concat_params, axis),
     .def = 1,
     .min = 1,
     .max = SP_MAX_DIMS - 1,
     .doc = "dimension along which they are joined; 0, the samples, can't be"},
    {.name = NULL}};
static const sp_stage_type concat_type = {.size = sizeof(sp_stage_type),
                                          .name = "concat",
                                          .device = "cpu",
                                          .doc = "Joins tensors along an axis",
                                          .inputs = concat_inputs,
                                          .outputs = concat_outputs,
                                          .params = concat_param_table,
                                          .params_size = sizeof(concat_params),
                                          .create = concat_create,
                                          .destroy = concat_destroy,
                                          .plan = concat_plan,
                                          .forward = concat_forward,
                                          .backward = concat_backward};
static const sp_stage_type *const stages[] = {&concat_type, NULL};

SP_EXPORT const sp_plugin spcore_plugin = {.size = sizeof(sp_plugin),
                                           .abi = SP_ABI,
                                           .name = "concat",
                                           .version = "0.1",
                                           .license = "MIT",
                                           .doc = "Joins tensors",
                                           .stages = stages};
