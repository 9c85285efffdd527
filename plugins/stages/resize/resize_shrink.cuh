/* SPDX-License-Identifier: MIT
 * resize_shrink.cuh - images at a smaller size on CUDA, or windows of them, where what a tile needs fits shared memory;
 * cubic ones at any size.
 *
 * A block makes the same tile of several planes. It brings the inputs that this needs to shared memory, four rows side
 * by side in a unit, so that one read feeds four sums along x; these lie in shared memory too, and are added along y.
 * The weights are computed once, while the first inputs are on their way. TAPS: at most as many inputs an output, along
 * either axis; 0: any number.
 *
 * Where an output has fewer, what is added for the others is -0, which changes no sum at all.
 */
#ifndef RESIZE_SHRINK_CUH
#define RESIZE_SHRINK_CUH

#include "resize_common.cuh"

enum {
  SHRINK_WARPS = 8,
  SHRINK_THREADS = 32 * SHRINK_WARPS,
  SHRINK_WIDE = 64,         /* columns of a tile */
  SHRINK_TALL = 32,         /* rows at most */
  SHRINK_TAPS = 64,         /* inputs an output at most */
  SHRINK_BYTES = 48 * 1024, /* of shared memory that any device gives */
  SHRINK_BLOCKS = 528       /* fill a large device; where there are more tiles, a block makes several */
};

/* What is the same for all blocks. */
struct shrink_cut {
  int tall, taps_x, taps_y; /* rows of a tile, weights an output has room for */
  int taps;                 /* a constant number of them, or 0 */
  int bytes;                /* of shared memory */
};

/* unit: four rows of a column. A thread brings BATCH times four rows of four columns at once. */
template <typename T> struct shrink_kind;
template <> struct shrink_kind<uint8_t> {
  typedef uint32_t unit;
  enum { BATCH = 3 };
};
template <> struct shrink_kind<float> {
  typedef float4 unit;
  enum { BATCH = 2 };
};

/* The inputs of a tile: columns begin .. begin + n - 1 of a row, and rows. */
struct shrink_patch {
  int begin, n, first, rows;
};

/* Which inputs an output has, behind those that count nothing. */
struct shrink_span {
  int lo, n;
};

/* The weights of output i: w[0], w[step] ..., `none` where there is no input. */
template <int TAPS>
static __device__ __forceinline__ shrink_span shrink_weights(const resize_axis &a, int i, float none, float *w,
                                                             int step) {
  float centre = resize_centre(&a, i), total = 0.0f;
  int lo, n;
  resize_span(&a, centre, &lo, &n);
  if constexpr (TAPS > 0) {
    float tap[TAPS + 1];
#pragma unroll
    for (int k = 0; k < TAPS; k++) {
      float t = resize_tap(&a, centre, lo + k);
      tap[k] = k < n ? t : 0.0f;
      total = __fadd_rn(total, tap[k]);
    }
    tap[TAPS] = 0.0f;
    total = total > 0.0f ? total : 1.0f;
#pragma unroll
    for (int k = TAPS - 1; k > 0; k--) n -= k == n - 1 && tap[k] == 0.0f;
    bool skip = n > 1 && tap[0] == 0.0f;
    lo += skip;
    n -= skip;
#pragma unroll
    for (int k = 0; k < TAPS; k++) {
      float v = __fdiv_rn(skip ? tap[k + 1] : tap[k], total);
      w[k * step] = k < n ? v : none;
    }
  } else {
    total = resize_total(&a, centre, lo, n);
    while (n > 1 && resize_tap(&a, centre, lo + n - 1) == 0.0f) n--;
    for (; n > 1 && resize_tap(&a, centre, lo) == 0.0f; n--) lo++;
    for (int k = 0; k < n; k++) w[k * step] = __fdiv_rn(resize_tap(&a, centre, lo + k), total);
  }
  return {lo, n};
}

/* The same of a cubic axis, for sums of V. */
template <typename V>
static __device__ __forceinline__ shrink_span shrink_cubic(const cubic_axis &a, int i, V *w, int step) {
  double centre = cubic_centre(&a, i);
  shrink_span s;
  double total = cubic_span(&a, centre, &s.lo, &s.n);
  for (int k = 0; k < s.n; k++) w[k * step] = cubic_weight(V(), cubic_tap(&a, centre, s.lo + k) / total);
  return s;
}

/* ---- inputs ---- */
/* Where the unit of a column lies among those of its four rows: floats so that neither four columns of neighbours nor
 * columns two apart wait for each other. */
static __device__ __forceinline__ int shrink_at(uint8_t, int column) { return column; }
static __device__ __forceinline__ int shrink_at(float, int column) { return column ^ (column >> 3 & 3); }

/* Four columns of a row. WHOLE: rows are aligned, so that there are always four. */
template <bool WHOLE> static __device__ __forceinline__ uint32_t shrink_load(const uint8_t *at, int n) {
  if (WHOLE) return *reinterpret_cast<const uint32_t *>(at);
  uint32_t v = 0;
#pragma unroll
  for (int k = 0; k < 4; k++) v |= (uint32_t)at[min(k, n - 1)] << 8 * k;
  return v;
}
template <bool WHOLE> static __device__ __forceinline__ float4 shrink_load(const float *at, int n) {
  if (WHOLE) return *reinterpret_cast<const float4 *>(at);
  return {at[0], at[min(1, n - 1)], at[min(2, n - 1)], at[min(3, n - 1)]};
}

/* Their units, which begin at column x of `to`. */
static __device__ __forceinline__ void shrink_store(uint32_t *to, int x, const uint32_t (&v)[4]) {
  uint32_t left[2], right[2];
#pragma unroll
  for (int k = 0; k < 2; k++) {
    left[k] = __byte_perm(v[2 * k], v[2 * k + 1], 0x5140);
    right[k] = __byte_perm(v[2 * k], v[2 * k + 1], 0x7362);
  }
  *reinterpret_cast<uint4 *>(to + x) = {__byte_perm(left[0], left[1], 0x5410), __byte_perm(left[0], left[1], 0x7632),
                                        __byte_perm(right[0], right[1], 0x5410),
                                        __byte_perm(right[0], right[1], 0x7632)};
}
static __device__ __forceinline__ void shrink_store(float4 *to, int x, const float4 (&v)[4]) {
  to[shrink_at(0.0f, x)] = {v[0].x, v[1].x, v[2].x, v[3].x};
  to[shrink_at(0.0f, x + 1)] = {v[0].y, v[1].y, v[2].y, v[3].y};
  to[shrink_at(0.0f, x + 2)] = {v[0].z, v[1].z, v[2].z, v[3].z};
  to[shrink_at(0.0f, x + 3)] = {v[0].w, v[1].w, v[2].w, v[3].w};
}

/* Brings patches to shared memory: load() puts a batch of fours of columns on its way, store() keeps it. */
template <typename T> struct shrink_fetch {
  enum { BATCH = shrink_kind<T>::BATCH, STEP = SHRINK_THREADS * BATCH };
  decltype(shrink_load<true>((const T *)nullptr, 0)) v[BATCH][4];
  shrink_patch p;
  int across, all, pitch;  /* fours in a row, in a patch; units that four rows take */
  uint32_t inverse, bytes; /* bytes: of a row of the input; of rows that were too wide for it no patch fits */
  bool whole;

  __device__ __forceinline__ int quad_of(int i) const { return across > 1 ? (int)__umulhi((uint32_t)i, inverse) : i; }
  __device__ __forceinline__ void load(const T *in, int from) {
    if (whole) load_as<true>(in, from);
    else load_as<false>(in, from);
  }
  template <bool WHOLE> __device__ __forceinline__ void load_as(const T *in, int from) {
#pragma unroll
    for (int b = 0; b < BATCH; b++) {
      int i = from + (int)threadIdx.x + b * SHRINK_THREADS, quad = quad_of(i), x = 4 * (i - quad * across);
      if (i >= all) continue;
      const char *at = reinterpret_cast<const char *>(in + x);
#pragma unroll
      for (int r = 0; r < 4; r++)
        v[b][r] = shrink_load<WHOLE>(
            reinterpret_cast<const T *>(at + (uint64_t)bytes * (uint32_t)min(4 * quad + r, p.rows - 1)), p.n - x);
    }
  }
  __device__ __forceinline__ void store(typename shrink_kind<T>::unit *to, int from) const {
#pragma unroll
    for (int b = 0; b < BATCH; b++) {
      int i = from + (int)threadIdx.x + b * SHRINK_THREADS, quad = quad_of(i);
      if (i < all) shrink_store(to + quad * pitch, 4 * (i - quad * across), v[b]);
    }
  }
};

/* ---- along x ---- */
/* A byte under the bits of 2^23 is that plus it; taken off again inside of the product, which is rounded once. */
static __device__ __forceinline__ float shrink_product(uint32_t unit, int r, float w) {
  float v = __uint_as_float(__byte_perm(unit, 0x4b000000u, 0x7440u | (uint32_t)r));
  return __fmaf_rn(v, w, -8388608.0f * w);
}
static __device__ __forceinline__ float shrink_product(const float4 &unit, int r, float w) {
  return __fmul_rn(r == 0 ? unit.x : r == 1 ? unit.y : r == 2 ? unit.z : unit.w, w);
}
static __device__ __forceinline__ int32_t shrink_product(uint32_t unit, int r, int32_t w) {
  return (int32_t)(unit >> 8 * r & 255) * w;
}

template <int TAPS, typename T, typename V>
static __device__ __forceinline__ void shrink_along_x(V *h, const typename shrink_kind<T>::unit *in, int pitch,
                                                      int quads, int pix, const V *w, const int *at, const int *n) {
  enum { WIDE = SHRINK_WIDE, GROUPS = WIDE / 32 };
  int warp = threadIdx.x / 32, column = warp % GROUPS * 32 + threadIdx.x % 32, from = at[column], count = n[column];
  if constexpr (TAPS > 0) {
    float weight[TAPS];
    int place[TAPS];
#pragma unroll
    for (int k = 0; k < TAPS; k++) {
      weight[k] = w[k * WIDE + column];
      place[k] = k < count ? shrink_at(T(), from + k * pix) : sizeof(T) == 1 ? from : pitch - 1;
    }
    for (int q = warp / GROUPS; q < quads; q += SHRINK_WARPS / GROUPS) {
      float sum[4];
#pragma unroll
      for (int k = 0; k < TAPS; k++) {
        typename shrink_kind<T>::unit u = in[q * pitch + place[k]];
#pragma unroll
        for (int r = 0; r < 4; r++) {
          float v = shrink_product(u, r, weight[k]);
          sum[r] = k ? __fadd_rn(sum[r], v) : v;
        }
      }
#pragma unroll
      for (int r = 0; r < 4; r++) h[(4 * q + r) * WIDE + column] = sum[r];
    }
  } else {
    for (int q = warp / GROUPS; q < quads; q += SHRINK_WARPS / GROUPS) {
      V sum[4] = {sum_start(V()), sum_start(V()), sum_start(V()), sum_start(V())};
      const V *weight = w + column;
      int x = from;
#pragma unroll 2
      for (int k = 0; k < count; k++, x += pix, weight += WIDE) {
        typename shrink_kind<T>::unit u = in[q * pitch + shrink_at(T(), x)];
#pragma unroll
        for (int r = 0; r < 4; r++) sum[r] = sum_add(sum[r], shrink_product(u, r, *weight));
      }
#pragma unroll
      for (int r = 0; r < 4; r++) h[(4 * q + r) * WIDE + column] = sum_between(sum[r]);
    }
  }
}

/* ---- along y ---- */
/* What a row is made of: TAPS times a row's place in h and its weight, or where the first one is and how many. */
template <int TAPS> struct __align__(16) shrink_row {
  int at[TAPS];
  float w[TAPS];
};
template <> struct __align__(16) shrink_row<0> { int at, n; };

template <int TAPS, bool CUBIC, typename T, typename V>
static __device__ __forceinline__ void shrink_along_y(const aug_job &j, T *out, int e, int rows, const V *h,
                                                      const shrink_row<TAPS> *y, const V *w, int step) {
  typedef typename resize_sum<T, CUBIC>::four four;
  enum { WIDE = SHRINK_WIDE, QUADS = WIDE / 4, ROWS_AT_ONCE = SHRINK_THREADS / QUADS };
  int n = j.out_w * j.pix, c = threadIdx.x % QUADS * 4, r = threadIdx.x / QUADS;
  bool whole = whole_quads<T>(j);
  if (e + c >= n) return;
  h += c;
  out += (int64_t)r * n;
  for (; r < rows; r += ROWS_AT_ONCE, out += ROWS_AT_ONCE * (int64_t)n) {
    V sum[4] = {sum_start(V()), sum_start(V()), sum_start(V()), sum_start(V())};
    auto add = [&](int at, V weight) {
      four v = *reinterpret_cast<const four *>(h + at);
      sum[0] = sum_add(sum[0], product(v.x, weight));
      sum[1] = sum_add(sum[1], product(v.y, weight));
      sum[2] = sum_add(sum[2], product(v.z, weight));
      sum[3] = sum_add(sum[3], product(v.w, weight));
    };
    shrink_row<TAPS> mine = y[r];
    if constexpr (TAPS > 0) {
#pragma unroll
      for (int k = 0; k < TAPS; k++) add(mine.at[k], mine.w[k]);
    } else {
#pragma unroll 2
      for (int k = 0; k < mine.n; k++) add(mine.at + k * WIDE, w[k * step + r]);
    }
    T made[4];
#pragma unroll
    for (int k = 0; k < 4; k++) made[k] = clamped(T(), sum[k]);
    put(out, e + c, n, whole, made);
  }
}

/* ---- a tile ---- */
/* Planes of samples, counted through, of which a block makes the same tile. */
struct shrink_planes {
  int64_t first, step, end;
};

/* What the next plane needs is fetched while that before is worked on. */
template <int TAPS, bool CUBIC, typename T>
static __device__ __forceinline__ void shrink_tiles(unsigned char *memory, const aug_job &j, const axes &a,
                                                    const shrink_cut &cut, const shrink_planes &planes,
                                                    corner window = {0, 0}) {
  typedef typename shrink_kind<T>::unit unit;
  typedef typename resize_sum<T, CUBIC>::number number;
  enum { WIDE = SHRINK_WIDE };
  int n = j.out_w * j.pix, wide = (n + WIDE - 1) / WIDE, strip = (int)(blockIdx.x / (uint32_t)wide);
  int e = ((int)blockIdx.x - strip * wide) * WIDE, top = strip * cut.tall, rows = min(cut.tall, j.out_h - top);
  int64_t image = planes.first;
  if (rows <= 0 || image >= planes.end) return;

  shrink_fetch<T> f;
  { /* a lane each: the first and the last column, the first and the last row */
    int lane = threadIdx.x % 4, lo, count;
    int at = lane < 2 ? column_of(j, lane == 0 ? e : min(e + WIDE, n) - 1) : lane == 2 ? top : top + rows - 1;
    if constexpr (CUBIC) {
      cubic_axis axis = lane < 2 ? a.x.cubic : a.y.cubic;
      cubic_span(&axis, cubic_centre(&axis, at), &lo, &count);
    } else {
      resize_axis axis = {lane < 2 ? a.x.in : a.y.in,           0,    0, lane < 2 ? a.x.scale : a.y.scale,
                          lane < 2 ? a.x.support : a.y.support, 0.0f, {}};
      resize_span(&axis, resize_centre(&axis, at), &lo, &count);
    }
    f.p.begin = (window.left + __shfl_sync(~0u, lo, 0)) * j.pix & ~3;
    f.p.n = (window.left + __shfl_sync(~0u, lo + count, 1)) * j.pix - f.p.begin;
    f.p.first = __shfl_sync(~0u, lo, 2);
    f.p.rows = __shfl_sync(~0u, lo + count, 3) - f.p.first;
  }
  int quads = (f.p.rows + 3) / 4;
  int64_t row = (int64_t)j.w * j.pix;
  f.across = (f.p.n + 3) / 4;
  f.all = quads * f.across;
  f.pitch = 4 * f.across + (sizeof(T) == 1 ? 0 : 4);
  f.inverse = 0xffffffffu / (uint32_t)f.across + 1;
  f.bytes = (uint32_t)(row * (int64_t)sizeof(T));
  f.whole = row % 4 == 0 && reinterpret_cast<uintptr_t>(j.in) % (4 * sizeof(T)) == 0;
  const T *from = static_cast<const T *>(j.in) + (image * j.h + window.top + f.p.first) * row + f.p.begin;
  f.load(from, 0);

  unit *in = reinterpret_cast<unit *>(memory);
  number *h = reinterpret_cast<number *>(in + quads * f.pitch);
  shrink_row<TAPS> *y = reinterpret_cast<shrink_row<TAPS> *>(h + (4 * quads + 1) * WIDE);
  number *wx = reinterpret_cast<number *>(y + cut.tall), *wy = wx + cut.taps_x * WIDE;
  int *at_x = reinterpret_cast<int *>(TAPS ? wy : wy + cut.taps_y * cut.tall), *n_x = at_x + WIDE;
  int none = 4 * quads * WIDE, t = threadIdx.x;
  if (t < WIDE) {
    int mine = min(e + t, n - 1), column = column_of(j, mine);
    shrink_span s;
    if constexpr (CUBIC) s = shrink_cubic(a.x.cubic, column, wx + t, WIDE);
    else s = shrink_weights<TAPS>(a.x, column, sizeof(T) == 1 ? 0.0f : 1.0f, wx + t, WIDE);
    at_x[t] = (window.left + s.lo) * j.pix + mine - column * j.pix - f.p.begin;
    n_x[t] = s.n;
    h[none + t] = -0.0f;
  }
  for (t = (t + SHRINK_THREADS - WIDE) % SHRINK_THREADS; t < rows; t += SHRINK_THREADS) {
    shrink_span s;
    if constexpr (TAPS > 0) {
      s = shrink_weights<TAPS>(a.y, top + t, 1.0f, y[t].w, 1);
#pragma unroll
      for (int k = 0; k < TAPS; k++) y[t].at[k] = k < s.n ? (s.lo - f.p.first + k) * WIDE : none;
    } else {
      if constexpr (CUBIC) s = shrink_cubic(a.y.cubic, top + t, wy + t, cut.tall);
      else s = shrink_weights<TAPS>(a.y, top + t, 1.0f, wy + t, cut.tall);
      y[t].at = (s.lo - f.p.first) * WIDE;
      y[t].n = s.n;
    }
  }
  if constexpr (sizeof(T) != 1)
    for (t = threadIdx.x; t < quads; t += SHRINK_THREADS) in[(t + 1) * f.pitch - 1] = {-0.0f, -0.0f, -0.0f, -0.0f};

  T *out = static_cast<T *>(j.out) + (image * j.out_h + top) * n;
  for (;;) {
    f.store(in, 0);
    for (int i = shrink_fetch<T>::STEP; i < f.all; i += shrink_fetch<T>::STEP) {
      f.load(from, i);
      f.store(in, i);
    }
    __syncthreads();
    image += planes.step;
    from += planes.step * j.h * row;
    if (image < planes.end) f.load(from, 0);
    shrink_along_x<TAPS, T, number>(h, in, f.pitch, quads, j.pix, wx, at_x, n_x);
    __syncthreads();
    shrink_along_y<TAPS, CUBIC, T, number>(j, out, e, rows, h, y, wy, cut.tall);
    if (image >= planes.end) return;
    out += planes.step * j.out_h * n;
  }
}

template <int TAPS, bool CUBIC>
static __global__ void __launch_bounds__(SHRINK_THREADS, AUG_PER_SM(SHRINK_THREADS, 4))
    shrink(const aug_jobs jobs, const axes a, const shrink_cut cut) {
  SP_DYNAMIC_SHARED(unsigned char, memory);
  const aug_job &j = jobs.job[blockIdx.z];
  shrink_planes all = {blockIdx.y, gridDim.y, jobs.n * j.planes};
  if (j.mask)
    for (int64_t sample = blockIdx.y; sample < jobs.n; sample += gridDim.y) picked(j, a, SHRINK_WARPS, ROWS, sample);
  else if (j.dtype == SP_U8) shrink_tiles<TAPS, CUBIC, uint8_t>(memory, j, a, cut, all);
  else shrink_tiles<TAPS, CUBIC, float>(memory, j, a, cut, all);
}

/* ---- how it is cut ---- */
/* At most as many inputs has an output: 2 * support rounded up, and one more where a centre is rounded. */
static __host__ __device__ __forceinline__ int shrink_taps(const resize_axis &a) {
  float wide = 2.0f * a.support;
  if (a.how == RESIZE_CUBIC) return cubic_most(&a.cubic);
  if (wide == floorf(wide)) return (int)wide;
  return (int)ceilf(wide + (float)a.in * 0x1p-21f);
}

/* Inputs of `outputs` that follow each other. */
static int64_t shrink_inputs(const resize_axis &a, int64_t outputs) {
  int64_t all = (int64_t)ceilf((float)(outputs - 1) * a.scale + 2.0f * a.support) + 2;
  return all < a.in ? all : a.in;
}

static int64_t shrink_bytes_of(const aug_job &j, const axes &a, const shrink_cut &cut) {
  int64_t wide = SHRINK_WIDE;
  int64_t columns = shrink_inputs(a.x, (wide + 2 * j.pix - 2) / j.pix) * j.pix;
  int64_t quads = (shrink_inputs(a.y, cut.tall) + 3) / 4, pitch = (columns + 6) / 4 * 4 + 4;
  return quads * pitch * (j.dtype == SP_U8 ? 4 : 16) +
         4 * ((4 * quads + 1 + cut.taps_x + 2) * wide + (2 * cut.taps_y + 4) * cut.tall);
}

/* Tiles for which there are no more weights than `cut` says; whether there are any. */
static bool shrink_fits(const aug_jobs *jobs, const axes &a, shrink_cut *cut) {
  int out = jobs->job[0].out_h;
  for (int most = SHRINK_TALL; most; most /= 2) {
    int high = (out + most - 1) / most;
    int64_t bytes = 0;
    cut->tall = (out + high - 1) / high;
    for (int i = 0; i < jobs->count; i++) {
      const aug_job &j = jobs->job[i];
      int64_t n = j.mask ? 0 : shrink_bytes_of(j, a, *cut);
      bytes = n > bytes ? n : bytes;
    }
    cut->bytes = (int)bytes;
    if (bytes <= SHRINK_BYTES) return true;
  }
  return false;
}

/* Tiles of a plane. */
static int64_t shrink_tiles_of(const aug_job &j, const shrink_cut &cut) {
  return ((int64_t)j.out_w * j.pix + SHRINK_WIDE - 1) / SHRINK_WIDE * ((j.out_h + cut.tall - 1) / cut.tall);
}

#endif
