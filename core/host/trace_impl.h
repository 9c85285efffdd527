/* SPDX-License-Identifier: MIT
 * trace_impl.h - what trace.c keeps and trace_file.c writes. */
#ifndef SP_CORE_TRACE_IMPL_H
#define SP_CORE_TRACE_IMPL_H

#include <stdatomic.h>

#include "host/trace.h"

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
  bool warm, written;
};

size_t sp_trace_kept(const sp_trace *t);
size_t sp_trace_dropped(const sp_trace *t);

/* trace_file.c: whether the file could be made; it is not. */
int sp_trace_try_file(const char *path, sp_err *err);

#endif
