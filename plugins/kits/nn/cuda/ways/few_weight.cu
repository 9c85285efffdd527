/* SPDX-License-Identifier: MIT
 * few_weight.cu - gradients of the weights and the bias of 3x3 convolutions with few channels, in one pass of
 * products in bfloat16.
 *
 * Pixels are what a product sums over: 16 of a row. A warp has a tile of 16 columns by itself and walks down its rows:
 * each row of x is loaded once and meets, three times shifted, the last three rows of dy, which stay in registers. Rows
 * are on their way to a ring of the warp's own in shared memory while others are computed, so that warps wait for
 * nobody. At the end a block adds up its warps' sums and leaves a piece; the pieces are summed in a fixed order.
 */
#include "bf16.cuh"
#include "few.cuh"

namespace nnk {

enum { WIDE = 16, SPAN = WIDE + 2, TAPS = 9 };
/* Bytes of shared memory that a block may have on any device of these products. */
enum { SHARED = 98304 };

/* How a row of a tile comes to shared memory: CHUNKS: of 8 channels each, permuted. RUN: as it
 * lies in memory, where that is one run, 16 bytes at a time. SINGLES: number by number, to either form. */
enum { CHUNKS, RUN, SINGLES };

struct few_map {
  nnk_map m;
  int how;
  int step;             /* bytes from a pixel to the next, */
  int64_t pitch, whole; /* from a row to the next, but in Z order, and from a sample */
};

/* A job is one tile of WIDE x `high` pixels and, of `halves`, 16 channels of x. */
struct few_args {
  few_map x, dy;
  float *work; /* a piece: [out][taps][in], then [out] */
  int high, down, across, halves, jobs, pieces;
};

/* Where 8 numbers of a pixel lie in a row. */
template <int COUNT> __device__ inline int chunk_at(int px, int chunk) {
  return (px * COUNT + permuted<COUNT>(px, chunk)) * 8;
}

struct job_place {
  int sample, y, x, rows;
};

__device__ inline job_place place_of_job(const few_args &p, int job) {
  int tile = job >> (p.halves - 1), row = tile / p.across, sample = row / p.down, y = (row - sample * p.down) * p.high;
  return {sample, y, (tile - row * p.across) * WIDE, min(p.high, static_cast<int>(p.dy.m.h) - y)};
}

/* A place in shared memory of which the compiler does not know that it is there: else it computes it anew each time. */
__device__ inline char *hidden(char *s) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+l"(s));
#endif
  return s;
}

/* A number at such a place. */
__device__ inline float number_at(const float *s) {
#ifdef __CUDA_ARCH__
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(in_shared(s)) : "memory");
  return v;
#else
  return *s;
#endif
}

__device__ inline float number_at(const __nv_bfloat16 *s) {
#ifdef __CUDA_ARCH__
  uint16_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(in_shared(s)) : "memory");
  return low_bf16(v);
#else
  return __bfloat162float(*s);
#endif
}

/* ---- on the way to shared memory ---- */
/* Where a row of a sample begins; of its first channel, where the map is N,C,H,W. */
__device__ inline const char *row_of(const few_map &f, int sample, int y) {
  uint32_t row = place_of(static_cast<uint32_t>(y), 0, f.m.layout, static_cast<uint32_t>(f.m.w));
  return static_cast<const char *>(f.m.p) + sample * f.whole + static_cast<int64_t>(static_cast<int>(row)) * f.step;
}

/* The chunks that a lane has of each row of a tile. from: column and channels, in numbers from the row's first; less
 * than 0: zeros. */
template <int WIDTH, int COUNT> struct chunk_loads {
  enum { EACH = (WIDTH * COUNT + 31) / 32 };
  int from[EACH];

  __device__ void aim(const nnk_map &m, int x0, int c0, int lane) {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      int px = (lane + 32 * i) / COUNT, ch = (lane + 32 * i) % COUNT * 8 + c0, x = x0 + px;
      bool there = x >= 0 && x < m.w && ch < m.c;
      uint32_t place = place_of(0, static_cast<uint32_t>(x), m.layout, static_cast<uint32_t>(m.w));
      from[i] = there ? static_cast<int>(place) * static_cast<int>(m.c) + ch : -8;
    }
  }

  /* to: where the first one goes; however chunks are permuted, those of 32 on are as far behind. */
  __device__ void begin(char *to, const char *row, bool there, int lane) const {
#pragma unroll
    for (int i = 0; i < EACH; i++)
      if (lane + 32 * i < WIDTH * COUNT)
        copy_chunk(to + 512 * i, reinterpret_cast<const __nv_bfloat16 *>(row) + from[i], there && from[i] >= 0);
  }
};

/* The numbers of one row of WIDTH pixels and `count` channels from c0 on, four of a lane on their way at a time;
 * put(pixel, channel, number) stores them. */
template <int WIDTH, class PUT>
__device__ inline void singles(const nnk_map &m, const char *row, bool there, int x0, int c0, int count, int lane,
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
      if (there && e < WIDTH * count && x >= 0 && x < m.w) load<1>(&v[i], row, m.elt, place * step + (c0 + ch) * next);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      int e = first + 32 * i;
      if (e < WIDTH * count) put(planar ? e % WIDTH : e / count, planar ? e / WIDTH : e % count, v[i]);
    }
  }
}

/* A row of dy, of up to 8 NT channels, as it lies in memory; behind the map's last column zeros. */
template <int NT> __device__ inline void begin_run(char *to, const nnk_map &m, const char *row, int x0, int lane) {
  int pixel = static_cast<int>(m.c) * (m.elt == NNK_BF16 ? 2 : 4), wide = static_cast<int>(m.w) - x0;
#pragma unroll
  for (int i = 0; i < NT; i++) {
    int at = (lane + 32 * i) * 16;
    if (at < WIDE * pixel) copy_chunk(to + at, row + static_cast<int64_t>(x0) * pixel + at, at < wide * pixel);
  }
}

/* ---- products: a warp's sums over 16 MT channels of x by 8 NT of dy, and what it has on its way. WHOLE: x comes as
 * CHUNKS, else as SINGLES. PERMUTED: dy comes as CHUNKS, else one pixel after the other in its own type. ---- */
template <int MT, int NT, bool WHOLE, bool PERMUTED> struct few_sums {
  enum { X_BYTES = SPAN * MT * 32, DY_BYTES = WIDE * NT * (PERMUTED ? 16 : 32), ROW = X_BYTES + DY_BYTES };
  enum {
    WARPS = MT * NT > 2 || !WHOLE || !PERMUTED ? 8 : 16,
    STAGES = SHARED / WARPS / ROW,
    SUMS = TAPS * MT * NT * 4,
    SLAB = SUMS * 32 + NT * 8
  };
  static_assert(WARPS / 2 * SLAB * 4 <= SHARED, "half of the warps' sums take the place of the rows");
  const few_args &p;
  char *ring;
  int lane, stride, at[3]; /* at: of its part of x's factors, where a tile's row begins and one and two pixels on */
  /* on the way */
  int coming, row, slot;
  job_place to;
  const char *x_row, *dy_row;
  int x_place, dy_place; /* of a lane's first chunk */
  chunk_loads<SPAN, 2 * MT> x;
  chunk_loads<WIDE, PERMUTED ? NT : 1> dy;
  /* computed */
  float sums[TAPS][MT][NT][4], bias[NT];
  uint32_t b[3][NT][2]; /* the last rows of dy, the newest first */

  __device__ few_sums(const few_args &args, char *shared) : p(args) {
    int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
    lane = thread % 32;
    ring = hidden(shared + warp * STAGES * ROW);
    coming = static_cast<int>(blockIdx.x) * WARPS + warp, stride = static_cast<int>(gridDim.x) * WARPS;
    slot = 0;
    x_place = hidden(chunk_at<2 * MT>(lane / (2 * MT), lane % (2 * MT)) * 2);
    dy_place = NT == 2 * MT ? x_place : hidden(chunk_at<NT>(lane / NT, lane % NT) * 2);
#pragma unroll
    for (int kx = 0; kx < 3; kx++) at[kx] = chunk_at<2 * MT>(lane / 16 * 8 + lane % 8 + kx, lane / 8 % 2);
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
    x_row = row_of(p.x, to.sample, to.y - 1);
    dy_row = row_of(p.dy, to.sample, to.y);
    if constexpr (WHOLE) x.aim(p.x.m, to.x - 1, (coming & (p.halves - 1)) * 16, lane);
    if constexpr (PERMUTED) dy.aim(p.dy.m, to.x, 0, lane);
  }

  __device__ const char *after(const char *at, const few_map &f, int y) const {
    return f.m.layout > 0 ? row_of(f, to.sample, y) : at + f.pitch;
  }

  __device__ void begin_x(char *stage) {
    const nnk_map &m = p.x.m;
    int y = to.y + row - 1, c0 = (coming & (p.halves - 1)) * 16;
    bool there = static_cast<uint32_t>(y) < static_cast<uint32_t>(m.h);
    auto put = [stage](int px, int ch, float v) {
      reinterpret_cast<__nv_bfloat16 *>(stage)[chunk_at<2 * MT>(px, ch / 8) + ch % 8] = __float2bfloat16_rn(v);
    };
    if constexpr (WHOLE) x.begin(stage + x_place, x_row, there, lane);
    else singles<SPAN>(m, x_row, there, to.x - 1, c0, min(static_cast<int>(m.c) - c0, MT * 16), lane, put);
    x_row = after(x_row, p.x, y + 1);
  }

  __device__ void begin_dy(char *stage) {
    const nnk_map &m = p.dy.m;
    int c = static_cast<int>(m.c);
    auto put = [&](int px, int ch, float v) {
      if (m.elt == NNK_F32) reinterpret_cast<float *>(stage)[px * c + ch] = v;
      else reinterpret_cast<__nv_bfloat16 *>(stage)[px * c + ch] = __float2bfloat16_rn(v);
    };
    if constexpr (PERMUTED) dy.begin(stage + dy_place, dy_row, true, lane);
    else if (p.dy.how == RUN) begin_run<NT>(stage, m, dy_row, to.x, lane);
    else singles<WIDE>(m, dy_row, true, to.x, 0, c, lane, put);
    dy_row = after(dy_row, p.dy, to.y + row + 1);
  }

  /* Sets one more row on its way; of a tile x has one above and one below besides. */
  __device__ void begin() {
    if (coming < p.jobs) {
      begin_x(ring + slot);
      if (row < to.rows) begin_dy(ring + slot + X_BYTES);
      if (++row == to.rows + 2) {
        coming += stride;
        aim();
      }
    }
    slot = slot + ROW < STAGES * ROW ? slot + ROW : 0;
    end_stage();
  }

  __device__ void take_chunks(const char *stage) {
    const __nv_bfloat16 *at = reinterpret_cast<const __nv_bfloat16 *>(stage);
#pragma unroll
    for (int nt = 0; nt < NT; nt += 2) {
      int chunk = nt + lane / 16 < NT ? nt + lane / 16 : nt;
      uint32_t r[4];
      load_matrices<true>(r, at + chunk_at<NT>(lane % 16, chunk));
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
      float first = number_at(at + px * c + nt * 8), second = number_at(at + (px + 1) * c + nt * 8);
      b[0][nt][i % 2] = two_bf16(first, second);
      bias[nt] += first + second;
    }
  }

  __device__ void take_dy(const char *stage) {
    if constexpr (PERMUTED) take_chunks(stage);
    else if (p.dy.m.elt == NNK_F32) take_run(reinterpret_cast<const float *>(stage));
    else take_run(reinterpret_cast<const __nv_bfloat16 *>(stage));
  }

  __device__ void load_x(uint32_t (*a)[4], const char *stage, int kx) const {
#pragma unroll
    for (int mt = 0; mt < MT; mt++) /* however they are permuted */
      load_matrices<true>(a[mt], reinterpret_cast<const __nv_bfloat16 *>(stage) + (at[kx] ^ mt * 16));
  }

  /* Row r of a tile's rows + 2 of x. */
  __device__ void take(const char *stage, int r, int rows) {
    uint32_t a[2][MT][4];
#pragma unroll
    for (int i = 0; i < 2 * NT; i++) {
      b[2][i / 2][i % 2] = b[1][i / 2][i % 2];
      b[1][i / 2][i % 2] = b[0][i / 2][i % 2];
    }
    if (r < rows) take_dy(stage + X_BYTES);
    load_x(a[0], stage, 0);
#pragma unroll
    for (int kx = 0; kx < 3; kx++) {
      if (kx < 2) load_x(a[(kx + 1) % 2], stage, kx + 1);
#pragma unroll
      for (int ky = 0; ky < 3; ky++) {
        if (r < ky || r - ky >= rows) continue;
#pragma unroll
        for (int i = 0; i < MT * NT; i++)
          product16(sums[ky * 3 + kx][i / NT][i % NT], a[kx % 2][i / NT], b[ky][i % NT]);
      }
    }
  }

  __device__ void run() {
    int job = coming, r = 1 - STAGES, rows = 0, now = 0;
    if (job < p.jobs) rows = place_of_job(p, job).rows;
#pragma unroll 1
    while (job < p.jobs) {
      wait_stage<STAGES - 2>();
      __syncwarp(); /* for all lanes' parts, and until all have read the row whose place the next one takes */
      begin();
      if (r < 0) {
        r++;
        continue;
      }
      take(ring + now, r, rows);
      now = now + ROW < STAGES * ROW ? now + ROW : 0;
      if (++r < rows + 2) continue;
      job += stride, r = 0;
      if (job < p.jobs) rows = place_of_job(p, job).rows;
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
    for (int e = static_cast<int>(threadIdx.x); e < SLAB * p.halves; e += WARPS * 32) {
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

template <class W> __global__ void __launch_bounds__(W::WARPS * 32, 1) few_weights(few_args p) {
  SP_DYNAMIC_SHARED(char, shared);
  float *slabs = reinterpret_cast<float *>(shared);
  int warp = static_cast<int>(threadIdx.x) / 32, upper = warp - W::WARPS / 2;
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

static bool aligned(const nnk_map *m, int64_t bytes) {
  return bytes % 16 == 0 && reinterpret_cast<uintptr_t>(m->p) % 16 == 0;
}

static few_map few_of(const nnk_map *m, bool run) {
  int64_t number = static_cast<int64_t>(bytes_of(m->elt)), step = (m->layout == PLANAR ? 1 : m->c) * number;
  few_map f = {*m, SINGLES, static_cast<int>(step), m->w * step, pixels(*m) * m->c * number};
  if (m->elt == NNK_BF16 && m->layout != PLANAR && aligned(m, step)) f.how = CHUNKS;
  else if (run && m->layout == 0 && aligned(m, f.pitch)) f.how = RUN;
  return f;
}

/* Tiles of that height which have the warps finish soonest: high ones share more rows, low ones more evenly. */
static void cut(few_args *p, int warps, int multiprocessors) {
  const nnk_map &m = p->dy.m;
  int64_t least = INT64_MAX, most = static_cast<int64_t>(multiprocessors) * warps;
  for (int high = 8; high <= 64; high *= 2) {
    int64_t jobs = m.n * up(m.h, high) * up(m.w, WIDE) * p->halves, rows = up(jobs, most) * (high + 2);
    if (rows >= least) continue;
    least = rows;
    p->high = high, p->jobs = static_cast<int>(jobs), p->down = static_cast<int>(up(m.h, high));
    p->pieces = static_cast<int>(up(jobs < most ? jobs : most, warps));
  }
  p->across = static_cast<int>(up(m.w, WIDE));
}

/* ---- which kernel ---- */
struct choice {
  void (*kernel)(few_args p);
  int warps;
};

template <class W> static choice choice_of() { return {&few_weights<W>, W::WARPS}; }

template <int MT, int NT> static choice choice_by(bool whole, bool permutes) {
  if (whole) return permutes ? choice_of<few_sums<MT, NT, true, true>>() : choice_of<few_sums<MT, NT, true, false>>();
  return permutes ? choice_of<few_sums<MT, NT, false, true>>() : choice_of<few_sums<MT, NT, false, false>>();
}

/* 16 or, with up to 16 of dy, 32 channels of x; nt: eights of dy's. */
static choice choose(bool two, int nt, bool whole, bool permutes) {
  if (nt <= 2) return two ? choice_by<2, 2>(whole, permutes) : choice_by<1, 2>(whole, permutes);
  return nt == 3 ? choice_by<1, 3>(whole, permutes) : choice_by<1, 4>(whole, permutes);
}

int few_weight_prepare() {
  cudaError_t err = cudaSuccess;
  for (int i = 0; i < 32 && !err; i++) {
    choice c = choose(i & 4, i / 8 + 1, i & 2, i & 1);
    err = cudaFuncSetAttribute(reinterpret_cast<const void *>(c.kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               SHARED);
  }
  return static_cast<int>(err);
}

int few_weight(void *stream, nnk_sum dw, nnk_sum db, const nnk_map *x, const nnk_map *dy, float *work,
               int multiprocessors) {
  if (x->c > FEW || dy->c > FEW) return refused();
  bool two = x->c > 16; /* halves of x's channels: in one warp where its registers hold them */
  few_args p = {few_of(x, false), few_of(dy, true), work, 0, 0, 0, two && dy->c > 16 ? 2 : 1, 0, 0};
  choice c = choose(two, static_cast<int>(up(dy->c, 8)), p.x.how == CHUNKS, p.dy.how == CHUNKS);
  cut(&p, c.warps, multiprocessors);
  SP_LAUNCH(c.kernel, static_cast<unsigned>(p.pieces), c.warps * 32, SHARED, stream, p);
  int st = launched();
  return st ? st : sum_pieces(stream, dw, dy->c * TAPS * x->c, db, dy->c, work, p.pieces);
}

} // namespace nnk
