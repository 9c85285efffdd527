/* SPDX-License-Identifier: MIT
 * stage.c - a stage outside of any graph: planned for the tensors that it first meets, with weights of its own. */
#include "hand/impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ------------------------------------------------------------------------------------------------------ */

static int check_type(sp_hand *h, const char *stage, sp_err *err) {
  const sp_stage_type *type;
  if (sp_graph_stage_type(h->g, stage, false, &type, err)) return err->status;
  if (strcmp(type->device, h->g->stages))
    return sp_fail(err, SP_E_NOTFOUND, "stage '%s' exists for the %s only, not for device '%s'", stage, type->device,
                   h->g->device);
  if (type->flags & SP_STAGE_SOURCE)
    return sp_fail(err, SP_E_UNSUPPORTED, "stage '%s' makes samples for a graph: by hand fill tensors yourself", stage);
  return SP_OK;
}

int sp_hstage_new(sp_hand *h, const char *stage, const char *name, const sp_value *params, bool frozen,
                  const sp_value *weights, sp_hstage **out, sp_err *err) {
  *out = NULL;
  if (hand_check_open(h, err)) return err->status;
  if (h->n_stages >= SP_HAND_MAX_STAGES)
    return sp_fail(err, SP_E_RANGE, "%d stages were made, and no more are possible: use them again",
                   SP_HAND_MAX_STAGES);
  if (check_type(h, stage, err)) return err->status;
  sp_hstage *st = sp_calloc(1, sizeof *st);
  if (!st) return sp_nomem(err, sizeof *st, stage);
  st->h = h;
  sp_node_opts opts = {.name = name, .frozen = frozen};
  if ((weights && sp_params_fill(&st->from, sp_load_params, sizeof(sp_load), weights, err)) ||
      sp_graph_add(h->g, stage, params, &opts, &st->n, err)) {
    sp_params_free(&st->from);
    free(st);
    return err->status;
  }
  st->next = h->stages;
  h->stages = st;
  h->n_stages++;
  h->refs++;
  *out = st;
  return SP_OK;
}

void sp_hstage_drop(sp_hstage *st) { hand_release(st->h); }
sp_node *sp_hstage_node(sp_hstage *st) { return st->h->open ? st->n : NULL; }

int hand_stage_open(const sp_hstage *st, sp_err *err) {
  return st->h->open ? SP_OK : sp_fail(err, SP_E_STATE, "the device of this stage is closed");
}

/* ---- tensors that it holds --------------------------------------------------------------------------------------- */

void hand_hold(sp_htensor **place, sp_htensor *t) {
  sp_htensor *old = *place;
  if (t) t->refs++;
  *place = t;
  if (old) sp_htensor_drop(old);
}

void hand_stage_let_go(sp_hstage *st) {
  for (uint32_t i = 0; st->in && i < st->n_in; i++) hand_hold(&st->in[i], NULL);
  for (uint32_t i = 0; st->out && i < st->n_out; i++) hand_hold(&st->out[i], NULL);
  for (uint32_t i = 0; st->made && i < st->n_out; i++) hand_hold(&st->made[i], NULL);
  st->ran = false;
  hand_forget_runs(st);
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static void drop_blocks(hand_block **b, size_t n) {
  for (size_t i = 0; b && i < n; i++) hand_block_drop(b[i]);
  free(b);
}

/* As before the first run, which failed half way. */
void hand_stage_unplan(sp_hstage *st) {
  hand_stage_let_go(st);
  drop_blocks(st->w, st->n->params.n_weights);
  drop_blocks(st->dw, st->n->params.n_weights);
  hand_block_drop(st->saved);
  hand_block_drop(st->state);
  free(st->in);
  free(st->out);
  free(st->made);
  free(st->first_in);
  free(st->first_out);
  st->w = st->dw = NULL;
  st->saved = st->state = NULL;
  st->in = st->out = st->made = NULL;
  st->first_in = st->first_out = NULL;
  st->n_in = st->n_out = 0;
  st->planned = false;
  hand_collect(st->h);
}

static bool has_weight(const sp_node *n, uint32_t flag) {
  for (size_t i = 0; i < n->params.n_weights; i++)
    if (n->params.weights[i].flags & flag) return true;
  return false;
}

static int borrow(sp_hstage *st, sp_tensor *t, const char *weight, const char *what, hand_block **out, sp_err *err) {
  sp_sb name = {0};
  if (!t->data) return SP_OK;
  sp_sb_putf(&name, "%s%s.%s", what, st->n->name, weight);
  int rc = hand_block_borrow(st->h, t->data, (size_t)sp_spec_bytes(&t->spec), sp_sb_str(&name), out, err);
  sp_sb_free(&name);
  return rc;
}

static int make_weights(sp_hstage *st, sp_err *err) {
  sp_node *n = st->n;
  int rc = sp_weights_storage(&n->params, err);
  if (!rc && st->from.data) rc = sp_graph_load(n->g, n, st->from.data, err);
  bool all = true;
  for (size_t i = 0; !rc && i < n->params.n_weights; i++) all = all && n->params.loaded[i];
  if (!rc && n->params.n_weights && (!all || st->h->by_torch))
    rc = sp_weights_init(&n->params, st->h->by_torch ? &st->h->torch : NULL, err);
  st->w = sp_calloc(n->params.n_weights + 1, sizeof *st->w);
  st->dw = sp_calloc(n->params.n_weights + 1, sizeof *st->dw);
  if (!rc && (!st->w || !st->dw)) rc = sp_nomem(err, n->params.n_weights * sizeof *st->w, "weights");
  for (size_t i = 0; !rc && i < n->params.n_weights; i++) {
    rc = borrow(st, &n->params.w[i], n->params.weights[i].name, "", &st->w[i], err);
    if (!rc) rc = borrow(st, &n->params.dw[i], n->params.weights[i].name, "the gradient of ", &st->dw[i], err);
  }
  return rc;
}

static int make_state(sp_hstage *st, sp_err *err) {
  sp_sb name = {0};
  int rc = SP_OK;
  sp_sb_putf(&name, "the saved values of %s", st->n->name);
  if (st->n->saved) rc = hand_block_new(st->h, st->n->saved, SP_AT_DEVICE, sp_sb_str(&name), "", &st->saved, err);
  sp_sb_free(&name);
  sp_sb_putf(&name, "the state of stage '%s'", st->n->name);
  if (!rc && !(st->n->inst->type->flags & SP_STAGE_REENTRANT))
    rc = hand_block_borrow(st->h, st, 1, sp_sb_str(&name), &st->state, err);
  sp_sb_free(&name);
  return rc;
}

static int count_tensors(const sp_speclist *specs, unsigned n_ports, uint32_t **first, uint32_t *n, sp_err *err) {
  *n = 0;
  *first = sp_calloc((size_t)n_ports + 1, sizeof **first);
  if (!*first) return sp_nomem(err, n_ports * sizeof **first, "ports");
  for (unsigned i = 0; i < n_ports; i++) {
    (*first)[i] = *n;
    *n += specs[i].n;
  }
  (*first)[n_ports] = *n;
  return SP_OK;
}

static int make_ports(sp_hstage *st, sp_err *err) {
  int rc = count_tensors(st->n->in_specs, st->n->n_in, &st->first_in, &st->n_in, err);
  if (!rc) rc = count_tensors(st->n->out_specs, st->n->n_out, &st->first_out, &st->n_out, err);
  if (rc) return rc;
  st->in = sp_calloc(st->n_in + 1, sizeof *st->in);
  st->out = sp_calloc(st->n_out + 1, sizeof *st->out);
  st->made = sp_calloc(st->n_out + 1, sizeof *st->made);
  return st->in && st->out && st->made ? SP_OK : sp_nomem(err, 64, "ports");
}

int hand_room_for_specs(sp_speclist *s, uint32_t n, sp_err *err) {
  free(s->spec);
  *s = (sp_speclist){.n = n, .cap = n, .spec = sp_calloc((size_t)n + 1, sizeof *s->spec)};
  return s->spec ? SP_OK : sp_nomem(err, n * sizeof *s->spec, "ports");
}

/* The inputs' specs are in the node. */
int hand_stage_plan(sp_hstage *st, sp_err *err) {
  sp_node *n = st->n;
  const sp_stage_type *type = n->inst->type;
  st->batch = n->opts.batch = 0;
  for (unsigned i = 0; i < n->n_in; i++)
    for (uint32_t k = 0; k < n->in_specs[i].n && !st->batch; k++)
      if (n->in_specs[i].spec[k].ndim) st->batch = n->opts.batch = n->in_specs[i].spec[k].shape[0];
  if (n->optimizer) st->batch = n->opts.batch = 1;
  st->trains = !n->frozen && (type->backward || n->loss);
  int rc = sp_node_replan(n, st->trains, err);
  if (!st->batch) st->batch = 1;
  n->params.trained = !rc && st->trains && !n->loss && has_weight(n, SP_WEIGHT_TRAINED);
  if (!rc) rc = make_weights(st, err);
  if (!rc) rc = make_state(st, err);
  if (!rc) rc = make_ports(st, err);
  st->planned = !rc;
  if (rc) hand_stage_unplan(st);
  return rc;
}

int hand_stage_plan_for(sp_hstage *st, const sp_hports *in, sp_err *err) {
  for (unsigned i = 0; i < st->n->n_in; i++) {
    sp_speclist *s = &st->n->in_specs[i];
    uint32_t n = i < in->n ? in->port[i].n : 0;
    if (hand_room_for_specs(s, n, err)) return err->status;
    for (uint32_t k = 0; k < n; k++) s->spec[k] = in->port[i].t[k]->spec;
  }
  return hand_stage_plan(st, err);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

int sp_hstage_weight(sp_hstage *st, const char *name, sp_spec *spec, void *dst, size_t bytes, sp_err *err) {
  const hand_use *use;
  if (hand_stage_open(st, err)) return err->status;
  if (!st->planned) return sp_fail(err, SP_E_STATE, "stage '%s' has no weights before its first run", st->n->name);
  for (size_t i = 0; dst && i < st->n->params.n_weights; i++)
    if (!strcmp(st->n->params.weights[i].name, name) && st->w[i] && hand_block_busy(st->w[i], &use))
      return sp_fail(err, SP_E_STATE, "weight '%s.%s' is in use by stream '%s': sync it first", st->n->name, name,
                     hand_thread_name(st->h, use->thread));
  return sp_weights_read(&st->n->params, name, spec, dst, bytes, err);
}
