/* SPDX-License-Identifier: MIT
 * work.c - a batch's items on several threads, and the failure of the smallest. */
#include "work.h"

#include <string.h>

#include <spcore/ext/parallel.h>

void im_work_init(im_work *w) {
  w->status = SP_OK;
  pthread_mutex_init(&w->lock, NULL);
}

void im_work_free(im_work *w) { pthread_mutex_destroy(&w->lock); }

int im_work_run(sp_ctx *ctx, im_work *w, int threads, int64_t n, int (*item)(void *arg, int64_t i, int worker),
                void *arg) {
  const sp_parallel *par = ctx->host->get_extension(ctx, SP_EXT_PARALLEL);
  int rc = SP_OK;
  w->status = SP_OK;
  if (par) rc = par->run(ctx, threads, n, item, arg);
  else
    for (int64_t i = 0; i < n && !rc; i++) rc = item(arg, i, 0);
  if (w->status) return ctx->host->fail(ctx, w->status, "%s", w->why);
  return rc ? ctx->host->fail(ctx, rc, "the worker threads failed") : SP_OK;
}

int im_work_failed(im_work *w, int64_t i, int status, const char why[IM_WORDS]) {
  pthread_mutex_lock(&w->lock);
  if (!w->status || i < w->item) {
    w->status = status;
    w->item = i;
    memcpy(w->why, why, sizeof w->why);
  }
  pthread_mutex_unlock(&w->lock);
  return status;
}
