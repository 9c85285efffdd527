/* SPDX-License-Identifier: MIT
 * jpeg.c - JPEG through TurboJPEG, from memory. What does not touch a pixel is no damage: bytes behind the end, bytes
 * between the last scan and the end, a version of JFIF that there is not. Pillow takes such files as well. A height
 * that stands behind the first scan is put where libjpeg looks for it. */
#include <stdio.h>
#include <string.h>

#include <turbojpeg.h>

#include "formats.h"

enum { SOI = 0xD8, EOI = 0xD9, SOS = 0xDA, DNL = 0xDC, APP0 = 0xE0, JPEG_LS = 0xF7 };
enum { LOSSLESS = 3 }; /* the process, in the lowest bits of a frame's marker */

/* ---- markers ---- */
static int has_length(uint8_t marker) {
  return marker > 1 && marker != SOI && !(marker >= 0xD0 && marker <= 0xD7); /* else alone, or a byte of a scan */
}

/* Where the first picture ends, behind its last marker; 0: it has no end. A file may hold more: the second picture of a
 * stereo camera, the film of a phone. */
static size_t find_end(const uint8_t *p, size_t size) {
  const uint8_t *end = p + size, *at = p + 2;
  while ((at = memchr(at, 0xFF, (size_t)(end - at)))) {
    while (at < end && *at == 0xFF) at++;
    if (at == end) return 0;
    uint8_t marker = *at++;
    if (marker == EOI) return (size_t)(at - p);
    if (!has_length(marker)) continue;
    size_t n = end - at >= 2 ? (size_t)at[0] << 8 | at[1] : 0;
    if (n < 2 || n > (size_t)(end - at)) return 0;
    at += n;
  }
  return 0;
}

/* TurboJPEG warns of versions other than 1, and of a file it reports the first warning alone. */
static void mend_version(im_decoder *d) {
  uint8_t *p = d->file.p;
  for (size_t at = 2; at + 16 <= d->size && p[at] == 0xFF && (p[at + 1] & 0xF0) == APP0;) {
    size_t n = (size_t)p[at + 2] << 8 | p[at + 3];
    if (p[at + 1] == APP0 && n >= 9 && !memcmp(p + at + 4, "JFIF", 5)) p[at + 9] = 1;
    at += 2 + n;
  }
}

/* The frame's header, behind its marker, or NULL: marker, length, bits of a number. */
static const uint8_t *find_frame(const uint8_t *p, size_t size) {
  for (size_t at = 2; at + 5 <= size && p[at] == 0xFF;) {
    uint8_t marker = p[at + 1];
    if ((marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC) || marker == JPEG_LS)
      return p + at + 1;
    at += marker == 0xFF ? 1 : !has_length(marker) ? 2 : 2 + ((size_t)p[at + 2] << 8 | p[at + 3]);
  }
  return NULL;
}

/* A height of 0 is said behind the first scan, by a marker DNL, which libjpeg passes over. */
static void mend_height(im_decoder *d) {
  uint8_t *frame = (uint8_t *)find_frame(d->file.p, d->size), *end = d->file.p, *at = frame;
  end += d->size;
  if (!frame || end - frame < 6 || frame[4] || frame[5]) return;
  while ((at = memchr(at, 0xFF, (size_t)(end - at))) && end - at >= 6) {
    if (at[1] == DNL && !at[2] && at[3] == 4) {
      frame[4] = at[4];
      frame[5] = at[5];
      return;
    }
    at++;
  }
}

/* Says of a file that was not read that it is of a kind that libjpeg-turbo 2 does not know; 0: it is not. */
static int is_odd_kind(im_decoder *d) {
  const uint8_t *frame = find_frame(d->file.p, d->size);
  int marker = frame ? *frame : 0, bits = frame ? frame[3] : 8;
  const char *kind = marker == JPEG_LS          ? "a JPEG-LS"
                     : marker >> 2 & 1          ? "a hierarchical JPEG"
                     : (marker & 3) == LOSSLESS ? "a lossless JPEG"
                     : bits == 12               ? "a JPEG"
                                                : NULL;
  if (!kind) return 0;
  im_say(d, IM_BROKEN, "it is %s of %d bits a channel, which is not read; convert it to PNG or PNM, as with %s", kind,
         bits, marker == JPEG_LS ? "ffmpeg" : "djpeg of libjpeg-turbo 3");
  return 1;
}

/* TurboJPEG has all pixels, and warns that bytes lie between the last of them and the end's marker: that moves to where
 * they begin, but for the few that it took for bits. 0: the warning is another. */
static int mend_end(im_decoder *d, size_t end, const char *warning) {
  unsigned n = 0, marker = 0;
  if (sscanf(warning, "Corrupt JPEG data: %u extraneous bytes before marker 0x%x", &n, &marker) != 2) return 0;
  if (marker != EOI || n < 1 || end < 6 || n > end - 6) return 0;
  uint8_t *p = d->file.p;
  p[end - n - 2] = 0xFF;
  p[end - n - 1] = EOI;
  snprintf(d->note, sizeof d->note, "stray bytes in front of its end's marker");
  return 1;
}

/* ---- pixels ---- */
static int read_header(im_decoder *d, tjhandle tj, int *w, int *h, int *colours) {
  int sub;
  *w = *h = 0; /* a file of tables alone is no error, and has no size */
  if (tjDecompressHeader3(tj, d->file.p, d->size, w, h, &sub, colours))
    return im_say(d, IM_BROKEN, "%s", tjGetErrorStr2(tj));
  d->is_grey = *colours == TJCS_GRAY;
  return *w > 0 && *h > 0 ? SP_OK : im_say(d, IM_BROKEN, "it ends before the header says how large it is");
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

static int decompress(im_decoder *d, tjhandle tj, int64_t max_pixels, im_buf *px, int *w, int *h) {
  int colours, rc = read_header(d, tj, w, h, &colours);
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

/* A handle keeps the tables of earlier files, and after an error in a header its state as well: what a file decodes to
 * would depend on the files before it. So each gets a new one, in a few microseconds. */
static int decode_once(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  tjhandle tj = tjInitDecompress();
  if (!tj) return im_say(d, SP_E_NOMEM, "TurboJPEG: %s", tjGetErrorStr2(NULL));
  int colours, rc = px ? decompress(d, tj, max_pixels, px, w, h) : read_header(d, tj, w, h, &colours);
  tjDestroy(tj);
  return rc;
}

int im_jpeg(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  mend_version(d);
  mend_height(d);
  int rc = decode_once(d, max_pixels, px, w, h);
  if (rc == IM_BROKEN && is_odd_kind(d)) return rc;
  if (!px || (rc && rc != IM_BROKEN)) return rc;
  size_t end = find_end(d->file.p, d->size);
  if (rc && end && mend_end(d, end, d->why)) return decode_once(d, max_pixels, px, w, h);
  if (!rc && end && end < d->size) snprintf(d->note, sizeof d->note, "%zu bytes behind its end", d->size - end);
  return rc;
}
