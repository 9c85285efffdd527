/* SPDX-License-Identifier: MIT
 * class_file.c - classes.txt: a class a line, perhaps with the colour that it has in masks: "road #804080" or
 * "road 128 64 128". With colours, lines named `void` are no classes: their colours are those of pixels without a
 * label. */
#include "masks.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kits/text/text.h"
#include "words.h"

#define MAX_BYTES (1 << 20)
enum { SLOTS = 4 * RD_MAX_COLOURS };

/* Open addressing: a colour lies at its hash or behind it. */
struct rd_palette {
  uint32_t colour[SLOTS]; /* 1 + 0xRRGGBB; 0: free */
  uint8_t label[SLOTS];
  int n;
};

/* ---- colours ---- */
static uint32_t *slot_of(rd_palette *p, uint32_t colour) {
  uint32_t at = colour * 2654435761u >> 20 & (SLOTS - 1);
  while (p->colour[at] && p->colour[at] != colour + 1) at = (at + 1) & (SLOTS - 1);
  return &p->colour[at];
}

int rd_add_colour(rd_palette **table, uint32_t colour, int label) {
  rd_palette *p = *table;
  if (!p && !(p = *table = calloc(1, sizeof *p))) return -1;
  uint32_t *slot = slot_of(p, colour);
  if (*slot) return 0;
  if (p->n == RD_MAX_COLOURS) return -1;
  p->n++;
  *slot = colour + 1;
  p->label[slot - p->colour] = (uint8_t)label;
  return 1;
}

size_t rd_map_colours(const rd_palette *p, const uint8_t *rgb, size_t n, uint8_t *labels) {
  uint32_t last = UINT32_MAX;
  uint8_t label = 0;
  for (size_t i = 0; i < n; i++, rgb += 3) {
    uint32_t colour = (uint32_t)rgb[0] << 16 | (uint32_t)rgb[1] << 8 | rgb[2];
    if (colour != last) {
      const uint32_t *slot = slot_of((rd_palette *)p, colour);
      if (!*slot) return i;
      label = p->label[slot - p->colour];
      last = colour;
    }
    labels[i] = label;
  }
  return n;
}

/* ---- lines ---- */
/* A line without the blanks around it; no 0 behind. */
typedef struct span {
  char *p, *end;
} span;

static int is_space(char c) { return (unsigned char)c <= ' '; }

static span trimmed(span s) {
  while (s.p < s.end && is_space(*s.p)) s.p++;
  while (s.end > s.p && is_space(s.end[-1])) s.end--;
  return s;
}

/* Takes the last word off the line. */
static span last_word(span *s) {
  span w = {s->end, s->end};
  while (w.p > s->p && !is_space(w.p[-1])) w.p--;
  s->end = w.p;
  *s = trimmed(*s);
  return w;
}

/* 0..255, else -1. */
static int byte_of(span w) {
  int v = 0;
  if (w.p == w.end || w.end - w.p > 3) return -1;
  for (; w.p < w.end; w.p++) {
    if (!isdigit((unsigned char)*w.p)) return -1;
    v = v * 10 + (*w.p - '0');
  }
  return v > 255 ? -1 : v;
}

static int64_t hex_of(span w) {
  char digits[7] = "";
  if (w.end - w.p != 7 || *w.p != '#') return -1;
  for (int i = 0; i < 6; i++)
    if (!isxdigit((unsigned char)(digits[i] = w.p[1 + i]))) return -1;
  return strtol(digits, NULL, 16);
}

/* Takes the colour off the line's end; -1: there is none. A line is never a colour alone. */
static int64_t take_colour(span *line) {
  span rest = *line;
  int64_t colour = hex_of(last_word(&rest));
  if (colour < 0) {
    rest = *line;
    int b = byte_of(last_word(&rest)), g = byte_of(last_word(&rest)), r = byte_of(last_word(&rest));
    if (r < 0 || g < 0 || b < 0) return -1;
    colour = (int64_t)r << 16 | g << 8 | b;
  }
  if (rest.p == rest.end) return -1;
  *line = rest;
  return colour;
}

/* ---- the file ---- */
typedef struct job {
  sp_ctx *ctx;
  const char *path;
  rd_class_file *out;
  int line, plain, coloured, voids; /* lines: the number of this one, and of the first of each kind; 0: none */
} job;

static int add_colour(job *j, uint32_t colour, int label) {
  int added = rd_add_colour(&j->out->palette, colour, label);
  if (added == 1) return SP_OK;
  if (!added)
    return j->ctx->host->fail(j->ctx, SP_E_DATA, "%s line %d: the colour #%06x has a class already; each has its own",
                              j->path, j->line, (unsigned)colour);
  return j->ctx->host->fail(j->ctx, SP_E_RANGE, "%s line %d: more than %d colours, or no memory for them", j->path,
                            j->line, RD_MAX_COLOURS);
}

/* One line that is not blank. The name goes to *to, behind a line break where it is not the first. */
static int take_line(job *j, span line, char **to) {
  int64_t colour = take_colour(&line);
  size_t n = (size_t)(line.end - line.p);
  int is_void = colour >= 0 && n == 4 && !memcmp(line.p, "void", 4);
  int *first = colour < 0 ? &j->plain : &j->coloured;
  if (!*first) *first = j->line;
  if (colour >= 0 && j->out->n < 256) { /* more are refused anyway where masks are read */
    int rc = add_colour(j, (uint32_t)colour, is_void ? RD_VOID : (int)j->out->n);
    if (rc) return rc;
  }
  if (is_void) return SP_OK;
  if (j->out->n++) *(*to)++ = '\n';
  memmove(*to, line.p, n);
  *to += n;
  return SP_OK;
}

static int take_lines(job *j) {
  char *to = j->out->names;
  int rc = SP_OK;
  for (char *p = j->out->names, *next; p && !rc; p = next) {
    next = strchr(p, '\n');
    span line = trimmed((span){p, next ? next : p + strlen(p)});
    if (next) next++;
    j->line++;
    if (line.p < line.end) rc = take_line(j, line, &to);
  }
  *to = 0;
  if (rc || !j->plain || !j->coloured) return rc;
  return j->ctx->host->fail(j->ctx, SP_E_DATA,
                            "%s: line %d has a colour, line %d has none; give one to each or to none", j->path,
                            j->coloured, j->plain);
}

/* *text: what classes.txt says, on the heap; NULL: there is no such file. */
static int read_text(sp_ctx *ctx, const char *path, char **text) {
  text_file file;
  char why[TEXT_WHY];
  int line = 1, rc = text_read(path, MAX_BYTES, 0, &file, why);
  if (rc) return ctx->host->fail(ctx, rc, "%s: %s", path, why);
  if (!file.p) return SP_OK;
  size_t wrong = text_wrong(file.p, file.n);
  for (size_t i = 0; i < wrong; i++) line += file.p[i] == '\n';
  if (wrong < file.n) {
    rc =
        ctx->host->fail(ctx, SP_E_DATA, "%s line %d: the byte 0x%02x is no UTF-8, of Latin-1 perhaps; save it as UTF-8",
                        path, line, (unsigned)(unsigned char)file.p[wrong]);
    text_free(&file);
    return rc;
  }
  file.p[text_plain_blanks(file.p, file.n)] = 0;
  *text = file.p;
  return SP_OK;
}

int rd_read_classes(sp_ctx *ctx, const char *dir, rd_class_file *out) {
  char path[4096];
  *out = (rd_class_file){0};
  if (snprintf(path, sizeof path, "%s/classes.txt", dir) >= (int)sizeof path) return SP_OK;
  int rc = read_text(ctx, path, &out->names);
  job j = {.ctx = ctx, .path = path, .out = out};
  if (!rc && out->names) rc = take_lines(&j);
  if (!rc && out->names && !out->n)
    rc = ctx->host->fail(ctx, SP_E_DATA, "%s names 0 classes; one a line is expected", path);
  if (!rc) return rc;
  free(out->names);
  free(out->palette);
  *out = (rd_class_file){0};
  return rc;
}

/* ---- of masks ---- */
static int check_number(sp_ctx *ctx, const rd_self *self, const char *dir, const rd_class_file *f) {
  int64_t given = self->p->classes;
  if (f->n > 255)
    return ctx->host->fail(ctx, SP_E_DATA, "%s/classes.txt names %" PRId64 " classes; masks have at most 255", dir,
                           f->n);
  if (!f->n && !given)
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "how many classes does %s have? Give `classes = N`, or put %s/classes.txt there, "
                           "one name a line",
                           self->p->path, dir);
  if (f->n && given && f->n != given)
    return ctx->host->fail(ctx, SP_E_INVALID, "classes = %" PRId64 ", but %s/classes.txt names %" PRId64, given, dir,
                           f->n);
  return SP_OK;
}

static int take_usual(sp_ctx *ctx, const rd_self *self, const char *dir, const char *usual, rd_class_file *f) {
  f->n = 1;
  for (const char *p = usual; (p = strchr(p, '\n')); p++) f->n++;
  if (!(f->names = strdup(usual))) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the names of the classes");
  if (self->p->classes && self->p->classes != f->n)
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "classes = %" PRId64 ", but without %s/classes.txt there are %" PRId64
                           ", which are usual; put one there, one name a line",
                           self->p->classes, dir, f->n);
  return SP_OK;
}

/* The folder of val_path may have a classes.txt, but no other classes. */
static int check_val(sp_ctx *ctx, const rd_self *self, const rd_class_file *f) {
  rd_class_file other;
  int rc = rd_read_classes(ctx, self->p->val_path, &other),
      equal = !other.names || !f->names || !strcmp(other.names, f->names);
  free(other.names);
  free(other.palette);
  if (rc || equal) return rc;
  return ctx->host->fail(ctx, SP_E_DATA,
                         "%s/classes.txt and %s/classes.txt name other classes; give both the same lines",
                         self->p->path, self->p->val_path);
}

int rd_settle_masks(sp_ctx *ctx, rd_self *self, const char *dir, const char *usual) {
  rd_class_file f;
  int rc = rd_read_classes(ctx, dir, &f);
  if (rc) return rc;
  if (!f.names && usual) rc = take_usual(ctx, self, dir, usual, &f);
  if (!rc) rc = rd_read_values(ctx, self, &f);
  char a[256], b[256];
  if (!rc && f.names && !usual && rd_find_alike(f.names, a, b))
    ctx->host->log(
        ctx, SP_LOG_INFO,
        "%s/classes.txt: the classes %s and %s differ by case, blanks or accents alone; if they are one, give their "
        "values to one, with mask_values",
        dir, a, b);
  self->class_names = f.names;
  self->palette = f.palette;
  if (!rc) rc = check_number(ctx, self, dir, &f);
  if (!rc && *self->p->val_path) rc = check_val(ctx, self, &f);
  self->classes = f.n ? f.n : self->p->classes;
  return rc;
}
