/* SPDX-License-Identifier: MIT
 * few.cu - 3x3 convolutions with up to 32 channels on the tensor cores' bfloat16, forward and data gradient, which is
 * the same with the kernel turned: blocks walk over tiles, and while a tile is computed the next one is on its way.
 */
#include "bf16.cuh"
#include "few.cuh"

namespace nnk {

/* A tile of y, and what is read of x for it; the rows of a warp, one below the other and 16 pixels each. LIMIT: of a
 * block's shared memory, that of the smallest multiprocessors. */
enum {
  HIGH = 16,
  WIDE = 32,
  SPAN_Y = HIGH + 2,
  SPAN_X = WIDE + 2,
  THREADS = 256,
  PER_SM = 2,
  ROWS = 4,
  LIMIT = 99 << 10
};

/* How x comes to its tile: as chunks of 16 bytes as it lies; as runs, rows of pixels that lie together, which are
 * rounded and dealt out in shared memory; number by number. How y goes: as vectors, all that a lane has of a pixel in
 * one piece; as runs; number by number. */
enum way { CHUNKS, VECTORS = CHUNKS, RUNS, NUMBERS };

struct walk_args {
  few_layer of;
  way in, out;
  int v, pitch; /* numbers of one access to runs of y, bytes of a run of x */
  tiling tiles;
};

/* KC: sixteens of channels of x, NT: eights of those of y. */
template <int KC, int NT> struct sizes {
  enum { PIXEL = KC * 32, LINE = SPAN_X * PIXEL, TILE = SPAN_Y * LINE };
  enum { FACTORS = 9 * KC * NT * 64, BIAS = NT * 8, FRONT = (FACTORS + BIAS) * 4, STAGE = 16 * NT * 8 * 4 };
  enum { OUT = NT * 2 };
};

/* Where 16 bytes of a pixel lie in a tile. */
template <int KC> __device__ inline int chunk_at(int row, int col, int chunk) {
  return (row * SPAN_X + col) * KC * 32 + permuted<2 * KC>(col, chunk) * 16;
}

__device__ inline bool inside(const nnk_map &m, int y, int x) {
  return static_cast<uint32_t>(y) < static_cast<uint32_t>(m.h) && static_cast<uint32_t>(x) < static_cast<uint32_t>(m.w);
}

/* Of number ch of a pixel; place: of the pixel in its sample. */
__device__ inline int64_t number_at(const nnk_map &m, int sample, int64_t place, int ch) {
  int64_t size = pixels(m);
  return m.layout == PLANAR ? (sample * m.c + ch) * size + place : (sample * size + place) * m.c + ch;
}

__device__ inline uint32_t pixel_of(const nnk_map &m, int y, int x) {
  return place_of(static_cast<uint32_t>(y), static_cast<uint32_t>(x), m.layout, static_cast<uint32_t>(m.w));
}

/* ---- x to a tile ---- */
template <int KC> __device__ inline void begin_chunks(char *tile, const walk_args &p, const corner &at) {
  enum { PER = KC * 2, UNITS = SPAN_Y * SPAN_X * PER };
  const nnk_map &x = p.of.x;
  const char *from = static_cast<const char *>(x.p) + at.sample * pixels(x) * x.c * 2;
  int thread = hidden(static_cast<int>(threadIdx.x));
#pragma unroll
  for (int i = 0; i < (UNITS + THREADS - 1) / THREADS; i++) {
    int unit = thread + i * THREADS, px = unit / PER, chunk = unit % PER;
    int row = px / SPAN_X, col = px - row * SPAN_X;
    bool there = chunk * 8 < x.c && inside(x, at.y + row - 1, at.x + col - 1);
    int64_t place = there ? pixel_of(x, at.y + row - 1, at.x + col - 1) * x.c + chunk * 8 : 0;
    if (unit >= UNITS) break;
    copy_chunk(tile + chunk_at<KC>(row, col, chunk), from + place * 2, there);
  }
}

/* A tile's row of x in whole chunks of `per` numbers: they begin at number `first` of the map's row, and `lead` of them
 * are in front of the tile's first pixel. */
struct run {
  int per, first, lead;
};

__device__ inline run run_of(const nnk_map &x, int left) {
  int start = (left - 1) * static_cast<int>(x.c), per = x.elt == NNK_F32 ? 4 : 8, first = start & -per;
  return {per, first, start - first};
}

__device__ inline void begin_runs(char *runs, const walk_args &p, const corner &at) {
  const nnk_map &x = p.of.x;
  run of = run_of(x, at.x);
  int lane = static_cast<int>(threadIdx.x) % 32, bytes = 16 / of.per;
  int64_t length = x.w * x.c;
  for (int row = static_cast<int>(threadIdx.x) / 32; row < SPAN_Y; row += THREADS / 32) {
    int y = at.y + row - 1;
    if (static_cast<uint64_t>(y) >= static_cast<uint64_t>(x.h)) continue;
    const char *from = static_cast<const char *>(x.p) + (at.sample * x.h + y) * length * bytes;
    for (int i = lane; i * 16 < p.pitch; i += 32) {
      int64_t number = of.first + i * of.per;
      bool there = number >= 0 && number < length;
      copy_chunk(runs + row * p.pitch + i * 16, from + (there ? number * bytes : 0), there);
    }
  }
}

/* The whole tile, two channels at a time; what read(row, col, channel) gives of a pixel of the map. across: pixel after
 * pixel, else channel after channel of a pixel. */
template <int KC, class READ>
__device__ inline void take_pairs(char *tile, const walk_args &p, const corner &at, bool across, READ read) {
  enum { PER = KC * 8, PIXELS = SPAN_Y * SPAN_X, UNITS = PIXELS * PER, EACH = 4 };
  int c = static_cast<int>(p.of.x.c);
  for (int begin = hidden(static_cast<int>(threadIdx.x)); begin < UNITS; begin += THREADS * EACH) {
    float v[EACH][2];
    int to[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      int unit = begin + i * THREADS, px = across ? unit % PIXELS : unit / PER,
          pair = across ? unit / PIXELS : unit % PER;
      int row = px / SPAN_X, col = px - row * SPAN_X;
      bool there = unit < UNITS && inside(p.of.x, at.y + row - 1, at.x + col - 1);
      to[i] = unit < UNITS ? chunk_at<KC>(row, col, pair / 4) + pair % 4 * 4 : -1;
#pragma unroll
      for (int j = 0; j < 2; j++) v[i][j] = there && pair * 2 + j < c ? read(row, col, pair * 2 + j) : 0;
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
      if (to[i] >= 0) *reinterpret_cast<uint32_t *>(tile + to[i]) = two_bf16(v[i][0], v[i][1]);
  }
}

template <int KC, class T>
__device__ inline void take_as(char *tile, const char *runs, const walk_args &p, const corner &at) {
  const nnk_map &x = p.of.x;
  if (p.in == RUNS) {
    int lead = run_of(x, at.x).lead, c = static_cast<int>(x.c);
    take_pairs<KC>(tile, p, at, false, [&](int row, int col, int ch) {
      float v;
      load<1>(&v, reinterpret_cast<const T *>(runs + row * p.pitch), lead + col * c + ch);
      return v;
    });
  } else {
    take_pairs<KC>(tile, p, at, x.layout == PLANAR, [&](int row, int col, int ch) {
      float v;
      int64_t place = pixel_of(x, at.y + row - 1, at.x + col - 1);
      load<1>(&v, static_cast<const T *>(x.p), number_at(x, at.sample, place, ch));
      return v;
    });
  }
}

template <int KC> __device__ inline void take(char *tile, const char *runs, const walk_args &p, const corner &at) {
  if (p.of.x.elt == NNK_F32) take_as<KC, float>(tile, runs, p, at);
  else take_as<KC, __nv_bfloat16>(tile, runs, p, at);
}

/* ---- products ---- */
/* Factors as they go into a product's b: [kx][kc][ky][nt][lane][2], each two channels of x. Channels of y are dealt so
 * that those that a lane has of a pixel's sums lie together. */
template <int KC, int NT> __device__ inline void prepare(uint32_t *factor, float *bias, const few_layer &p) {
  typedef sizes<KC, NT> S;
  int cx = static_cast<int>(p.x.c), cy = static_cast<int>(p.y.c);
#pragma unroll 6
  for (int i = static_cast<int>(threadIdx.x); i < S::FACTORS; i += THREADS) {
    int lane = i / 2 % 32, nt = i / 64 % NT, ky = i / (64 * NT) % 3, kc = i / (192 * NT) % KC, kx = i / (192 * NT * KC);
    int from = kc * 16 + i % 2 * 8 + lane % 4 * 2, to = lane / 8 * S::OUT + nt * 2 + lane / 4 % 2, tap = ky * 3 + kx;
    float v[2];
#pragma unroll
    for (int j = 0; j < 2; j++) {
      int at = p.turned ? ((from + j) * 9 + 8 - tap) * cy + to : (to * 9 + tap) * cx + from + j;
      v[j] = from + j < cx && to < cy ? p.w[at] : 0;
    }
    factor[i] = two_bf16(v[0], v[1]);
  }
  for (int i = static_cast<int>(threadIdx.x); i < S::BIAS; i += THREADS) bias[i] = p.bias && i < cy ? p.bias[i] : 0;
}

/* A warp's sums. What is loaded of x serves the three taps of a column. */
template <int KC, int NT>
__device__ inline void multiply(float (*sums)[NT][4], const char *tile, const uint32_t *factor) {
  int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int i = 0; i < ROWS * NT * 4; i++) sums[i / (NT * 4)][i / 4 % NT][i % 4] = 0;
#pragma unroll(KC *NT > 4 ? 1 : 3)
  for (int i = 0; i < 3 * KC; i++) {
    int step = NT < 4 ? i : hidden(i); /* with so many sums there are no registers for a second step */
    uint32_t b[3][NT][2];
#pragma unroll
    for (int i = 0; i < 3 * NT; i++) {
      uint2 two = *reinterpret_cast<const uint2 *>(factor + ((step * 3 * NT + i) * 32 + lane) * 2);
      b[i / NT][i % NT][0] = two.x, b[i / NT][i % NT][1] = two.y;
    }
    const char *from =
        tile + chunk_at<KC>(warp / 2 * ROWS, warp % 2 * 16 + step / KC + lane % 16, step % KC * 2 + lane / 16);
    uint32_t a[2][4]; /* of a row and, on its way, the next one */
    auto begin = [&](int r) {
      load_matrices<false>(a[r % 2], reinterpret_cast<const __nv_bfloat16 *>(from + r * sizes<KC, NT>::LINE));
    };
    begin(0);
#pragma unroll
    for (int r = 0; r < ROWS + 2; r++) {
      if (r < ROWS + 1) begin(r + 1);
#pragma unroll
      for (int i = 0; i < 3 * NT; i++) {
        int ky = i / NT, nt = i % NT;
        if (r >= ky && r - ky < ROWS) product16(sums[r - ky][nt], a[r % 2], b[ky][nt]);
      }
    }
  }
}

/* ---- sums to y ---- */
/* A lane's sum j of OUT = 2 NT of a pixel, half: of row r's first or second eight pixels. */
template <int NT>
__device__ inline float sum_in(const few_layer &p, const float (*sums)[NT][4], const float *bias, int r, int half,
                               int j) {
  float v = sums[r][j / 2][half * 2 + j % 2] + bias[j];
  return p.relu ? relu_of(v) : v;
}

template <int N> __device__ inline void load_words(uint32_t *w, const void *p) {
  if constexpr (N == 4) {
    uint4 v = *static_cast<const uint4 *>(p);
    w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
  } else if constexpr (N == 2) {
    uint2 v = *static_cast<const uint2 *>(p);
    w[0] = v.x, w[1] = v.y;
  } else {
    w[0] = *static_cast<const uint32_t *>(p);
  }
}

/* Where a lane's vectors go: of its pixel in half a row, in numbers; -1: nowhere. */
template <int NT> struct vectors {
  enum { OUT = NT * 2 };
  const walk_args &p;
  corner from; /* of the warp */
  __device__ int64_t at(int r, int half) const {
    const nnk_map &m = p.of.y;
    int lane = static_cast<int>(threadIdx.x) % 32, y = from.y + r, x = from.x + half * 8 + lane / 4;
    if (!inside(m, y, x)) return -1;
    return (from.sample * pixels(m) + pixel_of(m, y, x)) * (NT * 8) + lane % 4 * OUT;
  }

  /* The mask's words of half the rows. */
  __device__ void look(uint32_t (*w)[NT], int half) const {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      int64_t to = at(r, half);
      if (to >= 0) load_words<NT>(w[r], static_cast<const __nv_bfloat16 *>(p.of.mask) + to);
    }
  }

  __device__ void put(const float (*sums)[NT][4], const float *bias, uint32_t (*mask)[NT], int half) const {
    __nv_bfloat16 *to = static_cast<__nv_bfloat16 *>(p.of.y.p);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      uint32_t w[NT], old[NT] = {};
      int64_t place = at(r, half);
      if (place >= 0 && p.of.add) load_words<NT>(old, to + place);
#pragma unroll
      for (int i = 0; i < NT; i++) {
        float low = sum_in<NT>(p.of, sums, bias, r, half, i * 2),
              high = sum_in<NT>(p.of, sums, bias, r, half, i * 2 + 1);
        if (p.of.add) low += low_bf16(old[i]), high += high_bf16(old[i]);
        if (p.of.mask) low = low_bf16(mask[r][i]) > 0 ? low : 0, high = high_bf16(mask[r][i]) > 0 ? high : 0;
        w[i] = two_bf16(low, high);
      }
      if (place >= 0) store_words<NT>(to + place, w);
    }
  }
};

template <int V> __device__ inline void put_numbers(const few_layer &p, int64_t at, float *v) {
  store_grad<V>(p.y.p, p.y.elt, at, v, p.add, p.mask);
}

/* Each row through shared memory, where it lies as in y: so a warp's accesses lie side by side. */
template <int NT>
__device__ inline void put_runs(const walk_args &p, const float (*sums)[NT][4], const float *bias, float *stage,
                                const corner &at) {
  enum { OUT = NT * 2 };
  const nnk_map &m = p.of.y;
  int lane = static_cast<int>(threadIdx.x) % 32, c = static_cast<int>(m.c), first = lane % 4 * OUT;
  int64_t left = m.w - at.x;
  int count = static_cast<int>(left < 16 ? left : 16) * c;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    if (at.y + r >= m.h) return;
#pragma unroll
    for (int i = 0; i < 2 * OUT; i++) {
      int half = i / OUT, j = i % OUT;
      if (first + j < c) stage[(half * 8 + lane / 4) * c + first + j] = sum_in<NT>(p.of, sums, bias, r, half, j);
    }
    __syncwarp();
    int64_t to = ((at.sample * m.h + at.y + r) * m.w + at.x) * c;
    for (int i = lane * p.v; i < count; i += 32 * p.v) {
      float v[4];
      if (p.v == 4) load<4>(v, stage, i), put_numbers<4>(p.of, to + i, v);
      else load<1>(v, stage, i), put_numbers<1>(p.of, to + i, v);
    }
    __syncwarp();
  }
}

template <int NT>
__device__ inline void put_each(const walk_args &p, const float (*sums)[NT][4], const float *bias, const corner &at) {
  enum { OUT = NT * 2 };
  const nnk_map &m = p.of.y;
  int lane = static_cast<int>(threadIdx.x) % 32, first = lane % 4 * OUT;
#pragma unroll
  for (int i = 0; i < ROWS * 2; i++) {
    int r = i / 2, half = i % 2, y = at.y + r, x = at.x + half * 8 + lane / 4;
    if (!inside(m, y, x)) continue;
    int64_t place = pixel_of(m, y, x);
#pragma unroll
    for (int j = 0; j < OUT; j++) {
      float v = sum_in<NT>(p.of, sums, bias, r, half, j);
      if (first + j < m.c) put_numbers<1>(p.of, number_at(m, at.sample, place, first + j), &v);
    }
  }
}

/* Of tile i a warp has 16 columns of ROWS rows. */
__device__ inline corner part_of(const walk_args &p, int i) {
  corner at = corner_of<HIGH, WIDE>(p.tiles, i);
  int warp = static_cast<int>(threadIdx.x) / 32;
  return {at.sample, at.y + warp / 2 * ROWS, at.x + warp % 2 * 16};
}

/* The mask is on its way while the products are computed, where there are registers for it; places are found anew
 * behind them. */
template <int KC, int NT, bool DIRECT>
__device__ inline void compute(const walk_args &p, int i, const char *tile, const uint32_t *factor, const float *bias,
                               float *stage) {
  enum { EARLY = NT <= 2, HELD = EARLY ? 2 : 1 };
  float sums[ROWS][NT][4];
  corner mine = part_of(p, i);
  bias += threadIdx.x % 4 * NT * 2;
  if (mine.y >= p.of.y.h || mine.x >= p.of.y.w) return;
  if constexpr (DIRECT) {
    uint32_t mask[HELD][ROWS][NT];
#pragma unroll
    for (int half = 0; half < 2; half++)
      if (EARLY && p.of.mask) vectors<NT>{p, mine}.look(mask[half % HELD], half);
    multiply<KC, NT>(sums, tile, factor);
    vectors<NT> to = {p, part_of(p, hidden(i))};
#pragma unroll
    for (int half = 0; half < 2; half++) {
      if (!EARLY && p.of.mask) to.look(mask[0], half);
      to.put(sums, bias, mask[half % HELD], half);
    }
  } else {
    multiply<KC, NT>(sums, tile, factor);
    mine = part_of(p, hidden(i));
    if (p.out == RUNS) put_runs<NT>(p, sums, bias, stage + threadIdx.x / 32 * (sizes<KC, NT>::STAGE / 4), mine);
    else put_each<NT>(p, sums, bias, mine);
  }
}

/* AHEAD: x comes in chunks, the next tile's beside this one's; else, where it comes in runs, the next ones beside the
 * tile. DIRECT: y goes as vectors; the other ways with so many sums need more registers than half a multiprocessor
 * has. */
template <int KC, int NT, bool AHEAD, bool DIRECT>
__global__ void __launch_bounds__(THREADS, DIRECT || NT < 4 ? PER_SM : 1) few_tiles(walk_args p) {
  typedef sizes<KC, NT> S;
  SP_DYNAMIC_SHARED(char, shared);
  uint32_t *factor = reinterpret_cast<uint32_t *>(shared);
  float *bias = reinterpret_cast<float *>(factor + S::FACTORS);
  char *tile = shared + S::FRONT, *next = tile + S::TILE, *end = next + (AHEAD ? S::TILE : SPAN_Y * p.pitch);
  auto begin = [&](int i) {
    if (i < p.tiles.count) {
      if constexpr (AHEAD) begin_chunks<KC>(next, p, corner_of<HIGH, WIDE>(p.tiles, i));
      else if (p.in == RUNS) begin_runs(next, p, corner_of<HIGH, WIDE>(p.tiles, i));
    }
    end_stage();
  };
  begin(static_cast<int>(blockIdx.x));
  prepare<KC, NT>(factor, bias, p.of);
#pragma unroll 1
  for (int i = static_cast<int>(blockIdx.x); i < p.tiles.count; i += static_cast<int>(gridDim.x)) {
    wait_stage<0>();
    __syncthreads();
    if constexpr (AHEAD) {
      char *done = tile;
      tile = next, next = done;
    } else {
      take<KC>(tile, next, p, corner_of<HIGH, WIDE>(p.tiles, i));
      __syncthreads();
    }
    begin(i + static_cast<int>(gridDim.x));
    compute<KC, NT, DIRECT>(p, i, tile, factor, bias, reinterpret_cast<float *>(end));
  }
}

/* ---- which kernel, and how ---- */
typedef void (*kernel)(walk_args p);

template <int KC, int NT> static kernel kernel_by(bool ahead, bool direct) {
  if constexpr (NT != 3)
    if (direct) return ahead ? &few_tiles<KC, NT, true, true> : &few_tiles<KC, NT, false, true>;
  return ahead ? &few_tiles<KC, NT, true, false> : &few_tiles<KC, NT, false, false>;
}

template <int KC> static kernel kernel_by(int nt, bool ahead, bool direct) {
  switch (nt) {
    case 1: return kernel_by<KC, 1>(ahead, direct);
    case 2: return kernel_by<KC, 2>(ahead, direct);
    case 3: return kernel_by<KC, 3>(ahead, direct);
    default: return kernel_by<KC, 4>(ahead, direct);
  }
}

static kernel kernel_of(int kc, int nt, bool ahead, bool direct) {
  return kc == 1 ? kernel_by<1>(nt, ahead, direct) : kernel_by<2>(nt, ahead, direct);
}

/* Chooses the ways of x and y; returns the bytes of a block's shared memory. */
static size_t choose(walk_args &p, int kc, int nt) {
  const nnk_map &x = p.of.x, &y = p.of.y;
  int per = x.elt == NNK_F32 ? 4 : 8;
  int64_t tile = static_cast<int64_t>(SPAN_Y) * SPAN_X * kc * 32, fixed = (9 * kc * nt * 64 + nt * 8) * 4 + tile;
  int64_t stage = THREADS / 32 * 16 * nt * 8 * 4, pitch = up(SPAN_X * x.c + per - 1, per) * 16;
  bool aligned = reinterpret_cast<uintptr_t>(x.p) % 16 == 0;
  if (x.layout >= 0 && x.elt == NNK_BF16 && x.c % 8 == 0 && aligned) p.in = CHUNKS;
  else if (x.layout == 0 && x.w * x.c % per == 0 && aligned && fixed + SPAN_Y * pitch <= LIMIT) p.in = RUNS;
  else p.in = NUMBERS;
  p.pitch = p.in == RUNS ? static_cast<int>(pitch) : 0;
  fixed += p.in == CHUNKS ? tile : SPAN_Y * p.pitch;
  bool vectors = y.layout >= 0 && y.elt == NNK_BF16 && y.c == nt * 8 && nt != 3;
  if (vectors && access(access(2 * nt, &y, y.c), p.of.mask, y.elt, y.c) == 2 * nt) p.out = VECTORS;
  else if (y.layout == 0 && fixed + stage <= LIMIT) p.out = RUNS, fixed += stage;
  else p.out = NUMBERS;
  p.v = access(access(4, &y, y.w * y.c), p.of.mask, y.elt, y.w * y.c) == 4 ? 4 : 1;
  return static_cast<size_t>(fixed);
}

int few(void *stream, const few_layer &args, int multiprocessors) {
  walk_args p = {args, CHUNKS, VECTORS, 0, 0, tiling_of<HIGH, WIDE>(&args.y)};
  if (args.x.c > FEW || args.y.c > FEW) return refused();
  if (elements(args.y) == 0) return cudaSuccess;
  int kc = static_cast<int>(up(args.x.c, 16)), nt = static_cast<int>(up(args.y.c, 8));
  size_t bytes = choose(p, kc, nt);
  kernel tiles = kernel_of(kc, nt, p.in == CHUNKS, p.out == VECTORS);
  int walkers = multiprocessors * PER_SM;
  unsigned grid = static_cast<unsigned>(p.tiles.count < walkers ? p.tiles.count : walkers);
  SP_LAUNCH(tiles, grid, THREADS, bytes, stream, p);
  return launched();
}

} // namespace nnk

using namespace nnk;

int nnk_narrow_prepare(void) {
  cudaError_t err = cudaSuccess;
  for (int i = 0; i < 32 && !err; i++)
    err = cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel_of(i / 16 + 1, i / 4 % 4 + 1, i & 2, i & 1)),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, LIMIT);
  return err ? static_cast<int>(err) : few_weight_prepare();
}
