/* SPDX-License-Identifier: MIT
 * samples.c - the kinds of data that a table lists: opened by the layout that is there, filled by decoding. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contents.h"
#include "maps.h"
#include "masks.h"
#include "numbers.h"

/* ---- opening ---- */
/* mean and std go with as many columns. */
static int check_scale(sp_ctx *ctx, const rd_self *self) {
  const sp_floats *both[] = {&self->p->csv.mean, &self->p->csv.std};
  for (int k = 0; k < 2; k++)
    if (both[k]->n > 1 && self->gives & RD_NUMBERS && both[k]->n != self->classes)
      return ctx->host->fail(ctx, SP_E_INVALID,
                             "%s has %d numbers, but %s has %d columns of numbers: one, or one for each",
                             k ? "std" : "mean", (int)both[k]->n, self->p->path, (int)self->classes);
  return SP_OK;
}

static int samples_open(sp_ctx *ctx, rd_self *self) {
  int rc = rd_list(ctx, self->p, &self->table);
  if (rc) return rc;
  const rd_table *t = self->table;
  self->total = t->n;
  self->own_splits = t->n_parts == 2;
  self->gives = t->gives;
  for (int k = 0; k < 2; k++) self->ends[k] = t->ends[k];
  if ((rc = t->lister->settle(ctx, self))) return rc;
  if ((rc = check_scale(ctx, self))) return rc;
  rd_tell_odd_classes(ctx, self);
  rd_tell_left(ctx, self);
  rc = rd_open_sources(ctx, self->table);
  return rc ? rc : rd_open_numbers(ctx, self);
}

static void samples_close(rd_self *self) { rd_release(self->table); }

static uint64_t samples_hash(const rd_self *self, uint64_t index) { return self->table->samples[index].key; }

char *rd_count_classes(const rd_self *self) {
  size_t classes = (size_t)self->classes, size = classes * 11 + 1;
  uint32_t *n = calloc(classes, sizeof *n);
  char *text = malloc(size), *p = text;
  for (uint64_t i = 0; n && i < self->length; i++) {
    const rd_sample *s = &self->table->samples[self->list[i]];
    if (self->gives & RD_LABEL) n[s->label]++;
    else
      for (uint32_t k = 0; k < s->cells.n; k++) n[self->table->cells[s->cells.at + k]]++;
  }
  for (size_t c = 0; n && text && c < classes; c++) p += sprintf(p, "%s%" PRIu32, c ? " " : "", n[c]);
  if (text) *p = 0;
  free(n);
  return text;
}

/* ---- labels and numbers ---- */
static int labels_item(const rd_self *self, char *to, size_t size) {
  uint64_t least = UINT64_MAX, most = 0, none = 0, all = 0;
  for (uint64_t i = 0; i < self->length; i++) {
    uint64_t n = self->table->samples[self->list[i]].cells.n;
    if (n < least) least = n;
    if (n > most) most = n;
    none += !n;
    all += n;
  }
  return snprintf(to, size, "%" PRIu64 " %.17g %" PRIu64 " %" PRIu64, self->length ? least : 0,
                  self->length ? (double)all / (double)self->length : 0, most, none);
}

static double number_of(const rd_self *self, uint64_t i, uint64_t column) {
  float v;
  memcpy(&v, &self->table->cells[self->table->samples[self->list[i]].cells.at + column], sizeof v);
  return v;
}

int rd_figure_item(const void *arg, uint64_t column, char *to, size_t size) {
  const rd_self *self = arg;
  double sum = 0, squares = 0, least = INFINITY, most = -INFINITY, n = (double)self->length;
  if (self->gives & RD_LABELS) return labels_item(self, to, size);
  for (uint64_t i = 0; i < self->length; i++) {
    double v = number_of(self, i, column);
    sum += v;
    least = v < least ? v : least;
    most = v > most ? v : most;
  }
  double mean = n > 0 ? sum / n : 0;
  for (uint64_t i = 0; i < self->length; i++)
    squares += (number_of(self, i, column) - mean) * (number_of(self, i, column) - mean);
  return snprintf(to, size, "%.17g %.17g %.17g %.17g", least, most, mean, n > 0 ? sqrt(squares / n) : 0);
}

/* 1 for each label, or the numbers, of which mean and std are taken. */
static void fill_values(const rd_self *self, const rd_sample *s, float *to) {
  const rd_csv_params *p = &self->p->csv;
  const uint32_t *cells = self->table->cells + s->cells.at;
  if (self->gives & RD_LABELS) {
    for (uint32_t k = 0; k < s->cells.n; k++) to[cells[k]] = 1;
    return;
  }
  memcpy(to, cells, s->cells.n * sizeof *to);
  for (uint32_t k = 0; k < s->cells.n; k++) {
    double v = to[k];
    if (p->mean.n) v -= p->mean.v[p->mean.n == 1 ? 0 : k];
    if (p->std.n) v /= p->std.v[p->std.n == 1 ? 0 : k];
    to[k] = (float)v;
  }
}

/* ---- one sample ---- */
int rd_blame(const rd_table *t, rd_worker *w, int rc, const rd_ref *ref) {
  char name[4096];
  rd_name(t, ref, name, sizeof name);
  return rd_fail(w, rc, "%s: %s", name, w->decoder.why);
}

/* What is read all the same, as other programs do. */
void rd_remark_damage(const rd_self *self, rd_worker *w, const rd_ref *ref) {
  char name[512];
  if (!*w->decoder.note) return;
  rd_name(self->table, ref, name, sizeof name);
  rd_remark(w, RD_DAMAGED, "%s: the file has %s; no pixel is affected, so it is read", name, w->decoder.note);
}

/* Values that fill a part of 16 bits only, as those of 12, are nearly black once they are bytes. */
void rd_remark_loss(const rd_self *self, rd_worker *w, const rd_ref *ref) {
  char name[512];
  if (!*w->decoder.lost) return;
  rd_name(self->table, ref, name, sizeof name);
  rd_remark(w, RD_REDUCED, "%s has %s", name, w->decoder.lost);
}

/* A camera's note turns the image, and whoever drew its mask may have seen it turned or not: both have one size. */
static void remark_turn(const rd_self *self, rd_worker *w, const rd_sample *s, int way, int iw, int ih) {
  static const char *const ways[] = {"mirrored",
                                     "turned by 180 degrees",
                                     "mirrored upside down",
                                     "mirrored and turned",
                                     "turned by 90 degrees",
                                     "mirrored and turned",
                                     "turned by 90 degrees"};
  char image[360], mask[360];
  if (!self->p->orient || way == 1 || w->decoder.orientation != 1 || (way >= 5 && iw != ih)) return;
  rd_name(self->table, &s->image, image, sizeof image);
  rd_name(self->table, &s->mask, mask, sizeof mask);
  rd_remark(
      w, RD_TURNED,
      "%s is %s as its EXIF orientation says, its mask %s has none and stays as it is: if masks were drawn on images "
      "that were not turned, give `orient = false`",
      image, ways[way - 2], mask);
}

/* The size that the image had goes to *iw and *ih, what its pixels are to *print; out NULL:
 * that is all that is wanted. */
static int fill_image(rd_self *self, rd_worker *w, const rd_ref *ref, uint64_t *print, void *out, int *iw, int *ih) {
  if (self->keeps) return rd_fill_numbers(self, w, ref, print, out, iw, ih);
  int rc = rd_load(self->table, ref, w);
  if (rc) return rc;
  if ((rc = im_rgb(&w->decoder, self->p->max_pixels, &w->image, iw, ih))) return rd_blame(self->table, w, rc, ref);
  rd_remark_damage(self, w, ref);
  rd_remark_loss(self, w, ref);
  if (print) *print = rd_hash_pixels(w->image.p, (size_t)*iw * (size_t)*ih * 3, *iw, *ih);
  if (!out) return SP_OK;
  if (!im_fit_rgb(&w->scaler, &self->p->fit, w->image.p, *iw, *ih, out, self->w, self->h)) return SP_OK;
  snprintf(w->decoder.why, sizeof w->decoder.why, "no memory to resize it");
  return rd_blame(self->table, w, SP_E_NOMEM, ref);
}

static int odd_mask(rd_self *self, rd_worker *w, const rd_sample *s, int iw, int ih, int mw, int mh, int turned) {
  char image[4096], mask[4096];
  rd_name(self->table, &s->image, image, sizeof image);
  rd_name(self->table, &s->mask, mask, sizeof mask);
  return rd_fail(w, SP_E_DATA,
                 "%s is %d x %d pixels, but its mask %s is %d x %d (width x height); they must be equal%s", image, iw,
                 ih, mask, mw, mh,
                 turned && iw == mh && ih == mw
                     ? "; the image was turned by its EXIF orientation, `orient = false` leaves it as it is stored"
                     : "");
}

static int fill_mask(rd_self *self, rd_worker *w, const rd_sample *s, int iw, int ih, void *out) {
  int mw, mh, way = iw ? w->decoder.orientation : 1, turned = self->p->orient && way >= 5;
  int of_maps = self->p->target == RD_TARGET_MAP;
  int rc = of_maps ? rd_load_map(self, w, &s->mask, &mw, &mh) : rd_load_mask(self, w, &s->mask, &mw, &mh);
  if (rc) return rc;
  rd_remark_damage(self, w, &s->mask);
  if (iw && (iw != mw || ih != mh)) return odd_mask(self, w, s, iw, ih, mw, mh, turned);
  remark_turn(self, w, s, way, iw, ih);
  if (of_maps) {
    rd_scale_map(self, w->image.p, (size_t)mw * (size_t)mh);
    im_fit_values(&self->p->fit, w->image.p, mw, mh, out, self->w, self->h);
    return SP_OK;
  }
  if ((rc = rd_check_labels(self, w, &s->mask, mw, mh))) return rc;
  if (self->tally)
    rd_tally_mask(&self->tally[rd_part_of(self, (uint64_t)(s - self->table->samples))], w->mask.p,
                  (size_t)mw * (size_t)mh);
  im_fit_labels(&self->p->fit, w->mask.p, mw, mh, out, self->w, self->h);
  return SP_OK;
}

/* What the file of a first image says of itself. */
typedef struct head {
  im_pixels px;
  int way, known; /* way: as EXIF counts */
} head;

static void look_at_head(rd_worker *w, head *h) {
  h->way = w->decoder.orientation;
  h->known = !im_about(&w->decoder, &h->px);
  w->decoder.orientation = h->way;
}

static const char *way_in_words(int way) {
  static const char *const ways[] = {"as it is stored",       "mirrored",
                                     "turned by 180 degrees", "mirrored upside down",
                                     "mirrored and turned",   "turned by 90 degrees",
                                     "mirrored and turned",   "turned by 90 degrees"};
  return ways[way >= 1 && way <= 8 ? way - 1 : 0];
}

/* One image turned as its EXIF says, the other not, or of another kind: read as they are, and said. */
static void compare_heads(const rd_self *self, rd_worker *w, const char names[2][300], const head *a, const head *b,
                          int square) {
  int turned = a->way >= 5 || b->way >= 5;
  if (self->p->orient && a->way != b->way && (!turned || square))
    rd_remark(
        w, RD_TURNED,
        "%s is %s by its EXIF orientation, and the second image of the sample, %s, %s: if both were taken alike, give "
        "`orient = false`",
        names[0], way_in_words(a->way), names[1], way_in_words(b->way));
  int channels[2] = {a->px.channels - a->px.alpha, b->px.channels - b->px.alpha};
  if (self->keeps || !a->known || !b->known || (a->px.type == b->px.type && channels[0] == channels[1])) return;
  rd_remark(w, RD_UNLIKE,
            "%s has %s of %d channel%s, and the second image of the sample, %s, %s of %d: both become bytes of %d; "
            "check that they mean the same",
            names[0], im_type_name(a->px.type), channels[0], channels[0] == 1 ? "" : "s", names[1],
            im_type_name(b->px.type), channels[1], self->keep.channels);
}

/* A pixel of one image is that of the other. */
static int fill_second(rd_self *self, rd_worker *w, uint64_t index, const head *of_first, int iw, int ih, void *out) {
  const rd_ref *first = &self->table->samples[index].image, *ref = &self->table->seconds[index];
  char names[2][300];
  int sw = 0, sh = 0, rc = fill_image(self, w, ref, NULL, out, &sw, &sh);
  if (rc || !iw) return rc;
  head of_second;
  look_at_head(w, &of_second);
  rd_name(self->table, first, names[0], sizeof names[0]);
  rd_name(self->table, ref, names[1], sizeof names[1]);
  if (sw == iw && sh == ih) {
    compare_heads(self, w, names, of_first, &of_second, iw == ih);
    return SP_OK;
  }
  return rd_fail(w, SP_E_DATA,
                 "%s is %d x %d pixels, but the second image of the sample, %s, is %d x %d (width x height); they must "
                 "be equal%s",
                 names[0], iw, ih, names[1], sw, sh,
                 self->p->orient && sw == ih && sh == iw
                     ? "; where one was turned by its EXIF orientation, `orient = false` leaves both as they are stored"
                     : "");
}

/* What nobody reads is not looked at: that it is damaged, or a mask of another size than its image,
 * is then not found. */
static int samples_fill(rd_self *self, rd_worker *w, uint64_t index, const rd_out *out) {
  const rd_sample *s = &self->table->samples[index];
  int iw = 0, ih = 0;
  uint64_t *print = self->prints ? &self->prints[index] : NULL;
  if (self->gives & RD_LABEL) *out->label = (int32_t)s->label;
  if (out->values) fill_values(self, s, out->values);
  int rc = out->image || out->size ? fill_image(self, w, &s->image, print, out->image, &iw, &ih) : SP_OK;
  if (out->size) out->size[0] = ih, out->size[1] = iw;
  head of_first = {.way = 1};
  if (!rc && out->second && iw) look_at_head(w, &of_first);
  if (!rc && out->mask) rc = fill_mask(self, w, s, iw, ih, out->mask);
  return rc || !out->second ? rc : fill_second(self, w, index, &of_first, iw, ih, out->second);
}

/* The names are part of what draws replacements. */
const rd_kind rd_masks = {"folder", samples_open, samples_close, samples_fill, NULL, samples_hash};
const rd_kind rd_labels = {"tree", samples_open, samples_close, samples_fill, NULL, samples_hash};
