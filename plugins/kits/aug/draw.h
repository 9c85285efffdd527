/* SPDX-License-Identifier: MIT
 * draw.h - how a random stage comes to the parameters of a sample, in C and in kernels: the same draw gives the same
 * bits on every device. Each stage takes words of the group of draws 0, in the order that its function says; a stage's
 * key has its name in it, so stages do not share draws.
 */
#ifndef SP_PLUGINS_AUG_DRAW_H
#define SP_PLUGINS_AUG_DRAW_H

#include <math.h>

#include <spcore/rng.h>

#include "aug.h"

/* What a stage draws with; everything that a pointer leads to is in the stage's memory. */
typedef struct aug_dice {
  const sp_step *step;
  const uint64_t *ids;
  int32_t same, always;
  uint32_t first; /* group of draws that counts as 0: not 0 where a stage draws for several purposes */
} aug_dice;

static inline aug_dice aug_dice_of(const sp_io *io, const aug_draws *p) {
  aug_dice dice = {io->step, io->ids, p->same_on_batch, p->always, 0};
  return dice;
}

SP_RNG_FN int aug_chance(const aug_dice *d) { return d->always || d->step->training; }

SP_RNG_FN sp_rng4 aug_roll(const aug_dice *d, int64_t sample, uint32_t group) {
  return sp_rng(d->step->key, d->ids[d->same ? 0 : sample], d->first + group);
}

/* Uniform in lo .. hi, with one rounding. */
SP_RNG_FN float aug_uniform(uint32_t bits, float lo, float hi) { return fmaf(sp_rng_float(bits), hi - lo, lo); }

/* Half of d >= 0 to the nearest even number: where PyTorch's centre crop begins. */
SP_RNG_FN int32_t aug_centre(int32_t d) { return d / 2 + (d % 2 && d / 2 % 2); }

#endif
