/* SPDX-License-Identifier: MIT
 * affine.h - images turned, shifted, scaled and sheared, by numbers of each sample: ports, parameters and draws, for
 * every device. */
#ifndef AFFINE_H
#define AFFINE_H

#include "../../kits/warp/warp.h"

#define AFFINE_DOC "Turns, shifts, scales and shears each sample by numbers of its own, on the same canvas"
#define AFFINE_STATUS_DOC \
  "sample %sample: number %value of its 6 on 'affines' is bad: all must be finite, the fourth, a scale, above 0"

enum { AFFINE_NUMBERS = 6 };

typedef struct affine_params {
  warp_params warp;
  sp_floats degrees, translate, scale, shear, center;
} affine_params;

/* What is drawn from, in the order of a warp_affine, and what stays in its place. */
typedef struct affine_range {
  float lo[AFFINE_NUMBERS], hi[AFFINE_NUMBERS], probability;
  double cx, cy; /* pixels from the middle */
  int32_t h, w;
} affine_range;

extern const sp_port affine_inputs[], affine_outputs[];
extern const sp_param affine_param_table[];

int affine_plan(sp_ctx *ctx, void *self, sp_plan *plan);
affine_range affine_range_of(const affine_params *p, int32_t h, int32_t w);

/* The numbers of a sample, if nobody says: torchvision's RandomAffine, shifts in whole pixels. */
SP_RNG_FN warp_affine affine_draw(const aug_dice *dice, int64_t sample, const affine_range *r) {
  sp_rng4 a = aug_roll(dice, sample, 0), b = aug_roll(dice, sample, 1);
  warp_affine v = {0, 0, 0, 1, 0, 0};
  if (!aug_chance(dice) || sp_rng_float(b.v[2]) >= r->probability) return v;
  v.angle = aug_uniform(a.v[0], r->lo[0], r->hi[0]);
  v.right = rintf(aug_uniform(a.v[1], r->lo[1], r->hi[1]));
  v.down = rintf(aug_uniform(a.v[2], r->lo[2], r->hi[2]));
  v.scale = aug_uniform(a.v[3], r->lo[3], r->hi[3]);
  v.shear_x = aug_uniform(b.v[0], r->lo[4], r->hi[4]);
  v.shear_y = aug_uniform(b.v[1], r->lo[5], r->hi[5]);
  return v;
}

/* Which of the numbers is bad, counted from 1; 0: none. */
SP_RNG_FN int affine_bad(const warp_affine *v) {
  if (!warp_affine_bad(v)) return 0;
  if (!isfinite(v->angle)) return 1;
  if (!isfinite(v->right)) return 2;
  if (!isfinite(v->down)) return 3;
  if (!isfinite(v->scale) || !(v->scale > 0)) return 4;
  return !isfinite(v->shear_x) ? 5 : 6;
}

/* What is told behind the call must have a map before: a copy. */
SP_RNG_FN warp_map affine_map(const warp_affine *v, const affine_range *r) {
  return warp_affine_bad(v) ? warp_none(r->h, r->w) : warp_affine_map(v, r->cx, r->cy, r->h, r->w);
}

#endif
