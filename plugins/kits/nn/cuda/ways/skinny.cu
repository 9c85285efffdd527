/* SPDX-License-Identifier: MIT
 * skinny.cu - matrix products with few rows, which are bound by reading the weights once: every block reads a part
 * of them as wide as it can and leaves a piece of the result, and the pieces are summed in order.
 */
#include "../kit.cuh"

namespace nnk {

/* FEW: rows of y that a thread has; SHARED: numbers of x that a block has. */
enum { THREADS = 256, WARPS = THREADS / 32, FEW = 8, SHARED = 8192 };

struct skinny_args {
  const void *x; /* [m][k]; dy [m][n] in data and weight */
  const void *w; /* [n][k]; in weight x [m][k] */
  int elt;
  int64_t m, n, k, blocks; /* blocks side by side, the rest being pieces */
  float *work;
};

/* Sums over the lanes. Each step halves what a lane still sums, so that in the end lane l has sums l * SUMS / LANES ...
 * of the whole. */
template <int SUMS, int LANES> __device__ inline void over_lanes(float *sums, int lane) {
  if constexpr (LANES > 1) {
    bool upper = lane & (LANES / 2);
#pragma unroll
    for (int i = 0; i < SUMS / 2; i++) {
      float mine = upper ? sums[i + SUMS / 2] : sums[i], other = upper ? sums[i] : sums[i + SUMS / 2];
      sums[i] = mine + __shfl_xor_sync(0xffffffffu, other, LANES / 2);
    }
    over_lanes<SUMS / 2, LANES / 2>(sums, lane);
  }
}

/* ---- y = x w': GROUPS groups of lanes have FEW rows of y each, a warp has ROWS rows of w ---- */
template <int GROUPS, int ROWS, int V, typename W>
__global__ void __launch_bounds__(THREADS, ROWS == 4 ? 3 : 2) skinny_forward(skinny_args p) {
  enum { LANES = 32 / GROUPS, CHUNK = SHARED / (FEW * GROUPS), SUMS = ROWS * FEW };
  __shared__ __align__(16) float x[FEW * GROUPS][CHUNK];
  int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % LANES, group = thread % 32 / LANES;
  int64_t piece = blockIdx.x / p.blocks, row0 = ((blockIdx.x - piece * p.blocks) * WARPS + warp) * ROWS;
  int64_t k0 = piece * CHUNK;
  int count = static_cast<int>(min(static_cast<int64_t>(CHUNK), p.k - k0));
#pragma unroll 4
  for (int i = thread * V; i < FEW * GROUPS * CHUNK; i += THREADS * V) {
    int m = i / CHUNK, k = i % CHUNK;
    float v[V];
    for (int j = 0; j < V; j++) v[j] = 0;
    if (m < p.m && k < count) load<V>(v, p.x, p.elt, m * p.k + k0 + k);
    for (int j = 0; j < V; j++) x[m][k + j] = v[j];
  }
  __syncthreads();
  if (row0 >= p.n) return;
  const W *w = static_cast<const W *>(p.w) + row0 * p.k + k0;
  uint32_t row[ROWS]; /* of w; the last one stands in for those that are not there */
  float sums[SUMS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) row[r] = static_cast<uint32_t>(min(static_cast<int64_t>(r), p.n - 1 - row0) * p.k);
#pragma unroll
  for (int i = 0; i < SUMS; i++) sums[i] = 0;
#pragma unroll 1
  for (int k = lane * V; k < count; k += LANES * V) {
    float f[ROWS][V];
#pragma unroll
    for (int r = 0; r < ROWS; r++) load<V>(f[r], w, row[r] + static_cast<uint32_t>(k));
#pragma unroll
    for (int m = 0; m < FEW; m++) {
      float v[V];
      load<V>(v, x[group * FEW + m], k);
#pragma unroll
      for (int i = 0; i < ROWS * V; i++) sums[i / V * FEW + m] = fmaf(v[i % V], f[i / V][i % V], sums[i / V * FEW + m]);
    }
  }
  over_lanes<SUMS, LANES>(sums, lane);
#pragma unroll
  for (int i = 0; i < SUMS / LANES; i++) {
    int sum = lane * (SUMS / LANES) + i, m = group * FEW + sum % FEW;
    int64_t n = row0 + sum / FEW;
    if (m < p.m && n < p.n) p.work[(piece * p.m + m) * p.n + n] = sums[i];
  }
}

/* ---- dx = dy w: a thread has V columns and all M rows of dx; the warps of a block share the rows of w ---- */
template <int M> struct data_cut {
  enum { ROWS = M == 32 ? 256 : 512 };
};

template <int M, int V, typename W>
__global__ void __launch_bounds__(THREADS, M == 8 ? 4 : 2) skinny_data(skinny_args p) {
  enum { ROWS = data_cut<M>::ROWS, COLUMNS = 32 * V, HALF = WARPS / 2 * M * COLUMNS };
  __shared__ __align__(16) float s[ROWS * M > HALF ? ROWS * M : HALF]; /* [row][m] of dy; then [warp][m][column] */
  int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  int64_t piece = blockIdx.x / p.blocks, column = (blockIdx.x - piece * p.blocks) * COLUMNS + lane * V;
  int64_t n0 = piece * ROWS;
  int count = static_cast<int>(min(static_cast<int64_t>(ROWS), p.n - n0));
#pragma unroll 4
  for (int i = thread; i < ROWS * M; i += THREADS) {
    int m = i / ROWS, row = i % ROWS;
    float v = 0;
    if (m < p.m && row < count) load<1>(&v, p.x, p.elt, m * p.n + n0 + row);
    s[row * M + m] = v;
  }
  __syncthreads();
  float sums[M][V];
#pragma unroll
  for (int i = 0; i < M * V; i++) sums[i / V][i % V] = 0;
  if (column < p.k) {
    const W *w = static_cast<const W *>(p.w) + (n0 + warp) * p.k + column;
#pragma unroll 4
    for (int row = warp; row < count; row += WARPS, w += WARPS * p.k) {
      float f[V];
      load<V>(f, w, 0);
#pragma unroll
      for (int m = 0; m < M; m += 4) {
        float g[4];
        load<4>(g, s, row * M + m);
#pragma unroll
        for (int i = 0; i < 4 * V; i++) sums[m + i / V][i % V] = fmaf(g[i / V], f[i % V], sums[m + i / V][i % V]);
      }
    }
  }
  for (int half = WARPS / 2; half > 0; half /= 2) {
    float *at = s + warp % half * M * COLUMNS + lane * V;
    __syncthreads();
    if (warp >= half && warp < 2 * half) {
#pragma unroll
      for (int i = 0; i < M * V; i++) at[i / V * COLUMNS + i % V] = sums[i / V][i % V];
    }
    __syncthreads();
    if (warp < half) {
#pragma unroll
      for (int i = 0; i < M * V; i++) sums[i / V][i % V] += at[i / V * COLUMNS + i % V];
    }
  }
  if (warp || column >= p.k) return;
#pragma unroll
  for (int m = 0; m < M; m++)
    if (m < p.m) store<V>(p.work, NNK_F32, (piece * p.m + m) * p.k + column, sums[m]);
}

/* ---- the sums of the pieces, on their way to y or dx ---- */
struct end_args {
  void *y;
  const void *mask;
  const float *bias, *work;
  int elt, relu, add;
  int64_t n, count, pieces; /* numbers of a row; of all rows */
};

__global__ void __launch_bounds__(THREADS) skinny_end(end_args p) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  float v = 0;
  if (i >= p.count) return;
#pragma unroll 8
  for (int64_t piece = 0; piece < p.pieces; piece++) v += p.work[piece * p.count + i];
  if (p.bias) v += p.bias[i % p.n];
  if (p.relu) v = relu_of(v);
  store_grad<1>(p.y, p.elt, i, &v, p.add, p.mask);
}

static int run_end(void *stream, const end_args &p) {
  int st = launched();
  if (st) return st;
  SP_LAUNCH(skinny_end, static_cast<unsigned>(up(p.count, THREADS)), THREADS, 0, stream, p);
  return launched();
}

/* ---- dw = dy' x: a thread has V columns of x and goes down some rows of dw ---- */
enum { AHEAD = 4 }; /* rows of dw that are read while as many before them are summed */
enum { DOWN = 32 }; /* rows of a block */

/* dw is read and written once, and is not to drive out of the caches what others need. */
template <int V> __device__ inline void stream_in(float *v, const float *p) {
  if constexpr (V == 4) {
    float4 t = __ldcs(reinterpret_cast<const float4 *>(p));
    v[0] = t.x, v[1] = t.y, v[2] = t.z, v[3] = t.w;
  } else if constexpr (V == 2) {
    float2 t = __ldcs(reinterpret_cast<const float2 *>(p));
    v[0] = t.x, v[1] = t.y;
  } else {
    v[0] = __ldcs(p);
  }
}

template <int V> __device__ inline void stream_out(float *p, const float *v) {
  if constexpr (V == 4) __stcs(reinterpret_cast<float4 *>(p), make_float4(v[0], v[1], v[2], v[3]));
  else if constexpr (V == 2) __stcs(reinterpret_cast<float2 *>(p), make_float2(v[0], v[1]));
  else __stcs(p, v[0]);
}

/* Of the next AHEAD rows those that are there; rows: from the first of them to the end. */
template <int V> __device__ inline void old_rows(float (&old)[AHEAD][V], const float *at, int64_t k, int rows) {
#pragma unroll
  for (int r = 0; r < AHEAD; r++)
    if (r < rows) stream_in<V>(old[r], at + r * k);
}

template <int M, int V, bool ADD>
__device__ inline void new_rows(float *to, int64_t k, int rows, const float (&old)[AHEAD][V], const float (&x)[M][V],
                                const float (*dy)[M], float alpha) {
#pragma unroll
  for (int r = 0; r < AHEAD; r++) {
    float sums[V];
#pragma unroll
    for (int j = 0; j < V; j++) sums[j] = 0;
#pragma unroll
    for (int m = 0; m < M; m += 4) {
      float g[4];
      load<4>(g, dy[r], m);
#pragma unroll
      for (int i = 0; i < 4 * V; i++) sums[i % V] = fmaf(g[i / V], x[m + i / V][i % V], sums[i % V]);
    }
#pragma unroll
    for (int j = 0; j < V; j++) sums[j] = sum_of(alpha, sums[j], ADD, ADD ? old[r][j] : 0);
    if (r < rows) stream_out<V>(to + r * k, sums);
  }
}

template <int M, int V, bool ADD>
__global__ void __launch_bounds__(THREADS, M == 8 ? 3 : 2) skinny_weight(skinny_args p, nnk_sum dw) {
  __shared__ __align__(16) float dy[DOWN][M];
  int64_t down = blockIdx.x / p.blocks, column = ((blockIdx.x - down * p.blocks) * THREADS + threadIdx.x) * V;
  int64_t n0 = down * DOWN, k = p.k;
  int count = static_cast<int>(min(static_cast<int64_t>(DOWN), p.n - n0));
  float *to = dw.p + n0 * k + column, old[2][AHEAD][V];
  if (ADD && column < k) old_rows<V>(old[0], to, k, count);
  for (int i = static_cast<int>(threadIdx.x); i < DOWN * M; i += THREADS) {
    int m = i / DOWN, row = i % DOWN;
    float v = 0;
    if (m < p.m && row < count) load<1>(&v, p.x, p.elt, m * p.n + n0 + row);
    dy[row][m] = v;
  }
  float x[M][V], alpha = dw.scale ? *dw.scale : 1;
#pragma unroll
  for (int m = 0; m < M; m++) {
#pragma unroll
    for (int j = 0; j < V; j++) x[m][j] = 0;
    if (m < p.m && column < k) load<V>(x[m], p.w, p.elt, m * k + column);
  }
  __syncthreads();
  if (column >= k) return;
  for (int row = 0; row < count; row += 2 * AHEAD, to += 2 * AHEAD * k) {
    float *next = to + AHEAD * k;
    if (ADD) old_rows<V>(old[1], next, k, count - row - AHEAD);
    new_rows<M, V, ADD>(to, k, count - row, old[0], x, dy + row, alpha);
    if (ADD) old_rows<V>(old[0], next + AHEAD * k, k, count - row - 2 * AHEAD);
    new_rows<M, V, ADD>(next, k, count - row - AHEAD, old[1], x, dy + row + AHEAD, alpha);
  }
}

static int groups_of(int64_t m) { return m <= 8 ? 1 : m <= 16 ? 2 : 4; }

static int64_t forward_pieces(int64_t m, int64_t k) { return up(k, SHARED / (FEW * groups_of(m))); }
static int64_t data_pieces(int64_t m, int64_t n) { return up(n, m <= 16 ? 512 : 256); }

template <int GROUPS, int ROWS, typename W> static void start_forward(void *stream, skinny_args p, int v) {
  p.blocks = up(p.n, WARPS * ROWS);
  unsigned grid = static_cast<unsigned>(p.blocks * forward_pieces(p.m, p.k));
  if (v == 4) SP_LAUNCH((skinny_forward<GROUPS, ROWS, 4, W>), grid, THREADS, 0, stream, p);
  else SP_LAUNCH((skinny_forward<GROUPS, ROWS, 1, W>), grid, THREADS, 0, stream, p);
}

template <typename W> static void start_forward(void *stream, const skinny_args &p, int v) {
  if (p.m <= 8) start_forward<1, 4, W>(stream, p, v);
  else if (p.m <= 16) start_forward<2, 8, W>(stream, p, v);
  else start_forward<4, 8, W>(stream, p, v);
}

template <int M, int V, typename W> static void start_data(void *stream, skinny_args p, int v) {
  p.blocks = up(p.k, 32 * v);
  unsigned grid = static_cast<unsigned>(p.blocks * data_pieces(p.m, p.n));
  if (v == V) SP_LAUNCH((skinny_data<M, V, W>), grid, THREADS, 0, stream, p);
  else SP_LAUNCH((skinny_data<M, 1, W>), grid, THREADS, 0, stream, p);
}

template <typename W> static void start_data(void *stream, const skinny_args &p) {
  int v = access(4, p.w, std::is_same<W, float>::value ? NNK_F32 : NNK_BF16, p.k);
  if (p.m <= 8) start_data<8, 4, W>(stream, p, v == 4 ? 4 : 1);
  else if (p.m <= 16) start_data<16, 4, W>(stream, p, v == 4 ? 4 : 1);
  else start_data<32, 2, W>(stream, p, v >= 2 ? 2 : 1);
}

template <int M, int V> static int start_weight(void *stream, skinny_args p, const nnk_sum &dw) {
  p.blocks = up(p.k, static_cast<int64_t>(THREADS) * V);
  unsigned grid = static_cast<unsigned>(p.blocks * up(p.n, DOWN));
  if (dw.add) SP_LAUNCH((skinny_weight<M, V, true>), grid, THREADS, 0, stream, p, dw);
  else SP_LAUNCH((skinny_weight<M, V, false>), grid, THREADS, 0, stream, p, dw);
  return launched();
}

template <int M, int V> static int run_weight(void *stream, const skinny_args &p, const nnk_sum &dw) {
  int v = access(access(V, p.w, p.elt, p.k), dw.p, NNK_F32, p.k);
  return v == V ? start_weight<M, V>(stream, p, dw) : start_weight<M, 1>(stream, p, dw);
}

} // namespace nnk

using namespace nnk;

size_t nnk_skinny_work(int64_t m, int64_t n, int64_t k) {
  size_t most = 0;
  for (int64_t rows = m < 8 ? m : 8;; rows = rows < 16 && m > 16 ? 16 : m) { /* pieces are larger for fewer rows */
    int64_t forward = forward_pieces(rows, k) * rows * n, data = data_pieces(rows, n) * rows * k;
    size_t here = static_cast<size_t>(forward > data ? forward : data) * sizeof(float);
    if (here > most) most = here;
    if (rows == m) return most;
  }
}

int nnk_skinny_forward(void *stream, int elt, void *y, const void *x, int welt, const void *w, const float *bias,
                       int relu, int64_t m, int64_t n, int64_t k, void *work) {
  if (m > NNK_SKINNY) return refused();
  if (m == 0 || n == 0) return cudaSuccess;
  skinny_args p = {x, w, elt, m, n, k, 0, static_cast<float *>(work)};
  int v = access(access(4, x, elt, k), w, welt, k);
  if (welt == NNK_F32) start_forward<float>(stream, p, v);
  else start_forward<__nv_bfloat16>(stream, p, v);
  return run_end(stream, {y, nullptr, bias, p.work, elt, relu, 0, n, m * n, forward_pieces(m, k)});
}

int nnk_skinny_data(void *stream, int elt, void *dx, const void *dy, int welt, const void *w, const void *mask, int add,
                    int64_t m, int64_t n, int64_t k, void *work) {
  if (m > NNK_SKINNY) return refused();
  if (m == 0 || k == 0) return cudaSuccess;
  skinny_args p = {dy, w, elt, m, n, k, 0, static_cast<float *>(work)};
  if (welt == NNK_F32) start_data<float>(stream, p);
  else start_data<__nv_bfloat16>(stream, p);
  return run_end(stream, {dx, mask, nullptr, p.work, elt, 0, add, k, m * k, data_pieces(m, n)});
}

int nnk_skinny_weight(void *stream, int elt, nnk_sum dw, const void *dy, const void *x, int64_t m, int64_t n,
                      int64_t k) {
  skinny_args p = {dy, x, elt, m, n, k, 0, nullptr};
  if (m > NNK_SKINNY) return refused();
  if (m == 0 || n == 0 || k == 0) return cudaSuccess;
  if (m <= 8) return run_weight<8, 4>(stream, p, dw);
  if (m <= 16) return run_weight<16, 4>(stream, p, dw);
  return run_weight<32, 2>(stream, p, dw);
}
