/* SPDX-License-Identifier: MIT
 * train.c - g:train{}: what it is given is checked, and the stages that add shards, or steps of an update, join the
 * graph. */
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

static bool put_flag(sp_value *params, const char *name) {
  sp_value *v = sp_value_put(params, name);
  if (v) *v = (sp_value){.type = SP_V_BOOL, .i = 1};
  return v;
}

/* flags: those of its parameters that are true. */
static int add_shard_stage(sp_graph *g, const char *stage, const char *name, int passes, const char *const *flags,
                           sp_node **out, sp_err *err) {
  sp_value params = {.type = SP_V_TABLE}, *shards = sp_value_put(&params, "shards");
  if (shards) *shards = (sp_value){.type = SP_V_INT, .i = passes, .d = passes};
  bool there = shards;
  for (; there && flags && *flags; flags++) there = put_flag(&params, *flags);
  int st = there ? sp_graph_add_own(g, stage, &params, &(sp_node_opts){.name = name}, out, err)
                 : sp_nomem(err, 64, "parameters");
  sp_value_free(&params);
  return st;
}

/* Behind the loss, in each pass. */
static int add_count(sp_graph *g, sp_node *loss, int passes, sp_err *err) {
  int st = add_shard_stage(g, "shard_count", "shard_count", passes, NULL, &g->shards.count, err);
  return st ? st : sp_graph_wire(g, g->shards.count, 0, (sp_ref){loss, total_port(loss), 0}, err);
}

/* What keeps statistics before a shard's pass, counts behind its loss, and adds up behind gradients. The first of them
 * brings the file with all. */
static int add_shards(sp_graph *g, const sp_train_opts *o, sp_err *err) {
  int own = own_shards(g);
  bool part = own < g->opts.shards, bf16 = g->opts.wire_bf16;
  const char *const keep[] = {"keep", part ? "part" : NULL, NULL};
  const char *const sum[] = {part ? "part" : "bf16", part && bf16 ? "bf16" : NULL, NULL};
  int st = check_shards(g, o, err);
  if (st || (st = add_shard_stage(g, "shard_sum", "shard_keep", own, keep, &g->shards.keep, err)) ||
      (st = add_shard_stage(g, "shard_sum", "shard_sum", own, part || bf16 ? sum : NULL, &g->shards.sum, err)))
    return st;
  st = add_count(g, o->losses[0].node, own, err);
  if (!st) st = sp_graph_add_own(g, "shard_scale", NULL, &(sp_node_opts){.name = "shard_scale"}, &g->shards.scale, err);
  if (!st && part && g->opts.wire_bf16)
    st = sp_graph_add_own(g, "shard_wire", NULL, &(sp_node_opts){.name = "shard_wire"}, &g->shards.wire, err);
  g->store.half = g->shards.wire;
  if (!st && part)
    st = sp_graph_add_own(g, "shard_tree", NULL, &(sp_node_opts){.name = "shard_tree"}, &g->shards.tree, err);
  if (!st) g->train.accumulate = g->train.micro = own;
  g->shards.on = g->train.totals = !st;
  return st;
}

/* ---- several steps an update ---- */
static void tell_samples(const sp_train_opts *o) {
  char why[160];
  if (o->n_losses > 1) snprintf(why, sizeof why, "there are %zu losses", o->n_losses);
  else snprintf(why, sizeof why, "loss '%s' has no TOTAL output", o->losses[0].node->name);
  sp_log(SP_LOG_WARN,
         "train: accumulate = %d: %s, so batches count by their samples and not by their labels; where labels are left "
         "out, take accumulate = 1 and a larger batch",
         o->accumulate, why);
}

/* Batches of an update are added as shards of a step are: what the loss is a mean over counts, not the batch. Gradients
 * are added where they lie, and divided behind the last batch. One division is right for one loss alone; with more, or
 * with one that does not say what its mean is over, batches count by their samples. */
static int add_accumulated(sp_graph *g, const sp_train_opts *o, sp_err *err) {
  static const char *const summed[] = {"summed", NULL};
  sp_node *loss = o->losses[0].node;
  if (o->n_losses > 1 || total_port(loss) < 0) {
    tell_samples(o);
    return SP_OK;
  }
  int st = add_shard_stage(g, "shard_sum", "shard_sum", o->accumulate, summed, &g->shards.sum, err);
  if (!st) st = add_count(g, loss, o->accumulate, err);
  g->train.totals = !st;
  return st;
}

static void set_training(sp_graph *g, bool on) {
  g->train.on = on;
  g->store.optimizer = on ? &g->train.optimizer->params : NULL;
}

void sp_graph_set_phase(sp_graph *g, uint32_t phase) {
  g->train.groups.phase = phase;
  g->planned = false;
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
  sp_groups_free(&g->train.groups);
  if (sp_groups_take(&g->train.groups, o->groups, err)) return err->status;
  g->train.optimizer = o->optimizer;
  g->train.accumulate = o->accumulate ? o->accumulate : 1;
  g->opts.optimizer_shards |= o->optimizer_shards;
  st = sp_ranks_opts(g->env->ranks)->ranks > 1 || g->opts.shards > 1 ? add_shards(g, o, err)
       : g->train.accumulate > 1                                     ? add_accumulated(g, o, err)
                                                                     : SP_OK;
  if (st) return st;
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
