/* SPDX-License-Identifier: MIT
 * norm.c - batch norm: statistics of the batch or the running ones, in double, summed in a fixed order. */
#include "cpu_net.h"

#include <math.h>

/* Temporary memory: per chunk two sums of c doubles; then four vectors of c floats. Saved: mean, 1/std. */
typedef struct bn {
  const nn_call *c;
  const nn_xop *op;
  int64_t rows, ch;
  const float *x, *dy, *mean, *invstd;
  float *y, *a, *b, *e;
  double *sums;
  int acc;
  const float *mask;
} bn;

static int size(sp_ctx *ctx, nn_cpu *cpu, nn_xop *op) {
  size_t ch = (size_t)cpu->vals[op->out].c;
  op->tmp = ch * (2 * NN_CHUNKS * sizeof(double) + 8 * sizeof(float));
  (void)ctx;
  return SP_OK;
}

static bn start(const nn_call *c, const nn_xop *op) {
  const nn_val *out = nn_val_of(c, op->out);
  bn p = {.c = c,
          .op = op,
          .rows = c->w.n * out->px,
          .ch = out->c,
          .x = nn_data(c, op->in),
          .y = nn_data(c, op->out),
          .dy = nn_dout(c, op->out)};
  p.sums = (double *)c->w.tmp;
  p.a = (float *)(p.sums + 2 * NN_CHUNKS * p.ch);
  p.b = p.a + p.ch;
  p.e = p.b + p.ch;
  return p;
}

static int stats_chunk(void *arg, int64_t i, int worker) {
  bn *p = arg;
  int64_t b, e;
  (void)worker;
  nn_piece(p->rows, 1, NN_CHUNKS, i, &b, &e);
  nn_stats(p->sums + 2 * i * p->ch, p->sums + (2 * i + 1) * p->ch, p->x + b * p->ch, e - b, p->ch);
  return SP_OK;
}

static int apply_chunk(void *arg, int64_t i, int worker) {
  bn *p = arg;
  int64_t b, e;
  (void)worker;
  nn_piece(p->rows, 1, NN_CHUNKS, i, &b, &e);
  nn_scale_shift(p->y + b * p->ch, p->x + b * p->ch, p->a, p->b, e - b, p->ch, p->op->d.relu);
  return SP_OK;
}

static void add_chunks(bn *p) {
  for (int64_t i = 1; i < NN_CHUNKS; i++)
    for (int64_t j = 0; j < 2 * p->ch; j++) p->sums[j] += p->sums[2 * i * p->ch + j];
}

/* Whether a training step has the statistics of its batch. */
static int of_batch(const nn_call *c, const nn_xop *op) { return c->w.batch_stats && !op->d.keeps; }

static int forward(const nn_call *c, const nn_xop *op) {
  bn p = start(c, op);
  int w = op->d.w, keep = c->w.io->training && c->w.low->training;
  const float *gamma = nn_weight(c, w), *beta = nn_weight(c, w + 1);
  float *run_mean = nn_weight(c, w + 2), *run_var = nn_weight(c, w + 3);
  float *mean = keep ? (float *)((char *)c->w.io->saved + op->off_stats) : p.e + p.ch, *invstd = mean + p.ch;
  if (of_batch(c, op)) {
    int st = p.rows < 2 ? nn_fail(c, op, "more than one value per channel is needed for the statistics") : SP_OK;
    if (!st) st = nn_run(&c->par, NN_CHUNKS, stats_chunk, &p);
    if (st) return st;
    add_chunks(&p);
    for (int64_t j = 0; j < p.ch; j++) {
      double m = p.sums[j] / (double)p.rows, v = p.sums[p.ch + j] / (double)p.rows - m * m, f = op->d.momentum;
      if (v < 0) v = 0;
      mean[j] = (float)m;
      invstd[j] = (float)(1 / sqrt(v + op->d.eps));
      run_mean[j] = (float)((1 - f) * run_mean[j] + f * m);
      run_var[j] = (float)((1 - f) * run_var[j] + f * v * (double)p.rows / (double)(p.rows - 1));
    }
    ++*(int64_t *)c->w.io->weights[w + 4].data;
  } else {
    for (int64_t j = 0; j < p.ch; j++) {
      mean[j] = run_mean[j];
      invstd[j] = (float)(1 / sqrt((double)run_var[j] + op->d.eps));
    }
  }
  for (int64_t j = 0; j < p.ch; j++) {
    p.a[j] = gamma[j] * invstd[j];
    p.b[j] = beta[j] - mean[j] * p.a[j];
  }
  return nn_run(&c->par, NN_CHUNKS, apply_chunk, &p);
}

static int back_stats_chunk(void *arg, int64_t i, int worker) {
  bn *p = arg;
  int64_t b, e;
  (void)worker;
  nn_piece(p->rows, 1, NN_CHUNKS, i, &b, &e);
  nn_stats_back(p->sums + 2 * i * p->ch, p->sums + (2 * i + 1) * p->ch, p->dy + b * p->ch, p->x + b * p->ch, p->mean,
                p->invstd, e - b, p->ch);
  return SP_OK;
}

static int back_apply_chunk(void *arg, int64_t i, int worker) {
  bn *p = arg;
  int64_t b, e;
  (void)worker;
  nn_piece(p->rows, 1, NN_CHUNKS, i, &b, &e);
  nn_norm_back(p->y + b * p->ch, p->dy + b * p->ch, p->x + b * p->ch, p->a, p->b, p->e, e - b, p->ch, p->acc);
  if (p->mask) nn_mask(p->y + b * p->ch, p->mask + b * p->ch, (e - b) * p->ch);
  return SP_OK;
}

static int backward(const nn_call *c, const nn_xop *op) {
  bn p = start(c, op);
  const float *gamma = nn_weight(c, op->d.w);
  nn_grad gg = nn_grad_of(c, op->d.w), gb = nn_grad_of(c, op->d.w + 1);
  float *dx = nn_din(c, op->in, &p.acc, &p.mask);
  int st;
  p.mean = (float *)((char *)c->w.io->saved + op->off_stats);
  p.invstd = p.mean + p.ch;
  if ((st = nn_run(&c->par, NN_CHUNKS, back_stats_chunk, &p))) return st;
  add_chunks(&p);
  if (dx) {
    for (int64_t j = 0; j < p.ch; j++) {
      double s = p.sums[j] / (double)p.rows, d = p.sums[p.ch + j] / (double)p.rows;
      p.a[j] = gamma[j] * p.invstd[j];
      p.b[j] = of_batch(c, op) ? (float)(-(double)p.a[j] * d * p.invstd[j]) : 0;
      p.e[j] = of_batch(c, op) ? (float)((double)p.a[j] * (d * p.mean[j] * p.invstd[j] - s)) : 0;
    }
    p.y = dx;
    if ((st = nn_run(&c->par, NN_CHUNKS, back_apply_chunk, &p))) return st;
  }
  for (int64_t j = 0; j < p.ch; j++) {
    if (gg.p) gg.p[j] = (gg.beta == 0 ? 0 : gg.beta * gg.p[j]) + gg.alpha * (float)p.sums[p.ch + j];
    if (gb.p) gb.p[j] = (gb.beta == 0 ? 0 : gb.beta * gb.p[j]) + gb.alpha * (float)p.sums[j];
  }
  return SP_OK;
}

const nn_cpu_op nn_cpu_norm = {.forward = forward, .backward = backward, .size = size};
