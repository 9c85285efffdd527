/* SPDX-License-Identifier: MIT
 * loss.h - what losses have in common, on every device: outputs, parameters, and what one call is about. */
#ifndef SP_PLUGINS_LOSS_H
#define SP_PLUGINS_LOSS_H

#include "../labels/labels.h"

/* A line each for LOSS_BAD_LABEL, LOSS_NOT_FINITE and LOSS_BAD_TARGET. */
#define LOSS_STATUS_DOC                                                                                          \
  "sample %sample: label %value is outside 0..%limit\n"                                                          \
  "the loss is not finite: lower the learning rate, at the first steps look at what is read and at the weights " \
  "that were loaded, or set nonfinite = \"ignore\" here and \"skip\" in the optimizer\n"                         \
  "sample %sample: target %float is outside 0..1"

/* Of the STATUS output. */
enum { LOSS_BAD_LABEL = SP_E_DATA, LOSS_NOT_FINITE = SP_E_RANGE, LOSS_BAD_TARGET = SP_E_INVALID };
enum { LOSS_STOP, LOSS_IGNORE }; /* loss_params.nonfinite */
enum { LOSS_IN_LOGITS, LOSS_IN_LABELS };
enum { LOSS_OUT_LOSS, LOSS_OUT_STATUS, LOSS_OUT_VALID, LOSS_OUT_TOTAL };

typedef struct loss_params {
  int64_t ignore_index;
  double weight;
  int32_t nonfinite;
} loss_params;

/* The parameters of a loss; `holder` has loss_params as l. */
#define LOSS_PARAM_WEIGHT(holder)                                                                           \
  {                                                                                                         \
    .name = "weight", .type = SP_PARAM_FLOAT, .offset = offsetof(holder, l.weight), .def = 1, .min = -1e30, \
    .max = 1e30, .doc = "multiplies this loss and its gradient"                                             \
  }
#define LOSS_PARAM_NONFINITE(holder)                                                                                  \
  {                                                                                                                   \
    .name = "nonfinite", .type = SP_PARAM_CHOICE, .offset = offsetof(holder, l.nonfinite), .choices = loss_nonfinite, \
    .doc = "stop the run when the loss is NaN or infinite, or ignore that, for an "                                   \
           "optimizer that skips such steps"                                                                          \
  }

extern const char *const loss_nonfinite[];
extern const sp_port loss_inputs[]; /* logits and labels */
extern const sp_port loss_outputs[];

/* One call; pointers are of the stage's device. */
typedef struct loss_job {
  logit_shape shape;
  const float *x;
  float *g;           /* NULL: no gradient */
  int acc;            /* add to g */
  const void *labels; /* NULL: there are none */
  const float *known; /* with labels NULL: numbers of which those count that are not NaN; NULL: all do */
  const float
      *shares;     /* with labels NULL: targets that must lie in 0..1, as many as there are logits; NULL: any may be */
  int by_position; /* with labels NULL: the mean is over positions, not over numbers */
  int label_dtype;
  int64_t values; /* labels are 0..values - 1, */
  int64_t ignore; /* or this */
  double weight;
  int stop; /* a loss that is not finite goes to status */
  const sp_step *step;
  const uint64_t *ids; /* NULL: samples are counted */
  float *loss;
  int64_t *status, *valid;
  double *total; /* NULL: nobody asks */
  void *scratch;
} loss_job;

/* How many labels or numbers there are in n samples. */
LABEL_FN int64_t loss_numbers(const loss_job *j, int64_t n) {
  return n * j->shape.px * (j->labels || j->by_position ? 1 : j->shape.classes);
}

/* Whether a target is no probability; NaN is none. */
LABEL_FN int loss_is_bad(float target) { return !(target >= 0 && target <= 1); }

/* Tells a STATUS port that the target at `bad` is outside 0..1; a bad below 0: all is well. */
LABEL_FN void target_status(const loss_job *j, int64_t bad) {
  union {
    float v;
    uint32_t bits;
  } target;
  j->status[0] = j->status[1] = j->status[2] = j->status[3] = 0;
  if (bad < 0) return;
  int64_t sample = bad / (j->shape.px * j->shape.classes);
  target.v = j->shares[bad];
  j->status[0] = LOSS_BAD_TARGET;
  j->status[1] = j->ids ? (int64_t)j->ids[sample] : sample;
  j->status[2] = (int64_t)target.bits;
  j->status[3] = 1;
}

void loss_outputs_plan(sp_plan *plan);

/* Checks that targets lie beside the logits: in the same shape, or N x ... of logits N x 1 x .... */
int loss_floats_check(sp_ctx *ctx, const sp_spec *x, const sp_spec *given);
void loss_job_of(loss_job *j, const sp_io *io, const loss_params *p); /* of logits and class labels */

#endif
