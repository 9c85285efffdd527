/* SPDX-License-Identifier: MIT
 * adamw_kernels.cu - the update of `adamw` on CUDA. */
#include "adamw.h"

#include "../../kits/optim/optim_device.cuh"

template <bool AMSGRAD> struct adamw_step {
  adamw_rule r;
  float shrink, rate, root, clip;

  __device__ void load(const opk_head &h) {
    shrink = h.shrink;
    rate = -h.rate;
    root = h.root;
    clip = r.clips ? h.clip : 1.0f;
  }

  __device__ void step(float g, float &p, float *m) const {
    float d = __fmul_rn(g, clip);
    float mean = __fmaf_rn(r.c1, d, __fmul_rn(r.b1, m[0]));
    float v = __fmaf_rn(__fmul_rn(r.c2, d), d, __fmul_rn(r.b2, m[1]));
    m[0] = mean;
    m[1] = v;
    if (AMSGRAD) m[2] = v = m[2] > v ? m[2] : v;
    float size = __fadd_rn(__fdiv_rn(__fsqrt_rn(v), root), r.eps);
    p = __fmaf_rn(rate, __fdiv_rn(mean, size), __fmul_rn(p, shrink));
  }
};

int adamwk_update(void *stream, const opk_table *t, const void *rule, const opk_head *head, int64_t *status) {
  adamw_step<false> plain = {*(const adamw_rule *)rule, 0, 0, 0, 0};
  adamw_step<true> largest = {*(const adamw_rule *)rule, 0, 0, 0, 0};
  unsigned grid = t->first[t->n];
  if (!grid) return cudaSuccess;
  if (plain.r.amsgrad)
    SP_LAUNCH((opk_update<3, adamw_step<true>>), grid, OPK_THREADS, 0, stream, *t, largest, head, status);
  else SP_LAUNCH((opk_update<2, adamw_step<false>>), grid, OPK_THREADS, 0, stream, *t, plain, head, status);
  return cudaPeekAtLastError();
}
