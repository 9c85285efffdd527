/* SPDX-License-Identifier: MIT
 * pool.cu - max and average pooling over maps with the channels innermost.
 */
#include "kit.cuh"

namespace nnk {

enum {
  THREADS = 256,
  LANES = 32,
  TOGETHER = 3,         /* loads that are under way */
  WHOLE = 16,           /* pixels; of fewer a mean is a thread's work */
  EACH = 8,             /* pixels of a sum that a thread has under way */
  MOST = INT32_MAX / 2, /* of a sum */
  MANY = 264            /* blocks */
};

struct pool_args {
  nnk_map y, x; /* backward: dy and dx */
  const void *seen, *mask;
  int seen_elt, add;
  nnk_window w;
  uint32_t blocks; /* of a sample */
};

struct span {
  int from, to;
};

__device__ inline span clip(int64_t from, int64_t to, int64_t size) {
  return {static_cast<int>(max(from, static_cast<int64_t>(0))), static_cast<int>(min(to, size))};
}

/* What part of the input is under window o. */
__device__ inline span under(int o, int k, int s, int p, int64_t size) {
  int64_t from = static_cast<int64_t>(o) * s - p;
  return clip(from, from + k, size);
}

/* The windows that are over input i. */
__device__ inline span over(int i, int k, int s, int p, int64_t outputs) {
  int64_t last = (static_cast<int64_t>(i) + p) / s, behind = static_cast<int64_t>(i) + p - k;
  return clip(behind < 0 ? 0 : behind / s + 1, last + 1, outputs);
}

/* A larger one, or the first NaN, takes the place of `best`. */
__device__ inline bool beats(float v, float best) { return v > best || (v != v && best == best); }

/* Unit of the thread in its sample; false: none. */
template <int V>
__device__ inline bool where(const pool_args &p, const nnk_map &m, int64_t *sample, int *y, int *x, int *ch) {
  uint32_t first = blockIdx.x / p.blocks, u = (blockIdx.x - first * p.blocks) * THREADS + threadIdx.x;
  uint32_t per = static_cast<uint32_t>(m.c / V), px = u / per, w = static_cast<uint32_t>(m.w), row = px / w;
  *sample = first;
  *ch = static_cast<int>(u - px * per) * V;
  *y = static_cast<int>(row);
  *x = static_cast<int>(px - row * w);
  return row < static_cast<uint32_t>(m.h);
}

template <int V, bool MAX> __global__ void __launch_bounds__(THREADS) pool_forward(pool_args p) {
  int64_t sample;
  int oy, ox, ch;
  if (!where<V>(p, p.y, &sample, &oy, &ox, &ch)) return;
  span rows = under(oy, p.w.k[0], p.w.s[0], p.w.p[0], p.x.h), cols = under(ox, p.w.k[1], p.w.s[1], p.w.p[1], p.x.w);
  float out[V], v[TOGETHER][V];
  for (int j = 0; j < V; j++) out[j] = MAX ? -INFINITY : 0;
  for (int iy = rows.from; iy < rows.to; iy++)
    for (int ix = cols.from; ix < cols.to; ix += TOGETHER) {
      int64_t at = ((sample * p.x.h + iy) * p.x.w + ix) * p.x.c + ch;
#pragma unroll
      for (int e = 0; e < TOGETHER; e++)
        if (ix + e < cols.to) load<V>(v[e], p.x.p, p.x.elt, at + e * p.x.c);
#pragma unroll
      for (int e = 0; e < TOGETHER; e++) {
        if (ix + e >= cols.to) break;
#pragma unroll
        for (int j = 0; j < V; j++) {
          if (!MAX) out[j] += v[e][j];
          else if (beats(v[e][j], out[j])) out[j] = v[e][j];
        }
      }
    }
  float part = 1 / static_cast<float>(p.w.k[0] * p.w.k[1]);
  for (int j = 0; j < V && !MAX; j++) out[j] *= part;
  store<V>(p.y.p, p.y.elt, ((sample * p.y.h + oy) * p.y.w + ox) * p.y.c + ch, out);
}

/* The larger of each of two numbers; NaN, where one is. */
__device__ inline uint32_t larger_two(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
#else
  float low = beats(low_bf16(b), low_bf16(a)) ? low_bf16(b) : low_bf16(a);
  return two_bf16(low, beats(high_bf16(b), high_bf16(a)) ? high_bf16(b) : high_bf16(a));
#endif
}

/* The largest of 3x3, whose loads are all under way at once: what is beyond the border is a pixel that counts
 * anyway. */
template <int V, class T> __global__ void __launch_bounds__(THREADS) max_of_nine(pool_args p) {
  int64_t sample;
  int oy, ox, ch;
  sp_launch_next();
  sp_launch_wait();
  if (!where<V>(p, p.y, &sample, &oy, &ox, &ch)) return;
  span rows = under(oy, 3, p.w.s[0], p.w.p[0], p.x.h), cols = under(ox, 3, p.w.s[1], p.w.p[1], p.x.w);
  const T *line[3], *x = static_cast<const T *>(p.x.p) + sample * p.x.h * p.x.w * p.x.c + ch;
  int64_t col[3], to = ((sample * p.y.h + oy) * p.y.w + ox) * p.y.c + ch;
#pragma unroll
  for (int i = 0; i < 3; i++) {
    line[i] = x + min(rows.from + i, rows.to - 1) * p.x.w * p.x.c;
    col[i] = min(cols.from + i, cols.to - 1) * p.x.c;
  }
  if constexpr (V == 8 && sizeof(T) == 2) {
    uint4 v[9];
#pragma unroll
    for (int e = 0; e < 9; e++) v[e] = *reinterpret_cast<const uint4 *>(line[e / 3] + col[e % 3]);
#pragma unroll
    for (int e = 1; e < 9; e++) {
      v[0].x = larger_two(v[0].x, v[e].x), v[0].y = larger_two(v[0].y, v[e].y);
      v[0].z = larger_two(v[0].z, v[e].z), v[0].w = larger_two(v[0].w, v[e].w);
    }
    *reinterpret_cast<uint4 *>(static_cast<T *>(p.y.p) + to) = v[0];
  } else {
    float v[9][V];
#pragma unroll
    for (int e = 0; e < 9; e++) load<V>(v[e], line[e / 3], col[e % 3]);
#pragma unroll
    for (int j = 0; j < V; j++)
#pragma unroll
      for (int e = 1; e < 9; e++)
        if (beats(v[e][j], v[0][j])) v[0][j] = v[e][j];
    store<V>(p.y.p, p.y.elt, to, v[0]);
  }
}

/* `scale` times the sum over the whole map: a block takes `lanes` units of channels of a sample, side by side, and each
 * of its teams of lanes a share of the pixels; the shares are added as a tree. */
template <int V, class T> __global__ void __launch_bounds__(THREADS) sum_forward(pool_args p, int lanes, float scale) {
  __shared__ float part[V * THREADS];
  int64_t sample = blockIdx.x / p.blocks;
  int me = static_cast<int>(threadIdx.x), team = me / lanes, teams = THREADS / lanes,
      px = static_cast<int>(pixels(p.x));
  int64_t ch = ((blockIdx.x - sample * p.blocks) * lanes + me % lanes) * V, c = p.x.c, to = sample * c + ch;
  const T *from = static_cast<const T *>(p.x.p) + sample * px * c + ch;
  bool inside = ch < c;
  float sum[V], v[EACH][V];
  for (int j = 0; j < V; j++) sum[j] = 0;
  sp_launch_next();
  sp_launch_wait();
  for (int i = team; i < px && inside; i += teams * EACH) {
#pragma unroll
    for (int e = 0; e < EACH; e++)
      if (i + e * teams < px) load<V>(v[e], from, (i + e * teams) * c);
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      if (i + e * teams >= px) break;
#pragma unroll
      for (int j = 0; j < V; j++) sum[j] += v[e][j];
    }
  }
  for (int j = 0; j < V; j++) part[j * THREADS + me] = sum[j];
  for (int n = teams / 2; n; n /= 2) {
    __syncthreads();
    for (int j = 0; j < V && team < n; j++) part[j * THREADS + me] += part[j * THREADS + me + n * lanes];
  }
  if (team || !inside) return;
  for (int j = 0; j < V; j++) sum[j] = part[j * THREADS + me] * scale;
  store_grad<V>(p.y.p, p.y.elt, to, sum, p.add, p.mask);
}

/* A thread gathers what the windows over its input give; for max it finds each window's winner again. */
template <int V, bool MAX> __global__ void __launch_bounds__(THREADS) pool_backward(pool_args p) {
  int64_t sample;
  int iy, ix, ch;
  if (!where<V>(p, p.x, &sample, &iy, &ix, &ch)) return;
  span oys = over(iy, p.w.k[0], p.w.s[0], p.w.p[0], p.y.h), oxs = over(ix, p.w.k[1], p.w.s[1], p.w.p[1], p.y.w);
  int64_t at = ((sample * p.x.h + iy) * p.x.w + ix) * p.x.c + ch;
  float sum[V], g[V], v[V], best[V];
  int winner[V], me = iy * static_cast<int>(p.x.w) + ix;
  for (int j = 0; j < V; j++) sum[j] = 0;
  for (int oy = oys.from; oy < oys.to; oy++)
    for (int ox = oxs.from; ox < oxs.to; ox++) {
      load<V>(g, p.y.p, p.y.elt, ((sample * p.y.h + oy) * p.y.w + ox) * p.y.c + ch);
      if (MAX) {
        span rows = under(oy, p.w.k[0], p.w.s[0], p.w.p[0], p.x.h);
        span cols = under(ox, p.w.k[1], p.w.s[1], p.w.p[1], p.x.w);
        for (int j = 0; j < V; j++) winner[j] = -1;
        for (int y = rows.from; y < rows.to; y++)
          for (int x = cols.from; x < cols.to; x++) {
            load<V>(v, p.seen, p.seen_elt, ((sample * p.x.h + y) * p.x.w + x) * p.x.c + ch);
#pragma unroll
            for (int j = 0; j < V; j++)
              if (winner[j] < 0 || beats(v[j], best[j])) best[j] = v[j], winner[j] = y * static_cast<int>(p.x.w) + x;
          }
      }
#pragma unroll
      for (int j = 0; j < V; j++)
        if (!MAX || winner[j] == me) sum[j] += g[j];
    }
  float part = 1 / static_cast<float>(p.w.k[0] * p.w.k[1]);
  for (int j = 0; j < V && !MAX; j++) sum[j] *= part;
  store_grad<V>(p.x.p, p.x.elt, at, sum, p.add, p.mask);
}

template <int V> static int run_pool(void *stream, pool_args p, bool max, bool forward) {
  const nnk_map &m = forward ? p.y : p.x;
  p.blocks = static_cast<uint32_t>(up(pixels(m) * (m.c / V), THREADS));
  unsigned grid = p.blocks * static_cast<unsigned>(m.n);
  bool nine = forward && max && p.w.k[0] == 3 && p.w.k[1] == 3 && p.w.p[0] < 2 && p.w.p[1] < 2 && p.x.elt == p.y.elt;
  if (nine && p.x.elt == NNK_F32) SP_LAUNCH_EARLY((max_of_nine<V, float>), grid, THREADS, 0, stream, p);
  else if (nine) SP_LAUNCH_EARLY((max_of_nine<V, __nv_bfloat16>), grid, THREADS, 0, stream, p);
  else if (forward && max) SP_LAUNCH((pool_forward<V, true>), grid, THREADS, 0, stream, p);
  else if (forward) SP_LAUNCH((pool_forward<V, false>), grid, THREADS, 0, stream, p);
  else if (max) SP_LAUNCH((pool_backward<V, true>), grid, THREADS, 0, stream, p);
  else SP_LAUNCH((pool_backward<V, false>), grid, THREADS, 0, stream, p);
  return launched();
}

/* So few lanes that there are blocks for all multiprocessors, but no fewer than read 64 bytes side by side. */
template <int V, class T> static int run_sum(void *stream, pool_args p, float scale) {
  int64_t units = p.x.c / V;
  int lanes = 1, least = static_cast<int>(64 / (V * sizeof(T)));
  while (lanes < LANES && lanes < units) lanes *= 2;
  while (lanes > least && up(units, lanes) * p.x.n < MANY) lanes /= 2;
  p.blocks = static_cast<uint32_t>(up(units, lanes));
  SP_LAUNCH_EARLY((sum_forward<V, T>), p.blocks * static_cast<unsigned>(p.x.n), THREADS, 0, stream, p, lanes, scale);
  return launched();
}

static int sum_over(void *stream, const pool_args &p, float scale) {
  int v = access(access(access(widest(&p.x), &p.y, p.y.c), &p.x, p.x.c), p.mask, p.y.elt, p.y.c);
  if (p.x.elt == NNK_F32) return v >= 4 ? run_sum<4, float>(stream, p, scale) : run_sum<1, float>(stream, p, scale);
  return v == 8   ? run_sum<8, __nv_bfloat16>(stream, p, scale)
         : v == 4 ? run_sum<4, __nv_bfloat16>(stream, p, scale)
                  : run_sum<1, __nv_bfloat16>(stream, p, scale);
}

static bool is_mean(int max, const nnk_map *x, const nnk_window &w) {
  int64_t px = pixels(*x);
  return !max && px > WHOLE && px <= MOST && w.k[0] == x->h && w.k[1] == x->w && !w.p[0] && !w.p[1];
}

static bool plain(const nnk_map *m) { return m->layout == 0 || pixels(*m) == 1; }

} // namespace nnk

using namespace nnk;

int nnk_pool_forward(void *stream, int max, const nnk_map *y, const nnk_map *x, nnk_window w) {
  if (!plain(y) || !plain(x)) return refused();
  if (elements(*y) == 0) return cudaSuccess;
  pool_args p = {*y, *x, nullptr, nullptr, 0, 0, w, 0};
  int v = access(access(widest(x), y, y->c), x, x->c);
  if (is_mean(max, x, w)) return sum_over(stream, p, 1 / static_cast<float>(pixels(*x)));
  return v == 8   ? run_pool<8>(stream, p, max, true)
         : v == 4 ? run_pool<4>(stream, p, max, true)
                  : run_pool<1>(stream, p, max, true);
}

int nnk_pool_backward(void *stream, int max, const nnk_map *dx, const nnk_map *dy, const nnk_map *x, nnk_window w,
                      const nnk_map *mask, int add) {
  if (!plain(dx) || !plain(dy) || (max && !plain(x))) return refused();
  if (elements(*dx) == 0) return cudaSuccess;
  pool_args p = {*dy, *dx, max ? x->p : nullptr, mask ? mask->p : nullptr, max ? x->elt : 0, add, w, 0};
  int v = access(access(access(access(widest(dx), dx, dx->c), dy, dy->c), max ? x : nullptr, dx->c), mask, dx->c);
  return v == 8   ? run_pool<8>(stream, p, max, false)
         : v == 4 ? run_pool<4>(stream, p, max, false)
                  : run_pool<1>(stream, p, max, false);
}

int nnk_sum_pixels(void *stream, const nnk_map *dst, const nnk_map *src, const nnk_map *mask, int add) {
  if (!plain(dst) || !plain(src) || pixels(*dst) != 1 || dst->c != src->c || pixels(*src) > MOST) return refused();
  if (elements(*dst) == 0) return cudaSuccess;
  return sum_over(stream, {*dst, *src, nullptr, mask ? mask->p : nullptr, 0, add, {}, 0}, 1);
}
