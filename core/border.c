/* SPDX-License-Identifier: MIT
 * border.c - what lies between the memory of the processor and that of another device: copies, step blocks, metrics.
 *
 * A stream of the device cannot wait for the cpu's: before a copy the host does, in a task of its own (AWAIT) that
 * touches the same buffers, so that the proof sees it. The other way round a thread of the cpu waits. What a reader
 * gives is packed: one copy moves a batch. Every lane of the device has a block that the host fills (FILL) and a copy
 * takes over: sample ids and what stages are told of the step; so a recorded graph, whose addresses are fixed, finds
 * this step's values. Metrics of a lane lie side by side too and come back in one copy. */
#include "program.h"

#include <stdlib.h>

static size_t rounded(size_t n, size_t to) { return (n + to - 1) / to * to; }

static int pow2(int n) {
  int p = 1;
  while (p < n) p *= 2;
  return p;
}

static int new_pack(sp_program *p, int first, int *out, sp_err *err) {
  if (!sp_grow(&p->packs, &p->cap_packs, p->n_packs + 1, sizeof *p->packs)) return sp_nomem(err, 64, "a resource");
  p->packs[p->n_packs] = (sp_pack){.first = first};
  *out = (int)p->n_packs++;
  return SP_OK;
}

/* Appends a buffer to the pack; *pack -1: begins one. */
static int put_in_pack(sp_program *p, int buf, int *pack, sp_err *err) {
  int st = *pack < 0 ? new_pack(p, buf, pack, err) : SP_OK;
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
/* Who reads a tensor of n on the side `cpu` of the border; the one with the least delay. */
static const sp_node *reader_of(const sp_program *p, const sp_node *n, int port, int index, bool cpu) {
  const sp_graph *g = p->g;
  const sp_node *found = NULL;
  if (n == p->stand_in) n = g->train_source; /* wires name the one it stands in for */
  for (size_t j = 0; j < g->n_nodes; j++)
    for (unsigned i = 0; i < g->nodes[j]->n_in; i++)
      for (size_t k = 0; k < g->nodes[j]->in[i].n; k++) {
        const sp_node *m = g->nodes[j];
        sp_ref r = m->in[i].v[k];
        if (r.node != n || r.port != port || (index >= 0 && r.index != index)) continue;
        if (m->on_cpu == cpu && (!found || p->lanes[m->user_lane].delay < p->lanes[found->user_lane].delay)) found = m;
      }
  return found;
}

/* The lane on which n's outputs go to the device, -1: they do not. */
static int up_lane(const sp_program *p, const sp_node *n) {
  int best = -1;
  for (unsigned o = 0; o < n->n_out; o++) {
    const sp_node *m = reader_of(p, n, (int)o, -1, false);
    if (m && (best < 0 || p->lanes[m->user_lane].delay < p->lanes[best].delay)) best = m->user_lane;
  }
  return best >= 0 && n->source && p->copy_lane >= 0 ? p->copy_lane : best;
}

static int check_node(const sp_node *n, sp_err *err) {
  if (!n->on_cpu || !(n->backward || n->trained || n->optimizer || (n->loss && n->needs_grad))) return SP_OK;
  return sp_fail(err, SP_E_UNSUPPORTED,
                 "stage '%s' runs on the cpu, but it is to be trained on device '%s' or passes a gradient there: take "
                 "--device cpu, or a stage that exists for the device",
                 n->name, n->g->opts.device);
}

int sp_border_twins(sp_program *p, sp_node *n, sp_err *err) {
  size_t i = n->index, count = sp_node_flat(n, (int)n->n_out, 0);
  int st, here = -1, there = -1, lane = n->on_cpu ? up_lane(p, n) : -1;
  if (!p->g->border) return SP_OK;
  if ((st = check_node(n, err))) return st;
  if (!(p->twin[i] = sp_calloc(count + 1, sizeof **p->twin))) return sp_nomem(err, 64, "resources");
  for (size_t f = 0; f < count; f++) p->twin[i][f] = -1;
  for (unsigned o = 0; o < n->n_out; o++)
    for (uint32_t k = 0; k < n->out_specs[o].n && !st; k++) {
      size_t f = sp_node_flat(n, (int)o, (int)k);
      int act = p->act[i][f], *twin = &p->twin[i][f];
      if (act < 0 || !reader_of(p, n, (int)o, (int)k, !n->on_cpu)) continue;
      st = sp_program_buf(p, sp_text("%s (%s)", p->bufs[act].name, n->on_cpu ? p->g->main.type->name : "cpu"),
                          p->bufs[act].bytes, SP_BUF_ACTIVATION, 0, n->on_cpu ? 2 + 2 * (int)i : 0, twin, err);
      if (st) return st;
      p->bufs[*twin].at = n->on_cpu ? SP_AT_MAIN : SP_AT_PINNED;
      if (!n->on_cpu) {
        p->bufs[*twin].extra = 2; /* so that the host need not wait for who reads it */
        continue;
      }
      /* One more than a power of two would make a multitude of graphs; one slot more than needed keeps the source busy
       * while a copy waits. */
      int lead = p->lanes[lane].delay - p->lanes[n->user_lane].delay + 1;
      p->bufs[act].at = SP_AT_PINNED;
      p->bufs[act].extra = pow2(lead + 1) - lead;
      p->bufs[*twin].extra = lane == p->copy_lane ? 1 : 0;
      if (!(st = put_in_pack(p, act, &here, err))) st = put_in_pack(p, *twin, &there, err);
    }
  return st;
}

int sp_border_metrics(sp_program *p, sp_err *err) {
  int st = SP_OK;
  for (size_t l = 0; p->g->border && l < p->n_lanes; l++) {
    int here = -1, there = -1;
    for (size_t i = 0; i < p->n_metrics && !st; i++) {
      sp_metric_slot *m = &p->metrics[i];
      if (m->node->on_cpu || m->node->user_lane != (int)l) continue;
      st = sp_program_buf(p, sp_text("%s (host)", p->bufs[m->buf].name), p->bufs[m->buf].bytes, SP_BUF_ACTIVATION, 0, 0,
                          &m->seen, err);
      if (st) return st;
      p->bufs[m->seen].at = SP_AT_PINNED;
      p->bufs[m->seen].ring = true;
      if (reader_of(p, m->node, m->port, (int)m->index, false) || reader_of(p, m->node, m->port, (int)m->index, true))
        continue;
      p->bufs[m->buf].slots = 1; /* the copy back is in the same lane */
      if (!(st = put_in_pack(p, m->buf, &here, err))) st = put_in_pack(p, m->seen, &there, err);
    }
  }
  return st;
}

/* ---- which tasks ---- */
static int block_buf(sp_program *p, const char *lane, sp_buf_at at, int *buf, sp_err *err) {
  int st = sp_program_buf(p, sp_text("the step block of lane '%s'%s", lane, at == SP_AT_PINNED ? " (host)" : ""), 1,
                          SP_BUF_ACTIVATION, 0, 0, buf, err);
  if (st) return st;
  p->bufs[*buf].at = at;
  p->bufs[*buf].ring = true;
  return SP_OK;
}

int sp_border_begin(sp_program *p, sp_err *err) {
  sp_graph *g = p->g;
  sp_task *t;
  int st = SP_OK;
  if (!g->border) return SP_OK;
  for (size_t i = 0; i < g->n_nodes; i++)
    if (!g->nodes[i]->on_cpu && sp_program_has(p, g->nodes[i])) p->lanes[g->nodes[i]->user_lane].busy = true;
  for (size_t i = 0; i < p->n_lanes && !st; i++) {
    sp_lane *l = &p->lanes[i];
    if (!l->busy) continue;
    size_t batch = p->source ? (size_t)p->source->opts.batch : 1;
    l->block_bytes = SP_BLOCK_HEAD + rounded(batch * sizeof(uint64_t), SP_BLOCK_HEAD);
    if ((st = block_buf(p, l->name, SP_AT_PINNED, &l->block_pinned, err)) ||
        (st = block_buf(p, l->name, SP_AT_MAIN, &l->block, err)) ||
        (st = sp_program_task(p, SP_TASK_FILL, NULL, sp_text("host.fill(%s)", l->name), p->host_lane, &t, err)))
      break;
    t->delay = l->delay;
    t->block = i; /* whose */
    if ((st = sp_task_access(t, l->block_pinned, SP_WRITE, err)) ||
        (st = sp_program_task(p, SP_TASK_COPY, NULL, sp_text("%s.block", l->name), (int)i, &t, err)) ||
        (st = sp_task_access(t, l->block_pinned, SP_READ, err)) || (st = sp_task_access(t, l->block, SP_WRITE, err)))
      break;
    st = add_copy(t, l->block_pinned, l->block, 0, err);
  }
  return st;
}

/* The copy of n's outputs on `lane`, and before it the host's wait: for the cpu to be done with what is copied from, or
 * with what is copied into. */
static int copy_tasks(sp_program *p, sp_node *n, int lane, sp_err *err) {
  const int *act = p->act[n->index], *twin = p->twin[n->index];
  size_t count = sp_node_flat(n, (int)n->n_out, 0);
  sp_task *t;
  int st = sp_program_task(p, SP_TASK_AWAIT, NULL, sp_text("host.await(%s)", n->name), p->host_lane, &t, err);
  if (st) return st;
  t->delay = p->lanes[lane].delay;
  for (size_t f = 0; f < count && !st; f++)
    if (twin[f] >= 0) st = sp_task_access(t, n->on_cpu ? act[f] : twin[f], n->on_cpu ? SP_READ : SP_WRITE, err);
  if (!st) st = sp_program_task(p, SP_TASK_COPY, NULL, sp_text("%s.copy", n->name), lane, &t, err);
  for (size_t f = 0; f < count && !st; f++) {
    if (twin[f] < 0) continue;
    if ((st = sp_task_access(t, act[f], SP_READ, err)) || (st = sp_task_access(t, twin[f], SP_WRITE, err))) break;
    const sp_buf *b = &p->bufs[act[f]];
    if (b->pack < 0) st = add_copy(t, act[f], twin[f], b->bytes, err);
    else if (!b->offset) st = add_copy(t, act[f], twin[f], p->packs[b->pack].bytes, err);
  }
  return st;
}

int sp_border_after(sp_program *p, sp_node *n, sp_err *err) {
  bool any = false;
  if (!p->g->border) return SP_OK;
  for (size_t f = 0; f < sp_node_flat(n, (int)n->n_out, 0); f++) any = any || p->twin[n->index][f] >= 0;
  return any ? copy_tasks(p, n, n->on_cpu ? up_lane(p, n) : n->user_lane, err) : SP_OK;
}

int sp_border_end(sp_program *p, sp_err *err) {
  int st = SP_OK;
  for (size_t l = 0; p->g->border && l < p->n_lanes && !st; l++) {
    sp_task *t = NULL;
    for (size_t i = 0; i < p->n_metrics && !st; i++) {
      const sp_metric_slot *m = &p->metrics[i];
      if (m->node->on_cpu || m->node->user_lane != (int)l) continue;
      if (!t) st = sp_program_task(p, SP_TASK_COPY, NULL, sp_text("%s.metrics", p->lanes[l].name), (int)l, &t, err);
      if (st || (st = sp_task_access(t, m->buf, SP_READ, err)) || (st = sp_task_access(t, m->seen, SP_WRITE, err)))
        break;
      const sp_buf *b = &p->bufs[m->buf];
      if (b->pack < 0) st = add_copy(t, m->buf, m->seen, b->bytes, err);
      else if (!b->offset) st = add_copy(t, m->buf, m->seen, p->packs[b->pack].bytes, err);
    }
  }
  for (size_t l = 0; l < p->n_lanes && !st; l++) { /* now all that is in a block is known */
    const sp_lane *lane = &p->lanes[l];
    if (lane->block < 0) continue;
    p->bufs[lane->block].bytes = p->bufs[lane->block_pinned].bytes = lane->block_bytes;
    for (size_t i = 0; i < p->n_tasks; i++) {
      sp_task *t = &p->tasks[i];
      if (t->n_copies == 1 && t->copies[0].to == lane->block) t->copies[0].bytes = lane->block_bytes;
    }
  }
  return st;
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
  return SP_OK;
}

int sp_border_run(sp_program *p, sp_task *t, uint64_t step, void *stream, sp_err *err) {
  sp_ctx_holder h;
  int st = SP_OK;
  for (size_t i = 0; i < t->n_copies && !st; i++) {
    const sp_buf *from = &p->bufs[t->copies[i].from], *to = &p->bufs[t->copies[i].to];
    st = p->g->main.type->stream_copy(sp_ctx_for(&h, t->name, err), stream, to->ptr[step % (uint64_t)to->slots],
                                      from->ptr[step % (uint64_t)from->slots], t->copies[i].bytes);
  }
  return st;
}
