/* SPDX-License-Identifier: MIT
 * tile.cuh - tiles of maps in shared memory, in any pixel order, and products of tensor cores over them.
 */
#ifndef NN_CUDA_TILE_CUH
#define NN_CUDA_TILE_CUH

#include "../kit.cuh"

namespace nnk {

/* SIDE: of a square tile. MOST: channels of a tile; a map with more is read in parts, one after the other. */
enum { SIDE = 16, MOST = 16 };

/* The tiles of a map, H x W pixels each: tile t of n * high * wide. */
struct tiling {
  int high, wide, count;
};

template <int H = SIDE, int W = SIDE> inline tiling tiling_of(const nnk_map *m) {
  int64_t high = up(m->h, H), wide = up(m->w, W);
  return {static_cast<int>(high), static_cast<int>(wide), static_cast<int>(m->n * high * wide)};
}

struct corner {
  int sample, y, x;
};

template <int H = SIDE, int W = SIDE> __device__ inline corner corner_of(const tiling &t, int tile) {
  int row = tile / t.wide, sample = row / t.high;
  return {sample, (row - sample * t.high) * H, (tile - row * t.wide) * W};
}

/* Whether the kernels for few channels take such a layer. */
inline bool takes(int k, int64_t in, int64_t out, int precision) {
  return precision == SP_PRECISION_TF32 ? nnk_narrow_tf32(k, in, out) : nnk_narrow(k, in, out);
}

/* Rounds to the nearest number of TF32; of two to the even one from 9.0 on, where that is one instruction, before it
 * away from 0. */
__device__ inline float tf32_of(float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t r;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return __uint_as_float(r);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return __uint_as_float(r);
#else
  uint32_t bits = __float_as_uint(v);
  return (bits & 0x7f800000u) == 0x7f800000u ? v : __uint_as_float((bits + 0x1000u) & 0xffffe000u);
#endif
}

/* As tf32_of, for factors: tensor cores ignore the bits below those of TF32. cvt.rna is several instructions that
 * change a register in place, which costs as many moves again; here NaNs are what must not overflow. */
__device__ inline float factor_of(float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 900
  int bits = min(__float_as_int(v), 0x7fffefff);
  return __uint_as_float(min(static_cast<uint32_t>(bits), 0xffffefffu) + 0x1000u);
#else
  return tf32_of(v);
#endif
}
__device__ inline float4 rounded(float4 v) { return {factor_of(v.x), factor_of(v.y), factor_of(v.z), factor_of(v.w)}; }
__device__ inline float4 four(const float *s) { return *reinterpret_cast<const float4 *>(s); }
__device__ inline float2 two(const float *s) { return *reinterpret_cast<const float2 *>(s); }

#ifdef __CUDA_ARCH__
/* A place in shared memory as instructions have it that know of no other. */
__device__ inline uint32_t in_shared(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
#endif

/* 16 bytes to shared memory, arriving later; zeros where not valid. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ inline void copy_chunk(uint32_t to, const void *from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
#endif
__device__ inline void copy_chunk(void *to, const void *from, bool valid) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  copy_chunk(in_shared(to), from, valid);
#else
  *reinterpret_cast<float4 *>(to) = valid ? *reinterpret_cast<const float4 *>(from) : make_float4(0, 0, 0, 0);
#endif
}

__device__ inline void end_stage() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

/* Until at most PENDING stages that this thread began are on their way. */
template <int PENDING> __device__ inline void wait_stage() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" : : "n"(PENDING) : "memory");
#endif
}

/* Where the 16 byte chunks of rows that lie without gaps are permuted so, eight lanes have banks of their own both
 * where they read four chunks of two rows and where they read two chunks of four. */
__device__ inline int twist(int row) { return (row & 1) << 2 | (row & 2); }

/* c (16x8) += a (16x8) b (8x8), spread over the warp: with g = lane / 4 and t = lane % 4, a is (g, t), (g + 8, t),
 * (g, t + 4), (g + 8, t + 4); b is (t, g), (t + 4, g); c is (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1). */
__device__ inline void product(float *c, const float *a, const float *b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
        "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
#elif defined(__CUDACC__)
  __trap(); /* devices without TF32 are not given these kernels */
#else
  int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const float4 *all_a = sp_emu::gather(make_float4(a[0], a[1], a[2], a[3]));
  const float2 *all_b = sp_emu::gather(make_float2(b[0], b[1]));
  for (int k = 0; k < 8; k++) {
    const float4 &rows = all_a[g * 4 + k % 4];
    const float2 &left = all_b[8 * t + k % 4], &right = all_b[8 * t + 4 + k % 4];
    float top = k < 4 ? rows.x : rows.z, bottom = k < 4 ? rows.y : rows.w;
    float l = k < 4 ? left.x : left.y, r = k < 4 ? right.x : right.y;
    c[0] = fmaf(top, l, c[0]), c[1] = fmaf(top, r, c[1]);
    c[2] = fmaf(bottom, l, c[2]), c[3] = fmaf(bottom, r, c[3]);
  }
#endif
}

template <int V> __device__ inline void put_shared(float *s, const float *v) {
  if constexpr (V == 4) *reinterpret_cast<float4 *>(s) = make_float4(v[0], v[1], v[2], v[3]);
  else if constexpr (V == 2) *reinterpret_cast<float2 *>(s) = make_float2(v[0], v[1]);
  else *s = v[0];
}

/* ---- places: in every order that of a pixel is a part from its row plus a part from its column, so that a tile needs
 * few of them; -1: outside of the map ---- */
enum { REACH = 32 };
struct places {
  int row[REACH], col[REACH];
};

/* Warps `first` (rows) and `first` + 1 (columns): the places of up to REACH rows and columns from y, x on. */
__device__ inline void chart(places *to, int first, const nnk_map &m, int y, int x) {
  int part = static_cast<int>(threadIdx.x) / REACH - first, i = static_cast<int>(threadIdx.x) % REACH;
  if (part != 0 && part != 1) return;
  uint32_t at = static_cast<uint32_t>((part ? x : y) + i), w = static_cast<uint32_t>(m.w);
  uint32_t place = part ? place_of(0, at, m.layout, w) : place_of(at, 0, m.layout, w);
  bool there = at < static_cast<uint64_t>(part ? m.w : m.h);
  (part ? to->col : to->row)[i] = there ? static_cast<int>(place) : -1;
}

__device__ inline int place_in(const places &p, int y, int x) {
  int row = p.row[y], col = p.col[x];
  return (row | col) < 0 ? -1 : row + col;
}

/* ---- tiles on their way to shared memory: fetch() has all of a thread's loads under way at once, put() stores them.
 * Between the two, other work hides the latency. ---- */

/* A map read in squares of SPAN x SPAN pixels, in `units` of v numbers. `per` units are together: those of a pixel, or
 * of a channel where the map is N,C,H,W. inverse: 2^22 / per, rounded up, which divides units exactly. Each of `parts`
 * has MOST channels, of which the last one may lack some: zeros. */
struct source {
  nnk_map m;
  int v, per, units, parts;
  uint32_t inverse;
};

inline int parts_of(const nnk_map *m) { return static_cast<int>(up(m->c, MOST)); }

inline source source_of(const nnk_map *m, int span) {
  bool planar = m->layout == PLANAR;
  int v = planar ? 1 : access(4, m, m->c), groups = static_cast<int>(std::min<int64_t>(m->c, MOST)) / v;
  int per = planar ? span * span : groups;
  return {*m, v, per, span * span * groups, parts_of(m), static_cast<uint32_t>(up(1 << 22, per))};
}

/* Numbers that a thread holds for a square. */
template <int THREADS, int SPAN, int WIDTH> struct held_by {
  enum { COUNT = (SPAN * SPAN * WIDTH / 4 + THREADS - 1) / THREADS * 4 };
};

struct spot {
  int y, x, ch;
};

template <int SPAN, int V> __device__ inline spot spot_of(const source &s, int unit) {
  int whole = static_cast<int>(static_cast<uint32_t>(unit) * s.inverse >> 22), rest = unit - whole * s.per;
  bool planar = V == 1 && s.m.layout == PLANAR;
  int px = planar ? rest : whole, y = px / SPAN;
  return {y, px - y * SPAN, planar ? whole : rest * V};
}

/* v, of which the compiler knows no more: else it keeps what follows from it in registers for all tiles and all cases,
 * and there are too few. */
__device__ inline int hidden(int v) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(v));
#endif
  return v;
}

template <int THREADS, int SPAN, int HELD, int V, class T>
__device__ inline void fetch_by(float *held, const source &s, const places &at, int sample, int first) {
  int64_t c = s.m.c, size = pixels(s.m);
  bool planar = V == 1 && s.m.layout == PLANAR;
  int64_t step = planar ? 1 : c, next = planar ? size : 1;
  const T *from = static_cast<const T *>(s.m.p) + sample * size * c;
  int thread = hidden(static_cast<int>(threadIdx.x)), last = s.units - 1;
#pragma unroll
  for (int i = 0; i < HELD / V; i++) {
    if (i % 4 == 0 && i * THREADS > last) break; /* for fours, which then need no branches */
    int unit = thread + i * THREADS;
    spot to = spot_of<SPAN, V>(s, unit < last ? unit : last);
    int place = place_in(at, to.y, to.x);
#pragma unroll
    for (int j = 0; j < V; j++) held[i * V + j] = 0;
    if (place >= 0 && first + to.ch < c) load<V>(held + i * V, from, place * step + (first + to.ch) * next);
  }
}

/* `first` channel of a part. */
template <int THREADS, int SPAN, int HELD>
__device__ inline void fetch(float *held, const source &s, const places &at, int sample, int first) {
  if (s.m.elt == NNK_F32) {
    if (s.v == 4) fetch_by<THREADS, SPAN, HELD, 4, float>(held, s, at, sample, first);
    else if (s.v == 2) fetch_by<THREADS, SPAN, HELD, 2, float>(held, s, at, sample, first);
    else fetch_by<THREADS, SPAN, HELD, 1, float>(held, s, at, sample, first);
  } else {
    if (s.v == 4) fetch_by<THREADS, SPAN, HELD, 4, __nv_bfloat16>(held, s, at, sample, first);
    else if (s.v == 2) fetch_by<THREADS, SPAN, HELD, 2, __nv_bfloat16>(held, s, at, sample, first);
    else fetch_by<THREADS, SPAN, HELD, 1, __nv_bfloat16>(held, s, at, sample, first);
  }
}

template <int THREADS, int SPAN, int HELD, class AT, bool ROUND, int V>
__device__ inline void put_by(float *to, float *held, const source &s) {
  int thread = hidden(static_cast<int>(threadIdx.x));
#pragma unroll
  for (int i = 0; i < HELD / V; i++) {
    int unit = thread + i * THREADS;
    if (unit >= s.units) continue;
    spot p = spot_of<SPAN, V>(s, unit);
    float v[V];
#pragma unroll
    for (int j = 0; j < V; j++) v[j] = ROUND ? tf32_of(held[i * V + j]) : held[i * V + j];
    put_shared<V>(to + AT::of(p.y, p.x, p.ch), v);
  }
}

/* AT::of(row, column, channel) is a place in shared memory. ROUND: to TF32. */
template <int THREADS, int SPAN, int HELD, class AT, bool ROUND>
__device__ inline void put(float *to, float *held, const source &s) {
  if (s.v == 4) put_by<THREADS, SPAN, HELD, AT, ROUND, 4>(to, held, s);
  else if (s.v == 2) put_by<THREADS, SPAN, HELD, AT, ROUND, 2>(to, held, s);
  else put_by<THREADS, SPAN, HELD, AT, ROUND, 1>(to, held, s);
}

} // namespace nnk
#endif
