/* SPDX-License-Identifier: MIT
 * norm.cu - batch norm: means and variances are merged in double, in a fixed order.
 */
#include "norm.cuh"

namespace nnk {

/* Pieces are added up by a team of threads for each channel, each of which holds its share of them at once. */
enum { THREADS = 256, COLUMNS = 8, TEAM = 64, SHARE = ROW_BLOCKS / TEAM };
static_assert(SHARE * TEAM == ROW_BLOCKS, "a team holds all pieces");

/* Of channel ch what pieces `member`, member + TEAM, ... have left; zeros where there is none. */
__device__ inline void take_share(double2 *v, const double2 *work, const cut &q, int64_t ch, int member) {
#pragma unroll
  for (int k = 0; k < SHARE; k++) {
    int64_t piece = member + k * TEAM;
    v[k] = ch < q.c && piece < q.pieces ? work[piece * q.c + ch] : make_double2(0, 0);
  }
}

/* The sum of v over a channel's team, for each of them: members are COLUMNS threads apart. */
__device__ inline double team_sum(double v) {
  __shared__ double sums[TEAM * COLUMNS];
  int thread = static_cast<int>(threadIdx.x);
  __syncthreads();
  sums[thread] = v;
  for (int half = TEAM * COLUMNS / 2; half >= COLUMNS; half /= 2) {
    __syncthreads();
    if (thread < half) sums[thread] += sums[thread + half];
  }
  __syncthreads();
  return sums[thread % COLUMNS];
}

struct stats_out {
  float *stats, *mean, *var;
  int64_t *count;
  double eps, momentum;
};

/* The mean of all first, then the squares about it, so that nothing cancels and nothing is divided on the way. */
__global__ void __launch_bounds__(COLUMNS *TEAM) stats_end(stats_out o, const double2 *work, cut q) {
  int member = static_cast<int>(threadIdx.x) / COLUMNS;
  int64_t ch = static_cast<int64_t>(blockIdx.x) * COLUMNS + threadIdx.x % COLUMNS;
  double2 v[SHARE];
  double n[SHARE], sum = 0, squares = 0, count = static_cast<double>(q.count);
  if (blockIdx.x == 0 && threadIdx.x == 0) ++*o.count;
  take_share(v, work, q, ch, member);
#pragma unroll
  for (int k = 0; k < SHARE; k++) {
    int64_t left = q.count - (member + k * TEAM) * q.each;
    n[k] = static_cast<double>(max(static_cast<int64_t>(0), min(q.each, left)));
    sum += n[k] * v[k].x;
  }
  double mean = team_sum(sum) / count;
#pragma unroll
  for (int k = 0; k < SHARE; k++) squares += v[k].y + n[k] * (v[k].x - mean) * (v[k].x - mean);
  squares = team_sum(squares);
  if (member || ch >= q.c) return;
  double var = squares / count, unbiased = q.count > 1 ? squares / (count - 1) : var, f = o.momentum;
  o.stats[ch] = static_cast<float>(mean);
  o.stats[q.c + ch] = static_cast<float>(1 / sqrt(var + o.eps));
  o.mean[ch] = static_cast<float>((1 - f) * o.mean[ch] + f * mean);
  o.var[ch] = static_cast<float>((1 - f) * o.var[ch] + f * unbiased);
}

__global__ void __launch_bounds__(THREADS)
    stats_running(float *stats, int64_t c, const float *mean, const float *var, double eps) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= c) return;
  stats[i] = mean[i];
  stats[c + i] = static_cast<float>(1 / sqrt(static_cast<double>(var[i]) + eps));
}

/* ---- over all values: a thread has V of them ---- */
struct apply_args {
  nnk_map y, x, dy; /* y is what is written: dx in backward */
  const void *mask; /* of y's type */
  const float *stats, *gamma, *beta;
  const float *means; /* backward over a batch: means of dy and of dy * normalised x */
  int relu, add;
  bool planar;
};

/* Channel of unit u; with channels innermost that of its first number. */
template <int V, typename I> __device__ inline int64_t channel_of(I u, const apply_args &p) {
  I c = static_cast<I>(p.y.c);
  if (p.planar) return static_cast<int64_t>(u * V / static_cast<I>(pixels(p.y)) % c);
  return static_cast<int64_t>(u % (c / V) * V);
}

template <int V, typename I> __global__ void __launch_bounds__(THREADS) norm_forward(apply_args p, I units) {
  I u = static_cast<I>(blockIdx.x) * THREADS + threadIdx.x;
  if (u >= units) return;
  int64_t ch = channel_of<V, I>(u, p), at = static_cast<int64_t>(u) * V;
  float v[V], mean[V], inv[V], gamma[V], beta[V];
  load<V>(v, p.x.p, p.x.elt, at);
  of_channels<V>(mean, p.stats, ch, p.planar);
  of_channels<V>(inv, p.stats, ch + p.y.c, p.planar);
  of_channels<V>(gamma, p.gamma, ch, p.planar);
  of_channels<V>(beta, p.beta, ch, p.planar);
#pragma unroll
  for (int j = 0; j < V; j++) {
    v[j] = fmaf(v[j] - mean[j], inv[j] * gamma[j], beta[j]);
    if (p.relu) v[j] = relu_of(v[j]);
  }
  store<V>(p.y.p, p.y.elt, at, v);
}

template <int V, typename I> __global__ void __launch_bounds__(THREADS) norm_backward(apply_args p, I units) {
  I u = static_cast<I>(blockIdx.x) * THREADS + threadIdx.x;
  if (u >= units) return;
  int64_t ch = channel_of<V, I>(u, p), at = static_cast<int64_t>(u) * V, c = p.y.c;
  float g[V], x[V], t[V], inv[V], mean[V], a[V], b[V];
  load<V>(g, p.dy.p, p.dy.elt, at);
  of_channels<V>(inv, p.stats, ch + c, p.planar);
  if (p.means) {
    load<V>(x, p.x.p, p.x.elt, at);
    of_channels<V>(mean, p.stats, ch, p.planar);
    of_channels<V>(a, p.means, ch, p.planar);
    of_channels<V>(b, p.means, ch + c, p.planar);
#pragma unroll
    for (int j = 0; j < V; j++) g[j] = g[j] - a[j] - (x[j] - mean[j]) * inv[j] * b[j];
  }
  of_channels<V>(t, p.gamma, ch, p.planar);
#pragma unroll
  for (int j = 0; j < V; j++) g[j] *= t[j] * inv[j];
  store_grad<V>(p.y.p, p.y.elt, at, g, p.add, p.mask);
}

template <int V, typename I> static int run_apply(void *stream, const apply_args &p, bool forward) {
  int64_t units = elements(p.y) / V;
  unsigned grid = static_cast<unsigned>(up(units, THREADS));
  if (forward) SP_LAUNCH((norm_forward<V, I>), grid, THREADS, 0, stream, p, static_cast<I>(units));
  else SP_LAUNCH((norm_backward<V, I>), grid, THREADS, 0, stream, p, static_cast<I>(units));
  return launched();
}

static int apply(void *stream, apply_args p, bool forward) {
  int64_t n = elements(p.y), unit = p.y.layout == PLANAR ? pixels(p.y) : p.y.c;
  p.planar = p.y.layout == PLANAR;
  int v = access(access(access(widest(&p.y), &p.y, unit), &p.x, unit), p.mask, p.y.elt, unit);
  if (!forward) v = access(v, &p.dy, unit);
  for (const float *of : {p.stats, p.gamma, p.beta, p.means})
    if (!p.planar) v = access(v, of, NNK_F32, unit);
  if (n >= INT32_MAX - THREADS)
    return v >= 4 ? run_apply<4, uint64_t>(stream, p, forward) : run_apply<1, uint64_t>(stream, p, forward);
  return v == 8   ? run_apply<8, uint32_t>(stream, p, forward)
         : v == 4 ? run_apply<4, uint32_t>(stream, p, forward)
         : v == 2 ? run_apply<2, uint32_t>(stream, p, forward)
                  : run_apply<1, uint32_t>(stream, p, forward);
}

/* ---- gradients of the weights, and means, from the sums of dy and of dy * normalised x ---- */
__global__ void __launch_bounds__(COLUMNS *TEAM)
    back_end(nnk_sum dgamma, nnk_sum dbeta, float *means, const double2 *work, cut q) {
  int member = static_cast<int>(threadIdx.x) / COLUMNS;
  int64_t ch = static_cast<int64_t>(blockIdx.x) * COLUMNS + threadIdx.x % COLUMNS;
  double2 v[SHARE];
  double a = 0, b = 0, count = static_cast<double>(q.count);
  take_share(v, work, q, ch, member);
#pragma unroll
  for (int k = 0; k < SHARE; k++) a += v[k].x, b += v[k].y;
  a = team_sum(a);
  b = team_sum(b);
  if (member || ch >= q.c) return;
  if (dbeta.p) sum_into(dbeta, ch, static_cast<float>(a));
  if (dgamma.p) sum_into(dgamma, ch, static_cast<float>(b));
  means[ch] = static_cast<float>(a / count);
  means[q.c + ch] = static_cast<float>(b / count);
}

static size_t parts_bytes(const nnk_map *x) { return static_cast<size_t>(most_parts(x)) * sizeof(double2); }

} // namespace nnk

using namespace nnk;

size_t nnk_norm_work(const nnk_map *x) { return parts_bytes(x) + static_cast<size_t>(x->c) * 2 * sizeof(float); }

int nnk_norm_stats(void *stream, float *stats, const nnk_map *x, double eps, double momentum, float *mean, float *var,
                   int64_t *count, void *work) {
  if (elements(*x) == 0) return cudaSuccess;
  cut q = cut_of(x, access(4, x, x->c));
  stats_sum p = {x->p, x->elt, static_cast<double2 *>(work)};
  stats_out o = {stats, mean, var, count, eps, momentum};
  int st = run_rows(stream, p, q);
  if (st) return st;
  SP_LAUNCH(stats_end, static_cast<unsigned>(up(q.c, COLUMNS)), COLUMNS * TEAM, 0, stream, o, p.work, q);
  return launched();
}

int nnk_norm_running(void *stream, float *stats, int64_t c, const float *mean, const float *var, double eps) {
  SP_LAUNCH(stats_running, static_cast<unsigned>(up(c, THREADS)), THREADS, 0, stream, stats, c, mean, var, eps);
  return launched();
}

int nnk_norm_forward(void *stream, const nnk_map *y, const nnk_map *x, const float *stats, const float *gamma,
                     const float *beta, int relu) {
  if (!same_order(y, x)) return refused();
  if (elements(*y) == 0) return cudaSuccess;
  return apply(stream, {*y, *x, {}, nullptr, stats, gamma, beta, nullptr, relu, 0, false}, true);
}

int nnk_norm_backward(void *stream, const nnk_map *dx, const nnk_map *dy, const nnk_map *x, const float *stats,
                      const float *gamma, nnk_sum dgamma, nnk_sum dbeta, int batch, const nnk_map *mask, int add,
                      void *work) {
  if (!same_order(dy, x) || (dx->p && !same_order(dx, x))) return refused();
  if (elements(*x) == 0) return cudaSuccess;
  int from_batch = batch && dx->p;
  float *means = reinterpret_cast<float *>(static_cast<char *>(work) + parts_bytes(x));
  if (from_batch || dgamma.p || dbeta.p) {
    cut q = cut_of(x, access(access(4, x, x->c), dy, x->c));
    back_sum p = {dy->p, x->p, dy->elt, x->elt, stats, static_cast<double2 *>(work), x->c};
    int st = run_rows(stream, p, q);
    if (st) return st;
    SP_LAUNCH(back_end, static_cast<unsigned>(up(q.c, COLUMNS)), COLUMNS * TEAM, 0, stream, dgamma, dbeta, means,
              p.work, q);
    if ((st = launched())) return st;
  }
  if (!dx->p) return cudaSuccess;
  return apply(
      stream,
      {*dx, *x, *dy, mask ? mask->p : nullptr, stats, gamma, nullptr, from_batch ? means : nullptr, 0, add, false},
      false);
}
