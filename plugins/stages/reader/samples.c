/* SPDX-License-Identifier: MIT
 * samples.c - the kinds of data that a table lists: opened by the layout that is there, filled by decoding. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

/* ---- opening ---- */
static int samples_open(sp_ctx *ctx, rd_self *self) {
  int rc = rd_list(ctx, self->p, &self->table);
  if (rc) return rc;
  const rd_table *t = self->table;
  self->total = t->n;
  self->own_splits = t->n_parts == 2;
  self->gives = t->gives;
  for (int k = 0; k < 2; k++) self->ends[k] = t->ends[k];
  if ((rc = t->lister->settle(ctx, self))) return rc;
  rd_tell_odd_classes(ctx, self);
  rd_tell_left(ctx, self);
  return rd_open_sources(ctx, self->table);
}

static void samples_close(rd_self *self) { rd_table_free(self->table); }

static uint64_t samples_hash(const rd_self *self, uint64_t index) { return self->table->samples[index].key; }

/* ---- one sample ---- */
/* Puts the name of the bytes in front of what the decoder says. */
static int blame(const rd_table *t, rd_worker *w, int rc, const rd_ref *ref) {
  char name[4096];
  rd_name(t, ref, name, sizeof name);
  return rd_fail(w, rc, "%s: %s", name, w->decoder.why);
}

/* The size that the image had goes to *iw and *ih. */
static int fill_image(rd_self *self, rd_worker *w, const rd_ref *ref, uint8_t *out, int *iw, int *ih) {
  int rc = rd_load(self->table, ref, w);
  if (rc) return rc;
  if ((rc = im_rgb(&w->decoder, self->p->max_pixels, &w->image, iw, ih))) return blame(self->table, w, rc, ref);
  if (!im_fit_rgb(&w->scaler, self->p->resize, w->image.p, *iw, *ih, out, self->w, self->h)) return SP_OK;
  snprintf(w->decoder.why, sizeof w->decoder.why, "no memory to resize it");
  return blame(self->table, w, SP_E_NOMEM, ref);
}

static int odd_mask(rd_self *self, rd_worker *w, const rd_sample *s, int iw, int ih, int mw, int mh, int turned) {
  char image[4096], mask[4096];
  rd_name(self->table, &s->image, image, sizeof image);
  rd_name(self->table, &s->mask, mask, sizeof mask);
  return rd_fail(w, SP_E_DATA,
                 "%s is %d x %d pixels, but its mask %s is %d x %d (width x height); they must be equal%s", image, iw,
                 ih, mask, mw, mh,
                 turned && iw == mh && ih == mw
                     ? "; the image was turned by its EXIF orientation, orient = false leaves it as it is stored"
                     : "");
}

static int fill_mask(rd_self *self, rd_worker *w, const rd_sample *s, int iw, int ih, uint8_t *out) {
  int mw, mh, turned = self->p->orient && w->decoder.orientation >= 5, rc = rd_load(self->table, &s->mask, w);
  if (rc) return rc;
  if ((rc = im_labels(&w->decoder, self->p->max_pixels, &w->mask, &mw, &mh)))
    return blame(self->table, w, rc, &s->mask);
  if (iw != mw || ih != mh) return odd_mask(self, w, s, iw, ih, mw, mh, turned);
  im_fit_labels(self->p->resize, w->mask.p, mw, mh, out, self->w, self->h);
  return SP_OK;
}

/* A mask that nobody reads is not looked at: that it is damaged or of another size is then not found. */
static int samples_fill(rd_self *self, rd_worker *w, uint64_t index, const rd_out *out) {
  const rd_sample *s = &self->table->samples[index];
  int iw, ih;
  if (self->gives & RD_LABEL) *out->label = (int32_t)s->label;
  int rc = fill_image(self, w, &s->image, out->image, &iw, &ih);
  return rc || !out->mask ? rc : fill_mask(self, w, s, iw, ih, out->mask);
}

/* The names are part of what draws replacements. */
const rd_kind rd_masks = {"folder", samples_open, samples_close, samples_fill, NULL, samples_hash};
const rd_kind rd_labels = {"tree", samples_open, samples_close, samples_fill, NULL, samples_hash};
