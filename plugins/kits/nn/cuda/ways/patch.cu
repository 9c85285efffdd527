/* SPDX-License-Identifier: MIT
 * patch.cu - the whole backward of a product with many rows and small weights in one pass over dy and x: each
 * block takes some tiles of rows, writes their dx and leaves a piece of dW and of the sums of dy's and dx's columns.
 *
 * Tensor cores take factors from registers that lie together, two of the one and four of the other. The sum of a
 * product may run in any order that both factors share, and so may the numbering of its rows and columns: here they
 * are read from shared memory as they are taken, so that no register is moved.
 */
#include "tile.cuh"

namespace nnk {

enum { TILE = 32 /* rows */, FEWEST = 4096 };

struct patch_args {
  float *dx;
  const float *dy, *x, *w;
  int relu, add, cols, data_cols;
  int64_t m, tiles;
  int steps;
  float *work; /* a piece: [n][k], then [cols], then [data_cols] */
};

template <int N, int K> struct patch {
  enum {
    GROUP = N * K / 2048, /* warps that share a tile, each with 2048 numbers of dW */
    GROUPS = GROUP == 1 ? 4 : 2,
    STAGES = GROUP == 1 ? 2 : 3,
    GROUP_THREADS = GROUP * 32,
    THREADS = GROUPS * GROUP_THREADS,
    AT_ONCE = GROUP == 1 ? 2 : 1, /* blocks on a multiprocessor */
    SN = N < 64 ? N : 64,         /* of dW: a warp has SN x SK */
    SK = 2048 / SN,
    XK = K / GROUP < 32 ? K / GROUP : 32, /* of dx: a warp has PARTS times a tile's rows by XK */
    PARTS = K / GROUP / XK,
    DY = TILE * N,
    STAGE = TILE * (N + K),
    SUMS = N * K + N + K,
    BYTES = (N * K + GROUPS * STAGES * STAGE) * 4
  };
  static_assert(GROUPS * SUMS <= GROUPS * STAGES * STAGE, "the sums take the tiles' place");

  /* What a warp adds up over all its tiles; lane (g, t) = (lane / 4, lane % 4). */
  float sums[SN / 16][SK / 8][4], bias[SN / 16][2], data[PARTS][XK / 16][2];
};

/* Where the 16 byte chunks of a tile's rows lie, so that lanes that read together have banks of their own: two
 * chunks of each of the rows t or t + 4, four chunks of a row and of the fourth one behind it. It is linear in the
 * bits of the row. */
__host__ __device__ constexpr int twist_tile(int row) { return (row & 1) << 2 ^ (row & 2) ^ (row & 4); }

/* Until all warps of the group are here. */
template <int GROUP> __device__ inline void meet(int group) {
#ifdef __CUDA_ARCH__
  if constexpr (GROUP == 1) __syncwarp();
  else asm volatile("bar.sync %0, %1;" : : "r"(group + 1), "n"(GROUP * 32) : "memory");
#else
  static_cast<void>(group);
  if (GROUP == 1) __syncwarp();
  else __syncthreads(); /* all groups take as many steps */
#endif
}

/* Rows are twisted; from `rows` on they become zeros and are not read. */
template <int WIDTH, int THREADS> __device__ inline void fetch(float *s, const float *from, int rows, int thread) {
  enum { CHUNKS = WIDTH / 4, STEP = THREADS / CHUNKS };
  static_assert(THREADS % CHUNKS == 0 && (STEP & (STEP - 1)) == 0, "a thread's rows differ in other bits");
  int row = thread / CHUNKS, chunk = thread % CHUNKS ^ twist_tile(row);
  from += thread * 4;
#pragma unroll
  for (int i = 0; i < TILE / STEP; i++)
    copy_chunk(s + (row + i * STEP) * WIDTH + (chunk ^ twist_tile(i * STEP)) * 4, from + i * THREADS * 4,
               row + i * STEP < rows);
}

/* w for the products of dx, transposed: [k / 16][n / 16][2][lane][4], lane (g, t) with columns 2 g and 2 g + 1 of
 * rows 4 t and 4 t + 1, then of the next two. */
template <int N, int K> __device__ inline void take_weights(float *s, const float *w) {
  for (int u = static_cast<int>(threadIdx.x); u < N * K / 4; u += patch<N, K>::THREADS) {
    int row = u % N, k = u / N * 4, to = (k / 16 * (N / 16) + row / 16) * 256 + row % 4 / 2 * 128;
    float4 v = rounded(four(w + row * K + k));
    float *lane = s + to + (k % 16 / 2 * 4 + row % 16 / 4) * 4 + row % 2 * 2;
    put_shared<2>(lane, &v.x);
    put_shared<2>(lane + 16, &v.z);
  }
}

/* ---- dW and the bias: a lane has columns 2 g and 2 g + 1 of each 16 of dy and g of each 8 of x ---- */
template <int N, int K>
__device__ inline void add_weights(patch<N, K> &a, const float *dy, const float *x, int n0, int k0, int lane) {
  enum { SN = patch<N, K>::SN, SK = patch<N, K>::SK };
  int g = lane / 4, t = lane % 4, top = twist_tile(t);
  dy += t * N + n0 + g % 2 * 2;
  x += t * K + k0 + g % 4;
#pragma unroll 2
  for (int row = 0; row < TILE; row += 8) {
    float of_x[SK / 8][2];
#pragma unroll
    for (int c = 0; c < SK / 8; c++) {
      int chunk = 2 * c + g / 4;
      of_x[c][0] = factor_of(x[row * K + (chunk ^ top) * 4]);
      of_x[c][1] = factor_of(x[(row + 4) * K + (chunk ^ top ^ 4) * 4]);
    }
#pragma unroll
    for (int i = 0; i < SN / 16; i++) {
      int chunk = 4 * i + g / 2;
      float2 u = two(dy + row * N + (chunk ^ top) * 4), v = two(dy + (row + 4) * N + (chunk ^ top ^ 4) * 4);
      a.bias[i][0] += u.x + v.x, a.bias[i][1] += u.y + v.y;
      const float of_dy[4] = {factor_of(u.x), factor_of(u.y), factor_of(v.x), factor_of(v.y)};
#pragma unroll
      for (int c = 0; c < SK / 8; c++) product(a.sums[i][c], of_dy, of_x[c]);
    }
  }
}

/* ---- dx, transposed: columns k0 .. k0 + XK - 1 of the tile's rows, of which a lane has t and t + 4 of each 8 ---- */
template <int N, int K>
__device__ inline void write_data(const patch_args &p, const float *dy, const float *x, const float *w, int64_t first,
                                  int rows, int k0, int lane, float (*columns)[2]) {
  enum { WIDE = patch<N, K>::XK / 16 };
  int g = lane / 4, t = lane % 4, mine = g / 2 + g % 2 * 4;
  float sums[WIDE][TILE / 8][4];
#pragma unroll
  for (int i = 0; i < WIDE * TILE / 2; i++) sums[i / (TILE / 2)][i / 4 % (TILE / 8)][i % 4] = 0;
  w += k0 * N + lane * 4;
  dy += mine * N;
#pragma unroll 4
  for (int nb = 0; nb < N / 16; nb++) {
    float4 of_dy[TILE / 8];
#pragma unroll
    for (int i = 0; i < TILE / 8; i++) of_dy[i] = rounded(four(dy + 8 * i * N + ((4 * nb + t) ^ twist_tile(mine)) * 4));
#pragma unroll
    for (int f = 0; f < WIDE; f++) {
      float4 begin = four(w + (f * (N / 16) + nb) * 256), end = four(w + (f * (N / 16) + nb) * 256 + 128);
#pragma unroll
      for (int i = 0; i < TILE / 8; i++) product(sums[f][i], &begin.x, &of_dy[i].x);
#pragma unroll
      for (int i = 0; i < TILE / 8; i++) product(sums[f][i], &end.x, &of_dy[i].z);
    }
  }
#pragma unroll
  for (int i = 0; i < TILE / 4; i++) {
    int row = i / 2 * 8 + i % 2 * 4 + t, twisted = twist_tile(t) ^ twist_tile(i % 2 * 4);
    if (row >= rows) continue;
#pragma unroll
    for (int f = 0; f < WIDE; f++) {
      int k = k0 + 16 * f + 2 * g;
      float2 v = {sums[f][i / 2][i % 2], sums[f][i / 2][i % 2 + 2]};
      float2 *to = reinterpret_cast<float2 *>(p.dx + (first + row) * K + k);
      if (p.add) {
        float2 old = *to;
        v.x += old.x, v.y += old.y;
      }
      if (p.relu) {
        float2 m = two(x + row * K + (k / 4 ^ twisted) * 4 + g % 2 * 2);
        v.x = m.x > 0 ? v.x : 0, v.y = m.y > 0 ? v.y : 0;
      }
      *to = v;
      columns[f][0] += v.x, columns[f][1] += v.y;
    }
  }
}

/* ---- a block's piece ---- */
template <int N, int K> __device__ inline void put_sums(patch<N, K> &a, float *s, int warp, int n0, int k0, int lane) {
  enum { SN = patch<N, K>::SN, SK = patch<N, K>::SK, PARTS = patch<N, K>::PARTS, XK = patch<N, K>::XK };
  int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < SN / 16; i++)
#pragma unroll
    for (int c = 0; c < SK / 8; c++) {
      float *to = s + (n0 + 16 * i + 2 * g) * K + k0 + 8 * c + 2 * t;
      put_shared<2>(to, a.sums[i][c]);
      put_shared<2>(to + K, a.sums[i][c] + 2);
    }
#pragma unroll
  for (int i = 0; i < SN / 8; i++) {
    float v = a.bias[i / 2][i % 2];
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    v += __shfl_xor_sync(0xffffffffu, v, 2);
    if (t == 0 && k0 == 0) s[N * K + n0 + i / 2 * 16 + 2 * g + i % 2] = v;
  }
#pragma unroll
  for (int i = 0; i < PARTS * XK / 8; i++) {
    float v = a.data[i * 8 / XK][i / 2 % (XK / 16)][i % 2];
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    v += __shfl_xor_sync(0xffffffffu, v, 2);
    if (t == 0) s[N * K + N + warp * PARTS * XK + i / 2 * 16 + 2 * g + i % 2] = v;
  }
}

/* Sums of columns i, i + cols, ... of all groups. */
template <class P> __device__ inline void leave_columns(float *to, const float *s, int width, int cols) {
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += P::THREADS) {
    float v = 0;
    for (int n = i; n < width; n += cols)
      for (int group = 0; group < P::GROUPS; group++) v += s[group * P::SUMS + n];
    to[i] = v;
  }
}

template <int N, int K> __device__ inline void leave_piece(const patch_args &p, const float *s) {
  enum { SUMS = patch<N, K>::SUMS, GROUPS = patch<N, K>::GROUPS };
  float *to = p.work + static_cast<int64_t>(blockIdx.x) * (N * K + p.cols + p.data_cols);
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < N * K; i += patch<N, K>::THREADS) {
    float v = s[i];
#pragma unroll
    for (int group = 1; group < GROUPS; group++) v += s[group * SUMS + i];
    to[i] = v;
  }
  leave_columns<patch<N, K>>(to + N * K, s + N * K, N, p.cols);
  leave_columns<patch<N, K>>(to + N * K + p.cols, s + N * K + N, K, p.data_cols);
}

template <int N, int K>
__global__ void __launch_bounds__(patch<N, K>::THREADS, patch<N, K>::AT_ONCE) patch_backward(patch_args p) {
  typedef patch<N, K> P;
  SP_DYNAMIC_SHARED(float, shared);
  int thread = static_cast<int>(threadIdx.x), lane = thread % 32, group = thread / P::GROUP_THREADS;
  int warp = thread / 32 % P::GROUP, n0 = warp / (K / P::SK) * P::SN, k0 = warp % (K / P::SK) * P::SK;
  float *tiles = shared + N * K, *mine = tiles + group * P::STAGES * P::STAGE;
  P sums;
#pragma unroll
  for (int i = 0; i < P::SN / 16 * (P::SK / 8) * 4; i++) sums.sums[i / 4 / (P::SK / 8)][i / 4 % (P::SK / 8)][i % 4] = 0;
#pragma unroll
  for (int i = 0; i < P::SN / 8; i++) sums.bias[i / 2][i % 2] = 0;
#pragma unroll
  for (int i = 0; i < P::PARTS * P::XK / 8; i++) sums.data[i * 8 / P::XK][i / 2 % (P::XK / 16)][i % 2] = 0;

  auto tile_of = [&](int step) { return (static_cast<int64_t>(step) * gridDim.x + blockIdx.x) * P::GROUPS + group; };
  auto rows_of = [&](int64_t tile) {
    int64_t rows = p.m - tile * TILE;
    return rows < TILE ? static_cast<int>(rows) : static_cast<int>(TILE);
  };
  auto begin = [&](int step) {
    int64_t tile = tile_of(step);
    if (step < p.steps && tile < p.tiles) {
      float *to = mine + step % P::STAGES * P::STAGE;
      int within = thread % P::GROUP_THREADS, rows = rows_of(tile);
      fetch<N, P::GROUP_THREADS>(to, p.dy + tile * TILE * N, rows, within);
      fetch<K, P::GROUP_THREADS>(to + P::DY, p.x + tile * TILE * K, rows, within);
    }
    end_stage();
  };

#pragma unroll
  for (int step = 0; step < P::STAGES - 1; step++) begin(step);
  take_weights<N, K>(shared, p.w);
  __syncthreads();
#pragma unroll 1
  for (int step = 0; step < p.steps; step++) {
    wait_stage<P::STAGES - 2>();
    meet<P::GROUP>(group); /* the tile is there, and the one before is done with */
    begin(step + P::STAGES - 1);
    int64_t tile = tile_of(step);
    if (tile >= p.tiles) continue;
    const float *dy = mine + step % P::STAGES * P::STAGE, *x = dy + P::DY;
    add_weights(sums, dy, x, n0, k0, lane);
#pragma unroll
    for (int part = 0; part < P::PARTS; part++)
      write_data<N, K>(p, dy, x, shared, tile * TILE, rows_of(tile), (warp * P::PARTS + part) * P::XK, lane,
                       sums.data[part]);
  }
  __syncthreads();
  put_sums(sums, tiles + group * P::SUMS, warp, n0, k0, lane);
  __syncthreads();
  leave_piece<N, K>(p, tiles);
}

/* ---- the shapes ---- */
struct shape {
  int64_t n, k;
  void (*kernel)(patch_args p);
  int threads, bytes, groups, at_once;
};

template <int N, int K> static shape shape_as() {
  typedef patch<N, K> P;
  return {N, K, &patch_backward<N, K>, P::THREADS, P::BYTES, P::GROUPS, P::AT_ONCE};
}

/* n 0: there is no kernel. */
static shape shape_of(int64_t n, int64_t k) {
  if (n == 64 && k == 32) return shape_as<64, 32>();
  if (n == 128 && k == 64) return shape_as<128, 64>();
  if (n == 32 && k == 64) return shape_as<32, 64>();
  if (n == 64 && k == 128) return shape_as<64, 128>();
  return {};
}

struct cutting {
  int64_t tiles;
  int steps, blocks;
};

/* As few blocks as take the tiles in as many steps. */
static cutting cutting_of(const shape &s, int64_t m, int multiprocessors) {
  int64_t most = std::max<int64_t>(1, multiprocessors) * s.at_once;
  int64_t tiles = up(m, TILE), steps = up(tiles, most * s.groups);
  return {tiles, static_cast<int>(steps), static_cast<int>(up(tiles, steps * s.groups))};
}

static bool aligned(const void *p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

} // namespace nnk

using namespace nnk;

int nnk_patch(int64_t m, int64_t n, int64_t k, int elt, int tf32, size_t shared_bytes) {
  shape s = shape_of(n, k);
  return s.n && m >= FEWEST && elt == NNK_F32 && tf32 && static_cast<size_t>(s.bytes) <= shared_bytes;
}

/* All that a multiprocessor has: two blocks are to fit where they can. */
int nnk_patch_prepare(int64_t n, int64_t k) {
  shape s = shape_of(n, k);
  const void *kernel = reinterpret_cast<const void *>(s.kernel);
  if (!s.n) return refused();
  int st = static_cast<int>(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, s.bytes));
  return st ? st
            : static_cast<int>(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                                    cudaSharedmemCarveoutMaxShared));
}

size_t nnk_patch_work(int64_t m, int64_t n, int64_t k, int multiprocessors) {
  shape s = shape_of(n, k);
  if (!s.n || m <= 0) return 0;
  return static_cast<size_t>(cutting_of(s, m, multiprocessors).blocks * (n * k + n + k)) * sizeof(float);
}

int nnk_patch_backward(void *stream, float *dx, int add, int relu, const float *dy, const float *x, const float *w,
                       int64_t cols, int64_t data_cols, int64_t m, int64_t n, int64_t k, float *work, int64_t *pieces,
                       int multiprocessors) {
  shape s = shape_of(n, k);
  if (!s.n || m <= 0 || cols <= 0 || n % cols || data_cols <= 0 || k % data_cols || !aligned(dx) || !aligned(dy) ||
      !aligned(x) || !aligned(w))
    return refused();
  cutting c = cutting_of(s, m, multiprocessors);
  patch_args p = {dx, dy,      x,       w,   relu, add, static_cast<int>(cols), static_cast<int>(data_cols),
                  m,  c.tiles, c.steps, work};
  SP_LAUNCH(s.kernel, static_cast<unsigned>(c.blocks), static_cast<unsigned>(s.threads), static_cast<size_t>(s.bytes),
            stream, p);
  *pieces = c.blocks;
  return launched();
}
