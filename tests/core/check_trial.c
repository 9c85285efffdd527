/* SPDX-License-Identifier: MIT
 * check_trial.c - strategies tried before a graph runs: of turns, measurements and failures nothing stays, and what
 * cannot be done is refused. */
#include "tests/kit/graph_kit.h"

#include <math.h>

#include "run/trial.h"

#define W 4
#define STEPS 12

typedef struct net {
  sp_graph *g;
  sp_node *data, *val, *enc, *dec, *loss;
  int asked; /* for learning rates */
} net;

static int lr_of(void *arg, uint64_t step, double *lr, sp_err *err) {
  (void)err;
  ++*(int *)arg;
  *lr = 0.01 / (double)(1 + step);
  return SP_OK;
}

static void make(net *n, const char *device, int capture, int64_t fail_at) {
  sp_err err;
  *n = (net){.g = new_graph((sp_graph_opts){.device = device, .capture = capture, .run_ahead = 2, .prefetch = 2})};
  n->data = source(n->g, "data", 22);
  n->val = source(n->g, "val", 8);
  n->enc =
      wire(n->g, add2(n->g, "toy_mul", "enc", (sp_node_opts){.frozen = true}, "fail_at", fail_at, NULL, 0), n->data);
  n->dec = wire(n->g, mul(n->g, "dec", false), n->enc);
  n->loss = loss_of(n->g, "loss", n->dec);
  sp_ref loss = {n->loss, 0, -1};
  sp_node *opt = add1(n->g, "toy_sgd", "opt", NULL, 0);
  sp_train_opts t = {.losses = &loss, .n_losses = 1, .optimizer = opt, .lr = lr_of, .lr_arg = &n->asked};
  ck_assert_msg(!sp_graph_train(n->g, &t, &err), "%s", err.msg);
}

/* depth 0: all in one lane */
static size_t add_lanes(net *n, int depth) {
  sp_node *one[] = {n->enc, n->dec, n->loss};
  sp_lane_desc d[] = {{{.name = "ahead"}, one, depth ? 1 : 3, NULL},
                      {{.name = "train", .delay = depth}, one + 1, 2, NULL}};
  sp_err err;
  size_t index;
  ck_assert_msg(!sp_trial_add(on(n->g), "mine", d, depth ? 2 : 1, &index, &err), "%s", err.msg);
  return index;
}

typedef struct outcome {
  float loss[STEPS], w[W];
  int asked;
  uint64_t step;
} outcome;

static outcome finish(net *n) {
  outcome o = {0};
  const sp_result *r;
  sp_err err;
  int k = 0;
  ck_assert_msg(!sp_engine_begin(on(n->g), STEPS, &err), "%s", err.msg);
  for (; !sp_engine_next(on(n->g), &r, &err) && r; k++) o.loss[k] = *(const float *)metric(r, "loss")->data;
  ck_assert_int_eq(k, STEPS);
  get(n->g, n->dec, "w", o.w, W);
  o.asked = n->asked;
  o.step = sp_engine_step(on(n->g));
  free_graph(n->g);
  return o;
}

static outcome plain(const char *device, int capture) {
  net n;
  make(&n, device, capture, -1);
  return finish(&n);
}

static const struct {
  const char *device;
  int capture;
} hows[] = {{"cpu", SP_CAPTURE_OFF},
            {"mock", SP_CAPTURE_OFF},
            {"mock", SP_CAPTURE_LANE},
            {"mock", SP_CAPTURE_STEP},
            {"sim", 0}};

START_TEST(leaves_no_trace) {
  for (size_t h = 0; h < SP_ARRAY(hows); h++) {
    outcome want = plain(hows[h].device, hows[h].capture), got;
    net n;
    sp_err err;
    sp_turn turn;
    sp_mem mem, more;
    sp_trial_forecast f;
    make(&n, hows[h].device, hows[h].capture, -1);
    sp_engine *e = on(n.g);
    ck_assert_msg(!sp_trial_begin(e, &err), "%s", err.msg);
    ck_assert_uint_eq(add_lanes(&n, 0), 0);
    ck_assert_uint_eq(add_lanes(&n, 2), 1);
    ck_assert_uint_eq(add_lanes(&n, 0), 0); /* the same as the first */
    ck_assert_msg(!sp_trial_memory(e, 0, &mem, &err) && !sp_trial_memory(e, 1, &more, &err), "%s", err.msg);
    ck_assert_uint_gt(more.total, mem.total);
    for (int round = 0; round < 2; round++)
      for (size_t i = 0; i < 2; i++) {
        ck_assert_msg(!sp_trial_run(e, i, 5, &turn, &err), "%s: %s", hows[h].device, err.msg);
        ck_assert(turn.seconds > 0 && turn.steps >= 5);
        ck_assert_msg(!sp_trial_measure(e, i, 0.01, &err), "%s: %s", hows[h].device, err.msg);
        ck_assert_msg(!sp_trial_predict(e, i, &f, &err), "%s", err.msg);
        ck_assert(f.seconds > 0 && isfinite(f.seconds));
        ck_assert_uint_gt(f.n_lanes, 2);
        if (round == 0 && i == 1) sp_trial_drop(e, 1);
      }
    ck_assert_int_eq(n.asked, 0);
    ck_assert_msg(!sp_trial_end(e, &err), "%s", err.msg);
    sp_schedule_info info;
    ck_assert_msg(!sp_engine_schedule_info(e, &info, &err), "%s", err.msg);
    ck_assert_str_eq(info.strategy, "serialized"); /* of the graph, not "mine" of the candidates */
    got = finish(&n);
    ck_assert_mem_eq(got.loss, want.loss, sizeof got.loss);
    ck_assert_mem_eq(got.w, want.w, sizeof got.w);
    ck_assert_int_eq(got.asked, want.asked);
    ck_assert_uint_eq(got.step, want.step);
  }
}
END_TEST

/* A failure is told with its step; the run meets it again, and a shorter one does not. */
START_TEST(a_stage_fails) {
  for (size_t h = 0; h < SP_ARRAY(hows); h++) {
    outcome want = plain(hows[h].device, hows[h].capture);
    net n;
    sp_err err;
    sp_turn turn;
    make(&n, hows[h].device, hows[h].capture, 60);
    sp_engine *e = on(n.g);
    ck_assert_msg(!sp_trial_begin(e, &err), "%s", err.msg);
    add_lanes(&n, 0);
    ck_assert_msg(!sp_trial_run(e, 0, 2, &turn, &err), "%s", err.msg);
    ck_assert_int_ne(sp_trial_run(e, 0, 100, &turn, &err), SP_OK);
    ck_assert_msg(strstr(err.msg, "stage 'enc'") && strstr(err.msg, "step 61"), "%s", err.msg);
    ck_assert_int_ne(sp_trial_measure(e, 0, 0.01, &err), SP_OK);
    ck_assert_msg(!sp_trial_run(e, 0, 2, &turn, &err), "%s", err.msg); /* built anew */
    ck_assert_msg(!sp_trial_end(e, &err), "%s", err.msg);
    outcome got = finish(&n);
    ck_assert_mem_eq(got.loss, want.loss, sizeof got.loss);
    ck_assert_mem_eq(got.w, want.w, sizeof got.w);
  }
}
END_TEST

START_TEST(what_is_refused) {
  net n;
  sp_err err;
  sp_turn turn;
  sp_mem mem;
  const sp_result *r;
  size_t index;
  make(&n, "cpu", SP_CAPTURE_OFF, -1);
  sp_engine *e = on(n.g);
  sp_node *two[] = {n.enc, n.dec, n.loss};
  sp_lane_desc bad = {{.name = "a"}, two, 2, NULL};
  ck_assert_int_eq(sp_trial_add(e, "none", &bad, 1, &index, &err), SP_E_STATE);
  ck_assert_msg(!sp_trial_begin(e, &err), "%s", err.msg);
  ck_assert_int_eq(sp_trial_add(e, "lacks", &bad, 1, &index, &err), SP_E_INVALID);
  ck_assert_msg(strstr(err.msg, "stage 'loss' is in no lane"), "%s", err.msg);
  ck_assert_int_eq(sp_trial_run(e, 0, 1, &turn, &err), SP_E_STATE);
  add_lanes(&n, 0);
  ck_assert_int_eq(sp_trial_measure(e, 0, 1, &err), SP_E_STATE);
  ck_assert_int_eq(sp_engine_begin(e, 1, &err), SP_E_STATE);
  ck_assert_int_eq(sp_engine_memory(e, &mem, &err), SP_E_STATE);
  ck_assert_int_eq(sp_trial_begin(e, &err), SP_E_STATE);
  ck_assert_msg(!sp_trial_end(e, &err) && !sp_trial_end(e, &err), "%s", err.msg);
  ck_assert_msg(!sp_engine_begin(e, 1, &err) && !sp_engine_next(e, &r, &err), "%s", err.msg);
  ck_assert_int_eq(sp_trial_begin(e, &err), SP_E_STATE);
  free_graph(n.g);
  make(&n, "cpu", SP_CAPTURE_OFF, -1); /* an engine that goes while one is under way */
  ck_assert_msg(!sp_trial_begin(on(n.g), &err), "%s", err.msg);
  add_lanes(&n, 1);
  ck_assert_msg(!sp_trial_run(on(n.g), 0, 1, &turn, &err), "%s", err.msg);
  free_graph(n.g);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {leaves_no_trace, a_stage_fails, what_is_refused};
  return run_tests("trial", tests, sizeof tests / sizeof *tests);
}
