/* SPDX-License-Identifier: MIT
 * flip.c - ports, parameters and checks of the stage `flip`, for every device. */
#include "flip.h"

const sp_port flip_inputs[] = {
    AUG_IN_IMAGES,
    AUG_IN_MASKS,
    AUG_PORT_DRAWN("flips", SP_I32, 2,
                   "what to mirror, N x 2: left to right and top to bottom, 0 or 1 each; not wired: drawn"),
    {.name = NULL}};
const sp_port flip_outputs[] = {
    AUG_PORT_IMAGES("the images, mirrored, of the same type and order"),
    AUG_PORT_MASKS("the masks, mirrored alike"),
    AUG_PORT_DRAWN("flips", SP_I32, 2, "what was mirrored, N x 2: left to right and top to bottom, 0 or 1 each"),
    AUG_PORT_STATUS,
    {.name = NULL}};

const sp_param flip_param_table[] = {{.name = "horizontal",
                                      .type = SP_PARAM_FLOAT,
                                      .offset = offsetof(flip_params, horizontal),
                                      .def = 0.5,
                                      .min = 0,
                                      .max = 1,
                                      .doc = "probability of mirroring a sample left to right"},
                                     {.name = "vertical",
                                      .type = SP_PARAM_FLOAT,
                                      .offset = offsetof(flip_params, vertical),
                                      .min = 0,
                                      .max = 1,
                                      .doc = "probability of mirroring a sample top to bottom"},
                                     AUG_DRAW_PARAMS(flip_params, draws),
                                     {.name = NULL}};

int flip_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  int64_t h, w;
  int rc = aug_plan_in(ctx, plan, &h, &w);
  (void)self;
  if (!rc) rc = aug_plan_out(plan, h, w, 0);
  return rc ? rc : aug_plan_drawn(ctx, plan, SP_I32, 2, "flips");
}
