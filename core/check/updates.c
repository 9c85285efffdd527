/* SPDX-License-Identifier: MIT
 * updates.c - steps of an optimizer in one call, and the same ones in several,
 * each of which has some of the gradients. */
#include "check/updates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check/passes.h"

enum { GRADIENTS = 5, CALLS = 3, STEPS = 3 }; /* a gradient of the last step, in the first call, is not finite */

typedef struct pair {
  rig *whole, *cut;
  sp_err err;
  char words[RIG_WORDS]; /* of the first fault */
} pair;

static int plan_both(pair *p, sp_err *err) {
  rig *w = p->whole;
  w->in_specs[0].n = GRADIENTS;
  for (int k = 0; k < GRADIENTS; k++)
    w->in_specs[0].spec[k] = (sp_spec){.dtype = SP_F32, .ndim = 2, .shape = {k + 1, 7}};
  int rc = rig_replan(w, err);
  return rc ? rc : rig_plan_as(p->cut, w, err);
}

static void copy_list(const rig_list *from, rig_list *to) {
  for (uint32_t i = 0; i < to->n; i++) memcpy(to->t[i].data, from->t[i].data, from->t[i].bytes);
}

static void begin_step(pair *p, int step) {
  rig *w = p->whole;
  rig_fill(&w->in, 1 + 16 * (uint64_t)step);
  if (step == STEPS - 1) memcpy(w->in.t[GRADIENTS - 1].data, &(float){INFINITY}, sizeof(float));
  for (uint32_t i = 0; i < w->out.n; i++)
    if (w->out.t[i].port) memset(w->out.t[i].data, POISON_A, w->out.t[i].bytes);
  copy_list(&w->in, &p->cut->in);
  copy_list(&w->out, &p->cut->out);
  copy_list(&w->weights, &p->cut->weights);
}

static int update(rig *r, uint32_t calls, sp_err *err) {
  int rc = SP_OK;
  for (uint32_t k = 0; k < calls && !rc; k++)
    rc = rig_run(
        r,
        &(rig_call){
            .n = RIG_BATCH, .kind = SP_CALL_FORWARD, .poison = k ? POISON_B : POISON_A, .part = k, .calls = calls},
        err);
  return rc;
}

static bool same_list(pair *p, int step, const rig_list *one, const rig_list *several) {
  const rig *r = p->whole;
  for (uint32_t i = 0; i < one->n; i++) {
    if (memcmp(one->t[i].data, several->t[i].data, one->t[i].bytes) == 0) continue;
    uint32_t port = one->t[i].port;
    const char *name = one == &r->weights ? r->plan.weights[i].name
                       : one == &r->in    ? r->inst->type->inputs[port].name
                                          : r->inst->type->outputs[port].name;
    snprintf(p->words, sizeof p->words, "update %d in %d calls leaves '%s' other than one call does%s", step + 1, CALLS,
             name, step == STEPS - 1 ? "; a gradient of the first is not finite" : "");
    return false;
  }
  return true;
}

static bool same_steps(pair *p) {
  rig *w = p->whole, *c = p->cut;
  int rc = rig_prepare(w, RIG_BATCH, &p->err);
  if (!rc) rc = rig_prepare(c, RIG_BATCH, &p->err);
  rig_fill(&w->out, 3);
  for (int step = 0; step < STEPS && !rc; step++) {
    begin_step(p, step);
    rc = update(w, 1, &p->err);
    if (!rc) rc = update(c, CALLS, &p->err);
    if (!rc && !(same_list(p, step, &w->out, &c->out) && same_list(p, step, &w->weights, &c->weights) &&
                 same_list(p, step, &w->in, &c->in)))
      return false;
  }
  if (rc) snprintf(p->words, sizeof p->words, "%.500s", p->err.msg);
  return !rc;
}

int updates_check(report *rep, rig *whole, rig *cut, sp_err *err) {
  pair p = {.whole = whole, .cut = cut, .words = ""};
  int rc = plan_both(&p, err);
  if (!rc) rc = rig_alloc(whole, err);
  if (!rc) rc = rig_alloc(cut, err);
  if (rc) return rc;
  report_check(rep, same_steps(&p), "forward() in several calls gives the bits of one", p.words);
  return SP_OK;
}
