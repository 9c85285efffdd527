/* SPDX-License-Identifier: MIT
 * run.c - the step loop: one thread walks the schedule tick by tick, streams execute. */
#include "program.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one call ---- */
void sp_call_fill(sp_call *c, uint64_t step, uint32_t n) {
  sp_task *t = c->task;
  sp_program *p = t->prog;
  for (size_t i = 0; i < t->n_binds; i++) {
    const sp_bind *b = &t->binds[i];
    sp_tensor *x = &c->t[b->tensor];
    if (b->buf >= 0) {
      const sp_buf *buf = &p->bufs[b->buf];
      x->data = buf->ptr[step % (uint64_t)buf->slots];
    }
    if (b->batch) x->spec.shape[0] = n;
  }
  c->step = step;
  c->n = n;
  c->io.saved = t->saved_buf >= 0 ? p->bufs[t->saved_buf].ptr[step % (uint64_t)p->bufs[t->saved_buf].slots] : NULL;
}

/* Of memory that the host cannot read a copy is hashed; the call is over then. */
static int hash_tensor(sp_call *c, const sp_tensor *t, size_t *k, sp_err *err) {
  const sp_node *n = c->task->node;
  const sp_place *place = sp_node_place(n);
  int64_t bytes = sp_spec_bytes(&t->spec);
  uint64_t *hash = &c->hash[(*k)++];
  void *copy;
  int st;
  *hash = SP_FNV64;
  if (bytes <= 0 || !t->data) return SP_OK;
  if (place->type->flags & SP_DEVICE_HOSTMEM) {
    *hash = sp_fnv64(SP_FNV64, t->data, (size_t)bytes);
    return SP_OK;
  }
  if (!(copy = sp_calloc(1, (size_t)bytes))) return sp_nomem(err, (size_t)bytes, "a checksum");
  if (!(st = sp_graph_download(n->g, place, copy, t->data, (size_t)bytes, err)))
    *hash = sp_fnv64(SP_FNV64, copy, (size_t)bytes);
  free(copy);
  return st;
}

/* In the order of name_hashes() in build.c. */
static int hash_call(sp_call *c, sp_err *err) {
  const sp_task *t = c->task;
  const sp_node *n = t->node;
  size_t k = 0;
  int st = SP_OK;
  if (t->kind == SP_TASK_FORWARD) {
    for (unsigned o = 0; o < n->n_out; o++)
      for (uint32_t i = 0; i < c->io.out[o].n && !st; i++) st = hash_tensor(c, &c->io.out[o].t[i], &k, err);
    for (size_t i = 0; !n->frozen && i < n->n_weights && !st; i++)
      if (n->weights[i].flags & SP_WEIGHT_STATE) st = hash_tensor(c, &c->io.weights[i], &k, err);
  } else if (t->kind == SP_TASK_BACKWARD && n->trained) {
    for (size_t i = 0; i < n->n_weights && !st; i++)
      if (n->weights[i].flags & SP_WEIGHT_TRAINED)
        st = hash_tensor(c, n->inplace ? &c->io.weights[i] : &c->io.dweights[i], &k, err);
  } else if (t->kind == SP_TASK_UPDATE) {
    for (uint32_t i = 0; i < c->io.out[0].n && !st; i++) st = hash_tensor(c, &c->io.out[0].t[i], &k, err);
  }
  return st;
}

/* Of the failures that happen before everything has stopped, the first in serialized order is kept: which one comes first in
 * time is left to chance. */
static int keep_failure(const sp_task *t, uint64_t step, const sp_err *err) {
  sp_graph *g = t->prog->g;
  pthread_mutex_lock(&g->lock);
  if (!g->failed || step < g->fail_step || (step == g->fail_step && t->index < g->fail_task)) {
    g->failed = true;
    g->fail_step = step;
    g->fail_task = t->index;
    g->failure = *err;
  }
  pthread_mutex_unlock(&g->lock);
  return err->status;
}

static const sp_lane *lane_of(const sp_task *t) { return &t->prog->lanes[t->lane]; }

static int run_call(void *arg, void *native) {
  sp_call *c = arg;
  sp_task *t = c->task;
  void *lane = &t->prog->lanes[t->lane];
  int st = t->kind == SP_TASK_BACKWARD ? sp_inst_backward(t->node->inst, &c->io, c->step, native, lane, &c->err)
                                       : sp_inst_forward(t->node->inst, &c->io, c->step, native, lane, &c->err);
  if (!st && t->n_hashes && lane_of(t)->place->type->flags & SP_DEVICE_HOSTMEM) st = hash_call(c, &c->err);
  if (st) keep_failure(t, c->step, &c->err);
  return st;
}

/* ---- submission ---- */
/* The learning rate of a step is asked once, by the first task that needs it. */
static int step_lr(sp_program *p, uint64_t step, double *lr, sp_err *err) {
  sp_graph *g = p->g;
  double *kept = &p->step_lr[step % (uint64_t)p->ring];
  int i = sp_params_find_live(g->optimizer->inst->type->params, "lr", NULL), st;
  if (p->lr_step != step + 1) {
    *kept = i >= 0 ? (double)g->optimizer->live[i] : NAN;
    if (g->lr) {
      if ((st = g->lr(g->lr_arg, step, kept, err))) return st;
      if (i < 0) return sp_fail(err, SP_E_INVALID, "optimizer '%s' has no learning rate to set", g->optimizer->name);
      if ((st = sp_node_set_live(g->optimizer, "lr", *kept, err))) return sp_prefix(err, "step %" PRIu64, step);
    }
    p->lr_step = step + 1;
  }
  *lr = *kept;
  return SP_OK;
}

/* What a task is told of its step. */
static void fill_block(const sp_program *p, const sp_task *t, uint64_t step, sp_step *block) {
  const sp_graph *g = p->g;
  const sp_node *n = t->node;
  *block = (sp_step){.step = step,
                     .epoch = p->has_sampler ? step / p->sampler.steps : 0,
                     .key = n->key,
                     .n = n->batched ? p->step_n[step % (uint64_t)p->ring] : (uint32_t)n->opts.batch,
                     .training = p->training && g->training,
                     .loss_scale = 1.0f / (float)g->accumulate};
  memcpy(block->live, n->live, sizeof block->live);
}

static bool wants_lr(const sp_program *p, const sp_task *t) {
  return p->training && p->g->training && t->node &&
         (t->node->optimizer || (t->kind == SP_TASK_BACKWARD && t->node->inplace));
}

static int fill_step(sp_program *p, sp_task *t, sp_call *c, uint64_t step, sp_err *err) {
  double lr = NAN;
  int st;
  sp_call_fill(c, step, p->step_n[step % (uint64_t)p->ring]);
  c->io.dw_acc = step % (uint64_t)p->g->accumulate != 0;
  if (lane_of(t)->block >= 0) return SP_OK; /* its block is filled for the whole lane */
  if (wants_lr(p, t)) {
    if ((st = step_lr(p, step, &lr, err))) return keep_failure(t, step, err);
    c->dw_scale = -(float)lr;
  }
  fill_block(p, t, step, &c->block);
  return SP_OK;
}

/* The block of a lane, in pinned memory: its learning rate's step, the ids, and for each of its tasks what it is told. */
static int fill_lane(sp_program *p, sp_task *fill, uint64_t step, sp_err *err) {
  const sp_lane *l = &p->lanes[fill->block];
  const sp_buf *b = &p->bufs[l->block_pinned];
  char *block = b->ptr[step % (uint64_t)b->slots];
  size_t batch = p->source ? (size_t)p->source->opts.batch : 1;
  int st;
  for (size_t i = 0; i < p->n_tasks; i++) {
    sp_task *t = &p->tasks[i];
    double lr;
    if (t->lane != (int)fill->block || !t->node || step % (uint64_t)t->every != (uint64_t)t->phase) continue;
    if (wants_lr(p, t)) {
      if ((st = step_lr(p, step, &lr, err))) return keep_failure(t, step, err);
      *(float *)block = -(float)lr;
    }
    fill_block(p, t, step, (sp_step *)(block + t->block));
  }
  if (p->has_sampler) memcpy(block + SP_BLOCK_HEAD, p->ids + step % (uint64_t)p->ring * batch, batch * sizeof *p->ids);
  return SP_OK;
}

void *sp_task_event(sp_program *p, const sp_sched_wait *w, uint64_t step) {
  sp_task *t = &p->tasks[w->task];
  int64_t s = (int64_t)step - w->back, run;
  if (s < t->phase) return NULL;
  run = (s - t->phase) / t->every;
  return t->events[run % p->sched.items[w->task].ring];
}

static int wait_late(void *arg, void *native) {
  sp_late *l = arg;
  sp_ctx_holder h;
  (void)native;
  return l->place->type->event_sync(sp_ctx_for(&h, "a wait", &l->err), l->event);
}

/* A stream of the cpu waits for the other device on its own thread. */
int sp_task_waits(sp_program *p, sp_task *t, uint64_t step, sp_err *err) {
  const sp_lane *l = lane_of(t);
  const sp_sched_item *item = &p->sched.items[t->index];
  sp_ctx_holder h;
  int st = SP_OK;
  for (size_t i = 0; i < item->n_waits && !st; i++) {
    const sp_place *from = lane_of(&p->tasks[item->waits[i].task])->place;
    void *e = sp_task_event(p, &item->waits[i], step);
    sp_ctx *ctx = sp_ctx_for(&h, t->name, err);
    if (!e) continue;
    if (from->dev == l->place->dev) {
      st = l->place->type->stream_wait(ctx, l->stream, e);
    } else {
      sp_late *late = &t->calls[step % (uint64_t)p->ring].late[i];
      late->place = from;
      late->event = e;
      st = l->place->type->stream_submit(ctx, l->stream, wait_late, late);
    }
  }
  return st;
}

/* With SPCORE_SYNC the call is over when this returns, and its failure has its name. */
static int see_through(sp_program *p, sp_task *t, sp_call *c, void *stream, sp_err *err) {
  sp_ctx_holder h;
  int st;
  if (!p->g->sync && !t->n_hashes) return SP_OK;
  st = lane_of(t)->place->type->stream_sync(sp_ctx_for(&h, t->name, err), stream);
  if (!st && t->n_hashes) st = hash_call(c, err);
  if (!st) return SP_OK;
  if (p->g->failed) return st;
  if (p->g->sync) sp_prefix(err, "'%s' of step %" PRIu64, t->name, c->step);
  return keep_failure(t, c->step, err);
}

int sp_task_enqueue(sp_program *p, sp_task *t, uint64_t step, void *stream, sp_err *err) {
  const sp_device_type *d = lane_of(t)->place->type;
  sp_call *c = &t->calls[step % (uint64_t)p->ring];
  sp_ctx_holder h;
  int st;
  if (t->kind == SP_TASK_COPY) {
    c->step = step;
    st = sp_border_run(p, t, step, stream, err);
  } else {
    st = fill_step(p, t, c, step, err);
    if (!st) st = d->stream_submit(sp_ctx_for(&h, t->name, err), stream, run_call, c);
  }
  return st || d->flags & SP_DEVICE_HOSTMEM ? st : see_through(p, t, c, stream, err);
}

int sp_task_record(sp_program *p, sp_task *t, uint64_t step, void *stream, sp_err *err) {
  const sp_sched_item *item = &p->sched.items[t->index];
  sp_ctx_holder h;
  if (!item->record) return SP_OK;
  return lane_of(t)->place->type->event_record(sp_ctx_for(&h, t->name, err),
                                               t->events[((int64_t)step - t->phase) / t->every % item->ring], stream);
}

int sp_task_submit(sp_program *p, sp_task *t, uint64_t step, sp_err *err) {
  void *stream = lane_of(t)->stream;
  int st = sp_task_waits(p, t, step, err);
  if (!st) st = sp_timeline_mark(p, t, step, false, err);
  if (!st) st = sp_task_enqueue(p, t, step, stream, err);
  if (!st) st = sp_timeline_mark(p, t, step, true, err);
  return st ? st : sp_task_record(p, t, step, stream, err);
}

/* The host's own tasks: it waits, then does what is to be done. */
static int host_waits(sp_program *p, sp_task *t, uint64_t step, sp_err *err) {
  const sp_sched_item *item = &p->sched.items[t->index];
  sp_ctx_holder h;
  int st = SP_OK;
  for (size_t i = 0; i < item->n_waits && !st; i++) {
    void *e = sp_task_event(p, &item->waits[i], step);
    if (e)
      st = lane_of(&p->tasks[item->waits[i].task])->place->type->event_sync(sp_ctx_for(&h, "the step loop", err), e);
  }
  return st;
}

/* ---- collecting a step ---- */
static int check_status(const sp_metric_slot *m, const int64_t *v, uint64_t step, sp_err *err) {
  sp_sb sb = {0};
  if (!v[0]) return SP_OK;
  sp_status_text(m->node->inst->type, v, &sb);
  sp_fail(err, SP_E_DATA, "stage '%s' step %" PRIu64 ": %s", m->node->name, step, sp_sb_str(&sb));
  sp_sb_free(&sb);
  return err->status;
}

/* A device that failed does not say in whose call, and the stage that sees it first need not be the one: all that had
 * been submitted may have been it. */
static void suspect(const sp_program *p, sp_err *err) {
  const sp_graph *g = p->g;
  sp_sb sb = {0};
  if (err->status != SP_E_DEVICE || !g->border || g->sync) return;
  for (size_t i = 0; i < g->n_nodes; i++) {
    const sp_node *n = g->nodes[i];
    if (!n->on_cpu && sp_program_has(p, n)) sp_sb_putf(&sb, "%s'%s'", sb.n ? ", " : "", n->name);
  }
  sp_prefix(err,
            "device '%s' failed in step %" PRIu64 "%s or a later one, in one of the stages %s (SPCORE_SYNC=1 finds out "
            "which)",
            g->opts.device, p->delivered, p->training ? "" : " of an evaluation", sp_sb_str(&sb));
  sp_sb_free(&sb);
}

static int collect(sp_program *p, sp_task *t, uint64_t step, sp_err *err) {
  sp_graph *g = p->g;
  size_t k = 0;
  int st = host_waits(p, t, step, err);
  if (st || (st = sp_timeline_collect(p, step, err))) return st;
  for (size_t i = 0; i < p->n_metrics; i++) {
    const sp_metric_slot *m = &p->metrics[i];
    const sp_port *port = sp_node_out_port(m->node, (unsigned)m->port);
    const sp_buf *b = &p->bufs[m->seen];
    const void *data = b->ptr[step % (uint64_t)b->slots];
    if (m->node->optimizer && step % (uint64_t)g->accumulate != (uint64_t)g->accumulate - 1)
      continue; /* no update ran */
    if (port->flags & SP_PORT_STATUS) {
      if ((st = check_status(m, data, step, err))) return keep_failure(t, step, err);
      continue;
    }
    p->shown[k++] = (sp_metric){m->name, m->node->name, port->name, m->node->out_specs[m->port].spec[m->index], data};
  }
  p->result = (sp_result){.step = step,
                          .n = p->step_n[step % (uint64_t)p->ring],
                          .lr = NAN,
                          .time = sp_now(),
                          .metrics = p->shown,
                          .n_metrics = k,
                          .hashes = p->hashes,
                          .n_hashes = p->n_hashes};
  p->result.epoch = p->has_sampler ? step / p->sampler.steps : 0;
  if (p->training && g->training) {
    p->result.updated = step % (uint64_t)g->accumulate == (uint64_t)g->accumulate - 1;
    if (p->result.updated) p->lr = p->step_lr[step % (uint64_t)p->ring];
    p->result.lr = p->lr;
  }
  k = 0;
  for (size_t i = 0; i < p->n_tasks; i++) {
    const sp_task *x = &p->tasks[i];
    bool ran = step % (uint64_t)x->every == (uint64_t)x->phase;
    for (size_t j = 0; j < x->n_hashes; j++)
      p->hashes[k++] = (sp_hash){x->hashes[j].name, ran ? x->calls[step % (uint64_t)p->ring].hash[j] : 0};
  }
  return SP_OK;
}

/* ---- the loop ---- */
int sp_program_begin(sp_program *p, uint64_t first, uint64_t n, sp_err *err) {
  if (p->running) return sp_fail(err, SP_E_STATE, "a loop is under way already");
  if (p->g->failed) return sp_fail(err, SP_E_STATE, "the graph has failed before: %s", p->g->failure.msg);
  p->first = p->next = p->tick = first;
  p->delivered = first;
  p->end = n ? first + n : UINT64_MAX;
  p->pos = 0;
  p->running = true;
  p->lr_step = 0;
  if (p->g->training && isnan(p->lr)) { /* what is told until the first update */
    const sp_node *opt = p->g->optimizer;
    int i = sp_params_find_live(opt->inst->type->params, "lr", NULL);
    if (i >= 0) p->lr = (double)opt->live[i];
  }
  return SP_OK;
}

/* What the host knows of a step before any lane runs it. */
static void begin_step(sp_program *p, uint64_t step) {
  uint64_t r = step % (uint64_t)p->ring;
  p->step_n[r] = 1;
  if (p->has_sampler) p->step_n[r] = sp_sampler_ids(&p->sampler, step, p->ids + r * (size_t)p->source->opts.batch);
}

int sp_program_sync(sp_program *p, sp_err *err) {
  sp_graph *g = p->g;
  sp_ctx_holder h;
  sp_err mine = {0};
  int st = SP_OK, s;
  for (size_t i = 0; i < p->n_lanes; i++) {
    if (p->lanes[i].host || !p->lanes[i].stream) continue;
    s = p->lanes[i].place->type->stream_sync(sp_ctx_for(&h, p->lanes[i].name, &mine), p->lanes[i].stream);
    if (s && !st) {
      st = s;
      *err = mine;
    }
  }
  pthread_mutex_lock(&g->lock);
  if (g->failed) {
    st = g->failure.status;
    *err = g->failure;
  }
  pthread_mutex_unlock(&g->lock);
  return st;
}

/* Everything stops; the words are those of the stage that failed first, where one did. */
static int give_up(sp_program *p, sp_err *err) {
  sp_graph *g = p->g;
  sp_err found;
  sp_program_sync(p, &found);
  p->running = false;
  if (g->failed) *err = g->failure; /* else it is the device's, not a stage's */
  if (!g->train->halted) suspect(p, err);
  g->failure = *err;
  g->failed = true;
  g->train->halted = true; /* a loop within which an evaluation failed ends too */
  return err->status;
}

static int finish(sp_program *p, sp_err *err) {
  int st = sp_program_sync(p, err);
  p->running = false;
  p->next = p->end;
  return st;
}

bool sp_task_runs(const sp_program *p, const sp_task *t, uint64_t tick, uint64_t *step) {
  uint64_t delay = (uint64_t)p->sched.delay[t->index];
  *step = tick - delay;
  return tick >= p->first + delay && *step < p->end && *step % (uint64_t)t->every == (uint64_t)t->phase;
}

static int perform(sp_program *p, sp_task *t, uint64_t step, sp_err *err) {
  bool done = false;
  int st;
  if (lane_of(t)->host) {
    st = host_waits(p, t, step, err);
    return st || t->kind != SP_TASK_FILL ? st : fill_lane(p, t, step, err);
  }
  st = sp_capture_task(p, t, step, &done, err);
  return st || done ? st : sp_task_submit(p, t, step, err);
}

int sp_program_next(sp_program *p, const sp_result **res, sp_err *err) {
  int st;
  *res = NULL;
  if (!p->running || p->halted) return p->halted ? give_up(p, err) : SP_OK;
  for (;;) {
    if (p->delivered >= p->end) return finish(p, err);
    if (p->pos == 0 && p->tick < p->end) begin_step(p, p->tick);
    if (p->pos == 0 && (st = sp_capture_begin_tick(p, err))) return give_up(p, err);
    while (p->pos < p->n_tasks) {
      sp_task *t = &p->tasks[p->sched.order[p->pos++]];
      uint64_t step;
      if (!sp_task_runs(p, t, p->tick, &step)) continue;
      if (t->kind == SP_TASK_COLLECT) {
        if (collect(p, t, step, err)) return give_up(p, err);
        p->delivered = step + 1;
        *res = &p->result;
        return SP_OK;
      }
      if (perform(p, t, step, err)) return give_up(p, err);
    }
    if ((st = sp_capture_end_tick(p, err))) return give_up(p, err);
    p->pos = 0;
    p->tick++;
  }
}

/* ---- the graph's own loop ---- */
int sp_graph_build(sp_graph *g, sp_err *err) {
  int st = sp_graph_plan_program(g, err);
  if (st || g->train->built) return st;
  st = sp_graph_check_memory(g, g->train, err);
  if (!st && !g->initialised) st = sp_graph_init_weights(g, err);
  if (!st) st = sp_program_build(g->train, err);
  if (st) { /* may be tried again */
    sp_program_free(g->train);
    g->train = NULL;
  }
  return st;
}

int sp_graph_schedule_info(sp_graph *g, sp_schedule_info *info, sp_err *err) {
  int st = sp_graph_plan_program(g, err);
  if (st) return st;
  *info = (sp_schedule_info){.strategy = g->strategy,
                             .n_lanes = g->train->n_lanes - 1,
                             .n_tasks = g->train->n_tasks,
                             .n_waits = g->train->sched.n_waits,
                             .n_derived = g->train->sched.n_derived,
                             .depth = g->train->sched.depth,
                             .n_segments = g->train->tick_graph ? 1 : g->train->n_segments,
                             .phases = g->train->ring,
                             .launches = g->train->launches};
  return SP_OK;
}

int sp_graph_describe(sp_graph *g, sp_sb *out, sp_err *err) {
  int st = sp_graph_plan_program(g, err);
  sp_program *p = g->train;
  if (st) return st;
  sp_sb_putf(out,
             "strategy %s: %zu lanes, %zu waits (%zu before those implied by others were left out), proved race-free\n",
             g->strategy, p->n_lanes - 1, p->sched.n_waits, p->sched.n_derived);
  for (size_t l = 0; l < p->n_lanes; l++) {
    if (!p->lanes[l].host) sp_sb_putf(out, "lane %s: delay %d\n", p->lanes[l].name, p->lanes[l].delay);
    else sp_sb_putf(out, "host: collects a step's metrics %d ticks after it began\n", p->collect_delay);
    for (size_t i = 0; i < p->n_tasks; i++) {
      const sp_sched_item *item = &p->sched.items[i];
      if (p->tasks[i].lane != (int)l) continue;
      sp_sb_putf(out, "  %s", p->tasks[i].name);
      for (size_t k = 0; k < item->n_waits; k++) {
        sp_sb_putf(out, "%s %s", k ? "," : " waits for", p->tasks[item->waits[k].task].name);
        if (item->waits[k].back) sp_sb_putf(out, " of step -%d", item->waits[k].back);
      }
      sp_sb_put(out, item->record ? (item->n_waits ? "; records\n" : " records\n") : "\n");
    }
  }
  for (size_t i = 0; i < p->n_bufs; i++)
    if (p->bufs[i].bytes)
      sp_sb_putf(out, "buffer %s: %d x %zu bytes\n", p->bufs[i].name, p->bufs[i].slots, p->bufs[i].bytes);
  return out->broken ? sp_nomem(err, out->n, "a description") : SP_OK;
}

int sp_graph_begin(sp_graph *g, uint64_t n, sp_err *err) {
  int st = sp_graph_build(g, err);
  if (st) return st;
  uint64_t first = g->train->next, k = (uint64_t)g->accumulate;
  if (g->sought && first % k)
    return sp_fail(err, SP_E_RANGE,
                   "step %" PRIu64 " is no place to begin: with accumulate = %d the gradients of the %" PRIu64
                   " step(s) before it would be missing; take a multiple",
                   first, g->accumulate, first % k);
  if (n > UINT64_MAX / 2) return sp_fail(err, SP_E_RANGE, "%" PRIu64 " steps are too many", n);
  if ((st = sp_graph_keep_statistics(g, err)) || (st = sp_program_begin(g->train, first, n, err))) return st;
  g->sought = false;
  return SP_OK;
}

int sp_graph_next(sp_graph *g, const sp_result **res, sp_err *err) {
  *res = NULL;
  return g->train ? sp_program_next(g->train, res, err) : SP_OK;
}

int sp_graph_stop(sp_graph *g, sp_err *err) {
  sp_program *p = g->train;
  uint64_t end;
  const sp_result *res;
  int st = SP_OK;
  if (!p || !p->running) return SP_OK;
  end = p->delivered + (uint64_t)g->opts.run_ahead;
  if (p->delivered == p->first) end = p->first; /* nothing was seen yet: as if the loop had not begun */
  if (end < p->end) p->end = end;
  while (p->running && !st) st = sp_program_next(p, &res, err);
  return st;
}

int sp_graph_drain(sp_graph *g, sp_err *err) {
  if (!g->train || !g->train->built) return SP_OK;
  return sp_program_sync(g->train, err);
}

uint64_t sp_graph_step(const sp_graph *g) { return g->train ? g->train->next : g->start; }

int sp_graph_seek(sp_graph *g, uint64_t step, sp_err *err) {
  if (g->train && g->train->running) return sp_fail(err, SP_E_STATE, "seek within a loop");
  if (step >> 53) return sp_fail(err, SP_E_RANGE, "seek to step %" PRIu64 ": that is too far", step);
  if (step != sp_graph_step(g)) g->sought = true;
  *(g->train ? &g->train->next : &g->start) = step;
  return SP_OK;
}

int sp_graph_epoch_steps(sp_graph *g, uint64_t *steps, sp_err *err) {
  int st = sp_graph_plan_program(g, err);
  *steps = !st && g->train->has_sampler ? g->train->sampler.steps : 0;
  return st;
}

uint64_t sp_graph_allocations(const sp_graph *g) { return g->allocations; }
