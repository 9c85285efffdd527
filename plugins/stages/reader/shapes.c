/* SPDX-License-Identifier: MIT
 * shapes.c - the built-in set `shapes`: textured shapes over textured ground, the class is the shape. For masks a
 * picture has several of them, for one class a picture it has one.
 *
 * Colours and textures of shapes and ground come from one distribution, so that colour says nothing of the class. All
 * arithmetic is in integers: the same bits on any machine. Lengths are in units of 1/65536 of the image's short side,
 * so that one sample shows the same scene at any size; only the grain belongs to the pixels. */
#include <stdlib.h>
#include <string.h>

#include <spcore/rng.h>

#include "reader.h"

#define ONE 65536
#define MIN_SHAPES 2
#define MAX_SHAPES 4
#define COLOUR_TRIES 6

enum { GROUND, DISC, SQUARE, TRIANGLE, RING, CROSS, N_CLASSES };
/* With one shape a picture, the class: by name, as a folder of classes has it. */
static const int32_t class_of[N_CLASSES] = {[CROSS] = 0, [DISC] = 1, [RING] = 2, [SQUARE] = 3, [TRIANGLE] = 4};
enum { GRADIENT, STRIPES, CHECKS, CLOUDS, N_PATTERNS };

/* Draws of one sample, in order. */
typedef struct dice {
  uint64_t key, id;
  uint32_t draw, used;
  sp_rng4 r;
} dice;

static uint32_t roll(dice *d, uint32_t below) {
  if (d->used == 4) {
    d->r = sp_rng(d->key, d->id, d->draw++);
    d->used = 0;
  }
  return sp_rng_below(d->r.v[d->used++], below);
}

static int32_t between(dice *d, int32_t lo, int32_t hi) { return lo + (int32_t)roll(d, (uint32_t)(hi - lo + 1)); }

/* A unit vector, c and s times 16384: half-angle tangents k/64 give +-90 degrees, the sign the other half. */
typedef struct turn {
  int32_t c, s;
} turn;

static turn any_turn(dice *d) {
  int32_t k = between(d, -64, 64), q = 4096 + k * k, sign = roll(d, 2) ? 1 : -1;
  return (turn){sign * ((4096 - k * k) * 16384 / q), sign * (128 * k * 16384 / q)};
}

static inline int32_t along(turn t, int32_t x, int32_t y) {
  return (int32_t)(((int64_t)x * t.c + (int64_t)y * t.s) >> 14);
}

/* ---- textures ---- */
typedef struct texture {
  int32_t a[3], b[3]; /* two colours, 0..255 */
  int32_t pattern, period;
  turn way;
  uint32_t seed;
} texture;

static int32_t distance(const int32_t a[3], const int32_t b[3]) {
  return abs(a[0] - b[0]) + abs(a[1] - b[1]) + abs(a[2] - b[2]);
}

static int32_t clip(int32_t v) { return v < 0 ? 0 : v > 255 ? 255 : v; }

/* Its first colour is, of a few, the farthest from those already in the picture, so that edges can be seen. */
static void make_texture(dice *d, texture *t, const texture *others, int n) {
  int32_t best = -1;
  for (int k = 0; k < COLOUR_TRIES; k++) {
    int32_t c[3] = {between(d, 20, 235), between(d, 20, 235), between(d, 20, 235)}, near = INT32_MAX;
    for (int i = 0; i < n; i++) {
      int32_t u = distance(c, others[i].a), v = distance(c, others[i].b);
      near = u < near ? u : near;
      near = v < near ? v : near;
    }
    if (near > best) {
      best = near;
      memcpy(t->a, c, sizeof c);
    }
  }
  for (int i = 0; i < 3; i++) t->b[i] = clip(t->a[i] + between(d, -48, 48));
  t->pattern = (int32_t)roll(d, N_PATTERNS);
  t->period = between(d, ONE / 12, ONE / 5);
  t->way = any_turn(d);
  t->seed = roll(d, UINT32_MAX);
}

static inline uint32_t hash3(uint32_t seed, uint32_t x, uint32_t y) {
  uint32_t h = seed ^ x * 0x9E3779B1u ^ y * 0x85EBCA77u;
  h = (h ^ h >> 15) * 0x2C1B3C6Du;
  h = (h ^ h >> 12) * 0x297A2D39u;
  return h ^ h >> 15;
}

/* x / period as cell and 8-bit fraction within it. */
static inline int32_t cell(int32_t x, int32_t period, int32_t *fraction) {
  int32_t v = (int32_t)((x + INT64_C(64) * ONE) * 256 / period);
  *fraction = v & 255;
  return v >> 8;
}

/* How much of colour b is at (x, y), 0..256. */
static int32_t blend_at(const texture *t, int32_t x, int32_t y) {
  int32_t u = along(t->way, x, y), v = along((turn){-t->way.s, t->way.c}, x, y), fu, fv, i, j;
  switch (t->pattern) {
    case GRADIENT:
      u = (u >> 9) + 128; /* -1..1 becomes 0..256 */
      return u < 0 ? 0 : u > 256 ? 256 : u;
    case STRIPES: cell(u, t->period, &fu); return fu < 128 ? 0 : 256;
    case CHECKS: return (cell(u, t->period, &fu) ^ cell(v, t->period, &fv)) & 1 ? 256 : 0;
    default:
      i = cell(u, t->period, &fu);
      j = cell(v, t->period, &fv);
      int32_t p = (int32_t)(hash3(t->seed, (uint32_t)i, (uint32_t)j) >> 24);
      int32_t q = (int32_t)(hash3(t->seed, (uint32_t)i + 1, (uint32_t)j) >> 24);
      int32_t r = (int32_t)(hash3(t->seed, (uint32_t)i, (uint32_t)j + 1) >> 24);
      int32_t s = (int32_t)(hash3(t->seed, (uint32_t)i + 1, (uint32_t)j + 1) >> 24);
      p = (p << 8) + (q - p) * fu;
      r = (r << 8) + (s - r) * fu;
      return ((p << 8) + (r - p) * fv) >> 16;
  }
}

static void colour_at(const texture *t, int32_t x, int32_t y, int32_t out[3]) {
  int32_t m = blend_at(t, x, y);
  for (int i = 0; i < 3; i++) out[i] = (t->a[i] << 8) + (t->b[i] - t->a[i]) * m; /* 8 fraction bits */
}

/* ---- shapes ---- */
typedef struct shape {
  int32_t kind, x, y, r; /* centre, and the radius of the circle around it */
  int32_t label;         /* in the mask */
  turn way;
  texture skin;
} shape;

/* How far (x, y), relative to the centre, lies inside the outline; negative: outside. Exact at the outline and of the
 * right size near it. */
static int32_t depth_in(const shape *s, int32_t x, int32_t y) {
  int64_t r = s->r;
  if (s->kind == DISC || s->kind == RING) {
    int64_t q = (int64_t)x * x + (int64_t)y * y, inner = r / 2;
    int64_t out = (r * r - q) / (2 * r), in = s->kind == RING ? (q - inner * inner) / (2 * inner) : INT32_MAX;
    out = out < in ? out : in;
    return (int32_t)(out < INT32_MIN ? INT32_MIN : out);
  }
  int32_t u = along(s->way, x, y), v = along((turn){-s->way.s, s->way.c}, x, y);
  if (s->kind == SQUARE) {
    int32_t a = (int32_t)(r * 46341 / 65536);
    return a - (abs(u) > abs(v) ? abs(u) : abs(v));
  }
  if (s->kind == TRIANGLE) { /* normals at 90, 210 and 330 degrees; sqrt(3)/2 = 14189/16384 */
    int32_t a = (int32_t)(r / 2), p = -v, q = (int32_t)(((int64_t)u * 14189 + (int64_t)v * 8192) >> 14);
    int32_t w = (int32_t)(((int64_t)u * -14189 + (int64_t)v * 8192) >> 14), most = p > q ? p : q;
    return a - (most > w ? most : w);
  }
  int32_t arm = (int32_t)(r * 33 / 100), end = (int32_t)(r * 95 / 100); /* CROSS: two bars */
  int32_t one = end - abs(u) < arm - abs(v) ? end - abs(u) : arm - abs(v);
  int32_t two = end - abs(v) < arm - abs(u) ? end - abs(v) : arm - abs(u);
  return one > two ? one : two;
}

/* Kind and size; `lo` and `hi` are radii of the square, the others' are such that all have the same area: neither the
 * number of labelled pixels nor the amount of a colour tells the class. */
static void make_shape_of(dice *d, shape *s, int32_t lo, int32_t hi) {
  static const int32_t grow[N_CLASSES] = {0, 80, 100, 124, 92, 98}; /* percent */
  s->kind = between(d, DISC, CROSS);
  s->r = between(d, lo, hi) * grow[s->kind] / 100;
}

static void make_shape(dice *d, shape *s, int32_t wide, int32_t high) {
  make_shape_of(d, s, ONE * 19 / 100, ONE * 28 / 100);
  s->x = between(d, s->r * 4 / 5, wide - s->r * 4 / 5);
  s->y = between(d, s->r * 4 / 5, high - s->r * 4 / 5);
  s->way = any_turn(d);
}

/* ---- a picture ---- */
typedef struct scene {
  int n;
  shape shapes[MAX_SHAPES];
  texture skins[MAX_SHAPES + 1]; /* the ground's first */
  uint32_t grain_seed;
  int32_t grain; /* of 256 */
} scene;

/* Of a few places the one farthest from the others' centres, so that shapes overlap but seldom hide each other. */
static void make_scene(dice *d, scene *sc, int32_t wide, int32_t high) {
  make_texture(d, &sc->skins[0], NULL, 0);
  sc->n = between(d, MIN_SHAPES, MAX_SHAPES);
  for (int i = 0; i < sc->n; i++) {
    int64_t best = -1;
    for (int k = 0; k < 3; k++) {
      shape s;
      int64_t near = INT64_MAX;
      make_shape(d, &s, wide, high);
      for (int j = 0; j < i; j++) {
        int64_t dx = s.x - sc->shapes[j].x, dy = s.y - sc->shapes[j].y, q = dx * dx + dy * dy;
        near = q < near ? q : near;
      }
      if (near > best) {
        best = near;
        sc->shapes[i] = s;
        sc->shapes[i].label = s.kind;
      }
    }
    make_texture(d, &sc->shapes[i].skin, sc->skins, i + 1);
    sc->skins[i + 1] = sc->shapes[i].skin;
  }
  sc->grain_seed = roll(d, UINT32_MAX);
  sc->grain = between(d, 8, 20);
}

/* Where the centre of pixel i is. */
static inline int32_t at_pixel(int i, int short_side) {
  return (int32_t)((2 * (int64_t)i + 1) * ONE / (2 * (int64_t)short_side));
}

/* One shape, within the circle that touches the middle of the short sides: so turning the picture does not take it out,
 * and a crop takes away no more than an edge of it. The larger of two draws makes places in a circle equally likely. */
static void make_single(dice *d, scene *sc, int32_t wide, int32_t high) {
  shape *s = &sc->shapes[0];
  make_texture(d, &sc->skins[0], NULL, 0);
  make_shape_of(d, s, ONE * 19 / 100, ONE * 32 / 100);
  s->label = 1 + class_of[s->kind];
  int32_t one = between(d, 0, ONE / 2 - s->r), other = between(d, 0, ONE / 2 - s->r), away = one > other ? one : other;
  turn where = any_turn(d);
  s->x = ONE / 2 + along(where, away, 0) + between(d, 0, wide - ONE);
  s->y = ONE / 2 + along((turn){where.s, 0}, away, 0) + between(d, 0, high - ONE);
  s->way = any_turn(d);
  make_texture(d, &s->skin, sc->skins, 1);
  sc->n = 1;
  sc->grain_seed = roll(d, UINT32_MAX);
  sc->grain = between(d, 8, 20);
}

/* Paints the shape over what is there; edges are one pixel soft, labels are not. mask NULL: not wanted. */
static void paint(const shape *s, int32_t unit, int h, int w, int short_side, int32_t *rgb, uint8_t *mask) {
  int64_t reach = s->r + unit;
  int y0 = (int)((s->y - reach) * short_side / ONE), y1 = (int)((s->y + reach) * short_side / ONE) + 1;
  int x0 = (int)((s->x - reach) * short_side / ONE), x1 = (int)((s->x + reach) * short_side / ONE) + 1;
  y0 = y0 < 0 ? 0 : y0;
  x0 = x0 < 0 ? 0 : x0;
  for (int i = y0; i < h && i <= y1; i++) {
    int32_t y = at_pixel(i, short_side) - s->y;
    for (int j = x0; j < w && j <= x1; j++) {
      int32_t x = at_pixel(j, short_side) - s->x, c[3];
      int64_t depth = depth_in(s, x, y), cover = depth * 256 / unit + 128;
      if (cover <= 0) continue;
      cover = cover > 256 ? 256 : cover;
      colour_at(&s->skin, x, y, c);
      int32_t *p = rgb + ((size_t)i * (size_t)w + (size_t)j) * 3;
      for (int k = 0; k < 3; k++) p[k] += (int32_t)((c[k] - p[k]) * cover >> 8);
      if (mask && depth >= 0) mask[(size_t)i * (size_t)w + (size_t)j] = (uint8_t)s->label;
    }
  }
}

static void *shapes_reserve(const rd_self *self, rd_worker *w) {
  return im_reserve(&w->image, (size_t)self->h * (size_t)self->w * 3 * sizeof(int32_t));
}

static int shapes_fill(rd_self *self, rd_worker *worker, uint64_t index, const rd_out *out) {
  int h = self->h, w = self->w, short_side = h < w ? h : w;
  size_t pixels = (size_t)h * (size_t)w;
  int32_t *rgb = shapes_reserve(self, worker);
  if (!rgb) return rd_fail(worker, SP_E_NOMEM, "no memory for a picture of %d x %d", w, h);
  dice d = {.key = self->key, .id = index, .used = 4};
  scene sc;
  (self->gives & RD_LABEL ? make_single : make_scene)(&d, &sc, (int32_t)((int64_t)w * ONE / short_side),
                                                      (int32_t)((int64_t)h * ONE / short_side));
  if (self->gives & RD_LABEL) *out->label = sc.shapes[0].label - 1;
  if (!out->image && !out->mask) return SP_OK;
  for (int i = 0; i < h; i++)
    for (int j = 0; j < w; j++)
      colour_at(&sc.skins[0], at_pixel(j, short_side) - ONE / 2, at_pixel(i, short_side) - ONE / 2,
                rgb + ((size_t)i * (size_t)w + (size_t)j) * 3);
  if (out->mask) memset(out->mask, GROUND, pixels);
  int32_t unit = ONE / short_side > 0 ? ONE / short_side : 1;
  for (int i = 0; i < sc.n; i++) paint(&sc.shapes[i], unit, h, w, short_side, rgb, out->mask);
  uint8_t *image = out->image;
  for (int i = 0; image && i < h; i++)
    for (int j = 0; j < w; j++) {
      uint32_t g = hash3(sc.grain_seed, (uint32_t)j, (uint32_t)i);
      for (int k = 0; k < 3; k++, g >>= 8) {
        int32_t noise = ((int32_t)(g & 255) - 128) * sc.grain; /* 8 fraction bits */
        *image++ = (uint8_t)clip((*rgb++ + noise + 128) >> 8);
      }
    }
  return SP_OK;
}

static int open_set(sp_ctx *ctx, rd_self *self, int64_t classes, const char *names, int gives) {
  if (self->p->classes && self->p->classes != classes)
    return ctx->host->fail(ctx, SP_E_INVALID, "classes = %lld, but the set shapes has %lld%s",
                           (long long)self->p->classes, (long long)classes,
                           gives & RD_LABEL ? " with target = \"class\"" : "");
  self->total = self->p->samples ? (uint64_t)self->p->samples : 2048;
  self->classes = classes;
  self->gives = gives;
  self->class_names = strdup(names);
  return self->class_names ? SP_OK : ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the names of the classes");
}

static int shapes_open(sp_ctx *ctx, rd_self *self) {
  return open_set(ctx, self, N_CLASSES, "ground\ndisc\nsquare\ntriangle\nring\ncross", RD_MASK);
}

static int shape_open(sp_ctx *ctx, rd_self *self) {
  return open_set(ctx, self, N_CLASSES - 1, "cross\ndisc\nring\nsquare\ntriangle", RD_MASK | RD_LABEL);
}

static void shapes_close(rd_self *self) { (void)self; }

static uint64_t shapes_hash(const rd_self *self, uint64_t index) {
  (void)self;
  return (uint64_t)hash3(0x51ED270Bu, (uint32_t)index, 0) << 32 | hash3(0xB5297A4Du, (uint32_t)index, 1);
}

const rd_kind rd_shapes = {"shapes", shapes_open, shapes_close, shapes_fill, shapes_reserve, shapes_hash};
const rd_kind rd_shape = {"shapes, one each", shape_open, shapes_close, shapes_fill, shapes_reserve, shapes_hash};
