/* SPDX-License-Identifier: MIT
 * check_oom.c - a graph is built and run, and so are streams by hand, while one allocation of the core after the other
 * fails: each gives an error with words, and nothing is lost, used twice or left hanging. The linker puts these in
 * front of the core's own functions. */
#include "hand/hand.h"
#include "tests/kit/graph_kit.h"

#include "run/trial.h"

static long left = -1; /* allocations until one fails; -1: none does */
static bool failed;    /* one has */

static bool fails(void) {
  if (left < 0) return false;
  if (left == 0) return failed = true;
  left--;
  return false;
}

void *__real_sp_calloc(size_t n, size_t size);
char *__real_sp_strdup(const char *s);
bool __real_sp_grow(void *array, size_t *cap, size_t n, size_t size);
void *__wrap_sp_calloc(size_t n, size_t size);
char *__wrap_sp_strdup(const char *s);
bool __wrap_sp_grow(void *array, size_t *cap, size_t n, size_t size);

void *__wrap_sp_calloc(size_t n, size_t size) { return fails() ? NULL : __real_sp_calloc(n, size); }
char *__wrap_sp_strdup(const char *s) { return fails() ? NULL : __real_sp_strdup(s); }
bool __wrap_sp_grow(void *array, size_t *cap, size_t n, size_t size) {
  return (n <= *cap || !fails()) && __real_sp_grow(array, cap, n, size);
}

static int add(sp_graph *g, const char *stage, sp_node_opts o, sp_node *from, sp_node **n, sp_err *err) {
  int st = sp_graph_add(g, stage, NULL, &o, n, err);
  if (!st && from) st = sp_graph_wire(g, *n, 0, (sp_ref){from, 0, -1}, err);
  return st ? st : sp_graph_plan(g, *n, err);
}

static int seen(void *arg, const sp_result *r, sp_err *err) {
  (void)r, (void)err;
  ++*(int *)arg;
  return SP_OK;
}

static int loop(sp_engine *e, sp_node *val, sp_err *err) {
  const sp_result *r;
  int st = sp_engine_begin(e, 3, err), batches = 0;
  for (int k = 0; k < 2 && !st; k++) st = sp_engine_next(e, &r, err);
  if (!st) st = sp_engine_evaluate(e, val, seen, &batches, err);
  while (!st && !(st = sp_engine_next(e, &r, err)) && r) continue;
  if (!st) ck_assert_int_eq(batches, 6);
  return st;
}

static int all(sp_engine *e, sp_err *err) {
  sp_graph *g = sp_engine_graph(e);
  sp_node *data, *val, *enc, *dec, *l, *opt;
  int st = add(g, "toy_source", (sp_node_opts){.batch = 4}, NULL, &data, err);
  if (st || (st = add(g, "toy_source", (sp_node_opts){.batch = 4, .name = "val"}, NULL, &val, err)) ||
      (st = add(g, "toy_mul", (sp_node_opts){.frozen = true}, data, &enc, err)) ||
      (st = add(g, "toy_mul", (sp_node_opts){0}, enc, &dec, err)) ||
      (st = add(g, "toy_loss", (sp_node_opts){0}, dec, &l, err)) ||
      (st = add(g, "toy_sgd", (sp_node_opts){0}, NULL, &opt, err)))
    return st;
  sp_ref ref = {l, 0, -1};
  sp_node *a[] = {enc}, *t[] = {dec, l};
  sp_lane_desc d[] = {{{.name = "a", .delay = 0}, a, 1, NULL}, {{.name = "t", .delay = 1}, t, 2, NULL}};
  if ((st = sp_graph_train(g, &(sp_train_opts){.losses = &ref, .n_losses = 1, .optimizer = opt}, err)) ||
      (st = sp_graph_strategy(g, "s", d, 2, err)))
    return st;
  return loop(e, val, err);
}

START_TEST(every_allocation) {
  bool more = true;
  for (long k = 0; more; k += k < 300 ? 1 : 13) {
    sp_err err = {0};
    sp_engine *e = NULL;
    failed = false;
    left = k;
    int st = sp_engine_new(&e, env, &(sp_graph_opts){.run_ahead = 1, .prefetch = 1, .checksums = true}, &err);
    if (!st) st = all(e, &err);
    more = failed;
    left = -1;
    if (more)
      ck_assert_msg(st == SP_E_NOMEM && strstr(err.msg, "memory"), "allocation %ld: status %d, '%s'", k, st, err.msg);
    else ck_assert_msg(!st, "%s", err.msg);
    sp_engine_free(e);
  }
}
END_TEST

/* What failed for want of memory works when there is some. */
START_TEST(tried_again) {
  for (long k = 0; k < 400; k++) {
    sp_graph *g = new_graph((sp_graph_opts){.run_ahead = 1});
    sp_node *data = source(g, "data", 8), *val = source(g, "val", 22);
    sp_err err;
    wire(g, mul(g, "m", true), data);
    left = k;
    int st = sp_engine_build(on(g), &err);
    left = -1;
    if (st) ck_assert_int_eq(st, SP_E_NOMEM);
    ck_assert_msg(!loop(on(g), val, &err), "after allocation %ld: %s", k, err.msg);
    free_graph(g);
  }
}
END_TEST

/* Strategies that are tried: whatever fails, the graph runs afterwards as it would have. */
static int try_two(sp_engine *e, sp_node *enc, sp_err *err) {
  sp_node *one[] = {enc};
  sp_lane_desc d[] = {{{.name = "a"}, one, 1, NULL}};
  sp_trial_forecast f;
  sp_turn turn;
  size_t i;
  int st = sp_trial_begin(e, err);
  for (int k = 0; k < 2 && !st; k++) {
    d[0].props.replicas = 1 + k;
    if ((st = sp_trial_add(e, "s", d, 1, &i, err)) || (st = sp_trial_run(e, i, 2, &turn, err)) ||
        (st = sp_trial_measure(e, i, 1e-4, err)))
      break;
    st = sp_trial_predict(e, i, &f, err);
  }
  return st;
}

START_TEST(trials) {
  bool more = true;
  for (long k = 0; more; k += k < 100 ? 1 : 7) {
    sp_graph *g = new_graph((sp_graph_opts){.run_ahead = 1, .device = "mock", .capture = SP_CAPTURE_LANE});
    sp_node *data = source(g, "data", 8), *val = source(g, "val", 22), *m = wire(g, mul(g, "m", true), data);
    sp_err err, ended;
    failed = false;
    left = k;
    int st = try_two(on(g), m, &err);
    more = failed;
    left = -1;
    if (st) ck_assert_int_eq(st, SP_E_NOMEM);
    ck_assert_msg(!sp_trial_end(on(g), &ended), "%s", ended.msg);
    ck_assert_msg(!loop(on(g), val, &err), "after allocation %ld: %s", k, err.msg);
    free_graph(g);
  }
}
END_TEST

/* ---- by hand ----------------------------------------------------------------------------------------------------- */

enum { ROWS = 4, COLUMNS = 4 };

typedef struct objects {
  sp_hand *h;
  sp_hstream *a, *b;
  sp_hevent *e;
  sp_htensor *host, *x, *rows;
  sp_hstage *mul, *loss, *sgd;
} objects;

static int make(objects *o, const char *device, sp_err *err) {
  const sp_spec spec = {.dtype = SP_F32, .ndim = 2, .shape = {ROWS, COLUMNS}};
  sp_hand *h;
  int st = sp_hand_new(&o->h, env, &(sp_hand_opts){.device = device, .check_races = true}, err);
  if (st) return st;
  h = o->h;
  if ((st = sp_hstream_new(h, "a", 0, &o->a, err)) || (st = sp_hstream_new(h, NULL, 1, &o->b, err)) ||
      (st = sp_hevent_new(h, true, &o->e, err)) ||
      (st = sp_htensor_new(h, &spec, SP_AT_HOST_PINNED, "host", "t:1", &o->host, err)) ||
      (st = sp_htensor_new(h, &spec, SP_AT_DEVICE, NULL, "t:2", &o->x, err)) ||
      (st = sp_htensor_rows(o->x, 1, 2, &o->rows, err)) ||
      (st = sp_hstage_new(h, "toy_mul", NULL, NULL, false, NULL, &o->mul, err)) ||
      (st = sp_hstage_new(h, "toy_loss", NULL, NULL, false, NULL, &o->loss, err)))
    return st;
  return sp_hstage_new(h, "toy_sgd", "opt", NULL, false, NULL, &o->sgd, err);
}

static int run(objects *o, sp_err *err) {
  const sp_hports none = {0};
  const sp_hrun how = {.step = 1};
  sp_hports in = {.port = calloc(1, sizeof *in.port), .n = 1};
  sp_htensor *y;
  void *data;
  bool pageable;
  int st = sp_htensor_map(o->host, 2, "a write", "t:3", &data, err);
  if (!st) memset(data, 0, ROWS * COLUMNS * sizeof(float));
  in.port[0].t = &o->x;
  in.port[0].n = 1;
  if (!st) st = sp_hstream_copy(o->a, o->x, o->host, "t:4", &pageable, err);
  if (!st) st = sp_hstream_record(o->a, o->e, "", err);
  if (!st) st = sp_hstream_wait(o->b, o->e, "", err);
  if (!st) st = sp_hstage_run(o->mul, o->b, &in, &none, &how, "t:5", err);
  if (!st) {
    y = sp_hstage_out(o->mul, 0, 0);
    in.port[0].t = &y;
    st = sp_hstage_run(o->loss, o->b, &in, &none, &how, "t:6", err);
  }
  if (!st) st = sp_hstage_backward(o->mul, o->b, &(sp_hrun){.inputs = true}, "t:7", err);
  if (!st) st = sp_hstage_update(o->sgd, o->b, &o->mul, 1, "t:8", err);
  if (!st) st = sp_hstream_record(o->b, o->e, "", err);
  if (!st) st = sp_hevent_sync(o->e, err);
  if (!st) st = sp_htensor_close(o->x, "t:9", err);
  if (!st) st = sp_hstream_close(o->a, err);
  free(in.port);
  return st;
}

static void drop(objects *o) {
  if (o->host) sp_htensor_drop(o->host);
  if (o->rows) sp_htensor_drop(o->rows);
  if (o->h) sp_hand_drop(o->h); /* before some of its objects */
  if (o->x) sp_htensor_drop(o->x);
  if (o->a) sp_hstream_drop(o->a);
  if (o->b) sp_hstream_drop(o->b);
  if (o->e) sp_hevent_drop(o->e);
  if (o->mul) sp_hstage_drop(o->mul);
  if (o->loss) sp_hstage_drop(o->loss);
  if (o->sgd) sp_hstage_drop(o->sgd);
}

static void by_hand_on(const char *device) {
  bool more = true;
  for (long k = 0; more; k++) {
    sp_err err = {0};
    objects o = {0};
    left = k;
    failed = false;
    int st = make(&o, device, &err);
    if (!st) st = run(&o, &err);
    more = failed;
    left = -1;
    if (more)
      ck_assert_msg(st == SP_E_NOMEM && strstr(err.msg, "memory"), "allocation %ld: status %d, '%s'", k, st, err.msg);
    else ck_assert_msg(!st, "%s", err.msg);
    drop(&o);
  }
}

START_TEST(by_hand) {
  static const char *const devices[] = {"cpu", "sim", "mock", "simmock"};
  for (size_t i = 0; i < SP_ARRAY(devices); i++) by_hand_on(devices[i]);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {every_allocation, tried_again, trials, by_hand};
  return run_tests("oom", tests, sizeof tests / sizeof *tests);
}
