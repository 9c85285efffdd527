/* SPDX-License-Identifier: MIT
 * aug.c - checks and outputs that the stages that change images share. */
#include "aug.h"

static int64_t height(const sp_spec *s) { return s->shape[s->ndim - 2]; }
static int64_t width(const sp_spec *s) { return s->shape[s->ndim - 1]; }

/* What tensor `i` of the port is called in errors. */
static const char *kind(int port) { return port == AUG_IMAGES ? "image" : "mask"; }

/* By how many pixels apart two dimensions of a tensor lie says `order`; of images the last two must be W and H,
 * or C. */
static int check_one(sp_ctx *ctx, int port, uint32_t i, const sp_spec *s, const sp_spec *first) {
  const sp_host *host = ctx->host;
  int rows_last = s->order == SP_CHANNELS_LAST && port == AUG_IMAGES;
  if (s->order != SP_ROW_MAJOR && !rows_last)
    return host->fail(ctx, SP_E_UNSUPPORTED, "%s %u is neither row-major nor channels-last in memory", kind(port),
                      i + 1);
  for (int d = 0; d < s->ndim; d++)
    if (s->shape[d] < 1)
      return host->fail(ctx, SP_E_SHAPE, "%s %u is empty: dimension %d is %lld", kind(port), i + 1, d,
                        (long long)s->shape[d]);
  if (height(s) > AUG_MAX_SIDE || width(s) > AUG_MAX_SIDE || height(s) * width(s) > AUG_MAX_PIXELS)
    return host->fail(ctx, SP_E_SHAPE, "%s %u is %lld x %lld; at most %d pixels a side and %d in all are possible",
                      kind(port), i + 1, (long long)height(s), (long long)width(s), AUG_MAX_SIDE, AUG_MAX_PIXELS);
  if (port == AUG_IMAGES && s->shape[1] > AUG_MAX_CHANNELS)
    return host->fail(ctx, SP_E_SHAPE, "image %u has %lld channels; at most %d are possible", i + 1,
                      (long long)s->shape[1], AUG_MAX_CHANNELS);
  if (s->shape[0] > AUG_MAX_BATCH)
    return host->fail(ctx, SP_E_SHAPE, "a batch of %lld samples; at most %d are possible", (long long)s->shape[0],
                      AUG_MAX_BATCH);
  if (s->shape[0] != first->shape[0])
    return host->fail(ctx, SP_E_SHAPE, "%s %u has %lld samples, image 1 has %lld", kind(port), i + 1,
                      (long long)s->shape[0], (long long)first->shape[0]);
  if (height(s) != height(first) || width(s) != width(first))
    return host->fail(ctx, SP_E_SHAPE,
                      "%s %u is %lld x %lld, but image 1 is %lld x %lld; images and masks that share their parameters "
                      "must be of one size",
                      kind(port), i + 1, (long long)height(s), (long long)width(s), (long long)height(first),
                      (long long)width(first));
  return SP_OK;
}

int aug_plan_in(sp_ctx *ctx, const sp_plan *plan, int64_t *h, int64_t *w) {
  uint32_t images = plan->in[AUG_IMAGES].n, masks = plan->n_in > AUG_MASKS ? plan->in[AUG_MASKS].n : 0;
  if (!images) return ctx->host->fail(ctx, SP_E_SHAPE, "wire at least one image to 'images'");
  if (images + masks > AUG_MAX)
    return ctx->host->fail(ctx, SP_E_SHAPE, "%u images and masks; at most %d are possible, use two stages",
                           images + masks, AUG_MAX);
  const sp_spec *first = plan->in[AUG_IMAGES].spec;
  for (int port = AUG_IMAGES; port <= AUG_MASKS && port < (int)plan->n_in; port++)
    for (uint32_t i = 0; i < plan->in[port].n; i++) {
      int rc = check_one(ctx, port, i, &plan->in[port].spec[i], first);
      if (rc) return rc;
    }
  *h = height(first);
  *w = width(first);
  return SP_OK;
}

int aug_plan_out(sp_plan *plan, int64_t h, int64_t w, int dtype) {
  for (int port = AUG_IMAGES; port <= AUG_MASKS && port < (int)plan->n_in; port++) {
    plan->out[port].n = plan->in[port].n;
    for (uint32_t i = 0; i < plan->in[port].n; i++) {
      sp_spec *s = &plan->out[port].spec[i];
      *s = plan->in[port].spec[i];
      s->shape[s->ndim - 2] = h;
      s->shape[s->ndim - 1] = w;
      if (dtype && port == AUG_IMAGES) s->dtype = dtype;
    }
  }
  return SP_OK;
}

int64_t aug_widest(const sp_plan *plan) {
  int64_t widest = 1;
  for (uint32_t i = 0; i < plan->in[AUG_IMAGES].n; i++) {
    const sp_spec *in = &plan->in[AUG_IMAGES].spec[i];
    if (in->order == SP_CHANNELS_LAST && in->shape[1] > widest) widest = in->shape[1];
  }
  return widest;
}

int aug_plan_port(sp_ctx *ctx, sp_plan *plan, int port, int dtype, int64_t columns, const char *what) {
  int64_t n = plan->in[AUG_IMAGES].spec->shape[0];
  sp_spec s = {.dtype = dtype, .ndim = columns > 1 ? 2 : 1, .shape = {n, columns > 1 ? columns : 0}};
  if (plan->in[port].n) {
    const sp_spec *in = plan->in[port].spec;
    int fits = in->ndim == s.ndim && in->shape[0] == n && (columns == 1 || in->shape[1] == columns);
    if (!fits && columns > 1)
      return ctx->host->fail(ctx, SP_E_SHAPE, "'%s' must be %lld x %lld, one row a sample", what, (long long)n,
                             (long long)columns);
    if (!fits) return ctx->host->fail(ctx, SP_E_SHAPE, "'%s' must be %lld numbers, one a sample", what, (long long)n);
    if (in->order != SP_ROW_MAJOR)
      return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "'%s' is not row-major in memory", what);
  }
  plan->out[port].n = 1;
  plan->out[port].spec[0] = s;
  return SP_OK;
}

int aug_plan_drawn(sp_ctx *ctx, sp_plan *plan, int dtype, int64_t columns, const char *what) {
  int64_t n = plan->in[AUG_IMAGES].spec->shape[0];
  int rc = aug_plan_port(ctx, plan, AUG_DRAWN, dtype, columns, what);
  if (rc) return rc;
  plan->out[AUG_STATUS].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {4}};
  plan->scratch_bytes = (size_t)n * (size_t)columns * 4; /* int32 or float32 */
  return SP_OK;
}

int aug_check_fill(sp_ctx *ctx, const sp_plan *plan, const char *what, const sp_floats *fill, int bytes) {
  for (uint32_t i = 0; i < plan->in[AUG_IMAGES].n; i++) {
    const sp_spec *s = &plan->in[AUG_IMAGES].spec[i];
    if (fill->n > 1 && s->shape[1] != (int64_t)fill->n)
      return ctx->host->fail(ctx, SP_E_SHAPE, "%s has %u numbers, but image %u has %lld channels; give one or as many",
                             what, fill->n, i + 1, (long long)s->shape[1]);
    for (uint32_t c = 0; c < fill->n && bytes && s->dtype == SP_U8; c++)
      if (fill->v[c] < 0 || fill->v[c] > 255)
        return ctx->host->fail(ctx, SP_E_RANGE, "%s is %g, but image %u is of bytes: 0..255", what, fill->v[c], i + 1);
  }
  return SP_OK;
}

int aug_check_mask_fill(sp_ctx *ctx, const sp_plan *plan, int64_t fill) {
  int maps = 0, wide = 0;
  for (uint32_t i = 0; i < plan->in[AUG_MASKS].n; i++) {
    int dtype = plan->in[AUG_MASKS].spec[i].dtype;
    maps |= dtype == SP_F32;
    wide |= dtype == SP_I32 || dtype == SP_I64;
  }
  if (maps && wide)
    return ctx->host->fail(
        ctx, SP_E_UNSUPPORTED,
        "masks of int32 or int64 lie beside maps of float32, which are filled with NaN; wire them to two "
        "stages, or give labels as bytes");
  for (uint32_t i = 0; i < plan->in[AUG_MASKS].n; i++)
    if (plan->in[AUG_MASKS].spec[i].dtype == SP_U8 && (fill < 0 || fill > 255))
      return ctx->host->fail(ctx, SP_E_RANGE, "mask_fill is %lld, but mask %u is of bytes: 0..255", (long long)fill,
                             i + 1);
  return SP_OK;
}

int32_t aug_mask_fill(const sp_io *io, int64_t fill) {
  const int32_t nan = 0x7fc00000, byte = 255;
  for (uint32_t i = 0; io->n_in > AUG_MASKS && i < io->in[AUG_MASKS].n; i++)
    if (io->in[AUG_MASKS].t[i].spec.dtype == SP_F32) return nan | ((int32_t)fill & byte);
  return (int32_t)fill;
}

/* Maps are moved as whole numbers: no value of theirs is looked at. */
static int dtype_of(const sp_spec *s, int mask) { return mask && s->dtype == SP_F32 ? SP_I32 : s->dtype; }

static void job_of(aug_job *j, const sp_tensor *in, const sp_tensor *out, int mask) {
  const sp_spec *s = &in->spec, *o = &out->spec;
  int last = s->order == SP_CHANNELS_LAST;
  int64_t c = mask ? 1 : s->shape[1];
  *j = (aug_job){.in = in->data,
                 .out = out->data,
                 .planes = last ? 1 : c,
                 .h = (int32_t)height(s),
                 .w = (int32_t)width(s),
                 .pix = last ? (int32_t)c : 1,
                 .out_h = (int32_t)height(o),
                 .out_w = (int32_t)width(o),
                 .dtype = dtype_of(s, mask),
                 .out_dtype = dtype_of(o, mask),
                 .mask = mask};
}

void aug_jobs_of(const sp_io *io, aug_jobs *jobs) {
  jobs->n = io->in[AUG_IMAGES].t->spec.shape[0];
  jobs->count = 0;
  for (int port = AUG_IMAGES; port <= AUG_MASKS && port < (int)io->n_in; port++)
    for (uint32_t i = 0; i < io->in[port].n; i++)
      if (io->out[port].t[i].data)
        job_of(&jobs->job[jobs->count++], &io->in[port].t[i], &io->out[port].t[i], port == AUG_MASKS);
}

const void *aug_given(sp_ctx *ctx, const sp_io *io, const char *what, int *rc) {
  return aug_given_on(ctx, io, AUG_DRAWN, what, rc);
}

const void *aug_given_on(sp_ctx *ctx, const sp_io *io, int port, const char *what, int *rc) {
  *rc = SP_OK;
  if (io->in[port].n) return io->in[port].t->data;
  if (!io->ids)
    *rc = ctx->host->fail(ctx, SP_E_STATE,
                          "parameters are drawn by the ids of samples, but the graph has no source; wire '%s'", what);
  return NULL;
}
