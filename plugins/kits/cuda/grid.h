/* SPDX-License-Identifier: MIT
 * grid.h - the size of a grid whose threads stride over the items. */
#ifndef SPCORE_CUDA_GRID_H
#define SPCORE_CUDA_GRID_H

#include <stdint.h>

enum { GRID_THREADS = 256 };

/* Enough blocks to fill a large device several times, of GRID_THREADS each; a function of the items alone. */
static inline unsigned grid_for(int64_t items) {
  int64_t blocks = (items + GRID_THREADS - 1) / GRID_THREADS;
  return (unsigned)(blocks < 4096 ? blocks : 4096);
}

#endif
