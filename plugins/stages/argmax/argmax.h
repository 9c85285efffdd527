/* SPDX-License-Identifier: MIT
 * argmax.h - logits to labels: ports and checks, for every device. */
#ifndef ARGMAX_H
#define ARGMAX_H

#include "../../kits/stateless.h"
#include "../../kits/pair.h"

#define ARGMAX_DOC "Gives each pixel the class of its largest logit"

extern const sp_port argmax_inputs[], argmax_outputs[];

int argmax_plan(sp_ctx *ctx, void *self, sp_plan *plan);

/* What the stage is on every device. */
#define ARGMAX_PAIR                                                                                      \
  SP_STAGE_PAIR(argmax, SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT, "Logits to labels", .doc = ARGMAX_DOC, \
                .inputs = argmax_inputs, .outputs = argmax_outputs, .create = stateless_create,          \
                .destroy = stateless_destroy, .plan = argmax_plan)

#endif
