/* SPDX-License-Identifier: MIT
 * masks.c - the labels of a mask: its values as they are, or by mask_values, or by the colours of classes.txt. */
#include "masks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Where pixel `at` of a mask lies, behind the mask's name. */
static const char *place_of(const rd_self *self, const rd_ref *ref, size_t at, int mw, char to[900]) {
  char name[800];
  rd_name(self->table, ref, name, sizeof name);
  snprintf(to, 900, "%.760s: the pixel at x = %zu, y = %zu", name, at % (size_t)mw, at / (size_t)mw);
  return to;
}

static const uint8_t *rgb_at(const rd_worker *w, size_t at) { return (const uint8_t *)w->mask.p + 3 * at; }

static int unknown_colour(rd_self *self, rd_worker *w, const rd_ref *ref, size_t at, int mw, const char *list) {
  char place[900];
  const uint8_t *c = rgb_at(w, at);
  int file = !strcmp(list, "classes.txt");
  return rd_fail(w, SP_E_DATA,
                 "%s has the colour #%02x%02x%02x, which no class in %s has; add it there, as \"%s%s#%02x%02x%02x%s\" "
                 "if it is no class",
                 place_of(self, ref, at, mw, place), c[0], c[1], c[2], list, file ? "void" : "", file ? " " : "", c[0],
                 c[1], c[2], file ? "" : "=ignore");
}

/* By colours alone. */
static int map_colours(rd_self *self, rd_worker *w, const rd_ref *ref, const rd_palette *p, const char *list, int *mw,
                       int *mh) {
  int rc = im_rgb(&w->decoder, self->p->max_pixels, &w->mask, mw, mh);
  if (rc) return rd_blame(self->table, w, rc, ref);
  size_t n = (size_t)*mw * (size_t)*mh, at = rd_map_colours(p, w->mask.p, n, w->mask.p);
  return at == n ? SP_OK : unknown_colour(self, w, ref, at, *mw, list);
}

/* ---- mask_values ---- */
/* Grey values of a file that is no PNG, or of one in colour, into bytes. */
static int take_grey(rd_self *self, rd_worker *w, const rd_ref *ref, int *mw, int *mh) {
  char place[900];
  int rc = im_rgb(&w->decoder, self->p->max_pixels, &w->mask, mw, mh);
  if (rc) return rd_blame(self->table, w, rc, ref);
  uint8_t *to = w->mask.p;
  for (size_t i = 0, n = (size_t)*mw * (size_t)*mh; i < n; i++) {
    const uint8_t *c = rgb_at(w, i);
    if (c[0] != c[1] || c[1] != c[2])
      return rd_fail(
          w, SP_E_DATA,
          "%s has the colour #%02x%02x%02x, but mask_values has grey values; colours are written #%02x%02x%02x=CLASS",
          place_of(self, ref, i, *mw, place), c[0], c[1], c[2], c[0], c[1], c[2]);
    to[i] = c[0];
  }
  return SP_OK;
}

static int no_entry(rd_self *self, rd_worker *w, const rd_ref *ref, size_t at, int mw, int32_t value) {
  char place[900];
  int32_t key = self->values->divisor && value >= self->values->divisor ? value / self->values->divisor : value;
  place_of(self, ref, at, mw, place);
  if (key != value)
    return rd_fail(w, SP_E_DATA,
                   "%s has the value %d, which is %d once it is divided by %d, and mask_values has not %d; add it, as "
                   "%d=ignore if it is no class",
                   place, value, key, self->values->divisor, key, key);
  return rd_fail(w, SP_E_DATA, "%s has the value %d, which mask_values has not; add it, as %d=ignore if it is no class",
                 place, value, value);
}

static int map_values(rd_self *self, rd_worker *w, const rd_ref *ref, int *mw, int *mh) {
  const rd_values *v = self->values;
  int rc;
  if (im_has_byte_labels(&w->decoder)) {
    rc = im_labels(&w->decoder, self->p->max_pixels, &w->mask, mw, mh);
    if (rc) return rd_blame(self->table, w, rc, ref);
  } else if ((rc = take_grey(self, w, ref, mw, mh))) {
    return rc;
  }
  uint8_t *p = w->mask.p, of[256];
  int16_t known[256];
  for (int k = 0; k < 256; k++) known[k] = (int16_t)rd_label_of(v, k), of[k] = (uint8_t)known[k];
  for (size_t i = 0, n = (size_t)*mw * (size_t)*mh; i < n; i++) {
    if (known[p[i]] < 0) return no_entry(self, w, ref, i, *mw, p[i]);
    p[i] = of[p[i]];
  }
  return SP_OK;
}

/* ---- numbers of more than 8 bits, and planes of classes ---- */
/* Whole numbers into labels, which lie where they began. */
static int map_whole(rd_self *self, rd_worker *w, const rd_ref *ref, const int32_t *from, size_t n, int mw,
                     uint8_t *to) {
  char name[800], cure[700], place[900];
  int32_t last = from[0];
  int label = self->values ? rd_label_of(self->values, last) : 0;
  for (size_t i = 0; i < n; i++) {
    int32_t value = from[i];
    if (self->values && value != last) label = rd_label_of(self->values, last = value);
    else if (!self->values) label = value >= 0 && (value < self->classes || value == RD_VOID) ? value : -1;
    if (label >= 0) {
      to[i] = (uint8_t)label;
      continue;
    }
    if (self->values) return no_entry(self, w, ref, i, mw, value);
    rd_name(self->table, ref, name, sizeof name);
    rd_explain_values(self, from, n, cure, sizeof cure);
    return rd_fail(w, SP_E_DATA, "%s is %d, which is no label (0 to %" PRId64 ", and 255: no label); %s",
                   place_of(self, ref, i, mw, place), value, self->classes - 1, cure);
  }
  return SP_OK;
}

/* Of each pixel the plane that is not 0. */
static int map_planes(rd_self *self, rd_worker *w, const rd_ref *ref, const im_pixels *px, const void *from, float *row,
                      uint8_t *to) {
  char place[900];
  size_t c = (size_t)px->channels, item = im_type_bytes(px->type), n = (size_t)px->w * (size_t)px->h;
  for (size_t i = 0; i < n; i++) {
    int set = 0, label = 0;
    im_to_floats((const char *)from + i * c * item, px->type, c, row);
    float most = 0;
    for (size_t k = 0; k < c; k++)
      if (row[k] != 0) set++, label = (int)k, most = row[k];
    if (set == 1 && most > 0) {
      to[i] = (uint8_t)label;
      continue;
    }
    return rd_fail(
        w, SP_E_DATA,
        "%s has %d planes that are not 0, of %d: in planes of classes (one-hot) a pixel has one; save the argmax over "
        "them, a number for each pixel",
        place_of(self, ref, i, px->w, place), set, px->channels);
  }
  return SP_OK;
}

static int odd_channels(rd_self *self, rd_worker *w, const rd_ref *ref, const im_pixels *px) {
  char name[800];
  rd_name(self->table, ref, name, sizeof name);
  return rd_fail(w, SP_E_DATA,
                 "%s has %d channels; a mask has one number for each pixel, or a plane for each of the %" PRId64
                 " classes (one-hot)",
                 name, px->channels, self->classes);
}

enum { IN_COLOUR = 2 }; /* besides the statuses: nothing is done yet */
static int map_numbers(rd_self *self, rd_worker *w, const rd_ref *ref, int *mw, int *mh) {
  im_pixels px;
  char place[900];
  w->decoder.channels = (int)self->classes;
  int rc = im_numbers(&w->decoder, self->p->max_pixels, &w->image, &px);
  w->decoder.channels = 0;
  if (rc) return rd_blame(self->table, w, rc, ref);
  if (px.colour) return IN_COLOUR;
  size_t n = (size_t)px.w * (size_t)px.h;
  uint8_t *to = im_reserve(&w->mask, n);
  void *room = im_reserve(&w->rgb, (n > (size_t)px.channels ? n : (size_t)px.channels) * sizeof(int32_t));
  if (!to || !room) return rd_fail(w, SP_E_NOMEM, "no memory for a mask of %d x %d pixels", px.w, px.h);
  *mw = px.w;
  *mh = px.h;
  if (px.channels > 1 && px.channels != self->classes) return odd_channels(self, w, ref, &px);
  if (px.channels > 1) return map_planes(self, w, ref, &px, w->image.p, room, to);
  size_t whole = im_to_whole(w->image.p, px.type, n, room);
  if (whole == n) return map_whole(self, w, ref, room, n, px.w, to);
  float v;
  im_to_floats((const char *)w->image.p + whole * im_type_bytes(px.type), px.type, 1, &v);
  return rd_fail(w, SP_E_DATA, "%s is %g; values of a mask are whole numbers, from which its class follows",
                 place_of(self, ref, whole, px.w, place), (double)v);
}

/* ---- a palette or grey, with classes that have colours ---- */
/* The labels that the values in use have as they are, and by their colours; -1: none. */
typedef struct readings {
  int by_index[256], by_colour[256];
  uint32_t colour[256];
} readings;

static void read_both(const rd_self *self, const uint8_t *rgb, const uint8_t *index, size_t n, readings *r) {
  for (int v = 0; v < 256; v++) r->by_index[v] = -2; /* not in use */
  for (size_t i = 0; i < n; i++) {
    int v = index[i];
    if (r->by_index[v] != -2) continue;
    uint8_t label;
    r->by_index[v] = v < self->classes || v == RD_VOID ? v : -1;
    r->by_colour[v] = rd_map_colours(self->palette, rgb + 3 * i, 1, &label) ? label : -1;
    r->colour[v] = (uint32_t)rgb[3 * i] << 16 | (uint32_t)rgb[3 * i + 1] << 8 | rgb[3 * i + 2];
  }
}

/* The colours decide where all have a class; where none has, the values are labels as they are; else it cannot be told,
 * unless no value has two readings. */
static int choose(rd_self *self, rd_worker *w, const rd_ref *ref, const readings *r, uint8_t map[256]) {
  int known = 0, unknown = -1, valid = 1, odd = -1;
  char name[800], a[128], b[128];
  for (int v = 0; v < 256; v++) {
    if (r->by_index[v] == -2) continue;
    map[v] = (uint8_t)v;
    known += r->by_colour[v] >= 0;
    if (r->by_colour[v] < 0 && unknown < 0) unknown = v;
    valid &= r->by_index[v] >= 0;
    if (r->by_colour[v] >= 0 && r->by_index[v] != r->by_colour[v] && odd < 0) odd = v;
  }
  if (unknown < 0)
    for (int v = 0; v < 256; v++)
      if (r->by_index[v] != -2) map[v] = (uint8_t)r->by_colour[v];
  if (unknown < 0 || !known || (valid && odd < 0)) return SP_OK;
  rd_name(self->table, ref, name, sizeof name);
  if (odd < 0) odd = unknown;
  return rd_fail(
      w, SP_E_DATA,
      "%.600s: the value %d has the colour #%06x, which classes.txt gives to %s, but as a label it is %s; and the "
      "value %d has #%06x, which no class has: add that to classes.txt, or take the colours out of it so that "
      "values are labels",
      name, odd, (unsigned)r->colour[odd],
      r->by_colour[odd] >= 0 ? rd_class_name(self, r->by_colour[odd], a) : "no class",
      r->by_index[odd] >= 0 ? rd_class_name(self, r->by_index[odd], b) : "none", unknown, (unsigned)r->colour[unknown]);
}

static int map_palette(rd_self *self, rd_worker *w, const rd_ref *ref, int *mw, int *mh) {
  readings r;
  uint8_t map[256];
  int rc = im_rgb(&w->decoder, self->p->max_pixels, &w->image, mw, mh);
  if (!rc) rc = im_labels(&w->decoder, self->p->max_pixels, &w->mask, mw, mh);
  if (rc) return rd_blame(self->table, w, rc, ref);
  size_t n = (size_t)*mw * (size_t)*mh;
  uint8_t *p = w->mask.p;
  read_both(self, w->image.p, p, n, &r);
  if ((rc = choose(self, w, ref, &r, map))) return rc;
  for (size_t i = 0; i < n; i++) p[i] = map[p[i]];
  return SP_OK;
}

/* ---- as they are ---- */
/* The colours of a mask that is in colour, the first ones, as mask_values would have them. */
static const char *list_colours(rd_self *self, rd_worker *w, char to[160]) {
  int mw, mh, n = 0;
  uint32_t seen[4];
  size_t at = 0;
  *to = 0;
  if (im_rgb(&w->decoder, self->p->max_pixels, &w->mask, &mw, &mh)) return to;
  for (size_t i = 0; i < (size_t)mw * (size_t)mh; i++) {
    const uint8_t *c = rgb_at(w, i);
    uint32_t colour = (uint32_t)c[0] << 16 | (uint32_t)c[1] << 8 | c[2];
    int k = 0;
    while (k < n && seen[k] != colour) k++;
    if (k < n) continue;
    if (n == 4) {
      snprintf(to + at, 160 - at, ",...");
      return to;
    }
    seen[n] = colour;
    at += (size_t)snprintf(to + at, 160 - at, "%s#%06x=%d", n ? "," : "", (unsigned)colour, n);
    n++;
  }
  return to;
}

/* Masks that are no bytes of a palette or of grey, but have numbers all the same. */
static int has_numbers(const im_decoder *d) {
  enum { DEPTH_AT = 24, KIND_AT = 25 };
  const uint8_t *p = d->file.p;
  if (im_has_byte_labels(d)) return 0;
  if (d->raw.w) return 1;
  if (d->size > KIND_AT && !memcmp(p, "\x89PNG", 4)) return p[DEPTH_AT] == 16 && !p[KIND_AT];
  return d->size > 4 && (!memcmp(p, "II", 2) || !memcmp(p, "MM", 2) || !memcmp(p, "\x93NUM", 4));
}

int rd_load_mask(rd_self *self, rd_worker *w, const rd_ref *ref, int *mw, int *mh) {
  char name[800], why[256], colours[160];
  int rc = rd_load(self->table, ref, w), colour = im_in_colour(&w->decoder);
  if (rc) return rc;
  if (self->values && self->values->colours)
    return map_colours(self, w, ref, self->values->colours, "mask_values", mw, mh);
  if (has_numbers(&w->decoder)) {
    if ((rc = map_numbers(self, w, ref, mw, mh)) != IN_COLOUR) return rc;
    colour = 1;
  }
  if (self->values) return map_values(self, w, ref, mw, mh);
  if (self->palette && colour) return map_colours(self, w, ref, self->palette, "classes.txt", mw, mh);
  if (self->palette && im_has_byte_labels(&w->decoder) && !w->decoder.raw.w) return map_palette(self, w, ref, mw, mh);
  rc = im_labels(&w->decoder, self->p->max_pixels, &w->mask, mw, mh);
  if (!rc) return SP_OK;
  rd_name(self->table, ref, name, sizeof name);
  snprintf(why, sizeof why, "%s", colour ? "its pixels have colours" : w->decoder.why);
  if (colour && rc == SP_E_DATA) snprintf(why, sizeof why, "%s", w->decoder.why);
  if (!colour || (rc != SP_E_DATA && rc != IM_BROKEN)) return rd_blame(self->table, w, rc, ref);
  list_colours(self, w, colours);
  if (!*colours) return rd_blame(self->table, w, rc, ref);
  return rd_fail(
      w, SP_E_DATA,
      "%s: %s; for masks in colour give each class in classes.txt its colour, NAME #rrggbb, or say what each means: "
      "`mask_values = \"%s\"`",
      name, why, colours);
}

/* ---- labels that no class has ---- */
int rd_check_labels(rd_self *self, rd_worker *w, const rd_ref *ref, int mw, int mh) {
  const uint8_t *labels = w->mask.p, none = RD_VOID;
  size_t n = (size_t)mw * (size_t)mh, i = 0;
  uint8_t bad = 0;
  if (self->classes >= none) return SP_OK;
  for (size_t k = 0; k < n; k++) bad |= (uint8_t)((labels[k] >= self->classes) & (labels[k] != none));
  if (!bad) return SP_OK;
  while (labels[i] < self->classes || labels[i] == none) i++;
  char name[800], cure[700];
  rd_name(self->table, ref, name, sizeof name);
  rd_explain_bytes(self, labels, n, cure, sizeof cure);
  return rd_fail(w, SP_E_DATA,
                 "%.700s: label %d at x = %zu, y = %zu, but there are %" PRId64 " classes (0 to %" PRId64
                 ", and 255: no label); %s",
                 name, labels[i], i % (size_t)mw, i / (size_t)mw, self->classes, self->classes - 1, cure);
}
