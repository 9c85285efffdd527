/* SPDX-License-Identifier: MIT
 * npy.c - writes .npy, version 1.0 of the format: magic, length,
 * a Python dictionary that ends in a newline, elements. */
#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PREFIX 10 /* bytes of magic, version and length */

static int failed(npy_file *f) {
  snprintf(f->why, sizeof f->why, "%s", strerror(errno));
  return SP_E_IO;
}

int npy_open(npy_file *f, const char *path) {
  f->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  return f->fd < 0 ? failed(f) : SP_OK;
}

static int put(npy_file *f, uint64_t at, const void *data, size_t bytes) {
  for (const char *p = data; bytes;) {
    ssize_t n = pwrite(f->fd, p, bytes, (off_t)at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(f);
    p += n;
    at += (uint64_t)n;
    bytes -= (size_t)n;
  }
  return SP_OK;
}

int npy_put(npy_file *f, uint64_t at, const void *data, size_t bytes) { return put(f, NPY_HEADER + at, data, bytes); }

static const char *word_of(int32_t dtype) {
  switch (dtype) {
    case SP_F16: return "f2";
    case SP_F32: return "f4";
    case SP_F64: return "f8";
    default: return NULL;
  }
}

int npy_describe(npy_file *f, int32_t dtype, int ndim, const int64_t *shape) {
  char text[NPY_HEADER + 1] = "\x93NUMPY\x01";
  const char *word = word_of(dtype), order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';
  if (!word) {
    snprintf(f->why, sizeof f->why, "NumPy has no such type");
    return SP_E_DTYPE;
  }
  text[8] = (char)((NPY_HEADER - PREFIX) & 255);
  text[9] = (char)((NPY_HEADER - PREFIX) >> 8);
  size_t n = PREFIX, room = NPY_HEADER - 1;
  n += (size_t)snprintf(text + n, room - n, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, word);
  for (int d = 0; d < ndim; d++) n += (size_t)snprintf(text + n, room - n, "%" PRId64 ", ", shape[d]);
  n += (size_t)snprintf(text + n, room - n, "), }"); /* 8 dimensions of 19 digits take 168 bytes */
  memset(text + n, ' ', room - n);
  text[room] = '\n';
  return put(f, 0, text, NPY_HEADER);
}

int npy_close(npy_file *f) {
  int fd = f->fd;
  f->fd = -1;
  return fd >= 0 && close(fd) ? failed(f) : SP_OK;
}
