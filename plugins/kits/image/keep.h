/* SPDX-License-Identifier: MIT
 * keep.h - images as numbers that keep what their files hold: 16 bits, floats, any number of channels; as floats in
 * memory, or as bytes where bytes of other than 1 or 3 channels are wanted. */
#ifndef SP_PLUGINS_IMAGE_KEEP_H
#define SP_PLUGINS_IMAGE_KEEP_H

#include <spcore/plugin.h>

#include "image.h"

enum { IM_AS_UINT8, IM_AS_UINT16, IM_AS_FLOAT32 };
#define IM_AS \
  { "uint8", "uint16", "float32", NULL } /* choices of a parameter */

/* What a script says of it. */
typedef struct im_keep_params {
  const char *range, *nodata, *fill; /* "" each: not given */
  int64_t channels;                  /* 0: RGB of bytes, else those of the first file */
  int32_t as;
} im_keep_params;

/* The rows of these parameters; `at` is the offset of the struct. */
#define IM_KEEP_ROWS(at)                                                                                               \
  {.name = "dtype",                                                                                                    \
   .type = SP_PARAM_CHOICE,                                                                                            \
   .offset = (at) + offsetof(im_keep_params, as),                                                                      \
   .idef = IM_AS_UINT8,                                                                                                \
   .choices = (const char *const[])IM_AS,                                                                              \
   .doc =                                                                                                              \
       "what images are: bytes; uint16: whole numbers to 65535, as float32, which has all of them; float32: numbers "  \
       "as files have them"},                                                                                          \
      {.name = "channels",                                                                                             \
       .type = SP_PARAM_INT,                                                                                           \
       .offset = (at) + offsetof(im_keep_params, channels),                                                            \
       .idef = 0,                                                                                                      \
       .imin = 0,                                                                                                      \
       .imax = IM_MOST_CHANNELS,                                                                                       \
       .doc = "of images; 1: brightness; another number: files must have so many; 0: RGB, with uint16 and float32 as " \
              "many as the first file has"},                                                                           \
      {.name = "range",                                                                                                \
       .type = SP_PARAM_STRING,                                                                                        \
       .offset = (at) + offsetof(im_keep_params, range),                                                               \
       .doc =                                                                                                          \
           "\"LO,HI\": with uint16 and float32 the numbers of files that become 0 and 1; those outside are below 0 "   \
           "and above 1; not given: they stay as they are"},                                                           \
      {.name = "nodata",                                                                                               \
       .type = SP_PARAM_STRING,                                                                                        \
       .offset = (at) + offsetof(im_keep_params, nodata),                                                              \
       .doc = "a number that stands for no data, as \"-9999\", or \"tag\": the one that a TIFF's GDAL tag says"},      \
  {                                                                                                                    \
    .name = "nodata_fill", .type = SP_PARAM_STRING, .offset = (at) + offsetof(im_keep_params, fill),                   \
    .doc = "the number that NaN, infinite ones and no data become; not given: the lower end of range, else 0"          \
  }

/* The same, read. Zero-initialised: RGB or grey bytes by im_rgb. */
typedef struct im_keep {
  int as, channels; /* channels: 0: not known before the first file */
  int tag, has_nodata;
  double nodata;
  float lo, by; /* (v - lo) * by */
  float fill;
} im_keep;

/* Reads the parameters. NULL, or what is wrong. */
const char *im_keep_of(const im_keep_params *p, im_keep *k, char words[256]);
/* Whether im_rgb does not give what is wanted. */
int im_keep_is_on(const im_keep *k);
/* Bytes of a number that comes out, and what it is. */
size_t im_keep_bytes(const im_keep *k);
sp_dtype im_keep_dtype(const im_keep *k);

/* What one file had. */
typedef struct im_kept {
  int of_file;                  /* channels that the file has, without alpha that was dropped */
  int w, h, channels, type;     /* channels: that come out; type: of the file's numbers, IM_U8 ... */
  uint64_t not_finite, no_data; /* numbers that were replaced */
  int says; /* the file says a number for no data that nobody asked for, `said`, and `having` numbers are it */
  double said;
  uint64_t having;
} im_kept;

/* The file in d as numbers in px, h rows of w pixels: bytes with IM_AS_UINT8, else floats, as they are in the file but
 * for what is replaced. raw is scratch. */
int im_keep_read(im_decoder *d, const im_keep *k, int64_t max_pixels, im_buf *raw, im_buf *px, im_kept *out);
/* px as im_keep_read gave it, which is changed, to dw x dh: resized, whole numbers with IM_AS_UINT16, then by range. */
int im_keep_fit(im_scaler *s, const im_keep *k, const im_fitting *f, void *px, const im_kept *is, void *dst, int dw,
                int dh);
/* A window, as im_resize. */
int im_keep_resize(im_scaler *s, const im_keep *k, const void *px, const im_geometry *g, int interpolation, void *dst);

/* Numbers to look at as RGB: the first three of `channels`, or the first as grey; lo becomes 0, hi
 * 255. These functions can't fail. */
void im_look_floats(const float *v, int channels, size_t pixels, float lo, float hi, uint8_t *rgb);
void im_look_bytes(const uint8_t *v, int channels, size_t pixels, uint8_t *rgb);

#endif
