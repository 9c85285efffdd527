/* SPDX-License-Identifier: MIT
 * nn_ops.c - nn_ops.list for tests in C. */
#include "nn_ops.h"

#include "plugins/kits/nn/ops/kinds.h"

/* A line of ops.list that has no row stops here: the compiler names it. */
enum {
#define OP(ID, ...) ROW_OF_##ID,
#define MORE(ID, ...)
#include "nn_ops.list"
#undef OP
#undef MORE
  ROWS
};
#define NN_OP(ID, word, row) _Static_assert((int)ROW_OF_##ID < (int)ROWS, "a row of " word);
#include "plugins/kits/nn/ops/ops.list"

static const char *const words[NN_KINDS] = {
#define NN_OP(ID, word, row) [NN_##ID] = word,
#include "plugins/kits/nn/ops/ops.list"
};

/* The others are for Python. */
enum { KINKS = NN_OPS_KINKS, FN = 0, DRAWS = 0, NO_ONNX = 0, PARTS = 0 };

#define SHAPE(...) \
  { __VA_ARGS__ }
#define MORE OP
#define OP(ID, flags, most, shape, module, ...) \
  {NN_##ID, "{ layers = { " #__VA_ARGS__ " } }", flags, most, SHAPE shape},

const nn_ops_row nn_ops_rows[] = {
#include "nn_ops.list"
};
const int nn_ops_n = (int)(sizeof nn_ops_rows / sizeof *nn_ops_rows);

const char *nn_ops_word(int i) { return words[nn_ops_rows[i].kind]; }
