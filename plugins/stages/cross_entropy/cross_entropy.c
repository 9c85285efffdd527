/* SPDX-License-Identifier: MIT
 * cross_entropy.c - the loss stage: ports, parameters and checks. */
#include "cross_entropy.h"

#include <stdlib.h>

int ce_create(sp_ctx *ctx, const void *params, void **self) {
  const ce_params *p = params;
  if (p->label_smoothing >= 1)
    return ctx->host->fail(ctx, SP_E_RANGE, "label_smoothing is %g, but must be below 1", p->label_smoothing);
  ce *c = calloc(1, sizeof *c);
  if (!c) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the instance");
  c->p = p;
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

void ce_destroy(void *self) {
  ce *c = self;
  free(c->class_weights);
  free(c);
}

static void smooth_for(ce *c, int64_t classes) {
  double share = c->p->label_smoothing, sum = c->class_weights ? 0 : (double)classes;
  for (uint32_t i = 0; i < c->p->class_weights.n; i++) sum += c->class_weights[i];
  c->smooth.own = (float)(1 - share);
  c->smooth.each = share / (double)classes;
  c->smooth.all = (float)(c->smooth.each * sum);
}

int ce_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  ce *c = self;
  const sp_spec *x = &plan->in[LOSS_IN_LOGITS].spec[0], *y = &plan->in[LOSS_IN_LABELS].spec[0];
  int soft = y->dtype == SP_F32, rc = soft ? loss_floats_check(ctx, x, y) : labels_check(ctx, x, y);
  if (rc) return rc;
  if (soft && c->p->l.ignore_index >= 0)
    return ctx->host->fail(
        ctx, SP_E_INVALID,
        "ignore_index is %lld, but the labels are probabilities, of which none is ignored: leave it out",
        (long long)c->p->l.ignore_index);
  if (c->p->class_weights.n && c->p->class_weights.n != x->shape[1])
    return ctx->host->fail(ctx, SP_E_SHAPE, "class_weights has %u numbers, but there are %lld classes",
                           c->p->class_weights.n, (long long)x->shape[1]);
  smooth_for(c, x->shape[1]);
  loss_outputs_plan(plan);
  return SP_OK;
}

void ce_job_of(loss_job *j, const ce *c, const sp_io *io, int *rows) {
  const sp_spec *given = &io->in[LOSS_IN_LABELS].t[0].spec;
  sp_spec own = target_spec(&io->in[LOSS_IN_LOGITS].t[0].spec, given);
  logit_shape y;
  loss_job_of(j, io, &c->p->l);
  *rows = 0;
  if (given->dtype != SP_F32) return;
  logit_shape_of(&y, &own);
  *rows = y.rows || y.classes == 1;
  j->shares = j->labels;
  j->labels = NULL;
  j->by_position = 1;
}

const sp_port ce_inputs[] = {
    {.name = "logits", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "N x C x ..., row-major or channels-last"},
    {.name = "labels",
     .dtypes = LABEL_DTYPES | SP_DT(SP_F32),
     .ndim = -1,
     .flags = SP_PORT_NOGRAD,
     .doc = "N x ..., class numbers; or float32 in the shape of the logits, the probability of each class"},
    {.name = NULL}};

const sp_param ce_param_table[] = {LABEL_PARAM_IGNORE(ce_params, l.ignore_index),
                                   {.name = "class_weights",
                                    .type = SP_PARAM_FLOATS,
                                    .offset = offsetof(ce_params, class_weights),
                                    .min = 0,
                                    .max = 1e30,
                                    .max_n = 65536,
                                    .doc = "one per class; the mean is weighted by them; none: all 1"},
                                   {.name = "label_smoothing",
                                    .type = SP_PARAM_FLOAT,
                                    .offset = offsetof(ce_params, label_smoothing),
                                    .def = 0,
                                    .min = 0,
                                    .max = 1,
                                    .doc = "part of a label, below 1, that is spread evenly over all classes"},
                                   LOSS_PARAM_WEIGHT(ce_params),
                                   LOSS_PARAM_NONFINITE(ce_params),
                                   {.name = NULL}};
