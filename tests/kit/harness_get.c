/* SPDX-License-Identifier: MIT
 * harness_get.c - reading and setting the tensors of a stage under test, and what its plan said. */
#include "harness_impl.h"

#include <string.h>

#include <spcore/rng.h>

static sp_spec row_major(const sp_spec *s) {
  sp_spec r = *s;
  r.order = SP_ROW_MAJOR;
  return r;
}

const spt_port *spt_find_port(const spt *t, int what, int p) {
  switch (what) {
    case SPT_IN: return p >= 0 && p < t->n_in ? &t->in[p] : NULL;
    case SPT_DIN: return p >= 0 && p < t->n_in ? &t->din[p] : NULL;
    case SPT_OUT: return p >= 0 && p < t->n_out ? &t->out[p] : NULL;
    case SPT_DOUT: return p >= 0 && p < t->n_out ? &t->dout[p] : NULL;
    case SPT_WEIGHT: return p == 0 ? &t->weight : NULL;
    case SPT_DWEIGHT: return p == 0 ? &t->dweight : NULL;
    case SPT_ROWS: return p == 0 ? &t->rows : NULL;
    default: return NULL;
  }
}

int spt_ports(const spt *t, int what) {
  if (what == SPT_WEIGHT || what == SPT_DWEIGHT || what == SPT_ROWS) return 1;
  return what == SPT_IN || what == SPT_DIN ? t->n_in : t->n_out;
}

int spt_count(const spt *t, int what, int p) {
  const spt_port *q = spt_find_port(t, what, p);
  return q ? (int)q->n : 0;
}

const sp_spec *spt_spec(const spt *t, int what, int p, int i) {
  const spt_port *q = spt_find_port(t, what, p);
  return q && i >= 0 && i < (int)q->n ? &q->t[i].spec : NULL;
}

void *spt_raw(spt *t, int what, int p, int i) {
  const spt_port *q = spt_find_port(t, what, p);
  return q && i >= 0 && i < (int)q->n ? q->t[i].data : NULL;
}

int spt_set(spt *t, int what, int p, int i, const void *data) {
  const sp_spec *s = spt_spec(t, what, p, i);
  if (!s) return SPT_FAIL(t, SP_E_NOTFOUND, "harness: no tensor %d of port %d", i, p);
  sp_spec rows = row_major(s);
  sp_spec_copy(s, spt_raw(t, what, p, i), &rows, data);
  return SP_OK;
}

int spt_get(spt *t, int what, int p, int i, void *data) {
  const sp_spec *s = spt_spec(t, what, p, i);
  if (!s) return SPT_FAIL(t, SP_E_NOTFOUND, "harness: no tensor %d of port %d", i, p);
  sp_spec rows = row_major(s);
  sp_spec_copy(&rows, data, s, spt_raw(t, what, p, i));
  return SP_OK;
}

void spt_want(spt *t, int what, int p, int i, int wanted) {
  spt_port *q = (spt_port *)spt_find_port(t, what, p);
  if (q && i >= 0 && i < (int)q->n) q->hidden[i] = !wanted;
}

const sp_weight *spt_weight(const spt *t, int i) { return i >= 0 && i < (int)t->n_w ? &t->w[i] : NULL; }

const char *spt_weight_name(const spt *t, int i) {
  const sp_weight *w = spt_weight(t, i);
  return w ? w->name : NULL;
}

int spt_weight_index(const spt *t, const char *name) {
  for (uint32_t i = 0; i < t->n_w; i++)
    if (!strcmp(t->w[i].name, name)) return (int)i;
  return -1;
}

const char *spt_port_name(const spt *t, int what, int p) {
  if (p < 0 || p >= spt_ports(t, what)) return NULL;
  return what == SPT_IN || what == SPT_DIN ? t->type->inputs[p].name : t->type->outputs[p].name;
}

int spt_port_index(const spt *t, int what, const char *name) {
  for (int p = 0; p < spt_ports(t, what); p++)
    if (!strcmp(spt_port_name(t, what, p), name)) return p;
  return -1;
}

int spt_attr(const spt *t, const char *name, double *value) {
  for (uint32_t i = 0; i < t->n_attrs; i++) {
    if (strcmp(t->attrs[i].name, name)) continue;
    *value = t->attrs[i].value;
    return 1;
  }
  return 0;
}

const char *spt_attr_text(const spt *t, const char *name) {
  for (uint32_t i = 0; i < t->n_attrs; i++)
    if (!strcmp(t->attrs[i].name, name)) return t->attrs[i].text;
  return NULL;
}

int64_t spt_length(const spt *t) { return (int64_t)t->length; }
int spt_inplace(const spt *t) { return (int)t->inplace; }
int spt_restores(const spt *t) { return (int)t->restores; }
int spt_parts(const spt *t) { return (int)t->n_parts; }
int spt_averages(const spt *t) { return (int)t->averages; }

double spt_seconds(const spt *t) { return t->seconds; }
size_t spt_bytes(const spt *t, int saved) { return saved ? t->saved.bytes : t->scratch.bytes; }

void spt_random(float *dst, int64_t n, uint64_t seed, float lo, float hi) {
  uint64_t key = sp_rng_key(seed, "test");
  for (int64_t i = 0; i < n; i++) dst[i] = lo + (hi - lo) * sp_rng_float(sp_rng(key, (uint64_t)i, 0).v[0]);
}

int spt_format(const char *path, const sp_format_type **type, sp_err *err) {
  static sp_registry *reg; /* what it loads is never unloaded, so one serves all tests of a process */
  int rc;
  if (!reg && ((rc = sp_registry_new(&reg, err)) || (rc = spt_add_dirs(reg, err)))) return rc;
  return sp_registry_format(reg, path, type, err);
}
