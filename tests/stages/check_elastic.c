/* SPDX-License-Identifier: MIT
 * check_elastic.c - the stage elastic; tests/parity/warp.py compares it with torchvision. */
#include "tests/kit/aug_kit.h"
#include "tests/kit/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

/* Displacements by whole pixels; sample 0 has none, and is a copy. */
START_TEST(known_places) {
  const int64_t n = 3, c = 3, h = 12, w = 300, shape[4] = {n, h, w, 2};
  static float field[3 * 12 * 300 * 2];
  for (int64_t e = 0; e < n * h * w; e++) {
    int64_t s = e / (h * w), x = e % w;
    field[2 * e] = s == 1 ? 2.0f * 3 / w : s == 2 && x % 2 ? -2.0f / w : 0;
    field[2 * e + 1] = s == 1 ? -2.0f * 2 / h : 0;
  }
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++)
      for (int mode = 0; mode < 2; mode++) {
        aug_kit k;
        kit_open(&k, "elastic",
                 mode ? "{ fill = 7, mask_fill = 7 }" : "{ mode = \"nearest\", fill = 7, mask_fill = 7 }", n, c, h, w,
                 dtypes[d], orders[o], true);
        kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 4, shape, SP_ROW_MAJOR, field));
        kit_plan(&k, 1);
        kit_forward(&k);
        void *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
        uint8_t *m = kit_get(&k, SPT_OUT, KIT_MASKS, 0);
        float *told = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
        ck_assert_mem_eq(told, field, sizeof field);
        for (int64_t e = 0; e < n * c * h * w; e++) {
          int64_t s = e / (c * h * w), p = e / (h * w) % c, i = e / w % h, j = e % w, a = i, b = j;
          if (s == 1) a = i - 2, b = j + 3;
          if (s == 2) b = j - j % 2;
          bool inside = a >= 0 && a < h && b >= 0 && b < w;
          double want = inside ? kit_at(x, dtypes[d], ((s * c + p) * h + a) * w + b) : 7;
          kit_each(fabs(kit_at(y, dtypes[d], e) - want) <= (mode && s && dtypes[d] == SP_F32 ? 255 * 5e-5 : 0),
                   "sample %d, pixel %d, %d is %g, not %g", (int)s, (int)i, (int)j, kit_at(y, dtypes[d], e), want);
          if (!p)
            ck_assert_double_eq(m[(s * h + i) * w + j], inside ? kit_at(x, dtypes[d], (s * c * h + a) * w + b) : 7);
        }
        free(x);
        free(y);
        free(m);
        free(told);
        kit_close(&k);
      }
}
END_TEST

/* What is no number is outside, and what is far away too. */
START_TEST(wild_fields) {
  static const float wild[] = {NAN, INFINITY, -INFINITY, 1e30f, -1e30f};
  const int64_t shape[4] = {5, 4, 5, 2};
  float field[5 * 20 * 2];
  for (int e = 0; e < 200; e++) field[e] = wild[e / 40];
  for (int d = 0; d < 2; d++)
    for (int mode = 0; mode < 2; mode++) {
      aug_kit k;
      kit_open(&k, "elastic", mode ? "{ fill = 7 }" : "{ mode = \"nearest\", fill = 7 }", 5, 2, 4, 5, dtypes[d], 0,
               true);
      kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 4, shape, SP_ROW_MAJOR, field));
      kit_plan(&k, 1);
      kit_forward(&k);
      void *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
      for (int e = 0; e < 200; e++) ck_assert_double_eq(kit_at(y, dtypes[d], e), 7);
      free(y);
      kit_close(&k);
    }
}
END_TEST

/* Samples of these ids with so many threads; the second half has an image more. */
static float *drawn(const char *params, int64_t n, uint64_t first, int threads, int training, void **image) {
  const int64_t shape[4] = {n, 3, 41, 37};
  spt *t = spt_new("elastic", params, threads);
  static uint8_t x[8 * 3 * 41 * 37];
  for (size_t e = 0; e < sizeof x; e++) x[e] = (uint8_t)(e % (3 * 41 * 37) * 2654435761u >> 13);
  aug_kit k = {t, n, 3, 41, 37};
  kit_ok(&k, spt_failed(t));
  kit_ok(&k, spt_input_of(t, KIT_IMAGES, SP_U8, 4, shape, SP_ROW_MAJOR, x));
  kit_plan(&k, training);
  for (int64_t i = 0; i < n; i++) spt_set_id(t, i, first + (uint64_t)i);
  kit_forward(&k);
  float *field = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
  if (image) *image = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
  spt_want(t, SPT_OUT, KIT_DRAWN, 0, 0); /* nobody reads it: the same image */
  kit_forward(&k);
  if (image) {
    uint8_t *again = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
    ck_assert_mem_eq(again, *image, (size_t)(n * 3 * 41 * 37));
    free(again);
  }
  spt_free(t);
  return field;
}

/* A sample is the same in any batch and with any number of threads, which cut images at other rows. */
START_TEST(by_id) {
  static const char *const params[] = {
      "{ sigma = 1.5 }", "{ sigma = { 3, 0.4 }, alpha = { 40, 90 }, p = 0.5 }", "{ sigma = 0, alpha = 3 }"};
  void *images[4];
  for (int i = 0; i < 3; i++) {
    float *all = drawn(params[i], 8, 10, 2, 1, &images[0]), *one = drawn(params[i], 1, 13, 1, 1, &images[1]);
    float *cut = drawn(params[i], 1, 13, 7, 1, &images[2]), *some = drawn(params[i], 3, 12, 4, 1, &images[3]);
    const size_t each = 41 * 37 * 2, pixels = 3 * 41 * 37;
    ck_assert_mem_eq(all + 3 * each, one, each * sizeof(float));
    ck_assert_mem_eq(cut, one, each * sizeof(float));
    ck_assert_mem_eq(some + each, one, each * sizeof(float));
    ck_assert_mem_eq((uint8_t *)images[0] + 3 * pixels, images[1], pixels);
    ck_assert_mem_eq(images[2], images[1], pixels);
    ck_assert_mem_eq((uint8_t *)images[3] + pixels, images[1], pixels);
    ck_assert_int_ne(memcmp(all, all + each, each * sizeof(float)), 0);
    for (int e = 0; e < 4; e++) free(images[e]);
    free(all);
    free(one);
    free(cut);
    free(some);
  }
}
END_TEST

/* Wired back, what was drawn gives the same images. */
START_TEST(wired_back) {
  for (int mode = 0; mode < 2; mode++)
    for (int o = 0; o < 2; o++) {
      const char *params = mode ? "{ sigma = 2, fill = 9, p = 0.5 }" : "{ sigma = 2, mode = \"nearest\" }";
      aug_kit a, b;
      const int64_t shape[4] = {6, 29, 31, 2};
      kit_open(&a, "elastic", params, 6, 3, 29, 31, SP_F32, orders[o], true);
      kit_plan(&a, 1);
      kit_forward(&a);
      float *field = kit_get(&a, SPT_OUT, KIT_DRAWN, 0), *x = kit_get(&a, SPT_OUT, KIT_IMAGES, 0);
      kit_open(&b, "elastic", params, 6, 3, 29, 31, SP_F32, orders[o], true);
      kit_ok(&b, spt_input_of(b.t, KIT_DRAWN, SP_F32, 4, shape, SP_ROW_MAJOR, field));
      kit_plan(&b, 0);
      kit_forward(&b);
      float *y = kit_get(&b, SPT_OUT, KIT_IMAGES, 0);
      ck_assert_mem_eq(x, y, 6 * 3 * 29 * 31 * sizeof(float));
      free(field);
      free(x);
      free(y);
      kit_close(&a);
      kit_close(&b);
    }
}
END_TEST

/* The field is that of the numbers drawn: smoothed here in double, by the whole kernel at once. */
START_TEST(smoothed) {
  const int h = 41, w = 37, r = 6;
  float *noise = drawn("{ sigma = 0, alpha = { 37, 41 } }", 1, 5, 1, 1, NULL),
        *got = drawn("{ sigma = 1.5, alpha = { 37, 41 } }", 1, 5, 1, 1, NULL);
  double weight[13], sum = 0, squares = 0, largest = 0;
  for (int i = -r; i <= r; i++) sum += weight[i + r] = exp(-i * i / (2 * 1.5 * 1.5));
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++)
      for (int e = 0; e < 2; e++) {
        double v = 0;
        for (int i = -r; i <= r; i++)
          for (int j = -r; j <= r; j++) {
            int a = abs(y + i), b = abs(x + j);
            if (a >= h) a = 2 * h - 2 - a;
            if (b >= w) b = 2 * w - 2 - b;
            v += weight[i + r] * weight[j + r] / (sum * sum) * (double)noise[(a * w + b) * 2 + e];
          }
        kit_each(fabs(v - (double)got[(y * w + x) * 2 + e]) < 1e-6, "%d, %d: %g, not %g", y, x,
                 (double)got[(y * w + x) * 2 + e], v);
        double n = (double)noise[(y * w + x) * 2 + e];
        squares += n * n;
        largest = fabs(n) > largest ? fabs(n) : largest;
      }
  ck_assert(largest <= 1 && fabs(squares / (2 * h * w) - 1.0 / 3) < 0.02);
  free(noise);
  free(got);
}
END_TEST

START_TEST(modes) {
  const size_t each = 41 * 37 * 2;
  float *v = drawn("{ same_on_batch = true, sigma = 1 }", 3, 1, 2, 1, NULL), zero[41 * 37 * 2] = {0};
  void *image;
  ck_assert_mem_eq(v, v + each, each * sizeof(float));
  ck_assert_mem_eq(v, v + 2 * each, each * sizeof(float));
  free(v);
  v = drawn("{ sigma = 1 }", 3, 1, 2, 0, &image);
  for (int s = 0; s < 3; s++) ck_assert_mem_eq(v + (size_t)s * each, zero, sizeof zero);
  free(v);
  free(image);
  v = drawn("{ sigma = 1, always = true }", 3, 1, 2, 0, NULL);
  ck_assert_int_ne(memcmp(v, zero, sizeof zero), 0);
  free(v);
  kit_aligned("elastic", "{ sigma = 2, mode = \"nearest\", mask_fill = 0 }");
  kit_aligned("elastic", "{ sigma = 0, alpha = 400, mode = \"nearest\", fill = 9, mask_fill = 9, p = 0.5 }");
}
END_TEST

/* Kernels as wide as an image can have, images of one row, more columns than a block. */
START_TEST(extremes) {
  static const struct {
    const char *params;
    int64_t h, w;
  } list[] = {{"{ sigma = { 0, 0 } }", 1, 1}, {"{ sigma = { 2, 0 } }", 1, 9},
              {"{ sigma = { 0, 2 } }", 9, 1}, {"{ sigma = { 50, 0.2 } }", 2, 202},
              {"{ sigma = 2.2 }", 10, 10},    {"{ sigma = 5, alpha = 0 }", 30, 700}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    aug_kit k;
    kit_open(&k, "elastic", list[i].params, 2, 3, list[i].h, list[i].w, SP_F32, SP_CHANNELS_LAST, true);
    kit_plan(&k, 1);
    kit_forward(&k);
    float *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
    for (int64_t e = 0; e < 6 * list[i].h * list[i].w; e++) ck_assert(y[e] >= 0 && y[e] < 255.01f);
    free(y);
    kit_close(&k);
  }
}
END_TEST

START_TEST(refusals) {
  kit_refuses("elastic", "{}", 1, 3, 20, 90,
              "sigma = 5 reaches 20 pixels to each side, too far for images of 20 x 90; at most 4.75 is possible");
  kit_refuses("elastic", "{ sigma = { 9, 1 } }", 1, 3, 90, 30,
              "sigma = 9 reaches 36 pixels to each side, too far for images of 90 x 30; at most 7.25");
  kit_refuses("elastic", "{ sigma = -1 }", 1, 3, 64, 64, "sigma");
  kit_refuses("elastic", "{ sigma = 101 }", 1, 3, 64, 64, "sigma");
  kit_refuses("elastic", "{ alpha = -1 }", 1, 3, 64, 64, "alpha");
  kit_refuses("elastic", "{ alpha = { 1, 2, 3 } }", 1, 3, 64, 64, "alpha");
  kit_refuses("elastic", "{ fill = { 1, 2 } }", 1, 3, 64, 64, "fill has 2 numbers, but image 1 has 3 channels");
  static const int64_t shapes[][4] = {{1, 8, 9, 2}, {2, 9, 9, 2}, {2, 8, 9, 1}};
  for (int i = 0; i < 3; i++) {
    aug_kit k;
    kit_open(&k, "elastic", "{}", 2, 3, 8, 9, SP_U8, 0, false);
    kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 4, shapes[i], 0, NULL));
    kit_refused(&k, spt_plan(k.t, 1), "'displacements' must be 2 x 8 x 9 x 2, two numbers a pixel");
    kit_close(&k);
  }
}
END_TEST

int main(void) {
  Suite *s = suite_create("elastic");
  TCase *c = tcase_create("elastic");
  tcase_set_timeout(c, 600);
  tcase_add_test(c, known_places);
  tcase_add_test(c, wild_fields);
  tcase_add_test(c, by_id);
  tcase_add_test(c, wired_back);
  tcase_add_test(c, smoothed);
  tcase_add_test(c, modes);
  tcase_add_test(c, extremes);
  tcase_add_test(c, refusals);
  suite_add_tcase(s, c);
  return suite_run(s);
}
