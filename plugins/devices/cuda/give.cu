/* SPDX-License-Identifier: MIT
 * give.cu - small copies from the device to pinned memory, by one block: a copy engine has to be waited for twice,
 * before it begins and behind it, which takes longer than all that a kernel takes. */
#include "give.h"

#include "../../kits/cuda/launch.h"

#include <stdint.h>

enum { THREADS = 512 };

template <typename T> static __global__ void __launch_bounds__(THREADS) give(T *pinned, const T *from, size_t n) {
  for (size_t i = threadIdx.x; i < n; i += THREADS) pinned[i] = from[i];
}

template <typename T> static void launch(void *stream, void *pinned, const void *from, size_t bytes) {
  SP_LAUNCH(give<T>, 1, THREADS, 0, stream, static_cast<T *>(pinned), static_cast<const T *>(from), bytes / sizeof(T));
}

/* With unified addresses, which every 64-bit system has, pinned memory has the same address on the device. */
int sp_cuda_give(void *stream, void *pinned, const void *from, size_t bytes) {
  uintptr_t all = reinterpret_cast<uintptr_t>(pinned) | reinterpret_cast<uintptr_t>(from) | bytes;
  if (all % sizeof(uint4) == 0) launch<uint4>(stream, pinned, from, bytes);
  else if (all % sizeof(uint32_t) == 0) launch<uint32_t>(stream, pinned, from, bytes);
  else launch<uint8_t>(stream, pinned, from, bytes);
  return cudaPeekAtLastError();
}
