/* SPDX-License-Identifier: MIT
 * act.c - activations but ReLU, and products of two maps, or of a map and a number for each sample and channel. */
#include "../ops/act.h"
#include "cpu_net.h"

#include <string.h>

enum { STEP = 64 }; /* numbers that are under way together */

typedef struct ac {
  const nn_xop *op;
  int64_t n, px, c;
  const float *x, *dy;
  float *y; /* backward: the gradient */
  const float *mask;
  int acc;
  const float *by; /* MUL: the other factor */
  int each;        /* it has a number for each pixel, or one for all of a sample's channel */
} ac;

static ac start(const nn_call *c, const nn_xop *op) {
  const nn_val *out = nn_val_of(c, op->out);
  return (ac){.op = op,
              .n = c->w.n,
              .px = out->px,
              .c = out->c,
              .x = nn_data(c, op->in),
              .y = nn_data(c, op->out),
              .dy = nn_dout(c, op->out)};
}

/* ---- activations, one chunk of all values ---- */
NN_VEC static void values(enum nn_act act, float k, float *y, const float *x, int64_t n) {
  switch (act) {
    case NN_ACT_NONE: break;
#define NN_ACT(ID)                                                       \
  case NN_ACT_##ID:                                                      \
    for (int64_t i = 0; i < n; i++) y[i] = nn_act(NN_ACT_##ID, k, x[i]); \
    break;
#include "../ops/ops.list"
  }
}

NN_VEC static void slopes(enum nn_act act, float k, float *y, const float *x, const float *dy, int64_t n) {
  switch (act) {
    case NN_ACT_NONE: break;
#define NN_ACT(ID)                                                                 \
  case NN_ACT_##ID:                                                                \
    for (int64_t i = 0; i < n; i++) y[i] = dy[i] * nn_slope(NN_ACT_##ID, k, x[i]); \
    break;
#include "../ops/ops.list"
  }
}

static int act_chunk(void *arg, int64_t i, int worker) {
  ac *p = arg;
  int64_t b, e;
  (void)worker;
  nn_piece(p->n * p->px * p->c, 64, NN_CHUNKS, i, &b, &e);
  values(p->op->d.act, p->op->d.act_k, p->y + b, p->x + b, e - b);
  return SP_OK;
}

static int act_back_chunk(void *arg, int64_t i, int worker) {
  ac *p = arg;
  int64_t b, e;
  float d[STEP];
  (void)worker;
  nn_piece(p->n * p->px * p->c, 64, NN_CHUNKS, i, &b, &e);
  for (; b < e; b += STEP) {
    int64_t n = e - b < STEP ? e - b : STEP;
    slopes(p->op->d.act, p->op->d.act_k, d, p->x + b, p->dy + b, n);
    nn_give(p->y + b, d, p->mask ? p->mask + b : NULL, n, p->acc);
  }
  return SP_OK;
}

static int act_forward(const nn_call *c, const nn_xop *op) {
  ac p = start(c, op);
  return nn_run(&c->par, NN_CHUNKS, act_chunk, &p);
}

int nn_act_behind(const nn_call *c, const nn_xop *op) {
  ac p = start(c, op);
  p.x = p.y;
  return op->d.act ? nn_run(&c->par, NN_CHUNKS, act_chunk, &p) : SP_OK;
}

static int act_backward(const nn_call *c, const nn_xop *op) {
  ac p = start(c, op);
  p.y = nn_din(c, op->in, &p.acc, &p.mask);
  return p.y ? nn_run(&c->par, NN_CHUNKS, act_back_chunk, &p) : SP_OK;
}

/* ---- products: STEP channels of all pixels of a sample ---- */
NN_VEC static void times(float *y, const float *a, const float *b, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = a[i] * b[i];
}

NN_VEC static void add_times(double *sum, const float *a, const float *b, int64_t n) {
  for (int64_t i = 0; i < n; i++) sum[i] += (double)a[i] * b[i];
}

static int64_t pieces(const ac *p) { return p->n * ((p->c + STEP - 1) / STEP); }

/* Which sample and channels; returns how many. */
static int64_t part(const ac *p, int64_t i, int64_t *sample, int64_t *first) {
  int64_t per = (p->c + STEP - 1) / STEP;
  *sample = i / per;
  *first = i % per * STEP;
  return p->c - *first < STEP ? p->c - *first : STEP;
}

/* y = x * by; backward dy is in the place of x. */
static int mul_piece(void *arg, int64_t i, int worker) {
  ac *p = arg;
  int64_t sample, first, n = part(p, i, &sample, &first);
  float d[STEP];
  (void)worker;
  for (int64_t px = 0; px < p->px; px++) {
    int64_t at = (sample * p->px + px) * p->c + first;
    times(d, p->x + at, p->by + (p->each ? at : sample * p->c + first), n);
    nn_give(p->y + at, d, p->mask ? p->mask + at : NULL, n, p->acc);
  }
  return SP_OK;
}

/* The gradient of what has one number for all pixels. */
static int mul_sum_piece(void *arg, int64_t i, int worker) {
  ac *p = arg;
  int64_t sample, first, n = part(p, i, &sample, &first), at;
  double sum[STEP] = {0};
  float d[STEP];
  (void)worker;
  for (int64_t px = 0; px < p->px; px++) {
    at = (sample * p->px + px) * p->c + first;
    add_times(sum, p->x + at, p->by + at, n);
  }
  at = sample * p->c + first;
  for (int64_t j = 0; j < n; j++) d[j] = (float)sum[j];
  nn_give(p->y + at, d, p->mask ? p->mask + at : NULL, n, p->acc);
  return SP_OK;
}

static int mul_forward(const nn_call *c, const nn_xop *op) {
  ac p = start(c, op);
  p.by = nn_data(c, op->more[0]);
  p.each = nn_val_of(c, op->more[0])->px == p.px;
  return nn_run(&c->par, pieces(&p), mul_piece, &p);
}

static int mul_backward(const nn_call *c, const nn_xop *op) {
  ac p = start(c, op);
  int each = nn_val_of(c, op->more[0])->px == p.px, st = SP_OK;
  for (int i = 0; i < 2 && !st; i++) { /* of a value by itself the second adds to the first */
    p.y = nn_din(c, NN_IN(op, i), &p.acc, &p.mask);
    p.x = p.dy;
    p.by = nn_data(c, NN_IN(op, 1 - i));
    p.each = each;
    if (p.y) st = nn_run(&c->par, pieces(&p), i && !each ? mul_sum_piece : mul_piece, &p);
  }
  return st;
}

const nn_cpu_op nn_cpu_act = {.forward = act_forward, .backward = act_backward};
const nn_cpu_op nn_cpu_mul = {.forward = mul_forward, .backward = mul_backward};
