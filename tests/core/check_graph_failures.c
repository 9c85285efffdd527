/* SPDX-License-Identifier: MIT
 * check_graph_failures.c - what a graph refuses, options, a build and an evaluation that fail,
 * and which failure is told. */
#include <unistd.h>

#include "tests/kit/graph_kit.h"

#define W 4

/* ---- what is refused ---- */
START_TEST(refused) {
  sp_graph *g = new_graph((sp_graph_opts){0}), *other = new_graph((sp_graph_opts){0});
  sp_node *data = source(g, "data", 8), *m = wire(g, mul(g, "m", false), data),
          *s = add1(g, "toy_probe", "s", "state", 1);
  sp_node *l = loss_of(g, "l", wire(g, mul(g, "d", false), m));
  sp_node *foreign = add1(other, "toy_sgd", "x", NULL, 0);
  sp_node *lane[] = {m, sp_graph_find(g, "d"), l}, *ahead[] = {s};
  sp_lane_desc d[] = {{{.name = "train", .delay = 1}, lane, 3, NULL}, {{.name = "ahead", .delay = 0}, ahead, 1, NULL}};
  sp_ref ref = {l, 0, -1};
  const sp_result *r;
  sp_err err;
  wire(g, s, data);
  ck_assert_int_eq(sp_graph_train(g, &(sp_train_opts){.losses = &ref, .n_losses = 1, .optimizer = foreign}, &err),
                   SP_E_INVALID);
  ck_assert_msg(strstr(err.msg, "another graph"), "%s", err.msg);
  train(g, l, NULL, 0);
  /* its statistics would be ahead of the weights whenever a run is evaluated, saved or stopped */
  ck_assert_int_eq(sp_graph_strategy(g, "mine", d, 2, &err), SP_E_RACE);
  ck_assert_msg(strstr(err.msg, "'s' (lane 'ahead', delay 0)"), "%s", err.msg);
  ck_assert_int_eq(sp_graph_wire(g, s, 7, (sp_ref){m, 0, -1}, &err), SP_E_INVALID);
  ck_assert_int_eq(sp_graph_wire(g, s, 0, (sp_ref){m, 9, -1}, &err), SP_E_INVALID);
  d[1].props.delay = 1;
  ck_assert_msg(!sp_graph_strategy(g, "mine", d, 2, &err), "%s", err.msg);
  sp_node *more = wire(g, add1(g, "toy_probe", "more", NULL, 0), data); /* after the strategy: in none of its lanes */
  ck_assert(!sp_graph_in_trained_part(g, more));
  ck_assert(sp_graph_in_trained_part(g, s) &&
            sp_graph_in_trained_part(g, wire(g, add1(g, "toy_probe", "after", NULL, 0), m)));
  ck_assert_int_eq(sp_engine_build(on(g), &err), SP_E_INVALID);
  ck_assert_msg(strstr(err.msg, "'more' is in no lane"), "%s", err.msg);
  sp_node *late[] = {s, more, sp_graph_find(g, "after")};
  d[1] = (sp_lane_desc){{.name = "ahead", .delay = 1}, late, 3, NULL};
  ck_assert_msg(!sp_graph_strategy(g, "mine", d, 2, &err), "%s", err.msg);
  ck_assert_msg(!sp_engine_begin(on(g), 2, &err), "%s", err.msg);
  ck_assert(!sp_engine_next(on(g), &r, &err));
  ck_assert_int_eq(sp_node_set_live(more, "gain", 0.5, &err), SP_E_STATE);
  ck_assert_int_eq(sp_node_set_live(s, "gain", 0.5, &err), SP_E_STATE);
  ck_assert_int_eq(sp_engine_begin(on(g), 2, &err), SP_E_STATE);
  ck_assert_int_eq(sp_engine_seek(on(g), 4, &err), SP_E_STATE);
  free_graph(g);
  free_graph(other);
}
END_TEST

/* The options' words may go after sp_engine_new(). */
START_TEST(options_are_copied) {
  char device[] = "cpu", init[] = "torch";
  sp_graph *g = new_graph((sp_graph_opts){.device = device, .init = init});
  memset(device, 'x', 3), memset(init, 'x', 5);
  float w[W];
  get(g, wire(g, mul(g, "m", true), source(g, "data", 4)), "w", w, W);
  ck_assert_str_eq(sp_graph_options(g)->device, "cpu");
  ck_assert_str_eq(sp_graph_options(g)->init, "torch");
  free_graph(g);
}
END_TEST

/* ---- failures ---- */
START_TEST(build_that_fails_can_be_tried_again) {
  sp_graph *g = new_graph((sp_graph_opts){.pinned = 4096});
  sp_err err;
  wire(g, mul(g, "m", true), source(g, "data", 8));
  for (int k = 0; k < 2; k++) {
    ck_assert_int_eq(sp_engine_begin(on(g), 1, &err), SP_E_NOMEM);
    ck_assert_msg(strstr(err.msg, "--pinned"), "%s", err.msg);
  }
  free_graph(g);
}
END_TEST

static int ignore(void *arg, const sp_result *r, sp_err *err) {
  (void)r, (void)err;
  ++*(int *)arg;
  return SP_OK;
}

/* A stage that fails in an evaluation within a loop ends the loop too: no hang, and no step after it. */
START_TEST(evaluation_fails_in_a_loop) {
  for (int split = 0; split < 2; split++) {
    sp_graph *g = new_graph((sp_graph_opts){.run_ahead = 2});
    sp_node *data = source(g, "data", 22), *val = source(g, "val", 10),
            *enc = add2(g, "toy_mul", "enc", (sp_node_opts){.frozen = true}, "fail_eval", 2, NULL, 0);
    sp_node *dec = wire(g, mul(g, "dec", false), wire(g, enc, data)), *l = loss_of(g, NULL, dec);
    const sp_result *r;
    sp_err err;
    int batches = 0;
    char path[64];
    train(g, l, NULL, 0);
    sp_node *a[] = {enc}, *t[] = {dec, l};
    sp_lane_desc d[] = {{{.name = "ahead", .delay = 0}, a, 1, NULL}, {{.name = "train", .delay = 3}, t, 2, NULL}};
    if (split) ck_assert(!sp_graph_strategy(g, "split", d, 2, &err));
    ck_assert(!sp_engine_begin(on(g), 20, &err));
    for (int k = 0; k < 5; k++) ck_assert(!sp_engine_next(on(g), &r, &err) && r);
    ck_assert_int_eq(sp_engine_evaluate(on(g), val, ignore, &batches, &err), SP_E_DATA);
    ck_assert_int_eq(batches, 2);
    ck_assert_msg(strstr(err.msg, "'enc'") && strstr(err.msg, "in evaluation"), "%s", err.msg);
    for (int k = 0; k < 2; k++) {
      ck_assert_int_eq(sp_engine_next(on(g), &r, &err), SP_E_DATA);
      ck_assert_msg(!r && strstr(err.msg, "in evaluation"), "%s", err.msg);
    }
    ck_assert_int_eq(sp_engine_stop(on(g), &err), SP_OK);
    ck_assert_int_eq(sp_engine_begin(on(g), 1, &err), SP_E_STATE);
    ck_assert_int_eq(sp_engine_evaluate(on(g), val, ignore, &batches, &err), SP_E_DATA);
    snprintf(path, sizeof path, "/tmp/sp_failures_%d.safetensors", (int)getpid()); /* the weights are not lost */
    ck_assert_msg(!sp_engine_save(on(g), path, true, &err), "%s", err.msg);
    unlink(path);
    free_graph(g);
  }
}
END_TEST

/* Of two failures the one of the earlier step is told, whichever came first in time. */
START_TEST(first_failure_is_told) {
  for (int k = 0; k < 20; k++) {
    sp_graph *g = new_graph((sp_graph_opts){.run_ahead = 3});
    sp_node *enc = add2(g, "toy_mul", "enc", (sp_node_opts){.frozen = true}, "fail_at", 5, NULL, 0);
    sp_node *dec = wire(g, mul(g, "dec", false), wire(g, enc, source(g, "data", 22)));
    sp_node *l = wire(g, add1(g, "toy_loss", "l", "bad_at", 3), dec);
    const sp_result *r;
    sp_err err;
    train(g, l, NULL, 0);
    sp_node *a[] = {enc}, *t[] = {dec, l};
    sp_lane_desc d[] = {{{.name = "ahead", .delay = 0}, a, 1, NULL}, {{.name = "train", .delay = 3}, t, 2, NULL}};
    ck_assert(!sp_graph_strategy(g, "split", d, 2, &err));
    ck_assert(!sp_engine_begin(on(g), 20, &err));
    for (int s = 0; s < 3; s++) ck_assert(!sp_engine_next(on(g), &r, &err) && r);
    ck_assert_int_eq(sp_engine_next(on(g), &r, &err), SP_E_DATA);
    ck_assert_msg(strstr(err.msg, "stage 'l' step 4: sample"), "%s", err.msg);
    free_graph(g);
  }
}
END_TEST

/* A stage on a lane behind the trained part fails at step 8. Whoever looks at weights gets that when 6 steps were seen,
 * as the steps up to 8 have run then, whatever the lane's delay is; whoever does not when step 8 comes. */
START_TEST(a_failure_on_a_lane_behind_is_told_where_serialized_tells_it) {
  static const struct {
    const char *device;
    sp_capture capture;
  } on_device[] = {
      {"cpu", SP_CAPTURE_OFF}, {"mock", SP_CAPTURE_OFF}, {"mock", SP_CAPTURE_LANE}, {"mock", SP_CAPTURE_STEP}};
  enum { AHEAD = 3, AT = 8 };
  for (int k = 0; k < 4 * 4 * 2; k++) {
    int lag = k % 4, looks = k / 4 % 2, seen = 0, status = SP_OK;
    sp_graph *g = new_graph((sp_graph_opts){
        .run_ahead = AHEAD, .device = on_device[k / 8].device, .capture = on_device[k / 8].capture});
    sp_node *dec = wire(g, mul(g, "dec", false), source(g, "data", 22)), *l = loss_of(g, "l", dec);
    sp_node *late = wire(g, add2(g, "toy_mul", "late", (sp_node_opts){.frozen = true}, "fail_at", AT, NULL, 0), dec);
    sp_node *watch = wire(g, add1(g, "toy_probe", "watch", NULL, 0), dec);
    sp_node *t[] = {dec, l}, *b[] = {late, watch};
    sp_lane_desc d[] = {{{.name = "train", .delay = 1}, t, 2, NULL},
                        {{.name = "behind", .delay = 1 + lag}, b, 2, NULL}};
    const sp_result *r;
    float w[W];
    sp_spec spec;
    sp_err err;
    train(g, l, NULL, 0);
    ck_assert_msg(!sp_graph_strategy(g, "split", d, 2, &err), "%s", err.msg);
    ck_assert_msg(!sp_engine_begin(on(g), 20, &err), "%s", err.msg);
    while (!status && !(status = sp_engine_next(on(g), &r, &err))) {
      ck_assert_msg(r != NULL, "%s, %d behind: no failure in 20 steps", on_device[k / 8].device, lag);
      ck_assert_uint_eq(r->step, seen++);
      if (looks) status = sp_engine_weight(on(g), dec, "w", &spec, w, sizeof w, &err);
    }
    ck_assert_int_eq(status, SP_E_DATA);
    ck_assert_msg(strstr(err.msg, "'late'") && strstr(err.msg, "step 9: asked to fail"), "%s", err.msg);
    ck_assert_int_eq(seen, looks ? AT - AHEAD + 1 : AT);
    free_graph(g);
  }
}
END_TEST

/* Two stages fail at one step, in lanes that know nothing of each other. The one that comes first in serialized order
 * is on the lane behind: it runs all the same, and is told, also where the host knows of the other one before its
 * tick. */
START_TEST(the_first_of_two_on_other_lanes_is_told) {
  static const char *const devices[] = {"cpu", "mock"};
  for (int k = 0; k < 2 * 2 * 10; k++) {
    sp_graph *g = new_graph((sp_graph_opts){.run_ahead = 1 + k / 2 % 2, .device = devices[k % 2]});
    sp_node *data = source(g, "data", 22);
    sp_node *first = wire(g, add2(g, "toy_mul", "first", (sp_node_opts){.frozen = true}, "fail_at", 0, NULL, 0), data);
    sp_node *dec = wire(g, mul(g, "dec", false), data);
    sp_node *second = wire(g, add2(g, "toy_mul", "second", (sp_node_opts){.frozen = true}, "fail_at", 0, NULL, 0), dec);
    sp_node *l = loss_of(g, "l", dec);
    sp_node *t[] = {dec, second, l}, *b[] = {first};
    sp_lane_desc d[] = {{{.name = "train", .delay = 0}, t, 3, NULL},
                        {{.name = "behind", .delay = 1 + k / 2 % 2}, b, 1, NULL}};
    const sp_result *r;
    sp_err err;
    int status = SP_OK;
    train(g, l, NULL, 0);
    ck_assert_msg(!sp_graph_strategy(g, "split", d, 2, &err), "%s", err.msg);
    ck_assert_msg(!sp_engine_begin(on(g), 1, &err), "%s", err.msg);
    while (!status && !(status = sp_engine_next(on(g), &r, &err)) && r) continue;
    ck_assert_int_eq(status, SP_E_DATA);
    ck_assert_msg(strstr(err.msg, "'first'") != NULL, "%s", err.msg);
    free_graph(g);
  }
}
END_TEST

START_TEST(two_evaluations_in_turns_allocate_once) {
  sp_graph *g = new_graph((sp_graph_opts){0});
  sp_node *data = source(g, "data", 8), *a = source(g, "a", 8), *b = source(g, "b", 10);
  sp_err err;
  uint64_t before;
  int batches = 0;
  wire(g, mul(g, "m", true), data);
  uint64_t steps;
  ck_assert(!sp_engine_epoch_steps(on(g), &steps, &err)); /* known before the first step */
  ck_assert_uint_eq(steps, 2);
  ck_assert_msg(!sp_engine_evaluate(on(g), a, ignore, &batches, &err) &&
                    !sp_engine_evaluate(on(g), b, ignore, &batches, &err),
                "%s", err.msg);
  before = sp_engine_allocations(on(g));
  for (int k = 0; k < 3; k++) ck_assert(!sp_engine_evaluate(on(g), k % 2 ? b : a, ignore, &batches, &err));
  ck_assert_uint_eq(sp_engine_allocations(on(g)), before);
  ck_assert_int_eq(batches, 2 + 3 + 2 + 3 + 2);
  free_graph(g);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {refused,
                                options_are_copied,
                                build_that_fails_can_be_tried_again,
                                evaluation_fails_in_a_loop,
                                first_failure_is_told,
                                a_failure_on_a_lane_behind_is_told_where_serialized_tells_it,
                                the_first_of_two_on_other_lanes_is_told,
                                two_evaluations_in_turns_allocate_once};
  return run_tests("graph_failures", tests, sizeof tests / sizeof *tests);
}
