/* SPDX-License-Identifier: MIT
 * upsample.c - channels-last maps to another size, nearest or bilinear. */
#include "../ops/axis.h"
#include "cpu_net.h"

#include <string.h>

typedef struct up {
  const nn_val *in, *out;
  const float *x, *dy;
  float *y, *dx;
  const float *mask;
  int acc;
  nn_axis ay, ax;
} up;

static up start(const nn_call *c, const nn_xop *op) {
  const nn_val *in = nn_val_of(c, op->in), *out = nn_val_of(c, op->out);
  return (up){.in = in,
              .out = out,
              .x = nn_data(c, op->in),
              .y = nn_data(c, op->out),
              .dy = nn_dout(c, op->out),
              .ay = nn_axis_of((int)in->h, (int)out->h, op->d.mode),
              .ax = nn_axis_of((int)in->w, (int)out->w, op->d.mode)};
}

/* What four pixels make, which are a sample's in rows `top` and `low`. */
NN_VEC static void blend(float *y, const float *top, const float *low, nn_pair px, float share, int64_t c) {
  const float *tl = top + px.a * c, *tr = top + px.b * c, *ll = low + px.a * c, *lr = low + px.b * c;
  float x1 = px.share, x0 = 1 - x1, y0 = 1 - share;
  for (int64_t j = 0; j < c; j++) y[j] = y0 * (x0 * tl[j] + x1 * tr[j]) + share * (x0 * ll[j] + x1 * lr[j]);
}

static int forward_row(void *arg, int64_t i, int worker) {
  up *p = arg;
  int64_t c = p->in->c, row = p->in->w * c;
  const float *x = p->x + i / p->out->h * p->in->px * c;
  float *y = p->y + i * p->out->w * c;
  nn_pair py = nn_axis_at(&p->ay, (int)(i % p->out->h));
  (void)worker;
  for (int ox = 0; ox < p->out->w; ox++, y += c) {
    nn_pair px = nn_axis_at(&p->ax, ox);
    if (p->ay.mode == NN_NEAREST) memcpy(y, x + py.a * row + px.a * c, (size_t)c * sizeof *y);
    else blend(y, x + py.a * row, x + py.b * row, px, py.share, c);
  }
  return SP_OK;
}

static int forward(const nn_call *c, const nn_xop *op) {
  up p = start(c, op);
  return nn_run(&c->par, c->w.n * p.out->h, forward_row, &p);
}

/* The gradient of a row of the input, from each row of the result that it has a share of. */
static int backward_row(void *arg, int64_t i, int worker) {
  up *p = arg;
  int64_t c = p->in->c, n = i / p->in->h, row = p->in->w * c;
  int iy = (int)(i % p->in->h);
  float *dx = p->dx + i * row;
  (void)worker;
  if (!p->acc) memset(dx, 0, (size_t)row * sizeof *dx);
  for (int oy = nn_axis_first(&p->ay, iy); oy < p->out->h; oy++) {
    nn_pair py = nn_axis_at(&p->ay, oy);
    const float *dy = p->dy + (n * p->out->h + oy) * p->out->w * c;
    float part = nn_share_of(&py, iy);
    if (py.a > iy) break;
    for (int ox = 0; ox < p->out->w; ox++, dy += c) {
      nn_pair px = nn_axis_at(&p->ax, ox);
      nn_axpy(dx + px.a * c, dy, part * (1 - px.share), 1, c);
      if (px.share > 0) nn_axpy(dx + px.b * c, dy, part * px.share, 1, c);
    }
  }
  if (p->mask) nn_mask(dx, p->mask + i * row, row);
  return SP_OK;
}

static int backward(const nn_call *c, const nn_xop *op) {
  up p = start(c, op);
  p.dx = nn_din(c, op->in, &p.acc, &p.mask);
  return p.dx ? nn_run(&c->par, c->w.n * p.in->h, backward_row, &p) : SP_OK;
}

const nn_cpu_op nn_cpu_upsample = {.forward = forward, .backward = backward};
