/* SPDX-License-Identifier: MIT
 * image_writer.c - the stage `image_writer`: images, label masks or the best of scores, both in one picture,
 * probabilities, numbers, as JPEG, PNG and .npy files; with one label an image they go to folders of their classes. */
#include "image_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include <spcore/ext/parallel.h>

#include "pile.h"

/* ---- making ---- */
static int has_ending(const char *path, const char *ending) {
  size_t n = strlen(path), m = strlen(ending);
  return n > m && !strcasecmp(path + n - m, ending);
}

int iw_is_npy(const char *path) { return has_ending(path, ".npy"); }
int iw_is_tiff(const char *path) { return has_ending(path, ".tif") || has_ending(path, ".tiff"); }

int iw_is_jpeg(const char *path) { return has_ending(path, ".jpg") || has_ending(path, ".jpeg"); }

enum { PICTURES, LABELS, NUMBERS, VALUES }; /* what a pattern is for */

/* A pattern has one star, in its last part, and an ending that says the format. */
static int check_pattern(sp_ctx *ctx, const char *param, const char *pattern, int what) {
  static const char *const endings[] = {".png, .jpg or .jpeg", ".png; labels would not survive JPEG", ".npy or .png",
                                        ".npy, .png or .tif"};
  const char *star = strchr(pattern, '*');
  if (!*pattern) return SP_OK;
  if (!star || strchr(star + 1, '*') || strchr(star, '/'))
    return ctx->host->fail(ctx, SP_E_INVALID, "%s = \"%s\": a file name with one * for the sample's name is expected",
                           param, pattern);
  if (has_ending(pattern, ".png") || (what == PICTURES && iw_is_jpeg(pattern)) ||
      (what >= NUMBERS && iw_is_npy(pattern)))
    return SP_OK;
  if (what == VALUES && iw_is_tiff(pattern)) {
    im_encoder e = {.tj = NULL};
    int rc = im_floats_to_tiff(&e, NULL, 0, 0);
    return rc ? ctx->host->fail(ctx, rc, "%s = \"%s\": %s", param, pattern, e.why) : SP_OK;
  }
  return ctx->host->fail(ctx, SP_E_INVALID, "%s = \"%s\": the name must end in %s", param, pattern, endings[what]);
}

static int check_names(sp_ctx *ctx, const sp_structs *names) {
  const iw_name *v = names->v;
  for (uint32_t i = 0; i < names->n; i++)
    if (!*v[i].name || strchr(v[i].name, '/') || v[i].name[0] == '.')
      return ctx->host->fail(ctx, SP_E_INVALID, "names[%u] = \"%s\" is no plain file name", i + 1, v[i].name);
  return SP_OK;
}

/* One folder name a line. */
static int take_classes(sp_ctx *ctx, iw_self *self) {
  const char *names = self->p->class_names;
  int64_t lines = 1, n = 0;
  if (!*names) return SP_OK;
  for (const char *c = names; *c; c++) lines += *c == '\n';
  self->class_text = strdup(names);
  self->classes = calloc((size_t)lines, sizeof *self->classes);
  if (!self->class_text || !self->classes)
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the names of %" PRId64 " classes", lines);
  for (char *line = self->class_text, *next; line; line = next) {
    if ((next = strchr(line, '\n'))) *next++ = 0;
    if (!next && !*line && n) break; /* a line break at the end is no name */
    if (!*line || *line == '.' || strchr(line, '/'))
      return ctx->host->fail(ctx, SP_E_INVALID, "class_names, line %" PRId64 ": \"%.200s\" is no plain folder name",
                             n + 1, line);
    self->classes[n++] = line;
  }
  self->n_classes = n;
  return SP_OK;
}

/* Makes the folder that `path` lies in, and those above it. */
static int make_folders(sp_ctx *ctx, char *path) {
  for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
    *p = 0;
    int failed = mkdir(path, 0777) && errno != EEXIST;
    if (failed) return ctx->host->fail(ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
    *p = '/';
  }
  return SP_OK;
}

static int make_target(sp_ctx *ctx, const char *dir, const char *pattern) {
  char path[IW_PATH_BYTES];
  if (!*pattern) return SP_OK;
  if (snprintf(path, sizeof path, "%s/%s", dir, pattern) >= (int)sizeof path)
    return ctx->host->fail(ctx, SP_E_INVALID, "dir is longer than %zu bytes", sizeof path);
  return make_folders(ctx, path);
}

static void image_writer_destroy(void *arg) {
  iw_self *self = arg;
  for (int i = 0; self->workers && i < self->n_workers; i++) {
    iw_worker *w = &self->workers[i];
    im_encoder_free(&w->encoder);
    im_decoder_free(&w->decoder);
    im_enlarger_free(&w->enlarger);
    im_buf_free(&w->rgb);
    im_buf_free(&w->original);
    im_buf_free(&w->labels);
    im_buf_free(&w->overlay);
    im_buf_free(&w->numbers);
    im_buf_free(&w->scratch);
    im_buf_free(&w->probabilities.best);
    im_buf_free(&w->values.numbers);
  }
  free(self->workers);
  free(self->classes);
  free(self->class_text);
  iw_pile_free(&self->pile);
  im_work_free(&self->work);
  free(self);
}

static int image_writer_create(sp_ctx *ctx, const void *params, void **out) {
  const iw_params *p = params;
  int rc;
  char words[256];
  im_keep keep;
  const char *wrong = im_keep_of(&p->keep, &keep, words);
  if (wrong) return ctx->host->fail(ctx, SP_E_INVALID, "%s", wrong);
  if (!*p->dir) return ctx->host->fail(ctx, SP_E_INVALID, "dir is empty; it says where the files go");
  if ((rc = check_pattern(ctx, "images", p->images, PICTURES)) ||
      (rc = check_pattern(ctx, "masks", p->masks, LABELS)) ||
      (rc = check_pattern(ctx, "overlays", p->overlays, PICTURES)) ||
      (rc = check_pattern(ctx, "probabilities", p->probabilities, NUMBERS)) ||
      (rc = check_pattern(ctx, "values", p->values, VALUES)) || (rc = check_names(ctx, &p->names)))
    return rc;
  const sp_parallel *par = ctx->host->get_extension(ctx, SP_EXT_PARALLEL);
  iw_self *self = calloc(1, sizeof *self);
  if (!self) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the image writer");
  self->p = p;
  self->keep = keep;
  self->keeps = im_keep_is_on(&keep);
  self->n_workers = par ? par->threads(ctx) : 1;
  im_work_init(&self->work);
  self->workers = calloc((size_t)self->n_workers, sizeof *self->workers);
  rc = self->workers ? take_classes(ctx, self)
                     : ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %d workers", self->n_workers);
  if (rc) {
    image_writer_destroy(self);
    return rc;
  }
  *out = self;
  return SP_OK;
}

static int check_image(sp_ctx *ctx, const sp_spec *s) {
  if (s->order != SP_ROW_MAJOR && s->order != SP_CHANNELS_LAST)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "image must be row-major or channels last");
  return SP_OK;
}

static int check_logits(sp_ctx *ctx, const sp_spec *s) {
  if (s->shape[1] < 1 || s->shape[1] > 255)
    return ctx->host->fail(ctx, SP_E_SHAPE, "logits of %" PRId64 " classes; 1 to 255 fit into a byte", s->shape[1]);
  if (s->order != SP_ROW_MAJOR && s->order != SP_CHANNELS_LAST)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "logits must be row-major or channels last");
  return SP_OK;
}

static int image_writer_plan(sp_ctx *ctx, void *arg, sp_plan *plan) {
  const iw_self *self = arg;
  const iw_params *p = self->p;
  const sp_spec *image = plan->in[0].n ? plan->in[0].spec : NULL, *mask = plan->in[1].n ? plan->in[1].spec : NULL;
  const sp_spec *logits = plan->in[3].n ? plan->in[3].spec : NULL;
  int rc = SP_OK;
  if (!image && !mask && !logits)
    return ctx->host->fail(ctx, SP_E_INVALID, "neither image nor mask nor logits are wired: nothing to write");
  if (mask && logits)
    return ctx->host->fail(ctx, SP_E_INVALID, "mask and logits are wired; labels come from one of them");
  if ((image && (rc = check_image(ctx, image))) || (logits && (rc = check_logits(ctx, logits)))) return rc;
  if (image && mask && (image->shape[2] != mask->shape[1] || image->shape[3] != mask->shape[2]))
    return ctx->host->fail(ctx, SP_E_SHAPE,
                           "image is %" PRId64 " x %" PRId64 ", but mask is %" PRId64 " x %" PRId64 " (height x width)",
                           image->shape[2], image->shape[3], mask->shape[1], mask->shape[2]);
  if (self->n_classes && !plan->in[2].n)
    return ctx->host->fail(ctx, SP_E_INVALID, "class_names are given, but label is not wired");
  if (*p->overlays && (!image || (!mask && !logits)))
    return ctx->host->fail(ctx, SP_E_INVALID, "overlays = \"%s\" needs both image and mask, or logits", p->overlays);
  if (*p->probabilities && !logits)
    return ctx->host->fail(ctx, SP_E_INVALID, "probabilities = \"%s\" needs logits", p->probabilities);
  if (*p->values && (!logits || logits->shape[1] != 1 || *p->masks || *p->overlays || *p->probabilities))
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "values = \"%s\" needs logits of one channel, and no masks, overlays or probabilities",
                           p->values);
  if (p->threshold > 0 && (!logits || logits->shape[1] != 1))
    return ctx->host->fail(ctx, SP_E_INVALID, "threshold = %g goes with logits of one channel", p->threshold);
  plan->out[2].spec[0] = (sp_spec){.dtype = SP_F64, .ndim = 2, .shape = {plan->batch, 3}};
  plan->out[0].spec[0] = (sp_spec){.dtype = SP_I32, .ndim = 2, .shape = {plan->batch, 2}};
  int64_t labels = p->threshold > 0 ? 2 : logits ? logits->shape[1] : 256;
  plan->out[1].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 2, .shape = {plan->batch, labels}};
  if (image && (rc = make_target(ctx, p->dir, p->images))) return rc;
  if ((mask || logits) && (rc = make_target(ctx, p->dir, p->masks))) return rc;
  if ((rc = make_target(ctx, p->dir, p->probabilities)) || (rc = make_target(ctx, p->dir, p->values))) return rc;
  return make_target(ctx, p->dir, p->overlays);
}

/* ---- one batch ---- */
/* Of a request that was not rejected, and says what its files are to be called. */
static int to_write(const iw_batch *b, int64_t i) {
  if (!feed_parts(&b->f, b->ids[i], NULL)) return 0;
  if (*b->f.api->name(b->f.queue, b->ids[i])) return 1;
  b->f.api->reject(b->f.queue, b->ids[i], SP_E_INVALID, "the request has no name, by which its files would be called");
  return 0;
}

/* Of a place without a request, too. */
static uint32_t form_of(const iw_batch *b, int64_t i) {
  uint32_t form = IM_FORM_FILE;
  return feed_parts(&b->f, b->ids[i], &form) ? form : IM_FORM_FILE;
}

static int write_item(void *arg, int64_t i, int worker) {
  const iw_batch *b = arg;
  iw_self *self = b->self;
  iw_worker *w = &self->workers[worker];
  if (b->f.queue && (form_of(b, i) == IM_FORM_WINDOW || !to_write(b, i))) return SP_OK;
  int rc = iw_write_sample(b, w, i);
  return rc ? im_work_failed(&self->work, i, rc, w->why) : SP_OK;
}

/* Windows are added one after another; with an image's last one its files are written. */
static int write_windows(iw_batch *b, int64_t n) {
  iw_worker *w = &b->self->workers[0];
  for (int64_t i = 0; i < n; i++) {
    char path[IW_PATH_BYTES];
    im_window at;
    im_scores scores;
    if (form_of(b, i) != IM_FORM_WINDOW || !to_write(b, i)) continue;
    if (!b->logits || !im_window_of(feed_parts(&b->f, b->ids[i], NULL), IM_FORM_WINDOW, &at, path, sizeof path)) {
      b->f.api->reject(b->f.queue, b->ids[i], SP_E_INVALID, "windows need logits");
      continue;
    }
    int rc = iw_pile_add(b, i, &at, path, &scores);
    if (rc) return rc;
    if (!scores.v) continue;
    b->scores = &scores;
    rc = iw_write_sample(b, w, i);
    b->scores = NULL;
    if (rc) return b->ctx->host->fail(b->ctx, rc, "%s", w->why);
  }
  return SP_OK;
}

/* Zeros, which stay where a place of the batch holds no picture with labels. */
static void begin_outputs(iw_batch *b, const sp_io *io) {
  const sp_tensor *size = io->out[0].t, *pixels = io->out[1].t, *found = io->out[2].t;
  b->size = size->data;
  b->pixels = pixels->data;
  b->labels = pixels->spec.shape[1];
  b->found = found->data;
  if (b->size) memset(b->size, 0, spec_bytes(&size->spec));
  if (b->pixels) memset(b->pixels, 0, spec_bytes(&pixels->spec));
  if (b->found) memset(b->found, 0, spec_bytes(&found->spec));
}

static int image_writer_forward(sp_ctx *ctx, void *arg, const sp_io *io) {
  iw_self *self = arg;
  iw_batch b = {.ctx = ctx, .self = self, .ids = io->ids, .f = feed_of(ctx)};
  if (!io->ids)
    return ctx->host->fail(ctx, SP_E_STATE, "there is no reader in the graph, so the samples have no numbers");
  b.image = io->in[0].n ? io->in[0].t : NULL;
  b.mask = io->in[1].n ? io->in[1].t : NULL;
  b.label = io->in[2].n ? io->in[2].t : NULL;
  b.logits = io->in[3].n ? io->in[3].t : NULL;
  begin_outputs(&b, io);
  const sp_tensor *any = b.image ? b.image : b.mask ? b.mask : b.logits;
  int rc = b.f.queue ? write_windows(&b, any->spec.shape[0]) : SP_OK;
  if (rc) return rc;
  return im_work_run(ctx, &self->work, self->n_workers, any->spec.shape[0], write_item, &b);
}

/* ---- description ---- */
static const sp_port image_writer_inputs[] = {
    {.name = "image",
     .dtypes = SP_DT(SP_U8) | SP_DT(SP_F32),
     .ndim = 4,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "RGB images, N x 3 x H x W, bytes or floats from 0 to 1; of others the first three channels are shown, of "
            "less than three the first as grey"},
    {.name = "mask",
     .dtypes = SP_DT(SP_U8),
     .ndim = 3,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "labels, N x H x W"},
    {.name = "label",
     .dtypes = SP_DT(SP_U8) | SP_DT(SP_I32),
     .ndim = 1,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "class of each sample, N: its files go to a folder of the class"},
    {.name = "logits",
     .dtypes = SP_DT(SP_F32),
     .ndim = 4,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "scores, N x C x H x W, in the place of mask: enlarged to the picture's "
            "size, then the class of the largest is the label"},
    {.name = NULL}};

static const sp_port image_writer_outputs[] = {
    {.name = "size",
     .dtypes = SP_DT(SP_I32),
     .ndim = 2,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "height and width of each mask, N x 2"},
    {.name = "pixels",
     .dtypes = SP_DT(SP_I64),
     .ndim = 2,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "how many pixels of each mask have each label, N x C, or N x 2 with threshold; without logits N x 256"},
    {.name = "found",
     .dtypes = SP_DT(SP_F64),
     .ndim = 2,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "of each file of values its least and largest number, and how many numbers a PNG could not hold, N x 3"},
    {.name = NULL}};

static const sp_param name_fields[] = {{.name = "name",
                                        .type = SP_PARAM_STRING,
                                        .flags = SP_PARAM_REQUIRED | SP_PARAM_FIRST,
                                        .offset = offsetof(iw_name, name),
                                        .doc = "file name without folder and ending"},
                                       {.name = "original",
                                        .type = SP_PARAM_STRING,
                                        .offset = offsetof(iw_name, original),
                                        .doc = "image file that the sample came from: mask and overlay get its size"},
                                       {.name = NULL}};

#define AT(member) .offset = offsetof(iw_params, member)
static const sp_param image_writer_params[] = {
    {.name = "dir",
     .type = SP_PARAM_STRING,
     .flags = SP_PARAM_REQUIRED,
     AT(dir),
     .doc = "folder for the files; made where it is missing, files in it are overwritten"},
    {.name = "images",
     .type = SP_PARAM_STRING,
     AT(images),
     .def_str = "images/*.jpg",
     .doc = "file of an image, * stands for the sample's name; .jpg, .jpeg or .png; empty: none"},
    {.name = "masks",
     .type = SP_PARAM_STRING,
     AT(masks),
     .def_str = "masks/*.png",
     .doc = "file of a mask, a palette PNG whose indices are the labels; empty: none"},
    {.name = "overlays",
     .type = SP_PARAM_STRING,
     AT(overlays),
     .doc = "file of the image with the mask's colours over it; empty: none"},
    {.name = "opacity",
     .type = SP_PARAM_FLOAT,
     AT(opacity),
     .def = 0.35,
     .max = 1,
     .doc = "how much of an overlay's colours covers the image; outlines are solid"},
    {.name = "background",
     .type = SP_PARAM_INT,
     AT(background),
     .imin = -1,
     .imax = 255,
     .doc = "label that overlays leave as it is; -1: none, so that 0 is a class as others are"},
    {.name = "probabilities",
     .type = SP_PARAM_STRING,
     AT(probabilities),
     .doc = "file of the softmax of the enlarged logits: .npy, float32 C x H x W, or .png, the label's own in "
            "65535ths; empty: none"},
    {.name = "threshold",
     .type = SP_PARAM_FLOAT,
     AT(threshold),
     .max = 1,
     .doc = "of logits of one channel: the label is 1 where their sigmoid is at least so large, else 0, and "
            "probabilities are the sigmoid's, 1 x H x W; 0: one channel is the class 0 everywhere"},
    {.name = "values",
     .type = SP_PARAM_STRING,
     AT(values),
     .doc = "file of the enlarged logits themselves, of one channel, v * values_std + values_mean: .npy, float32 H x "
            "W, .tif of float32, or .png of 16 bits, in values_scale; empty: none"},
    {.name = "values_std",
     .type = SP_PARAM_FLOAT,
     AT(values_std),
     .def = 1,
     .min = -1e30,
     .max = 1e30,
     .doc = "see values"},
    {.name = "values_mean", .type = SP_PARAM_FLOAT, AT(values_mean), .min = -1e30, .max = 1e30, .doc = "see values"},
    {.name = "values_scale",
     .type = SP_PARAM_FLOAT,
     AT(values_scale),
     .def = 1,
     .min = 1e-30,
     .max = 1e30,
     .doc = "a PNG's numbers times this are the values, to the nearest: 1 to 65535, and 0 where there is none"},
    {.name = "legend",
     .type = SP_PARAM_STRING,
     AT(legend),
     .doc = "names of the labels, one a line from 0 on: those in a mask but background stand below its overlay; empty: "
            "nothing does"},
    {.name = "names",
     .type = SP_PARAM_LIST,
     AT(names),
     .fields = name_fields,
     .fields_size = sizeof(iw_name),
     .doc = "names by sample number; without them the number itself, five digits; a request has its own"},
    {.name = "restore",
     .type = SP_PARAM_BOOL,
     AT(restore),
     .doc = "requests of image files: mask and overlay get the size of the file's image"},
    IM_RESIZE_ROW(offsetof(iw_params, fit.how), "with restore, and logits of whole images: how image_requests fitted "
                                                "the file's image; what was cut away gets the label 255, or NaN"),
    IM_SHORTER_ROW(offsetof(iw_params, fit.shorter), "with restore: as image_requests has it"),
    {.name = "class_names",
     .type = SP_PARAM_STRING,
     AT(class_names),
     .doc =
         "folders by class, one a line, as reader's class_names; they come before the last part of images, masks and "
         "overlays; without them the class's number"},
    {.name = "quality", .type = SP_PARAM_INT, AT(quality), .idef = 92, .imin = 1, .imax = 100, .doc = "of JPEG files"},
    IM_MAX_PIXELS_ROW(offsetof(iw_params, max_pixels), "an original whose header says more is refused"),
    IM_KEEP_ROWS(offsetof(iw_params, keep)),
    IM_ORIENT_ROW(offsetof(iw_params, orient),
                  "originals are turned upright as their EXIF orientation says, as the stage "
                  "that reads them does; false: as they are stored"),
    {.name = "max_scores",
     .type = SP_PARAM_INT,
     AT(max_scores),
     .idef = 4096,
     .imin = 1,
     .imax = 1 << 20,
     .unit = "MiB",
     .doc = "memory for the scores of an image whose windows are requests; one that needs more is refused"},
    {.name = NULL}};

static const sp_stage_type image_writer_type = {
    .size = sizeof(sp_stage_type),
    .name = "image_writer",
    .device = "cpu",
    .doc = "Writes images, label masks and both in one picture as JPEG and PNG files",
    .inputs = image_writer_inputs,
    .outputs = image_writer_outputs,
    .params = image_writer_params,
    .params_size = sizeof(iw_params),
    .create = image_writer_create,
    .destroy = image_writer_destroy,
    .plan = image_writer_plan,
    .forward = image_writer_forward};

static const sp_stage_type *const stages[] = {&image_writer_type, NULL};

SP_PLUGIN("image_writer", "Images and masks to files", stages);
