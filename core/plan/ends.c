/* SPDX-License-Identifier: MIT
 * ends.c - what ends a step: apply() of parts of stages and calls of the update,
 * in the order in which what they need is there. */
#include "plan/planner.h"

/* One a bucket, where a weight's update may go before other gradients are there. */
static uint32_t count_updates(const sp_planner *w) {
  const sp_graph *g = w->p->g;
  uint32_t n = 0;
  if (w->comm_lane < 0 || g->store.sliced || !g->train.optimizer->params.update.separate) return 1;
  while (n < g->store.reduce->n && g->store.reduce->buckets[n].n_gradients) n++;
  return n ? n : 1;
}

int sp_planner_ends(sp_planner *w, bool updates, sp_err *err) {
  int st = SP_OK;
  if (updates) w->updates = count_updates(w);
  for (size_t i = 0; i < w->n_ends && !st; i++) {
    const sp_end *e = &w->ends[i];
    if (e->node) st = sp_planner_apply(w, e->node, e->part, err);
    else if (updates && e->part + 1 < w->updates) st = sp_planner_update(w, e->part, err);
  }
  return st;
}
