/* SPDX-License-Identifier: MIT
 * check_graph_gradients.c - gradients by hand, where a tensor fans out and behind a frozen stage. */
#include <math.h>
#include <spcore/rng.h>

#include "tests/kit/graph_kit.h"

#define W 4
#define N 4         /* samples in a batch */
#define BIAS 0.001f /* what toy_mul adds in training */

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
      sp_lane_desc d[] = {{{.name = "one", .delay = 1}, one, 3, NULL}, {{.name = "two", .delay = 1}, two, 2, NULL}};
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

int main(void) {
  const TTest *const tests[] = {two_consumers_two_losses, one_tensor_three_times, gradient_through_a_frozen_stage};
  return run_tests("graph_gradients", tests, sizeof tests / sizeof *tests);
}
