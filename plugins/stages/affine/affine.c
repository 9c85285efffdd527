/* SPDX-License-Identifier: MIT
 * affine.c - ports, parameters and checks of the stage `affine`, for every device. */
#include "affine.h"

#define NUMBERS                                                                                                       \
  "N x 6: an angle in degrees, clockwise; pixels to the right and down; the scale; shears along x and y in degrees, " \
  "as torchvision's affine takes them"

const sp_port affine_inputs[] = {
    AUG_IN_IMAGES, AUG_IN_MASKS, AUG_PORT_DRAWN("affines", SP_F32, 2, NUMBERS "; not wired: drawn"), {.name = NULL}};
const sp_port affine_outputs[] = {AUG_PORT_IMAGES("the changed images, of the same shape, type and order"),
                                  AUG_PORT_MASKS("the masks, changed likewise, by the nearest pixel"),
                                  AUG_PORT_DRAWN("affines", SP_F32, 2, NUMBERS),
                                  AUG_PORT_STATUS,
                                  {.name = NULL}};

#define RANGE(member, ...) \
  .name = #member, .type = SP_PARAM_FLOATS, .offset = offsetof(affine_params, member), .min_n = 1, __VA_ARGS__

const sp_param affine_param_table[] = {
    {RANGE(degrees, .def_str = "0", .min = -3600, .max = 3600, .max_n = 2, .unit = "degrees",
           .doc = "lowest and highest angle, clockwise as torchvision's RandomAffine; one number d: -d to d")},
    {RANGE(translate, .def_str = "0", .min = 0, .max = 1, .max_n = 2,
           .doc =
               "how far a sample is shifted at most, as a part of its width and of its height; one number: of both")},
    {RANGE(scale, .def_str = "1", .min = 1e-6, .max = 1e6, .max_n = 2,
           .doc = "lowest and highest scale; above 1 what is seen grows; one number: always this")},
    {RANGE(shear, .def_str = "0", .min = -3600, .max = 3600, .max_n = 4, .unit = "degrees",
           .doc = "lowest and highest shear along x, then along y; one number d: -d to d along x; two: along x alone")},
    {RANGE(center, .min = -1e6, .max = 1e6, .max_n = 2, .unit = "px",
           .doc = "x and y of what stays in its place, from the upper left corner (not given: the middle)")},
    WARP_PARAMS(affine_params, warp, WARP_NEAREST, 1),
    {.name = NULL}};

static int check(sp_ctx *ctx, const affine_params *p) {
  int rc = warp_in_order(ctx, "degrees", &p->degrees);
  if (!rc) rc = warp_in_order(ctx, "scale", &p->scale);
  if (!rc) rc = warp_in_order(ctx, "shear", &p->shear);
  if (rc) return rc;
  if (p->shear.n == 3)
    return ctx->host->fail(ctx, SP_E_RANGE,
                           "shear has 3 numbers; it takes 1, 2, or 4: lowest and highest along x, then along y");
  if (p->shear.n == 4 && p->shear.v[2] > p->shear.v[3])
    return ctx->host->fail(ctx, SP_E_RANGE, "'shear' along y goes from %g down to %g; the smaller number comes first",
                           p->shear.v[2], p->shear.v[3]);
  if (p->center.n == 1)
    return ctx->host->fail(ctx, SP_E_RANGE, "center = %g is one number; it takes two, x and y", p->center.v[0]);
  return SP_OK;
}

int affine_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const affine_params *p = self;
  int64_t h, w;
  int rc = check(ctx, p);
  if (!rc) rc = warp_plan(ctx, &p->warp, plan, &h, &w);
  if (!rc) rc = aug_plan_drawn(ctx, plan, SP_F32, AFFINE_NUMBERS, "affines");
  plan->scratch_bytes = rc ? 0 : (size_t)plan->in[AUG_IMAGES].spec->shape[0] * sizeof(warp_map);
  return rc;
}

static void range(affine_range *r, int i, const sp_floats *of, int both_ways) {
  double lo = of->v[0], hi = of->v[of->n > 1], d = lo < 0 ? -lo : lo;
  r->lo[i] = (float)(both_ways ? -d : lo);
  r->hi[i] = (float)(both_ways ? d : hi);
}

affine_range affine_range_of(const affine_params *p, int32_t h, int32_t w) {
  affine_range r = {.probability = (float)p->warp.probability, .h = h, .w = w};
  range(&r, 0, &p->degrees, p->degrees.n == 1);
  r.hi[1] = (float)(p->translate.v[0] * w);
  r.hi[2] = (float)(p->translate.v[p->translate.n - 1] * h);
  r.lo[1] = -r.hi[1];
  r.lo[2] = -r.hi[2];
  range(&r, 3, &p->scale, 0);
  range(&r, 4, &p->shear, p->shear.n == 1);
  if (p->shear.n == 4) {
    r.lo[5] = (float)p->shear.v[2];
    r.hi[5] = (float)p->shear.v[3];
  }
  if (p->center.n) {
    r.cx = p->center.v[0] - w * 0.5;
    r.cy = p->center.v[1] - h * 0.5;
  }
  return r;
}
