/* SPDX-License-Identifier: MIT
 * lamb_kernels.cu - the update of `lamb` on CUDA: moments and squares of chunks, the trust in tensors' steps, steps. */
#include "../../kits/optim/optim_device.cuh"
#include "lamb.h"

static __device__ inline float step_of(const lamb_rule &r, const opk_head &h, float p, float mean, float square) {
  float size = __fadd_rn(__fdiv_rn(__fsqrt_rn(square), h.root), r.eps);
  return __fmaf_rn(h.decay, p, __fdiv_rn(__fdiv_rn(mean, h.bias), size));
}

static __global__ void __launch_bounds__(OPK_THREADS)
    look(const opk_table t, lamb_rule r, const opk_head *head, int64_t *status) {
  if (head->skip) return;
  opk_share s = opk_share_of(t);
  const opk_head h = head[s.group];
  float clip = r.clips ? h.clip : 1.0f;
  double weights = 0, steps = 0;
  bool bad = false;
  for (int i = threadIdx.x; i < s.n; i += OPK_THREADS) {
    float g = s.g[i], p = s.p[i], d = __fmul_rn(g, clip);
    float mean = __fmaf_rn(r.c1, d, __fmul_rn(r.b1, s.m[LAMB_MEAN][i]));
    float square = __fmaf_rn(__fmul_rn(r.c2, d), d, __fmul_rn(r.b2, s.m[LAMB_SQUARE][i]));
    s.m[LAMB_MEAN][i] = mean;
    s.m[LAMB_SQUARE][i] = square;
    float step = step_of(r, h, p, mean, square);
    weights += (double)p * p;
    steps += (double)step * step;
    bad = bad || opk_bad(g);
  }
  weights = opk_block_sum(weights);
  if (__syncthreads_or(bad) && threadIdx.x == 0) {
    status[0] = SP_E_DATA;
    status[2] = status[3] = 1;
  }
  steps = opk_block_sum(steps);
  if (threadIdx.x == 0) {
    int64_t at = 2 * (t.base + blockIdx.x);
    r.squares[at] = weights;
    r.squares[at + 1] = steps;
  }
}

/* A block for each tensor. */
static __global__ void __launch_bounds__(OPK_THREADS) trust(const opk_table t, lamb_rule r, const opk_head *head) {
  double weights = 0, steps = 0;
  for (uint32_t k = t.first[blockIdx.x] + threadIdx.x; k < t.first[blockIdx.x + 1]; k += OPK_THREADS) {
    weights += r.squares[2 * (t.base + k)];
    steps += r.squares[2 * (t.base + k) + 1];
  }
  weights = opk_block_sum(weights);
  __syncthreads();
  steps = opk_block_sum(steps);
  if (threadIdx.x > 0) return;
  bool adapts = r.always_adapt || head[t.group[blockIdx.x]].decay != 0;
  double ratio = adapts && weights > 0 && steps > 0 ? sqrt(weights) / sqrt(steps) : 1;
  r.trust[blockIdx.x] = r.trust_clip && ratio > 1 ? 1.0f : (float)ratio;
}

static __global__ void __launch_bounds__(OPK_THREADS) update(const opk_table t, lamb_rule r, const opk_head *head) {
  if (head->skip) return;
  opk_share s = opk_share_of(t);
  const opk_head h = head[s.group];
  float ratio = r.trust[s.tensor];
  for (int i = threadIdx.x; i < s.n; i += OPK_THREADS) {
    float p = s.p[i], step = step_of(r, h, p, s.m[LAMB_MEAN][i], s.m[LAMB_SQUARE][i]);
    s.p[i] = __fmaf_rn(-h.lr, __fmul_rn(step, ratio), p);
  }
}

int lambk_update(void *stream, const opk_table *t, const void *rule, const opk_head *head, int64_t *status) {
  const lamb_rule r = *(const lamb_rule *)rule;
  unsigned grid = t->first[t->n];
  if (!grid) return cudaSuccess;
  SP_LAUNCH(look, grid, OPK_THREADS, 0, stream, *t, r, head, status);
  SP_LAUNCH(trust, t->n, OPK_THREADS, 0, stream, *t, r, head);
  SP_LAUNCH(update, grid, OPK_THREADS, 0, stream, *t, r, head);
  return cudaPeekAtLastError();
}
