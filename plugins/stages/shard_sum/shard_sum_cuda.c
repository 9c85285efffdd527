/* SPDX-License-Identifier: MIT
 * shard_sum_cuda.c - the stage `shard_sum` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/spec.h"
#include "shard_sum_kernels.h"

static int plan_sum(sp_ctx *ctx, void *self, sp_plan *p) { return shard_plan(ctx, self, p, SHARDK_CHUNK); }

/* As many tensors from `from` on as a table takes; gives the next. */
static uint32_t fill(const shard_sum *s, const sp_io *io, uint32_t from, shardk_table *t) {
  t->n = t->gradients = 0;
  t->first[0] = 0;
  for (; from < s->n && t->n < SHARDK_LIST; from++) {
    uint32_t k = t->n;
    int64_t chunks = s->first[from + 1] - s->first[from];
    if (!(t->own[k] = shard_tensor(s, io, from))) continue;
    t->first[k + 1] = t->first[k] + (uint32_t)chunks;
    t->tail[k] = chunks ? (uint32_t)(s->count[from] - (chunks - 1) * SHARDK_CHUNK) : 0;
    t->at[k] = s->at[from];
    t->n++;
    if (from < s->gradients) t->gradients = t->n;
  }
  return from;
}

static int add(sp_ctx *ctx, const shard_sum *s, const sp_io *io) {
  const double *heads = s->p->part ? NULL : io->in[SHARD_IN_HEADS].t[0].data;
  int rc = SP_OK;
  for (uint32_t i = 0; i < s->n && !rc;) {
    shardk_table t;
    i = fill(s, io, i, &t);
    rc = cuda_check(ctx, shardk_add(ctx->stream, &t, heads, io->saved, s->floats, io->step, s->p), "adding");
  }
  return rc;
}

static int count(sp_ctx *ctx, void *self, const sp_io *io) {
  (void)self;
  return cuda_check(ctx, shardk_count(ctx->stream, io->step, io->in[0].t[0].data, io->out[0].t[0].data), "counting");
}

static int keep(sp_ctx *ctx, const sp_io *io) {
  const sp_list *in = &io->in[SHARD_IN_STATISTICS];
  char *at = io->saved;
  int rc = SP_OK;
  for (uint32_t i = 0; i < in->n && !rc;) {
    shardk_kept list = {0};
    for (; i < in->n && list.n < SHARDK_LIST; i++, list.n++) {
      list.now[list.n] = in->t[i].data;
      list.kept[list.n] = at;
      list.bytes[list.n] = spec_bytes(&in->t[i].spec);
      at += shard_kept_bytes(&in->t[i]);
    }
    rc = cuda_check(ctx, shardk_keep(ctx->stream, &list, io->step), "keeping statistics");
  }
  return rc;
}

static int add_shards(sp_ctx *ctx, void *self, const sp_io *io) {
  const shard_sum *s = self;
  return s->p->keep ? keep(ctx, io) : add(ctx, s, io);
}

static int add_ranks(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *pieces = io->in[TREE_IN_PIECES].t, *heads = io->in[TREE_IN_HEADS].t, *out = io->out[0].t;
  shardk_tree t = {.pieces = pieces->data,
                   .out = out->data,
                   .heads = heads->data,
                   .shards = heads->spec.shape[0],
                   .ranks = pieces->spec.shape[0],
                   .each = pieces->spec.shape[1],
                   .gradients = out->spec.shape[0],
                   .half = pieces->spec.dtype == SP_BF16};
  (void)self;
  return cuda_check(ctx, shardk_add_ranks(ctx->stream, &t), "adding");
}

static int scale(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *heads = io->in[0].t;
  (void)self;
  return cuda_check(ctx,
                    shardk_scale(ctx->stream, io->out[0].t[0].data, heads->data, heads->spec.shape[0], io->dw_scale),
                    "the scale");
}

static int convert(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *from = io->in[WIRE_IN_FROM].t, *to = io->out[0].t, *heads = io->in[WIRE_IN_HEADS].t;
  int64_t n = from->spec.shape[0];
  (void)self;
  if (from->spec.dtype == SP_F32) return cuda_check(ctx, shardk_pack(ctx->stream, to->data, from->data, n), "rounding");
  return cuda_check(ctx, shardk_unpack(ctx->stream, to->data, from->data, n, heads->data, heads->spec.shape[0]),
                    "dividing");
}

#define SHARD_DEVICE "cuda"
SHARD_STAGES("shard_sum_cuda", "The sum of a step's shards on CUDA");
