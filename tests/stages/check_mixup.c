/* SPDX-License-Identifier: MIT
 * check_mixup.c - mixup, cutmix and mixup_or_cutmix: what chance leaves alone, what depends on a sample alone, and the
 * same bits with any number of threads; tests/parity/warp.py compares values with torchvision's. */
#include "tests/kit/aug_kit.h"
#include "tests/kit/suite.h"

#include <stdlib.h>
#include <string.h>

enum { LABELS = 3 };                   /* in */
enum { OUT_LABELS = 4, OUT_MAIN };     /* out */
enum { N = 6, C = 3, H = 37, W = 41 }; /* of an image */

static const char *const names[] = {"mixup", "cutmix", "mixup_or_cutmix"};

static void open_labelled(aug_kit *k, const char *name, const char *params, int64_t n, int dtype, int order,
                          bool mask) {
  int64_t y[N];
  for (int64_t i = 0; i < n; i++) y[i] = i % 5;
  kit_open(k, name, params, n, C, H, W, dtype, order, mask);
  kit_ok(k, spt_input_of(k->t, LABELS, SP_I64, 1, &n, SP_ROW_MAJOR, y));
}

/* Outside of training nothing is mixed: labels are 1 at the class, unless `always` says otherwise. */
START_TEST(evaluations) {
  for (int always = 0; always < 2; always++) {
    aug_kit k;
    open_labelled(&k, names[_i], always ? "{ classes = 5, always = true }" : "{ classes = 5 }", N, SP_F32, SP_ROW_MAJOR,
                  false);
    kit_plan(&k, 0);
    kit_forward(&k);
    float *x = kit_get(&k, SPT_IN, KIT_IMAGES, 0), *y = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
    float *labels = kit_get(&k, SPT_OUT, OUT_LABELS, 0);
    int64_t *most = kit_get(&k, SPT_OUT, OUT_MAIN, 0);
    bool same = !memcmp(x, y, sizeof *x * N * C * H * W), whole = true;
    for (int i = 0; i < N * 5; i++) whole &= labels[i] == (float)(i % 5 == i / 5 % 5);
    ck_assert(same == !always && whole == !always);
    for (int i = 0; i < N && !always; i++) ck_assert_int_eq(most[i], i % 5);
    free(x), free(y), free(labels), free(most);
    kit_close(&k);
  }
}
END_TEST

/* How a sample is mixed is drawn by its id, whatever its place. */
START_TEST(draws_by_id) {
  float *rows[2];
  for (int turned = 0; turned < 2; turned++) {
    aug_kit k;
    open_labelled(&k, names[_i], "{ classes = 5 }", N, SP_U8, SP_ROW_MAJOR, false);
    kit_plan(&k, 1);
    for (int i = 0; i < N; i++) spt_set_id(k.t, i, SP_ID(3, turned ? N - 1 - i : i));
    kit_forward(&k);
    rows[turned] = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
    kit_close(&k);
  }
  for (int i = 0; i < N; i++) ck_assert_mem_eq(rows[0] + 5 * i, rows[1] + 5 * (N - 1 - i), 5 * sizeof(float));
  ck_assert_mem_ne(rows[0], rows[0] + 5, 5 * sizeof(float));
  free(rows[0]), free(rows[1]);
}
END_TEST

START_TEST(same_bits_for_any_team) {
  uint8_t *first = NULL;
  for (int threads = 1; threads <= 3; threads++) {
    int64_t size[4] = {N, C, 200, 190}, all = N * C * 200 * 190;
    uint8_t *x = malloc((size_t)all);
    ck_assert_ptr_nonnull(x);
    for (int64_t i = 0; i < all; i++) x[i] = (uint8_t)(i * 2654435761u >> 11);
    aug_kit k = {spt_new(names[_i], "{}", threads), N, C, 200, 190};
    kit_ok(&k, spt_input_of(k.t, KIT_IMAGES, SP_U8, 4, size, threads == 2 ? SP_CHANNELS_LAST : SP_ROW_MAJOR, x));
    kit_plan(&k, 1);
    kit_forward(&k);
    free(x);
    x = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
    if (first) ck_assert_mem_eq(x, first, (size_t)all);
    if (first) free(x);
    else first = x;
    kit_close(&k);
  }
  free(first);
}
END_TEST

START_TEST(refused) {
  kit_refuses("mixup", "{ alpha = 0 }", 2, 3, 4, 4, "alpha");
  kit_refuses("cutmix", "{ p = 1.5 }", 2, 3, 4, 4, "'p'");
}
END_TEST

int main(void) {
  Suite *s = suite_create("mixup");
  TCase *c = tcase_create("mixup");
  tcase_add_loop_test(c, evaluations, 0, 3);
  tcase_add_loop_test(c, draws_by_id, 0, 3);
  tcase_add_loop_test(c, same_bits_for_any_team, 0, 3);
  tcase_add_test(c, refused);
  suite_add_tcase(s, c);
  return suite_run(s);
}
