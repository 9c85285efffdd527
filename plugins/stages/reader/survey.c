/* SPDX-License-Identifier: MIT
 * survey.c - which labels masks have: of some of a split before it is read, and of all that were read with check. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "masks.h"

#define MOST_MASKS 64
#define MOST_PIXELS (16 << 20) /* of them: what a second or less takes */

void rd_tally_mask(rd_tally *t, const uint8_t *labels, size_t n) {
  uint64_t counts[256] = {0};
  for (size_t i = 0; i < n; i++) counts[labels[i]]++;
  for (int v = 0; v < 256; v++) {
    if (!counts[v]) continue;
    __atomic_fetch_add(&t->pixels[v], counts[v], __ATOMIC_RELAXED);
    __atomic_fetch_add(&t->masks[v], 1, __ATOMIC_RELAXED);
  }
  __atomic_fetch_add(&t->n, 1, __ATOMIC_RELAXED);
}

/* Palettes that differ where labels are values: a converter that gives each mask its own best colours has made them,
 * and the values of one say nothing of another's. The first that does is noted. */
static void compare_palettes(rd_self *self, rd_worker *w, uint32_t k, size_t n) {
  struct rd_survey *s = self->survey;
  const uint8_t *labels = w->mask.p;
  uint8_t rgb[768], used[256] = {0};
  int colours = *s->palettes || self->values || self->palette ? 0 : im_palette(&w->decoder, rgb);
  for (size_t i = 0; colours && i < n; i++) used[labels[i]] = 1;
  for (int v = 0; v < colours && v != RD_VOID; v++) {
    int32_t colour = (int32_t)rgb[3 * v] << 16 | (int32_t)rgb[3 * v + 1] << 8 | rgb[3 * v + 2];
    char one[800], other[800];
    if (!used[v] || s->colour[v] == colour) continue;
    if (s->colour[v] < 0) {
      s->colour[v] = colour;
      s->has[v] = k;
      continue;
    }
    rd_name(self->table, &self->table->samples[s->has[v]].mask, one, sizeof one);
    rd_name(self->table, &self->table->samples[k].mask, other, sizeof other);
    snprintf(s->palettes, sizeof s->palettes,
             "masks have palettes of their own: the value %d is #%06x in %s and #%06x in %s. Values are the labels; "
             "where colours say the class, give each class in classes.txt its colour, NAME #rrggbb",
             v, (unsigned)s->colour[v], one, (unsigned)colour, other);
    return;
  }
}

/* Masks that are spread evenly over the split. One that is damaged is left out:
 * what becomes of it is another matter. */
static int look(rd_self *self, rd_worker *w, rd_tally *t) {
  uint64_t most = self->length < MOST_MASKS ? self->length : MOST_MASKS, pixels = 0;
  for (uint64_t i = 0; i < most && pixels < MOST_PIXELS; i++) {
    uint32_t k = self->list[i * self->length / most];
    const rd_ref *ref = &self->table->samples[k].mask;
    int mw, mh, rc = rd_load_mask(self, w, ref, &mw, &mh);
    if (!rc) rc = rd_check_labels(self, w, ref, mw, mh);
    if (rc == IM_BROKEN) continue;
    if (rc) return rc;
    rd_tally_mask(t, w->mask.p, (size_t)mw * (size_t)mh);
    compare_palettes(self, w, k, (size_t)mw * (size_t)mh);
    pixels += (uint64_t)mw * (uint64_t)mh;
  }
  return SP_OK;
}

/* Reads them once; why not is in *why. */
static const rd_tally *survey(rd_self *self, const char **why) {
  rd_worker *w = self->survey ? NULL : calloc(1, sizeof *w);
  if (w && (self->survey = calloc(1, sizeof *self->survey))) {
    w->decoder.as_stored = !self->p->orient;
    memset(self->survey->colour, 0xff, sizeof self->survey->colour);
    if (look(self, w, &self->survey->seen)) memcpy(self->survey->why, w->why, sizeof self->survey->why);
  }
  if (w) {
    im_decoder_free(&w->decoder);
    im_buf_free(&w->image);
    im_buf_free(&w->mask);
    im_buf_free(&w->rgb);
  }
  free(w);
  *why = self->survey ? self->survey->why : "no memory to look at masks";
  return self->survey ? &self->survey->seen : NULL;
}

int rd_label_item(const void *arg, uint64_t i, char *to, size_t size) {
  rd_self *self = (rd_self *)arg; /* one thread asks */
  const char *why = "";
  uint64_t part = i / RD_LABELS_CHECKED, of = part ? self->n_split[part - 1] : self->length;
  const rd_tally *t = part ? &self->tally[part - 1] : survey(self, &why);
  uint64_t c = i % RD_LABELS_CHECKED;
  if (*why) return snprintf(to, size, "! %s", why);
  if (i == RD_PALETTES) return snprintf(to, size, "%s", self->survey->palettes);
  if (!c) return snprintf(to, size, "%" PRIu64 " %" PRIu64, t->n, of);
  size_t label = c <= (uint64_t)self->classes ? (size_t)c - 1 : 255;
  return snprintf(to, size, "%" PRIu64 " %" PRIu64, t->pixels[label], t->masks[label]);
}
