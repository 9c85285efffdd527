/* SPDX-License-Identifier: MIT
 * cuda_norm.cu - batch norm.
 */
#include "cuda_norm.cuh"

namespace nnk {

enum { THREADS = 256, COLUMNS = 32, TEAM = 8 };

struct stats_out {
  float *stats, *mean, *var;
  int64_t *count;
  double eps, momentum;
};

__global__ void __launch_bounds__(COLUMNS *TEAM) stats_end(stats_out o, const double *work, cut q) {
  __shared__ moments parts[TEAM][COLUMNS];
  int lane = static_cast<int>(threadIdx.x) % COLUMNS, member = static_cast<int>(threadIdx.x) / COLUMNS;
  int64_t ch = static_cast<int64_t>(blockIdx.x) * COLUMNS + lane;
  moments m = {0, 0, 0};
  if (blockIdx.x == 0 && threadIdx.x == 0) ++*o.count;
  if (ch < q.c) {
#pragma unroll 4
    for (int64_t k = member; k < q.pieces; k += TEAM) {
      double n = static_cast<double>(min(q.each, q.count - k * q.each));
      merge_moments(&m, {n, work[(k * q.c + ch) * 2], work[(k * q.c + ch) * 2 + 1]});
    }
  }
  parts[member][lane] = m;
  for (int half = TEAM / 2; half > 0; half /= 2) {
    __syncthreads();
    if (member < half) merge_moments(&parts[member][lane], parts[member + half][lane]);
  }
  if (member || ch >= q.c) return;
  m = parts[0][lane];
  double var = m.squares / m.count, unbiased = m.count > 1 ? m.squares / (m.count - 1) : var, f = o.momentum;
  o.stats[ch] = static_cast<float>(m.mean);
  o.stats[q.c + ch] = static_cast<float>(1 / sqrt(var + o.eps));
  o.mean[ch] = static_cast<float>((1 - f) * o.mean[ch] + f * m.mean);
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
  int relu, add, planar;
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
  float v[V];
  load<V>(v, p.x.p, p.x.elt, at);
#pragma unroll
  for (int j = 0; j < V; j++) {
    int64_t k = p.planar ? ch : ch + j;
    v[j] = fmaf(v[j] - p.stats[k], p.stats[p.y.c + k] * p.gamma[k], p.beta[k]);
    if (p.relu) v[j] = relu_of(v[j]);
  }
  store<V>(p.y.p, p.y.elt, at, v);
}

template <int V, typename I> __global__ void __launch_bounds__(THREADS) norm_backward(apply_args p, I units) {
  I u = static_cast<I>(blockIdx.x) * THREADS + threadIdx.x;
  if (u >= units) return;
  int64_t ch = channel_of<V, I>(u, p), at = static_cast<int64_t>(u) * V, c = p.y.c;
  float g[V], x[V], t[V];
  load<V>(g, p.dy.p, p.dy.elt, at);
  if (p.means) load<V>(x, p.x.p, p.x.elt, at);
#pragma unroll
  for (int j = 0; j < V; j++) {
    int64_t k = p.planar ? ch : ch + j;
    float inv = p.stats[c + k];
    if (p.means) g[j] = g[j] - p.means[k] - (x[j] - p.stats[k]) * inv * p.means[c + k];
    g[j] *= p.gamma[k] * inv;
  }
  if (p.add) {
    load<V>(t, p.y.p, p.y.elt, at);
#pragma unroll
    for (int j = 0; j < V; j++) g[j] += t[j];
  }
  if (p.mask) {
    load<V>(t, p.mask, p.y.elt, at);
#pragma unroll
    for (int j = 0; j < V; j++) g[j] = t[j] > 0 ? g[j] : 0;
  }
  store<V>(p.y.p, p.y.elt, at, g);
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
  int v = access(access(access(4, &p.y, unit), &p.x, unit), p.mask, p.y.elt, unit);
  if (!forward) v = access(v, &p.dy, unit);
  if (n >= INT32_MAX - THREADS)
    return v == 4 ? run_apply<4, uint64_t>(stream, p, forward) : run_apply<1, uint64_t>(stream, p, forward);
  return v == 4   ? run_apply<4, uint32_t>(stream, p, forward)
         : v == 2 ? run_apply<2, uint32_t>(stream, p, forward)
                  : run_apply<1, uint32_t>(stream, p, forward);
}

/* ---- sums of gradients ---- */
__global__ void __launch_bounds__(COLUMNS *TEAM)
    back_end(nnk_sum dgamma, nnk_sum dbeta, float *means, const double *work, cut q) {
  __shared__ pair parts[TEAM][COLUMNS];
  int lane = static_cast<int>(threadIdx.x) % COLUMNS, member = static_cast<int>(threadIdx.x) / COLUMNS;
  int64_t ch = static_cast<int64_t>(blockIdx.x) * COLUMNS + lane;
  pair s = {0, 0};
  if (ch < q.c) {
#pragma unroll 4
    for (int64_t k = member; k < q.pieces; k += TEAM) {
      s.a += work[(k * q.c + ch) * 2];
      s.b += work[(k * q.c + ch) * 2 + 1];
    }
  }
  parts[member][lane] = s;
  for (int half = TEAM / 2; half > 0; half /= 2) {
    __syncthreads();
    if (member < half) back_sum::merge(&parts[member][lane], parts[member + half][lane]);
  }
  if (member || ch >= q.c) return;
  s = parts[0][lane];
  if (dbeta.p) sum_into(dbeta, ch, static_cast<float>(s.a));
  if (dgamma.p) sum_into(dgamma, ch, static_cast<float>(s.b));
  means[ch] = static_cast<float>(s.a / static_cast<double>(q.count));
  means[q.c + ch] = static_cast<float>(s.b / static_cast<double>(q.count));
}

int back_sums_end(void *stream, nnk_sum dgamma, nnk_sum dbeta, float *means, const double *work, const cut &q) {
  SP_LAUNCH(back_end, static_cast<unsigned>(up(q.c, COLUMNS)), COLUMNS * TEAM, 0, stream, dgamma, dbeta, means, work,
            q);
  return launched();
}

static size_t parts_bytes(const nnk_map *x) { return static_cast<size_t>(most_parts(x)) * 2 * sizeof(double); }

} // namespace nnk

using namespace nnk;

size_t nnk_norm_work(const nnk_map *x) { return parts_bytes(x) + static_cast<size_t>(x->c) * 2 * sizeof(float); }

int nnk_norm_stats(void *stream, float *stats, const nnk_map *x, double eps, double momentum, float *mean, float *var,
                   int64_t *count, void *work) {
  if (elements(*x) == 0) return cudaSuccess;
  cut q = cut_of(x, access(4, x, x->c));
  stats_sum p = {x->p, x->elt, static_cast<double *>(work)};
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
  return apply(stream, {*y, *x, {}, nullptr, stats, gamma, beta, nullptr, relu, 0, 0}, true);
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
    back_sum p = {dy->p, x->p, dy->elt, x->elt, stats, static_cast<double *>(work), x->c};
    int st = run_rows(stream, p, q);
    if (st) return st;
    if ((st = back_sums_end(stream, dgamma, dbeta, means, p.work, q))) return st;
  }
  if (!dx->p) return cudaSuccess;
  return apply(stream,
               {*dx, *x, *dy, mask ? mask->p : nullptr, stats, gamma, nullptr, from_batch ? means : nullptr, 0, add, 0},
               false);
}
