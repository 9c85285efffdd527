/* SPDX-License-Identifier: MIT
 * analyse.c - what follows from wires: the order of stages, which are trained, where gradients flow. */
#include "graph/model.h"

#include <stdlib.h>

/* Kahn's order, the lowest index first, so that the order is the script's where it is free. */
int sp_graph_sort(sp_graph *g, sp_err *err) {
  size_t done = 0;
  bool *placed = sp_calloc(g->n_nodes + 1, 1);
  free(g->topo);
  g->topo = sp_calloc(g->n_nodes + 1, sizeof *g->topo);
  if (!placed || !g->topo) {
    free(placed);
    return sp_nomem(err, g->n_nodes * sizeof *g->topo, "the order of stages");
  }
  while (done < g->n_nodes) {
    size_t before = done;
    for (size_t i = 0; i < g->n_nodes && done == before; i++) {
      sp_node *n = g->nodes[i];
      bool ready = !placed[i];
      for (unsigned p = 0; ready && p < n->n_in; p++)
        for (size_t k = 0; k < n->in[p].n; k++) ready = ready && placed[n->in[p].v[k].node->index];
      if (!ready) continue;
      placed[i] = true;
      g->topo[done++] = n;
    }
    if (done == before) break; /* wire() refuses cycles */
  }
  free(placed);
  return done == g->n_nodes ? SP_OK : sp_fail(err, SP_E_INTERNAL, "the graph has a cycle");
}

/* Downstream of a change: what training changes must be seen in step order by all that depends on it. */
static void mark_forward(sp_graph *g) {
  for (size_t t = 0; t < g->n_nodes; t++) {
    sp_node *n = g->topo[t];
    n->params.trained = n->flow.needs_grad = n->flow.in_trained = false;
    if (n->source) continue;
    n->params.trained = g->train.on && !n->frozen && !sp_node_apart(n) && sp_weights_are_trained(&n->params);
    n->flow.needs_grad = n->params.trained;
    n->flow.in_trained = sp_node_apart(n) || sp_node_changes(n);
    for (unsigned i = 0; i < n->n_in; i++)
      for (size_t k = 0; k < n->in[i].n; k++) {
        sp_ref r = n->in[i].v[k];
        if (r.node->flow.needs_grad && sp_ref_grad(n, (int)i, r)) n->flow.needs_grad = true;
        if (r.node->flow.in_trained) n->flow.in_trained = true;
      }
  }
}

static int mark_backward(sp_graph *g, sp_err *err) {
  bool *leads = sp_calloc(g->n_nodes + 1, sizeof *leads); /* a gradient arrives at it */
  int st = SP_OK;
  if (!leads) return sp_nomem(err, g->n_nodes, "the flow of gradients");
  for (size_t t = g->n_nodes; t-- > 0 && !st;) {
    sp_node *n = g->topo[t];
    bool loss = sp_node_trained_on(n);
    n->flow.backward = !loss && leads[n->index] && n->flow.needs_grad;
    if (n->flow.backward && !n->inst->type->backward)
      st = sp_fail(err, SP_E_UNSUPPORTED,
                   "stage '%s' passes no gradient, but what is before it is to be trained: set frozen = true there",
                   n->name);
    if (!st && n->params.trained && !n->flow.backward)
      st = sp_fail(err, SP_E_INVALID, "stage '%s' has weights to train but leads to no loss: set frozen = true on it",
                   n->name);
    if (loss && !n->flow.needs_grad)
      st = sp_fail(err, SP_E_INVALID,
                   "nothing that loss '%s' depends on is trained%s: every stage with weights before it is frozen",
                   n->name, g->train.groups.phase + 1 < sp_graph_phases(g) ? " before unfreeze says so" : "");
    if (!loss && !n->flow.backward) continue;
    for (unsigned i = 0; i < n->n_in; i++)
      for (size_t k = 0; k < n->in[i].n; k++)
        if (sp_ref_grad(n, (int)i, n->in[i].v[k])) leads[n->in[i].v[k].node->index] = true;
  }
  free(leads);
  return st;
}

/* What a training step leaves out, nothing that it runs may read. */
static int check_eval_only(const sp_graph *g, sp_err *err) {
  for (size_t t = 0; t < g->n_nodes; t++) {
    const sp_node *n = g->topo[t];
    if (n->opts.eval_only && (n->source || n->optimizer || sp_node_trained_on(n)))
      return sp_fail(err, SP_E_INVALID, "stage '%s': eval_only: a training step needs %s", n->name,
                     n->source      ? "its samples"
                     : n->optimizer ? "its optimizer"
                                    : "its loss");
    for (unsigned i = 0; i < n->n_in && !n->opts.eval_only; i++)
      for (size_t k = 0; k < n->in[i].n; k++) {
        const sp_node *from = n->in[i].v[k].node;
        if (from->opts.eval_only)
          return sp_fail(err, SP_E_INVALID,
                         "stage '%s' reads '%s', which runs in evaluations only: set eval_only = true on it, too",
                         n->name, from->name);
      }
  }
  return SP_OK;
}

int sp_graph_analyse(sp_graph *g, sp_err *err) {
  int st = sp_graph_sort(g, err);
  if (!st) st = check_eval_only(g, err);
  if (st) return st;
  sp_graph_fix(g);
  mark_forward(g);
  for (size_t i = 0; i < g->n_nodes; i++) g->nodes[i]->flow.backward = g->nodes[i]->params.inplace = false;
  g->store.applied = false;
  return g->train.on ? mark_backward(g, err) : SP_OK;
}

bool sp_graph_in_trained_part(sp_graph *g, const sp_node *n) {
  sp_err ignored;                                 /* build() says it again */
  if (!g->planned) sp_graph_analyse(g, &ignored); /* stages may have come since train() */
  return n->flow.in_trained;
}
