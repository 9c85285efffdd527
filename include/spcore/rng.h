/* SPDX-License-Identifier: MIT
 *
 * spcore/rng.h - counter-based random numbers: Philox 4x32 with 10 rounds.
 *
 * A draw is a pure function of (key, sample id, draw number), so it is the same in any batch, on any thread, on any
 * device. `key` comes with step->key. For CUDA the functions are __host__ __device__.
 */
#ifndef SPCORE_RNG_H
#define SPCORE_RNG_H

#include <stdint.h>

#ifdef __CUDACC__
#define SP_RNG_FN static __host__ __device__ __forceinline__
#else
#define SP_RNG_FN static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sp_rng4 {
  uint32_t v[4];
} sp_rng4;

/* Four words of 32 uniform bits. `draw` counts groups of four within one (key, id). */
SP_RNG_FN sp_rng4 sp_rng(uint64_t key, uint64_t id, uint32_t draw) {
  uint32_t c0 = (uint32_t)id, c1 = (uint32_t)(id >> 32), c2 = draw, c3 = 0;
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  sp_rng4 r;
  int i;
  for (i = 0; i < 10; i++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  r.v[0] = c0;
  r.v[1] = c1;
  r.v[2] = c2;
  r.v[3] = c3;
  return r;
}

/* Uniform in [0, 1), 24 bits, exact in float. */
SP_RNG_FN float sp_rng_float(uint32_t bits) { return (float)(bits >> 8) * (1.0f / 16777216.0f); }

/* Uniform in 0..n-1 for n >= 1; the bias is below n / 2^32. */
SP_RNG_FN uint32_t sp_rng_below(uint32_t bits, uint32_t n) { return (uint32_t)((uint64_t)bits * n >> 32); }

/* A key made of a seed and a name (FNV-1a over the name, mixed with the seed), for one purpose each. */
SP_RNG_FN uint64_t sp_rng_key(uint64_t seed, const char *name) {
  uint64_t h = 0xCBF29CE484222325u;
  for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001B3u;
  h ^= seed + 0x9E3779B97F4A7C15u + (h << 6) + (h >> 2);
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
  h = (h ^ (h >> 27)) * 0x94D049BB133111EBu;
  return h ^ (h >> 31);
}

#ifdef __cplusplus
}
#endif
#endif
