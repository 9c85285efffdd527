/* SPDX-License-Identifier: MIT
 * flip_kernels.cu - mirrored images on CUDA: one kernel a batch. Rows are moved in units of 16 bytes, turned round in
 * registers, wherever whole pixels fill such a unit and rows begin at one, three bytes a pixel by fours in three words;
 * else element by element, stored by fours. */
#include "flip_kernels.h"

#include "../../kits/aug/kit.cuh"

enum { THREADS = 256, UNITS = 2 /* for a thread */, UNIT = 12 /* bytes, or 16 */ };

struct flips {
  int across, down;
};

typedef aug_quad<uint32_t> unit;

static __host__ __device__ __forceinline__ int element_bytes(int dtype) {
  return dtype == SP_U8 ? 1 : dtype == SP_I64 ? 8 : 4;
}

static __device__ __forceinline__ uint32_t swap_bytes(uint32_t v) {
  return v >> 24 | (v >> 8 & 0xff00u) | (v & 0xff00u) << 8 | v << 24;
}

/* The pixels of a unit in the other order. */
static __device__ __forceinline__ unit backwards(unit u, int pixel_bytes) {
  if (pixel_bytes == 16) return u;
  if (pixel_bytes == 8) return {{u.v[2], u.v[3], u.v[0], u.v[1]}};
  unit r = {{u.v[3], u.v[2], u.v[1], u.v[0]}};
  if (pixel_bytes == 1) r = {{swap_bytes(r.v[0]), swap_bytes(r.v[1]), swap_bytes(r.v[2]), swap_bytes(r.v[3])}};
  return r;
}

/* Calls move(row, from, c) for this thread's share of `units` pieces of each row; from: the row that goes to `row`. So
 * many threads as a row has pieces, up to the next power of two, work at one row: no piece needs a division. */
template <typename Move>
static __device__ __forceinline__ void each_row(const aug_job &j, int units, bool down, Move move) {
  int bits = min(32 - __clz(units - 1), 8), wide = 1 << bits, rows = (int)(j.planes * j.h);
  int step = (int)gridDim.x * (THREADS >> bits);
  for (int row = (int)blockIdx.x * (THREADS >> bits) + ((int)threadIdx.x >> bits); row < rows; row += step) {
    int from = down ? row + j.h - 1 - 2 * (row % j.h) : row;
    for (int c = (int)threadIdx.x & (wide - 1); c < units; c += wide) move((int64_t)row, (int64_t)from, c);
  }
}

static __device__ void move_units(const aug_job &j, flips f, int pixel_bytes) {
  int units = (int)((int64_t)j.w * pixel_bytes / 16);
  int64_t sample = j.planes * j.h * units * (int64_t)blockIdx.y;
  const unit *in = static_cast<const unit *>(j.in) + sample;
  unit *out = static_cast<unit *>(j.out) + sample;
  each_row(j, units, f.down, [&](int64_t row, int64_t from, int c) {
    const unit *x = in + from * units;
    out[row * units + c] = f.across ? backwards(x[units - 1 - c], pixel_bytes) : x[c];
  });
}

struct words {
  uint32_t v[3];
};

/* Four pixels of three bytes, in the other order. */
static __device__ __forceinline__ words backwards(const words &u) {
  return {{__byte_perm(u.v[1], u.v[2], 0x2765u), __byte_perm(__byte_perm(u.v[0], u.v[1], 0x4307u), u.v[2], 0x3240u),
           __byte_perm(u.v[0], u.v[1], 0x2105u)}};
}

/* Mirrored rows of such pixels, `fours` of four each. */
static __device__ void move_fours(const aug_job &j, flips f) {
  int fours = j.w / 4;
  int64_t sample = j.planes * j.h * fours * (int64_t)blockIdx.y;
  const words *in = static_cast<const words *>(j.in) + sample;
  words *out = static_cast<words *>(j.out) + sample;
  each_row(j, fours, f.down, [&](int64_t row, int64_t from, int c) {
    out[row * fours + c] = backwards(in[from * fours + fours - 1 - c]);
  });
}

/* PIX: elements of a pixel; 0: as the job says. */
template <typename T, int PIX> static __device__ void move_elements(const aug_job &j, flips f) {
  int pix = PIX ? PIX : j.pix, n = j.w * pix;
  T *out = static_cast<T *>(j.out) + j.planes * j.h * n * (int64_t)blockIdx.y;
  each_row(j, (n + 3) / 4, f.down, [&](int64_t row, int64_t from, int c) {
    const T *x = aug_row<T>(j, blockIdx.y, 0, from);
    int e = 4 * c, p = e / pix, channel = e - p * pix;
    T v[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
      if (e + k < n) v[k] = x[f.across ? (j.w - 1 - p) * pix + channel : e + k];
      if (++channel == pix) channel = 0, p++;
    }
    aug_store(out + row * n, e, n, v);
  });
}

template <typename T> static __device__ __forceinline__ void move_pixels(const aug_job &j, flips f) {
  if (j.pix == 1) move_elements<T, 1>(j, f);
  else if (j.pix == 3) move_elements<T, 3>(j, f);
  else move_elements<T, 0>(j, f);
}

static __global__ void __launch_bounds__(THREADS, AUG_PER_SM(THREADS, 8))
    flip(const aug_jobs jobs, aug_dice dice, flip_odds odds, const int32_t *given, int32_t *done, int64_t *status) {
  const aug_job &j = jobs.job[blockIdx.z];
  __shared__ int32_t drawn[2];
  bool first = blockIdx.x == 0 && blockIdx.z == 0;
  if (threadIdx.x == 0) {
    if (given) drawn[0] = given[2 * blockIdx.y], drawn[1] = given[2 * blockIdx.y + 1];
    else flip_draw(&dice, blockIdx.y, &odds, drawn);
    if (done && first) done[2 * blockIdx.y] = drawn[0], done[2 * blockIdx.y + 1] = drawn[1];
  }
  __syncthreads();
  if (first && blockIdx.y == 0)
    aug_judge(status, jobs.n, dice.ids, given != nullptr, [&](int64_t i, int64_t &value, int64_t &limit) {
      int across = given[2 * i], down = given[2 * i + 1];
      value = across < 0 || across > 1 ? across : down;
      limit = 1;
      return value < 0 || value > 1;
    });
  flips f = {drawn[0], drawn[1]};
  int pixel = j.pix * element_bytes(j.dtype);
  bool whole = !f.across || pixel == 1 || pixel == 4 || pixel == 8 || pixel == 16;
  uintptr_t at = reinterpret_cast<uintptr_t>(j.in) | reinterpret_cast<uintptr_t>(j.out);
  if (whole && at % 16 == 0 && (int64_t)j.w * pixel % 16 == 0) move_units(j, f, pixel);
  else if (pixel == 3 && f.across && at % 4 == 0 && j.w % 4 == 0) move_fours(j, f);
  else aug_by_size(j.dtype, [&](auto t) { move_pixels<decltype(t)>(j, f); });
}

int flip_launch(void *stream, const aug_jobs *jobs, const aug_dice *dice, flip_odds odds, const int32_t *given,
                int32_t *flips, int64_t *status) {
  int64_t most = 0;
  for (int i = 0; i < jobs->count; i++) {
    const aug_job *j = &jobs->job[i];
    int64_t bytes = j->planes * j->h * j->w * j->pix * element_bytes(j->dtype);
    most = bytes > most ? bytes : most;
  }
  int64_t blocks = (most + THREADS * UNITS * UNIT - 1) / (THREADS * UNITS * UNIT);
  dim3 grid((unsigned)(blocks < 65535 ? blocks : 65535), (unsigned)jobs->n, (unsigned)jobs->count);
  SP_LAUNCH(flip, grid, THREADS, 0, stream, *jobs, *dice, odds, given, flips, status);
  return cudaPeekAtLastError();
}
