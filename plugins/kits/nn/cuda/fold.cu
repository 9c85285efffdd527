/* SPDX-License-Identifier: MIT
 * fold.cu - a batch norm of running statistics in the weights of the product before it, made once. */
#include "kernels.h"

#include "../../cuda/launch.h"

/* Weights first, then the bias. */
static __global__ void fold(nnk_folded f) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, c = i < f.count ? nn_channel(f.channels, i) : i - f.count;
  if (i >= f.count + f.c) return;
  double scale = nn_fold_scale(f.gamma[c], f.var[c], f.eps);
  if (i < f.count) f.to_w[i] = (float)(f.w[i] * scale);
  else f.to_b[c] = nn_fold_shift(scale, f.bias ? f.bias[c] : 0, f.mean[c], f.beta[c]);
}

extern "C" int nnk_fold(void *stream, const nnk_folded *f) {
  SP_LAUNCH(fold, (unsigned)((f->count + f->c + 255) / 256), 256, 0, stream, *f);
  return (int)cudaPeekAtLastError();
}
