/* SPDX-License-Identifier: MIT
 * crash.c - a stage that ends the program from within create(). */
#include <spcore/plugin.h>
#include <stdlib.h>

static int create(sp_ctx *ctx, const void *params, void **self) {
  (void)ctx;
  (void)params;
  *self = NULL;
  abort();
}

static void destroy(void *self) { (void)self; }

static int plan(sp_ctx *ctx, void *self, sp_plan *p) {
  (void)ctx;
  (void)self;
  (void)p;
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  (void)ctx;
  (void)self;
  (void)io;
  return SP_OK;
}

static const sp_port none[] = {{.name = NULL}};
static const sp_stage_type crash = {
    .size = sizeof crash,
    .name = "crash",
    .device = "cpu",
    .doc = "Calls abort()",
    .inputs = none,
    .outputs = none,
    .create = create,
    .destroy = destroy,
    .plan = plan,
    .forward = forward,
};
static const sp_stage_type *const stages[] = {&crash, NULL};
SP_EXPORT const sp_plugin spcore_plugin = {
    .size = sizeof spcore_plugin,
    .abi = SP_ABI,
    .name = "crash",
    .version = "1.0",
    .license = "MIT",
    .doc = "For tests",
    .stages = stages,
};
