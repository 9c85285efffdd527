/* SPDX-License-Identifier: MIT
 * erase.h - a rectangle of each sample painted over, random erasing and cutout: ports, parameters and draws, for every
 * device. */
#ifndef ERASE_H
#define ERASE_H

#include "../../kits/aug/aug.h"
#include "../../kits/aug/draw.h"
#include "../../kits/aug/normal.h"

#define ERASE_DOC \
  "Paints over a rectangle of each sample, of random area and ratio or of one size: random erasing, cutout"
#define ERASE_STATUS_DOC \
  "sample %sample: a box on 'boxes' is not inside of the image: %value, where %limit is the bound"

#define ERASE_TRIES 10

typedef struct erase_params {
  aug_draws draws;
  sp_floats scale, ratio, value, probability;
  sp_ints size;
  double noise;
  int64_t mask_fill;
  int32_t masks;
} erase_params;

typedef struct erase_box {
  int32_t top, left, h, w; /* h or w 0: nothing */
} erase_box;

/* What a box is drawn from. */
typedef struct erase_range {
  int32_t h, w;           /* of the image */
  int32_t side_h, side_w; /* of the box, around a pixel of the image; 0: by area and ratio */
  float probability;
  double area_lo, area_hi, log_lo, log_hi; /* pixels; of height / width */
} erase_range;

/* What a box becomes. */
typedef struct erase_how {
  float value[4], noise; /* of channel c: value[c % values] */
  int32_t values, mask_fill, masks;
} erase_how;

extern const sp_port erase_inputs[], erase_outputs[];
extern const sp_param erase_param_table[];

int erase_plan(sp_ctx *ctx, void *self, sp_plan *plan);
erase_range erase_range_of(const erase_params *p, int32_t h, int32_t w);
erase_how erase_how_of(const sp_io *io, const erase_params *p);
/* Noise is drawn even where boxes are given. */
int erase_check_ids(sp_ctx *ctx, const erase_params *p, const sp_io *io);

/* The box of a sample, if nobody says: torchvision's RandomErasing, or a square of cutout, which the image's edges
 * cut. */
SP_RNG_FN erase_box erase_draw(const aug_dice *dice, int64_t sample, const erase_range *r) {
  erase_box b = {0, 0, 0, 0};
  sp_rng4 a = aug_roll(dice, sample, 0);
  uint32_t k;
  if (!aug_chance(dice) || sp_rng_float(a.v[0]) >= r->probability) return b;
  if (r->side_h) {
    int32_t top = (int32_t)sp_rng_below(a.v[1], (uint32_t)r->h) - r->side_h / 2, bottom = top + r->side_h;
    int32_t left = (int32_t)sp_rng_below(a.v[2], (uint32_t)r->w) - r->side_w / 2, right = left + r->side_w;
    b.top = top < 0 ? 0 : top;
    b.left = left < 0 ? 0 : left;
    b.h = (bottom > r->h ? r->h : bottom) - b.top;
    b.w = (right > r->w ? r->w : right) - b.left;
    return b;
  }
  for (k = 1; k <= ERASE_TRIES; k++) {
    double area, ratio, h, w;
    a = aug_roll(dice, sample, k);
    area = fma((double)sp_rng_float(a.v[0]), r->area_hi - r->area_lo, r->area_lo);
    ratio = aug_exp(fma((double)sp_rng_float(a.v[1]), r->log_hi - r->log_lo, r->log_lo));
    h = rint(sqrt(area * ratio));
    w = rint(sqrt(area / ratio));
    if (!(h < (double)r->h && w < (double)r->w)) continue;
    b.h = (int32_t)h;
    b.w = (int32_t)w;
    b.top = (int32_t)sp_rng_below(a.v[2], (uint32_t)(r->h - b.h) + 1);
    b.left = (int32_t)sp_rng_below(a.v[3], (uint32_t)(r->w - b.w) + 1);
    return b;
  }
  return b;
}

/* Whether a box that is given is none; the number that is wrong, and what bounds it. */
SP_RNG_FN int erase_bad(const erase_range *r, const erase_box *b, int64_t *value, int64_t *limit) {
  int64_t start[2], side[2], all[2];
  int i;
  start[0] = b->top, start[1] = b->left, side[0] = b->h, side[1] = b->w, all[0] = r->h, all[1] = r->w;
  for (i = 0; i < 2; i++) {
    *value = start[i] < 0 ? start[i] : side[i] < 0 ? side[i] : start[i] + side[i];
    *limit = start[i] < 0 || side[i] < 0 ? 0 : all[i];
    if (start[i] < 0 || side[i] < 0 || start[i] + side[i] > all[i]) return 1;
  }
  return 0;
}

/* Words for pixels 4 `quad` .. 4 `quad` + 3 of row y of a channel, the same in every tensor and order. */
SP_RNG_FN uint64_t erase_key(const aug_dice *dice, int64_t channel) {
  return dice->step->key + (uint64_t)(channel + 1) * 0x9E3779B97F4A7C15u;
}
SP_RNG_FN uint32_t erase_group(int32_t y, int32_t quad, int32_t w) {
  return (uint32_t)y * (uint32_t)((w + 3) / 4) + (uint32_t)quad;
}
SP_RNG_FN sp_rng4 erase_words(const aug_dice *dice, int64_t sample, int64_t channel, int32_t y, int32_t quad,
                              int32_t w) {
  return sp_rng(erase_key(dice, channel), dice->ids[dice->same ? 0 : sample], erase_group(y, quad, w));
}

#endif
