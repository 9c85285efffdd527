/* SPDX-License-Identifier: MIT
 * image_requests.c - the stage `image_requests`: images that somebody submits as files or their names, decoded by
 * several threads. One that is damaged or not there is answered with the reason; the others of its step go on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../kits/feed.h"
#include "../../kits/image/image.h"
#include "../../kits/image/keep.h"
#include "../../kits/image/rows.h"
#include "../../kits/image/window.h"
#include "../../kits/image/work.h"
#include "pictures.h"

enum { DECODE_FULL, DECODE_SCALED };

typedef struct ir_params {
  sp_ints size;
  int64_t workers, max_pixels, max_bytes;
  im_fitting fit;
  int32_t orient, grey, decode;
  im_keep_params keep;
} ir_params;

/* One thread's memory. */
typedef struct ir_worker {
  im_decoder decoder;
  im_scaler scaler;
  im_buf image, rgb; /* rgb: of an image whose output is grey; numbers */
} ir_worker;

typedef struct ir_self {
  const ir_params *p;
  int h, w;
  im_keep keep; /* grey bytes: of one channel */
  int keeps;
  ir_worker *workers;
  im_work work;
  ir_pictures pictures; /* that windows are cut from */
  /* Atomic: a damaged file that was read all the same, one that has more bits or channels than are read, and one with
   * no data are named already. */
  int noted, lost, no_data;
} ir_self;

typedef struct ir_batch {
  sp_ctx *ctx;
  ir_self *self;
  feed f;
  const uint64_t *ids;
  uint8_t *image, *second; /* NULL: nobody reads it */
  int32_t *size;  /* [N][2], the same */
} ir_batch;

static void image_requests_destroy(void *arg) {
  ir_self *self = arg;
  for (int64_t i = 0; self->workers && i < self->p->workers; i++) {
    im_decoder_free(&self->workers[i].decoder);
    im_scaler_free(&self->workers[i].scaler);
    im_buf_free(&self->workers[i].image);
    im_buf_free(&self->workers[i].rgb);
  }
  free(self->workers);
  ir_pictures_free(&self->pictures);
  im_work_free(&self->work);
  free(self);
}

/* NULL, or what is wrong. */
static const char *take_keep(ir_self *self, const ir_params *p, char words[256]) {
  const char *wrong = im_keep_of(&p->keep, &self->keep, words);
  if (wrong) return wrong;
  if (p->grey && self->keep.channels > 1) return "grey gives one channel, and channels says another number";
  if (p->grey) self->keep.channels = 1;
  self->keeps = im_keep_is_on(&self->keep);
  if (self->keeps && !self->keep.channels)
    return "requests have no first file that says how many channels there are: `channels = 4` does";
  if (!self->keep.channels) self->keep.channels = 3;
  return NULL;
}

static int image_requests_create(sp_ctx *ctx, const void *params, void **out) {
  const ir_params *p = params;
  char words[256];
  ir_self *self = calloc(1, sizeof *self);
  if (!self) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for requests");
  const char *wrong = im_fitting_wrong(&p->fit, (int)p->size.v[p->size.n - 1], (int)p->size.v[0]);
  if (!wrong) wrong = take_keep(self, p, words);
  if (wrong) {
    free(self);
    return ctx->host->fail(ctx, SP_E_INVALID, "%s", wrong);
  }
  self->p = p;
  self->h = (int)p->size.v[0];
  self->w = (int)p->size.v[p->size.n - 1];
  im_work_init(&self->work);
  self->workers = calloc((size_t)p->workers, sizeof *self->workers);
  if (!self->workers || ir_pictures_init(&self->pictures, (int)p->workers)) {
    image_requests_destroy(self);
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %" PRId64 " workers", p->workers);
  }
  for (int64_t i = 0; i < p->workers; i++) {
    im_decoder *d = &self->workers[i].decoder;
    d->as_stored = !p->orient;
    d->least_w = p->decode != DECODE_SCALED ? 0 : p->fit.shorter ? (int)p->fit.shorter : self->w;
    d->least_h = p->decode != DECODE_SCALED ? 0 : p->fit.shorter ? (int)p->fit.shorter : self->h;
  }
  *out = self;
  return SP_OK;
}

static int image_requests_plan(sp_ctx *ctx, void *arg, sp_plan *plan) {
  const ir_self *self = arg;
  if (plan->batch < 1) return ctx->host->fail(ctx, SP_E_RANGE, "batch = %" PRId64 " is below 1", plan->batch);
  plan->out[0].spec[0] = (sp_spec){.dtype = im_keep_dtype(&self->keep),
                                   .ndim = 4,
                                   .shape = {plan->batch, self->keep.channels, self->h, self->w},
                                   .order = SP_CHANNELS_LAST};
  plan->out[1].spec[0] = (sp_spec){.dtype = SP_I32, .ndim = 2, .shape = {plan->batch, 2}};
  plan->out[2].spec[0] = plan->out[0].spec[0];
  plan->request_max = (uint64_t)self->p->max_bytes;
  return SP_OK;
}

/* ---- one batch ---- */
static void note(const ir_batch *b, const char *path, const char *what) {
  if (*what && !__atomic_exchange_n(&b->self->noted, 1, __ATOMIC_RELAXED))
    b->ctx->host->log(b->ctx, SP_LOG_WARN,
                      "%.700s: the file has %s; no pixel is affected, so it is read; others are not named", path, what);
}

static void note_loss(const ir_batch *b, const char *path, const char *what) {
  if (*what && !__atomic_exchange_n(&b->self->lost, 1, __ATOMIC_RELAXED))
    b->ctx->host->log(b->ctx, SP_LOG_WARN, "%.700s has %s; others are not named", path, what);
}

static void note_no_data(const ir_batch *b, const char *path, const im_kept *is) {
  uint64_t n = is->no_data + is->not_finite;
  if (n && !__atomic_exchange_n(&b->self->no_data, 1, __ATOMIC_RELAXED))
    b->ctx->host->log(b->ctx, SP_LOG_WARN,
                      "%.700s has %" PRIu64 " numbers that are NaN, infinite or stand for no data; they become %.9g; "
                      "others are not named",
                      path, n, (double)b->self->keep.fill);
}

/* Bytes of a pixel that is decoded: of grey ones RGB. */
static size_t pixel_of(const ir_self *self) {
  return self->keeps ? (size_t)self->keep.channels * im_keep_bytes(&self->keep) : 3;
}

static void mirror(const ir_self *self, uint8_t *row) {
  size_t pixel = pixel_of(self), line = pixel * (size_t)self->w;
  for (int y = 0; y < self->h; y++, row += line)
    for (size_t left = 0, right = line - pixel; left < right; left += pixel, right -= pixel)
      for (size_t k = 0; k < pixel; k++) {
        uint8_t kept = row[left + k];
        row[left + k] = row[right + k];
        row[right + k] = kept;
      }
}

/* The window at the size that the whole image is scaled to. */
static int cut(const ir_batch *b, ir_worker *w, const char *path, const im_window *at, void *out, int *width,
               int *height, char note[128]) {
  ir_self *self = b->self;
  if (at->window_w != self->w || at->window_h != self->h) {
    snprintf(w->decoder.why, sizeof w->decoder.why, "a window of %d x %d is asked for, and size is %d x %d",
             at->window_w, at->window_h, self->w, self->h);
    return SP_E_INVALID;
  }
  ir_picture *picture =
      ir_pictures_get(&self->pictures, path, &w->decoder, self->keeps ? &self->keep : NULL, self->p->max_pixels);
  int rc = picture ? picture->rc : SP_E_NOMEM;
  if (picture) snprintf(w->decoder.why, sizeof w->decoder.why, "%s", picture->why);
  if (!rc) {
    *width = picture->w;
    *height = picture->h;
    snprintf(note, 128, "%s", picture->note);
    note_loss(b, path, picture->lost);
    if (self->keeps) note_no_data(b, path, &picture->is);
    im_geometry g = {.sw = picture->w,
                     .sh = picture->h,
                     .dw = self->w,
                     .dh = self->h,
                     .rw = at->w,
                     .rh = at->h,
                     .ox = at->x,
                     .oy = at->y};
    int how = self->p->fit.interpolation;
    rc = self->keeps ? im_keep_resize(&w->scaler, &self->keep, picture->px.p, &g, how, out)
                     : im_resize(&w->scaler, picture->px.p, &g, how, out);
  }
  if (picture) ir_pictures_put(&self->pictures, picture);
  if (rc == SP_E_NOMEM) snprintf(w->decoder.why, sizeof w->decoder.why, "no memory to resize it");
  if (!rc && at->flip) mirror(self, out);
  return rc;
}

static int read_numbers(const ir_batch *b, ir_worker *w, const char *path, void *out, int size[2], char found[128]) {
  ir_self *self = b->self;
  im_kept is;
  int rc = im_keep_read(&w->decoder, &self->keep, self->p->max_pixels, &w->image, &w->rgb, &is);
  if (rc) return rc;
  size[0] = is.h;
  size[1] = is.w;
  snprintf(found, 128, "%s", w->decoder.note);
  note_loss(b, path, w->decoder.lost);
  note_no_data(b, path, &is);
  if (!im_keep_fit(&w->scaler, &self->keep, &self->p->fit, w->rgb.p, &is, out, self->w, self->h)) return SP_OK;
  snprintf(w->decoder.why, sizeof w->decoder.why, "no memory to resize it");
  return SP_E_NOMEM;
}

/* The name of the second image, which stands behind that of the first one and a 0. Returns 0 where there is none. */
static int take_second(const sp_part *part, uint32_t form, char path[4096]) {
  size_t at = form == IM_FORM_WINDOW ? sizeof(im_window) : 0;
  const char *name = (const char *)part->data + at, *end = name + (part->bytes - at);
  const char *zero = memchr(name, 0, part->bytes - at);
  return zero && zero + 1 < end && snprintf(path, 4096, "%.*s", (int)(end - zero - 1), zero + 1) < 4096;
}

/* which: 0, 1: the first image, the second. Where nobody reads pixels the header is enough. */
static int decode(const ir_batch *b, ir_worker *w, const sp_part *part, uint32_t form, int which, void *out,
                  int size[2], char why[IM_WORDS]) {
  ir_self *self = b->self;
  char path[4096] = "an image", found[128] = "";
  im_window at;
  int rc;
  if (form == IM_FORM_FILE && b->second) {
    snprintf(w->decoder.why, sizeof w->decoder.why, "two images a sample are requested by the names of their files");
    rc = SP_E_INVALID;
  } else if (form == IM_FORM_FILE) {
    rc = im_take(&w->decoder, part->data, part->bytes);
  } else if (!im_window_of(part, form, &at, path, sizeof path)) {
    snprintf(w->decoder.why, sizeof w->decoder.why, "the request makes no sense, or its file's name is too long");
    rc = SP_E_INVALID;
  } else if (which && !take_second(part, form, path)) {
    snprintf(w->decoder.why, sizeof w->decoder.why, "the request names one image, and a sample has two here");
    rc = SP_E_INVALID;
  } else if (form == IM_FORM_WINDOW && out) {
    rc = cut(b, w, path, &at, out, &size[1], &size[0], found);
  } else {
    rc = im_load(&w->decoder, path);
  }
  if (!rc && !out) {
    rc = im_size(&w->decoder, &size[1], &size[0]);
    if (!rc) rc = im_check_pixels(&w->decoder, size[1], size[0], self->p->max_pixels);
  } else if (!rc && form != IM_FORM_WINDOW && self->keeps) {
    rc = read_numbers(b, w, path, out, size, found);
  } else if (!rc && form != IM_FORM_WINDOW) {
    rc = im_rgb(&w->decoder, self->p->max_pixels, &w->image, &size[1], &size[0]);
    if (!rc) snprintf(found, sizeof found, "%s", w->decoder.note);
    if (!rc) note_loss(b, path, w->decoder.lost);
    if (!rc && im_fit_rgb(&w->scaler, &self->p->fit, w->image.p, size[1], size[0], out, self->w, self->h)) {
      snprintf(w->decoder.why, sizeof w->decoder.why, "no memory to resize it");
      rc = SP_E_NOMEM;
    }
  }
  if (!rc) note(b, path, found);
  if (rc && form != IM_FORM_FILE) snprintf(why, IM_WORDS, "%.700s: %s", path, w->decoder.why);
  else if (rc) snprintf(why, IM_WORDS, "%s", w->decoder.why);
  return rc > 0 ? SP_E_DATA : rc;
}

/* Both images of a sample are of one size, as the pixels of one are those of the other. */
static int check_sizes(const sp_part *part, uint32_t form, const int sizes[2][2], char why[IM_WORDS]) {
  char path[2][4096];
  im_window at;
  if (sizes[0][0] == sizes[1][0] && sizes[0][1] == sizes[1][1]) return SP_OK;
  if (!im_window_of(part, form, &at, path[0], sizeof path[0]) || !take_second(part, form, path[1])) return SP_E_INVALID;
  snprintf(why, IM_WORDS,
           "%.300s is %d x %d pixels, and its second image %.300s is %d x %d (width x height); they must be equal",
           path[0], sizes[0][1], sizes[0][0], path[1], sizes[1][1], sizes[1][0]);
  return SP_E_DATA;
}

static int fill_image(const ir_batch *b, ir_worker *w, const sp_part *part, uint32_t form, int which, uint8_t *out,
                      int size[2], char why[IM_WORDS]) {
  ir_self *self = b->self;
  size_t pixels = (size_t)self->h * (size_t)self->w;
  int grey = !self->keeps && self->keep.channels == 1;
  uint8_t *rgb = out && grey ? im_reserve(&w->rgb, pixels * 3) : out;
  if (out && !rgb) {
    snprintf(why, IM_WORDS, "no memory for %d x %d pixels", self->h, self->w);
    return SP_E_NOMEM;
  }
  int rc = decode(b, w, part, form, which, rgb, size, why);
  if (!rc && rgb != out) im_brightness(rgb, pixels, out);
  return rc;
}

/* A request that gives no image is answered with the reason, and a black one takes its place. */
static int fill_item(void *arg, int64_t i, int worker) {
  const ir_batch *b = arg;
  ir_self *self = b->self;
  int grey = !self->keeps && self->keep.channels == 1;
  size_t bytes = (size_t)self->h * (size_t)self->w * (grey ? 1 : pixel_of(self));
  uint8_t *out[2] = {b->image ? b->image + (size_t)i * bytes : NULL, b->second ? b->second + (size_t)i * bytes : NULL};
  char why[IM_WORDS];
  uint32_t form;
  int size[2][2] = {{0, 0}, {0, 0}};
  const sp_part *part = b->ids ? feed_parts(&b->f, b->ids[i], &form) : NULL;
  ir_worker *w = &self->workers[worker];
  int rc = part ? fill_image(b, w, part, form, 0, out[0], size[0], why) : SP_OK;
  if (part && !rc && out[1]) rc = fill_image(b, w, part, form, 1, out[1], size[1], why);
  if (part && !rc && out[1]) rc = check_sizes(part, form, (const int(*)[2])size, why);
  for (int k = 0; k < 2; k++)
    if (out[k] && (!part || rc)) memset(out[k], 0, bytes);
  if (b->size)
    for (int k = 0; k < 2; k++) b->size[2 * i + k] = rc ? 0 : size[0][k];
  if (rc) b->f.api->reject(b->f.queue, b->ids[i], rc, why);
  return SP_OK;
}

static int image_requests_forward(sp_ctx *ctx, void *arg, const sp_io *io) {
  ir_self *self = arg;
  const sp_tensor *image = io->out[0].t;
  ir_batch b = {ctx, self, feed_of(ctx), io->ids, image->data, io->out[2].t->data, io->out[1].t->data};
  return im_work_run(ctx, &self->work, (int)self->p->workers, image->spec.shape[0], fill_item, &b);
}

/* ---- description ---- */
static const sp_port outputs[] = {
    {.name = "image",
     .dtypes = SP_DT(SP_U8) | SP_DT(SP_F32),
     .ndim = 4,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "RGB images, N x 3 x H x W, or as grey, dtype and channels say; black where a step has more places than "
            "requests"},
    {.name = "size",
     .dtypes = SP_DT(SP_I32),
     .ndim = 2,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "height and width of each request's whole image, N x 2; read alone, no image is decoded"},
    {.name = "second",
     .dtypes = SP_DT(SP_U8) | SP_DT(SP_F32),
     .ndim = 4,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "the second image of each request, which names two, as image is"},
    {.name = NULL}};

static const char *const decode_choices[] = {"full", "scaled", NULL};

#define OFFSET(member) offsetof(ir_params, member)
#define AT(member) .offset = OFFSET(member)
static const sp_param params[] = {
    IM_SIZE_ROW(OFFSET(size), "height and width that images are resized to; one "
                              "number: square"),
    IM_RESIZE_ROW(OFFSET(fit.how), "how images of another shape than size are fitted, "
                                   "as the reader does it"),
    IM_SHORTER_ROW(OFFSET(fit.shorter), "as the reader has it"),
    IM_INTERPOLATION_ROW(OFFSET(fit.interpolation), "as the reader has it"),
    IM_GREY_ROW(OFFSET(grey), "images have one channel, their brightness, as Pillow's mode L"),
    IM_KEEP_ROWS(OFFSET(keep)),
    IM_ORIENT_ROW(OFFSET(orient), "images are turned upright as their EXIF orientation "
                                  "says; false: as stored"),
    {.name = "decode",
     .type = SP_PARAM_CHOICE,
     AT(decode),
     .choices = decode_choices,
     .doc = "scaled: a JPEG is decoded at a half, a quarter or an eighth of its sides "
            "where they are not below size: faster, other bits"},
    IM_WORKERS_ROW(OFFSET(workers), "threads that decode one batch"),
    IM_MAX_PIXELS_ROW(OFFSET(max_pixels), "an image whose header says more is refused"),
    {.name = "max_bytes",
     .type = SP_PARAM_INT,
     AT(max_bytes),
     .idef = 64 << 20,
     .imin = 1,
     .imax = 1 << 30,
     .unit = "bytes",
     .doc = "a request of more is refused"},
    {.name = NULL}};

static const sp_stage_type image_requests_type = {
    .size = sizeof(sp_stage_type),
    .flags = SP_STAGE_SOURCE | SP_STAGE_REQUESTS,
    .name = "image_requests",
    .device = "cpu",
    .doc = "JPEG, PNG, WebP, TIFF, BMP, GIF and PNM images that scripts or other threads submit",
    .outputs = outputs,
    .params = params,
    .params_size = sizeof(ir_params),
    .create = image_requests_create,
    .destroy = image_requests_destroy,
    .plan = image_requests_plan,
    .forward = image_requests_forward};

static const sp_stage_type *const stages[] = {&image_requests_type, NULL};

SP_PLUGIN("image_requests", "Requests that are image files", stages);
