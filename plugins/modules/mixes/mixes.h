/* SPDX-License-Identifier: MIT
 * mixes.h - images mixed with those of another sample of the batch, labels along: ports, parameters and draws of
 * `mixup`, `cutmix` and `mixup_or_cutmix`, for every device. */
#ifndef MIXES_H
#define MIXES_H

#include "../../kits/aug/aug.h"
#include "../../kits/aug/draw.h"
#include "../../kits/aug/normal.h"
#include "../../kits/labels/labels.h"

/* Two kinds of bad data: a label, and a row of `mixes`. */
#define MIXES_STATUS_DOC                                \
  "sample %sample: label %value is outside 0..%limit\n" \
  "sample %sample: %float on 'mixes' is neither a share of 0 to 1 nor a side of a box inside of the image"

/* DO(stage, words). */
#define MIXES_STAGES(DO)                                                                                              \
  DO(mixup, "Mixes each image with that of the sample before it in the batch, and their labels by the same shares")   \
  DO(cutmix, "Pastes a rectangle of the sample before it in the batch into each image, and mixes labels by its area") \
  DO(mixup_or_cutmix, "Mixes each image as `mixup` does, or as `cutmix` does, by chance")

enum { MIXES_IN_LABELS = AUG_DRAWN + 1 };
enum { MIXES_OUT_LABELS = AUG_STATUS + 1, MIXES_OUT_MAIN };
enum { MIXES_SHARE, MIXES_TOP, MIXES_LEFT, MIXES_HEIGHT, MIXES_WIDTH, MIXES_COLUMNS };

#define MIXES_TRIES 32

typedef struct mixes_params {
  aug_draws draws;
  double mixup_alpha, cutmix_alpha, probability, cutmix_part;
  int64_t classes;
} mixes_params;

/* A row of `mixes`: what the sample keeps outside of the box, in which it keeps nothing. Whole numbers of pixels. */
typedef struct mixes_row {
  float share, top, left, h, w;
} mixes_row;

/* What a row is drawn from; an alpha of 0: never. */
typedef struct mixes_range {
  int32_t h, w;
  float probability, cutmix_part;
  double mixup_alpha, cutmix_alpha;
} mixes_range;

/* Labels of a call, of the device. */
typedef struct mixes_labels {
  int64_t n, classes, pixels; /* pixels: of an image */
  const void *labels;         /* NULL: there are none */
  int dtype;                  /* SP_F32: n x classes */
  float *mixed;               /* n x classes, or NULL */
  int64_t *main;              /* n, or NULL */
} mixes_labels;

extern const sp_port mixes_inputs[], mixes_outputs[];
#define MIXES_TABLES(id, words)             \
  extern const sp_param id##_param_table[]; \
  int id##_plan(sp_ctx *ctx, void *self, sp_plan *plan);
MIXES_STAGES(MIXES_TABLES)

mixes_range mixes_range_of(const mixes_params *p, const aug_jobs *jobs);
mixes_labels mixes_labels_of(const sp_io *io, const mixes_params *p, const aug_jobs *jobs);

/* The stage type of one device. */
#define MIXES_TYPE(id, words, where)                                                                               \
  static const sp_stage_type id##_type = {.size = sizeof(sp_stage_type),                                           \
                                          .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT | SP_STAGE_STOCHASTIC, \
                                          .name = #id,                                                             \
                                          .device = where,                                                         \
                                          .doc = words,                                                            \
                                          .inputs = mixes_inputs,                                                  \
                                          .outputs = mixes_outputs,                                                \
                                          .params = id##_param_table,                                              \
                                          .params_size = sizeof(mixes_params),                                     \
                                          .status_doc = MIXES_STATUS_DOC,                                          \
                                          .create = stateless_create,                                              \
                                          .destroy = stateless_destroy,                                            \
                                          .plan = id##_plan,                                                       \
                                          .forward = forward};
#define MIXES_POINTER(id, words) &id##_type,

/* The sample that sample i is mixed with. */
SP_RNG_FN int64_t mixes_other(int64_t i, int64_t n) { return i ? i - 1 : n - 1; }

/* 1 / (1 + e^d) */
SP_RNG_FN double mixes_odds(double d) {
  if (d > 700) return 0;
  return d < -700 ? 1 : 1 / AUG_DADD(1.0, aug_exp(d));
}

/* The logarithm of a uniform number above 0. */
SP_RNG_FN double mixes_log(uint32_t bits) { return (double)aug_log_part((bits >> 8) + 1u); }

/* A number of the distribution Beta(alpha, alpha): by Joehnk's method up to 1, by Ulrich's above. */
SP_RNG_FN double mixes_beta(const aug_dice *dice, int64_t sample, double alpha) {
  uint32_t k;
  if (alpha > 1) {
    sp_rng4 r = aug_roll(dice, sample, 1);
    double rest = aug_exp(mixes_log(r.v[0]) * 2 / AUG_DADD(AUG_DMUL(2.0, alpha), -1.0));
    double turn = aug_sine(AUG_DMUL((double)(r.v[1] >> 8), 6.283185307179586 / 16777216.0), 1);
    return AUG_DADD(0.5, AUG_DMUL(0.5, AUG_DMUL(turn, sqrt(AUG_DADD(1.0, -rest)))));
  }
  for (k = 1; k <= MIXES_TRIES; k++) {
    sp_rng4 r = aug_roll(dice, sample, k);
    double x = mixes_log(r.v[0]) / alpha, y = mixes_log(r.v[1]) / alpha;
    double a = x < -700 ? 0 : aug_exp(x), b = y < -700 ? 0 : aug_exp(y);
    if (AUG_DADD(a, b) <= 1) return mixes_odds(AUG_DADD(y, -x));
  }
  return 0.5;
}

/* A box of the part 1 - lambda of the image around any of its pixels, cut by its edges, as torchvision has it. */
SP_RNG_FN void mixes_box(const mixes_range *r, double lambda, uint32_t high, uint32_t wide, mixes_row *row) {
  double half = AUG_DMUL(0.5, sqrt(AUG_DADD(1.0, -lambda)));
  int32_t half_h = (int32_t)AUG_DMUL(half, (double)r->h), half_w = (int32_t)AUG_DMUL(half, (double)r->w);
  int32_t y = (int32_t)sp_rng_below(high, (uint32_t)r->h), x = (int32_t)sp_rng_below(wide, (uint32_t)r->w);
  int32_t top = y > half_h ? y - half_h : 0, left = x > half_w ? x - half_w : 0;
  row->top = (float)top;
  row->left = (float)left;
  row->h = (float)((y + half_h < r->h ? y + half_h : r->h) - top);
  row->w = (float)((x + half_w < r->w ? x + half_w : r->w) - left);
}

/* The row of a sample, if nobody gives it. */
SP_RNG_FN mixes_row mixes_draw(const aug_dice *dice, int64_t sample, const mixes_range *r) {
  mixes_row row = {1, 0, 0, 0, 0};
  sp_rng4 a;
  int cut;
  if (!aug_chance(dice)) return row;
  a = aug_roll(dice, sample, 0);
  if (sp_rng_float(a.v[0]) >= r->probability) return row;
  cut = r->mixup_alpha == 0 || (r->cutmix_alpha > 0 && sp_rng_float(a.v[1]) < r->cutmix_part);
  if (cut) mixes_box(r, mixes_beta(dice, sample, r->cutmix_alpha), a.v[2], a.v[3], &row);
  else row.share = (float)mixes_beta(dice, sample, r->mixup_alpha);
  return row;
}

SP_RNG_FN int mixes_no_pixels(float v, int32_t most) { return !(v >= 0 && v <= (float)most && v == rintf(v)); }

/* Whether a row that is given is none, and its number that is wrong. */
SP_RNG_FN int mixes_bad(const mixes_range *r, const mixes_row *row, float *value) {
  *value = row->share;
  if (!(row->share >= 0 && row->share <= 1)) return 1;
  *value = row->top;
  if (mixes_no_pixels(row->top, r->h)) return 1;
  *value = row->left;
  if (mixes_no_pixels(row->left, r->w)) return 1;
  *value = row->h;
  if (mixes_no_pixels(row->h, r->h - (int32_t)row->top)) return 1;
  *value = row->w;
  return mixes_no_pixels(row->w, r->w - (int32_t)row->left);
}

/* What part of a label is the sample's own. */
SP_RNG_FN double mixes_own(const mixes_row *row, int64_t pixels) {
  double box = AUG_DMUL((double)row->h, (double)row->w) / (double)pixels;
  return AUG_DMUL((double)row->share, AUG_DADD(1.0, -box));
}

SP_RNG_FN float mixes_value(float x, float other, float own, float rest) {
  return AUG_ADD(AUG_MUL(other, rest), AUG_MUL(x, own));
}

SP_RNG_FN float mixes_label(const mixes_labels *l, int64_t sample, int64_t c) {
  if (l->dtype == SP_F32) return ((const float *)l->labels)[sample * l->classes + c];
  return label_at(l->labels, l->dtype, sample) == c ? 1.0f : 0.0f;
}

/* The labels of a sample. */
SP_RNG_FN void mixes_mix_labels(const mixes_labels *l, const mixes_row *row, int64_t sample) {
  int64_t other = mixes_other(sample, l->n), c, best = 0;
  double share = mixes_own(row, l->pixels);
  float own = (float)share, rest = (float)AUG_DADD(1.0, -share), most = -1;
  if (!l->labels) {
    if (l->mixed) l->mixed[sample] = own;
    if (l->main) l->main[sample] = 0;
    return;
  }
  for (c = 0; c < l->classes; c++) {
    float v = mixes_label(l, sample, c);
    if (share != 1) v = mixes_value(v, mixes_label(l, other, c), own, rest);
    if (v > most) most = v, best = c;
    if (l->mixed) l->mixed[sample * l->classes + c] = v;
  }
  if (l->main) l->main[sample] = best;
}

/* Whether the label of a sample is no class; of numbers none is. */
SP_RNG_FN int mixes_bad_label(const mixes_labels *l, int64_t sample, int64_t *value) {
  if (!l->labels || l->dtype == SP_F32) return 0;
  *value = label_at(l->labels, l->dtype, sample);
  return *value < 0 || *value >= l->classes;
}

/* Tells a STATUS port of the first bad sample; a label comes before a row. */
SP_RNG_FN void mixes_tell(int64_t *status, const mixes_labels *l, const mixes_range *r, const mixes_row *given,
                          const uint64_t *ids, int64_t label, int64_t row) {
  int64_t i = label >= 0 ? label : row;
  float value;
  uint32_t bits;
  status[0] = status[1] = status[2] = status[3] = 0;
  if (i < 0) return;
  status[0] = label >= 0 ? SP_E_DATA : SP_E_RANGE;
  status[1] = ids ? (int64_t)ids[i] : i;
  status[3] = l->classes - 1;
  if (label >= 0) {
    mixes_bad_label(l, i, &status[2]);
    return;
  }
  mixes_bad(r, &given[i], &value);
  memcpy(&bits, &value, sizeof bits);
  status[2] = (int64_t)bits;
}

#endif
