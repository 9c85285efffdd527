/* SPDX-License-Identifier: MIT
 * cuda_few_weight.cu - gradients of the weights and the bias of 3x3 convolutions with few channels, in one pass of
 * products in bfloat16.
 *
 * Pixels are what a product sums over: 16 of a row. A warp has a tile of 16 columns by itself and walks down its rows: each
 * row of x is loaded once and meets, three times shifted, the last three rows of dy, which stay in registers. Rows are
 * on their way to a ring of the warp's own in shared memory while others are computed, so that warps wait for nobody. At
 * the end a block adds up its warps' sums and leaves a piece; the pieces are summed in a fixed order.
 */
#include "cuda_bf16.cuh"

namespace nnk {

enum { BLOCKS = 132, WARPS = 8, THREADS = WARPS * 32, WIDE = 16, SPAN = WIDE + 2, TAPS = 9 };
enum {
  RING = 12288
}; /* bytes of a warp: with the other warps' what a block may have on any device of these products */

/* How a row of a tile comes to shared memory: CHUNKS: of 8 channels each, twisted against bank conflicts. RUN: as it lies in
 * memory, where that is one run, in 16 bytes at a time. SINGLES: number by number, to either form. */
enum { CHUNKS, RUN, SINGLES };

struct few_map {
  nnk_map m;
  int how;
};

/* A job is one tile of WIDE x `high` pixels and, of `halves`, 16 channels of x. */
struct few_args {
  few_map x, dy;
  float *work; /* a piece: [out][taps][in], then [out] */
  int high, down, across, halves, jobs;
};

/* Chunks of 16 bytes, COUNT a pixel: any eight pixels in a row have banks of their own. */
template <int COUNT> __device__ inline int chunk_at(int px, int chunk) {
  int twisted = COUNT == 2 ? chunk ^ (px >> 2 & 1) : COUNT == 4 ? chunk ^ (px >> 1 & 3) : chunk;
  return (px * COUNT + twisted) * 8;
}

struct job_place {
  int sample, y, x, rows;
};

__device__ inline job_place place_of_job(const few_args &p, int job) {
  int tile = job / p.halves, row = tile / p.across, sample = row / p.down, y = (row - sample * p.down) * p.high;
  return {sample, y, (tile - row * p.across) * WIDE, min(p.high, static_cast<int>(p.dy.m.h) - y)};
}

/* ---- on the way to shared memory ---- */
/* Where a row of a sample begins, in numbers; of a channel, where the map is N,C,H,W. */
__device__ inline int64_t row_at(const nnk_map &m, int sample, int y) {
  uint32_t row = place_of(static_cast<uint32_t>(y), 0, m.layout, static_cast<uint32_t>(m.w));
  return m.layout == PLANAR ? sample * pixels(m) * m.c + row : (sample * pixels(m) + row) * m.c;
}

/* The chunks that a lane has of each row of a tile: column and channels, in numbers from the row's first; -1: zeros. */
template <int WIDTH, int COUNT> struct chunk_loads {
  enum { EACH = (WIDTH * COUNT + 31) / 32 };
  int from[EACH];

  __device__ void aim(const nnk_map &m, int x0, int c0, int lane) {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      int px = (lane + 32 * i) / COUNT, ch = (lane + 32 * i) % COUNT * 8 + c0, x = x0 + px;
      bool there = x >= 0 && x < m.w && ch < m.c;
      uint32_t place = place_of(0, static_cast<uint32_t>(x), m.layout, static_cast<uint32_t>(m.w));
      from[i] = there ? static_cast<int>(place) * static_cast<int>(m.c) + ch : -1;
    }
  }

  __device__ void begin(__nv_bfloat16 *to, const nnk_map &m, int64_t row, bool there, int lane) const {
    const __nv_bfloat16 *all = static_cast<const __nv_bfloat16 *>(m.p);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      int q = lane + 32 * i;
      bool valid = there && from[i] >= 0;
      if (q < WIDTH * COUNT)
        copy_chunk(to + chunk_at<COUNT>(q / COUNT, q % COUNT), valid ? all + row + from[i] : all, valid);
    }
  }
};

/* The numbers of one row of WIDTH pixels and `count` channels from c0 on, four of a lane on their way at a time; put(pixel,
 * channel, number) stores them. */
template <int WIDTH, class PUT>
__device__ inline void singles(const nnk_map &m, int64_t row, bool there, int x0, int c0, int count, int lane,
                               PUT put) {
  bool planar = m.layout == PLANAR;
  int64_t step = planar ? 1 : m.c, next = planar ? pixels(m) : 1;
  for (int first = lane; first < WIDTH * count; first += 4 * 32) {
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      int e = first + 32 * i, px = planar ? e % WIDTH : e / count, ch = planar ? e / WIDTH : e % count, x = x0 + px;
      uint32_t place = place_of(0, static_cast<uint32_t>(x), m.layout, static_cast<uint32_t>(m.w));
      v[i] = 0;
      if (there && e < WIDTH * count && x >= 0 && x < m.w)
        load<1>(&v[i], m.p, m.elt, row + place * step + (c0 + ch) * next);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      int e = first + 32 * i;
      if (e < WIDTH * count) put(planar ? e % WIDTH : e / count, planar ? e / WIDTH : e % count, v[i]);
    }
  }
}

/* A row of dy as it lies in memory; behind the map's last column zeros. */
__device__ inline void begin_run(char *to, const nnk_map &m, int64_t row, int x0, int lane) {
  int pixel = static_cast<int>(m.c) * (m.elt == NNK_BF16 ? 2 : 4), wide = min(WIDE, static_cast<int>(m.w) - x0);
  const char *from = static_cast<const char *>(m.p) + (row + x0 * m.c) * (m.elt == NNK_BF16 ? 2 : 4);
#pragma unroll 4
  for (int at = lane * 16; at < WIDE * pixel; at += 32 * 16) {
    bool valid = at < wide * pixel;
    copy_chunk(to + at, valid ? from + at : static_cast<const char *>(m.p), valid);
  }
}

/* ---- products: a warp's sums over 16 MT channels of x by 8 NT of dy, and what it has on its way. TWISTED: dy comes as
 * CHUNKS; else its pixels lie one after the other, in dy's own type. ---- */
template <int MT, int NT, bool TWISTED> struct few_sums {
  enum { X_BYTES = SPAN * MT * 32, DY_BYTES = WIDE * NT * (TWISTED ? 16 : 32), ROW = X_BYTES + DY_BYTES };
  enum { STAGES = RING / ROW, SUMS = TAPS * MT * NT * 4, SLAB = SUMS * 32 + NT * 8 };
  enum { SHARED = WARPS * STAGES * ROW, SLABS = WARPS / 2 * SLAB * 4, BYTES = SHARED > SLABS ? SHARED : SLABS };
  static_assert(SLABS <= WARPS * RING, "half of the warps' sums take the place of the rows");
  const few_args &p;
  char *ring;
  int lane, c0, stride;
  /* on the way */
  int coming, row, slot;
  job_place to;
  chunk_loads<SPAN, 2 * MT> x;
  chunk_loads<WIDE, TWISTED ? NT : 1> dy;
  /* computed */
  float sums[TAPS][MT][NT][4], bias[NT];
  uint32_t b[3][NT][2]; /* the last rows of dy, the newest first */

  __device__ few_sums(const few_args &args, char *shared) : p(args) {
    int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
    lane = thread % 32;
    ring = shared + warp * STAGES * ROW;
    coming = static_cast<int>(blockIdx.x) * WARPS + warp, stride = static_cast<int>(gridDim.x) * WARPS;
    c0 = coming % p.halves * 16;
    slot = 0;
#pragma unroll
    for (int i = 0; i < SUMS; i++) sums[i / (MT * NT * 4)][i / (NT * 4) % MT][i / 4 % NT][i % 4] = 0;
#pragma unroll
    for (int i = 0; i < 6 * NT; i++) b[i / (2 * NT)][i / 2 % NT][i % 2] = 0;
#pragma unroll
    for (int nt = 0; nt < NT; nt++) bias[nt] = 0;
    aim();
  }

  __device__ void aim() {
    row = 0;
    if (coming >= p.jobs) return;
    to = place_of_job(p, coming);
    if (p.x.how == CHUNKS) x.aim(p.x.m, to.x - 1, c0, lane);
    if constexpr (TWISTED) dy.aim(p.dy.m, to.x, 0, lane);
  }

  __device__ void begin_x(char *stage) {
    const nnk_map &m = p.x.m;
    __nv_bfloat16 *at = reinterpret_cast<__nv_bfloat16 *>(stage);
    int y = to.y + row - 1;
    bool there = y >= 0 && y < m.h;
    int64_t from = there ? row_at(m, to.sample, y) : 0;
    auto put = [at](int px, int ch, float v) { at[chunk_at<2 * MT>(px, ch / 8) + ch % 8] = __float2bfloat16_rn(v); };
    if (p.x.how == CHUNKS) x.begin(at, m, from, there, lane);
    else singles<SPAN>(m, from, there, to.x - 1, c0, min(static_cast<int>(m.c) - c0, MT * 16), lane, put);
  }

  __device__ void begin_dy(char *stage) {
    const nnk_map &m = p.dy.m;
    int64_t from = row_at(m, to.sample, to.y + row);
    int c = static_cast<int>(m.c);
    auto put = [&](int px, int ch, float v) {
      if (m.elt == NNK_F32) reinterpret_cast<float *>(stage)[px * c + ch] = v;
      else reinterpret_cast<__nv_bfloat16 *>(stage)[px * c + ch] = __float2bfloat16_rn(v);
    };
    if constexpr (TWISTED) dy.begin(reinterpret_cast<__nv_bfloat16 *>(stage), m, from, true, lane);
    else if (p.dy.how == RUN) begin_run(stage, m, from, to.x, lane);
    else singles<WIDE>(m, from, true, to.x, 0, c, lane, put);
  }

  /* Sets one more row on its way; of a tile x has one above and one below besides. */
  __device__ void begin() {
    if (coming < p.jobs) {
      char *stage = ring + slot * ROW;
      begin_x(stage);
      if (row < to.rows) begin_dy(stage + X_BYTES);
      if (++row == to.rows + 2) {
        coming += stride;
        aim();
      }
    }
    slot = slot + 1 < STAGES ? slot + 1 : 0;
    end_stage();
  }

  __device__ void take_chunks(const char *stage) {
    const __nv_bfloat16 *at = reinterpret_cast<const __nv_bfloat16 *>(stage);
#pragma unroll
    for (int nt = 0; nt < NT; nt += 2) {
      int chunk = nt + lane / 16 < NT ? nt + lane / 16 : nt;
      uint32_t r[4];
      ldmatrix_x4_trans(r, at + chunk_at<NT>(lane % 16, chunk));
#pragma unroll
      for (int i = 0; i < 4; i++) {
        if (nt + i / 2 >= NT) continue;
        b[0][nt + i / 2][i % 2] = r[i];
        bias[nt + i / 2] += low_bf16(r[i]) + high_bf16(r[i]);
      }
    }
  }

  /* Behind dy's last channel is the next pixel, or nothing: sums that nobody reads. */
  template <class T> __device__ void take_run(const T *stage) {
    int c = static_cast<int>(p.dy.m.c);
    const T *at = stage + lane % 4 * 2 * c + lane / 4;
#pragma unroll
    for (int i = 0; i < 2 * NT; i++) {
      int nt = i / 2, px = i % 2 * 8;
      float first, second;
      load<1>(&first, at, px * c + nt * 8);
      load<1>(&second, at, (px + 1) * c + nt * 8);
      b[0][nt][i % 2] = two_bf16(first, second);
      bias[nt] += first + second;
    }
  }

  __device__ void take_dy(const char *stage) {
    if constexpr (TWISTED) take_chunks(stage);
    else if (p.dy.m.elt == NNK_F32) take_run(reinterpret_cast<const float *>(stage));
    else take_run(reinterpret_cast<const __nv_bfloat16 *>(stage));
  }

  /* Row r of a tile's rows + 2 of x. */
  __device__ void take(const char *stage, int r, int rows) {
    const __nv_bfloat16 *at = reinterpret_cast<const __nv_bfloat16 *>(stage);
    uint32_t a[3][MT][4];
#pragma unroll
    for (int i = 0; i < 2 * NT; i++) {
      b[2][i / 2][i % 2] = b[1][i / 2][i % 2];
      b[1][i / 2][i % 2] = b[0][i / 2][i % 2];
    }
    if (r < rows) take_dy(stage + X_BYTES);
#pragma unroll
    for (int i = 0; i < 3 * MT; i++) {
      int kx = i / MT, mt = i % MT, px = lane / 16 * 8 + lane % 8 + kx, chunk = mt * 2 + lane / 8 % 2;
      ldmatrix_x4_trans(a[kx][mt], at + chunk_at<2 * MT>(px, chunk));
    }
#pragma unroll
    for (int ky = 0; ky < 3; ky++) {
      if (r < ky || r - ky >= rows) continue;
#pragma unroll
      for (int i = 0; i < 3 * MT * NT; i++) {
        int kx = i / (MT * NT), mt = i / NT % MT, nt = i % NT;
        product16(sums[ky * 3 + kx][mt][nt], a[kx][mt], b[ky][nt]);
      }
    }
  }

  __device__ void run() {
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++) begin();
    int now = 0;
#pragma unroll 1
    for (int job = static_cast<int>(blockIdx.x) * WARPS + static_cast<int>(threadIdx.x) / 32; job < p.jobs;
         job += stride) {
      int rows = place_of_job(p, job).rows;
#pragma unroll 1
      for (int r = 0; r < rows + 2; r++) {
        wait_stage<STAGES - 2>();
        __syncwarp(); /* for all lanes' parts, and until all have read the row whose place the next one takes */
        begin();
        take(ring + now * ROW, r, rows);
        now = now + 1 < STAGES ? now + 1 : 0;
      }
    }
#pragma unroll
    for (int nt = 0; nt < NT; nt++) {
      bias[nt] += __shfl_xor_sync(0xffffffffu, bias[nt], 1);
      bias[nt] += __shfl_xor_sync(0xffffffffu, bias[nt], 2);
    }
  }

  /* A warp's sums in shared memory, lane by lane, so that no two lanes share a bank. */
  __device__ void leave(float *slab) const {
#pragma unroll
    for (int i = 0; i < SUMS; i++) slab[i * 32 + lane] = sums[i / (MT * NT * 4)][i / (NT * 4) % MT][i / 4 % NT][i % 4];
#pragma unroll
    for (int nt = 0; nt < NT; nt++)
      if (lane % 4 == 0) slab[SUMS * 32 + nt * 8 + lane / 4] = bias[nt];
  }

  __device__ void join(const float *slab) {
#pragma unroll
    for (int i = 0; i < SUMS; i++) sums[i / (MT * NT * 4)][i / (NT * 4) % MT][i / 4 % NT][i % 4] += slab[i * 32 + lane];
#pragma unroll
    for (int nt = 0; nt < NT; nt++) bias[nt] += slab[SUMS * 32 + nt * 8 + lane / 4];
  }

  /* The block's piece: number i of a slab, of one half of x's channels, is summed over the slabs of that half. */
  __device__ void leave_piece(const float *slabs) const {
    int cx = static_cast<int>(p.x.m.c), cy = static_cast<int>(p.dy.m.c), count = cy * TAPS * cx;
    float *piece = p.work + static_cast<int64_t>(blockIdx.x) * (count + cy);
    for (int e = static_cast<int>(threadIdx.x); e < SLAB * p.halves; e += THREADS) {
      int half = e / SLAB, i = e - half * SLAB, of = i % 32, which = i / 32;
      float sum = 0;
      for (int k = half; k < WARPS / 2; k += p.halves) sum += slabs[k * SLAB + i];
      int ch = half * 16 + which / (NT * 4) % MT * 16 + which / 2 % 2 * 8 + of / 4;
      int out = which / 4 % NT * 8 + of % 4 * 2 + which % 2, tap = which / (MT * NT * 4);
      if (which < SUMS && ch < cx && out < cy) piece[(out * TAPS + tap) * cx + ch] = sum;
      if (which >= SUMS && half == 0 && i - SUMS * 32 < cy) piece[count + i - SUMS * 32] = sum;
    }
  }
};

template <int MT, int NT, bool TWISTED> __global__ void __launch_bounds__(THREADS, 1) few_weights(few_args p) {
  typedef few_sums<MT, NT, TWISTED> W;
  SP_DYNAMIC_SHARED(char, shared);
  float *slabs = reinterpret_cast<float *>(shared);
  int warp = static_cast<int>(threadIdx.x) / 32, upper = warp - WARPS / 2;
  W w(p, shared);
  w.run();
  wait_stage<0>();
  __syncthreads();
  if (upper >= 0) w.leave(slabs + upper * W::SLAB);
  __syncthreads();
  if (upper < 0) {
    w.join(slabs + warp * W::SLAB);
    w.leave(slabs + warp * W::SLAB);
  }
  __syncthreads();
  w.leave_piece(slabs);
}

template <int MT, int NT, bool TWISTED> static int launch(void *stream, const few_args &p, unsigned blocks) {
  enum { BYTES = few_sums<MT, NT, TWISTED>::BYTES };
  cudaFuncSetAttribute(reinterpret_cast<const void *>(&few_weights<MT, NT, TWISTED>),
                       cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
  SP_LAUNCH((few_weights<MT, NT, TWISTED>), blocks, THREADS, BYTES, stream, p);
  return launched();
}

template <int MT, int NT> static int launch(void *stream, const few_args &p, unsigned blocks) {
  return p.dy.how == CHUNKS ? launch<MT, NT, true>(stream, p, blocks) : launch<MT, NT, false>(stream, p, blocks);
}

static bool aligned(const nnk_map *m, int64_t bytes) {
  return bytes % 16 == 0 && reinterpret_cast<uintptr_t>(m->p) % 16 == 0;
}

static few_map few_of(const nnk_map *m, bool run) {
  if (m->elt == NNK_BF16 && m->layout != PLANAR && aligned(m, m->c * 2)) return {*m, CHUNKS};
  bool whole = m->layout == 0 && aligned(m, m->w * m->c * static_cast<int64_t>(bytes_of(m->elt)));
  return {*m, run && whole ? RUN : SINGLES};
}

/* Tiles of that height which have the warps finish soonest: high ones share more rows, low ones more evenly. */
static void cut(few_args *p) {
  const nnk_map &m = p->dy.m;
  int64_t least = INT64_MAX;
  for (int high = 8; high <= 64; high *= 2) {
    int64_t jobs = m.n * up(m.h, high) * up(m.w, WIDE) * p->halves, rows = up(jobs, BLOCKS * WARPS) * (high + 2);
    if (rows >= least) continue;
    least = rows;
    p->high = high, p->jobs = static_cast<int>(jobs), p->down = static_cast<int>(up(m.h, high));
  }
  p->across = static_cast<int>(up(m.w, WIDE));
}

} // namespace nnk

using namespace nnk;

int nnk::few_weight(void *stream, nnk_sum dw, nnk_sum db, const nnk_map *x, const nnk_map *dy, float *work) {
  if (x->c > 32 || dy->c > 32) return refused();
  bool two = x->c > 16; /* halves of x's channels: in one warp where its registers hold them */
  few_args p = {few_of(x, false), few_of(dy, true), work, 0, 0, 0, two && dy->c > 16 ? 2 : 1, 0};
  cut(&p);
  int64_t pieces = up(p.jobs < BLOCKS * WARPS ? p.jobs : BLOCKS * WARPS, WARPS);
  unsigned blocks = static_cast<unsigned>(pieces);
  int st;
  if (dy->c <= 16) st = two ? launch<2, 2>(stream, p, blocks) : launch<1, 2>(stream, p, blocks);
  else st = dy->c <= 24 ? launch<1, 3>(stream, p, blocks) : launch<1, 4>(stream, p, blocks);
  return st ? st : sum_pieces(stream, dw, dy->c * TAPS * x->c, db, dy->c, work, pieces);
}
