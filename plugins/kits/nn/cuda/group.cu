/* SPDX-License-Identifier: MIT
 * group.cu - group norm: each sample's groups of channels by themselves, with the sums of batch norm.
 */
#include "norm.cuh"

namespace nnk {

enum { THREADS = 256, COLUMNS = 8, TEAM = 32, BLOCKS = 64 /* of a sample, at least where it has so many pixels */ };

/* Pieces of each sample apart, a function of the map alone: a sample's bits do not depend on the batch. */
static cut samples(const nnk_map *x, int v) {
  nnk_map one = *x;
  one.n = 1;
  cut q = cut_of(&one, v, BLOCKS);
  q.count *= x->n;
  q.pieces *= x->n;
  return q;
}

static size_t parts_bytes(const nnk_map *x) {
  nnk_map one = *x;
  one.n = 1;
  return static_cast<size_t>(x->n * most_parts(&one, BLOCKS)) * sizeof(double2);
}

/* What one block adds up: a group of a sample. */
struct group {
  int64_t sample, first, width, parts; /* parts: channels times pieces */

  __device__ group(const cut &q, int64_t groups) {
    sample = blockIdx.x / groups;
    width = q.c / groups;
    first = (blockIdx.x - sample * groups) * width;
    parts = q.per_run * width;
  }
  __device__ int64_t piece(const cut &q, int64_t i) const { return sample * q.per_run + i / width; }
  __device__ int64_t channel(int64_t i) const { return first + i % width; }
};

/* y = a x + shift, or dx = a dy + b x + shift: for each sample and channel. */
struct slopes {
  float *a, *shift, *b;
  int64_t c;
};

static slopes slopes_of(const nnk_map *x, void *work) {
  float *p = reinterpret_cast<float *>(static_cast<char *>(work) + parts_bytes(x));
  return {p, p + x->n * x->c, p + 2 * x->n * x->c, x->c};
}

__global__ void __launch_bounds__(THREADS)
    group_stats(float *stats, slopes s, const double2 *work, cut q, int64_t groups, const float *gamma,
                const float *beta, double eps) {
  __shared__ moments parts[THREADS];
  int t = static_cast<int>(threadIdx.x);
  group g(q, groups);
  moments m = {0, 0, 0};
  for (int64_t i = t; i < g.parts; i += THREADS) {
    double2 part = work[g.piece(q, i) * q.c + g.channel(i)];
    merge_moments(&m, {static_cast<double>(min(q.each, q.run - i / g.width * q.each)), part.x, part.y});
  }
  parts[t] = m;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half) merge_moments(&parts[t], parts[t + half]);
  }
  __syncthreads();
  m = parts[0];
  float mean = static_cast<float>(m.mean), inv = static_cast<float>(1 / sqrt(m.squares / m.count + eps));
  if (t == 0) stats[blockIdx.x * 2] = mean, stats[blockIdx.x * 2 + 1] = inv;
  for (int64_t ch = g.first + t; ch < g.first + g.width; ch += THREADS) {
    int64_t i = g.sample * s.c + ch;
    s.a[i] = inv * gamma[ch];
    s.shift[i] = beta[ch] - mean * s.a[i];
  }
}

/* As back_sum; the statistics are the group's. */
struct group_back_sum : back_sum {
  int64_t width;

  template <int V> struct sum : back_sum::sum<V> {
    __device__ void begin(const group_back_sum &p, int64_t ch) {
      for (int j = 0; j < V; j++) {
        int64_t i = (ch + j) / p.width * 2;
        this->a[j] = this->b[j] = 0, this->mean[j] = p.stats[i], this->inv[j] = p.stats[i + 1];
      }
    }
  };
};

__global__ void __launch_bounds__(THREADS)
    group_back(slopes s, const float *stats, const double2 *work, cut q, int64_t groups, const float *gamma) {
  __shared__ pair parts[THREADS];
  int t = static_cast<int>(threadIdx.x);
  group g(q, groups);
  pair m = {0, 0};
  for (int64_t i = t; i < g.parts; i += THREADS) {
    int64_t ch = g.channel(i);
    double2 part = work[g.piece(q, i) * q.c + ch];
    m.a += gamma[ch] * part.x;
    m.b += gamma[ch] * part.y;
  }
  parts[t] = m;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half) back_sum::merge(&parts[t], parts[t + half]);
  }
  __syncthreads();
  double count = static_cast<double>(g.width * q.run), mean = stats[blockIdx.x * 2], inv = stats[blockIdx.x * 2 + 1];
  double slope = inv * parts[0].b / count, shift = inv * (slope * mean - parts[0].a / count);
  for (int64_t ch = g.first + t; ch < g.first + g.width; ch += THREADS) {
    int64_t i = g.sample * s.c + ch;
    s.a[i] = stats[blockIdx.x * 2 + 1] * gamma[ch];
    s.b[i] = static_cast<float>(-inv * slope);
    s.shift[i] = static_cast<float>(shift);
  }
}

/* Over the pieces of all samples. */
__global__ void __launch_bounds__(COLUMNS *TEAM)
    group_weights(nnk_sum dgamma, nnk_sum dbeta, const double2 *work, cut q) {
  __shared__ pair parts[TEAM][COLUMNS];
  int lane = static_cast<int>(threadIdx.x) % COLUMNS, member = static_cast<int>(threadIdx.x) / COLUMNS;
  int64_t ch = static_cast<int64_t>(blockIdx.x) * COLUMNS + lane;
  pair s = {0, 0};
  for (int64_t k = member; k < q.pieces && ch < q.c; k += TEAM) {
    double2 part = work[k * q.c + ch];
    s.a += part.x, s.b += part.y;
  }
  parts[member][lane] = s;
  for (int half = TEAM / 2; half > 0; half /= 2) {
    __syncthreads();
    if (member < half) back_sum::merge(&parts[member][lane], parts[member + half][lane]);
  }
  if (member || ch >= q.c) return;
  if (dbeta.p) sum_into(dbeta, ch, static_cast<float>(parts[0][lane].a));
  if (dgamma.p) sum_into(dgamma, ch, static_cast<float>(parts[0][lane].b));
}

struct group_args {
  nnk_map to, from, x; /* x.p NULL: without b x */
  const void *mask;
  slopes s;
  int relu, add;
};

template <int V, typename I> __global__ void __launch_bounds__(THREADS) group_apply(group_args p, I units) {
  I u = static_cast<I>(blockIdx.x) * THREADS + threadIdx.x;
  if (u >= units) return;
  I c = static_cast<I>(p.s.c), px = static_cast<I>(pixels(p.to));
  int64_t at = static_cast<int64_t>(u) * V, i = static_cast<int64_t>(u / (px * (c / V)) * c + u % (c / V) * V);
  float v[V], x[V];
  load<V>(v, p.from.p, p.from.elt, at);
  if (p.x.p) load<V>(x, p.x.p, p.x.elt, at);
#pragma unroll
  for (int j = 0; j < V; j++) {
    float rest = p.x.p ? fmaf(p.s.b[i + j], x[j], p.s.shift[i + j]) : p.s.shift[i + j];
    v[j] = fmaf(p.s.a[i + j], v[j], rest);
    if (p.relu) v[j] = relu_of(v[j]);
  }
  store_grad<V>(p.to.p, p.to.elt, at, v, p.add, p.mask);
}

template <int V, typename I> static int run_apply(void *stream, const group_args &p) {
  int64_t units = elements(p.to) / V;
  SP_LAUNCH((group_apply<V, I>), static_cast<unsigned>(up(units, THREADS)), THREADS, 0, stream, p,
            static_cast<I>(units));
  return launched();
}

static int apply(void *stream, const group_args &p) {
  int64_t n = elements(p.to), c = p.to.c;
  int v = access(access(access(4, &p.to, c), &p.from, c), p.mask, p.to.elt, c);
  if (p.x.p) v = access(v, &p.x, c);
  if (n >= INT32_MAX - THREADS) return v == 4 ? run_apply<4, uint64_t>(stream, p) : run_apply<1, uint64_t>(stream, p);
  return v == 4 ? run_apply<4, uint32_t>(stream, p) : run_apply<1, uint32_t>(stream, p);
}

static bool is_planar(const nnk_map *x) { return x->layout == PLANAR && x->c > 1 && pixels(*x) > 1; }

} // namespace nnk

using namespace nnk;

size_t nnk_group_work(const nnk_map *x) {
  return parts_bytes(x) + static_cast<size_t>(3 * x->n * x->c) * sizeof(float);
}

int nnk_group_forward(void *stream, const nnk_map *y, const nnk_map *x, int64_t groups, double eps, float *stats,
                      const float *gamma, const float *beta, int relu, void *work) {
  if (!same_order(y, x) || is_planar(x)) return refused();
  if (elements(*x) == 0) return cudaSuccess;
  cut q = samples(x, access(4, x, x->c));
  stats_sum p = {x->p, x->elt, static_cast<double2 *>(work)};
  slopes s = slopes_of(x, work);
  int st = run_rows(stream, p, q);
  if (st) return st;
  SP_LAUNCH(group_stats, static_cast<unsigned>(x->n * groups), THREADS, 0, stream, stats, s, p.work, q, groups, gamma,
            beta, eps);
  if ((st = launched())) return st;
  return apply(stream, {*y, *x, {}, nullptr, s, relu, 0});
}

/* The slopes are taken of gamma before it may be changed in place. */
int nnk_group_backward(void *stream, const nnk_map *dx, const nnk_map *dy, const nnk_map *x, int64_t groups,
                       const float *stats, const float *gamma, nnk_sum dgamma, nnk_sum dbeta, const nnk_map *mask,
                       int add, void *work) {
  if (!same_order(dy, x) || (dx->p && !same_order(dx, x)) || is_planar(x)) return refused();
  if (elements(*x) == 0) return cudaSuccess;
  cut q = samples(x, access(access(4, x, x->c), dy, x->c));
  group_back_sum p;
  static_cast<back_sum &>(p) = {dy->p, x->p, dy->elt, x->elt, stats, static_cast<double2 *>(work), x->c};
  p.width = x->c / groups;
  slopes s = slopes_of(x, work);
  int st = run_rows(stream, p, q);
  if (st) return st;
  SP_LAUNCH(group_back, static_cast<unsigned>(x->n * groups), THREADS, 0, stream, s, stats, p.work, q, groups, gamma);
  if ((st = launched())) return st;
  if (dgamma.p || dbeta.p)
    SP_LAUNCH(group_weights, static_cast<unsigned>(up(q.c, COLUMNS)), COLUMNS * TEAM, 0, stream, dgamma, dbeta, p.work,
              q);
  if ((st = launched()) || !dx->p) return st;
  return apply(stream, {*dx, *dy, *x, mask ? mask->p : nullptr, s, 0, add});
}
