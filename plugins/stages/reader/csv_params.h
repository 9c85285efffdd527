/* SPDX-License-Identifier: MIT
 * csv_params.h - the reader's parameters that say how tables and labels are read, where they can be read in two
 * ways. */
#ifndef SP_PLUGINS_READER_CSV_PARAMS_H
#define SP_PLUGINS_READER_CSV_PARAMS_H

#include "reader.h"

/* RD_SEP_..., RD_HEADER_..., in their order */
static const char *const rd_separators[] = {"auto", "comma", "semicolon", "tab", "pipe", "blank", NULL};
static const char *const rd_headers[] = {"auto", "yes", "no", NULL};
static const char *const rd_cell_kinds[] = {"auto", "name", "list", "vector", NULL};
static const char *const rd_cases[] = {"ask", "ignore", "keep", NULL};
static const char *const rd_missings[] = {"ask", "skip", "class", NULL};
static const char *const rd_repeated[] = {"ask", "once", "keep", NULL};
static const char *const rd_decimals[] = {"auto", "point", "comma", NULL};

#define RD_CSV_TEXT(n, member, words) \
  { .name = n, .type = SP_PARAM_STRING, .offset = offsetof(rd_params, csv.member), .doc = words }
#define RD_CSV_CHOICE(n, member, list, words) \
  { .name = n, .type = SP_PARAM_CHOICE, .offset = offsetof(rd_params, csv.member), .choices = list, .doc = words }
#define RD_CSV_FLOATS(n, member, least, words)                                                                \
  {                                                                                                           \
    .name = n, .type = SP_PARAM_FLOATS, .offset = offsetof(rd_params, csv.member), .min = least, .max = 1e30, \
    .min_n = 1, .max_n = 4096, .doc = words                                                                   \
  }
#define RD_CSV_ROWS                                                                                                    \
  RD_CSV_TEXT(                                                                                                         \
      "columns", columns,                                                                                              \
      "of a .csv file: which column is what, as \"file=path,label=dx,split=fold\"; names alone are "                   \
      "columns of values; a number counts from 1; \"split=\": none divides; not given: by their names; in tar files: " \
      "the fields of KEY.json"),                                                                                       \
      RD_CSV_CHOICE("separator", separator, rd_separators, "of a .csv file: what is between fields"),                  \
      RD_CSV_CHOICE("header", header, rd_headers, "of a .csv file: whether the first row has the names of columns"),   \
      RD_CSV_TEXT(                                                                                                     \
          "root", root,                                                                                                \
          "of a .csv file: the folder in front of its files' names; \"OLD=NEW\": instead of OLD, with which they "     \
          "begin; not given: the .csv file's folder, or the one that has the first file"),                             \
      RD_CSV_TEXT("val_value", val_value,                                                                              \
                  "of a .csv file: the values of its column split that validate, with commas between; others train"),  \
      RD_CSV_CHOICE("cells", cells, rd_cell_kinds,                                                                     \
                    "what a cell of labels is: one name, a list of labels, a vector of 0 and 1 for each class"),       \
      RD_CSV_TEXT("label_separator", label_separator,                                                                  \
                  "with target labels: the sign between the labels of a cell; not given: the only one "                \
                  "that it can be"),                                                                                   \
      RD_CSV_CHOICE("label_case", label_case, rd_cases,                                                                \
                    "labels that differ by case, blanks or accents alone: ask: an error; ignore: one "                 \
                    "class; keep: as many as there are"),                                                              \
      RD_CSV_CHOICE("missing", missing, rd_missings,                                                                   \
                    "labels and numbers that are empty, nan, NA and the like: ask: an error; skip: such "              \
                    "samples are left out; class: the name of a class"),                                               \
      RD_CSV_CHOICE("repeats", repeats, rd_repeated,                                                                   \
                    "files that are listed twice: ask: a notice, with two labels an error; once: the first "           \
                    "counts; keep: each does"),                                                                        \
      RD_CSV_CHOICE("decimal", decimal, rd_decimals, "what is in front of the fraction of numbers"),                   \
      RD_CSV_FLOATS("mean", mean, -1e30,                                                                               \
                    "with target numbers or map: taken off each column, or all values, before std divides it"),        \
      RD_CSV_FLOATS("std", std, 1e-30, "with target numbers or map: divides each column, or all values")

#endif
