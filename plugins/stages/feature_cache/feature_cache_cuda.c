/* SPDX-License-Identifier: MIT
 * feature_cache_cuda.c - the stage `feature_cache` on CUDA. */
#include "../../kits/cuda/check.h"
#include "../../kits/stateless.h"
#include "feature_cache_kernels.h"

static int move_rows(sp_ctx *ctx, const sp_io *io, const cache_move *m) {
  return cuda_check(ctx, cachek_move(ctx->stream, m, io->ids), "rows of a cache");
}

CACHE_STAGE("cuda", "feature_cache_cuda", move_rows);
