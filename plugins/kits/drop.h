/* SPDX-License-Identifier: MIT
 * drop.h - what dropout draws, for every device and in kernels. Units, such as elements, are counted from 0 in each
 * sample: of unit u it is word u % 4 of the four that sp_rng() gives for u / 4. */
#ifndef SP_PLUGINS_DROP_H
#define SP_PLUGINS_DROP_H

#include <spcore/plugin.h>
#include <spcore/rng.h>

/* Draws below it, of 2^24, drop. */
static inline uint32_t drop_limit(double p) { return (uint32_t)(p * (1 << 24) + 0.5); }
/* What is left is so many times itself. */
static inline float drop_scale(double p) { return p < 1 ? (float)(1 / (1 - p)) : 0; }

/* A graph without a source has no ids. */
SP_RNG_FN uint64_t drop_id(const sp_step *step, const uint64_t *ids, int64_t sample) {
  return ids ? ids[sample] : SP_ID(step->step, sample);
}

/* Whether the unit stays whose word it is. */
SP_RNG_FN int drop_keeps(uint32_t limit, uint32_t word) { return (word >> 8) >= limit; }

#endif
