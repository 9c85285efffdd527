/* SPDX-License-Identifier: MIT
 * cublaslt.c - products by cuBLASLt: any shape on any device, each algorithm a variant.
 *
 * y[m][n] = x[m][k] w[n][k]: rows are pixels, w lies as [n][k]. cuBLASLt counts columns first, so that what is
 * row-major here is a transposed matrix there: y^T = w x^T, dx^T = w^T dy^T, dw^T = x^T dy. */
#include "gemm.h"

#include <stdio.h>
#include <string.h>

static cudaDataType_t type_of(int elt) { return elt == NN_F32 ? CUDA_R_32F : CUDA_R_16BF; }

/* ---- descriptors ------------------------------------------------------------------------------------------------- */
void nnc_lt_close(nnc_lt *lt) {
  if (lt->a) cublasLtMatrixLayoutDestroy(lt->a);
  if (lt->b) cublasLtMatrixLayoutDestroy(lt->b);
  if (lt->d) cublasLtMatrixLayoutDestroy(lt->d);
  lt->a = lt->b = lt->d = NULL;
  lt->bias = NULL;
}

static int set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what, const void *value, size_t bytes) {
  return cublasLtMatmulDescSetAttribute(desc, what, value, bytes) != CUBLAS_STATUS_SUCCESS;
}

static int describe_product(cublasLtMatmulDesc_t desc, const nn_product *p, int precision, int fused,
                            const void *bias) {
  cublasComputeType_t compute = precision == SP_PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  int32_t ta = p->part == NNC_FORWARD ? CUBLAS_OP_T : CUBLAS_OP_N,
          tb = p->part >= NNC_WEIGHT ? CUBLAS_OP_T : CUBLAS_OP_N;
  int32_t mode = nnc_gemm_is_scaled(p->part) ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int bad;
  if (fused && p->biased) epilogue = p->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  else if (fused && p->relu) epilogue = CUBLASLT_EPILOGUE_RELU;
  bad = cublasLtMatmulDescInit(desc, compute, CUDA_R_32F) || set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta) ||
        set(desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb) ||
        set(desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode) ||
        set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  return bad || (fused && p->biased && set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
}

/* What the product is, for cuBLASLt; not 0: it refuses. */
static int describe(const nnc_gemm *a, int fused) {
  nn_product *p = a->p;
  nnc_lt *lt = &p->lt;
  cudaDataType_t t = type_of(p->elt);
  uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n, k = (uint64_t)p->k;
  nnc_lt_close(lt);
  lt->bias = a->lt_bias;
  if (describe_product(&lt->desc, p, a->job.c->cuda->precision, fused, a->lt_bias)) return 1;
  if (p->part == NNC_FORWARD)
    return cublasLtMatrixLayoutCreate(&lt->a, t, k, n, p->k) || cublasLtMatrixLayoutCreate(&lt->b, t, k, m, p->k) ||
           cublasLtMatrixLayoutCreate(&lt->d, type_of(p->d_elt), n, m, p->n);
  if (p->part == NNC_DATA)
    return cublasLtMatrixLayoutCreate(&lt->a, t, k, n, p->k) || cublasLtMatrixLayoutCreate(&lt->b, t, n, m, p->n) ||
           cublasLtMatrixLayoutCreate(&lt->d, type_of(p->d_elt), k, m, p->k);
  return cublasLtMatrixLayoutCreate(&lt->a, t, k, m, p->k) || cublasLtMatrixLayoutCreate(&lt->b, t, n, m, p->n) ||
         cublasLtMatrixLayoutCreate(&lt->d, CUDA_R_32F, k, n, p->k);
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */
int nnc_lt_offers(const nnc_call *c, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                  cublasLtMatrixLayout_t d, cublasLtMatmulHeuristicResult_t *list) {
  cublasLtMatmulPreference_t pref;
  size_t workspace = c->cuda->ext->workspace_bytes;
  /* in place: partial sums meet in the order in which blocks finish */
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, align = 16;
  int n = 0, bad;
  if (cublasLtMatmulPreferenceCreate(&pref)) return 0;
#define PREFER(what, value) \
  cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_##what, &value, sizeof value)
  bad = PREFER(MAX_WORKSPACE_BYTES, workspace) || PREFER(REDUCTION_SCHEME_MASK, schemes) ||
        PREFER(MIN_ALIGNMENT_A_BYTES, align) || PREFER(MIN_ALIGNMENT_B_BYTES, align) ||
        PREFER(MIN_ALIGNMENT_C_BYTES, align) || PREFER(MIN_ALIGNMENT_D_BYTES, align) ||
        cublasLtMatmulAlgoGetHeuristic(c->lt, desc, a, b, d, d, pref, NNC_OFFERS, list, &n);
#undef PREFER
  cublasLtMatmulPreferenceDestroy(pref);
  return bad ? 0 : n;
}

/* FUSED: with bias and ReLU. The map that is added the product adds itself, either way. */
enum { PLAIN, FUSED };

static void enter(nnc_choice *by, int fused) {
  by->variant = fused;
  by->does = fused ? NNC_SUM | NNC_BIAS | NNC_RELU : NNC_SUM;
}

/* "f DIGITS", "p DIGITS": fused or plain, by that algorithm. */
static int take(nnc_job *job, const char *text) {
  const nnc_gemm *a = (const nnc_gemm *)job;
  const nnc_lt *lt = &a->p->lt;
  cublasLtMatmulHeuristicResult_t r;
  if (strlen(text) < 2 || (text[0] != 'f' && text[0] != 'p') || text[1] != ' ' ||
      nnc_unhex(job->by->algo, text + 2, sizeof job->by->algo))
    return 0;
  enter(job->by, text[0] == 'f');
  if (describe(a, job->by->variant)) return 0;
  return !cublasLtMatmulAlgoCheck(job->c->lt, &a->p->lt.desc, lt->a, lt->b, lt->d, lt->d,
                                  (const cublasLtMatmulAlgo_t *)job->by->algo, &r) &&
         r.workspaceSize <= job->c->cuda->ext->workspace_bytes;
}

static int offers(const nnc_gemm *a, int fused, cublasLtMatmulHeuristicResult_t *list) {
  nnc_lt *lt = &a->p->lt;
  return describe(a, fused) ? 0 : nnc_lt_offers(a->job.c, &lt->desc, lt->a, lt->b, lt->d, list);
}

static void offer(nnc_job *job, nnc_trial *trial) {
  const nnc_gemm *a = (const nnc_gemm *)job;
  cublasLtMatmulHeuristicResult_t list[NNC_OFFERS];
  char text[SP_CUDA_VALUE_MAX];
  int fused = a->p->biased || a->p->relu, n = offers(a, fused, list);
  if (!n && fused) n = offers(a, fused = PLAIN, list);
  enter(job->by, fused);
  for (int i = 0; i < n; i++) {
    if (list[i].state != CUBLAS_STATUS_SUCCESS || list[i].workspaceSize > job->c->cuda->ext->workspace_bytes) continue;
    memcpy(job->by->algo, &list[i].algo, sizeof job->by->algo);
    text[0] = fused ? 'f' : 'p';
    text[1] = ' ';
    nnc_hex(text + 2, job->by->algo, sizeof job->by->algo);
    nnc_try(trial, text);
  }
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
_Static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof((nnc_choice){0}.algo), "a choice holds an algorithm");

static int run(const nnc_job *job) {
  const nnc_gemm *a = (const nnc_gemm *)job;
  const nn_product *p = a->p;
  const nnc_lt *lt = &p->lt;
  const nnc_call *c = job->c;
  float host_alpha = 1, host_beta = a->add || a->plus.p ? 1 : 0;
  const void *from = a->plus.p ? a->plus.p : a->d;
  const void *alpha = &host_alpha, *beta = &host_beta;
  cublasLtMatmulDescOpaque_t own, *desc = (cublasLtMatmulDescOpaque_t *)(uintptr_t)&lt->desc; /* only read */
  if (nnc_gemm_is_scaled(p->part)) {
    alpha = a->scale;
    beta = &c->cuda->numbers[a->add];
  }
  if (job->by->variant == FUSED && p->biased && lt->bias != a->lt_bias) { /* repeated, in the scratch of this lane */
    desc = &own;
    if (describe_product(desc, p, c->cuda->precision, 1, a->lt_bias)) return CUBLAS_STATUS_INTERNAL_ERROR;
  }
  return (int)cublasLtMatmul(c->lt, desc, alpha, a->a, lt->a, a->b, lt->b, beta, from, lt->d, a->d, lt->d,
                             (const cublasLtMatmulAlgo_t *)job->by->algo, c->workspace, c->cuda->ext->workspace_bytes,
                             c->stream);
}

static const char *words(int err) { return cublasLtGetStatusString((cublasStatus_t)err); }

const nnc_way nnc_way_cublaslt = {
    .id = NNC_WAY_CUBLASLT, .jobs = NNC_PRODUCT, .take = take, .offer = offer, .run = run, .words = words};
