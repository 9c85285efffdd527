/* SPDX-License-Identifier: MIT
 * shard_sum.c - ports, the list of tensors, and memory for the levels of the tree. */
#include "shard_sum.h"

#include <stdlib.h>

#include "../../kits/spec.h"

enum { ALIGN = 64 };

int shard_create(sp_ctx *ctx, const void *params, void **self) {
  shard_sum *s = calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the instance");
  s->p = params;
  *self = s;
  return SP_OK;
}

/* The tree keeps nothing, but an instance is something. */
int tree_create(sp_ctx *ctx, const void *params, void **self) {
  (void)params;
  *self = calloc(1, 1);
  return *self ? SP_OK : ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the instance");
}

void tree_destroy(void *self) { free(self); }

int tree_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  (void)ctx;
  (void)self;
  plan->stepless = 1;
  return SP_OK;
}

int scale_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  plan->out[0].spec[0] = (sp_spec){.dtype = SP_F32};
  return tree_plan(ctx, self, plan);
}

int count_create(sp_ctx *ctx, const void *params, void **self) {
  (void)ctx;
  *self = (void *)(uintptr_t)params;
  return SP_OK;
}

void count_destroy(void *self) { (void)self; }

int count_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  (void)ctx;
  plan->out[0].spec[0] = (sp_spec){.dtype = SP_F64, .ndim = 2, .shape = {((const count_params *)self)->shards, HEAD_N}};
  return SP_OK;
}

static void drop_lists(shard_sum *s) {
  free(s->of);
  free(s->count);
  free(s->first);
  free(s->at);
  *s = (shard_sum){.p = s->p};
}

void shard_destroy(void *self) {
  drop_lists(self);
  free(self);
}

size_t shard_kept_bytes(const sp_tensor *t) { return ((size_t)spec_bytes(&t->spec) + ALIGN - 1) / ALIGN * ALIGN; }

float *shard_tensor(const shard_sum *s, const sp_io *io, uint32_t i) {
  return io->in[i < s->gradients ? SHARD_IN_GRADIENTS : SHARD_IN_STATISTICS].t[s->of[i]].data;
}

static void add(shard_sum *s, uint32_t of, const sp_spec *spec, int64_t chunk) {
  uint32_t i = s->n++;
  s->of[i] = of;
  s->count[i] = spec_elements(spec);
  s->first[i + 1] = s->first[i] + (s->count[i] + chunk - 1) / chunk;
  s->at[i] = s->floats;
  s->floats += (s->count[i] + ALIGN - 1) / ALIGN * ALIGN;
}

int shard_plan(sp_ctx *ctx, shard_sum *s, sp_plan *plan, int64_t chunk) {
  const sp_speclist *gradients = &plan->in[SHARD_IN_GRADIENTS], *statistics = &plan->in[SHARD_IN_STATISTICS];
  uint32_t all = gradients->n + statistics->n;
  drop_lists(s);
  s->of = calloc(all + 1, sizeof *s->of);
  s->count = calloc(all + 1, sizeof *s->count);
  s->first = calloc(all + 1, sizeof *s->first);
  s->at = calloc(all + 1, sizeof *s->at);
  if (!s->of || !s->count || !s->first || !s->at)
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for a list of %u tensors", all);
  for (uint32_t i = 0; i < gradients->n; i++) add(s, i, &gradients->spec[i], chunk);
  s->gradients = s->n;
  for (uint32_t i = 0; i < statistics->n; i++) {
    if (statistics->spec[i].dtype == SP_F32) add(s, i, &statistics->spec[i], chunk);
    s->kept += shard_kept_bytes(&(sp_tensor){.spec = statistics->spec[i]});
  }
  plan->saved_bytes =
      s->p->keep ? s->kept : (size_t)shard_levels(shard_leaves(s->p)) * (size_t)s->floats * sizeof(float);
  return SP_OK;
}

const sp_port shard_inputs[] = {{.name = "gradients",
                                 .dtypes = SP_DT(SP_F32),
                                 .ndim = -1,
                                 .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
                                 .doc =
                                     "of the shard; behind the last one they are those of the step. What has no data "
                                     "is left alone"},
                                {.name = "statistics",
                                 .ndim = -1,
                                 .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
                                 .doc = "of the trained stages; behind the last shard the mean over all"},
                                {.name = "heads",
                                 .dtypes = SP_DT(SP_F64),
                                 .ndim = 2,
                                 .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
                                 .doc = "one tensor: what shard_count has counted; none with keep"},
                                {.name = NULL}};
const sp_port count_inputs[] = {{.name = "total",
                                 .dtypes = SP_DT(SP_F64),
                                 .ndim = 0,
                                 .flags = SP_PORT_NOGRAD,
                                 .doc = "the loss's, see sp_step.batch"},
                                {.name = NULL}};
const sp_port count_outputs[] = {
    {.name = "heads", .dtypes = SP_DT(SP_F64), .ndim = 2, .doc = "total of each shard, and 1 where it had samples"},
    {.name = NULL}};
const sp_port tree_inputs[] = {{.name = "pieces",
                                .dtypes = SP_DT(SP_F32) | SP_DT(SP_BF16),
                                .ndim = 2,
                                .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
                                .doc = "one tensor: of each rank's sums the piece that this rank completes"},
                               {.name = "heads",
                                .dtypes = SP_DT(SP_F64),
                                .ndim = 2,
                                .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
                                .doc = "one tensor: those of all ranks"},
                               {.name = NULL}};
const sp_port tree_outputs[] = {
    {.name = "sums",
     .dtypes = SP_DT(SP_F32),
     .ndim = 1,
     .flags = SP_PORT_LIST,
     .doc = "two that lie side by side: of gradients and of statistics; of bfloat16 pieces one, not "
            "divided yet"},
    {.name = NULL}};

const sp_port wire_inputs[] = {
    {.name = "from",
     .dtypes = SP_DT(SP_F32) | SP_DT(SP_BF16),
     .ndim = 1,
     .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
     .doc = "one tensor: float32 becomes bfloat16, which holds it, bfloat16 float32"},
    {.name = "heads",
     .dtypes = SP_DT(SP_F64),
     .ndim = 2,
     .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
     .doc = "one tensor, on the way back: those of all shards, by which the sums are divided"},
    {.name = NULL}};
const sp_port wire_outputs[] = {
    {.name = "to", .ndim = 1, .flags = SP_PORT_LIST, .doc = "one tensor with as many elements"}, {.name = NULL}};
const sp_port scale_inputs[] = {{.name = "heads",
                                 .dtypes = SP_DT(SP_F64),
                                 .ndim = 2,
                                 .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
                                 .doc = "one tensor: those of all shards"},
                                {.name = NULL}};
const sp_port scale_outputs[] = {
    {.name = "scale",
     .dtypes = SP_DT(SP_F32),
     .doc = "1 / total, 0 without; times what dw_scale points to, where there is such a thing"},
    {.name = NULL}};

const sp_param count_param_table[] = {{.name = "shards",
                                       .type = SP_PARAM_INT,
                                       .flags = SP_PARAM_REQUIRED,
                                       .offset = offsetof(count_params, shards),
                                       .imin = 1,
                                       .imax = 4096,
                                       .doc = "of a step, on this rank"},
                                      {.name = NULL}};
const sp_param shard_param_table[] = {
    {.name = "shards",
     .type = SP_PARAM_INT,
     .flags = SP_PARAM_REQUIRED,
     .offset = offsetof(shard_params, shards),
     .imin = 1,
     .imax = 4096,
     .doc = "of a step, on this rank"},
    {.name = "keep",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(shard_params, keep),
     .doc = "adds nothing: has each shard begin with the statistics of the step's first"},
    {.name = "part",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(shard_params, part),
     .doc = "other ranks have further shards of the step"},
    {.name = "summed",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(shard_params, summed),
     .doc = "called once, behind the last shard: gradients are the sums of all, and are divided"},
    {.name = "bf16",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(shard_params, bf16),
     .doc = "gradients and their sums are rounded to bfloat16"},
    {.name = NULL}};
