/* SPDX-License-Identifier: MIT
 * tones.h - the stages of the module `tones`: each sample goes through a few steps, each an operation with a number.
 * A stage such as `solarize` has one step, the same for all samples that are drawn; rand_augment and trivial_augment
 * draw the operations of each sample too. Ports, parameters and draws, for every device.
 */
#ifndef TONES_H
#define TONES_H

#include "../../kits/aug/aug.h"
#include "../../kits/aug/draw.h"
#include "../../kits/aug/exact.h"

/* What a step does. The number it does it by is in brackets. */
enum {
  TONES_LEAVE,
  TONES_SOLARIZE,  /* [threshold, a part of white] */
  TONES_POSTERIZE, /* [bits that stay] */
  TONES_INVERT,
  TONES_GAMMA, /* [exponent] */
  TONES_AUTOCONTRAST,
  TONES_EQUALIZE,
  TONES_GREY,
  TONES_DROP,      /* [a bit for each channel] */
  TONES_SHARPNESS, /* [factor] */
  TONES_NOISE,     /* [sigma, a part of white] */
  TONES_JPEG,      /* [quality] */
  TONES_BRIGHTNESS,
  TONES_COLOUR,
  TONES_CONTRAST, /* these three: [factor] */
  TONES_SHEAR_X,
  TONES_SHEAR_Y, /* [pixels aside for each pixel of the other axis] */
  TONES_MOVE_X,
  TONES_MOVE_Y, /* [pixels] */
  TONES_ROTATE, /* [degrees, positive is counter-clockwise] */
  TONES_OPS
};

/* The stages, by the operation of their only step; the two that draw operations are behind them. */
#define TONES_STAGES(X)                                                                                           \
  X(solarize, TONES_SOLARIZE, "Inverts what is as bright as a threshold or brighter, in samples that are drawn")  \
  X(posterize, TONES_POSTERIZE, "Keeps a few bits of each value, in samples that are drawn")                      \
  X(invert, TONES_INVERT, "Makes negatives of samples that are drawn")                                            \
  X(gamma, TONES_GAMMA, "Raises values to a power, one a sample that is drawn")                                   \
  X(autocontrast, TONES_AUTOCONTRAST, "Stretches each channel to the whole range, in samples that are drawn")     \
  X(equalize, TONES_EQUALIZE, "Makes each channel's values as frequent as each other, in samples that are drawn") \
  X(grey, TONES_GREY, "Makes samples that are drawn grey, with as many channels as before")                       \
  X(channel_drop, TONES_DROP, "Fills some channels of samples that are drawn")                                    \
  X(sharpness, TONES_SHARPNESS, "Sharpens or smooths samples that are drawn, by a factor each")                   \
  X(gaussian_noise, TONES_NOISE, "Adds normal noise to samples that are drawn, with a sigma each")                \
  X(jpeg_noise, TONES_JPEG, "Leaves what JPEG leaves of samples that are drawn, at a quality each")               \
  X(rand_augment, TONES_RAND, "RandAugment: a few operations of 14 for each sample, all of one magnitude")        \
  X(trivial_augment, TONES_TRIVIAL, "TrivialAugment, wide: one operation of 14 for each sample, of any magnitude")
enum { TONES_RAND = TONES_OPS, TONES_TRIVIAL };

#define TONES_MENU 14    /* operations that those two draw from */
#define TONES_STEPS 8    /* at most for a sample */
#define TONES_DROPPED 24 /* channels that a number of float32 has bits for */
#define TONES_STATUS_DOC                                                                                             \
  "sample %sample: number %value of its %limit on 'changes' is bad: in turn what is done (0: nothing) and the "      \
  "number it is done by, which docs/stages.md has\n"                                                                 \
  "sample %sample: a float image has a value that is %value, rounded away from 0, where 0..%limit is expected; put " \
  "the stage before normalize, and set `max = 255` where white is 255"

typedef struct tones_params {
  aug_draws draws;
  double p, gain, mean;
  sp_floats range, fill;
  sp_ints whole;
  int64_t max, mask_fill, num_ops, magnitude, bins;
  int32_t clip;
} tones_params;

/* What a call needs beside the tensors. */
typedef struct tones_how {
  int32_t op, steps;       /* of a sample */
  float p, lo, hi;         /* the number is uniform in lo..hi, a whole one where `whole` is set */
  int32_t whole, channels; /* of the first image: what channel_drop draws from */
  float max, gain, mean;
  int32_t clip, fills, mask_fill;
  float fill[4]; /* of channel c: fill[c % fills] */
  int32_t h, w, bins, bin;
} tones_how;

typedef struct tones_step {
  int32_t op;
  float by;
} tones_step;

/* The instance of a stage. */
typedef struct tones_self {
  const tones_params *p;
  tones_how how;
} tones_self;

extern const sp_port tones_inputs[], tones_outputs[];

int tones_create(sp_ctx *ctx, int op, const void *params, void **self);
void tones_destroy(void *self);
/* scratch_bytes: what is drawn alone. */
int tones_plan(sp_ctx *ctx, void *self, sp_plan *plan);

/* The number of columns of the port. */
SP_RNG_FN int tones_columns(const tones_how *how) { return 2 * how->steps; }

/* Whether some of a step's operations needs a look at the whole image first: its histogram, its limits or its mean. */
SP_RNG_FN int tones_looks(int op) { return op == TONES_AUTOCONTRAST || op == TONES_EQUALIZE || op == TONES_CONTRAST; }
static inline int tones_may_look(const tones_how *how) { return how->op >= TONES_OPS || tones_looks(how->op); }

SP_RNG_FN int tones_moves(int op) { return op >= TONES_SHEAR_X; }

/* Whether values outside of 0..max would be cut or have no meaning. */
SP_RNG_FN int tones_bounded(int op) {
  return op != TONES_LEAVE && op != TONES_GREY && op != TONES_DROP && !tones_moves(op);
}

/* The operation with number i of RandAugment, in the order of torchvision. */
SP_RNG_FN int tones_menu(int i) {
  return i == 0    ? TONES_LEAVE
         : i < 6   ? TONES_SHEAR_X + i - 1
         : i < 9   ? TONES_BRIGHTNESS + i - 6
         : i == 9  ? TONES_SHARPNESS
         : i == 10 ? TONES_POSTERIZE
         : i == 11 ? TONES_SOLARIZE
         : i == 12 ? TONES_AUTOCONTRAST
                   : TONES_EQUALIZE;
}

/* Number `bin` of `bins` from `from` to `to`, with PyTorch's roundings. */
SP_RNG_FN float tones_bin(float from, float to, int bins, int bin) {
  float step = AUG_DIV(to - from, (float)(bins - 1));
  if (bin < bins / 2) return AUG_ADD(from, AUG_MUL(step, (float)bin));
  return AUG_ADD(to, -AUG_MUL(step, (float)(bins - bin - 1)));
}

/* How strong an operation is at `bin`, as torchvision has it; the sign is for those that have two directions. */
SP_RNG_FN float tones_strength(const tones_how *how, int op, int bin, int negative) {
  int wide = how->op == TONES_TRIVIAL;
  float most = op == TONES_SHEAR_X || op == TONES_SHEAR_Y ? (wide ? 0.99f : 0.3f)
               : op == TONES_ROTATE                       ? (wide ? 135.0f : 30.0f)
               : op == TONES_MOVE_X || op == TONES_MOVE_Y
                   ? (wide ? 32.0f : (float)(150.0 / 331.0 * (double)(op == TONES_MOVE_X ? how->w : how->h)))
                   : (wide ? 0.99f : 0.9f);
  if (op == TONES_LEAVE || op == TONES_AUTOCONTRAST || op == TONES_EQUALIZE) return 0.0f;
  if (op == TONES_SOLARIZE) return tones_bin(255.0f, 0.0f, how->bins, bin) / 255.0f;
  if (op == TONES_POSTERIZE) return 8.0f - rintf((float)bin / (float)((double)(how->bins - 1) / (wide ? 6.0 : 4.0)));
  float v = tones_bin(0.0f, most, how->bins, bin);
  if (negative) v = -v;
  if (op == TONES_MOVE_X || op == TONES_MOVE_Y) return truncf(v);
  return tones_moves(op) ? v : 1.0f + v;
}

/* The channels that are dropped: `count` of them, each choice as likely. Draws 1 on: a word for each. */
SP_RNG_FN uint32_t tones_choose(const aug_dice *dice, int64_t sample, int channels, int count) {
  uint32_t taken = 0;
  for (int i = 0; i < count && i < channels; i++) {
    uint32_t at = sp_rng_below(aug_roll(dice, sample, 1 + (uint32_t)i / 4).v[i % 4], (uint32_t)(channels - i));
    for (int c = 0; c < channels; c++) {
      if (taken >> c & 1u) continue;
      if (at-- == 0) {
        taken |= 1u << c;
        break;
      }
    }
  }
  return taken;
}

#define TONES_NOISE_DRAWS 16 /* draws from here on are those of noise */

/* What is done to a sample, if nobody says: a row of the port. */
SP_RNG_FN void tones_draw(const aug_dice *dice, int64_t sample, const tones_how *how, float *row) {
  for (int k = 0; k < tones_columns(how); k++) row[k] = 0.0f;
  if (!aug_chance(dice)) return;
  if (how->op >= TONES_OPS) {
    for (int k = 0; k < how->steps; k++) {
      sp_rng4 r = aug_roll(dice, sample, (uint32_t)k);
      uint32_t i = sp_rng_below(r.v[0], TONES_MENU);
      int bin = how->op == TONES_RAND ? how->bin : (int)sp_rng_below(r.v[1], (uint32_t)how->bins);
      row[2 * k] = (float)i;
      row[2 * k + 1] = tones_strength(how, tones_menu((int)i), bin, (int)(r.v[2] >> 31));
    }
    return;
  }
  sp_rng4 r = aug_roll(dice, sample, 0);
  if (!(sp_rng_float(r.v[0]) < how->p)) return;
  row[0] = 1.0f;
  if (!how->whole) row[1] = fminf(aug_uniform(r.v[1], how->lo, how->hi), how->hi);
  else row[1] = how->lo + (float)sp_rng_below(r.v[1], (uint32_t)(how->hi - how->lo) + 1);
  if (how->op == TONES_DROP) row[1] = (float)tones_choose(dice, sample, how->channels, (int)row[1]);
}

SP_RNG_FN int tones_fits(const tones_how *how, int op, float v) {
  int whole = v == truncf(v);
  switch (op) {
    case TONES_SOLARIZE: return v >= 0 && v <= 1;
    case TONES_POSTERIZE: return v >= 0 && v <= 8 && whole;
    case TONES_DROP: return v >= 0 && v < (float)(1u << how->channels) && whole;
    case TONES_JPEG: return v >= 1 && v <= 100 && whole;
    case TONES_GAMMA:
    case TONES_NOISE:
    case TONES_SHARPNESS:
    case TONES_BRIGHTNESS:
    case TONES_COLOUR:
    case TONES_CONTRAST: return v >= 0 && v <= 1e6f;
    case TONES_MOVE_X:
    case TONES_MOVE_Y: return fabsf(v) <= AUG_MAX_SIDE && whole;
    case TONES_SHEAR_X:
    case TONES_SHEAR_Y:
    case TONES_ROTATE: return fabsf(v) <= 1e4f;
    default: return v - v == 0;
  }
}

/* The operation of step k of a row; -1: it says none. */
SP_RNG_FN int tones_op(const tones_how *how, const float *row, int k) {
  float v = row[2 * k];
  if (how->op < TONES_OPS) return v == 0 ? TONES_LEAVE : v == 1 ? how->op : -1;
  return v >= 0 && v < TONES_MENU && v == truncf(v) ? tones_menu((int)v) : -1;
}

/* The first bad number of a row, from 1; 0: none is. */
SP_RNG_FN int tones_bad(const tones_how *how, const float *row) {
  for (int k = 0; k < how->steps; k++) {
    int op = tones_op(how, row, k);
    if (op < 0) return 2 * k + 1;
    if (!tones_fits(how, op, row[2 * k + 1])) return 2 * k + 2;
  }
  return 0;
}

/* Step k of a row; a bad one leaves the sample as it is: the status tells. */
SP_RNG_FN tones_step tones_step_of(const tones_how *how, const float *row, int k) {
  tones_step s = {TONES_LEAVE, 0.0f};
  if (tones_bad(how, row)) return s;
  s.op = tones_op(how, row, k);
  s.by = row[2 * k + 1];
  return s;
}

/* How far float images may pass 0 and white, as roundings of what made them do. */
SP_RNG_FN float tones_slack(float max) { return max / 256.0f; }
SP_RNG_FN int tones_outside(float lo, float hi, float max) {
  return lo < -tones_slack(max) || hi > max + tones_slack(max);
}
/* What the status says of it. */
SP_RNG_FN int64_t tones_reach(float lo, float hi, float max) {
  float v = hi > max + tones_slack(max) ? ceilf(hi) : floorf(lo);
  return (int64_t)fminf(fmaxf(v, -1e18f), 1e18f);
}

#endif
