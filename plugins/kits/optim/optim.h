/* SPDX-License-Identifier: MIT
 * optim.h - what optimizers share on every device: a list of tensors as one row of chunks, moments as STATE weights,
 * the parameters that concern all gradients, and what becomes of gradients that are not finite.
 *
 * Weights, gradients and moments of one list element lie in the same memory order, so all are taken as flat. */
#ifndef SP_PLUGINS_OPTIM_H
#define SP_PLUGINS_OPTIM_H

#include <spcore/plugin.h>

#define OPTIM_STATUS_DOC                                                                        \
  "the gradients are not finite (%value in a row, limit %limit): try a lower lr or clip_norm, " \
  "or nonfinite = \"skip\", which leaves such updates out"

enum { OPTIM_IN_GRADIENTS, OPTIM_IN_STATISTICS };
enum { OPTIM_OUT_WEIGHTS, OPTIM_OUT_NORM, OPTIM_OUT_SKIPPED, OPTIM_OUT_STATUS };
extern const sp_port optim_inputs[], optim_outputs[];

enum { OPTIM_STOP, OPTIM_SKIP }; /* optim_params.nonfinite */
extern const char *const optim_nonfinite_choices[];

typedef struct optim_params {
  double clip_norm, ema;
  int64_t max_nonfinite;
  int32_t report_norm, nonfinite;
} optim_params;

/* Rows of a parameter table for members lr, betas, eps and weight_decay of a stage's struct. */
#define OPTIM_LR_ROW(owner, value)                                                                             \
  {                                                                                                            \
    .name = "lr", .type = SP_PARAM_FLOAT, .flags = SP_PARAM_LIVE, .offset = offsetof(owner, lr), .def = value, \
    .min = 0, .max = 1e6, .doc = "learning rate"                                                               \
  }
#define OPTIM_BETAS_ROW(owner, values, words)                                                                          \
  {                                                                                                                    \
    .name = "betas", .type = SP_PARAM_FLOATS, .offset = offsetof(owner, betas), .def_str = values, .min = 0, .max = 1, \
    .min_n = 2, .max_n = 2, .doc = words                                                                               \
  }
#define OPTIM_EPS_ROW(owner, value)                                                                          \
  {                                                                                                          \
    .name = "eps", .type = SP_PARAM_FLOAT, .offset = offsetof(owner, eps), .def = value, .min = 0, .max = 1, \
    .doc = "added to the root of the mean squared gradient"                                                  \
  }
#define OPTIM_DECAY_ROW(owner, value)                                                                                \
  {                                                                                                                  \
    .name = "weight_decay", .type = SP_PARAM_FLOAT, .offset = offsetof(owner, weight_decay), .def = value, .min = 0, \
    .max = 1e6, .doc = "weights shrink by this times the learning rate"                                              \
  }

/* The rows of a parameter table for the member `common`, an optim_params, of a stage's struct. */
#define OPTIM_PARAM_ROWS(owner)                                                                                       \
  {.name = "clip_norm",                                                                                               \
   .type = SP_PARAM_FLOAT,                                                                                            \
   .offset = offsetof(owner, common.clip_norm),                                                                       \
   .min = 0,                                                                                                          \
   .max = 1e30,                                                                                                       \
   .doc = "gradients are scaled down to this L2 norm over all of them; 0: never"},                                    \
      {.name = "report_norm",                                                                                         \
       .type = SP_PARAM_BOOL,                                                                                         \
       .offset = offsetof(owner, common.report_norm),                                                                 \
       .doc = "compute grad_norm without clipping too"},                                                              \
      {.name = "ema",                                                                                                 \
       .type = SP_PARAM_FLOAT,                                                                                        \
       .offset = offsetof(owner, common.ema),                                                                         \
       .min = 0,                                                                                                      \
       .max = 1,                                                                                                      \
       .doc =                                                                                                         \
           "decay of moving averages of the weights, below 1: after each update average = ema * average + (1 - ema) " \
           "* weight, the first copies; evaluations and saved runs have them; 0: none"},                              \
      {.name = "nonfinite",                                                                                           \
       .type = SP_PARAM_CHOICE,                                                                                       \
       .offset = offsetof(owner, common.nonfinite),                                                                   \
       .choices = optim_nonfinite_choices,                                                                            \
       .doc = "when a gradient is NaN or infinite: stop the run, or skip the update and leave weights and state"},    \
  {                                                                                                                   \
    .name = "max_nonfinite", .type = SP_PARAM_INT, .offset = offsetof(owner, common.max_nonfinite), .idef = 10,       \
    .imin = 1, .imax = 1000000000,                                                                                    \
    .doc = "so many updates skipped in a row stop the run; only with nonfinite = \"skip\""                            \
  }

#define OPTIM_MOMENTS 3 /* most kinds of a stage */
#define OPTIM_NOWHERE UINT32_MAX

typedef struct optim {
  const optim_params *p;
  int64_t chunk;   /* elements of one work item */
  uint32_t n;      /* tensors */
  int64_t *count;  /* [n] elements */
  int64_t *first;  /* [n + 1] chunk that each begins with */
  sp_group *group; /* [n_groups] those of the plan; one with factors of 1 where it has none */
  uint32_t n_groups;
  uint8_t *group_of; /* [n] the group of each tensor */
  uint8_t *apart;    /* [n] 1: optim_update() and tables of updates leave it to the stage; 0 at first */
  uint32_t later;    /* phases of the training behind the first */
  uint32_t begun;    /* of those the ones that a group has: bit 0 is the first of them */
  sp_weight
      *state; /* `lists` of n tensors each, and the step count; the updates skipped in a row and kept statistics */
  uint32_t n_state, kinds, n_kept;
  uint32_t *place; /* [kinds * n] which of `state` a moment is; OPTIM_NOWHERE: it is not kept */
  uint32_t n_moments;
  uint32_t lists; /* `kinds` of moments, and the averages where there are any */
  char *names;
} optim;

/* Fills o and plan from the gradients' specs: outputs, and STATE weights "KIND.I" for each of `kinds` names and "ema.I"
 * for averages (where there are any of these: also "step", an int64 scalar, and of a training with several phases
 * "phase_steps", the updates since each of the later ones began; where updates may be skipped: "skipped",
 * and "statistics.I" with what the statistics were after the last update), all starting at 0. May be called again. */
int optim_plan(sp_ctx *ctx, optim *o, sp_plan *plan, const optim_params *p, const char *const *kind_names,
               uint32_t kinds, int64_t chunk);
/* The same where a tensor has the first kinds_of() of them alone; NULL: all. */
int optim_plan_of(sp_ctx *ctx, optim *o, sp_plan *plan, const optim_params *p, const char *const *kind_names,
                  uint32_t kinds, int64_t chunk, uint32_t (*kinds_of)(const void *arg, uint32_t tensor),
                  const void *arg);
void optim_free(optim *o);

/* Are they below 1? For create(). */
int optim_check_betas(sp_ctx *ctx, const sp_floats *betas);

/* Is the norm of the gradients wanted? */
static inline int optim_norm(const optim_params *p) { return p->clip_norm > 0 || p->report_norm; }
static inline int64_t optim_chunks(const optim *o) { return o->n ? o->first[o->n] : 0; }

/* Where counts begin in `state`: behind moments and averages. */
static inline uint32_t optim_counts(const optim *o) { return o->n_moments + (o->lists - o->kinds) * o->n; }

/* Moment `kind` of a tensor, its average, the step count, and the updates skipped in a row, as they lie in io->weights;
 * NULL: there is none. */
static inline float *optim_moment(const optim *o, const sp_io *io, uint32_t kind, uint32_t tensor) {
  uint32_t at = kind < o->kinds ? o->place[kind * o->n + tensor] : OPTIM_NOWHERE;
  return at != OPTIM_NOWHERE ? (float *)io->weights[at].data : NULL;
}
/* Only where optim_averages(). */
static inline float *optim_ema(const optim *o, const sp_io *io, uint32_t tensor) {
  return (float *)io->weights[o->n_moments + tensor].data;
}
static inline int64_t *optim_step(const optim *o, const sp_io *io) {
  return o->lists ? (int64_t *)io->weights[optim_counts(o)].data : NULL;
}
/* [later]; NULL: there is none. */
static inline int64_t *optim_later(const optim *o, const sp_io *io) {
  return o->lists && o->later ? (int64_t *)io->weights[optim_counts(o) + 1].data : NULL;
}
static inline int64_t *optim_in_a_row(const optim *o, const sp_io *io) {
  return o->p->nonfinite == OPTIM_SKIP ? (int64_t *)io->weights[o->n_state - o->n_kept - 1].data : NULL;
}
/* Statistic i as it was after the last update. */
static inline void *optim_kept(const optim *o, const sp_io *io, uint32_t i) {
  return io->weights[o->n_state - o->n_kept + i].data;
}
static inline int optim_averages(const optim *o) { return o->lists > o->kinds; }
/* How many statistics of a call are to be kept or put back. */
static inline uint32_t optim_statistics(const optim *o, const sp_io *io) {
  return o->n_kept ? io->in[OPTIM_IN_STATISTICS].n : 0;
}
/* What plan() says in `restores`, which asks the host for them. */
static inline int optim_restores(const optim *o) { return o->n_kept > 0; }
/* The rate and the decay of a group, from those of the optimizer. On the device opk_begin() works out the same. */
static inline double optim_lr(const optim *o, uint32_t group, double lr) { return lr * o->group[group].lr; }
static inline double optim_decay(const optim *o, uint32_t group, double decay) { return decay * o->group[group].decay; }
/* Do all weights have the optimizer's own learning rate? */
int optim_one_lr(const optim *o);
/* Is tensor i updated in this call? */
static inline int optim_is_here(const sp_io *io, uint32_t i) { return io->in[OPTIM_IN_GRADIENTS].t[i].data != NULL; }

#endif
