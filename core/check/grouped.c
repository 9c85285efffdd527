/* SPDX-License-Identifier: MIT
 * grouped.c - an update with groups of weights: those with factors of 1 end as without groups, those whose factors are
 * 0 stay as they were, and those with a factor of a half do neither. */
#include "check/grouped.h"

#include <stdio.h>
#include <string.h>

#include "check/passes.h"

enum { GRADIENTS = 6, STEPS = 2, MOST_BYTES = GRADIENTS * 7 * sizeof(float) };

static const sp_group groups[] = {{1, 1, 0}, {0, 0, 0}, {0.5, 1, 0}};
static const uint32_t of[GRADIENTS] = {0, 1, 2, 1, 0, 2};

typedef struct trial {
  rig *plain, *grouped;
  sp_err err;
  char words[RIG_WORDS]; /* of the first fault */
} trial;

static int plan_both(trial *t, sp_err *err) {
  rig *w = t->plain;
  w->in_specs[0].n = GRADIENTS;
  for (int k = 0; k < GRADIENTS; k++)
    w->in_specs[0].spec[k] = (sp_spec){.dtype = SP_F32, .ndim = 2, .shape = {k + 1, 7}};
  int rc = rig_replan(w, err);
  t->grouped->groups = groups;
  t->grouped->group_of = of;
  t->grouped->n_groups = SP_ARRAY(groups);
  return rc ? rc : rig_plan_as(t->grouped, w, err);
}

static void copy_list(const rig_list *from, rig_list *to) {
  for (uint32_t i = 0; i < to->n; i++) memcpy(to->t[i].data, from->t[i].data, from->t[i].bytes);
}

static int update(rig *r, sp_err *err) {
  return rig_run(r, &(rig_call){.n = RIG_BATCH, .kind = SP_CALL_FORWARD, .poison = POISON_A}, err);
}

static const rig_tensor *weight(const rig *r, uint32_t k) {
  uint32_t i = 0;
  while (r->out.t[i].port) i++; /* the first port has the weights */
  return &r->out.t[i + k];
}

static bool fault(trial *t, int step, const char *what) {
  snprintf(t->words, sizeof t->words, "update %d: %s", step + 1, what);
  return false;
}

/* `before`: the weights that both began with. */
static bool is_right(trial *t, int step, char before[][MOST_BYTES]) {
  for (uint32_t k = 0; k < GRADIENTS; k++) {
    const rig_tensor *plain = weight(t->plain, k), *own = weight(t->grouped, k);
    bool stays = !memcmp(own->data, before[k], own->bytes), same = !memcmp(own->data, plain->data, own->bytes);
    if (of[k] == 0 && !same) return fault(t, step, "a weight whose factors are 1 ends other than without groups");
    if (of[k] == 1 && !stays) return fault(t, step, "a weight whose factors are 0 changes");
    if (of[k] == 2 && (same || stays)) return fault(t, step, "the learning rate's factor of a weight is ignored");
  }
  return true;
}

static bool right_steps(trial *t) {
  rig *w = t->plain, *g = t->grouped;
  char before[GRADIENTS][MOST_BYTES];
  int rc = rig_prepare(w, RIG_BATCH, &t->err);
  if (!rc) rc = rig_prepare(g, RIG_BATCH, &t->err);
  for (int step = 0; step < STEPS && !rc; step++) {
    rig_fill(&w->in, 1 + 16 * (uint64_t)step);
    rig_fill(&w->out, 3 + 16 * (uint64_t)step);
    copy_list(&w->in, &g->in);
    copy_list(&w->out, &g->out);
    for (uint32_t k = 0; k < GRADIENTS; k++) memcpy(before[k], weight(w, k)->data, weight(w, k)->bytes);
    rc = update(w, &t->err);
    if (!rc) rc = update(g, &t->err);
    if (!rc && !is_right(t, step, before)) return false;
  }
  if (rc) snprintf(t->words, sizeof t->words, "%.500s", t->err.msg);
  return !rc;
}

int grouped_check(report *rep, rig *plain, rig *grouped, sp_err *err) {
  trial t = {.plain = plain, .grouped = grouped, .words = ""};
  int rc = plan_both(&t, err);
  if (!rc) rc = rig_alloc(plain, err);
  if (!rc) rc = rig_alloc(grouped, err);
  if (rc) return rc;
  report_check(rep, right_steps(&t), "forward() honours the factors of groups", t.words);
  return SP_OK;
}
