/* SPDX-License-Identifier: MIT
 * factor_nets.c - networks whose gradients are made of factors, compared with the plain backward on the same device. */
#include "factor_nets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include <spcore/ext/precision.h>

#include "base/util.h"
#include "harness.h"

#define SHARDS 3
#define SCALE (-0.5f)

/* FLAT: the input is N x C. LAST: it is channels-last, so that a product reads it where it lies. NO_DOUT: nothing comes
 * to output 0. */
enum { FLAT = 1, LAST = 2, NO_DOUT = 4 };

static const struct net {
  const char *name, *stage, *params;
  int64_t c, side;
  int flags;
  int64_t skip; /* channels of a map twice as large, 0: none */
  int factors;  /* on the cpu, for a batch of 3 */
} nets[] = {
    /* x of the first lies on the input, the others come from forward(); dy arrives through ReLU and from dout */
    {"linear", "layers",
     "{ layers = { { \"linear\", 96 }, { \"relu\" }, { \"linear\", 80 }, { \"relu\" }, { \"linear\", 64 } } }", 96, 1,
     FLAT, 0, 6},
    {"ReLU at the end", "layers", "{ layers = { { \"linear\", 96, bias = false }, { \"relu\" } } }", 96, 1, FLAT, 0, 2},
    {"x on the input", "layers", "{ layers = { { \"conv\", 128, kernel = 1 } } }", 128, 2, LAST, 0, 2},
    {"x turned round", "layers", "{ layers = { { \"conv\", 128, kernel = 1 }, { \"flatten\" }, { \"linear\", 48 } } }",
     128, 2, 0, 0, 4},
    {"patches", "layers",
     "{ layers = { { \"conv\", 96, kernel = 2, stride = 2 }, { \"relu\" }, { \"conv\", 128, kernel = 2, stride = 2 },"
     " { \"conv_transpose\", 96 }, { \"relu\" }, { \"conv_transpose\", 48 } } }",
     64, 4, 0, 0, 8},
    {"odd maps", "layers",
     "{ layers = { { \"conv\", 96, kernel = 2, stride = 2 }, { \"relu\" }, { \"conv\", 96, kernel = 1 } } }", 32, 3,
     LAST, 0, 2},
    /* its projection and a convolution read the same x */
    {"residual", "layers",
     "{ layers = { { \"conv\", 80, kernel = 1 }, { \"residual\", 88 }, { \"conv\", 88, kernel = 1 } } }", 112, 2, LAST,
     0, 6},
    {"concat", "decoder", "{ model = \"unet\", classes = 3, width = 64, levels = 1, convs = 1 }", 128, 1, 0, 64, 2},
    /* x is an output as well */
    {"maps", "encoder",
     "{ layers = { { \"conv\", 96, kernel = 1 }, { \"relu\" }, { \"conv\", 128, kernel = 2, stride = 2 }, { \"relu\" },"
     " { \"conv\", 96, kernel = 1 } } }",
     96, 2, 0, 0, 6},
    {"maps, nothing comes to features", "encoder",
     "{ layers = { { \"conv\", 96, kernel = 1 }, { \"relu\" }, { \"conv\", 128, kernel = 2, stride = 2 }, { \"relu\" },"
     " { \"conv\", 96, kernel = 1 } } }",
     96, 2, NO_DOUT, 0, 6},
    {"encoder", "encoder", "{ width = 16 }", 3, 16, 0, 0, 4},
    {"decoder", "decoder", "{ classes = 5, width = 16, levels = 3 }", 128, 1, 0, 0, 4},
    {"classifier", "classifier", "{ classes = 40, width = 24, levels = 2 }", 3, 4, 0, 0, 4},
};

const int factor_n_nets = (int)SP_ARRAY(nets);

typedef struct trial {
  const struct net *net;
  spt *whole, *cut;
  int64_t batch;
  double tolerance, *sum[64]; /* of the plain gradients, by weight */
} trial;

static void ok(const trial *t, const spt *of, int rc) { ck_assert_msg(!rc, "%s: %s", t->net->name, spt_error(of)); }

static spt *open_net(const struct net *net, const char *device, int threads, int precision, int64_t batch, int shards,
                     int parts) {
  int64_t x[4] = {batch, net->c, net->side, net->side}, skip[4] = {batch, net->skip, 2 * net->side, 2 * net->side};
  spt *t = spt_new_on(device, net->stage, net->params, threads);
  ck_assert_msg(t && !spt_failed(t), "%s: %s", net->name, spt_error(t));
  int order = net->flags & LAST ? SP_CHANNELS_LAST : SP_ROW_MAJOR;
  spt_set_precision(t, precision);
  spt_set_parts(t, parts, 0);
  spt_set_shards(t, shards);
  spt_input_of(t, 0, SP_F32, net->flags & FLAT ? 2 : 4, x, order, NULL);
  if (net->skip) spt_input_of(t, 1, SP_F32, 4, skip, SP_CHANNELS_LAST, NULL);
  ck_assert_msg(!spt_plan(t, 1), "%s: %s", net->name, spt_error(t));
  if (net->flags & NO_DOUT) spt_want(t, SPT_DOUT, 0, 0, 0);
  return t;
}

static float *values(spt *t, int what, int port, int item) {
  float *v = calloc((size_t)sp_spec_count(spt_spec(t, what, port, item)), 8);
  ck_assert_ptr_nonnull(v);
  ck_assert_int_eq(spt_get(t, what, port, item, v), SP_OK);
  return v;
}

static void draw(spt *t, int what, uint64_t seed) {
  for (int p = 0; p < spt_ports(t, what); p++)
    for (int i = 0; i < spt_count(t, what, p); i++) {
      float *v = values(t, what, p, i);
      spt_random(v, sp_spec_count(spt_spec(t, what, p, i)), seed + 16 * (uint64_t)p + (uint64_t)i, -1, 1);
      ck_assert_int_eq(spt_set(t, what, p, i, v), SP_OK);
      free(v);
    }
}

/* got is from + times * add, by the largest of the sums. */
static void compare(const trial *t, const float *got, const float *from, const double *add, double times, int64_t n,
                    const char *what) {
  double most = 0;
  for (int64_t k = 0; k < n; k++) most = fmax(most, fabs(times * add[k]));
  for (int64_t k = 0; k < n; k++) {
    double want = (from ? from[k] : 0) + times * add[k], room = t->tolerance * most + (from ? 1e-6 : 0);
    ck_assert_msg(fabs(got[k] - want) <= room, "%s, %s: element %lld is %g, not %g +- %g", t->net->name, what,
                  (long long)k, (double)got[k], want, room);
  }
}

static void compare_tensors(const trial *t, int what, int port, int item, int64_t n, const char *words) {
  float *a = values(t->whole, what, port, item), *b = values(t->cut, what, port, item);
  double *want = calloc((size_t)n + 1, sizeof *want);
  ck_assert_ptr_nonnull(want);
  for (int64_t k = 0; k < n; k++) want[k] = a[k];
  compare(t, b, NULL, want, 1, n, words);
  free(want);
  free(a);
  free(b);
}

static bool by_apply(const trial *t, int i) { return spt_weight(t->cut, i)->flags & SP_WEIGHT_FACTORS; }

static void add_up(trial *t) {
  for (int i = 0; i < spt_count(t->whole, SPT_WEIGHT, 0); i++) {
    int64_t n = sp_spec_count(spt_spec(t->whole, SPT_WEIGHT, 0, i));
    if (!(spt_weight(t->whole, i)->flags & SP_WEIGHT_TRAINED)) continue;
    if (!by_apply(t, i)) {
      compare_tensors(t, SPT_DWEIGHT, 0, i, n, spt_weight_name(t->cut, i));
      continue;
    }
    float *g = values(t->whole, SPT_DWEIGHT, 0, i);
    for (int64_t k = 0; k < n; k++) t->sum[i][k] += g[k];
    free(g);
  }
}

static void run(const trial *t, spt *of, int64_t n, int shard) {
  spt_set_shard(of, shard);
  draw(of, SPT_IN, 100 + 1000 * (uint64_t)shard);
  ok(t, of, spt_run_batch(of, n));
  ok(t, of, spt_forward(of, 0));
  draw(of, SPT_DOUT, 500 + 1000 * (uint64_t)shard);
  ok(t, of, spt_backward(of));
}

static void pass(trial *t, int64_t n, int shard) {
  run(t, t->cut, n, shard);
  if (!n) return;
  run(t, t->whole, n, shard);
  for (int p = 0; p < spt_ports(t->cut, SPT_DIN); p++)
    for (int i = 0; i < spt_count(t->cut, SPT_DIN, p); i++)
      compare_tensors(t, SPT_DIN, p, i, sp_spec_count(spt_spec(t->cut, SPT_DIN, p, i)) / t->batch * n, "an input");
  add_up(t);
}

static void spoil(spt *t, int what) {
  for (int i = 0; i < spt_count(t, what, 0); i++)
    memset(spt_raw(t, what, 0, i), 0xFF, (size_t)sp_spec_bytes(spt_spec(t, what, 0, i)));
}

/* What apply() makes: gradients over NaN, then weights in place. Returns a hash of it. */
static uint64_t apply(const trial *t) {
  uint64_t h = SP_FNV64;
  spoil(t->cut, SPT_DWEIGHT);
  ok(t, t->cut, spt_apply(t->cut, SCALE, 0));
  for (int in_place = 0; in_place < 2; in_place++) {
    float *before[64] = {NULL};
    int what = in_place ? SPT_WEIGHT : SPT_DWEIGHT, n_w = spt_count(t->cut, SPT_WEIGHT, 0);
    for (int i = 0; in_place && i < n_w; i++) before[i] = values(t->cut, SPT_WEIGHT, 0, i);
    if (in_place) ok(t, t->cut, spt_apply(t->cut, SCALE, 1));
    for (int i = 0; i < n_w; i++) {
      int64_t n = sp_spec_count(spt_spec(t->cut, what, 0, i));
      float *v = values(t->cut, what, 0, i);
      if (by_apply(t, i)) compare(t, v, before[i], t->sum[i], SCALE, n, spt_weight_name(t->cut, i));
      if (by_apply(t, i)) h = sp_fnv64(h, v, (size_t)n * sizeof *v);
      free(v);
      free(before[i]);
    }
  }
  return h;
}

static uint64_t step(const struct net *net, const char *device, int threads, int precision, int64_t batch, int parts) {
  const int64_t n[SHARDS] = {batch, batch > 1 ? batch / 2 : 1, 0};
  trial t = {.net = net, .batch = batch, .tolerance = precision == SP_PRECISION_FP32 ? 1e-4 : 2e-2};
  t.whole = open_net(net, device, threads, precision, batch, 1, 1);
  t.cut = open_net(net, device, threads, precision, batch, SHARDS, parts);
  int n_w = spt_count(t.cut, SPT_WEIGHT, 0), factors = spt_count(t.cut, SPT_ROWS, 0);
  ck_assert_int_le(n_w, (int)SP_ARRAY(t.sum));
  if (!strcmp(device, "cpu") && batch == 3)
    ck_assert_msg(factors == net->factors, "%s: %d factors", net->name, factors);
  ck_assert_msg(factors > 0, "%s: no factors", net->name);
  if (parts > 1 && net->factors > 2) ck_assert_int_gt(spt_parts(t.cut), 1);
  for (int i = 0; i < n_w; i++) {
    t.sum[i] = calloc((size_t)sp_spec_count(spt_spec(t.cut, SPT_WEIGHT, 0, i)), sizeof *t.sum[i]);
    ck_assert_ptr_nonnull(t.sum[i]);
  }
  spoil(t.cut, SPT_ROWS);
  for (int shard = 0; shard < SHARDS; shard++) pass(&t, n[shard], shard);
  uint64_t h = apply(&t);
  for (int i = 0; i < n_w; i++) free(t.sum[i]);
  spt_free(t.whole);
  spt_free(t.cut);
  return h;
}

/* once: one batch and one cut, where memory is all that matters. Other builds compare the bits of parts. */
void factor_net(int i, const char *device, int threads, int precision) {
#if defined(__SANITIZE_ADDRESS__)
  bool once = true;
#else
  bool once = getenv("SP_TEST_SMALL") && precision != SP_PRECISION_FP32;
#endif
  for (int64_t batch = once ? 3 : 1; batch <= 3; batch += 2) {
    uint64_t cut = step(&nets[i], device, threads, precision, batch, 64);
    ck_assert_msg(once || cut == step(&nets[i], device, threads, precision, batch, 1), "%s: other bits in parts",
                  nets[i].name);
  }
}
