/* SPDX-License-Identifier: MIT
 * gemm_cuda.c - the stage `gemm` on CUDA, by cuBLAS. */
#include <cublas_v2.h>

#include <spcore/ext/cuda.h>
#include <spcore/ext/precision.h>

#include "gemm.h"

static int precision_of(sp_ctx *ctx) {
  const sp_precision *p = (const sp_precision *)ctx->host->get_extension(ctx, SP_EXT_PRECISION);
  return p ? p->precision : SP_PRECISION_FP32;
}

/* cuBLAS counts columns first: what is row-major here is transposed there, and c^T = b^T a^T. */
static int product(sp_ctx *ctx, cublasHandle_t handle, const gemm_call *p, cublasComputeType_t compute) {
  const float one = 1, zero = 0;
  cublasStatus_t st =
      cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, (int)p->n, (int)p->m, (int)p->k, &one, p->b, CUDA_R_32F, (int)p->n,
                   p->a, CUDA_R_32F, (int)p->k, &zero, p->c, CUDA_R_32F, (int)p->n, compute, CUBLAS_GEMM_DEFAULT);
  if (st == CUBLAS_STATUS_SUCCESS) return SP_OK;
  return ctx->host->fail(ctx, SP_E_DEVICE, "cuBLAS refused the product (%s)", cublasGetStatusName(st));
}

static int handle_of(sp_ctx *ctx, cublasHandle_t *handle) {
  const sp_cuda *ext = (const sp_cuda *)ctx->host->get_extension(ctx, SP_EXT_CUDA);
  void *h = NULL;
  int rc = ext ? ext->cublas(ctx, &h) : ctx->host->fail(ctx, SP_E_UNSUPPORTED, "the device gives no " SP_EXT_CUDA);
  *handle = h;
  return rc;
}

static int prepare(sp_ctx *ctx, void *self, const sp_io *io) {
  cublasHandle_t handle;
  (void)self;
  (void)io;
  return handle_of(ctx, &handle);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const gemm_call p = gemm_call_of(io);
  cublasComputeType_t compute =
      precision_of(ctx) == SP_PRECISION_FP32 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32;
  cublasHandle_t handle;
  int rc = handle_of(ctx, &handle);
  for (int64_t i = 0; i < ((const gemm *)self)->p->times && !rc; i++) rc = product(ctx, handle, &p, compute);
  return rc;
}

const sp_stage_type gemm_cuda = {.size = sizeof(sp_stage_type),
                                 .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT,
                                 .name = "gemm",
                                 .device = "cuda",
                                 .doc = GEMM_DOC,
                                 .inputs = gemm_inputs,
                                 .outputs = gemm_outputs,
                                 .params = gemm_param_table,
                                 .params_size = sizeof(gemm_params),
                                 .create = gemm_create,
                                 .destroy = gemm_destroy,
                                 .plan = gemm_plan,
                                 .prepare = prepare,
                                 .forward = forward};
