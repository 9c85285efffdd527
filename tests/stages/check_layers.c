/* SPDX-License-Identifier: MIT
 * check_layers.c - each op of tests/kit/nn_ops.list, and `layers` as a graph: names, what reads what, taps; gradients,
 * equal bits, words of errors. check_nn.c has what all networks share. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/harness.h"
#include "tests/kit/nn_ops.h"
#include "tests/kit/suite.h"
#include "base/util.h"

struct net {
  const char *params;
  int64_t n, c, h, w;
};

static const struct net graphs[] = {
    {"{ layers = { { \"conv\", 4, kernel = 1, name = \"a\" }, { \"conv\", 4, name = \"b\", pad = 1, from = \"input\" },"
     " { \"conv\", 4, kernel = 1, name = \"c\", from = \"a\", tap = true }, { \"add\", from = { \"a\", \"b\", \"c\" } "
     "},"
     " { \"concat\", from = { \"3\", \"a\", \"3\" }, tap = true }, { \"conv\", 3, kernel = 2, stride = 2 } } }",
     2, 3, 4, 6},
    {"{ layers = { { \"linear\", 5, name = \"a\", tap = true }, { \"linear\", 5, name = \"b\", from = { \"input\" } },"
     " { \"add\", from = { \"a\", \"b\", \"a\" } }, { \"concat\", from = { \"a\", \"2\" } } } }",
     3, 4, 0, 0},
    {"{ layers = { { \"conv\", 6, pad = 1 }, { \"silu\", name = \"x\" }, { \"mean\" }, { \"conv\", 3, kernel = 1 },"
     " { \"sigmoid\" }, { \"conv\", 6, kernel = 1 }, { \"hard_sigmoid\", name = \"s\" }, { \"mul\", from = { \"s\", "
     "\"x\" } },"
     " { \"hard_swish\" }, { \"mul\", from = { \"8\", \"x\" } }, { \"mul\", from = { \"9\", \"9\" } } } }",
     3, 3, 6, 5},
    {"{ layers = { { \"linear\", 70 }, { \"silu\", name = \"a\" }, { \"linear\", 70, from = \"input\" },"
     " { \"mul\", from = { \"a\", \"2\" }, tap = true }, { \"hard_swish\" } } }",
     3, 4, 0, 0},
};

/* The input is between -most and most. */
static spt *make_of(const struct net *net, float most, int order, int threads) {
  int64_t shape[4] = {net->n, net->c, net->h, net->w};
  spt *t = spt_new("layers", net->params, threads);
  ck_assert_ptr_nonnull(t);
  ck_assert_msg(!spt_failed(t), "%s", spt_error(t));
  int ndim = net->h ? 4 : 2;
  int64_t count = net->n * net->c * (net->h ? net->h * net->w : 1);
  float *x = malloc((size_t)count * sizeof *x);
  ck_assert_ptr_nonnull(x);
  spt_random(x, count, 7, -most, most);
  spt_input_of(t, 0, SP_F32, ndim, shape, ndim == 4 ? order : SP_ROW_MAJOR, x);
  free(x);
  return t;
}

static spt *make(const struct net *net, int order, int threads) { return make_of(net, 1, order, threads); }

/* Rows of nn_ops.list, then the graphs. */
static int cases(void) { return nn_ops_n + (int)SP_ARRAY(graphs); }

static spt *make_case(int i, int order, int threads) {
  const nn_ops_row *row = &nn_ops_rows[i];
  if (i >= nn_ops_n) return make(&graphs[i - nn_ops_n], order, threads);
  return make_of(&(struct net){row->layers, row->shape[0], row->shape[1], row->shape[2], row->shape[3]},
                 (float)row->most, order, threads);
}

static const char *case_name(int i) { return i < nn_ops_n ? nn_ops_rows[i].layers : graphs[i - nn_ops_n].params; }

static void gradients(int i) {
  int is_row = i < nn_ops_n, kinks = is_row && nn_ops_rows[i].flags & NN_OPS_KINKS;
  for (int order = 0; order < (is_row && !nn_ops_rows[i].shape[2] ? 1 : 2); order++) {
    spt *t = make_case(i, order ? SP_CHANNELS_LAST : SP_ROW_MAJOR, 2);
    ck_assert_msg(!spt_plan(t, 1), "%s", spt_error(t));
    ck_assert_msg(!spt_gradcheck(t, kinks ? 1e-3 : 1e-2, 2e-2, 1e-3, 12), "%s: %s", case_name(i), spt_error(t));
    spt_free(t);
  }
}

static void run(spt *t) {
  ck_assert_msg(!spt_forward(t, 0), "%s", spt_error(t));
  for (int p = 0; p < spt_ports(t, SPT_OUT); p++)
    for (int i = 0; i < spt_count(t, SPT_OUT, p); i++) {
      int64_t n = sp_spec_count(spt_spec(t, SPT_DOUT, p, i));
      float *g = malloc((size_t)n * sizeof *g);
      ck_assert_ptr_nonnull(g);
      spt_random(g, n, 90 + (uint64_t)i, -1, 1);
      ck_assert_int_eq(spt_set(t, SPT_DOUT, p, i, g), SP_OK);
      free(g);
    }
  ck_assert_msg(!spt_backward(t), "%s", spt_error(t));
}

static void same(spt *a, spt *b, const char *name, int what, int port, int item) {
  size_t bytes = (size_t)sp_spec_bytes(spt_spec(a, what, port, item));
  char *x = malloc(bytes), *y = malloc(bytes);
  ck_assert(x && y);
  ck_assert_int_eq(spt_get(a, what, port, item, x), SP_OK);
  ck_assert_int_eq(spt_get(b, what, port, item, y), SP_OK);
  ck_assert_msg(!memcmp(x, y, bytes), "%s: other bits in tensor %d of port %d", name, item, port);
  free(x), free(y);
}

static void all_same(spt *a, spt *b, const char *name) {
  for (int p = 0; p < spt_ports(a, SPT_OUT); p++)
    for (int i = 0; i < spt_count(a, SPT_OUT, p); i++) same(a, b, name, SPT_OUT, p, i);
  same(a, b, name, SPT_DIN, 0, 0);
  for (int i = 0; i < spt_count(a, SPT_WEIGHT, 0); i++)
    if (spt_weight(a, i)->flags & SP_WEIGHT_TRAINED) same(a, b, name, SPT_DWEIGHT, 0, i);
}

/* The same bits from one thread as from four, and from a backward in parts. */
static void bits(int i) {
  spt *a = make_case(i, SP_ROW_MAJOR, 1), *b = make_case(i, SP_ROW_MAJOR, 4);
  ck_assert_msg(!spt_plan(a, 1), "%s", spt_error(a));
  spt_set_parts(b, 1000, 0);
  ck_assert_msg(!spt_plan(b, 1), "%s", spt_error(b));
  run(a), run(b);
  all_same(a, b, case_name(i));
  spt_free(a), spt_free(b);
}

/* Every eighth case: a process for each would load the stages as often. */
enum { EIGHTH = 8 };

START_TEST(eighth) {
  for (int i = _i; i < cases(); i += EIGHTH) gradients(i), bits(i);
}
END_TEST

/* A row is about the op that it stands for. */
START_TEST(rows) {
  for (int i = 0; i < nn_ops_n; i++) {
    char first[40];
    snprintf(first, sizeof first, "{ \"%s\"", nn_ops_word(i));
    ck_assert_msg(strstr(nn_ops_rows[i].layers, first) != NULL, "%s is not in %s", first, nn_ops_rows[i].layers);
  }
}
END_TEST

START_TEST(names) {
  static const char *const want[] = {"stem.conv1.weight", "1.weight", "1.bias", "head-2_a.weight", "head-2_a.bias"};
  static const struct net net = {
      "{ layers = { { \"conv\", 4, bias = false, name = \"stem.conv1\" }, { \"conv\", 4 }, { \"relu\", name = \"r\" },"
      " { \"conv\", 2, name = \"head-2_a\" } } }",
      1, 3, 8, 8};
  spt *t = make(&net, SP_ROW_MAJOR, 1);
  ck_assert_msg(!spt_plan(t, 1), "%s", spt_error(t));
  ck_assert_int_eq(spt_count(t, SPT_WEIGHT, 0), (int)SP_ARRAY(want));
  for (size_t i = 0; i < SP_ARRAY(want); i++) ck_assert_str_eq(spt_weight_name(t, (int)i), want[i]);
  spt_free(t);
}
END_TEST

/* Taps come in the order of the list, of any shape; without any there are none,
 * but an encoder then gives the halved. */
START_TEST(taps) {
  static const struct net net = {
      "{ layers = { { \"conv\", 4, kernel = 2, stride = 2, tap = true }, { \"relu\", tap = true },"
      " { \"conv\", 6, kernel = 2, stride = 2, name = \"x\" }, { \"flatten\", tap = true }, { \"flatten\", tap = true "
      "},"
      " { \"linear\", 3, tap = true } } }",
      2, 3, 8, 8};
  static const int64_t shapes[][4] = {{2, 4, 4, 4}, {2, 4, 4, 4}, {2, 24}, {2, 24}, {2, 3}};
  spt *t = make(&net, SP_ROW_MAJOR, 1);
  ck_assert_msg(!spt_plan(t, 1), "%s", spt_error(t));
  ck_assert_int_eq(spt_count(t, SPT_OUT, 1), (int)SP_ARRAY(shapes));
  for (int i = 0; i < (int)SP_ARRAY(shapes); i++)
    ck_assert_mem_eq(spt_spec(t, SPT_OUT, 1, i)->shape, shapes[i], i < 2 ? 32 : 16);
  run(t);
  same(t, t, "taps", SPT_OUT, 1, 4);
  spt_free(t);
  t = spt_new(
      "encoder",
      "{ layers = { { \"conv\", 4, kernel = 1 }, { \"conv\", 4, kernel = 2, stride = 2, name = \"a\" },"
      " { \"conv\", 4, kernel = 2, stride = 2, from = \"0\" }, { \"add\", from = { \"a\", \"2\" }, tap = true } } }",
      1);
  spt_input_of(t, 0, SP_F32, 4, (int64_t[]){2, 3, 8, 8}, SP_ROW_MAJOR, NULL);
  ck_assert_msg(!spt_plan(t, 1), "%s", spt_error(t));
  ck_assert_int_eq(spt_count(t, SPT_OUT, 1), 1);
  ck_assert_int_eq((int)spt_spec(t, SPT_OUT, 1, 0)->shape[2], 4);
  spt_free(t);
}
END_TEST

static float *out(spt *t) {
  float *v = malloc((size_t)sp_spec_bytes(spt_spec(t, SPT_OUT, 0, 0)));
  ck_assert_ptr_nonnull(v);
  ck_assert_msg(!spt_forward(t, 0), "%s", spt_error(t));
  ck_assert_int_eq(spt_get(t, SPT_OUT, 0, 0, v), SP_OK);
  return v;
}

/* A share of the elements, or whole maps, drawn anew for each layer and sample, whatever the order in memory and the
 * team; but nothing where it is not trained. */
START_TEST(drops) {
  enum { MAP = 30 * 20, ALL = 4 * 8 * MAP };
  static const char *const params[] = {"{ layers = { { \"dropout\", p = 0.25, name = \"a\" } } }",
                                       "{ layers = { { \"dropout\", p = 0.25, name = \"b\" } } }",
                                       "{ layers = { { \"dropout\", p = 0.25, maps = true } } }",
                                       "{ layers = { { \"dropout\", p = 0.25, name = \"a\" } } }"};
  float *v[6];
  for (int k = 0; k < 6; k++) {
    spt *t = make(&(struct net){params[k % 4], 4, 8, 30, 20}, k == 3 ? SP_CHANNELS_LAST : SP_ROW_MAJOR, k == 3 ? 1 : 4);
    spt_set_frozen(t, k == 4);
    ck_assert_msg(!spt_plan(t, k != 5), "%s", spt_error(t));
    v[k] = out(t);
    spt_free(t);
  }
  int dropped = 0;
  for (int i = 0; i < ALL; i++) {
    ck_assert(v[0][i] == 0 || v[0][i] == v[4][i] * (1 / 0.75f));
    ck_assert(v[2][i] == 0 || v[2][i] == v[4][i] * (1 / 0.75f));
    ck_assert((v[2][i] == 0) == (v[2][i / MAP * MAP] == 0));
    dropped += v[0][i] == 0;
  }
  ck_assert_double_eq_tol((double)dropped / ALL, 0.25, 0.02);
  ck_assert(memcmp(v[0], v[1], ALL * sizeof **v) != 0);
  ck_assert(!memcmp(v[0], v[3], ALL * sizeof **v) && !memcmp(v[4], v[5], ALL * sizeof **v));
  int same_as_next = 1;
  for (int i = 0; i < ALL / 4; i++) same_as_next &= (v[0][i] == 0) == (v[0][i + ALL / 4] == 0);
  ck_assert(!same_as_next);
  for (int k = 0; k < 6; k++) free(v[k]);
}
END_TEST

/* A sample's groups are its own: it has the same bits in a batch and alone. */
START_TEST(alone) {
  enum { EACH = 6 * 20 * 15 };
  static const char params[] = "{ layers = { { \"group_norm\", 2 } } }";
  float *v[2];
  for (int k = 0; k < 2; k++) {
    spt *t = make(&(struct net){params, k ? 1 : 5, 6, 20, 15}, SP_CHANNELS_LAST, 2);
    ck_assert_msg(!spt_plan(t, 0), "%s", spt_error(t));
    v[k] = out(t);
    spt_free(t);
  }
  ck_assert(!memcmp(v[0], v[1], EACH * sizeof **v));
  free(v[0]), free(v[1]);
}
END_TEST

/* Batch norm, a sum, ReLU and other activations within convolutions, some of them by other sums of products; all of a
 * frozen network. */
START_TEST(frozen_as_open) {
  static const struct net all[] = {
      {"{ layers = { { \"conv\", 32, pad = 1, bias = false }, { \"batch_norm\" }, { \"relu\" }, { \"conv\", 64, pad = "
       "1 },"
       " { \"residual\", 64 }, { \"conv\", 32, pad = 2, tap = true }, { \"conv\", 7 } } }",
       5, 32, 13, 18},
      {"{ layers = { { \"conv\", 36, pad = 1, stride = 2, bias = false }, { \"batch_norm\" }, { \"hard_swish\" },"
       " { \"conv\", 36, pad = 2, kernel = 5, groups = 36, bias = false }, { \"batch_norm\" }, { \"silu\", tap = true "
       "},"
       " { \"conv\", 32, kernel = 1 }, { \"silu\" }, { \"conv\", 64, pad = 1 }, { \"hard_swish\" },"
       " { \"conv\", 11, kernel = 1, bias = false }, { \"silu\" } } }",
       5, 6, 26, 31}};
  const struct net net = all[_i];
  spt *frozen[] = {make(&net, SP_CHANNELS_LAST, 1), make(&net, SP_ROW_MAJOR, 3)}, *open = make(&net, SP_ROW_MAJOR, 2);
  ck_assert_msg(!spt_plan(open, 0) && !spt_forward(open, 0), "%s", spt_error(open));
  for (int i = 0; i < 2; i++) {
    spt_set_frozen(frozen[i], 1);
    ck_assert_msg(!spt_plan(frozen[i], 0) && !spt_forward(frozen[i], 0), "%s", spt_error(frozen[i]));
  }
  for (int p = 0; p < 2; p++) {
    int64_t n = sp_spec_count(spt_spec(open, SPT_OUT, p, 0));
    float *a = malloc((size_t)n * sizeof *a), *b = malloc((size_t)n * sizeof *b), most = 0;
    ck_assert(a && b);
    ck_assert_int_eq(spt_get(open, SPT_OUT, p, 0, a), SP_OK);
    ck_assert_int_eq(spt_get(frozen[0], SPT_OUT, p, 0, b), SP_OK);
    same(frozen[0], frozen[1], net.params, SPT_OUT, p, 0);
    for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(a[i]));
    for (int64_t i = 0; i < n; i++)
      ck_assert_msg(fabsf(a[i] - b[i]) <= 1e-5f * most, "port %d: number %d is %g, open %g", p, (int)i, (double)b[i],
                    (double)a[i]);
    free(a), free(b);
  }
  spt_free(frozen[0]), spt_free(frozen[1]), spt_free(open);
}
END_TEST

/* What is no number stays so within a convolution that applies what is behind it. */
START_TEST(frozen_nan) {
  static const struct net net = {"{ layers = { { \"conv\", 9, kernel = 1 }, { \"hard_swish\", tap = true },"
                                 " { \"conv\", 9, kernel = 1, from = \"input\" }, { \"relu\", tap = true },"
                                 " { \"conv\", 9, kernel = 1, from = \"input\" }, { \"silu\" } } }",
                                 1, 2, 3, 4};
  enum { PIXELS = 12, CHANNELS = 9, BROKEN = 7 };
  spt *t = make(&net, SP_CHANNELS_LAST, 1);
  float x[2 * PIXELS], y[PIXELS * CHANNELS];
  spt_set_frozen(t, 1);
  ck_assert_msg(!spt_plan(t, 0), "%s", spt_error(t));
  for (int i = 0; i < 2 * PIXELS; i++) x[i] = i % PIXELS == BROKEN ? NAN : 0.5f;
  ck_assert_int_eq(spt_set(t, SPT_IN, 0, 0, x), SP_OK);
  ck_assert_msg(!spt_forward(t, 0), "%s", spt_error(t));
  for (int p = 0; p < 2; p++)
    for (int k = 0; k < spt_count(t, SPT_OUT, p); k++) {
      ck_assert_int_eq(spt_get(t, SPT_OUT, p, k, y), SP_OK);
      for (int i = 0; i < PIXELS * CHANNELS; i++)
        ck_assert_msg(isnan(y[i]) == (i % PIXELS == BROKEN), "port %d, item %d: number %d is %g", p, k, i,
                      (double)y[i]);
    }
  spt_free(t);
}
END_TEST

/* What a frozen network gives for an image hangs on no other image of the batch, nor on its place there: a cache holds
 * what came of another one. 3 images, and more than are few rows of a product. */
START_TEST(neighbours) {
  static const int counts[] = {3, 8, 35};
  static const char params[] =
      "{ layers = { { \"conv\", 24, kernel = 1 }, { \"batch_norm\" }, { \"relu\", tap = true },"
      " { \"conv\", 40, kernel = 2, stride = 2, tap = true }, { \"conv\", 16, kernel = 1 },"
      " { \"conv_transpose\", 8, tap = true }, { \"conv\", 8, pad = 1, groups = 8 }, { \"silu\" },"
      " { \"conv\", 12, kernel = 1 }, { \"hard_swish\" }, { \"mean\" },"
      " { \"conv\", 30, kernel = 1 }, { \"flatten\" }, { \"linear\", 10 } } }";
  int n = counts[_i];
  struct net net = {params, n, 9, 10, 14};
  spt *t = make(&net, SP_CHANNELS_LAST, 2);
  float x[9 * 10 * 14];
  const int64_t each = sizeof x / sizeof *x;
  spt_set_frozen(t, 1);
  ck_assert_msg(!spt_plan(t, 0), "%s", spt_error(t));
  float *all = malloc((size_t)n * sizeof x);
  ck_assert_ptr_nonnull(all);
  for (int64_t i = 0; i < each; i++) x[i] = sinf((float)(i * i));
  for (int i = 0; i < n; i++) memcpy(all + i * each, x, sizeof x);
  ck_assert_int_eq(spt_set(t, SPT_IN, 0, 0, all), SP_OK);
  free(all);
  ck_assert_msg(!spt_forward(t, 0), "%s", spt_error(t));
  for (int p = 0; p < 2; p++)
    for (int k = 0; k < spt_count(t, SPT_OUT, p); k++) {
      int64_t size = sp_spec_count(spt_spec(t, SPT_OUT, p, k)) / n;
      float *y = malloc((size_t)(n * size) * sizeof *y);
      ck_assert_ptr_nonnull(y);
      ck_assert_int_eq(spt_get(t, SPT_OUT, p, k, y), SP_OK);
      for (int i = 1; i < n; i++)
        ck_assert_msg(!memcmp(y, y + i * size, (size_t)size * sizeof *y), "port %d, item %d: image %d of %d", p, k, i,
                      n);
      free(y);
    }
  spt_free(t);
}
END_TEST

/* Sigmoid, SiLU and GELU over all that a float holds, to its last digits; of an infinite number as PyTorch has it. */
START_TEST(smooth) {
  enum { ALL = 4000 };
  float x[ALL], y[3][ALL];
  for (int i = 0; i < ALL; i++) x[i] = ldexpf((float)(i % 1000) / 1000 - 0.5f, i / 1000 * 3);
  x[0] = NAN, x[1] = INFINITY, x[2] = -INFINITY, x[3] = 1e38f, x[4] = -1e38f, x[5] = 200, x[6] = -200;
  spt *t = spt_new("layers",
                   "{ layers = { { \"sigmoid\", tap = true }, { \"gelu\", tap = true, from = \"input\" }, { \"silu\", "
                   "from = \"input\" } } }",
                   2);
  ck_assert_msg(!spt_failed(t), "%s", spt_error(t));
  spt_input_of(t, 0, SP_F32, 2, (int64_t[]){4, ALL / 4}, SP_ROW_MAJOR, x);
  ck_assert_msg(!spt_plan(t, 0) && !spt_forward(t, 0), "%s", spt_error(t));
  ck_assert_int_eq(spt_get(t, SPT_OUT, 1, 0, y[0]), SP_OK);
  ck_assert_int_eq(spt_get(t, SPT_OUT, 0, 0, y[1]), SP_OK);
  ck_assert_int_eq(spt_get(t, SPT_OUT, 1, 1, y[2]), SP_OK);
  ck_assert(isnan(y[0][0]) && isnan(y[1][0]) && isnan(y[1][2]) && isnan(y[2][0]) && isnan(y[2][2]));
  for (int i = 1; i < ALL; i++) {
    double s = 1 / (1 + exp(-(double)x[i])), v = x[i] * s, g = x[i] * erfc(-x[i] / sqrt(2)) / 2;
    ck_assert_msg(fabs(y[0][i] - s) <= 3e-7 * s + 1e-37, "sigmoid(%g) is %g", (double)x[i], (double)y[0][i]);
    ck_assert_msg(i < 3 || fabs(y[1][i] - v) <= 4e-7 * fabs(v) + 1e-36, "silu(%g) is %g", (double)x[i],
                  (double)y[1][i]);
    /* x * x is rounded in front of exp: 6e-8 of 87 at most */
    ck_assert_msg(i < 3 ||
                      fabs(y[2][i] - g) <= (4e-7 + 6e-8 * (x[i] < 0 ? fmin(x[i] * x[i] / 2, 87) : 0)) * fabs(g) + 2e-37,
                  "gelu(%g) is %g", (double)x[i], (double)y[2][i]);
  }
  spt_free(t);
}
END_TEST

static const struct bad {
  const char *layers, *words;
} bads[] = {
    {"{ \"relu\", name = \"a b\" }", "layer 1 'a b' (relu): a name is of letters, digits, '.', '_' and '-'"},
    {"{ \"relu\", name = \"input\" }", "layer 1 'input' (relu): \"input\" is the name of what comes in"},
    {"{ \"relu\", name = \"a23456789012345678901234567890123456789012345678901234567890123456\" }",
     "the name has 66 characters, at most 64 are possible"},
    {"{ \"relu\", name = \"a\" }, { \"relu\", name = \"a\" }",
     "layer 2 'a' (relu): layer 1 is called \"a\" already; choose another name"},
    {"{ \"relu\", name = \"1\" }, { \"relu\" }", "layer 2 (relu): layer 1 is called \"1\" already"},
    {"{ \"residual\", 3, name = \"a\" }, { \"conv\", 3, name = \"a.conv1\" }",
     "layer 2 'a.conv1' (conv): \"a.conv1\" and \"a\" of layer 1 would share names of weights"},
    {"{ \"relu\" }, { \"relu\", from = \"x\" }",
     "layer 2 (relu): `from` names \"x\", but no layer is called so; give one name = \"x\""},
    {"{ \"relu\", from = \"b\" }, { \"relu\", name = \"b\" }",
     "layer 1 (relu): `from` names \"b\", which is layer 2; a layer knows only what is before it"},
    {"{ \"relu\", from = \"0\" }", "layer 1 (relu): `from` names \"0\", which is layer 1"},
    {"{ \"relu\" }, { \"add\" }", "layer 2 (add): it reads 1 value; name two or more with from ="},
    {"{ \"relu\" }, { \"relu\", from = { \"0\", \"input\" } }", "layer 2 (relu): it reads one value, `from` names 2"},
    {"{ \"conv\", 4, pad = 1 }, { \"add\", from = { \"0\", \"input\" } }",
     "layer 2 (add): N x 3 x 8 x 8 cannot be added to N x 4 x 8 x 8"},
    {"{ \"conv\", 4 }, { \"concat\", from = { \"0\", \"input\" } }",
     "layer 2 (concat): N x 3 x 8 x 8 cannot be joined to N x 4 x 6 x 6"},
    {"{ \"flatten\" }, { \"concat\", from = { \"0\", \"input\" } }",
     "layer 2 (concat): N x 3 x 8 x 8 cannot be joined to N x 192"},
    {"{ \"conv\", 4 }, { \"mul\", from = { \"0\", \"input\" } }",
     "layer 2 (mul): N x 3 x 8 x 8 cannot be multiplied with N x 4 x 6 x 6"},
    {"{ \"relu\" }, { \"mul\", from = { \"0\", \"input\", \"0\" } }",
     "layer 2 (mul): it reads 3 values; name two with from = { \"A\", \"B\" }"},
    {"{ \"flatten\" }, { \"mean\" }", "layer 2 (mean): needs an N x C x H x W input, got N x 192"},
    {"{ \"upsample\" }", "layer 1 (upsample): give either `scale`, `size` or `like`"},
    {"{ \"upsample\", scale = 2, size = 3 }", "layer 1 (upsample): give either `scale`, `size` or `like`"},
    {"{ \"upsample\", size = 3, like = \"input\" }", "layer 1 (upsample): give either `size` or `like`"},
    {"{ \"upsample\", like = \"a\" }", "layer 1 (upsample): `like` names \"a\", but no layer is called so"},
    {"{ \"upsample\", scale = 2, align_corners = true }", "align_corners is for mode = \"bilinear\""},
    {"{ \"upsample\", size = 1000000 }", "layer 1 (upsample): the result of 3 x 1000000 x 1000000 is too large"},
    {"{ \"flatten\" }, { \"upsample\", scale = 2 }", "layer 2 (upsample): needs an N x C x H x W input"},
    {"{ \"add\", from = { \"input\", \"input\" }, like = \"input\" }",
     "layer 1 (add): `like` is a parameter of upsample"},
    {"{ \"relu\", p = 0.1 }", "layer 1 (relu): `p` is a parameter of dropout; take it out"},
    {"{ \"max_pool\", 3, stride = 2 }",
     "layer 1 (max_pool): `out` is a parameter of conv, conv_transpose, batch_norm, linear, residual and group_norm"},
    {"{ \"relu\", kernel = 3 }",
     "layer 1 (relu): `kernel` is a parameter of conv, conv_transpose, max_pool and avg_pool; take it out"},
    {"{ \"silu\", stride = 2 }",
     "layer 1 (silu): `stride` is a parameter of conv, conv_transpose, max_pool, avg_pool and residual"},
    {"{ \"mean\", pad = 1 }", "layer 1 (mean): `pad` is a parameter of conv, "},
    {"{ \"conv\", 4, out_pad = 1 }", "layer 1 (conv): `out_pad` is a parameter of conv_transpose; take it out"},
    {"{ \"batch_norm\", bias = false }",
     "layer 1 (batch_norm): `bias` is a parameter of conv, conv_transpose and linear"},
    {"{ \"conv\", 4, eps = 1e-3 }", "layer 1 (conv): `eps` is a parameter of batch_norm, residual and group_norm"},
    {"{ \"group_norm\", 3, momentum = 0.2 }",
     "layer 1 (group_norm): `momentum` is a parameter of batch_norm and residual"},
    {"{ \"conv\", 6, groups = 2 }", "layer 1 (conv): 2 groups do not divide its 3 input channels"},
    {"{ \"conv\", 4, groups = 3 }", "layer 1 (conv): 3 groups do not divide its 4 output channels"},
    {"{ \"group_norm\", 2 }", "layer 1 (group_norm): 2 groups do not divide its 3 input channels"},
    {"{ \"group_norm\" }", "layer 1 (group_norm): `out` is missing; write { \"group_norm\", GROUPS }"},
    {"{ \"group_norm\", groups = 3 }", "layer 1 (group_norm): `groups` is a parameter of conv and conv_transpose"},
    {"{ \"conv\", 4, pad = 1, dilation = { 1, 5 } }",
     "layer 1 (conv): kernel 3 of dilation 5 is larger than the map, 8 wide with pad 1"},
    {"{ \"relu\" }, { \"batch_norm\", dilation = 2 }",
     "layer 2 (batch_norm): `dilation` is a parameter of conv and conv_transpose; take it out"},
    {"{ \"residual\", 4, groups = 2 }", "layer 1 (residual): `groups` is a parameter of conv and conv_transpose"},
    {"{ \"conv\", 4, name = \"lost\" }, { \"relu\", from = \"input\" }",
     "layer 1 'lost' (conv): nothing reads it; name it in a later layer's `from`, or take it out"},
};

START_TEST(errors) {
  char params[512];
  snprintf(params, sizeof params, "{ layers = { %s } }", bads[_i].layers);
  spt *t = make(&(struct net){params, 2, 3, 8, 8}, SP_ROW_MAJOR, 1);
  ck_assert_int_ne(spt_plan(t, 1), SP_OK);
  ck_assert_msg(strstr(spt_error(t), bads[_i].words) != NULL, "wanted '%s' in '%s'", bads[_i].words, spt_error(t));
  spt_free(t);
}
END_TEST

START_TEST(no_maps) {
  spt *t = spt_new("classifier", "{ classes = 3, layers = { { \"flatten\", tap = true }, { \"linear\", 3 } } }", 1);
  spt_input_of(t, 0, SP_F32, 4, (int64_t[]){2, 3, 8, 8}, SP_ROW_MAJOR, NULL);
  ck_assert_int_ne(spt_plan(t, 1), SP_OK);
  ck_assert_msg(strstr(spt_error(t), "layer 1 (flatten): this stage gives no maps; take `tap` out"), "%s",
                spt_error(t));
  spt_free(t);
}
END_TEST

int main(void) {
  Suite *s = suite_create("layers");
  TCase *c = tcase_create("layers");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, eighth, 0, EIGHTH);
  tcase_add_test(c, rows);
  tcase_add_test(c, names);
  tcase_add_test(c, taps);
  tcase_add_test(c, drops);
  tcase_add_test(c, alone);
  tcase_add_loop_test(c, frozen_as_open, 0, 2);
  tcase_add_test(c, frozen_nan);
  tcase_add_loop_test(c, neighbours, 0, 3);
  tcase_add_test(c, smooth);
  tcase_add_loop_test(c, errors, 0, (int)SP_ARRAY(bads));
  tcase_add_test(c, no_maps);
  suite_add_tcase(s, c);
  return suite_run(s);
}
