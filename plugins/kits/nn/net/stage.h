/* SPDX-License-Identifier: MIT
 * stage.h - what makes a stage of a network, for every device. */
#ifndef NN_STAGE_H
#define NN_STAGE_H

#include "net.h"

enum { NN_MAX_BINDS = SP_MAX_LIST + 1 }; /* one tensor and a list */

/* Rows of the parameter tables of encoder, decoder and classifier; `at` is the member's offset. */
#define NN_CLASSES(at)                                                                                           \
  {                                                                                                              \
    .name = "classes", .type = SP_PARAM_INT, .flags = SP_PARAM_REQUIRED, .offset = at, .imin = 1, .imax = 65536, \
    .doc = "how many classes"                                                                                    \
  }
#define NN_LAYERS(at, words)                                                                                           \
  {                                                                                                                    \
    .name = "layers", .type = SP_PARAM_LIST, .offset = at, .fields = nn_layer_fields, .fields_size = sizeof(nn_layer), \
    .doc = words                                                                                                       \
  }
#define NN_WIDTH(at, words) \
  { .name = "width", .type = SP_PARAM_INT, .offset = at, .idef = 16, .imin = 1, .imax = 4096, .doc = words }
#define NN_LEVELS(at, words) \
  { .name = "levels", .old = "depth", .type = SP_PARAM_INT, .offset = at, .imin = 0, .imax = 20, .doc = words }
#define NN_CONVS(at, words) \
  { .name = "convs", .type = SP_PARAM_INT, .offset = at, .idef = 2, .imin = 1, .imax = 16, .doc = words }

enum nn_statistics { NN_FOLLOW, NN_KEEP };
extern const char *const nn_statistics_choices[];
#define NN_STATISTICS(at)                                                                                         \
  {                                                                                                              \
    .name = "statistics", .type = SP_PARAM_CHOICE, .offset = at, .choices = nn_statistics_choices,               \
    .doc = "batch norms in training: \"batch\": each step has its own statistics, and the running ones follow; " \
           "\"keep\": each step has the running ones, which stay as they are"                                    \
  }

typedef struct nn_binds {
  nn_bind in[NN_MAX_BINDS], out[NN_MAX_BINDS];
  int n_in, n_out; /* 1 and 1 unless the stage says otherwise */
} nn_binds;

/* Binds the taps to output 1. */
int nn_bind_taps(sp_ctx *ctx, const sp_plan *plan, const nn_taps *taps, nn_binds *b);

/* Fills `net`, the binds of its inputs and outputs, and how many tensors plan->out has. */
typedef int (*nn_builder)(sp_ctx *ctx, const void *params, const sp_plan *plan, nn_net *net, nn_binds *b);

/* The stage type id_DEVICE: the table is the same for all of them. It takes id_inputs, id_outputs, id_param_table,
 * id_params and id_build from the stage's header, and the callbacks kit_create ...
 * from the device's half of this kit. */
#define NN_STAGE(id, words, where, more, kit)                                                                      \
  static int plan(sp_ctx *ctx, void *self, sp_plan *pl) { return kit##_plan(ctx, self, pl, id##_build); }          \
  const sp_stage_type id##_##where = {.size = sizeof(sp_stage_type),                                               \
                                      .flags = SP_STAGE_REENTRANT | SP_STAGE_INPLACE_SGD | SP_STAGE_STOCHASTIC |   \
                                               (more),                                                             \
                                      .name = #id,                                                                 \
                                      .device = #where,                                                            \
                                      .doc = words,                                                                \
                                      .inputs = id##_inputs,                                                       \
                                      .outputs = id##_outputs,                                                     \
                                      .params = id##_param_table,                                                  \
                                      .params_size = sizeof(id##_params),                                          \
                                      .create = kit##_create,                                                      \
                                      .destroy = kit##_destroy,                                                    \
                                      .plan = plan,                                                                \
                                      .prepare = kit##_prepare,                                                    \
                                      .forward = kit##_forward,                                                    \
                                      .backward = kit##_backward,                                                  \
                                      .apply = kit##_apply}

#endif
