/* SPDX-License-Identifier: MIT
 * gemm_desc.cpp - cuBLASLt's descriptors and algorithms in the emulator.
 *
 * There are three algorithms, which differ in how they cut the sum, and so in the last bits: whoever takes another one
 * from run to run is found out. The third asks for a workspace and for a split of k.
 */
#include "gemm.h"

#include <cstring>

namespace sp_emu {

static_assert(sizeof(lt_desc) <= sizeof(cublasLtMatmulDescOpaque_t), "the descriptor fits");
static_assert(sizeof(lt_layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "the layout fits");
static_assert(sizeof(lt_pref) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "the preference fits");
static_assert(sizeof(lt_algo) <= sizeof(cublasLtMatmulAlgo_t), "the algorithm fits");

size_t lt_workspace(int id) { return id == 2 ? 1 << 20 : 0; }

template <typename T> static cublasStatus_t set(T *value, const void *from, size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(value, from, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T> static cublasStatus_t get(T value, void *to, size_t bytes, size_t *written) {
  if (written) *written = sizeof(T);
  if (!to && !bytes) return CUBLAS_STATUS_SUCCESS;
  if (bytes < sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, &value, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

static lt_algo algo_of(int id, int compute) {
  lt_algo a = {};
  a.id = id;
  a.splitk = id == 2 ? 2 : 1;
  a.reduction = id == 2 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
  a.compute = compute;
  return a;
}

} // namespace sp_emu

using namespace sp_emu;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out) {
  *out = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int *>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void) { return CUBLAS_VERSION; }

/* ---- descriptors ---- */

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t d, size_t, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  lt_desc *desc = reinterpret_cast<lt_desc *>(d);
  *desc = lt_desc();
  desc->compute = compute;
  desc->scale = scale;
  desc->pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  desc->trans_a = desc->trans_b = CUBLAS_OP_N;
  desc->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  desc->bias_type = desc->aux_type = -1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType_t scale) {
  *out = new cublasLtMatmulDescOpaque_t();
  return cublasLtMatmulDescInit_internal(*out, sizeof **out, compute, scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete d;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what,
                                              const void *from, size_t bytes) {
  lt_desc *desc = reinterpret_cast<lt_desc *>(d);
  int32_t sms;
  switch (what) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return set(&desc->compute, from, bytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return set(&desc->scale, from, bytes);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return set(&desc->pointer_mode, from, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(&desc->trans_a, from, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(&desc->trans_b, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(&desc->epilogue, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(&desc->bias, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set(&desc->bias_type, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return set(&desc->aux, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return set(&desc->aux_ld, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE: return set(&desc->aux_type, from, bytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: return set(&sms, from, bytes);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what, void *to,
                                              size_t bytes, size_t *written) {
  const lt_desc *desc = reinterpret_cast<const lt_desc *>(d);
  switch (what) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return get(desc->compute, to, bytes, written);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return get(desc->epilogue, to, bytes, written);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return get(desc->pointer_mode, to, bytes, written);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t l, size_t, cudaDataType type, uint64_t rows,
                                                 uint64_t cols, int64_t ld) {
  lt_layout *layout = reinterpret_cast<lt_layout *>(l);
  *layout = lt_layout();
  layout->type = type;
  layout->order = CUBLASLT_ORDER_COL;
  layout->rows = rows;
  layout->cols = cols;
  layout->ld = ld;
  layout->batch = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows, uint64_t cols,
                                          int64_t ld) {
  *out = new cublasLtMatrixLayoutOpaque_t();
  return cublasLtMatrixLayoutInit_internal(*out, sizeof **out, type, rows, cols, ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete l;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t what,
                                                const void *from, size_t bytes) {
  lt_layout *layout = reinterpret_cast<lt_layout *>(l);
  switch (what) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return set(&layout->type, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return set(&layout->order, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return set(&layout->rows, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return set(&layout->cols, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD: return set(&layout->ld, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return set(&layout->batch, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return set(&layout->stride, from, bytes);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t p, size_t) {
  *reinterpret_cast<lt_pref *>(p) = {0, CUBLASLT_REDUCTION_SCHEME_MASK};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
  *out = new cublasLtMatmulPreferenceOpaque_t();
  return cublasLtMatmulPreferenceInit_internal(*out, sizeof **out);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete p;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void *from,
                                                    size_t bytes) {
  lt_pref *pref = reinterpret_cast<lt_pref *>(p);
  switch (what) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return set(&pref->workspace, from, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return set(&pref->reductions, from, bytes);
    default: return CUBLAS_STATUS_SUCCESS; /* alignments, waves: nothing depends on them here */
  }
}

/* ---- algorithms ---- */

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t, cublasComputeType_t compute, cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t, cudaDataType_t, int id,
                                      cublasLtMatmulAlgo_t *out) {
  if (id < 0 || id >= lt_algos) return CUBLAS_STATUS_INVALID_VALUE;
  *out = cublasLtMatmulAlgo_t();
  *reinterpret_cast<lt_algo *>(out) = algo_of(id, compute);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t,
                                        cudaDataType_t, cudaDataType_t, cudaDataType_t, int wanted, int ids[],
                                        int *found) {
  *found = wanted < lt_algos ? wanted : lt_algos;
  for (int i = 0; i < *found; i++) ids[i] = i;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *a, cublasLtMatmulAlgoConfigAttributes_t what,
                                                    const void *from, size_t bytes) {
  lt_algo *algo = reinterpret_cast<lt_algo *>(a);
  switch (what) {
    case CUBLASLT_ALGO_CONFIG_TILE_ID: return set(&algo->tile, from, bytes);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM: return set(&algo->splitk, from, bytes);
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME: return set(&algo->reduction, from, bytes);
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING: return set(&algo->swizzling, from, bytes);
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION: return set(&algo->custom, from, bytes);
    case CUBLASLT_ALGO_CONFIG_STAGES_ID: return set(&algo->stages, from, bytes);
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID: return set(&algo->inner, from, bytes);
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID: return set(&algo->cluster, from, bytes);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *a,
                                                    cublasLtMatmulAlgoConfigAttributes_t what, void *to, size_t bytes,
                                                    size_t *written) {
  const lt_algo *algo = reinterpret_cast<const lt_algo *>(a);
  switch (what) {
    case CUBLASLT_ALGO_CONFIG_ID: return get(algo->id, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_TILE_ID: return get(algo->tile, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM: return get(algo->splitk, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME: return get(algo->reduction, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING: return get(algo->swizzling, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION: return get(algo->custom, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_STAGES_ID: return get(algo->stages, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID: return get(algo->inner, to, bytes, written);
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID: return get(algo->cluster, to, bytes, written);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t *a, cublasLtMatmulHeuristicResult_t *result) {
  const lt_algo *algo = reinterpret_cast<const lt_algo *>(a);
  if (algo->id < 0 || algo->id >= lt_algos || algo->splitk < 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = lt_workspace(algo->id); /* result->algo stays what it was */
  result->state = CUBLAS_STATUS_SUCCESS;
  result->wavesCount = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t p, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *found) {
  const lt_desc *desc = reinterpret_cast<const lt_desc *>(d);
  const lt_pref *pref = reinterpret_cast<const lt_pref *>(p);
  *found = 0;
  for (int id = 0; id < lt_algos && *found < wanted; id++) {
    lt_algo algo = algo_of(id, desc->compute);
    if (lt_workspace(id) > pref->workspace || (algo.reduction & ~pref->reductions)) continue;
    cublasLtMatmulHeuristicResult_t *r = &results[(*found)++];
    *r = cublasLtMatmulHeuristicResult_t();
    memcpy(&r->algo, &algo, sizeof algo);
    r->workspaceSize = lt_workspace(id);
    r->wavesCount = 1;
  }
  return *found ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
}
