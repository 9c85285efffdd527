/* SPDX-License-Identifier: MIT
 * dropout.c - zeros drawn in training, of elements or of whole maps. */
#include "row.h"

#include <spcore/rng.h>

static int build(const nn_making *m) {
  nn_op op = {
      .kind = NN_DROPOUT, .in = m->in[0], .w = -1, .drop = m->l->p, .maps = m->l->maps, .salt = sp_rng_key(0, m->name)};
  return nn_add_op(m->ctx, m->net, &op, m->net->values[op.in]);
}

const nn_row nn_row_dropout = {.fields = "p maps", .build = build, .is = NN_PIXELWISE | NN_DRAWS, .exec = NN_X_DROP};
