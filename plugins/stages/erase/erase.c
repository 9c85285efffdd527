/* SPDX-License-Identifier: MIT
 * erase.c - ports, parameters and checks of the stage `erase`, for every device. */
#include "erase.h"

const sp_port erase_inputs[] = {
    AUG_IN_IMAGES,
    AUG_IN_MASKS,
    AUG_PORT_DRAWN("boxes", SP_I32, 2,
                   "the rectangles, N x 4: top, left, height, width, in pixels, 0: nothing; not wired: drawn"),
    {.name = NULL}};
const sp_port erase_outputs[] = {
    AUG_PORT_IMAGES("the images without the rectangles, of the same shape, type and order"),
    AUG_PORT_MASKS("the masks: as they were, or with `erase_masks` erased likewise"),
    AUG_PORT_DRAWN("boxes", SP_I32, 2, "the rectangles, N x 4: top, left, height, width, in pixels; 0: nothing"),
    AUG_PORT_STATUS,
    {.name = NULL}};

const sp_param erase_param_table[] = {
    {.name = "scale",
     .type = SP_PARAM_FLOATS,
     .offset = offsetof(erase_params, scale),
     .min = 0,
     .max = 1,
     .min_n = 1,
     .max_n = 2,
     .doc = "area of the rectangle, as a part of the image's, from and to; one number: always this (not given: 0.02 "
            "to 0.33)"},
    {.name = "ratio",
     .type = SP_PARAM_FLOATS,
     .offset = offsetof(erase_params, ratio),
     .min = 1e-3,
     .max = 1e3,
     .min_n = 1,
     .max_n = 2,
     .doc = "its height over its width, from and to, even on a scale of logarithms (not given: 0.3 to 3.3)"},
    AUG_SIZE_PARAM(
        "size", offsetof(erase_params, size), 0,
        "cutout, in place of `scale` and `ratio`: height and width of a rectangle around any pixel, cut by the "
        "image's edges; one number: square"),
    {.name = "p",
     .type = SP_PARAM_FLOATS,
     .offset = offsetof(erase_params, probability),
     .min = 0,
     .max = 1,
     .min_n = 1,
     .max_n = 1,
     .doc = "probability of erasing something of a sample (not given: 0.5, with `size` 1)"},
    {.name = "value",
     .type = SP_PARAM_FLOATS,
     .offset = offsetof(erase_params, value),
     .def_str = "0",
     .min = -1e30,
     .max = 1e30,
     .min_n = 1,
     .max_n = 4,
     .doc = "what images get there: one number, or one a channel, up to 4"},
    {.name = "noise",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(erase_params, noise),
     .min = 0,
     .max = 1e30,
     .doc = "standard deviation of normal noise that is added to `value`; bytes are rounded and cut off at 0 and 255"},
    {.name = "erase_masks", /* `masks` is the port */
     .type = SP_PARAM_BOOL,
     .offset = offsetof(erase_params, masks),
     .doc = "masks are erased likewise, with `mask_fill`; otherwise they stay as they are"},
    {.name = "mask_fill",
     .type = SP_PARAM_INT,
     .offset = offsetof(erase_params, mask_fill),
     .idef = 255,
     .imin = INT32_MIN,
     .imax = INT32_MAX,
     .doc = "what masks get there: the label that the loss ignores, 255 in label masks here"},
    AUG_DRAW_PARAMS(erase_params, draws),
    {.name = NULL}};

static int in_order(sp_ctx *ctx, const char *what, const sp_floats *v) {
  if (v->n < 2 || v->v[0] <= v->v[1]) return SP_OK;
  return ctx->host->fail(ctx, SP_E_RANGE, "'%s' goes from %g down to %g; the smaller number comes first", what, v->v[0],
                         v->v[1]);
}

int erase_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const erase_params *p = self;
  int64_t h, w;
  int rc = in_order(ctx, "scale", &p->scale);
  if (!rc) rc = in_order(ctx, "ratio", &p->ratio);
  if (!rc && p->size.n && (p->scale.n || p->ratio.n))
    rc = ctx->host->fail(ctx, SP_E_RANGE,
                         "'size' and '%s' are both given: leave out 'size' for rectangles by area and ratio, the other "
                         "for those of one size",
                         p->scale.n ? "scale" : "ratio");
  if (!rc) rc = aug_plan_in(ctx, plan, &h, &w);
  if (!rc) rc = aug_check_fill(ctx, plan, "value", &p->value, 1);
  if (!rc && p->masks) rc = aug_check_mask_fill(ctx, plan, p->mask_fill);
  if (!rc) rc = aug_plan_out(plan, h, w, 0);
  return rc ? rc : aug_plan_drawn(ctx, plan, SP_I32, 4, "boxes");
}

erase_range erase_range_of(const erase_params *p, int32_t h, int32_t w) {
  double area = (double)h * (double)w;
  erase_range r = {.h = h, .w = w, .probability = p->probability.n ? (float)p->probability.v[0] : p->size.n ? 1 : 0.5f};
  if (p->size.n) {
    r.side_h = (int32_t)p->size.v[0];
    r.side_w = (int32_t)p->size.v[p->size.n - 1];
  }
  r.area_lo = area * (p->scale.n ? p->scale.v[0] : 0.02);
  r.area_hi = area * (p->scale.n ? p->scale.v[p->scale.n - 1] : 0.33);
  r.log_lo = log(p->ratio.n ? p->ratio.v[0] : 0.3);
  r.log_hi = log(p->ratio.n ? p->ratio.v[p->ratio.n - 1] : 3.3);
  return r;
}

erase_how erase_how_of(const sp_io *io, const erase_params *p) {
  erase_how how = {.noise = (float)p->noise,
                   .values = (int32_t)p->value.n,
                   .mask_fill = aug_mask_fill(io, p->mask_fill),
                   .masks = p->masks};
  for (uint32_t c = 0; c < p->value.n; c++) how.value[c] = (float)p->value.v[c];
  return how;
}

int erase_check_ids(sp_ctx *ctx, const erase_params *p, const sp_io *io) {
  if (p->noise == 0 || io->ids) return SP_OK;
  return ctx->host->fail(ctx, SP_E_STATE,
                         "noise is drawn by the ids of samples, but the graph has no source; leave 'noise' out");
}
