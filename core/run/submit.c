/* SPDX-License-Identifier: MIT
 * submit.c - what an operation does: calls, copies, waits and records on streams,
 * and what stages are told of a step. */
#include "params/params.h"
#include "run/comm_clock.h"
#include "run/requests.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const sp_task *task_of(const sp_loop *l, const sp_op *op) { return &l->m->p->tasks[op->task]; }
static void *stream_of(const sp_loop *l, int lane) { return sp_machine_stream(l->m, lane)->own; }
static size_t slot(const sp_loop *l, uint64_t step) { return (size_t)(step % (uint64_t)l->m->p->ring); }

/* ---- what a stage is told ---------------------------------------------------------------------------------------- */

static uint64_t step_of(const sp_loop *l, uint64_t pass) { return sp_machine_step(l->m, pass); }

/* The learning rate of a step is asked once, by the first task that needs it. */
static int step_lr(sp_loop *l, uint64_t step, double *lr, sp_err *err) {
  sp_graph *g = l->m->g;
  double *kept = &l->m->known[slot(l, step)].lr;
  int i = sp_params_find_live(g->train.optimizer->inst->type->params, "lr", NULL), st;
  if (l->lr_step != step + 1) {
    *kept = i >= 0 ? (double)g->train.optimizer->live[i] : NAN;
    if (g->train.lr) {
      if ((st = g->train.lr(g->train.lr_arg, step_of(l, step), kept, err))) return st;
      if (i < 0)
        return sp_fail(err, SP_E_INVALID, "optimizer '%s' has no learning rate to set", g->train.optimizer->name);
      if ((st = sp_node_set_live(g->train.optimizer, "lr", *kept, err)))
        return sp_prefix(err, "step %" PRIu64, sp_step_said(step_of(l, step)));
    }
    l->lr_step = step + 1;
  }
  *lr = *kept;
  return SP_OK;
}

/* Of the samples of the steps of an update, those of `step`. */
static float share_of(const sp_machine *m, uint64_t step) {
  uint64_t k = (uint64_t)m->g->train.accumulate, first = step - step % k, all = 0;
  if (k == 1 || !m->has_feed || m->queue) return 1.0f / (float)k;
  for (uint64_t s = first; s < first + k; s++) all += sp_sampler_n(&m->sampler, s);
  return (float)((double)sp_sampler_n(&m->sampler, step) / (double)all);
}

static void fill_block(const sp_loop *l, const sp_task *t, uint64_t step, sp_step *block) {
  const sp_machine *m = l->m;
  const sp_node *n = t->node;
  *block = (sp_step){.step = step_of(l, step),
                     .epoch = m->feed.steps ? step / m->feed.steps : 0,
                     .key = n->key,
                     .n = n->batched || n->shards ? m->known[slot(l, step)].n : (uint32_t)n->opts.batch,
                     .training = m->p->training && m->g->train.on,
                     .loss_scale = m->p->totals ? 1.0f : share_of(m, step),
                     .batch = m->p->totals ? (uint32_t)m->batch : 0,
                     .shard = m->p->totals ? (uint32_t)(step % (uint64_t)m->g->train.accumulate) : 0};
  memcpy(block->live, n->live, sizeof block->live);
}

static bool wants_lr(const sp_loop *l, const sp_task *t) {
  return l->m->p->training && l->m->g->train.on && t->node &&
         (t->node->optimizer || sp_call_takes_lr(l->m->p, t->node, t->kind));
}

static int keep(sp_loop *l, const sp_task *t, uint64_t step, const sp_err *err) {
  return sp_failure_keep(&l->m->failure, step, t->index, err);
}

static int fill_call(sp_loop *l, const sp_task *t, sp_call *c, uint64_t step, sp_err *err) {
  double lr = NAN;
  sp_call_fill(c, step, l->m->known[slot(l, step)].n);
  c->io.dw_acc = !l->m->p->sharded && step % (uint64_t)l->m->g->train.accumulate != 0;
  if (l->m->p->lanes[t->lane].block >= 0) return SP_OK; /* its block is filled for the whole lane */
  if (wants_lr(l, t)) {
    if (step_lr(l, step, &lr, err)) return keep(l, t, step, err);
    c->dw_scale = -(float)lr;
  }
  fill_block(l, t, step, &c->block);
  return SP_OK;
}

/* The block of a lane, in pinned memory: its learning rate's step, the ids,
 * and for each of its tasks what it is told. */
static int fill_lane(sp_loop *l, const sp_task *fill, uint64_t step, sp_err *err) {
  const sp_machine *m = l->m;
  const sp_lane *lane = &m->p->lanes[fill->of_lane];
  char *block = m->buf[lane->block_pinned][step % (uint64_t)m->p->bufs[lane->block_pinned].slots];
  for (size_t i = 0; i < m->p->n_tasks; i++) {
    const sp_task *t = &m->p->tasks[i];
    double lr;
    if (t->lane != fill->of_lane || !t->node || step % (uint64_t)t->every != (uint64_t)t->phase) continue;
    if (wants_lr(l, t)) {
      if (step_lr(l, step, &lr, err)) return keep(l, t, step, err);
      ((sp_block_head *)block)->minus_lr = -(float)lr;
    }
    if (t->block) fill_block(l, t, step, &((sp_block_task *)(block + t->block))->step);
  }
  if (m->has_feed) memcpy(block + sizeof(sp_block_head), m->ids + slot(l, step) * m->batch, m->batch * sizeof *m->ids);
  return SP_OK;
}

static int fill(sp_loop *l, const sp_op *op, uint64_t step, sp_err *err) {
  bool traced = sp_trace_wants(&l->m->watch, step);
  double since = traced ? sp_now() : 0;
  int st = fill_lane(l, task_of(l, op), step, err);
  if (traced) sp_timeline_host(l, SP_SLICE_TASK, op->task, step, since, sp_now());
  return st;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* What this rank is at, for the others. While one of its threads waits for them, that is what counts. */
static void tell(const sp_machine *m, uint64_t step, const sp_task *t, bool waits) {
  sp_reduce *r = m->g->store.reduce;
  if (!r) return;
  if (t->kind == SP_TASK_COMM) atomic_store(&r->waits, waits);
  sp_ranks_at(r->ranks, step / (uint64_t)m->p->micro, t->name, atomic_load(&r->waits) ? "the other ranks" : NULL);
}

/* What moves gradients runs beside it. */
static bool gives_gradients(const sp_task *t) { return t->kind == SP_TASK_BACKWARD || t->kind == SP_TASK_APPLY; }

static int enter_stage(const sp_task *t, sp_call *c, uint64_t step, void *native) {
  if (t->kind == SP_TASK_LOOK) return SP_OK;
  int st =
      c->again ? sp_inst_call(t->node->inst, SP_CALL_FORWARD, sp_again_io(c->again), step, native, c, &c->err) : SP_OK;
  if (st) return st;
  return sp_inst_call(sp_task_inst(t), sp_task_call(t->kind), &c->io, step, native, c, &c->err);
}

/* A failure stops its stream. Where ticks are graphs, one stream has the older steps of other lanes too, whose results
 * are to come first: there it is kept only, and what comes behind it does nothing. */
static int run_call(void *arg, void *native) {
  sp_call *c = arg;
  const sp_task *t = c->task;
  bool shared = c->m->launch != SIZE_MAX;
  if (shared && sp_failure_before(&c->m->failure, c->step, t->index)) return SP_OK;
  uint64_t step = sp_machine_step(c->m, c->step);
  sp_range_push(c->m, t->name, c->step);
  tell(c->m, c->step, t, false);
  sp_ranks *needed = c->m->g->store.reduce && gives_gradients(t) ? c->m->g->store.reduce->ranks : NULL;
  sp_ranks_work(needed, true);
  int st = enter_stage(t, c, step, native);
  sp_ranks_work(needed, false);
  sp_range_pop(c->m);
  if (st) sp_failure_keep(&c->m->failure, c->step, t->index, &c->err);
  return shared ? SP_OK : st;
}

static int call(sp_loop *l, const sp_op *op, uint64_t step, void *stream, sp_err *err) {
  const sp_task *t = task_of(l, op);
  sp_call *c = &l->m->posts[t->index].calls[slot(l, step)];
  int st = fill_call(l, t, c, step, err);
  return st ? st : sp_place_submit(l->m->p->lanes[t->lane].place, stream, run_call, c, t->name, err);
}

static int copy(sp_loop *l, const sp_task *t, uint64_t step, void *stream, sp_err *err) {
  const sp_program *p = l->m->p;
  int st = SP_OK;
  sp_range_push(l->m, t->name, step);
  for (size_t i = 0; i < t->n_copies && !st; i++) {
    int from = t->copies[i].from, to = t->copies[i].to;
    st = sp_place_copy(&l->m->g->main, stream, l->m->buf[to][step % (uint64_t)p->bufs[to].slots],
                       l->m->buf[from][step % (uint64_t)p->bufs[from].slots], t->copies[i].bytes, t->name, err);
  }
  sp_range_pop(l->m);
  return st;
}

static void *moved_to(const sp_machine *m, const sp_move *v) { return v->to ? v->to : m->buf[v->to_buf][0]; }
static const void *moved_from(const sp_machine *m, const sp_move *v) {
  return v->from ? v->from : m->buf[v->from_buf][0];
}

static int move_one(sp_ctx *ctx, const sp_machine *m, const sp_move *v) {
  const sp_reduce *r = m->g->store.reduce;
  void *to = moved_to(m, v);
  const void *from = moved_from(m, v);
  switch (v->kind) {
    case SP_MOVE_GATHER: return r->type->all_gather(ctx, r->comm, to, from, v->each);
    case SP_MOVE_FIRST: return r->type->broadcast(ctx, r->comm, to, v->each, 0);
    default: return r->type->all_to_all(ctx, r->comm, to, from, v->each);
  }
}

/* Several are gathers. */
static int move_all(sp_ctx *ctx, const sp_machine *m, const sp_task *t) {
  const sp_reduce *r = m->g->store.reduce;
  sp_comm_gather list[SP_MAX_FACTORS];
  int st = SP_OK;
  if (t->n_calls > 1 && r->type->all_gather_list) {
    for (size_t i = 0; i < t->n_calls; i++)
      list[i] = (sp_comm_gather){moved_to(m, &t->calls[i]), moved_from(m, &t->calls[i]), t->calls[i].each};
    return r->type->all_gather_list(ctx, r->comm, list, t->n_calls);
  }
  for (size_t i = 0; i < t->n_calls && !st; i++) st = move_one(ctx, m, &t->calls[i]);
  return st;
}

/* On the stream of the lane, as calls are. Where another rank has failed the words are that failure's. */
static int run_comm(void *arg, void *native) {
  sp_call *c = arg;
  sp_machine *m = c->m;
  const sp_task *t = c->task;
  const sp_reduce *r = m->g->store.reduce;
  bool shared = m->launch != SIZE_MAX;
  sp_ctx_holder h;
  sp_ctx *ctx = sp_ctx_for(&h, t->name, &c->err);
  if (shared && sp_failure_before(&m->failure, c->step, t->index)) return SP_OK;
  ctx->stream = native;
  double begin = m->g->host.observe ? sp_now() : 0;
  sp_range_push(m, t->name, c->step);
  tell(m, c->step, t, true);
  sp_ranks_wait(r->ranks, true);
  int st = move_all(ctx, m, t);
  sp_ranks_wait(r->ranks, false);
  tell(m, c->step, t, false);
  sp_range_pop(m);
  if (m->g->host.observe) { /* as stages are, whose calls are over when they return */
    sp_span span = {t->name, "comm", sp_machine_step(m, c->step), begin, sp_now(), c, -1};
    m->g->host.observe(m->g->host.observe_arg, &span);
  }
  if (st) sp_reduce_failed(r, t->name, &c->err);
  if (st) sp_failure_keep(&m->failure, c->step, t->index, &c->err);
  return shared ? SP_OK : st;
}

static int move(sp_loop *l, const sp_op *op, uint64_t step, void *stream, sp_err *err) {
  const sp_task *t = task_of(l, op);
  sp_call *c = &l->m->posts[t->index].calls[slot(l, step)];
  c->step = step;
  return sp_place_submit(l->m->p->lanes[t->lane].place, stream, run_comm, c, t->name, err);
}

int sp_submit_again(sp_loop *l, const sp_task *t, uint64_t step, void *stream, sp_err *err) {
  sp_call *c = &l->m->posts[t->index].calls[slot(l, step)];
  if (t->kind == SP_TASK_COPY) return copy(l, t, step, stream, err);
  return c->n && c->step == step ? sp_place_submit(l->m->p->lanes[t->lane].place, stream, run_call, c, t->name, err)
                                 : SP_OK;
}

/* A device that makes no checksums itself has to be through with the call. */
static int hash(sp_loop *l, const sp_op *op, uint64_t step, void *stream, sp_err *err) {
  const sp_task *t = task_of(l, op);
  const sp_place *place = l->m->p->lanes[t->lane].place;
  sp_call *c = &l->m->posts[t->index].calls[slot(l, step)];
  if (place->type->stream_hash) return sp_checksum_call(c, stream, err);
  if (sp_place_sync(place, stream, t->name, err)) return err->status;
  return sp_checksum_call(c, stream, err) ? keep(l, t, step, err) : SP_OK;
}

/* With SPCORE_SYNC the call is over when this returns, and its failure has its name. */
static int finish(sp_loop *l, const sp_op *op, uint64_t step, void *stream, sp_err *err) {
  const sp_task *t = task_of(l, op);
  int st = sp_place_sync(l->m->p->lanes[t->lane].place, stream, t->name, err);
  if (!st || sp_failure_step(&l->m->failure) != SP_NO_STEP) return st;
  sp_prefix(err, "'%s' of step %" PRIu64, t->name, sp_step_said(step_of(l, step)));
  return keep(l, t, step, err);
}

/* ---- waits and records ------------------------------------------------------------------------------------------- */

/* The event of a wait, NULL: its run lies before the first step. */
static void *event_of(const sp_loop *l, const sp_op *op, uint64_t step) {
  const sp_task *t = &l->m->p->tasks[op->from];
  int64_t s = (int64_t)step - op->back, run;
  if (s < t->phase) return NULL;
  run = t->every == 1 ? s : (s - t->phase) / t->every;
  return l->m->posts[op->from].at[run % l->m->ops.ring[op->from]];
}

static int wait_late(void *arg, void *native) {
  sp_late *late = arg;
  (void)native;
  return sp_place_sync_event(late->place, late->event, "a wait", &late->err);
}

static int wait(sp_loop *l, size_t at, const sp_op *op, uint64_t step, void *stream, sp_err *err) {
  const sp_place *place = l->m->p->lanes[op->lane].place;
  void *event = event_of(l, op, step);
  if (!event) return SP_OK;
  if (!l->m->late[at]) return sp_place_wait(place, stream, event, task_of(l, op)->name, err);
  sp_late *late = &l->m->late[at][slot(l, step)];
  late->place = l->m->p->lanes[l->m->p->tasks[op->from].lane].place;
  late->event = event;
  return sp_place_submit(place, stream, wait_late, late, task_of(l, op)->name, err);
}

/* Behind the wait of a task that is nothing but waits stands the task, so that the arrow ends somewhere. */
static void trace_sync(const sp_loop *l, const sp_op *op, uint64_t step, double since) {
  double now = sp_now();
  sp_timeline_host(l, SP_SLICE_WAIT, op->from, step, since, now);
  if (task_of(l, op)->kind == SP_TASK_AWAIT) sp_timeline_host(l, SP_SLICE_TASK, op->task, step, now, sp_now());
}

static int await(sp_loop *l, const sp_place *place, void *event, sp_err *err) {
  sp_machine_block(l->m, place, true);
  if (l->m->queue) sp_requests_await(l, place, event);
  int st = sp_place_sync_event(place, event, "the step loop", err);
  sp_machine_block(l->m, place, false);
  return st;
}

static int sync(sp_loop *l, const sp_op *op, uint64_t step, sp_err *err) {
  void *event = event_of(l, op, step);
  const sp_place *place = l->m->p->lanes[l->m->p->tasks[op->from].lane].place;
  bool traced = event && sp_trace_wants(&l->m->watch, step);
  double since = l->timed || traced ? sp_now() : 0;
  int st = event ? await(l, place, event, err) : SP_OK;
  if (l->timed) l->blocked += sp_now() - since;
  if (traced) trace_sync(l, op, step, since);
  return st;
}

static void **standing(const sp_loop *l, int task, uint64_t step, void **own) {
  const sp_task *t = &l->m->p->tasks[task];
  sp_post *post = &l->m->posts[task];
  int64_t k = ((int64_t)step - t->phase) / t->every % l->m->ops.ring[task];
  *own = post->events[k];
  return &post->at[k];
}

static int record(sp_loop *l, const sp_op *op, uint64_t step, void *stream, sp_err *err) {
  void *own, **at = standing(l, op->task, step, &own);
  *at = own;
  return sp_place_record(l->m->p->lanes[op->lane].place, own, stream, task_of(l, op)->name, err);
}

/* ---- graphs of a lane -------------------------------------------------------------------------------------------- */

/* On all ranks: where one launches a graph the others do. */
static bool full(const sp_loop *l, uint64_t step) { return l->m->known[slot(l, step)].full; }

/* A graph of a GPU has its sizes baked in, but a device of the processor replays calls with their records, which a
 * short batch may have used since. Nothing else in them changes from one round of the ring to the next. */
static void renew_call(sp_loop *l, const sp_op *op, uint64_t step) {
  sp_call *c = &l->m->posts[op->task].calls[slot(l, step)];
  uint32_t n = l->m->known[slot(l, step)].n;
  if (op->kind != SP_OP_CALL) return;
  if (c->n != n) sp_call_fill(c, step, n);
  c->step = step;
}

static int work(sp_loop *l, const sp_op *op, uint64_t step, void *stream, sp_err *err) {
  switch (op->kind) {
    case SP_OP_CALL: return call(l, op, step, stream, err);
    case SP_OP_COPY: return copy(l, task_of(l, op), step, stream, err);
    case SP_OP_COMM: return move(l, op, step, stream, err);
    case SP_OP_HASH: return hash(l, op, step, stream, err);
    default: return SP_OK;
  }
}

/* The same where it is recorded; marks are left out. */
static int record_work(sp_loop *l, const sp_op *op, uint64_t step, void *stream, sp_err *err) {
  if (!sp_op_works(op->kind)) return SP_OK;
  sp_timeline_record(l->m, op->task);
  int st = work(l, op, step, stream, err);
  sp_timeline_record(l->m, -1);
  return st;
}

/* What was begun to be recorded is ended whatever comes of it. */
static int end_record(const sp_place *place, void *stream, const char *what, int st, void **graph, sp_err *err) {
  sp_ctx_holder h;
  sp_err ignored;
  if (!st) return place->type->capture_end(sp_ctx_for(&h, what, err), stream, graph);
  if (!place->type->capture_end(sp_ctx_for(&h, what, &ignored), stream, graph)) place->type->graph_close(*graph);
  *graph = NULL;
  return st;
}

static int record_segment(sp_loop *l, const sp_op *launch, uint64_t step, void *stream, void **graph, sp_err *err) {
  const sp_place *place = &l->m->g->main;
  const char *name = l->m->p->lanes[launch->lane].props.name;
  sp_ctx_holder h;
  int st = place->type->capture_begin(sp_ctx_for(&h, name, err), stream);
  if (st) return st;
  for (int i = 1; i <= launch->n && !st; i++) st = record_work(l, &launch[i], step, stream, err);
  st = end_record(place, stream, name, st, graph, err);
  return st ? sp_prefix(err, "capture of lane '%s'", name) : SP_OK;
}

static int launch_graph(sp_loop *l, size_t *pos, const sp_op *op, uint64_t step, void *graph, sp_err *err) {
  const char *name = op->task < 0 ? "a step" : task_of(l, op)->name;
  sp_ctx_holder h;
  int st = sp_timeline_mark_launch(l, op, step, 0, err);
  l->launches++;
  *pos += (size_t)op->n;
  sp_range_push(l->m, "graph launch", step);
  if (!st) st = l->m->g->main.type->graph_launch(sp_ctx_for(&h, name, err), graph, stream_of(l, op->lane));
  sp_range_pop(l->m);
  return st ? st : sp_timeline_mark_launch(l, op, step, 1, err);
}

/* Steps may change between graphs and single calls as they like. Nothing is recorded in a loop's first step. */
static int launch_lane(sp_loop *l, size_t *pos, const sp_op *op, uint64_t step, sp_err *err) {
  void **graph = &l->m->graph[op->from][slot(l, step)], *stream = stream_of(l, op->lane);
  int st;
  if (!full(l, step) || (!*graph && step == l->first)) return SP_OK;
  if (!*graph && (st = record_segment(l, op, step, stream, graph, err))) return st;
  for (int i = 1; i <= op->n; i++) renew_call(l, &op[i], step);
  if ((st = sp_comm_clock_mark(l->m->clock, l, op, step, 0, err))) return st;
  st = launch_graph(l, pos, op, step, *graph, err);
  return st ? st : sp_comm_clock_mark(l->m->clock, l, op, step, 1, err);
}

/* ---- graphs of a tick -------------------------------------------------------------------------------------------- */

/* All lanes of the device behind the root's stream, or all of them behind what the root has launched. */
static int join(sp_loop *l, const sp_op *launch, bool to_root, sp_err *err) {
  sp_machine *m = l->m;
  const sp_place *main = &m->g->main;
  const sp_stream *root = &m->streams[launch->lane];
  void *stream = stream_of(l, launch->lane);
  int st = SP_OK;
  if (to_root == l->joined) return SP_OK;
  l->joined = to_root;
  if (!to_root) st = sp_place_record(main, root->joint, stream, root->name, err);
  for (size_t i = 0; i < m->p->n_lanes && !st; i++) {
    const sp_stream *s = &m->streams[i];
    if (s->place != main || s == root || !m->p->lanes[i].used) continue;
    void *other = stream_of(l, (int)i);
    if (to_root) st = sp_place_record(main, s->joint, other, s->name, err);
    if (!st) st = sp_place_wait(main, to_root ? stream : other, to_root ? s->joint : root->joint, s->name, err);
  }
  return st;
}

/* The step that a task has in this tick; false: it does not run at that one. Whether that step is in the loop was asked
 * before, of all tasks at once: a failure must not change the answer while a tick is recorded. */
static bool has_part(const sp_loop *l, int task, uint64_t *step) {
  const sp_task *t = &l->m->p->tasks[task];
  *step = l->tick - (uint64_t)l->m->p->sched.delay[task];
  return *step % (uint64_t)t->every == (uint64_t)t->phase;
}

/* Every task of the body has its step in the loop, which has not run yet, and a full batch; and nothing has failed. */
static bool may_launch(const sp_loop *l, const sp_op *launch) {
  if (sp_failure_step(&l->m->failure) != SP_NO_STEP) return false;
  for (int i = 1; i <= launch->n; i++) {
    uint64_t delay = (uint64_t)l->m->p->sched.delay[launch[i].task], step = l->tick - delay;
    if (l->tick < l->first + delay || step < l->early || step >= l->end || !full(l, step)) return false;
  }
  return l->m->graph[launch->from][slot(l, l->tick)] || l->tick > l->first + (uint64_t)l->m->p->sched.depth;
}

/* One operation of a tick that is recorded, on its own lane's stream where the device can fork, else on the root's. */
static int record_part(sp_loop *l, const sp_op *op, const sp_op *launch, bool fork, sp_err *err) {
  sp_machine *m = l->m;
  void *stream = stream_of(l, fork ? op->lane : launch->lane);
  const char *name = task_of(l, op)->name;
  uint64_t step, ran;
  if (!has_part(l, op->task, &step)) return SP_OK;
  if (op->kind == SP_OP_RECORD && fork) return sp_place_record(&m->g->main, m->posts[op->task].cut, stream, name, err);
  if (op->kind != SP_OP_WAIT) return record_work(l, op, step, stream, err);
  if (!fork || !has_part(l, op->from, &ran) || ran + (uint64_t)op->back != step) return SP_OK;
  return sp_place_wait(&m->g->main, stream, m->posts[op->from].cut, name, err);
}

static int fork_lanes(sp_loop *l, const sp_op *launch, bool begin, sp_err *err) {
  sp_machine *m = l->m;
  const sp_place *main = &m->g->main;
  const sp_stream *root = &m->streams[launch->lane];
  void *stream = stream_of(l, launch->lane);
  int st = begin ? sp_place_record(main, root->cut, stream, root->name, err) : SP_OK;
  for (size_t i = 0; i < m->p->n_lanes && !st; i++) {
    const sp_stream *s = &m->streams[i];
    if (s->place != main || s == root || !m->p->lanes[i].used) continue;
    void *other = stream_of(l, (int)i);
    if (begin) st = sp_place_wait(main, other, root->cut, s->name, err);
    else if (!(st = sp_place_record(main, s->cut, other, s->name, err)))
      st = sp_place_wait(main, stream, s->cut, s->name, err);
  }
  return st;
}

static int record_tick(sp_loop *l, const sp_op *launch, void **graph, sp_err *err) {
  const sp_place *main = &l->m->g->main;
  const char *name = l->m->streams[launch->lane].name;
  void *stream = stream_of(l, launch->lane);
  bool fork = main->type->flags & SP_DEVICE_FORK;
  sp_ctx_holder h;
  int st = main->type->capture_begin(sp_ctx_for(&h, name, err), stream);
  if (st) return st;
  if (fork) st = fork_lanes(l, launch, true, err);
  for (int i = 1; i <= launch->n && !st; i++) st = record_part(l, &launch[i], launch, fork, err);
  if (!st && fork) st = fork_lanes(l, launch, false, err);
  st = end_record(main, stream, name, st, graph, err);
  return st ? sp_prefix(err, "capture of a step") : SP_OK;
}

/* The graph of this tick's phase. A stage that fails while it is recorded leaves half of one: none. */
static int find_graph(sp_loop *l, const sp_op *launch, void **graph, sp_err *err) {
  int st;
  if (*graph) return SP_OK;
  st = record_tick(l, launch, graph, err);
  if (st || sp_failure_step(&l->m->failure) == SP_NO_STEP) return st;
  l->m->g->main.type->graph_close(*graph);
  *graph = NULL;
  return SP_OK;
}

static int launch_tick(sp_loop *l, size_t *pos, const sp_op *op, sp_err *err) {
  void **graph = &l->m->graph[op->from][slot(l, l->tick)];
  uint64_t step;
  int st;
  l->whole = may_launch(l, op);
  if ((st = join(l, op, l->whole, err)) || !l->whole) return st;
  if ((st = find_graph(l, op, graph, err))) return st;
  if (!*graph) {
    l->whole = false;
    return join(l, op, false, err);
  }
  for (int i = 1; i <= op->n; i++)
    if (has_part(l, op[i].task, &step)) renew_call(l, &op[i], step);
  return launch_graph(l, pos, op, l->tick, *graph, err);
}

/* One event stands for all records of the tick that was launched. */
static int record_launch(sp_loop *l, const sp_op *op, sp_err *err) {
  sp_machine *m = l->m;
  const sp_op *launch = &m->ops.op[m->launch];
  void *event = m->tick_event[l->tick % (uint64_t)m->ops.tick_ring], *own;
  uint64_t step;
  if (!l->whole) return SP_OK;
  for (int i = 1; i <= launch->n; i++)
    if (launch[i].kind == SP_OP_RECORD && has_part(l, launch[i].task, &step))
      *standing(l, launch[i].task, step, &own) = event;
  return sp_place_record(&m->g->main, event, stream_of(l, op->lane), "a step", err);
}

/* What it waits for is over; a failure is told where somebody waits. */
static bool complete(const sp_loop *l, const sp_op *op, uint64_t step) {
  void *event = event_of(l, op, step);
  const sp_place *place = l->m->p->lanes[l->m->p->tasks[op->from].lane].place;
  sp_ctx_holder h;
  sp_err ignored;
  int over = 1;
  return !event || place->type->event_query(sp_ctx_for(&h, "requests", &ignored), event, &over) || over;
}

bool sp_submit_ready(const sp_loop *l, int task, uint64_t step) {
  const sp_ops *ops = &l->m->ops;
  bool ready = true;
  for (size_t i = 0; i < ops->n && ready; i++)
    if (ops->op[i].kind == SP_OP_SYNC && ops->op[i].task == task) ready = complete(l, &ops->op[i], step);
  return ready;
}

bool sp_submit_prepared(const sp_loop *l, uint64_t step) {
  const sp_program *p = l->m->p;
  bool done = true;
  for (size_t i = 0; i < l->m->ops.n && done; i++) {
    const sp_op *op = &l->m->ops.op[i];
    bool waits = op->kind == SP_OP_WAIT || (op->kind == SP_OP_SYNC && p->tasks[op->task].kind != SP_TASK_COLLECT);
    if (waits && !op->back && p->tasks[op->from].node == p->source) done = complete(l, op, step);
  }
  return done;
}

static int mark(sp_loop *l, const sp_op *op, uint64_t step, sp_err *err) {
  return op->from == SP_MARK_COMM ? sp_comm_clock_mark(l->m->clock, l, op, step, op->back, err)
                                  : sp_timeline_mark(l, op, step, err);
}

/* ---- any --------------------------------------------------------------------------------------------------------- */

int sp_submit(sp_loop *l, size_t *pos, const sp_op *op, uint64_t step, sp_err *err) {
  const sp_stream *s = sp_machine_stream(l->m, op->lane);
  bool always = op->task >= 0 && (task_of(l, op)->always || (task_of(l, op)->zeroes && op->kind == SP_OP_CALL));
  bool empty = !always && l->m->has_feed && !l->m->known[slot(l, step)].n; /* nothing runs in the step */
  switch (op->kind) {
    case SP_OP_WAIT: return wait(l, *pos - 1, op, step, s->own, err);
    case SP_OP_SYNC: return sync(l, op, step, err);
    case SP_OP_RECORD: return op->task < 0 ? record_launch(l, op, err) : record(l, op, step, s->own, err);
    case SP_OP_LAUNCH: return op->task < 0 ? launch_tick(l, pos, op, err) : launch_lane(l, pos, op, step, err);
    case SP_OP_FILL: return fill(l, op, step, err);
    case SP_OP_MARK: return empty ? SP_OK : mark(l, op, step, err);
    case SP_OP_FINISH: return finish(l, op, step, s->own, err);
    default: return empty ? SP_OK : work(l, op, step, s->own, err);
  }
}
