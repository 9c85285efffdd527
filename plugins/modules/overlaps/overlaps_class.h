/* SPDX-License-Identifier: MIT
 * overlaps_class.h - what a class adds to the loss, and the power of their mean; for C and for kernels. */
#ifndef OVERLAPS_CLASS_H
#define OVERLAPS_CLASS_H

#include <math.h>

#include "overlaps.h"

#ifdef __CUDACC__
#define OVERLAP_FN static __host__ __device__ inline
#else
#define OVERLAP_FN static inline
#endif

/* 1 - score; a class that no label has adds nothing. */
OVERLAP_FN double overlap_class(const overlap_sums *s, const overlap_form *f, overlap_slope *slope) {
  slope->own = slope->all = 0;
  if (!(s->truth > 0)) return 0;
  double sum = f->part_both * s->both + f->part_said * s->said + f->part_truth * s->truth + f->smooth;
  double over = sum < f->eps ? f->eps : sum, score = (f->top * s->both + f->smooth) / over;
  slope->own = -f->top / over;
  if (sum >= f->eps) slope->all = score / over * f->part_said, slope->own += score / over * f->part_both;
  return 1 - score;
}

/* The mean to its power, and in `steep` what the slopes of the mean are multiplied by. A mean of 0 is no better for a
 * change, and has no slope. */
OVERLAP_FN double overlap_power(double mean, const overlap_form *f, double *steep) {
  *steep = 1;
  if (f->gamma == 1 || mean != mean) return mean;
  *steep = mean > 0 ? f->gamma * pow(mean, f->gamma - 1) : 0;
  return mean > 0 ? pow(mean, f->gamma) : 0;
}

#endif
