/* SPDX-License-Identifier: MIT
 * augment.h - batch_crop, resize, batch_rotate, blur and normalize as one stage: ports, parameters and checks, for
 * every device. What is computed is theirs, with the same roundings: float32 from the first step on.
 *
 * A pixel of the turned image is one pixel of the resized one, and that is mixed of two by two pixels of the window: so
 * no image between window and result is ever stored.
 */
#ifndef AUGMENT_H
#define AUGMENT_H

#include "../batch_crop/batch_crop.h"
#include "../batch_rotate/batch_rotate.h"
#include "../blur/blur.h"
#include "../normalize/normalize.h"
#include "../resize/resize.h"

#define AUGMENT_DOC "Crops, enlarges, turns, blurs and normalizes images in one go, to float32"
#define AUGMENT_STATUS_DOC                                                                                     \
  CROP_STATUS_DOC                                                                                              \
      "\nsample %sample: its angle on 'angles' is not a finite number, or its number on 'sigmas' is negative " \
      "or not finite"

enum { AUGMENT_BOXES = AUG_DRAWN, AUGMENT_ANGLES, AUGMENT_SIGMAS, AUGMENT_STATUS };

/* Each stage's group of draws: one key, but draws that have nothing to do with each other. */
enum { AUGMENT_DRAW_BOX, AUGMENT_DRAW_ANGLE, AUGMENT_DRAW_SIGMA };

/* The parameters of the stages; same_on_batch and always are those of `crop`. */
typedef struct augment_params {
  crop_params crop;     /* an empty size: the whole image */
  resize_params resize; /* an empty size: that of the window */
  rotate_params rotate;
  blur_params blur; /* a kernel of 0: none */
  norm_params norm;
} augment_params;

extern const sp_port augment_inputs[], augment_outputs[];
extern const sp_param augment_param_table[];

int augment_plan(sp_ctx *ctx, void *self, sp_plan *plan);

/* What all tensors of a call have in common. */
typedef struct augment_how {
  int32_t top_most, left_most; /* where a window can begin at most */
  int32_t mode;                /* CROP_EXACT, CROP_ROI_ALIGN */
  resize_axis x, y;            /* window to result */
  rotate_how turn;
  int32_t blurs, rx, ry; /* blurs: whether there is a kernel */
  float lo, hi;          /* of sigma */
} augment_how;

augment_how augment_how_of(const augment_params *p, const aug_job *j);

/* The dice of one of AUGMENT_DRAW_... */
SP_RNG_FN aug_dice augment_dice(const aug_dice *dice, uint32_t first) {
  aug_dice d = *dice;
  d.first = first;
  return d;
}

/* What is drawn for a sample, or given. */
typedef struct augment_drawn {
  int32_t top, left;
  float angle, sigma;
} augment_drawn;

/* Where values come from that are not drawn: NULL, or of all samples. */
typedef struct augment_given {
  const int32_t *boxes;
  const float *angles, *sigmas;
} augment_given;

SP_RNG_FN void augment_box(const aug_dice *dice, const augment_given *g, const augment_how *how, int64_t i,
                           augment_drawn *d) {
  aug_dice box = augment_dice(dice, AUGMENT_DRAW_BOX);
  if (g->boxes) {
    d->top = g->boxes[2 * i];
    d->left = g->boxes[2 * i + 1];
  } else {
    crop_draw(&box, i, how->top_most, how->left_most, &d->top, &d->left);
  }
}

SP_RNG_FN float augment_angle(const aug_dice *dice, const augment_given *g, const augment_how *how, int64_t i) {
  aug_dice angle = augment_dice(dice, AUGMENT_DRAW_ANGLE);
  return g->angles ? g->angles[i] : rotate_draw(&angle, i, how->turn.lo, how->turn.hi);
}

SP_RNG_FN float augment_sigma(const aug_dice *dice, const augment_given *g, const augment_how *how, int64_t i) {
  aug_dice sigma = augment_dice(dice, AUGMENT_DRAW_SIGMA);
  return g->sigmas ? g->sigmas[i] : how->blurs ? blur_draw(&sigma, i, how->lo, how->hi) : 0.0f;
}

SP_RNG_FN augment_drawn augment_draw(const aug_dice *dice, const augment_given *g, const augment_how *how, int64_t i) {
  augment_drawn d;
  augment_box(dice, g, how, i, &d);
  d.angle = augment_angle(dice, g, how, i);
  d.sigma = augment_sigma(dice, g, how, i);
  return d;
}

/* The status of what is wrong with them: 0, SP_E_DATA for the box, with the number and its limit,
 * SP_E_RANGE for others. */
SP_RNG_FN int augment_judge(const augment_drawn *d, const augment_how *how, int64_t *value, int64_t *limit) {
  int above = d->top < 0 || d->top > how->top_most;
  *value = *limit = 0;
  if (above || d->left < 0 || d->left > how->left_most) {
    *value = above ? d->top : d->left;
    *limit = above ? how->top_most : how->left_most;
    return SP_E_DATA;
  }
  return !isfinite(d->angle) || blur_bad(d->sigma) ? SP_E_RANGE : 0;
}

/* What is worked with in place of bad values: the status tells behind the call, nothing outside may be read before. */
SP_RNG_FN void augment_tame(augment_drawn *d, const augment_how *how) {
  d->top = d->top < 0 ? 0 : d->top > how->top_most ? how->top_most : d->top;
  d->left = d->left < 0 ? 0 : d->left > how->left_most ? how->left_most : d->left;
  if (!isfinite(d->angle)) d->angle = 0.0f;
  if (blur_bad(d->sigma)) d->sigma = 0.0f;
}

#endif
