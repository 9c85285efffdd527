/* SPDX-License-Identifier: MIT
 * csv_file.c - a file of comma-separated values as RFC 4180 has it: fields in quotes may hold commas, line breaks and
 * doubled quotes. */
#include "csv_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE ((size_t)4 << 30)
#define SNIFF (1 << 16)   /* bytes that show whether a file is such a one */
#define MAX_ROW (1 << 20) /* bytes of the fields of a row */

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

int rd_csv_open(sp_ctx *ctx, const char *path, rd_csv_file *c) {
  char why[TEXT_WHY];
  *c = (rd_csv_file){.ctx = ctx, .path = path, .next_line = 1};
  int rc = text_read(path, MAX_FILE, ctx ? 0 : SNIFF, &c->file, why);
  if (rc) return failed(c, rc, why);
  return c->file.p ? SP_OK : failed(c, SP_E_IO, strerror(ENOENT));
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
static int end_at(int byte) { return byte == ',' ? FIELD_ENDS : byte == '\n' || byte == EOF ? ROW_ENDS : -1; }

static void skip_blanks(rd_csv_file *c) {
  size_t n;
  while (c->at < c->file.n && c->file.p[c->at] != '\n' && (n = text_blank(c->file.p + c->at, c->file.n - c->at)))
    c->at += n;
}

/* Behind the first quote. */
static int quoted(rd_csv_file *c) {
  int64_t lines = 0;
  for (int rc, byte;;) {
    if ((byte = next_byte(c)) == EOF)
      return complain(c, "the quote that begins here has no end; put one behind the field");
    if (byte == '"' && (byte = next_byte(c)) != '"') {
      if (byte != EOF) c->at--;
      skip_blanks(c);
      byte = next_byte(c);
      int end = end_at(byte);
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
    if ((end = end_at(byte)) >= 0) {
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
  if (c->n == RD_MAX_COLUMNS) return complain(c, "too many columns; at most 256 are read");
  c->begin[c->n++] = c->used;
  skip_blanks(c);
  int byte = next_byte(c), end = byte == '"' ? quoted(c) : plain(c, byte), rc = SP_OK;
  if (end >= 0) rc = put(c, 0);
  return rc ? rc : end;
}

int rd_csv_next(rd_csv_file *c) {
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
      return SP_OK; /* else only blanks and commas, as spreadsheets leave them */
  }
}
