/* SPDX-License-Identifier: MIT
 * png.c - PNG through libpng, from memory. Once all rows are there, what is wrong behind them is no damage, as for
 * Pillow: no end, bytes behind it, wrong checksums. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

#include "formats.h"

enum { ADLER = 4, CRC = 4 };   /* bytes of the checksums behind the pixels */
enum { MOST_CHUNK = 8 << 20 }; /* bytes, but for pixels */

enum { AS_RGB, AS_LABELS, AS_VALUES }; /* im_rgb, im_labels, im_numbers */

typedef struct job {
  im_decoder *d;
  im_buf *px;
  int64_t max_pixels;
  size_t at, lacking; /* lacking: bytes that the file should have had */
  int w, h, how, only_header;
  im_pixels *out;      /* with AS_VALUES */
  int complete, wrong; /* all rows are there; their checksum is wrong */
  int unchecked;       /* zlib is to leave that checksum alone, as it is cut off */
} job;

/* Zeros may stand for the last checksums, as no pixel depends on them. */
static void take_bytes(png_structp png, png_bytep to, size_t n) {
  job *j = png_get_io_ptr(png);
  size_t left = j->d->size - j->at, got = n < left ? n : left;
  j->lacking += n - got;
  if (j->complete ? got < n : n - got > ADLER || j->lacking > ADLER + CRC) png_error(png, "the file ends too early");
  memcpy(to, (const uint8_t *)j->d->file.p + j->at, got);
  memset(to + got, 0, n - got);
  j->at += got;
}

static void failed(png_structp png, png_const_charp words) {
  job *j = png_get_error_ptr(png);
  if (!j->complete) im_say(j->d, IM_BROKEN, "%s", words);
  png_longjmp(png, 1);
}

/* Many files have warnings about colours that nobody asked for. */
static void warned(png_structp png, png_const_charp words) {
  job *j = png_get_error_ptr(png);
  if (strstr(words, "incorrect data check")) j->wrong = 1;
  if (!*j->d->note && strstr(words, "CRC error"))
    snprintf(j->d->note, sizeof j->d->note, "a wrong checksum (%.80s)", words);
}

static int want_labels(job *j, int colour, int depth) {
  if (colour != PNG_COLOR_TYPE_PALETTE && colour != PNG_COLOR_TYPE_GRAY)
    return im_say(j->d, SP_E_DATA, "a mask must be a palette or grey PNG whose values are the labels, this one is %s",
                  colour & PNG_COLOR_MASK_COLOR ? "in colour" : "grey with alpha");
  if (depth == 16) return im_say(j->d, SP_E_DATA, "a mask with 16 bits a pixel; labels have 8 bits at most");
  return SP_OK;
}

static void want_rgb(im_decoder *d, png_structp png, int colour, int depth) {
  if (depth == 16) png_set_strip_16(png);
  if (depth == 16) im_lost_bits(d, depth);
  if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (!(colour & PNG_COLOR_MASK_COLOR) && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (!(colour & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
}

static void want_numbers(job *j, png_structp png, int colour, int depth) {
  if (depth == 16 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) png_set_swap(png);
  if (depth < 8 && !j->d->picture) png_set_packing(png);
  if (j->d->picture && colour == PNG_COLOR_TYPE_PALETTE) {
    png_set_palette_to_rgb(png);
    png_set_strip_alpha(png);
    colour = PNG_COLOR_TYPE_RGB;
    depth = 8;
  } else if (j->d->picture && depth < 8) {
    png_set_expand_gray_1_2_4_to_8(png);
  }
  int is_colour = colour != PNG_COLOR_TYPE_PALETTE && colour & PNG_COLOR_MASK_COLOR;
  *j->out = (im_pixels){.w = j->w,
                        .h = j->h,
                        .channels = (is_colour ? 3 : 1) + !!(colour & PNG_COLOR_MASK_ALPHA),
                        .type = depth == 16 ? IM_U16 : IM_U8,
                        .colour = is_colour,
                        .alpha = !!(colour & PNG_COLOR_MASK_ALPHA),
                        .picture = 1};
}

/* What the header says, whose checksum nobody has looked at. */
void im_png_about(const im_decoder *d, im_pixels *out) {
  enum { DEPTH_AT = 24, COLOUR_AT = 25 };
  const uint8_t *p = d->file.p;
  if (d->size <= COLOUR_AT || p[COLOUR_AT] == PNG_COLOR_TYPE_PALETTE) return;
  int is_colour = p[COLOUR_AT] & PNG_COLOR_MASK_COLOR, alpha = !!(p[COLOUR_AT] & PNG_COLOR_MASK_ALPHA);
  *out = (im_pixels){.channels = (is_colour ? 3 : 1) + alpha,
                     .type = p[DEPTH_AT] == 16 ? IM_U16 : IM_U8,
                     .colour = !!is_colour,
                     .alpha = alpha,
                     .picture = 1};
}

/* An animation (APNG) says so in front of its pixels. */
static int is_animated(const im_decoder *d) {
  enum { FIRST_AT = 8, AROUND = 12 };
  const uint8_t *p = d->file.p;
  for (size_t at = FIRST_AT, n; at + AROUND <= d->size && memcmp(p + at + 4, "IDAT", 4); at += n + AROUND) {
    n = (size_t)p[at] << 24 | (size_t)p[at + 1] << 16 | (size_t)p[at + 2] << 8 | p[at + 3];
    if (!memcmp(p + at + 4, "acTL", 4)) return 1;
    if (n > d->size) return 0;
  }
  return 0;
}

static int read_rows(job *j, png_structp png, png_infop info) {
  png_set_read_fn(png, j, take_bytes);
  png_set_chunk_malloc_max(png, MOST_CHUNK); /* whatever length a chunk claims */
  /* libpng 1.6 takes memory for as much Exif as a chunk claims, whatever that limit says. None of what is beside the
   * pixels is needed here: all of it is skipped. */
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
#ifdef PNG_IGNORE_ADLER32
  if (j->unchecked) png_set_option(png, PNG_IGNORE_ADLER32, PNG_OPTION_ON);
#endif
  png_read_info(png, info);
  png_uint_32 w = png_get_image_width(png, info), h = png_get_image_height(png, info);
  int colour = png_get_color_type(png, info), depth = png_get_bit_depth(png, info), rc;
  if ((rc = im_check_pixels(j->d, w, h, j->max_pixels))) return rc;
  j->w = (int)w;
  j->h = (int)h;
  if (j->only_header) return SP_OK;
  if (j->how == AS_LABELS) {
    if ((rc = want_labels(j, colour, depth))) return rc;
    png_set_packing(png);
  } else if (j->how == AS_RGB) {
    want_rgb(j->d, png, colour, depth);
  } else {
    want_numbers(j, png, colour, depth);
  }
  if (is_animated(j->d) && !*j->d->lost)
    snprintf(j->d->lost, sizeof j->d->lost, "several pictures, of which the first is read");
  int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  size_t pixel = j->out ? (size_t)j->out->channels * im_type_bytes(j->out->type) : j->how == AS_LABELS ? 1 : 3;
  size_t line = (size_t)w * pixel;
  if (png_get_rowbytes(png, info) != line)
    return im_say(j->d, SP_E_INTERNAL, "libpng gives %zu bytes a row, not %zu", png_get_rowbytes(png, info), line);
  uint8_t *p = im_reserve(j->px, line * h);
  if (!p) return im_say(j->d, SP_E_NOMEM, "no memory for %d x %d pixels", j->w, j->h);
  if (passes > 1) memset(p, 0, line * h);
  png_set_crc_action(png, PNG_CRC_WARN_USE, PNG_CRC_NO_CHANGE); /* of the pixels; they have a checksum of their own */
  for (int pass = 0; pass < passes; pass++)
    for (size_t y = 0; y < h; y++) png_read_row(png, p + y * line, NULL);
  j->complete = 1;
  png_read_end(png, NULL);
  return SP_OK;
}

/* Of a file whose rows are all there. */
static int finish(job *j, int has_end) {
  im_decoder *d = j->d;
  if (j->wrong && !j->lacking) return im_say(d, IM_BROKEN, "the checksum of its pixels is wrong");
  if (!has_end) snprintf(d->note, sizeof d->note, "no whole end (IEND)");
  else if (j->at < d->size) snprintf(d->note, sizeof d->note, "%zu bytes behind its end", d->size - j->at);
  return SP_OK;
}

static int decode(job *j) {
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, j, failed, warned);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  int rc = SP_E_NOMEM;
  if (!info) im_say(j->d, rc, "libpng: out of memory");
  else if (setjmp(png_jmpbuf(png))) rc = j->complete ? finish(j, 0) : IM_BROKEN;
  else if (!(rc = read_rows(j, png, info)) && j->complete) rc = finish(j, 1);
  png_destroy_read_struct(&png, &info, NULL);
  return rc;
}

static int decode_twice(job *j) {
  int rc = decode(j);
  if (rc != IM_BROKEN || !j->lacking || j->lacking > ADLER + CRC) return rc;
  j->at = j->lacking = 0;
  j->unchecked = 1;
  return decode(j);
}

int im_png(im_decoder *d, int64_t max_pixels, im_buf *px, int labels, int *w, int *h) {
  job j = {.d = d, .px = px, .max_pixels = max_pixels, .how = labels ? AS_LABELS : AS_RGB, .only_header = !px};
  int rc = decode_twice(&j);
  *w = j.w;
  *h = j.h;
  return rc;
}

int im_png_numbers(im_decoder *d, int64_t max_pixels, im_buf *px, im_pixels *out) {
  job j = {.d = d, .px = px, .max_pixels = max_pixels, .how = AS_VALUES, .out = out};
  return decode_twice(&j);
}
