/* SPDX-License-Identifier: MIT
 * score_histogram_cpu.c - the stage `score_histogram` on the CPU: what softmax needs of each position first, then
 * class by class, so that nobody else counts into a class's bins. */
#include "../../kits/par.h"
#include "../../kits/stateless.h"
#include "score_histogram.h"

#define CHUNK 4096 /* positions per work item */

typedef struct shist_job {
  score_job s;
  shist_bins bins;
  double *all;  /* [positions] */
  int64_t *bad; /* [classes] the first bad target of each, or -1 */
  float *max;   /* [positions] */
  int64_t *scores;
} shist_job;

static int64_t positions_of(const logit_shape *s) { return s->n * s->px; }

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  logit_shape s;
  int rc = shist_plan(ctx, self, pl);
  if (rc) return rc;
  logit_shape_of(&s, &pl->in[0].spec[0]);
  pl->scratch_bytes = (size_t)positions_of(&s) * (sizeof(double) + sizeof(float)) + (size_t)s.classes * sizeof(int64_t);
  return SP_OK;
}

static int sum_chunk(void *arg, int64_t chunk, int worker) {
  const shist_job *j = arg;
  int64_t p = chunk * CHUNK, end = positions_of(&j->s.shape) - p > CHUNK ? p + CHUNK : positions_of(&j->s.shape);
  int32_t best[SCORE_BLOCK];
  (void)worker;
  while (p < end) {
    int n = score_block_size(&j->s.shape, p, end);
    score_block(&j->s, p, n, j->max + p, best, j->all + p);
    p += n;
  }
  return SP_OK;
}

static int count_class(void *arg, int64_t c, int worker) {
  const shist_job *j = arg;
  const logit_shape *s = &j->s.shape;
  int64_t *counts = j->scores + c * 2 * j->bins.n;
  (void)worker;
  memset(counts, 0, (size_t)(2 * j->bins.n) * sizeof *counts);
  j->bad[c] = -1;
  for (int64_t p = 0; p < positions_of(s); p++) {
    int truth = score_truth(&j->s, p, c);
    if (truth == SCORE_BAD && j->bad[c] < 0) j->bad[c] = p * s->classes + c;
    if (truth > SCORE_YES) continue;
    float x = j->s.x[logit_index(s, s->rows, p, c)];
    score own = j->s.kind == SCORE_CLASSES ? score_softmax(x, j->max[p], j->all[p]) : score_sigmoid(x);
    counts[truth * j->bins.n + shist_bin(&j->bins, own)]++;
  }
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const shist_params *p = self;
  shist_job j = {.bins = shist_bins_of(p), .scores = io->out[SHIST_OUT_SCORES].t[0].data, .all = io->scratch};
  score_job_of(&j.s, io, p->ignore_index);
  int64_t positions = positions_of(&j.s.shape), bad = -1;
  j.bad = (int64_t *)(j.all + positions);
  j.max = (float *)(j.bad + j.s.shape.classes);
  int rc = j.s.kind == SCORE_CLASSES ? par_run(ctx, (positions + CHUNK - 1) / CHUNK, sum_chunk, &j) : SP_OK;
  if (!rc) rc = par_run(ctx, j.s.shape.classes, count_class, &j);
  if (rc) return rc;
  for (int64_t c = 0; c < j.s.shape.classes; c++)
    if (j.bad[c] >= 0 && (bad < 0 || j.bad[c] < bad)) bad = j.bad[c];
  score_status(&j.s, bad, io->out[SHIST_OUT_STATUS].t[0].data);
  return SP_OK;
}

SP_STAGE_CPU(SCORE_HISTOGRAM_PAIR, .plan = plan, .forward = forward);
