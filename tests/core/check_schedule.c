/* SPDX-License-Identifier: MIT
 * check_schedule.c - slots, waits and rings derived by hand and at random; what the proof accepts and refuses. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers" /* what is left out is 0 */
#include "base/util.h"
#include "schedule/ops.h"
#include "tests/kit/sched_oracle.h"
#include "tests/kit/sched_random.h"
#include "tests/kit/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES(...) \
  .lanes = (const sp_sched_lane[]){__VA_ARGS__}, .n_lanes = SP_ARRAY(((const sp_sched_lane[]){__VA_ARGS__}))
#define TASKS(...) \
  .tasks = (const sp_sched_task[]){__VA_ARGS__}, .n_tasks = SP_ARRAY(((const sp_sched_task[]){__VA_ARGS__}))
#define RES(...)                                         \
  .resources = (const sp_sched_resource[]){__VA_ARGS__}, \
  .n_resources = SP_ARRAY(((const sp_sched_resource[]){__VA_ARGS__}))
#define USES(...) (const sp_sched_access[]){__VA_ARGS__}, SP_ARRAY(((const sp_sched_access[]){__VA_ARGS__}))
enum { R = SP_READ, W = SP_WRITE, RW = SP_READ | SP_WRITE };

static sp_schedule derived(const sp_sched_input *in) {
  sp_schedule s;
  sp_err err = {0};
  int st = sp_schedule_derive(&s, in, &err);
  ck_assert_msg(st == SP_OK, "%s", err.msg);
  return s;
}

static const char *refused(const sp_sched_input *in, int status) {
  static sp_err err;
  sp_schedule s;
  int st = sp_schedule_derive(&s, in, &err);
  ck_assert_int_eq(st, status);
  ck_assert_ptr_null(s.items);
  return err.msg;
}

/* The waits of a task as text, "1@0 3@2" for task 1 of the same step and task 3 of two steps before. */
static const char *waits(const sp_schedule *s, int task) {
  static char text[256];
  text[0] = 0;
  for (size_t i = 0; i < s->items[task].n_waits; i++) {
    const sp_sched_wait *w = &s->items[task].waits[i];
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d@%d", i ? " " : "", w->task, w->back);
  }
  return text;
}

static void remove_wait(sp_sched_item *it, size_t i) {
  memmove(it->waits + i, it->waits + i + 1, (it->n_waits - i - 1) * sizeof *it->waits);
  it->n_waits--;
}

static void restore_wait(sp_sched_item *it, size_t i, sp_sched_wait w) {
  memmove(it->waits + i + 1, it->waits + i, (it->n_waits - i) * sizeof *it->waits);
  it->waits[i] = w;
  it->n_waits++;
}

#define ck_has(text, part) ck_assert_msg(strstr(text, part), "'%s' is not in: %s", part, text)

START_TEST(one_lane_needs_no_waits) {
  sp_sched_input in = {LANES({"all", 0, false}),
                       TASKS({"enc", 0, -1, 1, 0, USES({0, W})}, {"dec", 0, -1, 1, 0, USES({0, R}, {1, R})},
                             {"sgd", 0, -1, 1, 0, USES({1, RW})}),
                       RES({"features", 0, 0, 0}, {"weights", 1, 0, 0})};
  sp_schedule s = derived(&in);
  ck_assert_int_eq(s.n_waits, 0);
  ck_assert_int_eq(s.slots[0], 1);
  ck_assert_int_eq(s.order[0], 0);
  ck_assert_int_eq(s.order[2], 2);
  ck_assert(!s.items[0].record);
  ck_assert_int_eq(s.items[0].ring, 0);
  sp_schedule_free(&s);
}
END_TEST

START_TEST(producer_and_consumer) {
  sp_sched_input in = {LANES({"ahead", 0, false}, {"train", 1, false}),
                       TASKS({"enc", 0, -1, 1, 0, USES({0, W})}, {"dec", 1, -1, 1, 0, USES({0, R})}),
                       RES({"features", 0, 0, 0})};
  sp_schedule s = derived(&in);
  ck_assert_int_eq(s.depth, 1);
  ck_assert_int_eq(s.slots[0], 2);
  ck_assert_str_eq(waits(&s, 0), "1@2");
  ck_assert_str_eq(waits(&s, 1), "0@0");
  ck_assert_int_eq(s.order[0], 1); /* the older step first */
  /* dec waits at tick t for enc of step t - 1, recorded at the tick before; enc waits for what was recorded just now */
  ck_assert_int_eq(s.items[0].ring, 1);
  ck_assert_int_eq(s.items[1].ring, 2);
  sp_schedule_free(&s);
}
END_TEST

START_TEST(extra_slots_and_groups) {
  sp_sched_input in = {LANES({"copy", 0, false}, {"train", 1, false}),
                       TASKS({"h2d", 0, -1, 1, 0, USES({0, W}, {1, W})}, {"fwd", 1, -1, 1, 0, USES({0, R}, {1, R})}),
                       RES({"image", 0, 0, 7}, {"mask", 0, 2, 7})};
  sp_schedule s = derived(&in);
  ck_assert_int_eq(s.slots[0], 4);
  ck_assert_int_eq(s.slots[1], 4);
  ck_assert_str_eq(waits(&s, 0), "1@4");
  sp_schedule_free(&s);
}
END_TEST

static size_t implied(const sp_schedule *s) {
  size_t n = 0;
  for (size_t i = 0; i < s->n_items; i++) n += s->items[i].n_implied;
  return n;
}

START_TEST(encoder_decoder_update) {
  enum { FEAT, GRAD, DEC_W };
  sp_sched_input in = {LANES({"ahead", 0, false}, {"train", 1, false}, {"opt", 1, false}),
                       TASKS({"enc.forward", 0, -1, 1, 0, USES({FEAT, W})},
                             {"dec.forward", 1, -1, 1, 0, USES({FEAT, R}, {DEC_W, R})},
                             {"dec.backward", 1, -1, 1, 0, USES({FEAT, R}, {GRAD, W}, {DEC_W, R})},
                             {"sgd.update", 2, -1, 1, 0, USES({GRAD, R}, {DEC_W, RW})}),
                       RES({"features", 0, 0, 0}, {"gradient", 0, 0, 0}, {"weights", 1, 0, 0})};
  sp_schedule s = derived(&in);
  ck_assert_str_eq(waits(&s, 0), "2@2"); /* not for forward: backward comes later in its lane */
  ck_assert_str_eq(waits(&s, 1), "0@0 3@1");
  ck_assert_str_eq(waits(&s, 2), ""); /* update of the step before: forward has waited for it */
  ck_assert_str_eq(waits(&s, 3), "2@0");
  ck_assert_int_eq(s.n_waits, 4);
  ck_assert(s.n_derived > 4);
  ck_assert_uint_eq(s.n_waits + implied(&s), s.n_derived);
  ck_assert_uint_eq(s.items[2].n_implied, 2); /* the features, and the update of the step before */
  ck_assert_int_eq(s.items[2].implied[0].task, 0);
  ck_assert_int_eq(s.items[2].implied[1].task, 3);
  ck_assert_int_eq(s.items[2].implied[1].back, 1);
  sp_schedule_free(&s);
}
END_TEST

/* The host fills the step block two slots ahead and reads the metric two steps late. */
START_TEST(host_tasks) {
  enum { BLOCK, METRIC };
  sp_sched_input in = {LANES({"host", 0, true}, {"gpu", 0, false}),
                       TASKS({"fill", 0, 0, 1, 0, USES({BLOCK, W})},
                             {"train", 1, -1, 1, 0, USES({BLOCK, R}, {METRIC, W})},
                             {"collect", 0, 2, 1, 0, USES({METRIC, R})}),
                       RES({"block", 0, 2, 0}, {"metric", 0, 0, 0})};
  sp_schedule s = derived(&in);
  ck_assert_int_eq(s.slots[BLOCK], 3);
  ck_assert_int_eq(s.slots[METRIC], 3);
  ck_assert_str_eq(waits(&s, 1), ""); /* submission is an edge */
  ck_assert_str_eq(waits(&s, 2), "1@0");
  /* train of step s - 2 has read fill's slot; collect of that step, submitted just before, has waited for it */
  ck_assert_str_eq(waits(&s, 0), "");
  ck_assert_int_eq(s.items[1].ring, 2);
  sp_schedule_free(&s);
}
END_TEST

START_TEST(knowledge_of_the_host_does_not_outlive_a_drain) {
  /* 'next' (delay 0) waits in step s for 'work' of step s - 1. 'late' of step s - 1 is submitted after that and would
   * know; but where the run drains before step s, 'next' never waits, and 'late' must do so itself. */
  sp_sched_input in = {LANES({"host", 0, true}, {"a", 0, false}, {"b", 2, false}),
                       TASKS({"next", 0, 0, 1, 0, USES({0, W})}, {"work", 1, -1, 1, 0, USES({0, R}, {1, W})},
                             {"late", 2, -1, 1, 0, USES({1, R})}),
                       RES({"block", 1, 0, 0}, {"out", 0, 0, 0})};
  sp_schedule s = derived(&in);
  ck_assert_str_eq(waits(&s, 0), "1@1");
  ck_assert_str_eq(waits(&s, 2), "1@0");
  sp_schedule_free(&s);
}
END_TEST

START_TEST(update_every_third_step) {
  enum { DW, WEIGHT };
  sp_sched_input in = {
      LANES({"train", 0, false}, {"opt", 0, false}),
      TASKS({"train", 0, -1, 1, 0, USES({WEIGHT, R}, {DW, W})}, {"update", 1, -1, 3, 2, USES({DW, R}, {WEIGHT, RW})}),
      RES({"grad", 2, 0, 0}, {"weight", 1, 0, 0})};
  sp_schedule s = derived(&in);
  ck_assert_str_eq(waits(&s, 0), "1@1"); /* its last run at or before the step before */
  ck_assert_str_eq(waits(&s, 1), "0@0");
  ck_assert_int_eq(s.items[1].ring, 1);
  sp_schedule_free(&s);
}
END_TEST

START_TEST(runs_that_never_share_a_slot_need_no_wait) {
  sp_sched_input in = {LANES({"a", 0, false}, {"b", 0, false}),
                       TASKS({"even", 0, -1, 2, 0, USES({0, W})}, {"odd", 1, -1, 2, 1, USES({0, RW})}),
                       RES({"x", 2, 0, 0})};
  sp_schedule s = derived(&in);
  ck_assert_int_eq(s.n_waits, 0);
  sp_schedule_free(&s);
}
END_TEST

/* By steps alone, slow would wait for fast at steps 3, 9, ... too, where they use different slots; and at steps 0, 6,
 * ..., where they meet, its lane has waited already. */
START_TEST(a_wait_for_other_slots_is_left_out) {
  sp_sched_input in = {LANES({"a", 0, false}, {"b", 0, false}),
                       TASKS({"fast", 0, -1, 2, 0, USES({0, W}, {1, W})}, {"rare", 1, -1, 6, 0, USES({1, R})},
                             {"slow", 1, -1, 3, 0, USES({0, R})}),
                       RES({"x", 2, 0, 0}, {"y", 1, 0, 0})};
  sp_schedule s = derived(&in);
  ck_assert_str_eq(waits(&s, 0), "2@2");
  ck_assert_str_eq(waits(&s, 1), "0@0");
  ck_assert_str_eq(waits(&s, 2), "");
  ck_assert_uint_gt(implied(&s), 0);
  ck_assert_uint_eq(s.n_waits + implied(&s), s.n_derived);
  sp_schedule_free(&s);
}
END_TEST

/* What a step may read before writing it keeps one buffer, or its meaning would depend on the delays. */
/* Two that write in turns: whoever reads finds what its own step has written, so nothing is carried over. */
START_TEST(steps_in_turns_on_two_lanes) {
  sp_sched_input in = {LANES({"even", 0}, {"odd", 0}, {"after", 1}), RES({"y", .extra = 1}),
                       TASKS({"even", 0, -1, 2, 0, USES({0, W})}, {"odd", 1, -1, 2, 1, USES({0, W})},
                             {"after", 2, -1, 1, 0, USES({0, R})})};
  sp_schedule s = derived(&in);
  ck_assert_int_eq(s.slots[0], 3);
  ck_assert_str_eq(waits(&s, 2), "0@0 1@0");
  sp_schedule_free(&s);
  /* where only every second step is written, the reader finds the one before */
  sp_sched_input half = {LANES({"even", 0}, {"after", 1}), RES({"y", .extra = 1}),
                         TASKS({"even", 0, -1, 2, 0, USES({0, W})}, {"after", 1, -1, 1, 0, USES({0, R})})};
  s = derived(&half);
  ck_assert_int_eq(s.slots[0], 1);
  sp_schedule_free(&s);
}
END_TEST

START_TEST(carried_values_have_one_slot) {
  sp_sched_input in = {LANES({"a", 0, false}, {"b", 1, false}),
                       TASKS({"a", 0, -1, 1, 0, USES({0, RW}, {1, W})}, {"half", 0, -1, 2, 0, USES({2, W})},
                             {"b", 1, -1, 1, 0, USES({0, R}, {1, R}, {2, R})}),
                       RES({"sum", 0, 3, 0}, {"edge", 0, 3, 0}, {"sparse", 0, 0, 0})};
  sp_schedule s = derived(&in);
  ck_assert_int_eq(s.slots[0], 1);
  ck_assert_int_eq(s.slots[1], 5);
  ck_assert_int_eq(s.slots[2], 1);
  sp_schedule_free(&s);
}
END_TEST

START_TEST(consumer_before_producer) {
  sp_sched_input in = {
      LANES({"a", 0, false}, {"b", 1, false}),
      TASKS({"encoder.forward", 1, -1, 1, 0, USES({0, W})}, {"train.forward", 0, -1, 1, 0, USES({0, R})}),
      RES({"features", 0, 0, 0})};
  const char *m = refused(&in, SP_E_RACE);
  ck_assert_str_eq(m,
                   "'train.forward' (lane 'a', delay 0) needs 'encoder.forward' (lane 'b', delay 1) of the same step, "
                   "for 'features': give lane 'a' a delay of at least 1");
}
END_TEST

START_TEST(weights_come_back_too_late) {
  sp_sched_input in = {LANES({"a", 0, false}, {"b", 2, false}),
                       TASKS({"enc", 0, -1, 1, 0, USES({0, R})}, {"update", 1, -1, 1, 0, USES({0, RW})}),
                       RES({"weights", 1, 0, 0})};
  const char *m = refused(&in, SP_E_RACE);
  ck_has(m, "'enc' (lane 'a', delay 0) comes after 'update' (lane 'b', delay 2) of 1 step before");
  ck_has(m, "'weights' (1 slot): give lane 'a' a delay of at least 1");
}
END_TEST

START_TEST(too_few_slots) {
  sp_sched_lane lanes[] = {{"a", 0, false}, {"b", 3, false}};
  sp_sched_resource res[] = {{"features", 0, 0, 0}};
  sp_sched_input in = {lanes, 2, TASKS({"enc", 0, -1, 1, 0, USES({0, W})}, {"dec", 1, -1, 1, 0, USES({0, R})}), res, 1};
  sp_schedule s = derived(&in);
  sp_err err;
  ck_assert_int_eq(s.slots[0], 4);
  s.slots[0] = 3; /* with the waits of 4 */
  ck_assert_int_eq(sp_schedule_prove(&s, &in, &err), SP_E_RACE);
  ck_has(err.msg, "'enc' must wait for 'dec' of 3 steps before");
  sp_schedule_free(&s);
  res[0].slots = 3; /* right, though nothing overlaps: enc waits for what was submitted just before it */
  s = derived(&in);
  ck_assert_str_eq(waits(&s, 0), "1@3");
  sp_schedule_free(&s);
  res[0].slots = 2;
  ck_has(refused(&in, SP_E_RACE),
         "'enc' (lane 'a', delay 0) would overwrite 'features' before 'dec' (lane 'b', delay 3) of "
         "2 steps before has read it: give it at least 3 slots");
}
END_TEST

START_TEST(host_task_before_its_data) {
  sp_sched_input in = {LANES({"host", 0, true}, {"gpu", 1, false}),
                       TASKS({"train", 1, -1, 1, 0, USES({0, W})}, {"collect", 0, 0, 1, 0, USES({0, R})}),
                       RES({"metric", 0, 0, 0})};
  ck_has(refused(&in, SP_E_RACE), "'collect' (lane 'host', delay 0) needs 'train' (lane 'gpu', delay 1)");
}
END_TEST

START_TEST(bad_input) {
  sp_sched_lane lanes[] = {{"a", 0, false}, {"h", 0, true}};
  sp_sched_access acc = {0, R};
  sp_sched_task task = {"t", 0, -1, 1, 0, &acc, 1};
  sp_sched_resource res[] = {{"x", 0, 0, 1}, {"y", 0, 0, 1}};
  sp_sched_input in = {lanes, 2, &task, 1, res, 2, 0};
  task.lane = 2, ck_has(refused(&in, SP_E_INVALID), "'t' is on lane 2"), task.lane = 0;
  task.delay = 0, ck_has(refused(&in, SP_E_INVALID), "'t' has a delay of its own"), task.delay = -1;
  task.every = 0, ck_has(refused(&in, SP_E_RANGE), "'t' runs every 0"), task.every = 1;
  task.phase = 1, ck_has(refused(&in, SP_E_RANGE), "phase 1"), task.phase = 0;
  acc.resource = 2, ck_has(refused(&in, SP_E_INVALID), "'t' uses resource 2"), acc.resource = 0;
  acc.mode = 4, ck_has(refused(&in, SP_E_INVALID), "'t' uses 'x' in mode 4"), acc.mode = R;
  lanes[0].host = true, ck_has(refused(&in, SP_E_INVALID), "'a' and 'h' are both"), lanes[0].host = false;
  lanes[0].delay = 1 << 30, ck_has(refused(&in, SP_E_RANGE), "lane 'a' has delay"), lanes[0].delay = 0;
  res[0].slots = 2, res[1].slots = 3, ck_has(refused(&in, SP_E_INVALID), "share one group"), res[0].slots = 0;
  res[0].slots = -1, ck_has(refused(&in, SP_E_RANGE), "'x' has -1 slots"), res[0].slots = res[1].slots = 0;
  sp_sched_task two[] = {{"p", 0, -1, 4001, 0, &acc, 1}, {"q", 0, -1, 4003, 0, &acc, 1}};
  in.tasks = two, in.n_tasks = 2;
  ck_has(refused(&in, SP_E_RANGE), "'q' every 4003 steps");
}
END_TEST

START_TEST(proof_catches_tampering) {
  sp_sched_input in = {
      LANES({"ahead", 0, false}, {"train", 1, false}),
      TASKS({"enc", 0, -1, 1, 0, USES({0, W})}, {"dec", 1, -1, 1, 0, USES({0, R})}, {"end", 1, -1, 1, 0, USES({0, R})}),
      RES({"features", 0, 0, 0})};
  sp_schedule s = derived(&in);
  sp_err err;
  s.items[0].waits[0].back = 0;
  ck_assert_int_eq(sp_schedule_prove(&s, &in, &err), SP_E_RACE);
  ck_has(err.msg, "waits for 'end' (lane 'train', delay 1) of step");
  ck_has(err.msg, "which is submitted later");
  s.items[0].waits[0].back = 3;
  ck_assert_int_eq(sp_schedule_prove(&s, &in, &err), SP_E_RACE);
  ck_has(err.msg, "'enc' must wait for");
  s.items[0].waits[0].back = 2;
  s.items[2].ring--;
  ck_assert_int_eq(sp_schedule_prove(&s, &in, &err), SP_E_RACE);
  ck_has(err.msg, "'end' has 1 events");
  s.items[2].ring++;
  s.items[0].record = false;
  ck_assert_int_eq(sp_schedule_prove(&s, &in, &err), SP_E_RACE);
  ck_has(err.msg, "'dec' waits for 'enc', which records no event");
  s.items[0].record = true;
  s.order[0] = 0, s.order[2] = 1; /* the newest step first */
  ck_assert_int_eq(sp_schedule_prove(&s, &in, &err), SP_E_RACE);
  ck_has(err.msg, "the oldest step must come first");
  s.order[0] = 1, s.order[1] = 2, s.order[2] = 0;
  ck_assert_int_eq(sp_schedule_prove(&s, &in, &err), SP_OK);
  s.delay[1] = 0;
  ck_assert_int_eq(sp_schedule_prove(&s, &in, &err), SP_E_INVALID);
  sp_schedule_free(&s);
}
END_TEST

/* Accesses in an order that the program forbids are caught by the proof alone, without the derivation's check. */
START_TEST(proof_catches_wrong_order) {
  sp_sched_access write = {0, W}, read = {0, R};
  sp_sched_lane lanes[] = {{"h", 0, true}, {"b", 0, false}};
  sp_sched_task tasks[] = {{"writer", 0, 0, 1, 0, &write, 1}, {"reader", 0, 0, 1, 0, &read, 1}};
  sp_sched_resource res[] = {{"x", 2, 0, 0}};
  sp_sched_input in = {lanes, 2, tasks, 2, res, 1, 0};
  sp_schedule s = derived(&in);
  sp_err err;
  tasks[0].delay = s.delay[0] = s.depth = 1;
  s.order[0] = 0, s.order[1] = 1;
  ck_assert_int_eq(sp_schedule_prove(&s, &in, &err), SP_E_RACE);
  ck_has(err.msg,
         "'writer' (lane 'h', delay 1) of step 0 writes slot 0 of 'x' only after 'reader' (lane 'h', delay 0) of "
         "step 0 reads it: in the program it is the other way round");
  sp_schedule_free(&s);
}
END_TEST

/* A lane may run two readers in another order than the program.
 * The writer then waits for the one that the lane runs last. */
START_TEST(a_writer_waits_for_the_reader_that_its_lane_runs_last) {
  sp_sched_input in = {LANES({"host", 0, true}, {"a", 0}, {"b", 0}),
                       TASKS({"writer", 1, -1, 1, 0, USES({0, W})}, {"first reader", 2, -1, 1, 0, USES({0, R})},
                             {"second reader", 2, -1, 1, 0, USES({0, R})}),
                       RES({"x", 1})};
  sp_schedule s = derived(&in);
  sp_ops ops;
  sp_err err;
  ck_assert_int_eq(sp_ops_lower(&ops, &s, &in, &err), SP_OK);
  ck_assert_int_eq(sp_ops_prove(&ops, &in, s.slots, &err), SP_OK);
  size_t first = 0, second = 0;
  for (size_t i = 0; i < ops.n; i++) {
    if (ops.op[i].kind == SP_OP_CALL && ops.op[i].task == 1) first = i;
    if (ops.op[i].kind == SP_OP_CALL && ops.op[i].task == 2) second = i;
  }
  sp_op call = ops.op[first], record = ops.op[second + 1];
  ck_assert(second == first + 1 && record.kind == SP_OP_RECORD && record.task == 2);
  ops.op[first] = ops.op[second]; /* the second, its record, then the first, which nobody waits for */
  ops.op[first + 1] = record;
  ops.op[first + 2] = call;
  ck_assert_int_eq(so_judge(&ops, &in, s.slots, 1, &err), SO_RACES);
  ck_assert_int_eq(sp_ops_prove(&ops, &in, s.slots, &err), SP_E_RACE);
  ck_has(err.msg, "'writer' must wait for 'first reader'");
  sp_ops_free(&ops);
  sp_schedule_free(&s);
}
END_TEST

/* ---- lists that are none ----------------------------------------------------------------------------------------- */

enum { HOST, A, B, FAR }; /* lanes of the list below; FAR is of another place */
enum { FILL, FIRST, SECOND, THIRD, AWAY };

/* Without its last member a list is one that the proof takes. */
static const struct malformed {
  const char *words;
  sp_op op; /* is put in the place of operation `at` */
  size_t at;
  int launches; /* added to how many the list says it has */
} malformed[] = {
    {"is of no kind", {-1, A, FIRST}, 3, 0},
    {"is of no kind", {SP_OP_KINDS, A, FIRST}, 3, 0},
    {"is of no kind", {SP_OP_NONE, A, FIRST}, 3, 0},
    {"names a lane that is not there", {SP_OP_CALL, 4, FIRST}, 3, 0},
    {"names a lane that is not there", {SP_OP_CALL, -1, FIRST}, 3, 0},
    {"belongs to no task", {SP_OP_CALL, A, 5}, 3, 0},
    {"belongs to no task", {SP_OP_CALL, A, -1}, 3, 0},
    {"belongs to no task", {SP_OP_RECORD, A, -2}, 3, 0},
    {"is on another lane than its task", {SP_OP_CALL, B, FIRST}, 3, 0},
    {"waits for nothing", {SP_OP_WAIT, B, SECOND, 5, 0}, 3, 0},
    {"waits for nothing", {SP_OP_WAIT, B, SECOND, -1, 0}, 3, 0},
    {"waits for nothing", {SP_OP_WAIT, B, SECOND, FIRST, -1}, 3, 0},
    {"waits for nothing", {SP_OP_WAIT, B, SECOND, FIRST, (1 << 16) + 1}, 3, 0},
    {"is on the wrong side", {SP_OP_SYNC, B, SECOND, FIRST, 0}, 3, 0},
    {"is on the wrong side", {SP_OP_WAIT, HOST, FILL, FIRST, 0}, 0, 0},
    {"is on the host's lane", {SP_OP_LAUNCH, HOST, FILL, 0, 0, 1}, 0, 0},
    {"is on the host's lane", {SP_OP_RECORD, HOST, FILL}, 0, 0},
    {"is neither before its task nor behind it", {SP_OP_MARK, A, FIRST, 0, 2}, 2, 0},
    {"is read by nobody", {SP_OP_MARK, A, FIRST, SP_MARK_READERS, 0}, 2, 0},
    {"is not what its task does", {SP_OP_COPY, A, FIRST}, 3, 0},
    {"is within another", {SP_OP_LAUNCH, A, -1, 1, 0, 1}, 3, 0},
    {"cannot be part of a graph", {SP_OP_RECORD, A, -1}, 4, 0},
    {"cannot be part of a graph", {SP_OP_FINISH, A, FIRST}, 3, 0},
    {"cannot be part of a tick's graph", {SP_OP_CALL, HOST, FILL}, 3, 0},
    {"cannot be part of a tick's graph", {SP_OP_CALL, FAR, AWAY}, 3, 0},
    {"cannot be part of a lane's graph", {SP_OP_LAUNCH, A, FIRST, 0, 0, 4}, 2, 0},
    {"has a number out of turn", {SP_OP_LAUNCH, A, -1, 1, 0, 6}, 2, 0},
    {"has a number out of turn", {SP_OP_LAUNCH, A, -1, -1, 0, 6}, 2, 0},
    {"has a number out of turn", {SP_OP_LAUNCH, A, -1, 0, 0, 6}, 2, -1},
    {"has no body", {SP_OP_LAUNCH, A, -1, 0, 0, 0}, 2, 0},
    {"has no body", {SP_OP_LAUNCH, A, -1, 0, 0, -7}, 2, 0},
    {"has no body", {SP_OP_LAUNCH, A, -1, 0, 0, 11}, 2, 0},
    {"launches a tick a second time", {SP_OP_LAUNCH, A, -1, 1, 0, 1}, 11, 1},
    {"a list of 2 LAUNCHes has 1", {SP_OP_LAUNCH, A, -1, 0, 0, 6}, 2, 1},
    {"records a tick that was not launched", {SP_OP_RECORD, A, -1}, 1, 0},
    {"records a tick that was not launched", {SP_OP_RECORD, B, -1}, 9, 0},
    {"records a tick a second time", {SP_OP_RECORD, A, -1}, 10, 0},
};

/* SYNC FILL | LAUNCH of six: FIRST RECORD WAIT SECOND RECORD THIRD | the tick's RECORD, WAIT AWAY RECORD */
static const sp_sched_input *five_tasks(void) {
  static const sp_sched_lane lanes[] = {{"host", 0, true}, {"a", 0}, {"b", 0}, {"far", 0, false, 1}};
  static const sp_sched_access fill[] = {{0, W}}, first[] = {{0, R}, {1, W}}, second[] = {{1, R}, {2, W}},
                               third[] = {{1, R}}, away[] = {{2, R}};
  static const sp_sched_task tasks[] = {{"fill", HOST, -1, 1, 0, fill, 1},
                                        {"first", A, -1, 1, 0, first, 2},
                                        {"second", B, -1, 1, 0, second, 2},
                                        {"third", A, -1, 1, 0, third, 1},
                                        {"away", FAR, -1, 1, 0, away, 1}};
  static const sp_sched_resource res[] = {{"f", 1}, {"x", 1}, {"y", 1}};
  static const sp_sched_input in = {lanes, 4, tasks, 5, res, 3, 0, 4};
  return &in;
}

START_TEST(malformed_lists_are_refused) {
  const sp_sched_input *in = five_tasks();
  const sp_op good[] = {{SP_OP_SYNC, HOST, FILL, AWAY, 1},
                        {SP_OP_CALL, HOST, FILL},
                        {SP_OP_LAUNCH, A, -1, 0, 0, 6},
                        {SP_OP_CALL, A, FIRST},
                        {SP_OP_RECORD, A, FIRST},
                        {SP_OP_WAIT, B, SECOND, FIRST, 0},
                        {SP_OP_CALL, B, SECOND},
                        {SP_OP_RECORD, B, SECOND},
                        {SP_OP_CALL, A, THIRD},
                        {SP_OP_RECORD, A, -1},
                        {SP_OP_WAIT, FAR, AWAY, SECOND, 0},
                        {SP_OP_CALL, FAR, AWAY},
                        {SP_OP_RECORD, FAR, AWAY}};
  int slots[] = {1, 1, 1}, ring[] = {9, 9, 9, 9, 9};
  const struct malformed *m = &malformed[_i];
  sp_op op[SP_ARRAY(good)];
  sp_err err = {0};
  memcpy(op, good, sizeof op);
  sp_ops ops = {.op = op, .n = SP_ARRAY(op), .ring = ring, .tick_ring = 9, .n_launch = 1 + m->launches};
  op[m->at] = m->op;
  ck_assert_int_eq(sp_ops_prove(&ops, in, slots, &err), SP_E_INVALID);
  ck_has(err.msg, m->words);
  /* Only of this: the list that it was made of has the form. */
  memcpy(op, good, sizeof op);
  ops.n_launch = 1;
  ck_assert_msg(!sp_ops_prove(&ops, in, slots, &err), "%s", err.msg);
  for (int bad = -1; bad <= SP_SCHED_MAX_SLOTS + 1; bad += SP_SCHED_MAX_SLOTS + 2) {
    slots[1] = bad;
    ck_assert_int_eq(sp_ops_prove(&ops, in, slots, &err), SP_E_INVALID);
    ck_has(err.msg, "slots");
  }
}
END_TEST

/* Whoever takes an operation out of a body launches one less; elsewhere the body stays as it is. */
START_TEST(bodies_are_counted_where_lists_are_changed) {
  sp_ops ops = {0};
  sp_err err;
  sp_op call = {.kind = SP_OP_CALL, .lane = 1};
  ck_assert_int_eq(sp_ops_put(&ops, call, &err), SP_OK);
  ck_assert_int_eq(sp_ops_launch(&ops, 1, 0, &err), SP_OK);
  for (int i = 0; i < 3; i++) ck_assert_int_eq(sp_ops_put(&ops, call, &err), SP_OK);
  sp_ops_close(&ops);
  ck_assert_int_eq(sp_ops_put(&ops, call, &err), SP_OK);
  ck_assert_int_eq(ops.op[1].n, 3);
  ck_assert(sp_ops_body(&ops, 0) == SIZE_MAX && sp_ops_body(&ops, 1) == SIZE_MAX && sp_ops_body(&ops, 5) == SIZE_MAX);
  for (size_t i = 2; i < 5; i++) ck_assert_uint_eq(sp_ops_body(&ops, i), 1);
  sp_ops_remove(&ops, 5);
  sp_ops_remove(&ops, 0);
  ck_assert_int_eq(ops.op[0].n, 3);
  sp_ops_remove(&ops, 2);
  ck_assert_int_eq(ops.op[0].n, 2);
  ck_assert_uint_eq(ops.n, 3);
  sp_ops_free(&ops);
}
END_TEST

/* All phases of a period are played where ticks are launched, so a period that would take too long is refused. */
START_TEST(a_period_too_long_for_launched_ticks) {
  const sp_sched_input *like = five_tasks();
  sp_sched_task tasks[5];
  sp_sched_input in = *like;
  sp_op op[] = {{SP_OP_CALL, HOST, FILL}, {SP_OP_LAUNCH, A, -1, 0, 0, 2}, {SP_OP_CALL, A, FIRST},
                {SP_OP_CALL, A, THIRD},   {SP_OP_CALL, B, SECOND},        {SP_OP_CALL, FAR, AWAY}};
  int slots[] = {1, 1, 1}, ring[5] = {0};
  sp_ops ops = {.op = op, .n = SP_ARRAY(op), .ring = ring, .n_launch = 1};
  sp_err err;
  memcpy(tasks, like->tasks, sizeof tasks);
  in.tasks = tasks;
  tasks[THIRD].every = 4096;
  ck_assert_int_eq(sp_ops_prove(&ops, &in, slots, &err), SP_E_RANGE);
  ck_has(err.msg, "repeats only after 4096 of them");
  ck_has(err.msg, "--capture lane");
  tasks[THIRD].every = 64;
  ck_assert_int_ne(sp_ops_prove(&ops, &in, slots, &err), SP_E_RANGE);
}
END_TEST

static void every_wait_is_needed(sp_schedule *s, const sp_sched_input *in, uint64_t seed) {
  sp_err err;
  for (size_t t = 0; t < s->n_items; t++)
    for (size_t i = 0; i < s->items[t].n_waits; i++) {
      sp_sched_wait w = s->items[t].waits[i];
      remove_wait(&s->items[t], i);
      ck_assert_msg(sp_schedule_prove(s, in, &err) == SP_E_RACE, "seed %llu: '%s' need not wait for '%s' (%d back)",
                    (unsigned long long)seed, in->tasks[t].name, in->tasks[w.task].name, w.back);
      ck_has(err.msg, "must wait for");
      restore_wait(&s->items[t], i, w);
    }
}

static void every_ring_is_needed(sp_schedule *s, const sp_sched_input *in) {
  sp_err err;
  for (size_t t = 0; t < s->n_items; t++) {
    ck_assert_int_eq(s->items[t].record, s->items[t].ring > 0);
    if (!s->items[t].ring) continue;
    s->items[t].ring--;
    ck_assert_int_eq(sp_schedule_prove(s, in, &err), SP_E_RACE);
    ck_has(err.msg, "events");
    s->items[t].ring++;
  }
}

/* Two slots below the derived count the writer would have to wait for what is submitted after it. */
static size_t every_slot_is_needed(const sp_schedule *s, rs *g) {
  size_t tried = 0;
  for (size_t r = 0; r < g->in.n_resources; r++) {
    int lead = 0, first = -1;
    for (size_t t = 0; t < g->in.n_tasks; t++)
      for (size_t a = 0; a < g->task[t].n_acc; a++)
        if ((size_t)g->task[t].acc[a].resource == r) {
          if (first < 0) first = s->delay[t];
          if (g->task[t].every == 1 && s->delay[t] - first > lead) lead = s->delay[t] - first;
        }
    if (g->res[r].slots || g->res[r].group || s->slots[r] < lead + 1 || lead < 2) continue;
    g->res[r].slots = lead - 1;
    ck_has(refused(&g->in, SP_E_RACE), g->res[r].name);
    g->res[r].slots = 0;
    tried++;
  }
  return tried;
}

START_TEST(random_schedules_are_right_and_minimal) {
  static rs g;
  size_t kept = 0, all = 0, slots = 0;
  for (int k = 0; k < 10; k++) {
    uint64_t seed = (uint64_t)(_i * 10 + k);
    rs_make(&g, seed, 0, 0);
    sp_schedule s;
    sp_err err;
    int st = sp_schedule_derive(&s, &g.in, &err);
    ck_assert_msg(st == SP_OK, "seed %llu: %s", (unsigned long long)seed, err.msg);
    every_wait_is_needed(&s, &g.in, seed);
    every_ring_is_needed(&s, &g.in);
    slots += every_slot_is_needed(&s, &g);
    ck_assert_uint_eq(s.n_waits + implied(&s), s.n_derived);
    kept += s.n_waits;
    all += s.n_derived;
    sp_schedule_free(&s);
  }
  ck_assert(kept > 0 && kept < all);
  ck_assert(slots > 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("schedule");
  TCase *hand = tcase_create("by hand"), *random = tcase_create("random");
  tcase_add_test(hand, one_lane_needs_no_waits);
  tcase_add_test(hand, producer_and_consumer);
  tcase_add_test(hand, extra_slots_and_groups);
  tcase_add_test(hand, encoder_decoder_update);
  tcase_add_test(hand, host_tasks);
  tcase_add_test(hand, knowledge_of_the_host_does_not_outlive_a_drain);
  tcase_add_test(hand, update_every_third_step);
  tcase_add_test(hand, runs_that_never_share_a_slot_need_no_wait);
  tcase_add_test(hand, a_wait_for_other_slots_is_left_out);
  tcase_add_test(hand, steps_in_turns_on_two_lanes);
  tcase_add_test(hand, carried_values_have_one_slot);
  tcase_add_test(hand, consumer_before_producer);
  tcase_add_test(hand, weights_come_back_too_late);
  tcase_add_test(hand, too_few_slots);
  tcase_add_test(hand, host_task_before_its_data);
  tcase_add_test(hand, bad_input);
  tcase_add_test(hand, proof_catches_tampering);
  tcase_add_test(hand, proof_catches_wrong_order);
  tcase_add_test(hand, a_writer_waits_for_the_reader_that_its_lane_runs_last);
  tcase_add_loop_test(hand, malformed_lists_are_refused, 0, SP_ARRAY(malformed));
  tcase_add_test(hand, bodies_are_counted_where_lists_are_changed);
  tcase_add_test(hand, a_period_too_long_for_launched_ticks);
  tcase_add_loop_test(random, random_schedules_are_right_and_minimal, 0, 10);
  tcase_set_timeout(random, 60);
  suite_add_tcase(suite, hand);
  suite_add_tcase(suite, random);
  return suite_run(suite);
}
