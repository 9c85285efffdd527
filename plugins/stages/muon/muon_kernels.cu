/* SPDX-License-Identifier: MIT
 * muon_kernels.cu - what `muon` does on CUDA beside products: momentum and norm of a matrix, its step, others. */
#include "../../kits/optim/optim_adam.cuh"
#include "muon.h"

/* Where the update is skipped, what is computed is of no use, but must be something. */
static __global__ void __launch_bounds__(OPK_THREADS)
    load(const opk_table t, muon_rule r, float *x, double *part, const opk_head *head, int64_t *status) {
  opk_share s = opk_share_of(t);
  const opk_head h = head[s.group];
  bool keeps = !head->skip, bad = false;
  float clip = r.clips ? h.clip : 1.0f;
  double sum = 0;
  x += (int64_t)blockIdx.x * OPK_CHUNK;
  for (int i = threadIdx.x; i < s.n; i += OPK_THREADS) {
    float g = s.g[i], d = __fmul_rn(g, clip), mean = s.m[MUON_MEAN][i];
    float v = __fmaf_rn(r.c, __fsub_rn(d, mean), mean);
    if (keeps) s.m[MUON_MEAN][i] = v;
    if (r.nesterov) v = __fmaf_rn(r.momentum, __fsub_rn(v, d), d);
    bad = bad || opk_bad(g);
    sum += (double)v * v;
    x[i] = v;
  }
  sum = opk_block_sum(sum);
  if (threadIdx.x == 0) part[blockIdx.x] = sum;
  if (__syncthreads_or(bad) && keeps && threadIdx.x == 0) {
    status[0] = SP_E_DATA;
    status[2] = status[3] = 1;
  }
}

static __global__ void __launch_bounds__(OPK_THREADS) norm(const double *part, uint32_t n, float *factor) {
  double sum = 0;
  for (uint32_t i = threadIdx.x; i < n; i += OPK_THREADS) sum += part[i];
  sum = opk_block_sum(sum);
  if (threadIdx.x == 0) *factor = __fadd_rn((float)sqrt(sum), MUON_TINY);
}

static __global__ void __launch_bounds__(OPK_THREADS) divide(const opk_table t, float *x, const float *factor) {
  int n = opk_share_of(t).n;
  float by = *factor;
  x += (int64_t)blockIdx.x * OPK_CHUNK;
  for (int i = threadIdx.x; i < n; i += OPK_THREADS) x[i] = __fdiv_rn(x[i], by);
}

/* With MUON_1 on the diagonal the product with x is all of a step. */
static __global__ void __launch_bounds__(OPK_THREADS) polynomial(const float *a, float *b, int64_t n) {
  int64_t i = (int64_t)blockIdx.x * OPK_THREADS + threadIdx.x;
  if (i >= n * n) return;
  float v = __fmaf_rn(MUON_3, a[i], b[i]);
  b[i] = i / n == i % n ? __fadd_rn(v, MUON_1) : v;
}

static __global__ void __launch_bounds__(OPK_THREADS)
    apply(const opk_table t, muon_rule r, const float *x, const opk_head *head) {
  if (head->skip) return;
  opk_share s = opk_share_of(t);
  const opk_head h = head[s.group];
  x += (int64_t)blockIdx.x * OPK_CHUNK;
  for (int i = threadIdx.x; i < s.n; i += OPK_THREADS)
    s.p[i] = __fmaf_rn(-h.lr, __fmul_rn(x[i], r.scale), __fmul_rn(s.p[i], h.shrink));
}

int muonk_load(void *stream, const opk_table *t, const muon_rule *rule, float *x, double *part, float *factor,
               const opk_head *head, int64_t *status) {
  unsigned grid = t->first[t->n];
  if (!grid) return cudaSuccess;
  SP_LAUNCH(load, grid, OPK_THREADS, 0, stream, *t, *rule, x, part, head, status);
  SP_LAUNCH(norm, 1, OPK_THREADS, 0, stream, part, grid, factor);
  SP_LAUNCH(divide, grid, OPK_THREADS, 0, stream, *t, x, factor);
  return cudaPeekAtLastError();
}

int muonk_polynomial(void *stream, const float *a, float *b, int64_t n) {
  SP_LAUNCH(polynomial, (unsigned)((n * n + OPK_THREADS - 1) / OPK_THREADS), OPK_THREADS, 0, stream, a, b, n);
  return cudaPeekAtLastError();
}

int muonk_apply(void *stream, const opk_table *t, const muon_rule *rule, const float *x, const opk_head *head) {
  if (t->first[t->n]) SP_LAUNCH(apply, t->first[t->n], OPK_THREADS, 0, stream, *t, *rule, x, head);
  return cudaPeekAtLastError();
}

int muonk_others(void *stream, const opk_table *t, const void *rule, const opk_head *head, int64_t *status) {
  opk_adam<false, true> step = {*(const opk_adam_rule *)rule, 0, 0, 0, 0};
  unsigned grid = t->first[t->n];
  if (!grid) return cudaSuccess;
  SP_LAUNCH((opk_update<2, opk_adam<false, true>>), grid, OPK_THREADS, 0, stream, *t, step, head, status);
  return cudaPeekAtLastError();
}
