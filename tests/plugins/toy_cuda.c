/* SPDX-License-Identifier: MIT
 * toy_cuda.c - the stage toy_nop for the device cuda: nothing is enqueued, so what a step costs is the core's. It may
 * fail at the host, as a call does that cannot be enqueued. */
#include <spcore/plugin.h>

#include <stdlib.h>

typedef struct nop_params {
  int64_t fail_at;
} nop_params;

typedef struct nop {
  const nop_params *p;
  int64_t calls; /* the step is in the device's memory */
} nop;

static const sp_param params[] = {{.name = "fail_at",
                                   .type = SP_PARAM_INT,
                                   .offset = offsetof(nop_params, fail_at),
                                   .idef = -1,
                                   .imin = -1,
                                   .imax = 1000000000,
                                   .doc = "call of forward that fails: the step, until nothing but graphs is launched"},
                                  {.name = NULL}};

static const sp_port in[] = {{.name = "x", .ndim = -1, .flags = SP_PORT_OPTIONAL, .doc = "anything"}, {.name = NULL}};
static const sp_port out[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "garbage"}, {.name = NULL}};

static int create(sp_ctx *ctx, const void *p, void **self) {
  nop *n = calloc(1, sizeof *n);
  if (!n) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory");
  n->p = p;
  *self = n;
  return SP_OK;
}

static void destroy(void *self) { free(self); }

static int plan(sp_ctx *ctx, void *self, sp_plan *p) {
  (void)ctx, (void)self;
  p->out[0].spec[0] = (sp_spec){.dtype = SP_F32, .ndim = 2, .shape = {p->batch, 4}};
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  nop *n = self;
  (void)io;
  return n->calls++ == n->p->fail_at ? ctx->host->fail(ctx, SP_E_DATA, "asked to fail") : SP_OK;
}

static const sp_stage_type type = {.size = sizeof type,
                                   .flags = SP_STAGE_CAPTURABLE,
                                   .name = "toy_nop",
                                   .device = "cuda",
                                   .doc = "does nothing",
                                   .inputs = in,
                                   .outputs = out,
                                   .params = params,
                                   .params_size = sizeof(nop_params),
                                   .create = create,
                                   .destroy = destroy,
                                   .plan = plan,
                                   .forward = forward};
static const sp_stage_type *const stages[] = {&type, NULL};

SP_PLUGIN("toy_cuda", "the empty stage on cuda", stages);
