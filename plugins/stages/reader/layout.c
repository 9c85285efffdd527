/* SPDX-License-Identifier: MIT
 * layout.c - which layout a folder has, its splits of its own, train/ and val/, and what is left out. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "table.h"

/* The first that fits is taken. */
static const rd_lister *const listers[] = {&rd_pairs, &rd_classes};
static const char *const splits[] = {"train", "val"};

/* ---- what is not read ---- */
/* Keeps the name that comes first, as folders list theirs in any order. */
static void keep_first(char to[256], const char *name) {
  if (*name && (!*to || strcmp(name, to) < 0)) snprintf(to, 256, "%.255s", name);
}

void rd_leave(rd_left *left, const char *name, int kind) {
  if (kind == DT_DIR) left->folders++;
  else left->files++;
  keep_first(kind == DT_DIR ? left->folder : left->file, name);
}

static int is_one_of(const char *const *known, const char *name) {
  for (; known && *known; known++)
    if (!strcmp(*known, name)) return 1;
  return 0;
}

/* name: the end of `path`, below the data's folder. */
static void look_at(rd_left *left, const char *path, const char *name, const struct dirent *e, int classes) {
  int kind = rd_entry_kind(path, e);
  if (kind == DT_DIR && classes) return;
  if (kind == DT_DIR || !rd_is_picture(name)) rd_leave(left, name, kind);
  else left->strays++;
  if (kind != DT_DIR) keep_first(left->file, name);
}

void rd_look_beside(rd_listing *l, int k, const char *const *known) {
  char path[4096];
  const char *base = l->parts[k < 2 ? k : 0].base, *rel = k < 2 ? l->parts[k].rel : "";
  DIR *d = snprintf(path, sizeof path, "%s/%s", base, rel) < (int)sizeof path ? opendir(path) : NULL;
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.' || is_one_of(known, e->d_name)) continue;
    if (snprintf(path, sizeof path, "%s/%s%s", base, rel, e->d_name) < (int)sizeof path)
      look_at(&l->t->left[k], path, path + strlen(base) + 1, e, !known);
  }
  if (d) closedir(d);
}

/* "2 folders", or nothing; with a comma in front behind others. */
static void count(char *to, size_t size, size_t n, const char *one, const char *many) {
  size_t at = strlen(to);
  if (n) snprintf(to + at, size - at, "%s%zu %s", at ? ", " : "", n, n == 1 ? one : many);
}

static void join(rd_left *to, const rd_left *from) {
  to->folders += from->folders;
  to->files += from->files;
  to->strays += from->strays;
  keep_first(to->file, from->file);
  keep_first(to->folder, from->folder);
}

void rd_tell_left(sp_ctx *ctx, const rd_self *self) {
  const rd_table *t = self->table;
  rd_left l = t->left[2];
  char words[256] = "";
  for (int k = 0; k < t->n_parts; k++)
    if (t->n_parts == 1 || self->p->split == RD_ALL || self->p->split == RD_TRAIN + k) join(&l, &t->left[k]);
  count(words, sizeof words, l.folders, "folder", "folders");
  count(words, sizeof words, l.strays, "image outside of the classes' folders",
        "images outside of the classes' folders");
  count(words, sizeof words, l.files, "file of another ending", "files of other endings");
  if (*words)
    ctx->host->log(ctx, SP_LOG_INFO, "%s: left out: %s, such as %s", self->p->path, words, *l.file ? l.file : l.folder);
}

/* ---- splits ---- */
/* Is the split there, and laid out so? */
static int split_like(const char *base, int k, const rd_lister *lister) {
  char path[4096];
  return snprintf(path, sizeof path, "%s/%s", base, splits[k]) < (int)sizeof path && lister->like(path);
}

int rd_find_parts(rd_listing *l, const char *what) {
  sp_ctx *ctx = l->ctx;
  const char *base = l->p->path;
  int train = split_like(base, 0, l->t->lister), val = split_like(base, 1, l->t->lister);
  if (!rd_is_folder(base, splits[0]) || !rd_is_folder(base, splits[1]) || (!train && !val)) return SP_OK;
  if (!train || !val)
    return ctx->host->fail(ctx, SP_E_DATA,
                           "%s/%s holds %s, %s/%s does not; give both the same layout, or other names if they are no "
                           "splits",
                           base, splits[!train], what, base, splits[!val]);
  if (l->p->val_fraction.n)
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "val_fraction = %g, but %s has train/ and val/, which say what is for validation; leave "
                           "val_fraction out",
                           l->p->val_fraction.v[0], base);
  l->t->n_parts = 2;
  l->parts[0] = (rd_part){base, "train/"};
  l->parts[1] = (rd_part){base, "val/"};
  return SP_OK;
}

/* Classes that are in a part and not in the other; *first: the number of the first. */
static int64_t odd_ones(const uint8_t *in, int k, int64_t classes, int64_t *first) {
  int64_t n = 0;
  for (int64_t c = classes; c-- > 0;) {
    if (in[c] != 1 << k) continue;
    *first = c;
    n++;
  }
  return n;
}

/* The name of a class, of *n bytes. */
static const char *class_name(const char *names, int64_t c, int *n) {
  while (c-- > 0) names = strchr(names, '\n') + 1;
  *n = (int)strcspn(names, "\n");
  return names;
}

void rd_tell_odd_classes(sp_ctx *ctx, const rd_self *self) {
  const rd_table *t = self->table;
  uint8_t *in = t->n_parts == 2 && t->gives == RD_LABEL ? calloc((size_t)self->classes, 1) : NULL;
  for (size_t i = 0; in && i < t->n; i++) in[t->samples[i].label] |= (uint8_t)(1 << (i >= t->ends[0]));
  for (int k = 0; in && k < 2; k++) {
    int64_t first, n = odd_ones(in, k, self->classes, &first);
    int length;
    const char *name = n ? class_name(self->class_names, first, &length) : NULL;
    if (n)
      ctx->host->log(ctx, SP_LOG_INFO, "%s: %" PRId64 " of the classes %s in %s/ and not in %s/, such as %.*s",
                     self->p->path, n, n == 1 ? "is" : "are", splits[k], splits[!k], length, name);
  }
  free(in);
}

/* ---- finding the layout ---- */
int rd_no_layout(sp_ctx *ctx, const char *path) {
  return ctx->host->fail(ctx, SP_E_NOTFOUND,
                         "%s holds neither images/ and masks/ (target = \"mask\": images/*." RD_ENDINGS
                         ", masks/*.png of "
                         "the same names) nor subfolders with *." RD_ENDINGS " (target = \"class\": one for "
                         "each class)",
                         path);
}

int rd_too_long(sp_ctx *ctx, const char *base, const char *rel) {
  return ctx->host->fail(ctx, SP_E_INVALID, "a path in %.200s is too long: %.200s...", base, rel);
}

static int check_path(sp_ctx *ctx, const char *path) {
  struct stat st;
  const char *why = stat(path, &st) ? strerror(errno) : S_ISDIR(st.st_mode) ? NULL : "not a folder";
  if (!why) return SP_OK;
  return ctx->host->fail(ctx, SP_E_NOTFOUND, "%s: %s; path is a folder of data, or \"shapes\" or \"random\"", path,
                         why);
}

static const rd_lister *lister_of(const rd_params *p) {
  if (p->files.n) return &rd_files;
  for (size_t i = 0; i < sizeof listers / sizeof *listers; i++) {
    const rd_lister *l = listers[i];
    if (l->target != p->target) continue;
    if (l->like(p->path) || split_like(p->path, 0, l) || split_like(p->path, 1, l)) return l;
  }
  return p->target == RD_TARGET_CLASS ? &rd_classes : &rd_pairs; /* says what is missing */
}

int rd_list(sp_ctx *ctx, const rd_params *p, rd_table **out) {
  int rc = p->files.n ? SP_OK : check_path(ctx, p->path);
  if (rc) return rc;
  rd_table *t = *out = calloc(1, sizeof *t);
  if (!t) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for folder %s", p->path);
  rd_listing l = {ctx, p, t, {{p->path, ""}}};
  t->lister = lister_of(p);
  t->n_parts = 1;
  rc = t->lister->list(&l);
  if (!rc && t->n > INT32_MAX)
    rc = ctx->host->fail(ctx, SP_E_RANGE, "%zu images in %s; at most %d are possible", t->n, p->path, INT32_MAX);
  return rc;
}
