/* SPDX-License-Identifier: MIT
 * argmax_kernels.cu - logits to labels on CUDA. */
#include "argmax_kernels.h"

#include "../../kits/cuda/grid.h"
#include "../../kits/cuda/launch.h"
#include "../../kits/labels/logits.cuh"

static __global__ void label_positions(uint8_t *mask, const float *logits, logit_shape shape) {
  int64_t all = shape.n * shape.px;
  for (int64_t i = (int64_t)blockIdx.x * GRID_THREADS + threadIdx.x; i < all; i += (int64_t)gridDim.x * GRID_THREADS)
    mask[i] = (uint8_t)logits_argmax(logits, shape, i);
}

int amk_labels(void *stream, uint8_t *mask, const float *logits, const logit_shape *shape) {
  int64_t all = shape->n * shape->px;
  if (!all) return cudaSuccess;
  SP_LAUNCH(label_positions, grid_for(all), GRID_THREADS, 0, stream, mask, logits, *shape);
  return cudaPeekAtLastError();
}
