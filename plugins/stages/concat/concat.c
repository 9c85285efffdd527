/* SPDX-License-Identifier: MIT
 * concat.c - tensors one behind the other along an axis, in list order: what every device shares. */
#include "concat.h"

/* The dimension that lies at place `i`, counted from outside. */
static int dim_at(const sp_spec *s, int i) {
  return s->order == SP_ROW_MAJOR ? i : (s->order >> 4 * (s->ndim - 1 - i)) & 15;
}

int concat_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const concat_params *p = self;
  const sp_speclist *in = &plan->in[0];
  sp_spec *out = plan->out[0].spec;
  if (!in->n) return ctx->host->fail(ctx, SP_E_INVALID, "nothing to concatenate: wire at least one tensor to 'x'");
  const sp_spec *a = &in->spec[0];
  if (p->axis >= a->ndim)
    return ctx->host->fail(ctx, SP_E_SHAPE, "axis is %lld, but the tensors have %d dimensions", (long long)p->axis,
                           a->ndim);
  plan->stepless = 1;
  *out = *a;
  for (uint32_t i = 1; i < in->n; i++) {
    const sp_spec *b = &in->spec[i];
    if (a->ndim != b->ndim)
      return ctx->host->fail(ctx, SP_E_SHAPE, "tensor %u has %d dimensions, tensor 1 has %d", i + 1, b->ndim, a->ndim);
    if (a->order != b->order)
      return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "tensor %u lies in another memory order than tensor 1", i + 1);
    for (int d = 0; d < a->ndim; d++)
      if (d != p->axis && a->shape[d] != b->shape[d])
        return ctx->host->fail(ctx, SP_E_SHAPE, "dimension %d of tensor %u is %lld, of tensor 1 it is %lld", d, i + 1,
                               (long long)b->shape[d], (long long)a->shape[d]);
    if (__builtin_add_overflow(out->shape[p->axis], b->shape[p->axis], &out->shape[p->axis]))
      return ctx->host->fail(ctx, SP_E_SHAPE, "the tensors are too large together");
  }
  plan->out[0].n = 1;
  return SP_OK;
}

void concat_runs_of(concat_runs *r, const void *self, const sp_list *in) {
  const concat_params *p = self;
  const sp_spec *a = &in->t[0].spec;
  int64_t inner = 1;
  int place = 0;
  *r = (concat_runs){.outer = 1};
  while (dim_at(a, place) != p->axis) r->outer *= a->shape[dim_at(a, place++)];
  for (int i = place + 1; i < a->ndim; i++) inner *= a->shape[dim_at(a, i)];
  for (uint32_t k = 0; k < in->n; k++) r->all += r->run[k] = in->t[k].spec.shape[p->axis] * inner;
}

const sp_port concat_inputs[] = {{.name = "x",
                                  .dtypes = SP_DT(SP_F32),
                                  .ndim = -1,
                                  .flags = SP_PORT_LIST,
                                  .doc = "tensors that differ along the axis only"},
                                 {.name = NULL}};
const sp_port concat_outputs[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "one behind the other"},
                                  {.name = NULL}};
const sp_param concat_param_table[] = {{.name = "axis",
                                        .type = SP_PARAM_INT,
                                        .offset = offsetof(concat_params, axis),
                                        .idef = 1,
                                        .imin = 1,
                                        .imax = SP_MAX_DIMS - 1,
                                        .doc = "dimension along which they are joined; 0, the samples, can't be"},
                                       {.name = NULL}};
