/* SPDX-License-Identifier: MIT
 * npy.h - writes .npy, NumPy's file of one array, in any order: elements first, then the header that counts them. */
#ifndef SP_PLUGINS_NPY_H
#define SP_PLUGINS_NPY_H

#include <stddef.h>
#include <stdint.h>

#include <spcore/abi.h>

#define NPY_HEADER 256 /* bytes before the elements, whatever the shape */

typedef struct npy_file {
  int fd;        /* -1: not open */
  char why[256]; /* of a failure, without the file's name */
} npy_file;

/* All of them return SP_OK or SP_E_IO, npy_describe SP_E_DTYPE too. */
int npy_open(npy_file *f, const char *path);                           /* what was there is gone */
int npy_put(npy_file *f, uint64_t at, const void *data, size_t bytes); /* at: bytes behind the header */
/* What the file holds: row-major, of this machine's byte order. May be said again of more rows. */
int npy_describe(npy_file *f, int32_t dtype, int ndim, const int64_t *shape);
int npy_close(npy_file *f); /* also of one that is not open */

#endif
