/* SPDX-License-Identifier: MIT
 * color_jitter.h - brightness, contrast, saturation and hue, changed by factors of its own for each sample: ports,
 * parameters and checks, for every device.
 */
#ifndef COLOR_JITTER_H
#define COLOR_JITTER_H

#include "../../kits/aug/aug.h"
#include "../../kits/aug/draw.h"

#define JITTER_DOC "Changes brightness, contrast, saturation and hue of each sample, in an order of its own"
#define JITTER_STATUS_DOC                                                                                        \
  "sample %sample: number %value of its 8 on 'factors' is bad: 1 to 3, the factors of brightness, contrast and " \
  "saturation, must be 0 or more, 4, the turn of the hue, -0.5..0.5, and 5 to 8, the order, have each of 0..3 once"

/* As torchvision numbers them; END ends a list of steps. */
enum { JITTER_BRIGHTNESS, JITTER_CONTRAST, JITTER_SATURATION, JITTER_HUE, JITTER_OPS, JITTER_END = 15 };
#define JITTER_COLUMNS 8 /* of the port: four factors, then the order */
#define JITTER_PARTS 64  /* at most so many blocks of a kernel add up one image */
#define JITTER_KEPT 4    /* doubles in which they leave what they drew for it */

typedef struct jitter_params {
  aug_draws draws;
  sp_floats range[JITTER_OPS];
  int64_t max;
} jitter_params;

/* What factors are drawn from; lo == hi is the neutral one where an operation is off. */
typedef struct jitter_ranges {
  float lo[JITTER_OPS], hi[JITTER_OPS];
} jitter_ranges;

/* Of one sample: the factors, and the operations in the order they are done, four bits each from the lowest on. */
typedef struct jitter_factors {
  float by[JITTER_OPS];
  uint32_t order;
} jitter_factors;

extern const sp_port jitter_inputs[], jitter_outputs[];
extern const sp_param jitter_param_table[];

int jitter_create(sp_ctx *ctx, const void *params, void **self);
int jitter_plan(sp_ctx *ctx, void *self, sp_plan *plan);
void jitter_ranges_of(const jitter_params *p, jitter_ranges *r);
/* Whether a sample may need the mean of an image: contrast is on, or the factors are given. */
int jitter_means(const jitter_params *p, const void *given);

SP_RNG_FN int jitter_op(uint32_t steps, int i) { return (int)(steps >> 4 * i & 15u); }
SP_RNG_FN float jitter_neutral(int op) { return op == JITTER_HUE ? 0.0f : 1.0f; }

SP_RNG_FN void jitter_leave(jitter_factors *f) {
  for (int op = 0; op < JITTER_OPS; op++) f->by[op] = jitter_neutral(op);
  f->order = 0x3210u;
}

/* The factors of a sample, if nobody says. Draws 0: a word for each factor; draws 1: the order, every one as likely. */
SP_RNG_FN void jitter_draw(const aug_dice *dice, int64_t sample, const jitter_ranges *ranges, jitter_factors *f) {
  jitter_leave(f);
  if (!aug_chance(dice)) return;
  sp_rng4 r = aug_roll(dice, sample, 0);
  for (int op = 0; op < JITTER_OPS; op++)
    f->by[op] = fminf(aug_uniform(r.v[op], ranges->lo[op], ranges->hi[op]), ranges->hi[op]);
  uint32_t left = 0x3210u;
  r = aug_roll(dice, sample, 1);
  f->order = 0;
  for (uint32_t i = 0; i < JITTER_OPS; i++) { /* takes one of those that are left */
    uint32_t at = 4 * sp_rng_below(r.v[i], JITTER_OPS - i);
    f->order |= (left >> at & 15u) << 4 * i;
    left = (left & ((1u << at) - 1)) | left >> (at + 4) << at;
  }
}

/* The first bad number of a row of the port, from 1; 0: none is. */
SP_RNG_FN int jitter_bad(const float *row) {
  uint32_t seen = 0;
  for (int op = 0; op < JITTER_HUE; op++)
    if (!(row[op] >= 0 && row[op] <= 3.4e38f)) return op + 1;
  if (!(row[JITTER_HUE] >= -0.5f && row[JITTER_HUE] <= 0.5f)) return JITTER_HUE + 1;
  for (int i = 0; i < JITTER_OPS; i++) {
    float v = row[JITTER_OPS + i];
    int op = v == 0 ? 0 : v == 1 ? 1 : v == 2 ? 2 : v == 3 ? 3 : JITTER_OPS;
    if (op == JITTER_OPS || seen >> op & 1u) return JITTER_OPS + i + 1;
    seen |= 1u << op;
  }
  return 0;
}

/* What a row of the port says; a bad one leaves the sample as it is: the status tells. */
SP_RNG_FN void jitter_take(const float *row, jitter_factors *f) {
  jitter_leave(f);
  if (jitter_bad(row)) return;
  f->order = 0;
  for (int i = 0; i < JITTER_OPS; i++) {
    f->by[i] = row[i];
    f->order |= (uint32_t)row[JITTER_OPS + i] << 4 * i;
  }
}

SP_RNG_FN void jitter_give(const jitter_factors *f, float *row) {
  for (int i = 0; i < JITTER_OPS; i++) {
    row[i] = f->by[i];
    row[JITTER_OPS + i] = (float)jitter_op(f->order, i);
  }
}

/* What there is to do to an image: neutral factors, and colours where there are none, are left out. */
SP_RNG_FN uint32_t jitter_steps(const jitter_factors *f, int64_t channels) {
  uint32_t steps = 0;
  int n = 0;
  for (int i = 0; i < JITTER_OPS; i++) {
    int op = jitter_op(f->order, i);
    if (channels == 1 && op >= JITTER_SATURATION) continue;
    float by = op == 0 ? f->by[0] : op == 1 ? f->by[1] : op == 2 ? f->by[2] : f->by[3];
    if (by != jitter_neutral(op)) steps |= (uint32_t)op << 4 * n++;
  }
  return steps | 0xfffffu << 4 * n;
}

/* At which step an image's mean is needed; -1: never. */
SP_RNG_FN int jitter_mean_at(uint32_t steps) {
  for (int i = 0; i < JITTER_OPS; i++)
    if (jitter_op(steps, i) == JITTER_CONTRAST) return i;
  return -1;
}

#endif
