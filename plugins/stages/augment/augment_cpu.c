/* SPDX-License-Identifier: MIT
 * augment_cpu.c - the stage `augment` on the CPU.
 *
 * The result of a plane is made in tiles. What a tile shows lies in a part of the window: that is enlarged into a
 * worker's memory, small enough for a cache, and from there each row of the tile is gathered, blurred along into a ring
 * of rows and summed over the ring into the result, where it is normalized.
 */
#include "../../kits/aug/cpu.h"
#include "../blur/blur_cpu.h"
#include "../resize/resize_cpu.h"
#include "augment.h"

#include <stdlib.h>
#include <string.h>

#define LARGEST 512 /* pixels of a tile's side */
#define SMALLEST 32
#define PART_MOST ((int64_t)1 << 21) /* floats of the enlarged part of a window, where pixels are not many channels */
#define MORE_ITEMS 2                 /* that each thread should have, if tiles of 64 pixels can make so many */

/* ---- loops over the elements of a row ---- */
/* The nearest whole number, half to even: exact for places, which are far below 2^22. */
#define NEAREST(v) ((int32_t)(((v) + 12582912.0f) - 12582912.0f))

/* A part of the resized window: its first pixel and its size. */
typedef struct part {
  int32_t x, y, nx, ny;
} part;

/* For pixels x .. x + n - 1 of row y: their pixel in the part, or -1 outside of the resized window of w x h. */
static inline __attribute__((always_inline)) void where_body(int32_t *restrict at, const rotate_turn *turn, int32_t y,
                                                             int32_t x, int32_t n, int32_t h, int32_t w,
                                                             const part *p) {
  const rotate_turn t = *turn;
  int32_t px = p->x, py = p->y, pitch = p->nx;
  for (int32_t i = 0; i < n; i++) {
    int32_t sx = NEAREST(rotate_x(&t, x + i, y)), sy = NEAREST(rotate_y(&t, x + i, y));
    int inside = (sx >= 0) & (sx < w) & (sy >= 0) & (sy < h);
    at[i] = inside ? (sy - py) * pitch + (sx - px) : -1;
  }
}

/* The mean of 2 x 2 pixels of rows a and b. */
#define MEAN(name, type)                                                                                              \
  static inline __attribute__((always_inline)) void name(float *restrict y, const type *a, const type *b, int64_t n,  \
                                                         int64_t next) {                                              \
    for (int64_t i = 0; i < n; i++) y[i] = ((float)a[i] + (float)a[i + next] + (float)b[i] + (float)b[i + next]) / 4; \
  }
MEAN(mean_bytes_body, uint8_t)
MEAN(mean_floats_body, float)

static inline __attribute__((always_inline)) void same_body(float *restrict y, const float *x, float mean, float std,
                                                            float by, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = (x[i] * by - mean) / std;
}
static inline __attribute__((always_inline)) void each_body(float *restrict y, const float *x, const float *mean,
                                                            const float *std, float by, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = (x[i] * by - mean[i]) / std[i];
}

typedef struct augment_code {
  void (*where)(int32_t *restrict at, const rotate_turn *turn, int32_t y, int32_t x, int32_t n, int32_t h, int32_t w,
                const part *p);
  void (*mean_bytes)(float *restrict y, const uint8_t *a, const uint8_t *b, int64_t n, int64_t next);
  void (*mean_floats)(float *restrict y, const float *a, const float *b, int64_t n, int64_t next);
  void (*sum)(float *restrict y, const float *const *t, const float *w, int r, int64_t n);
  void (*same)(float *restrict y, const float *x, float mean, float std, float by, int64_t n);
  void (*each)(float *restrict y, const float *x, const float *mean, const float *std, float by, int64_t n);
} augment_code;

/* No fused operations on any processor: the same bits on all. */
#define CODE(suffix, how)                                                                                            \
  how static void where_##suffix(int32_t *restrict at, const rotate_turn *turn, int32_t y, int32_t x, int32_t n,     \
                                 int32_t h, int32_t w, const part *p) {                                              \
    where_body(at, turn, y, x, n, h, w, p);                                                                          \
  }                                                                                                                  \
  how static void mean_bytes_##suffix(float *restrict y, const uint8_t *a, const uint8_t *b, int64_t n,              \
                                      int64_t next) {                                                                \
    mean_bytes_body(y, a, b, n, next);                                                                               \
  }                                                                                                                  \
  how static void mean_floats_##suffix(float *restrict y, const float *a, const float *b, int64_t n, int64_t next) { \
    mean_floats_body(y, a, b, n, next);                                                                              \
  }                                                                                                                  \
  how static void sum_##suffix(float *restrict y, const float *const *t, const float *w, int r, int64_t n) {         \
    blur_sum_body(y, t, w, r, n);                                                                                    \
  }                                                                                                                  \
  how static void same_##suffix(float *restrict y, const float *x, float mean, float std, float by, int64_t n) {     \
    same_body(y, x, mean, std, by, n);                                                                               \
  }                                                                                                                  \
  how static void each_##suffix(float *restrict y, const float *x, const float *mean, const float *std, float by,    \
                                int64_t n) {                                                                         \
    each_body(y, x, mean, std, by, n);                                                                               \
  }                                                                                                                  \
  static const augment_code code_##suffix = {where_##suffix, mean_bytes_##suffix, mean_floats_##suffix,              \
                                             sum_##suffix,   same_##suffix,       each_##suffix};

CODE(base, )
#if defined(__x86_64__)
CODE(avx2, __attribute__((target("avx2"))))
#endif

static const augment_code *code_of(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return &code_avx2;
#endif
  return &code_base;
}

/* ---- what a call works with ---- */
typedef struct augment_self {
  const augment_params *p;
  resize_table x, y;
} augment_self;

/* Floats of each piece of a worker's memory; all begin on a cache line. */
typedef struct sizes {
  size_t at, line, scaled, part, row, ring, all;
} sizes;

typedef struct augment_call {
  const augment_self *s;
  const augment_code *code;
  const aug_jobs *jobs;
  augment_how how;
  norm_terms norm;
  const augment_drawn *drawn; /* [n] */
  const float *weights;       /* [n][rx + 1 + ry + 1] */
  const float *mean, *std;    /* of the elements of a tile's row, where they differ from channel to channel */
  float *work;                /* [workers][sizes.all] */
  sizes size;
  int32_t side; /* pixels of a tile's */
  int32_t across, down;
  int64_t planes; /* of the tensor with the most */
} augment_call;

/* A tile of a plane; rx and ry: how far around it the blur reaches. */
typedef struct tile {
  const aug_job *job;
  int64_t sample, plane;
  int32_t x, y, wide, high, rx, ry;
  const augment_drawn *d;
  rotate_turn turn;
  part part;
  float *at, *line, *scaled, *enlarged, *row, *ring;
} tile;

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* Places only grow or only fall along an axis: the corners of a tile say what it covers. */
static part part_of(const tile *t) {
  const rotate_turn *r = &t->turn;
  int32_t h = t->job->out_h, w = t->job->out_w;
  int32_t x[2] = {most(0, t->x - t->rx), least(w, t->x + t->wide + t->rx) - 1};
  int32_t y[2] = {most(0, t->y - t->ry), least(h, t->y + t->high + t->ry) - 1};
  int32_t x0 = INT32_MAX, x1 = INT32_MIN, y0 = INT32_MAX, y1 = INT32_MIN;
  for (int i = 0; i < 4; i++) {
    int32_t sx = NEAREST(rotate_x(r, x[i % 2], y[i / 2])), sy = NEAREST(rotate_y(r, x[i % 2], y[i / 2]));
    x0 = least(x0, sx);
    x1 = most(x1, sx);
    y0 = least(y0, sy);
    y1 = most(y1, sy);
  }
  part p = {most(x0, 0), most(y0, 0), 0, 0};
  p.nx = least(x1, w - 1) - p.x + 1;
  p.ny = least(y1, h - 1) - p.y + 1;
  return p.nx > 0 && p.ny > 0 ? p : (part){0, 0, 0, 0};
}

/* Row r of the window as floats, pixels from .. to - 1 of it, at their places in t->line. */
static void window_row(const augment_call *c, const tile *t, int32_t r, int32_t from, int32_t to) {
  const aug_job *j = t->job;
  size_t bytes = aug_element(j->dtype);
  int32_t y = t->d->top + r, pix = j->pix;
  int64_t at = (int64_t)(t->d->left + from) * pix, n = (int64_t)(to - from) * pix;
  float *to_row = t->line + (int64_t)from * pix;
  const char *a = (const char *)aug_in_row(j, t->sample, t->plane, y, bytes) + (size_t)at * bytes, *b = a;
  if (c->how.mode == CROP_EXACT) {
    if (j->dtype == SP_U8) resize_widen(to_row, (const uint8_t *)a, n);
    else memcpy(to_row, a, (size_t)n * bytes);
    return;
  }
  if (y + 1 < j->h) b += (size_t)j->w * (size_t)pix * bytes;
  int64_t inside = t->d->left + to < j->w ? n : n - pix; /* the last column of the image has no right neighbours */
  if (j->dtype == SP_U8) {
    c->code->mean_bytes(to_row, (const uint8_t *)a, (const uint8_t *)b, inside, pix);
    c->code->mean_bytes(to_row + inside, (const uint8_t *)a + inside, (const uint8_t *)b + inside, n - inside, 0);
  } else {
    c->code->mean_floats(to_row, (const float *)a, (const float *)b, inside, pix);
    c->code->mean_floats(to_row + inside, (const float *)a + inside, (const float *)b + inside, n - inside, 0);
  }
}

/* Row r of the window, enlarged along x: what the part needs of it. */
static const float *scaled_row(const augment_call *c, const tile *t, int32_t r, float *buf) {
  const resize_table *x = &c->s->x;
  int32_t last = t->part.x + t->part.nx - 1, from = x->first[t->part.x], pix = t->job->pix;
  window_row(c, t, r, from, x->first[last] + x->n[last]);
  if (!x->active) {
    memcpy(buf, t->line + (int64_t)from * pix, (size_t)t->part.nx * (size_t)pix * sizeof *buf);
    return buf;
  }
  resize_table some = *x;
  some.first += t->part.x;
  some.n += t->part.x;
  some.w += (size_t)t->part.x * (size_t)x->most;
  some.out = t->part.nx;
  resize_along_x(&some, buf, t->line, SP_F32, pix);
  return buf;
}

static void enlarge(const augment_call *c, const tile *t) {
  const resize_table *y = &c->s->y;
  const float *kept[2] = {NULL, NULL};
  int32_t which[2] = {-1, -1};
  int64_t n = (int64_t)t->part.nx * t->job->pix;
  for (int32_t i = 0; i < t->part.ny; i++) {
    float *to = t->enlarged + i * n;
    int32_t row = t->part.y + i, lo = y->first[row], count = y->n[row];
    if (!y->active) {
      scaled_row(c, t, lo, to);
      continue;
    }
    for (int32_t r = lo; r < lo + count; r++) {
      if (which[r & 1] == r) continue;
      which[r & 1] = r;
      kept[r & 1] = scaled_row(c, t, r, t->scaled + (size_t)(r & 1) * (c->size.scaled / 2));
    }
    const float *w = y->w + (size_t)row * (size_t)y->most, *a = kept[lo & 1];
    resize_mix(to, a, w[0], count > 1 ? kept[(lo + 1) & 1] : a, count > 1 ? w[1] : 0.0f, n);
  }
}

#define GATHER(C)                     \
  for (int32_t i = from; i < to; i++) \
    for (int k = 0; k < (C); k++) y[(int64_t)i * (C) + k] = x[(int64_t)at[i] * (C) + k];

static void fill_pixels(const augment_call *c, const tile *t, float *y, int32_t from, int32_t to) {
  const rotate_how *how = &c->how.turn;
  int32_t pix = t->job->pix;
  for (int32_t i = from; i < to; i++)
    for (int k = 0; k < pix; k++) y[(int64_t)i * pix + k] = how->fill[(t->plane + k) % how->fills];
}

/* Pixels from .. to - 1 of t->row, counted from the tile's first, of which some lie beyond the image's edges. */
static void mirror_pixels(const tile *t, int32_t from, int32_t to) {
  int32_t pix = t->job->pix;
  float *row = t->row + (int64_t)t->rx * pix;
  for (int32_t i = from; i < to; i++) {
    int64_t of = blur_mirror(t->x + i, t->job->out_w) - t->x;
    memcpy(row + (int64_t)i * pix, row + of * pix, (size_t)pix * sizeof *row);
  }
}

/* Row y of the turned image, with rx pixels more on both sides: t->row. */
static void turned_row(const augment_call *c, const tile *t, int32_t row) {
  const aug_job *j = t->job;
  int32_t pix = j->pix, first = most(0, t->x - t->rx), end = least(j->out_w, t->x + t->wide + t->rx), n = end - first;
  int32_t *at = (int32_t *)(void *)t->at, from = 0, to = n;
  float *restrict y = t->row + (int64_t)(first - (t->x - t->rx)) * pix;
  const float *restrict x = t->enlarged;
  c->code->where(at, &t->turn, row, first, n, j->out_h, j->out_w, &t->part);
  while (from < n && at[from] < 0) from++; /* pixels that come from the image lie side by side */
  while (to > from && at[to - 1] < 0) to--;
  fill_pixels(c, t, y, 0, from);
  fill_pixels(c, t, y, to, n);
  if (pix == 1) GATHER(1)
  else if (pix == 3) GATHER(3)
  else GATHER(pix)
  mirror_pixels(t, -t->rx, first - t->x);
  mirror_pixels(t, end - t->x, t->wide + t->rx);
}

static void normalize(const augment_call *c, const tile *t, float *y, const float *x) {
  const norm_terms *m = &c->norm;
  int64_t n = (int64_t)t->wide * t->job->pix;
  if (m->n == 1 && m->by == 1.0f && m->mean[0] == 0.0f && m->std[0] == 1.0f) {
    if (x != y) memcpy(y, x, (size_t)n * sizeof *y);
  } else if (m->n == 1 || t->job->pix == 1) {
    int64_t of = m->n > 1 ? t->plane : 0;
    c->code->same(y, x, m->mean[of], m->std[of], m->by, n);
  } else {
    c->code->each(y, x, c->mean, c->std, m->by, n);
  }
}

static void image_tile(const augment_call *c, tile *t) {
  const aug_job *j = t->job;
  int64_t n = (int64_t)t->wide * j->pix;
  int blurred = c->how.blurs && t->d->sigma > 0, high = 2 * c->how.ry + 1, slot = 0;
  if (blurred) t->rx = c->how.rx, t->ry = c->how.ry;
  t->part = part_of(t);
  enlarge(c, t);
  const float *wx = c->weights + t->sample * (c->how.rx + c->how.ry + 2), *wy = wx + c->how.rx + 1;
  const float *taps[BLUR_MAX];
  size_t pitch = c->size.ring / (size_t)high;
  for (int32_t y = t->y - t->ry; y < t->y + t->high + t->ry; y++) {
    int32_t done = y - t->ry;
    float *out = done < t->y ? NULL : (float *)aug_out_row(j, t->sample, t->plane, done, sizeof *out);
    if (out) out += (int64_t)t->x * j->pix;
    turned_row(c, t, (int32_t)blur_mirror(y, j->out_h));
    if (!blurred) {
      normalize(c, t, out, t->row);
      continue;
    }
    for (int k = 0; k <= 2 * t->rx; k++) taps[k] = t->row + (int64_t)k * j->pix;
    c->code->sum(t->ring + (size_t)slot * pitch, taps, wx, t->rx, n);
    slot = slot + 1 < high ? slot + 1 : 0; /* the oldest row */
    if (!out) continue;
    for (int k = 0; k < high; k++) taps[k] = t->ring + (size_t)((slot + k) % high) * pitch;
    c->code->sum(t->row, taps, wy, t->ry, n);
    normalize(c, t, out, t->row);
  }
}

#define MASK_TILE(type)                                                                                        \
  for (int32_t y = t->y; y < t->y + t->high; y++) {                                                            \
    const type *in = (const type *)aug_in_row(j, t->sample, 0, t->d->top, sizeof *in) + t->d->left;            \
    type *out = aug_out_row(j, t->sample, 0, y, sizeof *out);                                                  \
    for (int32_t x = t->x; x < t->x + t->wide; x++) {                                                          \
      int32_t sx = NEAREST(rotate_x(&t->turn, x, y)), sy = NEAREST(rotate_y(&t->turn, x, y));                  \
      int inside = sx >= 0 && sx < j->out_w && sy >= 0 && sy < j->out_h;                                       \
      out[x] = inside ? in[(int64_t)c->s->y.near[sy] * j->w + c->s->x.near[sx]] : (type)c->how.turn.mask_fill; \
    }                                                                                                          \
  }

static void mask_tile(const augment_call *c, const tile *t) {
  const aug_job *j = t->job;
  if (j->dtype == SP_U8) MASK_TILE(uint8_t)
  else if (j->dtype == SP_I32) MASK_TILE(int32_t)
  else MASK_TILE(int64_t)
}

static int item(void *arg, int64_t i, int worker) {
  const augment_call *c = arg;
  int64_t across = i % c->across, down = i / c->across % c->down, plane = i / c->across / c->down % c->planes;
  int64_t rest = i / c->across / c->down / c->planes;
  float *work = c->work + (size_t)worker * c->size.all;
  tile t = {.job = &c->jobs->job[rest / c->jobs->n],
            .sample = rest % c->jobs->n,
            .plane = plane,
            .x = (int32_t)across * c->side,
            .y = (int32_t)down * c->side,
            .at = work};
  const aug_job *j = t.job;
  if (plane >= j->planes) return SP_OK;
  t.d = &c->drawn[t.sample];
  t.turn = rotate_turn_of(t.d->angle, j->out_h, j->out_w);
  t.wide = least(c->side, j->out_w - t.x);
  t.high = least(c->side, j->out_h - t.y);
  t.line = t.at + c->size.at;
  t.scaled = t.line + c->size.line;
  t.enlarged = t.scaled + c->size.scaled;
  t.row = t.enlarged + c->size.part;
  t.ring = t.row + c->size.row;
  if (j->mask) mask_tile(c, &t);
  else image_tile(c, &t);
  return SP_OK;
}

/* ---- plan and forward ---- */
static size_t lines(int64_t floats) { return ((size_t)floats + 15) & ~(size_t)15; }

/* What tiles of `side` pixels need, of images of `pix` elements a pixel. */
static sizes sizes_of(const augment_how *how, int32_t side, int64_t pix) {
  int32_t wide = least(side, how->x.out), high = least(side, how->y.out);
  int64_t a = wide + 2 * how->rx, b = high + 2 * how->ry;
  int64_t reach = (int64_t)ceil(sqrt((double)(a * a + b * b))) + 3; /* a tile that is turned covers at most so many */
  int64_t nx = least((int32_t)reach, how->x.out), ny = least((int32_t)reach, how->y.out);
  sizes z = {.at = lines(a),
             .line = lines(how->x.in * pix),
             .scaled = 2 * lines(nx * pix),
             .part = lines(nx * ny * pix),
             .row = lines(a * pix),
             .ring = lines(wide * pix) * (size_t)(2 * how->ry + 1)};
  z.all = z.at + z.line + z.scaled + z.part + z.row + z.ring;
  return z;
}

static size_t drawn_floats(int64_t n) { return lines(n * (int64_t)(sizeof(augment_drawn) / sizeof(float))); }
static size_t weight_floats(const augment_how *how, int64_t n) { return lines(n * (how->rx + how->ry + 2)); }

typedef struct layout {
  int32_t side;
  sizes size;
} layout;

/* Tiles as large as their part of a window may be, but many enough for the threads: never larger for fewer samples or
 * tensors. */
static layout layout_of(const augment_how *how, int64_t n, int64_t tensors, int64_t planes, int64_t pix, int threads) {
  layout l = {.side = LARGEST};
  for (;; l.side /= 2) {
    l.size = sizes_of(how, l.side, pix);
    int64_t across = (how->x.out + l.side - 1) / l.side, down = (how->y.out + l.side - 1) / l.side;
    int few = n * tensors * planes * across * down < (int64_t)MORE_ITEMS * threads && l.side > 64;
    if (l.side <= SMALLEST || ((int64_t)l.size.part <= PART_MOST && !few)) return l;
  }
}

static int threads_of(sp_ctx *ctx) {
  const sp_parallel *par = ctx->host->get_extension(ctx, SP_EXT_PARALLEL);
  return par ? par->threads(ctx) : 1;
}

static int create(sp_ctx *ctx, const void *params, void **out) {
  augment_self *s = calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory");
  s->p = params;
  *out = s;
  return SP_OK;
}

static void destroy(void *self) {
  augment_self *s = self;
  resize_table_free(&s->x);
  resize_table_free(&s->y);
  free(s);
}

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  augment_self *s = self;
  int rc = augment_plan(ctx, (void *)s->p, pl), threads = threads_of(ctx);
  if (rc) return rc;
  const sp_spec *in = pl->in[AUG_IMAGES].spec, *out = pl->out[AUG_IMAGES].spec;
  aug_job first = {.h = (int32_t)in->shape[2],
                   .w = (int32_t)in->shape[3],
                   .out_h = (int32_t)out->shape[2],
                   .out_w = (int32_t)out->shape[3]};
  augment_how how = augment_how_of(s->p, &first);
  if (resize_table_make(&s->x, how.x) || resize_table_make(&s->y, how.y))
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the weights of %d x %d to %d x %d", how.y.in, how.x.in,
                           how.y.out, how.x.out);
  int64_t n = in->shape[0], planes = 1, pix = 1;
  for (uint32_t i = 0; i < pl->in[AUG_IMAGES].n; i++) {
    int64_t *most_of = in[i].order == SP_CHANNELS_LAST ? &pix : &planes;
    *most_of = in[i].shape[1] > *most_of ? in[i].shape[1] : *most_of;
  }
  layout l = layout_of(&how, n, pl->in[AUG_IMAGES].n + pl->in[AUG_MASKS].n, planes, pix, threads);
  size_t floats = drawn_floats(n) + weight_floats(&how, n) + 2 * lines(l.side * pix) + l.size.all * (size_t)threads;
  pl->scratch_bytes = floats * sizeof(float);
  return SP_OK;
}

/* What every sample is worked with, and the status of the first that was given something bad. */
static void draw_all(const augment_call *c, const aug_dice *dice, const augment_given *given, const sp_io *io,
                     augment_drawn *drawn, float *weights) {
  int64_t *status = io->out[AUGMENT_STATUS].t->data, value, limit;
  int32_t *boxes = io->out[AUGMENT_BOXES].t->data;
  float *angles = io->out[AUGMENT_ANGLES].t->data, *sigmas = io->out[AUGMENT_SIGMAS].t->data;
  memset(status, 0, 4 * sizeof *status);
  for (int64_t i = 0; i < c->jobs->n; i++) {
    augment_drawn *d = &drawn[i];
    *d = augment_draw(dice, given, &c->how, i);
    int bad = augment_judge(d, &c->how, &value, &limit);
    if (bad && !status[0]) {
      status[0] = bad;
      status[1] = io->ids ? (int64_t)io->ids[i] : i;
      status[2] = value;
      status[3] = limit;
    }
    if (boxes) boxes[2 * i] = d->top, boxes[2 * i + 1] = d->left;
    if (angles) angles[i] = d->angle;
    if (sigmas) sigmas[i] = d->sigma;
    augment_tame(d, &c->how);
    if (d->sigma == 0) continue;
    float *w = weights + i * (c->how.rx + c->how.ry + 2);
    blur_weights_of(w, c->how.rx, d->sigma);
    blur_weights_of(w + c->how.rx + 1, c->how.ry, d->sigma);
  }
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const augment_self *s = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  augment_call c = {.s = s, .code = code_of(), .jobs = &jobs, .how = augment_how_of(s->p, jobs.job), .planes = 1};
  c.how.turn.mask_fill = aug_mask_fill(io, s->p->rotate.mask_fill);
  augment_given given = {0};
  int rc;
  given.boxes = aug_given_on(ctx, io, AUGMENT_BOXES, "boxes", &rc);
  if (!rc) given.angles = aug_given_on(ctx, io, AUGMENT_ANGLES, "angles", &rc);
  if (!rc && c.how.blurs) given.sigmas = aug_given_on(ctx, io, AUGMENT_SIGMAS, "sigmas", &rc);
  if (rc) return rc;
  int64_t pix = 1;
  for (int i = 0; i < jobs.count; i++) {
    c.planes = jobs.job[i].planes > c.planes ? jobs.job[i].planes : c.planes;
    pix = jobs.job[i].pix > pix ? jobs.job[i].pix : pix;
  }
  layout l = layout_of(&c.how, jobs.n, jobs.count, c.planes, pix, threads_of(ctx));
  augment_drawn *drawn = io->scratch;
  float *weights = (float *)io->scratch + drawn_floats(jobs.n), *mean = weights + weight_floats(&c.how, jobs.n);
  float *std = mean + lines(l.side * pix);
  aug_dice dice = aug_dice_of(io, &s->p->crop.draws);
  draw_all(&c, &dice, &given, io, drawn, weights);
  norm_terms_of(&s->p->norm, &c.norm);
  for (int64_t i = 0; c.norm.n > 1 && i < l.side * pix; i++) { /* all images have as many channels then */
    mean[i] = c.norm.mean[i % c.norm.n];
    std[i] = c.norm.std[i % c.norm.n];
  }
  c.drawn = drawn;
  c.weights = weights;
  c.mean = mean;
  c.std = std;
  c.work = std + lines(l.side * pix);
  c.size = l.size;
  c.side = l.side;
  c.across = (c.how.x.out + l.side - 1) / l.side;
  c.down = (c.how.y.out + l.side - 1) / l.side;
  return par_run(ctx, jobs.count * jobs.n * c.planes * c.down * c.across, item, &c);
}

AUG_CPU_STAGE(augment, "augment", AUGMENT_DOC, SP_STAGE_STOCHASTIC, .status_doc = AUGMENT_STATUS_DOC, .create = create,
              .destroy = destroy, .plan = plan, .forward = forward);
