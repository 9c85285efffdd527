/* SPDX-License-Identifier: MIT
 * tasks.c - the buffers of a stage, and the calls that its forward, backward or update are. */
#include "graph/reduce.h"
#include "plan/planner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- resources ---- */
int sp_planner_buf(sp_planner *w, char *name, size_t bytes, sp_buf_kind kind, int slots, int group, int *out,
                   sp_err *err) {
  sp_program *p = w->p;
  if (!name || !sp_grow(&p->bufs, &w->cap_bufs, p->n_bufs + 1, sizeof *p->bufs)) {
    free(name);
    return sp_nomem(err, 64, "a resource");
  }
  p->bufs[p->n_bufs] = (sp_buf){.name = name, .bytes = bytes, .kind = kind, .slots = slots, .group = group, .pack = -1};
  *out = (int)p->n_bufs++;
  return SP_OK;
}

char *sp_text(const char *fmt, ...) {
  char buf[256];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(buf, sizeof buf, fmt, ap);
  va_end(ap);
  return sp_strdup(buf);
}

bool sp_port_small(const sp_port *p) { return p->flags & (SP_PORT_METRIC | SP_PORT_STATUS | SP_PORT_TOTAL); }

sp_node *sp_program_producer(const sp_program *p, sp_node *n) {
  return p->stand_in && n == p->g->train_source ? p->stand_in : n;
}

static char *tensor_name(const sp_node *n, int port, uint32_t k, const char *prefix) {
  const sp_port *po = sp_node_out_port(n, (unsigned)port);
  return po->flags & SP_PORT_LIST ? sp_text("%s%s.%s[%u]", prefix, n->name, po->name, k + 1)
                                  : sp_text("%s%s.%s", prefix, n->name, po->name);
}

/* One for each part of the node's backward, side by side; *out is the first. */
static int part_resources(sp_planner *w, const sp_node *n, const char *what, int *out, sp_err *err) {
  int st = SP_OK, r;
  for (uint32_t part = 0; part < n->n_parts && !st; part++) {
    char *name = n->n_parts > 1 ? sp_text("the %s of '%s', part %u", what, n->name, part)
                                : sp_text("the %s of '%s'", what, n->name);
    if (!(st = sp_planner_buf(w, name, 0, 0, 1, 0, &r, err)) && !part) *out = r;
  }
  return st;
}

int sp_planner_resources(sp_planner *w, sp_node *n, sp_err *err) {
  sp_program *p = w->p;
  size_t i = n->index;
  int st = SP_OK, group = 1 + (int)i * 2;
  sp_buf_at at = n->on_cpu ? SP_AT_CPU : SP_AT_MAIN;
  w->act[i] = sp_calloc(sp_node_n_flat(n) + 1, sizeof **w->act);
  w->grad[i] = sp_calloc(sp_node_n_flat(n) + 1, sizeof **w->grad);
  if (!w->act[i] || !w->grad[i]) return sp_nomem(err, 64, "resources");
  for (unsigned o = n->optimizer ? 1 : 0; o < n->n_out; o++) /* its first output is the weights themselves */
    for (uint32_t k = 0; k < n->out_specs[o].n && !st; k++) {
      size_t f = sp_node_flat(n, (int)o, (int)k);
      int64_t bytes = sp_spec_bytes(&n->out_specs[o].spec[k]);
      sp_node *wired = n == p->stand_in ? p->g->train_source : n; /* wires name the one it stands in for */
      const sp_port *port = sp_node_out_port(n, o);
      bool shown = sp_port_small(port) && !(port->flags & SP_PORT_TOTAL && !p->sharded);
      bool spare = port->flags & SP_PORT_OPTIONAL || !sp_program_calls(p, n);
      if (spare && !shown && !sp_ref_is_read(p->g, (sp_ref){wired, (int)o, (int)k}, p->fills)) {
        w->act[i][f] = -1; /* nobody reads it: the stage is given no memory for it */
        continue;
      }
      st = sp_planner_buf(w, tensor_name(n, (int)o, k, ""), (size_t)bytes, SP_BUF_ACTIVATION, 0,
                          sp_port_small(port) ? 0 : group, &w->act[i][f], err);
      if (st) break;
      p->bufs[w->act[i][f]].at = n->source && !p->g->border ? SP_AT_PINNED : at;
      /* written by every k-th step, looked at behind each: no step may find another's place */
      p->bufs[w->act[i][f]].ring = n->optimizer && p->g->accumulate > 1 && !p->g->border;
    }
  for (size_t f = 0; f < sp_node_n_flat(n); f++) w->grad[i][f] = -1;
  if (!st && !sp_program_calls(p, n)) return sp_border_twins(w, n, err);
  if (!st && p->training && n->backward && n->saved)
    st = sp_planner_buf(w, sp_text("%s's saved values", n->name), n->saved, SP_BUF_SAVED, 0, 0, &w->saved[i], err);
  if (!st && (n == p->g->shard_count || n == p->g->shard_scale)) /* likewise */
    p->bufs[w->act[i][0]].slots = 1, p->bufs[w->act[i][0]].group = 0;
  if (!st && n->shards && n->saved) /* from one pass to the next */
    st = sp_planner_buf(w, sp_text("what '%s' keeps", n->name), n->saved, SP_BUF_SAVED, 1, 0, &w->saved[i], err);
  if (!st && !(n->inst->type->flags & SP_STAGE_REENTRANT))
    st = sp_planner_buf(w, sp_text("the instance '%s'", n->name), 0, 0, 1, 0, &w->self[i], err);
  if (!st && n->n_weights && !n->optimizer) st = part_resources(w, n, "weights", &w->weight[i], err);
  if (!st && n->n_weights && !n->optimizer)
    st = sp_planner_buf(w, sp_text("the statistics of '%s'", n->name), 0, 0, 1, 0, &w->state[i], err);
  if (!st && p->training && n->trained && !n->inplace)
    st = part_resources(w, n, "weight gradients", &w->dweight[i], err);
  for (size_t k = 0; p->training && k < n->n_factors && !st; k++) {
    int r;
    st = sp_planner_buf(w, sp_text("factor %zu of '%s'", k + 1, n->name), 0, 0, 1, 0, &r, err);
    if (!st && !k) w->factor[i] = r;
  }
  if (!st && p->training && n->n_parts > 1)
    st = sp_planner_buf(w, sp_text("the scratch memory of '%s'", n->name), n->scratch, SP_BUF_SAVED, 1, 0, &w->carry[i],
                        err);
  if (!st && w->saved[i] >= 0) p->bufs[w->saved[i]].at = at;
  if (!st && w->carry[i] >= 0) p->bufs[w->carry[i]].at = at;
  return st ? st : sp_border_twins(w, n, err);
}

/* A gradient buffer for an output into which some consumer sends one. */
static int grad_buffer(sp_planner *w, sp_ref r, int *out, sp_err *err) {
  sp_node *n = r.node;
  size_t f = sp_node_flat(n, r.port, r.index);
  int *g = &w->grad[n->index][f], st = SP_OK;
  if (*g < 0)
    st = sp_planner_buf(w, tensor_name(n, r.port, (uint32_t)r.index, "the gradient of "),
                        (size_t)sp_spec_bytes(&n->out_specs[r.port].spec[r.index]), SP_BUF_GRADIENT, 0, 0, g, err);
  *out = *g;
  return st;
}

/* ---- tasks ---- */
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

int sp_planner_tensor(sp_task *t, const sp_spec *spec, void *data, int buf, bool batch, sp_err *err) {
  if (!sp_grow(&t->proto, &t->cap_t, t->n_t + 1, sizeof *t->proto) ||
      !sp_grow(&t->binds, &t->cap_binds, t->n_binds + 1, sizeof *t->binds))
    return sp_nomem(err, 64, "a task");
  if (buf >= 0 || batch) t->binds[t->n_binds++] = (sp_bind){(uint32_t)t->n_t, buf, batch, 0};
  t->proto[t->n_t++] = (sp_tensor){.spec = *spec, .data = data};
  return SP_OK;
}

static int begin_list(sp_task *t, size_t list, uint32_t n) {
  t->lists[list].n = n;
  t->offset[list] = t->n_t;
  return SP_OK;
}

static int put_inputs(sp_planner *w, sp_task *t, sp_err *err) {
  sp_node *n = t->node;
  int st = SP_OK;
  for (unsigned i = 0; i < n->n_in; i++) {
    begin_list(t, i, (uint32_t)n->in[i].n);
    for (size_t k = 0; k < n->in[i].n && !st; k++) {
      sp_ref r = n->in[i].v[k];
      sp_node *from = sp_program_producer(w->p, r.node);
      const sp_spec *s = &n->in_specs[i].spec[k];
      size_t f = sp_node_flat(from, r.port, r.index);
      int buf = from->on_cpu == n->on_cpu ? w->act[from->index][f] : w->twin[from->index][f];
      st = sp_task_access(t, buf, SP_READ, err);
      if (!st) st = sp_planner_tensor(t, s, NULL, buf, sp_node_batch_out(r.node, r.port, s), err);
    }
  }
  return st;
}

static int put_outputs(sp_planner *w, sp_task *t, int mode, sp_err *err) {
  sp_node *n = t->node;
  int st = SP_OK;
  for (unsigned o = 0; o < n->n_out; o++) {
    begin_list(t, n->n_in + o, n->out_specs[o].n);
    for (uint32_t k = 0; k < n->out_specs[o].n && !st; k++) {
      const sp_spec *s = &n->out_specs[o].spec[k];
      int buf = w->act[n->index][sp_node_flat(n, (int)o, (int)k)];
      st = sp_task_access(t, buf, mode, err);
      if (!st) st = sp_planner_tensor(t, s, NULL, buf, sp_node_batch_out(n, (int)o, s), err);
    }
  }
  return st;
}

static int put_douts(sp_planner *w, sp_task *t, sp_err *err) {
  sp_node *n = t->node;
  int st = SP_OK;
  for (unsigned o = 0; o < n->n_out; o++) {
    begin_list(t, n->n_in + n->n_out + o, n->out_specs[o].n);
    for (uint32_t k = 0; k < n->out_specs[o].n && !st; k++) {
      const sp_spec *s = &n->out_specs[o].spec[k];
      int buf = t->kind == SP_TASK_BACKWARD ? w->grad[n->index][sp_node_flat(n, (int)o, (int)k)] : -1;
      st = sp_task_access(t, buf, SP_READ, err);
      if (!st) st = sp_planner_tensor(t, s, NULL, buf, sp_node_batch_out(n, (int)o, s), err);
    }
  }
  return st;
}

/* Gradients that this task sends to its inputs. The first to write a gradient, in serialized order, overwrites; the others
 * add: tasks are made in that order, and a buffer without an access yet has no writer. Parts of a backward are told alike what
 * was there before the first of them. */
static int put_dins(sp_planner *w, sp_task *t, bool wanted, bool *written, sp_err *err) {
  sp_node *n = t->node;
  int st = SP_OK;
  if (wanted) {
    t->din_acc = sp_calloc(n->n_in + 1, sizeof *t->din_acc);
    if (!t->din_acc) return sp_nomem(err, 64, "a task");
  }
  for (unsigned i = 0; i < n->n_in; i++) {
    begin_list(t, n->n_in + 2 * n->n_out + i, (uint32_t)n->in[i].n);
    if (wanted && !(t->din_acc[i] = sp_calloc(n->in[i].n + 1, 1))) return sp_nomem(err, 64, "a task");
    for (size_t k = 0; k < n->in[i].n && !st; k++) {
      sp_ref r = n->in[i].v[k];
      const sp_spec *s = &n->in_specs[i].spec[k];
      int buf = -1;
      if (wanted && r.node->backward && sp_ref_grad(n, (int)i, r)) {
        st = grad_buffer(w, r, &buf, err);
        if (st) break;
        t->din_acc[i][k] = t->part ? w->p->tasks[w->before].din_acc[i][k] : written[buf];
        written[buf] = true;
        st = sp_task_access(t, buf, t->part || t->din_acc[i][k] ? SP_READ | SP_WRITE : SP_WRITE, err);
      }
      if (!st) st = sp_planner_tensor(t, s, NULL, buf, sp_node_batch_out(r.node, r.port, s), err);
    }
  }
  return st;
}

static int put_weights(sp_planner *w, sp_task *t, sp_err *err) {
  sp_node *n = t->node;
  bool apply = t->kind == SP_TASK_APPLY, want_dw = (t->kind == SP_TASK_BACKWARD && n->trained && !n->inplace) || apply;
  bool updates_state = t->kind == SP_TASK_FORWARD && w->p->training && !n->frozen;
  int st = SP_OK;
  t->first_weight = t->n_t;
  for (size_t i = 0; i < n->n_weights && !st; i++)
    st = sp_planner_tensor(t, &n->weights[i].spec, n->w[i].data, -1, false, err);
  t->first_dweight = t->n_t;
  for (size_t i = 0; i < n->n_weights && !st; i++)
    st = sp_planner_tensor(t, &n->weights[i].spec,
                           want_dw && sp_node_has_dw(n, i) && sp_node_sums(n, i) != apply ? n->dw[i].data : NULL, -1,
                           false, err);
  for (uint32_t part = t->part; !st && n->n_weights && part < n->n_parts; part++) {
    bool changes = (t->kind == SP_TASK_BACKWARD ? n->inplace : apply && n->g->applied) && part == t->part;
    st = sp_task_access(t, w->weight[n->index] + (int)part, changes ? SP_READ | SP_WRITE : SP_READ, err);
  }
  if (!st && n->n_weights)
    st = sp_task_access(t, w->state[n->index], updates_state ? SP_READ | SP_WRITE : SP_READ, err);
  if (!st && want_dw) st = sp_task_access(t, w->dweight[n->index] + (int)t->part, SP_READ | SP_WRITE, err);
  return st;
}

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

static char *call_name(const sp_planner *w, sp_task_kind kind, const sp_node *n) {
  static const char *const words[] = {"forward", "backward", "update", "apply", "survey", "look"};
  if ((kind == SP_TASK_BACKWARD || kind == SP_TASK_APPLY) && n->n_parts > 1)
    return sp_text("%s.%s[%u]", n->name, words[kind], w->part);
  if (kind == SP_TASK_UPDATE && w->updates > 1) return sp_text("%s.update[%u]", n->name, w->part + 1); /* as buckets */
  return w->every > 1 ? sp_text("%s.%s (%d of %d)", n->name, words[kind], w->phase + 1, w->every)
                      : sp_text("%s.%s", n->name, words[kind]);
}

/* What the call is told lies in its lane's block, where that has one. */
static int tell_call(sp_planner *w, sp_task *t, sp_err *err) {
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
  if ((*out)->scratch_buf < 0 && n->scratch > l->scratch) l->scratch = n->scratch;
  if ((st = sp_task_access(*out, (*out)->scratch_buf, w->part ? SP_READ | SP_WRITE : SP_WRITE, err))) return st;
  return tell_call(w, *out, err);
}

/* What a forward or a backward does with it, and whether it is all there then. */
static int factor_mode(const sp_factor *f, const sp_task *t, bool *completes) {
  bool forward = t->kind == SP_TASK_FORWARD;
  *completes = f->forward ? forward : !forward && f->part == t->part;
  if (f->forward) return forward ? SP_WRITE : SP_READ;
  return !forward && t->part <= f->part ? SP_READ | SP_WRITE : 0; /* parts before it may begin it */
}

/* Those of the pass. */
static int put_factors(sp_planner *w, sp_task *t, sp_err *err) {
  const sp_node *n = t->node;
  int st = SP_OK, rank = n->g->reduce ? n->g->reduce->rank : 0;
  if (!w->p->training || !n->n_factors) return SP_OK;
  t->first_factor = t->n_t;
  for (size_t i = 0; i < n->n_factors && !st; i++) {
    const sp_factor *f = &n->factors[i];
    size_t each = (size_t)sp_spec_bytes(&f->spec);
    bool completes;
    int mode = factor_mode(f, t, &completes);
    t->zeroes |= completes;
    st = sp_planner_tensor(t, &f->spec, (char *)n->rows[i].data + (size_t)rank * (size_t)w->p->micro * each, 0, false,
                           err);
    if (st) break;
    t->binds[t->n_binds - 1] = (sp_bind){.tensor = (uint32_t)t->n_t - 1, .buf = -1, .each = each};
    if (mode) st = sp_task_access(t, w->factor[n->index] + (int)i, mode, err);
  }
  return st;
}

/* Between the node's outputs and its rows in a table: no program that reads one runs beside one that fills it. The machine
 * has the table. */
static int cache_call(sp_planner *w, sp_node *n, sp_inst *instead, const char *what, int mode, sp_err *err) {
  char *name = w->every > 1 ? sp_text("%s.%s (%d of %d)", n->name, what, w->phase + 1, w->every)
                            : sp_text("%s.%s", n->name, what);
  sp_task *t;
  int st = sp_planner_task(w, SP_TASK_FORWARD, n, name, w->lane[n->index][SP_LANE_FORWARD], &t, err);
  if (st || (st = tell_call(w, t, err)) || (st = put_outputs(w, t, mode, err))) return st;
  t->instead = instead;
  t->first_weight = t->n_t;
  for (size_t f = 0; f < sp_node_n_flat(n) && !st; f++) {
    sp_spec s = sp_table_spec(n, f, w->p->source);
    st = sp_planner_tensor(t, &s, NULL, -1, false, err);
  }
  t->first_dweight = t->n_t;
  return st;
}

static int node_forward(sp_planner *w, sp_node *n, bool *written, sp_err *err) {
  sp_task *t;
  bool gives = sp_node_trained_on(n) && w->p->training && w->p->g->training;
  int st = sp_planner_call(w, SP_TASK_FORWARD, n, &t, err);
  if (st || (st = put_inputs(w, t, err)) || (st = put_outputs(w, t, SP_WRITE, err)) || (st = put_douts(w, t, err)) ||
      (st = put_dins(w, t, gives, written, err)) || (st = put_weights(w, t, err)))
    return st;
  if ((st = put_factors(w, t, err))) return st;
  t->saved_buf = w->saved[n->index];
  if ((st = sp_task_access(t, t->saved_buf, SP_WRITE, err))) return st;
  return sp_task_access(t, w->self[n->index], SP_READ | SP_WRITE, err);
}

int sp_planner_forward(sp_planner *w, sp_node *n, bool *written, sp_err *err) {
  if (!sp_program_calls(w->p, n)) return cache_call(w, n, n->cache->get, "cached", SP_WRITE, err);
  int st = node_forward(w, n, written, err);
  return st || !w->p->fills || !n->cache ? st : cache_call(w, n, n->cache->put, "keep", SP_READ, err);
}

static int backward_part(sp_planner *w, sp_node *n, bool *written, sp_err *err) {
  sp_task *t;
  int st = sp_planner_call(w, SP_TASK_BACKWARD, n, &t, err);
  if (st || (st = put_inputs(w, t, err)) || (st = put_outputs(w, t, SP_READ, err)) || (st = put_douts(w, t, err)) ||
      (st = put_dins(w, t, true, written, err)) || (st = put_weights(w, t, err)))
    return st;
  if ((st = put_factors(w, t, err))) return st;
  t->saved_buf = w->saved[n->index];
  if ((st = sp_task_access(t, t->saved_buf, SP_READ, err))) return st;
  w->before = (size_t)t->index;
  return sp_task_access(t, w->self[n->index], SP_READ | SP_WRITE, err);
}

int sp_planner_backward(sp_planner *w, sp_node *n, bool *written, sp_err *err) {
  int st = SP_OK;
  for (w->part = 0; w->part < n->n_parts && !st; w->part++) {
    st = backward_part(w, n, written, err);
    if (!st && w->comm_lane >= 0) st = sp_planner_reduce_part(w, n, err);
  }
  w->part = 0;
  return st;
}

void sp_planner_at_end(const sp_planner *w, sp_task *t) {
  t->every = w->p->g->accumulate;
  t->phase = w->p->g->accumulate - 1;
  t->always = w->p->sharded;
}

static int apply_part(sp_planner *w, sp_node *n, sp_err *err) {
  sp_task *t;
  int st = sp_planner_call(w, SP_TASK_APPLY, n, &t, err);
  if (st || (st = put_weights(w, t, err))) return st;
  sp_planner_at_end(w, t);
  t->first_factor = t->n_t;
  for (size_t i = 0; i < n->n_factors && !st; i++) {
    const sp_factor *f = &n->factors[i];
    st = sp_planner_tensor(t, &n->rows[i].spec, n->rows[i].data, -1, false, err);
    if (!st && (f->forward || f->part <= w->part)) st = sp_task_access(t, w->factor[n->index] + (int)i, SP_READ, err);
  }
  t->scale_buf = w->act[w->p->g->shard_scale->index][0];
  if (!st) st = sp_task_access(t, t->scale_buf, SP_READ, err);
  return st ? st : sp_task_access(t, w->self[n->index], SP_READ | SP_WRITE, err);
}

static bool has_factors(const sp_node *n, uint32_t part) {
  for (size_t i = 0; i < n->n_weights; i++)
    if (n->weights[i].flags & SP_WEIGHT_FACTORS && n->weights[i].part == part) return true;
  return false;
}

int sp_planner_apply(sp_planner *w, sp_node *n, sp_err *err) {
  int st = SP_OK;
  for (w->part = 0; w->part < n->n_parts && !st; w->part++)
    if (has_factors(n, w->part)) st = apply_part(w, n, err);
  w->part = 0;
  return st;
}

static int part_of(const sp_weight_ref *r) { return (int)r->node->weights[r->i].part; }

int sp_planner_gradient(const sp_planner *w, const sp_weight_ref *r) { return w->dweight[r->node->index] + part_of(r); }

/* Those that shards add: the bucket's, or (NULL) all; of others the tensor has no data. */
static int put_summed(sp_planner *w, sp_task *t, const sp_bucket *b, sp_err *err) {
  int st = SP_OK;
  for (sp_weight_ref r = {0}; !st && sp_graph_next_summed(w->p->g, &r);) {
    bool in = !b || sp_bucket_has(b, &r);
    st = sp_planner_tensor(t, &r.node->weights[r.i].spec, in ? r.node->dw[r.i].data : NULL, -1, false, err);
    if (!st && in) st = sp_task_access(t, sp_planner_gradient(w, &r), SP_READ | SP_WRITE, err);
  }
  return st;
}

/* The optimizer's call that updates the weight: the first has those of the first bucket, and so on, the last one those of the
 * last bucket and all that are in none. */
static uint32_t update_with(const sp_planner *w, const sp_weight_ref *r) {
  const sp_reduce *x = w->p->g->reduce;
  uint32_t k = 0;
  while (k + 1 < w->updates && !sp_bucket_has(&x->buckets[k], r)) k++;
  return k;
}

static bool is_elsewhere(const sp_planner *w, const sp_task *t, const sp_weight_ref *r) {
  return t->kind == SP_TASK_UPDATE && update_with(w, r) != t->part;
}

/* Those that the optimizer sees, of which this rank may have a slice each. */
static int put_gradients(sp_planner *w, sp_task *t, sp_err *err) {
  const sp_graph *g = w->p->g;
  size_t k = 0;
  int st = SP_OK;
  for (sp_weight_ref r = {0}; !st && sp_graph_next_trained(g, &r); k++) {
    sp_tensor x = sp_graph_slice_tensor(g, k, &r.node->dw[r.i]);
    bool here = !is_elsewhere(w, t, &r);
    st = sp_planner_tensor(t, &x.spec, here ? x.data : NULL, -1, false, err);
    if (!st && here) st = sp_task_access(t, sp_planner_gradient(w, &r), SP_READ, err);
  }
  return st;
}

/* mode 0: the call is told where they are, and leaves them alone. */
static int put_trained(sp_planner *w, sp_task *t, bool whole, int mode, sp_err *err) {
  const sp_graph *g = w->p->g;
  size_t k = 0;
  int st = SP_OK;
  for (sp_weight_ref r = {0}; !st && sp_graph_next_trained(g, &r); k++) {
    const sp_tensor *all = &r.node->w[r.i];
    sp_tensor x = whole ? *all : sp_graph_slice_tensor(g, k, all);
    bool here = !is_elsewhere(w, t, &r);
    st = sp_planner_tensor(t, &x.spec, here ? x.data : NULL, -1, false, err);
    if (!st && mode && here) st = sp_task_access(t, w->weight[r.node->index] + part_of(&r), mode, err);
  }
  return st;
}

static int put_statistics(sp_planner *w, sp_task *t, const sp_bucket *b, sp_err *err) {
  int st = SP_OK;
  for (sp_weight_ref r = {0}; !st && sp_graph_next_statistic(w->p->g, &r);) {
    bool in = !b || sp_bucket_has(b, &r);
    st = sp_planner_tensor(t, &r.node->weights[r.i].spec, in ? r.node->w[r.i].data : NULL, -1, false, err);
    if (!st && in) st = sp_task_access(t, w->state[r.node->index], SP_READ | SP_WRITE, err);
  }
  return st;
}

static int put_heads(sp_task *t, int heads, int shards, sp_err *err) {
  sp_spec spec = {.dtype = SP_F64, .ndim = 2, .shape = {shards, 2}};
  int st = sp_task_access(t, heads, SP_READ, err);
  return st ? st : sp_planner_tensor(t, &spec, NULL, heads, false, err);
}

/* In each pass, also one without samples. Its inputs change in place. */
static int shards_call(sp_planner *w, sp_node *n, sp_task **t, sp_err *err) {
  int st = sp_planner_call(w, SP_TASK_FORWARD, n, t, err);
  if (st) return st;
  (*t)->always = true;
  (*t)->saved_buf = w->saved[n->index];
  if ((st = sp_task_access(*t, (*t)->saved_buf, SP_READ | SP_WRITE, err))) return st;
  return sp_task_access(*t, w->self[n->index], SP_READ | SP_WRITE, err);
}

int sp_planner_keep(sp_planner *w, sp_err *err) {
  sp_node *n = w->p->g->shard_keep;
  sp_task *t;
  int st = shards_call(w, n, &t, err);
  if (st) return st;
  begin_list(t, 1, n->in_specs[1].n);
  st = put_statistics(w, t, NULL, err);
  t->first_weight = t->first_dweight = t->n_t;
  return st;
}

int sp_planner_count(sp_planner *w, sp_err *err) {
  sp_task *t;
  int st = shards_call(w, w->p->g->shard_count, &t, err);
  if (!st) st = put_inputs(w, t, err);
  if (!st) st = put_outputs(w, t, SP_READ | SP_WRITE, err);
  if (!st) t->first_weight = t->first_dweight = t->n_t;
  w->heads = w->act[w->p->g->shard_count->index][0];
  return st;
}

int sp_planner_sum(sp_planner *w, const sp_bucket *b, sp_err *err) {
  sp_node *n = w->p->g->shard_sum;
  sp_task *t;
  int st = shards_call(w, n, &t, err);
  if (st) return st;
  begin_list(t, 0, n->in_specs[0].n);
  st = put_summed(w, t, b, err);
  begin_list(t, 1, n->in_specs[1].n);
  if (!st) st = put_statistics(w, t, b, err);
  begin_list(t, 2, 1);
  if (!st) st = put_heads(t, w->act[w->p->g->shard_count->index][0], w->p->micro, err);
  t->first_weight = t->first_dweight = t->n_t;
  return st;
}

int sp_planner_scale(sp_planner *w, sp_err *err) {
  sp_task *t;
  int st = sp_planner_call(w, SP_TASK_FORWARD, w->p->g->shard_scale, &t, err);
  if (st) return st;
  sp_planner_at_end(w, t);
  begin_list(t, 0, 1);
  if ((st = put_heads(t, w->heads, w->p->g->opts.shards, err)) || (st = put_outputs(w, t, SP_WRITE, err))) return st;
  t->first_weight = t->first_dweight = t->n_t;
  return SP_OK;
}

/* What the optimizer keeps; of what ranks have slices of this one's. */
static int put_kept(sp_planner *w, sp_task *t, bool data, sp_err *err) {
  const sp_node *opt = w->p->g->optimizer;
  int st = SP_OK;
  for (size_t i = 0; i < opt->n_weights && !st; i++) {
    bool sliced = sp_node_sliced(opt, i);
    const sp_spec *spec = sliced ? &opt->in_specs[0].spec[opt->weights[i].of - 1] : &opt->weights[i].spec;
    st = sp_planner_tensor(t, spec, data ? opt->w[i].data : NULL, -1, false, err);
  }
  return st;
}

/* A call of the optimizer: gradients, weights, statistics and what it keeps. */
static int optimizer_call(sp_planner *w, sp_task_kind kind, int mode, sp_task **out, sp_err *err) {
  sp_graph *g = w->p->g;
  sp_node *opt = g->optimizer;
  sp_task *t;
  int st = sp_planner_call(w, kind, opt, &t, err);
  if (st) return st;
  *out = t;
  sp_planner_at_end(w, t);
  begin_list(t, 0, opt->in_specs[0].n);
  st = put_gradients(w, t, err);
  begin_list(t, opt->n_in, opt->in_specs[0].n);
  if (!st) st = put_trained(w, t, false, mode, err);
  return st ? st : sp_task_access(t, w->self[opt->index], SP_READ | SP_WRITE, err);
}

static int put_optimizer_outputs(sp_planner *w, sp_task *t, sp_err *err) {
  const sp_node *opt = w->p->g->optimizer;
  int st = SP_OK;
  for (unsigned o = 1; o < opt->n_out && !st; o++) {
    begin_list(t, opt->n_in + o, opt->out_specs[o].n);
    for (uint32_t k = 0; k < opt->out_specs[o].n && !st; k++) {
      int buf = w->act[opt->index][sp_node_flat(opt, (int)o, (int)k)];
      st = sp_task_access(t, buf, t->part ? SP_READ | SP_WRITE : SP_WRITE, err);
      if (!st) st = sp_planner_tensor(t, &opt->out_specs[o].spec[k], NULL, buf, false, err);
    }
  }
  return st;
}

static int end_weights(sp_planner *w, sp_task *t, sp_err *err) {
  t->first_weight = t->n_t;
  int st = put_kept(w, t, true, err);
  t->first_dweight = t->n_t;
  return st ? st : put_kept(w, t, false, err);
}

int sp_planner_survey_call(sp_planner *w, int sums, sp_err *err) {
  sp_task *t;
  int st = optimizer_call(w, SP_TASK_SURVEY, 0, &t, err);
  if (st || (st = end_weights(w, t, err))) return st;
  t->sums_buf = sums;
  return sp_task_access(t, sums, SP_WRITE, err);
}

static int update_call(sp_planner *w, sp_err *err) {
  sp_task *t;
  int st = optimizer_call(w, SP_TASK_UPDATE, SP_READ | SP_WRITE, &t, err);
  if (!st && sp_graph_restores(w->p->g)) {
    begin_list(t, 1, w->p->g->optimizer->in_specs[1].n);
    st = put_statistics(w, t, NULL, err);
  }
  if (!st) st = put_optimizer_outputs(w, t, err);
  if (st || (st = end_weights(w, t, err))) return st;
  t->sums_buf = w->sums;
  return sp_task_access(t, w->sums, SP_READ, err);
}

/* One a bucket, where a weight's update may go before other gradients are there. */
static uint32_t count_updates(const sp_planner *w) {
  const sp_graph *g = w->p->g;
  uint32_t n = 0;
  if (w->comm_lane < 0 || g->sliced || !g->optimizer->separate) return 1;
  while (n < g->reduce->n && g->reduce->buckets[n].n_gradients) n++;
  return n ? n : 1;
}

int sp_planner_update(sp_planner *w, bool last, sp_err *err) {
  int st = SP_OK;
  w->updates = count_updates(w);
  for (w->part = last ? w->updates - 1 : 0; w->part + !last < w->updates && !st; w->part++) st = update_call(w, err);
  w->part = 0;
  return st;
}

int sp_planner_look(sp_planner *w, sp_err *err) {
  sp_node *opt = w->p->g->optimizer;
  sp_task *t;
  int st = sp_planner_call(w, SP_TASK_LOOK, opt, &t, err);
  if (st) return st;
  sp_planner_at_end(w, t);
  begin_list(t, opt->n_in, opt->in_specs[0].n);
  st = put_trained(w, t, true, SP_READ, err);
  t->first_weight = t->first_dweight = t->n_t;
  return st;
}
