/* SPDX-License-Identifier: MIT
 * cuda_emu.h - what a .cu file needs to be compiled as C++17 and run by the processor, one thread of a block at a time.
 *
 * Threads of a block run until they meet a barrier or a warp operation; a thread that meets none costs no switch.
 * Blocks run one after the other. Misuse that a GPU would not report (a barrier that part of a warp never reaches, a
 * shuffle by a lane outside its mask) ends the program with words.
 */
#ifndef SPCORE_CUDA_EMU_H
#define SPCORE_CUDA_EMU_H

#ifndef __cplusplus
#error "cuda_emu.h is for .cu files, compiled as C++"
#endif

#define __shared__ static /* blocks run one at a time */
#define __launch_bounds__(...)
#define __noinline__ __attribute__((noinline))

#include <cuda_runtime.h>
#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace sp_emu {

/* Runs `body` once for each thread of the grid, on the stream; errors are kept for cudaPeekAtLastError. */
void launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes, void *stream, std::function<void()> body);

template <typename... P> struct launch_of {
  void (*kernel)(P...);
  dim3 grid, block;
  size_t shared_bytes;
  void *stream;
  void operator()(P... args) const {
    static_assert((sizeof(std::tuple<P...>)) <= 32764, "arguments of a kernel have at most 32764 bytes");
    auto run = [k = kernel, kept = std::tuple<P...>(args...)] { std::apply(k, kept); };
    launch(reinterpret_cast<const void *>(kernel), grid, block, shared_bytes, stream, run);
  }
};

template <typename... P>
launch_of<P...> launcher(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, void *stream) {
  return {kernel, grid, block, shared_bytes, stream};
}

void *dynamic_shared();
void barrier();
int barrier_count(int predicate); /* of how many threads the predicate holds */
void warp_barrier(unsigned mask);
unsigned warp_ballot(unsigned mask, int predicate);
unsigned warp_active();
unsigned lane();
/* `out` gets the value of lane `from`; garbage where that lane is not in the mask. At most 16 bytes. */
void warp_exchange(unsigned mask, const void *value, size_t bytes, unsigned from, void *out);
const void *warp_gather(unsigned mask, const void *value, size_t bytes);
[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

template <typename T> T exchange(unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) <= 16, "a shuffled value has at most 16 bytes");
  T out;
  warp_exchange(mask, &value, sizeof value, from, &out);
  return out;
}

/* The values of the lanes of the mask, [i] lane i's, until the lane's third gather from this one: for what tensor cores
 * do, at a small part of the cost of as many shuffles. */
template <typename T> const T *gather(const T &value, unsigned mask = 0xffffffffu) {
  static_assert(sizeof(T) <= 16 && std::is_trivially_copyable_v<T>, "a gathered value has at most 16 bytes");
  return static_cast<const T *>(warp_gather(mask, &value, sizeof value));
}

template <typename To, typename From> To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

} // namespace sp_emu

using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

/* ---- barriers and warps ---- */
inline void __syncthreads() { sp_emu::barrier(); }
inline int __syncthreads_count(int predicate) { return sp_emu::barrier_count(predicate); }
inline int __syncthreads_or(int predicate) { return sp_emu::barrier_count(predicate) != 0; }
inline int __syncthreads_and(int predicate) { return sp_emu::barrier_count(!predicate) == 0; }
inline void __syncwarp(unsigned mask = 0xffffffffu) { sp_emu::warp_barrier(mask); }
inline unsigned __activemask() { return sp_emu::warp_active(); }
inline unsigned __ballot_sync(unsigned mask, int predicate) { return sp_emu::warp_ballot(mask, predicate); }
inline int __any_sync(unsigned mask, int predicate) { return sp_emu::warp_ballot(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return sp_emu::warp_ballot(mask, !predicate) == 0; }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
[[noreturn]] inline void __trap() { sp_emu::die("a kernel called __trap()"); }

template <typename T> T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  unsigned me = sp_emu::lane(), base = me & ~(static_cast<unsigned>(width) - 1);
  return sp_emu::exchange(mask, value, base + (static_cast<unsigned>(from) & (static_cast<unsigned>(width) - 1)));
}
template <typename T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  unsigned me = sp_emu::lane(), place = me & (static_cast<unsigned>(width) - 1);
  return sp_emu::exchange(mask, value, place < delta ? me : me - delta);
}
template <typename T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  unsigned me = sp_emu::lane(), place = me & (static_cast<unsigned>(width) - 1);
  return sp_emu::exchange(mask, value, place + delta >= static_cast<unsigned>(width) ? me : me + delta);
}
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  unsigned me = sp_emu::lane(), from = me ^ static_cast<unsigned>(lanes);
  unsigned end = (me & ~(static_cast<unsigned>(width) - 1)) + static_cast<unsigned>(width);
  return sp_emu::exchange(mask, value, from < end ? from : me);
}

/* ---- atomics: threads are never interrupted between two barriers ---- */
template <typename T> using sp_emu_integer = std::enable_if_t<std::is_integral_v<T>, T>;
template <typename T> T sp_emu_swap(T *p, T value) {
  T old = *p;
  *p = value;
  return old;
}
/* No overloads for float and double: their sums would depend on the order of the threads. */
template <typename T> sp_emu_integer<T> atomicAdd(T *p, std::common_type_t<T> v) {
  return sp_emu_swap(p, static_cast<T>(*p + v));
}
template <typename T> sp_emu_integer<T> atomicSub(T *p, std::common_type_t<T> v) {
  return sp_emu_swap(p, static_cast<T>(*p - v));
}
template <typename T> sp_emu_integer<T> atomicMin(T *p, std::common_type_t<T> v) {
  return sp_emu_swap(p, v < *p ? v : *p);
}
template <typename T> sp_emu_integer<T> atomicMax(T *p, std::common_type_t<T> v) {
  return sp_emu_swap(p, v > *p ? v : *p);
}
template <typename T> sp_emu_integer<T> atomicAnd(T *p, std::common_type_t<T> v) {
  return sp_emu_swap(p, static_cast<T>(*p & v));
}
template <typename T> sp_emu_integer<T> atomicOr(T *p, std::common_type_t<T> v) {
  return sp_emu_swap(p, static_cast<T>(*p | v));
}
template <typename T> sp_emu_integer<T> atomicXor(T *p, std::common_type_t<T> v) {
  return sp_emu_swap(p, static_cast<T>(*p ^ v));
}
template <typename T> T atomicExch(T *p, std::common_type_t<T> v) { return sp_emu_swap(p, v); }
template <typename T> sp_emu_integer<T> atomicCAS(T *p, std::common_type_t<T> expected, std::common_type_t<T> v) {
  return sp_emu_swap(p, *p == expected ? v : *p);
}
inline unsigned atomicInc(unsigned *p, unsigned last) { return sp_emu_swap(p, *p >= last ? 0u : *p + 1u); }

/* ---- loads and stores with hints ---- */
template <typename T> T __ldg(const T *p) { return *p; }
template <typename T> T __ldcs(const T *p) { return *p; }
template <typename T> T __ldcg(const T *p) { return *p; }
template <typename T> T __ldca(const T *p) { return *p; }
template <typename T> T __ldcv(const T *p) { return *p; }
template <typename T> T __ldlu(const T *p) { return *p; }
template <typename T> void __stcs(T *p, std::common_type_t<T> v) { *p = v; }
template <typename T> void __stcg(T *p, std::common_type_t<T> v) { *p = v; }
template <typename T> void __stwb(T *p, std::common_type_t<T> v) { *p = v; }
template <typename T> void __stwt(T *p, std::common_type_t<T> v) { *p = v; }

/* ---- arithmetic; -ffp-contract=off keeps the written roundings ---- */
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
/* Towards minus infinity: the product of two floats is a double, and what its sum with a third one lost another. */
inline float __fmaf_rd(float a, float b, float c) {
  double product = static_cast<double>(a) * b, sum = product + c, of_c = sum - product;
  double lost = (product - (sum - of_c)) + (c - of_c);
  float f = static_cast<float>(sum);
  return f > sum || (f == sum && lost < 0) ? nextafterf(f, -HUGE_VALF) : f;
}
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
/* Rounded down and towards 0: to the nearest, then one step back where that went too far. TwoSum says what it lost. */
namespace sp_emu {
template <typename T> T lost(T a, T b, T sum) {
  volatile T part = sum - a, rest = sum - part, x = a - rest, y = b - part;
  return x + y;
}
} // namespace sp_emu
inline float __fadd_rd(float a, float b) {
  float sum = a + b;
  return sp_emu::lost(a, b, sum) < 0.0f ? std::nextafterf(sum, -INFINITY) : sum;
}
inline float __fadd_rz(float a, float b) {
  float sum = a + b, less = sp_emu::lost(a, b, sum);
  return (sum > 0.0f && less < 0.0f) || (sum < 0.0f && less > 0.0f) ? std::nextafterf(sum, 0.0f) : sum;
}
inline float __fmaf_rz(float a, float b, float c) {
  double part = static_cast<double>(a) * static_cast<double>(b), sum = part + static_cast<double>(c);
  float near = static_cast<float>(sum);
  double less = (sum - static_cast<double>(near)) + sp_emu::lost(part, static_cast<double>(c), sum);
  return (near > 0.0f && less < 0.0) || (near < 0.0f && less > 0.0) ? std::nextafterf(near, 0.0f) : near;
}
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __frsqrt_rn(float a) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(a))); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float a) { return expf(a); }
inline float __exp10f(float a) { return powf(10.0f, a); }
inline float __logf(float a) { return logf(a); }
inline float __log2f(float a) { return log2f(a); }
inline float __powf(float a, float b) { return powf(a, b); }
inline float __sinf(float a) { return sinf(a); }
inline float __cosf(float a) { return cosf(a); }
inline float __saturatef(float a) { return a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f; }
inline float rsqrtf(float a) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(a))); }
inline double rsqrt(double a) { return 1.0 / std::sqrt(a); }

inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}
inline int __popc(unsigned a) { return __builtin_popcount(a); }
inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
inline int __clz(int a) { return a ? __builtin_clz(static_cast<unsigned>(a)) : 32; }
inline int __ffs(int a) { return __builtin_ffs(a); }
/* Four bytes of the eight of `low` and `high`: the lowest digit of `which` says what becomes the lowest byte; a digit
 * of 8 and more gives its byte's highest bit eight times. */
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned which) {
  uint64_t all = static_cast<uint64_t>(high) << 32 | low;
  unsigned made = 0;
  for (int i = 0; i < 4; i++) {
    unsigned digit = which >> 4 * i & 15, byte = static_cast<unsigned>(all >> 8 * (digit & 7)) & 255;
    made |= (digit < 8 ? byte : byte & 128 ? 255u : 0u) << 8 * i;
  }
  return made;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
  for (int i = 0; i < 32; i += 8) sum += (a >> i & 255) * (b >> i & 255);
  return sum;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) >> (by & 31));
}

inline unsigned __float_as_uint(float a) { return sp_emu::bits<unsigned>(a); }
inline int __float_as_int(float a) { return sp_emu::bits<int>(a); }
inline float __uint_as_float(unsigned a) { return sp_emu::bits<float>(a); }
inline float __int_as_float(int a) { return sp_emu::bits<float>(a); }
inline long long __double_as_longlong(double a) { return sp_emu::bits<long long>(a); }
inline double __longlong_as_double(long long a) { return sp_emu::bits<double>(a); }
inline int __float2int_rn(float a) { return static_cast<int>(rintf(a)); }
inline int __float2int_rz(float a) { return static_cast<int>(a); }
inline int __float2int_rd(float a) { return static_cast<int>(floorf(a)); }
inline int __float2int_ru(float a) { return static_cast<int>(ceilf(a)); }
inline unsigned __float2uint_rn(float a) { return static_cast<unsigned>(rintf(a)); }
inline float __int2float_rn(int a) { return static_cast<float>(a); }
inline float __uint2float_rn(unsigned a) { return static_cast<float>(a); }
inline float __double2float_rn(double a) { return static_cast<float>(a); }
inline size_t __cvta_generic_to_shared(const void *p) { return reinterpret_cast<size_t>(p); }

/* As in CUDA: any two arithmetic types; with NaN, the other one of two floats. */
template <typename A, typename B> constexpr auto min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(std::fmin(static_cast<T>(a), static_cast<T>(b)));
  else return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <typename A, typename B> constexpr auto max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(std::fmax(static_cast<T>(a), static_cast<T>(b)));
  else return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}

#endif
