/* SPDX-License-Identifier: MIT
 * check_tones.c - the stages of plugins/modules/tones: what all of them keep to, whatever their operation. What
 * operations make of pixels tests/parity/tones.py compares with torchvision.
 */
#include "tests/kit/aug_kit.h"
#include "tests/kit/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

static const struct {
  const char *stage, *params;
} all[] = {
    {"solarize", "{ threshold = { 0, 1 }, max = 255 }"},
    {"posterize", "{ bits = { 1, 7 }, max = 255 }"},
    {"invert", "{ max = 255 }"},
    {"gamma", "{ gamma = { 0.3, 3 }, max = 255 }"},
    {"autocontrast", "{ max = 255 }"},
    {"equalize", "{ max = 255 }"},
    {"grey", "{ p = 0.5 }"},
    {"channel_drop", "{ drop = { 1, 2 }, fill = { 7, 8, 9 } }"},
    {"sharpness", "{ factor = { 0, 5 }, max = 255 }"},
    {"gaussian_noise", "{ sigma = { 0, 0.3 }, max = 255 }"},
    {"jpeg_noise", "{ quality = { 1, 100 }, max = 255 }"},
    {"rand_augment", "{ num_ops = 3, magnitude = 20, fill = 50, max = 255 }"},
    {"trivial_augment", "{ fill = { 1, 2, 3 }, max = 255 }"},
};

START_TEST(properties) {
  kit_by_id(all[_i].stage, all[_i].params);
  kit_draw_modes(all[_i].stage, all[_i].params, 0);
}
END_TEST

/* The images of a stage with these ids, row-major, to be freed. */
static void *pictures(const char *stage, const char *params, int dtype, int order, int64_t n, uint64_t id) {
  aug_kit k;
  kit_open(&k, stage, params, n, 3, 23, 38, dtype, order, true);
  kit_plan(&k, 1);
  for (int64_t i = 0; i < n; i++) spt_set_id(k.t, i, id + (uint64_t)i);
  kit_forward(&k);
  void *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
  uint8_t *m = kit_get(&k, SPT_IN, KIT_MASKS, 0), *same = kit_get(&k, SPT_OUT, KIT_MASKS, 0);
  if (!strstr(stage, "augment")) ck_assert_mem_eq(m, same, (size_t)(n * 23 * 38));
  free(m);
  free(same);
  kit_close(&k);
  return y;
}

/* The order in memory has no say; the epoch has; masks stay where images do. */
START_TEST(layouts) {
  enum { N = 9, BYTES = N * 3 * 23 * 38 };
  for (int d = 0; d < 2; d++) {
    size_t bytes = BYTES * (dtypes[d] == SP_U8 ? 1 : sizeof(float));
    void *rows = pictures(all[_i].stage, all[_i].params, dtypes[d], orders[0], N, SP_ID(2, 40));
    void *last = pictures(all[_i].stage, all[_i].params, dtypes[d], orders[1], N, SP_ID(2, 40));
    void *later = pictures(all[_i].stage, all[_i].params, dtypes[d], orders[0], N, SP_ID(3, 40));
    ck_assert_msg(!memcmp(rows, last, bytes), "%s: other values in channels-last order", all[_i].stage);
    if (strcmp(all[_i].stage, "autocontrast")) /* which leaves them: they have every value */
      ck_assert_msg(memcmp(rows, later, bytes), "%s: the same values in another epoch", all[_i].stage);
    free(rows);
    free(last);
    free(later);
  }
}
END_TEST

/* Floats that an operation would cut: refused with the range; what only roundings made of white is none. */
static void floats(const char *stage, const char *params, float value, const char *words) {
  int64_t shape[4] = {2, 3, 4, 5}, rows[2] = {2, 2};
  float x[2 * 3 * 4 * 5], changes[4] = {0, 0, 1, 1};
  for (size_t i = 0; i < SP_ARRAY(x); i++) x[i] = 0.5f;
  x[70] = value;
  spt *t = spt_new(stage, params, 2);
  aug_kit k = {.t = t};
  kit_ok(&k, spt_input_of(t, KIT_IMAGES, SP_F32, 4, shape, SP_ROW_MAJOR, x));
  kit_ok(&k, spt_input_of(t, KIT_DRAWN, SP_F32, 2, rows, SP_ROW_MAJOR, changes));
  kit_plan(&k, 1);
  spt_set_id(t, 1, 77);
  if (words) kit_refused(&k, spt_forward(t, 0), words);
  else kit_forward(&k);
  kit_close(&k);
}

START_TEST(ranges) {
  static const char *const bounded[] = {"solarize", "posterize", "invert",         "gamma",     "autocontrast",
                                        "equalize", "sharpness", "gaussian_noise", "jpeg_noise"};
  for (size_t i = 0; i < SP_ARRAY(bounded); i++) {
    floats(bounded[i], "{}", 200.5f, "has a value that is 201, rounded away from 0, where 0..1 is expected");
    floats(bounded[i], "{}", -1.9f, "sample 77: a float image has a value that is -2, rounded away from 0");
    floats(bounded[i], "{}", 1.02f, "set `max = 255` where white is 255");
    floats(bounded[i], "{}", 1.0000002f, NULL);
    floats(bounded[i], "{ max = 255 }", 200.5f, NULL);
    floats(bounded[i], "{ max = 255 }", 257, "is 257, rounded away from 0, where 0..255 is expected");
  }
  floats("grey", "{}", -3, NULL);
  floats("channel_drop", "{}", 300, NULL);
}
END_TEST

static void bad(const char *stage, const char *params, int64_t columns, const float *row, const char *words) {
  aug_kit k;
  int64_t shape[2] = {1, columns};
  kit_open(&k, stage, params, 1, 3, 8, 8, SP_U8, 0, false);
  kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 2, shape, 0, row));
  kit_plan(&k, 1);
  kit_refused(&k, spt_forward(k.t, 0), words);
  kit_close(&k);
}

START_TEST(refusals) {
  kit_refuses("solarize", "{ threshold = 128 }", 1, 3, 8, 8, "parameter 'threshold': 128 is above 1");
  kit_refuses("solarize", "{ threshold = { 0.75, 0.25 } }", 1, 3, 8, 8, "ends before it begins; write {0.25, 0.75}");
  kit_refuses("posterize", "{ bits = 9 }", 1, 3, 8, 8, "parameter 'bits': 9 is above 8");
  kit_refuses("posterize", "{ bits = { 5, 3 } }", 1, 3, 8, 8,
              "parameter 'bits': {5, 3} ends before it begins; write {3, 5}");
  kit_refuses("invert", "{ p = 1.5 }", 1, 3, 8, 8, "parameter 'p': 1.5 is above 1");
  kit_refuses("invert", "{ max = 100 }", 1, 3, 8, 8, "parameter 'max': 100 is neither 1 nor 255");
  kit_refuses("gamma", "{ gamma = -1 }", 1, 3, 8, 8, "parameter 'gamma': -1 is below 0");
  kit_refuses("grey", "{}", 1, 4, 8, 8, "image 1 has 4 channels, but grey needs 3 (RGB) or 1 (grey)");
  kit_refuses("jpeg_noise", "{}", 1, 2, 8, 8, "image 1 has 2 channels, but jpeg_noise needs 3 (RGB) or 1 (grey)");
  kit_refuses("jpeg_noise", "{ quality = 0 }", 1, 3, 8, 8, "parameter 'quality': 0 is below 1");
  kit_refuses("rand_augment", "{}", 1, 5, 8, 8, "image 1 has 5 channels, but rand_augment needs 3 (RGB) or 1 (grey)");
  kit_refuses("rand_augment", "{ magnitude = 31 }", 1, 3, 8, 8,
              "parameter 'magnitude': 31 is not below num_magnitude_bins, 31");
  kit_refuses("rand_augment", "{ num_ops = 9 }", 1, 3, 8, 8, "parameter 'num_ops': 9 is above 8");
  kit_refuses("trivial_augment", "{ fill = 300 }", 1, 3, 8, 8, "parameter 'fill': 300 is no byte, as image 1 has them");
  kit_refuses("channel_drop", "{ drop = 4 }", 1, 3, 8, 8, "image 1 has 3 channels");
  kit_refuses("channel_drop", "{ fill = { 1, 2 } }", 1, 3, 8, 8,
              "parameter 'fill': 2 numbers, but image 1 has 3 channels");
  static const float two[] = {2, 0}, far[] = {1, 1.5f}, nan_[] = {1, NAN}, whole[] = {1, 2.5f}, many[] = {1, 8},
                     menu[] = {1, 0, 14, 0}, second[] = {1, 0, 10, 9}, shift[] = {0, 0, 3, 0.5f};
  bad("invert", "{}", 2, two, "number 1 of its 2 on 'changes' is bad");
  bad("solarize", "{}", 2, far, "number 2 of its 2 on 'changes' is bad");
  bad("gamma", "{}", 2, nan_, "number 2 of its 2");
  bad("posterize", "{}", 2, whole, "number 2 of its 2");
  bad("channel_drop", "{}", 2, many, "number 2 of its 2");
  bad("rand_augment", "{}", 4, menu, "number 3 of its 4");
  bad("rand_augment", "{}", 4, second, "number 4 of its 4");
  bad("rand_augment", "{}", 4, shift, "number 4 of its 4");
  aug_kit k;
  kit_open(&k, "trivial_augment", "{ mask_fill = 300 }", 1, 3, 8, 8, SP_U8, 0, true);
  kit_refused(&k, spt_plan(k.t, 1), "mask_fill is 300, but mask 1 is of bytes: 0..255");
  kit_close(&k);
}
END_TEST

int main(void) {
  Suite *s = suite_create("tones");
  TCase *c = tcase_create("tones");
  tcase_set_timeout(c, 600);
  tcase_add_loop_test(c, properties, 0, (int)SP_ARRAY(all));
  tcase_add_loop_test(c, layouts, 0, (int)SP_ARRAY(all));
  tcase_add_test(c, ranges);
  tcase_add_test(c, refusals);
  suite_add_tcase(s, c);
  return suite_run(s);
}
