/* SPDX-License-Identifier: MIT
 * query.c - what may be asked of a program while it is made and afterwards. All other files of this folder may call
 * this one, which calls none of them. */
#include "plan/planner.h"

#include <stdio.h>

/* Nothing is there to do where nothing is trained, or kept from one pass to the next. */
static bool has_shards(const sp_program *p, const sp_node *n) {
  const sp_graph *g = p->g;
  if (n == g->shards.keep) return n->in_specs[1].n && p->micro > 1;
  if (n == g->shards.scale) return sp_store_has_factors(&g->store);
  return n != g->shards.sum || n->in_specs[0].n || n->in_specs[1].n;
}

bool sp_program_has(const sp_program *p, const sp_node *n) {
  if (n->source) return n == p->source;
  if (p->fills) return n->flow.fills;
  if (n->flow.spared || (n->opts.eval_only && p->training && p->g->train.on)) return false;
  if (n->shards && !has_shards(p, n)) return false;
  return !(sp_node_apart(n) && (!p->training || !p->g->train.on));
}

bool sp_program_calls(const sp_program *p, const sp_node *n) { return sp_program_has(p, n) && (p->fills || !n->cache); }

sp_node *sp_program_producer(const sp_program *p, sp_node *n) {
  return p->stand_in && n == p->g->train.source ? p->stand_in : n;
}

size_t sp_program_streams(const sp_program *p) {
  size_t n = 0;
  for (size_t l = 0; l < p->n_lanes; l++) n += p->lanes[l].used && !p->lanes[l].host;
  return n;
}

bool sp_call_takes_lr(const sp_program *p, const sp_node *n, sp_task_kind kind) {
  if (!p->training || !p->g->train.on) return false;
  return (kind == SP_TASK_BACKWARD && n->params.inplace) || (n == p->g->shards.scale && p->g->store.applied);
}

const sp_place *sp_program_place(const sp_program *p, const sp_buf *b) {
  return b->at == SP_AT_CPU ? &p->g->cpu : &p->g->main;
}

bool sp_call_needs_block(const sp_program *p, const sp_node *n, sp_task_kind kind) {
  return sp_task_is_told(kind) && (!n->stepless || n->cache || sp_call_takes_lr(p, n, kind));
}

/* ---- small things ---- */
int sp_pow2(int n) {
  int p = 1;
  while (p < n) p *= 2;
  return p;
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
