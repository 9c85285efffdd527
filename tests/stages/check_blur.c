/* SPDX-License-Identifier: MIT
 * check_blur.c - the stage blur. */
#include "tests/kit/aug_kit.h"
#include "tests/kit/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

static int64_t mirror(int64_t i, int64_t n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; }

/* The formula at one place, in double: the outer product of two kernels over the mirrored image. */
static double blurred(const void *x, int dtype, int64_t plane, int64_t h, int64_t w, int64_t i, int64_t l, int kx,
                      int ky, double sigma) {
  double sum = 0, all = 0;
  if (sigma == 0) return kit_at(x, dtype, (plane * h + i) * w + l);
  for (int a = -(ky / 2); a <= ky / 2; a++)
    for (int b = -(kx / 2); b <= kx / 2; b++) {
      double weight = exp(-(a * a + b * b) / (2 * sigma * sigma));
      sum += weight * kit_at(x, dtype, (plane * h + mirror(i + a, h)) * w + mirror(l + b, w));
      all += weight;
    }
  return sum / all;
}

/* Values are 0..255 here. */
static void against_formula(int kx, int ky, int64_t n, int64_t c, int64_t h, int64_t w, int dtype, int order) {
  char params[80];
  aug_kit k;
  snprintf(params, sizeof params, "{ kernel = { %d, %d }, sigma = { 0.3, %d } }", kx, ky, 2 + kx / 4);
  kit_open(&k, "blur", params, n, c, h, w, dtype, order, true);
  kit_plan(&k, 1);
  kit_forward(&k);
  void *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
  float *sigmas = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
  const sp_spec *s = spt_spec(k.t, SPT_OUT, KIT_IMAGES, 0);
  ck_assert(s->dtype == dtype && s->order == order && s->shape[2] == h && s->shape[3] == w);
  for (int64_t e = 0; e < n * c * h * w; e++) {
    int64_t plane = e / (h * w), i = e / w % h, l = e % w;
    double want = blurred(x, dtype, plane, h, w, i, l, kx, ky, (double)sigmas[plane / c]), got = kit_at(y, dtype, e);
    double most = dtype == SP_U8 ? 0.5 + 255 * 5e-7 : 255 * 5e-7;
    kit_each(fabs(got - want) <= most, "%s, %lld x %lld, sigma %g: element %lld is %.9g, the formula has %.9g", params,
             (long long)h, (long long)w, (double)sigmas[plane / c], (long long)e, got, want);
  }
  ck_assert_mem_eq(spt_raw(k.t, SPT_IN, KIT_MASKS, 0), spt_raw(k.t, SPT_OUT, KIT_MASKS, 0), (size_t)(n * h * w));
  free(x);
  free(y);
  free(sigmas);
  kit_close(&k);
}

START_TEST(formula) {
  int d = dtypes[_i % 2], o = orders[_i / 2];
  against_formula(7, 7, 3, 3, 33, 29, d, o);
  against_formula(5, 5, 2, 1, 17, 40, d, o);
  against_formula(3, 3, 2, 4, 2, 2, d, o);
  against_formula(7, 7, 1, 3, 4, 4, d, o);
  against_formula(9, 3, 2, 2, 8, 21, d, o);
  against_formula(1, 7, 2, 3, 9, 1, d, o);
  against_formula(7, 1, 2, 3, 1, 9, d, o);
  against_formula(1, 1, 2, 3, 1, 1, d, o);
  against_formula(63, 21, 1, 1, 11, 32, d, o);
  against_formula(7, 7, 1, 19, 5, 6, d, o);   /* many channels */
  against_formula(7, 7, 1, 3, 4, 1500, d, o); /* more than one stripe */
  against_formula(11, 5, 1, 1030 / 3, 4, 7, d, o);
  against_formula(7, 7, 1, 1, 300, 120, d, o); /* more than one block of rows */
}
END_TEST

/* A sigma of 0 leaves a sample alone; others keep the sum of an image of one value. */
START_TEST(ends) {
  static const float sigmas[4] = {0, 1e-30f, 1e30f, 1e-3f};
  int64_t shape[1] = {4};
  for (int d = 0; d < 2; d++) {
    aug_kit k;
    kit_open(&k, "blur", "{ kernel = 5 }", 4, 3, 20, 30, dtypes[d], SP_ROW_MAJOR, false);
    kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 1, shape, SP_ROW_MAJOR, sigmas));
    kit_plan(&k, 1);
    kit_forward(&k);
    void *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
    float *out = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
    ck_assert_mem_eq(out, sigmas, sizeof sigmas);
    for (int64_t e = 0; e < 4 * 1800; e++) {
      double a = kit_at(x, dtypes[d], e), b = kit_at(y, dtypes[d], e);
      if (e / 1800 != 2) ck_assert_double_eq(a, b);
      else
        ck_assert(fabs(b - blurred(x, dtypes[d], e / 600, 20, 30, e / 30 % 20, e % 30, 5, 5, 1e30)) <
                  (d ? 255 * 5e-7 : 0.5001));
    }
    free(x);
    free(y);
    free(out);
    kit_close(&k);
  }
}
END_TEST

START_TEST(plain) {
  for (int o = 0; o < 2; o++) {
    aug_kit k;
    kit_open(&k, "blur", "{}", 3, 3, 21, 17, SP_F32, orders[o], true);
    kit_plan(&k, 0);
    kit_forward(&k);
    ck_assert_mem_eq(spt_raw(k.t, SPT_IN, 0, 0), spt_raw(k.t, SPT_OUT, 0, 0), (size_t)3 * 3 * 21 * 17 * sizeof(float));
    kit_close(&k);
  }
}
END_TEST

START_TEST(properties) {
  kit_by_id("blur", "{ kernel = 7 }");
  kit_by_id("blur", "{ kernel = { 3, 21 }, sigma = { 1, 5 } }");
  kit_draw_modes("blur", "{ kernel = 3 }", 0);
}
END_TEST

START_TEST(draws) {
  kit_uniform("blur", "{ kernel = 3, sigma = { 0.5, 3 } }", 4, 4, 0, 0.5, 3, 16);
  kit_uniform("blur", "{ kernel = 3 }", 4, 4, 0, 0.1, 2, 10);
  kit_uniform("blur", "{ kernel = 3, sigma = 1.5 }", 4, 4, 0, 1.5, 1.500001, 1);
}
END_TEST

START_TEST(refusals) {
  kit_refuses("blur", "{ kernel = 4 }", 1, 3, 8, 8, "a kernel of 4 pixels has no middle; 'kernel' must be odd");
  kit_refuses("blur", "{ kernel = { 7, 2 } }", 1, 3, 8, 8, "a kernel of 2 pixels has no middle; 'kernel' must be odd");
  kit_refuses("blur", "{ kernel = 65 }", 1, 3, 80, 80, "63");
  kit_refuses("blur", "{ kernel = -1 }", 1, 3, 8, 8, "kernel");
  kit_refuses("blur", "{ kernel = {} }", 1, 3, 8, 8, "kernel");
  kit_refuses("blur", "{ kernel = { 3, 3, 3 } }", 1, 3, 8, 8, "kernel");
  kit_refuses("blur", "{ kernel = { 9, 7 } }", 1, 3, 8, 4,
              "a kernel of 9 x 7 (width x height) reaches 4 x 3 pixels beyond the edge, but images of 4 x 8 can be "
              "mirrored by 3 x 7 at most; choose a smaller kernel");
  kit_refuses("blur", "{ kernel = 7 }", 1, 3, 3, 40, "images of 40 x 3 can be mirrored by 39 x 2 at most");
  kit_refuses("blur", "{ sigma = -1 }", 1, 3, 8, 8,
              "a sigma of -1 is not possible; 'sigma' must be positive and finite");
  kit_refuses("blur", "{ sigma = { 0, 2 } }", 1, 3, 8, 8, "a sigma of 0 is not possible");
  kit_refuses("blur", "{ sigma = { 1, 1e60 } }", 1, 3, 8, 8, "a sigma of 1e+60 is not possible");
  kit_refuses("blur", "{ sigma = 1e-60 }", 1, 3, 8, 8, "a sigma of 1e-60 is not possible");
  kit_refuses("blur", "{ sigma = { 2, 1 } }", 1, 3, 8, 8,
              "'sigma' goes from 2 down to 1; the smaller number comes first");
  kit_refuses("blur", "{ sigma = { 1, 2, 3 } }", 1, 3, 8, 8, "sigma");
  sp_value nan = {.type = SP_V_TABLE}, *item = sp_value_put(&nan, "sigma");
  ck_assert_ptr_nonnull(item);
  *item = (sp_value){.type = SP_V_NUM, .d = NAN};
  aug_kit k = {spt_new_value("blur", &nan, 1), 1, 3, 8, 8};
  int64_t image[4] = {1, 3, 8, 8}, three[1] = {3}, pairs[2] = {2, 2}, small[3] = {2, 8, 7};
  int rc = spt_failed(k.t);
  if (!rc) rc = spt_input_of(k.t, KIT_IMAGES, SP_U8, 4, image, 0, NULL);
  if (!rc) rc = spt_plan(k.t, 1);
  kit_refused(&k, rc, "sigma");
  kit_close(&k);
  sp_value_free(&nan);
  kit_open(&k, "blur", "{}", 2, 3, 8, 8, SP_U8, 0, false);
  kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 1, three, 0, NULL));
  kit_refused(&k, spt_plan(k.t, 1), "'sigmas' must be 2 numbers, one a sample");
  kit_close(&k);
  kit_open(&k, "blur", "{}", 2, 3, 8, 8, SP_U8, 0, false);
  kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 2, pairs, 0, NULL));
  kit_refused(&k, spt_plan(k.t, 1), "sigmas");
  kit_close(&k);
  kit_open(&k, "blur", "{}", 2, 3, 8, 8, SP_U8, 0, false);
  kit_ok(&k, spt_input_of(k.t, KIT_MASKS, SP_U8, 3, small, 0, NULL));
  kit_refused(&k, spt_plan(k.t, 1), "mask 1 is 8 x 7, but image 1 is 8 x 8");
  kit_close(&k);
}
END_TEST

START_TEST(bad_sigmas) {
  const float bad[] = {-1, NAN, INFINITY, -INFINITY, -1e-40f};
  int64_t shape[1] = {3};
  for (size_t i = 0; i < SP_ARRAY(bad); i++) {
    float sigmas[3] = {1, bad[i], bad[i]};
    aug_kit k;
    kit_open(&k, "blur", "{}", 3, 3, 8, 8, SP_F32, 0, false);
    kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 1, shape, 0, sigmas));
    kit_plan(&k, 1);
    kit_refused(&k, spt_forward(k.t, 0), "sample 1: its number on 'sigmas' is negative or not finite");
    kit_close(&k);
  }
}
END_TEST

int main(void) {
  Suite *s = suite_create("blur");
  TCase *c = tcase_create("blur");
  tcase_set_timeout(c, 600);
  tcase_add_loop_test(c, formula, 0, 4);
  tcase_add_test(c, ends);
  tcase_add_test(c, plain);
  tcase_add_test(c, properties);
  tcase_add_test(c, draws);
  tcase_add_test(c, refusals);
  tcase_add_test(c, bad_sigmas);
  suite_add_tcase(s, c);
  return suite_run(s);
}
