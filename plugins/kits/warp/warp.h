/* SPDX-License-Identifier: MIT
 * warp.h - images whose pixels come from elsewhere in them: where from, by a shear, a shift, a turn ... or the
 * corners of a perspective, and what is taken from there. The same bits on every device. Places are computed with the
 * roundings of torchvision's, so that the same pixels are chosen.
 */
#ifndef SP_PLUGINS_WARP_H
#define SP_PLUGINS_WARP_H

#include "../aug/aug.h"
#include "../aug/draw.h"
#include "../aug/exact.h"

enum { WARP_NEAREST, WARP_BILINEAR };

/* WARP_NONE: a copy, bit for bit. */
enum { WARP_NONE, WARP_AFFINE, WARP_PLANE };

/* Where pixel (x, y) of a result comes from, in halves of the image, 0 its middle: with X = x + left, Y = y + top it is
 * (x[0] X + x[1] Y + x[2], y[0] X + ...), of a plane in perspective divided by z[0] X + z[1] Y + 1, less 1. */
typedef struct warp_map {
  float x[3], y[3], z[2];
  float left, top, w, h;
  int32_t kind;
} warp_map;

/* What an affine map is made of, as torchvision's affine() takes it: a turn clockwise, a shift right and down in
 * pixels, a scale and shears, angles in degrees. */
typedef struct warp_affine {
  float angle, right, down, scale, shear_x, shear_y;
} warp_affine;

/* Corners of the result that those of the image go to: top left, top right, bottom right, bottom left, x and y each. */
typedef struct warp_corners {
  int32_t at[8];
} warp_corners;

/* ---- parameters of the stages ---- */
typedef struct warp_params {
  aug_draws draws;
  sp_floats fill;
  int64_t mask_fill;
  double probability;
  int32_t mode;
} warp_params;

extern const char *const warp_modes[];

#define WARP_PARAMS(holder, member, usual_mode, usual_probability)                               \
  {.name = "mode",                                                                               \
   .type = SP_PARAM_CHOICE,                                                                      \
   .offset = offsetof(holder, member.mode),                                                      \
   .idef = usual_mode,                                                                           \
   .choices = warp_modes,                                                                        \
   .doc = "how images are sampled; masks take the nearest pixel either way"},                    \
      {.name = "fill",                                                                           \
       .type = SP_PARAM_FLOATS,                                                                  \
       .offset = offsetof(holder, member.fill),                                                  \
       .def_str = "0",                                                                           \
       .min = -1e30,                                                                             \
       .max = 1e30,                                                                              \
       .min_n = 1,                                                                               \
       .max_n = 4,                                                                               \
       .doc = "what images get outside of the original: one number, or one a channel, up to 4"}, \
      {.name = "mask_fill",                                                                      \
       .type = SP_PARAM_INT,                                                                     \
       .offset = offsetof(holder, member.mask_fill),                                             \
       .idef = 255,                                                                              \
       .imin = INT32_MIN,                                                                        \
       .imax = INT32_MAX,                                                                        \
       .doc = "what masks get there: the label that the loss ignores, 255 in label masks here"}, \
      {.name = "p",                                                                              \
       .type = SP_PARAM_FLOAT,                                                                   \
       .offset = offsetof(holder, member.probability),                                           \
       .def = usual_probability,                                                                 \
       .min = 0,                                                                                 \
       .max = 1,                                                                                 \
       .doc = "probability of changing a sample; otherwise it stays as it is"},                  \
      AUG_DRAW_PARAMS(holder, member.draws)

/* What a call needs besides tensors and maps. */
typedef struct warp_how {
  int32_t mode, mask_fill;
  float fill[4]; /* of channel c: fill[c % fills] */
  int32_t fills;
} warp_how;

warp_how warp_how_of(const sp_io *io, const warp_params *p);
/* Sizes and types as the parameters want them; outputs like the inputs. h and w: their size. */
int warp_plan(sp_ctx *ctx, const warp_params *p, sp_plan *plan, int64_t *h, int64_t *w);
/* 'what' goes from lo up to hi: of a list of one number or two. */
int warp_in_order(sp_ctx *ctx, const char *what, const sp_floats *range);

#ifdef __cplusplus
#define WARP_ZERO \
  {}
#else
#define WARP_ZERO \
  { 0 }
#endif

/* ---- maps ---- */
SP_RNG_FN warp_map warp_none(int32_t h, int32_t w) {
  warp_map m = WARP_ZERO;
  m.w = (float)w;
  m.h = (float)h;
  m.kind = WARP_NONE;
  return m;
}

SP_RNG_FN int warp_is_neutral(const warp_affine *a) {
  return a->angle == 0.0f && a->right == 0.0f && a->down == 0.0f && a->scale == 1.0f && a->shear_x == 0.0f &&
         a->shear_y == 0.0f;
}

/* Whether there is such a map: all numbers are finite, the scale is above 0. */
SP_RNG_FN int warp_affine_bad(const warp_affine *a) {
  float sum = fabsf(a->angle) * 0.0f + fabsf(a->right) * 0.0f + fabsf(a->down) * 0.0f + fabsf(a->scale) * 0.0f +
              fabsf(a->shear_x) * 0.0f + fabsf(a->shear_y) * 0.0f;
  return sum != 0.0f || !(a->scale > 0.0f);
}

/* Sums of products of doubles, each rounded. */
SP_RNG_FN double warp_dot(double a, double b, double c, double d) { return AUG_DADD(AUG_DMUL(a, b), AUG_DMUL(c, d)); }

/* cx, cy: what stays in its place, in pixels from the image's middle. */
SP_RNG_FN warp_map warp_affine_map(const warp_affine *p, double cx, double cy, int32_t h, int32_t w) {
  double turn = aug_radians(p->angle), sx = aug_radians(p->shear_x), sy = aug_radians(p->shear_y), s = p->scale;
  double by = turn - sy, cos_y = aug_sine(sy, 1), tan_x = aug_sine(sx, 0) / aug_sine(sx, 1);
  double a = aug_sine(by, 1) / cos_y, c = aug_sine(by, 0) / cos_y;
  double b = AUG_DADD(AUG_DMUL(-aug_sine(by, 1), tan_x) / cos_y, -aug_sine(turn, 0));
  double d = AUG_DADD(AUG_DMUL(-aug_sine(by, 0), tan_x) / cos_y, aug_sine(turn, 1));
  double m[6], x = -cx - (double)p->right, y = -cy - (double)p->down;
  warp_map r = warp_none(h, w);
  int i;
  if (warp_is_neutral(p)) return r;
  m[0] = d / s, m[1] = -b / s, m[3] = -c / s, m[4] = a / s;
  m[2] = warp_dot(m[0], x, m[1], y) + cx;
  m[5] = warp_dot(m[3], x, m[4], y) + cy;
  for (i = 0; i < 3; i++) {
    r.x[i] = (float)m[i] / ((float)w * 0.5f);
    r.y[i] = (float)m[3 + i] / ((float)h * 0.5f);
  }
  r.left = -(float)(w - 1) * 0.5f;
  r.top = -(float)(h - 1) * 0.5f;
  r.kind = WARP_AFFINE;
  return r;
}

/* The image's own corners. */
SP_RNG_FN warp_corners warp_corners_of(int32_t h, int32_t w) {
  warp_corners c = {{0, 0, 0, 0, 0, 0, 0, 0}};
  c.at[2] = c.at[4] = w - 1;
  c.at[5] = c.at[7] = h - 1;
  return c;
}

SP_RNG_FN int warp_corners_same(const warp_corners *a, const warp_corners *b) {
  int i;
  for (i = 0; i < 8; i++)
    if (a->at[i] != b->at[i]) return 0;
  return 1;
}

/* On which side of the edge from corner i to the next one the corner after that lies: of a figure whose corners all
 * point outwards it is the same side for all four. */
SP_RNG_FN int warp_side(const warp_corners *c, int i) {
  const int32_t *a = c->at + 2 * i, *b = c->at + 2 * ((i + 1) & 3), *d = c->at + 2 * ((i + 2) & 3);
  double to = AUG_DMUL((double)b[0] - a[0], (double)d[1] - b[1]),
         from = AUG_DMUL((double)b[1] - a[1], (double)d[0] - b[0]);
  return (to > from) - (to < from);
}

/* Whether corners have no map: they have one where they are the image's own, or a figure whose corners point outwards
 * and the image has more than one row and column. */
SP_RNG_FN int warp_corners_bad(const warp_corners *c, int32_t h, int32_t w) {
  warp_corners own = warp_corners_of(h, w);
  int side = warp_side(c, 0), i, far = 0;
  if (warp_corners_same(c, &own)) return 0;
  for (i = 0; i < 8; i++) far |= c->at[i] > (1 << 24) || c->at[i] < -(1 << 24);
  return far || h < 2 || w < 2 || !side || warp_side(c, 1) != side || warp_side(c, 2) != side ||
         warp_side(c, 3) != side;
}

/* Of corners that are not bad. By way of the unit square. */
SP_RNG_FN warp_map warp_corners_map(const warp_corners *c, int32_t h, int32_t w) {
  double x0 = c->at[0], y0 = c->at[1], x1 = c->at[2], y1 = c->at[3], x2 = c->at[4], y2 = c->at[5], x3 = c->at[6],
         y3 = c->at[7];
  double ax = x1 - x2, ay = y1 - y2, bx = x3 - x2, by = y3 - y2, sx = x0 - x1 + x2 - x3, sy = y0 - y1 + y2 - y3;
  double det = warp_dot(ax, by, -bx, ay), g = warp_dot(sx, by, -bx, sy) / det, k = warp_dot(ax, sy, -sx, ay) / det;
  double a = AUG_DADD(x1 - x0, AUG_DMUL(g, x1)), b = AUG_DADD(x3 - x0, AUG_DMUL(k, x3));
  double d = AUG_DADD(y1 - y0, AUG_DMUL(g, y1)), e = AUG_DADD(y3 - y0, AUG_DMUL(k, y3));
  double far = warp_dot(a, e, -b, d), of_x = (double)(w - 1) / far, of_y = (double)(h - 1) / far, m[6];
  warp_map r = warp_none(h, w);
  warp_corners own = warp_corners_of(h, w);
  int i;
  if (warp_corners_same(c, &own)) return r;
  m[0] = AUG_DMUL(AUG_DADD(e, -AUG_DMUL(y0, k)), of_x);
  m[1] = AUG_DMUL(AUG_DADD(AUG_DMUL(x0, k), -b), of_x);
  m[2] = AUG_DMUL(warp_dot(b, y0, -x0, e), of_x);
  m[3] = AUG_DMUL(AUG_DADD(AUG_DMUL(y0, g), -d), of_y);
  m[4] = AUG_DMUL(AUG_DADD(a, -AUG_DMUL(x0, g)), of_y);
  m[5] = AUG_DMUL(warp_dot(x0, d, -a, y0), of_y);
  for (i = 0; i < 3; i++) {
    r.x[i] = (float)m[i] / ((float)w * 0.5f);
    r.y[i] = (float)m[3 + i] / ((float)h * 0.5f);
  }
  r.z[0] = (float)(warp_dot(d, k, -e, g) / far);
  r.z[1] = (float)(warp_dot(b, g, -a, k) / far);
  r.left = r.top = 0.5f;
  r.kind = WARP_PLANE;
  return r;
}

/* ---- places ---- */
/* A place in halves of the image as a pixel of it; what lies outside, and what is no number, stays so near that it
 * fits an integer. */
SP_RNG_FN float warp_pixel(float at, float size) {
  float v = AUG_ADD(AUG_MUL(AUG_ADD(at, 1.0f), size), -1.0f) * 0.5f;
  v = v > -2.0f ? v : -2.0f;
  return v < size + 1.0f ? v : size + 1.0f;
}

/* One coordinate of a map that is not WARP_NONE; X and Y: of the pixel, with left and top. */
SP_RNG_FN float warp_line(const float c[3], float x, float y) {
  return AUG_ADD(AUG_ADD(AUG_MUL(x, c[0]), AUG_MUL(y, c[1])), c[2]);
}
SP_RNG_FN float warp_depth(const float c[2], float x, float y) {
  return AUG_ADD(AUG_ADD(AUG_MUL(x, c[0]), AUG_MUL(y, c[1])), 1.0f);
}

/* Of the two neighbours of a place along one axis those outside of the image weigh nothing. Neighbours are read at
 * two pixels from *first on, both in the image unless it has but one; a neighbour's weight stands with it. *inside:
 * both are in the image. */
SP_RNG_FN void warp_axis(float v, int32_t size, int32_t *first, float *low, float *high, int32_t *inside) {
  int32_t i = (int32_t)v, before, last;
  float part, rest;
  i -= (float)i > v;
  part = AUG_ADD(v, -(float)i);
  rest = AUG_ADD(1.0f, -part);
  rest = (i >= 0) & (i < size) ? rest : 0.0f; /* of pixel i */
  part = (i >= -1) & (i < size - 1) ? part : 0.0f;
  before = i < 0;
  last = (i > size - 2) & (size > 1);
  *low = before ? part : last ? 0.0f : rest;
  *high = before ? 0.0f : last ? rest : part;
  *inside = (i >= 0) & (i < size - 1);
  i = i < 0 ? 0 : i;
  *first = i > size - 2 ? (size > 1 ? size - 2 : 0) : i;
}

/* Floats may be no numbers: at an edge, what weighs nothing is not looked at. */
SP_RNG_FN float warp_weighed(float v, float weight) { return weight == 0.0f ? 0.0f : AUG_MUL(v, weight); }

/* What a place at an edge shows: v is what is there of the image, which weighs `all`. */
SP_RNG_FN float warp_filled(float v, float all, float fill) {
  return AUG_ADD(AUG_MUL(v, all), AUG_MUL(AUG_ADD(1.0f, -all), fill));
}

/* A pixel of an image that a displacement is added to. */
SP_RNG_FN float warp_moved(int32_t i, float size, float by) {
  return by == 0.0f ? (float)i : warp_pixel(AUG_ADD((float)(2 * i + 1 - (int32_t)size) / size, by), size);
}

#endif
