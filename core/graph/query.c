/* SPDX-License-Identifier: MIT
 * query.c - what may be asked of a graph and its stages. All other files of this folder may call this one, which calls
 * none of them. */
#include "device/cpu.h"
#include "graph/model.h"

#include <string.h>

/* ---- of a graph ---- */
sp_store *sp_graph_store(sp_graph *g) { return &g->store; }

const sp_graph_opts *sp_graph_options(const sp_graph *g) { return &g->opts; }

size_t sp_graph_n_nodes(const sp_graph *g) { return g->n_nodes; }
sp_node *sp_graph_node(const sp_graph *g, size_t i) { return i < g->n_nodes ? g->nodes[i] : NULL; }

sp_node *sp_graph_find(const sp_graph *g, const char *name) {
  for (size_t i = 0; i < g->n_nodes; i++)
    if (!strcmp(g->nodes[i]->name, name)) return g->nodes[i];
  return NULL;
}

bool sp_graph_plays_gpu(const sp_graph *g) {
  return g->main.type == &sp_device_mock || g->main.type == &sp_device_simmock;
}

bool sp_graph_is_result(const sp_graph *g, const sp_node *n, int port, int index) {
  for (size_t i = 0; i < g->results.n; i++) {
    sp_ref r = g->results.v[i];
    if (r.node == n && r.port == port && r.index == index) return true;
  }
  return false;
}

sp_queue *sp_graph_queue(const sp_graph *g) { return g->queue; }

/* ---- of a stage ---- */
const sp_weights *sp_node_params(const sp_node *n) { return &n->params; }

sp_place *sp_node_place(const sp_node *n) { return n->on_cpu && n->g->border ? &n->g->cpu : &n->g->main; }

const char *sp_node_name(const sp_node *n) { return n->name; }
const sp_stage_type *sp_node_type(const sp_node *n) { return n->inst->type; }
const sp_inst *sp_node_inst(const sp_node *n) { return n->inst; }
bool sp_node_frozen(const sp_node *n) { return n->frozen; }
sp_cache_at sp_node_cache(const sp_node *n) { return n->opts.cache; }

int sp_node_precision(const sp_node *n) { return n->precision.precision; }
bool sp_node_eval_only(const sp_node *n) { return n->opts.eval_only; }
bool sp_node_on_cpu(const sp_node *n) { return n->on_cpu && n->g->border; }

/* A wire of n before the one at (port, item) comes from the same stage. */
static bool read_before(const sp_node *n, unsigned port, size_t item) {
  const sp_node *from = n->in[port].v[item].node;
  for (unsigned i = 0; i <= port; i++)
    for (size_t j = 0; j < (i < port ? n->in[i].n : item); j++)
      if (n->in[i].v[j].node == from) return true;
  return false;
}

sp_node *sp_node_producer(const sp_node *n, size_t k) {
  for (unsigned i = 0; i < n->n_in; i++)
    for (size_t j = 0; j < n->in[i].n; j++)
      if (!read_before(n, i, j) && k-- == 0) return n->in[i].v[j].node;
  return NULL;
}
bool sp_node_is_source(const sp_node *n) { return n->source; }
bool sp_node_is_shards(const sp_node *n) { return n->shards; }

const sp_port *sp_node_in_port(const sp_node *n, unsigned i) { return &n->inst->type->inputs[i]; }
const sp_port *sp_node_out_port(const sp_node *n, unsigned i) { return &n->inst->type->outputs[i]; }

size_t sp_node_flat(const sp_node *n, int port, int index) {
  size_t k = 0;
  for (int i = 0; i < port; i++) k += n->out_specs[i].n;
  return k + (size_t)index;
}

size_t sp_node_n_flat(const sp_node *n) { return sp_node_flat(n, (int)n->n_out, 0); }

int sp_node_find_in(const sp_node *n, const char *port, sp_err *err) {
  const sp_port *ports = n->inst->type->inputs;
  const char *names[64], *near;
  unsigned k = 0;
  for (unsigned i = 0; i < n->n_in; i++) {
    if (!strcmp(ports[i].name, port)) return (int)i;
    if (k < 63) names[k++] = ports[i].name;
  }
  names[k] = NULL;
  near = sp_nearest(port, names);
  if (near)
    return sp_fail(err, SP_E_NOTFOUND, "stage '%s' has no input port '%s'; did you mean '%s'?", n->name, port, near);
  return sp_fail(err, SP_E_NOTFOUND, "stage '%s' has no input port '%s' (see: spcore inspect %s)", n->name, port,
                 n->inst->type->name);
}

const sp_speclist *sp_node_out_specs(const sp_node *n, int port) { return &n->out_specs[port]; }

uint64_t sp_node_length(const sp_node *n) { return n->length; }

const sp_attr *sp_node_attr(const sp_node *n, const char *name) {
  for (size_t i = 0; i < n->n_attrs; i++)
    if (!strcmp(n->attrs[i].name, name)) return &n->attrs[i];
  return NULL;
}

int sp_node_item(const sp_node *n, const sp_attr *attr, uint64_t i, char *to, size_t size, sp_err *err) {
  return sp_inst_item(n->inst, attr, i, to, size, err);
}

bool sp_node_batch_out(const sp_node *n, int port, const sp_spec *s) {
  return n->batched && !(sp_node_out_port(n, (unsigned)port)->flags & (SP_PORT_METRIC | SP_PORT_STATUS)) &&
         s->ndim > 0 && s->shape[0] == n->opts.batch;
}

bool sp_node_changes(const sp_node *n) {
  return n->g->train.on && (n->params.trained || sp_node_apart(n) ||
                            (!n->frozen && !n->source && sp_weights_have(&n->params, SP_WEIGHT_STATE)));
}

bool sp_node_trained_on(const sp_node *n) {
  for (size_t i = 0; i < n->g->train.losses.n; i++)
    if (n->g->train.losses.v[i].node == n) return true;
  return false;
}

/* ---- of a wire ---- */
bool sp_ref_grad(const sp_node *consumer, int in_port, sp_ref from) {
  return !(
      (sp_node_in_port(consumer, (unsigned)in_port)->flags | sp_node_out_port(from.node, (unsigned)from.port)->flags) &
      (SP_PORT_NOGRAD | SP_PORT_METRIC | SP_PORT_STATUS | SP_PORT_TOTAL));
}
