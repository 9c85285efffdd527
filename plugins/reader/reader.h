/* SPDX-License-Identifier: MIT
 * reader.h - what the parts of the reader share: its parameters, its kinds of data, its instance. */
#ifndef SP_PLUGINS_READER_H
#define SP_PLUGINS_READER_H

#include <pthread.h>

#include <spcore/ext/parallel.h>
#include <spcore/plugin.h>

#include "../image/image.h"

#define RD_MAX_SIZE 16384  /* pixels of a side of the output */
#define RD_WORDS 1024      /* of an error */
#define RD_REPLACEMENTS 64 /* tries for a broken sample, before giving up */

enum { RD_ALL, RD_TRAIN, RD_VAL };

typedef struct rd_file {
  const char *path;
} rd_file;

typedef struct rd_params {
  const char *path;
  sp_structs files; /* rd_file */
  sp_ints size;
  int64_t workers, samples, classes, max_bad, max_pixels, data_seed;
  double val_fraction;
  int32_t split;
} rd_params;

/* One thread's memory and the words of its failure. */
typedef struct rd_worker {
  im_decoder decoder;
  im_scaler scaler;
  im_buf image, mask;
  char why[RD_WORDS];
} rd_worker;

typedef struct rd_self rd_self;

/* A kind of data. open() says how many samples and classes there are. fill() makes sample `index` of the whole set,
 * image as h rows of w RGB triples and mask as h rows of w labels; it is a pure function of its arguments and the
 * files. It returns IM_BROKEN or a status with words in w->why. Several threads call it at once. reserve(), where it is
 * there, gets all of the memory that fill() will need, or returns NULL. */
typedef struct rd_kind {
  const char *name;
  int (*open)(sp_ctx *ctx, rd_self *self);
  void (*close)(rd_self *self);
  int (*fill)(rd_self *self, rd_worker *w, uint64_t index, uint8_t *image, uint8_t *mask);
  void *(*reserve)(const rd_self *self, rd_worker *w);
  uint64_t (*hash)(const rd_self *self, uint64_t index); /* what decides on which side of the split a sample is */
} rd_kind;

extern const rd_kind rd_shapes, rd_random, rd_folder;

struct rd_self {
  const rd_params *p;
  const rd_kind *kind;
  void *data;          /* the kind's */
  uint64_t total, key; /* samples of the whole set */
  int64_t classes;
  int h, w;

  uint32_t *list; /* the split: indices into the whole set, ascending */
  uint64_t length;
  uint8_t *broken; /* [total], atomic: known to be damaged */
  int n_broken;    /* atomic */
  rd_worker *workers;
  sp_attr attrs[2];

  pthread_mutex_t lock; /* of what follows: the failure of the smallest item of this call */
  int64_t failed_item;
  int failed;
  char why[RD_WORDS];
};

int rd_fail(rd_worker *w, int status, const char *fmt, ...) SP_PRINTF(3, 4);

/* split.c: self->list and self->length from total, split and val_fraction. */
int rd_split(sp_ctx *ctx, rd_self *self);

#endif
