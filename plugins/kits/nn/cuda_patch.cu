/* SPDX-License-Identifier: MIT
 * cuda_patch.cu - the whole backward of a product with many rows and small weights in one pass over dy and x: each
 * block takes some tiles of rows, writes their dx and leaves a piece of dW and of the sums of dy's and dx's columns.
 *
 * The sum of a product may run in any order that both factors share, and so may the numbering of its rows and columns:
 * here four numbers that lie together always belong to one lane, so that all of shared memory is read by 16 bytes.
 */
#include "cuda_tile.cuh"

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
    MOST_BLOCKS = 132 * AT_ONCE,
    SN = N < 64 ? N : 64, /* of dW: a warp has SN x SK */
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
  float sums[SN / 16][SK / 8][4], bias[SN / 32][4], data[PARTS][XK / 16][4];
};

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
  static_assert(THREADS % CHUNKS == 0 && STEP % 2 == 0, "twist() of a thread's rows alternates between two numbers");
  int row = thread / CHUNKS, chunk = thread % CHUNKS ^ twist(row);
  from += thread * 4;
#pragma unroll
  for (int i = 0; i < TILE / STEP; i++)
    copy_chunk(s + (row + i * STEP) * WIDTH + (chunk ^ (i * STEP & 2)) * 4, from + i * THREADS * 4,
               row + i * STEP < rows);
}

/* w for the products of dx: [n / 16][k / 8][lane][4], lane (g, t) with rows 4 t .. 4 t + 3 of one column; columns 2 j
 * and 2 j + 1 of an even and an odd eight are neighbours. */
template <int N, int K> __device__ inline void take_weights(float *s, const float *w) {
  for (int u = static_cast<int>(threadIdx.x); u < N * K / 4; u += patch<N, K>::THREADS) {
    int row = u % N, c = u / N, to = row / 16 * (K / 8) + c / 4 * 2, t = row % 16 / 4;
    float4 v = rounded(four(w + row * K + c * 4));
    const float all[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) s[((to + i / 2) * 32 + (c % 4 * 2 + i % 2) * 4 + t) * 4 + row % 4] = all[i];
  }
}

/* ---- dW and the bias: the rows of dy^T are numbered 4 g + i, the columns of x too ---- */
template <int N, int K>
__device__ inline void add_weights(patch<N, K> &a, const float *dy, const float *x, int n0, int k0, int lane) {
  enum { SN = patch<N, K>::SN, SK = patch<N, K>::SK };
  int g = lane / 4, t = lane % 4, chunk = (g ^ twist(t)) * 4;
  dy += t * N + n0 + chunk;
  x += t * K + k0 + chunk;
#pragma unroll 2
  for (int row = 0; row < TILE; row += 8) {
    float4 top[SK / 32], bottom[SK / 32];
#pragma unroll
    for (int i = 0; i < SK / 32; i++) {
      top[i] = rounded(four(x + row * K + i * 32));
      bottom[i] = rounded(four(x + (row + 4) * K + i * 32));
    }
#pragma unroll
    for (int i = 0; i < SN / 32; i++) {
      float4 u = four(dy + row * N + i * 32), v = four(dy + (row + 4) * N + i * 32);
      a.bias[i][0] += u.x + v.x, a.bias[i][1] += u.y + v.y, a.bias[i][2] += u.z + v.z, a.bias[i][3] += u.w + v.w;
      u = rounded(u), v = rounded(v);
      const float even[4] = {u.x, u.y, v.x, v.y}, odd[4] = {u.z, u.w, v.z, v.w};
#pragma unroll
      for (int j = 0; j < SK / 32; j++) {
        const float b[4][2] = {
            {top[j].x, bottom[j].x}, {top[j].y, bottom[j].y}, {top[j].z, bottom[j].z}, {top[j].w, bottom[j].w}};
#pragma unroll
        for (int c = 0; c < 4; c++) {
          product(a.sums[2 * i][4 * j + c], even, b[c]);
          product(a.sums[2 * i + 1][4 * j + c], odd, b[c]);
        }
      }
    }
  }
}

/* ---- dx: columns k0 .. k0 + XK - 1 of the tile's rows ---- */
template <int N, int K>
__device__ inline void write_data(const patch_args &p, const float *dy, const float *x, const float *w, int64_t first,
                                  int rows, int k0, int lane, float (*columns)[4]) {
  enum { NT = patch<N, K>::XK / 8 };
  int g = lane / 4, t = lane % 4, flip = twist(g);
  float sums[2][NT][4];
#pragma unroll
  for (int i = 0; i < 2 * NT * 4; i++) sums[i / (NT * 4)][i / 4 % NT][i % 4] = 0;
  w += (k0 / 8 * 32 + lane) * 4;
#pragma unroll 4
  for (int nb = 0; nb < N / 16; nb++) {
    float4 a[4];
#pragma unroll
    for (int i = 0; i < 4; i++) a[i] = rounded(four(dy + (8 * i + g) * N + ((4 * nb + t) ^ flip) * 4));
#pragma unroll
    for (int nt = 0; nt < NT; nt++) {
      float4 b = four(w + (nb * (K / 8) + nt) * 128);
      const float left[2] = {b.x, b.y}, right[2] = {b.z, b.w};
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const float4 &u = a[2 * i], &v = a[2 * i + 1];
        const float begin[4] = {u.x, v.x, u.y, v.y}, end[4] = {u.z, v.z, u.w, v.w};
        product(sums[i][nt], begin, left);
        product(sums[i][nt], end, right);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4 * (NT / 2); i++) {
    int part = i / (NT / 2), nt = i % (NT / 2) * 2, row = part * 8 + g, k = k0 + nt * 8 + t * 4, c = part % 2 * 2;
    const float *even = sums[part / 2][nt] + c, *odd = sums[part / 2][nt + 1] + c;
    float4 v = {even[0], even[1], odd[0], odd[1]};
    if (row >= rows) continue;
    float4 *to = reinterpret_cast<float4 *>(p.dx + (first + row) * K + k);
    if (p.add) {
      float4 old = *to;
      v.x += old.x, v.y += old.y, v.z += old.z, v.w += old.w;
    }
    if (p.relu) {
      float4 m = four(x + row * K + (k / 4 ^ flip) * 4);
      v.x = m.x > 0 ? v.x : 0, v.y = m.y > 0 ? v.y : 0, v.z = m.z > 0 ? v.z : 0, v.w = m.w > 0 ? v.w : 0;
    }
    *to = v;
    float *of = columns[nt / 2];
    of[0] += v.x, of[1] += v.y, of[2] += v.z, of[3] += v.w;
  }
}

/* ---- a block's piece ---- */
template <int N, int K> __device__ inline void put_sums(patch<N, K> &a, float *s, int warp, int n0, int k0, int lane) {
  enum { SN = patch<N, K>::SN, SK = patch<N, K>::SK, PARTS = patch<N, K>::PARTS, XK = patch<N, K>::XK };
  int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < SN / 16; i++)
#pragma unroll
    for (int j = 0; j < SK / 32; j++)
#pragma unroll
      for (int c = 0; c < 4; c++) {
        int n = n0 + i / 2 * 32 + 4 * g + i % 2 * 2 + c / 2, k = k0 + j * 32 + 8 * t + c % 2 * 4;
        const float v[4] = {a.sums[i][4 * j][c], a.sums[i][4 * j + 1][c], a.sums[i][4 * j + 2][c],
                            a.sums[i][4 * j + 3][c]};
        put_shared<4>(s + n * K + k, v);
      }
#pragma unroll
  for (int i = 0; i < SN / 32; i++)
#pragma unroll
    for (int c = 0; c < 4; c++) {
      float v = a.bias[i][c];
      v += __shfl_xor_sync(0xffffffffu, v, 1);
      v += __shfl_xor_sync(0xffffffffu, v, 2);
      if (t == 0 && k0 == 0) s[N * K + n0 + i * 32 + 4 * g + c] = v;
    }
#pragma unroll
  for (int i = 0; i < PARTS * XK / 4; i++) {
    float v = a.data[i * 4 / XK][i / 4 % (XK / 16)][i % 4];
    v += __shfl_xor_sync(0xffffffffu, v, 4);
    v += __shfl_xor_sync(0xffffffffu, v, 8);
    v += __shfl_xor_sync(0xffffffffu, v, 16);
    if (g == 0) s[N * K + N + warp * PARTS * XK + i / 4 * 16 + 4 * t + i % 4] = v;
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
  for (int i = 0; i < P::SN / 8; i++) sums.bias[i / 4][i % 4] = 0;
#pragma unroll
  for (int i = 0; i < P::PARTS * P::XK / 4; i++) sums.data[i * 4 / P::XK][i / 4 % (P::XK / 16)][i % 4] = 0;

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
  int threads, bytes, groups, most_blocks;
};

template <int N, int K> static shape shape_as() {
  typedef patch<N, K> P;
  return {N, K, &patch_backward<N, K>, P::THREADS, P::BYTES, P::GROUPS, P::MOST_BLOCKS};
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
static cutting cutting_of(const shape &s, int64_t m) {
  int64_t tiles = up(m, TILE), steps = up(tiles, static_cast<int64_t>(s.most_blocks) * s.groups);
  return {tiles, static_cast<int>(steps), static_cast<int>(up(tiles, steps * s.groups))};
}

static bool aligned(const void *p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

} // namespace nnk

using namespace nnk;

int nnk_patch(int64_t m, int64_t n, int64_t k, int elt, int tf32) {
  shape s = shape_of(n, k);
  int device = 0, most = 0;
  return s.n && m >= FEWEST && elt == NNK_F32 && tf32 && has_tf32() && !cudaGetDevice(&device) &&
         !cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) && s.bytes <= most;
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

size_t nnk_patch_work(int64_t m, int64_t n, int64_t k) {
  shape s = shape_of(n, k);
  return s.n && m > 0 ? static_cast<size_t>(cutting_of(s, m).blocks * (n * k + n + k)) * sizeof(float) : 0;
}

int nnk_patch_backward(void *stream, float *dx, int add, int relu, const float *dy, const float *x, const float *w,
                       int64_t cols, int64_t data_cols, int64_t m, int64_t n, int64_t k, float *work, int64_t *pieces) {
  shape s = shape_of(n, k);
  if (!s.n || m <= 0 || cols <= 0 || n % cols || data_cols <= 0 || k % data_cols || !aligned(dx) || !aligned(dy) ||
      !aligned(x) || !aligned(w))
    return refused();
  cutting c = cutting_of(s, m);
  patch_args p = {dx, dy,      x,       w,   relu, add, static_cast<int>(cols), static_cast<int>(data_cols),
                  m,  c.tiles, c.steps, work};
  SP_LAUNCH(s.kernel, static_cast<unsigned>(c.blocks), static_cast<unsigned>(s.threads), static_cast<size_t>(s.bytes),
            stream, p);
  *pieces = c.blocks;
  return launched();
}
