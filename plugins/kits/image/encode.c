/* SPDX-License-Identifier: MIT
 * encode.c - pixels to JPEG and PNG in memory, and from there to a file that appears whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <png.h>
#include <turbojpeg.h>

#include <spcore/abi.h>

#include "image.h"

static int SP_PRINTF(3, 4) say(im_encoder *e, int status, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(e->why, sizeof e->why, fmt, ap);
  va_end(ap);
  return status;
}

void im_encoder_free(im_encoder *e) {
  if (e->tj) tjDestroy(e->tj);
  free(e->out);
  *e = (im_encoder){.tj = NULL};
}

static int room(im_encoder *e, size_t bytes) {
  if (bytes <= e->cap) return SP_OK;
  size_t cap = bytes + bytes / 2 + 4096;
  uint8_t *p = realloc(e->out, cap);
  if (!p) return say(e, SP_E_NOMEM, "no memory for %zu bytes of an encoded image", cap);
  e->out = p;
  e->cap = cap;
  return SP_OK;
}

/* ---- JPEG ---- */
int im_to_jpeg(im_encoder *e, const uint8_t *rgb, int w, int h, int quality) {
  unsigned long n = tjBufSize(w, h, TJSAMP_444);
  e->n = 0;
  if (w > 65500 || h > 65500 || n == (unsigned long)-1)
    return say(e, SP_E_SHAPE, "%d x %d pixels do not fit into a JPEG", w, h);
  if (!e->tj && !(e->tj = tjInitCompress())) return say(e, SP_E_NOMEM, "TurboJPEG: %s", tjGetErrorStr2(NULL));
  int rc = room(e, n);
  if (rc) return rc;
  if (tjCompress2(e->tj, rgb, w, 0, h, TJPF_RGB, &e->out, &n, TJSAMP_444, quality, TJFLAG_NOREALLOC))
    return say(e, SP_E_INTERNAL, "TurboJPEG: %s", tjGetErrorStr2(e->tj));
  e->n = n;
  return SP_OK;
}

/* ---- PNG ---- */
typedef struct png_job {
  im_encoder *e;
  const void *px;
  int w, h, colour, depth;
} png_job;

void im_label_colour(uint8_t label, uint8_t rgb[3]) {
  rgb[0] = rgb[1] = rgb[2] = 0;
  for (int bit = 7; label; bit--, label = (uint8_t)(label >> 3))
    for (int c = 0; c < 3; c++) rgb[c] = (uint8_t)(rgb[c] | (label >> c & 1) << bit);
}

static void png_bytes(png_structp png, png_bytep from, size_t n) {
  im_encoder *e = ((png_job *)png_get_io_ptr(png))->e;
  if (room(e, e->n + n)) png_error(png, e->why);
  memcpy(e->out + e->n, from, n);
  e->n += n;
}

static void png_flushed(png_structp png) { (void)png; }

static void png_failed(png_structp png, png_const_charp words) {
  png_job *job = png_get_error_ptr(png);
  if (words != job->e->why) say(job->e, SP_E_INTERNAL, "libpng: %s", words);
  png_longjmp(png, 1);
}

static void png_warned(png_structp png, png_const_charp words) {
  (void)png;
  (void)words;
}

static void png_run(png_job *job, png_structp png, png_infop info) {
  size_t line = (size_t)job->w * (job->colour == PNG_COLOR_TYPE_RGB ? 3 : 1) * (size_t)(job->depth / 8);
  png_color palette[256];
  png_set_write_fn(png, job, png_bytes, png_flushed);
  png_set_IHDR(png, info, (png_uint_32)job->w, (png_uint_32)job->h, job->depth, job->colour, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (job->colour == PNG_COLOR_TYPE_PALETTE) {
    for (int i = 0; i < 256; i++) {
      uint8_t c[3];
      im_label_colour((uint8_t)i, c);
      palette[i] = (png_color){c[0], c[1], c[2]};
    }
    png_set_PLTE(png, info, palette, 256);
  }
  /* Photographs hardly become smaller for four times the time. */
  if (job->colour == PNG_COLOR_TYPE_RGB) png_set_compression_level(png, 2);
  png_write_info(png, info);
  if (job->depth == 16 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) png_set_swap(png);
  for (int y = 0; y < job->h; y++) png_write_row(png, (png_const_bytep)job->px + (size_t)y * line);
  png_write_end(png, NULL);
}

static int png_encode(png_job *job) {
  job->e->n = 0;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, job, png_failed, png_warned);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  int rc = SP_OK;
  if (!info) rc = say(job->e, SP_E_NOMEM, "libpng: out of memory");
  else if (setjmp(png_jmpbuf(png))) rc = SP_E_INTERNAL;
  else png_run(job, png, info);
  png_destroy_write_struct(&png, &info);
  return rc;
}

int im_to_png(im_encoder *e, const uint8_t *rgb, int w, int h) {
  png_job job = {e, rgb, w, h, PNG_COLOR_TYPE_RGB, 8};
  return png_encode(&job);
}

int im_labels_to_png(im_encoder *e, const uint8_t *labels, int w, int h) {
  png_job job = {e, labels, w, h, PNG_COLOR_TYPE_PALETTE, 8};
  return png_encode(&job);
}

int im_grey16_to_png(im_encoder *e, const uint16_t *px, int w, int h) {
  png_job job = {e, px, w, h, PNG_COLOR_TYPE_GRAY, 16};
  return png_encode(&job);
}

/* ---- the file ---- */
static int put(im_encoder *e, int fd) {
  for (size_t done = 0; done < e->n;) {
    ssize_t n = write(fd, e->out + done, e->n - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return say(e, SP_E_IO, "%s", strerror(errno));
    done += (size_t)n;
  }
  return SP_OK;
}

int im_save(im_encoder *e, const char *path) {
  char temp[4096];
  if (snprintf(temp, sizeof temp, "%s.part-%ld", path, (long)getpid()) >= (int)sizeof temp)
    return say(e, SP_E_INVALID, "the path is longer than %zu bytes", sizeof temp);
  unlink(temp); /* of a process with this number that was killed; a link that somebody has put there is not followed */
  int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return say(e, SP_E_IO, "%s", strerror(errno));
  int rc = put(e, fd);
  if (close(fd) && !rc) rc = say(e, SP_E_IO, "%s", strerror(errno));
  if (!rc && rename(temp, path)) rc = say(e, SP_E_IO, "%s", strerror(errno));
  if (rc) unlink(temp);
  return rc;
}
