/* SPDX-License-Identifier: MIT
 * optim_adam.cuh - AdamW's update on CUDA, for optimizers that have it for all weights or, as AUX, for some. */
#ifndef SP_PLUGINS_OPTIM_ADAM_CUH
#define SP_PLUGINS_OPTIM_ADAM_CUH

#include "optim_device.cuh"

template <bool AMSGRAD, bool AUX> struct opk_adam {
  opk_adam_rule r;
  float shrink, rate, root, clip;

  __device__ void load(const opk_head &h) {
    shrink = AUX ? h.aux_shrink : h.shrink;
    rate = AUX ? -h.aux_rate : -h.rate;
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

#endif
