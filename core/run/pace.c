/* SPDX-License-Identifier: MIT
 * pace.c - see pace.h. */
#include "run/pace.h"

#include <math.h>
#include <stdlib.h>

#include "base/util.h"

#define FADE 20 /* steps that a mean is about */

sp_rank_time sp_pace_take(sp_pacer *p, sp_ranks *ranks) {
  double now = sp_now(), waited = sp_ranks_waited(ranks);
  sp_rank_time t = {0};
  if (p->last > 0) {
    t.waited = waited - p->waited;
    t.own = fmax(now - p->last - t.waited, 1e-9);
  }
  p->last = now;
  p->waited = waited;
  return t;
}

sp_rank_time sp_pace_take_device(sp_pacer *p, double waited) {
  double now = sp_now();
  sp_rank_time t = {0};
  if (p->last > 0) p->apart += now - p->last, p->gaps++;
  p->last = now;
  if (waited <= 0 || !p->gaps) return t;
  double mean = p->apart / p->gaps; /* which a single step may be longer than */
  t = (sp_rank_time){fmax(mean - waited, 1e-9), fmin(waited, mean)};
  p->apart = p->gaps = 0;
  return t;
}

void sp_pace_begin(sp_pacer *p) {
  if (!p->steps) p->apart = p->gaps = 0;
}

static int by_time(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void judge(sp_pacer *p) {
  sp_pace *pace = &p->pace;
  for (int r = 0; r < p->n_ranks; r++) {
    p->sorted[r] = p->own[r];
    if (p->own[r] > p->own[pace->slowest]) pace->slowest = r;
  }
  qsort(p->sorted, (size_t)p->n_ranks, sizeof *p->sorted, by_time);
  pace->behind = p->own[pace->slowest] - p->sorted[(p->n_ranks - 1) / 2];
  pace->waited = p->sum_waited / p->sum;
}

const sp_pace *sp_pace_add(sp_pacer *p, const sp_rank_time *(*of_rank)(const void *arg, int rank), const void *arg) {
  double sum = 0, waited = 0;
  bool known = true;
  for (int r = 0; r < p->n_ranks; r++) known = known && of_rank(arg, r)->own > 0;
  if (!known) return p->steps ? &p->pace : NULL;
  if (p->steps < FADE) p->steps++;
  for (int r = 0; r < p->n_ranks; r++) {
    const sp_rank_time *t = of_rank(arg, r);
    p->own[r] += (t->own - p->own[r]) / p->steps;
    sum += t->own + t->waited;
    waited += t->waited;
  }
  p->sum += (sum - p->sum) / p->steps;
  p->sum_waited += (waited - p->sum_waited) / p->steps;
  judge(p);
  return &p->pace;
}
