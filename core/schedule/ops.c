/* SPDX-License-Identifier: MIT
 * ops.c - a schedule as a list of operations. */
#include "schedule/ops.h"

#include "base/util.h"

#include <stdlib.h>
#include <string.h>

const char *sp_op_name(int kind) {
  static const char *const names[SP_OP_KINDS] = {"CALL", "NONE",   "COPY", "COMM", "FILL",   "COLLECT", "WAIT",
                                                 "SYNC", "RECORD", "MARK", "HASH", "FINISH", "LAUNCH"};
  return kind >= 0 && kind < SP_OP_KINDS ? names[kind] : "?";
}

int sp_ops_put(sp_ops *o, sp_op op, sp_err *err) {
  if (!sp_grow(&o->op, &o->cap, o->n + 1, sizeof *o->op)) return sp_nomem(err, sizeof op, "the list of operations");
  o->op[o->n++] = op;
  if (o->open) o->op[o->open - 1].n++;
  return SP_OK;
}

int sp_ops_launch(sp_ops *o, int lane, int task, sp_err *err) {
  sp_op launch = {.kind = SP_OP_LAUNCH, .lane = lane, .task = task, .from = o->n_launch};
  int status = sp_ops_put(o, launch, err);
  if (status) return status;
  o->n_launch++;
  o->open = o->n;
  return SP_OK;
}

void sp_ops_close(sp_ops *o) { o->open = 0; }

size_t sp_ops_body(const sp_ops *o, size_t i) {
  for (size_t k = 0; k < i; k++) {
    if (o->op[k].kind != SP_OP_LAUNCH) continue;
    if (i - k <= (size_t)o->op[k].n) return k;
    k += (size_t)o->op[k].n;
  }
  return SIZE_MAX;
}

void sp_ops_remove(sp_ops *o, size_t i) {
  size_t launch = sp_ops_body(o, i);
  if (launch != SIZE_MAX) o->op[launch].n--;
  memmove(o->op + i, o->op + i + 1, (o->n - i - 1) * sizeof *o->op);
  o->n--;
}

static int lower_task(sp_ops *o, const sp_schedule *s, const sp_sched_input *in, int task, sp_err *err) {
  const sp_sched_task *t = &in->tasks[task];
  const sp_sched_item *item = &s->items[task];
  bool host = in->lanes[t->lane].host;
  int st = SP_OK;
  for (size_t k = 0; k < item->n_waits && !st; k++)
    st = sp_ops_put(o,
                    (sp_op){.kind = host ? SP_OP_SYNC : SP_OP_WAIT,
                            .lane = t->lane,
                            .task = task,
                            .from = item->waits[k].task,
                            .back = item->waits[k].back},
                    err);
  if (!st && t->op != SP_OP_NONE) st = sp_ops_put(o, (sp_op){.kind = t->op, .lane = t->lane, .task = task}, err);
  if (!st && item->record && !host)
    st = sp_ops_put(o, (sp_op){.kind = SP_OP_RECORD, .lane = t->lane, .task = task}, err);
  o->ring[task] = item->ring;
  return st;
}

int sp_ops_lower(sp_ops *o, const sp_schedule *s, const sp_sched_input *in, sp_err *err) {
  int st = SP_OK;
  memset(o, 0, sizeof *o);
  o->ring = sp_calloc(in->n_tasks + 1, sizeof *o->ring);
  if (!o->ring) return sp_nomem(err, in->n_tasks * sizeof *o->ring, "the list of operations");
  for (size_t k = 0; k < in->n_tasks && !st; k++) st = lower_task(o, s, in, s->order[k], err);
  if (st) sp_ops_free(o);
  return st;
}

void sp_ops_free(sp_ops *o) {
  free(o->op);
  free(o->ring);
  memset(o, 0, sizeof *o);
}
