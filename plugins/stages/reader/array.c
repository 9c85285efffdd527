/* SPDX-License-Identifier: MIT
 * array.c - .npy files: their header is believed where the file is as long as it says. */
#include "array.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../kits/what/what.h"

/* ---- bytes ---- */
int rd_array_read(const rd_array *a, int64_t at, void *to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t n = pread(a->fd, (char *)to + done, bytes - done, (off_t)(a->at + at + (int64_t)done));
    if (n < 0 && errno == EINTR) continue;
    if (!n) errno = 0;
    if (n <= 0) return -1;
    done += (size_t)n;
  }
  return 0;
}

int64_t rd_array_row(const rd_array *a) {
  int64_t n = 1;
  for (int i = 1; i < a->is.ndim; i++) n *= a->is.shape[i];
  return n;
}

void rd_array_close(rd_array *a) {
  if (a->fd >= 0) close(a->fd);
  a->fd = -1;
}

/* NULL, or what is wrong; `words` is room for it. */
static const char *read_header(rd_array *a, int64_t size, char *words, size_t n_words) {
  uint8_t first[WHAT_BYTES];
  char header[IM_NPY_HEADER + 1];
  size_t n = size < WHAT_BYTES ? (size_t)size : WHAT_BYTES, at, bytes;
  const char *why = rd_array_read(a, 0, first, n) ? "it ends within its header" : NULL;
  if (!why) why = im_npy_begin(first, n, &at, &bytes, words, n_words);
  if (why) return why;
  if ((uint64_t)size - at < bytes || rd_array_read(a, (int64_t)at, header, bytes)) return "it ends within its header";
  header[bytes] = 0;
  a->at = (int64_t)(at + bytes);
  if ((why = im_npy_parse(header, &a->is))) return why;
  int64_t all = im_npy_bytes(&a->is);
  if (all >= 0 && all <= size - a->at) return NULL;
  char is[128];
  im_npy_words(&a->is, is, sizeof is);
  snprintf(words, n_words, "its header says %s, and the file has %" PRId64 " bytes of that: it is cut off", is,
           size - a->at);
  return words;
}

int rd_array_open(sp_ctx *ctx, const char *path, rd_array *out) {
  rd_array a = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat st;
  char words[256];
  const char *why;
  if (a.fd < 0 || fstat(a.fd, &st)) why = strerror(errno);
  else if (!S_ISREG(st.st_mode)) why = "not a regular file";
  else why = read_header(&a, st.st_size, words, sizeof words);
  if (!why) {
    *out = a;
    return SP_OK;
  }
  rd_array_close(&a);
  return ctx->host->fail(ctx, SP_E_DATA, "%s: %s", path, why);
}
