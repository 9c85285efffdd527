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

/* What d->file holds, as RGB, not turned; px NULL: the header alone. im_png with `labels`: as im_labels. im_tiff
 * sets d->orientation. im_png_numbers and im_tiff_numbers: as im_numbers, not turned; where a TIFF has other
 * colours than RGB out->channels is 0, and nothing is read. Damage that changes no pixel goes to d->note.
 * SP_E_UNSUPPORTED: the build has no library for it. */
int im_jpeg(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h);
int im_png(im_decoder *d, int64_t max_pixels, im_buf *px, int labels, int *w, int *h);
int im_bmp(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h);
int im_gif(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h);
int im_pnm(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h);
int im_webp(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h);
int im_tiff(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h);
int im_png_numbers(im_decoder *d, int64_t max_pixels, im_buf *px, im_pixels *out);
int im_tiff_numbers(im_decoder *d, int64_t max_pixels, im_buf *px, im_pixels *out);
/* The same, of more than 8 bits; others become RGB: out->channels is 0 then. px NULL: the header alone. */
int im_pnm_numbers(im_decoder *d, int64_t max_pixels, im_buf *px, im_pixels *out);
/* Their headers alone, but for the size: as im_about; *out is not touched where a file becomes RGB bytes. */
void im_png_about(const im_decoder *d, im_pixels *out);
int im_tiff_about(im_decoder *d, im_pixels *out);
/* The header alone: what d->file holds behind *at. */
int im_npy_raw(im_decoder *d, struct im_raw *out, size_t *at);

/* Notes in d->lost that numbers of so many bits became bytes. */
void im_lost_bits(im_decoder *d, int bits);

/* Turns what was decoded into px by d->orientation, unless d->as_stored; pixel: bytes of one. */
int im_turn(im_decoder *d, im_buf *px, int *w, int *h, int pixel);

int im_is_png(const im_decoder *d);
int im_is_tiff(const im_decoder *d);
int im_is_npy(const im_decoder *d);

#endif
