/* SPDX-License-Identifier: MIT
 * flip.h - mirrored images, one decision a sample: ports, parameters and checks, for every device. */
#ifndef FLIP_H
#define FLIP_H

#include "../../kits/aug/aug.h"
#include "../../kits/aug/draw.h"

#define FLIP_DOC "Mirrors each sample left to right, top to bottom, both or not at all"
#define FLIP_STATUS_DOC "sample %sample: %value on 'flips', which is neither 0 (leave it) nor 1 (mirror it)"

typedef struct flip_params {
  aug_draws draws;
  double horizontal, vertical;
} flip_params;

/* Probabilities, as they are compared with what is drawn. */
typedef struct flip_odds {
  float horizontal, vertical;
} flip_odds;

extern const sp_port flip_inputs[], flip_outputs[];
extern const sp_param flip_param_table[];

int flip_plan(sp_ctx *ctx, void *self, sp_plan *plan);

static inline flip_odds flip_odds_of(const flip_params *p) {
  return (flip_odds){(float)p->horizontal, (float)p->vertical};
}

/* Whether a sample is mirrored, if nobody says: [0] left to right, [1] top to bottom. */
SP_RNG_FN void flip_draw(const aug_dice *dice, int64_t sample, const flip_odds *odds, int32_t flips[2]) {
  flips[0] = flips[1] = 0;
  if (!aug_chance(dice)) return;
  sp_rng4 r = aug_roll(dice, sample, 0);
  flips[0] = sp_rng_float(r.v[0]) < odds->horizontal;
  flips[1] = sp_rng_float(r.v[1]) < odds->vertical;
}

#endif
