/* SPDX-License-Identifier: MIT
 * build.c - the only place that allocates for a program: buffers, streams, events, call records. */
#include "program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const sp_place *place_of(const sp_program *p, const sp_buf *b) {
  return b->at == SP_AT_CPU ? &p->g->cpu : &p->g->main;
}

static int make_memory(sp_program *p, const sp_buf *b, size_t bytes, void **ptr, sp_err *err) {
  if (b->at == SP_AT_PINNED) return sp_pool_get(p->g->pool, bytes, ptr, err) ? sp_prefix(err, "%s", b->name) : SP_OK;
  *ptr = sp_graph_alloc(p->g, place_of(p, b), bytes, b->name, err);
  return *ptr ? SP_OK : err->status;
}

static int make_pack(sp_program *p, sp_pack *k, sp_err *err) {
  const sp_buf *b = &p->bufs[k->first];
  int st = SP_OK;
  k->ptr = sp_graph_zalloc(p->g, (size_t)b->slots, sizeof *k->ptr, b->name, err);
  if (!k->ptr) return err->status;
  for (int s = 0; s < b->slots && !st; s++) st = make_memory(p, b, k->bytes, &k->ptr[s], err);
  return st;
}

static int make_buffers(sp_program *p, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; i < p->n_packs && !st; i++) st = make_pack(p, &p->packs[i], err);
  for (size_t i = 0; i < p->n_bufs && !st; i++) {
    sp_buf *b = &p->bufs[i];
    if (!b->bytes) continue;
    b->ptr = sp_graph_zalloc(p->g, (size_t)b->slots, sizeof *b->ptr, b->name, err);
    if (!b->ptr) return err->status;
    for (int s = 0; s < b->slots && !st; s++)
      if (b->pack >= 0) b->ptr[s] = (char *)p->packs[b->pack].ptr[s] + b->offset;
      else st = make_memory(p, b, b->bytes, &b->ptr[s], err);
  }
  return st;
}

/* Scratch belongs to a lane: its tasks run one after another. */
static size_t lane_scratch(const sp_program *p, size_t lane) {
  size_t most = 0;
  for (size_t i = 0; i < p->n_tasks; i++)
    if (p->tasks[i].lane == (int)lane && p->tasks[i].node && p->tasks[i].node->scratch > most)
      most = p->tasks[i].node->scratch;
  return most;
}

/* Evaluation runs while nothing else does: it needs no streams of its own. Its first lane takes that of the updates, the
 * others take further ones of their device. */
static void borrow_stream(sp_program *p, size_t i) {
  const sp_program *t = p->g->train;
  sp_lane *l = &p->lanes[i];
  for (size_t k = 0; t && p->stand_in && !l->stream && k < t->n_lanes; k++) {
    bool free = !t->lanes[k].host && t->lanes[k].stream && t->lanes[k].place == l->place;
    if (i == 0) free = free && (int)k == t->update_lane;
    else
      for (size_t j = 0; j < i; j++) free = free && p->lanes[j].stream != t->lanes[k].stream;
    if (!free) continue;
    l->stream = t->lanes[k].stream;
    l->borrowed = true;
  }
}

static int make_lane(sp_program *p, size_t i, sp_err *err) {
  sp_lane *l = &p->lanes[i];
  sp_graph *g = p->g;
  sp_ctx_holder h;
  int st = SP_OK;
  if (l->host) return SP_OK;
  borrow_stream(p, i);
  if (!l->stream)
    st = l->place->type->stream_open(sp_ctx_for(&h, l->name, err), l->place->dev, l->name, l->priority, &l->stream);
  if (!st && p->capture == SP_CAPTURE_STEP && l->place == &g->main)
    st = l->place->type->event_open(sp_ctx_for(&h, l->name, err), l->place->dev, 0, &l->joint);
  l->scratch_bytes = lane_scratch(p, i);
  if (!st && l->scratch_bytes &&
      !(l->scratch = sp_graph_alloc(g, l->place, l->scratch_bytes, "a lane's scratch memory", err)))
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
static size_t batch_of(const sp_program *p) { return p->source ? (size_t)p->source->opts.batch : 1; }

/* A frozen stage too, if it passes a gradient on: its forward() keeps what its backward() needs. */
static bool changes_when_training(const sp_node *n) {
  bool yes = n->backward || n->loss || n->optimizer;
  for (size_t i = 0; !n->frozen && i < n->n_weights; i++) yes = yes || n->weights[i].flags & SP_WEIGHT_STATE;
  return yes;
}

static int make_call(sp_program *p, sp_task *t, int slot, sp_err *err) {
  sp_graph *g = p->g;
  sp_node *n = t->node;
  sp_call *c = &t->calls[slot];
  const sp_lane *l = &p->lanes[t->lane];
  c->task = t;
  c->late = sp_graph_zalloc(g, p->sched.items[t->index].n_waits, sizeof *c->late, "call records", err);
  if (!c->late) return err->status;
  if (!n) return SP_OK;
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
                  .scratch = l->scratch};
  if (l->block < 0) {
    c->io.step = &c->block;
    c->io.ids = p->has_sampler ? p->ids + (size_t)slot * batch_of(p) : NULL;
  } else {
    char *block = p->bufs[l->block].ptr[slot];
    c->io.step = (const sp_step *)(block + t->block);
    c->io.ids = p->has_sampler ? (const uint64_t *)(block + SP_BLOCK_HEAD) : NULL;
    if (c->io.dw_scale) c->io.dw_scale = (const float *)block;
  }
  return SP_OK;
}

/* Events of a task. One that a thread of the cpu waits for may be recorded again only when that thread is known to have
 * passed: when the host has collected the step of the waiting call. */
static int make_events(sp_program *p, sp_task *t, sp_err *err) {
  sp_graph *g = p->g;
  sp_sched_item *item = &p->sched.items[t->index];
  const sp_place *place = p->lanes[t->lane].place;
  sp_ctx_holder h;
  int st = SP_OK;
  for (size_t i = 0; i < p->n_tasks; i++)
    for (size_t k = 0; k < p->sched.items[i].n_waits; k++) {
      const sp_sched_wait *w = &p->sched.items[i].waits[k];
      const sp_place *at = p->lanes[p->tasks[i].lane].place;
      if (w->task == t->index && at && at != place && item->ring < p->ring + w->back + 1)
        item->ring = p->ring + w->back + 1;
    }
  if (p->capture != SP_CAPTURE_OFF && item->ring < p->ring) item->ring = p->ring; /* a segment is submitted as one */
  t->events = sp_graph_zalloc(g, (size_t)item->ring, sizeof *t->events, "events", err);
  if (!t->events) return err->status;
  for (int r = 0; r < item->ring && !st; r++)
    st = place->type->event_open(sp_ctx_for(&h, t->name, err), place->dev, 0, &t->events[r]);
  return st;
}

static int make_calls(sp_program *p, sp_err *err) {
  sp_graph *g = p->g;
  int st = SP_OK;
  p->ids = sp_graph_zalloc(g, (size_t)p->ring * batch_of(p), sizeof *p->ids, "sample ids", err);
  p->step_n = sp_graph_zalloc(g, (size_t)p->ring, sizeof *p->step_n, "step records", err);
  p->step_lr = sp_graph_zalloc(g, (size_t)p->ring, sizeof *p->step_lr, "step records", err);
  if (!p->ids || !p->step_n || !p->step_lr) return err->status;
  for (size_t i = 0; i < p->n_tasks && !st; i++) {
    sp_task *t = &p->tasks[i];
    if (p->lanes[t->lane].host) continue;
    if (g->opts.checksums && t->node) st = name_hashes(t, err);
    t->calls = st ? NULL : sp_graph_zalloc(g, (size_t)p->ring, sizeof *t->calls, "call records", err);
    if (!t->calls) return err->status;
    for (int r = 0; r < p->ring && !st; r++) st = make_call(p, t, r, err);
    if (!st && p->sched.items[i].record) st = make_events(p, t, err);
    if (!st) st = sp_timeline_make(p, t, err);
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
    const sp_lane *l = &p->lanes[t->lane];
    sp_ctx_holder h;
    if (t->kind != SP_TASK_FORWARD && t->kind != SP_TASK_UPDATE) continue;
    for (int k = 0; k < 2 && sizes[k] && !st; k++) {
      sp_io io;
      sp_call_fill(&t->calls[0], 0, sizes[k]);
      io = t->calls[0].io;
      io.step = NULL;
      io.ids = NULL;
      st = sp_inst_prepare(t->node->inst, &io, l->place->type->stream_native(l->stream), err);
      if (!st) st = l->place->type->stream_sync(sp_ctx_for(&h, t->name, err), l->stream);
    }
  }
  return st;
}

int sp_program_build(sp_program *p, sp_err *err) {
  int st = make_buffers(p, err);
  for (size_t i = 0; i < p->n_lanes && !st; i++) st = make_lane(p, i, err);
  if (!st) st = make_calls(p, err);
  if (!st) st = prepare(p, err);
  if (!st) st = sp_capture_plan(p, err);
  p->lr = NAN;
  p->built = !st;
  return st;
}

void sp_program_memory(const sp_program *p, sp_mem *mem) {
  for (size_t i = 0; i < p->n_bufs; i++) {
    const sp_buf *b = &p->bufs[i];
    uint64_t each = b->at == SP_AT_PINNED && b->pack < 0 ? sp_pool_block(b->bytes) : b->bytes, bytes, *sum;
    sum = b->kind == SP_BUF_ACTIVATION ? &mem->activations : b->kind == SP_BUF_GRADIENT ? &mem->gradients : &mem->saved;
    if (__builtin_mul_overflow(each, (uint64_t)b->slots, &bytes) || __builtin_add_overflow(*sum, bytes, sum))
      *sum = UINT64_MAX;
  }
  for (size_t i = 0; i < p->n_lanes; i++) mem->scratch += lane_scratch(p, i);
}

/* ---- free ---- */
static void free_task(sp_program *p, sp_task *t) {
  const sp_device_type *d = p->lanes[t->lane].host ? NULL : p->lanes[t->lane].place->type;
  for (int r = 0; t->calls && r < p->ring; r++) {
    free(t->calls[r].late);
    free(t->calls[r].t);
    free(t->calls[r].lists);
    free(t->calls[r].hash);
  }
  free(t->calls);
  for (int r = 0; t->events && r < p->sched.items[t->index].ring; r++)
    if (t->events[r]) d->event_close(t->events[r]);
  free(t->events);
  sp_timeline_free(p, t);
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
  free(t->copies);
}

static void free_memory(sp_program *p, const sp_buf *b, void *ptr) {
  const sp_place *place = place_of(p, b);
  sp_err err;
  if (!ptr) return;
  if (b->at == SP_AT_PINNED) sp_pool_put(p->g->pool, ptr, NULL, &err);
  else place->type->free(place->dev, SP_MEM_DEVICE, ptr);
}

void sp_program_free(sp_program *p) {
  int **maps[5];
  if (!p) return;
  sp_capture_free(p);
  for (size_t i = 0; i < p->n_lanes; i++) {
    sp_lane *l = &p->lanes[i];
    if (l->joint) l->place->type->event_close(l->joint);
    if (l->stream && !l->borrowed) l->place->type->stream_close(l->stream);
  }
  for (size_t i = 0; i < p->n_tasks; i++) free_task(p, &p->tasks[i]);
  free(p->tasks);
  for (size_t i = 0; i < p->n_lanes; i++) {
    sp_lane *l = &p->lanes[i];
    if (l->scratch) l->place->type->free(l->place->dev, SP_MEM_DEVICE, l->scratch);
    free(l->name);
  }
  free(p->lanes);
  for (size_t i = 0; i < p->n_bufs; i++) {
    sp_buf *b = &p->bufs[i];
    for (int s = 0; b->pack < 0 && b->ptr && s < b->slots; s++) free_memory(p, b, b->ptr[s]);
    free(b->ptr);
  }
  for (size_t i = 0; i < p->n_packs; i++) {
    const sp_buf *b = &p->bufs[p->packs[i].first];
    for (int s = 0; p->packs[i].ptr && s < b->slots; s++) free_memory(p, b, p->packs[i].ptr[s]);
    free(p->packs[i].ptr);
  }
  free(p->packs);
  for (size_t i = 0; i < p->n_bufs; i++) free(p->bufs[i].name);
  free(p->bufs);
  for (size_t i = 0; i < p->g->n_nodes; i++) {
    if (p->act) free(p->act[i]);
    if (p->grad) free(p->grad[i]);
    if (p->twin) free(p->twin[i]);
  }
  free(p->act);
  free(p->grad);
  free(p->twin);
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
