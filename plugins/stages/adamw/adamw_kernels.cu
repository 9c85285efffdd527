/* SPDX-License-Identifier: MIT
 * adamw_kernels.cu - the update of `adamw` on CUDA. */
#include "adamw_kernels.h"

#include "../../kits/optim/optim_device.cuh"

struct adamw_step {
  adamw_rule r;
  float shrink, rate, root, clip;

  __device__ void load(const opk_head &h) {
    shrink = h.shrink;
    rate = -h.rate;
    root = h.root;
    clip = r.clips ? h.clip : 1.0f;
  }

  __device__ void step(float g, float &p, float &m, float &v) const {
    float d = __fmul_rn(g, clip);
    m = __fmaf_rn(r.c1, d, __fmul_rn(r.b1, m));
    v = __fmaf_rn(__fmul_rn(r.c2, d), d, __fmul_rn(r.b2, v));
    float size = __fadd_rn(__fdiv_rn(__fsqrt_rn(v), root), r.eps);
    p = __fmaf_rn(rate, __fdiv_rn(m, size), __fmul_rn(p, shrink));
  }
};

int adamwk_update(void *stream, const opk_table *t, const adamw_rule *rule, const opk_head *head, int64_t *status) {
  adamw_step step = {*rule, 0, 0, 0, 0};
  unsigned grid = t->first[t->n];
  if (!grid) return cudaSuccess;
  SP_LAUNCH((opk_update<2, adamw_step>), grid, OPK_THREADS, 0, stream, *t, step, head, status);
  return cudaPeekAtLastError();
}
