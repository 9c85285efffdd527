/* SPDX-License-Identifier: MIT
 * wide.cu - convolutions of many channels in a frozen network, in bfloat16 on compute capability 9.0: 3x3 and 1x1,
 * with stride 1 or 2, bias, a sum and ReLU.
 *
 * A block has tiles of y, of 8 x 8 pixels for each of its warp groups, and some of its channels: one or two groups
 * multiply, seven warps fetch what of x the tile meets, 64 channels at a time, and one thread fetches weights. A place
 * of the kernel meets eight pixels side by side for each eight of the tile, so that all places read one copy of x in
 * shared memory, each from another row on: x comes once and not nine times, which on small maps takes longer than the
 * products. With stride 2 the rows of shared memory are in four planes, by whether pixels are even or odd.
 *
 * Weights are constants, made once in the order in which they are fetched; a block fetches them while the kernel ahead
 * of this one still runs. What remains in shared memory is fetched once for all tiles of a block. */
#include "bf16.cuh"
#include "wgmma.cuh"

namespace nnk {

enum {
  HIGH = 8, /* pixels of a side of what a warp group multiplies */
  GROUP = 128,
  FETCHERS = 224,
  CHUNKS = DEPTH / 8 /* of 16 bytes of a row */
};

struct wide_args {
  nnk_map y, x;
  const __nv_bfloat16 *plus; /* as y; NULL: nothing */
  const __nv_bfloat16 *w;
  const float *bias; /* NULL: none */
  int relu;
  tiling tiles;
};

/* K: places of a side; S: stride; N: channels of a block; TALL: warp groups, with tiles one below the other. Weights
 * come in STAGES of so many PLACES, what x has in BUFFERS. */
template <int K, int S, int N, int TALL, int PLACES, int STAGES, int BUFFERS> struct wide_shape {
  enum {
    ALL = K * K,
    WINDOW = K == 1 ? HIGH : (HIGH - 1) * S + K, /* pixels of a row that a tile meets; 1x1 skips those between */
    LINES = K == 1 ? HIGH * TALL : (HIGH * TALL - 1) * S + K,
    PLANES = K == 1 ? 1 : S, /* each way */
    PLANE = (WINDOW + PLANES - 1) / PLANES,
    PLANE_LINES = (LINES + PLANES - 1) / PLANES,
    GROUPS = GROUP * TALL,
    THREADS = GROUPS + 32 + FETCHERS,                              /* the 32 fetch weights */
    FETCHES = (WINDOW * LINES * CHUNKS + FETCHERS - 1) / FETCHERS, /* of a thread */
    BUFFER = (PLANE * PLANE_LINES * PLANES * PLANES + ROWS - 1) / ROWS * ROWS * ROW,
    OF_PLACE = N * ROW,
    STAGE = OF_PLACE * PLACES
  };
  enum {
    WEIGHTS = BUFFER * BUFFERS,
    BIAS = WEIGHTS + STAGE * STAGES,
    BARRIERS = BIAS + N * 4,
    BYTES = BARRIERS + (STAGES + BUFFERS) * 2 * 8,
    ALLOCATED = BYTES + ROWS * ROW - 128 /* so that rows begin where they must */
  };
  static_assert(ALL % PLACES == 0, "a stage is of one chunk of channels");
  static_assert(ALLOCATED <= 227 * 1024, "shared memory of a block");

  /* The row of the first pixel that place (dy, dx) meets, or that of pixel (dy, dx) of the window. */
  static __host__ __device__ constexpr int row_of(int dy, int dx) {
    if (PLANES == 1) return dy * PLANE + dx;
    return ((dy % 2 * 2 + dx % 2) * PLANE_LINES + dy / 2) * PLANE + dx / 2;
  }
};

struct chunk_fetch {
  int from, to; /* number of x, -1: beyond its border; bytes of a buffer, -1: nothing to do */
};

/* The i-th chunk of 16 bytes of a tile's window. */
template <typename T, int K, int S>
__device__ inline chunk_fetch fetch_of(const wide_args &p, const corner &at, int i) {
  int pixel = i / CHUNKS, chunk = i % CHUNKS, r = pixel / T::WINDOW, q = pixel - r * T::WINDOW, pad = (K - 1) / 2;
  int y = K == 1 ? (at.y + r) * S : at.y * S + r - pad, x = K == 1 ? (at.x + q) * S : at.x * S + q - pad;
  int h = static_cast<int>(p.x.h), w = static_cast<int>(p.x.w), c = static_cast<int>(p.x.c);
  if (r >= T::LINES) return {-1, -1};
  bool inside = y >= 0 && y < h && x >= 0 && x < w;
  return {inside ? ((at.sample * h + y) * w + x) * c + chunk * 8 : -1, chunk_at(T::row_of(r, q), chunk)};
}

/* Two pixels of a lane of the multiplying warps: rows 16 warp + g and 8 below are pixels
 * (2 warp, g) and the one beneath. */
struct lane_pixels {
  int64_t at[2]; /* their numbers of y, from the block's first channel and this lane's on; -1: beyond its border */
};

__device__ inline lane_pixels pixels_of(const wide_args &p, const corner &at, int first) {
  int warp = static_cast<int>(threadIdx.x) / 32,
      lane = static_cast<int>(threadIdx.x) % 32; /* four warps of each group */
  lane_pixels all;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int y = at.y + warp * 2 + i, x = at.x + lane / 4;
    bool inside = y < p.y.h && x < p.y.w;
    all.at[i] = inside ? ((at.sample * p.y.h + y) * p.y.w + x) * p.y.c + first + lane % 4 * 8 : -1;
  }
  return all;
}

template <int N> __device__ inline void take_plus(uint4 (*plus)[N / 32], const wide_args &p, const lane_pixels &to) {
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int j = 0; j < N / 32; j++)
      plus[i][j] = p.plus && to.at[i] >= 0 ? *reinterpret_cast<const uint4 *>(p.plus + to.at[i] + j * 32)
                                           : make_uint4(0, 0, 0, 0);
}

/* Eight channels of a pixel at a time, in one store. */
template <int N>
__device__ inline void leave(const wide_args &p, const lane_pixels &to, const float *d, const uint4 (*plus)[N / 32],
                             const float *bias) {
  int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int j = 0; j < N / 32; j++) {
      uint32_t two[4], z[4] = {plus[i][j].x, plus[i][j].y, plus[i][j].z, plus[i][j].w};
#pragma unroll
      for (int k = 0; k < 4; k++) {
        const float *b = bias + j * 32 + t * 8 + k * 2, *sums = d + (j * 4 + k) * 4 + i * 2;
        float v = sums[0] + b[0] + low_bf16(z[k]), u = sums[1] + b[1] + high_bf16(z[k]);
        two[k] = p.relu ? two_bf16(relu_of(v), relu_of(u)) : two_bf16(v, u);
      }
      if (to.at[i] >= 0) store_words<4>(static_cast<__nv_bfloat16 *>(p.y.p) + to.at[i] + j * 32, two);
    }
}

__device__ inline const __nv_bfloat16 *weights_of(const wide_args &p, int all, int chunk, int place, int first) {
  return p.w + ((static_cast<int64_t>(chunk) * all + place) * p.y.c + first) * DEPTH;
}

#if HAS_WGMMA

template <typename T, int K, int S, int N, int TALL, int PLACES, int STAGES, int BUFFERS> struct roles {
  const wide_args &p;
  uint32_t base, full, empty, there, free; /* barriers: stages of weights are full, empty; buffers likewise */
  int chunks, steps, first;
  bool remain; /* all weights fit */

  __device__ roles(const wide_args &args, uint32_t at)
      : p(args), base(at), full(at + T::BARRIERS), empty(full + STAGES * 8), there(empty + STAGES * 8),
        free(there + BUFFERS * 8), chunks(static_cast<int>(p.x.c) / DEPTH), steps(chunks * T::ALL / PLACES),
        first(static_cast<int>(blockIdx.y) * N), remain(steps <= STAGES) {}

  __device__ void init() {
    for (int i = 0; i < STAGES; i++) barrier_init(full + i * 8, 1), barrier_init(empty + i * 8, T::GROUPS / 32);
    for (int i = 0; i < BUFFERS; i++) barrier_init(there + i * 8, FETCHERS), barrier_init(free + i * 8, T::GROUPS / 32);
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
  }

  __device__ void fetch_weights() {
    int done = 0;
    for (int tile = static_cast<int>(blockIdx.x); tile < p.tiles.count; tile += static_cast<int>(gridDim.x))
      for (int i = 0; i < steps && !(remain && done >= steps); i++, done++) {
        int stage = done % STAGES, chunk = i / (T::ALL / PLACES), place = i % (T::ALL / PLACES) * PLACES;
        if (done >= STAGES) barrier_wait(empty + stage * 8, done / STAGES - 1 & 1);
        barrier_expect(full + stage * 8, T::STAGE);
        for (int j = 0; j < PLACES; j++)
          copy_bytes(base + T::WEIGHTS + stage * T::STAGE + j * T::OF_PLACE,
                     weights_of(p, T::ALL, chunk, place + j, first), T::OF_PLACE, full + stage * 8);
      }
  }

  __device__ void fetch_x(int me) {
    int done = 0;
    const __nv_bfloat16 *x = static_cast<const __nv_bfloat16 *>(p.x.p);
    sp_launch_wait();
    for (int tile = static_cast<int>(blockIdx.x); tile < p.tiles.count; tile += static_cast<int>(gridDim.x)) {
      corner at = corner_of<HIGH * TALL, HIGH>(p.tiles, tile);
      chunk_fetch f[T::FETCHES];
#pragma unroll
      for (int k = 0; k < T::FETCHES; k++) f[k] = fetch_of<T, K, S>(p, at, me + k * FETCHERS);
      for (int chunk = 0; chunk < chunks; chunk++, done++) {
        int buffer = done % BUFFERS;
        if (done >= BUFFERS) barrier_wait(free + buffer * 8, done / BUFFERS - 1 & 1);
        uint32_t to = base + buffer * T::BUFFER;
#pragma unroll
        for (int k = 0; k < T::FETCHES; k++) {
          bool inside = f[k].from >= 0;
          if (f[k].to >= 0) copy_chunk(to + f[k].to, x + (inside ? f[k].from + chunk * DEPTH : 0), inside);
        }
        barrier_arrive_later(there + buffer * 8);
      }
    }
    asm volatile("cp.async.wait_all;" : : : "memory"); /* before this thread ends */
  }

  /* Products of a stage: PLACES from `place` on. */
  __device__ void multiply(float *d, int buffer, int stage, int place, bool add) {
    uint32_t x = base + buffer * T::BUFFER + static_cast<int>(threadIdx.x) / GROUP * HIGH * T::PLANE * ROW,
             w = base + T::WEIGHTS + stage * T::STAGE;
    products_begin<N / 2>(d);
#pragma unroll
    for (int j = 0; j < PLACES; j++) {
      int row = T::row_of((place + j) / K, (place + j) % K);
#pragma unroll
      for (int k = 0; k < DEPTH / 16; k++)
        group_product<N>::run(d, factor_at(x + row * ROW + k * 32, T::PLANE * ROW),
                              factor_at(w + j * T::OF_PLACE + k * 32, ROWS * ROW), add || j + k > 0);
    }
    products_end<N / 2>(d);
  }

  /* What a group of products has read is free when the next one has begun and it is through. */
  __device__ void group(const float *bias) {
    int done = 0, got = 0, lane = static_cast<int>(threadIdx.x) % 32;
    sp_launch_wait();
    for (int tile = static_cast<int>(blockIdx.x); tile < p.tiles.count; tile += static_cast<int>(gridDim.x)) {
      lane_pixels to = pixels_of(p, corner_of<HIGH * TALL, HIGH>(p.tiles, tile), first);
      float d[N / 2];
      uint4 plus[2][N / 32];
      int read = -1; /* a stage */
      if (remain) done = 0;
      take_plus<N>(plus, p, to);
      for (int chunk = 0; chunk < chunks; chunk++, got++) {
        barrier_wait(there + got % BUFFERS * 8, got / BUFFERS & 1);
        show_products();
#pragma unroll
        for (int place = 0; place < T::ALL; place += PLACES, done++) {
          barrier_wait(full + done % STAGES * 8, remain ? 0 : done / STAGES & 1);
          multiply(d, got % BUFFERS, done % STAGES, place, chunk + place > 0);
          products_wait<1, N / 2>(d);
          if (lane == 0 && read >= 0) barrier_arrive(empty + read * 8);
          if (lane == 0 && place == 0 && chunk > 0) barrier_arrive(free + (got - 1) % BUFFERS * 8);
          read = remain ? -1 : done % STAGES;
        }
      }
      products_wait<0, N / 2>(d);
      if (lane == 0 && read >= 0) barrier_arrive(empty + read * 8);
      if (lane == 0) barrier_arrive(free + (got - 1) % BUFFERS * 8);
      leave<N>(p, to, d, plus, bias);
    }
  }
};

#elif !defined(__CUDACC__)

/* The same sums from the same places of shared memory, for the emulator. */
template <typename T, int K, int S, int N, int TALL>
__device__ void plain(const wide_args &p, unsigned char *base, const float *bias) {
  int me = static_cast<int>(threadIdx.x), lane = me % 32, first = static_cast<int>(blockIdx.y) * N;
  const __nv_bfloat16 *x = static_cast<const __nv_bfloat16 *>(p.x.p);
  auto dot = [&](float sum, int row, int n) {
    for (int k = 0; k < DEPTH; k++) {
      const unsigned char *a = base + chunk_at(row, k / 8), *b = base + T::WEIGHTS + chunk_at(n, k / 8);
      sum = fmaf(__bfloat162float(reinterpret_cast<const __nv_bfloat16 *>(a)[k % 8]),
                 __bfloat162float(reinterpret_cast<const __nv_bfloat16 *>(b)[k % 8]), sum);
    }
    return sum;
  };
  for (int tile = static_cast<int>(blockIdx.x); tile < p.tiles.count; tile += static_cast<int>(gridDim.x)) {
    corner at = corner_of<HIGH * TALL, HIGH>(p.tiles, tile);
    lane_pixels to = pixels_of(p, at, first);
    float d[N / 2] = {};
    uint4 plus[2][N / 32];
    if (me < T::GROUPS) take_plus<N>(plus, p, to);
    for (int chunk = 0; chunk < p.x.c / DEPTH; chunk++)
      for (int place = 0; place < T::ALL; place++) {
        for (int i = me; place == 0 && i < T::FETCHES * FETCHERS; i += T::THREADS) {
          chunk_fetch f = fetch_of<T, K, S>(p, at, i);
          if (f.to >= 0) copy_chunk(base + f.to, x + (f.from >= 0 ? f.from + chunk * DEPTH : 0), f.from >= 0);
        }
        for (int i = me; i < T::OF_PLACE / 16; i += T::THREADS)
          copy_chunk(base + T::WEIGHTS + i * 16, weights_of(p, T::ALL, chunk, place, first) + i * 8, true);
        __syncthreads();
        for (int i = 0; me < T::GROUPS && i < N / 2; i++) {
          int m = me / 32 * 16 + lane / 4 + i / 2 % 2 * 8, n = i / 4 * 8 + lane % 4 * 2 + i % 2;
          int row = T::row_of(place / K, place % K) + m / HIGH * T::PLANE + m % HIGH;
          d[i] = dot(d[i], row, n);
        }
        __syncthreads();
      }
    if (me < T::GROUPS) leave<N>(p, to, d, plus, bias);
  }
}

#endif

template <int K, int S, int N, int TALL, int PLACES, int STAGES, int BUFFERS>
__global__ void __launch_bounds__(GROUP *TALL + 32 + FETCHERS) wide(wide_args p) {
  typedef wide_shape<K, S, N, TALL, PLACES, STAGES, BUFFERS> T;
#if HAS_WGMMA || !defined(__CUDACC__)
  SP_DYNAMIC_SHARED(unsigned char, shared);
  int me = static_cast<int>(threadIdx.x);
#if HAS_WGMMA
  unsigned char *begin = shared + (0u - in_shared(shared)) % (ROWS * ROW);
#else
  unsigned char *begin = shared;
#endif
  float *bias = reinterpret_cast<float *>(begin + T::BIAS);
  for (int i = me; i < N; i += T::THREADS) bias[i] = p.bias ? p.bias[blockIdx.y * N + i] : 0;
#if HAS_WGMMA
  roles<T, K, S, N, TALL, PLACES, STAGES, BUFFERS> r(p, in_shared(begin));
  if (me == T::GROUPS) r.init();
  __syncthreads();
  sp_launch_next();
  if (me < T::GROUPS) r.group(bias);
  else if (me >= T::GROUPS + 32) r.fetch_x(me - T::GROUPS - 32);
  else if (me == T::GROUPS) r.fetch_weights();
#else
  __syncthreads();
  plain<T, K, S, N, TALL>(p, begin, bias);
#endif
#else
  __shared__ volatile int cannot; /* by which the host knows */
  cannot = 1;
  __trap();
#endif
}

/* ---- which of them ---- */
typedef void (*wide_kernel)(wide_args);
struct wide_choice {
  int k, s, n, tall, bytes;
  wide_kernel kernel;
};
template <int K, int S, int N, int TALL, int PLACES, int STAGES, int BUFFERS> static constexpr wide_choice choice() {
  return {K,
          S,
          N,
          TALL,
          wide_shape<K, S, N, TALL, PLACES, STAGES, BUFFERS>::ALLOCATED,
          wide<K, S, N, TALL, PLACES, STAGES, BUFFERS>};
}
/* The more channels and pixels a block has the less is fetched. */
static const wide_choice choices[] = {
    choice<3, 1, 128, 1, 3, 3, 2>(), choice<3, 1, 64, 2, 3, 4, 3>(),   choice<3, 1, 64, 1, 3, 4, 4>(),
    choice<3, 1, 32, 1, 9, 3, 6>(),  choice<3, 2, 128, 1, 1, 8, 2>(),  choice<3, 2, 64, 1, 3, 4, 3>(),
    choice<3, 2, 32, 1, 3, 8, 3>(),  choice<1, 2, 128, 2, 1, 6, 4>(),  choice<1, 2, 128, 1, 1, 6, 6>(),
    choice<1, 2, 64, 1, 1, 8, 8>(),  choice<1, 1, 128, 2, 1, 6, 5>(),  choice<1, 1, 128, 1, 1, 8, 8>(),
    choice<1, 1, 64, 2, 1, 6, 6>(),  choice<1, 1, 64, 1, 1, 12, 12>(), choice<1, 1, 32, 1, 1, 16, 16>()};

static int64_t tiles_of(const nnk_map *y, int tall) { return y->n * up(y->h, HIGH * tall) * up(y->w, HIGH); }

/* Fewer blocks than on three of four multiprocessors leave too many idle: blocks of fewer channels are better. On an
 * H200 the border that was measured is 100. */
static int few_blocks(int multiprocessors) { return (multiprocessors * 25 + 32) / 33; }

static const wide_choice *choose(const nnk_map *y, int k, int s, int multiprocessors) {
  const wide_choice *found = NULL;
  for (const wide_choice &c : choices) {
    if (c.k != k || c.s != s || y->c % c.n || (c.tall > 1 && y->h <= HIGH)) continue;
    found = &c;
    if (tiles_of(y, c.tall) * (y->c / c.n) >= few_blocks(multiprocessors)) break;
  }
  return found;
}

/* Two numbers a thread. */
static __global__ void pack(uint32_t *to, const uint32_t *w, int64_t count, int out, int places, int in, bool depth) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int pair = static_cast<int>(i % (DEPTH / 2)) * 2;
  int64_t row = i / (DEPTH / 2), place = row / out % places, chunk = row / out / places;
  int o = static_cast<int>(row % out), k = depth ? channel_of(pair) : pair;
  int64_t from = (channel_of(o) * places + place) * in + chunk * DEPTH + k;
  to[row * (ROW / 4) + (pair / 8 ^ o % ROWS) * 4 + pair / 2 % 4] = w[from / 2];
}

} // namespace nnk

using namespace nnk;

int nnk_wide_shape(const nnk_map *y, const nnk_map *x, const int *k, const int *stride, const int *pad) {
  for (int i = 0; i < 2; i++)
    if (k[i] != k[0] || stride[i] != stride[0] || pad[i] != (k[i] - 1) / 2) return 0;
  return x->c > 0 && x->c % DEPTH == 0 && choose(y, k[0], stride[0], 1) != NULL && x->elt == NNK_BF16 &&
         y->elt == NNK_BF16 && x->layout == 0 && y->layout == 0 && elements(*x) < INT32_MAX && elements(*y) < INT32_MAX;
}

int nnk_has_warp_groups(void) { return has_warp_groups(reinterpret_cast<const void *>(choices[0].kernel)); }

int nnk_wide_prepare(void) {
  cudaError_t err = cudaSuccess;
  for (const wide_choice &c : choices)
    if (!err)
      err = cudaFuncSetAttribute(reinterpret_cast<const void *>(c.kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 c.bytes);
  return static_cast<int>(err);
}

int nnk_wide_pack(void *stream, void *to, const void *w, int64_t out, int k, int64_t in, int own_order) {
  int64_t count = out * k * k * in / 2;
  if (in % DEPTH || out % 32) return refused();
  SP_LAUNCH(pack, static_cast<unsigned>(up(count, 256)), 256, 0, stream, static_cast<uint32_t *>(to),
            static_cast<const uint32_t *>(w), count, static_cast<int>(out), k * k, static_cast<int>(in),
            own_order != 0);
  return launched();
}

int nnk_wide_forward(void *stream, const nnk_map *y, const nnk_map *x, int k, int stride, const void *w,
                     const float *bias, const nnk_map *plus, int relu, int multiprocessors) {
  int ks[2] = {k, k}, strides[2] = {stride, stride}, pad[2] = {(k - 1) / 2, (k - 1) / 2};
  if (!nnk_wide_shape(y, x, ks, strides, pad)) return refused();
  if (elements(*y) == 0) return cudaSuccess;
  const wide_choice *c = choose(y, k, stride, multiprocessors);
  wide_args p = {*y,
                 *x,
                 NULL,
                 static_cast<const __nv_bfloat16 *>(w),
                 bias,
                 relu,
                 c->tall == 2 ? tiling_of<2 * HIGH, HIGH>(y) : tiling_of<HIGH, HIGH>(y)};
  if (plus) p.plus = static_cast<const __nv_bfloat16 *>(plus->p);
  unsigned blocks = static_cast<unsigned>(y->c / c->n),
           most = std::max(1u, static_cast<unsigned>(multiprocessors) / blocks);
  dim3 grid(std::min(static_cast<unsigned>(p.tiles.count), most), blocks, 1);
  SP_LAUNCH_EARLY(c->kernel, grid, static_cast<unsigned>(GROUP * c->tall + 32 + FETCHERS), c->bytes, stream, p);
  return launched();
}
