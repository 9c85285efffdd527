/* SPDX-License-Identifier: MIT
 * check_gate.c - when a step of requests may begin: histories of a machine that is played by a clock of the test. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "run/gate.h"
#include "tests/kit/suite.h"

enum { ROOM = 32, TURNS = 4 };

/* ---- a machine ---------------------------------------------------------------------------------------------------
 * Requests come each `every` seconds. A step needs `lead` seconds of its own, then its turn's lanes, which have it for
 * `takes`, and the next one after `pace`. The host looks each `look` seconds. */
typedef struct played {
  uint64_t step;
  double prepared, over;
} played;

typedef struct machine {
  sp_gate gate;
  sp_gate_step room[ROOM];
  double now, look, every, lead, takes, pace;
  double free[TURNS]; /* when lanes of a turn can begin with the next step */
  played flight[ROOM];
  int n, batch;
  uint64_t step;
  double came; /* requests, also in parts */
  int waiting, steps, taken, most, early;
  double idle; /* seconds that lanes had nothing to do while requests waited */
} machine;

static void set_up(machine *m, unsigned turns, unsigned lanes, double takes, double lead, double every) {
  *m = (machine){.look = 0.01, .every = every, .lead = lead, .takes = takes, .pace = takes / lanes, .batch = 8};
  sp_gate_init(&m->gate, turns, lanes, m->room, ROOM);
  m->gate.grain = m->look;
  sp_gate_clear(&m->gate, 0);
}

static void count_anew(machine *m) {
  m->steps = m->taken = m->most = m->early = 0;
  m->idle = 0;
}

static void look(machine *m) {
  for (int i = 0; i < m->n; i++) {
    if (m->flight[i].prepared <= m->now) sp_gate_prepared(&m->gate, m->flight[i].step, m->now);
    if (m->flight[i].over > m->now) continue;
    sp_gate_over(&m->gate, m->flight[i].step, m->now);
    m->n--;
    memmove(&m->flight[i], &m->flight[i + 1], (size_t)(m->n - i) * sizeof *m->flight);
    i--;
  }
  sp_gate_looked(&m->gate, m->now);
}

static void take(machine *m) {
  int n = m->waiting < m->batch ? m->waiting : m->batch;
  double *lanes = &m->free[m->step % m->gate.turns], prepared = m->now + m->lead;
  bool first = *lanes == 0;
  if (n<m->batch && * lanes> prepared + 0.5 * m->lead + 2 * m->look + 0.03 * m->takes) m->early++;
  if (!first && prepared > *lanes) m->idle += prepared - *lanes;
  double begins = fmax(prepared, *lanes);
  *lanes = begins + m->pace;
  m->flight[m->n++] = (played){m->step, prepared, begins + m->takes};
  sp_gate_taken(&m->gate, m->step++, m->now);
  m->waiting -= n;
  m->taken += n;
  m->steps++;
  if (m->n > m->most) m->most = m->n;
}

/* Requests come for `seconds`, or are all there. */
static void play(machine *m, double seconds) {
  for (double end = m->now + seconds; m->now < end; m->now += m->look) {
    m->came += m->look / m->every;
    m->waiting += (int)m->came;
    m->came -= (int)m->came;
    look(m);
    while (m->waiting && m->n < ROOM) {
      if (sp_gate_skips(&m->gate, m->step)) m->step++;
      else if (sp_gate_opens(&m->gate, m->step, m->waiting >= m->batch, m->now) <= 0) take(m);
      else break;
    }
  }
}

static double fill(const machine *m) { return (double)m->taken / m->steps / m->batch; }

#define WITHIN(value, least, most)                                                                      \
  do {                                                                                                  \
    double v_ = (value);                                                                                \
    ck_assert_msg(v_ >= (least) && v_ <= (most), "%s is %g, not %g to %g", #value, v_, (double)(least), \
                  (double)(most));                                                                      \
  } while (0)

/* ---- histories --------------------------------------------------------------------------------------------------- */

/* At any load of the lanes steps are as full as they can be: each has all that came while the one before it ran. */
START_TEST(batches_fill) {
  static const double loads[] = {0.3, 0.6, 0.95, 1.5};
  machine m;
  set_up(&m, 1, 1, 10, 1, 10 / (8 * loads[_i]));
  play(&m, 100);
  count_anew(&m);
  play(&m, 1000);
  WITHIN(fill(&m), fmin(loads[_i], 1) - 0.07, 1);
  WITHIN(m.idle / 1000, 0, 0.005);
  ck_assert_int_le(m.most, 2);
  ck_assert_int_eq(m.early, 0); /* all were taken just before they could begin */
}
END_TEST

/* Lanes that are free are not left waiting: a request alone is taken when it comes. */
START_TEST(one_alone_is_taken_at_once) {
  machine m;
  set_up(&m, 1, 1, 1, 0.1, 10);
  play(&m, 500);
  WITHIN(m.taken, 49, 50);
  ck_assert_int_eq(m.steps, m.taken);
  ck_assert_int_eq(m.most, 1);
}
END_TEST

/* Nothing is known before the first step is over: the second one begins then. */
START_TEST(first_steps) {
  machine m;
  set_up(&m, 1, 1, 10, 1, 2);
  play(&m, 12.9);
  ck_assert_int_eq(m.steps, 1);
  ck_assert(isinf(sp_gate_opens(&m.gate, m.step, false, m.now)));
  play(&m, 0.3);
  ck_assert_int_eq(m.steps, 2);
  play(&m, 8);
  ck_assert_int_eq(m.steps, 2);
  play(&m, 3);
  ck_assert_int_eq(m.steps, 3);
  WITHIN(m.idle, 0, 1.1); /* behind the first one alone */
}
END_TEST

/* A full batch gains nothing by waiting: one is prepared, whatever is known, and no more. So where more comes than
 * lanes can do they never have a gap. */
START_TEST(a_full_batch) {
  machine m;
  set_up(&m, 1, 1, 10, 1, 0.1);
  sp_gate_taken(&m.gate, 0, 0);
  ck_assert(isinf(sp_gate_opens(&m.gate, 1, true, 0))); /* the one before is not prepared yet */
  ck_assert(sp_gate_prepares(&m.gate, 0) && !sp_gate_prepares(&m.gate, 1));
  sp_gate_prepared(&m.gate, 0, 1);
  ck_assert(!sp_gate_prepares(&m.gate, 0));
  ck_assert(isinf(sp_gate_opens(&m.gate, 1, false, 1)) && sp_gate_opens(&m.gate, 1, true, 1) <= 0);
  sp_gate_taken(&m.gate, 1, 1);
  sp_gate_prepared(&m.gate, 1, 2);
  ck_assert(isinf(sp_gate_opens(&m.gate, 2, true, 2)));
  set_up(&m, 1, 1, 10, 1, 0.1);
  play(&m, 500);
  WITHIN(m.idle, 0, 0);
  ck_assert_int_eq(m.most, 2);
  WITHIN(fill(&m), 0.95, 1);
}
END_TEST

/* Steps that are as short as what comes before them are taken at once, or lanes would have gaps. */
START_TEST(short_steps) {
  machine m;
  set_up(&m, 1, 1, 1, 1, 0.01);
  play(&m, 20);
  count_anew(&m);
  play(&m, 100);
  WITHIN(m.idle / 100, 0, 0.05);
  WITHIN(m.steps, 95, 101);
}
END_TEST

/* A step is suddenly four times as long, or a quarter: some are taken early, or leave a gap, and then all is as
 * before. */
START_TEST(sudden_changes) {
  machine m;
  set_up(&m, 1, 1, 10, 1, 1);
  m.batch = 64;
  play(&m, 200);
  count_anew(&m);
  m.takes = m.pace = 40;
  play(&m, 600);
  ck_assert_int_le(m.most, 2); /* one at a time is early, by less and less */
  count_anew(&m);
  play(&m, 400);
  ck_assert_int_eq(m.early, 0);
  WITHIN(m.idle / 400, 0, 0.01);
  m.takes = m.pace = 10;
  play(&m, 400);
  count_anew(&m);
  play(&m, 400);
  ck_assert_int_eq(m.early, 0);
  WITHIN(m.idle / 400, 0, 0.01);
  ck_assert_int_le(m.most, 2);
}
END_TEST

/* As many steps at once as there are replicas, each with one more in time. A turn whose lanes are busy is passed over
 * while those of another are free. */
START_TEST(replicas) {
  machine m;
  set_up(&m, 3, 1, 9, 1, 0.4);
  play(&m, 100);
  count_anew(&m);
  play(&m, 900);
  WITHIN(fill(&m), 0.8, 1);
  WITHIN(m.idle / 900, 0, 0.1);
  WITHIN(m.most, 3, 6);
  set_up(&m, 3, 1, 9, 1, 0.4);
  for (uint64_t s = 0; s < 3; s++) ck_assert(sp_gate_opens(&m.gate, s, false, 0) <= 0), sp_gate_taken(&m.gate, s, 0);
  ck_assert(isinf(sp_gate_opens(&m.gate, 3, false, 0)) && !sp_gate_skips(&m.gate, 3));
  sp_gate_over(&m.gate, 1, 5); /* lanes of turn 1 are free before those of turn 0 */
  ck_assert(sp_gate_skips(&m.gate, 3) && sp_gate_opens(&m.gate, 4, false, 5) <= 0);
}
END_TEST

/* Lanes of a turn that work at three steps one behind the other have three, and a fourth just in time. */
START_TEST(pipelines) {
  machine m;
  set_up(&m, 1, 3, 9, 0.3, 0.05);
  play(&m, 100);
  count_anew(&m);
  play(&m, 900);
  WITHIN(fill(&m), 0.99, 1);
  ck_assert_int_eq(m.most, 4);
  WITHIN(m.steps, 290, 301);
}
END_TEST

/* What a script does in between is time in which nothing can begin: a step begins so much earlier. */
START_TEST(a_script_that_takes_long) {
  machine m;
  set_up(&m, 1, 1, 10, 1, 1);
  m.gate.busy = (sp_gate_mean){10, 4};
  m.gate.lead = (sp_gate_mean){1, 4};
  sp_gate_taken(&m.gate, 0, 100);
  sp_gate_prepared(&m.gate, 0, 101);
  ck_assert_double_eq_tol(sp_gate_opens(&m.gate, 1, false, 102), 111 - 102 - 1.5 - m.look, 1e-9);
  for (int i = 0; i < 4; i++) sp_gate_leave(&m.gate, 90 + i), sp_gate_back(&m.gate, 90.25 + i);
  ck_assert_double_eq_tol(sp_gate_opens(&m.gate, 1, false, 102), 111 - 102 - 1.5 - m.look - 0.25, 1e-9);
}
END_TEST

/* What ended between two looks changes a mean no more than it must. */
START_TEST(looks_that_are_far_apart) {
  machine m;
  set_up(&m, 1, 1, 10, 1, 1);
  m.gate.busy = (sp_gate_mean){10, 4};
  sp_gate_taken(&m.gate, 0, 100);
  sp_gate_prepared(&m.gate, 0, 101);
  sp_gate_looked(&m.gate, 105);
  sp_gate_over(&m.gate, 0, 150); /* 4 to 49 seconds */
  ck_assert_double_eq_tol(m.gate.busy.mean, 10, 1e-12);
  sp_gate_taken(&m.gate, 1, 200);
  sp_gate_prepared(&m.gate, 1, 201);
  sp_gate_looked(&m.gate, 219);
  sp_gate_over(&m.gate, 1, 230); /* 18 at least */
  ck_assert_double_eq_tol(m.gate.busy.mean, 12, 1e-12);
}
END_TEST

/* Looks become frequent towards the end, and rare again where that is long overdue. */
START_TEST(when_to_look) {
  machine m;
  set_up(&m, 1, 1, 10, 1, 1);
  ck_assert(isinf(sp_gate_look(&m.gate, 0)));
  m.gate.busy = m.gate.lead = (sp_gate_mean){10, 4};
  sp_gate_taken(&m.gate, 0, 100);
  ck_assert_double_eq_tol(sp_gate_look(&m.gate, 102), 4, 1e-9);
  sp_gate_prepared(&m.gate, 0, 110);
  ck_assert_double_eq_tol(sp_gate_look(&m.gate, 112), 4, 1e-9);
  ck_assert_double_eq_tol(sp_gate_look(&m.gate, 119), 0.5, 1e-9);
  ck_assert_double_eq_tol(sp_gate_look(&m.gate, 142), 2, 1e-9);
}
END_TEST

int main(void) {
  Suite *s = suite_create("gate");
  TCase *c = tcase_create("gate");
  tcase_add_loop_test(c, batches_fill, 0, 4);
  tcase_add_test(c, one_alone_is_taken_at_once);
  tcase_add_test(c, first_steps);
  tcase_add_test(c, a_full_batch);
  tcase_add_test(c, short_steps);
  tcase_add_test(c, sudden_changes);
  tcase_add_test(c, replicas);
  tcase_add_test(c, pipelines);
  tcase_add_test(c, a_script_that_takes_long);
  tcase_add_test(c, looks_that_are_far_apart);
  tcase_add_test(c, when_to_look);
  suite_add_tcase(s, c);
  return suite_run(s);
}
