/* SPDX-License-Identifier: MIT
 * check_networks.c - encoder, decoder, layers, classifier and gemm on the GPU against those of the cpu, and calls of
 * one instance for two batches in turn. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "tests/kit/factor_nets.h"
#include "tests/kit/nn_ops.h"
#include "tests/kit/twin.h"
#include "tests/kit/twin_nets.h"

START_TEST(networks) { twin_net(_i / 3, _i % 3); }
END_TEST

START_TEST(ops) { twin_net(twin_n_nets + _i / 3, _i % 3); }
END_TEST

/* ---- one instance, whose calls for two batches come in turn ---- */
static const char *const interleaved[] = {
    "{ layers = { { \"conv\", 16, kernel = 1 }, { \"relu\" }, { \"conv\", 20, kernel = 2, stride = 2 }, { \"relu\" },"
    " { \"conv_transpose\", 16 }, { \"relu\" }, { \"conv\", 3, pad = 1 } } }",
    "{ layers = { { \"conv\", 8, kernel = 3, pad = 1, bias = false }, { \"batch_norm\" }, { \"relu\" },"
    " { \"max_pool\" }, { \"residual\", 12 }, { \"flatten\" }, { \"linear\", 5 } } }",
    "{ layers = { { \"conv\", 16, kernel = 1 }, { \"relu\" }, { \"conv\", 32, kernel = 2, stride = 2 }, { \"relu\" },"
    " { \"conv\", 8, kernel = 2, stride = 2 } } }"};

static spt *batch_of(const char *params, int precision, int max_parts, uint64_t seed) {
  int64_t shape[4] = {2, 3, 16, 16};
  float x[2 * 3 * 16 * 16];
  spt *t = spt_new_on(twin_device, "layers", params, twin_threads);
  spt_random(x, SP_ARRAY(x), seed, -1, 1);
  twin_ok(t, spt_failed(t));
  spt_set_precision(t, precision);
  spt_set_parts(t, max_parts, 0);
  twin_ok(t, spt_input_of(t, 0, SP_F32, 4, shape, SP_CHANNELS_LAST, x));
  twin_ok(t, spt_plan(t, 1));
  return t;
}

static void backward_of(spt *t, uint64_t seed) {
  int64_t n = sp_spec_count(spt_spec(t, SPT_DOUT, 0, 0));
  float *g = malloc((size_t)n * sizeof *g);
  ck_assert_ptr_nonnull(g);
  spt_random(g, n, seed, -1, 1);
  twin_ok(t, spt_set(t, SPT_DOUT, 0, 0, g));
  twin_ok(t, spt_backward(t));
  free(g);
}

static uint64_t bits_of(spt *t) {
  static const int kinds[] = {SPT_OUT, SPT_DIN, SPT_DWEIGHT};
  uint64_t h = SP_FNV64;
  for (size_t k = 0; k < SP_ARRAY(kinds); k++)
    for (int i = 0; i < spt_count(t, kinds[k], 0); i++) {
      int64_t n = sp_spec_count(spt_spec(t, kinds[k], 0, i));
      float *v = calloc((size_t)n, 8);
      ck_assert_ptr_nonnull(v);
      twin_ok(t, spt_get(t, kinds[k], 0, i, v));
      h = sp_fnv64(h, v, (size_t)n * sizeof *v);
      free(v);
    }
  return h;
}

/* $SP_TEST_PRECISION names another one. */
static bool not_wanted(int precision) {
  const char *only = getenv("SP_TEST_PRECISION");
  return only && strcmp(only, twin_precisions[precision]) != 0;
}

START_TEST(calls_in_turn) {
  const char *params = interleaved[_i / 3];
  if (not_wanted(_i % 3)) return;
  spt *a = batch_of(params, _i % 3, 1, 3), *b = batch_of(params, _i % 3, 1, 4);
  uint64_t alone[2];
  twin_ok(a, spt_forward(a, 0));
  backward_of(a, 5);
  twin_ok(b, spt_forward(b, 0));
  backward_of(b, 6);
  alone[0] = bits_of(a);
  alone[1] = bits_of(b);
  ck_assert(alone[0] != alone[1]);
  ck_assert(spt_type(a)->flags & SP_STAGE_REENTRANT);
  spt_share(b, a);
  for (int round = 0; round < 2; round++) {
    twin_ok(a, spt_forward(a, 0));
    twin_ok(b, spt_forward(b, 0));
    backward_of(a, 5);
    backward_of(b, 6);
    ck_assert(bits_of(a) == alone[0]);
    ck_assert(bits_of(b) == alone[1]);
  }
  spt_free(b);
  spt_free(a);
}
END_TEST

/* ---- what a concatenation reads itself: a port's float32, a map that is to be enlarged ---- */
START_TEST(joined_unstored) {
  static const struct {
    const char *params;
    int channels; /* of 16 x 16, that are kept for the backward */
    size_t more;  /* bytes */
  } nets[] = {{"{ layers = { { \"conv\", 4, kernel = 1 }, { \"concat\", from = { \"0\", \"input\" } } } }", 4 + 7, 0},
              {"{ layers = { { \"conv\", 4, kernel = 1 }, { \"avg_pool\" }, { \"upsample\", scale = 2 },"
               " { \"concat\", from = { \"2\", \"0\" } } } }",
               4 + 1 + 8, 0},
              {"{ layers = { { \"conv\", 4, kernel = 1 }, { \"mean\" }, { \"upsample\", like = \"0\" },"
               " { \"concat\", from = { \"2\", \"0\" } } } }", /* but not of one pixel */
               4 + 4 + 8, 256}};
  spt *t = batch_of(nets[_i].params, SP_PRECISION_BF16, 1, 3);
  ck_assert_uint_eq(spt_bytes(t, 1), (size_t)nets[_i].channels * 2 * 16 * 16 * 2 + nets[_i].more);
  spt_free(t);
}
END_TEST

/* ---- gemm ---- */
START_TEST(products) {
  static const int64_t sizes[][3] = {{1, 1, 1}, {5, 7, 3}, {64, 32, 96}, {130, 70, 33}};
  static const twin_limits limits[] = {{1e-5, 0, 0, 0}, {2e-2, 0, 0, 0}};
  const int64_t *s = sizes[_i / 2];
  bool tf32 = _i % 2;
  twin w;
  twin_open(&w, "gemm", tf32 ? "tf32" : "fp32", "{ times = 2 }", tf32 ? SP_PRECISION_TF32 : SP_PRECISION_FP32,
            limits[tf32]);
  twin_floats(&w, 0, 2, (int64_t[]){s[0], s[2]}, SP_ROW_MAJOR, -1, 1);
  twin_floats(&w, 1, 2, (int64_t[]){s[2], s[1]}, SP_ROW_MAJOR, -1, 1);
  twin_plan(&w, 0);
  twin_forward(&w, 0);
  twin_compare(&w, SPT_OUT);
  twin_repeat(&w, false);
  twin_close(&w);
}
END_TEST

/* ---- a backward in parts, after one of another step ---- */
START_TEST(parts) {
  const char *params = interleaved[_i / 3];
  if (not_wanted(_i % 3)) return;
  spt *a = batch_of(params, _i % 3, 1, 3), *b = batch_of(params, _i % 3, 64, 3);
  ck_assert_int_gt(spt_parts(b), 2);
  for (int acc = 0; acc < 2; acc++) {
    spt *const both[] = {a, b};
    for (int i = 0; i < 2; i++) {
      spt_set_acc(both[i], acc, acc);
      twin_ok(both[i], spt_forward(both[i], 0));
      backward_of(both[i], 5 + (uint64_t)acc);
    }
    ck_assert(bits_of(a) == bits_of(b));
  }
  spt_free(b);
  spt_free(a);
}
END_TEST

/* ---- gradients that are made of factors ---- */
START_TEST(factors) {
  bool one_each = !getenv("SP_TEST_PRECISION") && getenv("SP_TEST_SMALL"); /* each network in one of them */
  if (not_wanted(_i % 3) || (one_each && _i % 3 != _i / 3 % 3)) return;
  factor_net(_i / 3, twin_device, twin_threads, _i % 3);
}
END_TEST

int main(void) {
  Suite *s = suite_create("cuda networks");
  TCase *n = tcase_create("networks"), *o = tcase_create("ops"), *t = tcase_create("turns"),
        *p = tcase_create("products");
  tcase_add_loop_test(n, networks, 0, 3 * twin_n_nets);
  tcase_add_loop_test(o, ops, 0, 3 * nn_ops_n);
  tcase_add_loop_test(t, calls_in_turn, 0, 3 * (int)SP_ARRAY(interleaved));
  tcase_add_loop_test(t, joined_unstored, 0, 3);
  tcase_add_loop_test(t, parts, 0, 3 * (int)SP_ARRAY(interleaved));
  tcase_add_loop_test(t, factors, 0, 3 * factor_n_nets);
  suite_add_tcase(s, n);
  suite_add_tcase(s, o);
  tcase_add_loop_test(p, products, 0, 8);
  suite_add_tcase(s, t);
  suite_add_tcase(s, p);
  return twin_run(s);
}
