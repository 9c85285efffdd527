/* SPDX-License-Identifier: MIT
 * trace.h - keeps what ran when and writes it as Chrome trace JSON (chrome://tracing, Perfetto) and as a table.
 *
 * A program is told once: its tasks, with the lanes and tracks that they belong to, the waits between them and who uses
 * which edge. While it runs a trace keeps slices alone. What follows from the two, arrows and counters, is found when
 * the file is written, so that it costs a run nothing. */
#ifndef SP_CORE_TRACE_H
#define SP_CORE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

typedef struct sp_trace sp_trace;

typedef struct sp_trace_task {
  char *stage, *what; /* "decoder", "backward" */
  char *lane, *track; /* a copy's track is that of its direction, others' that of their lane */
  uint64_t bytes;     /* that it writes in a step */
  int slots;          /* that it writes them into by turns */
  int every, phase;
  int delay; /* steps that it is behind those of the graphs which it is recorded in */
  bool host; /* it runs on the thread that submits */
} sp_trace_task;

/* Before `task` of step s, the latest run of `from` at step s - back or before it is over. */
typedef struct sp_trace_wait {
  int task, from, back;
} sp_trace_wait;

typedef struct sp_trace_use {
  int edge, task;
} sp_trace_use;

typedef struct sp_trace_program {
  char *strategy, *device, *capture;
  char *single; /* why there are no times of single calls in recorded graphs; NULL: there are */
  sp_trace_task *tasks;
  size_t n_tasks;
  sp_trace_wait *waits; /* between lanes */
  size_t n_waits, cap_waits;
  char **edges;
  size_t n_edges, cap_edges;
  sp_trace_use *uses;
  size_t n_uses, cap_uses;
} sp_trace_program;

typedef enum sp_slice_kind {
  SP_SLICE_TASK,
  SP_SLICE_WORKER,  /* a thread that helps with `task`; `worker` says which */
  SP_SLICE_SEGMENT, /* calls of a lane that are launched as one; `task` is the first */
  SP_SLICE_WAIT,    /* the host waits for `task` */
  SP_SLICE_LOOP,    /* the host submits and collects */
  SP_SLICE_SCRIPT,  /* the host does what the script says between two steps */
  SP_SLICE_KERNEL   /* a part of `task` that the device tells of; `worker` is its name's number */
} sp_slice_kind;

typedef struct sp_slice {
  double begin, end; /* sp_now() */
  uint64_t step;
  uint32_t loop; /* as sp_trace_window has it */
  int32_t task;
  uint16_t program, worker;
  uint32_t kind;
} sp_slice;

/* Which steps of a loop are kept: those from `first` on, n of them. All 0 where there is no trace. */
typedef struct sp_trace_window {
  uint64_t first, n;
  uint32_t loop;
  uint16_t program;
} sp_trace_window;

static inline bool sp_trace_wants(const sp_trace_window *w, uint64_t step) { return step - w->first < w->n; }

/* Of the loops' steps `steps` are kept, 0: all of them, and of all that at most `max` slices; what is more is counted.
 * Whether `path` can be written is tried at once, so that a mistake in it shows before the run; NULL: no file, for a
 * summary alone. The file appears when it is whole. [main] */
int sp_trace_new(sp_trace **trace, const char *path, uint64_t steps, size_t max, sp_err *err);
void sp_trace_free(sp_trace *trace);

/* Takes over all that p points to, on failure too. [main] */
int sp_trace_add(sp_trace *trace, sp_trace_program *p, uint16_t *id, sp_err *err);
void sp_trace_program_free(sp_trace_program *p);

/* A loop of n steps (0: without end) begins at `first`. Of the first loop that is no evaluation the `warm` steps that
 * it begins with are left out, where it has more than are kept. [main, nothing is running] */
void sp_trace_begin(sp_trace *trace, uint16_t program, bool evaluation, uint64_t first, uint64_t n, uint64_t warm,
                    sp_trace_window *window);

/* All that the window wants. [any thread] */
void sp_trace_put(sp_trace *trace, const sp_slice *slice);

/* trace_calls.c: calls in recorded graphs, of which a device tells afterwards. A launch has a number, and spans of it
 * come when it is over. sp_trace_recorded makes room for that, once. sp_trace_launch gives the number, for calls whose
 * steps the window wants; 0: there is no room. sp_trace_launched: when it ran by the clock of the other slices, which
 * its calls are put between. They become slices when the trace is looked at: the calls first, then what they are made
 * of. */
int sp_trace_recorded(sp_trace *trace, sp_err *err); /* [main] as those below */
uint64_t sp_trace_launch(sp_trace *trace, const sp_trace_window *window, uint64_t step);
void sp_trace_launched(sp_trace *trace, uint64_t launch, double begin, double end);
int sp_trace_span(sp_trace *trace, uint64_t launch, int task, const char *what, double begin, double end);

/* trace_sample.c: counters beside the slices. From sp_trace_count on read() is called ten times a second on a thread of
 * the trace's, until sp_trace_counted, which comes before `arg` goes, or the file is written; a second time does
 * nothing. The names are not copied. sp_trace_uncounted: why there are none, for the file. [main] */
int sp_trace_count(sp_trace *trace, const char *const *names, size_t n, void (*read)(void *arg, double *values),
                   void *arg, sp_err *err);
void sp_trace_counted(sp_trace *trace);
int sp_trace_uncounted(sp_trace *trace, const char *why, sp_err *err);

uint64_t sp_trace_steps(const sp_trace *trace); /* that are kept; 0: all, whatever comes */

/* With this step the last that is wanted is over. */
bool sp_trace_is_last(const sp_trace *trace, const sp_trace_window *window, uint64_t step);
/* All steps up to this one are over: where none is wanted any more a thread begins to write the file. [main] */
int sp_trace_over(sp_trace *trace, const sp_trace_window *window, uint64_t step, sp_err *err);

/* Writes the file, if it is not there yet, or waits until it is. [main, nothing is running] */
int sp_trace_write(sp_trace *trace, sp_err *err);
bool sp_trace_begun(const sp_trace *trace); /* a loop of steps, or an evaluation, was traced */

/* Per stage and call: calls, median, total, share; per lane: how much of the time from first to last call it was busy;
 * which steps. Out of memory sets out->broken. [main, nothing is running] */
void sp_trace_summary(sp_trace *trace, sp_sb *out);

#endif
