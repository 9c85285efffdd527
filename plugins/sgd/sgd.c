/* SPDX-License-Identifier: MIT
 * sgd.c - stochastic gradient descent with momentum, Nesterov momentum, weight decay and clipping, as torch.optim.SGD. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "../optim/optim.h"
#include "../par.h"

typedef struct sgd_params {
  double lr, momentum, dampening, weight_decay, clip_norm;
  int32_t nesterov, report_norm;
} sgd_params;

typedef struct sgd_job sgd_job;
typedef void (*sgd_fn)(const sgd_job *j, const float *g, float *p, float *buf, int64_t n);

typedef struct sgd {
  const sgd_params *p;
  optim o;
  sp_attr attr;
  sgd_fn update;
} sgd;

struct sgd_job {
  const sgd *s;
  const sp_io *io;
  float lr, decay, mu, keep, clip; /* keep: 1 - dampening, 1 in the first step */
  bool momentum, nesterov, clips;
};

/* Written with fmaf throughout, so that every processor gives the bits that PyTorch's kernels give. */
static inline __attribute__((always_inline)) void update_body(const sgd_job *j, const float *g, float *p, float *buf,
                                                              int64_t n) {
  float lr = -j->lr, decay = j->decay, mu = j->mu, keep = j->keep, clip = j->clip;
  if (!j->momentum && !j->clips && decay == 0) {
    for (int64_t i = 0; i < n; i++) p[i] = fmaf(lr, g[i], p[i]);
    return;
  }
  bool momentum = j->momentum, nesterov = j->nesterov, clips = j->clips;
  for (int64_t i = 0; i < n; i++) {
    float d = clips ? g[i] * clip : g[i];
    if (decay != 0) d = fmaf(decay, p[i], d);
    if (momentum) {
      float b = fmaf(keep, d, mu * buf[i]);
      buf[i] = b;
      d = nesterov ? fmaf(mu, b, d) : b;
    }
    p[i] = fmaf(lr, d, p[i]);
  }
}

static void update_base(const sgd_job *j, const float *g, float *p, float *buf, int64_t n) {
  update_body(j, g, p, buf, n);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void update_avx2(const sgd_job *j, const float *g, float *p, float *buf,
                                                            int64_t n) {
  update_body(j, g, p, buf, n);
}
#endif

static int sgd_create(sp_ctx *ctx, const void *params, void **self) {
  const sgd_params *p = params;
  if (p->nesterov && (p->momentum == 0 || p->dampening != 0))
    return ctx->host->fail(ctx, SP_E_INVALID, "nesterov needs a momentum above 0 and no dampening");
  sgd *s = calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the instance");
  s->p = p;
  s->update = update_base;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) s->update = update_avx2;
#endif
  *self = s;
  return SP_OK;
}

static void sgd_destroy(void *self) {
  sgd *s = self;
  optim_free(&s->o);
  free(s);
}

static int sgd_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  static const char *const kinds[] = {"momentum"};
  sgd *s = self;
  const sgd_params *p = s->p;
  bool norm = p->clip_norm > 0 || p->report_norm;
  int rc = optim_plan(ctx, &s->o, plan, kinds, p->momentum != 0, norm);
  if (rc) return rc;
  bool plain = p->momentum == 0 && p->weight_decay == 0 && !norm;
  s->attr = (sp_attr){.name = "inplace", .value = plain};
  plan->attrs = &s->attr;
  plan->n_attrs = 1;
  return SP_OK;
}

static int sgd_chunk(void *arg, int64_t chunk, int worker) {
  const sgd_job *j = arg;
  optim_span s = optim_find(&j->s->o, chunk);
  const float *g = (const float *)j->io->in[OPTIM_IN_GRADIENTS].t[s.tensor].data + s.at;
  float *p = (float *)j->io->out[OPTIM_OUT_WEIGHTS].t[s.tensor].data + s.at;
  j->s->update(j, g, p, j->momentum ? optim_moment(&j->s->o, j->io, 0, s.tensor) + s.at : NULL, s.n);
  (void)worker;
  return SP_OK;
}

static int sgd_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  sgd *s = self;
  const sgd_params *p = s->p;
  sgd_job j = {.s = s,
               .io = io,
               .lr = io->step->live[0],
               .decay = (float)p->weight_decay,
               .mu = (float)p->momentum,
               .momentum = p->momentum != 0,
               .nesterov = p->nesterov,
               .clips = p->clip_norm > 0};
  int rc = optim_clip(ctx, &s->o, io, p->clip_norm, &j.clip);
  if (rc) return rc;
  j.keep = j.momentum && optim_count_step(&s->o, io) > 1 ? (float)(1 - p->dampening) : 1.0f;
  return par_run(ctx, optim_chunks(&s->o), sgd_chunk, &j);
}

static const sp_param sgd_param_table[] = {
    {.name = "lr",
     .type = SP_PARAM_FLOAT,
     .flags = SP_PARAM_LIVE,
     .offset = offsetof(sgd_params, lr),
     .def = 1e-3,
     .min = 0,
     .max = 1e6,
     .doc = "learning rate"},
    {.name = "momentum",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(sgd_params, momentum),
     .min = 0,
     .max = 1,
     .doc = "share of the former update that is kept"},
    {.name = "dampening",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(sgd_params, dampening),
     .min = 0,
     .max = 1,
     .doc = "share of the gradient that momentum leaves out"},
    {.name = "nesterov", .type = SP_PARAM_BOOL, .offset = offsetof(sgd_params, nesterov), .doc = "Nesterov momentum"},
    {.name = "weight_decay",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(sgd_params, weight_decay),
     .min = 0,
     .max = 1e6,
     .doc = "times the weight is added to its gradient"},
    {.name = "clip_norm",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(sgd_params, clip_norm),
     .min = 0,
     .max = 1e30,
     .doc = "gradients are scaled down to this L2 norm over all of them; 0: never"},
    {.name = "report_norm",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(sgd_params, report_norm),
     .doc = "compute grad_norm without clipping too"},
    {.name = NULL}};
static const sp_stage_type sgd_type = {.size = sizeof(sp_stage_type),
                                       .flags = SP_STAGE_OPTIMIZER | SP_STAGE_INPLACE_SGD,
                                       .name = "sgd",
                                       .device = "cpu",
                                       .doc = "Stochastic gradient descent",
                                       .inputs = optim_inputs,
                                       .outputs = optim_outputs,
                                       .params = sgd_param_table,
                                       .params_size = sizeof(sgd_params),
                                       .create = sgd_create,
                                       .destroy = sgd_destroy,
                                       .plan = sgd_plan,
                                       .forward = sgd_forward};
static const sp_stage_type *const stages[] = {&sgd_type, NULL};

SP_EXPORT const sp_plugin spcore_plugin = {.size = sizeof(sp_plugin),
                                           .abi = SP_ABI,
                                           .name = "sgd",
                                           .version = "0.1",
                                           .license = "MIT",
                                           .doc = "Stochastic gradient descent",
                                           .stages = stages};
