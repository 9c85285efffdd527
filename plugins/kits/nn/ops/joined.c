/* SPDX-License-Identifier: MIT
 * joined.c - several values as one: their sum, their product, their channels side by side. */
#include "row.h"

#include <stdio.h>

static const char *shape_text(const nn_value *v, char *buf, size_t n) {
  if (v->flat) snprintf(buf, n, "N x %lld", (long long)v->c);
  else snprintf(buf, n, "N x %lld x %lld x %lld", (long long)v->c, (long long)v->h, (long long)v->w);
  return buf;
}

static int refused(const nn_making *m, const nn_value *v, const char *done, const nn_value *to) {
  char a[96], b[96];
  return m->ctx->host->fail(m->ctx, SP_E_SHAPE, "%s%s%s%s: %s cannot be %s %s", m->place, m->name ? " (" : "",
                            m->name ? m->type : "", m->name ? ")" : "", shape_text(v, a, sizeof a), done,
                            shape_text(to, b, sizeof b));
}

static int same_map(const nn_value *a, const nn_value *b) { return a->flat == b->flat && a->h == b->h && a->w == b->w; }

static int add(const nn_making *m) {
  const nn_value *first = &m->net->values[m->in[0]];
  int status;
  for (int i = 1; i < m->n; i++) {
    const nn_value *v = &m->net->values[m->in[i]];
    if (!same_map(v, first) || v->c != first->c) return refused(m, v, "added to", first);
  }
  status = nn_check_size(m, first->c, first->h, first->w);
  return status ? status : nn_add_simple(m, NN_ADD, *first);
}

static int concat(const nn_making *m) {
  nn_value out = m->net->values[m->in[0]];
  int status;
  for (int i = 1; i < m->n; i++) {
    const nn_value *v = &m->net->values[m->in[i]];
    if (!same_map(v, &out)) return refused(m, v, "joined to", &m->net->values[m->in[0]]);
    out.c += v->c;
  }
  status = nn_check_size(m, out.c, out.h, out.w);
  return status ? status : nn_add_simple(m, NN_CONCAT, out);
}

/* A number for each sample and channel may be a factor of all pixels. */
static int is_factor(const nn_value *v, const nn_value *of) { return v->c == of->c && v->h * v->w == 1; }

static int mul(const nn_making *m) {
  int in[2] = {m->in[0], m->in[1]}, status;
  const nn_value *v = m->net->values;
  nn_making turned = *m;
  if (is_factor(&v[in[0]], &v[in[1]])) { /* the map is first */
    in[0] = m->in[1];
    in[1] = m->in[0];
  }
  turned.in = in;
  if (!is_factor(&v[in[1]], &v[in[0]]) && (!same_map(&v[in[1]], &v[in[0]]) || v[in[1]].c != v[in[0]].c))
    return refused(m, &v[in[1]], "multiplied with", &v[in[0]]);
  status = nn_check_size(m, v[in[0]].c, v[in[0]].h, v[in[0]].w);
  return status ? status : nn_add_simple(&turned, NN_MUL, v[in[0]]);
}

const nn_row nn_row_add = {.least = 2,
                           .most = NN_MAX_INS,
                           .build = add,
                           .is = NN_PIXELWISE | NN_TAKES_RELU,
                           .exec = NN_X_ADD,
                           .folds = NN_FOLDS_SUM};
const nn_row nn_row_concat = {
    .least = 2, .most = NN_MAX_INS, .build = concat, .is = NN_PIXELWISE | NN_ENLARGES, .exec = NN_X_CONCAT};
const nn_row nn_row_mul = {.least = 2, .most = 2, .build = mul, .is = NN_PIXELWISE, .exec = NN_X_MUL};
