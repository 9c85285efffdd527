/* SPDX-License-Identifier: MIT
 * sched_random.c - random graphs of stages with forward, backward, update, weights and state, on random lanes. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers" /* what is left out is 0 */
#include "sched_random.h"

#include <stdio.h>
#include <string.h>

enum { MAX_STAGES = 24 };

int rs_below(rs *g, int n) {
  uint64_t z = g->state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return (int)((z ^ z >> 31) % (uint64_t)n);
}

static const char *label(rs *g, const char *what, int i) {
  char *s = g->name[g->n_names++];
  snprintf(s, sizeof g->name[0], "%s%d", what, i);
  return s;
}

static int lane(rs *g, int delay, bool host) {
  g->lane[g->in.n_lanes] = (sp_sched_lane){label(g, host ? "host" : "lane", (int)g->in.n_lanes), delay, host};
  return (int)g->in.n_lanes++;
}

static int resource(rs *g, const char *what, int i, int slots, int extra, int group) {
  g->res[g->in.n_resources] = (sp_sched_resource){label(g, what, i), slots, extra, group};
  return (int)g->in.n_resources++;
}

static void task(rs *g, const char *what, int i, int on, int delay, int every, int phase) {
  g->task[g->in.n_tasks++] = (sp_sched_task){label(g, what, i), on, delay, every, phase, g->acc + g->n_acc, 0};
}

/* of the task made last */
static void uses(rs *g, int r, int mode) {
  g->acc[g->n_acc++] = (sp_sched_access){r, mode};
  g->task[g->in.n_tasks - 1].n_acc++;
}

/* A device lane with a delay of at least `least`; the last one always has the largest. */
static int pick_lane(rs *g, int least) {
  int n = (int)g->in.n_lanes - 1, l = 1 + rs_below(g, n);
  while (g->lane[l].delay < least) l = l == n ? 1 : l + 1;
  return l;
}

typedef struct stage {
  int lane, n_in, in[3], out, dout, saved, weight, dweight, state;
  bool trained, has_dout;
} stage;

static void forward(rs *g, stage *st, int i, int block) {
  stage *s = &st[i];
  task(g, "forward", i, s->lane, -1, 1, 0);
  if (rs_below(g, 2)) uses(g, block, SP_READ);
  for (int k = 0; k < s->n_in; k++) uses(g, st[s->in[k]].out, SP_READ);
  if (s->weight >= 0) uses(g, s->weight, SP_READ);
  if (s->state >= 0) uses(g, s->state, SP_READ | SP_WRITE);
  uses(g, s->out, SP_WRITE);
  if (s->saved >= 0) uses(g, s->saved, SP_WRITE);
}

static void backward(rs *g, stage *st, int i, bool accumulate) {
  stage *s = &st[i];
  task(g, "backward", i, s->lane, -1, 1, 0);
  uses(g, s->dout, SP_READ);
  uses(g, s->saved, SP_READ);
  uses(g, s->weight, SP_READ);
  uses(g, s->dweight, accumulate ? SP_READ | SP_WRITE : SP_WRITE);
  for (int k = 0; k < s->n_in; k++) {
    stage *from = &st[s->in[k]];
    uses(g, from->out, SP_READ);
    if (!from->trained) continue;
    uses(g, from->dout, from->has_dout ? SP_READ | SP_WRITE : SP_WRITE);
    from->has_dout = true;
  }
}

/* Things with intervals: a slotted edge written now and then, read by all; a probe; a state that two lanes share. */
static void extras(rs *g, stage *st, int n, int depth) {
  int top = pick_lane(g, depth), other = pick_lane(g, depth), every = 1 + rs_below(g, 3);
  if (rs_below(g, 2)) {
    int r = resource(g, "burst", 0, 1 + rs_below(g, 4), 0, 0);
    task(g, "burst", 0, top, -1, every, rs_below(g, every));
    uses(g, r, SP_WRITE);
    task(g, "reader", 0, other, -1, 1 + rs_below(g, 2), 0);
    uses(g, r, SP_READ);
    task(g, "reader", 1, pick_lane(g, depth), -1, 1, 0);
    uses(g, r, SP_READ);
    uses(g, st[rs_below(g, n)].out, SP_READ);
  }
  if (rs_below(g, 2)) {
    int r = resource(g, "shared", 0, 1, 0, 0);
    task(g, "left", 0, top, -1, every, every - 1);
    uses(g, r, SP_READ | SP_WRITE);
    task(g, "right", 0, other, -1, 1, 0);
    uses(g, r, SP_READ | SP_WRITE);
  }
}

void rs_make(rs *g, uint64_t seed, int stages, int lanes) {
  memset(g, 0, sizeof *g);
  g->state = seed;
  g->in = (sp_sched_input){g->lane, 0, g->task, 0, g->res, 0, 0};
  int n = stages ? stages : 2 + rs_below(g, 6), n_lanes = lanes ? lanes : 1 + rs_below(g, 4), depth = 0;
  int host = lane(g, 0, true), level = rs_below(g, n_lanes); /* from there on, lanes run the same step */
  for (int i = 0; i < n_lanes; i++) {
    lane(g, depth, false);
    if (i < level) depth += rs_below(g, 4) ? rs_below(g, 2) : 2;
  }

  stage st[MAX_STAGES] = {0};
  int first_trained = rs_below(g, n + 1), every = rs_below(g, 3) ? 1 : 2 + rs_below(g, 3);
  int block = resource(g, "block", 0, 0, rs_below(g, 2), 0);
  for (int i = 0; i < n; i++) {
    stage *s = &st[i];
    int least = 0;
    s->trained = i && i >= first_trained;
    if (i) {
      s->n_in = 1 + (i > 2 ? rs_below(g, 2) : 0);
      s->in[0] = i - 1;
      if (s->n_in > 1) s->in[1] = rs_below(g, i - 1);
      for (int k = 0; k < s->n_in; k++)
        if (g->lane[st[s->in[k]].lane].delay > least) least = g->lane[st[s->in[k]].lane].delay;
    }
    s->lane = i || rs_below(g, 2) ? pick_lane(g, s->trained ? depth : least) : host;
    s->out = resource(g, "out", i, 0, rs_below(g, 4) == 0, rs_below(g, 5) == 0);
    s->saved = s->trained ? resource(g, "saved", i, 0, 0, 0) : -1;
    s->dout = s->trained ? resource(g, "dout", i, 0, 0, 0) : -1;
    s->weight = s->trained || rs_below(g, 2) ? resource(g, "weight", i, 1, 0, 0) : -1;
    s->dweight = s->trained ? resource(g, "dweight", i, every > 1, 0, 0) : -1;
    s->state = rs_below(g, 3) == 0 ? resource(g, "state", i, 1, 0, 0) : -1;
  }

  task(g, "fill", 0, host, 0, 1, 0);
  uses(g, block, SP_WRITE);
  for (int i = 0; i < n; i++) forward(g, st, i, block);
  int metric = resource(g, "metric", 0, 0, rs_below(g, 2), 0);
  task(g, "loss", 0, pick_lane(g, depth), -1, 1, 0);
  uses(g, st[n - 1].out, SP_READ);
  uses(g, metric, SP_WRITE);
  if (st[n - 1].trained) {
    uses(g, st[n - 1].dout, SP_WRITE);
    st[n - 1].has_dout = true;
  }
  for (int i = n - 1; i > 0 && st[i].trained; i--) backward(g, st, i, every > 1);
  for (int i = 1; i < n; i++) {
    if (!st[i].trained) continue;
    task(g, "update", i, rs_below(g, 4) ? st[i].lane : pick_lane(g, depth), -1, every, every - 1);
    uses(g, block, SP_READ);
    uses(g, st[i].dweight, every > 1 ? SP_READ | SP_WRITE : SP_READ);
    uses(g, st[i].weight, SP_READ | SP_WRITE);
  }
  extras(g, st, n, depth);
  int often = rs_below(g, 3) ? 1 : 3;
  task(g, "collect", 0, host, depth + rs_below(g, 3), often, rs_below(g, often));
  uses(g, metric, SP_READ);
}
