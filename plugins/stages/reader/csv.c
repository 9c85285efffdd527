/* SPDX-License-Identifier: MIT
 * csv.c - the layout `csv`: one .csv file whose header names `file` and `label` or `mask`, and perhaps `split`. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "class_file.h"
#include "csv_file.h"
#include "table.h"
#include "words.h"

/* ---- which file ---- */
static int ends_in_csv(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot && !strcasecmp(dot, ".csv");
}

int rd_is_csv(const char *path) {
  struct stat st;
  return ends_in_csv(path) && !stat(path, &st) && S_ISREG(st.st_mode);
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

int rd_stamp_csv(rd_listing *l) {
  char file[4096];
  return !rd_is_csv(l->p->path) && find_csv(l->p->path, file) == 1 ? rd_stamp_path(l, file) : SP_OK;
}

/* ---- the rows ---- */
enum { FILE_COLUMN, VALUE_COLUMN, SPLIT_COLUMN, N_COLUMNS };

typedef struct job {
  rd_listing *l;
  rd_csv_file csv;
  const char *names[N_COLUMNS];
  int at[N_COLUMNS]; /* where in a row; -1: not there */
  int columns;       /* that a row has */
  const char *file;  /* the one of `files` that is being read */
  char files[2][4096], dirs[2][4096];
  const char *dir;     /* where it lies */
  rd_numbered folders; /* each is the source of its number */
  rd_words labels;
} job;

static int complain(job *j, int column, const char *words, const char *cure) {
  return j->l->ctx->host->fail(j->l->ctx, SP_E_DATA, "%s line %" PRId64 ", column %d (%s): %s; %s", j->file,
                               j->csv.line, j->at[column] + 1, j->names[column], words, cure);
}

/* Names in the header, with or without blanks around. */
static int is_name(const char *field, const char *name) {
  while (isspace((unsigned char)*field)) field++;
  size_t n = strlen(name);
  if (strncmp(field, name, n)) return 0;
  for (field += n; isspace((unsigned char)*field); field++) continue;
  return !*field;
}

static int take_header(job *j) {
  rd_csv_file *c = &j->csv;
  int rc = rd_csv_next(c);
  if (rc) return rc;
  j->columns = c->n;
  for (int k = 0; k < N_COLUMNS; k++) {
    j->at[k] = -1;
    for (int i = c->n; i-- > 0;)
      if (is_name(rd_csv_field(c, i), j->names[k])) j->at[k] = i;
  }
  if (j->at[SPLIT_COLUMN] >= 0 && *j->l->p->val_path)
    return c->ctx->host->fail(c->ctx, SP_E_INVALID,
                              "%s has a column split, and val_path = \"%s\" is given: both say what is for validation; "
                              "leave one out",
                              j->file, j->l->p->val_path);
  for (int k = 0; k < SPLIT_COLUMN; k++)
    if (j->at[k] < 0)
      return c->ctx->host->fail(c->ctx, SP_E_DATA,
                                "%s line %" PRId64
                                ": no column '%s'; for target = \"%s\" the first line names file and "
                                "%s, with a comma between, and perhaps split",
                                j->file, c->n ? c->line : 1, j->names[k],
                                j->l->p->target == RD_TARGET_CLASS ? "class" : "mask", j->names[VALUE_COLUMN]);
  return SP_OK;
}

static const char *field(const job *j, int column) { return rd_csv_field(&j->csv, j->at[column]); }

/* Windows writes '\\' between folders; here it may be part of a name. */
static void straighten(char *name) {
  for (char *p = name; (p = strchr(p, '\\'));) *p = '/';
}

/* From the .csv file's folder on. Returns less than 0 where there is no room for it. */
static int path_of(const job *j, const char *name, char to[4096]) {
  int absolute = *name == '/';
  return snprintf(to, 4096, "%s%s%s", absolute ? "" : j->dir, absolute ? "" : "/", name) < 4096 ? 0 : -1;
}

/* The file of a column: it has to be there. */
static int take_file(job *j, int column, rd_ref *ref) {
  rd_table *t = j->l->t;
  char *name = j->csv.text + j->csv.begin[j->at[column]];
  char path[4096], folder[4096], words[4500];
  if (!*name) return complain(j, column, "it is empty", "write the path of a file, from this one's folder on");
  if (path_of(j, name, path)) return complain(j, column, "the path is too long", "4095 bytes are possible");
  if (access(path, R_OK) && strchr(name, '\\')) {
    straighten(name);
    path_of(j, name, path);
  }
  if (access(path, R_OK)) {
    snprintf(words, sizeof words, "%s: %s", path, strerror(errno));
    return complain(j, column, words, "files are looked for from the .csv file's folder on");
  }
  int n = (int)(strrchr(path, '/') - path);
  snprintf(folder, sizeof folder, "%.*s", n ? n : 1, path);
  int64_t source = rd_number_of(&j->folders, folder);
  uint32_t added = (uint32_t)source;
  if (source < 0 || (source == (int64_t)t->n_sources && rd_add_source(t, RD_FILES, folder, &added)))
    return rd_no_memory(j->l);
  const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
  return rd_set_file(t, ref, added, last, strlen(last)) ? rd_no_memory(j->l) : SP_OK;
}

static int take_label(job *j, rd_sample *s) {
  const char *text = field(j, VALUE_COLUMN);
  char where[4200];
  snprintf(where, sizeof where, "%s line %" PRId64 ", column %d (label)", j->file, j->csv.line,
           j->at[VALUE_COLUMN] + 1);
  int rc = rd_add_word(&j->labels, text, strlen(text), where, &s->label);
  if (rc == SP_E_DATA)
    return complain(j, VALUE_COLUMN, "it is empty, or too long, or has a line break, or is no UTF-8",
                    "write the name or the number of a class");
  return rc ? rd_no_memory(j->l) : SP_OK;
}

/* The part that a row belongs to; -1: it is neither. */
static int part_of(const job *j) {
  if (j->at[SPLIT_COLUMN] < 0) return 0;
  return is_name(field(j, SPLIT_COLUMN), "train") ? 0 : is_name(field(j, SPLIT_COLUMN), "val") ? 1 : -1;
}

static int take_row(job *j, int part) {
  rd_listing *l = j->l;
  if (j->csv.n != j->columns)
    return l->ctx->host->fail(l->ctx, SP_E_DATA,
                              "%s line %" PRId64 ": %d fields, but the header has %d; put fields with commas in quotes",
                              j->file, j->csv.line, j->csv.n, j->columns);
  int its = part_of(j);
  if (its < 0) return complain(j, SPLIT_COLUMN, "it is neither train nor val", "write one of these");
  if (j->at[SPLIT_COLUMN] >= 0 && its != part) return SP_OK;
  rd_sample *s = rd_add_sample(l->t);
  if (!s) return rd_no_memory(l);
  int rc = take_file(j, FILE_COLUMN, &s->image);
  if (rc) return rc;
  s->key = rd_hash_name(field(j, FILE_COLUMN));
  return l->t->gives == RD_LABEL ? take_label(j, s) : take_file(j, VALUE_COLUMN, &s->mask);
}

/* The rows of a part: all of a file, or those that its column `split` says. */
static int take_rows(job *j, int part) {
  rd_listing *l = j->l;
  size_t from = l->t->n;
  j->file = j->files[*l->p->val_path ? part : 0];
  j->dir = j->dirs[*l->p->val_path ? part : 0];
  int rc = rd_csv_open(l->ctx, j->file, &j->csv);
  if (!rc) rc = take_header(j);
  while (!rc && !(rc = rd_csv_next(&j->csv)) && j->csv.n) rc = take_row(j, part);
  rd_csv_close(&j->csv);
  l->t->ends[part] = l->t->n;
  if (rc || l->t->n > from) return rc;
  if (j->at[SPLIT_COLUMN] < 0)
    return l->ctx->host->fail(l->ctx, SP_E_DATA, "%s has a header, but no rows; one for each image", j->file);
  return l->ctx->host->fail(l->ctx, SP_E_DATA, "%s: no row's split is %s; without that column val_fraction divides",
                            j->file, part ? "val" : "train");
}

static int number_labels(job *j) {
  char file[4096 + 16];
  snprintf(file, sizeof file, "%s/classes.txt", j->dirs[0]);
  int rc = rd_stamp_path(j->l, file);
  return rc ? rc : rd_number_words(j->l, j->dirs[0], &j->labels, NULL);
}

/* ---- the layout ---- */
static int has_column(const rd_csv_file *c, const char *name) {
  for (int i = 0; i < c->n; i++)
    if (is_name(rd_csv_field(c, i), name)) return 1;
  return 0;
}

/* A folder has to have one .csv file, with both columns: it may hold one that is about something else. */
static int csv_like(const char *path, const char *value) {
  char file[4096], dir[4096];
  if (rd_is_csv(path)) return 1;
  if (file_and_folder(path, file, dir) != 1) return 0;
  rd_csv_file c;
  int like = !rd_csv_open(NULL, file, &c) && !rd_csv_next(&c) && has_column(&c, "file") && has_column(&c, value);
  rd_csv_close(&c);
  return like;
}

static int labels_like(const char *path) { return csv_like(path, "label"); }
static int masks_like(const char *path) { return csv_like(path, "mask"); }

/* Which files, and whether a column divides their rows. */
static int find_files(job *j) {
  rd_listing *l = j->l;
  const char *const paths[] = {l->p->path, l->p->val_path};
  int two = !!*l->p->val_path, rc = two ? rd_other_part(l, "a .csv file") : SP_OK;
  for (int k = 0; !rc && k <= two; k++) {
    int n = file_and_folder(paths[k], j->files[k], j->dirs[k]);
    if (n != 1)
      rc = l->ctx->host->fail(l->ctx, SP_E_DATA, "%s holds %d .csv files; name one of them, or a folder with one",
                              paths[k], n);
    else rc = rd_stamp_path(l, j->files[k]);
  }
  if (rc) return rc;
  j->file = j->files[0];
  rc = rd_csv_open(l->ctx, j->file, &j->csv);
  if (!rc) rc = take_header(j);
  rd_csv_close(&j->csv);
  if (rc || j->at[SPLIT_COLUMN] < 0) return rc;
  l->t->n_parts = 2;
  l->parts[1] = l->parts[0];
  return rd_check_own(l, "has a column split, which says");
}

static int csv_list(rd_listing *l) {
  int by_class = l->p->target == RD_TARGET_CLASS;
  job j = {.l = l, .names = {"file", by_class ? "label" : "mask", "split"}};
  l->t->gives = by_class ? RD_LABEL : RD_MASK;
  int rc = find_files(&j);
  for (int k = 0; !rc && k < l->t->n_parts; k++) rc = take_rows(&j, k);
  if (!rc && by_class) rc = number_labels(&j);
  rd_numbered_free(&j.folders);
  rd_words_free(&j.labels);
  return rc;
}

static int masks_settle(sp_ctx *ctx, rd_self *self) {
  char file[4096], dir[4096];
  file_and_folder(self->p->path, file, dir);
  return rd_settle_masks(ctx, self, dir, NULL);
}

const rd_lister rd_csv_labels = {"csv", RD_TARGET_CLASS, labels_like, csv_list, rd_settle_words, RD_KEPT};
const rd_lister rd_csv_masks = {"csv", RD_TARGET_MASK, masks_like, csv_list, masks_settle, RD_KEPT};
