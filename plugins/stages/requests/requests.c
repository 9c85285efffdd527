/* SPDX-License-Identifier: MIT
 * requests.c - the stage `requests`: samples that somebody submits, as they lie in memory. */
#include "../../kits/feed.h"
#include "../../kits/stateless.h"

#define MAX_ELEMENTS (INT64_C(1) << 40)

typedef struct rq_tensor {
  int32_t dtype, order;
  sp_ints shape;
} rq_tensor;

typedef struct rq_params {
  sp_structs tensors;
} rq_params;

enum { ROW_MAJOR, CHANNELS_LAST };
static const char *const dtype_choices[] = {"uint8", "int8", "int32", "int64", "float32", "float64", NULL};
static const int32_t dtypes[] = {SP_U8, SP_I8, SP_I32, SP_I64, SP_F32, SP_F64};
static const char *const order_choices[] = {"row_major", "channels_last", NULL};

static int requests_plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const rq_params *p = self;
  const rq_tensor *t = p->tensors.v;
  if (plan->batch < 1) return ctx->host->fail(ctx, SP_E_RANGE, "batch = %lld is below 1", (long long)plan->batch);
  plan->out[0].n = p->tensors.n;
  for (uint32_t i = 0; i < p->tensors.n; i++) {
    sp_spec s = {.dtype = dtypes[t[i].dtype], .ndim = (int32_t)t[i].shape.n + 1, .shape = {plan->batch}};
    int64_t n = plan->batch;
    for (uint32_t d = 0; d < t[i].shape.n; d++) {
      s.shape[d + 1] = t[i].shape.v[d];
      if (n > MAX_ELEMENTS / t[i].shape.v[d])
        return ctx->host->fail(ctx, SP_E_RANGE, "tensor %u has more than %lld elements in a batch", i + 1,
                               (long long)MAX_ELEMENTS);
      n *= t[i].shape.v[d];
    }
    if (t[i].order == CHANNELS_LAST && s.ndim != 4)
      return ctx->host->fail(ctx, SP_E_SHAPE,
                             "tensor %u: channels_last is for channels, height and width, not %u sizes", i + 1,
                             t[i].shape.n);
    if (t[i].order == CHANNELS_LAST) s.order = SP_CHANNELS_LAST;
    plan->out[0].spec[i] = s;
  }
  return SP_OK;
}

static int requests_forward(sp_ctx *ctx, void *self, const sp_io *io) {
  feed f = feed_of(ctx);
  (void)self;
  feed_fill(&f, io);
  return SP_OK;
}

static const sp_port outputs[] = {{.name = "data",
                                   .ndim = -1,
                                   .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
                                   .doc =
                                       "what requests are made of, each tensor with the batch in front; zeros where a "
                                       "step has more places than requests"},
                                  {.name = NULL}};

static const sp_param tensor_fields[] = {{.name = "dtype",
                                          .type = SP_PARAM_CHOICE,
                                          .flags = SP_PARAM_FIRST,
                                          .offset = offsetof(rq_tensor, dtype),
                                          .idef = 4,
                                          .choices = dtype_choices,
                                          .doc = "type of the elements"},
                                         {.name = "shape",
                                          .type = SP_PARAM_INTS,
                                          .offset = offsetof(rq_tensor, shape),
                                          .imin = 1,
                                          .imax = INT64_C(1) << 31,
                                          .max_n = SP_MAX_DIMS - 1,
                                          .doc = "of one sample, without the batch"},
                                         {.name = "order",
                                          .type = SP_PARAM_CHOICE,
                                          .offset = offsetof(rq_tensor, order),
                                          .choices = order_choices,
                                          .doc = "how a sample lies in memory; channels_last: height, width, channels"},
                                         {.name = NULL}};

static const sp_param params[] = {{.name = "tensors",
                                   .type = SP_PARAM_LIST,
                                   .flags = SP_PARAM_REQUIRED,
                                   .offset = offsetof(rq_params, tensors),
                                   .fields = tensor_fields,
                                   .fields_size = sizeof(rq_tensor),
                                   .min_n = 1,
                                   .max_n = 64,
                                   .doc = "what a request has, in order"},
                                  {.name = NULL}};

static const sp_stage_type requests_type = {.size = sizeof(sp_stage_type),
                                            .flags = SP_STAGE_SOURCE | SP_STAGE_REQUESTS,
                                            .name = "requests",
                                            .device = "cpu",
                                            .doc =
                                                "Samples that scripts or other threads submit, as they lie in memory",
                                            .outputs = outputs,
                                            .params = params,
                                            .params_size = sizeof(rq_params),
                                            .create = stateless_create,
                                            .destroy = stateless_destroy,
                                            .plan = requests_plan,
                                            .forward = requests_forward};

static const sp_stage_type *const stages[] = {&requests_type, NULL};

SP_PLUGIN("requests", "Requests as they lie in memory", stages);
