/* SPDX-License-Identifier: MIT
 * conformance.c - does a stage keep the rules of spcore/plugin.h? */
#include "check/conformance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spcore/ext/precision.h>

#include "check/constants.h"
#include "check/factors.h"
#include "check/rig.h"
#include "check/slices.h"

#define POISON_A 0xFF /* NaN in every float format */
#define POISON_B 0x55

typedef struct report {
  sp_conform_fn line;
  void *arg;
  const char *stage;
  int failed;
} report;

static void ok(report *rep, const char *what) { rep->line(rep->arg, SP_CONFORM_OK, rep->stage, what, ""); }

static void notice(report *rep, const char *what, const char *words) {
  rep->line(rep->arg, SP_CONFORM_NOTICE, rep->stage, what, words);
}

static void bad(report *rep, const char *what, const char *words) {
  rep->failed++;
  rep->line(rep->arg, SP_CONFORM_FAILED, rep->stage, what, words);
}

static bool check(report *rep, bool good, const char *what, const char *words) {
  if (good) ok(rep, what);
  else bad(rep, what, words);
  return good;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static bool documented(const char *doc) {
  size_t n = doc ? strlen(doc) : 0;
  return n && doc[n - 1] != '.' && !strchr(doc, '\n');
}

static const char *undocumented_param(const sp_param *table) {
  for (const sp_param *e = table; e && e->name; e++) {
    if (!documented(e->doc)) return e->name;
    const char *inner = e->type == SP_PARAM_LIST ? undocumented_param(e->fields) : NULL;
    if (inner) return inner;
  }
  return NULL;
}

static void check_docs(report *rep, const sp_stage_type *t) {
  const char *where = documented(t->doc) ? NULL : t->name;
  for (const sp_port *p = t->inputs; !where && p && p->name; p++)
    if (!documented(p->doc)) where = p->name;
  for (const sp_port *p = t->outputs; !where && p && p->name; p++)
    if (!documented(p->doc)) where = p->name;
  if (!where) where = undocumented_param(t->params);
  char words[128];
  snprintf(words, sizeof words, "the doc of '%s' is missing, or ends with a full stop", where ? where : "");
  check(rep, !where, "stage, ports and parameters each have one sentence of doc", words);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* An optimizer's outputs are its weights, updated in place; other outputs hold garbage. */
static void dirty_outputs(rig *r, int byte) {
  if (r->inst->type->flags & SP_STAGE_OPTIMIZER) rig_fill(&r->out, 3);
  else rig_poison(&r->out, byte);
}

/* Scratch and saved hold the other poison, so that what is copied from there does not pass for what was not written. */
static int other(int poison) { return poison == POISON_A ? POISON_B : POISON_A; }

static int run_forward(rig *r, int64_t n, int poison, sp_err *err) {
  rig_restore(&r->weights); /* statistics as they were */
  dirty_outputs(r, poison);
  rig_poison(&r->din, poison);
  return rig_run(r, &(rig_call){.n = n, .poison = other(poison), .want_din = true}, err);
}

/* How the data of two runs over differently poisoned memory differs: 0 not; 1 where both are still poison; 2 otherwise. */
static int difference(const rig_list *list, char *words, size_t n) {
  for (uint32_t i = 0; i < list->n; i++)
    for (size_t b = 0; b < list->t[i].bytes; b++) {
      unsigned char was = (unsigned char)list->t[i].copy[b], is = (unsigned char)list->t[i].data[b];
      if (was == is) continue;
      snprintf(words, n, "tensor %u of %u, byte %zu", i + 1, list->n, b);
      return was == POISON_A && is == POISON_B ? 1 : 2;
    }
  return 0;
}

static bool trained_weights_same(const rig *r) {
  for (uint32_t i = 0; i < r->weights.n; i++)
    if (!(r->plan.weights[i].flags & SP_WEIGHT_STATE) &&
        memcmp(r->weights.t[i].copy, r->weights.t[i].data, r->weights.t[i].bytes) != 0)
      return false;
  return true;
}

static bool check_forward(report *rep, rig *r) {
  sp_err err;
  char words[96] = "";
  rig_keep(&r->in);
  rig_keep(&r->weights);
  int rc = rig_prepare(r, RIG_BATCH, &err);
  if (r->inst->type->prepare && !check(rep, !rc, "prepare() succeeds", err.msg)) return false;
  if (r->inst->type->prepare)
    check(rep, rig_same(&r->weights), "prepare() leaves weights and statistics as they are", "a weight was changed");
  rc = run_forward(r, RIG_BATCH, POISON_A, &err);
  if (!check(rep, !rc, "forward() succeeds and stays within its buffers", err.msg)) return false;
  check(rep, rig_same(&r->in), "forward() leaves its inputs as they are", "an input was changed");
  check(rep, trained_weights_same(r), "forward() leaves the trained weights as they are", "a weight was changed");
  rig_keep(&r->out);
  rig_keep(&r->din);
  rc = run_forward(r, RIG_BATCH, POISON_B, &err);
  if (!check(rep, !rc, "forward() succeeds a second time", err.msg)) return false;
  int diff = difference(&r->out, words, sizeof words);
  check(rep, diff != 1, "forward() writes all of its output", words);
  check(rep, diff != 2, "forward() gives the same bits again, whatever lies in scratch, saved and outputs", words);
  return true;
}

static bool outermost(const sp_spec *s) {
  return s->order == SP_ROW_MAJOR || (((uint32_t)s->order >> 4 * (uint32_t)(s->ndim - 1)) & 15) == 0;
}

/* The last batch of an epoch. rig.out's copies hold the whole batch's results. */
static void check_short_batch(report *rep, rig *r) {
  const int64_t n = RIG_BATCH / 2;
  sp_err err;
  bool same = true, within = true, any = false;
  rig_keep(&r->weights);
  if (rig_prepare(r, n, &err) || run_forward(r, n, POISON_A, &err)) {
    bad(rep, "forward() takes a batch with fewer samples than planned", err.msg);
    return;
  }
  ok(rep, "forward() takes a batch with fewer samples than planned");
  for (uint32_t i = 0; i < r->out.n; i++) {
    const rig_tensor *t = &r->out.t[i];
    if (!t->batch || !outermost(&t->spec)) continue;
    size_t part = t->bytes / RIG_BATCH * (size_t)n;
    any = true;
    same = same && memcmp(t->data, t->copy, part) == 0;
    for (size_t b = part; b < t->bytes; b++) within = within && (unsigned char)t->data[b] == POISON_A;
  }
  if (!any) return;
  check(rep, within, "forward() writes nothing behind the samples of a short batch",
        "bytes of later samples were changed");
  if (same) ok(rep, "samples come out the same in a short batch");
  else notice(rep, "samples come out the same in a short batch", "they do not: the result depends on the whole batch");
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static int run_backward(rig *r, int poison, bool acc, bool din, bool dw, sp_err *err) {
  return rig_run(r,
                 &(rig_call){.n = RIG_BATCH,
                             .kind = SP_SOLO_BACKWARD,
                             .want_din = din,
                             .want_dw = dw,
                             .acc = acc,
                             .poison = other(poison)},
                 err);
}

/* data == copy + what rig_fill(list, seed) gives; only of float32 and float64 that backward() wrote. */
static bool adds_up(rig_list *list, uint64_t seed, const bool *given) {
  bool good = true;
  for (uint32_t i = 0; i < list->n; i++) {
    rig_tensor *t = &list->t[i];
    if (!given[i] || (t->spec.dtype != SP_F32 && t->spec.dtype != SP_F64)) continue;
    size_t n = (size_t)sp_spec_count(&t->spec);
    double *sum = sp_calloc(n, sizeof *sum), most = 1;
    if (!sum) return false;
    for (size_t k = 0; k < n; k++) {
      sum[k] = rig_value(t, t->data, k) - rig_value(t, t->copy, k);
      most = fmax(most, fabs(rig_value(t, t->copy, k)));
    }
    rig_list one = {t, 1};
    char *kept = t->copy;
    t->copy = NULL;
    rig_fill(&one, seed + i);
    t->copy = kept;
    for (size_t k = 0; k < n; k++) good = good && fabs(sum[k] - rig_value(t, t->data, k)) <= 1e-5 * most;
    free(sum);
  }
  return good;
}

static void fill_each(rig_list *list, uint64_t seed) {
  for (uint32_t i = 0; i < list->n; i++) rig_fill(&(rig_list){&list->t[i], 1}, seed + i);
}

/* Which tensors hold something else than the poison that was there before: those that backward() was asked for. */
static void which(const rig_list *list, bool *given) {
  for (uint32_t i = 0; i < list->n; i++) {
    given[i] = false;
    for (size_t b = 0; b < list->t[i].bytes && !given[i]; b++) given[i] = (unsigned char)list->t[i].copy[b] != POISON_A;
  }
}

static void check_accumulation(report *rep, rig *r) {
  sp_err err;
  bool *din = sp_calloc(r->din.n, sizeof *din), *dw = sp_calloc(r->dweights.n, sizeof *dw);
  if (din && dw) {
    which(&r->din, din);
    which(&r->dweights, dw);
    fill_each(&r->din, 10);
    fill_each(&r->dweights, 100);
    int rc = run_backward(r, POISON_A, true, true, true, &err);
    if (check(rep, !rc, "backward() accumulates when asked", err.msg)) {
      check(rep, adds_up(&r->din, 10, din), "din_acc adds to what is there", "the sum is another");
      check(rep, adds_up(&r->dweights, 100, dw), "dw_acc adds to what is there", "the sum is another");
    }
  }
  free(din);
  free(dw);
}

static void check_backward(report *rep, rig *r) {
  sp_err err;
  char words[96] = "";
  rig_keep(&r->weights);
  if (run_forward(r, RIG_BATCH, POISON_A, &err)) {
    bad(rep, "forward() before backward() succeeds", err.msg);
    return;
  }
  rig_keep(&r->weights); /* the statistics of that forward() */
  rig_keep(&r->out);
  rig_keep(&r->dout);
  rig_poison(&r->din, POISON_A);
  rig_poison(&r->dweights, POISON_A);
  int rc = run_backward(r, POISON_A, false, true, true, &err);
  if (!check(rep, !rc, "backward() succeeds and stays within its buffers", err.msg)) return;
  bool same = rig_same(&r->in) && rig_same(&r->out) && rig_same(&r->dout) && rig_same(&r->weights);
  check(rep, same, "backward() leaves inputs, outputs, their gradients and weights as they are",
        "one of them was changed");
  rig_keep(&r->din);
  rig_keep(&r->dweights);
  rig_poison(&r->din, POISON_B);
  rig_poison(&r->dweights, POISON_B);
  rc = run_backward(r, POISON_B, false, true, true, &err);
  if (!check(rep, !rc, "backward() succeeds a second time", err.msg)) return;
  /* What was not asked for holds the poison of either run; a wholly unwritten tensor was not wanted. */
  for (uint32_t side = 0; side < 2; side++) {
    rig_list *list = side ? &r->dweights : &r->din;
    bool all = true, bits = true;
    for (uint32_t i = 0; i < list->n; i++) {
      rig_list one = {&list->t[i], 1};
      bool unasked = side ? !(r->plan.weights[i].flags & SP_WEIGHT_TRAINED)
                          : (r->inst->type->inputs[list->t[i].port].flags & SP_PORT_NOGRAD) ||
                                (list->t[i].spec.dtype != SP_F32 && list->t[i].spec.dtype != SP_F64 &&
                                 list->t[i].spec.dtype != SP_F16 && list->t[i].spec.dtype != SP_BF16);
      int diff = unasked ? 0 : difference(&one, words, sizeof words);
      all = all && diff != 1;
      bits = bits && diff != 2;
    }
    check(rep, all, side ? "backward() writes all weight gradients" : "backward() writes all input gradients", words);
    check(rep, bits, side ? "weight gradients are the same bits again" : "input gradients are the same bits again",
          words);
  }
  rc = run_backward(r, POISON_A, false, false, false, &err);
  check(rep, !rc, "backward() bears that no gradient is wanted", err.msg);
  check_accumulation(rep, r);
}

/* ---- a backward in parts ----------------------------------------------------------------------------------------- */

#define MOST_PARTS 8

/* Two of one stage, whose inputs and weights are the same; `cut` has been offered parts, shards or both. */
typedef struct pair {
  rig whole, cut;
  bool exact;      /* products are of float32 */
  char words[256]; /* of the first fault */
} pair;

static bool trained_in(const rig *r, uint32_t i, uint32_t part) {
  return r->plan.weights[i].flags & SP_WEIGHT_TRAINED && r->plan.weights[i].part == part;
}

/* A part leaves the gradients of the others as they are. */
static bool wrote_elsewhere(pair *p, uint32_t part) {
  const rig *r = &p->cut;
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
  const rig *r = &p->cut;
  for (uint32_t i = 0; i < r->dweights.n; i++) {
    const rig_tensor *t = &r->dweights.t[i];
    if (!trained_in(r, i, part) || memcmp(t->data, p->whole.dweights.t[i].data, t->bytes) == 0) continue;
    snprintf(p->words, sizeof p->words, "part %u leaves the gradient of weight '%s' %s", part, r->plan.weights[i].name,
             memcmp(t->copy, t->data, t->bytes) == 0 ? "as it was" : "other than one call does");
    return true;
  }
  return false;
}

static bool other_inputs(pair *p) {
  for (uint32_t i = 0; i < p->cut.din.n; i++)
    if (memcmp(p->cut.din.t[i].data, p->whole.din.t[i].data, p->cut.din.t[i].bytes) != 0) {
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
  rig *const both[] = {&p->whole, &p->cut};
  int rc = SP_OK;
  for (int i = 0; i < 2 && !rc; i++) {
    rig_keep(&both[i]->weights);
    rc = rig_prepare(both[i], RIG_BATCH, err);
    if (!rc) rc = run_forward(both[i], RIG_BATCH, POISON_A, err);
    rig_keep(&both[i]->weights);
  }
  return rc;
}

/* Before a backward: what is added to, or poison. */
static void set_gradients(rig *r, bool acc) {
  rig_poison(&r->din, POISON_A);
  rig_poison(&r->dweights, POISON_A);
  if (!acc) return;
  fill_each(&r->din, 10);
  fill_each(&r->dweights, 100);
}

/* One backward in a call and one in parts; false: they differ, or break a rule. */
static bool same_in_parts(pair *p, bool acc, bool spent, sp_err *err) {
  bool same = true;
  set_gradients(&p->whole, acc);
  set_gradients(&p->cut, acc);
  int rc = run_backward(&p->whole, POISON_A, acc, true, true, err);
  for (uint32_t part = 0; part < p->cut.plan.n_parts && same && !rc; part++) {
    rig_keep(&p->cut.dweights);
    rc = rig_run(&p->cut,
                 &(rig_call){.n = RIG_BATCH,
                             .kind = SP_SOLO_BACKWARD,
                             .want_din = true,
                             .want_dw = true,
                             .acc = acc,
                             .poison = POISON_B,
                             .part = part},
                 err);
    same = !rc && !wrote_elsewhere(p, part) && !other_bits(p, part);
    if (spent) spend(&p->cut, part);
  }
  rig_restore(&p->cut.weights);
  if (rc) snprintf(p->words, sizeof p->words, "%.250s", err->msg);
  return same && !rc && !other_inputs(p);
}

static void compare_parts(report *rep, pair *p) {
  sp_err err = {0};
  if (rig_plan(&p->whole, &err) || rig_plan(&p->cut, &err)) {
    bad(rep, "plan() when backward() may be in parts", err.msg);
    return;
  }
  if (p->cut.plan.n_parts < 2) return; /* it knows no parts, or has no weights for two */
  if (rig_alloc(&p->whole, &err) || rig_alloc(&p->cut, &err) || run_forwards(p, &err)) {
    bad(rep, "forward() when backward() is in parts", err.msg);
    return;
  }
  if (!check(rep, same_in_parts(p, false, false, &err),
             "backward() in parts completes in each its gradients, with the bits of one call", p->words))
    return;
  check(rep, same_in_parts(p, true, false, &err), "backward() in parts accumulates when asked", p->words);
  check(rep, same_in_parts(p, false, true, &err), "backward() in parts reads no weight or gradient of an earlier part",
        p->words);
}

/* ---- factors ----------------------------------------------------------------------------------------------------- */

static void of_pair(void *arg, bool good, const char *what, const char *words) { check(arg, good, what, words); }

static void compare_factors(report *rep, pair *p) {
  sp_err err = {0};
  if (rig_plan(&p->cut, &err)) {
    bad(rep, "plan() when a step has several shards", err.msg);
    return;
  }
  if (!p->cut.plan.n_factors || (p->cut.max_parts > 1 && p->cut.plan.n_parts < 2)) return; /* none, or none again */
  if (rig_plan_as(&p->whole, &p->cut, &err)) {
    bad(rep, "plan() when a step has one shard", err.msg);
    return;
  }
  if (rig_alloc(&p->whole, &err) || rig_alloc(&p->cut, &err)) {
    notice(rep, "factors: not exercised", err.msg);
    return;
  }
  factors_check(&p->whole, &p->cut, p->exact, of_pair, rep);
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

/* Both are frozen. */
static void compare_constants(report *rep, pair *p) {
  sp_err err = {0};
  p->whole.frozen = p->cut.frozen = true;
  if (rig_plan(&p->cut, &err) || rig_plan_as(&p->whole, &p->cut, &err)) {
    bad(rep, "plan() of a frozen stage", err.msg);
    return;
  }
  if (!p->cut.plan.const_bytes) return;
  if (rig_alloc(&p->whole, &err) || rig_alloc(&p->cut, &err)) notice(rep, "constants: not exercised", err.msg);
  else constants_check(&p->whole, &p->cut, of_pair, rep);
}

/* ---- one stage --------------------------------------------------------------------------------------------------- */

static bool same_plan(rig *r, sp_err *err) {
  sp_spec before[RIG_PORTS];
  uint32_t weights = r->plan.n_weights;
  size_t scratch = r->plan.scratch_bytes, saved = r->plan.saved_bytes;
  for (uint32_t i = 0; i < r->n_out; i++) before[i] = r->out_specs[i].n ? r->out_specs[i].spec[0] : (sp_spec){0};
  if (sp_inst_plan(r->inst, &r->plan, err)) return false;
  bool same = weights == r->plan.n_weights && scratch == r->plan.scratch_bytes && saved == r->plan.saved_bytes;
  for (uint32_t i = 0; i < r->n_out; i++)
    same = same && (!r->out_specs[i].n || sp_spec_equal(&before[i], &r->out_specs[i].spec[0]));
  if (!same) sp_fail(err, SP_E_INTERNAL, "another result for the same inputs");
  return same;
}

/* What stages get of the device that they are for, which is opened when the first of a file asks for it. */
typedef struct services {
  const sp_conform *how;
  sp_solo solo;
  char device[64]; /* "": none is open */
  sp_stage_host host;
  sp_precision precision;
} services;

static const void *extension(void *arg, const char *id) {
  const services *s = arg;
  if (strcmp(id, SP_EXT_PRECISION) == 0) return &s->precision;
  return *s->device ? sp_solo_extension(&s->solo, id) : NULL;
}

static void close_device(services *s) {
  if (*s->device) sp_solo_close(&s->solo);
  *s->device = 0;
}

/* NULL in *solo: a stage of the cpu needs none. */
static int find_device(services *s, const char *device, sp_solo **solo, sp_err *err) {
  *solo = NULL;
  if (strcmp(device, "cpu") == 0) return SP_OK;
  if (!s->how->reg) return sp_fail(err, SP_E_NOTFOUND, "the stage is for another device than the cpu");
  if (strcmp(device, s->device) != 0) {
    close_device(s);
    int rc = sp_solo_open(&s->solo, s->how->reg, device, err);
    if (rc) return rc;
    snprintf(s->device, sizeof s->device, "%s", device);
  }
  *solo = &s->solo;
  return SP_OK;
}

/* What is compared of a pair. */
typedef struct offer {
  uint32_t max_parts, shards; /* to `cut` */
  void (*compare)(report *rep, pair *p);
} offer;

static void check_pair(report *rep, const offer *o, const sp_stage_type *t, const sp_plugin_file *file,
                       const services *s, sp_solo *solo) {
  pair p = {.exact = s->how->precision == SP_PRECISION_FP32, .words = ""};
  sp_err err;
  if (rig_open(&p.whole, &s->host, t, file, s->how->set, solo, &err)) {
    bad(rep, "create() a second time", err.msg);
    return;
  }
  if (rig_open(&p.cut, &s->host, t, file, s->how->set, solo, &err)) {
    bad(rep, "create() a third time", err.msg);
  } else {
    p.cut.max_parts = o->max_parts;
    p.cut.shards = o->shards;
    o->compare(rep, &p);
    rig_close(&p.cut);
  }
  rig_close(&p.whole);
}

/* An optimizer that takes slices: one for the whole, and one for each rank. */
static void check_slices(report *rep, const sp_stage_type *t, const sp_plugin_file *file, const services *s,
                         sp_solo *solo) {
  rig all[1 + SLICES_RANKS];
  sp_err err;
  int opened = 0, rc = SP_OK;
  while (!rc && opened < 1 + SLICES_RANKS) {
    rc = rig_open(&all[opened], &s->host, t, file, s->how->set, solo, &err);
    if (!rc) opened++;
  }
  if (!rc) rc = rig_plan(&all[0], &err);
  if (!rc) rc = slices_check(&all[0], &all[1], of_pair, rep, &err);
  if (rc && err.status == SP_E_INTERNAL) bad(rep, "slices", err.msg);
  else if (rc) notice(rep, "slices: not exercised", err.msg);
  while (opened) rig_close(&all[--opened]);
}

static const offer offers[] = {{MOST_PARTS, 0, compare_parts},
                               {1, FACTORS_SHARDS, compare_factors},
                               {MOST_PARTS, FACTORS_SHARDS, compare_factors},
                               {1, 0, compare_constants}};

static void check_stage(report *rep, const sp_stage_type *t, const sp_plugin_file *file, services *s) {
  rig r;
  sp_err err;
  sp_solo *solo;
  check_docs(rep, t);
  if (find_device(s, t->device, &solo, &err)) {
    notice(rep, "create, plan, forward, backward: not exercised", err.msg);
    return;
  }
  if (rig_open(&r, &s->host, t, file, s->how->set, solo, &err)) {
    if (err.status == SP_E_INTERNAL) bad(rep, "create() with default parameters", err.msg);
    else notice(rep, "create() with default parameters: not exercised", err.msg);
    return;
  }
  ok(rep, "create() with default parameters");
  if (t->flags & SP_STAGE_SHARDS) {
    notice(rep, "plan, forward: not exercised", "a graph adds it itself, and gives it its own gradients");
    rig_close(&r);
    return;
  }
  if (rig_plan(&r, &err)) {
    if (err.status == SP_E_INTERNAL) bad(rep, "plan() with small inputs", err.msg);
    else notice(rep, "plan() with small inputs: not exercised", err.msg);
    rig_close(&r);
    return;
  }
  ok(rep, "plan() with small inputs");
  check(rep, same_plan(&r, &err), "plan() gives the same a second time", err.msg);
  if (rig_alloc(&r, &err)) {
    notice(rep, "forward(): not exercised", err.msg);
  } else if (check_forward(rep, &r)) {
    if (!(t->flags & SP_STAGE_OPTIMIZER)) check_short_batch(rep, &r);
    if (t->backward) check_backward(rep, &r);
    int before = rep->failed; /* what is wrong is told once */
    for (size_t i = 0; i < SP_ARRAY(offers) && r.plan.n_weights && rep->failed == before; i++)
      if (t->backward || offers[i].compare == compare_constants) check_pair(rep, &offers[i], t, file, s, solo);
    if (r.plan.slice) check_slices(rep, t, file, s, solo);
  }
  rig_close(&r);
  ok(rep, "destroy()");
}

int sp_conformance(const sp_plugin_file *file, const sp_conform *how, sp_conform_fn line, void *arg) {
  services s = {.how = how, .host = *how->host, .precision = {sizeof s.precision, how->precision}};
  int failed = 0;
  s.host.extension = extension;
  s.host.extension_arg = &s;
  for (size_t i = 0; i < file->n_stages; i++) {
    report rep = {line, arg, file->stages[i].name, 0};
    check_stage(&rep, &file->stages[i], file, &s);
    failed += rep.failed;
  }
  close_device(&s);
  return failed;
}
