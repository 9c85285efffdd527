/* SPDX-License-Identifier: MIT
 * image_files.c - image files for the tests. */
#include "image_files.h"

#include <check.h>
#include <ftw.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <turbojpeg.h>
#ifdef HAVE_WEBP
#include <webp/encode.h>
#endif

char if_dir[256];

const char *if_path(const char *name) {
  static char ring[4][512];
  static int at;
  char *s = ring[at++ % 4];
  snprintf(s, sizeof ring[0], "%s/%s", if_dir, name);
  return s;
}

void if_begin(void) {
  const char *tmp = getenv("TMPDIR");
  snprintf(if_dir, sizeof if_dir, "%s/spcore-images-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  ck_assert_ptr_nonnull(mkdtemp(if_dir));
  ck_assert_int_eq(mkdir(if_path("images"), 0777), 0);
  ck_assert_int_eq(mkdir(if_path("masks"), 0777), 0);
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *ftw) {
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

void if_end(void) { nftw(if_dir, drop, 16, FTW_DEPTH | FTW_PHYS); }

void if_put(const char *name, const void *bytes, size_t n) {
  FILE *f = fopen(if_path(name), "wb");
  ck_assert_ptr_nonnull(f);
  ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
  ck_assert_int_eq(fclose(f), 0);
}

void if_write(const char *name, if_bytes b) {
  if_put(name, b.p, b.n);
  free(b.p);
}

if_bytes if_read(const char *name) {
  FILE *f = fopen(if_path(name), "rb");
  ck_assert_msg(f != NULL, "%s is missing", name);
  if_bytes b = {malloc(1 << 22), 0};
  ck_assert_ptr_nonnull(b.p);
  b.n = fread(b.p, 1, 1 << 22, f);
  fclose(f);
  return b;
}

/* ---- PNG ---- */
static void grow(png_structp png, png_bytep from, size_t n) {
  if_bytes *b = png_get_io_ptr(png);
  b->p = realloc(b->p, b->n + n);
  ck_assert_ptr_nonnull(b->p);
  memcpy(b->p + b->n, from, n);
  b->n += n;
}

static void flushed(png_structp png) { (void)png; }

static int channels_of(int colour) {
  int base = colour & PNG_COLOR_MASK_COLOR && colour != PNG_COLOR_TYPE_PALETTE ? 3 : 1;
  return base + !!(colour & PNG_COLOR_MASK_ALPHA);
}

if_bytes if_png(const uint16_t *samples, int w, int h, int colour, int depth, int interlaced) {
  if_bytes b = {NULL, 0};
  size_t line = (size_t)(w * channels_of(colour));
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
  png_infop info = png_create_info_struct(png);
  uint8_t *px = malloc(line * 2 * (size_t)h), **rows = calloc((size_t)h, sizeof *rows);
  ck_assert(png && info && px && rows);
  png_set_write_fn(png, &b, grow, flushed);
  png_set_IHDR(png, info, (png_uint_32)w, (png_uint_32)h, depth, colour, interlaced ? PNG_INTERLACE_ADAM7 : 0, 0, 0);
  if (colour == PNG_COLOR_TYPE_PALETTE) {
    png_color palette[256];
    png_byte clear[2] = {0, 128};
    for (int i = 0; i < 256; i++) palette[i] = (png_color){(png_byte)i, (png_byte)(255 - i), (png_byte)(i * 7)};
    png_set_PLTE(png, info, palette, 1 << depth);
    png_set_tRNS(png, info, clear, 2, NULL);
  }
  png_write_info(png, info);
  png_set_packing(png);
  for (int y = 0; y < h; y++) {
    rows[y] = px + (size_t)y * line * 2;
    for (size_t x = 0; x < line; x++) {
      uint16_t v = samples[(size_t)y * line + x];
      if (depth == 16) rows[y][2 * x] = (uint8_t)(v >> 8), rows[y][2 * x + 1] = (uint8_t)v;
      else rows[y][x] = (uint8_t)v;
    }
  }
  png_write_image(png, rows);
  png_write_end(png, NULL);
  png_destroy_write_struct(&png, &info);
  free(rows);
  free(px);
  return b;
}

uint16_t *if_wide(const uint8_t *v, size_t n) {
  uint16_t *w = malloc(n * sizeof *w);
  ck_assert_ptr_nonnull(w);
  for (size_t i = 0; i < n; i++) w[i] = v[i];
  return w;
}

/* ---- JPEG ---- */
if_bytes if_jpeg(const uint8_t *rgb, int w, int h, int grey) {
  unsigned char *out = NULL;
  unsigned long n = 0;
  tjhandle tj = tjInitCompress();
  ck_assert_int_eq(tjCompress2(tj, rgb, w, 0, h, TJPF_RGB, &out, &n, grey ? TJSAMP_GRAY : TJSAMP_420, 85, 0), 0);
  tjDestroy(tj);
  if_bytes b = {malloc(n), n};
  ck_assert_ptr_nonnull(b.p);
  memcpy(b.p, out, n);
  tjFree(out);
  return b;
}

if_bytes if_cmyk_jpeg(const uint8_t *inks, int w, int h) {
  unsigned char *out = NULL;
  unsigned long n = 0;
  tjhandle tj = tjInitCompress();
  ck_assert_int_eq(tjCompress2(tj, inks, w, 0, h, TJPF_CMYK, &out, &n, TJSAMP_444, 100, 0), 0);
  tjDestroy(tj);
  if_bytes b = {malloc(n), n};
  ck_assert_ptr_nonnull(b.p);
  memcpy(b.p, out, n);
  tjFree(out);
  return b;
}

static void put(uint8_t *p, unsigned v, int bytes, int big) {
  for (int k = 0; k < bytes; k++) p[big ? bytes - 1 - k : k] = (uint8_t)(v >> 8 * k);
}

#ifdef HAVE_WEBP
if_bytes if_webp(const uint8_t *rgb, int w, int h) {
  uint8_t *out = NULL;
  size_t n = WebPEncodeLosslessRGB(rgb, w, h, w * 3, &out);
  ck_assert_uint_gt(n, 0);
  if_bytes b = {malloc(n), n};
  ck_assert_ptr_nonnull(b.p);
  memcpy(b.p, out, n);
  WebPFree(out);
  return b;
}
#endif

/* One strip behind the directory. */
if_bytes if_tiff(const uint8_t *rgb, int w, int h, int orientation) {
  enum { ENTRIES = 10, BITS = 10 + ENTRIES * 12 + 4, PIXELS = BITS + 6 };
  const unsigned n = (unsigned)(w * h * 3), entries[ENTRIES][4] = {/* tag, type, count, value */
                                                                   {256, 4, 1, (unsigned)w},
                                                                   {257, 4, 1, (unsigned)h},
                                                                   {258, 3, 3, BITS},
                                                                   {259, 3, 1, 1},
                                                                   {262, 3, 1, 2},
                                                                   {273, 4, 1, PIXELS},
                                                                   {274, 3, 1, (unsigned)orientation},
                                                                   {277, 3, 1, 3},
                                                                   {278, 4, 1, (unsigned)h},
                                                                   {279, 4, 1, n}};
  if_bytes b = {calloc(1, PIXELS + n), PIXELS + n};
  ck_assert_ptr_nonnull(b.p);
  memcpy(b.p, "II*\0\10\0\0\0", 8);
  put(b.p + 8, ENTRIES, 2, 0);
  for (int k = 0; k < ENTRIES; k++) {
    uint8_t *e = b.p + 10 + k * 12;
    put(e, entries[k][0], 2, 0);
    put(e + 2, entries[k][1], 2, 0);
    put(e + 4, entries[k][2], 4, 0);
    put(e + 8, entries[k][3], 4, 0);
  }
  for (int k = 0; k < 3; k++) put(b.p + BITS + 2 * k, 8, 2, 0);
  memcpy(b.p + PIXELS, rgb, n);
  return b;
}

/* ---- EXIF ---- */

void if_exif(uint8_t exif[IF_EXIF], int orientation, int big) {
  memset(exif, 0, IF_EXIF);
  memcpy(exif, big ? "MM\0*" : "II*\0", 4);
  put(exif + 4, 8, 4, big);       /* where the directory is */
  put(exif + 8, 1, 2, big);       /* its entries */
  put(exif + 10, 0x0112, 2, big); /* orientation, */
  put(exif + 12, 3, 2, big);      /* a short, */
  put(exif + 14, 1, 4, big);      /* one of them */
  put(exif + 18, (unsigned)orientation, 2, big);
}

/* n bytes into b, at `at`. */
static void insert(if_bytes *b, size_t at, const void *bytes, size_t n) {
  b->p = realloc(b->p, b->n + n);
  ck_assert_ptr_nonnull(b->p);
  memmove(b->p + at + n, b->p + at, b->n - at);
  memcpy(b->p + at, bytes, n);
  b->n += n;
}

/* JPEG: as the first segment. PNG: behind the header, with its checksum. WebP: at the end. */
if_bytes if_with_exif(if_bytes b, const uint8_t *exif, size_t n) {
  uint8_t head[10] = {0xFF, 0xE1}, tail[4], *chunk;
  if (b.p[0] == 0xFF) {
    put(head + 2, (unsigned)n + 8, 2, 1);
    memcpy(head + 4, "Exif\0", 6);
    insert(&b, 2, exif, n);
    insert(&b, 2, head, 10);
    return b;
  }
  if (b.p[0] == 'R') {
    memcpy(head, "EXIF", 4);
    put(head + 4, (unsigned)n, 4, 0);
    insert(&b, b.n, head, 8);
    insert(&b, b.n, exif, n);
    if (n % 2) insert(&b, b.n, "", 1);
    put(b.p + 4, (unsigned)b.n - 8, 4, 0);
    return b;
  }
  put(head, (unsigned)n, 4, 1);
  memcpy(head + 4, "eXIf", 4);
  insert(&b, 33, "\0\0\0", 4);
  insert(&b, 33, exif, n);
  insert(&b, 33, head, 8);
  chunk = b.p + 33;
  unsigned crc = ~0u;
  for (size_t i = 4; i < n + 8; i++) {
    crc ^= chunk[i];
    for (int k = 0; k < 8; k++) crc = crc & 1 ? 0xedb88320u ^ crc >> 1 : crc >> 1;
  }
  put(tail, ~crc, 4, 1);
  memcpy(chunk + 8 + n, tail, 4);
  return b;
}

uint8_t *if_picture(int w, int h, unsigned seed) {
  uint8_t *rgb = malloc((size_t)w * (size_t)h * 3), *p = rgb;
  unsigned r = seed * 2654435761u + 1;
  ck_assert_ptr_nonnull(rgb);
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
      r = r * 1664525u + 1013904223u;
      *p++ = (uint8_t)(x * 255 / w);
      *p++ = (uint8_t)(y * 255 / h);
      *p++ = (uint8_t)(r >> 24);
    }
  return rgb;
}

void if_pair(const char *stem, int w, int h, int jpeg) {
  char name[128];
  uint8_t *rgb = if_picture(w, h, (unsigned)stem[0]);
  uint16_t *v = if_wide(rgb, (size_t)w * (size_t)h * 3);
  snprintf(name, sizeof name, "images/%s.%s", stem, jpeg ? "jpg" : "png");
  if_write(name, jpeg ? if_jpeg(rgb, w, h, 0) : if_png(v, w, h, PNG_COLOR_TYPE_RGB, 8, 0));
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) v[y * w + x] = (uint16_t)((x / 2 + y) % 5);
  snprintf(name, sizeof name, "masks/%s.png", stem);
  if_write(name, if_png(v, w, h, PNG_COLOR_TYPE_PALETTE, 8, 0));
  free(v);
  free(rgb);
}
