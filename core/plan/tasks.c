/* SPDX-License-Identifier: MIT
 * tasks.c - what all tasks are made of: resources that they access, tensors of a call, its place in a lane. */
#include "plan/planner.h"

#include <stdlib.h>

int sp_task_access(sp_task *t, int resource, int mode, sp_err *err) {
  if (resource < 0) return SP_OK;
  for (size_t i = 0; i < t->n_acc; i++)
    if (t->acc[i].resource == resource) {
      t->acc[i].mode |= mode;
      return SP_OK;
    }
  if (!sp_grow(&t->acc, &t->cap_acc, t->n_acc + 1, sizeof *t->acc)) return sp_nomem(err, 64, "a task");
  t->acc[t->n_acc++] = (sp_sched_access){resource, mode};
  return SP_OK;
}

/* ---- tensors ---- */
int sp_task_tensor(sp_task *t, const sp_spec *spec, void *data, int buf, bool batch, sp_err *err) {
  if (!sp_grow(&t->proto, &t->cap_t, t->n_t + 1, sizeof *t->proto) ||
      !sp_grow(&t->binds, &t->cap_binds, t->n_binds + 1, sizeof *t->binds))
    return sp_nomem(err, 64, "a task");
  if (buf >= 0 || batch) t->binds[t->n_binds++] = (sp_bind){(uint32_t)t->n_t, buf, batch, 0};
  t->proto[t->n_t++] = (sp_tensor){.spec = *spec, .data = data};
  return SP_OK;
}

void sp_task_begin_list(sp_task *t, size_t list, uint32_t n) {
  t->lists[list].n = n;
  t->offset[list] = t->n_t;
}

void sp_task_no_weights(sp_task *t) { t->first_weight = t->first_dweight = t->n_t; }

int sp_task_totals(sp_task *t, size_t list, int totals, int shards, sp_err *err) {
  sp_spec spec = {.dtype = SP_F64, .ndim = 2, .shape = {shards, 2}};
  sp_task_begin_list(t, list, 1);
  int st = sp_task_access(t, totals, SP_READ, err);
  return st ? st : sp_task_tensor(t, &spec, NULL, totals, false, err);
}

int sp_planner_inputs(sp_planner *w, sp_task *t, sp_err *err) {
  sp_node *n = t->node;
  int st = SP_OK;
  for (unsigned i = 0; i < n->n_in; i++) {
    sp_task_begin_list(t, i, (uint32_t)n->in[i].n);
    for (size_t k = 0; k < n->in[i].n && !st; k++) {
      sp_ref r = n->in[i].v[k];
      sp_node *from = sp_program_producer(w->p, r.node);
      const sp_spec *s = &n->in_specs[i].spec[k];
      size_t f = sp_node_flat(from, r.port, r.index);
      int buf = from->on_cpu == n->on_cpu ? w->act[from->index][f] : w->twin[from->index][f];
      st = sp_task_access(t, buf, SP_READ, err);
      if (!st) st = sp_task_tensor(t, s, NULL, buf, sp_node_batch_out(r.node, r.port, s), err);
    }
  }
  return st;
}

/* Of each output a tensor, in lists from `first` on. */
static int put_ports(sp_task *t, size_t first, unsigned from_port, const int *bufs, int mode, sp_err *err) {
  const sp_node *n = t->node;
  int st = SP_OK;
  for (unsigned o = from_port; o < n->n_out; o++) {
    sp_task_begin_list(t, first + o, n->out_specs[o].n);
    for (uint32_t k = 0; k < n->out_specs[o].n && !st; k++) {
      const sp_spec *s = &n->out_specs[o].spec[k];
      int buf = bufs ? bufs[sp_node_flat(n, (int)o, (int)k)] : -1;
      st = sp_task_access(t, buf, mode, err);
      if (!st) st = sp_task_tensor(t, s, NULL, buf, sp_node_batch_out(n, (int)o, s), err);
    }
  }
  return st;
}

int sp_planner_outputs(sp_planner *w, sp_task *t, unsigned from_port, int mode, sp_err *err) {
  return put_ports(t, t->node->n_in, from_port, w->act[t->node->index], mode, err);
}

int sp_planner_output_gradients(sp_planner *w, sp_task *t, sp_err *err) {
  const int *grad = t->kind == SP_TASK_BACKWARD ? w->grad[t->node->index] : NULL;
  return put_ports(t, t->node->n_in + t->node->n_out, 0, grad, SP_READ, err);
}

/* ---- tasks ---- */
int sp_planner_task(sp_planner *w, sp_task_kind kind, sp_node *n, char *name, int lane, sp_task **out, sp_err *err) {
  sp_program *p = w->p;
  sp_task *t;
  if (w->every > 1 && p->lanes[lane].props.replicas == w->every) lane += w->phase;
  if (!name || !sp_grow(&p->tasks, &w->cap_tasks, p->n_tasks + 1, sizeof *p->tasks)) {
    free(name);
    return sp_nomem(err, 64, "a task");
  }
  t = &p->tasks[p->n_tasks];
  *t = (sp_task){.kind = kind,
                 .index = (int)p->n_tasks,
                 .name = name,
                 .node = n,
                 .lane = lane,
                 .delay = -1,
                 .every = w->every,
                 .phase = w->phase,
                 .saved_buf = -1,
                 .scratch_buf = -1,
                 .scale_buf = -1,
                 .sums_buf = -1,
                 .of_lane = -1};
  p->n_tasks++;
  p->lanes[lane].used = true;
  t->n_lists = n ? 2 * (n->n_in + n->n_out) : 0;
  t->lists = sp_calloc(t->n_lists + 1, sizeof *t->lists);
  t->offset = sp_calloc(t->n_lists + 1, sizeof *t->offset);
  if (!t->lists || !t->offset) return sp_nomem(err, 64, "a task");
  *out = t;
  return SP_OK;
}

void sp_planner_at_end(const sp_planner *w, sp_task *t) {
  t->every = w->p->g->train.accumulate;
  t->phase = w->p->g->train.accumulate - 1;
  t->always = w->p->sharded;
}

/* "enc.forward", "enc.forward (2 of 4)" */
char *sp_planner_call_name(const sp_planner *w, const sp_node *n, const char *what) {
  return w->every > 1 ? sp_text("%s.%s (%d of %d)", n->name, what, w->phase + 1, w->every)
                      : sp_text("%s.%s", n->name, what);
}

static char *call_name(const sp_planner *w, sp_task_kind kind, const sp_node *n) {
  static const char *const words[] = {"forward", "backward", "update", "apply", "survey", "look"};
  if ((kind == SP_TASK_BACKWARD || kind == SP_TASK_APPLY) && n->n_parts > 1)
    return sp_text("%s.%s[%u]", n->name, words[kind], w->part);
  if (kind == SP_TASK_UPDATE && w->updates > 1) return sp_text("%s.update[%u]", n->name, w->part + 1); /* as buckets */
  return sp_planner_call_name(w, n, words[kind]);
}

int sp_planner_tell(sp_planner *w, sp_task *t, sp_err *err) {
  sp_lane *l = &w->p->lanes[t->lane];
  if (l->block < 0 || !sp_call_needs_block(w->p, t->node, t->kind)) return SP_OK;
  t->block = l->block_bytes;
  l->block_bytes += sizeof(sp_block_task);
  return sp_task_access(t, l->block, SP_READ, err);
}

/* A backward in parts has scratch memory apart from the lane's. */
int sp_planner_call(sp_planner *w, sp_task_kind kind, sp_node *n, sp_task **out, sp_err *err) {
  bool back = kind == SP_TASK_BACKWARD || kind == SP_TASK_APPLY;
  int lane = w->lane[n->index][back ? SP_LANE_BACKWARD : SP_LANE_FORWARD];
  int st = sp_planner_task(w, kind, n, call_name(w, kind, n), lane, out, err);
  if (st) return st;
  sp_lane *l = &w->p->lanes[(*out)->lane];
  (*out)->part = w->part;
  if (kind == SP_TASK_BACKWARD) (*out)->scratch_buf = w->carry[n->index];
  bool again = sp_program_again(w->p, n) && (kind == SP_TASK_FORWARD || kind == SP_TASK_BACKWARD);
  size_t scratch = again ? sp_again_bytes(n, kind == SP_TASK_BACKWARD) : n->scratch;
  if ((*out)->scratch_buf < 0 && scratch > l->scratch) l->scratch = scratch;
  if ((st = sp_task_access(*out, (*out)->scratch_buf, w->part ? SP_READ | SP_WRITE : SP_WRITE, err))) return st;
  return sp_planner_tell(w, *out, err);
}

int sp_planner_use(sp_planner *w, sp_task *t, int saved, sp_err *err) {
  t->saved_buf = w->saved[t->node->index];
  int st = sp_task_access(t, t->saved_buf, saved, err);
  return st ? st : sp_task_access(t, w->self[t->node->index], SP_READ | SP_WRITE, err);
}
