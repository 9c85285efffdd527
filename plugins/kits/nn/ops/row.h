/* SPDX-License-Identifier: MIT
 * row.h - what is known of an op, whatever the device: how a script says it, what it makes of a network, and what
 * lowering asks. A row for each line of ops.list; README.md has how to add one. */
#ifndef NN_ROW_H
#define NN_ROW_H

#include "../net/net_impl.h"

/* A layer that is being added. */
typedef struct nn_making {
  sp_ctx *ctx;
  nn_net *net;
  const nn_layer *l;
  const int *in; /* the values that it reads */
  int n;
  const char *name, *place, *type; /* of its weights, NULL: no script's; in messages */
} nn_making;

enum {
  NN_PRODUCT = 1,    /* of weights and what it reads: conv, conv_transpose, linear */
  NN_AFFINE = 2,     /* has a trained weight and a trained bias, whatever nn_op.bias says */
  NN_TAKES_RELU = 4, /* applies a ReLU to its result (nn_op.relu) */
  NN_PIXELWISE = 8,  /* its result is in the order of pixels of what it reads, whichever that is */
  NN_ENLARGES = 16,  /* what it reads may be smaller than its result (nn_target.enlarges) */
  NN_DRAWS = 32      /* needs the step and ids in training */
};

/* What may be left to another op: fold.c, which goes through them in this order. */
enum nn_folds { NN_STAYS, NN_FOLDS_ENLARGING, NN_FOLDS_NORM, NN_FOLDS_SUM, NN_FOLDS_ACT };

typedef struct nn_row {
  /* a layer of a script */
  const char *fields;               /* names of those of nn_layer_fields that it has, beside type, name, from and tap */
  const char *out;                  /* what `out` is, in messages; NULL: it may be left out */
  int least, most;                  /* how many values it reads; 0, 0: one */
  int holds;                        /* its weights are called NAME.PART.weight */
  int (*build)(const nn_making *m); /* returns the value that it makes, or an SP_E_... */
  /* an op */
  unsigned is;
  enum nn_exec exec; /* what computes it; not of products */
  enum nn_folds folds;
  int64_t (*stats)(const nn_op *op, int64_t batch, int64_t channels); /* pairs of mean and 1/std to be saved; NULL: 0 */
} nn_row;

extern const nn_row *const nn_rows[NN_KINDS];
#define NN_OP(ID, word, row) extern const nn_row nn_row_##row;
#include "ops.list"

static inline int nn_is(enum nn_kind kind, unsigned what) { return (nn_rows[kind]->is & what) != 0; }

/* ---- for builders: build.c. They fail with words about the layer ------------------------------------------------- */
void nn_two(const sp_ints *v, int def, int dst[2]); /* one number or {y, x}; def where it is 0 */
int nn_need_map(const nn_making *m);
int nn_check_size(const nn_making *m, int64_t c, int64_t h, int64_t w);
int nn_check_groups(const nn_making *m, int64_t groups, int64_t in, int64_t out);
/* A weight, and a bias where the op has one, as PyTorch begins them. */
int nn_add_uniform(const nn_making *m, const nn_op *op, int ndim, const int64_t *shape, int64_t out, double fan_in);
/* A weight that begins as 1 and a bias as 0, for each channel. */
int nn_add_affine(sp_ctx *ctx, nn_net *net, const char *name, int64_t c);
/* An op without weights that reads all of m->in. */
int nn_add_simple(const nn_making *m, enum nn_kind kind, nn_value out);

#endif
