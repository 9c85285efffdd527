/* SPDX-License-Identifier: MIT
 * flip_cpu.c - the stage `flip` on the CPU. */
#include "../../kits/aug/cpu.h"
#include "flip.h"

#include <string.h>

/* The bytes of a row backwards: eight at a time, which a processor swaps in one instruction. */
static void mirror_bytes(uint8_t *restrict y, const uint8_t *restrict x, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t v;
    memcpy(&v, x + n - 8 - i, 8);
    v = __builtin_bswap64(v);
    memcpy(y + i, &v, 8);
  }
  for (; i < n; i++) y[i] = x[n - 1 - i];
}

#define MIRROR(name, type)                                                    \
  static void name(void *restrict to, const void *restrict from, int64_t n) { \
    type *restrict y = to;                                                    \
    const type *restrict x = from;                                            \
    for (int64_t i = 0; i < n; i++) y[i] = x[n - 1 - i];                      \
  }
MIRROR(mirror_4, uint32_t)
MIRROR(mirror_8, uint64_t)

/* Pixels of `bytes` bytes, moved `span` >= bytes at a time: what is too much is written over by the next pixel, so only
 * the outermost ones need their exact size. */
static inline void mirror_wide(char *restrict y, const char *restrict x, int64_t n, size_t bytes, size_t span) {
  if (!n) return;
  memcpy(y, x + (size_t)(n - 1) * bytes, bytes);
  for (int64_t i = 1; i < n - 1; i++) memcpy(y + (size_t)i * bytes, x + (size_t)(n - 1 - i) * bytes, span);
  if (n > 1) memcpy(y + (size_t)(n - 1) * bytes, x, bytes);
}

static void mirror(void *y, const void *x, int64_t n, size_t bytes) {
  switch (bytes) {
    case 1: mirror_bytes(y, x, n); break;
    case 3: mirror_wide(y, x, n, 3, 4); break;
    case 4: mirror_4(y, x, n); break;
    case 8: mirror_8(y, x, n); break;
    case 12: mirror_wide(y, x, n, 12, 16); break;
    case 16: mirror_wide(y, x, n, 16, 16); break;
    default: mirror_wide(y, x, n, bytes, bytes);
  }
}

static int rows(const void *arg, const aug_part *part, int worker) {
  const aug_job *j = part->job;
  const int32_t *flips = (const int32_t *)arg + 2 * part->sample;
  size_t bytes = aug_element(j->dtype) * (size_t)j->pix;
  (void)worker;
  for (int64_t plane = 0; plane < j->planes; plane++)
    for (int64_t i = part->from; i < part->to; i++) {
      const void *x = aug_in_row(j, part->sample, plane, flips[1] ? j->h - 1 - i : i, aug_element(j->dtype));
      void *y = aug_out_row(j, part->sample, plane, i, aug_element(j->dtype));
      if (flips[0]) mirror(y, x, j->w, bytes);
      else memcpy(y, x, (size_t)j->w * bytes);
    }
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const flip_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const int32_t *given = aug_given(ctx, io, "flips", &rc);
  if (rc) return rc;
  int32_t *flips = io->scratch;
  int64_t *status = io->out[AUG_STATUS].t->data;
  aug_dice dice = aug_dice_of(io, &p->draws);
  flip_odds odds = flip_odds_of(p);
  memset(status, 0, 4 * sizeof *status);
  for (int64_t i = 0; i < jobs.n; i++)
    if (!given) flip_draw(&dice, i, &odds, &flips[2 * i]);
  if (given) memcpy(flips, given, (size_t)jobs.n * 2 * sizeof *flips);
  for (int64_t i = 0; given && i < 2 * jobs.n; i++)
    aug_note(status, flips[i] < 0 || flips[i] > 1, io->ids ? (int64_t)io->ids[i / 2] : i / 2, flips[i], 1);
  if (io->out[AUG_DRAWN].t->data) memcpy(io->out[AUG_DRAWN].t->data, flips, (size_t)jobs.n * 2 * sizeof *flips);
  return aug_rows(ctx, &jobs, rows, flips);
}

AUG_CPU_STAGE(flip, "flip", FLIP_DOC, SP_STAGE_STOCHASTIC, .status_doc = FLIP_STATUS_DOC, .create = stateless_create,
              .destroy = stateless_destroy, .plan = flip_plan, .forward = forward);
