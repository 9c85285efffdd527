/* SPDX-License-Identifier: MIT
 * bench_comm.c - how long a communicator's calls take, by their bytes, and the line T = a + n / b through these times.
 *
 *   bench_comm COMM all|quick|all_to_all|all_gather|broadcast RANKS     e.g. bench_comm local all 4
 *
 * A size is that of the whole: each rank has 1 / RANKS of what is gathered or sent to all. n counts what a rank gets
 * from the others. Calls follow each other without a pause, on one stream; a time is that of the slowest rank, the
 * median of five rows of calls. Under mpirun each process is a rank, see tests/comm/ranks.c and tests/bench/comm.sh. */
#include <stdio.h>
#include <stdlib.h>

#include "../comm/ranks.h"

enum { RUNS = 5, SIZES = 6, MOST_CALLS = 1000 };

static const char *const names[] = {
    [ALL_TO_ALL] = "all_to_all", [ALL_GATHER] = "all_gather", [BROADCAST] = "broadcast"};
/* Buckets and factors of reference_seg.lua, and two that show what a call costs by itself. */
static const size_t sizes[SIZES] = {2048, 32768, 262144, 2800000, 33600000, 179000000};

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void fill_in(rank *k, call *c, int kind, const memory m[2], size_t bytes) {
  size_t each = bytes / (size_t)k->n;
  *c = (call){.k = k, .kind = kind, .dst = m[0].at, .src = m[1].at, .bytes = kind == BROADCAST ? bytes : each};
  if (kind == ALL_GATHER) c->src = m[0].at + (size_t)k->r * each; /* in place, as gradients are */
}

/* us a call, of the slowest rank. */
static double row_of(rank *k, call *calls, size_t n) {
  double mine, all[RANKS], most = 0;
  barrier(k);
  double begun = sp_now();
  for (size_t i = 0; i < n; i++) enqueue(&calls[i]);
  wait_for(k);
  mine = (sp_now() - begun) * 1e6 / (double)n;
  for (size_t i = 0; i < n; i++) WANT(k, calls[i].status == SP_OK, "%s", calls[i].err.msg);
  WANT(k, exchange(&k->boot, &mine, sizeof mine, all) == SP_OK, "%s", k->err.msg);
  for (int r = 0; r < k->n; r++) most = all[r] > most ? all[r] : most;
  return most;
}

static double time_of(rank *k, int kind, const memory m[2], size_t bytes, double arrive) {
  static call calls[MOST_CALLS];
  size_t n = ((size_t)64 << 20) / bytes;
  double us[RUNS];
  n = n < 1 ? 1 : n > MOST_CALLS ? MOST_CALLS : n;
  for (size_t i = 0; i < n; i++) fill_in(k, &calls[i], kind, m, bytes);
  row_of(k, calls, n > 2 ? n / 2 : 1);
  for (int i = 0; i < RUNS; i++) us[i] = row_of(k, calls, n);
  qsort(us, RUNS, sizeof *us, by_value);
  double mid = us[RUNS / 2];
  if (k->r == 0)
    printf("%-6s %5d %-10s %11zu %10.1f %10.1f .. %-10.1f %7.2f\n", k->type->name, k->n, names[kind], bytes, mid, us[0],
           us[RUNS - 1], arrive / mid * 1e-3);
  return mid;
}

/* Least squares of the relative errors, so that small calls count as much as large ones. */
static void fit(const rank *k, int kind, const double *n, const double *us, size_t count) {
  double xx = 0, xy = 0, yy = 0, x = 0, y = 0, worst = 0;
  for (size_t i = 0; i < count; i++) {
    double p = 1 / us[i], q = n[i] / us[i];
    xx += p * p, xy += p * q, yy += q * q, x += p, y += q;
  }
  double det = xx * yy - xy * xy, a = (x * yy - y * xy) / det, slope = (y * xx - x * xy) / det;
  for (size_t i = 0; i < count; i++) {
    double off = (a + slope * n[i]) / us[i] - 1;
    worst = off * off > worst * worst ? off : worst;
  }
  printf("fit    %5d %-10s ", k->n, names[kind]);
  if (slope > 0) printf("a %.1f us, b %.3f GB/s, at most %.0f %% off\n", a, 1e-3 / slope, worst * 100);
  else printf("no line: larger calls took no longer (other programs ran, too?)\n");
}

static void times(rank *k, int kind, size_t count) {
  double n[SIZES], us[SIZES], part = kind == BROADCAST ? 1 : (double)(k->n - 1) / k->n;
  memory m[2] = {take(k, true, sizes[count - 1]), take(k, true, sizes[count - 1])};
  for (int i = 0; i < 2; i++) { /* memory that nobody has written yet is read too fast */
    call c;
    size_t each = sizes[count - 1] / (size_t)k->n;
    WANT(k, make(k, &c, ALL_TO_ALL, m[1 - i].at, m[i].at, each, 0) == SP_OK, "%s", c.err.msg);
  }
  for (size_t i = 0; i < count; i++) {
    n[i] = part * (double)sizes[i];
    us[i] = time_of(k, kind, m, sizes[i], n[i]);
  }
  if (k->r == 0) fit(k, kind, n, us, count);
  for (int i = 0; i < 2; i++) give(k, m[i]);
  barrier(k);
}

static void run(rank *k, int first, int last, size_t count) {
  WANT(k, k->n > 1, "one rank moves nothing: take 2 to %d", RANKS);
  begin(k);
  if (k->r == 0)
    printf("%-6s %5s %-10s %11s %10s %10s .. %-10s %7s\n", "comm", "ranks", "call", "bytes", "us", "least", "most",
           "GB/s");
  for (int kind = first; kind <= last; kind++) times(k, kind, count);
  end(k);
}

static void all(rank *k) { run(k, ALL_TO_ALL, BROADCAST, SIZES); }
static void quick(rank *k) { run(k, ALL_TO_ALL, BROADCAST, 3); }
static void to_all(rank *k) { run(k, ALL_TO_ALL, ALL_TO_ALL, SIZES); }
static void gather(rank *k) { run(k, ALL_GATHER, ALL_GATHER, SIZES); }
static void from_one(rank *k) { run(k, BROADCAST, BROADCAST, SIZES); }

const test_case cases[] = {{"all", all},           {"quick", quick},        {"all_to_all", to_all},
                           {"all_gather", gather}, {"broadcast", from_one}, {NULL, NULL}};
