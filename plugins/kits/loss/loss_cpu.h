/* SPDX-License-Identifier: MIT
 * loss_cpu.h - the labels of a loss, and what comes out, on the CPU. */
#ifndef SP_PLUGINS_LOSS_CPU_H
#define SP_PLUGINS_LOSS_CPU_H

#include "loss.h"

#define LOSS_CHUNK 4096 /* positions per work item; sums are made per chunk and added in chunk order */

/* What a pass over the labels learns of one chunk, or of all. */
typedef struct label_sum {
  int64_t counted, bad; /* bad: position of the first label out of range, or the target, or -1 */
  double weight;
} label_sum;

static inline int64_t loss_chunks(const logit_shape *s) { return (s->n * s->px + LOSS_CHUNK - 1) / LOSS_CHUNK; }

/* What a mean over all of a full batch is over, where the step has several shards; else `weight`. */
double loss_full(const loss_job *j, double weight);

/* class_weights: NULL: all 1. parts: one per chunk. */
int loss_count(sp_ctx *ctx, const loss_job *j, const float *class_weights, label_sum *parts, label_sum *all);

/* Writes the outputs; `mean` is the loss times its weight. */
void loss_result(const loss_job *j, const label_sum *all, double mean);

/* Positions side by side; of one sample, where their classes lie in planes. */
#define LOSS_BLOCK 64
typedef struct loss_block {
  int n;
  int64_t first;             /* position */
  const float *x;            /* the first class of the first position */
  float *g;                  /* the same of the gradient, or NULL */
  int64_t stride, step;      /* from class to class, from position to position */
  int32_t label[LOSS_BLOCK]; /* -1: does not count */
} loss_block;

/* The block that begins at position p and ends before `end`. */
void loss_block_at(const loss_job *j, int64_t p, int64_t end, loss_block *b);

#endif
