/* SPDX-License-Identifier: MIT
 * blur.c - ports, parameters and checks of the stage `blur`, for every device. */
#include "blur.h"

const sp_port blur_inputs[] = {AUG_IN_IMAGES, AUG_IN_MASKS, BLUR_IN_SIGMAS, {.name = NULL}};
const sp_port blur_outputs[] = {AUG_PORT_IMAGES("the blurred images, of the type and order of the images"),
                                AUG_PORT_MASKS("the masks, unchanged"),
                                AUG_PORT_DRAWN("sigmas", SP_F32, 1, "the sigma of each sample; 0: it stayed as it was"),
                                AUG_PORT_STATUS,
                                {.name = NULL}};

const sp_param blur_param_table[] = {
    {.name = "kernel",
     .type = SP_PARAM_INTS,
     .offset = offsetof(blur_params, kernel),
     .def_str = "7",
     .imin = 1,
     .imax = BLUR_MAX,
     .min_n = 1,
     .max_n = 2,
     .unit = "px",
     .doc = "width and height of the kernel, odd, in torchvision's order; one number: square"},
    BLUR_SIGMA(offsetof(blur_params, sigma)),
    AUG_DRAW_PARAMS(blur_params, draws),
    {.name = NULL}};

int blur_check_params(sp_ctx *ctx, const blur_params *p) {
  for (uint32_t i = 0; i < p->kernel.n; i++)
    if (p->kernel.v[i] % 2 == 0)
      return ctx->host->fail(ctx, SP_E_RANGE, "a kernel of %lld pixels has no middle; 'kernel' must be odd",
                             (long long)p->kernel.v[i]);
  for (uint32_t i = 0; i < p->sigma.n; i++) {
    float sigma = (float)p->sigma.v[i]; /* as it is used: what rounds to 0 or beyond all floats is no sigma */
    if (blur_bad(sigma) || sigma == 0)
      return ctx->host->fail(ctx, SP_E_RANGE, "a sigma of %g is not possible; 'sigma' must be positive and finite",
                             p->sigma.v[i]);
  }
  if (blur_lo(p) > blur_hi(p))
    return ctx->host->fail(ctx, SP_E_RANGE, "'sigma' goes from %g down to %g; the smaller number comes first",
                           p->sigma.v[0], p->sigma.v[1]);
  return SP_OK;
}

int blur_check(sp_ctx *ctx, const blur_params *p, int64_t h, int64_t w) {
  if (w <= blur_rx(p) || h <= blur_ry(p))
    return ctx->host->fail(
        ctx, SP_E_SHAPE,
        "a kernel of %lld x %lld (width x height) reaches %d x %d pixels beyond the edge, but images "
        "of %lld x %lld can be mirrored by %lld x %lld at most; choose a smaller kernel",
        (long long)p->kernel.v[0], (long long)p->kernel.v[p->kernel.n - 1], (int)blur_rx(p), (int)blur_ry(p),
        (long long)w, (long long)h, (long long)w - 1, (long long)h - 1);
  return SP_OK;
}

int blur_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const blur_params *p = self;
  int64_t h, w;
  int rc = blur_check_params(ctx, p);
  if (!rc) rc = aug_plan_in(ctx, plan, &h, &w);
  if (!rc) rc = blur_check(ctx, p, h, w);
  if (rc) return rc;
  if ((rc = aug_plan_out(plan, h, w, 0))) return rc;
  return aug_plan_drawn(ctx, plan, SP_F32, 1, "sigmas");
}
