/* SPDX-License-Identifier: MIT
 * pool.c - max and average pooling over channels-last maps; zeros of the padding count in the average, as
 * in PyTorch. */
#include "cpu_net.h"

#include <string.h>

typedef struct pl {
  const nn_xop *op;
  const nn_val *in, *out;
  const float *x, *dy;
  float *y, *dx;
  const float *mask;
  int acc;
} pl;

static pl start(const nn_call *c, const nn_xop *op) {
  return (pl){.op = op,
              .in = nn_val_of(c, op->in),
              .out = nn_val_of(c, op->out),
              .x = nn_data(c, op->in),
              .y = nn_data(c, op->out),
              .dy = nn_dout(c, op->out)};
}

typedef struct window {
  int64_t y0, y1, x0, x1;
} window;

static window window_of(const pl *p, int64_t oy, int64_t ox) {
  const nn_op *d = &p->op->d;
  window w = {oy * d->s[0] - d->p[0], 0, ox * d->s[1] - d->p[1], 0};
  w.y1 = w.y0 + d->k[0] < p->in->h ? w.y0 + d->k[0] : p->in->h;
  w.x1 = w.x0 + d->k[1] < p->in->w ? w.x0 + d->k[1] : p->in->w;
  if (w.y0 < 0) w.y0 = 0;
  if (w.x0 < 0) w.x0 = 0;
  return w;
}

NN_VEC static void max_into(float *d, const float *s, int64_t c) {
  for (int64_t j = 0; j < c; j++) d[j] = s[j] > d[j] || s[j] != s[j] ? s[j] : d[j];
}

NN_VEC static void scale(float *d, float f, int64_t c) {
  for (int64_t j = 0; j < c; j++) d[j] *= f;
}

static int forward_row(void *arg, int64_t i, int worker) {
  pl *p = arg;
  int64_t c = p->in->c, n = i / p->out->h, oy = i % p->out->h;
  const float *x = p->x + n * p->in->px * c;
  (void)worker;
  for (int64_t ox = 0; ox < p->out->w; ox++) {
    window w = window_of(p, oy, ox);
    float *y = p->y + (i * p->out->w + ox) * c;
    memcpy(y, x + (w.y0 * p->in->w + w.x0) * c, (size_t)c * sizeof *y);
    for (int64_t iy = w.y0; iy < w.y1; iy++)
      for (int64_t ix = w.x0; ix < w.x1; ix++) {
        const float *s = x + (iy * p->in->w + ix) * c;
        if (iy == w.y0 && ix == w.x0) continue;
        if (p->op->d.kind == NN_MAX_POOL) max_into(y, s, c);
        else nn_axpy(y, s, 1, 1, c);
      }
    if (p->op->d.kind == NN_AVG_POOL) scale(y, 1 / (float)(p->op->d.k[0] * p->op->d.k[1]), c);
  }
  return SP_OK;
}

static int forward(const nn_call *c, const nn_xop *op) {
  pl p = start(c, op);
  return nn_run(&c->par, c->w.n * p.out->h, forward_row, &p);
}

/* The gradient goes to the first element that equals the largest; `g` is zero from there on. */
NN_VEC static void give(float *dx, float *g, const float *x, const float *y, int64_t c) {
  for (int64_t j = 0; j < c; j++) {
    int hit = x[j] == y[j] || (x[j] != x[j] && y[j] != y[j]);
    dx[j] += hit ? g[j] : 0;
    g[j] = hit ? 0 : g[j];
  }
}

static int backward_sample(void *arg, int64_t n, int worker) {
  enum { STEP = 256 };
  pl *p = arg;
  int64_t c = p->in->c, size = p->in->px * c;
  const float *x = p->x + n * size;
  float *dx = p->dx + n * size, part = 1 / (float)(p->op->d.k[0] * p->op->d.k[1]), g[STEP];
  (void)worker;
  if (!p->acc) memset(dx, 0, (size_t)size * sizeof *dx);
  for (int64_t o = 0; o < p->out->px; o++) {
    window w = window_of(p, o / p->out->w, o % p->out->w);
    const float *y = p->y + (n * p->out->px + o) * c, *dy = p->dy + (n * p->out->px + o) * c;
    for (int64_t j = 0; j < c; j += STEP) {
      int64_t m = c - j < STEP ? c - j : STEP;
      memcpy(g, dy + j, (size_t)m * sizeof *g);
      for (int64_t iy = w.y0; iy < w.y1; iy++)
        for (int64_t ix = w.x0; ix < w.x1; ix++) {
          int64_t at = (iy * p->in->w + ix) * c + j;
          if (p->op->d.kind == NN_MAX_POOL) give(dx + at, g, x + at, y + j, m);
          else nn_axpy(dx + at, g, part, 1, m);
        }
    }
  }
  if (p->mask) nn_mask(dx, p->mask + n * size, size);
  return SP_OK;
}

static int backward(const nn_call *c, const nn_xop *op) {
  pl p = start(c, op);
  p.dx = nn_din(c, op->in, &p.acc, &p.mask);
  return p.dx ? nn_run(&c->par, c->w.n, backward_sample, &p) : SP_OK;
}

const nn_cpu_op nn_cpu_pool = {.forward = forward, .backward = backward};
