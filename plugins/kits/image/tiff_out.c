/* SPDX-License-Identifier: MIT
 * tiff_out.c - numbers to a TIFF of 32-bit floats through libtiff, where the build has it: as they are, without
 * compression, which all that read floats read. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spcore/abi.h>

#include "image.h"

static int say(im_encoder *e, int status, const char *why) {
  snprintf(e->why, sizeof e->why, "%s", why);
  return status;
}

#ifdef HAVE_TIFF
#include <tiffio.h>

#define MOST_CLASSIC (INT64_C(4000) << 20) /* bytes of pixels, beyond which places of a file take 64 bits */

/* The file in memory; what lies behind n was never written. */
typedef struct job {
  im_encoder *e;
  toff_t at;
} job;

static tmsize_t read_bytes(thandle_t arg, void *to, tmsize_t n) {
  job *j = arg;
  size_t left = j->at < j->e->n ? j->e->n - (size_t)j->at : 0, take = n < 0 ? 0 : (size_t)n < left ? (size_t)n : left;
  if (take) memcpy(to, j->e->out + j->at, take);
  j->at += take;
  return (tmsize_t)take;
}

static tmsize_t write_bytes(thandle_t arg, void *from, tmsize_t n) {
  job *j = arg;
  im_encoder *e = j->e;
  size_t end = (size_t)j->at + (n < 0 ? 0 : (size_t)n);
  if (end > e->cap) {
    size_t cap = end + end / 2 + 4096;
    uint8_t *p = realloc(e->out, cap);
    if (!p) return 0;
    e->out = p;
    e->cap = cap;
  }
  if (j->at > e->n) memset(e->out + e->n, 0, (size_t)j->at - e->n);
  if (n > 0) memcpy(e->out + j->at, from, (size_t)n);
  if (end > e->n) e->n = end;
  j->at = end;
  return n;
}

static toff_t seek_to(thandle_t arg, toff_t offset, int whence) {
  job *j = arg;
  return j->at = offset + (whence == SEEK_CUR ? j->at : whence == SEEK_END ? j->e->n : 0);
}

static int close_it(thandle_t arg) {
  (void)arg;
  return 0;
}

static toff_t size_of(thandle_t arg) { return ((job *)arg)->e->n; }

/* Of several errors the first says what is wrong; a warning is of nothing that is written here. */
static int failed(TIFF *tif, void *arg, const char *module, const char *fmt, va_list ap) {
  im_encoder *e = arg;
  (void)tif, (void)module;
  if (!*e->why) vsnprintf(e->why, sizeof e->why, fmt, ap);
  return 1;
}

static int warned(TIFF *tif, void *arg, const char *module, const char *fmt, va_list ap) {
  (void)tif, (void)arg, (void)module, (void)fmt, (void)ap;
  return 1;
}

static int run(im_encoder *e, TIFF *tif, const float *px, int w, int h) {
  TIFFSetField(tif, TIFFTAG_IMAGEWIDTH, (uint32_t)w);
  TIFFSetField(tif, TIFFTAG_IMAGELENGTH, (uint32_t)h);
  TIFFSetField(tif, TIFFTAG_BITSPERSAMPLE, 32);
  TIFFSetField(tif, TIFFTAG_SAMPLESPERPIXEL, 1);
  TIFFSetField(tif, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_IEEEFP);
  TIFFSetField(tif, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  TIFFSetField(tif, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  TIFFSetField(tif, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  TIFFSetField(tif, TIFFTAG_ROWSPERSTRIP, TIFFDefaultStripSize(tif, 0));
  for (int y = 0; y < h; y++) /* in this machine's order, without compression,
                                 libtiff changes no bytes of what it gets */
    if (TIFFWriteScanline(tif, (void *)(uintptr_t)(px + (size_t)y * (size_t)w), (uint32_t)y, 0) < 0)
      return *e->why ? SP_E_INTERNAL : say(e, SP_E_NOMEM, "no memory for its pixels");
  return TIFFFlush(tif) ? SP_OK : *e->why ? SP_E_INTERNAL : say(e, SP_E_NOMEM, "no memory for its pixels");
}

int im_floats_to_tiff(im_encoder *e, const float *px, int w, int h) {
  job j = {.e = e};
  if (!px) return SP_OK;
  TIFFOpenOptions *o = TIFFOpenOptionsAlloc();
  if (!o) return say(e, SP_E_NOMEM, "libtiff: out of memory");
  TIFFOpenOptionsSetErrorHandlerExtR(o, failed, e);
  TIFFOpenOptionsSetWarningHandlerExtR(o, warned, e);
  e->n = 0;
  *e->why = 0;
  const char *mode = (int64_t)w * h * (int64_t)sizeof *px > MOST_CLASSIC ? "w8" : "w";
  TIFF *tif =
      TIFFClientOpenExt("libtiff", mode, &j, read_bytes, write_bytes, seek_to, close_it, size_of, NULL, NULL, o);
  TIFFOpenOptionsFree(o);
  if (!tif) return *e->why ? SP_E_INTERNAL : say(e, SP_E_NOMEM, "libtiff: out of memory");
  int rc = run(e, tif, px, w, h);
  TIFFClose(tif);
  return rc;
}

#else

int im_floats_to_tiff(im_encoder *e, const float *px, int w, int h) {
  (void)px, (void)w, (void)h;
  return say(
      e, SP_E_UNSUPPORTED,
      "this spcore was built without libtiff 4.5, which writes it; install that (Debian: libtiff-dev), configure "
      "and build again");
}

#endif
