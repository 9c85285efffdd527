/* SPDX-License-Identifier: MIT
 * strategy.c - which lanes the stages of a graph go to: checked, and copied from what a script says. */
#include "graph/model.h"

#include <stdlib.h>
#include <string.h>

#include "graph/option.h"

void sp_strategy_free(sp_strategy *s) {
  if (!s) return;
  for (size_t i = 0; i < s->n; i++) {
    free((char *)s->lanes[i].props.name);
    free((sp_node **)s->lanes[i].nodes);
    free((uint8_t *)s->lanes[i].parts);
  }
  free(s->lanes);
  free(s->name);
  free(s);
}

static unsigned parts_of(const sp_lane_desc *d, size_t k) { return d->parts ? d->parts[k] : SP_PART_ALL; }

/* Whether an earlier entry has the node's parts already. */
static int check_once(const sp_lane_desc *all, size_t i, size_t k, sp_err *err) {
  const sp_lane_desc *d = &all[i];
  for (size_t j = 0; j <= i; j++)
    for (size_t m = 0; m < (j == i ? k : all[j].n_nodes); m++)
      if (all[j].nodes[m] == d->nodes[k] && parts_of(&all[j], m) & parts_of(d, k))
        return sp_fail(err, SP_E_INVALID,
                       "stage '%s' is in lane '%s' (delay %d) and in lane '%s' (delay %d): once only",
                       d->nodes[k]->name, all[j].props.name, all[j].props.delay, d->props.name, d->props.delay);
  return SP_OK;
}

static int check_lane(const sp_graph *g, const sp_lane_desc *d, size_t i, const sp_lane_desc *all, sp_err *err) {
  const sp_lane_props *p = &d->props;
  if (!p->name || !*p->name) return sp_fail(err, SP_E_INVALID, "lane %zu has no name", i + 1);
  if (sp_option_check(sp_lane_rows, p, err)) return sp_prefix(err, "lane '%s'", p->name);
  if (p->replicas > 1 && g->train.on)
    return sp_fail(
        err, SP_E_INVALID,
        "lane '%s': %d replicas in a graph that is trained: a step needs the weights of the one before; take "
        "replicas without g:train{}",
        p->name, p->replicas);
  for (size_t k = 0; k < i; k++)
    if (!strcmp(all[k].props.name, p->name)) return sp_fail(err, SP_E_INVALID, "two lanes are named '%s'", p->name);
  for (size_t k = 0; k < d->n_nodes; k++) {
    int st;
    if (d->nodes[k]->g != g)
      return sp_fail(err, SP_E_INVALID, "lane '%s': stage '%s' belongs to another graph", p->name, d->nodes[k]->name);
    if (!(parts_of(d, k) & SP_PART_ALL) || parts_of(d, k) & ~SP_PART_ALL)
      return sp_fail(err, SP_E_INVALID, "lane '%s': parts of stage '%s' that are none", p->name, d->nodes[k]->name);
    if ((st = check_once(all, i, k, err))) return st;
  }
  return SP_OK;
}

/* Weights that one trained stage updates at step s are read at step s + 1; two delays among trained stages would make
 * the gradients of one step meet weights of another. And wherever a run is evaluated, saved or stopped, all that
 * training has changed must be of one step, in every strategy. */
static int check_trained(const sp_lane_desc *lanes, size_t n, sp_err *err) {
  const sp_node *first = NULL;
  const sp_lane_props *at = NULL;
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < lanes[i].n_nodes; k++) {
      const sp_node *node = lanes[i].nodes[k];
      if (!sp_node_changes(node) || parts_of(&lanes[i], k) == SP_PART_COPY) continue;
      if (first && at->delay != lanes[i].props.delay)
        return sp_fail(err, SP_E_RACE,
                       "stages '%s' (lane '%s', delay %d) and '%s' (lane '%s', delay %d) have two delays, but training "
                       "changes both: they would be at two steps; give both one delay",
                       first->name, at->name, at->delay, node->name, lanes[i].props.name, lanes[i].props.delay);
      first = node;
      at = &lanes[i].props;
    }
  return SP_OK;
}

static bool is_listed(const sp_lane_desc *lanes, size_t n, const sp_node *node) {
  for (size_t l = 0; l < n; l++)
    for (size_t k = 0; k < lanes[l].n_nodes; k++)
      if (lanes[l].nodes[k] == node && parts_of(&lanes[l], k) & SP_PART_FORWARD) return true;
  return false;
}

static int copy_lane_desc(sp_lane_desc *to, const sp_lane_desc *from, sp_err *err) {
  sp_node **nodes = sp_calloc(from->n_nodes + 1, sizeof *nodes);
  uint8_t *parts = sp_calloc(from->n_nodes + 1, sizeof *parts);
  *to = (sp_lane_desc){.props = from->props, .nodes = nodes, .n_nodes = from->n_nodes, .parts = parts};
  to->props.name = sp_strdup(from->props.name);
  if (!nodes || !parts || !to->props.name) return sp_nomem(err, from->n_nodes * sizeof *nodes, "a lane");
  for (size_t k = 0; k < from->n_nodes; k++) {
    nodes[k] = from->nodes[k];
    parts[k] = (uint8_t)parts_of(from, k);
  }
  return SP_OK;
}

static int check_strategy(sp_graph *g, const char *name, const sp_lane_desc *lanes, size_t n, sp_err *err) {
  int status;
  if (n > 256) return sp_fail(err, SP_E_RANGE, "strategy '%s' has %zu lanes; at most 256 are possible", name, n);
  for (size_t i = 0; i < n; i++)
    if ((status = check_lane(g, &lanes[i], i, lanes, err))) return sp_prefix(err, "strategy '%s'", name);
  if (!g->planned && (status = sp_graph_analyse(g, err))) return status;
  if (check_trained(lanes, n, err)) return sp_prefix(err, "strategy '%s'", name);
  for (size_t i = 0; i < g->n_nodes; i++)
    if (!g->nodes[i]->source && !sp_node_apart(g->nodes[i]) && !is_listed(lanes, n, g->nodes[i]))
      return sp_fail(err, SP_E_INVALID, "strategy '%s': stage '%s' is in no lane", name, g->nodes[i]->name);
  return SP_OK;
}

int sp_strategy_new(sp_strategy **out, sp_graph *g, const char *name, const sp_lane_desc *lanes, size_t n,
                    sp_err *err) {
  *out = NULL;
  int status = check_strategy(g, name, lanes, n, err);
  if (status) return status;
  sp_strategy *s = sp_calloc(1, sizeof *s);
  if (!s) return sp_nomem(err, sizeof *s, "a strategy");
  s->name = sp_strdup(name);
  s->lanes = sp_calloc(n + 1, sizeof *s->lanes); /* a graph that only reads has no lanes */
  status = s->name && s->lanes ? SP_OK : sp_nomem(err, n * sizeof *s->lanes, "a strategy");
  while (!status && s->n < n) {
    status = copy_lane_desc(&s->lanes[s->n], &lanes[s->n], err);
    s->n++;
  }
  if (status) sp_strategy_free(s);
  else *out = s;
  return status;
}

int sp_graph_strategy(sp_graph *g, const char *name, const sp_lane_desc *lanes, size_t n, sp_err *err) {
  sp_strategy *s;
  if (g->n_programs) return sp_fail(err, SP_E_STATE, "strategy '%s': the graph has run already", name);
  int status = sp_strategy_new(&s, g, name, lanes, n, err);
  if (status) return status;
  sp_strategy_free(g->strategy);
  g->strategy = s;
  g->default_lanes = false;
  return SP_OK;
}
