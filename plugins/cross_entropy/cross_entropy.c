/* SPDX-License-Identifier: MIT
 * cross_entropy.c - the loss stage: mean cross-entropy over the labels that count, and its gradient in the same pass. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../par.h"
#include "ce_kernel.h"

typedef struct ce_params {
  int64_t ignore_index;
  sp_floats class_weights;
  double weight;
} ce_params;

typedef struct ce {
  const ce_params *p;
  float *class_weights;
  ce_fn kernel;
} ce;

/* What the first pass over the labels learns of one chunk. */
typedef struct label_sum {
  int64_t counted, bad; /* bad: position of the first label out of range, or -1 */
  double weight;
} label_sum;

typedef struct pass {
  ce_job job;
  ce_fn kernel;
  label_sum *labels;
} pass;

enum { IN_LOGITS, IN_LABELS };
enum { OUT_LOSS, OUT_STATUS, OUT_VALID };

static int64_t chunks_of(const logit_shape *s) { return (s->n * s->px + CE_CHUNK - 1) / CE_CHUNK; }

static int ce_create(sp_ctx *ctx, const void *params, void **self) {
  const ce_params *p = params;
  ce *c = calloc(1, sizeof *c);
  if (!c) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the instance");
  c->p = p;
  c->kernel = ce_choose();
  if (p->class_weights.n) {
    c->class_weights = malloc(p->class_weights.n * sizeof(float));
    if (!c->class_weights) {
      free(c);
      return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %u class weights", p->class_weights.n);
    }
    for (uint32_t i = 0; i < p->class_weights.n; i++) c->class_weights[i] = (float)p->class_weights.v[i];
  }
  *self = c;
  return SP_OK;
}

static void ce_destroy(void *self) {
  ce *c = self;
  free(c->class_weights);
  free(c);
}

static int ce_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  ce *c = self;
  const sp_spec *x = &plan->in[IN_LOGITS].spec[0], *y = &plan->in[IN_LABELS].spec[0];
  logit_shape s;
  int rc = labels_check(ctx, x, y);
  if (rc) return rc;
  if (c->p->class_weights.n && c->p->class_weights.n != x->shape[1])
    return ctx->host->fail(ctx, SP_E_SHAPE, "class_weights has %u numbers, but there are %lld classes",
                           c->p->class_weights.n, (long long)x->shape[1]);
  logit_shape_of(&s, x);
  plan->scratch_bytes = (size_t)chunks_of(&s) * (sizeof(label_sum) + sizeof(double));
  for (int i = OUT_LOSS; i <= OUT_VALID; i++) plan->out[i].n = 1;
  plan->out[OUT_LOSS].spec[0] = (sp_spec){.dtype = SP_F32};
  plan->out[OUT_STATUS].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {4}};
  plan->out[OUT_VALID].spec[0] = (sp_spec){.dtype = SP_I64};
  return SP_OK;
}

static int count_labels(void *arg, int64_t chunk, int worker) {
  const pass *a = arg;
  const ce_job *j = &a->job;
  int64_t p = chunk * CE_CHUNK, all = j->shape.n * j->shape.px, end = p + CE_CHUNK < all ? p + CE_CHUNK : all;
  label_sum s = {0, -1, 0};
  for (; p < end; p++) {
    int64_t y = label_at(j->labels, j->label_dtype, p);
    if (y == j->ignore) continue;
    if (y < 0 || y >= j->shape.classes) {
      if (s.bad < 0) s.bad = p;
      continue;
    }
    float w = j->class_weights ? j->class_weights[y] : 1.0f;
    s.counted += w != 0;
    s.weight += w;
  }
  a->labels[chunk] = s;
  (void)worker;
  return SP_OK;
}

static int run_kernel(void *arg, int64_t chunk, int worker) {
  const pass *a = arg;
  a->kernel(&a->job, chunk);
  (void)worker;
  return SP_OK;
}

static void report_bad(const sp_io *io, const ce_job *j, int64_t at) {
  int64_t *status = io->out[OUT_STATUS].t[0].data, sample = at / j->shape.px;
  status[0] = SP_E_DATA;
  status[1] = io->ids ? (int64_t)io->ids[sample] : sample;
  status[2] = label_at(j->labels, j->label_dtype, at);
  status[3] = j->shape.classes - 1;
}

static int ce_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  ce *c = self;
  const sp_tensor *x = &io->in[IN_LOGITS].t[0], *y = &io->in[IN_LABELS].t[0];
  pass a = {.kernel = c->kernel, .labels = io->scratch};
  ce_job *j = &a.job;
  logit_shape_of(&j->shape, &x->spec);
  int64_t chunks = chunks_of(&j->shape), counted = 0, bad = -1;
  j->x = x->data;
  j->labels = y->data;
  j->label_dtype = y->spec.dtype;
  j->ignore = c->p->ignore_index;
  j->class_weights = c->class_weights;
  j->loss = (double *)(a.labels + chunks);
  if (io->din && io->din[IN_LOGITS].n) j->g = io->din[IN_LOGITS].t[0].data;
  j->acc = j->g && io->din_acc && io->din_acc[IN_LOGITS] && io->din_acc[IN_LOGITS][0];

  int rc = par_run(ctx, chunks, count_labels, &a);
  if (rc) return rc;
  double weight = 0, loss = 0;
  for (int64_t i = 0; i < chunks; i++) {
    counted += a.labels[i].counted;
    weight += a.labels[i].weight;
    if (bad < 0) bad = a.labels[i].bad;
  }
  if (counted) j->scale = (float)(c->p->weight / weight * (double)io->step->loss_scale);
  if ((rc = par_run(ctx, chunks, run_kernel, &a))) return rc;
  for (int64_t i = 0; i < chunks; i++) loss += j->loss[i];

  memset(io->out[OUT_STATUS].t[0].data, 0, 4 * sizeof(int64_t));
  if (bad >= 0) report_bad(io, j, bad);
  *(float *)io->out[OUT_LOSS].t[0].data = counted ? (float)(c->p->weight * (loss / weight)) : 0.0f;
  *(int64_t *)io->out[OUT_VALID].t[0].data = counted;
  return SP_OK;
}

static const sp_port ce_inputs[] = {
    {.name = "logits", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "N x C x ..., row-major or channels-last"},
    {.name = "labels", .dtypes = LABEL_DTYPES, .ndim = -1, .flags = SP_PORT_NOGRAD, .doc = "N x ..., class numbers"},
    {.name = NULL}};
static const sp_port ce_outputs[] = {{.name = "loss",
                                      .dtypes = SP_DT(SP_F32),
                                      .ndim = 0,
                                      .flags = SP_PORT_METRIC,
                                      .doc = "mean over the labels that count; 0 where none does"},
                                     {.name = "status",
                                      .dtypes = SP_DT(SP_I64),
                                      .ndim = 1,
                                      .flags = SP_PORT_STATUS | SP_PORT_NOGRAD,
                                      .doc = "the first label out of range"},
                                     {.name = "valid",
                                      .dtypes = SP_DT(SP_I64),
                                      .ndim = 0,
                                      .flags = SP_PORT_METRIC | SP_PORT_NOGRAD,
                                      .doc = "how many labels counted; 0: the step has no gradient"},
                                     {.name = NULL}};
static const sp_param ce_param_table[] = {{.name = "ignore_index",
                                           .type = SP_PARAM_INT,
                                           .offset = offsetof(ce_params, ignore_index),
                                           .def = -100,
                                           .doc = "labels of this value do not count"},
                                          {.name = "class_weights",
                                           .type = SP_PARAM_FLOATS,
                                           .offset = offsetof(ce_params, class_weights),
                                           .min = 0,
                                           .max = 1e30,
                                           .max_n = 65536,
                                           .doc = "one per class; the mean is weighted by them; none: all 1"},
                                          {.name = "weight",
                                           .type = SP_PARAM_FLOAT,
                                           .offset = offsetof(ce_params, weight),
                                           .def = 1,
                                           .min = -1e30,
                                           .max = 1e30,
                                           .doc = "multiplies this loss and its gradient"},
                                          {.name = NULL}};
static const sp_stage_type ce_type = {.size = sizeof(sp_stage_type),
                                      .flags = SP_STAGE_LOSS,
                                      .name = "cross_entropy",
                                      .device = "cpu",
                                      .doc = "Mean cross-entropy of logits against class labels",
                                      .inputs = ce_inputs,
                                      .outputs = ce_outputs,
                                      .params = ce_param_table,
                                      .params_size = sizeof(ce_params),
                                      .status_doc = "sample %sample: label %value is outside 0..%limit",
                                      .create = ce_create,
                                      .destroy = ce_destroy,
                                      .plan = ce_plan,
                                      .forward = ce_forward};
static const sp_stage_type *const stages[] = {&ce_type, NULL};

SP_EXPORT const sp_plugin spcore_plugin = {.size = sizeof(sp_plugin),
                                           .abi = SP_ABI,
                                           .name = "cross_entropy",
                                           .version = "0.1",
                                           .license = "MIT",
                                           .doc = "Cross-entropy loss",
                                           .stages = stages};
