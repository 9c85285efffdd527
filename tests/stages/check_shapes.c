/* SPDX-License-Identifier: MIT
 * check_shapes.c - the built-in sets: the same bits everywhere, and colour alone does not give the class away. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/harness.h"
#include "base/util.h"
#include "tests/kit/suite.h"

#define CLASSES 6

static spt *open_set(const char *params, int64_t n) {
  spt *t = spt_new("reader", params, 2);
  ck_assert_ptr_nonnull(t);
  spt_set_batch(t, n);
  if (!spt_failed(t)) spt_plan(t, 0);
  ck_assert_msg(!spt_failed(t), "%s", spt_error(t));
  return t;
}

static void make(spt *t, uint64_t first, int64_t n) {
  for (int64_t i = 0; i < n; i++) spt_set_id(t, i, SP_ID(3, first + (uint64_t)i));
  spt_forward(t, 0);
  ck_assert_msg(!spt_failed(t), "%s", spt_error(t));
}

static uint64_t hash_of(spt *t) {
  uint64_t h = SP_FNV64;
  for (int port = 0; port < 2; port++)
    h = sp_fnv64(h, spt_raw(t, SPT_OUT, port, 0), (size_t)sp_spec_bytes(spt_spec(t, SPT_OUT, port, 0)));
  return h;
}

/* ---- frozen bits ---- */
static const struct {
  const char *params;
  uint64_t hash;
} frozen[] = {
    {"{ path = \"shapes\", size = 64 }", UINT64_C(0x2A36155E84123EF1)},
    {"{ path = \"shapes\", size = 256 }", UINT64_C(0xA536AE51C489A63E)},
    {"{ path = \"shapes\", size = {33, 121} }", UINT64_C(0x4A639CA30C7206EF)},
    {"{ path = \"shapes\", size = 64, data_seed = 7 }", UINT64_C(0x7A22C192E29F854A)},
    {"{ path = \"random\", size = 64 }", UINT64_C(0xE72BCB3B6F330627)},
    {"{ path = \"random\", size = {5, 7}, classes = 3 }", UINT64_C(0x2B26F383547EB4FA)},
};

START_TEST(test_same_bits_as_ever) {
  spt *t = open_set(frozen[_i].params, 4);
  make(t, 5, 4);
  uint64_t h = hash_of(t);
  ck_assert_msg(h == frozen[_i].hash, "%s: 0x%016llX", frozen[_i].params, (unsigned long long)h);
  spt_free(t);
}
END_TEST

START_TEST(test_workers_and_batch_do_not_matter) {
  spt *one = open_set("{ path = \"shapes\", size = 40, workers = 1 }", 8);
  spt *many = open_set("{ path = \"shapes\", size = 40, workers = 7 }", 8);
  spt *single = open_set("{ path = \"shapes\", size = 40 }", 1);
  make(one, 100, 8);
  make(many, 100, 8);
  make(single, 103, 1);
  ck_assert_uint_eq(hash_of(one), hash_of(many));
  const uint8_t *image = spt_raw(one, SPT_OUT, 0, 0), *mask = spt_raw(one, SPT_OUT, 1, 0);
  ck_assert_mem_eq(spt_raw(single, SPT_OUT, 0, 0), image + 3 * 40 * 40 * 3, 40 * 40 * 3);
  ck_assert_mem_eq(spt_raw(single, SPT_OUT, 1, 0), mask + 3 * 40 * 40, 40 * 40);
  spt_free(one);
  spt_free(many);
  spt_free(single);
}
END_TEST

/* ---- odd sizes ---- */
static const char *const sizes[] = {"{1, 1}", "{1, 300}", "{300, 1}", "{7, 3}", "{2, 1000}", "{1, 16384}"};

START_TEST(test_any_size) {
  char params[96];
  snprintf(params, sizeof params, "{ path = \"shapes\", size = %s }", sizes[_i]);
  spt *t = open_set(params, 3);
  make(t, 0, 3);
  const sp_spec *s = spt_spec(t, SPT_OUT, 1, 0);
  const uint8_t *mask = spt_raw(t, SPT_OUT, 1, 0);
  for (int64_t k = 0; k < sp_spec_count(s); k++) ck_assert_uint_lt(mask[k], CLASSES);
  spt_free(t);
}
END_TEST

/* ---- every class is there, about equally often ---- */
START_TEST(test_classes_are_balanced) {
  spt *t = open_set("{ path = \"shapes\", size = 32 }", 500);
  double n[CLASSES] = {0}, all = 500.0 * 32 * 32, classes;
  make(t, 0, 500);
  const uint8_t *mask = spt_raw(t, SPT_OUT, 1, 0);
  for (int k = 0; k < 500 * 32 * 32; k++) n[mask[k]]++;
  for (int c = 1; c < CLASSES; c++)
    ck_assert_msg(n[c] / all > 0.03 && n[c] / all < 0.12, "class %d: %g", c, n[c] / all);
  ck_assert(n[0] / all > 0.4 && n[0] / all < 0.85);
  ck_assert_int_eq(spt_length(t), 2048);
  ck_assert(spt_attr(t, "classes", &classes) && classes == CLASSES);
  spt_free(t);
}
END_TEST

/* ---- a classifier that sees one pixel's colour ---- */
#define BINS (16 * 16 * 16)
#define SIDE 64
#define TRAIN 512
#define TEST 128

static int bin_of(const uint8_t *p) { return (p[0] >> 4) << 8 | (p[1] >> 4) << 4 | p[2] >> 4; }

START_TEST(test_colour_does_not_tell_the_class) {
  static uint32_t votes[BINS][CLASSES];
  static double frequency[CLASSES];
  spt *t = open_set("{ path = \"shapes\", size = 64 }", TEST);
  const uint8_t *image = spt_raw(t, SPT_OUT, 0, 0), *mask = spt_raw(t, SPT_OUT, 1, 0);
  for (int from = 0; from < TRAIN; from += TEST) {
    make(t, (uint64_t)from, TEST);
    for (int k = 0; k < TEST * SIDE * SIDE; k++) {
      votes[bin_of(image + 3 * k)][mask[k]]++;
      frequency[mask[k]]++;
    }
  }
  make(t, TRAIN, TEST);
  for (int weighted = 0; weighted < 2; weighted++) { /* the most votes; and the most relative to the class's size */
    double hit[CLASSES] = {0}, said[CLASSES] = {0}, is[CLASSES] = {0}, mean = 0;
    for (int k = 0; k < TEST * SIDE * SIDE; k++) {
      const uint32_t *v = votes[bin_of(image + 3 * k)];
      int best = 0;
      for (int c = 1; c < CLASSES; c++)
        if (weighted ? v[c] / frequency[c] > v[best] / frequency[best] : v[c] > v[best]) best = c;
      said[best]++;
      is[mask[k]]++;
      hit[mask[k]] += best == mask[k];
    }
    for (int c = 0; c < CLASSES; c++) mean += hit[c] / (said[c] + is[c] - hit[c]) / CLASSES;
    printf("colour alone%s: mean IoU %.3f\n", weighted ? ", classes weighted equally" : "", mean);
    ck_assert_double_lt(mean, 0.5);
  }
  spt_free(t);
}
END_TEST

/* ---- random ---- */
START_TEST(test_random_is_flat) {
  spt *t = open_set("{ path = \"random\", size = 128, classes = 10 }", 8);
  double image[256] = {0}, mask[10] = {0}, n = 8.0 * 128 * 128;
  make(t, 9, 8);
  const uint8_t *p = spt_raw(t, SPT_OUT, 0, 0), *m = spt_raw(t, SPT_OUT, 1, 0);
  for (int k = 0; k < 8 * 128 * 128 * 3; k++) image[p[k]]++;
  for (int k = 0; k < 8 * 128 * 128; k++) {
    ck_assert_uint_lt(m[k], 10);
    mask[m[k]]++;
  }
  for (int i = 0; i < 256; i++) ck_assert_double_eq_tol(image[i] / (3 * n), 1.0 / 256, 0.1 / 256);
  for (int i = 0; i < 10; i++) ck_assert_double_eq_tol(mask[i] / n, 0.1, 0.005);
  spt_free(t);
}
END_TEST

int main(void) {
  Suite *s = suite_create("shapes");
  TCase *c = tcase_create("shapes");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, test_same_bits_as_ever, 0, (int)SP_ARRAY(frozen));
  tcase_add_test(c, test_workers_and_batch_do_not_matter);
  tcase_add_loop_test(c, test_any_size, 0, (int)SP_ARRAY(sizes));
  tcase_add_test(c, test_classes_are_balanced);
  tcase_add_test(c, test_colour_does_not_tell_the_class);
  tcase_add_test(c, test_random_is_flat);
  suite_add_tcase(s, c);
  return suite_run(s);
}
