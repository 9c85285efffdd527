/* SPDX-License-Identifier: MIT
 * masked.cu - the gradient of a product's input, dx = dy w, masked by the input's sign and with the sums of its
 * columns on the way: what is computed leaves the registers once, where a library's product needs a pass over dx
 * behind it.
 *
 * Tensor cores take factors from registers that lie together: two columns of dy of one row, and of w two columns of
 * two rows each. A sum may run in any order that both share, so what lies together in shared memory goes to them as it
 * is.
 */
#include "tile.cuh"

namespace nnk {

/* A block has DOWN x ACROSS of dx, a warp half of either, in stages of DEPTH columns of dy. */
enum { ACROSS = 128, DEPTH = 32, STAGES = 3, THREADS = 128, LESS = NNK_MASKED_LESS, MORE = NNK_MASKED_MORE };

template <int DOWN> struct tile {
  enum {
    TALL = DOWN / 2, /* of a warp; it is ACROSS / 2 wide */
    STAGE = (DOWN + ACROSS) * DEPTH,
    BYTES = STAGES * STAGE * 4,
    AT_ONCE = DOWN == MORE ? 2 : 3 /* blocks on a multiprocessor */
  };
  float sums[ACROSS / 32][TALL / 8][4]; /* of a lane: dx transposed, by sixteen columns and eight rows */
};

struct masked_args {
  nnk_masked of;
  unsigned across; /* blocks side by side */
};

/* Where chunks of 16 bytes lie within a row, so that lanes that read together have banks of their own: four lanes
 * two chunks of w in each of four rows, four chunks of two neighbouring rows of dy, two chunks of x in each of four
 * rows. */
__device__ inline int twist_w(int row) { return (row / 4 & 3) << 1; }
__device__ inline int twist_dy(int row) { return (row & 1) << 2; }
__device__ inline int twist_x(int row) { return (row / 2 & 3) << 1; }

/* What a thread brings to shared memory, in order: a stage for each DEPTH columns of dy, then either half of x'
 * rows. `left`: rows that are there, from the thread's first one on. */
template <int DOWN> struct fetcher {
  enum { LINE = DEPTH / 4, STEP = THREADS / LINE, WIDE = ACROSS / 4, W_STEP = THREADS / WIDE };
  static_assert(STEP % 2 == 0 && W_STEP == 4, "how a thread's chunks are twisted");
  static_assert(DOWN / 2 * ACROSS <= tile<DOWN>::STAGE, "half of x takes a stage's place");
  const float *base, *dy, *w, *x;
  int64_t n, k;
  int left, left_x, to, to_w, column, row;

  __device__ fetcher(const nnk_masked &p, int64_t m0, int64_t k0) : base(p.dy), n(p.n), k(p.k) {
    int thread = static_cast<int>(threadIdx.x), first = thread / LINE, chunk = thread % LINE;
    column = thread % WIDE * 4, row = thread / WIDE;
    left = static_cast<int>(min(p.m - m0, static_cast<int64_t>(DOWN))) - first;
    left_x = left + first - row;
    dy = p.dy + (m0 + first) * n + chunk * 4;
    w = p.w + row * k + k0 + column;
    x = p.x + (m0 + row) * k + k0 + column;
    to = first * DEPTH + (chunk ^ twist_dy(first)) * 4;
    to_w = DOWN * DEPTH + row * ACROSS;
  }
  __device__ void fetch(float *s) {
    const float *from = dy, *from_w = w;
#pragma unroll
    for (int i = 0; i < DOWN / STEP; i++, from += STEP * n)
      copy_chunk(s + to + i * STEP * DEPTH, i * STEP < left ? from : base, i * STEP < left);
#pragma unroll
    for (int i = 0; i < DEPTH / W_STEP; i++, from_w += W_STEP * k)
      copy_chunk(s + to_w + i * W_STEP * ACROSS + (column ^ twist_w(i * W_STEP) * 4), from_w, true);
    dy += DEPTH, w += DEPTH * k;
  }
  __device__ void fetch_x(float *s) {
    const float *from = x;
    int at = column ^ twist_x(row) * 4;
#pragma unroll
    for (int i = 0; i < DOWN / 2 / W_STEP; i++, from += W_STEP * k)
      if (i * W_STEP < left_x) copy_chunk(s + (row + i * W_STEP) * ACROSS + (at ^ twist_x(i * W_STEP) * 4), from, true);
    x = from, left_x -= DOWN / 2;
  }
};

/* A warp's products over a stage: lane (g, t) = (lane / 4, lane % 4) has columns 4 t .. 4 t + 3 of each 16 of dy, of
 * every eighth row, and of those four rows of w two columns of each 16. */
template <int DOWN> __device__ inline void multiply(tile<DOWN> &a, const float *dy, const float *w, int lane) {
  enum { TALL = tile<DOWN>::TALL, WIDE = ACROSS / 32 };
  int g = lane / 4, t = lane % 4;
  dy += g * DEPTH;
  w += 4 * t * ACROSS + g % 2 * 2;
#pragma unroll
  for (int n = 0; n < DEPTH; n += 16) {
    float4 rows[TALL / 8];
#pragma unroll
    for (int i = 0; i < TALL / 8; i++) rows[i] = rounded(four(dy + 8 * i * DEPTH + ((n / 4 + t) ^ twist_dy(g)) * 4));
#pragma unroll
    for (int step = 0; step < 4; step += 2) {
      float of_w[WIDE][4];
#pragma unroll
      for (int f = 0; f < WIDE; f++) {
        int column = ((4 * f + g / 2) ^ 2 * t) * 4;
        float2 first = two(w + (n + step) * ACROSS + column), second = two(w + (n + step + 1) * ACROSS + column);
        of_w[f][0] = factor_of(first.x), of_w[f][1] = factor_of(first.y);
        of_w[f][2] = factor_of(second.x), of_w[f][3] = factor_of(second.y);
      }
#pragma unroll
      for (int i = 0; i < TALL / 8; i++) {
        const float b[2] = {step ? rows[i].z : rows[i].x, step ? rows[i].w : rows[i].y};
#pragma unroll
        for (int f = 0; f < WIDE; f++) product(a.sums[f][i], of_w[f], b);
      }
    }
  }
}

/* Writes a warp's part of dx, from row `row` and column `column` on, and leaves the sums of its columns in `sums`;
 * x: of its rows, from column `first` on. */
template <int DOWN>
__device__ inline void write_rows(const nnk_masked &p, const tile<DOWN> &a, const float *x, int first, int64_t row,
                                  int64_t column, float *sums, int lane) {
  enum { WIDE = ACROSS / 32 };
  int g = lane / 4, t = lane % 4;
  int64_t left = p.m - row - 2 * t;
  float *dx = p.dx + (row + 2 * t) * p.k + column + 2 * g;
  float2 all[WIDE];
  x += 2 * t * ACROSS + first + g % 2 * 2;
#pragma unroll
  for (int f = 0; f < WIDE; f++) all[f] = {0, 0};
#pragma unroll
  for (int i = 0; i < tile<DOWN>::TALL / 8; i++, dx += 8 * p.k, x += 8 * ACROSS)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      if (8 * i + e >= left) continue;
#pragma unroll
      for (int f = 0; f < WIDE; f++) {
        float2 sign = two(x + e * ACROSS + ((4 * f + g / 2) ^ 2 * t) * 4);
        float2 *to = reinterpret_cast<float2 *>(dx + e * p.k + 16 * f), v = {a.sums[f][i][e], a.sums[f][i][e + 2]};
        v.x = sign.x > 0 ? v.x : 0, v.y = sign.y > 0 ? v.y : 0;
        *to = v;
        all[f].x += v.x, all[f].y += v.y;
      }
    }
  if (!p.sums) return;
#pragma unroll
  for (int f = 0; f < WIDE; f++) {
#pragma unroll
    for (int lanes = 1; lanes < 4; lanes *= 2) {
      all[f].x += __shfl_xor_sync(0xffffffffu, all[f].x, lanes);
      all[f].y += __shfl_xor_sync(0xffffffffu, all[f].y, lanes);
    }
    if (t == 0) *reinterpret_cast<float2 *>(sums + 16 * f + 2 * g) = all[f];
  }
}

template <int DOWN> __global__ void __launch_bounds__(THREADS, tile<DOWN>::AT_ONCE) masked_data(masked_args p) {
  enum { STAGE = tile<DOWN>::STAGE, TALL = tile<DOWN>::TALL };
  SP_DYNAMIC_SHARED(float, shared);
  __shared__ __align__(16) float columns[2][ACROSS];
  const nnk_masked &of = p.of;
  unsigned down = blockIdx.x / p.across, beside = blockIdx.x - down * p.across;
  int thread = static_cast<int>(threadIdx.x), lane = thread % 32, low = thread / 64, right = thread / 32 % 2;
  int64_t m0 = static_cast<int64_t>(down) * DOWN, k0 = static_cast<int64_t>(beside) * ACROSS;
  int stage = 0;
  tile<DOWN> a;
  fetcher<DOWN> from(of, m0, k0);
  auto begin = [&](int64_t n, int to) {
    if (n < of.n) from.fetch(shared + to * STAGE);
    else from.fetch_x(shared + to * STAGE);
    end_stage();
  };
#pragma unroll
  for (int i = 0; i < STAGES - 1; i++) begin(i * DEPTH, i);
#pragma unroll
  for (int i = 0; i < ACROSS / 32 * TALL / 8 * 4; i++) a.sums[i / (TALL / 2)][i / 4 % (TALL / 8)][i % 4] = 0;
#pragma unroll 1
  for (int64_t n = 0; n < of.n; n += DEPTH) {
    wait_stage<STAGES - 2>();
    __syncthreads(); /* the stage is there, and the one before is done with */
    begin(n + (STAGES - 1) * DEPTH, (stage + STAGES - 1) % STAGES);
    const float *dy = shared + stage * STAGE;
    multiply<DOWN>(a, dy + low * TALL * DEPTH, dy + DOWN * DEPTH + right * (ACROSS / 2), lane);
    stage = (stage + 1) % STAGES;
  }
  wait_stage<0>();
  __syncthreads();
  int half = right * (ACROSS / 2);
  write_rows<DOWN>(of, a, shared + (stage + low) % STAGES * STAGE, half, m0 + low * TALL, k0 + half,
                   columns[low] + half, lane);
  if (!of.sums) return;
  __syncthreads();
  int wide = of.cols < ACROSS ? static_cast<int>(of.cols) : static_cast<int>(ACROSS);
  if (thread >= wide) return;
  float v = 0;
  for (int c = thread; c < ACROSS; c += wide) v += columns[0][c] + columns[1][c];
  int64_t per_row = of.k / of.cols; /* pieces of a row of tiles, where a piece is no narrower than a tile */
  int64_t piece = of.cols < ACROSS ? blockIdx.x : down * per_row + k0 / of.cols;
  of.sums[piece * of.cols + (of.cols < ACROSS ? 0 : k0 % of.cols) + thread] = v;
}

static bool aligned(const void *p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

template <int DOWN> static int launch(void *stream, const masked_args &p) {
  SP_LAUNCH(masked_data<DOWN>, static_cast<unsigned>(up(p.of.m, DOWN)) * p.across, THREADS, tile<DOWN>::BYTES, stream,
            p);
  return launched();
}

template <int DOWN> static int allow() {
  return static_cast<int>(cudaFuncSetAttribute(reinterpret_cast<const void *>(masked_data<DOWN>),
                                               cudaFuncAttributeMaxDynamicSharedMemorySize, tile<DOWN>::BYTES));
}

static bool fits(int64_t m, int64_t n, int64_t k, int64_t cols) {
  return m >= LESS && n > 0 && n % DEPTH == 0 && k > 0 && k % ACROSS == 0 && up(m, LESS) * (k / ACROSS) < INT32_MAX &&
         cols > 0 && k % cols == 0 && (ACROSS % cols == 0 || cols % ACROSS == 0);
}

} // namespace nnk

using namespace nnk;

int nnk_masked_takes(int64_t m, int64_t n, int64_t k, int64_t cols, int elt, int tf32, size_t shared_bytes) {
  return fits(m, n, k, cols) && elt == NNK_F32 && tf32 && tile<MORE>::BYTES <= shared_bytes;
}

int nnk_masked_prepare(void) {
  int st = allow<LESS>();
  return st ? st : allow<MORE>();
}

size_t nnk_masked_work(int64_t m, int64_t n, int64_t k, int64_t cols) {
  return fits(m, n, k, cols) ? static_cast<size_t>(up(m, LESS) * k) * sizeof(float) : 0;
}

int nnk_masked_data(void *stream, int rows, const nnk_masked *of, int64_t *pieces) {
  if ((rows != LESS && rows != MORE) || !fits(of->m, of->n, of->k, of->cols) || !aligned(of->dx) || !aligned(of->dy) ||
      !aligned(of->w) || !aligned(of->x))
    return refused();
  masked_args p = {*of, static_cast<unsigned>(of->k / ACROSS)};
  *pieces = up(of->m, rows) * (of->cols < ACROSS ? p.across : of->k / of->cols);
  return rows == LESS ? launch<LESS>(stream, p) : launch<MORE>(stream, p);
}
