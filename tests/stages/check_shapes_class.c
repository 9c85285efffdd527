/* SPDX-License-Identifier: MIT
 * check_shapes_class.c - the built-in sets with one class an image: the same bits everywhere, and the label tells
 * nothing of how much of the picture is the shape. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/kit/reader_kit.h"
#include "base/util.h"
#include "tests/kit/suite.h"

static uint64_t hash_of(spt *t) {
  uint64_t h = SP_FNV64;
  for (int port = 0; port < 3; port++)
    h = sp_fnv64(h, spt_raw(t, SPT_OUT, port, 0), (size_t)sp_spec_bytes(spt_spec(t, SPT_OUT, port, 0)));
  return h;
}

static const struct {
  const char *params;
  uint64_t hash;
} frozen[] = {
    {"{ path = \"shapes\", target = \"class\", size = 64 }", UINT64_C(0x1559DC95C5E00857)},
    {"{ path = \"shapes\", target = \"class\", size = {33, 121}, data_seed = 7 }", UINT64_C(0x26F4503659122BD5)},
    {"{ path = \"random\", target = \"class\", size = 16 }", UINT64_C(0x1E0243F9CB289E6A)},
    {"{ path = \"random\", target = \"class\", size = {5, 7}, classes = 1000 }", UINT64_C(0xD6827C7E34D6419D)},
};

START_TEST(test_same_bits_as_ever) {
  spt *t = open_set(frozen[_i].params, 4);
  make(t, 5, 4);
  uint64_t h = hash_of(t);
  ck_assert_msg(h == frozen[_i].hash, "%s: 0x%016llX", frozen[_i].params, (unsigned long long)h);
  spt_free(t);
}
END_TEST

static const char *const sets[] = {"shapes", "random"};

START_TEST(test_workers_and_batch_do_not_matter) {
  char params[128];
  spt *t[3];
  static const int workers[] = {1, 7, 2};
  for (int k = 0; k < 3; k++) {
    snprintf(params, sizeof params, "{ path = \"%s\", target = \"class\", size = 40, workers = %d }", sets[_i],
             workers[k]);
    t[k] = open_set(params, k < 2 ? 8 : 1);
    make(t[k], k < 2 ? 100 : 103, k < 2 ? 8 : 1);
  }
  ck_assert_uint_eq(hash_of(t[0]), hash_of(t[1]));
  ck_assert_mem_eq(image_of(t[2], 0), image_of(t[0], 3), 40 * 40 * 3);
  ck_assert_mem_eq(mask_of(t[2], 0), mask_of(t[0], 3), 40 * 40);
  ck_assert_int_eq(label_of(t[2], 0), label_of(t[0], 3));
  for (int k = 0; k < 3; k++) spt_free(t[k]);
}
END_TEST

START_TEST(test_random_labels) {
  static const int classes[] = {2, 256, 257, 5000}, dtypes[] = {SP_U8, SP_U8, SP_I32, SP_I32};
  char params[128];
  spt *masks = open_set("{ path = \"random\", size = 4, samples = 20000 }", 20000);
  make(masks, 0, 20000);
  for (int k = 0; k < 4; k++) {
    snprintf(params, sizeof params,
             "{ path = \"random\", target = \"class\", size = 4, samples = 20000, classes = %d }", classes[k]);
    spt *t = open_set(params, 20000);
    int *seen = calloc((size_t)classes[k], sizeof *seen), some = 0;
    double mean = 0;
    make(t, 0, 20000);
    ck_assert_int_eq(spt_spec(t, SPT_OUT, 2, 0)->dtype, dtypes[k]);
    ck_assert_int_eq(spt_spec(t, SPT_OUT, 2, 0)->ndim, 1);
    ck_assert(attr(t, "classes") == classes[k]);
    ck_assert_str_eq(spt_attr_text(t, "class_names"), "");
    for (int i = 0; i < 20000; i++) {
      int label = label_of(t, i);
      ck_assert(label >= 0 && label < classes[k]);
      some += !seen[label]++;
      mean += (label + 0.5) / classes[k] / 20000;
    }
    ck_assert_double_eq_tol(mean, 0.5, 0.01);
    ck_assert_int_gt(some, classes[k] * 95 / 100);
    ck_assert_mem_eq(image_of(t, 0), image_of(masks, 0), 20000 * 48);
    free(seen);
    spt_free(t);
  }
  spt_free(masks);
}
END_TEST

/* The mask is 1 + label on the shape and 0 elsewhere. The label tells nothing of how much of the picture that is. */
START_TEST(test_shapes) {
  enum { MANY = 1500, SIDE = 48, PIXELS = SIDE * SIDE };
  spt *t = open_set("{ path = \"shapes\", target = \"class\", size = 48 }", MANY);
  double n[5] = {0}, area[5] = {0}, all = 0;
  make(t, 0, MANY);
  ck_assert(attr(t, "classes") == 5 && spt_length(t) == 2048);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "cross\ndisc\nring\nsquare\ntriangle");
  for (int i = 0; i < MANY; i++) {
    const uint8_t *m = mask_of(t, i);
    int label = label_of(t, i), on = 0;
    ck_assert(label >= 0 && label < 5);
    for (int k = 0; k < PIXELS; k++) {
      if (m[k] != 0 && m[k] != 1 + label) ck_abort_msg("pixel %d of class %d has %d", k, label, m[k]);
      on += m[k] > 0;
    }
    for (int k = 0; k < SIDE; k++) /* whole: no shape reaches over an edge */
      if (m[k] && m[PIXELS - 1 - k] && m[k * SIDE] && m[k * SIDE + SIDE - 1]) ck_abort_msg("at all edges, %d", k);
    ck_assert_msg(on > 0.06 * PIXELS && on < 0.24 * PIXELS, "sample %d of class %d has %d pixels", i, label, on);
    n[label]++;
    area[label] += on;
    all += (double)on / MANY;
  }
  for (int c = 0; c < 5; c++) {
    ck_assert_msg(n[c] > 0.16 * MANY && n[c] < 0.24 * MANY, "%g of class %d", n[c], c);
    ck_assert_double_eq_tol(area[c] / n[c] / all, 1, 0.05);
  }
  spt_free(t);
}
END_TEST

static const char *const sizes[] = {"{1, 1}", "{1, 300}", "{300, 1}", "{7, 3}", "{2, 1000}", "{1, 16384}"};

START_TEST(test_any_size) {
  char params[96];
  snprintf(params, sizeof params, "{ path = \"shapes\", target = \"class\", size = %s }", sizes[_i]);
  spt *t = open_set(params, 3);
  make(t, 0, 3);
  const sp_spec *s = spt_spec(t, SPT_OUT, 1, 0);
  for (int64_t k = 0; k < s->shape[1] * s->shape[2]; k++)
    ck_assert(mask_of(t, 0)[k] == 0 || mask_of(t, 0)[k] == 1 + label_of(t, 0));
  spt_free(t);
}
END_TEST

int main(void) {
  Suite *s = suite_create("shapes_class");
  TCase *c = tcase_create("shapes_class");
  tcase_set_timeout(c, 600);
  tcase_add_loop_test(c, test_same_bits_as_ever, 0, (int)SP_ARRAY(frozen));
  tcase_add_loop_test(c, test_workers_and_batch_do_not_matter, 0, (int)SP_ARRAY(sets));
  tcase_add_test(c, test_random_labels);
  tcase_add_test(c, test_shapes);
  tcase_add_loop_test(c, test_any_size, 0, (int)SP_ARRAY(sizes));
  suite_add_tcase(s, c);
  return suite_run(s);
}
