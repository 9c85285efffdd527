/* SPDX-License-Identifier: MIT
 * bench_schedule.c - how long deriving and proving a large schedule takes. */
#include "base/util.h"
#include "tests/kit/sched_random.h"

#include <stdio.h>
#include <stdlib.h>

enum { GRAPHS = 40 };

int main(void) {
  static rs g;
  double derive = 0, prove = 0, worst = 0;
  size_t tasks = 0, resources = 0, kept = 0, all = 0;
  for (int i = 0; i < GRAPHS; i++) {
    sp_schedule s;
    sp_err err;
    rs_make(&g, (uint64_t)i, 24, 7);
    double t0 = sp_now();
    if (sp_schedule_derive(&s, &g.in, &err)) {
      fprintf(stderr, "bench_schedule: graph %d: %s\n", i, err.msg);
      return EXIT_FAILURE;
    }
    double t1 = sp_now();
    if (sp_schedule_prove(&s, &g.in, &err)) return EXIT_FAILURE;
    double t2 = sp_now();
    derive += t1 - t0;
    prove += t2 - t1;
    if (t1 - t0 > worst) worst = t1 - t0;
    if (g.in.n_tasks > tasks) tasks = g.in.n_tasks;
    if (g.in.n_resources > resources) resources = g.in.n_resources;
    kept += s.n_waits;
    all += s.n_derived;
    sp_schedule_free(&s);
  }
  printf(
      "%d graphs, up to %zu tasks and %zu resources on 8 lanes: derive %.2f ms (worst %.2f), of it the proof %.2f ms; "
      "%zu of %zu waits kept\n",
      GRAPHS, tasks, resources, 1e3 * derive / GRAPHS, 1e3 * worst, 1e3 * prove / GRAPHS, kept, all);
  return EXIT_SUCCESS;
}
