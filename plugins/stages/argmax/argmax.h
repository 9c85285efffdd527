/* SPDX-License-Identifier: MIT
 * argmax.h - logits to labels: ports and checks, for every device. */
#ifndef ARGMAX_H
#define ARGMAX_H

#include "../../kits/stateless.h"

#define ARGMAX_DOC "Gives each pixel the class of its largest logit"

extern const sp_port argmax_inputs[], argmax_outputs[];

int argmax_plan(sp_ctx *ctx, void *self, sp_plan *plan);

#endif
