/* SPDX-License-Identifier: MIT
 * numbers.cu - the numbers by which products scale, where a kernel need not write them first. */
#include "kernels.h"

#include "../../cuda/launch.h"

__device__ float nnk_zero_and_one[2] = {0, 1};

extern "C" int nnk_numbers(const float **numbers) {
  void *at = nullptr;
  cudaError_t err = cudaGetSymbolAddress(&at, static_cast<const void *>(nnk_zero_and_one));
  *numbers = static_cast<const float *>(at);
  return static_cast<int>(err);
}
