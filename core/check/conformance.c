/* SPDX-License-Identifier: MIT
 * conformance.c - does a stage keep the rules of spcore/plugin.h? */
#include "check/conformance.h"

#include <stdio.h>
#include <string.h>

#include <spcore/ext/precision.h>

#include "check/constants.h"
#include "check/factors.h"
#include "check/grouped.h"
#include "check/parts.h"
#include "check/passes.h"
#include "check/report.h"
#include "check/rig.h"
#include "check/slices.h"
#include "check/updates.h"

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
  report_check(rep, !where, "stage, ports and parameters each have one sentence of doc", words);
}

/* ---- two instances ----------------------------------------------------------------------------------------------- */

/* Of one stage, whose inputs and weights are the same; `cut` has been offered parts, shards or both. */
typedef struct pair {
  rig whole, cut;
  bool exact; /* products are of float32 */
} pair;

static void compare_parts(report *rep, pair *p) {
  sp_err err = {0};
  if (rig_plan(&p->whole, &err) || rig_plan(&p->cut, &err)) {
    report_bad(rep, "plan() when backward() may be in parts", err.msg);
    return;
  }
  if (p->cut.plan.n_parts < 2) return; /* it knows no parts, or has no weights for two */
  if (rig_alloc(&p->whole, &err) || rig_alloc(&p->cut, &err))
    report_bad(rep, "forward() when backward() is in parts", err.msg);
  else parts_check(rep, &p->whole, &p->cut);
}

static void of_pair(void *arg, bool good, const char *what, const char *words) { report_check(arg, good, what, words); }

static void compare_factors(report *rep, pair *p) {
  sp_err err = {0};
  if (rig_plan(&p->cut, &err)) {
    report_bad(rep, "plan() when a step has several shards", err.msg);
    return;
  }
  if (!p->cut.plan.n_factors || (p->cut.max_parts > 1 && p->cut.plan.n_parts < 2)) return; /* none, or none again */
  if (rig_plan_as(&p->whole, &p->cut, &err)) {
    report_bad(rep, "plan() when a step has one shard", err.msg);
    return;
  }
  if (rig_alloc(&p->whole, &err) || rig_alloc(&p->cut, &err)) {
    report_notice(rep, "factors: not exercised", err.msg);
    return;
  }
  factors_check(&p->whole, &p->cut, p->exact, of_pair, rep);
}

/* Both are frozen. */
static void compare_constants(report *rep, pair *p) {
  sp_err err = {0};
  p->whole.frozen = p->cut.frozen = true;
  if (rig_plan(&p->cut, &err) || rig_plan_as(&p->whole, &p->cut, &err)) {
    report_bad(rep, "plan() of a frozen stage", err.msg);
    return;
  }
  if (!p->cut.plan.const_bytes) return;
  if (rig_alloc(&p->whole, &err) || rig_alloc(&p->cut, &err)) report_notice(rep, "constants: not exercised", err.msg);
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
  pair p = {.exact = s->how->precision == SP_PRECISION_FP32};
  sp_err err;
  if (rig_open(&p.whole, &s->host, t, file, s->how->set, solo, &err)) {
    report_bad(rep, "create() a second time", err.msg);
    return;
  }
  if (rig_open(&p.cut, &s->host, t, file, s->how->set, solo, &err)) {
    report_bad(rep, "create() a third time", err.msg);
  } else {
    p.cut.max_parts = o->max_parts;
    p.cut.shards = o->shards;
    o->compare(rep, &p);
    rig_close(&p.cut);
  }
  rig_close(&p.whole);
}

/* What a stage refuses by its own words is not exercised; what it answers against the rules is a failure. */
static void refused(report *rep, const char *what, const sp_err *err) {
  char not_exercised[96];
  snprintf(not_exercised, sizeof not_exercised, "%s: not exercised", what);
  if (err->status == SP_E_INTERNAL) report_bad(rep, what, err->msg);
  else report_notice(rep, not_exercised, err->msg);
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
  if (rc) refused(rep, "slices", &err);
  while (opened) rig_close(&all[--opened]);
}

/* An optimizer beside itself: whose update may be made in several calls, or that honours groups. */
static void check_beside(report *rep, const sp_stage_type *t, const sp_plugin_file *file, const services *s,
                         sp_solo *solo, int (*check)(report *, rig *, rig *, sp_err *), const char *what) {
  rig whole, other;
  sp_err err;
  int rc = rig_open(&whole, &s->host, t, file, s->how->set, solo, &err);
  if (!rc && !(rc = rig_open(&other, &s->host, t, file, s->how->set, solo, &err))) {
    rc = rig_plan(&whole, &err);
    if (!rc) rc = check(rep, &whole, &other, &err);
    rig_close(&other);
  }
  if (rc) refused(rep, what, &err);
  rig_close(&whole);
}

static const offer offers[] = {{PARTS_MOST, 0, compare_parts},
                               {1, FACTORS_SHARDS, compare_factors},
                               {PARTS_MOST, FACTORS_SHARDS, compare_factors},
                               {1, 0, compare_constants}};

static void check_pairs(report *rep, const rig *r, const sp_plugin_file *file, const services *s, sp_solo *solo) {
  const sp_stage_type *t = r->inst->type;
  int before = rep->failed; /* what is wrong is told once */
  for (size_t i = 0; i < SP_ARRAY(offers) && r->plan.n_weights && rep->failed == before; i++)
    if (t->backward || offers[i].compare == compare_constants) check_pair(rep, &offers[i], t, file, s, solo);
}

/* False: it has no plan. */
static bool check_instance(report *rep, rig *r, const sp_plugin_file *file, const services *s, sp_solo *solo) {
  const sp_stage_type *t = r->inst->type;
  sp_err err;
  if (rig_plan(r, &err)) {
    refused(rep, "plan() with small inputs", &err);
    return false;
  }
  report_ok(rep, "plan() with small inputs");
  report_check(rep, same_plan(r, &err), "plan() gives the same a second time", err.msg);
  if (rig_alloc(r, &err)) {
    report_notice(rep, "forward(): not exercised", err.msg);
  } else if (passes_check_forward(rep, r)) {
    if (!(t->flags & SP_STAGE_OPTIMIZER)) passes_check_short_batch(rep, r);
    if (t->backward) passes_check_backward(rep, r);
    check_pairs(rep, r, file, s, solo);
    if (r->plan.slice) check_slices(rep, t, file, s, solo);
    if (r->plan.separate) check_beside(rep, t, file, s, solo, updates_check, "forward() in several calls");
    if (r->plan.grouped) check_beside(rep, t, file, s, solo, grouped_check, "groups of weights");
  }
  return true;
}

static bool is_set(const sp_stage_type *t, const sp_value *set) {
  for (const sp_param *p = t->params; set && p && p->name; p++)
    if (sp_value_get(set, p->name)) return true;
  return false;
}

static void check_stage(report *rep, const sp_stage_type *t, const sp_plugin_file *file, services *s) {
  rig r;
  sp_err err;
  sp_solo *solo;
  const char *create =
      is_set(t, s->how->set) ? "create() with the parameters of --set" : "create() with default parameters";
  check_docs(rep, t);
  if (find_device(s, t->device, &solo, &err)) {
    report_notice(rep, "create, plan, forward, backward: not exercised", err.msg);
    return;
  }
  if (rig_open(&r, &s->host, t, file, s->how->set, solo, &err)) {
    sp_err other; /* what is refused as well without --set, for want of a parameter, is not due to it */
    if (!is_set(t, s->how->set) || rig_open(&r, &s->host, t, file, NULL, solo, &other)) {
      refused(rep, create, &err);
    } else {
      report_bad(rep, create, err.msg);
      rig_close(&r);
    }
    return;
  }
  report_ok(rep, create);
  if (t->flags & SP_STAGE_SHARDS)
    report_notice(rep, "plan, forward: not exercised", "a graph adds it itself, and gives it its own gradients");
  bool planned = !(t->flags & SP_STAGE_SHARDS) && check_instance(rep, &r, file, s, solo);
  rig_close(&r);
  if (planned) report_ok(rep, "destroy()");
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
