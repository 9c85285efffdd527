/* SPDX-License-Identifier: MIT
 * lanes.c - which lanes a program has, and how many steps each is behind the newest batch. */
#include "program.h"

#include <stdlib.h>

static int add_lane(sp_program *p, const char *name, int delay, int priority, bool host, sp_err *err) {
  sp_lane *l = &p->lanes[p->n_lanes];
  *l = (sp_lane){.delay = delay, .priority = priority, .host = host, .name = sp_strdup(name)};
  if (!l->name) return sp_nomem(err, 64, "a lane");
  p->n_lanes++;
  return SP_OK;
}

/* Lanes that the strategy lists, a lane of its own for a source that it does not, and the host's. Evaluation runs on one
 * lane: it has no bits or speed to gain from more. */
int sp_program_lanes(sp_program *p, sp_err *err) {
  sp_graph *g = p->g;
  int least = INT32_MAX, most = 0, update = -1, ahead = g->opts.prefetch, st;
  p->lanes = sp_calloc(g->n_lanes + 3, sizeof *p->lanes);
  if (!p->lanes) return sp_nomem(err, 64, "lanes");
  for (size_t i = 0; i < g->n_nodes; i++) g->nodes[i]->user_lane = -1;
  if (p->stand_in) {
    if ((st = add_lane(p, "evaluate", ahead, 0, false, err))) return st;
    for (size_t i = 0; i < g->n_nodes; i++) g->nodes[i]->user_lane = 0;
  }
  for (size_t l = 0; !p->stand_in && l < g->n_lanes; l++) {
    if ((st = add_lane(p, g->lanes[l].name, g->lanes[l].delay + ahead, g->lanes[l].priority, false, err))) return st;
    for (size_t k = 0; k < g->lanes[l].n_nodes; k++) {
      g->lanes[l].nodes[k]->user_lane = (int)l;
      if (g->lanes[l].nodes[k]->trained) update = (int)l;
    }
  }
  if (p->source && (p->stand_in || p->source->user_lane < 0)) {
    p->source->user_lane = (int)p->n_lanes;
    if ((st = add_lane(p, p->source->name, 0, 0, false, err))) return st;
  }
  if (update < 0)
    for (size_t l = 0; l < p->n_lanes; l++)
      if (update < 0 || p->lanes[l].delay > p->lanes[update].delay) update = (int)l;
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
  p->update_lane = update;
  p->shift = ahead - least;
  p->collect_delay = p->lanes[update].delay + g->opts.run_ahead + 1;
  p->lag = most - p->lanes[update].delay;
  if (p->lag > g->opts.run_ahead) p->collect_delay = most + 1;
  p->ring = p->collect_delay + 2;
  p->host_lane = (int)p->n_lanes;
  return add_lane(p, "host", 0, 0, true, err);
}
