/* SPDX-License-Identifier: MIT
 * tones.c - ports, parameters and checks of the stages of the module `tones`, for every device. */
#include "tones_types.h"

#include <stdlib.h>

#define CHANGES \
  "what is done to each sample, N x 2: 1, or 0 for nothing, and the number it is done by; more columns for more steps"
const sp_port tones_inputs[] = {
    AUG_IN_IMAGES, AUG_IN_MASKS, AUG_PORT_DRAWN("changes", SP_F32, 2, CHANGES "; not wired: drawn"), {.name = NULL}};
const sp_port tones_outputs[] = {AUG_PORT_IMAGES("the images, of the same type and order"),
                                 AUG_PORT_MASKS("the masks, moved where the image is, else as they were"),
                                 AUG_PORT_DRAWN("changes", SP_F32, 2, CHANGES),
                                 AUG_PORT_STATUS,
                                 {.name = NULL}};

/* ---- parameters ---- */
#define AT(member) .offset = offsetof(tones_params, member)
#define P(usual)                                                                  \
  {                                                                               \
    .name = "p", .type = SP_PARAM_FLOAT, AT(p), .def = usual, .min = 0, .max = 1, \
    .doc = "probability that a sample is changed"                                 \
  }
#define RANGE(word, usual, least, most, words)                                                                 \
  {                                                                                                            \
    .name = word, .type = SP_PARAM_FLOATS, AT(range), .def_str = usual, .min = least, .max = most, .min_n = 1, \
    .max_n = 2, .doc = words ", uniform in {lo, hi}; one number: always that"                                  \
  }
#define WHOLE(word, usual, least, most, words)                                                                 \
  {                                                                                                            \
    .name = word, .type = SP_PARAM_INTS, AT(whole), .def_str = usual, .imin = least, .imax = most, .min_n = 1, \
    .max_n = 2, .doc = words ", one of lo to hi where it is {lo, hi}; one number: always that"                 \
  }
#define MAX                                                                                                     \
  {                                                                                                             \
    .name = "max", .type = SP_PARAM_INT, AT(max), .idef = 1, .imin = 1, .imax = 255,                            \
    .doc = "what white is in float images: 1, or 255 as to_float gives it without scale; bytes have 255 anyway" \
  }
#define FILL(words)                                                                                         \
  {                                                                                                         \
    .name = "fill", .type = SP_PARAM_FLOATS, AT(fill), .def_str = "0", .min = -1e6, .max = 1e6, .min_n = 1, \
    .max_n = 4, .doc = words ", in the images' own values: one number, or one a channel"                    \
  }
#define END \
  AUG_DRAW_PARAMS(tones_params, draws), { .name = NULL }
#define MOVED                                                                                          \
  FILL("what comes in from outside of an image"),                                                      \
      {.name = "mask_fill",                                                                            \
       .type = SP_PARAM_INT,                                                                           \
       AT(mask_fill),                                                                                  \
       .idef = 255,                                                                                    \
       .imin = INT32_MIN,                                                                              \
       .imax = INT32_MAX,                                                                              \
       .doc = "what masks get there: the label that the loss ignores"},                                \
      MAX, {                                                                                           \
    .name = "num_magnitude_bins", .type = SP_PARAM_INT, AT(bins), .idef = 31, .imin = 2, .imax = 1024, \
    .doc = "how many magnitudes there are, from none to the strongest"                                 \
  }

const sp_param solarize_param_table[] = {
    RANGE("threshold", "0.5", 0, 1, "the least brightness that is inverted, a part of white (128 of 255 is 0.502)"),
    P(0.5), MAX, END};
const sp_param posterize_param_table[] = {WHOLE("bits", "4", 0, 8, "bits of 8 that stay of each value"), P(0.5), MAX,
                                          END};
const sp_param invert_param_table[] = {P(0.5), MAX, END};
const sp_param gamma_param_table[] = {RANGE("gamma", "0.7,1.5", 0, 100, "the exponent, above 1 is darker"),
                                      {.name = "gain",
                                       .type = SP_PARAM_FLOAT,
                                       AT(gain),
                                       .def = 1,
                                       .min = 0,
                                       .max = 1e6,
                                       .doc = "what the power is multiplied with"},
                                      P(0.5),
                                      MAX,
                                      END};
const sp_param autocontrast_param_table[] = {P(0.5), MAX, END};
const sp_param equalize_param_table[] = {P(0.5), MAX, END};
const sp_param grey_param_table[] = {P(0.1), END};
const sp_param channel_drop_param_table[] = {WHOLE("drop", "1", 1, TONES_DROPPED, "how many channels are dropped"),
                                             FILL("what dropped channels hold"), P(0.5), END};
const sp_param sharpness_param_table[] = {RANGE("factor", "0.5,2", 0, 1e6, "0 smooths, 1 changes nothing, 2 sharpens"),
                                          P(0.5), MAX, END};
const sp_param gaussian_noise_param_table[] = {RANGE("sigma", "0.1", 0, 100, "the standard deviation, a part of white"),
                                               {.name = "mean",
                                                .type = SP_PARAM_FLOAT,
                                                AT(mean),
                                                .min = -100,
                                                .max = 100,
                                                .doc = "the mean of the noise, a part of white"},
                                               {.name = "clip",
                                                .type = SP_PARAM_BOOL,
                                                AT(clip),
                                                .idef = 1,
                                                .doc = "cut float images to 0..max; bytes are cut anyway"},
                                               P(1),
                                               MAX,
                                               END};
const sp_param jpeg_noise_param_table[] = {WHOLE("quality", "25,100", 1, 100, "JPEG's quality, 1 is the worst"), P(1),
                                           MAX, END};
const sp_param rand_augment_param_table[] = {{.name = "num_ops",
                                              .type = SP_PARAM_INT,
                                              AT(num_ops),
                                              .idef = 2,
                                              .imin = 1,
                                              .imax = TONES_STEPS,
                                              .doc = "operations for each sample, one after another"},
                                             {.name = "magnitude",
                                              .type = SP_PARAM_INT,
                                              AT(magnitude),
                                              .idef = 9,
                                              .imin = 0,
                                              .imax = 1023,
                                              .doc = "how strong all of them are, below num_magnitude_bins"},
                                             MOVED,
                                             END};
const sp_param trivial_augment_param_table[] = {MOVED, END};

/* ---- instances ---- */
static const char *name_of(int op) {
  switch (op) {
#define NAME(id, number, words) \
  case number: return #id;
    TONES_STAGES(NAME)
#undef NAME
    default: return "";
  }
}

static const char *number_of(int op) {
  return op == TONES_SOLARIZE    ? "threshold"
         : op == TONES_POSTERIZE ? "bits"
         : op == TONES_GAMMA     ? "gamma"
         : op == TONES_SHARPNESS ? "factor"
         : op == TONES_NOISE     ? "sigma"
         : op == TONES_JPEG      ? "quality"
                                 : "drop";
}

static int check_range(sp_ctx *ctx, const tones_how *how) {
  if (how->lo <= how->hi) return SP_OK;
  return ctx->host->fail(ctx, SP_E_RANGE, "parameter '%s': {%g, %g} ends before it begins; write {%g, %g}",
                         number_of(how->op), (double)how->lo, (double)how->hi, (double)how->hi, (double)how->lo);
}

int tones_create(sp_ctx *ctx, int op, const void *params, void **self) {
  const tones_params *p = params;
  tones_how how = {.op = op, .steps = op == TONES_RAND ? (int32_t)p->num_ops : 1, .p = (float)p->p};
  how.max = p->max == 255 ? 255.0f : 1.0f;
  how.gain = (float)p->gain;
  how.mean = (float)p->mean;
  how.clip = p->clip;
  how.mask_fill = (int32_t)p->mask_fill;
  how.bins = (int32_t)p->bins;
  how.bin = (int32_t)p->magnitude;
  how.whole = p->whole.n > 0;
  if (how.whole) how.lo = (float)p->whole.v[0], how.hi = (float)p->whole.v[p->whole.n - 1];
  else if (p->range.n) how.lo = (float)p->range.v[0], how.hi = (float)p->range.v[p->range.n - 1];
  how.fills = p->fill.n ? (int32_t)p->fill.n : 1;
  for (uint32_t i = 0; i < p->fill.n; i++) how.fill[i] = (float)p->fill.v[i];
  if (op != TONES_GREY && op != TONES_DROP && p->max != 1 && p->max != 255)
    return ctx->host->fail(ctx, SP_E_RANGE, "parameter 'max': %lld is neither 1 nor 255", (long long)p->max);
  if (op == TONES_RAND && how.bin >= how.bins)
    return ctx->host->fail(ctx, SP_E_RANGE, "parameter 'magnitude': %d is not below num_magnitude_bins, %d",
                           (int)how.bin, (int)how.bins);
  int status = check_range(ctx, &how);
  if (status) return status;
  tones_self *s = malloc(sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory");
  *s = (tones_self){p, how};
  *self = s;
  return SP_OK;
}

void tones_destroy(void *self) { free(self); }

/* Operations that mix channels know RGB and grey alone. */
static int check_channels(sp_ctx *ctx, const tones_how *how, const sp_speclist *images) {
  int colours = how->op == TONES_GREY || how->op == TONES_JPEG || how->op >= TONES_OPS;
  for (uint32_t i = 0; i < images->n; i++) {
    long long c = images->spec[i].shape[1];
    if (colours && c != 1 && c != 3)
      return ctx->host->fail(
          ctx, SP_E_SHAPE,
          "wrong channel count: image %u has %lld channels, but %s needs 3 (RGB) or 1 (grey); leave it out", i + 1, c,
          name_of(how->op));
    if (how->op == TONES_DROP && (c < (long long)how->hi || c > TONES_DROPPED || c != images->spec->shape[1]))
      return ctx->host->fail(
          ctx, SP_E_SHAPE,
          "wrong channel count: image %u has %lld channels, image 1 %lld; at least as many as 'drop' has, "
          "%g, at most %d, and as many in all images are possible",
          i + 1, c, (long long)images->spec->shape[1], (double)how->hi, TONES_DROPPED);
    if (how->fills > 1 && c % how->fills)
      return ctx->host->fail(ctx, SP_E_SHAPE, "parameter 'fill': %d numbers, but image %u has %lld channels",
                             (int)how->fills, i + 1, c);
    if (images->spec[i].dtype == SP_U8)
      for (int k = 0; k < how->fills; k++)
        if (!(how->fill[k] >= 0 && how->fill[k] <= 255))
          return ctx->host->fail(ctx, SP_E_RANGE,
                                 "parameter 'fill': %g is no byte, as image %u has them; 0..255 is possible",
                                 (double)how->fill[k], i + 1);
  }
  return SP_OK;
}

int tones_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  tones_how *how = &((tones_self *)self)->how;
  int64_t h, w;
  int status = aug_plan_in(ctx, plan, &h, &w);
  if (!status) status = check_channels(ctx, how, &plan->in[AUG_IMAGES]);
  if (!status) status = aug_plan_out(plan, h, w, 0);
  if (status) return status;
  how->channels = (int32_t)plan->in[AUG_IMAGES].spec->shape[1];
  how->h = (int32_t)h;
  how->w = (int32_t)w;
  if (how->op >= TONES_OPS && (status = aug_check_mask_fill(ctx, plan, how->mask_fill))) return status;
  return aug_plan_drawn(ctx, plan, SP_F32, tones_columns(how), "changes");
}
