/* SPDX-License-Identifier: MIT
 * cpu.h - the rows of all images and masks of a call, spread over the worker threads. */
#ifndef SP_PLUGINS_AUG_CPU_H
#define SP_PLUGINS_AUG_CPU_H

#include "../par.h"
#include "aug.h"
#include "draw.h"

#include <math.h>

/* Compiled for several instruction sets, chosen when the module is loaded (by what the processor can do:
 * `arch=` would ask for that very processor); the roundings are the same. Sanitizers' runtimes
 * are not up yet when the choice is made, so not under them. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define AUG_VEC __attribute__((target_clones("avx2", "default")))
#else
#define AUG_VEC
#endif

/* Rows from .. to of the output of one sample of one tensor. */
typedef struct aug_part {
  const aug_job *job;
  int64_t sample;
  int32_t from, to;
} aug_part;

typedef struct aug_run {
  const aug_jobs *jobs;
  int (*rows)(const void *arg, const aug_part *part, int worker);
  const void *arg;
  int64_t blocks; /* parts that a sample is cut in */
} aug_run;

static inline int aug_item(void *arg, int64_t i, int worker) {
  const aug_run *r = (const aug_run *)arg;
  int64_t block = i % r->blocks, sample = i / r->blocks % r->jobs->n;
  const aug_job *job = &r->jobs->job[i / r->blocks / r->jobs->n];
  aug_part part = {job, sample, (int32_t)(job->out_h * block / r->blocks),
                   (int32_t)(job->out_h * (block + 1) / r->blocks)};
  return part.from < part.to ? r->rows(r->arg, &part, worker) : SP_OK;
}

/* Small batches of large images are cut so that every thread has something to do. No result may depend on the cut. */
static inline int aug_rows(sp_ctx *ctx, const aug_jobs *jobs, int (*rows)(const void *, const aug_part *, int),
                           const void *arg) {
  int64_t pixels = (int64_t)jobs->job[0].out_h * jobs->job[0].out_w, blocks = pixels / 16384;
  blocks = blocks < 1 ? 1 : blocks > 16 ? 16 : blocks;
  if (blocks > jobs->job[0].out_h) blocks = jobs->job[0].out_h;
  aug_run r = {jobs, rows, arg, blocks};
  return par_run(ctx, jobs->count * jobs->n * blocks, aug_item, &r);
}

/* Row y of a plane of a sample, in elements of `bytes` bytes. */
static inline const void *aug_in_row(const aug_job *j, int64_t sample, int64_t plane, int64_t y, size_t bytes) {
  return (const char *)j->in + (size_t)(((sample * j->planes + plane) * j->h + y) * j->w * j->pix) * bytes;
}
static inline void *aug_out_row(const aug_job *j, int64_t sample, int64_t plane, int64_t y, size_t bytes) {
  return (char *)j->out + (size_t)(((sample * j->planes + plane) * j->out_h + y) * j->out_w * j->pix) * bytes;
}

static inline size_t aug_element(int dtype) { return dtype == SP_U8 ? 1 : dtype == SP_I64 ? 8 : 4; }

/* What pixels get that come from outside of their image: one number, or one a channel. */
typedef union aug_fill {
  uint8_t b[4];
  float f[4];
  int32_t i;
  int64_t l;
  uint32_t w[4];
  uint64_t u;
} aug_fill;

/* Of a plane of this tensor; `images` and `masks` are the parameters. How many numbers there are. */
static inline int aug_fill_of(const aug_job *j, int64_t plane, const float *images, int fills, int64_t masks,
                              aug_fill *to) {
  if (j->mask) fills = 1;
  if (j->mask && j->dtype == SP_U8) to->b[0] = (uint8_t)masks; /* beside maps its last byte alone, see aug_mask_fill */
  else if (j->dtype == SP_I64) to->l = masks;
  else if (j->dtype == SP_I32) to->i = (int32_t)masks;
  else
    for (int k = 0; k < fills; k++) {
      float v = images[(plane + k) % fills];
      if (j->dtype == SP_U8) to->b[k] = (uint8_t)rintf(v);
      else to->f[k] = v;
    }
  return fills;
}

/* Keeps the first bad sample: of a STATUS port, on which 0 says that all is well. */
static inline void aug_note(int64_t status[4], int bad, int64_t sample, int64_t value, int64_t limit) {
  if (!bad || status[0]) return;
  status[0] = SP_E_DATA;
  status[1] = sample;
  status[2] = value;
  status[3] = limit;
}

#endif
