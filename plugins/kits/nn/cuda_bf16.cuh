/* SPDX-License-Identifier: MIT
 * cuda_bf16.cuh - products of tensor cores in bfloat16, and the loads of their factors from shared memory. For devices
 * of which has_tf32() holds. With g = lane / 4 and t = lane % 4 as in cuda_tile.cuh.
 */
#ifndef NN_CUDA_BF16_CUH
#define NN_CUDA_BF16_CUH

#include "cuda_tile.cuh"

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
 * 16 bytes. r[j] is (g, 2t ..) of matrix j. */
__device__ inline void ldmatrix_x4(uint32_t r[4], const __nv_bfloat16 *row) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t place = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(place)
               : "memory");
#elif defined(__CUDACC__)
  __trap();
#else
  int lane = static_cast<int>(threadIdx.x) % 32;
  const __nv_bfloat16 *const *rows = sp_emu::gather(row);
  for (int j = 0; j < 4; j++) std::memcpy(&r[j], rows[j * 8 + lane / 4] + lane % 4 * 2, 4);
#endif
}

/* The same of the transposed matrices: r[j] is (2t, g) and (2t + 1, g) of matrix j. */
__device__ inline void ldmatrix_x4_trans(uint32_t r[4], const __nv_bfloat16 *row) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t place = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(place)
               : "memory");
#elif defined(__CUDACC__)
  __trap();
#else
  int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const __nv_bfloat16 *const *rows = sp_emu::gather(row);
  for (int j = 0; j < 4; j++) {
    uint32_t low = __bfloat16_as_ushort(rows[j * 8 + 2 * t][g]),
             high = __bfloat16_as_ushort(rows[j * 8 + 2 * t + 1][g]);
    r[j] = low | high << 16;
  }
#endif
}

/* nnk_narrow_weight of 3x3 with up to 32 channels in and out, in bfloat16, with the same work. */
int few_weight(void *stream, nnk_sum dw, nnk_sum db, const nnk_map *x, const nnk_map *dy, float *work);

} // namespace nnk
#endif
