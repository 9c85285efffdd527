/* SPDX-License-Identifier: MIT
 * fuzz_ranks.c - random schedules played by 2 to 8 ranks, whose threads go on in any order: one lane of each has all
 * that ranks give to each other, and the host meets the others where it collects a step. All end. A rank with two calls
 * swapped, one missing or one of another size has another list, which is found before anything runs; were it not, the
 * play names the calls that met, or stands still. */
#include "fuzz.h"
#include "base/util.h"
#include "schedule/ops.h"
#include "tests/kit/sched_random.h"

enum { STEPS = 7, RANKS = 8, TICKS = STEPS + 64, ITEMS = 1 << 15 };

/* What a stream has before it: an operation of a step. */
typedef struct item {
  int kind, task, step; /* WAIT: of the task that is waited for */
} item;

typedef struct rank {
  sp_op *op;
  size_t n;
  int bytes[RS_TASKS];
  item queue[RS_LANES][ITEMS];
  int put[RS_LANES], taken[RS_LANES];
  bool done[RS_TASKS][STEPS];
  int tick;
  size_t pos;
} rank;

static rank ranks[RANKS];
static int n_ranks, depth;
static const sp_sched_input *in;
static const sp_schedule *sched;

static bool runs(int task, int step) {
  const sp_sched_task *t = &in->tasks[task];
  return step >= 0 && step < STEPS && step % t->every == t->phase;
}

/* The last run of a task up to that step is over; one before the first counts. */
static bool is_done(const rank *r, int task, int step) {
  while (step >= 0 && !runs(task, step)) step--;
  return step < 0 || r->done[task][step];
}

/* What a lane, or the host (-1), of a rank would do with all others; NULL: nothing, or nothing yet. */
static const item *meets(const rank *r, int lane) {
  static item at[RANKS];
  if (lane >= 0) {
    const item *i = &r->queue[lane][r->taken[lane]];
    return r->taken[lane] < r->put[lane] && i->kind == SP_OP_COMM ? i : NULL;
  }
  if (r->tick >= STEPS + depth || r->pos >= r->n || r->op[r->pos].kind != SP_OP_COLLECT) return NULL;
  int task = r->op[r->pos].task, step = r->tick - sched->delay[task];
  if (!runs(task, step)) return NULL;
  at[r - ranks] = (item){SP_OP_COLLECT, task, step};
  return &at[r - ranks];
}

/* One operation of the host's list; false: it waits, or is at the end. */
static bool host(rank *r) {
  if (r->tick >= STEPS + depth || meets(r, -1)) return false;
  if (r->pos == r->n) {
    r->pos = 0;
    r->tick++;
    return true;
  }
  const sp_op *op = &r->op[r->pos];
  int step = r->tick - sched->delay[op->task];
  bool mine = runs(op->task, step);
  if (mine && op->kind == SP_OP_SYNC && !is_done(r, op->from, step - op->back)) return false;
  r->pos++;
  if (!mine || op->kind == SP_OP_SYNC || in->lanes[op->lane].host) return true;
  bool wait = op->kind == SP_OP_WAIT;
  FZ_CHECK(r->put[op->lane] < ITEMS, "a queue is too short");
  r->queue[op->lane][r->put[op->lane]++] = (item){op->kind, wait ? op->from : op->task, wait ? step - op->back : step};
  return true;
}

static bool lane(rank *r, int l) {
  const item *i = &r->queue[l][r->taken[l]];
  if (r->taken[l] == r->put[l] || i->kind == SP_OP_COMM) return false;
  if (i->kind == SP_OP_WAIT && !is_done(r, i->task, i->step)) return false;
  if (i->kind == SP_OP_RECORD) r->done[i->task][i->step] = true;
  r->taken[l]++;
  return true;
}

/* All ranks are at a call of that lane, or the host's: it is made. Words where the calls differ. */
static bool together(int l, char *words, size_t n) {
  const item *first = meets(&ranks[0], l);
  for (int r = 0; r < n_ranks; r++)
    if (!meets(&ranks[r], l)) return false;
  for (int r = 1; r < n_ranks; r++) {
    const item *other = meets(&ranks[r], l);
    int a = ranks[0].bytes[first->task], b = ranks[r].bytes[other->task];
    if (other->task == first->task && other->step == first->step && a == b) continue;
    snprintf(words, n, "rank %d is at '%s' of step %d (%d bytes), rank 0 at '%s' of step %d (%d bytes)", r,
             in->tasks[other->task].name, other->step, b, in->tasks[first->task].name, first->step, a);
    return true;
  }
  for (int r = 0; r < n_ranks; r++)
    if (l >= 0) ranks[r].taken[l]++;
    else ranks[r].pos++;
  return true;
}

static bool ended(void) {
  for (int r = 0; r < n_ranks; r++) {
    if (ranks[r].tick < STEPS + depth) return false;
    for (size_t l = 0; l < in->n_lanes; l++)
      if (ranks[r].taken[l] < ranks[r].put[l]) return false;
  }
  return true;
}

/* Somebody goes on, anybody; false: nobody can. */
static bool go_on(fz *f, int comm, char *words, size_t n) {
  int agents = n_ranks * ((int)in->n_lanes + 1), from = (int)fz_below(f, (uint32_t)agents);
  for (int k = 0; k < agents; k++) {
    int who = (from + k) % agents, r = who % n_ranks, l = who / n_ranks - 1, more = 1 + (int)fz_below(f, 6);
    bool moved = false;
    while (more-- && (l < 0 ? host(&ranks[r]) : lane(&ranks[r], l))) moved = true;
    if (moved) return true;
  }
  return together(comm, words, n) || together(-1, words, n);
}

static bool play(fz *f, int comm, char *words, size_t n) {
  words[0] = 0;
  for (int r = 0; r < n_ranks; r++) {
    rank *k = &ranks[r];
    memset(k->put, 0, sizeof k->put);
    memset(k->taken, 0, sizeof k->taken);
    memset(k->done, 0, sizeof k->done);
    k->tick = 0;
    k->pos = 0;
  }
  while (!words[0] && go_on(f, comm, words, n)) {}
  if (!words[0] && !ended()) snprintf(words, n, "they stand still");
  return !words[0];
}

static uint64_t digest(const rank *r) {
  uint64_t h = sp_fnv64(SP_FNV64, r->op, r->n * sizeof *r->op);
  return sp_fnv64(h, r->bytes, sizeof r->bytes);
}

/* In some step both do. */
static bool run_together(int a, int b) {
  for (int s = 0; s < STEPS; s++)
    if (runs(a, s) && runs(b, s)) return true;
  return false;
}

/* Changes one rank's list: 0 swaps two calls between ranks, 1 leaves one out, 2 has one of another size. */
static bool spoil(fz *f, rank *r, int how) {
  size_t at[1024], n = 0;
  for (size_t i = 0; i < r->n && n < 1024; i++)
    if (r->op[i].kind == SP_OP_COMM) at[n++] = i;
  if (!n || (how == 0 && n < 2)) return false;
  size_t k = fz_below(f, (uint32_t)n), other = at[(k + 1 + fz_below(f, (uint32_t)n - (n > 1))) % n];
  sp_op first = r->op[at[k]];
  if (!run_together(first.task, how ? first.task : r->op[other].task)) return false;
  if (how == 2) r->bytes[first.task]++;
  else if (how == 1) memmove(&r->op[at[k]], &r->op[at[k] + 1], (--r->n - at[k]) * sizeof first);
  else if (r->op[other].task == first.task) return false;
  else r->op[at[k]] = r->op[other], r->op[other] = first;
  return true;
}

static void give_lists(const sp_ops *ops) {
  for (int r = 0; r < n_ranks; r++) {
    ranks[r].n = ops->n;
    memcpy(ranks[r].op, ops->op, ops->n * sizeof *ops->op);
    for (size_t t = 0; t < in->n_tasks; t++) ranks[r].bytes[t] = 256 * (int)(t + 1);
  }
}

/* A random device lane has what ranks give to each other. */
static int choose_lane(fz *f, rs *g) {
  int l;
  do l = (int)fz_below(f, (uint32_t)g->in.n_lanes);
  while (g->lane[l].host);
  for (size_t t = 0; t < g->in.n_tasks; t++)
    if (g->task[t].lane == l) g->task[t].op = SP_OP_COMM;
    else if (g->lane[g->task[t].lane].host) g->task[t].op = SP_OP_COLLECT;
  return l;
}

int main(int argc, char **argv) {
  const char *sanitizers = getenv("SP_SANITIZERS");
  fz f;
  long rounds = fz_begin(&f, argc, argv, sanitizers && strcmp(sanitizers, "none") ? 2000 : 10000), played = 0,
       spoiled = 0, still = 0;
  static rs g;
  for (long round = 0; round < rounds; round++) {
    sp_schedule s = {0};
    sp_ops ops = {0};
    sp_err err = {0};
    char words[400];
    rs_make(&g, fz_next(&f), 0, 1 + (int)fz_below(&f, 5));
    int comm = choose_lane(&f, &g);
    if (sp_schedule_derive(&s, &g.in, &err)) continue;
    FZ_CHECK(!sp_ops_lower(&ops, &s, &g.in, &err), "round %ld: %s", round, err.msg);
    in = &g.in, sched = &s, depth = s.depth;
    n_ranks = 2 + (int)fz_below(&f, RANKS - 1);
    for (int r = 0; r < RANKS; r++)
      FZ_CHECK((ranks[r].op = realloc(ranks[r].op, (ops.n + 1) * sizeof *ops.op)), "no memory");
    give_lists(&ops);
    FZ_CHECK(play(&f, comm, words, sizeof words), "round %ld, %d ranks: %s", round, n_ranks, words);
    played++;
    for (int how = 0; how < 3; how++) {
      rank *r = &ranks[fz_below(&f, (uint32_t)n_ranks)];
      give_lists(&ops);
      uint64_t before = digest(r);
      if (!spoil(&f, r, how)) continue;
      spoiled++;
      FZ_CHECK(digest(r) != before, "round %ld: another list has the same digest", round);
      FZ_CHECK(!play(&f, comm, words, sizeof words), "round %ld, %d ranks: spoiled in way %d, and nobody sees it",
               round, n_ranks, how);
      still += strcmp(words, "they stand still") == 0;
    }
    sp_ops_free(&ops);
    sp_schedule_free(&s);
  }
  printf("%ld schedules played to their end, %ld spoiled: %ld told by the calls that met, %ld stood still\n", played,
         spoiled, spoiled - still, still);
  FZ_CHECK(rounds < 2000 || (played > rounds / 2 && spoiled > played), "too few were played");
  return 0;
}
