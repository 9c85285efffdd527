/* SPDX-License-Identifier: MIT
 * tones_cuda.c - the stages of the module `tones` on CUDA. */
#include "../../kits/cuda/check.h"
#include "tones_kernels.h"
#include "tones_types.h"

static size_t list_bytes(const sp_speclist *list) {
  size_t all = 0;
  for (uint32_t i = 0; i < list->n; i++) {
    const sp_spec *s = &list->spec[i];
    size_t bytes = s->dtype == SP_U8 ? 1 : s->dtype == SP_I64 ? 8 : 4;
    for (int d = 0; d < s->ndim; d++) bytes *= (size_t)s->shape[d];
    all += (bytes + 63) / 64 * 64;
  }
  return all;
}

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  const tones_how *how = &((tones_self *)self)->how;
  int status = tones_plan(ctx, self, pl);
  if (status) return status;
  const sp_speclist *images = &pl->in[AUG_IMAGES];
  int64_t channels = 1;
  for (uint32_t i = 0; i < images->n; i++)
    if (images->spec[i].shape[1] > channels) channels = images->spec[i].shape[1];
  pl->scratch_bytes = tones_room_of(how, images->spec->shape[0], images->n, channels).all;
  if (how->steps > 1) pl->scratch_bytes += list_bytes(images) + list_bytes(&pl->in[AUG_MASKS]);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const tones_self *s = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc, images = 0, channels = 1, floats = 0;
  const float *given = aug_given(ctx, io, "changes", &rc);
  if (rc) return rc;
  if (s->how.op == TONES_NOISE && !io->ids)
    return ctx->host->fail(ctx, SP_E_STATE, "noise is drawn by the ids of samples, but the graph has no source");
  for (; images < jobs.count && !jobs.job[images].mask; images++) {
    int own = (int)(jobs.job[images].planes * jobs.job[images].pix);
    floats |= jobs.job[images].dtype == SP_F32;
    channels = own > channels ? own : channels;
  }
  aug_dice dice = aug_dice_of(io, &s->p->draws);
  tones_how how = s->how;
  how.mask_fill = aug_mask_fill(io, how.mask_fill);
  return cuda_check(ctx,
                    tones_launch(ctx->stream, &jobs, images, channels, floats, &dice, &how, given,
                                 io->out[AUG_DRAWN].t->data, io->out[AUG_STATUS].t->data, io->scratch),
                    "changing tones");
}

TONES_STAGES(TONES_CREATE)
#define TYPE(id, op, words) TONES_TYPE(id, "cuda", words, plan, forward)
TONES_STAGES(TYPE)
static const sp_stage_type *const stages[] = {TONES_STAGES(TONES_POINTER) NULL};

SP_PLUGIN("tones_cuda", "Brightness, colours and quality of images changed, on CUDA", stages);
