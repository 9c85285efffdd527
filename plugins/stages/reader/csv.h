/* SPDX-License-Identifier: MIT
 * csv.h - what the files of the layout `csv` share: which column is what, where files are, what cells say. */
#ifndef SP_PLUGINS_READER_CSV_H
#define SP_PLUGINS_READER_CSV_H

#include "csv_file.h"
#include "table.h"
#include "words.h"

enum { RD_FILE_COLUMN, RD_VALUE_COLUMN, RD_SPLIT_COLUMN, RD_SECOND_COLUMN, RD_ROLES };

/* Where the files of a column are, as the first one that was not found in its place has shown. */
typedef struct rd_csv_place {
  int known;
  char cut[1024];    /* what names begin with and files do not */
  char folder[2048]; /* what is in front of them instead, with a / behind; "": the .csv file's folder */
  char ending[8];    /* what is behind names without an ending */
} rd_csv_place;

/* Of each sample, while the file is read. */
typedef struct rd_csv_row {
  uint32_t line;
  uint8_t part, file; /* file: which of `files` */
} rd_csv_row;

enum { RD_MORE_PLACES = 8 };

typedef struct rd_csv {
  rd_listing *l;
  rd_csv_file in;
  char files[2][4096], dirs[2][4096];
  int k;                  /* which of `files` is being read */
  rd_names names, first;  /* of the columns; the fields of the first row of data */
  int headless;           /* the first row is data */
  int at[RD_ROLES];       /* -1: not there. RD_VALUE_COLUMN of one-hot columns or of numbers: the first of `values` */
  int weight;             /* the column of draws; -1: there is none */
  int *values;            /* columns of 0 and 1, one a class, or of numbers */
  int n_values, is_hot;   /* is_hot: they are of 0 and 1 */
  rd_csv_place places[3]; /* of images, of masks, of second images */
  rd_csv_place more[RD_MORE_PLACES]; /* of images that are not in the first */
  int n_more;
  rd_numbered folders;    /* each is the source of its number */
  rd_words labels, cells; /* different labels; with target labels different contents of the column */
  int commas, points;     /* numbers have a decimal comma, or a point */
  char apart;             /* between the labels of a cell, where that is known; else 0 */
  int hot_known;          /* the columns of this file are among `labels` */
  rd_csv_row *rows;
  size_t rows_cap;
  size_t n_left[2], first_left[2]; /* rows left out: of test, without a value; the line of the first */
} rd_csv;

/* Fails with these words; without any where the file was opened to look at it only. */
int rd_csv_fail(const rd_csv *j, int status, const char *fmt, ...) SP_PRINTF(3, 4);
/* ... and file, line and column in front; cure: what to do. */
int rd_csv_complain(const rd_csv *j, int column, const char *words, const char *cure);
const char *rd_csv_value(const rd_csv *j, int column); /* of the row that was read last */

/* ---- csv_columns.c ---- */
/* Reads the header of the file that is open, and says which column is what; then the rows follow. */
int rd_csv_header(rd_csv *j);
void rd_csv_forget(rd_csv *j); /* what the header of this file said */
/* RD_NO_PART ...: what a word in the column split says. */
int rd_csv_part(const rd_csv *j, const char *word);
int rd_csv_is_label(const char *name); /* a column of that name is the label */
/* 0, 1, or -1: the cell is neither */
int rd_hot(const char *cell);

/* ---- csv_paths.c ---- */
/* The file that a column names: it has to be there. */
int rd_csv_take_file(rd_csv *j, int column, rd_ref *ref);
/* Where the file `name` of that column is. SP_OK, or a status without words, and `path` is where it would be. */
int rd_csv_locate(rd_csv *j, int column, const char *name, char path[4096]);

/* ---- csv_cells.c ---- */
/* What the value columns of a row say, into the sample. *skip: the row is left out. */
int rd_csv_take_value(rd_csv *j, rd_sample *s, int *skip);
/* After all rows, which are in their parts: labels become numbers of classes. */
int rd_csv_number(rd_csv *j);
/* ... of texts in j->cells that are of no rows. */
int rd_csv_number_cells(rd_csv *j);

/* ---- csv_numbers.c ---- */
/* The numbers of a row, into the table's cells. */
int rd_csv_take_numbers(rd_csv *j, rd_sample *s, int *skip);
int rd_csv_keep_names(rd_csv *j);
/* How often the sample of the row is drawn. */
int rd_csv_take_weight(rd_csv *j, rd_sample *s);
/* After all rows: columns that say nothing, files with other numbers in another row. */
int rd_csv_note_numbers(rd_csv *j);

#endif
