/* SPDX-License-Identifier: MIT
 * layout.c - what lies in the data's folder: classes, and splits of its own, train/ and val/. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "reader.h"

int rd_entry_kind(const char *path, const struct dirent *e) {
  struct stat st;
  if (e->d_type == DT_DIR || e->d_type == DT_REG) return e->d_type;
  if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN) return DT_UNKNOWN;
  if (stat(path, &st)) return -1;
  return S_ISDIR(st.st_mode) ? DT_DIR : S_ISREG(st.st_mode) ? DT_REG : DT_UNKNOWN;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int rd_subfolders(const char *base, rd_names *out) {
  char path[4096];
  DIR *d = opendir(base);
  int rc = d ? 0 : -1;
  errno = d ? 0 : errno;
  for (struct dirent *e; !rc && (e = readdir(d)); errno = 0) {
    if (e->d_name[0] == '.') continue;
    if (snprintf(path, sizeof path, "%s/%s", base, e->d_name) >= (int)sizeof path) errno = ENAMETOOLONG;
    else if (rd_entry_kind(path, e) == DT_DIR && rd_names_add(out, e->d_name)) errno = ENOMEM;
    else continue;
    rc = -1;
    break; /* with errno as it is */
  }
  if (d && !rc && errno) rc = -1;
  int why = errno;
  if (d) closedir(d);
  errno = why;
  if (!rc && out->n) qsort(out->v, out->n, sizeof *out->v, by_name);
  return rc;
}

int rd_tree_like(const char *base) {
  rd_names classes = {NULL, 0, 0};
  int found = 0;
  rd_subfolders(base, &classes);
  for (size_t i = 0; i < classes.n && !found; i++) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", base, classes.v[i]) >= (int)sizeof path) continue;
    DIR *d = opendir(path);
    for (struct dirent *e; d && !found && (e = readdir(d));) found = e->d_name[0] != '.' && rd_is_picture(e->d_name);
    if (d) closedir(d);
  }
  rd_names_free(&classes);
  return found;
}

/* ---- what is not read ---- */
/* Keeps the name that comes first, as folders list theirs in any order. */
static void keep_first(char to[256], const char *name) {
  if (!*to || strcmp(name, to) < 0) snprintf(to, 256, "%.255s", name);
}

void rd_leave(rd_left *l, const char *name, int kind) {
  if (kind == DT_DIR) l->folders++;
  else l->files++;
  keep_first(kind == DT_DIR ? l->folder : l->file, name);
}

static int is_one_of(const char *const *known, const char *name) {
  for (; known && *known; known++)
    if (!strcmp(*known, name)) return 1;
  return 0;
}

void rd_look_beside(rd_self *self, const char *rel, const char *const *known) {
  char path[4096];
  DIR *d = snprintf(path, sizeof path, "%s/%s", self->p->path, rel) < (int)sizeof path ? opendir(path) : NULL;
  for (struct dirent *e; d && (e = readdir(d));) {
    const char *name = path + strlen(self->p->path) + 1;
    if (e->d_name[0] == '.' || is_one_of(known, e->d_name)) continue;
    if (snprintf(path, sizeof path, "%s/%s%s", self->p->path, rel, e->d_name) >= (int)sizeof path) continue;
    int kind = rd_entry_kind(path, e);
    if (kind == DT_DIR && !known) continue;
    if (kind == DT_DIR || !rd_is_picture(name)) rd_leave(&self->left, name, kind);
    else self->left.strays++;
    if (kind != DT_DIR) keep_first(self->left.file, name);
  }
  if (d) closedir(d);
}

/* "2 folders", or nothing; with a comma in front behind others. */
static void count(char *to, size_t size, size_t n, const char *one, const char *many) {
  size_t at = strlen(to);
  if (n) snprintf(to + at, size - at, "%s%zu %s", at ? ", " : "", n, n == 1 ? one : many);
}

void rd_tell_left(sp_ctx *ctx, const rd_self *self) {
  const rd_left *l = &self->left;
  char words[256] = "";
  count(words, sizeof words, l->folders, "folder", "folders");
  count(words, sizeof words, l->strays, "image outside of the classes' folders",
        "images outside of the classes' folders");
  count(words, sizeof words, l->files, "file of another ending", "files of other endings");
  if (*words)
    ctx->host->log(ctx, SP_LOG_INFO, "%s: left out: %s, such as %s", self->p->path, words,
                   *l->file ? l->file : l->folder);
}

/* ---- splits ---- */
static const char *const splits[] = {"train", "val"};

/* Is the split there, and laid out so? */
static int split_like(const char *base, int k, int (*like)(const char *dir)) {
  char path[4096];
  return snprintf(path, sizeof path, "%s/%s", base, splits[k]) < (int)sizeof path && like(path);
}

int rd_find_parts(sp_ctx *ctx, rd_self *self, int (*like)(const char *dir), const char *what) {
  const char *base = self->p->path;
  int train = split_like(base, 0, like), val = split_like(base, 1, like);
  if (!rd_is_folder(base, splits[0]) || !rd_is_folder(base, splits[1]) || (!train && !val)) return SP_OK;
  if (!train || !val)
    return ctx->host->fail(ctx, SP_E_DATA,
                           "%s/%s holds %s, %s/%s does not; give both the same layout, or other names if they are no "
                           "splits",
                           base, splits[!train], what, base, splits[!val]);
  if (self->p->val_fraction.n)
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "val_fraction = %g, but %s has train/ and val/, which say what is for validation; leave "
                           "val_fraction out",
                           self->p->val_fraction.v[0], base);
  self->own_splits = 1;
  if (self->p->split == RD_ALL) self->n_parts = 2;
  self->parts[0] = self->p->split == RD_VAL ? "val/" : "train/";
  self->parts[1] = "val/";
  return SP_OK;
}

/* What is in `these` and not in `others`; both are sorted. Returns how many, *first the first of them. */
static size_t missing(const rd_names *these, const rd_names *others, const char **first) {
  size_t n = 0;
  for (size_t i = these->n; i-- > 0;) {
    if (others->n && bsearch(&these->v[i], others->v, others->n, sizeof *others->v, by_name)) continue;
    *first = these->v[i];
    n++;
  }
  return n;
}

static void tell_of_odd_classes(sp_ctx *ctx, const char *base, const rd_names in[2]) {
  for (int k = 0; k < 2; k++) {
    const char *first = NULL;
    size_t n = missing(&in[k], &in[!k], &first);
    if (n)
      ctx->host->log(ctx, SP_LOG_INFO, "%s: %zu of the classes %s in %s/ and not in %s/, such as %s", base, n,
                     n == 1 ? "is" : "are", splits[k], splits[!k], first);
  }
}

static int join(const rd_names in[2], rd_names *out) {
  size_t i = 0, j = 0;
  while (i < in[0].n || j < in[1].n) {
    int c = i == in[0].n ? 1 : j == in[1].n ? -1 : strcmp(in[0].v[i], in[1].v[j]);
    if (rd_names_add(out, c <= 0 ? in[0].v[i] : in[1].v[j])) return SP_E_NOMEM;
    i += c <= 0;
    j += c >= 0;
  }
  return SP_OK;
}

int rd_join_classes(sp_ctx *ctx, const rd_self *self, rd_names *classes) {
  const char *base = self->p->path;
  rd_names in[2] = {{NULL, 0, 0}, {NULL, 0, 0}};
  char path[4096];
  int rc = SP_OK;
  for (int k = 0; !rc && k < 2; k++) {
    snprintf(path, sizeof path, "%s/%s", base, splits[k]);
    if (rd_subfolders(path, &in[k])) rc = ctx->host->fail(ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
  }
  if (!rc && join(in, classes)) rc = ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the classes of %s", base);
  if (!rc) tell_of_odd_classes(ctx, base, in);
  for (int k = 0; k < 2; k++) rd_names_free(&in[k]);
  return rc;
}
