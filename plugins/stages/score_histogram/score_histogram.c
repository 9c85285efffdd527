/* SPDX-License-Identifier: MIT
 * score_histogram.c - counts of scores by class: ports, parameters and checks. */
#include "score_histogram.h"

#define MAX_COUNTS (1 << 22) /* that come to the host in each step */

shist_bins shist_bins_of(const shist_params *p) {
  int parts = 0; /* of a doubling, as a power of two */
  while ((int64_t)SHIST_DOUBLINGS << parts < p->bins) parts++;
  return (shist_bins){.n = (int32_t)p->bins,
                      .scale = p->scale,
                      .shift = 52 - parts,
                      .first = (uint32_t)(1023 - SHIST_DOUBLINGS / 2) << parts};
}

int shist_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const shist_params *p = self;
  const sp_spec *x = &plan->in[0].spec[0];
  int rc = score_check(ctx, x, &plan->in[1].spec[0]);
  if (rc) return rc;
  if (p->scale == SHIST_ODDS && (p->bins < SHIST_DOUBLINGS || (p->bins & (p->bins - 1))))
    return ctx->host->fail(
        ctx, SP_E_RANGE,
        "bins = %lld: scale = \"odds\" takes a power of two from 64 on; scale = \"probability\" any number",
        (long long)p->bins);
  if (x->shape[1] > MAX_COUNTS / 2 / p->bins)
    return ctx->host->fail(ctx, SP_E_SHAPE, "%lld classes of %lld bins are more than %d counts; take fewer bins",
                           (long long)x->shape[1], (long long)p->bins, MAX_COUNTS);
  plan->out[SHIST_OUT_SCORES].n = plan->out[SHIST_OUT_STATUS].n = 1;
  plan->out[SHIST_OUT_SCORES].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 3, .shape = {x->shape[1], 2, p->bins}};
  plan->out[SHIST_OUT_STATUS].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {4}};
  return SP_OK;
}

static const char *const scales[] = {"odds", "probability", NULL};

const sp_port shist_inputs[] = {SCORE_PORT_LOGITS, SCORE_PORT_TARGETS, {.name = NULL}};
const sp_port shist_outputs[] = {{.name = "scores",
                                  .dtypes = SP_DT(SP_I64),
                                  .ndim = 3,
                                  .flags = SP_PORT_METRIC | SP_PORT_NOGRAD,
                                  .doc = "C x 2 x bins: of samples that are not of the class, and that are"},
                                 SCORE_PORT_STATUS,
                                 {.name = NULL}};
const sp_param shist_param_table[] = {{.name = "bins",
                                       .type = SP_PARAM_INT,
                                       .offset = offsetof(shist_params, bins),
                                       .idef = 1024,
                                       .imin = 2,
                                       .imax = 65536,
                                       .doc = "how many; of odds a power of two from 64 on"},
                                      {.name = "scale",
                                       .type = SP_PARAM_CHOICE,
                                       .offset = offsetof(shist_params, scale),
                                       .idef = SHIST_ODDS,
                                       .choices = scales,
                                       .doc = "odds: bins of equal ratio of p / (1 - p), finest where a network is "
                                              "sure; probability: bin k begins at p = k / (bins - 1)"},
                                      LABEL_PARAM_IGNORE(shist_params, ignore_index),
                                      {.name = NULL}};
