/* SPDX-License-Identifier: MIT
 * augment.c - ports, parameters and checks of the stage `augment`, for every device. */
#include "augment.h"

const sp_port augment_inputs[] = {AUG_IN_IMAGES,    AUG_IN_MASKS,   CROP_IN_BOXES,
                                  ROTATE_IN_ANGLES, BLUR_IN_SIGMAS, {.name = NULL}};
const sp_port augment_outputs[] = {
    {.name = "images",
     .dtypes = SP_DT(SP_F32),
     .ndim = 4,
     .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
     .doc = "the images, N x C x size, as float32, in the order that they had"},
    AUG_PORT_MASKS("the masks, N x size, of the type that they had"),
    AUG_PORT_DRAWN("boxes", SP_I32, 2, "where the windows began, N x 2: top and left"),
    AUG_PORT_DRAWN("angles", SP_F32, 1, "the angles, in degrees"),
    AUG_PORT_DRAWN("sigmas", SP_F32, 1, "the sigma of each sample; 0: it was not blurred"),
    AUG_PORT_STATUS,
    {.name = NULL}};

const sp_param augment_param_table[] = {
    AUG_SIZE_PARAM("crop", offsetof(augment_params, crop.size), 0,
                   "height and width of the window; one number: square; not given: the whole image"),
    {.name = "mode",
     .type = SP_PARAM_CHOICE,
     .offset = offsetof(augment_params, crop.mode),
     .idef = CROP_EXACT,
     .choices = crop_modes,
     .doc =
         "of the window, as batch_crop has it: its pixels, or roi_align: means of two by two; masks are copied either "
         "way"},
    AUG_SIZE_PARAM("size", offsetof(augment_params, resize.size), 0,
                   "height and width that the window is enlarged to; one number: square; not given: it keeps its size"),
    {.name = "degrees",
     .type = SP_PARAM_FLOATS,
     .offset = offsetof(augment_params, rotate.degrees),
     .def_str = "0",
     .min = -3600,
     .max = 3600,
     .min_n = 1,
     .max_n = 2,
     .unit = "degrees",
     .doc = "lowest and highest angle of the turn; one number d: -d to d"},
    {.name = "fill",
     .type = SP_PARAM_FLOATS,
     .offset = offsetof(augment_params, rotate.fill),
     .def_str = "0",
     .min = -1e30,
     .max = 1e30,
     .min_n = 1,
     .max_n = 4,
     .doc = "what images get outside of the original, before they are blurred and normalized: one number, or one a "
            "channel, up to 4"},
    ROTATE_MASK_FILL(offsetof(augment_params, rotate.mask_fill)),
    {.name = "kernel",
     .type = SP_PARAM_INTS,
     .offset = offsetof(augment_params, blur.kernel),
     .def_str = "0",
     .imin = 0,
     .imax = BLUR_MAX,
     .min_n = 1,
     .max_n = 2,
     .unit = "px",
     .doc = "width and height of the kernel that blurs, odd; one number: square; 0: no blur"},
    BLUR_SIGMA(offsetof(augment_params, blur.sigma)),
    {.name = "mean",
     .type = SP_PARAM_FLOATS,
     .offset = offsetof(augment_params, norm.mean),
     .def_str = "0",
     .min_n = 1,
     .max_n = NORM_MAX,
     .doc = "what is subtracted at the end: one number, or one a channel"},
    {.name = "std",
     .type = SP_PARAM_FLOATS,
     .offset = offsetof(augment_params, norm.std),
     .def_str = "1",
     .min_n = 1,
     .max_n = NORM_MAX,
     .doc = "what the difference is divided by: one positive number, or one a channel"},
    {.name = "scale",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(augment_params, norm.scale),
     .doc = "multiply by 1/255 before the mean is subtracted, so that mean and std are those of values 0..1; only for "
            "uint8 images"},
    AUG_DRAW_PARAMS(augment_params, crop.draws),
    {.name = NULL}};

/* Height and width: as given, or those before. */
static void size_of(const sp_ints *size, int64_t h, int64_t w, int64_t *high, int64_t *wide) {
  *high = size->n ? size->v[0] : h;
  *wide = size->n ? size->v[size->n - 1] : w;
}

static int has_kernel(const blur_params *p) { return p->kernel.v[0] || p->kernel.v[p->kernel.n - 1]; }

static int check_blur(sp_ctx *ctx, const augment_params *p, const sp_plan *plan, int64_t high, int64_t wide) {
  if (!has_kernel(&p->blur)) {
    if (!plan->in[AUGMENT_SIGMAS].n) return SP_OK;
    return ctx->host->fail(ctx, SP_E_INVALID, "'sigmas' is wired, but nothing is blurred: give 'kernel'");
  }
  int rc = blur_check_params(ctx, &p->blur);
  return rc ? rc : blur_check(ctx, &p->blur, high, wide);
}

int augment_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const augment_params *p = self;
  int64_t h, w, crop_h, crop_w, high, wide;
  int rc = aug_plan_in(ctx, plan, &h, &w);
  if (rc) return rc;
  size_of(&p->crop.size, h, w, &crop_h, &crop_w);
  size_of(&p->resize.size, crop_h, crop_w, &high, &wide);
  if ((rc = crop_check(ctx, crop_h, crop_w, h, w))) return rc;
  if (high < crop_h || wide < crop_w)
    return ctx->host->fail(
        ctx, SP_E_SHAPE,
        "a window of %lld x %lld cannot become %lld x %lld: this stage enlarges only; use the stages "
        "batch_crop, resize, batch_rotate, blur and normalize, or a smaller 'crop'",
        (long long)crop_h, (long long)crop_w, (long long)high, (long long)wide);
  if (high * wide > AUG_MAX_PIXELS)
    return ctx->host->fail(ctx, SP_E_SHAPE, "a result of %lld x %lld has more than %d pixels; choose a smaller 'size'",
                           (long long)high, (long long)wide, AUG_MAX_PIXELS);
  if ((rc = rotate_check(ctx, &p->rotate, plan, 0)) || (rc = check_blur(ctx, p, plan, high, wide)) ||
      (rc = norm_check(ctx, &p->norm, plan)) || (rc = aug_plan_out(plan, high, wide, SP_F32)) ||
      (rc = aug_plan_port(ctx, plan, AUGMENT_BOXES, SP_I32, 2, "boxes")) ||
      (rc = aug_plan_port(ctx, plan, AUGMENT_ANGLES, SP_F32, 1, "angles")) ||
      (rc = aug_plan_port(ctx, plan, AUGMENT_SIGMAS, SP_F32, 1, "sigmas")))
    return rc;
  plan->out[AUGMENT_STATUS].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {4}};
  return SP_OK;
}

augment_how augment_how_of(const augment_params *p, const aug_job *j) {
  int64_t high, wide;
  size_of(&p->crop.size, j->h, j->w, &high, &wide);
  return (augment_how){.top_most = (int32_t)(j->h - high),
                       .left_most = (int32_t)(j->w - wide),
                       .mode = p->crop.mode,
                       .x = resize_axis_of((int32_t)wide, j->out_w, 1),
                       .y = resize_axis_of((int32_t)high, j->out_h, 1),
                       .turn = rotate_how_of(&p->rotate),
                       .blurs = has_kernel(&p->blur),
                       .rx = blur_rx(&p->blur),
                       .ry = blur_ry(&p->blur),
                       .lo = blur_lo(&p->blur),
                       .hi = blur_hi(&p->blur)};
}
