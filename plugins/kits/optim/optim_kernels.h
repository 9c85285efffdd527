/* SPDX-License-Identifier: MIT
 * optim_kernels.h - what optimizers share on CUDA. All pointers are of the device; each function enqueues on the stream
 * and returns a cudaError_t. */
#ifndef SP_PLUGINS_OPTIM_KERNELS_H
#define SP_PLUGINS_OPTIM_KERNELS_H

#include "optim.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  OPK_LIST = 96,      /* most tensors of one launch, */
  OPK_POINTERS = 384, /* and pointers of all of them: with these its arguments stay below 4 KB */
  OPK_CHUNK = 4096    /* elements of one block */
};

/* Tensors of one launch, cut into chunks, a block each. */
typedef struct opk_table {
  int64_t base;                 /* chunks of the launches before */
  uint32_t n, lists;            /* lists: pointers of a tensor, 3 or more */
  uint32_t first[OPK_LIST + 1]; /* chunk of this launch that each begins with */
  uint32_t tail[OPK_LIST];      /* elements of its last chunk */
  float *at[OPK_POINTERS];      /* [n][lists]: gradient, weight and moments; NULL: there is none */
  uint8_t group[OPK_LIST];      /* whose head it reads */
} opk_table;

/* What an update reads of the device: worked out once, by opk_begin(), for each group. */
typedef struct opk_head {
  float lr, decay, clip;
  float keep;                 /* of SGD: 1 - dampening, 1 in the first step */
  float shrink, rate, root;   /* of AdamW: 1 - lr * weight_decay, lr / (1 - b1^t), sqrt(1 - b2^t) */
  float bias;                 /* 1 - b1^t */
  float aux_shrink, aux_rate; /* of AdamW beside another update, by `aux_lr` */
  int32_t skip, first;        /* first: of all updates of the group */
} opk_head;

typedef struct opk_rules {
  double *part;            /* sums of squares, of opk_squares() */
  int64_t parts;           /* 0: not computed */
  const uint32_t *part_at; /* where the i-th of them is; NULL: there */
  double clip_norm;
  int64_t limit; /* of updates skipped in a row; 0: they are not skipped */
  int32_t first; /* the first call of an update, which counts it and empties the status */
  double dampening, b1, b2, weight_decay;
  double aux_lr; /* times the rate */
  const sp_step *step;
  int64_t *count, *later, *in_a_row; /* state; NULL: there is none */
  uint32_t n_later, begun;           /* as of optim */
  float *norm;                       /* outputs; NULL: not there */
  int64_t *skipped, *status;
  opk_head *head; /* [n_groups] */
  uint32_t n_groups;
  sp_group group[SP_MAX_GROUPS];
} opk_rules;

/* Constants of AdamW's update; c: 1 - b. */
typedef struct opk_adam_rule {
  float b1, b2, c1, c2, eps;
  int clips, amsgrad;
} opk_adam_rule;

/* Tensors to keep, or to put back where an update is skipped. */
typedef struct opk_kept {
  uint32_t n;
  int64_t bytes[OPK_LIST];
  void *now[OPK_LIST], *kept[OPK_LIST];
} opk_kept;

int opk_squares(void *stream, const opk_table *table, double *part);
int opk_begin(void *stream, const opk_rules *rules);
/* Averages, in the place of the first moment, of the weights. */
int opk_average(void *stream, const opk_table *table, float weight, const opk_head *head);
int opk_keep(void *stream, const opk_kept *list, const opk_head *head);

#ifdef __cplusplus
}
#endif
#endif
