/* SPDX-License-Identifier: MIT
 * failure.c - see failure.h. */
#include "run/failure.h"

void sp_failure_init(sp_failure *f) {
  pthread_mutex_init(&f->lock, NULL);
  atomic_store(&f->step, SP_NO_STEP);
}

void sp_failure_destroy(sp_failure *f) { pthread_mutex_destroy(&f->lock); }

int sp_failure_keep(sp_failure *f, uint64_t step, int task, const sp_err *err) {
  uint64_t at;
  pthread_mutex_lock(&f->lock);
  at = atomic_load(&f->step);
  if (step < at || (step == at && task < f->task)) {
    f->task = task;
    f->err = *err;
    atomic_store(&f->step, step);
  }
  pthread_mutex_unlock(&f->lock);
  return err->status;
}

uint64_t sp_failure_step(const sp_failure *f) { return atomic_load_explicit(&f->step, memory_order_acquire); }

bool sp_failure_before(sp_failure *f, uint64_t step, int task) {
  if (step < sp_failure_step(f)) return false;
  pthread_mutex_lock(&f->lock);
  uint64_t at = atomic_load(&f->step);
  bool before = at < step || (at == step && f->task < task);
  pthread_mutex_unlock(&f->lock);
  return before;
}

bool sp_failure_get(sp_failure *f, sp_err *err) {
  bool any = sp_failure_step(f) != SP_NO_STEP;
  if (!any) return false;
  pthread_mutex_lock(&f->lock);
  *err = f->err;
  pthread_mutex_unlock(&f->lock);
  return true;
}

void sp_failure_clear(sp_failure *f) { atomic_store(&f->step, SP_NO_STEP); }
