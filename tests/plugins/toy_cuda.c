/* SPDX-License-Identifier: MIT
 * toy_cuda.c - the stage toy_nop for the device cuda: nothing is enqueued, so what a step costs is the core's. */
#include <spcore/plugin.h>

static const sp_port in[] = {{.name = "x", .ndim = -1, .flags = SP_PORT_OPTIONAL, .doc = "anything"}, {.name = NULL}};
static const sp_port out[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "garbage"}, {.name = NULL}};
static char nothing;

static int create(sp_ctx *ctx, const void *p, void **self) {
  (void)ctx, (void)p;
  *self = &nothing;
  return SP_OK;
}

static void destroy(void *self) { (void)self; }

static int plan(sp_ctx *ctx, void *self, sp_plan *p) {
  (void)ctx, (void)self;
  p->out[0].spec[0] = (sp_spec){.dtype = SP_F32, .ndim = 2, .shape = {p->batch, 4}};
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  (void)ctx, (void)self, (void)io;
  return SP_OK;
}

static const sp_stage_type nop = {.size = sizeof nop,
                                  .flags = SP_STAGE_CAPTURABLE,
                                  .name = "toy_nop",
                                  .device = "cuda",
                                  .doc = "does nothing",
                                  .inputs = in,
                                  .outputs = out,
                                  .create = create,
                                  .destroy = destroy,
                                  .plan = plan,
                                  .forward = forward};
static const sp_stage_type *const stages[] = {&nop, NULL};

SP_PLUGIN("toy_cuda", "the empty stage on cuda", stages);
