/* SPDX-License-Identifier: MIT
 * histogram.c - see histogram.h. */
#include "source/histogram.h"

#include <math.h>

/* The first bins are single nanoseconds; from there on each power of two has SP_HIST_SUB. */
static size_t bin_of(uint64_t ns) {
  if (ns < SP_HIST_SUB) return (size_t)ns;
  int high = 63 - __builtin_clzll(ns), shift = high - 5;
  size_t bin = (size_t)(shift + 1) * SP_HIST_SUB + (size_t)((ns >> shift) & (SP_HIST_SUB - 1));
  return bin < SP_HIST_BINS ? bin : SP_HIST_BINS - 1;
}

double sp_histogram_from(size_t bin) {
  if (bin < SP_HIST_SUB) return (double)bin * 1e-9;
  int shift = (int)(bin / SP_HIST_SUB) - 1;
  return ldexp((double)(SP_HIST_SUB + bin % SP_HIST_SUB), shift) * 1e-9;
}

void sp_histogram_add(sp_histogram *h, double seconds) {
  if (!(seconds > 0)) seconds = 0;
  h->bins[bin_of(seconds < 1e9 ? (uint64_t)(seconds * 1e9) : UINT64_MAX)]++;
  h->n++;
  h->sum += seconds;
  if (seconds > h->max) h->max = seconds;
}

double sp_histogram_quantile(const sp_histogram *h, double p) {
  uint64_t below = (uint64_t)ceil(p * (double)h->n), seen = 0;
  if (!h->n) return NAN;
  for (size_t i = 0; i < SP_HIST_BINS; i++) {
    seen += h->bins[i];
    if (seen < below || !seen) continue;
    double end = sp_histogram_from(i + 1);
    return end < h->max ? end : h->max;
  }
  return h->max;
}
