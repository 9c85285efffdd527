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
  char parts[RD_PARTS][256]; /* folders right in the class's whose names are those of parts */
  rd_names within;           /* all folders right in the class's */
  int direct;                /* there are pictures right in the class's */
} heap;

/* What the folders of all classes hold so far. */
typedef struct inner {
  rd_names first; /* the folders in the first class's */
  char name[2][256];
  int direct, n; /* pictures right in one of them; classes with the folders of the first */
} inner;

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
  if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) return SP_OK;
  if (snprintf(path, sizeof path, "%s/%s/%s", h->base, rel, e->d_name) >= (int)sizeof path)
    return rd_too_long(ctx, h->base, rel);
  name = path + strlen(h->base) + 1;
  if (rd_is_junk(e->d_name)) {
    rd_leave_junk(h->left, name);
    return SP_OK;
  }
  int kind = rd_entry_kind(path, e);
  if (kind == DT_DIR) {
    if (at->depth == 1) {
      snprintf(h->parts[rd_read_folder_name(e->d_name).part], sizeof h->parts[0], "%s", e->d_name);
      if (rd_names_add(&h->within, e->d_name)) return rd_no_memory(h->l);
    }
    return walk(h, name, at);
  }
  if (!rd_is_image(e->d_name) || kind == DT_UNKNOWN) {
    rd_leave(h->left, name, kind);
    return SP_OK;
  }
  if (kind < 0)
    return ctx->host->fail(ctx, SP_E_IO, "image %s: %s; a link that leads nowhere is removed or made again", path,
                           strerror(errno));
  h->direct |= at->depth == 1;
  if (!rd_names_add(&h->images, name)) return SP_OK;
  return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the names in folder %s", h->base);
}

/* The link is the last on the way. */
static int loops(sp_ctx *ctx, const char *path) {
  char link[4096];
  struct stat st;
  snprintf(link, sizeof link, "%s", path);
  for (char *slash; lstat(link, &st) == 0 && !S_ISLNK(st.st_mode) && (slash = strrchr(link, '/')); *slash = 0) {}
  return ctx->host->fail(ctx, SP_E_DATA, "folder %s is a link to a folder that holds it; remove the link", link);
}

static int enter(sp_ctx *ctx, const char *path, const level *up, level *here) {
  struct stat st;
  if (stat(path, &st)) return ctx->host->fail(ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
  *here = (level){up, st.st_dev, st.st_ino, up ? up->depth + 1 : 1};
  for (const level *l = up; l; l = l->up)
    if (l->dev == st.st_dev && l->ino == st.st_ino)
      return loops(ctx, path);
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

static int add_image(rd_table *t, const char *base, const char *name, size_t part, int64_t label) {
  const char *file = strrchr(name, '/');
  uint32_t source;
  rd_sample *s = rd_add_sample(t);
  if (!s || source_of(t, base, name, (size_t)(file - name), &source)) return SP_E_NOMEM;
  s->label = label;
  s->key = rd_hash_name(name + part);
  return rd_set_file(t, &s->image, source, file + 1, strlen(file + 1));
}

/* Parts below a class would all be trained on. */
static int check_parts(heap *h, const char *name) {
  rd_listing *l = h->l;
  const char *train = h->parts[RD_TRAIN_PART], *other = h->parts[h->parts[RD_VAL_PART][0] ? RD_VAL_PART : RD_TEST_PART];
  if (l->p->folders == RD_FOLDERS_CLASSES || !*train || !*other) return SP_OK;
  return l->ctx->host->fail(l->ctx, SP_E_DATA,
                            "%s/%s holds %s/ and %s/: parts within a class are not told apart; lay it out as %s/%s and "
                            "%s/%s, or read them all as one class: `folders = \"classes\"`",
                            h->base, name, train, other, train, name, other, name);
}

static void compare_within(inner *in, heap *h, const char *name) {
  int same = h->within.n == in->first.n;
  in->direct |= h->direct;
  if (!in->n) {
    in->first = h->within;
    h->within = (rd_names){0};
    same = 1;
  }
  for (size_t i = 0; same && i < h->within.n; i++) same = !strcmp(h->within.v[i], in->first.v[i]);
  if (same && in->n < 2) snprintf(in->name[in->n], sizeof in->name[0], "%.255s", name);
  in->n += same;
}

/* Folders that all hold the same folders, and no picture of their own, are hardly the classes: two sites, folds, or
 * parts whose names say nothing. */
static int check_within(rd_listing *l, const inner *in, const rd_names *classes) {
  const char *base = l->p->path, *kind[3] = {NULL};
  if (l->p->folders == RD_FOLDERS_CLASSES || in->direct || in->first.n < 2 || in->n < 2 || (size_t)in->n < classes->n)
    return SP_OK;
  for (size_t i = 0; i < in->first.n; i++) kind[rd_read_folder_name(in->first.v[i]).kind] = in->first.v[i];
  if (kind[RD_IMAGES] && kind[RD_MASKS])
    return l->ctx->host->fail(
        l->ctx, SP_E_DATA,
        "%s/%s and %s/%s hold %s/ and %s/ each, which are images and masks by their names: name one of them itself, or "
        "put the files of all into one images/ and one masks/; if the outer folders are classes, for target = "
        "\"class\" (train_cls.lua), `folders = \"classes\"`",
        base, in->name[0], base, in->name[1], kind[RD_IMAGES], kind[RD_MASKS]);
  return l->ctx->host->fail(
      l->ctx, SP_E_DATA,
      "%s/%s and %s/%s hold folders of the same names, %s and %s: are these the classes? Then name one of "
      "the outer folders itself, and another one with `val_path = \"%s/%s\"` if it validates. If the "
      "outer folders are the classes: `folders = \"classes\"`",
      base, in->name[0], base, in->name[1], in->first.v[0], in->first.v[1], base, in->name[1]);
}

/* Folders within all classes, of other names in each: those may be the classes. */
static void note_within(rd_listing *l, int k, const inner *in, const rd_names *classes) {
  const char *base = l->parts[k].base, *rel = l->parts[k].rel;
  if (k || l->p->folders == RD_FOLDERS_CLASSES || in->direct || classes->n < 2 || !in->first.n ||
      (size_t)in->n == classes->n)
    return;
  rd_note(l,
          "all images lie in folders within those of the classes, such as %s/%s/: if the inner folders are the "
          "classes, mkdir NEW; ln -s \"$(realpath '%s/%s')\"/*/* NEW",
          in->name[0], in->first.v[0], base, rel);
}

/* A class that holds folders called as those beside it, and no picture of its own: the set once more. */
static int check_again(rd_listing *l, const heap *h, const char *name, const rd_names *classes) {
  const char *both[2] = {NULL};
  int n = 0;
  if (l->p->folders == RD_FOLDERS_CLASSES || h->direct) return SP_OK;
  for (size_t i = 0; i < h->within.n && n < 2; i++)
    if (bsearch(&h->within.v[i], classes->v, classes->n, sizeof *classes->v, rd_by_name)) both[n++] = h->within.v[i];
  if (n < 2) return SP_OK;
  return l->ctx->host->fail(l->ctx, SP_E_DATA,
                            "%s/%s holds %s/ and %s/, as the folder that it lies in does: the set once more? Move it "
                            "away, or name it itself, %s/%s; if it is a class, `folders = \"classes\"`",
                            h->base, name, both[0], both[1], h->base, name);
}

/* The images of class c in part k. Where there are splits, not every class need be in each. */
static int list_class(rd_listing *l, int k, const rd_names *classes, int64_t c, inner *in) {
  const char *name = classes->v[c];
  const rd_part *p = &l->parts[k];
  char rel[4096];
  size_t part = strlen(p->rel); /* no part of what the sample is called */
  if (snprintf(rel, sizeof rel, "%s%s", p->rel, name) >= (int)sizeof rel) return rd_too_long(l->ctx, p->base, name);
  if (l->t->n_parts == 2 && !rd_is_folder(p->base, rel)) return SP_OK;
  heap h = {.l = l, .base = p->base, .left = &l->t->left[k]};
  int rc = walk(&h, rel, NULL);
  if (!rc) rc = check_parts(&h, rel);
  rd_names_sort(&h.within, rd_by_name);
  if (!rc) rc = check_again(l, &h, rel, classes);
  if (!rc) compare_within(in, &h, rel);
  rd_names_sort(&h.images, by_folder);
  for (size_t i = 0; !rc && i < h.images.n; i++)
    if (add_image(l->t, p->base, h.images.v[i], part, c)) rc = rd_no_memory(l);
  rd_names_free(&h.images);
  rd_names_free(&h.within);
  return rc;
}

/* One part's images, class by class. */
static int list_part(rd_listing *l, int k, const rd_names *classes) {
  size_t from = l->t->n;
  int rc = SP_OK;
  inner in = {0};
  for (size_t c = 0; !rc && c < classes->n; c++) rc = list_class(l, k, classes, (int64_t)c, &in);
  if (!rc) rc = check_within(l, &in, classes);
  if (!rc) note_within(l, k, &in, classes);
  rd_names_free(&in.first);
  rd_look_beside(l, k, NULL);
  l->t->ends[k] = l->t->n;
  return !rc && l->t->n == from ? rd_no_layout(l->ctx, l->parts[k].base) : rc;
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

/* Behind the folder's name, room for `size`: the first file in it, which shows why it holds no picture: photo.heic. */
static void add_first_file(char *path, size_t size) {
  char first[256] = "", sub[4096];
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (rd_is_junk(e->d_name) || (*first && strcmp(e->d_name, first) > 0)) continue;
    int n = snprintf(sub, sizeof sub, "%s/%s", path, e->d_name);
    if (n < (int)sizeof sub && rd_entry_kind(sub, e) != DT_DIR) snprintf(first, sizeof first, "%s", e->d_name);
  }
  if (d) closedir(d);
  size_t at = strlen(path);
  if (*first) snprintf(path + at, size - at, "/%s", first);
}

/* The folders of a part that hold a picture somewhere; the others are left out,
 * and looked at again when they change. */
static int find_filled(rd_listing *l, int k, const char *path, rd_names *out) {
  char sub[4096];
  rd_names names = {0};
  int rc = rd_stamp_path(l, path);
  if (!rc && rd_subfolders(path, &names))
    rc = l->ctx->host->fail(l->ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
  for (size_t i = 0; !rc && i < names.n; i++) {
    if (snprintf(sub, sizeof sub, "%s/%s", path, names.v[i]) >= (int)sizeof sub)
      rc = rd_too_long(l->ctx, path, names.v[i]);
    else if (l->p->folders == RD_FOLDERS_PARTS && !strcmp(l->parts[k].rel, l->within) &&
             rd_read_folder_name(names.v[i]).part)
      rd_leave(&l->t->left[k], sub + strlen(l->parts[k].base) + 1, DT_DIR);
    else if (rd_has_picture(sub, MAX_DEPTH)) rc = rd_names_add(out, names.v[i]) ? rd_no_memory(l) : SP_OK;
    else if (!(rc = rd_stamp_path(l, sub))) {
      size_t most = SIZE_MAX;
      rd_leave_unread(&l->t->left[k], l->parts[k].base, sub + strlen(l->parts[k].base) + 1, MAX_DEPTH, &most);
      add_first_file(sub, sizeof sub);
      rd_leave_empty(&l->t->left[k], sub + strlen(l->parts[k].base) + 1);
    }
  }
  rd_names_free(&names);
  return rc;
}

static int nothing_in_common(const rd_listing *l, const rd_names in[2]) {
  char where[2][1024];
  for (int k = 0; k < 2; k++) {
    const rd_part *p = &l->parts[k];
    int n = (int)strlen(p->rel);
    snprintf(where[k], sizeof where[k], "%.700s%s%.*s", p->base, n ? "/" : "", n ? n - 1 : 0, p->rel);
  }
  return l->ctx->host->fail(l->ctx, SP_E_DATA,
                            "no class is in both parts: %s holds %.200s/, and %s holds %.200s/; target = \"class\" "
                            "(train_cls.lua) wants the same folders in both, one for each class",
                            where[0], in[0].v[0], where[1], in[1].v[0]);
}

/* The subfolders of all parts, sorted. */
static int find_classes(rd_listing *l, rd_names *classes) {
  rd_names in[2] = {{0}};
  char path[4096];
  int rc = SP_OK;
  for (int k = 0; !rc && k < l->t->n_parts; k++) {
    const rd_part *p = &l->parts[k];
    int n = snprintf(path, sizeof path, "%s%s%s", p->base, *p->rel ? "/" : "", p->rel);
    if (n >= (int)sizeof path) rc = rd_too_long(l->ctx, p->base, p->rel);
    else {
      if (*p->rel) path[n - 1] = 0;
      rc = find_filled(l, k, path, &in[k]);
    }
  }
  if (!rc && join(in, classes)) rc = rd_no_memory(l);
  if (!rc && in[0].n && in[1].n && classes->n == in[0].n + in[1].n)
    rc = nothing_in_common(l, in);
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
    for (struct dirent *e; d && !found && (e = readdir(d));) found = e->d_name[0] != '.' && rd_is_image(e->d_name);
    if (d) closedir(d);
  }
  rd_names_free(&classes);
  return found;
}

static int classes_list(rd_listing *l) {
  const char *base = l->p->path;
  char dir[4096];
  rd_names classes = {0};
  if (snprintf(dir, sizeof dir, "%s%s%s", base, *l->within ? "/" : "", l->within) >= (int)sizeof dir)
    return rd_too_long(l->ctx, base, l->within);
  int rc = l->p->folders == RD_FOLDERS_CLASSES ? SP_OK : rd_check_classes(l->ctx, l->p, dir);
  if (!rc) rc = rd_find_parts(l, "a folder for each class, for target = \"class\" (train_cls.lua)");
  if (!rc) rc = find_classes(l, &classes);
  if (!rc && classes.n == 1 && l->p->folders == RD_FOLDERS_AUTO)
    rc = rd_check_one_csv(l->ctx, base); /* one of several tables says what the images are */
  for (int k = 0; !rc && k < l->t->n_parts; k++) rc = list_part(l, k, &classes);
  if (!rc && strlen(l->parts[0].rel) > strlen(l->within)) rd_look_beside(l, 2, (const char *const[]){NULL});
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
                              classes_list, classes_settle,  RD_IN_SPLITS | RD_KEPT | RD_WITHIN};
