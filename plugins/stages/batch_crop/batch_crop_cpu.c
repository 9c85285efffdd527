/* SPDX-License-Identifier: MIT
 * batch_crop_cpu.c - the stage `batch_crop` on the CPU. */
#include "../../kits/aug/cpu.h"
#include "batch_crop.h"

#include <math.h>
#include <string.h>

typedef struct crop_call {
  const int32_t *boxes;
  int32_t mode;
} crop_call;

/* The mean of 2 x 2 pixels: `a` and `b` are two rows from the window's left edge on, n elements long; from element
 * `inside` on the right neighbour is outside of the image, and the pixel itself stands for it. */
#define MEAN_ROW(name, type, finish)                                                                         \
  static void name(type *restrict y, const type *a, const type *b, int64_t n, int64_t inside, int64_t pix) { \
    for (int64_t i = 0; i < inside; i++) {                                                                   \
      float v = (float)a[i] + (float)a[i + pix] + (float)b[i] + (float)b[i + pix];                           \
      y[i] = finish(v / 4);                                                                                  \
    }                                                                                                        \
    for (int64_t i = inside; i < n; i++) {                                                                   \
      float v = (float)a[i] + (float)a[i] + (float)b[i] + (float)b[i];                                       \
      y[i] = finish(v / 4);                                                                                  \
    }                                                                                                        \
  }
#define TO_BYTE(v) ((uint8_t)rintf(v))
#define TO_FLOAT(v) (v)
MEAN_ROW(mean_bytes, uint8_t, TO_BYTE)
MEAN_ROW(mean_floats, float, TO_FLOAT)

static int rows(const void *arg, const aug_part *part, int worker) {
  const crop_call *c = arg;
  const aug_job *j = part->job;
  size_t bytes = aug_element(j->dtype);
  int64_t top = c->boxes[2 * part->sample], left = c->boxes[2 * part->sample + 1];
  int64_t n = (int64_t)j->out_w * j->pix, at = left * j->pix;
  int64_t inside = (j->w - 1 - left) * j->pix < n ? (j->w - 1 - left) * j->pix : n;
  (void)worker;
  for (int64_t plane = 0; plane < j->planes; plane++)
    for (int64_t i = part->from; i < part->to; i++) {
      int64_t below = top + i + 1 < j->h ? top + i + 1 : j->h - 1;
      const char *a = aug_in_row(j, part->sample, plane, top + i, bytes);
      void *y = aug_out_row(j, part->sample, plane, i, bytes);
      if (j->mask || c->mode == CROP_EXACT) {
        memcpy(y, a + (size_t)at * bytes, (size_t)n * bytes);
        continue;
      }
      const char *b = aug_in_row(j, part->sample, plane, below, bytes);
      if (j->dtype == SP_U8) mean_bytes(y, (const uint8_t *)a + at, (const uint8_t *)b + at, n, inside, j->pix);
      else mean_floats(y, (const float *)a + at, (const float *)b + at, n, inside, j->pix);
    }
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const crop_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const int32_t *given = aug_given(ctx, io, "boxes", &rc);
  if (rc) return rc;
  int32_t *boxes = io->scratch, high = jobs.job[0].h - jobs.job[0].out_h, wide = jobs.job[0].w - jobs.job[0].out_w;
  int64_t *status = io->out[AUG_STATUS].t->data;
  aug_dice dice = aug_dice_of(io, &p->draws);
  memset(status, 0, 4 * sizeof *status);
  for (int64_t i = 0; i < jobs.n; i++) {
    int32_t *box = &boxes[2 * i];
    if (!given) {
      crop_draw(&dice, i, high, wide, &box[0], &box[1]);
      continue;
    }
    int64_t id = io->ids ? (int64_t)io->ids[i] : i;
    memcpy(box, &given[2 * i], 2 * sizeof *box);
    aug_note(status, box[0] < 0 || box[0] > high, id, box[0], high);
    aug_note(status, box[1] < 0 || box[1] > wide, id, box[1], wide);
  }
  if (io->out[AUG_DRAWN].t->data) memcpy(io->out[AUG_DRAWN].t->data, boxes, (size_t)jobs.n * 2 * sizeof *boxes);
  for (int64_t i = 0; i < 2 * jobs.n; i++) { /* what is told behind the call must not be read outside before */
    int32_t most = i % 2 ? wide : high;
    boxes[i] = boxes[i] < 0 ? 0 : boxes[i] > most ? most : boxes[i];
  }
  return aug_rows(ctx, &jobs, rows, &(crop_call){boxes, p->mode});
}

AUG_CPU_STAGE(crop, "batch_crop", CROP_DOC, SP_STAGE_STOCHASTIC, .status_doc = CROP_STATUS_DOC,
              .create = stateless_create, .destroy = stateless_destroy, .plan = crop_plan, .forward = forward);
