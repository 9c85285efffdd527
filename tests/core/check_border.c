/* SPDX-License-Identifier: MIT
 * check_border.c - graphs behind a border, on the device `mock`: the same bits as on the cpu, whatever is captured,
 * where stages lie, and how lanes are cut; failures on both sides; what is refused. */
#include "tests/kit/graph_kit.h"
#include "device/cpu.h"
#include "graph/model.h"

#include <fenv.h>
#include <math.h>

#define W 4
#define STEPS 40

typedef struct setting {
  const char *device;
  int capture, lanes, accumulate, depth;
  bool middle, sink, eval, checksums;
  bool plain;                  /* on a device that makes no checksums */
  int64_t fail_main, fail_cpu; /* step + 1; 0: never */
} setting;

typedef struct outcome {
  float loss[STEPS], eval[4], w[W], frozen[W], calls;
  uint64_t hash;
  int64_t seen;
  sp_err err;
  uint64_t steps;
} outcome;

static sp_device_type plain; /* `mock` without stream_hash */

static int lr_of(void *arg, uint64_t step, double *lr, sp_err *err) {
  (void)arg, (void)err;
  *lr = 0.5 / (double)(step + 1);
  return SP_OK;
}

static int keep_loss(void *arg, const sp_result *r, sp_err *err) {
  (void)err;
  *(float *)arg += *(const float *)metric(r, "loss")->data;
  return SP_OK;
}

static void strategy(sp_graph *g, const setting *s, sp_node *const *frozen, size_t n_frozen, sp_node *const *trained,
                     size_t n_trained) {
  sp_err err;
  sp_lane_desc d[] = {{{.name = "ahead"}, frozen, n_frozen, NULL},
                      {{.name = "train", .delay = s->depth, .priority = 1}, trained, n_trained, NULL}};
  if (s->lanes == 2) ck_assert_msg(!sp_graph_strategy(g, "pipelined", d, 2, &err), "%s", err.msg);
}

static void build(sp_graph *g, const setting *s, sp_node **enc, sp_node **dec, sp_node **val) {
  sp_err err;
  sp_node *data = source(g, "data", 22), *frozen[4], *trained[4], *x = data;
  size_t f = 0, t = 0;
  *val = source(g, "val", 10);
  *enc = frozen[f++] = x =
      wire(g, add2(g, "toy_mul", "enc", (sp_node_opts){.frozen = true}, "drift", 200, "fail_at", s->fail_main - 1), x);
  if (s->middle)
    frozen[f++] = x = wire(g,
                           add2(g, "toy_mul", "middle", (sp_node_opts){.frozen = true, .on_cpu = true}, "drift", 150,
                                "fail_at", s->fail_cpu - 1),
                           x);
  frozen[f++] = x = wire(g, mul(g, "enc2", true), x);
  *dec = trained[t++] = wire(g, add1(g, "toy_mul", "dec", "drift", 100), x);
  trained[t++] = loss_of(g, "loss", *dec);
  if (s->sink) {
    sp_node *probe = add2(g, "toy_probe", "probe", (sp_node_opts){.on_cpu = true}, NULL, 0, NULL, 0);
    ck_assert_msg(!sp_graph_wire(g, probe, 0, (sp_ref){*dec, 0, -1}, &err), "%s", err.msg);
    ck_assert_msg(!sp_graph_plan(g, probe, &err), "%s", err.msg);
    trained[t++] = probe;
  }
  sp_node *opt = add1(g, "toy_sgd", "opt", NULL, 0);
  sp_ref l = {trained[1], 0, -1};
  sp_train_opts o = {.losses = &l, .n_losses = 1, .optimizer = opt, .accumulate = s->accumulate, .lr = lr_of};
  ck_assert_msg(!sp_graph_train(g, &o, &err), "%s", err.msg);
  strategy(g, s, frozen, f, trained, t);
}

static outcome run(setting s) {
  outcome o = {0};
  sp_node *enc, *dec, *val;
  const sp_result *r;
  int evals = 0;
  sp_graph *g = new_graph((sp_graph_opts){
      .device = s.device, .run_ahead = 3, .prefetch = 2, .capture = s.capture, .checksums = s.checksums});
  if (s.plain) g->main.type = &plain;
  if (!s.accumulate) s.accumulate = 1;
  build(g, &s, &enc, &dec, &val);
  o.hash = SP_FNV64;
  if (!sp_engine_begin(on(g), STEPS, &o.err)) {
    while (!sp_engine_next(on(g), &r, &o.err) && r) {
      ck_assert_uint_eq(r->step, o.steps);
      o.loss[o.steps++] = *(const float *)metric(r, "loss")->data;
      if (s.sink) o.seen += ((const int64_t *)metric(r, "seen")->data)[0];
      for (size_t i = 0; i < r->n_hashes; i++) o.hash = sp_fnv64(o.hash, &r->hashes[i].hash, sizeof(uint64_t));
      if (s.eval && r->step % 12 == 7) sp_engine_evaluate(on(g), val, keep_loss, &o.eval[evals++], &o.err);
    }
  }
  sp_schedule_info info;
  sp_err ignored;
  /* All but the first steps, the short batches and, with STEP, the ticks in which not all lanes have work. */
  if (o.steps == STEPS && !sp_engine_schedule_info(on(g), &info, &ignored)) {
    if (s.capture > SP_CAPTURE_OFF) ck_assert_msg(info.launches >= STEPS / 3, "%d launches", (int)info.launches);
    else ck_assert_uint_eq(info.launches, 0);
  }
  if (!o.err.status && o.steps == STEPS) {
    get(g, dec, "w", o.w, W);
    get(g, enc, "w", o.frozen, W);
    get(g, dec, "steps", &o.calls, 1);
  }
  free_graph(g);
  return o;
}

static void same(const outcome *a, const outcome *b, const char *what) {
  ck_assert_msg(b->steps == STEPS, "%s: %d steps: %s", what, (int)b->steps, b->err.msg);
  for (int i = 0; i < STEPS; i++)
    ck_assert_msg(!memcmp(&a->loss[i], &b->loss[i], sizeof(float)), "%s: step %d: loss %a, on the cpu %a", what, i,
                  (double)b->loss[i], (double)a->loss[i]);
  ck_assert_msg(!memcmp(a->w, b->w, sizeof a->w), "%s: other weights", what);
  ck_assert_msg(!memcmp(a->frozen, b->frozen, sizeof a->frozen), "%s: frozen weights moved", what);
  ck_assert_msg(!memcmp(a->eval, b->eval, sizeof a->eval), "%s: other evaluation", what);
  ck_assert_msg(a->calls == b->calls && a->seen == b->seen && a->hash == b->hash, "%s: other counts", what);
}

START_TEST(same_bits_behind_the_border) {
  for (int shape = 0; shape < 8; shape++) {
    setting base = {
        .device = "cpu", .accumulate = 1 + shape % 2 * 2, .middle = shape & 2, .sink = shape & 4, .eval = true};
    outcome want = run(base);
    ck_assert_uint_eq(want.steps, STEPS);
    for (int lanes = 1; lanes <= 2; lanes++)
      for (int depth = 1; depth <= (lanes == 2 ? 3 : 1); depth += 2)
        for (int capture = SP_CAPTURE_OFF; capture <= SP_CAPTURE_STEP; capture++) {
          setting s = base;
          char what[96];
          s.device = "mock", s.lanes = lanes, s.capture = capture, s.depth = depth;
          snprintf(what, sizeof what, "shape %d, %d lanes, depth %d, capture %d", shape, lanes, depth, capture);
          outcome got = run(s);
          same(&want, &got, what);
        }
  }
}
END_TEST

/* Those of the cpu's one lane, also from recorded operations. */
START_TEST(checksums_cross_the_border) {
  for (int shape = 0; shape < 4; shape++) {
    setting base = {.device = "cpu", .accumulate = 1 + shape % 2, .middle = shape & 2, .eval = true, .checksums = true};
    outcome want = run(base);
    for (int lanes = 1; lanes <= 2; lanes++)
      for (int capture = SP_CAPTURE_OFF; capture <= SP_CAPTURE_STEP; capture++) {
        setting s = base;
        char what[96];
        s.device = "mock", s.lanes = lanes, s.capture = capture, s.depth = lanes;
        snprintf(what, sizeof what, "checksums, shape %d, %d lanes, capture %d", shape, lanes, capture);
        outcome got = run(s);
        same(&want, &got, what);
      }
  }
}
END_TEST

static int open_upward(sp_ctx *ctx, int index, void **dev) {
  fesetround(FE_UPWARD);
  return sp_device_mock.open(ctx, index, dev);
}

/* A driver's libraries may set the mode of the thread that opens it: the script's arithmetic goes on as before. */
START_TEST(opening_a_device_leaves_the_rounding) {
  static sp_device_type upward;
  sp_err err;
  sp_place place;
  upward = sp_device_mock;
  upward.open = open_upward;
  ck_assert_msg(!sp_place_open(&place, &upward, 0, &err), "%s", err.msg);
  int mode = fegetround();
  fesetround(FE_TONEAREST);
  ck_assert_int_eq(mode, FE_TONEAREST);
  sp_place_close(&place);
}
END_TEST

/* The same where copies are hashed, behind every call. */
START_TEST(a_device_without_checksums) {
  plain = sp_device_mock;
  plain.name = "plain";
  plain.stream_hash = NULL;
  setting s = {.device = "mock", .capture = SP_CAPTURE_OFF, .lanes = 2, .depth = 1, .checksums = true};
  outcome want = run(s);
  s.plain = true;
  outcome got = run(s);
  same(&want, &got, "copies");
  sp_err err;
  sp_engine *e;
  sp_graph_opts o = {.device = "plain", .capture = SP_CAPTURE_LANE, .checksums = true};
  ck_assert_msg(!sp_registry_add_device(env->reg, &plain, &err), "%s", err.msg);
  ck_assert_int_ne(sp_engine_new(&e, env, &o, &err), SP_OK);
  ck_assert_msg(strstr(err.msg, "capture lane on device 'plain': it makes no checksums") != NULL, "%s", err.msg);
  o.capture = SP_CAPTURE_AUTO;
  ck_assert_msg(!sp_engine_new(&e, env, &o, &err), "%s", err.msg);
  ck_assert_int_eq(sp_engine_graph(e)->opts.capture, SP_CAPTURE_OFF);
  sp_engine_free(e);
}
END_TEST

/* The failure is the stage's, with its step, and everything ends. */
START_TEST(failures_on_both_sides) {
  for (int lanes = 1; lanes <= 2; lanes++)
    for (int side = 0; side < 2; side++) {
      setting s = {.device = "mock", .lanes = lanes, .depth = 1, .middle = true, .capture = SP_CAPTURE_OFF};
      *(side ? &s.fail_cpu : &s.fail_main) = 10;
      outcome o = run(s);
      ck_assert_msg(o.err.status && strstr(o.err.msg, side ? "'middle'" : "'enc'") && strstr(o.err.msg, "step 10"),
                    "%s", o.err.msg);
      ck_assert_uint_le(o.steps, 9);
    }
}
END_TEST

START_TEST(what_cannot_be) {
  sp_err err;
  sp_graph *g = new_graph((sp_graph_opts){.device = "mock"});
  sp_node *data = source(g, "data", 8);
  sp_node *a = wire(g, add2(g, "toy_mul", "a", (sp_node_opts){.on_cpu = true}, NULL, 0, NULL, 0), data);
  train(g, loss_of(g, "loss", a), NULL, 0);
  ck_assert_int_eq(sp_engine_begin(on(g), 1, &err), SP_E_UNSUPPORTED);
  ck_assert_msg(strstr(err.msg, "'a' runs on the cpu"), "%s", err.msg);
  free_graph(g);
  sp_engine *e;
  const struct {
    sp_graph_opts o;
    const char *words;
  } bad[] = {{{.device = "cpu", .capture = SP_CAPTURE_LANE}, "capture lane on device 'cpu'"},
             {{.device = "mock", .precision = 1}, "fp32 only"},
             {{.device = "mock:7"}, "7"},
             {{.device = "mock:x"}, "device 'mock:x': NAME or NAME:NUMBER is wanted"},
             {{.device = "nowhere"}, "no device"}};
  for (size_t i = 0; i < SP_ARRAY(bad); i++) {
    ck_assert_msg(sp_engine_new(&e, env, &bad[i].o, &err) != SP_OK, "%s", bad[i].words);
    ck_assert_msg(strstr(err.msg, bad[i].words) != NULL, "%s", err.msg);
  }
}
END_TEST

int main(void) {
  const TTest *const tests[] = {same_bits_behind_the_border, checksums_cross_the_border,
                                a_device_without_checksums,  opening_a_device_leaves_the_rounding,
                                failures_on_both_sides,      what_cannot_be};
  return run_tests("border", tests, SP_ARRAY(tests));
}
