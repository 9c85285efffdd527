/* SPDX-License-Identifier: MIT
 * csv.c - the layout `csv`: one .csv file with a row for each image: its file, what is known of it, and perhaps its
 * part.
 *
 * csv_file.c takes rows apart, csv_columns.c says which column is what, csv_paths.c where the files are, csv_cells.c
 * and csv_numbers.c what the values are, repeats.c which files are named twice. */
#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "class_file.h"
#include "csv.h"
#include "maps.h"

/* ---- which file ---- */
static int ends_in_csv(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot && (!strcasecmp(dot, ".csv") || !strcasecmp(dot, ".tsv"));
}

/* A list as ImageNet has it, "PATH LABEL" a line: where it is named, not where it lies in a folder beside others. */
static int ends_in_txt(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot && (!strcasecmp(dot, ".txt") || !strcasecmp(dot, ".lst"));
}

int rd_is_csv(const char *path) {
  struct stat st;
  if (stat(path, &st) || !S_ISREG(st.st_mode)) return 0;
  return ends_in_csv(path) || (ends_in_txt(path) && !rd_lists_shards(path));
}

/* The column of the first row whose field is the name of an image in `dir`; NULL: there is none. */
static const char *names_images(const char *file, const char *dir, char column[128]) {
  rd_csv_file c;
  char path[4096], names[8][128];
  int n = 0, found = -1;
  if (!rd_csv_open(NULL, file, 0, &c) && !rd_csv_next(&c)) {
    for (; n < c.n && n < 8; n++) snprintf(names[n], sizeof names[n], "%s", rd_csv_field(&c, n));
    if (!rd_csv_next(&c))
      for (int k = 0; k < c.n && k < n && found < 0; k++)
        if (rd_is_picture(rd_csv_field(&c, k)) &&
            snprintf(path, sizeof path, "%s/%s", dir, rd_csv_field(&c, k)) < (int)sizeof path && !access(path, F_OK))
          found = k;
  }
  rd_csv_close(&c);
  return found < 0 ? NULL : strcpy(column, names[found]);
}

int rd_doubt_tables(rd_listing *l, const char *dir) {
  rd_names names = {0};
  char path[4096], column[128];
  int rc = SP_OK;
  if (l->p->folders != RD_FOLDERS_AUTO || (!rd_may_be_classes(dir) && !rd_looks_divided(dir, &rd_classes)))
    return SP_OK;
  DIR *d = opendir(dir);
  for (struct dirent *e; d && !rc && (e = readdir(d));)
    if (e->d_name[0] != '.' && ends_in_csv(e->d_name) && rd_names_add(&names, e->d_name)) rc = rd_no_memory(l);
  if (d) closedir(d);
  rd_names_sort(&names, rd_by_name);
  for (size_t i = 0; i < names.n; i++) /* the one for training is named before others */
    if (rd_read_hints(names.v[i]).part == RD_TRAIN_PART && i) {
      char *first = names.v[i];
      memmove(names.v + 1, names.v, i * sizeof *names.v);
      *names.v = first;
    }
  for (size_t i = 0; !rc && i < names.n; i++) {
    if (snprintf(path, sizeof path, "%s/%s", dir, names.v[i]) >= (int)sizeof path || !names_images(path, dir, column))
      continue;
    rc = l->ctx->host->fail(l->ctx, SP_E_DATA,
                            "%s holds a folder for each class, and %s, whose column %s names images: which says the "
                            "classes, for target = \"class\" (train_cls.lua)? `folders = \"%s\"` takes the folders; "
                            "name the table itself, %s, if it does",
                            dir, names.v[i], column, rd_may_be_classes(dir) ? "classes" : "parts", path);
  }
  rd_names_free(&names);
  return rc;
}

/* How many .csv files a folder holds; the path of one goes to `out`. */
static int find_csv(const char *dir, char out[4096]) {
  DIR *d = opendir(dir);
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.' && ends_in_csv(e->d_name) && !n++)
      if (snprintf(out, 4096, "%s/%s", dir, e->d_name) >= 4096) n = 0;
  if (d) closedir(d);
  return n;
}

/* Several .csv files in a folder of which none is called train: which is meant only the user knows. SP_OK:
 * there are not several. */
int rd_check_one_csv(sp_ctx *ctx, const char *dir) {
  rd_names names = {0};
  char list[512] = "";
  size_t at = 0;
  DIR *d = opendir(dir);
  int rc = SP_OK;
  for (struct dirent *e; d && !rc && (e = readdir(d));)
    if (e->d_name[0] != '.' && ends_in_csv(e->d_name)) rc = rd_names_add(&names, e->d_name);
  if (d) closedir(d);
  rd_names_sort(&names, rd_by_stem);
  for (size_t i = 0; i < names.n && i < 4; i++)
    at += (size_t)snprintf(list + at, sizeof list - at, "%s%.100s", i ? ", " : "", names.v[i]);
  if (!rc && names.n > 1)
    rc = ctx->host->fail(
        ctx, SP_E_NOTFOUND,
        "%s holds %zu .csv files, %s%s, and none of them is called train.csv: name the one that says what "
        "the images are, such as %s/%s",
        dir, names.n, list, names.n > 4 ? " ..." : "", dir, names.v[0]);
  rd_names_free(&names);
  return rc;
}

/* Of several .csv files that which is called train, and that which is called val; others are of something else. How
 * many are called train: 1 is wanted. */
static int find_parts(const char *dir, char train[4096], char val[4096]) {
  DIR *d = opendir(dir);
  int n = 0, vals = 0;
  *val = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    char stem[256];
    if (e->d_name[0] == '.' || !ends_in_csv(e->d_name)) continue;
    snprintf(stem, sizeof stem, "%.*s", (int)rd_stem_length(e->d_name), e->d_name);
    int part = rd_read_folder_name(stem).part;
    if (part == RD_TRAIN_PART && !n++ && snprintf(train, 4096, "%s/%s", dir, e->d_name) >= 4096) n = 9;
    if (part == RD_VAL_PART && !vals++ && snprintf(val, 4096, "%s/%s", dir, e->d_name) >= 4096) n = 9;
  }
  if (d) closedir(d);
  return vals > 1 ? 9 : n;
}

/* The path of the file that is meant, and of the folder that it lies in. How many such files there are: 1 is wanted. */
static int file_and_folder(const char *path, char file[4096], char dir[4096]) {
  if (snprintf(dir, 4096, "%s", path) >= 4096) return 0;
  if (!rd_is_csv(path)) return find_csv(path, file);
  char *slash = strrchr(dir, '/');
  strcpy(file, path);
  if (!slash) strcpy(dir, ".");
  else slash[slash == dir] = 0;
  return 1;
}

int rd_has_csv(const char *path) {
  char file[4096];
  return rd_is_csv(path) || find_csv(path, file) == 1;
}

int rd_stamp_csv(rd_listing *l) {
  char file[4096];
  return !rd_is_csv(l->p->path) && find_csv(l->p->path, file) == 1 ? rd_stamp_path(l, file) : SP_OK;
}

/* ---- the rows ---- */
int rd_csv_fail(const rd_csv *j, int status, const char *fmt, ...) {
  char line[8192];
  sp_ctx *ctx = j->l->ctx;
  va_list ap;
  if (!ctx) return status;
  va_start(ap, fmt);
  vsnprintf(line, sizeof line, fmt, ap);
  va_end(ap);
  for (char *p = line; *p; p++) /* names and cells may have line breaks */
    if ((unsigned char)*p < ' ' || *p == 127) *p = ' ';
  return ctx->host->fail(ctx, status, "%s", line);
}

int rd_csv_complain(const rd_csv *j, int column, const char *words, const char *cure) {
  return rd_csv_fail(j, SP_E_DATA, "%s line %" PRId64 ", column %d (%s): %s; %s", j->in.path, j->in.line, column + 1,
                     j->names.v[column], words, cure);
}

const char *rd_csv_value(const rd_csv *j, int column) { return rd_csv_field(&j->in, column); }

/* The part that a row belongs to; less than 0: a status. */
static int part_of(rd_csv *j) {
  int at = j->at[RD_SPLIT_COLUMN];
  if (at < 0) return j->k ? RD_VAL_PART : RD_TRAIN_PART;
  char *word = (char *)rd_csv_value(j, at), *end = word + strlen(word), cure[256];
  text_trim(&word, &end);
  *end = 0;
  int part = rd_csv_part(j, word);
  if (part) return part;
  snprintf(cure, sizeof cure,
           "write one of these, or say which value validates, `val_value = \"%.60s\"`, the others then train",
           *word ? word : "VALUE");
  return rd_csv_complain(j, at, "it is neither train nor val", cure);
}

static rd_csv_row *add_row(rd_csv *j) {
  rd_csv_row *r = rd_grow(j->rows, j->l->t->n, 1, &j->rows_cap, sizeof *r);
  if (r) j->rows = r;
  return r ? &r[j->l->t->n] : NULL;
}

static int take_second(rd_csv *j) {
  rd_ref *second = rd_add_second(j->l->t);
  return second ? rd_csv_take_file(j, j->at[RD_SECOND_COLUMN], second) : rd_no_memory(j->l);
}

static int take_row(rd_csv *j) {
  rd_listing *l = j->l;
  int skip = 0;
  if ((size_t)j->in.n != j->names.n)
    return rd_csv_fail(j, SP_E_DATA, "%s line %" PRId64 ": %d fields, but the %s has %zu; put fields with %s in quotes",
                       j->in.path, j->in.line, j->in.n, j->headless ? "first row" : "header", j->names.n,
                       rd_separator_words[j->in.separator]);
  int part = part_of(j);
  if (part < 0) return part;
  rd_csv_row *row = add_row(j);
  rd_sample *s = row ? rd_add_sample(l->t) : NULL;
  if (!s) return rd_no_memory(l);
  *row = (rd_csv_row){(uint32_t)j->in.line, (uint8_t)part, (uint8_t)j->k};
  s->key = rd_hash_name(rd_csv_value(j, j->at[RD_FILE_COLUMN]));
  int rc =
      l->t->gives == RD_MASK ? rd_csv_take_file(j, j->at[RD_VALUE_COLUMN], &s->mask) : rd_csv_take_value(j, s, &skip);
  if (!rc && !skip) rc = rd_csv_take_file(j, j->at[RD_FILE_COLUMN], &s->image);
  if (!rc && !skip && j->at[RD_SECOND_COLUMN] >= 0) rc = take_second(j);
  if (!rc && !skip && j->weight >= 0) rc = rd_csv_take_weight(j, s);
  if (!skip) return rc;
  l->t->n--;
  if (!j->n_left[1]++) j->first_left[1] = (size_t)j->in.line;
  return rc;
}

static int open_file(rd_csv *j, int k) {
  rd_csv_forget(j);
  j->k = k;
  int rc = rd_csv_open(j->l->ctx, j->files[k], j->l->p->csv.separator, &j->in);
  if (!rc) rc = rd_csv_header(j);
  if (rc || !j->l->t->n || (j->at[RD_SECOND_COLUMN] >= 0) == !!j->l->t->seconds) return rc;
  return rd_csv_fail(j, SP_E_DATA, "%s has %s, %s has %s: give both files the same columns", j->files[0],
                     j->l->t->seconds ? "two images a row" : "one image a row", j->files[k],
                     j->l->t->seconds ? "one" : "two");
}

static int take_rows(rd_csv *j, int k) {
  size_t from = j->l->t->n;
  int rc = open_file(j, k);
  if (!rc && (j->at[RD_SPLIT_COLUMN] >= 0 || *j->files[1])) j->l->t->n_parts = 2;
  while (!rc && !(rc = rd_csv_next(&j->in)) && j->in.n) rc = take_row(j);
  if (!rc && j->l->t->n == from)
    rc = rd_csv_fail(j, SP_E_DATA,
                     j->n_left[1] ? "%s: no row has a value" : "%s has a header, but no rows; one for each image",
                     j->in.path);
  rd_csv_close(&j->in);
  return rc;
}

/* ---- the parts ---- */
/* Those for training move to the front, where they lie; those of the part `val` wait aside, and go behind them. */
static int put_parts(rd_csv *j, int val, size_t n_train, size_t n_val) {
  rd_table *t = j->l->t;
  rd_sample *samples = malloc((n_val + 1) * sizeof *samples);
  rd_ref *seconds = t->seconds ? malloc((n_val + 1) * sizeof *seconds) : NULL;
  rd_csv_row *rows = malloc((n_val + 1) * sizeof *rows);
  int rc = samples && rows && !seconds == !t->seconds ? SP_OK : rd_no_memory(j->l);
  for (size_t i = 0, to = 0, aside = 0; !rc && i < t->n; i++) {
    if (j->rows[i].part == RD_TRAIN_PART) {
      rd_move_sample(t, to, i);
      j->rows[to++] = j->rows[i];
    } else if (n_val && j->rows[i].part == val) {
      samples[aside] = t->samples[i];
      if (seconds) seconds[aside] = t->seconds[i];
      rows[aside++] = j->rows[i];
    }
  }
  if (!rc) {
    memcpy(t->samples + n_train, samples, n_val * sizeof *samples);
    if (seconds) memcpy(t->seconds + n_train, seconds, n_val * sizeof *seconds);
    memcpy(j->rows + n_train, rows, n_val * sizeof *rows);
    t->n = n_train + n_val;
  }
  free(samples);
  free(seconds);
  free(rows);
  return rc;
}

/* Training in front, then validation; what is for neither is left out. */
static int divide(rd_csv *j) {
  rd_table *t = j->l->t;
  size_t n[RD_PARTS] = {0};
  for (size_t i = 0; i < t->n; i++) n[j->rows[i].part]++;
  int val = n[RD_VAL_PART] || t->n_parts == 1 ? RD_VAL_PART : RD_TEST_PART;
  if (t->n_parts == 2 && (!n[RD_TRAIN_PART] || !n[val]))
    return rd_csv_fail(j, SP_E_DATA,
                       "%s: no row's split is %s; without that column val_fraction divides: `columns = \"split=\"`",
                       j->files[0], n[RD_TRAIN_PART] ? "val" : "train");
  if (n[RD_TEST_PART] && val == RD_TEST_PART) rd_note(j->l, "no row's split is val, so those of test validate");
  else if (n[RD_TEST_PART])
    rd_note(j->l, "%zu row%s of test %s left out", n[RD_TEST_PART], n[RD_TEST_PART] == 1 ? "" : "s",
            n[RD_TEST_PART] == 1 ? "is" : "are");
  int rc = put_parts(j, val, n[RD_TRAIN_PART], t->n_parts == 2 ? n[val] : 0);
  if (rc) return rc;
  t->ends[0] = n[RD_TRAIN_PART];
  t->ends[t->n_parts - 1] = t->n;
  return SP_OK;
}

/* ---- the layout ---- */
/* The first row's files are there, so that the names of columns mean what they seem to mean: masks may also be run
 * lengths. */
static int finds_first(rd_csv *j, int has_masks) {
  char path[4096];
  if (rd_csv_next(&j->in) || j->in.n != (int)j->names.n) return 0;
  for (int k = 0; k <= has_masks; k++) {
    int at = j->at[k ? RD_VALUE_COLUMN : RD_FILE_COLUMN];
    if (rd_csv_locate(j, at, rd_csv_value(j, at), path)) return 0;
  }
  return 1;
}

/* A folder has to have one .csv file, with both columns: it may hold one that is about something else. */
static int csv_like(const char *path, int target) {
  if (rd_is_csv(path)) return 1;
  rd_params p = {.path = path,
                 .val_path = "",
                 .target = target,
                 .csv = {.columns = "", .root = "", .val_value = "", .label_separator = ""}};
  rd_listing *l = calloc(1, sizeof *l);
  rd_csv *j = calloc(1, sizeof *j);
  int like = 0;
  if (l && j &&
      (file_and_folder(path, j->files[0], j->dirs[0]) == 1 || find_parts(path, j->files[0], j->files[1]) == 1)) {
    *j->files[1] = 0;
    *l = (rd_listing){.p = &p};
    j->l = l;
    like = !rd_csv_open(NULL, j->files[0], 0, &j->in) && !rd_csv_header(j);
    if (like) {
      const char *file = j->names.v[j->at[RD_FILE_COLUMN]], *value = j->names.v[j->at[RD_VALUE_COLUMN]];
      int usual = !strcmp(file, "file") && !strcmp(value, target == RD_TARGET_MASK  ? "mask"
                                                           : target == RD_TARGET_MAP ? "map"
                                                                                     : "label");
      int encoded = rd_gives(target) == RD_LABEL && strcasestr(value, "mask"); /* run lengths of it */
      like = !encoded && (usual || finds_first(j, rd_gives(target) == RD_MASK));
    }
    rd_csv_close(&j->in);
    rd_csv_forget(j);
  }
  free(l);
  free(j);
  return like;
}

static int masks_like(const char *path) { return csv_like(path, RD_TARGET_MASK); }
static int maps_like(const char *path) { return csv_like(path, RD_TARGET_MAP); }
static int class_like(const char *path) { return csv_like(path, RD_TARGET_CLASS); }
static int labels_like(const char *path) { return csv_like(path, RD_TARGET_LABELS); }
static int numbers_like(const char *path) { return csv_like(path, RD_TARGET_NUMBERS); }

/* train.csv, and val.csv where there is one; n: .csv files in the folder. */
static int take_parts(rd_csv *j, int n) {
  rd_listing *l = j->l;
  int two = !!*j->files[1], rc = SP_OK;
  const char *train = strrchr(j->files[0], '/') + 1, *val = two ? strrchr(j->files[1], '/') + 1 : "";
  strcpy(j->dirs[1], j->dirs[0]);
  if (n > 1 + two)
    rd_note(l, "of %d .csv files %s%s%s %s which files there are", n, train, two ? " and " : "", val,
            two ? "say" : "says");
  for (int k = 0; !rc && k <= two; k++) rc = rd_stamp_path(l, j->files[k]);
  if (rc || !two) return rc;
  char has[300];
  snprintf(has, sizeof has, "has %.120s and %.120s, which say", train, val);
  l->parts[1] = l->parts[0];
  l->t->n_parts = 2;
  return rd_check_own(l, has);
}

/* Which files, and whether a column divides their rows. */
static int find_files(rd_csv *j) {
  rd_listing *l = j->l;
  const char *const paths[] = {l->p->path, l->p->val_path};
  int two = !!*l->p->val_path, rc = two ? rd_other_part(l, "a .csv file") : SP_OK;
  for (int k = 0; !rc && k <= two; k++) {
    int n = file_and_folder(paths[k], j->files[k], j->dirs[k]);
    if (n > 1 && !two && find_parts(paths[k], j->files[0], j->files[1]) == 1) {
      rc = take_parts(j, n);
      continue;
    }
    if (n != 1) rc = rd_check_one_csv(l->ctx, paths[k]);
    if (n != 1 && !rc) rc = l->ctx->host->fail(l->ctx, SP_E_DATA, "%s holds no .csv file that can be read", paths[k]);
    if (n == 1) rc = rd_stamp_path(l, j->files[k]);
  }
  int beside = l->p->target == RD_TARGET_CLASS && !rd_is_csv(l->p->path) && rd_may_be_classes(l->p->path);
  if (!rc && !rd_is_csv(l->p->path) && (!*j->files[1] || beside))
    rd_note(l, "%s says which files there are%s", strrchr(j->files[0], '/') + 1,
            beside ? ", and the folders are not taken for classes: `folders = \"classes\"` takes them" : "");
  if (!rc) rc = open_file(j, 0);
  rd_csv_close(&j->in);
  if (rc || j->at[RD_SPLIT_COLUMN] < 0) return rc;
  char has[128];
  snprintf(has, sizeof has, "has a column %.80s, which says", j->names.v[j->at[RD_SPLIT_COLUMN]]);
  l->parts[1] = l->parts[0];
  return rd_check_own(l, has);
}

static void tell_left(rd_csv *j) {
  if (j->n_left[1])
    rd_note(j->l, "%zu row%s without a value %s left out, the first in line %zu", j->n_left[1],
            j->n_left[1] == 1 ? "" : "s", j->n_left[1] == 1 ? "is" : "are", j->first_left[1]);
}

static int csv_list(rd_listing *l) {
  rd_csv *j = calloc(1, sizeof *j);
  if (!j) return rd_no_memory(l);
  j->l = l;
  j->cells.most = 4096;
  j->cells.empty = 1;
  l->t->gives = rd_gives(l->p->target);
  int rc = find_files(j);
  for (int k = 0; !rc && k <= !!*j->files[1]; k++) rc = take_rows(j, k);
  if (!rc) rc = divide(j);
  if (!rc) rc = rd_csv_number(j);
  if (!rc) tell_left(j);
  rd_numbered_free(&j->folders);
  rd_words_free(&j->cells);
  rd_words_free(&j->labels);
  rd_csv_forget(j);
  free(j->rows);
  free(j);
  return rc;
}

static int masks_settle(sp_ctx *ctx, rd_self *self) {
  char file[4096], dir[4096];
  file_and_folder(self->p->path, file, dir);
  return rd_settle_masks(ctx, self, dir, NULL);
}

static int maps_settle(sp_ctx *ctx, rd_self *self) { return rd_settle_maps(ctx, self); }

const rd_lister rd_csv_class = {"csv", RD_TARGET_CLASS, class_like, csv_list, rd_settle_words, RD_KEPT};
const rd_lister rd_csv_masks = {"csv", RD_TARGET_MASK, masks_like, csv_list, masks_settle, RD_KEPT};
const rd_lister rd_csv_maps = {"csv", RD_TARGET_MAP, maps_like, csv_list, maps_settle, RD_KEPT};
const rd_lister rd_csv_labels = {"csv", RD_TARGET_LABELS, labels_like, csv_list, rd_settle_words, RD_KEPT};
const rd_lister rd_csv_numbers = {"csv", RD_TARGET_NUMBERS, numbers_like, csv_list, rd_settle_words, RD_KEPT};
