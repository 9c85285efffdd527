/* SPDX-License-Identifier: MIT
 * gemm.c - linear, 1x1 and patch convolutions and their transposes as matrix products.
 *
 * y[m][n] = x[m][k] w[n][k]: rows are pixels, w lies as [n][k] (k = kh,kw,c of a convolution; n = kh,kw,out of a
 * transposed one). Products are cut into a fixed grid of pieces; one thread computes a piece and finishes it while it
 * is in cache.
 *
 * The bits that oneDNN gives a row hang on where it is, since the last ones are computed otherwise. Where an image is
 * in a batch must not be seen of a frozen network, so there a product has one row for each (nn_target.apart),
 * and none is oneDNN's. */
#include "cpu_net.h"

#define SKINNY 32       /* rows up to which reading w bounds the product */
#define TILED (1 << 16) /* weights from which their gradient is cut into tiles, not into sums */

typedef struct mm {
  const nn_call *c;
  const nn_xop *op;
  int64_t m, n, k;
  const float *x, *w, *dy, *bias, *plus, *mask;
  float *y, *dx, *part;
  int64_t cols, mt, nt, mb; /* the grid */
  int acc;
  nn_grad g;
} mm;

static void dims(const nn_cpu *cpu, const nn_xop *op, int64_t n, mm *p) {
  nn_extents(cpu, op, n, &p->m, &p->n, &p->k);
  p->cols = cpu->vals[op->out].c;
}

/* Rows are cut first; columns where there are few rows. */
static void grid(mm *p, int64_t columns) {
  p->mb = (p->m / NN_CHUNKS + 63) / 64 * 64;
  if (p->mb < 256) p->mb = 256;
  if (p->mb > 1024) p->mb = 1024;
  p->mt = (p->m + p->mb - 1) / p->mb;
  p->nt = p->mt >= NN_CHUNKS ? 1 : (NN_CHUNKS + p->mt - 1) / p->mt;
  if (p->nt > (columns + 63) / 64) p->nt = (columns + 63) / 64;
}

static void cell(const mm *p, int64_t i, int64_t columns, int64_t *m0, int64_t *m1, int64_t *n0, int64_t *n1) {
  *m0 = i / p->nt * p->mb;
  *m1 = *m0 + p->mb < p->m ? *m0 + p->mb : p->m;
  nn_piece(columns, 16, p->nt, i % p->nt, n0, n1);
}

static int size(sp_ctx *ctx, nn_cpu *cpu, nn_xop *op) {
  mm p;
  dims(cpu, op, cpu->batch, &p);
  if (op->d.norm) {
    op->off_w = nn_constant(cpu, (size_t)(p.n * p.k) * sizeof(float));
    op->off_b = nn_constant(cpu, (size_t)p.cols * sizeof(float));
  }
  op->tmp = nn_bias_bytes(p.n, 1);
  if (p.n * p.k < TILED) op->tmp += (size_t)(p.n * p.k * NN_CHUNKS) * sizeof(float);
  (void)ctx;
  return SP_OK;
}

static int forward_piece(void *arg, int64_t i, int worker) {
  mm *p = arg;
  int64_t m0, m1, n0, n1;
  float *y;
  (void)worker;
  cell(p, i, p->n, &m0, &m1, &n0, &n1);
  if (n0 == n1) return SP_OK;
  y = p->y + m0 * p->n + n0;
  if (p->m <= SKINNY || p->c->w.low->frozen)
    nn_skinny(p->y + m0 * p->n, p->x + m0 * p->k, p->w, m1 - m0, n0, n1, p->k, p->n);
  else if (nn_gemm(0, 1, m1 - m0, n1 - n0, p->k, 1, p->x + m0 * p->k, p->k, p->w + n0 * p->k, p->k, 0, y, p->n))
    return nn_fail(p->c, p->op, "oneDNN refused the matrix product");
  nn_bias_relu(y, p->bias, p->plus ? p->plus + m0 * p->n + n0 : NULL, m1 - m0, n1 - n0, p->cols, n0 % p->cols, p->n,
               p->op->d.relu);
  return SP_OK;
}

static int forward(const nn_call *c, const nn_xop *op) {
  mm p = {.c = c, .op = op};
  dims(c->w.low, op, c->w.n, &p);
  p.x = nn_data(c, op->in);
  p.y = nn_data(c, op->out);
  p.w = nn_product_weight(c, op);
  p.bias = nn_product_bias(c, op);
  p.plus = nn_product_plus(c, op);
  grid(&p, p.n);
  return nn_run(&c->par, p.mt * p.nt, forward_piece, &p);
}

static int data_piece(void *arg, int64_t i, int worker) {
  mm *p = arg;
  int64_t m0, m1, k0, k1;
  (void)worker;
  cell(p, i, p->k, &m0, &m1, &k0, &k1);
  if (k0 == k1) return SP_OK;
  if (nn_gemm(0, 0, m1 - m0, k1 - k0, p->n, 1, p->dy + m0 * p->n, p->n, p->w + k0, p->k, (float)p->acc,
              p->dx + m0 * p->k + k0, p->k))
    return nn_fail(p->c, p->op, "oneDNN refused the matrix product");
  if (p->mask)
    for (int64_t r = m0; r < m1; r++) nn_mask(p->dx + r * p->k + k0, p->mask + r * p->k + k0, k1 - k0);
  return SP_OK;
}

static int tile_piece(void *arg, int64_t i, int worker) {
  mm *p = arg;
  int64_t n0, n1, k0, k1;
  (void)worker;
  nn_piece(p->n, 16, p->mt, i / p->nt, &n0, &n1);
  nn_piece(p->k, 16, p->nt, i % p->nt, &k0, &k1);
  if (n0 == n1 || k0 == k1) return SP_OK;
  if (nn_gemm(1, 0, n1 - n0, k1 - k0, p->m, p->g.alpha, p->dy + n0, p->n, p->x + k0, p->k, p->g.beta,
              p->g.p + n0 * p->k + k0, p->k))
    return nn_fail(p->c, p->op, "oneDNN refused the matrix product");
  return SP_OK;
}

static int sum_piece(void *arg, int64_t i, int worker) {
  mm *p = arg;
  int64_t m0, m1;
  (void)worker;
  nn_piece(p->m, 1, p->mt, i, &m0, &m1);
  if (nn_gemm(1, 0, p->n, p->k, m1 - m0, 1, p->dy + m0 * p->n, p->n, p->x + m0 * p->k, p->k, 0,
              p->part + i * p->n * p->k, p->k))
    return nn_fail(p->c, p->op, "oneDNN refused the matrix product");
  return SP_OK;
}

static int weight_grad(const nn_call *c, mm *p) {
  int64_t size = p->n * p->k;
  int st;
  if (size >= TILED) {
    p->mt = p->n > p->k ? 8 : 2; /* tiles of dW, from here on */
    p->nt = 16 / p->mt;
    return nn_run(&c->par, p->mt * p->nt, tile_piece, p);
  }
  p->mt = p->m < NN_CHUNKS ? p->m : NN_CHUNKS;
  st = nn_run(&c->par, p->mt, sum_piece, p);
  if (st) return st;
  for (int64_t i = 1; i < p->mt; i++) nn_axpy(p->part, p->part + i * size, 1, 1, size);
  nn_axpy(p->g.p, p->part, p->g.alpha, p->g.beta, size);
  return SP_OK;
}

static int backward(const nn_call *c, const nn_xop *op) {
  mm p = {.c = c, .op = op};
  int fold, st = SP_OK;
  dims(c->w.low, op, c->w.n, &p);
  p.dy = nn_dout(c, op->out);
  p.x = nn_data(c, op->in);
  p.w = nn_product_weight(c, op);
  fold = (int)(p.n / p.cols);
  p.dx = nn_din(c, op->in, &p.acc, &p.mask);
  if (p.dx) {
    grid(&p, p.k);
    st = nn_run(&c->par, p.mt * p.nt, data_piece, &p);
  }
  if (!st) st = nn_plus_backward(c, op);
  if (!st && op->d.bias) st = nn_bias_grad(c, nn_grad_of(c, op->d.w + 1), p.dy, p.m, p.cols, fold, (float *)c->w.tmp);
  p.g = nn_grad_of(c, op->d.w);
  p.part = (float *)(c->w.tmp + nn_bias_bytes(p.n, 1));
  if (!st && p.g.p) st = weight_grad(c, &p);
  return st;
}

static nn_grad applied(const nn_call *c, int w) {
  int add;
  float *p = nn_applied(&c->w, w, &add);
  return (nn_grad){p, *c->w.io->dw_scale, (float)add};
}

static int apply(const nn_call *c, const nn_xop *op) {
  mm p = {.c = c, .op = op};
  int st = SP_OK;
  dims(c->w.low, op, c->w.n, &p);
  p.x = nn_factor(&c->w, c->w.low->vals[op->in].rows);
  p.dy = nn_factor(&c->w, c->w.low->vals[op->out].drows);
  if (op->d.bias)
    st = nn_bias_grad(c, applied(c, op->d.w + 1), p.dy, p.m, p.cols, (int)(p.n / p.cols), (float *)c->w.tmp);
  p.g = applied(c, op->d.w);
  p.part = (float *)(c->w.tmp + nn_bias_bytes(p.n, 1));
  return st ? st : weight_grad(c, &p);
}

static int constants(sp_ctx *ctx, const nn_cpu *cpu, const nn_xop *op, const sp_io *io) {
  (void)ctx;
  if (op->d.norm) nn_fold_constants(cpu, op, io, (float *)((char *)io->consts + op->off_w));
  return SP_OK;
}

const nn_cpu_op nn_cpu_gemm = {
    .forward = forward, .backward = backward, .size = size, .constants = constants, .apply = apply};
