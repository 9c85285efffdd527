/* SPDX-License-Identifier: MIT
 * sampler.h - which samples are in which step: a pure function of (seed, step). */
#ifndef SP_CORE_SAMPLER_H
#define SP_CORE_SAMPLER_H

#include <stdbool.h>

#include "base/err.h"
#include "source/feed.h"

typedef struct sp_sampler {
  uint64_t seed, length; /* samples in the data set, at least 1, below 2^31 */
  uint32_t batch;        /* samples of a step of this rank */
  uint32_t rank, world;  /* which part of a step's world * batch samples is this one's; set behind init, 0 of 1 */
  bool shuffle, drop_last;
  uint64_t steps;  /* in one epoch */
  uint32_t *order; /* the permutation of `epoch`, when shuffling */
  uint64_t epoch;  /* whose order is there; UINT64_MAX: none */
} sp_sampler;

int sp_sampler_init(sp_sampler *s, uint64_t seed, uint64_t length, uint32_t batch, bool shuffle, bool drop_last,
                    sp_err *err);
void sp_sampler_free(sp_sampler *s);
/* The part of `rank` among `world`; steps are of all of them together. */
int sp_sampler_share(sp_sampler *s, uint32_t rank, uint32_t world, sp_err *err);
/* As the interface that a loop reads; it stays the owner. */
void sp_sampler_feed(sp_sampler *s, sp_feed *feed);
/* Samples in `step`: the batch, or fewer, perhaps none, in the last step of an epoch. */
uint32_t sp_sampler_n(const sp_sampler *s, uint64_t step);
/* Fills ids[0..n-1], returns n. Going through the steps in order costs one shuffle an epoch. */
uint32_t sp_sampler_ids(sp_sampler *s, uint64_t step, uint64_t *ids);

#endif
