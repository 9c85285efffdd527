/* SPDX-License-Identifier: MIT
 * axis.h - one axis of a map that is resized: which of its pixels a pixel of the result is made of, as PyTorch has it,
 * for every device and in kernels. */
#ifndef NN_AXIS_H
#define NN_AXIS_H

#include "fn.h"

enum nn_resize { NN_NEAREST, NN_BILINEAR, NN_ALIGNED /* bilinear, the corners on each other */ };

typedef struct nn_axis {
  int in, out, mode;
  float scale; /* pixels of the input for each of the result */
} nn_axis;

/* (1 - share) of pixel a and `share` of pixel b, which is a or the next. */
typedef struct nn_pair {
  int a, b;
  float share;
} nn_pair;

NN_FN nn_axis nn_axis_of(int in, int out, int mode) {
  nn_axis x = {in, out, mode, (float)in / (float)out};
  if (mode == NN_ALIGNED) x.scale = out > 1 ? (float)(in - 1) / (float)(out - 1) : 0;
  return x;
}

NN_FN nn_pair nn_axis_at(const nn_axis *x, int o) {
  float at = x->mode == NN_BILINEAR ? x->scale * ((float)o + 0.5f) - 0.5f : x->scale * (float)o;
  nn_pair p;
  if (at < 0) at = 0;
  p.a = (int)at < x->in - 1 ? (int)at : x->in - 1;
  p.b = x->mode != NN_NEAREST && p.a + 1 < x->in ? p.a + 1 : p.a;
  p.share = p.b > p.a ? at - (float)p.a : 0;
  return p;
}

/* The first pixel of the result that may have a share of pixel i, or x->out; those that have one follow each other. */
NN_FN int nn_axis_first(const nn_axis *x, int i) {
  float guess = x->scale > 0 ? (float)(i - 1) / x->scale - 2 : 0;
  int o = guess > 0 ? guess < (float)x->out ? (int)guess : x->out : 0;
  while (o < x->out && nn_axis_at(x, o).b < i) o++;
  return o;
}

/* How often in a row each pixel is there, if that is all that happens; 0: it is not. (A scale that is rounded down may
 * take a pixel from the one before.) */
NN_FN int nn_axis_times(const nn_axis *x) {
  int times = x->in > 0 ? x->out / x->in : 0;
  return x->mode == NN_NEAREST && times * x->in == x->out && (double)x->scale * times >= 1 ? times : 0;
}

/* How much of pixel i is in it. */
NN_FN float nn_share_of(const nn_pair *p, int i) { return (p->a == i ? 1 - p->share : 0) + (p->b == i ? p->share : 0); }

#endif
