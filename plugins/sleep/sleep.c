/* SPDX-License-Identifier: MIT
 * sleep.c - passes its input through after a known time; can be told to fail. For tests and for trying out strategies. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <spcore/plugin.h>

typedef struct sleep_params {
  double ms, backward_ms;
  int32_t spin;
  int64_t fail_at_step;
} sleep_params;

typedef struct sleeper {
  const sleep_params *p;
} sleeper;

static size_t bytes_of(const sp_spec *s) {
  static const size_t size[] = {
#define DTYPE_SIZE(name, value, bytes, word) [value] = bytes,
      SP_DTYPE_LIST(DTYPE_SIZE)
#undef DTYPE_SIZE
  };
  size_t n = size[s->dtype];
  for (int d = 0; d < s->ndim; d++) n *= (size_t)s->shape[d];
  return n;
}

static int sleep_create(sp_ctx *ctx, const void *params, void **self) {
  sleeper *s = calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the instance");
  s->p = params;
  *self = s;
  return SP_OK;
}

static void sleep_destroy(void *self) { free(self); }

static int sleep_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  (void)self;
  if (plan->in[0].n > plan->out[0].cap)
    return ctx->host->fail(ctx, SP_E_RANGE, "%u tensors, but only %u can be passed on", plan->in[0].n,
                           plan->out[0].cap);
  plan->out[0].n = plan->in[0].n;
  for (uint32_t i = 0; i < plan->in[0].n; i++) plan->out[0].spec[i] = plan->in[0].spec[i];
  return SP_OK;
}

static int before(const struct timespec *a, const struct timespec *b) {
  return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

static void pass_time(double ms, int spin) {
  struct timespec now, end;
  if (ms <= 0) return;
  clock_gettime(CLOCK_MONOTONIC, &end);
  int64_t ns = end.tv_nsec + (int64_t)(ms * 1e6);
  end.tv_sec += ns / 1000000000;
  end.tv_nsec = ns % 1000000000;
  if (spin) {
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while (before(&now, &end));
  } else {
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR) {}
  }
}

static int sleep_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sleep_params *p = ((const sleeper *)self)->p;
  pass_time(p->ms, p->spin);
  if (p->fail_at_step >= 0 && io->step->step == (uint64_t)p->fail_at_step)
    return ctx->host->fail(ctx, SP_E_DATA, "told to fail here (fail_at_step = %lld)", (long long)p->fail_at_step);
  for (uint32_t i = 0; i < io->in[0].n; i++) {
    size_t bytes = bytes_of(&io->in[0].t[i].spec);
    if (bytes) memcpy(io->out[0].t[i].data, io->in[0].t[i].data, bytes);
  }
  return SP_OK;
}

static int sleep_backward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sleep_params *p = ((const sleeper *)self)->p;
  (void)ctx;
  pass_time(p->backward_ms, p->spin);
  for (uint32_t i = 0; i < io->din[0].n; i++) {
    float *dx = io->din[0].t[i].data;
    const float *dy = io->dout[0].t[i].data;
    size_t bytes = bytes_of(&io->in[0].t[i].spec);
    if (!dx || io->in[0].t[i].spec.dtype != SP_F32) continue;
    if (io->din_acc[0][i])
      for (size_t k = 0; dy && k < bytes / sizeof *dx; k++) dx[k] += dy[k];
    else if (dy) memcpy(dx, dy, bytes);
    else memset(dx, 0, bytes);
  }
  return SP_OK;
}

static const sp_port sleep_inputs[] = {{.name = "x", .ndim = -1, .flags = SP_PORT_LIST, .doc = "any tensors"},
                                       {.name = NULL}};
static const sp_port sleep_outputs[] = {{.name = "y", .ndim = -1, .flags = SP_PORT_LIST, .doc = "copies of them"},
                                        {.name = NULL}};
static const sp_param sleep_param_table[] = {{.name = "ms",
                                              .type = SP_PARAM_FLOAT,
                                              .offset = offsetof(sleep_params, ms),
                                              .min = 0,
                                              .max = 1e6,
                                              .unit = "ms",
                                              .doc = "how long forward takes"},
                                             {.name = "backward_ms",
                                              .type = SP_PARAM_FLOAT,
                                              .offset = offsetof(sleep_params, backward_ms),
                                              .min = 0,
                                              .max = 1e6,
                                              .unit = "ms",
                                              .doc = "how long backward takes"},
                                             {.name = "spin",
                                              .type = SP_PARAM_BOOL,
                                              .offset = offsetof(sleep_params, spin),
                                              .doc = "keep a processor busy instead of sleeping"},
                                             {.name = "fail_at_step",
                                              .type = SP_PARAM_INT,
                                              .offset = offsetof(sleep_params, fail_at_step),
                                              .def = -1,
                                              .min = -1,
                                              .max = 9007199254740992.0,
                                              .doc = "forward fails at this step; -1: never"},
                                             {.name = NULL}};
static const sp_stage_type sleep_type = {.size = sizeof(sp_stage_type),
                                         .name = "sleep",
                                         .device = "cpu",
                                         .doc = "Passes tensors through after a known time",
                                         .inputs = sleep_inputs,
                                         .outputs = sleep_outputs,
                                         .params = sleep_param_table,
                                         .params_size = sizeof(sleep_params),
                                         .create = sleep_create,
                                         .destroy = sleep_destroy,
                                         .plan = sleep_plan,
                                         .forward = sleep_forward,
                                         .backward = sleep_backward};
static const sp_stage_type *const stages[] = {&sleep_type, NULL};

SP_EXPORT const sp_plugin spcore_plugin = {.size = sizeof(sp_plugin),
                                           .abi = SP_ABI,
                                           .name = "sleep",
                                           .version = "0.1",
                                           .license = "MIT",
                                           .doc = "A known cost, for tests",
                                           .stages = stages};
