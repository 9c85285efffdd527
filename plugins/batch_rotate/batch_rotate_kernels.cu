/* SPDX-License-Identifier: MIT
 * batch_rotate_kernels.cu - turned images on CUDA: one kernel a batch. A block draws the angle of its sample once and
 * makes one tile of one tensor; a thread finds where a pixel comes from once, for all channels. */
#include "batch_rotate_kernels.h"

#include "batch_rotate_source.cuh"

/* How a block goes over its tile: a thread has WIDE pixels side by side in each of HIGH rows at a time, a warp is LANES
 * threads wide, a block WARPS warps; the rows of a thread lie a block's height apart. */
template <int WIDE, int HIGH, int LANES, int WARPS> struct path {
  static constexpr int wide = WIDE, high = HIGH, lanes = LANES, warps = WARPS, width = WIDE * LANES * WARPS;
  static constexpr int rows = THREADS / (LANES * WARPS); /* at a time, of each of a thread's rows */
  static_assert(PART % (rows * HIGH) == 0 && TILE % width == 0, "a tile is whole steps");
};

template <typename T, int C, int PIX> static __device__ bool whole_quads(const view<T, C, PIX> &s) {
  bool whole = s.w % 4 == 0;
#pragma unroll
  for (int c = 0; c < C; c++) whole &= reinterpret_cast<uintptr_t>(s.out[c]) % sizeof(aug_quad<T>) == 0;
  return whole;
}
template <int PIX> static __device__ bool whole_quads(const byte_box<PIX> &) { return true; }

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

template <typename P, int PIX>
static __device__ __forceinline__ void store(const byte_box<PIX> &s, int row, int x, bool, const rgb (&v)[4][1]) {
  uint32_t *to = reinterpret_cast<uint32_t *>(s.out + (int64_t)(row + x) * PIX);
  rgb a = v[0][0], b = v[1][0], c = v[2][0], d = v[3][0];
  if (PIX == 3) {
    to[0] = __byte_perm(a, b, 0x4210);
    to[1] = __byte_perm(b, c, 0x5421);
    to[2] = __byte_perm(c, d, 0x6542);
    return;
  }
  int64_t plane = (int64_t)s.w * s.h / 4;
  uint32_t left = __byte_perm(a, b, 0x5140), right = __byte_perm(c, d, 0x5140);
  to[0] = __byte_perm(left, right, 0x5410);
  to[plane] = __byte_perm(left, right, 0x7632);
  to[2 * plane] = __byte_perm(__byte_perm(a, b, 0x0062), __byte_perm(c, d, 0x0062), 0x5410);
}

/* Makes the square of SIZE x SIZE pixels from (left, top) on. */
template <typename P, int SIZE = TILE, typename S, typename How>
static __device__ __forceinline__ void make(const S &source, const How &how, const rotate_turn &turn, int left,
                                            int top) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int right = min(left + SIZE, source.w), bottom = min(top + SIZE, source.h);
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

template <int MODE, typename T, int C>
using sampler = std::conditional_t<MODE == ROTATE_BILINEAR, bilinear<T, C>, nearest<T, C>>;

using Bytes = path<4, 1, 8, 2>;
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

/* SIZE: of what the box holds the source of. */
template <typename P, int MODE, int SIZE, typename Box> static __device__ __forceinline__ void from_box(const task &t) {
  SP_DYNAMIC_SHARED(unsigned char, shared);
  Box box(t.j, shared, t.how);
  const sampler<MODE, typename Box::type, Box::channels> how(t.how);
#pragma unroll 1
  for (int part = 0; part < (TILE / SIZE) * (TILE / SIZE); part++) {
    int x = t.left + part % (TILE / SIZE) * SIZE, y = t.top + part / (TILE / SIZE) * SIZE;
    if (x >= t.j.w || y >= t.j.h) continue;
    __syncthreads(); /* what was in the box is done with */
    box.fill(t.j, t.turn, x, y);
    make<P, SIZE>(box, how, t.turn, x, y);
  }
}

template <int MODE, typename T, int PIX> static __device__ __forceinline__ void three_channels(const task &t) {
  if constexpr (sizeof(T) == 1) {
    if (byte_box<PIX>::takes(t.j)) from_box<Bytes, MODE, TILE, byte_box<PIX>>(t);
    else from_memory<Bytes, MODE, T, 3, PIX>(t);
  } else if constexpr (MODE == ROTATE_BILINEAR) {
    if (float_box<PIX>::takes(t.j)) from_box<Boxed, MODE, PART, float_box<PIX>>(t);
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

/* Blocks are (tile, sample, tensor and group of its channels). */
template <int MODE>
static __global__ void __launch_bounds__(THREADS, 4)
    rotate(const aug_jobs jobs, int groups, aug_dice dice, const rotate_how how, const float *given, float *angles,
           int64_t *status) {
  __shared__ rotate_turn turn;
  const aug_job &j = jobs.job[blockIdx.z / groups];
  int across = (j.w + TILE - 1) / TILE, tile_y = blockIdx.x / across, tile_x = blockIdx.x - tile_y * across;
  bool first = blockIdx.x == 0 && blockIdx.z == 0;
  if (threadIdx.x == 0 || threadIdx.x == 32) { /* two warps: the cosine and the sine take longest */
    float angle = given ? given[blockIdx.y] : rotate_draw(&dice, blockIdx.y, how.lo, how.hi);
    double way = rotate_radians(isfinite(angle) ? angle : 0.0f); /* the status tells, behind the call */
    if (threadIdx.x) {
      rotate_sine(&turn, (float)sin(way), j.h, j.w);
    } else {
      rotate_cosine(&turn, (float)cos(way), j.h, j.w);
      rotate_sizes(&turn, j.h, j.w);
      if (angles && first) angles[blockIdx.y] = angle;
    }
  }
  if (first && blockIdx.y == 0)
    aug_judge(status, jobs.n, dice.ids, given != nullptr, [&](int64_t i, int64_t &value, int64_t &limit) {
      value = limit = 0;
      return !isfinite(given[i]);
    });
  __syncthreads();
  const rotate_turn mine = turn;
  const task t = {j, mine, how, tile_x * TILE, tile_y * TILE, (int)(blockIdx.z % groups)};
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
  if (j->dtype == SP_U8) return byte_box<1>::bytes;
  if (mode == ROTATE_NEAREST) return 0;
  return j->pix == 1 ? float_box<1>::bytes : float_box<3>::bytes;
}

int rotate_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, const rotate_how *how, const float *given,
                  float *angles, int64_t *status) {
  int64_t groups = 1, tiles = (int64_t)((jobs->job[0].h + TILE - 1) / TILE) * ((jobs->job[0].w + TILE - 1) / TILE);
  size_t shared = 0;
  for (int i = 0; i < jobs->count; i++) {
    const aug_job *j = &jobs->job[i];
    int64_t of = (j->planes * j->pix + CHANNELS - 1) / CHANNELS;
    size_t bytes = box_bytes(j, how->mode);
    groups = of > groups ? of : groups;
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
