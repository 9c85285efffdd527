/* SPDX-License-Identifier: MIT
 * kinds.h - the enums of ops.list. */
#ifndef NN_KINDS_H
#define NN_KINDS_H

/* A layer of a script, and an op of the network: residual and mean are made of others and no op is one. */
enum nn_kind {
#define NN_OP(ID, word, row) NN_##ID,
#include "ops.list"
};
enum {
  NN_KINDS = 0
#define NN_OP(ID, word, row) +1
#include "ops.list"
};

enum nn_act {
  NN_ACT_NONE,
#define NN_ACT(ID) NN_ACT_##ID,
#include "ops.list"
};

enum {
  NN_ACTS = 1
#define NN_ACT(ID) +1
#include "ops.list"
};

/* What a device computes. Ops may share one, and a product has several. */
enum nn_exec {
#define NN_EXEC(ID, row, is) NN_X_##ID,
#include "ops.list"
};
enum {
  NN_EXECS = 0
#define NN_EXEC(ID, row, is) +1
#include "ops.list"
};

/* What holds of one. Without the first two it takes any order of pixels with the channels innermost. */
enum {
  NN_ROWS_ONLY = 1,    /* reads and writes pixels row by row */
  NN_PLANAR_TOO = 2,   /* reads NN_PLANAR as well */
  NN_ANY_ELEMENTS = 4, /* what it reads may be of other elements than what it writes */
  NN_FLOAT_LEAF = 8    /* writes float32 where nothing else reads the result */
};

#endif
