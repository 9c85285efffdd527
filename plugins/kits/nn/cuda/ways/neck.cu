/* SPDX-License-Identifier: MIT
 * neck.cu - of a frozen residual network of bottlenecks, in bfloat16 on compute capability 9.0: what lies between
 * the first convolutions of two blocks of 64 channels, as one kernel. A 3x3 convolution, the 1x1 one to 256 channels
 * with its sum, or with the block's own 1x1 convolution of what it adds, and the next block's 1x1 one, all with bias
 * and ReLU.
 *
 * Apart, these read and write 117 MB of maps where together they need 42 (batch 8 of 64 x 64 pixels). A warp group
 * takes a tile of 8 x 8 pixels through all of them; what one product leaves in its registers the next one takes from
 * there, as factors. All weights stay in shared memory.
 *
 * Two warp groups in a block, each with every second tile: four would lack registers, and read as much. */
#include "bf16.cuh"
#include "wgmma.cuh"

namespace nnk {

enum {
  SIDE8 = 8, /* pixels of a side of a tile */
  WINDOW = SIDE8 + 2,
  GROUP = 128,
  GROUPS = 2,
  THREADS = GROUP * GROUPS,
  INNER = DEPTH, /* channels between */
  OUTER = 256,
  PIECE = 64, /* of OUTER at a time */
  PIECES = OUTER / PIECE,
  PLACES = 9,
  CHUNKS = DEPTH / 8,
  FETCHES = (WINDOW * WINDOW * CHUNKS + GROUP - 1) / GROUP /* of a thread */
};

struct neck_args {
  nnk_map x, y, z;
  const __nv_bfloat16 *plus; /* as y, or, MORE, as x */
  const __nv_bfloat16 *w[4]; /* of x, of what comes of it, of `plus`, of y: packed */
  const float *bias[4];
  tiling tiles;
};

/* N: channels of z; MORE: `plus` goes through a product. */
template <int N, bool MORE> struct neck_shape {
  enum {
    OF_X = PLACES * INNER * ROW,
    OF_INNER = OUTER * ROW,
    OF_Y = PIECES * N * ROW,
    FETCHED = (WINDOW * WINDOW + ROWS - 1) / ROWS * ROWS * ROW /* of a group */
  };
  enum {
    W_INNER = OF_X,
    W_Y = W_INNER + OF_INNER * (MORE ? 2 : 1),
    WINDOWS = W_Y + OF_Y,
    BIAS = WINDOWS + FETCHED * GROUPS,
    BARRIERS = BIAS + (INNER + OUTER + N) * 4, /* of the weights of x, those of its results and of y */
    BYTES = BARRIERS + 3 * 8,
    ALLOCATED = BYTES + ROWS * ROW - 128 /* so that rows begin where they must */
  };
  static_assert(ALLOCATED <= 227 * 1024, "shared memory of a block");
};

/* ---- what a GPU has instructions for ---- */
#if HAS_WGMMA
typedef uint32_t rows_at; /* rows in shared memory */

__device__ inline rows_at rows_of(unsigned char *p) { return in_shared(p); }

/* Products of d (64 x N): += (or, not `add`, =) 16 numbers of the depth, the k-th such of a row. Of pixels: eight
 * side by side from row `first` of a window on, the next eight WINDOW rows behind. Of registers: numbers 2 t and the
 * next, and those 8 beyond, of rows g and 8 below. */
template <int N> __device__ inline void of_pixels(float *d, rows_at x, int first, rows_at w, int k, bool add) {
  group_product<N>::run(d, factor_at(x + first * ROW + k * 32, WINDOW * ROW), factor_at(w + k * 32, ROWS * ROW), add);
}
template <int N> __device__ inline void of_registers(float *d, const uint32_t *a, rows_at w, int k, bool add) {
  group_product<N>::run(d, a, factor_at(w + k * 32, ROWS * ROW), add);
}

__device__ inline void group_meets() {
  asm volatile("bar.sync %0, %1;"
               :
               : "r"(static_cast<int>(threadIdx.x) / GROUP + 1), "n"(static_cast<int>(GROUP))
               : "memory");
}

#else
typedef unsigned char *rows_at;

__device__ inline rows_at rows_of(unsigned char *p) { return p; }

__device__ inline float number_at(const unsigned char *rows, int row, int k) {
  return __bfloat162float(reinterpret_cast<const __nv_bfloat16 *>(rows + chunk_at(row, k / 8))[k % 8]);
}

template <int N> __device__ inline void of_pixels(float *d, rows_at x, int first, rows_at w, int k, bool add) {
  int me = static_cast<int>(threadIdx.x) % GROUP, lane = me % 32;
  for (int i = 0; i < N / 2; i++) {
    int m = me / 32 * 16 + lane / 4 + i / 2 % 2 * 8, n = i / 4 * 8 + lane % 4 * 2 + i % 2;
    d[i] = add ? d[i] : 0;
    for (int j = k * 16; j < k * 16 + 16; j++)
      d[i] = fmaf(number_at(x, first + m / SIDE8 * WINDOW + m % SIDE8, j), number_at(w, n, j), d[i]);
  }
}

template <int N> __device__ inline void of_registers(float *d, const uint32_t *a, rows_at w, int k, bool add) {
#ifndef __CUDACC__
  int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4;
  const uint4 *all = sp_emu::gather(make_uint4(a[0], a[1], a[2], a[3]));
  for (int i = 0; i < N / 2; i++) {
    int n = i / 4 * 8 + lane % 4 * 2 + i % 2;
    d[i] = add ? d[i] : 0;
    for (int j = 0; j < 16; j++) {
      const uint4 &of = all[g * 4 + j / 2 % 4];
      uint32_t two = i / 2 % 2 ? (j < 8 ? of.y : of.w) : j < 8 ? of.x : of.z;
      d[i] = fmaf(j % 2 ? high_bf16(two) : low_bf16(two), number_at(w, n, k * 16 + j), d[i]);
    }
  }
#endif
}

__device__ inline void group_meets() { __syncthreads(); }

template <int N> __device__ inline void products_begin(float *) {}
template <int N> __device__ inline void products_end(float *) {}
template <int LEFT, int N> __device__ inline void products_wait(float *) {}
template <int N> __device__ inline void hold(uint32_t *) {}
__device__ inline void show_products() {}
#endif

/* ---- what a lane has: of rows g and 8 below, 16 columns of every 64 ---- */
struct lane_pixels {
  int at[2]; /* numbers of pixels, -1: beyond the border */
};

__device__ inline lane_pixels pixels_of(const neck_args &p, const corner &at, bool any) {
  int me = static_cast<int>(threadIdx.x) % GROUP, h = static_cast<int>(p.x.h), w = static_cast<int>(p.x.w);
  lane_pixels all;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int y = at.y + me / 32 * 2 + i, x = at.x + me % 32 / 4;
    all.at[i] = any && y < h && x < w ? (at.sample * h + y) * w + x : -1;
  }
  return all;
}

/* Channels first to first + 63 of both pixels, of a map of `channels`: words as of_registers() takes them, four of
 * them for each 16 numbers of the depth. */
__device__ inline void take(uint32_t *to, const __nv_bfloat16 *from, const lane_pixels &px, int channels, int first) {
  int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int q = 0; q < 2; q++) {
      uint4 v = make_uint4(0, 0, 0, 0);
      if (px.at[i] >= 0)
        v = *reinterpret_cast<const uint4 *>(from + static_cast<int64_t>(px.at[i]) * channels + first + q * 32 + t * 8);
      to[q * 8 + i] = v.x, to[q * 8 + 2 + i] = v.y, to[q * 8 + 4 + i] = v.z, to[q * 8 + 6 + i] = v.w;
    }
}

__device__ inline void give(__nv_bfloat16 *to, const uint32_t *words, const lane_pixels &px, int channels, int first) {
  int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int q = 0; q < 2; q++) {
      uint32_t four[4] = {words[q * 8 + i], words[q * 8 + 2 + i], words[q * 8 + 4 + i], words[q * 8 + 6 + i]};
      if (px.at[i] >= 0) store_words<4>(to + static_cast<int64_t>(px.at[i]) * channels + first + q * 32 + t * 8, four);
    }
}

/* words = ReLU(d + bias (+ plus)), of 64 columns; plus may be NULL. */
__device__ inline void finish(uint32_t *words, const float *d, const float *bias, const uint32_t *plus) {
  int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int q = 0; q < 2; q++)
#pragma unroll
    for (int k = 0; k < 4; k++) {
      float b0 = bias[q * 32 + t * 8 + k * 2], b1 = bias[q * 32 + t * 8 + k * 2 + 1];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        int word = q * 8 + k * 2 + i, at = (q * 4 + k) * 4 + i * 2;
        float v = d[at] + b0, u = d[at + 1] + b1;
        if (plus) v += low_bf16(plus[word]), u += high_bf16(plus[word]);
        words[word] = two_bf16(relu_of(v), relu_of(u));
      }
    }
}

/* ---- the kernel ---- */
__device__ inline void fetch_window(const neck_args &p, rows_at to, const corner &at, bool any) {
  int me = static_cast<int>(threadIdx.x) % GROUP, h = static_cast<int>(p.x.h), w = static_cast<int>(p.x.w);
  const __nv_bfloat16 *x = static_cast<const __nv_bfloat16 *>(p.x.p);
#pragma unroll
  for (int i = 0; i < FETCHES; i++) {
    int pixel = (me + i * GROUP) / CHUNKS, chunk = me % CHUNKS, r = pixel / WINDOW, q = pixel - r * WINDOW;
    int row = at.y + r - 1, col = at.x + q - 1;
    bool inside = any && row >= 0 && row < h && col >= 0 && col < w;
    int64_t from = inside ? (static_cast<int64_t>(at.sample * h + row) * w + col) * INNER + chunk * 8 : 0;
    if (r < WINDOW) copy_chunk(to + chunk_at(pixel, chunk), x + from, inside);
  }
}

/* Weights, in three parts, each of which counts for a barrier of its own. */
template <typename T, bool MORE> __device__ inline void fetch_weights(const neck_args &p, unsigned char *begin) {
  const int at[4] = {0, T::W_INNER, T::W_INNER + T::OF_INNER, T::W_Y};
#if HAS_WGMMA
  uint32_t bar = in_shared(begin + T::BARRIERS);
  if (threadIdx.x) return;
  barrier_expect(bar, T::OF_X);
  barrier_expect(bar + 8, T::W_Y - T::W_INNER);
  barrier_expect(bar + 16, T::OF_Y);
#endif
  for (int i = 0; i < 4; i++) {
    if (i == 2 && !MORE) continue;
    int bytes = i == 0 ? T::OF_X : i == 3 ? T::OF_Y : T::OF_INNER;
#if HAS_WGMMA
    copy_bytes(in_shared(begin + at[i]), p.w[i], bytes, bar + (i + 1) / 2 * 8);
#else
    for (int j = static_cast<int>(threadIdx.x) * 16; j < bytes; j += THREADS * 16)
      copy_chunk(begin + at[i] + j, reinterpret_cast<const unsigned char *>(p.w[i]) + j, true);
#endif
  }
}

#if HAS_WGMMA
template <typename T> __device__ inline void weights_there(unsigned char *begin, int part) {
  barrier_wait(in_shared(begin + T::BARRIERS) + part * 8, 0);
}
#else
template <typename T> __device__ inline void weights_there(unsigned char *, int) {}
#endif

template <int N, bool MORE> __device__ inline void neck_tiles(const neck_args &p, unsigned char *begin) {
  typedef neck_shape<N, MORE> T;
  int group = static_cast<int>(threadIdx.x) / GROUP, step = static_cast<int>(gridDim.x) * GROUPS;
  const float *bias = reinterpret_cast<const float *>(begin + T::BIAS);
  rows_at window = rows_of(begin + T::WINDOWS + group * T::FETCHED), w_x = rows_of(begin);
  rows_at w_inner = rows_of(begin + T::W_INNER), w_more = w_inner + T::OF_INNER, w_y = rows_of(begin + T::W_Y);
  int first = static_cast<int>(blockIdx.x) * GROUPS;
  corner at = corner_of<SIDE8, SIDE8>(p.tiles, first + group);
  fetch_window(p, window, at, first + group < p.tiles.count);
  end_stage();
  for (; first < p.tiles.count; first += step) {
    lane_pixels px = pixels_of(p, at, first + group < p.tiles.count);
    float d[PIECE / 2], z[N / 2];
    uint32_t inner[16], more[16], y[16];
    take(more, p.plus, px, MORE ? INNER : OUTER, 0);
    wait_stage<0>();
    show_products();
    group_meets();
    weights_there<T>(begin, 0);
    products_begin<PIECE / 2>(d);
#pragma unroll
    for (int place = 0; place < PLACES; place++)
#pragma unroll
      for (int k = 0; k < DEPTH / 16; k++)
        of_pixels<PIECE>(d, window, place / 3 * WINDOW + place % 3, w_x + place * INNER * ROW, k, place + k > 0);
    products_end<PIECE / 2>(d);
    products_wait<0, PIECE / 2>(d);
    group_meets(); /* the window has been read */
    at = corner_of<SIDE8, SIDE8>(p.tiles, first + group + step);
    if (first + step < p.tiles.count) fetch_window(p, window, at, first + group + step < p.tiles.count);
    end_stage();
    finish(inner, d, bias, NULL);
    weights_there<T>(begin, 1);
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++) {
      uint32_t plus[16];
      hold<16>(inner);
      products_begin<PIECE / 2>(d);
#pragma unroll
      for (int k = 0; k < INNER / 16; k++)
        of_registers<PIECE>(d, inner + k * 4, w_inner + piece * PIECE * ROW, k, k > 0);
      if (MORE) {
        hold<16>(more);
#pragma unroll
        for (int k = 0; k < INNER / 16; k++)
          of_registers<PIECE>(d, more + k * 4, w_more + piece * PIECE * ROW, k, true);
      }
      products_end<PIECE / 2>(d);
      if (!MORE) {
#pragma unroll
        for (int i = 0; i < 16; i++) plus[i] = more[i];
        if (piece + 1 < PIECES) take(more, p.plus, px, OUTER, (piece + 1) * PIECE);
      }
      products_wait<0, PIECE / 2>(d); /* and those of the piece before, of y */
      hold<16>(inner);
      if (MORE) hold<16>(more);
      if (piece) hold<16>(y);
      finish(y, d, bias + INNER + piece * PIECE, MORE ? NULL : plus);
      give(static_cast<__nv_bfloat16 *>(p.y.p), y, px, OUTER, piece * PIECE);
      if (!piece) weights_there<T>(begin, 2);
      hold<16>(y);
      products_begin<N / 2>(z);
#pragma unroll
      for (int k = 0; k < PIECE / 16; k++) of_registers<N>(z, y + k * 4, w_y + piece * N * ROW, k, piece + k > 0);
      products_end<N / 2>(z);
    }
    products_wait<0, N / 2>(z);
    hold<16>(y);
#pragma unroll
    for (int part = 0; part < N / 64; part++) {
      finish(y, z + part * 32, bias + INNER + OUTER + part * 64, NULL);
      give(static_cast<__nv_bfloat16 *>(p.z.p), y, px, N, part * 64);
    }
  }
}

template <int N, bool MORE> __global__ void __launch_bounds__(THREADS, 1) neck(neck_args p) {
#if HAS_WGMMA || !defined(__CUDACC__)
  typedef neck_shape<N, MORE> T;
  SP_DYNAMIC_SHARED(unsigned char, shared);
  int me = static_cast<int>(threadIdx.x);
#if HAS_WGMMA
  unsigned char *begin = shared + (0u - in_shared(shared)) % (ROWS * ROW);
  if (me == 0) {
    for (int i = 0; i < 3; i++) barrier_init(in_shared(begin + T::BARRIERS) + i * 8, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
  }
#else
  unsigned char *begin = shared;
#endif
  float *bias = reinterpret_cast<float *>(begin + T::BIAS);
  for (int i = me; i < INNER + OUTER + N; i += THREADS) {
    int of = i < INNER ? 0 : i < INNER + OUTER ? 1 : 3, channel = i - (of == 0 ? 0 : of == 1 ? INNER : INNER + OUTER);
    float b = p.bias[of] ? p.bias[of][channel] : 0;
    bias[i] = of == 1 && MORE && p.bias[2] ? b + p.bias[2][channel] : b;
  }
#if HAS_WGMMA
  __syncthreads();
  sp_launch_next();
#endif
  fetch_weights<T, MORE>(p, begin);
#if !HAS_WGMMA
  __syncthreads();
#endif
  sp_launch_wait();
  neck_tiles<N, MORE>(p, begin);
#else
  __shared__ volatile int cannot; /* by which the host knows */
  cannot = 1;
  __trap();
#endif
}

/* ---- which of them ---- */
typedef void (*neck_kernel)(neck_args);
struct neck_choice {
  int n, more, bytes;
  neck_kernel kernel;
};
template <int N, bool MORE> static constexpr neck_choice choice() {
  return {N, MORE, neck_shape<N, MORE>::ALLOCATED, neck<N, MORE>};
}
static const neck_choice choices[] = {choice<64, false>(), choice<64, true>(), choice<128, false>()};

static const neck_choice *choose(const nnk_neck *of) {
  for (const neck_choice &c : choices)
    if (of->z.c == c.n && (of->w[2] != NULL) == (c.more != 0)) return &c;
  return NULL;
}

static bool is_map(const nnk_map &m, const nnk_map &x, int64_t c) {
  return m.elt == NNK_BF16 && m.layout == 0 && m.c == c && m.n == x.n && m.h == x.h && m.w == x.w &&
         elements(m) < INT32_MAX;
}

} // namespace nnk

using namespace nnk;

int nnk_neck_shape(const nnk_neck *of) {
  return is_map(of->x, of->x, INNER) && is_map(of->y, of->x, OUTER) && is_map(of->z, of->x, of->z.c) &&
         is_map(of->plus, of->x, of->w[2] ? INNER : OUTER) && choose(of) != NULL;
}

int nnk_neck_prepare(void) {
  cudaError_t err = cudaSuccess;
  for (const neck_choice &c : choices)
    if (!err)
      err = cudaFuncSetAttribute(reinterpret_cast<const void *>(c.kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 c.bytes);
  return static_cast<int>(err);
}

int nnk_neck_forward(void *stream, const nnk_neck *of, int multiprocessors) {
  if (!nnk_neck_shape(of)) return refused();
  if (elements(of->y) == 0) return cudaSuccess;
  const neck_choice *c = choose(of);
  neck_args p = {
      of->x, of->y, of->z, static_cast<const __nv_bfloat16 *>(of->plus.p), {}, {}, tiling_of<SIDE8, SIDE8>(&of->y)};
  for (int i = 0; i < 4; i++) p.w[i] = static_cast<const __nv_bfloat16 *>(of->w[i]), p.bias[i] = of->bias[i];
  int blocks = static_cast<int>(std::min<int64_t>(up(p.tiles.count, GROUPS), multiprocessors));
  SP_LAUNCH_EARLY(c->kernel, static_cast<unsigned>(blocks), THREADS, c->bytes, stream, p);
  return launched();
}
