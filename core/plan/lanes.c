/* SPDX-License-Identifier: MIT
 * lanes.c - which lanes a program has, how many steps each is behind the newest batch, and whose calls they take. */
#include "plan/planner.h"

#include <stdio.h>
#include <stdlib.h>

static int add_lane(sp_planner *w, const sp_lane_props *props, sp_place *place, int *out, sp_err *err) {
  sp_program *p = w->p;
  sp_lane *l = &p->lanes[p->n_lanes];
  *l = (sp_lane){.props = *props, .host = !place, .place = place, .block = -1, .block_pinned = -1};
  if (!props->replicas) l->props.replicas = 1;
  l->props.name = sp_strdup(props->name);
  if (!l->props.name) return sp_nomem(err, 64, "a lane");
  *out = (int)p->n_lanes++;
  return SP_OK;
}

/* All of its replicas, side by side; *out is the first. asked: the strategy's name of it. */
static int add_lanes(sp_planner *w, const sp_lane_props *props, const char *asked, sp_place *place, int *out,
                     sp_err *err) {
  int n = props->replicas > 1 ? props->replicas : 1, lane, st = SP_OK;
  *out = (int)w->p->n_lanes;
  for (int i = 0; i < n && !st; i++) {
    char name[160];
    sp_lane_props one = *props;
    snprintf(name, sizeof name, n > 1 ? "%.120s%d" : "%.120s", props->name, i + 1);
    one.name = name;
    if ((st = add_lane(w, &one, place, &lane, err))) break;
    w->p->lanes[lane].replica = i;
    if (!(w->p->lanes[lane].asked = sp_strdup(asked))) st = sp_nomem(err, 64, "a lane");
  }
  return st;
}

int sp_planner_replicas(const sp_planner *w, const sp_node *n) {
  return w->p->lanes[w->lane[n->index][SP_LANE_FORWARD]].props.replicas;
}

static void set_lanes(sp_planner *w, const sp_node *n, unsigned parts, int lane) {
  for (int k = 0; k < SP_LANE_PARTS; k++)
    if (parts >> k & 1) w->lane[n->index][k] = lane;
}

static bool reads_requests(const sp_program *p) {
  return p->source && p->source->inst->type->flags & SP_STAGE_REQUESTS;
}

/* How many ticks ahead a batch is read. Requests are not there ahead: what they make is submitted at once, whole, and
 * `prefetch` is only how many more of their batches have room. */
static int ahead(const sp_planner *w) { return reads_requests(w->p) ? 0 : w->p->g->opts.prefetch; }

/* Delays of lanes are counted from the newest batch. */
static int delay_of(const sp_planner *w, int asked) { return asked + ahead(w); }

/* A lane of the strategy, and one for those of its stages that are on the cpu, with the same delay. */
static int strategy_lane(sp_planner *w, const sp_lane_desc *d, int lane, int *update, sp_err *err) {
  sp_program *p = w->p;
  int cpu = -1, st = SP_OK;
  for (size_t k = 0; k < d->n_nodes && !st; k++) {
    const sp_node *n = d->nodes[k];
    int mine = n->on_cpu ? cpu : lane;
    if (n->on_cpu && cpu < 0 && d->parts[k] != SP_PART_COPY) {
      char name[128];
      sp_lane_props beside = d->props;
      snprintf(name, sizeof name, "%.100s (cpu)", d->props.name);
      beside.name = name;
      beside.delay = p->lanes[lane].props.delay;
      st = add_lanes(w, &beside, d->props.name, &p->g->cpu, &cpu, err);
      mine = cpu;
    }
    /* a copy is the device's, wherever the stage runs */
    set_lanes(w, n, d->parts[k] & ~SP_PART_COPY, mine);
    if (d->parts[k] != SP_PART_ALL) set_lanes(w, n, d->parts[k] & SP_PART_COPY, lane);
    if (n->params.trained && d->parts[k] != SP_PART_COPY) *update = lane;
  }
  return st;
}

static int strategy_lanes(sp_planner *w, int *update, sp_err *err) {
  const sp_strategy *s = w->strategy;
  int st = SP_OK, *first = sp_calloc(s->n + 1, sizeof *first);
  if (!first) return sp_nomem(err, s->n * sizeof *first, "lanes");
  for (size_t l = 0; l < s->n && !st; l++) {
    sp_lane_props props = s->lanes[l].props;
    props.delay = delay_of(w, props.delay);
    st = add_lanes(w, &props, props.name, &w->p->g->main, &first[l], err);
  }
  for (size_t l = 0; l < s->n && !st; l++) st = strategy_lane(w, &s->lanes[l], first[l], update, err);
  free(first);
  return st;
}

/* Evaluation has no bits or speed to gain from more than one lane. */
static int evaluation_lanes(sp_planner *w, sp_err *err) {
  sp_graph *g = w->p->g;
  int main, cpu = -1,
            st = add_lane(w, &(sp_lane_props){.name = "evaluate", .delay = delay_of(w, 0)}, &g->main, &main, err);
  for (size_t i = 0; i < g->n_nodes && !st; i++) {
    const sp_node *n = g->nodes[i];
    bool there = n->on_cpu && !n->source;
    if (there && cpu < 0)
      st = add_lane(w, &(sp_lane_props){.name = "evaluate (cpu)", .delay = delay_of(w, 0)}, &g->cpu, &cpu, err);
    set_lanes(w, n, SP_PART_FORWARD | SP_PART_BACKWARD, there ? cpu : main);
  }
  return st;
}

static int forward_lane(const sp_planner *w, const sp_node *n) { return w->lane[n->index][SP_LANE_FORWARD]; }

static bool has_one_bucket(const sp_reduce *r) {
  size_t n = 0;
  for (size_t i = 0; i < r->n; i++) n += r->buckets[i].n_gradients && !r->buckets[i].factors;
  return n == 1;
}

/* All that ranks give to each other is in one lane, which no strategy has: its order is the same on all of them. */
static int comm_lane(sp_planner *w, int update, sp_err *err) {
  sp_program *p = w->p;
  if (p->stand_in || !p->g->shards.tree || !sp_program_has(p, p->g->shards.tree)) return SP_OK;
  int delay = p->lanes[update].props.delay;
  int st = add_lane(w, &(sp_lane_props){.name = "comm", .delay = delay, .priority = SP_PRIORITY_COMM}, &p->g->main,
                    &w->comm_lane, err);
  set_lanes(w, p->g->shards.tree, SP_PART_ALL, w->comm_lane);
  if (p->g->shards.wire) set_lanes(w, p->g->shards.wire, SP_PART_ALL, w->comm_lane);
  if (p->g->shards.scale) set_lanes(w, p->g->shards.scale, SP_PART_ALL, w->comm_lane);
  /* Where ranks have a shard each what these give is for that lane: the other one need not be cut in two for them. */
  if (p->micro == 1) set_lanes(w, p->g->shards.sum, SP_PART_ALL, w->comm_lane);
  if (p->micro == 1) set_lanes(w, p->g->shards.count, SP_PART_ALL, w->comm_lane);
  /* What updates those weights alone that no apply() makes follows their gradients there, beside the calls of apply().
   * Of several buckets each would wait for the last. */
  if (p->g->store.applied && forward_lane(w, p->g->train.optimizer) == update && has_one_bucket(p->g->store.reduce))
    set_lanes(w, p->g->train.optimizer, SP_PART_ALL, w->comm_lane);
  return st;
}

/* What no lane lists: a source has its own, the optimizer goes where the last trained stage is, or from there to lane
 * "comm", a backward where the forward is. */
static int give_lanes(sp_planner *w, int update, sp_err *err) {
  sp_program *p = w->p;
  sp_graph *g = p->g;
  int lane, st;
  if (p->source && (p->stand_in || forward_lane(w, p->source) < 0)) {
    sp_lane_props props = {.name = p->source->name, .extra = reads_requests(p) ? g->opts.prefetch : 0};
    if ((st = add_lane(w, &props, sp_node_place(p->source), &lane, err))) return st;
    set_lanes(w, p->source, SP_PART_FORWARD, lane);
  }
  for (size_t i = 0; i < g->n_nodes; i++)
    if (sp_node_apart(g->nodes[i]) && forward_lane(w, g->nodes[i]) < 0)
      set_lanes(w, g->nodes[i], SP_PART_FORWARD, update);
  if ((st = comm_lane(w, update, err))) return st;
  for (size_t i = 0; i < g->n_nodes; i++) {
    const sp_node *n = g->nodes[i];
    if (!sp_program_has(p, n)) continue;
    if (forward_lane(w, n) < 0)
      return sp_fail(err, SP_E_INVALID, "strategy '%s': stage '%s' is in no lane", p->strategy, n->name);
    if (w->lane[i][SP_LANE_BACKWARD] < 0) w->lane[i][SP_LANE_BACKWARD] = forward_lane(w, n);
  }
  return SP_OK;
}

/* The lane whose steps everything is counted by: that of the updates, or else the last on the device. */
static int update_lane(const sp_program *p, int update) {
  if (update >= 0) return update;
  for (size_t l = 0; l < p->n_lanes; l++)
    if (p->lanes[l].place == &p->g->main && (update < 0 || p->lanes[l].props.delay > p->lanes[update].props.delay))
      update = (int)l;
  return update < 0 ? 0 : update; /* all is on the cpu */
}

/* Which lanes are used, and how far ahead of all others the first of them would run for nothing. */
static int find_busy(sp_planner *w, sp_err *err) {
  sp_program *p = w->p;
  int least = INT32_MAX;
  w->busy = sp_calloc(p->n_lanes + 2, sizeof *w->busy); /* copy and host come on top */
  if (!w->busy) return sp_nomem(err, p->n_lanes, "lanes");
  for (size_t i = 0; i < p->g->n_nodes; i++)
    for (int k = SP_LANE_FORWARD; k <= SP_LANE_BACKWARD && sp_program_has(p, p->g->nodes[i]); k++)
      for (int r = 0; r < p->lanes[w->lane[i][k]].props.replicas; r++) w->busy[w->lane[i][k] + r] = true;
  for (size_t l = 0; l < p->n_lanes; l++)
    if (w->busy[l] && p->lanes[l].props.delay < least) least = p->lanes[l].props.delay;
  for (size_t l = 0; l < p->n_lanes; l++) {
    int *delay = &p->lanes[l].props.delay;
    *delay = *delay < least ? 0 : *delay - least;
  }
  p->shift = ahead(w) - least;
  return SP_OK;
}

/* Batches have a lane of their own on the way to the device, unless all runs on one there. */
static int copy_lane(sp_planner *w, sp_err *err) {
  sp_program *p = w->p;
  sp_graph *g = p->g;
  int used = 0, least = INT32_MAX, st;
  w->copy_lane = -1;
  if (!g->border || p->stand_in) return SP_OK;
  for (size_t l = 0; l < p->n_lanes; l++) used += w->busy[l] && p->lanes[l].place == &g->main;
  for (size_t i = 0; i < g->n_nodes; i++) {
    const sp_node *n = g->nodes[i];
    if (n->on_cpu || !sp_program_calls(p, n)) continue;
    int delay = p->lanes[forward_lane(w, n)].props.delay;
    for (unsigned port = 0; port < n->n_in; port++)
      for (size_t k = 0; k < n->in[port].n; k++)
        if (n->in[port].v[k].node->on_cpu && delay < least) least = delay;
  }
  if (used < 2 || least == INT32_MAX) return SP_OK;
  if ((st = add_lane(w, &(sp_lane_props){.name = "copy", .delay = least, .priority = 1}, &g->main, &w->copy_lane, err)))
    w->copy_lane = -1;
  return st;
}

/* The host collects a step when all of it is done: that bounds the steps in flight, of which each replica has one. */
static int host_lane(sp_planner *w, sp_err *err) {
  sp_program *p = w->p;
  int run_ahead = p->stand_in ? p->g->opts.run_ahead : sp_graph_run_ahead(p->g);
  int most = 0, replicas = 1, trained = p->lanes[p->update_lane].props.delay;
  for (size_t l = 0; l < p->n_lanes; l++) {
    const sp_lane_props *props = &p->lanes[l].props;
    if (props->delay > most) most = props->delay;
    if (props->replicas > replicas) replicas = props->replicas;
  }
  p->collect_delay = trained + (replicas > run_ahead ? replicas : run_ahead + 1);
  w->lag = most - trained;
  if (w->lag > run_ahead) p->collect_delay = most + 1;
  p->ring = p->collect_delay + 2;
  return add_lane(w, &(sp_lane_props){.name = "host"}, NULL, &p->host_lane, err);
}

int sp_planner_lanes(sp_planner *w, sp_err *err) {
  sp_program *p = w->p;
  int update = -1, st;
  size_t n = 7; /* those that no strategy lists */
  for (size_t l = 0; w->strategy && l < w->strategy->n; l++) {
    int replicas = w->strategy->lanes[l].props.replicas;
    n += 2 * (size_t)(replicas > 1 ? replicas : 1);
  }
  p->lanes = sp_calloc(n, sizeof *p->lanes);
  if (!p->lanes) return sp_nomem(err, 64, "lanes");
  if ((st = p->stand_in ? evaluation_lanes(w, err) : strategy_lanes(w, &update, err))) return st;
  p->update_lane = update_lane(p, update);
  if ((st = give_lanes(w, p->update_lane, err)) || (st = find_busy(w, err)) || (st = copy_lane(w, err))) return st;
  return host_lane(w, err);
}
