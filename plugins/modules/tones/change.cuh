/* SPDX-License-Identifier: MIT
 * change.cuh - one step of one sample of one tensor on CUDA, for each kind of operation. What asks nothing of a pixel's
 * place reads a sample as words of 16 bytes; the others read quads of a row, or of pixels.
 */
#ifndef TONES_CHANGE_CUH
#define TONES_CHANGE_CUH

#include "../../kits/aug/kit.cuh"

#include "point.h"

enum { COPY, POINT, MIX, SHARP, NOISE, DROP, ANY };
enum { THREADS = 256, WORD = 16, TILE = 2 * THREADS * WORD, TABLES = 4 };

static __host__ __device__ __forceinline__ int kind_of(int op) {
  return op == TONES_GREY || op == TONES_COLOUR ? MIX
         : op == TONES_SHARPNESS                ? SHARP
         : op == TONES_NOISE                    ? NOISE
         : op == TONES_DROP                     ? DROP
                                                : POINT;
}

/* ---- how far values reach ---- */
/* Floats as whole numbers of the same order. */
static __device__ __forceinline__ uint32_t ordered(float v) {
  uint32_t bits = point_bits(v);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
static __device__ __forceinline__ float unordered(uint32_t v) { return point_of_bits(v >> 31 ? v & 0x7fffffffu : ~v); }

/* Values as they come in, where some would be cut. */
struct limits {
  float lo, hi;
  __device__ __forceinline__ void take(float v) {
    lo = v < lo ? v : lo;
    hi = v > hi ? v : hi;
  }
};

/* All threads of a block call it; what is inside of 0..max is not told. */
static __device__ __forceinline__ void report(limits seen, float max, uint32_t *reach) {
  for (int lanes = 16; lanes; lanes /= 2) {
    seen.take(__shfl_xor_sync(0xffffffffu, seen.lo, lanes));
    seen.take(__shfl_xor_sync(0xffffffffu, seen.hi, lanes));
  }
  if (threadIdx.x % 32) return;
  if (seen.lo < 0.0f) atomicMin(&reach[0], ordered(seen.lo));
  if (seen.hi > max) atomicMax(&reach[1], ordered(seen.hi));
}

/* ---- a sample as words ---- */
template <typename T> struct __align__(WORD) tones_word { T v[WORD / sizeof(T)]; };

/* Calls make(first, v) for the words of this block's sample and tensor that are this thread's: v are the elements from
 * `first` on; behind the last one they are of no use. Where samples do not begin at words,
 * a word is made of elements. */
template <typename T, typename Make> static __device__ __forceinline__ void each_word(const aug_job &j, Make make) {
  constexpr int N = WORD / (int)sizeof(T);
  typedef tones_word<T> word;
  int64_t size = j.planes * j.h * j.w * j.pix, words = (size + N - 1) / N, stride = (int64_t)gridDim.x * THREADS;
  int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  const T *in = static_cast<const T *>(j.in) + blockIdx.y * size;
  T *out = static_cast<T *>(j.out) + blockIdx.y * size;
  if (size % N || (reinterpret_cast<uintptr_t>(in) | reinterpret_cast<uintptr_t>(out)) % WORD) {
    for (; at < words; at += stride) {
      T v[N];
#pragma unroll 1
      for (int k = 0; k < N; k++) v[k] = in[at * N + k < size ? at * N + k : size - 1];
      make(at * N, v);
#pragma unroll 1
      for (int k = 0; k < N && at * N + k < size; k++) out[at * N + k] = v[k];
    }
    return;
  }
  /* Two words are on their way before the first is stored: the compiler does not move a load over a store. */
  for (; at < words; at += 2 * stride) {
    bool both = at + stride < words;
    int64_t two[2] = {at * N, (both ? at + stride : at) * N};
    word w[2];
#pragma unroll
    for (int i = 0; i < 2; i++) w[i] = *reinterpret_cast<const word *>(in + two[i]);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      if (i == 1 && !both) break;
      make(two[i], w[i].v);
      *reinterpret_cast<word *>(out + two[i]) = w[i];
    }
  }
}

/* The channel of an element, and of those that follow it. */
struct channel_at {
  uint32_t run, left;
  int count, c;
  __device__ __forceinline__ channel_at(const aug_job &j, int64_t element)
      : run(j.pix == 1 ? (uint32_t)(j.h * j.w) : 1), count((int)(j.planes * j.pix)) {
    int64_t runs = element <= 0xffffffff ? (uint32_t)element / run : element / run;
    c = (int)(runs % count);
    left = run - (uint32_t)(element - runs * run);
  }
  __device__ __forceinline__ void next() {
    if (--left) return;
    left = run;
    c = c + 1 == count ? 0 : c + 1;
  }
};

/* What is only copied of floats counts, too: the others may be masks. */
static __device__ __forceinline__ void take_all(limits &seen, const float (&v)[WORD / sizeof(float)]) {
#pragma unroll
  for (int k = 0; k < WORD / (int)sizeof(float); k++) seen.take(v[k]);
}
template <typename T> static __device__ __forceinline__ void take_all(limits &, const T (&)[WORD / sizeof(T)]) {}

template <typename T> static __device__ __forceinline__ void copied(const aug_job &j, limits &seen) {
  each_word<T>(j, [&](int64_t, T(&v)[WORD / sizeof(T)]) { take_all(seen, v); });
}

/* What is filled in, as an element of the image. */
template <typename T> static __device__ __forceinline__ T fill_of(T, float v) {
  return sizeof(T) == 1 ? (T)__float2int_rn(v) : (T)v;
}

template <typename T>
static __device__ __forceinline__ void dropped(const aug_job &j, const tones_how &how, const tones_step &s) {
  each_word<T>(j, [&](int64_t first, T(&v)[WORD / sizeof(T)]) {
    channel_at at(j, first);
#pragma unroll
    for (int k = 0; k < WORD / (int)sizeof(T); k++, at.next())
      if ((uint32_t)s.by >> at.c & 1u) v[k] = fill_of(T(), how.fill[at.c % how.fills]);
  });
}

/* Of each channel, or of the image: a table of bytes, or what stretches floats. */
struct point_tables {
  uint8_t byte[TABLES][256];
  float lo[TABLES], scale[TABLES];
};

/* A value of channel c by what was seen of its channel. */
template <typename T>
static __device__ __forceinline__ T by_look(const tones_how &how, const tones_step &s, float max,
                                            const tones_look *looks, const point_tables *t, int c, T v) {
  if (sizeof(T) == 1) return (T)(t ? t->byte[c][(int)v] : point_entry(s.op, s.by, how.gain, looks + c, (int)v));
  if (t && s.op == TONES_AUTOCONTRAST) return (T)point_stretch((float)v, t->lo[c], t->scale[c], max);
  if (t) return (T)point_float(t->byte[c][point_byte((float)v, max)], max);
  return (T)point_value(s.op, s.by, how.gain, max, looks + c, (float)v);
}

template <int OP> struct tones_known { enum { value = OP }; };

template <typename T>
static __device__ __forceinline__ void points(const aug_job &j, const tones_how &how, const tones_step &s,
                                              const tones_look *looks, limits &seen) {
  constexpr int N = WORD / (int)sizeof(T);
  __shared__ point_tables tables;
  float max = sizeof(T) == 1 ? 255.0f : how.max;
  bool own = s.op == TONES_AUTOCONTRAST || s.op == TONES_EQUALIZE;
  int64_t count = own ? j.planes * j.pix : 1;
  const point_tables *t = count <= TABLES ? &tables : nullptr;
  if (t && (sizeof(T) == 1 || s.op == TONES_EQUALIZE))
    for (int i = (int)threadIdx.x; i < 256 * (int)count; i += THREADS)
      tables.byte[i / 256][i % 256] = point_entry(s.op, s.by, how.gain, looks + i / 256, i % 256);
  if (t && sizeof(T) > 1 && s.op == TONES_AUTOCONTRAST && (int64_t)threadIdx.x < count) {
    tables.lo[threadIdx.x] = looks[threadIdx.x].lo;
    tables.scale[threadIdx.x] = point_scale(&tables.lo[threadIdx.x], looks[threadIdx.x].hi, max);
  }
  __syncthreads();
  if (own) {
    each_word<T>(j, [&](int64_t first, T(&v)[N]) {
      take_all(seen, v);
      channel_at at(j, first);
#pragma unroll
      for (int k = 0; k < N; k++, at.next()) v[k] = by_look<T>(how, s, max, looks, t, at.c, v[k]);
    });
  } else if (sizeof(T) == 1) {
    each_word<T>(j, [&](int64_t, T(&v)[N]) {
#pragma unroll
      for (int k = 0; k < N; k++) v[k] = (T)tables.byte[0][(int)v[k]];
    });
  } else {
    auto each = [&](auto op) { /* a constant: no value asks which operation it is */
      each_word<T>(j, [&](int64_t, T(&v)[N]) {
        take_all(seen, v);
#pragma unroll
        for (int k = 0; k < N; k++) v[k] = (T)point_value(decltype(op)::value, s.by, how.gain, max, looks, (float)v[k]);
      });
    };
    switch (s.op) {
      case TONES_SOLARIZE: return each(tones_known<TONES_SOLARIZE>());
      case TONES_POSTERIZE: return each(tones_known<TONES_POSTERIZE>());
      case TONES_INVERT: return each(tones_known<TONES_INVERT>());
      case TONES_GAMMA: return each(tones_known<TONES_GAMMA>());
      case TONES_BRIGHTNESS: return each(tones_known<TONES_BRIGHTNESS>());
      case TONES_CONTRAST: return each(tones_known<TONES_CONTRAST>());
      default: return each(tones_known<TONES_LEAVE>());
    }
  }
}

/* ---- pixels of three channels ---- */
template <typename T>
static __device__ __forceinline__ void mix(const tones_how &how, const tones_step &s, T &r, T &g, T &b, limits &seen) {
  pixel p = {(float)r, (float)g, (float)b};
  if (sizeof(T) > 1) seen.take(p.r), seen.take(p.g), seen.take(p.b);
  if (s.op == TONES_GREY) p.r = p.g = p.b = pixel_grey(p.r, p.g, p.b, sizeof(T) == 1);
  else p = pixel_saturate(p, s.by, sizeof(T) == 1, sizeof(T) == 1 ? 255.0f : how.max);
  r = (T)p.r;
  g = (T)p.g;
  b = (T)p.b;
}

/* PLANES: a quad of each of three planes; else four pixels that lie in three quads. */
template <bool PLANES, typename T>
static __device__ __forceinline__ void mixed(const aug_job &j, const tones_how &how, const tones_step &s,
                                             limits &seen) {
  typedef aug_quad<T> quad;
  int64_t pixels = (int64_t)j.h * j.w, stride = (int64_t)gridDim.x * THREADS;
  int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  const T *in = static_cast<const T *>(j.in) + blockIdx.y * 3 * pixels;
  T *out = static_cast<T *>(j.out) + blockIdx.y * 3 * pixels;
  if (pixels % 4 || (reinterpret_cast<uintptr_t>(in) | reinterpret_cast<uintptr_t>(out)) % sizeof(quad)) {
    for (; at < pixels; at += stride) {
      int64_t i = PLANES ? at : 3 * at, apart = PLANES ? pixels : 1;
      T r = in[i], g = in[i + apart], b = in[i + 2 * apart];
      mix(how, s, r, g, b, seen);
      out[i] = r;
      out[i + apart] = g;
      out[i + 2 * apart] = b;
    }
    return;
  }
  for (; at < pixels / 4; at += stride) {
    quad v[3];
#pragma unroll
    for (int c = 0; c < 3; c++)
      v[c] = *reinterpret_cast<const quad *>(in + (PLANES ? c * pixels + 4 * at : 12 * at + 4 * c));
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const int r = PLANES ? k : 3 * k, apart = PLANES ? 4 : 1, g = r + apart, b = g + apart; /* of twelve elements */
      mix(how, s, v[r / 4].v[r % 4], v[g / 4].v[g % 4], v[b / 4].v[b % 4], seen);
    }
#pragma unroll
    for (int c = 0; c < 3; c++)
      *reinterpret_cast<quad *>(out + (PLANES ? c * pixels + 4 * at : 12 * at + 4 * c)) = v[c];
  }
}

/* ---- quads of a row ---- */
/* Elements e .. e + 3 of a row of n, as far as they are there. */
template <typename T> static __device__ __forceinline__ void load(T (&v)[4], const T *row, int e, int n) {
  if (n % 4 == 0 && reinterpret_cast<uintptr_t>(row) % sizeof(aug_quad<T>) == 0) {
    aug_quad<T> q = *reinterpret_cast<const aug_quad<T> *>(row + e);
#pragma unroll
    for (int k = 0; k < 4; k++) v[k] = q.v[k];
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; k++) v[k] = row[e + k < n ? e + k : n - 1];
}

template <typename T>
static __device__ __forceinline__ void moved(const aug_job &j, const tones_how &how, const tones_step &s) {
  const T *from = aug_row<T>(j, blockIdx.y, 0, 0);
  __shared__ point_move shared;
  if (threadIdx.x == 0) shared = point_move_of(s.op, s.by, j.h, j.w);
  __syncthreads();
  const point_move m = shared;
  aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
      int x = j.pix == 1 ? e + k : (e + k) / j.pix, c = e + k - x * j.pix;
      if (x >= j.w) break;
      int at = point_from(&m, x, y, j.h, j.w);
      if (at >= 0) v[k] = from[(plane * j.h * j.w + at) * j.pix + c];
      else v[k] = j.mask ? (T)how.mask_fill : fill_of(T(), how.fill[(plane + c) % how.fills]);
    }
  });
}

/* a, b, c: elements of three rows, of which the middle one has its neighbours `apart` elements away. */
template <typename T>
static __device__ __forceinline__ T sharp_value(const T *a, const T *b, const T *c, int apart, float by, float max) {
  float v = (float)b[0], smooth;
  float p[3] = {(float)a[-apart], (float)a[0], (float)a[apart]};
  float q[3] = {(float)b[-apart], v, (float)b[apart]};
  float r[3] = {(float)c[-apart], (float)c[0], (float)c[apart]};
  if (sizeof(T) == 1)
    smooth = point_smooth_byte((int)p[0] + (int)p[1] + (int)p[2] + (int)q[0] + (int)q[1] + (int)q[2] + (int)r[0] +
                                   (int)r[1] + (int)r[2],
                               (int)v);
  else smooth = point_smooth(p, q, r);
  return (T)point_sharpen(v, smooth, by, sizeof(T) == 1, max);
}

/* The quad at e of row y, from what is loaded of three rows at once; pixels of an edge stay, but are stored anew. */
template <typename T, int PIX>
static __device__ __forceinline__ void sharp_quad(const T *row, int e, int n, bool inner, float by, float max,
                                                  T (&v)[4]) {
  T around[3][4 + 2 * PIX];
#pragma unroll
  for (int i = 0; i < 3; i++) {
    const T *r = inner ? row + (i - 1) * n : row;
    T mid[4];
    load(mid, r, e, n);
#pragma unroll
    for (int k = 0; k < 4; k++) around[i][PIX + k] = mid[k];
#pragma unroll
    for (int k = 0; k < PIX; k++) {
      around[i][k] = r[e + k < PIX ? 0 : e - PIX + k];
      around[i][PIX + 4 + k] = r[e + 4 + k < n ? e + 4 + k : n - 1];
    }
  }
#pragma unroll
  for (int k = 0; k < 4; k++) {
    bool in = inner && e + k >= PIX && e + k < n - PIX;
    const T *a = &around[0][PIX + k], *b = &around[1][PIX + k], *c = &around[2][PIX + k];
    v[k] = in ? sharp_value(a, b, c, PIX, by, max) : (T)point_sharpen((float)*b, (float)*b, by, sizeof(T) == 1, max);
  }
}

template <typename T>
static __device__ __forceinline__ void sharpened(const aug_job &j, const tones_how &how, const tones_step &s,
                                                 limits &seen) {
  const T *from = aug_row<T>(j, blockIdx.y, 0, 0);
  float max = sizeof(T) == 1 ? 255.0f : how.max;
  int n = j.w * j.pix;
  aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
    const T *row = from + (plane * j.h + y) * n;
    bool inner = y > 0 && y < j.h - 1;
    if (sizeof(T) > 1) {
      load(v, row, e, n);
#pragma unroll
      for (int k = 0; k < 4; k++) seen.take((float)v[k]);
    }
    if (j.pix == 1) return sharp_quad<T, 1>(row, e, n, inner, s.by, max, v);
    if (j.pix == 3) return sharp_quad<T, 3>(row, e, n, inner, s.by, max, v);
    for (int k = 0; k < 4 && e + k < n; k++) {
      const T *b = row + e + k;
      bool in = inner && e + k >= j.pix && e + k < n - j.pix;
      v[k] = in ? sharp_value(b - n, b, b + n, j.pix, s.by, max)
                : (T)point_sharpen((float)*b, (float)*b, s.by, sizeof(T) == 1, max);
    }
  });
}

/* ---- noise ---- */
static __device__ __forceinline__ uint8_t with_noise(uint8_t v, float z, const tones_how &how, float sigma) {
  return point_noisy_byte((float)v, z, sigma, how.mean);
}
static __device__ __forceinline__ float with_noise(float v, float z, const tones_how &how, float sigma) {
  return point_noisy(v, z, sigma, how.mean, how.max, how.clip);
}

/* Four normal numbers of a channel, of columns from 4 * four on. */
static __device__ __forceinline__ void normals(const aug_dice &dice, int64_t channel, int y, int w, int four,
                                               float (&z)[4]) {
  sp_rng4 r = sp_rng(point_noise_key(dice.step->key, channel), dice.ids[dice.same ? 0 : blockIdx.y],
                     point_noise_draw(y, w, four));
  point_normal(r.v[0], r.v[1], &z[0], &z[1]);
  point_normal(r.v[2], r.v[3], &z[2], &z[3]);
}

/* Four pixels of three channels side by side are three quads: each channel's numbers are drawn once. */
template <typename T>
static __device__ __forceinline__ void noisy_pixels(const aug_job &j, const aug_dice &dice, const tones_how &how,
                                                    const tones_step &s, limits &seen) {
  typedef aug_quad<T> quad;
  int fours = j.w / 4;
  const T *in = aug_row<T>(j, blockIdx.y, 0, 0);
  T *out = static_cast<T *>(j.out) + (in - static_cast<const T *>(j.in));
  int64_t all = (int64_t)j.h * fours;
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < all; i += (int64_t)gridDim.x * THREADS) {
    int y = (int)((uint32_t)i / (uint32_t)fours), four = (int)i - y * fours;
    float z[3][4];
    quad v[3];
#pragma unroll
    for (int c = 0; c < 3; c++) {
      v[c] = *reinterpret_cast<const quad *>(in + 12 * i + 4 * c);
      normals(dice, c, y, j.w, four, z[c]);
    }
#pragma unroll
    for (int k = 0; k < 12; k++) {
      T &at = v[k / 4].v[k % 4];
      if (sizeof(T) > 1) seen.take((float)at);
      at = with_noise(at, z[k % 3][k / 3], how, s.by);
    }
#pragma unroll
    for (int c = 0; c < 3; c++) *reinterpret_cast<quad *>(out + 12 * i + 4 * c) = v[c];
  }
}

template <typename T>
static __device__ __forceinline__ void noisy(const aug_job &j, const aug_dice &dice, const tones_how &how,
                                             const tones_step &s, limits &seen) {
  uintptr_t odd = reinterpret_cast<uintptr_t>(j.in) | reinterpret_cast<uintptr_t>(j.out);
  if (j.pix == 3 && j.w % 4 == 0 && odd % sizeof(aug_quad<T>) == 0) return noisy_pixels<T>(j, dice, how, s, seen);
  aug_each_quad<T>(j, [&](int64_t plane, int y, int e, T(&v)[4]) {
    load(v, aug_row<T>(j, blockIdx.y, plane, y), e, j.w * j.pix);
    float z[4];
    normals(dice, j.pix == 1 ? plane : e % j.pix, y, j.w, e / j.pix / 4, z);
#pragma unroll
    for (int k = 0; k < 4; k++) {
      int x = (e + k) / j.pix, c = e + k - x * j.pix;
      if (sizeof(T) > 1) seen.take((float)v[k]);
      if (j.pix > 1 && k > 0) normals(dice, c, y, j.w, x / 4, z);
      int i = j.pix > 1 ? x % 4 : k;
      v[k] = with_noise(v[k], i == 0 ? z[0] : i == 1 ? z[1] : i == 2 ? z[2] : z[3], how, s.by);
    }
  });
}

#endif
