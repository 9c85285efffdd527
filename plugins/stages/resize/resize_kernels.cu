/* SPDX-License-Identifier: MIT
 * resize_kernels.cu - images and masks at another size on CUDA: one kernel a batch, `two` where both axes have at most
 * two inputs an output (`exact` where bytes need no floats for it), `halving` for bytes at half of their size, `shrink`
 * where a tile and its inputs fit shared memory, `many` for the rest. All give the bits of the cpu.
 */
#include "resize_common.cuh"
#include "resize_half.cuh"
#include "resize_shrink.cuh"
#include "resize_tile.cuh"

/* ---- two by two ----
 * A thread makes four elements of ROWS rows. It goes through the input rows that these need, each once: what it reads
 * of a row (`raw`) is on its way some rows ahead, and is then scaled along x. */

/* Four elements of an output row: at[k] counts 1 - second[k], next[k] the rest. */
struct columns {
  uint32_t at[4], next[4];
  float second[4];
};

static __device__ __forceinline__ columns columns_of(const aug_job &j, const resize_axis &x, int e) {
  columns c;
  int column = column_of(j, e), channel = e - column * j.pix;
#pragma unroll
  for (int k = 0; k < 4; k++) {
    c.at[k] = (uint32_t)(resize_two(&x, min(column, j.out_w - 1), &c.second[k]) * j.pix + channel);
    c.next[k] = c.second[k] > 0.0f ? c.at[k] + (uint32_t)j.pix : c.at[k];
    if (++channel < j.pix) continue;
    channel = 0;
    column++;
  }
  return c;
}

/* Elements, wherever they are. */
template <typename T> struct by_elements {
  typedef T element;
  struct raw {
    T a[4], b[4];
  };
  columns c;

  static __device__ __forceinline__ T at(const T *row, uint32_t i) { /* 32 bits, so that it takes one register */
    return *reinterpret_cast<const T *>(reinterpret_cast<const char *>(row) + i * (uint32_t)sizeof(T));
  }
  __device__ __forceinline__ raw load(const T *row) const {
    raw v;
#pragma unroll
    for (int k = 0; k < 4; k++) {
      v.a[k] = at(row, c.at[k]);
      v.b[k] = at(row, c.next[k]);
    }
    return v;
  }
  __device__ __forceinline__ void along_x(const raw &v, float (&h)[4]) const {
#pragma unroll
    for (int k = 0; k < 4; k++)
      h[k] = __fadd_rn(__fmul_rn((float)v.a[k], __fsub_rn(1.0f, c.second[k])), __fmul_rn((float)v.b[k], c.second[k]));
  }
};

/* Bytes that lie within eight, of rows that begin on words: three words have them all. */
struct by_words {
  typedef uint8_t element;
  struct raw {
    uint32_t w[3];
  };
  uint32_t word[3];
  uint32_t shift, at, next; /* at, next: which of the eight bytes, a digit each */
  float first[4], second[4];

  /* Whether it is so; a byte that counts nothing may be another one, since none is infinite. */
  __device__ __forceinline__ bool of(const aug_job &j, const columns &c) {
    uint32_t from = min(min(c.at[0], c.at[1]), min(c.at[2], c.at[3])), last = (uint32_t)(j.w * j.pix / 4 - 1);
    bool fit = true;
    at = next = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) {
      uint32_t a = c.at[k] - from, b = c.next[k] - from;
      fit = fit && a < 8 && b < 8;
      at |= a << 4 * k;
      next |= b << 4 * k;
      second[k] = c.second[k];
      first[k] = __fsub_rn(1.0f, second[k]);
    }
    shift = from % 4 * 8;
    word[0] = from / 4;
    word[1] = min(word[0] + 1, last);
    word[2] = min(word[0] + 2, last);
    return fit;
  }
  __device__ __forceinline__ raw load(const uint8_t *row) const {
    const uint32_t *words = reinterpret_cast<const uint32_t *>(row);
    return {{words[word[0]], words[word[1]], words[word[2]]}};
  }
  /* A byte under the bits of 2^23 is that plus it; taken off again inside of the product, which is rounded once. */
  static __device__ __forceinline__ float product(uint32_t bytes, int k, float weight) {
    float v = __uint_as_float(__byte_perm(bytes, 0x4b000000u, 0x7440u | (uint32_t)k));
    return __fmaf_rn(v, weight, -8388608.0f * weight);
  }
  __device__ __forceinline__ void along_x(const raw &v, float (&h)[4]) const {
    uint32_t low = __funnelshift_r(v.w[0], v.w[1], shift), high = __funnelshift_r(v.w[1], v.w[2], shift);
    uint32_t a = __byte_perm(low, high, at), b = __byte_perm(low, high, next);
#pragma unroll
    for (int k = 0; k < 4; k++) h[k] = __fadd_rn(product(a, k, first[k]), product(b, k, second[k]));
  }
};

template <typename T>
static __device__ __forceinline__ void mix(T *row, int e, int n, bool whole, const float (&upper)[4],
                                           const float (&lower)[4], float v) {
  T made[4];
  float u = __fsub_rn(1.0f, v);
#pragma unroll
  for (int k = 0; k < 4; k++) { /* where the lower row counts nothing it is another one, which may be infinite */
    float below = sizeof(T) == 1 || v > 0.0f ? lower[k] : upper[k];
    made[k] = nearest(T(), __fadd_rn(__fmul_rn(upper[k], u), __fmul_rn(below, v)));
  }
  if (e < n) put(row, e, n, whole, made);
}

/* All lanes of a warp together: lane r knows the input of row y + r. AHEAD: how many input rows are on their way. */
template <int AHEAD, typename Source>
static __device__ __forceinline__ void strip(const aug_job &j, const axes &a, const Source &source, int64_t plane,
                                             int y, int e) {
  typedef typename Source::element T;
  int n = j.out_w * j.pix, rows = min((int)ROWS, j.out_h - y);
  bool whole = whole_quads<T>(j);
  float second;
  int mine = resize_two(&a.y, min(y + (int)threadIdx.x % 32, j.out_h - 1), &second);
  int first = __shfl_sync(~0u, mine, 0), last = __shfl_sync(~0u, second > 0.0f ? mine + 1 : mine, rows - 1);
  int64_t pitch = (int64_t)j.w * j.pix;
  const T *in = aug_row<T>(j, blockIdx.y, plane, first);
  T *out = static_cast<T *>(j.out) + ((blockIdx.y * j.planes + plane) * j.out_h + y) * n;
  float upper[4], lower[4] = {};
  if (last - first > ROWS + 1) { /* it shrinks */
#pragma unroll 1
    for (int r = 0; r < rows; r++, out += n) {
      const T *row = in + (__shfl_sync(~0u, mine, r) - first) * pitch;
      float v = __shfl_sync(~0u, second, r);
      source.along_x(source.load(row), upper);
      source.along_x(source.load(v > 0.0f ? row + pitch : row), lower);
      mix(out, e, n, whole, upper, lower, v);
    }
    return;
  }
  typename Source::raw ahead[AHEAD];
  source.along_x(source.load(in), upper);
#pragma unroll
  for (int i = 0; i < AHEAD; i++) {
    in += pitch;
    if (first + 1 + i <= last) ahead[i] = source.load(in);
  }
  int r = 0, lo = first;
  float v = __shfl_sync(~0u, second, 0);
#pragma unroll 1
  for (int row = first;;) { /* upper: row `row` */
#pragma unroll
    for (int i = 0; i < AHEAD; i++, row++) { /* not moved on from ahead[i] to ahead[i - 1]: that would wait for it */
      if (row < last) source.along_x(ahead[i], lower);
      in += pitch;
      if (row + 1 + AHEAD <= last) ahead[i] = source.load(in);
#pragma unroll 1
      while (lo == row) {
        mix(out, e, n, whole, upper, lower, v);
        if (++r == rows) return;
        out += n;
        lo = __shfl_sync(~0u, mine, r);
        v = __shfl_sync(~0u, second, r);
      }
#pragma unroll
      for (int k = 0; k < 4; k++) upper[k] = lower[k];
    }
  }
}

static __global__ void __launch_bounds__(THREADS, 4) two(const aug_jobs jobs, const axes a) {
  const aug_job &j = jobs.job[blockIdx.z];
  if (picked(j, a, WARPS, ROWS, blockIdx.y)) return;
  bool words = j.dtype == SP_U8 && j.w * j.pix % 4 == 0 && reinterpret_cast<uintptr_t>(j.in) % 4 == 0;
  aug_place p = aug_place_of(j, quads_of(j), WARPS, ROWS);
  if (p.plane < 0 || p.y >= j.out_h) return;
  columns c = columns_of(j, a.x, 4 * p.x);
  by_words quick;
  if (j.dtype != SP_U8) strip<1>(j, a, by_elements<float>{c}, p.plane, p.y, 4 * p.x);
  else if (words && __all_sync(~0u, quick.of(j, c))) strip<3>(j, a, quick, p.plane, p.y, 4 * p.x);
  else strip<1>(j, a, by_elements<uint8_t>{c}, p.plane, p.y, 4 * p.x);
}

/* ---- two by two, in sixteenths ----
 * Where eight times the ratio is a whole number (1:2, 3:4, 7:8 ...), all weights are sixteenths, and whatever is made
 * of bytes is exact: so it is made of integers, two at once in the halves of a word. A block scales the rows that its
 * tile needs along x, into shared memory, and these along y. */
enum {
  EXACT_ROWS = 16,
  TALL = WARPS * EXACT_ROWS,
  NEEDED = TALL + 2, /* input rows at most */
  BATCH = 9          /* of them a thread reads at once: twice as large, a tile needs 66 */
};

struct row_pair {
  int upper, lower; /* bytes from the first row of sums */
  uint32_t u, v;    /* their sixteenths */
};

struct exact_memory {
  uint2 row[NEEDED][32]; /* four sums of 16 bits */
  row_pair y[TALL];
  int2 x[128]; /* of a column: where its first input is, and the sixteenths of the next one */
};

static __global__ void __launch_bounds__(THREADS, 3) exact(const aug_jobs jobs, const axes a) {
  __shared__ exact_memory m;
  const aug_job &j = jobs.job[blockIdx.z];
  if (picked(j, a, WARPS, EXACT_ROWS, blockIdx.y)) return;
  aug_place p = aug_place_of(j, quads_of(j), WARPS, EXACT_ROWS);
  if (p.plane < 0) return;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = j.out_w * j.pix, words = j.w * j.pix / 4;
  int top = p.y - warp * EXACT_ROWS, end = min(top + TALL, j.out_h);
  float second;
  /* What is read does not wait for the tables. Of two neighbouring columns the second may begin before the first. */
  int e = min(4 * p.x, n - 4), column = column_of(j, e), next_column = column_of(j, e + 3);
  int from = resize_two(&a.x, column, &second) * j.pix + e - column * j.pix;
  if (j.pix > 1 && next_column != column) from = min(from, resize_two(&a.x, column + 1, &second) * j.pix);
  int first = resize_two(&a.y, top, &second), last = resize_two(&a.y, end - 1, &second) + (second > 0.0f);
  unsigned shift = from % 4 * 8u;
  uint32_t pitch = 4 * (uint32_t)words, w[BATCH][3];
  const char *in = static_cast<const char *>(j.in) + ((blockIdx.y * j.planes + p.plane) * j.h + first) * (int64_t)pitch;
  const char *word[3];
#pragma unroll
  for (int k = 0; k < 3; k++) word[k] = in + 4 * min(from / 4 + k, words - 1);
  auto load = [&](int i) {
#pragma unroll
    for (int b = 0; b < BATCH; b++) {
      uint64_t row = (uint64_t)(uint32_t)min(i + b * WARPS, last - first) * pitch;
#pragma unroll
      for (int k = 0; k < 3; k++) w[b][k] = *reinterpret_cast<const uint32_t *>(word[k] + row);
    }
  };
  load(warp);
  for (int i = threadIdx.x; i < 128 + TALL; i += THREADS) {
    if (i < 128) {
      int e = min((p.x - lane) * 4 + i, n - 1), column = column_of(j, e);
      m.x[i].x = resize_two(&a.x, column, &second) * j.pix + e - column * j.pix;
      m.x[i].y = (int)(second * 16.0f);
    } else {
      int row = resize_two(&a.y, min(top + i - 128, end - 1), &second);
      uint32_t v = (uint32_t)(second * 16.0f);
      int upper = (row - first) * (int)sizeof m.row[0];
      m.y[i - 128] = {upper, v ? upper + (int)sizeof m.row[0] : upper, 16 - v, v};
    }
  }
  __syncthreads();
  uint32_t which[2] = {0, 0}, weight[4]; /* which: two pairs of inputs among eight bytes */
#pragma unroll
  for (int k = 0; k < 4; k++) {
    int2 x = m.x[4 * lane + k];
    uint32_t at = (uint32_t)(x.x - from), next = x.y ? at + (uint32_t)j.pix : at;
    which[k / 2] |= (at | next << 4) << k % 2 * 8;
    weight[k] = ((16u - (uint32_t)x.y) | (uint32_t)x.y << 8) << k % 2 * 16;
  }
  for (int i = warp;;) {
#pragma unroll
    for (int b = 0; b < BATCH; b++) {
      uint32_t low = __funnelshift_r(w[b][0], w[b][1], shift), high = __funnelshift_r(w[b][1], w[b][2], shift);
      uint32_t left = __byte_perm(low, high, which[0]), right = __byte_perm(low, high, which[1]);
      uint2 sums = {__dp4a(left, weight[0], 0u) | __dp4a(left, weight[1], 0u) << 16,
                    __dp4a(right, weight[2], 0u) | __dp4a(right, weight[3], 0u) << 16};
      if (i + b * WARPS <= last - first) m.row[i + b * WARPS][lane] = sums;
    }
    i += WARPS * BATCH;
    if (i > last - first) break;
    load(i);
  }
  __syncthreads();
  if (4 * p.x >= n) return;
  uint8_t *out = static_cast<uint8_t *>(j.out) + ((blockIdx.y * j.planes + p.plane) * j.out_h + p.y) * n + 4 * p.x;
  const char *sums = reinterpret_cast<const char *>(&m.row[0][lane]);
  int rows = j.out_h - p.y;
#pragma unroll
  for (int r = 0; r < EXACT_ROWS; r++, out += n) {
    if (r >= rows) return;
    row_pair y = m.y[warp * EXACT_ROWS + r];
    uint2 upper = *reinterpret_cast<const uint2 *>(sums + y.upper);
    uint2 lower = *reinterpret_cast<const uint2 *>(sums + y.lower);
    uint32_t left = upper.x * y.u + (lower.x * y.v + 0x007f007fu);
    uint32_t right = upper.y * y.u + (lower.y * y.v + 0x007f007fu);
    left += left >> 8 & 0x00010001u; /* to the nearest, half to even */
    right += right >> 8 & 0x00010001u;
    *reinterpret_cast<uint32_t *>(out) = __byte_perm(left, right, 0x7531);
  }
}

/* Whether all images are such. */
static bool in_sixteenths(const aug_jobs *jobs, const axes &a) {
  bool yes = a.x.in <= a.x.out && a.y.in <= a.y.out && 8ll * a.x.in % a.x.out == 0 && 8ll * a.y.in % a.y.out == 0;
  for (int i = 0; i < jobs->count; i++) {
    const aug_job &j = jobs->job[i];
    yes = yes && (j.mask || (j.dtype == SP_U8 && j.pix <= 4 && (j.w * j.pix | j.out_w * j.pix) % 4 == 0 &&
                             (reinterpret_cast<uintptr_t>(j.in) | reinterpret_cast<uintptr_t>(j.out)) % 4 == 0));
  }
  return yes;
}

template <bool CUBIC> static __global__ void __launch_bounds__(THREADS, 3) many(const aug_jobs jobs, const axes a) {
  const aug_job &j = jobs.job[blockIdx.z];
  if (picked(j, a, WARPS, ROWS, blockIdx.y)) return;
  tiles<CUBIC>(j, a, {0, 0});
}

/* ---- launch ---- */
/* Whether images are shrunk by tiles. */
static bool shrink_cut_of(const aug_jobs *jobs, const axes &a, shrink_cut *cut) {
  cut->taps_x = shrink_taps(a.x);
  cut->taps_y = shrink_taps(a.y);
  cut->taps = cut->taps_x > cut->taps_y ? cut->taps_x : cut->taps_y;
  if (cut->taps > SHRINK_TAPS) return false;
  cut->taps = a.x.how == RESIZE_CUBIC ? 0 : cut->taps <= 4 ? 4 : cut->taps <= 6 ? 6 : 0;
  if (cut->taps) cut->taps_x = cut->taps_y = cut->taps;
  return shrink_fits(jobs, a, cut);
}

/* A block for each tile of a plane of the largest tensor, and as many times that as fill a large device. */
static dim3 shrink_grid(const aug_jobs *jobs, const shrink_cut &cut) {
  int64_t tiles = 1, images = 1;
  for (int i = 0; i < jobs->count; i++) {
    const aug_job &j = jobs->job[i];
    int64_t n = shrink_tiles_of(j, cut);
    if (!j.mask && n > tiles) tiles = n;
    if (!j.mask && jobs->n * j.planes > images) images = jobs->n * j.planes;
  }
  int64_t each = (tiles * images + SHRINK_BLOCKS - 1) / SHRINK_BLOCKS, high = (images + each - 1) / each;
  return dim3((unsigned)tiles, (unsigned)(high < 65535 ? high : 65535), (unsigned)jobs->count);
}

int resize_launch(void *stream, const aug_jobs *jobs, int how) {
  const aug_job *j = jobs->job;
  axes a = {resize_axis_of(j->w, j->out_w, how), resize_axis_of(j->h, j->out_h, how)};
  if (a.x.support == 1.0f && a.y.support == 1.0f) {
    bool whole = in_sixteenths(jobs, a);
    dim3 grid = aug_tile_grid(jobs, WARPS, whole ? (int)EXACT_ROWS : (int)ROWS, quads_of);
    if (whole) SP_LAUNCH(exact, grid, THREADS, 0, stream, *jobs, a);
    else SP_LAUNCH(two, grid, THREADS, 0, stream, *jobs, a);
    return cudaPeekAtLastError();
  }
  if (halved(jobs, a)) {
    half_launch(stream, jobs, a);
    return cudaPeekAtLastError();
  }
  shrink_cut cut;
  bool cubic = how == RESIZE_CUBIC;
  if (shrink_cut_of(jobs, a, &cut)) {
    dim3 grid = shrink_grid(jobs, cut);
    size_t bytes = (size_t)cut.bytes;
    if (cubic) SP_LAUNCH((shrink<0, true>), grid, SHRINK_THREADS, bytes, stream, *jobs, a, cut);
    else if (cut.taps == 4) SP_LAUNCH((shrink<4, false>), grid, SHRINK_THREADS, bytes, stream, *jobs, a, cut);
    else if (cut.taps == 6) SP_LAUNCH((shrink<6, false>), grid, SHRINK_THREADS, bytes, stream, *jobs, a, cut);
    else SP_LAUNCH((shrink<0, false>), grid, SHRINK_THREADS, bytes, stream, *jobs, a, cut);
  } else if (cubic) {
    SP_LAUNCH(many<true>, tile_grid(jobs), THREADS, 0, stream, *jobs, a);
  } else {
    SP_LAUNCH(many<false>, tile_grid(jobs), THREADS, 0, stream, *jobs, a);
  }
  return cudaPeekAtLastError();
}
