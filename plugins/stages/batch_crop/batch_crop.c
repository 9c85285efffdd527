/* SPDX-License-Identifier: MIT
 * batch_crop.c - ports, parameters and checks of the stage `batch_crop`, for every device. */
#include "batch_crop.h"

const char *const crop_modes[] = {"exact", "roi_align", NULL};

const sp_port crop_inputs[] = {AUG_IN_IMAGES, AUG_IN_MASKS, CROP_IN_BOXES, {.name = NULL}};
const sp_port crop_outputs[] = {AUG_PORT_IMAGES("the windows, N x C x size, of the type and order of the images"),
                                AUG_PORT_MASKS("the same windows of the masks, N x size"),
                                AUG_PORT_DRAWN("boxes", SP_I32, 2, "where the windows began, N x 2: top and left"),
                                AUG_PORT_STATUS,
                                {.name = NULL}};

const sp_param crop_param_table[] = {
    AUG_SIZE_PARAM("size", offsetof(crop_params, size), SP_PARAM_REQUIRED,
                   "height and width of the window; one number: square"),
    {.name = "mode",
     .type = SP_PARAM_CHOICE,
     .offset = offsetof(crop_params, mode),
     .idef = CROP_EXACT,
     .choices = crop_modes,
     .doc =
         "exact: a copy; roi_align: each pixel is the mean of it and its right, lower and lower right neighbours, as "
         "torchvision.ops.roi_align gives it for boxes of whole numbers; masks are copied either way"},
    AUG_DRAW_PARAMS(crop_params, draws),
    {.name = NULL}};

int crop_check(sp_ctx *ctx, int64_t high, int64_t wide, int64_t h, int64_t w) {
  if (high > h || wide > w)
    return ctx->host->fail(ctx, SP_E_SHAPE,
                           "a window of %lld x %lld does not fit into images of %lld x %lld; choose a smaller size",
                           (long long)high, (long long)wide, (long long)h, (long long)w);
  return SP_OK;
}

int crop_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const crop_params *p = self;
  int64_t h, w, high = p->size.v[0], wide = p->size.v[p->size.n - 1];
  int rc = aug_plan_in(ctx, plan, &h, &w);
  if (!rc) rc = crop_check(ctx, high, wide, h, w);
  if (rc) return rc;
  if ((rc = aug_plan_out(plan, high, wide, 0))) return rc;
  return aug_plan_drawn(ctx, plan, SP_I32, 2, "boxes");
}
