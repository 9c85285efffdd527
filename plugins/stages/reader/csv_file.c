/* SPDX-License-Identifier: MIT
 * csv_file.c - a file of comma-separated values as RFC 4180 has it, or with another separator: fields in quotes may
 * hold separators, line breaks and doubled quotes. */
#include "csv_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_FILE ((size_t)4 << 30)
#define DROP (1 << 22)    /* bytes that were read, whose memory goes back */
#define SNIFF (1 << 16)   /* bytes that show whether a file is such a one */
#define MAX_ROW (1 << 20) /* bytes of the fields of a row */

const char *const rd_separator_words[RD_SEPARATORS] = {"", "commas", "semicolons", "tabs", "bars", "blanks"};
static const char bytes[RD_SEPARATORS] = {0, ',', ';', '\t', '|', ' '};

enum { FIELD_ENDS, ROW_ENDS }; /* else a status */

/* Without a context nothing is said: then it is only looked whether a file is such a one. */
static int complain(rd_csv_file *c, const char *words) {
  if (!c->ctx) return SP_E_DATA;
  return c->ctx->host->fail(c->ctx, SP_E_DATA, "%s line %" PRId64 ", column %d: %s", c->path, c->next_line, c->n,
                            words);
}

static int failed(rd_csv_file *c, int status, const char *words) {
  return c->ctx ? c->ctx->host->fail(c->ctx, status, "%s: %s", c->path, words) : status;
}

void rd_csv_close(rd_csv_file *c) {
  text_free(&c->file);
  free(c->text);
  *c = (rd_csv_file){0};
}

const char *rd_csv_field(const rd_csv_file *c, int column) { return c->text + c->begin[column]; }

static int put(rd_csv_file *c, int byte) {
  if (c->used == c->cap) {
    size_t cap = c->cap ? c->cap * 2 : 4096;
    char *p = cap > MAX_ROW ? NULL : realloc(c->text, cap);
    if (!p)
      return complain(c, "the row is longer than 1 MiB, or memory is short; is a quote missing at a field's end?");
    c->text = p;
    c->cap = cap;
  }
  c->text[c->used++] = (char)byte;
  return SP_OK;
}

/* The next byte of the file, or EOF. */
static int next_byte(rd_csv_file *c) { return c->at < c->file.n ? (unsigned char)c->file.p[c->at++] : EOF; }

/* What a byte outside of quotes ends: FIELD_ENDS, ROW_ENDS, or -1: nothing. */
static int end_at(const rd_csv_file *c, int byte) {
  if (byte == '\n' || byte == EOF) return ROW_ENDS;
  return byte == bytes[c->separator] || (byte == '\t' && c->separator == RD_SEP_BLANK) ? FIELD_ENDS : -1;
}

/* Blanks that separate nothing. */
static void skip_blanks(rd_csv_file *c) {
  size_t n;
  while (c->at < c->file.n && c->file.p[c->at] != '\n' &&
         (c->separator == RD_SEP_BLANK || c->file.p[c->at] != bytes[c->separator]) &&
         (n = text_blank(c->file.p + c->at, c->file.n - c->at)))
    c->at += n;
}

/* A run of blanks is one, and those at the end of a row are none. */
static int end_of_blanks(rd_csv_file *c, int end) {
  if (end != FIELD_ENDS || c->separator != RD_SEP_BLANK) return end;
  skip_blanks(c);
  if (c->at < c->file.n && c->file.p[c->at] != '\n') return end;
  next_byte(c);
  return ROW_ENDS;
}

/* Behind the first quote. */
static int quoted(rd_csv_file *c) {
  int64_t lines = 0;
  for (int rc, byte;;) {
    if ((byte = next_byte(c)) == EOF)
      return complain(c, "the quote that begins here has no end; put one behind the field");
    if (byte == '"' && (byte = next_byte(c)) != '"') {
      if (byte != EOF) c->at--;
      if (c->separator != RD_SEP_BLANK) skip_blanks(c);
      byte = next_byte(c);
      int end = end_at(c, byte);
      if (end < 0) return complain(c, "text behind a closing quote; quotes within a field are doubled");
      c->next_line += lines;
      return end;
    }
    lines += byte == '\n';
    if ((rc = put(c, byte))) return rc;
  }
}

/* Without the blanks around it. */
static int plain(rd_csv_file *c, int byte) {
  size_t from = c->used;
  for (int rc, end;; byte = next_byte(c)) {
    if ((end = end_at(c, byte)) >= 0) {
      char *p = c->text + from, *behind = c->text + c->used;
      if (c->used == from) return end;
      text_trim(&p, &behind);
      memmove(c->text + from, p, (size_t)(behind - p));
      c->used = from + (size_t)(behind - p);
      return end;
    }
    if (byte == '"') return complain(c, "a quote within a field without quotes; put the field in quotes and double it");
    if ((rc = put(c, byte))) return rc;
  }
}

static int field(rd_csv_file *c) {
  if (c->n == RD_MAX_COLUMNS) return complain(c, "too many columns; at most 4096 are read");
  c->begin[c->n++] = c->used;
  skip_blanks(c);
  int byte = next_byte(c), end = byte == '"' ? quoted(c) : plain(c, byte), rc = SP_OK;
  if (end >= 0) rc = put(c, 0);
  return rc ? rc : end_of_blanks(c, end);
}

int rd_csv_next(rd_csv_file *c) {
  if (c->ctx && c->at - c->dropped > DROP) {
    text_drop(&c->file, c->dropped, c->at);
    c->dropped = c->at;
  }
  for (;;) {
    int byte = next_byte(c), end;
    c->n = 0;
    c->used = 0;
    if (byte == EOF) return SP_OK;
    c->at--;
    c->line = c->next_line;
    do end = field(c);
    while (end == FIELD_ENDS);
    if (end != ROW_ENDS) return end;
    c->next_line++;
    if (c->used > (size_t)c->n || byte == '"')
      return SP_OK; /* else only blanks and separators, as spreadsheets leave them */
  }
}

/* ---- what separates ---- */
static void rewind_to(rd_csv_file *c, size_t at, int64_t line) {
  c->at = at;
  c->next_line = line;
}

/* How many fields the first row and the second have with that separator; 0: there is no such row, or it cannot be
 * read. */
static void count_fields(rd_csv_file *c, int separator, int n[2]) {
  rd_csv_file quiet = *c;
  quiet.ctx = NULL;
  quiet.separator = separator;
  n[0] = n[1] = 0;
  for (int k = 0; k < 2 && !rd_csv_next(&quiet); k++) n[k] = quiet.n;
  c->text = quiet.text;
  c->cap = quiet.cap;
}

/* "sep=;" in the first line, as a spreadsheet writes it for itself. */
static int take_own_line(rd_csv_file *c) {
  if (c->file.n < 6 || strncasecmp(c->file.p, "sep=", 4) || c->file.p[5] != '\n') return RD_SEP_AUTO;
  for (int s = RD_SEP_COMMA; s < RD_SEPARATORS; s++)
    if (c->file.p[4] == bytes[s]) {
      rewind_to(c, 6, 2);
      return s;
    }
  return RD_SEP_AUTO;
}

/* The one by which both rows have equally many fields, two or more; where none does, that which makes the first row
 * longest. Blanks are in names, too: they count where nothing else does. */
static int find_separator(rd_csv_file *c) {
  static const char *const names[RD_SEPARATORS] = {"", "comma", "semicolon", "tab", "pipe", "blank"};
  int own = take_own_line(c), fits = 0, longest = 0, most = 1, other = 0;
  if (own) {
    c->separator = own;
    return SP_OK;
  }
  for (int s = RD_SEP_COMMA; s < RD_SEPARATORS; s++) {
    int n[2];
    count_fields(c, s, n);
    if (n[0] > most && s != RD_SEP_BLANK) longest = s, most = n[0];
    if (n[0] < 2 || (n[1] && n[1] != n[0]) || (s == RD_SEP_BLANK && longest)) continue;
    if (fits) other = s;
    else fits = s;
  }
  c->separator = fits ? fits : longest ? longest : RD_SEP_COMMA;
  if (!other || !c->ctx) return SP_OK;
  return c->ctx->host->fail(
      c->ctx, SP_E_DATA, "%s line 1: %s or %s may be between the columns: `separator = \"%s\"` or `separator = \"%s\"`",
      c->path, rd_separator_words[fits], rd_separator_words[other], names[fits], names[other]);
}

int rd_csv_open(sp_ctx *ctx, const char *path, int separator, rd_csv_file *c) {
  char why[TEXT_WHY];
  *c = (rd_csv_file){.ctx = ctx, .path = path, .next_line = 1, .separator = separator};
  int rc = text_read(path, MAX_FILE, ctx ? 0 : SNIFF, &c->file, why);
  if (rc) return failed(c, rc, why);
  if (!c->file.p) return failed(c, SP_E_IO, strerror(ENOENT));
  if (separator) {
    take_own_line(c);
    return SP_OK;
  }
  return find_separator(c);
}
