/* SPDX-License-Identifier: MIT
 * blur_cpu.h - weights and sums of a Gaussian kernel on the CPU. */
#ifndef BLUR_CPU_H
#define BLUR_CPU_H

#include "blur.h"

/* y[i] = w[0] t[r][i] + w[1] (t[r - 1][i] + t[r + 1][i]) + ..., in this order; small kernels in one go. */
static inline __attribute__((always_inline)) void blur_sum_body(float *restrict y, const float *const *t,
                                                                const float *w, int r, int64_t n) {
  const float *const *a = t + r, *const *b = t + r, *c = t[r];
  float w0 = w[0];
  int k = r < 3 ? r : 3;
  if (k == 0) {
    for (int64_t i = 0; i < n; i++) y[i] = w0 * c[i];
  } else if (k == 1) {
    const float *a1 = a[-1], *b1 = b[1];
    float w1 = w[1];
    for (int64_t i = 0; i < n; i++) y[i] = w0 * c[i] + w1 * (a1[i] + b1[i]);
  } else if (k == 2) {
    const float *a1 = a[-1], *b1 = b[1], *a2 = a[-2], *b2 = b[2];
    float w1 = w[1], w2 = w[2];
    for (int64_t i = 0; i < n; i++) y[i] = w0 * c[i] + w1 * (a1[i] + b1[i]) + w2 * (a2[i] + b2[i]);
  } else {
    const float *a1 = a[-1], *b1 = b[1], *a2 = a[-2], *b2 = b[2], *a3 = a[-3], *b3 = b[3];
    float w1 = w[1], w2 = w[2], w3 = w[3];
    for (int64_t i = 0; i < n; i++)
      y[i] = w0 * c[i] + w1 * (a1[i] + b1[i]) + w2 * (a2[i] + b2[i]) + w3 * (a3[i] + b3[i]);
  }
  for (; k + 4 <= r; k += 4) {
    const float *a1 = a[-k - 1], *b1 = b[k + 1], *a2 = a[-k - 2], *b2 = b[k + 2];
    const float *a3 = a[-k - 3], *b3 = b[k + 3], *a4 = a[-k - 4], *b4 = b[k + 4];
    float w1 = w[k + 1], w2 = w[k + 2], w3 = w[k + 3], w4 = w[k + 4];
    for (int64_t i = 0; i < n; i++)
      y[i] = y[i] + w1 * (a1[i] + b1[i]) + w2 * (a2[i] + b2[i]) + w3 * (a3[i] + b3[i]) + w4 * (a4[i] + b4[i]);
  }
  for (k++; k <= r; k++) {
    const float *a1 = a[-k], *b1 = b[k];
    float w1 = w[k];
    for (int64_t i = 0; i < n; i++) y[i] = y[i] + w1 * (a1[i] + b1[i]);
  }
}

/* Where pixel i of n lies when an image is mirrored at the middle of its outermost pixels; i is less than n beyond. */
static inline int64_t blur_mirror(int64_t i, int64_t n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; }

/* w[0 .. r]: the middle of a kernel and one side. */
static inline void blur_weights_of(float *w, int r, float sigma) {
  double bell[BLUR_WEIGHTS], sum = bell[0] = blur_bell(0, sigma);
  for (int i = 1; i <= r; i++) sum = blur_sum(sum, bell[i] = blur_bell(i, sigma));
  for (int i = 0; i <= r; i++) w[i] = (float)(bell[i] / sum);
}

#endif
