/* SPDX-License-Identifier: MIT
 * adamw_cpu.c - the stage `adamw` on the CPU. */
#include <math.h>
#include <stdbool.h>

#include "../../kits/optim/optim_cpu.h"
#include "../../kits/par.h"
#include "adamw.h"

typedef struct adamw_job adamw_job;
/* Of a group. */
typedef struct adamw_pace {
  float shrink, rate, root; /* 1 - lr * weight_decay, lr / (1 - b1^t), sqrt(1 - b2^t) */
} adamw_pace;
/* Gives whether a gradient is not finite. */
typedef unsigned (*adamw_fn)(const adamw_job *j, const adamw_pace *pace, const float *g, float *p, float *m, float *v,
                             int64_t n);

struct adamw_job {
  const adamw *a;
  const sp_io *io;
  adamw_fn update;
  optim_pass pass;
  adamw_pace pace[SP_MAX_GROUPS];
  float b1, b2, c1, c2; /* c: 1 - b */
  float eps, clip;
  bool clips;
};

static inline __attribute__((always_inline)) unsigned
update_body(const adamw_job *j, const adamw_pace *pace, const float *g, float *p, float *m, float *v, int64_t n) {
  float shrink = pace->shrink, rate = -pace->rate;
  float b1 = j->b1, b2 = j->b2, c1 = j->c1, c2 = j->c2, root = pace->root;
  unsigned bad = 0;
  float eps = j->eps, clip = j->clips ? j->clip : 1.0f;
  for (int64_t i = 0; i < n; i++) {
    float d = g[i] * clip;
    bad |= optim_bad(g[i]);
    float mi = fmaf(c1, d, b1 * m[i]);
    float vi = fmaf(c2 * d, d, b2 * v[i]);
    m[i] = mi;
    v[i] = vi;
    p[i] = fmaf(rate, mi / (__builtin_sqrtf(vi) / root + eps), p[i] * shrink);
  }
  return bad;
}

static unsigned update_base(const adamw_job *j, const adamw_pace *pace, const float *g, float *p, float *m, float *v,
                            int64_t n) {
  return update_body(j, pace, g, p, m, v, n);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static unsigned
update_avx2(const adamw_job *j, const adamw_pace *pace, const float *g, float *p, float *m, float *v, int64_t n) {
  return update_body(j, pace, g, p, m, v, n);
}
#endif

static adamw_fn choose(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return update_avx2;
#endif
  return update_base;
}

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  adamw *a = self;
  int rc = adamw_plan(ctx, a, pl, OPTIM_CHUNK);
  pl->scratch_bytes = rc ? 0 : optim_scratch(&a->o);
  return rc;
}

static int update_chunk(void *arg, int64_t chunk, int worker) {
  adamw_job *j = arg;
  const optim *o = &j->a->o;
  optim_span s = optim_find(o, chunk);
  if (!optim_is_here(j->io, s.tensor)) return SP_OK;
  const float *g = (const float *)j->io->in[OPTIM_IN_GRADIENTS].t[s.tensor].data + s.at;
  float *p = (float *)j->io->out[OPTIM_OUT_WEIGHTS].t[s.tensor].data + s.at;
  float *m = optim_moment(o, j->io, ADAMW_MOMENT_1, s.tensor) + s.at;
  float *v = optim_moment(o, j->io, ADAMW_MOMENT_2, s.tensor) + s.at;
  optim_tell(&j->pass, j->update(j, &j->pace[o->group_of[s.tensor]], g, p, m, v, s.n));
  optim_average(o, j->io, &s);
  (void)worker;
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const adamw *a = self;
  const adamw_params *p = a->p;
  double lr = io->step->live[0], b1 = p->betas.v[0], b2 = p->betas.v[1];
  adamw_job j = {.a = a,
                 .io = io,
                 .update = choose(),
                 .b1 = (float)b1,
                 .b2 = (float)b2,
                 .c1 = (float)(1 - b1),
                 .c2 = (float)(1 - b2),
                 .eps = (float)p->eps,
                 .clips = p->common.clip_norm > 0};
  int rc = optim_begin(ctx, &a->o, io, &j.pass);
  if (rc || j.pass.skip) return rc;
  j.clip = j.pass.clip;
  optim_count(&a->o, io);
  for (uint32_t k = 0; k < a->o.n_groups; k++) {
    double own = optim_lr(&a->o, k, lr), t = (double)optim_updates(&a->o, io, k);
    j.pace[k] = (adamw_pace){.shrink = (float)(1 - own * optim_decay(&a->o, k, p->weight_decay)),
                             .rate = (float)(own / (1 - pow(b1, t))),
                             .root = (float)sqrt(1 - pow(b2, t))};
  }
  rc = par_run(ctx, optim_chunks(&a->o), update_chunk, &j);
  optim_end(&a->o, io, &j.pass);
  return rc;
}

static int survey(sp_ctx *ctx, void *self, const sp_io *io) { return optim_survey(ctx, &((adamw *)self)->o, io); }

SP_STAGE_CPU(ADAMW_PAIR, .plan = plan, .forward = forward, .survey = survey);
