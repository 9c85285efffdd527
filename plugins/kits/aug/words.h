/* SPDX-License-Identifier: MIT
 * words.h - many draws of the generator at once on the CPU: the words that sp_rng gives, one draw after another. */
#ifndef SP_PLUGINS_AUG_WORDS_H
#define SP_PLUGINS_AUG_WORDS_H

#include <spcore/rng.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { AUG_DRAWS = 64, AUG_DRAWS_STEP = 16 };

/* Word k of draw i is v[k][i]. */
typedef struct aug_words {
  _Alignas(64) uint32_t v[4][AUG_DRAWS];
} aug_words;

static inline void aug_words_plain(aug_words *to, uint64_t key, uint64_t id, uint32_t draw, int n) {
  for (int i = 0; i < n; i++) {
    sp_rng4 r = sp_rng(key, id, draw + (uint32_t)i);
    for (int k = 0; k < 4; k++) to->v[k][i] = r.v[k];
  }
}

#if defined(__x86_64__)
/* The rounds of MANY groups of four vectors c[m][0..3], by the operations of an instruction set: one number in each
 * element, products of lower halves, upper halves, and all that differ in three vectors. */
#define AUG_ROUNDS(c, vector, all, product, upper, differ)     \
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);     \
  const vector a = all(0xD2511F53), b = all(0xCD9E8D57);       \
  for (int round = 0; round < 10; round++) {                   \
    vector x = all((int64_t)k0), y = all((int64_t)k1);         \
    for (int m = 0; m < MANY; m++) {                           \
      vector p = product(c[m][0], a), q = product(c[m][2], b); \
      c[m][0] = differ(upper(q), c[m][1], x);                  \
      c[m][2] = differ(upper(p), c[m][3], y);                  \
      c[m][1] = q;                                             \
      c[m][3] = p;                                             \
    }                                                          \
    k0 += 0x9E3779B9u;                                         \
    k1 += 0xBB67AE85u;                                         \
  }
#define AUG_UPPER_256(v) _mm256_srli_epi64(v, 32)
#define AUG_DIFFER_256(u, v, w) _mm256_xor_si256(u, _mm256_xor_si256(v, w))
#define AUG_UPPER_512(v) _mm512_srli_epi64(v, 32)
#define AUG_DIFFER_512(u, v, w) _mm512_ternarylogic_epi64(u, v, w, 0x96)

/* Four draws a vector, a word in the lower half of each element: products look at that half alone, so what is left in
 * the upper ones does no harm. Two such vectors at once hide some of the products' time, and fit the registers. */
__attribute__((target("avx2"))) static inline void aug_words_avx2(aug_words *to, uint64_t key, uint64_t id,
                                                                  uint32_t draw, int n) {
  enum { MANY = 2 };
  const __m256i lower = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  for (int at = 0; at < n; at += 4 * MANY) {
    __m256i c[MANY][4];
    for (int m = 0; m < MANY; m++) {
      uint32_t d = draw + (uint32_t)(at + 4 * m);
      c[m][0] = _mm256_set1_epi64x((int64_t)(uint32_t)id);
      c[m][1] = _mm256_set1_epi64x((int64_t)(id >> 32));
      c[m][2] = _mm256_setr_epi64x((int64_t)d, (int64_t)(uint32_t)(d + 1), (int64_t)(uint32_t)(d + 2),
                                   (int64_t)(uint32_t)(d + 3));
      c[m][3] = _mm256_setzero_si256();
    }
    AUG_ROUNDS(c, __m256i, _mm256_set1_epi64x, _mm256_mul_epu32, AUG_UPPER_256, AUG_DIFFER_256)
    for (int m = 0; m < MANY; m++)
      for (int k = 0; k < 4; k++)
        _mm_store_si128((__m128i *)&to->v[k][at + 4 * m],
                        _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(c[m][k], lower)));
  }
}

/* The same of eight draws a vector. */
__attribute__((target("avx512f"))) static inline void aug_words_avx512(aug_words *to, uint64_t key, uint64_t id,
                                                                       uint32_t draw, int n) {
  enum { MANY = 2 };
  const __m512i count = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  for (int at = 0; at < n; at += 8 * MANY) {
    __m512i c[MANY][4];
    for (int m = 0; m < MANY; m++) {
      c[m][0] = _mm512_set1_epi64((int64_t)(uint32_t)id);
      c[m][1] = _mm512_set1_epi64((int64_t)(id >> 32));
      c[m][2] = _mm512_add_epi32(_mm512_set1_epi64((int64_t)(draw + (uint32_t)(at + 8 * m))), count);
      c[m][3] = _mm512_setzero_si512();
    }
    AUG_ROUNDS(c, __m512i, _mm512_set1_epi64, _mm512_mul_epu32, AUG_UPPER_512, AUG_DIFFER_512)
    for (int m = 0; m < MANY; m++)
      for (int k = 0; k < 4; k++)
        _mm256_store_si256((__m256i *)(void *)&to->v[k][at + 8 * m], _mm512_cvtepi64_epi32(c[m][k]));
  }
}
#endif

/* n <= AUG_DRAWS draws from `draw` on; up to a multiple of AUG_DRAWS_STEP more are made. */
static inline void aug_words_of(aug_words *to, uint64_t key, uint64_t id, uint32_t draw, int n) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    aug_words_avx512(to, key, id, draw, n);
    return;
  }
  if (__builtin_cpu_supports("avx2")) {
    aug_words_avx2(to, key, id, draw, n);
    return;
  }
#endif
  aug_words_plain(to, key, id, draw, n);
}

#endif
