/* SPDX-License-Identifier: MIT
 * optim_cuda.c - tables of tensors for kernels, and what is enqueued before an update. */
#include "optim_cuda.h"

#include <string.h>

#include "../cuda/check.h"
#include "../spec.h"

/* The sums of squares lie behind the heads of groups. */
static size_t head_bytes(const optim *o) { return (o->n_groups * sizeof(opk_head) + 63) / 64 * 64; }

static int sums(const optim *o) { return optim_norm(o->p) || o->p->nonfinite == OPTIM_SKIP; }

size_t optim_cuda_scratch(const optim *o) {
  return head_bytes(o) + (sums(o) ? (size_t)optim_chunks(o) * sizeof(double) : 0);
}

static uint32_t lists_of(const optim *o) { return o->kinds ? 2 + o->kinds : 3; }

/* Tensor i as the k-th of a table. */
static void put(const optim *o, const sp_io *io, uint32_t i, int here, uint32_t k, opk_table *t) {
  int64_t chunks = here ? o->first[i + 1] - o->first[i] : 0;
  float **at = t->at + (size_t)k * t->lists;
  t->first[k + 1] = t->first[k] + (uint32_t)chunks;
  t->tail[k] = chunks ? (uint32_t)(o->count[i] - (chunks - 1) * OPK_CHUNK) : 0;
  at[0] = io->in[OPTIM_IN_GRADIENTS].t[i].data;
  at[1] = io->out[OPTIM_OUT_WEIGHTS].t[i].data;
  for (uint32_t kind = 0; kind < o->kinds; kind++) at[2 + kind] = optim_moment(o, io, kind, i);
  t->group[k] = o->group_of[i];
}

uint32_t optim_cuda_table(const optim *o, const sp_io *io, uint32_t from, int apart, opk_table *t) {
  uint32_t lists = lists_of(o), most = OPK_POINTERS / lists < OPK_LIST ? OPK_POINTERS / lists : OPK_LIST;
  uint32_t end = o->n - from < most ? o->n : from + most;
  *t = (opk_table){.base = o->first[from], .n = end - from, .lists = lists};
  for (uint32_t i = from; i < end; i++) put(o, io, i, optim_is_here(io, i) && (apart || !o->apart[i]), i - from, t);
  return end;
}

void optim_cuda_one(const optim *o, const sp_io *io, uint32_t i, opk_table *t) {
  *t = (opk_table){.base = o->first[i], .n = 1, .lists = lists_of(o)};
  put(o, io, i, 1, 0, t);
}

/* The forward passes have moved them already. */
static int keep_statistics(sp_ctx *ctx, const optim *o, const sp_io *io, const opk_head *head) {
  int rc = SP_OK;
  for (uint32_t i = 0, n = optim_statistics(o, io); i < n && !rc;) {
    opk_kept list = {0};
    for (; i < n && list.n < OPK_LIST; i++, list.n++) {
      const sp_tensor *t = &io->in[OPTIM_IN_STATISTICS].t[i];
      list.bytes[list.n] = (int64_t)spec_bytes(&t->spec);
      list.now[list.n] = t->data;
      list.kept[list.n] = optim_kept(o, io, i);
    }
    rc = cuda_check(ctx, opk_keep(ctx->stream, &list, head), "keeping statistics");
  }
  return rc;
}

static int sum_chunks(sp_ctx *ctx, const optim *o, const sp_io *io, double *part) {
  int rc = SP_OK;
  for (uint32_t from = 0; from < o->n && !rc;) {
    opk_table t;
    from = optim_cuda_table(o, io, from, 1, &t);
    rc = cuda_check(ctx, opk_squares(ctx->stream, &t, part), "computing the gradients' norm");
  }
  return rc;
}

int optim_cuda_survey(sp_ctx *ctx, const optim *o, const sp_io *io) { return sum_chunks(ctx, o, io, io->sums); }

int optim_cuda_begin(sp_ctx *ctx, const optim *o, const sp_io *io, opk_rules *r) {
  int rc = SP_OK;
  r->head = io->scratch;
  r->part = (double *)((char *)io->scratch + head_bytes(o));
  r->parts = sums(o) ? optim_chunks(o) : 0;
  r->clip_norm = o->p->clip_norm;
  r->step = io->step;
  r->first = !io->part;
  r->count = optim_step(o, io);
  r->later = optim_later(o, io);
  r->n_later = o->later;
  r->begun = o->begun;
  r->n_groups = o->n_groups;
  memcpy(r->group, o->group, o->n_groups * sizeof *o->group);
  r->status = io->out[OPTIM_OUT_STATUS].t[0].data;
  if (optim_norm(o->p)) r->norm = io->out[OPTIM_OUT_NORM].t[0].data;
  if (o->p->nonfinite == OPTIM_SKIP) {
    r->limit = o->p->max_nonfinite;
    r->in_a_row = optim_in_a_row(o, io);
    r->skipped = io->out[OPTIM_OUT_SKIPPED].t[0].data;
  }
  if (io->sums) r->part = io->sums, r->parts = (int64_t)io->n_sums, r->part_at = io->sum_at;
  else if (r->parts) rc = sum_chunks(ctx, o, io, r->part);
  if (!rc) rc = cuda_check(ctx, opk_begin(ctx->stream, r), "beginning an update");
  return rc ? rc : keep_statistics(ctx, o, io, r->head);
}

int optim_cuda_average(sp_ctx *ctx, const optim *o, const sp_io *io, const opk_head *head) {
  int rc = SP_OK;
  for (uint32_t from = 0; optim_averages(o) && from < o->n && !rc;) {
    opk_table t;
    uint32_t first = from;
    from = optim_cuda_table(o, io, from, 1, &t);
    for (uint32_t i = first; i < from; i++) t.at[(i - first) * t.lists + 2] = optim_ema(o, io, i);
    rc = cuda_check(ctx, opk_average(ctx->stream, &t, (float)(1 - o->p->ema), head), "averaging weights");
  }
  return rc;
}

int optim_cuda_end(sp_ctx *ctx, const optim *o, const sp_io *io, const opk_rules *rules, optim_cuda_fn fn,
                   const void *rule) {
  int rc = SP_OK;
  for (uint32_t from = 0; from < o->n && !rc;) {
    opk_table t;
    from = optim_cuda_table(o, io, from, 0, &t);
    rc = cuda_check(ctx, fn(ctx->stream, &t, rule, rules->head, rules->status), "updating weights");
  }
  return rc ? rc : optim_cuda_average(ctx, o, io, rules->head);
}

int optim_cuda_update(sp_ctx *ctx, const optim *o, const sp_io *io, opk_rules *rules, optim_cuda_fn fn,
                      const void *rule) {
  int rc = optim_cuda_begin(ctx, o, io, rules);
  return rc ? rc : optim_cuda_end(ctx, o, io, rules, fn, rule);
}
