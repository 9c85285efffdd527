/* SPDX-License-Identifier: MIT
 * argmax_cpu.c - the stage `argmax` on the CPU. */
#include "../../kits/best.h"
#include "../../kits/par.h"
#include "argmax.h"

#define BLOCK 8192 /* pixels of one item of work */

typedef struct am_work {
  const float *in;
  uint8_t *out;
  int64_t n, classes, pixels; /* pixels of one sample */
  int64_t blocks;             /* items of one sample */
  int channels_last;
} am_work;

static void rows_of_channels(const am_work *w, const float *in, uint8_t *out, int64_t n) {
  for (int64_t i = 0; i < n; i++, in += w->classes) {
    int64_t best = 0;
    for (int64_t c = 1; c < w->classes; c++)
      if (in[c] > in[best]) best = c;
    out[i] = (uint8_t)best;
  }
}

static int label_block(void *arg, int64_t item, int worker) {
  const am_work *w = arg;
  int64_t sample = item / w->blocks, from = item % w->blocks * BLOCK;
  int64_t n = w->pixels - from < BLOCK ? w->pixels - from : BLOCK;
  const float *in = w->in + sample * w->classes * w->pixels;
  uint8_t *out = w->out + sample * w->pixels + from;
  (void)worker;
  if (w->channels_last) rows_of_channels(w, in + from * w->classes, out, n);
  else best_of_planes(in + from, w->classes, w->pixels, n, out);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *in = io->in[0].t, *out = io->out[0].t;
  const int64_t *shape = in->spec.shape;
  am_work w = {in->data, out->data, shape[0], shape[1], shape[2] * shape[3], 0, in->spec.order == SP_CHANNELS_LAST};
  (void)self;
  w.blocks = (w.pixels + BLOCK - 1) / BLOCK;
  return par_run(ctx, w.n * w.blocks, label_block, &w);
}

SP_STAGE_CPU(ARGMAX_PAIR, .forward = forward);
