/* SPDX-License-Identifier: MIT
 * check.h - a CUDA status as the failure of a stage, with words. */
#ifndef SPCORE_CUDA_CHECK_H
#define SPCORE_CUDA_CHECK_H

#include <cuda_runtime_api.h>

#include <spcore/abi.h>

static inline int cuda_check(sp_ctx *ctx, int status, const char *what) {
  if (status == cudaSuccess) return SP_OK;
  return ctx->host->fail(ctx, SP_E_DEVICE, "%s: %s (%s)", what, cudaGetErrorString((cudaError_t)status),
                         cudaGetErrorName((cudaError_t)status));
}

#endif
