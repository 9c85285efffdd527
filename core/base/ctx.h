/* SPDX-License-Identifier: MIT
 * ctx.h - contexts for calls into plugins: fail() fills an sp_err, the first words are kept. */
#ifndef SP_CORE_CTX_H
#define SP_CORE_CTX_H

#include "base/err.h"

typedef struct sp_ctx_impl {
  sp_err *err;
  const char *what;                                      /* begins log lines */
  const char *stage;                                     /* the type of stage whose messages have cures; NULL: none */
  const void *(*extension)(sp_ctx *ctx, const char *id); /* NULL: there are none */
  const void *arg;                                       /* for the extensions */
  const void *call;                                      /* of a stage: the call that it is for; NULL:
                                                            of another kind */
} sp_ctx_impl;
typedef struct sp_ctx_holder {
  sp_ctx ctx;
  sp_ctx_impl impl;
} sp_ctx_holder;

/* A context for calls into a device or a format; err is cleared here. Valid as long as `holder`, `what` and err. */
sp_ctx *sp_ctx_for(sp_ctx_holder *holder, const char *what, sp_err *err);

static inline sp_ctx_impl *sp_ctx_impl_of(const sp_ctx *ctx) { return ctx->impl; }

#endif
