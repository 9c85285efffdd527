/* SPDX-License-Identifier: MIT
 * blur_kernels.cu - Gaussian blur on CUDA: one kernel a batch.
 *
 * A block makes the weights of its sample once. Small kernels over one or three channels go by strips: blur_strips.cuh.
 * All else goes by tiles. Of each a block loads rows, with what reaches over their ends, into shared memory (a few at a
 * time where the kernel is large), blurs them along into a second part of it, and sums over the rows of that part into
 * the output. Elements go by fours. Sums have the order and the roundings of the cpu.
 *
 * A tile is a part of a row of elements, whatever a pixel has of them: taps are `step` elements apart. Pixels of more
 * than 8 channels are cut: a tile then has 8 channels of some pixels, as if those were an image of their own.
 */
#include "blur_kernels.h"
#include "blur_strips.cuh"

/* SHARED: a block has its weights beside it. Strips have more, but there tiles are of small kernels and want less. */
enum { CUT = 8, AHEAD = 3, SHARED = 48 * 1024 - 1024, STAGE = 12 * 1024 };

/* How a tensor is cut into tiles. */
struct cut {
  int32_t step, cut;            /* elements between taps; whether pixels are cut */
  int32_t lg, wide;             /* a tile's elements of a row: wide; wide / 4 is 1 << lg */
  int32_t high;                 /* its rows */
  int32_t halo;                 /* elements loaded before and behind those, a multiple of 4 */
  int32_t stage;                /* rows loaded at once */
  int32_t across, down, chunks; /* tiles of a plane */
  int64_t tiles;                /* of a sample */
};

struct cuts {
  cut c[AUG_MAX];
  strips s[AUG_MAX];
};

typedef aug_quad<float> quad;

/* Where a tile is. */
struct place {
  int64_t plane;
  int x, y, c; /* its first element (first pixel, where pixels are cut), row, channel */
  int wide;    /* elements that it has */
  bool quads;  /* rows begin at multiples of four elements */
};

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

/* Keeps elements at .. at + 3 of a row of the output, as far as they are there. */
template <typename T>
static __device__ __forceinline__ void keep(T *row, int at, const aug_job &j, const cut &c, const place &p,
                                            const quad &q) {
  int pixel = p.x + (at >> 3), channel = p.c + (at & (CUT - 1)), n = j.w * j.pix;
  int some = !c.cut ? n - (p.x + at) : pixel < j.w ? j.pix - channel : 0;
  T *to = row + (c.cut ? (int64_t)pixel * j.pix + channel : p.x + at);
  aug_quad<T> v;
#pragma unroll
  for (int k = 0; k < 4; k++) v.v[k] = aug_to(T(), q.v[k]);
  if (some >= 4 && p.quads) {
    *reinterpret_cast<aug_quad<T> *>(to) = v;
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; k++)
    if (k < some) to[k] = v.v[k];
}

static __device__ __forceinline__ const quad &quad_at(const float *p) { return *reinterpret_cast<const quad *>(p); }

/* The sum over quads that lie `apart` floats apart. */
static __device__ __forceinline__ quad sum_quads(const float *middle, int apart, const float *w, int r) {
  quad c = quad_at(middle), sum;
#pragma unroll
  for (int k = 0; k < 4; k++) sum.v[k] = __fmul_rn(w[0], c.v[k]);
#pragma unroll 1
  for (int i = 1; i <= r; i++) {
    quad a = quad_at(middle - i * apart), b = quad_at(middle + i * apart);
#pragma unroll
    for (int k = 0; k < 4; k++) sum.v[k] = pair(sum.v[k], w[i], a.v[k], b.v[k]);
  }
  return sum;
}

/* Four elements along; the taps of four may begin anywhere. */
static __device__ __forceinline__ quad sum_along(const float *middle, int step, const float *w, int r) {
  if (step % 4 == 0) return sum_quads(middle, step, w, r);
  quad sum;
#pragma unroll
  for (int k = 0; k < 4; k++) sum.v[k] = __fmul_rn(w[0], middle[k]);
#pragma unroll 1
  for (int i = 1; i <= r; i++) {
#pragma unroll
    for (int k = 0; k < 4; k++) sum.v[k] = pair(sum.v[k], w[i], middle[k - i * step], middle[k + i * step]);
  }
  return sum;
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

template <typename T>
static __device__ __forceinline__ void tiles(const aug_job &j, const cut &c, const float *wx, const float *wy, int rx,
                                             int ry) {
  SP_DYNAMIC_SHARED(float, shared);
  int pitch = c.wide + 2 * c.halo, cols = pitch / 4, n = j.w * j.pix, quads = 1 << c.lg;
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
    int high = min(c.high, j.h - p.y), rows = high + 2 * ry;
    const T *in = aug_row<T>(j, blockIdx.y, p.plane, 0);
    int edge = (p.wide + 3) / 4 * 4 + c.halo; /* behind it nothing is read */
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
          if (to[k]) q[k] = fetch(in + (int64_t)mirror(p.y + from + i.row - ry, j.h) * n, at, j, c, p);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
          if (to[k]) *reinterpret_cast<quad *>(to[k]) = q[k];
      }
      __syncthreads();
#pragma unroll 1
      for (int i = (int)threadIdx.x; i < some * quads; i += THREADS) {
        int row = i >> c.lg, e = (i - row * quads) * 4;
        if (e >= p.wide) continue;
        *reinterpret_cast<quad *>(summed + (from + row) * c.wide + e) =
            sum_along(loaded + row * pitch + c.halo + e, c.step, wx, rx);
      }
      __syncthreads();
    }
    T *out = static_cast<T *>(j.out) + ((blockIdx.y * j.planes + p.plane) * j.h + p.y) * n;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < high * quads; i += THREADS) {
      int y = i >> c.lg, at = (i - y * quads) * 4;
      if (at >= p.wide) continue;
      keep(out + (int64_t)y * n, at, j, c, p, sum_quads(summed + (y + ry) * c.wide + at, c.wide, wy, ry));
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

/* w[0][0 .. rx] and w[1][0 .. ry], by two warps, for all threads of the block. */
static __device__ void make_weights(float (*w)[BLUR_WEIGHTS], float sigma, int rx, int ry) {
  static_assert(BLUR_WEIGHTS == 32 && THREADS >= 64, "one weight a thread");
  int axis = (int)threadIdx.x / 32, i = (int)threadIdx.x % 32, r = axis ? ry : rx;
  if (axis <= 1) {
    double bell = blur_bell(min(i, r), sigma), sum = __shfl_sync(~0u, bell, 0);
    for (int k = 1; k <= r; k++) sum = blur_sum(sum, __shfl_sync(~0u, bell, k));
    w[axis][i] = (float)(bell / sum);
  }
  __syncthreads();
}

template <int R>
static __global__ void __launch_bounds__(THREADS, R ? 3 : 5)
    blur(const aug_jobs jobs, const cuts all, const blur_call b) {
  __shared__ float w[2][BLUR_WEIGHTS];
  const aug_job &j = jobs.job[blockIdx.z];
  const cut &c = all.c[blockIdx.z];
  const strips &s = all.s[blockIdx.z];
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
  auto weigh = [&] { make_weights(w, sigma, b.rx, b.ry); };
  if constexpr (R != 0) {
    if (s.all) {
      if (j.dtype == SP_U8) go_down<uint8_t, R>(j, s, w[0], weigh);
      else go_down<float, R>(j, s, w[0], weigh);
      return;
    }
  }
  if (blockIdx.x >= c.tiles) return;
  weigh();
  if (j.dtype == SP_U8) tiles<uint8_t>(j, c, w[0], w[1], b.rx, b.ry);
  else tiles<float>(j, c, w[0], w[1], b.rx, b.ry);
}

static int least(int64_t a, int64_t b) { return (int)(a < b ? a : b); }

/* Bytes of shared memory that the tiles want. */
static size_t cut_up(cut *c, const aug_job *j, int rx, int ry) {
  int64_t n = (int64_t)j->w * j->pix;
  c->cut = j->pix > CUT;
  c->step = c->cut ? (int)CUT : j->pix;
  c->wide = n <= 64 ? 64 : 128;
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
  int rx = call->rx, ry = call->ry, small = rx == ry && rx <= STRIPS_MAX ? rx : 0;
  for (int i = 0; i < jobs->count; i++) {
    const aug_job *j = &jobs->job[i];
    int64_t blocks;
    if (j->mask) { /* as many blocks as a copy needs */
      blocks = (int64_t)j->h * j->w / 8192;
    } else if (small && cut_strips(&all.s[i], j, jobs->n)) {
      blocks = ((int64_t)all.s[i].all + THREADS - 1) / THREADS;
    } else {
      size_t bytes = cut_up(&all.c[i], j, rx, ry);
      shared = bytes > shared ? bytes : shared;
      /* Blocks enough to fill any GPU some times over, but weights made for more than one tile where there are many. */
      int64_t each = all.c[i].tiles * jobs->n * jobs->count / 4096;
      each = each < 1 ? 1 : each > 8 ? 8 : each;
      blocks = (all.c[i].tiles + each - 1) / each;
    }
    most = most > blocks ? most : blocks;
  }
  dim3 grid((unsigned)(most < (1 << 30) ? most : 1 << 30), (unsigned)jobs->n, (unsigned)jobs->count);
  if (small == 0) SP_LAUNCH(blur<0>, grid, THREADS, shared, stream, *jobs, all, *call);
  else if (small == 1) SP_LAUNCH(blur<1>, grid, THREADS, shared, stream, *jobs, all, *call);
  else if (small == 2) SP_LAUNCH(blur<2>, grid, THREADS, shared, stream, *jobs, all, *call);
  else SP_LAUNCH(blur<3>, grid, THREADS, shared, stream, *jobs, all, *call);
  return cudaPeekAtLastError();
}
