/* SPDX-License-Identifier: MIT
 * warp_cpu.c - images whose pixels come from elsewhere in them, on the CPU. A row is worked on in blocks: first where
 * its pixels come from, in loops that the compiler vectorises; then they are fetched; what four neighbours become is
 * a loop that it vectorises again. */
#include "warp_cpu.h"

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

#define MOVE_PIXELS(type, pix_)                          \
  for (int32_t i = 0; i < n; i++) {                      \
    const type *restrict px = x + (int64_t)at[i] * pix_; \
    type *restrict py = y + (int64_t)i * pix_;           \
    for (int c = 0; c < pix_; c++) py[c] = px[c];        \
  }
#define MOVE_SOME(type)           \
  for (int32_t i = 0; i < n; i++) \
    for (int c = 0; c < pix; c++) \
      y[(int64_t)i * pix + c] = at[i] < 0 ? fill[fills == 1 ? 0 : c % fills] : x[(int64_t)at[i] * pix + c];
#define MOVES(name, type)                                                                                    \
  static void name(type *restrict y, const type *restrict x, const int32_t *restrict at, int32_t n, int pix, \
                   int32_t inside, const type *restrict fill, int fills) {                                   \
    if (inside != n) MOVE_SOME(type)                                                                         \
    else if (pix == 1) MOVE_PIXELS(type, 1)                                                                  \
    else if (pix == 3) MOVE_PIXELS(type, 3)                                                                  \
    else MOVE_PIXELS(type, pix)                                                                              \
  }
MOVES(move_bytes, uint8_t)
MOVES(move_words, uint32_t)
MOVES(move_longs, uint64_t)

static void move_block(const aug_job *j, const warp_how *how, int64_t sample, int32_t row, int32_t from,
                       const warp_places *p) {
  size_t bytes = aug_element(j->dtype);
  int32_t at[WARP_BLOCK], inside = nearest_of(at, p, j->h, j->w);
  for (int64_t plane = 0; plane < j->planes; plane++) {
    const void *x = aug_in_row(j, sample, plane, 0, bytes);
    void *y = (char *)aug_out_row(j, sample, plane, row, bytes) + (size_t)from * (size_t)j->pix * bytes;
    aug_fill fill;
    int fills = aug_fill_of(j, plane, how->fill, how->fills, how->mask_fill, &fill);
    if (j->dtype == SP_U8) move_bytes(y, x, at, p->n, j->pix, inside, fill.b, fills);
    else if (j->dtype == SP_I64) move_longs(y, x, at, p->n, j->pix, inside, &fill.u, fills);
    else move_words(y, x, at, p->n, j->pix, inside, fill.w, fills);
  }
}

/* ---- bilinear ---- Of the four neighbours of a place those outside of the image weigh nothing, and the fill has
 * what they would. Neighbours are read at four pixels that are all there; where one is outside the weights stand with
 * others of them, zeros beside. */
typedef struct corners {
  _Alignas(64) float weight[4][WARP_BLOCK], all[WARP_BLOCK]; /* all: their sum, or 2 where nothing is outside */
  int32_t at[WARP_BLOCK];                                    /* the upper left of what is read */
  int32_t inside;                                            /* of how many all four are */
} corners;

AUG_VEC static void corners_of(corners *restrict c, const warp_places *restrict p, int32_t h, int32_t w) {
  int32_t all_inside = 0;
  for (int32_t i = 0; i < p->n; i++) {
    int32_t x, y, in_x, in_y;
    float left, right, upper, lower;
    warp_axis(p->x[i], w, &x, &left, &right, &in_x);
    warp_axis(p->y[i], h, &y, &upper, &lower, &in_y);
    float a = left * upper, b = right * upper, d = left * lower, e = right * lower;
    c->weight[0][i] = a;
    c->weight[1][i] = b;
    c->weight[2][i] = d;
    c->weight[3][i] = e;
    c->all[i] = in_x & in_y ? 2.0f : ((a + b) + d) + e;
    c->at[i] = y * w + x;
    all_inside += in_x & in_y;
  }
  c->inside = all_inside;
}

/* Four neighbours of each place, a byte each. */
typedef struct fours {
  _Alignas(64) uint32_t v[WARP_BLOCK];
} fours;

static void fetch_fours(fours *restrict f, const uint8_t *restrict x, const int32_t *restrict at, int32_t n,
                        int64_t down) {
  for (int32_t i = 0; i < n; i++) {
    uint16_t upper, lower;
    memcpy(&upper, x + at[i], 2);
    memcpy(&lower, x + at[i] + down, 2);
    f->v[i] = upper | (uint32_t)lower << 16;
  }
}

/* Likewise where three channels lie side by side. */
static void fetch_rgb(fours f[restrict 3], const uint8_t *restrict x, const int32_t *restrict at, int32_t n,
                      int64_t down) {
  for (int32_t i = 0; i < n; i++) {
    const uint8_t *p = x + 3 * (int64_t)at[i];
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

static void fetch_any(fours *restrict f, const uint8_t *restrict x, const int32_t *restrict at, int32_t n, int pix,
                      int64_t right, int64_t down) {
  for (int32_t i = 0; i < n; i++) {
    const uint8_t *p = x + (int64_t)at[i] * pix;
    f->v[i] = p[0] | (uint32_t)p[right] << 8 | (uint32_t)p[down] << 16 | (uint32_t)p[down + right] << 24;
  }
}

AUG_VEC static void blend_fours(uint8_t *restrict y, const fours *restrict f, const corners *restrict c, int32_t n,
                                float fill) {
  for (int32_t i = 0; i < n; i++) {
    uint32_t four = f->v[i];
    float v = (float)(int32_t)(four & 255) * c->weight[0][i] + (float)(int32_t)(four >> 8 & 255) * c->weight[1][i];
    v = v + (float)(int32_t)(four >> 16 & 255) * c->weight[2][i];
    v = v + (float)(int32_t)(four >> 24) * c->weight[3][i];
    float all = c->all[i], filled = warp_filled(v, all, fill);
    v = all == 2.0f ? v : filled;
    v = v < 0.0f ? 0.0f : v;
    v = v > 255.0f ? 255.0f : v;
    y[i] = (uint8_t)(int32_t)nearest(v);
  }
}

static void blend_bytes(const aug_job *j, const warp_how *how, const corners *c, const uint8_t *x, uint8_t *y,
                        int64_t plane, int32_t n) {
  int64_t right = j->w > 1 ? j->pix : 0, down = j->h > 1 ? (int64_t)j->w * j->pix : 0;
  fours f[3];
  uint8_t made[3][WARP_BLOCK];
  if (j->pix == 1) {
    if (right) fetch_fours(f, x, c->at, n, down);
    else fetch_any(f, x, c->at, n, 1, right, down);
    blend_fours(y, f, c, n, how->fill[plane % how->fills]);
    return;
  }
  for (int k = 0; k < j->pix; k += j->pix == 3 && right ? 3 : 1) {
    int some = j->pix == 3 && right ? 3 : 1;
    if (some == 3) fetch_rgb(f, x, c->at, n, down);
    else fetch_any(f, x + k, c->at, n, j->pix, right, down);
    for (int m = 0; m < some; m++) blend_fours(made[m], &f[m], c, n, how->fill[(k + m) % how->fills]);
    if (some == 3)
      for (int32_t i = 0; i < n; i++) {
        y[3 * i] = made[0][i];
        y[3 * i + 1] = made[1][i];
        y[3 * i + 2] = made[2][i];
      }
    else
      for (int32_t i = 0; i < n; i++) y[(int64_t)i * j->pix + k] = made[0][i];
  }
}

AUG_VEC static void blend_floats(float *restrict y, const float *restrict x, const corners *restrict c, int32_t n,
                                 int32_t pix, int32_t right, int64_t down) {
  for (int32_t i = 0; i < n; i++) {
    const float *a = x + (int64_t)c->at[i] * pix, *b = a + down;
    float v = a[0] * c->weight[0][i] + a[right] * c->weight[1][i];
    y[(int64_t)i * pix] = (v + b[0] * c->weight[2][i]) + b[right] * c->weight[3][i];
  }
}

static void blend_edge(float *restrict y, const float *restrict x, const corners *restrict c, int32_t n, int32_t pix,
                       int32_t right, int64_t down, float fill) {
  for (int32_t i = 0; i < n; i++) {
    const float *a = x + (int64_t)c->at[i] * pix, *b = a + down;
    float all = c->all[i];
    if (all == 2.0f) {
      float v = a[0] * c->weight[0][i] + a[right] * c->weight[1][i];
      y[(int64_t)i * pix] = (v + b[0] * c->weight[2][i]) + b[right] * c->weight[3][i];
      continue;
    }
    float v = warp_weighed(a[0], c->weight[0][i]) + warp_weighed(a[right], c->weight[1][i]);
    v = (v + warp_weighed(b[0], c->weight[2][i])) + warp_weighed(b[right], c->weight[3][i]);
    y[(int64_t)i * pix] = warp_filled(v, all, fill);
  }
}

static void blend_block(const aug_job *j, const warp_how *how, int64_t sample, int32_t row, int32_t from,
                        const warp_places *p) {
  size_t bytes = aug_element(j->dtype);
  corners c;
  corners_of(&c, p, j->h, j->w);
  for (int64_t plane = 0; plane < j->planes; plane++) {
    const void *x = aug_in_row(j, sample, plane, 0, bytes);
    char *y = (char *)aug_out_row(j, sample, plane, row, bytes) + (size_t)from * (size_t)j->pix * bytes;
    if (j->dtype == SP_U8) {
      blend_bytes(j, how, &c, x, (uint8_t *)y, plane, p->n);
      continue;
    }
    int32_t right = j->w > 1 ? j->pix : 0;
    int64_t down = j->h > 1 ? (int64_t)j->w * j->pix : 0;
    for (int k = 0; k < j->pix; k++) {
      float *to = (float *)(void *)y + k;
      if (c.inside == p->n) blend_floats(to, (const float *)x + k, &c, p->n, j->pix, right, down);
      else blend_edge(to, (const float *)x + k, &c, p->n, j->pix, right, down, how->fill[(plane + k) % how->fills]);
    }
  }
}

/* ---- rows ---- */
void warp_block(const aug_job *j, const warp_how *how, int64_t sample, int32_t y, int32_t x, const warp_places *at) {
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
  for (int32_t y = part->from; y < part->to; y++)
    for (int32_t x = 0; x < j->w; x += WARP_BLOCK) {
      at.n = j->w - x < WARP_BLOCK ? j->w - x : WARP_BLOCK;
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
