/* SPDX-License-Identifier: MIT
 * check_machine.c - what runs is what was proved: readers in lanes, loops that end early, failures of stages ahead,
 * capture with many phases, empty steps; and what a graph refuses or counts before it runs. */
#include "tests/kit/graph_kit.h"

#include <unistd.h>

#include "run/loop.h"
#include "tests/kit/suite.h"

#define W 4
#define STEPS 30
#define FILES 2

typedef struct setting {
  const char *device;
  int capture, run_ahead, accumulate;
  int lanes, depth; /* 0: serialized, 1: one lane with the reader, 2: reader and `enc` ahead by `depth` */
  int64_t fail_at;  /* of enc; 0: never */
} setting;

typedef struct net {
  sp_graph *g;
  sp_node *data, *enc, *dec, *loss;
} net;

typedef struct outcome {
  float loss[STEPS], w[W], calls;
} outcome;

static void setup(void) {
  sp_err err;
  char path[FILES][512];
  const char *files[FILES] = {path[0], path[1]}, *names[] = {"toy", "fuzz"};
  for (int i = 0; i < FILES; i++) snprintf(path[i], sizeof path[i], "%s/%s.so", getenv("SP_TEST_PLUGINS"), names[i]);
  sp_env_opts o = {.plugins = files, .n_plugins = FILES, .threads = 2};
  ck_assert_msg(!sp_env_new(&env, &o, &err), "%s", err.msg);
}

static void lanes_of(const net *n, const setting *s) {
  sp_err err;
  sp_node *one[] = {n->data, n->enc, n->dec, n->loss};
  sp_lane_desc d[] = {{{.name = "ahead", .delay = 0}, one, 2, NULL},
                      {{.name = "train", .delay = s->depth, .priority = 1}, one + 2, 2, NULL}};
  if (s->lanes == 1) d[0].n_nodes = 4;
  if (s->lanes) ck_assert_msg(!sp_graph_strategy(n->g, "mine", d, (size_t)s->lanes, &err), "%s", err.msg);
}

static net make(setting s) {
  net n = {.g = new_graph(
               (sp_graph_opts){.device = s.device, .capture = s.capture, .run_ahead = s.run_ahead, .prefetch = 2})};
  sp_node_opts frozen = {.frozen = true};
  n.data = source(n.g, "data", 22);
  n.enc = wire(n.g, add2(n.g, "toy_mul", "enc", frozen, "drift", 150, "fail_at", s.fail_at ? s.fail_at : -1), n.data);
  n.dec = wire(n.g, add1(n.g, "toy_mul", "dec", "drift", 150), n.enc);
  n.loss = loss_of(n.g, "loss", n.dec);
  train(n.g, n.loss, NULL, s.accumulate);
  lanes_of(&n, &s);
  return n;
}

static void final(const net *n, outcome *o) {
  get(n->g, n->dec, "w", o->w, W);
  get(n->g, n->dec, "steps", &o->calls, 1);
}

/* `steps` of them, or a break after `seen` results. */
static void go(const net *n, outcome *o, uint64_t steps, int seen) {
  const sp_result *r;
  sp_err err;
  ck_assert_msg(!sp_engine_begin(on(n->g), steps, &err), "%s", err.msg);
  for (int k = 0; k != seen; k++) {
    ck_assert_msg(!sp_engine_next(on(n->g), &r, &err), "%s", err.msg);
    if (!r) return;
    o->loss[r->step] = *(const float *)metric(r, "loss")->data;
  }
  ck_assert_msg(!sp_engine_stop(on(n->g), &err), "%s", err.msg);
}

static outcome serialized(int accumulate, uint64_t steps) {
  outcome o = {0};
  net n = make((setting){.device = "cpu", .accumulate = accumulate});
  go(&n, &o, steps, -1);
  final(&n, &o);
  free_graph(n.g);
  return o;
}

static void same(const outcome *want, const outcome *got, const char *what, int k) {
  ck_assert_msg(!memcmp(want->loss, got->loss, sizeof want->loss), "%s, %d: other losses", what, k);
  ck_assert_msg(!memcmp(want->w, got->w, sizeof want->w) && want->calls == got->calls, "%s, %d: other weights", what,
                k);
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

/* The reader in the lane of those who read from it: a batch is written before they look. */
START_TEST(reader_in_a_lane) {
  outcome want = serialized(1, STEPS);
  for (int capture = SP_CAPTURE_OFF; capture <= SP_CAPTURE_STEP; capture++)
    for (int lanes = 1; lanes <= 2; lanes++) {
      outcome got = {0};
      net n = make((setting){.device = "mock", .capture = capture, .run_ahead = 2, .lanes = lanes, .depth = 1});
      go(&n, &got, STEPS, -1);
      final(&n, &got);
      same(&want, &got, "reader in a lane, capture", capture);
      free_graph(n.g);
    }
}
END_TEST

/* A break, as an error in the loop's body is one, and further loops. */
START_TEST(captured_loops_go_on) {
  outcome want = serialized(3, STEPS);
  for (int capture = SP_CAPTURE_OFF; capture <= SP_CAPTURE_STEP; capture++)
    for (int lanes = 0; lanes <= 2; lanes++) {
      outcome got = {0};
      setting s = {.device = "mock", .capture = capture, .run_ahead = 1, .lanes = lanes, .depth = 2, .accumulate = 3};
      net n = make(s);
      go(&n, &got, 0, 7);
      go(&n, &got, 0, 1);
      go(&n, &got, 20, 6);
      ck_assert_uint_eq(sp_engine_step(on(n.g)), 17);
      go(&n, &got, STEPS - 17, -1);
      final(&n, &got);
      for (int k = 0; k < 17; k++)
        if (k == 7 || k == 9 || k == 16) got.loss[k] = want.loss[k]; /* ran behind the last that was seen */
      same(&want, &got, "after breaks, capture", capture);
      free_graph(n.g);
    }
}
END_TEST

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static const setting ahead[] = {{.device = "cpu"},
                                {.device = "cpu", .lanes = 2, .depth = 3, .run_ahead = 1},
                                {.device = "sim", .lanes = 2, .depth = 4, .run_ahead = 3},
                                {.device = "mock", .lanes = 2, .depth = 3, .capture = SP_CAPTURE_OFF},
                                {.device = "mock", .lanes = 2, .depth = 3, .capture = SP_CAPTURE_LANE, .run_ahead = 2},
                                {.device = "mock", .lanes = 2, .depth = 3, .capture = SP_CAPTURE_STEP, .run_ahead = 1}};

START_TEST(a_failure_ahead_waits_for_its_step) {
  for (size_t i = 0; i < SP_ARRAY(ahead); i++)
    for (int64_t f = 1; f < 12; f += 5) {
      setting s = ahead[i];
      s.fail_at = f;
      net n = make(s);
      const sp_result *r;
      sp_err err;
      ck_assert(!sp_engine_begin(on(n.g), STEPS, &err));
      for (int64_t k = 0; k < f; k++)
        ck_assert_msg(!sp_engine_next(on(n.g), &r, &err) && r, "setting %zu, step %d of %d: %s", i, (int)k, (int)f,
                      err.msg);
      ck_assert_int_eq(sp_engine_next(on(n.g), &r, &err), SP_E_DATA);
      ck_assert_msg(strstr(err.msg, "'enc'"), "%s", err.msg);
      free_graph(n.g);
    }
}
END_TEST

/* The stage ahead fails at step 6, the loop is ended at 5: in serialized order it has not come to that. */
START_TEST(a_failure_behind_the_end) {
  outcome want = serialized(1, 6);
  for (size_t i = 0; i < SP_ARRAY(ahead); i++) {
    setting s = ahead[i];
    outcome got = {0};
    const sp_result *r;
    sp_err err;
    s.fail_at = 6;
    net n = make(s);
    go(&n, &got, 0, 5 - s.run_ahead);
    ck_assert_uint_eq(sp_engine_step(on(n.g)), 5);
    go(&n, &got, 1, -1);
    final(&n, &got);
    ck_assert_msg(!memcmp(want.w, got.w, sizeof want.w) && want.loss[5] == got.loss[5], "setting %zu: other bits", i);
    ck_assert(!sp_engine_begin(on(n.g), 0, &err));
    ck_assert_int_eq(sp_engine_next(on(n.g), &r, &err), SP_E_DATA);
    free_graph(n.g);
  }
}
END_TEST

/* ---- the border -------------------------------------------------------------------------------------------------- */

static void wire_port(sp_graph *g, sp_node *to, int in, sp_node *from, int out) {
  sp_err err;
  ck_assert_msg(!sp_graph_wire(g, to, in, (sp_ref){from, out, -1}, &err), "%s", err.msg);
}

/* METRIC and STATUS of stages of the cpu, with another output, wired to a stage of the device. */
static void metrics_wired(const char *device, int capture, float *loss) {
  sp_graph *g = new_graph((sp_graph_opts){.device = device, .capture = capture});
  sp_node_opts cpu = {.on_cpu = true};
  sp_node *data = source(g, "data", 22);
  sp_node *watch = wire(g, add2(g, "fuzz_watch", "watch", cpu, "drift", 100, NULL, 0), data);
  sp_node *other = wire(g, add2(g, "fuzz_loss", "other", cpu, "drift", 100, NULL, 0), data);
  sp_node *mix = add1(g, "fuzz_mix", "mix", "learn", 0);
  const sp_result *r;
  sp_err err;
  wire_port(g, mix, 1, watch, 0);
  wire_port(g, mix, 1, watch, 2);
  wire_port(g, mix, 1, other, 0);
  wire_port(g, mix, 1, other, 1);
  wire(g, add1(g, "fuzz_loss", "loss", "drift", 150), wire(g, mix, data));
  ck_assert_msg(!sp_engine_begin(on(g), STEPS, &err), "%s", err.msg);
  while (!sp_engine_next(on(g), &r, &err) && r) loss[r->step] = *(const float *)metric(r, "loss.loss")->data;
  ck_assert_msg(!err.status, "%s", err.msg);
  free_graph(g);
}

START_TEST(metrics_as_inputs_behind_the_border) {
  float want[STEPS] = {0}, got[STEPS] = {0};
  metrics_wired("cpu", SP_CAPTURE_AUTO, want);
  for (int capture = SP_CAPTURE_OFF; capture <= SP_CAPTURE_STEP; capture++) {
    metrics_wired("mock", capture, got);
    for (int k = 0; k < STEPS; k++)
      ck_assert_msg(want[k] == got[k], "capture %d, step %d: %a, on the cpu %a", capture, k, (double)got[k],
                    (double)want[k]);
  }
}
END_TEST

/* ---- phases ------------------------------------------------------------------------------------------------------ */

/* What is logged while it is there goes into `text`. */
static FILE *listen_to_log(void) {
  FILE *f = tmpfile();
  ck_assert_ptr_nonnull(f);
  fflush(stderr);
  ck_assert_int_ge(dup2(fileno(f), STDERR_FILENO), 0);
  return f;
}

static bool logged(FILE *f, const char *words) {
  char text[4096];
  fflush(stderr);
  rewind(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  return strstr(text, words) != NULL;
}

START_TEST(too_many_phases) {
  outcome want = serialized(257, 12), got = {0};
  FILE *log = listen_to_log();
  setting s = {.device = "mock", .lanes = 2, .depth = 2, .run_ahead = 1, .accumulate = 257};
  net n = make(s);
  go(&n, &got, 12, -1);
  final(&n, &got);
  same(&want, &got, "capture auto", 257);
  ck_assert_int_eq(sp_engine_options(on(n.g)).capture, SP_CAPTURE_OFF);
  ck_assert(logged(log, "more than 256 graphs"));
  free_graph(n.g);
  for (s.capture = SP_CAPTURE_LANE; s.capture <= SP_CAPTURE_STEP; s.capture++) {
    sp_err err;
    n = make(s);
    ck_assert_int_eq(sp_engine_build(on(n.g), &err), SP_E_RANGE);
    ck_assert_msg(strstr(err.msg, "more than 256 graphs") && strstr(err.msg, "accumulate = 257"), "%s", err.msg);
    free_graph(n.g);
  }
  fclose(log);
}
END_TEST

/* Three outputs that are read 2, 4 and 6 steps later: 3, 5 and 7 slots have 105 phases, a few slots more have 8. */
static outcome staggered(const char *device, int capture, uint64_t *launches) {
  sp_graph *g = new_graph((sp_graph_opts){.device = device, .capture = capture, .run_ahead = 1});
  sp_node *e[4] = {source(g, "data", 22)}, *lane[4][1], *sum = add1(g, "fuzz_mix", "sum", "learn", 0);
  sp_lane_desc d[4];
  sp_schedule_info info;
  sp_err err;
  const char *const names[] = {"", "a", "b", "c"};
  for (int i = 1; i < 4; i++) {
    e[i] = lane[i - 1][0] = wire(g, mul(g, names[i], true), e[i - 1]);
    d[i - 1] = (sp_lane_desc){{.name = names[i], .delay = 2 * (i - 1)}, lane[i - 1], 1, NULL};
    wire_port(g, sum, 0, e[i], 0);
  }
  ck_assert(!sp_graph_plan(g, sum, &err));
  net n = {.g = g, .dec = wire(g, mul(g, "dec", false), sum)};
  n.loss = loss_of(g, "loss", n.dec);
  train(g, n.loss, NULL, 0);
  sp_node *last[] = {sum, n.dec, n.loss};
  d[3] = (sp_lane_desc){{.name = "train", .delay = 6}, last, 3, NULL};
  if (capture) ck_assert_msg(!sp_graph_strategy(g, "staggered", d, 4, &err), "%s", err.msg);
  outcome o = {0};
  go(&n, &o, STEPS, -1);
  final(&n, &o);
  ck_assert(!sp_engine_schedule_info(on(g), &info, &err));
  *launches = info.launches;
  free_graph(g);
  return o;
}

START_TEST(coprime_slots) {
  uint64_t launches;
  outcome want = staggered("cpu", SP_CAPTURE_AUTO, &launches);
  for (int capture = SP_CAPTURE_LANE; capture <= SP_CAPTURE_STEP; capture++) {
    outcome got = staggered("mock", capture, &launches);
    ck_assert_uint_gt(launches, 0);
    same(&want, &got, "coprime slots, capture", capture);
  }
}
END_TEST

/* ---- before a graph runs ----------------------------------------------------------------------------------------- */

/* A loss that is only watched may be at another step in another strategy. */
START_TEST(live_of_a_watched_loss) {
  sp_graph *g = new_graph((sp_graph_opts){0});
  sp_node *m = wire(g, mul(g, "m", false), source(g, "data", 22));
  sp_node *trained = wire(g, add1(g, "fuzz_loss", "trained", NULL, 0), m);
  sp_node *watched = wire(g, add1(g, "fuzz_loss", "watched", NULL, 0), m);
  const sp_result *r;
  sp_err err;
  train(g, trained, NULL, 0);
  ck_assert(!sp_node_set_live(watched, "gain", 0.25, &err));
  ck_assert(!sp_engine_begin(on(g), 4, &err) && !sp_engine_next(on(g), &r, &err) && r);
  ck_assert(!sp_node_set_live(trained, "gain", 0.5, &err));
  ck_assert_int_eq(sp_node_set_live(watched, "gain", 0.5, &err), SP_E_STATE);
  ck_assert_msg(strstr(err.msg, "'watched'") && strstr(err.msg, "before the first step"), "%s", err.msg);
  free_graph(g);
}
END_TEST

/* Of ones, which evaluation makes a second time. */
static sp_graph *big(bool eval, int64_t rows) {
  sp_graph *g = new_graph((sp_graph_opts){0});
  sp_node *f = add1(g, "toy_fill", "f", "rows", rows);
  sp_err err;
  wire(g, mul(g, "m", true), source(g, "data", 8));
  ck_assert(!sp_graph_plan(g, f, &err));
  if (eval) source(g, "val", 8);
  return g;
}

START_TEST(memory_of_evaluations) {
  sp_device_info info = {.size = sizeof info};
  sp_mem one, two;
  sp_err err;
  sp_graph *g = big(false, 1);
  ck_assert(!sp_place_describe(&g->main, g->index, &info, &err));
  free_graph(g);
  ck_assert_uint_gt(info.memory, 0);
  int64_t rows = (int64_t)(info.memory / 10 * 6 / (W * sizeof(float)));
  g = big(false, rows);
  ck_assert_msg(!sp_engine_memory(on(g), &one, &err), "%s", err.msg);
  ck_assert_uint_lt(one.total, info.memory);
  free_graph(g);
  g = big(true, rows);
  ck_assert_msg(!sp_engine_memory(on(g), &two, &err), "%s", err.msg);
  ck_assert_uint_ge(two.total, one.total + (uint64_t)rows * W * sizeof(float));
  ck_assert_int_eq(sp_engine_build(on(g), &err), SP_E_NOMEM); /* not when the evaluation begins */
  ck_assert_msg(strstr(err.msg, "the graph needs "), "%s", err.msg);
  free_graph(g);
}
END_TEST

/* ---- empty steps ------------------------------------------------------------------------------------------------- */

/* Steps without samples between those of another feed. */
typedef struct gaps {
  sp_feed feed;
  bool on;
} gaps;

static bool is_gap(const gaps *f, uint64_t step) { return f->on && step % 7 > 4; }

static uint32_t take(void *self, uint64_t step, uint64_t *ids) {
  gaps *f = self;
  uint64_t before = 0;
  if (is_gap(f, step)) return 0;
  for (uint64_t s = 0; s < step; s++) before += is_gap(f, s);
  return f->feed.take(f->feed.self, step - before, ids);
}

static void check_gap(const sp_result *r, bool gap) {
  ck_assert_int_eq(r->n == 0, gap);
  ck_assert_int_eq(r->n_metrics == 0, gap);
}

static outcome with_gaps(setting s, bool gap, uint64_t steps) {
  net n = make(s);
  sp_graph *g = n.g;
  sp_program *p;
  sp_machine *m;
  sp_pool *pool;
  sp_err err;
  outcome o = {0};
  int seen = 0;
  ck_assert_msg(!sp_graph_complete(g, &err), "%s", err.msg);
  for (size_t i = 0; i < g->n_nodes; i++) ck_assert(!sp_weights_storage(&g->nodes[i]->params, &err));
  ck_assert(!sp_pool_new(&pool, g->main.type, g->main.dev, (size_t)1 << 30, "--pinned", &err));
  ck_assert_msg(!sp_program_new(&p, g, NULL, g->strategy, &err), "%s", err.msg);
  ck_assert_msg(!sp_machine_new(&m, p, pool, &err), "%s", err.msg);
  gaps feed = {m->feed, gap};
  m->feed.self = &feed;
  m->feed.take = take;
  ck_assert_msg(!sp_store_init(&g->store, &err) && !sp_machine_build(m, NULL, &err), "%s", err.msg);
  sp_loop loop;
  const sp_result *r;
  sp_loop_init(&loop, m);
  ck_assert(!sp_loop_begin(&loop, 0, steps, &err));
  while (!sp_loop_next(&loop, &r, &err) && r) {
    check_gap(r, is_gap(&feed, r->step));
    if (r->n) o.loss[seen++] = *(const float *)metric(r, "loss")->data;
  }
  ck_assert_msg(!err.status && loop.delivered == steps, "%s", err.msg);
  sp_spec spec;
  ck_assert(!sp_weights_read(&n.dec->params, "w", &spec, o.w, sizeof o.w, &err));
  ck_assert(!sp_weights_read(&n.dec->params, "steps", &spec, &o.calls, sizeof o.calls, &err));
  sp_machine_free(m);
  sp_program_free(p);
  sp_pool_free(pool);
  free_graph(g);
  return o;
}

/* Nothing runs in them: what is left is as if they had not been. */
START_TEST(empty_steps) {
  const setting all[] = {{.device = "cpu"},
                         {.device = "sim", .lanes = 2, .depth = 2, .run_ahead = 1},
                         {.device = "mock", .lanes = 2, .depth = 2, .capture = SP_CAPTURE_OFF, .run_ahead = 1},
                         {.device = "mock", .lanes = 2, .depth = 2, .capture = SP_CAPTURE_LANE},
                         {.device = "mock", .lanes = 1, .capture = SP_CAPTURE_STEP},
                         {.device = "mock", .lanes = 2, .depth = 1, .capture = SP_CAPTURE_STEP, .run_ahead = 2}};
  outcome want = with_gaps(all[0], false, 20);
  for (size_t i = 0; i < SP_ARRAY(all); i++) {
    outcome got = with_gaps(all[i], true, 28);
    same(&want, &got, "empty steps", (int)i);
  }
}
END_TEST

int main(void) {
  const TTest *const tests[] = {reader_in_a_lane,
                                captured_loops_go_on,
                                a_failure_ahead_waits_for_its_step,
                                a_failure_behind_the_end,
                                metrics_as_inputs_behind_the_border,
                                too_many_phases,
                                coprime_slots,
                                live_of_a_watched_loss,
                                memory_of_evaluations,
                                empty_steps};
  Suite *s = suite_create("machine");
  TCase *c = tcase_create("machine");
  tcase_set_timeout(c, 120);
  tcase_add_checked_fixture(c, setup, kit_teardown);
  for (size_t i = 0; i < SP_ARRAY(tests); i++) tcase_add_test(c, tests[i]);
  suite_add_tcase(s, c);
  return suite_run(s);
}
