/* SPDX-License-Identifier: MIT
 * keep.c - see keep.h. */
#include "keep.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"

enum { EXACT = 1 << 24 }; /* float32 has all whole numbers up to it */

/* ---- parameters ---- */
static int number(const char *text, const char **end, double *v) {
  char *stop;
  *v = strtod(text, &stop);
  while (*stop == ' ') stop++;
  *end = stop;
  return stop != text;
}

static int is_number(const char *text, double *v) {
  const char *end;
  return number(text, &end, v) && !*end;
}

static const char *range_of(const char *text, im_keep *k, char words[256]) {
  double lo, hi;
  const char *at;
  int fine =
      number(text, &at, &lo) && *at == ',' && is_number(at + 1, &hi) && isfinite((float)lo) && isfinite((float)hi);
  if (!fine || !((float)hi > (float)lo)) {
    snprintf(
        words, 256,
        "range = \"%.100s\": two numbers are expected, the lower one first, as \"0,4095\": what becomes 0 and what "
        "becomes 1",
        text);
    return words;
  }
  k->lo = (float)lo;
  k->by = (float)(1.0 / ((double)(float)hi - (double)(float)lo));
  return NULL;
}

const char *im_keep_of(const im_keep_params *p, im_keep *k, char words[256]) {
  double fill = 0;
  *k = (im_keep){.as = p->as, .channels = (int)p->channels, .by = 1.0f};
  int bytes = p->as == IM_AS_UINT8, more = *p->range || *p->nodata || *p->fill;
  if (bytes && more) {
    snprintf(words, 256, "%s goes with numbers, not with bytes: `dtype = \"float32\"`",
             *p->range    ? "range"
             : *p->nodata ? "nodata"
                          : "nodata_fill");
    return words;
  }
  const char *wrong = *p->range ? range_of(p->range, k, words) : NULL;
  if (wrong) return wrong;
  k->tag = !strcmp(p->nodata, "tag");
  k->has_nodata = *p->nodata && !k->tag;
  if (k->has_nodata && !is_number(p->nodata, &k->nodata)) {
    snprintf(words, 256, "nodata = \"%.100s\": a number is expected, or tag", p->nodata);
    return words;
  }
  if (*p->fill && (!is_number(p->fill, &fill) || !isfinite((float)fill))) {
    snprintf(words, 256, "nodata_fill = \"%.100s\": a number is expected", p->fill);
    return words;
  }
  k->fill = *p->fill ? (float)fill : k->lo;
  return NULL;
}

int im_keep_is_on(const im_keep *k) {
  return k->as != IM_AS_UINT8 || (k->channels != 0 && k->channels != 1 && k->channels != 3);
}

size_t im_keep_bytes(const im_keep *k) { return k->as == IM_AS_UINT8 ? 1 : sizeof(float); }
sp_dtype im_keep_dtype(const im_keep *k) { return k->as == IM_AS_UINT8 ? SP_U8 : SP_F32; }

/* ---- types and channels ---- */
static int check_type(im_decoder *d, const im_keep *k, int type) {
  if (k->as == IM_AS_UINT8 && type != IM_U8)
    return im_say(d, SP_E_DATA, "its numbers are %s, and bytes are wanted; `dtype = \"%s\"` keeps them",
                  im_type_name(type), type == IM_U16 ? "uint16" : "float32");
  if (k->as == IM_AS_UINT16 && type != IM_U8 && type != IM_U16)
    return im_say(d, SP_E_DATA, "its numbers are %s, and dtype is uint16; `dtype = \"float32\"` reads them",
                  im_type_name(type));
  return SP_OK;
}

enum { AS_IS, DROP_LAST, BRIGHTNESS, REPEAT };

/* How `of` channels become `to`; -1: not at all. */
static int way_of(const im_pixels *p, int to) {
  if (p->channels == to) return AS_IS;
  if (p->colour && to == 1) return BRIGHTNESS;
  if (p->alpha && p->channels == to + 1) return DROP_LAST;
  return p->picture && p->channels <= 2 && to == 3 ? REPEAT : -1;
}

static int odd_channels(im_decoder *d, const im_keep *k, const im_pixels *p) {
  return im_say(
      d, SP_E_DATA,
      "it has %d channel%s, and images have %d here; `channels = %d` reads such files, and all files must have "
      "one number of them",
      p->channels, p->channels == 1 ? "" : "s", k->channels, p->channels);
}

/* Brightness as Pillow has it, in float. */
static void mix(int way, const float *from, int channels, size_t pixels, int to, float *out) {
  for (size_t i = 0; i < pixels; i++, from += channels, out += to) {
    if (way == BRIGHTNESS) *out = (from[0] * 19595.0f + from[1] * 38470.0f + from[2] * 7471.0f) * (1.0f / 65536.0f);
    else
      for (int c = 0; c < to; c++) out[c] = from[way == REPEAT ? 0 : c];
  }
}

/* ---- no data ---- */
static int same(float v, double nodata, float as_float) { return (double)v == nodata || v == as_float; }

static void replace(const im_keep *k, const im_decoder *d, float *v, size_t n, im_kept *out) {
  int use_tag = k->tag && d->says_nodata, on = k->has_nodata || use_tag;
  double nodata = use_tag ? d->nodata : k->nodata;
  float as_float = (float)nodata;
  out->says = d->says_nodata && !on;
  out->said = d->nodata;
  float said = (float)d->nodata;
  for (size_t i = 0; i < n; i++) {
    if (on && same(v[i], nodata, as_float)) v[i] = k->fill, out->no_data++;
    else if (!isfinite(v[i])) v[i] = k->fill, out->not_finite++;
    else if (out->says && same(v[i], d->nodata, said)) out->having++;
  }
}

/* ---- reading ---- */
static void note_rounding(im_decoder *d, int type, const float *v, size_t n) {
  if (type != IM_I32 && type != IM_U32 && type != IM_I64 && type != IM_U64) return;
  for (size_t i = 0; i < n; i++)
    if (v[i] >= EXACT || v[i] <= -EXACT) {
      snprintf(d->lost, sizeof d->lost, "%s numbers such as %.9g, which float32 rounds to 24 bits", im_type_name(type),
               (double)v[i]);
      return;
    }
}

static int read_floats(im_decoder *d, const im_keep *k, const im_pixels *p, int way, im_buf *raw, im_buf *px,
                       im_kept *out) {
  size_t pixels = (size_t)p->w * (size_t)p->h, n = pixels * (size_t)p->channels;
  int channels = out->channels;
  float *to = im_reserve(px, n * sizeof *to);
  if (!to) return im_say(d, SP_E_NOMEM, "no memory for %d x %d pixels of %d channels", p->w, p->h, p->channels);
  im_to_floats(raw->p, p->type, n, to);
  note_rounding(d, p->type, to, n);
  replace(k, d, to, n, out);
  if (way == AS_IS) return SP_OK;
  float *mixed = im_reserve(raw, pixels * (size_t)channels * sizeof *mixed);
  if (!mixed) return im_say(d, SP_E_NOMEM, "no memory for %d x %d pixels of %d channels", p->w, p->h, channels);
  mix(way, to, p->channels, pixels, channels, mixed);
  if (k->as == IM_AS_UINT16 && way == BRIGHTNESS)
    for (size_t i = 0; i < pixels; i++) mixed[i] = rintf(mixed[i]);
  im_buf kept = *px;
  *px = *raw;
  *raw = kept;
  return SP_OK;
}

int im_keep_read(im_decoder *d, const im_keep *k, int64_t max_pixels, im_buf *raw, im_buf *px, im_kept *out) {
  im_pixels p;
  *out = (im_kept){0};
  d->picture = 1;
  d->channels = k->channels;
  int rc = im_numbers(d, max_pixels, raw, &p), way = AS_IS;
  d->picture = d->channels = 0;
  if (rc) return rc;
  if ((rc = check_type(d, k, p.type))) return rc;
  int to = k->channels ? k->channels : p.channels;
  *out = (im_kept){.w = p.w, .h = p.h, .channels = to, .type = p.type};
  if ((way = way_of(&p, to)) < 0) return odd_channels(d, k, &p);
  out->of_file = way == DROP_LAST ? to : p.channels;
  if (k->as == IM_AS_UINT8 && way != AS_IS) return odd_channels(d, k, &p);
  int64_t pixels = (int64_t)p.w * p.h, most = p.channels > to ? p.channels : to;
  if (most * (int64_t)sizeof(float) > IM_MAX_FILE / pixels)
    return im_say(d, IM_BROKEN, "%d x %d pixels of %d channels would have more than 1 GiB as float32", p.w, p.h,
                  (int)most);
  if (k->as != IM_AS_UINT8) return read_floats(d, k, &p, way, raw, px, out);
  im_buf kept = *px;
  *px = *raw;
  *raw = kept;
  return SP_OK;
}

/* ---- another size ---- */
int im_keep_resize(im_scaler *s, const im_keep *k, const void *px, const im_geometry *g, int interpolation, void *dst) {
  if (k->as == IM_AS_UINT8) return im_resize_bytes(s, px, g, k->channels, interpolation, dst);
  size_t n = (size_t)g->dw * (size_t)g->dh * (size_t)k->channels;
  float *v = dst;
  int rc = im_resize_floats(s, px, g, k->channels, interpolation, v);
  if (rc) return rc;
  if (k->as == IM_AS_UINT16)
    for (size_t i = 0; i < n; i++) v[i] = fminf(fmaxf(rintf(v[i]), 0.0f), 65535.0f);
  if (k->lo != 0.0f || k->by != 1.0f)
    for (size_t i = 0; i < n; i++) v[i] = (v[i] - k->lo) * k->by;
  return SP_OK;
}

int im_keep_fit(im_scaler *s, const im_keep *k, const im_fitting *f, void *px, const im_kept *is, void *dst, int dw,
                int dh) {
  im_geometry g = im_fit(f, is->w, is->h, dw, dh);
  size_t pixel = (size_t)k->channels * im_keep_bytes(k);
  im_cut(px, pixel, is->w, &g);
  int rc = im_keep_resize(s, k, px, &g, f->interpolation, dst);
  if (!rc) im_spread(dst, pixel, dw, dh, &g, 0);
  return rc;
}

/* ---- to look at ---- */
void im_look_floats(const float *v, int channels, size_t pixels, float lo, float hi, uint8_t *rgb) {
  float by = hi > lo ? 255.0f / (hi - lo) : 0.0f;
  for (size_t i = 0; i < pixels; i++, v += channels)
    for (int c = 0; c < 3; c++) {
      float x = rintf((v[channels < 3 ? 0 : c] - lo) * by);
      *rgb++ = x > 0.0f ? (uint8_t)(x < 255.0f ? x : 255.0f) : 0;
    }
}

void im_look_bytes(const uint8_t *v, int channels, size_t pixels, uint8_t *rgb) {
  for (size_t i = 0; i < pixels; i++, v += channels)
    for (int c = 0; c < 3; c++) *rgb++ = v[channels < 3 ? 0 : c];
}
