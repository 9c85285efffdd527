/* SPDX-License-Identifier: MIT
 * sample.c - one sample: where its files go, its labels at the size of its picture, the files. */
#include "image_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "../../kits/best.h"

/* Where one sample's files go. */
typedef struct iw_place {
  const char *folder, *name;
  char number[24], label[16];
} iw_place;

/* What a sample is written as. */
typedef struct iw_view {
  const uint8_t *rgb, *labels; /* NULL: none */
  int w, h;
  int is_fitted; /* by fit into the size of the logits */
  im_geometry fit;
} iw_view;

static int SP_PRINTF(3, 4) say(iw_worker *w, int status, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(w->why, sizeof w->why, fmt, ap);
  va_end(ap);
  return status;
}

/* dir/pattern with the star replaced; `folder`, where not empty, comes before the last part and is made. */
static int file_name(iw_worker *w, const iw_params *p, const char *pattern, const iw_place *at,
                     char path[IW_PATH_BYTES]) {
  const char *star = strchr(pattern, '*'), *slash = strrchr(pattern, '/'), *last = slash ? slash + 1 : pattern;
  int n = snprintf(path, IW_PATH_BYTES, "%s/%.*s%s", p->dir, (int)(last - pattern), pattern, at->folder);
  if (n < IW_PATH_BYTES && *at->folder) {
    if (mkdir(path, 0777) && errno != EEXIST) return say(w, SP_E_IO, "folder %.700s: %s", path, strerror(errno));
    path[n++] = '/';
  }
  if (n < IW_PATH_BYTES)
    n += snprintf(path + n, (size_t)(IW_PATH_BYTES - n), "%.*s%s%s", (int)(star - last), last, at->name, star + 1);
  if (n < IW_PATH_BYTES) return SP_OK;
  return say(w, SP_E_INVALID, "the path of %.200s is longer than %d bytes", at->name, IW_PATH_BYTES);
}

static int save(iw_worker *w, const char *path, int rc) {
  if (!rc) rc = im_save(&w->encoder, path);
  return rc ? say(w, rc, "%.700s: %s", path, w->encoder.why) : SP_OK;
}

static int write_rgb(iw_worker *w, const iw_params *p, const char *pattern, const iw_place *at, const uint8_t *rgb,
                     int iw, int ih) {
  char path[IW_PATH_BYTES];
  int rc = file_name(w, p, pattern, at, path);
  if (rc) return rc;
  return save(w, path,
              iw_is_jpeg(path) ? im_to_jpeg(&w->encoder, rgb, iw, ih, (int)p->quality)
                               : im_to_png(&w->encoder, rgb, iw, ih));
}

static int write_labels(iw_worker *w, const iw_params *p, const iw_place *at, const iw_view *v) {
  char path[IW_PATH_BYTES];
  int rc = file_name(w, p, p->masks, at, path);
  return rc ? rc : save(w, path, im_labels_to_png(&w->encoder, v->labels, v->w, v->h));
}

/* Sample i as RGB triples: of floats those from 0 to 1, of many channels the first three. */
static int take_rgb(const iw_batch *b, iw_worker *w, int64_t i, iw_view *v) {
  const sp_spec *spec = &b->image->spec;
  size_t pixels = (size_t)(spec->shape[2] * spec->shape[3]), channels = (size_t)spec->shape[1];
  int floats = spec->dtype == SP_F32, last = spec->order == SP_CHANNELS_LAST;
  const uint8_t *in = (const uint8_t *)b->image->data + (size_t)i * pixels * channels * (floats ? sizeof(float) : 1);
  v->rgb = in;
  v->h = (int)spec->shape[2];
  v->w = (int)spec->shape[3];
  if (channels == 3 && last && !floats) return SP_OK;
  uint8_t *out = im_reserve(&w->rgb, pixels * 3);
  if (!out) return say(w, SP_E_NOMEM, "no memory for an image of %d x %d", v->w, v->h);
  v->rgb = out;
  if (last && floats) im_look_floats((const float *)(const void *)in, (int)channels, pixels, 0.0f, 1.0f, out);
  else if (last) im_look_bytes(in, (int)channels, pixels, out);
  for (size_t c = 0; c < 3 && !last; c++) { /* planes: each as grey, of which one colour is kept */
    size_t at = (channels < 3 ? 0 : c) * pixels;
    uint8_t one[3];
    for (size_t k = 0; k < pixels; k++) {
      if (floats) im_look_floats((const float *)(const void *)in + at + k, 1, 1, 0.0f, 1.0f, one);
      out[k * 3 + c] = floats ? one[0] : in[at + k];
    }
  }
  return SP_OK;
}

static void count(iw_worker *w, const iw_view *v) {
  memset(w->pixels, 0, sizeof w->pixels);
  for (size_t k = 0, n = (size_t)v->w * (size_t)v->h; k < n; k++) w->pixels[v->labels[k]]++;
}

/* A part of each label's colour over the image, its outline in full; the background and what has no label (255) stay
 * clear. Below, on white, the legend. */
static int blend(iw_worker *w, const iw_params *p, const iw_view *v, iw_view *out) {
  size_t line = (size_t)v->w, pixels = line * (size_t)v->h;
  const uint8_t *labels = v->labels;
  int more = iw_legend(NULL, v->w, p, w), part = (int)(p->opacity * 256 + 0.5);
  uint8_t *o = im_reserve(&w->overlay, (pixels + line * (size_t)more) * 3);
  *out = (iw_view){.rgb = o, .w = v->w, .h = v->h + more};
  if (!o) return say(w, SP_E_NOMEM, "no memory for an overlay of %d x %d pixels", out->w, out->h);
  memcpy(o, v->rgb, pixels * 3);
  memset(w->tint, 0, sizeof w->tint);
  memset(w->tinted, 0, sizeof w->tinted);
  for (size_t k = 0; k < pixels; k++, o += 3) {
    uint8_t label = labels[k], c[3];
    if (label == p->background || label == 255) continue;
    size_t x = k % line;
    int edge = (x > 0 && labels[k - 1] != label) || (x + 1 < line && labels[k + 1] != label) ||
               (k >= line && labels[k - line] != label) || (k + line < pixels && labels[k + line] != label);
    im_label_colour(label, c);
    for (int i = 0; i < 3; i++) o[i] = edge ? c[i] : (uint8_t)((o[i] * (256 - part) + c[i] * part + 128) / 256);
    for (int i = 0; !edge && i < 3; i++) w->tint[label][i] += o[i];
    w->tinted[label] += !edge;
  }
  memset(o, 255, line * (size_t)more * 3);
  iw_legend(o, v->w, p, w);
  return SP_OK;
}

/* A file of numbers as RGB: range becomes black to white, or where there is none its least and largest number do. */
static int look_at_numbers(const iw_self *self, iw_worker *w, iw_view *v) {
  const im_keep *k = &self->keep;
  im_kept is;
  int rc = im_keep_read(&w->decoder, k, self->p->max_pixels, &w->scratch, &w->numbers, &is);
  if (rc) return rc;
  size_t pixels = (size_t)is.w * (size_t)is.h, n = pixels * (size_t)is.channels;
  uint8_t *rgb = im_reserve(&w->original, pixels * 3);
  if (!rgb) return say(w, SP_E_NOMEM, "no memory for a picture of %d x %d pixels", is.w, is.h);
  const float *f = w->numbers.p;
  float lo = k->lo, hi = k->lo + 1.0f / k->by;
  if (k->as != IM_AS_UINT8 && !*self->p->keep.range) {
    lo = INFINITY;
    hi = -INFINITY;
    for (size_t i = 0; i < n; i++) lo = fminf(lo, f[i]), hi = fmaxf(hi, f[i]);
  }
  if (k->as == IM_AS_UINT8) im_look_bytes(w->numbers.p, is.channels, pixels, rgb);
  else im_look_floats(f, is.channels, pixels, lo, hi, rgb);
  v->w = is.w;
  v->h = is.h;
  return SP_OK;
}

/* The file that a sample came from, in `part` or at `path`: its size, and where an overlay is wanted its picture. */
static int open_original(const iw_self *self, iw_worker *w, const char *path, const sp_part *part, iw_view *v) {
  const iw_params *p = self->p;
  w->decoder.as_stored = !p->orient;
  int rc = part ? im_take(&w->decoder, part->data, part->bytes) : im_load(&w->decoder, path);
  if (!rc && *p->overlays && self->keeps) rc = look_at_numbers(self, w, v);
  else if (!rc && *p->overlays) rc = im_rgb(&w->decoder, p->max_pixels, &w->original, &v->w, &v->h);
  else if (!rc) rc = im_size(&w->decoder, &v->w, &v->h);
  if (rc) return say(w, rc > 0 ? SP_E_DATA : rc, "%.700s: %s", path, w->decoder.why);
  if (v->w > p->max_pixels / v->h)
    return say(w, SP_E_DATA,
               "%.700s: %d x %d pixels, and max_pixels is %" PRId64 "; `max_pixels = %" PRId64 "` takes it", path, v->w,
               v->h, p->max_pixels, (int64_t)v->w * v->h);
  if (*p->overlays) v->rgb = w->original.p;
  return SP_OK;
}

static uint8_t *label_memory(iw_worker *w, const iw_view *v) {
  uint8_t *labels = im_reserve(&w->labels, (size_t)v->w * (size_t)v->h);
  if (!labels) say(w, SP_E_NOMEM, "no memory for %d x %d labels", v->w, v->h);
  return labels;
}

/* The labels of the mask, each for those that it is nearest to. */
static int take_labels(const iw_batch *b, iw_worker *w, int64_t i, iw_view *v) {
  int mh = (int)b->mask->spec.shape[1], mw = (int)b->mask->spec.shape[2];
  const uint8_t *labels = (const uint8_t *)b->mask->data + (size_t)i * (size_t)mh * (size_t)mw;
  v->labels = labels;
  if (mh == v->h && mw == v->w) return SP_OK;
  uint8_t *big = label_memory(w, v);
  if (!big) return SP_E_NOMEM;
  im_geometry g = im_fit(&(im_fitting){.how = IM_SQUASH}, mw, mh, v->w, v->h);
  im_nearest(labels, &g, big);
  v->labels = big;
  return SP_OK;
}

/* Whether the network has not seen this pixel of the picture. */
static int is_cut(const im_enlarger *e, int x, int y) {
  return x < e->across.first || x >= e->across.last || y < e->down.first || y >= e->down.last;
}

/* The classes of the largest scores, which are enlarged first: a row at a time, whatever the size of the picture. */
static int take_best(const iw_batch *b, iw_worker *w, int64_t i, const char *probabilities, iw_view *v) {
  const sp_spec *s = &b->logits->spec;
  const iw_params *p = b->self->p;
  float cut = p->threshold > 0 ? iw_cut(p) : 0;
  im_scores scores = {(const float *)b->logits->data + i * s->shape[1] * s->shape[2] * s->shape[3], (int)s->shape[1],
                      (int)s->shape[3], (int)s->shape[2], s->order == SP_CHANNELS_LAST};
  if (b->scores) scores = *b->scores;
  uint8_t *labels = label_memory(w, v);
  int rc = SP_OK;
  if (!labels) return SP_E_NOMEM;
  if (im_enlarge_begin(&w->enlarger, &scores, v->w, v->h, v->is_fitted ? &v->fit : NULL))
    return say(w, SP_E_NOMEM, "no memory for %d rows of %d scores", scores.classes, v->w);
  v->labels = labels;
  for (int y = 0; y < v->h && !rc; y++, labels += v->w) {
    float *row = im_enlarge_row(&w->enlarger, y);
    if (p->threshold > 0)
      for (int x = 0; x < v->w; x++) labels[x] = row[x] >= cut;
    else best_of_planes(row, scores.classes, v->w, v->w, labels);
    for (int x = 0; x < v->w && v->is_fitted; x++)
      if (is_cut(&w->enlarger, x, y)) labels[x] = 255;
    if (*probabilities) rc = iw_probabilities_row(w, row, y);
  }
  return rc;
}

/* The same with a file of probabilities on the way. */
static int take_both(const iw_batch *b, iw_worker *w, int64_t i, const iw_place *at, iw_view *v) {
  char path[IW_PATH_BYTES] = "";
  const iw_params *p = b->self->p;
  if (!*p->probabilities) return take_best(b, w, i, path, v);
  int rc = file_name(w, p, p->probabilities, at, path);
  if (rc) return rc;
  rc = iw_probabilities_begin(w, p, path, (int)b->logits->spec.shape[1], v->w, v->h);
  if (!rc) rc = take_best(b, w, i, path, v);
  rc = iw_probabilities_end(w, path, rc);
  return *w->probabilities.file.why ? say(w, rc, "%.700s: %s", path, w->probabilities.file.why) : rc;
}

/* The enlarged numbers to their file. */
static int write_values(const iw_batch *b, iw_worker *w, int64_t i, const iw_place *at, const iw_view *v) {
  char path[IW_PATH_BYTES];
  const sp_spec *s = &b->logits->spec;
  im_scores scores = {(const float *)b->logits->data + i * s->shape[2] * s->shape[3], 1, (int)s->shape[3],
                      (int)s->shape[2], 0};
  if (b->scores) scores = *b->scores;
  int rc = file_name(w, b->self->p, b->self->p->values, at, path);
  if (rc) return rc;
  if (im_enlarge_begin(&w->enlarger, &scores, v->w, v->h, v->is_fitted ? &v->fit : NULL))
    return say(w, SP_E_NOMEM, "no memory for rows of %d numbers", v->w);
  rc = iw_values_begin(w, b->self->p, path, v->w, v->h);
  for (int y = 0; y < v->h && !rc; y++) {
    float *row = im_enlarge_row(&w->enlarger, y);
    for (int x = 0; x < v->w && v->is_fitted; x++)
      if (is_cut(&w->enlarger, x, y)) row[x] = NAN;
    rc = iw_values_row(w, row, y);
  }
  rc = iw_values_end(w, path, rc);
  return rc ? say(w, rc, "%.700s: %s", path, w->values.file.why) : SP_OK;
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
                          char path[IW_PATH_BYTES]) {
  uint32_t form = 0;
  im_window at;
  *part = b->f.queue && (b->self->p->restore || b->scores) ? feed_parts(&b->f, b->ids[i], &form) : NULL;
  snprintf(path, IW_PATH_BYTES, "%s", entry ? entry->original : "");
  if (!*part || form == IM_FORM_FILE) return;
  if (!im_window_of(*part, form, &at, path, IW_PATH_BYTES)) *path = 0; /* the source has rejected it */
  *part = NULL;
}

/* To those who read the outputs. */
static void tell(const iw_batch *b, const iw_worker *w, int64_t i, const iw_view *v) {
  if (b->size) {
    b->size[2 * i] = v->h;
    b->size[2 * i + 1] = v->w;
  }
  if (b->found && *b->self->p->values) {
    b->found[3 * i] = (double)w->values.least;
    b->found[3 * i + 1] = (double)w->values.most;
    b->found[3 * i + 2] = (double)w->values.clipped;
  }
  if (b->pixels && v->labels) memcpy(b->pixels + i * b->labels, w->pixels, (size_t)b->labels * sizeof *w->pixels);
}

static void size_of(const sp_tensor *t, int first, iw_view *v) {
  v->h = (int)t->spec.shape[first];
  v->w = (int)t->spec.shape[first + 1];
}

int iw_write_sample(const iw_batch *b, iw_worker *w, int64_t i) {
  const iw_params *p = b->self->p;
  const sp_part *part;
  char path[IW_PATH_BYTES];
  iw_place at;
  iw_view v = {NULL, NULL, 0, 0, 0, {0}}, both;
  const iw_name *entry;
  int rc = place(b, w, i, &at, &entry);
  if (rc) return rc;
  if (b->image && !b->scores && (rc = take_rgb(b, w, i, &v))) return rc;
  if (b->image && !b->scores && *p->images && (rc = write_rgb(w, p, p->images, &at, v.rgb, v.w, v.h))) return rc;
  if (!b->mask && !b->logits) return SP_OK;
  if (b->mask || !b->image) size_of(b->mask ? b->mask : b->logits, b->mask ? 1 : 2, &v);
  find_original(b, i, entry, &part, path);
  if ((part || *path) && (rc = open_original(b->self, w, path, part, &v))) return rc;
  v.is_fitted = (part || *path) && b->logits && !b->scores && (p->fit.how != IM_SQUASH || p->fit.shorter);
  if (v.is_fitted) v.fit = im_fit(&p->fit, v.w, v.h, (int)b->logits->spec.shape[3], (int)b->logits->spec.shape[2]);
  if (*p->values) {
    if (!(rc = write_values(b, w, i, &at, &v))) tell(b, w, i, &v);
    return rc;
  }
  if ((rc = b->mask ? take_labels(b, w, i, &v) : take_both(b, w, i, &at, &v))) return rc;
  count(w, &v);
  tell(b, w, i, &v);
  if (*p->masks && (rc = write_labels(w, p, &at, &v))) return rc;
  if (!*p->overlays) return SP_OK;
  if ((rc = blend(w, p, &v, &both))) return rc;
  return write_rgb(w, p, p->overlays, &at, both.rgb, both.w, both.h);
}
