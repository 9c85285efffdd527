/* SPDX-License-Identifier: MIT
 * hash.cu - checksums of device memory. One block reads all of it: one launch, nothing to clear before, no memory but
 * the result's; and what is checked, the order of streams, is disturbed little. */
#include "hash.h"

#include "../../kits/cuda/launch.h"

#include <spcore/checksum.h>

enum { THREADS = 1024, EACH = 8 }; /* words of a thread, which are on their way together */

/* The words [0, words) of memory that is aligned to T, low parts first. */
template <typename T> static __device__ __forceinline__ uint64_t load(const void *data, size_t i) {
  const T *part = static_cast<const T *>(data) + i * (8 / sizeof(T));
  uint64_t word = 0;
#pragma unroll
  for (unsigned k = 0; k < 8 / sizeof(T); k++) word |= static_cast<uint64_t>(part[k]) << (8 * sizeof(T) * k % 64);
  return word;
}

template <typename T> static __device__ __forceinline__ uint64_t sum_of(const void *data, size_t words) {
  uint64_t sum = 0, word[EACH];
  for (size_t first = threadIdx.x; first < words; first += THREADS * EACH) {
#pragma unroll
    for (size_t k = 0; k < EACH; k++)
      if (first + k * THREADS < words) word[k] = load<T>(data, first + k * THREADS);
#pragma unroll
    for (size_t k = 0; k < EACH; k++)
      if (first + k * THREADS < words) sum += sp_checksum_word(word[k], first + k * THREADS);
  }
  return sum;
}

static __device__ uint64_t last_word(const unsigned char *at, size_t rest) {
  uint64_t word = 0;
  for (size_t k = 0; k < rest; k++) word |= static_cast<uint64_t>(at[k]) << (8 * k);
  return word;
}

template <typename T>
static __global__ void __launch_bounds__(THREADS) hash_block(const void *data, size_t bytes, uint64_t *sum) {
  __shared__ uint64_t part[THREADS];
  size_t words = bytes / 8, rest = bytes % 8;
  uint64_t mine = sum_of<T>(data, words);
  if (rest && threadIdx.x == 0)
    mine += sp_checksum_word(last_word(static_cast<const unsigned char *>(data) + words * 8, rest), words);
  part[threadIdx.x] = mine;
  for (unsigned half = THREADS / 2; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *sum = sp_checksum_end(part[0], bytes);
}

/* With unified addresses, which every 64-bit system has, pinned memory has the same address on the device. */
int sp_cuda_hash(void *stream, const void *data, size_t bytes, uint64_t *sum) {
  uintptr_t at = reinterpret_cast<uintptr_t>(data);
  if (at % 8 == 0) SP_LAUNCH(hash_block<uint64_t>, 1, THREADS, 0, stream, data, bytes, sum);
  else if (at % 4 == 0) SP_LAUNCH(hash_block<uint32_t>, 1, THREADS, 0, stream, data, bytes, sum);
  else SP_LAUNCH(hash_block<uint8_t>, 1, THREADS, 0, stream, data, bytes, sum);
  return cudaPeekAtLastError();
}
