/* SPDX-License-Identifier: MIT
 * mistakes.c - a stage y = w * x + b that can be told to make one mistake, to test the harness, and `spcore check` with
 * those that end the program. */
#include <stdlib.h>
#include <string.h>

#include <spcore/plugin.h>

enum { GOOD, DIN, DW, ACC, STEP, OVERRUN, SCRATCH, INPUT, WEIGHT, UNWRITTEN, STALE, FAR_BEHIND, FAR_BEFORE };
static const char *const names[] = {
    "none",  "input_gradient", "weight_gradient", "accumulation",  "update",     "overrun",    "scratch",
    "input", "weight",         "unwritten",       "stale_scratch", "far_behind", "far_before", NULL};

typedef struct params {
  int32_t mistake;
} params;

typedef struct mistaker {
  const params *p;
  sp_weight w[2];
} mistaker;

static int64_t count(const sp_tensor *t) {
  int64_t n = 1;
  for (int d = 0; d < t->spec.ndim; d++) n *= t->spec.shape[d];
  return n;
}

static int create(sp_ctx *ctx, const void *p, void **self) {
  mistaker *s = calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory");
  s->p = p;
  s->w[0] = (sp_weight){.name = "weight",
                        .spec = {.dtype = SP_F32},
                        .flags = SP_WEIGHT_TRAINED,
                        .init = SP_INIT_UNIFORM,
                        .init_value = 1};
  s->w[1] = (sp_weight){
      .name = "bias", .spec = {.dtype = SP_F32}, .flags = SP_WEIGHT_TRAINED, .init = SP_INIT_UNIFORM, .init_value = 1};
  *self = s;
  return SP_OK;
}

static void destroy(void *self) { free(self); }

static int plan(sp_ctx *ctx, void *self, sp_plan *p) {
  mistaker *s = self;
  (void)ctx;
  p->out[0].n = 1;
  p->out[0].spec[0] = p->in[0].spec[0];
  p->weights = s->w;
  p->n_weights = 2;
  p->scratch_bytes = 4;
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  int mistake = ((mistaker *)self)->p->mistake;
  float *x = io->in[0].t[0].data, *y = io->out[0].t[0].data, *w = io->weights[0].data, *b = io->weights[1].data;
  int64_t n = count(&io->in[0].t[0]);
  (void)ctx;
  for (int64_t i = 0; i < n - (mistake == UNWRITTEN); i++) y[i] = *w * x[i] + *b;
  if (mistake == OVERRUN) y[n] = 1;
  for (int64_t i = n; mistake == FAR_BEHIND && i < n + 2000; i++) y[i] = 1;
  for (int64_t i = -2000; mistake == FAR_BEFORE && i < 0; i++) y[i] = 1;
  if (mistake == SCRATCH) ((float *)io->scratch)[1] = 1;
  if (mistake == INPUT) x[0] += 1;
  if (mistake == WEIGHT) *w += 1;
  if (mistake == STALE) *(float *)io->scratch = *w;
  return SP_OK;
}

static int backward(sp_ctx *ctx, void *self, const sp_io *io) {
  int mistake = ((mistaker *)self)->p->mistake;
  const float *x = io->in[0].t[0].data, *dy = io->dout[0].t[0].data;
  float *dx = io->din[0].t[0].data, *w = io->weights[0].data, *b = io->weights[1].data, dw = 0, db = 0;
  int64_t n = count(&io->in[0].t[0]);
  float factor = mistake == STALE ? *(float *)io->scratch : *w;
  (void)ctx;
  for (int64_t i = 0; i < n; i++) {
    float d = factor * dy[i] * (mistake == DIN && i == 2 ? 1.05f : 1.0f);
    dx[i] = io->din_acc[0][0] && mistake != ACC ? dx[i] + d : d;
    dw += x[i] * dy[i] * (mistake == DW ? 1.05f : 1.0f);
    db += dy[i];
  }
  if (io->dw_scale) {
    *w += *io->dw_scale * dw * (mistake == STEP ? 2 : 1);
    *b += *io->dw_scale * db;
    return SP_OK;
  }
  float *gw = io->dweights[0].data, *gb = io->dweights[1].data;
  *gw = io->dw_acc ? *gw + dw : dw;
  *gb = io->dw_acc ? *gb + db : db;
  return SP_OK;
}

static const sp_port inputs[] = {{.name = "x", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "any"}, {.name = NULL}};
static const sp_port outputs[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "w * x + b"},
                                  {.name = NULL}};
static const sp_param table[] = {{.name = "mistake",
                                  .type = SP_PARAM_CHOICE,
                                  .offset = offsetof(params, mistake),
                                  .choices = names,
                                  .doc = "which mistake to make"},
                                 {.name = NULL}};
static const sp_stage_type type = {.size = sizeof type,
                                   .flags = SP_STAGE_INPLACE_SGD,
                                   .name = "mistakes",
                                   .device = "cpu",
                                   .doc = "Makes mistakes",
                                   .inputs = inputs,
                                   .outputs = outputs,
                                   .params = table,
                                   .params_size = sizeof(params),
                                   .create = create,
                                   .destroy = destroy,
                                   .plan = plan,
                                   .forward = forward,
                                   .backward = backward};
static const sp_stage_type *const stages[] = {&type, NULL};

SP_PLUGIN("mistakes", "Mistakes, for tests", stages);
