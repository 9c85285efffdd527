/* SPDX-License-Identifier: MIT
 * check_emu.cpp - the CUDA emulator itself: threads, barriers, warps, streams, capture, memory, products, convolutions.
 */
#include "../../plugins/kits/cuda/launch.h"

#include <check.h>
#include <cublasLt.h>
#include <cudnn.h>

#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <time.h>
#include <vector>

/* ---- help ---- */

template <typename T> struct on_device {
  T *p = nullptr;
  size_t n;
  explicit on_device(size_t count) : n(count) {
    ck_assert_int_eq(cudaMalloc(reinterpret_cast<void **>(&p), n * sizeof(T)), cudaSuccess);
  }
  explicit on_device(const std::vector<T> &v) : on_device(v.size()) {
    ck_assert_int_eq(cudaMemcpy(p, v.data(), n * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~on_device() { cudaFree(p); }
  on_device(const on_device &) = delete;
  on_device &operator=(const on_device &) = delete;
  std::vector<T> get() const {
    std::vector<T> v(n);
    ck_assert_int_eq(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return v;
  }
};

static std::vector<float> numbers(size_t n) {
  static uint32_t state = 1;
  std::vector<float> v(n);
  for (float &x : v) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
  }
  return v;
}

static void close_to(float got, double wanted, double tolerance) {
  ck_assert_double_le(std::fabs(static_cast<double>(got) - wanted), tolerance);
}

/* ---- threads ---- */

static __global__ void where(int *out) {
  int t = static_cast<int>((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
  int b = static_cast<int>((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);
  out[b * static_cast<int>(blockDim.x * blockDim.y * blockDim.z) + t] = b * 1000 + t;
}

START_TEST(indices) {
  on_device<int> out(2 * 3 * 2 * 24);
  SP_LAUNCH(where, dim3(2, 3, 2), dim3(4, 3, 2), 0, nullptr, out.p);
  ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
  std::vector<int> v = out.get();
  for (int i = 0; i < static_cast<int>(v.size()); i++)
    ck_assert_int_eq(v[static_cast<size_t>(i)], i / 24 * 1000 + i % 24);
}
END_TEST

/* Sums a block's numbers in a tree; some threads leave before the first barrier. */
template <typename T, int THREADS> static __global__ void tree(T *out, const T *in, int leaves) {
  __shared__ T kept[THREADS];
  SP_DYNAMIC_SHARED(T, copy);
  int t = static_cast<int>(threadIdx.x);
  if (t >= leaves) return;
  copy[t] = in[blockIdx.x * static_cast<unsigned>(leaves) + threadIdx.x];
  kept[t] = copy[t];
  __syncthreads();
  for (int d = leaves / 2; d; d /= 2) {
    if (t < d) kept[t] += kept[t + d];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = kept[0] + copy[leaves - 1];
}

START_TEST(barriers) {
  std::vector<int> in(5 * 64);
  for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<int>(i);
  on_device<int> from(in), out(5);
  SP_LAUNCH((tree<int, 96>), 5, 96, 64 * sizeof(int), nullptr, out.p, from.p, 64);
  ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
  std::vector<int> v = out.get();
  for (int b = 0; b < 5; b++) ck_assert_int_eq(v[static_cast<size_t>(b)], 64 * (64 * b) + 63 * 32 + 64 * b + 63);
}
END_TEST

START_TEST(directed_rounding) {
  const float one = 1.0f, tiny = 0x1p-60f, whole = 8388608.0f;
  ck_assert(__fadd_rz(one, tiny) == one && __fadd_rz(-one, -tiny) == -one);
  ck_assert(__fadd_rz(one, -tiny) == 0x1.fffffep-1f && __fadd_rz(-one, tiny) == -0x1.fffffep-1f);
  ck_assert(__fadd_rd(one, tiny) == one && __fadd_rd(one, -tiny) == 0x1.fffffep-1f);
  ck_assert(__fadd_rd(-one, tiny) == -one && __fadd_rd(-one, -tiny) == -0x1.000002p+0f);
  for (int i = 0; i < 1000; i++) {
    float x = static_cast<float>(i) * 0.2557f;
    ck_assert(__fadd_rz(x, whole) - whole == std::trunc(x));
    ck_assert(__fadd_rd(-x, whole * 1.5f) - whole * 1.5f == std::floor(-x));
    ck_assert(__fmaf_rz(x, 3.0f, whole) - whole == std::trunc(3.0 * static_cast<double>(x)));
  }
  ck_assert(__fmaf_rz(one, one, -tiny) == 0x1.fffffep-1f && __fmaf_rz(-one, one, -tiny) == -one);
  ck_assert(__fmaf_rz(0x1.000002p+0f, 0x1.000002p+0f, 0.0f) == 0x1.000004p+0f);
}
END_TEST

START_TEST(byte_permutations) {
  ck_assert_uint_eq(__byte_perm(0x03020100u, 0x07060504u, 0x7531u), 0x07050301u);
  ck_assert_uint_eq(__byte_perm(0x03020100u, 0x07060504u, 0x0426u), 0x00040206u);
}
END_TEST

static __global__ void votes(int *out) {
  int t = static_cast<int>(threadIdx.x);
  out[t] = __syncthreads_count(t % 3 == 0);
  out[64 + t] = __syncthreads_or(t == 63);
  out[128 + t] = __syncthreads_and(t != 63);
}

START_TEST(counting_barriers) {
  on_device<int> out(192);
  SP_LAUNCH(votes, 1, 64, 0, nullptr, out.p);
  std::vector<int> v = out.get();
  for (size_t t = 0; t < 64; t++) {
    ck_assert_int_eq(v[t], 22);
    ck_assert_int_ne(v[64 + t], 0);
    ck_assert_int_eq(v[128 + t], 0);
  }
}
END_TEST

/* ---- warps ---- */

static __global__ void shuffles(int *out) {
  unsigned all = 0xffffffffu;
  int t = static_cast<int>(threadIdx.x), *mine = out + t * 8;
  mine[0] = __shfl_sync(all, t, 5);
  mine[1] = __shfl_xor_sync(all, t, 3);
  mine[2] = __shfl_down_sync(all, t, 4);
  mine[3] = __shfl_up_sync(all, t, 4, 8);
  mine[4] = __shfl_sync(all, t, 1, 8);
  mine[5] = static_cast<int>(__ballot_sync(all, t % 2));
  mine[6] = __any_sync(all, t == 40) * 2 + __all_sync(all, t < 32);
  double sum = t;
  for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(all, sum, d);
  mine[7] = static_cast<int>(sum);
}

START_TEST(warps) {
  on_device<int> out(64 * 8);
  SP_LAUNCH(shuffles, 1, 64, 0, nullptr, out.p);
  std::vector<int> v = out.get();
  for (int t = 0; t < 64; t++) {
    const int *mine = &v[static_cast<size_t>(t) * 8];
    int w = t / 32 * 32;
    ck_assert_int_eq(mine[0], w + 5);
    ck_assert_int_eq(mine[1], t ^ 3);
    ck_assert_int_eq(mine[2], t % 32 + 4 < 32 ? t + 4 : t);
    ck_assert_int_eq(mine[3], t % 8 < 4 ? t : t - 4);
    ck_assert_int_eq(mine[4], t / 8 * 8 + 1);
    ck_assert_int_eq(mine[5], static_cast<int>(0xaaaaaaaau));
    ck_assert_int_eq(mine[6], w ? 2 : 1);
    ck_assert_int_eq(mine[7], 32 * w + 496);
  }
}
END_TEST

static __global__ void gathers(int *out) {
  int t = static_cast<int>(threadIdx.x), sum = 0;
  for (int k = 0; k < 10; k++) { /* two at a time, read when both are there */
    const int *squares = sp_emu::gather(t * t + k), *plain = sp_emu::gather(t);
    for (int i = 0; i < 32; i++) sum += k == 9 ? squares[i] - k : squares[i] - plain[i] * plain[i] - k;
    if (k == 9) sum += plain[31];
  }
  out[t] = sum;
}

START_TEST(gathering) {
  on_device<int> out(64);
  SP_LAUNCH(gathers, 1, 64, 0, nullptr, out.p);
  std::vector<int> v = out.get();
  for (int t = 0; t < 64; t++) ck_assert_int_eq(v[static_cast<size_t>(t)], t < 32 ? 10416 + 31 : 74928 + 63);
}
END_TEST

/* Two halves of a warp go their own ways; the last lanes are not there at all. */
static __global__ void halves(int *out) {
  int t = static_cast<int>(threadIdx.x);
  if (t >= 24) return;
  if (t < 8) out[t] = __shfl_sync(0x000000ffu, t, 7);
  else out[t] = __shfl_down_sync(0x00ffff00u, t, 1);
  __syncwarp(0x00ffffffu);
  out[t] += 100;
}

START_TEST(parts_of_a_warp) {
  on_device<int> out(24);
  SP_LAUNCH(halves, 1, 28, 0, nullptr, out.p);
  std::vector<int> v = out.get();
  for (int t = 0; t < 23; t++) ck_assert_int_eq(v[static_cast<size_t>(t)], 100 + (t < 8 ? 7 : t + 1));
}
END_TEST

static __global__ void counts(unsigned long long *sum, int *most, unsigned *tickets, int *order) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(sum, 3);
  atomicMax(most, i);
  unsigned ticket = atomicAdd(tickets, 1u);
  order[ticket] = i;
  atomicCAS(&tickets[1], 7u, 8u);
}

START_TEST(atomics) {
  on_device<unsigned long long> sum(std::vector<unsigned long long>{0});
  on_device<int> most(std::vector<int>{-5}), order(300);
  on_device<unsigned> tickets(std::vector<unsigned>{0, 7});
  SP_LAUNCH(counts, 3, 100, 0, nullptr, sum.p, most.p, tickets.p, order.p);
  ck_assert_uint_eq(sum.get()[0], 900);
  ck_assert_int_eq(most.get()[0], 299);
  ck_assert_uint_eq(tickets.get()[0], 300);
  ck_assert_uint_eq(tickets.get()[1], 8);
  std::vector<int> seen(300), v = order.get();
  for (int i : v) ck_assert_int_eq(seen[static_cast<size_t>(i)]++, 0);
}
END_TEST

/* ---- what a launch refuses ---- */

static __global__ void nothing() {}

START_TEST(launches_refused) {
  SP_LAUNCH(nothing, 0, 32, 0, nullptr);
  ck_assert_int_eq(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
  ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidConfiguration);
  ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
  SP_LAUNCH(nothing, 1, 1025, 0, nullptr);
  ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidConfiguration);
  SP_LAUNCH(nothing, dim3(1, 65536), 1, 0, nullptr);
  ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidConfiguration);
  SP_LAUNCH(nothing, 1, 1, 64 << 10, nullptr);
  ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidValue);
  ck_assert_int_eq(cudaFuncSetAttribute(reinterpret_cast<const void *>(&nothing),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10),
                   cudaSuccess);
  SP_LAUNCH(nothing, 1, 1, 64 << 10, nullptr);
  ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
  cudaStream_t s;
  cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  SP_LAUNCH(nothing, 1, 1, 0, nullptr); /* the default stream beside others */
  ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  cudaStreamDestroy(s);
  SP_LAUNCH(nothing, 1, 1, 0, s); /* a stream that is no more */
  ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}
END_TEST

static __global__ void waits_in_part() {
  if (threadIdx.x < 16) __syncthreads();
  else __shfl_sync(0xffffffffu, 1, 0);
}
static __global__ void outside_its_mask() { __shfl_sync(1u, 1, 0); }
static __global__ void writes_behind(char *p) { p[100] = 1; }

START_TEST(misuse_ends_the_program) {
  on_device<char> some(100);
  if (_i == 0) SP_LAUNCH(waits_in_part, 1, 32, 0, nullptr);
  if (_i == 1) SP_LAUNCH(outside_its_mask, 1, 32, 0, nullptr);
  if (_i == 2) {
    SP_LAUNCH(writes_behind, 1, 1, 0, nullptr, some.p);
    cudaDeviceSynchronize();
  }
}
END_TEST

/* ---- streams, events, capture ---- */

static __global__ void add_to(int *p, int v) { *p = *p * 10 + v; }

struct two_streams {
  cudaStream_t a, b;
  cudaEvent_t fork, join;
  two_streams() {
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&join, cudaEventDisableTiming);
  }
  ~two_streams() {
    cudaEventDestroy(fork);
    cudaEventDestroy(join);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
  }
};

START_TEST(fork_and_join) {
  on_device<int> p(std::vector<int>{0});
  two_streams s;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  ck_assert_int_eq(cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  SP_LAUNCH(add_to, 1, 1, 0, s.a, p.p, 1);
  cudaEventRecord(s.fork, s.a);
  ck_assert_int_eq(cudaStreamWaitEvent(s.b, s.fork, 0), cudaSuccess);
  SP_LAUNCH(add_to, 1, 1, 0, s.b, p.p, 2);
  cudaEventRecord(s.join, s.b);
  ck_assert_int_eq(cudaStreamWaitEvent(s.a, s.join, 0), cudaSuccess);
  SP_LAUNCH(add_to, 1, 1, 0, s.a, p.p, 3);
  ck_assert_int_eq(cudaEventQuery(s.join), cudaErrorCapturedEvent);
  ck_assert_int_eq(cudaStreamEndCapture(s.a, &graph), cudaSuccess);
  ck_assert_int_eq(cudaGetLastError(), cudaErrorCapturedEvent);
  ck_assert_int_eq(p.get()[0], 0); /* kept, not run */
  ck_assert_int_eq(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  ck_assert_int_eq(cudaGraphLaunch(exec, s.b), cudaSuccess);
  ck_assert_int_eq(cudaGraphLaunch(exec, s.b), cudaSuccess);
  cudaGraphExecDestroy(exec);
  cudaStreamSynchronize(s.b);
  ck_assert_int_eq(p.get()[0], 123123);
}
END_TEST

START_TEST(captures_refused) {
  on_device<int> p(std::vector<int>{0});
  two_streams s;
  cudaGraph_t graph;
  /* a stream that is never waited for */
  cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal);
  cudaEventRecord(s.fork, s.a);
  cudaStreamWaitEvent(s.b, s.fork, 0);
  SP_LAUNCH(add_to, 1, 1, 0, s.b, p.p, 2);
  ck_assert_int_eq(cudaStreamEndCapture(s.a, &graph), cudaErrorStreamCaptureUnjoined);
  /* an allocation, and a wait for the host */
  void *more;
  cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal);
  ck_assert_int_eq(cudaMalloc(&more, 16), cudaErrorStreamCaptureUnsupported);
  ck_assert_int_eq(cudaStreamEndCapture(s.a, &graph), cudaErrorStreamCaptureInvalidated);
  cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal);
  ck_assert_int_eq(cudaStreamSynchronize(s.a), cudaErrorStreamCaptureUnsupported);
  ck_assert_int_eq(cudaStreamEndCapture(s.a, &graph), cudaErrorStreamCaptureInvalidated);
  /* an event from outside */
  cudaEventRecord(s.join, s.b);
  cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal);
  ck_assert_int_eq(cudaStreamWaitEvent(s.a, s.join, 0), cudaErrorStreamCaptureIsolation);
  ck_assert_int_eq(cudaStreamEndCapture(s.a, &graph), cudaErrorStreamCaptureInvalidated);
  ck_assert_ptr_null(graph);
  cudaGetLastError();
}
END_TEST

static void from_host(void *arg) { ++*static_cast<int *>(arg); }

START_TEST(events_and_host_functions) {
  cudaStream_t s;
  cudaEvent_t from, to;
  int calls = 0;
  float ms = -1;
  cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, -1);
  cudaEventCreate(&from);
  cudaEventCreate(&to);
  ck_assert_int_eq(cudaEventQuery(to), cudaSuccess); /* never recorded */
  cudaEventRecord(from, s);
  cudaLaunchHostFunc(s, from_host, &calls);
  cudaEventRecord(to, s);
  ck_assert_int_eq(cudaEventSynchronize(to), cudaSuccess);
  ck_assert_int_eq(calls, 1);
  ck_assert_int_eq(cudaEventElapsedTime(&ms, from, to), cudaSuccess);
  ck_assert(ms >= 0);
  cudaEventDestroy(from);
  cudaEventDestroy(to);
  cudaStreamDestroy(s);
}
END_TEST

static void sleep_2_ms(void *) {
  const timespec time = {0, 2000000};
  nanosleep(&time, nullptr);
}

START_TEST(events_that_tell_more) {
  const char *fork = getenv("CK_FORK");
  if (fork && !strcmp(fork, "no")) return; /* the emulator has looked at the variable already */
  setenv("SPCORE_EMU_SLOWER", "1000", 1);
  cudaStream_t s;
  cudaEvent_t from, to;
  float ms = 0;
  cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, -1);
  cudaEventCreate(&from);
  cudaEventCreate(&to);
  cudaEventRecord(from, s);
  cudaLaunchHostFunc(s, sleep_2_ms, nullptr);
  cudaEventRecord(to, s);
  cudaEventSynchronize(to);
  ck_assert_int_eq(cudaEventElapsedTime(&ms, from, to), cudaSuccess);
  ck_assert(ms >= 2000);
}
END_TEST

/* ---- memory ---- */

START_TEST(memory) {
  on_device<float> a(10);
  std::vector<float> fresh = a.get(), host(20);
  unsigned bits;
  memcpy(&bits, &fresh[3], sizeof bits);
  ck_assert_uint_eq(bits, 0xcbcbcbcbu);
  ck_assert_int_eq(cudaMemcpy(a.p, host.data(), 44, cudaMemcpyHostToDevice), cudaErrorInvalidValue); /* 11 numbers */
  ck_assert_int_eq(cudaMemcpy(a.p, a.p, 40, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  void *huge;
  size_t available, total;
  ck_assert_int_eq(cudaMalloc(&huge, size_t{1} << 50), cudaErrorMemoryAllocation);
  ck_assert_int_eq(cudaMemGetInfo(&available, &total), cudaSuccess);
  ck_assert_uint_lt(available, total);
  ck_assert_int_eq(cudaFree(a.p + 1), cudaErrorInvalidValue);
  cudaGetLastError();
}
END_TEST

static sigjmp_buf caught;
static void on_fault(int) { siglongjmp(caught, 1); }

/* Does a look at memory of the device end the program here? */
static bool is_shut(const float *p) {
  struct sigaction act = {}, old;
  act.sa_handler = on_fault;
  sigaction(SIGSEGV, &act, &old);
  bool shut = sigsetjmp(caught, 1);
  if (!shut) *static_cast<const volatile float *>(p);
  sigaction(SIGSEGV, &old, nullptr);
  return shut;
}

struct looks {
  const float *p;
  int calls, shut;
};

static void look(void *arg) {
  looks *l = static_cast<looks *>(arg);
  l->calls++;
  l->shut += is_shut(l->p);
}

static __global__ void more(float *p, const float *q) { *p += *q; }

START_TEST(shut_to_the_host) { /* _i: work is late */
  const char *fork = getenv("CK_FORK");
  if (fork && !strcmp(fork, "no")) return; /* the emulator has looked at the variables already */
  setenv("SPCORE_EMU_PROTECT", "1", 1);
  setenv("SPCORE_EMU_TIMING", _i ? "late" : "", 1);
  on_device<float> a(std::vector<float>{1}), b(std::vector<float>{2});
  looks l = {a.p, 0, 0};
  cudaStream_t s;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0);
  ck_assert(is_shut(a.p) && is_shut(b.p));
  for (int capture = 0; capture < 2; capture++) {
    if (capture) cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
    SP_LAUNCH(more, 1, 1, 0, s, a.p, b.p);
    cudaLaunchHostFunc(s, look, &l);
    SP_LAUNCH(more, 1, 1, 0, s, a.p, b.p);
    if (capture) ck_assert_int_eq(cudaStreamEndCapture(s, &graph), cudaSuccess);
  }
  ck_assert_int_eq(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  ck_assert_int_eq(cudaGraphLaunch(exec, s), cudaSuccess);
  ck_assert(is_shut(a.p));
  ck_assert_int_eq(cudaStreamSynchronize(s), cudaSuccess);
  ck_assert(is_shut(a.p) && is_shut(b.p));
  ck_assert_int_eq(l.calls, 2);
  ck_assert_int_eq(l.shut, 2);
  ck_assert_float_eq(a.get()[0], 9);
  ck_assert(is_shut(a.p));
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(s);
}
END_TEST

START_TEST(device_says_what_it_is) {
  cudaDeviceProp p;
  ck_assert_int_eq(cudaGetDeviceProperties(&p, 0), cudaSuccess);
  ck_assert_str_eq(p.name, "CUDA emulator (tests)");
  ck_assert_int_eq(cudaSetDevice(1), cudaErrorInvalidDevice);
  ck_assert_str_eq(cudaGetErrorName(cudaGetLastError()), "cudaErrorInvalidDevice");
  ck_assert_int_eq(p.major * 10 + p.minor, 90);
  ck_assert_int_eq(p.multiProcessorCount, 4);
  setenv("SPCORE_EMU_CAPABILITY", "100", 1);
  setenv("SPCORE_EMU_MULTIPROCESSORS", "132", 1);
  ck_assert_int_eq(cudaGetDeviceProperties(&p, 0), cudaSuccess);
  unsetenv("SPCORE_EMU_CAPABILITY");
  unsetenv("SPCORE_EMU_MULTIPROCESSORS");
  ck_assert_int_eq(p.major, 10);
  ck_assert_int_eq(p.minor, 0);
  ck_assert_int_eq(p.multiProcessorCount, 132);
}
END_TEST

/* ---- products and convolutions ---- */

/* D = alpha op(A) op(B) + beta C, then bias and ReLU; each algorithm, both transposes. */
START_TEST(gemm) {
  const int m = 7, n = 5, k = 37;
  bool ta = _i & 1, tb = _i & 2;
  std::vector<float> a = numbers(m * k), b = numbers(k * n), c = numbers(m * n), bias = numbers(m);
  on_device<float> A(a), B(b), C(c), bias_at(bias);
  on_device<char> workspace(1 << 20);
  cublasLtHandle_t lt;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t la, lb, lc;
  cublasLtMatmulPreference_t pref;
  cublasLtMatmulHeuristicResult_t found[8];
  cublasOperation_t op_a = ta ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = tb ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
  size_t limit = 1 << 20;
  float alpha = 0.5f, beta = 2.0f;
  int count = 0;
  cublasLtCreate(&lt);
  cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a);
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b);
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias_at.p, sizeof bias_at.p);
  cublasLtMatrixLayoutCreate(&la, CUDA_R_32F, ta ? k : m, ta ? m : k, ta ? k : m);
  cublasLtMatrixLayoutCreate(&lb, CUDA_R_32F, tb ? n : k, tb ? k : n, tb ? n : k);
  cublasLtMatrixLayoutCreate(&lc, CUDA_R_32F, m, n, m);
  cublasLtMatmulPreferenceCreate(&pref);
  cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit);
  ck_assert_int_eq(cublasLtMatmulAlgoGetHeuristic(lt, desc, la, lb, lc, lc, pref, 8, found, &count), 0);
  ck_assert_int_eq(count, 3);
  for (int algo = 0; algo < count; algo++) {
    on_device<float> D(m * n);
    ck_assert_int_eq(cublasLtMatmul(lt, desc, &alpha, A.p, la, B.p, lb, &beta, C.p, lc, D.p, lc, &found[algo].algo,
                                    workspace.p, limit, nullptr),
                     CUBLAS_STATUS_SUCCESS);
    std::vector<float> d = D.get();
    for (int i = 0; i < m; i++)
      for (int j = 0; j < n; j++) {
        double sum = 0;
        for (int l = 0; l < k; l++)
          sum += static_cast<double>(ta ? a[static_cast<size_t>(l + i * k)] : a[static_cast<size_t>(i + l * m)]) *
                 static_cast<double>(tb ? b[static_cast<size_t>(j + l * n)] : b[static_cast<size_t>(l + j * k)]);
        double want = 0.5 * sum + 2.0 * static_cast<double>(c[static_cast<size_t>(i + j * m)]) +
                      static_cast<double>(bias[static_cast<size_t>(i)]);
        close_to(d[static_cast<size_t>(i + j * m)], want > 0 ? want : 0, 1e-5);
      }
  }
  ck_assert_int_eq(cublasLtMatmul(lt, desc, &alpha, A.p, la, B.p, lb, &beta, C.p, lc, C.p, lc, &found[2].algo,
                                  workspace.p, limit - 1, nullptr),
                   CUBLAS_STATUS_INVALID_VALUE);
  cublasLtMatmulPreferenceDestroy(pref);
  for (cublasLtMatrixLayout_t l : {la, lb, lc}) cublasLtMatrixLayoutDestroy(l);
  cublasLtMatmulDescDestroy(desc);
  cublasLtDestroy(lt);
}
END_TEST

struct convolution {
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t x, y;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t c;
  convolution() {
    cudnnCreate(&handle);
    cudnnCreateTensorDescriptor(&x);
    cudnnCreateTensorDescriptor(&y);
    cudnnCreateFilterDescriptor(&w);
    cudnnCreateConvolutionDescriptor(&c);
  }
  ~convolution() {
    cudnnDestroyConvolutionDescriptor(c);
    cudnnDestroyFilterDescriptor(w);
    cudnnDestroyTensorDescriptor(x);
    cudnnDestroyTensorDescriptor(y);
    cudnnDestroy(handle);
  }
};

static double dot(const std::vector<float> &a, const std::vector<float> &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/* Forward against the definition; both gradients are its adjoints: <dy, conv(x, w)> = <dx, x> = <dw, w>. */
START_TEST(convolutions) {
  const int n = 2, ci = 3, co = 4, h = 5, w = 6, k = 3, step = 2, pad = 1, oh = 3, ow = 3;
  std::vector<float> x = numbers(n * h * w * ci), f = numbers(co * k * k * ci), dy = numbers(n * oh * ow * co);
  on_device<float> X(x), F(f), DY(dy), Y(dy.size()), DX(x.size()), DF(f.size());
  on_device<char> workspace(64 << 10);
  convolution conv;
  float one = 1, zero = 0;
  ck_assert_int_eq(cudnnSetTensor4dDescriptor(conv.x, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, n, ci, h, w), 0);
  ck_assert_int_eq(cudnnSetTensor4dDescriptor(conv.y, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, n, co, oh, ow), 0);
  ck_assert_int_eq(cudnnSetFilter4dDescriptor(conv.w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, co, ci, k, k), 0);
  ck_assert_int_eq(
      cudnnSetConvolution2dDescriptor(conv.c, pad, pad, step, step, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
      0);
  cudnnSetConvolutionMathType(conv.c, CUDNN_FMA_MATH);
  ck_assert_int_eq(cudnnConvolutionForward(conv.handle, &one, conv.x, X.p, conv.w, F.p, conv.c,
                                           CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, workspace.p, 64 << 10,
                                           &zero, conv.y, Y.p),
                   0);
  ck_assert_int_eq(cudnnConvolutionBackwardData(conv.handle, &one, conv.w, F.p, conv.y, DY.p, conv.c,
                                                CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, workspace.p, 64 << 10, &zero, conv.x,
                                                DX.p),
                   0);
  ck_assert_int_eq(cudnnConvolutionBackwardFilter(conv.handle, &one, conv.x, X.p, conv.y, DY.p, conv.c,
                                                  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, workspace.p, 64 << 10, &zero,
                                                  conv.w, DF.p),
                   0);
  std::vector<float> y = Y.get();
  for (int s = 0; s < n; s++)
    for (int i = 0; i < oh; i++)
      for (int j = 0; j < ow; j++)
        for (int o = 0; o < co; o++) {
          double sum = 0;
          for (int ky = 0; ky < k; ky++)
            for (int kx = 0; kx < k; kx++)
              for (int c = 0; c < ci; c++) {
                int iy = i * step - pad + ky, ix = j * step - pad + kx;
                if (iy < 0 || ix < 0 || iy >= h || ix >= w) continue;
                sum += static_cast<double>(x[static_cast<size_t>(((s * h + iy) * w + ix) * ci + c)]) *
                       static_cast<double>(f[static_cast<size_t>(((o * k + ky) * k + kx) * ci + c)]);
              }
          close_to(y[static_cast<size_t>(((s * oh + i) * ow + j) * co + o)], sum, 1e-5);
        }
  ck_assert_double_le(std::fabs(dot(dy, y) - dot(DX.get(), x)), 1e-4);
  ck_assert_double_le(std::fabs(dot(dy, y) - dot(DF.get(), f)), 1e-4);
  ck_assert_int_ne(cudnnSetTensor4dDescriptor(conv.y, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, n, co, oh, 0), 0);
}
END_TEST

/* ---- arithmetic ---- */

START_TEST(rounded_down) {
  const float big = 12582912.0f; /* of neighbours that are 1 apart */
  ck_assert(__fadd_rd(big, 0.75f) == big && __fadd_rd(big, -1e-30f) == big - 1 && __fadd_rd(big, -1.0f) == big - 1);
  ck_assert(__fadd_rd(1.0f, 2.0f) == 3.0f && __fadd_rd(-big, -0.25f) == -big - 1);
  ck_assert(__fmaf_rd(-3.0f, 0.5f, big) == big - 2 && __fmaf_rd(3.0f, 0.5f, big) == big + 1);
  ck_assert(__fmaf_rd(big + 1, big + 3, -big * big) == 4 * big && fmaf(big + 1, big + 3, -big * big) > 4 * big);
  ck_assert_uint_eq(__byte_perm(0x33221100u, 0x77665544u, 0x7410), 0x77441100u);
  ck_assert_uint_eq(__byte_perm(0x33221100u, 0x77665544u, 0x0536), 0x00553366u);
}
END_TEST

int main() {
  TCase *c = tcase_create("all");
  tcase_add_test(c, indices);
  tcase_add_test(c, barriers);
  tcase_add_test(c, counting_barriers);
  tcase_add_test(c, directed_rounding);
  tcase_add_test(c, byte_permutations);
  tcase_add_test(c, warps);
  tcase_add_test(c, gathering);
  tcase_add_test(c, parts_of_a_warp);
  tcase_add_test(c, atomics);
  tcase_add_test(c, rounded_down);
  tcase_add_test(c, launches_refused);
  tcase_add_loop_test_raise_signal(c, misuse_ends_the_program, SIGABRT, 0, 3);
  tcase_add_test(c, fork_and_join);
  tcase_add_test(c, captures_refused);
  tcase_add_test(c, events_and_host_functions);
  tcase_add_test(c, events_that_tell_more);
  tcase_add_test(c, memory);
  tcase_add_loop_test(c, shut_to_the_host, 0, 2);
  tcase_add_test(c, device_says_what_it_is);
  tcase_add_loop_test(c, gemm, 0, 4);
  tcase_add_test(c, convolutions);
  Suite *s = suite_create("emu");
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
