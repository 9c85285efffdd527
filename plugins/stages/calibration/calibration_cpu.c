/* SPDX-License-Identifier: MIT
 * calibration_cpu.c - the stage `calibration` on the CPU. */
#include "../../kits/par.h"
#include "../../kits/stateless.h"
#include "calibration.h"

#define CHUNK 4096 /* positions per work item */

typedef struct cal_job {
  score_job s;
  int bins;
  int64_t *tables; /* [chunks][bins * CAL_N + 1]; the last is the first bad target, or -1 */
} cal_job;

static int64_t chunks_of(const logit_shape *s) { return (s->n * s->px + CHUNK - 1) / CHUNK; }

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  const cal_params *p = self;
  logit_shape s;
  int rc = cal_plan(ctx, self, pl);
  if (rc) return rc;
  logit_shape_of(&s, &pl->in[0].spec[0]);
  pl->scratch_bytes = (size_t)(chunks_of(&s) * (p->bins * CAL_N + 1)) * sizeof(int64_t);
  return SP_OK;
}

static void add(int64_t *table, cal_one one, int hit) {
  table[one.bin * CAL_N + CAL_SAMPLES]++;
  table[one.bin * CAL_N + CAL_HITS] += hit;
  table[one.bin * CAL_N + CAL_CONFIDENCE] += one.confidence;
}

static void count_classes(const cal_job *j, int64_t p, int n, int64_t *table, int64_t *bad) {
  float max[SCORE_BLOCK];
  int32_t best[SCORE_BLOCK];
  double all[SCORE_BLOCK];
  score_block(&j->s, p, n, max, best, all);
  for (int i = 0; i < n; i++) {
    int truth = score_truth(&j->s, p + i, best[i]);
    if (truth == SCORE_BAD && *bad < 0) *bad = (p + i) * j->s.shape.classes;
    if (truth <= SCORE_YES) add(table, cal_of(1 / all[i], j->bins), truth == SCORE_YES);
  }
}

static void count_each(const cal_job *j, int64_t p, int n, int64_t *table, int64_t *bad) {
  const logit_shape *s = &j->s.shape;
  for (int64_t q = p; q < p + n; q++)
    for (int64_t c = 0; c < s->classes; c++) {
      int truth = score_truth(&j->s, q, c);
      if (truth == SCORE_BAD && *bad < 0) *bad = q * s->classes + c;
      if (truth > SCORE_YES) continue;
      double probability = score_probability(score_sigmoid(j->s.x[logit_index(s, s->rows, q, c)]));
      add(table, cal_of(probability, j->bins), truth == SCORE_YES);
    }
}

static int count_chunk(void *arg, int64_t chunk, int worker) {
  const cal_job *j = arg;
  const logit_shape *s = &j->s.shape;
  int64_t *table = j->tables + chunk * (j->bins * CAL_N + 1), *bad = table + j->bins * CAL_N, all = s->n * s->px;
  int64_t p = chunk * CHUNK, end = all - p > CHUNK ? p + CHUNK : all;
  (void)worker;
  memset(table, 0, (size_t)(j->bins * CAL_N) * sizeof *table);
  *bad = -1;
  while (p < end) {
    int n = score_block_size(s, p, end);
    if (j->s.kind == SCORE_CLASSES) count_classes(j, p, n, table, bad);
    else count_each(j, p, n, table, bad);
    p += n;
  }
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const cal_params *p = self;
  cal_job j = {.bins = (int)p->bins, .tables = io->scratch};
  score_job_of(&j.s, io, p->ignore_index);
  int64_t *out = io->out[CAL_OUT_RELIABILITY].t[0].data, chunks = chunks_of(&j.s.shape), bad = -1, n = p->bins * CAL_N;
  int rc = par_run(ctx, chunks, count_chunk, &j);
  if (rc) return rc;
  memset(out, 0, (size_t)n * sizeof *out);
  for (int64_t k = 0; k < chunks; k++) {
    const int64_t *table = j.tables + k * (n + 1);
    for (int64_t i = 0; i < n; i++) out[i] += table[i];
    if (bad < 0) bad = table[n];
  }
  score_status(&j.s, bad, io->out[CAL_OUT_STATUS].t[0].data);
  return SP_OK;
}

SP_STAGE_CPU(CALIBRATION_PAIR, .plan = plan, .forward = forward);
