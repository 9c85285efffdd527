/* SPDX-License-Identifier: MIT
 * dropout_kernels.cu - dropout on CUDA, with the CPU's draws: each element's are drawn where it is. */
#include "dropout_kernels.h"

#include "../../kits/cuda/grid.h"
#include "../../kits/cuda/launch.h"

static __global__ void drop(const drop_shape s, const sp_step *step, const uint64_t *ids, const float *from, float *to,
                            int add) {
  int64_t each = s.channels * s.px, n = s.n * each;
  for (int64_t i = (int64_t)blockIdx.x * GRID_THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * GRID_THREADS) {
    float v = from ? from[i] : 0;
    if (step->training) {
      int64_t unit = drop_unit(&s, i % each);
      sp_rng4 draws = sp_rng(step->key, drop_id(step, ids, i / each), (uint32_t)(unit / 4));
      v = drop_keeps(&s, &draws, unit) ? __fmul_rn(v, s.scale) : 0;
    }
    to[i] = add ? __fadd_rn(to[i], v) : v;
  }
}

int dropk_run(void *stream, const drop_shape *s, const sp_step *step, const uint64_t *ids, const float *from, float *to,
              int add) {
  int64_t n = s->n * s->channels * s->px;
  if (n) SP_LAUNCH(drop, grid_for(n), GRID_THREADS, 0, stream, *s, step, ids, from, to, add);
  return cudaPeekAtLastError();
}
