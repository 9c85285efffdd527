/* SPDX-License-Identifier: MIT
 * check_graph.c - graphs and the step loop through the C API, on toy stages whose arithmetic is exact. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/engine.h"
#include "tests/kit/suite.h"

static sp_env *env;

static void setup(void) {
  sp_err err;
  char path[512];
  snprintf(path, sizeof path, "%s/toy.so", getenv("SP_TEST_PLUGINS"));
  const char *files[] = {path};
  sp_env_opts o = {.plugins = files, .n_plugins = 1, .threads = 2};
  ck_assert_msg(!sp_env_new(&env, &o, &err), "%s", err.msg);
}
static void teardown(void) { sp_env_free(env); }

/* source -> frozen -> trained -> loss, and a second source to evaluate on */
typedef struct {
  int depth, run_ahead, drift, accumulate, evaluate_every, samples, prefetch;
  bool pipelined, unfrozen, inplace, checksums, schedule;
  int fail_at, bad_at;
} setting;

typedef struct {
  sp_engine *e;
  sp_graph *g;
  sp_node *data, *val, *enc, *dec, *loss, *opt;
} net;

typedef struct {
  float loss[64], eval[64], lr[64], w[8], state[2];
  int n, n_eval;
  sp_err err;
} outcome;

static sp_value number(int64_t v) { return (sp_value){.type = SP_V_INT, .i = v, .d = (double)v}; }
static void put(sp_value *t, const char *key, int64_t v) {
  t->type = SP_V_TABLE;
  *sp_value_put(t, key) = number(v);
}

static sp_node *add(sp_graph *g, const char *stage, sp_value *params, sp_node_opts *opts) {
  sp_err err;
  sp_node *n;
  ck_assert_msg(!sp_graph_add(g, stage, params, opts, &n, &err), "%s", err.msg);
  sp_value_free(params);
  return n;
}
static void wire(sp_graph *g, sp_node *to, sp_node *from) {
  sp_err err;
  ck_assert_msg(!sp_graph_wire(g, to, 0, (sp_ref){from, 0, -1}, &err), "%s", err.msg);
  ck_assert_msg(!sp_graph_plan(g, to, &err), "%s", err.msg);
}

static int schedule(void *arg, uint64_t step, double *lr, sp_err *err) {
  (void)arg, (void)err;
  *lr = 0.5 / (double)(1 + step);
  return SP_OK;
}

static net make(const setting *s) {
  sp_graph_opts o = {.seed = 5, .run_ahead = s->run_ahead, .prefetch = s->prefetch, .checksums = s->checksums};
  sp_err err;
  net n;
  sp_value v = {0};
  ck_assert_msg(!sp_engine_new(&n.e, env, &o, &err), "%s", err.msg);
  n.g = sp_engine_graph(n.e);
  put(&v, "drift", s->drift);
  put(&v, "samples", s->samples ? s->samples : 22);
  n.data = add(n.g, "toy_source", &v, &(sp_node_opts){.batch = 4});
  put(&v, "samples", 10);
  n.val = add(n.g, "toy_source", &v, &(sp_node_opts){.batch = 4, .name = "val"});
  ck_assert_msg(!sp_graph_plan(n.g, n.data, &err) && !sp_graph_plan(n.g, n.val, &err), "%s", err.msg);
  put(&v, "drift", s->drift);
  put(&v, "fail_at", s->fail_at ? s->fail_at : -1);
  n.enc = add(n.g, "toy_mul", &v, &(sp_node_opts){.frozen = !s->unfrozen, .name = "enc"});
  wire(n.g, n.enc, n.data);
  put(&v, "drift", s->drift);
  n.dec = add(n.g, "toy_mul", &v, &(sp_node_opts){.name = "dec"});
  wire(n.g, n.dec, n.enc);
  put(&v, "bad_at", s->bad_at ? s->bad_at : -1);
  n.loss = add(n.g, "toy_loss", &v, NULL);
  wire(n.g, n.loss, n.dec);
  v.type = SP_V_TABLE;
  if (s->inplace) put(&v, "momentum", 0);
  n.opt = add(n.g, "toy_sgd", &v, NULL);
  sp_ref l = {n.loss, 0, -1};
  sp_train_opts t = {.losses = &l,
                     .n_losses = 1,
                     .optimizer = n.opt,
                     .accumulate = s->accumulate,
                     .lr = s->schedule ? schedule : NULL};
  ck_assert_msg(!sp_graph_train(n.g, &t, &err), "%s", err.msg);
  if (s->pipelined) {
    sp_node *ahead[] = {n.enc}, *train[] = {n.dec, n.loss}, *all[] = {n.enc, n.dec, n.loss};
    sp_lane_desc split[] = {{{.name = "ahead", .delay = 0}, ahead, 1, NULL},
                            {{.name = "train", .delay = s->depth, .priority = 1}, train, 2, NULL}},
                 one[] = {{{.name = "train", .delay = s->depth}, all, 3, NULL}};
    ck_assert_msg(!sp_graph_strategy(n.g, "pipelined", s->unfrozen ? one : split, s->unfrozen ? 1 : 2, &err), "%s",
                  err.msg);
  }
  return n;
}

static int add_eval(void *arg, const sp_result *r, sp_err *err) {
  outcome *o = arg;
  (void)err;
  o->eval[o->n_eval++ % 64] = *(const float *)r->metrics[0].data;
  return SP_OK;
}

static void loop(net *n, const setting *s, uint64_t steps, outcome *o) {
  const sp_result *r;
  sp_err err = {0};
  ck_assert_msg(!sp_engine_begin(n->e, steps, &err), "%s", err.msg);
  for (;;) {
    if (sp_engine_next(n->e, &r, &o->err) || !r) break;
    ck_assert_uint_eq(r->step, (uint64_t)o->n);
    ck_assert_str_eq(r->metrics[0].name, "loss");
    o->lr[o->n] = (float)r->lr;
    o->loss[o->n++] = *(const float *)r->metrics[0].data;
    if (s->evaluate_every && o->n % s->evaluate_every == 0)
      ck_assert_msg(!sp_engine_evaluate(n->e, n->val, add_eval, o, &err), "%s", err.msg);
  }
}

static void weights(net *n, outcome *o) {
  sp_spec spec;
  sp_err err;
  ck_assert_msg(!sp_engine_weight(n->e, n->enc, "w", &spec, o->w, 16, &err), "%s", err.msg);
  ck_assert_msg(!sp_engine_weight(n->e, n->dec, "w", &spec, o->w + 4, 16, &err), "%s", err.msg);
  ck_assert_msg(!sp_engine_weight(n->e, n->dec, "steps", &spec, o->state, 4, &err), "%s", err.msg);
}

static outcome run(const setting *s) {
  outcome o;
  memset(&o, 0, sizeof o);
  net n = make(s);
  loop(&n, s, 50, &o);
  if (!o.err.status) weights(&n, &o);
  sp_engine_free(n.e);
  return o;
}

static void same(const outcome *a, const outcome *b, const char *what) {
  ck_assert_msg(a->err.status == 0 && b->err.status == 0, "%s: %s%s", what, a->err.msg, b->err.msg);
  ck_assert_msg(!memcmp(a->loss, b->loss, sizeof a->loss) && !memcmp(a->w, b->w, sizeof a->w) && a->n == b->n &&
                    !memcmp(a->state, b->state, sizeof a->state),
                "%s: other bits", what);
}

/* All that may not change a bit: strategy, depth, run-ahead, prefetch, timing, evaluation between. 22 samples in
 * batches of 4: every sixth batch is short. */
START_TEST(same_bits) {
  for (int unfrozen = 0; unfrozen < 2; unfrozen++)
    for (int inplace = 0; inplace < 2; inplace++) {
      setting base = {.unfrozen = unfrozen, .inplace = inplace};
      outcome want = run(&base);
      ck_assert_int_eq(want.n, 50);
      float early = 0, late = 0;
      for (int i = 0; i < 6; i++) early += want.loss[i], late += want.loss[42 + i]; /* an epoch each */
      ck_assert_msg(late < early, "%g is not below %g: it does not learn", late, early);
      ck_assert_float_eq(want.state[0], 50);
      for (int depth = 0; depth <= 4; depth++)
        for (int ahead = 0; ahead < 3; ahead++) {
          setting s = {.pipelined = true,
                       .depth = depth,
                       .run_ahead = ahead,
                       .drift = 300,
                       .unfrozen = unfrozen,
                       .inplace = inplace,
                       .evaluate_every = depth == 2 ? 7 : 0,
                       .prefetch = 1 + ahead};
          outcome got = run(&s);
          same(&want, &got, "pipelined");
        }
    }
}
END_TEST

START_TEST(accumulation_is_a_larger_batch) {
  setting one = {.accumulate = 1, .samples = 24}, two = {.accumulate = 2, .samples = 24};
  outcome a = run(&one), b = run(&two);
  ck_assert_float_ne(a.w[4], b.w[4]);
  ck_assert_int_eq(b.n, 50);
  ck_assert_float_eq(b.loss[0], a.loss[0]); /* the first step sees the first weights */
  setting p = {.accumulate = 2, .samples = 24, .pipelined = true, .depth = 2, .drift = 200};
  outcome c = run(&p);
  same(&b, &c, "accumulated");
}
END_TEST

START_TEST(evaluation_same_everywhere) {
  setting a = {.evaluate_every = 5, .run_ahead = 2},
          b = {.evaluate_every = 5, .run_ahead = 2, .pipelined = true, .depth = 3, .drift = 300};
  outcome x = run(&a), y = run(&b);
  same(&x, &y, "evaluated");
  ck_assert_int_eq(x.n_eval, 30); /* ten samples are three batches */
  ck_assert(x.n_eval == y.n_eval && !memcmp(x.eval, y.eval, sizeof x.eval));
}
END_TEST

/* What a script sets after it saw step k holds from step k + R + 1 on, in every strategy. */
START_TEST(feedback_after_run_ahead) {
  for (int ahead = 0; ahead < 4; ahead++)
    for (int pipelined = 0; pipelined < 2; pipelined++) {
      setting s = {.run_ahead = ahead, .pipelined = pipelined, .depth = 2};
      net n = make(&s);
      const sp_result *r;
      sp_err err;
      ck_assert(!sp_engine_begin(n.e, 12, &err));
      for (int k = 0; k < 12; k++) {
        ck_assert(!sp_engine_next(n.e, &r, &err) && r);
        ck_assert_float_eq((float)r->lr, k <= 3 + ahead ? 0.5f : 0.25f);
        if (k == 3) ck_assert_msg(!sp_node_set_live(n.opt, "lr", 0.25, &err), "%s", err.msg);
      }
      ck_assert(!sp_engine_stop(n.e, &err));
      sp_engine_free(n.e);
    }
}
END_TEST

START_TEST(stop_then_go_on) {
  setting s = {.run_ahead = 2, .pipelined = true, .depth = 3, .drift = 200}, plain = {.run_ahead = 2};
  outcome want = run(&plain), o;
  memset(&o, 0, sizeof o);
  net n = make(&s);
  const sp_result *r;
  sp_err err;
  ck_assert(!sp_engine_begin(n.e, 0, &err));
  for (int k = 0; k < 10; k++) ck_assert(!sp_engine_next(n.e, &r, &err) && r->step == (uint64_t)k);
  ck_assert(!sp_engine_stop(n.e, &err));
  ck_assert_uint_eq(sp_engine_step(n.e), 12); /* step 9 was seen, 10 and 11 were on their way */
  o.n = 12;
  loop(&n, &s, 38, &o);
  weights(&n, &o);
  ck_assert(!memcmp(want.w, o.w, sizeof o.w));
  sp_engine_free(n.e);
}
END_TEST

START_TEST(failure_is_named) {
  for (int pipelined = 0; pipelined < 2; pipelined++)
    for (int at = 1; at < 9; at++) {
      setting s = {.pipelined = pipelined, .depth = 2, .run_ahead = 2, .fail_at = at, .drift = 200};
      outcome o = run(&s);
      ck_assert_int_eq(o.err.status, SP_E_DATA);
      char want[64];
      snprintf(want, sizeof want, "step %d: asked to fail", at + 1);
      ck_assert_msg(strstr(o.err.msg, want) && strstr(o.err.msg, "stage 'enc'"), "%s", o.err.msg);
      ck_assert_int_le(o.n, at);
    }
}
END_TEST

START_TEST(status_port_stops) {
  setting s = {.bad_at = 3, .run_ahead = 2};
  outcome o = run(&s);
  ck_assert_int_eq(o.n, 3);
  ck_assert_msg(strstr(o.err.msg, "stage 'toy_loss' step 4: sample ") && strstr(o.err.msg, ": value 77 is above 9"),
                "%s", o.err.msg);
}
END_TEST

START_TEST(schedule_of_learning_rates) {
  setting a = {.schedule = true}, b = {.schedule = true, .pipelined = true, .depth = 2, .run_ahead = 3};
  outcome x = run(&a), y = run(&b);
  same(&x, &y, "scheduled");
  ck_assert_float_eq(x.lr[4], (float)(0.5 / 5));
}
END_TEST

START_TEST(checksums_same) {
  setting a = {.checksums = true}, b = {.checksums = true, .pipelined = true, .depth = 3, .drift = 200};
  net x = make(&a), y = make(&b);
  const sp_result *r, *q;
  sp_err err;
  ck_assert(!sp_engine_begin(x.e, 20, &err) && !sp_engine_begin(y.e, 20, &err));
  for (int k = 0; k < 20; k++) {
    ck_assert(!sp_engine_next(x.e, &r, &err) && !sp_engine_next(y.e, &q, &err) && r && q);
    ck_assert_uint_gt(r->n_hashes, 6);
    ck_assert_uint_eq(r->n_hashes, q->n_hashes);
    for (size_t i = 0; i < r->n_hashes; i++) {
      ck_assert_str_eq(r->hashes[i].name, q->hashes[i].name);
      ck_assert_uint_eq(r->hashes[i].hash, q->hashes[i].hash);
    }
  }
  sp_engine_free(x.e);
  sp_engine_free(y.e);
}
END_TEST

START_TEST(refusals) {
  setting s = {0};
  net n = make(&s);
  sp_err err;
  sp_node *ahead[] = {n.enc}, *train[] = {n.dec, n.loss}, *x;
  sp_lane_desc backwards[] = {{{.name = "late", .delay = 2}, ahead, 1, NULL},
                              {{.name = "train", .delay = 0}, train, 2, NULL}},
               missing[] = {{{.name = "train", .delay = 0}, train, 2, NULL}};
  ck_assert(!sp_graph_strategy(n.g, "mine", backwards, 2, &err));
  ck_assert_int_eq(sp_engine_build(n.e, &err), SP_E_RACE);
  ck_assert_msg(strstr(err.msg, "(lane 'late', delay 2)") && strstr(err.msg, "(lane 'train', delay 0)") &&
                    strstr(err.msg, "mine"),
                "%s", err.msg);
  ck_assert_int_eq(sp_graph_strategy(n.g, "mine", missing, 1, &err), SP_E_INVALID);
  ck_assert_msg(strstr(err.msg, "'enc' is in no lane"), "%s", err.msg);
  missing[0].props.delay = 65;
  ck_assert_int_eq(sp_graph_strategy(n.g, "mine", missing, 1, &err), SP_E_RANGE);
  ck_assert_msg(strstr(err.msg, "strategy 'mine': lane 'train': delay 65 is outside 0..64"), "%s", err.msg);
  ck_assert_int_eq(sp_graph_wire(n.g, n.enc, 0, (sp_ref){n.dec, 0, -1}, &err), SP_E_INVALID);
  ck_assert_msg(strstr(err.msg, "cycle: enc -> dec -> enc"), "%s", err.msg);
  ck_assert_int_eq(sp_graph_add(n.g, "toy_mul", NULL, &(sp_node_opts){.name = "dec"}, &x, &err), SP_E_INVALID);
  ck_assert_int_eq(sp_graph_add(n.g, "toy_mull", NULL, NULL, &x, &err), SP_E_NOTFOUND);
  ck_assert_msg(strstr(err.msg, "toy_mul"), "%s", err.msg);
  ck_assert(!sp_graph_add(n.g, "toy_mul", NULL, NULL, &x, &err));
  ck_assert_int_eq(sp_engine_build(n.e, &err), SP_E_INVALID);
  ck_assert_msg(strstr(err.msg, "'x' is not connected"), "%s", err.msg);
  sp_engine_free(n.e);

  setting u = {.unfrozen = true};
  n = make(&u);
  sp_node *e[] = {n.enc}, *d[] = {n.dec, n.loss};
  sp_lane_desc two[] = {{{.name = "a", .delay = 0}, e, 1, NULL}, {{.name = "b", .delay = 1}, d, 2, NULL}};
  ck_assert_int_eq(sp_graph_strategy(n.g, "two", two, 2, &err), SP_E_RACE);
  ck_assert_msg(strstr(err.msg, "'enc'") && strstr(err.msg, "'dec'") && strstr(err.msg, "two delays"), "%s", err.msg);
  sp_engine_free(n.e);
}
END_TEST

START_TEST(memory_and_allocations) {
  setting s = {.pipelined = true, .depth = 2, .run_ahead = 2};
  net n = make(&s);
  sp_mem m;
  sp_err err;
  const sp_result *r;
  uint64_t before;
  ck_assert_msg(!sp_engine_memory(n.e, &m, &err), "%s", err.msg);
  ck_assert_uint_eq(m.weights, 2 * 20); /* two toy_mul: w[4] and steps[1] */
  ck_assert_uint_eq(m.optimizer, 16);
  ck_assert_uint_gt(m.activations, 0);
  ck_assert(!sp_engine_begin(n.e, 40, &err));
  ck_assert(!sp_engine_next(n.e, &r, &err));
  before = sp_engine_allocations(n.e);
  while (!sp_engine_next(n.e, &r, &err) && r) ck_assert_uint_eq(sp_engine_allocations(n.e), before);
  sp_engine_free(n.e);
}
END_TEST

int main(void) {
  Suite *s = suite_create("graph");
  TCase *c = tcase_create("graph");
  tcase_set_timeout(c, 120);
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_add_test(c, same_bits);
  tcase_add_test(c, accumulation_is_a_larger_batch);
  tcase_add_test(c, evaluation_same_everywhere);
  tcase_add_test(c, feedback_after_run_ahead);
  tcase_add_test(c, stop_then_go_on);
  tcase_add_test(c, failure_is_named);
  tcase_add_test(c, status_port_stops);
  tcase_add_test(c, schedule_of_learning_rates);
  tcase_add_test(c, checksums_same);
  tcase_add_test(c, refusals);
  tcase_add_test(c, memory_and_allocations);
  suite_add_tcase(s, c);
  return suite_run(s);
}
