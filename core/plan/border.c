/* SPDX-License-Identifier: MIT
 * border.c - what lies between the memory of the processor and that of another device: copies, step blocks, metrics.
 *
 * A stream of the device cannot wait for the cpu's: before a copy the host does, in a task of its own (AWAIT) that
 * touches the same buffers, so that the proof sees it. The other way round a thread of the cpu waits. What a reader
 * gives is packed: one copy moves a batch. Every lane of the device whose stages read them has a block that the host
 * fills (FILL) and a copy takes over: sample ids and what stages are told of the step; so a recorded graph, whose
 * addresses are fixed, finds this step's values. Metrics of a lane lie side by side too and come back in one copy. */
#include "plan/planner.h"

#include <stdlib.h>

static size_t rounded(size_t n, size_t to) { return (n + to - 1) / to * to; }

static int new_pack(sp_planner *w, int first, int *out, sp_err *err) {
  sp_program *p = w->p;
  if (!sp_grow(&p->packs, &w->cap_packs, p->n_packs + 1, sizeof *p->packs)) return sp_nomem(err, 64, "a resource");
  p->packs[p->n_packs] = (sp_pack){.first = first};
  *out = (int)p->n_packs++;
  return SP_OK;
}

/* Appends a buffer to the pack; *pack -1: begins one. */
static int put_in_pack(sp_planner *w, int buf, int *pack, sp_err *err) {
  sp_program *p = w->p;
  int st = *pack < 0 ? new_pack(w, buf, pack, err) : SP_OK;
  if (st) return st;
  p->bufs[buf].pack = *pack;
  p->bufs[buf].offset = p->packs[*pack].bytes;
  p->packs[*pack].bytes += rounded(p->bufs[buf].bytes, SP_ALIGN);
  return SP_OK;
}

static int add_copy(sp_task *t, int from, int to, size_t bytes, sp_err *err) {
  if (!sp_grow(&t->copies, &t->cap_copies, t->n_copies + 1, sizeof *t->copies)) return sp_nomem(err, 64, "a copy");
  t->copies[t->n_copies++] = (sp_copy){from, to, bytes};
  return SP_OK;
}

/* ---- which buffers ---- */
static const sp_lane *lane_of(const sp_planner *w, const sp_node *n) {
  return &w->p->lanes[w->lane[n->index][SP_LANE_FORWARD]];
}

/* Who reads a tensor of n on the side `cpu` of the border; the one with the least delay. */
static const sp_node *reader_of(const sp_planner *w, const sp_node *n, int port, int index, bool cpu) {
  const sp_graph *g = w->p->g;
  const sp_node *found = NULL;
  if (n == w->p->stand_in) n = g->train.source; /* wires name the one it stands in for */
  for (size_t j = 0; j < g->n_nodes; j++)
    for (unsigned i = 0; i < g->nodes[j]->n_in; i++)
      for (size_t k = 0; k < g->nodes[j]->in[i].n; k++) {
        const sp_node *m = g->nodes[j];
        sp_ref r = m->in[i].v[k];
        if (r.node != n || r.port != port || (index >= 0 && r.index != index)) continue;
        if (!sp_program_calls(w->p, m)) continue;
        if (m->on_cpu == cpu && (!found || lane_of(w, m)->props.delay < lane_of(w, found)->props.delay)) found = m;
      }
  return found;
}

/* The lane on which n's outputs cross the border: the one the strategy gives; up to the device that of who reads them
 * first, for batches often one of their own; down n's. -1: they do not. */
static int crossing_lane(const sp_planner *w, const sp_node *n) {
  const sp_node *first = NULL;
  int given = w->lane[n->index][SP_LANE_COPY];
  for (unsigned o = 0; o < n->n_out; o++) {
    const sp_node *m = reader_of(w, n, (int)o, -1, !n->on_cpu);
    if (m && (!first || lane_of(w, m)->props.delay < lane_of(w, first)->props.delay)) first = m;
  }
  if (!first || given >= 0) return first ? given : -1;
  if (!n->on_cpu) return w->lane[n->index][SP_LANE_FORWARD];
  return n->source && w->copy_lane >= 0 ? w->copy_lane : w->lane[first->index][SP_LANE_FORWARD];
}

static int check_node(const sp_node *n, sp_err *err) {
  if (!n->on_cpu || !(n->flow.backward || n->params.trained || n->optimizer || (n->loss && n->flow.needs_grad)))
    return SP_OK;
  return sp_fail(err, SP_E_UNSUPPORTED,
                 "stage '%s' runs on the cpu, but it is to be trained on device '%s' or passes a gradient there: take "
                 "--device cpu, or a stage that exists for the device",
                 n->name, n->g->opts.device);
}

/* One more than a power of two would make a multitude of graphs; one slot more than needed keeps the source busy while
 * a copy waits. */
static int pinned_extra(int lead) { return sp_pow2(lead + 1) - lead; }

static int new_twin(sp_planner *w, sp_node *n, int act, int lane, int *twin, sp_err *err) {
  sp_program *p = w->p;
  int st = sp_planner_buf(w, sp_text("%s (%s)", p->bufs[act].name, n->on_cpu ? p->g->main.type->name : "cpu"),
                          p->bufs[act].bytes, SP_BUF_ACTIVATION, 0, 0, twin, err);
  if (st) return st;
  sp_buf *to = &p->bufs[*twin], *from = &p->bufs[act];
  to->at = n->on_cpu ? SP_AT_MAIN : SP_AT_PINNED;
  if (!n->on_cpu) {
    to->extra = 2; /* so that the host need not wait for who reads it */
    return SP_OK;
  }
  from->at = SP_AT_PINNED;
  from->extra = pinned_extra(p->lanes[lane].props.delay - lane_of(w, n)->props.delay + 1 + lane_of(w, n)->props.extra);
  to->extra = lane == w->copy_lane ? 1 : 0;
  return SP_OK;
}

/* What the cpu gives to the device is packed, but for what is small: the host looks at that long after, so it has more
 * slots, and all of a pack have as many. */
int sp_border_twins(sp_planner *w, sp_node *n, sp_err *err) {
  sp_program *p = w->p;
  size_t i = n->index, count = sp_node_n_flat(n);
  int st, here = -1, there = -1, lane;
  if (!p->g->border) return SP_OK;
  lane = crossing_lane(w, n);
  if ((st = check_node(n, err))) return st;
  if (!(w->twin[i] = sp_calloc(count + 1, sizeof **w->twin))) return sp_nomem(err, 64, "resources");
  for (size_t f = 0; f < count; f++) w->twin[i][f] = -1;
  for (unsigned o = 0; o < n->n_out; o++)
    for (uint32_t k = 0; k < n->out_specs[o].n && !st; k++) {
      size_t f = sp_node_flat(n, (int)o, (int)k);
      int act = w->act[i][f], *twin = &w->twin[i][f];
      if (act < 0 || !reader_of(w, n, (int)o, (int)k, !n->on_cpu)) continue;
      if ((st = new_twin(w, n, act, lane, twin, err))) return st;
      if (!n->on_cpu || sp_port_small(sp_node_out_port(n, o))) continue;
      p->bufs[*twin].group = 2 + 2 * (int)i; /* the activations have the group before it */
      if (!(st = put_in_pack(w, act, &here, err))) st = put_in_pack(w, *twin, &there, err);
    }
  return st;
}

/* Metrics and results of a lane lie side by side and come back in one copy; those that somebody else reads too lie
 * alone. A result was in the group of its stage's outputs, which go to other lanes and need slots of their own
 * number. */
static int lane_metrics(sp_planner *w, int lane, sp_err *err) {
  sp_program *p = w->p;
  int here = -1, there = -1, st = SP_OK;
  for (size_t i = 0; i < p->n_metrics && !st; i++) {
    sp_metric_slot *m = &p->metrics[i];
    if (m->node->on_cpu || w->lane[m->node->index][SP_LANE_FORWARD] != lane) continue;
    st = sp_planner_buf(w, sp_text("%s (host)", p->bufs[m->buf].name), p->bufs[m->buf].bytes, SP_BUF_ACTIVATION, 0, 0,
                        &m->seen, err);
    if (st) return st;
    p->bufs[m->seen].at = SP_AT_PINNED;
    p->bufs[m->seen].ring = true;
    if (reader_of(w, m->node, m->port, (int)m->index, false) || reader_of(w, m->node, m->port, (int)m->index, true))
      continue;
    p->bufs[m->buf].slots = p->lanes[lane].props.replicas; /* the copy back is in the same lane */
    p->bufs[m->buf].group = 0;
    if (!(st = put_in_pack(w, m->buf, &here, err))) st = put_in_pack(w, m->seen, &there, err);
  }
  return st;
}

int sp_border_metrics(sp_planner *w, sp_err *err) {
  int st = SP_OK;
  for (size_t l = 0; w->p->g->border && l < w->p->n_lanes && !st; l++) st = lane_metrics(w, (int)l, err);
  return st;
}

/* ---- which tasks ---- */
static int block_buf(sp_planner *w, const char *lane, sp_buf_at at, int *buf, sp_err *err) {
  int st = sp_planner_buf(w, sp_text("the step block of lane '%s'%s", lane, at == SP_AT_PINNED ? " (host)" : ""), 1,
                          SP_BUF_ACTIVATION, 0, 0, buf, err);
  if (st) return st;
  w->p->bufs[*buf].at = at;
  w->p->bufs[*buf].ring = true;
  return SP_OK;
}

static void of_replica(sp_task *t, const sp_lane *l) {
  t->every = l->props.replicas;
  t->phase = l->replica;
}

/* The host fills a lane's block, and a copy takes it over. */
static int lane_block(sp_planner *w, int lane, sp_err *err) {
  sp_program *p = w->p;
  sp_lane *l = &p->lanes[lane];
  size_t batch = p->source ? (size_t)p->source->opts.batch : 1;
  sp_task *t;
  int st;
  l->block_bytes = sizeof(sp_block_head) + rounded(batch * sizeof(uint64_t), sizeof(sp_block_head));
  if ((st = block_buf(w, l->props.name, SP_AT_PINNED, &l->block_pinned, err)) ||
      (st = block_buf(w, l->props.name, SP_AT_MAIN, &l->block, err)) ||
      (st = sp_planner_task(w, SP_TASK_FILL, NULL, sp_text("host.fill(%s)", l->props.name), p->host_lane, &t, err)))
    return st;
  t->delay = l->props.delay;
  t->of_lane = lane;
  of_replica(t, l);
  if ((st = sp_task_access(t, l->block_pinned, SP_WRITE, err)) ||
      (st = sp_planner_task(w, SP_TASK_COPY, NULL, sp_text("%s.block", l->props.name), lane, &t, err)) ||
      (st = sp_task_access(t, l->block_pinned, SP_READ, err)) || (st = sp_task_access(t, l->block, SP_WRITE, err)))
    return st;
  of_replica(t, l);
  t->always = p->sharded;
  return add_copy(t, l->block_pinned, l->block, 0, err);
}

/* The learning rate of an update in place is in the block too. */
static bool lane_needs_block(const sp_planner *w, int lane) {
  const sp_program *p = w->p;
  bool needs = false;
  for (size_t i = 0; i < p->g->n_nodes && !needs; i++) {
    const sp_node *n = p->g->nodes[i];
    if (!sp_program_has(p, n) || n->on_cpu) continue;
    int first = lane - p->lanes[lane].replica; /* of the lane's replicas, to which its stages were given */
    needs = (w->lane[i][SP_LANE_FORWARD] == first && sp_call_needs_block(p, n, SP_TASK_FORWARD)) ||
            (n->flow.backward && w->lane[i][SP_LANE_BACKWARD] == first && sp_call_needs_block(p, n, SP_TASK_BACKWARD));
  }
  return needs;
}

int sp_border_begin(sp_planner *w, sp_err *err) {
  sp_program *p = w->p;
  int st = SP_OK;
  for (size_t l = 0; p->g->border && l < p->n_lanes && !st; l++)
    if (w->busy[l] && p->lanes[l].place == &p->g->main && lane_needs_block(w, (int)l)) st = lane_block(w, (int)l, err);
  return st;
}

/* One copy moves a pack. */
static int copy_buffers(sp_planner *w, sp_task *t, int from, int to, sp_err *err) {
  const sp_buf *b = &w->p->bufs[from];
  int st;
  if ((st = sp_task_access(t, from, SP_READ, err)) || (st = sp_task_access(t, to, SP_WRITE, err))) return st;
  if (b->pack < 0) return add_copy(t, from, to, b->bytes, err);
  return b->offset ? SP_OK : add_copy(t, from, to, w->p->packs[b->pack].bytes, err);
}

/* The copy of n's outputs on `lane`, and before it the host's wait: for the cpu to be done with what is copied from, or
 * with what is copied into. */
static int copy_tasks(sp_planner *w, sp_node *n, int lane, sp_err *err) {
  sp_program *p = w->p;
  const int *act = w->act[n->index], *twin = w->twin[n->index];
  size_t count = sp_node_n_flat(n);
  sp_task *t;
  int st = sp_planner_task(w, SP_TASK_AWAIT, NULL, sp_text("host.await(%s)", n->name), p->host_lane, &t, err);
  if (st) return st;
  t->delay = p->lanes[lane].props.delay;
  t->moves = n;
  for (size_t f = 0; f < count && !st; f++)
    if (twin[f] >= 0) st = sp_task_access(t, n->on_cpu ? act[f] : twin[f], n->on_cpu ? SP_READ : SP_WRITE, err);
  if (!st) st = sp_planner_task(w, SP_TASK_COPY, NULL, sp_text("%s.copy", n->name), lane, &t, err);
  if (!st) t->moves = n;
  for (size_t f = 0; f < count && !st; f++)
    if (twin[f] >= 0) st = copy_buffers(w, t, act[f], twin[f], err);
  return st;
}

int sp_border_after(sp_planner *w, sp_node *n, sp_err *err) {
  bool any = false;
  if (!w->p->g->border) return SP_OK;
  for (size_t f = 0; f < sp_node_n_flat(n); f++) any = any || w->twin[n->index][f] >= 0;
  return any ? copy_tasks(w, n, crossing_lane(w, n), err) : SP_OK;
}

/* Of the lane whose replicas begin at `first`. */
static int return_metrics(sp_planner *w, int first, int lane, sp_err *err) {
  sp_program *p = w->p;
  sp_task *t = NULL;
  int st = SP_OK;
  for (size_t i = 0; i < p->n_metrics && !st; i++) {
    const sp_metric_slot *m = &p->metrics[i];
    if (m->node->on_cpu || w->lane[m->node->index][SP_LANE_FORWARD] != first) continue;
    if (!t)
      st = sp_planner_task(w, SP_TASK_COPY, NULL, sp_text("%s.metrics", p->lanes[lane].props.name), lane, &t, err);
    if (t) of_replica(t, &p->lanes[lane]), t->always = p->sharded;
    if (!st) st = copy_buffers(w, t, m->buf, m->seen, err);
  }
  return st;
}

/* Now all that is in a block is known. */
static void close_block(sp_program *p, const sp_lane *l) {
  p->bufs[l->block].bytes = p->bufs[l->block_pinned].bytes = l->block_bytes;
  for (size_t i = 0; i < p->n_tasks; i++) {
    sp_task *t = &p->tasks[i];
    if (t->n_copies == 1 && t->copies[0].to == l->block) t->copies[0].bytes = l->block_bytes;
  }
}

int sp_border_end(sp_planner *w, sp_err *err) {
  sp_program *p = w->p;
  int st = SP_OK;
  for (size_t l = 0; p->g->border && l < p->n_lanes && !st; l++)
    st = return_metrics(w, (int)l - p->lanes[l].replica, (int)l, err);
  for (size_t l = 0; l < p->n_lanes; l++)
    if (p->lanes[l].block >= 0) close_block(p, &p->lanes[l]);
  return st;
}

/* ---- the derived schedule ---- */
static int check_packs(const sp_program *p, sp_err *err) {
  for (size_t i = 0; i < p->n_bufs; i++) {
    const sp_buf *b = &p->bufs[i];
    if (b->pack >= 0 && b->slots != p->bufs[p->packs[b->pack].first].slots)
      return sp_fail(err, SP_E_INTERNAL, "'%s' has %d slots, what lies beside it %d", b->name, b->slots,
                     p->bufs[p->packs[b->pack].first].slots);
  }
  return SP_OK;
}

int sp_border_check(const sp_program *p, sp_err *err) {
  for (size_t i = 0; p->g->border && i < p->n_tasks; i++) {
    const sp_task *t = &p->tasks[i];
    if (p->lanes[t->lane].place != &p->g->main) continue;
    for (size_t k = 0; k < p->sched.items[i].n_waits; k++) {
      const sp_task *from = &p->tasks[p->sched.items[i].waits[k].task];
      if (p->lanes[from->lane].place != &p->g->main)
        return sp_fail(err, SP_E_INTERNAL, "'%s' on device '%s' would have to wait for '%s' on the cpu", t->name,
                       p->g->opts.device, from->name);
    }
  }
  return check_packs(p, err);
}
