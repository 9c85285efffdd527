/* SPDX-License-Identifier: MIT
 * histogram.h - times in bins that are 3 % wide, from nanoseconds to days, in fixed memory. */
#ifndef SP_CORE_HISTOGRAM_H
#define SP_CORE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define SP_HIST_SUB 32 /* bins between two powers of two */
#define SP_HIST_BINS (48 * SP_HIST_SUB)

typedef struct sp_histogram {
  uint64_t n, bins[SP_HIST_BINS];
  double sum, max; /* seconds */
} sp_histogram;

void sp_histogram_add(sp_histogram *h, double seconds);
/* The time that a part `p` (0..1) of all stays below; within a bin's width, and never above the largest. NaN: none. */
double sp_histogram_quantile(const sp_histogram *h, double p);
double sp_histogram_from(size_t bin); /* seconds at which a bin begins */

#endif
