/* SPDX-License-Identifier: MIT
 * walk.c - one forward or backward of a planned network, whatever the device. */
#include "walk.h"

#include <string.h>

int nn_walk_fail(const nn_walk *w, const nn_xop *op, int status, const char *words) {
  const char *kind = nn_kind_name(op->d.kind), *weight = op->d.w < 0 ? NULL : w->low->net.names[op->d.w];
  if (!weight) return w->ctx->host->fail(w->ctx, status, "%s (op %d): %s", kind, (int)(op - w->low->ops), words);
  return w->ctx->host->fail(w->ctx, status, "layer '%.*s' (%s): %s", (int)(strlen(weight) - strlen(".weight")), weight,
                            kind, words);
}

int nn_walk_batch(const nn_walk *w) {
  if (w->n >= (w->low->n_factors ? 0 : 1) && w->n <= w->low->batch) return SP_OK;
  return w->ctx->host->fail(w->ctx, SP_E_SHAPE, "a batch of %lld, planned for 1 to %lld", (long long)w->n,
                            (long long)w->low->batch);
}

/* ---- where things lie -------------------------------------------------------------------------------------------- */
static void *out_data(const sp_list *list, const nn_val *v) {
  if (v->out_port < 0 || !list || (uint32_t)v->out_item >= list[v->out_port].n) return NULL;
  return list[v->out_port].t[v->out_item].data;
}

static const sp_tensor *input(const nn_walk *w, const nn_val *v) { return &w->io->in[v->in_port].t[v->in_item]; }

void nn_walk_bind(nn_walk *w, const nn_device *device, int backward) {
  const nn_low *low = w->low;
  int training = backward || w->io->training, saved = backward || (training && low->training);
  w->n = low->batch;
  w->batch_stats = training && !low->frozen;
  w->tmp = w->values + (backward ? low->grad_bytes : saved ? 0 : low->infer_bytes);
  w->more = w->tmp + low->tmp_bytes;
  for (int i = 0; i < low->n_vals; i++) {
    const nn_val *v = &low->vals[i];
    nn_at *at = &w->at[i];
    *at = (nn_at){.wanted = 1};
    if (v->in_port >= 0) {
      at->data = input(w, v)->data;
      w->n = input(w, v)->spec.shape[0];
      continue;
    }
    at->data = out_data(w->io->out, v);
    if (at->data) continue;
    if (v->out_port >= 0 && !v->uses) at->wanted = 0;
    else if (saved && nn_is_factor(v)) at->data = nn_factor(w, v->rows);
    else at->data = saved ? (char *)w->io->saved + v->off_saved : w->values + v->off_infer;
  }
  if (device->bind) device->bind(w);
}

float *nn_dweight(const nn_walk *w, int i, int *add) {
  *add = w->io->dw_scale || w->io->dw_acc;
  if (w->low->frozen) return NULL;
  if (w->io->dw_scale) return nn_weight_of(w, i);
  return w->io->dweights ? w->io->dweights[i].data : NULL;
}

float *nn_applied(const nn_walk *w, int i, int *add) {
  float *p = w->io->dweights[i].data;
  *add = !p;
  return p ? p : nn_weight_of(w, i);
}

int nn_write_grad(const nn_walk *w, int v, int *add, int *masked) {
  nn_at *at = &w->at[v];
  *add = at->gset;
  *masked = w->low->vals[v].masked;
  at->gset = at->need;
  return at->need;
}

/* ---- factors ----------------------------------------------------------------------------------------------------- */
/* Rows of samples from the n-th on that are not there, of what this call is to write. */
static int zero_rows(nn_walk *w, const nn_device *device, int forward) {
  const nn_low *low = w->low;
  int st = SP_OK;
  for (int i = 0; w->n < low->batch && i < low->n_factors && !st; i++) {
    const sp_factor *f = &low->factors[i];
    size_t each = (size_t)(f->spec.shape[0] / low->batch * f->spec.shape[1]) * (f->spec.dtype == SP_F32 ? 4 : 2);
    if (forward != (int)f->forward || (!forward && f->part - f->early != w->io->part)) continue;
    st = device->zero(w, (char *)nn_factor(w, i + 1) + (size_t)w->n * each, (size_t)(low->batch - w->n) * each);
  }
  return st;
}

/* What a forward is to write and does not lie there itself. */
static int copy_rows(nn_walk *w, const nn_device *device) {
  int st = SP_OK;
  for (int i = 0; i < w->low->n_vals && w->n && !st; i++) {
    const nn_val *v = &w->low->vals[i];
    size_t bytes = (size_t)(w->n * v->px * v->c) * (v->elt == NN_F32 ? 4 : 2);
    if (v->rows && !nn_is_factor(v)) st = device->copy(w, nn_factor(w, v->rows), w->at[i].data, bytes);
  }
  return st ? st : zero_rows(w, device, 1);
}

int nn_apply(nn_walk *w, const nn_device *device) {
  const nn_low *low = w->low;
  int st = SP_OK;
  w->n = low->batch * low->shards;
  w->tmp = w->values + low->grad_bytes;
  w->more = w->tmp + low->tmp_bytes;
  for (int i = low->n_ops - 1; i >= 0 && !st; i--)
    if (nn_has_factors(low, &low->ops[i]) && low->ops[i].part == (int)w->io->part) st = device->apply(w, &low->ops[i]);
  return st;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */
int nn_forward(nn_walk *w, const nn_device *device) {
  const nn_low *low = w->low;
  int st;
  nn_walk_bind(w, device, 0);
  st = nn_walk_batch(w);
  if (!st && w->n && device->start) st = device->start(w, 0);
  for (int i = 0; i < low->n_ops && w->n && !st; i++)
    if (w->at[low->ops[i].out].wanted) st = device->forward(w, &low->ops[i]);
  return st || !w->io->factors ? st : copy_rows(w, device);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */
static void bind_grad(nn_walk *w, int i) {
  const nn_val *v = &w->low->vals[i];
  const sp_io *io = w->io;
  nn_at *at = &w->at[i];
  at->grad = v->drows ? (char *)nn_factor(w, v->drows) : w->values + v->off_grad;
  if (v->in_port < 0) return;
  at->grad = io->din ? io->din[v->in_port].t[v->in_item].data : NULL;
  at->need = at->grad != NULL;
  at->gset = at->need && io->din_acc && io->din_acc[v->in_port] && io->din_acc[v->in_port][v->in_item];
}

/* Which values need a gradient: those above a trained weight or a wanted input gradient. */
static void needs(nn_walk *w) {
  const nn_low *low = w->low;
  int add;
  for (int i = 0; i < low->n_vals; i++) bind_grad(w, i);
  for (int i = 0; i < low->n_ops; i++) {
    const nn_xop *op = &low->ops[i];
    int need = 0;
    for (int j = 0; j <= op->d.n_more; j++) need |= w->at[NN_IN(op, j)].need;
    for (int j = 0; j < 2; j++)
      if (nn_has_weight(&op->d, j)) need |= nn_dweight(w, op->d.w + j, &add) != NULL || nn_has_factors(low, op);
    w->at[op->out].need = need != 0;
  }
}

static int zero_dweights(nn_walk *w, const nn_device *device, const nn_op *op) {
  int st = SP_OK, add;
  for (int j = 0; j < 2 && !st; j++) {
    float *p = nn_has_weight(op, j) ? nn_dweight(w, op->w + j, &add) : NULL;
    if (p && !add) st = device->zero(w, p, nn_weight_bytes(w->low, op->w + j));
  }
  return st;
}

/* No gradient came to what op computes, nor, where it alone reads a value that is not stored, to that. */
static int nothing_came(nn_walk *w, const nn_device *device, const nn_xop *op) {
  const nn_xop *with = nn_with(w->low, op);
  int st = zero_dweights(w, device, &op->d);
  return st || !with ? st : zero_dweights(w, device, &with->d);
}

/* There is a gradient of what op computes. */
static int came(const nn_walk *w, const nn_xop *op) {
  return w->at[op->out].gset || out_data(w->io->dout, &w->low->vals[op->out]);
}

/* Complete, and masked by its ReLU; rows of a factor are 0 where none came. */
static int arrive(nn_walk *w, const nn_device *device, const nn_xop *op) {
  const nn_val *v = &w->low->vals[op->out];
  nn_at *at = &w->at[op->out];
  int relu = op->d.relu && !v->masked;
  void *dout = out_data(w->io->dout, v);
  if (!came(w, op) && nn_has_factors(w->low, op))
    return device->zero(w, at->grad, (size_t)(w->n * v->px * v->c) * (v->elt == NN_F32 ? 4 : 2));
  if (dout && !v->uses && !relu && !v->drows) at->grad = dout;
  else if (came(w, op) && (dout || relu)) return device->arrive(w, op, dout, relu);
  return SP_OK;
}

static int zero_din(nn_walk *w, const nn_device *device) {
  int st = SP_OK;
  for (int i = 0; i < w->low->n_vals && !st; i++) {
    const nn_val *v = &w->low->vals[i];
    if (v->in_port >= 0 && w->at[i].need && !w->at[i].gset)
      st = device->zero(w, w->at[i].grad, (size_t)(w->n * v->px * v->c) * sizeof(float));
  }
  return st;
}

/* An earlier part of this backward ran op: what it has left of gradients is there. */
static void ran(nn_walk *w, const nn_xop *op) {
  const nn_xop *with = nn_with(w->low, op);
  const nn_xop *reader = with ? with : op;
  if (!came(w, op)) return;
  for (int j = 0; j <= reader->d.n_more; j++)
    if (w->at[NN_IN(reader, j)].need) w->at[NN_IN(reader, j)].gset = 1;
}

/* The ops of the call's part, once it is known what those before it have done,
 * and what they complete of later ones'. */
static int run_part(nn_walk *w, const nn_device *device) {
  const nn_low *low = w->low;
  int st = SP_OK, part = (int)w->io->part;
  for (int i = low->n_ops - 1; i >= 0 && !st; i--) {
    const nn_xop *op = &low->ops[i];
    if (!w->at[op->out].need || low->vals[op->out].unstored) continue;
    if (op->arrives == part) st = arrive(w, device, op);
    if (op->part < part) ran(w, op);
    else if (op->part == part && !st) st = came(w, op) ? device->backward(w, op) : nothing_came(w, device, op);
  }
  return st;
}

int nn_backward(nn_walk *w, const nn_device *device) {
  const nn_low *low = w->low;
  int st;
  if (!low->training)
    return w->ctx->host->fail(w->ctx, SP_E_STATE, "backward of a network that was planned without training");
  nn_walk_bind(w, device, 1);
  needs(w);
  st = nn_walk_batch(w);
  if (!st && low->n_factors) st = zero_rows(w, device, 0);
  if (st || !w->n) return st;
  if (!w->io->part && device->start) st = device->start(w, 1);
  if (!st) st = run_part(w, device);
  if (!st && device->finish) st = device->finish(w);
  return st || (int)w->io->part + 1 < low->n_parts ? st : zero_din(w, device);
}
