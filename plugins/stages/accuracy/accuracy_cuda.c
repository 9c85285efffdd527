/* SPDX-License-Identifier: MIT
 * accuracy_cuda.c - the stage `accuracy` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/stateless.h"
#include "accuracy.h"
#include "accuracy_kernels.h"

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  (void)self;
  pl->scratch_bytes = ACK_BLOCKS * sizeof(ack_sums);
  return acc_plan(ctx, pl);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const acc_params *p = self;
  const sp_tensor *x = &io->in[ACC_IN_LOGITS].t[0], *y = &io->in[ACC_IN_LABELS].t[0];
  ack_job j = {.x = x->data,
               .labels = y->data,
               .label_dtype = y->spec.dtype,
               .n = x->spec.shape[0],
               .classes = x->spec.shape[1],
               .k = p->k,
               .ignore = p->ignore_index,
               .ids = io->ids,
               .top1 = io->out[ACC_OUT_TOP1].t[0].data,
               .topk = io->out[ACC_OUT_TOPK].t[0].data,
               .counted = io->out[ACC_OUT_COUNTED].t[0].data,
               .status = io->out[ACC_OUT_STATUS].t[0].data,
               .sums = io->scratch};
  return cuda_check(ctx, ack_count(ctx->stream, &j), "counting correct samples");
}

SP_STAGE_CUDA(ACCURACY_PAIR, .plan = plan, .forward = forward);
