/* SPDX-License-Identifier: MIT
 * contents.c - what the samples of a set are: sizes by the headers of files, classes of single samples, and images that
 * are there more than once by their decoded pixels. */
#include "contents.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "masks.h"
#include "table.h"

#define HEAD 32768 /* bytes in which most formats say their size */

static rd_worker *looker(rd_self *self) {
  if (!self->looker && (self->looker = calloc(1, sizeof *self->looker)))
    self->looker->decoder.as_stored = !self->p->orient;
  return self->looker;
}

/* ---- sizes ---- */
/* The first bytes of a file; 0: it cannot be read so. */
static int load_head(const rd_table *t, const rd_ref *ref, rd_worker *w) {
  char path[4096];
  if (t->sources[ref->source].kind == RD_SHARD) {
    rd_ref head = *ref;
    if (head.size > HEAD) head.size = HEAD;
    return !rd_load(t, &head, w);
  }
  if (t->sources[ref->source].kind != RD_FILES || rd_name(t, ref, path, sizeof path) >= (int)sizeof path) return 0;
  uint8_t *to = im_room(&w->decoder, HEAD);
  int fd = to ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  ssize_t n = fd < 0 ? -1 : read(fd, to, HEAD);
  if (fd >= 0) close(fd);
  w->decoder.size = n > 0 ? (size_t)n : 0;
  return n > 0;
}

/* A header that says its size first, and its orientation with it. Of others what says it may lie anywhere. */
static int is_ahead(const im_decoder *d) {
  const uint8_t *p = d->file.p;
  return d->size >= 4 && memcmp(p, "RIFF", 4) && memcmp(p, "II", 2) && memcmp(p, "MM", 2);
}

/* "WIDTH HEIGHT TYPE CHANNELS", and " alpha" where the last of these is that. */
static int write_about(const im_pixels *px, char *to, size_t size) {
  char packed[16];
  snprintf(packed, sizeof packed, "uint%d", px->packed);
  return snprintf(to, size, "%d %d %s %d%s", px->w, px->h, px->packed ? packed : im_type_name(px->type), px->channels,
                  px->alpha ? " alpha" : "");
}

int rd_size_item(const void *arg, uint64_t i, char *to, size_t size) {
  rd_self *self = (rd_self *)arg;
  rd_worker *w = looker(self);
  const rd_ref *ref = &self->table->samples[self->list[i]].image;
  im_pixels px;
  if (!w) return snprintf(to, size, "! no memory to look at images");
  int ahead = load_head(self->table, ref, w) && is_ahead(&w->decoder);
  w->decoder.only_head = 1;
  ahead = ahead && !im_about(&w->decoder, &px);
  w->decoder.only_head = 0;
  if (ahead) return write_about(&px, to, size);
  if (rd_load(self->table, ref, w)) return snprintf(to, size, "! %s", w->why);
  int rc = im_about(&w->decoder, &px);
  if (rc) return rd_blame(self->table, w, rc, ref), snprintf(to, size, "! %s", w->why);
  return write_about(&px, to, size);
}

/* ---- classes ---- */
int rd_class_item(const void *arg, uint64_t i, char *to, size_t size) {
  rd_self *self = (rd_self *)arg;
  uint64_t index = self->list[i];
  const rd_sample *s = &self->table->samples[index];
  rd_worker *w = looker(self);
  int n = snprintf(to, size, "%" PRIu64 " %d", index, rd_part_of(self, index)), mw, mh;
  if (self->gives & RD_LABEL) return n + snprintf(to + n, size - (size_t)n, " %" PRId64, s->label);
  if (self->p->target == RD_TARGET_MAP) return n;
  if (!w) return n + snprintf(to + n, size - (size_t)n, " ! no memory to look at masks");
  int rc = rd_load_mask(self, w, &s->mask, &mw, &mh);
  if (!rc) rc = rd_check_labels(self, w, &s->mask, mw, mh);
  if (rc) return n + snprintf(to + n, size - (size_t)n, " ! %.1000s", w->why);
  uint8_t has[256] = {0};
  const uint8_t *labels = w->mask.p;
  for (size_t k = 0, all = (size_t)mw * (size_t)mh; k < all; k++) has[labels[k]] = 1;
  for (int k = 0; k < self->classes; k++)
    if (has[k]) n += snprintf(to + n, size - (size_t)n, " %d", k);
  return n;
}

/* ---- images that are there more than once ---- */
/* Four sums side by side: one would wait for each product. */
uint64_t rd_hash_pixels(const void *px, size_t n, int w, int h) {
  const uint8_t *p = px;
  const uint64_t odd = UINT64_C(0x9E3779B97F4A7C15);
  uint64_t s[4] = {(uint64_t)w, (uint64_t)h, 3, 4}, v[4];
  size_t at = 0;
  for (; at + sizeof v <= n; at += sizeof v) {
    memcpy(v, p + at, sizeof v);
    for (int k = 0; k < 4; k++) {
      s[k] = (s[k] ^ v[k]) * odd;
      s[k] ^= s[k] >> 32;
    }
  }
  memset(v, 0, sizeof v);
  memcpy(v, p + at, n - at);
  uint64_t sum = odd;
  for (int k = 0; k < 4; k++) {
    s[k] = (s[k] ^ v[k]) * odd;
    sum = (sum ^ s[k] ^ s[k] >> 29) * UINT64_C(0xBF58476D1CE4E5B9);
    sum ^= sum >> 32;
  }
  return sum ? sum : 1;
}

struct rd_twins {
  uint64_t n[RD_TWINS];
  uint32_t pair[RD_TWINS][2]; /* the first in the order of the samples */
};

typedef struct print {
  uint64_t hash;
  uint32_t index, part;
} print;

static int by_hash(const void *a, const void *b) {
  const print *x = a, *y = b;
  if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static void note(struct rd_twins *t, int kind, uint32_t first, uint32_t second) {
  if (!t->n[kind]++ || second < t->pair[kind][1]) t->pair[kind][0] = first, t->pair[kind][1] = second;
}

/* Images of equal pixels, in the order of the samples. */
static void add_group(const rd_self *self, struct rd_twins *t, const print *p, size_t n) {
  const print *first[2] = {NULL, NULL};
  const rd_sample *samples = self->table->samples;
  for (size_t i = 0; i < n; i++)
    if (!first[p[i].part]) first[p[i].part] = &p[i];
  for (size_t i = 0; i < n; i++) {
    const print *before = first[p[i].part];
    if (before != &p[i]) note(t, p[i].part ? RD_TWIN_VAL : RD_TWIN_TRAIN, before->index, p[i].index);
    if (p[i].part && first[0]) note(t, RD_TWIN_ACROSS, first[0]->index, p[i].index);
    if (self->gives & RD_LABEL && samples[p[i].index].label != samples[p[0].index].label)
      note(t, RD_TWIN_LABELS, p[0].index, p[i].index);
  }
}

static const struct rd_twins *twins(rd_self *self) {
  print *p = self->twins ? NULL : calloc((size_t)self->length + 1, sizeof *p);
  if (!p || !(self->twins = calloc(1, sizeof *self->twins))) {
    free(p);
    return self->twins;
  }
  size_t n = 0;
  for (uint64_t i = 0; i < self->length; i++) {
    uint32_t index = self->list[i];
    if (self->prints[index]) p[n++] = (print){self->prints[index], index, (uint32_t)rd_part_of(self, index)};
  }
  qsort(p, n, sizeof *p, by_hash);
  for (size_t i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && p[end].hash == p[i].hash; end++) continue;
    if (end - i > 1) add_group(self, self->twins, p + i, end - i);
  }
  free(p);
  return self->twins;
}

int rd_twin_item(const void *arg, uint64_t kind, char *to, size_t size) {
  rd_self *self = (rd_self *)arg;
  const struct rd_twins *t = twins(self);
  char a[2048], b[2048];
  if (!t) return snprintf(to, size, "! no memory to compare images");
  if (!t->n[kind]) return snprintf(to, size, "0");
  rd_name(self->table, &self->table->samples[t->pair[kind][0]].image, a, sizeof a);
  rd_name(self->table, &self->table->samples[t->pair[kind][1]].image, b, sizeof b);
  return snprintf(to, size, "%" PRIu64 "\t%s\t%s", t->n[kind], a, b);
}
