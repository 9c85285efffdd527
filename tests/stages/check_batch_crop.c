/* SPDX-License-Identifier: MIT
 * check_batch_crop.c - the stage batch_crop. */
#include "tests/kit/aug_kit.h"
#include "tests/kit/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

/* Every place that fits, the outermost ones included, against plain loops. */
static void places(const char *params, bool mean, int64_t c, int dtype, int order) {
  enum { H = 9, W = 7, S = 5, T = 4, N = (H - S + 1) * (W - T + 1) };
  int32_t boxes[N][2];
  int64_t shape[2] = {N, 2};
  for (int i = 0; i < N; i++) boxes[i][0] = i / (W - T + 1), boxes[i][1] = i % (W - T + 1);
  aug_kit k;
  kit_open(&k, "batch_crop", params, N, c, H, W, dtype, order, true);
  kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_I32, 2, shape, SP_ROW_MAJOR, boxes));
  kit_plan(&k, 1);
  kit_forward(&k);
  void *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
  uint8_t *m = kit_get(&k, SPT_IN, KIT_MASKS, 0), *n = kit_get(&k, SPT_OUT, KIT_MASKS, 0);
  const sp_spec *s = spt_spec(k.t, SPT_OUT, KIT_IMAGES, 0);
  ck_assert(s->dtype == dtype && s->order == order && s->shape[2] == S && s->shape[3] == T);
  for (int64_t e = 0; e < N * c * S * T; e++) {
    int64_t b = e / (c * S * T), p = e / (S * T) % c, i = boxes[b][0] + e / T % S, l = boxes[b][1] + e % T;
    int64_t below = i + 1 < H ? i + 1 : i, right = l + 1 < W ? l + 1 : l, plane = (b * c + p) * H * W;
    double want = kit_at(x, dtype, plane + i * W + l);
    if (mean)
      want = (want + kit_at(x, dtype, plane + i * W + right) + kit_at(x, dtype, plane + below * W + l) +
              kit_at(x, dtype, plane + below * W + right)) /
             4;
    if (dtype == SP_U8) want = rint(want);
    kit_each(kit_at(y, dtype, e) == want, "element %lld is %g, not %g", (long long)e, kit_at(y, dtype, e), want);
    kit_each(p != 0 || n[(b * S + e / T % S) * T + e % T] == m[(b * H + i) * W + l], "the mask's element %lld",
             (long long)e);
  }
  free(x);
  free(y);
  free(m);
  free(n);
  kit_close(&k);
}

START_TEST(every_place) {
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++)
      for (int64_t c = 1; c <= 3; c += 2) {
        places("{ size = { 5, 4 } }", false, c, dtypes[d], orders[o]);
        places("{ size = { 5, 4 }, mode = \"roi_align\" }", true, c, dtypes[d], orders[o]);
      }
}
END_TEST

START_TEST(one_pixel) {
  for (int o = 0; o < 2; o++)
    for (int mean = 0; mean < 2; mean++) {
      aug_kit k;
      kit_open(&k, "batch_crop", mean ? "{ size = 1, mode = \"roi_align\" }" : "{ size = 1 }", 3, 3, 1, 1, SP_F32,
               orders[o], true);
      kit_plan(&k, 1);
      kit_forward(&k);
      ck_assert_mem_eq(spt_raw(k.t, SPT_IN, 0, 0), spt_raw(k.t, SPT_OUT, 0, 0), 9 * sizeof(float));
      kit_close(&k);
    }
}
END_TEST

/* Outside of training the window is in the middle, where PyTorch's CenterCrop has it. */
START_TEST(middle) {
  static const int sizes[][3] = {{8, 4, 2}, {9, 4, 2}, {5, 2, 2}, {7, 4, 2}, {3, 2, 0}, {4, 4, 0}};
  for (size_t i = 0; i < SP_ARRAY(sizes); i++) {
    char params[64];
    aug_kit k;
    snprintf(params, sizeof params, "{ size = %d }", sizes[i][1]);
    kit_open(&k, "batch_crop", params, 1, 1, sizes[i][0], sizes[i][0], SP_U8, SP_ROW_MAJOR, false);
    kit_plan(&k, 0);
    kit_forward(&k);
    int32_t *box = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
    ck_assert_int_eq(box[0], sizes[i][2]);
    ck_assert_int_eq(box[1], sizes[i][2]);
    free(box);
    kit_close(&k);
  }
}
END_TEST

START_TEST(properties) {
  kit_aligned("batch_crop", "{ size = { 20, 17 } }");
  kit_by_id("batch_crop", "{ size = { 20, 17 } }");
  kit_by_id("batch_crop", "{ size = { 37, 17 }, mode = \"roi_align\" }");
  kit_draw_modes("batch_crop", "{ size = 20 }", NAN);
}
END_TEST

START_TEST(draws) {
  kit_uniform("batch_crop", "{ size = 4 }", 11, 19, 0, 0, 8, 8);
  kit_uniform("batch_crop", "{ size = 4 }", 11, 19, 1, 0, 16, 16);
  kit_uniform("batch_crop", "{ size = 4 }", 4, 4, 1, 0, 1, 1);
}
END_TEST

START_TEST(refusals) {
  kit_refuses("batch_crop", "{ size = { 8, 9 } }", 1, 3, 8, 8,
              "a window of 8 x 9 does not fit into images of 8 x 8; choose a smaller size");
  kit_refuses("batch_crop", "{ size = 0 }", 1, 3, 8, 8, "size");
  kit_refuses("batch_crop", "{}", 1, 3, 8, 8, "size");
  kit_refuses("batch_crop", "{ size = 4, mode = \"exakt\" }", 1, 3, 8, 8, "exact");
  kit_refuses("batch_crop", "{ size = 4 }", 70000, 1, 4, 4, "at most 65535 are possible");
  aug_kit k;
  int64_t small[3] = {2, 8, 7}, few[3] = {1, 8, 8}, boxes[2] = {2, 3}, fine[2] = {2, 2};
  kit_open(&k, "batch_crop", "{ size = 4 }", 2, 3, 8, 8, SP_U8, 0, true);
  kit_ok(&k, spt_input_of(k.t, KIT_MASKS, SP_U8, 3, small, 0, NULL));
  kit_refused(&k, spt_plan(k.t, 1), "mask 2 is 8 x 7, but image 1 is 8 x 8");
  kit_close(&k);
  kit_open(&k, "batch_crop", "{ size = 4 }", 2, 3, 8, 8, SP_U8, 0, false);
  kit_ok(&k, spt_input_of(k.t, KIT_MASKS, SP_U8, 3, few, 0, NULL));
  kit_refused(&k, spt_plan(k.t, 1), "mask 1 has 1 samples, image 1 has 2");
  kit_close(&k);
  kit_open(&k, "batch_crop", "{ size = 4 }", 2, 3, 8, 8, SP_U8, 0, false);
  kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_I32, 2, boxes, 0, NULL));
  kit_refused(&k, spt_plan(k.t, 1), "'boxes' must be 2 x 2, one row a sample");
  kit_close(&k);
  static const int32_t bad[][4] = {{0, 0, 5, 0}, {1, 1, -1, 2}, {4, 4, 0, 5}, {4, 4, 0, -7}};
  static const char *const words[] = {"a box on 'boxes' begins at 5, but 0..4 is possible", "begins at -1, but",
                                      "begins at 5, but", "begins at -7, but"};
  for (int i = 0; i < 4; i++) {
    kit_open(&k, "batch_crop", "{ size = 4 }", 2, 3, 8, 8, SP_U8, 0, false);
    kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_I32, 2, fine, 0, bad[i]));
    kit_plan(&k, 1);
    kit_refused(&k, spt_forward(k.t, 0), words[i]);
    kit_close(&k);
  }
  k.t = spt_new("batch_crop", "{ size = 4 }", 1);
  kit_refused(&k, spt_plan(k.t, 1), "wire at least one image to 'images'");
  kit_close(&k);
}
END_TEST

int main(void) {
  Suite *s = suite_create("crop");
  TCase *c = tcase_create("crop");
  tcase_set_timeout(c, 600);
  tcase_add_test(c, every_place);
  tcase_add_test(c, one_pixel);
  tcase_add_test(c, middle);
  tcase_add_test(c, properties);
  tcase_add_test(c, draws);
  tcase_add_test(c, refusals);
  suite_add_tcase(s, c);
  return suite_run(s);
}
