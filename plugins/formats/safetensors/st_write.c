/* SPDX-License-Identifier: MIT
 * st_write.c - writes safetensors: beside the old file, synced, then renamed over it. */
#include "st.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <jansson.h>

/* Dtypes of larger alignment first, so that every tensor is aligned; then by name, so that a file is a function of its
 * contents. */
static int by_rank(const void *a, const void *b) {
  const sp_entry *x = *(const sp_entry *const *)a, *y = *(const sp_entry *const *)b;
  size_t p = st_dtype_size(x->spec.dtype), q = st_dtype_size(y->spec.dtype);
  return p != q ? (p > q ? -1 : 1) : strcmp(x->name, y->name);
}

static int check_entry(sp_ctx *ctx, const char *path, const sp_entry *e) {
  uint64_t bytes;
  if (!strcmp(e->name, ST_META))
    return ctx->host->fail(ctx, SP_E_INVALID, "%s: a tensor can't be named '%s'", path, e->name);
  if (!st_dtype_word(e->spec.dtype))
    return ctx->host->fail(ctx, SP_E_DTYPE, "%s: tensor '%s' has no known dtype", path, e->name);
  if (e->spec.order != SP_ROW_MAJOR)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "%s: tensor '%s' is not row-major", path, e->name);
  if (e->spec.ndim < 0 || e->spec.ndim > SP_MAX_DIMS ||
      !st_bytes(&e->spec, 8 * (unsigned)st_dtype_size(e->spec.dtype), &bytes))
    return ctx->host->fail(ctx, SP_E_SHAPE, "%s: tensor '%s' has an impossible shape", path, e->name);
  if (bytes && !e->data) return ctx->host->fail(ctx, SP_E_INVALID, "%s: tensor '%s' has no data", path, e->name);
  return SP_OK;
}

static json_t *describe(const sp_entry *e, uint64_t begin, uint64_t end) {
  json_t *shape = json_array();
  for (int d = 0; d < e->spec.ndim; d++)
    if (json_array_append_new(shape, json_integer(e->spec.shape[d]))) {
      json_decref(shape);
      return NULL;
    }
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", st_dtype_word(e->spec.dtype), "shape", shape, "data_offsets",
                   (json_int_t)begin, (json_int_t)end);
}

/* The header's text for entries in writing order, or NULL; caller frees. */
static int make_header(sp_ctx *ctx, const char *path, const sp_entry *const *sorted, size_t n, const sp_meta *meta,
                       size_t n_meta, char **text) {
  json_t *root = json_object(), *m = json_object();
  uint64_t at = 0, bytes = 0;
  int rc = SP_OK;
  for (size_t i = 0; i < n_meta && !rc; i++)
    if (json_object_set_new(m, meta[i].key, json_string(meta[i].value)))
      rc = ctx->host->fail(ctx, SP_E_INVALID, "%s: metadata '%s' is not UTF-8", path, meta[i].key);
  if (n_meta && !rc) json_object_set(root, ST_META, m);
  json_decref(m);
  for (size_t i = 0; i < n && !rc; i++, at += bytes) {
    st_bytes(&sorted[i]->spec, 8 * (unsigned)st_dtype_size(sorted[i]->spec.dtype), &bytes);
    if (json_object_get(root, sorted[i]->name))
      rc = ctx->host->fail(ctx, SP_E_INVALID, "%s: two tensors are named '%s'", path, sorted[i]->name);
    else if (json_object_set_new(root, sorted[i]->name, describe(sorted[i], at, at + bytes)))
      rc = ctx->host->fail(ctx, SP_E_INVALID, "%s: tensor name '%s' is not UTF-8", path, sorted[i]->name);
  }
  *text = rc ? NULL : json_dumps(root, JSON_COMPACT);
  json_decref(root);
  if (!rc && !*text) rc = ctx->host->fail(ctx, SP_E_NOMEM, "%s: no memory for the header", path);
  return rc;
}

static int put(sp_ctx *ctx, const char *path, int fd, const void *data, uint64_t bytes) {
  const uint8_t *p = data;
  while (bytes) {
    ssize_t n = write(fd, p, bytes < 1u << 30 ? (size_t)bytes : 1u << 30);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ctx->host->fail(ctx, SP_E_IO, "%s: writing failed: %s", path, strerror(errno));
    p += n;
    bytes -= (uint64_t)n;
  }
  return SP_OK;
}

static int put_file(sp_ctx *ctx, const char *path, int fd, const char *header, const sp_entry *const *sorted,
                    size_t n) {
  uint64_t len = strlen(header), padded = (len + 7) / 8 * 8, bytes;
  uint8_t raw[8];
  int rc;
  if (padded > ST_MAX_HEADER)
    return ctx->host->fail(ctx, SP_E_RANGE, "%s: the header would take %llu bytes, at most %llu can be read again",
                           path, (unsigned long long)padded, (unsigned long long)ST_MAX_HEADER);
  for (int i = 0; i < 8; i++) raw[i] = (uint8_t)(padded >> 8 * i);
  if ((rc = put(ctx, path, fd, raw, 8)) || (rc = put(ctx, path, fd, header, len)) ||
      (rc = put(ctx, path, fd, "       ", padded - len)))
    return rc;
  for (size_t i = 0; i < n; i++) {
    st_bytes(&sorted[i]->spec, 8 * (unsigned)st_dtype_size(sorted[i]->spec.dtype), &bytes);
    if ((rc = put(ctx, path, fd, sorted[i]->data, bytes))) return rc;
  }
  if (fsync(fd))
    return ctx->host->fail(ctx, SP_E_IO, "%s: writing failed: %s", path, strerror(errno));
  return SP_OK;
}

/* Makes the rename itself last. A folder that can't be synced is no failure: the file is whole either way. */
static void sync_folder(const char *path) {
  char *copy = strdup(path);
  int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  free(copy);
}

/* A new file beside the one that it becomes, under a name that nobody else gives. Not by mkstemp(), after which only
 * who changes the umask can know it. */
static int make_temp(char *temp) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  char *end = temp + strlen(temp) - 6;
  for (int tries = 0; tries < 100; tries++) {
    unsigned char bytes[6];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return -1;
    for (size_t i = 0; i < sizeof bytes; i++) end[i] = letters[bytes[i] % (sizeof letters - 1)];
    int fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

static int write_sorted(sp_ctx *ctx, const char *path, const char *header, const sp_entry *const *sorted, size_t n) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  size_t cap = strlen(path) + 32;
  char *temp = malloc(cap);
  int fd, rc;
  if (!temp) return ctx->host->fail(ctx, SP_E_NOMEM, "%s: no memory", path);
  snprintf(temp, cap, "%.*s.%s.spcore-XXXXXX", (int)(name - path), path, name);
  fd = make_temp(temp);
  if (fd < 0) {
    rc = ctx->host->fail(ctx, SP_E_IO, "%s: can't be written: %s", path, strerror(errno));
  } else {
    rc = put_file(ctx, path, fd, header, sorted, n);
    if (close(fd) && !rc) rc = ctx->host->fail(ctx, SP_E_IO, "%s: writing failed: %s", path, strerror(errno));
    if (!rc && rename(temp, path)) rc = ctx->host->fail(ctx, SP_E_IO, "%s: %s", path, strerror(errno));
    if (rc) unlink(temp);
    else sync_folder(path);
  }
  free(temp);
  return rc;
}

int st_write(sp_ctx *ctx, const char *path, const sp_entry *entries, size_t n, const sp_meta *meta, size_t n_meta) {
  char *header = NULL;
  int rc = SP_OK;
  const sp_entry **sorted = calloc(n + 1, sizeof *sorted);
  if (!sorted) return ctx->host->fail(ctx, SP_E_NOMEM, "%s: no memory for %zu entries", path, n);
  for (size_t i = 0; i < n && !rc; i++) {
    sorted[i] = &entries[i];
    rc = check_entry(ctx, path, &entries[i]);
  }
  if (!rc) {
    if (n) qsort(sorted, n, sizeof *sorted, by_rank);
    rc = make_header(ctx, path, sorted, n, meta, n_meta, &header);
  }
  if (!rc) rc = write_sorted(ctx, path, header, sorted, n);
  free(header);
  free(sorted);
  return rc;
}
