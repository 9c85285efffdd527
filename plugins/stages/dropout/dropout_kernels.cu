/* SPDX-License-Identifier: MIT
 * dropout_kernels.cu - dropout on CUDA, with the CPU's draws: a thread takes four elements of a sample, side by side,
 * and draws where they are. */
#include "dropout_kernels.h"

#include "../../kits/cuda/four.cuh"
#include "../../kits/cuda/grid.h"

struct drop_work {
  drop_shape s;
  const sp_step *step;
  const uint64_t *ids;
  const float *from;
  float *to;
  int add, wide;       /* wide: all fours lie on 16 bytes */
  int64_t each, fours; /* of a sample: elements, and fours of them */
};

/* Which of elements at .. at + 3 of a sample stay. They are one group where units lie as elements do. */
template <bool AS_UNITS>
static __device__ __forceinline__ void draw_four(bool (&keeps)[4], const drop_shape &s, uint64_t key, uint64_t id,
                                                 int64_t at) {
  sp_rng4 draws;
  if (AS_UNITS) {
    draws = sp_rng(key, id, (uint32_t)((uint64_t)at / 4));
#pragma unroll
    for (int k = 0; k < 4; k++) keeps[k] = drop_keeps(s.limit, draws.v[k]);
    return;
  }
  int64_t line = s.rows ? s.channels : s.px;
  uint64_t group = ~0ull;
  bool few = s.channels * s.px <= 0xffffffff; /* a division of 64 bits takes far longer */
  int64_t row = few ? (uint32_t)at / (uint32_t)line : at / line, in = at - row * line;
#pragma unroll
  for (int k = 0; k < 4; k++) {
    int64_t channel = s.rows ? in : row;
    uint64_t unit = (uint64_t)(s.maps ? channel : channel * s.px + (s.rows ? row : in));
    if (unit / 4 != group) draws = sp_rng(key, id, (uint32_t)(group = unit / 4));
    uint32_t low = unit & 1 ? draws.v[1] : draws.v[0], high = unit & 1 ? draws.v[3] : draws.v[2];
    keeps[k] = drop_keeps(s.limit, unit & 2 ? high : low);
    if (++in == line) in = 0, row++;
  }
}

template <bool AS_UNITS> static __global__ void __launch_bounds__(GRID_THREADS) drop(const drop_work w) {
  int64_t all = w.s.n * w.fours;
  bool few = all <= 0xffffffff, draws = w.from && w.step->training;
  uint64_t key = w.step->key;
  for (int64_t i = (int64_t)blockIdx.x * GRID_THREADS + threadIdx.x; i < all; i += (int64_t)gridDim.x * GRID_THREADS) {
    int64_t sample = few ? (uint32_t)i / (uint32_t)w.fours : i / w.fours, at = 4 * (i - sample * w.fours);
    int64_t place = sample * w.each + at;
    int n = w.each - at < 4 ? (int)(w.each - at) : 4;
    float v[4] = {};
    if (w.from) load_four(v, w.from + place, n, w.wide);
    if (draws) {
      bool keeps[4];
      draw_four<AS_UNITS>(keeps, w.s, key, drop_id(w.step, w.ids, sample), at);
#pragma unroll
      for (int k = 0; k < 4; k++) v[k] = keeps[k] ? __fmul_rn(v[k], w.s.scale) : 0.0f;
    }
    put_four(w.to + place, v, n, w.wide, w.add);
  }
}

int dropk_run(void *stream, const drop_shape *s, const sp_step *step, const uint64_t *ids, const float *from, float *to,
              int add) {
  int64_t each = s->channels * s->px, fours = (each + 3) / 4, all = s->n * fours;
  int wide = each % 4 == 0 && ((uintptr_t)from | (uintptr_t)to) % sizeof(float4) == 0;
  drop_work w = {*s, step, ids, from, to, add, wide, each, fours};
  bool as_units = !s->maps && (!s->rows || s->channels == 1 || s->px == 1);
  if (all && as_units) SP_LAUNCH(drop<true>, grid_for(all), GRID_THREADS, 0, stream, w);
  else if (all) SP_LAUNCH(drop<false>, grid_for(all), GRID_THREADS, 0, stream, w);
  return cudaPeekAtLastError();
}
