/* SPDX-License-Identifier: MIT
 * argmax.c - the stage `argmax`: logits to labels, the class of the largest value; the first of equals. */
#include <spcore/plugin.h>

#include <inttypes.h>
#include <string.h>

#include "../par.h"

#define BLOCK 8192 /* pixels of one item of work */
#define LANES 256  /* pixels that are compared side by side */

typedef struct am_work {
  const float *in;
  uint8_t *out;
  int64_t n, classes, pixels; /* pixels of one sample */
  int64_t blocks;             /* items of one sample */
  int channels_last;
} am_work;

static int argmax_create(sp_ctx *ctx, const void *params, void **self) {
  static int nothing; /* there are no parameters and no state */
  (void)ctx;
  (void)params;
  *self = &nothing;
  return SP_OK;
}

static void argmax_destroy(void *self) { (void)self; }

static int argmax_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const sp_spec *in = &plan->in[0].spec[0];
  (void)self;
  if (in->order != SP_ROW_MAJOR && in->order != SP_CHANNELS_LAST)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "logits must be row-major or channels last");
  if (in->shape[1] < 1 || in->shape[1] > 255)
    return ctx->host->fail(ctx, SP_E_SHAPE, "logits of %" PRId64 " classes; 1 to 255 fit into a byte", in->shape[1]);
  plan->out[0].spec[0] = (sp_spec){.dtype = SP_U8, .ndim = 3, .shape = {in->shape[0], in->shape[2], in->shape[3]}};
  return SP_OK;
}

static void rows_of_channels(const am_work *w, const float *in, uint8_t *out, int64_t n) {
  for (int64_t i = 0; i < n; i++, in += w->classes) {
    int64_t best = 0;
    for (int64_t c = 1; c < w->classes; c++)
      if (in[c] > in[best]) best = c;
    out[i] = (uint8_t)best;
  }
}

static void planes(const am_work *w, const float *in, uint8_t *out, int64_t n) {
  float most[LANES];
  for (int64_t from = 0; from < n; from += LANES) {
    int64_t m = n - from < LANES ? n - from : LANES;
    const float *x = in + from;
    uint8_t *label = out + from;
    memcpy(most, x, (size_t)m * sizeof *x);
    memset(label, 0, (size_t)m);
    for (int64_t c = 1; c < w->classes; c++) {
      x += w->pixels;
      for (int64_t i = 0; i < m; i++) {
        label[i] = x[i] > most[i] ? (uint8_t)c : label[i];
        most[i] = x[i] > most[i] ? x[i] : most[i];
      }
    }
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
  else planes(w, in + from, out, n);
  return SP_OK;
}

static int argmax_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sp_tensor *in = io->in[0].t, *out = io->out[0].t;
  const int64_t *shape = in->spec.shape;
  am_work w = {in->data, out->data, shape[0], shape[1], shape[2] * shape[3], 0, in->spec.order == SP_CHANNELS_LAST};
  (void)self;
  w.blocks = (w.pixels + BLOCK - 1) / BLOCK;
  return par_run(ctx, w.n * w.blocks, label_block, &w);
}

static const sp_port argmax_inputs[] = {
    {.name = "logits", .dtypes = SP_DT(SP_F32), .ndim = 4, .flags = SP_PORT_NOGRAD, .doc = "N x C x H x W"},
    {.name = NULL}};
static const sp_port argmax_outputs[] = {{.name = "mask",
                                          .dtypes = SP_DT(SP_U8),
                                          .ndim = 3,
                                          .flags = SP_PORT_NOGRAD,
                                          .doc = "labels 0..C-1, N x H x W; of equal values the first"},
                                         {.name = NULL}};

static const sp_stage_type argmax_type = {.size = sizeof(sp_stage_type),
                                          .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT,
                                          .name = "argmax",
                                          .device = "cpu",
                                          .doc = "Gives each pixel the class of its largest logit",
                                          .inputs = argmax_inputs,
                                          .outputs = argmax_outputs,
                                          .create = argmax_create,
                                          .destroy = argmax_destroy,
                                          .plan = argmax_plan,
                                          .forward = argmax_forward};
static const sp_stage_type *const stages[] = {&argmax_type, NULL};

const sp_plugin spcore_plugin = {.size = sizeof(sp_plugin),
                                 .abi = SP_ABI,
                                 .name = "argmax",
                                 .version = "0.1.0",
                                 .license = "MIT",
                                 .doc = "Logits to labels",
                                 .stages = stages};
