/* SPDX-License-Identifier: MIT
 * repeats.c - files that a list names twice: what is learned from one is then what is measured on the other.
 *
 * Two names are of one file where their folders are one, however they are written, and the last parts of the names
 * are equal. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

/* ---- finding them ---- */
typedef struct finder {
  const rd_table *t;
  /* Open addressing, at a file's hash or behind it; apart, so that it takes 5 bytes a slot. */
  uint8_t *tags;   /* a part of the hash, so that few names are compared; 0: free */
  uint32_t *first; /* the first sample of a file */
  size_t n_slots;
  uint32_t *folder; /* of each source, the same for the same folder */
} finder;

static int know_folders(finder *f) {
  rd_numbered real = {0};
  int rc = SP_OK;
  for (size_t i = 0; !rc && i < f->t->n_sources; i++) {
    const char *path = f->t->bytes + f->t->sources[i].path;
    char *whole = realpath(*path ? path : ".", NULL);
    int64_t id = rd_number_of(&real, whole ? whole : path);
    free(whole);
    if (id < 0) rc = SP_E_NOMEM;
    f->folder[i] = (uint32_t)id;
  }
  rd_numbered_free(&real);
  return rc;
}

static const char *name_of(const finder *f, const rd_ref *ref) { return f->t->bytes + ref->at; }

static int same_file(const finder *f, const rd_ref *a, const rd_ref *b) {
  return f->folder[a->source] == f->folder[b->source] && !strcmp(name_of(f, a), name_of(f, b));
}

/* Of samples of two images both are equal: one image may be compared with several. */
static int same(const finder *f, size_t a, size_t b) {
  const rd_table *t = f->t;
  return same_file(f, &t->samples[a].image, &t->samples[b].image) &&
         (!t->seconds || same_file(f, &t->seconds[a], &t->seconds[b]));
}

static uint64_t hash_of(const finder *f, const rd_ref *ref) {
  const char *name = name_of(f, ref);
  return rd_hash_bytes(name, strlen(name)) + f->folder[ref->source] * UINT64_C(0x9E3779B97F4A7C15);
}

/* The slot of sample i, which has the first of its file, or is free: then it takes the tag. */
static size_t slot_of(finder *f, size_t i, int *is_new) {
  uint64_t h = hash_of(f, &f->t->samples[i].image);
  if (f->t->seconds) h = h * 31 + hash_of(f, &f->t->seconds[i]);
  size_t at = (size_t)((uint64_t)(uint32_t)(h ^ h >> 32) * f->n_slots >> 32);
  uint8_t tag = (uint8_t)(1 + (h >> 32) % 255);
  while (f->tags[at] && (f->tags[at] != tag || !same(f, f->first[at], i)))
    if (++at == f->n_slots) at = 0;
  *is_new = !f->tags[at];
  f->tags[at] = tag;
  return at;
}

int rd_find_repeats(rd_listing *l, int (*seen)(void *arg, size_t earlier, size_t later), void *arg) {
  const rd_table *t = l->t;
  finder f = {.t = t, .n_slots = t->n + t->n / 2 + 64};
  f.tags = calloc(f.n_slots, sizeof *f.tags);
  f.first = malloc(f.n_slots * sizeof *f.first);
  f.folder = calloc(t->n_sources + 1, sizeof *f.folder);
  int rc = f.tags && f.first && f.folder ? know_folders(&f) : SP_E_NOMEM;
  if (rc) rc = rd_no_memory(l);
  for (size_t i = 0; !rc && i < t->n; i++) {
    int is_new;
    size_t at = slot_of(&f, i, &is_new);
    if (is_new) f.first[at] = (uint32_t)i;
    else rc = seen(arg, f.first[at], i);
  }
  free(f.tags);
  free(f.first);
  free(f.folder);
  return rc;
}

/* ---- saying so ---- */
typedef struct found {
  rd_table *t;
  uint8_t *later;  /* samples that are no first ones */
  size_t n[2];     /* within a part, across */
  size_t first[2]; /* of them the first sample */
} found;

static int count(void *arg, size_t earlier, size_t later) {
  found *f = arg;
  int across = f->t->n_parts == 2 && (earlier < f->t->ends[0]) != (later < f->t->ends[0]);
  f->later[later] = 1;
  if (!f->n[across]++) f->first[across] = later;
  return SP_OK;
}

static void drop(found *f) {
  rd_table *t = f->t;
  size_t to = 0, ends[2] = {t->ends[0], t->ends[1]};
  for (size_t i = 0; i < t->n; i++) {
    for (int k = 0; f->later[i] && k < t->n_parts; k++) ends[k] -= i < t->ends[k];
    if (!f->later[i]) rd_move_sample(t, to++, i);
  }
  t->n = to;
  memcpy(t->ends, ends, sizeof ends);
}

int rd_note_repeats(rd_listing *l) {
  found f = {.t = l->t, .later = calloc(l->t->n + 1, 1)};
  int rc = f.later ? rd_find_repeats(l, count, &f) : rd_no_memory(l), once = l->p->csv.repeats == RD_REPEATS_ONCE;
  for (int across = 1; !rc && across >= 0; across--) {
    char name[1024];
    size_t n = f.n[across];
    if (!n) continue;
    rd_name(l->t, &l->t->samples[f.first[across]].image, name, sizeof name);
    if (once)
      rd_note(l, "%zu sample%s a file that an earlier one has: left out, such as %s", n, n == 1 ? " is of" : "s are of",
              name);
    else if (across)
      rd_note(l,
              "%zu file%s both in training and in validation, such as %s, so what is learned is what is measured: "
              "`repeats = \"once\"` leaves %s out of validation",
              n, n == 1 ? " is" : "s are", name, n == 1 ? "it" : "them");
    else if (l->p->csv.repeats == RD_REPEATS_ASK)
      rd_note(l,
              "%zu sample%s a file that an earlier one has, such as %s: each row counts; `repeats = \"once\"` reads a "
              "file once",
              n, n == 1 ? " is of" : "s are of", name);
  }
  if (!rc && once && f.n[0] + f.n[1]) drop(&f);
  free(f.later);
  return rc;
}
