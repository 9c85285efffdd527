/* SPDX-License-Identifier: MIT
 * check_resize.c - the stage resize. */
#include "tests/kit/aug_kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/stages/resize/resize.h"
#include "tests/kit/suite.h"

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

/* Weights of one output over a whole axis, in double, without the limits that a span has: those of all pixels that the
 * triangle reaches. Its middle is a float, without antialiasing that
 * of a scale in float. */
static void weights(double *w, int64_t in, int64_t out, int64_t i, bool antialias) {
  float scale = (float)in / (float)out, middle = scale * ((float)i + 0.5f);
  double centre = antialias ? (double)middle : (double)scale * ((double)i + 0.5), total = 0;
  double support = antialias && scale > 1 ? (double)scale : 1;
  for (int64_t x = 0; x < in; x++) {
    w[x] = fmax(0, 1 - fabs((double)x + 0.5 - centre) / support);
    total += w[x];
  }
  for (int64_t x = 0; x < in; x++) w[x] /= total;
}

/* n x c x h x w to oh x ow, against plain loops in double. */
static void against_loops(int64_t n, int64_t c, int64_t h, int64_t w, int64_t oh, int64_t ow, int dtype, int order,
                          bool antialias) {
  char params[96];
  snprintf(params, sizeof params, "{ size = { %lld, %lld }, antialias = %s }", (long long)oh, (long long)ow,
           antialias ? "true" : "false");
  aug_kit k;
  kit_open(&k, "resize", params, n, c, h, w, dtype, order, true);
  kit_plan(&k, 0);
  kit_forward(&k);
  const sp_spec *s = spt_spec(k.t, SPT_OUT, KIT_IMAGES, 0), *ms = spt_spec(k.t, SPT_OUT, KIT_MASKS, 0);
  ck_assert(s->dtype == dtype && s->order == order && s->shape[0] == n && s->shape[1] == c);
  ck_assert(s->shape[2] == oh && s->shape[3] == ow && ms->shape[1] == oh && ms->shape[2] == ow && ms->dtype == SP_U8);
  void *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
  uint8_t *m = kit_get(&k, SPT_IN, KIT_MASKS, 0), *o = kit_get(&k, SPT_OUT, KIT_MASKS, 0);
  double *wx = malloc((size_t)(w * ow) * sizeof *wx), *wy = malloc((size_t)h * sizeof *wy);
  double *row = malloc((size_t)w * sizeof *row);
  ck_assert(wx && wy && row);
  for (int64_t j = 0; j < ow; j++) weights(wx + j * w, w, ow, j, antialias);
  for (int64_t p = 0; p < n * c; p++)
    for (int64_t i = 0; i < oh; i++) {
      weights(wy, h, oh, i, antialias);
      memset(row, 0, (size_t)w * sizeof *row);
      for (int64_t r = 0; r < h; r++)
        for (int64_t l = 0; l < w && wy[r] > 0; l++) row[l] += wy[r] * kit_at(x, dtype, (p * h + r) * w + l);
      for (int64_t j = 0; j < ow; j++) {
        double want = 0, got = kit_at(y, dtype, (p * oh + i) * ow + j);
        for (int64_t l = 0; l < w; l++) want += wx[j * w + l] * row[l];
        /* a byte is the nearest, but for values half way between two; ten roundings of values up to 255 are allowed,
         * and as many more as the sums have terms */
        double slack = 255 * 6e-8 * (10 + sqrt((double)h / (double)oh) + sqrt((double)w / (double)ow));
        if (dtype == SP_U8) slack += 0.5;
        kit_each(fabs(got - want) <= slack, "%lld x %lld to %lld x %lld, plane %lld, %lld, %lld: %.9g, not %.9g",
                 (long long)h, (long long)w, (long long)oh, (long long)ow, (long long)p, (long long)i, (long long)j,
                 got, want);
        if (p % c) continue;
        int64_t from = (p / c * h + (int64_t)((float)i * ((float)h / (float)oh))) * w;
        kit_each(o[(p / c * oh + i) * ow + j] == m[from + (int64_t)((float)j * ((float)w / (float)ow))],
                 "the mask's pixel %lld, %lld is another one's", (long long)i, (long long)j);
      }
    }
  free(x);
  free(y);
  free(m);
  free(o);
  free(wx);
  free(wy);
  free(row);
  kit_close(&k);
}

static const int64_t sizes[][4] = {
    {16, 16, 32, 32}, {13, 17, 29, 31}, {32, 32, 16, 16},   {29, 31, 13, 17},  {40, 9, 7, 33},   {9, 40, 33, 7},
    {1, 1, 5, 4},     {5, 4, 1, 1},     {1, 7, 7, 1},       {7, 1, 1, 7},      {12, 12, 12, 12}, {12, 20, 12, 7},
    {12, 20, 7, 20},  {12, 20, 12, 31}, {12, 20, 30, 20},   {256, 3, 2, 3},    {3, 500, 3, 1},   {2, 2, 3, 3},
    {2, 1, 150, 2},   {1, 2, 3, 700},   {100, 101, 99, 99}, {99, 99, 100, 101}};

START_TEST(every_size) {
  const int64_t *s = sizes[_i];
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++)
      for (int antialias = 0; antialias < 2; antialias++) {
        static const int64_t channels[] = {1, 3, 4, 6};
        for (size_t c = 0; c < SP_ARRAY(channels); c++)
          against_loops(2, channels[c], s[0], s[1], s[2], s[3], dtypes[d], orders[o], antialias);
      }
}
END_TEST

/* Ratios at which the sums have thousands of terms, and outputs of one row that are cut into parts. */
START_TEST(large) {
  against_loops(1, 1, 3, 20000, 2, 1, SP_F32, SP_ROW_MAJOR, true);
  against_loops(1, 3, 20000, 1, 3, 2, SP_U8, SP_CHANNELS_LAST, true);
  against_loops(1, 3, 300, 200, 17, 9, SP_F32, SP_CHANNELS_LAST, true);
  against_loops(1, 1, 400, 300, 150, 171, SP_U8, SP_ROW_MAJOR, true);
  against_loops(1, 1, 40, 30, 400, 200, SP_U8, SP_ROW_MAJOR, true);
}
END_TEST

/* ---- bicubic ---- */
/* Of one output over a whole axis, by the textbook's formula with a = -1/2. */
static void cubic_weights(double *w, int64_t in, int64_t out, int64_t i) {
  double scale = (double)in / (double)out, stretch = fmax(1, scale), centre = ((double)i + 0.5) * scale, total = 0;
  for (int64_t x = 0; x < in; x++) {
    double d = fabs((double)x + 0.5 - centre) / stretch;
    w[x] = d < 1 ? 1.5 * d * d * d - 2.5 * d * d + 1 : d < 2 ? -0.5 * d * d * d + 2.5 * d * d - 4 * d + 2 : 0;
    total += w[x];
  }
  for (int64_t x = 0; x < in; x++) w[x] /= total;
}

/* A sum for bytes: weights are whole numbers of 2^-22, halves go up, and what is beyond a byte is cut off. */
static double cubic_byte_of(const double *w, const double *x, int64_t n, int64_t step) {
  int64_t sum = 1 << 21;
  for (int64_t k = 0; k < n; k++) sum += (int64_t)x[k * step] * (int64_t)lround(w[k] * (1 << 22));
  sum = sum < 0 ? 0 : sum >> 22;
  return (double)(sum > 255 ? 255 : sum);
}
static double cubic_of(const double *w, const double *x, int64_t n, int64_t step, int dtype) {
  double sum = 0;
  if (dtype == SP_U8) return cubic_byte_of(w, x, n, step);
  for (int64_t k = 0; k < n; k++) sum += w[k] * x[k * step];
  return sum;
}

/* Along x, then along y: bytes are equal, also between the two; floats are near. */
static void cubic_against_loops(const int64_t *size, int64_t c, int dtype, int order) {
  int64_t h = size[0], w = size[1], oh = size[2], ow = size[3];
  char params[96];
  snprintf(params, sizeof params, "{ size = { %d, %d }, interpolation = \"bicubic\" }", (int)oh, (int)ow);
  aug_kit k;
  kit_open(&k, "resize", params, 2, c, h, w, dtype, order, true);
  kit_plan(&k, 1);
  kit_forward(&k);
  void *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
  double *weight = malloc((size_t)(h + w) * sizeof *weight), *in = malloc((size_t)(h * w) * sizeof *in);
  double *wide = malloc((size_t)(h * ow) * sizeof *wide);
  ck_assert(weight && in && wide);
  for (int64_t p = 0; p < 2 * c; p++) {
    for (int64_t e = 0; e < h * w; e++) in[e] = kit_at(x, dtype, p * h * w + e);
    for (int64_t j = 0; j < ow; j++) {
      cubic_weights(weight, w, ow, j);
      for (int64_t r = 0; r < h; r++) wide[r * ow + j] = cubic_of(weight, in + r * w, w, 1, dtype);
    }
    for (int64_t i = 0; i < oh; i++) {
      cubic_weights(weight, h, oh, i);
      for (int64_t j = 0; j < ow; j++) {
        double want = cubic_of(weight, wide + j, h, ow, dtype), got = kit_at(y, dtype, (p * oh + i) * ow + j);
        kit_each(fabs(got - want) <= (dtype == SP_U8 ? 0 : 255 * 1e-6),
                 "%d x %d to %d x %d, %d channels, plane %d, %d, %d: %.9g, not %.9g", (int)h, (int)w, (int)oh, (int)ow,
                 (int)c, (int)p, (int)i, (int)j, got, want);
      }
    }
  }
  free(weight);
  free(in);
  free(wide);
  free(x);
  free(y);
  kit_close(&k);
}

START_TEST(cubic) {
  static const int64_t channels[] = {1, 3, 6};
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++)
      for (size_t c = 0; c < SP_ARRAY(channels); c++) cubic_against_loops(sizes[_i], channels[c], dtypes[d], orders[o]);
}
END_TEST

/* More inputs an output than rows are kept, rows that are too long to be turned, parts of one image. */
START_TEST(cubic_large) {
  static const int64_t huge[][4] = {{2000, 3, 3, 5}, {3, 20000, 5, 2}, {2, 50000, 1, 9}, {300, 400, 150, 171}};
  for (size_t i = 0; i < SP_ARRAY(huge); i++) cubic_against_loops(huge[i], 3, SP_U8, SP_CHANNELS_LAST);
  cubic_against_loops(huge[0], 1, SP_F32, SP_ROW_MAJOR);
}
END_TEST

/* Kernels take the short way for two inputs and the general one where the other axis shrinks: the same bits. */
START_TEST(two_as_many) {
  for (int32_t in = 1; in < 3000; in += in < 40 ? 1 : 97)
    for (int32_t out = in; out < 4000; out += out < 60 ? 1 : 131) {
      resize_axis a = resize_axis_of(in, out, 1);
      for (int32_t i = 0; i < out; i++) {
        float second, centre = resize_centre(&a, i);
        int32_t at = resize_two(&a, i, &second), lo, n;
        resize_span(&a, centre, &lo, &n);
        float total = resize_total(&a, centre, lo, n);
        for (int32_t x = lo < at ? lo : at; x < lo + n; x++) {
          float want = x == at ? 1.0f - second : x == at + 1 ? second : 0.0f;
          if (resize_tap(&a, centre, x) / total != want) ck_abort_msg("%d to %d: %d, %d", in, out, i, x);
        }
      }
    }
}
END_TEST

/* A picture of one value keeps it, in bytes to the bit. */
START_TEST(flat) {
  static const uint8_t values[] = {0, 1, 127, 254, 255};
  const char *how = _i ? "bicubic" : "bilinear";
  for (size_t v = 0; v < SP_ARRAY(values); v++)
    for (size_t i = 0; i < SP_ARRAY(sizes); i++) {
      char params[96];
      snprintf(params, sizeof params, "{ size = { %d, %d }, interpolation = \"%s\" }", (int)sizes[i][2],
               (int)sizes[i][3], how);
      int64_t shape[4] = {1, 3, sizes[i][0], sizes[i][1]}, n = 3 * shape[2] * shape[3];
      uint8_t *x = malloc((size_t)n);
      ck_assert_ptr_nonnull(x);
      memset(x, values[v], (size_t)n);
      aug_kit k = {spt_new("resize", params, 2), 1, 3, shape[2], shape[3]};
      kit_ok(&k, spt_input_of(k.t, KIT_IMAGES, SP_U8, 4, shape, SP_CHANNELS_LAST, x));
      kit_plan(&k, 1);
      kit_forward(&k);
      uint8_t *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
      for (int64_t e = 0; e < 3 * sizes[i][2] * sizes[i][3]; e++) ck_assert_uint_eq(y[e], values[v]);
      free(x);
      free(y);
      kit_close(&k);
    }
}
END_TEST

/* Half way between two bytes it is the even one; what is less than none and more than all cannot come out. */
START_TEST(halves) {
  static const uint8_t x[] = {1, 2, 2, 3, 254, 255, 0, 1}, want[] = {2, 2, 254, 0};
  int64_t shape[4] = {1, 1, 1, 8};
  aug_kit k = {spt_new("resize", "{ size = { 1, 4 }, antialias = false }", 1), 1, 1, 1, 8};
  kit_ok(&k, spt_input_of(k.t, KIT_IMAGES, SP_U8, 4, shape, SP_ROW_MAJOR, x));
  kit_plan(&k, 1);
  kit_forward(&k);
  ck_assert_mem_eq(spt_raw(k.t, SPT_OUT, 0, 0), want, 4);
  kit_close(&k);
}
END_TEST

/* A number that is not finite reaches those outputs alone that have a part of it, and a size that stays keeps all. */
START_TEST(not_finite) {
  static const char *const same[] = {"{ size = { 1, 8 } }", "{ size = { 1, 8 }, interpolation = \"bicubic\" }"};
  float x[8] = {-0.0f, 1, 2, INFINITY, 4, 5, 6, NAN}, y[8], z[4];
  int64_t shape[4] = {1, 1, 1, 8};
  aug_kit k = {spt_new("resize", same[_i], 1), 1, 1, 1, 8};
  kit_ok(&k, spt_input_of(k.t, KIT_IMAGES, SP_F32, 4, shape, SP_ROW_MAJOR, x));
  kit_plan(&k, 1);
  kit_forward(&k);
  kit_ok(&k, spt_get(k.t, SPT_OUT, 0, 0, y));
  ck_assert_mem_eq(x, y, sizeof x);
  kit_close(&k);
  k.t = spt_new("resize", "{ size = { 1, 4 }, antialias = false }", 1);
  kit_ok(&k, spt_input_of(k.t, KIT_IMAGES, SP_F32, 4, shape, SP_ROW_MAJOR, x));
  kit_plan(&k, 1);
  kit_forward(&k);
  kit_ok(&k, spt_get(k.t, SPT_OUT, 0, 0, z));
  ck_assert(z[0] == 0.5f && isinf(z[1]) && z[2] == 4.5f && isnan(z[3]));
  kit_close(&k);
  k.t = spt_new("resize", "{ size = { 1, 16 }, interpolation = \"bicubic\" }", 1);
  kit_ok(&k, spt_input_of(k.t, KIT_IMAGES, SP_F32, 4, shape, SP_ROW_MAJOR, x));
  kit_plan(&k, 1);
  kit_forward(&k);
  float wide[16];
  kit_ok(&k, spt_get(k.t, SPT_OUT, 0, 0, wide));
  for (int i = 0; i < 16; i++) /* an output's inputs are the four that are nearest */
    ck_assert_msg(!isfinite(wide[i]) == ((i >= 3 && i <= 10) || i >= 11), "output %d is %g", i, (double)wide[i]);
  kit_close(&k);
}
END_TEST

/* All types of masks, with values that a float has not. */
START_TEST(masks) {
  enum { H = 5, W = 7, OH = 9, OW = 3 };
  int64_t labels[H * W], shape[4] = {1, 1, H, W}, mask[3] = {1, H, W};
  int32_t words[H * W];
  uint8_t bytes[H * W];
  for (int i = 0; i < H * W; i++) {
    labels[i] = INT64_MIN + 1 + i;
    words[i] = INT32_MAX - i;
    bytes[i] = (uint8_t)(255 - i);
  }
  for (int training = 0; training < 2; training++) {
    aug_kit k = {spt_new("resize", "{ size = { 9, 3 } }", 2), 1, 1, H, W};
    kit_ok(&k, spt_input_of(k.t, KIT_IMAGES, SP_U8, 4, shape, SP_ROW_MAJOR, bytes));
    kit_ok(&k, spt_input_of(k.t, KIT_MASKS, SP_I64, 3, mask, SP_ROW_MAJOR, labels));
    kit_ok(&k, spt_input_of(k.t, KIT_MASKS, SP_I32, 3, mask, SP_ROW_MAJOR, words));
    kit_ok(&k, spt_input_of(k.t, KIT_MASKS, SP_U8, 3, mask, SP_ROW_MAJOR, bytes));
    kit_plan(&k, training);
    kit_forward(&k);
    int64_t l[OH * OW];
    int32_t w[OH * OW];
    uint8_t b[OH * OW];
    kit_ok(&k, spt_get(k.t, SPT_OUT, KIT_MASKS, 0, l));
    kit_ok(&k, spt_get(k.t, SPT_OUT, KIT_MASKS, 1, w));
    kit_ok(&k, spt_get(k.t, SPT_OUT, KIT_MASKS, 2, b));
    for (int i = 0; i < OH * OW; i++) {
      int from = i / OW * H / OH * W + i % OW * W / OW;
      ck_assert(l[i] == labels[from] && w[i] == words[from] && b[i] == bytes[from]);
    }
    kit_close(&k);
  }
}
END_TEST

/* Planned anew for other images, an instance has other weights. */
START_TEST(planned_again) {
  uint8_t wide[64], y[4];
  int64_t shape[4] = {1, 1, 8, 8}, small[4] = {1, 1, 2, 2};
  for (int i = 0; i < 64; i++) wide[i] = (uint8_t)(i / 8 / 4 * 100 + i % 8 / 4 * 10);
  for (int turn = 0; turn < 2; turn++) {
    aug_kit k = {spt_new("resize", "{ size = 2 }", 1), 1, 1, 8, 8};
    kit_ok(&k, spt_input_of(k.t, KIT_IMAGES, SP_U8, 4, turn ? small : shape, SP_ROW_MAJOR, wide));
    kit_plan(&k, 1);
    kit_plan(&k, 0);
    kit_forward(&k);
    kit_ok(&k, spt_get(k.t, SPT_OUT, 0, 0, y));
    if (turn) ck_assert_mem_eq(y, wide, 4);
    else ck_assert(y[0] < y[1] && y[1] < y[2] && y[2] < y[3]);
    kit_close(&k);
  }
}
END_TEST

START_TEST(properties) {
  kit_by_id("resize", "{ size = { 20, 17 } }");
  kit_by_id("resize", "{ size = { 50, 60 } }");
  kit_by_id("resize", "{ size = { 300, 17 } }");
  kit_by_id("resize", "{ size = { 20, 200 }, antialias = false }");
  kit_by_id("resize", "{ size = { 20, 50 }, interpolation = \"bicubic\" }");
}
END_TEST

START_TEST(refusals) {
  kit_refuses("resize", "{}", 1, 3, 8, 8, "size");
  kit_refuses("resize", "{ size = 0 }", 1, 3, 8, 8, "size");
  kit_refuses("resize", "{ size = { 4, -1 } }", 1, 3, 8, 8, "size");
  kit_refuses("resize", "{ size = { 4, 4, 4 } }", 1, 3, 8, 8, "size");
  kit_refuses("resize", "{ size = 2000000 }", 1, 3, 8, 8, "size");
  kit_refuses("resize", "{ size = 4, antialias = 3 }", 1, 3, 8, 8, "antialias");
  kit_refuses("resize", "{ size = 4, interpolation = \"cubic\" }", 1, 3, 8, 8, "bicubic");
  kit_refuses("resize", "{ size = 4, interpolation = \"bicubic\", antialias = false }", 1, 3, 8, 8,
              "\"bicubic\" is with antialiasing alone");
  kit_refuses("resize", "{ size = 4 }", 70000, 1, 4, 4, "at most 65535 are possible");
  kit_refuses("resize", "{ size = 1048576 }", 60000, 1024, 1, 1, "too large to count its bytes");
  aug_kit k;
  int64_t other[3] = {2, 8, 7};
  kit_open(&k, "resize", "{ size = 4 }", 2, 3, 8, 8, SP_U8, 0, true);
  kit_ok(&k, spt_input_of(k.t, KIT_MASKS, SP_U8, 3, other, 0, NULL));
  kit_refused(&k, spt_plan(k.t, 1), "mask 2 is 8 x 7, but image 1 is 8 x 8");
  kit_close(&k);
  k.t = spt_new("resize", "{ size = 4 }", 1);
  kit_refused(&k, spt_plan(k.t, 1), "wire at least one image to 'images'");
  kit_close(&k);
}
END_TEST

int main(void) {
  Suite *s = suite_create("resize");
  TCase *c = tcase_create("resize");
  tcase_set_timeout(c, 600);
  tcase_add_loop_test(c, every_size, 0, (int)SP_ARRAY(sizes));
  tcase_add_test(c, large);
  tcase_add_test(c, two_as_many);
  tcase_add_loop_test(c, cubic, 0, (int)SP_ARRAY(sizes));
  tcase_add_test(c, cubic_large);
  tcase_add_loop_test(c, flat, 0, 2);
  tcase_add_test(c, halves);
  tcase_add_loop_test(c, not_finite, 0, 2);
  tcase_add_test(c, masks);
  tcase_add_test(c, planned_again);
  tcase_add_test(c, properties);
  tcase_add_test(c, refusals);
  suite_add_tcase(s, c);
  return suite_run(s);
}
