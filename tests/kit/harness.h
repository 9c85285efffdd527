/* SPDX-License-Identifier: MIT
 * harness.h - runs one stage outside a graph: guarded buffers, poison, gradient checks. For C tests and, as libsptest,
 * for tests/parity.
 *
 * Order of calls: spt_new, spt_input for each tensor, spt_plan, then spt_set / spt_forward / spt_backward / spt_get.
 * Functions that return int give SP_OK or a negative status; spt_error() has the words. Plugins are found in the
 * folders of $SPCORE_PLUGIN_PATH (":" between). Values go in and out in logical row-major order, whatever the order in
 * memory.
 *
 * Every call is checked: nothing written outside its buffers, inputs and trained weights left alone, scratch and
 * outputs full of NaN before. A stage that breaks that gets SP_E_INTERNAL.
 */
#ifndef SP_TESTS_HARNESS_H
#define SP_TESTS_HARNESS_H

#include <spcore/format.h>
#include <spcore/plugin.h>

#include "base/value.h"

typedef struct spt spt;

/* Opens the device; not SP_OK: why it is not there. It stays open until spt_device_close() or another is asked for. */
int spt_device_ready(const char *device, char *why, size_t n);
int spt_device_flags(const char *device); /* SP_DEVICE_..., 0 for "cpu" */
void spt_device_close(void);

/* What a tensor is. Port and item say which; of weights, and of the rows of factors of all shards, the item is the
 * index and port is 0. */
enum { SPT_IN = 0, SPT_OUT = 1, SPT_DIN = 2, SPT_DOUT = 3, SPT_WEIGHT = 4, SPT_DWEIGHT = 5, SPT_ROWS = 6 };

/* Loads the plugin, fills the parameters from `params` (a Lua table as text: "{ classes = 10, size = {4, 4} }"; NULL:
 * none), makes the instance. threads: the team's size. Never NULL but when out of memory; look at spt_failed(). */
spt *spt_new(const char *stage, const char *params, int threads);
/* The same with a table that is there already. */
spt *spt_new_value(const char *stage, const sp_value *params, int threads);
/* The same on a device: "cpu" is plain host memory and calls; "cuda", "cuda:1" takes that device's stages and memory;
 * "copy" runs the stages of the cpu through the memory and the stream of the cpu device, as other devices' stages run.
 * One device other than "cpu" at a time. */
spt *spt_new_on(const char *device, const char *stage, const char *params, int threads);
void spt_free(spt *t);
int spt_failed(const spt *t);             /* status of the latest failure, SP_OK if there was none */
const char *spt_error(const spt *t);      /* its words, "" if there was none */
void spt_note(spt *t, const sp_err *err); /* keeps a failure of a check */
const sp_stage_type *spt_type(const spt *t);

/* Appends a tensor to an input port; data is row-major, or NULL for zeros. Before spt_plan. */
int spt_input(spt *t, int port, const sp_spec *spec, const void *data);
/* The same with plain arguments: order 0 is row-major. */
int spt_input_of(spt *t, int port, int dtype, int ndim, const int64_t *shape, int order, const void *data);

/* Before spt_plan; the defaults: batch = shape[0] of the first input, seed 1, frozen 0, no gradient accumulation. */
void spt_set_batch(spt *t, int64_t n);
void spt_set_seed(spt *t, uint64_t seed);
void spt_set_frozen(spt *t, int frozen);
void spt_set_precision(spt *t, int precision); /* SP_PRECISION_..., FP32 unless set; before spt_plan */
/* spt_backward() may be in up to so many calls, not captured; `bytes`: sp_plan.part_bytes. */
void spt_set_parts(spt *t, int max_parts, uint64_t bytes);
/* A step has so many passes; before spt_plan. spt_set_shard() says which the next calls are. */
void spt_set_shards(spt *t, int shards);
void spt_set_shard(spt *t, int shard);
/* Weight i of an optimizer is in group i mod n; 0: there are none. Before spt_plan; they are not copied. */
void spt_set_groups(spt *t, int n, const sp_group *groups);
void spt_set_torch(spt *t, int on); /* initialise the weights as PyTorch does after torch.manual_seed(seed) */

/* Checks the inputs against the ports, plans, allocates, initialises the weights (as core/params/params.h), prepares.
 * May be called again. */
int spt_plan(spt *t, int training);

/* At any time after spt_plan. */
int spt_run_batch(spt *t, int64_t n);      /* run with fewer samples than planned from now on; 0: with factors */
void spt_set_live(spt *t, int i, float v); /* a LIVE parameter, by its index among them */
void spt_set_id(spt *t, int64_t sample, uint64_t id); /* default SP_ID(0, sample) */
void spt_set_epoch(spt *t, uint64_t epoch);
void spt_set_loss_scale(spt *t, float scale);
void spt_set_dw_scale(spt *t, float scale);        /* backward() updates the weights in place; 0: off */
void spt_set_acc(spt *t, int din_acc, int dw_acc); /* add to what is there */
/* SPT_OUT (of an OPTIONAL port), SPT_DIN, SPT_DOUT, SPT_DWEIGHT: data NULL if not */
void spt_want(spt *t, int what, int port, int item, int wanted);

/* From now on calls of t go to the instance of `of`, with t's own buffers: two calls of one instance, which may overlap
 * where its type is SP_STAGE_REENTRANT, each on a thread of its own. Both are planned and prepared alike; `of` lives
 * longer. */
void spt_share(spt *t, spt *of);

/* How calls run on a device with SP_DEVICE_CAPTURE. CAPTURE: each is captured, and its graph launched. REPLAY: the
 * graph of the latest captured forward() or backward() is launched again, with the values that are in the buffers now;
 * batch and what is wanted must be as they were then. */
enum { SPT_EAGER = 0, SPT_CAPTURE = 1, SPT_REPLAY = 2 };
void spt_set_capture(spt *t, int how);

/* Runs. The STATUS port, if there is one, is turned into a failure with the stage's words. */
int spt_forward(spt *t, uint64_t step);
/* The latest forward() so many times more without checks, poison and hashes: for measurements. */
int spt_again(spt *t, int calls);
int spt_backward(spt *t);
/* Makes the gradients that all passes left to it, times `scale`: in place, or where dweights are wanted. */
int spt_apply(spt *t, float scale, int in_place);

/* Tensors. */
int spt_ports(const spt *t, int what);                               /* how many ports */
int spt_count(const spt *t, int what, int port);                     /* how many tensors on it */
const sp_spec *spt_spec(const spt *t, int what, int port, int item); /* NULL: no such tensor */
void *spt_raw(spt *t, int what, int port, int item);                 /* in its memory order, on the host: each call
                                                                        takes it from there to a device and back */
int spt_set(spt *t, int what, int port, int item, const void *row_major);
int spt_get(spt *t, int what, int port, int item, void *row_major);
const char *spt_weight_name(const spt *t, int i);     /* NULL: no such weight */
int spt_weight_index(const spt *t, const char *name); /* -1: no such weight */
const sp_weight *spt_weight(const spt *t, int i);
int spt_port_index(const spt *t, int what, const char *name); /* SPT_IN or SPT_OUT; -1: no such port */
const char *spt_port_name(const spt *t, int what, int port);
int spt_attr(const spt *t, const char *name, double *value); /* 0: no such attribute */
int64_t spt_length(const spt *t);                            /* what plan() said of a source */
int spt_inplace(const spt *t);                               /* and of an optimizer */
int spt_restores(const spt *t);
int spt_averages(const spt *t);
int spt_parts(const spt *t);                               /* calls of a backward */
const char *spt_attr_text(const spt *t, const char *name); /* NULL: no such attribute, or a number */
double spt_seconds(const spt *t);          /* the latest forward or backward took, without checks and copies */
size_t spt_bytes(const spt *t, int saved); /* of scratch (0) or saved (1) */

/* Compares backward() with central differences of forward(), through a random projection of the outputs (of a loss:
 * output 0), for up to max_elems elements of each input and weight that has a gradient. An element passes when
 * |numeric - analytic| <= atol + rtol * (largest |analytic| of its tensor). Elements at a kink (the left and right
 * differences disagree by more than that) are left out; more than half of a tensor left out fails. Then checks that
 * accumulation adds and, where the stage says SP_STAGE_INPLACE_SGD, that dw_scale does the update. Training must be
 * planned. */
int spt_gradcheck(spt *t, double eps, double rtol, double atol, int max_elems);

/* Fills with uniform floats in lo..hi, a pure function of seed. */
void spt_random(float *dst, int64_t n, uint64_t seed, float lo, float hi);

/* Parses "{ ... }" (numbers, strings, booleans, nested tables, [n]-less keys) into *v. */
int spt_table(sp_value *v, const char *text, sp_err *err);

/* A weight-file format from the same plugin folders, by the extension of `path`. */
int spt_format(const char *path, const sp_format_type **type, sp_err *err);

/* The same for Python: opened by spt_file_list, closed by spt_file_close. dst NULL: only the entry. */
int spt_file_list(const char *path, void **file, size_t *n);
int spt_file_read(void *file, size_t i, sp_entry *entry, void *dst, size_t bytes);
void spt_file_close(void *file);
int spt_file_write(const char *path, const sp_entry *entries, size_t n);
const char *spt_file_error(void);
/* sp_init_weights of a stage "stage" whose weights are uniform with these fan-ins; values come out row-major. */
int spt_init(const sp_entry *weights, const double *fan_in, size_t n, uint64_t seed, int torch);

#endif
