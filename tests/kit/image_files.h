/* SPDX-License-Identifier: MIT
 * image_files.h - image files for the tests, in a folder that goes away: any kind of PNG, and JPEG. */
#ifndef SP_TESTS_IMAGE_FILES_H
#define SP_TESTS_IMAGE_FILES_H

#include <stddef.h>
#include <stdint.h>

extern char if_dir[256]; /* set by if_begin */

void if_begin(void);                   /* makes the folder, with images/ and masks/ in it */
void if_end(void);                     /* removes it and all that is in it */
const char *if_path(const char *name); /* dir/name; the last four results stay valid */

/* A file held in memory. */
typedef struct if_bytes {
  uint8_t *p;
  size_t n;
} if_bytes;

/* samples: what the PNG's rows hold, before packing: h rows of w * channels values of `depth` bits, one in each
 * uint16_t. colour: PNG_COLOR_TYPE_*. */
if_bytes if_png(const uint16_t *samples, int w, int h, int colour, int depth, int interlaced);
if_bytes if_jpeg(const uint8_t *rgb, int w, int h, int grey);
#ifdef HAVE_WEBP
if_bytes if_webp(const uint8_t *rgb, int w, int h); /* lossless */
#endif
if_bytes if_tiff(const uint8_t *rgb, int w, int h, int orientation); /* as plain as can be */
if_bytes if_cmyk_jpeg(const uint8_t *inks, int w, int h);            /* YCCK, inks as they are stored: 255 is none */
/* EXIF that says the orientation, in either order of bytes; 26 bytes. */
enum { IF_EXIF = 26 };
void if_exif(uint8_t exif[IF_EXIF], int orientation, int big);
/* The JPEG, PNG or WebP file with it; frees b. */
if_bytes if_with_exif(if_bytes b, const uint8_t *exif, size_t n);
void if_put(const char *name, const void *bytes, size_t n);
void if_write(const char *name, if_bytes b); /* and frees b */
if_bytes if_read(const char *name);

/* Smooth colours with some noise, h rows of w RGB triples; the same for the same seed. */
uint8_t *if_picture(int w, int h, unsigned seed);
uint16_t *if_wide(const uint8_t *v, size_t n);
/* A picture images/STEM.jpg|png and its mask masks/STEM.png of labels (x / 2 + y) % 5. */
void if_pair(const char *stem, int w, int h, int jpeg);

#endif
