/* SPDX-License-Identifier: MIT
 * resize_cpu.h - tables of weights, and the loops over the elements of a row. */
#ifndef RESIZE_CPU_H
#define RESIZE_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "resize.h"

/* The weights of an axis: output i takes n[i] inputs from first[i] on, times w[i * most ...]. */
typedef struct resize_table {
  int32_t *first, *n, *near; /* near: what a mask shows */
  float *w;
  int32_t *whole; /* the same for bytes, of 2^-22, where the axis is cubic; else NULL */
  int32_t out, most;
  int32_t live;   /* rows of bytes to keep while going through the inputs in order; at least 2 */
  int32_t active; /* 0: as many outputs as inputs, so that each is its own */
} resize_table;

/* The table of an axis in `memory` of resize_table_bytes, aligned to 4: no less than an axis of fewer inputs wants. */
size_t resize_table_bytes(const resize_axis *a);
void resize_table_in(resize_table *t, const resize_axis *a, void *memory);
/* Made anew, on the heap; 0, or not where there is no memory, which leaves the table empty. */
int resize_table_make(resize_table *t, resize_axis a);
void resize_table_free(resize_table *t);

/* A row of bytes or floats, `pix` elements a pixel, along the table's axis. */
void resize_along_x(const resize_table *t, float *y, const void *x, int dtype, int64_t pix);
/* The same for `rows` <= RESIZE_GROUP rows of `n` elements, `pitch` elements apart in x and `line` floats in y: they
 * lie side by side in `turned`, n * RESIZE_GROUP floats, so that a sum over inputs is one for all of them. */
#define RESIZE_GROUP 8
void resize_group_along_x(const resize_table *t, float *y, size_t line, const void *x, int64_t n, int64_t pitch,
                          int rows, int dtype, int64_t pix, float *turned);
/* A row of a mask. */
void resize_pick(const resize_table *t, void *y, const void *x, size_t bytes);

void resize_widen(float *y, const uint8_t *x, int64_t n);
void resize_to_bytes(uint8_t *y, const float *x, int64_t n);
void resize_mix(float *y, const float *a, float wa, const float *b, float wb, int64_t n);
void resize_mix_bytes(uint8_t *y, const float *a, float wa, const float *b, float wb, int64_t n);
void resize_set(float *y, const float *x, float w, int64_t n);
void resize_add(float *y, const float *x, float w, int64_t n);

#endif
