/* SPDX-License-Identifier: MIT
 * lanes.c - which lanes a program has, and how many steps each is behind the newest batch. */
#include "program.h"

#include <stdio.h>
#include <stdlib.h>

static int add_lane(sp_program *p, const char *name, int delay, int priority, bool host, sp_err *err) {
  sp_lane *l = &p->lanes[p->n_lanes];
  *l = (sp_lane){.delay = delay,
                 .priority = priority,
                 .host = host,
                 .place = host ? NULL : &p->g->main,
                 .block = -1,
                 .block_pinned = -1,
                 .name = sp_strdup(name)};
  if (!l->name) return sp_nomem(err, 64, "a lane");
  p->n_lanes++;
  return SP_OK;
}

static bool has_cpu(const sp_user_lane *l) {
  for (size_t i = 0; i < l->n_nodes; i++)
    if (l->nodes[i]->on_cpu) return true;
  return false;
}

/* Stages of lane l that are on the cpu go to a lane of their own there, with the same delay. */
static int split_lane(sp_program *p, size_t l, sp_err *err) {
  const sp_user_lane *u = &p->g->lanes[l];
  char name[128];
  int st;
  if (!has_cpu(u)) return SP_OK;
  snprintf(name, sizeof name, "%.100s (cpu)", u->name);
  if ((st = add_lane(p, name, p->lanes[l].delay, u->priority, false, err))) return st;
  p->lanes[p->n_lanes - 1].place = &p->g->cpu;
  for (size_t k = 0; k < u->n_nodes; k++)
    if (u->nodes[k]->on_cpu) u->nodes[k]->user_lane = (int)p->n_lanes - 1;
  return SP_OK;
}

static int evaluation_lanes(sp_program *p, sp_err *err) {
  sp_graph *g = p->g;
  bool cpu = false;
  int st = add_lane(p, "evaluate", g->opts.prefetch, 0, false, err);
  for (size_t i = 0; i < g->n_nodes; i++) {
    g->nodes[i]->user_lane = g->nodes[i]->on_cpu && !g->nodes[i]->source ? 1 : 0;
    cpu = cpu || g->nodes[i]->user_lane;
  }
  if (st || !cpu) return st;
  if ((st = add_lane(p, "evaluate (cpu)", g->opts.prefetch, 0, false, err))) return st;
  p->lanes[1].place = &g->cpu;
  return SP_OK;
}

static int strategy_lanes(sp_program *p, int *update, sp_err *err) {
  sp_graph *g = p->g;
  int st = SP_OK;
  for (size_t l = 0; l < g->n_lanes && !st; l++) {
    st = add_lane(p, g->lanes[l].name, g->lanes[l].delay + g->opts.prefetch, g->lanes[l].priority, false, err);
    for (size_t k = 0; k < g->lanes[l].n_nodes; k++) {
      g->lanes[l].nodes[k]->user_lane = (int)l;
      if (g->lanes[l].nodes[k]->trained) *update = (int)l;
    }
  }
  for (size_t l = 0; l < g->n_lanes && !st; l++) st = split_lane(p, l, err);
  return st;
}

/* Batches have a lane of their own on the way to the device, unless all runs on one there. */
static int copy_lane(sp_program *p, sp_err *err) {
  sp_graph *g = p->g;
  int used = 0, least = INT32_MAX, st;
  p->copy_lane = -1;
  if (!g->border || p->stand_in) return SP_OK;
  for (size_t i = 0; i < g->n_nodes; i++) {
    const sp_node *n = g->nodes[i];
    if (n->on_cpu || !sp_program_has(p, n)) continue;
    if (!p->lanes[n->user_lane].busy) used++;
    p->lanes[n->user_lane].busy = true;
    for (unsigned port = 0; port < n->n_in; port++)
      for (size_t k = 0; k < n->in[port].n; k++)
        if (n->in[port].v[k].node->on_cpu && p->lanes[n->user_lane].delay < least) least = p->lanes[n->user_lane].delay;
  }
  if (used < 2 || least == INT32_MAX) return SP_OK;
  if ((st = add_lane(p, "copy", least, 1, false, err))) return st;
  p->copy_lane = (int)p->n_lanes - 1;
  return SP_OK;
}

/* Lanes that the strategy lists, a lane of its own for a source that it does not, and the host's. Evaluation runs on one
 * lane: it has no bits or speed to gain from more. */
int sp_program_lanes(sp_program *p, sp_err *err) {
  sp_graph *g = p->g;
  int least = INT32_MAX, most = 0, update = -1, ahead = g->opts.prefetch, st;
  p->lanes = sp_calloc(2 * g->n_lanes + 6, sizeof *p->lanes);
  if (!p->lanes) return sp_nomem(err, 64, "lanes");
  for (size_t i = 0; i < g->n_nodes; i++) g->nodes[i]->user_lane = -1;
  if ((st = p->stand_in ? evaluation_lanes(p, err) : strategy_lanes(p, &update, err))) return st;
  if (p->source && (p->stand_in || p->source->user_lane < 0)) {
    p->source->user_lane = (int)p->n_lanes;
    if ((st = add_lane(p, p->source->name, 0, 0, false, err))) return st;
    p->lanes[p->n_lanes - 1].place = sp_node_place(p->source);
  }
  if (update < 0)
    for (size_t l = 0; l < p->n_lanes; l++)
      if (p->lanes[l].place == &g->main && (update < 0 || p->lanes[l].delay > p->lanes[update].delay)) update = (int)l;
  if (update < 0) update = 0; /* all is on the cpu */
  if (g->optimizer && g->optimizer->user_lane < 0) g->optimizer->user_lane = update;
  for (size_t i = 0; i < g->n_nodes; i++)
    if (sp_program_has(p, g->nodes[i]) && g->nodes[i]->user_lane < 0)
      return sp_fail(err, SP_E_INVALID, "strategy '%s': stage '%s' is in no lane", g->strategy, g->nodes[i]->name);
  for (size_t l = 0; l < p->n_lanes; l++) {
    bool used = false;
    for (size_t i = 0; i < g->n_nodes; i++)
      used = used || (sp_program_has(p, g->nodes[i]) && g->nodes[i]->user_lane == (int)l);
    if (used && p->lanes[l].delay < least) least = p->lanes[l].delay;
  }
  for (size_t l = 0; l < p->n_lanes; l++) {
    p->lanes[l].delay = p->lanes[l].delay < least ? 0 : p->lanes[l].delay - least;
    if (p->lanes[l].delay > most) most = p->lanes[l].delay;
  }
  if ((st = copy_lane(p, err))) return st;
  p->update_lane = update;
  p->shift = ahead - least;
  p->collect_delay = p->lanes[update].delay + g->opts.run_ahead + 1;
  p->lag = most - p->lanes[update].delay;
  if (p->lag > g->opts.run_ahead) p->collect_delay = most + 1;
  p->ring = p->collect_delay + 2;
  p->host_lane = (int)p->n_lanes;
  return add_lane(p, "host", 0, 0, true, err);
}
