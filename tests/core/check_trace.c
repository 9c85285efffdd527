/* SPDX-License-Identifier: MIT
 * check_trace.c - the trace file and its table: names, tracks, arrows, counters, bounds, threads. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/trace.h"
#include "tests/kit/suite.h"

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

static sp_trace *trace_new(const char *file, uint64_t steps, size_t max) {
  sp_trace *t = NULL;
  ck_assert_msg(sp_trace_new(&t, file, steps, max, &err) == SP_OK, "%s", err.msg);
  return t;
}

static sp_trace_task task(const char *stage, const char *what, const char *lane) {
  return (sp_trace_task){.stage = sp_strdup(stage),
                         .what = sp_strdup(what),
                         .lane = sp_strdup(lane),
                         .track = sp_strdup(lane),
                         .bytes = 64,
                         .slots = 2,
                         .every = 1,
                         .host = !strcmp(lane, "host")};
}

enum { AHEAD, TRAIN, COLLECT, TASKS };

/* An encoder one step ahead of my "net", then the host. */
static void add_program(sp_trace *t) {
  sp_trace_program p = {.strategy = sp_strdup("pipelined"), .device = sp_strdup("cpu"), .capture = sp_strdup("off")};
  uint16_t id;
  p.tasks = sp_calloc(TASKS, sizeof *p.tasks);
  p.tasks[p.n_tasks++] = task("encoder", "forward", "ahead");
  p.tasks[p.n_tasks++] = task("my \"net\"", "backward", "train");
  p.tasks[p.n_tasks++] = task("host", "collect", "host");
  p.waits = sp_calloc(2, sizeof *p.waits);
  p.waits[p.n_waits++] = (sp_trace_wait){TRAIN, AHEAD, 0};
  p.waits[p.n_waits++] = (sp_trace_wait){AHEAD, TRAIN, 2};
  p.edges = sp_calloc(1, sizeof *p.edges);
  p.edges[p.n_edges++] = sp_strdup("encoder.y");
  p.uses = sp_calloc(2, sizeof *p.uses);
  p.uses[p.n_uses++] = (sp_trace_use){0, AHEAD};
  p.uses[p.n_uses++] = (sp_trace_use){0, TRAIN};
  ck_assert_int_eq(sp_trace_add(t, &p, &id, &err), SP_OK);
  ck_assert_uint_eq(id, 0);
}

static void put(sp_trace *t, int what, uint64_t step, double begin, double ms) {
  sp_trace_put(t, &(sp_slice){.begin = begin, .end = begin + ms * 1e-3, .step = step, .loop = 1, .task = what});
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

START_TEST(writes_tracks_slices_arrows_and_counters) {
  sp_trace *t = trace_new(path, 0, 100);
  add_program(t);
  put(t, AHEAD, 3, 100.0, 2);
  put(t, AHEAD, 4, 100.0025, 2);
  put(t, TRAIN, 3, 100.003, 0.5);
  put(t, COLLECT, 3, 100.004, 0.1);
  put(t, TRAIN, 4, 100.006, 0.5);
  put(t, COLLECT, 4, 100.024, 0.1);
  ck_assert_int_eq(sp_trace_write(t, &err), SP_OK);
  char *text = slurp();
  has(text,
      "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"writer\":\"spcore\",\"version\":1,\"strategy\":\"pipelined\",");
  has(text, "\"kept\":6,\"dropped\":0},\"traceEvents\":[\n{\"ph\":\"M\"");
  has(text, "\"tid\":1,\"name\":\"thread_name\",\"args\":{\"name\":\"host\"}}");
  has(text, "\"tid\":2,\"name\":\"thread_name\",\"args\":{\"name\":\"ahead\"}}");
  has(text, "\"tid\":3,\"name\":\"thread_name\",\"args\":{\"name\":\"train\"}}");
  has(text,
      "{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"name\":\"encoder forward\",\"cat\":\"call\",\"ts\":0.000,\"dur\":2000.000,"
      "\"args\":{\"step\":3,\"loop\":1,\"stage\":\"encoder\",\"lane\":\"ahead\",\"slot\":1,\"bytes\":64}}");
  has(text, "\"name\":\"my \\\"net\\\" backward\",\"cat\":\"call\",\"ts\":3000.000,\"dur\":500.000,");
  ck_assert_uint_eq(count(text, "\"ph\":\"s\""), 2); /* what the waits for step 1 and 2 led from is not there */
  has(text, "{\"ph\":\"s\",\"pid\":1,\"tid\":2,\"id\":1,\"name\":\"wait\",\"cat\":\"wait\",\"ts\":1999.999}");
  has(text,
      "{\"ph\":\"f\",\"pid\":1,\"tid\":3,\"bp\":\"e\",\"id\":1,\"name\":\"wait\",\"cat\":\"wait\",\"ts\":3000.000}");
  has(text, "\"name\":\"slots in use: encoder.y\",\"ts\":2500.000,\"args\":{\"value\":2}}");
  has(text, "\"name\":\"slots in use: encoder.y\",\"ts\":6500.000,\"args\":{\"value\":0}}");
  ck_assert_uint_eq(count(text, "\"name\":\"steps/s\""), 1);
  has(text, "\"name\":\"steps/s\",\"ts\":24100.000,\"args\":{\"value\":50}}");
  has(text, "\n]}\n");
  ck_assert_int_eq(sp_trace_write(t, &err), SP_OK); /* it is there */
  sp_trace_free(t);
}
END_TEST

START_TEST(clocks_that_disagree) { /* by less than they may, and by more */
  sp_trace *t = trace_new(path, 0, 100);
  add_program(t);
  put(t, AHEAD, 3, 100.0, 2);
  put(t, TRAIN, 3, 100.00195, 1);
  put(t, AHEAD, 4, 100.01, 2);
  put(t, TRAIN, 4, 100.011, 2);
  ck_assert_int_eq(sp_trace_write(t, &err), SP_OK);
  ck_assert_uint_eq(count(slurp(), "\"ph\":\"s\""), 1);
  sp_trace_free(t);
}
END_TEST

START_TEST(keeps_no_more_than_asked) {
  sp_trace *t = trace_new(path, 0, 10);
  add_program(t);
  for (int i = 0; i < 25; i++) put(t, AHEAD, (uint64_t)i, i, 1);
  ck_assert_int_eq(sp_trace_write(t, &err), SP_OK);
  has(slurp(), "\"kept\":10,\"dropped\":15}");
  ck_assert_uint_eq(count(slurp(), "\"ph\":\"X\""), 10);
  sp_sb out = {0};
  sp_trace_summary(t, &out);
  has(sp_sb_str(&out), "15 slices were not kept: the trace holds 10");
  sp_sb_free(&out);
  sp_trace_free(t);
}
END_TEST

START_TEST(wants_steps_behind_warm_up) {
  sp_trace *t = trace_new(path, 10, 1000);
  sp_trace_window w;
  struct stat s;
  add_program(t);
  sp_trace_begin(t, 0, false, 100, 4, 7, &w); /* few steps: all of them */
  ck_assert(sp_trace_wants(&w, 100) && sp_trace_wants(&w, 103) && !sp_trace_wants(&w, 104) && !sp_trace_wants(&w, 99));
  for (uint64_t i = 100; i < 104; i++) ck_assert_int_eq(sp_trace_over(t, &w, i, &err), SP_OK);
  sp_trace_begin(t, 0, true, 0, 100, 7, &w); /* an evaluation */
  ck_assert_uint_eq(w.first, 0);
  ck_assert_uint_eq(w.n, 10);
  ck_assert_uint_eq(w.loop, 2);
  sp_trace_begin(t, 0, false, 104, 0, 7, &w); /* warm already; 6 are left */
  ck_assert_uint_eq(w.first, 104);
  ck_assert_uint_eq(w.n, 6);
  for (uint64_t i = 104; i < 110; i++) {
    ck_assert_int_ne(stat(path, &s), 0);
    ck_assert_int_eq(sp_trace_over(t, &w, i, &err), SP_OK);
  }
  ck_assert_int_eq(sp_trace_write(t, &err), SP_OK); /* waits for the thread that writes it */
  has(slurp(), "\"first_step\":100,\"last_step\":109,");
  sp_trace_begin(t, 0, false, 110, 0, 7, &w);
  ck_assert_uint_eq(w.n, 0);
  sp_trace_begin(t, 0, true, 0, 100, 7, &w);
  ck_assert_uint_eq(w.n, 0);
  sp_trace_free(t);

  t = trace_new(path, 10, 1000);
  sp_trace_begin(t, 0, false, 0, 100, 7, &w);
  ck_assert(w.first == 7 && w.n == 10);
  sp_trace_free(t);
  t = trace_new(path, 10, 1000);
  sp_trace_begin(t, 0, false, 0, 12, 7, &w);
  ck_assert(w.first == 2 && w.n == 10);
  sp_trace_free(t);
  t = trace_new(NULL, 0, 1000);
  sp_trace_begin(t, 0, false, 5, 0, 7, &w); /* a table of all steps */
  ck_assert(sp_trace_wants(&w, 12) && sp_trace_wants(&w, UINT64_C(1) << 60));
  sp_trace_free(t);
}
END_TEST

START_TEST(sums_up) {
  sp_trace *t = trace_new(NULL, 0, 100);
  sp_sb out = {0};
  add_program(t);
  put(t, AHEAD, 0, 1.000, 10); /* 10, 20, 60: median 20, total 90 */
  put(t, AHEAD, 1, 1.010, 60);
  put(t, AHEAD, 2, 1.070, 20);
  put(t, TRAIN, 0, 1.010, 4); /* 4, 6: median 5, total 10 */
  put(t, TRAIN, 1, 1.094, 6);
  put(t, COLLECT, 1, 1.2, 6); /* of the host there is nothing in the table */
  sp_trace_summary(t, &out);
  has(sp_sb_str(&out), "encoder                  forward           3       20.000         90.0   90.0%\n");
  has(sp_sb_str(&out), "my \"net\"                 backward          2        5.000         10.0   10.0%\n");
  has(sp_sb_str(&out), "ahead                           3   90.0%\n");
  has(sp_sb_str(&out), "train                           2   10.0%\n");
  ck_assert_ptr_null(strstr(sp_sb_str(&out), "host"));
  sp_sb_free(&out);
  sp_trace_free(t);
}
END_TEST

START_TEST(nothing_ran) {
  sp_trace *t = trace_new(path, 5, 1);
  sp_sb out = {0};
  sp_trace_summary(t, &out);
  ck_assert_int_eq(sp_trace_write(t, &err), SP_OK);
  has(slurp(), "\"traceEvents\":[\n{\"ph\":\"M\",");
  sp_sb_free(&out);
  sp_trace_free(t);
}
END_TEST

/* Program 0 as one whose ticks are graphs: TRAIN is a step behind AHEAD in them, on one track if `together`. */
static sp_trace *recorded(size_t max, bool together, sp_trace_window *w) {
  sp_trace *t = trace_new(path, 10, max);
  sp_trace_program p = {.strategy = sp_strdup("x"), .device = sp_strdup("cuda"), .capture = sp_strdup("step")};
  uint16_t id;
  p.tasks = sp_calloc(2, sizeof *p.tasks);
  p.tasks[p.n_tasks++] = task("encoder", "forward", "ahead");
  p.tasks[p.n_tasks++] = task("net", "backward", together ? "ahead" : "train");
  p.tasks[TRAIN].delay = 1;
  ck_assert_int_eq(sp_trace_add(t, &p, &id, &err), SP_OK);
  ck_assert_uint_eq(sp_trace_launch(t, w, 0), 0); /* no room yet */
  ck_assert_int_eq(sp_trace_recorded(t, &err), SP_OK);
  sp_trace_begin(t, 0, false, 5, 10, 0, w);
  return t;
}

static void span(sp_trace *t, uint64_t launch, int what, const char *name, double begin, double ms) {
  ck_assert_int_eq(sp_trace_span(t, launch, what, name, begin, begin + ms * 1e-3), SP_OK);
}

static const char *written(sp_trace *t) {
  ck_assert_int_eq(sp_trace_write(t, &err), SP_OK);
  return slurp();
}

START_TEST(calls_of_graphs_are_put_between_marks) {
  sp_trace_window w;
  sp_trace *t = recorded(100, false, &w);
  uint64_t first = sp_trace_launch(t, &w, 5), second = sp_trace_launch(t, &w, 6);
  put(t, AHEAD, 4, 99.0, 1);
  sp_trace_launched(t, first, 100.0, 100.010);
  span(t, first, AHEAD, "gemm", 99.998, 2); /* 2 ms early by the other clock */
  span(t, first, AHEAD, "fill", 100.001, 1);
  span(t, first, TRAIN, "gemm", 99.999, 4);   /* of step 4, which is not wanted */
  span(t, second, TRAIN, "gemm", 100.018, 5); /* without marks: moved as the one before */
  const char *text = written(t);
  ck_assert_uint_eq(count(text, "\"cat\":\"call\""), 3);
  has(text, "\"name\":\"encoder forward\",\"cat\":\"call\",\"ts\":1000000.000,\"dur\":4000.000,\"args\":{\"step\":5,");
  has(text, "\"name\":\"gemm\",\"cat\":\"kernel\",\"ts\":1000000.000,\"dur\":2000.000,\"args\":{\"step\":5,");
  has(text, "\"name\":\"fill\",\"cat\":\"kernel\",\"ts\":1003000.000,\"dur\":1000.000,");
  has(text, "\"name\":\"net backward\",\"cat\":\"call\",\"ts\":1020000.000,\"dur\":5000.000,\"args\":{\"step\":5,");
  sp_trace_free(t);
}
END_TEST

START_TEST(calls_of_graphs_do_not_cross) {
  sp_trace_window w;
  sp_trace *t = recorded(100, true, &w);
  uint64_t launch = sp_trace_launch(t, &w, 6);
  put(t, AHEAD, 4, 99.0, 1);
  sp_trace_launched(t, launch, 100.0, 100.004);
  span(t, launch, AHEAD, "a", 100.0, 3);
  span(t, launch, TRAIN, "b", 100.002, 4); /* begins before the end of a, and ends behind that of the graph */
  span(t, launch, TRAIN, "c", 100.0055, 0.5);
  const char *text = written(t);
  has(text, "\"name\":\"encoder forward\",\"cat\":\"call\",\"ts\":1000000.000,\"dur\":3000.000,");
  has(text, "\"name\":\"net backward\",\"cat\":\"call\",\"ts\":1003000.000,\"dur\":1000.000,");
  has(text, "\"name\":\"b\",\"cat\":\"kernel\",\"ts\":1003000.000,\"dur\":1000.000,");
  has(text, "\"name\":\"c\",\"cat\":\"kernel\",\"ts\":1004000.000,\"dur\":0.000,");
  sp_trace_free(t);
}
END_TEST

START_TEST(calls_of_graphs_come_before_their_parts) {
  sp_trace_window w;
  sp_trace *t = recorded(6, false, &w);
  for (uint64_t step = 6; step < 8; step++) {
    uint64_t launch = sp_trace_launch(t, &w, step);
    for (int i = 0; i < 5; i++) span(t, launch, i % 2 ? TRAIN : AHEAD, "gemm", 100 + (double)step + i * 1e-3, 1);
  }
  for (int i = 0; i < 4; i++) ck_assert_uint_eq(sp_trace_launch(t, &w, 8), i + 3);
  ck_assert_uint_eq(sp_trace_launch(t, &w, 8), 0);
  span(t, 0, AHEAD, "nobody's", 0, 1);
  span(t, 99, AHEAD, "nobody's", 0, 1);
  span(t, 1, TASKS, "nobody's", 0, 1);
  const char *text = written(t);
  ck_assert_uint_eq(count(text, "\"cat\":\"call\""), 4);
  ck_assert_uint_eq(count(text, "\"cat\":\"kernel\""), 2);
  has(text, "\"kept\":6,\"dropped\":8}");
  sp_trace_free(t);
}
END_TEST

static void read_counters(void *arg, double *values) {
  values[0] = atomic_fetch_add((atomic_int *)arg, 1) + 1;
  values[1] = NAN;
}

START_TEST(counters_are_read_until_the_file_is_written) {
  static const char *const names[] = {"GPU power (W)", "GPU load (%)"};
  sp_trace *t = trace_new(path, 10, 100);
  atomic_int reads = 0, before = 0;
  double from = sp_now();
  ck_assert_int_eq(sp_trace_count(t, names, 9, read_counters, &reads, &err), SP_E_RANGE);
  ck_assert_int_eq(sp_trace_count(t, names, 2, read_counters, &reads, &err), SP_OK);
  ck_assert_int_eq(sp_trace_count(t, names, 2, read_counters, &before, &err), SP_OK);
  ck_assert_int_eq(before, 0); /* the second does nothing */
  put(t, AHEAD, 0, sp_now() - 1, 1);
  add_program(t);
  while (reads < 5) usleep(1000);
  ck_assert_int_eq(sp_trace_write(t, &err), SP_OK);
  before = atomic_load(&reads);
  double most = 3 + (sp_now() - from) / 0.1; /* at once, at 0.1, 0.2 ..., at the end */
  ck_assert_msg(reads >= 6 && reads <= most, "%d reads, at most %g", reads, most);
  const char *text = slurp();
  ck_assert_uint_eq(count(text, "\"ph\":\"C\",\"pid\":1,\"name\":\"GPU power (W)\""), (size_t)reads);
  ck_assert_uint_eq(count(text, "GPU load"), 0);
  has(text, "\"args\":{\"value\":3}}");
  usleep(120000);
  ck_assert_int_eq(reads, before);
  sp_trace_free(t);

  t = trace_new(path, 10, 100);
  reads = 0;
  ck_assert_int_eq(sp_trace_count(t, names, 2, read_counters, &reads, &err), SP_OK);
  ck_assert_int_ge(reads, 1);
  sp_trace_counted(t);
  ck_assert_int_ge(reads, 2);
  put(t, AHEAD, 0, sp_now() + 1, 1); /* all that was read lies before: the last is what holds */
  add_program(t);
  ck_assert_int_eq(sp_trace_uncounted(t, "no more", &err), SP_OK);
  ck_assert_int_eq(sp_trace_write(t, &err), SP_OK);
  text = slurp();
  char last[80];
  snprintf(last, sizeof last, "\"name\":\"GPU power (W)\",\"ts\":0.000,\"args\":{\"value\":%d}}", reads);
  has(text, last);
  ck_assert_uint_eq(count(text, "GPU power"), 1);
  has(text, "\"no_counters\":\"no more\"");
  sp_trace_free(t);
}
END_TEST

enum { THREADS = 4 };
static void *putter(void *arg) {
  for (int i = 0; i < 1000; i++) put(arg, i & 1 ? AHEAD : TRAIN, (uint64_t)i, i, 1);
  return NULL;
}

START_TEST(many_threads_put) {
  pthread_t thread[THREADS];
  sp_trace *t = trace_new(path, 0, 3500);
  add_program(t);
  for (int i = 0; i < THREADS; i++) ck_assert_int_eq(pthread_create(&thread[i], NULL, putter, t), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  ck_assert_int_eq(sp_trace_write(t, &err), SP_OK);
  has(slurp(), "\"kept\":3500,\"dropped\":500}");
  sp_trace_free(t);
}
END_TEST

START_TEST(says_what_is_wrong) {
  sp_trace *t = NULL;
  ck_assert_int_eq(sp_trace_new(&t, "/nowhere/at/all.json", 0, 10, &err), SP_E_IO);
  has(err.msg, "cannot write the trace '/nowhere/at/all.json': No such file or directory");
  ck_assert_ptr_null(t);
  ck_assert_int_eq(sp_trace_new(&t, path, 0, 0, &err), SP_E_RANGE);
  if (access("/dev/full", W_OK)) return;
  for (int n = 1; n <= 1000; n += 999) { /* seen when it is closed, and before */
    t = trace_new("/dev/full", 0, 1000);
    add_program(t);
    for (int i = 0; i < n; i++) put(t, AHEAD, (uint64_t)i, i, 1);
    ck_assert_int_eq(sp_trace_write(t, &err), SP_E_IO);
    has(err.msg, "cannot write the trace '/dev/full': ");
    sp_trace_free(t);
  }
  sp_trace_window w;
  t = trace_new("/dev/full", 1, 1000); /* by the thread; told when somebody waits for it, and once */
  add_program(t);
  sp_trace_begin(t, 0, false, 0, 10, 0, &w);
  for (int i = 0; i < 1000; i++) put(t, AHEAD, 0, i, 1);
  ck_assert_int_eq(sp_trace_over(t, &w, 0, &err), SP_OK);
  ck_assert_int_eq(sp_trace_write(t, &err), SP_E_IO);
  has(err.msg, "cannot write the trace '/dev/full': ");
  ck_assert_int_eq(sp_trace_write(t, &err), SP_OK);
  sp_trace_free(t);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {writes_tracks_slices_arrows_and_counters,
                                clocks_that_disagree,
                                keeps_no_more_than_asked,
                                wants_steps_behind_warm_up,
                                sums_up,
                                calls_of_graphs_are_put_between_marks,
                                calls_of_graphs_do_not_cross,
                                calls_of_graphs_come_before_their_parts,
                                nothing_ran,
                                counters_are_read_until_the_file_is_written,
                                many_threads_put,
                                says_what_is_wrong};
  Suite *suite = suite_create("trace");
  TCase *tc = tcase_create("trace");
  tcase_add_checked_fixture(tc, set_up, tear_down);
  for (size_t i = 0; i < SP_ARRAY(tests); i++) tcase_add_test(tc, tests[i]);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
