/* SPDX-License-Identifier: MIT
 * muon_product.c - each number of a product is one chain of fused operations, in the order of k, whoever computes it: a
 * library's products change bits with the number of threads. */
#include "muon_product.h"

#include <math.h>
#include <string.h>

#include "../../kits/par.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { ROWS = 64, DEEP = 256, TALL = 4, WIDE = MUON_PAD }; /* of an item; of a tile in registers */

/* acc [TALL][WIDE] += a [TALL][k] panel [k][WIDE] */
typedef void (*tile_fn)(const float *a, int64_t lda, const float *panel, int64_t k, float *acc);

static void tile_base(const float *a, int64_t lda, const float *panel, int64_t k, float *acc) {
  for (int64_t i = 0; i < k; i++)
    for (int r = 0; r < TALL; r++)
      for (int j = 0; j < WIDE; j++) acc[r * WIDE + j] = fmaf(a[r * lda + i], panel[i * WIDE + j], acc[r * WIDE + j]);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void tile_avx2(const float *a, int64_t lda, const float *panel, int64_t k,
                                                          float *acc) {
  __m256 c[TALL][2];
  for (int r = 0; r < TALL; r++)
    for (int j = 0; j < 2; j++) c[r][j] = _mm256_loadu_ps(acc + r * WIDE + 8 * j);
  for (int64_t i = 0; i < k; i++) {
    __m256 b0 = _mm256_loadu_ps(panel + i * WIDE), b1 = _mm256_loadu_ps(panel + i * WIDE + 8);
    for (int r = 0; r < TALL; r++) {
      __m256 v = _mm256_broadcast_ss(a + r * lda + i);
      c[r][0] = _mm256_fmadd_ps(v, b0, c[r][0]);
      c[r][1] = _mm256_fmadd_ps(v, b1, c[r][1]);
    }
  }
  for (int r = 0; r < TALL; r++)
    for (int j = 0; j < 2; j++) _mm256_storeu_ps(acc + r * WIDE + 8 * j, c[r][j]);
}
#endif

static tile_fn choose(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return tile_avx2;
#endif
  return tile_base;
}

typedef struct product_job {
  const muon_product *p;
  tile_fn tile;
  int64_t strips; /* of columns */
} product_job;

static void pack(const muon_product *p, int64_t col, int64_t from, int64_t k, float *panel) {
  if (!p->b_transposed) {
    for (int64_t i = 0; i < k; i++) memcpy(panel + i * WIDE, p->b + (from + i) * p->ldb + col, WIDE * sizeof *panel);
    return;
  }
  for (int j = 0; j < WIDE; j++)
    for (int64_t i = 0; i < k; i++) panel[i * WIDE + j] = p->b[(col + j) * p->ldb + from + i];
}

/* c has been the sum so far. */
static void finish(const muon_product *p, int64_t row, int64_t col, const float *acc) {
  for (int r = 0; r < TALL; r++)
    for (int j = 0; j < WIDE; j++) {
      int64_t at = (row + r) * p->ldc + col + j;
      float v = p->alpha == 1 ? acc[r * WIDE + j] : p->alpha * acc[r * WIDE + j];
      p->c[at] = p->beta != 0 ? fmaf(p->beta, p->d[at], v) : v;
    }
}

/* A strip of columns of some rows. */
static int strip(void *arg, int64_t item, int worker) {
  const product_job *j = arg;
  const muon_product *p = j->p;
  int64_t col = item % j->strips * WIDE, top = item / j->strips * ROWS, rows = muon_padded(p->m) - top;
  float panel[DEEP * WIDE], acc[ROWS * WIDE] = {0};
  if (rows > ROWS) rows = ROWS;
  for (int64_t from = 0; from < p->k; from += DEEP) {
    int64_t k = p->k - from < DEEP ? p->k - from : DEEP;
    pack(p, col, from, k, panel);
    for (int64_t r = 0; r < rows; r += TALL)
      j->tile(p->a + (top + r) * p->lda + from, p->lda, panel, k, acc + r * WIDE);
  }
  for (int64_t r = 0; r < rows; r += TALL) finish(p, top + r, col, acc + r * WIDE);
  (void)worker;
  return SP_OK;
}

int muon_multiply(sp_ctx *ctx, const muon_product *p) {
  product_job j = {p, choose(), muon_padded(p->n) / WIDE};
  return par_run(ctx, j.strips * ((muon_padded(p->m) + ROWS - 1) / ROWS), strip, &j);
}
