/* SPDX-License-Identifier: MIT
 * snapshot.c - the weights as they are at one moment, written to a file; and whether a file is whole. */
#include "params/params.h"

#include <spcore/checksum.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUM "checksum"               /* metadata: of all tensors and their names, whatever their order */
#define META_SUM "checksum.metadata" /* of all other metadata, SUM among it; files of spcore before 0.16 have none */

struct sp_snapshot {
  const sp_format_type *type;
  sp_entry *entries; /* they own their names and values */
  size_t n;
  sp_meta *meta; /* it owns keys and values but the first two */
  size_t n_meta;
};

static uint64_t sum_of(const char *name, const void *data, const sp_spec *spec) {
  int64_t bytes = sp_spec_bytes(spec);
  return sp_checksum_mix(sp_checksum(name, strlen(name)) ^ sp_checksum(data, bytes > 0 ? (size_t)bytes : 0));
}

static uint64_t sum_of_meta(const sp_meta *meta, size_t n) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    if (!strcmp(meta[i].key, META_SUM)) continue;
    uint64_t value = sp_checksum_mix(sp_checksum(meta[i].value, strlen(meta[i].value)));
    sum += sp_checksum_mix(sp_checksum(meta[i].key, strlen(meta[i].key)) ^ value);
  }
  return sum;
}

/* ---- taking it --------------------------------------------------------------------------------------------------- */

/* The weight that is taken instead of weight i: weight k of the stage that is returned. */
static sp_weights *taken_of(sp_weights *stage, size_t i, bool averages, size_t *k) {
  long at = averages ? sp_store_average_of(stage->store, stage, i) : -1;
  *k = at < 0 ? i : (size_t)at;
  return at < 0 ? stage : stage->store->optimizer;
}

static bool is_taken(const sp_weights *stage, unsigned what) {
  return stage->w && (what & SP_SAVE_OPTIMIZER || !stage->optimizer);
}

int sp_store_join_snapshot(sp_store *store, unsigned what, sp_err *err) {
  int status = SP_OK;
  for (size_t i = 0; i < store->n_stages && store->sliced && !status; i++)
    for (size_t j = 0; j < store->stages[i]->n_weights && is_taken(store->stages[i], what) && !status; j++) {
      size_t k;
      sp_weights *from = taken_of(store->stages[i], j, what & SP_SAVE_AVERAGES, &k);
      void *whole = NULL;
      if (sp_weights_sliced(from, k)) status = sp_slices_gather(from, k, &whole, err);
      free(whole);
    }
  return status;
}

/* One stage's entries, row-major whatever the order in memory. */
static int take_stage(sp_snapshot *s, sp_weights *stage, bool averages, sp_err *err) {
  for (size_t i = 0; i < stage->n_weights; i++) {
    size_t k;
    sp_weights *from = taken_of(stage, i, averages, &k);
    sp_entry *e = &s->entries[s->n++];
    sp_sb name = {0};
    size_t bytes = (size_t)sp_spec_bytes(&stage->weights[i].spec);
    e->spec = stage->weights[i].spec;
    e->spec.order = SP_ROW_MAJOR;
    e->data = sp_calloc(1, bytes ? bytes : 1);
    sp_sb_putf(&name, "%s.%s", stage->name, stage->weights[i].name);
    e->name = name.s;
    if (!e->data || name.broken) return sp_nomem(err, bytes, stage->weights[i].name);
    const void *data;
    void *copy;
    int status = sp_weights_get(from, k, &data, &copy, err);
    if (!status) sp_spec_copy(&e->spec, e->data, &stage->weights[i].spec, data);
    free(copy);
    if (status) return sp_prefix(err, "stage '%s': weight '%s'", stage->name, stage->weights[i].name);
  }
  return SP_OK;
}

static int take_meta(sp_snapshot *s, const sp_meta *meta, size_t n, sp_err *err) {
  s->meta = sp_calloc(n + 3, sizeof *s->meta);
  if (!s->meta) return sp_nomem(err, n * sizeof *meta, "metadata");
  s->meta[s->n_meta++] = (sp_meta){"format", "pt"};
  s->meta[s->n_meta++] = (sp_meta){"producer", "spcore"};
  for (size_t i = 0; i < n; i++) {
    s->meta[s->n_meta] = (sp_meta){sp_strdup(meta[i].key), sp_strdup(meta[i].value)};
    if (!s->meta[s->n_meta].key || !s->meta[s->n_meta++].value) return sp_nomem(err, 64, "metadata");
  }
  return SP_OK;
}

int sp_store_snapshot(sp_snapshot **out, sp_store *store, unsigned what, const char *path, const sp_meta *meta,
                      size_t n_meta, sp_err *err) {
  const sp_format_type *type;
  size_t total = 0;
  *out = NULL;
  if (sp_registry_format(store->env->reg, path, &type, err)) return err->status;
  sp_snapshot *s = sp_calloc(1, sizeof *s);
  if (!s) return sp_nomem(err, sizeof *s, "a copy of the weights");
  s->type = type;
  for (size_t i = 0; i < store->n_stages; i++) total += store->stages[i]->n_weights;
  s->entries = sp_calloc(total + 1, sizeof *s->entries);
  int status = s->entries ? take_meta(s, meta, n_meta, err) : sp_nomem(err, 64, "the list of weights");
  for (size_t i = 0; i < store->n_stages && !status; i++)
    if (is_taken(store->stages[i], what)) status = take_stage(s, store->stages[i], what & SP_SAVE_AVERAGES, err);
  if (status) sp_snapshot_free(s);
  else *out = s;
  return status;
}

void sp_snapshot_free(sp_snapshot *s) {
  if (!s) return;
  for (size_t i = 0; i < s->n; i++) {
    free((char *)s->entries[i].name);
    free(s->entries[i].data);
  }
  for (size_t i = 2; s->meta && i < s->n_meta + 1; i++) { /* the last one may be there by half */
    free((char *)s->meta[i].key);
    free((char *)s->meta[i].value);
  }
  free(s->entries);
  free(s->meta);
  free(s);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

int sp_snapshot_write(const sp_snapshot *s, const char *path, sp_err *err) {
  sp_ctx_holder h;
  char hex[17], meta_hex[17];
  uint64_t sum = 0;
  sp_meta *meta = sp_calloc(s->n_meta + 2, sizeof *meta);
  if (!meta) return sp_nomem(err, 64, "metadata");
  for (size_t i = 0; i < s->n; i++) sum += sum_of(s->entries[i].name, s->entries[i].data, &s->entries[i].spec);
  snprintf(hex, sizeof hex, "%016" PRIx64, sum);
  memcpy(meta, s->meta, s->n_meta * sizeof *meta);
  meta[s->n_meta] = (sp_meta){SUM, hex};
  snprintf(meta_hex, sizeof meta_hex, "%016" PRIx64, sum_of_meta(meta, s->n_meta + 1));
  meta[s->n_meta + 1] = (sp_meta){META_SUM, meta_hex};
  int status = s->type->write(sp_ctx_for(&h, s->type->name, err), path, s->entries, s->n, meta, s->n_meta + 2);
  free(meta);
  return status;
}

int sp_store_save(sp_store *store, const char *path, unsigned what, sp_err *err) {
  sp_snapshot *s;
  int status = sp_store_snapshot(&s, store, what, path, NULL, 0, err);
  if (status) return status;
  status = sp_snapshot_write(s, path, err);
  sp_snapshot_free(s);
  return status;
}

static int add_up(const sp_format_type *type, void *file, const sp_entry *entries, size_t n, uint64_t *sum,
                  sp_err *err) {
  sp_ctx_holder h;
  int status = SP_OK;
  for (size_t i = 0; i < n && !status; i++) {
    size_t bytes = entries[i].spec.dtype ? (size_t)sp_spec_bytes(&entries[i].spec) : 0; /* which is refused */
    void *data = sp_calloc(1, bytes ? bytes : 1);
    if (!data) return sp_nomem(err, bytes, entries[i].name);
    status = type->read(sp_ctx_for(&h, type->name, err), file, i, data, bytes);
    if (!status) *sum += sum_of(entries[i].name, data, &entries[i].spec);
    free(data);
  }
  return status;
}

/* Another tool's metadata may have the key, too. */
static bool is_sum(const sp_meta *m, const char *key) {
  return !strcmp(m->key, key) && strlen(m->value) == 16 && strspn(m->value, "0123456789abcdef") == 16;
}

static int check_meta(const sp_meta *meta, size_t n, const char *path, sp_err *err) {
  size_t at = 0;
  char hex[17];
  while (at < n && !is_sum(&meta[at], META_SUM)) at++;
  snprintf(hex, sizeof hex, "%016" PRIx64, sum_of_meta(meta, n));
  if (at == n || !strcmp(meta[at].value, hex)) return SP_OK;
  return sp_fail(
      err, SP_E_FORMAT,
      "%s: damaged: its metadata has the checksum %s, not %s (who has changed it on purpose leaves '" META_SUM "' out)",
      path, hex, meta[at].value);
}

/* all: of a file that does not tell, whether all of it can be read. */
static int check(const sp_format_type *type, void *file, const char *path, bool all, sp_err *err) {
  const sp_entry *entries;
  const sp_meta *meta;
  size_t n, n_meta, at = 0;
  uint64_t sum = 0;
  char hex[17];
  int status = type->entries(file, &entries, &n, &meta, &n_meta);
  if (status) return sp_fail(err, status, "%s: its entries cannot be listed", path);
  if ((status = check_meta(meta, n_meta, path, err))) return status;
  while (at < n_meta && !is_sum(&meta[at], SUM)) at++;
  if (at == n_meta && !all) return SP_OK;
  if ((status = add_up(type, file, entries, n, &sum, err))) return status;
  snprintf(hex, sizeof hex, "%016" PRIx64, sum);
  if (at == n_meta || !strcmp(meta[at].value, hex)) return SP_OK;
  return sp_fail(
      err, SP_E_FORMAT,
      "%s: damaged: its tensors have the checksum %s, not %s (who has changed them on purpose leaves that out of "
      "its metadata)",
      path, hex, meta[at].value);
}

int sp_snapshot_check(const sp_format_type *type, void *file, const char *path, sp_err *err) {
  return check(type, file, path, false, err);
}

static int examine(const sp_format_type *type, void *file, const char *path,
                   void (*each)(void *arg, const char *key, const char *value), void *arg, sp_err *err) {
  const sp_entry *entries;
  const sp_meta *meta;
  size_t n, n_meta = 0;
  int status = check(type, file, path, true, err);
  if (!status) status = type->entries(file, &entries, &n, &meta, &n_meta);
  for (size_t i = 0; i < n_meta && !status; i++) each(arg, meta[i].key, meta[i].value);
  return status;
}

int sp_snapshot_examine(sp_registry *reg, const char *path, void (*each)(void *arg, const char *key, const char *value),
                        void *arg, sp_err *err) {
  const sp_format_type *type;
  sp_ctx_holder h;
  void *file;
  int status = sp_registry_format(reg, path, &type, err);
  if (status || (status = type->open(sp_ctx_for(&h, type->name, err), path, &file))) return status;
  status = examine(type, file, path, each, arg, err);
  type->close(file);
  return status;
}
