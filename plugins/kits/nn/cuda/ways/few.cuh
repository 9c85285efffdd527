/* SPDX-License-Identifier: MIT
 * few.cuh - what narrow convolutions in bfloat16 are: 3x3 with up to 32 channels, on a device that multiplies bfloat16.
 */
#ifndef NN_CUDA_FEW_CUH
#define NN_CUDA_FEW_CUH

#include "../kit.cuh"

namespace nnk {

enum { FEW = 32 }; /* channels at most, of either map */

struct few_layer {
  nnk_map y, x; /* written and read */
  const float *w, *bias;
  const void *mask;
  int relu, add, turned; /* turned: w is [channels of x][taps][channels of y], taps from the last to the first */
};

/* Forward, or data gradient. */
int few(void *stream, const few_layer &args, int multiprocessors);
/* nnk_narrow_weight, with the same work. */
int few_weight(void *stream, nnk_sum dw, nnk_sum db, const nnk_map *x, const nnk_map *dy, float *work,
               int multiprocessors);
/* What nnk_narrow_prepare does for these, a cudaError_t. */
int few_weight_prepare();

} // namespace nnk
#endif
