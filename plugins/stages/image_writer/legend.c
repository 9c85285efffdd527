/* SPDX-License-Identifier: MIT
 * legend.c - the classes of a picture below it: a square of each one's colour, and its name. */
#include "image_writer.h"

#include <string.h>

#include "../contact_sheet/font.h"
#include "../contact_sheet/text.h"

#define GAP 4          /* around a line, and between square and name, in pixels of a letter */
#define MAX_LETTERS 64 /* of a name */

/* Where the next entry goes. */
typedef struct pen {
  uint8_t *rgb; /* NULL: it is only measured */
  int w, zoom, x, y;
} pen;

static void box(const pen *p, int x, int y, int w, int h, const uint8_t colour[3]) {
  for (int j = y; j < y + h; j++)
    for (int i = x; i < x + w && i < p->w; i++) memcpy(p->rgb + ((size_t)j * (size_t)p->w + (size_t)i) * 3, colour, 3);
}

static void glyph(const pen *p, int x, int y, uint32_t code) {
  static const uint8_t ink[3] = {0, 0, 0};
  for (int j = 0; j < CS_GLYPH_H; j++)
    for (int i = 0; i < CS_GLYPH_W; i++)
      if (cs_glyph(code, i, j)) box(p, x + i * p->zoom, y + j * p->zoom, p->zoom, p->zoom, ink);
}

static int count_letters(const char *name, const char *end) {
  int n = 0;
  for (; name < end && n < MAX_LETTERS; n++) cs_next(&name);
  return n;
}

/* An entry that does not fit behind the last one begins a line; what is wider than the picture is cut. */
static void put_entry(pen *p, const char *name, const char *end, int label, const iw_worker *of) {
  int z = p->zoom, letters = count_letters(name, end), w = (CS_GLYPH_H + GAP + letters * CS_ADVANCE) * z;
  if (p->x > GAP * z && p->x + w > p->w) {
    p->x = GAP * z;
    p->y += (CS_GLYPH_H + GAP) * z;
  }
  if (p->rgb) {
    uint8_t colour[3];
    im_label_colour((uint8_t)label, colour);
    box(p, p->x, p->y, CS_GLYPH_H * z, CS_GLYPH_H * z, colour);
    int64_t n = of->tinted[label];
    for (int i = 0; n && i < 3; i++) colour[i] = (uint8_t)((of->tint[label][i] + (uint64_t)n / 2) / (uint64_t)n);
    box(p, p->x + z, p->y + z, (CS_GLYPH_H - 2) * z, (CS_GLYPH_H - 2) * z, colour);
    for (int i = 0; i < letters; i++) glyph(p, p->x + (CS_GLYPH_H + GAP + i * CS_ADVANCE) * z, p->y, cs_next(&name));
  }
  p->x += w + 2 * GAP * z;
}

int iw_legend(uint8_t *rgb, int w, const iw_params *of_params, const iw_worker *of) {
  const char *names = of_params->legend;
  pen p = {rgb, w, w / 320 < 1 ? 1 : w / 320, 0, 0};
  int label = 0, any = 0;
  p.x = p.y = GAP * p.zoom;
  for (; *names && label < 255; label++) {
    const char *end = names + strcspn(names, "\n");
    if (label != of_params->background && of->pixels[label]) {
      put_entry(&p, names, end, label, of);
      any = 1;
    }
    names = end + (*end == '\n');
  }
  return any ? p.y + (CS_GLYPH_H + GAP) * p.zoom : 0;
}
