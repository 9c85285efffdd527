/* SPDX-License-Identifier: MIT
 * deviation_cpu.c - the stage `deviation` on the CPU. */
#include "../../kits/par.h"
#include "../../kits/stateless.h"
#include "deviation.h"

#define CHUNK 16384 /* positions per work item, of one column */

typedef struct dev_job {
  dev_shape s;
  const float *x, *y;
  int64_t chunks;  /* of a column */
  int64_t *tables; /* [columns][chunks][DEV_CELLS] */
} dev_job;

static int64_t chunks_of(const dev_shape *s) { return (s->n * s->px + CHUNK - 1) / CHUNK; }

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  dev_shape s;
  int rc = dev_plan(ctx, self, pl);
  if (rc) return rc;
  dev_shape_of(&s, &pl->in[DEV_IN_INPUT].spec[0], &pl->in[DEV_IN_TARGET].spec[0]);
  pl->scratch_bytes = (size_t)(s.columns * chunks_of(&s) * DEV_CELLS) * sizeof(int64_t);
  return SP_OK;
}

static void add(int64_t *limbs, double v) {
  dev_parts s = dev_split(v);
  for (int k = 0; k < 4 && s.first + k < DEV_LIMBS; k++) limbs[s.first + k] += s.part[k];
}

static int sum_chunk(void *arg, int64_t item, int worker) {
  const dev_job *j = arg;
  int64_t c = item / j->chunks, p = item % j->chunks * CHUNK, all = j->s.n * j->s.px,
          end = all - p > CHUNK ? p + CHUNK : all;
  int64_t *table = j->tables + item * DEV_CELLS;
  double values[DEV_ROWS - 1];
  (void)worker;
  memset(table, 0, DEV_CELLS * sizeof *table);
  for (; p < end; p++) {
    int counts = dev_values(j->x[dev_at(&j->s, j->s.x_rows, p, c)], j->y[dev_at(&j->s, j->s.y_rows, p, c)], values);
    if (counts) table[counts < 0]++;
    for (int k = 0; k < DEV_ROWS - 1 && counts > 0; k++) add(table + (k + 1) * DEV_LIMBS, values[k]);
  }
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *x = &io->in[DEV_IN_INPUT].t[0], *y = &io->in[DEV_IN_TARGET].t[0];
  dev_job j = {.x = x->data, .y = y->data, .tables = io->scratch};
  int64_t *out = io->out[0].t[0].data;
  (void)self;
  dev_shape_of(&j.s, &x->spec, &y->spec);
  j.chunks = chunks_of(&j.s);
  int rc = par_run(ctx, j.s.columns * j.chunks, sum_chunk, &j);
  if (rc) return rc;
  memset(out, 0, (size_t)(j.s.columns * DEV_CELLS) * sizeof *out);
  for (int64_t item = 0; item < j.s.columns * j.chunks; item++)
    for (int i = 0; i < DEV_CELLS; i++) out[item / j.chunks * DEV_CELLS + i] += j.tables[item * DEV_CELLS + i];
  return SP_OK;
}

SP_STAGE_CPU(DEVIATION_PAIR, .plan = plan, .forward = forward);
