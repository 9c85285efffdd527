/* SPDX-License-Identifier: MIT
 * check_nn.c - encoder, decoder, layers: gradients, repeated bits, short batches, updates in place, words of errors. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <spcore/ext/precision.h>

#include "tests/kit/factor_nets.h"
#include "tests/kit/harness.h"
#include "tests/kit/suite.h"
#include "base/util.h"

static const char mixed[] =
    "{ layers = { { \"conv\", 8, kernel = 3, pad = 1, bias = false }, { \"batch_norm\" }, { \"relu\" },"
    " { \"conv\", 12, kernel = 2, stride = 2 }, { \"relu\" }, { \"max_pool\" }, { \"residual\", 12 },"
    " { \"conv_transpose\", 6 }, { \"avg_pool\" }, { \"flatten\" }, { \"linear\", 5 } } }";
static const char strides[] =
    "{ layers = { { \"conv\", 16, kernel = 1 }, { \"relu\" }, { \"conv\", 20, kernel = 2, stride = 2 }, { \"relu\" },"
    " { \"conv\", 24, kernel = 2, stride = 2 }, { \"conv_transpose\", 16 }, { \"relu\" }, { \"conv\", 3, pad = 1 } } }";

/* no kinks, so that central differences say something */
static const char *const smooth[] = {
    "{ layers = { { \"conv\", 4, kernel = 3, pad = 1 }, { \"conv\", 6, kernel = 2, stride = 2 }, { \"batch_norm\" },"
    " { \"conv_transpose\", 4 }, { \"avg_pool\" }, { \"flatten\" }, { \"linear\", 5 } } }",
    "{ layers = { { \"conv\", 5, kernel = 1 }, { \"conv\", 6, kernel = 2, stride = 2 }, { \"conv\", 7, kernel = 2,"
    " stride = 2 }, { \"conv_transpose\", 4, kernel = 3, pad = 1, out_pad = 1 } } }"};

static spt *make(const char *stage, const char *params, int threads, int order, int64_t n, int64_t c, int64_t h,
                 int64_t w) {
  int64_t shape[4] = {n, c, h, w}, count = n * c * h * w;
  float *x = malloc((size_t)count * sizeof *x);
  spt *t = spt_new(stage, params, threads);
  ck_assert_ptr_nonnull(x);
  ck_assert_ptr_nonnull(t);
  ck_assert_msg(!spt_failed(t), "%s", spt_error(t));
  spt_random(x, count, 7, -1, 1);
  spt_input_of(t, 0, SP_F32, 4, shape, order, x);
  free(x);
  return t;
}

static spt *planned(const char *stage, const char *params, int threads, int order, int64_t n, int64_t c, int64_t h,
                    int64_t w) {
  spt *t = make(stage, params, threads, order, n, c, h, w);
  ck_assert_msg(!spt_plan(t, 1), "%s", spt_error(t));
  return t;
}

static float *get(spt *t, int what, int port, int item, size_t *bytes) {
  int64_t n = sp_spec_count(spt_spec(t, what, port, item));
  float *v = malloc((size_t)n * 8);
  ck_assert_ptr_nonnull(v);
  ck_assert_int_eq(spt_get(t, what, port, item, v), SP_OK);
  *bytes = (size_t)n * sizeof *v;
  return v;
}

static void set_dout(spt *t) {
  for (int p = 0; p < spt_ports(t, SPT_OUT); p++)
    for (int i = 0; i < spt_count(t, SPT_OUT, p); i++) {
      int64_t n = sp_spec_count(spt_spec(t, SPT_DOUT, p, i));
      float *g = malloc((size_t)n * sizeof *g);
      ck_assert_ptr_nonnull(g);
      spt_random(g, n, 90 + (uint64_t)i, -1, 1);
      ck_assert_int_eq(spt_set(t, SPT_DOUT, p, i, g), SP_OK);
      free(g);
    }
}

static void step(spt *t) {
  ck_assert_msg(!spt_forward(t, 0), "%s", spt_error(t));
  set_dout(t);
  ck_assert_msg(!spt_backward(t), "%s", spt_error(t));
}

static void same(spt *a, spt *b, int what, int port, int item, const char *words) {
  size_t na, nb;
  float *va = get(a, what, port, item, &na), *vb = get(b, what, port, item, &nb);
  ck_assert_uint_eq(na, nb);
  ck_assert_msg(!memcmp(va, vb, na), "%s: other bits in tensor %d", words, item);
  free(va);
  free(vb);
}

static void all_same(spt *a, spt *b, const char *words) {
  same(a, b, SPT_OUT, 0, 0, words);
  same(a, b, SPT_DIN, 0, 0, words);
  for (int i = 0; i < spt_count(a, SPT_WEIGHT, 0); i++)
    if (spt_weight(a, i)->flags & SP_WEIGHT_TRAINED) same(a, b, SPT_DWEIGHT, 0, i, words);
}

START_TEST(gradients) {
  spt *t = planned("layers", smooth[_i], 2, _i ? SP_ROW_MAJOR : SP_CHANNELS_LAST, 3, 3, 8, 12);
  ck_assert_msg(!spt_gradcheck(t, 1e-2, 2e-2, 1e-3, 12), "%s", spt_error(t));
  spt_free(t);
}
END_TEST

/* Gradients that come in through the list of maps, and accumulation. */
START_TEST(maps_gradients) {
  spt *t = planned("encoder",
                   "{ layers = { { \"conv\", 4, kernel = 1 }, { \"conv\", 6, kernel = 2, stride = 2 },"
                   " { \"batch_norm\" }, { \"avg_pool\" }, { \"conv\", 3, kernel = 1 } } }",
                   2, SP_ROW_MAJOR, 2, 3, 8, 8);
  ck_assert_int_eq(spt_count(t, SPT_OUT, 1), 2);
  ck_assert_msg(!spt_gradcheck(t, 1e-2, 2e-2, 1e-3, 8), "%s", spt_error(t));
  spt_free(t);
}
END_TEST

/* Pieces of work and sums are fixed, so even the size of the team does not show. */
START_TEST(bits) {
  const char *params = _i ? mixed : strides;
  spt *a = planned("layers", params, 1, SP_ROW_MAJOR, 5, 3, 16, 16);
  spt *b = planned("layers", params, 4, SP_ROW_MAJOR, 5, 3, 16, 16);
  step(a);
  for (int i = 0; i < 3; i++) {
    spt *c = planned("layers", params, 2, SP_ROW_MAJOR, 5, 3, 16, 16);
    step(c);
    all_same(a, c, "again");
    spt_free(c);
  }
  step(b);
  all_same(a, b, "team of 4");
  spt_free(a);
  spt_free(b);
}
END_TEST

static const struct {
  const char *stage, *params;
  int64_t c, side;
  int parts; /* at most */
} cuts[] = {{"layers", mixed, 3, 16, 9},
            {"layers", strides, 3, 16, 5},
            {"encoder", "{ model = \"unet\", width = 8, levels = 2 }", 3, 16, 12},
            {"decoder", "{ classes = 5, width = 8, levels = 2 }", 32, 8, 3},
            {"classifier", "{ classes = 5, model = \"plain\", width = 4 }", 3, 16, 6}};

static spt *cut(int i, int max_parts, uint64_t bytes) {
  spt *t = make(cuts[i].stage, cuts[i].params, 2, SP_ROW_MAJOR, 3, cuts[i].c, cuts[i].side, cuts[i].side);
  spt_set_parts(t, max_parts, bytes);
  ck_assert_msg(!spt_plan(t, 1), "%s", spt_error(t));
  return t;
}

/* However many the parts are: the bits of one call, for a step, added to another, and in place. */
START_TEST(parts) {
  for (int n = 2; n <= cuts[_i].parts; n++) {
    spt *a = cut(_i, 1, 0), *b = cut(_i, n < cuts[_i].parts ? n : 1000, 0);
    ck_assert_int_eq(spt_parts(a), 1);
    ck_assert_int_ge(spt_parts(b), 2);
    if (n == cuts[_i].parts) ck_assert_int_eq(spt_parts(b), n);
    else ck_assert_int_le(spt_parts(b), n);
    step(a), step(b);
    all_same(a, b, "in parts");
    spt_set_acc(a, 1, 1), spt_set_acc(b, 1, 1);
    step(a), step(b);
    all_same(a, b, "in parts, added");
    spt_set_dw_scale(a, -0.1f), spt_set_dw_scale(b, -0.1f);
    step(a), step(b);
    for (int i = 0; i < spt_count(a, SPT_WEIGHT, 0); i++) same(a, b, SPT_WEIGHT, 0, i, "in parts, in place");
    spt_free(a);
    spt_free(b);
  }
}
END_TEST

static uint64_t bytes_of_part(const spt *t, uint32_t part) {
  uint64_t bytes = 0;
  for (int i = 0; i < spt_count(t, SPT_WEIGHT, 0); i++)
    if (spt_weight(t, i)->flags & SP_WEIGHT_TRAINED && spt_weight(t, i)->part == part)
      bytes += (uint64_t)sp_spec_bytes(&spt_weight(t, i)->spec);
  return bytes;
}

/* The largest part is as small as may be, but not below what was asked for. */
START_TEST(sizes_of_parts) {
  static const struct {
    int max_parts;
    uint64_t bytes;
    int n;
    uint64_t sizes[5];
  } cases[] = {{1000, 0, 5, {1740, 6208, 7776, 5200, 256}},
               {1000, 8000, 3, {7948, 7776, 5456}},
               {2, 8000, 2, {7948, 13232}},
               {2, 0, 2, {7948, 13232}},
               {3, 0, 3, {7948, 7776, 5456}},
               {1000, 100000, 1, {21180}}};
  for (size_t k = 0; k < SP_ARRAY(cases); k++) {
    spt *t = cut(1, cases[k].max_parts, cases[k].bytes);
    ck_assert_int_eq(spt_parts(t), cases[k].n);
    for (int p = 0; p < cases[k].n; p++) ck_assert_uint_eq(bytes_of_part(t, (uint32_t)p), cases[k].sizes[p]);
    spt_free(t);
  }
}
END_TEST

START_TEST(factors) { factor_net(_i, "cpu", 2, SP_PRECISION_FP32); }
END_TEST

START_TEST(short_batch) {
  spt *a = planned("layers", strides, 2, SP_ROW_MAJOR, 5, 3, 8, 8);
  spt *b = planned("layers", strides, 2, SP_ROW_MAJOR, 2, 3, 8, 8);
  size_t na, nb;
  float *va, *vb;
  ck_assert_int_eq(spt_run_batch(a, 2), SP_OK);
  ck_assert_msg(!spt_forward(a, 0), "%s", spt_error(a));
  ck_assert_msg(!spt_forward(b, 0), "%s", spt_error(b));
  va = get(a, SPT_OUT, 0, 0, &na);
  vb = get(b, SPT_OUT, 0, 0, &nb);
  ck_assert_uint_gt(na, nb);
  for (size_t i = 0; i < nb / sizeof *vb; i++) ck_assert_float_eq_tol(va[i], vb[i], 1e-5);
  free(va);
  free(vb);
  spt_free(a);
  spt_free(b);
}
END_TEST

START_TEST(in_place) {
  const float lr = 0.01f;
  spt *a = planned("layers", _i ? mixed : strides, 2, SP_ROW_MAJOR, 3, 3, 8, 8);
  spt *b = planned("layers", _i ? mixed : strides, 2, SP_ROW_MAJOR, 3, 3, 8, 8);
  int moved = 0;
  step(a);
  spt_set_dw_scale(b, -lr);
  step(b);
  same(a, b, SPT_DIN, 0, 0, "input gradient");
  for (int i = 0; i < spt_count(a, SPT_WEIGHT, 0); i++) {
    size_t n;
    float *w, *g, *u;
    if (!(spt_weight(a, i)->flags & SP_WEIGHT_TRAINED)) continue;
    w = get(a, SPT_WEIGHT, 0, i, &n);
    g = get(a, SPT_DWEIGHT, 0, i, &n);
    u = get(b, SPT_WEIGHT, 0, i, &n);
    for (size_t j = 0; j < n / sizeof *w; j++) {
      ck_assert_msg(fabsf(w[j] - lr * g[j] - u[j]) <= 1e-6f * (1 + fabsf(w[j])), "%s[%zu]: %g, expected %g",
                    spt_weight_name(a, i), j, u[j], w[j] - lr * g[j]);
      moved += u[j] != w[j];
    }
    free(w);
    free(g);
    free(u);
  }
  ck_assert_int_gt(moved, 100);
  spt_free(a);
  spt_free(b);
}
END_TEST

START_TEST(names) {
  static const char *const want[] = {"0.weight",       "1.weight",      "1.bias",
                                     "1.running_mean", "1.running_var", "1.num_batches_tracked",
                                     "2.conv1.weight", "2.bn1.weight"};
  spt *t = planned("layers", "{ layers = { { \"conv\", 4, bias = false }, { \"batch_norm\" }, { \"residual\", 8 } } }",
                   1, SP_ROW_MAJOR, 2, 3, 8, 8);
  int at[] = {0, 1, 2, 3, 4, 5, 6, 7};
  for (size_t i = 0; i < SP_ARRAY(want); i++) ck_assert_str_eq(spt_weight_name(t, at[i]), want[i]);
  ck_assert_int_ge(spt_weight_index(t, "2.downsample.0.weight"), 0);
  ck_assert_int_ge(spt_weight_index(t, "2.downsample.1.num_batches_tracked"), 0);
  ck_assert_int_eq((int)spt_weight(t, 5)->spec.ndim, 0);
  ck_assert_uint_eq(spt_weight(t, 5)->flags, SP_WEIGHT_STATE);
  spt_free(t);
  t = planned("encoder", NULL, 1, SP_ROW_MAJOR, 1, 3, 16, 16);
  ck_assert_int_ge(spt_weight_index(t, "8.bias"), 0);
  ck_assert_int_eq(spt_weight_index(t, "7.bias"), -1);
  ck_assert_int_eq(spt_count(t, SPT_OUT, 1), 4);
  spt_free(t);
}
END_TEST

static const struct bad {
  const char *stage, *params, *words;
  int64_t c, h, w;
} bads[] = {
    {"layers", "{ layers = { { \"relu\" }, { \"conv\", 4, kernel = 9 } } }",
     "layer 2 (conv): kernel 9 is larger than the map, 8 high", 3, 8, 16},
    {"layers", "{ layers = { { \"conv\" } } }", "layer 1 (conv): `out` is missing", 3, 8, 8},
    {"layers", "{ layers = { { \"linear\", 4 } } }", "layer 1 (linear): needs an N x C input, got N x 3 x 8 x 8", 3, 8,
     8},
    {"layers", "{ layers = { { \"flatten\" }, { \"conv\", 4 } } }", "layer 2 (conv): needs an N x C x H x W input", 3,
     8, 8},
    {"layers", "{ layers = { { \"batch_norm\", 5 } } }", "layer 1 (batch_norm): made for 5 channels, the input has 3",
     3, 8, 8},
    {"layers", "{ layers = { { \"max_pool\", kernel = 2, pad = 2 } } }", "layer 1 (max_pool): pad 2 is more than half",
     3, 8, 8},
    {"layers", "{ layers = { { \"conv_transpose\", 4, out_pad = 2 } } }",
     "layer 1 (conv_transpose): out_pad 2 must be below", 3, 8, 8},
    {"layers", "{ layers = { { \"conv\", 1048576, kernel = 1000, pad = 496 } } }", "too many weights", 3, 8, 8},
    {"layers", "{ layers = { { \"relu\" }, { \"conv_transpose\", 4, kernel = 1, stride = 1024 } } }",
     "layer 2 (conv_transpose): the result of 4 x 80897 x 80897 is too large", 3, 80, 80},
    {"encoder", NULL, "an image of 24 x 24 cannot be halved 4 times", 3, 24, 24},
    {"encoder", "{ model = \"unet\", layers = { { \"relu\" } } }", "not both", 3, 8, 8},
    {"decoder", "{ classes = 4 }", "24 channels cannot be halved down to 16", 24, 2, 2},
    {"decoder", "{ classes = 4, model = \"unet\" }", "needs skips", 32, 2, 2},
    {"decoder", "{ classes = 4, layers = { { \"conv\", 5 } } }", "the last layer gives 5 channels, but classes = 4", 8,
     8, 8},
    {"decoder", "{ classes = 4, layers = { { \"conv\", 4, from = \"skips.1\" } } }",
     "layer 1 (conv): `from` names \"skips.1\", but 0 skips come in", 8, 8, 8},
    {"decoder", "{ classes = 4, layers = { { \"conv\", 4, name = \"skips.3\" } } }",
     "layer 1 'skips.3' (conv): \"skips.3\" is the name of what comes in", 8, 8, 8},
    {"layers", "{ layers = { { \"conv\", 4, from = \"skips.1\" } } }", "no layer is called so", 8, 8, 8},
};

START_TEST(errors) {
  const struct bad *b = &bads[_i];
  spt *t = make(b->stage, b->params, 1, SP_ROW_MAJOR, 2, b->c, b->h, b->w);
  ck_assert_int_ne(spt_plan(t, 1), SP_OK);
  ck_assert_msg(strstr(spt_error(t), b->words) != NULL, "wanted '%s' in '%s'", b->words, spt_error(t));
  spt_free(t);
}
END_TEST

START_TEST(bad_skips) {
  int64_t shape[4] = {2, 4, 8, 8};
  spt *t = make("decoder", "{ classes = 3, width = 8 }", 1, SP_ROW_MAJOR, 2, 16, 2, 2);
  spt_input_of(t, 1, SP_F32, 4, shape, SP_ROW_MAJOR, NULL);
  ck_assert_int_ne(spt_plan(t, 1), SP_OK);
  ck_assert_msg(strstr(spt_error(t), "skips[1] (counted from 1): N x 4 x 8 x 8 cannot be joined to N x 8 x 4 x 4") !=
                    NULL,
                "%s", spt_error(t));
  spt_free(t);
}
END_TEST

/* Of two skips a list may read one; the other gets no gradient, which is zeros. */
START_TEST(skips_of_layers) {
  static const char *const lists[] = {
      "{ classes = 3, layers = { { \"upsample\", like = \"skips.2\", name = \"up\" }, { \"concat\", from = { \"up\", "
      "\"skips.2\" } }, { \"conv\", 3 } } }",
      "{ classes = 3, layers = { { \"conv\", 3, from = \"skips.3\" } } }"};
  const char *words = "layer 1 (conv): `from` names \"skips.3\", but 2 skips come in";
  int64_t shape[4] = {2, 4, 8, 8};
  spt *t = make("decoder", lists[_i], 1, SP_ROW_MAJOR, 2, 16, 2, 2);
  for (int i = 0; i < 2; i++) spt_input_of(t, 1, SP_F32, 4, shape, i ? SP_CHANNELS_LAST : SP_ROW_MAJOR, NULL);
  if (_i) {
    ck_assert_int_ne(spt_plan(t, 1), SP_OK);
    ck_assert_msg(strstr(spt_error(t), words) != NULL, "%s", spt_error(t));
  } else {
    ck_assert_msg(!spt_plan(t, 1) && !spt_gradcheck(t, 1e-2, 2e-2, 1e-3, 8), "%s", spt_error(t));
  }
  spt_free(t);
}
END_TEST

int main(void) {
  Suite *s = suite_create("nn");
  TCase *c = tcase_create("nn");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, gradients, 0, 2);
  tcase_add_test(c, maps_gradients);
  tcase_add_loop_test(c, bits, 0, 2);
  tcase_add_loop_test(c, parts, 0, (int)SP_ARRAY(cuts));
  tcase_add_test(c, sizes_of_parts);
  tcase_add_loop_test(c, factors, 0, factor_n_nets);
  tcase_add_test(c, short_batch);
  tcase_add_loop_test(c, in_place, 0, 2);
  tcase_add_test(c, names);
  tcase_add_loop_test(c, errors, 0, (int)SP_ARRAY(bads));
  tcase_add_test(c, bad_skips);
  tcase_add_loop_test(c, skips_of_layers, 0, 2);
  suite_add_tcase(s, c);
  return suite_run(s);
}
