/* SPDX-License-Identifier: MIT
 * array.h - arrays in .npy files, read row by row: of a large one a batch takes a few rows. */
#ifndef SP_PLUGINS_READER_ARRAY_H
#define SP_PLUGINS_READER_ARRAY_H

#include <stdint.h>

#include <spcore/plugin.h>

#include "../../kits/image/npy.h"

typedef struct rd_array {
  int fd;
  im_npy is;
  int64_t at; /* of the elements in the file */
} rd_array;

/* Opens a file in row-major order that has all of its elements, or fails and leaves nothing open. */
int rd_array_open(sp_ctx *ctx, const char *path, rd_array *out);
void rd_array_close(rd_array *a);

/* Elements of one row: of all but the first dimension. */
int64_t rd_array_row(const rd_array *a);
/* Reads `bytes` of the elements; several threads may call it at once. -1: errno says why not; 0: the file has become
 * shorter. */
int rd_array_read(const rd_array *a, int64_t at, void *to, size_t bytes);

#endif
