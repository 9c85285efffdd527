/* SPDX-License-Identifier: MIT
 * predict.c - plays a list of operations with a clock: the host submits in order, each lane does in order what it was
 * given, and lanes that work at the same time slow each other down. Each step of the clock goes to the next moment at
 * which anything is done. */
#include "schedule/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

enum { AFTER = 8, STEPS = 64 }; /* steps until all is under way, and steps that count */

typedef enum { WAIT, WORK, RECORD, MEET } kind;

/* What a lane has been given. */
typedef struct item {
  kind kind;
  int task;    /* WAIT: whose event */
  int64_t run; /* WAIT: of which run of it; MEET: which launch */
  double left; /* WORK */
} item;

typedef struct track {
  item *q;
  size_t head, n, cap;
} track;

typedef struct play {
  const sp_predict_in *in;
  track *lanes;    /* [lane] */
  int64_t *events; /* [task] records so far */
  bool *meets;     /* [lane] it takes part in ticks that are launched as one */
  int64_t *met;    /* [lane] launches that it got to, +1 while it stands there */
  int64_t launches;
  uint64_t tick;
  size_t pos;
  int body;       /* operations left of a launch, which cost the host nothing more */
  bool submitted; /* the operation at pos is under way */
  double host;    /* seconds until it is done */
  double now, from;
  uint64_t steps; /* collected */
  sp_predicted *out;
} play;

/* ---- what the list says ------------------------------------------------------------------------------------------ */

/* The run of a task at `step`, -1: before its first; false: it does not run then. */
static int64_t run_of(const sp_sched_task *t, int64_t step) {
  return step < t->phase ? -1 : (step - t->phase) / t->every;
}

static bool runs(const play *p, int task, int64_t *step) {
  const sp_sched_task *t = &p->in->in->tasks[task];
  *step = (int64_t)p->tick - sp_sched_delay(p->in->in, task);
  return *step >= 0 && *step % t->every == t->phase;
}

static bool happened(const play *p, int task, int64_t run) { return run < p->events[task]; }

static double host_cost(const play *p, const sp_op *op) {
  if (op->kind == SP_OP_LAUNCH) return p->in->launch;
  if (p->body) return 0;
  return op->kind == SP_OP_CALL || op->kind == SP_OP_COPY || op->kind == SP_OP_COMM ? p->in->submit[op->task]
                                                                                    : p->in->other;
}

/* ---- giving to lanes --------------------------------------------------------------------------------------------- */

static int give(play *p, int lane, item it, sp_err *err) {
  track *t = &p->lanes[lane];
  if (t->head > 64 && 2 * t->head > t->n) {
    memmove(t->q, t->q + t->head, (t->n - t->head) * sizeof *t->q);
    t->n -= t->head;
    t->head = 0;
  }
  if (!sp_grow(&t->q, &t->cap, t->n + 1, sizeof *t->q)) return sp_nomem(err, sizeof it, "a prediction");
  t->q[t->n++] = it;
  return SP_OK;
}

/* A tick as one graph begins when the one before is over. */
static int meet(play *p, const sp_op *launch, sp_err *err) {
  int st = SP_OK;
  for (int i = 1; i <= launch->n; i++) p->meets[launch[i].lane] = true;
  for (size_t l = 0; l < p->in->in->n_lanes && !st; l++)
    if (p->meets[l]) st = give(p, (int)l, (item){.kind = MEET, .run = p->launches}, err);
  p->launches++;
  return st;
}

static int submit(play *p, const sp_op *op, int64_t step, sp_err *err) {
  switch (op->kind) {
    case SP_OP_CALL:
    case SP_OP_COPY:
    case SP_OP_COMM: return give(p, op->lane, (item){.kind = WORK, .left = p->in->cost[op->task]}, err);
    case SP_OP_RECORD: return op->task < 0 ? SP_OK : give(p, op->lane, (item){.kind = RECORD, .task = op->task}, err);
    case SP_OP_WAIT: {
      int64_t run = run_of(&p->in->in->tasks[op->from], step - op->back);
      return give(p, op->lane, (item){.kind = WAIT, .task = op->from, .run = run}, err);
    }
    case SP_OP_LAUNCH: p->body = op->n; return op->task < 0 ? meet(p, op, err) : SP_OK;
    case SP_OP_COLLECT:
      if (++p->steps == AFTER) p->from = p->now;
      return SP_OK;
    default: return SP_OK;
  }
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

static void next_op(play *p) {
  p->submitted = false;
  if (++p->pos < p->in->ops->n) return;
  p->pos = 0;
  p->tick++;
}

/* What the host can do now; *moved: it did. A LAUNCH without a task belongs to every tick, as do its records. */
static int step_host(play *p, bool *moved, sp_err *err) {
  const sp_op *op = &p->in->ops->op[p->pos];
  int64_t step = (int64_t)p->tick;
  int st = SP_OK;
  *moved = false;
  if (p->host > 0) return SP_OK;
  *moved = true;
  if (p->submitted) {
    bool inside = p->body > 0;
    if (op->task < 0 || runs(p, op->task, &step)) st = submit(p, op, step, err);
    if (inside) p->body--;
    next_op(p);
    return st;
  }
  if (op->task >= 0 && !runs(p, op->task, &step)) {
    if (p->body) p->body--;
    if (op->kind == SP_OP_LAUNCH) p->body = op->n;
    next_op(p);
    return SP_OK;
  }
  if (op->kind == SP_OP_SYNC) {
    *moved = happened(p, op->from, run_of(&p->in->in->tasks[op->from], step - op->back));
    if (!*moved) return SP_OK;
  }
  p->submitted = true;
  p->host = host_cost(p, op);
  return SP_OK;
}

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

static bool working(const track *t) { return t->head < t->n && t->q[t->head].kind == WORK; }

/* All lanes that take part have got there. */
static bool all_met(const play *p, int64_t launch) {
  for (size_t l = 0; l < p->in->in->n_lanes; l++)
    if (p->meets[l] && p->met[l] <= launch) return false;
  return true;
}

static bool step_lane(play *p, size_t lane) {
  track *t = &p->lanes[lane];
  if (t->head == t->n) return false;
  const item *it = &t->q[t->head];
  switch (it->kind) {
    case WORK:
      if (it->left > 0) return false;
      break;
    case WAIT:
      if (!happened(p, it->task, it->run)) return false;
      break;
    case RECORD: p->events[it->task]++; break;
    case MEET: {
      bool here = p->met[lane] > it->run;
      p->met[lane] = it->run + 1;
      if (!all_met(p, it->run)) return !here;
      break;
    }
  }
  t->head++;
  return true;
}

/* How fast a lane works beside those that do now. */
static double speed(const play *p, size_t lane) {
  double slow = 1;
  size_t n = p->in->in->n_lanes;
  for (size_t j = 0; j < n; j++)
    if (j != lane && working(&p->lanes[j])) slow += p->in->share[lane * n + j];
  return 1 / slow;
}

/* To the next moment at which something is done; false: there is none. */
static bool pass_time(play *p) {
  size_t n = p->in->in->n_lanes;
  double dt = p->host > 0 ? p->host : INFINITY;
  for (size_t l = 0; l < n; l++)
    if (working(&p->lanes[l])) dt = fmin(dt, p->lanes[l].q[p->lanes[l].head].left / speed(p, l));
  if (isinf(dt)) return false;
  bool counts = p->steps >= AFTER;
  for (size_t l = 0; l < n; l++) /* how fast each is must not hang on what was done to the one before */
    if (working(&p->lanes[l])) p->out->work[l] += counts ? dt * speed(p, l) : 0;
  for (size_t l = 0; l < n; l++) {
    if (!working(&p->lanes[l])) continue;
    double *left = &p->lanes[l].q[p->lanes[l].head].left, rest = *left - dt * speed(p, l);
    p->out->busy[l] += counts ? dt : 0;
    *left = rest > 1e-12 ? rest : -1; /* done, but in the queue, so that speeds stay until all have moved */
  }
  if (p->host > 0) {
    p->out->host += counts ? dt : 0;
    p->host -= dt;
    if (p->host < 1e-12) p->host = 0;
  }
  p->now += dt;
  return true;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int play_all(play *p, sp_err *err) {
  while (p->steps < AFTER + STEPS) {
    for (bool moved = true, host; moved && p->steps < AFTER + STEPS;) {
      if (step_host(p, &host, err)) return err->status;
      moved = host;
      for (size_t l = 0; l < p->in->in->n_lanes; l++)
        while (step_lane(p, l)) moved = true;
    }
    if (p->steps < AFTER + STEPS && !pass_time(p))
      return sp_fail(err, SP_E_INTERNAL, "prediction: nothing goes on behind step %llu", (unsigned long long)p->steps);
  }
  return SP_OK;
}

static void per_step(play *p) {
  p->out->step = (p->now - p->from) / STEPS;
  p->out->host /= STEPS;
  for (size_t l = 0; l < p->in->in->n_lanes; l++) {
    p->out->busy[l] /= STEPS;
    p->out->work[l] /= STEPS;
  }
}

int sp_predict(const sp_predict_in *in, sp_predicted *out, sp_err *err) {
  size_t n = in->in->n_lanes;
  play p = {.in = in, .out = out};
  p.lanes = sp_calloc(n + 1, sizeof *p.lanes);
  p.events = sp_calloc(in->in->n_tasks + 1, sizeof *p.events);
  p.meets = sp_calloc(n + 1, sizeof *p.meets);
  p.met = sp_calloc(n + 1, sizeof *p.met);
  out->step = out->host = 0;
  memset(out->busy, 0, n * sizeof *out->busy);
  memset(out->work, 0, n * sizeof *out->work);
  int st = p.lanes && p.events && p.meets && p.met ? SP_OK : sp_nomem(err, n * sizeof *p.lanes, "a prediction");
  if (!st) st = play_all(&p, err);
  if (!st) per_step(&p);
  for (size_t l = 0; p.lanes && l < n; l++) free(p.lanes[l].q);
  free(p.lanes);
  free(p.events);
  free(p.meets);
  free(p.met);
  return st;
}
