/* SPDX-License-Identifier: MIT
 * stage.h - the only door into a stage's code: context, thread checks, error prefix, timing. */
#ifndef SP_CORE_STAGE_H
#define SP_CORE_STAGE_H

#include <pthread.h>

#include <spcore/ext/precision.h>

#include "base/ctx.h"
#include "host/io.h"
#include "host/param.h"
#include "host/parallel.h"
#include "host/registry.h"
#include "source/queue.h"

/* Timing of one call, given to the observer when it is over, and before it that of each thread that filled its samples,
 * where it is a source's. [the thread that ran the call] */
typedef struct sp_span {
  const char *instance, *what; /* "decoder", "backward"; lent */
  uint64_t step;
  double begin, end; /* sp_now() */
  void *caller;      /* as passed to the call */
  int worker;        /* -1: the call itself */
} sp_span;

/* What all instances share. Lives longer than they. */
typedef struct sp_stage_host {
  sp_team *team;                                   /* worker threads behind spcore.parallel/1; NULL: none */
  int threads;                                     /* --threads */
  void (*observe)(void *arg, const sp_span *span); /* NULL: no timing is taken */
  void *observe_arg;
  const void *(*extension)(void *arg, const char *id); /* further extensions, by the device; may be NULL */
  void *extension_arg;
  sp_queue *queue; /* behind spcore.feed/1; NULL: there is none */
} sp_stage_host;

typedef struct sp_inst {
  char *name;  /* as the script knows it: "decoder", "encoder_2" */
  char *label; /* "stage 'decoder'" */
  const sp_stage_type *type;
  const sp_plugin_file *file;
  const sp_stage_host *host;
  const sp_precision *precision; /* NULL: the host's extension */
  sp_params params;
  void *self;
  uint32_t n_parts; /* calls of a backward(), as plan() said */
  pthread_t owner;  /* the thread that made it: the only one for what is bracketed [main & !running] */
  int busy;         /* atomic: calls in flight, -1 for one that admits no other; asserts rule 5 */
} sp_inst;

/* The door also checks what comes out of a stage: a status that is none, a failure without words, words without a
 * failure. A call that overlaps another one where that is not allowed gives SP_E_STATE and does not reach the stage. */

/* Fills the parameters and creates. precision: what spcore.precision/1 gives, which lives as long; NULL: what the
 * host's extensions have. The message begins with "stage 'NAME' (FILE.so): ". */
int sp_inst_new(sp_inst **inst, const sp_stage_host *host, const char *name, const sp_stage_type *type,
                const sp_plugin_file *file, const sp_value *params, const sp_precision *precision, sp_err *err);
void sp_inst_free(sp_inst *inst);

uint32_t sp_ports_count(const sp_port *ports); /* NULL: none */

/* The words for a STATUS port that holds `status`. */
void sp_status_text(const sp_stage_type *type, const int64_t status[4], sp_sb *out);

/* The caller sets training, batch, frozen, n_in, n_out, in, and cap and spec of out. Inputs are checked against the
 * ports before the call; output specs, weights and sizes after it. */
int sp_inst_plan(sp_inst *inst, sp_plan *plan, sp_err *err);
/* The i-th text of an attribute that is a list, as the stage's own function gives it. */
int sp_inst_item(sp_inst *inst, const sp_attr *attr, uint64_t i, char *to, size_t size, sp_err *err);
int sp_inst_prepare(sp_inst *inst, const sp_io *io, void *native, sp_err *err);
/* The message begins with "stage 'NAME' (FILE.so) step N: ". `caller` goes into the span. */
int sp_inst_forward(sp_inst *inst, const sp_io *io, uint64_t step, void *native, void *caller, sp_err *err);
int sp_inst_backward(sp_inst *inst, const sp_io *io, uint64_t step, void *native, void *caller, sp_err *err);
/* Of a type that has it. */
int sp_inst_apply(sp_inst *inst, const sp_io *io, uint64_t step, void *native, void *caller, sp_err *err);
int sp_inst_survey(sp_inst *inst, const sp_io *io, uint64_t step, void *native, void *caller, sp_err *err);

/* Any of them but prepare(). */
int sp_inst_call(sp_inst *inst, sp_call_kind kind, const sp_io *io, uint64_t step, void *native, void *caller,
                 sp_err *err);

/* The context of a call into the stage, which has its log prefix and its extensions; as sp_ctx_for. */
sp_ctx *sp_inst_ctx(sp_ctx_holder *holder, const sp_inst *inst, void *native, sp_err *err);

#endif
