/* SPDX-License-Identifier: MIT
 * csv_file.h - a file of comma-separated values, row by row. */
#ifndef SP_PLUGINS_READER_CSV_FILE_H
#define SP_PLUGINS_READER_CSV_FILE_H

#include <spcore/plugin.h>

#include "../../kits/text/text.h"

#define RD_MAX_COLUMNS 256

typedef struct rd_csv_file {
  sp_ctx *ctx;
  const char *path;
  text_file file;
  size_t at; /* the next byte */
  int64_t line, next_line; /* where the row begins that was read last; behind it; from 1 */
  char *text;              /* its fields, each with a 0 */
  size_t used, cap;
  size_t begin[RD_MAX_COLUMNS]; /* of each field, in text */
  int n;                        /* fields */
} rd_csv_file;

/* Each fails with one line that names file, line and cure; without words where ctx is NULL. path stays the caller's. */
int rd_csv_open(sp_ctx *ctx, const char *path, rd_csv_file *c);
/* The next row that is not blank; c->n is 0 at the end of the file. */
int rd_csv_next(rd_csv_file *c);
const char *rd_csv_field(const rd_csv_file *c, int column); /* from 0 */
void rd_csv_close(rd_csv_file *c);

#endif
