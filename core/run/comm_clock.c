/* SPDX-License-Identifier: MIT
 * comm_clock.c - see comm_clock.h. */
#include "run/comm_clock.h"

#include "params/params.h"

#include <stdlib.h>

#define EVERY 16 /* steps */
#define LAG 2    /* steps from the one that is looked at, whose events are over with it, to when it is told */

struct sp_comm_clock {
  void **event; /* [cap] in pairs */
  size_t n, cap;
  uint64_t every;  /* steps, of which the last is looked at */
  uint64_t step;   /* 1 + the one that the events are of; 0: none */
  uint64_t behind; /* 1 + the first one behind a pause */
  bool paused;
};

/* A mark around collectives, or a graph that has some: what a lane launches is of that lane alone. */
static bool has_comm(const sp_op *op) {
  for (int i = 1; op->kind == SP_OP_LAUNCH && i <= op->n; i++)
    if (op[i].kind == SP_OP_COMM) return true;
  return op->kind == SP_OP_MARK;
}

static size_t count(const sp_machine *m) {
  size_t n = 0, micro = (size_t)m->p->micro;
  for (size_t i = 0; i < m->ops.n; i++) {
    const sp_op *op = &m->ops.op[i];
    if (op->kind != SP_OP_MARK || op->from != SP_MARK_COMM || op->back) continue;
    size_t every = (size_t)m->p->tasks[op->task].every;
    n += (micro + every - 1) / every;
  }
  return n;
}

int sp_comm_clock_new(sp_comm_clock **out, const sp_machine *m, sp_err *err) {
  size_t n = 2 * count(m);
  int st = SP_OK;
  if (!n) return SP_OK;
  sp_comm_clock *c = *out = sp_graph_zalloc(m->g, 1, sizeof *c, "times", err);
  if (!c || !(c->event = sp_graph_zalloc(m->g, n, sizeof *c->event, "times", err))) return err->status;
  c->paused = true;
  /* so many steps have begun while one ends, and none of them may be the next that is looked at */
  uint64_t ahead = (uint64_t)m->p->sched.depth / (uint64_t)m->p->micro + 1;
  for (c->every = EVERY; c->every <= ahead + LAG;) c->every *= 2;
  for (; c->cap < n && !st; c->cap += !st)
    st = sp_place_event(&m->g->main, SP_EVENT_TIMING, "times", &c->event[c->cap], err);
  return st;
}

void sp_comm_clock_free(sp_comm_clock *c, const sp_machine *m) {
  for (size_t i = 0; c && i < c->cap; i++) m->g->main.type->event_close(c->event[i]);
  if (c) free(c->event);
  free(c);
}

void sp_comm_clock_pause(sp_comm_clock *c) {
  if (c) c->paused = true;
}

int sp_comm_clock_mark(sp_comm_clock *c, const sp_loop *l, const sp_op *op, uint64_t pass, int behind, sp_err *err) {
  const sp_machine *m = l->m;
  if (!c) return SP_OK;
  uint64_t step = pass / (uint64_t)m->p->micro;
  if (!has_comm(op)) return SP_OK;
  if (c->paused) c->paused = false, c->behind = step + 1, c->step = c->step > step ? 0 : c->step;
  if (step % c->every != c->every - 1 || c->behind == step + 1) return SP_OK;
  if (c->step != step + 1) c->n = 0;
  c->step = step + 1;
  if (c->n % 2 != (size_t)behind || c->n == c->cap) return SP_OK; /* of a step that was broken off, and began again */
  return sp_place_record(&m->g->main, c->event[c->n++], sp_machine_stream(m, op->lane)->own, "times", err);
}

static bool read_pair(void *const *event, const sp_device_type *d, double *ms) {
  sp_ctx_holder h;
  sp_err ignored; /* a failure is told where its step is collected */
  sp_ctx *ctx = sp_ctx_for(&h, "times", &ignored);
  int complete = 0;
  return !d->event_query(ctx, event[1], &complete) && complete && !d->event_elapsed(ctx, event[0], event[1], ms);
}

sp_clock_word sp_comm_clock_read(sp_comm_clock *c, const sp_machine *m, uint64_t step, double *seconds) {
  if (!c || !c->step) return SP_CLOCK_NOTHING;
  if (step + 1 < c->step + LAG) return step + 1 == c->step ? SP_CLOCK_LOOKS : SP_CLOCK_NOTHING;
  bool known = c->n > 0 && c->n % 2 == 0;
  *seconds = 0;
  for (size_t i = 0; i < c->n && known; i += 2) {
    double ms = 0;
    known = read_pair(&c->event[i], m->g->main.type, &ms);
    *seconds += ms * 1e-3;
  }
  c->step = 0;
  return known ? SP_CLOCK_TELLS : SP_CLOCK_NOTHING;
}
