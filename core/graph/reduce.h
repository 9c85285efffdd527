/* SPDX-License-Identifier: MIT
 * reduce.h - what the ranks of a job add together: which of them a graph's shards are on, the communicator, and the memory
 * that gradients and statistics lie in so that it moves.
 *
 * A step of V shards is split into R blocks, one a rank, which adds up its own in a tree. What is left is the tree over the
 * ranks. Gradients, and behind them the statistics of trained stages, lie in buckets of a few MiB, each in R pieces: every
 * rank gets its piece of all others, adds them in that fixed order, divides, and gives the sum to all. Where ranks share what
 * the optimizer keeps, the weights lie in buckets, too, and a rank gives its piece of those to all when it has updated them. */
#ifndef SP_CORE_REDUCE_H
#define SP_CORE_REDUCE_H

#include <spcore/comm.h>
#include <stdatomic.h>

#include "graph/model.h"

typedef struct sp_bucket {
  char *memory;  /* `bytes` of the reduction's; NULL: gradients are products of factors, which lie apart */
  char *weights; /* the same of the weights, in the places of their gradients; NULL: they lie apart */
  size_t bytes;  /* ranks * each */
  size_t each;
  size_t gradients;     /* bytes; statistics follow */
  sp_weight_ref *parts; /* what lies in it */
  size_t *at;           /* [n] and where */
  void **given;         /* [n] weights on their way there, of the host */
  size_t n, n_gradients, cap;
  bool factors; /* of these */
  bool counts;  /* what is not float32, and only counted: rank 0's, whose first shard has samples in every step */
} sp_bucket;

static inline bool sp_bucket_has(const sp_bucket *b, const sp_weight_ref *r) {
  for (size_t i = 0; i < b->n; i++)
    if (b->parts[i].node == r->node && b->parts[i].i == r->i) return true;
  return false;
}

/* Of a weight as it lies in memory, in elements. */
typedef struct sp_extent {
  int64_t at, n;
} sp_extent;

struct sp_reduce {
  sp_ranks *ranks; /* not owned */
  int rank, n_ranks;
  const sp_comm_type *type;
  void *comm;
  sp_rank_abort abort; /* ends what waits in the communicator when the job has failed */
  sp_bucket *buckets;
  size_t n, cap;
  char *memory; /* the communicator's, of all buckets */
  size_t bytes;
  sp_err failure;    /* of its memory: weights have no place, so it is not tried again */
  atomic_bool waits; /* a call of the communicator is under way */
  char *pieces;      /* what all_to_all brings, as large as the largest bucket */
  size_t room;       /* its bytes */
  char *wire;        /* a bucket's gradients as bfloat16; NULL: they go as they are */
  /* slices.c; none where ranks have no slices */
  void *stream;      /* of what is gathered while no step is in flight; NULL: not yet */
  sp_extent *slices; /* [rank][trained weight], in the optimizer's order */
  size_t n_trained;
  size_t sums;      /* of its survey(): the most that a rank makes */
  uint64_t n_sums;  /* of all ranks */
  uint32_t *sum_at; /* [n_sums] of the device: where the i-th is among [rank][sums] */
};

/* Opens the communicator and gives gradients and statistics their places, for a graph of several ranks that is trained; does
 * nothing for others, or the second time. All stages are planned. Collective. */
int sp_graph_reduce(sp_graph *g, sp_err *err);
/* The rows of all shards of which stages make gradients, in memory that moves where there are several ranks. Does nothing
 * the second time. Behind sp_graph_reduce; collective as that is. */
int sp_graph_make_factors(sp_graph *g, sp_err *err);
void sp_node_drop_factors(sp_node *node); /* before the communicator's memory */
void sp_graph_free_reduce(sp_graph *g);   /* behind the nodes, of whose weights it owns some; before the devices */
bool sp_reduce_owns(const sp_graph *g, const void *data);
/* A call of the communicator has failed, as err says: completes the words; err's status. */
int sp_reduce_failed(const sp_reduce *x, const char *what, sp_err *err);
/* Weights, statistics and what the optimizer keeps, of one stage or (NULL) of all: rank 0's on all ranks. Nothing is in
 * flight. Does nothing where one rank has the graph. */
int sp_graph_share_weights(sp_graph *g, const sp_node *node, sp_err *err);
/* Fails where they are not the same on all ranks, in words of the first that is not; *guilty: the rank that has it, which is
 * yet to be blamed, or -1. */
int sp_graph_compare_weights(sp_graph *g, uint64_t step, int *guilty, sp_err *err);

/* slices.c: each rank has a slice of every trained weight, which it updates, and of what the optimizer keeps of it. */
bool sp_node_sliced(const sp_node *node, size_t i); /* what of weight i it has is a slice */
/* Finds them, once buckets are laid out, and plans the optimizer for its own. */
int sp_graph_slice(sp_graph *g, sp_err *err);
void sp_reduce_free_slices(sp_graph *g);
const sp_extent *sp_graph_slice_of(const sp_graph *g, int rank, size_t trained);
/* Of this rank; t itself, the k-th trained weight's gradient or values, where there are no slices. */
sp_tensor sp_graph_slice_tensor(const sp_graph *g, size_t k, const sp_tensor *t);
/* All collective, while nothing is in flight: one weight as a whole, in host memory that the caller frees; the trained weights
 * as this rank has its slices of them, to all. */
int sp_slices_gather(sp_node *node, size_t i, void **whole, sp_err *err);
int sp_slices_spread(sp_graph *g, sp_err *err);

bool sp_graph_writes(const sp_graph *g);     /* files are this rank's business */
uint64_t sp_reduce_bytes(const sp_graph *g); /* beyond what the gradients and weights are */

#endif
