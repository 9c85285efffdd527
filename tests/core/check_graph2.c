/* SPDX-License-Identifier: MIT
 * check_graph2.c - the corners of graphs: fan-out of gradients, outputs that nobody reads, late wires, evaluation that fails,
 * breaks and resumed runs, weight files that do not fit. */
#include "tests/kit/graph_kit.h"

#include <math.h>
#include <spcore/rng.h>
#include <unistd.h>

#define W 4
#define N 4         /* samples in a batch */
#define BIAS 0.001f /* what toy_mul adds in training */

/* ---- gradients by hand ---- */
static void step(sp_graph *g) {
  const sp_result *r;
  sp_err err;
  ck_assert_msg(!sp_engine_begin(on(g), 1, &err), "%s", err.msg);
  ck_assert_msg(!sp_engine_next(on(g), &r, &err) && r, "%s", err.msg);
  ck_assert_msg(!sp_engine_next(on(g), &r, &err) && !r, "%s", err.msg);
}

/* What toy_source gives for samples 0..N-1. */
static void inputs(float *x) {
  for (uint64_t i = 0; i < N; i++)
    for (int k = 0; k < W; k++) x[i * W + (uint64_t)k] = sp_rng_float(sp_rng(3, SP_ID(0, i), 0).v[k]) - 0.4f;
}

static void near_all(const float *got, const double *want, const char *what) {
  for (int k = 0; k < W; k++)
    ck_assert_msg(fabs(got[k] - want[k]) < 1e-6, "%s[%d]: %.8g, wanted %.8g", what, k, got[k], want[k]);
}

/* lr 0.5, no momentum yet in the first step */
static void updated(const float *before, const double *gradient, double *after) {
  for (int k = 0; k < W; k++) after[k] = before[k] - 0.5 * gradient[k];
}

static sp_node *plain_source(sp_graph *g) {
  sp_err err;
  sp_node *n = add2(g, "toy_source", "data", (sp_node_opts){.batch = N, .no_shuffle = true}, "samples", N, NULL, 0);
  ck_assert_msg(!sp_graph_plan(g, n, &err), "%s", err.msg);
  return n;
}

/* p feeds two trained stages, each with a loss of its own: their gradients add up in p. */
START_TEST(two_consumers_two_losses) {
  for (int lanes = 0; lanes < 2; lanes++) {
    sp_graph *g = new_graph((sp_graph_opts){0});
    sp_node *data = plain_source(g), *p = wire(g, mul(g, "p", false), data), *a = wire(g, mul(g, "a", false), p);
    sp_node *b = wire(g, mul(g, "b", false), p), *la = loss_of(g, "la", a), *lb = loss_of(g, "lb", b);
    train(g, la, lb, 0);
    if (lanes) {
      sp_node *one[] = {p, a, la}, *two[] = {b, lb};
      sp_lane_desc d[] = {{{"one", 1, 0}, one, 3, NULL}, {{"two", 1, 0}, two, 2, NULL}};
      sp_err err;
      ck_assert_msg(!sp_graph_strategy(g, "two", d, 2, &err), "%s", err.msg);
    }
    float x[N * W], wp[W], wa[W], wb[W], now[W];
    double dp[W] = {0}, da[W] = {0}, db[W] = {0}, want[W];
    inputs(x);
    get(g, p, "w", wp, W), get(g, a, "w", wa, W), get(g, b, "w", wb, W);
    for (int i = 0; i < N * W; i++) {
      int k = i % W;
      double y = x[i] * wp[k] + BIAS, za = y * wa[k] + BIAS, zb = y * wb[k] + BIAS;
      double ga = 2 * za / (N * W), gb = 2 * zb / (N * W);
      da[k] += ga * y, db[k] += gb * y, dp[k] += (ga * wa[k] + gb * wb[k]) * x[i];
    }
    step(g);
    get(g, p, "w", now, W), updated(wp, dp, want), near_all(now, want, "p");
    get(g, a, "w", now, W), updated(wa, da, want), near_all(now, want, "a");
    get(g, b, "w", now, W), updated(wb, db, want), near_all(now, want, "b");
    free_graph(g);
  }
}
END_TEST

/* The same tensor twice in a LIST, and a third time in a loss of its own. */
START_TEST(one_tensor_three_times) {
  sp_graph *g = new_graph((sp_graph_opts){0});
  sp_node *p = wire(g, mul(g, "p", false), plain_source(g)), *sum = wire2(g, add1(g, "add", "sum", NULL, 0), p, p);
  sp_node *twice = loss_of(g, "twice", sum), *once = loss_of(g, "once", p);
  float x[N * W], wp[W], now[W];
  double dp[W] = {0}, want[W];
  train(g, twice, once, 0);
  inputs(x);
  get(g, p, "w", wp, W);
  for (int i = 0; i < N * W; i++) {
    double y = x[i] * wp[i % W] + BIAS;
    dp[i % W] += (2 * (2 * (2 * y)) + 2 * y) / (N * W) * x[i];
  }
  step(g);
  get(g, p, "w", now, W), updated(wp, dp, want), near_all(now, want, "p");
  free_graph(g);
}
END_TEST

/* A frozen stage between a trained one and the loss passes the gradient on and stays as it is. */
START_TEST(gradient_through_a_frozen_stage) {
  sp_graph *g = new_graph((sp_graph_opts){0});
  sp_node *p = wire(g, mul(g, "p", false), plain_source(g)), *f = wire(g, mul(g, "f", true), p);
  float x[N * W], wp[W], wf[W], now[W], calls;
  double dp[W] = {0}, want[W];
  train(g, loss_of(g, NULL, f), NULL, 0);
  inputs(x);
  get(g, p, "w", wp, W), get(g, f, "w", wf, W);
  for (int i = 0; i < N * W; i++) {
    double z = (x[i] * wp[i % W] + BIAS) * wf[i % W] + BIAS;
    dp[i % W] += 2 * z / (N * W) * wf[i % W] * x[i];
  }
  step(g);
  get(g, p, "w", now, W), updated(wp, dp, want), near_all(now, want, "p");
  get(g, f, "w", now, W);
  ck_assert(!memcmp(now, wf, sizeof wf));
  get(g, f, "steps", &calls, 1);
  ck_assert_float_eq(calls, 0);
  free_graph(g);
}
END_TEST

/* ---- outputs and shapes ---- */
static const int64_t *seen(const sp_result *r, const char *name) { return metric(r, name)->data; }

/* Nobody reads maps and y; the script reads the metrics all the same, also optional ones, also each of a list. */
START_TEST(unread_outputs) {
  sp_graph *g = new_graph((sp_graph_opts){.checksums = true});
  sp_node *data = source(g, "data", 6), *b = wire(g, add1(g, "toy_probe", "b", NULL, 0), data);
  sp_node *c = wire(g, add1(g, "toy_probe", "c", NULL, 0), b); /* reads b.y */
  const sp_result *r;
  sp_err err;
  (void)c;
  ck_assert_msg(!sp_engine_begin(on(g), 4, &err), "%s", err.msg);
  for (int k = 0; k < 4; k++) {
    ck_assert_msg(!sp_engine_next(on(g), &r, &err) && r, "%s", err.msg);
    ck_assert_int_eq(seen(r, "b.seen")[3], 1);
    ck_assert_int_eq(seen(r, "c.seen")[3], 0);
    ck_assert_int_eq(seen(r, "c.seen")[0], k % 2 ? 2 : 4); /* the epoch's last batch has two */
    ck_assert_int_eq(*seen(r, "b.two[1]"), 1);
    ck_assert_int_eq(*seen(r, "c.two[2]"), 2);
  }
  free_graph(g);
}
END_TEST

/* What does not come from the source has no N that changes: beside one, and without any. */
START_TEST(shapes_that_are_no_batch) {
  for (int with = 0; with < 2; with++) {
    sp_graph *g = new_graph((sp_graph_opts){0});
    sp_node *data = with ? source(g, "data", 6) : NULL, *f = add1(g, "toy_fill", "f", "rows", with ? 1 : 8);
    const sp_result *r;
    sp_err err;
    ck_assert(!sp_graph_plan(g, f, &err));
    wire(g, add1(g, "toy_probe", "b", NULL, 0), wire(g, mul(g, "m", true), f));
    if (data) wire(g, add1(g, "toy_probe", "d", NULL, 0), data);
    ck_assert_msg(!sp_engine_begin(on(g), 4, &err), "%s", err.msg);
    for (int k = 0; k < 4; k++) {
      ck_assert_msg(!sp_engine_next(on(g), &r, &err) && r, "%s", err.msg);
      ck_assert_int_eq(seen(r, with ? "b.seen" : "seen")[0], with ? 1 : 8);
      ck_assert_int_eq(seen(r, with ? "b.seen" : "seen")[2], with ? 1 : 8);
      if (with) ck_assert_int_eq(seen(r, "d.seen")[0], k % 2 ? 2 : 4);
    }
    free_graph(g);
  }
}
END_TEST

/* A wire that comes late changes a shape: everything behind it follows. */
START_TEST(late_wire) {
  sp_graph *g = new_graph((sp_graph_opts){0});
  sp_node *data = source(g, "data", 8), *cat = wire(g, add1(g, "concat", "cat", NULL, 0), data);
  sp_node *b = wire(g, add1(g, "toy_probe", "b", NULL, 0), cat);
  const sp_result *r;
  sp_err err;
  (void)b;
  sp_node *late = wire(g, mul(g, "late", true), data);
  ck_assert_msg(!sp_graph_wire(g, cat, 0, (sp_ref){late, 0, -1}, &err), "%s", err.msg);
  ck_assert_msg(!sp_engine_begin(on(g), 2, &err), "%s", err.msg);
  ck_assert_msg(!sp_engine_next(on(g), &r, &err) && r, "%s", err.msg);
  ck_assert_int_eq(seen(r, "seen")[1], 2 * W);
  free_graph(g);
}
END_TEST

START_TEST(giant_shapes_are_refused) {
  sp_graph *g = new_graph((sp_graph_opts){0});
  sp_node *f = add1(g, "toy_fill", "f", "rows", INT64_C(4000000000000));
  sp_err err;
  ck_assert(!sp_graph_plan(g, f, &err));
  ck_assert_int_eq(sp_engine_build(on(g), &err), SP_E_NOMEM);
  ck_assert_msg(strstr(err.msg, "the graph needs ") && strstr(err.msg, "'f.y'"), "%s", err.msg);
  free_graph(g);
}
END_TEST

/* ---- what is refused ---- */
START_TEST(refused) {
  sp_graph *g = new_graph((sp_graph_opts){0}), *other = new_graph((sp_graph_opts){0});
  sp_node *data = source(g, "data", 8), *m = wire(g, mul(g, "m", false), data),
          *s = add1(g, "toy_probe", "s", "state", 1);
  sp_node *l = loss_of(g, "l", wire(g, mul(g, "d", false), m));
  sp_node *foreign = add1(other, "toy_sgd", "x", NULL, 0);
  sp_node *lane[] = {m, sp_graph_find(g, "d"), l}, *ahead[] = {s};
  sp_lane_desc d[] = {{{"train", 1, 0}, lane, 3, NULL}, {{"ahead", 0, 0}, ahead, 1, NULL}};
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
  d[1] = (sp_lane_desc){{"ahead", 1, 0}, late, 3, NULL};
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
    sp_lane_desc d[] = {{{"ahead", 0, 0}, a, 1, NULL}, {{"train", 3, 0}, t, 2, NULL}};
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
    snprintf(path, sizeof path, "/tmp/sp_graph2_%d.safetensors", (int)getpid()); /* the weights are not lost */
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
    sp_lane_desc d[] = {{{"ahead", 0, 0}, a, 1, NULL}, {{"train", 3, 0}, t, 2, NULL}};
    ck_assert(!sp_graph_strategy(g, "split", d, 2, &err));
    ck_assert(!sp_engine_begin(on(g), 20, &err));
    for (int s = 0; s < 3; s++) ck_assert(!sp_engine_next(on(g), &r, &err) && r);
    ck_assert_int_eq(sp_engine_next(on(g), &r, &err), SP_E_DATA);
    ck_assert_msg(strstr(err.msg, "stage 'l' step 3: sample"), "%s", err.msg);
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
  ck_assert_msg(!sp_engine_evaluate(on(g), a, ignore, &batches, &err) && !sp_engine_evaluate(on(g), b, ignore, &batches, &err),
                "%s", err.msg);
  before = sp_engine_allocations(on(g));
  for (int k = 0; k < 3; k++) ck_assert(!sp_engine_evaluate(on(g), k % 2 ? b : a, ignore, &batches, &err));
  ck_assert_uint_eq(sp_engine_allocations(on(g)), before);
  ck_assert_int_eq(batches, 2 + 3 + 2 + 3 + 2);
  free_graph(g);
}
END_TEST

/* ---- breaks and files ---- */
typedef struct {
  int depth, accumulate, run_ahead;
  bool unfrozen;
} plan;

typedef struct {
  sp_graph *g;
  sp_node *enc, *dec, *opt;
} net;

static net make(plan p) {
  net n = {.g = new_graph((sp_graph_opts){.run_ahead = p.run_ahead, .prefetch = 1 + p.depth % 3})};
  n.enc = wire(n.g, mul(n.g, "enc", !p.unfrozen), source(n.g, "data", 22));
  n.dec = wire(n.g, mul(n.g, "dec", false), n.enc);
  sp_node *l = loss_of(n.g, "l", n.dec);
  n.opt = train(n.g, l, NULL, p.accumulate);
  sp_node *a[] = {n.enc}, *t[] = {n.dec, l};
  sp_lane_desc d[] = {{{"a", p.unfrozen ? p.depth : 0, 0}, a, 1, NULL}, {{"t", p.depth, 0}, t, 2, NULL}};
  sp_err err;
  if (p.depth) ck_assert_msg(!sp_graph_strategy(n.g, "s", d, 2, &err), "%s", err.msg);
  return n;
}

static void all_weights(net *n, float *w) {
  get(n->g, n->enc, "w", w, W), get(n->g, n->dec, "w", w + W, W), get(n->g, n->dec, "steps", w + 2 * W, 1);
}

/* To the end, or `stop` results; then a break. */
static void go(net *n, uint64_t steps, int stop) {
  const sp_result *r;
  sp_err err;
  ck_assert_msg(!sp_engine_begin(on(n->g), steps, &err), "%s", err.msg);
  for (int k = 0; k != stop; k++) {
    ck_assert_msg(!sp_engine_next(on(n->g), &r, &err), "%s", err.msg);
    if (!r) return;
  }
  ck_assert_msg(!sp_engine_stop(on(n->g), &err), "%s", err.msg);
}

START_TEST(breaks_change_nothing) {
  for (int unfrozen = 0; unfrozen < 2; unfrozen++)
    for (int accumulate = 1; accumulate <= 3; accumulate++) {
      float want[2 * W + 1], got[2 * W + 1];
      net a = make((plan){.accumulate = accumulate, .unfrozen = unfrozen});
      go(&a, 30, -1);
      all_weights(&a, want);
      free_graph(a.g);
      for (int depth = 0; depth <= 5; depth += depth < 3 ? 1 : 2)
        for (int ahead = 0; ahead < 4; ahead += 3) {
          net b = make((plan){.depth = depth, .accumulate = accumulate, .run_ahead = ahead, .unfrozen = unfrozen});
          go(&b, 0, 0); /* a break before anything was seen */
          ck_assert_uint_eq(sp_engine_step(on(b.g)), 0);
          go(&b, 0, 1);
          ck_assert_uint_eq(sp_engine_step(on(b.g)), (uint64_t)(1 + ahead));
          go(&b, 2, -1); /* fewer steps than the depth */
          go(&b, 0, 7);
          ck_assert_uint_eq(sp_engine_step(on(b.g)), (uint64_t)(10 + 2 * ahead));
          go(&b, 30 - sp_engine_step(on(b.g)), -1);
          all_weights(&b, got);
          ck_assert_msg(!memcmp(want, got, sizeof got), "depth %d, run_ahead %d, accumulate %d: other bits", depth,
                        ahead, accumulate);
          free_graph(b.g);
        }
    }
}
END_TEST

/* Between two updates the rate of the last one is told, the same everywhere. */
START_TEST(rate_between_updates) {
  for (int depth = 0; depth < 3; depth++) {
    net n = make((plan){.depth = depth, .accumulate = 3, .run_ahead = 2});
    const sp_result *r;
    sp_err err;
    ck_assert(!sp_engine_begin(on(n.g), 30, &err));
    for (int k = 0; k < 30; k++) {
      ck_assert(!sp_engine_next(on(n.g), &r, &err) && r);
      ck_assert_int_eq(r->updated, k % 3 == 2);
      ck_assert_double_eq(r->lr, k < 5 ? 0.5 : 0.25);
      if (k == 1) ck_assert(!sp_node_set_live(n.opt, "lr", 0.25, &err));
    }
    free_graph(n.g);
  }
}
END_TEST

static char path[300];
static void make_path(void) {
  const char *tmp = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/sp_graph2_%d.safetensors", tmp && strlen(tmp) < 200 ? tmp : "/tmp", (int)getpid());
}

START_TEST(resume_from_a_file) {
  float want[2 * W + 1], got[2 * W + 1];
  sp_err err;
  make_path();
  for (int accumulate = 1; accumulate <= 2; accumulate++) {
    plan p = {.depth = 2, .run_ahead = 1, .accumulate = accumulate};
    net a = make(p);
    go(&a, 10, -1);
    ck_assert_msg(!sp_engine_save(on(a.g), path, true, &err), "%s", err.msg);
    go(&a, 20, -1);
    all_weights(&a, want);
    free_graph(a.g);
    for (int seek_first = 0; seek_first < 2; seek_first++) {
      net b = make(p);
      if (seek_first) ck_assert_msg(!sp_engine_seek(on(b.g), 10, &err), "%s", err.msg);
      ck_assert_msg(!sp_engine_load(on(b.g), NULL, path, &err), "%s", err.msg);
      if (!seek_first) ck_assert_msg(!sp_engine_seek(on(b.g), 10, &err), "%s", err.msg);
      sp_node *all[] = {b.enc, b.dec, sp_graph_find(b.g, "l")}; /* a strategy may still be chosen */
      sp_lane_desc d = {{"one", 0, 0}, all, 3, NULL};
      ck_assert_msg(!sp_graph_strategy(b.g, "one", &d, 1, &err), "%s", err.msg);
      ck_assert_uint_eq(sp_engine_step(on(b.g)), 10);
      go(&b, 20, -1);
      all_weights(&b, got);
      ck_assert_msg(!memcmp(want, got, sizeof got), "a resumed run has other bits");
      if (accumulate == 2) { /* half a sum of gradients is in no file */
        ck_assert(!sp_engine_seek(on(b.g), 31, &err));
        ck_assert_int_eq(sp_engine_begin(on(b.g), 1, &err), SP_E_RANGE);
        ck_assert_msg(strstr(err.msg, "31") && strstr(err.msg, "accumulate = 2"), "%s", err.msg);
      }
      free_graph(b.g);
    }
  }
  unlink(path);
}
END_TEST

static void put_file(const char *header, size_t data) {
  FILE *f = fopen(path, "wb");
  uint64_t n = strlen(header);
  ck_assert_ptr_nonnull(f);
  for (int i = 0; i < 8; i++) fputc((int)(n >> 8 * i & 255), f);
  fputs(header, f);
  for (size_t i = 0; i < data; i++) fputc(0, f);
  fclose(f);
}

START_TEST(files_that_do_not_fit) {
  sp_err err;
  net n = make((plan){0});
  make_path();
  put_file("{\"enc.w\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,20]},"
           "\"enc.extra\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[20,24]},"
           "\"else.w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}",
           28);
  ck_assert_int_eq(sp_engine_load(on(n.g), n.enc, path, &err), SP_E_SHAPE);
  ck_assert_msg(strstr(err.msg, path) && strstr(err.msg, "1 missing: enc.steps") &&
                    strstr(err.msg, "1 unexpected: enc.extra") &&
                    strstr(err.msg, "1 of another shape: enc.w is float32[5], wanted float32[4]"),
                "%s", err.msg);
  ck_assert_int_eq(sp_engine_load(on(n.g), NULL, path, &err), SP_E_SHAPE);
  ck_assert_msg(strstr(err.msg, "3 missing: enc.steps, dec.w, dec.steps") &&
                    strstr(err.msg, "2 unexpected: enc.extra, else.w") && strstr(err.msg, "1 of another shape: enc.w"),
                "%s", err.msg);
  put_file("{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
           "\"steps\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[16,20]}}",
           20);
  ck_assert_msg(!sp_engine_load(on(n.g), n.dec, path, &err), "%s", err.msg); /* bare names */
  ck_assert_int_eq(sp_engine_load(on(n.g), NULL, path, &err), SP_E_SHAPE);
  float w[W];
  get(n.g, n.dec, "w", w, W);
  for (int k = 0; k < W; k++) ck_assert_float_eq(w[k], 0);
  put_file("{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
           "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[16,20]}}",
           20);
  ck_assert_int_eq(sp_engine_load(on(n.g), n.dec, path, &err), SP_E_SHAPE);
  ck_assert_msg(strstr(err.msg, "1 missing: steps; 1 unexpected: x"), "%s", err.msg);
  free_graph(n.g);
  unlink(path);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {two_consumers_two_losses,
                                one_tensor_three_times,
                                gradient_through_a_frozen_stage,
                                unread_outputs,
                                shapes_that_are_no_batch,
                                late_wire,
                                giant_shapes_are_refused,
                                refused,
                                options_are_copied,
                                build_that_fails_can_be_tried_again,
                                evaluation_fails_in_a_loop,
                                first_failure_is_told,
                                two_evaluations_in_turns_allocate_once,
                                breaks_change_nothing,
                                rate_between_updates,
                                resume_from_a_file,
                                files_that_do_not_fit};
  return run_tests("graph2", tests, sizeof tests / sizeof *tests);
}
