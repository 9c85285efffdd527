/* SPDX-License-Identifier: MIT
 * train.c - what is trained, where gradients flow, and which lanes the strategy wants. */
#include "graph_impl.h"

#include <stdlib.h>
#include <string.h>

int sp_graph_train(sp_graph *g, const sp_train_opts *o, sp_err *err) {
  if (g->train) return sp_fail(err, SP_E_STATE, "train: the graph has run already");
  if (g->training) return sp_fail(err, SP_E_STATE, "train: called twice");
  if (!o->n_losses) return sp_fail(err, SP_E_INVALID, "train: no loss is given");
  if (!o->optimizer || !o->optimizer->optimizer)
    return sp_fail(err, SP_E_INVALID, "train: '%s' is not an optimizer; take g.sgd{} or g.adamw{}",
                   o->optimizer ? o->optimizer->name : "nil");
  if (o->optimizer->g != g)
    return sp_fail(err, SP_E_INVALID, "train: '%s' belongs to another graph", o->optimizer->name);
  if (o->accumulate < 0 || o->accumulate > 4096)
    return sp_fail(err, SP_E_RANGE, "train: accumulate %d is outside 1..4096", o->accumulate);
  for (size_t i = 0; i < o->n_losses; i++) {
    sp_ref r = o->losses[i];
    if (r.node->g != g) return sp_fail(err, SP_E_INVALID, "train: '%s' belongs to another graph", r.node->name);
    if (!r.node->loss || r.port != 0)
      return sp_fail(err, SP_E_INVALID,
                     "train: '%s.%s' is not a loss; take the first output of a stage such as cross_entropy",
                     r.node->name, sp_node_out_port(r.node, (unsigned)r.port)->name);
    for (size_t k = 0; k < i; k++)
      if (o->losses[k].node == r.node)
        return sp_fail(err, SP_E_INVALID, "train: loss '%s' is given twice", r.node->name);
  }
  if (!sp_grow(&g->losses.v, &g->losses.cap, o->n_losses, sizeof *g->losses.v)) return sp_nomem(err, 0, "losses");
  memcpy(g->losses.v, o->losses, o->n_losses * sizeof *o->losses);
  g->losses.n = o->n_losses;
  g->optimizer = o->optimizer;
  g->accumulate = o->accumulate ? o->accumulate : 1;
  g->lr = o->lr;
  g->lr_arg = o->lr_arg;
  g->training = true;
  g->planned = false;
  for (size_t i = 0; i < g->n_nodes; i++)
    if (!g->nodes[i]->planned && !g->nodes[i]->optimizer) return SP_OK; /* analysed when all is wired */
  int st = sp_graph_analyse(g, err);
  g->training = !st;
  return st;
}

static bool has_weight(const sp_node *n, uint32_t flag) {
  for (size_t i = 0; i < n->n_weights; i++)
    if (n->weights[i].flags & flag) return true;
  return false;
}

bool sp_node_changes(const sp_node *n) {
  return n->g->training && (n->trained || n->optimizer || (!n->frozen && !n->source && has_weight(n, SP_WEIGHT_STATE)));
}

static bool is_loss(const sp_graph *g, const sp_node *n) {
  for (size_t i = 0; i < g->losses.n; i++)
    if (g->losses.v[i].node == n) return true;
  return false;
}

/* Downstream of a change: what training changes must be seen in step order by all that depends on it. */
static void mark_forward(sp_graph *g) {
  for (size_t t = 0; t < g->n_nodes; t++) {
    sp_node *n = g->topo[t];
    n->trained = n->needs_grad = n->in_trained = false;
    if (n->source) continue;
    n->trained = g->training && !n->frozen && !n->optimizer && has_weight(n, SP_WEIGHT_TRAINED);
    n->needs_grad = n->trained;
    n->in_trained = n->optimizer || sp_node_changes(n);
    for (unsigned i = 0; i < n->n_in; i++)
      for (size_t k = 0; k < n->in[i].n; k++) {
        sp_ref r = n->in[i].v[k];
        if (r.node->needs_grad && sp_ref_grad(n, (int)i, r)) n->needs_grad = true;
        if (r.node->in_trained) n->in_trained = true;
      }
  }
}

static int mark_backward(sp_graph *g, sp_err *err) {
  bool *leads = sp_calloc(g->n_nodes + 1, sizeof *leads); /* a gradient arrives at it */
  int st = SP_OK;
  if (!leads) return sp_nomem(err, g->n_nodes, "the flow of gradients");
  for (size_t t = g->n_nodes; t-- > 0 && !st;) {
    sp_node *n = g->topo[t];
    bool loss = is_loss(g, n);
    n->backward = !loss && leads[n->index] && n->needs_grad;
    if (n->backward && !n->inst->type->backward)
      st = sp_fail(err, SP_E_UNSUPPORTED,
                   "stage '%s' passes no gradient, but what is before it is to be trained: set frozen = "
                   "true there",
                   n->name);
    if (!st && n->trained && !n->backward)
      st = sp_fail(err, SP_E_INVALID, "stage '%s' has weights to train but leads to no loss: set frozen = true on it",
                   n->name);
    if (loss && !n->needs_grad)
      st = sp_fail(err, SP_E_INVALID,
                   "nothing that loss '%s' depends on is trained: every stage with weights before it is frozen",
                   n->name);
    if (!loss && !n->backward) continue;
    for (unsigned i = 0; i < n->n_in; i++)
      for (size_t k = 0; k < n->in[i].n; k++)
        if (sp_ref_grad(n, (int)i, n->in[i].v[k])) leads[n->in[i].v[k].node->index] = true;
  }
  free(leads);
  return st;
}

int sp_graph_analyse(sp_graph *g, sp_err *err) {
  int st = sp_graph_sort(g, err);
  if (st) return st;
  mark_forward(g);
  for (size_t i = 0; i < g->n_nodes; i++) g->nodes[i]->backward = g->nodes[i]->inplace = false;
  return g->training ? mark_backward(g, err) : SP_OK;
}

bool sp_node_statistic(const sp_node *n, size_t i) {
  return sp_node_changes(n) && !n->optimizer && !n->frozen && n->weights[i].flags & SP_WEIGHT_STATE;
}

static int list_statistics(const sp_graph *g, sp_speclist *in, sp_err *err) {
  size_t n = 0;
  for (size_t i = 0; i < g->n_nodes; i++)
    for (size_t k = 0; k < g->nodes[i]->n_weights; k++) n += sp_node_statistic(g->nodes[i], k);
  if (n > SP_MAX_LIST)
    return sp_fail(err, SP_E_RANGE, "%zu statistics of trained stages: an optimizer takes at most %d", n, SP_MAX_LIST);
  free(in->spec);
  *in = (sp_speclist){.spec = sp_calloc(n + 1, sizeof(sp_spec)), .cap = (uint32_t)n};
  if (!in->spec) return sp_nomem(err, n * sizeof(sp_spec), "the optimizer's list");
  for (size_t i = 0; i < g->n_nodes; i++)
    for (size_t k = 0; k < g->nodes[i]->n_weights; k++)
      if (sp_node_statistic(g->nodes[i], k)) in->spec[in->n++] = g->nodes[i]->weights[k].spec;
  return SP_OK;
}

bool sp_graph_restores(const sp_graph *g) {
  const sp_attr *a = g->training && g->optimizer->n_in > 1 ? sp_node_attr(g->optimizer, "restores") : NULL;
  return a && a->value == 1;
}

/* The optimizer sees the gradients of all trained weights, in order of construction. Plain SGD on weights that are used once
 * and not summed over steps is left to the stages themselves, where those can do it while the gradient is at hand: it
 * saves a buffer as large as the weights, and a pass over it. The outcome of this choice depends on the graph alone. */
int sp_graph_plan_optimizer(sp_graph *g, sp_err *err) {
  sp_node *opt = g->optimizer;
  size_t n = 0;
  int st;
  const sp_attr *plain;
  for (size_t i = 0; i < g->n_nodes; i++)
    for (size_t k = 0; g->nodes[i]->trained && k < g->nodes[i]->n_weights; k++)
      n += g->nodes[i]->weights[k].flags & SP_WEIGHT_TRAINED ? 1 : 0;
  if (n > SP_MAX_LIST)
    return sp_fail(err, SP_E_RANGE, "%zu weights to train: an optimizer takes at most %d", n, SP_MAX_LIST);
  for (int pass = 0; pass < 2; pass++) {
    sp_speclist *in = &opt->in_specs[0];
    free(in->spec);
    *in = (sp_speclist){.spec = sp_calloc(n + 1, sizeof(sp_spec)), .cap = (uint32_t)n};
    if (!in->spec) return sp_nomem(err, n * sizeof(sp_spec), "the optimizer's list");
    for (size_t i = 0; i < g->n_nodes; i++)
      for (size_t k = 0; g->nodes[i]->trained && !g->nodes[i]->inplace && k < g->nodes[i]->n_weights; k++)
        if (g->nodes[i]->weights[k].flags & SP_WEIGHT_TRAINED) in->spec[in->n++] = g->nodes[i]->weights[k].spec;
    if (opt->n_in > 1 && (st = list_statistics(g, &opt->in_specs[1], err))) return st;
    if ((st = sp_node_replan(opt, true, err))) return st;
    plain = sp_node_attr(opt, "inplace");
    if (pass || !(opt->inst->type->flags & SP_STAGE_INPLACE_SGD) || !plain || plain->value != 1 || g->accumulate != 1)
      return SP_OK;
    for (size_t i = 0; i < g->n_nodes; i++)
      g->nodes[i]->inplace = g->nodes[i]->trained && g->nodes[i]->inst->type->flags & SP_STAGE_INPLACE_SGD;
  }
  return SP_OK;
}

/* ---- strategy ---- */
void sp_graph_drop_lanes(sp_graph *g) {
  for (size_t i = 0; i < g->n_lanes; i++) {
    free(g->lanes[i].name);
    free(g->lanes[i].nodes);
  }
  free(g->lanes);
  g->lanes = NULL;
  g->n_lanes = 0;
}

static int check_lane(const sp_graph *g, const sp_lane_desc *d, size_t i, const sp_lane_desc *all, sp_err *err) {
  if (!d->name || !*d->name) return sp_fail(err, SP_E_INVALID, "lane %zu has no name", i + 1);
  if (d->delay < 0 || d->delay > 64)
    return sp_fail(err, SP_E_RANGE, "lane '%s': delay %d is outside 0..64", d->name, d->delay);
  if (d->priority < -1 || d->priority > 1)
    return sp_fail(err, SP_E_RANGE, "lane '%s': priority %d is outside -1..1", d->name, d->priority);
  for (size_t k = 0; k < i; k++)
    if (!strcmp(all[k].name, d->name)) return sp_fail(err, SP_E_INVALID, "two lanes are named '%s'", d->name);
  for (size_t k = 0; k < d->n_nodes; k++) {
    if (d->nodes[k]->g != g)
      return sp_fail(err, SP_E_INVALID, "lane '%s': stage '%s' belongs to another graph", d->name, d->nodes[k]->name);
    for (size_t j = 0; j <= i; j++)
      for (size_t m = 0; m < (j == i ? k : all[j].n_nodes); m++)
        if (all[j].nodes[m] == d->nodes[k])
          return sp_fail(err, SP_E_INVALID,
                         "stage '%s' is in lane '%s' (delay %d) and in lane '%s' (delay %d): once only",
                         d->nodes[k]->name, all[j].name, all[j].delay, d->name, d->delay);
  }
  return SP_OK;
}

/* Weights that one trained stage updates at step s are read at step s + 1; two delays among trained stages would make the
 * gradients of one step meet weights of another. And wherever a run is evaluated, saved or stopped, all that training has
 * changed must be of one step, in every strategy. */
static int check_trained(const sp_lane_desc *lanes, size_t n, sp_err *err) {
  const sp_node *first = NULL;
  const sp_lane_desc *at = NULL;
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < lanes[i].n_nodes; k++) {
      const sp_node *node = lanes[i].nodes[k];
      if (!sp_node_changes(node)) continue;
      if (first && at->delay != lanes[i].delay)
        return sp_fail(err, SP_E_RACE,
                       "stages '%s' (lane '%s', delay %d) and '%s' (lane '%s', delay %d) have two delays, but training "
                       "changes both: they would be at two steps; give both one delay",
                       first->name, at->name, at->delay, node->name, lanes[i].name, lanes[i].delay);
      first = node;
      at = &lanes[i];
    }
  return SP_OK;
}

int sp_graph_strategy(sp_graph *g, const char *name, const sp_lane_desc *lanes, size_t n, sp_err *err) {
  int st;
  if (g->train) return sp_fail(err, SP_E_STATE, "strategy '%s': the graph has run already", name);
  if (n < 1 || n > 256) return sp_fail(err, SP_E_RANGE, "strategy '%s' has %zu lanes; 1..256 are possible", name, n);
  for (size_t i = 0; i < n; i++)
    if ((st = check_lane(g, &lanes[i], i, lanes, err))) return sp_prefix(err, "strategy '%s'", name);
  if (!g->planned && (st = sp_graph_analyse(g, err))) return st;
  if (check_trained(lanes, n, err)) return sp_prefix(err, "strategy '%s'", name);
  for (size_t i = 0; i < g->n_nodes; i++) {
    bool found = g->nodes[i]->source || g->nodes[i]->optimizer;
    for (size_t l = 0; l < n; l++)
      for (size_t k = 0; k < lanes[l].n_nodes; k++) found = found || lanes[l].nodes[k] == g->nodes[i];
    if (!found) return sp_fail(err, SP_E_INVALID, "strategy '%s': stage '%s' is in no lane", name, g->nodes[i]->name);
  }
  sp_graph_drop_lanes(g);
  g->default_lanes = false;
  free(g->strategy);
  g->strategy = sp_strdup(name);
  g->lanes = sp_calloc(n, sizeof *g->lanes);
  if (!g->strategy || !g->lanes) return sp_nomem(err, n * sizeof *g->lanes, "a strategy");
  g->n_lanes = n;
  for (size_t i = 0; i < n; i++) {
    sp_user_lane *u = &g->lanes[i];
    u->name = sp_strdup(lanes[i].name);
    u->delay = lanes[i].delay;
    u->priority = lanes[i].priority;
    u->nodes = sp_calloc(lanes[i].n_nodes + 1, sizeof *u->nodes);
    if (!u->name || !u->nodes) return sp_nomem(err, 64, "a lane");
    for (size_t k = 0; k < lanes[i].n_nodes; k++) u->nodes[u->n_nodes++] = lanes[i].nodes[k];
  }
  return SP_OK;
}
