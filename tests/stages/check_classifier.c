/* SPDX-License-Identifier: MIT
 * check_classifier.c - classifier: shapes and names of each model, gradients, what a model is against plain layers,
 * bits for any team, words of errors. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/harness.h"
#include "base/util.h"
#include "tests/kit/suite.h"

static spt *make(const char *stage, const char *params, int threads, int order, int ndim, int64_t n, int64_t c,
                 int64_t h, int64_t w) {
  int64_t shape[4] = {n, c, h, w}, count = n * c * (ndim == 4 ? h * w : 1);
  float *x = malloc((size_t)count * sizeof *x);
  spt *t = spt_new(stage, params, threads);
  ck_assert_ptr_nonnull(x);
  ck_assert_ptr_nonnull(t);
  if (!spt_failed(t)) {
    spt_random(x, count, 7, -1, 1);
    spt_input_of(t, 0, SP_F32, ndim, shape, order, x);
  }
  free(x);
  return t;
}

static spt *planned(const char *stage, const char *params, int threads, int order, int ndim, int64_t n, int64_t c,
                    int64_t h, int64_t w) {
  spt *t = make(stage, params, threads, order, ndim, n, c, h, w);
  ck_assert_msg(!spt_plan(t, 1), "%s", spt_error(t));
  return t;
}

static void has(spt *t, const char *name, int ndim, int64_t s0, int64_t s1, int64_t s2, int64_t s3) {
  int64_t want[4] = {s0, s1, s2, s3};
  int i = spt_weight_index(t, name);
  ck_assert_msg(i >= 0, "no weight '%s'", name);
  const sp_spec *s = &spt_weight(t, i)->spec;
  ck_assert_int_eq(s->ndim, ndim);
  for (int d = 0; d < ndim; d++) ck_assert_msg(s->shape[d] == want[d], "%s: dimension %d", name, d);
}

static void logits_are(spt *t, int64_t n, int64_t classes) {
  const sp_spec *y = spt_spec(t, SPT_OUT, 0, 0);
  ck_assert_int_eq(y->ndim, 2);
  ck_assert_int_eq(y->shape[0], n);
  ck_assert_int_eq(y->shape[1], classes);
}

static int weights(spt *t) { return spt_count(t, SPT_WEIGHT, 0); }

/* The reference classifier: at 256 pixels eight halvings, linear from 4096 features. */
START_TEST(plain_model) {
  spt *t = planned("classifier", "{ classes = 10 }", 2, SP_ROW_MAJOR, 4, 2, 3, 64, 64);
  logits_are(t, 2, 10);
  ck_assert_int_eq(weights(t), 16);
  has(t, "0.weight", 4, 16, 3, 1, 1);
  has(t, "0.bias", 1, 16, 0, 0, 0);
  has(t, "2.weight", 4, 32, 16, 2, 2);
  has(t, "12.weight", 4, 1024, 512, 2, 2);
  has(t, "14.weight", 2, 10, 1024, 0, 0);
  has(t, "14.bias", 1, 10, 0, 0, 0);
  spt_free(t);
  t = make("classifier", "{ classes = 10 }", 2, SP_ROW_MAJOR, 4, 1, 3, 256, 256);
  ck_assert_msg(!spt_plan(t, 0), "%s", spt_error(t));
  has(t, "16.weight", 4, 4096, 2048, 2, 2);
  has(t, "18.weight", 2, 10, 4096, 0, 0);
  ck_assert_int_eq(weights(t), 20);
  spt_free(t);
  /* a map that is not one pixel is flattened whole */
  t = planned("classifier", "{ classes = 7, width = 4, levels = 2 }", 2, SP_ROW_MAJOR, 4, 3, 1, 8, 12);
  logits_are(t, 3, 7);
  has(t, "0.weight", 4, 4, 1, 1, 1);
  has(t, "4.weight", 4, 16, 8, 2, 2);
  has(t, "6.weight", 2, 7, 16 * 2 * 3, 0, 0);
  ck_assert_int_eq(weights(t), 8);
  spt_free(t);
}
END_TEST

START_TEST(residual_model) {
  spt *t = planned("classifier", "{ classes = 5, model = \"residual\", width = 8 }", 2, SP_ROW_MAJOR, 4, 2, 3, 17, 11);
  logits_are(t, 2, 5);
  ck_assert_str_eq(spt_weight_name(t, 0), "conv1.weight");
  ck_assert_str_eq(spt_weight_name(t, 1), "bn1.weight");
  has(t, "conv1.weight", 4, 8, 3, 3, 3);
  ck_assert_int_eq(spt_weight_index(t, "conv1.bias"), -1);
  has(t, "layer1.0.conv1.weight", 4, 8, 8, 3, 3);
  ck_assert_int_eq(spt_weight_index(t, "layer1.0.downsample.0.weight"), -1);
  has(t, "layer2.0.downsample.0.weight", 4, 16, 8, 1, 1);
  has(t, "layer4.1.bn2.running_var", 1, 64, 0, 0, 0);
  ck_assert_int_eq(spt_weight_index(t, "layer4.2.conv1.weight"), -1);
  ck_assert_int_eq(spt_weight_index(t, "layer5.0.conv1.weight"), -1);
  has(t, "fc.weight", 2, 5, 64, 0, 0);
  spt_free(t);
  t = planned("classifier", "{ classes = 3, model = \"residual\", width = 4, levels = 1, blocks = 3 }", 1, SP_ROW_MAJOR,
              4, 2, 3, 8, 8);
  has(t, "layer1.2.conv2.weight", 4, 4, 4, 3, 3);
  has(t, "layer2.2.conv2.weight", 4, 8, 8, 3, 3);
  has(t, "fc.weight", 2, 3, 8, 0, 0);
  spt_free(t);
}
END_TEST

/* One name and one shape of the weights for every size of the map, none included. */
START_TEST(pool_model) {
  static const int64_t maps[][3] = {{4, 1, 1}, {4, 5, 3}, {4, 8, 8}, {2, 0, 0}};
  for (size_t i = 0; i < SP_ARRAY(maps); i++) {
    spt *t = planned("classifier", "{ classes = 6, model = \"pool\" }", 2, SP_ROW_MAJOR, (int)maps[i][0], 3, 24,
                     maps[i][1], maps[i][2]);
    logits_are(t, 3, 6);
    ck_assert_int_eq(weights(t), 2);
    has(t, "2.weight", 2, 6, 24, 0, 0);
    has(t, "2.bias", 1, 6, 0, 0, 0);
    spt_free(t);
  }
}
END_TEST

START_TEST(own_layers) {
  spt *t = planned("classifier",
                   "{ classes = 3, layers = { { \"conv\", 4, stride = 2 }, { \"relu\" }, { \"flatten\" },"
                   " { \"linear\", 3, bias = false } } }",
                   1, SP_ROW_MAJOR, 4, 2, 3, 9, 9);
  logits_are(t, 2, 3);
  has(t, "0.weight", 4, 4, 3, 3, 3);
  has(t, "3.weight", 2, 3, 64, 0, 0);
  ck_assert_int_eq(weights(t), 3);
  spt_free(t);
  t = planned("classifier", "{ classes = 3, layers = { { \"linear\", 8 }, { \"relu\" }, { \"linear\", 3 } } }", 1,
              SP_ROW_MAJOR, 2, 4, 5, 0, 0);
  logits_are(t, 4, 3);
  has(t, "2.weight", 2, 3, 8, 0, 0);
  spt_free(t);
}
END_TEST

static void fill(spt *t, uint64_t seed) {
  for (int i = 0; i < weights(t); i++) {
    int64_t n = sp_spec_count(&spt_weight(t, i)->spec);
    float *w = malloc((size_t)n * 8);
    ck_assert_ptr_nonnull(w);
    if (spt_weight(t, i)->flags & SP_WEIGHT_TRAINED) {
      spt_random(w, n, seed + (uint64_t)i, -0.3f, 0.3f);
      ck_assert_int_eq(spt_set(t, SPT_WEIGHT, 0, i, w), SP_OK);
    }
    free(w);
  }
}

static void step(spt *t) {
  float g[64];
  const sp_spec *y = spt_spec(t, SPT_OUT, 0, 0);
  ck_assert_int_le(sp_spec_count(y), 64);
  ck_assert_msg(!spt_forward(t, 0), "%s", spt_error(t));
  spt_random(g, 64, 90, -1, 1);
  ck_assert_int_eq(spt_set(t, SPT_DOUT, 0, 0, g), SP_OK);
  ck_assert_msg(!spt_backward(t), "%s", spt_error(t));
}

static void same(spt *a, spt *b, int what, int item) {
  int64_t n = sp_spec_count(spt_spec(a, what, 0, item));
  float *va = malloc((size_t)n * 8), *vb = malloc((size_t)n * 8);
  ck_assert(va && vb);
  ck_assert_int_eq(n, sp_spec_count(spt_spec(b, what, 0, item)));
  ck_assert_int_eq(spt_get(a, what, 0, item, va), SP_OK);
  ck_assert_int_eq(spt_get(b, what, 0, item, vb), SP_OK);
  ck_assert_msg(!memcmp(va, vb, (size_t)n * sizeof *va), "other bits in tensor %d of kind %d", item, what);
  free(va);
  free(vb);
}

static void all_same(spt *a, spt *b) {
  ck_assert_int_eq(weights(a), weights(b));
  same(a, b, SPT_OUT, 0);
  same(a, b, SPT_DIN, 0);
  for (int i = 0; i < weights(a); i++)
    if (spt_weight(a, i)->flags & SP_WEIGHT_TRAINED) same(a, b, SPT_DWEIGHT, i);
}

/* A model is the list of layers that it is said to be, ReLU and all. */
static const struct twin_list {
  const char *model, *layers;
} lists[] = {
    {"{ classes = 5, width = 4 }",
     "{ layers = { { \"conv\", 4, kernel = 1 }, { \"relu\" }, { \"conv\", 8, kernel = 2, stride = 2 }, { \"relu\" },"
     " { \"conv\", 16, kernel = 2, stride = 2 }, { \"relu\" }, { \"conv\", 32, kernel = 2, stride = 2 },"
     " { \"flatten\" }, { \"linear\", 5 } } }"},
    {"{ classes = 5, width = 4, levels = 1 }",
     "{ layers = { { \"conv\", 4, kernel = 1 }, { \"relu\" }, { \"conv\", 8, kernel = 2, stride = 2 },"
     " { \"flatten\" }, { \"linear\", 5 } } }"},
    {"{ classes = 5, model = \"residual\", width = 4, levels = 1, blocks = 2 }",
     "{ layers = { { \"conv\", 4, pad = 1, bias = false }, { \"batch_norm\" }, { \"relu\" }, { \"residual\", 4 },"
     " { \"residual\", 4 }, { \"residual\", 8, stride = 2 }, { \"residual\", 8 }, { \"avg_pool\", kernel = 4 },"
     " { \"flatten\" }, { \"linear\", 5 } } }"},
    {"{ classes = 5, model = \"pool\" }",
     "{ layers = { { \"avg_pool\", kernel = 8 }, { \"flatten\" }, { \"linear\", 5 } } }"},
};

START_TEST(is_its_layers) {
  spt *a = planned("classifier", lists[_i].model, 2, SP_ROW_MAJOR, 4, 3, 3, 8, 8);
  spt *b = planned("layers", lists[_i].layers, 2, SP_ROW_MAJOR, 4, 3, 3, 8, 8);
  fill(a, 5);
  fill(b, 5);
  step(a);
  step(b);
  all_same(a, b);
  spt_free(a);
  spt_free(b);
}
END_TEST

START_TEST(bits) {
  for (int threads = 1; threads <= 4; threads += 3) {
    spt *a = planned("classifier", lists[_i].model, 2, SP_CHANNELS_LAST, 4, 4, 3, 8, 8);
    spt *b = planned("classifier", lists[_i].model, threads, SP_CHANNELS_LAST, 4, 4, 3, 8, 8);
    step(a);
    step(b);
    all_same(a, b);
    spt_free(a);
    spt_free(b);
  }
}
END_TEST

START_TEST(gradients) {
  static const struct {
    const char *params;
    int64_t h, w;
    int order;
  } cases[] = {
      {"{ classes = 4, model = \"pool\" }", 5, 6, SP_ROW_MAJOR},
      {"{ classes = 4, model = \"pool\" }", 1, 1, SP_CHANNELS_LAST},
      {"{ classes = 4, width = 4, levels = 1 }", 4, 6, SP_ROW_MAJOR},
      {"{ classes = 3, layers = { { \"conv\", 4, pad = 1, bias = false }, { \"batch_norm\" }, { \"flatten\" },"
       " { \"linear\", 3 } } }",
       4, 4, SP_CHANNELS_LAST},
  };
  spt *t = planned("classifier", cases[_i].params, 2, cases[_i].order, 4, 3, 6, cases[_i].h, cases[_i].w);
  ck_assert_msg(!spt_gradcheck(t, 1e-2, 2e-2, 1e-3, 16), "%s", spt_error(t));
  spt_free(t);
}
END_TEST

START_TEST(short_batch) {
  float a[4 * 5], b[4 * 5];
  spt *t = planned("classifier", "{ classes = 5, width = 4 }", 2, SP_ROW_MAJOR, 4, 4, 3, 8, 8);
  ck_assert_int_eq(spt_forward(t, 0), SP_OK);
  ck_assert_int_eq(spt_get(t, SPT_OUT, 0, 0, a), SP_OK);
  ck_assert_int_eq(spt_run_batch(t, 2), SP_OK);
  ck_assert_int_eq(spt_forward(t, 0), SP_OK);
  ck_assert_int_eq(spt_get(t, SPT_OUT, 0, 0, b), SP_OK);
  for (int i = 0; i < 10; i++) ck_assert_float_eq_tol(a[i], b[i], 1e-6f);
  spt_free(t);
}
END_TEST

static const struct bad {
  const char *params, *words;
  int ndim;
  int64_t c, h, w;
} bads[] = {
    {NULL, "'classes'", 4, 3, 8, 8},
    {"{ classes = 0 }", "'classes': 0 is below 1", 4, 3, 8, 8},
    {"{ classes = 65537 }", "'classes': 65537 is above 65536", 4, 3, 8, 8},
    {"{ classes = 4, model = \"resnet\" }", "'model'", 4, 3, 8, 8},
    {"{ classes = 4 }", "an image of 24 x 24 cannot be halved 4 times; choose a size that is a multiple of 16", 4, 3,
     24, 24},
    {"{ classes = 4, levels = 2 }", "an image of 8 x 6 cannot be halved 2 times", 4, 3, 8, 6},
    {"{ classes = 4, model = \"residual\" }",
     "an image of 9 x 7 is too small to be halved 3 times; choose a larger one, or a smaller `levels`", 4, 3, 9, 7},
    {"{ classes = 4, model = \"residual\", levels = 20 }", "an image of 64 x 64 is too small to be halved 20 times", 4,
     3, 64, 64},
    {"{ classes = 4 }",
     "model \"plain\" needs an N x C x H x W image, got N x 12; for features choose model = \"pool\"", 2, 12, 0, 0},
    {"{ classes = 4, model = \"residual\" }", "model \"residual\" needs an N x C x H x W image, got N x 12", 2, 12, 0,
     0},
    {"{ classes = 4, model = \"pool\", layers = { { \"relu\" } } }", "give `layers` or model = \"pool\", not both", 4,
     3, 8, 8},
    {"{ classes = 4, layers = { { \"conv\", 4 } } }",
     "the last layer gives N x 4 x 6 x 6, but N x 4 is wanted (classes = 4); append { \"flatten\" }, { \"linear\", 4 }",
     4, 3, 8, 8},
    {"{ classes = 4, layers = { { \"flatten\" }, { \"linear\", 5 } } }",
     "the last layer gives N x 5, but N x 4 is wanted (classes = 4); let it be { \"linear\", 4 }", 4, 3, 8, 8},
    {"{ classes = 4, layers = { { \"linear\", 4 } } }", "layer 1 (linear): needs an N x C input", 4, 3, 8, 8},
    {"{ classes = 4, width = 4096 }", "layer 11 (conv): 65536 x 131072 channels of 2 x 2 make too many weights", 4, 3,
     256, 256},
    {"{ classes = 65536, width = 64, levels = 1 }", "features make too many weights", 4, 3, 128, 128},
    {"{ classes = 4 }", "expected N x C x H x W or N x C, got 3 dimensions", 3, 3, 8, 1},
};

START_TEST(errors) {
  const struct bad *b = &bads[_i];
  int64_t shape[4] = {2, b->c, b->h, b->w};
  spt *t = spt_new("classifier", b->params, 1);
  ck_assert_ptr_nonnull(t);
  int rc = spt_failed(t);
  if (!rc) {
    spt_input_of(t, 0, SP_F32, b->ndim, shape, SP_ROW_MAJOR, NULL);
    rc = spt_plan(t, 1);
  }
  ck_assert_int_ne(rc, SP_OK);
  ck_assert_msg(strstr(spt_error(t), b->words) != NULL, "wanted '%s' in '%s'", b->words, spt_error(t));
  ck_assert_msg(!strchr(spt_error(t), '\n'), "more than a line: '%s'", spt_error(t));
  spt_free(t);
}
END_TEST

int main(void) {
  Suite *s = suite_create("classifier");
  TCase *c = tcase_create("classifier");
  tcase_set_timeout(c, 600);
  tcase_add_test(c, plain_model);
  tcase_add_test(c, residual_model);
  tcase_add_test(c, pool_model);
  tcase_add_test(c, own_layers);
  tcase_add_loop_test(c, is_its_layers, 0, (int)SP_ARRAY(lists));
  tcase_add_loop_test(c, bits, 0, (int)SP_ARRAY(lists));
  tcase_add_loop_test(c, gradients, 0, 4);
  tcase_add_test(c, short_batch);
  tcase_add_loop_test(c, errors, 0, (int)SP_ARRAY(bads));
  suite_add_tcase(s, c);
  return suite_run(s);
}
