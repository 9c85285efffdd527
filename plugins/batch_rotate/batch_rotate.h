/* SPDX-License-Identifier: MIT
 * batch_rotate.h - images turned about their middle, by an angle a sample: ports, parameters and checks, and where a
 * pixel comes from, for every device. */
#ifndef BATCH_ROTATE_H
#define BATCH_ROTATE_H

#include "../aug/aug.h"
#include "../aug/draw.h"

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

extern const sp_port rotate_inputs[], rotate_outputs[];
extern const sp_param rotate_param_table[];

int rotate_plan(sp_ctx *ctx, void *self, sp_plan *plan);
rotate_how rotate_how_of(const rotate_params *p);

#ifdef __CUDA_ARCH__ /* nvcc fuses products and sums */
#define ROTATE_MUL __fmul_rn
#define ROTATE_ADD __fadd_rn
#else
#define ROTATE_MUL(a, b) ((a) * (b))
#define ROTATE_ADD(a, b) ((a) + (b))
#endif

SP_RNG_FN float rotate_draw(const aug_dice *dice, int64_t sample, float lo, float hi) {
  return aug_chance(dice) ? aug_uniform(aug_roll(dice, sample, 0).v[0], lo, hi) : 0.0f;
}

/* A turn, as PyTorch's affine grid has it: pixels to -1 .. 1 of the image and back. Each rounding is that of torchvision,
 * so that the same pixels are chosen. */
typedef struct rotate_turn {
  float xx, xy, yx, yy, half_w, half_h, w, h; /* half: (size - 1) / 2 */
} rotate_turn;

SP_RNG_FN rotate_turn rotate_turn_of(float degrees, int32_t h, int32_t w) {
  double way = -(double)degrees * (3.14159265358979323846 / 180.0);
  float c = (float)cos(way), s = (float)sin(way), half_w = (float)w * 0.5f, half_h = (float)h * 0.5f;
  rotate_turn t;
  t.xx = c / half_w;
  t.xy = s / half_w;
  t.yx = -s / half_h;
  t.yy = c / half_h;
  t.half_w = (float)(w - 1) * 0.5f;
  t.half_h = (float)(h - 1) * 0.5f;
  t.w = (float)w;
  t.h = (float)h;
  return t;
}

/* Where pixel (x, y) of the result comes from, in pixels of the image. */
SP_RNG_FN float rotate_x(const rotate_turn *t, int32_t x, int32_t y) {
  float g = ROTATE_ADD(ROTATE_MUL((float)x - t->half_w, t->xx), ROTATE_MUL((float)y - t->half_h, t->xy));
  return ROTATE_ADD(ROTATE_MUL(ROTATE_ADD(g, 1.0f), t->w), -1.0f) * 0.5f;
}
SP_RNG_FN float rotate_y(const rotate_turn *t, int32_t x, int32_t y) {
  float g = ROTATE_ADD(ROTATE_MUL((float)x - t->half_w, t->yx), ROTATE_MUL((float)y - t->half_h, t->yy));
  return ROTATE_ADD(ROTATE_MUL(ROTATE_ADD(g, 1.0f), t->h), -1.0f) * 0.5f;
}

#endif
