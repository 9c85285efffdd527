/* SPDX-License-Identifier: MIT
 * accuracy_cpu.c - the stage `accuracy` on the CPU. */
#include <string.h>

#include "../../kits/par.h"
#include "../../kits/stateless.h"
#include "accuracy.h"

#define CHUNK 16384 /* logits per work item, about */

typedef struct acc_sums {
  int64_t top1, topk, counted;
  int64_t bad; /* the first sample with a label out of range, or -1 */
} acc_sums;

typedef struct acc_job {
  const acc_params *p;
  const float *x;
  const void *labels;
  int label_dtype;
  int64_t n, classes, samples; /* samples per work item */
  acc_sums *sums;              /* one per work item */
} acc_job;

static int64_t samples_of(int64_t classes) { return classes < CHUNK ? CHUNK / classes : 1; }

static int64_t chunks_of(int64_t n, int64_t classes) { return (n + samples_of(classes) - 1) / samples_of(classes); }

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  const sp_spec *x = &pl->in[ACC_IN_LOGITS].spec[0];
  int rc = acc_plan(ctx, pl);
  (void)self;
  if (rc) return rc;
  pl->scratch_bytes = (size_t)chunks_of(x->shape[0], x->shape[1]) * sizeof(acc_sums);
  return SP_OK;
}

/* How many classes are before `label`, whose logit is no NaN. The comparisons are true of a NaN. */
static int64_t rank_of(const float *x, int64_t label, int64_t classes) {
  float v = x[label];
  int32_t rank = 0; /* labels_check() knows that there are no more classes than that */
  for (int64_t c = 0; c < label; c++) rank += !(x[c] < v);
  for (int64_t c = label + 1; c < classes; c++) rank += !(x[c] <= v);
  return rank;
}

static int count_chunk(void *arg, int64_t chunk, int worker) {
  const acc_job *j = arg;
  int64_t i = chunk * j->samples, end = j->n - i > j->samples ? i + j->samples : j->n;
  acc_sums s = {.bad = -1};
  (void)worker;
  for (; i < end; i++) {
    const float *x = j->x + i * j->classes;
    int64_t y = label_at(j->labels, j->label_dtype, i);
    if (y == j->p->ignore_index) continue;
    if (y < 0 || y >= j->classes) {
      if (s.bad < 0) s.bad = i;
      continue;
    }
    s.counted++;
    if (x[y] != x[y]) continue;
    int64_t rank = rank_of(x, y, j->classes);
    s.top1 += rank < 1;
    s.topk += rank < j->p->k;
  }
  j->sums[chunk] = s;
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *x = &io->in[ACC_IN_LOGITS].t[0], *y = &io->in[ACC_IN_LABELS].t[0];
  acc_job j = {.p = self,
               .x = x->data,
               .labels = y->data,
               .label_dtype = y->spec.dtype,
               .n = x->spec.shape[0],
               .classes = x->spec.shape[1],
               .samples = samples_of(x->spec.shape[1]),
               .sums = io->scratch};
  int64_t chunks = chunks_of(j.n, j.classes), *status = io->out[ACC_OUT_STATUS].t[0].data;
  acc_sums all = {.bad = -1};
  int rc = par_run(ctx, chunks, count_chunk, &j);
  if (rc) return rc;
  for (int64_t i = 0; i < chunks; i++) {
    all.top1 += j.sums[i].top1;
    all.topk += j.sums[i].topk;
    all.counted += j.sums[i].counted;
    if (all.bad < 0) all.bad = j.sums[i].bad;
  }
  *(int64_t *)io->out[ACC_OUT_TOP1].t[0].data = all.top1;
  *(int64_t *)io->out[ACC_OUT_TOPK].t[0].data = all.topk;
  *(int64_t *)io->out[ACC_OUT_COUNTED].t[0].data = all.counted;
  label_status(status, SP_E_DATA, j.labels, j.label_dtype, all.bad, 1, io->ids, j.classes - 1);
  return SP_OK;
}

SP_STAGE_CPU(ACCURACY_PAIR, .plan = plan, .forward = forward);
