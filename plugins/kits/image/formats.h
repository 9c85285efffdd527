/* SPDX-License-Identifier: MIT
 * formats.h - what the decoders of the single formats share. */
#ifndef SP_PLUGINS_IMAGE_FORMATS_H
#define SP_PLUGINS_IMAGE_FORMATS_H

#include <spcore/abi.h>

#include "image.h"

/* Sets d->why, returns status. */
int im_say(im_decoder *d, int status, const char *fmt, ...) SP_PRINTF(3, 4);

/* EXIF's orientation, 1..8; 1 where there is none, or what there is leads outside of the file. */
int im_jpeg_orientation(const uint8_t *p, size_t size);
int im_png_orientation(const uint8_t *p, size_t size);
int im_webp_orientation(const uint8_t *p, size_t size);

/* What d->file holds, as RGB, not turned; px NULL: the header alone. im_png with `labels`: as im_labels. im_tiff sets
 * d->orientation. Damage that changes no pixel goes to d->note. SP_E_UNSUPPORTED: the build has no library for it. */
int im_jpeg(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h);
int im_png(im_decoder *d, int64_t max_pixels, im_buf *px, int labels, int *w, int *h);
int im_bmp(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h);
int im_gif(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h);
int im_pnm(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h);
int im_webp(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h);
int im_tiff(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h);

/* Turns what was decoded into px by d->orientation, unless d->as_stored. */
int im_turn(im_decoder *d, im_buf *px, int *w, int *h, int channels);

#endif
