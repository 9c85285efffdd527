/* SPDX-License-Identifier: MIT
 * check_stages.c - to_float, add, concat, dropout and sleep on the GPU against the same stage on the cpu. */
#include <stdio.h>

#include <check.h>

#include "tests/kit/twin.h"

static const twin_limits same_bits = {0, 0, 0, 0};
static const int orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};
static const char *const order_names[] = {"row-major", "channels last"};

START_TEST(to_float) {
  static const int64_t shapes[][4] = {{3, 3, 16, 16}, {2, 3, 7, 5}, {1, 1, 1, 1}, {1, 3, 61, 59}};
  for (int scale = 0; scale < 2; scale++)
    for (size_t k = 0; k < SP_ARRAY(shapes); k++) {
      uint8_t x[3 * 61 * 59];
      twin w;
      for (size_t i = 0; i < sizeof x; i++) x[i] = (uint8_t)(i * 37 + 11);
      twin_open(&w, "to_float", scale ? "scaled" : "plain", scale ? "{ scale = true }" : NULL, SP_PRECISION_FP32,
                same_bits);
      twin_input(&w, 0, SP_U8, 4, shapes[k], orders[_i], x);
      twin_plan(&w, 1);
      twin_forward(&w, 0);
      twin_compare(&w, SPT_OUT);
      twin_repeat(&w, false);
      if (shapes[k][0] > 1) {
        twin_run_batch(&w, 1);
        twin_forward(&w, 0);
        twin_compare(&w, SPT_OUT);
      }
      twin_close(&w);
    }
}
END_TEST

/* Both ways, added to what is there, with a gradient unwanted, with none coming back, and with fewer samples. */
static void pass_through(twin *w, int64_t n) {
  twin_plan(w, 1);
  twin_forward(w, 0);
  twin_backward(w);
  twin_compare_step(w);
  twin_repeat(w, true);
  twin_set_all(w, SPT_DIN, -1, 1);
  TWIN_BOTH(w, spt_set_acc, 1, 1);
  twin_backward(w);
  twin_compare(w, SPT_DIN);
  TWIN_BOTH(w, spt_set_acc, 0, 0);
  TWIN_BOTH(w, spt_want, SPT_DIN, 0, 0, 0);
  twin_backward(w);
  twin_compare(w, SPT_DIN);
  TWIN_BOTH(w, spt_want, SPT_DIN, 0, 0, 1);
  TWIN_BOTH(w, spt_want, SPT_DOUT, 0, 0, 0);
  twin_backward(w);
  twin_compare(w, SPT_DIN);
  TWIN_BOTH(w, spt_want, SPT_DOUT, 0, 0, 1);
  if (n > 1) {
    twin_run_batch(w, n - 1);
    twin_forward(w, 0);
    twin_backward(w);
    twin_compare_step(w);
  }
  twin_close(w);
}

START_TEST(add) {
  static const int64_t shapes[][4] = {{2, 3, 20, 18}, {3, 5, 7, 3}, {1, 1, 1, 1}};
  for (size_t k = 0; k < SP_ARRAY(shapes); k++)
    for (int n = 1; n <= 40; n += n == 3 ? 37 : 1) { /* 1, 2, 3, 40 tensors */
      char name[40];
      twin w;
      snprintf(name, sizeof name, "%d tensors, %s", n, order_names[_i]);
      twin_open(&w, "add", name, NULL, SP_PRECISION_FP32, same_bits);
      for (int i = 0; i < n; i++) twin_floats(&w, 0, 4, shapes[k], orders[_i], -1, 1);
      pass_through(&w, shapes[k][0]);
    }
}
END_TEST

START_TEST(concat) {
  static const char *const params[] = {NULL, "{ axis = 2 }", "{ axis = 3 }"};
  for (int axis = 1; axis <= 3; axis++)
    for (int n = 1; n <= 3; n++) {
      char name[40];
      twin w;
      snprintf(name, sizeof name, "axis %d, %d tensors, %s", axis, n, order_names[_i]);
      twin_open(&w, "concat", name, params[axis - 1], SP_PRECISION_FP32, same_bits);
      for (int i = 0; i < n; i++) {
        int64_t shape[4] = {3, 4, 6, 7};
        shape[axis] = 3 + 2 * i;
        twin_floats(&w, 0, 4, shape, orders[_i], -1, 1);
      }
      pass_through(&w, 3);
    }
}
END_TEST

START_TEST(dropout) {
  static const char *const params[] = {NULL, "{ p = 0.1 }", "{ p = 0.3, maps = true }", "{ p = 1 }"};
  static const int64_t shapes[][4] = {{3, 5, 30, 18}, {3, 5, 7, 3}, {2, 1, 1, 1}};
  for (size_t k = 0; k < SP_ARRAY(shapes); k++)
    for (size_t i = 0; i < SP_ARRAY(params); i++) {
      char name[60];
      twin w;
      snprintf(name, sizeof name, "%s, %s", params[i] ? params[i] : "defaults", order_names[_i]);
      twin_open(&w, "dropout", name, params[i], SP_PRECISION_FP32, same_bits);
      twin_floats(&w, 0, 4, shapes[k], orders[_i], -1, 1);
      pass_through(&w, shapes[k][0]);
    }
}
END_TEST

START_TEST(sleeping) {
  int64_t shape[4] = {2, 3, 5, 4};
  twin w;
  twin_open(&w, "sleep", "1 ms", "{ ms = 1, backward_ms = 1 }", SP_PRECISION_FP32, same_bits);
  twin_floats(&w, 0, 4, shape, orders[_i], -1, 1);
  twin_floats(&w, 0, 4, shape, orders[_i], -1, 1);
  pass_through(&w, 2);
}
END_TEST

int main(void) {
  Suite *s = suite_create("cuda stages");
  TCase *c = tcase_create("small");
  tcase_add_loop_test(c, to_float, 0, 2);
  tcase_add_loop_test(c, add, 0, 2);
  tcase_add_loop_test(c, concat, 0, 2);
  tcase_add_loop_test(c, dropout, 0, 2);
  tcase_add_loop_test(c, sleeping, 0, 2);
  suite_add_tcase(s, c);
  return twin_run(s);
}
