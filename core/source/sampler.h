/* SPDX-License-Identifier: MIT
 * sampler.h - which samples are in which step: a pure function of (seed, step). */
#ifndef SP_CORE_SAMPLER_H
#define SP_CORE_SAMPLER_H

#include <stdbool.h>

#include "base/err.h"
#include "source/feed.h"

typedef struct sp_sampler_turn {
  double when;
  uint32_t sample;
} sp_sampler_turn;

typedef struct sp_sampler {
  uint64_t seed, length; /* samples in the data set, at least 1, below 2^31 */
  uint64_t places;       /* of samples in an epoch: length, unless they are drawn */
  uint32_t batch;        /* samples of a pass */
  uint32_t first, parts; /* of the `world` passes that a step has, those that are counted as steps here; 0, 1 */
  uint32_t world;        /* set behind init, 1 */
  bool shuffle, drop_last;
  bool refill;     /* may be set behind init: a short last batch has the first samples once more, where they fill it */
  uint64_t steps;  /* in one epoch */
  uint32_t *order; /* [places] the samples of `epoch`, when shuffling */
  uint64_t epoch;  /* whose order is there; UINT64_MAX: none */
  double *until;   /* [length] where each sample's share of the draws ends; NULL: it is not drawn with replacement */
  uint8_t *before; /* [places] how often the sample at a place of `order` came before in it, mod 256 */
  uint8_t *seen;   /* [length] while an epoch is drawn: how often each has come */
  float *odds;     /* [length] of draws without replacement; NULL: there are none */
  sp_sampler_turn *turns; /* [length] while an epoch is drawn without: a heap, the first sample on top */
} sp_sampler;

int sp_sampler_init(sp_sampler *s, uint64_t seed, uint64_t length, uint32_t batch, bool shuffle, bool drop_last,
                    sp_err *err);
/* Behind init: samples are drawn, so many an epoch (0: of all with replacement as many as there are, without as many as
 * can be), sample i by odds of draw[i], which are at least 0 and not all 0. With replacement each draw is one of all
 * samples; without it of those that have not come in the epoch, as torch.multinomial has it, and all that are drawn
 * have odds above 0. */
int sp_sampler_weigh(sp_sampler *s, const float *draw, uint64_t places, bool replacement, sp_err *err);
/* How many have odds above 0. */
uint64_t sp_sampler_drawable(const float *draw, uint64_t length);
void sp_sampler_free(sp_sampler *s);
/* A step has `world` batches side by side in the order of samples; those from `first` on, `parts` of them, are this
 * one's, which counts each as a step of its own. */
int sp_sampler_share(sp_sampler *s, uint32_t first, uint32_t parts, uint32_t world, sp_err *err);
/* As the interface that a loop reads; it stays the owner. */
void sp_sampler_feed(sp_sampler *s, sp_feed *feed);
/* Samples in `step`: the batch, or fewer, perhaps none, in the last step of an epoch. */
uint32_t sp_sampler_n(const sp_sampler *s, uint64_t step);
/* All of the batches that are side by side with this one have as many as it can have. */
bool sp_sampler_full(const sp_sampler *s, uint64_t step);
/* Fills ids[0..n-1], returns n. Going through the steps in order costs one shuffle an epoch. */
uint32_t sp_sampler_ids(sp_sampler *s, uint64_t step, uint64_t *ids);

#endif
