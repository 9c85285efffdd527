/* SPDX-License-Identifier: MIT
 *
 * spcore/plugin.h - how a stage is written. This header is the manual.
 *
 * A plugin is a shared object that exports one function, `spcore_plugin`; SP_PLUGIN writes it. It lists stage types
 * (and, rarely, devices, weight-file formats and communicators). A stage type is a computation with typed input and
 * output ports and a table of parameters: the same table checks what a script passes, fills the author's struct, and
 * prints `spcore inspect`.
 *
 * Data-flow rules
 *  1. The host owns every buffer. A stage declares outputs, scratch, saved bytes and weights in plan(); it allocates
 *     no tensor memory of its own.
 *  2. A tensor's data is lent for one call. Inputs are read-only; outputs hold garbage before forward().
 *  3. shape[0] is N, the samples in the batch. It may be smaller at run time than planned (the last batch of an
 *     epoch); nothing else may differ.
 *  4. forward() and backward() run on a lane's stream: on the CPU on that lane's own thread, returning when done; on
 *     CUDA on the submitting thread, where they only enqueue on ctx->stream (no allocation, no synchronize, no default
 *     stream, no branch on device values).
 *  5. Calls on one instance never overlap, unless the type is SP_STAGE_REENTRANT.
 *  6. The result depends on nothing but inputs, weights, parameters, step and ids: same bits for the same values,
 *     whatever the strategy. Randomness comes from spcore/rng.h, keyed by step->key and the sample's id.
 *  7. `scratch` is garbage at the start of each call, but see 8. What backward() needs from forward() of the same step
 *     goes to `saved`, or is read again from in[] (always) and out[] (always).
 *  8. A backward() in parts: where the host allows it (max_parts), plan() may give n_parts above 1 and each trained
 *     weight a part. Then backward() is called so often a step, with io->part 0, 1 .. n_parts - 1 and all else equal.
 *     Call p completes the gradients of the weights of part p, those that forward() uses last first, and writes no
 *     other; din is complete behind the last, and `din_acc` says what holds before the first. While it runs, gradients
 *     of earlier parts may be read and their weights be updated, so it reads neither. From the first of these calls to
 *     the last the host makes no other backward() of the instance, and scratch stays where and as it is between them.
 *     The bits are those of one call.
 *  9. Factors: where a step has several shards (plan->shards above 1) the gradients of some weights may be left to the
 *     end of the step. The gradient of a product's weight is dY^T X, a sum over rows, and rows of all shards take less
 *     memory, and less time between processes, than gradients where rows are few. plan() lists such X and dY
 *     (sp_plan.factors), of one shard each, and gives the weights SP_WEIGHT_FACTORS; it decides by shards and shapes
 *     alone. In each pass forward() and backward() then write the pass's factors to io->factors: all rows of a full
 *     batch, zeros for samples that are not there, also where N is 0, for which they are called and do nothing else;
 *     once complete they stay as they are. dweights of these weights are NULL. Behind the last pass apply() gets the
 *     rows of all shards, in the order of shards.
 * 10. Constants: where weights will not be trained (plan->frozen) plan() may ask for memory of the instance's own,
 *     const_bytes, for what follows from the weights alone: folded, cast, packed. prepare() fills all of it from
 *     io->weights, also when it is called again; other calls only read it. Where the host has changed weights it calls
 *     prepare() again before the next call. What prepare() has enqueued is over when the next call is made.
 * 11. Slices: where processes share what an optimizer keeps of weights, each updates but a slice of every weight. An
 *     optimizer whose plan() gives `slice` is planned once more, with `slices`: gradients, and with them weights, are
 *     then of one dimension, some of 0 elements; each is a slice of the one that it was, in its order in memory, and
 *     begins at a multiple of `slice` elements. The stage's own weights are to be the same, but that those with `of`
 *     are as their gradient is now. Element by element the update must have the bits that it has on the whole. What it
 *     has to know of all gradients survey() says as one number for each `slice` elements of a gradient, the last ones
 *     fewer; the forward() behind it finds those of all processes in io->sums.
 * 12. An update in calls: where gradients are complete one after another, an optimizer whose plan() sets `separate` may
 *     be called several times a step, with io->part 0, 1 and so on. Each gradient and its weight are there in one of
 *     these calls, which changes them and what the stage keeps of them; in the others their data is NULL. What counts
 *     steps does so in call 0, and only that empties a METRIC or the STATUS. The bits are those of one call.
 *
 * Brackets say who calls and when. [main & !running]: the thread that builds the graph, while no step is in flight.
 * [stream]: as rule 4. The host asserts it.
 */
#ifndef SPCORE_PLUGIN_H
#define SPCORE_PLUGIN_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sp_device_type; /* spcore/device.h */
struct sp_format_type; /* spcore/format.h */

/* ---- parameters --------------------------------------------------------------------------------------------------
 * One static table per stage type, ended by an element whose name is NULL. `offset` places the value in the author's
 * struct, whose size is params_size. Strings and lists stay valid as long as the instance. */
enum {
  SP_PARAM_BOOL = 1,   /* int32_t, 0 or 1 */
  SP_PARAM_INT = 2,    /* int64_t */
  SP_PARAM_FLOAT = 3,  /* double */
  SP_PARAM_STRING = 4, /* const char *, never NULL */
  SP_PARAM_CHOICE = 5, /* int32_t, the index in `choices` */
  SP_PARAM_INTS = 6,   /* sp_ints: {256, 256}; a plain number is a list of one */
  SP_PARAM_FLOATS = 7, /* sp_floats */
  SP_PARAM_LIST = 8    /* sp_structs: a list of tables, each with the parameters of `fields` */
};
enum {
  SP_PARAM_REQUIRED = 1u << 0, /* no default: a script must give it */
  SP_PARAM_LIVE = 1u << 1,     /* FLOAT only: may change while running; read it from step->live, in table order */
  SP_PARAM_FIRST = 1u << 2     /* in `fields`: also taken from the table's [1], so that { "conv", 64 } can be written */
};

typedef struct sp_ints {
  const int64_t *v;
  uint32_t n, reserved;
} sp_ints;
typedef struct sp_floats {
  const double *v;
  uint32_t n, reserved;
} sp_floats;
typedef struct sp_structs {
  const void *v;
  uint32_t n, reserved;
} sp_structs; /* n elements of fields_size bytes */

typedef struct sp_param {
  const char *name;
  int32_t type; /* SP_PARAM_... */
  uint32_t flags;
  size_t offset;                 /* offsetof(struct params, member) */
  double def, min, max;          /* FLOAT: default and bounds; FLOATS: bounds of each element; both 0: no limit */
  int64_t idef, imin, imax;      /* the same of INT and of the elements of INTS; both 0: no limit; INT64_MIN, INT64_MAX:
                                 none on that side; BOOL: idef is 0 or 1; CHOICE: the index */
  const char *def_str;           /* STRING: default, NULL is ""; INTS, FLOATS: default as text, "256,256" */
  const char *const *choices;    /* CHOICE: ended by NULL */
  const char *unit;              /* "px", "degrees", "bytes"; NULL: none */
  const char *doc;               /* one sentence, no full stop */
  const struct sp_param *fields; /* LIST: the element's table */
  size_t fields_size;            /* LIST: the element's bytes */
  uint32_t min_n, max_n;         /* INTS, FLOATS, LIST: how many; max_n 0: no limit but 1024 */
  const char *old;               /* a name that it had: still taken, with a notice; NULL: none */
  uint64_t reserved[1];
} sp_param;

/* ---- ports -------------------------------------------------------------------------------------------------------
 * Static tables, ended by an element whose name is NULL. */
enum {
  SP_PORT_OPTIONAL =
      1u << 0,            /* input: may stay unwired; its list is then empty. output: where nobody reads a tensor of it,
                                 its data is NULL in every call */
  SP_PORT_LIST = 1u << 1, /* 0..SP_MAX_LIST tensors */
  SP_PORT_METRIC = 1u << 2, /* output: small, copied to the host and given to the script, by name */
  SP_PORT_NOGRAD = 1u << 3, /* input: no gradient flows into it (labels, images); output: none comes back */
  SP_PORT_STATUS = 1u << 4, /* output, int64[4]: {0 or a negative sp_status, sample id, value, limit}; where not 0 the
                                 host stops the run with the stage's `status_doc` words */
  SP_PORT_SUM = 1u << 5,    /* METRIC output: over the shards of a step it is the sum. That of integers always is; other
                                 numbers without this flag are a mean, weighted by the stage's TOTAL, or by samples
                                 where it has none */
  SP_PORT_TOTAL = 1u << 6   /* output of a LOSS, float64 scalar: what its loss is a mean over, see sp_step.batch */
};

typedef struct sp_port {
  const char *name;
  uint32_t dtypes; /* SP_DT bits; 0: any */
  int32_t ndim;    /* -1: any */
  uint32_t flags, reserved0;
  const char *doc;
  uint64_t reserved[2];
} sp_port;

/* ---- weights -----------------------------------------------------------------------------------------------------
 * Listed by plan(). The names are those of a PyTorch nn.Sequential state_dict ("0.weight"), without the stage's name,
 * which the host puts in front. The order of the list is the order of initialisation. */
enum {
  SP_WEIGHT_TRAINED = 1u << 0, /* has a gradient, is given to the optimizer */
  SP_WEIGHT_STATE = 1u << 1,   /* changed by forward() when training (running statistics), saved, no gradient */
  SP_WEIGHT_FACTORS = 1u << 2  /* a TRAINED one whose gradient apply() makes, see rule 9 */
};
enum {
  SP_INIT_CONST = 0,  /* every element init_value */
  SP_INIT_UNIFORM = 1 /* uniform in +-1/sqrt(init_value), where init_value is fan_in */
};
typedef struct sp_weight {
  const char *name;
  sp_spec spec; /* logical shape as PyTorch has it; `order` as the stage wants it in memory */
  uint32_t flags;
  int32_t init;
  double init_value;
  uint32_t part; /* TRAINED, where plan() gives n_parts: which call of backward() completes its gradient, from 0 */
  uint32_t of;   /* an OPTIMIZER's: the number, from 1, of the gradient whose spec it has and of each of whose elements
                    it keeps something; 0: of none. See rule 11 */
  uint64_t reserved;
} sp_weight;

/* Facts that a script may ask of a stage: data.classes. `item`, NULL of most, makes it a list of `value` texts: writes
 * the i-th, from 0, as snprintf does, and returns its length. It only reads what create() has made, so it may be called
 * on any thread, and while the stage runs. */
typedef struct sp_attr {
  const char *name;
  double value;
  const char *text; /* NULL: a number */
  int (*item)(const void *self, uint64_t i, char *to, size_t size);
  uint64_t reserved;
} sp_attr;

#define SP_MAX_FACTORS 1024
#define SP_MAX_SLICE (1 << 24)

/* ---- plan -------------------------------------------------------------------------------------------------------- */
typedef struct sp_speclist {
  uint32_t n, cap;
  sp_spec *spec;
} sp_speclist;

/* A matrix of which apply() makes gradients, see rule 9. */
typedef struct sp_factor {
  sp_spec spec;     /* of one shard: float32 or bfloat16, row-major, shape[0] rows of all samples of a full batch,
                       in order */
  uint32_t forward; /* 1: forward() writes it, and nobody else; 0: backward() does */
  uint32_t part;    /* where backward() does: apply() of this part and later ones may read it */
  uint32_t early;   /* call part - early of backward() completes it, as earlier ones may begin: later ones only read it,
                       since it may be on its way to other processes */
  uint32_t reserved;
} sp_factor;

#define SP_MAX_GROUPS 128

#define SP_MAX_PHASES 32

/* What an optimizer's learning rate and weight decay are multiplied by, for the weights of a group, and since when
 * these are trained. */
typedef struct sp_group {
  double lr, decay;
  uint64_t phase; /* from 0: of the training, the phase that trains them first. What depends on the number of updates,
                     such as a bias correction, depends on those since this phase began */
} sp_group;

typedef struct sp_plan {
  uint32_t size, training; /* in: training: backward() may be called */
  uint32_t n_in, n_out;    /* in: ports, as in the type's tables */
  int64_t batch;           /* in: N; what a source gives shape[0] */
  int32_t frozen;          /* in: the weights will not be trained, nor are statistics updated */
  int32_t reserved0;
  const sp_speclist *in; /* in: specs per input port; read-only; dtype and ndim are already checked against the port */
  sp_speclist *out;      /* out: n is 1 (0..cap on a LIST port); fill in spec[0..n-1] */
  const sp_weight *weights; /* out: lives as long as the instance or until the next plan() */
  uint32_t n_weights, n_attrs;
  const sp_attr *attrs; /* out: as weights; what a script may read, nothing that the host acts upon */
  size_t scratch_bytes; /* out: largest need of one forward() or backward() call */
  size_t saved_bytes;   /* out: what forward() leaves for backward() of the same step; 0 if not training */
  uint64_t length;      /* out, of a SOURCE: how many samples it has, 1 or more; a script reads it as data.length */
  uint32_t inplace;     /* out, of an OPTIMIZER with SP_STAGE_INPLACE_SGD: 1: with its parameters the update is
                           W -= lr * dW alone */
  uint32_t restores;    /* out, of an OPTIMIZER with an input 1: 1: the update may put statistics back, see
                           SP_STAGE_OPTIMIZER */
  uint64_t request_max; /* out, with SP_STAGE_REQUESTS: 0: a request has a sample of each output, as it lies in memory;
                           else one part of 1 to so many bytes, which the stage makes the sample of */
  uint32_t stepless;    /* out: 1: its calls read neither step nor ids. Both are NULL there, and a lane of a GPU on
                           which nobody reads them is spared a copy a step */
  uint32_t averages;    /* out, of an OPTIMIZER: 0, or the number, from 1, of the first of its weights that are moving
                           averages of what it trains, see SP_STAGE_OPTIMIZER */
  uint32_t max_parts;   /* in: 1, or the most calls that backward() may be cut into, see rule 8 */
  uint32_t n_parts;     /* out: 0 or 1: one call; else 2 .. max_parts, each of which completes a gradient */
  uint64_t part_bytes;  /* in, where max_parts is above 1: a part of so many bytes of gradients is small enough. 0: none
                           is, so that parts are as many and as even as can be */
  uint32_t shards;      /* in: 0 or 1: no weight may have FACTORS; else the shards of a step, see rule 9 */
  uint32_t n_factors;   /* out: 0 .. SP_MAX_FACTORS */
  const sp_factor *factors; /* out: as weights */
  size_t const_bytes;       /* out: 0 unless frozen, see rule 10 */
  uint32_t slices;          /* in, of an OPTIMIZER: 1: gradients are slices, see rule 11 */
  uint32_t slice;           /* out, of an OPTIMIZER: 0: it takes whole gradients only; else 1 .. SP_MAX_SLICE: its
                               update takes slices that begin at multiples of so many elements, see rule 11 */
  uint32_t separate;        /* out, of an OPTIMIZER: 1: with its parameters no weight's update looks at the gradients of
                               others, and it may be made in several calls, see rule 12 */
  uint32_t grouped;         /* out, of an OPTIMIZER: 1: its update honours `groups` */
  const sp_group *groups;   /* in, of an OPTIMIZER: [n_groups] factors of the weights; NULL, 0: all are 1 */
  const uint32_t *group_of; /* in: [in[0].n] the group of each weight */
  uint32_t n_groups;        /* in: 0 .. SP_MAX_GROUPS */
  uint32_t n_phases;        /* in: 0: 1; else 1 .. SP_MAX_PHASES: between two of them plan() is called anew, for more
                               weights, and what the optimizer keeps of a weight, or by itself, stays by its name */
  const float *draw; /* out, of a SOURCE: as weights; [length] how often a sample is drawn, relative
                        to others, at least 0, in steps; evaluations see each once. NULL: each once an epoch */
  uint32_t repeats;  /* out: 1: forward() of a training step does not read STATE weights, so that it can be called again
                        for the same step with other memory instead of them; without any it always can */
  uint32_t reserved2;
} sp_plan;

/* ---- one call ---------------------------------------------------------------------------------------------------- */
#define SP_MAX_LIVE 8

typedef struct sp_step {
  uint64_t step;           /* from 0 */
  uint64_t epoch;          /* from 0 */
  uint64_t key;            /* for spcore/rng.h: made of the run's seed and the stage's name */
  uint32_t n;              /* samples in this batch */
  uint32_t training;       /* the step belongs to a loop that trains (not to an evaluation): augment */
  float live[SP_MAX_LIVE]; /* the LIVE parameters, in table order */
  float loss_scale;        /* gradients are this times the true ones: the share of the batch in its update */
  uint32_t batch;          /* 0, or N of a full batch: the call has one of several shards of an update. A loss
                              then divides its gradient not by what its mean is over, T, but by what T is where all of a
                              full batch counts, F, so that gradients of shards can be added; its TOTAL is T / F,
                              else T */
  uint32_t shard;          /* which of the update's shards on this rank it is, from 0 */
  uint32_t reserved[5];
} sp_step;

/* A sample's id: its epoch and its index in the data set. Where samples are drawn (`draw` of the plan), the upper 8 of
 * the epoch's 24 bits say how often the sample came before in that epoch, so that each time has an id of its own. */
#define SP_ID(epoch, index) ((uint64_t)(epoch) << 40 | (uint64_t)(index))
#define SP_ID_EPOCH(id) ((uint64_t)(id) >> 40)
#define SP_ID_INDEX(id) ((uint64_t)(id) & ((UINT64_C(1) << 40) - 1))

typedef struct sp_io {
  uint32_t size;
  uint32_t training;   /* forward(): statistics are updated unless frozen, a backward() of this step follows */
  const sp_step *step; /* in the stage's memory; NULL in prepare(), and if plan() said `stepless` */
  const uint64_t *ids; /* [N], in the stage's memory; NULL where step is, and where the graph has no source */
  uint32_t n_in, n_out, n_weights, reserved0;
  const sp_list *in;   /* [n_in] */
  const sp_list *out;  /* [n_out] */
  const sp_list *dout; /* [n_out] backward(): gradient of each output; data NULL: zero */
  const sp_list *din;  /* [n_in] where to put the gradient of each input; data NULL: not wanted. In forward() only of
                               a stage without trained weights: a loss may give its gradient at once. */
  const uint8_t *const *din_acc; /* [n_in][list n] 1: add to what is there; 0: overwrite. NULL where din is */
  const sp_tensor *weights;      /* [n_weights] as planned */
  const sp_tensor *dweights;     /* [n_weights] backward(): data NULL: not wanted */
  uint32_t dw_acc;               /* 1: add to dweights; 0: overwrite */
  uint32_t part;                 /* backward(): which of the n_parts calls this is, see rule 8; an optimizer's
                                    forward(): rule 12 */
  const float *dw_scale;         /* in the stage's memory. Not NULL: no dweights; do weights += *dw_scale * dW in place,
                                after the layer's data gradient */
  void *scratch, *saved;         /* 64-byte aligned, NULL where 0 bytes were asked */
  const sp_tensor *factors; /* [n_factors] as planned, see rule 9. forward(), backward() of a training step: of this
                               pass, to be written; prepare(), apply(): of all shards, shape[0] so many times.
                               NULL in evaluations */
  uint32_t n_factors, reserved1;
  void *consts; /* const_bytes, aligned as scratch; NULL where 0 were asked */
  double *sums; /* in the stage's memory, see rule 11. survey(): one for each `slice` elements of the gradients of input
                   0, to be written; forward() of slices: those of all processes, of which the k-th of the whole
                   gradients, in their order, is sums[sum_at[k]]. Else NULL */
  const uint32_t *sum_at; /* the same; [n_sums]; forward() only */
  uint64_t n_sums;
} sp_io;

/* ---- stage type -------------------------------------------------------------------------------------------------- */
enum {
  SP_STAGE_SOURCE = 1u << 0,      /* makes samples from ids; has a lane of its own and is prefetched */
  SP_STAGE_OPTIMIZER = 1u << 1,   /* input 0: LIST of gradients; output 0: LIST of the weights, updated in place.
                                    plan() sees the specs of the gradients on input 0. Input 1, where there is one: LIST
                                    of the statistics (STATE weights) of all trained stages. Where plan() sets
                                    `restores` the update may put them back in place to what they were after the last
                                    update: the type's last weights, one for each, hold that, and the host fills them
                                    before the first step of a loop; else the list is empty in calls. Where plan()
                                    gives `averages`, the weights from that one on, one for each gradient and of its
                                    spec, are updated with the weights; until the first update they are the weights.
                                    Evaluations run with them in the weights' place */
  SP_STAGE_CAPTURABLE = 1u << 2,  /* keeps rule 4 strictly, so that its calls may be captured into a graph */
  SP_STAGE_REENTRANT = 1u << 3,   /* calls on one instance may overlap */
  SP_STAGE_STOCHASTIC = 1u << 4,  /* draws random numbers */
  SP_STAGE_LOSS = 1u << 5,        /* output 0 is the scalar that training minimises; forward() fills din */
  SP_STAGE_INPLACE_SGD = 1u << 6, /* backward() honours dw_scale. On an OPTIMIZER type: its update may be W -= lr * dW
                                    alone; plan() says with `inplace` whether its parameters make it so */
  SP_STAGE_REQUESTS = 1u << 7,    /* a SOURCE whose samples are requests (spcore/feed.h): plan() leaves length 0, and
                                    ids are those of requests, or SP_NO_REQUEST */
  SP_STAGE_SHARDS = 1u << 8       /* for the graph alone. It adds such stages where a step has several shards: their
                                    inputs are changed in place, and `saved` keeps its contents from call to call. One
                                    it calls in the place of a stage whose outputs are kept, to keep or to give them */
};

typedef struct sp_stage_type {
  uint32_t size, flags;
  const char *name;                /* [a-z][a-z0-9_]* */
  const char *device;              /* "cpu", "cuda" */
  const char *doc;                 /* one sentence, no full stop */
  const sp_port *inputs, *outputs; /* may be NULL: none */
  const sp_param *params;          /* may be NULL: none */
  size_t params_size;
  const char *status_doc; /* words for a STATUS port, with %sample, %value, %limit, and %float: the value as a float32
                             with these low bits; a second line, if there is one, is for statuses other than SP_E_DATA,
                             a third for SP_E_INVALID; NULL where there is no such port */

  /* Makes an instance. `params` is filled and checked, and lives as long as the instance. On failure nothing is kept
   * and destroy() is not called. [main & !running] */
  int (*create)(sp_ctx *ctx, const void *params, void **self);

  /* Frees the instance. This function can't fail. [main & !running] */
  void (*destroy)(void *self);

  /* Says what comes out, and what memory and weights are needed. May be called again with other shapes; the last call
   * counts. Must be cheap and touch no tensor. [main & !running] */
  int (*plan)(sp_ctx *ctx, void *self, sp_plan *plan);

  /* Optional. Called once for each (N, training) before the first forward() with it, buffers in place but holding
   * garbage: the place for all lazy set-up and choice of algorithms, and where constants are filled, see rule 10.
   * Leaves weights and state as they are.
   * [main & !running] */
  int (*prepare)(sp_ctx *ctx, void *self, const sp_io *io);

  /* [stream] */
  int (*forward)(sp_ctx *ctx, void *self, const sp_io *io);

  /* Optional: NULL says that no gradient passes. [stream] */
  int (*backward)(sp_ctx *ctx, void *self, const sp_io *io);

  /* Optional, with weights that have FACTORS: of those of part io->part the gradient, over io->factors, times
   * *io->dw_scale, is written to dweights, or, where that has no data, added to the weight. It gets neither inputs nor
   * outputs, step nor ids nor saved memory, but scratch; other weights have no data either,
   * since they may be updated meanwhile. [stream] */
  int (*apply)(sp_ctx *ctx, void *self, const sp_io *io);

  /* Optional, of an OPTIMIZER whose plan() gives `slice`: before each forward() of slices, with the same tensors, of
   * which it reads the gradients alone, writes io->sums, see rule 11. [stream] */
  int (*survey)(sp_ctx *ctx, void *self, const sp_io *io);
} sp_stage_type;

/* ---- plugin ------------------------------------------------------------------------------------------------------ */
typedef struct sp_plugin {
  uint32_t size, abi; /* sizeof(sp_plugin), SP_ABI; these two are the first of every version */
  const char *name, *version, *license, *doc;
  const sp_stage_type *const *stages;          /* ended by NULL; may be NULL */
  const struct sp_device_type *const *devices; /* ended by NULL; may be NULL */
  const struct sp_format_type *const *formats; /* ended by NULL; may be NULL */
  const struct sp_comm_type *const *comms;     /* ended by NULL; may be NULL */
} sp_plugin;

/* The one symbol that a plugin exports. It is called once, when the file is loaded (RTLD_NOW | RTLD_LOCAL, never
 * unloaded), with the host's SP_ABI, and returns the sp_plugin of the headers with that SP_ABI. A file that was built
 * against one version returns what it has, whatever is asked: the host compares `abi` and says which it is. A file that
 * holds several, each compiled against its own headers, returns the one that is asked for, and else its newest. NULL:
 * there is none. Must be cheap and touch no device. [main & !running] */
extern SP_EXPORT const void *spcore_plugin(uint32_t abi);

/* What `spcore inspect` prints of a plugin; to be defined before this header is included, or with -D. */
#ifndef SP_PLUGIN_VERSION
#define SP_PLUGIN_VERSION "" /* "1.0"; unknown */
#endif
#ifndef SP_PLUGIN_LICENSE
#define SP_PLUGIN_LICENSE "" /* "MIT"; unknown */
#endif

/* Defines spcore_plugin() for a file of stages: SP_PLUGIN("blur", "A Gaussian blur", stages); at the end of one source
 * file, in C++ outside of namespaces. The lists are arrays of pointers, ended by NULL. */
#define SP_PLUGIN(name, doc, stages) SP_PLUGIN_WITH(name, doc, stages, NULL, NULL)

/* The same with devices and formats; NULL where a file holds none of a kind. */
#define SP_PLUGIN_WITH(name, doc, stages, devices, formats) SP_PLUGIN_ALL(name, doc, stages, devices, formats, NULL)

/* The same with communicators. */
#define SP_PLUGIN_ALL(name, doc, stages, devices, formats, comms)                                                     \
  const void *spcore_plugin(uint32_t abi) {                                                                           \
    static const sp_plugin this_plugin = {                                                                            \
        sizeof(sp_plugin), SP_ABI, name, SP_PLUGIN_VERSION, SP_PLUGIN_LICENSE, doc, stages, devices, formats, comms}; \
    (void)abi;                                                                                                        \
    return &this_plugin;                                                                                              \
  }                                                                                                                   \
  struct sp_plugin /* takes the semicolon */

#ifdef __cplusplus
}
#endif
#endif
