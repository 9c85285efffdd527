/* SPDX-License-Identifier: MIT
 * sgd_kernels.cu - the update of `sgd` on CUDA, with the CPU's bits: every operation is written out. */
#include "sgd.h"

#include "../../kits/optim/optim_device.cuh"

struct sgd_step {
  sgd_rule r;
  float lr, decay, keep, clip;

  __device__ void load(const opk_head &h) {
    lr = -h.lr;
    decay = h.decay;
    keep = h.keep;
    clip = h.clip;
  }

  __device__ void step(float g, float &p, float *m) const {
    float d = r.clips ? __fmul_rn(g, clip) : g;
    if (decay != 0) d = __fmaf_rn(decay, p, d);
    if (r.momentum) {
      float buf = __fmaf_rn(keep, d, __fmul_rn(r.mu, m[0]));
      m[0] = buf;
      d = r.nesterov ? __fmaf_rn(r.mu, buf, d) : buf;
    }
    p = __fmaf_rn(lr, d, p);
  }
};

int sgdk_update(void *stream, const opk_table *t, const void *rule, const opk_head *head, int64_t *status) {
  sgd_step step = {*(const sgd_rule *)rule, 0, 0, 0, 0};
  unsigned grid = t->first[t->n];
  if (!grid) return cudaSuccess;
  if (step.r.momentum) SP_LAUNCH((opk_update<1, sgd_step>), grid, OPK_THREADS, 0, stream, *t, step, head, status);
  else SP_LAUNCH((opk_update<0, sgd_step>), grid, OPK_THREADS, 0, stream, *t, step, head, status);
  return cudaPeekAtLastError();
}
