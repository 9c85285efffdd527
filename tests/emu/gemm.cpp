/* SPDX-License-Identifier: MIT
 * gemm.cpp - matrix products of cuBLASLt and cuBLAS in the emulator: float sums, factors rounded to TF32 where that was
 * allowed, epilogues as documented.
 */
#include "gemm.h"
#include "emu.h"

#include <cublas_v2.h>

#include <cstdlib>
#include <cstring>

namespace sp_emu {

float number_at(const void *p, int type, int64_t i) {
  if (type == CUDA_R_32F) return static_cast<const float *>(p)[i];
  uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t *>(p)[i]) << 16;
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

/* Drops the last `lost` bits of the mantissa, to the nearest, ties to even. */
static uint32_t rounded(float v, int lost) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  if ((bits & 0x7f800000u) == 0x7f800000u) return bits & 0x7fffffu ? bits | 0x400000u : bits;
  return bits + ((1u << (lost - 1)) - 1) + (bits >> lost & 1);
}

void put_number(void *p, int type, int64_t i, float v) {
  if (type == CUDA_R_32F) static_cast<float *>(p)[i] = v;
  else static_cast<uint16_t *>(p)[i] = static_cast<uint16_t>(rounded(v, 16) >> 16);
}

float to_tf32(float v) {
  uint32_t bits = rounded(v, 13) & ~0x1fffu;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static std::vector<float> packed(const matrix &m, bool tf32) {
  std::vector<float> out(static_cast<size_t>(m.rows * m.cols));
  size_t at = 0;
  for (int64_t i = 0; i < m.rows; i++)
    for (int64_t j = 0; j < m.cols; j++) {
      float v = number_at(m.p, m.type, i * m.down + j * m.right);
      out[at++] = tf32 ? to_tf32(v) : v;
    }
  return out;
}

/* At -O2 GCC makes vectors of no loop whose count it does not know. */
#if defined(__GNUC__) && !defined(__clang__)
#define VECTORS __attribute__((optimize("O3")))
#else
#define VECTORS
#endif
VECTORS static void add_times(float *__restrict sum, const float *__restrict x, float by, size_t n) {
  for (size_t j = 0; j < n; j++) sum[j] += by * x[j];
}

void product(std::vector<float> &out, const matrix &a, const matrix &b, bool tf32, int pieces) {
  size_t m = static_cast<size_t>(a.rows), n = static_cast<size_t>(b.cols), k = static_cast<size_t>(a.cols);
  std::vector<float> left = packed(a, tf32), right = packed(b, tf32), part(n);
  out.assign(m * n, 0.0f);
  size_t each = (k + static_cast<size_t>(pieces) - 1) / static_cast<size_t>(pieces);
  for (size_t i = 0; i < m; i++) {
    float *row = &out[i * n];
    for (size_t from = 0; from < k; from += each) {
      size_t to = from + each < k ? from + each : k;
      part.assign(n, 0.0f);
      for (size_t l = from; l < to; l++) add_times(part.data(), &right[l * n], left[i * k + l], n);
      add_times(row, part.data(), 1, n);
    }
  }
}

static matrix operand(const void *p, const lt_layout &l, int transposed) {
  bool by_column = l.order == CUBLASLT_ORDER_COL;
  matrix m = {p,
              static_cast<int>(l.type),
              static_cast<int64_t>(l.rows),
              static_cast<int64_t>(l.cols),
              by_column ? 1 : l.ld,
              by_column ? l.ld : 1};
  if (transposed != CUBLAS_OP_N) return {m.p, m.type, m.cols, m.rows, m.right, m.down};
  return m;
}

static bool allows_tf32(int compute, int type) { return type == CUDA_R_32F && compute == CUBLAS_COMPUTE_32F_FAST_TF32; }

static size_t bytes_of(int type) { return type == CUDA_R_32F ? 4 : 2; }

static bool known(int type) { return type == CUDA_R_32F || type == CUDA_R_16BF; }

struct epilogue {
  uint32_t what;
  void *bias, *aux;
  int bias_type;
  int64_t aux_ld;
};

/* Sum over k of op(A) (a number for each row) or op(B) (one for each column). */
static void bias_gradient(const epilogue &e, const matrix &m, bool of_rows) {
  for (int64_t i = 0; i < (of_rows ? m.rows : m.cols); i++) {
    float sum = 0;
    for (int64_t l = 0; l < (of_rows ? m.cols : m.rows); l++)
      sum += number_at(m.p, m.type, of_rows ? i * m.down + l * m.right : l * m.down + i * m.right);
    put_number(e.bias, e.bias_type, i, sum);
  }
}

static void finish(const epilogue &e, std::vector<float> &v, int64_t m, int64_t n, const matrix &a, const matrix &b) {
  unsigned char *mask = static_cast<unsigned char *>(e.aux);
  for (int64_t i = 0; i < m; i++) {
    float add = e.what & CUBLASLT_EPILOGUE_BIAS ? number_at(e.bias, e.bias_type, i) : 0.0f, sum = 0;
    for (int64_t j = 0; j < n; j++) {
      float &x = v[static_cast<size_t>(i * n + j)];
      int64_t bit = j * e.aux_ld + i;
      x += add;
      if (e.what & CUBLASLT_EPILOGUE_RELU) {
        if (e.what & 128) {
          unsigned char one = static_cast<unsigned char>(1u << (bit & 7));
          if (x > 0) mask[bit >> 3] = static_cast<unsigned char>(mask[bit >> 3] | one);
          else mask[bit >> 3] = static_cast<unsigned char>(mask[bit >> 3] & ~one);
        }
        if (x < 0) x = 0;
      }
      if (e.what & 8 && !(mask[bit >> 3] >> (bit & 7) & 1)) x = 0; /* DRELU */
      sum += x;
    }
    if (e.what & 16) put_number(e.bias, e.bias_type, i, sum);
  }
  if (e.what & CUBLASLT_EPILOGUE_BGRADA) bias_gradient(e, a, true);
  if (e.what & CUBLASLT_EPILOGUE_BGRADB) bias_gradient(e, b, false);
}

static bool inside(const void *p, const lt_layout &l, size_t outer, size_t inner) {
  size_t last = outer ? (outer - 1) * static_cast<size_t>(l.ld) + inner : 0;
  if (l.batch > 1) last += static_cast<size_t>(l.batch - 1) * static_cast<size_t>(l.stride);
  return kind_of(p, last * bytes_of(static_cast<int>(l.type))) == memory_device;
}

static bool fits(const void *p, const lt_layout &l) {
  bool by_column = l.order == CUBLASLT_ORDER_COL;
  if (!by_column && l.order != CUBLASLT_ORDER_ROW) return false;
  size_t outer = by_column ? l.cols : l.rows, inner = by_column ? l.rows : l.cols;
  return l.batch >= 1 && l.stride >= 0 && known(static_cast<int>(l.type)) && l.rows && l.cols &&
         l.ld >= static_cast<int64_t>(inner) && inside(p, l, outer, inner);
}

/* Of matrix i of a batch. */
static matrix in_batch(matrix m, const lt_layout &l, int i) {
  m.p = static_cast<const char *>(m.p) + static_cast<size_t>(i * l.stride) * bytes_of(m.type);
  return m;
}

static bool is_fresh(const void *number) {
  const unsigned char *byte = static_cast<const unsigned char *>(number);
  return byte[0] == fresh_byte && byte[1] == fresh_byte && byte[2] == fresh_byte && byte[3] == fresh_byte;
}

} // namespace sp_emu

using namespace sp_emu;

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t mode = CUBLAS_POINTER_MODE_HOST;
};

extern "C" {

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *A,
                              cublasLtMatrixLayout_t Ad, const void *B, cublasLtMatrixLayout_t Bd, const void *beta,
                              const void *C, cublasLtMatrixLayout_t Cd, void *D, cublasLtMatrixLayout_t Dd,
                              const cublasLtMatmulAlgo_t *chosen, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  const lt_desc d = *reinterpret_cast<const lt_desc *>(desc);
  const lt_layout la = *reinterpret_cast<const lt_layout *>(Ad), lb = *reinterpret_cast<const lt_layout *>(Bd);
  const lt_layout lc = *reinterpret_cast<const lt_layout *>(Cd), ld = *reinterpret_cast<const lt_layout *>(Dd);
  lt_algo algo = {};
  algo.splitk = 1;
  if (chosen) algo = *reinterpret_cast<const lt_algo *>(chosen);
  if (!fits(A, la) || !fits(B, lb) || !fits(D, ld)) return CUBLAS_STATUS_INVALID_VALUE;
  if (d.scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  matrix a = operand(A, la, d.trans_a), b = operand(B, lb, d.trans_b), c = operand(C, lc, CUBLAS_OP_N);
  matrix out = operand(D, ld, CUBLAS_OP_N);
  if (a.type != b.type || a.rows != out.rows || b.cols != out.cols || a.cols != b.rows || c.rows != out.rows ||
      c.cols != out.cols || c.type != out.type)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (C == D && (lc.ld != ld.ld || lc.order != ld.order)) return CUBLAS_STATUS_INVALID_VALUE;
  if (la.batch != ld.batch || lb.batch != ld.batch || lc.batch != ld.batch) return CUBLAS_STATUS_INVALID_VALUE;
  if (ld.batch > 1 && d.epilogue != CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_NOT_SUPPORTED;
  size_t needed = lt_workspace(algo.id);
  if (algo.id < 0 || algo.id >= lt_algos || algo.splitk < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (needed > workspace_bytes || (needed && kind_of(workspace, needed) != memory_device))
    return CUBLAS_STATUS_INVALID_VALUE;
  epilogue e = {d.epilogue, d.bias, d.aux, d.bias_type < 0 ? out.type : d.bias_type, d.aux_ld};
  bool wants_bias = e.what & (CUBLASLT_EPILOGUE_BIAS | 16 | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB);
  if (wants_bias && (!known(e.bias_type) || kind_of(e.bias, bytes_of(e.bias_type)) != memory_device))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (wants_bias && out.type == CUDA_R_16BF && e.bias_type != CUDA_R_16BF) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (e.what & 128 && (e.aux_ld < out.rows || e.aux_ld % 128 || kind_of(e.aux, 1) != memory_device))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (e.what & (CUBLASLT_EPILOGUE_GELU | 64) || (e.what != CUBLASLT_EPILOGUE_DEFAULT && ld.order != CUBLASLT_ORDER_COL))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  bool on_host = d.pointer_mode == CUBLASLT_POINTER_MODE_HOST;
  if (!on_host && d.pointer_mode != CUBLASLT_POINTER_MODE_DEVICE) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!on_host && (kind_of(alpha, 4) != memory_device || kind_of(beta, 4) != memory_device))
    return CUBLAS_STATUS_INVALID_VALUE;
  float host_alpha = on_host ? *static_cast<const float *>(alpha) : 0;
  float host_beta = on_host ? *static_cast<const float *>(beta) : 0;
  if ((!on_host || host_beta != 0.0f) && !fits(C, lc)) return CUBLAS_STATUS_INVALID_VALUE;
  bool tf32 = allows_tf32(d.compute, a.type);
  int pieces = algo.splitk * (algo.id == 1 ? 3 : 1);
  if (usable(stream)) return CUBLAS_STATUS_EXECUTION_FAILED;
  cudaError_t error = submit(stream, opened([=] {
                               if (!on_host && (is_fresh(alpha) || is_fresh(beta)))
                                 die("cublasLtMatmul scales by a number on the device that was never written");
                               float by = on_host ? host_alpha : *static_cast<const float *>(alpha);
                               float keep = on_host ? host_beta : *static_cast<const float *>(beta);
                               std::vector<float> sums;
                               if (needed) memset(workspace, 0xcb, needed);
                               for (int of = 0; of < ld.batch; of++) {
                                 matrix left = in_batch(a, la, of), right = in_batch(b, lb, of),
                                        old = in_batch(c, lc, of);
                                 int64_t first = of * ld.stride;
                                 product(sums, left, right, tf32, pieces);
                                 for (int64_t i = 0; i < out.rows; i++)
                                   for (int64_t j = 0; j < out.cols; j++) {
                                     float &x = sums[static_cast<size_t>(i * out.cols + j)];
                                     x *= by;
                                     if (keep != 0.0f) x += keep * number_at(old.p, c.type, i * c.down + j * c.right);
                                   }
                                 finish(e, sums, out.rows, out.cols, left, right);
                                 for (int64_t i = 0; i < out.rows; i++)
                                   for (int64_t j = 0; j < out.cols; j++)
                                     put_number(D, out.type, first + i * out.down + j * out.right,
                                                sums[static_cast<size_t>(i * out.cols + j)]);
                               }
                             }));
  return error ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *out) {
  *out = new cublasContext();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int *version) {
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType what, int *value) {
  *value = what == MAJOR_VERSION ? CUBLAS_VER_MAJOR : what == MINOR_VERSION ? CUBLAS_VER_MINOR : CUBLAS_VER_PATCH;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return usable(stream) ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream) {
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void *workspace, size_t bytes) {
  return bytes && kind_of(workspace, bytes) != memory_device ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t math) {
  handle->math = math;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  handle->mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t, cublasAtomicsMode_t) { return CUBLAS_STATUS_SUCCESS; }

const char *cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "a cuBLAS status that the emulator does not give";
  }
}

const char *cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }
const char *cublasLtGetStatusName(cublasStatus_t status) { return cublasGetStatusName(status); }
const char *cublasLtGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t trans_a, cublasOperation_t trans_b, int m, int n,
                            int k, const void *alpha, const void *A, cudaDataType a_type, int lda, const void *B,
                            cudaDataType b_type, int ldb, const void *beta, void *C, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
  bool at = trans_a != CUBLAS_OP_N, bt = trans_b != CUBLAS_OP_N;
  if (handle->math == CUBLAS_TF32_TENSOR_OP_MATH && compute == CUBLAS_COMPUTE_32F)
    compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  uint64_t rows = static_cast<uint64_t>(m), cols = static_cast<uint64_t>(n), deep = static_cast<uint64_t>(k);
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t la, lb, lc;
  cublasLtMatmulDescInit(&desc, compute, CUDA_R_32F);
  lt_desc *d = reinterpret_cast<lt_desc *>(&desc);
  d->trans_a = trans_a;
  d->trans_b = trans_b;
  if (handle->mode == CUBLAS_POINTER_MODE_DEVICE) d->pointer_mode = CUBLASLT_POINTER_MODE_DEVICE;
  cublasLtMatrixLayoutInit(&la, a_type, at ? deep : rows, at ? rows : deep, lda);
  cublasLtMatrixLayoutInit(&lb, b_type, bt ? cols : deep, bt ? deep : cols, ldb);
  cublasLtMatrixLayoutInit(&lc, c_type, rows, cols, ldc);
  return cublasLtMatmul(nullptr, &desc, alpha, A, &la, B, &lb, beta, C, &lc, C, &lc, nullptr, nullptr, 0,
                        handle->stream);
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t trans_a, cublasOperation_t trans_b, int m, int n,
                              int k, const float *alpha, const float *A, int lda, const float *B, int ldb,
                              const float *beta, float *C, int ldc) {
  return cublasGemmEx(handle, trans_a, trans_b, m, n, k, alpha, A, CUDA_R_32F, lda, B, CUDA_R_32F, ldb, beta, C,
                      CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
}
