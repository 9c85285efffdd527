/* SPDX-License-Identifier: MIT
 * build.c - the only place that allocates for a program: buffers, streams, events, call records. */
#include "program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int make_buffers(sp_program *p, sp_err *err) {
  for (size_t i = 0; i < p->n_bufs; i++) {
    sp_buf *b = &p->bufs[i];
    if (!b->bytes) continue;
    b->ptr = sp_graph_zalloc(p->g, (size_t)b->slots, sizeof *b->ptr, b->name, err);
    if (!b->ptr) return err->status;
    for (int s = 0; s < b->slots; s++) {
      if (b->pinned) {
        if (sp_pool_get(p->g->pool, b->bytes, &b->ptr[s], err)) return sp_prefix(err, "%s", b->name);
      } else if (!(b->ptr[s] = sp_graph_alloc(p->g, b->bytes, b->name, err))) {
        return err->status;
      }
    }
  }
  return SP_OK;
}

/* Scratch belongs to a lane: its tasks run one after another. */
static size_t lane_scratch(const sp_program *p, size_t lane) {
  size_t most = 0;
  for (size_t i = 0; i < p->n_tasks; i++)
    if (p->tasks[i].lane == (int)lane && p->tasks[i].node && p->tasks[i].node->scratch > most)
      most = p->tasks[i].node->scratch;
  return most;
}

static int make_lane(sp_program *p, size_t i, sp_err *err) {
  sp_lane *l = &p->lanes[i];
  sp_graph *g = p->g;
  sp_ctx_holder h;
  int st = SP_OK;
  if (l->host) return SP_OK;
  if (p->stand_in && g->train) { /* evaluation runs while nothing else does: it needs no threads of its own */
    const sp_program *t = g->train;
    int from = i == 0 ? t->update_lane : -1;
    for (size_t k = 0; from < 0 && k < t->n_lanes; k++)
      if (t->source && t->source->inst && !t->lanes[k].host && (int)k != t->update_lane) from = (int)k;
    if (from >= 0 && t->lanes[from].stream) {
      l->stream = t->lanes[from].stream;
      l->borrowed = true;
    }
  }
  if (!l->stream) st = g->dev_type->stream_open(sp_ctx_for(&h, l->name, err), g->dev, l->name, l->priority, &l->stream);
  l->scratch_bytes = lane_scratch(p, i);
  if (!st && l->scratch_bytes && !(l->scratch = sp_graph_alloc(g, l->scratch_bytes, "a lane's scratch memory", err)))
    st = err->status;
  if (!st && g->opts.trace) sp_trace_lane_name(g->opts.trace, l, l->name);
  return st;
}

/* ---- what a checked run hashes, in the order of hash_call() in run.c ---- */
static int add_hash(sp_task *t, char *name, sp_err *err) {
  if (!name || !sp_grow(&t->hashes, &t->cap_hashes, t->n_hashes + 1, sizeof *t->hashes)) {
    free(name);
    return sp_nomem(err, 64, "a name");
  }
  t->hashes[t->n_hashes++].name = name;
  return SP_OK;
}

static int name_hash(sp_task *t, const sp_node *n, const char *what, int index, sp_err *err) {
  char buf[256];
  if (index < 0) snprintf(buf, sizeof buf, "%s.%s", n->name, what);
  else snprintf(buf, sizeof buf, "%s.%s[%d]", n->name, what, index + 1);
  return add_hash(t, sp_strdup(buf), err);
}

static int name_hashes(sp_task *t, sp_err *err) {
  sp_node *n = t->node;
  int st = SP_OK;
  if (t->kind == SP_TASK_FORWARD)
    for (unsigned o = 0; o < n->n_out; o++)
      for (uint32_t k = 0; k < n->out_specs[o].n && !st; k++)
        st = name_hash(t, n, sp_node_out_port(n, o)->name, sp_node_out_port(n, o)->flags & SP_PORT_LIST ? (int)k : -1,
                       err);
  if (t->kind == SP_TASK_FORWARD && !n->frozen)
    for (size_t i = 0; i < n->n_weights && !st; i++)
      if (n->weights[i].flags & SP_WEIGHT_STATE) st = name_hash(t, n, n->weights[i].name, -1, err);
  if (t->kind == SP_TASK_BACKWARD && n->trained)
    for (size_t i = 0; i < n->n_weights && !st; i++)
      if (n->weights[i].flags & SP_WEIGHT_TRAINED) {
        char grad[160];
        snprintf(grad, sizeof grad, "%s%s", n->weights[i].name, n->inplace ? "" : ".grad");
        st = name_hash(t, n, grad, -1, err);
      }
  if (t->kind == SP_TASK_UPDATE)
    for (size_t j = 0; j < n->g->n_nodes; j++) {
      sp_node *m = n->g->nodes[j];
      for (size_t i = 0; m->trained && !m->inplace && i < m->n_weights && !st; i++)
        if (m->weights[i].flags & SP_WEIGHT_TRAINED) st = name_hash(t, m, m->weights[i].name, -1, err);
    }
  t->prog->n_hashes += t->n_hashes;
  return st;
}

/* ---- call records ---- */
/* A frozen stage too, if it passes a gradient on: its forward() keeps what its backward() needs. */
static bool changes_when_training(const sp_node *n) {
  bool yes = n->backward || n->loss || n->optimizer;
  for (size_t i = 0; !n->frozen && i < n->n_weights; i++) yes = yes || n->weights[i].flags & SP_WEIGHT_STATE;
  return yes;
}

static int make_call(sp_program *p, sp_task *t, sp_call *c, sp_err *err) {
  sp_graph *g = p->g;
  sp_node *n = t->node;
  c->task = t;
  c->t = sp_graph_zalloc(g, t->n_t, sizeof *c->t, "call records", err);
  c->lists = sp_graph_zalloc(g, t->n_lists, sizeof *c->lists, "call records", err);
  c->hash = sp_graph_zalloc(g, t->n_hashes, sizeof *c->hash, "call records", err);
  if (!c->t || !c->lists || !c->hash) return err->status;
  memcpy(c->t, t->proto, t->n_t * sizeof *c->t);
  for (size_t i = 0; i < t->n_lists; i++) c->lists[i] = (sp_list){.n = t->lists[i].n, .t = c->t + t->offset[i]};
  c->io = (sp_io){.size = sizeof c->io,
                  .training = p->training && g->training && changes_when_training(n),
                  .n_in = n->n_in,
                  .n_out = n->n_out,
                  .n_weights = (uint32_t)n->n_weights,
                  .in = c->lists,
                  .out = c->lists + n->n_in,
                  .dout = c->lists + n->n_in + n->n_out,
                  .din = c->lists + n->n_in + 2 * n->n_out,
                  .din_acc = (const uint8_t *const *)t->din_acc,
                  .weights = c->t + t->first_weight,
                  .dweights = c->t + t->first_dweight,
                  .dw_scale = t->kind == SP_TASK_BACKWARD && n->inplace ? &c->dw_scale : NULL,
                  .scratch = p->lanes[t->lane].scratch};
  return SP_OK;
}

static int make_calls(sp_program *p, sp_err *err) {
  sp_graph *g = p->g;
  sp_ctx_holder h;
  int st = SP_OK;
  size_t batch = p->source ? (size_t)p->source->opts.batch : 1;
  p->ids = sp_graph_zalloc(g, (size_t)p->ring * batch, sizeof *p->ids, "sample ids", err);
  p->step_n = sp_graph_zalloc(g, (size_t)p->ring, sizeof *p->step_n, "step records", err);
  p->step_lr = sp_graph_zalloc(g, (size_t)p->ring, sizeof *p->step_lr, "step records", err);
  if (!p->ids || !p->step_n || !p->step_lr) return err->status;
  for (size_t i = 0; i < p->n_tasks && !st; i++) {
    sp_task *t = &p->tasks[i];
    const sp_sched_item *item = &p->sched.items[i];
    if (t->kind == SP_TASK_COLLECT) continue;
    if (g->opts.checksums) st = name_hashes(t, err);
    t->calls = st ? NULL : sp_graph_zalloc(g, (size_t)p->ring, sizeof *t->calls, "call records", err);
    if (!t->calls) return err->status;
    for (int r = 0; r < p->ring && !st; r++) st = make_call(p, t, &t->calls[r], err);
    if (st || !item->record) continue;
    t->events = sp_graph_zalloc(g, (size_t)item->ring, sizeof *t->events, "events", err);
    if (!t->events) return err->status;
    for (int r = 0; r < item->ring && !st; r++)
      st = g->dev_type->event_open(sp_ctx_for(&h, t->name, err), g->dev, 0, &t->events[r]);
  }
  p->hashes = st ? NULL : sp_graph_zalloc(g, p->n_hashes, sizeof *p->hashes, "checksums", err);
  return st ? st : p->hashes ? SP_OK : err->status;
}

/* Every N that can come: the batch, and what an epoch's last step has. */
static int prepare(sp_program *p, sp_err *err) {
  uint32_t sizes[2] = {p->source ? (uint32_t)p->source->opts.batch : 1, 0};
  int st = SP_OK;
  if (p->has_sampler) {
    uint32_t last = sp_sampler_n(&p->sampler, p->sampler.steps - 1);
    if (p->sampler.steps == 1) sizes[0] = last;
    else if (last != sizes[0]) sizes[1] = last;
  }
  for (size_t i = 0; i < p->n_tasks && !st; i++) {
    sp_task *t = &p->tasks[i];
    if (t->kind == SP_TASK_COLLECT || t->kind == SP_TASK_BACKWARD) continue;
    for (int k = 0; k < 2 && sizes[k] && !st; k++) {
      sp_io io;
      sp_call_fill(&t->calls[0], 0, sizes[k]);
      io = t->calls[0].io;
      io.step = NULL;
      io.ids = NULL;
      st = sp_inst_prepare(t->node->inst, &io, NULL, err);
    }
  }
  return st;
}

int sp_program_build(sp_program *p, sp_err *err) {
  int st = make_buffers(p, err);
  for (size_t i = 0; i < p->n_lanes && !st; i++) st = make_lane(p, i, err);
  if (!st) st = make_calls(p, err);
  if (!st) st = prepare(p, err);
  p->lr = NAN;
  p->built = !st;
  return st;
}

void sp_program_memory(const sp_program *p, sp_mem *mem) {
  for (size_t i = 0; i < p->n_bufs; i++) {
    const sp_buf *b = &p->bufs[i];
    uint64_t each = b->pinned ? sp_pool_block(b->bytes) : b->bytes, bytes, *sum;
    sum = b->kind == SP_BUF_ACTIVATION ? &mem->activations : b->kind == SP_BUF_GRADIENT ? &mem->gradients : &mem->saved;
    if (__builtin_mul_overflow(each, (uint64_t)b->slots, &bytes) || __builtin_add_overflow(*sum, bytes, sum))
      *sum = UINT64_MAX;
  }
  for (size_t i = 0; i < p->n_lanes; i++) mem->scratch += lane_scratch(p, i);
}

/* ---- free ---- */
static void free_task(sp_program *p, sp_task *t) {
  const sp_device_type *d = p->g->dev_type;
  for (int r = 0; t->calls && r < p->ring; r++) {
    free(t->calls[r].t);
    free(t->calls[r].lists);
    free(t->calls[r].hash);
  }
  free(t->calls);
  for (int r = 0; t->events && r < p->sched.items[t->index].ring; r++)
    if (t->events[r]) d->event_close(t->events[r]);
  free(t->events);
  for (unsigned i = 0; t->din_acc && i < t->node->n_in; i++) free(t->din_acc[i]);
  free(t->din_acc);
  for (size_t i = 0; i < t->n_hashes; i++) free((char *)t->hashes[i].name);
  free(t->hashes);
  free(t->name);
  free(t->acc);
  free(t->proto);
  free(t->lists);
  free(t->offset);
  free(t->binds);
}

void sp_program_free(sp_program *p) {
  const sp_device_type *d;
  int **maps[5];
  if (!p) return;
  d = p->g->dev_type;
  for (size_t i = 0; i < p->n_lanes; i++)
    if (p->lanes[i].stream && !p->lanes[i].borrowed) d->stream_close(p->lanes[i].stream);
  for (size_t i = 0; i < p->n_tasks; i++) free_task(p, &p->tasks[i]);
  free(p->tasks);
  for (size_t i = 0; i < p->n_lanes; i++) {
    if (p->lanes[i].scratch) d->free(p->g->dev, SP_MEM_DEVICE, p->lanes[i].scratch);
    free(p->lanes[i].name);
  }
  free(p->lanes);
  for (size_t i = 0; i < p->n_bufs; i++) {
    for (int s = 0; p->bufs[i].ptr && s < p->bufs[i].slots; s++) {
      sp_err err;
      if (!p->bufs[i].ptr[s]) continue;
      if (p->bufs[i].pinned) sp_pool_put(p->g->pool, p->bufs[i].ptr[s], NULL, &err);
      else d->free(p->g->dev, SP_MEM_DEVICE, p->bufs[i].ptr[s]);
    }
    free(p->bufs[i].ptr);
    free(p->bufs[i].name);
  }
  free(p->bufs);
  for (size_t i = 0; i < p->g->n_nodes; i++) {
    if (p->act) free(p->act[i]);
    if (p->grad) free(p->grad[i]);
  }
  free(p->act);
  free(p->grad);
  maps[0] = &p->saved, maps[1] = &p->self, maps[2] = &p->weight, maps[3] = &p->state, maps[4] = &p->dweight;
  for (int i = 0; i < 5; i++) free(*maps[i]);
  for (size_t i = 0; i < p->n_metrics; i++) free(p->metrics[i].name);
  free(p->metrics);
  free(p->shown);
  free(p->hashes);
  free(p->ids);
  free(p->step_n);
  free(p->step_lr);
  sp_sampler_free(&p->sampler);
  if (p->derived) sp_schedule_free(&p->sched);
  free(p);
}
