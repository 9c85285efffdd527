/* SPDX-License-Identifier: MIT
 * narrow_weight.cu - gradients of the weights and the bias of convolutions with few channels, in one pass: each
 * block adds up some tiles and leaves a piece, and the pieces are summed in a fixed order.
 */
#include "few.cuh"
#include "tile.cuh"

namespace nnk {

enum { PIECES_PER_SM = 2 }; /* a piece is one block, two of which fit on a multiprocessor */

struct weight_args {
  source x, dy;
  int pieces;
  tiling tiles;
  float *work; /* a piece: [out][taps][in], then [out] */
};

/* Four pixels, four apart, by eight channels have banks of their own. */
template <int SPAN> struct quads {
  enum { ROW = SPAN * MOST + (SPAN + 3) / 4 * 8, SIZE = SPAN * ROW };
  static __device__ int of(int y, int x, int ch) { return y * ROW + x * MOST + x / 4 * 8 + ch; }
};

/* Sums of the block, [tap][in][out] and [out], take the tiles' place. */
template <int K> union weight_shared {
  struct {
    float x[quads<SIDE + K - 1>::SIZE], dy[quads<SIDE>::SIZE];
  } in;
  struct {
    float w[K * K][MOST][MOST], b[MOST];
  } out;
};

/* The channels of x and of dy that a block has, MOST at most from the first ones on. */
struct block_part {
  int x, dy;
};

__device__ inline block_part part_of(const weight_args &p) {
  int row = static_cast<int>(blockIdx.y), of_dy = row / p.x.parts;
  return {(row - of_dy * p.x.parts) * MOST, of_dy * MOST};
}

template <int K, int THREADS> __device__ inline void leave(const weight_args &p, const weight_shared<K> &s) {
  int cx = static_cast<int>(p.x.m.c), cy = static_cast<int>(p.dy.m.c), count = cy * K * K * cx;
  block_part part = part_of(p);
  int wide = min(cx - part.x, static_cast<int>(MOST)), high = min(cy - part.dy, static_cast<int>(MOST));
  float *to = p.work + static_cast<int64_t>(blockIdx.x) * (count + cy);
  for (int i = static_cast<int>(threadIdx.x); i < high * K * K * wide; i += THREADS) {
    int o = i / (K * K * wide), rest = i - o * (K * K * wide), tap = rest / wide, ch = rest - tap * wide;
    to[((part.dy + o) * K * K + tap) * cx + part.x + ch] = s.out.w[tap][ch][o];
  }
  for (int i = static_cast<int>(threadIdx.x); i < high && part.x == 0; i += THREADS)
    to[count + part.dy + i] = s.out.b[i];
}

/* On tensor cores: a product is 16 channels of x by 8 of dy over 8 pixels. A warp has one row of taps and some rows of
 * each tile, 16 pixels of which are two products; a lane's pixels lie side by side, so that what it loads of x serves
 * all taps of the row. dy stays float32 in shared memory for the bias. */
template <int K, int NT> struct tensor_weight {
  enum { THREADS = 384, ROUND = 1, TEAMS = THREADS / 32 / K, SPAN = SIDE + K - 1 };
  float sums[K][NT][4], bias[NT];

  static __device__ int warp() { return static_cast<int>(threadIdx.x) / 32; }

  __device__ void begin(const weight_args &) {
#pragma unroll
    for (int i = 0; i < K * NT * 4; i++) sums[i / (NT * 4)][i / 4 % NT][i % 4] = 0;
#pragma unroll
    for (int nt = 0; nt < NT; nt++) bias[nt] = 0;
  }

  __device__ void take(const weight_shared<K> &s) {
    int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4, ky = warp() % K;
#pragma unroll 1
    for (int row = warp() / K; row < SIDE; row += TEAMS) {
      const float *x = s.in.x + quads<SPAN>::of(row + ky, t * 4, g * 2);
      const float *dy = s.in.dy + quads<SIDE>::of(row, t * 4, g * NT);
      float a[K + 3][2], b[4][NT];
#pragma unroll
      for (int i = 0; i < K + 3; i++) load<2>(a[i], x, quads<SPAN>::of(0, i, 0));
#pragma unroll
      for (int i = 0; i < 4; i++) load<NT>(b[i], dy, quads<SIDE>::of(0, i, 0));
#pragma unroll
      for (int i = 0; i < 4 * NT; i++) {
        bias[i % NT] += b[i / NT][i % NT];
        b[i / NT][i % NT] = tf32_of(b[i / NT][i % NT]);
      }
#pragma unroll
      for (int i = 0; i < 2 * K * NT; i++) {
        int two = i / (K * NT) * 2, kx = i / NT % K, nt = i % NT;
        float left[4] = {a[two + kx][0], a[two + kx][1], a[two + kx + 1][0], a[two + kx + 1][1]};
        float right[2] = {b[two][nt], b[two + 1][nt]};
        product(sums[kx][nt], left, right);
      }
    }
  }

  __device__ void end(weight_shared<K> &s) {
    int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4, ky = warp() % K;
#pragma unroll
    for (int nt = 0; nt < NT; nt++) {
      bias[nt] += __shfl_xor_sync(0xffffffffu, bias[nt], 1);
      bias[nt] += __shfl_xor_sync(0xffffffffu, bias[nt], 2);
    }
    for (int turn = 0; turn < TEAMS; turn++) { /* team after team: a fixed order */
      __syncthreads();
      if (warp() / K != turn) continue;
#pragma unroll
      for (int i = 0; i < K * NT * 4; i++) {
        int kx = i / (NT * 4), nt = i / 4 % NT, j = i % 4;
        float *to = &s.out.w[ky * K + kx][g * 2 + j / 2][(2 * t + j % 2) * NT + nt], v = sums[kx][nt][j];
        *to = turn ? *to + v : v;
      }
#pragma unroll
      for (int nt = 0; nt < NT; nt++)
        if (t == 0 && ky == 0) s.out.b[g * NT + nt] = turn ? s.out.b[g * NT + nt] + bias[nt] : bias[nt];
    }
  }
};

/* In float32: a thread has one channel of x, four of dy and all taps, in some rows of each tile. */
template <int K> struct plain_weight {
  enum { THREADS = 256, ROUND = 0, SPAN = SIDE + K - 1 };
  float sums[K][K][4], bias[4];
  int teams, team, ch, to;

  __device__ void begin(const weight_args &p) {
    int fours = (static_cast<int>(p.dy.m.c) + 3) / 4, slot = static_cast<int>(threadIdx.x) / MOST;
    ch = static_cast<int>(threadIdx.x) % MOST;
    teams = THREADS / MOST / fours, team = slot / fours, to = slot % fours * 4;
#pragma unroll
    for (int i = 0; i < K * K * 4; i++) sums[i / (K * 4)][i / 4 % K][i % 4] = 0;
#pragma unroll
    for (int j = 0; j < 4; j++) bias[j] = 0;
  }

  __device__ void take(const weight_shared<K> &s) {
    for (int row = team; row < SIDE && team < teams; row += teams) {
      float x[K][K];
#pragma unroll
      for (int ky = 0; ky < K; ky++)
#pragma unroll
        for (int kx = 0; kx + 1 < K; kx++) x[ky][kx] = s.in.x[quads<SPAN>::of(row + ky, kx, ch)];
      for (int col = 0; col < SIDE; col++) {
        float g[4];
        load<4>(g, s.in.dy, quads<SIDE>::of(row, col, to));
#pragma unroll
        for (int ky = 0; ky < K; ky++) x[ky][K - 1] = s.in.x[quads<SPAN>::of(row + ky, col + K - 1, ch)];
#pragma unroll
        for (int i = 0; i < K * K * 4; i++) {
          int ky = i / (4 * K), kx = i / 4 % K, j = i % 4;
          sums[ky][kx][j] = fmaf(x[ky][kx], g[j], sums[ky][kx][j]);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) bias[j] += g[j];
#pragma unroll
        for (int ky = 0; ky < K; ky++)
#pragma unroll
          for (int kx = 0; kx + 1 < K; kx++) x[ky][kx] = x[ky][kx + 1];
      }
    }
  }

  __device__ void end(weight_shared<K> &s) {
    for (int turn = 0; turn < teams; turn++) {
      __syncthreads();
      if (team != turn) continue;
#pragma unroll
      for (int i = 0; i < K * K * 4; i++) {
        float *at = &s.out.w[i / 4][ch][to + i % 4], v = sums[i / 4 / K][i / 4 % K][i % 4];
        *at = turn ? *at + v : v;
      }
      for (int j = 0; j < 4 && ch == 0; j++) s.out.b[to + j] = turn ? s.out.b[to + j] + bias[j] : bias[j];
    }
  }
};

template <class P, int K> __global__ void __launch_bounds__(P::THREADS, 2) narrow_weight(weight_args p) {
  enum { THREADS = P::THREADS, SPAN = SIDE + K - 1, HELD_X = held_by<THREADS, SPAN, MOST>::COUNT };
  enum { HELD_DY = held_by<THREADS, SIDE, MOST>::COUNT };
  __shared__ __align__(16) weight_shared<K> s;
  __shared__ places from[2], to[2]; /* of the next tile, while the last one's may still be read */
  float x[HELD_X], dy[HELD_DY];
  block_part part = part_of(p);
  P product;
  product.begin(p);
  for (int i = static_cast<int>(blockIdx.x), turn = 0;; turn ^= 1) {
    bool first = i == static_cast<int>(blockIdx.x), more = i < p.tiles.count;
    if (!first) {
      __syncthreads();
      put<THREADS, SPAN, HELD_X, quads<SPAN>, P::ROUND>(s.in.x, x, p.x);
      put<THREADS, SIDE, HELD_DY, quads<SIDE>, false>(s.in.dy, dy, p.dy);
    }
    corner at = {};
    if (more) {
      at = corner_of(p.tiles, i);
      chart(&from[turn], 0, p.x.m, at.y - K / 2, at.x - K / 2);
      chart(&to[turn], 2, p.dy.m, at.y, at.x);
    }
    __syncthreads();
    if (more) {
      fetch<THREADS, SPAN, HELD_X>(x, p.x, from[turn], at.sample, part.x);
      fetch<THREADS, SIDE, HELD_DY>(dy, p.dy, to[turn], at.sample, part.dy);
    }
    if (!first) product.take(s);
    if (!more) break;
    i += p.pieces;
  }
  product.end(s);
  __syncthreads();
  leave<K, THREADS>(p, s);
}

template <int K> static int run(void *stream, const weight_args &p, int precision) {
  dim3 grid(static_cast<unsigned>(p.pieces), static_cast<unsigned>(p.x.parts * p.dy.parts));
  if (precision == SP_PRECISION_FP32)
    SP_LAUNCH((narrow_weight<plain_weight<K>, K>), grid, plain_weight<K>::THREADS, 0, stream, p);
  else if (p.dy.m.c > 8)
    SP_LAUNCH((narrow_weight<tensor_weight<K, 2>, K>), grid, (tensor_weight<K, 2>::THREADS), 0, stream, p);
  else SP_LAUNCH((narrow_weight<tensor_weight<K, 1>, K>), grid, (tensor_weight<K, 1>::THREADS), 0, stream, p);
  return launched();
}

static int pieces_of(const tiling &t, int multiprocessors) {
  int most = multiprocessors * PIECES_PER_SM;
  return t.count < most ? t.count : most;
}

} // namespace nnk

using namespace nnk;

size_t nnk_narrow_weight_work(int k, const nnk_map *x, const nnk_map *dy, int multiprocessors) {
  int64_t piece = dy->c * k * k * x->c + dy->c; /* few_weight() leaves no more of them */
  return static_cast<size_t>(piece * pieces_of(tiling_of(dy), multiprocessors)) * sizeof(float);
}

int nnk_narrow_weight(void *stream, int k, nnk_sum dw, nnk_sum db, const nnk_map *x, const nnk_map *dy, int precision,
                      void *work, int multiprocessors) {
  if (elements(*dy) == 0) return cudaSuccess;
  if (k == 3 && precision == SP_PRECISION_BF16)
    return few_weight(stream, dw, db, x, dy, static_cast<float *>(work), multiprocessors);
  if (!takes(k, x->c, dy->c, precision)) return refused();
  weight_args p = {source_of(x, SIDE + k - 1), source_of(dy, SIDE), 0, tiling_of(dy), static_cast<float *>(work)};
  p.pieces = pieces_of(p.tiles, multiprocessors);
  int st = k == 3 ? run<3>(stream, p, precision) : run<1>(stream, p, precision);
  return st ? st : sum_pieces(stream, dw, dy->c * k * k * x->c, db, dy->c, p.work, p.pieces);
}
