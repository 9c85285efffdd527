/* SPDX-License-Identifier: MIT
 * drop.c - dropout in training, with the draws of the stage `dropout` but for the layer's name in the key. */
#include "../../drop.h"
#include "cpu_net.h"

typedef struct dr {
  const nn_call *c;
  const nn_op *d;
  const nn_val *v;
  const float *from, *mask;
  float *to;
  int acc;
  uint64_t key;
  uint32_t limit;
  float scale;
} dr;

static int put_row(void *arg, int64_t i, int worker) {
  dr *p = arg;
  const nn_val *v = p->v;
  int64_t sample = i / v->h, y = i % v->h, base = sample * v->px * v->c, group = -1;
  uint64_t id = drop_id(p->c->w.io->step, p->c->w.io->ids, sample);
  sp_rng4 draws;
  (void)worker;
  for (int64_t j = 0; j < v->c; j++)
    for (int64_t x = 0; x < v->w; x++) {
      int64_t unit = p->d->maps ? j : j * v->px + y * v->w + x, at = base + (v->yo[y] + v->xo[x]) * v->c + j;
      float value = p->from[at] * p->scale;
      if (unit / 4 != group) draws = sp_rng(p->key, id, (uint32_t)(group = unit / 4));
      if (!drop_keeps(p->limit, draws.v[unit % 4]) || (p->mask && !(p->mask[at] > 0))) value = 0;
      p->to[at] = p->acc ? p->to[at] + value : value;
    }
  return SP_OK;
}

/* Nothing is drawn. */
static int pass_row(void *arg, int64_t i, int worker) {
  dr *p = arg;
  int64_t n = p->v->w * p->v->c, at = i * n;
  (void)worker;
  nn_give(p->to + at, p->from + at, p->mask ? p->mask + at : NULL, n, p->acc);
  return SP_OK;
}

static int run(dr *p) {
  int draws = p->c->w.low->draws && p->c->w.io->step->training;
  p->limit = drop_limit(p->d->drop);
  p->scale = drop_scale(p->d->drop);
  if (draws) p->key = p->c->w.io->step->key ^ p->d->salt;
  return nn_run(&p->c->par, p->c->w.n * p->v->h, draws ? put_row : pass_row, p);
}

static int forward(const nn_call *c, const nn_xop *op) {
  return run(
      &(dr){.c = c, .d = &op->d, .v = nn_val_of(c, op->out), .from = nn_data(c, op->in), .to = nn_data(c, op->out)});
}

/* What was dropped is drawn again. */
static int backward(const nn_call *c, const nn_xop *op) {
  dr p = {.c = c, .d = &op->d, .v = nn_val_of(c, op->out), .from = nn_dout(c, op->out)};
  p.to = nn_din(c, op->in, &p.acc, &p.mask);
  return p.to ? run(&p) : SP_OK;
}

const nn_cpu_op nn_cpu_drop = {.forward = forward, .backward = backward};
