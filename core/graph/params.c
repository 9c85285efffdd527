/* SPDX-License-Identifier: MIT
 * params.c - weights from a file for a graph, whose stages must be planned before. */
#include "graph/model.h"

int sp_graph_load(sp_graph *g, sp_node *n, const sp_load *from, sp_err *err) {
  if (n && !n->planned)
    return sp_fail(err, SP_E_STATE, "stage '%s': wire its inputs before weights are loaded", n->name);
  /* The optimizer's list of weights is known only when all stages are planned. */
  if (!n && sp_graph_plan_stages(g, err)) return err->status;
  return sp_store_load(&g->store, n ? &n->params : NULL, from, err);
}
