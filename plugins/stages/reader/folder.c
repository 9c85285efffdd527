/* SPDX-License-Identifier: MIT
 * folder.c - image files: a folder of pairs images/STEM.ENDING and masks/STEM.png, or a list of images alone. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "reader.h"

#define MAX_CLASSES_TXT (1 << 20) /* bytes */

/* images: for each of self->parts the file names in images/, sorted. */
typedef struct folder {
  rd_names images[2];
} folder;

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int is_mask(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot && !strcasecmp(dot, ".png");
}

/* ---- opening a folder ---- */
/* One entry of the folder base/part/sub, whose path is `dir`. */
static int list_entry(const char *dir, const char *part, const char *sub, const struct dirent *e,
                      int (*is_wanted)(const char *name), rd_names *out, rd_left *left) {
  char path[4096 + NAME_MAX + 2], *rel = path + (strlen(dir) - strlen(part) - strlen(sub));
  if (e->d_name[0] == '.') return SP_OK;
  snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
  int kind = rd_entry_kind(path, e);
  if (kind != DT_DIR && is_wanted(e->d_name)) return rd_names_add(out, e->d_name);
  rd_leave(left, rel, kind);
  return SP_OK;
}

static int list_folder(sp_ctx *ctx, const char *base, const char *part, const char *sub,
                       int (*is_wanted)(const char *name), rd_names *out, rd_left *left) {
  char path[4096];
  if (snprintf(path, sizeof path, "%s/%s%s", base, part, sub) >= (int)sizeof path)
    return ctx->host->fail(ctx, SP_E_INVALID, "path is longer than %zu bytes: %.200s...", sizeof path, base);
  DIR *d = opendir(path);
  if (!d)
    return ctx->host->fail(ctx, errno == ENOENT ? SP_E_NOTFOUND : SP_E_IO,
                           "folder %s: %s; a data folder holds images/*." RD_ENDINGS
                           " and masks/*.png of the same names "
                           "(built-in sets are \"shapes\" and \"random\")",
                           path, strerror(errno));
  int rc = SP_OK;
  errno = 0;
  for (struct dirent *e; !rc && (e = readdir(d)); errno = 0) rc = list_entry(path, part, sub, e, is_wanted, out, left);
  if (!rc && errno) rc = ctx->host->fail(ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
  else if (rc) ctx->host->fail(ctx, rc, "no memory for the names in folder %s", path);
  closedir(d);
  if (rc) return rc;
  if (!out->n)
    return ctx->host->fail(ctx, SP_E_NOTFOUND, "folder %s holds no *.%s", path,
                           is_wanted == is_mask ? "png" : RD_ENDINGS);
  qsort(out->v, out->n, sizeof *out->v, by_name);
  return SP_OK;
}

/* Is STEM.png there? `masks` is sorted. */
static int find_mask(const rd_names *masks, const char *image) {
  char name[NAME_MAX + 8], *key = name;
  snprintf(name, sizeof name, "%.*s.png", (int)rd_stem_length(image), image);
  return bsearch(&key, masks->v, masks->n, sizeof *masks->v, by_name) != NULL;
}

/* By full name "a-1.png" would lie between "a.jpg" and "a.png"; by stem equal ones are neighbours. */
static int by_stem(const void *a, const void *b) {
  const char *x = *(char *const *)a, *y = *(char *const *)b;
  size_t nx = rd_stem_length(x), ny = rd_stem_length(y);
  int c = memcmp(x, y, nx < ny ? nx : ny);
  return c ? c : (nx > ny) - (nx < ny);
}

static int check_pairs(sp_ctx *ctx, const char *base, const char *part, const rd_names *images, const rd_names *masks) {
  for (size_t i = 0; i < images->n; i++) {
    const char *name = images->v[i];
    if (i && !by_stem(&images->v[i - 1], &images->v[i]))
      return ctx->host->fail(ctx, SP_E_DATA,
                             "%s/%simages: %s and %s have the same stem; one mask can belong to one only", base, part,
                             images->v[i - 1], name);
    if (!find_mask(masks, name))
      return ctx->host->fail(ctx, SP_E_DATA, "%s/%simages/%s has no mask: %s/%smasks/%.*s.png is missing", base, part,
                             name, base, part, (int)rd_stem_length(name), name);
  }
  if (masks->n > images->n)
    ctx->host->log(ctx, SP_LOG_WARN, "%zu of the files in %s/%smasks have no image and are not used",
                   masks->n - images->n, base, part);
  return SP_OK;
}

/* The file's bytes and a 0, on the heap; *text NULL: there is no such file. */
static int read_text(sp_ctx *ctx, const char *path, char **text) {
  *text = NULL;
  FILE *f = fopen(path, "re");
  if (!f) return errno == ENOENT ? SP_OK : ctx->host->fail(ctx, SP_E_IO, "%s: %s", path, strerror(errno));
  char *t = malloc(MAX_CLASSES_TXT + 1);
  size_t n = t ? fread(t, 1, MAX_CLASSES_TXT, f) : 0;
  int failed = ferror(f);
  fclose(f);
  if (t && !failed) {
    t[n] = 0;
    *text = t;
    return SP_OK;
  }
  free(t);
  return failed ? ctx->host->fail(ctx, SP_E_IO, "%s cannot be read", path)
                : ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %s", path);
}

static int is_space(char c) { return (unsigned char)c <= ' '; }

/* Drops blank lines, and blanks around names; says how many there are. */
static int64_t tidy_names(char *text) {
  int64_t n = 0;
  char *to = text;
  for (char *line = text, *next; line; line = next) {
    next = strchr(line, '\n');
    char *end = next ? next++ : line + strlen(line);
    while (line < end && is_space(*line)) line++;
    while (end > line && is_space(end[-1])) end--;
    if (line == end) continue;
    if (n++) *to++ = '\n';
    memmove(to, line, (size_t)(end - line));
    to += end - line;
  }
  *to = 0;
  return n;
}

static int set_classes(sp_ctx *ctx, rd_self *self) {
  char path[4096];
  int64_t named = 0;
  const char *base = self->p->path;
  if (snprintf(path, sizeof path, "%s/classes.txt", base) < (int)sizeof path) {
    int rc = read_text(ctx, path, &self->class_names);
    if (rc) return rc;
  }
  if (self->class_names) {
    named = tidy_names(self->class_names);
    if (named < 1 || named > 255)
      return ctx->host->fail(ctx, SP_E_DATA, "%s names %" PRId64 " classes; 1 to 255 are expected, one a line", path,
                             named);
  }
  if (!named && !self->p->classes)
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "how many classes does %s have? Give the parameter classes, or put %s/classes.txt there, "
                           "one name a line",
                           base, base);
  if (named && self->p->classes && named != self->p->classes)
    return ctx->host->fail(ctx, SP_E_INVALID, "classes = %" PRId64 ", but %s/classes.txt names %" PRId64,
                           self->p->classes, base, named);
  self->classes = named ? named : self->p->classes;
  return SP_OK;
}

/* The images of one part, with a mask for each. */
static int open_part(sp_ctx *ctx, rd_self *self, const char *part, rd_names *images) {
  rd_names masks = {NULL, 0, 0};
  const char *base = self->p->path;
  int rc = list_folder(ctx, base, part, "images", rd_is_picture, images, &self->left);
  if (!rc) rc = list_folder(ctx, base, part, "masks", is_mask, &masks, &self->left);
  if (!rc) {
    qsort(images->v, images->n, sizeof *images->v, by_stem);
    rc = check_pairs(ctx, base, part, images, &masks);
  }
  rd_names_free(&masks);
  if (!rc && self->p->samples) rd_names_cut(images, (size_t)self->p->samples);
  self->total += images->n;
  return rc;
}

int rd_pairs_like(const char *dir) { return rd_is_folder(dir, "images") || rd_is_folder(dir, "masks"); }

/* Neither images/ nor masks/: is it a set for the other target? */
static int not_pairs(sp_ctx *ctx, const char *base) {
  char train[4096];
  int n = snprintf(train, sizeof train, "%s/train", base);
  if (!rd_tree_like(base) && (n >= (int)sizeof train || !rd_tree_like(train))) return rd_no_layout(ctx, base);
  return ctx->host->fail(ctx, SP_E_INVALID,
                         "%s holds a folder for each class, which is for target = \"class\"; target = \"mask\" wants "
                         "images/ and masks/",
                         base);
}

static int open_pairs(sp_ctx *ctx, rd_self *self, folder *f) {
  const char *base = self->p->path;
  int rc = rd_check_path(ctx, base);
  if (rc) return rc;
  if (!rd_pairs_like(base)) rc = rd_find_parts(ctx, self, rd_pairs_like, "images/ and masks/");
  if (rc) return rc;
  if (!self->own_splits && !rd_pairs_like(base)) return not_pairs(ctx, base);
  for (int k = 0; !rc && k < self->n_parts; k++) rc = open_part(ctx, self, self->parts[k], &f->images[k]);
  if (!rc && self->own_splits) rd_look_beside(self, "", (const char *const[]){"train", "val", "classes.txt", NULL});
  if (!rc) rc = set_classes(ctx, self);
  self->gives = RD_MASK;
  return rc;
}

static int open_list(sp_ctx *ctx, rd_self *self) {
  const rd_file *files = self->p->files.v;
  for (uint32_t i = 0; i < self->p->files.n; i++) {
    FILE *f = fopen(files[i].path, "re");
    if (!f) return ctx->host->fail(ctx, SP_E_IO, "image %s: %s", files[i].path, strerror(errno));
    fclose(f);
  }
  self->total = self->p->files.n;
  self->classes = self->p->classes;
  return SP_OK;
}

static int folder_open(sp_ctx *ctx, rd_self *self) {
  if (self->p->files.n) return open_list(ctx, self);
  folder *f = self->data = calloc(1, sizeof *f);
  if (!f) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for folder %s", self->p->path);
  return open_pairs(ctx, self, f);
}

static void folder_close(rd_self *self) {
  folder *f = self->data;
  if (!f) return;
  for (int k = 0; k < 2; k++) rd_names_free(&f->images[k]);
  free(f);
}

/* ---- one sample ---- */
static int fill_mask(rd_self *self, rd_worker *w, const char *image, const char *path, int iw, int ih, uint8_t *out) {
  int mw, mh, turned = self->p->orient && w->decoder.orientation >= 5, rc = im_load(&w->decoder, path);
  if (!rc) rc = im_labels(&w->decoder, self->p->max_pixels, &w->mask, &mw, &mh);
  if (rc) return rd_blame(w, rc, path);
  if (iw != mw || ih != mh)
    return rd_fail(w, SP_E_DATA,
                   "%s is %d x %d pixels, but its mask %s is %d x %d (width x height); they must be equal%s", image, iw,
                   ih, path, mw, mh,
                   turned && iw == mh && ih == mw
                       ? "; the image was turned by its EXIF orientation, orient = false leaves it as it is stored"
                       : "");
  im_fit_labels(self->p->resize, w->mask.p, mw, mh, out, self->w, self->h);
  return SP_OK;
}

/* The name of the file of sample `index`, and the part that it lies in. */
static const char *find(const rd_self *self, uint64_t index, const char **part) {
  const folder *f = self->data;
  int k = index >= f->images[0].n;
  *part = self->parts[k];
  return f->images[k].v[k ? index - f->images[0].n : index];
}

/* A mask that nobody reads is not looked at: that it is damaged or of another size is then not found. */
static int folder_fill(rd_self *self, rd_worker *w, uint64_t index, const rd_out *out) {
  int iw, ih;
  if (!self->data) return rd_load_image(self, w, ((const rd_file *)self->p->files.v)[index].path, out->image, &iw, &ih);
  char ipath[4096], mpath[4096];
  const char *part, *name = find(self, index, &part);
  if (snprintf(ipath, sizeof ipath, "%s/%simages/%s", self->p->path, part, name) >= (int)sizeof ipath ||
      snprintf(mpath, sizeof mpath, "%s/%smasks/%.*s.png", self->p->path, part, (int)rd_stem_length(name), name) >=
          (int)sizeof mpath)
    return rd_fail(w, SP_E_INVALID, "the path of %s is longer than %zu bytes", name, sizeof ipath);
  int rc = rd_load_image(self, w, ipath, out->image, &iw, &ih);
  return rc || !out->mask ? rc : fill_mask(self, w, ipath, mpath, iw, ih, out->mask);
}

static uint64_t folder_hash(const rd_self *self, uint64_t index) {
  const char *part;
  return rd_hash_name(self->data ? find(self, index, &part) : ((const rd_file *)self->p->files.v)[index].path);
}

const rd_kind rd_folder = {"folder", folder_open, folder_close, folder_fill, NULL, folder_hash};
