/* SPDX-License-Identifier: MIT
 * normalize.c - ports, parameters and checks of the stage `normalize`, for every device. */
#include "normalize.h"

#include <math.h>

const sp_port norm_inputs[] = {AUG_IN_IMAGES, {.name = NULL}};
const sp_port norm_outputs[] = {{.name = "images",
                                 .dtypes = SP_DT(SP_F32),
                                 .ndim = 4,
                                 .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
                                 .doc = "(x - mean) / std as float32, in the order of the images"},
                                {.name = NULL}};

const sp_param norm_param_table[] = {
    {.name = "mean",
     .type = SP_PARAM_FLOATS,
     .offset = offsetof(norm_params, mean),
     .def_str = "0",
     .min_n = 1,
     .max_n = NORM_MAX,
     .doc = "what is subtracted: one number, or one a channel"},
    {.name = "std",
     .type = SP_PARAM_FLOATS,
     .offset = offsetof(norm_params, std),
     .def_str = "1",
     .min_n = 1,
     .max_n = NORM_MAX,
     .doc = "what the difference is divided by: one positive number, or one a channel"},
    {.name = "scale",
     .type = SP_PARAM_BOOL,
     .offset = offsetof(norm_params, scale),
     .doc = "multiply bytes by 1/255 first, so that mean and std are those of values 0..1; only for uint8 images"},
    {.name = NULL}};

static int check_numbers(sp_ctx *ctx, const norm_params *p) {
  for (uint32_t i = 0; i < p->mean.n; i++)
    if (!isfinite((float)p->mean.v[i]))
      return ctx->host->fail(ctx, SP_E_RANGE, "number %u of 'mean' is %g; it must be a finite float32", i + 1,
                             p->mean.v[i]);
  for (uint32_t i = 0; i < p->std.n; i++) {
    float std = (float)p->std.v[i]; /* as it is used: what rounds to 0 divides by 0 */
    if (!isfinite(std) || std <= 0)
      return ctx->host->fail(ctx, SP_E_RANGE, "number %u of 'std' is %g; it must be a positive, finite float32", i + 1,
                             p->std.v[i]);
  }
  return SP_OK;
}

static int check_length(sp_ctx *ctx, const char *name, const sp_floats *f, uint32_t image, int64_t channels) {
  if (f->n == 1 || (int64_t)f->n == channels) return SP_OK;
  return ctx->host->fail(ctx, SP_E_SHAPE,
                         "'%s' has %u numbers, but image %u has %lld channels; give one for all, or one a channel",
                         name, f->n, image + 1, (long long)channels);
}

int norm_check(sp_ctx *ctx, const norm_params *p, const sp_plan *plan) {
  int rc = check_numbers(ctx, p);
  if (rc) return rc;
  for (uint32_t i = 0; i < plan->in[AUG_IMAGES].n; i++) {
    const sp_spec *s = &plan->in[AUG_IMAGES].spec[i];
    if ((rc = check_length(ctx, "mean", &p->mean, i, s->shape[1]))) return rc;
    if ((rc = check_length(ctx, "std", &p->std, i, s->shape[1]))) return rc;
    if (p->scale && s->dtype != SP_U8)
      return ctx->host->fail(
          ctx, SP_E_INVALID,
          "'scale' turns bytes into 0..1, but image %u is float32; leave it out, or wire uint8 images", i + 1);
  }
  return SP_OK;
}

int norm_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  int64_t h, w;
  plan->stepless = 1;
  int rc = aug_plan_in(ctx, plan, &h, &w);
  if (!rc) rc = norm_check(ctx, self, plan);
  return rc ? rc : aug_plan_out(plan, h, w, SP_F32);
}

void norm_terms_of(const norm_params *p, norm_terms *t) {
  t->n = (int32_t)(p->mean.n > p->std.n ? p->mean.n : p->std.n);
  t->by = p->scale ? 1.0f / 255.0f : 1.0f;
  for (int32_t i = 0; i < t->n; i++) {
    t->mean[i] = (float)p->mean.v[p->mean.n > 1 ? i : 0];
    t->std[i] = (float)p->std.v[p->std.n > 1 ? i : 0];
  }
}
