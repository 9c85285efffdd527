/* SPDX-License-Identifier: MIT
 * trace.h - keeps the timing of calls and writes it as Chrome trace JSON (chrome://tracing, Perfetto) and as a table. */
#ifndef SP_CORE_TRACE_H
#define SP_CORE_TRACE_H

#include "host/stage.h"

typedef struct sp_trace sp_trace;

/* Keeps at most max_spans calls; later ones are counted as dropped. `path` is opened at once, so that a mistake in it shows
 * before the run; NULL: no file, for a summary alone. [main] */
int sp_trace_new(sp_trace **trace, const char *path, size_t max_spans, sp_err *err);
void sp_trace_free(sp_trace *trace);

/* An sp_stage_host.observe; `trace` is an sp_trace. Names are copied; a new name or lane is all it ever allocates for.
 * [any thread] */
void sp_trace_observe(void *trace, const sp_span *span);

/* The track's name; `lane` as in sp_span. Without one it is "lane 1". Copied; out of memory leaves the number.
 * [any thread] */
void sp_trace_lane_name(sp_trace *trace, const void *lane, const char *name);

/* Writes the file. Once. [main, nothing is running] */
int sp_trace_write(sp_trace *trace, sp_err *err);

/* Per instance and phase: calls, median, total, share; per lane: how much of the time from first to last call it was busy.
 * Out of memory sets out->broken. [main, nothing is running] */
void sp_trace_summary(sp_trace *trace, sp_sb *out);

#endif
