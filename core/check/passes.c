/* SPDX-License-Identifier: MIT
 * passes.c - forward() and backward() of one instance: what they write, what they leave as it is, and whether they give
 * the same bits again. */
#include "check/passes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* An optimizer's outputs are its weights, updated in place; other outputs hold garbage. */
static void dirty_outputs(rig *r, int byte) {
  if (r->inst->type->flags & SP_STAGE_OPTIMIZER) rig_fill(&r->out, 3);
  else rig_poison(&r->out, byte);
}

static int other(int poison) { return poison == POISON_A ? POISON_B : POISON_A; }

int passes_forward(rig *r, int64_t n, int poison, sp_err *err) {
  rig_restore(&r->weights); /* statistics as they were */
  dirty_outputs(r, poison);
  rig_poison(&r->din, poison);
  return rig_run(r, &(rig_call){.n = n, .poison = other(poison), .want_din = true}, err);
}

/* How the data of two runs over differently poisoned memory differs: 0 not; 1 where both are still poison;
 * 2 otherwise. */
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

/* As where the host calls it a second time in a step. */
static void check_repeats(report *rep, rig *r) {
  sp_err err;
  char words[96] = "";
  if (!r->plan.repeats || !r->plan.training) return;
  rig_restore(&r->weights);
  for (uint32_t i = 0; i < r->weights.n; i++)
    if (r->plan.weights[i].flags & SP_WEIGHT_STATE) memset(r->weights.t[i].data, POISON_A, r->weights.t[i].bytes);
  dirty_outputs(r, POISON_B);
  rig_poison(&r->din, POISON_B);
  int rc = rig_run(r, &(rig_call){.n = RIG_BATCH, .poison = POISON_A, .want_din = true}, &err);
  if (!report_check(rep, !rc, "forward() succeeds with other statistics", err.msg)) return;
  int diff = difference(&r->out, words, sizeof words);
  report_check(rep, !diff, "forward() gives the same bits whatever statistics it finds, as `repeats` says", words);
  rig_restore(&r->weights);
}

bool passes_check_forward(report *rep, rig *r) {
  sp_err err;
  char words[96] = "";
  rig_keep(&r->in);
  rig_keep(&r->weights);
  int rc = rig_prepare(r, RIG_BATCH, &err);
  if (r->inst->type->prepare && !report_check(rep, !rc, "prepare() succeeds", err.msg)) return false;
  if (r->inst->type->prepare)
    report_check(rep, rig_same(&r->weights), "prepare() leaves weights and statistics as they are",
                 "a weight was changed");
  rc = passes_forward(r, RIG_BATCH, POISON_A, &err);
  if (!report_check(rep, !rc, "forward() succeeds and stays within its buffers", err.msg)) return false;
  report_check(rep, rig_same(&r->in), "forward() leaves its inputs as they are", "an input was changed");
  report_check(rep, trained_weights_same(r), "forward() leaves the trained weights as they are",
               "a weight was changed");
  rig_keep(&r->out);
  rig_keep(&r->din);
  rc = passes_forward(r, RIG_BATCH, POISON_B, &err);
  if (!report_check(rep, !rc, "forward() succeeds a second time", err.msg)) return false;
  int diff = difference(&r->out, words, sizeof words);
  report_check(rep, diff != 1, "forward() writes all of its output", words);
  report_check(rep, diff != 2, "forward() gives the same bits again, whatever lies in scratch, saved and outputs",
               words);
  check_repeats(rep, r);
  return true;
}

static bool outermost(const sp_spec *s) {
  return s->order == SP_ROW_MAJOR || (((uint32_t)s->order >> 4 * (uint32_t)(s->ndim - 1)) & 15) == 0;
}

void passes_check_short_batch(report *rep, rig *r) {
  const int64_t n = RIG_BATCH / 2;
  sp_err err;
  bool same = true, within = true, any = false;
  rig_keep(&r->weights);
  if (rig_prepare(r, n, &err) || passes_forward(r, n, POISON_A, &err)) {
    report_bad(rep, "forward() takes a batch with fewer samples than planned", err.msg);
    return;
  }
  report_ok(rep, "forward() takes a batch with fewer samples than planned");
  for (uint32_t i = 0; i < r->out.n; i++) {
    const rig_tensor *t = &r->out.t[i];
    if (!t->batch || !outermost(&t->spec)) continue;
    size_t part = t->bytes / RIG_BATCH * (size_t)n;
    any = true;
    same = same && memcmp(t->data, t->copy, part) == 0;
    for (size_t b = part; b < t->bytes; b++) within = within && (unsigned char)t->data[b] == POISON_A;
  }
  if (!any) return;
  report_check(rep, within, "forward() writes nothing behind the samples of a short batch",
               "bytes of later samples were changed");
  if (same) report_ok(rep, "samples come out the same in a short batch");
  else
    report_notice(rep, "samples come out the same in a short batch",
                  "they do not: the result depends on the whole batch");
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

int passes_backward(rig *r, int poison, bool acc, uint32_t part, sp_err *err) {
  return rig_run(r,
                 &(rig_call){.n = RIG_BATCH,
                             .kind = SP_CALL_BACKWARD,
                             .want_din = true,
                             .want_dw = true,
                             .acc = acc,
                             .poison = other(poison),
                             .part = part},
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

void passes_fill(rig_list *list, uint64_t seed) {
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
    passes_fill(&r->din, 10);
    passes_fill(&r->dweights, 100);
    int rc = passes_backward(r, POISON_A, true, 0, &err);
    if (report_check(rep, !rc, "backward() accumulates when asked", err.msg)) {
      report_check(rep, adds_up(&r->din, 10, din), "din_acc adds to what is there", "the sum is another");
      report_check(rep, adds_up(&r->dweights, 100, dw), "dw_acc adds to what is there", "the sum is another");
    }
  }
  free(din);
  free(dw);
}

static bool is_float(sp_dtype t) { return t == SP_F32 || t == SP_F64 || t == SP_F16 || t == SP_BF16; }

static bool input_has_gradient(const rig *r, uint32_t i) {
  const rig_tensor *t = &r->din.t[i];
  return !(r->inst->type->inputs[t->port].flags & SP_PORT_NOGRAD) && is_float(t->spec.dtype);
}

static bool weight_has_gradient(const rig *r, uint32_t i) { return r->plan.weights[i].flags & SP_WEIGHT_TRAINED; }

typedef struct side {
  bool (*has_gradient)(const rig *r, uint32_t i);
  const char *written, *again;
} side;

static const side of_inputs = {input_has_gradient, "backward() writes all input gradients",
                               "input gradients are the same bits again"};
static const side of_weights = {weight_has_gradient, "backward() writes all weight gradients",
                                "weight gradients are the same bits again"};

/* What was not asked for holds the poison of either run; a wholly unwritten tensor was not wanted. */
static void check_gradients(report *rep, const rig *r, const rig_list *list, const side *s) {
  char words[96] = "";
  bool all = true, bits = true;
  for (uint32_t i = 0; i < list->n; i++) {
    int diff = s->has_gradient(r, i) ? difference(&(rig_list){&list->t[i], 1}, words, sizeof words) : 0;
    all = all && diff != 1;
    bits = bits && diff != 2;
  }
  report_check(rep, all, s->written, words);
  report_check(rep, bits, s->again, words);
}

void passes_check_backward(report *rep, rig *r) {
  sp_err err;
  rig_keep(&r->weights);
  if (passes_forward(r, RIG_BATCH, POISON_A, &err)) {
    report_bad(rep, "forward() before backward() succeeds", err.msg);
    return;
  }
  rig_keep(&r->weights); /* the statistics of that forward() */
  rig_keep(&r->out);
  rig_keep(&r->dout);
  rig_poison(&r->din, POISON_A);
  rig_poison(&r->dweights, POISON_A);
  int rc = passes_backward(r, POISON_A, false, 0, &err);
  if (!report_check(rep, !rc, "backward() succeeds and stays within its buffers", err.msg)) return;
  bool same = rig_same(&r->in) && rig_same(&r->out) && rig_same(&r->dout) && rig_same(&r->weights);
  report_check(rep, same, "backward() leaves inputs, outputs, their gradients and weights as they are",
               "one of them was changed");
  rig_keep(&r->din);
  rig_keep(&r->dweights);
  rig_poison(&r->din, POISON_B);
  rig_poison(&r->dweights, POISON_B);
  rc = passes_backward(r, POISON_B, false, 0, &err);
  if (!report_check(rep, !rc, "backward() succeeds a second time", err.msg)) return;
  check_gradients(rep, r, &r->din, &of_inputs);
  check_gradients(rep, r, &r->dweights, &of_weights);
  rc = rig_run(r, &(rig_call){.n = RIG_BATCH, .kind = SP_CALL_BACKWARD, .poison = POISON_B}, &err);
  report_check(rep, !rc, "backward() bears that no gradient is wanted", err.msg);
  check_accumulation(rep, r);
}
