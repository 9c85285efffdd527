/* SPDX-License-Identifier: MIT
 * bmp.c - BMP files, of Windows and OS/2: 1, 4, 8, 16, 24 and 32 bits a pixel, with masks, run lengths and rows from
 * either end. No packaged library reads them. Pixels are Pillow's; where runs leave some out, they are of colour 0. */
#include <string.h>

#include "formats.h"

enum { FILE_HEADER = 14, CORE = 12, USUAL = 40, OS2 = 64 };                              /* bytes of headers */
enum { PLAIN = 0, RLE8 = 1, RLE4 = 2, FIELDS = 3, JPEG = 4, PNG = 5, ALPHA_FIELDS = 6 }; /* compression */

typedef struct bmp {
  im_decoder *d;
  const uint8_t *p;
  size_t size, at; /* at: of the pixels */
  int w, h, top_down, bits, compression;
  uint32_t masks[3]; /* of 16 and 32 bits: red, green, blue */
  uint8_t colours[256][3];
} bmp;

static uint32_t le(const uint8_t *p, int bytes) {
  uint32_t v = 0;
  while (bytes-- > 0) v = v << 8 | p[bytes];
  return v;
}

static int too_short(im_decoder *d) { return im_say(d, IM_BROKEN, "the file ends too early"); }

/* ---- headers ---- */
static void read_colours(bmp *b, size_t from, size_t entry, uint32_t n) {
  size_t most = (size_t)1 << b->bits;
  if (b->bits > 8) return;
  if (!n || n > most) n = (uint32_t)most;
  for (uint32_t i = 0; i < n && from + (i + 1) * entry <= b->size; i++)
    for (int c = 0; c < 3; c++) b->colours[i][c] = b->p[from + i * entry + 2 - (size_t)c];
}

static int read_masks(bmp *b) {
  static const uint32_t usual[2][3] = {{0x7C00, 0x3E0, 0x1F}, {0xFF0000, 0xFF00, 0xFF}};
  memcpy(b->masks, usual[b->bits == 32], sizeof b->masks);
  if (b->compression != FIELDS && b->compression != ALPHA_FIELDS) return SP_OK;
  size_t at = FILE_HEADER + USUAL; /* inside a long header, or behind a usual one */
  if (b->size < at + 12) return too_short(b->d);
  for (int c = 0; c < 3; c++) b->masks[c] = le(b->p + at + 4 * (size_t)c, 4);
  return SP_OK;
}

/* OS/2 has compressions of its own under the same numbers. */
static int refuse(const bmp *b, uint32_t header) {
  const char *what = header == OS2 ? NULL : b->compression == JPEG ? "a JPEG" : b->compression == PNG ? "a PNG" : NULL;
  if (what) return im_say(b->d, IM_BROKEN, "a BMP file with %s in it; save it as PNG", what);
  return im_say(b->d, IM_BROKEN, "a BMP file of %d bit%s a pixel in compression %d%s; save it as PNG", b->bits,
                b->bits == 1 ? "" : "s", b->compression, header == OS2 ? " of OS/2" : "");
}

static int known(const bmp *b) {
  switch (b->compression) {
    case PLAIN: return b->bits == 1 || b->bits == 4 || b->bits == 8 || b->bits == 16 || b->bits == 24 || b->bits == 32;
    case RLE8: return b->bits == 8;
    case RLE4: return b->bits == 4;
    case FIELDS:
    case ALPHA_FIELDS: return b->bits == 16 || b->bits == 32;
    default: return 0;
  }
}

static int read_header(bmp *b, int64_t max_pixels) {
  const uint8_t *p = b->p;
  if (b->size < FILE_HEADER + CORE) return too_short(b->d);
  uint32_t header = le(p + FILE_HEADER, 4);
  int core = header == CORE;
  if (!core && (header < USUAL || header > 1024))
    return im_say(b->d, IM_BROKEN, "a BMP file with a header of %u bytes; save it as PNG", header);
  if (b->size < FILE_HEADER + (size_t)header) return too_short(b->d);
  int64_t w = core ? (int64_t)le(p + 18, 2) : (int32_t)le(p + 18, 4);
  int64_t h = core ? (int64_t)le(p + 20, 2) : (int32_t)le(p + 22, 4);
  b->bits = (int)le(p + (core ? 24 : 28), 2);
  b->compression = core ? PLAIN : (int)(le(p + 30, 4) & 0xFFFF);
  b->top_down = h < 0;
  int rc = im_check_pixels(b->d, w, h < 0 ? -h : h, max_pixels);
  if (rc) return rc;
  if (w > INT32_MAX || h > INT32_MAX || !known(b)) return refuse(b, header);
  b->w = (int)w;
  b->h = (int)(h < 0 ? -h : h);
  b->at = le(p + 10, 4);
  if ((rc = read_masks(b))) return rc;
  int apart = header == USUAL && (b->compression == FIELDS || b->compression == ALPHA_FIELDS) ? 12 : 0;
  read_colours(b, FILE_HEADER + header + (size_t)apart, core ? 3 : 4, core ? 0 : le(p + 46, 4));
  return SP_OK;
}

/* ---- pixels ---- */
static uint8_t *row_of(const bmp *b, uint8_t *rgb, int y) {
  return rgb + (size_t)(b->top_down ? y : b->h - 1 - y) * (size_t)b->w * 3;
}

static void from_mask(uint32_t v, const uint32_t masks[3], uint8_t *rgb) {
  for (int c = 0; c < 3; c++) {
    uint32_t m = masks[c];
    int low = m ? __builtin_ctz(m) : 0;
    uint64_t most = m >> low, value = (v & m) >> low;
    rgb[c] = (uint8_t)(most ? value * 255 / most : 0);
  }
}

static void unpack(const bmp *b, const uint8_t *from, uint8_t *rgb) {
  for (int x = 0; x < b->w; x++, rgb += 3) {
    size_t i = (size_t)x;
    if (b->bits == 24) rgb[0] = from[3 * i + 2], rgb[1] = from[3 * i + 1], rgb[2] = from[3 * i];
    else if (b->bits >= 16) from_mask(le(from + i * (size_t)b->bits / 8, b->bits / 8), b->masks, rgb);
    else {
      unsigned bit = (unsigned)x * (unsigned)b->bits, most = (1u << b->bits) - 1;
      unsigned index = from[bit / 8] >> (8 - (unsigned)b->bits - bit % 8) & most;
      memcpy(rgb, b->colours[index], 3);
    }
  }
}

static int plain_rows(const bmp *b, uint8_t *rgb) {
  size_t line = ((size_t)b->w * (size_t)b->bits + 31) / 32 * 4, last = ((size_t)b->w * (size_t)b->bits + 7) / 8;
  if (b->at > b->size || (b->size - b->at) / line < (size_t)b->h - 1 ||
      b->size - b->at - line * ((size_t)b->h - 1) < last)
    return too_short(b->d); /* the filling behind the last row may be missing */
  for (int y = 0; y < b->h; y++) unpack(b, b->p + b->at + line * (size_t)y, row_of(b, rgb, y));
  return SP_OK;
}

/* Where the next pixel of runs goes. What leaves its row is left out. */
typedef struct place {
  int x, y;
} place;

static void put(const bmp *b, uint8_t *rgb, place *at, unsigned index) {
  if (at->x < b->w && at->y < b->h) memcpy(row_of(b, rgb, at->y) + (size_t)at->x * 3, b->colours[index], 3);
  if (at->x < b->w) at->x++;
}

static unsigned index_of(const bmp *b, const uint8_t *from, unsigned i) {
  return b->bits == 8 ? from[i] : from[i / 2] >> (i % 2 ? 0 : 4) & 15;
}

static int run_lengths(const bmp *b, uint8_t *rgb) {
  const uint8_t *p = b->p + (b->at < b->size ? b->at : b->size), *end = b->p + b->size;
  place at = {0, 0};
  for (int i = 0; i < b->w; i++) memcpy(rgb + 3 * (size_t)i, b->colours[0], 3);
  for (int y = 1; y < b->h; y++) memcpy(rgb + (size_t)y * (size_t)b->w * 3, rgb, (size_t)b->w * 3);
  while (at.y < b->h) {
    if (end - p < 2) return at.y == b->h - 1 && at.x == b->w ? SP_OK : too_short(b->d);
    unsigned n = p[0], what = p[1];
    p += 2;
    if (n) {
      uint8_t twice[2] = {(uint8_t)what, (uint8_t)what};
      for (unsigned i = 0; i < n; i++) put(b, rgb, &at, b->bits == 8 ? what : index_of(b, twice, i % 2));
    } else if (what == 0) {
      at = (place){0, at.y + 1};
    } else if (what == 1) {
      return SP_OK;
    } else if (what == 2) {
      if (end - p < 2) return too_short(b->d);
      at.x = at.x + p[0] < b->w ? at.x + p[0] : b->w;
      at.y += p[1];
      p += 2;
    } else {
      size_t bytes = b->bits == 8 ? what : (what + 1) / 2, whole = bytes + bytes % 2;
      if ((size_t)(end - p) < bytes) return too_short(b->d);
      for (unsigned i = 0; i < what; i++) put(b, rgb, &at, index_of(b, p, i));
      p += (size_t)(end - p) < whole ? bytes : whole;
    }
  }
  return SP_OK;
}

int im_bmp(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  bmp b = {.d = d, .p = d->file.p, .size = d->size};
  int rc = read_header(&b, max_pixels);
  *w = b.w;
  *h = b.h;
  if (rc || !px) return rc;
  uint8_t *rgb = im_reserve(px, (size_t)b.w * (size_t)b.h * 3);
  if (!rgb) return im_say(d, SP_E_NOMEM, "no memory for %d x %d pixels", b.w, b.h);
  return b.compression == RLE8 || b.compression == RLE4 ? run_lengths(&b, rgb) : plain_rows(&b, rgb);
}
