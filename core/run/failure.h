/* SPDX-License-Identifier: MIT
 * failure.h - of the failures of a loop the one that is reported: the first in serialized order. Which one comes first
 * in time is left to chance. */
#ifndef SP_CORE_FAILURE_H
#define SP_CORE_FAILURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"

#define SP_NO_STEP UINT64_MAX

typedef struct sp_failure {
  pthread_mutex_t lock;
  _Atomic uint64_t step; /* SP_NO_STEP: none */
  int task;
  sp_err err;
} sp_failure;

void sp_failure_init(sp_failure *f);
void sp_failure_destroy(sp_failure *f);
int sp_failure_keep(sp_failure *f, uint64_t step, int task, const sp_err *err); /* returns its status [any thread] */
uint64_t sp_failure_step(const sp_failure *f);                                  /* [any thread] */
/* It comes before that task in serialized order. [any thread] */
bool sp_failure_before(sp_failure *f, uint64_t step, int task);
bool sp_failure_get(sp_failure *f, sp_err *err); /* false: there is none */
void sp_failure_clear(sp_failure *f);            /* nothing is in flight */

#endif
