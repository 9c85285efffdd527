/* SPDX-License-Identifier: MIT
 * check_color_jitter.c - the stage color_jitter. */
#include "tests/kit/aug_kit.h"
#include "tests/kit/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};
#define ALL "{ brightness = 0.5, contrast = 0.5, saturation = 0.5, hue = 0.5, max = 255 }"

/* ---- the formulas, one pixel at a time ---- */
typedef struct rgb {
  float v[3];
} rgb;

static float kept(float v, float max, bool bytes) {
  v = v < 0 ? 0 : v > max ? max : v;
  return bytes ? truncf(v) : v;
}

static float grey_of(rgb p, int64_t c, bool bytes) {
  if (c == 1) return p.v[0];
  float left = 0.2989f * p.v[0], middle = 0.587f * p.v[1], right = 0.114f * p.v[2];
  float v = left + middle + right;
  return bytes ? truncf(v) : v;
}

static float clamp1(float v) { return v < 0 ? 0 : v > 1 ? 1 : v; }

static rgb hue_of(rgb p, float turn, float max, bool bytes) {
  for (int i = 0; i < 3; i++) p.v[i] = p.v[i] / max;
  float hi = fmaxf(fmaxf(p.v[0], p.v[1]), p.v[2]), lo = fminf(fminf(p.v[0], p.v[1]), p.v[2]), h = 0, s = 0;
  if (hi != lo) {
    float d = hi - lo, rc = (hi - p.v[0]) / d, gc = (hi - p.v[1]) / d, bc = (hi - p.v[2]) / d;
    s = d / hi;
    h = hi == p.v[0] ? bc - gc : hi == p.v[1] ? 2.0f + rc - bc : 4.0f + gc - rc;
  }
  h = fmodf(h / 6.0f + 1.0f, 1.0f);
  h = fmodf(h + turn, 1.0f);
  if (h < 0) h += 1.0f;
  float six = h * 6.0f, k = floorf(six), f = six - k;
  float a = clamp1(hi * (1.0f - s)), b = clamp1(hi * (1.0f - s * f)), c = clamp1(hi * (1.0f - s * (1.0f - f)));
  const rgb sectors[6] = {{{hi, c, a}}, {{b, hi, a}}, {{a, hi, c}}, {{a, b, hi}}, {{c, a, hi}}, {{hi, a, b}}};
  p = sectors[(int)k % 6];
  if (max == 1) return p;
  for (int i = 0; i < 3; i++) p.v[i] = bytes ? truncf(p.v[i] * max) : p.v[i] * max;
  return p;
}

/* One sample of n pixels of c channels. */
static void reference(rgb *p, int64_t n, int64_t c, const float *f, float max, bool bytes) {
  for (int i = 0; i < 4; i++) {
    int op = (int)f[4 + i];
    float by = f[op];
    if (by == (op == 3 ? 0 : 1) || (c == 1 && op > 1)) continue;
    double sum = 0;
    for (int64_t e = 0; e < n && op == 1; e++) sum += (double)grey_of(p[e], c, bytes);
    float mean = (float)(sum / (double)n);
    for (int64_t e = 0; e < n; e++) {
      float with = op == 0 ? 0 : op == 1 ? mean : grey_of(p[e], c, bytes);
      if (op == 3) p[e] = hue_of(p[e], by, max, bytes);
      else
        for (int64_t k = 0; k < c; k++) {
          float one = by * p[e].v[k], other = (1.0f - by) * with;
          p[e].v[k] = kept(one + other, max, bytes);
        }
    }
  }
}

/* Every order and many factors, the neutral and outermost ones among them, against the formulas. */
static void pictures(int64_t n, int64_t c, int64_t h, int64_t w, int dtype, int order) {
  static const float some[] = {1, 0.4f, 1.7f, 0, 3, 1, 0.9f, 1.25f},
                     turns[] = {0, 0.1f, -0.4f, 0.5f, -0.5f, 0.3f, -1e-9f};
  float *f = malloc((size_t)n * 8 * sizeof *f);
  rgb *p = malloc((size_t)(h * w) * sizeof *p);
  ck_assert(f && p);
  for (int64_t i = 0; i < n; i++) {
    int left[4] = {0, 1, 2, 3};
    for (int k = 0; k < 3; k++) f[8 * i + k] = some[(i * 3 + k * 5 + i / 8) % 8];
    f[8 * i + 3] = turns[i % 7];
    for (int k = 0, at = (int)(i % 24); k < 4; at /= 4 - k, k++) {
      int take = at % (4 - k);
      f[8 * i + 4 + k] = (float)left[take];
      memmove(&left[take], &left[take + 1], (size_t)(3 - take) * sizeof *left);
    }
  }
  aug_kit k;
  int64_t shape[2] = {n, 8};
  kit_open(&k, "color_jitter", "{ max = 255 }", n, c, h, w, dtype, order, true);
  kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 2, shape, SP_ROW_MAJOR, f));
  kit_plan(&k, 1);
  kit_forward(&k);
  const sp_spec *s = spt_spec(k.t, SPT_OUT, KIT_IMAGES, 0);
  ck_assert(s->dtype == dtype && s->order == order && s->shape[1] == c && s->shape[2] == h && s->shape[3] == w);
  void *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
  uint8_t *m = kit_get(&k, SPT_IN, KIT_MASKS, 0), *same = kit_get(&k, SPT_OUT, KIT_MASKS, 0);
  float *told = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
  ck_assert_mem_eq(m, same, (size_t)(n * h * w));
  ck_assert_mem_eq(told, f, (size_t)n * 8 * sizeof *f);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t e = 0; e < c * h * w; e++) p[e % (h * w)].v[e / (h * w)] = (float)kit_at(x, dtype, i * c * h * w + e);
    reference(p, h * w, c, &f[8 * i], 255, dtype == SP_U8);
    for (int64_t e = 0; e < c * h * w; e++) {
      double want = (double)p[e % (h * w)].v[e / (h * w)], got = kit_at(y, dtype, i * c * h * w + e);
      kit_each(got == want,
               "%lld x %lld x %lld x %lld: sample %lld (%g %g %g %g, %g%g%g%g), element %lld: %.9g, not %.9g",
               (long long)n, (long long)c, (long long)h, (long long)w, (long long)i, (double)f[8 * i],
               (double)f[8 * i + 1], (double)f[8 * i + 2], (double)f[8 * i + 3], (double)f[8 * i + 4],
               (double)f[8 * i + 5], (double)f[8 * i + 6], (double)f[8 * i + 7], (long long)e, got, want);
    }
  }
  free(x);
  free(y);
  free(m);
  free(same);
  free(told);
  free(f);
  free(p);
  kit_close(&k);
}

START_TEST(formulas) {
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++) {
      pictures(65, 3, 16, 16, dtypes[d], orders[o]);
      pictures(48, 3, 7, 13, dtypes[d], orders[o]);
      pictures(24, 3, 1, 1, dtypes[d], orders[o]);
      pictures(24, 1, 5, 9, dtypes[d], orders[o]);
      pictures(24, 1, 1, 1, dtypes[d], orders[o]);
      pictures(25, 3, 2, 517, dtypes[d], orders[o]); /* more than a block a row */
      pictures(1, 3, 200, 300, dtypes[d], orders[o]);
    }
}
END_TEST

/* max = 1, where nothing is divided by 255; one picture of each number of channels. */
START_TEST(units) {
  enum { H = 6, W = 5 };
  float v[3 * H * W], f[8] = {1.3f, 0.6f, 1.5f, -0.2f, 3, 1, 2, 0};
  int64_t shape[4] = {1, 3, H, W}, one[4] = {1, 1, H, W}, row[2] = {1, 8};
  rgb p[H * W], q[H * W];
  for (int i = 0; i < 3 * H * W; i++) {
    v[i] = (float)(i * 37 % 91) / 90.0f;
    p[i % (H * W)].v[i / (H * W)] = q[i % (H * W)].v[i / (H * W)] = v[i];
  }
  spt *t = spt_new("color_jitter", "{}", 2);
  aug_kit k = {t, 1, 3, H, W};
  kit_ok(&k, spt_input_of(t, KIT_IMAGES, SP_F32, 4, shape, SP_ROW_MAJOR, v));
  kit_ok(&k, spt_input_of(t, KIT_IMAGES, SP_F32, 4, one, SP_ROW_MAJOR, v));
  kit_ok(&k, spt_input_of(t, KIT_DRAWN, SP_F32, 2, row, SP_ROW_MAJOR, f));
  kit_plan(&k, 1);
  kit_forward(&k);
  float *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0), *z = kit_get(&k, SPT_OUT, KIT_IMAGES, 1);
  reference(p, H * W, 3, f, 1, false);
  reference(q, H * W, 1, f, 1, false);
  for (int i = 0; i < 3 * H * W; i++) ck_assert_float_eq(y[i], p[i % (H * W)].v[i / (H * W)]);
  for (int i = 0; i < H * W; i++) ck_assert_float_eq(z[i], q[i].v[0]);
  free(y);
  free(z);
  kit_close(&k);
}
END_TEST

START_TEST(properties) {
  kit_by_id("color_jitter", ALL);
  kit_by_id("color_jitter", "{ brightness = { 0.5, 2 }, hue = 0.1, max = 255 }");
  kit_draw_modes("color_jitter", ALL, NAN);
}
END_TEST

/* Outside of training, and with everything off: a copy, and neutral factors. */
START_TEST(left_alone) {
  static const float neutral[8] = {1, 1, 1, 0, 0, 1, 2, 3};
  for (int i = 0; i < 8; i++) {
    aug_kit k;
    kit_open(&k, "color_jitter", i & 1 ? ALL : "{}", 3, 3, 21, 19, dtypes[i >> 1 & 1], orders[i >> 2], true);
    kit_plan(&k, !(i & 1));
    kit_forward(&k);
    char *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
    ck_assert_mem_eq(x, y, (size_t)(3 * 3 * 21 * 19) * (i >> 1 & 1 ? sizeof(float) : 1));
    float *f = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
    for (int s = 0; s < 3; s++) ck_assert_mem_eq(&f[8 * s], neutral, i & 1 ? sizeof neutral : 4 * sizeof *neutral);
    free(x);
    free(y);
    free(f);
    kit_close(&k);
  }
}
END_TEST

START_TEST(draws) {
  kit_uniform("color_jitter", "{ brightness = 0.5 }", 2, 2, 0, 0.5, 1.5, 10);
  kit_uniform("color_jitter", "{ contrast = 2 }", 2, 2, 1, 0, 3, 10); /* no factor below 0 */
  kit_uniform("color_jitter", "{ saturation = { 0.25, 4 } }", 2, 2, 2, 0.25, 4, 10);
  kit_uniform("color_jitter", "{ hue = 0.25 }", 2, 2, 3, -0.25, 0.25, 10);
  kit_uniform("color_jitter", "{ hue = { -0.5, 0.125 } }", 2, 2, 3, -0.5, 0.125, 10);
  for (int i = 0; i < 4; i++) kit_uniform("color_jitter", "{ hue = 0.25 }", 2, 2, 4 + i, 0, 4, 4);
  /* what is off, and a range of one number */
  kit_uniform("color_jitter", "{ hue = 0.25 }", 2, 2, 0, 1, 1.0001, 1);
  kit_uniform("color_jitter", "{ brightness = 1 }", 2, 2, 3, 0, 1e-9, 1);
  kit_uniform("color_jitter", "{ brightness = { 3, 3 } }", 2, 2, 0, 3, 3.0001, 1);
}
END_TEST

/* All 24 orders as often; factors and orders know nothing of each other. */
START_TEST(orders_drawn) {
  enum { N = 24000 };
  aug_kit k;
  int often[256] = {0}, known = 0;
  double chi = 0, product = 0;
  kit_open(&k, "color_jitter", ALL, N, 1, 1, 1, SP_U8, SP_ROW_MAJOR, false);
  kit_plan(&k, 1);
  for (int64_t i = 0; i < N; i++) spt_set_id(k.t, i, SP_ID(2, i));
  kit_forward(&k);
  float *f = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
  for (int i = 0; i < N; i++) {
    const float *o = &f[8 * i + 4];
    ck_assert_float_eq(o[0] + o[1] + o[2] + o[3], 6);
    often[(int)o[0] * 64 + (int)o[1] * 16 + (int)o[2] * 4 + (int)o[3]]++;
    product += (double)((f[8 * i] - 1) * (f[8 * i + 1] - 1));
  }
  for (int i = 0; i < 256; i++) {
    known += often[i] > 0;
    if (often[i]) chi += pow(often[i] - N / 24.0, 2) / (N / 24.0);
  }
  ck_assert_int_eq(known, 24);
  ck_assert_double_lt(chi, 49.7);                               /* 99.9 % of 23 degrees of freedom */
  ck_assert_double_lt(fabs(product), 4 * sqrt((double)N) / 12); /* 4 standard deviations */
  free(f);
  kit_close(&k);
}
END_TEST

START_TEST(refusals) {
  kit_refuses("color_jitter", "{}", 1, 4, 8, 8,
              "wrong channel count: image 1 has 4 channels, but colours need 3 (RGB) or 1 (grey)");
  kit_refuses("color_jitter", "{}", 1, 2, 8, 8, "wrong channel count: image 1 has 2 channels");
  kit_refuses("color_jitter", "{ brightness = -0.5 }", 1, 3, 8, 8, "parameter 'brightness': -0.5 is below 0");
  kit_refuses("color_jitter", "{ contrast = { -1, 1 } }", 1, 3, 8, 8, "parameter 'contrast[1]': -1 is below 0");
  kit_refuses("color_jitter", "{ saturation = { 2, 1 } }", 1, 3, 8, 8,
              "parameter 'saturation': {2, 1} ends before it begins; write {lo, hi}");
  kit_refuses("color_jitter", "{ saturation = { 1, 2, 3 } }", 1, 3, 8, 8, "parameter 'saturation': expected 1 to 2");
  kit_refuses("color_jitter", "{ hue = -0.1 }", 1, 3, 8, 8, "parameter 'hue': -0.1 is below 0");
  kit_refuses("color_jitter", "{ hue = 0.6 }", 1, 3, 8, 8, "parameter 'hue': 0.6 is above 0.5");
  kit_refuses("color_jitter", "{ hue = { -0.6, 0 } }", 1, 3, 8, 8, "parameter 'hue[1]': -0.6 is below -0.5");
  kit_refuses("color_jitter", "{ hue = nan }", 1, 3, 8, 8, "parameter 'hue': expected a finite number");
  kit_refuses("color_jitter", "{ max = 2 }", 1, 3, 8, 8, "parameter 'max': 2 is neither 1 nor 255");
  aug_kit k;
  int64_t small[3] = {2, 8, 7}, narrow[2] = {2, 4}, fine[2] = {2, 8};
  kit_open(&k, "color_jitter", "{}", 2, 3, 8, 8, SP_U8, 0, false);
  kit_ok(&k, spt_input_of(k.t, KIT_MASKS, SP_U8, 3, small, 0, NULL));
  kit_refused(&k, spt_plan(k.t, 1), "mask 1 is 8 x 7, but image 1 is 8 x 8");
  kit_close(&k);
  kit_open(&k, "color_jitter", "{}", 2, 3, 8, 8, SP_U8, 0, false);
  kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 2, narrow, 0, NULL));
  kit_refused(&k, spt_plan(k.t, 1), "'factors' must be 2 x 8, one row a sample");
  kit_close(&k);
  static const struct {
    int column;
    float value;
  } bad[] = {{0, -0.5f}, {1, NAN}, {2, INFINITY}, {3, 0.5001f}, {3, -0.6f}, {3, NAN},
             {4, 1},     {5, 4},   {6, 1.5f},     {7, NAN},     {7, -1},    {0, -INFINITY}};
  for (size_t i = 0; i < SP_ARRAY(bad); i++) {
    float f[16] = {1, 2, 0, 0.5f, 0, 1, 2, 3, 1, 2, 0, 0.5f, 0, 1, 2, 3};
    char words[80];
    f[8 + bad[i].column] = bad[i].value;
    /* a second 1: told of the later one */
    snprintf(words, sizeof words, "number %d of its 8 on 'factors' is bad",
             bad[i].column + (bad[i].column == 4 ? 2 : 1));
    kit_open(&k, "color_jitter", "{}", 2, 3, 8, 8, i % 2 ? SP_U8 : SP_F32, 0, true);
    kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_F32, 2, fine, 0, f));
    kit_plan(&k, 1);
    kit_refused(&k, spt_forward(k.t, 0), words);
    kit_close(&k);
  }
  k.t = spt_new("color_jitter", "{}", 1);
  kit_refused(&k, spt_plan(k.t, 1), "wire at least one image to 'images'");
  kit_close(&k);
}
END_TEST

int main(void) {
  Suite *s = suite_create("jitter");
  TCase *c = tcase_create("jitter");
  tcase_set_timeout(c, 600);
  tcase_add_test(c, formulas);
  tcase_add_test(c, units);
  tcase_add_test(c, properties);
  tcase_add_test(c, left_alone);
  tcase_add_test(c, draws);
  tcase_add_test(c, orders_drawn);
  tcase_add_test(c, refusals);
  suite_add_tcase(s, c);
  return suite_run(s);
}
