/* SPDX-License-Identifier: MIT
 * scores.c - scores of classes enlarged row by row, and made probabilities.
 *
 * In float, without fused operations: of column k, v[k] = (1 - t) * above[k] + t * below[k]; then of pixel x,
 * (1 - u) * v[left] + u * v[right]. */
#include <math.h>

#include <spcore/abi.h>

#include "image.h"

/* Where pixel i lies among the scores, as PyTorch's align_corners = False has it: *at, or *u of the way to the next. */
static void find_place(const im_axis *a, int i, int *at, int *next, float *u) {
  float x = a->scale * ((float)i + 0.5f) + a->shift - 0.5f;
  if (x < (float)a->from) x = (float)a->from;
  *at = (int)x < a->to - 1 ? (int)x : a->to - 1;
  *next = *at < a->to - 1 ? *at + 1 : *at;
  *u = x - (float)*at;
  if (*u > 1) *u = 1;
}

/* Of `side` pixels `taken`, from `at` on, were made `scaled`, and of these `made`, from `origin` on, lie at `to`. */
static im_axis fitted(int side, int at, int taken, int64_t scaled, int64_t origin, int to, int made) {
  im_axis a = {(float)scaled / (float)taken, 0, to, to + made, 0, side};
  a.shift = (float)to - (float)origin - (float)at * a.scale;
  while (a.first < side && a.scale * ((float)a.first + 0.5f) + a.shift < (float)a.from) a.first++;
  while (a.last > a.first && a.scale * ((float)a.last - 0.5f) + a.shift > (float)a.to) a.last--;
  return a;
}

int im_enlarge_begin(im_enlarger *e, const im_scores *s, int dw, int dh, const im_geometry *g) {
  size_t columns = (size_t)dw, classes = (size_t)s->classes;
  e->s = *s;
  e->dw = dw;
  e->dh = dh;
  e->across = (im_axis){(float)s->w / (float)dw, 0, 0, s->w, 0, dw};
  e->down = (im_axis){(float)s->h / (float)dh, 0, 0, s->h, 0, dh};
  if (g) {
    e->across = fitted(dw, g->sx, g->sw, g->rw, g->ox, g->dx, g->dw);
    e->down = fitted(dh, g->sy, g->sh, g->rh, g->oy, g->dy, g->dh);
  }
  int *at = im_reserve(&e->places, columns * 2 * sizeof *at);
  float *u = im_reserve(&e->shares, columns * sizeof *u);
  if (!at || !u || !im_reserve(&e->blend, classes * (size_t)s->w * sizeof(float)) ||
      !im_reserve(&e->row, classes * columns * sizeof(float)))
    return SP_E_NOMEM;
  for (int i = 0; i < dw; i++) find_place(&e->across, i, &at[2 * i], &at[2 * i + 1], &u[i]);
  return SP_OK;
}

void im_enlarger_free(im_enlarger *e) {
  im_buf_free(&e->places);
  im_buf_free(&e->shares);
  im_buf_free(&e->blend);
  im_buf_free(&e->row);
}

/* [classes][w] between two rows of the scores. */
static void blend_rows(im_enlarger *e, int y) {
  const im_scores *s = &e->s;
  size_t w = (size_t)s->w, classes = (size_t)s->classes, column = s->channels_last ? classes : 1;
  int above, below;
  float t, *out = e->blend.p;
  find_place(&e->down, y, &above, &below, &t);
  for (size_t c = 0; c < classes; c++) {
    const float *plane = s->channels_last ? s->v + c : s->v + c * w * (size_t)s->h;
    const float *a = plane + (size_t)above * w * column, *b = plane + (size_t)below * w * column;
    for (size_t k = 0; k < w; k++) *out++ = (1 - t) * a[k * column] + t * b[k * column];
  }
}

float *im_enlarge_row(im_enlarger *e, int y) {
  const int *at = e->places.p;
  const float *u = e->shares.p, *v = e->blend.p;
  float *row = e->row.p, *out = row;
  blend_rows(e, y);
  for (int c = 0; c < e->s.classes; c++, v += e->s.w, out += e->dw)
    for (int i = 0; i < e->dw; i++) out[i] = (1 - u[i]) * v[at[2 * i]] + u[i] * v[at[2 * i + 1]];
  return row;
}

void im_softmax(float *row, int classes, int w) {
  size_t line = (size_t)w;
  for (size_t i = 0; i < line; i++) {
    float most = row[i], sum = 0, *v = row + i;
    for (size_t c = 1; c < (size_t)classes; c++)
      if (v[c * line] > most) most = v[c * line];
    for (size_t c = 0; c < (size_t)classes; c++) sum += v[c * line] = expf(v[c * line] - most);
    for (size_t c = 0; c < (size_t)classes; c++) v[c * line] /= sum;
  }
}
