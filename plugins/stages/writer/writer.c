/* SPDX-License-Identifier: MIT
 * writer.c - the stage `writer`: a tensor of any shape, a row for each sample, to one .npy file. What is there can be
 * read at any time: rows come first, then the header that counts them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <spcore/plugin.h>

#include "../../kits/feed.h"
#include "../../kits/npy/npy.h"

typedef struct wr_params {
  const char *file;
} wr_params;

typedef struct wr_self {
  const wr_params *p;
  npy_file npy;
  sp_spec spec;   /* of the input; shape[0] is that of a batch */
  size_t element; /* bytes */
  uint64_t row;   /* bytes of one */
  uint64_t rows;  /* in the file */
  uint8_t *plain; /* a row, row-major, where the input is not */
} wr_self;

static void writer_destroy(void *arg) {
  wr_self *self = arg;
  npy_close(&self->npy);
  free(self->plain);
  free(self);
}

static int writer_create(sp_ctx *ctx, const void *params, void **out) {
  const wr_params *p = params;
  if (!*p->file) return ctx->host->fail(ctx, SP_E_INVALID, "file is empty; it says where the rows go");
  wr_self *self = calloc(1, sizeof *self);
  if (!self) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the writer");
  self->p = p;
  self->npy.fd = -1;
  *out = self;
  return SP_OK;
}

static int writer_plan(sp_ctx *ctx, void *arg, sp_plan *plan) {
  wr_self *self = arg;
  const sp_spec *s = plan->in[0].spec;
  sp_spec one = *s;
  if (s->ndim < 1) return ctx->host->fail(ctx, SP_E_SHAPE, "data is one number; a row for each sample is expected");
  if (s->order != SP_ROW_MAJOR && s->order != SP_CHANNELS_LAST)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "data must be row-major or channels last");
  one.shape[0] = 1;
  uint64_t row = spec_bytes(&one);
  if (self->npy.fd >= 0 && (row != self->row || s->dtype != self->spec.dtype))
    return ctx->host->fail(ctx, SP_E_STATE, "%s has rows of another size already", self->p->file);
  self->spec = *s;
  self->row = row;
  self->element = (size_t)row / (size_t)spec_elements(&one);
  return SP_OK;
}

static int failed(sp_ctx *ctx, const wr_self *self, int status) {
  return status ? ctx->host->fail(ctx, status, "%s: %s", self->p->file, self->npy.why) : SP_OK;
}

static int describe(wr_self *self) {
  int64_t shape[SP_MAX_DIMS];
  memcpy(shape, self->spec.shape, sizeof shape);
  shape[0] = (int64_t)self->rows;
  return npy_describe(&self->npy, self->spec.dtype, self->spec.ndim, shape);
}

static int writer_prepare(sp_ctx *ctx, void *arg, const sp_io *io) {
  wr_self *self = arg;
  (void)io;
  if (self->npy.fd >= 0) return SP_OK;
  if (self->spec.order == SP_CHANNELS_LAST && !self->plain && !(self->plain = malloc((size_t)self->row)))
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for a row of %" PRIu64 " bytes", self->row);
  int rc = npy_open(&self->npy, self->p->file);
  return failed(ctx, self, rc ? rc : describe(self));
}

/* H x W x C to C x H x W. */
static void to_planes(const wr_self *self, const uint8_t *in) {
  size_t classes = (size_t)self->spec.shape[1], pixels = (size_t)(self->spec.shape[2] * self->spec.shape[3]);
  size_t bytes = self->element;
  for (size_t c = 0; c < classes; c++)
    for (size_t k = 0; k < pixels; k++)
      memcpy(self->plain + (c * pixels + k) * bytes, in + (k * classes + c) * bytes, bytes);
}

static int put_row(sp_ctx *ctx, wr_self *self, uint64_t at, const uint8_t *data) {
  if (at >= (uint64_t)INT64_MAX / 2 / (self->row + 1))
    return ctx->host->fail(ctx, SP_E_RANGE, "%s: row %" PRIu64 " of %" PRIu64 " bytes is beyond what a file holds",
                           self->p->file, at, self->row);
  if (self->spec.order == SP_CHANNELS_LAST) {
    to_planes(self, data);
    data = self->plain;
  }
  int rc = npy_put(&self->npy, at * self->row, data, (size_t)self->row);
  if (!rc && at >= self->rows) self->rows = at + 1;
  return failed(ctx, self, rc);
}

/* Of a data set, the sample's number says which row it is; requests are rows as they come,
 * without those that have failed. */
static int writer_forward(sp_ctx *ctx, void *arg, const sp_io *io) {
  wr_self *self = arg;
  const sp_tensor *in = io->in[0].t;
  const feed f = feed_of(ctx);
  if (!io->ids)
    return ctx->host->fail(ctx, SP_E_STATE, "there is no reader in the graph, so the samples have no numbers");
  if (io->step && io->step->training) return SP_OK;
  for (int64_t i = 0; i < in->spec.shape[0]; i++) {
    if (f.queue && !feed_parts(&f, io->ids[i], NULL)) continue;
    uint64_t at = f.queue ? self->rows : SP_ID_INDEX(io->ids[i]);
    int rc = put_row(ctx, self, at, (const uint8_t *)in->data + (uint64_t)i * self->row);
    if (rc) return rc;
  }
  return failed(ctx, self, describe(self));
}

static const sp_port writer_inputs[] = {{.name = "data",
                                         .dtypes = SP_DT(SP_F16) | SP_DT(SP_F32) | SP_DT(SP_F64),
                                         .ndim = -1,
                                         .flags = SP_PORT_NOGRAD,
                                         .doc = "N rows of any shape"},
                                        {.name = NULL}};

static const sp_param writer_params[] = {{.name = "file",
                                          .type = SP_PARAM_STRING,
                                          .flags = SP_PARAM_REQUIRED,
                                          .offset = offsetof(wr_params, file),
                                          .doc = "the .npy file; what was there is replaced as the first step begins"},
                                         {.name = NULL}};

static const sp_stage_type writer_type = {.size = sizeof(sp_stage_type),
                                          .name = "writer",
                                          .device = "cpu",
                                          .doc = "Writes a tensor, a row for each sample, to one .npy file",
                                          .inputs = writer_inputs,
                                          .params = writer_params,
                                          .params_size = sizeof(wr_params),
                                          .create = writer_create,
                                          .destroy = writer_destroy,
                                          .plan = writer_plan,
                                          .prepare = writer_prepare,
                                          .forward = writer_forward};

static const sp_stage_type *const stages[] = {&writer_type, NULL};

SP_PLUGIN("writer", "Rows of numbers to a .npy file", stages);
