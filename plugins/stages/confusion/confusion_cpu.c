/* SPDX-License-Identifier: MIT
 * confusion_cpu.c - the stage `confusion` on the CPU. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../../kits/par.h"
#include "confusion.h"

#define CHUNK 4096 /* positions per work item */
#define BLOCK 64   /* positions handled side by side */

typedef struct conf {
  const conf_params *p;
  int threads;
} conf;

typedef struct conf_job {
  const conf *c;
  logit_shape shape;
  const float *x;
  const void *labels;
  int label_dtype;
  int64_t *counts; /* [threads][classes][classes]; counting is exact, so it does not matter who counts what */
  int64_t *bad;    /* [chunks] position of the first label out of range, or -1 */
} conf_job;

static int create(sp_ctx *ctx, const void *params, void **self) {
  conf *c = calloc(1, sizeof *c);
  if (!c) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the instance");
  const sp_parallel *par = ctx->host->get_extension(ctx, SP_EXT_PARALLEL);
  c->p = params;
  c->threads = par ? par->threads(ctx) : 1;
  *self = c;
  return SP_OK;
}

static void destroy(void *self) { free(self); }

static int64_t chunks_of(const logit_shape *s) { return (s->n * s->px + CHUNK - 1) / CHUNK; }

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  const conf *c = self;
  logit_shape s;
  int rc = conf_plan(ctx, pl, &s);
  if (rc) return rc;
  pl->scratch_bytes = (size_t)(c->threads * s.classes * s.classes + chunks_of(&s)) * sizeof(int64_t);
  return SP_OK;
}

/* The class with the largest logit, of equals the first, for n positions. */
static void argmax(const float *x, int64_t position_stride, int64_t class_stride, int64_t classes, int n,
                   int32_t *best) {
  float top[BLOCK];
  for (int i = 0; i < n; i++) top[i] = x[i * position_stride], best[i] = 0;
  if (position_stride == 1) {
    for (int32_t c = 1; c < classes; c++) {
      const float *xc = x + c * class_stride;
      for (int i = 0; i < n; i++) {
        bool more = xc[i] > top[i];
        best[i] = more ? c : best[i];
        top[i] = more ? xc[i] : top[i];
      }
    }
    return;
  }
  for (int i = 0; i < n; i++)
    for (int32_t c = 1; c < classes; c++)
      if (x[i * position_stride + c * class_stride] > top[i])
        top[i] = x[i * position_stride + c * class_stride], best[i] = c;
}

static int count_chunk(void *arg, int64_t chunk, int worker) {
  const conf_job *j = arg;
  const logit_shape *s = &j->shape;
  int64_t p = chunk * CHUNK, all = s->n * s->px, end = p + CHUNK < all ? p + CHUNK : all;
  int64_t *counts = j->counts + worker * s->classes * s->classes;
  int32_t best[BLOCK];
  j->bad[chunk] = -1;
  while (p < end) {
    int64_t sample = p / s->px, at = p % s->px, left = s->rows ? end - p : s->px - at;
    if (left > end - p) left = end - p;
    int n = left < BLOCK ? (int)left : BLOCK;
    if (s->rows) argmax(j->x + p * s->classes, s->classes, 1, s->classes, n, best);
    else argmax(j->x + sample * s->classes * s->px + at, 1, s->px, s->classes, n, best);
    for (int i = 0; i < n; i++) {
      int64_t y = label_at(j->labels, j->label_dtype, p + i);
      if (y == j->c->p->ignore_index) continue;
      if (y >= 0 && y < s->classes) counts[y * s->classes + best[i]]++;
      else if (j->bad[chunk] < 0) j->bad[chunk] = p + i;
    }
    p += n;
  }
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  conf *c = self;
  const sp_tensor *x = &io->in[CONF_IN_LOGITS].t[0], *y = &io->in[CONF_IN_LABELS].t[0];
  conf_job j = {.c = c, .x = x->data, .labels = y->data, .label_dtype = y->spec.dtype, .counts = io->scratch};
  logit_shape_of(&j.shape, &x->spec);
  int64_t table = j.shape.classes * j.shape.classes, chunks = chunks_of(&j.shape), bad = -1;
  int64_t *out = io->out[CONF_OUT_COUNTS].t[0].data, *status = io->out[CONF_OUT_STATUS].t[0].data;
  j.bad = j.counts + c->threads * table;
  memset(j.counts, 0, (size_t)(c->threads * table) * sizeof *j.counts);
  int rc = par_run(ctx, chunks, count_chunk, &j);
  if (rc) return rc;
  memset(out, 0, (size_t)table * sizeof *out);
  for (int t = 0; t < c->threads; t++)
    for (int64_t i = 0; i < table; i++) out[i] += j.counts[t * table + i];
  for (int64_t i = 0; i < chunks && bad < 0; i++) bad = j.bad[i];
  label_status(status, SP_E_DATA, j.labels, j.label_dtype, bad, j.shape.px, io->ids, j.shape.classes - 1);
  return SP_OK;
}

static const sp_stage_type conf_type = {.size = sizeof(sp_stage_type),
                                        .name = "confusion",
                                        .device = "cpu",
                                        .doc = CONF_DOC,
                                        .inputs = conf_inputs,
                                        .outputs = conf_outputs,
                                        .params = conf_param_table,
                                        .params_size = sizeof(conf_params),
                                        .status_doc = CONF_STATUS_DOC,
                                        .create = create,
                                        .destroy = destroy,
                                        .plan = plan,
                                        .forward = forward};
static const sp_stage_type *const stages[] = {&conf_type, NULL};

SP_PLUGIN("confusion", "Confusion counts", stages);
