/* SPDX-License-Identifier: MIT
 * slices.c - steps of an optimizer for the whole, and the same ones by instances that have a slice of each gradient. */
#include "check/slices.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POISON_A 0xFF /* NaN in every float format */
#define POISON_B 0x55
#define GRADIENTS 3
#define STEPS 3         /* the gradients of the last one are not finite */
#define MOST (1u << 20) /* what begins at multiples of more elements is not exercised */

typedef struct extent {
  int64_t at, n;
} extent;

typedef struct trial {
  rig *whole, *rank;
  int64_t unit; /* slices begin at multiples of it */
  extent of[SLICES_RANKS][GRADIENTS];
  size_t n_own[SLICES_RANKS], n_sums, room; /* numbers of survey(), of all; the most of a rank */
  sp_err err;
  char words[RIG_WORDS]; /* of the first fault */
} trial;

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* More than two blocks, one that is not full, and one and an element. Borders of ranks are blocks' or a gradient's. */
static void choose(trial *t) {
  int64_t cut[GRADIENTS][SLICES_RANKS + 1] = {
      {0, t->unit, 4 * (t->unit / 2 + 1), 4 * (t->unit / 2 + 1)}, {0, 0, 3, 3}, {0, 0, t->unit, t->unit + 1}};
  for (int r = 0; r < SLICES_RANKS; r++)
    for (int k = 0; k < GRADIENTS; k++) {
      t->of[r][k] = (extent){cut[k][r], cut[k][r + 1] - cut[k][r]};
      t->n_own[r] += (size_t)((t->of[r][k].n + t->unit - 1) / t->unit);
    }
  for (int r = 0; r < SLICES_RANKS; r++) {
    t->n_sums += t->n_own[r];
    if (t->room < t->n_own[r]) t->room = t->n_own[r];
  }
}

static void give_gradients(trial *t, rig *r, const extent *slices) {
  const sp_spec whole[GRADIENTS] = {{.dtype = SP_F32, .ndim = 2, .shape = {4, t->unit / 2 + 1}},
                                    {.dtype = SP_F32, .ndim = 1, .shape = {3}},
                                    {.dtype = SP_F32, .ndim = 1, .shape = {t->unit + 1}}};
  r->in_specs[0].n = GRADIENTS;
  for (int k = 0; k < GRADIENTS; k++)
    r->in_specs[0].spec[k] = slices ? (sp_spec){.dtype = SP_F32, .ndim = 1, .shape = {slices[k].n}} : whole[k];
  for (uint32_t i = 1; i < r->n_in && r != t->whole; i++) {
    r->in_specs[i].n = t->whole->in_specs[i].n;
    memcpy(r->in_specs[i].spec, t->whole->in_specs[i].spec, r->in_specs[i].n * sizeof *r->in_specs[i].spec);
  }
  r->slices = slices != NULL;
}

/* As processes do it: first for the whole, then for what is theirs. */
static int plan_rank(trial *t, int rank, sp_err *err) {
  rig *r = &t->rank[rank];
  give_gradients(t, r, NULL);
  int rc = rig_replan(r, err);
  give_gradients(t, r, t->of[rank]);
  return rc ? rc : rig_replan(r, err);
}

static bool same_weights(trial *t, const rig *r) {
  const sp_plan *a = &t->whole->plan, *b = &r->plan;
  if (b->slice != a->slice) return rig_fault(t->words, "slice is %u, of the whole %u", b->slice, a->slice);
  if (b->n_weights != a->n_weights)
    return rig_fault(t->words, "there are %u weights, of the whole %u", b->n_weights, a->n_weights);
  for (uint32_t i = 0; i < a->n_weights; i++) {
    const sp_weight *x = &a->weights[i], *y = &b->weights[i];
    if (strcmp(x->name, y->name) || x->of != y->of || (!x->of && !sp_spec_equal(&x->spec, &y->spec)))
      return rig_fault(t->words, "weight %u is '%s', of the whole '%s', or of another gradient or spec", i + 1, y->name,
                       x->name);
  }
  return true;
}

static bool plan_all(trial *t) {
  for (int r = 0; r < SLICES_RANKS; r++) {
    if (plan_rank(t, r, &t->err)) return rig_fault(t->words, "%.500s", t->err.msg);
    if (!same_weights(t, &t->rank[r])) return false;
  }
  return true;
}

static int alloc_all(trial *t, sp_err *err) {
  int rc = rig_alloc(t->whole, err);
  for (int r = 0; r < SLICES_RANKS && !rc; r++) {
    t->rank[r].n_own = t->n_own[r];
    t->rank[r].n_all = t->room * SLICES_RANKS;
    t->rank[r].n_sums = t->n_sums;
    rc = rig_alloc(&t->rank[r], err);
  }
  return rc;
}

/* ---- what is whose ----------------------------------------------------------------------------------------------- */

/* From 1: the gradient that tensor i of the list is, or is of; 0: none, and every rank has all of it. */
static uint32_t gradient_of(const rig *r, const rig_list *list, uint32_t i) {
  if (list == &r->weights) return r->plan.weights[i].of;
  return list->t[i].port ? 0 : i + 1;
}

/* Where in the whole the rank's part of it begins. */
static const char *part_of(const trial *t, int rank, const rig_list *whole, uint32_t i) {
  uint32_t of = gradient_of(t->whole, whole, i);
  return whole->t[i].data + (of ? (size_t)t->of[rank][of - 1].at * sizeof(float) : 0);
}

static void deal_list(const trial *t, int rank, const rig_list *whole, rig_list *to) {
  for (uint32_t i = 0; i < to->n; i++) memcpy(to->t[i].data, part_of(t, rank, whole, i), to->t[i].bytes);
}

static void begin_step(trial *t, int step) {
  rig *w = t->whole;
  rig_fill(&w->in, 1 + 16 * (uint64_t)step);
  if (step == STEPS - 1) memcpy(w->in.t[0].data + (size_t)t->unit * sizeof(float), &(float){INFINITY}, sizeof(float));
  for (uint32_t i = 0; i < w->out.n; i++)
    if (w->out.t[i].port) memset(w->out.t[i].data, POISON_A, w->out.t[i].bytes);
  for (int r = 0; r < SLICES_RANKS; r++) {
    rig *to = &t->rank[r];
    deal_list(t, r, &w->in, &to->in);
    deal_list(t, r, &w->out, &to->out);
    deal_list(t, r, &w->weights, &to->weights);
  }
}

/* ---- survey() ---------------------------------------------------------------------------------------------------- */

static bool survey_again(trial *t, rig *r, int rank) {
  const rig_list own = {&r->own, 1};
  rig_poison(&r->out, POISON_A); /* gradients alone are read */
  rig_poison(&r->weights, POISON_A);
  memset(r->own.data, POISON_B, r->own.bytes);
  rig_call call = {.n = RIG_BATCH, .kind = SP_CALL_SURVEY, .poison = POISON_A};
  if (rig_run(r, &call, &t->err)) return rig_fault(t->words, "%.500s", t->err.msg);
  for (size_t b = 0; b < r->own.bytes; b++)
    if ((unsigned char)r->own.copy[b] == POISON_A && (unsigned char)r->own.data[b] == POISON_B)
      return rig_fault(t->words, "rank %d does not write number %zu of %zu", rank, b / sizeof(double) + 1,
                       t->n_own[rank]);
  if (!rig_same(&own))
    return rig_fault(t->words, "rank %d gives other bits again, with other values in scratch, weights and moments",
                     rank);
  rig_restore(&r->out);
  rig_restore(&r->weights);
  return true;
}

static bool survey(trial *t, int rank) {
  rig *r = &t->rank[rank];
  rig_list own = {&r->own, 1};
  rig_list *const kept[] = {&r->in, &r->out, &r->weights};
  for (size_t i = 0; i < SP_ARRAY(kept); i++) rig_keep(kept[i]);
  rig_poison(&own, POISON_A);
  rig_call call = {.n = RIG_BATCH, .kind = SP_CALL_SURVEY, .poison = POISON_B};
  if (rig_run(r, &call, &t->err)) return rig_fault(t->words, "%.500s", t->err.msg);
  for (size_t i = 0; i < SP_ARRAY(kept); i++)
    if (!rig_same(kept[i])) return rig_fault(t->words, "rank %d changes a gradient, a weight or what it keeps", rank);
  rig_keep(&own);
  return survey_again(t, r, rank);
}

/* What a rank wrote is in the order of gradients, and so are the parts of one gradient in that of ranks. */
static void order_sums(const trial *t, uint32_t *to) {
  uint32_t made[SLICES_RANKS] = {0};
  for (int k = 0; k < GRADIENTS; k++)
    for (uint32_t r = 0; r < SLICES_RANKS; r++)
      for (int64_t n = (t->of[r][k].n + t->unit - 1) / t->unit; n; n--) *to++ = r * (uint32_t)t->room + made[r]++;
}

static void gather(trial *t) {
  for (int to = 0; to < SLICES_RANKS; to++) {
    rig *r = &t->rank[to];
    memset(r->sums.data, POISON_A, r->sums.bytes);
    for (size_t from = 0; from < SLICES_RANKS; from++)
      memcpy(r->sums.data + from * t->room * sizeof(double), t->rank[from].own.data, t->rank[from].own.bytes);
    order_sums(t, (uint32_t *)(void *)r->sum_at.data);
    memcpy(r->sums.copy, r->sums.data, r->sums.bytes);
    memcpy(r->sum_at.copy, r->sum_at.data, r->sum_at.bytes);
  }
}

static bool survey_all(trial *t) {
  for (int r = 0; r < SLICES_RANKS && t->whole->inst->type->survey; r++)
    if (!survey(t, r)) return false;
  gather(t);
  return true;
}

/* ---- forward() --------------------------------------------------------------------------------------------------- */

static int update(rig *r, int poison, sp_err *err) {
  return rig_run(r, &(rig_call){.n = RIG_BATCH, .kind = SP_CALL_FORWARD, .poison = poison}, err);
}

static bool is_status(const rig *r, const rig_list *list, uint32_t i) {
  return list == &r->out && r->inst->type->outputs[list->t[i].port].flags & SP_PORT_STATUS;
}

static const char *name_of(const rig *r, const rig_list *list, uint32_t i, char *text, size_t size) {
  const sp_stage_type *type = r->inst->type;
  if (list == &r->weights) snprintf(text, size, "its weight '%s'", r->plan.weights[i].name);
  else if (!list->t[i].port)
    snprintf(text, size, "%s %u", list == &r->in ? "gradient" : "the weight of gradient", i + 1);
  else
    snprintf(text, size, "'%s'",
             list == &r->in ? type->inputs[list->t[i].port].name : type->outputs[list->t[i].port].name);
  return text;
}

static bool same_list(trial *t, int rank, int step, const rig_list *whole, const rig_list *list) {
  char name[96];
  for (uint32_t i = 0; i < list->n; i++)
    if (!is_status(t->whole, whole, i) && memcmp(list->t[i].data, part_of(t, rank, whole, i), list->t[i].bytes) != 0)
      return rig_fault(t->words, "rank %d of %d leaves %s other than the whole does, in update %d%s", rank,
                       SLICES_RANKS, name_of(t->whole, whole, i, name, sizeof name), step + 1,
                       step == STEPS - 1 ? ", of which a gradient is not finite" : "");
  return true;
}

static bool same_rank(trial *t, int rank, int step) {
  const rig *w = t->whole, *r = &t->rank[rank];
  if (memcmp(r->sums.data, r->sums.copy, r->sums.bytes) || memcmp(r->sum_at.data, r->sum_at.copy, r->sum_at.bytes))
    return rig_fault(t->words, "rank %d changes sums or sum_at", rank);
  return same_list(t, rank, step, &w->out, &r->out) && same_list(t, rank, step, &w->weights, &r->weights) &&
         same_list(t, rank, step, &w->in, &r->in);
}

/* A failure is one of any rank. */
static bool same_status(trial *t) {
  for (uint32_t i = 0; i < t->whole->out.n; i++) {
    if (!is_status(t->whole, &t->whole->out, i)) continue;
    bool told = false;
    int64_t wanted, got;
    memcpy(&wanted, t->whole->out.t[i].data, sizeof wanted);
    for (int r = 0; r < SLICES_RANKS; r++) {
      memcpy(&got, t->rank[r].out.t[i].data, sizeof got);
      told = told || got;
    }
    if (told != (wanted != 0))
      return rig_fault(t->words, "%s rank has a status, where the whole has %s", told ? "a" : "no",
                       told ? "none" : "one");
  }
  return true;
}

static bool update_all(trial *t, int step) {
  if (update(t->whole, POISON_B, &t->err)) return rig_fault(t->words, "%.500s", t->err.msg);
  for (int r = 0; r < SLICES_RANKS; r++) {
    if (update(&t->rank[r], POISON_A, &t->err)) return rig_fault(t->words, "%.500s", t->err.msg);
    if (!same_rank(t, r, step)) return false;
  }
  return same_status(t);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static bool prepare_all(trial *t) {
  if (rig_prepare(t->whole, RIG_BATCH, &t->err)) return rig_fault(t->words, "%.500s", t->err.msg);
  for (int r = 0; r < SLICES_RANKS; r++)
    if (rig_prepare(&t->rank[r], RIG_BATCH, &t->err)) return rig_fault(t->words, "%.500s", t->err.msg);
  return true;
}

/* surveyed: what is wrong is not what survey() does. */
static bool steps(trial *t, bool *surveyed) {
  *surveyed = true;
  rig_fill(&t->whole->out, 3);
  if (!prepare_all(t)) return false;
  for (int step = 0; step < STEPS; step++) {
    begin_step(t, step);
    if (!(*surveyed = survey_all(t)) || !update_all(t, step)) return false;
  }
  return true;
}

int slices_check(rig *whole, rig *rank, slices_fn told, void *arg, sp_err *err) {
  trial t = {.whole = whole, .rank = rank, .unit = whole->plan.slice, .words = ""};
  bool surveyed, good;
  if (t.unit > MOST) return sp_fail(err, SP_E_UNSUPPORTED, "slices of %lld elements are too large", (long long)t.unit);
  choose(&t);
  give_gradients(&t, whole, NULL);
  int rc = rig_replan(whole, err);
  if (rc) return rc;
  told(arg, good = plan_all(&t), "plan() of slices has the weights of the whole", t.words);
  if (!good) return SP_OK;
  if ((rc = alloc_all(&t, err))) return rc;
  good = steps(&t, &surveyed);
  if (whole->inst->type->survey)
    told(arg, surveyed, "survey() writes a number for each part of its slices, by gradients alone", t.words);
  if (surveyed) told(arg, good, "forward() of slices gives the bits of the whole", t.words);
  return SP_OK;
}
