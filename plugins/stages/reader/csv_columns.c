/* SPDX-License-Identifier: MIT
 * csv_columns.c - which column of a .csv file is what: by the parameter, by the names that people give them, by what
 * the first row has. */
#include "csv.h"
#include "csv_names.h"
#include "two_names.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SHOWN 8 /* names of columns in a message */

/* ---- names ---- */
static const char *const role_names[RD_ROLES] = {"file", "label", "split", "second"};

static const char *role_name(const rd_csv *j, int role) {
  int target = j->l->p->target;
  if (role == RD_VALUE_COLUMN && target == RD_TARGET_MAP) return "map";
  return role == RD_VALUE_COLUMN && target == RD_TARGET_MASK ? "mask" : role_names[role];
}

/* "a, b, c", of many the first. */
static void list_names(const rd_csv *j, const int *columns, size_t n, char *to, size_t size) {
  size_t at = 0;
  *to = 0;
  for (size_t i = 0; i < n && i < SHOWN && at + 64 < size; i++) {
    const char *name = j->names.v[columns ? columns[i] : (int)i];
    at += (size_t)snprintf(to + at, size - at, "%s%.48s", i ? ", " : "", *name ? name : "(no name)");
  }
  if (n > SHOWN) snprintf(to + at, size - at, " and %zu more", n - SHOWN);
}

/* ---- cells ---- */
int rd_hot(const char *cell) {
  static const char *const ones[] = {"1", "1.0", "1.", "true", "yes", NULL}, *const zeros[] = {"0",     "0.0", "0.",
                                                                                               "false", "no",  NULL};
  for (int k = 0; k < 2; k++)
    for (const char *const *p = k ? ones : zeros; *p; p++)
      if (!strcasecmp(*p, cell)) return k;
  return -1;
}

static int is_number(const char *cell) {
  size_t digits = 0, i = 0;
  for (; cell[i]; i++) {
    if (isdigit((unsigned char)cell[i])) digits++;
    else if (!strchr("+-.,eE", cell[i])) return 0;
  }
  return digits > 0;
}

int rd_csv_part(const rd_csv *j, const char *word) {
  const char *of = j->l->p->csv.val_value;
  size_t n = strlen(word);
  if (*of) {
    for (const char *p = of; *p; p += strspn(p, ",")) {
      size_t len = strcspn(p, ",");
      if (len == n && !strncasecmp(p, word, n)) return RD_VAL_PART;
      p += len;
    }
    int named = rd_read_folder_name(word).part;
    return named == RD_TEST_PART ? named : RD_TRAIN_PART;
  }
  char low[64];
  rd_plain_name(j->names.v[j->at[RD_SPLIT_COLUMN]], low);
  if (!strncmp(low, "isval", 5)) return rd_hot(word) < 0 ? RD_NO_PART : rd_hot(word) ? RD_VAL_PART : RD_TRAIN_PART;
  return rd_read_folder_name(word).part;
}

/* ---- the parameter ---- */
/* The column of that name, in any spelling, or of that number; -1: there is none. */
static int find_column(const rd_csv *j, const char *name) {
  char a[64], b[64], *end;
  for (size_t i = 0; i < j->names.n; i++)
    if (!strcmp(j->names.v[i], name)) return (int)i;
  rd_plain_name(name, a);
  for (size_t i = 0; i < j->names.n && *a; i++) {
    rd_plain_name(j->names.v[i], b);
    if (!strcmp(a, b)) return (int)i;
  }
  long n = strtol(name, &end, 10);
  return *name && !*end && n >= 1 && n <= (long)j->names.n ? (int)n - 1 : -1;
}

static int add_value(rd_csv *j, int column) {
  int *p = realloc(j->values, ((size_t)j->n_values + 1) * sizeof *p);
  if (!p) return rd_no_memory(j->l);
  j->values = p;
  j->values[j->n_values++] = column;
  return SP_OK;
}

/* "file=NAME", "second=NAME", "label=NAME", "split=NAME", or the name of a value. */
static int take_given(rd_csv *j, char *item, unsigned *given) {
  static const char *const roles[] = {"file", "label", "split", "second", "mask", "map"};
  char *end = item + strlen(item), all[1024];
  text_trim(&item, &end);
  *end = 0;
  int role = RD_VALUE_COLUMN;
  for (int k = 0; k < (int)(sizeof roles / sizeof *roles); k++) {
    size_t n = strlen(roles[k]);
    if (strncmp(item, roles[k], n) || item[n] != '=') continue;
    role = k >= RD_ROLES ? RD_VALUE_COLUMN : k;
    item += n + 1;
    break;
  }
  if (*item == '"' && end > item + 1 && end[-1] == '"') *--end = 0, item++;
  *given |= 1u << role;
  if (!*item && (role == RD_SPLIT_COLUMN || role == RD_SECOND_COLUMN)) return SP_OK;
  int column = find_column(j, item);
  if (column < 0) {
    list_names(j, NULL, j->names.n, all, sizeof all);
    return rd_csv_fail(j, SP_E_INVALID, "columns = \"%s\": %s has no column \"%s\"; it has %s", j->l->p->csv.columns,
                       j->in.path, item, all);
  }
  if (role == RD_VALUE_COLUMN) return add_value(j, column);
  j->at[role] = column;
  return SP_OK;
}

/* *given: bits of the roles that the parameter says something of. */
static int take_columns(rd_csv *j, unsigned *given) {
  char *text = strdup(j->l->p->csv.columns), *item = text;
  int rc = text ? SP_OK : rd_no_memory(j->l), quoted = 0;
  for (char *p = text; !rc && text && *text; p++) {
    if (*p == '"') quoted = !quoted;
    if (*p && (*p != ',' || quoted)) continue;
    int last = !*p;
    *p = 0;
    rc = take_given(j, item, given);
    item = p + 1;
    if (last) break;
  }
  free(text);
  return rc;
}

/* ---- a role ---- */
static int no_column(rd_csv *j, int role) {
  const char *value = role_name(j, RD_VALUE_COLUMN);
  char all[1024];
  static const char *const targets[] = {"mask", "class", "labels", "numbers", "map"};
  list_names(j, NULL, j->names.n, all, sizeof all);
  return rd_csv_fail(
      j, SP_E_DATA,
      "%s line %" PRId64
      ": no column '%s'; for target = \"%s\" the first line names file and %s, and perhaps split; it has "
      "%s: `columns = \"%s=NAME\"` says which one that is",
      j->in.path, j->in.line ? j->in.line : 1, role_name(j, role), targets[j->l->p->target], value,
      *all ? all : "no columns", role_name(j, role));
}

static int ask(rd_csv *j, int role, int a, int b) {
  const char *name = role_name(j, role), *one = j->names.v[a], *other = j->names.v[b];
  return rd_csv_fail(j, SP_E_DATA,
                     "%s line %" PRId64 ": column %d (%s) and column %d (%s) may both be the %s: "
                     "`columns = \"%s=%s\"` or `columns = \"%s=%s\"`",
                     j->in.path, j->in.line, a + 1, one, b + 1, other, name, name, one, name, other);
}

/* That which `sampling` names. */
static int find_weight(rd_csv *j) {
  const char *name = rd_sampling_column(j->l->p);
  char all[1024];
  j->weight = name ? find_column(j, name) : -1;
  if (!name || j->weight >= 0) return SP_OK;
  list_names(j, NULL, j->names.n, all, sizeof all);
  return rd_csv_fail(j, SP_E_INVALID, "sampling = \"%s\": %s has no column \"%s\"; it has %s", j->l->p->sampling,
                     j->in.path, name, all);
}

static int is_taken(const rd_csv *j, int column) {
  if (column == j->weight) return 1;
  for (int k = 0; k < RD_ROLES; k++)
    if (j->at[k] == column) return 1;
  for (int i = 0; i < j->n_values; i++)
    if (j->values[i] == column) return 1;
  return 0;
}

static const char *first_of(const rd_csv *j, int column) {
  return (size_t)column < j->first.n ? j->first.v[column] : "";
}

/* Columns with one of these names, the first of which goes to *one and the second to *two; pictures: that name a
 * picture in the first row. */
static int count_named(const rd_csv *j, const char *const *list, int pictures, int *one, int *two) {
  int n = 0;
  for (int i = 0; i < (int)j->names.n; i++) {
    if (is_taken(j, i) || (list && !rd_is_called(list, j->names.v[i])) || (pictures && !rd_is_image(first_of(j, i))))
      continue;
    if (n < 2) *(n ? two : one) = i;
    n++;
  }
  return n;
}

/* The column that has one of the names, preferably one that names pictures; else *rc says why not. -1: none. */
static int by_name(rd_csv *j, int role, const char *const *list, int pictures, int *rc) {
  int one = -1, two = -1, n = count_named(j, list, 0, &one, &two), a, b;
  if (n > 1 && pictures && count_named(j, list, 1, &a, &b) == 1) return a;
  if (n > 1) *rc = ask(j, role, one, two);
  return n == 1 ? one : -1;
}

static int exact(const rd_csv *j, const char *name) {
  for (int i = 0; i < (int)j->names.n; i++)
    if (!strcmp(j->names.v[i], name) && !is_taken(j, i)) return i;
  return -1;
}

/* Columns of the first images and of the second, by their names and what the first row has; -1: there are no such. */
static int find_two(rd_csv *j, int row, int at[2]) {
  int n = 0;
  at[0] = at[1] = -1;
  for (int i = 0; i < (int)j->names.n; i++) {
    int role = rd_is_image(first_of(j, i)) ? rd_read_two_column(j->names.v[i], row) : 0;
    if (!role || (is_taken(j, i) && i != j->at[RD_FILE_COLUMN])) continue;
    if (at[role - RD_TWO_FIRST] >= 0) return 0;
    at[role - RD_TWO_FIRST] = i;
    n++;
  }
  int *file = &j->at[RD_FILE_COLUMN];
  return n == 2 && (*file < 0 || *file == at[0]);
}

/* given: what the parameter says. Sets the two columns where rows have two images. */
static int find_seconds(rd_csv *j, unsigned given) {
  int at[2], found[2], rows = 0, row = -1;
  if (given & 1u << RD_SECOND_COLUMN) return SP_OK;
  for (int i = 0; i < rd_n_two_words; i++)
    if (find_two(j, i, at) && (!rows || memcmp(found, at, sizeof at) != 0)) {
      if (!rows++) memcpy(found, at, sizeof at), row = i;
    }
  if (!rows) return SP_OK;
  if (rows > 1)
    return rd_csv_fail(j, SP_E_DATA,
                       "%s line %" PRId64 ": several columns may be two images of a row, such as %s and %s: "
                       "`columns = \"file=%s,second=%s\"`, or for one image `columns = \"file=%s,second=\"`",
                       j->in.path, j->in.line, j->names.v[found[0]], j->names.v[found[1]], j->names.v[found[0]],
                       j->names.v[found[1]], j->names.v[found[0]]);
  j->at[RD_FILE_COLUMN] = found[0];
  j->at[RD_SECOND_COLUMN] = found[1];
  if (j->l->t) j->l->t->is_stereo = rd_is_stereo(row);
  return SP_OK;
}

/* Of what the parameter names: are they left and right? */
static void look_at_seconds(rd_csv *j, unsigned given) {
  int file = j->at[RD_FILE_COLUMN], second = j->at[RD_SECOND_COLUMN];
  for (int i = 0; second >= 0 && given & 1u << RD_SECOND_COLUMN && i < rd_n_two_words; i++)
    if (rd_is_stereo(i) && rd_read_two_column(j->names.v[file], i) == RD_TWO_FIRST &&
        rd_read_two_column(j->names.v[second], i) == RD_TWO_SECOND)
      j->l->t->is_stereo = 1;
}

static int find_file(rd_csv *j) {
  int rc = SP_OK, one = -1, two = -1, *at = &j->at[RD_FILE_COLUMN];
  if (*at < 0) *at = exact(j, "file");
  if (*at < 0) *at = by_name(j, RD_FILE_COLUMN, rd_called_files, 1, &rc);
  if (*at < 0 && !rc) *at = by_name(j, RD_FILE_COLUMN, rd_called_ids, 1, &rc);
  if (*at >= 0 || rc) return rc;
  int n = count_named(j, NULL, 1, &one, &two);
  if (n > 1 && rd_gives(j->l->p->target) != RD_MASK) return ask(j, RD_FILE_COLUMN, one, two);
  *at = one;
  return n ? SP_OK : no_column(j, RD_FILE_COLUMN);
}

/* Another column may be called so and be about something else: its first row has to name a part. */
static int find_split(rd_csv *j) {
  int *at = &j->at[RD_SPLIT_COLUMN];
  if (*at < 0) *at = exact(j, "split");
  for (int i = 0, found = -1; *at < 0 && i <= (int)j->names.n; i++) {
    if (i == (int)j->names.n) {
      *at = found;
      break;
    }
    if (is_taken(j, i) || !rd_is_called(rd_called_splits, j->names.v[i])) continue;
    j->at[RD_SPLIT_COLUMN] = i;
    int says = rd_csv_part(j, first_of(j, i)) != RD_NO_PART;
    j->at[RD_SPLIT_COLUMN] = -1;
    if (says && found >= 0) return ask(j, RD_SPLIT_COLUMN, found, i);
    if (says) found = i;
    else if (is_number(first_of(j, i)))
      rd_note(j->l,
              "column %s numbers parts and is not read: `columns = \"split=%s\"` with `val_value = \"%s\"` has that "
              "one validate",
              j->names.v[i], j->names.v[i], first_of(j, i));
  }
  return SP_OK;
}

/* ---- values ---- */
/* Columns that may be of 0 and 1, or of numbers, become values. */
static int add_values(rd_csv *j, int (*fits)(const char *cell)) {
  int rc = SP_OK;
  for (int i = 0; i < (int)j->names.n && !rc; i++)
    if (!is_taken(j, i) && !rd_is_index_name(j->names.v[i]) && !rd_is_called(rd_called_ids, j->names.v[i]) &&
        fits(first_of(j, i)))
      rc = add_value(j, i);
  return rc;
}

static int is_hot(const char *cell) { return rd_hot(cell) >= 0; }
static int is_numeric(const char *cell) {
  return is_number(cell) || !strcasecmp(cell, "nan") || strcasestr(cell, "inf");
}

/* The only column that is left and may be the label. */
static int only_other(const rd_csv *j) {
  int found = -1;
  for (int i = 0; i < (int)j->names.n; i++) {
    if (is_taken(j, i) || rd_is_index_name(j->names.v[i]) || rd_is_called(rd_called_masks, j->names.v[i]) ||
        rd_is_called(rd_called_splits, j->names.v[i]))
      continue;
    if (!rd_is_called(rd_called_labels, j->names.v[i]) && rd_is_image(first_of(j, i))) continue;
    if (found >= 0) return -1;
    found = i;
  }
  return found;
}

static int find_numbers(rd_csv *j) {
  int rc = SP_OK, label = exact(j, "label");
  for (int i = 0; i < (int)j->names.n && label < 0; i++)
    if (!is_taken(j, i) && rd_is_called(rd_called_labels, j->names.v[i]) && is_numeric(first_of(j, i))) label = i;
  if (label >= 0) rc = add_value(j, label);
  else rc = add_values(j, is_numeric);
  if (rc || j->n_values) return rc;
  int other = only_other(j); /* says what is wrong with its numbers */
  if (other >= 0) return add_value(j, other);
  return no_column(j, RD_VALUE_COLUMN);
}

static int find_mask(rd_csv *j) {
  int rc = SP_OK, one, two, *at = &j->at[RD_VALUE_COLUMN];
  int of_maps = j->l->p->target == RD_TARGET_MAP;
  *at = exact(j, of_maps ? "map" : "mask");
  if (*at < 0 && of_maps) *at = by_name(j, RD_VALUE_COLUMN, rd_called_maps, 1, &rc);
  if (rc) return rc;
  if (*at < 0) *at = by_name(j, RD_VALUE_COLUMN, rd_called_masks, 1, &rc);
  if (*at < 0 && !rc && count_named(j, rd_called_labels, 1, &one, &two) == 1) *at = one;
  if (*at < 0 && !rc && count_named(j, NULL, 1, &one, &two) == 1) *at = one;
  return rc || *at >= 0 ? rc : no_column(j, RD_VALUE_COLUMN);
}

/* All columns that are left are of numbers. */
static int are_numbers(const rd_csv *j) {
  int n = 0;
  for (int i = 0; i < (int)j->names.n; i++) {
    if (is_taken(j, i) || rd_is_index_name(j->names.v[i]) || rd_is_called(rd_called_ids, j->names.v[i])) continue;
    if (!is_number(first_of(j, i))) return 0;
    n++;
  }
  return n > 0 && !j->headless;
}

static int numbers_only(rd_csv *j) {
  return rd_csv_fail(
      j, SP_E_DATA,
      "%s line %" PRId64 ": no column is called label, and all others are numbers, so it is for target = \"numbers\" "
      "(train_cls.lua, `target = \"numbers\"`), or `columns = \"label=NAME\"` says which one has classes",
      j->in.path, j->in.line);
}

static int find_labels(rd_csv *j) {
  int rc = SP_OK, *at = &j->at[RD_VALUE_COLUMN];
  *at = exact(j, "label");
  if (*at < 0) *at = by_name(j, RD_VALUE_COLUMN, rd_called_labels, 0, &rc);
  if (*at >= 0 || rc) return rc;
  if ((*at = only_other(j)) >= 0) return SP_OK;
  rc = add_values(j, is_hot);
  if (rc || j->n_values >= 2) return rc;
  j->n_values = 0;
  return j->l->p->target == RD_TARGET_CLASS && are_numbers(j) ? numbers_only(j) : no_column(j, RD_VALUE_COLUMN);
}

static int find_value(rd_csv *j) {
  int target = j->l->p->target, rc = SP_OK;
  int by_file = rd_gives(target) == RD_MASK;
  if (!j->n_values && by_file) rc = find_mask(j);
  else if (!j->n_values && target == RD_TARGET_NUMBERS) rc = find_numbers(j);
  else if (!j->n_values) rc = find_labels(j);
  if (rc || !j->n_values) return rc;
  if (by_file && j->n_values > 1) return ask(j, RD_VALUE_COLUMN, j->values[0], j->values[1]);
  j->at[RD_VALUE_COLUMN] = j->values[0];
  if (target != RD_TARGET_NUMBERS && j->n_values == 1) j->n_values = 0;
  j->is_hot = j->n_values > 0 && target != RD_TARGET_NUMBERS;
  return SP_OK;
}

/* ---- the header ---- */
static int keep_fields(rd_csv *j, rd_names *to) {
  for (int i = 0; i < j->in.n; i++) {
    char *p = (char *)rd_csv_field(&j->in, i), *end = p + strlen(p);
    text_trim(&p, &end);
    *end = 0;
    for (char *q = p; *q; q++)
      if ((unsigned char)*q < ' ' || *q == 127) *q = ' '; /* a name of two lines */
    if (rd_names_add(to, p)) return rd_no_memory(j->l);
  }
  return SP_OK;
}

/* Columns are numbered where they have no names. */
static int number_columns(rd_csv *j) {
  char name[16];
  for (int i = 0; i < j->in.n; i++) {
    snprintf(name, sizeof name, "%d", i + 1);
    if (rd_names_add(&j->names, name)) return rd_no_memory(j->l);
  }
  return SP_OK;
}

/* The first row names a picture: it is data. */
static int is_data(const rd_csv *j) {
  int named = 0, pictures = 0;
  for (int i = 0; i < j->in.n; i++) {
    const char *cell = rd_csv_field(&j->in, i);
    named |= rd_is_called(rd_called_files, cell) || rd_is_called(rd_called_labels, cell) ||
             rd_is_called(rd_called_masks, cell);
    pictures |= rd_is_image(cell);
  }
  return pictures && !named;
}

static int read_names(rd_csv *j) {
  rd_csv_file *c = &j->in;
  size_t begin = c->at;
  int64_t line = c->next_line;
  int rc = rd_csv_next(c);
  if (rc) return rc;
  if (!c->n)
    return rd_csv_fail(j, SP_E_DATA, "%s is empty; a row for each image is wanted, below names of columns", c->path);
  int how = j->l->p->csv.header;
  j->headless = c->n && (how == RD_HEADER_NO || (how == RD_HEADER_AUTO && is_data(j)));
  if ((rc = j->headless ? number_columns(j) : keep_fields(j, &j->names))) return rc;
  size_t at = j->headless ? begin : c->at;
  int64_t next = j->headless ? line : c->next_line, header = c->line;
  if (!j->headless && c->n) rc = rd_csv_next(c);
  if (!rc) rc = keep_fields(j, &j->first);
  c->at = at;
  c->next_line = next;
  c->line = header;
  return rc;
}

/* What was guessed, and what is not read. */
static void tell(rd_csv *j, unsigned given) {
  int unread[RD_MAX_COLUMNS], n = 0;
  char list[1024];
  const char *value = j->at[RD_VALUE_COLUMN] >= 0 ? j->names.v[j->at[RD_VALUE_COLUMN]] : "";
  const char *file = j->names.v[j->at[RD_FILE_COLUMN]], *usual = role_name(j, RD_VALUE_COLUMN);
  for (int i = 0; i < (int)j->names.n; i++)
    if (!is_taken(j, i)) unread[n++] = i;
  if (j->in.separator != RD_SEP_COMMA && !j->l->p->csv.separator)
    rd_note(j->l, "fields are separated by %s", rd_separator_words[j->in.separator]);
  if (j->headless && !j->l->p->csv.header)
    rd_note(j->l, "the first row is data, not names of columns: column %s is the file, column %s the %s", file, value,
            usual);
  else if (j->n_values && !(given & 1u << RD_VALUE_COLUMN)) {
    list_names(j, j->values, (size_t)j->n_values, list, sizeof list);
    rd_note(j->l, "column %s names the files; %s: %s", file, j->is_hot ? "a class each, 0 or 1, are" : "numbers are",
            list);
  } else if (!given && !j->n_values && (strcmp(file, "file") || strcmp(value, usual)))
    rd_note(j->l, "column %s names the files, column %s is the %s", file, value, usual);
  if (j->at[RD_SECOND_COLUMN] >= 0 && !(given & 1u << RD_SECOND_COLUMN))
    rd_note(
        j->l,
        "two images a sample: column %s has the first, column %s the second; `columns = \"file=%s,second=\"` reads the "
        "first alone",
        file, j->names.v[j->at[RD_SECOND_COLUMN]], file);
  if (j->at[RD_SPLIT_COLUMN] >= 0 && strcmp(j->names.v[j->at[RD_SPLIT_COLUMN]], "split") &&
      !(given & 1u << RD_SPLIT_COLUMN))
    rd_note(j->l, "column %s says what validates", j->names.v[j->at[RD_SPLIT_COLUMN]]);
  if (!n) return;
  list_names(j, unread, (size_t)n, list, sizeof list);
  rd_note(j->l, "%d column%s of %zu %s not read: %s", n, n == 1 ? "" : "s", j->names.n, n == 1 ? "is" : "are", list);
}

int rd_csv_header(rd_csv *j) {
  unsigned given = 0;
  for (int k = 0; k < RD_ROLES; k++) j->at[k] = -1;
  int rc = read_names(j);
  if (!rc) rc = find_weight(j);
  if (!rc && *j->l->p->csv.columns) rc = take_columns(j, &given);
  if (!rc) rc = find_seconds(j, given);
  if (!rc) rc = find_file(j);
  if (!rc && j->l->t) look_at_seconds(j, given);
  if (!rc && !(given & 1u << RD_SPLIT_COLUMN)) rc = find_split(j);
  if (!rc) rc = find_value(j);
  if (rc) return rc;
  const char *other = *j->l->p->val_path ? j->l->p->val_path : j->files[1];
  if (j->at[RD_SPLIT_COLUMN] >= 0 && *other)
    return rd_csv_fail(j, SP_E_INVALID,
                       "%s has a column %s, and val_path = \"%s\" is given: both say what is for validation; leave one "
                       "out, or `columns = \"split=\"`",
                       j->in.path, j->names.v[j->at[RD_SPLIT_COLUMN]], other);
  tell(j, given);
  return SP_OK;
}

void rd_csv_forget(rd_csv *j) {
  j->n_more = 0;
  rd_names_free(&j->names);
  rd_names_free(&j->first);
  free(j->values);
  j->values = NULL;
  j->n_values = j->is_hot = j->headless = j->hot_known = 0;
}
