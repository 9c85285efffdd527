/* SPDX-License-Identifier: MIT
 * logits.cuh - logits and labels as kernels read them. */
#ifndef SP_PLUGINS_LOGITS_CUH
#define SP_PLUGINS_LOGITS_CUH

#include "labels.h"

#include "../cuda/launch.h"

/* Where the first logit of a position lies, and how far apart its classes are. */
static __device__ inline int64_t logits_at(const logit_shape &s, int64_t position, int64_t *stride) {
  if (s.rows) {
    *stride = 1;
    return position * s.classes;
  }
  *stride = s.px;
  return position / s.px * s.classes * s.px + position % s.px;
}

/* The class of the largest logit; of equals the first. */
static __device__ inline int64_t logits_argmax(const float *logits, const logit_shape &s, int64_t position) {
  int64_t stride, best = 0;
  const float *x = logits + logits_at(s, position, &stride);
  float top = x[0];
  for (int64_t c = 1; c < s.classes; c++) {
    float v = x[c * stride];
    if (v > top) top = v, best = c;
  }
  return best;
}

#endif
