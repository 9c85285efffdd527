/* SPDX-License-Identifier: MIT
 * batch_rotate.c - ports, parameters and checks of the stage `batch_rotate`, for every device. */
#include "batch_rotate.h"

static const char *const modes[] = {"nearest", "bilinear", NULL};

const sp_port rotate_inputs[] = {AUG_IN_IMAGES, AUG_IN_MASKS, ROTATE_IN_ANGLES, {.name = NULL}};
const sp_port rotate_outputs[] = {AUG_PORT_IMAGES("the turned images, of the same shape, type and order"),
                                  AUG_PORT_MASKS("the masks, turned likewise, by the nearest pixel"),
                                  AUG_PORT_DRAWN("angles", SP_F32, 1, "the angles, in degrees"),
                                  AUG_PORT_STATUS,
                                  {.name = NULL}};

const sp_param rotate_param_table[] = {
    {.name = "degrees",
     .type = SP_PARAM_FLOATS,
     .flags = SP_PARAM_REQUIRED,
     .offset = offsetof(rotate_params, degrees),
     .min = -3600,
     .max = 3600,
     .min_n = 1,
     .max_n = 2,
     .unit = "degrees",
     .doc = "lowest and highest angle; one number d: -d to d"},
    {.name = "mode",
     .type = SP_PARAM_CHOICE,
     .offset = offsetof(rotate_params, mode),
     .idef = ROTATE_NEAREST,
     .choices = modes,
     .doc = "how images are sampled; masks take the nearest pixel either way"},
    {.name = "fill",
     .type = SP_PARAM_FLOATS,
     .offset = offsetof(rotate_params, fill),
     .def_str = "0",
     .min = -1e30,
     .max = 1e30,
     .min_n = 1,
     .max_n = 4,
     .doc = "what images get outside of the original: one number, or one a channel, up to 4"},
    ROTATE_MASK_FILL(offsetof(rotate_params, mask_fill)),
    AUG_DRAW_PARAMS(rotate_params, draws),
    {.name = NULL}};

int rotate_check(sp_ctx *ctx, const rotate_params *p, const sp_plan *plan, int bytes) {
  int rc = aug_check_fill(ctx, plan, "fill", &p->fill, bytes);
  if (!rc) rc = aug_check_mask_fill(ctx, plan, p->mask_fill);
  if (rc) return rc;
  if (p->degrees.n == 2 && p->degrees.v[0] > p->degrees.v[1])
    return ctx->host->fail(ctx, SP_E_RANGE, "degrees = {%g, %g}: the first is the lowest angle, the second the highest",
                           p->degrees.v[0], p->degrees.v[1]);
  return SP_OK;
}

int rotate_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  int64_t h, w;
  int rc = aug_plan_in(ctx, plan, &h, &w);
  if (!rc) rc = rotate_check(ctx, self, plan, 1);
  if (rc) return rc;
  if ((rc = aug_plan_out(plan, h, w, 0))) return rc;
  return aug_plan_drawn(ctx, plan, SP_F32, 1, "angles");
}

rotate_how rotate_how_of(const rotate_params *p) {
  double a = p->degrees.v[0], b = p->degrees.v[p->degrees.n - 1];
  double d = a < 0 ? -a : a;
  rotate_how how = {.lo = (float)(p->degrees.n == 1 ? -d : a),
                    .hi = (float)(p->degrees.n == 1 ? d : b),
                    .mode = p->mode,
                    .mask_fill = (int32_t)p->mask_fill,
                    .fills = (int32_t)p->fill.n};
  for (uint32_t c = 0; c < p->fill.n; c++) how.fill[c] = (float)p->fill.v[c];
  return how;
}
