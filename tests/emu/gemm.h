/* SPDX-License-Identifier: MIT
 * gemm.h - what cuBLASLt's opaque structs hold in the emulator, and its matrix product.
 */
#ifndef SPCORE_EMU_GEMM_H
#define SPCORE_EMU_GEMM_H

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sp_emu {

struct lt_desc {
  int32_t compute, scale, pointer_mode, trans_a, trans_b;
  uint32_t epilogue;
  void *bias, *aux;
  int64_t aux_ld;
  int32_t bias_type, aux_type; /* -1: as documented */
};

struct lt_layout {
  uint32_t type;
  int32_t order;
  uint64_t rows, cols;
  int64_t ld;
  int32_t batch, reserved;
  int64_t stride;
};

struct lt_pref {
  uint64_t workspace;
  uint32_t reductions;
};

struct lt_algo {
  int32_t id, tile, splitk;
  uint32_t reduction, swizzling, custom, stages;
  uint16_t inner, cluster;
  int32_t compute;
};

constexpr int lt_algos = 3;
size_t lt_workspace(int id); /* bytes that algorithm `id` asks for */

/* A matrix as an array of float, element i, j at i * rows_apart + j * columns_apart. */
float number_at(const void *p, int type, int64_t i);
void put_number(void *p, int type, int64_t i, float v);
float to_tf32(float v);

struct matrix {
  const void *p;
  int type;
  int64_t rows, cols, down, right; /* of op(X) */
};
/* out (rows x cols of the product, row-major) = a b, summed in float in `pieces` parts of k that are added in order. */
void product(std::vector<float> &out, const matrix &a, const matrix &b, bool tf32, int pieces);

} // namespace sp_emu

#endif
