/* SPDX-License-Identifier: MIT
 * stem.cu - the first two layers of a network at full resolution as one: a 1x1 convolution to MID channels with
 * ReLU, whose map is the largest of all and never leaves the registers, and a patch convolution to OUT channels. The
 * backward makes that map again.
 *
 * A warp takes ROWS pixels of y at a time, which lie in one square of its Z order. Lane (g, t) = (lane / 4, lane % 4)
 * has pixels g, g + 8, g + 16, g + 24 of them, and of each of the four pixels under the kernel channels 4 t .. 4 t + 3
 * of the map between: so much of both products' factors and sums is numbered to suit that.
 */
#include "tile.cuh"

namespace nnk {

enum { MID = 16, OUT = 32, TAPS = 4, DEPTH = TAPS * MID, ROWS = 32, GROUPS = ROWS / 8 };
enum { THREADS = 128, WARPS = THREADS / 32, FORWARD_PER_SM = 3, BACKWARD_PER_SM = 2 };
/* Of shared memory: floats from a pixel to the next of the map between, so that eight lanes that read have banks of
 * their own; and from a line of x to the next, of a tile's 16 x 8 pixels. */
enum { PITCH = DEPTH + 8, HIGH = 8, WIDE = 16, LINE = WIDE + 4 };
enum { STAGES = 2 }; /* tiles of a warp: the one that it computes, and the next one on its way */

struct stem_args {
  const float *x, *w0, *b0, *w1, *b1;
  const float *dy;
  float *y, *dx, *work;
  int relu, add;
  int width, layout;      /* of y */
  uint32_t pixels, tiles; /* of y: of a sample; of all */
};

/* The first layer in shared memory: three weights and the bias of each channel. */
template <int C> __device__ inline void take_first(float *s, const stem_args &p) {
  int i = static_cast<int>(threadIdx.x), k = i / 4, c = i % 4;
  if (k < MID) s[i] = c == 3 ? (p.b0 ? p.b0[k] : 0) : c < C ? p.w0[k * C + c] : 0;
}

/* Channels 4 t .. 4 t + 3 of it. */
template <int C> struct taps_of {
  float w[4][4];
  __device__ taps_of(const float *s, int t) {
#pragma unroll
    for (int q = 0; q < 4; q++) load<4>(w[q], s, (t * 4 + q) * 4);
  }
};

/* ---- a tile: 8 x 4 pixels of y, 16 x 8 of x, line by line of each channel or of whole pixels ---- */
template <int C, bool PLANAR_X> struct input {
  enum { CHUNKS = PLANAR_X ? 4 : 4 * C, AT = PLANAR_X ? LINE : C * LINE, STEP = PLANAR_X ? 1 : C };
};
enum { MOST_INPUT = 3 * HIGH * LINE, TILE = ROWS * OUT + MOST_INPUT /* in the backward */ };

/* Where its first pixel is in all of x. */
template <int C, bool PLANAR_X> __device__ inline int64_t origin_of(const stem_args &p, uint32_t tile) {
  uint32_t first = tile * ROWS, sample = first / p.pixels, y, x;
  pixel_at(first - sample * p.pixels, p.layout, static_cast<uint32_t>(p.width), &y, &x);
  uint32_t at = (y * 2 * static_cast<uint32_t>(p.width) + x) * 2;
  return static_cast<int64_t>(sample) * p.pixels * 4 * C + at * input<C, PLANAR_X>::STEP;
}

template <int C, bool PLANAR_X>
__device__ inline void fetch_input(float *s, const stem_args &p, const float *from, int lane) {
  typedef input<C, PLANAR_X> I;
  uint32_t pitch = 2 * static_cast<uint32_t>(p.width) * I::STEP;
#pragma unroll
  for (int k = 0; k < C; k++) {
    int i = lane + 32 * k, line = i / I::CHUNKS, chunk = i % I::CHUNKS * 4;
    uint32_t at = static_cast<uint32_t>(line % HIGH) * pitch + static_cast<uint32_t>(line / HIGH) * 4 * p.pixels;
    copy_chunk(s + line * I::AT + chunk, from + at + chunk, true);
  }
}

/* The four pixels of x under the kernel at pixel j of the tile: v[tap][channel]. */
template <int C, bool PLANAR_X> __device__ inline void take_pixels(float (*v)[C], const float *s, int j) {
  typedef input<C, PLANAR_X> I;
  uint32_t y = 2 * gather(static_cast<uint32_t>(j) >> 1), x = 2 * gather(static_cast<uint32_t>(j));
  s += y * I::AT + x * I::STEP;
#pragma unroll
  for (int i = 0; i < 2 * C; i++) {
    int ky = i / C, n = i % C, first = 2 * n, second = 2 * n + 1;
    float two[2];
    load<2>(two, s, ky * I::AT + (PLANAR_X ? n * HIGH * I::AT : first));
    v[ky * 2 + (PLANAR_X ? 0 : first / C)][PLANAR_X ? n : first % C] = two[0];
    v[ky * 2 + (PLANAR_X ? 1 : second / C)][PLANAR_X ? n : second % C] = two[1];
  }
}

/* A number of the map between. */
template <int C> __device__ inline float middle(const taps_of<C> &f, int q, const float *x) {
  float sum = f.w[q][3];
#pragma unroll
  for (int c = 0; c < C; c++) sum = fmaf(x[c], f.w[q][c], sum);
  return relu_of(sum);
}

/* Rounds what ReLU gave to TF32, ties up: it is not negative, and only NaNs must not overflow.
 * On an H200 the backward takes 58.8 us with these two instructions, 61.5 with the one of factor_of(). */
__device__ inline float positive(float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return __int_as_float(min(__float_as_int(v), 0x7fffefff) + 0x1000);
#else
  return tf32_of(v);
#endif
}
__device__ inline float4 positive(float4 v) { return {positive(v.x), positive(v.y), positive(v.z), positive(v.w)}; }

/* ---- forward ---- */
/* w1 for y's columns: [tap][nt][lane][4], lane (g, t) with factors 4 t .. 4 t + 3 of a column. */
__device__ inline int column_of(int nt, int g) { return g / 2 * 8 + nt * 2 + g % 2; }

template <int C, bool PLANAR_X> __global__ void __launch_bounds__(THREADS, FORWARD_PER_SM) stem_forward(stem_args p) {
  __shared__ __align__(16) float factor[OUT * DEPTH], bias[OUT], first[MID * 4], tiles[WARPS][STAGES][MOST_INPUT];
  int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32, g = lane / 4, t = lane % 4;
  uint32_t warps = gridDim.x * WARPS, tile = blockIdx.x * WARPS + static_cast<uint32_t>(warp);
  auto begin = [&](uint32_t of, int stage) {
    if (of < p.tiles) fetch_input<C, PLANAR_X>(tiles[warp][stage], p, p.x + origin_of<C, PLANAR_X>(p, of), lane);
    end_stage();
  };
  begin(tile, 0);
  for (int i = thread; i < OUT * DEPTH / 4; i += THREADS) {
    int of = i % 32, from = column_of(i / 32 % 4, of / 4) * DEPTH + i / 128 * MID + of % 4 * 4;
    *reinterpret_cast<float4 *>(factor + i * 4) = rounded(four(p.w1 + from));
  }
  if (thread < OUT) bias[thread] = p.b1 ? p.b1[thread] : 0;
  take_first<C>(first, p);
  __syncthreads();
#pragma unroll 1
  for (int stage = 0; tile < p.tiles; tile += warps, stage ^= 1) {
    begin(tile + warps, stage ^ 1);
    wait_stage<STAGES - 1>();
    __syncwarp();
    float x[GROUPS][TAPS][C], sums[GROUPS / 2][4][4];
#pragma unroll
    for (int i = 0; i < GROUPS; i++) take_pixels<C, PLANAR_X>(x[i], tiles[warp][stage], g + 8 * i);
    __syncwarp(); /* the next tile but one takes its place */
#pragma unroll
    for (int i = 0; i < GROUPS / 2 * 16; i++) sums[i / 16][i / 4 % 4][i % 4] = 0;
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
      taps_of<C> f(first, t);
      float h[GROUPS][4];
#pragma unroll
      for (int i = 0; i < GROUPS * 4; i++) h[i / 4][i % 4] = positive(middle<C>(f, i % 4, x[i / 4][tap]));
#pragma unroll
      for (int nt = 0; nt < 4; nt++) {
        float4 b = four(factor + ((tap * 4 + nt) * 32 + lane) * 4);
        const float left[2] = {b.x, b.y}, right[2] = {b.z, b.w};
#pragma unroll
        for (int i = 0; i < GROUPS; i += 2) {
          const float begin[4] = {h[i][0], h[i + 1][0], h[i][1], h[i + 1][1]};
          const float end[4] = {h[i][2], h[i + 1][2], h[i][3], h[i + 1][3]};
          product(sums[i / 2][nt], begin, left);
          product(sums[i / 2][nt], end, right);
        }
      }
    }
    float4 low = four(bias + t * 8), high = four(bias + t * 8 + 4);
    const float b[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < GROUPS; i++) {
      float v[8];
#pragma unroll
      for (int k = 0; k < 8; k++) {
        v[k] = sums[i / 2][k / 2][i % 2 * 2 + k % 2] + b[k];
        if (p.relu) v[k] = relu_of(v[k]);
      }
      int64_t to = (static_cast<int64_t>(tile) * ROWS + g + 8 * i) * OUT + t * 8;
      store<4>(p.y, NNK_F32, to, v);
      store<4>(p.y, NNK_F32, to + 4, v + 4);
    }
  }
}

/* ---- backward ---- */
/* A piece: of w1's gradient, of b1's, of w0's and of b0's. */
__host__ __device__ inline int piece_of(int c) { return OUT * DEPTH + OUT + MID * c + MID; }

/* w1 for the gradient of the map between: [tap][half][s][lane][4], lane (g, t) with rows 16 s + 4 t .. + 3 of a
 * column. */
__device__ inline int depth_of(int tap, int half, int g) { return tap * MID + g / 2 * 4 + half * 2 + g % 2; }

template <int C> struct stem_sums {
  float w1[2][8][4]; /* of y's channels 4 g .. 4 g + 3; put_piece() says which of the map between */
  float b1[4], w0[4][C], b0[4];
};

/* dW1 and the bias: sums over a tile's pixels, whose numbers of the map between are in shared memory. */
template <int C> __device__ inline void add_second(stem_sums<C> &a, const float *dy, const float *map, int g, int t) {
#pragma unroll
  for (int s = 0; s < ROWS / 8; s++) {
    const float *row = dy + (s * 8 + t) * OUT + (g ^ twist(t)) * 4;
    float4 u = four(row), v = four(row + 4 * OUT);
    a.b1[0] += u.x + v.x, a.b1[1] += u.y + v.y, a.b1[2] += u.z + v.z, a.b1[3] += u.w + v.w;
    u = rounded(u), v = rounded(v);
    const float first[4] = {u.x, u.y, v.x, v.y}, second[4] = {u.z, u.w, v.z, v.w};
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const float *from = map + (s * 8 + t) * PITCH + half * 32 + g * 4;
      float4 k = positive(four(from)), l = positive(four(from + 4 * PITCH));
      const float b[4][2] = {{k.x, l.x}, {k.y, l.y}, {k.z, l.z}, {k.w, l.w}};
#pragma unroll
      for (int j = 0; j < 4; j++) {
        product(a.w1[0][half * 4 + j], first, b[j]);
        product(a.w1[1][half * 4 + j], second, b[j]);
      }
    }
  }
}

/* A warp's sums to shared memory, in the order of a piece. */
template <int C> __device__ inline void put_piece(float *s, stem_sums<C> &a, int lane) {
  int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 2 * 8 * 4; i++) {
    int mt = i / 32, nt = i / 4 % 8, c = i % 4;
    int n = g * 4 + mt * 2 + c / 2, k = nt / 4 * 32 + (2 * t + c % 2) * 4 + nt % 4;
    s[n * DEPTH + k] = a.w1[mt][nt][c];
  }
  s += OUT * DEPTH;
#pragma unroll
  for (int q = 0; q < 4; q++) {
    float v = a.b1[q];
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    v += __shfl_xor_sync(0xffffffffu, v, 2);
    if (t == 0) s[g * 4 + q] = v;
  }
  s += OUT;
#pragma unroll
  for (int i = 0; i < 4 * (C + 1); i++) {
    int q = i / (C + 1), c = i % (C + 1);
    float v = c < C ? a.w0[q][c < C ? c : 0] : a.b0[q];
    v += __shfl_xor_sync(0xffffffffu, v, 4);
    v += __shfl_xor_sync(0xffffffffu, v, 8);
    v += __shfl_xor_sync(0xffffffffu, v, 16);
    if (g == 0) s[c < C ? (t * 4 + q) * C + c : MID * C + t * 4 + q] = v;
  }
}

template <int C, bool PLANAR_X, bool DX>
__global__ void __launch_bounds__(THREADS, BACKWARD_PER_SM) stem_backward(stem_args p) {
  /* w1, the first layer, each warp's map between and at the end its piece, each warp's tiles of dy and x */
  SP_DYNAMIC_SHARED(float, shared);
  float *first = shared + OUT * DEPTH, *maps = first + MID * 4;
  int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32, g = lane / 4, t = lane % 4;
  float *map = maps + warp * ROWS * PITCH, *tiles = maps + WARPS * ROWS * PITCH + warp * STAGES * TILE;
  uint32_t warps = gridDim.x * WARPS, tile = blockIdx.x * WARPS + static_cast<uint32_t>(warp);
  auto begin = [&](uint32_t of, int stage) {
    if (of < p.tiles) {
      const float *dy = p.dy + static_cast<int64_t>(of) * ROWS * OUT + lane * 4;
      float *to = tiles + stage * TILE;
#pragma unroll
      for (int k = 0; k < ROWS / 4; k++) {
        int row = lane / 8 + k * 4;
        copy_chunk(to + row * OUT + (lane % 8 ^ twist(row)) * 4, dy + k * 128, true);
      }
      fetch_input<C, PLANAR_X>(to + ROWS * OUT, p, p.x + origin_of<C, PLANAR_X>(p, of), lane);
    }
    end_stage();
  };
  begin(tile, 0);
  for (int i = thread; i < OUT * DEPTH / 4; i += THREADS) {
    int of = i % 32, s = i / 32 % 2, depth = depth_of(i / 128, i / 64 % 2, of / 4);
    const float *from = p.w1 + (s * 16 + of % 4 * 4) * DEPTH + depth;
    float4 v = {from[0], from[DEPTH], from[2 * DEPTH], from[3 * DEPTH]};
    *reinterpret_cast<float4 *>(shared + i * 4) = rounded(v);
  }
  take_first<C>(first, p);
  stem_sums<C> sums;
#pragma unroll
  for (int i = 0; i < 64; i++) sums.w1[i / 32][i / 4 % 8][i % 4] = 0;
#pragma unroll
  for (int q = 0; q < 4; q++) {
    sums.b1[q] = sums.b0[q] = 0;
#pragma unroll
    for (int c = 0; c < C; c++) sums.w0[q][c] = 0;
  }
  __syncthreads();
#pragma unroll 1
  for (int stage = 0; tile < p.tiles; tile += warps, stage ^= 1) {
    begin(tile + warps, stage ^ 1);
    wait_stage<STAGES - 1>();
    __syncwarp();
    const float *dy = tiles + stage * TILE;
    float x[GROUPS][TAPS][C], d[GROUPS][8], back[DX ? GROUPS : 1][C];
#pragma unroll
    for (int i = 0; i < GROUPS; i++) {
      load<4>(d[i], dy + (g + 8 * i) * OUT, (t ^ twist(g)) * 4);
      load<4>(d[i] + 4, dy + (g + 8 * i) * OUT, ((t + 4) ^ twist(g)) * 4);
      take_pixels<C, PLANAR_X>(x[i], dy + ROWS * OUT, g + 8 * i);
    }
#pragma unroll
    for (int i = 0; i < GROUPS * 8; i++) d[i / 8][i % 8] = factor_of(d[i / 8][i % 8]);
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
      float dh[GROUPS / 2][2][4];
#pragma unroll
      for (int i = 0; i < GROUPS * 4; i++) dh[i / 8][i / 4 % 2][i % 4] = 0;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        int half = i / 2, s = i % 2 * 4;
        float4 b = four(shared + ((tap * 4 + i) * 32 + lane) * 4);
        const float left[2] = {b.x, b.y}, right[2] = {b.z, b.w};
#pragma unroll
        for (int j = 0; j < GROUPS; j += 2) {
          const float begin[4] = {d[j][s], d[j + 1][s], d[j][s + 1], d[j + 1][s + 1]};
          const float end[4] = {d[j][s + 2], d[j + 1][s + 2], d[j][s + 3], d[j + 1][s + 3]};
          product(dh[j / 2][half], begin, left);
          product(dh[j / 2][half], end, right);
        }
      }
      taps_of<C> f(first, t);
#pragma unroll
      for (int i = 0; i < GROUPS; i++) {
        float h[4], part[C];
#pragma unroll
        for (int c = 0; c < C; c++) part[c] = 0;
#pragma unroll
        for (int q = 0; q < 4; q++) {
          float v = middle<C>(f, q, x[i][tap]), e = v > 0 ? dh[i / 2][q / 2][i % 2 * 2 + q % 2] : 0;
          h[q] = v;
          sums.b0[q] += e;
#pragma unroll
          for (int c = 0; c < C; c++) {
            sums.w0[q][c] = fmaf(e, x[i][tap][c], sums.w0[q][c]);
            if (DX) part[c] = fmaf(e, f.w[q][c], part[c]);
          }
        }
        put_shared<4>(map + (g + 8 * i) * PITCH + tap * MID + t * 4, h);
        if constexpr (DX) {
#pragma unroll
          for (int c = 0; c < C; c++) {
            part[c] += __shfl_xor_sync(0xffffffffu, part[c], 1);
            part[c] += __shfl_xor_sync(0xffffffffu, part[c], 2);
            if (t == tap) back[i][c] = part[c];
          }
        }
      }
    }
    if constexpr (DX) { /* lane t has tap t */
      float *to = p.dx + origin_of<C, PLANAR_X>(p, tile);
#pragma unroll
      for (int i = 0; i < GROUPS * C; i++) {
        uint32_t c = i % C, j = static_cast<uint32_t>(g + 8 * (i / C)), tap = static_cast<uint32_t>(t);
        uint32_t at = (2 * gather(j >> 1) + tap / 2) * 2 * static_cast<uint32_t>(p.width) + 2 * gather(j) + tap % 2;
        at = PLANAR_X ? at + c * 4 * p.pixels : at * C + c;
        to[at] = p.add ? to[at] + back[i / C][c] : back[i / C][c];
      }
    }
    __syncwarp();
    add_second<C>(sums, dy, map, g, t);
    __syncwarp();
  }
  enum { PIECE = OUT * DEPTH + OUT + MID * C + MID };
  static_assert(PIECE <= ROWS * PITCH, "a piece takes the place of the map between");
  put_piece<C>(map, sums, lane);
  __syncthreads();
  float *to = p.work + static_cast<int64_t>(blockIdx.x) * PIECE;
  for (int i = thread; i < PIECE; i += THREADS) {
    float v = maps[i];
#pragma unroll
    for (int k = 1; k < WARPS; k++) v += maps[k * ROWS * PITCH + i];
    to[i] = v;
  }
}

enum { BACKWARD_BYTES = (OUT * DEPTH + MID * 4 + WARPS * (ROWS * PITCH + STAGES * TILE)) * 4 };

typedef void (*kernel)(stem_args p);

static kernel forward_of(int64_t c, bool planar) {
  if (c == 1) return &stem_forward<1, false>;
  return planar ? &stem_forward<3, true> : &stem_forward<3, false>;
}

static kernel backward_of(int64_t c, bool planar, bool dx) {
  if (c == 1) return dx ? &stem_backward<1, false, true> : &stem_backward<1, false, false>;
  if (planar) return dx ? &stem_backward<3, true, true> : &stem_backward<3, true, false>;
  return dx ? &stem_backward<3, false, true> : &stem_backward<3, false, false>;
}

static unsigned blocks_of(const nnk_map *y, int64_t most) {
  int64_t wanted = up(y->n * pixels(*y) / ROWS, WARPS);
  return static_cast<unsigned>(wanted < most ? wanted : most);
}

static bool aligned(const void *p) { return access(4, p, NNK_F32, 4) == 4; }

static stem_args args_of(const nnk_map *x, const nnk_map *y, const nnk_layers *s) {
  stem_args p = {};
  p.x = static_cast<const float *>(x->p);
  p.w0 = s->w0, p.b0 = s->b0, p.w1 = s->w1, p.b1 = s->b1;
  p.relu = s->relu;
  p.width = static_cast<int>(y->w);
  p.layout = y->layout;
  p.pixels = static_cast<uint32_t>(pixels(*y));
  p.tiles = static_cast<uint32_t>(y->n * pixels(*y) / ROWS);
  return p;
}

} // namespace nnk

using namespace nnk;

int nnk_stem(const nnk_map *x, int64_t middle, const nnk_map *y) {
  bool order = x->layout == 0 || x->layout == PLANAR, whole = y->layout >= 3 && x->h == 2 * y->h && x->w == 2 * y->w;
  return (x->c == 1 || x->c == 3) && middle == MID && y->c == OUT && x->elt == NNK_F32 && y->elt == NNK_F32 && order &&
         whole && pixels(*x) * x->c < INT32_MAX && x->n * pixels(*y) < INT32_MAX;
}

int nnk_stem_prepare(void) {
  static const kernel all[] = {backward_of(1, false, false), backward_of(1, false, true), backward_of(3, false, false),
                               backward_of(3, false, true),  backward_of(3, true, false), backward_of(3, true, true)};
  cudaError_t err = cudaSuccess;
  for (unsigned i = 0; i < sizeof all / sizeof *all && !err; i++)
    err = cudaFuncSetAttribute(reinterpret_cast<const void *>(all[i]), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               BACKWARD_BYTES);
  return static_cast<int>(err);
}

int nnk_stem_forward(void *stream, const nnk_map *y, const nnk_map *x, const nnk_layers *s, int multiprocessors) {
  if (!nnk_stem(x, MID, y) || !aligned(x->p) || !aligned(y->p) || !aligned(s->w1)) return refused();
  stem_args p = args_of(x, y, s);
  p.y = static_cast<float *>(y->p);
  kernel run = forward_of(x->c, x->layout == PLANAR);
  SP_LAUNCH(run, blocks_of(y, int64_t{multiprocessors} * FORWARD_PER_SM), THREADS, 0, stream, p);
  return launched();
}

size_t nnk_stem_work(const nnk_map *x, const nnk_map *y, int multiprocessors) {
  size_t blocks = blocks_of(y, int64_t{multiprocessors} * BACKWARD_PER_SM);
  return blocks * static_cast<size_t>(piece_of(static_cast<int>(x->c))) * 4;
}

int nnk_stem_backward(void *stream, const nnk_map *dx, int add, const nnk_map *dy, const nnk_map *x,
                      const nnk_layers *s, float *work, nnk_pieces *sums, int multiprocessors) {
  if (!nnk_stem(x, MID, dy) || !aligned(x->p) || !aligned(dy->p)) return refused();
  stem_args p = args_of(x, dy, s);
  int c = static_cast<int>(x->c);
  p.dy = static_cast<const float *>(dy->p);
  p.dx = dx ? static_cast<float *>(dx->p) : nullptr;
  p.add = add;
  p.work = work;
  kernel run = backward_of(c, x->layout == PLANAR, dx != nullptr);
  unsigned blocks = blocks_of(dy, int64_t{multiprocessors} * BACKWARD_PER_SM);
  SP_LAUNCH(run, blocks, THREADS, BACKWARD_BYTES, stream, p);
  const int64_t counts[] = {OUT * DEPTH, OUT, MID * c, MID};
  for (int i = 0; i < 4; work += counts[i++]) {
    sums[i].parts = work;
    sums[i].count = counts[i];
    sums[i].stride = piece_of(c);
    sums[i].pieces = blocks;
  }
  return launched();
}
