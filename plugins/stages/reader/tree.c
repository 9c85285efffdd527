/* SPDX-License-Identifier: MIT
 * tree.c - a folder whose subfolders are the classes, with image files at any depth, in the order of torchvision's
 * ImageFolder: classes by name; within a class by folder, then by file; all bytewise. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "reader.h"

#define MAX_DEPTH 64 /* of folders within each other */
#define CHOICE UINT64_C(0xD1B54A32D192ED03)

/* images: paths below the data's folder, "CLASS/.../FILE", with the part in front where it has splits. */
typedef struct tree {
  rd_names images;
  int32_t *labels;
  char *empty; /* the first class without images; NULL: each has some */
} tree;

/* A folder being listed, and those it lies in: a link may lead back to one of them. */
typedef struct level {
  const struct level *up;
  dev_t dev;
  ino_t ino;
  int depth;
} level;

/* By the folder's path, then by the file's name: not the same as by the whole path, as '/' is no smallest byte. */
static int by_folder(const void *a, const void *b) {
  const char *x = *(char *const *)a, *y = *(char *const *)b, *fx = strrchr(x, '/'), *fy = strrchr(y, '/');
  size_t nx = (size_t)(fx - x), ny = (size_t)(fy - y);
  int c = memcmp(x, y, nx < ny ? nx : ny);
  if (!c) c = (nx > ny) - (nx < ny);
  return c ? c : strcmp(fx, fy);
}

static int too_long(sp_ctx *ctx, const char *base, const char *rel) {
  return ctx->host->fail(ctx, SP_E_INVALID, "a path in %.200s is too long: %.200s...", base, rel);
}

static int list(sp_ctx *ctx, const char *base, const char *rel, const level *up, rd_names *images, rd_left *left);

/* One entry of the folder `rel`; those of no interest are left out. */
static int visit(sp_ctx *ctx, const char *base, const char *rel, const struct dirent *e, const level *at,
                 rd_names *images, rd_left *left) {
  char path[4096], *name;
  if (e->d_name[0] == '.') return SP_OK;
  if (snprintf(path, sizeof path, "%s/%s/%s", base, rel, e->d_name) >= (int)sizeof path)
    return too_long(ctx, base, rel);
  name = path + strlen(base) + 1;
  int kind = rd_entry_kind(path, e);
  if (kind == DT_DIR) return list(ctx, base, name, at, images, left);
  if (!rd_is_picture(e->d_name) || kind == DT_UNKNOWN) {
    rd_leave(left, name, kind);
    return SP_OK;
  }
  if (kind < 0) return ctx->host->fail(ctx, SP_E_IO, "image %s: %s", path, strerror(errno));
  if (rd_names_add(images, name)) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the names in folder %s", base);
  return SP_OK;
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
static int list(sp_ctx *ctx, const char *base, const char *rel, const level *up, rd_names *images, rd_left *left) {
  char path[4096];
  level here;
  if (snprintf(path, sizeof path, "%s/%s", base, rel) >= (int)sizeof path) return too_long(ctx, base, rel);
  int rc = enter(ctx, path, up, &here);
  if (rc) return rc;
  DIR *d = opendir(path);
  if (!d) return ctx->host->fail(ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
  errno = 0;
  for (struct dirent *e; !rc && (e = readdir(d)); errno = 0) rc = visit(ctx, base, rel, e, &here, images, left);
  if (!rc && errno) rc = ctx->host->fail(ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
  closedir(d);
  return rc;
}

/* ---- opening ---- */
static int name_classes(sp_ctx *ctx, rd_self *self, const rd_names *classes) {
  const char *base = self->p->path;
  size_t bytes = 0;
  for (size_t i = 0; i < classes->n; i++) {
    if (strchr(classes->v[i], '\n'))
      return ctx->host->fail(ctx, SP_E_DATA, "the name of a folder in %s has a line break; rename it", base);
    bytes += strlen(classes->v[i]) + 1;
  }
  char *p = self->class_names = malloc(bytes);
  if (!p) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the names of %zu classes", classes->n);
  for (size_t i = 0; i < classes->n; i++) {
    size_t n = strlen(classes->v[i]);
    memcpy(p, classes->v[i], n);
    p += n;
    *p++ = i + 1 < classes->n ? '\n' : 0;
  }
  self->classes = (int64_t)classes->n;
  if (!self->p->classes || self->p->classes == self->classes) return SP_OK;
  return ctx->host->fail(ctx, SP_E_INVALID, "classes = %" PRId64 ", but %s has %zu subfolders, one for each class",
                         self->p->classes, base, classes->n);
}

/* The images of class c in one part. Where there are splits, not every class need be in each. */
static int open_class(sp_ctx *ctx, rd_self *self, tree *t, const char *part, const char *name, int32_t c) {
  const char *base = self->p->path;
  size_t from = t->images.n;
  char rel[4096];
  if (snprintf(rel, sizeof rel, "%s%s", part, name) >= (int)sizeof rel) return too_long(ctx, base, name);
  if (self->own_splits && !rd_is_folder(base, rel)) return SP_OK;
  int rc = list(ctx, base, rel, NULL, &t->images, &self->left);
  if (rc) return rc;
  if (t->images.n == from && !t->empty && !(t->empty = strdup(rel)))
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the names in folder %s", base);
  if (t->images.n > INT32_MAX)
    return ctx->host->fail(ctx, SP_E_RANGE, "%zu images in %s; at most %d are possible", t->images.n, base, INT32_MAX);
  if (t->images.n == from) return SP_OK;
  qsort(t->images.v + from, t->images.n - from, sizeof *t->images.v, by_folder);
  int32_t *labels = realloc(t->labels, t->images.n * sizeof *labels);
  if (!labels) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %zu labels", t->images.n);
  t->labels = labels;
  for (size_t i = from; i < t->images.n; i++) labels[i] = c;
  return SP_OK;
}

/* The first n of the images at `from` and behind it would be of the first classes only, so a hash of the name chooses;
 * not the one that the split goes by, so that samples which stay seldom change their side. */
static int keep_some(sp_ctx *ctx, tree *t, size_t from, size_t n) {
  size_t all = t->images.n - from, k = from;
  char **images = t->images.v + from;
  int32_t *labels = t->labels + from;
  rd_ranked *r = calloc(all, sizeof *r);
  uint8_t *stays = calloc(all, 1);
  int rc = r && stays ? SP_OK : ctx->host->fail(ctx, SP_E_NOMEM, "no memory to choose from %zu images", all);
  for (size_t i = 0; !rc && i < all; i++) r[i] = (rd_ranked){rd_hash_name(images[i]) * CHOICE, i};
  if (!rc) rd_rank(r, all);
  for (size_t i = 0; !rc && i < n; i++) stays[r[i].index] = 1;
  for (size_t i = 0; !rc && i < all; i++) {
    if (!stays[i]) {
      free(images[i]);
      continue;
    }
    t->images.v[k] = images[i];
    t->labels[k++] = labels[i];
  }
  if (!rc) t->images.n = k;
  free(r);
  free(stays);
  return rc;
}

/* One part's images, class by class. */
static int open_part(sp_ctx *ctx, rd_self *self, tree *t, const char *part, const rd_names *classes) {
  const char *base = self->p->path;
  size_t from = t->images.n, most = (size_t)self->p->samples;
  int rc = SP_OK;
  for (size_t c = 0; !rc && c < classes->n; c++) rc = open_class(ctx, self, t, part, classes->v[c], (int32_t)c);
  rd_look_beside(self, part, NULL);
  if (!rc && t->images.n == from) rc = rd_no_layout(ctx, base);
  if (!rc && t->empty)
    rc = ctx->host->fail(ctx, SP_E_DATA, "%s/%s holds no *." RD_ENDINGS "; every subfolder is a class", base, t->empty);
  if (!rc && most && most < t->images.n - from) rc = keep_some(ctx, t, from, most);
  return rc;
}

static int mixed_up(sp_ctx *ctx, const char *base) {
  return ctx->host->fail(ctx, SP_E_INVALID,
                         "%s holds images/ and masks/, which are for target = \"mask\"; target = \"class\" wants one "
                         "subfolder for each class",
                         base);
}

static int is_pairs(const char *dir) { return rd_is_folder(dir, "images") && rd_is_folder(dir, "masks"); }

/* The subfolders of `path`, or of its splits. */
static int find_classes(sp_ctx *ctx, const rd_self *self, rd_names *classes) {
  const char *base = self->p->path;
  if (self->own_splits) return rd_join_classes(ctx, self, classes);
  if (rd_subfolders(base, classes)) return ctx->host->fail(ctx, SP_E_IO, "folder %s: %s", base, strerror(errno));
  return classes->n ? SP_OK : rd_no_layout(ctx, base);
}

static int tree_open(sp_ctx *ctx, rd_self *self) {
  const char *base = self->p->path;
  char train[4096];
  rd_names classes = {NULL, 0, 0};
  int rc = rd_check_path(ctx, base);
  if (rc) return rc;
  if (snprintf(train, sizeof train, "%s/train", base) >= (int)sizeof train) return too_long(ctx, base, "train");
  if (is_pairs(base)) return mixed_up(ctx, base);
  if (is_pairs(train)) return mixed_up(ctx, train);
  tree *t = self->data = calloc(1, sizeof *t);
  if (!t) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for folder %s", base);
  rc = rd_find_parts(ctx, self, rd_tree_like, "a folder for each class");
  if (!rc) rc = find_classes(ctx, self, &classes);
  for (int k = 0; !rc && k < self->n_parts; k++) rc = open_part(ctx, self, t, self->parts[k], &classes);
  if (!rc && self->own_splits) rd_look_beside(self, "", (const char *const[]){"train", "val", NULL});
  if (!rc) rc = name_classes(ctx, self, &classes);
  rd_names_free(&classes);
  self->total = t->images.n;
  self->gives = RD_LABEL;
  return rc;
}

static void tree_close(rd_self *self) {
  tree *t = self->data;
  if (!t) return;
  rd_names_free(&t->images);
  free(t->labels);
  free(t->empty);
  free(t);
}

static int tree_fill(rd_self *self, rd_worker *w, uint64_t index, const rd_out *out) {
  const tree *t = self->data;
  char path[4096];
  int width, height;
  *out->label = t->labels[index];
  if (snprintf(path, sizeof path, "%s/%s", self->p->path, t->images.v[index]) >= (int)sizeof path)
    return rd_fail(w, SP_E_INVALID, "the path of %.200s is longer than %zu bytes", t->images.v[index], sizeof path);
  return rd_load_image(self, w, path, out->image, &width, &height);
}

static uint64_t tree_hash(const rd_self *self, uint64_t index) {
  const tree *t = self->data;
  return rd_hash_name(t->images.v[index]);
}

const rd_kind rd_tree = {"tree", tree_open, tree_close, tree_fill, NULL, tree_hash};
