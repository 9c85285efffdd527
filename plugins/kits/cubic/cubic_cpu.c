/* SPDX-License-Identifier: MIT
 * cubic_cpu.c - bytes, bicubic with antialiasing: rows are scaled along x into a ring of bytes, eight at once, and these
 * are added up along y. */
#include <string.h>

#include "cubic.h"

/* Compiled for several instruction sets, chosen when the module is loaded; the sums are whole numbers. Sanitizers'
 * runtimes are not up yet when the choice is made, so not under them. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VEC __attribute__((target_clones("arch=haswell", "default")))
#else
#define VEC
#endif
#define INLINE static inline __attribute__((always_inline))

enum {
  GROUP = 8,            /* rows that are scaled along x together: their bytes lie side by side */
  AT_ONCE = 32,         /* sums along y that are made together */
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
typedef int32_t sums __attribute__((vector_size(4 * GROUP)));
typedef uint8_t group __attribute__((vector_size(GROUP)));

/* By pointers, since how vectors are passed depends on the instruction set. */
INLINE void add(sums *sum, const uint8_t *x, int32_t w) {
  group v;
  memcpy(&v, x, sizeof v);
  *sum += __builtin_convertvector(v, sums) * w;
}

INLINE void bytes_of(group *to, const sums *sum) {
  sums v = *sum >> CUBIC_BITS;
  v &= v > 0;
  sums large = v > 255;
  *to = __builtin_convertvector((v & ~large) | (large & 255), group);
}

/* n bytes of GROUP rows, those of a column side by side. */
VEC static void turn(uint8_t *restrict to, const uint8_t *const rows[GROUP], int64_t n) {
  for (int64_t e = 0; e < n; e++)
    for (int r = 0; r < GROUP; r++) to[e * GROUP + r] = rows[r][e];
}

VEC static void turned_along_x(const cubic_table *t, uint8_t *const out[GROUP], const uint8_t *turned, int64_t pix) {
  for (int32_t i = 0; i < t->out; i++) {
    const int32_t *w = t->w + (size_t)i * (size_t)t->most, n = t->n[i];
    for (int64_t c = 0; c < pix; c++) {
      const uint8_t *a = turned + (t->first[i] * pix + c) * GROUP;
      sums sum = (sums){0} + CUBIC_HALF;
      for (int32_t k = 0; k < n; k++) add(&sum, a + k * pix * GROUP, w[k]);
      group made;
      bytes_of(&made, &sum);
      for (int r = 0; r < GROUP; r++) out[r][i * pix + c] = made[r];
    }
  }
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

/* Rows from .. from + count - 1 of the input, to GROUP rows, of which those behind are spare. */
static void scale_group(const cubic_job *j, int32_t from, int32_t count, uint8_t *const out[GROUP], uint8_t *turned) {
  const uint8_t *rows[GROUP];
  for (int r = 0; r < GROUP; r++) rows[r] = j->in + (size_t)(from + (r < count ? r : count - 1)) * j->in_pitch;
  if (turned && count > 1) {
    turn(turned, rows, (int64_t)j->in_w * j->pix);
    turned_along_x(j->x, out, turned, j->pix);
  } else {
    for (int r = 0; r < count; r++) row_along_x(j->x, out[r], rows[r], j->pix);
  }
}

/* ---- along y ---- */
/* acc[0 .. n - 1] += rows times weights; the rows lie `pitch` apart. */
VEC static void add_rows(int32_t *restrict acc, const uint8_t *x, size_t pitch, const int32_t *w, int32_t rows,
                         int64_t n) {
  int64_t e = 0;
  for (; e + AT_ONCE <= n; e += AT_ONCE) {
    sums sum[AT_ONCE / GROUP];
    memcpy(sum, acc + e, sizeof sum);
    const uint8_t *a = x + e;
    for (int32_t k = 0; k < rows; k++, a += pitch)
      for (int g = 0; g < AT_ONCE / GROUP; g++) add(&sum[g], a + g * GROUP, w[k]);
    memcpy(acc + e, sum, sizeof sum);
  }
  for (; e < n; e++)
    for (int32_t k = 0; k < rows; k++) acc[e] += x[(size_t)k * pitch + (size_t)e] * w[k];
}

VEC static void to_bytes(uint8_t *restrict out, const int32_t *restrict acc, int64_t n) {
  for (int64_t e = 0; e < n; e++) out[e] = cubic_byte(acc[e]);
}

/* Rows from .. to - 1, scaled along x, row r at r % size; `spare` takes what a group has too many. */
typedef struct ring {
  const cubic_job *j;
  uint8_t *rows, *spare, *turned;
  size_t line;
  int32_t size, from, to;
} ring;

/* Has rows from .. to - 1, of which there are no more than KEPT. */
static void need(ring *g, int32_t from, int32_t to, int32_t end) {
  if (from < g->from || from > g->to) g->from = g->to = from;
  while (g->to < to) {
    int32_t count = end - g->to < GROUP ? end - g->to : GROUP;
    uint8_t *out[GROUP];
    for (int r = 0; r < GROUP; r++) out[r] = r < count ? g->rows + (size_t)((g->to + r) % g->size) * g->line : g->spare;
    scale_group(g->j, g->to, count, out, g->turned);
    g->to += count;
    if (g->to - g->from > g->size) g->from = g->to - g->size;
  }
}

/* Adds input rows from .. from + count - 1. */
static void add_input(ring *g, int32_t *acc, int32_t from, int32_t count, const int32_t *w, int32_t end) {
  const cubic_job *j = g->j;
  int64_t n = (int64_t)j->x->out * j->pix;
  if (!j->x->active) {
    add_rows(acc, j->in + (size_t)from * j->in_pitch, j->in_pitch, w, count, n);
    return;
  }
  need(g, from, from + count, end);
  int32_t at = from % g->size, before = g->size - at < count ? g->size - at : count; /* as far as the ring's end */
  add_rows(acc, g->rows + (size_t)at * g->line, g->line, w, before, n);
  add_rows(acc, g->rows, g->line, w + before, count - before, n);
}

static void both_axes(const cubic_job *j, ring *g, int32_t *acc) {
  const cubic_table *y = j->y;
  int32_t end = y->first[j->to - 1] + y->n[j->to - 1];
  int64_t n = (int64_t)j->x->out * j->pix;
  for (int32_t i = j->from; i < j->to; i++) {
    const int32_t *w = y->w + (size_t)i * (size_t)y->most;
    for (int64_t e = 0; e < n; e++) acc[e] = CUBIC_HALF;
    for (int32_t k = 0; k < y->n[i]; k += KEPT)
      add_input(g, acc, y->first[i] + k, y->n[i] - k < KEPT ? y->n[i] - k : KEPT, w + k, end);
    to_bytes(j->out + (size_t)(i - j->from) * j->out_pitch, acc, n);
  }
}

static void only_x(const cubic_job *j, uint8_t *spare, uint8_t *turned) {
  for (int32_t i = j->from; i < j->to; i += GROUP) {
    uint8_t *out[GROUP];
    int32_t count = j->to - i < GROUP ? j->to - i : GROUP;
    for (int r = 0; r < GROUP; r++) out[r] = r < count ? j->out + (size_t)(i - j->from + r) * j->out_pitch : spare;
    scale_group(j, i, count, out, turned);
  }
}

/* ---- memory ---- */
static size_t rounded(size_t bytes) { return (bytes + 63) & ~(size_t)63; }
static size_t turned_bytes(int32_t in_w, int64_t pix) {
  size_t all = (size_t)in_w * (size_t)pix * GROUP;
  return all <= TURNED_MOST ? rounded(all) : 0;
}
static int32_t ring_rows(int32_t most) { return (most < KEPT ? most : KEPT) + GROUP; }

size_t cubic_bytes_memory(int32_t in_w, int32_t out_w, int64_t pix, int32_t most_y) {
  size_t line = rounded((size_t)out_w * (size_t)pix);
  size_t turned = rounded((size_t)in_w * (size_t)pix * GROUP); /* of narrower windows it may fit where these do not */
  return line * ((size_t)ring_rows(most_y) + 1 + sizeof(int32_t)) + (turned < TURNED_MOST ? turned : TURNED_MOST);
}

void cubic_bytes(const cubic_job *j, void *memory) {
  size_t line = rounded((size_t)j->x->out * (size_t)j->pix), turned = turned_bytes(j->in_w, j->pix);
  int32_t *acc = memory;
  uint8_t *at = (uint8_t *)memory + line * sizeof *acc;
  uint8_t *spare = at + turned;
  ring g = {j, spare + line, spare, turned ? at : NULL, line, ring_rows(j->y->most), 0, 0};
  if (j->y->active) both_axes(j, &g, acc);
  else if (j->x->active) only_x(j, spare, g.turned);
  else
    for (int32_t i = j->from; i < j->to; i++)
      memcpy(j->out + (size_t)(i - j->from) * j->out_pitch, j->in + (size_t)i * j->in_pitch,
             (size_t)j->x->out * (size_t)j->pix);
}
