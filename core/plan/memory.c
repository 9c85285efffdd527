/* SPDX-License-Identifier: MIT
 * memory.c - what programs will take, known before anything of it is allocated. */
#include "plan/program.h"

#include <stdio.h>

#include "device/pool.h"
#include "params/params.h"

static void tally(uint64_t *sum, uint64_t bytes) {
  if (__builtin_add_overflow(*sum, bytes, sum)) *sum = UINT64_MAX;
}

static void count_weights(const sp_graph *g, sp_mem *m) {
  for (size_t i = 0; i < g->n_nodes; i++)
    for (size_t k = 0; k < g->nodes[i]->params.n_weights; k++) {
      const sp_node *n = g->nodes[i];
      uint64_t bytes = sp_weights_bytes(&n->params, k);
      tally(n->optimizer ? &m->optimizer : &m->weights, bytes);
      if (sp_weights_has_dw(&n->params, k)) tally(&m->gradients, bytes);
    }
  for (size_t i = 0; i < g->n_nodes; i++) tally(&m->weights, g->nodes[i]->params.const_bytes);
  for (size_t i = 0; i < g->n_nodes; i++)
    for (size_t k = 0; k < g->nodes[i]->params.n_factors; k++)
      tally(&m->gradients, (uint64_t)sp_spec_bytes(&g->nodes[i]->params.factors[k].spec) * (uint64_t)g->opts.shards);
}

static void count_program(const sp_program *p, sp_mem *m) {
  for (size_t i = 0; i < p->n_bufs; i++) {
    const sp_buf *b = &p->bufs[i];
    uint64_t each = b->at == SP_AT_PINNED && b->pack < 0 ? sp_pool_block(b->bytes) : b->bytes, bytes;
    if (__builtin_mul_overflow(each, (uint64_t)b->slots, &bytes)) bytes = UINT64_MAX;
    tally(b->kind == SP_BUF_ACTIVATION ? &m->activations
          : b->kind == SP_BUF_GRADIENT ? &m->gradients
                                       : &m->saved,
          bytes);
  }
  for (size_t i = 0; i < p->n_lanes; i++) tally(&m->scratch, p->lanes[i].scratch);
}

static bool is_first(const sp_program *const *progs, size_t k) {
  for (size_t i = 0; i < k; i++)
    if (progs[i]->source == progs[k]->source) return false;
  return true;
}

/* Programs of one source share its tables. */
static void count_caches(const sp_graph *g, const sp_program *const *progs, size_t n, sp_mem *m) {
  for (size_t i = 0; i < g->n_nodes; i++) {
    const sp_node *node = g->nodes[i];
    bool apart = node->on_cpu || node->opts.cache == SP_CACHE_HOST;
    for (size_t k = 0; node->cache && k < n; k++)
      if (is_first(progs, k)) tally(g->border && apart ? &m->host : &m->cache, sp_cache_bytes(node, progs[k]->source));
  }
}

void sp_memory_count(const sp_graph *g, const sp_program *const *progs, size_t n, sp_mem *m) {
  *m = (sp_mem){0};
  count_weights(g, m);
  for (size_t i = 0; i < n; i++) count_program(progs[i], m);
  count_caches(g, progs, n, m);
  tally(&m->gradients, sp_reduce_bytes(&g->store));
  const uint64_t parts[] = {m->weights, m->gradients, m->optimizer, m->activations, m->saved, m->scratch, m->cache};
  for (size_t i = 0; i < SP_ARRAY(parts); i++) tally(&m->total, parts[i]);
}

typedef struct part {
  const char *what, *name;
  double bytes;
} part;

static void larger(part *most, const char *what, const char *name, double bytes) {
  if (bytes > most->bytes) *most = (part){what, name, bytes};
}

/* Of buffers, what stages need beside them, and weights: the one to begin with when it is too much. */
static part largest(const sp_graph *g, const sp_program *const *progs, size_t n) {
  part most = {"", "weights", 0};
  for (size_t k = 0; k < n; k++)
    for (size_t i = 0; i < progs[k]->n_bufs; i++) {
      const sp_buf *b = &progs[k]->bufs[i];
      larger(&most, "", b->name, (double)b->bytes * b->slots);
    }
  for (size_t i = 0; i < g->n_nodes; i++) {
    const sp_node *node = g->nodes[i];
    double weights = 0;
    for (size_t k = 0; k < node->params.n_weights; k++) weights += (double)sp_weights_bytes(&node->params, k);
    larger(&most, "the scratch memory of ", node->name, (double)node->scratch);
    larger(&most, node->optimizer ? "the moments of " : "the weights of ", node->name, weights);
  }
  return most;
}

static int too_large(const sp_graph *g, uint64_t bytes, const char *where, uint64_t most, double unit, const char *cure,
                     sp_err *err) {
  const sp_node *n = NULL;
  char others[64] = "'";
  int count = 0;
  for (size_t i = 0; i < g->n_nodes; i++)
    if (g->nodes[i]->cache && !count++) n = g->nodes[i];
  if (count > 1) snprintf(others, sizeof others, "' and %d more", count - 1);
  return sp_fail(err, SP_E_NOMEM, "the cache%s of '%s%s need%s %.1f %s of memory, %s %.1f: %s", count > 1 ? "s" : "",
                 n->name, others, count > 1 ? "" : "s", (double)bytes / unit, unit == 0x1p20 ? "MiB" : "GiB", where,
                 (double)most / unit, cure);
}

static int check_host(const sp_graph *g, uint64_t bytes, sp_err *err) {
  sp_device_info info = {.size = sizeof info};
  int st = bytes ? sp_place_describe(&g->cpu, 0, &info, err) : SP_OK;
  if (st || !bytes || !info.memory || bytes <= info.memory) return st;
  return too_large(g, bytes, "the host has", info.memory, 0x1p30, "take cache = \"off\", or fewer samples", err);
}

int sp_memory_check(const sp_graph *g, const sp_program *const *progs, size_t n, sp_err *err) {
  sp_device_info info;
  sp_mem m;
  int st = sp_graph_device_info(g, &info, err);
  if (st) return st;
  sp_memory_count(g, progs, n, &m);
  if ((st = check_host(g, m.host, err))) return st;
  bool asked = g->opts.memory && (!info.memory || g->opts.memory < info.memory);
  uint64_t most = asked ? g->opts.memory : info.memory;
  if (!most || m.total <= most) return SP_OK;
  const char *cure = asked ? "take a smaller batch or size, or a higher limit" : "take a smaller batch or size";
  double unit = asked ? 0x1p20 : 0x1p30;
  char limit[96];
  snprintf(limit, sizeof limit, asked ? "--memory-limit allows" : "device '%.60s' has", g->opts.device);
  if (m.cache && m.total - m.cache <= most)
    return too_large(g, m.cache, limit, most - (m.total - m.cache), unit,
                     g->border ? "take cache = \"host\" or \"off\"" : "take cache = \"off\", or fewer samples", err);
  part worst = largest(g, progs, n);
  return sp_fail(err, SP_E_NOMEM, "the graph needs %.1f %s of memory, %s %.1f; the largest part is %s'%s': %s",
                 (double)m.total / unit, asked ? "MiB" : "GiB", limit, (double)most / unit, worst.what, worst.name,
                 cure);
}
