/* SPDX-License-Identifier: MIT
 * names.c - lists of names, and what names of files say. */
#include "names.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <spcore/abi.h>

#define PIECE 65536 /* bytes */

struct rd_piece {
  struct rd_piece *next;
  size_t used, size;
  char bytes[];
};

void rd_names_free(rd_names *l) {
  for (struct rd_piece *p = l->piece, *next; p; p = next) {
    next = p->next;
    free(p);
  }
  free(l->v);
  *l = (rd_names){0};
}

void rd_names_clear(rd_names *l) {
  struct rd_piece *p = l->piece;
  l->n = 0;
  if (!p) return;
  rd_names older = {.piece = p->next};
  rd_names_free(&older);
  p->next = NULL;
  p->used = 0;
}

static char *keep(rd_names *l, const char *s) {
  size_t n = strlen(s) + 1;
  struct rd_piece *p = l->piece;
  if (!p || p->size - p->used < n) {
    size_t size = n > PIECE ? n : PIECE;
    if (!(p = malloc(sizeof *p + size))) return NULL;
    *p = (struct rd_piece){l->piece, 0, size};
    l->piece = p;
  }
  char *to = memcpy(p->bytes + p->used, s, n);
  p->used += n;
  return to;
}

int rd_names_add(rd_names *l, const char *s) {
  if (l->n == l->cap) {
    size_t cap = l->cap ? l->cap * 2 : 256;
    char **v = realloc(l->v, cap * sizeof *v);
    if (!v) return SP_E_NOMEM;
    l->v = v;
    l->cap = cap;
  }
  if (!(l->v[l->n] = keep(l, s))) return SP_E_NOMEM;
  l->n++;
  return SP_OK;
}

void rd_names_sort(rd_names *l, int (*order)(const void *a, const void *b)) {
  if (l->n) qsort(l->v, l->n, sizeof *l->v, order);
}

int rd_by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int rd_by_stem(const void *a, const void *b) {
  const char *x = *(char *const *)a, *y = *(char *const *)b;
  size_t nx = rd_stem_length(x), ny = rd_stem_length(y);
  int c = memcmp(x, y, nx < ny ? nx : ny);
  if (!c) c = (nx > ny) - (nx < ny);
  return c ? c : strcmp(x, y);
}

int rd_same_stem(const char *a, const char *b) {
  size_t n = rd_stem_length(a);
  return n == rd_stem_length(b) && !memcmp(a, b, n);
}

char **rd_find_stem(const rd_names *names, const char *stem) {
  size_t from = 0, to = names->n;
  char key[NAME_MAX + 8], *k = key;
  snprintf(key, sizeof key, "%s.", stem); /* before each of its endings */
  while (from < to) {
    size_t middle = from + (to - from) / 2;
    if (rd_by_stem(&names->v[middle], &k) < 0) from = middle + 1;
    else to = middle;
  }
  return from < names->n && rd_same_stem(names->v[from], key) ? &names->v[from] : NULL;
}

/* ---- numbered names ---- */
void rd_numbered_free(rd_numbered *l) {
  rd_names_free(&l->names);
  free(l->slots);
  *l = (rd_numbered){{0}, NULL, 0};
}

static uint32_t *slot_of(const rd_numbered *l, const char *s) {
  size_t at = (size_t)rd_hash_bytes(s, strlen(s)) & (l->n_slots - 1);
  while (l->slots[at] && strcmp(l->names.v[l->slots[at] - 1], s)) at = (at + 1) & (l->n_slots - 1);
  return &l->slots[at];
}

static int more_slots(rd_numbered *l) {
  size_t n = l->n_slots ? l->n_slots * 2 : 256;
  uint32_t *slots = n <= UINT32_MAX ? calloc(n, sizeof *slots) : NULL;
  if (!slots) return -1;
  free(l->slots);
  l->slots = slots;
  l->n_slots = n;
  for (size_t i = 0; i < l->names.n; i++) *slot_of(l, l->names.v[i]) = (uint32_t)i + 1;
  return 0;
}

int64_t rd_number_of(rd_numbered *l, const char *s) {
  if (l->names.n * 2 >= l->n_slots && more_slots(l)) return -1;
  uint32_t *slot = slot_of(l, s);
  if (!*slot) {
    if (rd_names_add(&l->names, s)) return -1;
    *slot = (uint32_t)l->names.n;
  }
  return (int64_t)*slot - 1;
}

int rd_has_number(const rd_numbered *l, const char *s) { return l->n_slots && *slot_of(l, s); }

/* ---- names of files ---- */
size_t rd_stem_length(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? (size_t)(dot - name) : strlen(name);
}

int rd_is_picture(const char *name) {
  static const char *const endings[] = {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff",
                                        ".bmp", ".dib",  ".gif", ".ppm",  ".pgm", ".pbm",  ".pnm"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
    if (!strcasecmp(dot, endings[i])) return 1;
  return 0;
}

int rd_is_array(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot && !strcasecmp(dot, ".npy");
}

/* The array of one image; not one of all images, labels or masks, as train_images.npy. */
int rd_is_image(const char *name) {
  static const char *const all[] = {"images.npy", "labels.npy", "masks.npy"};
  size_t n = strlen(name);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    size_t m = strlen(all[i]);
    if (n >= m && !strcmp(name + n - m, all[i]) && (n == m || strchr("/_", name[n - m - 1]))) return 0;
  }
  return rd_is_picture(name) || rd_is_array(name);
}

int rd_has_labels(const char *name) {
  const char *dot = strrchr(name, '.');
  return rd_is_mask(name) || rd_is_array(name) || (dot && (!strcasecmp(dot, ".tif") || !strcasecmp(dot, ".tiff")));
}

int rd_is_mask(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot && !strcasecmp(dot, ".png");
}

/* FNV-1a, mixed: the side of the split belongs to the name, not to the place in the list. */
uint64_t rd_hash_bytes(const char *p, size_t n) {
  uint64_t h = UINT64_C(0xCBF29CE484222325);
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)p[i]) * UINT64_C(0x100000001B3);
  h = (h ^ (h >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  h = (h ^ (h >> 27)) * UINT64_C(0x94D049BB133111EB);
  return h ^ (h >> 31);
}

uint64_t rd_hash_name(const char *name) { return rd_hash_bytes(name, rd_stem_length(name)); }
