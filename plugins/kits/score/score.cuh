/* SPDX-License-Identifier: MIT
 * score.cuh - what kernels read of a position's logits. */
#ifndef SP_PLUGINS_SCORE_CUH
#define SP_PLUGINS_SCORE_CUH

#include "../cuda/launch.h"

#include "score.h"

/* The largest logit, the first class that has it, and the sum of exp(logit - largest) in the order of classes. */
typedef struct score_top {
  float max;
  int32_t best;
  double all;
} score_top;

static __device__ inline score_top score_top_of(const score_job *j, int64_t p) {
  const logit_shape *s = &j->shape;
  int64_t at = logit_index(s, s->rows, p, 0), stride = s->rows ? 1 : s->px;
  const float *x = j->x + at;
  score_top t = {x[0], 0, 0};
  for (int32_t c = 1; c < s->classes; c++)
    if (x[c * stride] > t.max) t.max = x[c * stride], t.best = c;
  for (int64_t c = 0; c < s->classes; c++) t.all = rounded_add(t.all, score_exp((double)x[c * stride] - (double)t.max));
  return t;
}

#endif
