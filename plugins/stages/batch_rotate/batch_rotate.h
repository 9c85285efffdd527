/* SPDX-License-Identifier: MIT
 * batch_rotate.h - images turned about their middle, by an angle a sample: ports, parameters and checks, and where a
 * pixel comes from, for every device. */
#ifndef BATCH_ROTATE_H
#define BATCH_ROTATE_H

#include "../../kits/aug/aug.h"
#include "../../kits/aug/draw.h"

#define ROTATE_DOC "Turns each sample about its middle by an angle of its own, on the same canvas"
#define ROTATE_STATUS_DOC "sample %sample: an angle on 'angles' is not a finite number"

enum { ROTATE_NEAREST, ROTATE_BILINEAR };

typedef struct rotate_params {
  aug_draws draws;
  sp_floats degrees, fill;
  int64_t mask_fill;
  int32_t mode;
} rotate_params;

/* What a call needs besides the tensors. */
typedef struct rotate_how {
  float lo, hi; /* degrees */
  int32_t mode;
  int32_t mask_fill;
  float fill[4]; /* of channel c: fill[c % fills] */
  int32_t fills;
} rotate_how;

/* What `augment` takes as well. */
#define ROTATE_IN_ANGLES              \
  AUG_PORT_DRAWN("angles", SP_F32, 1, \
                 "degrees, one a sample, positive is counter-clockwise; not wired: drawn, uniform in `degrees`")
#define ROTATE_MASK_FILL(at)                                                                                    \
  {                                                                                                             \
    .name = "mask_fill", .type = SP_PARAM_INT, .offset = at, .idef = 255, .imin = INT32_MIN, .imax = INT32_MAX, \
    .doc = "what masks get there: the label that the loss ignores, 255 in label masks here"                     \
  }

extern const sp_port rotate_inputs[], rotate_outputs[];
extern const sp_param rotate_param_table[];

/* Whether the parameters fit the images and masks; bytes: images of bytes stay such, so the fill is one. */
int rotate_check(sp_ctx *ctx, const rotate_params *p, const sp_plan *plan, int bytes);
int rotate_plan(sp_ctx *ctx, void *self, sp_plan *plan);
rotate_how rotate_how_of(const rotate_params *p);

#ifdef __CUDA_ARCH__ /* nvcc fuses products and sums */
#define ROTATE_MUL __fmul_rn
#define ROTATE_ADD __fadd_rn
#else
#define ROTATE_MUL(a, b) ((a) * (b))
#define ROTATE_ADD(a, b) ((a) + (b))
#endif

/* What it reads is on its way before it is known whether it is needed. */
SP_RNG_FN float rotate_draw(const aug_dice *dice, int64_t sample, float lo, float hi) {
  float drawn = aug_uniform(aug_roll(dice, sample, 0).v[0], lo, hi);
  return aug_chance(dice) ? drawn : 0.0f;
}

/* A turn, as PyTorch's affine grid has it: pixels to -1 .. 1 of the image and back. Each rounding is that of
 * torchvision, so that the same pixels are chosen. */
typedef struct rotate_turn {
  float xx, xy, yx, yy, half_w, half_h, w, h; /* half: (size - 1) / 2 */
} rotate_turn;

SP_RNG_FN double rotate_radians(float degrees) { return -(double)degrees * (3.14159265358979323846 / 180.0); }

/* A turn in parts, so that a kernel can have the sine and the cosine in different threads. */
SP_RNG_FN void rotate_sizes(rotate_turn *t, int32_t h, int32_t w) {
  t->half_w = (float)(w - 1) * 0.5f;
  t->half_h = (float)(h - 1) * 0.5f;
  t->w = (float)w;
  t->h = (float)h;
}
SP_RNG_FN void rotate_cosine(rotate_turn *t, float c, int32_t h, int32_t w) {
  t->xx = c / ((float)w * 0.5f);
  t->yy = c / ((float)h * 0.5f);
}
SP_RNG_FN void rotate_sine(rotate_turn *t, float s, int32_t h, int32_t w) {
  t->xy = s / ((float)w * 0.5f);
  t->yx = -s / ((float)h * 0.5f);
}

SP_RNG_FN rotate_turn rotate_turn_of(float degrees, int32_t h, int32_t w) {
  double way = rotate_radians(degrees);
  rotate_turn t;
  rotate_sizes(&t, h, w);
  rotate_cosine(&t, (float)cos(way), h, w);
  rotate_sine(&t, (float)sin(way), h, w);
  return t;
}

/* Twice where pixel (x, y) of the result comes from, in pixels of the image: half of it is exact. rotate_twice() makes
 * it of what x and y add to it, where the image has `size` pixels in this direction. */
SP_RNG_FN float rotate_twice(float by_x, float by_y, float size) {
  return ROTATE_ADD(ROTATE_MUL(ROTATE_ADD(ROTATE_ADD(by_x, by_y), 1.0f), size), -1.0f);
}
SP_RNG_FN float rotate_twice_x(const rotate_turn *t, int32_t x, int32_t y) {
  return rotate_twice(ROTATE_MUL((float)x - t->half_w, t->xx), ROTATE_MUL((float)y - t->half_h, t->xy), t->w);
}
SP_RNG_FN float rotate_twice_y(const rotate_turn *t, int32_t x, int32_t y) {
  return rotate_twice(ROTATE_MUL((float)x - t->half_w, t->yx), ROTATE_MUL((float)y - t->half_h, t->yy), t->h);
}
SP_RNG_FN float rotate_x(const rotate_turn *t, int32_t x, int32_t y) { return rotate_twice_x(t, x, y) * 0.5f; }
SP_RNG_FN float rotate_y(const rotate_turn *t, int32_t x, int32_t y) { return rotate_twice_y(t, x, y) * 0.5f; }

#endif
