/* SPDX-License-Identifier: MIT
 * boundary_cpu.c - the stage `boundary` on the CPU: first the classes of all pixels, then each image's boundaries. */
#include <string.h>

#include "../../kits/par.h"
#include "../../kits/stateless.h"
#include "boundary.h"

typedef struct bnd_job {
  const bnd_params *p;
  logit_shape s;
  bnd_size size;
  const float *x;
  const void *labels;
  int label_dtype;
  int64_t *tables;              /* [n][classes][BND_N] */
  int64_t *bad;                 /* [n] the first bad label, or -1 */
  bnd_class *predicted, *truth; /* [n][px] */
} bnd_job;

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  logit_shape s;
  int rc = bnd_plan(ctx, self, pl);
  if (rc) return rc;
  logit_shape_of(&s, &pl->in[BND_IN_LOGITS].spec[0]);
  pl->scratch_bytes =
      (size_t)(s.n * (bnd_classes(&s) * BND_N + 1)) * sizeof(int64_t) + (size_t)(2 * s.n * s.px) * sizeof(bnd_class);
  return SP_OK;
}

static void classify(const bnd_job *j, int64_t sample) {
  const logit_shape *s = &j->s;
  int64_t from = sample * s->px, stride = s->rows ? 1 : s->px, step = s->rows ? s->classes : 1;
  const float *x = j->x + from * s->classes;
  j->bad[sample] = -1;
  for (int64_t i = 0; i < s->px; i++) {
    const float *at = x + i * step;
    int64_t y = label_at(j->labels, j->label_dtype, from + i), best = s->classes == 1 && at[0] > 0;
    int counts = y != j->p->ignore_index;
    float top = at[0];
    for (int64_t c = 1; c < s->classes; c++)
      if (at[c * stride] > top) top = at[c * stride], best = c;
    if (counts && (y < 0 || y >= bnd_classes(s))) {
      if (j->bad[sample] < 0) j->bad[sample] = from + i;
      counts = 0;
    }
    j->predicted[from + i] = counts ? (bnd_class)best : -1;
    j->truth[from + i] = counts ? (bnd_class)y : -1;
  }
}

static void count(const bnd_class *map, const bnd_class *other, const bnd_size *size, int64_t *table) {
  bnd_class found[4];
  for (int32_t y = 0; y < size->h; y++)
    for (int32_t x = 0; x < size->w; x++) {
      int n = bnd_at(map, size, y, x, found);
      for (int i = 0; i < n; i++) {
        table[found[i] * BND_N]++;
        table[found[i] * BND_N + 1] += bnd_near(other, size, y, x, found[i]);
      }
    }
}

static int count_image(void *arg, int64_t sample, int worker) {
  const bnd_job *j = arg;
  int64_t *table = j->tables + sample * bnd_classes(&j->s) * BND_N;
  const bnd_class *predicted = j->predicted + sample * j->s.px, *truth = j->truth + sample * j->s.px;
  (void)worker;
  memset(table, 0, (size_t)(bnd_classes(&j->s) * BND_N) * sizeof *table);
  classify(j, sample);
  count(predicted, truth, &j->size, table + BND_PREDICTED);
  count(truth, predicted, &j->size, table + BND_TRUE);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *x = &io->in[BND_IN_LOGITS].t[0], *y = &io->in[BND_IN_LABELS].t[0];
  bnd_job j = {.p = self, .x = x->data, .labels = y->data, .label_dtype = y->spec.dtype, .tables = io->scratch};
  int64_t *out = io->out[BND_OUT_BOUNDARIES].t[0].data, *status = io->out[BND_OUT_STATUS].t[0].data, bad = -1;
  logit_shape_of(&j.s, &x->spec);
  j.size = bnd_size_of(j.p, &x->spec);
  int64_t cells = bnd_classes(&j.s) * BND_N;
  j.bad = j.tables + j.s.n * cells;
  j.predicted = (bnd_class *)(j.bad + j.s.n);
  j.truth = j.predicted + j.s.n * j.s.px;
  int rc = par_run(ctx, j.s.n, count_image, &j);
  if (rc) return rc;
  memset(out, 0, (size_t)cells * sizeof *out);
  for (int64_t n = 0; n < j.s.n; n++) {
    for (int64_t i = 0; i < cells; i++) out[i] += j.tables[n * cells + i];
    if (bad < 0) bad = j.bad[n];
  }
  label_status(status, SP_E_DATA, j.labels, j.label_dtype, bad, j.s.px, io->ids, bnd_classes(&j.s) - 1);
  return SP_OK;
}

SP_STAGE_CPU(BOUNDARY_PAIR, .plan = plan, .forward = forward);
