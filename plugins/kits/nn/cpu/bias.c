/* SPDX-License-Identifier: MIT
 * bias.c - the gradient of a bias: sums of the columns of dy, in pieces, added in a fixed order. */
#include "cpu_net.h"

typedef struct bs {
  const float *x;
  float *part;
  int64_t rows, width;
  int64_t pieces;
} bs;

static int64_t pieces_of(int64_t rows) { return rows >= NN_CHUNKS * 8 ? NN_CHUNKS : 1; }

size_t nn_bias_bytes(int64_t cols, int fold) {
  return ((size_t)(cols * fold * NN_CHUNKS) * sizeof(float) + 255) & ~(size_t)255;
}

static int piece(void *arg, int64_t i, int worker) {
  bs *s = arg;
  int64_t b, e;
  (void)worker;
  nn_piece(s->rows, 1, s->pieces, i, &b, &e);
  nn_colsum(s->part + i * s->width, s->x + b * s->width, e - b, s->width);
  return SP_OK;
}

int nn_bias_grad(const nn_call *c, nn_grad g, const float *x, int64_t rows, int64_t cols, int fold, float *tmp) {
  bs s = {x, tmp, rows, cols * fold, pieces_of(rows)};
  int st;
  if (!g.p) return SP_OK;
  if ((st = nn_run(&c->par, s.pieces, piece, &s))) return st;
  for (int64_t i = 1; i < s.pieces * fold; i++) nn_axpy(tmp, tmp + i * cols, 1, 1, cols);
  nn_axpy(g.p, tmp, g.alpha, g.beta, cols);
  return SP_OK;
}
