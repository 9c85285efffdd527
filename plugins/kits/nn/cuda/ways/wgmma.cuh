/* SPDX-License-Identifier: MIT
 * wgmma.cuh - what only compute capability 9.0 has: products of whole warp groups, whose factors lie in shared memory,
 * and barriers there that count bytes of copies. For code compiled for 9.0a: HAS_WGMMA.
 *
 * Factors lie as rows of 128 bytes, 64 numbers of the depth, of which chunk i of 16 bytes of row r is in place i ^ r %
 * 8. Row 0 of such rows begins at 1024 bytes, but a factor may begin with any of them:
 *    the hardware finds the place of a chunk by the bits of
 * its address. */
#ifndef NN_CUDA_WGMMA_CUH
#define NN_CUDA_WGMMA_CUH

#include "tile.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WGMMA 1
#else
#define HAS_WGMMA 0
#endif

namespace nnk {

enum { ROW = 128, ROWS = 8, DEPTH = 64 }; /* bytes of a row; rows until places repeat; numbers of a row */

/* A lane of a product has two columns in every eight. So that these are eight channels side by side, 16 bytes of a
 * map, weights lie in such an order of their rows, and where such sums are factors, also of their depth: place i has
 * this channel. Of every 32, lane t has 8 t to 8 t + 7. */
__host__ __device__ inline int channel_of(int i) { return (i & ~31) | (i >> 1 & 3) << 3 | (i >> 3 & 3) << 1 | (i & 1); }

/* Where chunk `chunk` of a row is, in bytes. */
__host__ __device__ inline int chunk_at(int row, int chunk) { return row * ROW + (chunk ^ row % ROWS) * 16; }

/* Whether the code of `kernel`, which without warp groups has static shared memory,
 * is made for the current device's. */
inline bool has_warp_groups(const void *kernel) {
#ifdef __CUDACC__
  cudaFuncAttributes about = {};
  return !cudaFuncGetAttributes(&about, kernel) && !about.sharedSizeBytes;
#else
  return kernel != NULL;
#endif
}

#if HAS_WGMMA

/* ---- barriers, by their addresses in shared memory ---- */
__device__ inline void barrier_init(uint32_t bar, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(bar), "r"(arrivals) : "memory");
}
__device__ inline void barrier_arrive(uint32_t bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(bar) : "memory");
}
/* Arrives; the phase ends when so many bytes have come as well. */
__device__ inline void barrier_expect(uint32_t bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(bar), "r"(bytes) : "memory");
}
/* Arrives when this thread's copies of before have. */
__device__ inline void barrier_arrive_later(uint32_t bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" : : "r"(bar) : "memory");
}
__device__ inline void barrier_wait(uint32_t bar, int phase) {
  asm volatile("{\n"
               ".reg .pred there;\n"
               "again: mbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1;\n"
               "@!there bra again;\n"
               "}"
               :
               : "r"(bar), "r"(phase)
               : "memory");
}
/* Bytes that lie together, in multiples of 16, which count for the barrier. */
__device__ inline void copy_bytes(uint32_t to, const void *from, int bytes, uint32_t bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :
               : "r"(to), "l"(from), "r"(bytes), "r"(bar)
               : "memory");
}
/* What threads have copied can be read by products. */
__device__ inline void show_products(void) { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); }

/* ---- products ---- */
/* A factor whose rows begin at `at`; each eight of them begin `stride` bytes behind the eight before. */
__device__ inline uint64_t factor_at(uint32_t at, int stride) {
  return static_cast<uint64_t>(at >> 4 & 0x3fff) | 1ull << 16 | static_cast<uint64_t>(stride >> 4) << 32 | 1ull << 62;
}

/* d += (or, not `add`, =) a (64 x 16) b (N x 16) transposed. Lane (g, t) of warp w has of rows 16 w + g and 8 below
 * them columns 8 j + 2 t and the next: d[4 j ..]. */
template <int N> struct group_product;
#define EIGHT(i)                                                                                              \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
template <> struct group_product<32> {
  static __device__ inline void run(float *d, uint64_t a, uint64_t b, int add) {
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %18, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, add, 1, 1, 0, 0;\n"
                 "}"
                 : EIGHT(0), EIGHT(8)
                 : "l"(a), "l"(b), "r"(add));
  }
};
template <> struct group_product<64> {
  static __device__ inline void run(float *d, uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,"
        "%29,%30,%31}, %32, %33, add, 1, 1, 0, 0;\n"
        "}"
        : EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24)
        : "l"(a), "l"(b), "r"(add));
  }
  static __device__ inline void run(float *d, const uint32_t *a, uint64_t b, int add) {
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%"
                 "27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, add, 1, 1, 0;\n"
                 "}"
                 : EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
  }
};
template <> struct group_product<128> {
  static __device__ inline void run(float *d, uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,"
        "%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,"
        "%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, add, 1, 1, 0, 0;\n"
        "}"
        : EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24), EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56)
        : "l"(a), "l"(b), "r"(add));
  }
  static __device__ inline void run(float *d, const uint32_t *a, uint64_t b, int add) {
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%"
                 "27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%"
                 "52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, add, 1, 1, 0;\n"
                 "}"
                 : EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24), EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
  }
};
#undef EIGHT

/* Around products that are under way: the compiler must neither move sums into other registers nor use them. */
template <int N> __device__ inline void hold(float *d) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i]) : : "memory");
}
template <int N> __device__ inline void hold(uint32_t *a) { /* factors in registers */
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+r"(a[i]) : : "memory");
}
template <int N> __device__ inline void products_begin(float *d) {
  hold<N>(d);
  asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}
template <int N> __device__ inline void products_end(float *d) {
  asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
  hold<N>(d);
}
/* Until all but the newest LEFT groups are through. */
template <int LEFT, int N> __device__ inline void products_wait(float *d) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(LEFT) : "memory");
  hold<N>(d);
}

#endif
} // namespace nnk
#endif
