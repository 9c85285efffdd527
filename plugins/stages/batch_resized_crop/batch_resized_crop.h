/* SPDX-License-Identifier: MIT
 * batch_resized_crop.h - windows of random area and ratio at one size: ports, parameters and draws,
 * for every device. */
#ifndef BATCH_RESIZED_CROP_H
#define BATCH_RESIZED_CROP_H

#include "../../kits/aug/aug.h"
#include "../../kits/aug/draw.h"
#include "../../kits/aug/exact.h"
#include "../resize/resize.h"

#define ZOOM_DOC "Cuts a window of random area and ratio out of each sample and scales it to one size"
#define ZOOM_STATUS_DOC                                                                                     \
  "sample %sample: a box on 'boxes' is not inside of the image, or has no pixels: %value, where %limit is " \
  "the bound"

#define ZOOM_TRIES 10

typedef struct zoom_params {
  aug_draws draws;
  sp_ints size;
  sp_floats scale, ratio;
  resize_filter filter;
} zoom_params;

typedef struct zoom_box {
  int32_t top, left, h, w;
} zoom_box;

/* What a window is drawn from. */
typedef struct zoom_range {
  int32_t h, w;                                /* of the image */
  double area_lo, area_hi, ratio_lo, ratio_hi; /* pixels; width / height */
  double log_lo, log_hi;                       /* of the ratios */
} zoom_range;

extern const sp_port zoom_inputs[], zoom_outputs[];
extern const sp_param zoom_param_table[];

/* Sizes of the input go to *h and *w. */
int zoom_check(sp_ctx *ctx, const zoom_params *p, sp_plan *plan, int64_t *h, int64_t *w);
zoom_range zoom_range_of(const zoom_params *p, int32_t h, int32_t w);

/* The window in the middle, as large as the ratios let it be. */
SP_RNG_FN zoom_box zoom_middle(const zoom_range *a) {
  zoom_box b = {0, 0, a->h, a->w};
  double ratio = (double)a->w / (double)a->h, side;
  if (ratio < a->ratio_lo) {
    side = rint((double)a->w / a->ratio_lo);
    b.h = side < 1.0 ? 1 : side > (double)a->h ? a->h : (int32_t)side;
  } else if (ratio > a->ratio_hi) {
    side = rint((double)a->h * a->ratio_hi);
    b.w = side < 1.0 ? 1 : side > (double)a->w ? a->w : (int32_t)side;
  }
  b.top = (a->h - b.h) / 2;
  b.left = (a->w - b.w) / 2;
  return b;
}

/* The window of a sample, if nobody says: torchvision's RandomResizedCrop. A try takes one group of draws. */
SP_RNG_FN zoom_box zoom_draw(const aug_dice *dice, int64_t sample, const zoom_range *a) {
  uint32_t k;
  for (k = 0; k < ZOOM_TRIES && aug_chance(dice); k++) {
    sp_rng4 r = aug_roll(dice, sample, k);
    double area = fma((double)sp_rng_float(r.v[0]), a->area_hi - a->area_lo, a->area_lo);
    double ratio = aug_exp(fma((double)sp_rng_float(r.v[1]), a->log_hi - a->log_lo, a->log_lo));
    double w = rint(sqrt(area * ratio)), h = rint(sqrt(area / ratio));
    if (w >= 1.0 && h >= 1.0 && w <= (double)a->w && h <= (double)a->h) {
      zoom_box b = {0, 0, (int32_t)h, (int32_t)w};
      b.top = (int32_t)sp_rng_below(r.v[2], (uint32_t)(a->h - b.h) + 1);
      b.left = (int32_t)sp_rng_below(r.v[3], (uint32_t)(a->w - b.w) + 1);
      return b;
    }
  }
  return zoom_middle(a);
}

/* Whether a box that is given is none; the number that is wrong, and what bounds it. */
SP_RNG_FN int zoom_bad(const zoom_range *a, const zoom_box *b, int64_t *value, int64_t *limit) {
  int64_t start[2], side[2], all[2];
  int i;
  start[0] = b->top, start[1] = b->left, side[0] = b->h, side[1] = b->w, all[0] = a->h, all[1] = a->w;
  for (i = 0; i < 2; i++) {
    *value = start[i] < 0 ? start[i] : side[i] < 1 ? side[i] : start[i] + side[i];
    *limit = start[i] < 0 ? 0 : side[i] < 1 ? 1 : all[i];
    if (start[i] < 0 || side[i] < 1 || start[i] + side[i] > all[i]) return 1;
  }
  return 0;
}

#endif
