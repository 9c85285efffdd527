/* SPDX-License-Identifier: MIT
 * launch.h - how kernels are launched and take shared memory, so that a CPU emulator can compile the same sources.
 *
 * SP_LAUNCH(kernel, grid, block, shared_bytes, stream, args...) names one function: template arguments are written out,
 * in parentheses where they contain a comma: SP_LAUNCH((sum<float, 3>), ...). `stream` may be a void *.
 * SP_DYNAMIC_SHARED(type, name) declares `type *name`, the block's shared_bytes, aligned to 128 bytes.
 */
#ifndef SPCORE_CUDA_LAUNCH_H
#define SPCORE_CUDA_LAUNCH_H

#ifdef __CUDACC__

#include <cuda_runtime.h>

#define SP_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  (kernel)<<<(grid), (block), (shared_bytes), (cudaStream_t)(stream)>>>(__VA_ARGS__)

#define SP_DYNAMIC_SHARED(type, name)                                 \
  extern __shared__ __align__(128) unsigned char sp_dynamic_shared[]; \
  type *name = reinterpret_cast<type *>(sp_dynamic_shared)

#else

#include "cuda_emu.h"

#define SP_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  sp_emu::launcher((kernel), (grid), (block), (shared_bytes), (stream))(__VA_ARGS__)

#define SP_DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(sp_emu::dynamic_shared())

#endif
#endif
