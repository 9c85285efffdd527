/* SPDX-License-Identifier: MIT
 * sheet.c - where everything lies on a contact sheet, and the drawing of it. */
#include "sheet.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../kits/image/image.h"
#include "../../kits/ramp.h"
#include "font.h"
#include "text.h"

#define MARGIN 16
#define CELL_GAP 14     /* between columns */
#define ORIGINAL_GAP 28 /* after that of the originals */
#define MASK_GAP 4      /* between picture and mask */
#define ROW_GAP 16
#define TEXT_GAP 6   /* between a picture and its text */
#define FRAME 1      /* around a picture */
#define MIN_CHARS 18 /* of a line, however small the pictures are */
#define SWATCH CS_GLYPH_H

static const uint8_t paper[3] = {255, 255, 255}, ink[3] = {32, 32, 36}, grey[3] = {96, 96, 104},
                     line[3] = {200, 200, 206};

/* ---- layout ---- */
static int letter_w(const cs_layout *l) { return CS_ADVANCE * l->text; }
static int line_h(const cs_layout *l) { return CS_LINE * l->text; }
static int framed(int pixels, int zoom) { return pixels * zoom + 2 * FRAME; }

static void set_cell(const cs_layout *l, cs_kind *k) {
  int one = k->w ? framed(k->w, l->zoom) : 0;
  int least = (k->chars > MIN_CHARS ? k->chars : MIN_CHARS) * letter_w(l);
  int w = one + (k->beside + (k->masks && l->overlay <= 0)) * (MASK_GAP + one);
  k->cell_w = w > least ? w : least;
  k->chars = k->cell_w / letter_w(l);
  k->text_y = k->h ? framed(k->h, l->zoom) + TEXT_GAP : 0;
}

void cs_set_cells(cs_layout *l) {
  set_cell(l, &l->original);
  set_cell(l, &l->rest);
}

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t cell_h(const cs_layout *l, const cs_kind *k) { return k->text_y + (int64_t)k->lines * line_h(l); }

static int header_chars(const cs_layout *l, int scale) {
  return (int)(l->width - 2 * MARGIN) / (CS_ADVANCE * l->text * scale);
}

/* The heading's end: a line break or the end. */
static const char *end_of_line(const char *s) {
  const char *end = strchr(s, '\n');
  return end ? end : s + strlen(s);
}

/* Title and legend from the top, drawn where there is a canvas. Returns where they end. */
static int64_t header(const cs_canvas *c, const cs_layout *l);

int cs_lay_out(cs_layout *l) {
  l->height = -1;
  l->width =
      2 * MARGIN + l->original.cell_w + ORIGINAL_GAP + (int64_t)l->columns * (l->rest.cell_w + CELL_GAP) - CELL_GAP;
  if (l->width > CS_MAX_SIDE) return 0;
  int64_t row = max64(cell_h(l, &l->original), cell_h(l, &l->rest)) + ROW_GAP;
  int64_t top = header(NULL, l);
  int64_t heads = l->bare ? 0 : line_h(l) + TEXT_GAP;
  l->height = top + heads + row * l->rows - ROW_GAP + MARGIN;
  if (l->height > CS_MAX_SIDE || l->width * l->height > CS_MAX_PIXELS) return 0;
  l->heads_y = (int)top;
  l->rows_y = (int)(top + heads);
  l->row_h = (int)row;
  return 1;
}

static int column_x(const cs_layout *l, int column) {
  if (column < 0) return MARGIN;
  return MARGIN + l->original.cell_w + ORIGINAL_GAP + column * (l->rest.cell_w + CELL_GAP);
}

static int row_y(const cs_layout *l, int row) { return l->rows_y + row * l->row_h; }

/* ---- drawing ---- */
static void box(const cs_canvas *c, int x, int y, int w, int h, const uint8_t colour[3]) {
  int right = x + w < c->w ? x + w : c->w, bottom = y + h < c->h ? y + h : c->h;
  for (int j = y < 0 ? 0 : y; j < bottom; j++) {
    uint8_t *p = c->rgb + ((size_t)j * (size_t)c->w + (size_t)x) * 3;
    for (int i = x; i < right; i++, p += 3) memcpy(p, colour, 3);
  }
}

static void frame(const cs_canvas *c, int x, int y, int w, int h) {
  box(c, x, y, w, FRAME, line);
  box(c, x, y + h - FRAME, w, FRAME, line);
  box(c, x, y, FRAME, h, line);
  box(c, x + w - FRAME, y, FRAME, h, line);
}

static void glyph(const cs_canvas *c, int x, int y, int scale, uint32_t code, const uint8_t colour[3]) {
  for (int j = 0; j < CS_GLYPH_H; j++)
    for (int i = 0; i < CS_GLYPH_W; i++)
      if (cs_glyph(code, i, j)) box(c, x + i * scale, y + j * scale, scale, scale, colour);
}

/* The first `bytes` of a text, in one line; returns how many letters that were. */
static int letters(const cs_canvas *c, int x, int y, int scale, const char *s, size_t bytes, const uint8_t colour[3]) {
  const char *end = s + bytes;
  int n = 0;
  for (; s < end; n++) {
    uint32_t code = cs_next(&s);
    if (c) glyph(c, x + n * CS_ADVANCE * scale, y, scale, code, colour);
  }
  return n;
}

/* Names of labels with their colours, as many in a line as fit; 255 at the end. */
static int64_t legend(const cs_canvas *c, const cs_layout *l, int64_t y) {
  const char *s = l->legend;
  int x = MARGIN, right = (int)l->width - MARGIN, room = header_chars(l, 1) - 3, label = 0;
  for (int last = 0; !last; label++) {
    last = !*s || label == 255;
    const char *name = last ? "no label" : s;
    size_t n = (size_t)(end_of_line(name) - name);
    const char *cut = name;
    if (!last) s += n + (s[n] == '\n');
    size_t fits = cs_take_line(&cut, room);
    if (fits < n) n = fits;
    int w = (SWATCH + 4) * l->text + letters(NULL, 0, 0, l->text, name, n, ink) * letter_w(l);
    if (x > MARGIN && x + w > right) {
      x = MARGIN;
      y += line_h(l) + 2 * l->text;
    }
    if (c) {
      uint8_t colour[3];
      if (label || last || l->overlay <= 0) im_label_colour(last ? 255 : (uint8_t)label, colour);
      else memcpy(colour, paper, sizeof colour); /* it covers nothing */
      box(c, x, (int)y, SWATCH * l->text, SWATCH * l->text, line);
      box(c, x + FRAME, (int)y + FRAME, SWATCH * l->text - 2 * FRAME, SWATCH * l->text - 2 * FRAME, colour);
      letters(c, x + (SWATCH + 4) * l->text, (int)y + l->text, l->text, name, n, ink);
    }
    x += w + 3 * letter_w(l);
  }
  return y + line_h(l);
}

/* The colours of numbers between the words of their ends, and what has no value. */
static int64_t ramp(const cs_canvas *c, const cs_layout *l, int64_t y) {
  enum { BAR = 160 };
  const char *lo = l->ramp, *hi = end_of_line(lo);
  size_t n = (size_t)(hi - lo);
  int x = MARGIN, side = SWATCH * l->text;
  if (!c) return y + line_h(l);
  hi += *hi != 0;
  x += (letters(c, x, (int)y + l->text, l->text, lo, n, ink) + 1) * letter_w(l);
  for (int i = 0; i < BAR * l->text; i++) {
    uint8_t colour[3];
    ramp_colour((float)i / (float)(BAR * l->text - 1), 0, 0, colour);
    box(c, x + i, (int)y, 1, side, colour);
  }
  x += BAR * l->text + letter_w(l);
  x += (letters(c, x, (int)y + l->text, l->text, hi, strlen(hi), ink) + 3) * letter_w(l);
  for (int i = 0; i < side * side; i++) {
    uint8_t colour[3];
    ramp_colour(NAN, (size_t)(i % side), (size_t)(i / side), colour);
    box(c, x + i % side, (int)y + i / side, 1, 1, colour);
  }
  letters(c, x + side + 4 * l->text, (int)y + l->text, l->text, "no value", 8, ink);
  return y + line_h(l);
}

static int64_t header(const cs_canvas *c, const cs_layout *l) {
  int64_t y = MARGIN;
  const char *s = l->title, *heading = end_of_line(s);
  while (*s) {
    int scale = s < heading ? 2 : 1;
    const char *begin = s;
    size_t n = cs_take_line(&s, header_chars(l, scale));
    if (c) letters(c, MARGIN, (int)y, l->text * scale, begin, n, scale > 1 ? ink : grey);
    y += (int64_t)line_h(l) * scale;
    if (y > CS_MAX_SIDE) return y; /* a title without end */
  }
  if (*l->title) y += TEXT_GAP;
  if (*l->legend) y = legend(c, l, y) + TEXT_GAP;
  if (*l->ramp) y = ramp(c, l, y) + TEXT_GAP;
  return y > MARGIN ? y + TEXT_GAP : y;
}

void cs_begin(const cs_canvas *c, const cs_layout *l) {
  memset(c->rgb, paper[0], (size_t)c->w * (size_t)c->h * 3);
  header(c, l);
  for (int column = -1; !l->bare && column < l->columns; column++) {
    char head[32];
    if (column < 0) snprintf(head, sizeof head, l->original.w ? "original" : "sample");
    else snprintf(head, sizeof head, "epoch %d", column + 1);
    letters(c, column_x(l, column), l->heads_y, l->text, head, strlen(head), grey);
  }
}

/* A picture of h x w at its place, whose pixel i is colour_of(of, i). */
typedef struct cs_pixels {
  const uint8_t *v;
  const float *floats;   /* from 0 to 1, instead of v; NULL: none */
  size_t pixel, channel; /* steps from one to the next; channel 0: grey, or labels */
  int labels;
  const uint8_t *over; /* labels whose colours cover a part of it, and all of it where an area ends; NULL: none */
  double part;
  size_t w, h; /* of `over` */
} cs_pixels;

static int is_edge(const cs_pixels *p, size_t i) {
  size_t x = i % p->w, y = i / p->w;
  const uint8_t *v = p->over + i;
  return *v && ((x && v[-1] != *v) || (x + 1 < p->w && v[1] != *v) || (y && *(v - p->w) != *v) ||
                (y + 1 < p->h && v[p->w] != *v));
}

static void colour_of(const cs_pixels *p, size_t i, uint8_t rgb[3]) {
  const uint8_t *v = p->floats ? NULL : p->v + i * p->pixel;
  if (p->labels) im_label_colour(*v, rgb);
  else if (p->floats)
    for (size_t k = 0; k < 3; k++) {
      float x = p->floats[i * p->pixel + k * p->channel], whole = rintf(x * 255.0f);
      rgb[k] = whole > 0.0f ? (uint8_t)(whole < 255.0f ? whole : 255.0f) : 0; /* NaN is black */
    }
  else
    for (size_t k = 0; k < 3; k++) rgb[k] = v[k * p->channel];
  if (!p->over || !p->over[i]) return; /* its black would darken all that is background */
  uint8_t tint[3];
  double part = is_edge(p, i) ? 1 : p->part;
  im_label_colour(p->over[i], tint);
  for (size_t k = 0; k < 3; k++) rgb[k] = (uint8_t)(rgb[k] + part * (tint[k] - rgb[k]) + 0.5);
}

static int put_picture(const cs_canvas *c, int x, int y, int zoom, const cs_pixels *p, int h, int w) {
  frame(c, x, y, framed(w, zoom), framed(h, zoom));
  for (int j = 0; j < h; j++)
    for (int i = 0; i < w; i++) {
      uint8_t rgb[3];
      colour_of(p, (size_t)j * (size_t)w + (size_t)i, rgb);
      box(c, x + FRAME + i * zoom, y + FRAME + j * zoom, zoom, zoom, rgb);
    }
  return x + framed(w, zoom) + MASK_GAP;
}

/* Sample n; over: labels that cover it, or NULL. Returns where the next picture begins. */
static int put_image(const cs_canvas *c, const cs_layout *l, const cs_kind *k, int x, int y, const sp_tensor *image,
                     const sp_tensor *over, int64_t n) {
  size_t pixels = (size_t)k->h * (size_t)k->w, channels = (size_t)image->spec.shape[1];
  int last = image->spec.order == SP_CHANNELS_LAST;
  int is_float = image->spec.dtype == SP_F32;
  size_t first = (size_t)n * pixels * channels;
  cs_pixels p = {.v = is_float ? NULL : (const uint8_t *)image->data + first,
                 .floats = is_float ? (const float *)image->data + first : NULL,
                 .pixel = last ? channels : 1,
                 .channel = channels < 3 ? 0
                            : last       ? 1
                                         : pixels,
                 .over = over ? (const uint8_t *)over->data + (size_t)n * pixels : NULL,
                 .part = l->overlay,
                 .w = (size_t)k->w,
                 .h = (size_t)k->h};
  return put_picture(c, x, y, l->zoom, &p, k->h, k->w);
}

void cs_draw_pictures(const cs_canvas *c, const cs_layout *l, int row, int column, cs_pictures from, int64_t n) {
  const cs_kind *k = column < 0 ? &l->original : &l->rest;
  int x = column_x(l, column), y = row_y(l, row);
  size_t pixels = (size_t)k->h * (size_t)k->w;
  int over = from.image && l->overlay > 0;
  box(c, x, y, k->cell_w, l->row_h - ROW_GAP, paper);
  if (from.image) x = put_image(c, l, k, x, y, from.image, over ? from.mask : NULL, n);
  if (from.second) x = put_image(c, l, k, x, y, from.second, NULL, n);
  if (from.meaning) x = put_image(c, l, k, x, y, from.meaning, NULL, n);
  if (from.mask && !over) {
    cs_pixels p = {.v = (const uint8_t *)from.mask->data + (size_t)n * pixels, .pixel = 1, .labels = 1};
    put_picture(c, x, y, l->zoom, &p, k->h, k->w);
  }
}

int cs_draw_text(const cs_canvas *c, const cs_layout *l, int row, int column, int at, const char *text) {
  const cs_kind *k = column < 0 ? &l->original : &l->rest;
  int x = column_x(l, column);
  for (; *text && at < k->lines; at++) {
    int y = row_y(l, row) + k->text_y + at * line_h(l);
    const char *begin = text;
    size_t n = cs_take_line(&text, k->chars);
    int cut = *text && at + 1 == k->lines;
    if (cut) { /* one letter less, for the ellipsis */
      const char *again = begin;
      size_t less = cs_take_line(&again, k->chars - 1);
      n = less < n ? less : n;
    }
    int done = letters(c, x, y, l->text, begin, n, column < 0 && at == 0 ? ink : grey);
    if (cut) glyph(c, x + done * letter_w(l), y, l->text, 0x2026, grey);
  }
  return at;
}
