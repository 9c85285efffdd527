/* SPDX-License-Identifier: MIT
 * score_histogram.h - counts of scores by class, of samples that are of the class and of those that are not: ports,
 * parameters and checks, for every device. Whole numbers add up to the same whatever their order. */
#ifndef SCORE_HISTOGRAM_H
#define SCORE_HISTOGRAM_H

#include "../../kits/pair.h"
#include "../../kits/score/score.h"

#define SCORE_HISTOGRAM_DOC "Counts of scores in bins for AUROC and average precision, by class"

enum { SHIST_OUT_SCORES, SHIST_OUT_STATUS };
enum { SHIST_ODDS, SHIST_PROBABILITY };
enum { SHIST_NEGATIVE, SHIST_POSITIVE };

typedef struct shist_params {
  int64_t bins, ignore_index;
  int32_t scale;
} shist_params;

extern const sp_port shist_inputs[], shist_outputs[];
extern const sp_param shist_param_table[];

enum { SHIST_DOUBLINGS = 64 }; /* odds from 2^-32 to 2^32 have bins of their own */

/* How bins are found. */
typedef struct shist_bins {
  int32_t n, scale;
  int32_t shift;  /* of the bits of a double: what is left is the exponent and some of the mantissa */
  uint32_t first; /* and of the odds of bin 0 */
} shist_bins;

SCORE_FN int shist_bin(const shist_bins *b, score s) {
  if (b->scale == SHIST_PROBABILITY) {
    double p = score_probability(s);
    if (!(p > 0)) return 0; /* NaN too */
    int k = (int)rounded_mul(p, b->n - 1);
    return k < b->n ? k : b->n - 1;
  }
  double odds = s.own / s.rest;
  if (!(odds >= 1 / 4294967296.0)) return 0; /* NaN too */
  if (odds >= 4294967296.0) return b->n - 1;
  uint64_t bits;
  memcpy(&bits, &odds, 8);
  return (int)((uint32_t)(bits >> b->shift) - b->first);
}

shist_bins shist_bins_of(const shist_params *p);
int shist_plan(sp_ctx *ctx, void *self, sp_plan *plan); /* all but the scratch */

/* What the stage is on every device. */
#define SCORE_HISTOGRAM_PAIR                                                                                     \
  SP_STAGE_PAIR(score_histogram, SP_STAGE_REENTRANT, "Histograms of scores", .doc = SCORE_HISTOGRAM_DOC,         \
                .inputs = shist_inputs, .outputs = shist_outputs, .params = shist_param_table,                   \
                .params_size = sizeof(shist_params), .status_doc = SCORE_STATUS_DOC, .create = stateless_create, \
                .destroy = stateless_destroy)

#endif
