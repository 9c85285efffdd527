/* SPDX-License-Identifier: MIT
 * csv_file.c - a file of comma-separated values as RFC 4180 has it: fields in quotes may hold commas, line breaks and
 * doubled quotes; lines end in LF or CR LF; a UTF-8 byte order mark in front is skipped. */
#include "csv_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
  *c = (rd_csv_file){.ctx = ctx, .path = path, .next_line = 1};
  if (!(c->f = fopen(path, "re"))) return failed(c, SP_E_IO, strerror(errno));
  unsigned char mark[3] = {0};
  size_t n = fread(mark, 1, 3, c->f);
  if (n >= 2 && ((mark[0] == 0xFF && mark[1] == 0xFE) || (mark[0] == 0xFE && mark[1] == 0xFF)))
    return failed(c, SP_E_DATA, "this is UTF-16; save it as UTF-8");
  if (n < 3 || memcmp(mark, "\xEF\xBB\xBF", 3)) rewind(c->f);
  return SP_OK;
}

void rd_csv_close(rd_csv_file *c) {
  if (c->f) fclose(c->f);
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

/* What a byte outside of quotes ends: FIELD_ENDS, ROW_ENDS, or -1: nothing. Takes the LF behind a CR. */
static int end_at(rd_csv_file *c, int byte) {
  if (byte == ',') return FIELD_ENDS;
  if (byte == '\r') {
    int next = getc_unlocked(c->f);
    if (next == '\n' || next == EOF) return ROW_ENDS;
    ungetc(next, c->f);
  }
  return byte == '\n' || byte == EOF ? ROW_ENDS : -1;
}

/* Behind the first quote. */
static int quoted(rd_csv_file *c) {
  int64_t lines = 0;
  for (int rc, byte;;) {
    if ((byte = getc_unlocked(c->f)) == EOF)
      return complain(c, "the quote that begins here has no end; put one behind the field");
    if (byte == '"' && (byte = getc_unlocked(c->f)) != '"') {
      int end = end_at(c, byte);
      if (end < 0) return complain(c, "text behind a closing quote; quotes within a field are doubled");
      c->next_line += lines;
      return end;
    }
    if (!byte) return complain(c, "a byte 0: this is no text; save it as UTF-8");
    lines += byte == '\n';
    if ((rc = put(c, byte))) return rc;
  }
}

static int plain(rd_csv_file *c, int byte) {
  for (int rc, end;; byte = getc_unlocked(c->f)) {
    if ((end = end_at(c, byte)) >= 0) return end;
    if (byte == '"') return complain(c, "a quote within a field without quotes; put the field in quotes and double it");
    if (!byte) return complain(c, "a byte 0: this is no text; save it as UTF-8");
    if ((rc = put(c, byte))) return rc;
  }
}

static int field(rd_csv_file *c) {
  if (c->n == RD_MAX_COLUMNS) return complain(c, "too many columns; at most 256 are read");
  c->begin[c->n++] = c->used;
  int byte = getc_unlocked(c->f), end = byte == '"' ? quoted(c) : plain(c, byte), rc = SP_OK;
  if (end >= 0) rc = put(c, 0);
  return rc ? rc : end;
}

int rd_csv_next(rd_csv_file *c) {
  for (;;) {
    int byte = getc_unlocked(c->f), end;
    c->n = 0;
    c->used = 0;
    if (byte == EOF) return ferror(c->f) ? failed(c, SP_E_IO, "it cannot be read") : SP_OK;
    ungetc(byte, c->f);
    c->line = c->next_line;
    do end = field(c);
    while (end == FIELD_ENDS);
    if (end != ROW_ENDS) return end;
    c->next_line++;
    int blank = c->n == 1 && !*c->text && byte != '"';
    if (!blank) return SP_OK;
  }
}
