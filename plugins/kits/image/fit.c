/* SPDX-License-Identifier: MIT
 * fit.c - a picture of any shape to a size of another shape: squashed, cut, or with a border.
 *
 * All sizes are whole pixels, found in whole numbers, so that an image and its mask are always cut alike. */
#include <string.h>

#include <spcore/abi.h>

#include "image.h"

/* a * b / c to the nearest, halves up; at least 1, at most `most`. */
static int share(int a, int b, int c, int most) {
  int64_t v = ((int64_t)a * b * 2 + c) / ((int64_t)c * 2);
  return v < 1 ? 1 : v > most ? most : (int)v;
}

im_geometry im_fit(int how, int sw, int sh, int dw, int dh) {
  im_geometry g = {0, 0, sw, sh, 0, 0, dw, dh};
  int wide = (int64_t)sw * dh > (int64_t)sh * dw; /* wider than what is wanted */
  if (how == IM_CROP && wide) g.sw = share(sh, dw, dh, sw);
  else if (how == IM_CROP) g.sh = share(sw, dh, dw, sh);
  else if (how == IM_PAD && wide) g.dh = share(dw, sh, sw, dh);
  else if (how == IM_PAD) g.dw = share(dh, sw, sh, dw);
  g.sx = (sw - g.sw) / 2;
  g.sy = (sh - g.sh) / 2;
  g.dx = (dw - g.dw) / 2;
  g.dy = (dh - g.dh) / 2;
  return g;
}

/* The rectangle that is taken moves to the front; `line` is the width it lies in. Rows only ever move towards the front. */
static void cut(uint8_t *px, size_t pixel, int line, const im_geometry *g) {
  if (g->sw == line && !g->sy) return;
  for (int y = 0; y < g->sh; y++)
    memmove(px + (size_t)y * (size_t)g->sw * pixel, px + ((size_t)(g->sy + y) * (size_t)line + (size_t)g->sx) * pixel,
            (size_t)g->sw * pixel);
}

/* What lies in front moves to its place in dw x dh pixels, the last row first; the rest is `fill`. */
static void spread(uint8_t *px, size_t pixel, int dw, int dh, const im_geometry *g, int fill) {
  size_t line = (size_t)dw * pixel, row = (size_t)g->dw * pixel, left = (size_t)g->dx * pixel;
  if (g->dw == dw && g->dh == dh) return;
  memset(px + (size_t)(g->dy + g->dh) * line, fill, (size_t)(dh - g->dy - g->dh) * line);
  for (int y = g->dh; y-- > 0;) {
    uint8_t *to = px + (size_t)(g->dy + y) * line;
    memmove(to + left, px + (size_t)y * row, row);
    memset(to + left + row, fill, line - left - row);
  }
  for (int y = 0; y < g->dh; y++) memset(px + (size_t)(g->dy + y) * line, fill, left);
  memset(px, fill, (size_t)g->dy * line);
}

int im_fit_rgb(im_scaler *s, int how, uint8_t *src, int sw, int sh, uint8_t *dst, int dw, int dh) {
  im_geometry g = im_fit(how, sw, sh, dw, dh);
  cut(src, 3, sw, &g);
  int rc = im_resize(s, src, g.sw, g.sh, dst, g.dw, g.dh);
  if (!rc) spread(dst, 3, dw, dh, &g, 0);
  return rc;
}

void im_fit_labels(int how, uint8_t *src, int sw, int sh, uint8_t *dst, int dw, int dh) {
  im_geometry g = im_fit(how, sw, sh, dw, dh);
  cut(src, 1, sw, &g);
  im_nearest(src, g.sw, g.sh, dst, g.dw, g.dh);
  spread(dst, 1, dw, dh, &g, 255);
}
