/* SPDX-License-Identifier: MIT
 * move.cu - what only moves or combines maps of one pixel order: ReLU and its gradient, sums, concatenation, bias;
 * and lists of arrays that are cast or repeated.
 */
#include "kit.cuh"

namespace nnk {

enum { THREADS = 256 };
/* Units of V numbers a thread handles, so that loads are under way together. */
__host__ __device__ constexpr int each(int v) { return v == 8 ? 2 : 4; }

enum { RELU, ADD, GIVE, AXPY };

struct flat_args {
  void *y;
  const void *a, *b;
  int ye, ae, be, flag; /* flag: ADD with ReLU, GIVE and AXPY to what is there */
  const float *scale;
  int64_t units;
};

template <int OP, int V> __global__ void __launch_bounds__(THREADS) flat(flat_args p) {
  constexpr int EACH = each(V);
  float a[EACH][V], b[EACH][V], y[EACH][V];
  int64_t first = static_cast<int64_t>(blockIdx.x) * (THREADS * EACH) + threadIdx.x;
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    int64_t u = first + e * THREADS;
    if (u >= p.units) break;
    load<V>(a[e], p.a, p.ae, u * V);
    if (OP == ADD || (OP == GIVE && p.b)) load<V>(b[e], p.b, p.be, u * V);
    if ((OP == GIVE || OP == AXPY) && p.flag) load<V>(y[e], p.y, p.ye, u * V);
  }
  float scale = OP == AXPY && p.scale ? *p.scale : 1;
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    int64_t u = first + e * THREADS;
    if (u >= p.units) break;
#pragma unroll
    for (int j = 0; j < V; j++) {
      float v = a[e][j];
      if (OP == RELU) v = relu_of(v);
      if (OP == ADD) v = p.flag ? relu_of(v + b[e][j]) : v + b[e][j];
      if (OP == GIVE && p.b) v = b[e][j] > 0 ? v : 0;
      if (OP == GIVE && p.flag) v += y[e][j];
      if (OP == AXPY) v = sum_of(scale, v, p.flag, p.flag ? y[e][j] : 0);
      y[e][j] = v;
    }
    store<V>(p.y, p.ye, u * V, y[e]);
  }
}

template <int OP> static int run_flat(void *stream, int v, flat_args p, int64_t n) {
  if (n == 0) return cudaSuccess;
  p.units = n / v;
  unsigned grid = static_cast<unsigned>(up(p.units, THREADS * each(v)));
  if (v == 8) SP_LAUNCH((flat<OP, 8>), grid, THREADS, 0, stream, p);
  else if (v == 4) SP_LAUNCH((flat<OP, 4>), grid, THREADS, 0, stream, p);
  else if (v == 2) SP_LAUNCH((flat<OP, 2>), grid, THREADS, 0, stream, p);
  else SP_LAUNCH((flat<OP, 1>), grid, THREADS, 0, stream, p);
  return launched();
}

/* ---- another pixel order, channels innermost in both: a thread moves V channels of a pixel ---- */
struct move_args {
  nnk_map dst, src;
  const void *mask; /* in the order and type of dst */
  int add;
};

template <int V> __device__ inline void put(const move_args &p, int64_t at, float *v) {
  float t[V];
  if (p.mask) {
    load<V>(t, p.mask, p.dst.elt, at);
#pragma unroll
    for (int j = 0; j < V; j++) v[j] = t[j] > 0 ? v[j] : 0;
  }
  if (p.add) {
    load<V>(t, p.dst.p, p.dst.elt, at);
#pragma unroll
    for (int j = 0; j < V; j++) v[j] += t[j];
  }
  store<V>(p.dst.p, p.dst.elt, at, v);
}

template <int V, typename I> __global__ void __launch_bounds__(THREADS) reorder(move_args p) {
  I u = static_cast<I>(blockIdx.x) * THREADS + threadIdx.x, per = static_cast<I>(p.dst.c / V);
  I px = u / per, size = static_cast<I>(pixels(p.dst)), sample = px / size;
  if (sample >= static_cast<I>(p.dst.n)) return;
  uint32_t y, x, w = static_cast<uint32_t>(p.dst.w);
  pixel_at(static_cast<uint32_t>(px - sample * size), p.dst.layout, w, &y, &x);
  int64_t from = static_cast<int64_t>(sample) * size + place_of(y, x, p.src.layout, w);
  float v[V];
  load<V>(v, p.src.p, p.src.elt, from * p.src.c + static_cast<int64_t>(u - px * per) * V);
  put<V>(p, static_cast<int64_t>(u) * V, v);
}

template <int V> static int run_reorder(void *stream, const move_args &p) {
  int64_t units = elements(p.dst) / V;
  unsigned grid = static_cast<unsigned>(up(units, THREADS));
  if (units < INT32_MAX - THREADS) SP_LAUNCH((reorder<V, uint32_t>), grid, THREADS, 0, stream, p);
  else SP_LAUNCH((reorder<V, uint64_t>), grid, THREADS, 0, stream, p);
  return launched();
}

/* ---- between N,C,H,W and channels innermost: tiles of ct channels by 2^shift pixels, through shared memory ---- */
enum { TILE = 1024, TILE_MAX = TILE + TILE / 32 };

__global__ void __launch_bounds__(THREADS) transpose(move_args p, int ct, int shift, int64_t tiles_c, int64_t tiles_p) {
  __shared__ float tile[TILE_MAX];
  int64_t block = blockIdx.x, size = pixels(p.dst), c = p.dst.c;
  int64_t rest = block / tiles_p, sample = rest / tiles_c, c0 = (rest - sample * tiles_c) * ct;
  int64_t p0 = (block - rest * tiles_p) << shift;
  int np = static_cast<int>(min(static_cast<int64_t>(1) << shift, size - p0)), stride = (1 << shift) + 1;
  int nc = static_cast<int>(min(static_cast<int64_t>(ct), c - c0)), thread = static_cast<int>(threadIdx.x);
  bool planar_to = p.dst.layout == PLANAR;
  int d = planar_to ? p.src.layout : p.dst.layout;
  uint32_t w = static_cast<uint32_t>(p.dst.w);
  for (int i = thread; i < nc * np && planar_to; i += THREADS) {
    int px = i / nc, ch = i - px * nc;
    load<1>(&tile[ch * stride + px], p.src.p, p.src.elt, (sample * size + p0 + px) * c + c0 + ch);
  }
  for (int i = thread; i < nc << shift && !planar_to; i += THREADS) {
    int ch = i >> shift, px = i - (ch << shift);
    uint32_t y, x;
    if (px >= np) continue;
    pixel_at(static_cast<uint32_t>(p0 + px), d, w, &y, &x);
    load<1>(&tile[ch * stride + px], p.src.p, p.src.elt, (sample * c + c0 + ch) * size + y * w + x);
  }
  __syncthreads();
  for (int i = thread; i < nc * np && !planar_to; i += THREADS) {
    int px = i / nc, ch = i - px * nc;
    put<1>(p, (sample * size + p0 + px) * c + c0 + ch, &tile[ch * stride + px]);
  }
  for (int i = thread; i < nc << shift && planar_to; i += THREADS) {
    int ch = i >> shift, px = i - (ch << shift);
    uint32_t y, x;
    if (px >= np) continue;
    pixel_at(static_cast<uint32_t>(p0 + px), d, w, &y, &x);
    put<1>(p, (sample * c + c0 + ch) * size + y * w + x, &tile[ch * stride + px]);
  }
}

static int run_transpose(void *stream, const move_args &p) {
  int ct = p.dst.c < 32 ? static_cast<int>(p.dst.c) : 32, shift = 5;
  while (ct * (2 << shift) <= TILE) shift++;
  int64_t tiles_c = up(p.dst.c, ct), tiles_p = up(pixels(p.dst), static_cast<int64_t>(1) << shift);
  unsigned grid = static_cast<unsigned>(p.dst.n * tiles_c * tiles_p);
  SP_LAUNCH(transpose, grid, THREADS, 0, stream, p, ct, shift, tiles_c, tiles_p);
  return launched();
}

static int give(void *stream, const nnk_map *dst, const nnk_map *src, const nnk_map *mask, int add) {
  int64_t n = elements(*dst);
  if (n == 0) return cudaSuccess;
  if (same_order(dst, src)) {
    flat_args p = {dst->p, src->p, mask ? mask->p : nullptr, dst->elt, src->elt, dst->elt, add, nullptr, 0};
    return run_flat<GIVE>(stream, access(access(access(widest(dst), dst, n), src, n), mask, n), p, n);
  }
  move_args p = {*dst, *src, mask ? mask->p : nullptr, add};
  if (dst->layout == PLANAR || src->layout == PLANAR) return run_transpose(stream, p);
  int v = access(access(access(4, dst, dst->c), src, dst->c), mask, dst->c);
  return v == 4 ? run_reorder<4>(stream, p) : v == 2 ? run_reorder<2>(stream, p) : run_reorder<1>(stream, p);
}

/* ---- parts of the channels; a pixel of a part that is enlarged is `down` x `right` pixels of the whole ---- */
/* In units of V numbers. */
struct join_part {
  const void *p;
  int64_t units, c, first, w; /* all, those of a row, where they begin in a row of y; pixels of its width */
  int elt, down, right;
  uint32_t start; /* its first block */
};

struct join_args {
  nnk_map y;
  int64_t wide; /* units of a row of y */
  int n;
  join_part part[NNK_PARTS];
};

/* The first of the pixels that pixel `px` of a part of width w is. */
template <typename I> __device__ inline I enlarged(I px, I w, I down, I right) {
  I line = px / w;
  return line * down * w * right + (px - line * w) * right;
}

template <int V, typename I> __global__ void __launch_bounds__(THREADS) join(join_args p) {
  int k = 0;
  while (k + 1 < p.n && blockIdx.x >= p.part[k + 1].start) k++;
  const join_part &q = p.part[k];
  I u = static_cast<I>(blockIdx.x - q.start) * THREADS + threadIdx.x, c = static_cast<I>(q.c), row = u / c, to = row;
  float v[V];
  if (u >= static_cast<I>(q.units)) return;
  load<V>(v, q.p, q.elt, static_cast<int64_t>(u) * V);
  if (q.down > 1 || q.right > 1) to = enlarged<I>(row, static_cast<I>(q.w), q.down, q.right);
  int64_t at = static_cast<int64_t>(to) * p.wide + q.first + (u - row * c), line = q.w * q.right * p.wide;
  for (int y = 0; y < q.down; y++)
    for (int x = 0; x < q.right; x++) store<V>(p.y.p, p.y.elt, (at + y * line + x * p.wide) * V, v);
}

struct split_args {
  move_args move;
  int64_t units, c, wide, first, w; /* as join_part and join_args have them, of dst in src */
  int down, right;
};

/* BY: the pixels of src for each of dst are 1, 2 x 2, or, where it is 0, down x right. */
template <int V, typename I, int BY> __global__ void __launch_bounds__(THREADS) split(split_args p) {
  I u = static_cast<I>(blockIdx.x) * THREADS + threadIdx.x, c = static_cast<I>(p.c), row = u / c, from = row;
  float v[V], t[3][V];
  if (u >= static_cast<I>(p.units)) return;
  if (BY != 1) from = enlarged<I>(row, static_cast<I>(p.w), p.down, p.right);
  int64_t at = static_cast<int64_t>(from) * p.wide + p.first + (u - row * c), line = p.w * p.right * p.wide;
  auto get = [&](float *to, int y, int x) {
    load<V>(to, p.move.src.p, p.move.src.elt, (at + y * line + x * p.wide) * V);
  };
  get(v, 0, 0);
  if (BY == 2) {
    get(t[0], 0, 1), get(t[1], 1, 0), get(t[2], 1, 1);
#pragma unroll
    for (int j = 0; j < V; j++) v[j] = v[j] + t[0][j] + t[1][j] + t[2][j];
  }
  for (int i = 1; BY == 0 && i < p.down * p.right; i++) {
    get(t[0], i / p.right, i % p.right);
#pragma unroll
    for (int j = 0; j < V; j++) v[j] += t[0][j];
  }
  put<V>(p.move, static_cast<int64_t>(u) * V, v);
}

/* A map as rows of numbers: of channels, or of whole planes. */
static int64_t row_of(const nnk_map *m) { return m->layout == PLANAR ? m->c * pixels(*m) : m->c; }

/* Whether a part lies as the whole does, or is enlarged to it. */
static bool is_part(const nnk_map *whole, const nnk_map *m) {
  if (whole->h == m->h && whole->w == m->w) return same_order(whole, m);
  bool plain = whole->layout == 0 && (m->layout == 0 || pixels(*m) == 1);
  return plain && whole->h % m->h == 0 && whole->w % m->w == 0;
}

template <int V, typename I> static int run_join(void *stream, const nnk_map *y, int n, const nnk_map *parts) {
  join_args p = {*y, row_of(y) / V, n, {}};
  int64_t first = 0;
  uint32_t blocks = 0;
  for (int k = 0; k < n; k++) {
    const nnk_map &m = parts[k];
    int64_t units = elements(m) / V, c = row_of(&m) / V;
    int down = static_cast<int>(y->h / m.h), right = static_cast<int>(y->w / m.w);
    p.part[k] = {m.p, units, c, first, m.w, m.elt, down, right, blocks};
    first += c;
    blocks += static_cast<uint32_t>(up(units, THREADS));
  }
  SP_LAUNCH((join<V, I>), blocks, THREADS, 0, stream, p);
  return launched();
}

template <int V, typename I> static int run_split(void *stream, const move_args &m, int64_t first) {
  int64_t units = elements(m.dst) / V;
  int down = static_cast<int>(m.src.h / m.dst.h), right = static_cast<int>(m.src.w / m.dst.w);
  split_args p = {m, units, row_of(&m.dst) / V, row_of(&m.src) / V, first / V, m.dst.w, down, right};
  unsigned grid = static_cast<unsigned>(up(units, THREADS));
  if (down == 1 && right == 1) SP_LAUNCH((split<V, I, 1>), grid, THREADS, 0, stream, p);
  else if (down == 2 && right == 2) SP_LAUNCH((split<V, I, 2>), grid, THREADS, 0, stream, p);
  else SP_LAUNCH((split<V, I, 0>), grid, THREADS, 0, stream, p);
  return launched();
}

/* ---- bias ---- */
template <int V, typename I>
__global__ void __launch_bounds__(THREADS)
    bias_relu(nnk_map y, nnk_map x, const float *bias, const void *plus, int relu, I units, I plane) {
  I u = static_cast<I>(blockIdx.x) * THREADS + threadIdx.x, c = static_cast<I>(y.c);
  float v[V], more[V], add[V];
  if (u >= units) return;
  load<V>(v, x.p, x.elt, static_cast<int64_t>(u) * V);
  if (plus) load<V>(more, plus, y.elt, static_cast<int64_t>(u) * V);
  I ch = plane ? u / plane % c : u % (c / V) * V; /* plane: units of a channel, 0 where channels are innermost */
  if (bias) of_channels<V>(add, bias, static_cast<int64_t>(ch), plane != 0);
#pragma unroll
  for (int j = 0; j < V; j++) {
    if (bias) v[j] += add[j];
    if (plus) v[j] += more[j];
    if (relu) v[j] = relu_of(v[j]);
  }
  store<V>(y.p, y.elt, static_cast<int64_t>(u) * V, v);
}

template <int V, typename I>
static int run_bias(void *stream, const nnk_map *y, const nnk_map *x, const float *bias, const void *plus, int relu) {
  int64_t units = elements(*y) / V, plane = y->layout == PLANAR ? pixels(*y) / V : 0;
  SP_LAUNCH((bias_relu<V, I>), static_cast<unsigned>(up(units, THREADS)), THREADS, 0, stream, *y, *x, bias, plus, relu,
            static_cast<I>(units), static_cast<I>(plane));
  return launched();
}

/* ---- lists ---- */
enum { CASTS = THREADS * 16, COPIES = THREADS * 4 }; /* numbers of a block */

struct list_args {
  void *dst[NNK_LIST];
  const float *src[NNK_LIST];
  int64_t count[NNK_LIST];
  uint32_t period[NNK_LIST];    /* of repeats */
  uint32_t start[NNK_LIST + 1]; /* first block of each */
};

__device__ inline int array_of(const list_args &p, int n) {
  int k = 0;
  while (k + 1 < n && blockIdx.x >= p.start[k + 1]) k++;
  return k;
}

__global__ void __launch_bounds__(THREADS) casts(list_args p, int n) {
  int k = array_of(p, n);
  int64_t base = static_cast<int64_t>(blockIdx.x - p.start[k]) * CASTS, end = min(p.count[k], base + CASTS);
  const float *src = p.src[k];
  bool whole = end - base == CASTS && reinterpret_cast<uintptr_t>(src) % 16 == 0 &&
               reinterpret_cast<uintptr_t>(p.dst[k]) % 8 == 0;
  if (!whole) {
    for (int64_t i = base + threadIdx.x; i < end; i += THREADS) store<1>(p.dst[k], NNK_BF16, i, src + i);
    return;
  }
  float v[CASTS / THREADS / 4][4];
#pragma unroll
  for (int e = 0; e < CASTS / THREADS / 4; e++) load<4>(v[e], src, base + (e * THREADS + threadIdx.x) * 4);
#pragma unroll
  for (int e = 0; e < CASTS / THREADS / 4; e++)
    store<4>(p.dst[k], NNK_BF16, base + (e * THREADS + threadIdx.x) * 4, v[e]);
}

__global__ void __launch_bounds__(THREADS) repeats(list_args p, int n) {
  int k = array_of(p, n);
  uint32_t base = (blockIdx.x - p.start[k]) * COPIES + threadIdx.x, count = static_cast<uint32_t>(p.count[k]);
  float v[COPIES / THREADS];
#pragma unroll
  for (int e = 0; e < COPIES / THREADS; e++)
    if (base + e * THREADS < count) v[e] = p.src[k][(base + e * THREADS) % p.period[k]];
#pragma unroll
  for (int e = 0; e < COPIES / THREADS; e++)
    if (base + e * THREADS < count) static_cast<float *>(p.dst[k])[base + e * THREADS] = v[e];
}

/* Deals out the blocks; 0: there is nothing to do. */
static uint32_t blocks_of(int n, list_args *p, int64_t each) {
  for (int k = 0; k < n; k++) p->start[k + 1] = p->start[k] + static_cast<uint32_t>(up(p->count[k], each));
  return p->start[n];
}

} // namespace nnk

using namespace nnk;

int nnk_copy(void *stream, const nnk_map *dst, const nnk_map *src, int add) {
  return give(stream, dst, src, nullptr, add);
}

int nnk_mask(void *stream, const nnk_map *dx, const nnk_map *dy, const nnk_map *mask, int add) {
  return give(stream, dx, dy, mask, add);
}

int nnk_relu(void *stream, const nnk_map *y, const nnk_map *x) {
  int64_t n = elements(*y);
  if (!same_order(y, x)) return refused();
  return run_flat<RELU>(stream, access(access(widest(y), y, n), x, n),
                        {y->p, x->p, nullptr, y->elt, x->elt, 0, 0, nullptr, 0}, n);
}

int nnk_add(void *stream, const nnk_map *y, const nnk_map *a, const nnk_map *b, int relu) {
  int64_t n = elements(*y);
  if (!same_order(y, a) || !same_order(y, b)) return refused();
  return run_flat<ADD>(stream, access(access(access(widest(y), y, n), a, n), b, n),
                       {y->p, a->p, b->p, y->elt, a->elt, b->elt, relu, nullptr, 0}, n);
}

int nnk_axpy(void *stream, nnk_sum dst, int elt, const void *src, int64_t n) {
  int v = access(access(4, dst.p, NNK_F32, n), src, elt, n);
  return run_flat<AXPY>(stream, v, {dst.p, src, nullptr, NNK_F32, elt, 0, dst.add, dst.scale, 0}, n);
}

int nnk_concat(void *stream, const nnk_map *y, int n, const nnk_map *parts) {
  int64_t size = elements(*y), wide = 0;
  int v = widest(y);
  if (n < 1 || n > NNK_PARTS) return refused();
  for (int k = 0; k < n; k++) {
    if (!is_part(y, &parts[k])) return refused();
    v = access(access(v, &parts[k], row_of(&parts[k])), y, row_of(&parts[k]));
    wide += parts[k].c;
  }
  if (wide != y->c) return refused();
  if (size == 0) return cudaSuccess;
  if (size >= INT32_MAX - THREADS)
    return v >= 4 ? run_join<4, uint64_t>(stream, y, n, parts) : run_join<1, uint64_t>(stream, y, n, parts);
  return v == 8   ? run_join<8, uint32_t>(stream, y, n, parts)
         : v == 4 ? run_join<4, uint32_t>(stream, y, n, parts)
         : v == 2 ? run_join<2, uint32_t>(stream, y, n, parts)
                  : run_join<1, uint32_t>(stream, y, n, parts);
}

int nnk_split(void *stream, const nnk_map *dx, const nnk_map *dy, int64_t first, const nnk_map *mask, int add) {
  if (!is_part(dy, dx) || first + dx->c > dy->c) return refused();
  if (elements(*dx) == 0) return cudaSuccess;
  int64_t c = row_of(dx), wide = row_of(dy), from = dx->layout == PLANAR ? first * pixels(*dx) : first;
  move_args p = {*dx, *dy, mask ? mask->p : nullptr, add};
  int v = access(access(access(access(access(widest(dy), dx, c), dy, wide), dy, c), dy, from), mask, c);
  if (elements(*dy) >= INT32_MAX - THREADS)
    return v >= 4 ? run_split<4, uint64_t>(stream, p, from) : run_split<1, uint64_t>(stream, p, from);
  return v == 8   ? run_split<8, uint32_t>(stream, p, from)
         : v == 4 ? run_split<4, uint32_t>(stream, p, from)
         : v == 2 ? run_split<2, uint32_t>(stream, p, from)
                  : run_split<1, uint32_t>(stream, p, from);
}

int nnk_bias_relu(void *stream, const nnk_map *y, const nnk_map *x, const float *bias, const nnk_map *plus, int relu) {
  int64_t n = elements(*y), unit = y->layout == PLANAR ? pixels(*y) : y->c;
  if (!same_order(y, x) || (plus && (!same_order(y, plus) || plus->elt != y->elt))) return refused();
  if (n == 0) return cudaSuccess;
  int v = access(access(access(widest(y), y, unit), x, unit), plus, unit);
  if (y->layout != PLANAR) v = access(v, bias, NNK_F32, unit);
  const void *p = plus ? plus->p : nullptr;
  if (n >= INT32_MAX - THREADS)
    return v >= 4 ? run_bias<4, uint64_t>(stream, y, x, bias, p, relu)
                  : run_bias<1, uint64_t>(stream, y, x, bias, p, relu);
  return v == 8   ? run_bias<8, uint32_t>(stream, y, x, bias, p, relu)
         : v == 4 ? run_bias<4, uint32_t>(stream, y, x, bias, p, relu)
         : v == 2 ? run_bias<2, uint32_t>(stream, y, x, bias, p, relu)
                  : run_bias<1, uint32_t>(stream, y, x, bias, p, relu);
}

int nnk_cast(void *stream, int n, void *const *dst, const float *const *src, const int64_t *count) {
  list_args p = {};
  if (n < 0 || n > NNK_LIST) return refused();
  for (int k = 0; k < n; k++) p.dst[k] = dst[k], p.src[k] = src[k], p.count[k] = count[k];
  uint32_t blocks = blocks_of(n, &p, CASTS);
  if (blocks == 0) return cudaSuccess;
  SP_LAUNCH(casts, blocks, THREADS, 0, stream, p, n);
  return launched();
}

int nnk_repeat(void *stream, int n, float *const *dst, const float *const *src, const int64_t *count,
               const int64_t *period) {
  list_args p = {};
  if (n < 0 || n > NNK_LIST) return refused();
  for (int k = 0; k < n; k++) {
    if (count[k] > INT32_MAX || period[k] > INT32_MAX) return refused();
    p.dst[k] = dst[k], p.src[k] = src[k], p.count[k] = count[k], p.period[k] = static_cast<uint32_t>(period[k]);
  }
  uint32_t blocks = blocks_of(n, &p, COPIES);
  if (blocks == 0) return cudaSuccess;
  SP_LAUNCH(repeats, blocks, THREADS, 0, stream, p, n);
  return launched();
}
