/* SPDX-License-Identifier: MIT
 * adamw.c - Adam with decoupled weight decay, as torch.optim.AdamW. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "../optim/optim.h"
#include "../par.h"

typedef struct adamw_params {
  double lr;
  sp_floats betas;
  double eps, weight_decay, clip_norm;
  int32_t report_norm;
} adamw_params;

enum { MOMENT_1, MOMENT_2, MOMENTS };

typedef struct adamw_job adamw_job;
typedef void (*adamw_fn)(const adamw_job *j, const float *g, float *p, float *m, float *v, int64_t n);

typedef struct adamw {
  const adamw_params *p;
  optim o;
  adamw_fn update;
} adamw;

struct adamw_job {
  const adamw *a;
  const sp_io *io;
  float shrink;         /* 1 - lr * weight_decay */
  float b1, b2, c1, c2; /* c: 1 - b */
  float rate, root;     /* lr / (1 - b1^t), sqrt(1 - b2^t) */
  float eps, clip;
  bool clips;
};

static inline __attribute__((always_inline)) void update_body(const adamw_job *j, const float *g, float *p, float *m,
                                                              float *v, int64_t n) {
  float shrink = j->shrink, b1 = j->b1, b2 = j->b2, c1 = j->c1, c2 = j->c2, rate = -j->rate, root = j->root;
  float eps = j->eps, clip = j->clips ? j->clip : 1.0f;
  for (int64_t i = 0; i < n; i++) {
    float d = g[i] * clip;
    float mi = fmaf(c1, d, b1 * m[i]);
    float vi = fmaf(c2 * d, d, b2 * v[i]);
    m[i] = mi;
    v[i] = vi;
    p[i] = fmaf(rate, mi / (__builtin_sqrtf(vi) / root + eps), p[i] * shrink);
  }
}

static void update_base(const adamw_job *j, const float *g, float *p, float *m, float *v, int64_t n) {
  update_body(j, g, p, m, v, n);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void update_avx2(const adamw_job *j, const float *g, float *p, float *m,
                                                            float *v, int64_t n) {
  update_body(j, g, p, m, v, n);
}
#endif

static int adamw_create(sp_ctx *ctx, const void *params, void **self) {
  const adamw_params *p = params;
  for (int i = 0; i < MOMENTS; i++)
    if (p->betas.v[i] >= 1)
      return ctx->host->fail(ctx, SP_E_RANGE, "betas[%d] is %g, but must be below 1", i + 1, p->betas.v[i]);
  adamw *a = calloc(1, sizeof *a);
  if (!a) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the instance");
  a->p = p;
  a->update = update_base;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) a->update = update_avx2;
#endif
  *self = a;
  return SP_OK;
}

static void adamw_destroy(void *self) {
  adamw *a = self;
  optim_free(&a->o);
  free(a);
}

static int adamw_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  static const char *const kinds[MOMENTS] = {"exp_avg", "exp_avg_sq"};
  adamw *a = self;
  return optim_plan(ctx, &a->o, plan, kinds, MOMENTS, a->p->clip_norm > 0 || a->p->report_norm);
}

static int adamw_chunk(void *arg, int64_t chunk, int worker) {
  const adamw_job *j = arg;
  const optim *o = &j->a->o;
  optim_span s = optim_find(o, chunk);
  const float *g = (const float *)j->io->in[OPTIM_IN_GRADIENTS].t[s.tensor].data + s.at;
  float *p = (float *)j->io->out[OPTIM_OUT_WEIGHTS].t[s.tensor].data + s.at;
  j->a->update(j, g, p, optim_moment(o, j->io, MOMENT_1, s.tensor) + s.at,
               optim_moment(o, j->io, MOMENT_2, s.tensor) + s.at, s.n);
  (void)worker;
  return SP_OK;
}

static int adamw_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  adamw *a = self;
  const adamw_params *p = a->p;
  double lr = io->step->live[0], b1 = p->betas.v[0], b2 = p->betas.v[1];
  adamw_job j = {.a = a,
                 .io = io,
                 .shrink = (float)(1 - lr * p->weight_decay),
                 .b1 = (float)b1,
                 .b2 = (float)b2,
                 .c1 = (float)(1 - b1),
                 .c2 = (float)(1 - b2),
                 .eps = (float)p->eps,
                 .clips = p->clip_norm > 0};
  int rc = optim_clip(ctx, &a->o, io, p->clip_norm, &j.clip);
  if (rc) return rc;
  double t = (double)optim_count_step(&a->o, io);
  j.rate = (float)(lr / (1 - pow(b1, t)));
  j.root = (float)sqrt(1 - pow(b2, t));
  return par_run(ctx, optim_chunks(&a->o), adamw_chunk, &j);
}

static const sp_param adamw_param_table[] = {
    {.name = "lr",
     .type = SP_PARAM_FLOAT,
     .flags = SP_PARAM_LIVE,
     .offset = offsetof(adamw_params, lr),
     .def = 1e-3,
     .min = 0,
     .max = 1e6,
     .doc = "learning rate"},
    {.name = "betas",
     .type = SP_PARAM_FLOATS,
     .offset = offsetof(adamw_params, betas),
     .def_str = "0.9,0.999",
     .min = 0,
     .max = 1,
     .min_n = MOMENTS,
     .max_n = MOMENTS,
     .doc = "decay of the running means of gradient and squared gradient"},
    {.name = "eps",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(adamw_params, eps),
     .def = 1e-8,
     .min = 0,
     .max = 1,
     .doc = "added to the root of the mean squared gradient"},
    {.name = "weight_decay",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(adamw_params, weight_decay),
     .def = 1e-2,
     .min = 0,
     .max = 1e6,
     .doc = "weights shrink by this times the learning rate"},
    {.name = "clip_norm",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(adamw_params, clip_norm),
     .min = 0,
     .max = 1e30,
     .doc = "gradients are scaled down to this L2 norm over all of them; 0: never"},
    {.name = "report_norm",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(adamw_params, report_norm),
     .doc = "compute grad_norm without clipping too"},
    {.name = NULL}};
static const sp_stage_type adamw_type = {.size = sizeof(sp_stage_type),
                                         .flags = SP_STAGE_OPTIMIZER,
                                         .name = "adamw",
                                         .device = "cpu",
                                         .doc = "Adam with decoupled weight decay",
                                         .inputs = optim_inputs,
                                         .outputs = optim_outputs,
                                         .params = adamw_param_table,
                                         .params_size = sizeof(adamw_params),
                                         .create = adamw_create,
                                         .destroy = adamw_destroy,
                                         .plan = adamw_plan,
                                         .forward = adamw_forward};
static const sp_stage_type *const stages[] = {&adamw_type, NULL};

SP_EXPORT const sp_plugin spcore_plugin = {.size = sizeof(sp_plugin),
                                           .abi = SP_ABI,
                                           .name = "adamw",
                                           .version = "0.1",
                                           .license = "MIT",
                                           .doc = "Adam with decoupled weight decay",
                                           .stages = stages};
