/* SPDX-License-Identifier: MIT
 * outer.cu - the gradient of large weights over few rows, dW = dy' x, added to them in place: bound by reading
 * and writing the weights. Blocks are small and short, so that several share a multiprocessor, one waiting for memory
 * while another computes, and so that kernels of a stream of higher priority, a communicator's above all, need not
 * wait until the product ends.
 *
 * Tensor cores take factors from registers that lie together: two columns of x of two rows each, and one column of dy
 * of two rows. They are read from shared memory as that, so that no register is moved.
 */
#include "tile.cuh"

namespace nnk {

/* A block has EDGE x EDGE of dW, a warp 32 x 32, in stages of ROWS rows. LANES: columns of a block that sums. */
enum {
  EDGE = 64,
  ROWS = 32,
  STAGES = 3,
  THREADS = 128,
  PER_SM = 4,
  STAGE = ROWS * EDGE * 2,
  BYTES = STAGES * STAGE * 4,
  LANES = 8,
  MEMBERS = THREADS / LANES
};
static_assert(BYTES <= 48 << 10, "more shared memory must be asked for");

struct outer_args {
  nnk_outer of;
  unsigned sums, across; /* blocks in front that sum columns of dy; blocks side by side */
};

/* Where chunks of 16 bytes lie within a row, so that lanes that read two chunks of each of four rows have banks of
 * their own. */
__device__ inline int twist_rows(int row) { return (row & 3) << 1; }

/* What a thread brings to shared memory, a stage a call: a chunk of every so manieth row of dy and of x; zeros from
 * row m on. */
struct fetcher {
  enum { LINE = EDGE / 4, STEP = THREADS / LINE };
  static_assert(STEP % 4 == 0, "a thread's chunks are twisted alike");
  const float *dy, *x;
  int left, to; /* rows that are there, from the thread's next one on */

  __device__ fetcher(const nnk_outer &of, int64_t n0, int64_t k0) {
    int row = static_cast<int>(threadIdx.x) / LINE, chunk = static_cast<int>(threadIdx.x) % LINE;
    dy = of.dy + row * of.n + n0 + chunk * 4;
    x = of.x + row * of.k + k0 + chunk * 4;
    left = static_cast<int>(of.m) - row;
    to = row * EDGE + (chunk ^ twist_rows(row)) * 4;
  }
  __device__ void fetch(float *s, const nnk_outer &of) {
#pragma unroll
    for (int i = 0; i < ROWS; i += STEP, dy += STEP * of.n, x += STEP * of.k) {
      copy_chunk(s + to + i * EDGE, i < left ? dy : of.dy, i < left);
      copy_chunk(s + to + (ROWS + i) * EDGE, i < left ? x : of.x, i < left);
    }
    left -= ROWS;
  }
};

/* Sums of LANES columns of dy, taken as m n / cols rows of so many. */
__device__ inline void sum_columns(const nnk_outer &p, float *s) {
  int lane = static_cast<int>(threadIdx.x) % LANES, member = static_cast<int>(threadIdx.x) / LANES;
  int64_t column = static_cast<int64_t>(blockIdx.x) * LANES + lane, rows = p.m * (p.n / p.cols);
  float v = 0;
  if (column < p.cols) {
#pragma unroll 8
    for (int64_t row = member; row < rows; row += MEMBERS) v += p.dy[row * p.cols + column];
  }
  s[threadIdx.x] = v;
  for (int half = MEMBERS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (member < half) s[threadIdx.x] += s[static_cast<int>(threadIdx.x) + half * LANES];
  }
  if (member == 0 && column < p.cols) sum_into(p.db, column, s[lane]);
}

__global__ void __launch_bounds__(THREADS) outer_columns(nnk_outer of) {
  __shared__ float s[THREADS];
  sum_columns(of, s);
}

/* A warp's products over a stage, dW transposed: lane (g, t) = (lane / 4, lane % 4) has columns 2 g and 2 g + 1 of
 * each 16 of x and g of each 8 of dy, of rows t and t + 4 of each 8. */
__device__ inline void multiply_stage(float (*sums)[4][4], const float *dy, const float *x, int lane) {
  int g = lane / 4, t = lane % 4;
  dy += t * EDGE + g % 4;
  x += t * EDGE + g % 2 * 2;
#pragma unroll
  for (int row = 0; row < ROWS; row += 8) {
    float a[2][4], b[4][2];
#pragma unroll
    for (int f = 0; f < 2; f++) {
      int column = ((4 * f + g / 2) ^ 2 * t) * 4;
      float2 top = two(x + row * EDGE + column), bottom = two(x + (row + 4) * EDGE + column);
      a[f][0] = factor_of(top.x), a[f][1] = factor_of(top.y);
      a[f][2] = factor_of(bottom.x), a[f][3] = factor_of(bottom.y);
    }
#pragma unroll
    for (int c = 0; c < 4; c++) {
      int column = ((2 * c + g / 4) ^ 2 * t) * 4;
      b[c][0] = factor_of(dy[row * EDGE + column]), b[c][1] = factor_of(dy[(row + 4) * EDGE + column]);
    }
#pragma unroll
    for (int c = 0; c < 4; c++) {
      product(sums[0][c], a[0], b[c]);
      product(sums[1][c], a[1], b[c]);
    }
  }
}

/* What a lane has of dW: rows 8 c + 2 t and 8 c + 2 t + 1, and of the warp's columns 2 g and 2 g + 1 and 16 more on.
 * They are read and written once, and are not to drive out of the caches what others need. */
struct weights {
  float2 old[16];

  static __device__ float *at(float *w, int64_t k, int i) { return w + (i / 4 * 8 + i / 2 % 2) * k + i % 2 * 16; }
  __device__ void get(float *w, int64_t k) {
#pragma unroll
    for (int i = 0; i < 16; i++) old[i] = __ldcs(reinterpret_cast<const float2 *>(at(w, k, i)));
  }
  __device__ void put(float *w, int64_t k, float (*sums)[4][4], float alpha, int add) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
      const float *of = sums[i % 2][i / 4] + i / 2 % 2;
      __stcs(reinterpret_cast<float2 *>(at(w, k, i)),
             make_float2(sum_of(alpha, of[0], add, old[i].x), sum_of(alpha, of[2], add, old[i].y)));
    }
  }
};

/* The weights are on their way while products are computed. */
__global__ void __launch_bounds__(THREADS, PER_SM) outer_weight(outer_args p) {
  SP_DYNAMIC_SHARED(float, shared);
  const nnk_outer &of = p.of;
  if (blockIdx.x < p.sums) {
    sum_columns(of, shared);
    return;
  }
  unsigned block = blockIdx.x - p.sums, down = block / p.across;
  int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int64_t n0 = static_cast<int64_t>(down) * EDGE, k0 = static_cast<int64_t>(block - down * p.across) * EDGE;
  int n = warp / 2 * 32, k = warp % 2 * 32, stage = 0;
  fetcher from(of, n0, k0);
  auto begin = [&](int64_t row, int to) {
    if (row < of.m) from.fetch(shared + to * STAGE, of);
    end_stage();
  };
#pragma unroll
  for (int i = 0; i < STAGES - 1; i++) begin(i * ROWS, i);
  float *w = of.dw.p + (n0 + n + lane % 4 * 2) * of.k + k0 + k + lane / 4 * 2;
  float sums[2][4][4], alpha = of.dw.scale ? *of.dw.scale : 1;
  weights all;
  if (of.dw.add) all.get(w, of.k);
#pragma unroll
  for (int i = 0; i < 32; i++) sums[i / 16][i / 4 % 4][i % 4] = 0;
#pragma unroll 1
  for (int64_t row = 0; row < of.m; row += ROWS) {
    wait_stage<STAGES - 2>();
    __syncthreads(); /* the stage is there, and the one before is done with */
    begin(row + (STAGES - 1) * ROWS, (stage + STAGES - 1) % STAGES);
    const float *dy = shared + stage * STAGE;
    multiply_stage(sums, dy + n, dy + ROWS * EDGE + k, lane);
    stage = (stage + 1) % STAGES;
  }
  all.put(w, of.k, sums, alpha, of.dw.add);
}

static bool aligned(const void *p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

static bool fits(int64_t n, int64_t k) {
  return n > 0 && k > 0 && n % EDGE == 0 && k % EDGE == 0 && n / EDGE * (k / EDGE) < INT32_MAX / 2;
}

} // namespace nnk

using namespace nnk;

int nnk_outer_takes(int64_t m, int64_t n, int64_t k, int elt, int tf32) {
  return m > 0 && m <= NNK_OUTER && elt == NNK_F32 && tf32 && fits(n, k);
}

int nnk_outer_weight(void *stream, const nnk_outer *of) {
  bool cannot = of->dw.p && (!fits(of->n, of->k) || !aligned(of->dw.p) || !aligned(of->dy) || !aligned(of->x));
  if (of->m <= 0 || cannot || (of->db.p && (of->cols <= 0 || of->n % of->cols))) return refused();
  unsigned sums = of->db.p ? static_cast<unsigned>(up(of->cols, LANES)) : 0;
  outer_args p = {*of, sums, static_cast<unsigned>(of->k / EDGE)};
  if (of->dw.p)
    SP_LAUNCH(outer_weight, sums + static_cast<unsigned>(of->n / EDGE) * p.across, THREADS, BYTES, stream, p);
  else if (sums) SP_LAUNCH(outer_columns, sums, THREADS, 0, stream, *of);
  return launched();
}
