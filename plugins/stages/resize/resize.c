/* SPDX-License-Identifier: MIT
 * resize.c - ports, parameters and checks of the stage `resize`, for every device. */
#include "resize.h"

const sp_port resize_inputs[] = {AUG_IN_IMAGES, AUG_IN_MASKS, {.name = NULL}};
const sp_port resize_outputs[] = {
    AUG_PORT_IMAGES("the images, N x C x size, of the type and order they had; bytes are rounded, half to even"),
    AUG_PORT_MASKS("the masks, N x size"),
    {.name = NULL}};

const char *const resize_interpolations[] = {"bilinear", "bicubic", NULL};

const sp_param resize_param_table[] = {AUG_SIZE_PARAM("size", offsetof(resize_params, size), SP_PARAM_REQUIRED,
                                                      "height and width afterwards; one number: square"),
                                       RESIZE_FILTER_PARAMS(resize_params, filter),
                                       {.name = NULL}};

int resize_check_filter(sp_ctx *ctx, const resize_filter *p) {
  if (p->interpolation != RESIZE_BICUBIC || p->antialias) return SP_OK;
  return ctx->host->fail(ctx, SP_E_UNSUPPORTED,
                         "interpolation = \"bicubic\" is with antialiasing alone; leave 'antialias' out");
}

int resize_check(sp_ctx *ctx, const resize_params *p, sp_plan *plan, int64_t *h, int64_t *w) {
  plan->stepless = 1;
  int rc = resize_check_filter(ctx, &p->filter);
  if (!rc) rc = aug_plan_in(ctx, plan, h, w);
  return rc ? rc : aug_plan_out(plan, p->size.v[0], p->size.v[p->size.n - 1], 0);
}
