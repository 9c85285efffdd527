/* SPDX-License-Identifier: MIT
 * describe.c - see describe.h. */
#include "plan/describe.h"

#include <inttypes.h>

static void put_lane(const sp_program *p, const sp_lane *l, sp_sb *out) {
  if (l->host) sp_sb_putf(out, "host: collects a step's metrics %d ticks after it began\n", p->collect_delay);
  else sp_sb_putf(out, "lane %s: delay %d\n", l->props.name, l->props.delay);
}

static void put_back(int back, sp_sb *out) {
  if (back) sp_sb_putf(out, " of step -%d", back);
}

static void put_op(const sp_program *p, const sp_ops *ops, const sp_op *op, sp_sb *out) {
  const char *name = op->task >= 0 ? p->tasks[op->task].name : "the tick";
  sp_sb_putf(out, "  %-7s %-16s %s", sp_op_name(op->kind), p->lanes[op->lane].props.name, name);
  if (op->kind == SP_OP_WAIT || op->kind == SP_OP_SYNC) {
    sp_sb_putf(out, " <- %s", p->tasks[op->from].name);
    put_back(op->back, out);
  } else if (op->kind == SP_OP_RECORD)
    sp_sb_putf(out, " (%d events)", op->task < 0 ? ops->tick_ring : ops->ring[op->task]);
  else if (op->kind == SP_OP_MARK)
    sp_sb_putf(out, ", %s%s", op->back ? "end" : "begin", op->from == SP_MARK_COMM ? " (collectives)" : "");
  else if (op->kind == SP_OP_LAUNCH) sp_sb_putf(out, ": the next %d, or a graph of them", op->n);
  sp_sb_put(out, "\n");
}

static void put_caches(const sp_program *p, sp_sb *out) {
  for (size_t i = 0; i < p->g->n_nodes; i++) {
    const sp_node *n = p->g->nodes[i];
    if (n->cache && !n->flow.spared)
      sp_sb_putf(out, "cache %s: %" PRIu64 " x %" PRIu64 " bytes, %s\n", n->name, p->length,
                 sp_cache_bytes(n, p->source) / p->length, sp_cache_words[n->opts.cache]);
  }
}

void sp_describe(const sp_program *p, const sp_ops *ops, sp_sb *out) {
  sp_sb_putf(out,
             "strategy %s: %zu lanes, %zu waits (%zu before those implied by others were left out), proved race-free\n",
             p->strategy, sp_program_streams(p), p->sched.n_waits, p->sched.n_derived);
  for (size_t l = 0; l < p->n_lanes; l++)
    if (p->lanes[l].used) put_lane(p, &p->lanes[l], out);
  sp_sb_putf(out, "a tick, %zu operations:\n", ops->n);
  for (size_t i = 0; i < ops->n; i++) put_op(p, ops, &ops->op[i], out);
  for (size_t i = 0; i < p->n_bufs; i++)
    if (p->bufs[i].bytes)
      sp_sb_putf(out, "buffer %s: %d x %zu bytes\n", p->bufs[i].name, p->bufs[i].slots, p->bufs[i].bytes);
  put_caches(p, out);
}
