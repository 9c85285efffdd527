/* SPDX-License-Identifier: MIT
 * wire.c - wires between ports, and the outputs that come back as results. */
#include "graph/model.h"

#include <stdlib.h>

static int add_ref(sp_refs *r, sp_ref ref, sp_err *err) {
  if (!sp_grow(&r->v, &r->cap, r->n + 1, sizeof *r->v)) return sp_nomem(err, sizeof ref, "a wire");
  r->v[r->n++] = ref;
  return SP_OK;
}

int sp_graph_result(sp_graph *g, sp_ref from, sp_err *err) {
  const sp_node *n = from.node;
  const char *port = sp_node_out_port(n, (unsigned)from.port)->name;
  const sp_speclist *specs = &n->out_specs[from.port];
  uint32_t first = from.index < 0 ? 0 : (uint32_t)from.index, count = from.index < 0 ? specs->n : 1;
  char words[128];
  int st = SP_OK;
  if (g->n_programs) return sp_fail(err, SP_E_STATE, "result '%s.%s': the graph has run already", n->name, port);
  if (!n->planned || first + count > specs->n)
    return sp_fail(err, SP_E_INVALID, "result '%s.%s': stage '%s' is not wired yet", n->name, port, n->name);
  if (g->results.n + count > SP_QUEUE_MAX_PARTS)
    return sp_fail(err, SP_E_RANGE, "result '%s.%s': at most %d results are possible", n->name, port,
                   SP_QUEUE_MAX_PARTS);
  for (uint32_t k = first; k < first + count && !st; k++) {
    sp_ref r = {from.node, from.port, (int)k};
    if (!sp_node_batch_out(n, r.port, &specs->spec[k]) || sp_spec_sample(&specs->spec[k]).ndim < 0)
      return sp_fail(err, SP_E_SHAPE, "result '%s.%s' is %s: it has no sample for each request or image of a batch",
                     n->name, port, sp_spec_str(&specs->spec[k], words, sizeof words));
    if (!sp_graph_is_result(g, n, r.port, r.index)) st = add_ref(&g->results, r, err);
  }
  return st;
}

/* Is `goal` upstream of `n`, or n itself? Writes the way into `way`. `seen` keeps diamonds from being walked twice. */
static bool upstream(const sp_node *n, const sp_node *goal, bool *seen, sp_sb *way) {
  if (n == goal) {
    sp_sb_putf(way, "%s", n->name);
    return true;
  }
  if (seen[n->index]) return false;
  seen[n->index] = true;
  for (unsigned i = 0; i < n->n_in; i++)
    for (size_t k = 0; k < n->in[i].n; k++)
      if (upstream(n->in[i].v[k].node, goal, seen, way)) {
        sp_sb_putf(way, " -> %s", n->name);
        return true;
      }
  return false;
}

static int refuse_cycle(sp_node *node, const sp_port *pi, sp_ref from, const sp_port *po, sp_err *err) {
  bool *seen = sp_calloc(node->g->n_nodes, sizeof *seen);
  sp_sb way = {0};
  int st = SP_OK;
  if (!seen) return sp_nomem(err, node->g->n_nodes, "a search for cycles");
  if (upstream(from.node, node, seen, &way))
    st = sp_fail(err, SP_E_INVALID, "wiring '%s.%s' to '%s.%s' closes a cycle: %s -> %s", from.node->name, po->name,
                 node->name, pi->name, sp_sb_str(&way), node->name);
  sp_sb_free(&way);
  free(seen);
  return st;
}

static int check_wire(const sp_graph *g, const sp_node *node, int in_port, sp_ref from, sp_err *err) {
  if (in_port < 0 || (unsigned)in_port >= node->n_in || from.port < 0 || (unsigned)from.port >= from.node->n_out)
    return sp_fail(err, SP_E_INVALID, "'%s' to '%s': there is no such port", from.node->name, node->name);
  if (from.node->g != g || node->g != g)
    return sp_fail(err, SP_E_INVALID, "'%s' and '%s' belong to two graphs", from.node->name, node->name);
  if (node->optimizer)
    return sp_fail(err, SP_E_INVALID, "stage '%s' is an optimizer: it is wired by train{ optimizer = ... }",
                   node->name);
  if (g->n_programs)
    return sp_fail(err, SP_E_STATE, "stage '%s': the graph has run already; wire stages before", node->name);
  return SP_OK;
}

int sp_graph_wire(sp_graph *g, sp_node *node, int in_port, sp_ref from, sp_err *err) {
  int st = check_wire(g, node, in_port, from, err);
  if (st) return st;
  const sp_port *pi = sp_node_in_port(node, (unsigned)in_port), *po = sp_node_out_port(from.node, (unsigned)from.port);
  const sp_speclist *specs = &from.node->out_specs[from.port];
  sp_refs *r = &node->in[in_port];
  if ((st = refuse_cycle(node, pi, from, po, err))) return st;
  uint32_t first = from.index < 0 ? 0 : (uint32_t)from.index;
  uint32_t n = from.index < 0 && po->flags & SP_PORT_LIST ? specs->n : 1;
  if (from.index >= 0 && from.node->planned && first >= specs->n)
    return sp_fail(err, SP_E_RANGE, "'%s.%s' has %u tensors; there is no number %u", from.node->name, po->name,
                   specs->n, first + 1);
  if (po->flags & SP_PORT_LIST && from.index < 0 && !from.node->planned)
    return sp_fail(err, SP_E_STATE, "'%s.%s': wire the inputs of '%s' first", from.node->name, po->name,
                   from.node->name);
  if (!(pi->flags & SP_PORT_LIST) && (r->n || n != 1))
    return sp_fail(err, SP_E_INVALID, "'%s.%s' takes one tensor, '%s.%s' %s", node->name, pi->name, from.node->name,
                   po->name, r->n ? "is a second one" : "is a list of another length");
  if (r->n + n > SP_MAX_LIST)
    return sp_fail(err, SP_E_RANGE, "'%s.%s' takes at most %d tensors", node->name, pi->name, SP_MAX_LIST);
  node->planned = g->planned = false;
  for (uint32_t i = 0; i < n && !st; i++) st = add_ref(r, (sp_ref){from.node, from.port, (int)(first + i)}, err);
  return st;
}
