/* SPDX-License-Identifier: MIT
 * optim_cpu.h - what optimizers share on the CPU: the gradient norm, clipping, and gradients that are not finite. */
#ifndef SP_PLUGINS_OPTIM_CPU_H
#define SP_PLUGINS_OPTIM_CPU_H

#include <stdatomic.h>
#include <string.h>

#include "optim.h"

#define OPTIM_CHUNK 16384 /* elements of one work item; sums are made per chunk and added in chunk order */

/* Which tensor, of which group, which chunk of all, and how many elements of the tensor lie before it. */
typedef struct optim_at {
  uint32_t tensor, group;
  int64_t chunk, before;
} optim_at;

/* Changes n elements p of a tensor by their gradient g, of which it gives whether one is not finite, or what is kept of
 * them. m: the same elements of each moment. */
#define OPTIM_FN_ARGS \
  const void *rule, const optim_at *at, const float *restrict g, float *restrict p, float *const *m, int64_t n
typedef unsigned (*optim_fn)(OPTIM_FN_ARGS);

/* NAME_best() gives NAME_body(OPTIM_FN_ARGS), which is to be inlined, as it is compiled for this processor. */
#define OPTIM_INLINE static inline __attribute__((always_inline)) unsigned
#if defined(__x86_64__)
#define OPTIM_BEST(name)                                                                                \
  static unsigned name##_base(OPTIM_FN_ARGS) { return name##_body(rule, at, g, p, m, n); }              \
  __attribute__((target("avx2,fma"))) static unsigned name##_avx2(OPTIM_FN_ARGS) {                      \
    return name##_body(rule, at, g, p, m, n);                                                           \
  }                                                                                                     \
  static optim_fn name##_best(void) {                                                                   \
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? name##_avx2 : name##_base; \
  }
#else
#define OPTIM_BEST(name)                                                                   \
  static unsigned name##_base(OPTIM_FN_ARGS) { return name##_body(rule, at, g, p, m, n); } \
  static optim_fn name##_best(void) { return name##_base; }
#endif

typedef struct optim_span {
  uint32_t tensor;
  int64_t at, n; /* elements */
} optim_span;

/* One update. */
typedef struct optim_pass {
  float clip;     /* factor that clips gradients to clip_norm, as torch.nn.utils.clip_grad_norm_; 1 where none does */
  int skip;       /* leave weights and state as they are */
  atomic_int bad; /* a gradient is not finite: told by the status output */
} optim_pass;

size_t optim_scratch(const optim *o);
optim_span optim_find(const optim *o, int64_t chunk);

/* What survey() writes: the sum of squares of each chunk. */
int optim_survey(sp_ctx *ctx, const optim *o, const sp_io *io);

/* Before the update: norm, clipping, and whether to skip. */
int optim_begin(sp_ctx *ctx, const optim *o, const sp_io *io, optim_pass *pass);

/* The first call of an update counts it. */
static inline void optim_count(const optim *o, const sp_io *io) {
  int64_t *step = optim_step(o, io), *later = optim_later(o, io);
  if (!step || io->part) return;
  ++*step;
  for (uint32_t k = 0; k < o->later; k++) later[k] += o->begun >> k & 1;
}

/* The number of this update, from 1, of those of a group's weights; 0 where nobody counts. */
static inline int64_t optim_updates(const optim *o, const sp_io *io, uint32_t group) {
  uint32_t phase = o->group[group].phase;
  if (!o->lists) return 0;
  return phase ? optim_later(o, io)[phase - 1] : *optim_step(o, io);
}

/* fn over all tensors that are updated in this call, once the step is counted. optim_update() is the last one of an
 * update: it moves averages, where such are kept, and tells the status. */
int optim_visit(sp_ctx *ctx, const optim *o, const sp_io *io, optim_pass *pass, optim_fn fn, const void *rule);
int optim_visit_one(sp_ctx *ctx, const optim *o, const sp_io *io, optim_pass *pass, optim_fn fn, const void *rule,
                    uint32_t tensor);
int optim_update(sp_ctx *ctx, const optim *o, const sp_io *io, optim_pass *pass, optim_fn fn, const void *rule);

/* 1 for NaN and infinities. On bits, which vectorises where a comparison of floats does not. */
static inline unsigned optim_bad(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return (bits & 0x7fffffffu) >= 0x7f800000u;
}

#endif
