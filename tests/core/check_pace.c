/* SPDX-License-Identifier: MIT
 * check_pace.c - which rank is the slowest, by how much, and how long ranks wait: of times that are told, and of
 * a clock that only the tests move. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "base/util.h"
#include "run/pace.h"
#include "tests/kit/suite.h"

#define RANKS 4

static double own[RANKS], sorted[RANKS];
static sp_pacer pacer;

/* The clock: the linker's --wrap puts it in place of the machine's. */
static double now;
double __wrap_sp_now(void);
double __wrap_sp_now(void) { return now; }

static void set_up(void) {
  memset(own, 0, sizeof own);
  now = 1000;
  pacer = (sp_pacer){.n_ranks = RANKS, .own = own, .sorted = sorted};
}

static const sp_rank_time *of_rank(const void *arg, int rank) { return (const sp_rank_time *)arg + rank; }

static const sp_pace *add(double a, double b, double c, double d, double waited) {
  const sp_rank_time t[RANKS] = {{a, waited}, {b, waited}, {c, waited}, {d, waited}};
  return sp_pace_add(&pacer, of_rank, t);
}

static void is(const sp_pace *p, int slowest, double behind, double waited) {
  ck_assert_ptr_nonnull(p);
  ck_assert_msg(p->slowest == slowest && fabs(p->behind - behind) < 1e-9 && fabs(p->waited - waited) < 1e-9,
                "rank %d, %.12g behind, %.12g waited", p->slowest, p->behind, p->waited);
}

START_TEST(means_over_steps) {
  set_up();
  ck_assert_ptr_null(add(1, 1, 0, 1, 1)); /* one of them knows nothing yet */
  is(add(1, 1, 3, 1, 2), 2, 2, 8.0 / 14);
  is(add(2, 1, 1, 1, 0), 2, 1, 4 / 9.5); /* own: 1.5, 1, 2, 1 */
  is(add(9, 9, 9, 0, 9), 2, 1, 4 / 9.5); /* of a step that one does not know nothing is taken */
  is(add(6, 1, 2, 4, 0), 0, 1, 0.25);
}
END_TEST

/* The median is the lower one of the two in the middle, so the second slowest counts for nothing. */
START_TEST(behind_the_median) {
  set_up();
  is(add(5, 1, 2, 9, 0), 3, 7, 0);
  set_up();
  is(add(2, 2, 2, 2, 6), 0, 0, 0.75);
}
END_TEST

/* What was long ago fades: a step counts for a twentieth. */
START_TEST(old_steps_fade) {
  set_up();
  for (int i = 0; i < 100; i++) is(add(1, 2, 1, 1, 0), 1, 1, 0);
  add(21, 2, 1, 1, 0);
  ck_assert_double_eq_tol(own[0], 2, 1e-9);
  is(add(20, 2, 1, 1, 0), 0, 1.9, 0);
}
END_TEST

START_TEST(own_time) {
  set_up();
  sp_rank_time t = sp_pace_take(&pacer, NULL); /* one process waits for nobody */
  ck_assert(t.own == 0 && t.waited == 0);
  now += 0.25;
  t = sp_pace_take(&pacer, NULL);
  ck_assert_msg(t.own == 0.25 && t.waited == 0, "%g s, waited %g", t.own, t.waited);
  pacer.last = 0; /* a pause */
  ck_assert(sp_pace_take(&pacer, NULL).own == 0);
}
END_TEST

/* A device tells later how long it waited in one step; what that is a part of is the mean of the steps since it told of
 * one. */
START_TEST(time_of_a_device) {
  set_up();
  ck_assert(sp_pace_take_device(&pacer, 0.5).own == 0); /* there was no step before */
  now += 100;                                           /* a first step, that takes long */
  ck_assert(sp_pace_take_device(&pacer, 0).own == 0);
  sp_pace_begin(&pacer);
  for (int i = 1; i <= 2; i++) {
    now += i;
    sp_rank_time t = sp_pace_take_device(&pacer, i == 2 ? 0.5 : 0);
    ck_assert_msg(i == 1 ? t.own == 0 : t.own == 1 && t.waited == 0.5, "%g s, waited %g", t.own, t.waited);
  }
  is(add(1, 1, 1, 1, 0), 0, 0, 0);
  now += 4;
  sp_pace_begin(&pacer); /* nothing is left out any more */
  ck_assert(sp_pace_take_device(&pacer, 0).own == 0);
  pacer.last = 0; /* a pause */
  ck_assert(sp_pace_take_device(&pacer, 0).own == 0);
  sp_rank_time t = sp_pace_take_device(&pacer, 0.5); /* two gaps, of 4 s and of none */
  ck_assert_msg(t.own == 1.5 && t.waited == 0.5, "%g s, waited %g", t.own, t.waited);
  now += 1;
  t = sp_pace_take_device(&pacer, 1000); /* of one step, which may be longer than the others */
  ck_assert_msg(t.own > 0 && t.own < 1e-6 && t.waited == 1, "%g s, waited %g", t.own, t.waited);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("pace");
  TCase *c = tcase_create("pace");
  tcase_add_test(c, means_over_steps);
  tcase_add_test(c, behind_the_median);
  tcase_add_test(c, old_steps_fade);
  tcase_add_test(c, own_time);
  tcase_add_test(c, time_of_a_device);
  suite_add_tcase(suite, c);
  return suite_run(suite);
}
