/* SPDX-License-Identifier: MIT
 * graph_kit.h - short words for tests that build graphs of toy stages. */
#ifndef SP_TESTS_GRAPH_KIT_H
#define SP_TESTS_GRAPH_KIT_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/engine.h"
#include "tests/kit/suite.h"

#define KIT __attribute__((unused)) static /* not every test needs every word */

static sp_env *env;

KIT void kit_setup(void) {
  sp_err err;
  char path[512];
  snprintf(path, sizeof path, "%s/toy.so", getenv("SP_TEST_PLUGINS"));
  const char *files[] = {path};
  sp_env_opts o = {.plugins = files, .n_plugins = 1, .threads = 2};
  ck_assert_msg(!sp_env_new(&env, &o, &err), "%s", err.msg);
}
KIT void kit_teardown(void) { sp_env_free(env); }

/* The engine of a graph that new_graph() made. */
static struct {
  sp_graph *g;
  sp_engine *e;
} made[16];
KIT sp_engine *on(const sp_graph *g) {
  for (size_t i = 0; i < SP_ARRAY(made); i++)
    if (g && made[i].g == g) return made[i].e;
  ck_abort_msg("no such graph");
  return NULL;
}
KIT void keep_engine(sp_engine *e) {
  size_t i = 0;
  while (made[i].g) ck_assert_uint_lt(++i, SP_ARRAY(made));
  made[i].e = e;
  made[i].g = sp_engine_graph(e);
}
KIT void free_graph(sp_graph *g) {
  if (!g) return;
  sp_engine_free(on(g));
  for (size_t i = 0; i < SP_ARRAY(made); i++)
    if (made[i].g == g) made[i].g = NULL;
}

/* Up to two whole-number parameters; the names end with NULL. */
KIT sp_node *add2(sp_graph *g, const char *stage, const char *name, sp_node_opts opts, const char *k1, int64_t v1,
                  const char *k2, int64_t v2) {
  sp_value t = {.type = SP_V_TABLE};
  sp_err err;
  sp_node *n;
  if (k1) *sp_value_put(&t, k1) = (sp_value){.type = SP_V_INT, .i = v1, .d = (double)v1};
  if (k2) *sp_value_put(&t, k2) = (sp_value){.type = SP_V_INT, .i = v2, .d = (double)v2};
  opts.name = name;
  ck_assert_msg(!sp_graph_add(g, stage, &t, &opts, &n, &err), "%s", err.msg);
  sp_value_free(&t);
  return n;
}

KIT sp_node *add1(sp_graph *g, const char *stage, const char *name, const char *key, int64_t v) {
  return add2(g, stage, name, (sp_node_opts){0}, key, v, NULL, 0);
}

KIT sp_node *source(sp_graph *g, const char *name, int64_t samples) {
  sp_err err;
  sp_node *n = add2(g, "toy_source", name, (sp_node_opts){.batch = 4}, "samples", samples, NULL, 0);
  ck_assert_msg(!sp_graph_plan(g, n, &err), "%s", err.msg);
  return n;
}

KIT sp_node *mul(sp_graph *g, const char *name, bool frozen) {
  return add2(g, "toy_mul", name, (sp_node_opts){.frozen = frozen}, NULL, 0, NULL, 0);
}

/* Wires the first outputs of `from` (and `from2`, if any) to the first input, and plans. */
KIT sp_node *wire2(sp_graph *g, sp_node *to, sp_node *from, sp_node *from2) {
  sp_err err;
  ck_assert_msg(!sp_graph_wire(g, to, 0, (sp_ref){from, 0, -1}, &err), "%s", err.msg);
  if (from2) ck_assert_msg(!sp_graph_wire(g, to, 0, (sp_ref){from2, 0, -1}, &err), "%s", err.msg);
  ck_assert_msg(!sp_graph_plan(g, to, &err), "%s", err.msg);
  return to;
}
KIT sp_node *wire(sp_graph *g, sp_node *to, sp_node *from) { return wire2(g, to, from, NULL); }

KIT sp_node *loss_of(sp_graph *g, const char *name, sp_node *from) {
  return wire(g, add1(g, "toy_loss", name, NULL, 0), from);
}

KIT sp_graph *new_graph(sp_graph_opts o) {
  sp_err err;
  sp_engine *e;
  if (!o.seed) o.seed = 5;
  ck_assert_msg(!sp_engine_new(&e, env, &o, &err), "%s", err.msg);
  keep_engine(e);
  return sp_engine_graph(e);
}

KIT sp_node *train(sp_graph *g, sp_node *l1, sp_node *l2, int accumulate) {
  sp_err err;
  sp_ref l[2] = {{l1, 0, -1}, {l2, 0, -1}};
  sp_node *opt = add1(g, "toy_sgd", "opt", NULL, 0);
  sp_train_opts t = {.losses = l, .n_losses = l2 ? 2 : 1, .optimizer = opt, .accumulate = accumulate};
  ck_assert_msg(!sp_graph_train(g, &t, &err), "%s", err.msg);
  return opt;
}

KIT void get(const sp_graph *g, sp_node *n, const char *name, float *v, size_t count) {
  sp_spec spec;
  sp_err err;
  ck_assert_msg(!sp_engine_weight(on(g), n, name, &spec, v, count * sizeof *v, &err), "%s", err.msg);
}

KIT const sp_metric *metric(const sp_result *r, const char *name) {
  for (size_t i = 0; i < r->n_metrics; i++)
    if (!strcmp(r->metrics[i].name, name)) return &r->metrics[i];
  ck_abort_msg("no metric %s", name);
  return NULL;
}

KIT int run_tests(const char *name, const TTest *const *tests, size_t n) {
  Suite *s = suite_create(name);
  TCase *c = tcase_create(name);
  tcase_set_timeout(c, 120);
  tcase_add_checked_fixture(c, kit_setup, kit_teardown);
  for (size_t i = 0; i < n; i++) tcase_add_test(c, tests[i]);
  suite_add_tcase(s, c);
  return suite_run(s);
}

#endif
