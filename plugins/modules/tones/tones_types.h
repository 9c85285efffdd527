/* SPDX-License-Identifier: MIT
 * tones_types.h - the stage types of the module, all alike: TONES_TYPES(device, plan, forward) for one device. */
#ifndef TONES_TYPES_H
#define TONES_TYPES_H

#include "tones.h"

#define TONES_PARAMS(id, op, words) extern const sp_param id##_param_table[];
TONES_STAGES(TONES_PARAMS)

#define TONES_CREATE(id, op, words) \
  static int id##_create(sp_ctx *ctx, const void *params, void **self) { return tones_create(ctx, op, params, self); }
#define TONES_TYPE(id, where, words, how_planned, how_run)                                                         \
  static const sp_stage_type id##_type = {.size = sizeof(sp_stage_type),                                           \
                                          .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT | SP_STAGE_STOCHASTIC, \
                                          .name = #id,                                                             \
                                          .device = where,                                                         \
                                          .doc = words,                                                            \
                                          .inputs = tones_inputs,                                                  \
                                          .outputs = tones_outputs,                                                \
                                          .params = id##_param_table,                                              \
                                          .params_size = sizeof(tones_params),                                     \
                                          .status_doc = TONES_STATUS_DOC,                                          \
                                          .create = id##_create,                                                   \
                                          .destroy = tones_destroy,                                                \
                                          .plan = how_planned,                                                     \
                                          .forward = how_run};
#define TONES_POINTER(id, op, words) &id##_type,

#endif
