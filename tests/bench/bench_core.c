/* SPDX-License-Identifier: MIT
 * bench_core.c - the core's own cost of a step: 8 stages that do nothing, on one lane, on two that alternate, on eight.
 *
 *   bench_core [PLUGIN.so] [DEVICE] [STEPS]
 *
 * PLUGIN has toy_nop for the device: toy.so, and toy_cuda.so for cuda. On a device that records graphs the rows are
 * eager, a graph for each lane, and one for the whole step, beside the aims for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/engine.h"

#define STAGES 8
#define RUNS 9

static void need(int st, const sp_err *err) {
  if (!st) return;
  fprintf(stderr, "bench_core: %s\n", err->msg);
  exit(1);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

typedef struct way {
  const char *capture;
  int mode, n_lanes, depth, run_ahead;
  int units; /* what the aim counts in a step: calls, lanes' segments, steps */
  const char *unit;
  double aim; /* us a unit; 0: none */
} way;

static void wire(sp_graph *g, sp_node *n[STAGES]) {
  sp_err err;
  for (int i = 0; i < STAGES; i++) {
    need(sp_graph_add(g, "toy_nop", NULL, NULL, &n[i], &err), &err);
    if (i) need(sp_graph_wire(g, n[i], 0, (sp_ref){n[i - 1], 0, -1}, &err), &err);
    need(sp_graph_plan(g, n[i], &err), &err);
  }
}

static double run(sp_engine *e, uint64_t steps) {
  const sp_result *r;
  double begin;
  sp_err err;
  need(sp_engine_begin(e, steps, &err), &err);
  begin = sp_now();
  do need(sp_engine_next(e, &r, &err), &err);
  while (r);
  return (sp_now() - begin) / (double)steps * 1e6;
}

static void bench(sp_env *env, const char *device, const way *w, uint64_t steps) {
  sp_graph_opts o = {.device = device, .run_ahead = w->run_ahead, .capture = w->mode};
  sp_engine *e;
  sp_graph *g;
  sp_node *n[STAGES];
  sp_lane_desc lanes[STAGES];
  sp_schedule_info info;
  double us[RUNS];
  char names[STAGES][16];
  sp_err err;
  need(sp_engine_new(&e, env, &o, &err), &err);
  g = sp_engine_graph(e);
  wire(g, n);
  for (int l = 0; l < w->n_lanes; l++) {
    snprintf(names[l], sizeof names[l], "l%d", l);
    lanes[l] = (sp_lane_desc){
        {.name = names[l], .delay = l * w->depth}, n + l * STAGES / w->n_lanes, (size_t)(STAGES / w->n_lanes), NULL};
  }
  need(sp_graph_strategy(g, "bench", lanes, (size_t)w->n_lanes, &err), &err);
  need(sp_engine_schedule_info(e, &info, &err), &err);
  for (int k = 0; k < RUNS; k++) us[k] = run(e, steps);
  qsort(us, RUNS, sizeof *us, by_value);
  printf("%-8s %5d %6d %10d %6zu %10.2f %10.2f %10.2f", w->capture, w->n_lanes, w->depth, w->run_ahead, info.n_waits,
         us[RUNS / 2], us[0], us[RUNS - 1]);
  if (w->units) printf("   %5.2f us a %s", us[RUNS / 2] / w->units, w->unit);
  if (w->aim > 0) printf(", aim %.0f: %s", w->aim, us[RUNS / 2] / w->units <= w->aim ? "reached" : "MISSED");
  putchar('\n');
  fflush(stdout);
  sp_engine_free(e);
}

static const way plain[] = {{"off", SP_CAPTURE_AUTO, 1, 0, 0, 0, NULL, 0},
                            {"off", SP_CAPTURE_AUTO, 1, 0, 2, 0, NULL, 0},
                            {"off", SP_CAPTURE_AUTO, 2, 1, 2, 0, NULL, 0},
                            {"off", SP_CAPTURE_AUTO, 8, 1, 10, 0, NULL, 0}};
static const way graphs[] = {{"off", SP_CAPTURE_OFF, 1, 0, 2, STAGES, "stage call", 3},
                             {"off", SP_CAPTURE_OFF, 2, 1, 2, STAGES, "stage call", 3},
                             {"off", SP_CAPTURE_OFF, 8, 1, 10, STAGES, "stage call", 0},
                             {"lane", SP_CAPTURE_LANE, 1, 0, 2, 1, "segment", 10},
                             {"lane", SP_CAPTURE_LANE, 2, 1, 2, 2, "segment", 10},
                             {"lane", SP_CAPTURE_LANE, 8, 1, 10, 8, "segment", 10},
                             {"step", SP_CAPTURE_STEP, 1, 0, 2, 1, "step", 10},
                             {"step", SP_CAPTURE_STEP, 2, 1, 2, 1, "step", 10}};

int main(int argc, char **argv) {
  const char *file = argc > 1 ? argv[1] : "tests/plugins/.libs/toy.so", *device = argc > 2 ? argv[2] : "cpu";
  uint64_t steps = argc > 3 ? strtoull(argv[3], NULL, 10) : 20000;
  bool cpu = !strcmp(device, "cpu");
  const way *ways = cpu ? plain : graphs;
  size_t n = cpu ? sizeof plain / sizeof *plain : sizeof graphs / sizeof *graphs;
  sp_env_opts eo = {.plugins = &file, .n_plugins = 1, .threads = 1};
  sp_env *env;
  sp_err err;
  if (!steps) return fprintf(stderr, "bench_core: the number of steps must be at least 1\n"), 2;
  need(sp_env_new(&env, &eo, &err), &err);
  printf("%d empty stages on device %s, %llu steps, median of %d runs\n", STAGES, device, (unsigned long long)steps,
         RUNS);
  printf("capture  lanes  depth  run-ahead  waits    us/step       best      worst\n");
  for (size_t i = 0; i < n; i++) bench(env, device, &ways[i], steps);
  sp_env_free(env);
  return 0;
}
