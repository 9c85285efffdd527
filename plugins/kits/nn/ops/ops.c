/* SPDX-License-Identifier: MIT
 * ops.c - the table of rows, and what layers and ops are called. */
#include "row.h"

const nn_row *const nn_rows[NN_KINDS] = {
#define NN_OP(ID, word, row) [NN_##ID] = &nn_row_##row,
#include "ops.list"
};

const char *const nn_words[NN_KINDS + 1] = {
#define NN_OP(ID, word, row) [NN_##ID] = word,
#include "ops.list"
};

const char *nn_kind_name(enum nn_kind kind) { return nn_words[kind]; }
