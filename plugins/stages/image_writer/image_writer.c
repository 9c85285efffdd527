/* SPDX-License-Identifier: MIT
 * image_writer.c - the stage `image_writer`: images, label masks and both in one picture, as JPEG and PNG files; with
 * one label an image they go to folders of their classes. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include <spcore/ext/parallel.h>
#include <spcore/plugin.h>

#include "../../kits/feed.h"
#include "../../kits/image/image.h"
#include "../../kits/image/work.h"

#define PATH_BYTES 4096
#define FORM_PATH 1 /* a request of image_requests that is a file's name */

typedef struct iw_name {
  const char *name, *original;
} iw_name;

typedef struct iw_params {
  const char *dir, *images, *masks, *overlays, *class_names;
  sp_structs names; /* iw_name */
  int64_t quality, max_pixels;
  int32_t restore;
} iw_params;

typedef struct iw_worker {
  im_encoder encoder;
  im_decoder decoder;
  im_scaler scaler;
  im_buf rgb, original, labels;
  char why[IM_WORDS];
} iw_worker;

typedef struct iw_self {
  const iw_params *p;
  iw_worker *workers;
  int n_workers;
  char *class_text;     /* a copy of class_names, cut into lines */
  const char **classes; /* [n_classes] in it */
  int64_t n_classes;
  im_work work;
} iw_self;

/* Where one sample's files go. */
typedef struct iw_place {
  const char *folder, *name;
  char number[24], label[16];
} iw_place;

typedef struct iw_batch {
  iw_self *self;
  const uint64_t *ids;
  const sp_tensor *image, *mask, *label; /* NULL: not wired */
  int h, w;
  feed f; /* where the samples are requests */
} iw_batch;

/* ---- making ---- */
static int has_ending(const char *path, const char *ending) {
  size_t n = strlen(path), m = strlen(ending);
  return n > m && !strcasecmp(path + n - m, ending);
}

static int is_jpeg_name(const char *path) { return has_ending(path, ".jpg") || has_ending(path, ".jpeg"); }

/* A pattern has one star, in its last part, and an ending that says the format. */
static int check_pattern(sp_ctx *ctx, const char *param, const char *pattern, int png_only) {
  const char *star = strchr(pattern, '*');
  if (!*pattern) return SP_OK;
  if (!star || strchr(star + 1, '*') || strchr(star, '/'))
    return ctx->host->fail(ctx, SP_E_INVALID, "%s = \"%s\": a file name with one * for the sample's name is expected",
                           param, pattern);
  if (has_ending(pattern, ".png") || (!png_only && is_jpeg_name(pattern))) return SP_OK;
  return ctx->host->fail(ctx, SP_E_INVALID, "%s = \"%s\": the name must end in .png%s", param, pattern,
                         png_only ? "; labels would not survive JPEG" : ", .jpg or .jpeg");
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
  char path[PATH_BYTES];
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
    im_scaler_free(&w->scaler);
    im_buf_free(&w->rgb);
    im_buf_free(&w->original);
    im_buf_free(&w->labels);
  }
  free(self->workers);
  free(self->classes);
  free(self->class_text);
  im_work_free(&self->work);
  free(self);
}

static int image_writer_create(sp_ctx *ctx, const void *params, void **out) {
  const iw_params *p = params;
  int rc;
  if (!*p->dir) return ctx->host->fail(ctx, SP_E_INVALID, "dir is empty; it says where the files go");
  if ((rc = check_pattern(ctx, "images", p->images, 0)) || (rc = check_pattern(ctx, "masks", p->masks, 1)) ||
      (rc = check_pattern(ctx, "overlays", p->overlays, 0)) || (rc = check_names(ctx, &p->names)))
    return rc;
  const sp_parallel *par = ctx->host->get_extension(ctx, SP_EXT_PARALLEL);
  iw_self *self = calloc(1, sizeof *self);
  if (!self) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the image writer");
  self->p = p;
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
  if (s->shape[1] != 3)
    return ctx->host->fail(ctx, SP_E_SHAPE, "image has %" PRId64 " channels, 3 are expected", s->shape[1]);
  if (s->order != SP_ROW_MAJOR && s->order != SP_CHANNELS_LAST)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "image must be row-major or channels last");
  return SP_OK;
}

static int image_writer_plan(sp_ctx *ctx, void *arg, sp_plan *plan) {
  const iw_self *self = arg;
  const iw_params *p = self->p;
  const sp_spec *image = plan->in[0].n ? plan->in[0].spec : NULL, *mask = plan->in[1].n ? plan->in[1].spec : NULL;
  int rc = SP_OK;
  if (!image && !mask) return ctx->host->fail(ctx, SP_E_INVALID, "neither image nor mask is wired: nothing to write");
  if (image && (rc = check_image(ctx, image))) return rc;
  if (image && mask && (image->shape[2] != mask->shape[1] || image->shape[3] != mask->shape[2]))
    return ctx->host->fail(ctx, SP_E_SHAPE,
                           "image is %" PRId64 " x %" PRId64 ", but mask is %" PRId64 " x %" PRId64 " (height x width)",
                           image->shape[2], image->shape[3], mask->shape[1], mask->shape[2]);
  if (self->n_classes && !plan->in[2].n)
    return ctx->host->fail(ctx, SP_E_INVALID, "class_names are given, but label is not wired");
  if (*p->overlays && (!image || !mask))
    return ctx->host->fail(ctx, SP_E_INVALID, "overlays = \"%s\" needs both image and mask", p->overlays);
  if (image && (rc = make_target(ctx, p->dir, p->images))) return rc;
  if (mask && (rc = make_target(ctx, p->dir, p->masks))) return rc;
  return make_target(ctx, p->dir, p->overlays);
}

/* ---- one sample ---- */
static int SP_PRINTF(3, 4) say(iw_worker *w, int status, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(w->why, sizeof w->why, fmt, ap);
  va_end(ap);
  return status;
}

/* dir/pattern with the star replaced; `folder`, where not empty, comes before the last part and is made. */
static int file_name(iw_worker *w, const iw_params *p, const char *pattern, const iw_place *at, char path[PATH_BYTES]) {
  const char *star = strchr(pattern, '*'), *slash = strrchr(pattern, '/'), *last = slash ? slash + 1 : pattern;
  int n = snprintf(path, PATH_BYTES, "%s/%.*s%s", p->dir, (int)(last - pattern), pattern, at->folder);
  if (n < PATH_BYTES && *at->folder) {
    if (mkdir(path, 0777) && errno != EEXIST) return say(w, SP_E_IO, "folder %.700s: %s", path, strerror(errno));
    path[n++] = '/';
  }
  if (n < PATH_BYTES)
    n += snprintf(path + n, (size_t)(PATH_BYTES - n), "%.*s%s%s", (int)(star - last), last, at->name, star + 1);
  if (n < PATH_BYTES) return SP_OK;
  return say(w, SP_E_INVALID, "the path of %.200s is longer than %d bytes", at->name, PATH_BYTES);
}

static int write_rgb(iw_worker *w, const iw_params *p, const char *pattern, const iw_place *at, const uint8_t *rgb,
                     int iw, int ih) {
  char path[PATH_BYTES];
  int rc = file_name(w, p, pattern, at, path);
  if (rc) return rc;
  rc = is_jpeg_name(path) ? im_to_jpeg(&w->encoder, rgb, iw, ih, (int)p->quality) : im_to_png(&w->encoder, rgb, iw, ih);
  if (!rc) rc = im_save(&w->encoder, path);
  return rc ? say(w, rc, "%.700s: %s", path, w->encoder.why) : SP_OK;
}

static int write_labels(iw_worker *w, const iw_params *p, const iw_place *at, const uint8_t *labels, int iw, int ih) {
  char path[PATH_BYTES];
  int rc = file_name(w, p, p->masks, at, path);
  if (rc) return rc;
  rc = im_labels_to_png(&w->encoder, labels, iw, ih);
  if (!rc) rc = im_save(&w->encoder, path);
  return rc ? say(w, rc, "%.700s: %s", path, w->encoder.why) : SP_OK;
}

/* Sample i as RGB triples. */
static const uint8_t *take_rgb(const iw_batch *b, iw_worker *w, int64_t i) {
  size_t pixels = (size_t)b->h * (size_t)b->w;
  const uint8_t *in = (const uint8_t *)b->image->data + (size_t)i * pixels * 3;
  if (b->image->spec.order == SP_CHANNELS_LAST) return in;
  uint8_t *out = im_reserve(&w->rgb, pixels * 3);
  for (size_t k = 0; out && k < pixels; k++)
    for (size_t c = 0; c < 3; c++) out[k * 3 + c] = in[c * pixels + k];
  return out;
}

/* Half of each label's colour over the image, its outline in full; background (0) and unlabelled (255) stay clear. */
static int blend(iw_worker *w, const uint8_t *rgb, const uint8_t *labels, int iw, int ih, uint8_t **out) {
  size_t pixels = (size_t)iw * (size_t)ih, line = (size_t)iw;
  uint8_t *o = *out = im_reserve(&w->original, pixels * 3);
  if (!o) return say(w, SP_E_NOMEM, "no memory for an overlay of %d x %d pixels", iw, ih);
  if (o != rgb) memcpy(o, rgb, pixels * 3);
  for (size_t k = 0; k < pixels; k++, o += 3) {
    uint8_t label = labels[k], c[3];
    if (label == 0 || label == 255) continue;
    size_t x = k % line;
    int edge = (x > 0 && labels[k - 1] != label) || (x + 1 < line && labels[k + 1] != label) ||
               (k >= line && labels[k - line] != label) || (k + line < pixels && labels[k + line] != label);
    im_label_colour(label, c);
    for (int i = 0; i < 3; i++) o[i] = edge ? c[i] : (uint8_t)((o[i] + c[i] + 1) / 2);
  }
  return SP_OK;
}

/* A sample that came from a file of another size, in `part` or at `path`: its labels go back to that size, and over that
 * image. */
static int restore(iw_worker *w, const iw_params *p, const char *path, const sp_part *part, const uint8_t **rgb,
                   const uint8_t **labels, int *iw, int *ih) {
  int ow, oh, rc = part ? im_take(&w->decoder, part->data, part->bytes) : im_load(&w->decoder, path);
  if (!rc) rc = im_rgb(&w->decoder, p->max_pixels, &w->original, &ow, &oh);
  if (rc) return say(w, rc > 0 ? SP_E_DATA : rc, "%.700s: %s", path, w->decoder.why);
  uint8_t *big = im_reserve(&w->labels, (size_t)ow * (size_t)oh);
  if (!big) return say(w, SP_E_NOMEM, "no memory for %d x %d labels", ow, oh);
  im_nearest(*labels, *iw, *ih, big, ow, oh);
  *labels = big;
  *rgb = w->original.p;
  *iw = ow;
  *ih = oh;
  return SP_OK;
}

static int place(const iw_batch *b, iw_worker *w, int64_t i, iw_place *at, const iw_name **entry) {
  const iw_self *self = b->self;
  const iw_params *p = self->p;
  uint64_t index = SP_ID_INDEX(b->ids[i]);
  *entry = NULL;
  at->name = at->number;
  at->folder = "";
  if (b->f.queue) {
    at->name = b->f.api->name(b->f.queue, b->ids[i]);
  } else if (p->names.n) {
    if (index >= p->names.n)
      return say(w, SP_E_RANGE, "sample %" PRIu64 " has no name: names has %u", index, p->names.n);
    *entry = (const iw_name *)p->names.v + index;
    at->name = (*entry)->name;
  } else {
    snprintf(at->number, sizeof at->number, "%05" PRIu64, index);
  }
  if (!b->label) return SP_OK;
  int wide = b->label->spec.dtype == SP_I32;
  int32_t label = wide ? ((const int32_t *)b->label->data)[i] : ((const uint8_t *)b->label->data)[i];
  if (label < 0) return say(w, SP_E_RANGE, "sample %" PRIu64 " has label %" PRId32 ", which is no class", index, label);
  if (self->n_classes && label >= self->n_classes)
    return say(w, SP_E_RANGE, "sample %" PRIu64 " has label %" PRId32 ", class_names has %" PRId64, index, label,
               self->n_classes);
  snprintf(at->label, sizeof at->label, "%" PRId32, label);
  at->folder = self->n_classes ? self->classes[label] : at->label;
  return SP_OK;
}

/* The image file that a sample was made of, where it is known; *part NULL and path empty: it is not. */
static void find_original(const iw_batch *b, int64_t i, const iw_name *entry, const sp_part **part,
                          char path[PATH_BYTES]) {
  uint32_t form = 0;
  *part = b->f.queue && b->self->p->restore ? feed_parts(&b->f, b->ids[i], &form) : NULL;
  snprintf(path, PATH_BYTES, "%s", entry ? entry->original : "");
  if (!*part || form != FORM_PATH) return;
  snprintf(path, PATH_BYTES, "%.*s", (int)((*part)->bytes < PATH_BYTES ? (*part)->bytes : PATH_BYTES - 1),
           (const char *)(*part)->data);
  *part = NULL;
}

static int write_sample(const iw_batch *b, iw_worker *w, int64_t i) {
  const iw_params *p = b->self->p;
  const sp_part *part;
  char path[PATH_BYTES];
  iw_place at;
  const iw_name *entry;
  int failed = place(b, w, i, &at, &entry);
  if (failed) return failed;
  const uint8_t *rgb = b->image ? take_rgb(b, w, i) : NULL, *labels = NULL;
  int iw = b->w, ih = b->h, rc;
  uint8_t *both;
  if (b->image && !rgb) return say(w, SP_E_NOMEM, "no memory for an image of %d x %d", iw, ih);
  if (b->image && *p->images && (rc = write_rgb(w, p, p->images, &at, rgb, iw, ih))) return rc;
  if (!b->mask) return SP_OK;
  labels = (const uint8_t *)b->mask->data + (size_t)i * (size_t)ih * (size_t)iw;
  find_original(b, i, entry, &part, path);
  if ((part || *path) && (rc = restore(w, p, path, part, &rgb, &labels, &iw, &ih))) return rc;
  if (*p->masks && (rc = write_labels(w, p, &at, labels, iw, ih))) return rc;
  if (!*p->overlays) return SP_OK;
  if ((rc = blend(w, rgb, labels, iw, ih, &both))) return rc;
  return write_rgb(w, p, p->overlays, &at, both, iw, ih);
}

/* Of a request that was not rejected, and says what its files are to be called. */
static int to_write(const iw_batch *b, int64_t i) {
  if (!feed_parts(&b->f, b->ids[i], NULL)) return 0;
  if (*b->f.api->name(b->f.queue, b->ids[i])) return 1;
  b->f.api->reject(b->f.queue, b->ids[i], SP_E_INVALID, "the request has no name, by which its files would be called");
  return 0;
}

static int write_item(void *arg, int64_t i, int worker) {
  const iw_batch *b = arg;
  iw_self *self = b->self;
  iw_worker *w = &self->workers[worker];
  if (b->f.queue && !to_write(b, i)) return SP_OK;
  int rc = write_sample(b, w, i);
  return rc ? im_work_failed(&self->work, i, rc, w->why) : SP_OK;
}

static int image_writer_forward(sp_ctx *ctx, void *arg, const sp_io *io) {
  iw_self *self = arg;
  iw_batch b = {.self = self, .ids = io->ids, .f = feed_of(ctx)};
  if (!io->ids)
    return ctx->host->fail(ctx, SP_E_STATE, "there is no reader in the graph, so the samples have no numbers");
  b.image = io->in[0].n ? io->in[0].t : NULL;
  b.mask = io->in[1].n ? io->in[1].t : NULL;
  b.label = io->in[2].n ? io->in[2].t : NULL;
  const int64_t *shape = b.mask ? b.mask->spec.shape : b.image->spec.shape;
  b.h = (int)(b.mask ? shape[1] : shape[2]);
  b.w = (int)(b.mask ? shape[2] : shape[3]);
  return im_work_run(ctx, &self->work, self->n_workers, shape[0], write_item, &b);
}

/* ---- description ---- */
static const sp_port image_writer_inputs[] = {{.name = "image",
                                               .dtypes = SP_DT(SP_U8),
                                               .ndim = 4,
                                               .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
                                               .doc = "RGB images, N x 3 x H x W"},
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
    {.name = "class_names",
     .type = SP_PARAM_STRING,
     AT(class_names),
     .doc =
         "folders by class, one a line, as reader's class_names; they come before the last part of images, masks and "
         "overlays; without them the class's number"},
    {.name = "quality", .type = SP_PARAM_INT, AT(quality), .idef = 92, .imin = 1, .imax = 100, .doc = "of JPEG files"},
    {.name = "max_pixels",
     .type = SP_PARAM_INT,
     AT(max_pixels),
     .idef = 64 << 20,
     .imin = 1,
     .imax = 1 << 30,
     .unit = "px",
     .doc = "an original whose header says more is refused"},
    {.name = NULL}};

static const sp_stage_type image_writer_type = {
    .size = sizeof(sp_stage_type),
    .name = "image_writer",
    .device = "cpu",
    .doc = "Writes images, label masks and both in one picture as JPEG and PNG files",
    .inputs = image_writer_inputs,
    .params = image_writer_params,
    .params_size = sizeof(iw_params),
    .create = image_writer_create,
    .destroy = image_writer_destroy,
    .plan = image_writer_plan,
    .forward = image_writer_forward};

static const sp_stage_type *const stages[] = {&image_writer_type, NULL};

SP_PLUGIN("image_writer", "Images and masks to files", stages);
