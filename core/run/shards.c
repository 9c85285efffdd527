/* SPDX-License-Identifier: MIT
 * shards.c - the results of a step's passes, put together: counts add up, means are weighted by what they are over, in the
 * order of shards, so that the numbers are those of the step. */
#include "run/machine.h"

#include <stdlib.h>

/* One metric. */
typedef struct part {
  const sp_metric_slot *slot;
  bool sum, seen;
  size_t n;      /* elements */
  double weight; /* of a mean so far */
  double *add;   /* [n] */
  int64_t *count;
  void *out;
} part;

struct sp_shards {
  part *parts; /* as the program's metrics */
  size_t n;
  sp_metric *shown;
  uint64_t samples;
  sp_hash *hashes;
};

static const sp_port *port_of(const sp_metric_slot *s) { return sp_node_out_port(s->node, (unsigned)s->port); }
static bool is_integer(const sp_spec *s) { return s->dtype != SP_F32 && s->dtype != SP_F64; }

static int new_part(part *p, const sp_metric_slot *slot, const sp_machine *m, sp_err *err) {
  const sp_spec *spec = &slot->node->out_specs[slot->port].spec[slot->index];
  int64_t n = 1;
  for (int d = 0; d < spec->ndim; d++) n *= spec->shape[d];
  *p = (part){.slot = slot, .sum = is_integer(spec) || port_of(slot)->flags & SP_PORT_SUM, .n = (size_t)n};
  p->add = sp_graph_zalloc(m->g, p->n, sizeof *p->add, "metrics", err);
  p->count = p->add ? sp_graph_zalloc(m->g, p->n, sizeof *p->count, "metrics", err) : NULL;
  p->out = p->count ? sp_graph_zalloc(m->g, p->n, 8, "metrics", err) : NULL;
  return p->out ? SP_OK : err->status;
}

int sp_shards_new(sp_shards **out, const sp_machine *m, sp_err *err) {
  sp_shards *s = *out = sp_graph_zalloc(m->g, 1, sizeof *s, "metrics", err);
  int st = s ? SP_OK : err->status;
  if (st) return st;
  s->parts = sp_graph_zalloc(m->g, m->p->n_metrics, sizeof *s->parts, "metrics", err);
  s->shown = s->parts ? sp_graph_zalloc(m->g, m->p->n_metrics, sizeof *s->shown, "metrics", err) : NULL;
  s->hashes = s->shown ? sp_graph_zalloc(m->g, m->n_hashes, sizeof *s->hashes, "checksums", err) : NULL;
  if (!s->hashes) return err->status;
  for (; s->n < m->p->n_metrics && !st; s->n++) st = new_part(&s->parts[s->n], &m->p->metrics[s->n], m, err);
  return st;
}

void sp_shards_free(sp_shards *s) {
  if (!s) return;
  for (size_t i = 0; i < s->n; i++) {
    free(s->parts[i].add);
    free(s->parts[i].count);
    free(s->parts[i].out);
  }
  free(s->parts);
  free(s->shown);
  free(s->hashes);
  free(s);
}

static double number_at(const sp_metric *m, size_t i) {
  return m->spec.dtype == SP_F64 ? ((const double *)m->data)[i] : (double)((const float *)m->data)[i];
}

static int64_t count_at(const sp_metric *m, size_t i) {
  switch (m->spec.dtype) {
    case SP_U8: return ((const uint8_t *)m->data)[i];
    case SP_I8: return ((const int8_t *)m->data)[i];
    case SP_I32: return ((const int32_t *)m->data)[i];
    default: return ((const int64_t *)m->data)[i];
  }
}

/* What the means of this stage are over: its TOTAL, or the pass's samples. */
static double weight_of(const sp_shards *s, const sp_node *node, const sp_result *res) {
  for (size_t i = 0; i < res->n_metrics; i++)
    for (size_t k = 0; k < s->n; k++) {
      const sp_metric_slot *slot = s->parts[k].slot;
      if (slot->name == res->metrics[i].name && slot->node == node && port_of(slot)->flags & SP_PORT_TOTAL)
        return number_at(&res->metrics[i], 0);
    }
  return res->n;
}

static void add_part(part *p, const sp_metric *m, double weight) {
  p->seen = true;
  p->weight += weight;
  for (size_t i = 0; i < p->n; i++)
    if (is_integer(&m->spec)) p->count[i] += count_at(m, i);
    else if (weight != 0) p->add[i] += weight * number_at(m, i);
}

static void put_out(const part *p, int dtype) {
  for (size_t i = 0; i < p->n; i++) {
    double v = p->sum ? p->add[i] : p->weight != 0 ? p->add[i] / p->weight : 0;
    switch (dtype) {
      case SP_F32: ((float *)p->out)[i] = (float)v; break;
      case SP_F64: ((double *)p->out)[i] = v; break;
      case SP_U8: ((uint8_t *)p->out)[i] = (uint8_t)p->count[i]; break;
      case SP_I8: ((int8_t *)p->out)[i] = (int8_t)p->count[i]; break;
      case SP_I32: ((int32_t *)p->out)[i] = (int32_t)p->count[i]; break;
      default: ((int64_t *)p->out)[i] = p->count[i];
    }
  }
}

static void begin(sp_shards *s) {
  s->samples = 0;
  for (size_t i = 0; i < s->n; i++) {
    part *p = &s->parts[i];
    p->seen = false;
    p->weight = 0;
    for (size_t k = 0; k < p->n; k++) p->add[k] = 0, p->count[k] = 0;
  }
}

static void show(sp_shards *s, sp_result *res) {
  size_t k = 0;
  for (size_t i = 0; i < s->n; i++) {
    part *p = &s->parts[i];
    const sp_metric_slot *slot = p->slot;
    if (!p->seen || port_of(slot)->flags & SP_PORT_TOTAL) continue;
    const sp_spec *spec = &slot->node->out_specs[slot->port].spec[slot->index];
    put_out(p, spec->dtype);
    s->shown[k++] = (sp_metric){slot->name, slot->node->name, port_of(slot)->name, *spec, p->out, false};
  }
  res->metrics = s->shown;
  res->n_metrics = k;
}

/* A hash of the hashes of all passes. */
static void add_hashes(sp_shards *s, const sp_result *res, bool first) {
  for (size_t i = 0; i < res->n_hashes; i++) {
    uint64_t before = first ? 0 : s->hashes[i].hash;
    s->hashes[i] = (sp_hash){res->hashes[i].name, (before ^ res->hashes[i].hash) * UINT64_C(0x9e3779b97f4a7c15)};
  }
}

void sp_shards_add(sp_shards *s, const sp_machine *m, uint64_t pass, sp_result *res) {
  uint64_t shard = pass % (uint64_t)m->p->micro;
  if (!shard) begin(s);
  s->samples += res->n;
  for (size_t i = 0; i < res->n_metrics; i++)
    for (size_t k = 0; k < s->n; k++) {
      part *p = &s->parts[k];
      const sp_metric *metric = &res->metrics[i];
      if (p->slot->name == metric->name)
        add_part(p, metric, p->sum || p->slot->node->optimizer ? 1 : weight_of(s, p->slot->node, res));
    }
  add_hashes(s, res, !shard);
  res->hashes = s->hashes;
  res->step = pass / (uint64_t)m->p->micro;
  if (shard + 1 < (uint64_t)m->p->micro) return;
  res->n = (uint32_t)s->samples;
  show(s, res);
}
