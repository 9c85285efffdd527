/* SPDX-License-Identifier: MIT
 * machine.c - the only place that allocates for a program: buffers, streams, events, call records. */
#include "base/cure.h"
#include "params/params.h"
#include "run/comm_clock.h"
#include "run/requests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static int make_memory(sp_machine *m, const sp_buf *b, size_t bytes, void **ptr, sp_err *err) {
  if (b->at == SP_AT_PINNED) return sp_pool_get(m->pool, bytes, ptr, err) ? sp_prefix(err, "%s", b->name) : SP_OK;
  *ptr = sp_graph_alloc(m->g, sp_program_place(m->p, b), bytes, b->name, err);
  return *ptr ? SP_OK : err->status;
}

static int make_slots(sp_machine *m, const sp_buf *b, size_t bytes, void ***ptr, sp_err *err) {
  int st = SP_OK;
  *ptr = sp_graph_zalloc(m->g, (size_t)b->slots, sizeof **ptr, b->name, err);
  if (!*ptr) return err->status;
  for (int s = 0; bytes && s < b->slots && !st; s++) st = make_memory(m, b, bytes, &(*ptr)[s], err);
  return st;
}

static int make_buffers(sp_machine *m, sp_err *err) {
  const sp_program *p = m->p;
  int st = SP_OK;
  m->pack = sp_graph_zalloc(m->g, p->n_packs, sizeof *m->pack, "buffers", err);
  m->buf = sp_graph_zalloc(m->g, p->n_bufs, sizeof *m->buf, "buffers", err);
  if (!m->pack || !m->buf) return err->status;
  for (size_t i = 0; i < p->n_packs && !st; i++)
    st = make_slots(m, &p->bufs[p->packs[i].first], p->packs[i].bytes, &m->pack[i], err);
  for (size_t i = 0; i < p->n_bufs && !st; i++) {
    const sp_buf *b = &p->bufs[i];
    if (!b->bytes) continue;
    st = make_slots(m, b, b->pack < 0 ? b->bytes : 0, &m->buf[i], err);
    for (int s = 0; b->pack >= 0 && s < b->slots && !st; s++) m->buf[i][s] = (char *)m->pack[b->pack][s] + b->offset;
  }
  return st;
}

static void free_slots(sp_machine *m, const sp_buf *b, void **ptr, bool memory) {
  sp_err ignored;
  for (int s = 0; memory && ptr && s < b->slots; s++)
    if (ptr[s] && b->at == SP_AT_PINNED) sp_pool_put(m->pool, ptr[s], &ignored);
    else sp_place_free(sp_program_place(m->p, b), ptr[s]);
  free(ptr);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* The first lane takes the stream of the other's updates, the others take further ones of their device. */
static const sp_stream *find_beside(const sp_machine *m, size_t lane, const sp_machine *beside) {
  for (size_t k = 0; beside && k < beside->p->n_lanes; k++) {
    const sp_stream *s = &beside->streams[k];
    bool free = s->own && s->place == m->streams[lane].place;
    if (lane == 0) free = free && (int)k == beside->p->update_lane;
    for (size_t j = 0; j < lane; j++) free = free && m->streams[j].from != s;
    if (free) return s;
  }
  return NULL;
}

static int make_stream(sp_machine *m, size_t i, const sp_machine *beside, sp_err *err) {
  const sp_lane *l = &m->p->lanes[i];
  sp_stream *s = &m->streams[i];
  int st = SP_OK;
  *s = (sp_stream){.place = l->place, .name = l->props.name, .priority = l->props.priority};
  if (l->host || !l->used) return SP_OK;
  s->from = find_beside(m, i, beside);
  if (!s->from) st = sp_place_stream(s->place, s->name, s->priority, &s->own, err);
  if (!st && m->launch != SIZE_MAX && s->place == &m->g->main) {
    st = sp_place_event(s->place, 0, s->name, &s->joint, err);
    if (!st) st = sp_place_event(s->place, 0, s->name, &s->cut, err);
  }
  if (!st && l->scratch && !(s->scratch = sp_graph_alloc(m->g, s->place, l->scratch, "a lane's scratch memory", err)))
    st = err->status;
  return st;
}

static int make_streams(sp_machine *m, const sp_machine *beside, sp_err *err) {
  int st = SP_OK;
  m->streams = sp_graph_zalloc(m->g, m->p->n_lanes, sizeof *m->streams, "streams", err);
  if (!m->streams) return err->status;
  for (size_t i = 0; i < m->p->n_lanes && !st; i++) st = make_stream(m, i, beside, err);
  return st;
}

static void close_event(const sp_place *place, void *event) {
  if (event) place->type->event_close(event);
}

static void free_streams(sp_machine *m) {
  for (size_t i = 0; m->streams && i < m->p->n_lanes; i++) {
    sp_stream *s = &m->streams[i];
    if (!s->place) continue;
    if (s->own) s->place->type->stream_close(s->own);
    close_event(s->place, s->joint);
    close_event(s->place, s->cut);
  }
}

/* Nothing is in flight, so every event is complete: those that a failure came along with too, from here on. */
static int complete_events(sp_machine *m, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; i < m->p->n_tasks && !st; i++) {
    const sp_task *t = &m->p->tasks[i];
    sp_post *post = &m->posts[i];
    for (int r = 0; post->events && r < m->ops.ring[i] && !st; r++) {
      post->at[r] = post->events[r];
      st = sp_place_record(m->p->lanes[t->lane].place, post->events[r], sp_machine_stream(m, t->lane)->own, t->name,
                           err);
    }
  }
  return st ? st : sp_machine_sync(m, err);
}

int sp_machine_reopen(sp_machine *m, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; i < m->p->n_lanes && !st; i++) {
    sp_stream *s = &m->streams[i];
    if (!s->own) continue;
    s->place->type->stream_close(s->own);
    s->own = NULL;
    st = sp_place_stream(s->place, s->name, s->priority, &s->own, err);
  }
  return st ? st : complete_events(m, err);
}

void sp_machine_block(const sp_machine *m, const sp_place *place, bool begins) {
  if (m->g->store.reduce && !sp_place_is_host(place)) sp_ranks_block(m->g->store.reduce->ranks, begins);
}

int sp_machine_sync(sp_machine *m, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; i < m->p->n_lanes; i++) {
    const sp_stream *s = sp_machine_stream(m, (int)i);
    sp_err mine;
    if (!s->place || !s->own) continue;
    sp_machine_block(m, s->place, true);
    int failed = sp_place_sync(s->place, s->own, s->name, &mine);
    sp_machine_block(m, s->place, false);
    if (failed && !st) *err = mine, st = failed;
  }
  return st;
}

/* ---- call records ------------------------------------------------------------------------------------------------ */

void sp_call_fill(sp_call *c, uint64_t step, uint32_t n) {
  const sp_task *t = c->task;
  const sp_program *p = c->m->p;
  for (size_t i = 0; i < t->n_binds; i++) {
    const sp_bind *b = &t->binds[i];
    sp_tensor *x = &c->t[b->tensor];
    if (b->each) x->data = (char *)t->proto[b->tensor].data + step % (uint64_t)p->micro * b->each;
    else if (b->buf >= 0) x->data = c->m->buf[b->buf][step % (uint64_t)p->bufs[b->buf].slots];
    if (b->batch) x->spec.shape[0] = n;
  }
  c->step = step;
  c->n = n;
  if (t->sums_buf >= 0) c->io.sums = c->m->buf[t->sums_buf][0];
  if (t->scale_buf >= 0) c->io.dw_scale = c->m->buf[t->scale_buf][step % (uint64_t)p->bufs[t->scale_buf].slots];
  if (t->saved_buf >= 0) c->io.saved = c->m->buf[t->saved_buf][step % (uint64_t)p->bufs[t->saved_buf].slots];
  if (c->again) sp_again_fill(c->again, c);
}

/* A frozen stage too, if it passes a gradient on: its forward() keeps what its backward() needs. */
static bool changes_when_training(const sp_node *n) {
  bool yes = n->flow.backward || n->loss || n->optimizer;
  for (size_t i = 0; !n->frozen && i < n->params.n_weights; i++)
    yes = yes || n->params.weights[i].flags & SP_WEIGHT_STATE;
  return yes;
}

/* Where a call finds what it is told of its step: in its record, or in the block of its lane. */
static void bind_block(sp_machine *m, sp_call *c, int slot) {
  const sp_lane *l = &m->p->lanes[c->task->lane];
  bool told = (!c->task->node->stepless || c->task->instead) && sp_task_is_told(c->task->kind);
  if (l->block < 0) {
    c->io.step = told ? &c->block : NULL;
    c->io.ids = told && m->has_feed ? m->ids + (size_t)slot * m->batch : NULL;
    return;
  }
  char *block = m->buf[l->block][slot];
  c->io.step = told ? &((const sp_block_task *)(block + c->task->block))->step : NULL;
  c->io.ids = told && m->has_feed ? (const uint64_t *)(block + sizeof(sp_block_head)) : NULL;
  if (c->io.dw_scale) c->io.dw_scale = &((const sp_block_head *)block)->minus_lr;
}

/* The rows of its node, which programs of one source share. */
static int bind_cache(sp_machine *m, sp_call *c, sp_err *err) {
  const sp_table *table = sp_cache_table(c->task->node, m->p->source, err);
  if (!table) return err->status;
  c->io.n_weights = (uint32_t)(c->task->first_dweight - c->task->first_weight);
  for (size_t f = 0; f < c->io.n_weights; f++) c->t[c->task->first_weight + f].data = table->rows[f];
  return SP_OK;
}

/* Its lists are made. */
static sp_io_parts parts_of(const sp_machine *m, sp_call *c) {
  const sp_graph *g = m->g;
  const sp_task *t = c->task;
  const sp_node *n = t->node;
  bool sums = t->kind == SP_TASK_UPDATE && t->sums_buf >= 0;
  void *kept = t->scratch_buf >= 0 && m->buf[t->scratch_buf] ? m->buf[t->scratch_buf][0] : NULL;
  return (sp_io_parts){.training = m->p->training && g->train.on && changes_when_training(n),
                       .n_in = n->n_in,
                       .n_out = n->n_out,
                       .lists = c->lists,
                       .din_acc = (const uint8_t *const *)t->din_acc,
                       .n_weights = (uint32_t)n->params.n_weights,
                       .n_factors = t->first_factor ? (uint32_t)n->params.n_factors : 0,
                       .weights = c->t + t->first_weight,
                       .dweights = c->t + t->first_dweight,
                       .factors = c->t + t->first_factor,
                       .part = t->part,
                       .dw_scale = sp_call_takes_lr(m->p, n, t->kind) ? &c->dw_scale : NULL,
                       .scratch = t->scratch_buf >= 0 ? kept : m->streams[t->lane].scratch,
                       .consts = n->params.consts,
                       .sum_at = sums ? g->store.reduce->sum_at : NULL,
                       .n_sums = sums ? g->store.reduce->n_sums : 0};
}

static int make_call(sp_machine *m, const sp_task *t, int slot, sp_err *err) {
  sp_graph *g = m->g;
  sp_node *n = t->node;
  sp_call *c = &m->posts[t->index].calls[slot];
  c->task = t;
  c->m = m;
  if (!n) return SP_OK;
  c->t = sp_graph_zalloc(g, t->n_t, sizeof *c->t, "call records", err);
  c->lists = sp_graph_zalloc(g, t->n_lists, sizeof *c->lists, "call records", err);
  if (!c->t || !c->lists) return err->status;
  memcpy(c->t, t->proto, t->n_t * sizeof *c->t);
  for (size_t i = 0; i < t->n_lists; i++) c->lists[i] = (sp_list){.n = t->lists[i].n, .t = c->t + t->offset[i]};
  const sp_io_parts parts = parts_of(m, c);
  sp_io_fill(&c->io, sp_task_call(t->kind), &parts);
  bind_block(m, c, slot);
  bool again = (t->kind == SP_TASK_FORWARD || t->kind == SP_TASK_BACKWARD) && sp_program_again(m->p, n);
  if (again) c->io.saved = (char *)c->io.scratch + sp_again_saved(n);
  if (again && t->kind == SP_TASK_BACKWARD && sp_again_new(&c->again, c, &parts, err)) return err->status;
  return t->instead ? bind_cache(m, c, err) : SP_OK;
}

static int make_events(sp_machine *m, const sp_task *t, sp_err *err) {
  const sp_place *place = m->p->lanes[t->lane].place;
  sp_post *post = &m->posts[t->index];
  int ring = m->ops.ring[t->index], st = SP_OK;
  post->events = sp_graph_zalloc(m->g, (size_t)ring, sizeof *post->events, "events", err);
  post->at = sp_graph_zalloc(m->g, (size_t)ring, sizeof *post->at, "events", err);
  if (!post->events || !post->at) return err->status;
  for (int r = 0; r < ring && !st; r++) {
    st = sp_place_event(place, 0, t->name, &post->events[r], err);
    post->at[r] = post->events[r];
  }
  if (!st && m->launch != SIZE_MAX && place == &m->g->main) st = sp_place_event(place, 0, t->name, &post->cut, err);
  return st;
}

static int make_post(sp_machine *m, const sp_task *t, sp_err *err) {
  sp_post *post = &m->posts[t->index];
  int st = sp_checksum_wants(m, t) ? sp_checksum_name(m, t, err) : SP_OK;
  if (m->p->lanes[t->lane].host) return SP_OK;
  post->calls = st ? NULL : sp_graph_zalloc(m->g, (size_t)m->p->ring, sizeof *post->calls, "call records", err);
  if (!post->calls) return err->status;
  for (int r = 0; r < m->p->ring && !st; r++) st = make_call(m, t, r, err);
  if (!st && m->p->sched.items[t->index].record) st = make_events(m, t, err);
  return st ? st : sp_timeline_make(m, t, err);
}

/* One block of the pool for all: it gives out no less than a page. */
static int make_sums(sp_machine *m, sp_err *err) {
  size_t ring = (size_t)m->p->ring, bytes = m->n_hashes * ring * sizeof(uint64_t);
  if (!bytes) return SP_OK;
  if (m->g->border && sp_pool_get(m->pool, bytes, &m->sums, err)) return sp_prefix(err, "checksums");
  if (!m->g->border && !(m->sums = sp_graph_zalloc(m->g, 1, bytes, "checksums", err))) return err->status;
  uint64_t *at = memset(m->sums, 0, bytes);
  for (size_t i = 0; i < m->p->n_tasks; i++)
    for (size_t r = 0; m->posts[i].calls && r < ring; r++, at += m->posts[i].n_hashes) m->posts[i].calls[r].hash = at;
  return SP_OK;
}

static void free_sums(sp_machine *m) {
  sp_err ignored;
  if (m->sums && m->g->border) sp_pool_put(m->pool, m->sums, &ignored);
  else free(m->sums);
}

static int make_posts(sp_machine *m, sp_err *err) {
  int st = SP_OK;
  size_t ring = (size_t)m->p->ring;
  m->ids = sp_graph_zalloc(m->g, ring * m->batch, sizeof *m->ids, "sample ids", err);
  m->known = sp_graph_zalloc(m->g, ring, sizeof *m->known, "step records", err);
  m->posts = sp_graph_zalloc(m->g, m->p->n_tasks, sizeof *m->posts, "call records", err);
  m->shown = sp_graph_zalloc(m->g, m->p->n_metrics, sizeof *m->shown, "metrics", err);
  m->results = sp_graph_zalloc(m->g, m->p->n_metrics, sizeof *m->results, "results", err);
  m->result_names = sp_graph_zalloc(m->g, m->p->n_metrics, sizeof *m->result_names, "results", err);
  if (m->queue && sp_requests_init(m, err)) return err->status;
  if (!m->ids || !m->known || !m->posts || !m->shown || !m->results || !m->result_names) return err->status;
  for (size_t i = 0; i < m->p->n_tasks && !st; i++) st = make_post(m, &m->p->tasks[i], err);
  m->hashes = st ? NULL : sp_graph_zalloc(m->g, m->n_hashes, sizeof *m->hashes, "checksums", err);
  if (st || !m->hashes || make_sums(m, err) || sp_checksum_order(m, err)) return err->status;
  return m->p->sharded || sp_machine_shares(m) ? sp_shards_new(&m->shards, m, err) : SP_OK;
}

static void free_post(sp_machine *m, const sp_task *t) {
  const sp_place *place = m->p->lanes[t->lane].place;
  sp_post *post = &m->posts[t->index];
  for (int r = 0; post->calls && r < m->p->ring; r++) {
    free(post->calls[r].t);
    free(post->calls[r].lists);
    sp_again_free(post->calls[r].again);
  }
  for (int r = 0; post->events && r < m->ops.ring[t->index]; r++) close_event(place, post->events[r]);
  close_event(place, post->cut);
  sp_timeline_free(m, t);
  for (size_t i = 0; i < post->n_hashes; i++) free((char *)post->hashes[i].name);
  free(post->calls);
  free(post->events);
  free(post->at);
  free(post->hashes);
}

/* ---- what single operations need --------------------------------------------------------------------------------- */

/* A thread of the cpu looks at the event of another device when it gets there. */
static bool waits_late(const sp_machine *m, const sp_op *op) {
  return op->kind == SP_OP_WAIT && m->p->lanes[op->lane].place != m->p->lanes[m->p->tasks[op->from].lane].place;
}

static int make_ops(sp_machine *m, sp_err *err) {
  size_t ring = (size_t)m->p->ring;
  int st = SP_OK;
  m->late = sp_graph_zalloc(m->g, m->ops.n, sizeof *m->late, "waits", err);
  m->graph = sp_graph_zalloc(m->g, (size_t)m->ops.n_launch, sizeof *m->graph, "graphs", err);
  m->tick_event = sp_graph_zalloc(m->g, (size_t)m->ops.tick_ring, sizeof *m->tick_event, "events", err);
  if (!m->late || !m->graph || !m->tick_event) return err->status;
  for (size_t i = 0; i < m->ops.n; i++)
    if (waits_late(m, &m->ops.op[i]) && !(m->late[i] = sp_graph_zalloc(m->g, ring, sizeof **m->late, "waits", err)))
      return err->status;
  for (int i = 0; i < m->ops.n_launch; i++)
    if (!(m->graph[i] = sp_graph_zalloc(m->g, ring, sizeof **m->graph, "graphs", err))) return err->status;
  for (int i = 0; i < m->ops.tick_ring && !st; i++)
    st = sp_place_event(&m->g->main, 0, "a step", &m->tick_event[i], err);
  return st ? st : sp_timeline_make_launches(m, err);
}

static void free_ops(sp_machine *m) {
  sp_timeline_free_launches(m);
  for (size_t i = 0; m->late && i < m->ops.n; i++) free(m->late[i]);
  for (int i = 0; m->graph && i < m->ops.n_launch; i++) {
    for (int r = 0; m->graph[i] && r < m->p->ring; r++)
      if (m->graph[i][r]) m->g->main.type->graph_close(m->graph[i][r]);
    free(m->graph[i]);
  }
  for (int i = 0; m->tick_event && i < m->ops.tick_ring; i++) close_event(&m->g->main, m->tick_event[i]);
  free(m->late);
  free(m->graph);
  free(m->tick_event);
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static int prepare_for(sp_machine *m, const sp_task *t, uint32_t n, sp_err *err) {
  const sp_stream *s = sp_machine_stream(m, t->lane);
  sp_call *c = &m->posts[t->index].calls[0];
  sp_call_fill(c, 0, n);
  sp_io io;
  sp_io_parts parts = parts_of(m, c);
  parts.saved = c->io.saved;
  parts.factors = t->node->params.rows; /* those that apply() will have */
  sp_io_fill(&io, SP_CALL_PREPARE, &parts);
  int st = sp_inst_prepare(t->node->inst, &io, s->place->type->stream_native(s->own), err);
  return st ? st : sp_place_sync(s->place, s->own, t->name, err);
}

/* Once for every N that can come. */
static int prepare(sp_machine *m, sp_err *err) {
  uint32_t one[2] = {1, 0};
  const uint32_t *sizes = m->has_feed ? m->feed.sizes : one;
  int st = SP_OK;
  for (size_t i = 0; i < m->p->n_tasks && !st; i++) {
    const sp_task *t = &m->p->tasks[i];
    if ((t->kind != SP_TASK_FORWARD && t->kind != SP_TASK_UPDATE) || t->instead) continue;
    if (m->g->store.reduce && !m->p->stand_in) sp_ranks_at(m->g->store.reduce->ranks, SP_RANKS_NO_STEP, t->name, NULL);
    for (int k = 0; k < 2 && sizes[k] && !st; k++) st = prepare_for(m, t, sizes[k], err);
    t->node->params.stale = false;
  }
  return st;
}

int sp_machine_refresh(sp_machine *m, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; m->built && i < m->p->n_tasks && !st; i++) {
    const sp_task *t = &m->p->tasks[i];
    if (t->kind != SP_TASK_FORWARD || t->instead || !t->node->params.stale || !t->node->params.consts) continue;
    st = prepare_for(m, t, m->has_feed ? m->feed.sizes[0] : 1, err);
    t->node->params.stale = st;
  }
  return st;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int of_source(const sp_node *source, sp_err *err) {
  sp_cure_words(err->msg, sizeof err->msg, source->inst->type->name);
  return sp_prefix(err, "stage '%s'", source->name);
}

/* A cache is filled as its source is read: where that is in no order each sample may be in a full batch. */
static int make_feed(sp_machine *m, sp_err *err) {
  const sp_program *p = m->p;
  const sp_node *s = p->source;
  if (!s) return SP_OK;
  m->has_feed = true;
  m->batch = (size_t)s->opts.batch;
  if (s->inst->type->flags & SP_STAGE_REQUESTS) {
    m->queue = m->g->queue;
    m->feed.sizes[0] = (uint32_t)m->batch;
    return SP_OK;
  }
  int st = sp_sampler_init(&m->sampler, m->g->opts.seed, p->length, (uint32_t)s->opts.batch,
                           !p->stand_in && !s->opts.no_shuffle, s->opts.drop_last && !p->stand_in, err);
  if (!st && s->draw && !p->stand_in)
    st = sp_sampler_weigh(&m->sampler, s->draw, s->opts.draws, !s->opts.no_replacement, err);
  if (st) return of_source(s, err);
  const sp_reduce *r = sp_machine_shares(m);
  uint32_t own = (uint32_t)p->micro, ranks = r ? (uint32_t)r->n_ranks : 1, first = r ? (uint32_t)r->rank * own : 0;
  if (sp_sampler_share(&m->sampler, first, own, own * ranks, err)) return of_source(s, err);
  m->sampler.refill = p->fills && s == m->g->train.source && !s->opts.no_shuffle;
  sp_sampler_feed(&m->sampler, &m->feed);
  return SP_OK;
}

int sp_machine_new(sp_machine **out, const sp_program *p, sp_pool *pool, sp_err *err) {
  sp_machine *m = sp_calloc(1, sizeof *m);
  *out = NULL;
  if (!m) return sp_nomem(err, sizeof *m, "a machine");
  *m = (sp_machine){.g = p->g, .p = p, .pool = pool, .batch = 1, .stride = 1};
  const sp_reduce *r = sp_machine_shares(m);
  if (r && p->stand_in) m->stride = (uint64_t)r->n_ranks, m->offset = (uint64_t)r->rank;
  sp_failure_init(&m->failure);
  int st = make_feed(m, err);
  if (!st) st = sp_list_make(m, err);
  if (st) {
    sp_machine_free(m);
    return st;
  }
  *out = m;
  return SP_OK;
}

int sp_machine_build(sp_machine *m, const sp_machine *beside, sp_err *err) {
  const sp_place *main = &m->g->main;
  m->ranges = main->type->extension ? main->type->extension(main->dev, SP_EXT_RANGES) : NULL;
  int st = make_buffers(m, err);
  if (!st) st = make_streams(m, beside, err);
  if (!st) st = make_posts(m, err);
  if (!st) st = make_ops(m, err);
  if (!st) st = sp_comm_clock_new(&m->clock, m, err);
  if (!st) st = prepare(m, err);
  if (!st) st = sp_timeline_tell(m, err);
  m->built = !st;
  return st;
}

void sp_machine_free(sp_machine *m) {
  sp_err ignored;
  if (!m) return;
  if (m->built) sp_machine_sync(m, &ignored); /* a graph in flight is not freed */
  free_ops(m);
  sp_comm_clock_free(m->clock, m);
  free_streams(m);
  for (size_t i = 0; m->posts && i < m->p->n_tasks; i++) free_post(m, &m->p->tasks[i]);
  for (size_t i = 0; m->streams && i < m->p->n_lanes; i++)
    if (m->streams[i].scratch) sp_place_free(m->streams[i].place, m->streams[i].scratch);
  for (size_t i = 0; m->buf && i < m->p->n_bufs; i++) free_slots(m, &m->p->bufs[i], m->buf[i], m->p->bufs[i].pack < 0);
  for (size_t i = 0; m->pack && i < m->p->n_packs; i++)
    free_slots(m, &m->p->bufs[m->p->packs[i].first], m->pack[i], true);
  free_sums(m);
  free(m->streams);
  free(m->posts);
  free(m->buf);
  free(m->pack);
  free(m->ids);
  free(m->known);
  free(m->gate.flight);
  sp_shards_free(m->shards);
  free(m->shown);
  free(m->results);
  free(m->result_names);
  free(m->hashes);
  free(m->hash_of);
  for (size_t i = 0; i < m->n_absent; i++) free(m->absent[i]);
  free(m->absent);
  sp_sampler_free(&m->sampler);
  sp_ops_free(&m->ops);
  sp_failure_destroy(&m->failure);
  free(m);
}
