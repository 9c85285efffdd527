/* SPDX-License-Identifier: MIT
 * resize_kernels.cu - images and masks at another size on CUDA: one kernel a batch, `two` where both axes have at most
 * two inputs an output, `many` for the rest. Both add in the order of the cpu and give its bits.
 */
#include "resize_kernels.h"

#include "../aug/kit.cuh"

enum { THREADS = 256 };

struct axes {
  resize_axis x, y;
  int rows; /* that one thread makes, in `two` */
};

/* ---- masks, and images that keep their size ---- */
template <typename T> static __device__ void pick(const aug_job &j, const axes &a) {
  aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
    const T *row = aug_row<T>(j, blockIdx.y, plane, resize_nearest(&a.y, y));
    bool moved = a.x.in != a.x.out; /* never of images */
#pragma unroll
    for (int k = 0; k < 4; k++)
      if (e + k < j.out_w * j.pix) v[k] = row[moved ? resize_nearest(&a.x, e + k) : e + k];
  });
}

static __device__ bool picked(const aug_job &j, const axes &a) {
  if (!j.mask && (a.x.in != a.x.out || a.y.in != a.y.out)) return false;
  aug_by_size(j.dtype, [&](auto t) { pick<decltype(t)>(j, a); });
  return true;
}

/* ---- two by two ---- */
/* Four elements of a row, scaled along x. */
template <typename T>
static __device__ __forceinline__ void along_x(const T *row, const int (&at)[4], const int (&next)[4],
                                               const float (&second)[4], float (&h)[4]) {
#pragma unroll
  for (int k = 0; k < 4; k++)
    h[k] =
        __fadd_rn(__fmul_rn((float)row[at[k]], __fsub_rn(1.0f, second[k])), __fmul_rn((float)row[next[k]], second[k]));
}

/* Rows y .. end - 1 of elements e .. e + 3. Two rows along x are kept: the next output mostly needs them again. */
template <typename T>
static __device__ __forceinline__ void strip(const aug_job &j, const axes &a, int64_t plane, int y, int end, int e) {
  int n = j.out_w * j.pix, column = e / j.pix, channel = e - column * j.pix, at[4], next[4];
  float second[4], upper[4], lower[4];
#pragma unroll
  for (int k = 0; k < 4; k++) {
    at[k] = resize_two(&a.x, column < j.out_w ? column : j.out_w - 1, &second[k]) * j.pix + channel;
    next[k] = second[k] > 0.0f ? at[k] + j.pix : at[k];
    if (++channel < j.pix) continue;
    channel = 0;
    column++;
  }
  const T *plane_in = aug_row<T>(j, blockIdx.y, plane, 0);
  int64_t pitch = (int64_t)j.w * j.pix;
  T *out = static_cast<T *>(j.out) + ((blockIdx.y * j.planes + plane) * j.out_h + y) * n;
  float v;
  int lo = resize_two(&a.y, y, &v), hi = v > 0.0f ? lo + 1 : lo; /* the rows in upper and lower */
  along_x(plane_in + lo * pitch, at, next, second, upper);
  along_x(plane_in + hi * pitch, at, next, second, lower);
  for (;;) {
    T made[4];
    float u = __fsub_rn(1.0f, v);
#pragma unroll
    for (int k = 0; k < 4; k++) made[k] = aug_to(T(), __fadd_rn(__fmul_rn(upper[k], u), __fmul_rn(lower[k], v)));
    aug_store(out, e, n, made);
    if (++y == end) return;
    out += n;
    int row = resize_two(&a.y, y, &v), next_row = v > 0.0f ? row + 1 : row;
    if (row == hi)
#pragma unroll
      for (int k = 0; k < 4; k++) upper[k] = lower[k];
    else if (row != lo) along_x(plane_in + row * pitch, at, next, second, upper);
    if (next_row != hi) along_x(plane_in + next_row * pitch, at, next, second, lower);
    lo = row;
    hi = next_row;
  }
}

template <typename T> static __device__ void strips(const aug_job &j, const axes &a) {
  uint32_t quads = (uint32_t)aug_quads(j), each = (uint32_t)((j.out_h + a.rows - 1) / a.rows);
  int64_t all = j.planes * each * quads;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += (int64_t)gridDim.x * blockDim.x) {
    int64_t s = all <= 0xffffffff ? (uint32_t)i / quads : i / quads;
    int64_t plane = j.planes == 1 ? 0 : all <= 0xffffffff ? (uint32_t)s / each : s / each;
    int y = (int)(s - plane * each) * a.rows;
    strip<T>(j, a, plane, y, min(y + a.rows, j.out_h), (int)(i - s * quads) * 4);
  }
}

static __global__ void __launch_bounds__(THREADS, 3) two(const aug_jobs jobs, const axes a) {
  const aug_job &j = jobs.job[blockIdx.z];
  if (picked(j, a)) return;
  if (j.dtype == SP_U8) strips<uint8_t>(j, a);
  else strips<float>(j, a);
}

/* ---- any number of inputs ----
 * A block makes tiles of 32 elements x 32 rows. It goes through the input rows 32 at a time; of these it brings pieces
 * of 256 elements to shared memory, whole lines at once, where each thread adds its element's part to four rows; what
 * is complete along x is then added along y. So each input is fetched once a tile, whatever the ratio. */
enum { TILE = 32, PIECE = 256, ROWS = 4 };

/* One unused word in 32, so that neighbours 32 apart do not wait for each other. */
static __device__ __forceinline__ int padded(int i) { return i + i / 32; }

struct one_output { /* of an axis */
  float centre, total;
  int lo, n;
};

struct tile_memory {
  float piece[TILE][PIECE + PIECE / 32 + 1];
  float row[TILE][TILE];
  one_output y[TILE];
};

static __device__ one_output output_of(const resize_axis &a, int i) {
  one_output o;
  o.centre = resize_centre(&a, i);
  resize_span(&a, o.centre, &o.lo, &o.n);
  o.total = resize_total(&a, o.centre, o.lo, o.n);
  return o;
}

static __device__ __forceinline__ float weight(const resize_axis &a, const one_output &o, int x) {
  return __fdiv_rn(resize_tap(&a, o.centre, x), o.total);
}

/* 32 rows from `first` on, as far as they are before `end`, along x into m.row. */
template <typename T>
static __device__ void tile_rows(tile_memory &m, const aug_job &j, const resize_axis &ax, const one_output &x,
                                 const T *in, int first, int end, int begin, int stop, int channel) {
  int tx = threadIdx.x % TILE, ty = threadIdx.x / TILE, k = 0;
  int64_t pitch = (int64_t)j.w * j.pix;
  float h[ROWS] = {};
  for (int piece = begin; piece < stop; piece += PIECE) {
    int n = min(PIECE, stop - piece);
    for (int r = ty; r < TILE; r += THREADS / TILE) {
      const T *from = in + (first + r) * pitch + piece;
      for (int i = tx; i < n; i += TILE) m.piece[r][padded(i)] = first + r < end ? (float)from[i] : 0.0f;
    }
    __syncthreads();
    for (; k < x.n && (x.lo + k) * j.pix + channel < piece + n; k++) {
      float w = weight(ax, x, x.lo + k);
      int at = padded((x.lo + k) * j.pix + channel - piece);
#pragma unroll
      for (int r = 0; r < ROWS; r++) h[r] = __fadd_rn(h[r], __fmul_rn(m.piece[ty * ROWS + r][at], w));
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) m.row[ty * ROWS + r][tx] = h[r];
  __syncthreads();
}

static __device__ __forceinline__ uint8_t clamped(uint8_t, float v) { return aug_to(uint8_t(), fminf(v, 255.0f)); }
static __device__ __forceinline__ float clamped(float, float v) { return v; }

template <typename T>
static __device__ void tile(tile_memory &m, const aug_job &j, const axes &a, int64_t plane, int top, int e) {
  int tx = threadIdx.x % TILE, ty = threadIdx.x / TILE, n = j.out_w * j.pix;
  int mine = min(e + tx, n - 1), column = mine / j.pix, channel = mine - column * j.pix;
  int last_row = min(top + TILE, j.out_h) - 1, lo, count;
  one_output x = output_of(a.x, column);
  float sum[ROWS] = {};
  if (threadIdx.x < TILE) m.y[tx] = output_of(a.y, min(top + tx, last_row));
  resize_span(&a.x, resize_centre(&a.x, e / j.pix), &lo, &count);
  int begin = lo * j.pix;
  resize_span(&a.x, resize_centre(&a.x, (min(e + TILE, n) - 1) / j.pix), &lo, &count);
  int stop = (lo + count) * j.pix;
  resize_span(&a.y, resize_centre(&a.y, last_row), &lo, &count);
  int end = lo + count;
  resize_span(&a.y, resize_centre(&a.y, top), &lo, &count);
  for (int first = lo; first < end; first += TILE) {
    tile_rows(m, j, a.x, x, aug_row<T>(j, blockIdx.y, plane, 0), first, end, begin, stop, channel);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      one_output y = m.y[ty * ROWS + r];
      for (int i = max(first, y.lo); i < min(first + TILE, y.lo + y.n); i++)
        sum[r] = __fadd_rn(sum[r], __fmul_rn(m.row[i - first][tx], weight(a.y, y, i)));
    }
    __syncthreads();
  }
  T *out = static_cast<T *>(j.out) + (blockIdx.y * j.planes + plane) * j.out_h * n;
#pragma unroll
  for (int r = 0; r < ROWS; r++)
    if (top + ty * ROWS + r <= last_row && e + tx < n)
      out[(int64_t)(top + ty * ROWS + r) * n + e + tx] = clamped(T(), sum[r]);
}

template <typename T> static __device__ void tiles(tile_memory &m, const aug_job &j, const axes &a) {
  int wide = (j.out_w * j.pix + TILE - 1) / TILE, high = (j.out_h + TILE - 1) / TILE;
  int64_t all = j.planes * high * wide;
  for (int64_t i = blockIdx.x; i < all; i += gridDim.x) {
    int64_t row = i / wide;
    int64_t plane = row / high;
    tile<T>(m, j, a, plane, (int)(row - plane * high) * TILE, (int)(i - row * wide) * TILE);
  }
}

static __global__ void __launch_bounds__(THREADS, 3) many(const aug_jobs jobs, const axes a) {
  __shared__ tile_memory m;
  const aug_job &j = jobs.job[blockIdx.z];
  if (picked(j, a)) return;
  if (j.dtype == SP_U8) tiles<uint8_t>(m, j, a);
  else tiles<float>(m, j, a);
}

/* ---- launch ---- */
static dim3 grid_of(const aug_jobs *jobs, int64_t blocks) {
  return dim3((unsigned)(blocks < 1 ? 1 : blocks < 65535 ? blocks : 65535), (unsigned)jobs->n, (unsigned)jobs->count);
}

int resize_launch(void *stream, const aug_jobs *jobs, int antialias) {
  const aug_job *j = jobs->job;
  axes a = {resize_axis_of(j->w, j->out_w, antialias), resize_axis_of(j->h, j->out_h, antialias), 1};
  bool still = a.x.in == a.x.out && a.y.in == a.y.out;
  dim3 quads = aug_grid(jobs, THREADS);
  if (still || (a.x.support == 1.0f && a.y.support == 1.0f)) {
    /* More rows a thread read less; but a GPU wants some hundred thousand threads. */
    int64_t blocks = (int64_t)quads.x * quads.y * quads.z;
    a.rows = still ? 1 : blocks >= 16384 ? 8 : blocks >= 2048 ? 4 : blocks >= 512 ? 2 : 1;
    SP_LAUNCH(two, grid_of(jobs, ((int64_t)quads.x + a.rows - 1) / a.rows), THREADS, 0, stream, *jobs, a);
  } else {
    int64_t most = 1;
    for (int i = 0; i < jobs->count; i++) {
      int64_t wide = ((int64_t)jobs->job[i].out_w * jobs->job[i].pix + TILE - 1) / TILE;
      int64_t n = jobs->job[i].planes * ((j->out_h + TILE - 1) / TILE) * wide;
      most = n > most ? n : most;
    }
    SP_LAUNCH(many, grid_of(jobs, most), THREADS, 0, stream, *jobs, a);
  }
  return cudaPeekAtLastError();
}
