/* SPDX-License-Identifier: MIT
 * narrow.cu - convolutions with few channels at full resolution, forward and data gradient, which is the same with
 * the kernel turned: blocks walk over tiles, and while a tile is computed the next one is on its way.
 */
#include "few.cuh"
#include "tile.cuh"

namespace nnk {

struct narrow_args {
  nnk_map y; /* written */
  source x;  /* read */
  const float *w, *bias;
  const void *mask;
  int relu, add, turned; /* turned: w is [channels of x][taps][channels of y], taps from the last to the first */
  int vy;                /* numbers of one access to y and the mask */
  tiling tiles;
};

__device__ inline float weight_of(const narrow_args &p, int taps, int tap, int from, int to) {
  int cx = static_cast<int>(p.x.m.c), cy = static_cast<int>(p.y.c);
  if (from >= cx || to >= cy) return 0;
  return p.turned ? p.w[(from * taps + taps - 1 - tap) * cy + to] : p.w[(to * taps + tap) * cx + from];
}

/* What is added to COUNT pixels' sums, and their mask, is read for all of them before anything is written, so that the
 * loads do not wait for each other. */
template <int COUNT, int N, int V, class T>
__device__ inline void emit_by(const narrow_args &p, int sample, const int *place, int first, float (*v)[N]) {
  enum { ELT = sizeof(T) == sizeof(float) ? NNK_F32 : NNK_BF16, PER = N / V };
  int c = static_cast<int>(p.y.c);
  int64_t size = pixels(p.y), base = sample * size * c;
  bool planar = V == 1 && p.y.layout == PLANAR;
  int64_t step = planar ? 1 : c, next = planar ? size : 1, at[COUNT];
  float t[COUNT][N];
  bool there[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    int here = hidden(place[i]);
    at[i] = base + here * step + first * next;
    there[i] = here >= 0;
  }
#pragma unroll
  for (int i = 0; i < COUNT * PER && p.add; i++) {
    int e = i / PER, j = i % PER * V;
    if (there[e] && first + j < c) load<V>(t[e] + j, static_cast<const T *>(p.y.p), at[e] + j * next);
  }
#pragma unroll
  for (int i = 0; i < COUNT * N && p.add; i++) v[i / N][i % N] += t[i / N][i % N];
#pragma unroll
  for (int i = 0; i < COUNT * PER && p.mask; i++) {
    int e = i / PER, j = i % PER * V;
    if (there[e] && first + j < c) load<V>(t[e] + j, static_cast<const T *>(p.mask), at[e] + j * next);
  }
#pragma unroll
  for (int i = 0; i < COUNT * N && p.mask; i++) v[i / N][i % N] = t[i / N][i % N] > 0 ? v[i / N][i % N] : 0;
#pragma unroll
  for (int i = 0; i < COUNT * PER; i++) {
    int e = i / PER, j = i % PER * V;
    if (there[e] && first + j < c) store<V>(p.y.p, ELT, at[e] + j * next, v[e] + j);
  }
}

template <int COUNT, int N, class T>
__device__ inline void emit_as(const narrow_args &p, int sample, const int *place, int first, float (*v)[N]) {
  if (N % 4 == 0 && p.vy == 4) {
    emit_by<COUNT, N, (N % 4 ? 2 : 4), T>(p, sample, place, first, v);
  } else if (p.vy >= 2) {
    emit_by<COUNT, N, 2, T>(p, sample, place, first, v);
  } else {
#pragma unroll
    for (int i = 0; i < COUNT; i++) emit_by<1, N, 1, T>(p, sample, place + i, first, v + i);
  }
}

/* COUNT pixels' sums, N channels each from `first` on, to y; place: of the pixels, -1: not there. */
template <int COUNT, int N>
__device__ inline void emit(const narrow_args &p, int sample, const int *place, int first, float (*v)[N]) {
  if (first >= p.y.c) return;
#pragma unroll
  for (int j = 0; j < N; j++) {
    float bias = p.bias && first + j < p.y.c ? p.bias[first + j] : 0;
#pragma unroll
    for (int i = 0; i < COUNT; i++) v[i][j] = p.relu ? relu_of(v[i][j] + bias) : v[i][j] + bias;
  }
  if (p.y.elt == NNK_F32) emit_as<COUNT, N, float>(p, sample, place, first, v);
  else emit_as<COUNT, N, __nv_bfloat16>(p, sample, place, first, v);
}

template <int SPAN, int STRIDE> struct rows_of {
  static __device__ int of(int y, int x, int ch) { return (y * SPAN + x) * STRIDE + ch; }
};

/* ---- 3x3 on tensor cores. KC, NT: eights of channels of x, in each of its PARTS, and of y. A warp has four rows of
 * the tile, 16 pixels to a product; each piece of x that it loads serves the three taps of a column. Channels are dealt
 * so that those a lane has of x are one access to shared memory, with banks of its own,
 * and those of y one access to y. ---- */
template <int KC, int NT, int PARTS> struct tensor3 {
  enum {
    THREADS = 128,
    PER_SM = NT > 2              ? 2
             : KC *NT *PARTS > 4 ? 3
                                 : 4,
    SPAN = SIDE + 2,
    WIDTH = KC * 8,
    STRIDE = WIDTH,
    OF_PART = 9 * NT * 64 * KC
  };
  enum { ROUND = 1, ROWS = SIDE / (THREADS / 32), OWN = KC * 2, OUT = NT * 2, FACTORS = PARTS * OF_PART };
  float sums[ROWS][NT][4];

  static __device__ void prepare(float *factor, const narrow_args &p) {
#pragma unroll 6
    for (int i = static_cast<int>(threadIdx.x); i < FACTORS; i += THREADS) {
      int lane = i / OWN % 32, nt = i / (OWN * 32) % NT, tap = i / (OWN * 32 * NT) % 9, g = lane / 4;
      int from = i / OF_PART * WIDTH + lane % 4 * OWN + i % OWN;
      factor[i] = tf32_of(weight_of(p, 9, tap, from, g / 2 * OUT + nt * 2 + g % 2));
    }
  }

  __device__ void run(const narrow_args &p, const float *tile, const float *factor, const places &to, int sample,
                      int part) {
    int lane = static_cast<int>(threadIdx.x) % 32, top = static_cast<int>(threadIdx.x) / 32 * ROWS;
    int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < ROWS * NT * 4 && (PARTS == 1 || part == 0); i++) sums[i / (NT * 4)][i / 4 % NT][i % 4] = 0;
    if (PARTS > 1) factor += part * OF_PART;
#pragma unroll 1
    for (int kx = 0; kx < 3; kx++) {
      float b[3][NT][OWN];
#pragma unroll
      for (int i = 0; i < 3 * NT; i++)
        load<OWN>(b[i / NT][i % NT], factor, (((i / NT * 3 + kx) * NT + i % NT) * 32 + lane) * OWN);
      const float *from = tile + (top * SPAN + g + kx) * STRIDE + t * OWN;
#pragma unroll
      for (int r = 0; r < ROWS + 2; r++, from += SPAN * STRIDE) {
        float left[OWN], right[OWN];
        load<OWN>(left, from, 0);
        load<OWN>(right, from, 8 * STRIDE);
#pragma unroll
        for (int kc = 0; kc < KC; kc++) {
          float a[4] = {left[kc * 2], right[kc * 2], left[kc * 2 + 1], right[kc * 2 + 1]};
#pragma unroll
          for (int i = 0; i < 3 * NT; i++) {
            int ky = i / NT, nt = i % NT;
            if (r >= ky && r - ky < ROWS) product(sums[r - ky][nt], a, b[ky][nt] + kc * 2);
          }
        }
      }
    }
    if (part < PARTS - 1) return;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int place[ROWS];
      float v[ROWS][OUT];
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        place[r] = place_in(to, top + r, half * 8 + g);
#pragma unroll
        for (int j = 0; j < OUT; j++) v[r][j] = sums[r][j / 2][half * 2 + j % 2];
      }
      emit<ROWS, OUT>(p, sample, place, t * OUT, v);
    }
  }
};

/* What the products in float32 read has its pixels padded: runs of four channels of eight pixels have banks of their
 * own. Factors are [tap][channel of x][channel of y]. */
template <int TAPS, int FROM, int TO, int THREADS>
__device__ inline void plain_factors(float *factor, const narrow_args &p) {
  for (int i = static_cast<int>(threadIdx.x); i < TAPS * FROM * TO; i += THREADS)
    factor[i] = weight_of(p, TAPS, i / (FROM * TO), i / TO % FROM, i % TO);
}

/* ---- 3x3 in float32. ND: fours of channels of y. A thread has two pixels, one above the other. ---- */
template <int KC, int ND> struct plain3 {
  enum { THREADS = 128, PER_SM = 4, SPAN = SIDE + 2, WIDTH = KC * 8, STRIDE = WIDTH + 4, TO = ND * 4 };
  enum { ROUND = 0, FACTORS = 9 * WIDTH * TO };

  static __device__ void prepare(float *factor, const narrow_args &p) {
    plain_factors<9, WIDTH, TO, THREADS>(factor, p);
  }

  __device__ void run(const narrow_args &p, const float *tile, const float *factor, const places &to, int sample, int) {
    int col = static_cast<int>(threadIdx.x) % SIDE, row = static_cast<int>(threadIdx.x) / SIDE * 2;
    float sums[ND][2][4];
#pragma unroll
    for (int i = 0; i < 2 * TO; i++) sums[i / 8][i / 4 % 2][i % 4] = 0;
    for (int ch = 0; ch < p.x.m.c; ch += 4)
      for (int kx = 0; kx < 3; kx++) {
        float x[4][4];
#pragma unroll
        for (int r = 0; r < 4; r++) load<4>(x[r], tile, ((row + r) * SPAN + col + kx) * STRIDE + ch);
#pragma unroll
        for (int i = 0; i < 12 * ND; i++) {
          int ky = i / (4 * ND), j = i / ND % 4, d = i % ND;
          float f[4];
          load<4>(f, factor, ((ky * 3 + kx) * WIDTH + ch + j) * TO + d * 4);
#pragma unroll
          for (int k = 0; k < 4; k++) {
            sums[d][0][k] = fmaf(x[ky][j], f[k], sums[d][0][k]);
            sums[d][1][k] = fmaf(x[ky + 1][j], f[k], sums[d][1][k]);
          }
        }
      }
    int place[2] = {place_in(to, row, col), place_in(to, row + 1, col)};
#pragma unroll
    for (int d = 0; d < ND; d++) emit<2, 4>(p, sample, place, d * 4, sums[d]);
  }
};

/* ---- 1x1: bound by memory, so in float32 always. Four lanes have a pixel's channels, for whole sectors of y; a thread
 * has them for EACH pixels at a time. ---- */
struct point {
  enum { THREADS = 256, PER_SM = 4, SPAN = SIDE, WIDTH = MOST, STRIDE = WIDTH + 4, ROUND = 0, FACTORS = MOST * MOST };
  enum { EACH = 2, ASIDE = THREADS / 4 };

  static __device__ void prepare(float *factor, const narrow_args &p) {
    plain_factors<1, MOST, MOST, THREADS>(factor, p);
  }

  __device__ void run(const narrow_args &p, const float *tile, const float *factor, const places &to, int sample, int) {
    int first = static_cast<int>(threadIdx.x) % 4 * 4;
#pragma unroll 1
    for (int px = static_cast<int>(threadIdx.x) / 4; px < SIDE * SIDE; px += ASIDE * EACH) {
      int place[EACH];
      float sums[EACH][4];
#pragma unroll
      for (int e = 0; e < EACH; e++) {
        place[e] = place_in(to, (px + e * ASIDE) / SIDE, px % SIDE);
#pragma unroll
        for (int j = 0; j < 4; j++) sums[e][j] = 0;
      }
#pragma unroll 1
      for (int ch = 0; ch < p.x.m.c; ch += 4) {
        float x[EACH][4];
#pragma unroll
        for (int e = 0; e < EACH; e++) load<4>(x[e], tile, (px + e * ASIDE) * STRIDE + ch);
#pragma unroll
        for (int i = 0; i < 4; i++) {
          float f[4];
          load<4>(f, factor, (ch + i) * MOST + first);
#pragma unroll
          for (int e = 0; e < EACH * 4; e++) sums[e / 4][e % 4] = fmaf(x[e / 4][i], f[e % 4], sums[e / 4][e % 4]);
        }
      }
      emit<EACH, 4>(p, sample, place, first, sums);
    }
  }
};

template <class P> __global__ void __launch_bounds__(P::THREADS, P::PER_SM) narrow(narrow_args p) {
  enum { THREADS = P::THREADS, SPAN = P::SPAN, TILE = SPAN * SPAN * P::STRIDE, HALO = (SPAN - SIDE) / 2 };
  enum { HELD = held_by<THREADS, SPAN, P::WIDTH>::COUNT };
  __shared__ __align__(16) float tile[TILE], factor[P::FACTORS];
  __shared__ places from[2], to; /* from: of the next tile, while the last one's may still be read */
  float held[HELD];
  corner at = {};
  P sums;
  for (int j = static_cast<int>(threadIdx.x); j < TILE; j += THREADS) tile[j] = 0; /* channels that x does not have */
  for (int i = static_cast<int>(blockIdx.x), part = 0, done = -1, turn = 0;; turn ^= 1) {
    bool first = done < 0, more = i < p.tiles.count;
    corner after = more ? corner_of(p.tiles, i) : at;
    __syncthreads();
    if (!first) {
      put<THREADS, SPAN, HELD, rows_of<SPAN, P::STRIDE>, P::ROUND>(tile, held, p.x);
      chart(&to, 2, p.y, at.y, at.x);
    }
    if (more) chart(&from[turn], 0, p.x.m, after.y - HALO, after.x - HALO);
    __syncthreads();
    if (more) fetch<THREADS, SPAN, HELD>(held, p.x, from[turn], after.sample, part * MOST);
    if (first) P::prepare(factor, p);
    else sums.run(p, tile, factor, to, at.sample, done);
    if (!more) return;
    at = after, done = part++;
    if (part == p.x.parts) part = 0, i += static_cast<int>(gridDim.x);
  }
}

template <class P> static int walk(void *stream, const narrow_args &p, int multiprocessors) {
  int walkers = multiprocessors * P::PER_SM;
  unsigned grid = static_cast<unsigned>(p.tiles.count < walkers ? p.tiles.count : walkers);
  SP_LAUNCH(narrow<P>, grid, P::THREADS, 0, stream, p);
  return launched();
}

static int run3(void *stream, const narrow_args &p, int precision, int sms) {
  bool wide = p.x.m.c > 8;
  if (precision != SP_PRECISION_FP32) {
    if (p.y.c > MOST)
      return p.y.c > 24 ? walk<tensor3<2, 4, 1>>(stream, p, sms) : walk<tensor3<2, 3, 1>>(stream, p, sms);
    if (p.x.parts > 1)
      return p.y.c > 8 ? walk<tensor3<2, 2, 2>>(stream, p, sms) : walk<tensor3<2, 1, 2>>(stream, p, sms);
    if (wide) return p.y.c > 8 ? walk<tensor3<2, 2, 1>>(stream, p, sms) : walk<tensor3<2, 1, 1>>(stream, p, sms);
    return p.y.c > 8 ? walk<tensor3<1, 2, 1>>(stream, p, sms) : walk<tensor3<1, 1, 1>>(stream, p, sms);
  }
  switch (up(p.y.c, 4)) {
    case 1: return wide ? walk<plain3<2, 1>>(stream, p, sms) : walk<plain3<1, 1>>(stream, p, sms);
    case 2: return wide ? walk<plain3<2, 2>>(stream, p, sms) : walk<plain3<1, 2>>(stream, p, sms);
    case 3: return wide ? walk<plain3<2, 3>>(stream, p, sms) : walk<plain3<1, 3>>(stream, p, sms);
    default: return wide ? walk<plain3<2, 4>>(stream, p, sms) : walk<plain3<1, 4>>(stream, p, sms);
  }
}

static int run(void *stream, int k, narrow_args p, const nnk_map *x, int precision, int sms) {
  if (k == 3 && precision == SP_PRECISION_BF16)
    return few(stream, {p.y, *x, p.w, p.bias, p.mask, p.relu, p.add, p.turned}, sms);
  if (!takes(k, x->c, p.y.c, precision)) return refused();
  if (elements(p.y) == 0) return cudaSuccess;
  p.x = source_of(x, SIDE + k - 1);
  p.vy = p.y.layout == PLANAR ? 1 : access(access(4, &p.y, p.y.c), p.mask, p.y.elt, p.y.c);
  p.tiles = tiling_of(&p.y);
  return k == 3 ? run3(stream, p, precision, sms) : walk<point>(stream, p, sms);
}

} // namespace nnk

using namespace nnk;

int nnk_narrow(int k, int64_t in, int64_t out) { return (k == 1 || k == 3) && in <= MOST && out <= MOST; }

int nnk_narrow_tf32(int k, int64_t in, int64_t out) {
  return nnk_narrow(k, in, out) || (k == 3 && std::min(in, out) <= MOST && std::max(in, out) <= 2 * MOST);
}

int nnk_narrow_bf16(int k, int64_t in, int64_t out) {
  return k == 3 ? in <= FEW && out <= FEW : nnk_narrow(k, in, out);
}

int nnk_narrow_forward(void *stream, int k, const nnk_map *y, const nnk_map *x, const float *w, const float *bias,
                       int relu, int precision, int multiprocessors) {
  return run(stream, k, {*y, {}, w, bias, nullptr, relu, 0, 0, 0, {}}, x, precision, multiprocessors);
}

int nnk_narrow_data(void *stream, int k, const nnk_map *dx, const nnk_map *dy, const float *w, const nnk_map *mask,
                    int add, int precision, int multiprocessors) {
  return run(stream, k, {*dx, {}, w, nullptr, mask ? mask->p : nullptr, 0, add, 1, 0, {}}, dy, precision,
             multiprocessors);
}
