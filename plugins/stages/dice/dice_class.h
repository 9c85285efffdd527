/* SPDX-License-Identifier: MIT
 * dice_class.h - what a class adds to the loss; for C and for kernels. */
#ifndef DICE_CLASS_H
#define DICE_CLASS_H

#include "dice.h"

#ifdef __CUDACC__
#define DICE_FN static __host__ __device__ inline
#else
#define DICE_FN static inline
#endif

/* 1 - (2 both + smooth) / (said + truth + smooth); a class that no label has adds nothing. */
DICE_FN double dice_class(const dice_sums *s, double smooth, double eps, dice_slope *slope) {
  slope->own = slope->all = 0;
  if (!(s->truth > 0)) return 0;
  double sum = s->said + s->truth + smooth, over = sum < eps ? eps : sum, score = (2 * s->both + smooth) / over;
  slope->own = -2 / over;
  if (sum >= eps) slope->all = score / over;
  return 1 - score;
}

#endif
