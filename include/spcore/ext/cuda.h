/* SPDX-License-Identifier: MIT
 *
 * spcore/ext/cuda.h - "spcore.cuda/2": what a CUDA stage gets of its lane besides ctx->stream.
 *
 * Every lane has handles and a workspace of its own, all of one size, so that a result does not depend on what runs
 * beside it. They are bound to ctx->stream: a stage never calls cublasSetStream, cudnnSetStream or cublasSetWorkspace.
 * Handles are made when they are first asked for, which takes long: ask for them in prepare(). Handles come as void *,
 * so that this header needs no CUDA.
 */
#ifndef SPCORE_EXT_CUDA_H
#define SPCORE_EXT_CUDA_H

#include "../abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SP_EXT_CUDA "spcore.cuda/2"

#define SP_CUDA_KEY_MAX 192   /* bytes of a tuning key, with its 0 */
#define SP_CUDA_VALUE_MAX 192 /* of a tuning value */

typedef struct sp_cuda {
  uint32_t size;
  int32_t device;     /* ordinal; it is current on the calling thread */
  int32_t capability; /* 10 * major + minor: 90 */
  int32_t multiprocessors;
  size_t l2_bytes;
  size_t shared_bytes;    /* most shared memory of a block, opted in */
  size_t workspace_bytes; /* of each lane */

  /* [stream, prepare()] Each gives SP_OK, or fails with words. */
  int (*cublas)(sp_ctx *ctx, void **handle);   /* cublasHandle_t */
  int (*cublaslt)(sp_ctx *ctx, void **handle); /* cublasLtHandle_t; give it ctx->stream and workspace() */
  int (*cudnn)(sp_ctx *ctx, void **handle);    /* cudnnHandle_t */
  int (*workspace)(sp_ctx *ctx, void **ptr);   /* workspace_bytes of device memory; garbage at the start of each call */

  /* Choices that were measured once: text by text, kept in a file per device and library versions, so that every
   * strategy, every later run and every process beside this one computes with the same algorithms. tuned() copies the
   * value of `key` and gives SP_OK, or SP_E_NOTFOUND without words. set_tuned() offers what was measured and gives back
   * in `value` what holds from now on: the first offer stays, another process' too, unless it equals `refused` (NULL:
   * none), a kept value that the caller cannot use. So take the value behind it, not the one in front. Both
   * [main & !running]. */
  int (*tuned)(sp_ctx *ctx, const char *key, char *value, size_t bytes);
  int (*set_tuned)(sp_ctx *ctx, const char *key, const char *refused, char *value, size_t bytes);
} sp_cuda;

#ifdef __cplusplus
}
#endif
#endif
