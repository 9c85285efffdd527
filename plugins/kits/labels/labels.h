/* SPDX-License-Identifier: MIT
 * labels.h - class labels of any integer type; shared by the stages that compare logits with labels. */
#ifndef SP_PLUGINS_LABELS_H
#define SP_PLUGINS_LABELS_H

#include <stdio.h>

#include <spcore/plugin.h>

/* What kernels call too. */
#ifdef __CUDACC__
#define LABEL_FN static __host__ __device__ __forceinline__
#else
#define LABEL_FN static inline __attribute__((always_inline))
#endif

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

LABEL_FN int64_t label_at(const void *labels, int dtype, int64_t i) {
  if (dtype == SP_U8) return ((const uint8_t *)labels)[i];
  if (dtype == SP_I32) return ((const int32_t *)labels)[i];
  return ((const int64_t *)labels)[i];
}

/* Tells a STATUS port that the label at position `bad` is none of 0..last; a bad below 0: all is well. px: positions of
 * a sample. ids: NULL: samples are counted. */
LABEL_FN void label_status(int64_t *status, int code, const void *labels, int dtype, int64_t bad, int64_t px,
                           const uint64_t *ids, int64_t last) {
  status[0] = status[1] = status[2] = status[3] = 0;
  if (bad < 0) return;
  status[0] = code;
  status[1] = ids ? (int64_t)ids[bad / px] : bad / px;
  status[2] = label_at(labels, dtype, bad);
  status[3] = last;
}

/* How logits lie: `n` samples of `px` positions with `classes` values each. */
typedef struct logit_shape {
  int64_t n, px, classes;
  int rows; /* the classes of one position lie side by side */
} logit_shape;

static inline void logit_shape_of(logit_shape *s, const sp_spec *x) {
  s->n = x->shape[0];
  s->classes = x->ndim > 1 ? x->shape[1] : 1;
  s->px = 1;
  for (int d = 2; d < x->ndim; d++) s->px *= x->shape[d];
  s->rows = s->px == 1 || x->order == SP_CHANNELS_LAST;
}

/* Where a position's class lies, where `rows` says that classes lie side by side. */
LABEL_FN int64_t logit_index(const logit_shape *s, int rows, int64_t position, int64_t c) {
  if (rows) return position * s->classes + c;
  return (position / s->px * s->classes + c) * s->px + position % s->px;
}

/* A target N x ... of inputs N x 1 x ...: as if it had that dimension. */
static inline sp_spec target_spec(const sp_spec *x, const sp_spec *y) {
  sp_spec s = *y;
  if (x->ndim < 3 || y->ndim != x->ndim - 1 || x->shape[1] != 1 || y->order != SP_ROW_MAJOR) return s;
  s.ndim = x->ndim;
  s.shape[1] = 1;
  for (int d = 2; d < x->ndim; d++) s.shape[d] = y->shape[d - 1];
  return s;
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
