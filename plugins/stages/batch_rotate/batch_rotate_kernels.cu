/* SPDX-License-Identifier: MIT
 * batch_rotate_kernels.cu - turned images on CUDA: one kernel a batch. A block draws the angle of its sample once and
 * makes one tile of one tensor; a thread finds where a pixel comes from once, for all channels. */
#include "batch_rotate_kernels.h"

#include "batch_rotate_source.cuh"
#include "../../kits/aug/exact.h"

/* How a block goes over its tile: a thread has WIDE pixels side by side in each of HIGH rows at a time, a warp is LANES
 * threads wide, a block WARPS warps; the rows of a thread lie a block's height apart. */
template <int WIDE, int HIGH, int LANES, int WARPS> struct path {
  static constexpr int wide = WIDE, high = HIGH, lanes = LANES, warps = WARPS, width = WIDE * LANES * WARPS;
  static constexpr int rows = THREADS / (LANES * WARPS); /* at a time, of each of a thread's rows */
};

template <typename T, int C, int PIX> static __device__ bool whole_quads(const view<T, C, PIX> &s) {
  bool whole = s.w % 4 == 0;
#pragma unroll
  for (int c = 0; c < C; c++) whole &= reinterpret_cast<uintptr_t>(s.out[c]) % sizeof(aug_quad<T>) == 0;
  return whole;
}

/* Stores the pixels from x on of a row that begins at pixel `row`. */
template <typename P, typename T, int C, int PIX>
static __device__ __forceinline__ void store(const view<T, C, PIX> &s, int row, int x, bool quads,
                                             const T (&v)[P::wide][C]) {
  if constexpr (P::wide == 4 && C == 1)
    if (quads) {
      *reinterpret_cast<aug_quad<T> *>(s.out[0] + row + x) = {{v[0][0], v[1][0], v[2][0], v[3][0]}};
      return;
    }
#pragma unroll
  for (int k = 0; k < P::wide; k++)
#pragma unroll
    for (int c = 0; c < C; c++)
      if (x + k < s.w && (C != CHANNELS || c < s.count)) s.out[c][(int64_t)(row + x + k) * s.stride] = v[k][c];
}

template <int MODE, int PIX>
static __device__ __forceinline__ void store(const byte_box<MODE, PIX> &s, uint32_t at, const rgb (&v)[4][1]) {
  rgb a = v[0][0], b = v[1][0], c = v[2][0], d = v[3][0];
  if (PIX == 3) {
    uint32_t *to = reinterpret_cast<uint32_t *>(s.out) + at / 4 * 3;
    to[0] = __byte_perm(a, b, 0x4210);
    to[1] = __byte_perm(b, c, 0x5421);
    to[2] = __byte_perm(c, d, 0x6542);
    return;
  }
  uint32_t left = __byte_perm(a, b, 0x5140), right = __byte_perm(c, d, 0x5140);
  *reinterpret_cast<uint32_t *>(s.out + at) = __byte_perm(left, right, 0x5410);
  *reinterpret_cast<uint32_t *>(s.second + at) = __byte_perm(left, right, 0x7632);
  *reinterpret_cast<uint32_t *>(s.third + at) =
      __byte_perm(__byte_perm(a, b, 0x0062), __byte_perm(c, d, 0x0062), 0x5410);
}
template <int PIX>
static __device__ __forceinline__ void store(const float_box<PIX> &s, uint32_t at, const float (&v)[1][3]) {
#pragma unroll
  for (int c = 0; c < 3; c++) s.out[PIX == 1 ? c : 0][(int64_t)at * PIX + (PIX == 1 ? 0 : c)] = v[0][c];
}

/* Makes the tile from (left, top) on. */
template <typename P, typename S, typename How>
static __device__ __forceinline__ void make(const S &source, const How &how, const rotate_turn &turn, int left,
                                            int top) {
  using tile = tile_of<typename S::type>;
  static_assert(tile::wide % P::width == 0 && tile::high % (P::rows * P::high) == 0, "whole steps");
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int right = min(left + tile::wide, source.w), bottom = min(top + tile::high, source.h);
  bool quads = whole_quads(source);
  left += (warp % P::warps * P::lanes + lane % P::lanes) * P::wide;
  top += warp / P::warps * (32 / P::lanes) + lane / P::lanes;
  for (int x = left; x < right; x += P::width)
    for (int y = top; y < bottom; y += P::rows * P::high) {
      typename S::type v[P::high][P::wide][S::channels];
#pragma unroll
      for (int r = 0; r < P::high; r++)
#pragma unroll
        for (int k = 0; k < P::wide; k++) {
          int to = y + r * P::rows;
          how.pixel(source, rotate_twice_x(&turn, x + k, to), rotate_twice_y(&turn, x + k, to), v[r][k]);
        }
#pragma unroll
      for (int r = 0; r < P::high; r++)
        if (y + r * P::rows < bottom) store<P>(source, (y + r * P::rows) * source.w, x, quads, v[r]);
    }
}

/* Makes what box.fill() was for, the part of a tile from (left, top) on. */
template <typename P, typename Box, typename How>
static __device__ __forceinline__ void make_of_box(const Box &box, const How &how, const rotate_turn &turn, int left,
                                                   int top) {
  static_assert(Box::wide == P::width && Box::tall % P::rows == 0, "whole steps");
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, bottom = min(top + Box::tall, box.h);
  int x = left + (warp % P::warps * P::lanes + lane % P::lanes) * P::wide;
  int y = top + warp / P::warps * (32 / P::lanes) + lane / P::lanes;
  float by_x[2][P::wide], down = (float)y - turn.half_h;
  uint32_t at = y * box.w + x;
  if (x >= box.w) return;
#pragma unroll
  for (int k = 0; k < P::wide; k++) {
    by_x[0][k] = __fmul_rn((float)(x + k) - turn.half_w, turn.xx);
    by_x[1][k] = __fmul_rn((float)(x + k) - turn.half_w, turn.yx);
  }
#pragma unroll 1
  for (; y < bottom; y += P::rows, at += P::rows * box.w, down += (float)P::rows) { /* down is exact */
    typename Box::type v[P::wide][Box::channels];
    float x2[P::wide], y2[P::wide], by_y[2] = {__fmul_rn(down, turn.xy), __fmul_rn(down, turn.yy)};
#pragma unroll
    for (int k = 0; k < P::wide; k++) {
      x2[k] = rotate_twice(by_x[0][k], by_y[0], turn.w);
      y2[k] = rotate_twice(by_x[1][k], by_y[1], turn.h);
    }
    how.row(box, x2, y2, v);
    store(box, at, v);
  }
}

template <int MODE, typename T, int C>
using sampler = std::conditional_t<MODE == ROTATE_BILINEAR, bilinear<T, C>, nearest<T, C>>;

using Bytes = path<4, 1, 8, 2>;
using Moved = path<4, 1, 16, 1>;    /* bytes from shared memory, nearest */
using Words = path<1, 2, 16, 2>;    /* of 4 bytes or 8 */
using Gathered = path<1, 1, 16, 2>; /* bilinear, from memory */
using Boxed = path<1, 1, 32, 1>;    /* from shared memory: a row of lanes meets in the fewest banks */
template <typename T> using path_of = std::conditional_t<sizeof(T) == 1, Bytes, Words>;

/* What a block has to do. */
struct task {
  const aug_job &j;
  const rotate_turn &turn;
  const rotate_how &how;
  int left, top, group; /* group: of CHANNELS channels */
};

template <typename P, int MODE, typename T, int C, int PIX>
static __device__ __forceinline__ void from_memory(const task &t) {
  make<P>(view<T, C, PIX>(t.j, t.group * CHANNELS), sampler<MODE, T, C>(t.how), t.turn, t.left, t.top);
}

template <typename P, int MODE, typename Box> static __device__ __forceinline__ void from_box(const task &t) {
  SP_DYNAMIC_SHARED(unsigned char, shared);
  using T = typename Box::type;
  using tile = tile_of<std::conditional_t<std::is_same_v<T, rgb>, uint8_t, T>>;
  constexpr int across = tile::wide / Box::wide, parts = across * (tile::high / Box::tall);
  const sampler<MODE, T, Box::channels> how(t.how);
  Box box(t.j, shared, t.how);
#pragma unroll 1
  for (int part = 0; part < parts; part++) {
    int x = t.left + part % across * Box::wide, y = t.top + part / across * Box::tall;
    if (x >= t.j.w || y >= t.j.h) continue;
    if (part) __syncthreads(); /* what was in the box is done with */
    box.fill(t.j, t.turn, x, y);
    box.wait();
    __syncthreads();
    make_of_box<P>(box, how, t.turn, x, y);
  }
}

template <int MODE, typename T, int PIX> static __device__ __forceinline__ void three_channels(const task &t) {
  if constexpr (sizeof(T) == 1) {
    using Path = std::conditional_t<MODE == ROTATE_NEAREST, Moved, Bytes>;
    if (byte_box<MODE, PIX>::takes(t.j)) from_box<Path, MODE, byte_box<MODE, PIX>>(t);
    else from_memory<Bytes, MODE, T, 3, PIX>(t);
  } else if constexpr (MODE == ROTATE_BILINEAR) {
    if (float_box<PIX>::takes(t.j)) from_box<Boxed, MODE, float_box<PIX>>(t);
    else from_memory<Gathered, MODE, T, 3, PIX>(t);
  } else {
    from_memory<Words, MODE, T, 3, PIX>(t);
  }
}

template <int MODE, typename T> static __device__ __forceinline__ void turn_image(const task &t) {
  int64_t channels = t.j.planes * t.j.pix;
  if (t.group * CHANNELS >= channels) return;
  if (channels == 1) from_memory<path_of<T>, MODE, T, 1, 1>(t);
  else if (channels != 3) from_memory<Words, MODE, T, CHANNELS, 0>(t);
  else if (t.j.pix == 1) three_channels<MODE, T, 1>(t);
  else three_channels<MODE, T, 3>(t);
}

static __device__ __forceinline__ void fetch_line(const uint8_t *at) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" : : "l"(at));
#else
  (void)at;
#endif
}

/* Has a sample on its way from memory to the L2 cache while its angle is drawn, which the first two warps do: each of
 * its blocks fetches a part of it. */
static __device__ __forceinline__ void fetch_ahead(const aug_job &j) {
  int64_t bytes = j.planes * j.pix * j.h * j.w * (j.dtype == SP_U8 ? 1 : j.dtype == SP_I64 ? 8 : 4);
  const uint8_t *in = static_cast<const uint8_t *>(j.in) + blockIdx.y * bytes;
  uint32_t lines = (uint32_t)(bytes / 128);
  for (uint32_t i = (threadIdx.x - 64) * gridDim.x + blockIdx.x; i < lines; i += (THREADS - 64) * gridDim.x)
    fetch_line(in + (int64_t)i * 128);
}

/* The sine of an angle and so many quarter turns. sin() and cos() read a table in memory, for which a block would wait
 * as long as for the rest. */
static __device__ __forceinline__ float sine_of(double way, int quarters) {
  if (fabs(way) >= 1e5) return (float)(quarters ? cos(way) : sin(way));
  return (float)aug_sine(way, quarters);
}

/* Blocks are (tile, sample, tensor and group of its channels). */
template <int MODE>
static __global__ void __launch_bounds__(THREADS, 4)
    rotate(const aug_jobs jobs, int groups, aug_dice dice, const rotate_how how, const float *given, float *angles,
           int64_t *status) {
  __shared__ rotate_turn turn;
  bool first = blockIdx.x == 0 && blockIdx.z == 0, draws = threadIdx.x == 0 || threadIdx.x == 32;
  float angle = 0;
  if (draws) angle = given ? given[blockIdx.y] : rotate_draw(&dice, blockIdx.y, how.lo, how.hi);
  unsigned job = groups == 1 ? blockIdx.z : blockIdx.z / groups, group = blockIdx.z - job * groups;
  const aug_job &j = jobs.job[job];
  if (group == 0 && threadIdx.x >= 64) fetch_ahead(j);
  if (draws) { /* two warps: the cosine and the sine take longest */
    double way = rotate_radians(isfinite(angle) ? angle : 0.0f); /* the status tells, behind the call */
    if (threadIdx.x) {
      rotate_sine(&turn, sine_of(way, 0), j.h, j.w);
    } else {
      rotate_cosine(&turn, sine_of(way, 1), j.h, j.w);
      rotate_sizes(&turn, j.h, j.w);
      if (angles && first) angles[blockIdx.y] = angle;
    }
  }
  int wide = tile_wide(j), high = tile_high(j), across = (j.w + wide - 1) / wide;
  int top = blockIdx.x / across * high, left = (blockIdx.x - blockIdx.x / across * across) * wide;
  if (first && blockIdx.y == 0)
    aug_judge(status, jobs.n, dice.ids, given != nullptr, [&](int64_t i, int64_t &value, int64_t &limit) {
      value = limit = 0;
      return !isfinite(given[i]);
    });
  if (top >= j.h) return; /* of more blocks than this tensor has tiles */
  __syncthreads();
  const rotate_turn mine = turn;
  const task t = {j, mine, how, left, top, (int)group};
  if (j.mask)
    aug_by_size(j.dtype, [&](auto element) {
      using T = decltype(element);
      if (t.group == 0) make<path_of<T>>(view<T, 1, 1>(j, 0), nearest<T, 1>((T)how.mask_fill), mine, t.left, t.top);
    });
  else if (j.dtype == SP_U8) turn_image<MODE, uint8_t>(t);
  else turn_image<MODE, float>(t);
}

static size_t box_bytes(const aug_job *j, int mode) {
  if (j->planes * j->pix != 3) return 0;
  if (j->dtype == SP_U8) return byte_box<ROTATE_NEAREST, 1>::bytes;
  if (mode == ROTATE_NEAREST) return 0;
  return j->pix == 1 ? float_box<1>::bytes : float_box<3>::bytes;
}

int rotate_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const rotate_how *how, const float *given,
                  float *angles, int64_t *status) {
  int64_t groups = 1, tiles = 1;
  size_t shared = 0;
  for (int i = 0; i < jobs->count; i++) {
    const aug_job *j = &jobs->job[i];
    int64_t of = (j->planes * j->pix + CHANNELS - 1) / CHANNELS;
    size_t bytes = box_bytes(j, how->mode);
    groups = of > groups ? of : groups;
    of = (int64_t)((j->h + tile_high(*j) - 1) / tile_high(*j)) * ((j->w + tile_wide(*j) - 1) / tile_wide(*j));
    tiles = of > tiles ? of : tiles;
    shared = bytes > shared ? bytes : shared;
  }
  dim3 grid((unsigned)tiles, (unsigned)jobs->n, (unsigned)(jobs->count * groups));
  if (how->mode == ROTATE_BILINEAR)
    SP_LAUNCH(rotate<ROTATE_BILINEAR>, grid, THREADS, shared, stream, *jobs, (int)groups, *dice, *how, given, angles,
              status);
  else
    SP_LAUNCH(rotate<ROTATE_NEAREST>, grid, THREADS, shared, stream, *jobs, (int)groups, *dice, *how, given, angles,
              status);
  return cudaPeekAtLastError();
}
