/* SPDX-License-Identifier: MIT
 * wino.h - 3x3 convolutions of frozen networks by Winograd's F(4x4, 3x3): 36 products make the 16 results of a tile
 * that take 144 in the plain sum.
 *
 * A tile of 6 x 6 pixels becomes 36 values by sums alone, which are multiplied by the weights, likewise prepared as
 * constants; sums of the products are the results. Each tile is computed by itself, in one order of sums: bits depend
 * neither on the size of the team nor on which tiles are in work together. What is infinite or no number reaches all
 * results of the tiles that read it. Maps are channels-last. */
#ifndef NN_CPU_WINO_H
#define NN_CPU_WINO_H

#include "dnnl_conv.h"

/* Does it pay? The answer is one of shapes only, so that bits do not depend on the batch. */
int nn_wino_fits(const nn_conv_shape *sh);
size_t nn_wino_packed_bytes(const nn_conv_shape *sh);
size_t nn_wino_scratch_bytes(const nn_conv_shape *sh); /* of one call of nn_wino_run() */
/* Row-major [o][c][3][3] to what nn_wino_run() reads. */
void nn_wino_pack(const nn_conv_shape *sh, const float *weights, float *packed);

typedef struct nn_wino {
  nn_conv_shape sh;
  const float *x, *packed, *bias, *plus; /* bias, plus: NULL: none */
  float *y;
  int relu;
  int64_t samples;
} nn_wino;

/* How many calls a batch takes, in any order, also at a time. */
int64_t nn_wino_parts(const nn_wino *w);
void nn_wino_run(const nn_wino *w, int64_t part, void *scratch);

#endif
