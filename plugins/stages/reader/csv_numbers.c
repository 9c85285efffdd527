/* SPDX-License-Identifier: MIT
 * csv_numbers.c - numbers as people write them in tables, and what is no number. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "csv.h"

/* ---- one cell ---- */
enum { GOOD, MISSING, WRONG };

/* Digits in groups of three behind `sign`, as 1,234 or 1.234.567. */
static int is_grouped(const char *p, char sign) {
  size_t n = strspn(p += *p == '-' || *p == '+', "0123456789");
  int groups = 0;
  if (!n || n > 3) return 0;
  for (p += n; *p == sign; groups++) {
    if (strspn(p + 1, "0123456789") != 3) return 0;
    p += 4;
  }
  return groups && (!*p || *p == '.' || *p == ',');
}

static int is_plain(const char *p) {
  p += *p == '-' || *p == '+';
  size_t whole = strspn(p, "0123456789"), part = 0;
  p += whole;
  if (*p == '.') part = strspn(++p, "0123456789"), p += part;
  if (!whole && !part) return 0;
  if (*p != 'e' && *p != 'E') return !*p;
  p++;
  p += *p == '-' || *p == '+';
  size_t digits = strspn(p, "0123456789");
  return digits && !p[digits];
}

static int wrong(rd_csv *j, int column, const char *text, const char *what, const char *cure) {
  char words[400];
  snprintf(words, sizeof words, "\"%.80s\" %s", text, what);
  int rc = rd_csv_complain(j, column, words, cure);
  return rc;
}

/* A quote or a blank of any kind between digits. */
static int has_gap(const char *text) {
  size_t n = strlen(text);
  for (size_t i = 1; i < n; i++) {
    size_t blank = text[i] == '\'' ? 1 : text_blank(text + i, n - i);
    if (blank && isdigit((unsigned char)text[i - 1]) && isdigit((unsigned char)text[i + blank])) return 1;
  }
  return 0;
}

/* What a cell that is no number may be. */
static int no_number(rd_csv *j, int column, const char *text) {
  const char *p = text + (*text == '-' || *text == '+');
  size_t n = strspn(p, "0123456789.,");
  if (!strncasecmp(p, "inf", 3))
    return wrong(j, column, text, "is no finite number", "correct it, or `missing = \"skip\"` leaves such rows out");
  if (has_gap(text)) return wrong(j, column, text, "has thousands separators", "write 1234.5");
  if (n && p[n])
    return wrong(j, column, text, "has a unit behind the number",
                 "write the number alone, and the unit in the name of the column");
  if (n) return wrong(j, column, text, "is no number", "write 1234.5, without anything between thousands");
  if (*p && p[1] && !strchr("+-.", *p) && strspn(p + 1, "0123456789.,") + 1 == strlen(p))
    return wrong(j, column, text, "has a unit in front of the number",
                 "write the number alone, and the unit in the name of the column");
  return wrong(j, column, text, "is no number", "say which columns are numbers: `columns = \"NAME,NAME\"`");
}

/* "1,5" where another sign is between columns; 1,234 may be both. */
static int with_comma(rd_csv *j, int column, const char *text, char to[64]) {
  int how = j->l->p->csv.decimal;
  const char *comma = strchr(text, ',');
  if (strchr(comma + 1, ',') || strchr(text, '.') || how == RD_DECIMAL_POINT)
    return wrong(j, column, text, "has thousands separators", "write 1234.5");
  if (is_grouped(text, ',') && how == RD_DECIMAL_AUTO && !j->commas)
    return wrong(j, column, text, "may be a thousand and more, or a number with a decimal comma",
                 "write 1234 for the one, `decimal = \"comma\"` reads the other");
  if (j->points && how == RD_DECIMAL_AUTO)
    return wrong(j, column, text, "has a decimal comma, and numbers before it a point",
                 "write all in one way, or `decimal = \"comma\"`");
  if (!j->commas && how == RD_DECIMAL_AUTO) rd_note(j->l, "numbers have a decimal comma");
  j->commas = 1;
  snprintf(to, 64, "%s", text);
  to[comma - text] = '.';
  return SP_OK;
}

static int take_number(rd_csv *j, int column, float *to, int *kind) {
  char text[64];
  const char *cell = rd_csv_value(j, column);
  *kind = WRONG;
  if (rd_is_missing(cell) || !strcasecmp(cell, "-nan") || !strcasecmp(cell, "+nan")) {
    *kind = MISSING;
    return SP_OK;
  }
  if (!strncasecmp(cell + (*cell == '-' || *cell == '+'), "inf", 3) && j->l->p->csv.missing == RD_MISSING_SKIP) {
    *kind = MISSING;
    return SP_OK;
  }
  if (strlen(cell) >= sizeof text) return no_number(j, column, cell);
  snprintf(text, sizeof text, "%s", cell);
  if (strchr(cell, ',')) {
    for (const char *p = cell; *p; p++)
      if (!strchr("0123456789.,+-eE", *p)) return no_number(j, column, cell);
    int rc = with_comma(j, column, cell, text);
    if (rc) return rc;
  }
  if (!is_plain(text)) return no_number(j, column, cell);
  if (strchr(cell, '.') && (j->commas || j->l->p->csv.decimal == RD_DECIMAL_COMMA))
    return wrong(j, column, cell, "has a point, and numbers have a decimal comma",
                 "write 1234,5, or `decimal = \"point\"` where all have points");
  j->points |= strchr(cell, '.') != NULL;
  *to = strtof(text, NULL);
  if (!isfinite(*to)) return wrong(j, column, cell, "is too large for a 32-bit number", "take another unit");
  *kind = GOOD;
  return SP_OK;
}

/* ---- a row ---- */
int rd_csv_take_weight(rd_csv *j, rd_sample *s) {
  const char *cell = rd_csv_value(j, j->weight);
  char text[64] = "";
  int rc = SP_OK;
  if (strlen(cell) < sizeof text) snprintf(text, sizeof text, "%s", cell);
  if (strchr(text, ',')) rc = with_comma(j, j->weight, cell, text);
  if (rc) return rc;
  s->weight = is_plain(text) ? strtof(text, NULL) : -1;
  if (s->weight >= 0 && isfinite(s->weight)) return SP_OK;
  return wrong(j, j->weight, cell, "is no weight, which is a number of at least 0",
               "write 0 where a sample is never to be drawn");
}

int rd_csv_take_numbers(rd_csv *j, rd_sample *s, int *skip) {
  rd_table *t = j->l->t;
  uint32_t *to = rd_grow(t->cells, t->n_cells, (size_t)j->n_values, &t->cells_cap, sizeof *to);
  if (!to) return rd_no_memory(j->l);
  t->cells = to;
  if (t->classes && t->classes != j->n_values)
    return rd_csv_fail(j, SP_E_DATA,
                       "%s has %d columns of numbers, but %s has %d: name the same in both, `columns = \"NAME,NAME\"`",
                       j->in.path, j->n_values, j->files[0], (int)t->classes);
  t->classes = j->n_values;
  s->cells = (rd_cells){.at = t->n_cells, .n = (uint32_t)j->n_values};
  for (int i = 0; i < j->n_values; i++) {
    float v = 0;
    int kind, rc = take_number(j, j->values[i], &v, &kind);
    if (rc) return rc;
    if (kind == MISSING && j->l->p->csv.missing == RD_MISSING_SKIP) return *skip = 1, SP_OK;
    if (kind == MISSING)
      return wrong(j, j->values[i], rd_csv_value(j, j->values[i]), "is no number",
                   "correct it, or `missing = \"skip\"` leaves such rows out");
    v = v == 0 ? 0 : v; /* no -0 */
    memcpy(&to[t->n_cells + (size_t)i], &v, sizeof v);
  }
  t->n_cells += (size_t)j->n_values;
  if (t->class_names) return SP_OK;
  return rd_csv_keep_names(j);
}

/* The columns' names are those of what is predicted. */
int rd_csv_keep_names(rd_csv *j) {
  size_t n = 1;
  for (int i = 0; i < j->n_values; i++) n += strlen(j->names.v[j->values[i]]) + 1;
  char *p = j->l->t->class_names = malloc(n);
  if (!p) return rd_no_memory(j->l);
  *p = 0;
  for (int i = 0; i < j->n_values; i++) {
    const char *name = j->names.v[j->values[i]];
    p += sprintf(p, i ? "\n%s" : "%s", name);
  }
  return SP_OK;
}

/* ---- all of them ---- */
static int differs(void *arg, size_t a, size_t b) {
  rd_csv *j = arg;
  const rd_table *t = j->l->t;
  const rd_cells *x = &t->samples[a].cells, *y = &t->samples[b].cells;
  char name[4096];
  if (j->l->p->csv.repeats != RD_REPEATS_ASK || !memcmp(t->cells + x->at, t->cells + y->at, x->n * sizeof *t->cells))
    return SP_OK;
  rd_name(t, &t->samples[a].image, name, sizeof name);
  return rd_csv_fail(
      j, SP_E_DATA,
      "%s has other numbers in %s line %u than in %s%sline %u: `repeats = \"once\"` takes the first, `repeats = "
      "\"keep\"` both as they are",
      name, j->files[j->rows[b].file], (unsigned)j->rows[b].line,
      j->rows[a].file == j->rows[b].file ? "" : j->files[j->rows[a].file],
      j->rows[a].file == j->rows[b].file ? "" : " ", (unsigned)j->rows[a].line);
}

/* Says which columns have one number throughout. */
int rd_csv_note_numbers(rd_csv *j) {
  rd_table *t = j->l->t;
  const char *name = t->class_names;
  for (int64_t c = 0; name && c < t->classes; c++) {
    uint32_t first = t->n ? t->cells[t->samples[0].cells.at + (size_t)c] : 0;
    size_t i = 0;
    while (i < t->n && t->cells[t->samples[i].cells.at + (size_t)c] == first) i++;
    float v;
    memcpy(&v, &first, sizeof v);
    if (i == t->n && t->n > 1)
      rd_note(j->l, "column %.*s is %g in all rows of %s, from line %u on: nothing can be learned from it",
              (int)strcspn(name, "\n"), name, (double)v, j->files[0], (unsigned)j->rows[0].line);
    name = strchr(name, '\n');
    name = name ? name + 1 : NULL;
  }
  return rd_find_repeats(j->l, differs, j);
}
