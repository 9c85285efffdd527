/* SPDX-License-Identifier: MIT
 * contact_sheet.c - the stage `contact_sheet`: samples as they are and as they come out of augmentation, with what was
 * drawn for them, as one PNG file. The row of a picture is its sample's number, the column its epoch; or a list says
 * which sample each cell has. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <spcore/plugin.h>

#include "../../kits/image/image.h"
#include "sheet.h"
#include "text.h"

#define PATH_BYTES 4000 /* im_save adds to it */
#define MAX_CELLS 1024  /* of a row or column */

enum {
  IN_IMAGE,
  IN_MASK,
  IN_ORIGINAL,
  IN_ORIGINAL_MASK,
  IN_VALUES,
  IN_LABEL,
  IN_SECOND,
  IN_ORIGINAL_SECOND,
  IN_MEANING,
  IN_PORTS
};

typedef struct cs_text {
  const char *text;
} cs_text;

typedef struct cs_params {
  const char *file, *title, *class_names, *mask_names, *ramp;
  int64_t rows, columns, zoom, text;
  double overlay;
  sp_ints cells;                          /* none: rows are samples, columns epochs */
  sp_structs captions, names, cell_names; /* cs_text */
} cs_params;

typedef struct cs_self {
  const cs_params *p;
  cs_layout layout;
  im_buf memory;
  cs_canvas canvas;
  im_encoder encoder;
  int begun;
  int64_t left;  /* cells that are still empty */
  uint8_t *full; /* [rows x columns] */
} cs_self;

/* ---- making ---- */
static int is_png(const char *path) {
  size_t n = strlen(path);
  return n > 4 && !strcasecmp(path + n - 4, ".png");
}

/* What can be seen to fail is told now, not when the last picture is drawn. */
static int check_file(sp_ctx *ctx, const char *file) {
  char folder[PATH_BYTES];
  struct stat st;
  const char *slash = strrchr(file, '/');
  if (!is_png(file)) return ctx->host->fail(ctx, SP_E_INVALID, "file = \"%.300s\": the name must end in .png", file);
  if (snprintf(folder, sizeof folder, "%s", file) >= (int)sizeof folder)
    return ctx->host->fail(ctx, SP_E_INVALID, "file is longer than %zu bytes: %.200s...", sizeof folder, file);
  if (!stat(file, &st) && S_ISDIR(st.st_mode)) return ctx->host->fail(ctx, SP_E_IO, "file = \"%s\" is a folder", file);
  if (!slash) strcpy(folder, ".");
  else folder[slash > file ? slash - file : 1] = 0;
  if (!stat(folder, &st) && !S_ISDIR(st.st_mode)) errno = ENOTDIR;
  else if (!access(folder, W_OK | X_OK)) return SP_OK;
  return ctx->host->fail(ctx, SP_E_IO, "%s cannot be written: folder %s: %s", file, folder, strerror(errno));
}

static void contact_sheet_destroy(void *arg) {
  cs_self *self = arg;
  im_buf_free(&self->memory);
  im_encoder_free(&self->encoder);
  free(self->full);
  free(self);
}

static int contact_sheet_create(sp_ctx *ctx, const void *params, void **out) {
  const cs_params *p = params;
  int rc = check_file(ctx, p->file);
  if (rc) return rc;
  if (p->cells.n && p->cells.n != (uint64_t)(p->rows * p->columns))
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "cells has %" PRIu64 " numbers, but %" PRId64 " rows of %" PRId64 " have %" PRId64,
                           (uint64_t)p->cells.n, p->rows, p->columns, p->rows * p->columns);
  cs_self *self = calloc(1, sizeof *self);
  if (!self) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the contact sheet");
  self->p = p;
  self->full = malloc((size_t)(p->rows * p->columns));
  if (!self->full) {
    contact_sheet_destroy(self);
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %" PRId64 " x %" PRId64 " cells", p->rows, p->columns);
  }
  *out = self;
  return SP_OK;
}

/* ---- plan ---- */
static const sp_spec *spec_of(const sp_plan *plan, int port) { return plan->in[port].n ? plan->in[port].spec : NULL; }

static int check_pair(sp_ctx *ctx, const char *name, const sp_spec *image, const sp_spec *mask, cs_kind *k) {
  *k = (cs_kind){.h = 0};
  if (!image && mask) return ctx->host->fail(ctx, SP_E_INVALID, "%s_mask is wired, but %s is not", name, name);
  if (!image) return SP_OK;
  if (image->order != SP_ROW_MAJOR && image->order != SP_CHANNELS_LAST)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "%s must be row-major or channels last", name);
  if (image->shape[2] > CS_MAX_SIDE || image->shape[3] > CS_MAX_SIDE)
    return ctx->host->fail(ctx, SP_E_SHAPE,
                           "%s is %" PRId64 " x %" PRId64 " (height x width); a sheet has at most %d a side", name,
                           image->shape[2], image->shape[3], CS_MAX_SIDE);
  if (mask && (image->shape[2] != mask->shape[1] || image->shape[3] != mask->shape[2]))
    return ctx->host->fail(
        ctx, SP_E_SHAPE, "%s is %" PRId64 " x %" PRId64 ", but its mask is %" PRId64 " x %" PRId64 " (height x width)",
        name, image->shape[2], image->shape[3], mask->shape[1], mask->shape[2]);
  k->h = (int)image->shape[2];
  k->w = (int)image->shape[3];
  k->masks = mask != NULL;
  return SP_OK;
}

static int check_second(sp_ctx *ctx, const char *name, const sp_spec *image, const sp_spec *second, cs_kind *k) {
  if (!second) return SP_OK;
  if (!image) return ctx->host->fail(ctx, SP_E_INVALID, "the second of %s is wired, but %s is not", name, name);
  if (image->dtype != second->dtype || image->order != second->order ||
      memcmp(image->shape, second->shape, 4 * sizeof *image->shape) != 0)
    return ctx->host->fail(ctx, SP_E_SHAPE, "%s and its second must be of one type and shape", name);
  k->beside++;
  return SP_OK;
}

static int check_meaning(sp_ctx *ctx, const sp_spec *image, const sp_spec *meaning, cs_kind *k) {
  if (!meaning) return SP_OK;
  if (meaning->order != SP_ROW_MAJOR && meaning->order != SP_CHANNELS_LAST)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "meaning must be row-major or channels last");
  for (int d = 0; d < 4; d++)
    if (d != 1 && meaning->shape[d] != image->shape[d])
      return ctx->host->fail(ctx, SP_E_SHAPE,
                             "meaning is %" PRId64 " x %" PRId64 ", but image is %" PRId64 " x %" PRId64
                             " (height x width)",
                             meaning->shape[2], meaning->shape[3], image->shape[2], image->shape[3]);
  k->beside++;
  return SP_OK;
}

static const char *caption(const cs_params *p, uint32_t i) { return ((const cs_text *)p->captions.v)[i].text; }

static int check_captions(sp_ctx *ctx, const cs_params *p, const sp_speclist *values, int64_t batch) {
  if (values->n != p->captions.n)
    return ctx->host->fail(ctx, SP_E_INVALID, "%u tensors are wired to values, but there are %u captions", values->n,
                           p->captions.n);
  for (uint32_t i = 0; i < values->n; i++) {
    const sp_spec *s = &values->spec[i];
    if (s->ndim < 1 || s->ndim > 2 || s->shape[0] != batch || s->order != SP_ROW_MAJOR)
      return ctx->host->fail(ctx, SP_E_SHAPE, "values[%u] must have a number, or a row of numbers, for each sample",
                             i + 1);
    const char *why = cs_check_caption(caption(p, i), s->ndim > 1 ? s->shape[1] : 1);
    if (why) return ctx->host->fail(ctx, SP_E_INVALID, "captions[%u] = \"%.300s\": %s", i + 1, caption(p, i), why);
  }
  return SP_OK;
}

/* Names that stand beside the pictures: their words are whole up to MOST_WORD letters. */
static void widen_names(const cs_params *p, cs_layout *l) {
  enum { MOST_WORD = 32 };
  const cs_text *name = p->names.v;
  for (uint32_t i = 0; l->bare && i < p->names.n; i++) {
    int n = cs_longest_word(name[i].text);
    if (n > MOST_WORD) n = MOST_WORD;
    if (n > l->original.chars) l->original.chars = n;
  }
}

/* Lines below the pictures: as many as numbers of usual length need. */
static void set_lines(const cs_params *p, cs_layout *l, int with_label) {
  int names = 1, values = 0, below = 0, most = l->bare ? 6 : 3;
  char words[CS_WORDS];
  const cs_text *name = p->names.v;
  for (uint32_t i = 0; i < p->names.n; i++) {
    int n = cs_count_lines(name[i].text, l->original.chars);
    if (n > names) names = n < most ? n : most;
  }
  l->original.lines = names + with_label;
  for (uint32_t i = 0; i < p->captions.n; i++) {
    cs_write_caption(caption(p, i), NULL, 0, words);
    values += cs_count_lines(words, l->rest.chars);
  }
  for (uint32_t i = 0; i < p->cell_names.n; i++) {
    int n = cs_count_lines(((const cs_text *)p->cell_names.v)[i].text, l->rest.chars);
    if (n > below) below = n < 3 ? n : 3;
  }
  l->rest.lines = values + below;
}

static int too_large(sp_ctx *ctx, const cs_layout *l) {
  if (l->width > CS_MAX_SIDE)
    return ctx->host->fail(ctx, SP_E_SHAPE,
                           "a sheet of %d columns would be %" PRId64
                           " pixels wide, %d are possible; take fewer columns or smaller pictures",
                           l->columns, l->width, CS_MAX_SIDE);
  return ctx->host->fail(ctx, SP_E_SHAPE,
                         "a sheet of %d rows and %d columns would be %" PRId64 " x %" PRId64
                         " pixels (height x width), %d a side and %d in all are possible; take fewer of them, smaller "
                         "pictures or fewer words",
                         l->rows, l->columns, l->height, l->width, CS_MAX_SIDE, CS_MAX_PIXELS);
}

static int contact_sheet_plan(sp_ctx *ctx, void *arg, sp_plan *plan) {
  cs_self *self = arg;
  const cs_params *p = self->p;
  const sp_spec *image = spec_of(plan, IN_IMAGE), *mask = spec_of(plan, IN_MASK), *label = spec_of(plan, IN_LABEL);
  cs_layout *l = &self->layout;
  int rc;
  *l = (cs_layout){
      .title = p->title, .legend = p->mask_names, .ramp = p->ramp, .rows = (int)p->rows, .columns = (int)p->columns};
  l->zoom = (int)p->zoom;
  l->text = (int)p->text;
  l->overlay = p->overlay;
  l->bare = p->cells.n > 0;
  if ((rc = check_pair(ctx, "image", image, mask, &l->rest)) ||
      (rc = check_pair(ctx, "original", spec_of(plan, IN_ORIGINAL), spec_of(plan, IN_ORIGINAL_MASK), &l->original)) ||
      (rc = check_second(ctx, "image", image, spec_of(plan, IN_SECOND), &l->rest)) ||
      (rc = check_second(ctx, "original", spec_of(plan, IN_ORIGINAL), spec_of(plan, IN_ORIGINAL_SECOND),
                         &l->original)) ||
      (rc = check_meaning(ctx, image, spec_of(plan, IN_MEANING), &l->rest)) ||
      (rc = check_captions(ctx, p, &plan->in[IN_VALUES], image->shape[0])))
    return rc;
  if (*p->class_names && !label)
    return ctx->host->fail(ctx, SP_E_INVALID, "class_names are given, but label is not wired");
  widen_names(p, l);
  cs_set_cells(l);
  set_lines(p, l, label != NULL);
  if (!cs_lay_out(l)) return too_large(ctx, l);
  self->begun = 0;
  return SP_OK;
}

static int reserve(sp_ctx *ctx, cs_self *self) {
  const cs_layout *l = &self->layout;
  size_t bytes = (size_t)l->width * (size_t)l->height * 3;
  uint8_t *rgb = im_reserve(&self->memory, bytes);
  if (!rgb) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for a sheet of %zu bytes", bytes);
  self->canvas = (cs_canvas){rgb, (int)l->width, (int)l->height};
  return SP_OK;
}

static int contact_sheet_prepare(sp_ctx *ctx, void *arg, const sp_io *io) {
  (void)io;
  return reserve(ctx, arg);
}

/* ---- one batch ---- */
static const char *text_of(const sp_structs *list, int64_t i) {
  return i < (int64_t)list->n ? ((const cs_text *)list->v)[i].text : NULL;
}

static void begin(cs_self *self) {
  const cs_params *p = self->p;
  cs_begin(&self->canvas, &self->layout);
  self->left = p->rows * p->columns;
  memset(self->full, 0, (size_t)self->left);
  for (uint32_t i = 0; i < p->cells.n; i++) self->left -= p->cells.v[i] < 0;
  for (int row = 0; p->cells.n && row < p->rows && text_of(&p->names, row); row++)
    cs_draw_text(&self->canvas, &self->layout, row, -1, 0, text_of(&p->names, row));
  self->begun = 1;
}

static const sp_tensor *tensor_of(const sp_io *io, int port) { return io->in[port].n ? io->in[port].t : NULL; }

/* Line `label` of class_names. */
static void write_class(const cs_params *p, int32_t label, int wide, char out[CS_WORDS]) {
  const char *s = p->class_names;
  if (label < 0 || (!wide && label == 255 && !*s)) {
    snprintf(out, CS_WORDS, "no class");
    return;
  }
  for (int32_t i = 0; s && *s && i < label; i++)
    if ((s = strchr(s, '\n'))) s++;
  if (s && *s && *s != '\n') snprintf(out, CS_WORDS, "%.*s", (int)strcspn(s, "\n"), s);
  else snprintf(out, CS_WORDS, !wide && label == 255 ? "no class" : "class %" PRId32, label);
}

static void draw_original(cs_self *self, const sp_io *io, int64_t n, int row) {
  const cs_params *p = self->p;
  const sp_tensor *label = tensor_of(io, IN_LABEL);
  char words[CS_WORDS];
  if ((uint32_t)row < p->names.n) snprintf(words, sizeof words, "%s", ((const cs_text *)p->names.v)[row].text);
  else snprintf(words, sizeof words, "sample %d", row);
  cs_pictures of = {.image = tensor_of(io, IN_ORIGINAL),
                    .second = tensor_of(io, IN_ORIGINAL_SECOND),
                    .mask = tensor_of(io, IN_ORIGINAL_MASK)};
  cs_draw_pictures(&self->canvas, &self->layout, row, -1, of, n);
  int line = cs_draw_text(&self->canvas, &self->layout, row, -1, 0, words);
  if (!label) return;
  int wide = label->spec.dtype == SP_I32;
  write_class(p, wide ? ((const int32_t *)label->data)[n] : ((const uint8_t *)label->data)[n], wide, words);
  cs_draw_text(&self->canvas, &self->layout, row, -1, line, words);
}

static void draw_sample(cs_self *self, const sp_io *io, int64_t n, int row, int column) {
  const cs_params *p = self->p;
  const sp_list *values = &io->in[IN_VALUES];
  char words[CS_WORDS];
  int line = 0;
  if (column == 0 && !p->cells.n) draw_original(self, io, n, row);
  cs_pictures of = {.image = tensor_of(io, IN_IMAGE),
                    .second = tensor_of(io, IN_SECOND),
                    .meaning = tensor_of(io, IN_MEANING),
                    .mask = tensor_of(io, IN_MASK)};
  cs_draw_pictures(&self->canvas, &self->layout, row, column, of, n);
  for (uint32_t i = 0; i < values->n; i++) {
    cs_write_caption(caption(p, i), &values->t[i], n, words);
    line = cs_draw_text(&self->canvas, &self->layout, row, column, line, words);
  }
  const char *below = text_of(&p->cell_names, (int64_t)row * p->columns + column);
  if (below) cs_draw_text(&self->canvas, &self->layout, row, column, line, below);
  uint8_t *full = &self->full[(int64_t)row * p->columns + column];
  self->left -= !*full;
  *full = 1;
}

static int contact_sheet_forward(sp_ctx *ctx, void *arg, const sp_io *io) {
  cs_self *self = arg;
  const cs_params *p = self->p;
  int rc = SP_OK;
  if (!io->ids)
    return ctx->host->fail(ctx, SP_E_STATE, "there is no reader in the graph, so the samples have no numbers");
  if (!self->begun) {
    if ((rc = reserve(ctx, self))) return rc;
    begin(self);
  }
  int64_t batch = io->in[IN_IMAGE].t->spec.shape[0];
  for (int64_t n = 0; n < batch; n++) {
    uint64_t row = SP_ID_INDEX(io->ids[n]), column = SP_ID_EPOCH(io->ids[n]);
    for (uint32_t i = 0; i < p->cells.n; i++)
      if (p->cells.v[i] == (int64_t)row) draw_sample(self, io, n, (int)(i / p->columns), (int)(i % p->columns));
    if (p->cells.n) continue;
    if (row < (uint64_t)p->rows && column < (uint64_t)p->columns) draw_sample(self, io, n, (int)row, (int)column);
  }
  if (self->left) return SP_OK;
  self->begun = 0; /* who goes over the same samples again gets another sheet */
  rc = im_to_png(&self->encoder, self->canvas.rgb, self->canvas.w, self->canvas.h);
  if (!rc) rc = im_save(&self->encoder, p->file);
  return rc ? ctx->host->fail(ctx, rc, "%s: %s", p->file, self->encoder.why) : SP_OK;
}

/* ---- description ---- */
#define PICTURES(word, words, more) \
  { .name = word, .dtypes = SP_DT(SP_U8) | SP_DT(SP_F32), .ndim = 4, .flags = SP_PORT_NOGRAD | (more), .doc = words }
#define LABELS(word, words) \
  { .name = word, .dtypes = SP_DT(SP_U8), .ndim = 3, .flags = SP_PORT_NOGRAD | SP_PORT_OPTIONAL, .doc = words }

static const sp_port contact_sheet_inputs[] = {
    PICTURES("image",
             "what comes out of augmentation, N x C x H x W, bytes or floats from 0 to 1; of others than RGB the first "
             "three channels, or the first as grey",
             0),
    LABELS("mask", "its labels, N x H x W, shown in colours beside it"),
    PICTURES("original", "what goes in, of its own size, shown once a sample", SP_PORT_OPTIONAL),
    LABELS("original_mask", "its labels"),
    {.name = "values",
     .dtypes = SP_DT(SP_U8) | SP_DT(SP_I32) | SP_DT(SP_I64) | SP_DT(SP_F32) | SP_DT(SP_F64),
     .ndim = -1,
     .flags = SP_PORT_LIST | SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "what was drawn, a number or a row of numbers for each sample; captions say it"},
    {.name = "label",
     .dtypes = SP_DT(SP_U8) | SP_DT(SP_I32),
     .ndim = 1,
     .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD,
     .doc = "class of each sample, N, shown below the original"},
    PICTURES("second", "of samples of two images the second one, as image is, shown beside it", SP_PORT_OPTIONAL),
    PICTURES("original_second", "that of original", SP_PORT_OPTIONAL),
    PICTURES("meaning", "what a sample means, as a picture of image's size, shown behind its images: a map in colours",
             SP_PORT_OPTIONAL),
    {.name = NULL}};

#define AT(member) .offset = offsetof(cs_params, member)
static const sp_param text_fields[] = {
    {.name = "text",
     .type = SP_PARAM_STRING,
     .flags = SP_PARAM_REQUIRED | SP_PARAM_FIRST,
     .offset = offsetof(cs_text, text),
     .doc = "the words, in UTF-8; letters lose their marks, and what the font does not have is a ?"},
    {.name = NULL}};

static const sp_param contact_sheet_params[] = {
    {.name = "file",
     .type = SP_PARAM_STRING,
     .flags = SP_PARAM_REQUIRED,
     AT(file),
     .doc = "PNG file, written when the last cell is there; one of that name is replaced"},
    {.name = "rows",
     .type = SP_PARAM_INT,
     AT(rows),
     .idef = 8,
     .imin = 1,
     .imax = MAX_CELLS,
     .doc = "samples 0 to rows - 1 get a row each, others are left out"},
    {.name = "columns",
     .type = SP_PARAM_INT,
     AT(columns),
     .idef = 4,
     .imin = 1,
     .imax = MAX_CELLS,
     .doc = "epochs 0 to columns - 1 get a column each, others are left out"},
    {.name = "cells",
     .type = SP_PARAM_INTS,
     AT(cells),
     .imin = -1,
     .imax = INT32_MAX,
     .max_n = MAX_CELLS * 8,
     .doc = "the sample of each cell, row by row, -1: the cell stays empty; then columns are no epochs, and names "
            "those of rows"},
    {.name = "cell_names",
     .type = SP_PARAM_LIST,
     AT(cell_names),
     .fields = text_fields,
     .fields_size = sizeof(cs_text),
     .doc = "words below each cell, in the order of cells"},
    {.name = "overlay",
     .type = SP_PARAM_FLOAT,
     AT(overlay),
     .def = 0.0,
     .min = 0.0,
     .max = 1.0,
     .doc =
         "how much of a picture the colours of its mask cover; 0: masks are shown beside pictures. Label 0 covers "
         "nothing"},
    {.name = "title", .type = SP_PARAM_STRING, AT(title), .doc = "lines above all; the first one is a heading"},
    {.name = "captions",
     .type = SP_PARAM_LIST,
     AT(captions),
     .fields = text_fields,
     .fields_size = sizeof(cs_text),
     .doc =
         "the words for each tensor of values, such as \"turned {.1} degrees\": {} is a number as it is, {.2} with two "
         "digits behind the point, {+.2} with its sign too, {no|yes} the word that it counts, from 0; behind a word "
         "with a ! the next {} is left out"},
    {.name = "names",
     .type = SP_PARAM_LIST,
     AT(names),
     .fields = text_fields,
     .fields_size = sizeof(cs_text),
     .doc = "names by sample number; without one the number"},
    {.name = "class_names",
     .type = SP_PARAM_STRING,
     AT(class_names),
     .doc = "names of the classes in label, one a line, as reader's class_names"},
    {.name = "mask_names",
     .type = SP_PARAM_STRING,
     AT(mask_names),
     .doc = "names of the labels in masks, one a line: a legend of their colours is shown"},
    {.name = "ramp",
     .type = SP_PARAM_STRING,
     AT(ramp),
     .doc = "two lines, what the darkest and the lightest colour of map_picture are: a bar of the colours is shown"},
    {.name = "zoom",
     .type = SP_PARAM_INT,
     AT(zoom),
     .idef = 1,
     .imin = 1,
     .imax = 64,
     .unit = "px",
     .doc = "a side of what each pixel of a picture becomes"},
    {.name = "text",
     .type = SP_PARAM_INT,
     AT(text),
     .idef = 1,
     .imin = 1,
     .imax = 8,
     .unit = "px",
     .doc = "the same for the dots of letters, which are 5 x 9 of them"},
    {.name = NULL}};

static const sp_stage_type contact_sheet_type = {
    .size = sizeof(sp_stage_type),
    .name = "contact_sheet",
    .device = "cpu",
    .doc = "Draws samples and what augmentation made of them, with captions, into one PNG file",
    .inputs = contact_sheet_inputs,
    .params = contact_sheet_params,
    .params_size = sizeof(cs_params),
    .create = contact_sheet_create,
    .destroy = contact_sheet_destroy,
    .plan = contact_sheet_plan,
    .prepare = contact_sheet_prepare,
    .forward = contact_sheet_forward};

static const sp_stage_type *const stages[] = {&contact_sheet_type, NULL};

SP_PLUGIN("contact_sheet", "Contact sheets of samples", stages);
