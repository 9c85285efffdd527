/* SPDX-License-Identifier: MIT
 * cuda_outer.cu - the gradient of large weights over few rows, dW = dy' x, added to them in place: bound by reading and
 * writing the weights. Blocks are small and short, so that several share a multiprocessor, one waiting for memory while
 * another computes, and so that kernels of a stream of higher priority, a communicator's above all, need not wait until
 * the product ends.
 *
 * The sum may run over rows in any order that both factors share, and the numbering of dW's rows and columns is free too:
 * here four numbers that lie together always belong to one lane, so that all of shared memory is read by 16 bytes.
 */
#include "cuda_tile.cuh"

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

/* Permutes chunks of x so that eight lanes have banks of their own where they read two chunks of four rows each, and so
 * that of dW four lanes have 64 bytes that lie together. */
__device__ inline int spread(int g, int t) { return (g >> 1 | (g & 1) << 2) ^ t; }

/* Rows of dy or x from `first` on; from m on they become zeros and are not read. `from`: the block's first column. */
template <class TWIST>
__device__ inline void fetch_rows(float *s, const float *from, int64_t width, int64_t first, int64_t m, TWIST twisted) {
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < ROWS * EDGE / 4; i += THREADS) {
    int row = i / (EDGE / 4), chunk = i % (EDGE / 4);
    bool there = first + row < m;
    copy_chunk(s + row * EDGE + (chunk ^ twisted(row)) * 4, from + (there ? first + row : 0) * width + chunk * 4,
               there);
  }
}

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

/* A warp's products over a stage: lane (g, t) = (lane / 4, lane % 4). */
__device__ inline void multiply_stage(float (*sums)[4][4], const float *dy, const float *x, int lane) {
  int g = lane / 4, t = lane % 4;
  dy += t * EDGE + (g ^ twist(t)) * 4;
  x += t * EDGE + spread(g, t) * 4;
#pragma unroll 2
  for (int row = 0; row < ROWS; row += 8) {
    float4 top = rounded(four(x + row * EDGE)), bottom = rounded(four(x + (row + 4) * EDGE));
    float4 u = rounded(four(dy + row * EDGE)), v = rounded(four(dy + (row + 4) * EDGE));
    const float b[4][2] = {{top.x, bottom.x}, {top.y, bottom.y}, {top.z, bottom.z}, {top.w, bottom.w}};
    const float even[4] = {u.x, u.y, v.x, v.y}, odd[4] = {u.z, u.w, v.z, v.w};
#pragma unroll
    for (int c = 0; c < 4; c++) {
      product(sums[0][c], even, b[c]);
      product(sums[1][c], odd, b[c]);
    }
  }
}

/* What a lane has of dW: rows 4 g + r, and of the warp's columns 4 t .. 4 t + 3 and 16 more on. They are read and written
 * once, and are not to drive out of the caches what others need. */
struct weights {
  float4 old[8];

  static __device__ float *at(float *w, int64_t k, int i) { return w + i / 2 * k + i % 2 * 16; }
  __device__ void get(float *w, int64_t k) {
#pragma unroll
    for (int i = 0; i < 8; i++) old[i] = __ldcs(reinterpret_cast<const float4 *>(at(w, k, i)));
  }
  __device__ void put(float *w, int64_t k, float (*sums)[4][4], float alpha, int add) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
      float(*of)[4] = sums[i / 4];
      int e = i % 4;
      __stcs(reinterpret_cast<float4 *>(at(w, k, i)),
             make_float4(sum_of(alpha, of[0][e], add, old[i].x), sum_of(alpha, of[1][e], add, old[i].y),
                         sum_of(alpha, of[2][e], add, old[i].z), sum_of(alpha, of[3][e], add, old[i].w)));
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
  auto begin = [&](int64_t row, int to) {
    float *s = shared + to * STAGE;
    if (row < of.m) {
      fetch_rows(s, of.dy + n0, of.n, row, of.m, [](int r) { return twist(r); });
      fetch_rows(s + ROWS * EDGE, of.x + k0, of.k, row, of.m, [](int r) { return r & 3; });
    }
    end_stage();
  };
#pragma unroll
  for (int i = 0; i < STAGES - 1; i++) begin(i * ROWS, i);
  float *w = of.dw.p + (n0 + n + lane / 4 * 4) * of.k + k0 + k + lane % 4 * 4;
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
  return m > 0 && m <= NNK_OUTER && elt == NNK_F32 && tf32 && has_tf32() && fits(n, k);
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
