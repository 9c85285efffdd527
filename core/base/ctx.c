/* SPDX-License-Identifier: MIT
 * ctx.c - see ctx.h. */
#include "base/ctx.h"

#include "base/cure.h"
#include "base/util.h"

#include <pthread.h>
#include <stdio.h>

/* A stage's own threads may fail at the same time. */
static pthread_mutex_t fail_lock = PTHREAD_MUTEX_INITIALIZER;

/* What a library or a name brings along breaks no line, and no terminal obeys it. */
static void put_in_one_line(char *s) {
  for (; *s; s++)
    if ((unsigned char)*s < ' ' || *s == 127) *s = ' ';
}

static int SP_PRINTF(3, 4) ctx_fail(sp_ctx *ctx, int status, const char *fmt, ...) {
  const sp_ctx_impl *impl = ctx->impl;
  va_list ap;
  va_start(ap, fmt);
  pthread_mutex_lock(&fail_lock);
  if (impl->err->status == SP_OK) {
    sp_vfail(impl->err, status, fmt, ap);
    put_in_one_line(impl->err->msg);
    if (impl->stage) sp_cure_words(impl->err->msg, sizeof impl->err->msg, impl->stage);
  }
  pthread_mutex_unlock(&fail_lock);
  va_end(ap);
  return status;
}

static void SP_PRINTF(3, 4) ctx_log(sp_ctx *ctx, int level, const char *fmt, ...) {
  const sp_ctx_impl *impl = ctx->impl;
  char text[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  if (impl->stage) sp_cure_words(text, sizeof text, impl->stage);
  sp_log(level, "%s: %s", impl->what, text);
}

static const void *ctx_extension(sp_ctx *ctx, const char *id) {
  const sp_ctx_impl *impl = ctx->impl;
  return impl->extension ? impl->extension(ctx, id) : NULL;
}

static const sp_host host_table = {sizeof(sp_host), SP_ABI, ctx_fail, ctx_log, ctx_extension};

sp_ctx *sp_ctx_for(sp_ctx_holder *holder, const char *what, sp_err *err) {
  err->status = SP_OK;
  err->msg[0] = 0;
  holder->impl = (sp_ctx_impl){.err = err, .what = what};
  holder->ctx = (sp_ctx){sizeof(sp_ctx), 0, &host_table, NULL, &holder->impl};
  return &holder->ctx;
}
