/* SPDX-License-Identifier: MIT
 * params.h - the parameters of a graph: what stages say of them, the memory that holds them and their gradients, first
 * values, averages, what ranks share of them, files.
 *
 * sp_weights are those of one stage, sp_store those of all stages in order of construction. The store knows no wires:
 * the graph, which lies above, says which stages are trained and which of them is the optimizer. Except where a comment
 * says otherwise nothing is in flight when these functions are called. */
#ifndef SP_CORE_PARAMS_H
#define SP_CORE_PARAMS_H

#include <spcore/comm.h>
#include <stdatomic.h>

#include "device/place.h"
#include "host/env.h"

typedef struct sp_store sp_store;

/* What plan() of an optimizer said. */
typedef struct sp_update_plan {
  bool plain_sgd, restores;
  bool separate;     /* its update may be made in several calls */
  bool grouped;      /* it honours groups */
  uint32_t slice;    /* where slices may begin; 0: it takes none */
  uint32_t averages; /* the first of its weights that are averages, from 1; 0: it keeps none */
} sp_update_plan;

/* The parameters of a stage: what plan() said of them, and the memory that holds them from the first program on. */
typedef struct sp_weights {
  sp_store *store;
  const char *name; /* the stage's */
  sp_place *place;  /* where they lie */
  size_t index;     /* of the stage, in order of construction */
  bool optimizer;
  bool keeps_statistics; /* training changes its statistics, if it has any */
  bool trained, inplace; /* has weights that are trained; its backward() updates them itself, through dw_scale */
  sp_weight *weights;    /* copies; names are owned */
  size_t n_weights;
  sp_factor *factors; /* copies */
  size_t n_factors;
  size_t const_bytes;
  sp_tensor *w, *dw; /* [n_weights] data NULL until needed */
  sp_tensor *rows;   /* [n_factors] of all shards of a step; NULL until needed */
  void *consts;      /* what prepare() makes of weights; NULL until needed */
  bool empty;        /* memory was taken for some since first values were made */
  bool stale;        /* it has yet to make it, of the weights that are there now */
  bool *loaded;      /* [n_weights] came from a file */
  bool *fixed;       /* [n_weights] is not trained, though the stage is */
  void **whole;      /* [n_weights] of which ranks have slices: what rank 0 was given, in host memory, until all have
                        theirs; NULL: nothing */
  sp_update_plan update; /* of an optimizer */
} sp_weights;

typedef struct sp_weight_ref {
  sp_weights *of; /* NULL: before the first */
  size_t i;
} sp_weight_ref;

typedef struct sp_reduce sp_reduce;

struct sp_store {
  sp_env *env;
  sp_place *main; /* the device of the graph */
  bool border;    /* the host does not read its memory */
  const char *device, *comm;
  uint64_t seed;
  bool torch;    /* first values are drawn as PyTorch draws them */
  int shards;    /* of a step, on all ranks */
  size_t bucket; /* bytes of gradients that ranks add at a time, about */
  bool half;     /* sums of gradients go to other ranks as bfloat16 */
  sp_weights **stages;
  size_t n_stages, cap_stages;
  sp_weights *optimizer; /* NULL: nothing is trained */
  bool sliced;           /* ranks have slices of what the optimizer keeps */
  bool applied;          /* apply() updates weights itself: the optimizer does not see them */
  sp_reduce *reduce;     /* NULL: not yet, or one rank */
  bool initialised;
  uint64_t allocations;
};

/* ---- specs.c: what stages say, and which weights are which ---- */
int sp_store_add(sp_store *store, sp_weights *stage, sp_err *err);
/* Takes what plan() said. What has memory already stays where it is;
 * fails where the list changed after a file was loaded. */
int sp_weights_keep(sp_weights *stage, const sp_plan *plan, sp_err *err);
void sp_weights_free(sp_weights *stage);                       /* while the store's communicator is there */
bool sp_weights_have(const sp_weights *stage, uint32_t flag);  /* one has this SP_WEIGHT_ flag */
bool sp_weights_is_trained(const sp_weights *stage, size_t i); /* where its stage is */
bool sp_weights_are_trained(const sp_weights *stage);          /* one of them is, where the stage is */
bool sp_weights_any_fixed(const sp_weights *stage);            /* a group leaves one as it is */
bool sp_weights_has_dw(const sp_weights *stage, size_t i);
bool sp_weights_sums(const sp_weights *stage, size_t i); /* its gradient is added over shards */
/* The trained weights that an optimizer sees, those of them whose gradients are added over shards, and the statistics,
 * each in order of construction: calls with {0} at first; false when there are no more. */
bool sp_store_next_trained(const sp_store *store, sp_weight_ref *at);
bool sp_store_next_summed(const sp_store *store, sp_weight_ref *at);
bool sp_store_next_statistic(const sp_store *store, sp_weight_ref *at);
bool sp_store_has_factors(const sp_store *store);
bool sp_store_restores(const sp_store *store); /* the optimizer may put statistics back */

/* ---- memory.c ---- */
void *sp_store_alloc(sp_store *store, const sp_place *place, size_t bytes, const char *what, sp_err *err); /* counted */
void *sp_store_zalloc(sp_store *store, size_t n, size_t size, const char *what, sp_err *err); /* host memory; counted */
int sp_weights_lists(sp_weights *stage, sp_err *err);         /* w and dw, of which each has its memory later */
int sp_weights_storage(sp_weights *stage, sp_err *err);       /* and what memory they lack */
void sp_weights_drop(sp_weights *stage);                      /* the list and its memory */
uint64_t sp_weights_bytes(const sp_weights *stage, size_t i); /* that this process keeps */
/* A weight in its order in memory, from host memory; of what ranks have slices of the whole, too. */
int sp_weights_put(sp_weights *stage, size_t i, const void *src, sp_err *err);
/* Weight i as host memory: its own where that is the host's, else a copy, which *owned holds. Of one that ranks have
 * slices of the whole: collective. */
int sp_weights_get(sp_weights *stage, size_t i, const void **data, void **owned, sp_err *err);
/* Fails: weight i has no memory, since its graph could not be made. */
int sp_weights_no_memory(const sp_weights *stage, size_t i, sp_err *err);
/* One by name ("0.weight"), copied out in row-major order; dst NULL: its spec only. */
int sp_weights_read(sp_weights *stage, const char *name, sp_spec *spec, void *dst, size_t bytes, sp_err *err);

/* ---- init.c: first values ---- */
/* PyTorch's CPU generator: one stream of numbers for a whole graph, drawn in order of construction. */
typedef struct sp_mt19937 {
  uint32_t state[624];
  uint32_t next;
} sp_mt19937;

void sp_mt19937_seed(sp_mt19937 *mt, uint64_t seed); /* the low 32 bits, as torch.manual_seed */
uint32_t sp_mt19937_draw(sp_mt19937 *mt);

/* Fills the n weights of one stage. data[i] is laid out as w[i].spec says; values are assigned in logical row-major
 * order, so that the memory order changes none of them. CONST takes any dtype, UNIFORM float32.
 *
 * torch NULL: element k of a weight is word k % 4 of sp_rng(key, k / 4, 0), key = sp_rng_key(seed, "STAGE.WEIGHT"): it
 * depends on nothing else in the graph. Else: the numbers come from that generator, bit for bit as PyTorch's
 * reset_parameters() of conv, transposed conv and linear draws them, and `seed` is not used. */
int sp_init_weights(const sp_weight *w, size_t n, void *const *data, const char *stage_name, uint64_t seed,
                    sp_mt19937 *torch, sp_err *err);
int sp_weights_init(sp_weights *stage, sp_mt19937 *torch, sp_err *err); /* those that no file gave */
int sp_store_init(sp_store *store, sp_err *err);                        /* of all stages, and averages */

/* ---- averages.c: what the optimizer keeps of weights ---- */
bool sp_store_averages(const sp_store *store); /* known once the stages are planned */
/* The number of the weight's average among the optimizer's own weights, or -1. */
long sp_store_average_of(const sp_store *store, const sp_weights *stage, size_t i);
/* Averages, of one stage or (NULL) of all, begin again with the weights as they are now. */
int sp_store_restart_averages(sp_store *store, const sp_weights *stage, sp_err *err);
int sp_store_begin_averages(sp_store *store, sp_err *err);  /* those that no file gave */
int sp_store_swap_averages(sp_store *store, sp_err *err);   /* they and the weights change places */
int sp_store_keep_statistics(sp_store *store, sp_err *err); /* for an optimizer that restores them */

/* ---- load.c, names.c: weights from a file ---- */
/* A file and how its names are to be understood; sp_params_fill of sp_load_params makes it of what a script says. */
typedef struct sp_pair {
  const char *ours, *file; /* "features.0.0" is "conv_stem" in the file: whole components that names begin with */
} sp_pair;
typedef struct sp_dialect {
  const char *name;
  sp_structs names; /* of sp_pair: of those that fit the longest counts */
} sp_dialect;
typedef struct sp_load {
  const char *file;    /* or the folder of a run: its weights.safetensors */
  const char *prefix;  /* only entries that begin with it are looked at, and "backbone.0.weight" is "0.weight" */
  const char *option;  /* of the command line that has named the file, "": cures are for a script */
  int32_t channels; /* filters of 3 channels fit a layer of another number: they are added up for one, else repeated */
  int32_t tried;       /* where names do not fit as they are: the prefixes of wrappers, if one of them fits */
  sp_structs ignore;   /* of const char *: globs; such entries, behind the prefix, are not there */
  sp_structs head;     /* globs of entries that a notice says to be left out, where no weight has their name */
  sp_structs names;    /* of sp_pair: the file's names */
  sp_structs dialects; /* of sp_dialect: tried where our names do not fit, if there are no `names` */
} sp_load;
extern const sp_param sp_load_params[];

/* Loads what the stage needs from a file by name: "STAGE.0.weight", or "0.weight" where those under the stage's name do
 * not fit or are not there. Missing, unexpected and mis-shaped entries are all listed in the message. NULL: all stages,
 * of whose weights every one must be there and nothing else. */
int sp_store_load(sp_store *store, sp_weights *stage, const sp_load *from, sp_err *err);

/* ---- snapshot.c: a copy of all, which can be written while the graph goes on, on a thread of its own ---- */
typedef struct sp_snapshot sp_snapshot;
enum {
  SP_SAVE_OPTIMIZER = 1u << 0, /* its moments too */
  SP_SAVE_AVERAGES = 1u << 1   /* the averages that it keeps, where there are such, instead of the weights */
};
/* Weights and statistics of all stages, in host memory, `what`: SP_SAVE_ bits, for a file whose format `path` names,
 * with entries of metadata: text in UTF-8. */
int sp_store_snapshot(sp_snapshot **out, sp_store *store, unsigned what, const char *path, const sp_meta *meta,
                      size_t n_meta, sp_err *err);
/* On ranks that write no files: gives the one that takes a snapshot what it needs of them. */
int sp_store_join_snapshot(sp_store *store, unsigned what, sp_err *err);
int sp_store_save(sp_store *store, const char *path, unsigned what, sp_err *err); /* takes and writes one */
int sp_snapshot_write(const sp_snapshot *s, const char *path, sp_err *err);       /* replaces the file as a whole */
void sp_snapshot_free(sp_snapshot *s);
/* Whether the tensors of an open file are those that were written, where its metadata says so. */
int sp_snapshot_check(const sp_format_type *type, void *file, const char *path, sp_err *err);
/* Reads all of a file; fails where it is damaged. Then `each` is called for every entry of its metadata. */
int sp_snapshot_examine(sp_registry *reg, const char *path, void (*each)(void *arg, const char *key, const char *value),
                        void *arg, sp_err *err);

/* ---- what the ranks of a job add together ----
 *
 * A step of V shards is split into R blocks, one a rank, which adds up its own in a tree. What is left is the tree over
 * the ranks. Gradients, and behind them the statistics of trained stages, lie in buckets of a few MiB, each in R
 * pieces: every rank gets its piece of all others, adds them in that fixed order, divides, and gives the sum to all.
 * Where ranks share what the optimizer keeps, the weights lie in buckets, too, and a rank gives its piece of those to
 * all when it has updated them. */
typedef struct sp_bucket {
  char *memory;  /* `bytes` of the reduction's; NULL: gradients are products of factors, which lie apart */
  char *weights; /* `bytes` of weights, each where its gradient is in `memory`; NULL: they lie apart */
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
    if (b->parts[i].of == r->of && b->parts[i].i == r->i) return true;
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

/* buckets.c */
/* Opens the communicator and gives gradients and statistics their places, where several ranks train the graph; does
 * nothing elsewhere, or the second time. All stages are planned. Collective. */
int sp_store_reduce(sp_store *store, sp_err *err);
void sp_reduce_free(sp_store *store); /* and the communicator; nothing lies in its memory any more */
void sp_store_free(sp_store *store); /* behind the stages, of whose weights it owns some; before the devices */
bool sp_reduce_owns(const sp_store *store, const void *data);
uint64_t sp_reduce_bytes(const sp_store *store); /* beyond what the gradients and weights are */

/* comm.c */
const char *sp_store_comm_name(const sp_store *store);
int sp_reduce_open(const sp_store *store, sp_reduce *x, sp_err *err);
int sp_reduce_take(sp_reduce *x, size_t bytes, void *to, sp_err *err); /* memory that it moves; *to: a pointer */
/* A call of the communicator has failed, as err says: completes the words; err's status. */
int sp_reduce_failed(const sp_reduce *x, const char *what, sp_err *err);

/* factors.c */
/* The rows of all shards of which stages make gradients, in memory that moves where there are several ranks. Does
 * nothing the second time. Behind sp_store_reduce; collective as that is. */
int sp_store_make_factors(sp_store *store, sp_err *err);
void sp_weights_drop_factors(sp_weights *stage); /* before the communicator's memory */

/* slices.c: each rank has a slice of every trained weight, which it updates, and of what the optimizer keeps of it. */
bool sp_weights_sliced(const sp_weights *stage, size_t i); /* what of weight i it has is a slice */
int sp_store_find_slices(sp_store *store, sp_err *err);    /* once buckets are laid out */
void sp_store_free_slices(sp_store *store);
const sp_extent *sp_store_slice_of(const sp_store *store, int rank, size_t trained);
/* Of this rank; t itself, the k-th trained weight's gradient or values, where there are no slices. */
sp_tensor sp_store_slice_tensor(const sp_store *store, size_t k, const sp_tensor *t);
/* Collective: one weight as a whole, in host memory that the caller frees; the trained weights as this rank has its
 * slices of them, to all. */
int sp_slices_gather(sp_weights *stage, size_t i, void **whole, sp_err *err);
int sp_slices_spread(sp_store *store, sp_err *err);

/* phase.c: a training trains other weights from here on. sp_store_keep before anything changes; sp_store_lay_down
 * before stages are planned anew, so that gradients and what ranks add together find other places; sp_store_give when
 * all weights have their memory again, before sp_store_share. Collective. */
typedef struct sp_kept sp_kept; /* what the optimizer keeps, in host memory */
int sp_store_keep(sp_store *store, sp_kept **out, sp_err *err); /* *out NULL: nothing */
int sp_store_lay_down(sp_store *store, sp_err *err);
int sp_store_give(sp_store *store, const sp_kept *kept, sp_err *err);
void sp_kept_free(sp_kept *kept); /* NULL: nothing */

/* share.c: weights that are the same on all ranks */
bool sp_store_writes(const sp_store *store); /* files are this rank's business */
/* Weights, statistics and what the optimizer keeps, of one stage or (NULL) of all: rank 0's on all ranks. Does nothing
 * where one rank has the graph. */
int sp_store_share(sp_store *store, const sp_weights *stage, sp_err *err);
/* Fails where they are not the same on all ranks, in words of the first that is not; *guilty: the rank that has it,
 * which is yet to be blamed, or -1. */
int sp_store_compare(sp_store *store, uint64_t step, int *guilty, sp_err *err);

#endif
