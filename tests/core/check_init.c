/* SPDX-License-Identifier: MIT
 * check_init.c - first values of weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include <spcore/rng.h>

#include "base/util.h"
#include "params/params.h"
#include "tests/kit/suite.h"

static sp_err err;

static sp_weight uniform(const char *name, int64_t a, int64_t b, int64_t c, int64_t d, double fan_in) {
  return (sp_weight){.name = name,
                     .spec = {.dtype = SP_F32, .ndim = 4, .shape = {a, b, c, d}},
                     .flags = SP_WEIGHT_TRAINED,
                     .init = SP_INIT_UNIFORM,
                     .init_value = fan_in};
}

static void fill(sp_weight w, const char *stage, uint64_t seed, sp_mt19937 *torch, float *dst) {
  void *data[1] = {dst};
  ck_assert_msg(!sp_init_weights(&w, 1, data, stage, seed, torch, &err), "%s", err.msg);
}

/* The number that the C++ standard asks of its mt19937 after 10000 draws from the default seed. */
START_TEST(mersenne_twister) {
  sp_mt19937 mt;
  uint32_t v = 0;
  sp_mt19937_seed(&mt, 5489);
  for (int i = 0; i < 10000; i++) v = sp_mt19937_draw(&mt);
  ck_assert_uint_eq(v, 4123659995u);
  sp_mt19937_seed(&mt, (UINT64_C(7) << 32) | 5489);
  for (int i = 0; i < 10000; i++) v = sp_mt19937_draw(&mt);
  ck_assert_uint_eq(v, 4123659995u);
}
END_TEST

/* torch.manual_seed(42); nn.Linear(3, 2), from PyTorch 1.13.1. */
START_TEST(as_pytorch) {
  static const float weight[6] = {0x1.c40012p-2f, 0x1.eab4cap-2f,  -0x1.1501c4p-3f,
                                  0x1.0f8b68p-1f, -0x1.03122cp-3f, 0x1.dd3334p-4f};
  static const float bias[2] = {-0x1.1fd4fap-2f, 0x1.5b3496p-2f};
  sp_weight w[2] = {
      {.name = "0.weight",
       .spec = {.dtype = SP_F32, .ndim = 2, .shape = {2, 3}},
       .init = SP_INIT_UNIFORM,
       .init_value = 3},
      {.name = "0.bias", .spec = {.dtype = SP_F32, .ndim = 1, .shape = {2}}, .init = SP_INIT_UNIFORM, .init_value = 3}};
  float got_w[6], got_b[2];
  void *data[2] = {got_w, got_b};
  sp_mt19937 mt;
  sp_mt19937_seed(&mt, 42);
  ck_assert_int_eq(sp_init_weights(w, 2, data, "x", 0, &mt, &err), SP_OK);
  for (int i = 0; i < 6; i++) ck_assert_float_eq(got_w[i], weight[i]);
  for (int i = 0; i < 2; i++) ck_assert_float_eq(got_b[i], bias[i]);
}
END_TEST

START_TEST(memory_order_changes_no_value) {
  enum { N = 5 * 7 * 3 * 2 };
  float rows[N], last[N], back[N];
  sp_weight a = uniform("0.weight", 5, 7, 3, 2, 42), b = a;
  b.spec.order = SP_CHANNELS_LAST;
  for (int torch = 0; torch < 2; torch++) {
    sp_mt19937 mt, nt;
    sp_mt19937_seed(&mt, 3), sp_mt19937_seed(&nt, 3);
    fill(a, "x", 3, torch ? &mt : NULL, rows);
    fill(b, "x", 3, torch ? &nt : NULL, last);
    sp_spec_copy(&a.spec, back, &b.spec, last);
    ck_assert_mem_eq(rows, back, sizeof rows);
    ck_assert_mem_ne(rows, last, sizeof rows);
  }
}
END_TEST

START_TEST(philox_depends_on_seed_stage_and_name_only) {
  enum { N = 6 * 5 };
  float a[N], b[N];
  fill(uniform("0.weight", 6, 5, 1, 1, 5), "enc", 1, NULL, a);
  uint64_t key = sp_rng_key(1, "enc.0.weight");
  float hi = (float)(1 / sqrt(5.0));
  for (int i = 0; i < N; i++)
    ck_assert_float_eq(a[i], fmaf(sp_rng_float(sp_rng(key, (uint64_t)i / 4, 0).v[i % 4]), hi + hi, -hi));
  fill(uniform("0.weight", 6, 5, 1, 1, 5), "enc", 1, NULL, b);
  ck_assert_mem_eq(a, b, sizeof a);
  fill(uniform("0.weight", 6, 5, 1, 1, 5), "dec", 1, NULL, b);
  ck_assert_mem_ne(a, b, sizeof a);
  fill(uniform("2.weight", 6, 5, 1, 1, 5), "enc", 1, NULL, b);
  ck_assert_mem_ne(a, b, sizeof a);
  fill(uniform("0.weight", 6, 5, 1, 1, 5), "enc", 2, NULL, b);
  ck_assert_mem_ne(a, b, sizeof a);
}
END_TEST

START_TEST(philox_is_uniform) {
  enum { N = 40000 };
  float *a = malloc(N * sizeof *a);
  double sum = 0, square = 0;
  int slots[16] = {0};
  ck_assert_ptr_nonnull(a);
  fill(uniform("w", 40, 1000, 1, 1, 100), "s", 9, NULL, a);
  for (int i = 0; i < N; i++) {
    ck_assert(a[i] >= -0.1f && a[i] <= 0.1f);
    sum += a[i], square += (double)a[i] * a[i];
    slots[(int)((a[i] + 0.1) / 0.2 * 15.999)]++;
  }
  ck_assert_double_eq_tol(sum / N, 0, 0.002);
  ck_assert_double_eq_tol(square / N, 0.01 / 3, 0.0001);
  for (int i = 0; i < 16; i++) ck_assert_int_gt(slots[i], N / 16 - 300);
  free(a);
}
END_TEST

START_TEST(constants_of_every_type) {
  static const int types[] = {SP_F32, SP_F64, SP_I64, SP_I32, SP_U8, SP_I8};
  for (size_t i = 0; i < SP_ARRAY(types); i++) {
    union {
      float f[3];
      double d[3];
      int64_t l[3];
      int32_t n[3];
      uint8_t u[3];
      int8_t s[3];
    } v;
    void *data[1] = {&v};
    sp_weight w = {.name = "c", .spec = {.dtype = types[i], .ndim = 1, .shape = {3}}, .init_value = 7};
    memset(&v, 0xFF, sizeof v);
    ck_assert_int_eq(sp_init_weights(&w, 1, data, "s", 0, NULL, &err), SP_OK);
    for (int k = 0; k < 3; k++) {
      double got = types[i] == SP_F32   ? v.f[k]
                   : types[i] == SP_F64 ? v.d[k]
                   : types[i] == SP_I64 ? (double)v.l[k]
                   : types[i] == SP_I32 ? v.n[k]
                   : types[i] == SP_U8  ? v.u[k]
                                        : v.s[k];
      ck_assert_double_eq(got, 7);
    }
  }
}
END_TEST

static void refused(sp_weight w, const char *words) {
  float v[8];
  void *data[1] = {v};
  ck_assert_int_ne(sp_init_weights(&w, 1, data, "enc", 0, NULL, &err), SP_OK);
  ck_assert_msg(strstr(err.msg, words) && strstr(err.msg, "enc.w"), "%s", err.msg);
}

START_TEST(refusals) {
  sp_weight w = uniform("w", 1, 1, 1, 1, 0);
  refused(w, "fan-in 0 is not above 0");
  w.init_value = 4, w.spec.dtype = SP_I32;
  refused(w, "only float32 has a random start, not int32");
  w.spec.dtype = SP_F16, w.init = SP_INIT_CONST;
  refused(w, "float16 cannot be initialised");
  w.spec.dtype = SP_F32, w.init = 9;
  refused(w, "unknown initialisation 9");
  w.spec.shape[0] = -1;
  refused(w, "impossible shape");
}
END_TEST

int main(void) {
  Suite *s = suite_create("init");
  TCase *c = tcase_create("init");
  tcase_add_test(c, mersenne_twister);
  tcase_add_test(c, as_pytorch);
  tcase_add_test(c, memory_order_changes_no_value);
  tcase_add_test(c, philox_depends_on_seed_stage_and_name_only);
  tcase_add_test(c, philox_is_uniform);
  tcase_add_test(c, constants_of_every_type);
  tcase_add_test(c, refusals);
  suite_add_tcase(s, c);
  return suite_run(s);
}
