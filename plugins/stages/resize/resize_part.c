/* SPDX-License-Identifier: MIT
 * resize_part.c - rows of the output of a window: its rows are scaled along x into a worker's memory, and added up
 * along y. */
#include "resize_part.h"

#include <stdbool.h>
#include <string.h>

/* A worker's memory holds rows of the widest output; each begins on a cache line. */
static size_t line_floats(int64_t out_w, int64_t pix) { return ((size_t)out_w * (size_t)pix + 15) & ~(size_t)15; }

#define TURNED_MOST ((int64_t)1 << 18) /* floats: what a processor keeps near itself */

size_t resize_part_floats(const resize_room *r) {
  int64_t turned = r->most_x > 2 ? r->in_w * r->pix * RESIZE_GROUP : 0;
  size_t n = line_floats(r->out_w, r->pix) * (size_t)(r->live + RESIZE_GROUP) +
             (size_t)(turned < TURNED_MOST ? turned : TURNED_MOST);
  size_t bytes = r->cubic ? cubic_bytes_memory((int32_t)r->in_w, (int32_t)r->out_w, r->pix, r->most_y) : 0;
  size_t cubic = (bytes + 63) / 64 * (64 / sizeof(float));
  return n > cubic ? n : cubic;
}

/* Row r of the window. */
static const void *in_row(const resize_way *way, const aug_part *part, int64_t plane, int64_t r) {
  const aug_job *j = part->job;
  size_t bytes = aug_element(j->dtype);
  const char *row = aug_in_row(j, part->sample, plane, way->top + r, bytes);
  return row + (size_t)way->left * (size_t)j->pix * bytes;
}

/* The same, scaled along x; in `buf` where it is not the input's own row. */
static const float *scaled_row(const resize_way *way, const aug_part *part, int64_t plane, int64_t r, float *buf) {
  const aug_job *j = part->job;
  const void *row = in_row(way, part, plane, r);
  if (!way->x->active && j->dtype == SP_F32) return row;
  if (!way->x->active) resize_widen(buf, row, (int64_t)way->w * j->pix);
  else resize_along_x(way->x, buf, row, j->dtype, j->pix);
  return buf;
}

/* Rows of one plane, asked for in order and each once: sums over many inputs are made for several rows at a time. */
typedef struct row_group {
  const resize_way *way;
  const aug_part *part;
  int64_t plane, first, count; /* what lies in `rows` */
  float *rows, *turned;        /* turned: NULL where the rows are too wide for it */
  size_t line;
} row_group;

static row_group group_of(const resize_way *way, const aug_part *part, int64_t plane, float *lines, size_t line) {
  bool turn = way->x->active && way->x->most > 2 && (int64_t)way->w * part->job->pix * RESIZE_GROUP <= TURNED_MOST;
  float *rows = lines + (size_t)way->y->live * line;
  return (row_group){way, part, plane, 0, 0, rows, turn ? rows + RESIZE_GROUP * line : NULL, line};
}

static const float *row_of(row_group *g, int64_t r, int64_t end) {
  const aug_job *j = g->part->job;
  if (!g->turned) return scaled_row(g->way, g->part, g->plane, r, g->rows);
  if (r >= g->first + g->count) {
    g->first = r;
    g->count = end - r < RESIZE_GROUP ? end - r : RESIZE_GROUP;
    resize_group_along_x(g->way->x, g->rows, g->line, in_row(g->way, g->part, g->plane, r), (int64_t)g->way->w * j->pix,
                         (int64_t)j->w * j->pix, (int)g->count, j->dtype, j->pix, g->turned);
  }
  return g->rows + (size_t)(r - g->first) * g->line;
}

static void only_x(const resize_way *way, const aug_part *part, int64_t plane, float *lines, size_t line) {
  const aug_job *j = part->job;
  int64_t n = (int64_t)j->out_w * j->pix;
  size_t bytes = aug_element(j->dtype);
  row_group g = group_of(way, part, plane, lines, line);
  for (int64_t i = part->from; i < part->to; i++) {
    void *out = aug_out_row(j, part->sample, plane, i, bytes);
    if (!way->x->active) memcpy(out, in_row(way, part, plane, i), (size_t)n * bytes);
    else if (j->dtype == SP_U8) resize_to_bytes(out, row_of(&g, i, part->to), n);
    else if (!g.turned) scaled_row(way, part, plane, i, out);
    else memcpy(out, row_of(&g, i, part->to), (size_t)n * bytes);
  }
}

/* At most two rows make one: the last two are kept, since the next output mostly needs them again. */
static void two_rows(const resize_way *way, const aug_part *part, int64_t plane, float *lines, size_t line) {
  const aug_job *j = part->job;
  const float *kept[2] = {NULL, NULL};
  int32_t which[2] = {-1, -1};
  int64_t n = (int64_t)j->out_w * j->pix;
  for (int64_t i = part->from; i < part->to; i++) {
    const float *w = way->y->w + i * way->y->most;
    int32_t lo = way->y->first[i], count = way->y->n[i];
    for (int32_t r = lo; r < lo + count; r++) {
      if (which[r & 1] == r) continue;
      which[r & 1] = r;
      kept[r & 1] = scaled_row(way, part, plane, r, lines + (size_t)(r & 1) * line);
    }
    const float *a = kept[lo & 1], *b = count > 1 ? kept[(lo + 1) & 1] : a;
    void *out = aug_out_row(j, part->sample, plane, i, aug_element(j->dtype));
    if (j->dtype == SP_F32) resize_mix(out, a, w[0], b, count > 1 ? w[1] : 0.0f, n);
    else resize_mix_bytes(out, a, w[0], b, count > 1 ? w[1] : 0.0f, n);
  }
}

/* Every input row is scaled once and added to the outputs that it belongs to, in the order of the rows; floats add up
 * in the output, bytes in memory, where as many rows lie as are begun and not done. */
static void many_rows(const resize_way *way, const aug_part *part, int64_t plane, float *lines, size_t line) {
  const aug_job *j = part->job;
  const resize_table *y = way->y;
  int64_t n = (int64_t)j->out_w * j->pix, done = part->from;
  int64_t end = y->first[part->to - 1] + y->n[part->to - 1];
  row_group g = group_of(way, part, plane, lines, line);
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

static void nearest(const resize_way *way, const aug_part *part) {
  const aug_job *j = part->job;
  size_t bytes = aug_element(j->dtype), line = (size_t)j->out_w * bytes;
  const void *above = NULL;
  for (int32_t i = part->from, last = -1; i < part->to; i++) {
    int32_t r = way->y->near[i];
    void *out = aug_out_row(j, part->sample, 0, i, bytes);
    const void *row = in_row(way, part, 0, r);
    if (r == last) memcpy(out, above, line);
    else if (!way->x->active) memcpy(out, row, line);
    else resize_pick(way->x, out, row, bytes);
    last = r;
    above = out;
  }
}

static cubic_table whole_table(const resize_table *t) {
  return (cubic_table){t->first, t->n, t->whole, t->out, t->most, t->active};
}

static void cubic_part(const resize_way *way, const aug_part *part, void *memory) {
  const aug_job *j = part->job;
  cubic_table x = whole_table(way->x), y = whole_table(way->y);
  for (int64_t plane = 0; plane < j->planes; plane++)
    cubic_bytes(&(cubic_job){.x = &x,
                             .y = &y,
                             .in = in_row(way, part, plane, 0),
                             .out = aug_out_row(j, part->sample, plane, part->from, 1),
                             .in_pitch = (size_t)j->w * (size_t)j->pix,
                             .out_pitch = (size_t)j->out_w * (size_t)j->pix,
                             .pix = j->pix,
                             .in_w = way->w,
                             .from = part->from,
                             .to = part->to},
                memory);
}

void resize_part(const resize_way *way, const aug_part *part, float *lines) {
  size_t line = line_floats(part->job->out_w, part->job->pix);
  if (part->job->mask) {
    nearest(way, part);
    return;
  }
  if (way->x->whole && part->job->dtype == SP_U8) {
    cubic_part(way, part, lines);
    return;
  }
  for (int64_t plane = 0; plane < part->job->planes; plane++)
    if (!way->y->active) only_x(way, part, plane, lines, line);
    else if (way->y->most <= 2) two_rows(way, part, plane, lines, line);
    else many_rows(way, part, plane, lines, line);
}

int resize_in_blocks(sp_ctx *ctx, const aug_jobs *jobs, int (*rows)(const void *, const aug_part *, int),
                     const void *arg) {
  const aug_job *j = jobs->job;
  int64_t in = (int64_t)j->h * j->w, out = (int64_t)j->out_h * j->out_w, blocks = (in > out ? in : out) / 16384;
  blocks = blocks < 1 ? 1 : blocks > 16 ? 16 : blocks;
  aug_run r = {jobs, rows, arg, blocks < j->out_h ? blocks : j->out_h};
  return par_run(ctx, jobs->count * jobs->n * r.blocks, aug_item, &r);
}
