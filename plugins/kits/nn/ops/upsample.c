/* SPDX-License-Identifier: MIT
 * upsample.c - a map of another size, nearest or bilinear. */
#include "axis.h"
#include "row.h"

static int build(const nn_making *m) {
  const nn_layer *l = m->l;
  nn_value v = m->net->values[m->in[0]];
  nn_op op = {.kind = NN_UPSAMPLE, .in = m->in[0], .w = -1, .mode = l->align_corners ? NN_ALIGNED : l->mode};
  int scale[2], size[2], status = nn_need_map(m);
  if (status) return status;
  nn_two(&l->scale, 0, scale);
  nn_two(&l->size, 0, size);
  if (!(scale[0] && scale[1]) == !(size[0] && size[1]))
    return m->ctx->host->fail(m->ctx, SP_E_INVALID, "%s (upsample): give either `scale`, `size` or `like`", m->place);
  if (l->align_corners && l->mode != NN_BILINEAR)
    return m->ctx->host->fail(m->ctx, SP_E_INVALID, "%s (upsample): align_corners is for mode = \"bilinear\"",
                              m->place);
  v.h = scale[0] ? v.h * scale[0] : size[0];
  v.w = scale[0] ? v.w * scale[1] : size[1];
  if ((status = nn_check_size(m, v.c, v.h, v.w))) return status;
  return nn_add_op(m->ctx, m->net, &op, v);
}

const nn_row nn_row_upsample = {
    .fields = "scale size like mode align_corners", .build = build, .exec = NN_X_UPSAMPLE, .folds = NN_FOLDS_ENLARGING};
