/* SPDX-License-Identifier: MIT
 * hand.h - streams, events, tensors and stages that a program uses itself: no graph says what waits for what.
 *
 * One device a hand. Everything is called on one thread. Operations are enqueued on streams and return at once; what
 * orders two streams is record and wait alone. Vector clocks (hand/races.h) always run, so that memory is not freed
 * under an operation; with `check_races` each operation is checked before it is submitted, and one that may race is
 * refused with SP_E_RACE and the wait that is missing, and not submitted.
 *
 * `where` is the place in the user's script, "train.lua:12", or "".
 *
 * Objects hold their hand: sp_hand_close() waits for all streams and frees the memory, but the objects themselves live
 * until they are dropped, and say that they are closed. */
#ifndef SP_CORE_HAND_H
#define SP_CORE_HAND_H

#include "graph/graph.h"

typedef struct sp_hand sp_hand;
typedef struct sp_hstream sp_hstream;
typedef struct sp_hevent sp_hevent;
typedef struct sp_htensor sp_htensor;
typedef struct sp_hstage sp_hstage;

enum { SP_HAND_MAX_STREAMS = 128, SP_HAND_MAX_STAGES = 4096 };
enum { SP_AT_DEVICE, SP_AT_HOST_PINNED, SP_AT_HOST_PAGEABLE };

typedef struct sp_hand_opts {
  const char *device; /* NULL: "cpu" */
  const char *init;   /* as sp_graph_opts; "torch" draws in the order in which stages are first used */
  int precision;
  uint64_t seed;
  uint64_t order; /* of devices that draw it, sim and simmock: which */
  bool check_races;
} sp_hand_opts;

int sp_hand_new(sp_hand **hand, sp_env *env, const sp_hand_opts *opts, sp_err *err);
void sp_hand_close(sp_hand *hand);
void sp_hand_drop(sp_hand *hand); /* closes, and gives up the caller's hold */
bool sp_hand_is_open(const sp_hand *hand);
bool sp_hand_checks(const sp_hand *hand); /* check_races: only then is `where` of operations looked at */
const char *sp_hand_device(const sp_hand *hand);

/* ---- streams: in order each, independent of one another ---- */
/* priority: -1, 0, 1. `name` NULL: "stream 1" ... */
int sp_hstream_new(sp_hand *hand, const char *name, int priority, sp_hstream **stream, sp_err *err);
int sp_hstream_close(sp_hstream *stream, sp_err *err); /* waits for what was submitted; gives its failure */
void sp_hstream_drop(sp_hstream *stream);
const char *sp_hstream_name(const sp_hstream *stream);
int sp_hstream_record(sp_hstream *stream, sp_hevent *event, const char *where, sp_err *err);
/* Refuses an event that was never recorded: there would be no wait. */
int sp_hstream_wait(sp_hstream *stream, sp_hevent *event, const char *where, sp_err *err);
int sp_hstream_sync(sp_hstream *stream, sp_err *err);
/* Of one type: equal specs, or as many values that lie row by row. Where either side is pageable the host waits for the
 * copy, and *pageable is set. */
int sp_hstream_copy(sp_hstream *stream, sp_htensor *dst, sp_htensor *src, const char *where, bool *pageable,
                    sp_err *err);

/* ---- events ---- */
int sp_hevent_new(sp_hand *hand, bool timing, sp_hevent **event, sp_err *err);
int sp_hevent_close(sp_hevent *event, sp_err *err);
void sp_hevent_drop(sp_hevent *event);
int sp_hevent_sync(sp_hevent *event, sp_err *err);
int sp_hevent_query(sp_hevent *event, bool *complete, sp_err *err);
/* Milliseconds between two complete events with timing. */
int sp_hevent_elapsed(sp_hevent *from, sp_hevent *to, double *ms, sp_err *err);

/* ---- tensors ---- */
/* at: SP_AT_... `name` NULL: from `where`. What is too large to count is refused before anything is allocated. */
int sp_htensor_new(sp_hand *hand, const sp_spec *spec, int at, const char *name, const char *where, sp_htensor **tensor,
                   sp_err *err);
/* Rows first .. first + n - 1 of the outermost dimension: the same memory under another shape. */
int sp_htensor_rows(sp_htensor *tensor, int64_t first, int64_t n, sp_htensor **rows, sp_err *err);
/* Frees the memory, its views' too. Refuses while an operation uses it that the host does not know to be over. */
int sp_htensor_close(sp_htensor *tensor, const char *where, sp_err *err);
void sp_htensor_hold(sp_htensor *tensor); /* one more hold, to be dropped */
/* Gives up the caller's hold; the memory goes when no operation uses it any more. */
void sp_htensor_drop(sp_htensor *tensor);
const sp_spec *sp_htensor_spec(const sp_htensor *tensor);
const char *sp_htensor_name(const sp_htensor *tensor);
int sp_htensor_at(const sp_htensor *tensor);
bool sp_htensor_is_open(const sp_htensor *tensor);
/* Host memory of a tensor that is not the device's, to be read or written (SP_RACE_...) now, by `who` ("t:read()"). */
int sp_htensor_map(sp_htensor *tensor, int mode, const char *who, const char *where, void **data, sp_err *err);
/* The tensor that its gradient is put into, of the same shape, made when first asked for. */
int sp_htensor_grad(sp_htensor *tensor, const char *where, sp_htensor **grad, sp_err *err);

/* ---- stages ---- */
/* `params` a TABLE or NULL; `weights` likewise, as sp_load_params has it. Sources are refused;
 * so is what the device has no such stage for. */
int sp_hstage_new(sp_hand *hand, const char *stage, const char *name, const sp_value *params, bool frozen,
                  const sp_value *weights, sp_hstage **out, sp_err *err);
void sp_hstage_drop(sp_hstage *stage); /* lives with its hand */
sp_node *sp_hstage_node(sp_hstage *stage);

/* Tensors of the ports, in their order: of port i those of list[i]. */
typedef struct sp_hports {
  struct {
    sp_htensor **t;
    uint32_t n;
  } * port;
  uint32_t n;
} sp_hports;

typedef struct sp_hrun {
  uint64_t step;       /* what random numbers go by, with ids */
  const uint64_t *ids; /* [n_ids] NULL: step * N, step * N + 1 ... */
  size_t n_ids;
  bool evaluate;   /* statistics stay, and no backward follows */
  bool inputs;     /* backward: gradients of the inputs too */
  bool accumulate; /* backward: add to the weights' gradients */
  bool last;       /* backward: of the last run, though others came before it */
} sp_hrun;

/* Plans the stage for these inputs, if it was not yet: its outputs' specs and weights are known from here on. */
int sp_hstage_plan(sp_hstage *stage, const sp_hports *in, sp_err *err);
/* One call of forward. The first one plans the stage for the shapes of its inputs, makes its weights and prepares it,
 * for which the host waits until nothing is in flight; later ones have the same shapes, or fewer samples. Outputs that
 * are not given are the stage's own, the same in each call; OPTIONAL ones are left out. A loss puts the gradient of its
 * inputs beside them (sp_htensor_grad). */
int sp_hstage_run(sp_hstage *stage, sp_hstream *stream, const sp_hports *in, const sp_hports *out, const sp_hrun *how,
                  const char *where, sp_err *err);
/* Output k of port i of the last run; NULL: there is none. Not retained. */
sp_htensor *sp_hstage_out(sp_hstage *stage, uint32_t i, uint32_t k);
uint32_t sp_hstage_n_out(sp_hstage *stage, uint32_t i);
/* backward() of the last run, from the gradients beside its outputs to those of its weights. Refused where another run
 * that no backward has followed came before it, unless how->last: the stage keeps what the last one needs alone. */
int sp_hstage_backward(sp_hstage *stage, sp_hstream *stream, const sp_hrun *how, const char *where, sp_err *err);
/* An optimizer's update of the stages' weights by their gradients; the same stages in each call. */
int sp_hstage_update(sp_hstage *optimizer, sp_hstream *stream, sp_hstage *const *stages, size_t n, const char *where,
                     sp_err *err);
/* A weight's values, in row-major order: no operation may use it that the host does not know to be over. dst NULL: the
 * spec alone. */
int sp_hstage_weight(sp_hstage *stage, const char *name, sp_spec *spec, void *dst, size_t bytes, sp_err *err);

#endif
