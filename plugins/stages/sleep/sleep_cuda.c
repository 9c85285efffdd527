/* SPDX-License-Identifier: MIT
 * sleep_cuda.c - the stage `sleep` on CUDA. */
#include <stdbool.h>

#include "../../kits/cuda/check.h"
#include "../../kits/spec.h"
#include "sleep.h"
#include "sleep_kernels.h"

/* A small first tensor is copied by the kernel that waits: a launch of its own would add to the cost that is known. */
static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sleep_params *p = self;
  const sp_tensor *from = io->in[0].t, *to = io->out[0].t;
  size_t first = io->in[0].n ? spec_bytes(&from->spec) : 0;
  bool along = first > 0 && first <= SLK_BYTES && p->ms > 0;
  int rc = cuda_check(ctx,
                      slk_wait(ctx->stream, p->ms, io->step, p->fail_at_step, along ? to->data : NULL,
                               along ? from->data : NULL, along ? (int)first : 0),
                      "waiting");
  for (uint32_t i = along; i < io->in[0].n && !rc; i++) {
    size_t bytes = spec_bytes(&io->in[0].t[i].spec);
    if (bytes)
      rc = cuda_check(ctx,
                      cudaMemcpyAsync(io->out[0].t[i].data, io->in[0].t[i].data, bytes, cudaMemcpyDeviceToDevice,
                                      (cudaStream_t)ctx->stream),
                      "copying");
  }
  return rc;
}

static int pass(cudaStream_t stream, float *dx, const float *dy, size_t bytes, int add) {
  if (add) return dy ? slk_add(stream, dx, dy, (int64_t)(bytes / sizeof *dx)) : cudaSuccess;
  if (dy) return cudaMemcpyAsync(dx, dy, bytes, cudaMemcpyDeviceToDevice, stream);
  return cudaMemsetAsync(dx, 0, bytes, stream);
}

static int backward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sleep_params *p = self;
  int rc = cuda_check(ctx, slk_wait(ctx->stream, p->backward_ms, NULL, -1, NULL, NULL, 0), "waiting");
  for (uint32_t i = 0; i < io->din[0].n && !rc; i++) {
    float *dx = io->din[0].t[i].data;
    size_t bytes = spec_bytes(&io->in[0].t[i].spec);
    if (!dx || !bytes || io->in[0].t[i].spec.dtype != SP_F32) continue;
    rc = cuda_check(ctx, pass((cudaStream_t)ctx->stream, dx, io->dout[0].t[i].data, bytes, io->din_acc[0][i]),
                    "passing a gradient");
  }
  return rc;
}

SP_STAGE_CUDA(SLEEP_PAIR, .forward = forward, .backward = backward);
