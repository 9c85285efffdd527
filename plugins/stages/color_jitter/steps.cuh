/* SPDX-License-Identifier: MIT
 * steps.cuh - what a thread does to some pixels of an image: taken from it, changed step by step, put back and added
 * up, with the same bits as pixel.h gives.
 */
#ifndef COLOR_JITTER_STEPS_CUH
#define COLOR_JITTER_STEPS_CUH

#include <stddef.h>

#include "color_jitter.h"
#include "turn.cuh"

/* P pixels of one or three channels. A byte is held as itself and TURN_BYTE, so that it is the lowest one of its
 * float's bits. */
template <int C, int P> struct some { float c[C][P]; };

/* How what is held is known to be. PLAIN: floats 0..1, none of them -0; then it is so after each step too. */
enum { BYTES, PLAIN, ANY };

/* ---- from memory and back ---- */
/* P elements that lie side by side, where P is above 1 at an address for one access. */
template <int P> static __device__ __forceinline__ void get(const uint8_t *p, float *v) {
  uint32_t bytes = P == 4 ? *reinterpret_cast<const uint32_t *>(p) : *p;
#pragma unroll
  for (int k = 0; k < P; k++)
    v[k] = __uint_as_float(__byte_perm(bytes, __float_as_uint(TURN_BYTE), 0x7440u + (unsigned)k));
}

template <int P> static __device__ __forceinline__ void get(const float *p, float *v) {
  if constexpr (P == 4) {
    float4 q = *reinterpret_cast<const float4 *>(p);
    v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
  } else {
    v[0] = *p;
  }
}

template <int P> static __device__ __forceinline__ void put(uint8_t *p, const float *v) {
  uint32_t b[P];
#pragma unroll
  for (int k = 0; k < P; k++) b[k] = __float_as_uint(v[k]);
  if constexpr (P == 4)
    *reinterpret_cast<uint32_t *>(p) =
        __byte_perm(__byte_perm(b[0], b[1], 0x40u), __byte_perm(b[2], b[3], 0x40u), 0x5410u);
  else *p = (uint8_t)b[0];
}

template <int P> static __device__ __forceinline__ void put(float *p, const float *v) {
  if constexpr (P == 4) *reinterpret_cast<float4 *>(p) = make_float4(v[0], v[1], v[2], v[3]);
  else *p = v[0];
}

/* Where the q-th P elements of pixels i .. i + P - 1 of a sample lie. INTERLEAVED: of a channels-last image. */
template <int C, int P, bool INTERLEAVED, typename T, typename I>
static __device__ __forceinline__ T *part_of(T *p, I i, I pixels, int q) {
  return INTERLEAVED ? p + i * C + P * q : p + q * pixels + i;
}

/* part(q): where the q-th P elements lie. */
template <int C, int P, bool INTERLEAVED, typename Part>
static __device__ __forceinline__ void load(some<C, P> &y, Part part) {
  float v[C * P];
#pragma unroll
  for (int q = 0; q < C; q++) get<P>(part(q), v + P * q);
#pragma unroll
  for (int e = 0; e < C * P; e++) (INTERLEAVED ? y.c[e % C][e / C] : y.c[e / P][e % P]) = v[e];
}

template <int C, int P, bool INTERLEAVED, typename Part>
static __device__ __forceinline__ void store(const some<C, P> &x, Part part) {
  float v[C * P];
#pragma unroll
  for (int e = 0; e < C * P; e++) v[e] = INTERLEAVED ? x.c[e % C][e / C] : x.c[e / P][e % P];
#pragma unroll
  for (int q = 0; q < C; q++) put<P>(part(q), v + P * q);
}

/* ---- lists of steps ---- */
/* From here on the compiler does not know where a value comes from, but that a pointer is one to global memory: it is
 * kept in a register, not made anew at each use. */
static __device__ __forceinline__ void keep(uint32_t &v) {
#ifdef __CUDACC__
  asm volatile("" : "+r"(v));
#else
  (void)v;
#endif
}
template <typename T> static __device__ __forceinline__ void keep(T *&p) {
#ifdef __CUDACC__
  asm volatile("" : "+l"(p));
  __builtin_assume(__isGlobal(p));
#else
  (void)p;
#endif
}

/* What lies in shared memory of one step, so that it is one access. BLEND: by * v + other; SATURATE: by * v + other *
 * grey; TURN: by `by`. ABOVE: blends by more than 1, which can leave what bytes hold; HUGE_BY: by so much that it
 * can overflow. */
enum { DONE, TURN, BLEND, SATURATE, ABOVE = 4, HUGE_BY = 8 };
struct __align__(16) step {
  float by, other;
  uint32_t kind;
};
static_assert(sizeof(step) == 16 && offsetof(step, other) == 4 && offsetof(step, kind) == 8, "as walk reads it");

/* Steps from .. to of a sample and what ends them. Contrast still lacks the mean. */
static __device__ void list_steps(const jitter_factors &factors, uint32_t steps, int from, int to, step *list) {
  for (int i = from; i < to && jitter_op(steps, i) != JITTER_END; i++, list++) {
    int op = jitter_op(steps, i);
    float by = factors.by[op];
    list->by = by;
    list->other = op == JITTER_SATURATION ? __fsub_rn(1.0f, by) : 0.0f;
    list->kind = op == JITTER_HUE ? TURN
                                  : (op == JITTER_SATURATION ? SATURATE : BLEND) | (by > 1.0f ? ABOVE : 0) |
                                        (by > 1e30f ? HUGE_BY : 0);
  }
  list->kind = DONE;
}

/* Contrast, whose step this is, gets its mean. */
static __device__ __forceinline__ void give_mean(step *contrast, float by, float mean) {
  contrast->other = __fmul_rn(__fsub_rn(1.0f, by), mean);
}

/* A list that is walked along. */
struct walk {
#ifdef __CUDACC__
  uint32_t at;
  __device__ __forceinline__ explicit walk(const step *list) {
    at = (uint32_t)__cvta_generic_to_shared(list);
    keep(at);
  }
  __device__ __forceinline__ step next() {
    step s;
    [[maybe_unused]] uint32_t none;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(s.by), "=f"(s.other), "=r"(s.kind), "=r"(none)
                 : "r"(at)
                 : "memory");
    at += (uint32_t)sizeof s;
    return s;
  }
#else
  const step *at;
  explicit walk(const step *list) : at(list) {}
  step next() { return *at++; }
#endif
};

/* ---- steps ---- */
static __device__ __forceinline__ float cut(float v) { return __fadd_rz(v, TURN_BYTE); }

/* by times what is held, rounded once. */
template <int KIND> static __device__ __forceinline__ float times(float by, float v) {
  return KIND == BYTES ? __fmaf_rn(by, v, __fmul_rn(by, -TURN_BYTE)) : __fmul_rn(by, v);
}

/* A number, which came of a blend, as it is held. As integers, floats are in the same order, and negative below 0. NaN,
 * which only huge factors make, becomes 0 in bytes. */
enum { WITHIN, CLAMPED, CLAMPED_NAN };
template <int KIND, int HOW> static __device__ __forceinline__ float held(float v, float max) {
  if (KIND == PLAIN) return __saturatef(v);
  if (KIND == ANY) return pixel_clamp(v, max);
  if (HOW == WITHIN) return cut(v);
  if (HOW == CLAMPED_NAN) return cut(fminf(fmaxf(v, 0.0f), 255.0f));
  return cut(__int_as_float(::max(::min(__float_as_int(v), __float_as_int(255.0f)), 0)));
}

/* The grey of what is held, held like that. */
template <int C, int P, int KIND> static __device__ __forceinline__ float grey_of(const some<C, P> &v, int k) {
  if (C == 1) return v.c[0][k];
  float y = __fadd_rn(__fadd_rn(times<KIND>(0.2989f, v.c[0][k]), times<KIND>(0.587f, v.c[1 % C][k])),
                      times<KIND>(0.114f, v.c[2 % C][k]));
  return KIND == BYTES ? cut(y) : y;
}

template <int C, int P, int KIND, int HOW>
static __device__ __forceinline__ void blend(const step &s, float max, some<C, P> &v) {
  float other[P];
  if (C == 3 && (s.kind & 3) == SATURATE) {
#pragma unroll
    for (int k = 0; k < P; k++) other[k] = times<KIND>(s.other, grey_of<C, P, KIND>(v, k));
  } else {
#pragma unroll
    for (int k = 0; k < P; k++) other[k] = s.other;
  }
#pragma unroll
  for (int e = 0; e < C * P; e++) {
    float &x = v.c[e / P][e % P];
    x = held<KIND, HOW>(__fadd_rn(times<KIND>(s.by, x), other[e % P]), max);
  }
}

template <int C, int P> static __device__ __noinline__ void blend_huge(step s, some<C, P> &v) {
  blend<C, P, BYTES, CLAMPED_NAN>(s, 255.0f, v);
}

template <int P, int KIND> static __device__ __forceinline__ void turn_all(float by, bool wide, some<3, P> &v) {
  pixel x[P];
#pragma unroll
  for (int k = 0; k < P; k++) x[k] = {v.c[0][k], v.c[1][k], v.c[2][k]};
  if constexpr (KIND == BYTES) {
#pragma unroll
    for (int k = 0; k < P; k++) x[k] = turn_bytes(x[k], by);
  } else {
    turn_floats<P, KIND == PLAIN>(x, by, wide);
  }
#pragma unroll
  for (int k = 0; k < P; k++) v.c[0][k] = x[k].r, v.c[1][k] = x[k].g, v.c[2][k] = x[k].b;
}

template <int C, int P, int KIND>
static __device__ __forceinline__ void change_as(walk list, float max, some<C, P> &v) {
#pragma unroll 1
  for (;;) {
    step s = list.next();
    if (s.kind == DONE) return;
    if (C == 3 && s.kind == TURN) {
      if constexpr (C == 3) turn_all<P, KIND>(s.by, max > 1.0f, v);
    } else if (KIND != BYTES || s.kind < ABOVE) {
      blend<C, P, KIND, WITHIN>(s, max, v);
    } else if (s.kind < HUGE_BY) {
      blend<C, P, KIND, CLAMPED>(s, max, v);
    } else {
      some<C, P> x = v;
      blend_huge(s, x);
      v = x;
    }
  }
}

template <int C, int P> static __device__ __noinline__ void change_any(walk list, float max, some<C, P> &v) {
  change_as<C, P, ANY>(list, max, v);
}

/* The steps of a list, of bytes or of floats up to `max`. */
template <int C, int P, bool WHOLE>
static __device__ __forceinline__ void change(const walk &list, float max, some<C, P> &v) {
  if constexpr (WHOLE) {
    change_as<C, P, BYTES>(list, max, v);
  } else {
    uint32_t most = 0;
#pragma unroll
    for (int e = 0; e < C * P; e++) most = ::max(most, __float_as_uint(v.c[e / P][e % P]));
    if (max == 1.0f && most <= __float_as_uint(1.0f)) {
      change_as<C, P, PLAIN>(list, max, v);
    } else {
      some<C, P> x = v;
      change_any(list, max, x);
      v = x;
    }
  }
}

/* ---- sums of greys; bytes have whole ones ---- */
template <typename T> struct sum_for { typedef double type; };
template <> struct sum_for<uint8_t> { typedef uint32_t type; };

template <int C, int P> static __device__ __forceinline__ void add_up(uint32_t &sum, const some<C, P> &v) {
#pragma unroll
  for (int k = 0; k < P; k++) sum += __float_as_uint(grey_of<C, P, BYTES>(v, k)) - __float_as_uint(TURN_BYTE);
}
template <int C, int P> static __device__ __forceinline__ void add_up(double &sum, const some<C, P> &v) {
#pragma unroll
  for (int k = 0; k < P; k++) sum = __dadd_rn(sum, (double)grey_of<C, P, ANY>(v, k));
}

#endif
