/* SPDX-License-Identifier: MIT
 * cpu_move.c - what only moves or combines maps: another pixel order, flattening, ReLU alone, sum, concatenation. */
#include "cpu_net.h"

#include <string.h>

typedef struct mv {
  const nn_xop *op;
  const nn_val *a, *b, *out;
  const float *x, *x2, *dy;
  float *y, *da, *db;
  const float *mask_a, *mask_b;
  int acc_a, acc_b;
  int64_t n;
} mv;

static mv start(const nn_call *c, const nn_xop *op) {
  return (mv){.op = op,
              .a = nn_val_of(c, op->in),
              .b = op->in2 < 0 ? NULL : nn_val_of(c, op->in2),
              .out = nn_val_of(c, op->out),
              .x = nn_data(c, op->in),
              .x2 = op->in2 < 0 ? NULL : nn_data(c, op->in2),
              .y = nn_data(c, op->out),
              .dy = nn_dout(c, op->out),
              .n = c->w.n};
}

/* ---- COPY: one row of one sample ---- */
static int copy_row(void *arg, int64_t i, int worker) {
  mv *p = arg;
  const nn_val *a = p->a, *o = p->out;
  int64_t c = a->c, s = i / a->h, y = i % a->h;
  const float *src = p->x + s * a->px * c;
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

static void give(float *d, const float *g, const float *mask, int64_t n, int acc) {
  if (mask) nn_mask_to(d, g, mask, n, acc);
  else if (acc) nn_axpy(d, g, 1, 1, n);
  else memcpy(d, g, (size_t)n * sizeof *d);
}

static int copy_back_row(void *arg, int64_t i, int worker) {
  mv *p = arg;
  const nn_val *a = p->a, *o = p->out;
  int64_t c = a->c, s = i / a->h, y = i % a->h, base = s * a->px * c;
  const float *g = p->dy + base, *mask = p->mask_a ? p->mask_a + base : NULL;
  float *d = p->da + base;
  (void)worker;
  if (p->op->from == NN_PLANAR && p->op->to == NN_PLANAR) {
    int64_t at = y * a->w * c;
    give(d + at, g + at, mask ? mask + at : NULL, a->w * c, p->acc_a);
  } else if (p->op->from >= 0 && p->op->to >= 0) {
    for (int64_t x = 0; x < a->w; x++) {
      int64_t at = (a->yo[y] + a->xo[x]) * c;
      give(d + at, g + (o->yo[y] + o->xo[x]) * c, mask ? mask + at : NULL, c, p->acc_a);
    }
  } else {
    for (int64_t x = 0; x < a->w; x++)
      for (int64_t j = 0; j < c; j++) {
        int64_t planar = j * a->px + y * a->w + x;
        int64_t at = p->op->from == NN_PLANAR ? planar : (a->yo[y] + a->xo[x]) * c + j;
        int64_t from = p->op->to == NN_PLANAR ? planar : (o->yo[y] + o->xo[x]) * c + j;
        float v = mask && !(mask[at] > 0) ? 0 : g[from];
        d[at] = p->acc_a ? d[at] + v : v;
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
  if (p->b) nn_add(p->y + b, p->x + b, p->x2 + b, e - b, p->op->d.relu);
  else nn_relu(p->y + b, p->x + b, e - b);
  return SP_OK;
}

static int chunk_back(void *arg, int64_t i, int worker) {
  mv *p = arg;
  int64_t b, e;
  const float *g = p->dy;
  (void)worker;
  nn_piece(p->n * p->out->px * p->out->c, 64, NN_CHUNKS, i, &b, &e);
  if (!p->b) {
    nn_mask_to(p->da + b, g + b, p->y + b, e - b, p->acc_a);
    if (p->mask_a) nn_mask(p->da + b, p->mask_a + b, e - b);
    return SP_OK;
  }
  if (p->da) give(p->da + b, g + b, p->mask_a ? p->mask_a + b : NULL, e - b, p->acc_a);
  if (p->db) give(p->db + b, g + b, p->mask_b ? p->mask_b + b : NULL, e - b, p->acc_b);
  return SP_OK;
}

/* ---- CONCAT: one row of pixels ---- */
static int join_row(void *arg, int64_t i, int worker) {
  mv *p = arg;
  int64_t w = p->out->w, ca = p->a->c, cb = p->b->c;
  (void)worker;
  for (int64_t x = i * w; x < (i + 1) * w; x++) {
    memcpy(p->y + x * (ca + cb), p->x + x * ca, (size_t)ca * sizeof(float));
    memcpy(p->y + x * (ca + cb) + ca, p->x2 + x * cb, (size_t)cb * sizeof(float));
  }
  return SP_OK;
}

static int split_row(void *arg, int64_t i, int worker) {
  mv *p = arg;
  int64_t w = p->out->w, ca = p->a->c, cb = p->b->c;
  (void)worker;
  for (int64_t x = i * w; x < (i + 1) * w; x++) {
    const float *g = p->dy + x * (ca + cb);
    if (p->da) give(p->da + x * ca, g, p->mask_a ? p->mask_a + x * ca : NULL, ca, p->acc_a);
    if (p->db) give(p->db + x * cb, g + ca, p->mask_b ? p->mask_b + x * cb : NULL, cb, p->acc_b);
  }
  return SP_OK;
}

int nn_move_forward(const nn_call *c, const nn_xop *op) {
  mv p = start(c, op);
  switch (op->x) {
    case NN_X_COPY: return nn_run(&c->par, c->w.n * p.a->h, copy_row, &p);
    case NN_X_CONCAT: return nn_run(&c->par, c->w.n * p.out->h, join_row, &p);
    default: return nn_run(&c->par, NN_CHUNKS, chunk, &p);
  }
}

int nn_move_backward(const nn_call *c, const nn_xop *op) {
  mv p = start(c, op);
  p.da = nn_din(c, op->in, &p.acc_a, &p.mask_a);
  if (p.b && op->in2 != op->in) p.db = nn_din(c, op->in2, &p.acc_b, &p.mask_b);
  if (p.b && op->in2 == op->in && p.da) { /* x + x, or x beside x: the second use adds to the first */
    p.db = p.da;
    p.acc_b = 1;
  }
  if (!p.da && !p.db) return SP_OK;
  switch (op->x) {
    case NN_X_COPY: return nn_run(&c->par, c->w.n * p.a->h, copy_back_row, &p);
    case NN_X_CONCAT: return nn_run(&c->par, c->w.n * p.out->h, split_row, &p);
    default: return nn_run(&c->par, NN_CHUNKS, chunk_back, &p);
  }
}
