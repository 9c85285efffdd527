/* SPDX-License-Identifier: MIT
 * bf16.cuh - products of tensor cores in bfloat16, and the loads of their factors from shared memory. For devices
 * that has them. With g = lane / 4 and t = lane % 4 as in tile.cuh.
 */
#ifndef NN_CUDA_BF16_CUH
#define NN_CUDA_BF16_CUH

#include "tile.cuh"

namespace nnk {

/* c (16x8, float32) += a (16x16) b (16x8). Two numbers a register, the first one low: a is (g, 2t ..), (g + 8, 2t ..),
 * (g, 2t + 8 ..), (g + 8, 2t + 8 ..); b is (2t .., g), (2t + 8 .., g); c as of product(). */
__device__ inline void product16(float *c, const uint32_t a[4], const uint32_t b[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif defined(__CUDACC__)
  __trap();
#else
  int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const uint4 *all_a = sp_emu::gather(make_uint4(a[0], a[1], a[2], a[3]));
  const uint2 *all_b = sp_emu::gather(make_uint2(b[0], b[1]));
  for (int k = 0; k < 16; k += 2) {
    const uint4 &rows = all_a[g * 4 + k / 2 % 4];
    uint32_t top = k < 8 ? rows.x : rows.z, bottom = k < 8 ? rows.y : rows.w;
    for (int j = 0; j < 2; j++) {
      const uint2 &col = all_b[8 * t + 4 * j + k / 2 % 4];
      uint32_t two = k < 8 ? col.x : col.y;
      c[j] = fmaf(high_bf16(top), high_bf16(two), fmaf(low_bf16(top), low_bf16(two), c[j]));
      c[j + 2] = fmaf(high_bf16(bottom), high_bf16(two), fmaf(low_bf16(bottom), low_bf16(two), c[j + 2]));
    }
  }
#endif
}

/* Four matrices of 8 x 8 numbers from shared memory: lane i names row i % 8 of matrix i / 8, of 16 bytes that begin at
 * 16 bytes. r[j] is (g, 2t ..) of matrix j, or of it TRANSPOSED. */
template <bool TRANSPOSED> __device__ inline void load_matrices(uint32_t r[4], const __nv_bfloat16 *row) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define LDMATRIX(how)                                                                 \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4" how ".shared.b16 {%0,%1,%2,%3}, [%4];" \
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                       \
               : "r"(in_shared(row))                                                  \
               : "memory")
  if constexpr (TRANSPOSED) LDMATRIX(".trans");
  else LDMATRIX("");
#undef LDMATRIX
#elif defined(__CUDACC__)
  __trap();
#else
  int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const __nv_bfloat16 *const *rows = sp_emu::gather(row);
  auto at = [&](int y, int x) { return TRANSPOSED ? rows[x][y] : rows[y][x]; };
  for (int j = 0; j < 4; j++, rows += 8) {
    uint32_t low = __bfloat16_as_ushort(at(g, 2 * t)), high = __bfloat16_as_ushort(at(g, 2 * t + 1));
    r[j] = low | high << 16;
  }
#endif
}

/* Which of a pixel's COUNT chunks of 16 bytes its chunk `chunk` takes in shared memory: so permuted, chunks of eight
 * pixels side by side have banks of their own. */
template <int COUNT> __device__ inline int permuted(int px, int chunk) {
  return COUNT == 2 ? chunk ^ (px >> 2 & 1) : COUNT == 4 ? chunk ^ (px >> 1 & 3) : chunk;
}

/* N registers of two numbers each. */
template <int N> __device__ inline void store_words(void *p, const uint32_t *w) {
  if constexpr (N == 4) {
    *static_cast<uint4 *>(p) = make_uint4(w[0], w[1], w[2], w[3]);
  } else if constexpr (N == 2) {
    *static_cast<uint2 *>(p) = make_uint2(w[0], w[1]);
  } else {
    *static_cast<uint32_t *>(p) = w[0];
  }
}

} // namespace nnk
#endif
