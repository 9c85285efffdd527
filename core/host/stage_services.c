/* SPDX-License-Identifier: MIT
 * stage_services.c - what a stage may ask of its context: worker threads, the queue of requests,
 * the precision of products. */
#include "host/stage_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/crash.h"
#include "base/cure.h"

#include <spcore/ext/parallel.h>

static const sp_inst *inst_of(const sp_ctx *ctx) { return sp_ctx_impl_of(ctx)->arg; }

static int parallel_threads(sp_ctx *ctx) {
  const sp_stage_host *host = inst_of(ctx)->host;
  return host->threads > 0 ? host->threads : 1;
}

#define WATCHED 64 /* threads of one call whose times are taken */

typedef struct watched {
  int (*fn)(void *arg, int64_t i, int worker);
  void *arg;
  double begin[WATCHED], end[WATCHED];
} watched;

static int watched_item(void *arg, int64_t i, int worker) {
  watched *w = arg;
  if (worker >= WATCHED) return w->fn(w->arg, i, worker);
  if (!w->begin[worker]) w->begin[worker] = sp_now();
  int status = w->fn(w->arg, i, worker);
  w->end[worker] = sp_now();
  return status;
}

static int run_watched(const sp_inst *inst, const sp_under_way *call, int threads, int64_t n,
                       int (*fn)(void *arg, int64_t i, int worker), void *arg) {
  watched w = {.fn = fn, .arg = arg};
  int status = sp_team_run(inst->host->team, threads, n, watched_item, &w);
  for (int i = 0; i < WATCHED && i < threads; i++) {
    if (!w.begin[i]) continue;
    sp_span span = {inst->name, call->what, call->step, w.begin[i], w.end[i], call->caller, i};
    inst->host->observe(inst->host->observe_arg, &span);
  }
  return status;
}

static int parallel_run(sp_ctx *ctx, int threads, int64_t n, int (*fn)(void *arg, int64_t i, int worker), void *arg) {
  if (threads < 0 || n < 0 || !fn)
    return ctx->host->fail(ctx, SP_E_INVALID, "spcore.parallel: run(%d, %lld) is no call", threads, (long long)n);
  if (!threads) threads = parallel_threads(ctx);
  const sp_under_way *call = sp_ctx_impl_of(ctx)->call;
  if (call && inst_of(ctx)->host->observe && inst_of(ctx)->type->flags & SP_STAGE_SOURCE)
    return run_watched(inst_of(ctx), call, threads, n, fn, arg);
  return sp_team_run(inst_of(ctx)->host->team, threads, n, fn, arg);
}

static const sp_parallel parallel_ext = {sizeof(sp_parallel), 0, parallel_threads, parallel_run};

static sp_queue *feed_queue(sp_ctx *ctx) { return inst_of(ctx)->host->queue; }

/* Its words may propose a parameter of the stage that this thread works for. */
static void feed_reject(sp_queue *queue, uint64_t id, int status, const char *words) {
  const sp_crash_call *call = sp_crash_current();
  char cured[1536];
  snprintf(cured, sizeof cured, "%s", words ? words : "");
  if (call && call->stage) sp_cure_words(cured, sizeof cured, call->stage);
  sp_queue_reject(queue, id, status, cured);
}

static const sp_feed_api feed_ext = {sizeof(sp_feed_api), 0,
                                     feed_queue,          sp_queue_attach,
                                     sp_queue_detach,     sp_queue_submit,
                                     sp_queue_cancel,     sp_queue_parts,
                                     sp_queue_name,       feed_reject};

const void *sp_stage_extension(sp_ctx *ctx, const char *id) {
  const sp_stage_host *host = inst_of(ctx)->host;
  if (strcmp(id, SP_EXT_FEED) == 0 && host->queue) return &feed_ext;
  if (strcmp(id, SP_EXT_PARALLEL) == 0 && host->team) return &parallel_ext;
  if (strcmp(id, SP_EXT_PRECISION) == 0 && inst_of(ctx)->precision) return inst_of(ctx)->precision;
  return host->extension ? host->extension(host->extension_arg, id) : NULL;
}
