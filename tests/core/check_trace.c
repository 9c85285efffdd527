/* SPDX-License-Identifier: MIT
 * check_trace.c - the trace file and its table: names, tracks, bounds, threads. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/trace.h"

static sp_err err;
static char dir[256], path[300];

static void set_up(void) {
  const char *tmp = getenv("TMPDIR");
  snprintf(dir, sizeof dir, "%s/spcore-trace-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  ck_assert_ptr_nonnull(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/trace.json", dir);
}

static void tear_down(void) {
  unlink(path);
  rmdir(dir);
}

static sp_trace *trace_new(const char *file, size_t max) {
  sp_trace *t = NULL;
  ck_assert_msg(sp_trace_new(&t, file, max, &err) == SP_OK, "%s", err.msg);
  return t;
}

static void observe(sp_trace *t, const char *name, const char *what, uint64_t step, double begin, double ms,
                    void *lane) {
  char copy[64]; /* gone when the trace is written */
  snprintf(copy, sizeof copy, "%s", name);
  sp_trace_observe(t, &(sp_span){copy, what, step, begin, begin + ms * 1e-3, lane});
}

static char *slurp(void) {
  static char text[65536];
  FILE *f = fopen(path, "r");
  ck_assert_ptr_nonnull(f);
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = 0;
  return text;
}

static void has(const char *text, const char *words) {
  ck_assert_msg(strstr(text, words), "no '%s' in:\n%s", words, text);
}

static size_t count(const char *text, const char *words) {
  size_t n = 0;
  for (; (text = strstr(text, words)); text += strlen(words)) n++;
  return n;
}

static int lane_a, lane_b;

START_TEST(writes_tracks_and_calls) {
  sp_trace *t = trace_new(path, 100);
  sp_trace_lane_name(t, &lane_a, "ahead");
  observe(t, "encoder", "forward", 3, 100.0, 2, &lane_a);
  observe(t, "my \"net\"", "backward", 4, 100.001, 0.5, &lane_b);
  ck_assert_int_eq(sp_trace_write(t, &err), SP_OK);
  const char *text = slurp();
  has(text, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"kept\":2,\"dropped\":0},\"traceEvents\":[\n");
  has(text, "\"tid\":1,\"name\":\"thread_name\",\"args\":{\"name\":\"ahead\"}}");
  has(text, "\"tid\":2,\"name\":\"thread_name\",\"args\":{\"name\":\"lane 2\"}}");
  has(text, "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"name\":\"encoder forward\",\"ts\":0.000,\"dur\":2000.000,"
            "\"args\":{\"step\":3}}");
  has(text, "\"tid\":2,\"name\":\"my \\\"net\\\" backward\",\"ts\":1000.000,\"dur\":500.000,"
            "\"args\":{\"step\":4}}\n]}\n");
  ck_assert_int_eq(sp_trace_write(t, &err), SP_E_STATE); /* once */
  sp_trace_free(t);
}
END_TEST

START_TEST(is_bounded) {
  sp_trace *t = trace_new(path, 10);
  for (int i = 0; i < 25; i++) observe(t, "s", "forward", (uint64_t)i, i, 1, NULL);
  ck_assert_int_eq(sp_trace_write(t, &err), SP_OK);
  has(slurp(), "\"kept\":10,\"dropped\":15");
  ck_assert_uint_eq(count(slurp(), "\"ph\":\"X\""), 10);
  sp_sb out = {0};
  sp_trace_summary(t, &out);
  has(sp_sb_str(&out), "15 calls were not kept: the trace holds 10");
  sp_sb_free(&out);
  sp_trace_free(t);
}
END_TEST

START_TEST(sums_up) {
  sp_trace *t = trace_new(NULL, 100);
  sp_sb out = {0};
  sp_trace_lane_name(t, &lane_a, "ahead");
  sp_trace_lane_name(t, &lane_b, "train");
  observe(t, "encoder", "forward", 0, 1.000, 10, &lane_a); /* 10, 20, 60: median 20, total 90 */
  observe(t, "encoder", "forward", 1, 1.010, 60, &lane_a);
  observe(t, "encoder", "forward", 2, 1.070, 20, &lane_a);
  observe(t, "decoder", "forward", 0, 1.010, 4, &lane_b); /* 4, 6: median 5, total 10 */
  observe(t, "decoder", "forward", 1, 1.094, 6, &lane_b);
  sp_trace_summary(t, &out);
  const char *text = sp_sb_str(&out);
  has(text, "encoder                  forward           3       20.000         90.0   90.0%\n");
  has(text, "decoder                  forward           2        5.000         10.0   10.0%\n");
  has(text, "ahead                           3   90.0%\n"); /* of 100 ms */
  has(text, "train                           2   10.0%\n");
  ck_assert_int_eq(sp_trace_write(t, &err), SP_E_STATE); /* no file */
  sp_sb_free(&out);
  sp_trace_free(t);
}
END_TEST

START_TEST(empty_is_valid) {
  sp_trace *t = trace_new(path, 1);
  sp_sb out = {0};
  sp_trace_summary(t, &out);
  ck_assert_int_eq(sp_trace_write(t, &err), SP_OK);
  has(slurp(), "\"args\":{\"name\":\"spcore\"}}\n]}\n");
  sp_sb_free(&out);
  sp_trace_free(t);
}
END_TEST

static void *observer(void *arg) {
  char *const lane[3] = {NULL, dir, path};
  for (int i = 0; i < 1000; i++) observe(arg, i & 1 ? "odd" : "even", "forward", (uint64_t)i, i, 1, lane[i % 3]);
  return NULL;
}

START_TEST(takes_any_thread) {
  enum { THREADS = 4 };
  pthread_t thread[THREADS];
  sp_trace *t = trace_new(path, 3500);
  for (int i = 0; i < THREADS; i++) ck_assert_int_eq(pthread_create(&thread[i], NULL, observer, t), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  ck_assert_int_eq(sp_trace_write(t, &err), SP_OK);
  has(slurp(), "\"kept\":3500,\"dropped\":500");
  sp_trace_free(t);
}
END_TEST

START_TEST(says_what_is_wrong) {
  sp_trace *t = NULL;
  ck_assert_int_eq(sp_trace_new(&t, "/nowhere/at/all.json", 10, &err), SP_E_IO);
  has(err.msg, "cannot write the trace '/nowhere/at/all.json': No such file or directory");
  ck_assert_ptr_null(t);
  ck_assert_int_eq(sp_trace_new(&t, path, 0, &err), SP_E_RANGE);
  if (access("/dev/full", W_OK)) return;
  t = trace_new("/dev/full", 10);
  observe(t, "s", "forward", 0, 0, 1, NULL);
  ck_assert_int_eq(sp_trace_write(t, &err), SP_E_IO);
  has(err.msg, "'/dev/full': No space left on device");
  sp_trace_free(t);
  t = trace_new("/dev/full", 1000); /* more than one buffer of the file */
  for (int i = 0; i < 1000; i++) observe(t, "s", "forward", 0, i, 1, NULL);
  ck_assert_int_eq(sp_trace_write(t, &err), SP_E_IO);
  has(err.msg, "'/dev/full': No space left on device");
  sp_trace_free(t);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("trace");
  TCase *tc = tcase_create("trace");
  tcase_add_checked_fixture(tc, set_up, tear_down);
  tcase_add_test(tc, writes_tracks_and_calls);
  tcase_add_test(tc, is_bounded);
  tcase_add_test(tc, sums_up);
  tcase_add_test(tc, empty_is_valid);
  tcase_add_test(tc, takes_any_thread);
  tcase_add_test(tc, says_what_is_wrong);
  suite_add_tcase(suite, tc);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
