/* SPDX-License-Identifier: MIT
 * tiff.c - the first picture of a TIFF file through libtiff, where the build has it. */
#include "formats.h"

#ifdef HAVE_TIFF
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tiffio.h>

enum { MOST_SAMPLES = 8, MOST_BITS = 16 }; /* of a pixel, of a sample */
#define SPARE_BYTES (INT64_C(16) << 20)    /* for tables, and tiles that are larger than a small picture */
#define MOST_PIXELS (INT64_C(1) << 30)

typedef struct job {
  im_decoder *d;
  im_buf *px; /* NULL: the header alone */
  int64_t max_pixels;
  toff_t at;
  int w, h;
} job;

/* ---- the file, which is in memory ---- */
static tmsize_t read_bytes(thandle_t arg, void *to, tmsize_t n) {
  job *j = arg;
  size_t left = j->at < j->d->size ? j->d->size - (size_t)j->at : 0, take = n < 0 ? 0 : (size_t)n;
  if (take > left) take = left;
  memcpy(to, (const uint8_t *)j->d->file.p + (left ? j->at : 0), take);
  j->at += take;
  return (tmsize_t)take;
}

static tmsize_t write_bytes(thandle_t arg, void *from, tmsize_t n) {
  (void)arg, (void)from, (void)n;
  return -1;
}

static toff_t seek_to(thandle_t arg, toff_t offset, int whence) {
  job *j = arg;
  if (whence == SEEK_CUR) offset += j->at;
  else if (whence == SEEK_END) offset += j->d->size;
  return j->at = offset;
}

static int close_it(thandle_t arg) {
  (void)arg;
  return 0;
}

static toff_t size_of(thandle_t arg) { return ((job *)arg)->d->size; }

/* Of several errors the first says what is wrong. Nothing else is told of them, nor of warnings. */
static int failed(TIFF *tif, void *arg, const char *module, const char *fmt, va_list ap) {
  im_decoder *d = arg;
  (void)tif, (void)module;
  if (!*d->why) vsnprintf(d->why, sizeof d->why, fmt, ap);
  for (char *p = d->why; (p = strchr(p, '\n'));) *p = ' ';
  return 1;
}

static int warned(TIFF *tif, void *arg, const char *module, const char *fmt, va_list ap) {
  (void)tif, (void)arg, (void)module, (void)fmt, (void)ap;
  return 1;
}

static int broken(im_decoder *d) { return *d->why ? IM_BROKEN : im_say(d, IM_BROKEN, "libtiff: the file is damaged"); }

/* ---- the picture ---- */
/* What libtiff allocates for a strip or a tile goes by what the header says. */
static int check_header(job *j, TIFF *tif) {
  uint32_t w = 0, h = 0;
  uint16_t samples = 1, bits = 1, way = 1, form = SAMPLEFORMAT_UINT;
  TIFFGetField(tif, TIFFTAG_IMAGEWIDTH, &w);
  TIFFGetField(tif, TIFFTAG_IMAGELENGTH, &h);
  TIFFGetFieldDefaulted(tif, TIFFTAG_SAMPLESPERPIXEL, &samples);
  TIFFGetFieldDefaulted(tif, TIFFTAG_BITSPERSAMPLE, &bits);
  TIFFGetFieldDefaulted(tif, TIFFTAG_ORIENTATION, &way);
  TIFFGetFieldDefaulted(tif, TIFFTAG_SAMPLEFORMAT, &form);
  int rc = im_check_pixels(j->d, w, h, j->max_pixels < MOST_PIXELS ? j->max_pixels : MOST_PIXELS);
  if (rc) return rc;
  if (samples > MOST_SAMPLES || bits > MOST_BITS)
    return im_say(j->d, IM_BROKEN, "samples of %d bits%s, %d a pixel; at most 8 of 16 bits are read", bits,
                  form == SAMPLEFORMAT_IEEEFP ? " (float)" : "", samples);
  int64_t most = (int64_t)w * h * MOST_SAMPLES * (MOST_BITS / 8) + SPARE_BYTES;
  uint64_t part = TIFFIsTiled(tif) ? TIFFTileSize64(tif) : TIFFStripSize64(tif);
  if (part > (uint64_t)most) return im_say(j->d, IM_BROKEN, "a part of it would be larger than %d x %d pixels", w, h);
  j->d->orientation = way >= 1 && way <= 8 ? way : 1;
  j->w = (int)w;
  j->h = (int)h;
  return SP_OK;
}

/* libtiff is told what is not so: that alpha is in the colours already, as it is dropped and not blended; and that the
 * picture is upright, as it can mirror but not turn. */
static void leave_alone(TIFF *tif) {
  uint16_t n = 0, *kinds = NULL;
  if (TIFFGetField(tif, TIFFTAG_EXTRASAMPLES, &n, &kinds) && n > 0 && kinds[0] == EXTRASAMPLE_UNASSALPHA)
    TIFFSetField(tif, TIFFTAG_EXTRASAMPLES, 1, (uint16_t[]){EXTRASAMPLE_ASSOCALPHA});
  TIFFSetField(tif, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
}

static int run(job *j, TIFF *tif) {
  im_decoder *d = j->d;
  char why[1024] = "";
  int rc = check_header(j, tif);
  if (rc || !j->px) return rc;
  size_t n = (size_t)j->w * (size_t)j->h;
  leave_alone(tif);
  if (!TIFFRGBAImageOK(tif, why)) return im_say(d, IM_BROKEN, "libtiff: %.200s", why);
  uint8_t *rgb = im_reserve(j->px, n * 3);
  uint32_t *packed = im_reserve(&d->spare, n * sizeof *packed);
  if (!rgb || !packed) return im_say(d, SP_E_NOMEM, "no memory for %d x %d pixels", j->w, j->h);
  if (!TIFFReadRGBAImageOriented(tif, (uint32_t)j->w, (uint32_t)j->h, packed, ORIENTATION_TOPLEFT, 1) || *d->why)
    return broken(d);
  for (size_t i = 0; i < n; i++) {
    *rgb++ = (uint8_t)TIFFGetR(packed[i]);
    *rgb++ = (uint8_t)TIFFGetG(packed[i]);
    *rgb++ = (uint8_t)TIFFGetB(packed[i]);
  }
  return SP_OK;
}

int im_tiff(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  job j = {.d = d, .px = px, .max_pixels = max_pixels};
  TIFFOpenOptions *o = TIFFOpenOptionsAlloc();
  if (!o) return im_say(d, SP_E_NOMEM, "libtiff: out of memory");
  int64_t pixels = max_pixels < MOST_PIXELS ? max_pixels : MOST_PIXELS;
  TIFFOpenOptionsSetMaxSingleMemAlloc(o, (tmsize_t)(pixels * MOST_SAMPLES * (MOST_BITS / 8) + SPARE_BYTES));
  TIFFOpenOptionsSetErrorHandlerExtR(o, failed, d);
  TIFFOpenOptionsSetWarningHandlerExtR(o, warned, d);
  *d->why = 0;
  TIFF *tif = TIFFClientOpenExt("", "rm", &j, read_bytes, write_bytes, seek_to, close_it, size_of, NULL, NULL, o);
  TIFFOpenOptionsFree(o);
  if (!tif) return broken(d);
  *d->why = 0; /* a tag without sense was left out: some write 0 as the orientation */
  int rc = run(&j, tif);
  TIFFClose(tif);
  *w = j.w;
  *h = j.h;
  return rc;
}

#else

int im_tiff(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  (void)max_pixels, (void)px, (void)w, (void)h;
  return im_say(
      d, SP_E_UNSUPPORTED,
      "it is TIFF, and this spcore was built without libtiff 4.5; install that (Debian: libtiff-dev), configure "
      "and build again");
}

#endif
