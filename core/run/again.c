/* SPDX-License-Identifier: MIT
 * again.c - a stage whose forward runs a second time before its backward (recompute), so that what it keeps from one to
 * the other lies in the scratch memory of its lane. The second one has outputs and statistics of its own: the first
 * one's may be read at this moment, and statistics move once a step. */
#include "run/again.h"

#include <stdlib.h>
#include <string.h>

#include "graph/model.h"
#include "run/machine.h"

struct sp_again {
  sp_io io;
  sp_tensor *t; /* as the call's, but for outputs, gradients and statistics */
  sp_list *lists;
};

static void place(sp_tensor *t, char **rest, const sp_spec *spec) {
  if (t->data) t->data = *rest;
  *rest += sp_scratch_room((size_t)sp_spec_bytes(spec));
}

/* Outputs and statistics get other places, which sp_again_bytes() counts. */
static void move_away(const sp_task *task, sp_tensor *t, char *rest) {
  const sp_node *n = task->node;
  for (unsigned o = 0; o < n->n_out; o++)
    for (uint32_t k = 0; k < n->out_specs[o].n; k++)
      place(&t[task->offset[n->n_in + o] + k], &rest, &n->out_specs[o].spec[k]);
  for (size_t i = 0; i < n->params.n_weights; i++)
    if (n->params.weights[i].flags & SP_WEIGHT_STATE)
      place(&t[task->first_weight + i], &rest, &n->params.weights[i].spec);
}

int sp_again_new(sp_again **out, sp_call *c, const sp_io_parts *of, sp_err *err) {
  const sp_task *task = c->task;
  sp_graph *g = c->m->g;
  sp_again *a = *out = sp_graph_zalloc(g, 1, sizeof *a, "call records", err);
  if (!a) return err->status;
  a->t = sp_graph_zalloc(g, task->n_t, sizeof *a->t, "call records", err);
  a->lists = sp_graph_zalloc(g, task->n_lists, sizeof *a->lists, "call records", err);
  if (!a->t || !a->lists) return err->status;
  for (size_t i = 0; i < task->n_lists; i++)
    a->lists[i] = (sp_list){.n = task->lists[i].n, .t = a->t + task->offset[i]};
  sp_io_parts parts = *of;
  parts.lists = a->lists;
  parts.weights = a->t + task->first_weight;
  parts.dw_scale = NULL;
  parts.factors = NULL;
  parts.n_factors = 0;
  sp_io_fill(&a->io, SP_CALL_FORWARD, &parts);
  return SP_OK;
}

void sp_again_free(sp_again *a) {
  if (!a) return;
  free(a->t);
  free(a->lists);
  free(a);
}

void sp_again_fill(sp_again *a, const sp_call *c) {
  const sp_task *task = c->task;
  const sp_node *n = task->node;
  memcpy(a->t, c->t, task->n_t * sizeof *a->t);
  for (size_t i = n->n_in + n->n_out; i < task->n_lists; i++)
    for (uint32_t k = 0; k < task->lists[i].n; k++) a->t[task->offset[i] + k].data = NULL; /* gradients */
  move_away(task, a->t, (char *)c->io.saved + sp_scratch_room(n->saved));
  a->io.saved = c->io.saved;
  a->io.scratch = c->io.scratch;
  a->io.step = c->io.step;
  a->io.ids = c->io.ids;
}

const sp_io *sp_again_io(const sp_again *a) { return &a->io; }
