/* SPDX-License-Identifier: MIT
 * program.c - from a complete graph to tasks, resources and a schedule. */
#include "plan/planner.h"

#include <stdlib.h>
#include <string.h>

/* Steps up to those of the updates run before a script looks at weights (sp_loop_reach), on lanes behind too, whose
 * metrics are not collected before: they keep as many as the lane of the updates does. */
static void keep_behind(const sp_planner *w, const sp_metric_slot *m) {
  const sp_program *p = w->p;
  int behind = p->lanes[w->lane[m->node->index][SP_LANE_FORWARD]].props.delay - p->lanes[p->update_lane].props.delay;
  if (behind > 0) p->bufs[m->seen].extra += behind;
}

/* The host takes a step's metrics when all of the step is done, collect_delay ticks after it began. That is also what
 * bounds the steps in flight, and so the calls that must be kept. */
static int collect_task(sp_planner *w, sp_err *err) {
  sp_program *p = w->p;
  size_t before = p->n_tasks;
  sp_task *t;
  int st = sp_planner_task(w, SP_TASK_COLLECT, NULL, sp_text("%s", "host.collect"), p->host_lane, &t, err);
  if (st) return st;
  t->delay = p->collect_delay;
  for (size_t i = 0; i < p->n_metrics && !st; i++) {
    keep_behind(w, &p->metrics[i]);
    st = sp_task_access(t, p->metrics[i].seen, SP_READ, err);
  }
  for (size_t i = 0; i < before && !st; i++) {
    int r;
    if (p->tasks[i].lane == p->host_lane) continue;
    st = sp_planner_buf(w, sp_text("the call record of %s", p->tasks[i].name), 0, 0, p->ring, 0, &r, err);
    if (!st) p->bufs[r].ring = true;
    if (!st) st = sp_task_access(&p->tasks[i], r, SP_WRITE, err);
    if (!st) st = sp_task_access(&p->tasks[before], r, SP_READ, err);
  }
  return st;
}

/* ---- metrics ---- */
static int add_metrics(sp_planner *w, sp_node *n, sp_err *err) {
  sp_program *p = w->p;
  bool runs = !n->optimizer || n->in_specs[0].n;
  for (unsigned o = n->optimizer ? 1 : 0; runs && o < n->n_out; o++) {
    for (uint32_t k = 0; k < n->out_specs[o].n; k++) {
      bool result = sp_graph_is_result(p->g, n, (int)o, (int)k);
      if (!result && !sp_port_small(sp_node_out_port(n, o))) continue;
      if (!sp_grow(&p->metrics, &w->cap_metrics, p->n_metrics + 1, sizeof *p->metrics))
        return sp_nomem(err, 64, "metrics");
      int buf = w->act[n->index][sp_node_flat(n, (int)o, (int)k)];
      p->metrics[p->n_metrics++] =
          (sp_metric_slot){.node = n, .port = (int)o, .index = k, .buf = buf, .seen = buf, .result = result};
    }
  }
  return SP_OK;
}

static int name_metrics(sp_program *p, sp_err *err) {
  for (size_t i = 0; i < p->n_metrics; i++) {
    sp_metric_slot *m = &p->metrics[i];
    const char *port = sp_node_out_port(m->node, (unsigned)m->port)->name;
    bool alone = true, list = m->node->out_specs[m->port].n > 1;
    for (size_t k = 0; k < p->n_metrics && alone; k++) {
      const sp_metric_slot *o = &p->metrics[k];
      alone = o->node == m->node || strcmp(sp_node_out_port(o->node, (unsigned)o->port)->name, port);
    }
    const char *node = alone ? "" : m->node->name, *dot = alone ? "" : ".";
    m->name = list ? sp_text("%s%s%s[%u]", node, dot, port, m->index + 1) : sp_text("%s%s%s", node, dot, port);
    if (!m->name) return sp_nomem(err, 64, "a name");
  }
  return SP_OK;
}

/* ---- the schedule ---- */
static int new_input(sp_program *p, sp_err *err) {
  sp_sched_lane *lanes = sp_calloc(p->n_lanes, sizeof *lanes);
  sp_sched_task *tasks = sp_calloc(p->n_tasks, sizeof *tasks);
  sp_sched_resource *res = sp_calloc(p->n_bufs + 1, sizeof *res);
  p->in = (sp_sched_input){lanes, p->n_lanes, tasks, p->n_tasks, res, p->n_bufs, p->shift, p->ring};
  return lanes && tasks && res ? SP_OK : sp_nomem(err, 64, "the schedule");
}

static bool derives_slots(const sp_buf *b) { return b->bytes && !b->slots && !b->ring; }

/* Buffers that a lane gives to another one have what its strategy asks for on top;
 * each replica of a lane has its own. */
static int add_extra(sp_program *p, sp_err *err) {
  enum { NONE = -1, GIVEN = -2 };
  int *writer = sp_calloc(p->n_bufs + 1, sizeof *writer), *replicas = sp_calloc(p->n_bufs + 1, sizeof *replicas);
  int st = writer && replicas ? SP_OK : sp_nomem(err, p->n_bufs * sizeof *writer, "the schedule");
  for (size_t i = 0; i < p->n_bufs && !st; i++) writer[i] = NONE, replicas[i] = 1;
  for (size_t i = 0; i < p->n_tasks && !st; i++)
    for (size_t a = 0; a < p->tasks[i].n_acc; a++) {
      int r = p->tasks[i].acc[a].resource, lane = p->tasks[i].lane;
      const sp_lane_props *props = &p->lanes[lane].props;
      if (props->replicas > replicas[r]) replicas[r] = props->replicas;
      if (writer[r] == NONE && p->tasks[i].acc[a].mode & SP_WRITE) writer[r] = lane;
      if (writer[r] < 0 || writer[r] == lane || p->lanes[lane].host) continue;
      if (derives_slots(&p->bufs[r])) p->bufs[r].extra += p->lanes[writer[r]].props.extra;
      writer[r] = GIVEN;
    }
  for (size_t i = 0; i < p->n_bufs && !st; i++)
    if (derives_slots(&p->bufs[i])) p->bufs[i].extra += replicas[i] - 1;
  free(writer);
  free(replicas);
  return st;
}

static int op_of(sp_task_kind kind) {
  static const int ops[] = {SP_OP_CALL,    SP_OP_CALL, SP_OP_CALL, SP_OP_CALL, SP_OP_CALL, SP_OP_CALL,
                            SP_OP_COLLECT, SP_OP_FILL, SP_OP_NONE, SP_OP_COPY, SP_OP_COMM};
  return ops[kind];
}

/* The slots of buffers that the schedule chooses become powers of two where `rounded`. */
static int derive_once(sp_program *p, bool rounded, sp_err *err) {
  sp_sched_lane *lanes = (sp_sched_lane *)p->in.lanes;
  sp_sched_task *tasks = (sp_sched_task *)p->in.tasks;
  sp_sched_resource *res = (sp_sched_resource *)p->in.resources;
  p->in.in_flight = p->ring;
  for (size_t i = 0; i < p->n_lanes; i++) {
    const sp_lane *l = &p->lanes[i];
    lanes[i] = (sp_sched_lane){l->props.name, l->props.delay, l->host, l->place == &p->g->cpu, l->asked};
  }
  for (size_t i = 0; i < p->n_tasks; i++) {
    const sp_task *t = &p->tasks[i];
    tasks[i] = (sp_sched_task){t->name, t->lane, t->delay, t->every, t->phase, t->acc, t->n_acc, op_of(t->kind)};
  }
  for (size_t i = 0; i < p->n_bufs; i++) {
    const sp_buf *b = &p->bufs[i];
    int slots = b->ring ? p->ring : b->slots;
    if (rounded && !slots && b->bytes) slots = sp_pow2(p->sched.slots[i]);
    res[i] = (sp_sched_resource){b->name, slots, b->extra, b->group};
  }
  sp_schedule_free(&p->sched);
  int st = sp_schedule_derive(&p->sched, &p->in, err);
  if (st == SP_E_INVALID) { /* strategies are checked before: what they became is wrong */
    err->status = st = SP_E_INTERNAL;
    sp_prefix(err, "internal error");
  }
  if (st) sp_prefix(err, "strategy '%s'", p->strategy);
  return st;
}

/* Graphs hold addresses: one serves every step that finds the same slots and the same place between updates. 0:
 * too many. */
static int phases(const sp_program *p) {
  int64_t all = p->g->train.on && p->training ? p->g->train.accumulate : 1;
  for (size_t i = 0; i < p->n_lanes && all <= SP_PHASES_MAX; i++)
    all = all / sp_gcd((int)all, p->lanes[i].props.replicas) * p->lanes[i].props.replicas;
  for (size_t i = 0; i < p->n_bufs && all <= SP_PHASES_MAX; i++)
    if (!p->bufs[i].ring && p->bufs[i].bytes) all = all / sp_gcd((int)all, p->sched.slots[i]) * p->sched.slots[i];
  return all <= SP_PHASES_MAX ? (int)all : 0;
}

static int too_many_graphs(sp_program *p, sp_err *err) {
  if (p->g->capture_asked != SP_CAPTURE_AUTO)
    return sp_fail(
        err, SP_E_RANGE,
        "capture: more than %d graphs would be needed for all combinations of slots and of the steps between "
        "updates (%s = %d); use smaller delays, or --capture auto or off",
        SP_PHASES_MAX, p->sharded ? "shards" : "accumulate", p->g->train.accumulate);
  sp_log(SP_LOG_WARN, "capture: more than %d graphs would be needed; calls are made one by one", SP_PHASES_MAX);
  p->capture = SP_CAPTURE_OFF;
  return SP_OK;
}

/* The ring becomes a multiple of the phases; a few more slots may keep those few. */
static int settle_ring(sp_program *p, sp_err *err) {
  int all = phases(p), st;
  bool rounded = false;
  if (!all || all > 4 * p->ring) {
    if ((st = derive_once(p, true, err))) return st;
    int fewer = phases(p);
    rounded = fewer && (!all || fewer < all);
    if (rounded) all = fewer;
    else if ((st = derive_once(p, false, err))) return st;
  }
  if (!all) return too_many_graphs(p, err);
  if (p->ring % all == 0) return SP_OK;
  p->ring = (p->ring + all - 1) / all * all;
  return derive_once(p, rounded, err);
}

/* Graphs are launched later than their first call. */
static void raise_rings(sp_program *p) {
  for (size_t i = 0; i < p->n_tasks && p->capture != SP_CAPTURE_OFF; i++)
    if (p->sched.items[i].record && p->sched.items[i].ring < p->ring) p->sched.items[i].ring = p->ring;
}

static int derive(sp_program *p, sp_err *err) {
  int st = new_input(p, err);
  if (st || (st = add_extra(p, err)) || (st = derive_once(p, false, err))) return st;
  if (p->capture != SP_CAPTURE_OFF && (st = settle_ring(p, err))) return st;
  raise_rings(p);
  for (size_t i = 0; i < p->n_bufs; i++) p->bufs[i].slots = p->sched.slots[i];
  return sp_border_check(p, err);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int find_length(sp_program *p, sp_err *err) {
  sp_node *s = p->source;
  if (!s) return SP_OK;
  if (s->inst->type->flags & SP_STAGE_REQUESTS)
    return p->g->train.on
               ? sp_fail(err, SP_E_INVALID, "stage '%s': a graph that is trained reads data, not requests", s->name)
               : SP_OK;
  if (!s->length) return sp_fail(err, SP_E_DATA, "stage '%s' has no samples", s->name);
  p->length = s->length;
  return SP_OK;
}

static int new_maps(sp_planner *w, sp_err *err) {
  size_t n = w->p->g->n_nodes;
  int **maps[] = {&w->saved, &w->self, &w->weight, &w->state, &w->carry, &w->factor};
  w->act = sp_calloc(n + 1, sizeof *w->act);
  w->grad = sp_calloc(n + 1, sizeof *w->grad);
  w->twin = sp_calloc(n + 1, sizeof *w->twin);
  w->dweight = sp_calloc(n + 1, sizeof *w->dweight);
  w->lane = sp_calloc(n + 1, sizeof *w->lane);
  w->made = sp_calloc(n + 1, sizeof *w->made);
  w->sent = sp_calloc((w->p->g->store.reduce ? w->p->g->store.reduce->n : 0) + 1, sizeof *w->sent);
  if (!w->act || !w->grad || !w->twin || !w->dweight || !w->lane || !w->made || !w->sent)
    return sp_nomem(err, n * sizeof *w->act, "resources");
  for (size_t i = 0; i < n; i++)
    for (int k = 0; k < SP_LANE_PARTS; k++) w->lane[i][k] = -1;
  for (size_t m = 0; m < SP_ARRAY(maps); m++) {
    if (!(*maps[m] = sp_calloc(n + 1, sizeof **maps[m]))) return sp_nomem(err, n * sizeof **maps[m], "resources");
    for (size_t i = 0; i < n; i++) (*maps[m])[i] = -1;
  }
  return SP_OK;
}

static void free_planner(sp_planner *w) {
  for (size_t i = 0; i < w->p->g->n_nodes; i++) {
    if (w->act) free(w->act[i]);
    if (w->grad) free(w->grad[i]);
    if (w->twin) free(w->twin[i]);
    if (w->dweight) free(w->dweight[i]);
  }
  free(w->act);
  free(w->grad);
  free(w->twin);
  free(w->lane);
  free(w->busy);
  free(w->saved);
  free(w->self);
  free(w->weight);
  free(w->state);
  free(w->dweight);
  free(w->carry);
  free(w->factor);
  free(w->made);
  free(w->sent);
  free(w->ends);
}

static int plan_resources(sp_planner *w, size_t *gradients, sp_err *err) {
  sp_graph *g = w->p->g;
  int st = SP_OK;
  for (size_t i = 0; i < g->n_nodes && !st; i++) {
    sp_node *n = g->topo[i];
    *gradients += sp_node_flat(n, (int)n->n_out, 0);
    if (!sp_program_has(w->p, n)) continue;
    if ((st = sp_planner_resources(w, n, err)) || (st = sp_border_twins(w, n, err))) break;
    st = add_metrics(w, n, err);
  }
  if (!st) st = name_metrics(w->p, err);
  return st ? st : sp_border_metrics(w, err);
}

/* Behind the backward of a pass, and at the end of a step. */
static int plan_sums(sp_planner *w, sp_err *err) {
  sp_program *p = w->p;
  const sp_graph *g = p->g;
  bool updates = p->training && g->train.on && g->train.optimizer->in_specs[0].n;
  int st = SP_OK;
  if (w->comm_lane >= 0) st = sp_planner_reduce_rest(w, err);
  else if (p->totals && sp_program_has(p, g->shards.sum)) st = sp_planner_sum(w, NULL, err);
  if (!st && w->comm_lane < 0 && g->shards.scale && sp_program_has(p, g->shards.scale)) st = sp_planner_scale(w, err);
  if (!st) st = sp_planner_ends(w, updates, err);
  if (!st && updates && g->store.sliced) st = sp_planner_survey(w, err);
  if (!st && updates) st = sp_planner_update(w, w->updates - 1, err);
  if (!st && updates && g->store.sliced) st = sp_planner_spread(w, err);
  p->looks = updates && (g->store.sliced || w->updates > 1) && g->opts.checksums;
  return st || !p->looks ? st : sp_planner_look(w, err);
}

/* In serialized order. */
static int plan_tasks(sp_planner *w, bool *written, sp_err *err) {
  sp_program *p = w->p;
  sp_graph *g = p->g;
  int st = p->sharded && sp_program_has(p, g->shards.keep) ? sp_planner_keep(w, err) : SP_OK;
  for (size_t i = 0; i < g->n_nodes && !st; i++) {
    /* a stand-in comes where the source itself would, before all that read it */
    sp_node *n = sp_program_producer(p, g->topo[i]);
    bool again = g->topo[i] == p->stand_in && p->stand_in != g->train.source;
    if (again || !sp_program_has(p, n) || sp_node_apart(n)) continue;
    w->every = sp_planner_replicas(w, n);
    for (w->phase = 0; w->phase < w->every && !st; w->phase++)
      if (!(st = sp_planner_forward(w, n, written, err))) st = sp_border_after(w, n, err);
    w->every = 1;
    w->phase = 0;
  }
  if (!st && w->comm_lane >= 0) st = sp_planner_reduce_rows(w, err);
  if (!st && p->totals) st = sp_planner_count(w, err);
  if (!st && w->comm_lane >= 0) st = sp_planner_reduce(w, err);
  for (size_t i = g->n_nodes; i-- > 0 && !st;)
    if (p->training && g->topo[i]->flow.backward) st = sp_planner_backward(w, g->topo[i], written, err);
  if (!st) st = plan_sums(w, err);
  if (!st) st = sp_border_end(w, err);
  return st ? st : collect_task(w, err);
}

static int plan(sp_planner *w, sp_err *err) {
  sp_program *p = w->p;
  size_t gradients = 0;
  int st = new_maps(w, err);
  if (st || (st = find_length(p, err)) || (st = sp_planner_lanes(w, err)) ||
      (st = plan_resources(w, &gradients, err)) || (st = sp_border_begin(w, err)))
    return st;
  bool *written = sp_calloc(p->n_bufs + gradients + 1, sizeof *written); /* gradient buffers come on top */
  if (!written) return sp_nomem(err, 64, "gradients");
  st = plan_tasks(w, written, err);
  free(written);
  if (st || (st = derive(p, err))) return st;
  if (p->sharded && p->g->results.n)
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "a step has %d shards: '%s.%s' would come back with the samples of one; ask for no results",
                   p->g->opts.shards, p->g->results.v[0].node->name,
                   sp_node_out_port(p->g->results.v[0].node, (unsigned)p->g->results.v[0].port)->name);
  /* After the schedule, whose words about an impossible order say more. */
  if (w->lag > sp_graph_run_ahead(p->g))
    return sp_fail(err, SP_E_RANGE,
                   "strategy '%s': a lane runs %d steps behind the trained part; metrics come back %d late: take "
                   "run_ahead = %d",
                   p->strategy, w->lag, sp_graph_run_ahead(p->g), (w->lag + p->micro - 1) / p->micro);
  return SP_OK;
}

static int new_program(sp_program **out, const sp_program *what, const sp_strategy *strategy, sp_err *err) {
  sp_program *p = sp_calloc(1, sizeof *p);
  sp_planner w = {.p = p, .strategy = strategy, .every = 1, .comm_lane = -1, .sums = -1};
  *out = NULL;
  if (!p) return sp_nomem(err, sizeof *p, "a program");
  *p = *what;
  p->g->n_programs++;
  p->strategy = sp_strdup(strategy ? strategy->name : "serialized");
  int st = p->strategy ? plan(&w, err) : sp_nomem(err, 64, "a program");
  free_planner(&w);
  if (st) {
    sp_program_free(p);
    return st;
  }
  *out = p;
  return SP_OK;
}

int sp_program_new(sp_program **out, sp_graph *g, sp_node *stand_in, const sp_strategy *strategy, sp_err *err) {
  const sp_program what = {.g = g,
                           .training = !stand_in,
                           .stand_in = stand_in,
                           .source = stand_in ? stand_in : g->train.source,
                           .micro = stand_in ? 1 : g->train.micro,
                           .sharded = !stand_in && g->shards.on,
                           .totals = !stand_in && g->train.totals,
                           .capture = (sp_capture)g->opts.capture};
  return new_program(out, &what, stand_in ? NULL : strategy, err);
}

int sp_program_new_fill(sp_program **out, sp_graph *g, sp_node *source, sp_err *err) {
  const sp_program what = {
      .g = g, .fills = true, .stand_in = source, .source = source, .micro = 1, .capture = (sp_capture)g->opts.capture};
  return new_program(out, &what, NULL, err);
}

static void free_task(sp_task *t) {
  for (unsigned i = 0; t->din_acc && i < t->node->n_in; i++) free(t->din_acc[i]);
  free(t->din_acc);
  free(t->name);
  free(t->acc);
  free(t->proto);
  free(t->lists);
  free(t->offset);
  free(t->binds);
  free(t->copies);
  free(t->calls);
}

void sp_program_free(sp_program *p) {
  if (!p) return;
  p->g->n_programs--;
  sp_schedule_free(&p->sched);
  for (size_t i = 0; i < p->n_tasks; i++) free_task(&p->tasks[i]);
  for (size_t i = 0; i < p->n_lanes; i++) {
    free((char *)p->lanes[i].props.name);
    free(p->lanes[i].asked);
  }
  for (size_t i = 0; i < p->n_bufs; i++) free(p->bufs[i].name);
  for (size_t i = 0; i < p->n_metrics; i++) free(p->metrics[i].name);
  free((void *)p->in.lanes);
  free((void *)p->in.tasks);
  free((void *)p->in.resources);
  free(p->tasks);
  free(p->lanes);
  free(p->bufs);
  free(p->packs);
  free(p->metrics);
  free(p->strategy);
  free(p);
}
