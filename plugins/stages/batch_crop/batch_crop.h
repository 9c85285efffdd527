/* SPDX-License-Identifier: MIT
 * batch_crop.h - windows out of images, one a sample: ports, parameters and checks, for every device. */
#ifndef BATCH_CROP_H
#define BATCH_CROP_H

#include "../../kits/aug/aug.h"
#include "../../kits/aug/draw.h"

#define CROP_DOC "Cuts a window of one size out of each sample, at a place of its own"
#define CROP_STATUS_DOC "sample %sample: a box on 'boxes' begins at %value, but 0..%limit is possible"

enum { CROP_EXACT, CROP_ROI_ALIGN };

typedef struct crop_params {
  aug_draws draws;
  sp_ints size;
  int32_t mode;
} crop_params;

/* What `augment` takes as well. */
#define CROP_IN_BOXES                \
  AUG_PORT_DRAWN("boxes", SP_I32, 2, \
                 "where the windows begin, N x 2: top and left, in pixels; not wired: drawn, uniform over all places")

extern const sp_port crop_inputs[], crop_outputs[];
extern const sp_param crop_param_table[];
extern const char *const crop_modes[];

/* Whether windows of high x wide fit into images of h x w. */
int crop_check(sp_ctx *ctx, int64_t high, int64_t wide, int64_t h, int64_t w);
int crop_plan(sp_ctx *ctx, void *self, sp_plan *plan);

/* Where the window of a sample begins, if nobody says. `high` and `wide` are the places to choose from, less one. */
SP_RNG_FN void crop_draw(const aug_dice *dice, int64_t sample, int32_t high, int32_t wide, int32_t *top,
                         int32_t *left) {
  if (!aug_chance(dice)) {
    *top = aug_centre(high);
    *left = aug_centre(wide);
    return;
  }
  sp_rng4 r = aug_roll(dice, sample, 0);
  *top = (int32_t)sp_rng_below(r.v[0], (uint32_t)high + 1);
  *left = (int32_t)sp_rng_below(r.v[1], (uint32_t)wide + 1);
}

#endif
