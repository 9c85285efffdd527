/* SPDX-License-Identifier: MIT
 * pool.c - the largest number or the mean under a window; the mean of the whole map. */
#include "row.h"

static int add(const nn_making *m, nn_op op) {
  nn_value v = m->net->values[m->in[0]];
  const char *type = nn_kind_name(op.kind);
  int64_t hw[2] = {v.h, v.w}, o[2];
  int status = nn_need_map(m);
  if (status) return status;
  for (int i = 0; i < 2; i++) {
    if (op.k[i] > hw[i] + 2 * op.p[i])
      return m->ctx->host->fail(m->ctx, SP_E_SHAPE, "%s (%s): kernel %d is larger than the map, %lld %s with pad %d",
                                m->place, type, op.k[i], (long long)hw[i], i ? "wide" : "high", op.p[i]);
    if (op.p[i] * 2 > op.k[i])
      return m->ctx->host->fail(m->ctx, SP_E_INVALID, "%s (%s): pad %d is more than half of the kernel %d", m->place,
                                type, op.p[i], op.k[i]);
    o[i] = (hw[i] + 2 * op.p[i] - op.k[i]) / op.s[i] + 1;
  }
  op.in = m->in[0];
  op.w = -1;
  return nn_add_op(m->ctx, m->net, &op, (nn_value){v.c, o[0], o[1], 0});
}

static int pool(const nn_making *m, nn_op op) {
  nn_two(&m->l->kernel, 2, op.k);
  for (int i = 0; i < 2; i++) {
    int s[2];
    nn_two(&m->l->stride, op.k[i], s);
    op.s[i] = s[i];
  }
  nn_two(&m->l->pad, 0, op.p);
  return add(m, op);
}

static int max_pool(const nn_making *m) { return pool(m, (nn_op){.kind = NN_MAX_POOL}); }
static int avg_pool(const nn_making *m) { return pool(m, (nn_op){.kind = NN_AVG_POOL}); }

/* Over the map, which becomes one pixel. */
static int mean(const nn_making *m) {
  nn_value v = m->net->values[m->in[0]];
  int status = nn_need_map(m);
  if (status) return status;
  if (v.h > INT32_MAX / v.w)
    return m->ctx->host->fail(m->ctx, SP_E_SHAPE, "%s (mean): a map of %lld x %lld is too large to take its mean",
                              m->place, (long long)v.h, (long long)v.w);
  if (v.h * v.w == 1) return m->in[0];
  return add(m, (nn_op){.kind = NN_AVG_POOL, .k = {(int)v.h, (int)v.w}, .s = {1, 1}});
}

#define FIELDS "kernel stride pad"

const nn_row nn_row_max_pool = {.fields = FIELDS, .build = max_pool, .exec = NN_X_POOL};
const nn_row nn_row_avg_pool = {.fields = FIELDS, .build = avg_pool, .exec = NN_X_POOL};
const nn_row nn_row_mean = {.build = mean, .exec = NN_X_POOL};
