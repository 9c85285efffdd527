/* SPDX-License-Identifier: MIT
 * complete.c - the whole graph is planned: all stages again, producers first, then what training,
 * shards and caches add. */
#include "graph/model.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cure.h"
#include "source/sampler.h"

static int find_source(sp_graph *g, sp_err *err) {
  g->train.source = NULL;
  for (size_t i = 0; i < g->n_nodes; i++) {
    sp_node *n = g->nodes[i];
    for (unsigned p = 0; p < n->n_in; p++)
      for (size_t k = 0; k < n->in[p].n; k++) {
        sp_node *s = n->in[p].v[k].node;
        if (!s->source || s == g->train.source) continue;
        if (g->train.source)
          return sp_fail(err, SP_E_UNSUPPORTED, "'%s' and '%s' both feed the graph; one source is possible",
                         g->train.source->name, s->name);
        g->train.source = s;
      }
  }
  for (size_t i = 0; i < g->n_nodes && !g->train.source; i++) /* a source alone, nothing after it */
    if (g->nodes[i]->source) g->train.source = g->nodes[i];
  return SP_OK;
}

/* Options of draws, where nothing is drawn; without replacement there are as many as samples that can be drawn. */
static int check_draw_options(const sp_node *s, sp_err *err) {
  uint64_t most = s->draw ? sp_sampler_drawable(s->draw, s->length) : 0;
  int st = SP_OK;
  if (!s->draw && (s->opts.draws || s->opts.no_replacement))
    st = sp_fail(err, SP_E_INVALID, "stage '%s': %s goes with samples that are drawn: give sampling, or leave it out",
                 s->name, s->opts.draws ? "draws" : "replacement");
  else if (s->draw && s->opts.no_replacement && s->opts.draws > most)
    st = sp_fail(err, SP_E_RANGE,
                 "stage '%s': draws = %" PRIu64 " without replacement, but only %" PRIu64 " of %" PRIu64
                 " samples have a weight above 0: take `draws = %" PRIu64 "` or less, or draw with replacement",
                 s->name, s->opts.draws, most, s->length, most);
  if (st) sp_cure_words(err->msg, sizeof err->msg, s->inst->type->name);
  return st;
}

/* What is drawn comes in no order; an evaluation draws nothing. */
static int check_draws(const sp_graph *g, sp_err *err) {
  const sp_node *s = g->train.source;
  int st = s ? check_draw_options(s, err) : SP_OK;
  if (st || !s || !s->draw || !s->opts.no_shuffle) return st;
  return sp_fail(
      err, SP_E_INVALID,
      "stage '%s': shuffle = false, and samples that are drawn (sampling) have no order: leave one of the two out",
      s->name);
}

/* One lane, of all stages that are there now. */
static int default_strategy(sp_graph *g, sp_err *err) {
  sp_node **all = sp_calloc(g->n_nodes + 1, sizeof *all);
  sp_lane_desc lane = {.props = {.name = "main"}, .nodes = all};
  int st;
  if (!all) return sp_nomem(err, 64, "a strategy");
  for (size_t i = 0; i < g->n_nodes; i++)
    if (!g->nodes[i]->source) all[lane.n_nodes++] = g->nodes[i];
  st = sp_graph_strategy(g, "serialized", &lane, 1, err);
  free(all);
  g->default_lanes = !st;
  return st;
}

/* In no phase of the training. */
static void tell_recompute(sp_graph *g) {
  for (size_t i = 0; i < g->n_nodes; i++) {
    sp_node *n = g->nodes[i];
    bool last = g->train.groups.phase + 1 == sp_graph_phases(g);
    if (!n->opts.recompute || n->told || !g->train.on || !last || (n->flow.backward && n->saved)) continue;
    n->told = true;
    sp_log(SP_LOG_WARN, "stage '%s': recompute changes nothing: %s", n->name,
           n->flow.backward ? "its backward needs nothing of its forward" : "no gradient passes through it");
  }
}

/* Wires may have come after a stage was planned: all stages again, producers first,
 * then once more as training needs them. */
int sp_graph_plan_stages(sp_graph *g, sp_err *err) {
  int st;
  if (g->planned) return SP_OK;
  if (!g->n_nodes) return sp_fail(err, SP_E_INVALID, "the graph is empty");
  if ((st = sp_graph_sort(g, err))) return st;
  for (size_t i = 0; i < g->n_nodes; i++)
    if ((st = sp_graph_plan(g, g->topo[i], err))) return st;
  if ((st = find_source(g, err)) || (st = check_draws(g, err)) || (st = sp_graph_analyse(g, err))) return st;
  for (size_t i = 0; i < g->n_nodes; i++) {
    sp_node *n = g->topo[i];
    if (sp_node_apart(n) || !(n->flow.backward || n->flow.needs_grad)) continue;
    if ((st = sp_node_take_inputs(n, err)) || (st = sp_node_replan(n, true, err))) return st;
  }
  if (g->train.on && ((st = sp_graph_plan_optimizer(g, err)) || (st = sp_graph_plan_shards(g, err)))) return st;
  if ((st = sp_graph_plan_caches(g, err))) return st;
  tell_recompute(g);
  g->planned = true;
  return SP_OK;
}

int sp_graph_complete(sp_graph *g, sp_err *err) {
  int st = sp_graph_plan_stages(g, err);
  return st || (g->strategy && g->strategy->n && !g->default_lanes) ? st : default_strategy(g, err);
}
