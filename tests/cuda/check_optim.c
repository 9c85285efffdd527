/* SPDX-License-Identifier: MIT
 * check_optim.c - optimizers on the GPU against the same on the cpu: single steps, and steps that are skipped. */
#include <math.h>

#include <check.h>

#include "tests/kit/twin.h"

static const twin_limits same_bits = {0, 0, 0, 0}, sums = {1e-6, 1e-6, 0, 0};

static const struct optimizer {
  const char *stage, *name, *params;
  bool exact;
} optimizers[] = {
    {"sgd", "plain", NULL, true},
    {"sgd", "momentum", "{ lr = 0.1, momentum = 0.9, dampening = 0.5, weight_decay = 0.01 }", true},
    {"sgd", "Nesterov", "{ lr = 0.1, momentum = 0.9, nesterov = true }", true},
    {"sgd", "weight decay", "{ lr = 0.1, weight_decay = 0.1 }", true},
    {"sgd", "averages", "{ lr = 0.1, ema = 0.9 }", true},
    {"sgd", "short averages", "{ lr = 0.1, momentum = 0.9, ema = 0.25 }", true},
    {"sgd", "clipped", "{ lr = 1, clip_norm = 2, momentum = 0.9 }", false},
    {"sgd", "norm reported", "{ report_norm = true }", false},
    {"sgd", "not clipped", "{ clip_norm = 1e9 }", false},
    {"adamw", "defaults", NULL, false},
    {"adamw", "everything",
     "{ lr = 0.01, betas = { 0.8, 0.95 }, eps = 1e-6, weight_decay = 0.1, clip_norm = 3, ema = 0.99 }", false},
    {"adamw", "AMSGrad", "{ lr = 0.01, betas = { 0.8, 0.5 }, amsgrad = true, ema = 0.9 }", false},
    {"lion", "defaults", NULL, true},
    {"lion", "everything", "{ lr = 0.01, betas = { 0.8, 0.95 }, weight_decay = 0.1, ema = 0.99 }", true},
    {"lamb", "defaults", NULL, false},
    {"lamb", "everything",
     "{ lr = 0.01, betas = { 0.8, 0.95 }, eps = 1e-5, weight_decay = 0.1, bias_correction = false, trust_clip = true, "
     "clip_norm = 3, ema = 0.9 }",
     false},
    {"lamb", "adapting always", "{ lr = 0.01, weight_decay = 0, always_adapt = true }", false},
    {"muon", "vectors", NULL, false},
    {"lion", "clipped", "{ lr = 0.01, weight_decay = 0.1, clip_norm = 3 }", false},
};

static const sp_group groups[] = {{1, 1, 0}, {0.1, 0, 0}, {0, 1, 0}, {0.75, 0.5, 1}, {3, 2, 2}};

static void set_count(spt *t, int weight, int64_t n) { spt_set(t, SPT_WEIGHT, 0, weight, &n); }

static void open_optimizer(twin *w, const struct optimizer *o, const char *how, const int64_t *sizes, int n,
                           bool statistics, int n_groups) {
  const int64_t count = 7;
  twin_open(w, o->stage, o->name, o->params, SP_PRECISION_FP32, o->exact ? same_bits : sums);
  w->how = how;
  for (int i = 0; i < n; i++) twin_floats(w, 0, 1, &sizes[i], SP_ROW_MAJOR, -2, 2);
  if (statistics) {
    twin_floats(w, 1, 1, &sizes[0], SP_ROW_MAJOR, -2, 2);
    twin_input(w, 1, SP_I64, 0, NULL, SP_ROW_MAJOR, &count);
  }
  TWIN_BOTH(w, spt_set_groups, n_groups, groups);
  twin_plan(w, 1);
  int step = n_groups ? spt_weight_index(w->a, "step") : -1;
  if (step >= 0) TWIN_BOTH(w, set_count, step, count); /* updates before the later phases */
  for (int i = 0; i < n; i++) twin_set(w, SPT_OUT, 0, i, -1, 1);
}

START_TEST(optimizer) {
  static const int64_t few[] = {50001, 5, 1, 4096};
  int64_t many[240];
  twin w;
  for (int i = 0; i < 240; i++) many[i] = 1 + i * 13 % 70;
  for (int k = 0; k < 3; k++) {
    static const char *const how[] = {"", ", 240 tensors", ", 240 tensors in 5 groups"};
    open_optimizer(&w, &optimizers[_i], how[k], k ? many : few, k ? 240 : 4, false, k == 2 ? 5 : 0);
    for (int step = 0; step < 4; step++) {
      if (step == 2) TWIN_BOTH(&w, spt_set_live, 0, 0.125f);
      twin_set_all(&w, SPT_IN, -2, 2);
      twin_forward(&w, (uint64_t)step);
      twin_compare(&w, SPT_OUT);
      twin_compare(&w, SPT_WEIGHT);
    }
    twin_repeat(&w, false);
    twin_close(&w);
  }
}
END_TEST

/* A step with gradients that are not finite is skipped: not a bit of weights and moments changes, and the running
 * statistics, which that step's forward() has moved, are put back. */
START_TEST(skipping) {
  static const struct optimizer skip[] = {
      {"sgd", "skipping", "{ momentum = 0.9, nonfinite = \"skip\" }", true},
      {"adamw", "skipping", "{ nonfinite = \"skip\", max_nonfinite = 2, ema = 0.9 }", false},
      {"lion", "skipping", "{ nonfinite = \"skip\", max_nonfinite = 3 }", true},
      {"lamb", "skipping", "{ nonfinite = \"skip\", max_nonfinite = 3 }", false},
      {"muon", "skipping", "{ nonfinite = \"skip\", max_nonfinite = 3 }", false},
  };
  static const int64_t sizes[] = {5000, 7};
  float g[7];
  twin w;
  open_optimizer(&w, &skip[_i], "", sizes, 2, true, 2);
  for (int step = 0; step < 5; step++) {
    spt_random(g, 7, (uint64_t)step, -1, 1);
    if (step % 2) g[3] = step == 1 ? NAN : -INFINITY;
    twin_set(&w, SPT_IN, 1, 0, -2, 2);
    twin_ok(w.a, spt_set(w.a, SPT_IN, 0, 1, g));
    twin_ok(w.b, spt_set(w.b, SPT_IN, 0, 1, g));
    twin_forward(&w, (uint64_t)step);
    twin_compare(&w, SPT_IN);
    twin_compare(&w, SPT_OUT);
    twin_compare(&w, SPT_WEIGHT);
  }
  g[0] = NAN;
  int a = SP_OK, b = SP_OK;
  twin_ok(w.a, spt_set(w.a, SPT_IN, 0, 1, g));
  twin_ok(w.b, spt_set(w.b, SPT_IN, 0, 1, g));
  for (int step = 5; step < 20 && !a && !b; step++) {
    a = spt_forward(w.a, (uint64_t)step);
    b = spt_forward(w.b, (uint64_t)step);
    ck_assert_int_eq(a, b);
    twin_compare(&w, SPT_OUT);
  }
  ck_assert_int_ne(a, SP_OK);
  ck_assert_str_eq(spt_error(w.a), spt_error(w.b));
  twin_close(&w);
}
END_TEST

/* Products round in another order, and what is small in a matrix grows by 485 in five Newton-Schulz steps. */
START_TEST(matrices) {
  static const struct optimizer cases[] = {
      {"muon", "matrices", "{ ema = 0.9 }", false},
      {"muon", "all matrices", "{ weight_decay = 0.1, nesterov = false, edges = \"muon\", clip_norm = 3 }", false},
      {"muon", "matrices skipped", "{ nonfinite = \"skip\", max_nonfinite = 3 }", false},
  };
  static const twin_limits products = {2e-6, 2e-6, 0, 0};
  static const int64_t shapes[][4] = {{3, 5}, {70, 130}, {9}, {130, 70}, {8, 3, 3, 3}, {64, 64}, {1, 9}, {5, 2}};
  static const int dims[] = {2, 2, 1, 2, 4, 2, 2, 2};
  float g[9 * 1024];
  twin w;
  twin_open(&w, "muon", cases[_i].name, cases[_i].params, SP_PRECISION_FP32, products);
  for (size_t i = 0; i < SP_ARRAY(dims); i++) twin_floats(&w, 0, dims[i], shapes[i], SP_ROW_MAJOR, -2, 2);
  TWIN_BOTH(&w, spt_set_groups, 5, groups);
  twin_plan(&w, 1);
  for (int i = 0; i < (int)SP_ARRAY(dims); i++) twin_set(&w, SPT_OUT, 0, i, -1, 1);
  for (int step = 0; step < 4; step++) {
    if (step == 2) TWIN_BOTH(&w, spt_set_live, 0, 0.125f);
    twin_set_all(&w, SPT_IN, -2, 2);
    if (_i == 2 && step % 2) {
      spt_random(g, 70 * 130, (uint64_t)step, -1, 1);
      g[7] = NAN;
      twin_ok(w.a, spt_set(w.a, SPT_IN, 0, 1, g));
      twin_ok(w.b, spt_set(w.b, SPT_IN, 0, 1, g));
    }
    twin_forward(&w, (uint64_t)step);
    twin_compare(&w, SPT_OUT);
    twin_compare(&w, SPT_WEIGHT);
  }
  if (_i < 2) twin_repeat(&w, false);
  twin_close(&w);
}
END_TEST

int main(void) {
  Suite *s = suite_create("cuda optimizers");
  TCase *c = tcase_create("optimizers");
  tcase_add_loop_test(c, optimizer, 0, (int)SP_ARRAY(optimizers));
  tcase_add_loop_test(c, skipping, 0, 5);
  tcase_add_loop_test(c, matrices, 0, 3);
  suite_add_tcase(s, c);
  return twin_run(s);
}
