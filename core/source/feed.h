/* SPDX-License-Identifier: MIT
 * feed.h - what a step reads: which samples, and how many. A step of none is a step in which nothing runs. */
#ifndef SP_CORE_FEED_H
#define SP_CORE_FEED_H

#include <stdint.h>

typedef struct sp_feed {
  void *self;
  uint64_t steps;    /* in one epoch, 0: there are none */
  uint32_t sizes[2]; /* every number of samples that a step can have on some rank, but 0; 0: no second one */
  /* Fills ids[0..n-1], at most sizes[0] or sizes[1], and returns n. Steps are asked for in order, each once, but after
   * a loop the next may begin anywhere. */
  uint32_t (*take)(void *self, uint64_t step, uint64_t *ids);
} sp_feed;

#endif
