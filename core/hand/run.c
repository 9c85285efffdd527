/* SPDX-License-Identifier: MIT
 * run.c - what a stage is given, and its forward, backward and update. */
#include "hand/impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is given ----------------------------------------------------------------------------------------------- */

static int check_tensor(const sp_hstage *st, const char *side, const sp_port *p, const sp_htensor *t, sp_err *err) {
  if (!sp_htensor_is_open(t))
    return sp_fail(err, SP_E_STATE, "stage '%s', %s '%s': tensor '%s' is closed", st->n->name, side, p->name,
                   t->b->name);
  if (t->h != st->h)
    return sp_fail(err, SP_E_INVALID, "stage '%s', %s '%s': '%s' belongs to another device", st->n->name, side, p->name,
                   t->b->name);
  if (t->b->at != SP_AT_DEVICE)
    return sp_fail(err, SP_E_INVALID,
                   "stage '%s', %s '%s': '%s' lies in the host's memory; copy it to a tensor of the device first",
                   st->n->name, side, p->name, t->b->name);
  return SP_OK;
}

static int check_ports(const sp_hstage *st, const char *side, const sp_port *ports, unsigned n_ports,
                       const sp_hports *given, sp_err *err) {
  for (uint32_t i = 0; i < given->n; i++) {
    if (i >= n_ports && given->port[i].n)
      return sp_fail(err, SP_E_INVALID, "stage '%s' has %u %ss, got tensors for more", st->n->name, n_ports, side);
    for (uint32_t k = 0; k < given->port[i].n; k++)
      if (check_tensor(st, side, &ports[i], given->port[i].t[k], err)) return err->status;
  }
  return SP_OK;
}

/* Of a planned spec the first extent, where it is the samples', may be smaller. */
static int check_spec(const sp_hstage *st, const char *side, const sp_port *p, const sp_spec *planned, bool batched,
                      int64_t n, const sp_htensor *t, sp_err *err) {
  sp_spec want = *planned;
  char a[128], b[128];
  if (batched) want.shape[0] = n;
  if (sp_spec_equal(&want, &t->spec)) return SP_OK;
  return sp_fail(err, SP_E_SHAPE, "stage '%s', %s '%s': '%s' is %s, wanted %s", st->n->name, side, p->name, t->b->name,
                 sp_spec_str(&t->spec, a, sizeof a), sp_spec_str(&want, b, sizeof b));
}

static bool in_batched(const sp_hstage *st, const sp_spec *s) { return s->ndim > 0 && s->shape[0] == st->batch; }

static bool out_batched(const sp_hstage *st, unsigned port, const sp_spec *s) {
  bool small = sp_node_out_port(st->n, port)->flags & (SP_PORT_METRIC | SP_PORT_STATUS | SP_PORT_TOTAL);
  return !small && !st->n->optimizer && in_batched(st, s);
}

static int take_inputs(sp_hstage *st, const sp_hports *in, int64_t *samples, sp_err *err) {
  *samples = 0;
  for (unsigned i = 0; i < st->n->n_in; i++) {
    const sp_speclist *s = &st->n->in_specs[i];
    const sp_port *p = sp_node_in_port(st->n, i);
    uint32_t n = i < in->n ? in->port[i].n : 0;
    if (n != s->n)
      return sp_fail(err, SP_E_INVALID, "stage '%s': input '%s' got %u tensors, the first run had %u", st->n->name,
                     p->name, n, s->n);
    for (uint32_t k = 0; k < n; k++) {
      const sp_htensor *t = in->port[i].t[k];
      bool batched = in_batched(st, &s->spec[k]);
      if (batched && !*samples && t->spec.ndim && t->spec.shape[0] >= 1 && t->spec.shape[0] <= st->batch)
        *samples = t->spec.shape[0];
      if (check_spec(st, "input", p, &s->spec[k], batched, *samples ? *samples : st->batch, t, err)) return err->status;
    }
  }
  if (!*samples) *samples = st->batch;
  return SP_OK;
}

static int make_output(sp_hstage *st, unsigned i, uint32_t k, const char *where, sp_err *err) {
  sp_htensor **made = &st->made[st->first_out[i] + k];
  sp_sb name = {0};
  if (*made && sp_htensor_is_open(*made)) return SP_OK;
  hand_hold(made, NULL);
  sp_sb_putf(&name, "%s.%s", st->n->name, sp_node_out_port(st->n, i)->name);
  int rc = sp_htensor_new(st->h, &st->n->out_specs[i].spec[k], SP_AT_DEVICE, sp_sb_str(&name), where, made, err);
  sp_sb_free(&name);
  return rc;
}

/* The k-th tensor of an output: what is given, or the stage's own. */
static int take_output(sp_hstage *st, unsigned i, uint32_t k, const sp_hports *out, int64_t samples, const char *where,
                       sp_err *err) {
  const sp_port *p = sp_node_out_port(st->n, i);
  const sp_spec *s = &st->n->out_specs[i].spec[k];
  sp_htensor **place = &st->out[st->first_out[i] + k], *rows;
  bool batched = out_batched(st, i, s);
  if (i < out->n && out->port[i].n) {
    sp_htensor *t = out->port[i].t[k];
    if (check_spec(st, "output", p, s, batched, samples, t, err)) return err->status;
    hand_hold(place, t);
    return SP_OK;
  }
  if (p->flags & SP_PORT_OPTIONAL) {
    hand_hold(place, NULL);
    return SP_OK;
  }
  if (make_output(st, i, k, where, err)) return err->status;
  sp_htensor *made = st->made[st->first_out[i] + k];
  if (!batched || samples == st->batch) {
    hand_hold(place, made);
    return SP_OK;
  }
  if (sp_htensor_rows(made, 0, samples, &rows, err)) return err->status;
  hand_hold(place, rows);
  sp_htensor_drop(rows);
  return SP_OK;
}

static int take_outputs(sp_hstage *st, const sp_hports *out, int64_t samples, const char *where, sp_err *err) {
  for (unsigned i = 0; i < st->n->n_out; i++) {
    uint32_t n = st->n->out_specs[i].n;
    if (i < out->n && out->port[i].n && out->port[i].n != n)
      return sp_fail(err, SP_E_INVALID, "stage '%s': output '%s' is %u tensors, got %u", st->n->name,
                     sp_node_out_port(st->n, i)->name, n, out->port[i].n);
    if (st->n->optimizer && i == 0) continue; /* the weights */
    for (uint32_t k = 0; k < n; k++)
      if (take_output(st, i, k, out, samples, where, err)) return err->status;
  }
  return SP_OK;
}

static bool overlap(const sp_htensor *a, const sp_htensor *b) {
  size_t na = (size_t)sp_spec_bytes(&a->spec), nb = (size_t)sp_spec_bytes(&b->spec);
  return a->b == b->b && a->offset < b->offset + nb && b->offset < a->offset + na;
}

static int check_apart(const sp_hstage *st, sp_err *err) {
  for (uint32_t i = 0; i < st->n_out; i++) {
    bool twice = false;
    if (!st->out[i]) continue;
    for (uint32_t k = 0; k < st->n_in && !twice; k++) twice = st->in[k] && overlap(st->out[i], st->in[k]);
    for (uint32_t k = 0; k < i && !twice; k++) twice = st->out[k] && overlap(st->out[i], st->out[k]);
    if (twice)
      return sp_fail(err, SP_E_INVALID, "stage '%s' would write '%s', which it also reads or writes elsewhere",
                     st->n->name, st->out[i]->b->name);
  }
  return SP_OK;
}

static int keep_how(sp_hstage *st, const sp_hrun *how, sp_err *err) {
  uint64_t *ids = NULL;
  if (how->ids && how->n_ids != (size_t)st->samples)
    return sp_fail(err, SP_E_INVALID, "stage '%s': %zu ids for %" PRId64 " samples", st->n->name, how->n_ids,
                   st->samples);
  if (how->ids) {
    if (!(ids = sp_calloc(how->n_ids + 1, sizeof *ids))) return sp_nomem(err, how->n_ids * sizeof *ids, "sample ids");
    memcpy(ids, how->ids, how->n_ids * sizeof *ids);
  }
  free(st->ids);
  st->how = *how;
  st->how.ids = st->ids = ids;
  return SP_OK;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static hand_arg of_tensor(const sp_htensor *t, int mode) {
  return t ? (hand_arg){t->b, t->offset, t->spec, mode} : (hand_arg){0};
}

static hand_arg of_block(hand_block *b, const sp_spec *spec, int mode) {
  if (b && !spec)
    return (hand_arg){.b = b, .spec = {.dtype = SP_U8, .ndim = 1, .shape = {(int64_t)b->bytes}}, .mode = mode};
  return (hand_arg){.b = b, .spec = spec ? *spec : (sp_spec){0}, .mode = mode};
}

static bool float_port(const sp_port *p, const sp_spec *s) {
  return s->dtype == SP_F32 && !(p->flags & (SP_PORT_NOGRAD | SP_PORT_METRIC | SP_PORT_STATUS | SP_PORT_TOTAL));
}

/* Inputs, outputs and weights of a forward, or as a backward reads them. */
static hand_arg *new_args(const sp_hstage *st, bool backward, bool training) {
  hand_layout l = hand_layout_of(st);
  const sp_node *n = st->n;
  hand_arg *a = sp_calloc(l.n, sizeof *a);
  if (!a) return NULL;
  for (uint32_t i = 0; i < st->n_in; i++) a[l.in + i] = of_tensor(st->in[i], SP_RACE_READ);
  for (uint32_t i = 0; i < st->n_out; i++)
    a[l.out + i] = of_tensor(st->out[i], backward ? SP_RACE_READ : SP_RACE_WRITE);
  for (unsigned i = 0; i < n->n_in; i++) /* what is not there has its spec all the same */
    for (uint32_t k = 0; k < n->in_specs[i].n; k++) a[l.din + st->first_in[i] + k].spec = n->in_specs[i].spec[k];
  for (unsigned i = 0; i < n->n_out; i++)
    for (uint32_t k = 0; k < n->out_specs[i].n; k++) {
      hand_arg *out = &a[l.out + st->first_out[i] + k], *dout = &a[l.dout + st->first_out[i] + k];
      if (!out->b) out->spec = n->out_specs[i].spec[k];
      if (out_batched(st, i, &out->spec)) out->spec.shape[0] = st->samples;
      dout->spec = out->spec;
    }
  for (size_t i = 0; i < n->params.n_weights; i++) {
    bool changes = !backward && (n->optimizer || (training && n->params.weights[i].flags & SP_WEIGHT_STATE));
    a[l.w + i] = of_block(st->w[i], &n->params.weights[i].spec, changes ? SP_RACE_WRITE : SP_RACE_READ);
    a[l.dw + i].spec = n->params.weights[i].spec;
  }
  a[l.saved] = of_block(st->saved, NULL, backward ? SP_RACE_READ : SP_RACE_WRITE);
  a[l.state] = of_block(st->state, NULL, SP_RACE_WRITE);
  return a;
}

/* Where the gradients of the inputs go. */
static int want_inputs(sp_hstage *st, hand_arg *a, const char *where, sp_err *err) {
  hand_layout l = hand_layout_of(st);
  for (unsigned i = 0; i < st->n->n_in; i++)
    for (uint32_t k = st->first_in[i]; k < st->first_in[i + 1]; k++) {
      sp_htensor *grad;
      if (!float_port(sp_node_in_port(st->n, i), &st->in[k]->spec)) continue;
      if (sp_htensor_grad(st->in[k], where, &grad, err)) return err->status;
      a[l.din + k] = of_tensor(grad, SP_RACE_WRITE);
    }
  return SP_OK;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static int ready(sp_hstage *st, sp_hstream *s, sp_err *err) {
  if (hand_stage_open(st, err) || hand_stream_ready(s, err)) return err->status;
  return s->h == st->h ? SP_OK
                       : sp_fail(err, SP_E_INVALID, "stage '%s' and stream '%s' belong to two devices, opened apart",
                                 st->n->name, s->name);
}

/* With the tensors that are held. */
static int run(sp_hstage *st, sp_hstream *s, const sp_hrun *how, const char *where, sp_err *err) {
  bool training = st->trains && !how->evaluate;
  hand_arg *a = new_args(st, false, training);
  if (!a) return sp_nomem(err, sizeof *a, "a call");
  int rc = st->n->loss && training ? want_inputs(st, a, where, err) : SP_OK;
  if (!rc) rc = hand_call_prepare(st, s, a, st->samples, training, err);
  if (!rc) rc = hand_call_submit(st, s, a, how, false, where, err);
  free(a);
  return rc;
}

static int not_an_optimizer(const sp_hstage *st, sp_err *err) {
  if (!st->n->optimizer) return SP_OK;
  return sp_fail(err, SP_E_INVALID, "stage '%s' is an optimizer: stream:update(%s, stages) runs it", st->n->name,
                 st->n->name);
}

int sp_hstage_plan(sp_hstage *st, const sp_hports *in, sp_err *err) {
  int64_t ignored;
  if (hand_stage_open(st, err) || not_an_optimizer(st, err) ||
      check_ports(st, "input", st->n->inst->type->inputs, st->n->n_in, in, err))
    return err->status;
  return st->planned ? take_inputs(st, in, &ignored, err) : hand_stage_plan_for(st, in, err);
}

/* A backward may follow this run, and none has followed the one before: it is lost. */
static int note_run(sp_hstage *st, const char *where, sp_err *err) {
  if (!st->trains || st->how.evaluate || st->n->loss || st->n->frozen || !st->n->inst->type->backward) return SP_OK;
  char *at = sp_strdup(where);
  if (!at) return sp_nomem(err, 64, "a place");
  if (!st->lost) st->lost = st->at;
  else free(st->at);
  st->at = at;
  return SP_OK;
}

int sp_hstage_run(sp_hstage *st, sp_hstream *s, const sp_hports *in, const sp_hports *out, const sp_hrun *how,
                  const char *where, sp_err *err) {
  int64_t samples;
  if (ready(st, s, err)) return err->status;
  if (not_an_optimizer(st, err)) return err->status;
  const sp_stage_type *type = st->n->inst->type;
  if (check_ports(st, "input", type->inputs, st->n->n_in, in, err) ||
      check_ports(st, "output", type->outputs, st->n->n_out, out, err))
    return err->status;
  if (!st->planned && hand_stage_plan_for(st, in, err)) return err->status;
  if (take_inputs(st, in, &samples, err)) return err->status;
  st->ran = false;
  for (unsigned i = 0; i < st->n->n_in; i++)
    for (uint32_t k = 0; k < st->n->in_specs[i].n; k++) hand_hold(&st->in[st->first_in[i] + k], in->port[i].t[k]);
  st->samples = samples;
  if (take_outputs(st, out, samples, where, err) || check_apart(st, err) || keep_how(st, how, err)) return err->status;
  int rc = run(st, s, how, where, err);
  st->ran = !rc;
  return rc ? rc : note_run(st, where, err);
}

uint32_t sp_hstage_n_out(sp_hstage *st, uint32_t i) {
  return st->planned && i < st->n->n_out ? st->first_out[i + 1] - st->first_out[i] : 0;
}

sp_htensor *sp_hstage_out(sp_hstage *st, uint32_t i, uint32_t k) {
  return k < sp_hstage_n_out(st, i) ? st->out[st->first_out[i] + k] : NULL;
}

void hand_forget_runs(sp_hstage *st) {
  free(st->at);
  free(st->lost);
  st->at = st->lost = NULL;
}

static int check_backward(const sp_hstage *st, const sp_hrun *how, sp_err *err) {
  const char *name = st->n->name;
  if (st->n->loss)
    return sp_fail(err, SP_E_INVALID, "stage '%s' is a loss: its run has put the gradient beside its input", name);
  if (st->n->frozen) return sp_fail(err, SP_E_STATE, "stage '%s' is frozen", name);
  if (!st->n->inst->type->backward) return sp_fail(err, SP_E_UNSUPPORTED, "stage '%s' passes no gradient", name);
  if (!st->ran) return sp_fail(err, SP_E_STATE, "backward of stage '%s', which has not run", name);
  if (st->how.evaluate) return sp_fail(err, SP_E_STATE, "backward of stage '%s', whose run was an evaluation", name);
  if (st->lost && !how->last)
    return sp_fail(
        err, SP_E_STATE,
        "backward of stage '%s', which has run twice, at %s and at %s: it keeps the values of the last run "
        "alone. Call backward before the second run, with accumulate = true the second time; where nothing is "
        "to be learned from the first, run it with evaluate = true, or take { last = true } here",
        name, st->lost, st->at);
  for (uint32_t i = 0; i < st->n_in; i++)
    if (st->in[i] && !sp_htensor_is_open(st->in[i]))
      return sp_fail(err, SP_E_STATE, "backward of stage '%s': its input '%s' is closed", name, st->in[i]->b->name);
  for (uint32_t i = 0; i < st->n_out; i++)
    if (st->out[i] && !sp_htensor_is_open(st->out[i]))
      return sp_fail(err, SP_E_STATE, "backward of stage '%s': its output '%s' is closed", name, st->out[i]->b->name);
  return SP_OK;
}

static int take_gradients(const sp_hstage *st, hand_arg *a, sp_err *err) {
  hand_layout l = hand_layout_of(st);
  bool any = false;
  for (uint32_t i = 0; i < st->n_out; i++) {
    const sp_htensor *grad = st->out[i] ? st->out[i]->grad : NULL;
    if (!grad || !sp_htensor_is_open(grad)) continue;
    a[l.dout + i] = of_tensor(grad, SP_RACE_READ);
    any = true;
  }
  return any ? SP_OK
             : sp_fail(err, SP_E_STATE,
                       "backward of stage '%s': none of its outputs has a gradient; run a loss on it, or "
                       "the backward of what reads it with inputs = true",
                       st->n->name);
}

int sp_hstage_backward(sp_hstage *st, sp_hstream *s, const sp_hrun *how, const char *where, sp_err *err) {
  if (ready(st, s, err) || check_backward(st, how, err)) return err->status;
  hand_layout l = hand_layout_of(st);
  hand_arg *a = new_args(st, true, true);
  if (!a) return sp_nomem(err, sizeof *a, "a call");
  int rc = take_gradients(st, a, err);
  if (!rc && how->inputs) rc = want_inputs(st, a, where, err);
  for (size_t i = 0; i < st->n->params.n_weights; i++)
    if (st->dw[i]) a[l.dw + i] = of_block(st->dw[i], &st->n->params.weights[i].spec, SP_RACE_WRITE);
  sp_hrun again = st->how;
  again.accumulate = how->accumulate;
  if (!rc) rc = hand_call_submit(st, s, a, &again, true, where, err);
  free(a);
  if (!rc) hand_forget_runs(st);
  return rc;
}

/* ---- updates ----------------------------------------------------------------------------------------------------- */

/* The i-th weight with a gradient of those stages; false: there are no more. */
static bool next_weight(sp_hstage *const *stages, size_t n, size_t *stage, size_t *w) {
  for (; *stage < n; ++*stage, *w = 0)
    for (; *w < stages[*stage]->n->params.n_weights; ++*w)
      if (stages[*stage]->dw[*w]) return true;
  return false;
}

static int plan_update(sp_hstage *opt, sp_hstage *const *stages, size_t n, sp_err *err) {
  size_t at = 0, w = 0;
  uint32_t total = 0, k = 0;
  for (; next_weight(stages, n, &at, &w); w++) total++;
  if (!total) return sp_fail(err, SP_E_INVALID, "update by '%s': the stages have no weights to train", opt->n->name);
  if (total > SP_MAX_LIST)
    return sp_fail(err, SP_E_RANGE, "update by '%s': %u weights are more than the %d that one optimizer takes",
                   opt->n->name, total, SP_MAX_LIST);
  for (unsigned i = 0; i < opt->n->n_in; i++)
    if (hand_room_for_specs(&opt->n->in_specs[i], i ? 0 : total, err)) return err->status;
  for (at = w = 0; next_weight(stages, n, &at, &w); w++)
    opt->n->in_specs[0].spec[k++] = stages[at]->n->params.weights[w].spec;
  opt->updates = sp_calloc(n + 1, sizeof *opt->updates);
  if (!opt->updates) return sp_nomem(err, n * sizeof *opt->updates, "an optimizer");
  memcpy(opt->updates, stages, n * sizeof *stages);
  opt->n_updates = n;
  int rc = hand_stage_plan(opt, err);
  if (!rc && opt->n->params.update.restores) {
    hand_stage_unplan(opt);
    rc = sp_fail(err, SP_E_UNSUPPORTED,
                 "optimizer '%s' puts statistics back where it skips an update, which only a graph can do",
                 opt->n->name);
  }
  if (rc) {
    free(opt->updates);
    opt->updates = NULL;
  }
  return rc;
}

static int check_update(sp_hstage *opt, sp_hstage *const *stages, size_t n, sp_err *err) {
  if (!opt->n->optimizer)
    return sp_fail(err, SP_E_INVALID, "stage '%s' is no optimizer; sgd and adamw are", opt->n->name);
  for (size_t i = 0; i < n; i++) {
    if (stages[i]->h != opt->h)
      return sp_fail(err, SP_E_INVALID, "update by '%s': a stage of another device", opt->n->name);
    if (!stages[i]->planned)
      return sp_fail(err, SP_E_STATE, "update of stage '%s', which has not run", stages[i]->n->name);
    for (size_t k = 0; k < i; k++)
      if (stages[k] == stages[i])
        return sp_fail(err, SP_E_INVALID, "update by '%s': stage '%s' is given twice", opt->n->name,
                       stages[i]->n->name);
  }
  if (!opt->planned) return plan_update(opt, stages, n, err);
  bool same = n == opt->n_updates && !memcmp(stages, opt->updates, n * sizeof *stages);
  return same ? SP_OK
              : sp_fail(err, SP_E_INVALID,
                        "update by '%s': it has updated other stages before; make an optimizer for each set",
                        opt->n->name);
}

int sp_hstage_update(sp_hstage *opt, sp_hstream *s, sp_hstage *const *stages, size_t n, const char *where,
                     sp_err *err) {
  const sp_hports none = {0};
  const sp_hrun how = {0};
  size_t at = 0, w = 0, k = 0;
  if (ready(opt, s, err) || check_update(opt, stages, n, err)) return err->status;
  opt->samples = 1;
  if (take_outputs(opt, &none, 1, where, err)) return err->status;
  hand_layout l = hand_layout_of(opt);
  hand_arg *a = new_args(opt, false, true);
  if (!a) return sp_nomem(err, sizeof *a, "a call");
  for (; next_weight(stages, n, &at, &w); w++, k++) {
    const sp_spec *spec = &stages[at]->n->params.weights[w].spec;
    a[l.in + opt->first_in[0] + k] = of_block(stages[at]->dw[w], spec, SP_RACE_READ);
    a[l.out + opt->first_out[0] + k] = of_block(stages[at]->w[w], spec, SP_RACE_WRITE);
  }
  int rc = hand_call_prepare(opt, s, a, 1, true, err);
  if (!rc) rc = hand_call_submit(opt, s, a, &how, false, where, err);
  free(a);
  return rc;
}
