/* SPDX-License-Identifier: MIT
 * pictures.h - decoded pictures that several threads cut windows from:
 * each file is decoded once while its windows come. */
#ifndef IMAGE_REQUESTS_PICTURES_H
#define IMAGE_REQUESTS_PICTURES_H

#include <pthread.h>

#include "../../kits/image/keep.h"

typedef struct ir_picture {
  char *path; /* NULL: the place is free */
  im_buf px;  /* RGB, or numbers */
  int w, h, rc; /* rc: why it could not be read, see im_rgb */
  int users, ready;
  uint64_t used; /* when last */
  im_kept is;    /* of numbers */
  char why[256], note[128], lost[160];
} ir_picture;

typedef struct ir_pictures {
  pthread_mutex_t lock;
  pthread_cond_t decoded;
  ir_picture *v;
  int n;
  uint64_t now;
} ir_pictures;

/* Room for a picture for each of `workers` threads, and one to keep. SP_E_NOMEM or SP_OK. */
int ir_pictures_init(ir_pictures *p, int workers);
void ir_pictures_free(ir_pictures *p);

/* The picture of that file, decoded by this thread, or another one, to RGB or, where keep is not NULL, to numbers as
 * im_keep_read has them; NULL: no memory. It stays until ir_pictures_put, whether
 * it could be read (rc) or not. */
ir_picture *ir_pictures_get(ir_pictures *p, const char *path, im_decoder *d, const im_keep *keep, int64_t max_pixels);
void ir_pictures_put(ir_pictures *p, ir_picture *picture);

#endif
