/* SPDX-License-Identifier: MIT
 * tones_cpu.h - what the files of the module `tones` share on the CPU. */
#ifndef TONES_CPU_H
#define TONES_CPU_H

#include "../../kits/aug/cpu.h"
#include "point.h"

/* One step of one sample of one tensor. */
typedef struct tones_task {
  const tones_how *how;
  const aug_job *job;
  tones_step step;
  const tones_look *looks; /* of its channels */
  float max;               /* 255 of bytes */
  uint64_t key, id;        /* of noise */
} tones_task;

/* Rows from .. to of a sample. Masks are moved, or copied. */
void tones_rows(const tones_task *t, const aug_part *part);
/* A whole sample; work: tones_jpeg_bytes(). */
void tones_jpeg(const tones_task *t, int64_t sample, uint8_t *work);
size_t tones_jpeg_bytes(int64_t h, int64_t w);
/* Noise of four columns each, `fours` of them, of a row: 4 * fours numbers. */
void tones_normals(float *z, uint64_t key, uint64_t id, uint32_t draw, int32_t fours);
/* Looks at each channel of a sample, or for the first at its greys. */
void tones_look_at(const tones_task *t, int64_t sample, tones_look *looks);
/* Values of float images as bytes. */
void tones_bytes(int32_t *y, const float *x, int64_t n, float max);
enum {
  TONES_RUN = 768,  /* values that are worked on at a time, where they are kept in between */
  TONES_BESIDE = 4, /* channels side by side that have vectors of their own */
};
/* Whether float images may not have one of n values. */
int tones_any_outside(const float *x, int64_t n, float max);
/* The least and the largest of n values, taken along in reach. */
void tones_limits(const float *x, int64_t n, float reach[2]);

#endif
