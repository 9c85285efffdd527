/* SPDX-License-Identifier: MIT
 * norm.cuh - the sums of batch norm and group norm over pixels; means and variances are merged in double,
 * in a fixed order.
 */
#ifndef NN_CUDA_NORM_CUH
#define NN_CUDA_NORM_CUH

#include "rows.cuh"

namespace nnk {

/* `squares` is the sum of the squared distances from the mean. */
struct moments {
  double count, mean, squares;
};

__device__ inline void merge_moments(moments *a, const moments &b) {
  double n = a->count + b.count;
  if (b.count == 0) return;
  double d = b.mean - a->mean, step = d * (b.count / n); /* one division: they take longest */
  a->squares += b.squares + d * a->count * step;
  a->mean += step;
  a->count = n;
}

struct stats_sum {
  const void *x;
  int elt;
  double2 *work; /* per piece and channel: mean, squares */

  typedef moments part;
  enum { EACH = 4, RESIDENT = 2 };
  template <int V> struct sum { /* sums of the distance from the first value: far less cancels than without */
    struct item {
      float v[V];
    };
    float first[V], s[V], s2[V];
    int n;
    __device__ void begin(const stats_sum &, int64_t) {
      n = 0;
      for (int j = 0; j < V; j++) first[j] = s[j] = s2[j] = 0;
    }
    __device__ void get(const stats_sum &p, int64_t at, item *i) const { load<V>(i->v, p.x, p.elt, at); }
    __device__ void take(const stats_sum &, int64_t, const item &i) {
#pragma unroll
      for (int j = 0; j < V; j++) {
        if (n == 0) first[j] = i.v[j];
        float d = i.v[j] - first[j];
        s[j] += d;
        s2[j] = fmaf(d, d, s2[j]);
      }
      n++;
    }
    __device__ moments part_of(int j) const {
      if (n == 0) return {0, 0, 0};
      double m = static_cast<double>(s[j]) / n, q = s2[j] - m * s[j];
      return {static_cast<double>(n), first[j] + m, q < 0 ? 0 : q};
    }
  };
  static __device__ void merge(moments *a, const moments &b) { merge_moments(a, b); }
  __device__ void finish(const cut &q, int64_t piece, int64_t ch, const moments &m) const {
    work[piece * q.c + ch] = make_double2(m.mean, m.squares);
  }
};

/* ---- sums of dy and of dy * normalised x ---- */
struct pair {
  double a, b;
};

struct back_sum {
  const void *dy, *x;
  int dy_elt, x_elt;
  const float *stats;
  double2 *work; /* per piece and channel: the sums */
  int64_t c;

  typedef pair part;
  enum { EACH = 4, RESIDENT = 2 };
  template <int V> struct sum {
    struct item {
      float g[V], x[V];
    };
    float a[V], b[V], mean[V], inv[V];
    __device__ void begin(const back_sum &p, int64_t ch) {
      for (int j = 0; j < V; j++) a[j] = b[j] = 0, mean[j] = p.stats[ch + j], inv[j] = p.stats[p.c + ch + j];
    }
    __device__ void get(const back_sum &p, int64_t at, item *i) const {
      load<V>(i->g, p.dy, p.dy_elt, at);
      load<V>(i->x, p.x, p.x_elt, at);
    }
    __device__ void take(const back_sum &, int64_t, const item &i) {
#pragma unroll
      for (int j = 0; j < V; j++) {
        a[j] += i.g[j];
        b[j] = fmaf(i.g[j], i.x[j] - mean[j], b[j]);
      }
    }
    __device__ pair part_of(int j) const { return {a[j], static_cast<double>(b[j]) * inv[j]}; }
  };
  static __device__ void merge(pair *a, const pair &b) { a->a += b.a, a->b += b.b; }
  __device__ void finish(const cut &q, int64_t piece, int64_t ch, const pair &s) const {
    work[piece * q.c + ch] = make_double2(s.a, s.b);
  }
};

} // namespace nnk
#endif
