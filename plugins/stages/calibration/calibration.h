/* SPDX-License-Identifier: MIT
 * calibration.h - how sure predictions are, and how often they are right: ports, parameters and checks, for every
 * device. Of classes the prediction is the most probable one; where there is one logit, or targets are numbers, each
 * probability is one of being 1. */
#ifndef CALIBRATION_H
#define CALIBRATION_H

#include "../../kits/pair.h"
#include "../../kits/score/score.h"

#define CALIBRATION_DOC "Counts of predictions, of right ones, and sums of their probabilities, in bins of probability"

enum { CAL_OUT_RELIABILITY, CAL_OUT_STATUS };
enum { CAL_SAMPLES, CAL_HITS, CAL_CONFIDENCE, CAL_N };

typedef struct cal_params {
  int64_t bins, ignore_index;
} cal_params;

extern const sp_port cal_inputs[], cal_outputs[];
extern const sp_param cal_param_table[];

/* One prediction: its bin, and its probability as a multiple of 2^-24. Probabilities that are no number are of bin 0,
 * as 0. */
typedef struct cal_one {
  int bin;
  int64_t confidence;
} cal_one;

SCORE_FN cal_one cal_of(double p, int bins) {
  cal_one one = {0, 0};
  if (!(p > 0)) return one;
  if (p > 1) p = 1;
  one.bin = (int)rounded_mul(p, bins);
  if (one.bin >= bins) one.bin = bins - 1;
  one.confidence = (int64_t)rounded_add(rounded_mul(p, 16777216.0), 0.5);
  return one;
}

int cal_plan(sp_ctx *ctx, void *self, sp_plan *plan); /* all but the scratch */

/* How many predictions a position has. */
SCORE_FN int64_t cal_predictions(const score_job *j) { return j->kind == SCORE_CLASSES ? 1 : j->shape.classes; }

/* What the stage is on every device. */
#define CALIBRATION_PAIR                                                                                       \
  SP_STAGE_PAIR(calibration, SP_STAGE_REENTRANT, "Reliability of probabilities", .doc = CALIBRATION_DOC,       \
                .inputs = cal_inputs, .outputs = cal_outputs, .params = cal_param_table,                       \
                .params_size = sizeof(cal_params), .status_doc = SCORE_STATUS_DOC, .create = stateless_create, \
                .destroy = stateless_destroy)

#endif
