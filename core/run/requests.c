/* SPDX-License-Identifier: MIT
 * requests.c - when a step of requests begins, and of which; and how the host waits while it has requests to answer. */
#include "run/requests.h"

#include <math.h>
#include <unistd.h>

#include "base/spin.h"

#define LOOK 0.05 /* seconds between two looks at whether somebody wants it to stop */
#define NAP 50e-6 /* least and most between two looks at steps in flight; a nap takes about twice the least */
#define NAP_MOST 2e-3
#define SPIN 100e-6  /* a wake-up costs more than what is left to wait for, most of the time */
#define PROCESSORS 8 /* with fewer the busy wait would take one from the stages */

/* ---- what steps are made of -------------------------------------------------------------------------------------- */

static bool is_source(const sp_program *p, const sp_task *t) { return t->node && t->node == p->source; }

/* Lanes of the device that work at a step, all turns together; the source, where it has a lane of its own, prepares. */
static unsigned count_lanes(const sp_machine *m, unsigned *turns) {
  unsigned n = 0;
  *turns = 1;
  for (size_t l = 0; l < m->p->n_lanes; l++) {
    bool works = false;
    if (m->p->lanes[l].host || m->p->lanes[l].place != &m->g->main) continue;
    for (size_t i = 0; i < m->p->n_tasks; i++)
      works = works || (m->p->tasks[i].lane == (int)l && !is_source(m->p, &m->p->tasks[i]));
    n += works;
    if (works && m->p->lanes[l].props.replicas > (int)*turns) *turns = (unsigned)m->p->lanes[l].props.replicas;
  }
  return n;
}

static bool spins(void) {
  static long processors;
  if (!processors) processors = sysconf(_SC_NPROCESSORS_ONLN);
  return processors >= PROCESSORS;
}

int sp_requests_init(sp_machine *m, sp_err *err) {
  unsigned turns, lanes = count_lanes(m, &turns);
  sp_gate_step *room = sp_graph_zalloc(m->g, (size_t)m->p->ring, sizeof *room, "step records", err);
  if (!room) return err->status;
  sp_gate_init(&m->gate, turns, lanes < turns ? 1 : (lanes + turns - 1) / turns, room, (size_t)m->p->ring);
  m->gate.grain = spins() ? 0 : 2 * NAP;
  for (size_t i = 0; i < m->p->n_tasks; i++)
    if (m->p->tasks[i].kind != SP_TASK_COLLECT && m->p->sched.delay[i] > m->behind) m->behind = m->p->sched.delay[i];
  return SP_OK;
}

void sp_requests_reset(sp_loop *l) {
  l->open = 0;
  l->told = false;
  sp_gate_clear(&l->m->gate, sp_now());
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static const sp_known *known(const sp_loop *l, uint64_t step) { return &l->m->known[step % (uint64_t)l->m->p->ring]; }

/* All of it was submitted, and all of that is over. */
static bool submitted(const sp_loop *l, uint64_t step) { return step + (uint64_t)l->m->behind < l->tick; }
static bool over(const sp_loop *l, uint64_t step) {
  return submitted(l, step) && sp_submit_ready(l, sp_loop_collector(l, step), step);
}

static void look(const sp_loop *l) {
  sp_gate *g = &l->m->gate;
  double now = sp_now();
  for (uint64_t s = l->delivered; s < l->tick; s++) {
    if (!known(l, s)->real) continue;
    if (sp_gate_prepares(g, s) && sp_submit_prepared(l, s)) sp_gate_prepared(g, s, now);
    if (over(l, s)) sp_gate_over(g, s, now);
  }
  sp_gate_looked(g, now);
}

/* Until the next look; with `begins` a step may begin now, else in `opens` seconds. */
static void rest(const sp_loop *l, bool begins, double opens) {
  if (!l->open) {
    sp_queue_wait(l->m->queue, LOOK, true);
    return;
  }
  double nap = sp_gate_look(&l->m->gate, sp_now());
  if (!begins) nap = fmin(nap, opens);
  if (nap < SPIN && spins()) {
    for (int i = 0; i < 16; i++) SP_RELAX();
  } else sp_queue_wait(l->m->queue, fmin(fmax(nap, NAP), NAP_MOST), begins);
}

static bool expire(sp_loop *l) {
  bool any = sp_queue_expire(l->m->queue);
  l->told = l->told || any;
  return any;
}

void sp_requests_await(sp_loop *l, const sp_place *place, void *event) {
  sp_ctx_holder h;
  sp_err ignored;
  sp_spin_state spin = {0}; /* a source that only copies is over before all steps were looked at */
  int complete = 0;
  while (!place->type->event_query(sp_ctx_for(&h, "requests", &ignored), event, &complete) && !complete) {
    if (spins() && sp_spin(&spin, SPIN)) continue;
    look(l);
    if (!expire(l)) rest(l, false, INFINITY);
  }
}

/* ---- beginning --------------------------------------------------------------------------------------------------- */

/* This tick would not have the host wait for a step in flight. */
static bool may_tick(const sp_loop *l) {
  const sp_machine *m = l->m;
  for (size_t i = 0; i < m->p->n_tasks; i++) {
    uint64_t step;
    if (m->p->tasks[i].kind != SP_TASK_COLLECT || !sp_loop_runs(l, (int)i, &step)) continue;
    if (!sp_submit_ready(l, (int)i, step)) return false;
  }
  return true;
}

/* Lanes behind still lack something of a step in flight; or the lanes whose turn it is have work, and others none. But
 * empty steps take places of steps in flight, too: without room for a whole round the others' turn would come no
 * sooner. */
static bool wants_tick(const sp_loop *l, uint64_t step) {
  if (l->open && !submitted(l, l->last_real)) return true;
  if (l->tick + l->m->gate.turns - l->delivered > (uint64_t)l->m->p->collect_delay) return false;
  return sp_gate_skips(&l->m->gate, step) && sp_queue_due(l->m->queue);
}

static sp_requests_next begin(sp_loop *l, uint64_t step, uint32_t n) {
  sp_known *k = &l->m->known[step % (uint64_t)l->m->p->ring];
  *k = (sp_known){.real = n};
  if (n) {
    k->n = (uint32_t)l->m->batch;
    k->full = true;
    l->open++;
    l->last_real = step;
    sp_gate_taken(&l->m->gate, step, sp_now());
  } else if (!l->open) sp_loop_cut(l, step);
  return SP_REQUESTS_BEGUN;
}

static sp_requests_next tell(sp_loop *l) {
  l->told = false;
  return SP_REQUESTS_TOLD;
}

/* The last request never waits for a later one: where none may be taken, steps in flight go on with empty ones behind
 * them. And the host never waits for one of them where it could look whether a request has come. */
sp_requests_next sp_requests_begin(sp_loop *l, uint64_t step) {
  sp_machine *m = l->m;
  uint64_t *ids = m->ids + step % (uint64_t)m->p->ring * m->batch;
  while (sp_failure_step(&m->failure) == SP_NO_STEP) {
    if (l->stopped && l->stopped()) break;
    look(l);
    expire(l);
    if (l->told) return tell(l);
    bool free = may_tick(l);
    double opens = free ? sp_gate_opens(&m->gate, step, sp_queue_full(m->queue), sp_now()) : INFINITY;
    uint32_t told = 0, n = opens <= 0 ? sp_queue_take(m->queue, ids, &told) : 0;
    l->told = l->told || told;
    if (n) return begin(l, step, n);
    if (told) continue;
    if (l->delivered < l->tick && over(l, l->delivered)) return SP_REQUESTS_OVER;
    bool last = sp_queue_over(m->queue);
    if (last && !l->open) break;
    if (free && wants_tick(l, step)) break;
    rest(l, opens <= 0 && !last, opens);
  }
  return begin(l, step, 0);
}
