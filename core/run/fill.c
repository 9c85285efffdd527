/* SPDX-License-Identifier: MIT
 * fill.c - fills the caches of a graph with the samples of a source: once before the first step that reads them, and
 * again where weights have changed since. */
#include <inttypes.h>

#include "run/choices.h"
#include "run/unit.h"

static void tell(const sp_engine *e, const sp_node *source) {
  static const char *const where[] = {"", "on the device", "in the host's memory"};
  if (sp_ranks_opts(e->g->env->ranks)->rank) return;
  for (size_t i = 0; i < e->g->n_nodes; i++) {
    const sp_node *n = e->g->nodes[i];
    if (!n->cache || n->flow.spared) continue;
    sp_log(SP_LOG_INFO, "filling the cache of '%s' from '%s': %" PRIu64 " samples, %.1f MiB %s", n->name, source->name,
           source->length, (double)sp_cache_bytes(n, source) / 0x1p20, where[n->opts.cache]);
  }
}

static int run(sp_engine *e, sp_loop *l, bool stops, bool *cut, sp_err *err) {
  const sp_result *res;
  int st = sp_loop_begin(l, 0, l->m->feed.steps, err);
  while (!st && !*cut) {
    if ((st = sp_loop_next(l, &res, err)) || !res) return st ? st : sp_loop_settle(l, err);
    *cut = stops && e->stopped && e->stopped();
  }
  if (!st) st = sp_loop_settle(l, err);
  l->running = false;
  return st;
}

/* A signal has to be seen by all ranks before one of them may stop. */
int sp_engine_fill(sp_engine *e, sp_node *source, bool stops, bool *cut, sp_err *err) {
  sp_unit u;
  *cut = false;
  if (!source || sp_graph_filled(e->g, source)) return SP_OK;
  int st = sp_unit_new_fill(&u, e, source, err);
  if (st) return st;
  const sp_machine *beside = e->units[0].m->built ? e->units[0].m : NULL;
  tell(e, source);
  if (!(st = sp_engine_check_memory(e, u.p, err)) && !(st = sp_choices_build(u.m, beside, err)))
    st = run(e, &u.loop, stops && !e->g->store.reduce, cut, err);
  if (!st && !*cut) sp_graph_set_filled(e->g, source);
  sp_unit_free(&u);
  return st ? sp_prefix(err, "filling the caches from '%s'", source->name) : SP_OK;
}
