/* SPDX-License-Identifier: MIT
 * cross_entropy_soft.cuh - the pass over the logits where labels are probabilities of the classes. Part of
 * cross_entropy_kernels.cu. */

/* The sum over a group of threads, in all of them. */
template <int GROUP> static __device__ double group_sum(double v) {
  for (int d = GROUP / 2; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

template <int GROUP> static __device__ float group_top(const float *x, int64_t stride, int64_t classes, int lane) {
  float top = x[(lane < classes ? lane : 0) * stride];
  for (int64_t c = lane + GROUP; c < classes; c += GROUP) top = x[c * stride] > top ? x[c * stride] : top;
  for (int d = GROUP / 2; d; d >>= 1) {
    float other = __shfl_xor_sync(0xffffffffu, top, d);
    if (other > top) top = other;
  }
  return GROUP > 1 ? __shfl_sync(0xffffffffu, top, 0) : top; /* NaN compares with nothing */
}

/* A group of threads reads a position's logits and shares several times, from the cache: a warp, or one thread alone
 * where neighbours' classes lie side by side. */
template <int GROUP> static __global__ void __launch_bounds__(THREADS) soft(const ce_work w, int rows) {
  const loss_job &j = w.j;
  int64_t all = j.shape.n * j.shape.px, classes = j.shape.classes;
  int lane = threadIdx.x % GROUP;
  double scale = gradient_scale(w), loss = 0;
  auto share = [&](int64_t c, float v) {
    return ce_share(w.smooth.own, w.smooth.each, w.class_weights ? w.class_weights[c] : 1.0, v);
  };
  for (int64_t p = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / GROUP; p < all;
       p += (int64_t)w.loss_blocks * THREADS / GROUP) {
    int64_t stride, first = logits_at(j.shape, p, &stride);
    const float *x = j.x + first;
    float top = group_top<GROUP>(x, stride, classes, lane);
    double sum = 0, counts = 0, spread = 0;
    for (int64_t c = lane; c < classes; c += GROUP) {
      int64_t at = logit_index(&j.shape, rows, p, c);
      double own = share(c, j.shares[at]);
      judge_target(w, at, j.shares[at]);
      sum += exp_neg(x[c * stride] - top);
      counts += own;
      spread += own != 0 ? own * ((double)top - (double)x[c * stride]) : 0;
    }
    sum = group_sum<GROUP>(sum), counts = group_sum<GROUP>(counts), spread = group_sum<GROUP>(spread);
    if (lane == 0 && counts != 0) loss += counts * log(sum) + spread;
    if (!j.g) continue;
    for (int64_t c = lane; c < classes; c += GROUP) {
      double own = share(c, j.shares[logit_index(&j.shape, rows, p, c)]);
      double said = (double)exp_neg(x[c * stride] - top) / sum;
      float *g = j.g + first + c * stride, v = (float)(scale * (said * counts - own));
      *g = j.acc ? *g + v : v;
    }
  }
  finish(w, loss);
}

static void launch_soft(void *stream, ce_work w, int rows) {
  bool warps = w.j.shape.rows && w.j.shape.classes > 8;
  w.loss_blocks = blocks_of(w.j.shape.n * w.j.shape.px, warps ? WARPS : THREADS, LOSS_BLOCKS);
  if (warps) SP_LAUNCH(soft<32>, w.loss_blocks, THREADS, 0, stream, w, rows);
  else SP_LAUNCH(soft<1>, w.loss_blocks, THREADS, 0, stream, w, rows);
}
