/* SPDX-License-Identifier: MIT
 * trial.c - see trial.h. */
#include "run/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/measure.h"
#include "run/unit.h"
#include "schedule/predict.h"

typedef struct candidate {
  sp_unit u;
  bool done;     /* it has run since it was built */
  bool ran;      /* so long that nothing is left that is done but once */
  uint64_t last; /* step that all lanes have done */
  double host;   /* seconds of a step that the host took to submit, when it ran last */
} candidate;

struct sp_trial {
  candidate **all;
  size_t n, cap;
  sp_costs costs;
  double other; /* seconds of the host for an operation that is no call, copy or launch */
  /* how the graph was */
  void **saved; /* weights, in the order of the walk below */
  size_t n_saved;
  uint64_t allocations;
  bool initialised;
  int (*lr)(void *arg, uint64_t step, double *lr, sp_err *err);
  sp_trace *trace;
  /* of the forecast that was given last */
  sp_trial_lane *lanes;
  double *share;
};

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static size_t bytes_of(const sp_node *n, size_t i) { return (size_t)sp_weights_bytes(&n->params, i); }

static int save_weights(sp_trial *t, sp_graph *g, sp_err *err) {
  size_t n = 0;
  int st = SP_OK;
  for (size_t i = 0; i < g->n_nodes; i++) n += g->nodes[i]->params.n_weights;
  if (!(t->saved = sp_calloc(n + 1, sizeof *t->saved)))
    return sp_nomem(err, n * sizeof *t->saved, "a copy of the weights");
  for (size_t i = 0; i < g->n_nodes && !st; i++)
    for (size_t k = 0; k < g->nodes[i]->params.n_weights && !st; k++) {
      const sp_node *node = g->nodes[i];
      void *copy = t->saved[t->n_saved++] = sp_calloc(1, bytes_of(node, k) + 1);
      st = copy ? sp_place_download(sp_node_place(node), copy, node->params.w[k].data, bytes_of(node, k), err)
                : sp_nomem(err, bytes_of(node, k), "a copy of the weights");
    }
  return st;
}

static int restore_weights(const sp_trial *t, sp_graph *g, sp_err *err) {
  size_t at = 0;
  int st = SP_OK;
  for (size_t i = 0; i < g->n_nodes && !st; i++)
    for (size_t k = 0; k < g->nodes[i]->params.n_weights && at < t->n_saved && !st; k++, at++)
      st = sp_place_upload(sp_node_place(g->nodes[i]), g->nodes[i]->params.w[k].data, t->saved[at],
                           bytes_of(g->nodes[i], k), err);
  return st;
}

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

static void set_quiet(sp_trial *t, sp_graph *g, bool quiet) {
  if (quiet) t->lr = g->train.lr, t->trace = g->opts.trace;
  g->train.lr = quiet ? NULL : t->lr;
  g->opts.trace = quiet ? NULL : t->trace;
}

static void free_trial(sp_trial *t) {
  for (size_t i = 0; i < t->n; i++) {
    sp_unit_free(&t->all[i]->u);
    free(t->all[i]);
  }
  for (size_t i = 0; i < t->n_saved; i++) free(t->saved[i]);
  sp_costs_free(&t->costs);
  free(t->all);
  free(t->saved);
  free(t->lanes);
  free(t->share);
  free(t);
}

int sp_trial_begin(sp_engine *e, sp_err *err) {
  sp_graph *g = e->g;
  if (e->failed) return sp_fail(err, SP_E_STATE, "the graph has failed before: %s", e->failure.msg);
  if (sp_ranks_opts(g->env->ranks)->ranks > 1)
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "strategies are tried by one process: run it once without --ranks, and name the one that is found");
  if (e->n && e->units[0].m->built) return sp_fail(err, SP_E_STATE, "the graph runs already: nothing can be tried");
  bool initialised = g->store.initialised, cut;
  uint64_t allocations = g->store.allocations;
  int st = sp_engine_plan(e, err);
  if (!st && !g->store.initialised) st = sp_store_init(&g->store, err);
  if (st || (st = sp_engine_fill(e, g->train.source, true, &cut, err))) return st; /* what was filled stays */
  sp_trial *t = sp_calloc(1, sizeof *t);
  if (!t) return sp_nomem(err, sizeof *t, "a trial");
  t->initialised = initialised;
  t->allocations = allocations;
  if ((st = save_weights(t, g, err))) {
    free_trial(t);
    return st;
  }
  set_quiet(t, g, true);
  e->trial = t;
  return SP_OK;
}

/* What pinned memory was given back is not kept either. */
static int renew_pool(sp_engine *e, sp_err *err) {
  sp_pool_free(e->pool);
  e->pool = NULL;
  return sp_engine_new_pool(e, err);
}

int sp_trial_end(sp_engine *e, sp_err *err) {
  sp_trial *t = e->trial;
  if (!t) return SP_OK;
  for (size_t i = 0; i < t->n; i++) sp_trial_drop(e, i);
  int st = restore_weights(t, e->g, err);
  set_quiet(t, e->g, false);
  e->g->store.initialised = t->initialised;
  e->g->store.allocations = t->allocations;
  free_trial(t);
  e->trial = NULL;
  sp_engine_unplan(e);
  return st ? st : renew_pool(e, err);
}

/* ---- candidates -------------------------------------------------------------------------------------------------- */

/* NULL: there is none of that number. */
static candidate *find_candidate(const sp_engine *e, size_t i, sp_err *err) {
  if (e->trial && i < e->trial->n) return e->trial->all[i];
  sp_fail(err, SP_E_STATE, "there is no candidate %zu", i);
  return NULL;
}

static bool same_tasks(const sp_program *a, const sp_program *b) {
  if (a->n_tasks != b->n_tasks || a->n_lanes != b->n_lanes || a->n_bufs != b->n_bufs) return false;
  for (size_t i = 0; i < a->n_tasks; i++)
    if (a->tasks[i].node != b->tasks[i].node || a->tasks[i].kind != b->tasks[i].kind ||
        a->tasks[i].every != b->tasks[i].every || a->sched.delay[i] != b->sched.delay[i])
      return false;
  for (size_t i = 0; i < a->n_bufs; i++)
    if (a->bufs[i].slots != b->bufs[i].slots) return false;
  return true;
}

static bool same_ops(const sp_ops *a, const sp_ops *b) {
  if (a->n != b->n) return false;
  for (size_t i = 0; i < a->n; i++) {
    const sp_op *x = &a->op[i], *y = &b->op[i];
    if (x->kind != y->kind || x->lane != y->lane || x->task != y->task || x->from != y->from || x->back != y->back ||
        x->n != y->n)
      return false;
  }
  return true;
}

static bool same(const sp_unit *a, const sp_unit *b) {
  return a->m && b->m && same_tasks(a->p, b->p) && same_ops(&a->m->ops, &b->m->ops);
}

int sp_trial_add(sp_engine *e, const char *name, const sp_lane_desc *lanes, size_t n, size_t *index, sp_err *err) {
  sp_trial *t = e->trial;
  if (!t) return sp_fail(err, SP_E_STATE, "no trial is under way");
  candidate *c = sp_calloc(1, sizeof *c);
  if (!c || !sp_grow(&t->all, &t->cap, t->n + 1, sizeof *t->all)) {
    free(c);
    return sp_nomem(err, sizeof *c, "a candidate");
  }
  sp_strategy *strategy;
  int st = sp_strategy_new(&strategy, e->g, name, lanes, n, err);
  if (!st) st = sp_unit_new(&c->u, e, NULL, strategy, err);
  sp_strategy_free(strategy);
  for (*index = 0; !st && *index < t->n; ++*index)
    if (same(&t->all[*index]->u, &c->u)) break;
  if (!st && *index == t->n) t->all[t->n++] = c;
  else {
    if (!st) sp_unit_free(&c->u);
    free(c);
  }
  return st;
}

int sp_trial_memory(sp_engine *e, size_t i, sp_mem *mem, sp_err *err) {
  const candidate *c = find_candidate(e, i, err);
  *mem = (sp_mem){0};
  if (!c) return err->status;
  const sp_program **progs = sp_calloc(e->n + 1, sizeof *progs);
  if (!progs) return sp_nomem(err, e->n * sizeof *progs, "programs");
  progs[0] = c->u.p;
  for (size_t k = 1; k < e->n; k++) progs[k] = e->units[k].p;
  sp_memory_count(e->g, progs, e->n, mem);
  int st = sp_memory_check(e->g, progs, e->n, err);
  free(progs);
  return st;
}

void sp_trial_drop(sp_engine *e, size_t i) {
  sp_err ignored;
  candidate *c = find_candidate(e, i, &ignored);
  if (!c || !c->u.m) return;
  sp_machine_free(c->u.m);
  c->u.m = NULL;
  c->ran = c->done = false;
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static int build(sp_engine *e, candidate *c, sp_err *err) {
  if (!c->u.m) {
    int st = sp_machine_new(&c->u.m, c->u.p, e->pool, err);
    if (st) return st;
    sp_loop_init(&c->u.loop, c->u.m);
  }
  return c->u.m->built ? SP_OK : sp_machine_build(c->u.m, NULL, err);
}

/* The very first steps touch memory, and record every graph. */
static uint64_t steps_before(const candidate *c) {
  return c->u.m->capture == SP_CAPTURE_OFF ? 2 : (uint64_t)c->u.p->ring + 2;
}

/* Steps may be seen complete in bunches: of all replicas, or between two updates. */
static uint64_t bunch(const sp_graph *g, const sp_program *p) {
  int n = g->train.on ? g->train.accumulate : 1;
  for (size_t i = 0; i < p->n_tasks && n < 1024; i++) n = n / sp_gcd(n, p->tasks[i].every) * p->tasks[i].every;
  return (uint64_t)n;
}

/* From nothing in flight to nothing in flight: so many steps in `seconds`, for `blocked` of which the host waited. */
static int play(sp_engine *e, candidate *c, uint64_t steps, double *seconds, double *blocked, sp_err *err) {
  sp_loop *l = &c->u.loop;
  uint64_t first = e->units[0].loop.next;
  const sp_result *res;
  int st = restore_weights(e->trial, e->g, err);
  if (st || (st = sp_store_keep_statistics(&e->g->store, err)) || (st = sp_loop_begin(l, first, steps, err))) return st;
  l->timed = true;
  double begun = sp_now(), before = l->blocked;
  do {
    if ((st = sp_loop_next(l, &res, err))) return st;
    if (res) *seconds = res->time - begun;
  } while (res);
  *blocked = l->blocked - before;
  c->last = first + steps - 1;
  c->done = true;
  return SP_OK;
}

/* A step costs what a long loop takes beyond a short one. A clock that begins and ends in mid-pipeline would count as
 * speed what one lane is ahead of another when it begins, and has lost when it ends. */
static int run(sp_engine *e, candidate *c, uint64_t steps, sp_turn *turn, sp_err *err) {
  bool roughly = steps == 1;
  uint64_t times = bunch(e->g, c->u.p), fill = roughly ? 1 : (uint64_t)c->u.p->sched.depth + 2;
  double few, many, waited[2];
  int st;
  steps = (steps + times - 1) / times * times;
  fill = (fill + times - 1) / times * times;
  if (!c->ran && !roughly && (st = play(e, c, steps_before(c), &few, waited, err))) return st;
  c->ran = c->ran || !roughly || c->u.m->capture == SP_CAPTURE_OFF;
  if ((st = play(e, c, fill, &few, waited, err)) || (st = play(e, c, fill + steps, &many, waited + 1, err))) return st;
  double n = (double)steps, host = many - few - (waited[1] - waited[0]);
  bool told = many > few; /* else something came in between: all of it counts */
  c->host = fmax(0, told ? host / n : (many - waited[1]) / (n + (double)fill));
  *turn = (sp_turn){.seconds = told ? (many - few) / n : many / (n + (double)fill), .host = c->host, .steps = steps};
  return SP_OK;
}

/* What a stage, or a device, has said first. */
static int give_up(sp_engine *e, size_t i, candidate *c, sp_err *err) {
  sp_err ignored;
  if (c->u.m && c->u.m->built) sp_machine_sync(c->u.m, &ignored);
  c->u.loop.running = false;
  sp_trial_drop(e, i);
  return err->status;
}

int sp_trial_run(sp_engine *e, size_t i, uint64_t steps, sp_turn *turn, sp_err *err) {
  candidate *c = find_candidate(e, i, err);
  int st;
  *turn = (sp_turn){0};
  if (!c) return err->status;
  if ((st = build(e, c, err)) || (st = run(e, c, steps ? steps : 1, turn, err))) give_up(e, i, c, err);
  return st;
}

/* ---- measurements and forecasts ---------------------------------------------------------------------------------- */

/* What is left of the host's time when calls, copies and launches are taken off, for each of the other operations. */
static void find_other(sp_trial *t, const candidate *c, const double *submit) {
  const sp_ops *ops = &c->u.m->ops;
  double rest = c->host, n = 0;
  for (size_t i = 0, body = 0; i < ops->n; i++) {
    const sp_op *op = &ops->op[i];
    if (op->kind == SP_OP_LAUNCH) {
      rest -= t->costs.launch;
      body = (size_t)op->n;
    } else if (body) body--;
    else if (op->kind == SP_OP_CALL || op->kind == SP_OP_COPY) rest -= submit[op->task];
    else n++;
  }
  double other = fmax(1e-7, n > 0 ? rest / n : 0);
  if (!(t->other > 0) || other < t->other) t->other = other;
}

int sp_trial_measure(sp_engine *e, size_t i, double seconds, sp_err *err) {
  candidate *c = find_candidate(e, i, err);
  int st;
  if (!c) return err->status;
  if (!c->done) return sp_fail(err, SP_E_STATE, "candidate %zu has not run", i);
  const sp_program *p = c->u.p;
  if ((st = sp_measure(&c->u.loop, c->last, seconds, &e->trial->costs, err))) return give_up(e, i, c, err);
  double *v = sp_calloc(2 * p->n_tasks + p->n_lanes * p->n_lanes + 1, sizeof *v);
  if (!v) return sp_nomem(err, p->n_tasks * sizeof *v, "measurements");
  st = sp_costs_of(&e->trial->costs, p, v, v + p->n_tasks, v + 2 * p->n_tasks, err);
  if (!st) find_other(e->trial, c, v + p->n_tasks);
  free(v);
  return st;
}

static void put_lanes(sp_trial *t, const sp_program *p, const sp_predicted *f) {
  for (size_t i = 0; i < p->n_lanes; i++)
    t->lanes[i] = (sp_trial_lane){.name = p->lanes[i].props.name, .busy = f->busy[i], .work = f->work[i]};
  for (size_t i = 0; i < p->n_tasks; i++)
    if (p->tasks[i].node && p->tasks[i].node->source) t->lanes[p->tasks[i].lane].source = true;
}

/* `v` has room for cost, submit, busy, work and a second table of shares. */
static int predict(sp_trial *t, const candidate *c, double *v, sp_trial_forecast *out, sp_err *err) {
  const sp_program *p = c->u.p;
  size_t n = p->n_lanes;
  double *cost = v, *submit = cost + p->n_tasks, *busy = submit + p->n_tasks, *work = busy + n, *share = work + n;
  int st = sp_costs_of(&t->costs, p, cost, submit, t->share, err);
  if (st) return st;
  for (size_t i = 0; i < n * n; i++) share[i] = isnan(t->share[i]) ? 0 : t->share[i];
  sp_predict_in in = {&c->u.m->ops, &p->in, cost, submit, t->costs.launch, t->other, share};
  sp_predicted f = {.busy = busy, .work = work};
  if ((st = sp_predict(&in, &f, err))) return st;
  put_lanes(t, p, &f);
  *out = (sp_trial_forecast){.seconds = f.step, .host = f.host, .n_lanes = n, .lanes = t->lanes, .share = t->share};
  return SP_OK;
}

int sp_trial_predict(sp_engine *e, size_t i, sp_trial_forecast *out, sp_err *err) {
  candidate *c = find_candidate(e, i, err);
  int st;
  if (!c) return err->status;
  if (!c->u.m) return sp_fail(err, SP_E_STATE, "candidate %zu was dropped", i);
  sp_trial *t = e->trial;
  size_t n = c->u.p->n_lanes;
  double *v = sp_calloc(2 * c->u.p->n_tasks + 2 * n + n * n + 1, sizeof *v);
  free(t->lanes);
  free(t->share);
  t->lanes = sp_calloc(n + 1, sizeof *t->lanes);
  t->share = sp_calloc(n * n + 1, sizeof *t->share);
  st = v && t->lanes && t->share ? predict(t, c, v, out, err) : sp_nomem(err, n * n * sizeof *v, "a prediction");
  free(v);
  return st;
}

void sp_trial_cost(const sp_engine *e, size_t i, const char **name, double *seconds) {
  const sp_costs *c = e->trial ? &e->trial->costs : NULL;
  bool there = c && i < c->n_tasks;
  *name = there ? c->task[i].name : NULL;
  *seconds = there ? c->task[i].seconds : 0;
}
