/* SPDX-License-Identifier: MIT
 * lovasz_step.h - errors, and what a place in their order is worth; for C and for kernels. */
#ifndef LOVASZ_STEP_H
#define LOVASZ_STEP_H

#include <math.h>
#include <string.h>

#include "lovasz.h"

#ifdef __CUDACC__
#define LOVASZ_FN static __host__ __device__ inline
#else
#define LOVASZ_FN static inline
#endif

/* Of a probability, or of a logit where there is one class. Never below 0: that costs nothing wherever it is sorted. */
LOVASZ_FN float lovasz_error(int hinge, int is_true, float v) {
  if (!hinge) return fabsf(is_true ? 1.0f - v : v);
  float e = is_true ? 1.0f - v : 1.0f + v;
  return e <= 0 ? 0.0f : e; /* NaN stays */
}

/* Numbers of 32 bits whose order is that of errors, the largest first; NaN before all. */
LOVASZ_FN uint32_t lovasz_key(float error) {
  uint32_t bits;
  memcpy(&bits, &error, sizeof bits);
  return ~(bits & 0x7fffffffu);
}

LOVASZ_FN float lovasz_error_of(uint32_t key) {
  uint32_t bits = ~key;
  float error;
  memcpy(&error, &bits, sizeof error);
  return error;
}

/* By how much 1 - IoU grows where one more position is wrong, which is the gradient of the sorted error. Among the
 * positions so far, with this one, are `hits` of the `truth` labels of the class, and `others` of other classes. */
LOVASZ_FN double lovasz_step(int64_t truth, int64_t hits, int64_t others, int is_true) {
  double sum = (double)(truth + others);
  if (is_true) return 1 / sum;
  if (truth == 0) return others == 1;
  return (double)(truth - hits) / (sum * (sum - 1));
}

#endif
