/* SPDX-License-Identifier: MIT
 * move.c - what only moves or combines maps: another pixel order, flattening, ReLU alone, sum, concatenation. */
#include "cpu_net.h"

#include <string.h>

typedef struct operand {
  const nn_val *v;
  const float *x, *mask;
  float *d; /* backward: where its gradient goes, or NULL */
  int acc;
} operand;

typedef struct mv {
  const nn_xop *op;
  const nn_val *out;
  const float *dy;
  float *y;
  operand in[NN_MAX_INS];
  int n_in;
  int64_t n;
} mv;

static mv start(const nn_call *c, const nn_xop *op) {
  mv p = {.op = op,
          .out = nn_val_of(c, op->out),
          .y = nn_data(c, op->out),
          .dy = nn_dout(c, op->out),
          .n_in = 1 + op->d.n_more,
          .n = c->w.n};
  for (int i = 0; i < p.n_in; i++) p.in[i] = (operand){.v = nn_val_of(c, NN_IN(op, i)), .x = nn_data(c, NN_IN(op, i))};
  return p;
}

/* ---- COPY: one row of one sample ---- */
static int copy_row(void *arg, int64_t i, int worker) {
  mv *p = arg;
  const nn_val *a = p->in[0].v, *o = p->out;
  int64_t c = a->c, s = i / a->h, y = i % a->h;
  const float *src = p->in[0].x + s * a->px * c;
  float *dst = p->y + s * a->px * c;
  (void)worker;
  if (p->op->from == NN_PLANAR && p->op->to == NN_PLANAR) {
    memcpy(dst + y * a->w * c, src + y * a->w * c, (size_t)(a->w * c) * sizeof *dst);
  } else if (p->op->from == NN_PLANAR) {
    for (int64_t x = 0; x < a->w; x++)
      for (int64_t j = 0; j < c; j++) dst[(o->yo[y] + o->xo[x]) * c + j] = src[j * a->px + y * a->w + x];
  } else if (p->op->to == NN_PLANAR) {
    for (int64_t j = 0; j < c; j++)
      for (int64_t x = 0; x < a->w; x++) dst[j * a->px + y * a->w + x] = src[(a->yo[y] + a->xo[x]) * c + j];
  } else {
    for (int64_t x = 0; x < a->w; x++)
      memcpy(dst + (o->yo[y] + o->xo[x]) * c, src + (a->yo[y] + a->xo[x]) * c, (size_t)c * sizeof *dst);
  }
  return SP_OK;
}

static int copy_back_row(void *arg, int64_t i, int worker) {
  mv *p = arg;
  const operand *in = &p->in[0];
  const nn_val *a = in->v, *o = p->out;
  int64_t c = a->c, s = i / a->h, y = i % a->h, base = s * a->px * c;
  const float *g = p->dy + base, *mask = in->mask ? in->mask + base : NULL;
  float *d = in->d + base;
  (void)worker;
  if (p->op->from == NN_PLANAR && p->op->to == NN_PLANAR) {
    int64_t at = y * a->w * c;
    nn_give(d + at, g + at, mask ? mask + at : NULL, a->w * c, in->acc);
  } else if (p->op->from >= 0 && p->op->to >= 0) {
    for (int64_t x = 0; x < a->w; x++) {
      int64_t at = (a->yo[y] + a->xo[x]) * c;
      nn_give(d + at, g + (o->yo[y] + o->xo[x]) * c, mask ? mask + at : NULL, c, in->acc);
    }
  } else {
    for (int64_t x = 0; x < a->w; x++)
      for (int64_t j = 0; j < c; j++) {
        int64_t planar = j * a->px + y * a->w + x;
        int64_t at = p->op->from == NN_PLANAR ? planar : (a->yo[y] + a->xo[x]) * c + j;
        int64_t from = p->op->to == NN_PLANAR ? planar : (o->yo[y] + o->xo[x]) * c + j;
        float v = mask && !(mask[at] > 0) ? 0 : g[from];
        d[at] = in->acc ? d[at] + v : v;
      }
  }
  return SP_OK;
}

/* ---- elementwise, one chunk of all values ---- */
static int chunk(void *arg, int64_t i, int worker) {
  mv *p = arg;
  int64_t b, e;
  (void)worker;
  nn_piece(p->n * p->out->px * p->out->c, 64, NN_CHUNKS, i, &b, &e);
  if (p->n_in == 1) nn_relu(p->y + b, p->in[0].x + b, e - b);
  for (int j = 1; j < p->n_in; j++)
    nn_add(p->y + b, (j > 1 ? p->y : p->in[0].x) + b, p->in[j].x + b, e - b, p->op->d.relu && j == p->n_in - 1);
  return SP_OK;
}

static int relu_back_chunk(void *arg, int64_t i, int worker) {
  mv *p = arg;
  const operand *in = &p->in[0];
  int64_t b, e;
  (void)worker;
  nn_piece(p->n * p->out->px * p->out->c, 64, NN_CHUNKS, i, &b, &e);
  nn_mask_to(in->d + b, p->dy + b, p->y + b, e - b, in->acc);
  if (in->mask) nn_mask(in->d + b, in->mask + b, e - b);
  return SP_OK;
}

static int add_back_chunk(void *arg, int64_t i, int worker) {
  mv *p = arg;
  int64_t b, e;
  (void)worker;
  nn_piece(p->n * p->out->px * p->out->c, 64, NN_CHUNKS, i, &b, &e);
  for (const operand *in = p->in; in < p->in + p->n_in; in++)
    if (in->d) nn_give(in->d + b, p->dy + b, in->mask ? in->mask + b : NULL, e - b, in->acc);
  return SP_OK;
}

/* ---- CONCAT: one row of pixels ---- */
static int join_row(void *arg, int64_t i, int worker) {
  mv *p = arg;
  int64_t w = p->out->w;
  float *y = p->y + i * w * p->out->c;
  (void)worker;
  for (int64_t x = i * w; x < (i + 1) * w; x++)
    for (int j = 0; j < p->n_in; y += p->in[j++].v->c)
      memcpy(y, p->in[j].x + x * p->in[j].v->c, (size_t)p->in[j].v->c * sizeof(float));
  return SP_OK;
}

static int split_row(void *arg, int64_t i, int worker) {
  mv *p = arg;
  int64_t w = p->out->w;
  const float *g = p->dy + i * w * p->out->c;
  (void)worker;
  for (int64_t x = i * w; x < (i + 1) * w; x++)
    for (const operand *in = p->in; in < p->in + p->n_in; g += in++->v->c) {
      int64_t c = in->v->c;
      if (in->d) nn_give(in->d + x * c, g, in->mask ? in->mask + x * c : NULL, c, in->acc);
    }
  return SP_OK;
}

/* ---- the ops ---- */
/* Finds where gradients go; of a value that is read twice the second adds to the first. Wanted at all? */
static int wanted(const nn_call *c, mv *p) {
  int any = 0;
  for (int i = 0; i < p->n_in; i++) {
    p->in[i].d = nn_din(c, NN_IN(p->op, i), &p->in[i].acc, &p->in[i].mask);
    any |= p->in[i].d != NULL;
  }
  return any;
}

#define ROWS(p) (c->w.n * (p).in[0].v->h)

static int copy_forward(const nn_call *c, const nn_xop *op) {
  mv p = start(c, op);
  return nn_run(&c->par, ROWS(p), copy_row, &p);
}

static int copy_backward(const nn_call *c, const nn_xop *op) {
  mv p = start(c, op);
  return wanted(c, &p) ? nn_run(&c->par, ROWS(p), copy_back_row, &p) : SP_OK;
}

static int concat_forward(const nn_call *c, const nn_xop *op) {
  mv p = start(c, op);
  return nn_run(&c->par, c->w.n * p.out->h, join_row, &p);
}

static int concat_backward(const nn_call *c, const nn_xop *op) {
  mv p = start(c, op);
  return wanted(c, &p) ? nn_run(&c->par, c->w.n * p.out->h, split_row, &p) : SP_OK;
}

static int chunk_forward(const nn_call *c, const nn_xop *op) {
  mv p = start(c, op);
  return nn_run(&c->par, NN_CHUNKS, chunk, &p);
}

static int relu_backward(const nn_call *c, const nn_xop *op) {
  mv p = start(c, op);
  return wanted(c, &p) ? nn_run(&c->par, NN_CHUNKS, relu_back_chunk, &p) : SP_OK;
}

static int add_backward(const nn_call *c, const nn_xop *op) {
  mv p = start(c, op);
  return wanted(c, &p) ? nn_run(&c->par, NN_CHUNKS, add_back_chunk, &p) : SP_OK;
}

const nn_cpu_op nn_cpu_copy = {.forward = copy_forward, .backward = copy_backward};
const nn_cpu_op nn_cpu_concat = {.forward = concat_forward, .backward = concat_backward};
const nn_cpu_op nn_cpu_relu = {.forward = chunk_forward, .backward = relu_backward};
const nn_cpu_op nn_cpu_add = {.forward = chunk_forward, .backward = add_backward};
