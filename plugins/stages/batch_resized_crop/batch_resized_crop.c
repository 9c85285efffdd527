/* SPDX-License-Identifier: MIT
 * batch_resized_crop.c - ports, parameters and checks of the stage `batch_resized_crop`, for every device. */
#include "batch_resized_crop.h"

const sp_port zoom_inputs[] = {
    AUG_IN_IMAGES,
    AUG_IN_MASKS,
    AUG_PORT_DRAWN("boxes", SP_I32, 2, "the windows, N x 4: top, left, height, width, in pixels; not wired: drawn"),
    {.name = NULL}};
const sp_port zoom_outputs[] = {
    AUG_PORT_IMAGES("the windows, N x C x size, of the type and order of the images; bytes are rounded, half to even"),
    AUG_PORT_MASKS("the same windows of the masks, N x size"),
    AUG_PORT_DRAWN("boxes", SP_I32, 2, "the windows, N x 4: top, left, height, width"),
    AUG_PORT_STATUS,
    {.name = NULL}};

const sp_param zoom_param_table[] = {
    AUG_SIZE_PARAM("size", offsetof(zoom_params, size), SP_PARAM_REQUIRED,
                   "height and width afterwards; one number: square"),
    {.name = "scale",
     .type = SP_PARAM_FLOATS,
     .offset = offsetof(zoom_params, scale),
     .def_str = "0.08,1",
     .min = 0.0,
     .max = 1.0,
     .min_n = 1,
     .max_n = 2,
     .doc = "area of the window, as a part of the image's, from and to; one number: always this"},
    {.name = "ratio",
     .type = SP_PARAM_FLOATS,
     .offset = offsetof(zoom_params, ratio),
     .min = 1e-3,
     .max = 1e3,
     .min_n = 1,
     .max_n = 2,
     .doc = "width of the window over its height, from and to, even on a scale of logarithms (not given: 3/4 to 4/3)"},
    RESIZE_FILTER_PARAMS(zoom_params, filter),
    AUG_DRAW_PARAMS(zoom_params, draws),
    {.name = NULL}};

static double ratio_lo(const zoom_params *p) { return p->ratio.n ? p->ratio.v[0] : 3.0 / 4.0; }
static double ratio_hi(const zoom_params *p) { return p->ratio.n ? p->ratio.v[p->ratio.n - 1] : 4.0 / 3.0; }

zoom_range zoom_range_of(const zoom_params *p, int32_t h, int32_t w) {
  double area = (double)h * (double)w, lo = ratio_lo(p), hi = ratio_hi(p);
  return (zoom_range){.h = h,
                      .w = w,
                      .area_lo = area * p->scale.v[0],
                      .area_hi = area * p->scale.v[p->scale.n - 1],
                      .ratio_lo = lo,
                      .ratio_hi = hi,
                      .log_lo = log(lo),
                      .log_hi = log(hi)};
}

static int in_order(sp_ctx *ctx, const char *what, double lo, double hi) {
  if (lo <= hi) return SP_OK;
  return ctx->host->fail(ctx, SP_E_RANGE, "'%s' goes from %g down to %g; the smaller number comes first", what, lo, hi);
}

int zoom_check(sp_ctx *ctx, const zoom_params *p, sp_plan *plan, int64_t *h, int64_t *w) {
  int rc = resize_check_filter(ctx, &p->filter);
  if (!rc) rc = in_order(ctx, "scale", p->scale.v[0], p->scale.v[p->scale.n - 1]);
  if (!rc) rc = in_order(ctx, "ratio", ratio_lo(p), ratio_hi(p));
  if (!rc && p->scale.v[p->scale.n - 1] <= 0)
    rc = ctx->host->fail(ctx, SP_E_RANGE, "'scale' leaves windows no pixels; it must be above 0");
  if (!rc) rc = aug_plan_in(ctx, plan, h, w);
  if (!rc) rc = aug_plan_out(plan, p->size.v[0], p->size.v[p->size.n - 1], 0);
  return rc ? rc : aug_plan_drawn(ctx, plan, SP_I32, 4, "boxes");
}
