/* SPDX-License-Identifier: MIT
 * check_argmax.c - the stage `argmax`. */
#include <check.h>
#include <string.h>

#include "tests/kit/harness.h"
#include "tests/kit/suite.h"

static void ok(spt *t) { ck_assert_msg(!spt_failed(t), "%s", spt_error(t)); }

START_TEST(test_argmax) {
  enum { N = 2, C = 5, H = 97, W = 101 };
  static float in[N * C * H * W];
  static uint8_t out[N * H * W];
  const int64_t shape[] = {N, C, H, W};
  spt_random(in, N * C * H * W, 5, -3, 3);
  for (int i = 0; i < N * C * H * W; i += 3) in[i] = (float)(i % 2); /* equal ones too */
  spt *t = spt_new("argmax", NULL, 3);
  ok(t);
  spt_input_of(t, 0, SP_F32, 4, shape, _i ? SP_CHANNELS_LAST : SP_ROW_MAJOR, in);
  spt_plan(t, 0);
  spt_forward(t, 0);
  ok(t);
  ck_assert_int_eq(spt_get(t, SPT_OUT, 0, 0, out), SP_OK);
  for (int i = 0; i < N * H * W; i++) {
    const float *v = in + i / (H * W) * C * H * W + i % (H * W);
    int best = 0;
    for (int c = 1; c < C; c++)
      if (v[c * H * W] > v[best * H * W]) best = c;
    ck_assert_int_eq(out[i], best);
  }
  spt_free(t);
}
END_TEST

START_TEST(test_argmax_refuses) {
  const int64_t shape[] = {1, 256, 2, 2};
  spt *t = spt_new("argmax", NULL, 1);
  ok(t);
  spt_input_of(t, 0, SP_F32, 4, shape, SP_ROW_MAJOR, NULL);
  ck_assert_int_eq(spt_plan(t, 0), SP_E_SHAPE);
  ck_assert_ptr_nonnull(strstr(spt_error(t), "logits of 256 classes; 1 to 255 fit into a byte"));
  spt_free(t);
}
END_TEST

int main(void) {
  Suite *s = suite_create("argmax");
  TCase *c = tcase_create("argmax");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, test_argmax, 0, 2);
  tcase_add_test(c, test_argmax_refuses);
  suite_add_tcase(s, c);
  return suite_run(s);
}
