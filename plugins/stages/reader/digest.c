/* SPDX-License-Identifier: MIT
 * digest.c - what a table's data is in two numbers: a run that goes on, and the ranks of a job, compare them.
 *
 * The first has the order of the samples, their names below the data's folder, the sizes of their files, their labels,
 * the names of the classes, and the sizes of lists and archives; of one that was fetched its address and checksum, or
 * what the server says of its version. The second has when each of these files was written last. A
 * copy of a folder has the first one of the original. Neither reads a picture. */
#include "digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "table.h"

typedef struct digest {
  uint64_t content, times;
} digest;

static uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * UINT64_C(0xBF58476D1CE4E5B9);
  return h ^ (h >> 29);
}

/* A file's size and time; what is not there has neither. */
static void add_file(digest *d, const char *path) {
  struct stat st;
  if (stat(path, &st)) st = (struct stat){0};
  d->content = mix(d->content, (uint64_t)st.st_size);
  d->times = mix(d->times, (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec);
}

/* A path without the folder that the parameters name. */
static void add_path(const rd_self *self, digest *d, const char *path) {
  const char *const roots[] = {self->p->path, self->p->val_path};
  for (int k = 0; k < 2; k++) {
    size_t n = strlen(roots[k]);
    if (!n || strncmp(path, roots[k], n)) continue;
    path += n;
    break;
  }
  d->content = mix(d->content, rd_hash_bytes(path, strlen(path)));
}

static void add_ref(const rd_self *self, digest *d, const rd_ref *ref) {
  const rd_table *t = self->table;
  const rd_source *s = &t->sources[ref->source];
  const char *folder = t->bytes + s->path;
  char path[4096];
  d->content = mix(d->content, ref->source);
  if (s->kind != RD_FILES) {
    d->content = mix(mix(d->content, ref->at), ref->size);
    return;
  }
  int n = snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", t->bytes + ref->at);
  if (n < 0 || n >= (int)sizeof path) return;
  add_path(self, d, path);
  add_file(d, path);
}

static void add_cells(digest *d, const uint32_t *cells, uint32_t n) {
  d->content = mix(d->content, n);
  for (uint32_t i = 0; i < n; i++) d->content = mix(d->content, cells[i]);
}

static digest of(const rd_self *self) {
  const rd_table *t = self->table;
  digest d = {t->n, 1};
  for (int k = 0; k < 2; k++) d.content = mix(d.content, t->ends[k]);
  if (self->class_names) d.content = mix(d.content, rd_hash_bytes(self->class_names, strlen(self->class_names)));
  for (size_t i = 0; i < t->n_sources; i++) {
    const rd_source *s = &t->sources[i];
    if (s->kind == RD_FILES) continue;
    add_path(self, &d, t->bytes + s->path);
    if (s->tag) d.content = mix(d.content, rd_hash_bytes(t->bytes + s->tag, strlen(t->bytes + s->tag)));
    else add_file(&d, t->bytes + s->path);
  }
  for (size_t i = 0; i < t->n_stamps; i++) {
    struct stat st;
    const char *path = t->bytes + t->stamps[i].path;
    if (!stat(path, &st) && S_ISREG(st.st_mode)) add_file(&d, path);
  }
  for (size_t i = 0; i < t->n; i++) {
    const rd_sample *s = &t->samples[i];
    add_ref(self, &d, &s->image);
    if (t->seconds) add_ref(self, &d, &t->seconds[i]);
    if (t->gives & RD_MASK) add_ref(self, &d, &s->mask);
    else if (t->gives & RD_LABEL) d.content = mix(d.content, (uint64_t)s->label);
    else if (t->gives & (RD_LABELS | RD_NUMBERS)) add_cells(&d, t->cells + s->cells.at, s->cells.n);
  }
  for (size_t i = 0; self->draws && rd_sampling_file(self->p) && i < self->length; i++) {
    uint32_t bits;
    memcpy(&bits, &self->draws[i], sizeof bits);
    d.content = mix(d.content, bits);
  }
  return d;
}

int rd_digest(const void *arg, uint64_t i, char *to, size_t size) {
  digest d = of(arg);
  return snprintf(to, size, "%016" PRIx64, i ? d.times : d.content);
}
