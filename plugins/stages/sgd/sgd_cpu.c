/* SPDX-License-Identifier: MIT
 * sgd_cpu.c - the stage `sgd` on the CPU. */
#include <math.h>
#include <stdbool.h>

#include "../../kits/optim/optim_cpu.h"
#include "../../kits/par.h"
#include "sgd.h"

typedef struct sgd_job sgd_job;
/* Of a group. */
typedef struct sgd_pace {
  float lr, decay, keep; /* keep: 1 - dampening, 1 in the first step */
} sgd_pace;
/* Gives whether a gradient is not finite. */
typedef unsigned (*sgd_fn)(const sgd_job *j, const sgd_pace *pace, const float *g, float *p, float *buf, int64_t n);

struct sgd_job {
  const sgd *s;
  const sp_io *io;
  sgd_fn update;
  optim_pass pass;
  sgd_pace pace[SP_MAX_GROUPS];
  float mu, clip;
  bool momentum, nesterov, clips;
};

/* Written with fmaf throughout, so that every processor gives the bits that PyTorch's kernels give. */
static inline __attribute__((always_inline)) unsigned update_body(const sgd_job *j, const sgd_pace *pace,
                                                                  const float *g, float *p, float *buf, int64_t n) {
  unsigned bad = 0;
  float lr = -pace->lr, decay = pace->decay, mu = j->mu, keep = pace->keep, clip = j->clip;
  if (!j->momentum && !j->clips && decay == 0) {
    for (int64_t i = 0; i < n; i++) {
      bad |= optim_bad(g[i]);
      p[i] = fmaf(lr, g[i], p[i]);
    }
    return bad;
  }
  bool momentum = j->momentum, nesterov = j->nesterov, clips = j->clips;
  for (int64_t i = 0; i < n; i++) {
    float d = clips ? g[i] * clip : g[i];
    bad |= optim_bad(g[i]);
    if (decay != 0) d = fmaf(decay, p[i], d);
    if (momentum) {
      float b = fmaf(keep, d, mu * buf[i]);
      buf[i] = b;
      d = nesterov ? fmaf(mu, b, d) : b;
    }
    p[i] = fmaf(lr, d, p[i]);
  }
  return bad;
}

static unsigned update_base(const sgd_job *j, const sgd_pace *pace, const float *g, float *p, float *buf, int64_t n) {
  return update_body(j, pace, g, p, buf, n);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static unsigned update_avx2(const sgd_job *j, const sgd_pace *pace, const float *g,
                                                                float *p, float *buf, int64_t n) {
  return update_body(j, pace, g, p, buf, n);
}
#endif

static sgd_fn choose(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return update_avx2;
#endif
  return update_base;
}

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  sgd *s = self;
  int rc = sgd_plan(ctx, s, pl, OPTIM_CHUNK);
  pl->scratch_bytes = rc ? 0 : optim_scratch(&s->o);
  return rc;
}

static int update_chunk(void *arg, int64_t chunk, int worker) {
  sgd_job *j = arg;
  optim_span s = optim_find(&j->s->o, chunk);
  if (!optim_is_here(j->io, s.tensor)) return SP_OK;
  const float *g = (const float *)j->io->in[OPTIM_IN_GRADIENTS].t[s.tensor].data + s.at;
  float *p = (float *)j->io->out[OPTIM_OUT_WEIGHTS].t[s.tensor].data + s.at;
  float *buf = j->momentum ? optim_moment(&j->s->o, j->io, 0, s.tensor) + s.at : NULL;
  optim_tell(&j->pass, j->update(j, &j->pace[j->s->o.group_of[s.tensor]], g, p, buf, s.n));
  optim_average(&j->s->o, j->io, &s);
  (void)worker;
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sgd *s = self;
  const sgd_params *p = s->p;
  sgd_job j = {.s = s,
               .io = io,
               .update = choose(),
               .mu = (float)p->momentum,
               .momentum = p->momentum != 0,
               .nesterov = p->nesterov,
               .clips = p->common.clip_norm > 0};
  int rc = optim_begin(ctx, &s->o, io, &j.pass);
  if (rc || j.pass.skip) return rc;
  j.clip = j.pass.clip;
  optim_count(&s->o, io);
  for (uint32_t k = 0; k < s->o.n_groups; k++)
    j.pace[k] = (sgd_pace){.lr = (float)optim_lr(&s->o, k, io->step->live[0]),
                           .decay = (float)optim_decay(&s->o, k, p->weight_decay),
                           .keep = optim_updates(&s->o, io, k) > 1 ? (float)(1 - p->dampening) : 1};
  rc = par_run(ctx, optim_chunks(&s->o), update_chunk, &j);
  optim_end(&s->o, io, &j.pass);
  return rc;
}

static int survey(sp_ctx *ctx, void *self, const sp_io *io) { return optim_survey(ctx, &((sgd *)self)->o, io); }

SP_STAGE_CPU(SGD_PAIR, .plan = plan, .forward = forward, .survey = survey);
