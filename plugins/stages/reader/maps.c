/* SPDX-License-Identifier: MIT
 * maps.c - maps: a number for each pixel, of a PNG or TIFF of 8 or 16 bits or floats, or of an array; how numbers
 * become values, and which of them say that there is none. */
#include "maps.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contents.h"

enum { EXACT = 1 << 24, MOST_MAPS = 64, MOST_VALUES = 4096 /* of a map, for the median */ };

/* ---- parameters ---- */
static int read_number(const char *text, const char **end, double *v) {
  char *stop;
  *v = strtod(text, &stop);
  while (*stop == ' ') stop++;
  *end = stop;
  return stop != text && isfinite(*v);
}

static int is_number(const char *text, double *v) {
  const char *end;
  return read_number(text, &end, v) && !*end;
}

/* "0.001", "1/256". */
static int read_scale(const char *text, double *scale) {
  const char *at;
  double by;
  if (!read_number(text, &at, scale)) return 0;
  if (*at == '/') {
    if (!is_number(at + 1, &by) || by == 0) return 0;
    *scale /= by;
    at = "";
  }
  return !*at && *scale != 0 && isfinite((float)*scale);
}

static int read_range(const char *text, rd_map *m) {
  const char *at;
  double lo, hi;
  if (!read_number(text, &at, &lo) || *at != ',' || !is_number(at + 1, &hi) || !(hi > lo)) return 0;
  m->lo = (float)lo;
  m->hi = (float)hi;
  return 1;
}

int rd_open_maps(sp_ctx *ctx, rd_self *self) {
  const rd_params *p = self->p;
  rd_map *m = &self->map;
  const char *odd = *p->map_scale    ? "map_scale"
                    : *p->map_nodata ? "map_nodata"
                    : *p->map_range  ? "map_range"
                    : p->map_offset  ? "map_offset"
                                     : NULL;
  *m = (rd_map){.scale = 1, .offset = p->map_offset, .asks = !*p->map_nodata, .lo = -INFINITY, .hi = INFINITY};
  if (p->target != RD_TARGET_MAP && odd)
    return ctx->host->fail(ctx, SP_E_INVALID, "%s goes with target = \"map\", not with target = \"%s\"", odd,
                           rd_targets[p->target]);
  if (p->target == RD_TARGET_MAP && *p->mask_values)
    return ctx->host->fail(ctx, SP_E_INVALID, "mask_values goes with target = \"mask\", not with target = \"map\"");
  if (*p->map_scale && !read_scale(p->map_scale, &m->scale))
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "map_scale = \"%.100s\": a number is expected that is not 0, as \"0.001\" or \"1/256\"",
                           p->map_scale);
  m->has_nodata = *p->map_nodata && strcmp(p->map_nodata, "none") != 0;
  if (m->has_nodata && !is_number(p->map_nodata, &m->nodata))
    return ctx->host->fail(ctx, SP_E_INVALID, "map_nodata = \"%.100s\": a number is expected, or none", p->map_nodata);
  if (*p->map_range && !read_range(p->map_range, m))
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "map_range = \"%.100s\": two numbers are expected, the lower one first, as \"0,80\"",
                           p->map_range);
  return SP_OK;
}

int rd_settle_maps(sp_ctx *ctx, rd_self *self) {
  if (self->p->classes)
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "classes = %" PRId64 ", but target = \"map\" has a number for each pixel and no classes; "
                           "leave classes out",
                           self->p->classes);
  if (self->p->csv.mean.n > 1 || self->p->csv.std.n > 1)
    return ctx->host->fail(ctx, SP_E_INVALID, "a map has one number a pixel: mean and std are one each");
  self->classes = 1;
  return SP_OK;
}

/* ---- one map ---- */
/* What one file had. */
typedef struct found {
  size_t zeros, none, outside; /* none: without value, `outside` ones too */
  float odd;                   /* the first that is outside */
  int large;                   /* some number is not one of float32's whole ones */
} found;

static void take(const rd_map *m, const im_decoder *d, float *v, size_t n, found *out) {
  float nodata = (float)m->nodata, tag = (float)d->nodata;
  int exact = m->scale == 1 && m->offset == 0;
  for (size_t i = 0; i < n; i++) {
    float x = v[i];
    out->zeros += x == 0;
    out->large |= x > EXACT || x < -EXACT;
    if ((m->has_nodata && x == nodata) || (d->says_nodata && x == tag) || !isfinite(x)) {
      v[i] = NAN;
      out->none++;
      continue;
    }
    if (!exact) x = (float)((double)x * m->scale + m->offset);
    if (x < m->lo || x > m->hi) {
      if (!out->outside++) out->odd = x;
      out->none++;
      x = NAN;
    }
    v[i] = x;
  }
}

static int no_map(rd_worker *w, const char *name, const im_pixels *px) {
  return rd_fail(
      w, SP_E_DATA,
      "%s has %d numbers a pixel, and a map has one: %s; save the numbers themselves as PNG of 16 bits, TIFF or .npy",
      name, px->channels,
      px->colour ? "colours show a map to people, its numbers are not in them" : "which of them it is cannot be told");
}

int rd_load_map(rd_self *self, rd_worker *w, const rd_ref *ref, int *mw, int *mh) {
  char name[800];
  const rd_map *m = &self->map;
  im_pixels px;
  im_decoder *d = &w->decoder;
  int rc = rd_load(self->table, ref, w);
  if (rc) return rc;
  d->picture = 1;
  rc = im_numbers(d, self->p->max_pixels, &w->mask, &px);
  d->picture = 0;
  if (rc) return rd_blame(self->table, w, rc, ref);
  rd_name(self->table, ref, name, sizeof name);
  if (px.channels != 1) return no_map(w, name, &px);
  size_t n = (size_t)px.w * (size_t)px.h;
  float *v = im_reserve(&w->image, n * sizeof *v);
  if (!v) return rd_fail(w, SP_E_NOMEM, "no memory for the %d x %d values of %s", px.w, px.h, name);
  im_to_floats(w->mask.p, px.type, n, v);
  found is = {0};
  take(m, d, v, n, &is);
  if (is.zeros && m->asks && !(d->says_nodata && d->nodata == 0))
    return rd_fail(w, SP_E_DATA,
                   "%s has %zu pixels of 0: a 0 may say that there is no value, `map_nodata = \"0\"`, or be one, "
                   "`map_nodata = \"none\"`",
                   name, is.zeros);
  if (is.outside)
    rd_remark(w, RD_OUTSIDE, "%s has %zu of %zu values outside of map_range, such as %.6g; they do not count", name,
              is.outside, n, (double)is.odd);
  if (px.type >= IM_I32 && px.type <= IM_U64 && is.large)
    rd_remark(w, RD_REDUCED, "%s has numbers above 2^24, which float32 rounds to 24 bits", name);
  if (is.none == n) rd_remark(w, RD_NO_VALUE, "%s has no value at all", name);
  if (px.type == IM_U8)
    rd_remark(w, RD_REDUCED,
              "%s has 8 bits a pixel, of which a map has 256 values at most: if it was made to be looked at, take the "
              "file that has its numbers",
              name);
  *mw = px.w;
  *mh = px.h;
  return SP_OK;
}

void rd_scale_map(const rd_self *self, float *v, size_t n) {
  const rd_csv_params *p = &self->p->csv;
  if (!p->mean.n && !p->std.n) return;
  double mean = p->mean.n ? p->mean.v[0] : 0, std = p->std.n ? p->std.v[0] : 1;
  for (size_t i = 0; i < n; i++) v[i] = (float)(((double)v[i] - mean) / std);
}

/* ---- what values there are ---- */
typedef struct about {
  uint64_t maps, pixels, without;
  double least, most, sum, squares;
  float *some;
  size_t n;
} about;

static void add(about *a, const float *v, size_t n) {
  size_t by = n / MOST_VALUES + 1;
  a->maps++;
  a->pixels += n;
  for (size_t i = 0; i < n; i++) {
    if (v[i] != v[i]) {
      a->without++;
      continue;
    }
    a->least = v[i] < a->least ? v[i] : a->least;
    a->most = v[i] > a->most ? v[i] : a->most;
    a->sum += v[i];
    a->squares += (double)v[i] * v[i];
    if (i % by == 0) a->some[a->n++] = v[i];
  }
}

static int by_value(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static int look(rd_self *self, rd_worker *w, about *a) {
  uint64_t most = self->length < MOST_MAPS ? self->length : MOST_MAPS;
  for (uint64_t i = 0; i < most; i++) {
    int mw, mh, rc = rd_load_map(self, w, &self->table->samples[self->list[i * self->length / most]].mask, &mw, &mh);
    if (rc == IM_BROKEN) continue;
    if (rc) return rc;
    add(a, w->image.p, (size_t)mw * (size_t)mh);
  }
  return SP_OK;
}

int rd_map_item(const void *arg, uint64_t i, char *to, size_t size) {
  rd_self *self = (rd_self *)arg; /* one thread asks */
  if (self->map.about) return snprintf(to, size, "%s", self->map.about);
  rd_worker *w = calloc(1, sizeof *w);
  about a = {
      .least = INFINITY, .most = -INFINITY, .some = malloc((size_t)MOST_MAPS * (MOST_VALUES + 1) * sizeof(float))};
  char words[IM_WORDS] = "! no memory to look at maps";
  (void)i;
  if (w && a.some) {
    w->decoder.as_stored = !self->p->orient;
    if (look(self, w, &a)) snprintf(words, sizeof words, "! %.*s", (int)sizeof words - 3, w->why);
    else {
      qsort(a.some, a.n, sizeof *a.some, by_value);
      double n = (double)(a.pixels - a.without), mean = n > 0 ? a.sum / n : 0,
             square = n > 0 ? a.squares / n - mean * mean : 0;
      snprintf(words, sizeof words, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %.9g %.9g %.9g %.9g %.9g", a.maps,
               self->length, a.pixels, a.without, a.n ? a.least : 0, a.n ? (double)a.some[a.n / 2] : 0,
               a.n ? a.most : 0, mean, square > 0 ? sqrt(square) : 0);
    }
    im_decoder_free(&w->decoder);
    im_buf_free(&w->image);
    im_buf_free(&w->mask);
  }
  free(w);
  free(a.some);
  self->map.about = strdup(words);
  return snprintf(to, size, "%s", words);
}
