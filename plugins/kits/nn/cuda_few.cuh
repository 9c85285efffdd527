/* SPDX-License-Identifier: MIT
 * cuda_few.cuh - what cuda_narrow.cu asks of cuda_few.cu.
 */
#ifndef NN_CUDA_FEW_CUH
#define NN_CUDA_FEW_CUH

#include "cuda_kit.cuh"

namespace nnk {

enum { FEW = 32 }; /* channels at most, of either map */

struct few_args {
  nnk_map y, x; /* written and read */
  const float *w, *bias;
  const void *mask;
  int relu, add, turned; /* turned: w is [channels of x][taps][channels of y], taps from the last to the first */
};

/* A 3x3 convolution in bfloat16, on a device of compute capability 8.0. */
int few(void *stream, const few_args &args);

} // namespace nnk
#endif
