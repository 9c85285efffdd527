/* SPDX-License-Identifier: MIT
 * list.c - the list of operations that a machine executes. It begins as the schedule's; each pass reads a list and
 * writes another. What comes out last is proved.
 *
 * Capture of a lane: operations of one lane that follow each other without a wait or a record between become the body
 * of a LAUNCH, where the last of them was. Capture of a step: all operations of the main device become one body; those
 * of the host and of the cpu's lanes come before it, but for what waits for an event of this very tick, and all that
 * follows in its lane. Neither knows whether the new order is right: the proof does. */
#include "params/params.h"
#include "run/machine.h"

#include <stdlib.h>
#include <string.h>

static const sp_task *task_of(const sp_machine *m, const sp_op *op) { return &m->p->tasks[op->task]; }
static bool on_main(const sp_machine *m, int lane) { return m->p->lanes[lane].place == &m->g->main; }
static bool is_host(const sp_machine *m, int lane) { return m->p->lanes[lane].host; }
static int delay_of(const sp_machine *m, int task) { return m->p->sched.delay[task]; }

static bool capturable(const sp_machine *m, const sp_task *t) {
  if (t->kind == SP_TASK_COMM) return m->g->store.reduce->type->flags & SP_COMM_CAPTURABLE;
  return !t->node || sp_task_inst(t)->type->flags & SP_STAGE_CAPTURABLE;
}

/* ---- what goes around single calls ------------------------------------------------------------------------------- */

static int put_around(sp_machine *m, sp_ops *out, const sp_op *op, sp_err *err) {
  const sp_task *t = task_of(m, op);
  bool main = on_main(m, op->lane);
  int st = sp_ops_put(out, *op, err);
  if (!st && sp_checksum_wants(m, t))
    st = sp_ops_put(out, (sp_op){.kind = SP_OP_HASH, .lane = op->lane, .task = op->task}, err);
  if (!st && m->g->sync && main && m->g->border)
    st = sp_ops_put(out, (sp_op){.kind = SP_OP_FINISH, .lane = op->lane, .task = op->task}, err);
  return st;
}

static int pass_around(sp_machine *m, const sp_ops *in, sp_ops *out, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; i < in->n && !st; i++) {
    const sp_op *op = &in->op[i];
    if (sp_op_works(op->kind)) st = put_around(m, out, op, err);
    else st = sp_ops_put(out, *op, err);
  }
  return st;
}

/* ---- capture of a lane ------------------------------------------------------------------------------------------- */

/* A replica's every n-th step is each of its own. */
static bool may_record(const sp_machine *m, const sp_op *op) {
  return on_main(m, op->lane) && sp_op_works(op->kind) &&
         task_of(m, op)->every == m->p->lanes[op->lane].props.replicas && capturable(m, task_of(m, op));
}

/* The operations of op i's lane that belong with it: how many, and the last. One copy alone gains nothing. */
static size_t segment(const sp_machine *m, const sp_ops *in, size_t i, size_t *last) {
  size_t n = 0;
  bool single = false;
  for (size_t k = i; k < in->n; k++) {
    const sp_op *op = &in->op[k];
    if (op->lane != in->op[i].lane) continue;
    if (!may_record(m, op)) break;
    single = n == 0 && op->kind == SP_OP_COPY;
    *last = k;
    n++;
  }
  return single ? 0 : n;
}

static int put_segment(const sp_ops *in, size_t first, size_t last, sp_ops *out, sp_err *err) {
  const sp_op *f = &in->op[first];
  int st = sp_ops_launch(out, f->lane, f->task, err);
  for (size_t k = first; k <= last && !st; k++)
    if (in->op[k].lane == f->lane) st = sp_ops_put(out, in->op[k], err);
  sp_ops_close(out);
  return st;
}

static int pass_lane(sp_machine *m, const sp_ops *in, sp_ops *out, sp_err *err) {
  size_t *first = sp_calloc(in->n + 1, sizeof *first), last = 0; /* at a segment's last: 1 + its first */
  bool *inner = sp_calloc(in->n + 1, sizeof *inner);
  int st = first && inner ? SP_OK : sp_nomem(err, in->n * sizeof *first, "the list of operations");
  for (size_t i = 0; i < in->n && !st; i++) {
    if (inner[i] || !may_record(m, &in->op[i])) continue;
    if (!segment(m, in, i, &last)) continue;
    first[last] = i + 1;
    for (size_t k = i; k <= last; k++) inner[k] = inner[k] || in->op[k].lane == in->op[i].lane;
  }
  for (size_t i = 0; i < in->n && !st; i++)
    if (first[i]) st = put_segment(in, first[i] - 1, i, out, err);
    else if (!inner[i]) st = sp_ops_put(out, in->op[i], err);
  free(first);
  free(inner);
  return st;
}

/* ---- capture of a step ------------------------------------------------------------------------------------------- */

/* The event that is waited for is recorded in the same tick. */
static bool same_tick(const sp_machine *m, const sp_op *op) {
  return delay_of(m, op->from) == delay_of(m, op->task) + op->back;
}

/* Which operations of other lanes cannot be submitted before the device's of their tick. */
static void find_after(const sp_machine *m, const sp_ops *in, bool *after) {
  bool *lane = sp_calloc(m->p->n_lanes + 1, sizeof *lane);
  for (size_t i = 0; lane && i < in->n; i++) {
    const sp_op *op = &in->op[i];
    bool waits = op->kind == SP_OP_WAIT || op->kind == SP_OP_SYNC;
    if (on_main(m, op->lane)) continue;
    if (waits && same_tick(m, op)) {
      int from = m->p->tasks[op->from].lane;
      lane[op->lane] = lane[op->lane] || on_main(m, from) || lane[from];
    }
    after[i] = lane[op->lane];
  }
  free(lane);
}

/* What makes one graph of a tick impossible: the words behind "not with stage NAME", or NULL. */
static const char *obstacle(const sp_machine *m, const sp_ops *in, const bool *after, const char **name) {
  const sp_op *late = NULL;
  for (size_t i = 0; i < in->n; i++) {
    const sp_op *op = &in->op[i];
    if (after[i] && is_host(m, op->lane) && !late) late = op;
    if (!on_main(m, op->lane)) continue;
    const sp_task *t = task_of(m, op);
    *name = t->name;
    if (!capturable(m, t)) {
      *name = t->node ? t->node->name : m->g->store.reduce->type->name;
      return "its calls cannot be recorded";
    }
    if (!late) continue;
    const sp_node *n = task_of(m, late)->moves;
    *name = n ? n->name : task_of(m, late)->name;
    return "it runs on the cpu between two that do not";
  }
  return NULL;
}

/* Somebody on another place waits for an event of the body. */
static int events_of_ticks(const sp_machine *m, const sp_ops *in) {
  int most = 0;
  for (size_t i = 0; i < in->n; i++) {
    const sp_op *op = &in->op[i];
    if ((op->kind != SP_OP_WAIT && op->kind != SP_OP_SYNC) || on_main(m, op->lane)) continue;
    const sp_task *from = &m->p->tasks[op->from];
    int ticks = (in->ring[op->from] + 1) * from->every;
    if (on_main(m, from->lane) && ticks > most) most = ticks;
  }
  return most;
}

static int root_lane(const sp_machine *m) {
  const sp_lane *lanes = m->p->lanes;
  if (on_main(m, m->p->update_lane) && lanes[m->p->update_lane].used) return m->p->update_lane;
  for (size_t l = 0; l < m->p->n_lanes; l++)
    if (on_main(m, (int)l) && lanes[l].used) return (int)l;
  return -1;
}

static int put_tick(sp_machine *m, const sp_ops *in, const bool *after, sp_ops *out, sp_err *err) {
  int root = root_lane(m), st = SP_OK;
  bool any = false;
  for (size_t i = 0; i < in->n; i++) any = any || on_main(m, in->op[i].lane);
  for (size_t i = 0; i < in->n && !st; i++)
    if (!on_main(m, in->op[i].lane) && !after[i]) st = sp_ops_put(out, in->op[i], err);
  if (any && !st) st = sp_ops_launch(out, root, -1, err);
  for (size_t i = 0; i < in->n && !st; i++)
    if (on_main(m, in->op[i].lane)) st = sp_ops_put(out, in->op[i], err);
  sp_ops_close(out);
  out->tick_ring = any ? events_of_ticks(m, in) : 0;
  if (out->tick_ring && !st) st = sp_ops_put(out, (sp_op){.kind = SP_OP_RECORD, .lane = root, .task = -1}, err);
  for (size_t i = 0; i < in->n && !st; i++)
    if (after[i]) st = sp_ops_put(out, in->op[i], err);
  return st;
}

static int pass_step(sp_machine *m, const sp_ops *in, sp_ops *out, bool *possible, sp_err *err) {
  bool *after = sp_calloc(in->n + 1, sizeof *after);
  const char *name = "", *why;
  if (!after) return sp_nomem(err, in->n, "the list of operations");
  find_after(m, in, after);
  why = obstacle(m, in, after, &name);
  *possible = !why;
  if (why) m->capture = SP_CAPTURE_LANE;
  if (why) sp_log(SP_LOG_WARN, "capture = step: not with stage '%s', %s; capture = lane is taken", name, why);
  int st = why ? SP_OK : put_tick(m, in, after, out, err);
  free(after);
  return st;
}

/* ---- what capture has made superfluous --------------------------------------------------------------------------- */

/* The host waits for a stage of the cpu, and for another one before it has anything for the device to do: graphs have
 * moved what lay between. */
static bool host_may_know(const sp_machine *m, const sp_ops *o, size_t i) {
  for (size_t k = i + 1; k < o->n && !on_main(m, o->op[k].lane); k++)
    if (o->op[k].kind == SP_OP_SYNC && o->op[k].task != o->op[i].task) return true;
  return false;
}

/* A lane waits, and the host waits too before it submits what the lane waits with: that stands in a graph with
 * something later, which the host's wait is for. */
static bool submitter_may_know(const sp_machine *m, const sp_ops *o, size_t i) {
  bool waited = false;
  for (size_t k = i + 1; k < o->n && m->capture == SP_CAPTURE_LANE; k++) {
    if (o->op[k].kind == SP_OP_SYNC) waited = true;
    else if (o->op[k].lane == o->op[i].lane && o->op[k].kind != SP_OP_WAIT)
      return waited && o->op[k].kind == SP_OP_LAUNCH;
  }
  return false;
}

static bool may_be_implied(const sp_machine *m, const sp_ops *o, size_t i) {
  const sp_op *op = &o->op[i];
  if (op->kind == SP_OP_SYNC) return task_of(m, op)->kind == SP_TASK_AWAIT && host_may_know(m, o, i);
  return op->kind == SP_OP_WAIT && on_main(m, op->lane) && submitter_may_know(m, o, i);
}

static bool waited_for(const sp_ops *o, int task) {
  for (size_t i = 0; i < o->n; i++)
    if ((o->op[i].kind == SP_OP_WAIT || o->op[i].kind == SP_OP_SYNC) && o->op[i].from == task) return true;
  return false;
}

static void drop_record(sp_ops *o, int task) {
  for (size_t i = o->n; i-- > 0;)
    if (o->op[i].kind == SP_OP_RECORD && o->op[i].task == task) sp_ops_remove(o, i);
}

/* Whether the next wait implies this one the proof says. */
static int pass_implied(const sp_machine *m, sp_ops *o, sp_err *err) {
  sp_op *kept = sp_calloc(o->n + 1, sizeof *kept);
  if (!kept) return sp_nomem(err, o->n * sizeof *kept, "the list of operations");
  for (size_t i = o->n; i-- > 0;) {
    int from = o->op[i].from;
    size_t n = o->n;
    sp_err ignored;
    if (!may_be_implied(m, o, i)) continue;
    memcpy(kept, o->op, n * sizeof *kept);
    sp_ops_remove(o, i);
    if (sp_ops_prove(o, &m->p->in, m->p->sched.slots, &ignored) == SP_OK) {
      if (!waited_for(o, from)) drop_record(o, from);
      if (i > o->n) i = o->n;
      continue;
    }
    memcpy(o->op, kept, n * sizeof *kept);
    o->n = n;
  }
  free(kept);
  return SP_OK;
}

/* ---- timing ------------------------------------------------------------------------------------------------------ */

static int new_list(const sp_machine *m, const sp_ops *like, sp_ops *out, sp_err *err) {
  *out = (sp_ops){.ring = sp_calloc(m->p->n_tasks + 1, sizeof *out->ring)};
  if (!out->ring) return sp_nomem(err, m->p->n_tasks * sizeof *out->ring, "the list of operations");
  memcpy(out->ring, like->ring, m->p->n_tasks * sizeof *out->ring);
  return SP_OK;
}

/* Which of a list's operations are timed, and for whom. */
typedef struct timed {
  bool traced, clocked;
} timed;

static int put_mark(const sp_op *op, int reader, int behind, sp_ops *out, sp_err *err) {
  return sp_ops_put(
      out, (sp_op){.kind = SP_OP_MARK, .lane = op->lane, .task = op->task, .from = reader, .back = behind}, err);
}

static int put_timed(const sp_machine *m, const sp_op *op, timed who, sp_ops *out, sp_err *err) {
  bool trace = who.traced && sp_op_works(op->kind) && op->kind != SP_OP_HASH && sp_timeline_watches(m, task_of(m, op));
  bool clock = who.clocked && op->kind == SP_OP_COMM;
  int status = trace ? put_mark(op, SP_MARK_TRACE, 0, out, err) : SP_OK;
  if (!status && clock) status = put_mark(op, SP_MARK_COMM, 0, out, err);
  if (!status) status = sp_ops_put(out, *op, err);
  if (!status && clock) status = put_mark(op, SP_MARK_COMM, 1, out, err);
  return status || !trace ? status : put_mark(op, SP_MARK_TRACE, 1, out, err);
}

/* Around calls, copies and collectives, in bodies too: those of a graph are done one by one at the ends of a loop and
 * in short batches. Graphs that are launched are timed by who launches them. */
static int pass_marks(const sp_machine *m, const sp_ops *in, timed who, sp_ops *out, sp_err *err) {
  int body = 0, st = new_list(m, in, out, err);
  out->tick_ring = in->tick_ring;
  for (size_t i = 0; i < in->n && !st; i++) {
    const sp_op *op = &in->op[i];
    if (op->kind == SP_OP_LAUNCH) st = sp_ops_launch(out, op->lane, op->task, err);
    else st = put_timed(m, op, who, out, err);
    body = op->kind == SP_OP_LAUNCH ? op->n : body - (body > 0);
    if (!body) sp_ops_close(out);
  }
  return st;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static int prove(const sp_machine *m, const sp_ops *ops, sp_err *err) {
  int st = sp_ops_prove(ops, &m->p->in, m->p->sched.slots, err);
  return st ? sp_prefix(err, "strategy '%s'", m->p->strategy) : st;
}

static void notice_single(const sp_machine *m) {
  for (size_t i = 0; i < m->p->n_tasks; i++) {
    const sp_task *t = &m->p->tasks[i];
    if (on_main(m, t->lane) && !capturable(m, t) && t->kind == SP_TASK_FORWARD)
      sp_log(SP_LOG_WARN, "capture: calls of stage '%s' cannot be recorded and are made one by one", t->node->name);
  }
}

/* The list with graphs in it; where a step's are not possible, a lane's. */
static int pass_capture(sp_machine *m, const sp_ops *in, sp_ops *out, sp_err *err) {
  bool possible = false;
  int st = new_list(m, in, out, err);
  notice_single(m);
  if (!st && m->p->capture == SP_CAPTURE_STEP) st = pass_step(m, in, out, &possible, err);
  if (st || possible) return st;
  return pass_lane(m, in, out, err);
}

/* Of a tick, or SIZE_MAX. */
static size_t find_launch(const sp_ops *ops) {
  for (size_t i = 0; i < ops->n; i++)
    if (ops->op[i].kind == SP_OP_LAUNCH && ops->op[i].task < 0) return i;
  return SIZE_MAX;
}

/* A step that is one graph has no place for the clock's events. */
static int add_marks(sp_machine *m, sp_err *err) {
  sp_ops in = m->ops;
  timed who = {.traced = m->g->opts.trace,
               .clocked = sp_machine_shares(m) && !m->p->stand_in && !sp_place_is_host(&m->g->main) &&
                          find_launch(&in) == SIZE_MAX};
  if (!who.traced && !who.clocked) return SP_OK;
  int st = pass_marks(m, &in, who, &m->ops, err);
  sp_ops_free(&in);
  return st;
}

int sp_list_make(sp_machine *m, sp_err *err) {
  sp_ops plain, around = {0};
  int st = sp_ops_lower(&plain, &m->p->sched, &m->p->in, err);
  if (st) return st;
  if (!(st = new_list(m, &plain, &around, err))) st = pass_around(m, &plain, &around, err);
  sp_ops_free(&plain);
  m->capture = m->p->capture;
  if (!st && m->capture != SP_CAPTURE_OFF) {
    st = pass_capture(m, &around, &m->ops, err);
    if (!st) st = pass_implied(m, &m->ops, err);
    sp_ops_free(&around);
  } else m->ops = around;
  if (!st) st = add_marks(m, err);
  if (!st) st = prove(m, &m->ops, err);
  m->launch = find_launch(&m->ops);
  return st;
}
