/* SPDX-License-Identifier: MIT
 * csv_file.h - a file of values with commas, or what else programs write, between them, row by row. */
#ifndef SP_PLUGINS_READER_CSV_FILE_H
#define SP_PLUGINS_READER_CSV_FILE_H

#include <spcore/plugin.h>

#include "../../kits/text/text.h"

#define RD_MAX_COLUMNS 4096

/* What is between fields: those of the parameter `separator`, in its order; RD_SEP_BLANK: any run of blanks. */
enum { RD_SEP_AUTO, RD_SEP_COMMA, RD_SEP_SEMICOLON, RD_SEP_TAB, RD_SEP_PIPE, RD_SEP_BLANK, RD_SEPARATORS };
extern const char *const rd_separator_words[RD_SEPARATORS]; /* as messages call them */

typedef struct rd_csv_file {
  sp_ctx *ctx;
  const char *path;
  text_file file;
  int separator;           /* RD_SEP_COMMA ... */
  size_t at;               /* the next byte */
  size_t dropped;          /* bytes in front whose memory has gone back */
  int64_t line, next_line; /* where the row begins that was read last; behind it; from 1 */
  char *text;              /* its fields, each with a 0 */
  size_t used, cap;
  size_t begin[RD_MAX_COLUMNS]; /* of each field, in text */
  int n;                        /* fields */
} rd_csv_file;

/* Each fails with one line that names file, line and cure; without words where ctx is NULL. path stays the caller's.
 * separator: RD_SEP_AUTO: what the first two rows say. */
int rd_csv_open(sp_ctx *ctx, const char *path, int separator, rd_csv_file *c);
/* The next row that is not blank; c->n is 0 at the end of the file. */
int rd_csv_next(rd_csv_file *c);
const char *rd_csv_field(const rd_csv_file *c, int column); /* from 0 */
void rd_csv_close(rd_csv_file *c);

#endif
