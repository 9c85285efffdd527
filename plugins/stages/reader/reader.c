/* SPDX-License-Identifier: MIT
 * reader.c - the stage `reader`: samples by their ids, from a folder or made up, filled by several threads at once. */
#include "../../kits/fetch/fetch.h"
#include "contents.h"
#include "digest.h"
#include "maps.h"
#include "masks.h"
#include "numbers.h"
#include "table.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spcore/rng.h>

int rd_fail(rd_worker *w, int status, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(w->why, sizeof w->why, fmt, ap);
  va_end(ap);
  return status;
}

/* ---- making ---- */
static const rd_kind *kind_of(const rd_params *p) {
  int by_class = p->target != RD_TARGET_MASK && p->target != RD_TARGET_MAP;
  if (p->files.n) return &rd_masks;
  if (!strcmp(p->path, rd_shapes.name)) return by_class ? &rd_shape : &rd_shapes;
  if (!strcmp(p->path, rd_random.name)) return &rd_random;
  return by_class ? &rd_labels : &rd_masks;
}

static void free_worker(rd_worker *w) {
  im_decoder_free(&w->decoder);
  im_scaler_free(&w->scaler);
  im_buf_free(&w->image);
  im_buf_free(&w->mask);
  im_buf_free(&w->rgb);
  im_buf_free(&w->grey);
}

static void reader_destroy(void *arg) {
  rd_self *self = arg;
  if (self->kind) self->kind->close(self);
  for (int64_t i = 0; self->workers && i < self->p->workers; i++) free_worker(&self->workers[i]);
  if (self->looker) free_worker(self->looker);
  free(self->looker);
  free(self->prints);
  free(self->twins);
  free(self->workers);
  free(self->list);
  free(self->broken);
  free(self->class_names);
  free(self->palette);
  rd_free_values(self->values);
  free(self->tally);
  free(self->ranges);
  free(self->map.about);
  free(self->side);
  free(self->survey);
  free(self->draws);
  free(self->counts);
  rd_close_remarks(self);
  im_work_free(&self->work);
  free(self);
}

/* How images keep what files hold, as far as parameters say it. */
static int check_keep(sp_ctx *ctx, rd_self *self) {
  const rd_params *p = self->p;
  char words[256];
  const char *wrong = im_keep_of(&p->keep, &self->keep, words);
  if (wrong) return ctx->host->fail(ctx, SP_E_INVALID, "%s", wrong);
  if (p->grey && self->keep.channels > 1)
    return ctx->host->fail(ctx, SP_E_INVALID, "grey gives one channel, and channels is %d; leave one of them out",
                           self->keep.channels);
  if (p->grey) self->keep.channels = 1;
  self->keeps = im_keep_is_on(&self->keep);
  if (self->keeps && !p->files.n && (!strcmp(p->path, rd_shapes.name) || !strcmp(p->path, rd_random.name)))
    return ctx->host->fail(ctx, SP_E_INVALID, "dtype and channels go with files; the built-in set %s has RGB bytes",
                           p->path);
  if (!self->keep.channels && !self->keeps) self->keep.channels = 3;
  return SP_OK;
}

static int set_up(sp_ctx *ctx, rd_self *self) {
  const rd_params *p = self->p;
  if (!*p->path && !p->files.n)
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "no data: give path = a folder with images/ and masks/ or with a subfolder for each class, "
                           "\"shapes\" or \"random\"");
  if (*p->path && p->files.n)
    return ctx->host->fail(ctx, SP_E_INVALID, "path = \"%s\" and files are both given; only one can be read", p->path);
  if (*p->val_path && (p->files.n || kind_of(p)->open != rd_masks.open))
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "val_path = \"%s\" goes with a path to a folder of data, not with a built-in set or files",
                           p->val_path);
  int made_up = !strcmp(p->path, rd_shapes.name) || !strcmp(p->path, rd_random.name) || p->files.n;
  if (p->target >= RD_TARGET_LABELS && made_up)
    return ctx->host->fail(
        ctx, SP_E_INVALID, "target = \"%s\" goes with a path to a %s, not with a built-in set or files",
        rd_targets[p->target], RD_OF_ROWS(p->target) ? ".csv file, arrays or tar files" : "folder of images and maps");
  if (p->target == RD_TARGET_MASK && p->classes > 255)
    return ctx->host->fail(ctx, SP_E_RANGE,
                           "classes = %" PRId64 ", but labels of masks are bytes: at most 255, or target = \"class\"",
                           p->classes);
  self->h = (int)p->size.v[0];
  self->w = (int)p->size.v[p->size.n - 1];
  const char *wrong = im_fitting_wrong(&p->fit, self->w, self->h);
  if (wrong) return ctx->host->fail(ctx, SP_E_INVALID, "%s", wrong);
  int rc = check_keep(ctx, self);
  if (!rc) rc = rd_open_maps(ctx, self);
  if (rc) return rc;
  const rd_kind *kind = kind_of(p);
  self->key = sp_rng_key((uint64_t)p->data_seed, kind->name);
  self->kind = kind;
  if ((rc = kind->open(ctx, self))) return rc;
  if (self->total > INT32_MAX)
    return ctx->host->fail(ctx, SP_E_RANGE, "%" PRIu64 " samples; at most %d are possible", self->total, INT32_MAX);
  if ((rc = rd_split(ctx, self))) return rc;
  self->broken = calloc(self->total, 1);
  self->workers = calloc((size_t)p->workers, sizeof *self->workers);
  if (p->check && !(self->tally = calloc(2, sizeof *self->tally)))
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory to count labels");
  if (p->check && self->table && !(self->prints = calloc(self->total, sizeof *self->prints)))
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory to compare %" PRIu64 " images", self->total);
  if (!self->broken || !self->workers || rd_open_remarks(self))
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %" PRIu64 " samples", self->total);
  for (int64_t i = 0; i < p->workers; i++) self->workers[i].decoder.as_stored = !p->orient;
  return SP_OK;
}

static int file_item(const void *arg, uint64_t i, char *to, size_t size) {
  const rd_self *self = arg;
  return rd_name(self->table, &self->table->samples[i].image, to, size);
}

/* Names of classes reach terminals, file names and logs, where a control character would be obeyed. */
static int check_names(sp_ctx *ctx, const rd_self *self) {
  int line = 1;
  for (const char *p = self->class_names; p && *p; line += *p++ == '\n')
    if (*p != '\n' && ((unsigned char)*p < ' ' || *p == 127))
      return ctx->host->fail(
          ctx, SP_E_DATA,
          "%s: the name of class %d has the control character 0x%02x: take it out of classes.txt, or rename "
          "what the class is named after",
          self->p->path, line, (unsigned)(unsigned char)*p);
  return SP_OK;
}

/* What a script may ask. Labels of masks are known only when they are read, and those of a set that is made up when it
 * is made. */
static int set_attrs(sp_ctx *ctx, rd_self *self) {
  int counted = self->table && self->gives & (RD_LABEL | RD_LABELS),
      figures = self->table && self->gives & (RD_LABELS | RD_NUMBERS);
  int of_maps = self->p->target == RD_TARGET_MAP;
  if (counted && !(self->counts = rd_count_classes(self)))
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory to count %" PRIu64 " samples", self->total);
  if (!self->p->files.n)
    snprintf(self->splits, sizeof self->splits, "train %" PRIu64 " val %" PRIu64, self->n_split[0], self->n_split[1]);
  self->attrs[0] = (sp_attr){.name = "classes", .value = (double)self->classes};
  self->attrs[1] = (sp_attr){.name = "class_names", .text = self->class_names ? self->class_names : ""};
  self->attrs[2] = (sp_attr){.name = "layout", .text = self->table ? self->table->lister->name : self->p->path};
  self->attrs[3] = (sp_attr){.name = "left_out", .text = self->left_out};
  self->attrs[4] = (sp_attr){.name = "counts", .text = counted ? self->counts : ""};
  self->attrs[5] = (sp_attr){.name = "splits", .text = self->splits};
  self->attrs[6] = (sp_attr){
      .name = "files", .value = self->table ? (double)self->total : 0, .item = self->table ? file_item : NULL};
  self->attrs[7] = (sp_attr){.name = "digest", .value = self->table ? 2 : 0, .item = self->table ? rd_digest : NULL};
  self->attrs[8] =
      (sp_attr){.name = "remarks", .value = self->table ? RD_REMARKS : 0, .item = self->table ? rd_remark_item : NULL};
  self->attrs[10] = (sp_attr){
      .name = "labels",
      .value = self->table && self->gives & RD_MASK && !of_maps ? RD_LABELS_CHECKED * (self->tally ? 3 : 1) : 0};
  if (self->attrs[10].value > 0) self->attrs[10].item = rd_label_item;
  int looked = self->table && !self->p->files.n, checked = looked && self->p->check;
  self->attrs[11] =
      (sp_attr){.name = "sizes", .value = looked ? (double)self->length : 0, .item = looked ? rd_size_item : NULL};
  self->attrs[12] = (sp_attr){
      .name = "classes_of", .value = checked ? (double)self->length : 0, .item = checked ? rd_class_item : NULL};
  self->attrs[13] =
      (sp_attr){.name = "duplicates", .value = checked ? RD_TWINS : 0, .item = checked ? rd_twin_item : NULL};
  self->attrs[14] = (sp_attr){.name = "figures",
                              .value = !figures                   ? 0
                                       : self->gives & RD_NUMBERS ? (double)self->classes
                                                                  : 1};
  if (figures) self->attrs[14].item = rd_figure_item;
  int ranged = self->table && self->keeps;
  self->attrs[15] = (sp_attr){
      .name = "numbers", .value = ranged ? 1.0 + self->keep.channels : 0, .item = ranged ? rd_number_item : NULL};
  self->attrs[16] = (sp_attr){.name = "map", .value = of_maps, .item = of_maps ? rd_map_item : NULL};
  self->attrs[17] = (sp_attr){.name = "images", .value = self->table && self->table->seconds ? 2 : 1};
  self->attrs[18] = (sp_attr){.name = "stereo", .value = self->table && self->table->is_stereo};
  self->attrs[19] = (sp_attr){.name = "drawable", .value = (int64_t)rd_drawable(self)};
  self->attrs[9] = (sp_attr){.name = "notes", .text = self->table ? self->table->bytes + self->table->notes : ""};
  return SP_OK;
}

/* "20G": bytes, with KiB to TiB as one letter. 0: it is none. */
static int read_bytes(const char *text, int64_t *bytes) {
  static const char units[] = "kmgt";
  char *end;
  double v = strtod(text, &end);
  const char *unit = *end ? strchr(units, *end | 0x20) : NULL;
  if (end == text || (*end && !unit)) return 0;
  for (int k = 0; unit && k <= unit - units; k++) v *= 1024;
  if (*end) end++;
  if (!strcmp(end, "B") || !strcmp(end, "iB")) end = "";
  *bytes = v >= 1 && v < 9e18 ? (int64_t)v : 0;
  return !*end && *bytes > 0;
}

/* From here on an address is without name, password and query: words, files and attributes have what p has. */
static int copy_params(sp_ctx *ctx, rd_self *self, const rd_params *params) {
  rd_params *p = &self->own;
  *p = *params;
  p->given_path = p->path;
  p->given_val_path = p->val_path;
  if (fetch_is_address(p->path) || fetch_is_address(p->val_path)) {
    if (strlen(p->path) >= sizeof self->bare[0] || strlen(p->val_path) >= sizeof self->bare[1])
      return ctx->host->fail(ctx, SP_E_INVALID, "an address is longer than %zu bytes", sizeof self->bare[0]);
    fetch_bare(p->path, self->bare[0], sizeof self->bare[0]);
    fetch_bare(p->val_path, self->bare[1], sizeof self->bare[1]);
    p->path = self->bare[0];
    p->val_path = self->bare[1];
  }
  if (*p->cache_size && !read_bytes(p->cache_size, &p->cache_bytes))
    return ctx->host->fail(ctx, SP_E_INVALID, "cache_size = \"%s\": a number of bytes is expected, or such as 20G",
                           p->cache_size);
  return SP_OK;
}

static int reader_create(sp_ctx *ctx, const void *params, void **out) {
  rd_self *self = calloc(1, sizeof *self);
  if (!self) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the reader");
  self->p = &self->own;
  im_work_init(&self->work);
  int rc = copy_params(ctx, self, params);
  if (!rc) rc = set_up(ctx, self);
  if (!rc) rc = check_names(ctx, self);
  if (!rc) rc = rd_make_draws(ctx, self);
  if (!rc) rc = set_attrs(ctx, self);
  if (rc) {
    reader_destroy(self);
    return rc;
  }
  *out = self;
  return SP_OK;
}

/* A byte holds 256 classes, or 255 and "no label". */
static int wide_labels(const rd_self *self) { return self->classes > 255 + !!(self->gives & RD_LABEL); }

static int reader_plan(sp_ctx *ctx, void *arg, sp_plan *plan) {
  rd_self *self = arg;
  if (plan->batch < 1) return ctx->host->fail(ctx, SP_E_RANGE, "batch = %" PRId64 " is below 1", plan->batch);
  plan->out[0].spec[0] = (sp_spec){.dtype = im_keep_dtype(&self->keep),
                                   .ndim = 4,
                                   .shape = {plan->batch, self->keep.channels, self->h, self->w},
                                   .order = SP_CHANNELS_LAST};
  plan->out[1].spec[0] = (sp_spec){
      .dtype = self->p->target == RD_TARGET_MAP ? SP_F32 : SP_U8, .ndim = 3, .shape = {plan->batch, self->h, self->w}};
  plan->out[2].spec[0] = (sp_spec){.dtype = wide_labels(self) ? SP_I32 : SP_U8, .ndim = 1, .shape = {plan->batch}};
  if (self->gives & (RD_LABELS | RD_NUMBERS))
    plan->out[2].spec[0] = (sp_spec){.dtype = SP_F32, .ndim = 2, .shape = {plan->batch, self->classes}};
  plan->out[3].spec[0] = (sp_spec){.dtype = SP_I32, .ndim = 2, .shape = {plan->batch, 3}};
  plan->out[4].spec[0] = plan->out[0].spec[0];
  plan->attrs = self->attrs;
  plan->n_attrs = sizeof self->attrs / sizeof *self->attrs;
  plan->length = self->length;
  plan->draw = self->draws;
  return SP_OK;
}

/* An output that the data does not have says "no label" throughout. Whoever reads it has probably made a mistake, but a
 * list of files has neither by nature. */
static void warn_of_missing(sp_ctx *ctx, rd_self *self, const sp_io *io) {
  static const char *const names[] = {"image", "mask", "label"};
  static const int gives[] = {0, RD_MASK, RD_LABEL | RD_LABELS | RD_NUMBERS};
  if (self->p->files.n) return;
  for (int i = 1; i < 3; i++) {
    if (!io->out[i].t[0].data || self->gives & gives[i] || self->warned & gives[i]) continue;
    self->warned |= gives[i];
    int made_up = !self->table; /* has both, by the target */
    const char *cure = i == 2 ? ", or give target = \"class\"" : ", or give target = \"mask\"";
    ctx->host->log(
        ctx, SP_LOG_WARN,
        "output '%s' is read, but %s with target = \"%s\" has none: all of it is \"no label\" (255); read '%s' "
        "instead%s",
        names[i], self->p->path, rd_targets[self->p->target], names[3 - i], made_up ? cure : "");
  }
}

/* A worker may get its first sample long after the first step. */
static int reader_prepare(sp_ctx *ctx, void *arg, const sp_io *io) {
  rd_self *self = arg;
  warn_of_missing(ctx, self, io);
  if (io->out[4].t[0].data && !(self->table && self->table->seconds) && !(self->warned & RD_NO_SECOND)) {
    self->warned |= RD_NO_SECOND;
    ctx->host->log(ctx, SP_LOG_WARN, "output 'second' is read, but a sample of %s has one image: all of it is 0",
                   *self->p->path ? self->p->path : "files");
  }
  if (self->table && self->table->seconds && io->out[0].t[0].data && !io->out[4].t[0].data &&
      !(self->warned & RD_FIRST_ALONE)) {
    self->warned |= RD_FIRST_ALONE;
    ctx->host->log(ctx, SP_LOG_WARN,
                   "a sample of %s has two images, and output 'second' is not read: nothing sees the second ones",
                   self->p->path);
  }
  for (int64_t i = 0; self->kind->reserve && i < self->p->workers; i++)
    if (!self->kind->reserve(self, &self->workers[i]))
      return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for pictures of %d x %d", self->h, self->w);
  return SP_OK;
}

/* ---- one batch ---- */
typedef struct rd_batch {
  sp_ctx *ctx;
  rd_self *self;
  const uint64_t *ids;
  uint8_t *image, *mask, *second; /* NULL where nobody reads them; images: also of floats */
  void *label;
  int32_t *origin;
  int64_t values;     /* numbers that a sample has as label; 0: it has a class */
  int wide, labelled; /* labelled: atomic: some pixel of some mask has a label */
} rd_batch;

/* Notes a damaged file once. More than max_bad of them stop the run. */
static int note_broken(sp_ctx *ctx, rd_self *self, rd_worker *w, uint64_t index) {
  if (__atomic_exchange_n(&self->broken[index], 1, __ATOMIC_RELAXED)) return SP_OK;
  int n = __atomic_add_fetch(&self->n_broken, 1, __ATOMIC_RELAXED);
  if (n <= self->p->max_bad) {
    ctx->host->log(ctx, SP_LOG_WARN, "%s; another sample takes its place (%d of at most %" PRId64 ")", w->why, n,
                   self->p->max_bad);
    return SP_OK;
  }
  if (self->p->max_bad == 0) return SP_E_DATA; /* `why` says it all */
  char last[IM_WORDS];
  memcpy(last, w->why, sizeof last);
  return rd_fail(w, SP_E_DATA,
                 "%d broken files, and max_bad is %" PRId64 "; `max_bad = %" PRIu64
                 "` replaces each by another sample; the last: %.700s",
                 n, self->p->max_bad, self->length, last);
}

/* Sample `at` of the split; if that is broken, others in an order that depends on `at` alone. *origin: which of the
 * whole set it is. */
static int fill_sample(sp_ctx *ctx, rd_self *self, rd_worker *w, uint64_t at, const rd_out *out, int32_t *origin) {
  uint64_t try = at;
  char last[IM_WORDS] = "";
  for (uint32_t k = 0; k <= RD_REPLACEMENTS; k++) {
    uint64_t index = self->list[try];
    if (!__atomic_load_n(&self->broken[index], __ATOMIC_RELAXED)) {
      w->remarks = 0;
      int rc = self->kind->fill(self, w, index, out);
      *origin = (int32_t)index;
      if (!rc && w->remarks) rd_note_remarks(self, w, index);
      if (rc != IM_BROKEN) return rc;
      memcpy(last, w->why, sizeof last);
      if ((rc = note_broken(ctx, self, w, index))) return rc;
    }
    try = sp_rng_below(sp_rng(self->key, at, k).v[0], (uint32_t)self->length);
  }
  const char *path = *self->p->path ? self->p->path : "files";
  if (!*last)
    return rd_fail(
        w, SP_E_DATA,
        "%.700s: %d samples that were to replace broken ones are broken too; spcore data %.700s --check names them all",
        path, RD_REPLACEMENTS, *self->p->path ? path : "DIR");
  return rd_fail(w, SP_E_DATA, "%.700s: %d samples that were to replace broken ones are broken too; the last: %.700s",
                 path, RD_REPLACEMENTS, last);
}

/* Bytes of a pixel that a kind makes: of grey ones from colours RGB. */
static size_t image_pixel(const rd_self *self) {
  return self->keeps ? (size_t)self->keep.channels * im_keep_bytes(&self->keep) : 3;
}

/* All bits of a pixel without label or value are 1. */
static size_t mask_pixel(const rd_self *self) { return self->p->target == RD_TARGET_MAP ? sizeof(float) : 1; }

static int has_label(const rd_self *self, const void *mask, size_t pixels) {
  const uint8_t *labels = mask;
  const float *values = mask;
  if (self->p->target == RD_TARGET_MAP) {
    for (size_t k = 0; k < pixels; k++)
      if (values[k] == values[k]) return 1;
    return 0;
  }
  for (size_t k = 0; k < pixels; k++)
    if (labels[k] != 255) return 1;
  return 0;
}

/* Sample `at` of the split, whatever it is: what is wrong is told, and its place stays empty. */
static int check_sample(sp_ctx *ctx, rd_self *self, rd_worker *w, uint64_t at, const rd_out *out, int32_t *origin) {
  uint64_t index = self->list[at];
  w->remarks = 0;
  int rc = self->kind->fill(self, w, index, out);
  if (!rc && w->remarks) rd_note_remarks(self, w, index);
  *origin = rc ? -1 - (int32_t)index : (int32_t)index;
  if (!rc || rc == SP_E_NOMEM) return rc;
  size_t pixels = (size_t)self->h * (size_t)self->w;
  if (out->image) memset(out->image, 0, pixels * image_pixel(self));
  if (out->second) memset(out->second, 0, pixels * image_pixel(self));
  if (out->mask) memset(out->mask, 255, pixels * mask_pixel(self));
  ctx->host->log(ctx, SP_LOG_WARN, "%s", w->why);
  return SP_OK;
}

/* Item i of the batch, with what the kind leaves out. */
static int fill_outputs(rd_batch *b, rd_worker *w, int64_t i, uint64_t at) {
  rd_self *self = b->self;
  size_t pixels = (size_t)self->h * (size_t)self->w;
  uint8_t *mask = b->mask ? b->mask + (size_t)i * pixels * mask_pixel(self) : NULL;
  int32_t label = -1, origin[3] = {0, self->h, self->w};
  if (mask && !(self->gives & RD_MASK)) {
    memset(mask, 255, pixels * mask_pixel(self));
    mask = NULL;
  }
  int grey = (b->image || b->second) && !self->keeps && self->keep.channels == 1;
  uint8_t *to[2] = {b->image, b->second}, *made[2], *room = grey ? im_reserve(&w->grey, pixels * 6) : NULL;
  for (int k = 0; k < 2; k++)
    made[k] = !to[k] ? NULL
              : grey ? room + (size_t)k * pixels * 3
                     : to[k] + (size_t)i * pixels * image_pixel(self);
  if (made[1] && !(self->table && self->table->seconds)) {
    memset(to[1] + (size_t)i * pixels * (grey ? 1 : image_pixel(self)), 0, pixels * (grey ? 1 : image_pixel(self)));
    made[1] = NULL;
  }
  if (grey && !room) return rd_fail(w, SP_E_NOMEM, "no memory for %d x %d pixels", self->h, self->w);
  float *values = b->values && b->label ? (float *)b->label + i * b->values : NULL;
  if (values) memset(values, 0, (size_t)b->values * sizeof *values);
  rd_out out = {made[0], made[1], mask, &label, values, b->origin ? origin + 1 : NULL};
  int rc =
      self->p->check ? check_sample(b->ctx, self, w, at, &out, origin) : fill_sample(b->ctx, self, w, at, &out, origin);
  if (b->origin) memcpy(b->origin + i * 3, origin, sizeof origin);
  for (int k = 0; k < 2 && grey && !rc; k++)
    if (made[k]) im_brightness(made[k], pixels, to[k] + (size_t)i * pixels);
  if (mask && !rc && has_label(self, mask, pixels)) __atomic_store_n(&b->labelled, 1, __ATOMIC_RELAXED);
  if (b->label && !values && b->wide) ((int32_t *)b->label)[i] = label;
  else if (b->label && !values) ((uint8_t *)b->label)[i] = (uint8_t)label; /* -1 becomes 255 */
  return rc;
}

/* Nothing can be learned from such a batch, and its loss is 0. Told once. */
static void warn_of_void(rd_batch *b) {
  rd_self *self = b->self;
  char name[4096] = "";
  if (self->warned & RD_UNLABELLED) return;
  self->warned |= RD_UNLABELLED;
  if (self->table)
    rd_name(self->table, &self->table->samples[self->list[SP_ID_INDEX(b->ids[0])]].mask, name, sizeof name);
  if (self->p->target == RD_TARGET_MAP) {
    b->ctx->host->log(b->ctx, SP_LOG_WARN,
                      "no pixel of a batch has a value, so nothing is learned from it; its first map is %s", name);
    return;
  }
  b->ctx->host->log(b->ctx, SP_LOG_WARN,
                    "every pixel of a batch is \"no label\" (255), so nothing is learned from it%s%s; labels are 0 to "
                    "%" PRId64,
                    *name ? "; its first mask is " : "", name, self->classes - 1);
}

static int fill_item(void *arg, int64_t i, int worker) {
  rd_batch *b = arg;
  rd_self *self = b->self;
  rd_worker *w = &self->workers[worker];
  uint64_t at = SP_ID_INDEX(b->ids[i]);
  int rc;
  if (at >= self->length)
    rc = rd_fail(w, SP_E_RANGE, "sample %" PRIu64 " was asked for, there are %" PRIu64, at, self->length);
  else rc = fill_outputs(b, w, i, at);
  return rc ? im_work_failed(&self->work, i, rc, w->why) : SP_OK;
}

static int reader_forward(sp_ctx *ctx, void *arg, const sp_io *io) {
  rd_self *self = arg;
  const sp_tensor *image = io->out[0].t, *mask = io->out[1].t, *label = io->out[2].t;
  rd_batch b = {ctx,
                self,
                io->ids,
                image->data,
                mask->data,
                io->out[4].t[0].data,
                label->data,
                io->out[3].t[0].data,
                label->spec.dtype == SP_F32 ? label->spec.shape[1] : 0,
                label->spec.dtype == SP_I32,
                0};
  int rc = im_work_run(ctx, &self->work, (int)self->p->workers, image->spec.shape[0], fill_item, &b);
  rd_tell_remarks(ctx, self);
  if (!rc && b.mask && self->gives & RD_MASK && !b.labelled) warn_of_void(&b);
  return rc;
}

/* ---- the stage ---- */
static const sp_stage_type reader_type = {
    .size = sizeof(sp_stage_type),
    .flags = SP_STAGE_SOURCE,
    .name = "reader",
    .device = "cpu",
    .doc = "Reads images with label masks or classes from files, archives and arrays, or makes them up",
    .outputs = rd_outputs,
    .params = rd_param_table,
    .params_size = sizeof(rd_params),
    .create = reader_create,
    .destroy = reader_destroy,
    .plan = reader_plan,
    .prepare = reader_prepare,
    .forward = reader_forward};

static const sp_stage_type *const stages[] = {&reader_type, NULL};

SP_PLUGIN("reader", "Data from files and made up", stages);
