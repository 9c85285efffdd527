/* SPDX-License-Identifier: MIT
 * pnm.c - PBM, PGM and PPM files, as bytes and as text. No packaged library that others use reads them. Values are
 * scaled to 255 as Pillow does; of grey with more than 255 steps the high byte is taken of 16 bits, as of PNG. */
#include <ctype.h>
#include <math.h>

#include "formats.h"

typedef struct pnm {
  im_decoder *d;
  const uint8_t *p, *end;
  int kind; /* 1 to 6 */
  int w, h, most;
  int as_numbers;
  uint16_t *wide; /* numbers of 16 bits go there as they are; NULL: bytes are wanted */
} pnm;

static int is_text(const pnm *n) { return n->kind <= 3; }
static int is_bits(const pnm *n) { return n->kind == 1 || n->kind == 4; }
static int channels_of(const pnm *n) { return n->kind == 3 || n->kind == 6 ? 3 : 1; }

static int too_short(im_decoder *d) { return im_say(d, IM_BROKEN, "the file ends too early"); }

/* ---- numbers in text ---- */
/* Comments reach from # to the end of a line. */
static void skip(pnm *n) {
  while (n->p < n->end && (isspace(*n->p) || *n->p == '#')) {
    if (*n->p++ == '#')
      while (n->p < n->end && *n->p != '\n' && *n->p != '\r') n->p++;
  }
}

/* Returns -1 where there is no number, or one of more than 9 digits. */
static int64_t number(pnm *n) {
  int64_t v = 0;
  int digits = 0;
  skip(n);
  for (; n->p < n->end && isdigit(*n->p) && digits < 10; digits++) v = v * 10 + (*n->p++ - '0');
  return digits > 0 && digits < 10 ? v : -1;
}

static int read_header(pnm *n, int64_t max_pixels) {
  int64_t w = number(n), h = number(n), most = is_bits(n) ? 1 : number(n);
  if (w < 0 || h < 0 || most < 0) return im_say(n->d, IM_BROKEN, "its header is damaged");
  int rc = im_check_pixels(n->d, w, h, max_pixels);
  if (rc) return rc;
  if (most < 1 || most > 65535)
    return im_say(n->d, IM_BROKEN, "its header says values up to %d; 1 to 65535 are read", (int)most);
  n->w = (int)w;
  n->h = (int)h;
  n->most = (int)most;
  if (most > 255 && !n->as_numbers) im_lost_bits(n->d, 16);
  if (n->p < n->end && !is_text(n)) n->p++; /* one blank */
  return SP_OK;
}

/* ---- values ---- */
static uint8_t scaled(const pnm *n, int v) {
  if (is_bits(n)) return v ? 0 : 255; /* 1 is black */
  if (n->most == 255) return (uint8_t)v;
  if (n->most > 255 && channels_of(n) == 1) return (uint8_t)((int)rint((double)v / n->most * 65535) >> 8);
  return (uint8_t)rint((double)v / n->most * 255);
}

static void put(pnm *n, uint8_t **rgb, int v) {
  if (n->wide) {
    *n->wide++ = (uint16_t)(v < n->most ? v : n->most);
    return;
  }
  uint8_t byte = scaled(n, v < n->most ? v : n->most);
  for (int c = channels_of(n); c <= 3; c += channels_of(n)) *(*rgb)++ = byte;
}

static int from_text(pnm *n, uint8_t *rgb) {
  size_t values = (size_t)n->w * (size_t)n->h * (size_t)channels_of(n);
  for (size_t i = 0; i < values; i++) {
    skip(n);
    if (n->p == n->end) return too_short(n->d);
    int64_t v = is_bits(n) ? *n->p++ - '0' : number(n);
    if (v < 0 || v > n->most) return im_say(n->d, IM_BROKEN, "a value is no number up to %d", n->most);
    put(n, &rgb, (int)v);
  }
  return SP_OK;
}

static int from_bytes(pnm *n, uint8_t *rgb) {
  size_t each = n->most > 255 ? 2 : 1, values = (size_t)n->w * (size_t)channels_of(n);
  size_t line = is_bits(n) ? ((size_t)n->w + 7) / 8 : values * each;
  if ((size_t)(n->end - n->p) / line < (size_t)n->h) return too_short(n->d);
  for (int y = 0; y < n->h; y++, n->p += line)
    for (size_t i = 0; i < values; i++)
      put(n, &rgb,
          is_bits(n)  ? n->p[i / 8] >> (7 - i % 8) & 1
          : each == 2 ? n->p[2 * i] << 8 | n->p[2 * i + 1]
                      : n->p[i]);
  return SP_OK;
}

int im_pnm(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  const uint8_t *p = d->file.p;
  pnm n = {.d = d, .p = p + 2, .end = p + d->size, .kind = p[1] - '0'};
  int rc = read_header(&n, max_pixels);
  *w = n.w;
  *h = n.h;
  d->is_grey = channels_of(&n) == 1;
  if (rc || !px) return rc;
  uint8_t *rgb = im_reserve(px, (size_t)n.w * (size_t)n.h * 3);
  if (!rgb) return im_say(d, SP_E_NOMEM, "no memory for %d x %d pixels", n.w, n.h);
  return is_text(&n) ? from_text(&n, rgb) : from_bytes(&n, rgb);
}

int im_pnm_numbers(im_decoder *d, int64_t max_pixels, im_buf *px, im_pixels *out) {
  const uint8_t *p = d->file.p;
  pnm n = {.d = d, .p = p + 2, .end = p + d->size, .kind = p[1] - '0', .as_numbers = 1};
  int rc = read_header(&n, max_pixels);
  if (rc || n.most < 256) return rc;
  *out = (im_pixels){
      .w = n.w, .h = n.h, .channels = channels_of(&n), .type = IM_U16, .colour = channels_of(&n) == 3, .picture = 1};
  if (!px) return SP_OK;
  n.wide = im_reserve(px, (size_t)n.w * (size_t)n.h * (size_t)channels_of(&n) * sizeof *n.wide);
  if (!n.wide) return im_say(d, SP_E_NOMEM, "no memory for %d x %d pixels", n.w, n.h);
  return is_text(&n) ? from_text(&n, NULL) : from_bytes(&n, NULL);
}
