/* SPDX-License-Identifier: MIT
 * values.c - labels and numbers go into the table's cells, and get names. */
#include "values.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "class_file.h"

int rd_add_class(rd_listing *l, uint32_t c) {
  rd_table *t = l->t;
  uint32_t *p = rd_grow(t->cells, t->n_cells, 1, &t->cells_cap, sizeof *p);
  if (!p) return rd_no_memory(l);
  t->cells = p;
  p[t->n_cells++] = c;
  return SP_OK;
}

int rd_add_number(rd_listing *l, float v) {
  uint32_t bits;
  v = v == 0 ? 0 : v; /* no -0 */
  memcpy(&bits, &v, sizeof bits);
  return rd_add_class(l, bits);
}

int rd_read_number(const char *text, float *v) {
  char *end;
  if (!*text || strspn(text, "+-.0123456789eE") != strlen(text)) return 0;
  *v = strtof(text, &end);
  return !*end && isfinite(*v);
}

/* ---- names ---- */
static int number_names(rd_listing *l, const char *name, int64_t n) {
  size_t size = (size_t)n * (strlen(name) + 24), at = 0;
  char *p = l->t->class_names = malloc(size);
  if (!p) return rd_no_memory(l);
  if (n == 1) snprintf(p, size, "%s", name);
  else
    for (int64_t i = 0; i < n; i++)
      at += (size_t)snprintf(p + at, size - at, "%s%s %" PRId64, i ? "\n" : "", name, i + 1);
  return SP_OK;
}

int rd_name_values(rd_listing *l, const char *folder, const char *of, const char *name, int64_t n) {
  rd_class_file file = {0};
  int rc = rd_read_classes(l->ctx, folder, &file);
  if (rc) return rc;
  free(file.palette);
  if (file.names && file.n != n) {
    free(file.names);
    return l->ctx->host->fail(l->ctx, SP_E_DATA,
                              "%s/classes.txt has %" PRId64 " lines, and %s has %" PRId64
                              " for each image: write a line for each of these, or remove classes.txt",
                              folder, file.n, of, n);
  }
  l->t->class_names = file.names;
  return file.names || l->t->gives != RD_NUMBERS ? SP_OK : number_names(l, name, n);
}

int rd_note_constant(rd_listing *l) {
  const rd_table *t = l->t;
  const char *name = t->class_names;
  for (int64_t c = 0; name && c < t->classes; c++) {
    uint32_t first = t->n ? t->cells[t->samples[0].cells.at + (size_t)c] : 0;
    size_t i = 0;
    float v;
    while (i < t->n && t->cells[t->samples[i].cells.at + (size_t)c] == first) i++;
    memcpy(&v, &first, sizeof v);
    if (i == t->n && t->n > 1)
      rd_note(l, "%.*s is %g in all samples: nothing can be learned from it", (int)strcspn(name, "\n"), name,
              (double)v);
    name = strchr(name, '\n');
    name = name ? name + 1 : NULL;
  }
  return SP_OK;
}
