/* SPDX-License-Identifier: MIT
 * concat.h - tensors one behind the other: ports, parameters and checks, for every device. */
#ifndef CONCAT_H
#define CONCAT_H

#include "../../kits/stateless.h"
#include "../../kits/pair.h"

#define CONCAT_DOC "Joins tensors along an axis"

typedef struct concat_params {
  int64_t axis;
} concat_params;

/* In memory a tensor is `outer` runs; one run of input k is `run[k]` elements, side by side with the others' runs. */
typedef struct concat_runs {
  int64_t outer, all, run[SP_MAX_LIST];
} concat_runs;

extern const sp_port concat_inputs[], concat_outputs[];
extern const sp_param concat_param_table[];

int concat_plan(sp_ctx *ctx, void *self, sp_plan *plan);

/* self: the parameters. */
void concat_runs_of(concat_runs *r, const void *self, const sp_list *in);

/* What the stage is on every device. */
#define CONCAT_PAIR                                                                                            \
  SP_STAGE_PAIR(concat, SP_STAGE_REENTRANT, "Joins tensors", .doc = CONCAT_DOC, .inputs = concat_inputs,       \
                .outputs = concat_outputs, .params = concat_param_table, .params_size = sizeof(concat_params), \
                .create = stateless_create, .destroy = stateless_destroy, .plan = concat_plan)

#endif
