/* SPDX-License-Identifier: MIT
 * trace_impl.h - what trace.c keeps and trace_file.c writes. */
#ifndef SP_CORE_TRACE_IMPL_H
#define SP_CORE_TRACE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include <spcore/ext/counters.h>

#include "host/trace.h"

/* Something of a launch that ran. */
typedef struct sp_trace_part {
  double begin, end;
  uint32_t launch; /* its index */
  int32_t task;
  uint16_t name;
} sp_trace_part;

typedef struct sp_trace_run {
  sp_trace_window window;
  uint64_t step;
  double begin, end; /* both 0: not known */
} sp_trace_run;

typedef struct sp_trace_sample {
  double time, values[SP_COUNTERS_MAX];
} sp_trace_sample;

struct sp_trace_sampler;

struct sp_trace {
  char *path;
  sp_slice *slices; /* [max] */
  size_t max;
  atomic_size_t n; /* that were put, also where there was no room */
  sp_trace_program *programs;
  size_t n_programs, cap_programs;
  uint64_t wanted, left; /* steps, UINT64_MAX: all */
  uint64_t first, last;  /* that are kept */
  size_t n_windows;
  uint32_t loops;
  bool warm, written; /* written: or about to be */
  bool writing;       /* by this thread */
  pthread_t writer;
  sp_err failure;     /* of writing */
  sp_trace_run *runs; /* [max] launches; NULL: no device tells of them */
  size_t n_runs;
  sp_trace_part *parts;
  size_t n_parts, cap_parts;
  char **names; /* of parts */
  size_t n_names, cap_names;
  struct sp_trace_sampler *sampler; /* at work, or NULL */
  const char *const *counters;
  size_t n_counters, n_samples;
  sp_trace_sample *samples;
  char *no_counters; /* why there are none; NULL: nobody has asked for them */
  double shift;      /* from the device's clock of spans to that of slices, as last seen */
};

/* trace_calls.c */
int sp_trace_calls(sp_trace *t, sp_err *err);

size_t sp_trace_kept(const sp_trace *t);
size_t sp_trace_dropped(const sp_trace *t);

/* trace_file.c: whether the file could be made; it is not. And writes it. */
int sp_trace_try_file(const char *path, sp_err *err);
int sp_trace_put_file(sp_trace *t, sp_err *err);

#endif
