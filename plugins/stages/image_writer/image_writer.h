/* SPDX-License-Identifier: MIT
 * image_writer.h - what the files of the stage `image_writer` share. */
#ifndef IMAGE_WRITER_H
#define IMAGE_WRITER_H

#include <stdint.h>

#include <spcore/plugin.h>

#include "../../kits/feed.h"
#include "../../kits/image/image.h"
#include "../../kits/image/keep.h"
#include "../../kits/image/rows.h"
#include "../../kits/image/window.h"
#include "../../kits/image/work.h"
#include "../../kits/npy/npy.h"

#define IW_PATH_BYTES 4096

typedef struct iw_name {
  const char *name, *original;
} iw_name;

typedef struct iw_params {
  const char *dir, *images, *masks, *overlays, *probabilities, *values, *class_names, *legend;
  sp_structs names; /* iw_name */
  int64_t quality, max_pixels, max_scores, background;
  double opacity, values_scale, values_std, values_mean, threshold;
  int32_t restore, orient;
  im_fitting fit;
  im_keep_params keep;
} iw_params;

/* A picture's probabilities on their way to a file. */
typedef struct iw_probabilities {
  int classes, w, h, npy;
  int is_one; /* channel, whose sigmoid says how probable 1 is */
  float cut;  /* see iw_cut */
  npy_file file;
  char part[IW_PATH_BYTES]; /* its name until it is whole */
  im_buf best;              /* uint16_t [h][w] */
} iw_probabilities;

/* A picture's numbers on their way to a file. */
typedef struct iw_values {
  int w, h, npy, tiff;
  double mean, std, scale;
  float least, most;
  int64_t clipped; /* numbers that a PNG has not */
  npy_file file;
  char part[IW_PATH_BYTES]; /* its name until it is whole */
  im_buf numbers;           /* [h][w], of uint16_t, for TIFF of float */
} iw_values;

typedef struct iw_worker {
  im_encoder encoder;
  im_decoder decoder;
  im_enlarger enlarger;
  im_buf rgb, original, labels, overlay, numbers, scratch;
  iw_probabilities probabilities;
  iw_values values;
  int64_t pixels[256];    /* of each label, of the sample */
  uint64_t tint[256][3];  /* what the overlay shows of each label within its outline, added up, */
  int64_t tinted[256];    /* of so many pixels */
  char why[IM_WORDS];
} iw_worker;

/* The scores of the windows of one image. */
typedef struct iw_pile {
  im_buf sum, total; /* float [classes][h][w] of a scale, of all of them at scale 1 */
  im_buf count;      /* uint32_t [h][w]: windows that a pixel is in */
  int next;          /* the number of the window that is due */
} iw_pile;

typedef struct iw_self {
  const iw_params *p;
  im_keep keep; /* of originals */
  int keeps;
  iw_worker *workers;
  int n_workers;
  char *class_text;     /* a copy of class_names, cut into lines */
  const char **classes; /* [n_classes] in it */
  int64_t n_classes;
  im_work work;
  iw_pile pile;
} iw_self;

typedef struct iw_batch {
  sp_ctx *ctx;
  iw_self *self;
  const uint64_t *ids;
  const sp_tensor *image, *mask, *label, *logits; /* NULL: not wired */
  int32_t *size;                                  /* [N][2]; NULL: nobody reads it */
  int64_t *pixels;                                /* [N][labels], the same */
  int64_t labels;
  double *found;                                  /* [N][3], the same */
  const im_scores *scores; /* of all windows of the image, in the place of logits; NULL: there are none */
  feed f; /* where the samples are requests */
} iw_batch;

int iw_is_jpeg(const char *path);
int iw_is_npy(const char *path);
int iw_is_tiff(const char *path);

/* legend.c: draws the classes that have pixels, but for p->background, into rows of w pixels, or with rgb NULL only
 * counts the rows: squares look as the overlay does, its mean colour within an outline. This function can't fail. */
int iw_legend(uint8_t *rgb, int w, const iw_params *p, const iw_worker *of);

/* The score from which on logits of one channel say 1, the threshold as log odds. */
float iw_cut(const iw_params *p);

/* probabilities.c: begin, all rows of scores, end, which takes what has failed so far. The reason is in
 * probabilities.file.why. */
int iw_probabilities_begin(iw_worker *w, const iw_params *p, const char *path, int classes, int width, int height);
int iw_probabilities_row(iw_worker *w, float *row, int y);
int iw_probabilities_end(iw_worker *w, const char *path, int rc);

/* values.c: the same of numbers. */
int iw_values_begin(iw_worker *w, const iw_params *p, const char *path, int width, int height);
int iw_values_row(iw_worker *w, float *row, int y);
int iw_values_end(iw_worker *w, const char *path, int rc);

/* Sample i of the batch to its files; what fails is in w->why. */
int iw_write_sample(const iw_batch *b, iw_worker *w, int64_t i);

#endif
