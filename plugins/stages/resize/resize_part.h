/* SPDX-License-Identifier: MIT
 * resize_part.h - rows of the output of a window of an image: what `resize` and `batch_resized_crop` do on the CPU. */
#ifndef RESIZE_PART_H
#define RESIZE_PART_H

#include "../../kits/aug/cpu.h"
#include "resize_cpu.h"

/* A window, whose width is w, and the tables from its size to the output's. */
typedef struct resize_way {
  const resize_table *x, *y;
  int32_t top, left, w;
} resize_way;

/* Makes the rows of `part`, with resize_part_floats of the worker's own memory. */
void resize_part(const resize_way *way, const aug_part *part, float *lines);
/* What this is reckoned from: images of `pix` elements a pixel, windows of width in_w or less; of the tables `most` of
 * x and y, and `live` of y. */
typedef struct resize_room {
  int64_t in_w, out_w, pix;
  int32_t most_x, most_y, live, cubic;
} resize_room;
size_t resize_part_floats(const resize_room *r);

/* The parts of all images, cut by what there is to do, which is more than the output says where images shrink. */
int resize_in_blocks(sp_ctx *ctx, const aug_jobs *jobs, int (*rows)(const void *, const aug_part *, int),
                     const void *arg);

#endif
