/* SPDX-License-Identifier: MIT
 * st_read.c - reads safetensors: every statement of the header is checked before anything is taken from it. */
#include "st.h"

#include "../../kits/what/what.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

typedef struct span {
  sp_entry entry;
  uint64_t begin, end;
  const char *type; /* as the file calls it */
} span;

typedef struct st_file {
  char *path;
  int fd;
  uint64_t size, data; /* bytes of the file; where the tensors begin */
  json_t *header;      /* owns the names */
  span *spans;         /* sorted by place */
  sp_entry *entries;
  sp_meta *meta;
  size_t n, n_meta;
} st_file;

#define BAD(ctx, ...) (ctx)->host->fail(ctx, SP_E_FORMAT, __VA_ARGS__)

static int no_memory(sp_ctx *ctx, const st_file *f) {
  return ctx->host->fail(ctx, SP_E_NOMEM, "%s: no memory for its header", f->path);
}

static int read_at(sp_ctx *ctx, const st_file *f, void *dst, uint64_t bytes, uint64_t at) {
  uint8_t *p = dst;
  while (bytes) {
    ssize_t got = pread(f->fd, p, bytes < 1u << 30 ? (size_t)bytes : 1u << 30, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ctx->host->fail(ctx, SP_E_IO, "%s: %s", f->path, strerror(errno));
    if (got == 0) return ctx->host->fail(ctx, SP_E_IO, "%s: the file became shorter while it was read", f->path);
    p += got;
    at += (uint64_t)got;
    bytes -= (uint64_t)got;
  }
  return SP_OK;
}

/* A pickle of PyTorch, as it is or in a zip archive of its own. */
static int is_pickle(const uint8_t *p, size_t n) {
  if (n >= 2 && p[0] == 0x80 && p[1] >= 2 && p[1] <= 5) return 1;
  if (n < 4 || memcmp(p, "PK\3\4", 4) != 0) return 0;
  for (size_t i = 30; i + 4 <= n; i++)
    if (!memcmp(p + i, ".pkl", 4) || !memcmp(p + i, "PTH", 3)) return 1;
  return 0;
}

/* Of a file whose header is none: what it is instead, by its first bytes; `why` where that is not known. */
static int no_header(sp_ctx *ctx, const st_file *f, const char *why) {
  uint8_t head[WHAT_BYTES];
  char words[WHAT_WORDS];
  size_t n = f->size < sizeof head ? (size_t)f->size : sizeof head;
  int status = read_at(ctx, f, head, n, 0);
  if (status) return status;
  if (!n) return BAD(ctx, "%s: an empty file; get it again", f->path);
  if (is_pickle(head, n))
    return BAD(
        ctx,
        "%s: no safetensors file but a file of PyTorch (a pickle), which is not read here: name it FILE.pth, and "
        "spcore_convert.py FILE.pth -o NAME writes NAME.safetensors",
        f->path);
  if (what_is(head, n, words)) return BAD(ctx, "%s: no safetensors file: %s", f->path, words);
  return BAD(ctx, "%s: %s", f->path, why);
}

static int load_header(sp_ctx *ctx, st_file *f) {
  char reason[160];
  uint8_t raw[8];
  uint64_t n = 0;
  struct stat st;
  int rc;
  f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* so that a fifo does not block */
  if (f->fd < 0)
    return ctx->host->fail(ctx, errno == ENOENT ? SP_E_NOTFOUND : SP_E_IO, "%s: %s", f->path, strerror(errno));
  if (fstat(f->fd, &st)) return ctx->host->fail(ctx, SP_E_IO, "%s: %s", f->path, strerror(errno));
  if (!S_ISREG(st.st_mode)) return ctx->host->fail(ctx, SP_E_IO, "%s: not a regular file", f->path);
  f->size = (uint64_t)st.st_size;
  snprintf(reason, sizeof reason, "too short: %llu bytes, the header's length alone takes 8",
           (unsigned long long)f->size);
  if (f->size < 8) return no_header(ctx, f, reason);
  if ((rc = read_at(ctx, f, raw, 8, 0))) return rc;
  for (int i = 7; i >= 0; i--) n = n << 8 | raw[i];
  snprintf(reason, sizeof reason, "header too long: %llu bytes, at most %llu are taken; is it a safetensors file?",
           (unsigned long long)n, (unsigned long long)ST_MAX_HEADER);
  if (n > ST_MAX_HEADER) return no_header(ctx, f, reason);
  snprintf(reason, sizeof reason, "truncated: the header needs %llu bytes, the file has %llu; get it again",
           (unsigned long long)(8 + n), (unsigned long long)f->size);
  if (8 + n > f->size) return no_header(ctx, f, reason);
  f->data = 8 + n;
  char *text = malloc((size_t)n + 1);
  if (!text) return no_memory(ctx, f);
  json_error_t why;
  if (!(rc = read_at(ctx, f, text, n, 8))) {
    f->header = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &why);
    if (!f->header) rc = BAD(ctx, "%s: header is not proper JSON: byte %d: %s", f->path, 8 + why.position, why.text);
    else if (!json_is_object(f->header)) rc = BAD(ctx, "%s: header is not a JSON object", f->path);
  }
  free(text);
  return rc;
}

static int take_meta(sp_ctx *ctx, st_file *f, json_t *meta) {
  const char *key;
  json_t *v;
  if (!json_is_object(meta)) return BAD(ctx, "%s: " ST_META " is not an object", f->path);
  f->meta = calloc(json_object_size(meta) + 1, sizeof *f->meta);
  if (!f->meta) return no_memory(ctx, f);
  json_object_foreach(meta, key, v) {
    if (!json_is_string(v)) return BAD(ctx, "%s: " ST_META ": '%s' is not a string", f->path, key);
    f->meta[f->n_meta++] = (sp_meta){key, json_string_value(v)};
  }
  return SP_OK;
}

static int take_shape(sp_ctx *ctx, const st_file *f, sp_entry *e, const json_t *shape) {
  size_t n = json_array_size(shape);
  if (!json_is_array(shape)) return BAD(ctx, "%s: tensor '%s': no shape", f->path, e->name);
  if (n > SP_MAX_DIMS)
    return BAD(ctx, "%s: tensor '%s': %zu dimensions, at most %d are taken", f->path, e->name, n, SP_MAX_DIMS);
  e->spec.ndim = (int32_t)n;
  for (size_t d = 0; d < n; d++) {
    const json_t *x = json_array_get(shape, d);
    if (!json_is_integer(x) || json_integer_value(x) < 0)
      return BAD(ctx, "%s: tensor '%s': shape[%zu] is not a number from 0 on", f->path, e->name, d);
    e->spec.shape[d] = json_integer_value(x);
  }
  return SP_OK;
}

static int take_offset(const json_t *pair, size_t i, uint64_t *at) {
  const json_t *x = json_array_get(pair, i);
  if (!json_is_integer(x) || json_integer_value(x) < 0) return 0;
  *at = (uint64_t)json_integer_value(x);
  return 1;
}

static int take_tensor(sp_ctx *ctx, const st_file *f, span *s, const json_t *v) {
  sp_entry *e = &s->entry;
  const char *word = json_string_value(json_object_get(v, "dtype"));
  const json_t *pair = json_object_get(v, "data_offsets");
  uint64_t bytes;
  unsigned bits;
  int rc;
  if (!json_is_object(v)) return BAD(ctx, "%s: tensor '%s' is not described by an object", f->path, e->name);
  if (!word) return BAD(ctx, "%s: tensor '%s': no dtype", f->path, e->name);
  e->spec.dtype = st_dtype_of(word);
  s->type = word;
  bits = st_bits(word); /* 0: of a type that the format may have one day, whose sizes are for others to check */
  if ((rc = take_shape(ctx, f, e, json_object_get(v, "shape")))) return rc;
  if (bits && !st_bytes(&e->spec, bits, &bytes))
    return BAD(ctx, "%s: tensor '%s': impossible shape of type %s", f->path, e->name, word);
  if (!json_is_array(pair) || json_array_size(pair) != 2 || !take_offset(pair, 0, &s->begin) ||
      !take_offset(pair, 1, &s->end) || s->end < s->begin)
    return BAD(ctx, "%s: tensor '%s': data_offsets is not [begin, end]", f->path, e->name);
  if (bits && s->end - s->begin != bytes)
    return BAD(ctx, "%s: tensor '%s': shape and dtype need %llu bytes, data_offsets has %llu", f->path, e->name,
               (unsigned long long)bytes, (unsigned long long)(s->end - s->begin));
  return SP_OK;
}

static int by_place(const void *a, const void *b) {
  const span *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return strcmp(x->entry.name, y->entry.name);
}

/* Every byte behind the header must belong to exactly one tensor. */
static int check_places(sp_ctx *ctx, const st_file *f) {
  uint64_t at = 0, all = f->size - f->data;
  for (size_t i = 0; i < f->n; at = f->spans[i++].end) {
    const span *s = &f->spans[i];
    if (s->begin < at)
      return BAD(ctx, "%s: tensor '%s' overlaps tensor '%s'", f->path, s->entry.name, f->spans[i - 1].entry.name);
    if (s->begin > at)
      return BAD(ctx, "%s: %llu bytes before tensor '%s' belong to no tensor", f->path,
                 (unsigned long long)(s->begin - at), s->entry.name);
  }
  if (at > all)
    return BAD(ctx, "%s: truncated: tensor '%s' ends at byte %llu of the data, which has %llu; get it again", f->path,
               f->spans[f->n - 1].entry.name, (unsigned long long)at, (unsigned long long)all);
  if (at < all)
    return BAD(ctx, "%s: %llu bytes at the end belong to no tensor", f->path, (unsigned long long)(all - at));
  return SP_OK;
}

static int take_all(sp_ctx *ctx, st_file *f) {
  size_t n = json_object_size(f->header);
  const char *key;
  json_t *v;
  int rc;
  f->spans = calloc(n + 1, sizeof *f->spans);
  f->entries = calloc(n + 1, sizeof *f->entries);
  if (!f->spans || !f->entries) return no_memory(ctx, f);
  json_object_foreach(f->header, key, v) {
    if (!strcmp(key, ST_META)) rc = take_meta(ctx, f, v);
    else {
      f->spans[f->n].entry.name = key;
      rc = take_tensor(ctx, f, &f->spans[f->n++], v);
    }
    if (rc) return rc;
  }
  if (f->n) qsort(f->spans, f->n, sizeof *f->spans, by_place);
  if ((rc = check_places(ctx, f))) return rc;
  for (size_t i = 0; i < f->n; i++) f->entries[i] = f->spans[i].entry;
  return SP_OK;
}

void st_close(void *file) {
  st_file *f = file;
  if (f->fd >= 0) close(f->fd);
  json_decref(f->header);
  free(f->spans);
  free(f->entries);
  free(f->meta);
  free(f->path);
  free(f);
}

int st_open(sp_ctx *ctx, const char *path, void **file) {
  int rc;
  st_file *f = calloc(1, sizeof *f);
  if (!f) return ctx->host->fail(ctx, SP_E_NOMEM, "%s: no memory", path);
  f->fd = -1;
  f->path = strdup(path);
  rc = f->path ? load_header(ctx, f) : ctx->host->fail(ctx, SP_E_NOMEM, "%s: no memory", path);
  if (!rc) rc = take_all(ctx, f);
  if (rc) st_close(f);
  else *file = f;
  return rc;
}

int st_entries(void *file, const sp_entry **entries, size_t *n, const sp_meta **meta, size_t *n_meta) {
  st_file *f = file;
  *entries = f->entries;
  *n = f->n;
  *meta = f->meta;
  *n_meta = f->n_meta;
  return SP_OK;
}

int st_read(sp_ctx *ctx, void *file, size_t i, void *dst, size_t bytes) {
  const st_file *f = file;
  if (i >= f->n) return ctx->host->fail(ctx, SP_E_NOTFOUND, "%s: has no entry %zu", f->path, i);
  const span *s = &f->spans[i];
  if (!s->entry.spec.dtype)
    return ctx->host->fail(ctx, SP_E_DTYPE, "%s: tensor '%s': dtype '%s' is not taken", f->path, s->entry.name,
                           s->type);
  if (bytes != s->end - s->begin)
    return ctx->host->fail(ctx, SP_E_SHAPE, "%s: tensor '%s' has %llu bytes, not %zu", f->path, s->entry.name,
                           (unsigned long long)(s->end - s->begin), bytes);
  return read_at(ctx, f, dst, bytes, f->data + s->begin);
}
