/* SPDX-License-Identifier: MIT
 * masks.c - the labels of a mask: its values as they are, or by mask_values, or by the colours of classes.txt; and words on
 * what the values look like where they are no labels. */
#include "masks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int is_png(const im_decoder *d) { return d->size > 3 && !memcmp(d->file.p, "\x89PNG", 4); }

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

static int map_values(rd_self *self, rd_worker *w, const rd_ref *ref, int *mw, int *mh) {
  const rd_values *v = self->values;
  char place[900];
  int raw = w->decoder.raw.w != 0, rc;
  if (v->colours) return map_colours(self, w, ref, v->colours, "mask_values", mw, mh);
  if (raw || (is_png(&w->decoder) && !im_in_colour(&w->decoder))) {
    rc = im_labels(&w->decoder, self->p->max_pixels, &w->mask, mw, mh);
    if (rc) return rd_blame(self->table, w, rc, ref);
  } else if ((rc = take_grey(self, w, ref, mw, mh))) {
    return rc;
  }
  uint8_t *p = w->mask.p;
  for (size_t i = 0, n = (size_t)*mw * (size_t)*mh; i < n; i++) {
    if (!v->known[p[i]])
      return rd_fail(w, SP_E_DATA,
                     "%s has the value %d, which mask_values has not; add it, as %d=ignore if it is no class",
                     place_of(self, ref, i, *mw, place), p[i], p[i]);
    p[i] = v->of[p[i]];
  }
  return SP_OK;
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

static const char *name_of(const rd_self *self, int label, char to[128]) {
  const char *p = self->class_names;
  for (int k = 0; p && k < label && label != RD_VOID; k++) p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL;
  if (label == RD_VOID) snprintf(to, 128, "no label");
  else if (p) snprintf(to, 128, "'%.*s'", (int)(strcspn(p, "\n") < 120 ? strcspn(p, "\n") : 120), p);
  else snprintf(to, 128, "%d", label);
  return to;
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
      name, odd, (unsigned)r->colour[odd], r->by_colour[odd] >= 0 ? name_of(self, r->by_colour[odd], a) : "no class",
      r->by_index[odd] >= 0 ? name_of(self, r->by_index[odd], b) : "none", unknown, (unsigned)r->colour[unknown]);
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

int rd_load_mask(rd_self *self, rd_worker *w, const rd_ref *ref, int *mw, int *mh) {
  char name[800], why[256], colours[160];
  int rc = rd_load(self->table, ref, w), colour = im_in_colour(&w->decoder);
  if (rc) return rc;
  if (self->values) return map_values(self, w, ref, mw, mh);
  if (self->palette && colour) return map_colours(self, w, ref, self->palette, "classes.txt", mw, mh);
  if (self->palette && is_png(&w->decoder) && !w->decoder.raw.w) return map_palette(self, w, ref, mw, mh);
  rc = im_labels(&w->decoder, self->p->max_pixels, &w->mask, mw, mh);
  if (!rc) return SP_OK;
  rd_name(self->table, ref, name, sizeof name);
  if (!colour || rc != SP_E_DATA) return rd_blame(self->table, w, rc, ref);
  snprintf(why, sizeof why, "%s", w->decoder.why);
  list_colours(self, w, colours);
  return rd_fail(
      w, rc,
      "%s: %s; for masks in colour give each class in classes.txt its colour, NAME #rrggbb, or say what each means: "
      "`mask_values = \"%s\"`",
      name, why, colours);
}

/* ---- labels that no class has ---- */
/* What the values of a mask are. */
typedef struct values {
  size_t n[256], all;
  int list[256], count; /* those in use, ascending */
} values;

static void count_values(const uint8_t *p, size_t n, values *v) {
  memset(v, 0, sizeof *v);
  v->all = n;
  for (size_t i = 0; i < n; i++) v->n[p[i]]++;
  for (int k = 0; k < 256; k++)
    if (v->n[k]) v->list[v->count++] = k;
}

/* "0=bg,255=fg": the values in use get the classes in order, those that are too many none. */
static void propose(const rd_self *self, const values *v, char *to, size_t size) {
  char name[128];
  size_t at = 0;
  for (int k = 0; k < v->count && at + 140 < size; k++) {
    const char *is = k < self->classes ? name_of(self, k, name) : "ignore";
    int quoted = *is == '\'';
    at += (size_t)snprintf(to + at, size - at, "%s%d=%.*s", k ? "," : "", v->list[k], (int)strlen(is) - 2 * quoted,
                           is + quoted);
  }
}

/* The cure, by what the values look like. */
static void explain(const rd_self *self, const values *v, char *to, size_t size) {
  char list[400] = "", a[128], b[128];
  size_t ends = v->n[v->list[0]] + v->n[v->list[v->count - 1]];
  int largest = v->list[v->count - 1], from_one = v->list[0] == 1 && v->count == self->classes;
  int label = v->count > 1 && largest == RD_VOID ? v->list[v->count - 2] : largest; /* the largest that is one */
  int near = label < 2 * self->classes + 8 && !from_one;                            /* as numbers of classes are */
  if (v->count > 8 && self->classes == 2 && ends * 10 > v->all * 7) {
    name_of(self, 0, a);
    name_of(self, 1, b);
    int q = *a == '\'', s = *b == '\'';
    snprintf(to, size,
             "%.0f %% of its pixels are %d or %d, and the others lie between: soft edges; `mask_values = "
             "\"0-127=%.*s,128-255=%.*s\"` cuts them in the middle",
             100.0 * (double)ends / (double)v->all, v->list[0], largest, (int)strlen(a) - 2 * q, a + q,
             (int)strlen(b) - 2 * s, b + s);
  } else if (v->count > 16) {
    snprintf(
        to, size,
        "it has %d different values: numbers of instances, or a picture; each pixel has to be the number of its class",
        v->count);
  } else if (near) {
    snprintf(to, size, "correct the mask, or give `classes = %d` or more, or as many lines in classes.txt", label + 1);
  } else {
    propose(self, v, list, sizeof list);
    snprintf(to, size, "its values are other numbers%s: say which class each is, `mask_values = \"%s\"`",
             from_one ? ", counted from 1" : "", list);
  }
}

int rd_check_labels(rd_self *self, rd_worker *w, const rd_ref *ref, int mw, int mh) {
  const uint8_t *labels = w->mask.p, none = RD_VOID;
  size_t n = (size_t)mw * (size_t)mh, i = 0;
  uint8_t bad = 0;
  if (self->classes >= none) return SP_OK;
  for (size_t k = 0; k < n; k++) bad |= (uint8_t)((labels[k] >= self->classes) & (labels[k] != none));
  if (!bad) return SP_OK;
  while (labels[i] < self->classes || labels[i] == none) i++;
  char name[800], cure[700];
  values v;
  rd_name(self->table, ref, name, sizeof name);
  count_values(labels, n, &v);
  explain(self, &v, cure, sizeof cure);
  return rd_fail(w, SP_E_DATA,
                 "%.700s: label %d at x = %zu, y = %zu, but there are %" PRId64 " classes (0 to %" PRId64
                 ", and 255: no label); %s",
                 name, labels[i], i % (size_t)mw, i / (size_t)mw, self->classes, self->classes - 1, cure);
}
