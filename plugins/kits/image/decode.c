/* SPDX-License-Identifier: MIT
 * decode.c - files in memory: which format one is of, by its first bytes. No size is believed before it is checked. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../what/what.h"
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
  void *p = im_room(d, (size_t)raw.w * (size_t)raw.h * (size_t)raw.channels * im_type_bytes(raw.type));
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

int im_check_pixels(im_decoder *d, int64_t w, int64_t h, int64_t max_pixels) {
  if (w < 1 || h < 1) return im_say(d, IM_BROKEN, "its header says %" PRId64 " x %" PRId64 " pixels", w, h);
  if (w <= max_pixels / h) return SP_OK;
  if (w > IM_MOST_PIXELS / h)
    return im_say(d, IM_BROKEN, "its header says %" PRId64 " x %" PRId64 " pixels; at most %d are possible", w, h,
                  IM_MOST_PIXELS);
  return im_say(d, IM_BROKEN,
                "its header says %" PRId64 " x %" PRId64 " pixels, and max_pixels is %" PRId64
                "; `max_pixels = %" PRId64 "` reads it",
                w, h, max_pixels, w * h);
}

/* ---- pixels as they are ---- */
/* Of bytes; channels: 1 or 3. */
static int raw_pixels(im_decoder *d, const struct im_raw *r, const uint8_t *p, int64_t max_pixels, im_buf *px,
                      int channels, int *w, int *h) {
  int rc = im_check_pixels(d, *w = r->w, *h = r->h, max_pixels);
  if (rc || !px) return rc;
  if (r->type != IM_U8)
    return im_say(d, SP_E_DATA,
                  "its numbers are %s; `dtype = \"%s\"` keeps them, and images of bytes are saved from "
                  "array.astype(\"uint8\")",
                  im_type_name(r->type), r->type == IM_U16 ? "uint16" : "float32");
  if (r->channels != 1 && (r->channels != 3 || channels == 1))
    return im_say(d, SP_E_DATA, "it has %d channels, and images are RGB; `channels = %d` keeps them", r->channels,
                  r->channels);
  size_t n = (size_t)r->w * (size_t)r->h, pixel = r->planar ? 1 : (size_t)r->channels;
  uint8_t *to = im_reserve(px, n * (size_t)channels);
  if (!to) return im_say(d, SP_E_NOMEM, "no memory for %d x %d pixels", *w, *h);
  size_t plane = r->channels == 1 ? 0 : r->planar ? n : 1;
  for (size_t i = 0; i < n; i++)
    for (size_t c = 0; c < (size_t)channels; c++) *to++ = p[i * pixel + c * plane];
  return SP_OK;
}

static int npy_pixels(im_decoder *d, int64_t max_pixels, im_buf *px, int channels, int *w, int *h) {
  struct im_raw r;
  size_t at;
  int rc = im_npy_raw(d, &r, &at);
  return rc ? rc : raw_pixels(d, &r, (const uint8_t *)d->file.p + at, max_pixels, px, channels, w, h);
}

static int npy_rgb(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  return npy_pixels(d, max_pixels, px, 3, w, h);
}

/* ---- any of them ---- */
static int begins(const im_decoder *d, size_t at, const char *bytes, size_t n) {
  return d->size >= at + n && !memcmp((const uint8_t *)d->file.p + at, bytes, n);
}

static int is_jpeg(const im_decoder *d) { return begins(d, 0, "\xFF\xD8\xFF", 3); }
int im_is_png(const im_decoder *d) { return begins(d, 0, "\x89PNG\r\n\x1A\n", 8); }
static int is_webp(const im_decoder *d) { return begins(d, 0, "RIFF", 4) && begins(d, 8, "WEBP", 4); }

/* Of the usual kind, or of that for more than 4 GiB. */
int im_is_tiff(const im_decoder *d) {
  return begins(d, 0, "II*\0", 4) || begins(d, 0, "MM\0*", 4) || begins(d, 0, "II+\0", 4) || begins(d, 0, "MM\0+", 4);
}

int im_is_npy(const im_decoder *d) { return begins(d, 0, "\x93NUMPY", 6); }

static int is_gif(const im_decoder *d) { return begins(d, 0, "GIF87a", 6) || begins(d, 0, "GIF89a", 6); }

/* Text may begin as these do: the lengths of headers tell. */
static int is_bmp(const im_decoder *d) {
  const uint8_t *p = d->file.p;
  return begins(d, 0, "BM", 2) && d->size >= 26 && !p[16] && !p[17];
}

static int is_pnm(const im_decoder *d) {
  const uint8_t *p = d->file.p;
  return d->size >= 8 && p[0] == 'P' && p[1] >= '1' && p[1] <= '6' && memchr(" \t\r\n#", p[2], 5);
}

static int png_rgb(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  return im_png(d, max_pixels, px, 0, w, h);
}

typedef struct format {
  int (*is)(const im_decoder *d);
  int (*orientation)(const uint8_t *p, size_t size); /* NULL: the format has none, or decode() sets it */
  int (*decode)(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h);
} format;

static const format formats[] = {
    {is_jpeg, im_jpeg_orientation, im_jpeg},
    {im_is_png, im_png_orientation, png_rgb},
    {is_webp, im_webp_orientation, im_webp},
    {im_is_tiff, NULL, im_tiff},
    {is_bmp, NULL, im_bmp},
    {is_gif, NULL, im_gif},
    {is_pnm, NULL, im_pnm},
    {im_is_npy, NULL, npy_rgb},
};

void im_lost_bits(im_decoder *d, int bits) {
  snprintf(d->lost, sizeof d->lost, "%d bits a channel, of which the high 8 are read; `dtype = \"uint16\"` keeps all",
           bits);
}

static void begin(im_decoder *d) {
  d->orientation = 1;
  d->is_grey = d->says_nodata = 0;
  d->note[0] = 0;
  d->lost[0] = 0;
}

/* Puts numbers side by side that are planes, or in the other byte order. */
static int interleave(im_decoder *d, const struct im_raw *r, const uint8_t *p, im_buf *px) {
  size_t n = (size_t)r->w * (size_t)r->h, channels = (size_t)r->channels, item = im_type_bytes(r->type);
  uint8_t *to = im_reserve(px, n * channels * item);
  if (!to) return im_say(d, SP_E_NOMEM, "no memory for %d x %d pixels of %d channels", r->w, r->h, r->channels);
  if (!r->planar && !r->swapped) {
    memcpy(to, p, n * channels * item);
    return SP_OK;
  }
  for (size_t i = 0; i < n; i++)
    for (size_t c = 0; c < channels; c++, to += item) {
      const uint8_t *from = p + (r->planar ? c * n + i : i * channels + c) * item;
      for (size_t k = 0; k < item; k++) to[k] = from[r->swapped ? item - 1 - k : k];
    }
  return SP_OK;
}

static int raw_numbers(im_decoder *d, const struct im_raw *r, const uint8_t *p, int64_t max_pixels, im_buf *px,
                       im_pixels *out) {
  int rc = im_check_pixels(d, r->w, r->h, max_pixels);
  *out = (im_pixels){.w = r->w, .h = r->h, .channels = r->channels, .type = r->type};
  return rc ? rc : interleave(d, r, p, px);
}

/* px NULL: the header alone. */
static int decode(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  begin(d);
  if (d->raw.w) return raw_pixels(d, &d->raw, d->file.p, max_pixels, px, 3, w, h);
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    const format *f = &formats[i];
    if (!f->is(d)) continue;
    if (f->orientation) d->orientation = f->orientation(d->file.p, d->size);
    return f->decode(d, max_pixels, px, w, h);
  }
  char what[WHAT_WORDS];
  what_is(d->file.p, d->size, what);
  return im_say(d, IM_BROKEN, "neither JPEG nor PNG, nor another format that is read%s%s", *what ? ": " : "", what);
}

int im_rgb(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  int rc = decode(d, max_pixels, px, w, h);
  return rc ? rc : im_turn(d, px, w, h, 3);
}

/* RGB of which all three are equal becomes one channel. */
static void keep_grey(uint8_t *px, im_pixels *out) {
  for (size_t i = 0, n = (size_t)out->w * (size_t)out->h; i < n; i++) px[i] = px[3 * i];
  out->channels = 1;
  out->colour = 0;
}

int im_numbers(im_decoder *d, int64_t max_pixels, im_buf *px, im_pixels *out) {
  struct im_raw r;
  size_t at;
  int rc;
  begin(d);
  *out = (im_pixels){0};
  if (d->raw.w) return raw_numbers(d, &d->raw, d->file.p, max_pixels, px, out);
  if (im_is_npy(d)) {
    rc = im_npy_raw(d, &r, &at);
    return rc ? rc : raw_numbers(d, &r, (const uint8_t *)d->file.p + at, max_pixels, px, out);
  }
  if (im_is_png(d)) {
    d->orientation = im_png_orientation(d->file.p, d->size);
    rc = im_png_numbers(d, max_pixels, px, out);
  } else {
    rc = im_is_tiff(d) ? im_tiff_numbers(d, max_pixels, px, out)
         : is_pnm(d)   ? im_pnm_numbers(d, max_pixels, px, out)
                       : SP_OK;
  }
  if (rc) return rc;
  if (!out->channels) {
    *out = (im_pixels){.channels = 3, .colour = 1, .picture = 1};
    rc = im_rgb(d, max_pixels, px, &out->w, &out->h);
    if (!rc && d->picture && d->is_grey) keep_grey(px->p, out);
    return rc;
  }
  return im_turn(d, px, &out->w, &out->h, out->channels * (int)im_type_bytes(out->type));
}

static void upright(const im_decoder *d, int stored_w, int stored_h, int *w, int *h) {
  int turned = !d->as_stored && d->orientation >= 5;
  *w = turned ? stored_h : stored_w;
  *h = turned ? stored_w : stored_h;
}

int im_about(im_decoder *d, im_pixels *out) {
  struct im_raw r = d->raw;
  size_t at;
  int rc = SP_OK, w, h;
  begin(d);
  *out = (im_pixels){0};
  if (!r.w && im_is_npy(d)) rc = im_npy_raw(d, &r, &at);
  if (rc) return rc;
  if (r.w) {
    *out = (im_pixels){.w = r.w, .h = r.h, .channels = r.channels, .type = r.type};
    return SP_OK;
  }
  if (im_is_png(d)) im_png_about(d, out);
  else if (im_is_tiff(d) && (rc = im_tiff_about(d, out))) return rc;
  else if (is_pnm(d) && (rc = im_pnm_numbers(d, INT64_MAX, NULL, out))) return rc;
  im_pixels found = *out;
  if ((rc = decode(d, INT64_MAX, NULL, &w, &h))) return rc;
  *out = found.channels ? found : (im_pixels){.channels = d->is_grey ? 1 : 3, .colour = !d->is_grey, .picture = 1};
  upright(d, w, h, &out->w, &out->h);
  return SP_OK;
}

int im_labels(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  begin(d);
  if (d->raw.w) return raw_pixels(d, &d->raw, d->file.p, max_pixels, px, 1, w, h);
  if (im_is_npy(d)) return npy_pixels(d, max_pixels, px, 1, w, h);
  if (!im_is_png(d)) {
    char what[WHAT_WORDS];
    what_is(d->file.p, d->size, what);
    return im_say(d, IM_BROKEN, "not PNG by its first bytes, as a mask must be%s%s", *what ? ": " : "", what);
  }
  d->orientation = im_png_orientation(d->file.p, d->size);
  int rc = im_png(d, max_pixels, px, 1, w, h);
  return rc ? rc : im_turn(d, px, w, h, 1);
}

int im_in_colour(const im_decoder *d) {
  enum { RGB = 2, GREY_ALPHA = 4, RGBA = 6, KIND_AT = 25 }; /* of the header's bytes */
  int kind = im_is_png(d) && d->size > KIND_AT ? ((const uint8_t *)d->file.p)[KIND_AT] : 0;
  return kind == RGB || kind == RGBA || kind == GREY_ALPHA; /* labels are its colours, whatever alpha says */
}

int im_has_byte_labels(const im_decoder *d) {
  enum { DEPTH_AT = 24, KIND_AT = 25, GREY = 0, PALETTE = 3 };
  const uint8_t *p = d->file.p;
  if (d->raw.w) return d->raw.type == IM_U8 && d->raw.channels == 1;
  return im_is_png(d) && d->size > KIND_AT && p[DEPTH_AT] <= 8 && (p[KIND_AT] == GREY || p[KIND_AT] == PALETTE);
}

int im_palette(const im_decoder *d, uint8_t rgb[768]) {
  const uint8_t *p = d->file.p;
  size_t n;
  if (d->raw.w || !im_is_png(d)) return 0;
  for (size_t at = 8; d->size - at >= 12 && memcmp(p + at + 4, "IDAT", 4); at += 12 + n) {
    n = (size_t)p[at] << 24 | (size_t)p[at + 1] << 16 | (size_t)p[at + 2] << 8 | p[at + 3];
    if (n > d->size - at - 12) return 0;
    if (memcmp(p + at + 4, "PLTE", 4)) continue;
    if (n > 768) return 0;
    memcpy(rgb, p + at + 8, n);
    return (int)(n / 3);
  }
  return 0;
}

int im_size(im_decoder *d, int *w, int *h) {
  int stored_w, stored_h, rc = decode(d, INT64_MAX, NULL, &stored_w, &stored_h);
  if (!rc) upright(d, stored_w, stored_h, w, h);
  return rc;
}
