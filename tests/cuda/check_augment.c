/* SPDX-License-Identifier: MIT
 * check_augment.c - every stage that changes images on the GPU against the same stage on the cpu, for both types and
 * orders of images, with masks: the same bits, of what is drawn too. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "tests/kit/twin.h"

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

static const struct aug_case {
  const char *stage, *params;
} cases[] = {
    {"batch_crop", "{ size = { 13, 10 } }"},
    {"batch_crop", "{ size = { 13, 10 }, same_on_batch = true }"},
    {"batch_crop", "{ size = { 13, 10 }, mode = \"roi_align\" }"},
    {"batch_resized_crop", "{ size = { 13, 10 } }"},
    {"batch_resized_crop", "{ size = { 50, 70 }, scale = { 0.3, 1 }, same_on_batch = true }"},
    {"batch_resized_crop", "{ size = 7, ratio = { 0.2, 5 }, antialias = false, always = true }"},
    {"batch_resized_crop", "{ size = { 13, 10 }, interpolation = \"bicubic\" }"},
    {"batch_rotate", "{ degrees = 45 }"},
    {"batch_rotate", "{ degrees = 180, fill = 7, mask_fill = 3, same_on_batch = true }"},
    {"batch_rotate", "{ degrees = { -10, 80 }, mode = \"bilinear\", fill = 100.5 }"},
    {"affine", "{ degrees = 30, translate = 0.2, scale = { 0.6, 1.5 }, shear = { -20, 30 }, mask_fill = 3 }"},
    {"affine", "{ degrees = 180, shear = { -20, 20, 5, 40 }, mode = \"bilinear\", fill = 100.5, always = true }"},
    {"affine", "{ translate = { 0.5, 0.1 }, mode = \"bilinear\", center = { 3, 40 }, p = 0.5 }"},
    {"perspective", "{ p = 1, mask_fill = 3 }"},
    {"perspective", "{ distortion = 1, mode = \"nearest\", fill = 100.5, always = true }"},
    {"erase", "{ p = 0.8, value = 9 }"},
    {"erase", "{ size = { 9, 6 }, value = 100.5, erase_masks = true, mask_fill = 3, same_on_batch = true }"},
    {"erase", "{ p = 1, scale = 0.5, ratio = { 0.5, 2 }, value = 100, noise = 80, always = true }"},
    {"elastic", "{ sigma = 1, mask_fill = 3 }"},
    {"elastic", "{ sigma = { 2, 0.5 }, alpha = { 30, 300 }, mode = \"nearest\", p = 0.6 }"},
    {"elastic", "{ sigma = 0, alpha = 20, fill = 100.5, same_on_batch = true, always = true }"},
    {"resize", "{ size = { 67, 80 } }"},
    {"resize", "{ size = { 70, 7 } }"},
    {"resize", "{ size = { 5, 91 } }"},
    {"resize", "{ size = { 33, 29 } }"},
    {"resize", "{ size = { 301, 302 } }"},
    {"resize", "{ size = 1 }"},
    {"resize", "{ size = { 6, 11 }, antialias = false }"},
    {"resize", "{ size = { 31, 17 }, interpolation = \"bicubic\" }"},
    {"resize", "{ size = { 70, 7 }, interpolation = \"bicubic\" }"},
    {"resize", "{ size = 1, interpolation = \"bicubic\" }"},
    {"flip", "{ horizontal = 1 }"},
    {"flip", "{ horizontal = 0, vertical = 1 }"},
    {"flip", "{ vertical = 0.5, always = true }"},
    {"color_jitter", "{ brightness = 0.5, saturation = 0.9 }"},
    {"color_jitter", "{ hue = 0.5, always = true }"},
    {"color_jitter", "{ contrast = { 0.2, 3 } }"},
    {"color_jitter", "{ brightness = 0.5, contrast = 0.5, saturation = 0.5, hue = 0.5 }"},
    {"color_jitter", "{ brightness = 0.5, contrast = 0.5, saturation = 0.5, hue = 0.5, max = 255 }"},
    {"color_jitter", "{ contrast = 0.5, hue = 0.5, same_on_batch = true }"},
    {"blur", "{ kernel = 7 }"},
    {"blur", "{ kernel = 5, same_on_batch = true }"},
    {"blur", "{ kernel = 3, sigma = 1 }"},
    {"blur", "{ kernel = { 17, 11 }, sigma = { 0.5, 8 } }"},
    {"blur", "{ kernel = { 1, 7 } }"},
    {"solarize", "{ threshold = { 0, 1 } }"},
    {"posterize", "{ bits = { 0, 8 }, p = 1 }"},
    {"invert", "{}"},
    {"gamma", "{ gamma = { 0.2, 4 }, gain = 1.1, p = 1 }"},
    {"autocontrast", "{ p = 0.8 }"},
    {"equalize", "{ p = 0.8 }"},
    {"grey", "{ p = 0.7 }"},
    {"channel_drop", "{ p = 1, fill = 0.25, always = true }"},
    {"sharpness", "{ factor = { 0, 9 }, p = 1 }"},
    {"gaussian_noise", "{ sigma = { 0, 0.5 }, mean = 0.1 }"},
    {"gaussian_noise", "{ sigma = 0.5, clip = false, same_on_batch = true }"},
    {"jpeg_noise", "{ quality = { 1, 100 } }"},
    {"jpeg_noise", "{ quality = 50, p = 0.5, always = true }"},
    {"rand_augment", "{ num_ops = 1, magnitude = 30, fill = 0.5 }"},
    {"rand_augment", "{ num_ops = 2, mask_fill = 7 }"},
    {"rand_augment", "{ num_ops = 5, magnitude = 20 }"},
    {"trivial_augment", "{ same_on_batch = true }"},
    {"trivial_augment", "{ num_magnitude_bins = 11, fill = 1, always = true }"},
    {"normalize", "{ mean = 0.45, std = 0.22 }"},
    {"augment", "{}"},
    {"augment", "{ crop = { 13, 10 }, mode = \"roi_align\", degrees = 45 }"},
    {"augment", "{ crop = { 11, 9 }, mode = \"roi_align\", size = { 70, 80 }, degrees = 45, kernel = 7, fill = 0.5 }"},
    {"augment", "{ crop = { 11, 9 }, size = { 27, 9 }, degrees = 180, kernel = { 3, 7 }, mean = 0.4, std = 0.3 }"},
    {"augment", "{ crop = 10, size = { 131, 70 }, degrees = { 70, 110 }, kernel = 3, same_on_batch = true }"},
};

static const int64_t sizes[][4] = {{5, 3, 33, 29}, {2, 1, 21, 40}, {1, 4, 13, 10}, {3, 3, 64, 64}, {1, 3, 40, 300}};

/* Stages whose float images have values of 0..1 alone, and those whose images have three channels, or one. */
static const char *const toned[] = {"solarize",   "posterize",    "invert",          "gamma",     "autocontrast",
                                    "equalize",   "grey",         "channel_drop",    "sharpness", "gaussian_noise",
                                    "jpeg_noise", "rand_augment", "trivial_augment", NULL},
                         *const coloured[] = {"color_jitter",    "grey", "jpeg_noise", "rand_augment",
                                              "trivial_augment", NULL};

static bool one_of(const char *const *list, const char *stage) {
  for (; *list; list++)
    if (!strcmp(*list, stage)) return true;
  return false;
}

/* The bytes as floats. */
static void units(twin *w, const int64_t *size, int order, const uint8_t *bytes) {
  int64_t n = size[0] * size[1] * size[2] * size[3];
  float *v = malloc((size_t)n * sizeof *v);
  ck_assert(v != NULL);
  for (int64_t i = 0; i < n; i++) v[i] = (float)bytes[i] / 255 + (float)(i % 7 - 3) / 2000;
  twin_input(w, 0, SP_F32, 4, size, order, v);
  free(v);
}

/* Masks go in after the images, so that both lists have two tensors. */
static void inputs(twin *w, const int64_t *size, int dtype, int order) {
  int64_t n = size[0] * size[1] * size[2] * size[3], mask[3] = {size[0], size[2], size[3]};
  int64_t other[4] = {size[0], strcmp(w->stage, "channel_drop") ? 1 : size[1], size[2], size[3]};
  uint8_t *bytes = malloc((size_t)n);
  int64_t *labels = malloc((size_t)(mask[0] * mask[1] * mask[2]) * sizeof *labels);
  ck_assert(bytes && labels);
  for (int64_t i = 0; i < n; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 13);
  for (int64_t i = 0; i < mask[0] * mask[1] * mask[2]; i++) labels[i] = (i * 48271 >> 4) - 1000;
  if (dtype == SP_U8) twin_input(w, 0, SP_U8, 4, size, order, bytes);
  else if (one_of(toned, w->stage)) units(w, size, order, bytes);
  else twin_floats(w, 0, 4, size, order, 0, 1);
  twin_input(w, 0, SP_U8, 4, other, SP_ROW_MAJOR, bytes);
  if (spt_ports(w->a, SPT_IN) > 1) {
    twin_input(w, 1, SP_U8, 3, mask, SP_ROW_MAJOR, bytes);
    twin_input(w, 1, SP_I64, 3, mask, SP_ROW_MAJOR, labels);
  }
  free(bytes);
  free(labels);
}

static void one(const struct aug_case *c, const int64_t *size, int dtype, int order, int training) {
  twin w;
  char name[40];
  snprintf(name, sizeof name, "%s", c->params);
  twin_open(&w, c->stage, name, c->params, SP_PRECISION_FP32, (twin_limits){0, 0, 0, 0});
  int64_t own[4] = {size[0], size[1], size[2], size[3]};
  if (one_of(toned, c->stage)) w.least = 0;
  if (own[1] == 4 && one_of(coloured, c->stage)) own[1] = 3;
  inputs(&w, own, dtype, order);
  twin_plan(&w, training);
  twin_forward(&w, 0);
  twin_compare(&w, SPT_OUT);
  twin_repeat(&w, false);
  if (size[0] > 1) {
    twin_run_batch(&w, size[0] - 1);
    twin_forward(&w, 0);
    twin_compare(&w, SPT_OUT);
  }
  twin_close(&w);
}

/* On the emulator each size has one type and order, in turn, in place of all four. */
static bool too_long(size_t s, int d, int o) { return getenv("SP_TEST_SMALL") && s % 4 != (size_t)(2 * d + o); }

START_TEST(same_as_cpu) {
  for (size_t s = 0; s < SP_ARRAY(sizes); s++)
    for (int d = 0; d < 2; d++)
      for (int o = 0; o < 2; o++)
        if (!too_long(s, d, o)) one(&cases[_i], sizes[s], dtypes[d], orders[o], s != 1);
}
END_TEST

/* Images of several tiles, rows that are whole words and such that are not, channels for one block and for many. */
START_TEST(turned_tiles) {
  static const struct aug_case turns[] = {{"batch_rotate", "{ degrees = { 20, 70 }, fill = 200 }"},
                                          {"batch_rotate", "{ degrees = 180, mode = \"bilinear\", fill = 31 }"},
                                          {"batch_rotate", "{ degrees = 0, mode = \"bilinear\" }"}};
  static const int64_t large[][4] = {{2, 3, 70, 132}, {1, 3, 131, 67}, {1, 9, 20, 68}, {2, 4, 67, 24},
                                     {1, 1, 66, 130}, {1, 2, 1, 7},    {1, 3, 9, 1}};
  for (size_t s = 0; s < SP_ARRAY(large); s++)
    for (int d = 0; d < 2; d++)
      for (int o = 0; o < 2; o++)
        if (!too_long(s, d, o)) one(&turns[_i], large[s], dtypes[d], orders[o], 1);
}
END_TEST

/* Angles that are given: whole quarters, all around, some so large that the sine takes another way. */
START_TEST(turned_given) {
  static const float angles[] = {0, 90, -90, 180, 233.3f, -12, 6e6f, -3e30f};
  static const char *const modes[] = {"nearest", "bilinear"};
  static const int64_t size[4] = {SP_ARRAY(angles), 3, 70, 76};
  int64_t shape[1] = {SP_ARRAY(angles)};
  char params[80];
  snprintf(params, sizeof params, "{ degrees = 1, fill = 3, mode = \"%s\" }", modes[_i]);
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++) {
      twin w;
      twin_open(&w, "batch_rotate", modes[_i], params, SP_PRECISION_FP32, (twin_limits){0, 0, 0, 0});
      inputs(&w, size, dtypes[d], orders[o]);
      twin_input(&w, 2, SP_F32, 1, shape, SP_ROW_MAJOR, angles);
      twin_plan(&w, 1);
      twin_forward(&w, 0);
      twin_compare(&w, SPT_OUT);
      twin_close(&w);
    }
}
END_TEST

/* A fill a channel; infinities and the like stay with the pixels that have them. */
START_TEST(turned_fills) {
  static const int64_t some[][4] = {{2, 3, 70, 68}, {2, 3, 66, 35}};
  static const char *const modes[] = {"nearest", "bilinear"};
  char params[80];
  snprintf(params, sizeof params, "{ degrees = 90, fill = { 10, 0.6, 250 }, mode = \"%s\" }", modes[_i]);
  for (size_t s = 0; s < SP_ARRAY(some); s++)
    for (int d = 0; d < 2; d++)
      for (int o = 0; o < 2; o++) {
        twin w;
        size_t n = (size_t)(some[s][0] * some[s][1] * some[s][2] * some[s][3]);
        float *x = malloc(n * sizeof *x);
        ck_assert_ptr_nonnull(x);
        if (d) spt_random(x, (int64_t)n, 3, 0, 1);
        else memset(x, 77, n * sizeof *x);
        for (size_t i = 0; d && i < n; i += n / 6) x[i] = INFINITY; /* the first pixel of every plane or thereabouts */
        twin_open(&w, "batch_rotate", modes[_i], params, SP_PRECISION_FP32, (twin_limits){0, 0, 0, 0});
        twin_input(&w, 0, dtypes[d], 4, some[s], orders[o], x);
        twin_plan(&w, 1);
        twin_forward(&w, 0);
        twin_compare(&w, SPT_OUT);
        ck_assert_int_eq(spt_get(w.b, SPT_OUT, 0, 0, x), SP_OK);
        for (size_t i = 0; d && i < n; i++) ck_assert_msg(!isnan(x[i]), "element %zu is not a number", i);
        twin_close(&w);
        free(x);
      }
}
END_TEST

/* Windows and scales of several tiles; rows that are words and rows that are not, on either side; windows that end
 * where the image does; ratios whose weights are sixteenths, and others. */
START_TEST(sized) {
  static const struct aug_case list[] = {{"batch_crop", "{ size = { 12, 8 }, mode = \"roi_align\" }"},
                                         {"batch_crop", "{ size = { 37, 140 } }"},
                                         {"batch_crop", "{ size = { 37, 140 }, mode = \"roi_align\" }"},
                                         {"batch_crop", "{ size = { 40, 200 }, mode = \"roi_align\" }"},
                                         {"batch_crop", "{ size = { 39, 199 }, mode = \"roi_align\" }"},
                                         {"batch_resized_crop", "{ size = { 33, 70 }, scale = { 0.4, 1 } }"},
                                         {"batch_resized_crop", "{ size = { 36, 48 }, ratio = 1.5 }"},
                                         {"batch_resized_crop", "{ size = { 33, 70 }, interpolation = \"bicubic\" }"},
                                         {"resize", "{ size = { 41, 256 }, interpolation = \"bicubic\" }"},
                                         {"resize", "{ size = { 80, 400 } }"},
                                         {"resize", "{ size = { 64, 320 }, antialias = false }"},
                                         {"resize", "{ size = { 41, 256 } }"},
                                         {"resize", "{ size = { 150, 201 } }"},
                                         {"resize", "{ size = { 20, 100 } }"},
                                         {"resize", "{ size = { 35, 175 } }"},
                                         {"resize", "{ size = { 30, 220 }, antialias = false }"}};
  static const int64_t some[][4] = {
      {5, 3, 40, 200}, {2, 4, 40, 200}, {2, 2, 43, 202}, {1, 8, 40, 203}, {1, 5, 40, 204}};
  for (size_t s = 0; s < SP_ARRAY(some); s++)
    for (int d = 0; d < 2; d++)
      for (int o = 0; o < 2; o++)
        if (!too_long(s, d, o)) one(&list[_i], some[s], dtypes[d], orders[o], 1);
}
END_TEST

/* Windows that are given: the whole image, its corners, one pixel, the output's own size. */
START_TEST(zoomed_given) {
  static const char *const params[] = {"{ size = { 20, 33 } }", "{ size = { 20, 33 }, interpolation = \"bicubic\" }"};
  static const int32_t boxes[][4] = {{0, 0, 70, 76},  {0, 0, 1, 1},    {69, 75, 1, 1}, {5, 9, 20, 33},
                                     {11, 0, 20, 76}, {0, 43, 70, 33}, {30, 40, 9, 8}, {1, 2, 69, 74}};
  static const int64_t size[4] = {SP_ARRAY(boxes), 3, 70, 76};
  int64_t shape[2] = {SP_ARRAY(boxes), 4};
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++) {
      twin w;
      twin_open(&w, "batch_resized_crop", "given", params[_i], SP_PRECISION_FP32, (twin_limits){0, 0, 0, 0});
      inputs(&w, size, dtypes[d], orders[o]);
      twin_input(&w, 2, SP_I32, 2, shape, SP_ROW_MAJOR, boxes);
      twin_plan(&w, 1);
      twin_forward(&w, 0);
      twin_compare(&w, SPT_OUT);
      twin_close(&w);
    }
}
END_TEST

/* Smaller sizes: halves, whose bytes are made of integers between the edges, for one to five channels; several tiles
 * and parts of one; few inputs an output and many; one axis that grows; more planes than blocks; ratios for which no
 * tile fits shared memory. */
START_TEST(shrunk) {
  static const struct shrink_case {
    const char *params;
    int64_t size[4];
  } list[] = {{"{ size = { 33, 132 } }", {2, 3, 66, 264}},
              {"{ size = { 10, 12 } }", {1, 2, 20, 24}},
              {"{ size = { 6, 4 } }", {1, 4, 12, 8}},
              {"{ size = { 35, 8 } }", {3, 1, 70, 16}},
              {"{ size = { 2, 2 } }", {2, 3, 4, 4}},
              {"{ size = { 8, 1 } }", {1, 1, 16, 2}},
              {"{ size = { 20, 16 } }", {2, 5, 40, 32}},
              {"{ size = { 50, 101 } }", {2, 3, 131, 203}},
              {"{ size = { 97, 75 } }", {1, 4, 100, 137}},
              {"{ size = { 30, 45 } }", {1, 7, 70, 150}},
              {"{ size = { 33, 29 } }", {1, 20, 75, 60}},
              {"{ size = { 8, 8 } }", {1, 2, 205, 82}},
              {"{ size = { 1, 1 } }", {1, 1, 130, 129}},
              {"{ size = { 40, 170 } }", {1, 3, 128, 160}},
              {"{ size = { 170, 40 } }", {1, 3, 128, 160}},
              {"{ size = { 4, 5 } }", {290, 2, 11, 12}},
              {"{ size = { 33, 132 }, interpolation = \"bicubic\" }", {2, 3, 66, 264}},
              {"{ size = { 50, 101 }, interpolation = \"bicubic\" }", {2, 4, 131, 203}},
              {"{ size = { 170, 40 }, interpolation = \"bicubic\" }", {1, 3, 128, 160}},
              {"{ size = { 8, 3 }, interpolation = \"bicubic\" }", {1, 2, 205, 82}},
              {"{ size = { 4, 5 }, interpolation = \"bicubic\" }", {290, 2, 11, 12}}};
  struct aug_case c = {"resize", list[_i].params};
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++) one(&c, list[_i].size, dtypes[d], orders[o], 1);
}
END_TEST

/* Many channels, wide and high images, the largest kernel. */
START_TEST(blur_tiles) {
  static const struct aug_case blurs[] = {{"blur", "{ kernel = 7 }"},
                                          {"blur", "{ kernel = { 63, 5 }, sigma = 9 }"},
                                          {"blur", "{ kernel = { 3, 63 }, sigma = 9 }"}};
  static const int64_t large[][4] = {
      {2, 19, 33, 37}, {1, 16, 40, 36}, {1, 3, 75, 204}, {1, 2, 130, 300}, {1, 8, 32, 33}};
  for (size_t s = 0; s < SP_ARRAY(large); s++)
    for (int d = 0; d < 2; d++)
      for (int o = 0; o < 2; o++)
        if (!too_long(s, d, o)) one(&blurs[_i], large[s], dtypes[d], orders[o], 1);
}
END_TEST

/* Small kernels: one group of pixels and rows of some, the last of which overlap, whole warps and parts of one, one
 * strip and many, warps that have none. */
START_TEST(blur_strips) {
  static const struct aug_case blurs[] = {{"blur", "{ kernel = 3 }"},
                                          {"blur", "{ kernel = 5, sigma = { 0.5, 3 } }"},
                                          {"blur", "{ kernel = 7, sigma = 0.8 }"}};
  static const int64_t small[][4] = {{3, 3, 17, 4},  {2, 3, 4, 6},    {2, 1, 5, 12},   {2, 3, 9, 8},
                                     {1, 3, 6, 5},   {1, 2, 40, 20},  {2, 3, 90, 132}, {1, 3, 12, 128},
                                     {1, 1, 7, 516}, {1, 3, 600, 16}, {70, 3, 33, 64}};
  for (size_t s = 0; s < SP_ARRAY(small); s++)
    for (int d = 0; d < 2; d++)
      for (int o = 0; o < 2; o++)
        if (!too_long(s, d, o)) one(&blurs[_i], small[s], dtypes[d], orders[o], 1);
}
END_TEST

/* A mean and a std for each channel, so images of one channel count; runs of elements that are not aligned to four. */
START_TEST(normalized) {
  static const struct norm_case {
    const char *params;
    int64_t size[4];
    int dtype;
  } list[] = {{"{ mean = { 0.485, 0.456, 0.406 }, std = { 0.229, 0.224, 0.225 } }", {5, 3, 33, 29}, SP_F32},
              {"{ mean = { 0.485, 0.456, 0.406 }, std = 0.1 }", {2, 3, 77, 81}, SP_F32},
              {"{ mean = { 123, 116, 103 }, std = { 58, 57, 57.5 } }", {7, 3, 1, 1}, SP_U8},
              {"{ std = { 0.229, 0.224, 0.225 }, scale = true }", {3, 3, 64, 64}, SP_U8},
              {"{ mean = { 1, 2, 3, 4, 5, 6, 7 }, scale = true }", {3, 7, 31, 90}, SP_U8},
              {"{ mean = { 1, 2 }, std = { 3, 7 } }", {3, 2, 3, 1}, SP_F32}};
  for (int o = 0; o < 2; o++) {
    const struct norm_case *l = &list[_i];
    char name[40];
    twin w;
    snprintf(name, sizeof name, "%s", l->params);
    twin_open(&w, "normalize", name, l->params, SP_PRECISION_FP32, (twin_limits){0, 0, 0, 0});
    int64_t n = l->size[0] * l->size[1] * l->size[2] * l->size[3];
    uint8_t *bytes = malloc((size_t)n);
    ck_assert_ptr_nonnull(bytes);
    for (int64_t i = 0; i < n; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    for (int t = 0; t < 2; t++)
      if (l->dtype == SP_U8) twin_input(&w, 0, SP_U8, 4, l->size, orders[(o + t) % 2], bytes);
      else twin_floats(&w, 0, 4, l->size, orders[(o + t) % 2], 0, 1);
    free(bytes);
    twin_plan(&w, 1);
    twin_forward(&w, 0);
    twin_compare(&w, SPT_OUT);
    twin_repeat(&w, false);
    twin_close(&w);
  }
}
END_TEST

/* Parameters that only a kernel sees to be bad: the first bad sample is named. */
static void bad_values_on(int port, const char *stage, const char *params, int dtype, int columns, const void *values,
                          const char *words) {
  static const int64_t size[] = {3, 3, 16, 16};
  int64_t shape[2] = {3, columns};
  for (int side = 0; side < 2; side++) {
    twin w;
    twin_open(&w, stage, "bad values", params, SP_PRECISION_FP32, (twin_limits){0, 0, 0, 0});
    inputs(&w, size, SP_F32, SP_CHANNELS_LAST);
    twin_input(&w, port, dtype, columns > 1 ? 2 : 1, shape, SP_ROW_MAJOR, values);
    twin_plan(&w, 1);
    spt *t = side ? w.b : w.a;
    ck_assert_int_ne(spt_forward(t, 0), SP_OK);
    ck_assert_msg(strstr(spt_error(t), words) != NULL, "'%s' is not in '%s'", words, spt_error(t));
    spt_free(w.a);
    spt_free(w.b);
  }
}

static void bad_values(const char *stage, const char *params, int dtype, int columns, const void *values,
                       const char *words) {
  bad_values_on(2, stage, params, dtype, columns, values, words);
}

START_TEST(bad_boxes) {
  static const int32_t boxes[] = {0, 0, 3, 9, -1, 0};
  bad_values("batch_crop", "{ size = 8 }", SP_I32, 2, boxes,
             "sample 1: a box on 'boxes' begins at 9, but 0..8 is possible");
}
END_TEST

START_TEST(bad_windows) {
  static const int32_t boxes[] = {0, 0, 16, 16, 9, 0, 8, 1, -1, 0, 1, 1};
  bad_values("batch_resized_crop", "{ size = 8 }", SP_I32, 4, boxes,
             "sample 1: a box on 'boxes' is not inside of the image, or has no pixels: 17, where 16 is the bound");
}
END_TEST

START_TEST(bad_angles) {
  static const float angles[] = {0, 1, NAN};
  bad_values("batch_rotate", "{ degrees = 8 }", SP_F32, 1, angles,
             "sample 2: an angle on 'angles' is not a finite number");
}
END_TEST

START_TEST(bad_affines) {
  static const float numbers[] = {1, 2, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, NAN, 0, 0, 1, 0, 0};
  bad_values("affine", "{}", SP_F32, 6, numbers, "sample 1: number 4 of its 6 on 'affines' is bad");
}
END_TEST

/* Maps that are given: none, quarters, far away, so sheared that a row has few pixels of the image,
 * numbers that overflow. */
START_TEST(affine_given) {
  static const float numbers[] = {0, 0,      0,  1,     0, 0, 90, 0,     0,  1,  0,    0, -180,  0.5f,  -3, 1,
                                  0, 0,      10, 1e30f, 0, 1, 0,  0,     0,  0,  0,    1, 89.9f, 0,     0,  -7,
                                  2, 1e-30f, 0,  0,     0, 0, 1,  1e30f, 45, 90, 1e6f, 0, 0,     1e-3f, 0,  0};
  static const int64_t some[][4] = {{8, 3, 33, 29}, {8, 1, 1, 1}, {8, 2, 1, 17}, {8, 4, 12, 1}, {8, 3, 16, 300}},
                       shape[2] = {8, 6};
  for (size_t s = 0; s < SP_ARRAY(some); s++)
    for (int d = 0; d < 2; d++)
      for (int o = 0; o < 2; o++)
        for (int mode = 0; mode < 2; mode++) {
          if (too_long(s, d, o)) continue;
          twin w;
          twin_open(&w, "affine", "given", mode ? "{ mode = \"bilinear\", fill = 9 }" : "{ mask_fill = 7 }",
                    SP_PRECISION_FP32, (twin_limits){0, 0, 0, 0});
          inputs(&w, some[s], dtypes[d], orders[o]);
          twin_input(&w, 2, SP_F32, 2, shape, SP_ROW_MAJOR, numbers);
          twin_plan(&w, 1);
          twin_forward(&w, 0);
          twin_compare(&w, SPT_OUT);
          twin_close(&w);
        }
}
END_TEST

START_TEST(bad_corners) {
  static const int32_t corners[] = {0, 0, 15, 0, 15, 15, 0, 15, 0, 0, 15, 0, 4, 4, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0};
  bad_values("perspective", "{}", SP_I32, 8, corners, "sample 1: the 4 corners on 'corners' make no figure");
}
END_TEST

/* Corners that are given: the image's own, beyond the canvas, with a horizon in it, the other way round. */
START_TEST(perspective_given) {
  static const int32_t corners[] = {0,  0,  28, 0,  28, 32, 0, 32, -9, -20, 50, 3,  28, 40, 0, 32, 13, 15, 15, 15,
                                    28, 32, 0,  32, 28, 0,  0, 0,  0,  32,  28, 32, 0,  0,  3, 0,  3,  2,  0,  2};
  static const int64_t some[][4] = {{5, 3, 33, 29}, {5, 1, 33, 29}, {5, 4, 33, 29}}, shape[2] = {5, 8};
  for (size_t s = 0; s < SP_ARRAY(some); s++)
    for (int d = 0; d < 2; d++)
      for (int o = 0; o < 2; o++)
        for (int mode = 0; mode < 2; mode++) {
          if (too_long(s, d, o)) continue;
          twin w;
          twin_open(&w, "perspective", "given", mode ? "{ mode = \"nearest\", mask_fill = 7 }" : "{ fill = 9 }",
                    SP_PRECISION_FP32, (twin_limits){0, 0, 0, 0});
          inputs(&w, some[s], dtypes[d], orders[o]);
          twin_input(&w, 2, SP_I32, 2, shape, SP_ROW_MAJOR, corners);
          twin_plan(&w, 1);
          twin_forward(&w, 0);
          twin_compare(&w, SPT_OUT);
          twin_close(&w);
        }
}
END_TEST

START_TEST(bad_erased) {
  static const int32_t boxes[] = {0, 0, 16, 16, 9, 0, 8, 1, -1, 0, 1, 1};
  bad_values("erase", "{}", SP_I32, 4, boxes,
             "sample 1: a box on 'boxes' is not inside of the image: 17, where 16 is the bound");
}
END_TEST

/* Fields that are given, with displacements that are no numbers,
 * and images of more columns than a block has threads. */
START_TEST(elastic_given) {
  static const int64_t size[] = {3, 3, 20, 300}, shape[] = {3, 20, 300, 2};
  static float field[3 * 20 * 300 * 2];
  for (int i = 0; i < (int)SP_ARRAY(field); i++) field[i] = sinf((float)i * 0.37f) * (i % 1000 ? 0.2f : NAN);
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++) {
      twin w;
      twin_open(&w, "elastic", _i ? "given" : "wide", o ? "{ fill = 9 }" : "{ mode = \"nearest\", sigma = 4 }",
                SP_PRECISION_FP32, (twin_limits){0, 0, 0, 0});
      inputs(&w, _i ? size : (int64_t[]){1, 3, 50, 530}, dtypes[d], orders[o]);
      if (_i) twin_input(&w, 2, SP_F32, 4, shape, SP_ROW_MAJOR, field);
      twin_plan(&w, 1);
      twin_forward(&w, 0);
      twin_compare(&w, SPT_OUT);
      twin_close(&w);
    }
}
END_TEST

/* Images, masks and labels of every type, whole batches and short ones; rows that are drawn. */
START_TEST(mixed) {
  static const struct aug_case mixes[] = {{"mixup", "{ alpha = 0.4, classes = 7 }"},
                                          {"mixup", "{ alpha = 3, classes = 7, p = 0.7, same_on_batch = true }"},
                                          {"cutmix", "{ classes = 7 }"},
                                          {"cutmix", "{ alpha = 0.2, classes = 7, always = true }"},
                                          {"mixup_or_cutmix", "{ classes = 7, p = 0.9 }"}};
  static const int label_types[] = {SP_U8, SP_I32, SP_I64, SP_F32};
  static const int64_t some[][4] = {{5, 3, 13, 20}, {1, 1, 1, 1}, {7, 4, 9, 31}, {2, 3, 40, 24}};
  for (size_t s = 0; s < SP_ARRAY(some); s++)
    for (int d = 0; d < 2; d++)
      for (int o = 0; o < 2; o++) {
        int64_t n = some[s][0], shape[2] = {n, 7}, y[7], of = some[s][1] * some[s][2] * some[s][3] * n;
        int type = label_types[(s + (size_t)o) % 4];
        uint8_t *bytes = malloc((size_t)of), small[7];
        int32_t middle[7];
        twin w;
        ck_assert_ptr_nonnull(bytes);
        twin_open(&w, mixes[_i].stage, mixes[_i].params, mixes[_i].params, SP_PRECISION_FP32,
                  (twin_limits){0, 0, 0, 0});
        w.least = 0;
        for (int64_t i = 0; i < of; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 13);
        for (int64_t i = 0; i < n; i++) small[i] = (uint8_t)(i % 7), middle[i] = (int32_t)(i % 7), y[i] = i % 7;
        if (dtypes[d] == SP_U8) twin_input(&w, 0, SP_U8, 4, some[s], orders[o], bytes);
        else twin_floats(&w, 0, 4, some[s], orders[o], 0, 1);
        if (!strcmp(mixes[_i].stage, "cutmix"))
          twin_input(&w, 1, SP_U8, 3, (int64_t[]){n, some[s][2], some[s][3]}, SP_ROW_MAJOR, bytes);
        if (type == SP_F32) twin_floats(&w, 3, 2, shape, SP_ROW_MAJOR, 0, 1);
        else
          twin_input(&w, 3, type, 1, shape, SP_ROW_MAJOR,
                     type == SP_U8    ? (void *)small
                     : type == SP_I32 ? (void *)middle
                                      : y);
        twin_plan(&w, s != 1);
        twin_forward(&w, 0);
        twin_compare(&w, SPT_OUT);
        if (n > 1) {
          twin_run_batch(&w, n - 1);
          twin_forward(&w, 3);
          twin_compare(&w, SPT_OUT);
        }
        twin_close(&w);
        free(bytes);
      }
}
END_TEST

START_TEST(bad_mixes) {
  static const float rows[] = {0.5f, 0, 0, 0, 0, 1, 3, 0, 14, 1, -1, 0, 0, 0, 0};
  bad_values("cutmix", "{}", SP_F32, 5, rows,
             "sample 1: 14 on 'mixes' is neither a share of 0 to 1 nor a side of a box inside of the image");
}
END_TEST

START_TEST(bad_flips) {
  static const int32_t flips[] = {0, 1, 1, 3, -1, 0};
  bad_values("flip", "{}", SP_I32, 2, flips, "sample 1: 3 on 'flips', which is neither 0 (leave it) nor 1 (mirror it)");
}
END_TEST

START_TEST(bad_factors) {
  static const float factors[] = {1, 2, 0, 0.5f, 3, 1, 2, 0, 1, 2, 0, 0.5f, 3, 1, 3, 0, -1, 0, 0, 0, 0, 1, 2, 3};
  bad_values("color_jitter", "{}", SP_F32, 8, factors, "sample 1: number 7 of its 8 on 'factors' is bad");
  static const float turns[] = {1, 2, 0, -0.5f, 3, 1, 2, 0, 1, 2, 0, 0.5f, 3, 1, 2, 0, 1, 0, 0, NAN, 0, 1, 2, 3};
  bad_values("color_jitter", "{}", SP_F32, 8, turns, "sample 2: number 4 of its 8 on 'factors' is bad");
}
END_TEST

static void bad_range(float value, const char *words) {
  static const float changes[] = {0, 0, 1, 1};
  int64_t shape[4] = {2, 3, 5, 7}, rows[2] = {2, 2};
  float x[2 * 3 * 5 * 7];
  for (size_t i = 0; i < SP_ARRAY(x); i++) x[i] = i == 150 ? value : 0.5f;
  spt *t = spt_new_on("cuda", "invert", "{}", 1);
  ck_assert_int_eq(spt_input_of(t, 0, SP_F32, 4, shape, SP_ROW_MAJOR, x), 0);
  ck_assert_int_eq(spt_input_of(t, 2, SP_F32, 2, rows, SP_ROW_MAJOR, changes), 0);
  ck_assert_msg(!spt_plan(t, 1), "%s", spt_error(t));
  int status = spt_forward(t, 0);
  ck_assert_msg(words ? status && strstr(spt_error(t), words) : !status, "%g: %s", (double)value, spt_error(t));
  spt_free(t);
}

START_TEST(bad_changes) {
  static const float changes[] = {1, 0.5f, 0, 0, 1, 1.5f};
  bad_values("solarize", "{}", SP_F32, 2, changes, "sample 2: number 2 of its 2 on 'changes' is bad");
  bad_range(200.5f, "sample 1: a float image has a value that is 201, rounded away from 0, where 0..1 is expected");
  bad_range(-1.9f, "sample 1: a float image has a value that is -2, rounded away from 0");
  bad_range(1.0000002f, NULL);
}
END_TEST

/* Factors that are given: the kernel cannot know beforehand whether a mean is needed. Images for one block and for
 * many, and such as are too large for shared memory: the last ones as bytes too. */
START_TEST(given_factors) {
  static const float factors[] = {1, 1, 1, 0, 0, 1, 2, 3, 0.5f, 2, 0.3f, 0.4f, 3, 2, 1, 0, 1, 0.5f, 1, 0, 0, 1, 2, 3};
  static const int64_t some[][4] = {{3, 3, 33, 29},   {3, 1, 64, 64},   {3, 3, 150, 202},
                                    {3, 3, 290, 272}, {3, 1, 601, 500}, {3, 3, 561, 564}};
  int64_t shape[2] = {3, 8};
  for (size_t s = 0; s < SP_ARRAY(some); s++)
    for (int d = 0; d < (s < 5 ? 2 : 1); d++)
      for (int o = 0; o < (some[s][1] > 1 ? 2 : 1); o++) {
        twin w;
        twin_open(&w, "color_jitter", "factors given", "{}", SP_PRECISION_FP32, (twin_limits){0, 0, 0, 0});
        inputs(&w, some[s], dtypes[d], orders[o]);
        twin_input(&w, 2, SP_F32, 2, shape, SP_ROW_MAJOR, factors);
        twin_plan(&w, 1);
        twin_forward(&w, 0);
        twin_compare(&w, SPT_OUT);
        twin_close(&w);
      }
}
END_TEST

/* Factors that bytes overflow with: what is no number becomes 0. */
START_TEST(huge_factors) {
  static const float factors[] = {3e38f, 3e38f, 3e38f, 0.1f, 0,     1, 2,       3,    1, 3e38f, 1e31f, 0,
                                  1,     2,     0,     3,    2e30f, 1, 2.5e38f, 0.2f, 2, 0,     1,     3};
  static const int64_t some[][4] = {{3, 3, 33, 29}, {3, 3, 16, 20}, {3, 1, 12, 12}}, shape[2] = {3, 8};
  for (size_t s = 0; s < SP_ARRAY(some); s++)
    for (int o = 0; o < 2; o++) {
      twin w;
      twin_open(&w, "color_jitter", "huge factors", "{}", SP_PRECISION_FP32, (twin_limits){0, 0, 0, 0});
      inputs(&w, some[s], SP_U8, orders[o]);
      twin_input(&w, 2, SP_F32, 2, shape, SP_ROW_MAJOR, factors);
      twin_plan(&w, 1);
      twin_forward(&w, 0);
      twin_compare(&w, SPT_OUT);
      twin_close(&w);
    }
}
END_TEST

/* Colours that no picture has: beyond white, below black, next to the smallest number. */
START_TEST(odd_colours) {
  static const float above[] = {0,     -0.0f,       1e-40f, 1e-30f,     1e-19f, 8.8e-19f,
                                0.25f, 0.99999994f, 1,      1.0000001f, 2,      1e30f},
                     below[] = {-1, -0.5f, 0.3f, 0.7f, 1.5f};
  static const char *const params[] = {"{ hue = 0.5 }", "{ hue = 0.5, max = 255 }", "{ hue = { 0.5, 0.5 } }",
                                       "{ brightness = 0.9, contrast = 0.9, saturation = 0.9, hue = 0.1 }",
                                       "{ brightness = 0.9, contrast = 0.9, saturation = 0.9, hue = 0.1, max = 255 }"};
  static const int64_t size[] = {3, 3, 24, 24};
  static float values[3 * 3 * 24 * 24];
  for (int o = 0; o < 4; o++) {
    twin w;
    for (size_t i = 0; i < SP_ARRAY(values); i++) {
      size_t at = i * 2654435761u >> 13;
      values[i] = o / 2 ? below[at % SP_ARRAY(below)] : above[at % SP_ARRAY(above)];
    }
    twin_open(&w, "color_jitter", "odd colours", params[_i], SP_PRECISION_FP32, (twin_limits){0, 0, 0, 0});
    twin_input(&w, 0, SP_F32, 4, size, orders[o % 2], values);
    twin_plan(&w, 1);
    twin_forward(&w, 0);
    twin_compare(&w, SPT_OUT);
    twin_close(&w);
  }
}
END_TEST

/* Every way in which three bytes can differ, and a step between two of them. */
START_TEST(all_hues) {
  static const int64_t size[] = {4, 3, 256, 257};
  int64_t n = size[0] * size[2] * size[3];
  uint8_t *bytes = malloc((size_t)n * 3);
  ck_assert_ptr_nonnull(bytes);
  for (int64_t i = 0; i < n; i++) {
    int64_t high = i % 256, low = i / 256 % 256 * high / 255, middle = low + (i * 2654435761 >> 13) % (high - low + 1);
    int64_t by_rank[3] = {high, middle, low};
    for (int64_t c = 0; c < 3; c++) bytes[3 * i + c] = (uint8_t)by_rank[(c * (1 + i % 2) + i / 2) % 3];
  }
  for (int o = 0; o < 2; o++) {
    twin w;
    twin_open(&w, "color_jitter", "all hues", _i ? "{ hue = 0.5, saturation = 0.9 }" : "{ hue = 0.5 }",
              SP_PRECISION_FP32, (twin_limits){0, 0, 0, 0});
    twin_input(&w, 0, SP_U8, 4, size, orders[o], bytes);
    twin_plan(&w, 1);
    twin_forward(&w, 0);
    twin_compare(&w, SPT_OUT);
    twin_close(&w);
  }
  free(bytes);
}
END_TEST

/* Rows of more pieces than a block has threads, with and without a remainder. */
START_TEST(wide_flips) {
  static const int64_t wide[][4] = {{2, 3, 2, 1501}, {2, 1, 3, 4112}, {1, 4, 2, 1280},
                                    {3, 3, 3, 1028}, {2, 3, 5, 16},   {1, 3, 9, 4}};
  for (size_t s = 0; s < SP_ARRAY(wide); s++)
    for (int d = 0; d < 2; d++)
      for (int o = 0; o < 2; o++)
        one(&(struct aug_case){"flip", "{ horizontal = 1, vertical = 1 }"}, wide[s], dtypes[d], orders[o], 1);
}
END_TEST

START_TEST(bad_sigmas) {
  static const float sigmas[] = {1, -1, NAN};
  bad_values("blur", "{}", SP_F32, 1, sigmas, "sample 1: its number on 'sigmas' is negative or not finite");
}
END_TEST

/* The fused stage: many tiles, turned a little or so much that what a tile shows is too much for shared memory, channel
 * counts that are cut, kernels of any size; and so many tensors that a block has many tiles. */
START_TEST(augment_tiles) {
  static const struct aug_case list[] = {
      {"augment", "{ crop = { 66, 75 }, mode = \"roi_align\", size = { 130, 150 }, degrees = 45, kernel = 7 }"},
      {"augment", "{ crop = { 66, 75 }, size = { 66, 151 }, degrees = { 40, 50 }, fill = -0.5, mean = 1, std = 0.3 }"},
      {"augment", "{ degrees = { 43, 47 }, mode = \"roi_align\", kernel = 7, std = 3 }"},
      {"augment", "{ degrees = { 43, 47 }, mode = \"roi_align\", size = { 70, 80 }, kernel = { 63, 5 }, sigma = 9 }"},
      {"augment", "{ crop = 66, size = 100, degrees = 200, kernel = { 3, 63 }, sigma = 9, same_on_batch = true }"}};
  static const int64_t large[][4] = {{2, 3, 67, 75}, {1, 6, 70, 80}, {1, 5, 69, 78}, {3, 1, 66, 76}};
  static const int64_t high[] = {140, 1, 410, 1};
  for (size_t s = 0; s < SP_ARRAY(large); s++)
    for (int d = 0; d < 2; d++)
      for (int o = 0; o < 2; o++) {
        if (too_long(s, d, o)) continue;
        if (_i == 2 || _i == 3) one(&list[_i], (int64_t[]){large[s][0], large[s][1], 66, 76}, dtypes[d], orders[o], 1);
        else one(&list[_i], large[s], dtypes[d], orders[o], 1);
      }
  if (!_i) one(&(struct aug_case){"augment", "{ kernel = { 1, 5 }, degrees = 180 }"}, high, SP_U8, SP_ROW_MAJOR, 1);
}
END_TEST

/* Every port given, to a list of images of several kinds. */
START_TEST(augment_given) {
  static const int64_t size[] = {5, 3, 40, 37}, rows[] = {5, 2};
  static const int32_t boxes[] = {0, 0, 20, 17, 3, 9, 20, 0, 11, 16};
  static const float angles[] = {0, 90, -45, 33, 1e6f}, sigmas[] = {0, 0.4f, 1, 30, 0};
  twin w;
  twin_open(&w, "augment", "given", "{ crop = 20, size = { 77, 70 }, kernel = 7 }", SP_PRECISION_FP32,
            (twin_limits){0, 0, 0, 0});
  for (int o = 0; o < 2; o++) twin_floats(&w, 0, 4, size, orders[o], -1, 1);
  inputs(&w, size, SP_U8, SP_CHANNELS_LAST);
  twin_input(&w, 2, SP_I32, 2, rows, SP_ROW_MAJOR, boxes);
  twin_input(&w, 3, SP_F32, 1, rows, SP_ROW_MAJOR, angles);
  twin_input(&w, 4, SP_F32, 1, rows, SP_ROW_MAJOR, sigmas);
  twin_plan(&w, 1);
  twin_forward(&w, 0);
  twin_compare(&w, SPT_OUT);
  twin_close(&w);
}
END_TEST

START_TEST(augment_bad) {
  static const int32_t boxes[] = {0, 0, 3, 9, -1, 0};
  static const float angles[] = {0, 1, NAN}, sigmas[] = {1, -1, NAN};
  bad_values("augment", "{ crop = 8 }", SP_I32, 2, boxes,
             "sample 1: a box on 'boxes' begins at 9, but 0..8 is possible");
  bad_values_on(3, "augment", "{ crop = 8 }", SP_F32, 1, angles, "sample 2: its angle on 'angles' is not a finite");
  bad_values_on(4, "augment", "{ kernel = 7 }", SP_F32, 1, sigmas, "sample 1: its angle on 'angles' is not a finite");
}
END_TEST

int main(void) {
  Suite *s = suite_create("cuda augment");
  TCase *c = tcase_create("stages");
  tcase_add_loop_test(c, same_as_cpu, 0, (int)SP_ARRAY(cases));
  tcase_add_loop_test(c, turned_tiles, 0, 3);
  tcase_add_loop_test(c, turned_given, 0, 2);
  tcase_add_loop_test(c, turned_fills, 0, 2);
  tcase_add_loop_test(c, sized, 0, 16);
  tcase_add_loop_test(c, zoomed_given, 0, 2);
  tcase_add_loop_test(c, shrunk, 0, 21);
  tcase_add_loop_test(c, blur_tiles, 0, 3);
  tcase_add_loop_test(c, blur_strips, 0, 3);
  tcase_add_loop_test(c, normalized, 0, 6);
  tcase_add_test(c, bad_boxes);
  tcase_add_test(c, bad_windows);
  tcase_add_test(c, bad_angles);
  tcase_add_test(c, bad_affines);
  tcase_add_test(c, affine_given);
  tcase_add_test(c, bad_corners);
  tcase_add_test(c, perspective_given);
  tcase_add_test(c, bad_erased);
  tcase_add_loop_test(c, elastic_given, 0, 2);
  tcase_add_loop_test(c, mixed, 0, 5);
  tcase_add_test(c, bad_mixes);
  tcase_add_test(c, bad_flips);
  tcase_add_test(c, bad_factors);
  tcase_add_test(c, bad_changes);
  tcase_add_test(c, given_factors);
  tcase_add_test(c, huge_factors);
  tcase_add_loop_test(c, odd_colours, 0, 5);
  tcase_add_loop_test(c, all_hues, 0, 2);
  tcase_add_test(c, wide_flips);
  tcase_add_test(c, bad_sigmas);
  tcase_add_loop_test(c, augment_tiles, 0, 5);
  tcase_add_test(c, augment_given);
  tcase_add_test(c, augment_bad);
  suite_add_tcase(s, c);
  return twin_run(s);
}
