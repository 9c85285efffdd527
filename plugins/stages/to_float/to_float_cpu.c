/* SPDX-License-Identifier: MIT
 * to_float_cpu.c - the stage `to_float` on the CPU. */
#include "../../kits/par.h"
#include "../../kits/spec.h"
#include "to_float.h"

#define BLOCK 65536 /* elements of one item of work */

typedef struct tf_work {
  const uint8_t *in;
  float *out;
  int64_t n;
  float by;
} tf_work;

static int convert(void *arg, int64_t item, int worker) {
  const tf_work *w = arg;
  int64_t from = item * BLOCK, to = w->n - from > BLOCK ? from + BLOCK : w->n;
  const uint8_t *restrict in = w->in;
  float *restrict out = w->out, by = w->by;
  (void)worker;
  for (int64_t i = from; i < to; i++) out[i] = (float)in[i] * by;
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *in = io->in[0].t, *out = io->out[0].t;
  tf_work w = {in->data, out->data, spec_elements(&in->spec), to_float_factor(self)};
  return par_run(ctx, (w.n + BLOCK - 1) / BLOCK, convert, &w);
}

SP_STAGE_CPU(TO_FLOAT_PAIR, .forward = forward);
