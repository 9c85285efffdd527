/* SPDX-License-Identifier: MIT
 * capture.c - calls recorded once and replayed: a lane's calls between two waits, or all calls of a tick.
 *
 * LANE. Tasks of one lane that follow each other without a wait or a record between are a segment. It is submitted where
 * its last task would be: its waits, one graph launch, its record. So to the proof it is those tasks, only later in the
 * submission, and events are as without capture. Steps may change between graphs and single calls as they like.
 *
 * STEP. All calls of one tick, on all lanes, are one graph, launched on the root lane's stream: waits within the tick
 * are edges of the graph, those for earlier ticks are implied, since graphs of one stream run one after another. That
 * orders more than the schedule asks for, never less. Between such ticks and others all lanes are joined.
 *
 * A graph holds addresses, so there is one for each phase, which is the step (or tick) modulo the ring; the ring is a
 * multiple of all slots. The first step, short batches, and ticks in which not every lane has work run as single calls. */
#include "program.h"

#include <stdlib.h>

static const sp_place *place_at(const sp_program *p, const sp_task *t) { return p->lanes[t->lane].place; }
static bool on_main(const sp_program *p, const sp_task *t) { return place_at(p, t) == &p->g->main; }

static bool capturable(const sp_task *t) { return !t->node || t->node->inst->type->flags & SP_STAGE_CAPTURABLE; }

static bool full(const sp_program *p, uint64_t step) {
  return !p->source || p->step_n[step % (uint64_t)p->ring] == (uint32_t)p->source->opts.batch;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int new_segment(sp_program *p, const sp_task *t, sp_err *err) {
  size_t cap = p->n_segments; /* few: grown one by one */
  if (!sp_grow(&p->segments, &cap, p->n_segments + 1, sizeof *p->segments)) return sp_nomem(err, 64, "segments");
  p->segments[p->n_segments++] = (sp_segment){.lane = t->lane, .first = t->index, .last = t->index};
  return SP_OK;
}

static int lane_segments(sp_program *p, int lane, sp_err *err) {
  sp_task *before = NULL;
  for (size_t i = 0; i < p->n_tasks; i++) {
    sp_task *t = &p->tasks[p->sched.order[i]];
    int st;
    if (t->lane != lane) continue;
    bool cut = !before || before->segment < 0 || t->every > 1 || before->every > 1 ||
               p->sched.items[t->index].n_waits || p->sched.items[before->index].record;
    before = t;
    if (!capturable(t)) continue;
    if (cut && (st = new_segment(p, t, err))) return st;
    t->segment = (int)p->n_segments - 1;
    p->segments[t->segment].last = t->index;
  }
  return SP_OK;
}

/* A copy alone gains nothing. */
static void drop_copies(sp_program *p) {
  for (size_t i = 0; i < p->n_segments; i++) {
    sp_task *t = &p->tasks[p->segments[i].first];
    if (p->segments[i].first == p->segments[i].last && t->kind == SP_TASK_COPY) t->segment = -1;
  }
}

/* Why a whole tick cannot be one graph, or NULL. */
static const char *tick_obstacle(const sp_program *p, const char **name) {
  for (size_t i = 0; i < p->n_tasks; i++) {
    const sp_task *t = &p->tasks[i];
    if (!t->node) continue;
    *name = t->node->name;
    if (on_main(p, t) && !capturable(t)) return "its calls cannot be recorded";
    if (t->node->on_cpu && !t->node->source)
      for (size_t f = 0; f < sp_node_flat(t->node, (int)t->node->n_out, 0); f++)
        if (p->twin[t->node->index][f] >= 0) return "it runs on the cpu between two that do not";
  }
  return NULL;
}

static int plan_tick(sp_program *p, sp_err *err) {
  const sp_place *main = &p->g->main;
  sp_ctx_holder h;
  size_t n = p->n_tasks + p->n_lanes;
  int st = SP_OK;
  p->tick_graph = sp_graph_zalloc(p->g, (size_t)p->ring, sizeof *p->tick_graph, "graphs", err);
  p->cut = sp_graph_zalloc(p->g, n, sizeof *p->cut, "events", err);
  if (!p->tick_graph || !p->cut) return err->status;
  for (size_t i = 0; i < n && !st; i++)
    if (i >= p->n_tasks || p->sched.items[i].record)
      st = main->type->event_open(sp_ctx_for(&h, "capture", err), main->dev, 0, &p->cut[i]);
  return st;
}

int sp_capture_plan(sp_program *p, sp_err *err) {
  const char *name = "", *why = p->capture == SP_CAPTURE_STEP ? tick_obstacle(p, &name) : NULL;
  int st = SP_OK;
  if (p->capture == SP_CAPTURE_OFF) return SP_OK;
  if (why) {
    sp_log(SP_LOG_WARN, "capture = step: not with stage '%s', %s; capture = lane is taken", name, why);
    p->capture = p->g->opts.capture = SP_CAPTURE_LANE;
  }
  for (size_t i = 0; i < p->n_tasks; i++)
    if (on_main(p, &p->tasks[i]) && !capturable(&p->tasks[i]) && p->tasks[i].kind == SP_TASK_FORWARD)
      sp_log(SP_LOG_WARN, "capture: calls of stage '%s' cannot be recorded and are made one by one",
             p->tasks[i].node->name);
  if (p->capture == SP_CAPTURE_STEP) return plan_tick(p, err);
  for (size_t l = 0; l < p->n_lanes && !st; l++)
    if (p->lanes[l].place == &p->g->main) st = lane_segments(p, (int)l, err);
  drop_copies(p);
  for (size_t i = 0; i < p->n_segments && !st; i++) {
    p->segments[i].graph = sp_graph_zalloc(p->g, (size_t)p->ring, sizeof *p->segments[i].graph, "graphs", err);
    if (!p->segments[i].graph) st = err->status;
  }
  return st;
}

void sp_capture_free(sp_program *p) {
  const sp_device_type *d = p->g->main.type;
  sp_err ignored;
  if ((p->segments || p->tick_graph) && p->built) sp_program_sync(p, &ignored); /* a graph in flight is not freed */
  for (size_t i = 0; i < p->n_segments; i++) {
    for (int r = 0; p->segments[i].graph && r < p->ring; r++)
      if (p->segments[i].graph[r]) d->graph_close(p->segments[i].graph[r]);
    free(p->segments[i].graph);
  }
  free(p->segments);
  for (int r = 0; p->tick_graph && r < p->ring; r++)
    if (p->tick_graph[r]) d->graph_close(p->tick_graph[r]);
  for (size_t i = 0; p->cut && i < p->n_tasks + p->n_lanes; i++)
    if (p->cut[i]) d->event_close(p->cut[i]);
  free(p->tick_graph);
  free(p->cut);
}

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

static bool in_segment(const sp_program *p, const sp_task *t, int segment, uint64_t step) {
  return t->segment == segment && step % (uint64_t)t->every == (uint64_t)t->phase &&
         p->segments[segment].lane == t->lane;
}

static int record_segment(sp_program *p, int segment, uint64_t step, void **graph, sp_err *err) {
  const sp_device_type *d = p->g->main.type;
  sp_lane *l = &p->lanes[p->segments[segment].lane];
  sp_ctx_holder h;
  sp_err ignored;
  int st = d->capture_begin(sp_ctx_for(&h, l->name, err), l->stream);
  if (st) return st;
  for (size_t i = 0; i < p->n_tasks && !st; i++) /* one delay, so the program's order is that of submission */
    if (in_segment(p, &p->tasks[i], segment, step)) st = sp_task_enqueue(p, &p->tasks[i], step, l->stream, err);
  if (st) {
    if (!d->capture_end(sp_ctx_for(&h, l->name, &ignored), l->stream, graph)) d->graph_close(*graph);
    *graph = NULL;
    return st;
  }
  return d->capture_end(sp_ctx_for(&h, l->name, err), l->stream, graph);
}

/* A graph of a GPU has its sizes baked in, but a device of the processor replays calls with their records, which a short
 * batch may have used since. Nothing else in them changes from one round of the ring to the next. */
static void fill_call(const sp_program *p, sp_task *t, uint64_t step) {
  uint64_t r = step % (uint64_t)p->ring;
  sp_call *c = &t->calls[r];
  if (c->n != p->step_n[r]) sp_call_fill(c, step, p->step_n[r]);
  c->step = step;
}

int sp_capture_task(sp_program *p, sp_task *t, uint64_t step, bool *done, sp_err *err) {
  sp_ctx_holder h;
  int st;
  *done = p->whole; /* the tick's end sees to it */
  if (p->whole || t->segment < 0) return SP_OK;
  const sp_segment *s = &p->segments[t->segment];
  void **graph = &s->graph[step % (uint64_t)p->ring];
  void *stream = p->lanes[t->lane].stream;
  if (!full(p, step) || (!*graph && step == p->first)) return SP_OK;
  *done = true;
  if (t->index != s->last) return SP_OK;
  if ((st = sp_task_waits(p, &p->tasks[s->first], step, err))) return st;
  if (!*graph && (st = record_segment(p, t->segment, step, graph, err)))
    return sp_prefix(err, "capture of lane '%s'", p->lanes[t->lane].name);
  for (int i = s->first; i <= s->last; i++)
    if (p->tasks[i].segment == t->segment) fill_call(p, &p->tasks[i], step);
  p->launches++;
  if ((st = p->g->main.type->graph_launch(sp_ctx_for(&h, t->name, err), *graph, stream))) return st;
  return sp_task_record(p, t, step, stream, err);
}

/* ---- ticks ------------------------------------------------------------------------------------------------------- */

static sp_lane *root(const sp_program *p) { return &p->lanes[p->update_lane]; }

/* All lanes of the device behind the root's stream, or all of them behind what the root has launched. */
static int join(sp_program *p, bool to_root, sp_err *err) {
  const sp_device_type *d = p->g->main.type;
  sp_ctx_holder h;
  sp_lane *r = root(p);
  int st = SP_OK;
  if (!to_root) st = d->event_record(sp_ctx_for(&h, r->name, err), r->joint, r->stream);
  for (size_t i = 0; i < p->n_lanes && !st; i++) {
    sp_lane *l = &p->lanes[i];
    if (l->place != &p->g->main || l == r) continue;
    if (to_root) st = d->event_record(sp_ctx_for(&h, l->name, err), l->joint, l->stream);
    if (!st)
      st = d->stream_wait(sp_ctx_for(&h, l->name, err), to_root ? r->stream : l->stream, to_root ? l->joint : r->joint);
  }
  return st;
}

int sp_capture_begin_tick(sp_program *p, sp_err *err) {
  uint64_t step;
  p->whole = p->capture == SP_CAPTURE_STEP &&
             (p->tick_graph[p->tick % (uint64_t)p->ring] || p->tick > p->first + (uint64_t)p->sched.depth);
  for (size_t i = 0; i < p->n_tasks && p->whole; i++) {
    const sp_task *t = &p->tasks[i];
    if (!on_main(p, t)) continue;
    if (!sp_task_runs(p, t, p->tick, &step)) p->whole = t->every > 1;
    else p->whole = full(p, step);
  }
  if (p->whole || !p->joined) return SP_OK;
  p->joined = false;
  return join(p, false, err);
}

/* One task of the tick that is being recorded, on its own lane's stream where the device can fork, else on the root's. */
static int record_task(sp_program *p, sp_task *t, uint64_t step, bool fork, sp_err *err) {
  const sp_device_type *d = p->g->main.type;
  const sp_sched_item *item = &p->sched.items[t->index];
  void *stream = fork ? p->lanes[t->lane].stream : root(p)->stream;
  sp_ctx_holder h;
  uint64_t ran;
  int st = SP_OK;
  for (size_t k = 0; fork && k < item->n_waits && !st; k++) {
    const sp_task *from = &p->tasks[item->waits[k].task];
    if (on_main(p, from) && sp_task_runs(p, from, p->tick, &ran) && ran + (uint64_t)item->waits[k].back == step)
      st = d->stream_wait(sp_ctx_for(&h, t->name, err), stream, p->cut[from->index]);
  }
  if (!st) st = sp_task_enqueue(p, t, step, stream, err);
  if (!st && fork && item->record) st = d->event_record(sp_ctx_for(&h, t->name, err), p->cut[t->index], stream);
  return st;
}

static int fork_lanes(sp_program *p, bool begin, sp_err *err) {
  const sp_device_type *d = p->g->main.type;
  sp_ctx_holder h;
  sp_lane *r = root(p);
  void **cut = p->cut + p->n_tasks;
  int st = SP_OK;
  if (begin) st = d->event_record(sp_ctx_for(&h, r->name, err), cut[r - p->lanes], r->stream);
  for (size_t i = 0; i < p->n_lanes && !st; i++) {
    sp_lane *l = &p->lanes[i];
    sp_ctx *ctx = sp_ctx_for(&h, l->name, err);
    if (l->place != &p->g->main || l == r) continue;
    if (begin) st = d->stream_wait(ctx, l->stream, cut[r - p->lanes]);
    else if (!(st = d->event_record(ctx, cut[i], l->stream))) st = d->stream_wait(ctx, r->stream, cut[i]);
  }
  return st;
}

static int record_tick(sp_program *p, void **graph, sp_err *err) {
  const sp_device_type *d = p->g->main.type;
  bool fork = d->flags & SP_DEVICE_FORK;
  sp_ctx_holder h;
  sp_err ignored;
  uint64_t step;
  int st = d->capture_begin(sp_ctx_for(&h, root(p)->name, err), root(p)->stream);
  if (st) return st;
  if (fork) st = fork_lanes(p, true, err);
  for (size_t i = 0; i < p->n_tasks && !st; i++) {
    sp_task *t = &p->tasks[p->sched.order[i]];
    if (on_main(p, t) && sp_task_runs(p, t, p->tick, &step)) st = record_task(p, t, step, fork, err);
  }
  if (!st && fork) st = fork_lanes(p, false, err);
  if (!st) return d->capture_end(sp_ctx_for(&h, root(p)->name, err), root(p)->stream, graph);
  if (!d->capture_end(sp_ctx_for(&h, root(p)->name, &ignored), root(p)->stream, graph)) d->graph_close(*graph);
  *graph = NULL;
  return st;
}

int sp_capture_end_tick(sp_program *p, sp_err *err) {
  const sp_device_type *d = p->g->main.type;
  void **graph, *stream = root(p)->stream;
  sp_ctx_holder h;
  uint64_t step;
  int st = SP_OK;
  if (!p->whole) return SP_OK;
  graph = &p->tick_graph[p->tick % (uint64_t)p->ring];
  if (!p->joined) st = join(p, true, err);
  p->joined = true;
  p->whole = false;
  if (!st && !*graph && (st = record_tick(p, graph, err))) return sp_prefix(err, "capture of a step");
  for (size_t i = 0; i < p->n_tasks && !st; i++)
    if (on_main(p, &p->tasks[i]) && sp_task_runs(p, &p->tasks[i], p->tick, &step)) fill_call(p, &p->tasks[i], step);
  if (!st) st = d->graph_launch(sp_ctx_for(&h, "a step", err), *graph, stream);
  p->launches++;
  for (size_t i = 0; i < p->n_tasks && !st; i++) { /* events behind the graph, then those who wait for them */
    sp_task *t = &p->tasks[p->sched.order[i]];
    if (on_main(p, t) && sp_task_runs(p, t, p->tick, &step)) st = sp_task_record(p, t, step, stream, err);
  }
  for (size_t i = 0; i < p->n_tasks && !st; i++) {
    sp_task *t = &p->tasks[p->sched.order[i]];
    if (place_at(p, t) && !on_main(p, t) && sp_task_runs(p, t, p->tick, &step)) st = sp_task_submit(p, t, step, err);
  }
  return st;
}
