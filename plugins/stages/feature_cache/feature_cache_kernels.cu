/* SPDX-License-Identifier: MIT
 * feature_cache_kernels.cu - rows of a cache on CUDA, in pieces of 16 bytes where rows are made of such. */
#include "feature_cache_kernels.h"

#include "../../kits/cuda/grid.h"
#include "../../kits/cuda/launch.h"

template <typename T>
static __global__ void __launch_bounds__(GRID_THREADS) move_rows(const cache_move m, const uint64_t *ids) {
  int64_t row = (int64_t)(m.row / sizeof(T)), all = m.n * row;
  T *batch = (T *)m.batch, *table = (T *)m.table;
  for (int64_t i = (int64_t)blockIdx.x * GRID_THREADS + threadIdx.x; i < all; i += (int64_t)gridDim.x * GRID_THREADS) {
    int64_t sample = i / row, at = (int64_t)SP_ID_INDEX(ids[sample]) * row + (i - sample * row);
    if (m.put) table[at] = batch[i];
    else batch[i] = table[at];
  }
}

template <typename T> static void launch(void *stream, const cache_move *m, const uint64_t *ids) {
  SP_LAUNCH(move_rows<T>, grid_for(m->n * (int64_t)(m->row / sizeof(T))), GRID_THREADS, 0, stream, *m, ids);
}

int cachek_move(void *stream, const cache_move *m, const uint64_t *ids) {
  size_t fits = m->row | (size_t)m->batch | (size_t)m->table;
  if (fits % sizeof(uint4) == 0) launch<uint4>(stream, m, ids);
  else if (fits % sizeof(uint32_t) == 0) launch<uint32_t>(stream, m, ids);
  else launch<uint8_t>(stream, m, ids);
  return cudaPeekAtLastError();
}
