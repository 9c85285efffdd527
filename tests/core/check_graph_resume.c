/* SPDX-License-Identifier: MIT
 * check_graph_resume.c - breaks, the rate between them, resumed runs, weight files that do not fit: no bit differs. */
#include <unistd.h>

#include "tests/kit/graph_kit.h"

#define W 4

typedef struct {
  int depth, accumulate, run_ahead;
  bool unfrozen;
} plan;

typedef struct {
  sp_graph *g;
  sp_node *enc, *dec, *opt;
} net;

static net make(plan p) {
  net n = {.g = new_graph((sp_graph_opts){.run_ahead = p.run_ahead, .prefetch = 1 + p.depth % 3})};
  n.enc = wire(n.g, mul(n.g, "enc", !p.unfrozen), source(n.g, "data", 22));
  n.dec = wire(n.g, mul(n.g, "dec", false), n.enc);
  sp_node *l = loss_of(n.g, "l", n.dec);
  n.opt = train(n.g, l, NULL, p.accumulate);
  sp_node *a[] = {n.enc}, *t[] = {n.dec, l};
  sp_lane_desc d[] = {{{.name = "a", .delay = p.unfrozen ? p.depth : 0}, a, 1, NULL},
                      {{.name = "t", .delay = p.depth}, t, 2, NULL}};
  sp_err err;
  if (p.depth) ck_assert_msg(!sp_graph_strategy(n.g, "s", d, 2, &err), "%s", err.msg);
  return n;
}

static void all_weights(net *n, float *w) {
  get(n->g, n->enc, "w", w, W), get(n->g, n->dec, "w", w + W, W), get(n->g, n->dec, "steps", w + 2 * W, 1);
}

/* To the end, or `stop` results; then a break. */
static void go(net *n, uint64_t steps, int stop) {
  const sp_result *r;
  sp_err err;
  ck_assert_msg(!sp_engine_begin(on(n->g), steps, &err), "%s", err.msg);
  for (int k = 0; k != stop; k++) {
    ck_assert_msg(!sp_engine_next(on(n->g), &r, &err), "%s", err.msg);
    if (!r) return;
  }
  ck_assert_msg(!sp_engine_stop(on(n->g), &err), "%s", err.msg);
}

START_TEST(breaks_change_nothing) {
  for (int unfrozen = 0; unfrozen < 2; unfrozen++)
    for (int accumulate = 1; accumulate <= 3; accumulate++) {
      float want[2 * W + 1], got[2 * W + 1];
      net a = make((plan){.accumulate = accumulate, .unfrozen = unfrozen});
      go(&a, 30, -1);
      all_weights(&a, want);
      free_graph(a.g);
      for (int depth = 0; depth <= 5; depth += depth < 3 ? 1 : 2)
        for (int ahead = 0; ahead < 4; ahead += 3) {
          net b = make((plan){.depth = depth, .accumulate = accumulate, .run_ahead = ahead, .unfrozen = unfrozen});
          go(&b, 0, 0); /* a break before anything was seen */
          ck_assert_uint_eq(sp_engine_step(on(b.g)), 0);
          go(&b, 0, 1);
          ck_assert_uint_eq(sp_engine_step(on(b.g)), (uint64_t)(1 + ahead));
          go(&b, 2, -1); /* fewer steps than the depth */
          go(&b, 0, 7);
          ck_assert_uint_eq(sp_engine_step(on(b.g)), (uint64_t)(10 + 2 * ahead));
          go(&b, 30 - sp_engine_step(on(b.g)), -1);
          all_weights(&b, got);
          ck_assert_msg(!memcmp(want, got, sizeof got), "depth %d, run_ahead %d, accumulate %d: other bits", depth,
                        ahead, accumulate);
          free_graph(b.g);
        }
    }
}
END_TEST

/* Between two updates the rate of the last one is told, the same everywhere. */
START_TEST(rate_between_updates) {
  for (int depth = 0; depth < 3; depth++) {
    net n = make((plan){.depth = depth, .accumulate = 3, .run_ahead = 2});
    const sp_result *r;
    sp_err err;
    ck_assert(!sp_engine_begin(on(n.g), 30, &err));
    for (int k = 0; k < 30; k++) {
      ck_assert(!sp_engine_next(on(n.g), &r, &err) && r);
      ck_assert_int_eq(r->updated, k % 3 == 2);
      ck_assert_double_eq(r->lr, k < 5 ? 0.5 : 0.25);
      if (k == 1) ck_assert(!sp_node_set_live(n.opt, "lr", 0.25, &err));
    }
    free_graph(n.g);
  }
}
END_TEST

static char path[300];
static void make_path(void) {
  const char *tmp = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/sp_resume_%d.safetensors", tmp && strlen(tmp) < 200 ? tmp : "/tmp", (int)getpid());
}

START_TEST(resume_from_a_file) {
  float want[2 * W + 1], got[2 * W + 1];
  sp_err err;
  make_path();
  for (int accumulate = 1; accumulate <= 2; accumulate++) {
    plan p = {.depth = 2, .run_ahead = 1, .accumulate = accumulate};
    net a = make(p);
    go(&a, 10, -1);
    ck_assert_msg(!sp_engine_save(on(a.g), path, true, &err), "%s", err.msg);
    go(&a, 20, -1);
    all_weights(&a, want);
    free_graph(a.g);
    for (int seek_first = 0; seek_first < 2; seek_first++) {
      net b = make(p);
      if (seek_first) ck_assert_msg(!sp_engine_seek(on(b.g), 10, &err), "%s", err.msg);
      ck_assert_msg(!sp_engine_load(on(b.g), NULL, &(sp_load){.file = path, .prefix = ""}, &err), "%s", err.msg);
      if (!seek_first) ck_assert_msg(!sp_engine_seek(on(b.g), 10, &err), "%s", err.msg);
      sp_node *all[] = {b.enc, b.dec, sp_graph_find(b.g, "l")}; /* a strategy may still be chosen */
      sp_lane_desc d = {{.name = "one", .delay = 0}, all, 3, NULL};
      ck_assert_msg(!sp_graph_strategy(b.g, "one", &d, 1, &err), "%s", err.msg);
      ck_assert_uint_eq(sp_engine_step(on(b.g)), 10);
      go(&b, 20, -1);
      all_weights(&b, got);
      ck_assert_msg(!memcmp(want, got, sizeof got), "a resumed run has other bits");
      if (accumulate == 2) { /* half a sum of gradients is in no file */
        ck_assert(!sp_engine_seek(on(b.g), 31, &err));
        ck_assert_int_eq(sp_engine_begin(on(b.g), 1, &err), SP_E_RANGE);
        ck_assert_msg(strstr(err.msg, "31") && strstr(err.msg, "accumulate = 2"), "%s", err.msg);
      }
      free_graph(b.g);
    }
  }
  unlink(path);
}
END_TEST

static void put_file(const char *header, size_t data) {
  FILE *f = fopen(path, "wb");
  uint64_t n = strlen(header);
  ck_assert_ptr_nonnull(f);
  for (int i = 0; i < 8; i++) fputc((int)(n >> 8 * i & 255), f);
  fputs(header, f);
  for (size_t i = 0; i < data; i++) fputc(0, f);
  fclose(f);
}

START_TEST(files_that_do_not_fit) {
  sp_err err;
  net n = make((plan){0});
  make_path();
  put_file("{\"enc.w\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,20]},"
           "\"enc.extra\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[20,24]},"
           "\"else.w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}",
           28);
  ck_assert_int_eq(sp_engine_load(on(n.g), n.enc, &(sp_load){.file = path, .prefix = ""}, &err), SP_E_SHAPE);
  ck_assert_msg(strstr(err.msg, path) && strstr(err.msg, "1 missing: enc.steps") &&
                    strstr(err.msg, "1 unexpected: enc.extra") &&
                    strstr(err.msg, "1 of another shape or type: enc.w is float32[5], wanted float32[4]"),
                "%s", err.msg);
  ck_assert_int_eq(sp_engine_load(on(n.g), NULL, &(sp_load){.file = path, .prefix = ""}, &err), SP_E_SHAPE);
  ck_assert_msg(strstr(err.msg, "3 missing: enc.steps, dec.w, dec.steps") &&
                    strstr(err.msg, "2 unexpected: enc.extra, else.w") &&
                    strstr(err.msg, "1 of another shape or type: enc.w"),
                "%s", err.msg);
  put_file("{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
           "\"steps\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[16,20]}}",
           20);
  ck_assert_msg(!sp_engine_load(on(n.g), n.dec, &(sp_load){.file = path, .prefix = ""}, &err), "%s",
                err.msg); /* bare names */
  ck_assert_int_eq(sp_engine_load(on(n.g), NULL, &(sp_load){.file = path, .prefix = ""}, &err), SP_E_SHAPE);
  float w[W];
  get(n.g, n.dec, "w", w, W);
  for (int k = 0; k < W; k++) ck_assert_float_eq(w[k], 0);
  put_file("{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
           "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[16,20]}}",
           20);
  ck_assert_int_eq(sp_engine_load(on(n.g), n.dec, &(sp_load){.file = path, .prefix = ""}, &err), SP_E_SHAPE);
  ck_assert_msg(strstr(err.msg, "1 missing: steps; 1 unexpected: x"), "%s", err.msg);
  free_graph(n.g);
  unlink(path);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {breaks_change_nothing, rate_between_updates, resume_from_a_file, files_that_do_not_fit};
  return run_tests("graph_resume", tests, sizeof tests / sizeof *tests);
}
