/* SPDX-License-Identifier: MIT
 * par.h - runs the items of a CPU stage on the host's worker threads, or one after another where there are none. */
#ifndef SP_PLUGINS_PAR_H
#define SP_PLUGINS_PAR_H

#include <spcore/ext/parallel.h>

static inline int par_run(sp_ctx *ctx, int64_t n, int (*fn)(void *arg, int64_t i, int worker), void *arg) {
  const sp_parallel *par = (const sp_parallel *)ctx->host->get_extension(ctx, SP_EXT_PARALLEL);
  if (par && n > 1) return par->run(ctx, 0, n, fn, arg);
  for (int64_t i = 0; i < n; i++) {
    int rc = fn(arg, i, 0);
    if (rc) return rc;
  }
  return SP_OK;
}

static inline int par_threads(sp_ctx *ctx) {
  const sp_parallel *par = (const sp_parallel *)ctx->host->get_extension(ctx, SP_EXT_PARALLEL);
  return par ? par->threads(ctx) : 1;
}

#endif
