/* SPDX-License-Identifier: MIT
 * pairs.c - the layout `pairs`: images/STEM.ENDING and masks/STEM.png, sorted by stem. And a list of images alone. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "class_file.h"
#include "table.h"

/* ---- listing ---- */
/* One entry of the folder base/part/sub, whose path is `dir`. */
static int list_entry(const char *dir, size_t rel, const struct dirent *e, int (*is_wanted)(const char *name),
                      rd_names *out, rd_left *left) {
  char path[4096 + NAME_MAX + 2];
  if (e->d_name[0] == '.') return SP_OK;
  snprintf(path, sizeof path, "%.4095s/%s", dir, e->d_name);
  int kind = rd_entry_kind(path, e);
  if (kind != DT_DIR && is_wanted(e->d_name)) return rd_names_add(out, e->d_name);
  rd_leave(left, path + rel, kind);
  return SP_OK;
}

/* The files of a part's subfolder, whose path goes to `path`; rel: where in it the part's own begins. */
static int list_folder(rd_listing *l, const char *path, size_t rel, int (*is_wanted)(const char *name), rd_names *out,
                       rd_left *left) {
  sp_ctx *ctx = l->ctx;
  int rc = rd_stamp_path(l, path);
  DIR *d = opendir(path);
  if (!d)
    return ctx->host->fail(ctx, errno == ENOENT ? SP_E_NOTFOUND : SP_E_IO,
                           "folder %s: %s; a data folder holds images/*." RD_ENDINGS
                           " and masks/*.png of the same names "
                           "(built-in sets are \"shapes\" and \"random\")",
                           path, strerror(errno));
  errno = 0;
  for (struct dirent *e; !rc && (e = readdir(d)); errno = 0) rc = list_entry(path, rel, e, is_wanted, out, left);
  if (!rc && errno) rc = ctx->host->fail(ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
  else if (rc) ctx->host->fail(ctx, rc, "no memory for the names in folder %s", path);
  closedir(d);
  if (rc || out->n) return rc;
  return ctx->host->fail(ctx, SP_E_NOTFOUND, "folder %s holds no *.%s", path,
                         is_wanted == rd_is_mask ? "png" : RD_ENDINGS);
}

/* Is STEM.png there? `masks` is sorted. */
static int find_mask(const rd_names *masks, const char *image) {
  char name[NAME_MAX + 8], *key = name;
  snprintf(name, sizeof name, "%.*s.png", (int)rd_stem_length(image), image);
  return bsearch(&key, masks->v, masks->n, sizeof *masks->v, rd_by_name) != NULL;
}

static int check_pairs(sp_ctx *ctx, const rd_part *p, const rd_names *images, const rd_names *masks) {
  const char *base = p->base, *part = p->rel;
  for (size_t i = 0; i < images->n; i++) {
    const char *name = images->v[i];
    if (i && rd_same_stem(images->v[i - 1], name))
      return ctx->host->fail(ctx, SP_E_DATA,
                             "%s/%simages: %s and %s have the same stem; one mask can belong to one only", base, part,
                             images->v[i - 1], name);
    if (!find_mask(masks, name))
      return ctx->host->fail(ctx, SP_E_DATA, "%s/%simages/%s has no mask: %s/%smasks/%.*s.png is missing", base, part,
                             name, base, part, (int)rd_stem_length(name), name);
  }
  return SP_OK;
}

static int add_pair(rd_table *t, uint32_t images, uint32_t masks, const char *name) {
  char mask[NAME_MAX + 8];
  rd_sample *s = rd_add_sample(t);
  if (!s) return SP_E_NOMEM;
  int n = snprintf(mask, sizeof mask, "%.*s.png", (int)rd_stem_length(name), name);
  s->key = rd_hash_name(name);
  int rc = rd_set_file(t, &s->image, images, name, strlen(name));
  return rc ? rc : rd_set_file(t, &s->mask, masks, mask, (size_t)n);
}

/* The images of one part, with a mask for each. paths: of images/ and masks/. */
static int add_pairs(rd_listing *l, const char paths[2][4096], const rd_names *images) {
  uint32_t source[2];
  int rc = SP_OK;
  for (int k = 0; !rc && k < 2; k++) rc = rd_add_source(l->t, RD_FILES, paths[k], &source[k]);
  for (size_t i = 0; !rc && i < images->n; i++) rc = add_pair(l->t, source[0], source[1], images->v[i]);
  return rc ? rd_no_memory(l) : SP_OK;
}

static int list_part(rd_listing *l, int k) {
  rd_names names[2] = {{0}};
  const rd_part *p = &l->parts[k];
  char paths[2][4096];
  int rc = SP_OK;
  for (int j = 0; !rc && j < 2; j++) {
    if (snprintf(paths[j], sizeof paths[j], "%s/%s%s", p->base, p->rel, j ? "masks" : "images") >= (int)sizeof paths[j])
      rc = l->ctx->host->fail(l->ctx, SP_E_INVALID, "path is longer than %zu bytes: %.200s...", sizeof paths[j],
                              p->base);
    else rc = list_folder(l, paths[j], strlen(p->base) + 1, j ? rd_is_mask : rd_is_picture, &names[j], &l->t->left[k]);
    rd_names_sort(&names[j], j ? rd_by_name : rd_by_stem);
  }
  if (!rc) rc = check_pairs(l->ctx, p, &names[0], &names[1]);
  if (!rc) l->t->left[k].masks = names[1].n - names[0].n;
  if (!rc) rc = add_pairs(l, (const char(*)[4096])paths, &names[0]);
  l->t->ends[k] = l->t->n;
  for (int j = 0; j < 2; j++) rd_names_free(&names[j]);
  return rc;
}

static int pairs_like(const char *dir) { return rd_is_folder(dir, "images") || rd_is_folder(dir, "masks"); }

/* Neither images/ nor masks/: is it a set for the other target? */
static int not_pairs(sp_ctx *ctx, const char *base) {
  char train[4096];
  int n = snprintf(train, sizeof train, "%s/train", base);
  if (!rd_classes.like(base) && (n >= (int)sizeof train || !rd_classes.like(train))) return rd_no_layout(ctx, base);
  return ctx->host->fail(ctx, SP_E_INVALID,
                         "%s holds a folder for each class, which is for target = \"class\"; target = \"mask\" wants "
                         "images/ and masks/",
                         base);
}

static int pairs_list(rd_listing *l) {
  const char *base = l->p->path;
  int rc = pairs_like(base) && !*l->p->val_path ? SP_OK : rd_find_parts(l, "images/ and masks/");
  if (rc) return rc;
  if (l->t->n_parts == 1 && !pairs_like(base)) return not_pairs(l->ctx, base);
  for (int k = 0; !rc && k < l->t->n_parts; k++) rc = list_part(l, k);
  if (!rc && *l->parts[0].rel) rd_look_beside(l, 2, (const char *const[]){"train", "val", "classes.txt", NULL});
  l->t->gives = RD_MASK;
  return rc;
}

static int pairs_settle(sp_ctx *ctx, rd_self *self) {
  const rd_table *t = self->table;
  for (int k = 0; k < t->n_parts; k++)
    if (t->left[k].masks)
      ctx->host->log(ctx, SP_LOG_WARN, "%zu of the files in %s/masks have no image and are not used", t->left[k].masks,
                     t->bytes + t->roots[k]);
  return rd_settle_masks(ctx, self, self->p->path, NULL);
}

const rd_lister rd_pairs = {"pairs", RD_TARGET_MASK, pairs_like, pairs_list, pairs_settle, RD_IN_SPLITS | RD_KEPT};

/* ---- images alone ---- */
static int add_file(rd_listing *l, uint32_t source, const char *path) {
  FILE *f = fopen(path, "re");
  if (!f) return l->ctx->host->fail(l->ctx, SP_E_IO, "image %s: %s", path, strerror(errno));
  fclose(f);
  rd_sample *s = rd_add_sample(l->t);
  if (!s || rd_set_file(l->t, &s->image, source, path, strlen(path))) return rd_no_memory(l);
  s->key = rd_hash_name(path);
  return SP_OK;
}

static int files_list(rd_listing *l) {
  const rd_file *files = l->p->files.v;
  uint32_t source;
  int rc = rd_add_source(l->t, RD_FILES, "", &source) ? rd_no_memory(l) : SP_OK;
  for (uint32_t i = 0; !rc && i < l->p->files.n; i++) rc = add_file(l, source, files[i].path);
  l->t->ends[0] = l->t->n;
  return rc;
}

static int files_settle(sp_ctx *ctx, rd_self *self) {
  (void)ctx;
  self->classes = self->p->classes;
  return SP_OK;
}

const rd_lister rd_files = {"files", RD_TARGET_MASK, NULL, files_list, files_settle, 0};
