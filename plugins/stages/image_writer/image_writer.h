/* SPDX-License-Identifier: MIT
 * image_writer.h - what the files of the stage `image_writer` share. */
#ifndef IMAGE_WRITER_H
#define IMAGE_WRITER_H

#include <stdint.h>

#include <spcore/plugin.h>

#include "../../kits/feed.h"
#include "../../kits/image/image.h"
#include "../../kits/image/work.h"

#define IW_PATH_BYTES 4096

typedef struct iw_name {
  const char *name, *original;
} iw_name;

typedef struct iw_params {
  const char *dir, *images, *masks, *overlays, *class_names;
  sp_structs names; /* iw_name */
  int64_t quality, max_pixels;
  int32_t restore;
} iw_params;

typedef struct iw_worker {
  im_encoder encoder;
  im_decoder decoder;
  im_enlarger enlarger;
  im_buf rgb, original, labels, overlay;
  char why[IM_WORDS];
} iw_worker;

typedef struct iw_self {
  const iw_params *p;
  iw_worker *workers;
  int n_workers;
  char *class_text;     /* a copy of class_names, cut into lines */
  const char **classes; /* [n_classes] in it */
  int64_t n_classes;
  im_work work;
} iw_self;

typedef struct iw_batch {
  iw_self *self;
  const uint64_t *ids;
  const sp_tensor *image, *mask, *label, *logits; /* NULL: not wired */
  feed f;                                         /* where the samples are requests */
} iw_batch;

int iw_is_jpeg(const char *path);

/* Sample i of the batch to its files; what fails is in w->why. */
int iw_write_sample(const iw_batch *b, iw_worker *w, int64_t i);

#endif
