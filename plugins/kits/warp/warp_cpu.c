/* SPDX-License-Identifier: MIT
 * warp_cpu.c - images whose pixels come from elsewhere in them, on the CPU. A row is worked on in blocks: first where
 * its pixels come from, in loops that the compiler vectorises; then they are fetched; what four neighbours become is
 * a loop that it vectorises again. */
#include "warp_cpu.h"

#include "../aug/lanes.h"

#include <string.h>

/* The nearest whole number, half to even, without a call: exact for |v| < 2^22, which sizes are far below. */
static inline float nearest(float v) { return (v + 12582912.0f) - 12582912.0f; }

/* ---- places ---- */
AUG_VEC static void affine_places(warp_places *restrict at, const warp_map *restrict map, int32_t y, int32_t x) {
  const warp_map m = *map;
  float down = (float)y + m.top, by_x = down * m.x[1], by_y = down * m.y[1];
  for (int32_t i = 0; i < at->n; i++) {
    float across = (float)(x + i) + m.left;
    at->x[i] = warp_pixel(across * m.x[0] + by_x + m.x[2], m.w);
    at->y[i] = warp_pixel(across * m.y[0] + by_y + m.y[2], m.h);
  }
}

AUG_VEC static void plane_places(warp_places *restrict at, const warp_map *restrict map, int32_t y, int32_t x) {
  const warp_map m = *map;
  float down = (float)y + m.top;
  for (int32_t i = 0; i < at->n; i++) {
    float across = (float)(x + i) + m.left, depth = warp_depth(m.z, across, down);
    at->x[i] = warp_pixel(warp_line(m.x, across, down) / depth - 1.0f, m.w);
    at->y[i] = warp_pixel(warp_line(m.y, across, down) / depth - 1.0f, m.h);
  }
}

/* ---- nearest ---- */
/* Pixels from .. to of a block may come from the image; those before and behind are the fill. */
typedef struct reach {
  int32_t from, to;
} reach;

/* at[i]: a pixel of the plane, or -1. Returns how many are there. */
AUG_VEC static int32_t nearest_of(int32_t *restrict at, const warp_places *restrict p, int32_t h, int32_t w) {
  int32_t inside = 0;
  for (int32_t i = 0; i < p->n; i++) {
    int32_t x = (int32_t)nearest(p->x[i]), y = (int32_t)nearest(p->y[i]);
    int32_t in = (x >= 0) & (x < w) & (y >= 0) & (y < h);
    at[i] = (y * w + x) & -in;
    at[i] |= in - 1;
    inside += in;
  }
  return inside;
}

static reach nearest_reach(const int32_t *at, int32_t n) {
  reach r = {0, n};
  while (r.from < n && at[r.from] < 0) r.from++;
  while (r.to > r.from && at[r.to - 1] < 0) r.to--;
  return r;
}

#define FILL_PIXELS(type)                                                                                      \
  static void fill_##type(type *restrict y, int32_t n, int pix, const type *restrict fill, int fills) {        \
    if (pix == 1 || fills == 1)                                                                                \
      for (int64_t i = 0; i < (int64_t)n * pix; i++) y[i] = fill[0];                                           \
    else                                                                                                       \
      for (int32_t i = 0; i < n; i++)                                                                          \
        for (int c = 0, k = 0; c < pix; c++, k = k + 1 < fills ? k + 1 : 0) y[(int64_t)i * pix + c] = fill[k]; \
  }
FILL_PIXELS(uint8_t)
FILL_PIXELS(uint32_t)
FILL_PIXELS(uint64_t)

/* All of them are in the image; and where some are not: where f is what a channel gets then. */
#define MOVE_PIXELS(type, pix_)                            \
  for (int32_t i = 0; i < n; i++) {                        \
    const type *restrict px = x + (int64_t)at[i] * (pix_); \
    type *restrict py = y + (int64_t)i * (pix_);           \
    for (int c = 0; c < (pix_); c++) py[c] = px[c];        \
  }
#define MOVE_SOME(type, pix_, f)                                                           \
  for (int32_t i = 0; i < n; i++) {                                                        \
    const type *restrict px = x + (int64_t)(at[i] < 0 ? 0 : at[i]) * (pix_);               \
    for (int c = 0; c < (pix_); c++) y[(int64_t)i * (pix_) + c] = at[i] < 0 ? (f) : px[c]; \
  }
#define MOVES(type)                                                                                                 \
  static void move_##type(type *restrict y, const type *restrict x, const int32_t *restrict at, int32_t n, int pix, \
                          int32_t inside, const type *restrict fill, int fills) {                                   \
    if (inside == n && pix == 1) MOVE_PIXELS(type, 1)                                                               \
    else if (inside == n && pix == 3) MOVE_PIXELS(type, 3)                                                          \
    else if (inside == n) MOVE_PIXELS(type, pix)                                                                    \
    else if (pix == 1) MOVE_SOME(type, 1, fill[0])                                                                  \
    else if (pix == 3) MOVE_SOME(type, 3, fill[fills == 1 ? 0 : c % fills])                                         \
    else MOVE_SOME(type, pix, fill[fills == 1 ? 0 : c % fills])                                                     \
  }
MOVES(uint8_t)
MOVES(uint32_t)
MOVES(uint64_t)

#define MOVE_BLOCK(type, value)                                                                        \
  {                                                                                                    \
    type *to = y;                                                                                      \
    fill_##type(to, r.from, pix, value, fills);                                                        \
    move_##type(to + (int64_t)r.from * pix, x, at + r.from, r.to - r.from, pix, inside, value, fills); \
    fill_##type(to + (int64_t)r.to * pix, p->n - r.to, pix, value, fills);                             \
  }

static void move_block(const aug_job *j, const warp_how *how, int64_t sample, int32_t row, int32_t from,
                       const warp_places *p) {
  size_t bytes = aug_element(j->dtype);
  int pix = j->pix;
  int32_t at[WARP_BLOCK], inside = nearest_of(at, p, j->h, j->w);
  reach r = inside == p->n ? (reach){0, p->n} : nearest_reach(at, p->n);
  for (int64_t plane = 0; plane < j->planes; plane++) {
    const void *x = aug_in_row(j, sample, plane, 0, bytes);
    void *y = (char *)aug_out_row(j, sample, plane, row, bytes) + (size_t)from * (size_t)pix * bytes;
    aug_fill fill;
    int fills = aug_fill_of(j, plane, how->fill, how->fills, how->mask_fill, &fill);
    if (j->dtype == SP_U8) MOVE_BLOCK(uint8_t, fill.b)
    else if (j->dtype == SP_I64) MOVE_BLOCK(uint64_t, &fill.u)
    else MOVE_BLOCK(uint32_t, fill.w)
  }
}

/* ---- bilinear ---- Of the four neighbours of a place those outside of the image weigh nothing, and the fill has
 * what they would. Neighbours are read at four pixels that are all there; where one is outside the weights stand with
 * others of them, zeros beside. */
typedef struct corners {
  _Alignas(64) float weight[4][WARP_BLOCK], all[WARP_BLOCK]; /* all: their sum, or 2 where nothing is outside */
  int32_t at[WARP_BLOCK];                                    /* the upper left of what is read */
  int32_t inside;                                            /* of how many all four are */
  reach reach;                                               /* those outside of it weigh 0 */
} corners;

/* warp_axis of eight places. */
LANES_FN lane_ints axis(lanes v, int32_t size, lane_ints *first, lanes *low, lanes *high) {
  const lanes none = {0};
  lane_ints i = lanes_ints(v), before, last;
  i += lanes_floats(i) > v;
  lanes part = v - lanes_floats(i), rest = 1.0f - part;
  rest = lanes_if((i >= 0) & (i < size), rest, none);
  part = lanes_if((i >= -1) & (i < size - 1), part, none);
  before = i < 0;
  last = size > 1 ? i > size - 2 : before & ~before;
  *low = lanes_if(before, part, lanes_if(last, none, rest));
  *high = lanes_if(before, none, lanes_if(last, rest, part));
  lane_ints inside = (i >= 0) & (i < size - 1);
  int32_t most = size > 1 ? size - 2 : 0;
  i = i & ~before;
  *first = lanes_int_if(i > most, most + (lane_ints){0}, i);
  return inside;
}

AUG_VEC static void corners_of(corners *restrict c, warp_places *restrict p, int32_t h, int32_t w) {
  lane_ints missing = {0};
  for (int32_t k = p->n; k % LANES; k++) p->x[k] = p->y[k] = 0; /* a block has room for whole lanes */
  for (int32_t k = 0; k < p->n; k += LANES) {
    lane_ints x, y;
    lanes left, right, upper, lower;
    lane_ints in = axis(lanes_of(p->x + k), w, &x, &left, &right);
    in &= axis(lanes_of(p->y + k), h, &y, &upper, &lower);
    lanes a = left * upper, b = right * upper, d = left * lower, e = right * lower;
    lanes_to(c->weight[0] + k, a);
    lanes_to(c->weight[1] + k, b);
    lanes_to(c->weight[2] + k, d);
    lanes_to(c->weight[3] + k, e);
    lanes_to(c->all + k, lanes_if(in, lanes_all(2.0f), ((a + b) + d) + e));
    y = y * w + x;
    memcpy(c->at + k, &y, sizeof y);
    for (int l = 0; l < LANES && p->n - k < LANES; l++) in[l] |= -(l >= p->n - k);
    missing -= ~in;
  }
  int32_t out = 0;
  for (int l = 0; l < LANES; l++) out += missing[l];
  c->inside = p->n - out;
  c->reach = (reach){0, p->n};
  while (c->reach.from < p->n && c->all[c->reach.from] == 0.0f) c->reach.from++;
  while (c->reach.to > c->reach.from && c->all[c->reach.to - 1] == 0.0f) c->reach.to--;
}

/* Four neighbours of each place, a byte each. */
typedef struct fours {
  _Alignas(64) uint32_t v[WARP_BLOCK];
} fours;

static void fetch_fours(fours *restrict f, const uint8_t *restrict x, const corners *restrict c, int64_t down) {
  for (int32_t i = c->reach.from; i < c->reach.to; i++) {
    uint16_t upper, lower;
    memcpy(&upper, x + c->at[i], 2);
    memcpy(&lower, x + c->at[i] + down, 2);
    f->v[i] = upper | (uint32_t)lower << 16;
  }
}

/* The same where three channels lie side by side. */
static void fetch_rgb(fours f[restrict 3], const uint8_t *restrict x, const corners *restrict c, int64_t down) {
  for (int32_t i = c->reach.from; i < c->reach.to; i++) {
    const uint8_t *p = x + 3 * (int64_t)c->at[i];
    uint32_t a, d; /* a pixel and a byte, and the two bytes behind it */
    uint16_t b, e;
    memcpy(&a, p, 4);
    memcpy(&b, p + 4, 2);
    memcpy(&d, p + down, 4);
    memcpy(&e, p + down + 4, 2);
    f[0].v[i] = (a & 255) | (a >> 24) << 8 | (d & 255) << 16 | (d >> 24) << 24;
    f[1].v[i] = (a >> 8 & 255) | (uint32_t)(b & 255) << 8 | (d & 0xff00) << 8 | (uint32_t)(e & 255) << 24;
    f[2].v[i] = (a >> 16 & 255) | (b & 0xff00u) | (d & 0xff0000) | (uint32_t)(e >> 8) << 24;
  }
}

static void fetch_any(fours *restrict f, const uint8_t *restrict x, const corners *restrict c, int pix, int64_t right,
                      int64_t down) {
  for (int32_t i = c->reach.from; i < c->reach.to; i++) {
    const uint8_t *p = x + (int64_t)c->at[i] * pix;
    f->v[i] = p[0] | (uint32_t)p[right] << 8 | (uint32_t)p[down] << 16 | (uint32_t)p[down + right] << 24;
  }
}

LANES_FN lanes byte_of(lane_words four, int shift) { return lanes_floats((lane_ints)(four >> shift & 255)); }

AUG_VEC static void blend_fours(uint8_t *restrict y, const fours *restrict f, const corners *restrict c, int32_t n,
                                float fill) {
  _Alignas(64) int32_t made[WARP_BLOCK];
  int32_t to = c->reach.to;
  for (int32_t i = c->reach.from / LANES * LANES; i < to; i += LANES) {
    lane_words four = lanes_words(f->v + i);
    lanes v = byte_of(four, 0) * lanes_of(c->weight[0] + i) + byte_of(four, 8) * lanes_of(c->weight[1] + i);
    v = v + byte_of(four, 16) * lanes_of(c->weight[2] + i);
    v = v + byte_of(four, 24) * lanes_of(c->weight[3] + i);
    if (c->inside != n) { /* else weights, of bytes, make nothing below 0 or above 255 */
      lanes all = lanes_of(c->all + i);
      v = lanes_if(all == 2.0f, v, v * all + (1.0f - all) * fill);
      v = lanes_if(v < 0.0f, lanes_all(0.0f), v);
    }
    v = lanes_if(v > 255.0f, lanes_all(255.0f), v);
    lane_ints whole = lanes_ints(lanes_nearest(v));
    memcpy(made + i, &whole, sizeof whole);
  }
  for (int32_t i = c->reach.from; i < to; i++) y[i] = (uint8_t)made[i];
  if (c->inside == n) return;
  float v = 0.0f + fill;
  v = v < 0.0f ? 0.0f : v > 255.0f ? 255.0f : v;
  memset(y, (uint8_t)(int32_t)nearest(v), (size_t)c->reach.from);
  memset(y + to, (uint8_t)(int32_t)nearest(v), (size_t)(n - to));
}

AUG_VEC static void side_by_side(uint8_t *restrict y, const uint8_t *restrict r, const uint8_t *restrict g,
                                 const uint8_t *restrict b, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    y[3 * i] = r[i];
    y[3 * i + 1] = g[i];
    y[3 * i + 2] = b[i];
  }
}

static void blend_bytes(const aug_job *j, const warp_how *how, const corners *c, const uint8_t *x, uint8_t *y,
                        int64_t plane, int32_t n) {
  int64_t right = j->w > 1 ? j->pix : 0, down = j->h > 1 ? (int64_t)j->w * j->pix : 0;
  fours f[3];
  uint8_t made[3][WARP_BLOCK];
  if (j->pix == 1) {
    if (right) fetch_fours(f, x, c, down);
    else fetch_any(f, x, c, 1, right, down);
    blend_fours(y, f, c, n, how->fill[plane % how->fills]);
    return;
  }
  if (j->pix == 3 && right) {
    fetch_rgb(f, x, c, down);
    for (int k = 0; k < 3; k++) blend_fours(made[k], &f[k], c, n, how->fill[k % how->fills]);
    side_by_side(y, made[0], made[1], made[2], n);
    return;
  }
  for (int k = 0; k < j->pix; k++) {
    fetch_any(f, x + k, c, j->pix, right, down);
    blend_fours(made[0], f, c, n, how->fill[k % how->fills]);
    for (int32_t i = 0; i < n; i++) y[(int64_t)i * j->pix + k] = made[0][i];
  }
}

typedef float four __attribute__((vector_size(16)));
typedef double pair __attribute__((vector_size(16))); /* of two floats each */
typedef int32_t four_ints __attribute__((vector_size(16)));

/* Two neighbours of each of four places: on the left and on the right of them. */
LANES_FN void pairs_of(const float *x, const int32_t *at, four *left, four *right) {
  pair a, b;
  memcpy(&a[0], x + at[0], 8);
  memcpy(&a[1], x + at[1], 8);
  memcpy(&b[0], x + at[2], 8);
  memcpy(&b[1], x + at[3], 8);
  *left = __builtin_shuffle((four)a, (four)b, (four_ints){0, 2, 4, 6});
  *right = __builtin_shuffle((four)a, (four)b, (four_ints){1, 3, 5, 7});
}

/* Pixels i .. to, whose neighbours are all in the image. */
static void blend_floats(float *restrict y, const float *restrict x, const corners *restrict c, int32_t i, int32_t to,
                         int32_t pix, int32_t right, int64_t down) {
  for (; pix == 1 && i + 4 <= to; i += 4) {
    four a, b, d, e, w[4];
    pairs_of(x, c->at + i, &a, &b);
    pairs_of(x + down, c->at + i, &d, &e);
    for (int k = 0; k < 4; k++) memcpy(&w[k], c->weight[k] + i, sizeof w[k]);
    a = ((a * w[0] + b * w[1]) + d * w[2]) + e * w[3];
    memcpy(y + i, &a, sizeof a);
  }
  for (; i < to; i++) {
    const float *a = x + (int64_t)c->at[i] * pix, *b = a + down;
    float v = a[0] * c->weight[0][i] + a[right] * c->weight[1][i];
    y[(int64_t)i * pix] = (v + b[0] * c->weight[2][i]) + b[right] * c->weight[3][i];
  }
}

/* The same of three channels side by side. A pixel is four numbers, the last of no use: it is in the image, since the
 * right neighbour is read from the number before it on, and what is written of it the next pixel overwrites. */
static void blend_rgb(float *restrict y, const float *restrict x, const corners *restrict c, int32_t i, int32_t to,
                      int64_t down) {
  const four_ints on = {1, 2, 3, 3};
  for (; i < to; i++) {
    const float *p = x + 3 * (int64_t)c->at[i];
    four a, b, d, e, v;
    memcpy(&a, p, sizeof a);
    memcpy(&b, p + 2, sizeof b);
    memcpy(&d, p + down, sizeof d);
    memcpy(&e, p + down + 2, sizeof e);
    v = a * c->weight[0][i] + __builtin_shuffle(b, on) * c->weight[1][i];
    v = (v + d * c->weight[2][i]) + __builtin_shuffle(e, on) * c->weight[3][i];
    memcpy(y + 3 * (int64_t)i, &v, i + 1 < to ? sizeof v : 3 * sizeof *y);
  }
}

static void blend_edge(float *restrict y, const float *restrict x, const corners *restrict c, int32_t i, int32_t to,
                       int32_t pix, int32_t right, int64_t down, float fill) {
  for (; i < to; i++) {
    const float *a = x + (int64_t)c->at[i] * pix, *b = a + down;
    float v = warp_weighed(a[0], c->weight[0][i]) + warp_weighed(a[right], c->weight[1][i]);
    v = (v + warp_weighed(b[0], c->weight[2][i])) + warp_weighed(b[right], c->weight[3][i]);
    y[(int64_t)i * pix] = warp_filled(v, c->all[i], fill);
  }
}

/* Runs of pixels whose neighbours are all in the image, and of others. */
static void blend_row(const aug_job *j, const warp_how *how, const corners *c, const float *x, float *y, int64_t plane,
                      int32_t n) {
  int32_t right = j->w > 1 ? j->pix : 0;
  int64_t down = j->h > 1 ? (int64_t)j->w * j->pix : 0;
  for (int32_t i = 0, to; i < n; i = to) {
    int inside = c->all[i] == 2.0f, nowhere = i < c->reach.from || i >= c->reach.to;
    if (c->inside == n) to = n;
    else if (nowhere) to = i < c->reach.from ? c->reach.from : n;
    else
      for (to = i + 1; to < c->reach.to && (c->all[to] == 2.0f) == inside; to++) continue;
    if (inside && j->pix == 3) {
      blend_rgb(y, x, c, i, to, down);
      continue;
    }
    for (int k = 0; k < j->pix; k++) {
      float fill = how->fill[(plane + k) % how->fills];
      if (inside) blend_floats(y + k, x + k, c, i, to, j->pix, right, down);
      else if (!nowhere) blend_edge(y + k, x + k, c, i, to, j->pix, right, down, fill);
      else
        for (int32_t m = i; m < to; m++) y[(int64_t)m * j->pix + k] = 0.0f + fill;
    }
  }
}

static void blend_block(const aug_job *j, const warp_how *how, int64_t sample, int32_t row, int32_t from,
                        warp_places *p) {
  size_t bytes = aug_element(j->dtype);
  corners c;
  corners_of(&c, p, j->h, j->w);
  for (int64_t plane = 0; plane < j->planes; plane++) {
    const void *x = aug_in_row(j, sample, plane, 0, bytes);
    void *y = (char *)aug_out_row(j, sample, plane, row, bytes) + (size_t)from * (size_t)j->pix * bytes;
    if (j->dtype == SP_U8) blend_bytes(j, how, &c, x, y, plane, p->n);
    else blend_row(j, how, &c, x, y, plane, p->n);
  }
}

/* ---- rows ---- */
/* Turned images are read along columns: so few pixels of a row at a time that what they touch is still in the nearest
 * cache for the row below. */
enum { COLUMNS = 64 };

void warp_block(const aug_job *j, const warp_how *how, int64_t sample, int32_t y, int32_t x, warp_places *at) {
  if (j->mask || how->mode == WARP_NEAREST) move_block(j, how, sample, y, x, at);
  else blend_block(j, how, sample, y, x, at);
}

void warp_part(const aug_part *part, const warp_how *how, const warp_map *map) {
  const aug_job *j = part->job;
  size_t bytes = aug_element(j->dtype);
  warp_places at;
  if (map->kind == WARP_NONE) {
    for (int64_t plane = 0; plane < j->planes; plane++)
      memcpy(aug_out_row(j, part->sample, plane, part->from, bytes),
             aug_in_row(j, part->sample, plane, part->from, bytes),
             (size_t)(part->to - part->from) * (size_t)j->w * (size_t)j->pix * bytes);
    return;
  }
  for (int32_t x = 0; x < j->w; x += COLUMNS)
    for (int32_t y = part->from; y < part->to; y++) {
      at.n = j->w - x < COLUMNS ? j->w - x : COLUMNS;
      if (map->kind == WARP_AFFINE) affine_places(&at, map, y, x);
      else plane_places(&at, map, y, x);
      warp_block(j, how, part->sample, y, x, &at);
    }
}

typedef struct all_of {
  const warp_how *how;
  const warp_map *maps;
} all_of;

static int rows(const void *arg, const aug_part *part, int worker) {
  const all_of *all = arg;
  (void)worker;
  warp_part(part, all->how, &all->maps[part->sample]);
  return SP_OK;
}

int warp_all(sp_ctx *ctx, const aug_jobs *jobs, const warp_how *how, const warp_map *maps) {
  return aug_rows(ctx, jobs, rows, &(all_of){how, maps});
}
