/* SPDX-License-Identifier: MIT
 * check_reader_outputs.c - outputs of the stage `reader` that nobody reads, and that its data does not have. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/kit/image_files.h"
#include "tests/kit/reader_kit.h"
#include "base/util.h"
#include "tests/kit/suite.h"

static const char *const both_ways[] = {
    "{ path = \"random\", size = 16, samples = 9 }",
    "{ path = \"random\", target = \"class\", size = 16, samples = 9 }",
    "{ path = \"shapes\", size = 16, samples = 9 }",
    "{ path = \"shapes\", target = \"class\", size = 16, samples = 9 }",
};

START_TEST(test_not_wanted) {
  spt *all = open_set(both_ways[_i], 6), *some = open_set(both_ways[_i], 6);
  make(all, 1, 6);
  for (int hide = 1; hide < 4; hide++) {
    spt_want(some, SPT_OUT, 1, 0, !(hide & 1));
    spt_want(some, SPT_OUT, 2, 0, !(hide & 2));
    make(some, 1, 6);
    ck_assert_mem_eq(image_of(some, 0), image_of(all, 0), 6 * 3 * 256);
    if (!(hide & 1)) ck_assert_mem_eq(mask_of(some, 0), mask_of(all, 0), 6 * 256);
    if (!(hide & 2)) ck_assert_mem_eq(spt_raw(some, SPT_OUT, 2, 0), spt_raw(all, SPT_OUT, 2, 0), 6);
  }
  spt_free(all);
  spt_free(some);
}
END_TEST

/* A mask that is not wanted is not even opened. */
START_TEST(test_mask_not_wanted) {
  char params[400];
  if_pair("a", 8, 8, 0);
  if_put("masks/a.png", "broken", 6);
  snprintf(params, sizeof params, "{ path = \"%s\", size = 8, classes = 5 }", if_dir);
  spt *t = open_set(params, 1);
  spt_want(t, SPT_OUT, 1, 0, 0);
  make(t, 0, 1);
  uint8_t *rgb = if_picture(8, 8, 'a');
  ck_assert_mem_eq(image_of(t, 0), rgb, 192);
  free(rgb);
  spt_want(t, SPT_OUT, 1, 0, 1);
  spt_forward(t, 0);
  says(t, SP_E_DATA, "are broken too");
  spt_free(t);
}
END_TEST

/* It says "no label", and a warning tells, once. */
START_TEST(test_not_there) {
  int keep = dup(2), log = open(if_path("log"), O_WRONLY | O_CREAT, 0600);
  ck_assert(keep >= 0 && log >= 0);
  fflush(stderr);
  dup2(log, 2);
  spt *t = open_set("{ path = \"shapes\", size = 8 }", 3);
  spt_plan(t, 0);
  make(t, 0, 3);
  for (int i = 0; i < 3; i++) ck_assert_int_eq(label_of(t, i), 255);
  spt_free(t);
  t = open_set("{ path = \"random\", target = \"class\", size = 8 }", 3);
  make(t, 0, 3);
  for (int k = 0; k < 192; k++) ck_assert_uint_eq(mask_of(t, 0)[k], 255);
  spt_free(t);
  fflush(stderr);
  dup2(keep, 2);
  close(keep);
  close(log);
  if_bytes b = if_read("log");
  b.p[b.n] = 0;
  const char *words = "output 'label' is read, but shapes with target = \"mask\" has none: all of it is \"no label\" "
                      "(255); read 'mask' "
                      "instead, or give target = \"class\"";
  const char *first = strstr((char *)b.p, words);
  ck_assert_msg(first != NULL, "%s", (char *)b.p);
  ck_assert_ptr_null(strstr(first + 1, words));
  ck_assert_ptr_nonnull(strstr(first, "output 'mask' is read, but random with target = \"class\" has none"));
  free(b.p);
}
END_TEST

/* A list of files has no labels by nature: a byte or, where 255 may be a class, -1. */
START_TEST(test_files_have_no_label) {
  char params[600];
  static const struct {
    const char *more;
    int dtype, none;
  } cases[] = {{"classes = 5", SP_U8, 255},
               {"target = \"class\"", SP_U8, 255},
               {"target = \"class\", classes = 255", SP_U8, 255},
               {"target = \"class\", classes = 256", SP_I32, -1}};
  if_pair("a", 4, 4, 0);
  for (size_t k = 0; k < SP_ARRAY(cases); k++) {
    snprintf(params, sizeof params, "{ files = { {\"%s\"} }, size = 4, %s }", if_path("images/a.png"), cases[k].more);
    spt *t = open_set(params, 1);
    make(t, 0, 1);
    ck_assert_int_eq(spt_spec(t, SPT_OUT, 2, 0)->dtype, cases[k].dtype);
    ck_assert_int_eq(label_of(t, 0), cases[k].none);
    ck_assert_uint_eq(mask_of(t, 0)[7], 255);
    spt_free(t);
  }
}
END_TEST

/* Which of the whole set a sample is, and of what size: also where another has taken its place, and after turning. */
START_TEST(test_origin) {
  char params[400];
  if_pair("a", 6, 4, 0);
  if_pair("b", 3, 5, 0);
  if_pair("c", 7, 2, 0);
  if_put("images/b.png", "broken", 6);
  snprintf(params, sizeof params, "{ path = \"%s\", size = 8, classes = 5 }", if_dir);
  spt *t = open_set(params, 3);
  make(t, 0, 3);
  ck_assert_int_eq(spt_spec(t, SPT_OUT, 3, 0)->dtype, SP_I32);
  const int32_t *origin = spt_raw(t, SPT_OUT, 3, 0);
  static const int32_t want[3][3] = {{0, 4, 6}, {-1}, {2, 2, 7}};
  ck_assert_mem_eq(origin, want[0], sizeof want[0]);
  ck_assert_mem_eq(origin + 6, want[2], sizeof want[2]);
  ck_assert(origin[3] == 0 || origin[3] == 2);
  ck_assert_mem_eq(origin + 3, want[origin[3]], sizeof want[0]);
  ck_assert_mem_eq(image_of(t, 1), image_of(t, origin[3]), 192);
  spt_free(t);
  spt *all = open_set("{ path = \"shapes\", size = {4, 7}, samples = 20, split = \"val\", val_fraction = 0.5 }", 10);
  make(all, 0, 10);
  origin = spt_raw(all, SPT_OUT, 3, 0);
  for (int i = 0; i < 10; i++)
    ck_assert(origin[i * 3] > (i ? origin[i * 3 - 3] : -1) && origin[i * 3 + 1] == 4 && origin[i * 3 + 2] == 7);
  ck_assert_int_gt(origin[27], 9);
  ck_assert_str_eq(spt_attr_text(all, "layout"), "shapes");
  ck_assert_str_eq(spt_attr_text(all, "splits"), "train 10 val 10");
  ck_assert_str_eq(spt_attr_text(all, "counts"), "");
  spt_free(all);
}
END_TEST

int main(void) {
  Suite *s = suite_create("reader_outputs");
  TCase *c = tcase_create("reader_outputs");
  tcase_set_timeout(c, 600);
  tcase_add_checked_fixture(c, if_begin, if_end);
  tcase_add_loop_test(c, test_not_wanted, 0, (int)SP_ARRAY(both_ways));
  tcase_add_test(c, test_mask_not_wanted);
  tcase_add_test(c, test_not_there);
  tcase_add_test(c, test_files_have_no_label);
  tcase_add_test(c, test_origin);
  suite_add_tcase(s, c);
  return suite_run(s);
}
