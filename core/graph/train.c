/* SPDX-License-Identifier: MIT
 * train.c - what is trained, where gradients flow, and what the optimizer sees. */
#include "graph/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- shards ---- */
static int total_port(const sp_node *loss) {
  for (unsigned o = 0; o < loss->n_out; o++)
    if (sp_node_out_port(loss, o)->flags & SP_PORT_TOTAL) return (int)o;
  return -1;
}

/* Halves of halves are sums of the tree over the shards, thirds are not. */
static void tell_other_bits(int shards, const sp_rank_opts *r) {
  if (r->rank == 0 && r->ranks & (r->ranks - 1) && shards != r->ranks)
    sp_log(SP_LOG_WARN,
           "train: %d shards on %d ranks are added in another order than on 1, 2, 4, 8 ...: the last bits differ from "
           "theirs",
           shards, r->ranks);
}

static int check_shards(const sp_graph *g, const sp_train_opts *o, sp_err *err) {
  const sp_node *loss = o->losses[0].node;
  if (o->accumulate > 1)
    return sp_fail(err, SP_E_INVALID,
                   "train: %d shards and accumulate = %d: both are batches of an update; take one of them",
                   g->opts.shards, o->accumulate);
  if (o->n_losses > 1)
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "train: %d shards and %zu losses: each loss is a mean over its own number of labels; one loss is "
                   "possible",
                   g->opts.shards, o->n_losses);
  if (g->opts.shards % sp_ranks_opts(g->env->ranks)->ranks)
    return sp_fail(err, SP_E_INVALID,
                   "train: %d shards on %d ranks: each rank has as many, so take a multiple of the ranks as shards",
                   g->opts.shards, sp_ranks_opts(g->env->ranks)->ranks);
  tell_other_bits(g->opts.shards, sp_ranks_opts(g->env->ranks));
  if (total_port(loss) < 0)
    return sp_fail(err, SP_E_UNSUPPORTED, "train: %d shards, but loss '%s' has no TOTAL output by which they are added",
                   g->opts.shards, loss->name);
  return SP_OK;
}

/* The shards that this rank has of a step. */
static int own_shards(const sp_graph *g) { return g->opts.shards / sp_ranks_opts(g->env->ranks)->ranks; }

static bool put_flag(sp_value *params, const char *name, bool set) {
  sp_value *v = set ? sp_value_put(params, name) : NULL;
  if (v) *v = (sp_value){.type = SP_V_BOOL, .i = 1};
  return v || !set;
}

static int add_shard_stage(sp_graph *g, const char *stage, const char *name, bool keep, bool part, sp_node **out,
                           sp_err *err) {
  int n = own_shards(g);
  sp_value params = {.type = SP_V_TABLE}, *shards = sp_value_put(&params, "shards");
  if (shards) *shards = (sp_value){.type = SP_V_INT, .i = n, .d = n};
  bool there = shards && put_flag(&params, "keep", keep) && put_flag(&params, "part", part) &&
               put_flag(&params, "bf16", g->opts.wire_bf16 && !strcmp(name, "shard_sum"));
  int st = there ? sp_graph_add_own(g, stage, &params, &(sp_node_opts){.name = name}, out, err)
                 : sp_nomem(err, 64, "parameters");
  sp_value_free(&params);
  return st;
}

/* What keeps statistics before a shard's pass, counts behind its loss, and adds up behind gradients. The first of them brings
 * the file with all. */
static int add_shards(sp_graph *g, const sp_train_opts *o, sp_err *err) {
  sp_node *loss = o->losses[0].node;
  bool part = own_shards(g) < g->opts.shards;
  int st = check_shards(g, o, err);
  if (st || (st = add_shard_stage(g, "shard_sum", "shard_keep", true, part, &g->shards.keep, err)) ||
      (st = add_shard_stage(g, "shard_sum", "shard_sum", false, part, &g->shards.sum, err)) ||
      (st = add_shard_stage(g, "shard_count", "shard_count", false, false, &g->shards.count, err)))
    return st;
  st = sp_graph_wire(g, g->shards.count, 0, (sp_ref){loss, total_port(loss), 0}, err);
  if (!st) st = sp_graph_add_own(g, "shard_scale", NULL, &(sp_node_opts){.name = "shard_scale"}, &g->shards.scale, err);
  if (!st && part && g->opts.wire_bf16)
    st = sp_graph_add_own(g, "shard_wire", NULL, &(sp_node_opts){.name = "shard_wire"}, &g->shards.wire, err);
  g->store.half = g->shards.wire;
  if (!st && part)
    st = sp_graph_add_own(g, "shard_tree", NULL, &(sp_node_opts){.name = "shard_tree"}, &g->shards.tree, err);
  if (!st) g->train.accumulate = g->train.micro = own_shards(g);
  g->shards.on = !st;
  return st;
}

static void set_training(sp_graph *g, bool on) {
  g->train.on = on;
  g->store.optimizer = on ? &g->train.optimizer->params : NULL;
}

int sp_graph_train(sp_graph *g, const sp_train_opts *o, sp_err *err) {
  int st;
  if (g->n_programs) return sp_fail(err, SP_E_STATE, "train: the graph has run already");
  if (g->train.on) return sp_fail(err, SP_E_STATE, "train: called twice");
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
  if (!sp_grow(&g->train.losses.v, &g->train.losses.cap, o->n_losses, sizeof *g->train.losses.v))
    return sp_nomem(err, 0, "losses");
  memcpy(g->train.losses.v, o->losses, o->n_losses * sizeof *o->losses);
  g->train.losses.n = o->n_losses;
  g->train.optimizer = o->optimizer;
  g->train.accumulate = o->accumulate ? o->accumulate : 1;
  g->opts.optimizer_shards |= o->optimizer_shards;
  if (sp_ranks_opts(g->env->ranks)->ranks > 1 || g->opts.shards > 1)
    if ((st = add_shards(g, o, err))) return st;
  g->train.lr = o->lr;
  g->train.lr_arg = o->lr_arg;
  set_training(g, true);
  g->planned = false;
  for (size_t i = 0; i < g->n_nodes; i++)
    if (!g->nodes[i]->planned && !sp_node_apart(g->nodes[i])) return SP_OK; /* analysed when all is wired */
  st = sp_graph_analyse(g, err);
  set_training(g, !st);
  return st;
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

/* Downstream of a change: what training changes must be seen in step order by all that depends on it. */
static void mark_forward(sp_graph *g) {
  for (size_t t = 0; t < g->n_nodes; t++) {
    sp_node *n = g->topo[t];
    n->params.trained = n->flow.needs_grad = n->flow.in_trained = false;
    if (n->source) continue;
    n->params.trained =
        g->train.on && !n->frozen && !sp_node_apart(n) && sp_weights_have(&n->params, SP_WEIGHT_TRAINED);
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
                   "stage '%s' passes no gradient, but what is before it is to be trained: set frozen = "
                   "true there",
                   n->name);
    if (!st && n->params.trained && !n->flow.backward)
      st = sp_fail(err, SP_E_INVALID, "stage '%s' has weights to train but leads to no loss: set frozen = true on it",
                   n->name);
    if (loss && !n->flow.needs_grad)
      st = sp_fail(err, SP_E_INVALID,
                   "nothing that loss '%s' depends on is trained: every stage with weights before it is frozen",
                   n->name);
    if (!loss && !n->flow.backward) continue;
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
  for (size_t i = 0; i < g->n_nodes; i++) g->nodes[i]->flow.backward = g->nodes[i]->params.inplace = false;
  g->store.applied = false;
  return g->train.on ? mark_backward(g, err) : SP_OK;
}

/* ---- what the optimizer sees ---- */
/* The specs of some weights, as an input of the optimizer. */
static int list_weights(const sp_store *store, bool (*next)(const sp_store *, sp_weight_ref *), const char *what,
                        sp_speclist *in, sp_err *err) {
  size_t n = 0;
  for (sp_weight_ref at = {0}; next(store, &at);) n++;
  if (n > SP_MAX_LIST) return sp_fail(err, SP_E_RANGE, "%zu %s: an optimizer takes at most %d", n, what, SP_MAX_LIST);
  free(in->spec);
  *in = (sp_speclist){.spec = sp_calloc(n + 1, sizeof(sp_spec)), .cap = (uint32_t)n};
  if (!in->spec) return sp_nomem(err, n * sizeof(sp_spec), "the optimizer's list");
  for (sp_weight_ref at = {0}; next(store, &at);) in->spec[in->n++] = at.of->weights[at.i].spec;
  return SP_OK;
}

static bool keeps_of_weights(const sp_node *opt) {
  for (size_t i = 0; i < opt->params.n_weights; i++)
    if (opt->params.weights[i].of) return true;
  return false;
}

/* Where ranks are to share what it keeps. */
static int slice_optimizer(sp_graph *g, sp_err *err) {
  const sp_node *opt = g->train.optimizer;
  const sp_rank_opts *o = sp_ranks_opts(g->env->ranks);
  g->store.sliced = false;
  if (!g->opts.optimizer_shards || o->ranks == 1) return SP_OK;
  if (!opt->params.update.slice && opt->params.n_weights)
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "train: optimizer_shards: optimizer '%s' takes whole gradients only; leave --optimizer-shards away",
                   opt->name);
  g->store.sliced = keeps_of_weights(opt);
  if (!g->store.sliced && !o->rank)
    sp_log(SP_LOG_WARN, "optimizer_shards: '%s' keeps nothing of a weight that ranks could share", opt->name);
  return SP_OK;
}

/* The optimizer sees the gradients of all trained weights, in order of construction. Plain SGD on weights that are used once
 * and not summed over steps is left to the stages themselves, where those can do it while the gradient is at hand: it
 * saves a buffer as large as the weights, and a pass over it. Where steps have shards, those are weights of apply(). The outcome of this choice depends on the graph alone. */
int sp_graph_plan_optimizer(sp_graph *g, sp_err *err) {
  sp_node *opt = g->train.optimizer;
  int st;
  for (int pass = 0; pass < 2; pass++) {
    if ((st = list_weights(&g->store, sp_store_next_trained, "weights to train", &opt->in_specs[0], err))) return st;
    if (opt->n_in > 1 &&
        (st = list_weights(&g->store, sp_store_next_statistic, "statistics of trained stages", &opt->in_specs[1], err)))
      return st;
    if ((st = sp_node_replan(opt, true, err))) return st;
    if (pass || !opt->params.update.plain_sgd || (g->train.accumulate != 1 && !g->shards.on))
      return slice_optimizer(g, err);
    g->store.applied = g->shards.on && sp_store_has_factors(&g->store);
    for (size_t i = 0; i < g->n_nodes; i++)
      g->nodes[i]->params.inplace =
          !g->shards.on && g->nodes[i]->params.trained && g->nodes[i]->inst->type->flags & SP_STAGE_INPLACE_SGD;
  }
  return SP_OK;
}

int sp_graph_plan_shards(sp_graph *g, sp_err *err) {
  sp_node *both[] = {g->shards.keep, g->shards.sum};
  int st = SP_OK;
  for (size_t i = 0; g->shards.sum && i < SP_ARRAY(both) && !st; i++) {
    if (i) st = list_weights(&g->store, sp_store_next_summed, "weights to train", &both[i]->in_specs[0], err);
    if (!st)
      st = list_weights(&g->store, sp_store_next_statistic, "statistics of trained stages", &both[i]->in_specs[1], err);
    if (!st) st = sp_node_replan(both[i], true, err);
  }
  if (!st && g->shards.count) st = sp_node_take_inputs(g->shards.count, err);
  if (!st && g->shards.count) st = sp_node_replan(g->shards.count, true, err);
  if (!st && g->shards.scale) st = sp_node_replan(g->shards.scale, true, err);
  if (!st && g->shards.wire) st = sp_node_replan(g->shards.wire, true, err);
  return st || !g->shards.tree ? st : sp_node_replan(g->shards.tree, true, err);
}

/* ---- what ranks add together ---- */
/* Before anybody waits for another in a communicator: which options make what they would do there differ. */
static int same_options(const sp_graph *g, sp_err *err) {
  const sp_graph_opts *o = &g->opts;
  char shards[16], parts[16], bucket[32];
  snprintf(shards, sizeof shards, "%d", o->shards);
  snprintf(parts, sizeof parts, "%d", o->parts);
  snprintf(bucket, sizeof bucket, "%g MB", o->bucket == 1 ? 0 : (double)o->bucket / (1 << 20)); /* 1: each alone */
  const sp_rank_text texts[] = {
      {"the shards of a step (--shards)", shards},
      {"the communicator (--comm)", sp_store_comm_name(&g->store)},
      {"the type that gradients are sent as (--wire)", o->wire_bf16 ? "bf16" : "fp32"},
      {"the size of buckets (--bucket)", bucket},
      {"the parts of a backward (--parts)", parts},
      {"the use of factors (--no-factors)", o->no_factors ? "false" : "true"},
      {"what they share of the optimizer (--optimizer-shards)", o->optimizer_shards ? "true" : "false"}};
  return sp_ranks_same(g->env->ranks, texts, SP_ARRAY(texts), err);
}

/* The optimizer as it is planned for this rank's slices has the weights that it has for the whole. */
static int check_planned(const sp_node *opt, const sp_plan *p, sp_err *err) {
  bool same = p->n_weights == opt->params.n_weights;
  for (size_t i = 0; same && i < opt->params.n_weights; i++) {
    const sp_weight *a = &opt->params.weights[i], *b = &p->weights[i];
    same = !strcmp(a->name, b->name) && a->of == b->of && (a->of || sp_spec_equal(&a->spec, &b->spec));
  }
  return same ? SP_OK : sp_fail(err, SP_E_INTERNAL, "optimizer '%s' has other weights for slices", opt->name);
}

/* Whenever it was planned for the whole: it may have been since the last time. */
static int plan_slices(sp_graph *g, sp_err *err) {
  sp_node *opt = g->train.optimizer;
  sp_plan p = {.training = 1, .slices = 1};
  size_t k = 0;
  for (sp_weight_ref r = {0}; sp_store_next_trained(&g->store, &r); k++)
    opt->in_specs[0].spec[k] = sp_store_slice_tensor(&g->store, k, &r.of->w[r.i]).spec;
  int status = sp_node_ask_plan(opt, &p, err);
  if (!status) status = check_planned(opt, &p, err);
  if (!status) opt->scratch = p.scratch_bytes;
  return status;
}

int sp_graph_reduce(sp_graph *g, sp_err *err) {
  sp_store *store = &g->store;
  bool several = g->train.on && sp_ranks_opts(g->env->ranks)->ranks > 1, fresh = !store->reduce;
  int status = several && fresh ? same_options(g, err) : SP_OK;
  if (!status) status = sp_store_reduce(store, err);
  if (status || !several || !store->sliced) return status;
  status = plan_slices(g, err);
  if (status && fresh) store->reduce->failure = *err;
  return status;
}
