/* SPDX-License-Identifier: MIT
 * wino.c - what fits Winograd's convolution, its weights, and the choice of the instruction set.
 *
 * The transforms are those of interpolation at 0, A, -A, B, -B and infinity. 3/4 and 3/2 are exact, as their products
 * are, and lose a third of what the usual 1 and 2 lose: about as much as twice the plain sum. Vectors and copies for
 * several instruction sets are as in skinny.c. */
#include "wino.h"

#include <string.h>

enum { SIDE = 6, POINTS = SIDE * SIDE, OUT = 4, LANES = 16, COLUMNS = 2 * LANES };
#define A 0.75f
#define B 1.5f

#define MAX_BYTES ((size_t)16 << 20)   /* most of constants: above that reading them takes as long as is gained */
#define ROOM_BYTES ((size_t)640 << 10) /* what shall stay in the cache of a core */

int nn_wino_fits(const nn_conv_shape *sh) {
  for (int i = 0; i < 2; i++)
    if (sh->k[i] != 3 || sh->s[i] != 1 || sh->d[i] != 1) return 0;
  if (sh->groups != 1 || sh->c % LANES || sh->o % COLUMNS || sh->c < COLUMNS) return 0;
  if (nn_wino_packed_bytes(sh) > MAX_BYTES) return 0;
  /* at least half of the results are wanted */
  return sh->oh * sh->ow * 2 >= ((sh->oh + OUT - 1) / OUT) * ((sh->ow + OUT - 1) / OUT) * OUT * OUT;
}

size_t nn_wino_packed_bytes(const nn_conv_shape *sh) { return (size_t)(sh->o * sh->c * POINTS) * sizeof(float); }

/* Tiles in work together: a multiple of 8, which is one of all kernels' rows. */
static int64_t tiles_of(const nn_conv_shape *sh) {
  int64_t n = (int64_t)(ROOM_BYTES / (size_t)(sh->c * POINTS * (int64_t)sizeof(float))) / 8 * 8;
  return n < 8 ? 8 : n > 32 ? 32 : n;
}

/* Between the values of two points. Powers of two would meet in few places of the cache. */
static int64_t step_of(const nn_conv_shape *sh) { return tiles_of(sh) * sh->c + LANES; }

size_t nn_wino_scratch_bytes(const nn_conv_shape *sh) {
  return (size_t)(POINTS * (step_of(sh) + tiles_of(sh) * COLUMNS)) * sizeof(float);
}

/* Weights at the points, over what the interpolation divides by. */
static void weights_at(double *u, int64_t step, const double *w, int64_t from) {
  const double a2 = (double)A * A, b2 = (double)B * B, at[SIDE - 1] = {0, A, -A, B, -B};
  const double below[SIDE - 1] = {a2 * b2, 2 * a2 * (a2 - b2), 2 * a2 * (a2 - b2), 2 * b2 * (b2 - a2),
                                  2 * b2 * (b2 - a2)};
  for (int i = 0; i < SIDE - 1; i++) u[i * step] = (w[0] + at[i] * (w[from] + at[i] * w[2 * from])) / below[i];
  u[(SIDE - 1) * step] = w[2 * from];
}

/* To [o / COLUMNS][POINTS][c][COLUMNS]. */
void nn_wino_pack(const nn_conv_shape *sh, const float *weights, float *packed) {
  for (int64_t o = 0; o < sh->o; o++)
    for (int64_t c = 0; c < sh->c; c++) {
      double w[9], rows[3 * SIDE], u[POINTS];
      for (int i = 0; i < 9; i++) w[i] = weights[(o * sh->c + c) * 9 + i];
      for (int x = 0; x < 3; x++) weights_at(rows + x, 3, w + x, 3);
      for (int y = 0; y < SIDE; y++) weights_at(u + y * SIDE, 1, rows + y * 3, 1);
      for (int i = 0; i < POINTS; i++)
        packed[((o / COLUMNS * POINTS + i) * sh->c + c) * COLUMNS + o % COLUMNS] = (float)u[i];
    }
}

typedef float v16 __attribute__((vector_size(64), aligned(4)));
typedef int32_t m16 __attribute__((vector_size(64), aligned(4)));

typedef struct place {  /* of a tile */
  int64_t sample, y, x; /* its first result */
} place;

static place place_of(const nn_wino *w, int64_t tile) {
  int64_t down = (w->sh.oh + OUT - 1) / OUT, across = (w->sh.ow + OUT - 1) / OUT, at = tile % (down * across);
  return (place){tile / (down * across), at / across * OUT, at % across * OUT};
}

static int64_t tiles_in(const nn_wino *w) {
  return w->samples * ((w->sh.oh + OUT - 1) / OUT) * ((w->sh.ow + OUT - 1) / OUT);
}

#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define NN_AVX2
#ifndef __SANITIZE_ADDRESS__
#define NN_AVX512
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,fma")
#define NN_FN(name) name##_avx512
#define NN_ROWS 8
#define NN_WIDE 2
#include "wino.inc"
#pragma GCC pop_options
#endif
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define NN_FN(name) name##_avx2
#define NN_ROWS 4
#define NN_WIDE 1
#include "wino.inc"
#pragma GCC pop_options
#endif
#define NN_FN(name) name##_any
#define NN_ROWS 2
#define NN_WIDE 1
#include "wino.inc"
#pragma GCC pop_options

int64_t nn_wino_parts(const nn_wino *w) { return (tiles_in(w) + tiles_of(&w->sh) - 1) / tiles_of(&w->sh); }

void nn_wino_run(const nn_wino *w, int64_t part, void *scratch) {
  int64_t all = tiles_of(&w->sh), first = part * all, left = tiles_in(w) - first, n = left < all ? left : all;
#ifdef NN_AVX512
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    run_avx512(w, first, n, scratch);
    return;
  }
#endif
#ifdef NN_AVX2
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    run_avx2(w, first, n, scratch);
    return;
  }
#endif
  run_any(w, first, n, scratch);
}
