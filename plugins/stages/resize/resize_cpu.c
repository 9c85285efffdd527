/* SPDX-License-Identifier: MIT
 * resize_cpu.c - the stage `resize` on the CPU: rows are scaled along x into scratch, and added up along y. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../../kits/aug/cpu.h"
#include "resize.h"
#include "resize_cpu.h"

typedef struct resize_self {
  const resize_params *p;
  resize_table x, y;
  size_t floats; /* of a worker's scratch: `y.live` rows, RESIZE_GROUP rows, and those turned */
} resize_self;

typedef struct resize_call {
  const resize_self *s;
  char *scratch;
} resize_call;

/* A worker's scratch holds rows of the widest output; each begins on a cache line. */
static size_t line_floats(int64_t out_w, int64_t pix) { return ((size_t)out_w * (size_t)pix + 15) & ~(size_t)15; }

/* Row r of the input, scaled along x; in `buf` where it is not the input's own row. */
static const float *scaled_row(const resize_table *x, const aug_part *part, int64_t plane, int64_t r, float *buf) {
  const aug_job *j = part->job;
  const void *row = aug_in_row(j, part->sample, plane, r, aug_element(j->dtype));
  if (!x->active && j->dtype == SP_F32) return row;
  if (!x->active) resize_widen(buf, row, (int64_t)j->w * j->pix);
  else resize_along_x(x, buf, row, j->dtype, j->pix);
  return buf;
}

/* Rows of one plane, asked for in order and each once: sums over many inputs are made for several rows at a time. */
typedef struct row_group {
  const resize_table *x;
  const aug_part *part;
  int64_t plane, first, count; /* what lies in `rows` */
  float *rows, *turned;        /* turned: NULL where the rows are too wide for it */
  size_t line;
} row_group;

#define TURNED_MOST ((int64_t)1 << 18) /* floats: what a processor keeps near itself */

static row_group group_of(const resize_self *s, const aug_part *part, int64_t plane, float *lines, size_t line) {
  bool turn = s->x.active && s->x.most > 2 && (int64_t)part->job->w * part->job->pix * RESIZE_GROUP <= TURNED_MOST;
  float *rows = lines + (size_t)s->y.live * line;
  return (row_group){&s->x, part, plane, 0, 0, rows, turn ? rows + RESIZE_GROUP * line : NULL, line};
}

static const float *row_of(row_group *g, int64_t r, int64_t end) {
  const aug_job *j = g->part->job;
  if (!g->turned) return scaled_row(g->x, g->part, g->plane, r, g->rows);
  if (r >= g->first + g->count) {
    const void *from = aug_in_row(j, g->part->sample, g->plane, r, aug_element(j->dtype));
    g->first = r;
    g->count = end - r < RESIZE_GROUP ? end - r : RESIZE_GROUP;
    resize_group_along_x(g->x, g->rows, g->line, from, (int64_t)j->w * j->pix, (int)g->count, j->dtype, j->pix,
                         g->turned);
  }
  return g->rows + (size_t)(r - g->first) * g->line;
}

static void only_x(const resize_self *s, const aug_part *part, int64_t plane, float *lines, size_t line) {
  const aug_job *j = part->job;
  int64_t n = (int64_t)j->out_w * j->pix;
  size_t bytes = aug_element(j->dtype);
  row_group g = group_of(s, part, plane, lines, line);
  for (int64_t i = part->from; i < part->to; i++) {
    void *out = aug_out_row(j, part->sample, plane, i, bytes);
    if (!s->x.active) memcpy(out, aug_in_row(j, part->sample, plane, i, bytes), (size_t)n * bytes);
    else if (j->dtype == SP_U8) resize_to_bytes(out, row_of(&g, i, part->to), n);
    else if (!g.turned) scaled_row(&s->x, part, plane, i, out);
    else memcpy(out, row_of(&g, i, part->to), (size_t)n * bytes);
  }
}

/* At most two rows make one: the last two are kept, since the next output mostly needs them again. */
static void two_rows(const resize_self *s, const aug_part *part, int64_t plane, float *lines, size_t line) {
  const aug_job *j = part->job;
  const float *kept[2] = {NULL, NULL};
  int32_t which[2] = {-1, -1};
  int64_t n = (int64_t)j->out_w * j->pix;
  for (int64_t i = part->from; i < part->to; i++) {
    const float *w = s->y.w + i * s->y.most;
    int32_t lo = s->y.first[i], count = s->y.n[i];
    for (int32_t r = lo; r < lo + count; r++) {
      if (which[r & 1] == r) continue;
      which[r & 1] = r;
      kept[r & 1] = scaled_row(&s->x, part, plane, r, lines + (size_t)(r & 1) * line);
    }
    const float *a = kept[lo & 1], *b = count > 1 ? kept[(lo + 1) & 1] : a;
    void *out = aug_out_row(j, part->sample, plane, i, aug_element(j->dtype));
    if (j->dtype == SP_F32) resize_mix(out, a, w[0], b, count > 1 ? w[1] : 0.0f, n);
    else resize_mix_bytes(out, a, w[0], b, count > 1 ? w[1] : 0.0f, n);
  }
}

/* Every input row is scaled once and added to the outputs that it belongs to, in the order of the rows; floats add up
 * in the output, bytes in scratch, where as many rows lie as are begun and not done. */
static void many_rows(const resize_self *s, const aug_part *part, int64_t plane, float *lines, size_t line) {
  const aug_job *j = part->job;
  const resize_table *y = &s->y;
  int64_t n = (int64_t)j->out_w * j->pix, done = part->from;
  int64_t end = y->first[part->to - 1] + y->n[part->to - 1];
  row_group g = group_of(s, part, plane, lines, line);
  for (int32_t r = y->first[done]; done < part->to; r++) {
    const float *row = row_of(&g, r, end);
    for (int64_t i = done; i < part->to && y->first[i] <= r; i++) {
      int32_t k = r - y->first[i];
      if (k >= y->n[i]) continue;
      void *out = aug_out_row(j, part->sample, plane, i, aug_element(j->dtype));
      float *sum = j->dtype == SP_F32 ? out : lines + (size_t)(i % y->live) * line, w = y->w[i * y->most + k];
      if (k) resize_add(sum, row, w, n);
      else resize_set(sum, row, w, n);
      if (k + 1 < y->n[i]) continue;
      if (j->dtype == SP_U8) resize_to_bytes(out, sum, n);
    }
    while (done < part->to && r + 1 >= y->first[done] + y->n[done]) done++;
  }
}

static void nearest(const resize_self *s, const aug_part *part) {
  const aug_job *j = part->job;
  size_t bytes = aug_element(j->dtype), line = (size_t)j->out_w * bytes;
  const void *above = NULL;
  for (int32_t i = part->from, last = -1; i < part->to; i++) {
    int32_t r = s->y.near[i];
    void *out = aug_out_row(j, part->sample, 0, i, bytes);
    const void *row = aug_in_row(j, part->sample, 0, r, bytes);
    if (r == last) memcpy(out, above, line);
    else if (!s->x.active) memcpy(out, row, line);
    else resize_pick(&s->x, out, row, bytes);
    last = r;
    above = out;
  }
}

static int rows(const void *arg, const aug_part *part, int worker) {
  const resize_call *c = arg;
  const resize_self *s = c->s;
  size_t line = line_floats(part->job->out_w, part->job->pix);
  if (part->job->mask) {
    nearest(s, part);
    return SP_OK;
  }
  float *lines = (float *)(void *)c->scratch + (size_t)worker * s->floats;
  for (int64_t plane = 0; plane < part->job->planes; plane++)
    if (!s->y.active) only_x(s, part, plane, lines, line);
    else if (s->y.most <= 2) two_rows(s, part, plane, lines, line);
    else many_rows(s, part, plane, lines, line);
  return SP_OK;
}

static int create(sp_ctx *ctx, const void *params, void **out) {
  resize_self *s = calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory");
  s->p = params;
  *out = s;
  return SP_OK;
}

static void destroy(void *self) {
  resize_self *s = self;
  resize_table_free(&s->x);
  resize_table_free(&s->y);
  free(s);
}

static int plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  resize_self *s = self;
  int64_t h, w, widest = 1;
  int rc = resize_check(ctx, s->p, plan, &h, &w);
  if (rc) return rc;
  int32_t out_h = (int32_t)s->p->size.v[0], out_w = (int32_t)s->p->size.v[s->p->size.n - 1];
  if (resize_table_make(&s->x, resize_axis_of((int32_t)w, out_w, s->p->antialias)) ||
      resize_table_make(&s->y, resize_axis_of((int32_t)h, out_h, s->p->antialias)))
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the weights of %lld x %lld to %d x %d", (long long)h,
                           (long long)w, out_h, out_w);
  for (uint32_t i = 0; i < plan->in[AUG_IMAGES].n; i++) {
    const sp_spec *in = &plan->in[AUG_IMAGES].spec[i];
    if (in->order == SP_CHANNELS_LAST && in->shape[1] > widest) widest = in->shape[1];
  }
  const sp_parallel *par = ctx->host->get_extension(ctx, SP_EXT_PARALLEL);
  int64_t turned = s->x.most > 2 ? w * widest * RESIZE_GROUP : 0;
  s->floats = line_floats(out_w, widest) * (size_t)(s->y.live + RESIZE_GROUP);
  s->floats += (size_t)(turned < TURNED_MOST ? turned : TURNED_MOST);
  plan->scratch_bytes = s->floats * (size_t)(par ? par->threads(ctx) : 1) * sizeof(float);
  return SP_OK;
}

/* Cut by what there is to do, which is more than the output says where images shrink. */
static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const resize_self *s = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  const aug_job *j = jobs.job;
  int64_t in = (int64_t)j->h * j->w, out = (int64_t)j->out_h * j->out_w, blocks = (in > out ? in : out) / 16384;
  blocks = blocks < 1 ? 1 : blocks > 16 ? 16 : blocks;
  resize_call c = {s, io->scratch};
  aug_run r = {&jobs, rows, &c, blocks < j->out_h ? blocks : j->out_h};
  return par_run(ctx, jobs.count * jobs.n * r.blocks, aug_item, &r);
}

AUG_CPU_STAGE(resize, "resize", RESIZE_DOC, 0, .create = create, .destroy = destroy, .plan = plan, .forward = forward);
