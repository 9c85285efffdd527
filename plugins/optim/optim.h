/* SPDX-License-Identifier: MIT
 * optim.h - what optimizers share: a list of tensors as one row of chunks, the gradient norm, moments as STATE weights.
 *
 * Weights, gradients and moments of one list element lie in the same memory order, so all are taken as flat. */
#ifndef SP_PLUGINS_OPTIM_H
#define SP_PLUGINS_OPTIM_H

#include <spcore/plugin.h>

#define OPTIM_CHUNK 16384 /* elements of one work item; sums are made per chunk and added in chunk order */

enum { OPTIM_IN_GRADIENTS };
enum { OPTIM_OUT_WEIGHTS, OPTIM_OUT_NORM };
extern const sp_port optim_inputs[], optim_outputs[];

typedef struct optim {
  uint32_t n;       /* tensors */
  int64_t *count;   /* [n] elements */
  int64_t *first;   /* [n + 1] chunk that each begins with */
  sp_weight *state; /* `kinds` groups of n moments, then the step count */
  uint32_t n_state, kinds;
  char *names;
} optim;

typedef struct optim_span {
  uint32_t tensor;
  int64_t at, n; /* elements */
} optim_span;

/* Fills o and plan from the gradients' specs: outputs, scratch, and STATE weights "KIND.I" for each of `kinds` names
 * (where there are any: also "step", an int64 scalar), all starting at 0. norm: the gradient norm is computed and put
 * out. May be called again. */
int optim_plan(sp_ctx *ctx, optim *o, sp_plan *plan, const char *const *kind_names, uint32_t kinds, int norm);
void optim_free(optim *o);

static inline int64_t optim_chunks(const optim *o) { return o->n ? o->first[o->n] : 0; }
optim_span optim_find(const optim *o, int64_t chunk);
/* Moment `kind` of a tensor, as it lies in io->weights. */
static inline float *optim_moment(const optim *o, const sp_io *io, uint32_t kind, uint32_t tensor) {
  return (float *)io->weights[kind * o->n + tensor].data;
}
/* The step count, after adding 1 to it. */
int64_t optim_count_step(const optim *o, const sp_io *io);

/* The factor that clips gradients to a global L2 norm of clip_norm (0: 1), as torch.nn.utils.clip_grad_norm_. Where plan
 * was told `norm`, it is computed and written to the output. */
int optim_clip(sp_ctx *ctx, const optim *o, const sp_io *io, double clip_norm, float *factor);

#endif
