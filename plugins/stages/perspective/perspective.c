/* SPDX-License-Identifier: MIT
 * perspective.c - ports, parameters and checks of the stage `perspective`, for every device. */
#include "perspective.h"

#define NUMBERS                                                                                                    \
  "N x 8: where the image's corners go, x and y of top left, top right, bottom right, bottom left, in pixels; as " \
  "torchvision's perspective takes endpoints"

const sp_port perspective_inputs[] = {
    AUG_IN_IMAGES, AUG_IN_MASKS, AUG_PORT_DRAWN("corners", SP_I32, 2, NUMBERS "; not wired: drawn"), {.name = NULL}};
const sp_port perspective_outputs[] = {AUG_PORT_IMAGES("the images seen from aside, of the same shape, type and order"),
                                       AUG_PORT_MASKS("the masks, changed likewise, by the nearest pixel"),
                                       AUG_PORT_DRAWN("corners", SP_I32, 2, NUMBERS),
                                       AUG_PORT_STATUS,
                                       {.name = NULL}};

const sp_param perspective_param_table[] = {
    {.name = "distortion",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(perspective_params, distortion),
     .def = 0.5,
     .min = 0,
     .max = 1,
     .doc = "how far a corner moves inwards at most, as a part of half the side; torchvision's distortion_scale"},
    WARP_PARAMS(perspective_params, warp, WARP_BILINEAR, 0.5),
    {.name = NULL}};

int perspective_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const perspective_params *p = self;
  int64_t h, w;
  int rc = warp_plan(ctx, &p->warp, plan, &h, &w);
  if (!rc) rc = aug_plan_drawn(ctx, plan, SP_I32, 8, "corners");
  plan->scratch_bytes = rc ? 0 : (size_t)plan->in[AUG_IMAGES].spec->shape[0] * sizeof(warp_map);
  return rc;
}

perspective_range perspective_range_of(const perspective_params *p, int32_t h, int32_t w) {
  return (perspective_range){.h = h,
                             .w = w,
                             .x = (int32_t)(p->distortion * (w / 2)),
                             .y = (int32_t)(p->distortion * (h / 2)),
                             .probability = (float)p->warp.probability};
}
