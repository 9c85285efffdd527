/* SPDX-License-Identifier: MIT
 * files.c - what the kinds of data that read files share: lists of names, loading one image, words on layouts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "reader.h"

/* ---- names ---- */
void rd_names_free(rd_names *l) {
  for (size_t i = 0; i < l->n; i++) free(l->v[i]);
  free(l->v);
  *l = (rd_names){NULL, 0, 0};
}

int rd_names_add(rd_names *l, const char *s) {
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

void rd_names_cut(rd_names *l, size_t n) {
  while (l->n > n) free(l->v[--l->n]);
}

size_t rd_stem_length(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? (size_t)(dot - name) : strlen(name);
}

int rd_is_picture(const char *name) {
  static const char *const endings[] = {".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
    if (!strcasecmp(dot, endings[i])) return 1;
  return 0;
}

/* FNV-1a, mixed: the side of the split belongs to the name, not to the place in the list. */
uint64_t rd_hash_name(const char *name) {
  uint64_t h = UINT64_C(0xCBF29CE484222325);
  for (size_t i = 0, n = rd_stem_length(name); i < n; i++) h = (h ^ (unsigned char)name[i]) * UINT64_C(0x100000001B3);
  h = (h ^ (h >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  h = (h ^ (h >> 27)) * UINT64_C(0x94D049BB133111EB);
  return h ^ (h >> 31);
}

/* ---- layouts ---- */
int rd_is_folder(const char *base, const char *sub) {
  char path[4096];
  struct stat st;
  return snprintf(path, sizeof path, "%s/%s", base, sub) < (int)sizeof path && !stat(path, &st) && S_ISDIR(st.st_mode);
}

int rd_check_path(sp_ctx *ctx, const char *path) {
  struct stat st;
  const char *why = stat(path, &st) ? strerror(errno) : S_ISDIR(st.st_mode) ? NULL : "not a folder";
  if (!why) return SP_OK;
  return ctx->host->fail(ctx, SP_E_NOTFOUND, "%s: %s; path is a folder of data, or \"shapes\" or \"random\"", path,
                         why);
}

int rd_no_layout(sp_ctx *ctx, const char *path) {
  return ctx->host->fail(ctx, SP_E_NOTFOUND,
                         "%s holds neither images/ and masks/ (target = \"mask\": images/*." RD_ENDINGS
                         ", masks/*.png of "
                         "the same names) nor subfolders with *." RD_ENDINGS " (target = \"class\": one for "
                         "each class)",
                         path);
}

/* ---- one image ---- */
int rd_blame(rd_worker *w, int rc, const char *path) {
  return rc ? rd_fail(w, rc, "%s: %s", path, w->decoder.why) : SP_OK;
}

int rd_load_image(rd_self *self, rd_worker *w, const char *path, uint8_t *out, int *width, int *height) {
  int rc = im_load(&w->decoder, path);
  if (!rc) rc = im_rgb(&w->decoder, self->p->max_pixels, &w->image, width, height);
  if (rc) return rd_blame(w, rc, path);
  if (im_fit_rgb(&w->scaler, self->p->resize, w->image.p, *width, *height, out, self->w, self->h))
    return rd_fail(w, SP_E_NOMEM, "%s: no memory to resize it", path);
  return SP_OK;
}
