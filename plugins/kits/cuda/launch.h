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

/* As SP_LAUNCH, where the kernel may begin before the one ahead of it in the stream has ended; sp_launch_wait() waits
 * for that. */
#define SP_LAUNCH_EARLY(kernel, grid, block, shared_bytes, stream, ...) \
  sp_launching::early_of((kernel), (grid), (block), (shared_bytes), (stream))(__VA_ARGS__)

namespace sp_launching {
template <typename... P> struct early {
  void (*kernel)(P...);
  dim3 grid, block;
  size_t shared_bytes;
  void *stream;
  void operator()(P... args) const {
    int device = 0, major = 0;
    cudaLaunchAttribute may_begin = {};
    cudaLaunchConfig_t how = {};
    may_begin.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    may_begin.val.programmaticStreamSerializationAllowed = 1;
    how.gridDim = grid;
    how.blockDim = block;
    how.dynamicSmemBytes = shared_bytes;
    how.stream = static_cast<cudaStream_t>(stream);
    how.attrs = &may_begin;
    /* devices before 9.0 cannot, and captures only since CUDA 12.3 */
    if (CUDART_VERSION >= 12030 && !cudaGetDevice(&device) &&
        !cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) && major >= 9)
      how.numAttrs = 1;
    (void)cudaLaunchKernelEx(&how, kernel, args...); /* as after <<< >>>, cudaPeekAtLastError() tells */
  }
};

template <typename... P>
early<P...> early_of(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, void *stream) {
  return {kernel, grid, block, shared_bytes, stream};
}
} // namespace sp_launching

static __device__ __forceinline__ void sp_launch_wait(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* The next kernel of the stream, if launched early, may begin as soon as all blocks of this one have. */
static __device__ __forceinline__ void sp_launch_next(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#define SP_DYNAMIC_SHARED(type, name)                                 \
  extern __shared__ __align__(128) unsigned char sp_dynamic_shared[]; \
  type *name = reinterpret_cast<type *>(sp_dynamic_shared)

#else

#include "cuda_emu.h"

#define SP_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  sp_emu::launcher((kernel), (grid), (block), (shared_bytes), (stream))(__VA_ARGS__)

#define SP_LAUNCH_EARLY SP_LAUNCH
static inline void sp_launch_wait(void) {}
static inline void sp_launch_next(void) {}

#define SP_DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(sp_emu::dynamic_shared())

#endif
#endif
