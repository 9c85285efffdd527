/* SPDX-License-Identifier: MIT
 * parallel.h - the worker threads behind the extension spcore.parallel/1. */
#ifndef SP_CORE_PARALLEL_H
#define SP_CORE_PARALLEL_H

#include "base/err.h"

/* Threads are started on first need, up to the largest team asked for, and shared by all lanes: several run() calls may
 * be under way at once, each with its own items; a caller always works on its own items, so it never waits for a free
 * helper. */
typedef struct sp_team sp_team;

int sp_team_new(sp_team **team, int max_helpers, sp_err *err);
void sp_team_free(sp_team *team);
/* As sp_parallel.run; threads >= 1. */
int sp_team_run(sp_team *team, int threads, int64_t n, int (*fn)(void *arg, int64_t i, int worker), void *arg);

#endif
