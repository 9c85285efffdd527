/* SPDX-License-Identifier: MIT
 * check_optim.c - optimizers: formulas, clipping, state, and the same bits for any team. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <check.h>

#include "tests/kit/harness.h"
#include "tests/kit/suite.h"

enum { GRADIENTS = 0, WEIGHTS = 0, NORM = 1, SKIPPED = 2 };
enum { BIG = 50001, SMALL = 5 };

static spt *t;
static float g0[BIG], g1[SMALL], p0[BIG], p1[SMALL], got[BIG];

static void ok(int rc) { ck_assert_msg(rc == SP_OK, "%s", spt_error(t)); }

static void teardown(void) {
  spt_free(t);
  t = NULL;
}

/* Two tensors, of several chunks and of one. */
static void open_stage(const char *name, const char *params, int threads) {
  int64_t big[1] = {BIG}, small[1] = {SMALL};
  spt_random(g0, BIG, 1, -2, 2), spt_random(g1, SMALL, 2, -2, 2);
  spt_random(p0, BIG, 3, -1, 1), spt_random(p1, SMALL, 4, -1, 1);
  spt_free(t);
  t = spt_new(name, params, threads);
  ok(spt_failed(t));
  ok(spt_input_of(t, GRADIENTS, SP_F32, 1, big, 0, g0));
  ok(spt_input_of(t, GRADIENTS, SP_F32, 1, small, 0, g1));
  ok(spt_plan(t, 1));
  ok(spt_set(t, SPT_OUT, WEIGHTS, 0, p0));
  ok(spt_set(t, SPT_OUT, WEIGHTS, 1, p1));
}

static double global_norm(void) {
  double sum = 0;
  for (int i = 0; i < BIG; i++) sum += (double)g0[i] * g0[i];
  for (int i = 0; i < SMALL; i++) sum += (double)g1[i] * g1[i];
  return sqrt(sum);
}

START_TEST(sgd_is_one_fused_operation) {
  open_stage("sgd", NULL, 2);
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_OUT, WEIGHTS, 0, got));
  for (int i = 0; i < BIG; i++) ck_assert_float_eq(got[i], fmaf(-1e-3f, g0[i], p0[i]));
  ok(spt_get(t, SPT_OUT, WEIGHTS, 1, got));
  for (int i = 0; i < SMALL; i++) ck_assert_float_eq(got[i], fmaf(-1e-3f, g1[i], p1[i]));
}
END_TEST

/* Of the first tensor a tenth of the rate and no decay, of the second twice the decay. */
START_TEST(groups_have_factors) {
  static const sp_group groups[] = {{0.1, 0, 0}, {1, 2, 0}};
  spt_set_groups(t = spt_new("sgd", "{ lr = 0.5, weight_decay = 0.25 }", 2), 2, groups);
  spt_random(g0, BIG, 1, -2, 2), spt_random(g1, SMALL, 2, -2, 2);
  spt_random(p0, BIG, 3, -1, 1), spt_random(p1, SMALL, 4, -1, 1);
  int64_t big[1] = {BIG}, small[1] = {SMALL};
  ok(spt_input_of(t, GRADIENTS, SP_F32, 1, big, 0, g0));
  ok(spt_input_of(t, GRADIENTS, SP_F32, 1, small, 0, g1));
  ok(spt_plan(t, 1));
  ck_assert_int_eq(spt_inplace(t), 0);
  ok(spt_set(t, SPT_OUT, WEIGHTS, 0, p0));
  ok(spt_set(t, SPT_OUT, WEIGHTS, 1, p1));
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_OUT, WEIGHTS, 0, got));
  for (int i = 0; i < BIG; i++) ck_assert_float_eq(got[i], fmaf(-(float)(0.5 * 0.1), g0[i], p0[i]));
  ok(spt_get(t, SPT_OUT, WEIGHTS, 1, got));
  for (int i = 0; i < SMALL; i++) ck_assert_float_eq(got[i], fmaf(-0.5f, fmaf(0.5f, p1[i], g1[i]), p1[i]));
}
END_TEST

/* Six updates of the first tensor, and one of the second, which is trained since a later phase. */
START_TEST(phases_count_for_themselves) {
  static const sp_group groups[] = {{1, 1, 0}, {1, 1, 1}};
  static const struct {
    const char *stage, *params;
  } of[] = {{"sgd", "{ lr = 0.5, momentum = 0.5, dampening = 0.25, ema = 0.5 }"},
            {"adamw", "{ lr = 0.5, weight_decay = 0, ema = 0.5 }"}};
  spt_random(g1, SMALL, 2, -2, 2), spt_random(p1, SMALL, 4, -1, 1);
  for (int k = 0; k < 2; k++) {
    int64_t small[1] = {SMALL}, five = 5, count;
    float other[SMALL];
    spt_set_groups(t = spt_new(of[k].stage, of[k].params, 2), 2, groups);
    for (int i = 0; i < 2; i++) ok(spt_input_of(t, GRADIENTS, SP_F32, 1, small, 0, g1));
    ok(spt_plan(t, 1));
    for (int i = 0; i < 2; i++) ok(spt_set(t, SPT_OUT, WEIGHTS, i, p1));
    int step = spt_weight_index(t, "step"), later = spt_weight_index(t, "phase_steps");
    ok(spt_set(t, SPT_WEIGHT, 0, step, &five));
    ok(spt_forward(t, 0));
    ok(spt_get(t, SPT_WEIGHT, 0, step, &count));
    ck_assert_int_eq(count, 6);
    ok(spt_get(t, SPT_WEIGHT, 0, later, &count));
    ck_assert_int_eq(count, 1);
    ok(spt_get(t, SPT_OUT, WEIGHTS, 0, other));
    ok(spt_get(t, SPT_OUT, WEIGHTS, 1, got));
    for (int i = 0; i < SMALL; i++) {
      float g = g1[i], keep = 0.75f, m = 0.1f * g, v = 0.001f * g * g, late = 0.5f * m / (float)(1 - pow(0.9, 6));
      float first = k ? p1[i] - 0.5f * g / (fabsf(g) + 1e-8f) : p1[i] - 0.5f * g;
      float sixth = k ? p1[i] - late / (sqrtf(v) / sqrtf((float)(1 - pow(0.999, 6))) + 1e-8f) : p1[i] - 0.5f * keep * g;
      ck_assert_float_eq_tol(got[i], first, 1e-5f);
      ck_assert_float_eq_tol(other[i], sixth, 1e-5f);
    }
    float average[SMALL]; /* the first copies */
    ok(spt_get(t, SPT_WEIGHT, 0, step - 1, average));
    ck_assert_mem_eq(average, got, sizeof got[0] * SMALL);
    teardown();
  }
}
END_TEST

START_TEST(one_rate_for_all_may_run_in_place) {
  static const sp_group decay[] = {{1, 0, 0}, {1, 2, 0}}, rate[] = {{1, 1, 0}, {0.5, 1, 0}};
  for (int k = 0; k < 2; k++) {
    int64_t small[1] = {SMALL};
    spt_set_groups(t = spt_new("sgd", NULL, 1), 2, k ? rate : decay);
    for (int i = 0; i < 2; i++) ok(spt_input_of(t, GRADIENTS, SP_F32, 1, small, 0, g1));
    ok(spt_plan(t, 1));
    ck_assert_int_eq(spt_inplace(t), !k);
    teardown();
  }
}
END_TEST

START_TEST(sgd_learning_rate_is_live) {
  open_stage("sgd", "{ lr = 0.5 }", 2);
  spt_set_live(t, 0, 0.25f);
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_OUT, WEIGHTS, 1, got));
  for (int i = 0; i < SMALL; i++) ck_assert_float_eq(got[i], fmaf(-0.25f, g1[i], p1[i]));
}
END_TEST

START_TEST(sgd_with_everything) {
  const float lr = 0.1f, mu = 0.9f, wd = 0.01f, keep = 0.5f;
  float buf[SMALL] = {0};
  open_stage("sgd", "{ lr = 0.1, momentum = 0.9, dampening = 0.5, weight_decay = 0.01 }", 2);
  for (int step = 0; step < 4; step++) {
    ok(spt_forward(t, (uint64_t)step));
    for (int i = 0; i < SMALL; i++) {
      float d = fmaf(wd, p1[i], g1[i]);
      buf[i] = step ? fmaf(keep, d, mu * buf[i]) : d;
      p1[i] = fmaf(-lr, buf[i], p1[i]);
    }
    ok(spt_get(t, SPT_OUT, WEIGHTS, 1, got));
    for (int i = 0; i < SMALL; i++) ck_assert_float_eq(got[i], p1[i]);
  }
}
END_TEST

START_TEST(sgd_nesterov) {
  const float lr = 0.1f, mu = 0.9f;
  float buf[SMALL] = {0};
  open_stage("sgd", "{ lr = 0.1, momentum = 0.9, nesterov = true }", 2);
  for (int step = 0; step < 3; step++) {
    ok(spt_forward(t, (uint64_t)step));
    for (int i = 0; i < SMALL; i++) {
      buf[i] = fmaf(1.0f, g1[i], mu * buf[i]);
      p1[i] = fmaf(-lr, fmaf(mu, buf[i], g1[i]), p1[i]);
    }
    ok(spt_get(t, SPT_OUT, WEIGHTS, 1, got));
    for (int i = 0; i < SMALL; i++) ck_assert_float_eq(got[i], p1[i]);
  }
}
END_TEST

START_TEST(clipping_is_over_all_gradients) {
  float norm;
  open_stage("sgd", "{ lr = 1, clip_norm = 2 }", 2);
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_OUT, NORM, 0, &norm));
  ck_assert_double_eq_tol(norm, global_norm(), 1e-6 * global_norm());
  double moved = 0;
  ok(spt_get(t, SPT_OUT, WEIGHTS, 0, got));
  for (int i = 0; i < BIG; i++) moved += pow((double)got[i] - p0[i], 2);
  ok(spt_get(t, SPT_OUT, WEIGHTS, 1, got));
  for (int i = 0; i < SMALL; i++) moved += pow((double)got[i] - p1[i], 2);
  ck_assert_double_eq_tol(sqrt(moved), 2, 1e-4);
}
END_TEST

START_TEST(small_gradients_are_not_clipped) {
  open_stage("sgd", "{ clip_norm = 1e9 }", 2);
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_OUT, WEIGHTS, 0, got));
  for (int i = 0; i < BIG; i++) ck_assert_float_eq(got[i], fmaf(-1e-3f, g0[i], p0[i]));
}
END_TEST

START_TEST(clipping_does_not_hide_broken_gradients) {
  open_stage("sgd", "{ clip_norm = 1 }", 2);
  g1[2] = NAN;
  ok(spt_set(t, SPT_IN, GRADIENTS, 1, g1));
  ck_assert_int_ne(spt_forward(t, 0), SP_OK);
  ok(spt_get(t, SPT_OUT, WEIGHTS, 0, got));
  ck_assert(isnan(got[0]));
}
END_TEST

static void stops(const char *words) {
  int rc = spt_forward(t, 0);
  ck_assert_int_eq(rc, SP_E_DATA);
  ck_assert_msg(strstr(spt_error(t), words) != NULL, "'%s' is not in '%s'", words, spt_error(t));
}

static const struct {
  const char *stage, *params;
} optimizers[] = {{"sgd", ""},
                  {"sgd", "momentum = 0.9, nesterov = true,"},
                  {"sgd", "clip_norm = 1,"},
                  {"adamw", ""},
                  {"adamw", "report_norm = true,"},
                  {"adamw", "amsgrad = true,"},
                  {"lion", ""},
                  {"lion", "weight_decay = 0.1,"},
                  {"lamb", ""},
                  {"lamb", "clip_norm = 1,"},
                  {"muon", ""}};
static const char *const names[] = {"sgd", "adamw", "lion", "lamb", "muon"};
/* Those that see their gradients, or what they have made of them, more than once. */
static bool has_scratch(const char *name) { return !strcmp(name, "lamb"); }

START_TEST(gradients_that_are_not_finite_stop) {
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  char params[96];
  snprintf(params, sizeof params, "{ %s lr = 0.1 }", optimizers[_i].params);
  for (size_t k = 0; k < SP_ARRAY(bad); k++) {
    open_stage(optimizers[_i].stage, params, 2);
    ck_assert_int_eq(spt_count(t, SPT_OUT, SKIPPED), 0);
    ck_assert_int_eq(spt_weight_index(t, "skipped"), -1);
    ok(spt_forward(t, 0));
    float was = g0[BIG - 1];
    g0[BIG - 1] = bad[k];
    ok(spt_set(t, SPT_IN, GRADIENTS, 0, g0));
    stops("the gradients are not finite (1 in a row, limit 1)");
    g0[BIG - 1] = was;
    g1[0] = bad[k];
    ok(spt_set(t, SPT_IN, GRADIENTS, 0, g0));
    ok(spt_set(t, SPT_IN, GRADIENTS, 1, g1));
    stops("the gradients are not finite (1 in a row, limit 1)");
  }
}
END_TEST

static int64_t skipped(void) {
  int64_t v;
  ok(spt_get(t, SPT_OUT, SKIPPED, 0, &v));
  return v;
}

static int64_t in_a_row(void) {
  int64_t v;
  ok(spt_get(t, SPT_WEIGHT, 0, spt_weight_index(t, "skipped"), &v));
  return v;
}

/* Weights, moments and step count: all that training goes on from, but for the count itself. */
static uint64_t state_hash(void) {
  static float v[BIG];
  uint64_t h = 1469598103934665603u;
  int weights = spt_count(t, SPT_WEIGHT, 0) - 1;
  for (int i = 0; i < weights + 2; i++) {
    memset(v, 0, sizeof v);
    if (i < 2) ok(spt_get(t, SPT_OUT, WEIGHTS, i, v));
    else ok(spt_get(t, SPT_WEIGHT, 0, i - 2, v));
    const unsigned char *b = (const unsigned char *)v;
    for (size_t k = 0; k < sizeof v; k++) h = (h ^ b[k]) * 1099511628211u;
  }
  return h;
}

START_TEST(gradients_that_are_not_finite_are_skipped) {
  char params[128];
  snprintf(params, sizeof params, "{ %s lr = 0.1, nonfinite = 'skip', max_nonfinite = 3 }", optimizers[_i].params);
  open_stage(optimizers[_i].stage, params, 2);
  ck_assert_str_eq(spt_weight_name(t, spt_count(t, SPT_WEIGHT, 0) - 1), "skipped");
  ck_assert_int_eq(spt_inplace(t), 0);
  ok(spt_forward(t, 0));
  ck_assert(skipped() == 0 && in_a_row() == 0);
  uint64_t before = state_hash();
  float was = g1[2];
  for (int again = 0; again < 2; again++) {
    g1[2] = again ? INFINITY : NAN;
    ok(spt_set(t, SPT_IN, GRADIENTS, 1, g1));
    for (int k = 1; k <= 2; k++) {
      ok(spt_forward(t, 1));
      ck_assert(skipped() == 1 && in_a_row() == k);
      ck_assert(state_hash() == before);
    }
    g1[2] = was;
    ok(spt_set(t, SPT_IN, GRADIENTS, 1, g1));
    ok(spt_forward(t, 3));
    ck_assert(skipped() == 0 && in_a_row() == 0);
    ck_assert(state_hash() != before);
    before = state_hash();
  }
  g0[0] = NAN;
  ok(spt_set(t, SPT_IN, GRADIENTS, 0, g0));
  for (int k = 0; k < 2; k++) ok(spt_forward(t, 4));
  stops("(3 in a row, limit 3)");
  ck_assert(state_hash() == before);
}
END_TEST

/* As torch.lerp, from the nearer end; the first update copies, one that is skipped leaves them. */
START_TEST(averages_follow) {
  static const double decays[] = {0.999, 0.3};
  static float e[BIG], w[BIG];
  char params[96];
  double ema = decays[_i % 2];
  float weight = (float)(1 - ema);
  snprintf(params, sizeof params, "{ lr = 0.1, ema = %g, nonfinite = 'skip' }", ema);
  open_stage(_i < 2 ? "adamw" : "sgd", params, 2);
  int at = spt_weight_index(t, "ema.0");
  ck_assert_int_eq(at, _i < 2 ? 4 : 0);
  ck_assert_int_eq(spt_averages(t), at + 1);
  for (int step = 0; step < 4; step++) {
    spt_random(g0, BIG, (uint64_t)step, -2, 2);
    if (step == 2) g0[7] = NAN;
    ok(spt_set(t, SPT_IN, GRADIENTS, 0, g0));
    ok(spt_forward(t, (uint64_t)step));
    ok(spt_get(t, SPT_OUT, WEIGHTS, 0, w));
    ok(spt_get(t, SPT_WEIGHT, 0, at, got));
    for (int i = 0; i < BIG && step != 2; i++) {
      float d = w[i] - e[i];
      e[i] = !step ? w[i] : weight < 0.5f ? fmaf(weight, d, e[i]) : fmaf(weight - 1, d, w[i]);
    }
    ck_assert_mem_eq(got, e, sizeof e);
  }
}
END_TEST

/* Running statistics were moved by the forward pass: with the update they are kept, without it put back. */
START_TEST(statistics_are_put_back) {
  enum { STATISTICS = 1, C = 5 };
  int64_t shape[1] = {C}, count = 7, seen;
  float mean[C] = {1, 2, 3, 4, 5}, moved[C] = {6, 7, 8, 9, 10}, now[C];
  for (size_t k = 0; k < SP_ARRAY(names); k++) {
    spt_free(t);
    t = spt_new(names[k], "{ nonfinite = 'skip' }", 2);
    ok(spt_input_of(t, GRADIENTS, SP_F32, 1, shape, 0, mean));
    ok(spt_input_of(t, STATISTICS, SP_F32, 1, shape, 0, mean));
    ok(spt_input_of(t, STATISTICS, SP_I64, 0, NULL, 0, &count));
    ok(spt_plan(t, 1));
    ck_assert_int_eq(spt_restores(t), 1);
    int n = spt_count(t, SPT_WEIGHT, 0);
    ck_assert_str_eq(spt_weight_name(t, n - 2), "statistics.0");
    ck_assert_str_eq(spt_weight_name(t, n - 1), "statistics.1");
    ok(spt_forward(t, 0));
    ok(spt_get(t, SPT_WEIGHT, 0, n - 2, now));
    ck_assert_mem_eq(now, mean, sizeof mean);
    moved[0] = NAN;
    seen = 8;
    ok(spt_set(t, SPT_IN, GRADIENTS, 0, moved));
    ok(spt_set(t, SPT_IN, STATISTICS, 0, moved));
    ok(spt_set(t, SPT_IN, STATISTICS, 1, &seen));
    ok(spt_forward(t, 1));
    ok(spt_get(t, SPT_IN, STATISTICS, 0, now));
    ok(spt_get(t, SPT_IN, STATISTICS, 1, &seen));
    ck_assert_mem_eq(now, mean, sizeof mean);
    ck_assert_int_eq(seen, count);
  }
  open_stage("sgd", NULL, 1);
  ck_assert_int_eq(spt_restores(t), 0);
}
END_TEST

/* Where nothing is skipped, skipping changes no bit. */
START_TEST(skipping_costs_no_bits) {
  static float plain[BIG];
  char params[128];
  snprintf(params, sizeof params, "{ %s lr = 0.1 }", optimizers[_i].params);
  open_stage(optimizers[_i].stage, params, 2);
  for (uint64_t step = 0; step < 3; step++) ok(spt_forward(t, step));
  ok(spt_get(t, SPT_OUT, WEIGHTS, 0, plain));
  snprintf(params, sizeof params, "{ %s lr = 0.1, nonfinite = 'skip' }", optimizers[_i].params);
  open_stage(optimizers[_i].stage, params, 2);
  for (uint64_t step = 0; step < 3; step++) ok(spt_forward(t, step));
  ok(spt_get(t, SPT_OUT, WEIGHTS, 0, got));
  ck_assert_mem_eq(got, plain, sizeof got);
}
END_TEST

START_TEST(norm_only_where_asked) {
  for (size_t k = 0; k < SP_ARRAY(names); k++) {
    float norm;
    open_stage(names[k], NULL, 1);
    ck_assert_int_eq(spt_count(t, SPT_OUT, NORM), 0);
    if (!has_scratch(names[k])) ck_assert_uint_eq(spt_bytes(t, 0), 0);
    open_stage(names[k], "{ report_norm = true }", 1);
    ok(spt_forward(t, 0));
    ok(spt_get(t, SPT_OUT, NORM, 0, &norm));
    ck_assert_double_eq_tol(norm, global_norm(), 1e-6 * global_norm());
  }
}
END_TEST

START_TEST(adamw_formula) {
  double m[SMALL] = {0}, v[SMALL] = {0}, p[SMALL];
  open_stage("adamw", "{ lr = 0.01, betas = { 0.8, 0.95 }, eps = 1e-6, weight_decay = 0.1 }", 2);
  for (int i = 0; i < SMALL; i++) p[i] = p1[i];
  for (int step = 1; step <= 5; step++) {
    int64_t count;
    ok(spt_forward(t, (uint64_t)step - 1));
    for (int i = 0; i < SMALL; i++) {
      p[i] *= 1 - 0.01 * 0.1;
      m[i] = 0.8 * m[i] + 0.2 * g1[i];
      v[i] = 0.95 * v[i] + 0.05 * (double)g1[i] * g1[i];
      p[i] -= 0.01 / (1 - pow(0.8, step)) * m[i] / (sqrt(v[i] / (1 - pow(0.95, step))) + 1e-6);
    }
    ok(spt_get(t, SPT_OUT, WEIGHTS, 1, got));
    for (int i = 0; i < SMALL; i++) ck_assert_double_eq_tol(got[i], p[i], 1e-6);
    ok(spt_get(t, SPT_WEIGHT, 0, spt_weight_index(t, "step"), &count));
    ck_assert_int_eq(count, step);
  }
}
END_TEST

/* The largest mean square of all steps counts: after a large gradient steps stay small. */
START_TEST(amsgrad_formula) {
  double m[SMALL] = {0}, v[SMALL] = {0}, most[SMALL] = {0}, p[SMALL];
  open_stage("adamw", "{ lr = 0.01, betas = { 0.8, 0.5 }, amsgrad = true }", 2);
  for (int i = 0; i < SMALL; i++) p[i] = p1[i];
  for (int step = 1; step <= 5; step++) {
    float g[SMALL];
    for (int i = 0; i < SMALL; i++) g[i] = g1[i] * (step == 2 ? 8 : 1);
    ok(spt_set(t, SPT_IN, GRADIENTS, 1, g));
    ok(spt_forward(t, (uint64_t)step - 1));
    for (int i = 0; i < SMALL; i++) {
      p[i] *= 1 - 0.01 * 0.01;
      m[i] = 0.8 * m[i] + 0.2 * g[i];
      v[i] = 0.5 * v[i] + 0.5 * (double)g[i] * g[i];
      most[i] = fmax(most[i], v[i]);
      p[i] -= 0.01 / (1 - pow(0.8, step)) * m[i] / (sqrt(most[i] / (1 - pow(0.5, step))) + 1e-8);
    }
    ok(spt_get(t, SPT_OUT, WEIGHTS, 1, got));
    for (int i = 0; i < SMALL; i++) ck_assert_double_eq_tol(got[i], p[i], 1e-6);
    ok(spt_get(t, SPT_WEIGHT, 0, spt_weight_index(t, "max_exp_avg_sq.1"), got));
    for (int i = 0; i < SMALL; i++) ck_assert_double_eq_tol(got[i], most[i], 1e-5 * (1 + most[i]));
  }
}
END_TEST

/* Steps are of one size, whatever the gradient; where there has been none, and is none, there is no step. */
START_TEST(lion_formula) {
  const float b1 = 0.9f, b2 = 0.99f, lr = 0.01f, c1 = (float)(1 - 0.9), c2 = (float)(1 - 0.99);
  const float shrink = (float)(1 - (double)lr * 0.1);
  float m[SMALL] = {0};
  open_stage("lion", "{ lr = 0.01, weight_decay = 0.1 }", 2);
  for (int step = 0; step < 5; step++) {
    float g[SMALL];
    for (int i = 0; i < SMALL; i++) g[i] = !i ? 0 : step % 2 ? -3 * g1[i] : g1[i];
    ok(spt_set(t, SPT_IN, GRADIENTS, 1, g));
    ok(spt_forward(t, (uint64_t)step));
    for (int i = 0; i < SMALL; i++) {
      float way = b1 * m[i] + c1 * g[i];
      p1[i] = p1[i] * shrink - (way > 0 ? lr : way < 0 ? -lr : 0);
      m[i] = fmaf(c2, g[i], b2 * m[i]);
    }
    ok(spt_get(t, SPT_OUT, WEIGHTS, 1, got));
    for (int i = 0; i < SMALL; i++) ck_assert_float_eq(got[i], p1[i]);
    ok(spt_get(t, SPT_WEIGHT, 0, spt_weight_index(t, "exp_avg.1"), got));
    for (int i = 0; i < SMALL; i++) ck_assert_float_eq(got[i], m[i]);
  }
}
END_TEST

static double length(const double *v) {
  double sum = 0;
  for (int i = 0; i < SMALL; i++) sum += v[i] * v[i];
  return sqrt(sum);
}

/* Steps are as long as the weights times the rate, with a clip no longer than Adam's, and Adam's where there is no
 * decay; without the bias corrections the first ones are short. */
START_TEST(lamb_formula) {
  static const struct {
    const char *params;
    double decay;
    bool clip, always, bias;
  } cases[] = {{"{ lr = 0.01, weight_decay = 0.1 }", 0.1, false, false, true},
               {"{ lr = 0.01, weight_decay = 0.1, trust_clip = true }", 0.1, true, false, true},
               {"{ lr = 0.01, weight_decay = 0 }", 0, false, false, true},
               {"{ lr = 0.01, weight_decay = 0, always_adapt = true }", 0, false, true, true},
               {"{ lr = 0.01, weight_decay = 0, bias_correction = false }", 0, false, false, false}};
  for (size_t k = 0; k < SP_ARRAY(cases); k++) {
    double m[SMALL] = {0}, v[SMALL] = {0}, p[SMALL], u[SMALL];
    open_stage("lamb", cases[k].params, 2);
    for (int i = 0; i < SMALL; i++) p[i] = p1[i];
    for (int step = 1; step <= 4; step++) {
      double c1 = cases[k].bias ? 1 - pow(0.9, step) : 1, c2 = cases[k].bias ? 1 - pow(0.999, step) : 1, trust = 1;
      ok(spt_forward(t, (uint64_t)step - 1));
      for (int i = 0; i < SMALL; i++) {
        m[i] = 0.9 * m[i] + 0.1 * g1[i];
        v[i] = 0.999 * v[i] + 0.001 * (double)g1[i] * g1[i];
        u[i] = m[i] / c1 / (sqrt(v[i] / c2) + 1e-6) + cases[k].decay * p[i];
      }
      if (cases[k].decay > 0 || cases[k].always) trust = length(p) / length(u);
      if (cases[k].clip && trust > 1) trust = 1;
      for (int i = 0; i < SMALL; i++) p[i] -= 0.01 * trust * u[i];
      ok(spt_get(t, SPT_OUT, WEIGHTS, 1, got));
      for (int i = 0; i < SMALL; i++) ck_assert_double_eq_tol(got[i], p[i], 1e-6);
    }
  }
}
END_TEST

/* Of weights that are 0 the steps are Adam's, as they are where all gradients are 0, so that no step is lost. */
START_TEST(lamb_trusts_what_is_zero) {
  float zero[SMALL] = {0};
  open_stage("lamb", "{ lr = 0.01 }", 2);
  ok(spt_set(t, SPT_OUT, WEIGHTS, 1, zero));
  ok(spt_forward(t, 0));
  ok(spt_get(t, SPT_OUT, WEIGHTS, 1, got));
  for (int i = 0; i < SMALL; i++) ck_assert_double_eq_tol(got[i], g1[i] > 0 ? -0.01 : 0.01, 1e-6);
}
END_TEST

enum { SIDE = 8, LONG = 24 };

/* In double, of x [rows][cols], which becomes its step. */
static void orthogonal(double *x, int rows, int cols, int steps) {
  double norm = 0, a[SIDE * LONG], b[SIDE * LONG], y[SIDE * LONG];
  for (int i = 0; i < rows * cols; i++) norm += x[i] * x[i];
  for (int i = 0; i < rows * cols; i++) x[i] /= sqrt(norm) + 1e-7;
  for (int s = 0; s < steps; s++) {
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < rows; j++) {
        a[i * rows + j] = 0;
        for (int k = 0; k < cols; k++) a[i * rows + j] += x[i * cols + k] * x[j * cols + k];
      }
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < rows; j++) {
        b[i * rows + j] = -4.7750 * a[i * rows + j];
        for (int k = 0; k < rows; k++) b[i * rows + j] += 2.0315 * a[i * rows + k] * a[k * rows + j];
      }
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < cols; j++) {
        y[i * cols + j] = 3.4445 * x[i * cols + j];
        for (int k = 0; k < rows; k++) y[i * cols + j] += b[i * rows + k] * x[k * cols + j];
      }
    memcpy(x, y, (size_t)(rows * cols) * sizeof *x);
  }
}

/* One matrix of `rows` rows, beside a vector, a first and a last one. */
static void open_muon(const char *params, int rows, int cols, int threads) {
  float of_edge[SMALL + 1] = {0};
  int64_t edge[2] = {3, 2}, shape[3] = {rows, cols / 2, 2}, small[1] = {SMALL};
  spt_random(g0, BIG, 1, -2, 2), spt_random(g1, SMALL, 2, -2, 2);
  spt_random(p0, BIG, 3, -1, 1), spt_random(p1, SMALL, 4, -1, 1);
  memcpy(of_edge, g1, sizeof g1);
  spt_free(t);
  t = spt_new("muon", params, threads);
  ok(spt_input_of(t, GRADIENTS, SP_F32, 2, edge, 0, of_edge));
  ok(spt_input_of(t, GRADIENTS, SP_F32, 1, small, 0, g1));
  ok(spt_input_of(t, GRADIENTS, SP_F32, 3, shape, 0, g0));
  ok(spt_input_of(t, GRADIENTS, SP_F32, 2, edge, 0, of_edge));
  ok(spt_plan(t, 1));
  ok(spt_set(t, SPT_OUT, WEIGHTS, 1, p1));
  ok(spt_set(t, SPT_OUT, WEIGHTS, 2, p0));
}

START_TEST(muon_formula) {
  static const int shapes[][2] = {{SIDE, LONG}, {LONG, SIDE}, {1, 6}, {6, 2}};
  for (size_t k = 0; k < SP_ARRAY(shapes) * 2; k++) {
    int rows = shapes[k / 2][0], cols = shapes[k / 2][1];
    bool nesterov = k % 2 == 0;
    double m[SIDE * LONG] = {0}, p[SIDE * LONG], x[SIDE * LONG];
    open_muon(nesterov ? "{ weight_decay = 0.1 }" : "{ weight_decay = 0.1, nesterov = false, ns_steps = 3 }", rows,
              cols, 2);
    for (int i = 0; i < rows * cols; i++) p[i] = p0[i];
    for (int step = 0; step < 3; step++) {
      spt_random(g0, BIG, 10 + (uint64_t)step, -2, 2);
      ok(spt_set(t, SPT_IN, GRADIENTS, 2, g0));
      ok(spt_forward(t, (uint64_t)step));
      for (int i = 0; i < rows * cols; i++) {
        int to = rows > cols ? i % cols * rows + i / cols : i;
        m[i] += 0.05 * (g0[i] - m[i]);
        x[to] = nesterov ? 0.05 * g0[i] + 0.95 * m[i] : m[i];
      }
      orthogonal(x, rows < cols ? rows : cols, rows < cols ? cols : rows, nesterov ? 5 : 3);
      for (int i = 0; i < rows * cols; i++) {
        double v = x[rows > cols ? i % cols * rows + i / cols : i];
        p[i] = p[i] * (1 - 0.02 * 0.1) - 0.02 * sqrt(fmax(1, (double)rows / cols)) * v;
      }
      ok(spt_get(t, SPT_OUT, WEIGHTS, 2, got));
      for (int i = 0; i < rows * cols; i++) ck_assert_double_eq_tol(got[i], p[i], 1e-6);
    }
  }
}
END_TEST

/* What is no matrix, and the first and the last one, have AdamW's bits at a rate of their own. */
START_TEST(muon_leaves_others_to_adamw) {
  float first[6], wanted[6];
  for (int edges = 0; edges < 2; edges++) {
    open_muon(edges ? "{ lr = 0.5, aux_lr = 0.02, edges = 'muon' }" : "{ lr = 0.5, aux_lr = 0.02 }", SIDE, LONG, 2);
    ok(spt_set(t, SPT_OUT, WEIGHTS, 0, p0));
    for (uint64_t step = 0; step < 3; step++) ok(spt_forward(t, step));
    ok(spt_get(t, SPT_OUT, WEIGHTS, 0, first));
    ok(spt_get(t, SPT_OUT, WEIGHTS, 1, got));
    open_stage("adamw", "{ lr = 0.01, betas = { 0.9, 0.95 }, eps = 1e-10, weight_decay = 0 }", 1);
    for (uint64_t step = 0; step < 3; step++) ok(spt_forward(t, step));
    ok(spt_get(t, SPT_OUT, WEIGHTS, 1, wanted));
    ck_assert_mem_eq(got, wanted, SMALL * sizeof *got);
    open_stage("adamw", "{ lr = 0.01, betas = { 0.9, 0.95 }, eps = 1e-10, weight_decay = 0 }", 1);
    memcpy(p1, p0, sizeof p1);
    ok(spt_set(t, SPT_OUT, WEIGHTS, 1, p1));
    for (uint64_t step = 0; step < 3; step++) ok(spt_forward(t, step));
    ok(spt_get(t, SPT_OUT, WEIGHTS, 1, wanted));
    ck_assert_int_eq(!memcmp(first, wanted, SMALL * sizeof *wanted), !edges);
  }
}
END_TEST

START_TEST(muon_has_one_product_for_any_team) {
  static const int shapes[][2] = {{100, 334}, {300, 98}};
  static float one[BIG];
  for (size_t k = 0; k < SP_ARRAY(shapes); k++)
    for (int threads = 1; threads <= 4; threads++) {
      open_muon("{ ema = 0.9 }", shapes[k][0], shapes[k][1], threads);
      for (uint64_t step = 0; step < 2; step++) ok(spt_forward(t, step));
      memset(got, 0, sizeof got);
      ok(spt_get(t, SPT_OUT, WEIGHTS, 2, threads == 1 ? one : got));
      if (threads > 1) ck_assert_mem_eq(got, one, (size_t)(shapes[k][0] * shapes[k][1]) * sizeof *got);
    }
}
END_TEST

START_TEST(same_bits_for_any_team) {
  static const char *const cases[][2] = {{"sgd", "{ momentum = 0.9, weight_decay = 0.1, clip_norm = 1 }"},
                                         {"adamw", "{ clip_norm = 1 }"},
                                         {"adamw", "{ amsgrad = true }"},
                                         {"lion", "{ clip_norm = 1, weight_decay = 0.1 }"},
                                         {"lamb", NULL}};
  static float first[BIG];
  for (size_t k = 0; k < SP_ARRAY(cases); k++)
    for (int threads = 1; threads <= 4; threads++) {
      open_stage(cases[k][0], cases[k][1], threads);
      for (uint64_t step = 0; step < 3; step++) ok(spt_forward(t, step));
      ok(spt_get(t, SPT_OUT, WEIGHTS, 0, threads == 1 ? first : got));
      if (threads > 1) ck_assert_mem_eq(got, first, sizeof got);
    }
}
END_TEST

/* Moments and step count are all the state there is: copied into a fresh instance, it goes on with the same bits. */
START_TEST(state_is_complete) {
  static const char *const cases[][2] = {{"sgd", "{ momentum = 0.9, dampening = 0.3 }"},
                                         {"adamw", NULL},
                                         {"adamw", "{ amsgrad = true }"},
                                         {"lion", NULL},
                                         {"lamb", NULL}};
  static float kept[8][BIG], weights[BIG];
  for (size_t k = 0; k < SP_ARRAY(cases); k++) {
    open_stage(cases[k][0], cases[k][1], 2);
    for (uint64_t step = 0; step < 2; step++) ok(spt_forward(t, step));
    int n = spt_count(t, SPT_WEIGHT, 0);
    for (int i = 0; i < n; i++) {
      ck_assert_uint_eq(spt_weight(t, i)->flags, SP_WEIGHT_STATE);
      ok(spt_get(t, SPT_WEIGHT, 0, i, kept[i]));
    }
    ok(spt_get(t, SPT_OUT, WEIGHTS, 0, weights));
    ok(spt_forward(t, 2));
    ok(spt_get(t, SPT_OUT, WEIGHTS, 0, got));
    open_stage(cases[k][0], cases[k][1], 2);
    for (int i = 0; i < n; i++) ok(spt_set(t, SPT_WEIGHT, 0, i, kept[i]));
    ok(spt_set(t, SPT_OUT, WEIGHTS, 0, weights));
    ok(spt_forward(t, 2));
    ok(spt_get(t, SPT_OUT, WEIGHTS, 0, weights));
    ck_assert_mem_eq(got, weights, sizeof got);
  }
}
END_TEST

/* Of a matrix there is no second moment; averages and counts find their places behind. */
START_TEST(muon_keeps_one_moment_of_matrices) {
  static const char *const wanted[] = {"exp_avg.0",    "exp_avg.1",    "exp_avg.2",    "exp_avg.3",
                                       "exp_avg_sq.0", "exp_avg_sq.1", "exp_avg_sq.3", "ema.0",
                                       "ema.1",        "ema.2",        "ema.3",        "step"};
  int64_t count;
  open_muon("{ ema = 0.9 }", SIDE, LONG, 2);
  ck_assert_int_eq(spt_count(t, SPT_WEIGHT, 0), (int)SP_ARRAY(wanted));
  for (int i = 0; i < (int)SP_ARRAY(wanted); i++) ck_assert_str_eq(spt_weight_name(t, i), wanted[i]);
  ck_assert_int_eq(spt_averages(t), 8);
  for (uint64_t step = 0; step < 3; step++) ok(spt_forward(t, step));
  ok(spt_get(t, SPT_WEIGHT, 0, 11, &count));
  ck_assert_int_eq(count, 3);
}
END_TEST

START_TEST(state_names) {
  open_stage("sgd", NULL, 1);
  ck_assert_int_eq(spt_count(t, SPT_WEIGHT, 0), 0);
  open_stage("sgd", "{ momentum = 0.5 }", 1);
  ck_assert_str_eq(spt_weight_name(t, 0), "momentum.0");
  ck_assert_str_eq(spt_weight_name(t, 1), "momentum.1");
  ck_assert_str_eq(spt_weight_name(t, 2), "step");
  open_stage("adamw", NULL, 1);
  ck_assert_str_eq(spt_weight_name(t, 1), "exp_avg.1");
  ck_assert_str_eq(spt_weight_name(t, 2), "exp_avg_sq.0");
  ck_assert_str_eq(spt_weight_name(t, 4), "step");
  open_stage("adamw", "{ amsgrad = true }", 1);
  ck_assert_str_eq(spt_weight_name(t, 4), "max_exp_avg_sq.0");
  ck_assert_str_eq(spt_weight_name(t, 6), "step");
  open_stage("lion", NULL, 1);
  ck_assert_str_eq(spt_weight_name(t, 1), "exp_avg.1");
  ck_assert_str_eq(spt_weight_name(t, 2), "step");
}
END_TEST

START_TEST(in_place_where_plain) {
  static const struct {
    const char *params;
    int inplace;
  } cases[] = {{NULL, 1},
               {"{ lr = 0.5 }", 1},
               {"{ momentum = 0.1 }", 0},
               {"{ weight_decay = 0.1 }", 0},
               {"{ clip_norm = 1 }", 0},
               {"{ report_norm = true }", 0},
               {"{ nonfinite = 'skip' }", 0},
               {"{ ema = 0.9 }", 0}};
  for (size_t i = 0; i < SP_ARRAY(cases); i++) {
    open_stage("sgd", cases[i].params, 1);
    ck_assert_int_eq(spt_inplace(t), cases[i].inplace);
  }
}
END_TEST

START_TEST(nothing_to_train) {
  for (size_t k = 0; k < SP_ARRAY(names); k++) {
    spt_free(t);
    t = spt_new(names[k], "{ clip_norm = 1 }", 2);
    ok(spt_plan(t, 1));
    ok(spt_forward(t, 0));
    float norm;
    ok(spt_get(t, SPT_OUT, NORM, 0, &norm));
    ck_assert_float_eq(norm, 0);
  }
}
END_TEST

static void refused(const char *stage, const char *params, const char *words) {
  spt_free(t);
  t = spt_new(stage, params, 1);
  ck_assert_int_ne(spt_failed(t), SP_OK);
  ck_assert_msg(strstr(spt_error(t), words) != NULL, "'%s' is not in '%s'", words, spt_error(t));
}

START_TEST(refusals) {
  refused("sgd", "{ nesterov = true }", "nesterov needs a momentum above 0 and no dampening");
  refused("sgd", "{ nesterov = true, momentum = 0.9, dampening = 0.1 }", "nesterov needs");
  refused("sgd", "{ lr = -1 }", "lr");
  refused("adamw", "{ betas = { 0.9, 1 } }", "betas[2] is 1, but must be below 1");
  refused("adamw", "{ betas = { 0.9 } }", "betas");
  refused("lion", "{ betas = { 1, 0.9 } }", "betas[1] is 1, but must be below 1");
  refused("muon", "{ momentum = 1 }", "momentum is 1, but must be below 1");
  refused("muon", "{ aux_betas = { 0.9, 1 } }", "aux_betas[2] is 1, but must be below 1");
  refused("muon", "{ ns_steps = 0 }", "ns_steps");
  refused("lamb", "{ betas = { 0.9, 1 } }", "betas[2] is 1, but must be below 1");
  refused("sgd", "{ nonfinite = 'hide' }", "nonfinite");
  refused("adamw", "{ max_nonfinite = 0 }", "max_nonfinite");
}
END_TEST

int main(void) {
  Suite *s = suite_create("optim");
  TCase *c = tcase_create("optim");
  tcase_add_checked_fixture(c, NULL, teardown);
  tcase_add_test(c, sgd_is_one_fused_operation);
  tcase_add_test(c, groups_have_factors);
  tcase_add_test(c, phases_count_for_themselves);
  tcase_add_test(c, one_rate_for_all_may_run_in_place);
  tcase_add_test(c, sgd_learning_rate_is_live);
  tcase_add_test(c, sgd_with_everything);
  tcase_add_test(c, sgd_nesterov);
  tcase_add_test(c, clipping_is_over_all_gradients);
  tcase_add_test(c, small_gradients_are_not_clipped);
  tcase_add_test(c, clipping_does_not_hide_broken_gradients);
  tcase_add_loop_test(c, gradients_that_are_not_finite_stop, 0, (int)SP_ARRAY(optimizers));
  tcase_add_loop_test(c, gradients_that_are_not_finite_are_skipped, 0, (int)SP_ARRAY(optimizers));
  tcase_add_loop_test(c, averages_follow, 0, 4);
  tcase_add_test(c, statistics_are_put_back);
  tcase_add_loop_test(c, skipping_costs_no_bits, 0, (int)SP_ARRAY(optimizers));
  tcase_add_test(c, norm_only_where_asked);
  tcase_add_test(c, adamw_formula);
  tcase_add_test(c, amsgrad_formula);
  tcase_add_test(c, lion_formula);
  tcase_add_test(c, muon_formula);
  tcase_add_test(c, muon_keeps_one_moment_of_matrices);
  tcase_add_test(c, muon_leaves_others_to_adamw);
  tcase_add_test(c, muon_has_one_product_for_any_team);
  tcase_add_test(c, lamb_formula);
  tcase_add_test(c, lamb_trusts_what_is_zero);
  tcase_add_test(c, same_bits_for_any_team);
  tcase_add_test(c, state_is_complete);
  tcase_add_test(c, state_names);
  tcase_add_test(c, in_place_where_plain);
  tcase_add_test(c, nothing_to_train);
  tcase_add_test(c, refusals);
  tcase_set_timeout(c, 30);
  suite_add_tcase(s, c);
  return suite_run(s);
}
