/* SPDX-License-Identifier: MIT
 * bad.c - plugins that the registry must refuse; built once for each BAD_... with one thing wrong, and as GOOD_TWO with
 * nothing wrong, but two versions in it. */
#include <spcore/comm.h>
#include <spcore/plugin.h>

#if defined BAD_SYMBOL
int sp_test_nowhere(void);
#endif

static int bad_create(sp_ctx *ctx, const void *params, void **self) {
  (void)ctx;
  (void)params;
  *self = NULL;
#ifdef BAD_SYMBOL
  return sp_test_nowhere();
#else
  return SP_OK;
#endif
}
static void bad_destroy(void *self) { (void)self; }
static int bad_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  (void)ctx;
  (void)self;
  (void)plan;
  return SP_OK;
}
#ifndef BAD_CALLBACK
static int bad_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  (void)ctx;
  (void)self;
  (void)io;
  return SP_OK;
}
#endif

typedef struct bad_params {
  double x;
} bad_params;

static const sp_param bad_table[] = {
#ifdef BAD_TABLE
    {.name = "x", .type = SP_PARAM_FLOAT, .offset = sizeof(bad_params), .doc = "lies behind the struct"},
#else
    {.name = "x", .type = SP_PARAM_FLOAT, .offset = offsetof(bad_params, x), .doc = "a number"},
#endif
    {0}};

static const sp_port bad_outputs[] = {
#ifdef BAD_PORT
    {.name = "y", .ndim = -1, .doc = "the output"},
#endif
    {.name = "y", .ndim = -1, .doc = "the output"},
    {0}};

static const sp_stage_type bad = {
#ifdef BAD_SIZE
    .size = 16,
#else
    .size = sizeof(sp_stage_type),
#endif
    .name = "bad",
    .device = "cpu",
    .doc = "One thing is wrong here",
    .outputs = bad_outputs,
    .params = bad_table,
    .params_size = sizeof(bad_params),
    .create = bad_create,
    .destroy = bad_destroy,
    .plan = bad_plan,
#ifndef BAD_CALLBACK
    .forward = bad_forward,
#endif
};

static const sp_stage_type *const bad_stages[] = {&bad, NULL};

#if defined BAD_ENTRY
/* Some shared object, but no plugin. */
SP_EXPORT const sp_stage_type *const *sp_test_other(void);
const sp_stage_type *const *sp_test_other(void) { return bad_stages; }
#elif defined BAD_OLD
/* As until ABI 0.2: the symbol is data. */
SP_EXPORT extern const sp_plugin old_plugin __asm__("spcore_plugin");
const sp_plugin old_plugin = {.size = sizeof(sp_plugin), .abi = 2, .name = "bad", .stages = bad_stages};
#elif defined BAD_ABI || defined BAD_NONE || defined GOOD_TWO
/* A file that holds one of the future beside this version's, or that one alone, or that says so. */
static const sp_plugin later = {.size = sizeof(sp_plugin), .abi = SP_ABI + 1, .name = "bad", .stages = bad_stages};
static const sp_plugin now = {.size = sizeof(sp_plugin), .abi = SP_ABI, .name = "two", .stages = bad_stages};
const void *spcore_plugin(uint32_t abi) {
#ifdef GOOD_TWO
  if (abi == now.abi) return &now;
#elif defined BAD_NONE
  if (abi != later.abi) return NULL;
#endif
  (void)abi, (void)now;
  return &later;
}
#elif defined BAD_COMM
static const sp_comm_type bad_comm = {
    .size = sizeof(sp_comm_type), .name = "bad", .device = "cpu", .doc = "Has no calls"};
static const sp_comm_type *const bad_comms[] = {&bad_comm, NULL};
SP_PLUGIN_ALL("bad", "for tests", bad_stages, NULL, NULL, bad_comms);
#else
SP_PLUGIN("bad", "for tests", bad_stages);
#endif
