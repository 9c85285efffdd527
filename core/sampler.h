/* SPDX-License-Identifier: MIT
 * sampler.h - which samples are in which step: a pure function of (seed, step). */
#ifndef SP_CORE_SAMPLER_H
#define SP_CORE_SAMPLER_H

#include "util.h"

typedef struct sp_sampler {
  uint64_t seed, length; /* samples in the data set, at least 1, below 2^31 */
  uint32_t batch;
  bool shuffle, drop_last;
  uint64_t steps;  /* in one epoch */
  uint32_t *order; /* the permutation of `epoch`, when shuffling */
  uint64_t epoch;  /* whose order is there; UINT64_MAX: none */
} sp_sampler;

int sp_sampler_init(sp_sampler *s, uint64_t seed, uint64_t length, uint32_t batch, bool shuffle, bool drop_last,
                    sp_err *err);
void sp_sampler_free(sp_sampler *s);
/* Samples in `step`: the batch, or fewer in the last step of an epoch. */
uint32_t sp_sampler_n(const sp_sampler *s, uint64_t step);
/* Fills ids[0..n-1], returns n. Going through the steps in order costs one shuffle an epoch. */
uint32_t sp_sampler_ids(sp_sampler *s, uint64_t step, uint64_t *ids);

#endif
