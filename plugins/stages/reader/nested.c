/* SPDX-License-Identifier: MIT
 * nested.c - folders of images or of masks that hold no pictures themselves, but folders with pictures: the only one
 * is meant (annotations/trimaps), or both have the same ones (leftImg8bit/train/aachen, gtFine/train/aachen). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pairs.h"

enum { DEPTH = 16, MOST_STEPS = 4 };

/* One side, of images or of masks: its path, and the folders in it that have pictures. */
typedef struct side {
  char path[4096];
  int is_flat; /* it has pictures itself */
  rd_names inner;
} side;

static int look_into(rd_listing *l, const char *base, const char *rel, side *s) {
  char sub[4096];
  rd_names names = {0};
  rd_names_free(&s->inner);
  if (snprintf(s->path, sizeof s->path, "%s/%s", base, rel) >= (int)sizeof s->path)
    return rd_too_long(l->ctx, base, rel);
  if ((s->is_flat = rd_has_picture(s->path, 0))) return SP_OK;
  int rc = rd_stamp_path(l, s->path) ? rd_no_memory(l) : SP_OK;
  rd_subfolders(s->path, &names);
  for (size_t i = 0; !rc && i < names.n; i++)
    if (snprintf(sub, sizeof sub, "%s/%s", s->path, names.v[i]) < (int)sizeof sub && rd_has_picture(sub, DEPTH))
      rc = rd_names_add(&s->inner, names.v[i]) ? rd_no_memory(l) : SP_OK;
  rd_names_free(&names);
  return rc;
}

/* A folder that both sides have; NULL: there is none. */
static const char *common(const side s[2]) {
  for (size_t i = 0, j = 0; i < s[0].inner.n && j < s[1].inner.n;) {
    int c = strcmp(s[0].inner.v[i], s[1].inner.v[j]);
    if (!c) return s[0].inner.v[i];
    i += c < 0;
    j += c > 0;
  }
  return NULL;
}

/* The folder of masks that mask_folder names; "": none does. */
static const char *chosen(const rd_listing *l, const side *s) {
  for (size_t i = 0; i < s->inner.n; i++)
    if (!strcmp(s->inner.v[i], l->p->mask_folder)) return s->inner.v[i];
  return s->inner.n == 1 ? s->inner.v[0] : "";
}

static int ask(rd_listing *l, const side *s) {
  return l->ctx->host->fail(
      l->ctx, SP_E_DATA,
      "%s holds no masks itself, but %s/ and %s/ in it may: `mask_folder = \"%s\"` or `mask_folder = \"%s\"`", s->path,
      s->inner.v[0], s->inner.v[1], s->inner.v[0], s->inner.v[1]);
}

/* Parts that lie so deep are taken for none: which of the folders above them would be the set? */
static int check_parts(rd_listing *l, const side s[2]) {
  for (size_t i = 0; i < s[0].inner.n; i++)
    if (rd_read_folder_name(s[0].inner.v[i]).part)
      return l->ctx->host->fail(
          l->ctx, SP_E_DATA,
          "%s and %s hold %s/, a part by its name, deeper than parts are looked for: mkdir NEW; "
          "ln -s \"$(realpath '%s')\" NEW/images; ln -s \"$(realpath '%s')\" NEW/masks",
          s[0].path, s[1].path, s[0].inner.v[i], s[0].path, s[1].path);
  return SP_OK;
}

/* One folder further down; 0: there is none, or a status. */
static int go_down(rd_listing *l, side *s, int is_masks, char rel[1024], int *moved) {
  const char *name = is_masks ? chosen(l, s) : s->inner.n == 1 ? s->inner.v[0] : "";
  size_t at = strlen(rel);
  *moved = 0;
  if (s->is_flat || !s->inner.n) return SP_OK;
  if (!*name) return is_masks ? ask(l, s) : SP_OK;
  if (snprintf(rel + at, 1024 - at, "/%s", name) >= (int)(1024 - at)) return rd_too_long(l->ctx, s->path, name);
  rd_note(l, "%s lie in %s/", is_masks ? "masks" : "images", rel);
  *moved = 1;
  return SP_OK;
}

int rd_look_nested(rd_listing *l, const char *base, char rel[2][1024], int *is_deep) {
  side *s = calloc(2, sizeof *s);
  int rc = s ? SP_OK : rd_no_memory(l), moved = 1;
  *is_deep = 0;
  for (int step = 0; !rc && moved && step < MOST_STEPS; step++) {
    moved = 0;
    for (int j = 0; !rc && j < 2; j++) rc = look_into(l, base, rel[j], &s[j]);
    if (rc || (s[0].is_flat && s[1].is_flat)) break;
    const char *both = s[0].is_flat || s[1].is_flat ? NULL : common(s);
    if (both && (rc = check_parts(l, s))) break;
    if (both) {
      *is_deep = 1;
      rd_note(l, "images and masks lie in folders of the same names, such as %s/%s/ and %s/%s/", rel[0], both, rel[1],
              both);
      break;
    }
    for (int j = 0, one; !rc && j < 2; j++) {
      rc = go_down(l, &s[j], j, rel[j], &one);
      moved |= one;
    }
  }
  for (int j = 0; s && j < 2; j++) rd_names_free(&s[j].inner);
  free(s);
  return rc;
}
