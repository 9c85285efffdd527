/* SPDX-License-Identifier: MIT
 * shard_sum_cpu.c - the stage `shard_sum` on the CPU. */
#include <string.h>

#include "../../kits/par.h"
#include "../../kits/spec.h"
#include "shard_sum.h"

enum { CHUNK = 16384, TREE_BLOCK = 256 };

static int plan_sum(sp_ctx *ctx, void *self, sp_plan *p) { return shard_plan(ctx, self, p, CHUNK); }

typedef struct job {
  const shard_sum *s;
  const sp_io *io;
  int64_t m;
  float scale, mean;
} job;

static float *level_of(const job *j, int level, uint32_t i) {
  return (float *)j->io->saved + (int64_t)level * j->s->floats + j->s->at[i];
}

static uint32_t tensor_of(const shard_sum *s, int64_t chunk) {
  uint32_t lo = 0, hi = s->n;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (s->first[mid] <= chunk) lo = mid;
    else hi = mid;
  }
  return lo;
}

static void round_all(float *v, int64_t n) {
  for (int64_t x = 0; x < n; x++) v[x] = shard_rounded(v[x]);
}

static int add_chunk(void *arg, int64_t chunk, int worker) {
  const job *j = arg;
  const shard_sum *s = j->s;
  shard_turn turn = shard_turn_of(j->m, shard_leaves(s->p));
  uint32_t i = tensor_of(s, chunk);
  int bf16 = s->p->bf16 && i < s->gradients;
  int64_t at = (chunk - s->first[i]) * CHUNK, left = s->count[i] - at, n = left < CHUNK ? left : CHUNK;
  float *own = shard_tensor(s, j->io, i), v[CHUNK], k = i < s->gradients ? j->scale : j->mean;
  (void)worker;
  if (!own) return SP_OK;
  own += at;
  if (j->io->step->n) memcpy(v, own, (size_t)n * sizeof *v);
  else memset(v, 0, (size_t)n * sizeof *v);
  if (bf16) round_all(v, n);
  for (int level = turn.from - 1; level > turn.keep; level--) {
    const float *sum = level_of(j, level, i) + at;
    for (int64_t x = 0; x < n; x++) v[x] = sum[x] + v[x];
    if (bf16) round_all(v, n);
  }
  if (turn.keep >= 0) memcpy(level_of(j, turn.keep, i) + at, v, (size_t)n * sizeof *v);
  else
    for (int64_t x = 0; x < n; x++) own[x] = v[x] * k;
  return SP_OK;
}

static int add(sp_ctx *ctx, const shard_sum *s, const sp_io *io) {
  job j = {.s = s, .io = io, .m = shard_of(io->step, shard_leaves(s->p)), .scale = 1, .mean = 1};
  if (s->p->part && s->p->shards == 1 && io->step->n && !s->p->bf16) return SP_OK; /* it is the sum */
  if (!s->p->part && j.m == shard_leaves(s->p) - 1) {
    shard_head h = shard_heads(io->in[SHARD_IN_HEADS].t[0].data, s->p->shards);
    j.scale = h.scale;
    j.mean = h.mean;
  }
  return par_run(ctx, s->first[s->n], add_chunk, &j);
}

static int count(sp_ctx *ctx, void *self, const sp_io *io) {
  double *own = (double *)io->out[0].t[0].data + io->step->shard * HEAD_N;
  (void)ctx;
  (void)self;
  own[HEAD_TOTAL] = io->step->n ? *(const double *)io->in[0].t[0].data : 0;
  own[HEAD_RAN] = io->step->n > 0;
  return SP_OK;
}

/* ---- the sums of all ranks ---- */
typedef struct tree {
  const float *pieces;
  float *out;
  int64_t ranks, each, gradients;
  float scale, mean;
} tree;

static int tree_chunk(void *arg, int64_t chunk, int worker) {
  const tree *t = arg;
  int64_t at = chunk * CHUNK, left = t->each - at, n = left < CHUNK ? left : CHUNK;
  float levels[SHARD_LEVELS_MAX][TREE_BLOCK], v[TREE_BLOCK];
  (void)worker;
  for (int64_t x = at; x < at + n; x += TREE_BLOCK) {
    int some = (int)(at + n - x < TREE_BLOCK ? at + n - x : TREE_BLOCK);
    for (int64_t m = 0; m < t->ranks; m++) {
      shard_turn turn = shard_turn_of(m, t->ranks);
      memcpy(v, t->pieces + m * t->each + x, (size_t)some * sizeof *v);
      for (int level = turn.from - 1; level > turn.keep; level--)
        for (int i = 0; i < some; i++) v[i] = levels[level][i] + v[i];
      if (turn.keep >= 0) memcpy(levels[turn.keep], v, (size_t)some * sizeof *v);
    }
    for (int i = 0; i < some; i++) t->out[x + i] = v[i] * (x + i < t->gradients ? t->scale : t->mean);
  }
  return SP_OK;
}

/* Of bfloat16: what is divided is float32 again, behind the way back. */
static int tree_half(void *arg, int64_t chunk, int worker) {
  const tree *t = arg;
  int64_t at = chunk * CHUNK, end = at + CHUNK < t->each ? at + CHUNK : t->each;
  float levels[SHARD_LEVELS_MAX], v = 0;
  (void)worker;
  for (int64_t x = at; x < end; x++) {
    for (int64_t m = 0; m < t->ranks; m++) {
      shard_turn turn = shard_turn_of(m, t->ranks);
      v = shard_float(((const uint16_t *)t->pieces)[m * t->each + x]);
      for (int level = turn.from - 1; level > turn.keep; level--) v = shard_rounded(levels[level] + v);
      if (turn.keep >= 0) levels[turn.keep] = v;
    }
    ((uint16_t *)t->out)[x] = shard_bf16(v);
  }
  return SP_OK;
}

static int add_ranks(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *pieces = io->in[TREE_IN_PIECES].t, *heads = io->in[TREE_IN_HEADS].t;
  int half = pieces->spec.dtype == SP_BF16;
  shard_head h = half ? (shard_head){0} : shard_heads(heads->data, heads->spec.shape[0]);
  tree t = {.pieces = pieces->data,
            .out = io->out[0].t[0].data,
            .ranks = pieces->spec.shape[0],
            .each = pieces->spec.shape[1],
            .gradients = io->out[0].t[0].spec.shape[0],
            .scale = h.scale,
            .mean = h.mean};
  (void)self;
  return par_run(ctx, (t.each + CHUNK - 1) / CHUNK, half ? tree_half : tree_chunk, &t);
}

typedef struct wire {
  const sp_tensor *from, *to;
  float scale;
} wire;

static int wire_chunk(void *arg, int64_t chunk, int worker) {
  const wire *w = arg;
  int64_t n = w->from->spec.shape[0], at = chunk * CHUNK, end = at + CHUNK < n ? at + CHUNK : n;
  (void)worker;
  if (w->from->spec.dtype == SP_F32)
    for (int64_t x = at; x < end; x++) ((uint16_t *)w->to->data)[x] = shard_bf16(((const float *)w->from->data)[x]);
  else
    for (int64_t x = at; x < end; x++)
      ((float *)w->to->data)[x] = shard_float(((const uint16_t *)w->from->data)[x]) * w->scale;
  return SP_OK;
}

static int convert(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *heads = io->in[WIRE_IN_HEADS].t;
  wire w = {.from = io->in[WIRE_IN_FROM].t, .to = io->out[0].t};
  if (io->in[WIRE_IN_HEADS].n) w.scale = shard_heads(heads->data, heads->spec.shape[0]).scale;
  (void)self;
  return par_run(ctx, (w.from->spec.shape[0] + CHUNK - 1) / CHUNK, wire_chunk, &w);
}

static int scale(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *heads = io->in[0].t;
  float k = shard_heads(heads->data, heads->spec.shape[0]).scale;
  (void)ctx;
  (void)self;
  *(float *)io->out[0].t[0].data = io->dw_scale ? k * *io->dw_scale : k;
  return SP_OK;
}

static void keep(const sp_io *io) {
  char *at = io->saved;
  for (uint32_t i = 0; i < io->in[SHARD_IN_STATISTICS].n; i++) {
    const sp_tensor *t = &io->in[SHARD_IN_STATISTICS].t[i];
    if (io->step->shard) memcpy(t->data, at, (size_t)spec_bytes(&t->spec));
    else memcpy(at, t->data, (size_t)spec_bytes(&t->spec));
    at += shard_kept_bytes(t);
  }
}

static int add_shards(sp_ctx *ctx, void *self, const sp_io *io) {
  const shard_sum *s = self;
  if (!s->p->keep) return add(ctx, s, io);
  if (io->step->n) keep(io); /* else they stay as the last shard with samples has left them */
  return SP_OK;
}

#define SHARD_DEVICE "cpu"
SHARD_STAGES("shard_sum", "The sum of a step's shards on the CPU");
