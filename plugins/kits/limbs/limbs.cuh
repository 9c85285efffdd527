/* SPDX-License-Identifier: MIT
 * limbs.cuh - exact sums over pairs on CUDA: a block adds a column's pairs in shared memory, with integer atomics. */
#ifndef SP_PLUGINS_LIMBS_CUH
#define SP_PLUGINS_LIMBS_CUH

#include "limbs.h"

#include "../cuda/tally.cuh"

template <limb_pair *ADD, int ROWS, typename P> static __global__ void limb_sum_up(const limb_job j, const P params) {
  constexpr int CELLS = ROWS * LIMBS;
  __shared__ limb_cell own[CELLS];
  int64_t c = blockIdx.y, all = j.s.n * j.s.px;
  tally_begin(own, CELLS);
  for (int64_t p = tally_first(); p < all; p += tally_step())
    ADD(&params, j.x[logit_index(&j.s, j.s.rows, p, c)], j.y[logit_index(&j.s, j.y_rows, p, c)], own);
  tally_end(own, CELLS, j.tables + c * CELLS);
}

/* Enqueues on the stream and returns a cudaError_t. */
template <limb_pair *ADD, int ROWS, typename P> static int limb_sum(void *stream, const limb_job &j, const P &params) {
  constexpr int BLOCKS = 256; /* at most, of a column */
  tally_clear(stream, j.tables, j.s.classes * ROWS * LIMBS, nullptr, BLOCKS);
  SP_LAUNCH((limb_sum_up<ADD, ROWS, P>), dim3(tally_blocks(j.s.n * j.s.px, BLOCKS), (unsigned)j.s.classes),
            TALLY_THREADS, 0, stream, j, params);
  return cudaPeekAtLastError();
}

#endif
