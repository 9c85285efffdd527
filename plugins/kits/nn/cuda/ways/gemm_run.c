/* SPDX-License-Identifier: MIT
 * gemm_run.c - one product, by cuBLASLt or by kernels of our own.
 *
 * y[m][n] = x[m][k] w[n][k]: rows are pixels, w lies as [n][k]. cuBLASLt counts columns first, so that what is
 * row-major here is a transposed matrix there: y^T = w x^T, dx^T = w^T dy^T, dw^T = x^T dy. */
#include "gemm.h"

#include <cuda_runtime_api.h>

static cudaDataType_t type_of(int elt) { return elt == NN_F32 ? CUDA_R_32F : CUDA_R_16BF; }

/* ---- descriptors ------------------------------------------------------------------------------------------------- */
void nnc_gemm_close(nn_product *p) {
  if (p->a) cublasLtMatrixLayoutDestroy(p->a);
  if (p->b) cublasLtMatrixLayoutDestroy(p->b);
  if (p->d) cublasLtMatrixLayoutDestroy(p->d);
  p->a = p->b = p->d = NULL;
  p->bias = NULL;
}

static int set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what, const void *value, size_t bytes) {
  return cublasLtMatmulDescSetAttribute(desc, what, value, bytes) != CUBLAS_STATUS_SUCCESS;
}

static int describe_product(cublasLtMatmulDesc_t desc, const nn_product *p, int precision, int fused,
                            const void *bias) {
  cublasComputeType_t compute = precision == SP_PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  int32_t ta = p->kind == FORWARD ? CUBLAS_OP_T : CUBLAS_OP_N, tb = p->kind >= WEIGHT ? CUBLAS_OP_T : CUBLAS_OP_N;
  int32_t mode = nnc_gemm_is_scaled(p->kind) ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST;
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

int nnc_gemm_describe(nn_product *p, int precision, int fused, const void *bias) {
  cudaDataType_t t = type_of(p->elt);
  uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n, k = (uint64_t)p->k;
  nnc_gemm_close(p);
  p->bias = bias;
  if (describe_product(&p->desc, p, precision, fused, bias)) return 1;
  switch (p->kind) {
    case FORWARD:
      return cublasLtMatrixLayoutCreate(&p->a, t, k, n, p->k) || cublasLtMatrixLayoutCreate(&p->b, t, k, m, p->k) ||
             cublasLtMatrixLayoutCreate(&p->d, type_of(p->d_elt), n, m, p->n);
    case DATA:
      return cublasLtMatrixLayoutCreate(&p->a, t, k, n, p->k) || cublasLtMatrixLayoutCreate(&p->b, t, n, m, p->n) ||
             cublasLtMatrixLayoutCreate(&p->d, type_of(p->d_elt), k, m, p->k);
    default:
      return cublasLtMatrixLayoutCreate(&p->a, t, k, m, p->k) || cublasLtMatrixLayoutCreate(&p->b, t, n, m, p->n) ||
             cublasLtMatrixLayoutCreate(&p->d, CUDA_R_32F, k, n, p->k);
  }
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
int nnc_gemm_lt(const nnc_gemm *a) {
  const nn_product *p = a->p;
  const nnc_call *c = a->c;
  float host_alpha = 1, host_beta = a->add || a->plus.p ? 1 : 0;
  const void *from = a->plus.p ? a->plus.p : a->d;
  const void *alpha = &host_alpha, *beta = &host_beta;
  cublasLtMatmulDescOpaque_t own, *desc = (cublasLtMatmulDescOpaque_t *)(uintptr_t)&p->desc; /* only read */
  if (nnc_gemm_is_scaled(p->kind)) {
    alpha = a->scale;
    beta = &c->cuda->numbers[a->add];
  }
  if (p->how == FUSED && p->biased && p->bias != a->lt_bias) { /* repeated, in the scratch of this lane */
    desc = &own;
    if (describe_product(desc, p, c->cuda->precision, 1, a->lt_bias)) return CUBLAS_STATUS_INTERNAL_ERROR;
  }
  return (int)cublasLtMatmul(c->lt, desc, alpha, a->a, p->a, a->b, p->b, beta, from, p->d, a->d, p->d, &p->algo,
                             c->workspace, c->cuda->ext->workspace_bytes, c->stream);
}

static int run_skinny(const nnc_gemm *a) {
  const nn_product *p = a->p;
  nnk_sum sum = {a->d, a->scale, a->add};
  int err;
  switch (p->kind) {
    case FORWARD:
      err = nnk_skinny_forward(a->c->stream, p->elt, a->d, a->b, NNK_F32, a->master, a->bias, p->relu && !a->plus.p,
                               p->m, p->n, p->k, a->c->w.tmp);
      return err || !a->plus.p ? err : nnk_add(a->c->stream, &a->y, &a->y, &a->plus, p->relu);
    case DATA:
      return nnk_skinny_data(a->c->stream, p->elt, a->d, a->b, NNK_F32, a->master, a->sign.p, a->add, p->m, p->n, p->k,
                             a->c->w.tmp);
    default: return nnk_skinny_weight(a->c->stream, p->elt, sum, a->b, a->a, p->m, p->n, p->k);
  }
}

static int run_outer(const nnc_gemm *a, int product) {
  const nn_product *p = a->p;
  nnk_outer of = {.dy = a->b, .x = a->a, .m = p->m, .n = p->n, .k = p->k, .db = a->db, .cols = a->dy.c};
  if (product) of.dw = (nnk_sum){a->d, a->scale, a->add};
  return nnk_outer_weight(a->c->stream, &of);
}

static int run_masked(const nnc_gemm *a) {
  const nn_product *p = a->p;
  nnk_masked of = {a->d, a->b, a->master, a->sign.p, p->m, p->n, p->k, a->dx.c, a->pieces};
  int64_t pieces;
  return nnk_masked_data(a->c->stream, p->tall, &of, a->n_pieces ? a->n_pieces : &pieces);
}

/* What the product is read from, as a map. */
static nnk_map rows_of(const nnc_gemm *a, const nn_product *p) {
  nnk_map x = a->y;
  x.c = p->k;
  x.elt = p->elt;
  x.p = (void *)(uintptr_t)a->b;
  return x;
}

static int run_wide(const nnc_gemm *a) {
  nnk_map x = rows_of(a, a->p);
  return nnk_wide_forward(a->c->stream, &a->y, &x, 1, 1, a->wide, a->bias, a->plus.p ? &a->plus : NULL, a->p->relu,
                          a->c->cuda->device.multiprocessors);
}

int nnc_gemm_own(const nnc_gemm *a) {
  switch (a->p->how) {
    case SKINNY: return run_skinny(a);
    case MASKED: return run_masked(a);
    case WIDE: return run_wide(a);
    default: return run_outer(a, 1);
  }
}

/* In small blocks where they can be: large ones wait until others leave half a multiprocessor. */
int nnc_gemm_columns(const nnc_gemm *a) {
  if (!a->db.p || a->p->how == OUTER) return cudaSuccess;
  if (a->p->elt == NN_F32) return run_outer(a, 0);
  return nnk_bias_grad(a->c->stream, a->db, &a->dy, a->pieces);
}

int nnc_gemm_mask(const nnc_gemm *a) {
  void *stream = a->c->stream;
  if (!a->sign.p || a->p->how == MASKED) return cudaSuccess;
  if (a->p->how == SKINNY) return a->pieces ? nnk_bias_pieces(stream, &a->dx, a->pieces, a->n_pieces) : cudaSuccess;
  if (!a->pieces) return nnk_mask(stream, &a->dx, &a->dx, &a->sign, 0);
  return nnk_mask_pieces(stream, &a->dx, &a->dx, &a->sign, a->pieces, a->n_pieces);
}

int nnc_gemm_whole(const nnc_gemm *a) {
  int err = nnc_gemm_columns(a);
  if (!err) err = nnc_gemm_is_own(a->p) ? nnc_gemm_own(a) : nnc_gemm_lt(a);
  return err ? err : nnc_gemm_mask(a);
}

int nnc_gemm_may(const nnc_gemm *a, const nn_product *p, int how) {
  const nnc_device *device = &a->c->cuda->device;
  int tf32 = nnc_rounds(a->c->cuda) == SP_PRECISION_TF32;
  static const int one[2] = {1, 1}, none[2] = {0, 0};
  nnk_map x;
  if (how == WIDE) {
    x = rows_of(a, p);
    return p->kind == FORWARD && a->wide && device->has & NNC_HAS_WARP_GROUPS &&
           nnk_wide_shape(&a->y, &x, one, one, none);
  }
  if (how == SKINNY) return p->m <= NNK_SKINNY;
  if (how == MASKED) return p->masks && nnk_masked_takes(p->m, p->n, p->k, a->dx.c, p->elt, tf32, device->shared_bytes);
  return p->kind >= WEIGHT && nnk_outer_takes(p->m, p->n, p->k, p->elt, tf32);
}

int nnc_gemm_patch(const nnc_whole *b, float *work, nnk_pieces *dw, nnk_pieces *db, nnk_pieces *data) {
  const nn_product *p = b->data.p;
  int64_t pieces = 0, count = p->n * p->k, stride = count + b->dy.c + b->x.c;
  int err =
      nnk_patch_backward(b->data.c->stream, b->dx.p, b->data.add, b->relu, b->dy.p, b->x.p, b->data.master, b->dy.c,
                         b->x.c, p->m, p->n, p->k, work, &pieces, b->data.c->cuda->device.multiprocessors);
  *dw = (nnk_pieces){dw->dst, work, count, stride, pieces};
  *db = (nnk_pieces){db->dst, work + count, b->dy.c, stride, pieces};
  *data = (nnk_pieces){{NULL, NULL, 0}, work + count + b->dy.c, b->x.c, stride, pieces};
  return err;
}
