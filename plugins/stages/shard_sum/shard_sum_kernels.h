/* SPDX-License-Identifier: MIT
 * shard_sum_kernels.h - the kernels of shard_sum, as C sees them. Each returns a cudaError_t. */
#ifndef SHARD_SUM_KERNELS_H
#define SHARD_SUM_KERNELS_H

#include "shard_sum.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SHARDK_LIST = 120, SHARDK_CHUNK = 4096 };

/* Some of the tensors; it is a kernel's parameter, of which 4 KiB are possible. */
typedef struct shardk_table {
  uint32_t n, gradients;           /* gradients: so many of them are */
  uint32_t first[SHARDK_LIST + 1]; /* blocks before it */
  uint32_t tail[SHARDK_LIST];      /* elements of its last block */
  float *own[SHARDK_LIST];
  int64_t at[SHARDK_LIST]; /* in a level */
} shardk_table;

typedef struct shardk_kept {
  uint32_t n;
  void *now[SHARDK_LIST];
  char *kept[SHARDK_LIST];
  int64_t bytes[SHARDK_LIST];
} shardk_kept;

typedef struct shardk_tree {
  const float *pieces; /* [ranks][each]; each is a multiple of 4; half: of bfloat16, and so is out */
  const double *heads; /* [shards][HEAD_N] */
  float *out;          /* [each], gradients first */
  int64_t shards, ranks, each, gradients;
  int half;
} shardk_tree;

int shardk_count(void *stream, const sp_step *step, const double *total, double *heads);
/* One thread; by NULL: 1. */
int shardk_scale(void *stream, float *scale, const double *heads, int64_t shards, const float *by);
/* heads NULL: others have further shards. */
int shardk_add(void *stream, const shardk_table *t, const double *heads, float *levels, int64_t floats,
               const sp_step *step, const shard_params *p);
/* n is a multiple of 4. */
int shardk_pack(void *stream, uint16_t *to, const float *from, int64_t n);
int shardk_unpack(void *stream, float *to, const uint16_t *from, int64_t n, const double *heads, int64_t shards);
int shardk_add_ranks(void *stream, const shardk_tree *t);
int shardk_keep(void *stream, const shardk_kept *list, const sp_step *step);

#ifdef __cplusplus
}
#endif
#endif
