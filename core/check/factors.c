/* SPDX-License-Identifier: MIT
 * factors.c - the passes of a step whose gradients are made of factors, and the apply() behind them, against the plain
 * backward() of the same passes. */
#include "check/factors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POISON_A 0xFF /* NaN in every float format */
#define POISON_B 0x55
#define SCALE (-0.25f)

static const int64_t samples[FACTORS_SHARDS] = {RIG_BATCH, RIG_BATCH / 2, 0};

typedef struct trial {
  rig *whole, *cut;
  double **sum;     /* [weight][element] of the plain gradients */
  double tolerance; /* of a sum, by its largest element */
  uint32_t shard;
  char who[32]; /* of call_words() */
  sp_err err;
  char words[RIG_WORDS]; /* of the first fault */
} trial;

static bool by_apply(const rig *r, uint32_t i) { return r->plan.weights[i].flags & SP_WEIGHT_FACTORS; }
static bool in_part(const rig *r, uint32_t i, uint32_t part) {
  return r->plan.weights[i].flags & SP_WEIGHT_TRAINED && r->plan.weights[i].part == part;
}

static bool same(const rig_tensor *x) { return !memcmp(x->data, x->copy, x->bytes); }

static const char *call_words(trial *t, const char *call, uint32_t part) {
  if (t->cut->plan.n_parts < 2) return call;
  snprintf(t->who, sizeof t->who, "part %u of %s", part, call);
  return t->who;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* What `got` holds is base + times * add, but for rounding; base NULL: zeros. */
static bool close_to(const trial *t, const rig_tensor *got, const char *base, const double *add, double times) {
  size_t n = (size_t)sp_spec_count(&got->spec);
  double most = 0;
  for (size_t k = 0; k < n; k++) most = fmax(most, fabs(times * add[k]));
  for (size_t k = 0; k < n; k++) {
    double from = base ? rig_value(got, base, k) : 0, want = from + times * add[k];
    if (!(fabs(rig_value(got, got->data, k) - want) <= t->tolerance * most + 1e-6 * fabs(from))) return false;
  }
  return true;
}

/* The same of two tensors; what is neither float32 nor float64, and what neither has written, has the same bits. */
static bool alike(const trial *t, const rig_tensor *a, const rig_tensor *b) {
  double most = 0;
  if (!memcmp(a->data, b->data, a->bytes)) return true;
  if (a->spec.dtype != SP_F32 && a->spec.dtype != SP_F64) return false;
  size_t n = (size_t)sp_spec_count(&a->spec), each = a->bytes / n;
  for (size_t k = 0; k < n; k++) most = fmax(most, fabs(rig_value(a, a->data, k)));
  for (size_t k = 0; k < n; k++) {
    bool same = !memcmp(a->data + k * each, b->data + k * each, each);
    if (!same && !(fabs(rig_value(a, a->data, k) - rig_value(b, b->data, k)) <= t->tolerance * most)) return false;
  }
  return true;
}

static bool finite_value(int dtype, const char *data, bool *zero) {
  uint32_t bits = 0;
  size_t size = dtype == SP_BF16 ? 2 : 4;
  memcpy((char *)&bits + 4 - size, data, size); /* bfloat16 is the upper half */
  *zero = !(bits << 1);
  return (bits >> 23 & 255) != 255;
}

/* ---- the factors of a pass --------------------------------------------------------------------------------------- */

/* All rows are written: numbers for samples that are there, zeros for the others. */
static bool complete(trial *t, uint32_t i, const char *who) {
  const rig_tensor *rows = &t->cut->rows.t[i];
  int64_t n = rows->spec.shape[0] / FACTORS_SHARDS, cols = rows->spec.shape[1], there = samples[t->shard];
  if (n % RIG_BATCH)
    return rig_fault(t->words, "factor %u has %lld rows for %d samples", i + 1, (long long)n, RIG_BATCH);
  size_t each = rows->bytes / (size_t)(rows->spec.shape[0] * cols);
  for (int64_t row = 0; row < n; row++)
    for (int64_t k = 0; k < cols; k++) {
      bool zero, missing = row / (n / RIG_BATCH) >= there;
      const char *at = rows->data + (size_t)((t->shard * n + row) * cols + k) * each;
      if (finite_value(rows->spec.dtype, at, &zero) && (zero || !missing)) continue;
      return rig_fault(t->words, "%s leaves row %lld of factor %u %s, with %lld of %d samples", who, (long long)row,
                       i + 1, missing ? "other than zero" : "unwritten", (long long)there, RIG_BATCH);
    }
  return true;
}

/* What of `rows` is not the pass's, or not the call's, is as it was. A part of a backward may begin what a later one
 * completes. */
static bool wrote_its_own(trial *t, bool forward, uint32_t part, const char *who) {
  const rig *r = t->cut;
  for (uint32_t i = 0; i < r->rows.n; i++) {
    const rig_tensor *rows = &r->rows.t[i];
    const sp_factor *f = &r->plan.factors[i];
    size_t each = rows->bytes / FACTORS_SHARDS, from = t->shard * each;
    bool may = f->forward ? forward : !forward && part <= f->part - f->early;
    if (memcmp(rows->data, rows->copy, from) ||
        memcmp(rows->data + from + each, rows->copy + from + each, rows->bytes - from - each))
      return rig_fault(t->words, "%s wrote rows of factor %u that are another pass's", who, i + 1);
    if (!may && memcmp(rows->data + from, rows->copy + from, each))
      return rig_fault(t->words, "%s wrote factor %u, which %s", who, i + 1,
                       f->forward ? "forward() is to write"
                       : forward  ? "backward() is to write"
                                  : "was complete");
    bool last = f->forward ? forward : !forward && part == f->part - f->early;
    if (last && !complete(t, i, who)) return false;
  }
  return true;
}

static bool untouched(trial *t, const rig_list *list, const char *what, const char *who) {
  return rig_same(list) || rig_fault(t->words, "%s changed %s", who, what);
}

static bool inputs_stand(trial *t, const char *who) {
  const rig *r = t->cut;
  return untouched(t, &r->in, "an input", who) && untouched(t, &r->dout, "the gradient of an output", who);
}

/* ---- one pass ---------------------------------------------------------------------------------------------------- */

static rig_call call_of(const trial *t, sp_call_kind kind, uint32_t part) {
  return (rig_call){.n = samples[t->shard],
                    .kind = kind,
                    .want_din = true,
                    .want_dw = true,
                    .part = part,
                    .poison = POISON_B,
                    .sharded = true,
                    .shard = t->shard};
}

/* Inputs of this pass, and weights and statistics as they were before the first. */
static void begin(rig *r, uint32_t shard) {
  rig_fill(&r->in, 1 + 16 * shard);
  rig_fill(&r->dout, 2 + 16 * shard);
  rig_restore(&r->weights);
  rig_list *const written[] = {&r->out, &r->din, &r->dweights};
  for (size_t i = 0; i < SP_ARRAY(written); i++) rig_poison(written[i], POISON_A);
  rig_list *const kept[] = {&r->in, &r->dout, &r->out, &r->din, &r->dweights, &r->rows};
  for (size_t i = 0; i < SP_ARRAY(kept); i++) rig_keep(kept[i]);
}

static bool plain(trial *t) {
  rig *r = t->whole;
  rig_call forward = call_of(t, SP_CALL_FORWARD, 0), backward = call_of(t, SP_CALL_BACKWARD, 0);
  begin(r, t->shard);
  if (!samples[t->shard]) return true;
  if (rig_prepare(r, samples[t->shard], &t->err) || rig_run(r, &forward, &t->err) || rig_run(r, &backward, &t->err))
    return rig_fault(t->words, "%.500s", t->err.msg);
  for (uint32_t i = 0; i < r->weights.n; i++)
    for (int64_t k = 0; by_apply(t->cut, i) && k < sp_spec_count(&r->dweights.t[i].spec); k++)
      t->sum[i][k] += rig_value(&r->dweights.t[i], r->dweights.t[i].data, (size_t)k);
  return true;
}

static bool forward(trial *t) {
  rig *r = t->cut;
  int64_t n = samples[t->shard];
  rig_call call = call_of(t, SP_CALL_FORWARD, 0);
  begin(r, t->shard);
  if ((n && rig_prepare(r, n, &t->err)) || rig_run(r, &call, &t->err)) return rig_fault(t->words, "%.500s", t->err.msg);
  if (!wrote_its_own(t, true, 0, "forward()") || !inputs_stand(t, "forward()")) return false;
  if (!n && !(untouched(t, &r->out, "an output, though there was no sample", "forward()") &&
              untouched(t, &r->weights, "a weight or a statistic, though there was no sample", "forward()")))
    return false;
  for (uint32_t i = 0; i < r->out.n; i++)
    if (!alike(t, &t->whole->out.t[i], &r->out.t[i]))
      return rig_fault(t->words, "output %u is another one than without factors", i + 1);
  return true;
}

/* Gradients that have no factors are those of the plain backward; without samples nothing is written. Weights stand. */
static bool other_gradients(trial *t, uint32_t part, const char *who) {
  const rig *r = t->cut;
  for (uint32_t i = 0; i < r->dweights.n; i++) {
    const rig_tensor *dw = &r->dweights.t[i];
    const char *name = r->plan.weights[i].name;
    bool gives = samples[t->shard] && in_part(r, i, part) && !by_apply(r, i);
    if (r->plan.weights[i].flags & SP_WEIGHT_TRAINED && !same(&r->weights.t[i]))
      return rig_fault(t->words, "%s changed weight '%s'", who, name);
    if (!gives && !same(dw)) return rig_fault(t->words, "%s wrote the gradient of weight '%s'", who, name);
    if (gives && !alike(t, &t->whole->dweights.t[i], dw))
      return rig_fault(t->words, "%s gives weight '%s' another gradient than without factors", who, name);
  }
  return true;
}

static bool backward(trial *t, uint32_t part) {
  rig *r = t->cut;
  const char *who = call_words(t, "backward()", part);
  rig_call call = call_of(t, SP_CALL_BACKWARD, part);
  rig_keep(&r->rows);
  rig_keep(&r->dweights);
  rig_keep(&r->out);
  if (rig_run(r, &call, &t->err)) return rig_fault(t->words, "%.500s", t->err.msg);
  if (!wrote_its_own(t, false, part, who) || !other_gradients(t, part, who) || !inputs_stand(t, who) ||
      !untouched(t, &r->out, "an output", who))
    return false;
  for (uint32_t i = 0; i < r->din.n && part + 1 == r->plan.n_parts; i++)
    if (!alike(t, &t->whole->din.t[i], &r->din.t[i]))
      return rig_fault(t->words, "the gradient of input %u is another one than without factors", i + 1);
  return true;
}

static bool passes(trial *t) {
  rig_poison(&t->cut->rows, POISON_A);
  rig_keep(&t->whole->weights);
  rig_keep(&t->cut->weights);
  for (t->shard = 0; t->shard < FACTORS_SHARDS; t->shard++) {
    if (!plain(t) || !forward(t)) return false;
    for (uint32_t part = 0; part < t->cut->plan.n_parts; part++)
      if (!backward(t, part)) return false;
  }
  rig_restore(&t->cut->weights);
  return true;
}

/* ---- apply() ----------------------------------------------------------------------------------------------------- */

/* Its part may read no factor of a later one. */
static void hide_later_rows(rig *r, uint32_t part) {
  rig_restore(&r->rows);
  for (uint32_t i = 0; i < r->rows.n; i++)
    if (!r->plan.factors[i].forward && r->plan.factors[i].part > part)
      memset(r->rows.t[i].data, POISON_A, r->rows.t[i].bytes);
}

static bool rows_stand(const rig *r, uint32_t part) {
  for (uint32_t i = 0; i < r->rows.n; i++) {
    const rig_tensor *rows = &r->rows.t[i];
    bool hidden = !r->plan.factors[i].forward && r->plan.factors[i].part > part;
    if (!hidden && !same(rows)) return false;
    for (size_t b = 0; hidden && b < rows->bytes; b++)
      if ((unsigned char)rows->data[b] != POISON_A) return false;
  }
  return true;
}

/* What it made of a weight. The first result is kept where the copy of the plain gradient was. */
static bool made(trial *t, uint32_t i, bool in_place, bool again, const char *who) {
  rig *r = t->cut;
  const rig_tensor *got = in_place ? &r->weights.t[i] : &r->dweights.t[i];
  const char *name = r->plan.weights[i].name;
  char *first = t->whole->dweights.t[i].copy;
  if (!close_to(t, got, in_place ? got->copy : NULL, t->sum[i], SCALE))
    return rig_fault(t->words, "%s %s weight '%s' other than dw_scale times the sum of the plain gradients", who,
                     in_place ? "adds to" : "gives the gradient of", name);
  if (again && memcmp(got->data, first, got->bytes))
    return rig_fault(t->words, "%s gives other bits for weight '%s' a second time", who, name);
  memcpy(first, got->data, got->bytes);
  return true;
}

static bool right(trial *t, uint32_t part, bool in_place, bool again, const char *who) {
  rig *r = t->cut;
  for (uint32_t i = 0; i < r->weights.n; i++) {
    const rig_tensor *w = &r->weights.t[i], *dw = &r->dweights.t[i];
    bool its = in_part(r, i, part) && by_apply(r, i);
    if (its && !made(t, i, in_place, again, who)) return false;
    if (!(its && in_place) && !same(w))
      return rig_fault(t->words, "%s changed weight '%s'", who, r->plan.weights[i].name);
    if (!(its && !in_place) && !same(dw))
      return rig_fault(t->words, "%s wrote the gradient of weight '%s'", who, r->plan.weights[i].name);
  }
  return rows_stand(r, part) || rig_fault(t->words, "%s changed a factor", who);
}

static bool apply_part(trial *t, uint32_t part, bool in_place) {
  rig *r = t->cut;
  const char *who = call_words(t, "apply()", part);
  for (int again = 0; again < 2; again++) {
    int poison = again ? POISON_B : POISON_A;
    rig_call call = {.kind = SP_CALL_APPLY, .want_dw = !in_place, .part = part, .poison = poison, .scale = SCALE};
    hide_later_rows(r, part);
    rig_restore(&r->weights);
    rig_poison(&r->dweights, poison);
    rig_keep(&r->dweights);
    if (rig_run(r, &call, &t->err)) return rig_fault(t->words, "%.500s", t->err.msg);
    if (!right(t, part, in_place, again, who)) return false;
  }
  return true;
}

static bool applies(const rig *r, uint32_t part) {
  for (uint32_t i = 0; i < r->weights.n; i++)
    if (in_part(r, i, part) && by_apply(r, i)) return true;
  return false;
}

static bool apply(trial *t, bool in_place) {
  for (uint32_t part = 0; part < t->cut->plan.n_parts; part++)
    if (applies(t->cut, part) && !apply_part(t, part, in_place)) return false;
  rig_restore(&t->cut->rows);
  return true;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static bool new_sums(trial *t) {
  const rig *r = t->whole;
  if (!(t->sum = sp_calloc(r->weights.n + 1, sizeof *t->sum))) return false;
  for (uint32_t i = 0; i < r->weights.n; i++)
    if (!(t->sum[i] = sp_calloc((size_t)sp_spec_count(&r->weights.t[i].spec) + 1, sizeof **t->sum))) return false;
  return true;
}

static void free_sums(trial *t) {
  for (uint32_t i = 0; t->sum && i < t->whole->weights.n; i++) free(t->sum[i]);
  free(t->sum);
}

/* Sums of float32 over a few hundred rows, which two orders make; bfloat16 has 8 bits, and TF32 11. */
static double tolerance_of(const rig *cut, bool exact) {
  for (uint32_t i = 0; i < cut->rows.n; i++) exact = exact && cut->rows.t[i].spec.dtype == SP_F32;
  return exact ? 1e-4 : 2e-2;
}

void factors_check(rig *whole, rig *cut, bool exact, factors_fn told, void *arg) {
  static const char *const what[][2] = {
      {"factors: each pass writes its own rows, and zeros for samples that are not there",
       "factors, in parts: each pass writes its own rows, and zeros for samples that are not there"},
      {"apply() makes the gradients of all passes, and writes nothing else",
       "apply() in parts makes the gradients of all passes, and writes nothing else"},
      {"apply() adds them to the weights where it has no dweights",
       "apply() in parts adds them to the weights where it has no dweights"}};
  trial t = {.whole = whole, .cut = cut, .tolerance = tolerance_of(cut, exact), .words = "out of memory"};
  bool parts = cut->plan.n_parts > 1, good = new_sums(&t) && passes(&t);
  told(arg, good, what[0][parts], t.words);
  if (good) rig_keep(&cut->rows);
  for (int in_place = 0; in_place < 2 && good; in_place++)
    told(arg, good = apply(&t, in_place), what[1 + in_place][parts], t.words);
  free_sums(&t);
}
