/* SPDX-License-Identifier: MIT
 * lion_kernels.cu - the update of `lion` on CUDA, with the CPU's bits: every operation is written out. */
#include "../../kits/optim/optim_device.cuh"
#include "lion.h"

struct lion_step {
  lion_rule r;
  float shrink, lr, clip;

  __device__ void load(const opk_head &h) {
    shrink = h.shrink;
    lr = -h.lr;
    clip = r.clips ? h.clip : 1.0f;
  }

  __device__ void step(float g, float &p, float *m) const {
    float d = __fmul_rn(g, clip);
    float way = __fadd_rn(__fmul_rn(r.b1, m[0]), __fmul_rn(r.c1, d));
    p = __fmaf_rn(lr, (float)((way > 0) - (way < 0)), __fmul_rn(p, shrink));
    m[0] = __fmaf_rn(r.c2, d, __fmul_rn(r.b2, m[0]));
  }
};

int lionk_update(void *stream, const opk_table *t, const void *rule, const opk_head *head, int64_t *status) {
  lion_step step = {*(const lion_rule *)rule, 0, 0, 0};
  unsigned grid = t->first[t->n];
  if (!grid) return cudaSuccess;
  SP_LAUNCH((opk_update<1, lion_step>), grid, OPK_THREADS, 0, stream, *t, step, head, status);
  return cudaPeekAtLastError();
}
