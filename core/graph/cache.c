/* SPDX-License-Identifier: MIT
 * cache.c - what a frozen stage gives for each sample, kept.
 *
 * Before the first step a program of its own runs the stage, and all that is before it, over all samples of a source in
 * their order, with the batch of the training; the rows go to a table by their places in the list of samples. In the
 * programs of training and evaluations the stage is then not called but read from that table, and what only it needed
 * is not in them. So there is one program a loop, each step costs the same, and the bits are those of the call: the
 * stage depends on nothing but the sample. What this asks of the graph is checked here, before anything runs. */
#include "graph/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const sp_cache_words[] = {"off", "device", "host", NULL};

/* ---- making ---- */
static int new_inst(const sp_node *n, bool put, sp_inst **out, sp_err *err) {
  const sp_stage_type *type;
  const sp_plugin_file *file;
  sp_graph *g = n->g;
  sp_value params = {.type = SP_V_TABLE}, *v = sp_value_put(&params, "put");
  int st = v ? SP_OK : sp_nomem(err, 64, "parameters");
  if (v) *v = (sp_value){.type = SP_V_BOOL, .i = put};
  if (!st) st = sp_registry_stage(g->env->reg, "feature_cache", n->on_cpu ? "cpu" : g->stages, &type, &file, err);
  if (!st) st = sp_inst_new(out, n->on_cpu ? &g->cpu_host : &g->host, n->name, type, file, &params, &n->precision, err);
  sp_value_free(&params);
  return st;
}

int sp_cache_new(sp_node *n, sp_err *err) {
  if (n->opts.cache == SP_CACHE_OFF) return SP_OK;
  if (n->source || n->optimizer || !n->frozen)
    return sp_fail(err, SP_E_INVALID, "stage '%s': cache = \"%s\": %s", n->name, sp_cache_words[n->opts.cache],
                   n->source || n->optimizer ? "it is a source or an optimizer, of which nothing is kept"
                                             : "what is trained gives something else in each step: set frozen = true");
  if (!(n->cache = sp_calloc(1, sizeof *n->cache))) return sp_nomem(err, sizeof *n->cache, "a cache");
  int st = new_inst(n, false, &n->cache->get, err);
  return st ? st : new_inst(n, true, &n->cache->put, err);
}

static void free_rows(const sp_node *n, const sp_table *t) {
  const sp_place *place = sp_node_place(n);
  for (size_t f = 0; t->rows && f < sp_node_n_flat(n); f++) {
    if (!t->rows[f]) continue;
    if (n->opts.cache == SP_CACHE_HOST) place->type->free(place->dev, SP_MEM_PINNED, t->rows[f]);
    else sp_place_free(place, t->rows[f]);
  }
  free(t->rows);
}

void sp_cache_free(sp_node *n) {
  sp_cache *c = n->cache;
  if (!c) return;
  for (size_t i = 0; i < c->n; i++) free_rows(n, &c->tables[i]);
  sp_inst_free(c->get);
  sp_inst_free(c->put);
  free(c->tables);
  free(c->kept);
  free(c);
  n->cache = NULL;
}

/* ---- who needs what ---- */
bool sp_ref_is_read(const sp_graph *g, sp_ref r, bool filling) {
  if (sp_graph_is_result(g, r.node, r.port, r.index)) return true;
  for (size_t j = 0; j < g->n_nodes; j++) {
    const sp_node *m = g->nodes[j];
    if (!filling && (m->flow.spared || m->cache)) continue;
    for (unsigned i = 0; i < m->n_in; i++)
      for (size_t k = 0; k < m->in[i].n; k++) {
        sp_ref x = m->in[i].v[k];
        if (x.node == r.node && x.port == r.port && x.index == r.index) return true;
      }
  }
  return false;
}

static bool has_port(const sp_node *n, uint32_t flags) {
  for (unsigned o = 0; o < n->n_out; o++)
    if (sp_node_out_port(n, o)->flags & flags) return true;
  return false;
}

/* The node, and all that is before it; up: [n_nodes] false. */
static void find_before(const sp_node *n, bool *up) {
  const sp_graph *g = n->g;
  up[n->index] = true;
  for (size_t t = g->n_nodes; t-- > 0;) {
    const sp_node *m = g->topo[t];
    for (unsigned i = 0; up[m->index] && i < m->n_in; i++)
      for (size_t k = 0; k < m->in[i].n; k++) up[m->in[i].v[k].node->index] = true;
  }
}

/* All that read it are read from tables themselves. A metric is wanted for its own sake. */
static bool is_spared(const sp_graph *g, const sp_node *n) {
  if (!n->flow.fills || n->source || has_port(n, SP_PORT_METRIC)) return false;
  for (unsigned o = 0; o < n->n_out; o++)
    for (uint32_t k = 0; k < n->out_specs[o].n; k++)
      if (sp_ref_is_read(g, (sp_ref){(sp_node *)n, (int)o, (int)k}, false)) return false;
  return true;
}

/* ---- what may be kept ---- */
static int refuse(const sp_node *n, const sp_node *m, const char *why, sp_err *err) {
  const char *of = m == n ? "it" : m->name, *quote = m == n ? "" : "'";
  return sp_fail(err, SP_E_INVALID, "stage '%s': cache = \"%s\": %s%s%s %s, or take cache = \"off\"", n->name,
                 sp_cache_words[n->opts.cache], quote, of, quote, why);
}

/* m is the node, or before it. */
static int check_before(const sp_node *n, const sp_node *m, sp_err *err) {
  uint32_t flags = m->inst->type->flags;
  if (m->source)
    return flags & SP_STAGE_REQUESTS ? refuse(n, m, "gives requests, of which none comes again: read data", err)
           : flags & SP_STAGE_STOCHASTIC
               ? refuse(n, m, "draws random numbers, so a sample is another in each epoch: read other data", err)
               : SP_OK;
  if (!m->stepless)
    return refuse(n, m,
                  flags & SP_STAGE_STOCHASTIC
                      ? "draws random numbers, so a sample gives something else in each epoch: leave it away"
                      : "reads the step or the ids of samples, so a sample may give something else in each epoch: "
                        "leave it away",
                  err);
  return m->flow.in_trained ? refuse(n, m, "changes in training: set frozen = true there", err) : SP_OK;
}

static int check_all_before(const sp_node *n, sp_err *err) {
  const sp_graph *g = n->g;
  bool *up = sp_calloc(g->n_nodes, sizeof *up);
  int st = up ? SP_OK : sp_nomem(err, g->n_nodes, "a cache");
  if (up) find_before(n, up);
  for (size_t i = 0; i < g->n_nodes && !st; i++) {
    if (!up[i]) continue;
    g->nodes[i]->flow.fills = true;
    st = check_before(n, g->nodes[i], err);
  }
  free(up);
  return st;
}

static int check_outputs(const sp_node *n, sp_err *err) {
  if (!n->batched) return refuse(n, n, "has no samples of a source before it: wire it behind one", err);
  if (has_port(n, SP_PORT_METRIC | SP_PORT_STATUS)) return refuse(n, n, "has metrics: leave the cache away", err);
  size_t f = 0;
  for (unsigned o = 0; o < n->n_out; o++)
    for (uint32_t k = 0; k < n->out_specs[o].n; k++, f++) {
      const sp_spec *s = &n->out_specs[o].spec[k];
      if (n->cache->kept[f] && (!sp_node_batch_out(n, (int)o, s) || sp_spec_sample(s).ndim < 0))
        return refuse(n, n, "has an output that is not made of samples: leave the cache away", err);
    }
  return SP_OK;
}

static int find_kept(sp_node *n, sp_err *err) {
  size_t f = 0;
  free(n->cache->kept);
  n->cache->kept = sp_calloc(sp_node_n_flat(n) + 1, sizeof *n->cache->kept);
  if (!n->cache->kept) return sp_nomem(err, sp_node_n_flat(n), "a cache");
  for (unsigned o = 0; o < n->n_out; o++)
    for (uint32_t k = 0; k < n->out_specs[o].n; k++, f++)
      n->cache->kept[f] = !n->flow.spared && sp_ref_is_read(n->g, (sp_ref){n, (int)o, (int)k}, false);
  return SP_OK;
}

int sp_graph_plan_caches(sp_graph *g, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; i < g->n_nodes; i++) g->nodes[i]->flow.fills = g->nodes[i]->flow.spared = false;
  for (size_t i = 0; i < g->n_nodes && !st; i++)
    if (g->nodes[i]->cache) st = check_all_before(g->nodes[i], err);
  for (size_t t = g->n_nodes; t-- > 0;) g->topo[t]->flow.spared = is_spared(g, g->topo[t]);
  for (size_t i = 0; i < g->n_nodes && !st; i++) {
    sp_node *n = g->nodes[i];
    if (n->cache && !(st = find_kept(n, err))) st = check_outputs(n, err);
  }
  return st;
}

/* ---- tables ---- */
sp_spec sp_table_spec(const sp_node *n, size_t flat, const sp_node *source) {
  unsigned o = 0;
  for (; flat >= n->out_specs[o].n; o++) flat -= n->out_specs[o].n;
  sp_spec s = n->out_specs[o].spec[flat];
  if (s.ndim > 0) s.shape[0] = (int64_t)source->length;
  return s;
}

uint64_t sp_cache_bytes(const sp_node *n, const sp_node *source) {
  uint64_t all = 0;
  for (size_t f = 0; f < sp_node_n_flat(n); f++) {
    sp_spec s = n->cache->kept[f] ? sp_table_spec(n, f, source) : (sp_spec){0};
    int64_t bytes = n->cache->kept[f] ? sp_spec_bytes(&s) : 0;
    if (bytes < 0 || __builtin_add_overflow(all, (uint64_t)bytes, &all)) return UINT64_MAX;
  }
  return all;
}

/* Of the host a device reads what is pinned. */
static void *alloc_rows(sp_node *n, size_t bytes, sp_err *err) {
  const sp_place *place = sp_node_place(n);
  bool pinned = n->opts.cache == SP_CACHE_HOST;
  char what[128];
  void *rows = NULL;
  sp_ctx_holder h;
  snprintf(what, sizeof what, "the cache of '%.60s'", n->name);
  n->g->store.allocations++;
  int st = pinned ? place->type->alloc(sp_ctx_for(&h, what, err), place->dev, SP_MEM_PINNED, bytes, &rows)
                  : sp_place_alloc(place, bytes, what, &rows, err);
  if (!st) return rows;
  size_t len = strlen(err->msg);
  snprintf(err->msg + len, sizeof err->msg - len, "; take cache = %s\"off\"",
           n->g->border && !pinned ? "\"host\" or " : "");
  return NULL;
}

static int make_rows(sp_node *n, sp_table *t, sp_err *err) {
  size_t count = sp_node_n_flat(n);
  t->rows = sp_store_zalloc(&n->g->store, count, sizeof *t->rows, "a cache", err);
  if (!t->rows) return err->status;
  for (size_t f = 0; f < count; f++) {
    if (!n->cache->kept[f]) continue;
    sp_spec s = sp_table_spec(n, f, t->source);
    if (!(t->rows[f] = alloc_rows(n, (size_t)sp_spec_bytes(&s), err))) return err->status;
  }
  return SP_OK;
}

static sp_table *find_table(const sp_node *n, const sp_node *source) {
  for (size_t i = 0; n->cache && i < n->cache->n; i++)
    if (n->cache->tables[i].source == source) return &n->cache->tables[i];
  return NULL;
}

sp_table *sp_cache_table(sp_node *n, const sp_node *source, sp_err *err) {
  sp_cache *c = n->cache;
  sp_table *t = find_table(n, source);
  if (t) return t;
  if (!sp_grow(&c->tables, &c->cap, c->n + 1, sizeof *c->tables)) {
    sp_nomem(err, sizeof *t, "a cache");
    return NULL;
  }
  sp_table made = {.source = source};
  if (make_rows(n, &made, err)) {
    free_rows(n, &made);
    return NULL;
  }
  c->tables[c->n] = made;
  return &c->tables[c->n++];
}

bool sp_graph_filled(const sp_graph *g, const sp_node *source) {
  for (size_t i = 0; i < g->n_nodes; i++) {
    const sp_node *n = g->nodes[i];
    const sp_table *t = find_table(n, source);
    if (n->cache && !n->flow.spared && !(t && t->filled)) return false;
  }
  return true;
}

void sp_graph_set_filled(sp_graph *g, const sp_node *source) {
  for (size_t i = 0; i < g->n_nodes; i++) {
    sp_table *t = find_table(g->nodes[i], source);
    if (t) t->filled = true;
  }
}

/* Another stage's weights change none of what is kept. */
void sp_graph_drop_filled(sp_graph *g, const sp_node *node) {
  for (size_t i = 0; i < g->n_nodes && (!node || node->flow.fills); i++)
    for (size_t k = 0; g->nodes[i]->cache && k < g->nodes[i]->cache->n; k++)
      g->nodes[i]->cache->tables[k].filled = false;
}
