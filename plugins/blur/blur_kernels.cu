/* SPDX-License-Identifier: MIT
 * blur_kernels.cu - Gaussian blur on CUDA: one kernel a batch.
 *
 * A block makes the weights of its sample once and goes over tiles. Of each it loads rows, with what reaches over their
 * ends, into shared memory (a few at a time where the kernel is large), blurs them along into a second part of it, and
 * sums over the rows of that part into the output. Elements go by fours. Sums have the order and the roundings of the
 * cpu.
 *
 * A tile is a part of a row of elements, whatever a pixel has of them: taps are `step` elements apart. Pixels of more
 * than 8 channels are cut: a tile then has 8 channels of some pixels, as if those were an image of their own.
 */
#include "blur_kernels.h"

#include "../aug/kit.cuh"

enum { THREADS = 128, CUT = 8, STRIP = 4, AHEAD = 3, SHARED = 48 * 1024 - 1024, STAGE = 12 * 1024 };

/* How a tensor is cut into tiles. */
struct cut {
  int32_t step, cut;            /* elements between taps; whether pixels are cut */
  int32_t lg, wide;             /* a tile's elements of a row: wide; wide / 4 is 1 << lg, but for step 3 */
  int32_t high;                 /* its rows, a multiple of STRIP */
  int32_t halo;                 /* elements loaded before and behind those, a multiple of 4 */
  int32_t stage;                /* rows loaded at once */
  int32_t across, down, chunks; /* tiles of a plane */
  int64_t tiles;                /* of a sample */
};

struct cuts {
  cut c[AUG_MAX];
};

typedef aug_quad<float> quad;

/* Where a tile is. */
struct place {
  int64_t plane;
  int x, y, c; /* its first element (first pixel, where pixels are cut), row, channel */
  int wide;    /* elements that it has */
  bool quads;  /* rows begin at multiples of four elements */
};

static __device__ __forceinline__ int mirror(int i, int n) {
  i = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
  return max(0, min(i, n - 1)); /* behind the tile nothing is kept */
}

template <typename T> static __device__ __forceinline__ void four(float (&v)[4], const T *from) {
  aug_quad<T> q = *reinterpret_cast<const aug_quad<T> *>(from);
#pragma unroll
  for (int k = 0; k < 4; k++) v[k] = (float)q.v[k];
}

/* Elements at .. at + 3 of a row, counted from the tile's first. */
template <typename T>
static __device__ __forceinline__ quad fetch(const T *row, int at, const aug_job &j, const cut &c, const place &p) {
  quad q;
  if (c.cut) {
    const T *pixel = row + (int64_t)mirror(p.x + (at >> 3), j.w) * j.pix;
    int channel = p.c + (at & (CUT - 1));
    if (p.quads && channel + 4 <= j.pix) {
      four(q.v, pixel + channel);
    } else {
#pragma unroll
      for (int k = 0; k < 4; k++) q.v[k] = (float)pixel[min(channel + k, j.pix - 1)];
    }
    return q;
  }
  int e = p.x + at, n = j.w * j.pix;
  if (e >= 0 && e + 4 <= n && p.quads) {
    four(q.v, row + e);
    return q;
  }
#pragma unroll
  for (int k = 0; k < 4; k++) {
    int i = e + k;
    if (i < 0 || i >= n) {
      int pixel = i < 0 ? -((j.pix - 1 - i) / j.pix) : i / j.pix;
      i = mirror(pixel, j.w) * j.pix + (i - pixel * j.pix);
    }
    q.v[k] = (float)row[i];
  }
  return q;
}

/* Where a column of quads goes, in the tile's first row, and how many of its elements are there. */
template <typename T> struct column {
  T *to;
  int some;
  bool together;
  __device__ __forceinline__ column(T *row, int at, const aug_job &j, const cut &c, const place &p) {
    int pixel = p.x + (at >> 3), channel = p.c + (at & (CUT - 1)), n = j.w * j.pix;
    to = row + (c.cut ? (int64_t)pixel * j.pix + channel : p.x + at);
    some = !c.cut ? n - (p.x + at) : pixel < j.w ? j.pix - channel : 0;
    together = some >= 4 && p.quads;
  }
  __device__ __forceinline__ void keep(int64_t off, const quad &q) const {
    aug_quad<T> v;
#pragma unroll
    for (int k = 0; k < 4; k++) v.v[k] = aug_to(T(), q.v[k]);
    if (together) {
      *reinterpret_cast<aug_quad<T> *>(to + off) = v;
      return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
      if (k < some) to[off + k] = v.v[k];
  }
};

/* The weights of one direction: in registers where the kernel's size is known. */
template <int R> struct weights {
  float w[R + 1];
  __device__ __forceinline__ explicit weights(const float *from) {
#pragma unroll
    for (int i = 0; i <= R; i++) w[i] = from[i];
  }
};
template <> struct weights<0> {
  const float *w;
  __device__ __forceinline__ explicit weights(const float *from) : w(from) {}
};

static __device__ __forceinline__ float pair(float sum, float w, float a, float b) {
  return __fadd_rn(sum, __fmul_rn(w, __fadd_rn(a, b)));
}

static __device__ __forceinline__ const quad &quad_at(const float *p) { return *reinterpret_cast<const quad *>(p); }

/* The sum over quads that lie `apart` floats apart, for any size: r is R where that is not 0. */
template <int R>
static __device__ __forceinline__ quad sum_quads(const float *middle, int apart, const weights<R> &w, int r) {
  quad c = quad_at(middle), sum;
#pragma unroll
  for (int k = 0; k < 4; k++) sum.v[k] = __fmul_rn(w.w[0], c.v[k]);
#pragma unroll(R ? R : 1)
  for (int i = 1; i <= (R ? R : r); i++) {
    quad a = quad_at(middle - i * apart), b = quad_at(middle + i * apart);
#pragma unroll
    for (int k = 0; k < 4; k++) sum.v[k] = pair(sum.v[k], w.w[i], a.v[k], b.v[k]);
  }
  return sum;
}

/* One row along, a group of elements a thread: `x` is the group's first in the loaded row, `y` in the other part. */
template <int R, int STEP>
static __device__ __forceinline__ void along(float *y, const float *x, const weights<R> &w, int r, int step) {
  if constexpr (R && STEP) {
    constexpr int GROUP = STEP == 3 ? 12 : 4, HALO = (R * STEP + 3) / 4 * 4;
    float v[GROUP + 2 * HALO];
#pragma unroll
    for (int i = 0; i < GROUP + 2 * HALO; i += 4) {
      quad q = quad_at(x - HALO + i);
#pragma unroll
      for (int k = 0; k < 4; k++) v[i + k] = q.v[k];
    }
#pragma unroll
    for (int i = 0; i < GROUP; i += 4) {
      quad sum;
#pragma unroll
      for (int k = 0; k < 4; k++) {
        int at = HALO + i + k;
        sum.v[k] = __fmul_rn(w.w[0], v[at]);
#pragma unroll
        for (int t = 1; t <= R; t++) sum.v[k] = pair(sum.v[k], w.w[t], v[at - t * STEP], v[at + t * STEP]);
      }
      *reinterpret_cast<quad *>(y + i) = sum;
    }
  } else if (step % 4 == 0) {
    *reinterpret_cast<quad *>(y) = sum_quads<R>(x, step, w, r);
  } else {
    quad sum;
#pragma unroll
    for (int k = 0; k < 4; k++) sum.v[k] = __fmul_rn(w.w[0], x[k]);
#pragma unroll(R ? R : 1)
    for (int i = 1; i <= (R ? R : r); i++) {
#pragma unroll
      for (int k = 0; k < 4; k++) sum.v[k] = pair(sum.v[k], w.w[i], x[k - i * step], x[k + i * step]);
    }
    *reinterpret_cast<quad *>(y) = sum;
  }
}

/* STRIP rows of a column of quads; `rows` of them are there. */
template <int R, typename T>
static __device__ __forceinline__ void down(const column<T> &to, int64_t off, int n, const float *x, int wide,
                                            const weights<R> &w, int r, int rows) {
  if constexpr (R != 0) {
    quad v[STRIP + 2 * R];
#pragma unroll
    for (int i = 0; i < STRIP + 2 * R; i++) v[i] = quad_at(x + i * wide);
#pragma unroll
    for (int y = 0; y < STRIP; y++) {
      quad sum;
#pragma unroll
      for (int k = 0; k < 4; k++) {
        sum.v[k] = __fmul_rn(w.w[0], v[y + R].v[k]);
#pragma unroll
        for (int t = 1; t <= R; t++) sum.v[k] = pair(sum.v[k], w.w[t], v[y + R - t].v[k], v[y + R + t].v[k]);
      }
      if (y < rows) to.keep(off, sum);
      off += n;
    }
  } else {
#pragma unroll 1
    for (int y = 0; y < min(rows, (int)STRIP); y++, off += n)
      to.keep(off, sum_quads<R>(x + (y + r) * wide, wide, w, r));
  }
}

/* A thread's items, THREADS apart, as row and column of a table of `cols` columns: no division in the loop. */
struct walk {
  int row, col, rows, cols;
  __device__ __forceinline__ explicit walk(int cols)
      : row((int)threadIdx.x / cols), col((int)threadIdx.x % cols), rows(THREADS / cols), cols(THREADS % cols) {}
  __device__ __forceinline__ void next(int all) {
    row += rows;
    col += cols;
    if (col < all) return;
    col -= all;
    row++;
  }
};

/* Radii that are known are rx = ry = R. */
template <int R, int STEP, typename T>
static __device__ __forceinline__ void tiles(const aug_job &j, const cut &c, const float *wx, const float *wy, int rx,
                                             int ry) {
  SP_DYNAMIC_SHARED(float, shared);
  constexpr int GROUP = R && STEP == 3 ? 12 : 4;
  int pitch = c.wide + 2 * c.halo, cols = pitch / 4, n = j.w * j.pix, reach = R ? R : ry;
  float *loaded = shared, *summed = shared + c.stage * pitch;
  walk begin(cols);
  place p;
  p.quads = (c.cut ? j.pix : n) % 4 == 0 &&
            (reinterpret_cast<uintptr_t>(j.in) | reinterpret_cast<uintptr_t>(j.out)) % sizeof(aug_quad<T>) == 0;
  for (int64_t tile = blockIdx.x; tile < c.tiles; tile += gridDim.x) {
    int chunk = c.chunks == 1 ? 0 : (int)(tile % c.chunks);
    uint32_t left = (uint32_t)(c.chunks == 1 ? tile : tile / c.chunks), line = left / (uint32_t)c.across;
    int across = (int)(left - line * (uint32_t)c.across);
    p.plane = line / (uint32_t)c.down;
    p.y = (int)(line - (uint32_t)p.plane * (uint32_t)c.down) * c.high;
    p.c = chunk * CUT;
    p.x = across * (c.cut ? c.wide / CUT : c.wide);
    p.wide = c.cut ? min(c.wide, (j.w - p.x) * CUT) : min(c.wide, n - p.x);
    int high = min(c.high, j.h - p.y), rows = high + 2 * reach;
    const T *in = aug_row<T>(j, blockIdx.y, p.plane, 0);
    int edge = (p.wide + GROUP - 1) / GROUP * GROUP + c.halo; /* behind it nothing is read */
    for (int from = 0; from < rows; from += c.stage) {
      int some = min(c.stage, rows - from);
#pragma unroll 1
      for (walk i = begin; i.row < some;) { /* several on their way at a time */
        quad q[AHEAD];
        float *to[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++, i.next(cols)) {
          int at = i.col * 4 - c.halo;
          to[k] = i.row < some && at < edge ? loaded + i.row * pitch + i.col * 4 : nullptr;
          if (to[k]) q[k] = fetch(in + (int64_t)mirror(p.y + from + i.row - reach, j.h) * n, at, j, c, p);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
          if (to[k]) *reinterpret_cast<quad *>(to[k]) = q[k];
      }
      __syncthreads();
      weights<R> w(wx);
      int groups = STEP == 3 ? c.wide / GROUP : 1 << c.lg;
#pragma unroll 1
      for (int i = (int)threadIdx.x; i < some * groups; i += THREADS) {
        int row = STEP == 3 ? i / (96 / GROUP) : i >> c.lg, e = (i - row * groups) * GROUP;
        if (e >= p.wide) continue;
        along<R, STEP>(summed + (from + row) * c.wide + e, loaded + row * pitch + c.halo + e, w, rx, c.step);
      }
      __syncthreads();
    }
    weights<R> w(wy);
    T *out = static_cast<T *>(j.out) + ((blockIdx.y * j.planes + p.plane) * j.h + p.y) * n;
    int quads = c.wide / 4, strips = c.high / STRIP;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < strips * quads; i += THREADS) {
      int strip = STEP == 3 ? i / 24 : i >> c.lg, at = (i - strip * quads) * 4, y = strip * STRIP;
      if (at >= p.wide || y >= high) continue;
      column<T> to(out, at, j, c, p);
      down<R>(to, (int64_t)y * n, n, summed + y * c.wide + at, c.wide, w, ry, high - y);
    }
  }
}

/* A sample as it is: input and output lie alike. */
static __device__ void copy(const aug_job &j) {
  int64_t bytes = j.planes * j.h * j.w * j.pix;
  if (j.dtype == SP_I64) bytes *= 8;
  else if (j.dtype != SP_U8) bytes *= 4;
  const char *in = static_cast<const char *>(j.in) + blockIdx.y * bytes;
  char *out = static_cast<char *>(j.out) + blockIdx.y * bytes;
  int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, all = (int64_t)gridDim.x * THREADS;
  int64_t head = (int64_t)(16 - reinterpret_cast<uintptr_t>(in) % 16) % 16;
  if (reinterpret_cast<uintptr_t>(in) % 16 != reinterpret_cast<uintptr_t>(out) % 16 || head > bytes) head = bytes;
  int64_t blocks = (bytes - head) / 16, tail = head + blocks * 16;
  for (int64_t i = at; i < head; i += all) out[i] = in[i];
  const uint4 *from = reinterpret_cast<const uint4 *>(in + head);
  uint4 *to = reinterpret_cast<uint4 *>(out + head);
  for (int64_t i = at; i < blocks; i += all) to[i] = from[i];
  for (int64_t i = tail + at; i < bytes; i += all) out[i] = in[i];
}

/* wx[0 .. rx] and wy[0 .. ry], for all threads after the next barrier. */
static __device__ void make_weights(float (*w)[BLUR_WEIGHTS], float sigma, int rx, int ry) {
  __shared__ double bell[2][BLUR_WEIGHTS];
  static_assert(2 * BLUR_WEIGHTS <= THREADS, "one weight a thread");
  int axis = (int)threadIdx.x / BLUR_WEIGHTS, i = (int)threadIdx.x % BLUR_WEIGHTS, r = axis ? ry : rx;
  bool mine = axis < 2 && i <= r;
  if (mine) bell[axis][i] = blur_bell(i, sigma);
  __syncthreads();
  if (!mine) return;
  double sum = bell[axis][0];
  for (int k = 1; k <= r; k++) sum = blur_sum(sum, bell[axis][k]);
  w[axis][i] = (float)(bell[axis][i] / sum);
}

template <int R>
static __global__ void __launch_bounds__(THREADS, 5) blur(const aug_jobs jobs, const cuts all, const blur_call b) {
  __shared__ float w[2][BLUR_WEIGHTS];
  __shared__ aug_job j; /* not in as many registers as they have members */
  __shared__ cut c;
  if (threadIdx.x == 0) {
    j = jobs.job[blockIdx.z];
    c = all.c[blockIdx.z];
  }
  __syncthreads();
  float sigma = b.given ? b.given[blockIdx.y] : blur_draw(&b.dice, blockIdx.y, b.lo, b.hi);
  bool first = blockIdx.x == 0 && blockIdx.z == 0;
  if (b.sigmas && first && threadIdx.x == 0) b.sigmas[blockIdx.y] = sigma;
  if (first && blockIdx.y == 0)
    aug_judge(b.status, jobs.n, b.dice.ids, b.given != nullptr, [&](int64_t i, int64_t &value, int64_t &limit) {
      value = limit = 0;
      return blur_bad(b.given[i]) != 0;
    });
  if (j.mask || blur_bad(sigma) || sigma == 0) {
    copy(j);
    return;
  }
  if (blockIdx.x >= c.tiles) return;
  make_weights(w, sigma, b.rx, b.ry);
  if (R && c.step == 1) {
    if (j.dtype == SP_U8) tiles<R, 1, uint8_t>(j, c, w[0], w[1], b.rx, b.ry);
    else tiles<R, 1, float>(j, c, w[0], w[1], b.rx, b.ry);
  } else if (c.step == 3) {
    if (j.dtype == SP_U8) tiles<R, 3, uint8_t>(j, c, w[0], w[1], b.rx, b.ry);
    else tiles<R, 3, float>(j, c, w[0], w[1], b.rx, b.ry);
  } else {
    if (j.dtype == SP_U8) tiles<R, 0, uint8_t>(j, c, w[0], w[1], b.rx, b.ry);
    else tiles<R, 0, float>(j, c, w[0], w[1], b.rx, b.ry);
  }
}

static int least(int64_t a, int64_t b) { return (int)(a < b ? a : b); }

/* Bytes of shared memory that the tiles want. */
static size_t cut_up(cut *c, const aug_job *j, int rx, int ry) {
  int64_t n = (int64_t)j->w * j->pix;
  c->cut = j->pix > CUT;
  c->step = c->cut ? (int)CUT : j->pix;
  c->wide = c->step == 3 ? 96 : n <= 64 ? 64 : 128;
  c->lg = c->wide == 64 ? 4 : 5;
  c->high = ry > 15 ? 16 : c->wide == 64 && ry <= 3 ? 64 : 32;
  c->halo = (rx * c->step + 3) / 4 * 4;
  int rows = c->high + 2 * ry, row = (c->wide + 2 * c->halo) * (int)sizeof(float);
  int summed = rows * c->wide * (int)sizeof(float);
  int most = least(SHARED - summed, STAGE) / row;
  int times = (rows + most - 1) / most;
  c->stage = (rows + times - 1) / times;
  c->across = (int32_t)(c->cut ? (j->w + c->wide / CUT - 1) / (c->wide / CUT) : (n + c->wide - 1) / c->wide);
  c->down = (j->h + c->high - 1) / c->high;
  c->chunks = c->cut ? (j->pix + CUT - 1) / CUT : 1;
  c->tiles = j->planes * c->across * c->down * c->chunks;
  return (size_t)(c->stage * row + summed);
}

int blur_launch(void *stream, const aug_jobs *jobs, const blur_call *call) {
  cuts all = {};
  size_t shared = 0;
  int64_t most = 1;
  int rx = call->rx, ry = call->ry;
  for (int i = 0; i < jobs->count; i++) {
    const aug_job *j = &jobs->job[i];
    if (j->mask) { /* as many blocks as a copy needs */
      most = most > (int64_t)j->h * j->w / 8192 ? most : (int64_t)j->h * j->w / 8192;
      continue;
    }
    size_t bytes = cut_up(&all.c[i], j, rx, ry);
    shared = bytes > shared ? bytes : shared;
    most = most > all.c[i].tiles ? most : all.c[i].tiles;
  }
  /* Blocks enough to fill any GPU some times over, but weights made for more than one tile where there are many. */
  int64_t each = most * jobs->n * jobs->count / 4096;
  each = each < 1 ? 1 : each > 8 ? 8 : each;
  int64_t blocks = (most + each - 1) / each;
  dim3 grid((unsigned)(blocks < (1 << 30) ? blocks : 1 << 30), (unsigned)jobs->n, (unsigned)jobs->count);
  if (rx != ry || rx > 3 || !rx) SP_LAUNCH(blur<0>, grid, THREADS, shared, stream, *jobs, all, *call);
  else if (rx == 1) SP_LAUNCH(blur<1>, grid, THREADS, shared, stream, *jobs, all, *call);
  else if (rx == 2) SP_LAUNCH(blur<2>, grid, THREADS, shared, stream, *jobs, all, *call);
  else SP_LAUNCH(blur<3>, grid, THREADS, shared, stream, *jobs, all, *call);
  return cudaPeekAtLastError();
}
