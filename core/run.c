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
  c->io.saved = t->saved_buf >= 0 ? p->bufs[t->saved_buf].ptr[step % (uint64_t)p->bufs[t->saved_buf].slots] : NULL;
}

static uint64_t hash_tensor(const sp_tensor *t) {
  int64_t bytes = sp_spec_bytes(&t->spec);
  return bytes > 0 && t->data ? sp_fnv64(SP_FNV64, t->data, (size_t)bytes) : SP_FNV64;
}

/* In the order of name_hashes() in build.c. */
static void hash_call(sp_call *c) {
  const sp_task *t = c->task;
  const sp_node *n = t->node;
  size_t k = 0;
  if (t->kind == SP_TASK_FORWARD) {
    for (unsigned o = 0; o < n->n_out; o++)
      for (uint32_t i = 0; i < c->io.out[o].n; i++) c->hash[k++] = hash_tensor(&c->io.out[o].t[i]);
    for (size_t i = 0; !n->frozen && i < n->n_weights; i++)
      if (n->weights[i].flags & SP_WEIGHT_STATE) c->hash[k++] = hash_tensor(&c->io.weights[i]);
  } else if (t->kind == SP_TASK_BACKWARD && n->trained) {
    for (size_t i = 0; i < n->n_weights; i++)
      if (n->weights[i].flags & SP_WEIGHT_TRAINED)
        c->hash[k++] = hash_tensor(n->inplace ? &c->io.weights[i] : &c->io.dweights[i]);
  } else if (t->kind == SP_TASK_UPDATE) {
    for (uint32_t i = 0; i < c->io.out[0].n; i++) c->hash[k++] = hash_tensor(&c->io.out[0].t[i]);
  }
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

static int run_call(void *arg, void *native) {
  sp_call *c = arg;
  sp_task *t = c->task;
  void *lane = &t->prog->lanes[t->lane];
  int st = t->kind == SP_TASK_BACKWARD ? sp_inst_backward(t->node->inst, &c->io, c->step, native, lane, &c->err)
                                       : sp_inst_forward(t->node->inst, &c->io, c->step, native, lane, &c->err);
  if (st) keep_failure(t, c->step, &c->err);
  else if (t->n_hashes) hash_call(c);
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

static int fill_step(sp_program *p, sp_task *t, sp_call *c, uint64_t step, sp_err *err) {
  sp_graph *g = p->g;
  sp_node *n = t->node;
  uint64_t r = step % (uint64_t)p->ring;
  size_t batch = p->source ? (size_t)p->source->opts.batch : 1;
  double lr = NAN;
  int st;
  sp_call_fill(c, step, p->step_n[r]);
  if (p->training && g->training && (n->optimizer || (t->kind == SP_TASK_BACKWARD && n->inplace))) {
    if ((st = step_lr(p, step, &lr, err))) return keep_failure(t, step, err);
    c->dw_scale = -(float)lr;
  }
  c->block.step = step;
  c->block.epoch = p->has_sampler ? step / p->sampler.steps : 0;
  c->block.key = n->key;
  c->block.n = n->batched ? p->step_n[r] : (uint32_t)n->opts.batch;
  c->block.training = p->training && g->training;
  c->block.loss_scale = 1.0f / (float)g->accumulate;
  memcpy(c->block.live, n->live, sizeof c->block.live);
  c->io.step = &c->block;
  c->io.ids = p->has_sampler ? p->ids + r * batch : NULL;
  c->io.dw_acc = step % (uint64_t)g->accumulate != 0;
  return SP_OK;
}

/* The event of the run of `task` that a wait means, or NULL where that run lies before the first step. */
static void *event_of(sp_program *p, const sp_sched_wait *w, uint64_t step) {
  sp_task *t = &p->tasks[w->task];
  int64_t s = (int64_t)step - w->back, run;
  if (s < t->phase) return NULL;
  run = (s - t->phase) / t->every;
  return t->events[run % p->sched.items[w->task].ring];
}

static int submit(sp_program *p, sp_task *t, uint64_t step, sp_err *err) {
  const sp_device_type *d = p->g->dev_type;
  const sp_sched_item *item = &p->sched.items[t->index];
  void *stream = p->lanes[t->lane].stream;
  sp_call *c = &t->calls[step % (uint64_t)p->ring];
  sp_ctx_holder h;
  sp_ctx *ctx = sp_ctx_for(&h, t->name, err);
  int st = fill_step(p, t, c, step, err);
  for (size_t i = 0; i < item->n_waits && !st; i++) {
    void *e = event_of(p, &item->waits[i], step);
    if (e) st = d->stream_wait(ctx, stream, e);
  }
  if (!st) st = d->stream_submit(ctx, stream, run_call, c);
  if (!st && item->record)
    st = d->event_record(ctx, t->events[((int64_t)step - t->phase) / t->every % item->ring], stream);
  return st;
}

/* ---- collecting a step ---- */
static int check_status(const sp_metric_slot *m, const int64_t *v, uint64_t step, sp_err *err) {
  const char *words = m->node->inst->type->status_doc, *names[] = {"%sample", "%value", "%limit"};
  sp_sb sb = {0};
  if (!v[0]) return SP_OK;
  for (const char *s = words ? words : "sample %sample: bad value %value"; *s;) {
    int hit = -1;
    for (int i = 0; i < 3; i++)
      if (!strncmp(s, names[i], strlen(names[i]))) hit = i;
    if (hit >= 0) {
      sp_sb_putf(&sb, "%" PRId64, hit ? v[hit + 1] : (int64_t)SP_ID_INDEX(v[1]));
      s += strlen(names[hit]);
    } else {
      sp_sb_putf(&sb, "%c", *s++);
    }
  }
  sp_fail(err, SP_E_DATA, "stage '%s' step %" PRIu64 ": %s", m->node->name, step, sp_sb_str(&sb));
  sp_sb_free(&sb);
  return err->status;
}

static int collect(sp_program *p, sp_task *t, uint64_t step, sp_err *err) {
  const sp_device_type *d = p->g->dev_type;
  const sp_sched_item *item = &p->sched.items[t->index];
  sp_graph *g = p->g;
  sp_ctx_holder h;
  size_t k = 0;
  int st = SP_OK;
  for (size_t i = 0; i < item->n_waits && !st; i++) {
    void *e = event_of(p, &item->waits[i], step);
    if (e) st = d->event_sync(sp_ctx_for(&h, "the step loop", err), e);
  }
  if (st) return st;
  for (size_t i = 0; i < p->n_metrics; i++) {
    const sp_metric_slot *m = &p->metrics[i];
    const sp_port *port = sp_node_out_port(m->node, (unsigned)m->port);
    const sp_buf *b = &p->bufs[m->buf];
    const void *data = b->ptr[step % (uint64_t)b->slots];
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
    s = g->dev_type->stream_sync(sp_ctx_for(&h, p->lanes[i].name, &mine), p->lanes[i].stream);
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
  g->train->halted = true; /* a loop within which an evaluation failed ends too */
  if (g->failed) *err = g->failure;
  else g->failure = *err; /* the device's, not a stage's */
  g->failed = true;
  return err->status;
}

static int finish(sp_program *p, sp_err *err) {
  int st = sp_program_sync(p, err);
  p->running = false;
  p->next = p->end;
  return st;
}

int sp_program_next(sp_program *p, const sp_result **res, sp_err *err) {
  *res = NULL;
  if (!p->running || p->halted) return p->halted ? give_up(p, err) : SP_OK;
  for (;;) {
    if (p->delivered >= p->end) return finish(p, err);
    if (p->pos == 0 && p->tick < p->end) begin_step(p, p->tick);
    while (p->pos < p->n_tasks) {
      int i = p->sched.order[p->pos++];
      sp_task *t = &p->tasks[i];
      uint64_t delay = (uint64_t)p->sched.delay[i], step = p->tick - delay;
      if (p->tick < p->first + delay || step >= p->end) continue;
      if (step % (uint64_t)t->every != (uint64_t)t->phase) continue;
      if (t->kind == SP_TASK_COLLECT) {
        if (collect(p, t, step, err)) return give_up(p, err);
        p->delivered = step + 1;
        *res = &p->result;
        return SP_OK;
      }
      if (submit(p, t, step, err)) return give_up(p, err);
    }
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
                             .depth = g->train->sched.depth};
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
  if ((st = sp_program_begin(g->train, first, n, err))) return st;
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
