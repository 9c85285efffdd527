/* SPDX-License-Identifier: MIT
 * elastic.c - ports, parameters and checks of the stage `elastic`, for every device. */
#include "elastic.h"

#define FIELD                                                                                                          \
  "N x H x W x 2: how far to the right and below of a pixel its value comes from, in halves of the image's width and " \
  "height"

const sp_port elastic_inputs[] = {
    AUG_IN_IMAGES,
    AUG_IN_MASKS,
    AUG_PORT_DRAWN("displacements", SP_F32, 4, FIELD "; what is no number is outside; not wired: drawn"),
    {.name = NULL}};
const sp_port elastic_outputs[] = {AUG_PORT_IMAGES("the moved images, of the same shape, type and order"),
                                   AUG_PORT_MASKS("the masks, moved likewise, by the nearest pixel"),
                                   AUG_PORT_DRAWN("displacements", SP_F32, 4, FIELD),
                                   {.name = NULL}};

const sp_param elastic_param_table[] = {{.name = "alpha",
                                         .type = SP_PARAM_FLOATS,
                                         .offset = offsetof(elastic_params, alpha),
                                         .def_str = "50",
                                         .min = 0,
                                         .max = 1e6,
                                         .min_n = 1,
                                         .max_n = 2,
                                         .doc = "how strong displacements are along x and y, before they are smoothed, "
                                                "in half pixels"},
                                        {.name = "sigma",
                                         .type = SP_PARAM_FLOATS,
                                         .offset = offsetof(elastic_params, sigma),
                                         .def_str = "5",
                                         .min = 0,
                                         .max = ELASTIC_MAX_SIGMA,
                                         .min_n = 1,
                                         .max_n = 2,
                                         .unit = "px",
                                         .doc = "sigma of the Gaussian that smooths them along x and y; 0: none"},
                                        WARP_PARAMS(elastic_params, warp, WARP_BILINEAR, 1),
                                        {.name = NULL}};

static double of_axis(const sp_floats *v, int axis) { return v->v[axis && v->n > 1]; }

/* As torchvision's: a kernel of 8 sigma + 1 pixels, cut off to an odd number or made one. */
int elastic_radius(const elastic_params *p, int axis) { return ((int)(8 * of_axis(&p->sigma, axis) + 1)) / 2; }

void elastic_kernel_of(elastic_kernel *k, const elastic_params *p, int axis) {
  double sigma = of_axis(&p->sigma, axis), sum = 1;
  k->radius = elastic_radius(p, axis);
  for (int i = 1; i <= k->radius; i++) sum += 2 * aug_exp(-0.5 * (i / sigma) * (i / sigma));
  k->weight[0] = (float)(1 / sum);
  for (int i = 1; i <= k->radius; i++) k->weight[i] = (float)(aug_exp(-0.5 * (i / sigma) * (i / sigma)) / sum);
}

elastic_range elastic_range_of(const elastic_params *p, int32_t h, int32_t w) {
  return (elastic_range){.h = h,
                         .w = w,
                         .x = (float)(of_axis(&p->alpha, 0) / w),
                         .y = (float)(of_axis(&p->alpha, 1) / h),
                         .probability = (float)p->warp.probability};
}

static int check_given(sp_ctx *ctx, const sp_plan *plan, const sp_spec *want) {
  const sp_spec *in = plan->in[AUG_DRAWN].spec;
  for (int d = 0; d < 4; d++)
    if (in->shape[d] != want->shape[d])
      return ctx->host->fail(ctx, SP_E_SHAPE, "'displacements' must be %lld x %lld x %lld x 2, two numbers a pixel",
                             (long long)want->shape[0], (long long)want->shape[1], (long long)want->shape[2]);
  if (in->order != SP_ROW_MAJOR)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "'displacements' is not row-major in memory");
  return SP_OK;
}

int elastic_check(sp_ctx *ctx, const elastic_params *p, sp_plan *plan, int64_t *h, int64_t *w) {
  int rc = warp_plan(ctx, &p->warp, plan, h, w);
  if (rc) return rc;
  sp_spec field = {.dtype = SP_F32, .ndim = 4, .shape = {plan->in[AUG_IMAGES].spec->shape[0], *h, *w, 2}};
  if (plan->in[AUG_DRAWN].n && (rc = check_given(ctx, plan, &field))) return rc;
  for (int axis = 0; axis < 2 && !plan->in[AUG_DRAWN].n; axis++) {
    int64_t side = axis ? *h : *w;
    if (elastic_radius(p, axis) >= side)
      return ctx->host->fail(
          ctx, SP_E_RANGE,
          "sigma = %g reaches %d pixels to each side, too far for images of %lld x %lld; at most %g is possible",
          of_axis(&p->sigma, axis), elastic_radius(p, axis), (long long)*h, (long long)*w, (double)side / 4 - 0.25);
  }
  plan->out[AUG_DRAWN].n = 1;
  plan->out[AUG_DRAWN].spec[0] = field;
  return SP_OK;
}
