/* SPDX-License-Identifier: MIT
 * table.c - the table of samples: blocks that grow, and the sources that its samples' bytes come from. */
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rd_gives(int target) {
  static const int gives[] = {RD_MASK, RD_LABEL, RD_LABELS, RD_NUMBERS, RD_MASK};
  return gives[target];
}

void *rd_grow(void *block, size_t used, size_t n, size_t *cap, size_t element) {
  if (block && *cap - used >= n) return block;
  size_t want = *cap + *cap / 2 > used + n ? *cap + *cap / 2 : used + n + 64;
  void *p = want < SIZE_MAX / element ? realloc(block, want * element) : NULL;
  if (p) *cap = want;
  return p;
}

int rd_add_bytes(rd_table *t, const char *s, size_t n, uint64_t *at) {
  char *p = rd_grow(t->bytes, t->n_bytes, n + 1, &t->bytes_cap, 1);
  if (!p) return SP_E_NOMEM;
  t->bytes = p;
  *at = t->n_bytes;
  memcpy(p + t->n_bytes, s, n);
  p[t->n_bytes + n] = 0;
  t->n_bytes += n + 1;
  return SP_OK;
}

int rd_add_source(rd_table *t, uint32_t kind, const char *path, uint32_t *source) {
  rd_source *s = rd_grow(t->sources, t->n_sources, 1, &t->sources_cap, sizeof *s);
  if (!s) return SP_E_NOMEM;
  t->sources = s;
  s += t->n_sources;
  *s = (rd_source){.kind = kind};
  if (rd_add_bytes(t, path, strlen(path), &s->path)) return SP_E_NOMEM;
  *source = (uint32_t)t->n_sources++;
  return SP_OK;
}

rd_sample *rd_add_sample(rd_table *t) {
  rd_sample *s = rd_grow(t->samples, t->n, 1, &t->cap, sizeof *s);
  if (!s) return NULL;
  t->samples = s;
  s[t->n] = (rd_sample){0};
  return &s[t->n++];
}

rd_ref *rd_add_second(rd_table *t) {
  rd_ref *p = rd_grow(t->seconds, t->n - 1, 1, &t->seconds_cap, sizeof *p);
  if (!p) return NULL;
  t->seconds = p;
  p += t->n - 1;
  *p = (rd_ref){0};
  return p;
}

void rd_move_sample(rd_table *t, size_t to, size_t from) {
  t->samples[to] = t->samples[from];
  if (t->seconds) t->seconds[to] = t->seconds[from];
}

int rd_set_file(rd_table *t, rd_ref *ref, uint32_t source, const char *name, size_t n) {
  *ref = (rd_ref){.source = source};
  return rd_add_bytes(t, name, n, &ref->at);
}

int rd_no_memory(rd_listing *l) {
  return l->ctx ? l->ctx->host->fail(l->ctx, SP_E_NOMEM, "no memory for the names in folder %s", l->p->path)
                : SP_E_NOMEM;
}

void rd_table_free(rd_table *t) {
  if (!t) return;
  for (size_t i = 0; i < t->n_sources; i++)
    if (t->sources[i].data) rd_source_kinds[t->sources[i].kind]->close(&t->sources[i]);
  free(t->bytes);
  free(t->sources);
  free(t->samples);
  free(t->seconds);
  free(t->cells);
  free(t->stamps);
  free(t->id);
  free(t->class_names);
  free(t);
}

/* ---- sources ---- */
static int file_name(const rd_table *t, const rd_ref *ref, char *to, size_t size) {
  const char *folder = t->bytes + t->sources[ref->source].path;
  return snprintf(to, size, "%s%s%s", folder, *folder ? "/" : "", t->bytes + ref->at);
}

static int file_load(const rd_table *t, const rd_ref *ref, rd_worker *w) {
  char path[4096];
  if (file_name(t, ref, path, sizeof path) >= (int)sizeof path)
    return rd_fail(w, SP_E_INVALID, "the path of %.200s is longer than %zu bytes", t->bytes + ref->at, sizeof path);
  int rc = im_load(&w->decoder, path);
  return rc ? rd_fail(w, rc, "%s: %s", path, w->decoder.why) : SP_OK;
}

static const rd_source_kind files = {.load = file_load, .name = file_name};
const rd_source_kind *const rd_source_kinds[] = {
    [RD_FILES] = &files, [RD_SHARD] = &rd_shard_source, [RD_ARRAY] = &rd_array_source};

int rd_open_sources(sp_ctx *ctx, rd_table *t) {
  for (; t->n_open < t->n_sources; t->n_open++) {
    rd_source *s = &t->sources[t->n_open];
    int rc = rd_source_kinds[s->kind]->open ? rd_source_kinds[s->kind]->open(ctx, t, s) : SP_OK;
    if (rc) return rc;
  }
  return SP_OK;
}

int rd_load(const rd_table *t, const rd_ref *ref, rd_worker *w) {
  return rd_source_kinds[t->sources[ref->source].kind]->load(t, ref, w);
}

int rd_name(const rd_table *t, const rd_ref *ref, char *to, size_t size) {
  return rd_source_kinds[t->sources[ref->source].kind]->name(t, ref, to, size);
}
