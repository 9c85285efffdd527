/* SPDX-License-Identifier: MIT
 * fuzz_schedule.c - inputs of the scheduler with wild numbers: refused in words, or scheduled and proved. */
#include "fuzz.h"
#include "tests/kit/sched_random.h"

static int wild(fz *f) {
  static const int telling[] = {-1, 0, 1, 2, 3, 7, 64, 4095, 4096, 4097, 1000000, INT32_MAX, INT32_MIN, INT32_MAX - 1};
  return telling[fz_below(f, sizeof telling / sizeof *telling)];
}

static void change(fz *f, rs *g) {
  sp_sched_task *t = &g->task[fz_below(f, (uint32_t)g->in.n_tasks)];
  sp_sched_resource *res = &g->res[fz_below(f, (uint32_t)g->in.n_resources)];
  sp_sched_lane *lane = &g->lane[fz_below(f, (uint32_t)g->in.n_lanes)];
  sp_sched_access *acc = &g->acc[fz_below(f, (uint32_t)g->n_acc)];
  switch (fz_below(f, 11)) {
    case 0: t->lane = wild(f); break;
    case 1: t->delay = wild(f); break;
    case 2: t->every = wild(f); break;
    case 3: t->phase = wild(f); break;
    case 4: t->lane = (int)fz_below(f, (uint32_t)g->in.n_lanes); break;
    case 5: res->slots = wild(f); break;
    case 6: res->extra = wild(f); break;
    case 7: res->group = wild(f); break;
    case 8: lane->delay = (int)fz_below(f, 2) ? (int)fz_below(f, 5) : wild(f); break;
    case 9: acc->resource = fz_below(f, 2) ? wild(f) : (int)fz_below(f, (uint32_t)g->in.n_resources); break;
    default: acc->mode = wild(f); break;
  }
}

int main(int argc, char **argv) {
  fz f;
  long rounds = fz_begin(&f, argc, argv, 600), accepted = 0;
  static rs g;
  for (long r = 0; r < rounds; r++) {
    rs_make(&g, (uint64_t)r % 200 + 1, 0, 1 + (int)fz_below(&f, 4));
    for (uint32_t k = fz_below(&f, 4); k > 0; k--) change(&f, &g);
    sp_schedule s = {0};
    sp_err err = {0};
    int rc = sp_schedule_derive(&s, &g.in, &err);
    if (rc) {
      FZ_CHECK(err.msg[0], "round %ld: refused with %d and no words", r, rc);
      continue;
    }
    accepted++;
    rc = sp_schedule_prove(&s, &g.in, &err);
    FZ_CHECK(rc == SP_OK, "round %ld: derived, but: %s", r, err.msg);
    sp_schedule_free(&s);
  }
  printf("%ld rounds, %ld accepted\n", rounds, accepted);
  FZ_CHECK(rounds < 500 || (accepted > 0 && accepted < rounds), "the mutations are too harsh or too mild");
  return 0;
}
