/* SPDX-License-Identifier: MIT
 * folder.c - image files: a folder of pairs images/STEM.jpg|jpeg|png and masks/STEM.png, or a list of images alone. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "reader.h"

#define MAX_CLASSES_TXT (1 << 20) /* bytes */

typedef struct names {
  char **v;
  size_t n, cap;
} names;

/* images: file names in images/, sorted; with a list of files: NULL. */
typedef struct folder {
  names images;
} folder;

/* ---- names ---- */
static void names_free(names *l) {
  for (size_t i = 0; i < l->n; i++) free(l->v[i]);
  free(l->v);
  *l = (names){NULL, 0, 0};
}

static int names_add(names *l, const char *s) {
  if (l->n == l->cap) {
    size_t cap = l->cap ? l->cap * 2 : 256;
    char **v = realloc(l->v, cap * sizeof *v);
    if (!v) return SP_E_NOMEM;
    l->v = v;
    l->cap = cap;
  }
  if (!(l->v[l->n] = strdup(s))) return SP_E_NOMEM;
  l->n++;
  return SP_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static size_t stem_length(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? (size_t)(dot - name) : strlen(name);
}

static int ends_in(const char *name, const char *const *endings) {
  const char *dot = strrchr(name, '.');
  for (; dot && *endings; endings++)
    if (!strcasecmp(dot + 1, *endings)) return 1;
  return 0;
}

static const char *const image_endings[] = {"jpg", "jpeg", "png", NULL};
static const char *const mask_endings[] = {"png", NULL};

/* ---- opening a folder ---- */
static int list_folder(sp_ctx *ctx, const char *base, const char *sub, const char *const *endings, names *out) {
  char path[4096];
  if (snprintf(path, sizeof path, "%s/%s", base, sub) >= (int)sizeof path)
    return ctx->host->fail(ctx, SP_E_INVALID, "path is longer than %zu bytes: %.200s...", sizeof path, base);
  DIR *d = opendir(path);
  if (!d)
    return ctx->host->fail(ctx, errno == ENOENT ? SP_E_NOTFOUND : SP_E_IO,
                           "folder %s: %s; a data folder holds images/*.jpg|jpeg|png and masks/*.png of the same names "
                           "(built-in sets are \"shapes\" and \"random\")",
                           path, strerror(errno));
  int rc = SP_OK;
  errno = 0;
  for (struct dirent *e; !rc && (e = readdir(d)); errno = 0)
    if (e->d_name[0] != '.' && ends_in(e->d_name, endings)) rc = names_add(out, e->d_name);
  if (!rc && errno) rc = ctx->host->fail(ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
  else if (rc) ctx->host->fail(ctx, rc, "no memory for the names in folder %s", path);
  closedir(d);
  if (rc) return rc;
  if (!out->n)
    return ctx->host->fail(ctx, SP_E_NOTFOUND, "folder %s holds no %s file", path,
                           endings == mask_endings ? ".png" : ".jpg, .jpeg or .png");
  qsort(out->v, out->n, sizeof *out->v, by_name);
  return SP_OK;
}

/* Is STEM.png there? `masks` is sorted. */
static int find_mask(const names *masks, const char *image) {
  char name[NAME_MAX + 8], *key = name;
  snprintf(name, sizeof name, "%.*s.png", (int)stem_length(image), image);
  return bsearch(&key, masks->v, masks->n, sizeof *masks->v, by_name) != NULL;
}

/* By full name "a-1.png" would lie between "a.jpg" and "a.png"; by stem equal ones are neighbours. */
static int by_stem(const void *a, const void *b) {
  const char *x = *(char *const *)a, *y = *(char *const *)b;
  size_t nx = stem_length(x), ny = stem_length(y);
  int c = memcmp(x, y, nx < ny ? nx : ny);
  return c ? c : (nx > ny) - (nx < ny);
}

static int check_pairs(sp_ctx *ctx, const char *base, const names *images, const names *masks) {
  for (size_t i = 0; i < images->n; i++) {
    const char *name = images->v[i];
    if (i && !by_stem(&images->v[i - 1], &images->v[i]))
      return ctx->host->fail(ctx, SP_E_DATA, "%s/images: %s and %s have the same stem; one mask can belong to one only",
                             base, images->v[i - 1], name);
    if (!find_mask(masks, name))
      return ctx->host->fail(ctx, SP_E_DATA, "%s/images/%s has no mask: %s/masks/%.*s.png is missing", base, name, base,
                             (int)stem_length(name), name);
  }
  if (masks->n > images->n)
    ctx->host->log(ctx, SP_LOG_WARN, "%zu of the files in %s/masks have no image and are not used",
                   masks->n - images->n, base);
  return SP_OK;
}

/* Lines that are not blank; 0: there is no such file. */
static int count_classes(sp_ctx *ctx, const char *base, int64_t *n) {
  char path[4096];
  *n = 0;
  if (snprintf(path, sizeof path, "%s/classes.txt", base) >= (int)sizeof path) return SP_OK;
  FILE *f = fopen(path, "re");
  if (!f) return errno == ENOENT ? SP_OK : ctx->host->fail(ctx, SP_E_IO, "%s: %s", path, strerror(errno));
  long bytes = 0;
  int blank = 1, c;
  while (bytes++ < MAX_CLASSES_TXT && (c = getc(f)) != EOF) {
    if (c == '\n') blank = 1;
    else if (blank && c > ' ') {
      blank = 0;
      (*n)++;
    }
  }
  int failed = ferror(f);
  fclose(f);
  if (failed) return ctx->host->fail(ctx, SP_E_IO, "%s cannot be read", path);
  if (*n < 1 || *n > 255)
    return ctx->host->fail(ctx, SP_E_DATA, "%s names %" PRId64 " classes; 1 to 255 are expected, one a line", path, *n);
  return SP_OK;
}

static int set_classes(sp_ctx *ctx, rd_self *self) {
  int64_t named;
  int rc = count_classes(ctx, self->p->path, &named);
  if (rc) return rc;
  if (!named && !self->p->classes)
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "how many classes does %s have? Give the parameter classes, or put %s/classes.txt there, "
                           "one name a line",
                           self->p->path, self->p->path);
  if (named && self->p->classes && named != self->p->classes)
    return ctx->host->fail(ctx, SP_E_INVALID, "classes = %" PRId64 ", but %s/classes.txt names %" PRId64,
                           self->p->classes, self->p->path, named);
  self->classes = named ? named : self->p->classes;
  return SP_OK;
}

static int open_pairs(sp_ctx *ctx, rd_self *self, folder *f) {
  names masks = {NULL, 0, 0};
  const char *base = self->p->path;
  struct stat st;
  const char *why = stat(base, &st) ? strerror(errno) : S_ISDIR(st.st_mode) ? NULL : "not a folder";
  if (why)
    return ctx->host->fail(ctx, SP_E_NOTFOUND,
                           "%s: %s; path is a folder with images/ and masks/, or \"shapes\" or \"random\"", base, why);
  int rc = list_folder(ctx, base, "images", image_endings, &f->images);
  if (!rc) rc = list_folder(ctx, base, "masks", mask_endings, &masks);
  if (!rc) {
    qsort(f->images.v, f->images.n, sizeof *f->images.v, by_stem);
    rc = check_pairs(ctx, base, &f->images, &masks);
  }
  names_free(&masks);
  if (!rc) rc = set_classes(ctx, self);
  if (rc) return rc;
  self->total = f->images.n;
  if (self->p->samples && (uint64_t)self->p->samples < self->total) self->total = (uint64_t)self->p->samples;
  return SP_OK;
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
  names_free(&f->images);
  free(f);
}

/* ---- one sample ---- */
typedef struct picture {
  int w, h;
} picture;

/* Puts the file's name in front of what the decoder says. */
static int blame(rd_worker *w, int rc, const char *path) {
  return rc ? rd_fail(w, rc, "%s: %s", path, w->decoder.why) : SP_OK;
}

static int load_image(rd_self *self, rd_worker *w, const char *path, uint8_t *out, picture *size) {
  int rc = im_load(&w->decoder, path);
  if (!rc) rc = im_rgb(&w->decoder, self->p->max_pixels, &w->image, &size->w, &size->h);
  if (rc) return blame(w, rc, path);
  if (im_resize(&w->scaler, w->image.p, size->w, size->h, out, self->w, self->h))
    return rd_fail(w, SP_E_NOMEM, "%s: no memory to resize it", path);
  return SP_OK;
}

static int folder_fill(rd_self *self, rd_worker *w, uint64_t index, uint8_t *image, uint8_t *mask) {
  const folder *f = self->data;
  size_t pixels = (size_t)self->h * (size_t)self->w;
  picture a = {0, 0}, b = {0, 0};
  if (!f) {
    memset(mask, 255, pixels);
    return load_image(self, w, ((const rd_file *)self->p->files.v)[index].path, image, &a);
  }
  char ipath[4096], mpath[4096];
  const char *name = f->images.v[index];
  if (snprintf(ipath, sizeof ipath, "%s/images/%s", self->p->path, name) >= (int)sizeof ipath ||
      snprintf(mpath, sizeof mpath, "%s/masks/%.*s.png", self->p->path, (int)stem_length(name), name) >=
          (int)sizeof mpath)
    return rd_fail(w, SP_E_INVALID, "the path of %s is longer than %zu bytes", name, sizeof ipath);
  int rc = load_image(self, w, ipath, image, &a);
  if (rc) return rc;
  rc = im_load(&w->decoder, mpath);
  if (!rc) rc = im_labels(&w->decoder, self->p->max_pixels, &w->mask, &b.w, &b.h);
  if (rc) return blame(w, rc, mpath);
  if (a.w != b.w || a.h != b.h)
    return rd_fail(w, SP_E_DATA,
                   "%s is %d x %d pixels, but its mask %s is %d x %d (width x height); they must be equal", ipath, a.w,
                   a.h, mpath, b.w, b.h);
  im_nearest(w->mask.p, b.w, b.h, mask, self->w, self->h);
  return SP_OK;
}

/* FNV-1a over the stem, mixed: the side of the split belongs to the name, not to the place in the list. */
static uint64_t folder_hash(const rd_self *self, uint64_t index) {
  const folder *f = self->data;
  const char *name = f ? f->images.v[index] : ((const rd_file *)self->p->files.v)[index].path;
  uint64_t h = UINT64_C(0xCBF29CE484222325);
  for (size_t i = 0, n = stem_length(name); i < n; i++) h = (h ^ (unsigned char)name[i]) * UINT64_C(0x100000001B3);
  h = (h ^ (h >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  h = (h ^ (h >> 27)) * UINT64_C(0x94D049BB133111EB);
  return h ^ (h >> 31);
}

const rd_kind rd_folder = {"folder", folder_open, folder_close, folder_fill, NULL, folder_hash};
