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

const char *im_fitting_wrong(const im_fitting *f, int dw, int dh) {
  if (!f->shorter) return NULL;
  if (f->how != IM_SQUASH) return "'shorter' and 'resize' are two ways to fit a picture; leave one out";
  if (dw > f->shorter || dh > f->shorter)
    return "'size' is cut out of a picture whose shorter side is 'shorter', which must not be less";
  return NULL;
}

/* torchvision's Resize of one number and CenterCrop: the longer side drops its fraction,
 * a half goes to the even pixel. */
static int64_t longer(int64_t shorter, int side, int other) { return side <= other ? shorter : shorter * side / other; }
static int64_t centre(int64_t d) { return d / 2 + (d % 2 && d / 2 % 2); }

im_geometry im_fit(const im_fitting *f, int sw, int sh, int dw, int dh) {
  im_geometry g = {0, 0, sw, sh, 0, 0, dw, dh, 0, 0, 0, 0};
  int wide = (int64_t)sw * dh > (int64_t)sh * dw; /* wider than what is wanted */
  if (f->how == IM_CROP && wide) g.sw = share(sh, dw, dh, sw);
  else if (f->how == IM_CROP) g.sh = share(sw, dh, dw, sh);
  else if (f->how == IM_PAD && wide) g.dh = share(dw, sh, sw, dh);
  else if (f->how == IM_PAD) g.dw = share(dh, sw, sh, dw);
  g.sx = (sw - g.sw) / 2;
  g.sy = (sh - g.sh) / 2;
  g.dx = (dw - g.dw) / 2;
  g.dy = (dh - g.dh) / 2;
  g.rw = f->shorter ? longer(f->shorter, sw, sh) : g.dw;
  g.rh = f->shorter ? longer(f->shorter, sh, sw) : g.dh;
  g.ox = centre(g.rw - g.dw);
  g.oy = centre(g.rh - g.dh);
  return g;
}

/* The rectangle that is taken moves to the front; `line` is the width it lies in.
 * Rows only ever move towards the front. */
void im_cut(void *from, size_t pixel, int line, const im_geometry *g) {
  uint8_t *px = from;
  if (g->sw == line && !g->sy) return;
  for (int y = 0; y < g->sh; y++)
    memmove(px + (size_t)y * (size_t)g->sw * pixel, px + ((size_t)(g->sy + y) * (size_t)line + (size_t)g->sx) * pixel,
            (size_t)g->sw * pixel);
}

/* What lies in front moves to its place in dw x dh pixels, the last row first; the rest is `fill`. */
void im_spread(void *made, size_t pixel, int dw, int dh, const im_geometry *g, int fill) {
  uint8_t *px = made;
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

int im_fit_rgb(im_scaler *s, const im_fitting *f, uint8_t *src, int sw, int sh, uint8_t *dst, int dw, int dh) {
  im_geometry g = im_fit(f, sw, sh, dw, dh);
  im_cut(src, 3, sw, &g);
  int rc = im_resize(s, src, &g, f->interpolation, dst);
  if (!rc) im_spread(dst, 3, dw, dh, &g, 0);
  return rc;
}

void im_fit_labels(const im_fitting *f, uint8_t *src, int sw, int sh, uint8_t *dst, int dw, int dh) {
  im_geometry g = im_fit(f, sw, sh, dw, dh);
  im_cut(src, 1, sw, &g);
  im_nearest(src, &g, dst);
  im_spread(dst, 1, dw, dh, &g, 255);
}

void im_fit_values(const im_fitting *f, float *src, int sw, int sh, float *dst, int dw, int dh) {
  im_geometry g = im_fit(f, sw, sh, dw, dh);
  im_cut(src, sizeof *src, sw, &g);
  im_nearest_floats(src, &g, dst);
  im_spread(dst, sizeof *dst, dw, dh, &g, 255);
}

void im_brightness(const uint8_t *rgb, size_t pixels, uint8_t *grey) {
  enum { RED = 19595, GREEN = 38470, BLUE = 7471, HALF = 1 << 15 }; /* of 65536, by ITU-R 601 */
  for (; pixels-- > 0; rgb += 3) *grey++ = (uint8_t)((rgb[0] * RED + rgb[1] * GREEN + rgb[2] * BLUE + HALF) >> 16);
}
