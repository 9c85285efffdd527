/* SPDX-License-Identifier: MIT
 * shard_sum.h - the sum of a step's shards: what every device shares.
 *
 * A step may have several shards, batches that are computed one after another. Their gradients are added in the binary
 * tree that halves the shards again and again, the larger half first: a process that computes one of 2, 4, 8 ... equal
 * blocks has the sum of a subtree, whatever others compute. Level d holds the sum of the first half of a node at depth
 * d. */
#ifndef SHARD_SUM_H
#define SHARD_SUM_H

#include <spcore/plugin.h>
#include <string.h>

#define SHARD_SUM_DOC "Adds the gradients of a step's shards, and averages their statistics"

#ifdef __CUDACC__
#define SHARD_FN static __host__ __device__ __forceinline__
#else
#define SHARD_FN static inline
#endif

#define SHARD_TREE_DOC "Adds what the ranks of a job have added of a step's shards"
#define SHARD_COUNT_DOC "Counts what the losses of a step's shards are means over"
#define SHARD_WIRE_DOC "Makes sums of gradients bfloat16 for the way to other ranks, and float32 again"
#define SHARD_SCALE_DOC "Says by what the gradients of a step's shards are multiplied"

enum { SHARD_IN_GRADIENTS, SHARD_IN_STATISTICS, SHARD_IN_HEADS };
enum { TREE_IN_PIECES, TREE_IN_HEADS };
enum { WIRE_IN_FROM, WIRE_IN_HEADS };

extern const sp_port shard_inputs[], count_inputs[], count_outputs[], tree_inputs[], tree_outputs[], scale_inputs[],
    scale_outputs[], wire_inputs[], wire_outputs[];
extern const sp_param shard_param_table[], count_param_table[];

typedef struct shard_params {
  int64_t shards; /* of a step, on this rank */
  int32_t keep;   /* what is before the forward passes: statistics begin as they did in the first shard */
  int32_t part;   /* other ranks have further shards: sums stay sums */
  int32_t summed; /* called once, behind the last shard: gradients are the sums of all, and are divided */
  int32_t bf16;   /* gradients, and each sum of two, are rounded to bfloat16, as which they can go to other ranks */
} shard_params;

typedef struct count_params {
  int64_t shards; /* of a step, on this rank */
} count_params;

/* What is counted of each shard. */
enum { HEAD_TOTAL, HEAD_RAN, HEAD_N };

/* What comes of it. */
typedef struct shard_head {
  double total; /* of the losses */
  int64_t ran;  /* shards that had samples */
  float scale;  /* of the sum of gradients: 1 / total */
  float mean;   /* of the sum of statistics: 1 / ran */
} shard_head;
enum { SHARD_LEVELS_MAX = 12 }; /* levels of 4096 */

/* The tensors that are added, gradients first: float32 statistics only,
 * since what is counted is the same after each. */
typedef struct shard_sum {
  const shard_params *p;
  uint32_t n, gradients;
  uint32_t *of;   /* [n] place in its input's list */
  int64_t *count; /* [n] elements */
  int64_t *first; /* [n + 1] chunks before it */
  int64_t *at;    /* [n] where it lies in a level */
  int64_t floats; /* of a level */
  size_t kept;    /* bytes of all statistics, keep */
} shard_sum;

/* To the nearest bfloat16, even where two are as near, and back. Every sum of the tree is rounded, since what is a sum
 * of one rank and what one of several hangs on their number. */
SHARD_FN uint16_t shard_bf16(float f) {
  uint32_t u;
#ifdef __CUDA_ARCH__
  u = __float_as_uint(f);
#else
  memcpy(&u, &f, sizeof u);
#endif
  if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40); /* no number, and stays none */
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

SHARD_FN float shard_float(uint16_t b) {
  uint32_t u = (uint32_t)b << 16;
#ifdef __CUDA_ARCH__
  return __uint_as_float(u);
#else
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
#endif
}

SHARD_FN float shard_rounded(float f) { return shard_float(shard_bf16(f)); }

/* So many levels hold what is not complete yet. */
SHARD_FN int shard_levels(int64_t shards) {
  int levels = 0;
  while ((shards - 1) >> levels) levels++;
  return levels;
}

/* What came out of a shard is added to what the levels from - 1, from - 2 ... keep hold, in this order, and then kept
 * there; keep -1: it was the last, and the sum is complete. */
typedef struct shard_turn {
  int from, keep;
} shard_turn;

SHARD_FN shard_turn shard_turn_of(int64_t m, int64_t shards) {
  shard_turn t = {0, -1};
  while (shards > 1) {
    int64_t first = shards - shards / 2;
    if (m < first) {
      shards = first;
      t.keep = t.from;
    } else {
      m -= first;
      shards -= first;
    }
    t.from++;
  }
  return t;
}

/* Which shard a sum is of the tree, and how many the tree has: of gradients that are summed it has one. */
SHARD_FN int64_t shard_of(const sp_step *step, int64_t shards) { return shards > 1 ? step->shard : 0; }
SHARD_FN int64_t shard_leaves(const shard_params *p) { return p->summed ? 1 : p->shards; }

/* The head of all shards, in their order, which is the same however many ranks they are on. */
SHARD_FN shard_head shard_heads(const double *heads, int64_t n) {
  shard_head h = {0, 0, 0, 0};
  for (int64_t i = 0; i < n; i++) {
    h.total += heads[i * HEAD_N + HEAD_TOTAL];
    h.ran += (int64_t)heads[i * HEAD_N + HEAD_RAN];
  }
  h.scale = h.total > 0 ? (float)(1 / h.total) : 0;
  h.mean = h.ran ? (float)(1 / (double)h.ran) : 0;
  return h;
}

int tree_create(sp_ctx *ctx, const void *params, void **self);
void tree_destroy(void *self);
int tree_plan(sp_ctx *ctx, void *self, sp_plan *plan);
int scale_plan(sp_ctx *ctx, void *self, sp_plan *plan); /* its instances are as empty as the tree's */
int count_create(sp_ctx *ctx, const void *params,
                 void **self); /* an instance is its parameters, which are not its own */
void count_destroy(void *self);
int count_plan(sp_ctx *ctx, void *self, sp_plan *plan);
int shard_create(sp_ctx *ctx, const void *params, void **self);
void shard_destroy(void *self);
int shard_plan(sp_ctx *ctx, shard_sum *s, sp_plan *plan, int64_t chunk);
/* NULL: it is none of this call. */
float *shard_tensor(const shard_sum *s, const sp_io *io, uint32_t i);
size_t shard_kept_bytes(const sp_tensor *t); /* of a statistic, aligned */

/* The stages on a device as a plugin: the tables are the same for all of them. The file has SHARD_DEVICE, plan_sum()
 * and the calls add_shards(), count(), add_ranks(), scale() and convert(). */
#define SHARD_STAGE(id, words, more, made, planned, call, ...)                                     \
  static const sp_stage_type id##_type = {.size = sizeof(sp_stage_type),                           \
                                          .flags = SP_STAGE_SHARDS | SP_STAGE_CAPTURABLE | (more), \
                                          .name = #id,                                             \
                                          .device = SHARD_DEVICE,                                  \
                                          .doc = words,                                            \
                                          .create = made##_create,                                 \
                                          .destroy = made##_destroy,                               \
                                          .plan = planned,                                         \
                                          .forward = call,                                         \
                                          __VA_ARGS__}
#define SHARD_STAGES(file, words)                                                                                 \
  SHARD_STAGE(shard_sum, SHARD_SUM_DOC, 0, shard, plan_sum, add_shards, .inputs = shard_inputs,                   \
              .params = shard_param_table, .params_size = sizeof(shard_params));                                  \
  SHARD_STAGE(shard_count, SHARD_COUNT_DOC, SP_STAGE_REENTRANT, count, count_plan, count, .inputs = count_inputs, \
              .outputs = count_outputs, .params = count_param_table, .params_size = sizeof(count_params));        \
  SHARD_STAGE(shard_tree, SHARD_TREE_DOC, SP_STAGE_REENTRANT, tree, tree_plan, add_ranks, .inputs = tree_inputs,  \
              .outputs = tree_outputs);                                                                           \
  SHARD_STAGE(shard_scale, SHARD_SCALE_DOC, SP_STAGE_REENTRANT, tree, scale_plan, scale, .inputs = scale_inputs,  \
              .outputs = scale_outputs);                                                                          \
  SHARD_STAGE(shard_wire, SHARD_WIRE_DOC, SP_STAGE_REENTRANT, tree, tree_plan, convert, .inputs = wire_inputs,    \
              .outputs = wire_outputs);                                                                           \
  static const sp_stage_type *const stages[] = {&shard_sum_type,   &shard_count_type, &shard_tree_type,           \
                                                &shard_scale_type, &shard_wire_type,  NULL};                      \
  SP_PLUGIN(file, words, stages)

#endif
