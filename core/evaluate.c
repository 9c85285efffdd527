/* SPDX-License-Identifier: MIT
 * evaluate.c - the forward stages over all of another source, between two steps of training. */
#include "program.h"

#include <string.h>

static int check_stand_in(const sp_graph *g, const sp_node *s, sp_err *err) {
  const sp_node *t = g->train_source;
  char a[128], b[128];
  if (!s->source) return sp_fail(err, SP_E_INVALID, "evaluate: '%s' is not a source", s->name);
  if (!t) return sp_fail(err, SP_E_INVALID, "evaluate: the graph has no source that '%s' could stand in for", s->name);
  for (unsigned o = 0; o < t->n_out; o++) {
    const char *name = sp_node_out_port(t, o)->name;
    if (o >= s->n_out || strcmp(sp_node_out_port(s, o)->name, name))
      return sp_fail(err, SP_E_INVALID, "evaluate: '%s' has no output '%s' where '%s' has one", s->name, name, t->name);
    for (uint32_t k = 0; k < t->out_specs[o].n; k++) {
      sp_spec x = t->out_specs[o].spec[k], y = k < s->out_specs[o].n ? s->out_specs[o].spec[k] : (sp_spec){0};
      if (!sp_spec_equal(&x, &y))
        return sp_fail(err, SP_E_SHAPE, "evaluate: '%s.%s' is %s, '%s.%s' is %s: batch, size and type must be the same",
                       s->name, name, sp_spec_str(&y, b, sizeof b), t->name, name, sp_spec_str(&x, a, sizeof a));
    }
  }
  return SP_OK;
}

/* Each source that was evaluated on has a program, which is kept. */
static int find_program(sp_graph *g, sp_node *source, sp_program **out, sp_err *err) {
  sp_program *p = g->eval;
  int st;
  while (p && p->stand_in != source) p = p->next_eval;
  *out = p;
  if (p) return SP_OK;
  if ((st = sp_program_plan(&p, g, false, source, err))) return st;
  if ((st = sp_graph_check_memory(g, p, err)) || (st = sp_program_build(p, err))) {
    sp_program_free(p);
    return st;
  }
  p->next_eval = g->eval;
  *out = g->eval = p;
  return SP_OK;
}

int sp_graph_evaluate(sp_graph *g, sp_node *source, int (*each)(void *arg, const sp_result *res, sp_err *err),
                      void *arg, sp_err *err) {
  const sp_result *res;
  sp_program *p;
  int st = sp_graph_build(g, err);
  if (st || (st = check_stand_in(g, source, err)) || (st = sp_program_sync(g->train, err)) ||
      (st = find_program(g, source, &p, err)) || (st = sp_program_begin(p, 0, p->sampler.steps, err)))
    return st;
  for (;;) {
    sp_err ignored;
    if ((st = sp_program_next(p, &res, err)) || !res) return st;
    if (!(st = each(arg, res, err))) continue;
    sp_program_sync(p, &ignored);
    p->running = false;
    return st;
  }
}
