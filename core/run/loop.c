/* SPDX-License-Identifier: MIT
 * loop.c - the step loop. */
#include "run/loop.h"

#include <inttypes.h>
#include <math.h>

#include "base/cure.h"
#include "run/requests.h"

void sp_loop_init(sp_loop *l, sp_machine *m) { *l = (sp_loop){.m = m, .lr = NAN}; }

/* The statistics of a batch may need more than one sample: that a short batch lacks them is known before the first
 * step, not only at the end of an epoch. */
static int check_batches(const sp_machine *m, uint64_t first, uint64_t n, sp_err *err) {
  const sp_feed *f = &m->feed;
  if (!m->has_feed || !m->p->training || !m->p->source) return SP_OK;
  bool ends = f->sizes[1] && f->steps && (!n || n >= f->steps - first % f->steps); /* the loop gets to an epoch's end */
  uint32_t least = ends && f->sizes[1] < f->sizes[0] ? f->sizes[1] : f->sizes[0];
  for (size_t i = 0; i < m->g->n_nodes; i++) {
    const sp_node *node = m->g->nodes[i];
    const sp_attr *wants = sp_node_attr(node, "least_batch");
    if (!wants || wants->value <= least || !sp_program_has(m->p, node)) continue;
    int status =
        sp_fail(err, SP_E_SHAPE,
                "stage '%s': the statistics of a batch norm need at least %.0f samples, and %s has %" PRIu32 ": %s",
                node->name, wants->value, ends ? "the last batch of an epoch" : "a batch", least,
                ends ? "take another batch, or `drop_last = true`" : "take a larger batch, or freeze the stage");
    sp_cure_words(err->msg, sizeof err->msg, m->p->source->inst->type->name);
    return status;
  }
  return SP_OK;
}

/* Where steps end that may begin: who looks at the weights at a pause finds the updates of the steps before it, and no
 * others. */
static uint64_t next_pause(const sp_loop *l) {
  uint64_t end = l->last, micro = (uint64_t)l->m->p->micro, step = l->first / micro;
  for (size_t i = 0; i < l->n_pauses; i++) {
    uint64_t at = (step / l->pauses[i] + 1) * l->pauses[i] * micro;
    if (at < end) end = at;
  }
  return end;
}

/* The next step that begins is `first`. */
static void set_out(sp_loop *l, uint64_t first) {
  l->first = l->next = l->tick = l->delivered = l->early = first;
  l->end = next_pause(l);
  l->pos = 0;
  if (l->m->queue) sp_requests_reset(l);
}

int sp_loop_begin(sp_loop *l, uint64_t first, uint64_t n, sp_err *err) {
  const sp_node *opt = l->m->g->train.optimizer;
  if (l->running) return sp_fail(err, SP_E_STATE, "a loop is under way already");
  if (sp_machine_refresh(l->m, err) || check_batches(l->m, first, n, err)) return err->status;
  l->last = n ? first + n : UINT64_MAX;
  set_out(l, first);
  if (sp_timeline_begin(l, n, err)) return err->status;
  l->running = true;
  l->lr_step = 0;
  if (l->m->g->train.on && isnan(l->lr)) { /* what is told until the first update */
    int i = sp_params_find_live(opt->inst->type->params, "lr", NULL);
    if (i >= 0) l->lr = (double)opt->live[i];
  }
  return SP_OK;
}

void sp_loop_cut(sp_loop *l, uint64_t end) {
  if (end < l->end) l->end = end;
  l->last = l->end; /* what lies behind a pause has not begun */
}

bool sp_loop_pauses(const sp_loop *l) { return l->running && l->delivered == l->end && l->end < l->last; }

/* Where a stage has failed, no step from there on is collected any more. */
static uint64_t end_of(const sp_loop *l) {
  uint64_t failed = sp_failure_step(&l->m->failure);
  return failed < l->end ? failed : l->end;
}

/* Behind a failure nothing runs, but all that comes before it in serialized order does: it may fail too, and then is
 * the one to be told. */
bool sp_loop_runs(const sp_loop *l, int task, uint64_t *step) {
  const sp_task *t = &l->m->p->tasks[task];
  uint64_t delay = (uint64_t)l->m->p->sched.delay[task];
  *step = l->tick - delay;
  bool over = *step < (t->kind == SP_TASK_COLLECT ? l->delivered : l->early);
  return l->tick >= l->first + delay && *step < l->end && !over && !sp_failure_before(&l->m->failure, *step, task) &&
         (t->every == 1 || *step % (uint64_t)t->every == (uint64_t)t->phase);
}

/* What the host knows of a step before any lane runs it. Requests may have to be answered first. */
static sp_requests_next begin_step(sp_loop *l, uint64_t step) {
  sp_machine *m = l->m;
  sp_known *k = &m->known[step % (uint64_t)m->p->ring];
  if (m->queue) return sp_requests_begin(l, step);
  k->n = m->has_feed ? m->feed.take(m->feed.self, step, m->ids + step % (uint64_t)m->p->ring * m->batch) : 1;
  k->real = k->n;
  k->full = !m->has_feed || (m->g->store.reduce ? sp_sampler_full(&m->sampler, step) : k->n == m->batch);
  return SP_REQUESTS_BEGUN;
}

int sp_loop_settle(sp_loop *l, sp_err *err) {
  int st = sp_machine_sync(l->m, err);
  if (!st || sp_failure_step(&l->m->failure) == SP_NO_STEP) return st;
  return sp_machine_reopen(l->m, err);
}

/* Everything stops; the words are those of the stage that failed first, where one did. A device that has failed is
 * first seen by some stage or other. */
static int give_up(sp_loop *l, sp_err *err) {
  sp_err ignored;
  sp_machine_sync(l->m, &ignored);
  l->running = false;
  sp_timeline_read(l, true, &ignored);
  sp_failure_get(&l->m->failure, err);
  sp_collect_suspect(l, err);
  return err->status;
}

/* Lanes are as before the first step, and their streams as they were left. */
static int resume(sp_loop *l, sp_err *err) {
  int st = sp_loop_settle(l, err);
  if (st) return give_up(l, err);
  set_out(l, l->end);
  return SP_OK;
}

/* A failure of a step behind the end is nobody's: in serialized order it would not have come to it. */
static int finish(sp_loop *l, sp_err *err) {
  if (sp_failure_step(&l->m->failure) < l->end) return give_up(l, err);
  int st = sp_loop_settle(l, err);
  if (st) return give_up(l, err);
  sp_failure_clear(&l->m->failure);
  if ((st = sp_timeline_read(l, false, err))) return give_up(l, err);
  l->running = false;
  l->next = l->end;
  return SP_OK;
}

static int collect(sp_loop *l, const sp_op *op, uint64_t step, sp_err *err) {
  bool traced = sp_trace_wants(&l->m->watch, step);
  double since = traced ? sp_now() : 0;
  int st = sp_collect(l, step, err);
  if (!traced) return st;
  sp_timeline_host(l, SP_SLICE_TASK, op->task, step, since, sp_now());
  return st;
}

/* One operation, if it is to be done in this tick; *over: it was the end of a step. */
static int perform(sp_loop *l, const sp_op *op, bool *over, sp_err *err) {
  uint64_t step = l->tick;
  *over = false;
  if (op->task >= 0 && !sp_loop_runs(l, op->task, &step)) return SP_OK;
  *over = op->kind == SP_OP_COLLECT;
  int st = *over ? collect(l, op, step, err) : sp_submit(l, &l->pos, op, step, err);
  if (!st || step < end_of(l) || op->task < 0) return st;
  *over = false; /* the failure is this step's or an older one's beyond the end: the steps before it go on */
  return SP_OK;
}

/* What lanes behind the last that has run still lack of the steps before `bound`, as at the end of a loop, but nothing
 * is collected: the host only waits where it would. A tick that is launched has later steps too, so here its calls are
 * made one by one. */
static int play_behind(sp_loop *l, uint64_t bound, sp_err *err) {
  const sp_program *p = l->m->p;
  const sp_loop now = *l;
  int st = SP_OK;
  l->end = bound;
  for (; l->tick < bound + (uint64_t)p->sched.depth && !st; l->tick++, l->pos = 0)
    while (l->pos < l->m->ops.n && !st) {
      const sp_op *op = &l->m->ops.op[l->pos++];
      uint64_t step;
      if (op->task < 0 || op->kind == SP_OP_COLLECT || !sp_loop_runs(l, op->task, &step)) continue;
      st = sp_submit(l, &l->pos, op, step, err);
      if (step >= end_of(l)) st = SP_OK; /* the failure is kept; what comes before it goes on */
    }
  l->tick = now.tick;
  l->pos = now.pos;
  l->end = now.end;
  return st;
}

int sp_loop_reach(sp_loop *l, uint64_t bound, sp_err *err) {
  int st = sp_loop_settle(l, err); /* nothing looks late at an event that is recorded early */
  if (bound > l->end) bound = l->end;
  if (st || !l->running || l->delivered == l->first || bound <= l->early) return st;
  st = play_behind(l, bound, err);
  l->early = bound;
  return st ? st : sp_loop_settle(l, err);
}

/* What is left of the tick, up to the end of a step. */
static int play_tick(sp_loop *l, bool *over, sp_err *err) {
  *over = false;
  while (l->pos < l->m->ops.n && !*over)
    if (perform(l, &l->m->ops.op[l->pos++], over, err)) return err->status;
  return SP_OK;
}

int sp_loop_collector(const sp_loop *l, uint64_t step) {
  const sp_task *t = l->m->p->tasks;
  while (t->kind != SP_TASK_COLLECT || step % (uint64_t)t->every != (uint64_t)t->phase) t++;
  return t->index;
}

/* The next step, before its tick comes to that: the host only knows earlier what it would know then. */
static int collect_now(sp_loop *l, bool *over, sp_err *err) {
  uint64_t step = l->delivered;
  int task = sp_loop_collector(l, step), st = SP_OK;
  for (size_t i = 0; i < l->m->ops.n && !st; i++) {
    const sp_op *op = &l->m->ops.op[i];
    if (op->task != task) continue;
    st = op->kind == SP_OP_COLLECT ? collect(l, op, step, err) : sp_submit(l, &l->pos, op, step, err);
  }
  *over = !st;
  return step < end_of(l) ? st : SP_OK; /* as in perform() */
}

/* Answers have been given that belong to no step. */
static int tell_answers(sp_loop *l, bool *over) {
  l->result = (sp_result){.step = l->delivered, .lr = NAN, .time = sp_now(), .between = true};
  *over = true;
  return SP_OK;
}

/* Up to the end of a step, or all of the tick. */
static int go_on(sp_loop *l, bool *over, sp_err *err) {
  sp_requests_next what = SP_REQUESTS_BEGUN;
  if (l->pos == 0 && l->tick < l->end) what = begin_step(l, l->tick);
  if (what == SP_REQUESTS_TOLD) return tell_answers(l, over);
  if (what == SP_REQUESTS_OVER) return collect_now(l, over, err);
  int st = play_tick(l, over, err);
  if (st || *over) return st;
  l->pos = 0;
  l->tick++;
  return SP_OK;
}

static int next(sp_loop *l, const sp_result **res, sp_err *err) {
  bool over;
  for (;;) {
    if (sp_loop_pauses(l) && sp_failure_step(&l->m->failure) == SP_NO_STEP && resume(l, err)) return err->status;
    if (l->delivered >= end_of(l)) { /* a lane that is behind may fail at what comes before, and is the one to tell */
      if (end_of(l) < l->end && play_behind(l, end_of(l) + 1, err)) return give_up(l, err);
      return finish(l, err);
    }
    if (go_on(l, &over, err)) return give_up(l, err);
    if (over && l->delivered % (uint64_t)l->m->p->micro) continue; /* of a step that has more passes */
    if (over) {
      *res = &l->result;
      return SP_OK;
    }
  }
}

/* What the host did for this result, and before it the script. The trace's file is written where its last step is
 * over. */
static int trace(sp_loop *l, double since, sp_err *err) {
  uint64_t step = l->delivered - 1;
  double now = sp_now();
  if (l->left) sp_timeline_host(l, SP_SLICE_SCRIPT, -1, step, l->left, since);
  sp_timeline_host(l, SP_SLICE_LOOP, -1, step, since, now);
  sp_trace *t = l->m->g->opts.trace;
  int st = SP_OK;
  if (!l->m->p->stand_in) {
    if (sp_trace_is_last(t, &l->m->watch, step)) st = sp_timeline_read(l, true, err);
    if (!st) st = sp_trace_over(t, &l->m->watch, step, err);
  }
  l->left = sp_now();
  return st;
}

int sp_loop_next(sp_loop *l, const sp_result **res, sp_err *err) {
  *res = NULL;
  if (!l->running) return SP_OK;
  bool traced = l->m->watch.n;
  double since = traced ? sp_now() : 0;
  if (l->m->queue) sp_gate_back(&l->m->gate, sp_now());
  sp_range_push(l->m, "step", l->delivered);
  int st = next(l, res, err);
  sp_range_pop(l->m);
  if (!st && *res && traced && !l->result.between) st = trace(l, since, err);
  if (l->m->queue) sp_gate_leave(&l->m->gate, sp_now());
  return st;
}
