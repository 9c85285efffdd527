/* SPDX-License-Identifier: MIT
 * cubic.h - bicubic with antialiasing (a = -1/2) as Pillow defines it: weights for every device,
 * bytes on the processor.
 *
 * Weights are made in double, each operation rounded once, and for bytes are whole numbers of 2^-22. So what is made of
 * bytes, along x first and rounded there, has the bits of Pillow, in whatever order it is added up.
 */
#ifndef SP_PLUGINS_CUBIC_H
#define SP_PLUGINS_CUBIC_H

#include <math.h>
#include <stddef.h>

#include <spcore/rng.h>

#ifdef __CUDA_ARCH__
#define CUBIC_MUL(a, b) __dmul_rn(a, b)
#else
#define CUBIC_MUL(a, b) ((a) * (b))
#endif

enum { CUBIC_BITS = 22 }; /* of a weight's fraction */

/* One axis; outputs are counted in all of the picture at its new size, of which not all need to be made. */
typedef struct cubic_axis {
  int64_t out;
  int32_t in;
  double scale, support, inv; /* inputs an output; half the width of the weights; 1 / their stretch */
} cubic_axis;

SP_RNG_FN cubic_axis cubic_axis_of(int32_t in, int64_t out) {
  double scale = (double)in / (double)out, stretch = scale < 1.0 ? 1.0 : scale;
  cubic_axis a = {out, in, scale, 2.0 * stretch, 1.0 / stretch};
  return a;
}

/* Inputs that an output has at most. */
SP_RNG_FN int32_t cubic_most(const cubic_axis *a) {
  double most = 2.0 * ceil(a->support) + 1.0;
  return most < (double)a->in ? (int32_t)most : a->in;
}

SP_RNG_FN double cubic_centre(const cubic_axis *a, int64_t i) { return CUBIC_MUL((double)i + 0.5, a->scale); }

/* How far input x is from an output; from 2 on it has no part in it. */
SP_RNG_FN double cubic_distance(const cubic_axis *a, double centre, int32_t x) {
  return fabs(CUBIC_MUL((double)x - centre + 0.5, a->inv));
}

/* Weight of input x, before all are divided by their sum. */
SP_RNG_FN double cubic_tap(const cubic_axis *a, double centre, int32_t x) {
  double d = cubic_distance(a, centre, x);
  if (d < 1.0) return CUBIC_MUL(CUBIC_MUL(CUBIC_MUL(1.5, d) - 2.5, d), d) + 1.0;
  if (d < 2.0) return CUBIC_MUL(CUBIC_MUL(CUBIC_MUL(d - 5.0, d) + 8.0, d) - 4.0, -0.5);
  return 0.0;
}

/* The inputs lo .. lo + n - 1 that have a part in an output, neither of which is less than those of the one before; the
 * sum of their weights. Where the size stays, an output is its input alone. */
SP_RNG_FN double cubic_span(const cubic_axis *a, double centre, int32_t *lo, int32_t *n) {
  double from = centre - a->support + 0.5, to = centre + a->support + 0.5, total = 0.0;
  int32_t first = from < 0.0 ? 0 : (int32_t)from, end = to > (double)a->in ? a->in : (int32_t)to, x;
  if (a->in == a->out) first = (int32_t)centre, end = first + 1;
  while (cubic_distance(a, centre, end - 1) >= 2.0) end--;
  while (cubic_distance(a, centre, first) >= 2.0) first++;
  for (x = first; x < end; x++) total += cubic_tap(a, centre, x);
  *lo = first;
  *n = end - first;
  return total;
}

/* A weight in units of 2^-22. */
SP_RNG_FN int32_t cubic_whole(double w) {
  return (int32_t)(CUBIC_MUL(w, (double)(1 << CUBIC_BITS)) + (w < 0.0 ? -0.5 : 0.5));
}

/* A sum of bytes times such weights that began at CUBIC_HALF. */
#define CUBIC_HALF (1 << (CUBIC_BITS - 1))
SP_RNG_FN uint8_t cubic_byte(int32_t sum) {
  int32_t v = sum >> CUBIC_BITS;
  return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* ---- bytes on the processor ---- */
/* The weights of an axis: the k-th output that is made takes n[k] inputs from first[k] on, times w[k * most ...]. */
typedef struct cubic_table {
  const int32_t *first, *n, *w;
  int32_t out, most;
  int32_t active; /* 0: as many outputs as inputs, so that each is its own */
} cubic_table;

/* The table of outputs from .. from + count - 1 in `memory` of cubic_table_bytes, aligned to 4. */
size_t cubic_table_bytes(const cubic_axis *a, int32_t count);
void cubic_table_in(cubic_table *t, const cubic_axis *a, int64_t from, int32_t count, void *memory);

/* Where pixels of `pix` bytes come from and go to; pitches are bytes from row to row. */
typedef struct cubic_job {
  const cubic_table *x, *y;
  const uint8_t *in;
  uint8_t *out; /* its first row is y's row `from` */
  size_t in_pitch, out_pitch;
  int64_t pix;
  int32_t in_w;     /* of the window that `in` begins */
  int32_t from, to; /* rows to make */
} cubic_job;

/* `memory`: cubic_bytes_memory bytes for windows of width in_w or less and tables of `most_y` or fewer. */
size_t cubic_bytes_memory(int32_t in_w, int32_t out_w, int64_t pix, int32_t most_y);
void cubic_bytes(const cubic_job *j, void *memory);

#endif
