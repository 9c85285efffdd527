/* SPDX-License-Identifier: MIT
 * walk.h - one forward or backward of a planned network, whatever the device: which ops run, where each value lies,
 * where gradients go and what becomes of them before an op sees them.
 *
 * A plan is only read. All that belongs to one call is in nn_walk and in what it points to, which lie on the caller's
 * stack (a list of layers has an upper bound, so they are never large): calls on one instance may overlap. A backward
 * in parts finds the gradients of values in scratch, as the part before left them; which are there it finds again. */
#ifndef NN_WALK_H
#define NN_WALK_H

#include "lower.h"

/* A value in one call. */
typedef struct nn_at {
  void *data, *grad;
  uint8_t wanted; /* somebody reads it, or it goes out */
  uint8_t need;   /* backward: so is its gradient */
  uint8_t gset;   /* backward: something is in grad already */
} nn_at;

typedef struct nn_walk {
  sp_ctx *ctx;
  const sp_io *io;
  const nn_low *low;
  nn_at *at;        /* low->n_vals of them */
  char *values;     /* scratch: the values of an inference, or the gradients */
  char *tmp, *more; /* behind them an op's own memory, and what else the device asked for */
  int64_t n;
  int batch_stats; /* batch norm uses and updates statistics of the batch, unless it keeps its own */
} nn_walk;

/* What a device does. Each function gets the walk that nn_forward() or nn_backward() was called with, which is the
 * first member of the device's own struct for a call. */
typedef struct nn_device {
  void (*bind)(nn_walk *w);               /* every value has its place; NULL: nothing to do then */
  int (*start)(nn_walk *w, int backward); /* before the first op of all parts; NULL: nothing to do then */
  int (*finish)(nn_walk *w); /* after the last op of a backward or a part of it; NULL: nothing to do then */
  int (*forward)(nn_walk *w, const nn_xop *op);
  int (*backward)(nn_walk *w, const nn_xop *op); /* the gradient of op->out is complete, and masked by op's ReLU */
  /* Completes the gradient of op->out: adds dout to it, or copies it there where nothing is in it yet (dout NULL: there
   * is none); then, if relu, masks it by the sign of op's result. */
  int (*arrive)(nn_walk *w, const nn_xop *op, const void *dout, int relu);
  int (*zero)(nn_walk *w, void *p, size_t bytes);
  int (*copy)(nn_walk *w, void *to, const void *from, size_t bytes);
  int (*apply)(nn_walk *w, const nn_xop *op); /* op's weights, of the factors of w->n samples */
} nn_device;

/* ctx, io, low, at, values are the caller's to fill; the rest of *w is found here. */
void nn_walk_bind(nn_walk *w, const nn_device *device, int backward);
int nn_walk_batch(const nn_walk *w); /* fails where the batch is none that was planned for */
/* A whole call, binding included. */
int nn_forward(nn_walk *w, const nn_device *device);
int nn_backward(nn_walk *w, const nn_device *device);
int nn_apply(nn_walk *w, const nn_device *device);

static inline void *nn_factor(const nn_walk *w, int number) { return w->io->factors[number - 1].data; }
static inline void *nn_weight_of(const nn_walk *w, int i) { return w->io->weights[i].data; }
/* Where the gradient of weight i goes, or NULL; *add: to what is there. In place it is the weight itself. */
float *nn_dweight(const nn_walk *w, int i, int *add);
/* Where apply() puts the gradient of weight i. *add: it is the weight itself. */
float *nn_applied(const nn_walk *w, int i, int *add);
/* The gradient of value v is about to be written: 0 where nobody wants it. *add: to what is there; *masked: what is
 * written is masked by the sign of the value. */
int nn_write_grad(const nn_walk *w, int v, int *add, int *masked);
/* Fails with words about op. */
int nn_walk_fail(const nn_walk *w, const nn_xop *op, int status, const char *words);

#endif
