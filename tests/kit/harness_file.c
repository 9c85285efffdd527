/* SPDX-License-Identifier: MIT
 * harness_file.c - for tests/parity: weight files through the format plugins, and first values of weights. */
#include "harness.h"

#include <stdlib.h>

#include "params/params.h"
#include "host/stage.h"

static sp_err last;

typedef struct open_file {
  const sp_format_type *type;
  void *file;
  const sp_entry *entries;
  size_t n;
} open_file;

const char *spt_file_error(void) { return last.msg; }

int spt_file_list(const char *path, void **out, size_t *n) {
  sp_ctx_holder h;
  const sp_meta *meta;
  size_t n_meta;
  int rc;
  open_file *f = sp_calloc(1, sizeof *f);
  if (!f) return sp_nomem(&last, sizeof *f, "a test file");
  if ((rc = spt_format(path, &f->type, &last)) || (rc = f->type->open(sp_ctx_for(&h, path, &last), path, &f->file))) {
    spt_file_close(f);
    return rc;
  }
  if ((rc = f->type->entries(f->file, &f->entries, &f->n, &meta, &n_meta))) {
    spt_file_close(f);
    return rc;
  }
  *out = f;
  *n = f->n;
  return SP_OK;
}

int spt_file_read(void *file, size_t i, sp_entry *e, void *dst, size_t bytes) {
  open_file *f = file;
  sp_ctx_holder h;
  if (i >= f->n) return sp_fail(&last, SP_E_NOTFOUND, "no entry %zu", i);
  *e = f->entries[i];
  return dst ? f->type->read(sp_ctx_for(&h, "read", &last), f->file, i, dst, bytes) : SP_OK;
}

void spt_file_close(void *file) {
  open_file *f = file;
  if (f && f->file) f->type->close(f->file);
  free(f);
}

int spt_file_write(const char *path, const sp_entry *entries, size_t n) {
  const sp_format_type *type;
  sp_ctx_holder h;
  int rc = spt_format(path, &type, &last);
  return rc ? rc : type->write(sp_ctx_for(&h, path, &last), path, entries, n, NULL, 0);
}

int spt_init(const sp_entry *weights, const double *fan_in, size_t n, uint64_t seed, int torch) {
  sp_mt19937 mt;
  int rc = SP_OK;
  sp_mt19937_seed(&mt, seed);
  for (size_t i = 0; i < n && !rc; i++) {
    sp_weight w = {.name = weights[i].name, .spec = weights[i].spec, .init = SP_INIT_UNIFORM, .init_value = fan_in[i]};
    sp_spec rows = w.spec;
    size_t bytes = (size_t)sp_spec_bytes(&w.spec);
    void *data = malloc(bytes + 1);
    if (!data) return sp_nomem(&last, bytes, "a test weight");
    rc = sp_init_weights(&w, 1, &data, "stage", seed, torch ? &mt : NULL, &last);
    rows.order = SP_ROW_MAJOR;
    if (!rc) sp_spec_copy(&rows, weights[i].data, &w.spec, data);
    free(data);
  }
  return rc;
}
