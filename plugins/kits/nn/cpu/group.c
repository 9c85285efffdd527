/* SPDX-License-Identifier: MIT
 * group.c - group norm: statistics of each sample's groups of channels, in double, summed in a fixed order. */
#include "cpu_net.h"

#include <math.h>

enum { PIECE_PIXELS = 64, VECTORS = 5 };

/* Temporary memory: per sample and piece two sums of ch doubles; per sample VECTORS of ch floats; the statistics,
 * unless they are saved: per sample the groups' means, and their 1/std. */
typedef struct gn {
  const nn_xop *op;
  int64_t n, px, ch, groups, pieces;
  const float *x, *dy, *gamma, *beta, *mask;
  float *y, *stats, *vectors;
  double *sums;
  int acc;
} gn;

/* A function of the map alone: a sample's bits do not depend on the batch. */
static int64_t pieces_of(int64_t px) {
  int64_t pieces = (px + PIECE_PIXELS - 1) / PIECE_PIXELS;
  return pieces < NN_CHUNKS ? pieces : NN_CHUNKS;
}

static int size(sp_ctx *ctx, nn_cpu *cpu, nn_xop *op) {
  const nn_val *v = &cpu->vals[op->out];
  size_t sums = (size_t)(pieces_of(v->px) * v->c) * 2 * sizeof(double);
  size_t floats = (size_t)(v->c * VECTORS + op->d.groups * 2) * sizeof(float);
  op->tmp = (size_t)cpu->batch * (sums + floats);
  (void)ctx;
  return SP_OK;
}

static gn start(const nn_call *c, const nn_xop *op) {
  const nn_val *out = nn_val_of(c, op->out);
  int saved = c->w.io->training && c->w.low->training;
  gn p = {.op = op,
          .n = c->w.n,
          .px = out->px,
          .ch = out->c,
          .groups = op->d.groups,
          .pieces = pieces_of(out->px),
          .x = nn_data(c, op->in),
          .y = nn_data(c, op->out),
          .gamma = nn_weight(c, op->d.w),
          .beta = nn_weight(c, op->d.w + 1),
          .sums = (double *)c->w.tmp};
  p.vectors = (float *)(p.sums + p.n * p.pieces * 2 * p.ch);
  p.stats = saved ? (float *)((char *)c->w.io->saved + op->off_stats) : p.vectors + p.n * VECTORS * p.ch;
  return p;
}

static float *vector(const gn *p, int64_t sample, int i) { return p->vectors + (sample * VECTORS + i) * p->ch; }

static double *sums_of(const gn *p, int64_t i) { return p->sums + i * 2 * p->ch; }

/* Piece i of all samples': where it begins, and how many pixels it has. */
static int64_t piece(const gn *p, int64_t i, int64_t *rows) {
  int64_t b, e;
  nn_piece(p->px, 1, p->pieces, i % p->pieces, &b, &e);
  *rows = e - b;
  return (i / p->pieces * p->px + b) * p->ch;
}

/* The sums of a sample's pieces, in its first. */
static double *add_pieces(const gn *p, int64_t sample) {
  double *s = sums_of(p, sample * p->pieces);
  for (int64_t i = 1; i < p->pieces; i++)
    for (int64_t j = 0; j < 2 * p->ch; j++) s[j] += s[2 * i * p->ch + j];
  return s;
}

static int sum_piece(void *arg, int64_t i, int worker) {
  const gn *p = arg;
  int64_t rows, at = piece(p, i, &rows);
  (void)worker;
  nn_stats(sums_of(p, i), sums_of(p, i) + p->ch, p->x + at, rows, p->ch);
  return SP_OK;
}

static int end_sample(void *arg, int64_t sample, int worker) {
  const gn *p = arg;
  int64_t width = p->ch / p->groups;
  const double *s = add_pieces(p, sample);
  float *a = vector(p, sample, 0), *b = vector(p, sample, 1), *stats = p->stats + sample * p->groups * 2;
  (void)worker;
  for (int64_t g = 0; g < p->groups; g++) {
    double sum = 0, squares = 0, count = (double)(width * p->px), mean, var;
    for (int64_t j = g * width; j < (g + 1) * width; j++) sum += s[j], squares += s[p->ch + j];
    mean = sum / count;
    var = squares / count - mean * mean;
    stats[g] = (float)mean;
    stats[p->groups + g] = (float)(1 / sqrt((var < 0 ? 0 : var) + p->op->d.eps));
    for (int64_t j = g * width; j < (g + 1) * width; j++) {
      a[j] = p->gamma[j] * stats[p->groups + g];
      b[j] = p->beta[j] - stats[g] * a[j];
    }
  }
  return SP_OK;
}

static int apply_piece(void *arg, int64_t i, int worker) {
  const gn *p = arg;
  int64_t rows, at = piece(p, i, &rows), sample = i / p->pieces;
  (void)worker;
  nn_scale_shift(p->y + at, p->x + at, vector(p, sample, 0), vector(p, sample, 1), rows, p->ch, p->op->d.relu);
  return SP_OK;
}

static int forward(const nn_call *c, const nn_xop *op) {
  gn p = start(c, op);
  int st = nn_run(&c->par, p.n * p.pieces, sum_piece, &p);
  if (!st) st = nn_run(&c->par, p.n, end_sample, &p);
  return st ? st : nn_run(&c->par, p.n * p.pieces, apply_piece, &p);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */
/* Each channel's mean and 1/std. */
static int spread_sample(void *arg, int64_t sample, int worker) {
  const gn *p = arg;
  const float *stats = p->stats + sample * p->groups * 2;
  float *mean = vector(p, sample, 3), *invstd = vector(p, sample, 4);
  (void)worker;
  for (int64_t j = 0; j < p->ch; j++) {
    int64_t g = j / (p->ch / p->groups);
    mean[j] = stats[g];
    invstd[j] = stats[p->groups + g];
  }
  return SP_OK;
}

static int back_sum_piece(void *arg, int64_t i, int worker) {
  const gn *p = arg;
  int64_t rows, at = piece(p, i, &rows), sample = i / p->pieces;
  (void)worker;
  nn_stats_back(sums_of(p, i), sums_of(p, i) + p->ch, p->dy + at, p->x + at, vector(p, sample, 3), vector(p, sample, 4),
                rows, p->ch);
  return SP_OK;
}

/* dx = a dy + b x + e */
static int back_end_sample(void *arg, int64_t sample, int worker) {
  const gn *p = arg;
  int64_t width = p->ch / p->groups;
  const double *s = add_pieces(p, sample);
  const float *mean = vector(p, sample, 3), *invstd = vector(p, sample, 4);
  float *a = vector(p, sample, 0), *b = vector(p, sample, 1), *e = vector(p, sample, 2);
  (void)worker;
  for (int64_t first = 0; first < p->ch; first += width) {
    double sum = 0, dot = 0, count = (double)(width * p->px);
    for (int64_t j = first; j < first + width; j++) sum += p->gamma[j] * s[j], dot += p->gamma[j] * s[p->ch + j];
    for (int64_t j = first; j < first + width; j++) {
      double inv = invstd[j], slope = inv * dot / count;
      a[j] = p->gamma[j] * invstd[j];
      b[j] = (float)(-inv * slope);
      e[j] = (float)(inv * (slope * mean[j] - sum / count));
    }
  }
  return SP_OK;
}

static int back_apply_piece(void *arg, int64_t i, int worker) {
  const gn *p = arg;
  int64_t rows, at = piece(p, i, &rows), sample = i / p->pieces;
  (void)worker;
  nn_norm_back(p->y + at, p->dy + at, p->x + at, vector(p, sample, 0), vector(p, sample, 1), vector(p, sample, 2), rows,
               p->ch, p->acc);
  if (p->mask) nn_mask(p->y + at, p->mask + at, rows * p->ch);
  return SP_OK;
}

/* Of gamma or beta, from the sums of all samples; `half`: which of a sample's two sums. */
static void weight_grad(const gn *p, nn_grad g, int half) {
  for (int64_t j = 0; j < p->ch && g.p; j++) {
    double sum = 0;
    for (int64_t s = 0; s < p->n; s++) sum += sums_of(p, s * p->pieces)[half * p->ch + j];
    g.p[j] = (g.beta == 0 ? 0 : g.beta * g.p[j]) + g.alpha * (float)sum;
  }
}

/* In place gamma is changed at the end: what the gradient of x needs of it is in the vectors. */
static int backward(const nn_call *c, const nn_xop *op) {
  gn p = start(c, op);
  int st;
  p.stats = (float *)((char *)c->w.io->saved + op->off_stats);
  p.dy = nn_dout(c, op->out);
  p.y = nn_din(c, op->in, &p.acc, &p.mask);
  st = nn_run(&c->par, p.n, spread_sample, &p);
  if (!st) st = nn_run(&c->par, p.n * p.pieces, back_sum_piece, &p);
  if (!st) st = nn_run(&c->par, p.n, back_end_sample, &p);
  if (!st && p.y) st = nn_run(&c->par, p.n * p.pieces, back_apply_piece, &p);
  if (st) return st;
  weight_grad(&p, nn_grad_of(c, op->d.w), 1);
  weight_grad(&p, nn_grad_of(c, op->d.w + 1), 0);
  return SP_OK;
}

const nn_cpu_op nn_cpu_group = {.forward = forward, .backward = backward, .size = size};
