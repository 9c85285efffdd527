/* SPDX-License-Identifier: MIT
 * depth_error_cpu.c - the stage `depth_error` on the CPU. */
#include "../../kits/par.h"
#include "../../kits/stateless.h"
#include "depth_error.h"

#define CHUNK 16384 /* positions per work item, of one column */

typedef struct depth_job {
  dev_shape s;
  const depth_params *p;
  const float *x, *y;
  int64_t chunks;  /* of a column */
  int64_t *tables; /* [columns][chunks][DEPTH_CELLS] */
} depth_job;

static int64_t chunks_of(const dev_shape *s) { return (s->n * s->px + CHUNK - 1) / CHUNK; }

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  dev_shape s;
  int rc = depth_plan(ctx, self, pl);
  if (rc) return rc;
  dev_shape_of(&s, &pl->in[DEV_IN_INPUT].spec[0], &pl->in[DEV_IN_TARGET].spec[0]);
  pl->scratch_bytes = (size_t)(s.columns * chunks_of(&s) * DEPTH_CELLS) * sizeof(int64_t);
  return SP_OK;
}

static void add(int64_t *limbs, double v) {
  dev_parts s = dev_split(v);
  for (int k = 0; k < 4 && s.first + k < DEV_LIMBS; k++) limbs[s.first + k] += s.part[k];
}

static int sum_chunk(void *arg, int64_t item, int worker) {
  const depth_job *j = arg;
  int64_t c = item / j->chunks, p = item % j->chunks * CHUNK, all = j->s.n * j->s.px,
          end = all - p > CHUNK ? p + CHUNK : all;
  int64_t *table = j->tables + item * DEPTH_CELLS;
  (void)worker;
  memset(table, 0, DEPTH_CELLS * sizeof *table);
  for (; p < end; p++) {
    depth_pair r =
        depth_values(j->p, j->x[dev_at(&j->s, j->s.x_rows, p, c)], j->y[dev_at(&j->s, j->s.y_rows, p, c)]);
    if (r.counts < 0) table[r.which]++;
    if (r.counts <= 0) continue;
    table[DEPTH_N]++;
    table[DEPTH_LOW_INPUTS] += r.low;
    for (int k = 0; k < DEPTH_DELTAS; k++) table[DEPTH_DELTA + k] += k >= DEPTH_DELTAS - r.deltas;
    for (int k = 0; k < DEPTH_ROWS - 1; k++) add(table + (k + 1) * DEV_LIMBS, r.values[k]);
  }
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *x = &io->in[DEV_IN_INPUT].t[0], *y = &io->in[DEV_IN_TARGET].t[0];
  depth_job j = {.p = self, .x = x->data, .y = y->data, .tables = io->scratch};
  int64_t *out = io->out[0].t[0].data;
  dev_shape_of(&j.s, &x->spec, &y->spec);
  j.chunks = chunks_of(&j.s);
  int rc = par_run(ctx, j.s.columns * j.chunks, sum_chunk, &j);
  if (rc) return rc;
  memset(out, 0, (size_t)(j.s.columns * DEPTH_CELLS) * sizeof *out);
  for (int64_t item = 0; item < j.s.columns * j.chunks; item++)
    for (int i = 0; i < DEPTH_CELLS; i++) out[item / j.chunks * DEPTH_CELLS + i] += j.tables[item * DEPTH_CELLS + i];
  return SP_OK;
}

SP_STAGE_CPU(DEPTH_ERROR_PAIR, .plan = plan, .forward = forward);
