/* SPDX-License-Identifier: MIT
 * perspective.h - images seen from aside, by four corners of each sample: ports, parameters and draws, for every
 * device. */
#ifndef PERSPECTIVE_H
#define PERSPECTIVE_H

#include "../../kits/warp/warp.h"

#define PERSPECTIVE_DOC "Moves the four corners of each sample, as if it were seen from aside, on the same canvas"
#define PERSPECTIVE_STATUS_DOC                                                                                    \
  "sample %sample: the 4 corners on 'corners' make no figure that an image can become: all must point outwards, " \
  "be within 16777216 pixels, and the image have 2 rows and columns at least"

#define PERSPECTIVE_TRIES 10

typedef struct perspective_params {
  warp_params warp;
  double distortion;
} perspective_params;

typedef struct perspective_range {
  int32_t h, w, x, y; /* of the image; how far corners go inwards */
  float probability;
} perspective_range;

extern const sp_port perspective_inputs[], perspective_outputs[];
extern const sp_param perspective_param_table[];

int perspective_plan(sp_ctx *ctx, void *self, sp_plan *plan);
perspective_range perspective_range_of(const perspective_params *p, int32_t h, int32_t w);

/* The corners of a sample, if nobody says: torchvision's RandomPerspective. Corners that cannot be are drawn again; a
 * sample that has none after ten tries stays as it is, as images of one row or column do. */
SP_RNG_FN warp_corners perspective_draw(const aug_dice *dice, int64_t sample, const perspective_range *r) {
  warp_corners own = warp_corners_of(r->h, r->w);
  uint32_t k;
  if (!aug_chance(dice) || sp_rng_float(aug_roll(dice, sample, 0).v[0]) >= r->probability) return own;
  for (k = 0; k < PERSPECTIVE_TRIES; k++) {
    sp_rng4 a = aug_roll(dice, sample, 1 + 2 * k), b = aug_roll(dice, sample, 2 + 2 * k);
    warp_corners c = own;
    int i;
    for (i = 0; i < 4; i++) {
      int32_t x = (int32_t)sp_rng_below(i < 2 ? a.v[2 * i] : b.v[2 * i - 4], (uint32_t)r->x + 1);
      int32_t y = (int32_t)sp_rng_below(i < 2 ? a.v[2 * i + 1] : b.v[2 * i - 3], (uint32_t)r->y + 1);
      c.at[2 * i] = own.at[2 * i] ? r->w - 1 - r->x + x : x;
      c.at[2 * i + 1] = own.at[2 * i + 1] ? r->h - 1 - r->y + y : y;
    }
    if (!warp_corners_bad(&c, r->h, r->w)) return c;
  }
  return own;
}

/* What is told behind the call must have a map before: a copy. */
SP_RNG_FN warp_map perspective_map(const warp_corners *c, const perspective_range *r) {
  return warp_corners_bad(c, r->h, r->w) ? warp_none(r->h, r->w) : warp_corners_map(c, r->h, r->w);
}

#endif
