/* SPDX-License-Identifier: MIT
 * csv_cells.c - what the column of labels says: one label, several, or columns of 0 and 1. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "csv.h"

/* ---- rows ---- */
static void place_of(const rd_csv *j, int column, char to[4400]) {
  snprintf(to, 4400, "%s line %" PRId64 ", column %d (%.200s)", j->in.path, j->in.line, column + 1, j->names.v[column]);
}

/* All columns are labels, in their order, those too that no row has. */
static int know_hot(rd_csv *j) {
  char where[4400];
  int64_t id;
  for (int i = 0; i < j->n_values; i++) {
    place_of(j, j->values[i], where);
    int rc = rd_add_word(&j->labels, j->names.v[j->values[i]], strlen(j->names.v[j->values[i]]), where, &id);
    if (rc == SP_E_DATA) return rd_csv_complain(j, j->values[i], "the column has no name", "write the name of a class");
    if (rc) return rd_no_memory(j->l);
  }
  j->hot_known = 1;
  return SP_OK;
}

static int count_of(rd_csv *j, int n, int first, int second) {
  char words[400];
  if (!n)
    return rd_csv_fail(j, SP_E_DATA,
                       "%s line %" PRId64 ": no column of a class has a 1; `missing = \"skip\"` leaves such rows out, "
                       "or this is for `target = \"labels\"`",
                       j->in.path, j->in.line);
  snprintf(words, sizeof words, "%.100s and %.100s", j->names.v[j->values[first]], j->names.v[j->values[second]]);
  return rd_csv_fail(j, SP_E_DATA,
                     "%s line %" PRId64 ": %d columns of classes have a 1, %s, so this is for `target = \"labels\"`",
                     j->in.path, j->in.line, n, words);
}

/* Columns of 0 and 1. */
static int take_hot(rd_csv *j, rd_sample *s, int *skip) {
  char text[16384] = "";
  size_t at = 0;
  int n = 0, one[2] = {0, 0}, rc = j->hot_known ? SP_OK : know_hot(j), many = j->l->p->target == RD_TARGET_LABELS;
  for (int i = 0; !rc && i < j->n_values; i++) {
    int hot = rd_hot(rd_csv_value(j, j->values[i]));
    if (hot < 0)
      return rd_csv_complain(j, j->values[i], "it is neither 0 nor 1",
                             "say which columns are classes: `columns = \"NAME,NAME\"`");
    if (!hot) continue;
    if (n < 2) one[n] = i;
    n++;
    int64_t id;
    const char *name = j->names.v[j->values[i]];
    if (rd_add_word(&j->labels, name, strlen(name), "", &id)) return rd_no_memory(j->l);
    if (at + 16 < sizeof text) at += (size_t)sprintf(text + at, at ? " %" PRId64 : "%" PRId64, id);
    s->label = id;
  }
  if (rc) return rc;
  if (!many && n == 1) return SP_OK;
  if (!many && !n && j->l->p->csv.missing == RD_MISSING_SKIP) return *skip = 1, SP_OK;
  if (!many) return count_of(j, n, one[0], one[1]);
  return rd_add_word(&j->cells, text, at, "", &s->label) ? rd_no_memory(j->l) : SP_OK;
}

int rd_csv_take_value(rd_csv *j, rd_sample *s, int *skip) {
  if (j->l->p->target == RD_TARGET_NUMBERS) return rd_csv_take_numbers(j, s, skip);
  if (j->is_hot) return take_hot(j, s, skip);
  int column = j->at[RD_VALUE_COLUMN], one = j->l->p->target == RD_TARGET_CLASS;
  const char *text = rd_csv_value(j, column);
  char where[4400];
  if (!*text && one) {
    if (j->l->p->csv.missing == RD_MISSING_SKIP) return *skip = 1, SP_OK;
    return rd_csv_complain(
        j, column, "it is empty",
        "write the name or the number of a class, or `missing = \"skip\"` leaves such rows out, or with "
        "`target = \"labels\"` it has none of several labels");
  }
  place_of(j, column, where);
  int rc = rd_add_word(one ? &j->labels : &j->cells, text, strlen(text), where, &s->label);
  if (rc == SP_E_DATA && text_wrong(text, strlen(text)) < strlen(text))
    return rd_csv_complain(j, column, "it is no UTF-8, but perhaps Latin-1, as older programs write it",
                           "save the file as UTF-8, as with iconv -f LATIN1 -t UTF-8");
  if (rc == SP_E_DATA)
    return rd_csv_complain(j, column, "it is empty, or too long, or has a line break",
                           "write the name or the number of a class");
  return rc ? rd_no_memory(j->l) : SP_OK;
}

/* ---- a cell taken apart ---- */
typedef struct cells {
  rd_csv *j;
  size_t n, cap;  /* texts, first those of j->cells, then those of several rows together */
  rd_cells *of;   /* of each text: numbers of words, then of classes */
  int vector;     /* texts are of 0 and 1, one a class */
  char separator; /* 0: a cell is one label */
  int of_rows;    /* texts are cells of rows */
  size_t blank;   /* texts that say that there is no label */
} cells;

static size_t n_texts(const cells *c) { return c->j->cells.words.names.n; }
static const char *text_of(const cells *c, size_t i) { return c->j->cells.words.names.v[i]; }
static const char *where(const cells *c, size_t i) { return c->j->cells.places.v[i]; }

static int add_cell(cells *c, uint32_t value) {
  rd_table *t = c->j->l->t;
  uint32_t *p = rd_grow(t->cells, t->n_cells, 1, &t->cells_cap, sizeof *p);
  if (!p) return rd_no_memory(c->j->l);
  t->cells = p;
  p[t->n_cells++] = value;
  return SP_OK;
}

/* Without brackets, and without the quotes around one label. */
static int is_list(const char *p, const char *end) {
  return end - p >= 2 &&
         ((*p == '[' && end[-1] == ']') || (*p == '(' && end[-1] == ')') || (*p == '{' && end[-1] == '}'));
}

static void bare(const char **p, const char **end) {
  char *a = (char *)*p, *b = (char *)*end;
  text_trim(&a, &b);
  if (b - a >= 2 && (*a == '\'' || *a == '"') && b[-1] == *a) a++, b--;
  *p = a;
  *end = b;
}

/* The next label at *p of a text that ends at `end`; 0: there is none. */
static int next_part(const cells *c, const char **p, const char *end, int listed, const char **from, const char **to) {
  while (*p < end) {
    const char *q = *p;
    char sep = c->separator ? c->separator : listed ? ',' : 0;
    for (; q < end && (!sep || (sep == ' ' ? !isspace((unsigned char)*q) : *q != sep)); q++) continue;
    *from = *p;
    *to = q;
    *p = q < end ? q + 1 : q;
    bare(from, to);
    if (*to > *from) return 1;
  }
  return 0;
}

static void bounds(const char *text, const char **p, const char **end, int *listed) {
  *p = text;
  *end = text + strlen(text);
  bare(p, end);
  if ((*listed = is_list(*p, *end))) ++*p, --*end;
}

/* How many labels a text has; *hot: all of them are 0 or 1, *twice: one of these stands there twice. */
static int count_parts(const cells *c, const char *text, int *hot, int *twice) {
  const char *p, *end, *from, *to;
  int listed, n = 0, seen[2] = {0, 0};
  bounds(text, &p, &end, &listed);
  *hot = 1;
  for (; next_part(c, &p, end, listed, &from, &to); n++) {
    int is = to - from == 1 && (*from == '0' || *from == '1');
    if (is) seen[*from - '0']++;
    *hot &= is;
  }
  *twice = seen[0] > 1 || seen[1] > 1;
  return n;
}

static size_t count_with(const cells *c, char sep) {
  size_t n = 0;
  for (size_t i = 0; i < n_texts(c); i++) n += strchr(text_of(c, i), sep) != NULL;
  return n;
}

/* Some cell's words are all labels of other cells, or numbers: blanks are between labels. */
static int blanks_separate(cells *c) {
  int found = 0;
  char part[256];
  c->separator = ' ';
  for (size_t i = 0; i < n_texts(c) && !found; i++) {
    const char *p, *end, *from, *to;
    int listed, all = 1, parts = 0;
    bounds(text_of(c, i), &p, &end, &listed);
    for (; next_part(c, &p, end, listed, &from, &to); parts++) {
      snprintf(part, sizeof part, "%.*s", to - from < 255 ? (int)(to - from) : 255, from);
      all &= strspn(part, "0123456789") == strlen(part) || rd_has_number(&c->j->cells.words, part);
    }
    found = parts > 1 && all;
  }
  c->separator = 0;
  return found;
}

/* What is between labels: what the parameter says, or the only sign that can be. */
static int find_separator(cells *c) {
  static const char signs[] = "|;,";
  const rd_csv_params *p = &c->j->l->p->csv;
  if ((c->separator = c->j->apart)) return SP_OK;
  if (*p->label_separator) {
    c->separator = !strcmp(p->label_separator, "tab") ? '\t' : *p->label_separator;
    return SP_OK;
  }
  if (p->cells == RD_CELLS_NAME) return SP_OK;
  for (const char *s = signs; *s; s++) {
    if (!count_with(c, *s)) continue;
    if (c->separator && *s != ',')
      return rd_csv_fail(c->j, SP_E_DATA,
                         "%s: labels in a cell may be separated by '%c' or by '%c': `label_separator = \"%c\"` or "
                         "`label_separator = \"%c\"`",
                         c->j->files[0], c->separator, *s, c->separator, *s);
    if (!c->separator) c->separator = *s;
  }
  size_t i = 0;
  while (i < n_texts(c) && !strchr(text_of(c, i), ' ')) i++;
  if (!c->separator && i < n_texts(c)) {
    if (blanks_separate(c) || p->cells == RD_CELLS_LIST || p->cells == RD_CELLS_VECTOR) c->separator = ' ';
    else
      return rd_csv_fail(c->j, SP_E_DATA,
                         "%s: \"%.80s\" may be several labels or one name with blanks: `label_separator = \" \"` or "
                         "`cells = \"name\"`",
                         where(c, i), text_of(c, i));
  }
  if (c->separator)
    rd_note(c->j->l, "labels in a cell are separated by %s",
            c->separator == ' '   ? "blanks"
            : c->separator == ',' ? "commas"
            : c->separator == ';' ? "semicolons"
                                  : "bars");
  return SP_OK;
}

/* Cells of 0 and 1, all of one length, may be vectors. */
static int find_vectors(cells *c) {
  int how = c->j->l->p->csv.cells, length = -1, sure = 0, hot, twice;
  if (how == RD_CELLS_NAME || how == RD_CELLS_LIST) return SP_OK;
  for (size_t i = 0; i < n_texts(c); i++) {
    if (rd_is_missing(text_of(c, i))) continue;
    int n = count_parts(c, text_of(c, i), &hot, &twice);
    int fits = hot && n > 1 && (length < 0 || n == length);
    if (!fits && how == RD_CELLS_VECTOR)
      return rd_csv_fail(c->j, SP_E_DATA,
                         "%s: \"%.80s\" is no vector of 0 and 1 as long as the others; `cells = \"list\"` reads labels",
                         where(c, i), text_of(c, i));
    if (!fits) return SP_OK;
    length = n;
    sure |= twice;
  }
  c->vector = length > 1;
  if (!c->vector || sure || how == RD_CELLS_VECTOR) {
    if (c->vector && how != RD_CELLS_VECTOR) rd_note(c->j->l, "cells are vectors of 0 and 1, a class each");
    return SP_OK;
  }
  return rd_csv_fail(c->j, SP_E_DATA,
                     "%s: \"%.80s\" may be 0 and 1 for each class, or the classes by number: `cells = \"vector\"` or "
                     "`cells = \"list\"`",
                     where(c, 0), text_of(c, 0));
}

static int add_word(cells *c, const char *from, size_t n, const char *place) {
  int64_t id;
  int rc = rd_add_word(&c->j->labels, from, n, place, &id);
  if (rc == SP_E_DATA)
    return rd_csv_fail(c->j, SP_E_DATA,
                       "%s: \"%.*s\" is too long for a label, or no UTF-8; write the name or the number of a class",
                       place, n > 80 ? 80 : (int)n, from);
  return rc ? rd_no_memory(c->j->l) : add_cell(c, (uint32_t)id);
}

/* One text: its labels, as numbers of words. */
static int split_text(cells *c, size_t i) {
  const char *p, *end, *from, *to;
  int listed, rc = SP_OK, at = 0;
  char number[16];
  c->of[i].at = c->j->l->t->n_cells;
  if (c->j->is_hot) {
    for (char *q = (char *)text_of(c, i); !rc && *q; q += strspn(q, " "))
      rc = add_cell(c, (uint32_t)strtoul(q, &q, 10));
  } else if (rd_is_missing(text_of(c, i)) && c->j->l->p->csv.missing != RD_MISSING_CLASS) {
    c->blank++;
    c->of[i].missing = 1;
  } else {
    bounds(text_of(c, i), &p, &end, &listed);
    for (; !rc && next_part(c, &p, end, listed, &from, &to); at++) {
      if (!c->vector) rc = add_word(c, from, (size_t)(to - from), where(c, i));
      else if (*from == '1') {
        int n = snprintf(number, sizeof number, "%d", at);
        rc = add_word(c, number, (size_t)n, where(c, i));
      }
    }
  }
  c->of[i].n = (uint32_t)(c->j->l->t->n_cells - c->of[i].at);
  return rc;
}

/* Vectors of 0 and 1 say how many classes there are, also where none has the last. */
static int know_vector(cells *c) {
  char number[16];
  int64_t id;
  int hot, twice, n = 0;
  for (size_t i = 0; c->vector && i < n_texts(c) && !n; i++)
    if (!rd_is_missing(text_of(c, i))) n = count_parts(c, text_of(c, i), &hot, &twice);
  for (int k = 0; k < n; k++) {
    snprintf(number, sizeof number, "%d", k);
    if (rd_add_word(&c->j->labels, number, strlen(number), where(c, 0), &id)) return rd_no_memory(c->j->l);
  }
  return SP_OK;
}

/* ---- several rows of one file ---- */
typedef struct merge {
  cells *c;
  uint32_t *into; /* of each sample: 1 + the earlier one of its file; 0: it is the first */
  size_t n;
} merge;

static int note_row(void *arg, size_t earlier, size_t later) {
  merge *m = arg;
  rd_listing *l = m->c->j->l;
  if ((earlier < l->t->ends[0]) != (later < l->t->ends[0])) return SP_OK; /* that is told of all files */
  m->into[later] = (uint32_t)earlier + 1;
  m->n++;
  return SP_OK;
}

/* A new text with the labels of both samples. */
static int join(cells *c, rd_sample *to, const rd_sample *from) {
  rd_table *t = c->j->l->t;
  rd_cells *of = rd_grow(c->of, c->n, 1, &c->cap, sizeof *of);
  if (!of) return rd_no_memory(c->j->l);
  c->of = of;
  const rd_cells both[] = {of[to->label], of[from->label]};
  of[c->n] = (rd_cells){.at = t->n_cells, .missing = both[0].missing && both[1].missing};
  for (int k = 0; k < 2; k++)
    for (uint32_t i = 0; i < both[k].n; i++)
      if (add_cell(c, t->cells[both[k].at + i])) return SP_E_NOMEM;
  of[c->n].n = both[0].n + both[1].n;
  to->label = (int64_t)c->n++;
  return SP_OK;
}

static int join_rows(cells *c) {
  rd_listing *l = c->j->l;
  rd_table *t = l->t;
  merge m = {c, calloc(t->n + 1, sizeof *m.into), 0};
  int rc = m.into ? rd_find_repeats(l, note_row, &m) : rd_no_memory(l);
  size_t to = 0, ends[2] = {t->ends[0], t->ends[1]};
  for (size_t i = 0; !rc && m.n && i < t->n; i++)
    if (m.into[i]) rc = join(c, &t->samples[m.into[i] - 1], &t->samples[i]);
  for (size_t i = 0; !rc && m.n && i < t->n; i++) {
    if (!m.into[i]) rd_move_sample(t, to++, i);
    else
      for (int k = 0; k < t->n_parts; k++) ends[k] -= i < t->ends[k];
  }
  if (!rc && m.n) {
    rd_note(l, "%zu row%s of a file that an earlier row names: their labels are put together", m.n,
            m.n == 1 ? " is" : "s are");
    t->n = to;
    memcpy(t->ends, ends, sizeof ends);
  }
  free(m.into);
  return rc;
}

/* ---- numbers of classes ---- */
static int by_number(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static void settle(cells *c) {
  rd_table *t = c->j->l->t;
  for (size_t i = 0; i < c->n; i++) {
    uint32_t *v = t->cells + c->of[i].at, n = 0;
    if (c->of[i].n) qsort(v, c->of[i].n, sizeof *v, by_number);
    for (uint32_t k = 0; k < c->of[i].n; k++)
      if (v[k] != UINT32_MAX && (!n || v[n - 1] != v[k])) v[n++] = v[k];
    c->of[i].n = n;
  }
}

/* Samples whose cell is empty have no label, or are left out. */
static void assign(cells *c) {
  rd_listing *l = c->j->l;
  rd_table *t = l->t;
  size_t to = 0, none = 0, ends[2] = {t->ends[0], t->ends[1]};
  int skip = l->p->csv.missing == RD_MISSING_SKIP;
  for (size_t i = 0; i < t->n; i++) {
    rd_cells of = c->of[t->samples[i].label];
    if (of.missing && skip) {
      for (int k = 0; k < t->n_parts; k++) ends[k] -= i < t->ends[k];
      none++;
      continue;
    }
    none += of.missing;
    of.missing = 0;
    rd_move_sample(t, to, i);
    t->samples[to++].cells = of;
  }
  t->n = to;
  memcpy(t->ends, ends, sizeof ends);
  if (none && skip)
    rd_note(l, "%zu sample%s without a label %s left out", none, none == 1 ? "" : "s", none == 1 ? "is" : "are");
  else if (none)
    rd_note(l, "%zu sample%s %s; `missing = \"skip\"` leaves such out", none, none == 1 ? " has" : "s have",
            c->of_rows ? "an empty cell, so none of the labels" : "no label");
}

static int number_cells(rd_csv *j, int of_rows) {
  cells c = {.j = j, .n = j->cells.words.names.n, .of_rows = of_rows};
  c.cap = c.n + 1;
  c.of = calloc(c.cap, sizeof *c.of);
  int rc = c.of ? SP_OK : rd_no_memory(j->l);
  if (!rc && !j->is_hot) rc = find_separator(&c);
  if (!rc && !j->is_hot) rc = find_vectors(&c);
  if (!rc && c.vector) rc = know_vector(&c);
  for (size_t i = 0; !rc && i < c.n; i++) rc = split_text(&c, i);
  if (!rc && of_rows && j->l->p->csv.repeats == RD_REPEATS_ASK) rc = join_rows(&c);
  if (!rc && !j->labels.words.names.n) rc = rd_csv_fail(j, SP_E_DATA, "%s: no %s has a label", j->files[0],
                                                                   of_rows ? "row" : "sample");
  if (!rc) rc = rd_number_words(j->l, j->dirs[0], &j->labels, NULL);
  if (!rc) settle(&c);
  if (!rc) assign(&c);
  free(c.of);
  return rc;
}

int rd_csv_number_cells(rd_csv *j) { return number_cells(j, 0); }

/* ---- all of it ---- */
static int conflict(void *arg, size_t a, size_t b) {
  rd_csv *j = arg;
  const rd_table *t = j->l->t;
  const rd_sample *x = &t->samples[a], *y = &t->samples[b];
  const rd_csv_row *r = &j->rows[a], *q = &j->rows[b];
  char name[4096];
  if (t->gives == RD_LABEL && x->label != y->label && j->l->p->csv.repeats == RD_REPEATS_ASK) {
    rd_name(t, &x->image, name, sizeof name);
    return rd_csv_fail(
        j, SP_E_DATA,
        "%s is \"%s\" in %s line %u and \"%s\" in %s%sline %u: if it has both, `target = \"labels\"`; else "
        "`repeats = \"once\"` takes the first, `repeats = \"keep\"` both as they are",
        name, j->labels.words.names.v[x->label], j->files[r->file], (unsigned)r->line,
        j->labels.words.names.v[y->label], r->file == q->file ? "" : j->files[q->file], r->file == q->file ? "" : " ",
        (unsigned)q->line);
  }
  return SP_OK;
}

int rd_csv_number(rd_csv *j) {
  char file[4096 + 16];
  rd_listing *l = j->l;
  int rc = SP_OK;
  j->labels.as_given = j->is_hot;
  if (l->t->gives != RD_MASK && l->t->gives != RD_NUMBERS) {
    snprintf(file, sizeof file, "%s/classes.txt", j->dirs[0]);
    rc = rd_stamp_path(l, file);
  }
  if (!rc && l->t->gives == RD_LABEL) rc = rd_find_repeats(l, conflict, j);
  if (!rc && l->t->gives == RD_NUMBERS) rc = rd_csv_note_numbers(j);
  if (!rc && l->t->gives == RD_LABEL) rc = rd_number_words(l, j->dirs[0], &j->labels, NULL);
  if (!rc && l->t->gives == RD_LABELS) rc = number_cells(j, 1);
  return rc ? rc : rd_note_repeats(l);
}
