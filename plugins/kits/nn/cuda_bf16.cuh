/* SPDX-License-Identifier: MIT
 * cuda_bf16.cuh - products of tensor cores in bfloat16.
 */
#ifndef NN_CUDA_BF16_CUH
#define NN_CUDA_BF16_CUH

#include "cuda_kit.cuh"

namespace nnk {

/* c (16x8, float32) += a (16x16) b (16x8), spread over the warp: with g = lane / 4 and t = lane % 4, each register of a and b
 * is two numbers side by side along the depth: a is (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8); b is (2t, g),
 * (2t + 8, g); c is (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1). */
__device__ inline void product16(float *c, const uint32_t *a, const uint32_t *b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif defined(__CUDACC__)
  __trap(); /* no kernel that calls this is launched there */
#else
  int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const uint4 *all_a = sp_emu::gather(make_uint4(a[0], a[1], a[2], a[3]));
  const uint2 *all_b = sp_emu::gather(make_uint2(b[0], b[1]));
  for (int k = 0; k < 8; k++) { /* pairs */
    const uint4 &rows = all_a[g * 4 + k % 4];
    const uint2 &left = all_b[8 * t + k % 4], &right = all_b[8 * t + 4 + k % 4];
    uint32_t top = k < 4 ? rows.x : rows.z, bottom = k < 4 ? rows.y : rows.w;
    uint32_t l = k < 4 ? left.x : left.y, r = k < 4 ? right.x : right.y;
    c[0] = fmaf(high_bf16(top), high_bf16(l), fmaf(low_bf16(top), low_bf16(l), c[0]));
    c[1] = fmaf(high_bf16(top), high_bf16(r), fmaf(low_bf16(top), low_bf16(r), c[1]));
    c[2] = fmaf(high_bf16(bottom), high_bf16(l), fmaf(low_bf16(bottom), low_bf16(l), c[2]));
    c[3] = fmaf(high_bf16(bottom), high_bf16(r), fmaf(low_bf16(bottom), low_bf16(r), c[3]));
  }
#endif
}

} // namespace nnk
#endif
