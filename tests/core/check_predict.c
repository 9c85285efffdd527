/* SPDX-License-Identifier: MIT
 * check_predict.c - how long a step takes, where it can be said by hand: lanes side by side, that share the device,
 * that wait for each other, behind a host that is too slow, as whole ticks, and replicas. */
#include <check.h>
#include <math.h>

#include "base/util.h"
#include "schedule/predict.h"
#include "tests/kit/suite.h"

enum { A, B, HOST, LANES };
enum { FIRST, SECOND, COLLECT, TASKS };

typedef struct setting {
  double a, b, share, submit;
  int delay, slots; /* of the second lane; of what is between, 0: derived */
  int second;       /* lane of the second task */
  bool tick;        /* all as one graph */
} setting;

static double busy[LANES], work[LANES];

/* The same list with a LAUNCH of the tick in front of what both lanes do; only for the clock: it is not proved. */
static void launch(sp_ops *ops) {
  sp_ops out = {.ring = ops->ring};
  sp_err err;
  int n = 0;
  for (size_t i = 0; i < ops->n; i++) n += ops->op[i].lane != HOST;
  for (int host = 1; host >= 0; host--) {
    if (!host) sp_ops_put(&out, (sp_op){.kind = SP_OP_LAUNCH, .task = -1, .n = n}, &err);
    for (size_t i = 0; i < ops->n; i++)
      if ((ops->op[i].lane == HOST) == (host == 1)) sp_ops_put(&out, ops->op[i], &err);
  }
  ops->ring = NULL;
  sp_ops_free(ops);
  *ops = out;
}

static sp_predicted play(setting s) {
  const sp_sched_lane lanes[] = {{.name = "a"}, {.name = "b", .delay = s.delay}, {.name = "host", .host = true}};
  const sp_sched_access first[] = {{0, SP_WRITE}}, second[] = {{0, SP_READ}, {1, SP_WRITE}}, last[] = {{1, SP_READ}};
  const sp_sched_task tasks[] = {
      {.name = "first", .lane = A, .delay = -1, .every = 1, .acc = first, .n_acc = 1},
      {.name = "second", .lane = s.second, .delay = -1, .every = 1, .acc = second, .n_acc = 2},
      {.name = "collect",
       .lane = HOST,
       .delay = s.delay + 2,
       .every = 1,
       .acc = last,
       .n_acc = 1,
       .op = SP_OP_COLLECT}};
  const sp_sched_resource res[] = {{.name = "between", .slots = s.slots}, {.name = "metric", .slots = 4}};
  const sp_sched_input in = {lanes, LANES, tasks, TASKS, res, 2, 0, 8};
  const double cost[] = {s.a, s.b, 0}, submit[] = {s.submit, s.submit, 0};
  const double share[] = {0, s.share, 0, s.share, 0, 0, 0, 0, 0};
  sp_predicted p = {.busy = busy, .work = work};
  sp_schedule sched;
  sp_ops ops;
  sp_err err;
  ck_assert_msg(!sp_schedule_derive(&sched, &in, &err), "%s", err.msg);
  ck_assert_msg(!sp_ops_lower(&ops, &sched, &in, &err), "%s", err.msg);
  if (s.tick) launch(&ops);
  sp_predict_in pi = {&ops, &in, cost, submit, s.submit, 1e-9, share};
  ck_assert_msg(!sp_predict(&pi, &p, &err), "%s", err.msg);
  sp_ops_free(&ops);
  sp_schedule_free(&sched);
  return p;
}

#define NEAR(got, want) \
  ck_assert_msg(fabs((got) - (want)) < 1e-3 * (want) + 1e-6, "%g, wanted %g", (got), (double)(want))

START_TEST(lanes_side_by_side) {
  NEAR(play((setting){.a = 3, .b = 2, .delay = 1, .second = B}).step, 3);
  NEAR(busy[A], 3);
  NEAR(busy[B], 2);
  NEAR(play((setting){.a = 2, .b = 5, .delay = 2, .second = B}).step, 5);
}
END_TEST

START_TEST(one_lane) { NEAR(play((setting){.a = 3, .b = 2, .second = A}).step, 5); }
END_TEST

/* With one buffer between them each waits for the other. */
START_TEST(dependent) {
  NEAR(play((setting){.a = 3, .b = 2, .slots = 1, .second = B}).step, 5);
  NEAR(busy[A], 3);
}
END_TEST

START_TEST(shared) {
  NEAR(play((setting){.a = 3, .b = 3, .delay = 1, .second = B, .share = 1}).step, 6);
  NEAR(busy[A], 6);
  NEAR(work[A], 3);
  NEAR(play((setting){.a = 4, .b = 2, .delay = 1, .second = B, .share = 0.5}).step, 5);
  NEAR(work[B], 2);
}
END_TEST

START_TEST(slow_host) {
  sp_predicted p = play((setting){.a = 3, .b = 2, .delay = 1, .second = B, .submit = 4});
  NEAR(p.step, 8);
  NEAR(p.host, 8);
}

/* The next tick begins when both lanes are through with this one. */
START_TEST(whole_ticks) {
  NEAR(play((setting){.a = 3, .b = 2, .delay = 1, .second = B, .tick = true}).step, 3);
  NEAR(play((setting){.a = 3, .b = 2, .delay = 0, .second = B, .tick = true}).step, 5);
}

/* Without copies of what is between them nothing of the next step can begin; with them, two steps are under way. */
START_TEST(buffers) {
  NEAR(play((setting){.a = 3, .b = 3, .slots = 2, .second = B}).step, 3);
  NEAR(play((setting){.a = 3, .b = 3, .slots = 1, .second = B}).step, 6);
}
END_TEST

int main(void) {
  Suite *s = suite_create("predict");
  TCase *tc = tcase_create("predict");
  tcase_add_test(tc, lanes_side_by_side);
  tcase_add_test(tc, one_lane);
  tcase_add_test(tc, dependent);
  tcase_add_test(tc, shared);
  tcase_add_test(tc, slow_host);
  tcase_add_test(tc, whole_ticks);
  tcase_add_test(tc, buffers);
  suite_add_tcase(s, tc);
  return suite_run(s);
}
