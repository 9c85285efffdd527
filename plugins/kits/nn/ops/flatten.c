/* SPDX-License-Identifier: MIT
 * flatten.c - a map as a row of numbers, channel by channel: a copy in the order of pixels that this takes. */
#include "row.h"

static int build(const nn_making *m) {
  nn_value v = m->net->values[m->in[0]];
  return v.flat ? m->in[0] : nn_add_simple(m, NN_FLATTEN, (nn_value){v.c * v.h * v.w, 1, 1, 1});
}

const nn_row nn_row_flatten = {.build = build, .exec = NN_X_COPY};
