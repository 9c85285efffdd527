/* SPDX-License-Identifier: MIT
 * stage_plan.c - what plan() is given, and whether what it says can be: ports and specs, weights, parts,
 * factors, bytes. */
#include "host/stage_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WEIGHTS_MAX 4096              /* of one stage */
#define BYTES_MAX (UINT64_C(1) << 46) /* scratch or saved bytes beyond this are a slip, not a need */

uint32_t sp_ports_count(const sp_port *ports) {
  uint32_t n = 0;
  while (ports && ports[n].name) n++;
  return n;
}

/* "float32 or float64 with 4 dimensions" */
static void port_wants(const sp_port *p, sp_sb *sb) {
  bool first = true;
  for (int dt = 1; dt < 32; dt++) {
    if (!(p->dtypes & SP_DT(dt))) continue;
    sp_sb_putf(sb, "%s%s", first ? "" : " or ", sp_dtype_name(dt));
    first = false;
  }
  if (first) sp_sb_put(sb, "any type");
  if (p->ndim >= 0) sp_sb_putf(sb, " with %d dimension%s", p->ndim, p->ndim == 1 ? "" : "s");
}

/* Extents are `least` or more. */
static int check_spec(const sp_port *p, const char *side, uint32_t item, const sp_spec *s, int64_t least, sp_err *err) {
  char at[96], text[160];
  if (p->flags & SP_PORT_LIST) snprintf(at, sizeof at, "%s '%.60s[%u]'", side, p->name, item + 1);
  else snprintf(at, sizeof at, "%s '%.60s'", side, p->name);
  if (s->ndim < 0 || s->ndim > SP_MAX_DIMS)
    return sp_fail(err, SP_E_SHAPE, "%s: %d dimensions, at most %d are possible", at, s->ndim, SP_MAX_DIMS);
  if (!sp_dtype_size(s->dtype)) return sp_fail(err, SP_E_DTYPE, "%s: there is no data type %d", at, s->dtype);
  sp_spec_str(s, text, sizeof text);
  if ((p->dtypes && !(p->dtypes & SP_DT(s->dtype))) || (p->ndim >= 0 && p->ndim != s->ndim)) {
    sp_sb wants = {0};
    port_wants(p, &wants);
    sp_fail(err, p->ndim >= 0 && p->ndim != s->ndim ? SP_E_SHAPE : SP_E_DTYPE, "%s is %s, got %s", at,
            sp_sb_str(&wants), text);
    sp_sb_free(&wants);
    return err->status;
  }
  for (int d = 0; d < s->ndim; d++)
    if (s->shape[d] < least)
      return sp_fail(err, SP_E_SHAPE, "%s: %s: extent %d is %lld", at, text, d, (long long)s->shape[d]);
  if (!sp_spec_order_ok(s)) return sp_fail(err, SP_E_SHAPE, "%s: %s: the order is no permutation", at, text);
  if (sp_spec_bytes(s) < 0) return sp_fail(err, SP_E_SHAPE, "%s: %s: too large to count its bytes", at, text);
  return SP_OK;
}

static int check_inputs(const sp_inst *inst, const sp_plan *plan, sp_err *err) {
  const sp_stage_type *t = inst->type;
  uint32_t n_in = sp_ports_count(t->inputs), n_out = sp_ports_count(t->outputs);
  if (plan->n_in != n_in || plan->n_out != n_out)
    return sp_fail(err, SP_E_INTERNAL, "plan() with %u inputs and %u outputs, the stage has %u and %u", plan->n_in,
                   plan->n_out, n_in, n_out);
  if (plan->batch < 0) return sp_fail(err, SP_E_RANGE, "plan() for a batch of %lld", (long long)plan->batch);
  for (uint32_t i = 0; i < n_in; i++) {
    const sp_port *p = &t->inputs[i];
    uint32_t n = plan->in[i].n;
    if (n == 0 && !(p->flags & (SP_PORT_OPTIONAL | SP_PORT_LIST)))
      return sp_fail(err, SP_E_INVALID, "input '%s' is not wired", p->name);
    if (n > 1 && !(p->flags & SP_PORT_LIST))
      return sp_fail(err, SP_E_INVALID, "input '%s' takes one tensor, got %u", p->name, n);
    if (n > SP_MAX_LIST)
      return sp_fail(err, SP_E_INVALID, "input '%s' takes at most %d tensors, got %u", p->name, SP_MAX_LIST, n);
    for (uint32_t k = 0; k < n; k++)
      if (check_spec(p, "input", k, &plan->in[i].spec[k], !plan->slices, err)) return err->status;
  }
  return SP_OK;
}

static int check_outputs(const sp_inst *inst, sp_plan *plan, sp_err *err) {
  for (uint32_t i = 0; i < plan->n_out; i++) {
    const sp_port *p = &inst->type->outputs[i];
    sp_speclist *out = &plan->out[i];
    if (!(p->flags & SP_PORT_LIST) && out->n != 1)
      return sp_fail(err, SP_E_INTERNAL, "output '%s' is one tensor, plan() gave %u", p->name, out->n);
    if (out->n > out->cap)
      return sp_fail(err, SP_E_INTERNAL, "output '%s': plan() gave %u tensors, there is room for %u", p->name, out->n,
                     out->cap);
    for (uint32_t k = 0; k < out->n; k++) {
      sp_spec *s = &out->spec[k];
      if (check_spec(p, "output", k, s, !plan->slices, err)) return err->status;
      for (int d = s->ndim; d < SP_MAX_DIMS; d++) s->shape[d] = 0;
      if ((p->flags & SP_PORT_STATUS) && s->shape[0] != 4)
        return sp_fail(err, SP_E_SHAPE, "output '%s': a STATUS port is int64[4]", p->name);
    }
  }
  return SP_OK;
}

static int check_weight(const sp_plan *plan, uint32_t i, sp_err *err) {
  const sp_weight *w = &plan->weights[i];
  uint32_t kind = w->flags & (SP_WEIGHT_TRAINED | SP_WEIGHT_STATE);
  if (!w->name || !*w->name) return sp_fail(err, SP_E_INTERNAL, "weight %u has no name", i + 1);
  for (uint32_t k = 0; k < i; k++)
    if (strcmp(plan->weights[k].name, w->name) == 0)
      return sp_fail(err, SP_E_INTERNAL, "weight '%s' is there twice", w->name);
  const sp_port any = {.name = w->name, .ndim = -1};
  if (check_spec(&any, "weight", 0, &w->spec, !plan->slices, err)) return err->status;
  if (w->flags & ~(kind | SP_WEIGHT_FACTORS) || kind == (SP_WEIGHT_TRAINED | SP_WEIGHT_STATE))
    return sp_fail(err, SP_E_INTERNAL, "weight '%s': flags 0x%x are neither TRAINED nor STATE nor 0", w->name,
                   w->flags);
  if (w->flags & SP_WEIGHT_FACTORS && (kind != SP_WEIGHT_TRAINED || !plan->n_factors || w->spec.dtype != SP_F32))
    return sp_fail(err, SP_E_INTERNAL, "weight '%s' has FACTORS, but %s", w->name,
                   !plan->n_factors ? "plan() gave none" : "is not trained, or not float32");
  if (w->init != SP_INIT_CONST && w->init != SP_INIT_UNIFORM)
    return sp_fail(err, SP_E_INTERNAL, "weight '%s': there is no initialisation %d", w->name, w->init);
  if (w->init == SP_INIT_UNIFORM && (!(w->init_value > 0) || w->spec.dtype != SP_F32))
    return sp_fail(err, SP_E_INTERNAL, "weight '%s': UNIFORM needs float32 and a fan-in above 0", w->name);
  if (w->reserved) return sp_fail(err, SP_E_INTERNAL, "weight '%s': the reserved word is not 0", w->name);
  if (w->part && (w->part >= plan->n_parts || !(w->flags & SP_WEIGHT_TRAINED)))
    return sp_fail(err, SP_E_INTERNAL, "weight '%s' is in part %u of backward(), of %u%s", w->name, w->part,
                   plan->n_parts, w->flags & SP_WEIGHT_TRAINED ? "" : ", but has no gradient");
  return SP_OK;
}

/* What plan() may say of a kind of stage only. */
static int check_kind(const sp_inst *inst, const sp_plan *plan, sp_err *err) {
  uint32_t flags = inst->type->flags;
  if (plan->length && (!(flags & SP_STAGE_SOURCE) || flags & SP_STAGE_REQUESTS))
    return sp_fail(err, SP_E_INTERNAL, "plan() gave a length, but the type is %s",
                   flags & SP_STAGE_REQUESTS ? "one of REQUESTS" : "no SOURCE");
  if (plan->request_max && !(flags & SP_STAGE_REQUESTS))
    return sp_fail(err, SP_E_INTERNAL, "plan() gave request_max, but the type is none of REQUESTS");
  if (plan->inplace > 1 || plan->restores > 1 || plan->stepless > 1 || plan->separate > 1 || plan->grouped > 1 ||
      plan->repeats > 1)
    return sp_fail(
        err, SP_E_INTERNAL,
        "plan() gave inplace %u, restores %u, stepless %u, separate %u, grouped %u and repeats %u, not 0 or 1",
        plan->inplace, plan->restores, plan->stepless, plan->separate, plan->grouped, plan->repeats);
  if (plan->separate && (!(flags & SP_STAGE_OPTIMIZER) || plan->restores))
    return sp_fail(err, SP_E_INTERNAL, "plan() set separate, but %s",
                   plan->restores ? "also restores, which looks at all gradients" : "the type is no OPTIMIZER");
  if (plan->grouped && !(flags & SP_STAGE_OPTIMIZER))
    return sp_fail(err, SP_E_INTERNAL, "plan() set grouped, but the type is no OPTIMIZER");
  if (plan->stepless && flags & (SP_STAGE_SOURCE | SP_STAGE_OPTIMIZER))
    return sp_fail(err, SP_E_INTERNAL, "plan() set stepless, but a SOURCE needs ids, an OPTIMIZER the step");
  if (plan->inplace && (~flags & (SP_STAGE_OPTIMIZER | SP_STAGE_INPLACE_SGD)))
    return sp_fail(err, SP_E_INTERNAL, "plan() set inplace, but the type is no OPTIMIZER with INPLACE_SGD");
  if (plan->restores && (!(flags & SP_STAGE_OPTIMIZER) || plan->n_in < 2))
    return sp_fail(err, SP_E_INTERNAL, "plan() set restores, but the type is no OPTIMIZER with an input 1");
  return SP_OK;
}

static int check_draws(const sp_inst *inst, const sp_plan *plan, sp_err *err) {
  double sum = 0;
  if (!plan->draw) return SP_OK;
  if (!(inst->type->flags & SP_STAGE_SOURCE))
    return sp_fail(err, SP_E_INTERNAL, "plan() gave draws, but the type is no SOURCE");
  for (uint64_t i = 0; i < plan->length; i++) {
    if (!(plan->draw[i] >= 0 && plan->draw[i] < INFINITY))
      return sp_fail(err, SP_E_INTERNAL, "plan() draws sample %" PRIu64 " %g times as often as others", i,
                     (double)plan->draw[i]);
    sum += (double)plan->draw[i];
  }
  return sum > 0 ? SP_OK : sp_fail(err, SP_E_INTERNAL, "plan() gave draws, and all are 0");
}

/* Each part completes something. */
static int check_parts(const sp_inst *inst, sp_plan *plan, sp_err *err) {
  if (!plan->n_parts) plan->n_parts = 1;
  if (plan->n_parts > plan->max_parts || (plan->n_parts > 1 && (!plan->training || !inst->type->backward)))
    return sp_fail(err, SP_E_INTERNAL, "plan() cut backward() into %u parts where %u %s possible", plan->n_parts,
                   plan->max_parts, plan->max_parts == 1 ? "is" : "are");
  for (uint32_t part = 0; part < plan->n_parts && plan->n_parts > 1; part++) {
    bool any = false;
    for (uint32_t i = 0; i < plan->n_weights && !any; i++)
      any = plan->weights[i].part == part && plan->weights[i].flags & SP_WEIGHT_TRAINED;
    if (!any) return sp_fail(err, SP_E_INTERNAL, "no weight is in part %u of backward(), of %u", part, plan->n_parts);
  }
  return SP_OK;
}

static int check_factors(const sp_inst *inst, const sp_plan *plan, sp_err *err) {
  if (!plan->n_factors) return SP_OK;
  if (plan->n_factors > SP_MAX_FACTORS)
    return sp_fail(err, SP_E_INTERNAL, "plan() gave %u factors, but %d are the most", plan->n_factors, SP_MAX_FACTORS);
  if (!plan->factors || !inst->type->apply || plan->shards < 2 || !plan->training)
    return sp_fail(err, SP_E_INTERNAL, "plan() gave %u factors%s", plan->n_factors,
                   !plan->factors       ? " at NULL"
                   : !inst->type->apply ? ", but the type has no apply()"
                                        : ", where there may be none");
  for (uint32_t i = 0; i < plan->n_factors; i++) {
    const sp_factor *f = &plan->factors[i];
    const sp_port any = {.name = "rows", .ndim = 2, .flags = SP_PORT_LIST};
    sp_spec all = f->spec;
    if (check_spec(&any, "factor", i, &f->spec, 1, err)) return err->status;
    if (__builtin_mul_overflow(all.shape[0], (int64_t)plan->shards, &all.shape[0]) || sp_spec_bytes(&all) < 0 ||
        (f->spec.dtype != SP_F32 && f->spec.dtype != SP_BF16) || f->spec.order || f->forward > 1 ||
        f->part >= plan->n_parts || f->early > (f->forward ? 0 : f->part) || f->reserved)
      return sp_fail(err, SP_E_INTERNAL,
                     "factor %u is not row-major float32 or bfloat16, or has a part or a flag that is none", i + 1);
  }
  return SP_OK;
}

/* What an optimizer says of slices of its gradients. */
static int check_slices(const sp_inst *inst, const sp_plan *plan, sp_err *err) {
  bool optimizer = inst->type->flags & SP_STAGE_OPTIMIZER;
  if (plan->slice > SP_MAX_SLICE || (plan->slice && !optimizer) || (plan->slices && !plan->slice))
    return sp_fail(err, SP_E_INTERNAL, "plan() gave slices of %u elements%s", plan->slice,
                   optimizer ? "" : ", but the type is no OPTIMIZER");
  for (uint32_t i = 0; i < plan->n_weights; i++) {
    const sp_weight *w = &plan->weights[i];
    if (w->of && (!optimizer || w->of > plan->in->n || !sp_spec_equal(&w->spec, &plan->in->spec[w->of - 1])))
      return sp_fail(err, SP_E_INTERNAL, "weight '%s' is of gradient %u, but has not its spec", w->name, w->of);
  }
  return SP_OK;
}

/* One for each gradient, behind each other. */
static int check_averages(const sp_inst *inst, const sp_plan *plan, sp_err *err) {
  const sp_speclist *g = plan->in;
  if (!plan->averages) return SP_OK;
  if (!(inst->type->flags & SP_STAGE_OPTIMIZER))
    return sp_fail(err, SP_E_INTERNAL, "plan() gave averages, but the type is no OPTIMIZER");
  if (plan->averages > plan->n_weights || g->n > plan->n_weights - (plan->averages - 1))
    return sp_fail(err, SP_E_INTERNAL, "plan() gave averages of %u gradients from weight %u on, but has %u weights",
                   g->n, plan->averages, plan->n_weights);
  for (uint32_t i = 0; i < g->n; i++)
    if (!sp_spec_equal(&plan->weights[plan->averages - 1 + i].spec, &g->spec[i]))
      return sp_fail(err, SP_E_INTERNAL, "weight '%s' has not the spec of what it averages",
                     plan->weights[plan->averages - 1 + i].name);
  return SP_OK;
}

static int check_attrs(const sp_plan *plan, sp_err *err) {
  if (plan->n_attrs > WEIGHTS_MAX || (plan->n_attrs && !plan->attrs))
    return sp_fail(err, SP_E_INTERNAL, "plan() gave %u attributes%s", plan->n_attrs, plan->attrs ? "" : " at NULL");
  for (uint32_t i = 0; i < plan->n_attrs; i++)
    if (!plan->attrs[i].name || !*plan->attrs[i].name)
      return sp_fail(err, SP_E_INTERNAL, "attribute %u has no name", i + 1);
  return SP_OK;
}

static int check_bytes(const sp_inst *inst, const sp_plan *plan, sp_err *err) {
  if (plan->scratch_bytes > BYTES_MAX || plan->saved_bytes > BYTES_MAX || plan->const_bytes > BYTES_MAX)
    return sp_fail(err, SP_E_INTERNAL, "plan() asked for %zu scratch, %zu saved and %zu constant bytes",
                   plan->scratch_bytes, plan->saved_bytes, plan->const_bytes);
  if (plan->const_bytes && (!plan->frozen || !inst->type->prepare))
    return sp_fail(err, SP_E_INTERNAL, "plan() asked for %zu constant bytes although %s", plan->const_bytes,
                   plan->frozen ? "there is no prepare() to fill them" : "weights may be trained");
  if (plan->saved_bytes && !plan->training)
    return sp_fail(err, SP_E_INTERNAL, "plan() asked for %zu saved bytes although no backward() follows",
                   plan->saved_bytes);
  return SP_OK;
}

static int check_weights(const sp_plan *plan, sp_err *err) {
  if (plan->n_weights > WEIGHTS_MAX || (plan->n_weights && !plan->weights))
    return sp_fail(err, SP_E_INTERNAL, "plan() gave %u weights%s", plan->n_weights, plan->weights ? "" : " at NULL");
  for (uint32_t i = 0; i < plan->n_weights; i++)
    if (check_weight(plan, i, err)) return err->status;
  return SP_OK;
}

int sp_plan_check(const sp_inst *inst, sp_plan *plan, sp_err *err) {
  int rc = check_outputs(inst, plan, err);
  if (rc || (rc = check_kind(inst, plan, err)) || (rc = check_weights(plan, err)) ||
      (rc = check_parts(inst, plan, err)) || (rc = check_factors(inst, plan, err)) ||
      (rc = check_slices(inst, plan, err)) || (rc = check_averages(inst, plan, err)) ||
      (rc = check_draws(inst, plan, err)) || (rc = check_attrs(plan, err)))
    return rc;
  return check_bytes(inst, plan, err);
}

/* What plan() is to fill in, emptied. */
static int clear_plan(const sp_inst *inst, sp_plan *plan, sp_err *err) {
  plan->size = sizeof *plan;
  plan->weights = NULL;
  plan->attrs = NULL;
  plan->n_weights = plan->n_attrs = plan->n_factors = 0;
  plan->factors = NULL;
  plan->scratch_bytes = plan->saved_bytes = plan->const_bytes = 0;
  plan->length = plan->request_max = 0;
  plan->inplace = plan->restores = plan->stepless = plan->averages = plan->n_parts = plan->slice = plan->separate = 0;
  plan->grouped = plan->repeats = 0;
  plan->draw = NULL;
  if (!plan->max_parts) plan->max_parts = 1;
  for (uint32_t i = 0; i < plan->n_out; i++) {
    bool list = inst->type->outputs[i].flags & SP_PORT_LIST;
    if (!list && plan->out[i].cap < 1)
      return sp_fail(err, SP_E_INTERNAL, "output '%s': no room for its spec", inst->type->outputs[i].name);
    plan->out[i].n = !list;
    memset(plan->out[i].spec, 0, plan->out[i].cap * sizeof *plan->out[i].spec);
  }
  return SP_OK;
}

int sp_plan_prepare(const sp_inst *inst, sp_plan *plan, sp_err *err) {
  int rc = check_inputs(inst, plan, err);
  return rc ? rc : clear_plan(inst, plan, err);
}
