/* SPDX-License-Identifier: MIT
 * elastic.h - images moved by a smooth random field of displacements: ports, parameters and draws, for every device. */
#ifndef ELASTIC_H
#define ELASTIC_H

#include "../../kits/warp/warp.h"

#define ELASTIC_DOC "Moves the pixels of each sample by smooth random displacements, as if it were seen through water"

#define ELASTIC_MAX_SIGMA 100
#define ELASTIC_RADIUS 401 /* of the kernel of the largest sigma, and its middle */

typedef struct elastic_params {
  warp_params warp;
  sp_floats alpha, sigma;
} elastic_params;

/* A kernel along one axis: weights of the middle and of what lies to both sides. */
typedef struct elastic_kernel {
  int32_t radius;
  float weight[ELASTIC_RADIUS];
} elastic_kernel;

/* What a field is drawn with. x, y: what smooth numbers of -1 .. 1 are multiplied by, in halves of the image. */
typedef struct elastic_range {
  int32_t h, w;
  float x, y, probability;
} elastic_range;

extern const sp_port elastic_inputs[], elastic_outputs[];
extern const sp_param elastic_param_table[];

/* What both devices check. */
int elastic_check(sp_ctx *ctx, const elastic_params *p, sp_plan *plan, int64_t *h, int64_t *w);
elastic_range elastic_range_of(const elastic_params *p, int32_t h, int32_t w);
/* Along x: axis 0; along y: axis 1. */
int elastic_radius(const elastic_params *p, int axis);
void elastic_kernel_of(elastic_kernel *k, const elastic_params *p, int axis);

/* Whether a sample is moved. */
SP_RNG_FN int elastic_moves(const aug_dice *dice, int64_t sample, float probability) {
  return aug_chance(dice) && sp_rng_float(aug_roll(dice, sample, 0).v[0]) < probability;
}

/* Of the pixels 2 pair and 2 pair + 1 of a row: x and y of the first, of the second. */
SP_RNG_FN sp_rng4 elastic_words(const aug_dice *dice, int64_t sample, int32_t y, int32_t pair, int32_t w) {
  return aug_roll(dice, sample, 1u + (uint32_t)y * (uint32_t)((w + 1) / 2) + (uint32_t)pair);
}

/* Uniform in -1 .. 1, exact. */
SP_RNG_FN float elastic_noise(uint32_t bits) { return sp_rng_float(bits) * 2.0f - 1.0f; }

/* Beyond the edge the field is mirrored, which is not repeated. */
SP_RNG_FN int32_t elastic_mirror(int32_t i, int32_t n) {
  i = i < 0 ? -i : i;
  return i < n ? i : 2 * n - 2 - i;
}

#endif
