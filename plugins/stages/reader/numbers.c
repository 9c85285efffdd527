/* SPDX-License-Identifier: MIT
 * numbers.c - images that keep what their files hold: which channels there are, what is no data, and of what size the
 * numbers are. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contents.h"
#include "numbers.h"

enum { MOST_IMAGES = 64, MOST_NUMBERS = 64 << 20 }; /* that are looked at where not all are read anyway */

/* ---- the first file ---- */
/* What it holds is what the others must hold: nothing is guessed where its channels are given. */
int rd_open_numbers(sp_ctx *ctx, rd_self *self) {
  im_keep *k = &self->keep;
  if (!self->keeps) return SP_OK;
  rd_worker *w = calloc(1, sizeof *w);
  const rd_ref *ref = &self->table->samples[0].image;
  im_pixels px = {0};
  if (!w) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory to look at the first file");
  w->decoder.channels = k->channels;
  int rc = rd_load(self->table, ref, w);
  if (!rc && (rc = im_about(&w->decoder, &px))) rd_blame(self->table, w, rc, ref);
  if (rc && k->channels) rc = SP_OK, px.type = -1; /* a damaged one is found when it is read */
  if (!rc && !k->channels) k->channels = px.channels - px.alpha;
  self->first_type = px.type;
  if (rc)
    rc = ctx->host->fail(ctx, rc > 0 ? SP_E_DATA : rc,
                         "%s: it says how many channels there are; `channels = 4` does without it", w->why);
  im_decoder_free(&w->decoder);
  free(w);
  if (!rc && self->p->check && !(self->ranges = calloc((size_t)k->channels, sizeof *self->ranges)))
    rc = ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %d channels", k->channels);
  return rc;
}

/* ---- what is said of a file ---- */
static void remark_no_data(const rd_self *self, rd_worker *w, const rd_ref *ref, const im_kept *is) {
  char name[512], words[200] = "";
  const im_keep *k = &self->keep;
  rd_name(self->table, ref, name, sizeof name);
  if (is->no_data && is->not_finite)
    snprintf(words, sizeof words, "%" PRIu64 " numbers that stand for no data and %" PRIu64 " that are NaN or infinite",
             is->no_data, is->not_finite);
  else if (is->no_data) snprintf(words, sizeof words, "%" PRIu64 " numbers that stand for no data", is->no_data);
  else if (is->not_finite)
    snprintf(words, sizeof words, "%" PRIu64 " numbers that are NaN or infinite", is->not_finite);
  if (*words) rd_remark(w, RD_NO_DATA, "%s has %s; they become %.9g", name, words, (double)k->fill);
  else if (is->having)
    rd_remark(w, RD_NO_DATA,
              "%s says that %.9g is no data, and has %" PRIu64 " such numbers, which are read as any other; "
              "`nodata = \"tag\"` replaces them",
              name, is->said, is->having);
}

/* Grey among colours, or the other way round, where nobody has said how many channels are wanted. */
static void remark_channels(const rd_self *self, rd_worker *w, const rd_ref *ref, const im_kept *is) {
  char name[512], first[512];
  if (is->of_file == is->channels || self->p->keep.channels || self->p->grey) return;
  rd_name(self->table, ref, name, sizeof name);
  rd_name(self->table, &self->table->samples[0].image, first, sizeof first);
  if (is->channels == 1)
    rd_remark(w, RD_OTHER_TYPE,
              "%s has %d channels, of which the brightness is read, since the first file, %s, has one; `channels = 3` "
              "reads colours",
              name, is->of_file, first);
  else
    rd_remark(w, RD_OTHER_TYPE,
              "%s is grey, and its brightness becomes %d channels, since the first file, %s, has so many; "
              "`channels = 1` reads one",
              name, is->channels, first);
}

static void remark_type(const rd_self *self, rd_worker *w, const rd_ref *ref, int type) {
  char name[512], first[512];
  if (type == self->first_type || self->first_type < 0) return;
  rd_name(self->table, ref, name, sizeof name);
  rd_name(self->table, &self->table->samples[0].image, first, sizeof first);
  rd_remark(w, RD_OTHER_TYPE,
            "%s has %s numbers, and the first file, %s, %s: they are taken as they are, so check that "
            "they mean the same",
            name, im_type_name(type), first, im_type_name(self->first_type));
}

/* ---- how large numbers are ---- */
/* What is no data is NaN here, and counts for nothing. */
static void add_image(rd_range *to, const void *px, int is_float, int channels, size_t pixels) {
  const float *f = px;
  const uint8_t *b = px;
  for (int c = 0; c < channels; c++) {
    rd_range *r = &to[c];
    double least = r->n > 0 ? r->least : INFINITY, most = r->n > 0 ? r->most : -INFINITY, sum = 0, squares = 0,
           count = 0;
    for (size_t i = (size_t)c; i < pixels * (size_t)channels; i += (size_t)channels) {
      double v = is_float ? (double)f[i] : (double)b[i];
      if (isnan(v)) continue;
      count++;
      least = v < least ? v : least;
      most = v > most ? v : most;
      sum += v;
      squares += v * v;
    }
    *r = (rd_range){least, most, r->sum + sum, r->squares + squares, r->n + count};
  }
}

/* The parameters of an image whose numbers are counted. */
static im_keep counting(const rd_self *self) {
  im_keep k = self->keep;
  k.fill = NAN;
  return k;
}

static void count_numbers(rd_self *self, const void *px, const im_kept *is) {
  pthread_mutex_lock(&self->remarks.lock);
  add_image(self->ranges, px, self->keep.as != IM_AS_UINT8, is->channels, (size_t)is->w * (size_t)is->h);
  self->n_ranged++;
  pthread_mutex_unlock(&self->remarks.lock);
}

/* Some images that are spread evenly over the split. */
static int look(rd_self *self, rd_worker *w) {
  uint64_t most = self->length < MOST_IMAGES ? self->length : MOST_IMAGES, seen = 0;
  im_keep k = counting(self);
  for (uint64_t i = 0; i < most && seen < MOST_NUMBERS; i++) {
    const rd_ref *ref = &self->table->samples[self->list[i * self->length / most]].image;
    im_kept is;
    int rc = rd_load(self->table, ref, w);
    if (!rc && (rc = im_keep_read(&w->decoder, &k, self->p->max_pixels, &w->image, &w->rgb, &is)))
      rd_blame(self->table, w, rc, ref);
    if (rc == IM_BROKEN) continue;
    if (rc) return rc;
    count_numbers(self, w->rgb.p, &is);
    seen += (uint64_t)is.w * (uint64_t)is.h * (uint64_t)is.channels;
  }
  return SP_OK;
}

int rd_number_item(const void *arg, uint64_t i, char *to, size_t size) {
  rd_self *self = (rd_self *)arg; /* one thread asks */
  rd_worker *w = self->ranges ? NULL : calloc(1, sizeof *w);
  int rc = SP_OK, n = 0;
  if (w && (self->ranges = calloc((size_t)self->keep.channels, sizeof *self->ranges))) {
    w->decoder.as_stored = !self->p->orient;
    if ((rc = look(self, w))) n = snprintf(to, size, "! %s", w->why);
  }
  if (w) {
    im_decoder_free(&w->decoder);
    im_buf_free(&w->image);
    im_buf_free(&w->rgb);
  }
  free(w);
  if (rc) {
    free(self->ranges);
    self->ranges = NULL;
    return n;
  }
  if (!self->ranges) return snprintf(to, size, "! no memory to look at images");
  if (!i)
    return snprintf(to, size, "%" PRIu64 " %" PRIu64 " %s %d", self->n_ranged, self->length,
                    self->first_type < 0 ? "?" : im_type_name(self->first_type), self->keep.channels);
  const rd_range *r = &self->ranges[i - 1];
  double mean = r->n > 0 ? r->sum / r->n : 0, square = r->n > 0 ? r->squares / r->n - mean * mean : 0;
  return snprintf(to, size, "%.9g %.9g %.9g %.9g", r->least, r->most, mean, square > 0 ? sqrt(square) : 0);
}

/* ---- one sample ---- */
static void put_fill(float *v, size_t n, float fill) {
  for (size_t i = 0; i < n; i++)
    if (isnan(v[i])) v[i] = fill;
}

int rd_fill_numbers(rd_self *self, rd_worker *w, const rd_ref *ref, uint64_t *print, void *out, int *iw, int *ih) {
  im_kept is;
  im_keep k = self->p->check ? counting(self) : self->keep;
  int rc = rd_load(self->table, ref, w);
  if (rc) return rc;
  rc = im_keep_read(&w->decoder, &k, self->p->max_pixels, &w->image, &w->rgb, &is);
  if (rc) return rd_blame(self->table, w, rc, ref);
  *iw = is.w;
  *ih = is.h;
  rd_remark_damage(self, w, ref);
  rd_remark_loss(self, w, ref);
  remark_no_data(self, w, ref, &is);
  remark_type(self, w, ref, is.type);
  remark_channels(self, w, ref, &is);
  size_t bytes = (size_t)is.w * (size_t)is.h * (size_t)is.channels * im_keep_bytes(&self->keep);
  if (print) *print = rd_hash_pixels(w->rgb.p, bytes, is.w, is.h);
  if (self->p->check) count_numbers(self, w->rgb.p, &is);
  if (self->p->check && self->keep.as != IM_AS_UINT8) put_fill(w->rgb.p, bytes / sizeof(float), self->keep.fill);
  if (!out || !im_keep_fit(&w->scaler, &self->keep, &self->p->fit, w->rgb.p, &is, out, self->w, self->h)) return SP_OK;
  snprintf(w->decoder.why, sizeof w->decoder.why, "no memory to resize it");
  return rd_blame(self->table, w, SP_E_NOMEM, ref);
}
