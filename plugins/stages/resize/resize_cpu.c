/* SPDX-License-Identifier: MIT
 * resize_cpu.c - the stage `resize` on the CPU: one pair of tables for all images. */
#include <stdlib.h>

#include "resize_part.h"

typedef struct resize_self {
  const resize_params *p;
  resize_table x, y;
  size_t floats; /* of a worker's scratch */
} resize_self;

typedef struct resize_call {
  const resize_self *s;
  float *scratch;
} resize_call;

static int rows(const void *arg, const aug_part *part, int worker) {
  const resize_call *c = arg;
  const resize_self *s = c->s;
  resize_part(&(resize_way){&s->x, &s->y, 0, 0, part->job->w}, part, c->scratch + (size_t)worker * s->floats);
  return SP_OK;
}

static int create(sp_ctx *ctx, const void *params, void **out) {
  resize_self *s = calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory");
  s->p = params;
  *out = s;
  return SP_OK;
}

static void destroy(void *self) {
  resize_self *s = self;
  resize_table_free(&s->x);
  resize_table_free(&s->y);
  free(s);
}

static int plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  resize_self *s = self;
  int64_t h, w;
  int rc = resize_check(ctx, s->p, plan, &h, &w);
  if (rc) return rc;
  int32_t out_h = (int32_t)s->p->size.v[0], out_w = (int32_t)s->p->size.v[s->p->size.n - 1];
  int how = resize_how(&s->p->filter);
  if (resize_table_make(&s->x, resize_axis_of((int32_t)w, out_w, how)) ||
      resize_table_make(&s->y, resize_axis_of((int32_t)h, out_h, how)))
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the weights of %lld x %lld to %d x %d", (long long)h,
                           (long long)w, out_h, out_w);
  const sp_parallel *par = ctx->host->get_extension(ctx, SP_EXT_PARALLEL);
  s->floats = resize_part_floats(&(resize_room){.in_w = w,
                                                .out_w = out_w,
                                                .pix = aug_widest(plan),
                                                .most_x = s->x.most,
                                                .most_y = s->y.most,
                                                .live = s->y.live,
                                                .cubic = how == RESIZE_CUBIC});
  plan->scratch_bytes = s->floats * (size_t)(par ? par->threads(ctx) : 1) * sizeof(float);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  return resize_in_blocks(ctx, &jobs, rows, &(resize_call){self, io->scratch});
}

AUG_CPU_STAGE(resize, "resize", RESIZE_DOC, 0, .create = create, .destroy = destroy, .plan = plan, .forward = forward);
