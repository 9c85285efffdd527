/* SPDX-License-Identifier: MIT
 * decode.c - JPEG through TurboJPEG and PNG through libpng, from memory; no size is believed before it is checked. Of
 * other formats which of them it is. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <png.h>
#include <turbojpeg.h>

#include "formats.h"

void *im_reserve(im_buf *b, size_t bytes) {
  if (bytes <= b->cap && b->p) return b->p;
  size_t want = bytes + bytes / 4 + 64;
  free(b->p);
  b->p = malloc(want);
  b->cap = b->p ? want : 0;
  return b->p;
}

void im_buf_free(im_buf *b) {
  free(b->p);
  *b = (im_buf){NULL, 0};
}

int im_say(im_decoder *d, int status, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(d->why, sizeof d->why, fmt, ap);
  va_end(ap);
  return status;
}

void im_decoder_free(im_decoder *d) {
  im_buf_free(&d->file);
  im_buf_free(&d->spare);
}

/* ---- the file ---- */
void *im_room(im_decoder *d, size_t bytes) {
  d->raw.w = 0;
  d->size = bytes;
  return im_reserve(&d->file, bytes);
}

void *im_room_raw(im_decoder *d, struct im_raw raw) {
  void *p = im_room(d, (size_t)raw.w * (size_t)raw.h * (size_t)raw.channels);
  d->raw = raw;
  return p;
}

static int take(im_decoder *d, int fd) {
  struct stat st;
  if (fstat(fd, &st)) return im_say(d, SP_E_IO, "%s", strerror(errno));
  if (!S_ISREG(st.st_mode)) return im_say(d, SP_E_IO, "not a regular file");
  if (st.st_size > IM_MAX_FILE)
    return im_say(d, SP_E_IO, "%jd bytes; an image file may have at most 1 GiB", (intmax_t)st.st_size);
  if (!st.st_size) return im_say(d, IM_BROKEN, "the file is empty");
  size_t want = (size_t)st.st_size;
  uint8_t *p = im_reserve(&d->file, want);
  if (!p) return im_say(d, SP_E_NOMEM, "no memory for its %zu bytes", want);
  while (d->size < want) {
    ssize_t got = read(fd, p + d->size, want - d->size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return im_say(d, SP_E_IO, "%s", strerror(errno));
    if (!got) break; /* it became shorter: decoding says so */
    d->size += (size_t)got;
  }
  return SP_OK;
}

int im_load(im_decoder *d, const char *path) {
  d->size = 0;
  d->raw.w = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a named pipe must not hang the open */
  if (fd < 0) return im_say(d, SP_E_IO, "%s", strerror(errno));
  int rc = take(d, fd);
  close(fd);
  return rc;
}

int im_take(im_decoder *d, const void *data, size_t bytes) {
  void *p = im_room(d, bytes);
  if (!p) return im_say(d, SP_E_NOMEM, "no memory for its %zu bytes", bytes);
  memcpy(p, data, bytes);
  return SP_OK;
}

static int is_png(const im_decoder *d) { return d->size >= 8 && !png_sig_cmp(d->file.p, 0, 8); }

static int is_jpeg(const im_decoder *d) {
  const uint8_t *p = d->file.p;
  return d->size >= 3 && p[0] == 0xFF && p[1] == 0xD8 && p[2] == 0xFF;
}

int im_check_pixels(im_decoder *d, int64_t w, int64_t h, int64_t max_pixels) {
  if (w < 1 || h < 1) return im_say(d, IM_BROKEN, "its header says %" PRId64 " x %" PRId64 " pixels", w, h);
  if (w > max_pixels / h)
    return im_say(d, IM_BROKEN, "its header says %" PRId64 " x %" PRId64 " pixels, more than max_pixels = %" PRId64, w,
                  h, max_pixels);
  return SP_OK;
}

/* ---- JPEG ---- */
static int jpeg_header(im_decoder *d, tjhandle tj, int *w, int *h, int *colours) {
  int sub;
  if (tjDecompressHeader3(tj, d->file.p, d->size, w, h, &sub, colours))
    return im_say(d, IM_BROKEN, "%s", tjGetErrorStr2(tj));
  return SP_OK;
}

/* Files hold how much of the paper each ink leaves free, as Adobe began it; nearly all that there are do. */
static void inks_to_rgb(const uint8_t *inks, size_t n, uint8_t *rgb) {
  for (; n > 0; n--, inks += 4, rgb += 3)
    for (int c = 0; c < 3; c++) {
      unsigned product = (255u - inks[c]) * inks[3] + 128;
      rgb[c] = (uint8_t)(inks[3] - ((product + (product >> 8)) >> 8));
    }
}

/* The smallest size that is left of w x h; libjpeg-turbo takes the low frequencies alone for it. */
static void shrink(const im_decoder *d, int *w, int *h) {
  int turned = !d->as_stored && d->orientation >= 5;
  int least_w = turned ? d->least_h : d->least_w, least_h = turned ? d->least_w : d->least_h;
  for (int part = 8; part > 1 && least_w > 0 && least_h > 0; part /= 2) {
    int sw = (*w + part - 1) / part, sh = (*h + part - 1) / part;
    if (sw < least_w || sh < least_h) continue;
    *w = sw;
    *h = sh;
    return;
  }
}

static int jpeg_pixels(im_decoder *d, tjhandle tj, int64_t max_pixels, im_buf *px, int *w, int *h) {
  int colours, rc = jpeg_header(d, tj, w, h, &colours);
  if (rc || (rc = im_check_pixels(d, *w, *h, max_pixels))) return rc;
  int inks = colours == TJCS_CMYK || colours == TJCS_YCCK;
  shrink(d, w, h);
  size_t n = (size_t)*w * (size_t)*h;
  uint8_t *rgb = im_reserve(px, n * 3), *p = inks ? im_reserve(&d->spare, n * 4) : rgb;
  if (!rgb || !p) return im_say(d, SP_E_NOMEM, "no memory for %d x %d pixels", *w, *h);
  /* The scan limit changes no pixel; it stops a small progressive file from taking minutes. */
  if (tjDecompress2(tj, d->file.p, d->size, p, *w, 0, *h, inks ? TJPF_CMYK : TJPF_RGB, TJFLAG_LIMITSCANS))
    return im_say(d, IM_BROKEN, "%s", tjGetErrorStr2(tj)); /* warnings too: they mean missing or wrong data */
  if (inks) inks_to_rgb(p, n, rgb);
  return SP_OK;
}

/* px NULL: the header alone. A handle keeps the tables of earlier files, and after an error in a header its state as
 * well: what a file decodes to would depend on the files before it. So each gets a new one, in a few microseconds. */
static int jpeg_decode(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  tjhandle tj = tjInitDecompress();
  if (!tj) return im_say(d, SP_E_NOMEM, "TurboJPEG: %s", tjGetErrorStr2(NULL));
  int colours, rc = px ? jpeg_pixels(d, tj, max_pixels, px, w, h) : jpeg_header(d, tj, w, h, &colours);
  tjDestroy(tj);
  return rc;
}

/* ---- PNG ---- */
typedef struct png_job {
  im_decoder *d;
  im_buf *px;
  int64_t max_pixels;
  size_t at;
  int w, h, labels, only_header;
} png_job;

static void png_bytes(png_structp png, png_bytep to, size_t n) {
  png_job *job = png_get_io_ptr(png);
  if (n > job->d->size - job->at) png_error(png, "the file ends too early");
  memcpy(to, (const uint8_t *)job->d->file.p + job->at, n);
  job->at += n;
}

static void png_failed(png_structp png, png_const_charp words) {
  png_job *job = png_get_error_ptr(png);
  im_say(job->d, IM_BROKEN, "%s", words);
  png_longjmp(png, 1);
}

static void png_warned(png_structp png, png_const_charp words) {
  (void)png;
  (void)words;
}

static int png_want_labels(png_job *job, int colour, int depth) {
  if (colour != PNG_COLOR_TYPE_PALETTE && colour != PNG_COLOR_TYPE_GRAY)
    return im_say(job->d, SP_E_DATA, "a mask must be a palette or grey PNG whose values are the labels, this one is %s",
                  colour & PNG_COLOR_MASK_COLOR ? "in colour" : "grey with alpha");
  if (depth == 16) return im_say(job->d, SP_E_DATA, "a mask with 16 bits a pixel; labels have 8 bits at most");
  return SP_OK;
}

static int png_run(png_job *job, png_structp png, png_infop info) {
  png_set_read_fn(png, job, png_bytes);
  png_read_info(png, info);
  png_uint_32 w = png_get_image_width(png, info), h = png_get_image_height(png, info);
  int colour = png_get_color_type(png, info), depth = png_get_bit_depth(png, info), rc;
  if ((rc = im_check_pixels(job->d, w, h, job->max_pixels))) return rc;
  job->w = (int)w;
  job->h = (int)h;
  if (job->only_header) return SP_OK;
  if (job->labels) {
    if ((rc = png_want_labels(job, colour, depth))) return rc;
    png_set_packing(png);
  } else {
    if (depth == 16) png_set_strip_16(png);
    if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if (!(colour & PNG_COLOR_MASK_COLOR) && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
    if (!(colour & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
  }
  int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  size_t line = (size_t)w * (job->labels ? 1 : 3);
  if (png_get_rowbytes(png, info) != line)
    return im_say(job->d, SP_E_INTERNAL, "libpng gives %zu bytes a row, not %zu", png_get_rowbytes(png, info), line);
  uint8_t *p = im_reserve(job->px, line * h);
  if (!p) return im_say(job->d, SP_E_NOMEM, "no memory for %d x %d pixels", job->w, job->h);
  if (passes > 1) memset(p, 0, line * h);
  for (int pass = 0; pass < passes; pass++)
    for (size_t y = 0; y < h; y++) png_read_row(png, p + y * line, NULL);
  png_read_end(png, NULL);
  return SP_OK;
}

static int png_decode(png_job *job) {
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, job, png_failed, png_warned);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  int rc = SP_E_NOMEM;
  if (!info) im_say(job->d, rc, "libpng: out of memory");
  else if (setjmp(png_jmpbuf(png))) rc = IM_BROKEN;
  else rc = png_run(job, png, info);
  png_destroy_read_struct(&png, &info, NULL);
  return rc;
}

static int png_pixels(im_decoder *d, int64_t max_pixels, im_buf *px, int labels, int *w, int *h) {
  png_job job = {.d = d, .px = px, .max_pixels = max_pixels, .labels = labels, .only_header = !px};
  int rc = png_decode(&job);
  *w = job.w;
  *h = job.h;
  return rc;
}

/* ---- pixels as they are ---- */
static int raw_pixels(im_decoder *d, int64_t max_pixels, im_buf *px, int channels, int *w, int *h) {
  const struct im_raw *r = &d->raw;
  int rc = im_check_pixels(d, *w = r->w, *h = r->h, max_pixels);
  if (rc || !px) return rc;
  size_t n = (size_t)r->w * (size_t)r->h, pixel = r->planar ? 1 : (size_t)r->channels;
  uint8_t *to = im_reserve(px, n * (size_t)channels);
  const uint8_t *p = d->file.p;
  if (!to) return im_say(d, SP_E_NOMEM, "no memory for %d x %d pixels", *w, *h);
  size_t plane = r->channels == 1 ? 0 : r->planar ? n : 1;
  for (size_t i = 0; i < n; i++)
    for (size_t c = 0; c < (size_t)channels; c++) *to++ = p[i * pixel + c * plane];
  return SP_OK;
}

/* ---- any of them ---- */
static int begins(const im_decoder *d, size_t at, const char *bytes, size_t n) {
  return d->size >= at + n && !memcmp((const uint8_t *)d->file.p + at, bytes, n);
}

static int is_webp(const im_decoder *d) { return begins(d, 0, "RIFF", 4) && begins(d, 8, "WEBP", 4); }

/* Of the usual kind, or of that for more than 4 GiB. */
static int is_tiff(const im_decoder *d) {
  return begins(d, 0, "II*\0", 4) || begins(d, 0, "MM\0*", 4) || begins(d, 0, "II+\0", 4) || begins(d, 0, "MM\0+", 4);
}

/* px NULL: the header alone. */
static int decode(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  d->orientation = 1;
  if (d->raw.w) return raw_pixels(d, max_pixels, px, 3, w, h);
  if (is_jpeg(d)) {
    d->orientation = im_jpeg_orientation(d->file.p, d->size);
    return jpeg_decode(d, max_pixels, px, w, h);
  }
  if (is_png(d)) {
    d->orientation = im_png_orientation(d->file.p, d->size);
    return png_pixels(d, max_pixels, px, 0, w, h);
  }
  if (is_webp(d)) {
    d->orientation = im_webp_orientation(d->file.p, d->size);
    return im_webp(d, max_pixels, px, w, h);
  }
  if (is_tiff(d)) return im_tiff(d, max_pixels, px, w, h);
  return im_say(d, IM_BROKEN, "neither JPEG nor PNG, nor WebP or TIFF, by its first bytes");
}

int im_rgb(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  int rc = decode(d, max_pixels, px, w, h);
  return rc ? rc : im_turn(d, px, w, h, 3);
}

int im_labels(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  d->orientation = 1;
  if (d->raw.w) return raw_pixels(d, max_pixels, px, 1, w, h);
  if (!is_png(d)) return im_say(d, IM_BROKEN, "not PNG by its first bytes, as a mask must be");
  d->orientation = im_png_orientation(d->file.p, d->size);
  int rc = png_pixels(d, max_pixels, px, 1, w, h);
  return rc ? rc : im_turn(d, px, w, h, 1);
}

int im_in_colour(const im_decoder *d) {
  int kind = is_png(d) && d->size > 25 ? ((const uint8_t *)d->file.p)[25] : PNG_COLOR_TYPE_GRAY;
  return kind == PNG_COLOR_TYPE_RGB || kind == PNG_COLOR_TYPE_RGB_ALPHA;
}

int im_size(im_decoder *d, int *w, int *h) {
  int stored_w, stored_h, rc = decode(d, INT64_MAX, NULL, &stored_w, &stored_h);
  if (rc) return rc;
  int turned = !d->as_stored && d->orientation >= 5;
  *w = turned ? stored_h : stored_w;
  *h = turned ? stored_w : stored_h;
  return SP_OK;
}
