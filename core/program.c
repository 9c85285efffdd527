/* SPDX-License-Identifier: MIT
 * program.c - from stages and lanes to tasks, resources and a proved schedule. */
#include "program.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- resources ---- */
int sp_program_buf(sp_program *p, char *name, size_t bytes, sp_buf_kind kind, int slots, int group, int *out,
                   sp_err *err) {
  if (!name || !sp_grow(&p->bufs, &p->cap_bufs, p->n_bufs + 1, sizeof *p->bufs)) {
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

size_t sp_node_flat(const sp_node *n, int port, int index) {
  size_t k = 0;
  for (int i = 0; i < port; i++) k += n->out_specs[i].n;
  return k + (size_t)index;
}

static size_t n_flat(const sp_node *n) { return sp_node_flat(n, (int)n->n_out, 0); }

static bool port_is_small(const sp_port *p) { return p->flags & (SP_PORT_METRIC | SP_PORT_STATUS); }

/* The node whose buffers a wire reads: the stand-in's, where its source is replaced. */
static sp_node *producer(const sp_program *p, sp_node *n) {
  return p->stand_in && n == p->g->train_source ? p->stand_in : n;
}

bool sp_program_has(const sp_program *p, const sp_node *n) {
  if (n->source) return n == p->source;
  return !(n->optimizer && (!p->training || !p->g->training));
}

static char *tensor_name(const sp_node *n, int port, uint32_t k, const char *prefix) {
  const sp_port *po = sp_node_out_port(n, (unsigned)port);
  return po->flags & SP_PORT_LIST ? sp_text("%s%s.%s[%u]", prefix, n->name, po->name, k + 1)
                                  : sp_text("%s%s.%s", prefix, n->name, po->name);
}

static bool is_read(const sp_graph *g, const sp_node *n, int port, int index) {
  for (size_t j = 0; j < g->n_nodes; j++)
    for (unsigned i = 0; i < g->nodes[j]->n_in; i++)
      for (size_t k = 0; k < g->nodes[j]->in[i].n; k++) {
        sp_ref r = g->nodes[j]->in[i].v[k];
        if (r.node == n && r.port == port && r.index == index) return true;
      }
  return false;
}

static int node_resources(sp_program *p, sp_node *n, sp_err *err) {
  size_t i = n->index;
  int st = SP_OK, group = 1 + (int)i * 2;
  sp_buf_at at = n->on_cpu ? SP_AT_CPU : SP_AT_MAIN;
  p->act[i] = sp_calloc(n_flat(n) + 1, sizeof **p->act);
  p->grad[i] = sp_calloc(n_flat(n) + 1, sizeof **p->grad);
  if (!p->act[i] || !p->grad[i]) return sp_nomem(err, 64, "resources");
  for (unsigned o = n->optimizer ? 1 : 0; o < n->n_out; o++) /* its first output is the weights themselves */
    for (uint32_t k = 0; k < n->out_specs[o].n && !st; k++) {
      size_t f = sp_node_flat(n, (int)o, (int)k);
      int64_t bytes = sp_spec_bytes(&n->out_specs[o].spec[k]);
      const sp_node *read = n == p->stand_in ? p->g->train_source : n; /* wires name the one it stands in for */
      const sp_port *port = sp_node_out_port(n, o);
      if (port->flags & SP_PORT_OPTIONAL && !port_is_small(port) && !is_read(p->g, read, (int)o, (int)k)) {
        p->act[i][f] = -1; /* nobody reads it: the stage is given no memory for it */
        continue;
      }
      st = sp_program_buf(p, tensor_name(n, (int)o, k, ""), (size_t)bytes, SP_BUF_ACTIVATION, 0,
                          port_is_small(port) ? 0 : group, &p->act[i][f], err);
      if (st) break;
      p->bufs[p->act[i][f]].at = n->source && !p->g->border ? SP_AT_PINNED : at;
      /* written by every k-th step, looked at behind each: no step may find another's place */
      p->bufs[p->act[i][f]].ring = n->optimizer && p->g->accumulate > 1 && !p->g->border;
    }
  for (size_t f = 0; f < n_flat(n); f++) p->grad[i][f] = -1;
  if (!st && p->training && n->backward && n->saved)
    st = sp_program_buf(p, sp_text("%s's saved values", n->name), n->saved, SP_BUF_SAVED, 0, 0, &p->saved[i], err);
  if (!st && !(n->inst->type->flags & SP_STAGE_REENTRANT))
    st = sp_program_buf(p, sp_text("the instance '%s'", n->name), 0, 0, 1, 0, &p->self[i], err);
  if (!st && n->n_weights && !n->optimizer)
    st = sp_program_buf(p, sp_text("the weights of '%s'", n->name), 0, 0, 1, 0, &p->weight[i], err);
  if (!st && n->n_weights && !n->optimizer)
    st = sp_program_buf(p, sp_text("the statistics of '%s'", n->name), 0, 0, 1, 0, &p->state[i], err);
  if (!st && p->training && n->trained && !n->inplace)
    st = sp_program_buf(p, sp_text("the weight gradients of '%s'", n->name), 0, 0, 1, 0, &p->dweight[i], err);
  if (!st && p->saved[i] >= 0) p->bufs[p->saved[i]].at = at;
  return st ? st : sp_border_twins(p, n, err);
}

/* A gradient buffer for an output into which some consumer sends one. */
static int grad_buffer(sp_program *p, sp_ref r, int *out, sp_err *err) {
  sp_node *n = r.node;
  size_t f = sp_node_flat(n, r.port, r.index);
  int *g = &p->grad[n->index][f], st = SP_OK;
  if (*g < 0)
    st = sp_program_buf(p, tensor_name(n, r.port, (uint32_t)r.index, "the gradient of "),
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

/* One tensor of the call; buf -1: `data` stays, as it is for weights, or NULL. */
static int tensor(sp_task *t, const sp_spec *spec, void *data, int buf, bool batch, sp_err *err) {
  if (!sp_grow(&t->proto, &t->cap_t, t->n_t + 1, sizeof *t->proto) ||
      !sp_grow(&t->binds, &t->cap_binds, t->n_binds + 1, sizeof *t->binds))
    return sp_nomem(err, 64, "a task");
  if (buf >= 0 || batch) t->binds[t->n_binds++] = (sp_bind){(uint32_t)t->n_t, buf, batch};
  t->proto[t->n_t++] = (sp_tensor){.spec = *spec, .data = data};
  return SP_OK;
}

static int begin_list(sp_task *t, size_t list, uint32_t n) {
  t->lists[list].n = n;
  t->offset[list] = t->n_t;
  return SP_OK;
}

static int put_inputs(sp_program *p, sp_task *t, sp_err *err) {
  sp_node *n = t->node;
  int st = SP_OK;
  for (unsigned i = 0; i < n->n_in; i++) {
    begin_list(t, i, (uint32_t)n->in[i].n);
    for (size_t k = 0; k < n->in[i].n && !st; k++) {
      sp_ref r = n->in[i].v[k];
      sp_node *from = producer(p, r.node);
      const sp_spec *s = &n->in_specs[i].spec[k];
      size_t f = sp_node_flat(from, r.port, r.index);
      int buf = from->on_cpu == n->on_cpu ? p->act[from->index][f] : p->twin[from->index][f];
      st = sp_task_access(t, buf, SP_READ, err);
      if (!st) st = tensor(t, s, NULL, buf, sp_node_batch_out(r.node, r.port, s), err);
    }
  }
  return st;
}

static int put_outputs(sp_program *p, sp_task *t, int mode, sp_err *err) {
  sp_node *n = t->node;
  int st = SP_OK;
  for (unsigned o = 0; o < n->n_out; o++) {
    begin_list(t, n->n_in + o, n->out_specs[o].n);
    for (uint32_t k = 0; k < n->out_specs[o].n && !st; k++) {
      const sp_spec *s = &n->out_specs[o].spec[k];
      int buf = p->act[n->index][sp_node_flat(n, (int)o, (int)k)];
      st = sp_task_access(t, buf, mode, err);
      if (!st) st = tensor(t, s, NULL, buf, sp_node_batch_out(n, (int)o, s), err);
    }
  }
  return st;
}

static int put_douts(sp_program *p, sp_task *t, sp_err *err) {
  sp_node *n = t->node;
  int st = SP_OK;
  for (unsigned o = 0; o < n->n_out; o++) {
    begin_list(t, n->n_in + n->n_out + o, n->out_specs[o].n);
    for (uint32_t k = 0; k < n->out_specs[o].n && !st; k++) {
      const sp_spec *s = &n->out_specs[o].spec[k];
      int buf = t->kind == SP_TASK_BACKWARD ? p->grad[n->index][sp_node_flat(n, (int)o, (int)k)] : -1;
      st = sp_task_access(t, buf, SP_READ, err);
      if (!st) st = tensor(t, s, NULL, buf, sp_node_batch_out(n, (int)o, s), err);
    }
  }
  return st;
}

/* Gradients that this task sends to its inputs. The first to write a gradient, in serialized order, overwrites; the others
 * add: tasks are made in that order, and a buffer without an access yet has no writer. */
static int put_dins(sp_program *p, sp_task *t, bool wanted, bool *written, sp_err *err) {
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
        st = grad_buffer(p, r, &buf, err);
        if (st) break;
        t->din_acc[i][k] = written[buf];
        written[buf] = true;
        st = sp_task_access(t, buf, t->din_acc[i][k] ? SP_READ | SP_WRITE : SP_WRITE, err);
      }
      if (!st) st = tensor(t, s, NULL, buf, sp_node_batch_out(r.node, r.port, s), err);
    }
  }
  return st;
}

static int put_weights(sp_program *p, sp_task *t, sp_err *err) {
  sp_node *n = t->node;
  bool want_dw = t->kind == SP_TASK_BACKWARD && n->trained && !n->inplace;
  bool updates_state = t->kind == SP_TASK_FORWARD && p->training && !n->frozen;
  int st = SP_OK;
  t->first_weight = t->n_t;
  for (size_t i = 0; i < n->n_weights && !st; i++) st = tensor(t, &n->weights[i].spec, n->w[i].data, -1, false, err);
  t->first_dweight = t->n_t;
  for (size_t i = 0; i < n->n_weights && !st; i++)
    st = tensor(t, &n->weights[i].spec, want_dw && n->weights[i].flags & SP_WEIGHT_TRAINED ? n->dw[i].data : NULL, -1,
                false, err);
  if (!st && n->n_weights)
    st = sp_task_access(t, p->weight[n->index],
                        t->kind == SP_TASK_BACKWARD && n->inplace ? SP_READ | SP_WRITE : SP_READ, err);
  if (!st && n->n_weights)
    st = sp_task_access(t, p->state[n->index], updates_state ? SP_READ | SP_WRITE : SP_READ, err);
  if (!st && want_dw) st = sp_task_access(t, p->dweight[n->index], SP_READ | SP_WRITE, err);
  return st;
}

int sp_program_task(sp_program *p, sp_task_kind kind, sp_node *n, char *name, int lane, sp_task **out, sp_err *err) {
  sp_task *t;
  if (!name || !sp_grow(&p->tasks, &p->cap_tasks, p->n_tasks + 1, sizeof *p->tasks)) {
    free(name);
    return sp_nomem(err, 64, "a task");
  }
  t = &p->tasks[p->n_tasks];
  *t = (sp_task){.prog = p,
                 .kind = kind,
                 .index = (int)p->n_tasks,
                 .name = name,
                 .node = n,
                 .lane = lane,
                 .delay = -1,
                 .every = 1,
                 .saved_buf = -1,
                 .segment = -1};
  p->n_tasks++;
  t->n_lists = n ? 2 * (n->n_in + n->n_out) : 0;
  t->lists = sp_calloc(t->n_lists + 1, sizeof *t->lists);
  t->offset = sp_calloc(t->n_lists + 1, sizeof *t->offset);
  if (!t->lists || !t->offset) return sp_nomem(err, 64, "a task");
  *out = t;
  return SP_OK;
}

/* A call of a stage, in its lane. */
static int new_call(sp_program *p, sp_task_kind kind, sp_node *n, sp_task **out, sp_err *err) {
  static const char *const words[] = {"forward", "backward", "update"};
  sp_lane *l = &p->lanes[n->user_lane];
  int st = sp_program_task(p, kind, n, sp_text("%s.%s", n->name, words[kind]), n->user_lane, out, err);
  if (st || l->block < 0) return st;
  (*out)->block = l->block_bytes;
  l->block_bytes += SP_BLOCK_BYTES;
  return sp_task_access(*out, l->block, SP_READ, err);
}

static int forward_task(sp_program *p, sp_node *n, bool *written, sp_err *err) {
  sp_task *t;
  bool loss = false;
  int st = new_call(p, SP_TASK_FORWARD, n, &t, err);
  for (size_t i = 0; i < p->g->losses.n; i++) loss = loss || p->g->losses.v[i].node == n;
  if (st || (st = put_inputs(p, t, err)) || (st = put_outputs(p, t, SP_WRITE, err)) || (st = put_douts(p, t, err)) ||
      (st = put_dins(p, t, loss && p->training && p->g->training, written, err)) || (st = put_weights(p, t, err)))
    return st;
  t->saved_buf = p->saved[n->index];
  if ((st = sp_task_access(t, t->saved_buf, SP_WRITE, err))) return st;
  return sp_task_access(t, p->self[n->index], SP_READ | SP_WRITE, err);
}

static int backward_task(sp_program *p, sp_node *n, bool *written, sp_err *err) {
  sp_task *t;
  int st = new_call(p, SP_TASK_BACKWARD, n, &t, err);
  if (st || (st = put_inputs(p, t, err)) || (st = put_outputs(p, t, SP_READ, err)) || (st = put_douts(p, t, err)) ||
      (st = put_dins(p, t, true, written, err)) || (st = put_weights(p, t, err)))
    return st;
  t->saved_buf = p->saved[n->index];
  if ((st = sp_task_access(t, t->saved_buf, SP_READ, err))) return st;
  return sp_task_access(t, p->self[n->index], SP_READ | SP_WRITE, err);
}

static int update_task(sp_program *p, sp_node *opt, sp_err *err) {
  sp_task *t;
  sp_graph *g = p->g;
  int st = new_call(p, SP_TASK_UPDATE, opt, &t, err);
  if (st) return st;
  t->every = g->accumulate;
  t->phase = g->accumulate - 1;
  for (int pass = 0; pass < 2; pass++) { /* gradients in, then weights out */
    begin_list(t, pass ? opt->n_in : 0, opt->in_specs[0].n);
    for (size_t i = 0; i < g->n_nodes && !st; i++) {
      sp_node *n = g->nodes[i];
      if (!n->trained || n->inplace) continue;
      for (size_t k = 0; k < n->n_weights && !st; k++)
        if (n->weights[k].flags & SP_WEIGHT_TRAINED)
          st = tensor(t, &n->weights[k].spec, pass ? n->w[k].data : n->dw[k].data, -1, false, err);
      if (!st) st = sp_task_access(t, pass ? p->weight[i] : p->dweight[i], pass ? SP_READ | SP_WRITE : SP_READ, err);
    }
  }
  if (sp_graph_restores(g)) {
    begin_list(t, 1, opt->in_specs[1].n);
    for (size_t i = 0; i < g->n_nodes && !st; i++)
      for (size_t k = 0; k < g->nodes[i]->n_weights && !st; k++) {
        sp_node *n = g->nodes[i];
        if (!sp_node_statistic(n, k)) continue;
        st = tensor(t, &n->weights[k].spec, n->w[k].data, -1, false, err);
        if (!st) st = sp_task_access(t, p->state[i], SP_READ | SP_WRITE, err);
      }
  }
  for (unsigned o = 1; o < opt->n_out && !st; o++) {
    begin_list(t, opt->n_in + o, opt->out_specs[o].n);
    for (uint32_t k = 0; k < opt->out_specs[o].n && !st; k++) {
      int buf = p->act[opt->index][sp_node_flat(opt, (int)o, (int)k)];
      st = sp_task_access(t, buf, SP_WRITE, err);
      if (!st) st = tensor(t, &opt->out_specs[o].spec[k], NULL, buf, false, err);
    }
  }
  t->first_weight = t->n_t;
  for (size_t i = 0; i < opt->n_weights && !st; i++)
    st = tensor(t, &opt->weights[i].spec, opt->w[i].data, -1, false, err);
  t->first_dweight = t->n_t;
  for (size_t i = 0; i < opt->n_weights && !st; i++) st = tensor(t, &opt->weights[i].spec, NULL, -1, false, err);
  return st ? st : sp_task_access(t, p->self[opt->index], SP_READ | SP_WRITE, err);
}

/* The host takes a step's metrics when all of the step is done, collect_delay ticks after it began. That is also what
 * bounds the steps in flight, and so the calls that must be kept. */
static int collect_task(sp_program *p, sp_err *err) {
  size_t before = p->n_tasks;
  sp_task *t;
  int st = sp_program_task(p, SP_TASK_COLLECT, NULL, sp_text("%s", "host.collect"), p->host_lane, &t, err);
  if (st) return st;
  t->delay = p->collect_delay;
  for (size_t i = 0; i < p->n_metrics && !st; i++) st = sp_task_access(t, p->metrics[i].seen, SP_READ, err);
  for (size_t i = 0; i < before && !st; i++) {
    int r;
    if (p->tasks[i].lane == p->host_lane) continue;
    st = sp_program_buf(p, sp_text("the call record of %s", p->tasks[i].name), 0, 0, p->ring, 0, &r, err);
    if (!st) p->bufs[r].ring = true;
    if (!st) st = sp_task_access(&p->tasks[i], r, SP_WRITE, err);
    if (!st) st = sp_task_access(&p->tasks[before], r, SP_READ, err);
  }
  return st;
}

/* ---- metrics ---- */
static int add_metrics(sp_program *p, sp_node *n, sp_err *err) {
  bool runs = !n->optimizer || n->in_specs[0].n;
  for (unsigned o = n->optimizer ? 1 : 0; runs && o < n->n_out; o++) {
    if (!port_is_small(sp_node_out_port(n, o))) continue;
    for (uint32_t k = 0; k < n->out_specs[o].n; k++) {
      if (!sp_grow(&p->metrics, &p->cap_metrics, p->n_metrics + 1, sizeof *p->metrics))
        return sp_nomem(err, 64, "metrics");
      int buf = p->act[n->index][sp_node_flat(n, (int)o, (int)k)];
      p->metrics[p->n_metrics++] = (sp_metric_slot){.node = n, .port = (int)o, .index = k, .buf = buf, .seen = buf};
    }
  }
  return SP_OK;
}

static int name_metrics(sp_program *p, sp_err *err) {
  for (size_t i = 0; i < p->n_metrics; i++) {
    sp_metric_slot *m = &p->metrics[i];
    const char *port = sp_node_out_port(m->node, (unsigned)m->port)->name;
    bool alone = true, list = m->node->out_specs[m->port].n > 1;
    for (size_t k = 0; k < p->n_metrics && alone; k++) {
      const sp_metric_slot *o = &p->metrics[k];
      alone = o->node == m->node || strcmp(sp_node_out_port(o->node, (unsigned)o->port)->name, port);
    }
    const char *node = alone ? "" : m->node->name, *dot = alone ? "" : ".";
    m->name = list ? sp_text("%s%s%s[%u]", node, dot, port, m->index + 1) : sp_text("%s%s%s", node, dot, port);
    if (!m->name) return sp_nomem(err, 64, "a name");
  }
  p->shown = sp_calloc(p->n_metrics + 1, sizeof *p->shown);
  return p->shown ? SP_OK : sp_nomem(err, 64, "metrics");
}

/* ---- the schedule ---- */
static int derive_once(sp_program *p, sp_err *err) {
  sp_sched_lane *lanes = sp_calloc(p->n_lanes, sizeof *lanes);
  sp_sched_task *tasks = sp_calloc(p->n_tasks, sizeof *tasks);
  sp_sched_resource *res = sp_calloc(p->n_bufs + 1, sizeof *res);
  sp_sched_input in = {lanes, p->n_lanes, tasks, p->n_tasks, res, p->n_bufs, p->shift};
  int st = lanes && tasks && res ? SP_OK : sp_nomem(err, 64, "the schedule");
  for (size_t i = 0; !st && i < p->n_lanes; i++)
    lanes[i] = (sp_sched_lane){p->lanes[i].name, p->lanes[i].delay, p->lanes[i].host, 0};
  for (size_t i = 0; !st && i < p->n_tasks; i++) {
    sp_task *t = &p->tasks[i];
    tasks[i] = (sp_sched_task){t->name, t->lane, t->delay, t->every, t->phase, t->acc, t->n_acc, 0};
  }
  for (size_t i = 0; !st && i < p->n_bufs; i++) {
    const sp_buf *b = &p->bufs[i];
    res[i] = (sp_sched_resource){b->name, b->ring ? p->ring : b->slots, b->extra, b->group};
  }
  if (!st) st = sp_schedule_derive(&p->sched, &in, err);
  if (st && p->g->strategy) sp_prefix(err, "strategy '%s'", p->g->strategy);
  free(lanes);
  free(tasks);
  free(res);
  return st;
}

/* A graph that is recorded holds addresses: it serves every step that finds the same slots. So the ring is made a
 * multiple of all slots, and of the steps between updates; what depends on it is derived again. */
static int lengthen_ring(sp_program *p, sp_err *err) {
  int64_t all = p->g->training && p->training ? p->g->accumulate : 1, ring;
  for (size_t i = 0; i < p->n_bufs; i++) {
    int slots = p->sched.slots[i];
    if (p->bufs[i].ring || !p->bufs[i].bytes) continue;
    all = all / sp_gcd((int)all, slots) * slots;
    if (all > SP_PHASES_MAX)
      return sp_fail(
          err, SP_E_RANGE,
          "capture: more than %d graphs would be needed for all combinations of slots; use smaller delays, or "
          "--capture off",
          SP_PHASES_MAX);
  }
  ring = (p->ring + all - 1) / all * all;
  if (ring == p->ring) return SP_OK;
  p->ring = (int)ring;
  sp_schedule_free(&p->sched);
  return derive_once(p, err);
}

static int derive(sp_program *p, sp_err *err) {
  int st = derive_once(p, err);
  if (!st && p->capture != SP_CAPTURE_OFF && (st = lengthen_ring(p, err))) sp_schedule_free(&p->sched);
  if (st) return st;
  p->derived = true;
  for (size_t i = 0; i < p->n_bufs; i++) p->bufs[i].slots = p->sched.slots[i];
  return sp_border_check(p, err);
}

static int make_sampler(sp_program *p, sp_err *err) {
  sp_node *s = p->source;
  const sp_attr *a = s ? sp_node_attr(s, "length") : NULL;
  int st;
  if (!s) return SP_OK;
  if (!a || !(a->value >= 1)) return sp_fail(err, SP_E_DATA, "stage '%s' has no samples", s->name);
  st = sp_sampler_init(&p->sampler, p->g->opts.seed, (uint64_t)a->value, (uint32_t)s->opts.batch,
                       !p->stand_in && !s->opts.no_shuffle, s->opts.drop_last && !p->stand_in, err);
  if (st) return sp_prefix(err, "stage '%s'", s->name);
  p->has_sampler = true;
  return SP_OK;
}

static int plan(sp_program *p, sp_err *err) {
  sp_graph *g = p->g;
  bool *written = NULL;
  size_t gradients = 0;
  int st, **maps[] = {&p->saved, &p->self, &p->weight, &p->state, &p->dweight};
  p->act = sp_calloc(g->n_nodes + 1, sizeof *p->act);
  p->grad = sp_calloc(g->n_nodes + 1, sizeof *p->grad);
  p->twin = sp_calloc(g->n_nodes + 1, sizeof *p->twin);
  if (!p->act || !p->grad || !p->twin) return sp_nomem(err, 64, "resources");
  for (size_t m = 0; m < SP_ARRAY(maps); m++) {
    if (!(*maps[m] = sp_calloc(g->n_nodes + 1, sizeof **maps[m]))) return sp_nomem(err, 64, "resources");
    for (size_t i = 0; i < g->n_nodes; i++) (*maps[m])[i] = -1;
  }
  if ((st = make_sampler(p, err)) || (st = sp_program_lanes(p, err))) return st;
  for (size_t i = 0; i < g->n_nodes; i++) {
    sp_node *n = g->topo[i];
    gradients += n_flat(n);
    if (sp_program_has(p, n) && ((st = node_resources(p, n, err)) || (st = add_metrics(p, n, err)))) return st;
  }
  if ((st = name_metrics(p, err)) || (st = sp_border_metrics(p, err)) || (st = sp_border_begin(p, err))) return st;
  written = sp_calloc(p->n_bufs + gradients + 1, sizeof *written); /* gradient buffers come on top */
  if (!written) return sp_nomem(err, 64, "gradients");
  for (size_t i = 0; i < g->n_nodes && !st; i++) {
    sp_node *n = producer(p, g->topo[i]); /* a stand-in comes where the source itself would, before all that read it */
    bool again = g->topo[i] == p->stand_in && p->stand_in != g->train_source;
    if (again || !sp_program_has(p, n) || n->optimizer) continue;
    if (!(st = forward_task(p, n, written, err))) st = sp_border_after(p, n, err);
  }
  for (size_t i = g->n_nodes; i-- > 0 && !st;)
    if (p->training && g->topo[i]->backward) st = backward_task(p, g->topo[i], written, err);
  free(written);
  if (!st && p->training && g->training && g->optimizer->in_specs[0].n) st = update_task(p, g->optimizer, err);
  if (!st) st = sp_border_end(p, err);
  if (!st) st = collect_task(p, err);
  if (!st) st = derive(p, err);
  /* After the proof, whose words about an impossible order say more. */
  if (!st && p->lag > g->opts.run_ahead)
    st = sp_fail(err, SP_E_RANGE,
                 "strategy '%s': a lane runs %d steps behind the trained part; metrics come back %d late: take "
                 "run_ahead = %d",
                 g->strategy, p->lag, g->opts.run_ahead, p->lag);
  return st;
}

int sp_program_plan(sp_program **out, sp_graph *g, bool training, sp_node *stand_in, sp_err *err) {
  sp_program *p = sp_calloc(1, sizeof *p);
  int st;
  *out = NULL;
  if (!p) return sp_nomem(err, sizeof *p, "a program");
  p->g = g;
  p->training = training;
  p->stand_in = stand_in;
  p->source = stand_in ? stand_in : g->train_source;
  p->capture = g->opts.capture;
  if ((st = plan(p, err))) {
    sp_program_free(p);
    return st;
  }
  *out = p;
  return SP_OK;
}
