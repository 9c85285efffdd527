/* SPDX-License-Identifier: MIT
 * optimizer.c - the plans of the optimizer and of the stages that add shards: what they see are the trained weights, on
 * this rank and on all. */
#include "graph/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The optimizer sees the gradients of all trained weights, in order of construction. Plain SGD on weights that are used
 * once and not summed over steps is left to the stages themselves, where those can do it while the gradient is at hand:
 * it saves a buffer as large as the weights, and a pass over it. Where steps have shards, those are weights of apply().
 * The outcome of this choice depends on the graph alone. */
int sp_graph_plan_optimizer(sp_graph *g, sp_err *err) {
  sp_node *opt = g->train.optimizer;
  int st = sp_graph_check_groups(g, err);
  if (st) return st;
  for (int pass = 0; pass < 2; pass++) {
    if ((st = list_weights(&g->store, sp_store_next_trained, "weights to train", &opt->in_specs[0], err))) return st;
    if (opt->n_in > 1 &&
        (st = list_weights(&g->store, sp_store_next_statistic, "statistics of trained stages", &opt->in_specs[1], err)))
      return st;
    if ((st = sp_graph_group(g, err)) || (st = sp_node_replan(opt, true, err))) return st;
    if (g->train.groups.n && !opt->params.update.grouped)
      return sp_fail(err, SP_E_UNSUPPORTED,
                     "groups: optimizer '%s' has one learning rate and one decay for all weights", opt->name);
    sp_graph_tell_groups(g);
    if (pass || !opt->params.update.plain_sgd || (g->train.accumulate != 1 && !g->shards.on))
      return slice_optimizer(g, err);
    g->store.applied = g->shards.on && sp_store_has_factors(&g->store);
    for (size_t i = 0; i < g->n_nodes; i++)
      g->nodes[i]->params.inplace = !g->shards.on && g->nodes[i]->params.trained &&
                                    !sp_weights_any_fixed(&g->nodes[i]->params) &&
                                    g->nodes[i]->inst->type->flags & SP_STAGE_INPLACE_SGD;
  }
  return SP_OK;
}

int sp_graph_plan_shards(sp_graph *g, sp_err *err) {
  sp_node *both[] = {g->shards.keep, g->shards.sum};
  int st = SP_OK;
  for (size_t i = 0; i < SP_ARRAY(both) && !st; i++) {
    if (!both[i]) continue;
    if (i) st = list_weights(&g->store, sp_store_next_summed, "weights to train", &both[i]->in_specs[0], err);
    if (!st && g->shards.on)
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
