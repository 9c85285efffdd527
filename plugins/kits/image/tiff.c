/* SPDX-License-Identifier: MIT
 * tiff.c - the first picture of a TIFF file through libtiff, where the build has it. */
#include "formats.h"

#ifdef HAVE_TIFF
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

enum { MOST_SAMPLES = 8, MOST_BITS = 16 }; /* of a pixel, of a sample */
#define SPARE_BYTES (INT64_C(16) << 20)    /* for tables, and tiles that are larger than a small picture */
#define MOST_PIXELS (INT64_C(1) << 30)

typedef struct job {
  im_decoder *d;
  im_buf *px;     /* NULL: the header alone */
  im_pixels *out; /* NULL: RGB bytes are wanted */
  int64_t max_pixels;
  toff_t at;
  int w, h;
  uint16_t samples, bits, form, planes, photometric; /* planes: samples of a pixel lie apart */
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

#define ANEW "save it anew, in Python: tifffile.imwrite(\"NEW.tif\", tifffile.imread(\"OLD.tif\"))"

static int broken(im_decoder *d) {
  if (!*d->why) return im_say(d, IM_BROKEN, "libtiff: the file is damaged");
  if (!strstr(d->why, "Unsupported JPEG process")) return IM_BROKEN;
  return im_say(d, IM_BROKEN, "it holds a JPEG of a kind that libtiff does not read; " ANEW);
}

/* ---- what is in it and not read ---- */

/* libtiff has names only for compressions that it knows. */
static const char *name_of(uint16_t compression) {
  static const struct {
    uint16_t compression;
    const char *name;
  } names[] = {{COMPRESSION_OJPEG, "old JPEG"}, {COMPRESSION_JPEG, "JPEG"},   {COMPRESSION_LZMA, "LZMA"},
               {COMPRESSION_ZSTD, "Zstandard"}, {COMPRESSION_WEBP, "WebP"},   {COMPRESSION_LERC, "LERC"},
               {COMPRESSION_JP2000, "JPEG 2000"}, {33003, "JPEG 2000"},        {33005, "JPEG 2000"},
               {34933, "PNG"},                  {34934, "JPEG XR"},           {22610, "JPEG XR"},
               {50002, "JPEG XL"},              {52546, "JPEG XL"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].compression == compression) return names[i].name;
  return "a way of its own";
}

static int check_contents(job *j, TIFF *tif) {
  uint16_t way = COMPRESSION_NONE;
  uint32_t planes = 1;
  TIFFGetFieldDefaulted(tif, TIFFTAG_COMPRESSION, &way);
  TIFFGetFieldDefaulted(tif, TIFFTAG_IMAGEDEPTH, &planes);
  if (planes > 1)
    return im_say(j->d, IM_BROKEN, "it is a volume of %u planes; save each as a file of its own", planes);
  if (!TIFFIsCODECConfigured(way))
    return im_say(j->d, IM_BROKEN, "it is compressed as %s (%d), which this libtiff does not read; " ANEW, name_of(way),
                  way);
  if (way == COMPRESSION_JPEG && j->bits != 8)
    return im_say(j->d, IM_BROKEN, "it holds a JPEG of %d bits a channel, which is not read; " ANEW, j->bits);
  return SP_OK;
}

/* ---- the picture ---- */
#define COMPLEX_NUMBERS "its numbers are complex, which are not read; save parts or magnitudes of them as float32"

/* Of numbers that RGB bytes cannot be made of as they are. */
static int is_complex(const job *j) {
  return j->form == SAMPLEFORMAT_COMPLEXINT || j->form == SAMPLEFORMAT_COMPLEXIEEEFP;
}

/* Numbers of 3, 10 or 12 bits follow one another without a gap. */
static int is_packed(const job *j) { return j->bits < 16 && j->bits != 8 && j->form == SAMPLEFORMAT_UINT; }

/* ... and bytes are made of few of them. */
static int is_odd(const job *j) { return is_packed(j) && j->bits != 1 && j->bits != 2 && j->bits != 4; }

static int check_bytes(job *j) {
  static const char *const forms[] = {[SAMPLEFORMAT_INT] = "with a sign", [SAMPLEFORMAT_IEEEFP] = "float"};
  int odd = j->form == SAMPLEFORMAT_INT || j->form == SAMPLEFORMAT_IEEEFP;
  if (is_complex(j)) return im_say(j->d, IM_BROKEN, COMPLEX_NUMBERS);
  if (odd || j->bits > MOST_BITS || is_odd(j))
    return im_say(j->d, IM_BROKEN,
                  "samples of %d bits%s%s%s, %d a pixel; at most 8 of 8 or 16 bits are read as bytes, `dtype = "
                  "\"float32\"` keeps them",
                  j->bits, odd ? " (" : "", odd ? forms[j->form] : "", odd ? ")" : "", j->samples);
  if (j->samples > MOST_SAMPLES)
    return im_say(j->d, IM_BROKEN,
                  "samples of %d bits, %d a pixel; at most 8 are read as RGB, `channels = %d` keeps them", j->bits,
                  j->samples, j->samples);
  return SP_OK;
}

/* What libtiff allocates for a strip or a tile goes by what the header says. */
static int check_header(job *j, TIFF *tif) {
  uint32_t w = 0, h = 0;
  uint16_t way = 1, config = PLANARCONFIG_CONTIG;
  j->samples = j->bits = 1;
  j->form = SAMPLEFORMAT_UINT;
  j->photometric = PHOTOMETRIC_MINISBLACK;
  TIFFGetField(tif, TIFFTAG_IMAGEWIDTH, &w);
  TIFFGetField(tif, TIFFTAG_IMAGELENGTH, &h);
  TIFFGetFieldDefaulted(tif, TIFFTAG_SAMPLESPERPIXEL, &j->samples);
  TIFFGetFieldDefaulted(tif, TIFFTAG_BITSPERSAMPLE, &j->bits);
  TIFFGetFieldDefaulted(tif, TIFFTAG_ORIENTATION, &way);
  TIFFGetFieldDefaulted(tif, TIFFTAG_SAMPLEFORMAT, &j->form);
  TIFFGetFieldDefaulted(tif, TIFFTAG_PLANARCONFIG, &config);
  TIFFGetField(tif, TIFFTAG_PHOTOMETRIC, &j->photometric);
  j->planes = config == PLANARCONFIG_SEPARATE && j->samples > 1;
  int rc = im_check_pixels(j->d, w, h, j->max_pixels < MOST_PIXELS ? j->max_pixels : MOST_PIXELS);
  if (!rc && j->px) rc = check_contents(j, tif);
  if (!rc && !j->out && j->px) rc = check_bytes(j);
  if (!rc && j->samples > IM_MOST_CHANNELS)
    rc = im_say(j->d, IM_BROKEN, "its header says %d channels; at most %d are read", j->samples, IM_MOST_CHANNELS);
  if (rc) return rc;
  int64_t each = j->out ? (int64_t)j->samples * (j->bits + 7) / 8 : (int64_t)MOST_SAMPLES * (MOST_BITS / 8);
  if (each > IM_MAX_FILE / ((int64_t)w * h))
    return im_say(j->d, IM_BROKEN, "its pixels would have more than 1 GiB: %u x %u, of %d channels and %d bits", w, h,
                  j->samples, j->bits);
  int64_t most = (int64_t)w * h * each + SPARE_BYTES;
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

/* Of others libtiff makes RGB bytes. */
static int has_numbers(const job *j) {
  return j->photometric == PHOTOMETRIC_MINISBLACK || j->photometric == PHOTOMETRIC_MINISWHITE ||
         j->photometric == PHOTOMETRIC_RGB || (j->photometric == PHOTOMETRIC_PALETTE && !j->d->picture);
}

/* Of which libtiff makes colours. */
static int shown_channels(uint16_t photometric) {
  switch (photometric) {
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_YCBCR:
    case PHOTOMETRIC_CIELAB:
    case PHOTOMETRIC_LOGLUV: return 3;
    case PHOTOMETRIC_SEPARATED: return 4;
    default: return 1;
  }
}

/* Bands that are neither colours nor alpha, and bits. */
static void note_lost(job *j, TIFF *tif) {
  uint16_t n = 0, *kinds = NULL;
  int shown = shown_channels(j->photometric);
  TIFFGetField(tif, TIFFTAG_EXTRASAMPLES, &n, &kinds);
  int alpha = n && (kinds[0] == EXTRASAMPLE_ASSOCALPHA || kinds[0] == EXTRASAMPLE_UNASSALPHA);
  char cure[48] = "`dtype = \"uint16\"` keeps all";
  if (!has_numbers(j)) snprintf(cure, sizeof cure, "saved in RGB all can be kept");
  else if (j->bits <= 8) snprintf(cure, sizeof cure, "`channels = %d` keeps all", j->samples);
  if (j->samples > shown + alpha)
    snprintf(j->d->lost, sizeof j->d->lost, "%d channels%s, of which the first %s read; %s", j->samples,
             j->bits == 16 ? " of 16 bits" : "",
             shown == 1   ? "one is"
             : shown == 3 ? "three are"
                          : "four are",
             cure);
  else if (j->bits == 16)
    snprintf(j->d->lost, sizeof j->d->lost, "16 bits a channel, of which the high 8 are read; %s", cure);
  else if (!TIFFLastDirectory(tif))
    snprintf(j->d->lost, sizeof j->d->lost, "several pages, of which the first is read");
}

/* Some releases of libtiff (4.5.0 of Debian 12 with its security fixes) read tiles without compression only where their
 * size is a multiple of their own buffer's granularity. With a buffer that is as large as a tile all read them. */
static tmsize_t exact_buffer(TIFF *tif) {
  uint16_t way = COMPRESSION_NONE;
  TIFFGetFieldDefaulted(tif, TIFFTAG_COMPRESSION, &way);
  tmsize_t size = TIFFIsTiled(tif) && way == COMPRESSION_NONE ? TIFFTileSize(tif) : 0;
  for (uint32_t i = 0, n = size > 0 ? TIFFNumberOfTiles(tif) : 0; i < n; i++)
    if (TIFFGetStrileByteCount(tif, i) != (uint64_t)size) return 0;
  return size > 0 ? size : 0;
}

static int run(job *j, TIFF *tif) {
  im_decoder *d = j->d;
  char why[1024] = "";
  int rc = check_header(j, tif);
  if (rc || !j->px) return rc;
  size_t n = (size_t)j->w * (size_t)j->h;
  note_lost(j, tif);
  leave_alone(tif);
  if (!TIFFRGBAImageOK(tif, why)) return im_say(d, IM_BROKEN, "%.180s; convert it to PNG", why);
  uint8_t *rgb = im_reserve(j->px, n * 3);
  tmsize_t tile = exact_buffer(tif);
  uint32_t *packed = im_reserve(&d->spare, n * sizeof *packed + (size_t)tile);
  if (!rgb || !packed) return im_say(d, SP_E_NOMEM, "no memory for %d x %d pixels", j->w, j->h);
  if (tile && !TIFFReadBufferSetup(tif, packed + n, tile)) return broken(d);
  if (!TIFFReadRGBAImageOriented(tif, (uint32_t)j->w, (uint32_t)j->h, packed, ORIENTATION_TOPLEFT, 1) || *d->why)
    return broken(d);
  for (size_t i = 0; i < n; i++) {
    *rgb++ = (uint8_t)TIFFGetR(packed[i]);
    *rgb++ = (uint8_t)TIFFGetG(packed[i]);
    *rgb++ = (uint8_t)TIFFGetB(packed[i]);
  }
  return SP_OK;
}

/* ---- numbers ---- */
#define TAG_GDAL_NODATA 42113

/* "-9999": what GDAL writes where pixels are missing. */
static void take_nodata(im_decoder *d, TIFF *tif) {
  uint32_t n = 0;
  const char *text = NULL;
  char copy[64], *end;
  if (!TIFFGetField(tif, TAG_GDAL_NODATA, &n, &text) || !text || !n) return;
  snprintf(copy, sizeof copy, "%.*s", n < sizeof copy ? (int)n : (int)sizeof copy - 1, text);
  d->nodata = strtod(copy, &end);
  d->says_nodata = end != copy;
}

static int has_alpha(TIFF *tif) {
  uint16_t n = 0, *kinds = NULL;
  TIFFGetField(tif, TIFFTAG_EXTRASAMPLES, &n, &kinds);
  return n > 0 && (kinds[n - 1] == EXTRASAMPLE_ASSOCALPHA || kinds[n - 1] == EXTRASAMPLE_UNASSALPHA);
}

static int type_of(const job *j) {
  if (j->form == SAMPLEFORMAT_IEEEFP)
    return j->bits == 16 ? IM_F16 : j->bits == 32 ? IM_F32 : j->bits == 64 ? IM_F64 : -1;
  int is_signed = j->form == SAMPLEFORMAT_INT;
  if (!is_signed && j->form != SAMPLEFORMAT_UINT && j->form != SAMPLEFORMAT_VOID) return -1;
  if (!is_signed && is_packed(j)) return j->bits < 8 ? IM_U8 : IM_U16;
  return j->bits == 8    ? IM_U8 + is_signed
         : j->bits == 16 ? IM_U16 + is_signed
         : j->bits == 32 ? IM_U32 + is_signed
         : j->bits == 64 ? IM_U64 + is_signed
                         : -1;
}

/* The i-th number of so many bits, at most 16; the highest bits of a byte are the first. */
static uint16_t unpacked(const uint8_t *from, size_t i, unsigned bits) {
  size_t first = i * bits, last = first + bits - 1;
  uint32_t v = 0;
  for (size_t k = first / 8; k <= last / 8; k++) v = v << 8 | from[k];
  return (uint16_t)(v >> (7 - last % 8) & ((1u << bits) - 1));
}

/* One row or part of one, whose first pixel is at x, y; of plane c, or all of them. */
static void put_row(const job *j, const uint8_t *from, int x, int y, int n, int c, uint8_t *to) {
  size_t item = im_type_bytes(j->out->type), channels = j->samples, here = j->planes ? 1 : channels;
  uint8_t *p = to + (((size_t)y * (size_t)j->w + (size_t)x) * channels + (size_t)c) * item;
  for (size_t i = 0, count = (size_t)n * here; i < count; i++) {
    size_t at = j->planes ? i * channels : i;
    uint16_t v = is_packed(j) ? unpacked(from, i, j->bits) : 0;
    if (!is_packed(j)) memcpy(p + at * item, from + i * item, item);
    else if (item == 1) p[at] = (uint8_t)v;
    else memcpy(p + at * item, &v, item);
  }
}

static int read_tiles(job *j, TIFF *tif, uint8_t *part, uint8_t *to) {
  uint32_t tw = 0, th = 0;
  TIFFGetField(tif, TIFFTAG_TILEWIDTH, &tw);
  TIFFGetField(tif, TIFFTAG_TILELENGTH, &th);
  size_t line = (size_t)TIFFTileRowSize64(tif), each = (size_t)(j->planes ? 1 : j->samples) * j->bits;
  if (!tw || !th || line < (tw * each + 7) / 8 || (uint64_t)line * th > TIFFTileSize64(tif)) return broken(j->d);
  for (int c = 0; c < (j->planes ? j->samples : 1); c++)
    for (int64_t y = 0; y < j->h; y += th)
      for (int64_t x = 0; x < j->w; x += tw) {
        if (TIFFReadTile(tif, part, (uint32_t)x, (uint32_t)y, 0, (uint16_t)c) < 0) return broken(j->d);
        int n = j->w - x < tw ? (int)(j->w - x) : (int)tw;
        for (int64_t r = 0; r < th && y + r < j->h; r++)
          put_row(j, part + (size_t)r * line, (int)x, (int)(y + r), n, c, to);
      }
  return SP_OK;
}

static int read_lines(job *j, TIFF *tif, uint8_t *part, uint8_t *to) {
  size_t each = (size_t)(j->planes ? 1 : j->samples) * j->bits;
  if ((size_t)TIFFScanlineSize64(tif) < ((size_t)j->w * each + 7) / 8) return broken(j->d);
  for (int c = 0; c < (j->planes ? j->samples : 1); c++)
    for (int y = 0; y < j->h; y++) {
      if (TIFFReadScanline(tif, part, (uint32_t)y, (uint16_t)c) < 0) return broken(j->d);
      put_row(j, part, 0, y, j->w, c, to);
    }
  return SP_OK;
}

static int run_numbers(job *j, TIFF *tif) {
  im_decoder *d = j->d;
  int rc = check_header(j, tif), type;
  if (rc) return rc;
  if (!has_numbers(j)) return SP_OK;
  take_nodata(d, tif);
  if (is_complex(j)) return im_say(d, IM_BROKEN, COMPLEX_NUMBERS);
  if ((type = type_of(j)) < 0)
    return im_say(d, IM_BROKEN, "its numbers are of a kind that is not read (%d bits, format %d); save it as float32",
                  j->bits, j->form);
  if (j->photometric == PHOTOMETRIC_MINISWHITE)
    return im_say(d, SP_E_DATA,
                  "it says that 0 is white, so its numbers may be meant the other way round; save it as PNG");
  *j->out = (im_pixels){.w = j->w,
                        .h = j->h,
                        .channels = j->samples,
                        .type = type,
                        .colour = j->photometric == PHOTOMETRIC_RGB && j->samples >= 3,
                        .alpha = has_alpha(tif),
                        .packed = is_odd(j) ? j->bits : 0};
  if (!j->px) return SP_OK;
  size_t n = (size_t)j->w * (size_t)j->h, item = im_type_bytes(type);
  uint8_t *to = im_reserve(j->px, n * item * j->samples);
  uint64_t bytes = TIFFIsTiled(tif) ? TIFFTileSize64(tif) : TIFFScanlineSize64(tif);
  uint8_t *part = im_reserve(&d->spare, (size_t)bytes);
  if (!to || !part) return im_say(d, SP_E_NOMEM, "no memory for %d x %d pixels", j->w, j->h);
  rc = TIFFIsTiled(tif) ? read_tiles(j, tif, part, to) : read_lines(j, tif, part, to);
  if (rc || *d->why) return broken(d);
  return SP_OK;
}

static int open_and(job *j, int (*what)(job *j, TIFF *tif)) {
  im_decoder *d = j->d;
  TIFFOpenOptions *o = TIFFOpenOptionsAlloc();
  if (!o) return im_say(d, SP_E_NOMEM, "libtiff: out of memory");
  int64_t pixels = j->max_pixels < MOST_PIXELS ? j->max_pixels : MOST_PIXELS;
  int64_t most = j->out ? IM_MAX_FILE : pixels * MOST_SAMPLES * (MOST_BITS / 8);
  TIFFOpenOptionsSetMaxSingleMemAlloc(o, (tmsize_t)(most + SPARE_BYTES));
  TIFFOpenOptionsSetErrorHandlerExtR(o, failed, d);
  TIFFOpenOptionsSetWarningHandlerExtR(o, warned, d);
  *d->why = 0;
  TIFF *tif = TIFFClientOpenExt("libtiff", "rm", j, read_bytes, write_bytes, seek_to, close_it, size_of, NULL, NULL, o);
  TIFFOpenOptionsFree(o);
  if (!tif) return broken(d);
  *d->why = 0; /* a tag without sense was left out: some write 0 as the orientation */
  int rc = what(j, tif);
  TIFFClose(tif);
  return rc;
}

int im_tiff(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  job j = {.d = d, .px = px, .max_pixels = max_pixels};
  int rc = open_and(&j, run);
  *w = j.w;
  *h = j.h;
  return rc;
}

int im_tiff_numbers(im_decoder *d, int64_t max_pixels, im_buf *px, im_pixels *out) {
  job j = {.d = d, .px = px, .max_pixels = max_pixels, .out = out};
  return open_and(&j, run_numbers);
}

int im_tiff_about(im_decoder *d, im_pixels *out) {
  job j = {.d = d, .max_pixels = INT64_MAX, .out = out};
  int picture = d->picture;
  d->picture = 1;
  int rc = open_and(&j, run_numbers);
  d->picture = picture;
  return rc;
}

#else

int im_tiff_about(im_decoder *d, im_pixels *out) {
  (void)d, (void)out;
  return SP_OK; /* decoding says it */
}

int im_tiff(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  (void)max_pixels, (void)px, (void)w, (void)h;
  return im_say(
      d, SP_E_UNSUPPORTED,
      "it is TIFF, and this spcore was built without libtiff 4.5; install that (Debian: libtiff-dev), configure "
      "and build again");
}

int im_tiff_numbers(im_decoder *d, int64_t max_pixels, im_buf *px, im_pixels *out) {
  int w, h;
  (void)out;
  return im_tiff(d, max_pixels, px, &w, &h);
}

#endif
