/* SPDX-License-Identifier: MIT
 * optim.c - what optimizers share on every device: ports, and a list of tensors as one row of chunks. */
#include "optim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../spec.h"

const sp_port optim_inputs[] = {{.name = "gradients",
                                 .dtypes = SP_DT(SP_F32),
                                 .ndim = -1,
                                 .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
                                 .doc = "one per weight"},
                                {.name = "statistics",
                                 .ndim = -1,
                                 .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
                                 .doc = "running statistics of what is trained; put back where an update is skipped"},
                                {.name = NULL}};
const sp_port optim_outputs[] = {
    {.name = "weights",
     .dtypes = SP_DT(SP_F32),
     .ndim = -1,
     .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
     .doc = "updated in place, in the order of the gradients"},
    {.name = "grad_norm",
     .dtypes = SP_DT(SP_F32),
     .ndim = 0,
     .flags = SP_PORT_LIST | SP_PORT_METRIC | SP_PORT_NOGRAD,
     .doc = "L2 norm of all gradients before clipping; only with clip_norm or report_norm"},
    {.name = "skipped",
     .dtypes = SP_DT(SP_I64),
     .ndim = 0,
     .flags = SP_PORT_LIST | SP_PORT_METRIC | SP_PORT_NOGRAD,
     .doc = "1 where this update was skipped, else 0; only with nonfinite = \"skip\""},
    {.name = "status",
     .dtypes = SP_DT(SP_I64),
     .ndim = 1,
     .flags = SP_PORT_STATUS | SP_PORT_NOGRAD,
     .doc = "gradients that are not finite, where they stop the run"},
    {.name = NULL}};
const char *const optim_nonfinite_choices[] = {"stop", "skip", NULL};

#define NAME_BYTES 48

int optim_check_betas(sp_ctx *ctx, const sp_floats *betas) {
  for (uint32_t i = 0; i < betas->n; i++)
    if (betas->v[i] >= 1)
      return ctx->host->fail(ctx, SP_E_RANGE, "betas[%u] is %g, but must be below 1", i + 1, betas->v[i]);
  return SP_OK;
}

void optim_free(optim *o) {
  free(o->count);
  free(o->first);
  free(o->state);
  free(o->names);
  free(o->group);
  free(o->group_of);
  free(o->apart);
  free(o->place);
  memset(o, 0, sizeof *o);
}

static sp_weight counter(const char *name) {
  return (sp_weight){.name = name, .spec = {.dtype = SP_I64}, .flags = SP_WEIGHT_STATE};
}

static void name_state(optim *o, const sp_spec *spec, const sp_spec *statistics, const char *const *kind_names) {
  uint32_t at = 0;
  for (uint32_t k = 0; k < o->lists; k++)
    for (uint32_t i = 0; i < o->n; i++) {
      if (k < o->kinds && o->place[k * o->n + i] == OPTIM_NOWHERE) continue;
      sp_weight *w = &o->state[at];
      char *name = o->names + (size_t)at++ * NAME_BYTES;
      snprintf(name, NAME_BYTES, "%s.%u", k < o->kinds ? kind_names[k] : "ema", i);
      w->name = name;
      w->spec = spec[i];
      w->flags = SP_WEIGHT_STATE;
      w->of = i + 1;
    }
  if (o->lists) o->state[at++] = counter("step");
  if (o->lists && o->later) {
    o->state[at] = counter("phase_steps");
    o->state[at].spec.ndim = 1;
    o->state[at++].spec.shape[0] = o->later;
  }
  if (o->p->nonfinite == OPTIM_SKIP) o->state[at++] = counter("skipped");
  for (uint32_t i = 0; i < o->n_kept; i++, at++) {
    char *name = o->names + (size_t)at * NAME_BYTES;
    snprintf(name, NAME_BYTES, "statistics.%u", i);
    o->state[at] = (sp_weight){.name = name, .spec = statistics[i], .flags = SP_WEIGHT_STATE};
  }
}

static void list_outputs(const optim_params *p, sp_plan *plan) {
  plan->out[OPTIM_OUT_NORM].n = optim_norm(p) ? 1 : 0;
  plan->out[OPTIM_OUT_SKIPPED].n = p->nonfinite == OPTIM_SKIP ? 1 : 0;
  plan->out[OPTIM_OUT_STATUS].n = 1;
  if (plan->out[OPTIM_OUT_NORM].n) plan->out[OPTIM_OUT_NORM].spec[0] = (sp_spec){.dtype = SP_F32};
  if (plan->out[OPTIM_OUT_SKIPPED].n) plan->out[OPTIM_OUT_SKIPPED].spec[0] = (sp_spec){.dtype = SP_I64};
  plan->out[OPTIM_OUT_STATUS].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {4}};
}

/* Groups of the plan, or one for all. */
static int copy_groups(optim *o, const sp_plan *plan) {
  o->n_groups = plan->n_groups ? plan->n_groups : 1;
  o->group = calloc(o->n_groups, sizeof *o->group);
  o->group_of = calloc(o->n + 1, sizeof *o->group_of);
  o->apart = calloc(o->n + 1, sizeof *o->apart);
  if (!o->group || !o->group_of || !o->apart) return 0;
  o->group[0] = (sp_group){.lr = 1, .decay = 1};
  o->later = plan->n_phases ? plan->n_phases - 1 : 0;
  if (plan->n_groups) memcpy(o->group, plan->groups, o->n_groups * sizeof *o->group);
  for (uint32_t i = 0; plan->n_groups && i < o->n; i++) o->group_of[i] = (uint8_t)plan->group_of[i];
  for (uint32_t k = 0; k < o->n_groups; k++)
    if (o->group[k].phase) o->begun |= 1u << (o->group[k].phase - 1);
  return 1;
}

int optim_one_lr(const optim *o) {
  for (uint32_t k = 0; k < o->n_groups; k++)
    if (o->group[k].lr != 1) return 0;
  return 1;
}

/* Moments one kind after another. */
static int place_moments(optim *o, uint32_t (*kinds_of)(const void *arg, uint32_t tensor), const void *arg) {
  o->place = calloc((size_t)o->kinds * o->n + 1, sizeof *o->place);
  for (uint32_t k = 0; o->place && k < o->kinds; k++)
    for (uint32_t i = 0; i < o->n; i++)
      o->place[k * o->n + i] = kinds_of && kinds_of(arg, i) <= k ? OPTIM_NOWHERE : o->n_moments++;
  return o->place != NULL;
}

int optim_plan(sp_ctx *ctx, optim *o, sp_plan *plan, const optim_params *p, const char *const *kind_names,
               uint32_t kinds, int64_t chunk) {
  return optim_plan_of(ctx, o, plan, p, kind_names, kinds, chunk, NULL, NULL);
}

int optim_plan_of(sp_ctx *ctx, optim *o, sp_plan *plan, const optim_params *p, const char *const *kind_names,
                  uint32_t kinds, int64_t chunk, uint32_t (*kinds_of)(const void *arg, uint32_t tensor),
                  const void *arg) {
  const sp_speclist *in = &plan->in[OPTIM_IN_GRADIENTS];
  sp_speclist *out = &plan->out[OPTIM_OUT_WEIGHTS];
  optim_free(o);
  if (in->n > out->cap)
    return ctx->host->fail(ctx, SP_E_RANGE, "%u gradients, but only %u can be listed", in->n, out->cap);
  if (p->ema >= 1) return ctx->host->fail(ctx, SP_E_RANGE, "ema is %g, but must be below 1", p->ema);
  o->p = p;
  o->chunk = chunk;
  o->n = in->n;
  o->kinds = kinds;
  o->lists = kinds + (p->ema > 0);
  o->n_kept = p->nonfinite == OPTIM_SKIP ? plan->in[OPTIM_IN_STATISTICS].n : 0;
  if (!place_moments(o, kinds_of, arg))
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for a list of %u tensors", in->n);
  o->n_state = (o->lists ? optim_counts(o) + 1 + (plan->n_phases > 1) : 0) + (p->nonfinite == OPTIM_SKIP) + o->n_kept;
  o->count = calloc(in->n + 1, sizeof *o->count);
  o->first = calloc(in->n + 1, sizeof *o->first);
  o->state = calloc(o->n_state + 1, sizeof *o->state);
  o->names = calloc(o->n_state + 1, NAME_BYTES);
  if (!copy_groups(o, plan) || !o->count || !o->first || !o->state || !o->names)
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for a list of %u tensors", in->n);
  for (uint32_t i = 0; i < in->n; i++) {
    out->spec[i] = in->spec[i];
    o->count[i] = spec_elements(&in->spec[i]);
    o->first[i + 1] = o->first[i] + (o->count[i] + chunk - 1) / chunk;
  }
  out->n = in->n;
  list_outputs(p, plan);
  name_state(o, in->spec, plan->in[OPTIM_IN_STATISTICS].spec, kind_names);
  plan->grouped = 1;
  plan->slice = (uint32_t)chunk; /* sums are made per chunk */
  plan->separate = !optim_norm(p) && p->nonfinite == OPTIM_STOP;
  plan->weights = o->state;
  plan->n_weights = o->n_state;
  if (optim_averages(o) && o->n) plan->averages = o->n_moments + 1;
  return SP_OK;
}
