/* SPDX-License-Identifier: MIT
 * tones_kernels.h - the steps of the module `tones` on CUDA. */
#ifndef TONES_KERNELS_H
#define TONES_KERNELS_H

#include "tones.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a batch's scratch, in this order: what is drawn; how far the values of each sample reach; looks at
 * channels; the planes of JPEG; a copy of all tensors, where there are several steps. */
typedef struct tones_room {
  size_t reach, looks, planes, copy, all; /* where they begin; all: where they end */
} tones_room;

tones_room tones_room_of(const tones_how *how, int64_t n, int64_t images, int64_t channels);

/* Everything that a pointer leads to is on the device. `given` is [n][columns] or NULL, `changes` where to put what
 * was done or NULL, `status` int64[4], `room` the scratch; `images` of the jobs are no masks and have up to
 * `channels`; `floats`: some image has such. Enqueues and returns a cudaError_t. */
int tones_launch(void *stream, const aug_jobs *jobs, int images, int channels, int floats, const aug_dice *dice,
                 const tones_how *how, const float *given, float *changes, int64_t *status, char *room);

#ifdef __cplusplus
}
#endif
#endif
