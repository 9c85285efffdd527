/* SPDX-License-Identifier: MIT
 * orient.c - which way up a camera held the picture: EXIF's orientation in JPEG, PNG and WebP files, and turning by it.
 *
 * What a file says of itself is never trusted: each offset and length is compared with the bytes that there are, and
 * where one leads outside, the picture stays as it is stored. */
#include <string.h>

#include <spcore/abi.h>

#include "formats.h"

#define TAG_ORIENTATION 0x0112
enum { TYPE_SHORT = 3, TYPE_LONG = 4 };
enum { STEADY = 1, MOST = 8 }; /* orientations: as stored, the last one */
enum { BLOCK = 16 };           /* rows that are turned at once, so that a line of the cache is read once */

/* The first n of the file's bytes from `at` on; NULL: there are fewer. */
static const uint8_t *bytes_at(const uint8_t *p, size_t size, size_t at, size_t n) {
  return at <= size && n <= size - at ? p + at : NULL;
}

static uint32_t number(const uint8_t *p, int bytes, int big) {
  uint32_t v = 0;
  for (int k = 0; k < bytes; k++) v |= (uint32_t)p[k] << 8 * (big ? bytes - 1 - k : k);
  return v;
}

static int valid(uint32_t v) { return v >= STEADY && v <= MOST ? (int)v : STEADY; }

/* Of a TIFF structure, as EXIF has it: the entries of its first directory. */
static int of_exif(const uint8_t *p, size_t n) {
  const uint8_t *head = bytes_at(p, n, 0, 8), *e;
  if (!head || (memcmp(head, "MM\0*", 4) && memcmp(head, "II*\0", 4))) return STEADY;
  int big = *head == 'M';
  size_t at = number(head + 4, 4, big);
  const uint8_t *count = bytes_at(p, n, at, 2);
  if (!count) return STEADY;
  uint32_t entries = number(count, 2, big);
  for (uint32_t i = 0; i < entries && (e = bytes_at(p, n, at + 2 + (size_t)i * 12, 12)); i++) {
    if (number(e, 2, big) != TAG_ORIENTATION) continue;
    uint32_t type = number(e + 2, 2, big);
    if (number(e + 4, 4, big) != 1 || (type != TYPE_SHORT && type != TYPE_LONG)) return STEADY;
    return valid(number(e + 8, type == TYPE_SHORT ? 2 : 4, big));
  }
  return STEADY;
}

/* With the six bytes in front that JPEG wants, or, as some write it into WebP, without. */
static int of_payload(const uint8_t *p, size_t n, int named) {
  int has_name = n >= 6 && !memcmp(p, "Exif\0\0", 6);
  if (has_name) return of_exif(p + 6, n - 6);
  return named ? 0 : of_exif(p, n);
}

/* Segments up to the first scan. */
int im_jpeg_orientation(const uint8_t *p, size_t size) {
  const uint8_t *s;
  for (size_t at = 2; (s = bytes_at(p, size, at, 4)) && s[0] == 0xFF && s[1] != 0xDA && s[1] != 0xD9;) {
    int alone = s[1] == 0xFF || s[1] == 1 || (s[1] >= 0xD0 && s[1] <= 0xD7); /* filling, or a marker without length */
    if (alone) {
      at += s[1] == 0xFF ? 1 : 2;
      continue;
    }
    size_t len = number(s + 2, 2, 1);
    if (len < 2 || !bytes_at(p, size, at + 2, len)) return STEADY;
    int found = s[1] == 0xE1 ? of_payload(s + 4, len - 2, 1) : 0;
    if (found) return found;
    at += 2 + len;
  }
  return STEADY;
}

/* Chunks of length, name, bytes and checksum. */
int im_png_orientation(const uint8_t *p, size_t size) {
  const uint8_t *c;
  for (size_t at = 8; (c = bytes_at(p, size, at, 8));) {
    size_t len = number(c, 4, 1);
    if (!bytes_at(p, size, at + 8, len)) return STEADY;
    if (!memcmp(c + 4, "eXIf", 4)) return of_payload(c + 8, len, 0);
    at += 8 + len + 4;
  }
  return STEADY;
}

/* The same the other way round, without a checksum, at even places. */
int im_webp_orientation(const uint8_t *p, size_t size) {
  const uint8_t *c;
  for (size_t at = 12; (c = bytes_at(p, size, at, 8));) {
    size_t len = number(c + 4, 4, 0);
    if (!bytes_at(p, size, at + 8, len)) return STEADY;
    if (!memcmp(c, "EXIF", 4)) return of_payload(c + 8, len, 0);
    at += 8 + len + len % 2;
  }
  return STEADY;
}

/* ---- turning ---- */
/* The pixel at (x, y) of the result is the one at (y, x) or (x, y) of the source, counted from its right or its left
 * side, from below or from above. */
typedef struct turn {
  const uint8_t *from; /* the source of the first pixel */
  ptrdiff_t right, down;
  int w, h, channels; /* of the result */
} turn;

static turn turn_of(const uint8_t *src, int w, int h, int channels, int orientation) {
  int swap = orientation >= 5, mirror_x = orientation == 2 || orientation == 3 || orientation >= 7,
      mirror_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  ptrdiff_t pixel = channels, line = pixel * w, along = mirror_x ? -pixel : pixel, across = mirror_y ? -line : line;
  const uint8_t *from = src + (mirror_x ? line - pixel : 0) + (mirror_y ? line * (h - 1) : 0);
  return swap ? (turn){from, across, along, h, w, channels} : (turn){from, along, across, w, h, channels};
}

static void turn_rows(const turn *t, int y, int end, uint8_t *dst) {
  size_t line = (size_t)t->w * (size_t)t->channels;
  for (int x = 0; x < t->w; x++)
    for (int r = y; r < end; r++) {
      const uint8_t *s = t->from + x * t->right + r * t->down;
      uint8_t *d = dst + (size_t)r * line + (size_t)x * (size_t)t->channels;
      for (int c = 0; c < t->channels; c++) d[c] = s[c];
    }
}

int im_turn(im_decoder *d, im_buf *px, int *w, int *h, int channels) {
  if (d->as_stored || d->orientation == STEADY) return SP_OK;
  uint8_t *dst = im_reserve(&d->spare, (size_t)*w * (size_t)*h * (size_t)channels);
  if (!dst) return im_say(d, SP_E_NOMEM, "no memory to turn %d x %d pixels", *w, *h);
  turn t = turn_of(px->p, *w, *h, channels, d->orientation);
  for (int y = 0; y < t.h; y += BLOCK) turn_rows(&t, y, y + BLOCK < t.h ? y + BLOCK : t.h, dst);
  im_buf turned = d->spare;
  d->spare = *px;
  *px = turned;
  *w = t.w;
  *h = t.h;
  return SP_OK;
}
