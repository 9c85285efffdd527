/* SPDX-License-Identifier: MIT
 * again.c - how much scratch memory a stage needs whose forward is run again before its backward. */
#include "graph/model.h"
#include "plan/program.h"

bool sp_program_again(const sp_program *p, const sp_node *n) {
  return p->training && n->opts.recompute && n->flow.backward && n->saved;
}

size_t sp_again_saved(const sp_node *n) { return sp_scratch_room(n->scratch); }

size_t sp_again_bytes(const sp_node *n, bool backward) {
  size_t bytes = sp_again_saved(n) + sp_scratch_room(n->saved);
  for (unsigned o = 0; o < n->n_out && backward; o++)
    for (uint32_t k = 0; k < n->out_specs[o].n; k++)
      bytes += sp_scratch_room((size_t)sp_spec_bytes(&n->out_specs[o].spec[k]));
  for (size_t i = 0; i < n->params.n_weights && backward; i++)
    if (n->params.weights[i].flags & SP_WEIGHT_STATE)
      bytes += sp_scratch_room((size_t)sp_spec_bytes(&n->params.weights[i].spec));
  return bytes;
}
