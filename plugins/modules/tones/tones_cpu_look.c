/* SPDX-License-Identifier: MIT
 * tones_cpu_look.c - what is found out of a channel before it is changed, and normal numbers, on the CPU. */
#include "tones_cpu.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { LANES = 16 };

/* Sixteen at a time, each with limits of its own, which the compiler vectorises. */
AUG_VEC static void limits(const float *restrict x, int64_t n, float *restrict least, float *restrict most) {
  float lo[LANES], hi[LANES];
  for (int l = 0; l < LANES; l++) lo[l] = least[l], hi[l] = most[l];
  for (int64_t i = 0; i + LANES <= n; i += LANES)
    for (int l = 0; l < LANES; l++) {
      lo[l] = PIXEL_IF(x[i + l] < lo[l], x[i + l], lo[l]);
      hi[l] = PIXEL_IF(x[i + l] > hi[l], x[i + l], hi[l]);
    }
  for (int l = 0; l < LANES; l++) least[l] = lo[l], most[l] = hi[l];
}

AUG_VEC static int outside(const float *restrict x, int64_t n, float lo, float hi) {
  int bad = 0;
  for (int64_t i = 0; i < n; i++) bad |= (x[i] < lo) | (x[i] > hi);
  return bad;
}

int tones_any_outside(const float *x, int64_t n, float max) {
  return outside(x, n, -tones_slack(max), max + tones_slack(max));
}

void tones_limits(const float *x, int64_t n, float reach[2]) {
  float lo[LANES], hi[LANES];
  for (int l = 0; l < LANES; l++) lo[l] = reach[0], hi[l] = reach[1];
  limits(x, n, lo, hi);
  for (int64_t i = n / LANES * LANES; i < n; i++) {
    lo[0] = x[i] < lo[0] ? x[i] : lo[0];
    hi[0] = x[i] > hi[0] ? x[i] : hi[0];
  }
  for (int l = 0; l < LANES; l++) {
    reach[0] = lo[l] < reach[0] ? lo[l] : reach[0];
    reach[1] = hi[l] > reach[1] ? hi[l] : reach[1];
  }
}

AUG_VEC static void byte_limits(const uint8_t *restrict x, int64_t n, uint8_t *restrict lo, uint8_t *restrict hi) {
  for (int64_t i = 0; i + 32 <= n; i += 32)
    for (int l = 0; l < 32; l++) {
      uint8_t v = x[i + l];
      lo[l] = v < lo[l] ? v : lo[l];
      hi[l] = v > hi[l] ? v : hi[l];
    }
}

/* A channel's first element of row y, and how far its elements are apart. */
static const void *row_of(const aug_job *j, int64_t sample, int64_t channel, int64_t y) {
  size_t bytes = aug_element(j->dtype);
  if (j->pix == 1) return aug_in_row(j, sample, channel, y, bytes);
  return (const char *)aug_in_row(j, sample, 0, y, bytes) + (size_t)channel * bytes;
}

static void find_limits(const tones_task *t, int64_t sample, int64_t channel, tones_look *look) {
  const aug_job *j = t->job;
  int64_t n = j->pix == 1 ? (int64_t)j->h * j->w : (int64_t)j->h * j->w * j->pix;
  const void *all = row_of(j, sample, channel, 0);
  if (j->dtype == SP_F32) {
    const float *x = all;
    look->lo = look->hi = x[0];
    float reach[2] = {x[0], x[0]};
    if (j->pix == 1) tones_limits(x, n, reach);
    for (int64_t i = 0; j->pix > 1 && i < n; i += j->pix) {
      reach[0] = x[i] < reach[0] ? x[i] : reach[0];
      reach[1] = x[i] > reach[1] ? x[i] : reach[1];
    }
    look->lo = reach[0] + 0.0f;
    look->hi = reach[1] + 0.0f;
    return;
  }
  const uint8_t *x = all;
  uint8_t lo[32], hi[32];
  memset(lo, x[0], sizeof lo);
  memset(hi, x[0], sizeof hi);
  if (j->pix == 1) byte_limits(x, n, lo, hi);
  for (int64_t i = j->pix == 1 ? n / 32 * 32 : 0; i < n; i += j->pix) {
    lo[0] = x[i] < lo[0] ? x[i] : lo[0];
    hi[0] = x[i] > hi[0] ? x[i] : hi[0];
  }
  for (int l = 0; l < 32; l++) {
    lo[0] = lo[l] < lo[0] ? lo[l] : lo[0];
    hi[0] = hi[l] > hi[0] ? hi[l] : hi[0];
  }
  look->lo = lo[0];
  look->hi = hi[0];
}

/* Four counters of each value, so that equal neighbours do not wait for each other. */
static void count(const tones_task *t, int64_t sample, int64_t channel, tones_look *look) {
  const aug_job *j = t->job;
  uint32_t n[4][256], all[256];
  int64_t elements = (int64_t)j->h * j->w, pix = j->pix;
  const void *from = row_of(j, sample, channel, 0);
  const uint8_t *x = from;
  memset(n, 0, sizeof n);
  if (j->dtype == SP_F32) {
    for (int64_t i = 0; i < elements; i++) n[i & 3][point_byte(((const float *)from)[i * pix], t->max)]++;
  } else {
    int64_t i = 0;
    for (; i + 4 <= elements; i += 4, x += 4 * pix) {
      n[0][x[0]]++;
      n[1][x[pix]]++;
      n[2][x[2 * pix]]++;
      n[3][x[3 * pix]]++;
    }
    for (; i < elements; i++, x += pix) n[0][*x]++;
  }
  for (int i = 0; i < 256; i++) all[i] = n[0][i] + n[1][i] + n[2][i] + n[3][i];
  point_equalize(all, look->table);
}

static void find_mean(const tones_task *t, int64_t sample, tones_look *look) {
  const aug_job *j = t->job;
  int64_t sum = 0, n = (int64_t)j->w;
  int colours = j->planes * j->pix == 3, bytes = j->dtype == SP_U8;
  for (int64_t y = 0; y < j->h; y++) {
    const void *row[3];
    for (int c = 0; c < 3; c++) row[c] = row_of(j, sample, colours ? c : 0, y);
    int64_t line = 0;
    for (int64_t i = 0; i < n; i++) {
      float v[3];
      for (int c = 0; c < 3; c++)
        v[c] = bytes ? (float)((const uint8_t *)row[c])[i * j->pix] : ((const float *)row[c])[i * j->pix];
      float grey = colours ? pixel_grey(v[0], v[1], v[2], bytes) : v[0];
      line += bytes ? (int64_t)grey : point_grey_sum(grey, t->max);
    }
    sum += line;
  }
  look->mean = bytes ? (float)((double)sum / (double)(j->h * n)) : point_grey_mean(sum, j->h * n, t->max);
}

void tones_look_at(const tones_task *t, int64_t sample, int64_t channel, tones_look *look) {
  if (t->step.op == TONES_AUTOCONTRAST) find_limits(t, sample, channel, look);
  else if (t->step.op == TONES_EQUALIZE) count(t, sample, channel, look);
  else if (channel == 0) find_mean(t, sample, look);
}

/* ---- normal numbers ---- */
enum { FOURS = 32 }; /* draws at a time */

/* Words of draws side by side: word k of draw i is w[k][i]. */
typedef struct words {
  _Alignas(32) uint32_t w[4][FOURS];
} words;

static void draw_plain(words *to, uint64_t key, uint64_t id, uint32_t draw) {
  for (uint32_t i = 0; i < FOURS; i++) {
    sp_rng4 r = sp_rng(key, id, draw + i);
    for (int k = 0; k < 4; k++) to->w[k][i] = r.v[k];
  }
}

#if defined(__x86_64__)
/* sp_rng of four draws at a time, a word in each half of a vector's elements; three such at once hide the products'
 * time. */
#define AVX2 __attribute__((target("avx2")))
AVX2 static void draw_avx2(words *to, uint64_t key, uint64_t id, uint32_t draw) {
  enum { MANY = 4 };
  const __m256i a = _mm256_set1_epi64x(0xD2511F53), b = _mm256_set1_epi64x(0xCD9E8D57),
                low = _mm256_set1_epi64x(0xffffffff);
  const __m256i next = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  for (uint32_t at = 0; at < FOURS; at += 4 * MANY) {
    __m256i c[MANY][4];
    for (uint32_t m = 0; m < MANY; m++) {
      c[m][0] = _mm256_set1_epi64x((int64_t)(uint32_t)id);
      c[m][1] = _mm256_set1_epi64x((int64_t)(id >> 32));
      uint32_t d = draw + at + 4 * m;
      c[m][2] = _mm256_setr_epi64x((int64_t)d, (int64_t)(uint32_t)(d + 1), (int64_t)(uint32_t)(d + 2),
                                   (int64_t)(uint32_t)(d + 3));
      c[m][3] = _mm256_setzero_si256();
    }
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
      __m256i x = _mm256_set1_epi64x((int64_t)k0), y = _mm256_set1_epi64x((int64_t)k1);
      for (int m = 0; m < MANY; m++) {
        __m256i p = _mm256_mul_epu32(c[m][0], a), q = _mm256_mul_epu32(c[m][2], b);
        __m256i n0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(q, 32), c[m][1]), x);
        __m256i n2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p, 32), c[m][3]), y);
        c[m][1] = _mm256_and_si256(q, low);
        c[m][3] = _mm256_and_si256(p, low);
        c[m][0] = n0;
        c[m][2] = n2;
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    for (int m = 0; m < MANY; m++)
      for (int k = 0; k < 4; k++)
        _mm_store_si128((__m128i *)&to->w[k][at + 4 * (uint32_t)m],
                        _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(c[m][k], next)));
  }
}
#endif

static void draw_words(words *to, uint64_t key, uint64_t id, uint32_t draw) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    draw_avx2(to, key, id, draw);
    return;
  }
#endif
  draw_plain(to, key, id, draw);
}

AUG_VEC static void normals(float *restrict x, float *restrict y, const uint32_t *restrict a,
                            const uint32_t *restrict b) {
  for (int i = 0; i < FOURS; i++) point_normal(a[i], b[i], &x[i], &y[i]);
}

void tones_normals(float *z, uint64_t key, uint64_t id, uint32_t draw, int32_t fours) {
  for (int32_t at = 0; at < fours; at += FOURS) {
    words w;
    float v[4][FOURS];
    int32_t n = fours - at < FOURS ? fours - at : FOURS;
    draw_words(&w, key, id, draw + (uint32_t)at);
    normals(v[0], v[1], w.w[0], w.w[1]);
    normals(v[2], v[3], w.w[2], w.w[3]);
    for (int32_t i = 0; i < n; i++)
      for (int k = 0; k < 4; k++) z[4 * (at + i) + k] = v[k][i];
  }
}
