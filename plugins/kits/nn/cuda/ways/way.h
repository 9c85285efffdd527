/* SPDX-License-Identifier: MIT
 * way.h - the interface of everything that can compute an op, or several at once: libraries and kernels of our own.
 *
 * A job is what is to be computed: a part of one op, or several. Each way says whether it takes a job, by its shape and
 * by the facts of the device. choose.c measures all that take it, once, and keeps the fastest as text, so that later
 * runs compute the same bits. What a way leaves undone, such as a bias, `does` says, and whoever owns the job does it
 * in a pass behind it. */
#ifndef NN_CUDA_WAY_H
#define NN_CUDA_WAY_H

#include "../cuda_net.h"

/* UPDATE: w += *scale * dw; APPLY: the same to the gradient's own memory, which it overwrites; BACKWARD: all of it. */
enum nnc_part { NNC_FORWARD, NNC_DATA, NNC_WEIGHT, NNC_UPDATE, NNC_APPLY, NNC_BACKWARD };

/* What a job is of. Each has its struct, which begins with the nnc_job. */
enum {
  NNC_PRODUCT = 1,     /* gemm.h: nnc_gemm */
  NNC_WHOLE = 2,       /* gemm.h: nnc_whole, the backward of a product */
  NNC_CONVOLUTION = 4, /* conv.h: nnc_conv */
  NNC_GROUP = 8        /* nnc_group_job: several ops */
};

/* What a way does besides the product itself. COLUMNS: the sums over pixels that are a bias' gradient, of dy, in DATA
 * of dx. ALL: the job at once; a way without it runs the parts of such a job, each in its own fastest way. */
enum { NNC_BIAS = 1, NNC_RELU = 2, NNC_SUM = 4, NNC_MASK = 8, NNC_COLUMNS = 16, NNC_ALL = 32 };

typedef struct nnc_way nnc_way;

/* How a job is done. */
typedef struct nnc_choice {
  const nnc_way *way; /* NULL: not chosen yet */
  unsigned does;
  int variant;      /* of the way's texts, or what the way makes of it */
  uint64_t algo[8]; /* of cuBLASLt */
} nnc_choice;

typedef struct nnc_job {
  nnc_call *c;
  const nn_xop *op;
  unsigned of;             /* NNC_PRODUCT ... */
  int part;                /* enum nnc_part */
  nnc_choice *by;          /* only read in a call */
  int cold;                /* what it reads is in no cache when a step begins it, so it is measured like that */
  int (*timed)(void *job); /* what is measured: the way, and what it leaves undone; 0: enqueued */
} nnc_job;

typedef struct nnc_trial nnc_trial; /* choose.c */

/* Ops that one way can compute at once. */
enum { NNC_GROUP_OPS = 4 };
struct nnc_group {
  const nnc_way *way;
  int op[NNC_GROUP_OPS]; /* as the way has them; -1: none */
  int in[2], out[2];     /* values that it reads and makes, as the way has them */
  nnc_choice *by;        /* for each N, where it is measured */
};

typedef struct nnc_group_job {
  nnc_job job;
  const nnc_group *group;
} nnc_group_job;

/* What a way has that computes several ops. */
typedef struct nnc_together {
  /* Whether there is a group at op i; it is sought before values have their places. */
  int (*matches)(const nn_cuda *cuda, int i, nnc_group *group);
  void (*join)(nn_cuda *cuda, const nnc_group *group); /* marks in lowering what is different then */
  /* Once its ops have their sizes: its scratch. arena: what prepare() needs behind `fixed`. */
  void (*size)(nn_cuda *cuda, const nnc_group *group, size_t *arena);
  int (*prepare)(nnc_call *c, const nnc_group *group);     /* once its ops are prepared: a status */
  void (*bind)(const nnc_call *c, const nnc_group *group); /* at the start of a forward; NULL: nothing to do */
  /* Instead of op, which is one of the group: 1, and a status; 0: op is computed alone. backward may be NULL. */
  int (*forward)(nnc_call *c, const nnc_group *group, const nn_xop *op, int *status);
  int (*backward)(nnc_call *c, const nnc_group *group, const nn_xop *op, int *status);
} nnc_together;

struct nnc_way {
  int id; /* NNC_WAY_... */
  unsigned jobs, does;
  int float_weights;        /* it reads the weights as float32 even where maps are of bfloat16 */
  const char *keyed;        /* a word that the key has where it takes the job: what was kept without it does not hold */
  const char *const *texts; /* of its variants in the file of choices, then NULL; NULL: take() and offer() have them */

  int (*takes)(const nnc_job *job, const nnc_device *device); /* NULL: every job */
  /* What its kernels need before the first call, never in a capture: a cudaError_t. NULL: nothing. */
  int (*prepare)(const nnc_job *job);
  /* by: the variant of this text. 0: it is no text of this way, or that variant is no longer possible. */
  int (*take)(nnc_job *job, const char *text);
  /* by: each variant in turn, which nnc_try() measures. */
  void (*offer)(nnc_job *job, nnc_trial *trial);
  double (*worth)(const nnc_job *job, double ms); /* what a measured time counts as; NULL: itself */
  int (*run)(const nnc_job *job);                 /* 0: enqueued */
  const char *(*words)(int err);                  /* of what run() gives; NULL: it is a cudaError_t */

  /* Bytes for n samples: of scratch in a call, and of sums that stay until the end of a backward, at nn_cop.at. */
  size_t (*work)(const nn_cuda *cuda, const nn_xop *op, int64_t n);
  size_t (*pieces)(const nn_cuda *cuda, const nn_xop *op, int64_t n);
  /* Bytes that it keeps of an op's weights in a frozen network, at nn_cop.at, 0: none; and what makes them. */
  size_t (*constants)(const nn_cuda *cuda, const nn_xop *op);
  int (*pack)(const nnc_call *c, const nn_xop *op, void *to);
  /* Bytes of the sums of dx's columns that a DATA leaves for the op that made it, at most. */
  size_t (*columns)(const nn_cuda *cuda, const nn_xop *op);

  const nnc_together *together; /* NULL: it computes one op */
  /* Convolutions that it takes where products round to `rounds`, as nn_target.narrow; NULL: it is no choice of
   * lowering. */
  int (*(*lowers)(int rounds))(int k, int64_t in, int64_t out);
};

#define NNC_WAY(ID, name) extern const nnc_way nnc_way_##name;
#include "ways.list"

/* ---- choose.c ---- */
extern const nnc_way *const nnc_ways[NNC_WAYS];
/* Sets job->by: what was kept for key, or what is the fastest now. A status. */
int nnc_choose(nnc_job *job, const char *key);
/* Measures the job as `by` has it, which is `text` in the file of choices; 1: it can be run. */
int nnc_try(nnc_trial *trial, const char *text);
/* The word that a key has for a way that takes the job; NULL: none. */
const char *nnc_keyed(const nnc_job *job);
/* Whether a way takes the job that does all of it. */
int nnc_takes_all(const nnc_job *job);
/* What the way has left undone of a forward whose result is y; plus->p NULL: nothing is added. A cudaError_t. */
int nnc_finish(const nnc_job *job, const nnk_map *y, const float *bias, const nnk_map *plus);
int nnc_run_alone(void *job); /* to be `timed`: the way and nothing else */
/* A status, with the words of the way that has given err. */
int nnc_ran(const nnc_job *job, int err);
/* The largest `work` of all ways for n samples. */
size_t nnc_ways_work(const nn_cuda *cuda, const nn_xop *op, int64_t n);
size_t nnc_ways_most_pieces(const nn_cuda *cuda, const nn_xop *op, int64_t n); /* the largest `pieces` */
/* Makes place for the constants of all ways. */
void nnc_ways_constants(nn_cuda *cuda, const nn_xop *op);
/* Makes place for the pieces of all ways, of up to the batch's samples; returns the bytes of the largest. */
size_t nnc_ways_pieces(nn_cuda *cuda, const nn_xop *op);

#endif
