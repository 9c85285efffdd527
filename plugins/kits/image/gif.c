/* SPDX-License-Identifier: MIT
 * gif.c - the first picture of a GIF file through giflib, where the build has it. As Pillow has it: where the picture
 * leaves some of the screen free, and where it is transparent, are the colour of its transparent index,
 * or of index 0. */
#include "formats.h"

#ifdef HAVE_GIF
#include <stdio.h>
#include <string.h>

#include <gif_lib.h>

typedef struct job {
  im_decoder *d;
  size_t at;
  GifFileType *gif;
  int clear; /* the transparent index; -1: there is none */
  int w, h;
} job;

static int take_bytes(GifFileType *gif, GifByteType *to, int n) {
  job *j = gif->UserData;
  size_t left = j->d->size - j->at, take = n < 0 ? 0 : (size_t)n < left ? (size_t)n : left;
  memcpy(to, (const uint8_t *)j->d->file.p + j->at, take);
  j->at += take;
  return (int)take;
}

static int broken(const job *j) {
  const char *words = GifErrorString(j->gif->Error);
  return im_say(j->d, IM_BROKEN, "giflib: %s", words ? words : "the file is damaged");
}

static void take_extension(job *j, int kind, const GifByteType *block) {
  GraphicsControlBlock control;
  if (kind != GRAPHICS_EXT_FUNC_CODE || !block || DGifExtensionToGCB(block[0], block + 1, &control) == GIF_ERROR)
    return;
  j->clear = control.TransparentColor;
}

/* Everything in front of the first picture. */
static int find_picture(job *j) {
  for (;;) {
    GifRecordType record;
    GifByteType *block;
    int kind;
    if (DGifGetRecordType(j->gif, &record) == GIF_ERROR) return broken(j);
    if (record == TERMINATE_RECORD_TYPE) return im_say(j->d, IM_BROKEN, "a GIF file without a picture");
    if (record == IMAGE_DESC_RECORD_TYPE) return DGifGetImageDesc(j->gif) == GIF_ERROR ? broken(j) : SP_OK;
    if (record != EXTENSION_RECORD_TYPE) continue;
    if (DGifGetExtension(j->gif, &kind, &block) == GIF_ERROR) return broken(j);
    take_extension(j, kind, block);
    while (block)
      if (DGifGetExtensionNext(j->gif, &block) == GIF_ERROR) return broken(j);
  }
}

/* Is another picture behind this one? */
static int has_more(job *j) {
  for (;;) {
    GifRecordType record;
    GifByteType *block;
    int kind;
    if (DGifGetRecordType(j->gif, &record) == GIF_ERROR || record == TERMINATE_RECORD_TYPE) return 0;
    if (record == IMAGE_DESC_RECORD_TYPE) return 1;
    if (record != EXTENSION_RECORD_TYPE) continue;
    if (DGifGetExtension(j->gif, &kind, &block) == GIF_ERROR) return 0;
    while (block)
      if (DGifGetExtensionNext(j->gif, &block) == GIF_ERROR) return 0;
  }
}

/* The row of the picture that comes k-th in the file. */
static int row_of(const GifImageDesc *i, int k) {
  static const int first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
  if (!i->Interlace) return k;
  for (int pass = 0; pass < 4; pass++) {
    int rows = i->Height > first[pass] ? (i->Height - first[pass] + step[pass] - 1) / step[pass] : 0;
    if (k < rows) return first[pass] + k * step[pass];
    k -= rows;
  }
  return 0;
}

static int read_rows(job *j, uint8_t *rgb) {
  const GifImageDesc *i = &j->gif->Image;
  const ColorMapObject *map = i->ColorMap ? i->ColorMap : j->gif->SColorMap;
  size_t n = (size_t)j->w * (size_t)j->h;
  uint8_t *indices = im_reserve(&j->d->spare, n);
  if (!indices) return im_say(j->d, SP_E_NOMEM, "no memory for %d x %d pixels", j->w, j->h);
  memset(indices, j->clear >= 0 ? j->clear : 0, n);
  for (int k = 0; k < i->Height; k++) {
    uint8_t *row = indices + (size_t)(i->Top + row_of(i, k)) * (size_t)j->w + (size_t)i->Left;
    if (DGifGetLine(j->gif, row, i->Width) == GIF_ERROR) return broken(j);
  }
  for (size_t k = 0; k < n; k++, rgb += 3) {
    static const GifColorType black;
    uint8_t v = indices[k];
    GifColorType grey = {v, v, v}, c = !map ? grey : v < map->ColorCount ? map->Colors[v] : black;
    rgb[0] = c.Red, rgb[1] = c.Green, rgb[2] = c.Blue;
  }
  return SP_OK;
}

/* The screen, which a picture that is larger enlarges. */
static int run(job *j, int64_t max_pixels, im_buf *px) {
  const GifImageDesc *i = &j->gif->Image;
  int rc = find_picture(j);
  if (rc) return rc;
  if (i->Width < 1 || i->Height < 1) return im_say(j->d, IM_BROKEN, "a picture of %d x %d pixels", i->Width, i->Height);
  j->w = i->Left + i->Width > j->gif->SWidth ? i->Left + i->Width : j->gif->SWidth;
  j->h = i->Top + i->Height > j->gif->SHeight ? i->Top + i->Height : j->gif->SHeight;
  if ((rc = im_check_pixels(j->d, j->w, j->h, max_pixels)) || !px) return rc;
  uint8_t *rgb = im_reserve(px, (size_t)j->w * (size_t)j->h * 3);
  if (!rgb) return im_say(j->d, SP_E_NOMEM, "no memory for %d x %d pixels", j->w, j->h);
  rc = read_rows(j, rgb);
  if (!rc && has_more(j)) snprintf(j->d->lost, sizeof j->d->lost, "several pictures, of which the first is read");
  return rc;
}

int im_gif(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  job j = {.d = d, .clear = -1};
  int why = 0, rc = IM_BROKEN;
  j.gif = DGifOpen(&j, take_bytes, &why);
  if (!j.gif) return im_say(d, rc, "giflib: %s", GifErrorString(why) ? GifErrorString(why) : "the file is damaged");
  rc = run(&j, max_pixels, px);
  DGifCloseFile(j.gif, &why);
  *w = j.w;
  *h = j.h;
  return rc;
}

#else

int im_gif(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  (void)max_pixels, (void)px, (void)w, (void)h;
  return im_say(d, SP_E_UNSUPPORTED,
                "it is GIF, and this spcore was built without giflib; install that (Debian: libgif-dev), configure "
                "and build again");
}

#endif
