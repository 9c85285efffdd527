/* SPDX-License-Identifier: MIT
 * engine.c - owns the graph, its programs, machines and loops: training's, and one for each evaluation. */
#include "run/engine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spcore/checksum.h>

#include "params/params.h"
#include "plan/describe.h"
#include "run/choices.h"
#include "run/trial.h"
#include "run/unit.h"

static sp_unit *training(const sp_engine *e) { return e->n ? &e->units[0] : NULL; }

/* Passes of a step: loops count passes, who calls the engine steps. */
static uint64_t micro(const sp_engine *e) { return (uint64_t)e->g->train.micro; }
static uint64_t run_ahead(const sp_engine *e) { return (uint64_t)sp_graph_run_ahead(e->g); }

int sp_engine_new_pool(sp_engine *e, sp_err *err) {
  const sp_place *main = &e->g->main;
  size_t cap = e->g->opts.pinned ? e->g->opts.pinned : (size_t)1 << 30;
  return sp_pool_new(&e->pool, main->type, main->dev, cap, "--pinned", err);
}

int sp_engine_new(sp_engine **out, sp_env *env, const sp_graph_opts *opts, sp_err *err) {
  sp_engine *e = sp_calloc(1, sizeof *e);
  *out = NULL;
  if (!e) return sp_nomem(err, sizeof *e, "an engine");
  int st = sp_graph_new(&e->g, env, opts, err);
  if (!st) st = sp_engine_new_pool(e, err);
  if (!st) sp_timeline_watch(e->g);
  if (st) {
    sp_engine_free(e);
    return st;
  }
  *out = e;
  return SP_OK;
}

void sp_unit_free(sp_unit *u) {
  sp_machine_free(u->m);
  sp_program_free(u->p);
}

/* From the k-th on; later ones borrow streams of earlier ones. */
static void drop_units(sp_engine *e, size_t k) {
  while (e->n > k) sp_unit_free(&e->units[--e->n]);
}

void sp_engine_free(sp_engine *e) {
  sp_err ignored;
  if (!e) return;
  sp_trial_end(e, &ignored);
  sp_engine_drain(e, &ignored);
  if (e->g && e->g->opts.trace) sp_trace_counted(e->g->opts.trace); /* it reads the device */
  drop_units(e, 0);
  free(e->units);
  free(e->pauses);
  sp_pool_free(e->pool);
  sp_kept_free(e->kept);
  sp_graph_free(e->g);
  free(e);
}

sp_graph *sp_engine_graph(const sp_engine *e) { return e->g; }

sp_graph_opts sp_engine_options(const sp_engine *e) {
  sp_graph_opts o = *sp_graph_options(e->g);
  if (e->n) o.capture = e->units[0].m->capture;
  return o;
}

static int failed(const sp_engine *e, sp_err *err) {
  *err = e->failure;
  return err->status;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int check_stand_in(const sp_graph *g, const sp_node *s, sp_err *err) {
  const sp_node *t = g->train.source;
  char a[128], b[128];
  if (!s->source) return sp_fail(err, SP_E_INVALID, "evaluate: '%s' is not a source", s->name);
  if (!t) return sp_fail(err, SP_E_INVALID, "evaluate: the graph has no source that '%s' could stand in for", s->name);
  for (unsigned o = 0; o < t->n_out; o++) {
    const char *name = sp_node_out_port(t, o)->name;
    if (o >= s->n_out || strcmp(sp_node_out_port(s, o)->name, name))
      return sp_fail(err, SP_E_INVALID, "evaluate: '%s' has no output '%s' where '%s' has one", s->name, name, t->name);
    for (uint32_t k = 0; k < t->out_specs[o].n; k++) {
      sp_spec x = t->out_specs[o].spec[k], y = k < s->out_specs[o].n ? s->out_specs[o].spec[k] : (sp_spec){0};
      if (!sp_spec_equal(&x, &y))
        return sp_fail(err, SP_E_SHAPE, "evaluate: '%s.%s' is %s, '%s.%s' is %s: batch, size and type must be the same",
                       s->name, name, sp_spec_str(&y, b, sizeof b), t->name, name, sp_spec_str(&x, a, sizeof a));
    }
  }
  return SP_OK;
}

int sp_engine_check_memory(const sp_engine *e, const sp_program *beside, sp_err *err) {
  const sp_program **progs = sp_calloc(e->n + 1, sizeof *progs);
  if (!progs) return sp_nomem(err, e->n * sizeof *progs, "programs");
  for (size_t i = 0; i < e->n; i++) progs[i] = e->units[i].p;
  progs[e->n] = beside;
  int st = sp_memory_check(e->g, progs, e->n + (beside != NULL), err);
  free(progs);
  return st;
}

static int new_unit(sp_unit *u, sp_engine *e, int st, sp_err *err) {
  if (!st) st = sp_machine_new(&u->m, u->p, e->pool, err);
  if (!st) sp_loop_init(&u->loop, u->m);
  else sp_unit_free(u);
  u->loop.asks = e->asks;
  u->loop.asks_arg = e->asks_arg;
  return st;
}

int sp_unit_new(sp_unit *u, sp_engine *e, sp_node *stand_in, const sp_strategy *strategy, sp_err *err) {
  *u = (sp_unit){.stand_in = stand_in};
  return new_unit(u, e, sp_program_new(&u->p, e->g, stand_in, strategy, err), err);
}

int sp_unit_new_fill(sp_unit *u, sp_engine *e, sp_node *source, sp_err *err) {
  *u = (sp_unit){.stand_in = source};
  return new_unit(u, e, sp_program_new_fill(&u->p, e->g, source, err), err);
}

static int add_unit(sp_engine *e, sp_node *stand_in, sp_err *err) {
  if (!sp_grow(&e->units, &e->cap, e->n + 1, sizeof *e->units)) return sp_nomem(err, sizeof(sp_unit), "a program");
  int st = sp_unit_new(&e->units[e->n], e, stand_in, e->g->strategy, err);
  if (!st) e->n++;
  return st;
}

/* Sources that nothing is wired to are there to be evaluated on; one that does not fit is told so when it is. */
static int add_evaluations(sp_engine *e, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; i < e->g->n_nodes && !st; i++) {
    sp_node *n = e->g->nodes[i];
    sp_err ignored;
    if (n->source && n != e->g->train.source && !check_stand_in(e->g, n, &ignored)) st = add_unit(e, n, err);
  }
  return st;
}

/* What the optimizer has kept since the phase before. */
static int give_kept(sp_engine *e, sp_err *err) {
  if (!e->kept) return SP_OK;
  bool shared = e->g->store.initialised;
  int st = sp_store_give(&e->g->store, e->kept, err);
  if (!st && shared) st = sp_store_share(&e->g->store, NULL, err);
  sp_kept_free(e->kept);
  e->kept = NULL;
  return st;
}

int sp_engine_plan(sp_engine *e, sp_err *err) {
  sp_graph *g = e->g;
  int st = SP_OK;
  if (e->trial)
    return sp_fail(err, SP_E_STATE, "strategies are being tried: the graph cannot be used until that is over");
  if (e->n) return SP_OK;
  if ((st = sp_graph_complete(g, err)) || (st = sp_memory_check(g, NULL, 0, err))) return st;
  if ((st = sp_graph_reduce(g, err)) || (st = sp_store_make_factors(&g->store, err))) return st;
  for (size_t i = 0; i < g->n_nodes; i++)
    if ((st = sp_weights_storage(&g->nodes[i]->params, err))) return st;
  if ((st = give_kept(e, err))) return st;
  if (!(st = add_unit(e, NULL, err))) st = add_evaluations(e, err);
  if (st) {
    drop_units(e, 0); /* may be tried again */
    return st;
  }
  e->units[0].loop.next = e->start * micro(e);
  e->units[0].loop.stopped = e->stopped;
  if (e->lr != 0) e->units[0].loop.lr = e->lr;
  return SP_OK;
}

void sp_engine_unplan(sp_engine *e) {
  if (!e->n) return;
  e->start = e->units[0].loop.next / micro(e);
  drop_units(e, 0);
}

int sp_engine_phase(sp_engine *e, uint32_t phase, sp_err *err) {
  sp_store *store = &e->g->store;
  if (phase == e->g->train.groups.phase) return SP_OK;
  if (phase >= sp_graph_phases(e->g))
    return sp_fail(err, SP_E_RANGE, "phase %" PRIu32 ": the training has %" PRIu32, phase, sp_graph_phases(e->g));
  if (e->trial || (e->n && e->units[0].loop.running))
    return sp_fail(err, SP_E_STATE, "a phase begins between two loops");
  int st = e->failed ? failed(e, err) : sp_engine_drain(e, err);
  bool told = e->n && !isnan(e->units[0].loop.lr);
  if (told) e->lr = e->units[0].loop.lr;
  if (!st && !e->kept) st = sp_store_keep(store, &e->kept, err);
  sp_engine_unplan(e);
  if (!st) st = sp_store_lay_down(store, err);
  if (!st) sp_graph_set_phase(e->g, phase);
  e->ran = false; /* lanes may come */
  return st;
}

int sp_engine_strategy(sp_engine *e, const char *name, const sp_lane_desc *lanes, size_t n, sp_err *err) {
  if (e->n && !e->ran) sp_engine_unplan(e); /* weights were looked at, and stay */
  return sp_graph_strategy(e->g, name, lanes, n, err);
}

/* What the ranks are going to do, in all its parts. */
static int same_schedule(sp_engine *e, sp_err *err) {
  const sp_graph *g = e->g;
  sp_sb list = {0};
  char run_ahead[16], prefetch[16], buckets[96], schedule[32];
  size_t n = 0;
  if (!g->store.reduce) return SP_OK;
  for (size_t i = 0; i < g->store.reduce->n; i++) n += g->store.reduce->buckets[i].bytes;
  snprintf(run_ahead, sizeof run_ahead, "%d", g->opts.run_ahead);
  snprintf(prefetch, sizeof prefetch, "%d", g->opts.prefetch);
  snprintf(buckets, sizeof buckets, "%zu of %zu bytes in all", g->store.reduce->n, n);
  sp_describe(e->units[0].p, &e->units[0].m->ops, &list);
  snprintf(schedule, sizeof schedule, "%016" PRIx64, sp_checksum(list.s, list.n));
  const sp_rank_text texts[] = {{"the device", g->main.type->name},
                                {"the strategy", e->units[0].p->strategy},
                                {"the steps that metrics are late (--run-ahead)", run_ahead},
                                {"the steps that a source is ahead (--prefetch)", prefetch},
                                {"checksums (--checksums)", g->opts.checksums ? "true" : "false"},
                                {"buckets of gradients", buckets},
                                {"the schedule (spcore run --explain shows it)", schedule}};
  int st = list.broken ? sp_nomem(err, list.n, "a description") : SP_OK;
  if (!st) st = sp_ranks_same(g->store.reduce->ranks, texts, SP_ARRAY(texts), err);
  sp_sb_free(&list);
  return st;
}

int sp_engine_build(sp_engine *e, sp_err *err) {
  int st = sp_engine_plan(e, err);
  if (st || e->units[0].m->built) return st;
  st = sp_engine_check_memory(e, NULL, err);
  bool fresh = !e->g->store.initialised;
  if (!st && fresh) st = sp_store_init(&e->g->store, err);
  if (!st) st = same_schedule(e, err); /* of each phase */
  if (!st && fresh) st = sp_store_share(&e->g->store, NULL, err);
  if (!st) st = sp_choices_build(e->units[0].m, NULL, err);
  if (st) sp_engine_unplan(e);
  return st;
}

int sp_engine_memory(sp_engine *e, sp_mem *mem, sp_err *err) {
  int st = sp_engine_plan(e, err);
  *mem = (sp_mem){0};
  const sp_program **progs = st ? NULL : sp_calloc(e->n + 1, sizeof *progs);
  if (!progs) return st ? st : sp_nomem(err, e->n * sizeof *progs, "programs");
  for (size_t i = 0; i < e->n; i++) progs[i] = e->units[i].p;
  sp_memory_count(e->g, progs, e->n, mem);
  free(progs);
  return SP_OK;
}

/* ---- facts ------------------------------------------------------------------------------------------------------- */

int sp_engine_schedule_info(sp_engine *e, sp_schedule_info *info, sp_err *err) {
  int st = sp_engine_plan(e, err);
  if (st) return st;
  const sp_unit *u = training(e);
  *info = (sp_schedule_info){.strategy = u->p->strategy,
                             .n_lanes = sp_program_streams(u->p),
                             .n_tasks = u->p->n_tasks,
                             .n_waits = u->p->sched.n_waits,
                             .n_derived = u->p->sched.n_derived,
                             .n_ops = u->m->ops.n,
                             .depth = u->p->sched.depth,
                             .n_launches = u->m->ops.n_launch,
                             .phases = u->p->ring,
                             .launches = u->loop.launches};
  return SP_OK;
}

int sp_engine_program(sp_engine *e, const sp_program **p, const sp_ops **ops, sp_err *err) {
  int st = sp_engine_plan(e, err);
  if (st) return st;
  *p = e->units[0].p;
  *ops = &e->units[0].m->ops;
  return SP_OK;
}

/* Other ranks have other bytes, so it is none of what they compare. */
static void describe_shares(const sp_graph *g, sp_sb *out) {
  uint64_t own = 0, all = 0;
  for (size_t i = 0; i < g->train.optimizer->params.n_weights; i++) {
    own += sp_weights_bytes(&g->train.optimizer->params, i);
    all += (uint64_t)sp_spec_bytes(&g->train.optimizer->params.weights[i].spec);
  }
  sp_sb_putf(out, "optimizer shards: rank %d keeps %" PRIu64 " of %" PRIu64 " bytes of '%s'\n", g->store.reduce->rank,
             own, all, g->train.optimizer->name);
}

int sp_engine_describe(sp_engine *e, sp_sb *out, sp_err *err) {
  int st = sp_engine_plan(e, err);
  for (size_t i = 0; i < e->n && !st; i++) {
    const sp_unit *u = &e->units[i];
    if (u->stand_in) sp_sb_putf(out, "\nevaluation on %s\n", u->stand_in->name);
    sp_describe(u->p, &u->m->ops, out);
  }
  if (!st && e->g->store.sliced) describe_shares(e->g, out);
  return !st && out->broken ? sp_nomem(err, out->n, "a description") : st;
}

int sp_engine_epoch_steps(sp_engine *e, uint64_t *steps, sp_err *err) {
  int st = sp_engine_plan(e, err);
  *steps = st ? 0 : training(e)->m->feed.steps / micro(e);
  return st;
}

void sp_engine_stopped(sp_engine *e, bool (*stopped)(void)) { e->stopped = stopped; }

void sp_engine_ask(sp_engine *e, uint32_t (*asks)(void *arg), void *arg) {
  e->asks = asks;
  e->asks_arg = arg;
}

bool sp_engine_is_shared(const sp_engine *e) { return e->g->store.reduce; }

uint64_t sp_engine_allocations(const sp_engine *e) { return e->g->store.allocations; }

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

/* A loop within which something failed ends, and no other begins. */
static int halt(sp_engine *e, sp_err *err) {
  sp_err ignored;
  e->failed = true;
  e->failure = *err;
  if (e->g->queue) sp_queue_close(e->g->queue, err->status, e->failure.msg);
  if (e->n && e->units[0].loop.running) sp_machine_sync(e->units[0].m, &ignored);
  if (e->n) e->units[0].loop.running = false;
  return err->status;
}

int sp_engine_pause(sp_engine *e, uint64_t every, sp_err *err) {
  if (e->n && e->units[0].loop.running)
    return sp_fail(err, SP_E_STATE, "a loop is under way already: name what is due each %" PRIu64 " steps before it",
                   every);
  if (every > UINT64_MAX / 8192) return sp_fail(err, SP_E_RANGE, "%" PRIu64 " steps are too many", every);
  if (!sp_grow(&e->pauses, &e->cap_pauses, e->n_pauses + 1, sizeof *e->pauses)) return sp_nomem(err, 64, "a pause");
  e->pauses[e->n_pauses++] = every;
  return SP_OK;
}

int sp_engine_begin(sp_engine *e, uint64_t n, sp_err *err) {
  if (e->failed) return sp_fail(err, SP_E_STATE, "the graph has failed before: %s", e->failure.msg);
  int st = sp_engine_build(e, err);
  if (st) return st;
  uint64_t first = e->units[0].loop.next, k = (uint64_t)e->g->train.accumulate;
  if (e->sought && first % k)
    return sp_fail(err, SP_E_RANGE,
                   "step %" PRIu64 " is no place to begin: with accumulate = %d the gradients of the %" PRIu64
                   " step(s) before it would be missing; take a multiple",
                   first, e->g->train.accumulate, first % k);
  if (n > UINT64_MAX / 4096) return sp_fail(err, SP_E_RANGE, "%" PRIu64 " steps are too many", n);
  bool cut;
  e->ran = true;
  if (sp_engine_fill(e, e->g->train.source, true, &cut, err)) return halt(e, err);
  e->units[0].loop.pauses = e->pauses;
  e->units[0].loop.n_pauses = e->n_pauses;
  if ((st = sp_store_keep_statistics(&e->g->store, err)) ||
      (st = sp_loop_begin(&e->units[0].loop, first, n * micro(e), err)))
    return st;
  if (cut) sp_loop_cut(&e->units[0].loop, first);
  e->sought = e->cut = false;
  sp_shards_pause(e->units[0].m);
  return SP_OK;
}

/* Steps behind those that were told have run too, and in one of them ranks may have decided differently: then that is
 * the reason, which the script can do something about. */
static int better_reason(sp_engine *e, sp_err *err) {
  sp_loop *l = &e->units[0].loop;
  const sp_result *res;
  sp_err why;
  if (!l->running) return SP_OK;
  sp_loop_cut(l, l->delivered + run_ahead(e));
  while (l->running)
    if (sp_loop_next(l, &res, &why)) {
      *err = why;
      return why.status;
    }
  return SP_OK;
}

/* Steps up to R behind the last that was seen run in every strategy before the script may look at what they changed. A
 * failure of one of them is told then, one of a stage further ahead only when its step comes. */
static int reach(sp_engine *e, sp_err *err) {
  sp_unit *u = training(e);
  uint64_t bound = u->loop.delivered + run_ahead(e);
  int st = sp_loop_reach(&u->loop, bound, err);
  if (st || sp_failure_step(&u->m->failure) >= bound) return st;
  sp_failure_get(&u->m->failure, err);
  return err->status;
}

/* All ranks have submitted as much when they are here, so what they wait for comes to its end; but of a step in which a
 * stage has failed here they wait for this rank. */
static int compare_replicas(sp_engine *e, const sp_result *res, sp_err *err) {
  uint64_t each = e->g->opts.check, step = res ? res->step + 1 : sp_engine_step(e);
  if (!e->g->store.reduce || !each || (res && step % each)) return SP_OK;
  int st = res ? reach(e, err) : SP_OK;
  if (st) return st;
  int guilty;
  st = sp_store_compare(&e->g->store, step, &guilty, err);
  if (guilty < 0 || (st = better_reason(e, err))) return st;
  return sp_ranks_blame(e->g->env->ranks, guilty, err, err);
}

int sp_engine_next(sp_engine *e, const sp_result **res, sp_err *err) {
  *res = NULL;
  if (e->failed) return failed(e, err);
  if (!e->n || !e->units[0].loop.running) return SP_OK;
  const sp_loop *l = &e->units[0].loop;
  bool cut; /* weights may have been loaded since */
  if (l->delivered < l->last && sp_engine_fill(e, e->g->train.source, false, &cut, err)) return halt(e, err);
  if (sp_loop_next(&e->units[0].loop, res, err) || compare_replicas(e, *res, err)) return halt(e, err);
  return SP_OK;
}

int sp_engine_stop(sp_engine *e, sp_err *err) {
  sp_unit *u = training(e);
  const sp_result *res;
  int st = SP_OK;
  if (!u || !u->loop.running) return SP_OK;
  e->cut = true;
  if (u->m->queue) { /* what was taken is answered */
    sp_loop_cut(&u->loop, u->loop.tick + (u->loop.pos > 0));
    while (u->loop.running && !st) st = sp_engine_next(e, &res, err);
    return st;
  }
  /* nothing was seen yet: as if the loop had not begun */
  bool seen = u->loop.delivered != u->loop.first;
  sp_loop_cut(&u->loop, seen ? u->loop.delivered + run_ahead(e) : u->loop.first);
  while (u->loop.running && !st) st = sp_engine_next(e, &res, err);
  return st;
}

void sp_engine_cut(sp_engine *e) {
  sp_unit *u = training(e);
  e->cut = true;
  if (u && u->loop.running) sp_loop_cut(&u->loop, sp_engine_boundary(e) * micro(e));
}

bool sp_engine_was_cut(const sp_engine *e) { return e->cut; }

int sp_engine_drain(sp_engine *e, sp_err *err) {
  if (e->failed) return failed(e, err);
  sp_unit *u = training(e);
  if (!u || !u->m->built) return SP_OK;
  return reach(e, err) ? halt(e, err) : SP_OK;
}

uint64_t sp_engine_step(const sp_engine *e) { return e->n ? e->units[0].loop.next / micro(e) : e->start; }

uint64_t sp_engine_boundary(const sp_engine *e) {
  const sp_loop *l = e->n ? &e->units[0].loop : NULL;
  if (!l || !l->running) return sp_engine_step(e);
  uint64_t begun = l->delivered == l->first ? l->first : l->delivered + run_ahead(e);
  return (begun < l->end ? begun : l->end) / micro(e);
}

int sp_engine_seek(sp_engine *e, uint64_t step, sp_err *err) {
  if (e->n && e->units[0].loop.running) return sp_fail(err, SP_E_STATE, "seek within a loop");
  if (step >> 41) return sp_fail(err, SP_E_RANGE, "seek to step %" PRIu64 ": that is too far", step);
  if (step != sp_engine_step(e)) e->sought = true;
  if (e->n) e->units[0].loop.next = step * micro(e);
  else e->start = step;
  return SP_OK;
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

/* Its unit, whose memory is taken the first time. The training source itself gets one only here. */
static int find_unit(sp_engine *e, sp_node *source, size_t *at, sp_err *err) {
  int st = SP_OK;
  for (*at = 1; *at < e->n && e->units[*at].stand_in != source;) ++*at;
  if (*at == e->n && ((st = add_unit(e, source, err)) || (st = sp_engine_check_memory(e, NULL, err)))) {
    drop_units(e, *at);
    return st;
  }
  if (e->units[*at].m->built) return SP_OK;
  return sp_choices_build(e->units[*at].m, e->units[0].m, err);
}

static int evaluate(sp_engine *e, sp_loop *l, int (*each)(void *arg, const sp_result *res, sp_err *err), void *arg,
                    sp_err *err) {
  const sp_result *res;
  int st = sp_loop_begin(l, 0, l->m->feed.steps, err);
  while (!st) {
    if (sp_loop_next(l, &res, err)) return halt(e, err);
    if (!res) return sp_loop_settle(l, err) ? halt(e, err) : SP_OK;
    sp_result one = *res;
    for (int r = 0; !st && sp_shards_of_rank(l->m->shards, l->m, r, &one); r++)
      if (one.n) st = each(arg, &one, err);
    if (!st) continue;
    sp_err ignored;
    sp_loop_settle(l, &ignored);
    l->running = false;
  }
  return st;
}

int sp_engine_evaluate(sp_engine *e, sp_node *source, int (*each)(void *arg, const sp_result *res, sp_err *err),
                       void *arg, sp_err *err) {
  size_t at;
  bool cut;
  int st = e->failed ? failed(e, err) : sp_engine_build(e, err);
  if (st || (st = check_stand_in(e->g, source, err)) || (st = sp_engine_drain(e, err)) ||
      (st = find_unit(e, source, &at, err)))
    return st;
  e->ran = true;
  if (sp_engine_fill(e, source, true, &cut, err)) return halt(e, err);
  if (cut) return sp_fail(err, SP_E_CANCELLED, "interrupted");
  if (sp_store_swap_averages(&e->g->store, err)) return halt(e, err);
  st = evaluate(e, &e->units[at].loop, each, arg, err);
  sp_shards_pause(e->units[0].m);
  sp_err back;
  if (sp_store_swap_averages(&e->g->store, &back) && !st) {
    *err = back;
    st = halt(e, err);
  }
  return st;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

int sp_engine_load(sp_engine *e, sp_node *node, const sp_load *from, sp_err *err) {
  int st = sp_engine_drain(e, err);
  if (!st && e->kept) st = sp_engine_plan(e, err); /* what is loaded replaces it */
  if (!st && sp_store_writes(&e->g->store)) st = sp_graph_load(e->g, node, from, err);
  if (!st && e->g->store.initialised) st = sp_store_share(&e->g->store, node ? &node->params : NULL, err);
  for (size_t i = 0; i < e->n && !st; i++) st = sp_machine_refresh(e->units[i].m, err);
  sp_graph_drop_filled(e->g, node);
  return st;
}

int sp_engine_save(sp_engine *e, const char *path, unsigned what, sp_err *err) {
  sp_err ignored;
  int st = sp_engine_build(e, err);
  if (st) return st;
  sp_engine_drain(e, &ignored); /* weights are worth saving after a failure too */
  return sp_store_writes(&e->g->store) ? sp_store_save(&e->g->store, path, what, err)
                                       : sp_store_join_snapshot(&e->g->store, what, err);
}

int sp_engine_snapshot(sp_engine *e, sp_snapshot **out, unsigned what, const char *path, const sp_meta *meta,
                       size_t n_meta, sp_err *err) {
  int st = sp_engine_build(e, err);
  *out = NULL;
  if (!st) st = sp_engine_drain(e, err);
  if (!st && !sp_store_writes(&e->g->store)) return sp_store_join_snapshot(&e->g->store, what, err);
  return st ? st : sp_store_snapshot(out, &e->g->store, what, path, meta, n_meta, err);
}

int sp_engine_weight(sp_engine *e, sp_node *node, const char *name, sp_spec *spec, void *dst, size_t bytes,
                     sp_err *err) {
  int st = dst ? sp_engine_build(e, err) : SP_OK;
  if (!st && dst) st = sp_engine_drain(e, err);
  return st ? st : sp_weights_read(&node->params, name, spec, dst, bytes, err);
}
