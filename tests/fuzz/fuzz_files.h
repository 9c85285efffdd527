/* SPDX-License-Identifier: MIT
 * fuzz_files.h - small .npy and TIFF files of numbers, made without a library. */
#ifndef SP_TESTS_FUZZ_FILES_H
#define SP_TESTS_FUZZ_FILES_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { FZ_NPY_HEAD = 128 };

/* A header, and that many bytes; returns the bytes of both. */
static inline size_t fz_npy(uint8_t *b, const char *descr, const char *shape, size_t bytes) {
  memcpy(b, "\x93NUMPY\1\0\x76\0", 10);
  int n = snprintf((char *)b + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
  memset(b + 10 + n, ' ', (size_t)(118 - n));
  b[FZ_NPY_HEAD - 1] = '\n';
  for (size_t i = 0; i < bytes; i++) b[FZ_NPY_HEAD + i] = (uint8_t)(i * 37);
  return FZ_NPY_HEAD + bytes;
}

/* form: of numbers, 1 without a sign, 2 with one, 3 floats; planar: samples of a pixel lie apart; tile: its side, 0:
 * there is one strip, or one a plane. */
typedef struct fz_tiff_of {
  int bits, form, channels, planar, tile;
} fz_tiff_of;

enum { FZ_TIFF_W = 9, FZ_TIFF_H = 8, FZ_TIFF_PARTS = 16, FZ_TIFF_BYTES = 8192 };

/* A picture of FZ_TIFF_W x FZ_TIFF_H, little-endian, with GDAL's tag for no data. */
static inline size_t fz_tiff(uint8_t *b, const fz_tiff_of *f) {
  enum { MOST_TAGS = 13, OFFSETS = 8 + 2 + 12 * MOST_TAGS + 4, COUNTS = OFFSETS + 4 * FZ_TIFF_PARTS };
  enum { DEPTHS = COUNTS + 4 * FZ_TIFF_PARTS, TEXT = DEPTHS + 8, DATA = TEXT + 8 };
  int w = f->tile ? f->tile : FZ_TIFF_W, h = f->tile ? f->tile : FZ_TIFF_H, planes = f->planar ? f->channels : 1;
  int each = (w * f->bits * (f->planar ? 1 : f->channels) + 7) / 8 * h, n_tags = 0;
  int parts = (FZ_TIFF_W + w - 1) / w * ((FZ_TIFF_H + h - 1) / h) * planes;
  const int tags[][4] = {{256, 4, 1, FZ_TIFF_W},
                         {257, 4, 1, FZ_TIFF_H},
                         {258, 3, f->channels, f->channels > 2 ? DEPTHS : f->bits | f->bits << 16},
                         {259, 3, 1, 1},
                         {262, 3, 1, 1},
                         {f->tile ? 0 : 273, 4, parts, parts > 1 ? OFFSETS : DATA},
                         {277, 3, 1, f->channels},
                         {f->tile ? 0 : 278, 4, 1, FZ_TIFF_H},
                         {f->tile ? 0 : 279, 4, parts, parts > 1 ? COUNTS : each},
                         {284, 3, 1, f->planar ? 2 : 1},
                         {f->tile ? 322 : 0, 4, 1, w},
                         {f->tile ? 323 : 0, 4, 1, h},
                         {f->tile ? 324 : 0, 4, parts, parts > 1 ? OFFSETS : DATA},
                         {f->tile ? 325 : 0, 4, parts, parts > 1 ? COUNTS : each},
                         {339, 3, 1, f->form},
                         {42113, 2, 5, TEXT}};
  memset(b, 0, DATA);
  memcpy(b, "II*\0\10", 5);
  for (size_t k = 0; k < sizeof tags / sizeof *tags; k++) {
    uint8_t *p = b + 10 + 12 * n_tags;
    n_tags += tags[k][0] > 0;
    memcpy(p, (const uint16_t[]){(uint16_t)tags[k][0], (uint16_t)tags[k][1]}, 4);
    memcpy(p + 4, &tags[k][2], 8);
  }
  b[8] = (uint8_t)n_tags;
  memset(b + 10 + 12 * n_tags, 0, 4);
  for (int k = 0; k < parts; k++) {
    memcpy(b + OFFSETS + 4 * k, &(const int32_t){DATA + k * each}, 4);
    memcpy(b + COUNTS + 4 * k, &each, 4);
  }
  for (int k = 0; k < f->channels; k++) memcpy(b + DEPTHS + 2 * k, &(const uint16_t){(uint16_t)f->bits}, 2);
  memcpy(b + TEXT, "-999", 5);
  for (int i = 0; i < parts * each; i++) b[DATA + i] = (uint8_t)(i * 37);
  return (size_t)(DATA + parts * each);
}

#endif
