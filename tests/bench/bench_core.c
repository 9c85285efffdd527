/* SPDX-License-Identifier: MIT
 * bench_core.c - the core's own cost of a step: 8 stages that do nothing, on one lane, on two that alternate, and on eight. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/run.h"

#define STAGES 8
#define RUNS 9
#define STEPS 20000

static void need(int st, const sp_err *err) {
  if (!st) return;
  fprintf(stderr, "bench_core: %s\n", err->msg);
  exit(1);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void bench(sp_env *env, int n_lanes, int depth, int run_ahead) {
  sp_graph_opts o = {.run_ahead = run_ahead};
  sp_graph *g;
  sp_node *n[STAGES];
  sp_lane_desc lanes[STAGES];
  const sp_result *r;
  sp_schedule_info info;
  double us[RUNS];
  char names[STAGES][16];
  sp_err err;
  need(sp_graph_new(&g, env, &o, &err), &err);
  for (int i = 0; i < STAGES; i++) {
    need(sp_graph_add(g, "toy_nop", NULL, NULL, &n[i], &err), &err);
    if (i) need(sp_graph_wire(g, n[i], 0, (sp_ref){n[i - 1], 0, -1}, &err), &err);
    need(sp_graph_plan(g, n[i], &err), &err);
  }
  for (int l = 0; l < n_lanes; l++) {
    snprintf(names[l], sizeof names[l], "l%d", l);
    lanes[l] = (sp_lane_desc){names[l], n + l * STAGES / n_lanes, (size_t)(STAGES / n_lanes), l * depth, 0};
  }
  need(sp_graph_strategy(g, "bench", lanes, (size_t)n_lanes, &err), &err);
  need(sp_graph_schedule_info(g, &info, &err), &err);
  for (int k = 0; k < RUNS; k++) {
    double begin;
    need(sp_graph_begin(g, STEPS, &err), &err);
    begin = sp_now();
    do need(sp_graph_next(g, &r, &err), &err);
    while (r);
    us[k] = (sp_now() - begin) / STEPS * 1e6;
  }
  qsort(us, RUNS, sizeof *us, by_value);
  printf("%5d %6d %10d %6zu %10.2f %10.2f %10.2f\n", n_lanes, depth, run_ahead, info.n_waits, us[RUNS / 2], us[0],
         us[RUNS - 1]);
  sp_graph_free(g);
}

int main(int argc, char **argv) {
  const char *file = argc > 1 ? argv[1] : "tests/plugins/.libs/toy.so";
  sp_env_opts eo = {.plugins = &file, .n_plugins = 1, .threads = 1};
  sp_env *env;
  sp_err err;
  need(sp_env_new(&env, &eo, &err), &err);
  printf("%d empty stages, %d steps, median of %d runs\n", STAGES, STEPS, RUNS);
  printf("lanes  depth  run-ahead  waits    us/step       best      worst\n");
  bench(env, 1, 0, 0);
  bench(env, 1, 0, 2);
  bench(env, 2, 1, 2);
  bench(env, 8, 1, 10);
  sp_env_free(env);
  return 0;
}
