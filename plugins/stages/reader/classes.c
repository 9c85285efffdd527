/* SPDX-License-Identifier: MIT
 * classes.c - the layout `classes`: a folder whose subfolders are the classes, with image files at any depth, in the
 * order of torchvision's ImageFolder: classes by name; within a class by folder, then by file; all bytewise. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "table.h"

#define MAX_DEPTH 64 /* of folders within each other */

/* A folder being listed, and those it lies in: a link may lead back to one of them. */
typedef struct level {
  const struct level *up;
  dev_t dev;
  ino_t ino;
  int depth;
} level;

/* Where the names of one class go: paths below `base`, "PART/CLASS/.../FILE". */
typedef struct heap {
  rd_listing *l;
  const char *base;
  rd_names images;
  rd_left *left;
} heap;

/* By the folder's path, then by the file's name: not the same as by the whole path, as '/' is no smallest byte. */
static int by_folder(const void *a, const void *b) {
  const char *x = *(char *const *)a, *y = *(char *const *)b, *fx = strrchr(x, '/'), *fy = strrchr(y, '/');
  size_t nx = (size_t)(fx - x), ny = (size_t)(fy - y);
  int c = memcmp(x, y, nx < ny ? nx : ny);
  if (!c) c = (nx > ny) - (nx < ny);
  return c ? c : strcmp(fx, fy);
}

/* ---- the images of a class ---- */
static int walk(heap *h, const char *rel, const level *up);

/* One entry of the folder `rel`; those of no interest are left out. */
static int visit(heap *h, const char *rel, const struct dirent *e, const level *at) {
  char path[4096], *name;
  sp_ctx *ctx = h->l->ctx;
  if (e->d_name[0] == '.') return SP_OK;
  if (snprintf(path, sizeof path, "%s/%s/%s", h->base, rel, e->d_name) >= (int)sizeof path)
    return rd_too_long(ctx, h->base, rel);
  name = path + strlen(h->base) + 1;
  int kind = rd_entry_kind(path, e);
  if (kind == DT_DIR) return walk(h, name, at);
  if (!rd_is_picture(e->d_name) || kind == DT_UNKNOWN) {
    rd_leave(h->left, name, kind);
    return SP_OK;
  }
  if (kind < 0) return ctx->host->fail(ctx, SP_E_IO, "image %s: %s", path, strerror(errno));
  if (!rd_names_add(&h->images, name)) return SP_OK;
  return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the names in folder %s", h->base);
}

static int enter(sp_ctx *ctx, const char *path, const level *up, level *here) {
  struct stat st;
  if (stat(path, &st)) return ctx->host->fail(ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
  *here = (level){up, st.st_dev, st.st_ino, up ? up->depth + 1 : 1};
  for (const level *l = up; l; l = l->up)
    if (l->dev == st.st_dev && l->ino == st.st_ino)
      return ctx->host->fail(ctx, SP_E_DATA, "folder %s is a link to one that it lies in; remove the link", path);
  if (here->depth > MAX_DEPTH)
    return ctx->host->fail(ctx, SP_E_DATA, "folder %s lies more than %d folders deep", path, MAX_DEPTH);
  return SP_OK;
}

/* Adds the pictures in the folder base/rel and all below it. */
static int walk(heap *h, const char *rel, const level *up) {
  char path[4096];
  sp_ctx *ctx = h->l->ctx;
  level here;
  if (snprintf(path, sizeof path, "%s/%s", h->base, rel) >= (int)sizeof path) return rd_too_long(ctx, h->base, rel);
  int rc = rd_stamp_path(h->l, path);
  if (rc || (rc = enter(ctx, path, up, &here))) return rc;
  DIR *d = opendir(path);
  if (!d) return ctx->host->fail(ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
  errno = 0;
  for (struct dirent *e; !rc && (e = readdir(d)); errno = 0) rc = visit(h, rel, e, &here);
  if (!rc && errno) rc = ctx->host->fail(ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
  closedir(d);
  return rc;
}

/* ---- into the table ---- */
/* The source of the folder that `name` lies in, which is mostly that of the name before it. */
static int source_of(rd_table *t, const char *base, const char *name, size_t n, uint32_t *source) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%.*s", base, (int)n, name);
  *source = (uint32_t)(t->n_sources - 1);
  if (t->n_sources && !strcmp(t->bytes + t->sources[*source].path, path)) return SP_OK;
  return rd_add_source(t, RD_FILES, path, source);
}

static int add_image(rd_table *t, const char *base, const char *name, int64_t label) {
  const char *file = strrchr(name, '/');
  uint32_t source;
  rd_sample *s = rd_add_sample(t);
  if (!s || source_of(t, base, name, (size_t)(file - name), &source)) return SP_E_NOMEM;
  s->label = label;
  s->key = rd_hash_name(name);
  return rd_set_file(t, &s->image, source, file + 1, strlen(file + 1));
}

/* The images of class c in part k. Where there are splits, not every class need be in each. The name of the first class
 * without images goes to `empty`. */
static int list_class(rd_listing *l, int k, const char *name, int64_t c, char empty[4096]) {
  const rd_part *p = &l->parts[k];
  char rel[4096];
  if (snprintf(rel, sizeof rel, "%s%s", p->rel, name) >= (int)sizeof rel) return rd_too_long(l->ctx, p->base, name);
  if (l->t->n_parts == 2 && !rd_is_folder(p->base, rel)) return SP_OK;
  heap h = {l, p->base, {0}, &l->t->left[k]};
  int rc = walk(&h, rel, NULL);
  rd_names_sort(&h.images, by_folder);
  for (size_t i = 0; !rc && i < h.images.n; i++)
    if (add_image(l->t, p->base, h.images.v[i], c)) rc = rd_no_memory(l);
  if (!h.images.n && !*empty) memcpy(empty, rel, sizeof rel);
  rd_names_free(&h.images);
  return rc;
}

/* One part's images, class by class. */
static int list_part(rd_listing *l, int k, const rd_names *classes) {
  const char *base = l->parts[k].base;
  char empty[4096] = "";
  size_t from = l->t->n;
  int rc = SP_OK;
  for (size_t c = 0; !rc && c < classes->n; c++) rc = list_class(l, k, classes->v[c], (int64_t)c, empty);
  rd_look_beside(l, k, NULL);
  l->t->ends[k] = l->t->n;
  if (!rc && l->t->n == from) return rd_no_layout(l->ctx, base);
  if (rc || !*empty) return rc;
  return l->ctx->host->fail(l->ctx, SP_E_DATA, "%s/%s holds no *." RD_ENDINGS "; every subfolder is a class", base,
                            empty);
}

/* ---- the classes ---- */
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

/* The subfolders of all parts, sorted. */
static int find_classes(rd_listing *l, rd_names *classes) {
  rd_names in[2] = {{0}};
  char path[4096];
  int rc = SP_OK;
  for (int k = 0; !rc && k < l->t->n_parts; k++) {
    const rd_part *p = &l->parts[k];
    if (snprintf(path, sizeof path, "%s%s%s", p->base, *p->rel ? "/" : "", p->rel) >= (int)sizeof path)
      rc = rd_too_long(l->ctx, p->base, p->rel);
    else if ((rc = rd_stamp_path(l, path))) break;
    else if (rd_subfolders(path, &in[k]))
      rc = l->ctx->host->fail(l->ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
  }
  if (!rc && join(in, classes)) rc = rd_no_memory(l);
  for (int k = 0; k < 2; k++) rd_names_free(&in[k]);
  return rc || classes->n ? rc : rd_no_layout(l->ctx, l->p->path);
}

static int name_classes(rd_listing *l, const rd_names *classes) {
  size_t bytes = 0;
  for (size_t i = 0; i < classes->n; i++) {
    if (strchr(classes->v[i], '\n'))
      return l->ctx->host->fail(l->ctx, SP_E_DATA, "the name of a folder in %s has a line break; rename it",
                                l->p->path);
    bytes += strlen(classes->v[i]) + 1;
  }
  char *p = l->t->class_names = malloc(bytes);
  if (!p) return rd_no_memory(l);
  for (size_t i = 0; i < classes->n; i++) {
    size_t n = strlen(classes->v[i]);
    memcpy(p, classes->v[i], n);
    p += n;
    *p++ = i + 1 < classes->n ? '\n' : 0;
  }
  l->t->classes = (int64_t)classes->n;
  return SP_OK;
}

/* ---- the layout ---- */
static int classes_like(const char *base) {
  rd_names classes = {0};
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

static int is_pairs(const char *dir) { return rd_is_folder(dir, "images") && rd_is_folder(dir, "masks"); }

static int mixed_up(sp_ctx *ctx, const char *base) {
  return ctx->host->fail(ctx, SP_E_INVALID,
                         "%s holds images/ and masks/, which are for target = \"mask\"; target = \"class\" wants one "
                         "subfolder for each class",
                         base);
}

static int classes_list(rd_listing *l) {
  const char *base = l->p->path;
  char train[4096];
  rd_names classes = {0};
  if (snprintf(train, sizeof train, "%s/train", base) >= (int)sizeof train) return rd_too_long(l->ctx, base, "train");
  if (is_pairs(base)) return mixed_up(l->ctx, base);
  if (is_pairs(train)) return mixed_up(l->ctx, train);
  int rc = rd_find_parts(l, "a folder for each class");
  if (!rc) rc = find_classes(l, &classes);
  for (int k = 0; !rc && k < l->t->n_parts; k++) rc = list_part(l, k, &classes);
  if (!rc && *l->parts[0].rel) rd_look_beside(l, 2, (const char *const[]){"train", "val", NULL});
  if (!rc) rc = name_classes(l, &classes);
  rd_names_free(&classes);
  l->t->gives = RD_LABEL;
  return rc;
}

static int classes_settle(sp_ctx *ctx, rd_self *self) {
  const rd_table *t = self->table;
  self->classes = t->classes;
  if (!(self->class_names = strdup(t->class_names)))
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the names of %" PRId64 " classes", t->classes);
  if (!self->p->classes || self->p->classes == t->classes) return SP_OK;
  return ctx->host->fail(ctx, SP_E_INVALID,
                         "classes = %" PRId64 ", but %s has %" PRId64 " subfolders, one for each class",
                         self->p->classes, self->p->path, t->classes);
}

const rd_lister rd_classes = {"classes",    RD_TARGET_CLASS, classes_like,
                              classes_list, classes_settle,  RD_IN_SPLITS | RD_KEPT};
