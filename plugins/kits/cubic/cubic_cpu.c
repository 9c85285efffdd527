/* SPDX-License-Identifier: MIT
 * cubic_cpu.c - bytes, bicubic with antialiasing: rows are scaled along x into a ring of bytes, eight at once, and
 * these are added up along y. */
#include <string.h>

#include "cubic.h"

/* Compiled for several instruction sets, chosen when the module is loaded; the sums are whole numbers. Sanitizers'
 * runtimes are not up yet when the choice is made, so not under them. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VEC __attribute__((target_clones("avx2", "default")))
#else
#define VEC
#endif
#define INLINE static inline __attribute__((always_inline))

enum {
  GROUP = 8,            /* rows that are scaled along x together: their bytes lie side by side */
  KEPT = 256,           /* rows that an output may want kept; where it takes more, its neighbour scales them again */
  TURNED_MOST = 1 << 20 /* bytes: what a processor keeps near itself */
};

/* ---- tables ---- */
size_t cubic_table_bytes(const cubic_axis *a, int32_t count) {
  return (size_t)count * (2 + (size_t)cubic_most(a)) * sizeof(int32_t);
}

void cubic_table_in(cubic_table *t, const cubic_axis *a, int64_t from, int32_t count, void *memory) {
  int32_t *first = memory, *n = first + count, *w = n + count, most = cubic_most(a);
  for (int32_t i = 0; i < count; i++) {
    double centre = cubic_centre(a, from + i), total = cubic_span(a, centre, &first[i], &n[i]);
    for (int32_t k = 0; k < n[i]; k++)
      w[(size_t)i * (size_t)most + (size_t)k] = cubic_whole(cubic_tap(a, centre, first[i] + k) / total);
  }
  *t = (cubic_table){first, n, w, count, most, a->in != a->out || from || count != a->out};
}

/* ---- along x ---- */
/* Bytes are kept in 16 bits, which compilers know how to widen. */
typedef int32_t sums __attribute__((vector_size(4 * GROUP)));
typedef int16_t group __attribute__((vector_size(2 * GROUP)));

/* By pointers, since how vectors are passed depends on the instruction set. */
INLINE void add(sums *sum, const int16_t *x, int32_t w) {
  group v;
  memcpy(&v, x, sizeof v);
  *sum += __builtin_convertvector(v, sums) * w;
}

VEC static void to_bytes(uint8_t *restrict out, const int32_t *restrict sum, int64_t n) {
  for (int64_t e = 0; e < n; e++) out[e] = cubic_byte(sum[e]);
}

/* n bytes of GROUP rows, those of a column side by side. */
VEC static void turn(int16_t *restrict to, const uint8_t *const rows[GROUP], int64_t n) {
  for (int64_t e = 0; e < n; e++)
    for (int r = 0; r < GROUP; r++) to[e * GROUP + r] = rows[r][e];
}

/* The other way. */
VEC static void turn_back(uint8_t *const rows[GROUP], const uint8_t *restrict from, int64_t n) {
  for (int64_t e = 0; e < n; e++)
    for (int r = 0; r < GROUP; r++) rows[r][e] = from[e * GROUP + r];
}

/* C: channels that are made together, a constant. */
INLINE void pixels_along_x(const cubic_table *t, int32_t *restrict to, const int16_t *restrict turned, int64_t pix,
                           int C) {
  for (int32_t i = 0; i < t->out; i++) {
    const int32_t *w = t->w + (size_t)i * (size_t)t->most, n = t->n[i];
    for (int64_t c = 0; c < pix; c += C) {
      const int16_t *a = turned + (t->first[i] * pix + c) * GROUP;
      sums sum[4];
      for (int b = 0; b < C; b++) sum[b] = (sums){0} + CUBIC_HALF;
      for (int32_t k = 0; k < n; k++, a += pix * GROUP)
        for (int b = 0; b < C; b++) add(&sum[b], a + b * GROUP, w[k]);
      for (int b = 0; b < C; b++) memcpy(to + (i * pix + c + b) * GROUP, &sum[b], sizeof sum[b]);
    }
  }
}

VEC static void turned_along_x(const cubic_table *t, int32_t *to, const int16_t *turned, int64_t pix) {
  if (pix == 3) pixels_along_x(t, to, turned, 3, 3);
  else if (pix == 1) pixels_along_x(t, to, turned, 1, 1);
  else if (pix % 4 == 0) pixels_along_x(t, to, turned, pix, 4);
  else pixels_along_x(t, to, turned, pix, 1);
}

static void row_along_x(const cubic_table *t, uint8_t *out, const uint8_t *x, int64_t pix) {
  for (int32_t i = 0; i < t->out; i++)
    for (int64_t c = 0; c < pix; c++) {
      const uint8_t *a = x + t->first[i] * pix + c;
      int32_t sum = CUBIC_HALF;
      for (int32_t k = 0; k < t->n[i]; k++) sum += a[k * pix] * t->w[(size_t)i * (size_t)t->most + (size_t)k];
      out[i * pix + c] = cubic_byte(sum);
    }
}

/* A worker's memory. Rows that are scaled along x are a ring, row r at r % size, which has from .. to - 1; they are
 * made in groups, of which the rows that are too many go to `spare`. */
typedef struct room {
  const cubic_job *j;
  int32_t *sums;   /* of a group, or of a row */
  int16_t *turned; /* NULL where the rows are too long for it */
  uint8_t *made, *spare, *rows;
  size_t line;
  int32_t size, from, to;
} room;

/* Rows from .. from + count - 1 of the input. */
static void scale_group(room *g, int32_t from, int32_t count, uint8_t *const out[GROUP]) {
  const cubic_job *j = g->j;
  const uint8_t *rows[GROUP];
  int64_t n = (int64_t)j->x->out * j->pix;
  for (int r = 0; r < GROUP; r++) rows[r] = j->in + (size_t)(from + (r < count ? r : count - 1)) * j->in_pitch;
  if (g->turned && count > 1) {
    turn(g->turned, rows, (int64_t)j->in_w * j->pix);
    turned_along_x(j->x, g->sums, g->turned, j->pix);
    to_bytes(g->made, g->sums, n * GROUP);
    turn_back(out, g->made, n);
  } else {
    for (int r = 0; r < count; r++) row_along_x(j->x, out[r], rows[r], j->pix);
  }
}

/* ---- along y ---- */
/* sum[0 .. n - 1] += rows times weights; the rows lie `pitch` apart. */
VEC static void add_rows(int32_t *restrict sum, const uint8_t *restrict x, size_t pitch, const int32_t *restrict w,
                         int32_t rows, int64_t n) {
  int32_t k = 0;
  for (; k + 4 <= rows; k += 4, x += 4 * pitch) {
    const uint8_t *a = x, *b = a + pitch, *c = b + pitch, *d = c + pitch;
    int32_t wa = w[k], wb = w[k + 1], wc = w[k + 2], wd = w[k + 3];
    for (int64_t e = 0; e < n; e++) sum[e] += a[e] * wa + b[e] * wb + c[e] * wc + d[e] * wd;
  }
  for (; k < rows; k++, x += pitch)
    for (int64_t e = 0; e < n; e++) sum[e] += x[e] * w[k];
}

/* Has rows from .. to - 1, of which there are no more than KEPT. */
static void need(room *g, int32_t from, int32_t to, int32_t end) {
  if (from < g->from || from > g->to) g->from = g->to = from;
  while (g->to < to) {
    int32_t count = end - g->to < GROUP ? end - g->to : GROUP;
    uint8_t *out[GROUP];
    for (int r = 0; r < GROUP; r++) out[r] = r < count ? g->rows + (size_t)((g->to + r) % g->size) * g->line : g->spare;
    scale_group(g, g->to, count, out);
    g->to += count;
    if (g->to - g->from > g->size) g->from = g->to - g->size;
  }
}

/* Adds input rows from .. from + count - 1. */
static void add_input(room *g, int32_t *sum, int32_t from, int32_t count, const int32_t *w, int32_t end) {
  const cubic_job *j = g->j;
  int64_t n = (int64_t)j->x->out * j->pix;
  if (!j->x->active) {
    add_rows(sum, j->in + (size_t)from * j->in_pitch, j->in_pitch, w, count, n);
    return;
  }
  need(g, from, from + count, end);
  int32_t at = from % g->size, before = g->size - at < count ? g->size - at : count; /* as far as the ring's end */
  add_rows(sum, g->rows + (size_t)at * g->line, g->line, w, before, n);
  add_rows(sum, g->rows, g->line, w + before, count - before, n);
}

static void both_axes(room *g) {
  const cubic_job *j = g->j;
  const cubic_table *y = j->y;
  int32_t end = y->first[j->to - 1] + y->n[j->to - 1], *sum = g->sums + g->line * GROUP;
  int64_t n = (int64_t)j->x->out * j->pix;
  for (int32_t i = j->from; i < j->to; i++) {
    const int32_t *w = y->w + (size_t)i * (size_t)y->most;
    for (int64_t e = 0; e < n; e++) sum[e] = CUBIC_HALF;
    for (int32_t k = 0; k < y->n[i]; k += KEPT)
      add_input(g, sum, y->first[i] + k, y->n[i] - k < KEPT ? y->n[i] - k : KEPT, w + k, end);
    to_bytes(j->out + (size_t)(i - j->from) * j->out_pitch, sum, n);
  }
}

static void only_x(room *g) {
  const cubic_job *j = g->j;
  for (int32_t i = j->from; i < j->to; i += GROUP) {
    uint8_t *out[GROUP];
    int32_t count = j->to - i < GROUP ? j->to - i : GROUP;
    for (int r = 0; r < GROUP; r++) out[r] = r < count ? j->out + (size_t)(i - j->from + r) * j->out_pitch : g->spare;
    scale_group(g, i, count, out);
  }
}

/* ---- memory ---- */
static size_t rounded(size_t bytes) { return (bytes + 63) & ~(size_t)63; }
static size_t turned_bytes(int32_t in_w, int64_t pix) {
  return rounded((size_t)in_w * (size_t)pix * GROUP * sizeof(int16_t));
}
static int32_t ring_rows(int32_t most) { return (most < KEPT ? most : KEPT) + GROUP; }
/* Of a line: the sums of a group and of a row, what is made of a group, the spare one, the ring. */
static size_t lines(int32_t most_y) { return (GROUP + 1) * sizeof(int32_t) + GROUP + 1 + (size_t)ring_rows(most_y); }

size_t cubic_bytes_memory(int32_t in_w, int32_t out_w, int64_t pix, int32_t most_y) {
  size_t turned = turned_bytes(in_w, pix); /* that of narrower windows may fit where this does not */
  return rounded((size_t)out_w * (size_t)pix) * lines(most_y) + (turned < TURNED_MOST ? turned : TURNED_MOST);
}

void cubic_bytes(const cubic_job *j, void *memory) {
  size_t line = rounded((size_t)j->x->out * (size_t)j->pix), turned = turned_bytes(j->in_w, j->pix);
  room g = {.j = j, .sums = memory, .line = line, .size = ring_rows(j->y->most)};
  g.made = (uint8_t *)memory + (GROUP + 1) * line * sizeof(int32_t);
  g.spare = g.made + GROUP * line;
  g.rows = g.spare + line;
  if (turned <= TURNED_MOST) g.turned = (int16_t *)(void *)(g.rows + (size_t)g.size * line);
  if (j->y->active) both_axes(&g);
  else if (j->x->active) only_x(&g);
  else
    for (int32_t i = j->from; i < j->to; i++)
      memcpy(j->out + (size_t)(i - j->from) * j->out_pitch, j->in + (size_t)i * j->in_pitch,
             (size_t)j->x->out * (size_t)j->pix);
}
