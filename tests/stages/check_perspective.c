/* SPDX-License-Identifier: MIT
 * check_perspective.c - the stage perspective; tests/parity/warp.py compares it with torchvision. */
#include "tests/kit/aug_kit.h"
#include "tests/kit/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

static void open_given(aug_kit *k, const char *params, int64_t n, int64_t c, int64_t h, int64_t w, int dtype, int order,
                       const int32_t *corners) {
  int64_t shape[2] = {n, 8};
  kit_open(k, "perspective", params, n, c, h, w, dtype, order, true);
  kit_ok(k, spt_input_of(k->t, KIT_DRAWN, SP_I32, 2, shape, SP_ROW_MAJOR, corners));
  kit_plan(k, 1);
}

/* The image's own corners are a copy; the first pixel of a figure's corner is the image's; what is outside is the
 * fill. */
START_TEST(corners_go_there) {
  static const int32_t corners[] = {0, 0, 19, 0, 19, 19, 0, 19, 1, 2, 18, 1, 18, 18, 2, 17};
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++) {
      aug_kit k;
      open_given(&k, "{ mode = \"nearest\", fill = 9, mask_fill = 9 }", 2, 3, 20, 20, dtypes[d], orders[o], corners);
      kit_forward(&k);
      void *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
      uint8_t *m = kit_get(&k, SPT_OUT, KIT_MASKS, 0);
      for (int e = 0; e < 1200; e++) ck_assert_double_eq(kit_at(y, dtypes[d], e), kit_at(x, dtypes[d], e));
      for (int c = 0; c < 4; c++) {
        int at = corners[8 + 2 * c + 1] * 20 + corners[8 + 2 * c],
            from = (c > 1 ? 19 : 0) * 20 + (c == 1 || c == 2 ? 19 : 0);
        for (int p = 0; p < 3; p++)
          ck_assert_double_eq(kit_at(y, dtypes[d], 1200 + p * 400 + at), kit_at(x, dtypes[d], 1200 + p * 400 + from));
        ck_assert_double_eq(m[400 + at], kit_at(x, dtypes[d], 1200 + from));
        ck_assert_double_eq(kit_at(y, dtypes[d], 1200 + (c > 1 ? 399 : 0)), 9);
      }
      free(x);
      free(y);
      free(m);
      kit_close(&k);
    }
}
END_TEST

/* A figure may go round the other way. torchvision's corners are numbers of pixels, but what a pixel shows is
 * computed at its middle: so what is mirrored is a pixel further to the left. */
START_TEST(mirrored) {
  static const int32_t corners[] = {15, 0, 0, 0, 0, 11, 15, 11};
  aug_kit k;
  open_given(&k, "{ mode = \"nearest\", fill = 7 }", 1, 2, 12, 16, SP_U8, 0, corners);
  kit_forward(&k);
  uint8_t *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
  for (int e = 0; e < 2 * 12; e++)
    for (int j = 0; j < 16; j++) ck_assert_uint_eq(y[e * 16 + j], j < 15 ? x[e * 16 + 14 - j] : 7);
  free(x);
  free(y);
  kit_close(&k);
}
END_TEST

START_TEST(properties) {
  kit_aligned("perspective", "{ p = 1, mode = \"nearest\", mask_fill = 0 }");
  kit_aligned("perspective", "{ distortion = 1, p = 0.7, mode = \"nearest\", fill = 9, mask_fill = 9 }");
  kit_by_id("perspective", "{ distortion = 0.9, p = 1 }");
  kit_by_id("perspective", "{ fill = 3, mode = \"nearest\" }");
  kit_draw_modes("perspective", "{ p = 1 }", NAN);
}
END_TEST

START_TEST(draws) {
  static const double from[] = {0, 0, 30, 0, 30, 20, 0, 20};
  for (int i = 0; i < 8; i++) /* 61 x 41 pixels: corners go 30 and 20 inwards */
    kit_uniform("perspective", "{ distortion = 1, p = 1 }", 41, 61, i, from[i], from[i] + (i % 2 ? 21 : 31),
                i % 2 ? 21 : 31);
}
END_TEST

/* Half of all samples stay as they are; outside of training all; images that have no figure always. */
START_TEST(chance) {
  for (int i = 0; i < 4; i++) {
    static const int64_t sides[][2] = {{8, 8}, {8, 8}, {1, 300}, {300, 1}};
    aug_kit k;
    int64_t n = 400, h = sides[i][0], w = sides[i][1], still = 0;
    kit_open(&k, "perspective", "{ distortion = 1 }", n, 1, h, w, SP_U8, 0, false);
    kit_plan(&k, i != 1);
    for (int64_t s = 0; s < n; s++) spt_set_id(k.t, s, (uint64_t)s);
    kit_forward(&k);
    int32_t *v = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
    uint8_t *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
    for (int64_t s = 0; s < n; s++) {
      const int32_t own[] = {0, 0, (int32_t)w - 1, 0, (int32_t)w - 1, (int32_t)h - 1, 0, (int32_t)h - 1};
      bool same = !memcmp(own, v + 8 * s, sizeof own);
      still += same;
      if (same) ck_assert_mem_eq(x + s * h * w, y + s * h * w, (size_t)(h * w));
    }
    if (i) ck_assert_int_eq(still, n);
    else ck_assert_msg(still > 150 && still < 250, "%d of %d are still", (int)still, (int)n);
    free(v);
    free(x);
    free(y);
    kit_close(&k);
  }
}
END_TEST

START_TEST(refusals) {
  kit_refuses("perspective", "{ distortion = 1.1 }", 1, 3, 8, 8, "distortion");
  kit_refuses("perspective", "{ distortion = -1 }", 1, 3, 8, 8, "distortion");
  kit_refuses("perspective", "{ fill = { 1, 2 } }", 1, 3, 8, 8, "fill has 2 numbers, but image 1 has 3 channels");
  static const int32_t bad[][8] = {{0, 0, 7, 0, 7, 7, 7, 0},       /* a corner on another */
                                   {3, 3, 7, 0, 3, 3, 0, 7},       /* a line */
                                   {0, 0, 7, 0, 2, 2, 0, 7},       /* a corner inwards */
                                   {0, 0, 7, 7, 7, 0, 0, 7},       /* edges that cross */
                                   {0, 0, 1 << 25, 0, 7, 7, 0, 7}, /* far away */
                                   {INT32_MIN, 0, INT32_MAX, 0, INT32_MAX, INT32_MAX, INT32_MIN, 7}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    int32_t corners[16] = {0, 0, 7, 0, 7, 7, 0, 7};
    memcpy(corners + 8, bad[i], sizeof *bad);
    aug_kit k;
    open_given(&k, "{}", 2, 3, 8, 8, SP_U8, 0, corners);
    spt_set_id(k.t, 0, 40);
    spt_set_id(k.t, 1, 41);
    kit_refused(&k, spt_forward(k.t, 0), "sample 41: the 4 corners on 'corners' make no figure");
    kit_close(&k);
  }
}
END_TEST

int main(void) {
  Suite *s = suite_create("perspective");
  TCase *c = tcase_create("perspective");
  tcase_set_timeout(c, 600);
  tcase_add_test(c, corners_go_there);
  tcase_add_test(c, mirrored);
  tcase_add_test(c, properties);
  tcase_add_test(c, draws);
  tcase_add_test(c, chance);
  tcase_add_test(c, refusals);
  suite_add_tcase(s, c);
  return suite_run(s);
}
