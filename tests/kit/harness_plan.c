/* SPDX-License-Identifier: MIT
 * harness_plan.c - planning a stage under test: buffers for what it asks for, first weights. */
#include "harness_impl.h"

#include <stdlib.h>
#include <string.h>

#include <spcore/rng.h>

#include "params/params.h"

#define FAIL SPT_FAIL
#define MAX_WEIGHTS SPT_WEIGHTS

typedef spt_port port;

void spt_free_plan(spt *t) {
  spt_free_graphs(t);
  for (int i = 0; i < t->n_in && t->din; i++) spt_port_clear(t, &t->din[i]);
  for (int i = 0; i < t->n_out && t->out; i++) spt_port_clear(t, &t->out[i]);
  for (int i = 0; i < t->n_out && t->dout; i++) spt_port_clear(t, &t->dout[i]);
  spt_port_clear(t, &t->weight);
  spt_port_clear(t, &t->dweight);
  spt_port_clear(t, &t->rows);
  for (uint32_t i = 0; i < t->n_w; i++) free((char *)t->w[i].name);
  free(t->w);
  free(t->attrs);
  spt_buf_free(t, &t->scratch);
  spt_buf_free(t, &t->saved);
  spt_buf_free(t, &t->consts);
  spt_buf_free(t, &t->scale_mem);
  spt_buf_free(t, &t->step_mem);
  spt_buf_free(t, &t->ids_mem);
  t->w = NULL;
  t->attrs = NULL;
  t->n_w = t->n_attrs = 0;
  t->planned = t->forwarded = 0;
}

static int check_port(spt *t, const sp_port *p, const port *have, const char *side) {
  char text[160];
  if (!have->n && !(p->flags & (SP_PORT_OPTIONAL | SP_PORT_LIST)))
    return FAIL(t, SP_E_INVALID, "harness: %s '%s' has no tensor", side, p->name);
  if (have->n > 1 && !(p->flags & SP_PORT_LIST))
    return FAIL(t, SP_E_INVALID, "harness: %s '%s' takes one tensor", side, p->name);
  for (uint32_t i = 0; i < have->n; i++) {
    const sp_spec *s = &have->t[i].spec;
    if (p->dtypes && !(p->dtypes & SP_DT(s->dtype)))
      return FAIL(t, SP_E_DTYPE, "harness: %s '%s' does not take %s", side, p->name, sp_spec_str(s, text, sizeof text));
    if (p->ndim >= 0 && p->ndim != s->ndim)
      return FAIL(t, SP_E_SHAPE, "harness: %s '%s' wants %d dimensions, got %s", side, p->name, p->ndim,
                  sp_spec_str(s, text, sizeof text));
  }
  return SP_OK;
}

static bool is_float(const sp_spec *s) { return s->dtype == SP_F32 || s->dtype == SP_F64; }

static int add_outputs(spt *t, const sp_speclist *out) {
  int rc;
  for (int p = 0; p < t->n_out; p++) {
    const sp_port *desc = &t->type->outputs[p];
    if (out[p].n > out[p].cap)
      return FAIL(t, SP_E_INTERNAL, "output '%s': plan() filled %u of %u specs", desc->name, out[p].n, out[p].cap);
    for (uint32_t i = 0; i < out[p].n; i++) {
      if ((rc = spt_port_add(t, &t->out[p], &out[p].spec[i]))) return rc;
      if (!is_float(&out[p].spec[i]) || desc->flags & (SP_PORT_NOGRAD | SP_PORT_STATUS)) continue;
      if ((rc = spt_port_add(t, &t->dout[p], &out[p].spec[i]))) return rc;
      memset(t->dout[p].t[t->dout[p].n - 1].data, 0, t->dout[p].mem[t->dout[p].n - 1].bytes);
    }
    if ((rc = check_port(t, desc, &t->out[p], "output"))) return rc;
  }
  return SP_OK;
}

static int add_weights(spt *t, const sp_plan *plan) {
  int rc;
  if (plan->n_weights > MAX_WEIGHTS) return FAIL(t, SP_E_RANGE, "harness: %u weights", plan->n_weights);
  t->w = sp_calloc(plan->n_weights + 1, sizeof *t->w);
  if (!t->w) return spt_oops(t, sp_nomem(&t->err, 0, "test weights"));
  for (uint32_t i = 0; i < plan->n_weights; i++) {
    t->w[i] = plan->weights[i];
    t->w[i].name = sp_strdup(plan->weights[i].name);
    t->n_w = i + 1;
    if (!t->w[i].name) return spt_oops(t, sp_nomem(&t->err, 0, "test weights"));
    if ((rc = spt_port_add(t, &t->weight, &t->w[i].spec)) || (rc = spt_port_add(t, &t->dweight, &t->w[i].spec)))
      return rc;
    if (!(t->w[i].flags & SP_WEIGHT_TRAINED)) t->dweight.hidden[i] = 1;
  }
  return SP_OK;
}

static int add_rows(spt *t, const sp_plan *plan) {
  int rc = SP_OK;
  for (uint32_t i = 0; i < plan->n_factors && !rc; i++) {
    sp_spec all = plan->factors[i].spec;
    all.shape[0] *= t->shards;
    rc = spt_port_add(t, &t->rows, &all);
  }
  return rc;
}

static int init_weights(spt *t) {
  void *data[MAX_WEIGHTS];
  sp_mt19937 mt;
  sp_mt19937_seed(&mt, t->seed);
  for (uint32_t i = 0; i < t->n_w; i++) data[i] = t->weight.t[i].data;
  return spt_oops(t, sp_init_weights(t->w, t->n_w, data, t->inst->name, t->seed, t->torch ? &mt : NULL, &t->err));
}

static int plan_ids(spt *t) {
  int rc = spt_buf_new(t, &t->ids_mem, t->batch * (int64_t)sizeof(uint64_t));
  if (rc) return rc;
  for (int64_t i = 0; i < t->batch; i++) spt_set_id(t, i, SP_ID(t->epoch, i));
  return spt_buf_new(t, &t->step_mem, sizeof t->step);
}

static int plan_with(spt *t, sp_speclist *in, sp_speclist *out, sp_spec *store) {
  int rc;
  sp_plan plan = {.size = sizeof plan,
                  .training = (uint32_t)t->training,
                  .n_in = (uint32_t)t->n_in,
                  .n_out = (uint32_t)t->n_out,
                  .batch = t->batch,
                  .frozen = t->frozen,
                  .in = in,
                  .out = out,
                  .max_parts = t->max_parts,
                  .part_bytes = t->part_bytes,
                  .shards = t->shards};
  for (int p = 0; p < t->n_in; p++) {
    if ((rc = check_port(t, &t->type->inputs[p], &t->in[p], "input"))) return rc;
    in[p] = (sp_speclist){t->in[p].n, t->in[p].n, store};
    for (uint32_t i = 0; i < t->in[p].n; i++) *store++ = t->in[p].t[i].spec;
  }
  for (int p = 0; p < t->n_out; p++, store += SP_MAX_LIST)
    out[p] = (sp_speclist){0, t->type->outputs[p].flags & SP_PORT_LIST ? SP_MAX_LIST : 1, store};
  uint32_t group_of[SP_MAX_LIST];
  for (uint32_t i = 0; t->n_groups && i < in[0].n; i++) group_of[i] = i % t->n_groups;
  for (uint32_t k = 0; k < t->n_groups; k++)
    if (t->groups[k].phase >= plan.n_phases) plan.n_phases = (uint32_t)t->groups[k].phase + 1;
  if (t->n_groups) plan.groups = t->groups, plan.n_groups = t->n_groups, plan.group_of = group_of;
  if ((rc = sp_inst_plan(t->inst, &plan, &t->err))) return spt_oops(t, rc);
  if ((rc = add_outputs(t, out)) || (rc = add_weights(t, &plan)) || (rc = add_rows(t, &plan)) || (rc = plan_ids(t)) ||
      (rc = spt_buf_new(t, &t->scratch, (int64_t)plan.scratch_bytes)) ||
      (rc = spt_buf_new(t, &t->saved, (int64_t)plan.saved_bytes)) ||
      (rc = spt_buf_new(t, &t->consts, (int64_t)plan.const_bytes)) ||
      (rc = spt_buf_new(t, &t->scale_mem, sizeof(float))))
    return rc;
  spt_set_dw_scale(t, 0);
  t->attrs = sp_calloc(plan.n_attrs + 1, sizeof *t->attrs);
  if (!t->attrs) return spt_oops(t, sp_nomem(&t->err, 0, "test attributes"));
  if (plan.n_attrs) memcpy(t->attrs, plan.attrs, plan.n_attrs * sizeof *t->attrs);
  t->n_attrs = plan.n_attrs;
  t->length = plan.length;
  t->n_parts = plan.n_parts;
  t->inplace = plan.inplace;
  t->restores = plan.restores;
  t->stepless = plan.stepless;
  t->averages = plan.averages;
  return SP_OK;
}

static int add_din(spt *t) {
  int rc;
  for (int p = 0; p < t->n_in; p++) {
    bool no = t->type->inputs[p].flags & SP_PORT_NOGRAD;
    for (uint32_t i = 0; i < t->in[p].n; i++) {
      if ((rc = spt_port_add(t, &t->din[p], &t->in[p].t[i].spec))) return rc;
      if (no || !is_float(&t->in[p].t[i].spec)) t->din[p].hidden[i] = 1;
    }
  }
  return SP_OK;
}

int spt_plan(spt *t, int training) {
  int rc;
  if (!t->type) return spt_failed(t);
  t->msg.status = SP_OK;
  spt_free_plan(t);
  t->training = training != 0;
  if (!t->batch) t->batch = t->n_in && t->in[0].n && t->in[0].t[0].spec.ndim ? t->in[0].t[0].spec.shape[0] : 1;
  t->run_n = t->batch;
  t->step.key = sp_rng_key(t->seed, t->inst->name);
  sp_speclist *in = sp_calloc((size_t)t->n_in + 1, sizeof *in), *out = sp_calloc((size_t)t->n_out + 1, sizeof *out);
  sp_spec *store = sp_calloc((size_t)(t->n_in + t->n_out + 1) * SP_MAX_LIST, sizeof *store);
  if (!in || !out || !store) rc = spt_oops(t, sp_nomem(&t->err, 0, "test specs"));
  else rc = plan_with(t, in, out, store);
  free(in);
  free(out);
  free(store);
  if (rc || (rc = add_din(t)) || (rc = init_weights(t)) || (rc = spt_prepare(t))) return rc;
  t->planned = 1;
  return SP_OK;
}
