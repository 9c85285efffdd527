/* SPDX-License-Identifier: MIT
 * labels.h - class labels of any integer type; shared by the stages that compare logits with labels. */
#ifndef SP_PLUGINS_LABELS_H
#define SP_PLUGINS_LABELS_H

#include <stdio.h>

#include <spcore/plugin.h>

#define LABEL_DTYPES (SP_DT(SP_U8) | SP_DT(SP_I32) | SP_DT(SP_I64))

/* Which labels do not count; `holder` has them as `member`. */
#define LABEL_PARAM_IGNORE(holder, member)                                                          \
  {                                                                                                 \
    .name = "ignore_index", .type = SP_PARAM_INT, .offset = offsetof(holder, member), .idef = -100, \
    .doc = "labels of this value do not count"                                                      \
  }
#define LABEL_PORT_STATUS                                                                           \
  {                                                                                                 \
    .name = "status", .dtypes = SP_DT(SP_I64), .ndim = 1, .flags = SP_PORT_STATUS | SP_PORT_NOGRAD, \
    .doc = "the first label out of range"                                                           \
  }

static inline int64_t label_at(const void *labels, int dtype, int64_t i) {
  if (dtype == SP_U8) return ((const uint8_t *)labels)[i];
  if (dtype == SP_I32) return ((const int32_t *)labels)[i];
  return ((const int64_t *)labels)[i];
}

/* How logits lie: `n` samples of `px` positions with `classes` values each. */
typedef struct logit_shape {
  int64_t n, px, classes;
  int rows; /* the classes of one position lie side by side */
} logit_shape;

static inline void logit_shape_of(logit_shape *s, const sp_spec *x) {
  s->n = x->shape[0];
  s->classes = x->shape[1];
  s->px = 1;
  for (int d = 2; d < x->ndim; d++) s->px *= x->shape[d];
  s->rows = s->px == 1 || x->order == SP_CHANNELS_LAST;
}

/* Checks that labels are logits without dimension 1, and that both lie in an order that is known here. */
static inline int labels_check(sp_ctx *ctx, const sp_spec *x, const sp_spec *y) {
  if (x->ndim < 2) return ctx->host->fail(ctx, SP_E_SHAPE, "logits have %d dimensions, N x C x ... is wanted", x->ndim);
  if (x->shape[1] < 1 || x->shape[1] > INT32_MAX)
    return ctx->host->fail(ctx, SP_E_SHAPE, "logits have %lld classes", (long long)x->shape[1]);
  if (x->order != SP_ROW_MAJOR && x->order != SP_CHANNELS_LAST)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "logits are neither row-major nor channels-last in memory");
  if (y->order != SP_ROW_MAJOR) return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "labels are not row-major in memory");
  int fits = y->ndim == x->ndim - 1 && y->shape[0] == x->shape[0];
  for (int d = 2; d < x->ndim && fits; d++) fits = y->shape[d - 1] == x->shape[d];
  if (fits) return SP_OK;
  char want[160] = "", got[160] = "";
  size_t w = 0, g = 0;
  for (int d = 0; d < x->ndim && w < sizeof want; d++)
    if (d != 1) w += (size_t)snprintf(want + w, sizeof want - w, w ? " x %lld" : "%lld", (long long)x->shape[d]);
  for (int d = 0; d < y->ndim && g < sizeof got; d++)
    g += (size_t)snprintf(got + g, sizeof got - g, g ? " x %lld" : "%lld", (long long)y->shape[d]);
  return ctx->host->fail(ctx, SP_E_SHAPE, "labels are %s, but the logits want %s", got, want);
}

#endif
