/* SPDX-License-Identifier: MIT
 *
 * spcore/checksum.h - the checksum of memory that sp_device_type.stream_hash makes.
 *
 * Made of a sum, so that any number of threads may each take a part: every device comes to the same. Word i counts 8
 * bytes as the machine reads them, the last one filled up with zeros; sums are modulo 2^64:
 *
 *     checksum(data, bytes) = sp_checksum_end(sum over i of sp_checksum_word(word[i], i), bytes)
 *
 * It finds mistakes, not forgeries. For CUDA the functions of one word are __host__ __device__.
 */
#ifndef SPCORE_CHECKSUM_H
#define SPCORE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define SP_CHECKSUM_FN static __host__ __device__ __forceinline__
#else
#define SP_CHECKSUM_FN static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The finalizer of SplitMix64: each bit of the result hangs on all of x. */
SP_CHECKSUM_FN uint64_t sp_checksum_mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/* What word i adds to the sum; its place counts, so that words cannot change theirs unseen. */
SP_CHECKSUM_FN uint64_t sp_checksum_word(uint64_t word, uint64_t i) {
  return sp_checksum_mix(word + (i + 1) * 0x9E3779B97F4A7C15u);
}

SP_CHECKSUM_FN uint64_t sp_checksum_end(uint64_t sum, uint64_t bytes) { return sp_checksum_mix(sum ^ bytes); }

/* Of memory that the host can read; any alignment. Of 0 bytes, where data may be NULL, it is 0. */
static inline uint64_t sp_checksum(const void *data, size_t bytes) {
  const unsigned char *at = (const unsigned char *)data;
  uint64_t sum = 0, word = 0;
  size_t i, words = bytes / sizeof word, rest = bytes % sizeof word;
  for (i = 0; i < words; i++) {
    memcpy(&word, at + i * sizeof word, sizeof word);
    sum += sp_checksum_word(word, i);
  }
  word = 0;
  if (rest) {
    memcpy(&word, at + words * sizeof word, rest);
    sum += sp_checksum_word(word, words);
  }
  return sp_checksum_end(sum, bytes);
}

#ifdef __cplusplus
}
#endif
#endif
