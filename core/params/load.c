/* SPDX-License-Identifier: MIT
 * load.c - weights from a file: their values, some of another type. */
#include "params/names.h"
#include "params/params.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char *weights_file(const char *path, sp_err *err) {
  struct stat sb;
  sp_sb s = {0};
  sp_sb_put(&s, path);
  bool is_folder = !stat(path, &sb) && S_ISDIR(sb.st_mode);
  if (is_folder) sp_sb_put(&s, "/weights.safetensors");
  if (is_folder && !s.broken && stat(sp_sb_str(&s), &sb)) {
    sp_fail(err, SP_E_NOTFOUND,
            "%s: a folder without weights.safetensors, so it is that of no run that has ended; name the file", path);
    sp_sb_free(&s);
    return NULL;
  }
  if (s.broken || !s.s) {
    sp_sb_free(&s);
    sp_nomem(err, 64, "a path");
    return NULL;
  }
  return s.s;
}

typedef struct {
  const sp_format_type *type;
  void *file;
  char *path;
  const sp_entry *entries;
  size_t n;
  const char *bad; /* the first tensor with values that are not finite, and how many such tensors there are */
  size_t n_bad;
  size_t n_converted; /* tensors of another floating type */
  int converted;      /* the last one's */
} weight_file;

static void close_file(weight_file *f) {
  if (f->file) f->type->close(f->file);
  free(f->path);
}

static int open_file(sp_store *store, const char *path, weight_file *f, sp_err *err) {
  const sp_meta *meta;
  size_t n_meta;
  sp_ctx_holder h;
  struct stat sb;
  int status;
  *f = (weight_file){.path = weights_file(path, err)};
  if (!f->path) return err->status;
  if (stat(f->path, &sb)) {
    status = sp_fail(err, SP_E_IO, "%s: %s", f->path, strerror(errno));
  } else if (!(status = sp_registry_format(store->env->reg, f->path, &f->type, err)) &&
             !(status = f->type->open(sp_ctx_for(&h, f->type->name, err), f->path, &f->file))) {
    status = f->type->entries(f->file, &f->entries, &f->n, &meta, &n_meta);
    if (status) sp_fail(err, status, "%s: its entries cannot be listed", f->path);
    else status = sp_snapshot_check(f->type, f->file, f->path, err);
  }
  if (status) close_file(f);
  return status;
}

/* Values in the order of `spec` into weight i. */
static int store(sp_weights *stage, size_t i, const sp_spec *spec, const void *values, sp_err *err) {
  const sp_spec *own = &stage->weights[i].spec;
  size_t bytes = (size_t)sp_spec_bytes(own);
  void *tmp;
  int status;
  if (sp_place_is_host(stage->place) && !sp_weights_sliced(stage, i)) {
    sp_spec_copy(own, stage->w[i].data, spec, values);
    return SP_OK;
  }
  if (!(tmp = sp_calloc(1, bytes ? bytes : 1))) return sp_nomem(err, bytes, stage->weights[i].name);
  sp_spec_copy(own, tmp, spec, values);
  status = sp_weights_put(stage, i, tmp, err);
  free(tmp);
  return status;
}

static float of_half(uint16_t h) {
  int exponent = h >> 10 & 31, mantissa = h & 1023;
  float v = exponent == 31 ? (mantissa ? NAN : INFINITY)
            : exponent     ? ldexpf((float)(mantissa + 1024), exponent - 25)
                           : ldexpf((float)mantissa, -24);
  return h >> 15 ? -v : v;
}

static float of_bfloat(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static double number_at(int dtype, const void *data, int64_t i) {
  switch (dtype) {
    case SP_F16: return of_half(((const uint16_t *)data)[i]);
    case SP_BF16: return of_bfloat(((const uint16_t *)data)[i]);
    case SP_F32: return ((const float *)data)[i];
    case SP_I32: return ((const int32_t *)data)[i];
    default: return ((const double *)data)[i];
  }
}

/* What entry e holds, as the type that is wanted: float32, or int64, for which its numbers must be whole. */
static int convert(weight_file *f, const sp_entry *e, sp_spec *spec, int dtype, void **data, sp_err *err) {
  int64_t n = sp_spec_count(spec);
  void *to = sp_calloc((size_t)n + 1, sizeof(int64_t));
  if (!to) return sp_nomem(err, (size_t)n * sizeof(int64_t), e->name);
  int status = SP_OK;
  for (int64_t i = 0; i < n && !status; i++) {
    double v = number_at(spec->dtype, *data, i);
    if (dtype == SP_F32) ((float *)to)[i] = (float)v;
    else if (v >= 0 && v <= 0x1p53 && v == floor(v)) ((int64_t *)to)[i] = (int64_t)v;
    else
      status = sp_fail(err, SP_E_DATA,
                       "%s: '%s' counts batches and holds %g, where a whole number of at least 0 is wanted; leave this "
                       "entry out of the file, since nothing needs it",
                       f->path, e->name, v);
  }
  free(*data);
  *data = to;
  if (dtype == SP_F32) f->n_converted++, f->converted = spec->dtype;
  spec->dtype = dtype;
  return status;
}

static void look_for_nan(weight_file *f, const char *name, const sp_spec *spec, const float *v) {
  int64_t n = spec->dtype == SP_F32 ? sp_spec_count(spec) : 0;
  for (int64_t i = 0; i < n; i++) {
    if (isfinite(v[i])) continue;
    if (!f->n_bad++) f->bad = name;
    return;
  }
}

/* Filters of RGB, row-major, for `channels` channels, so that what they answer to equal channels stays about the same:
 * their sum for one; else repeated, times 3 / channels. */
static float *for_channels(const sp_spec *spec, const float *v, int64_t channels) {
  int64_t out = spec->shape[0], pixels = spec->shape[2] * spec->shape[3];
  float *to = sp_calloc((size_t)(out * channels * pixels) + 1, sizeof *to), by = 3.0f / (float)channels;
  for (int64_t o = 0; to && o < out; o++)
    for (int64_t c = 0; c < channels; c++)
      for (int64_t p = 0; p < pixels; p++) {
        const float *from = v + o * 3 * pixels + p;
        to[(o * channels + c) * pixels + p] =
            channels == 1 ? from[0] + from[pixels] + from[2 * pixels] : from[c % 3 * pixels] * by;
      }
  return to;
}

static int adapt(weight_file *f, const sp_weights *stage, size_t i, const char *name, sp_spec *spec, void **data,
                 sp_err *err) {
  int64_t channels = stage->weights[i].spec.shape[1];
  float *to = for_channels(spec, *data, channels);
  if (!to) return sp_nomem(err, (size_t)sp_spec_bytes(spec), stage->weights[i].name);
  sp_log(SP_LOG_INFO, "%s: images have %" PRId64 " channel%s, and the filters '%s' three: %s", f->path, channels,
         channels == 1 ? "" : "s", name,
         channels == 1 ? "their sum is taken" : "they are repeated, times 3 / channels");
  free(*data);
  *data = to;
  spec->shape[1] = channels;
  return SP_OK;
}

/* Entry e, or zeros without one, into weight i. */
static int read_weight(weight_file *f, sp_weights *stage, size_t i, const sp_entry *e, sp_err *err) {
  sp_ctx_holder h;
  sp_spec spec = e ? e->spec : stage->weights[i].spec;
  size_t bytes = (size_t)sp_spec_bytes(&spec);
  void *data = sp_calloc(1, bytes ? bytes : 1);
  int status = data ? SP_OK : sp_nomem(err, bytes, stage->weights[i].name);
  if (!status && e)
    status = f->type->read(sp_ctx_for(&h, f->type->name, err), f->file, (size_t)(e - f->entries), data, bytes);
  int dtype = stage->weights[i].spec.dtype;
  if (!status && spec.dtype != dtype) status = convert(f, e, &spec, dtype, &data, err);
  if (!status && e && sp_names_of_rgb(&spec, &stage->weights[i].spec))
    status = adapt(f, stage, i, e->name, &spec, &data, err);
  if (!status) look_for_nan(f, e ? e->name : "", &spec, data);
  if (!status) status = store(stage, i, &spec, data, err);
  if (!status) stage->loaded[i] = true;
  free(data);
  return status;
}

static int read_stage(weight_file *f, sp_names *names, sp_weights *stage, sp_err *err) {
  int status = sp_weights_storage(stage, err);
  for (size_t i = 0; i < stage->n_weights && !status; i++)
    status = read_weight(f, stage, i, sp_names_find(names, stage, i), err);
  return status;
}

/* What a user should know of a file that was taken. */
static void remark(const weight_file *f) {
  sp_spec one = {.dtype = f->converted, .ndim = 1, .shape = {1}};
  char text[128];
  sp_spec_str(&one, text, sizeof text);
  text[strcspn(text, "[")] = 0;
  if (f->n_converted) sp_log(SP_LOG_WARN, "%s: %zu tensors are %s and become float32", f->path, f->n_converted, text);
  if (f->n_bad)
    sp_log(SP_LOG_WARN,
           "%s: %zu tensors have values that are not finite, '%s' the first: all that is computed from them is nan",
           f->path, f->n_bad, f->bad);
}

static int read_all(weight_file *f, sp_names *names, sp_err *err) {
  int status = sp_names_match(names, err);
  for (size_t i = 0; i < names->n_stages && !status; i++)
    if (sp_names_have(names, names->stages[i])) status = read_stage(f, names, names->stages[i], err);
  return status;
}

/* Averages that the file does not have begin again. */
static int restart_averages(sp_store *store, const sp_weights *stage, sp_names *names, sp_err *err) {
  if (stage) return sp_store_restart_averages(store, stage, err);
  return store->optimizer && !sp_names_have(names, store->optimizer) ? sp_store_restart_averages(store, NULL, err)
                                                                     : SP_OK;
}

int sp_store_load(sp_store *store, sp_weights *stage, const sp_load *from, sp_err *err) {
  weight_file f;
  int status = open_file(store, from->file, &f, err);
  if (status) return status;
  sp_names names = {.from = from, .path = f.path, .entries = f.entries, .n = f.n, .whole = !stage};
  names.stages = stage ? &stage : store->stages;
  names.n_stages = stage ? 1 : store->n_stages;
  status = read_all(&f, &names, err);
  if (!status) status = restart_averages(store, stage, &names, err);
  if (!status && names.notice.n) sp_log(SP_LOG_WARN, "%s", names.notice.s);
  if (!status) remark(&f);
  sp_names_free(&names);
  close_file(&f);
  return status;
}
