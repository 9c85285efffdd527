/* SPDX-License-Identifier: MIT
 * nn_ops.h - nn_ops.list for tests in C. */
#ifndef SP_TESTS_NN_OPS_H
#define SP_TESTS_NN_OPS_H

#include <stdint.h>

enum { NN_OPS_KINKS = 1 };

typedef struct nn_ops_row {
  int kind;           /* enum nn_kind */
  const char *layers; /* "{ layers = { ... } }" */
  int flags;
  double most;
  int64_t shape[4]; /* N x C: the others are 0 */
} nn_ops_row;

extern const nn_ops_row nn_ops_rows[];
extern const int nn_ops_n;
const char *nn_ops_word(int i); /* what a script calls its op */

#endif
