/* SPDX-License-Identifier: MIT
 * stage_impl.h - what the files behind stage.h share. */
#ifndef SP_CORE_STAGE_IMPL_H
#define SP_CORE_STAGE_IMPL_H

#include "host/stage.h"

/* The call that a context is for. */
typedef struct sp_under_way {
  const char *what;
  uint64_t step;
  void *caller;
} sp_under_way;

/* stage_services.c: of a context whose `arg` is the instance */
const void *sp_stage_extension(sp_ctx *ctx, const char *id);

/* stage_plan.c: what plan() is given, with what it is to fill in emptied; and what it has said */
int sp_plan_prepare(const sp_inst *inst, sp_plan *plan, sp_err *err);
int sp_plan_check(const sp_inst *inst, sp_plan *plan, sp_err *err);

#endif
