/* SPDX-License-Identifier: MIT
 * copies.c - files of one name, label and content in both parts: what is learned from one is then what is measured on
 * the other. Copies under other names are found by `spcore data --check` alone, which reads all files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "table.h"

enum { LOOKED_AT = 4096, SLOTS = 16384 }; /* samples for validation, spread evenly */

static const char *name_of(const rd_table *t, const rd_sample *s) { return t->bytes + s->image.at; }

static size_t slot_of(const rd_table *t, const rd_sample *s) {
  const char *name = name_of(t, s);
  uint64_t h = rd_hash_bytes(name, strlen(name));
  return (size_t)(h ^ h >> 32) & (SLOTS - 1);
}

static int alike(const rd_table *t, const rd_sample *a, const rd_sample *b) {
  return !strcmp(name_of(t, a), name_of(t, b)) && (t->gives != RD_LABEL || a->label == b->label);
}

static FILE *open_of(const rd_table *t, const rd_sample *s, off_t *size) {
  char path[4096];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s", t->bytes + t->sources[s->image.source].path, name_of(t, s));
  FILE *f = fopen(path, "re");
  if (f && !fstat(fileno(f), &st) && S_ISREG(st.st_mode)) *size = st.st_size;
  else *size = -1;
  return f;
}

static int same_bytes(const rd_table *t, const rd_sample *a, const rd_sample *b) {
  char x[4096], y[4096];
  off_t na, nb;
  FILE *f = open_of(t, a, &na), *g = open_of(t, b, &nb);
  int same = f && g && na > 0 && na == nb;
  for (size_t n = 1; same && n;) {
    n = fread(x, 1, sizeof x, f);
    same = fread(y, 1, sizeof y, g) == n && !memcmp(x, y, n);
  }
  if (f) fclose(f);
  if (g) fclose(g);
  return same;
}

static int is_file(const rd_table *t, const rd_sample *s) { return t->sources[s->image.source].kind == RD_FILES; }

/* Of each name the first sample for validation; 0: none. */
static void spread(const rd_table *t, uint32_t *slots) {
  size_t n = t->ends[1] - t->ends[0], most = n < LOOKED_AT ? n : LOOKED_AT;
  for (size_t k = 0; k < most; k++) {
    size_t i = t->ends[0] + k * n / most, at = slot_of(t, &t->samples[i]);
    while (slots[at]) at = (at + 1) & (SLOTS - 1);
    if (is_file(t, &t->samples[i])) slots[at] = (uint32_t)i;
  }
}

int rd_note_copies(rd_listing *l) {
  const rd_table *t = l->t;
  char name[1024] = "";
  size_t found = 0;
  if (t->n_parts != 2 || !t->ends[0] || t->ends[1] <= t->ends[0]) return SP_OK;
  uint32_t *slots = calloc(SLOTS, sizeof *slots);
  if (!slots) return rd_no_memory(l);
  spread(t, slots);
  for (size_t i = 0; i < t->ends[0]; i++) {
    const rd_sample *s = &t->samples[i];
    if (!is_file(t, s)) continue;
    for (size_t at = slot_of(t, s); slots[at]; at = (at + 1) & (SLOTS - 1)) {
      const rd_sample *v = &t->samples[slots[at]];
      if (!alike(t, s, v) || s->image.source == v->image.source || !same_bytes(t, s, v)) continue;
      if (!found++) rd_name(t, &v->image, name, sizeof name);
      break;
    }
  }
  free(slots);
  if (found)
    rd_note(l,
            "%zu file%s in training and in validation, with one name and content, such as %s, so what is learned is "
            "what is measured: spcore data DIR --check finds all such, and those under other names",
            found, found == 1 ? " is" : "s are", name);
  return SP_OK;
}
