/* SPDX-License-Identifier: MIT
 * toy_wait.c - a stage whose calls last until a file is there: a test says when a step is over. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <spcore/plugin.h>

typedef struct params {
  const char *file;
} params;

static const sp_param table[] = {
    {.name = "file", .type = SP_PARAM_STRING, .offset = offsetof(params, file), .doc = "what is waited for"},
    {.name = NULL}};
static const sp_port ports_in[] = {{.name = "x", .dtypes = SP_DT(SP_F32), .ndim = -1, .doc = "values"}, {.name = NULL}};
static const sp_port ports_out[] = {
    {.name = "y", .dtypes = SP_DT(SP_F32), .ndim = -1, .flags = SP_PORT_NOGRAD, .doc = "the same"}, {.name = NULL}};

static int create(sp_ctx *ctx, const void *p, void **out) {
  (void)ctx;
  *out = (void *)p;
  return SP_OK;
}

static void destroy(void *arg) { (void)arg; }

static int plan(sp_ctx *ctx, void *arg, sp_plan *p) {
  (void)ctx;
  (void)arg;
  p->out[0].spec[0] = p->in[0].spec[0];
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *arg, const sp_io *io) {
  const params *p = arg;
  const sp_tensor *x = &io->in[0].t[0];
  size_t bytes = sizeof(float);
  (void)ctx;
  for (int i = 0; i < x->spec.ndim; i++) bytes *= (size_t)x->spec.shape[i];
  while (access(p->file, F_OK)) nanosleep(&(struct timespec){0, 1000000}, NULL);
  memcpy(io->out[0].t[0].data, x->data, bytes);
  return SP_OK;
}

static const sp_stage_type type = {.size = sizeof type,
                                   .name = "toy_wait",
                                   .device = "cpu",
                                   .doc = "waits for a file",
                                   .inputs = ports_in,
                                   .outputs = ports_out,
                                   .params = table,
                                   .params_size = sizeof(params),
                                   .create = create,
                                   .destroy = destroy,
                                   .plan = plan,
                                   .forward = forward};
static const sp_stage_type *const stages[] = {&type, NULL};

SP_PLUGIN("toy_wait", "a stage that lasts as long as a test likes", stages);
