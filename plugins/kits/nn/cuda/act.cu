/* SPDX-License-Identifier: MIT
 * act.cu - activations but ReLU, and products of two maps, or of a map and a number for each sample and channel.
 */
#include "../ops/act.h"
#include "kit.cuh"

namespace nnk {

enum { THREADS = 256, LANES = 32, EACH = 2 /* units of V numbers a thread handles */ };
enum { VALUE, SLOPE, TIMES };

/* What is written is f(x), dy * f'(x), or a * b; x of SLOPE and TIMES is the second map. */
struct act_args {
  void *y;
  const void *a, *b, *mask;
  int ye, ae, be, act, add;
  float k;                   /* of the function */
  int64_t units, wide, rows; /* all; TIMES by one pixel: of a pixel, 0: not so, and pixels of a sample */
};

template <int OP> __device__ inline float act_of(const act_args &p, float a, float b) {
  enum nn_act f = static_cast<enum nn_act>(p.act);
  return OP == VALUE ? nn_act(f, p.k, a) : OP == SLOPE ? a * nn_slope(f, p.k, b) : a * b;
}

/* Where b's unit for unit u of a lies; a division of 64 bits takes far longer. */
__device__ inline int64_t other(const act_args &p, int64_t u) {
  if (!p.wide) return u;
  if (p.units > 0xffffffff) return u / (p.wide * p.rows) * p.wide + u % p.wide;
  uint32_t few = static_cast<uint32_t>(u), wide = static_cast<uint32_t>(p.wide);
  return few / (wide * static_cast<uint32_t>(p.rows)) * wide + few % wide;
}

template <int OP, int V> __global__ void __launch_bounds__(THREADS) act(act_args p) {
  int64_t first = static_cast<int64_t>(blockIdx.x) * (THREADS * EACH) + threadIdx.x;
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    int64_t u = first + e * THREADS;
    float a[V], b[V], t[V];
    if (u >= p.units) return;
    load<V>(a, p.a, p.ae, u * V);
    if (OP != VALUE) load<V>(b, p.b, p.be, other(p, u) * V);
#pragma unroll
    for (int j = 0; j < V; j++) a[j] = act_of<OP>(p, a[j], OP == VALUE ? 0 : b[j]);
    if (p.mask) load<V>(t, p.mask, p.ye, u * V);
    for (int j = 0; j < V && p.mask; j++) a[j] = t[j] > 0 ? a[j] : 0;
    if (p.add) load<V>(t, p.y, p.ye, u * V);
    for (int j = 0; j < V && p.add; j++) a[j] += t[j];
    store<V>(p.y, p.ye, u * V, a);
  }
}

template <int OP> static int run_act(void *stream, act_args p, int v, int64_t n) {
  if (n == 0) return cudaSuccess;
  p.units = n / v;
  p.wide /= v;
  unsigned grid = static_cast<unsigned>(up(p.units, THREADS * EACH));
  if (v == 4) SP_LAUNCH((act<OP, 4>), grid, THREADS, 0, stream, p);
  else if (v == 2) SP_LAUNCH((act<OP, 2>), grid, THREADS, 0, stream, p);
  else SP_LAUNCH((act<OP, 1>), grid, THREADS, 0, stream, p);
  return launched();
}

/* db: a block takes `lanes` units of channels of a sample, side by side, and each of its teams of lanes a share of the
 * pixels; the shares are added as a tree. */
template <int V>
__global__ void __launch_bounds__(THREADS)
    times_sum(nnk_map db, nnk_map dy, nnk_map a, const void *mask, int add, int lanes, int64_t blocks) {
  __shared__ float part[V * THREADS];
  int64_t sample = blockIdx.x / blocks, px = pixels(a);
  int me = threadIdx.x, team = me / lanes, teams = THREADS / lanes;
  int64_t ch = ((blockIdx.x - sample * blocks) * lanes + me % lanes) * V, at = sample * a.c + ch;
  bool inside = ch < a.c;
  float sum[V], v[V], w[V];
  for (int j = 0; j < V; j++) sum[j] = 0;
  for (int64_t i = team; i < px && inside; i += teams) {
    load<V>(v, dy.p, dy.elt, (sample * px + i) * a.c + ch);
    load<V>(w, a.p, a.elt, (sample * px + i) * a.c + ch);
#pragma unroll
    for (int j = 0; j < V; j++) sum[j] = fmaf(v[j], w[j], sum[j]);
  }
  for (int j = 0; j < V; j++) part[j * THREADS + me] = sum[j];
  for (int n = teams / 2; n; n /= 2) {
    __syncthreads();
    for (int j = 0; j < V && team < n; j++) part[j * THREADS + me] += part[j * THREADS + me + n * lanes];
  }
  if (team || !inside) return;
  if (mask) load<V>(w, mask, db.elt, at);
  if (add) load<V>(v, db.p, db.elt, at);
  for (int j = 0; j < V; j++) {
    float s = mask && !(w[j] > 0) ? 0 : part[j * THREADS + me];
    sum[j] = add ? v[j] + s : s;
  }
  store<V>(db.p, db.elt, at, sum);
}

template <int V>
static int run_sum(void *stream, const nnk_map *db, const nnk_map *dy, const nnk_map *a, const nnk_map *mask, int add) {
  int64_t units = a->c / V;
  int lanes = 1;
  while (lanes < LANES && lanes < units) lanes *= 2;
  int64_t blocks = up(units, lanes);
  SP_LAUNCH(times_sum<V>, static_cast<unsigned>(blocks * a->n), THREADS, 0, stream, *db, *dy, *a,
            mask ? mask->p : nullptr, add, lanes, blocks);
  return launched();
}

} // namespace nnk

using namespace nnk;

int nnk_act_forward(void *stream, int act, float k, const nnk_map *y, const nnk_map *x) {
  int64_t n = elements(*y);
  if (!same_order(y, x)) return refused();
  act_args p = {y->p, x->p, nullptr, nullptr, y->elt, x->elt, 0, act, 0, k, 0, 0, 0};
  return run_act<VALUE>(stream, p, access(access(4, y, n), x, n), n);
}

int nnk_act_backward(void *stream, int act, float k, const nnk_map *dx, const nnk_map *dy, const nnk_map *x,
                     const nnk_map *mask, int add) {
  int64_t n = elements(*dx);
  if (!same_order(dx, dy) || !same_order(dx, x)) return refused();
  act_args p = {dx->p, dy->p, x->p, mask ? mask->p : nullptr, dx->elt, dy->elt, x->elt, act, add, k, 0, 0, 0};
  return run_act<SLOPE>(stream, p, access(access(access(access(4, dx, n), dy, n), x, n), mask, n), n);
}

int nnk_mul(void *stream, const nnk_map *y, const nnk_map *a, const nnk_map *b, const nnk_map *mask, int add) {
  bool one = pixels(*b) < pixels(*y);
  int64_t unit = one ? y->c : elements(*y);
  if (!same_order(y, a) || (one ? pixels(*b) > 1 : !same_order(y, b)) || y->layout == PLANAR) return refused();
  act_args p = {y->p, a->p, b->p, mask ? mask->p : nullptr, y->elt,    a->elt, b->elt, 0,
                add,  0,    0,    one ? y->c : 0,           pixels(*y)};
  return run_act<TIMES>(stream, p, access(access(access(access(4, y, unit), a, unit), b, unit), mask, unit),
                        elements(*y));
}

int nnk_mul_sum(void *stream, const nnk_map *db, const nnk_map *dy, const nnk_map *a, const nnk_map *mask, int add) {
  if (!same_order(dy, a) || a->layout == PLANAR || pixels(*db) > 1) return refused();
  if (elements(*a) == 0) return cudaSuccess;
  int v = access(access(access(access(4, db, a->c), dy, a->c), a, a->c), mask, a->c);
  return v == 4 ? run_sum<4>(stream, db, dy, a, mask, add) : run_sum<1>(stream, db, dy, a, mask, add);
}
