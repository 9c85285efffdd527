/* SPDX-License-Identifier: MIT
 * gate.c - see gate.h. */
#include "run/gate.h"

#include <math.h>
#include <string.h>

#define FADE 4     /* steps that a mean is about */
#define MARGIN 0.5 /* of the lead, to be rather early */

/* ---- what is learnt ---------------------------------------------------------------------------------------------- */

/* Something took no less than `least` and no more than `most` seconds. */
static void learn(sp_gate_mean *m, double least, double most) {
  double x = fmin(fmax(m->mean, least), most);
  if (!m->n) x = most;
  if (m->n < FADE) m->n++;
  m->mean += (x - m->mean) / m->n;
}

void sp_gate_init(sp_gate *g, unsigned turns, unsigned lanes, sp_gate_step *room, size_t cap) {
  *g = (sp_gate){.turns = turns, .lanes = lanes, .flight = room, .cap = cap, .left = NAN};
}

void sp_gate_clear(sp_gate *g, double now) {
  g->n = 0;
  g->looked = now;
  g->left = NAN;
}

void sp_gate_leave(sp_gate *g, double now) { g->left = now; }

void sp_gate_back(sp_gate *g, double now) {
  if (!isnan(g->left)) learn(&g->away, now - g->left, now - g->left);
  g->left = NAN;
}

void sp_gate_looked(sp_gate *g, double now) { g->looked = now; }

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static bool of_turn(const sp_gate *g, size_t i, uint64_t step) {
  return g->flight[i].step % g->turns == step % g->turns;
}

/* Those in flight with the lanes of `step`. */
static unsigned ahead_of(const sp_gate *g, uint64_t step) {
  unsigned k = 0;
  for (size_t i = 0; i < g->n; i++) k += of_turn(g, i, step);
  return k;
}

void sp_gate_taken(sp_gate *g, uint64_t step, double now) {
  if (g->n == g->cap) return; /* its time is not learnt */
  double since = ahead_of(g, step) < g->lanes ? now : NAN;
  g->flight[g->n++] = (sp_gate_step){step, now, NAN, since};
}

static sp_gate_step *find(sp_gate *g, uint64_t step) {
  for (size_t i = 0; i < g->n; i++)
    if (g->flight[i].step == step) return &g->flight[i];
  return NULL;
}

bool sp_gate_prepares(const sp_gate *g, uint64_t step) {
  for (size_t i = 0; i < g->n; i++)
    if (g->flight[i].step == step) return isnan(g->flight[i].prepared);
  return false;
}

void sp_gate_prepared(sp_gate *g, uint64_t step, double now) {
  sp_gate_step *s = find(g, step);
  if (!s || !isnan(s->prepared)) return;
  learn(&g->lead, fmax(g->looked - s->taken, 0), now - s->taken);
  s->prepared = now;
}

/* The first of those that wait for these lanes has them. */
static void pass_on(sp_gate *g, uint64_t step, double now) {
  for (size_t i = 0; i < g->n; i++) {
    if (!of_turn(g, i, step) || !isnan(g->flight[i].free)) continue;
    g->flight[i].free = now;
    return;
  }
}

void sp_gate_over(sp_gate *g, uint64_t step, double now) {
  sp_gate_step *s = find(g, step);
  if (!s) return;
  bool had_lanes = !isnan(s->free);
  double since = fmax(isnan(s->prepared) ? s->taken : s->prepared, had_lanes ? s->free : s->taken);
  if (had_lanes) learn(&g->busy, fmax(g->looked - since, 0), now - since);
  memmove(s, s + 1, (--g->n - (size_t)(s - g->flight)) * sizeof *s);
  if (had_lanes) pass_on(g, step, now);
}

/* ---- what is expected -------------------------------------------------------------------------------------------- */

static const sp_gate_step *nth(const sp_gate *g, uint64_t step, unsigned want) {
  size_t i = 0;
  for (unsigned at = 0; !of_turn(g, i, step) || at++ != want; i++) continue;
  return &g->flight[i];
}

/* When lanes are free for one more of this turn, of which k are in flight, at least `lanes`. Each gets them from that
 * `lanes` before it. What is overdue may be over any time. */
static double free_at(const sp_gate *g, uint64_t step, unsigned k, double now) {
  double end = now;
  for (unsigned i = k % g->lanes; i + g->lanes <= k; i += g->lanes) {
    const sp_gate_step *s = nth(g, step, i);
    double prepared = isnan(s->prepared) ? s->taken + g->lead.mean : s->prepared;
    end = fmax(now, fmax(prepared, isnan(s->free) ? end : s->free) + g->busy.mean);
  }
  return end;
}

double sp_gate_opens(const sp_gate *g, uint64_t step, bool full, double now) {
  unsigned k = ahead_of(g, step);
  if (k < g->lanes) return 0;
  for (size_t i = 0; i < g->n; i++)
    if (isnan(g->flight[i].prepared)) return INFINITY;
  if (full && k == g->lanes) return 0;
  if (!g->busy.n) return INFINITY;
  double in = free_at(g, step, k, now) - now - (1 + MARGIN) * g->lead.mean - g->away.mean - g->grain;
  return fmax(in, 0);
}

bool sp_gate_skips(const sp_gate *g, uint64_t step) {
  if (ahead_of(g, step) < g->lanes) return false;
  for (unsigned i = 1; i < g->turns; i++)
    if (ahead_of(g, step + i) < g->lanes) return true;
  return false;
}

/* Half of what is left, and then so often that what is overdue is seen within a sixteenth of its time. */
double sp_gate_look(const sp_gate *g, double now) {
  double least = INFINITY;
  for (size_t i = 0; i < g->n; i++) {
    const sp_gate_step *s = &g->flight[i];
    if (isnan(s->prepared)) {
      least = fmin(least, g->lead.n && s->taken + g->lead.mean > now ? (s->taken + g->lead.mean - now) / 2
                                                                     : (now - s->taken) / 16);
    } else if (!isnan(s->free)) {
      double since = fmax(s->prepared, s->free), end = since + g->busy.mean;
      least = fmin(least, g->busy.n && end > now ? (end - now) / 2 : (now - since) / 16);
    }
  }
  return least;
}
