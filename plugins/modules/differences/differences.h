/* SPDX-License-Identifier: MIT
 * differences.h - the losses `mse`, `l1` and `huber`: what they have in common, for every device. */
#ifndef DIFFERENCES_H
#define DIFFERENCES_H

#include "../../kits/pointwise/pointwise.h"
#include "../../kits/stateless.h"

/* DO(stage, what a difference costs, words). A stage has a table of parameters and nothing else of its own. */
#define DIFFERENCES_STAGES(DO)                                                                \
  DO(mse, POINT_D_SQUARE, "Mean of the squared differences of two tensors")                   \
  DO(l1, POINT_D_SIZE, "Mean of the absolute differences of two tensors")                     \
  DO(huber, POINT_D_HUBER,                                                                    \
     "Mean of Huber's cost of the differences of two tensors: squared where they are small, " \
     "straight where they are large")

typedef struct difference_params {
  loss_params l; /* ignore_index: not used */
  double delta;  /* of `huber` */
  int32_t ignore_nan;
} difference_params;

extern const sp_port difference_inputs[];
#define DIFFERENCES_PARAMS(id, cost, words) extern const sp_param id##_param_table[];
DIFFERENCES_STAGES(DIFFERENCES_PARAMS)

int difference_plan(sp_ctx *ctx, sp_plan *plan); /* all but the scratch */
void difference_job(point_job *j, const difference_params *p, const sp_io *io, int cost);

/* The stage type of one device; `run` gets the cost beside what forward gets. */
#define DIFFERENCES_TYPE(id, cost, words, where, also, run)                                              \
  static int id##_forward(sp_ctx *ctx, void *self, const sp_io *io) { return run(ctx, self, io, cost); } \
  static const sp_stage_type id##_type = {.size = sizeof(sp_stage_type),                                 \
                                          .flags = SP_STAGE_LOSS | (also),                               \
                                          .name = #id,                                                   \
                                          .device = where,                                               \
                                          .doc = words,                                                  \
                                          .inputs = difference_inputs,                                   \
                                          .outputs = loss_outputs,                                       \
                                          .params = id##_param_table,                                    \
                                          .params_size = sizeof(difference_params),                      \
                                          .status_doc = LOSS_STATUS_DOC,                                 \
                                          .create = stateless_create,                                    \
                                          .destroy = stateless_destroy,                                  \
                                          .plan = plan,                                                  \
                                          .forward = id##_forward};
#define DIFFERENCES_POINTER(id, cost, words) &id##_type,

#endif
