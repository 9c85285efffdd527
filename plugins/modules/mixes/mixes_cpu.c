/* SPDX-License-Identifier: MIT
 * mixes_cpu.c - `mixup`, `cutmix` and `mixup_or_cutmix` on the CPU. */
#include "../../kits/aug/cpu.h"
#include "mixes.h"

#include <string.h>

/* Elements of a row: the same as they were, shares of both, or the other's. */
static void mix_bytes(uint8_t *y, const uint8_t *x, const uint8_t *other, int64_t n, float own, float rest) {
  for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)rintf(mixes_value((float)x[i], (float)other[i], own, rest));
}

static void mix_floats(float *y, const float *x, const float *other, int64_t n, float own, float rest) {
  for (int64_t i = 0; i < n; i++) y[i] = mixes_value(x[i], other[i], own, rest);
}

typedef struct mix {
  const mixes_row *rows;
  int64_t n;
} mix;

static int rows(const void *arg, const aug_part *part, int worker) {
  const mix *m = arg;
  const aug_job *j = part->job;
  const mixes_row *r = &m->rows[part->sample];
  size_t bytes = aug_element(j->dtype);
  int64_t n = (int64_t)j->w * j->pix, other = mixes_other(part->sample, m->n);
  int32_t top = (int32_t)r->top, bottom = top + (int32_t)r->h;
  size_t from = (size_t)r->left * (size_t)j->pix * bytes, length = (size_t)r->w * (size_t)j->pix * bytes;
  float rest = (float)(1 - (double)r->share);
  (void)worker;
  for (int64_t plane = 0; plane < j->planes; plane++)
    for (int32_t i = part->from; i < part->to; i++) {
      const char *x = aug_in_row(j, part->sample, plane, i, bytes), *o = aug_in_row(j, other, plane, i, bytes);
      char *y = aug_out_row(j, part->sample, plane, i, bytes);
      if (j->mask || r->share == 1) memcpy(y, x, (size_t)n * bytes);
      else if (j->dtype == SP_U8) mix_bytes((uint8_t *)y, (const uint8_t *)x, (const uint8_t *)o, n, r->share, rest);
      else mix_floats((float *)y, (const float *)x, (const float *)o, n, r->share, rest);
      if (i >= top && i < bottom) memcpy(y + from, o + from, length);
    }
  return SP_OK;
}

/* The rows of a call, those that are bad left as they are; what is bad goes to status. */
static void draw_all(const sp_io *io, const mixes_params *p, const mixes_range *range, const mixes_labels *l,
                     const mixes_row *given, mixes_row *to) {
  aug_dice dice = aug_dice_of(io, &p->draws);
  mixes_row *told = io->out[AUG_DRAWN].t->data;
  int64_t label = -1, row = -1, value;
  float number;
  for (int64_t i = 0; i < l->n; i++) {
    to[i] = given ? given[i] : mixes_draw(&dice, i, range);
    if (told) told[i] = to[i];
    if (label < 0 && mixes_bad_label(l, i, &value)) label = i;
    if (!given || !mixes_bad(range, &to[i], &number)) continue;
    if (row < 0) row = i;
    to[i] = (mixes_row){1, 0, 0, 0, 0};
  }
  mixes_tell(io->out[AUG_STATUS].t->data, l, range, given, io->ids, label, row);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const mixes_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const mixes_row *given = aug_given(ctx, io, "mixes", &rc);
  if (rc) return rc;
  mixes_range range = mixes_range_of(p, &jobs);
  mixes_labels labels = mixes_labels_of(io, p, &jobs);
  mix m = {io->scratch, jobs.n};
  draw_all(io, p, &range, &labels, given, io->scratch);
  for (int64_t i = 0; i < jobs.n; i++) mixes_mix_labels(&labels, &m.rows[i], i);
  return aug_rows(ctx, &jobs, rows, &m);
}

#define TYPE(id, words) MIXES_TYPE(id, words, "cpu")
MIXES_STAGES(TYPE)
static const sp_stage_type *const stages[] = {MIXES_STAGES(MIXES_POINTER) NULL};

SP_PLUGIN("mixes", "Images mixed with others of the batch, labels along", stages);
