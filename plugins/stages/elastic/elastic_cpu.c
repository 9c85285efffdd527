/* SPDX-License-Identifier: MIT
 * elastic_cpu.c - the stage `elastic` on the CPU: rows of the field are made as they are needed, smoothed along x,
 * and kept as long as rows above and below need them, in a worker's cache. */
#include "../../kits/warp/warp_cpu.h"
#include "elastic.h"

#include <string.h>

typedef struct elastic_call {
  const aug_jobs *jobs;
  warp_how how;
  aug_dice dice;
  elastic_range range;
  elastic_kernel x, y;
  const float *given;
  float *told, *work; /* told: NULL, nobody reads it; work: of all workers, `each` floats */
  int64_t each, blocks;
} elastic_call;

/* What a worker has: a row of noise with both margins, rows that are smoothed along x, the row that is made. */
typedef struct rows_of {
  float *noise[2], *kept, *made[2];
  int32_t next; /* row to smooth */
} rows_of;

static int64_t work_floats(int64_t w, int64_t rx, int64_t ry) {
  return (2 * (w + 2 * rx) + (2 * ry + 1) * 2 * w + 2 * w + 15) / 16 * 16;
}

/* ---- the field ---- */
/* y = sum of n places of x, which lie `step` apart ... of a[0] and of both sides of it. */
AUG_VEC static void smooth_along(float *restrict y, const float *restrict x, int32_t n,
                                 const elastic_kernel *restrict k) {
  const int32_t radius = k->radius;
  for (int32_t i = 0; i < n; i++) y[i] = x[i] * k->weight[0];
  for (int32_t d = 1; d <= radius; d++) {
    const float *a = x - d, *b = x + d, weight = k->weight[d];
    for (int32_t i = 0; i < n; i++) y[i] = y[i] + (a[i] + b[i]) * weight;
  }
}

AUG_VEC static void add_rows(float *restrict y, const float *restrict a, const float *restrict b, int32_t n,
                             float weight) {
  for (int32_t i = 0; i < n; i++) y[i] = y[i] + (a[i] + b[i]) * weight;
}

AUG_VEC static void scaled(float *restrict y, const float *restrict x, int32_t n, float by) {
  for (int32_t i = 0; i < n; i++) y[i] = x[i] * by;
}

static float *kept_row(const elastic_call *c, const rows_of *r, int32_t y) {
  return r->kept + (int64_t)(y % (2 * c->y.radius + 1)) * 2 * c->range.w;
}

static void make_noise(const elastic_call *c, int64_t sample, int32_t y, const rows_of *r) {
  const int32_t w = c->range.w, rx = c->x.radius;
  for (int32_t pair = 0; pair < (w + 1) / 2; pair++) {
    sp_rng4 v = elastic_words(&c->dice, sample, y, pair, w);
    for (int e = 0; e < 2 && 2 * pair + e < w; e++) {
      r->noise[0][rx + 2 * pair + e] = elastic_noise(v.v[2 * e]);
      r->noise[1][rx + 2 * pair + e] = elastic_noise(v.v[2 * e + 1]);
    }
  }
  for (int d = 0; d < 2; d++)
    for (int32_t i = 1; i <= rx; i++) {
      r->noise[d][rx - i] = r->noise[d][rx + elastic_mirror(-i, w)];
      r->noise[d][rx + w - 1 + i] = r->noise[d][rx + elastic_mirror(w - 1 + i, w)];
    }
}

static void make_row(const elastic_call *c, int64_t sample, int32_t y, rows_of *r) {
  const int32_t w = c->range.w, h = c->range.h, ry = c->y.radius, last = y + ry < h ? y + ry : h - 1;
  for (; r->next <= last; r->next++) {
    float *to = kept_row(c, r, r->next);
    make_noise(c, sample, r->next, r);
    for (int d = 0; d < 2; d++) smooth_along(to + d * w, r->noise[d] + c->x.radius, w, &c->x);
  }
  scaled(r->made[0], kept_row(c, r, y), 2 * w, c->y.weight[0]);
  for (int32_t d = 1; d <= ry; d++)
    add_rows(r->made[0], kept_row(c, r, elastic_mirror(y - d, h)), kept_row(c, r, elastic_mirror(y + d, h)), 2 * w,
             c->y.weight[d]);
  for (int32_t i = 0; i < w; i++) r->made[0][i] *= c->range.x;
  for (int32_t i = 0; i < w; i++) r->made[1][i] *= c->range.y;
}

/* ---- rows of a sample ---- */
static void still(const elastic_call *c, int64_t sample, int32_t from, int32_t to) {
  const warp_map none = warp_none(c->range.h, c->range.w);
  int64_t w = c->range.w;
  for (int i = 0; i < c->jobs->count; i++) warp_part(&(aug_part){&c->jobs->job[i], sample, from, to}, &c->how, &none);
  if (c->told)
    memset(c->told + (sample * c->range.h + from) * w * 2, 0, (size_t)((to - from) * w * 2) * sizeof *c->told);
}

AUG_VEC static void places_of(warp_places *restrict at, const float *restrict dx, const float *restrict dy, int32_t x,
                              int32_t y, float w, float h) {
  for (int32_t i = 0; i < at->n; i++) {
    at->x[i] = warp_moved(x + i, w, dx[i]);
    at->y[i] = warp_moved(y, h, dy[i]);
  }
}

static void move_row(const elastic_call *c, int64_t sample, int32_t y, const float *const made[2]) {
  warp_places at;
  int32_t w = c->range.w;
  for (int32_t x = 0; x < w; x += WARP_BLOCK) {
    at.n = w - x < WARP_BLOCK ? w - x : WARP_BLOCK;
    places_of(&at, made[0] + x, made[1] + x, x, y, (float)w, (float)c->range.h);
    for (int i = 0; i < c->jobs->count; i++) warp_block(&c->jobs->job[i], &c->how, sample, y, x, &at);
  }
}

static int part(void *arg, int64_t item, int worker) {
  const elastic_call *c = arg;
  int64_t sample = item / c->blocks, block = item % c->blocks, w = c->range.w;
  int32_t from = (int32_t)(c->range.h * block / c->blocks), to = (int32_t)(c->range.h * (block + 1) / c->blocks);
  int32_t rx = c->x.radius, ry = c->y.radius;
  if (!c->given && !elastic_moves(&c->dice, sample, c->range.probability)) {
    still(c, sample, from, to);
    return SP_OK;
  }
  float *work = c->work + worker * c->each;
  rows_of r = {.noise = {work, work + w + 2 * rx}, .kept = work + 2 * (w + 2 * rx), .next = from > ry ? from - ry : 0};
  r.made[0] = r.kept + (2 * ry + 1) * 2 * w;
  r.made[1] = r.made[0] + w;
  for (int32_t y = from; y < to; y++) {
    int64_t at = (sample * c->range.h + y) * w * 2;
    if (!c->given) make_row(c, sample, y, &r);
    for (int64_t x = 0; c->given && x < w; x++) {
      r.made[0][x] = c->given[at + 2 * x];
      r.made[1][x] = c->given[at + 2 * x + 1];
    }
    for (int64_t x = 0; c->told && x < w; x++) {
      c->told[at + 2 * x] = r.made[0][x];
      c->told[at + 2 * x + 1] = r.made[1][x];
    }
    move_row(c, sample, y, (const float *const[2]){r.made[0], r.made[1]});
  }
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const elastic_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const float *given = aug_given(ctx, io, "displacements", &rc);
  if (rc) return rc;
  elastic_call c = {.jobs = &jobs,
                    .how = warp_how_of(io, &p->warp),
                    .dice = aug_dice_of(io, &p->warp.draws),
                    .range = elastic_range_of(p, jobs.job[0].h, jobs.job[0].w),
                    .given = given,
                    .told = io->out[AUG_DRAWN].t->data,
                    .work = io->scratch};
  if (!given) {
    elastic_kernel_of(&c.x, p, 0);
    elastic_kernel_of(&c.y, p, 1);
  }
  c.each = work_floats(c.range.w, given ? 0 : c.x.radius, given ? 0 : c.y.radius);
  /* Few samples are cut, into parts of more rows than they make twice. */
  int64_t wanted = (2 * par_threads(ctx) + jobs.n - 1) / jobs.n, most = c.range.h / (2 * c.y.radius + 1);
  c.blocks = wanted < most ? wanted : most < 1 ? 1 : most;
  return par_run(ctx, jobs.n * c.blocks, part, &c);
}

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  const elastic_params *p = self;
  int64_t h, w;
  int rc = elastic_check(ctx, p, pl, &h, &w);
  if (rc) return rc;
  int drawn = !pl->in[AUG_DRAWN].n;
  int64_t each = work_floats(w, drawn ? elastic_radius(p, 0) : 0, drawn ? elastic_radius(p, 1) : 0);
  pl->scratch_bytes = (size_t)(each * par_threads(ctx)) * sizeof(float);
  return SP_OK;
}

AUG_CPU_STAGE(elastic, "elastic", ELASTIC_DOC, SP_STAGE_STOCHASTIC, .create = stateless_create,
              .destroy = stateless_destroy, .plan = plan, .forward = forward);
