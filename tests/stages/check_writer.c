/* SPDX-License-Identifier: MIT
 * check_writer.c - the stage `writer`: rows by the samples' numbers, in any order;
 * a file that is whole after each step. */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/kit/harness.h"
#include "tests/kit/suite.h"

enum { N = 3, C = 2, H = 2, W = 4, ROW = C * H * W, HEADER = 256 };
static char path[64];
static float rows[N * ROW];

static void begin(void) {
  snprintf(path, sizeof path, "/tmp/spcore-writer-%ld.npy", (long)getpid());
  spt_random(rows, N * ROW, 9, -1, 1);
}

static void end(void) { unlink(path); }

static spt *writer(const char *file, int dtype, int ndim, const int64_t *shape, int order, const void *data) {
  char params[128];
  snprintf(params, sizeof params, "{ file = \"%s\" }", file);
  spt *t = spt_new("writer", params, 2);
  if (spt_failed(t)) return t;
  spt_input_of(t, 0, dtype, ndim, shape, order, data);
  spt_plan(t, 0);
  return t;
}

static size_t load(uint8_t *to, size_t cap) {
  FILE *f = fopen(path, "rb");
  ck_assert(f != NULL);
  size_t n = fread(to, 1, cap, f);
  fclose(f);
  return n;
}

static void says(const uint8_t *file, const char *wanted) {
  ck_assert_mem_eq(file, "\x93NUMPY\x01\x00\xf6\x00", 10);
  ck_assert_msg(!strncmp((const char *)file + 10, wanted, strlen(wanted)), "%.80s", (const char *)file + 10);
  ck_assert_int_eq(file[HEADER - 1], '\n');
}

static void ok(spt *t) { ck_assert_msg(!spt_failed(t), "%s", spt_error(t)); }

START_TEST(test_rows) {
  const int64_t shape[] = {N, C, H, W};
  static uint8_t file[HEADER + 9 * ROW * 4];
  const float *v = (const float *)(void *)(file + HEADER), zero[ROW] = {0};
  spt *t = writer(path, SP_F32, 4, shape, _i ? SP_CHANNELS_LAST : SP_ROW_MAJOR, rows);
  for (int i = 0; i < N; i++) spt_set_id(t, i, SP_ID(2, 5 - i));
  spt_forward(t, 0);
  ok(t);
  ck_assert_uint_eq(load(file, sizeof file), HEADER + 6 * ROW * 4);
  says(file, "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 2, 2, 4, ), }");
  for (int i = 0; i < N; i++) ck_assert_mem_eq(v + (5 - i) * ROW, rows + i * ROW, ROW * 4);
  for (int i = 0; i < 3; i++) ck_assert_mem_eq(v + i * ROW, zero, ROW * 4);
  spt_run_batch(t, 2);
  for (int i = 0; i < N; i++) spt_set_id(t, i, SP_ID(0, 3 * i)); /* the third is not in this batch */
  spt_forward(t, 1);
  ok(t);
  spt_free(t);
  ck_assert_uint_eq(load(file, sizeof file), HEADER + 6 * ROW * 4);
  ck_assert_mem_eq(v, rows, ROW * 4);
  ck_assert_mem_eq(v + 3 * ROW, rows + ROW, ROW * 4);
  ck_assert_mem_eq(v + 4 * ROW, rows + ROW, ROW * 4);
}
END_TEST

START_TEST(test_types) {
  static const struct {
    int dtype, bytes;
    const char *word;
  } types[] = {{SP_F16, 2, "{'descr': '<f2', 'fortran_order': False, 'shape': (3, ), }"},
               {SP_F64, 8, "{'descr': '<f8', 'fortran_order': False, 'shape': (3, ), }"}};
  const int64_t shape[] = {N};
  uint8_t file[HEADER + 100];
  spt *t = writer(path, types[_i].dtype, 1, shape, 0, rows);
  spt_forward(t, 0);
  ok(t);
  spt_free(t);
  ck_assert_uint_eq(load(file, sizeof file), (size_t)(HEADER + N * types[_i].bytes));
  says(file, types[_i].word);
  ck_assert_mem_eq(file + HEADER, rows, (size_t)(N * types[_i].bytes));
}
END_TEST

/* Steps of a training are no rows; the file says that there are none. */
START_TEST(test_training) {
  const int64_t shape[] = {N, 4};
  uint8_t file[HEADER + 100];
  spt *t = writer(path, SP_F32, 2, shape, 0, rows);
  spt_plan(t, 1);
  spt_forward(t, 0);
  ok(t);
  spt_free(t);
  ck_assert_uint_eq(load(file, sizeof file), HEADER);
  says(file, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4, ), }");
}
END_TEST

static void refuses(spt *t, int status, const char *words) {
  if (!spt_failed(t)) spt_forward(t, 0);
  int good = spt_failed(t) == status && strstr(spt_error(t), words);
  ck_assert_msg(good, "status %d, \"%s\" in: %s", spt_failed(t), words, spt_error(t));
  spt_free(t);
}

START_TEST(test_refusals) {
  const int64_t shape[] = {N, 4};
  refuses(writer("", SP_F32, 2, shape, 0, rows), SP_E_INVALID, "file is empty");
  refuses(writer("/nowhere/x.npy", SP_F32, 2, shape, 0, rows), SP_E_IO, "/nowhere/x.npy: No such file");
  if (!access("/dev/full", W_OK))
    refuses(writer("/dev/full", SP_F32, 2, shape, 0, rows), SP_E_IO, "/dev/full: No space left");
}
END_TEST

int main(void) {
  Suite *s = suite_create("writer");
  TCase *c = tcase_create("writer");
  tcase_set_timeout(c, 60);
  tcase_add_checked_fixture(c, begin, end);
  tcase_add_loop_test(c, test_rows, 0, 2);
  tcase_add_loop_test(c, test_types, 0, 2);
  tcase_add_test(c, test_training);
  tcase_add_test(c, test_refusals);
  suite_add_tcase(s, c);
  return suite_run(s);
}
