/* SPDX-License-Identifier: MIT
 * check_parts.c - the tasks of a backward in parts: what each of them reads and writes, what may begin behind one of
 * them, and the scratch memory that they share. */
#include "tests/kit/graph_kit.h"
#include "tests/kit/suite.h"

static void setup(void) {
  sp_err err;
  char path[2][512];
  const char *files[] = {path[0], path[1]}, *names[] = {"toy", "fuzz"};
  for (int i = 0; i < 2; i++) snprintf(path[i], sizeof path[i], "%s/%s.so", getenv("SP_TEST_PLUGINS"), names[i]);
  sp_env_opts o = {.plugins = files, .n_plugins = 2, .threads = 1};
  ck_assert_msg(!sp_env_new(&env, &o, &err), "%s", err.msg);
}

/* data -> first -> net -> loss; both of the middle have two weights, of which `b` is the first part. */
static sp_graph *two_nets(int parts) {
  sp_graph *g = new_graph((sp_graph_opts){.device = "cpu", .run_ahead = 1, .prefetch = 1, .parts = parts});
  sp_node *first = wire(g, add1(g, "fuzz_mix", "first", NULL, 0), source(g, "data", 8));
  sp_node *net = wire(g, add1(g, "fuzz_mix", "net", NULL, 0), first);
  train(g, loss_of(g, "loss", net), NULL, 2); /* not in place */
  return g;
}

static const sp_program *program(const sp_graph *g) {
  const sp_program *p;
  const sp_ops *ops;
  sp_err err;
  ck_assert_msg(!sp_engine_program(on(g), &p, &ops, &err), "%s", err.msg);
  return p;
}

static int task(const sp_program *p, const char *name) {
  for (size_t i = 0; i < p->n_tasks; i++)
    if (!strcmp(p->tasks[i].name, name)) return (int)i;
  ck_abort_msg("no task '%s'", name);
  return -1;
}

static int resource(const sp_program *p, const char *name) {
  for (size_t i = 0; i < p->n_bufs; i++)
    if (!strcmp(p->bufs[i].name, name)) return (int)i;
  ck_abort_msg("no resource '%s'", name);
  return -1;
}

/* How a task accesses a resource: SP_READ | SP_WRITE, 0: not. */
static int mode(const sp_program *p, const char *of, const char *name) {
  const sp_task *t = &p->tasks[task(p, of)];
  for (size_t i = 0; i < t->n_acc; i++)
    if (t->acc[i].resource == resource(p, name)) return t->acc[i].mode;
  return 0;
}

START_TEST(one_part_is_as_before) {
  sp_graph *g = two_nets(1);
  const sp_program *p = program(g);
  ck_assert_int_eq(mode(p, "net.backward", "the weight gradients of 'net'"), SP_READ | SP_WRITE);
  ck_assert_int_eq(mode(p, "net.backward", "the weights of 'net'"), SP_READ);
  ck_assert_int_lt(p->tasks[task(p, "net.backward")].scratch_buf, 0);
  free_graph(g);
}
END_TEST

START_TEST(each_part_has_its_own_gradients) {
  sp_graph *g = two_nets(2);
  const sp_program *p = program(g);
  ck_assert_int_eq(task(p, "net.backward[1]"), task(p, "net.backward[0]") + 1);
  ck_assert_int_eq(mode(p, "net.backward[0]", "the weight gradients of 'net', part 0"), SP_READ | SP_WRITE);
  ck_assert_int_eq(mode(p, "net.backward[0]", "the weight gradients of 'net', part 1"), 0);
  ck_assert_int_eq(mode(p, "net.backward[0]", "the weights of 'net', part 1"), SP_READ);
  ck_assert_int_eq(mode(p, "net.backward[1]", "the weight gradients of 'net', part 0"), 0);
  ck_assert_int_eq(mode(p, "net.backward[1]", "the weight gradients of 'net', part 1"), SP_READ | SP_WRITE);
  ck_assert_int_eq(mode(p, "net.backward[1]", "the weights of 'net', part 0"), 0);
  ck_assert_int_eq(mode(p, "net.backward[0]", "the gradient of first.y"), SP_WRITE);
  ck_assert_int_eq(mode(p, "net.backward[1]", "the gradient of first.y"), SP_READ | SP_WRITE);
  for (int part = 0; part < 2; part++) {
    char gradients[64], weights[64];
    snprintf(gradients, sizeof gradients, "the weight gradients of 'net', part %d", part);
    snprintf(weights, sizeof weights, "the weights of 'net', part %d", part);
    ck_assert_int_eq(mode(p, "opt.update", gradients), SP_READ);
    ck_assert_int_eq(mode(p, "opt.update", weights), SP_READ | SP_WRITE);
    ck_assert_int_eq(mode(p, "net.forward", weights), SP_READ);
  }
  free_graph(g);
}
END_TEST

/* All parts of a node have one buffer, which nobody else has; a lane has its own. */
START_TEST(scratch_is_kept_from_part_to_part) {
  sp_graph *g = two_nets(2), *one = two_nets(1);
  const sp_program *p = program(g);
  sp_mem cut, whole;
  sp_err err;
  int buf = resource(p, "the scratch memory of 'net'");
  ck_assert_int_eq(p->bufs[buf].slots, 1);
  for (size_t i = 0; i < p->n_tasks; i++) {
    bool part = !strncmp(p->tasks[i].name, "net.backward[", 13);
    ck_assert_int_eq(mode(p, p->tasks[i].name, "the scratch memory of 'net'") != 0, part);
    ck_assert_int_eq(p->tasks[i].scratch_buf == buf, part);
  }
  ck_assert_int_eq(mode(p, "net.backward[1]", "the scratch memory of 'net'"), SP_READ | SP_WRITE);
  ck_assert_msg(!sp_engine_memory(on(g), &cut, &err) && !sp_engine_memory(on(one), &whole, &err), "%s", err.msg);
  ck_assert_uint_eq(cut.saved, whole.saved + 2 * p->bufs[buf].bytes);
  ck_assert_uint_eq(cut.scratch, whole.scratch);
  free_graph(g);
  free_graph(one);
}
END_TEST

/* What the scheduler gets of the training, and in it a task more behind a part, on a lane of its own: it spends what
 * that part has completed. */
typedef struct more {
  sp_sched_input in;
  sp_sched_lane lanes[16];
  sp_sched_task tasks[64];
  sp_sched_access acc[2];
  int spend;
} more;

static void insert(more *m, const sp_program *p, int part) {
  char gradients[64], weights[64], backward[32];
  size_t n = p->in.n_tasks;
  snprintf(gradients, sizeof gradients, "the weight gradients of 'net', part %d", part);
  snprintf(weights, sizeof weights, "the weights of 'net', part %d", part);
  snprintf(backward, sizeof backward, "net.backward[%d]", part);
  ck_assert_uint_lt(p->in.n_lanes, SP_ARRAY(m->lanes));
  ck_assert_uint_lt(n, SP_ARRAY(m->tasks));
  m->spend = task(p, backward) + 1;
  memcpy(m->lanes, p->in.lanes, p->in.n_lanes * sizeof *m->lanes);
  memcpy(m->tasks, p->in.tasks, (size_t)m->spend * sizeof *m->tasks);
  memcpy(m->tasks + m->spend + 1, p->in.tasks + m->spend, (n - (size_t)m->spend) * sizeof *m->tasks);
  m->lanes[p->in.n_lanes] = p->in.lanes[p->update_lane];
  m->lanes[p->in.n_lanes].name = "comm";
  m->acc[0] = (sp_sched_access){resource(p, gradients), SP_READ};
  m->acc[1] = (sp_sched_access){resource(p, weights), SP_READ | SP_WRITE};
  m->tasks[m->spend] = (sp_sched_task){"spend", (int)p->in.n_lanes, -1, 1, 0, m->acc, 2, SP_OP_CALL};
  m->in = p->in;
  m->in.lanes = m->lanes;
  m->in.tasks = m->tasks;
  m->in.n_lanes++;
  m->in.n_tasks++;
}

/* The only task of this step that it waits for is that part, and the other part does not wait for it. */
START_TEST(what_needs_a_part_need_not_wait_for_the_next) {
  sp_graph *g = two_nets(2);
  for (int part = 0; part < 2; part++) {
    more m;
    sp_schedule s = {0};
    sp_err err;
    insert(&m, program(g), part);
    ck_assert_msg(!sp_schedule_derive(&s, &m.in, &err), "%s", err.msg);
    ck_assert_msg(!sp_schedule_prove(&s, &m.in, &err), "%s", err.msg);
    const sp_sched_item *spend = &s.items[m.spend];
    for (size_t i = 0; i < spend->n_waits; i++)
      if (!spend->waits[i].back) ck_assert_int_eq(spend->waits[i].task, m.spend - 1);
    ck_assert_uint_ge(spend->n_waits, 1);
    for (size_t i = 0; i < s.items[m.spend + 1].n_waits; i++)
      ck_assert_int_ne(s.items[m.spend + 1].waits[i].task, m.spend);
    sp_schedule_free(&s);
  }
  free_graph(g);
}
END_TEST

int main(void) {
  Suite *s = suite_create("parts");
  TCase *tc = tcase_create("parts");
  tcase_add_checked_fixture(tc, setup, kit_teardown);
  tcase_add_test(tc, one_part_is_as_before);
  tcase_add_test(tc, each_part_has_its_own_gradients);
  tcase_add_test(tc, scratch_is_kept_from_part_to_part);
  tcase_add_test(tc, what_needs_a_part_need_not_wait_for_the_next);
  suite_add_tcase(s, tc);
  return suite_run(s);
}
