/* SPDX-License-Identifier: MIT
 * mixes.c - ports, parameters and checks of `mixup`, `cutmix` and `mixup_or_cutmix`, for every device. */
#include "mixes.h"

const sp_port mixes_inputs[] = {
    AUG_IN_IMAGES,
    AUG_IN_MASKS,
    AUG_PORT_DRAWN(
        "mixes", SP_F32, 2,
        "N x 5: the sample's share outside of the box, 0 to 1, and the box that the other one fills, top, left, "
        "height, width, in whole pixels; not wired: drawn"),
    {.name = "labels",
     .dtypes = LABEL_DTYPES | SP_DT(SP_F32),
     .ndim = -1,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "N class numbers, or N x C, float32: what each class counts"},
    {.name = NULL}};
const sp_port mixes_outputs[] = {
    AUG_PORT_IMAGES("the images, mixed, of the same shape, type and order"),
    AUG_PORT_MASKS("the masks, with what the box brought along"),
    AUG_PORT_DRAWN("mixes", SP_F32, 2, "how each sample was mixed, N x 5: its share, and the box"),
    AUG_PORT_STATUS,
    {.name = "labels",
     .dtypes = SP_DT(SP_F32),
     .ndim = 2,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "N x C: what each class counts, by shares; where no labels are wired N x 1, the sample's own share"},
    {.name = "main",
     .dtypes = SP_DT(SP_I64),
     .ndim = 1,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "N class numbers: the one that counts most, for accuracy"},
    {.name = NULL}};

#define ALPHA(word, at, words)                                                                                      \
  {                                                                                                                 \
    .name = word, .type = SP_PARAM_FLOAT, .offset = offsetof(mixes_params, at), .def = 1, .min = 0.01, .max = 1000, \
    .doc = words                                                                                                    \
  }
#define MIXES_PART(word, at, value, words)                                                                        \
  {                                                                                                               \
    .name = word, .type = SP_PARAM_FLOAT, .offset = offsetof(mixes_params, at), .def = value, .min = 0, .max = 1, \
    .doc = words                                                                                                  \
  }
#define REST                                                                 \
  MIXES_PART("p", probability, 1, "probability of mixing a sample"),         \
      {.name = "classes",                                                    \
       .type = SP_PARAM_INT,                                                 \
       .offset = offsetof(mixes_params, classes),                            \
       .idef = 0,                                                            \
       .imin = 0,                                                            \
       .imax = 65536,                                                        \
       .doc = "how many classes there are, where labels are class numbers"}, \
      AUG_DRAW_PARAMS(mixes_params, draws), {                                \
    .name = NULL                                                             \
  }

const sp_param mixup_param_table[] = {
    ALPHA("alpha", mixup_alpha,
          "shares are of Beta(alpha, alpha): 1: even; smaller: most samples keep nearly all or nothing"),
    REST};
const sp_param cutmix_param_table[] = {
    ALPHA("alpha", cutmix_alpha, "the area that is kept is of Beta(alpha, alpha), before edges cut the box"), REST};
const sp_param mixup_or_cutmix_param_table[] = {
    ALPHA("mixup_alpha", mixup_alpha, "of mixup: shares are of Beta(alpha, alpha)"),
    ALPHA("cutmix_alpha", cutmix_alpha, "of cutmix: the area that is kept is of Beta(alpha, alpha)"),
    MIXES_PART("cutmix_part", cutmix_part, 0.5, "probability of cutmix where a sample is mixed"), REST};

static int plan_labels(sp_ctx *ctx, const mixes_params *p, sp_plan *plan) {
  int64_t n = plan->in[AUG_IMAGES].spec->shape[0], classes = p->classes;
  const sp_spec *y = plan->in[MIXES_IN_LABELS].spec;
  int wired = plan->in[MIXES_IN_LABELS].n != 0, soft = wired && y->dtype == SP_F32;
  plan->out[MIXES_OUT_LABELS].n = plan->out[MIXES_OUT_MAIN].n = 1;
  plan->out[MIXES_OUT_LABELS].spec[0] = (sp_spec){.dtype = SP_F32, .ndim = 2, .shape = {n, 1}};
  plan->out[MIXES_OUT_MAIN].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {n}};
  if (!wired) return SP_OK;
  if (y->order != SP_ROW_MAJOR || y->ndim != 1 + soft || y->shape[0] != n)
    return ctx->host->fail(ctx, SP_E_SHAPE,
                           soft ? "labels of float32 must be N x C, a row a sample, and there are %lld samples"
                                : "labels must be %lld class numbers, one a sample",
                           (long long)n);
  if (!soft && !classes)
    return ctx->host->fail(ctx, SP_E_INVALID, "how many classes the labels have is missing: give `classes = N`");
  if (soft && classes && classes != y->shape[1])
    return ctx->host->fail(ctx, SP_E_SHAPE, "classes is %lld, but the labels have %lld", (long long)classes,
                           (long long)y->shape[1]);
  if (soft) classes = y->shape[1];
  plan->out[MIXES_OUT_LABELS].spec[0].shape[1] = classes;
  return SP_OK;
}

static int plan_all(sp_ctx *ctx, const mixes_params *p, sp_plan *plan, int mixes) {
  int64_t h, w;
  int rc = aug_plan_in(ctx, plan, &h, &w);
  if (!rc && mixes && plan->in[AUG_MASKS].n)
    rc = ctx->host->fail(
        ctx, SP_E_UNSUPPORTED,
        "a pixel of a mask has one class, and mixup would give it two: take cutmix, or leave the masks out");
  if (!rc) rc = aug_plan_out(plan, h, w, 0);
  if (!rc) rc = aug_plan_drawn(ctx, plan, SP_F32, MIXES_COLUMNS, "mixes");
  return rc ? rc : plan_labels(ctx, p, plan);
}

int mixup_plan(sp_ctx *ctx, void *self, sp_plan *plan) { return plan_all(ctx, self, plan, 1); }
int cutmix_plan(sp_ctx *ctx, void *self, sp_plan *plan) { return plan_all(ctx, self, plan, 0); }
int mixup_or_cutmix_plan(sp_ctx *ctx, void *self, sp_plan *plan) { return plan_all(ctx, self, plan, 1); }

/* What a stage has no parameter for is 0. */
mixes_range mixes_range_of(const mixes_params *p, const aug_jobs *jobs) {
  return (mixes_range){.h = jobs->job[0].h,
                       .w = jobs->job[0].w,
                       .probability = (float)p->probability,
                       .cutmix_part = (float)p->cutmix_part,
                       .mixup_alpha = p->mixup_alpha,
                       .cutmix_alpha = p->cutmix_alpha};
}

mixes_labels mixes_labels_of(const sp_io *io, const mixes_params *p, const aug_jobs *jobs) {
  mixes_labels l = {.n = jobs->n, .classes = p->classes, .pixels = (int64_t)jobs->job[0].h * jobs->job[0].w};
  l.mixed = io->out[MIXES_OUT_LABELS].t->data;
  l.main = io->out[MIXES_OUT_MAIN].t->data;
  if (!io->in[MIXES_IN_LABELS].n) return l;
  const sp_tensor *y = io->in[MIXES_IN_LABELS].t;
  l.labels = y->data;
  l.dtype = y->spec.dtype;
  if (l.dtype == SP_F32) l.classes = y->spec.shape[1];
  return l;
}
