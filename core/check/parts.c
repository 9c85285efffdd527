/* SPDX-License-Identifier: MIT
 * parts.c - a backward in parts beside one in a single call: each part completes its gradients, and no other's. */
#include "check/parts.h"

#include <stdio.h>
#include <string.h>

#include "check/passes.h"

typedef struct pair {
  rig *whole, *cut;
  char words[256]; /* of the first fault */
} pair;

static bool trained_in(const rig *r, uint32_t i, uint32_t part) {
  return r->plan.weights[i].flags & SP_WEIGHT_TRAINED && r->plan.weights[i].part == part;
}

/* A part leaves the gradients of the others as they are. */
static bool wrote_elsewhere(pair *p, uint32_t part) {
  const rig *r = p->cut;
  for (uint32_t i = 0; i < r->dweights.n; i++) {
    const rig_tensor *t = &r->dweights.t[i];
    if (trained_in(r, i, part) || memcmp(t->copy, t->data, t->bytes) == 0) continue;
    snprintf(p->words, sizeof p->words, "part %u wrote the gradient of weight '%s', which is in part %u", part,
             r->plan.weights[i].name, r->plan.weights[i].part);
    return true;
  }
  return false;
}

/* The gradients that a part has completed are those of one call. */
static bool other_bits(pair *p, uint32_t part) {
  const rig *r = p->cut;
  for (uint32_t i = 0; i < r->dweights.n; i++) {
    const rig_tensor *t = &r->dweights.t[i];
    if (!trained_in(r, i, part) || memcmp(t->data, p->whole->dweights.t[i].data, t->bytes) == 0) continue;
    snprintf(p->words, sizeof p->words, "part %u leaves the gradient of weight '%s' %s", part, r->plan.weights[i].name,
             memcmp(t->copy, t->data, t->bytes) == 0 ? "as it was" : "other than one call does");
    return true;
  }
  return false;
}

static bool other_inputs(pair *p) {
  for (uint32_t i = 0; i < p->cut->din.n; i++)
    if (memcmp(p->cut->din.t[i].data, p->whole->din.t[i].data, p->cut->din.t[i].bytes) != 0) {
      snprintf(p->words, sizeof p->words, "the gradient of input %u is another one", i + 1);
      return true;
    }
  return false;
}

/* As if what a part has completed were spent at once. */
static void spend(rig *r, uint32_t part) {
  for (uint32_t i = 0; i < r->weights.n; i++) {
    if (!trained_in(r, i, part)) continue;
    memset(r->weights.t[i].data, POISON_A, r->weights.t[i].bytes);
    memset(r->dweights.t[i].data, POISON_A, r->dweights.t[i].bytes);
  }
}

static int run_forwards(pair *p, sp_err *err) {
  rig *const both[] = {p->whole, p->cut};
  int rc = SP_OK;
  for (int i = 0; i < 2 && !rc; i++) {
    rig_keep(&both[i]->weights);
    rc = rig_prepare(both[i], RIG_BATCH, err);
    if (!rc) rc = passes_forward(both[i], RIG_BATCH, POISON_A, err);
    rig_keep(&both[i]->weights);
  }
  return rc;
}

/* Before a backward: what is added to, or poison. */
static void set_gradients(rig *r, bool acc) {
  rig_poison(&r->din, POISON_A);
  rig_poison(&r->dweights, POISON_A);
  if (!acc) return;
  passes_fill(&r->din, 10);
  passes_fill(&r->dweights, 100);
}

/* One backward in a call and one in parts; false: they differ, or break a rule. */
static bool same_in_parts(pair *p, bool acc, bool spent, sp_err *err) {
  bool same = true;
  set_gradients(p->whole, acc);
  set_gradients(p->cut, acc);
  int rc = passes_backward(p->whole, POISON_A, acc, 0, err);
  for (uint32_t part = 0; part < p->cut->plan.n_parts && same && !rc; part++) {
    rig_keep(&p->cut->dweights);
    rc = passes_backward(p->cut, POISON_A, acc, part, err);
    same = !rc && !wrote_elsewhere(p, part) && !other_bits(p, part);
    if (spent) spend(p->cut, part);
  }
  rig_restore(&p->cut->weights);
  if (rc) snprintf(p->words, sizeof p->words, "%.250s", err->msg);
  return same && !rc && !other_inputs(p);
}

void parts_check(report *rep, rig *whole, rig *cut) {
  pair p = {.whole = whole, .cut = cut};
  sp_err err = {0};
  if (run_forwards(&p, &err)) {
    report_bad(rep, "forward() when backward() is in parts", err.msg);
    return;
  }
  if (!report_check(rep, same_in_parts(&p, false, false, &err),
                    "backward() in parts completes in each its gradients, with the bits of one call", p.words))
    return;
  report_check(rep, same_in_parts(&p, true, false, &err), "backward() in parts accumulates when asked", p.words);
  report_check(rep, same_in_parts(&p, false, true, &err),
               "backward() in parts reads no weight or gradient of an earlier part", p.words);
}
