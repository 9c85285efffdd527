/* SPDX-License-Identifier: MIT
 * work.h - a batch's items on several threads; of those that fail the smallest is told, whichever came first. */
#ifndef SP_PLUGINS_IMAGE_WORK_H
#define SP_PLUGINS_IMAGE_WORK_H

#include <pthread.h>

#include <spcore/plugin.h>

#define IM_WORDS 1024 /* of a failure */

typedef struct im_work {
  pthread_mutex_t lock; /* of what follows: the failure of the smallest item */
  int64_t item;
  int status;
  char why[IM_WORDS];
} im_work;

void im_work_init(im_work *w);
void im_work_free(im_work *w);

/* Calls item(arg, i, worker) for each of n, on up to `threads` threads where the host has them. */
int im_work_run(sp_ctx *ctx, im_work *w, int threads, int64_t n, int (*item)(void *arg, int64_t i, int worker),
                void *arg);
/* What an item returns that has failed: notes it, returns status. */
int im_work_failed(im_work *w, int64_t i, int status, const char why[IM_WORDS]);

#endif
