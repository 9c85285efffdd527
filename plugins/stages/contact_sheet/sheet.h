/* SPDX-License-Identifier: MIT
 * sheet.h - where everything lies on a contact sheet, and the drawing of it.
 *
 * Below title and legend, a row for each sample: its name and the original, then a cell for each column. A cell is a
 * picture, its mask beside it or over it where there are masks, and lines of text below. */
#ifndef CONTACT_SHEET_SHEET_H
#define CONTACT_SHEET_SHEET_H

#include <stdint.h>

#include <spcore/plugin.h>

#define CS_MAX_SIDE 16384       /* pixels of the sheet */
#define CS_MAX_PIXELS (1 << 26) /* 192 MiB of memory */

/* The pictures of one kind of column: the originals, or the rest. */
typedef struct cs_kind {
  int h, w, masks; /* of a picture; 0 x 0: there is none */
  int beside;      /* pictures beside the first, as large: the second image, what the sample means */
  int cell_w;      /* pixels of the sheet, see cs_set_cells */
  int chars;       /* of a line of text below it; before cs_set_cells: so many at least */
  int lines;       /* of text; for the caller to say */
  int text_y;      /* where that begins, from the top of the row */
} cs_kind;

typedef struct cs_layout {
  const char *title;  /* lines; the first one is a heading */
  const char *legend; /* names of labels, one a line from 0 on; "": no legend */
  const char *ramp;   /* what the darkest colour of a ramp is, a line break, what the lightest one is; "": no ramp */
  int rows, columns;  /* columns without that of the originals */
  int zoom, text;     /* pixels of the sheet for one of a picture, and of a letter */
  int bare;           /* columns have no heads, and names stand where originals would */
  double overlay;     /* how much of a pixel the colour of its label covers; 0: masks lie beside pictures */
  cs_kind original, rest;
  /* see cs_lay_out */
  int heads_y, rows_y, row_h;
  int64_t width, height;
} cs_layout;

typedef struct cs_canvas {
  uint8_t *rgb;
  int w, h;
} cs_canvas;

void cs_set_cells(cs_layout *l); /* cell_w and chars of both kinds */
/* Everything else, which needs the lines of both. 0: the sheet would be too large, as width and height (-1: not known)
 * say. */
int cs_lay_out(cs_layout *l);

/* The empty sheet: title, legend, heads of the columns. */
void cs_begin(const cs_canvas *c, const cs_layout *l);
/* What a cell shows, from left to right; NULL: none. */
typedef struct cs_pictures {
  const sp_tensor *image, *second, *meaning, *mask;
} cs_pictures;

/* Sample n of these to a cell: column -1 is that of the originals. What stood there is gone. */
void cs_draw_pictures(const cs_canvas *c, const cs_layout *l, int row, int column, cs_pictures from, int64_t n);
/* Text below them, from line `line` on; returns the line behind it. What does not fit ends in an ellipsis. */
int cs_draw_text(const cs_canvas *c, const cs_layout *l, int row, int column, int line, const char *text);

#endif
