/* SPDX-License-Identifier: MIT
 * fuzz_lists.c - lists of operations of random schedules, changed. Wild ones, with any number in any field, are refused
 * in words or proved, and neither reads memory that is not theirs. Changed in order, events or rings, one that the
 * proof still holds for must not race by the oracle's graph. */
#include "fuzz.h"
#include "tests/kit/sched_oracle.h"
#include "tests/kit/sched_random.h"

typedef struct count {
  long wild, wild_proved, changed, proved, too_large, unsound;
} count;

static const int telling[] = {-2, -1, 0, 1, 2, 3, 7, 64, 4095, 4096, 65536, 65537, 1000000, INT32_MAX, INT32_MIN};

static int wild(fz *f, int near) {
  switch (fz_below(f, 3)) {
    case 0: return (int)((uint32_t)near + fz_below(f, 3) - 1);
    case 1: return (int)fz_below(f, 12);
    default: return telling[fz_below(f, sizeof telling / sizeof *telling)];
  }
}

static void spoil(fz *f, sp_ops *o, const sp_sched_input *in, int *slots) {
  sp_op *op = &o->op[fz_below(f, (uint32_t)o->n)];
  switch (fz_below(f, 13)) {
    case 0: op->kind = wild(f, op->kind); break;
    case 1: op->lane = wild(f, op->lane); break;
    case 2: op->task = wild(f, op->task); break;
    case 3: op->from = wild(f, op->from); break;
    case 4: op->back = wild(f, op->back); break;
    case 5: op->n = wild(f, op->n); break;
    case 6: o->ring[fz_below(f, (uint32_t)in->n_tasks)] = wild(f, 1); break;
    case 7: o->tick_ring = wild(f, o->tick_ring); break;
    case 8: o->n_launch = wild(f, o->n_launch); break;
    case 9: slots[fz_below(f, (uint32_t)in->n_resources)] = wild(f, 1); break;
    case 10: *op = (sp_op){SP_OP_LAUNCH, op->lane, wild(f, -1), wild(f, 0), 0, wild(f, 3)}; break;
    case 11: *op = (sp_op){SP_OP_RECORD, op->lane, -1, 0, 0, 0}; break;
    default:
      for (int k = 0; k < 3; k++) o->op[fz_below(f, (uint32_t)o->n)] = o->op[fz_below(f, (uint32_t)o->n)];
      break;
  }
}

/* Memory of exactly the length of the list, so that a sanitizer sees what reads past it. */
static bool trimmed(sp_ops *o) {
  sp_op *exact = malloc(o->n * sizeof *exact);
  if (!exact) return false;
  memcpy(exact, o->op, o->n * sizeof *exact);
  free(o->op);
  o->op = exact;
  o->cap = o->n;
  return true;
}

static void try_wild(fz *f, const sp_ops *list, const sp_sched_input *in, const int *slots, count *sum) {
  int changed_slots[RS_RESOURCES];
  sp_err err = {0};
  sp_ops o;
  memcpy(changed_slots, slots, in->n_resources * sizeof *slots);
  FZ_CHECK(so_copy(&o, list, in), "no memory");
  for (uint32_t k = 1 + fz_below(f, 3); k > 0; k--) spoil(f, &o, in, changed_slots);
  FZ_CHECK(trimmed(&o), "no memory");
  int status = sp_ops_prove(&o, in, changed_slots, &err);
  FZ_CHECK(!status || err.msg[0], "wild list %ld: refused with %d and no words", sum->wild, status);
  sum->wild++;
  sum->wild_proved += !status;
  sp_ops_free(&o);
}

static void try_change(uint64_t *state, const sp_ops *list, const sp_sched_input *in, const int *slots, count *sum) {
  sp_err err = {0}, race = {0};
  sp_ops o;
  FZ_CHECK(so_copy(&o, list, in), "no memory");
  for (uint32_t k = 1 + so_below(state, 2); k > 0; k--) so_change(&o, in, state);
  sum->changed++;
  if (!sp_ops_prove(&o, in, slots, &err)) {
    so_verdict verdict = so_judge(&o, in, slots, (uint64_t)sum->changed, &race);
    sum->proved++;
    sum->too_large += verdict == SO_TOO_LARGE;
    if (verdict == SO_RACES && sum->unsound++ < 3)
      fprintf(stderr, "change %ld is proved, but %s\n", sum->changed, race.msg);
  }
  sp_ops_free(&o);
}

/* One that capture has changed, if it is still right; else the plain one. */
static sp_ops a_list(fz *f, const sp_schedule *s, const sp_sched_input *in, uint64_t *state) {
  sp_ops plain, captured;
  sp_err err = {0};
  uint32_t way = fz_below(f, 3);
  FZ_CHECK(!sp_ops_lower(&plain, s, in, &err), "%s", err.msg);
  if (way == 0) return plain;
  int status =
      way == 1 ? so_capture_lanes(&captured, &plain, in, state, &err) : so_capture_tick(&captured, &plain, in, &err);
  if (!status && !sp_ops_prove(&captured, in, s->slots, &err)) {
    sp_ops_free(&plain);
    return captured;
  }
  sp_ops_free(&captured);
  return plain;
}

int main(int argc, char **argv) {
  enum { WILD = 20, CHANGES = 5 }; /* of one list */
  fz f;
  long rounds = fz_begin(&f, argc, argv, 250);
  uint64_t state = fz_next(&f);
  count sum = {0};
  static rs g;
  for (long r = 0; r < rounds; r++) {
    sp_schedule s = {0};
    sp_err err = {0};
    rs_make(&g, state + (uint64_t)r, 1 + (int)fz_below(&f, 5), 1 + (int)fz_below(&f, 4));
    for (size_t l = 0; l < g.in.n_lanes && fz_below(&f, 2); l++)
      g.lane[l].place = g.lane[l].host ? 0 : (int)fz_below(&f, 2);
    g.in.in_flight = 12;
    if (sp_schedule_derive(&s, &g.in, &err)) continue;
    sp_ops list = a_list(&f, &s, &g.in, &state);
    FZ_CHECK(so_judge(&list, &g.in, s.slots, 1, &err) != SO_RACES, "round %ld: not changed at all, but %s", r, err.msg);
    for (int k = 0; k < WILD; k++) try_wild(&f, &list, &g.in, s.slots, &sum);
    for (int k = 0; k < CHANGES; k++) try_change(&state, &list, &g.in, s.slots, &sum);
    sp_ops_free(&list);
    sp_schedule_free(&s);
  }
  printf(
      "%ld wild lists, %ld of them proved; %ld changed ones, %ld proved, %ld too large for the oracle, %ld unsound\n",
      sum.wild, sum.wild_proved, sum.changed, sum.proved, sum.too_large, sum.unsound);
  FZ_CHECK(!sum.unsound, "the proof holds for lists that race");
  FZ_CHECK(rounds < 200 || (sum.proved > sum.changed / 50 && sum.too_large * 4 < sum.proved),
           "the changes are too harsh, or the lists too long");
  return 0;
}
