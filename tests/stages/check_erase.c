/* SPDX-License-Identifier: MIT
 * check_erase.c - the stage erase; tests/parity/warp.py compares it with torchvision. */
#include "tests/kit/aug_kit.h"
#include "tests/kit/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

static bool in_box(const int32_t *b, int64_t y, int64_t x) {
  return y >= b[0] && y < b[0] + b[2] && x >= b[1] && x < b[1] + b[3];
}

static void open_given(aug_kit *k, const char *params, int64_t n, int64_t c, int64_t h, int64_t w, int dtype, int order,
                       const int32_t *boxes) {
  int64_t shape[2] = {n, 4};
  kit_open(k, "erase", params, n, c, h, w, dtype, order, true);
  kit_ok(k, spt_input_of(k->t, KIT_DRAWN, SP_I32, 2, shape, SP_ROW_MAJOR, boxes));
  kit_plan(k, 1);
}

/* Nothing but the box is another value, of each channel its own; masks stay, or are erased likewise. Boxes: none, of no
 * height, of no width, one pixel, up to the edges, everything. */
static void given(int64_t c, int64_t h, int64_t w, int dtype, int order, int masks, const char *params,
                  const double *value) {
  const int32_t high = (int32_t)h, wide = (int32_t)w;
  const int32_t boxes[] = {0,
                           0,
                           0,
                           0,
                           0,
                           0,
                           0,
                           wide,
                           0,
                           wide,
                           high,
                           0,
                           high - 1,
                           wide - 1,
                           1,
                           1,
                           high / 2,
                           wide / 3,
                           high - high / 2,
                           wide - wide / 3,
                           0,
                           0,
                           high,
                           wide};
  aug_kit k;
  open_given(&k, params, 6, c, h, w, dtype, order, boxes);
  kit_forward(&k);
  void *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
  uint8_t *m = kit_get(&k, SPT_OUT, KIT_MASKS, 0);
  int32_t *told = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
  ck_assert_mem_eq(told, boxes, sizeof boxes);
  for (int64_t e = 0; e < 6 * c * h * w; e++) {
    int64_t s = e / (c * h * w), p = e / (h * w) % c, i = e / w % h, j = e % w;
    bool erased = in_box(boxes + 4 * s, i, j);
    double was = kit_at(x, dtype, e);
    kit_each(kit_at(y, dtype, e) == (erased ? value[p] : was), "box %d: %d, %d of %d is %g", (int)s, (int)i, (int)j,
             (int)p, kit_at(y, dtype, e));
    if (!p) ck_assert_double_eq(m[(s * h + i) * w + j], erased && masks ? 77 : was);
  }
  free(x);
  free(y);
  free(m);
  free(told);
  kit_close(&k);
}

START_TEST(boxes_given) {
  static const double same[] = {9, 9, 9, 9, 9}, each[] = {10, 20, 30, 40};
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++) {
      given(3, 20, 17, dtypes[d], orders[o], 0, "{ value = { 10, 20, 30 } }", each);
      given(4, 9, 40, dtypes[d], orders[o], 1, "{ value = { 10, 20, 30, 40 }, erase_masks = true, mask_fill = 77 }",
            each);
      given(5, 9, 11, dtypes[d], orders[o], 1, "{ value = 9, erase_masks = true, mask_fill = 77 }", same);
      given(1, 1, 1, dtypes[d], orders[o], 0, "{ value = 9 }", same);
      given(3, 1, 600, dtypes[d], orders[o], 0, "{ value = 9 }", same);
    }
}
END_TEST

/* Noise has the deviation that is asked for, the same value in every type and order, others in every sample and
 * channel. */
START_TEST(noise) {
  const int64_t n = 3, c = 3, h = 70, w = 331;
  const int32_t boxes[] = {0, 0, 70, 331, 1, 5, 60, 323, 2, 2, 0, 0};
  double *first = NULL;
  for (int d = 1; d >= 0; d--)
    for (int o = 0; o < 2; o++) {
      aug_kit k;
      open_given(&k, "{ value = { 100, 110, 120 }, noise = 30 }", n, c, h, w, dtypes[d], orders[o], boxes);
      kit_forward(&k);
      void *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0), *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0);
      double sum = 0, squares = 0, beside = 0, before = 0;
      int64_t count = 0;
      if (!first) first = calloc((size_t)(n * c * h * w), sizeof *first);
      ck_assert_ptr_nonnull(first);
      for (int64_t e = 0; e < n * c * h * w; e++) {
        int64_t s = e / (c * h * w), p = e / (h * w) % c;
        double v = kit_at(y, dtypes[d], e), by = (v - 100 - 10 * (double)p) / 30;
        if (!in_box(boxes + 4 * s, e / w % h, e % w)) {
          ck_assert_double_eq(v, kit_at(x, dtypes[d], e));
          continue;
        }
        if (d && !o) first[e] = v;
        double want = d ? first[e] : rint(first[e] < 0 ? 0 : first[e] > 255 ? 255 : first[e]);
        kit_each(v == want, "type %d, order %d: element %d is %g, not %g", d, o, (int)e, v, want);
        sum += by, squares += by * by, beside += by * before, before = by, count++;
      }
      double mean = sum / (double)count, deviation = sqrt(squares / (double)count);
      ck_assert_msg(fabs(mean) < 0.02 && fabs(deviation - 1) < 0.02 && fabs(beside / (double)count) < 0.02,
                    "mean %g, deviation %g, %g with its neighbour", mean, deviation, beside / (double)count);
      free(x);
      free(y);
      kit_close(&k);
    }
  for (int64_t e = 0; e < h * w; e++)
    ck_assert(first[e] != first[h * w + e] + 10 || first[e + 1] != first[h * w + e + 1] + 10);
  free(first);
}
END_TEST

START_TEST(properties) {
  kit_aligned("erase", "{ value = 9, erase_masks = true, mask_fill = 9 }");
  kit_by_id("erase", "{ value = 3, p = 0.7 }");
  kit_by_id("erase", "{ size = { 5, 9 } }");
  kit_draw_modes("erase", "{ size = 3 }", 0);
  kit_draw_modes("erase", "{ scale = 0.3, p = 1 }", 0);
}
END_TEST

/* Noise of a sample is the same in any batch. */
START_TEST(noise_by_id) {
  float *all[2];
  for (int run = 0; run < 2; run++) {
    aug_kit k;
    kit_open(&k, "erase", "{ noise = 2, p = 1 }", 4, 3, 24, 24, SP_F32, orders[run], false);
    kit_plan(&k, 1);
    for (int64_t s = 0; s < 4; s++) spt_set_id(k.t, s, 7 + (uint64_t)(run ? 3 - s : s));
    kit_forward(&k);
    all[run] = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
    float *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0);
    for (int64_t e = 0; e < 4 * 3 * 576; e++)
      if (x[e] == all[run][e]) all[run][e] = 0; /* what is around belongs to the place, not to the id */
    free(x);
    kit_close(&k);
  }
  for (int64_t s = 0; s < 4; s++)
    ck_assert_mem_eq(all[0] + s * 3 * 576, all[1] + (3 - s) * 3 * 576, 3 * 576 * sizeof(float));
  free(all[0]);
  free(all[1]);
}
END_TEST

/* Rectangles of one size have any pixel in their middle; of area and ratio they have those, as near as whole pixels
 * are. */
START_TEST(draws) {
  kit_uniform("erase", "{ size = 1 }", 20, 30, 0, 0, 20, 20);
  kit_uniform("erase", "{ size = 1 }", 20, 30, 1, 0, 30, 30);
  for (int i = 0; i < 3; i++) {
    static const char *const params[] = {"{ p = 1 }", "{ scale = 0.25, ratio = { 0.5, 2 }, p = 1 }",
                                         "{ size = { 9, 6 } }"};
    const int64_t n = 2000, h = 60, w = 80;
    aug_kit k;
    int64_t cut = 0;
    kit_open(&k, "erase", params[i], n, 1, h, w, SP_U8, 0, false);
    kit_plan(&k, 1);
    for (int64_t s = 0; s < n; s++) spt_set_id(k.t, s, (uint64_t)s);
    kit_forward(&k);
    int32_t *b = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
    for (int64_t s = 0; s < n; s++, b += 4) {
      double area = (double)b[2] * b[3] / (double)(h * w), ratio = (double)b[2] / b[3];
      ck_assert(b[0] >= 0 && b[1] >= 0 && b[0] + b[2] <= h && b[1] + b[3] <= w && b[2] > 0 && b[3] > 0);
      cut += b[2] < 9 || b[3] < 6;
      if (i == 0) ck_assert(area > 0.015 && area < 0.345 && ratio > 0.27 && ratio < 3.7);
      if (i == 1) ck_assert(area > 0.235 && area < 0.265 && ratio > 0.47 && ratio < 2.1);
      if (i == 2) ck_assert(b[2] >= 4 && b[2] <= 9 && b[3] >= 3 && b[3] <= 6);
    }
    if (i == 2) ck_assert_msg(cut > n / 10 && cut < n / 3, "%d of %d are cut", (int)cut, (int)n);
    free(b - 4 * n);
    kit_close(&k);
  }
}
END_TEST

/* What is as large as the image is not drawn; a sample without a box stays as it is. */
START_TEST(no_room) {
  static const int64_t sides[][2] = {{1, 1}, {1, 40}, {2, 2}};
  for (int i = 0; i < 3; i++) {
    aug_kit k;
    kit_open(&k, "erase", "{ p = 1, scale = 1 }", 9, 3, sides[i][0], sides[i][1], SP_U8, 0, false);
    kit_plan(&k, 1);
    kit_forward(&k);
    int32_t *b = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
    for (int e = 0; e < 36; e++) ck_assert_int_eq(b[e], 0);
    uint8_t *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
    ck_assert_mem_eq(x, y, (size_t)(27 * sides[i][0] * sides[i][1]));
    free(b);
    free(x);
    free(y);
    kit_close(&k);
  }
}
END_TEST

START_TEST(refusals) {
  static const struct {
    const char *params, *words;
  } bad[] = {{"{ scale = { 0.5, 0.1 } }", "'scale' goes from 0.5 down to 0.1; the smaller number comes first"},
             {"{ ratio = { 3, 1 } }", "'ratio' goes from 3 down to 1"},
             {"{ ratio = 0 }", "ratio"},
             {"{ scale = 2 }", "scale"},
             {"{ size = 3, scale = 0.1 }", "'size' and 'scale' are both given: leave out 'size'"},
             {"{ size = 3, ratio = 1 }", "'size' and 'ratio' are both given"},
             {"{ size = 0 }", "size"},
             {"{ p = -1 }", "'p'"},
             {"{ noise = -1 }", "noise"},
             {"{ value = { 1, 2 } }", "value has 2 numbers, but image 1 has 3 channels; give one or as many"},
             {"{ value = -1 }", "value is -1, but image 1 is of bytes: 0..255"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) kit_refuses("erase", bad[i].params, 1, 3, 8, 8, bad[i].words);
  aug_kit k;
  kit_open(&k, "erase", "{ mask_fill = 256, erase_masks = true }", 1, 3, 8, 8, SP_U8, 0, true);
  kit_refused(&k, spt_plan(k.t, 1), "mask_fill is 256, but mask 1 is of bytes: 0..255");
  kit_close(&k);
  static const struct {
    int32_t box[4];
    const char *words;
  } boxes[] = {{{0, 0, 9, 1}, "sample 41: a box on 'boxes' is not inside of the image: 9, where 8 is the bound"},
               {{-1, 0, 1, 1}, "sample 41: a box on 'boxes' is not inside of the image: -1, where 0"},
               {{0, 0, 1, -2}, "sample 41: a box on 'boxes' is not inside of the image: -2, where 0"},
               {{0, INT32_MAX, 1, INT32_MAX}, "sample 41: a box on 'boxes' is not inside of the image: 4294967294"}};
  for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
    int32_t given[8] = {0, 0, 8, 8};
    memcpy(given + 4, boxes[i].box, sizeof boxes[i].box);
    open_given(&k, "{}", 2, 3, 8, 8, SP_U8, 0, given);
    spt_set_id(k.t, 0, 40);
    spt_set_id(k.t, 1, 41);
    kit_refused(&k, spt_forward(k.t, 0), boxes[i].words);
    kit_close(&k);
  }
}
END_TEST

int main(void) {
  Suite *s = suite_create("erase");
  TCase *c = tcase_create("erase");
  tcase_set_timeout(c, 600);
  tcase_add_test(c, boxes_given);
  tcase_add_test(c, noise);
  tcase_add_test(c, properties);
  tcase_add_test(c, noise_by_id);
  tcase_add_test(c, draws);
  tcase_add_test(c, no_room);
  tcase_add_test(c, refusals);
  suite_add_tcase(s, c);
  return suite_run(s);
}
