/* SPDX-License-Identifier: MIT
 * check_normalize.c - the stage normalize. */
#include "tests/kit/aug_kit.h"
#include "tests/kit/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

/* The same bits as plain loops; mean and std repeat when there are fewer than c. */
static void exact(int64_t n, int64_t c, int64_t h, int64_t w, const float *mean, int means, const float *std, int stds,
                  bool scale, int dtype, int order) {
  char params[256];
  int at = snprintf(params, sizeof params, "{ mean = { ");
  for (int i = 0; i < means; i++) at += snprintf(params + at, sizeof params - (size_t)at, "%.9g, ", (double)mean[i]);
  at += snprintf(params + at, sizeof params - (size_t)at, "}, std = { ");
  for (int i = 0; i < stds; i++) at += snprintf(params + at, sizeof params - (size_t)at, "%.9g, ", (double)std[i]);
  snprintf(params + at, sizeof params - (size_t)at, "}%s }", scale ? ", scale = true" : "");
  aug_kit k;
  kit_open(&k, "normalize", params, n, c, h, w, dtype, order, false);
  kit_plan(&k, 1);
  kit_forward(&k);
  const sp_spec *s = spt_spec(k.t, SPT_OUT, KIT_IMAGES, 0);
  ck_assert(s->dtype == SP_F32 && s->order == order);
  void *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0);
  float *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
  for (int64_t e = 0; e < n * c * h * w; e++) {
    int64_t channel = e / (h * w) % c;
    volatile float v = (float)kit_at(x, dtype, e);
    if (scale) v = v * (1.0f / 255.0f);
    v = v - mean[means > 1 ? channel : 0];
    v = v / std[stds > 1 ? channel : 0];
    kit_each(y[e] == v, "%s, %lld x %lld x %lld: element %lld is %.9g, not %.9g", params, (long long)c, (long long)h,
             (long long)w, (long long)e, (double)y[e], (double)v);
  }
  free(x);
  free(y);
  kit_close(&k);
}

START_TEST(formula) {
  static const int64_t sizes[][3] = {{1, 33, 29}, {3, 33, 29}, {4, 1, 1}, {3, 2, 300}, {7, 20, 50}, {3, 200, 190}};
  static const float mean[] = {0.485f, 0.456f, 0.406f, -3, 1e-20f, 100, 7},
                     std[] = {0.229f, 0.224f, 3, 7, 1e20f, 1, 11};
  int dtype = dtypes[_i % 2], order = orders[_i / 2];
  for (size_t i = 0; i < SP_ARRAY(sizes); i++) {
    int64_t c = sizes[i][0], h = sizes[i][1], w = sizes[i][2];
    for (int scale = 0; scale < (dtype == SP_U8 ? 2 : 1); scale++) {
      exact(2, c, h, w, mean, 1, std, 1, scale, dtype, order);
      exact(3, c, h, w, mean, (int)c, std, 1, scale, dtype, order);
      exact(1, c, h, w, mean, 1, std, (int)c, scale, dtype, order);
      exact(5, c, h, w, mean, (int)c, std, (int)c, scale, dtype, order);
    }
  }
}
END_TEST

/* Without parameters bytes become the same floats, and floats stay as they are. */
START_TEST(plain) {
  for (int o = 0; o < 2; o++) {
    aug_kit k;
    kit_open(&k, "normalize", "{}", 3, 3, 5, 7, SP_F32, orders[o], false);
    kit_plan(&k, 0);
    kit_forward(&k);
    ck_assert_mem_eq(spt_raw(k.t, SPT_IN, 0, 0), spt_raw(k.t, SPT_OUT, 0, 0), (size_t)3 * 3 * 5 * 7 * sizeof(float));
    kit_close(&k);
  }
}
END_TEST

/* A list: orders and types may differ, and so may channels where one number is for all. */
START_TEST(list) {
  aug_kit k;
  int64_t grey[4] = {3, 1, 5, 7};
  kit_open(&k, "normalize", "{ mean = 4, std = 2 }", 3, 3, 5, 7, SP_F32, SP_CHANNELS_LAST, false);
  kit_ok(&k, spt_input_of(k.t, KIT_IMAGES, SP_U8, 4, grey, SP_ROW_MAJOR, NULL));
  kit_plan(&k, 1);
  kit_forward(&k);
  float *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
  float *z = kit_get(&k, SPT_OUT, KIT_IMAGES, 1);
  ck_assert_int_eq(spt_spec(k.t, SPT_OUT, KIT_IMAGES, 0)->order, SP_CHANNELS_LAST);
  for (int i = 0; i < 3 * 3 * 5 * 7; i++) ck_assert_float_eq(y[i], (x[i] - 4) / 2);
  for (int i = 0; i < 3 * 5 * 7; i++) ck_assert_float_eq(z[i], -2);
  free(x);
  free(y);
  free(z);
  kit_close(&k);
}
END_TEST

static void refused_floats(const char *params, const char *words) {
  aug_kit k;
  kit_open(&k, "normalize", params, 1, 3, 4, 4, SP_F32, SP_ROW_MAJOR, false);
  kit_refused(&k, spt_plan(k.t, 1), words);
  kit_close(&k);
}

START_TEST(refusals) {
  kit_refuses("normalize", "{ std = 0 }", 1, 3, 4, 4, "number 1 of 'std' is 0; it must be a positive, finite float32");
  kit_refuses("normalize", "{ std = { 1, 2, 0 } }", 1, 3, 4, 4, "number 3 of 'std' is 0;");
  kit_refuses("normalize", "{ std = -1 }", 1, 3, 4, 4, "number 1 of 'std' is -1;");
  kit_refuses("normalize", "{ std = 1e-60 }", 1, 3, 4, 4, "number 1 of 'std' is 1e-60;");
  kit_refuses("normalize", "{ std = 1e60 }", 1, 3, 4, 4, "number 1 of 'std' is 1e+60;");
  kit_refuses("normalize", "{ mean = { 0, 1e60, 0 } }", 1, 3, 4, 4,
              "number 2 of 'mean' is 1e+60; it must be a finite float32");
  kit_refuses("normalize", "{ mean = { 1, 2 } }", 1, 3, 4, 4,
              "'mean' has 2 numbers, but image 1 has 3 channels; give one for all, or one a channel");
  kit_refuses("normalize", "{ std = { 1, 2, 3, 4 } }", 1, 3, 4, 4, "'std' has 4 numbers, but image 1 has 3 channels;");
  kit_refuses("normalize", "{ mean = {} }", 1, 3, 4, 4, "mean");
  kit_refuses("normalize", "{ mean = \"a\" }", 1, 3, 4, 4, "mean");
  kit_refuses("normalize", "{ scale = 255 }", 1, 3, 4, 4, "scale");
  refused_floats("{ scale = true }", "'scale' turns bytes into 0..1, but image 1 is float32;");
  static const char *const names[] = {"mean", "std"};
  for (int i = 0; i < 2; i++) {
    sp_value nan = {.type = SP_V_TABLE}, *item = sp_value_put(&nan, names[i]);
    ck_assert_ptr_nonnull(item);
    *item = (sp_value){.type = SP_V_NUM, .d = NAN};
    int64_t image[4] = {1, 3, 8, 8};
    aug_kit k = {spt_new_value("normalize", &nan, 1), 1, 3, 8, 8};
    int rc = spt_failed(k.t);
    if (!rc) rc = spt_input_of(k.t, KIT_IMAGES, SP_U8, 4, image, 0, NULL);
    if (!rc) rc = spt_plan(k.t, 1);
    kit_refused(&k, rc, names[i]);
    kit_close(&k);
    sp_value_free(&nan);
  }
  aug_kit k;
  int64_t grey[4] = {2, 1, 8, 8};
  kit_open(&k, "normalize", "{ mean = { 1, 2, 3 } }", 2, 3, 8, 8, SP_U8, 0, false);
  kit_ok(&k, spt_input_of(k.t, KIT_IMAGES, SP_U8, 4, grey, 0, NULL));
  kit_refused(&k, spt_plan(k.t, 1), "'mean' has 3 numbers, but image 2 has 1 channels;");
  kit_close(&k);
  k.t = spt_new("normalize", "{}", 1);
  kit_refused(&k, spt_plan(k.t, 1), "wire at least one image to 'images'");
  kit_close(&k);
}
END_TEST

/* The same bits of a sample in any batch and with any number of threads. */
START_TEST(any_batch) {
  for (int o = 0; o < 2; o++) {
    enum { N = 65, EACH = 3 * 150 * 131 };
    float *all = malloc(sizeof(float) * N * EACH);
    ck_assert_ptr_nonnull(all);
    spt_random(all, (int64_t)N * EACH, 5, -2, 2);
    uint8_t *kept = NULL;
    for (int run = 0; run < 3; run++) {
      static const int first[] = {0, 17, 64}, many[] = {N, 5, 1};
      int64_t shape[4] = {many[run], 3, 150, 131};
      aug_kit k = {spt_new("normalize", "{ mean = { 1, 2, 3 }, std = { 0.3, 7, 9 } }", run + 1), many[run], 3, 150,
                   131};
      kit_ok(&k, spt_input_of(k.t, KIT_IMAGES, SP_F32, 4, shape, orders[o], all + (size_t)first[run] * EACH));
      kit_plan(&k, 1);
      kit_forward(&k);
      uint8_t *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
      if (kept) ck_assert(!memcmp(y, kept + (size_t)first[run] * EACH * 4, (size_t)many[run] * EACH * 4));
      if (kept) free(y);
      else kept = y;
      kit_close(&k);
    }
    free(kept);
    free(all);
  }
}
END_TEST

int main(void) {
  Suite *s = suite_create("normalize");
  TCase *c = tcase_create("normalize");
  tcase_set_timeout(c, 600);
  tcase_add_loop_test(c, formula, 0, 4);
  tcase_add_test(c, plain);
  tcase_add_test(c, list);
  tcase_add_test(c, refusals);
  tcase_add_test(c, any_batch);
  suite_add_tcase(s, c);
  return suite_run(s);
}
