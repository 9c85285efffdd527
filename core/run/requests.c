/* SPDX-License-Identifier: MIT
 * requests.c - when a step of requests begins, and of which. */
#include "run/loop.h"

#include <unistd.h>

#include "base/spin.h"

#define LOOK 0.05    /* seconds between two looks at whether somebody wants it to stop */
#define NAP 50e-6    /* between two looks at a step in flight */
#define SPIN 1e-3    /* a wake-up costs more than what is left to wait for, most of the time */
#define PROCESSORS 8 /* with fewer the busy wait would take one from the stages */

/* This tick would not have the host wait for a step in flight. */
static bool may_tick(const sp_loop *l) {
  const sp_machine *m = l->m;
  for (size_t i = 0; i < m->p->n_tasks; i++) {
    uint64_t step;
    if (m->p->tasks[i].kind != SP_TASK_COLLECT || !sp_loop_runs(l, (int)i, &step)) continue;
    if (m->known[step % (uint64_t)m->p->ring].real && !sp_submit_ready(l, (int)i, step)) return false;
  }
  return true;
}

static void rest(const sp_loop *l, sp_spin_state *spin) {
  static long processors;
  if (!processors) processors = sysconf(_SC_NPROCESSORS_ONLN);
  if (!l->open) sp_queue_wait(l->m->queue, LOOK);
  else if (processors < PROCESSORS || !sp_spin(spin, SPIN)) sp_queue_wait(l->m->queue, NAP);
}

/* The last request never waits for a later one: while none is due, steps in flight go on with empty ones behind them.
 * But before the host waits for one of them it looks whether a request has come, as long as one may. */
void sp_requests_take(sp_loop *l, uint64_t step) {
  sp_machine *m = l->m;
  sp_known *k = &m->known[step % (uint64_t)m->p->ring];
  uint64_t *ids = m->ids + step % (uint64_t)m->p->ring * m->batch;
  sp_spin_state spin = {0};
  *k = (sp_known){0};
  while (sp_failure_step(&m->failure) == SP_NO_STEP) {
    if (l->stopped && l->stopped()) break;
    k->real = sp_queue_take(m->queue, ids);
    if (k->real) break;
    if (sp_queue_over(m->queue) || (l->open && may_tick(l))) break;
    rest(l, &spin);
  }
  if (k->real) k->n = (uint32_t)m->batch, k->full = true, l->open++;
  else if (!l->open) sp_loop_cut(l, step);
}
