/* SPDX-License-Identifier: MIT
 * cross_entropy_cpu.c - mean cross-entropy over the labels that count and its gradient in the same pass, on the CPU. */
#include <math.h>
#include <string.h>

#include "../../kits/par.h"
#include "ce_kernel.h"
#include "cross_entropy.h"

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

static int64_t chunks_of(const logit_shape *s) { return (s->n * s->px + CE_CHUNK - 1) / CE_CHUNK; }

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  logit_shape s;
  int rc = ce_plan(ctx, self, pl);
  if (rc) return rc;
  logit_shape_of(&s, &pl->in[CE_IN_LOGITS].spec[0]);
  pl->scratch_bytes = (size_t)chunks_of(&s) * (sizeof(label_sum) + sizeof(double));
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
  int64_t *status = io->out[CE_OUT_STATUS].t[0].data, sample = at / j->shape.px;
  status[0] = CE_BAD_LABEL;
  status[1] = io->ids ? (int64_t)io->ids[sample] : sample;
  status[2] = label_at(j->labels, j->label_dtype, at);
  status[3] = j->shape.classes - 1;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const ce *c = self;
  const sp_tensor *x = &io->in[CE_IN_LOGITS].t[0], *y = &io->in[CE_IN_LABELS].t[0];
  pass a = {.kernel = ce_choose(), .labels = io->scratch};
  ce_job *j = &a.job;
  logit_shape_of(&j->shape, &x->spec);
  int64_t chunks = chunks_of(&j->shape), counted = 0, bad = -1;
  j->x = x->data;
  j->labels = y->data;
  j->label_dtype = y->spec.dtype;
  j->ignore = c->p->ignore_index;
  j->class_weights = c->class_weights;
  j->smooth = c->smooth;
  j->loss = (double *)(a.labels + chunks);
  if (io->din && io->din[CE_IN_LOGITS].n) j->g = io->din[CE_IN_LOGITS].t[0].data;
  j->acc = j->g && io->din_acc && io->din_acc[CE_IN_LOGITS] && io->din_acc[CE_IN_LOGITS][0];

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

  float mean = counted ? (float)(c->p->weight * (loss / weight)) : 0.0f;
  int64_t *status = io->out[CE_OUT_STATUS].t[0].data;
  memset(status, 0, 4 * sizeof *status);
  if (bad >= 0) report_bad(io, j, bad);
  else if (c->p->nonfinite == CE_STOP && !isfinite(mean)) status[0] = CE_NOT_FINITE;
  *(float *)io->out[CE_OUT_LOSS].t[0].data = mean;
  *(int64_t *)io->out[CE_OUT_VALID].t[0].data = counted;
  return SP_OK;
}

static const sp_stage_type ce_type = {.size = sizeof(sp_stage_type),
                                      .flags = SP_STAGE_LOSS,
                                      .name = "cross_entropy",
                                      .device = "cpu",
                                      .doc = CE_DOC,
                                      .inputs = ce_inputs,
                                      .outputs = ce_outputs,
                                      .params = ce_param_table,
                                      .params_size = sizeof(ce_params),
                                      .status_doc = CE_STATUS_DOC,
                                      .create = ce_create,
                                      .destroy = ce_destroy,
                                      .plan = plan,
                                      .forward = forward};
static const sp_stage_type *const stages[] = {&ce_type, NULL};

SP_PLUGIN("cross_entropy", "Cross-entropy loss", stages);
