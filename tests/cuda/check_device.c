/* SPDX-License-Identifier: MIT
 * check_device.c - how the conformance suite of devices (tests/core/check_device.c) runs on CUDA, and the tests of that
 * device alone. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <spcore/ext/choices.h>
#include <spcore/ext/counters.h>
#include <spcore/ext/cuda.h>
#include <spcore/ext/times.h>

#include "tests/kit/device_kit.h"
#include "host/env.h"

/* ---- the kit ----------------------------------------------------------------------------------------------------- */

#define CALLS 65536 /* of one test */
#define GATES 16

const int kit_many = 200; /* the driver's queue is full at some thousand operations, and submitting then waits */

static struct call {
  sp_op_fn fn;
  void *arg;
} calls[CALLS];
static int n_calls, n_gates;
static bool emulator;
static atomic_int *gates; /* mapped: the device reads what the host writes */

static void skip(const char *why) {
  bool full = strstr(why, "out of memory"); /* the GPU is there, and too much beside this runs on it */
  printf("%s: %s\n", full ? "failed" : "skipped", why);
  exit(full ? 1 : 77);
}

static const sp_device_type *cuda;

const sp_device_type *const *kit_devices(int *n) {
  static sp_env *env; /* as long as the program: the device's code is in it */
  sp_env_opts opts = {.threads = 1, .max_helpers = 1};
  if (sp_env_new(&env, &opts, &err) || sp_registry_device(env->reg, "cuda", &cuda, &err)) skip(err.msg);
  if (cuda->count(sp_ctx_for(&holder, "cuda", &err), n)) skip(err.msg);
  sp_device_info info = {.size = sizeof info};
  if (cuda->describe(sp_ctx_for(&holder, "cuda", &err), 0, &info)) skip(err.msg);
  emulator = strstr(info.name, "emulator") != NULL;
  void *mapped = NULL;
  if (cudaHostAlloc(&mapped, GATES * sizeof *gates, cudaHostAllocMapped) != cudaSuccess) skip("no pinned memory");
  gates = mapped;
  *n = 1;
  return &cuda;
}

void kit_begin(void) { n_calls = n_gates = 0; }

static void CUDART_CB run_call(void *arg) {
  const struct call *c = arg;
  c->fn(c->arg, NULL);
}

static int op_call(void *arg, void *native) {
  return cudaLaunchHostFunc(native, run_call, arg) == cudaSuccess ? SP_OK : SP_E_DEVICE;
}

int kit_submit(sp_ctx *on, const sp_device_type *t, void *stream, sp_op_fn fn, void *arg) {
  struct call *c = &calls[n_calls];
  ck_assert_int_lt(n_calls++, CALLS);
  *c = (struct call){fn, arg};
  return t->stream_submit(on, stream, op_call, c);
}

/* The driver's own wait for a word in memory. The runtime has no function for it. */
static int op_shut(void *arg, void *native) {
  static int (*wait_value)(cudaStream_t stream, unsigned long long address, uint32_t value, unsigned flags);
  enum { AT_LEAST = 0 };
  void *word;
  if (emulator) return SP_OK;
  if (!wait_value) *(void **)&wait_value = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuStreamWaitValue32_v2");
  if (!wait_value || cudaHostGetDevicePointer(&word, arg, 0) != cudaSuccess) return SP_E_UNSUPPORTED;
  return wait_value(native, (uintptr_t)word, 1, AT_LEAST) ? SP_E_DEVICE : SP_OK;
}

bool kit_holds(const sp_device_type *t) {
  (void)t;
  return !emulator;
}

int kit_shut(sp_ctx *on, const sp_device_type *t, void *stream, atomic_int *open) {
  return t->stream_submit(on, stream, op_shut, open);
}

atomic_int *kit_gate(void) {
  ck_assert_int_lt(n_gates, GATES);
  atomic_store(&gates[n_gates], 0);
  return &gates[n_gates++];
}

size_t kit_memory(void) { return 0; } /* the driver has needs of its own */

/* ---- the device alone -------------------------------------------------------------------------------------------- */

static void begin(void) { set_up(cuda); }

static const sp_cuda *ext_of(void *stream) {
  const sp_cuda *ext = type->extension(dev, SP_EXT_CUDA);
  ck_assert_ptr_nonnull(ext);
  ctx->stream = stream ? type->stream_native(stream) : NULL;
  return ext;
}

START_TEST(priorities_are_kept) {
  int least, most, p[4];
  void *s[4];
  for (int i = 0; i < 4; i++) {
    s[i] = stream_of("s", i - 1);
    ck_assert_int_eq(cudaStreamGetPriority(type->stream_native(s[i]), &p[i]), cudaSuccess);
  }
  ck_assert_int_eq(cudaDeviceGetStreamPriorityRange(&least, &most), cudaSuccess);
  ck_assert_int_eq(p[0], least);
  ck_assert_int_eq(p[3], most);
  ck_assert(p[0] >= p[1] && p[1] >= p[2] && p[2] >= p[3]);
  ck_assert(least == most || p[1] > p[2]);
  ck_assert(least - most < 2 || p[2] > p[3]);
  ck_assert(least - most < 3 || p[0] > p[1]);
  for (int i = 0; i < 4; i++) type->stream_close(s[i]);
}
END_TEST

START_TEST(out_of_memory_says_how_much) {
  void *p = NULL;
  size_t free_bytes, bytes;
  ck_assert_int_eq(cudaMemGetInfo(&free_bytes, &bytes), cudaSuccess);
  char asked[32];
  snprintf(asked, sizeof asked, "%zu bytes asked for", bytes + 1);
  ck_assert_int_eq(type->alloc(ctx, dev, SP_MEM_DEVICE, bytes + 1, &p), SP_E_NOMEM);
  ck_assert_msg(strstr(err.msg, asked) && strstr(err.msg, "are free"), "%s", err.msg);
  ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
}
END_TEST

static int op_bad_call(void *arg, void *native) {
  (void)arg;
  (void)native;
  return cudaEventElapsedTime(NULL, NULL, NULL) == cudaSuccess ? SP_E_INTERNAL : SP_OK;
}

START_TEST(an_error_left_behind_is_found) {
  void *s = stream_new("careless"), *t = stream_new("other");
  ck_assert_int_eq(type->stream_submit(ctx, s, op_bad_call, NULL), SP_E_DEVICE);
  ck_assert_msg(strstr(err.msg, "careless") && strstr(err.msg, "cudaError"), "%s", err.msg);
  ck_assert_int_eq(type->stream_sync(ctx, s), SP_E_DEVICE);
  ck_assert_int_eq(type->stream_sync(ctx, t), SP_OK);
  type->stream_close(s);
  type->stream_close(t);
}
END_TEST

/* root: copy in, fork; side: copy, join; root: copy out of both. */
START_TEST(a_capture_spans_streams) {
  enum { N = 4096 };
  int done;
  void *root = stream_of("root", 1), *side = stream_of("side", -1), *fork, *join, *outside, *d, *graph = NULL, *h,
       *ones;
  ck_assert_int_eq(type->event_open(ctx, dev, 0, &fork), SP_OK);
  ck_assert_int_eq(type->event_open(ctx, dev, 0, &join), SP_OK);
  ck_assert_int_eq(type->event_open(ctx, dev, 0, &outside), SP_OK);
  ck_assert_int_eq(type->alloc(ctx, dev, SP_MEM_DEVICE, 2 * N, &d), SP_OK);
  ck_assert_int_eq(type->alloc(ctx, dev, SP_MEM_PINNED, 2 * N, &h), SP_OK);
  ck_assert_int_eq(type->alloc(ctx, dev, SP_MEM_PINNED, N, &ones), SP_OK);
  memset(ones, 1, N);
  ck_assert_int_eq(type->event_record(ctx, outside, side), SP_OK);

  ck_assert_int_eq(type->capture_begin(ctx, root), SP_OK);
  ck_assert_int_eq(type->stream_copy(ctx, root, d, ones, N), SP_OK);
  ck_assert_int_eq(type->stream_wait(ctx, root, outside), SP_E_STATE);
  ck_assert_int_eq(type->event_record(ctx, fork, root), SP_OK);
  ck_assert_int_eq(type->stream_wait(ctx, side, fork), SP_OK);
  ck_assert_int_eq(type->stream_sync(ctx, side), SP_E_STATE); /* it takes part now */
  ck_assert_int_eq(type->capture_begin(ctx, side), SP_E_STATE);
  ck_assert_int_eq(type->capture_end(ctx, side, &graph), SP_E_STATE);
  ck_assert_int_eq(type->stream_copy(ctx, side, (char *)d + N, d, N), SP_OK);
  ck_assert_int_eq(type->event_record(ctx, join, side), SP_OK);
  ck_assert_int_eq(type->event_sync(ctx, join), SP_E_STATE);
  ck_assert_int_eq(type->event_query(ctx, outside, &done), SP_OK); /* what has no part in it is as ever */
  ck_assert_int_eq(type->event_sync(ctx, outside), SP_OK);
  ck_assert_int_eq(type->stream_wait(ctx, root, join), SP_OK);
  ck_assert_int_eq(type->stream_copy(ctx, root, h, d, 2 * N), SP_OK);
  ck_assert_msg(type->capture_end(ctx, root, &graph) == SP_OK, "%s", err.msg);
  ck_assert_int_eq(type->stream_wait(ctx, root, join), SP_E_STATE); /* an event of a capture that is over */

  for (int i = 0; i < 3; i++) {
    memset(h, 0, 2 * N);
    ck_assert_int_eq(type->graph_launch(ctx, graph, i == 1 ? side : root), SP_OK);
    ck_assert_int_eq(type->stream_sync(ctx, i == 1 ? side : root), SP_OK);
    for (int k = 0; k < 2 * N; k++) ck_assert_int_eq(((char *)h)[k], 1);
  }
  ck_assert_int_eq(type->event_record(ctx, join, side), SP_OK); /* and it is an ordinary event again */
  ck_assert_int_eq(type->event_sync(ctx, join), SP_OK);

  ck_assert_int_eq(type->capture_begin(ctx, root), SP_OK); /* side is not joined */
  ck_assert_int_eq(type->event_record(ctx, fork, root), SP_OK);
  ck_assert_int_eq(type->stream_wait(ctx, side, fork), SP_OK);
  ck_assert_int_eq(type->stream_copy(ctx, side, d, ones, N), SP_OK);
  void *bad = NULL;
  err = (sp_err){0};
  ck_assert_int_eq(type->capture_end(ctx, root, &bad), SP_E_DEVICE);
  ck_assert_ptr_nonnull(strstr(err.msg, "root"));
  ck_assert_int_eq(type->stream_sync(ctx, root), SP_OK);

  type->graph_close(graph);
  type->stream_close(root);
  type->stream_close(side);
  type->event_close(fork);
  type->event_close(join);
  type->event_close(outside);
  type->free(dev, SP_MEM_DEVICE, d);
  type->free(dev, SP_MEM_PINNED, h);
  type->free(dev, SP_MEM_PINNED, ones);
}
END_TEST

START_TEST(lanes_have_handles_and_workspaces) {
  void *s[2] = {stream_new("a"), stream_new("b")}, *h[2][3], *w[2], *again;
  for (int i = 0; i < 2; i++) {
    const sp_cuda *ext = ext_of(s[i]);
    ck_assert(ext->capability >= 50 && ext->multiprocessors > 0 && ext->workspace_bytes > 0);
    ck_assert_msg(ext->cublas(ctx, &h[i][0]) == SP_OK, "%s", err.msg);
    ck_assert_msg(ext->cublaslt(ctx, &h[i][1]) == SP_OK, "%s", err.msg);
    ck_assert_msg(ext->cudnn(ctx, &h[i][2]) == SP_OK, "%s", err.msg);
    ck_assert_int_eq(ext->workspace(ctx, &w[i]), SP_OK);
    ck_assert_int_eq(cudaMemset(w[i], 0, ext->workspace_bytes), cudaSuccess);
    ck_assert_int_eq(ext->workspace(ctx, &again), SP_OK);
    ck_assert_ptr_eq(again, w[i]);
  }
  ck_assert_ptr_ne(h[0][0], h[1][0]);
  ck_assert_ptr_nonnull(h[0][1]); /* cuBLASLt's keeps no stream: it may be one for all */
  ck_assert_ptr_ne(h[0][2], h[1][2]);
  ck_assert_ptr_ne(w[0], w[1]);
  const sp_cuda *ext = ext_of(NULL);
  ck_assert_int_eq(ext->cublas(ctx, &again), SP_E_STATE);
  ck_assert_ptr_null(type->extension(dev, "spcore.cuda/999"));
  type->stream_close(s[0]);
  type->stream_close(s[1]);
}
END_TEST

static void expect_tuned(const char *key, const char *value) {
  char got[SP_CUDA_VALUE_MAX] = "";
  const sp_cuda *ext = ext_of(NULL);
  ck_assert_int_eq(ext->tuned(ctx, key, got, sizeof got), value ? SP_OK : SP_E_NOTFOUND);
  if (value) ck_assert_str_eq(got, value);
}

/* Offers `value`; `holds` is what is to hold from now on. */
static void offer(const char *key, const char *refused, const char *value, const char *holds) {
  char text[SP_CUDA_VALUE_MAX];
  strcpy(text, value);
  ck_assert_msg(ext_of(NULL)->set_tuned(ctx, key, refused, text, sizeof text) == SP_OK, "%s", err.msg);
  ck_assert_str_eq(text, holds);
  expect_tuned(key, holds);
}

START_TEST(tuned_choices_come_back) {
  char dir[] = "/tmp/spcore-tuned.XXXXXX", cache[64], command[256], longest[SP_CUDA_VALUE_MAX], small[4] = "12";
  ck_assert_ptr_nonnull(mkdtemp(dir));
  snprintf(cache, sizeof cache, "%s/a/b", dir);
  setenv("SPCORE_CACHE", cache, 1);
  memset(longest, 'x', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;

  expect_tuned("gemm 1 2 3", NULL);
  offer("gemm 1 2 3", NULL, "7 0x1f, two words", "7 0x1f, two words");
  offer("empty", NULL, "", "");
  offer("conv", NULL, "second", "second");
  offer("conv", NULL, "later than that", "second");
  offer("conv", "what nobody kept", longest, "second");
  offer("conv", "second", longest, longest);
  const sp_cuda *ext = ext_of(NULL);
  ck_assert_int_eq(ext->set_tuned(ctx, "a\tb", NULL, small, sizeof small), SP_E_INVALID);
  ck_assert_int_eq(ext->set_tuned(ctx, "a", NULL, (char[]){"v\n"}, 3), SP_E_INVALID);
  ck_assert_int_eq(ext->tuned(ctx, "conv", small, sizeof small), SP_E_RANGE);

  /* Another process stored meanwhile, and the end of the file is damaged. */
  snprintf(command, sizeof command,
           "test `ls %s/*.txt | wc -l` = 1 && "
           "printf 'theirs\tfirst\nbad\tunusable\nlater\tvalue\ndamaged\nhalf\tli' | tee -a %s/*.txt >/dev/null",
           cache, cache);
  ck_assert_int_eq(system(command), 0);
  expect_tuned("theirs", NULL); /* this process has not looked */
  offer("theirs", NULL, "mine", "first");
  offer("bad", "unusable", "good", "good");
  expect_tuned("later", "value");
  expect_tuned("half", NULL);
  type->close(dev);
  begin();
  expect_tuned("theirs", "first");
  snprintf(command, sizeof command,
           "cd %s && grep -q '^theirs.first$' *.txt && grep -q '^bad.good$' *.txt && sed -i 's/good/other/' *.txt",
           cache);
  ck_assert_int_eq(system(command), 0);
  type->close(dev);
  begin();
  expect_tuned("bad", "good"); /* a process keeps to what it has computed with */
  expect_tuned("gemm 1 2 3", "7 0x1f, two words");
  expect_tuned("conv", longest);
  expect_tuned("empty", "");
  type->close(dev);

  setenv("SPCORE_CACHE", "/dev/null/nowhere", 1);
  begin();
  expect_tuned("conv", NULL);
  offer("conv", NULL, "1", "1");
  type->close(dev);
  begin();
  expect_tuned("conv", "1"); /* as long as the process */
  unsetenv("SPCORE_CACHE");
  snprintf(command, sizeof command, "rm -r %s", dir);
  ck_assert_int_eq(system(command), 0);
}
END_TEST

/* What rank 0 took is taken here, too, and the file keeps what it has. */
START_TEST(choices_of_another_process) {
  char dir[] = "/tmp/spcore-held.XXXXXX", command[256];
  ck_assert_ptr_nonnull(mkdtemp(dir));
  setenv("SPCORE_CACHE", dir, 1);
  type->close(dev);
  begin();
  const sp_choices *choices = type->extension(dev, SP_EXT_CHOICES);
  sp_choice c;
  ck_assert_int_eq(choices->taken(ctx, dev, 0, &c), SP_E_NOTFOUND);
  offer("own", NULL, "1", "1");
  offer("both", NULL, "2", "2");
  ck_assert_int_eq(choices->hold(ctx, dev, &(sp_choice){"both", "3"}), SP_OK);
  ck_assert_int_eq(choices->hold(ctx, dev, &(sp_choice){"theirs", "4"}), SP_OK);
  expect_tuned("both", "3");
  offer("both", NULL, "5", "3");
  offer("theirs", NULL, "5", "4");
  offer("last", NULL, "6", "6"); /* which writes the file */
  static const sp_choice all[] = {{"own", "1"}, {"both", "3"}, {"theirs", "4"}, {"last", "6"}};
  for (uint64_t k = 0; k < 4; k++) {
    ck_assert_int_eq(choices->taken(ctx, dev, k, &c), SP_OK);
    ck_assert_str_eq(c.key, all[k].key);
    ck_assert_str_eq(c.value, all[k].value);
  }
  ck_assert_int_eq(choices->taken(ctx, dev, 4, &c), SP_E_NOTFOUND);
  offer("both", "3", "7", "7"); /* the library has refused it: that is told by comparing */
  snprintf(command, sizeof command, "cd %s && grep -q '^both.2$' *.txt && grep -q '^theirs.4$' *.txt && rm -r %s", dir,
           dir);
  ck_assert_int_eq(system(command), 0);
  unsetenv("SPCORE_CACHE");
}
END_TEST

static void expect_current(int device) {
  int now = -1;
  ck_assert_int_eq(cudaGetDevice(&now), cudaSuccess);
  ck_assert_int_eq(now, device);
}

/* Where there are two: what one of them does must not end up on the other. */
START_TEST(each_call_is_on_its_own_device) {
  void *other, *stream = NULL, *ptr = NULL;
  int n = 0;
  ck_assert_int_eq(type->count(ctx, &n), SP_OK);
  if (n < 2) return;
  ck_assert_int_eq(type->open(ctx, 1, &other), SP_OK);
  ck_assert_int_eq(type->stream_open(ctx, other, "other", 0, &stream), SP_OK);
  expect_current(1);
  ck_assert_int_eq(type->alloc(ctx, dev, SP_MEM_DEVICE, 64, &ptr), SP_OK);
  expect_current(0);
  type->stream_close(stream);
  type->free(dev, SP_MEM_DEVICE, ptr);
  ck_assert_int_eq(type->alloc(ctx, dev, SP_MEM_DEVICE, 64, &ptr), SP_OK);
  expect_current(0);
  type->free(dev, SP_MEM_DEVICE, ptr);
  type->close(other);
}
END_TEST

/* ---- what traces are told ---------------------------------------------------------------------------------------- */

/* Without the library there is nothing to look at; tests/emu/device.sh has a stand-in, which must be found. */
static bool there(int status) {
  bool wanted = getenv("SP_TEST_TOOLS") != NULL;
  if (status) printf("skipped: %s\n", err.msg);
  ck_assert_msg(!status || !wanted, "%s", err.msg);
  return !status;
}

static int fill(void *arg, void *native) {
  return cudaMemsetAsync(arg, 0, 64, native) == cudaSuccess ? SP_OK : SP_E_DEVICE;
}

/* Two fills of call 7, one of nobody, a copy of call 8. */
static void *record_graph(const sp_times *times, void *stream, char *ptr) {
  void *graph = NULL;
  ck_assert_int_eq(type->capture_begin(ctx, stream), SP_OK);
  times->call(dev, 7);
  ck_assert_int_eq(type->stream_submit(ctx, stream, fill, ptr), SP_OK);
  ck_assert_int_eq(type->stream_submit(ctx, stream, fill, ptr), SP_OK);
  times->call(dev, 0);
  ck_assert_int_eq(type->stream_submit(ctx, stream, fill, ptr), SP_OK);
  times->call(dev, 8);
  ck_assert_int_eq(type->stream_copy(ctx, stream, ptr + 64, ptr, 64), SP_OK);
  times->call(dev, 0);
  ck_assert_int_eq(type->capture_end(ctx, stream, &graph), SP_OK);
  return graph;
}

typedef struct seen {
  double since;
  int n, fills, copies, of[2];
} seen;

static void look(void *arg, const sp_times_span *span) {
  seen *s = arg;
  s->n++;
  s->fills += span->call == 7 && !strcmp(span->what, "fill");
  s->copies += span->call == 8 && !strcmp(span->what, "copy");
  ck_assert(span->launch == 5 || span->launch == 6);
  s->of[span->launch - 5]++;
  ck_assert(span->begin <= span->end && span->begin > s->since - 1e-3 && span->end < sp_now() + 1e-3);
}

START_TEST(times_of_what_graphs_hold) {
  static const uint64_t launches[] = {5, 0, 6};
  const sp_times *times = type->extension(dev, SP_EXT_TIMES);
  seen s = {.since = sp_now()};
  uint64_t lost = 9;
  void *other = NULL, *stream = stream_of("s", 0), *ptr = NULL;
  times->close(dev); /* is not held */
  ck_assert_int_eq(type->alloc(ctx, dev, SP_MEM_DEVICE, 128, &ptr), SP_OK);
  if (there(times->open(ctx, dev))) {
    ck_assert_int_eq(times->open(ctx, dev), SP_OK);
    ck_assert_int_eq(type->open(ctx, 0, &other), SP_OK);
    ck_assert_int_eq(times->open(ctx, other), SP_E_STATE);
    ck_assert_ptr_nonnull(strstr(err.msg, "another graph's trace"));
    ck_assert_int_eq(times->begin(ctx, dev, 5), SP_OK);
    void *graph = record_graph(times, stream, ptr);
    for (size_t i = 0; i < SP_ARRAY(launches); i++) {
      times->launch(dev, launches[i]);
      ck_assert_int_eq(type->graph_launch(ctx, graph, stream), SP_OK);
      times->launch(dev, 0);
    }
    ck_assert_int_eq(type->stream_sync(ctx, stream), SP_OK);
    ck_assert_int_eq(times->read(ctx, dev, look, &s, &lost), SP_OK);
    ck_assert_int_eq(s.n, 5); /* of 6: two launches with two fills and a copy each, that are somebody's */
    ck_assert_uint_eq(lost, 1);
    ck_assert(s.fills + s.copies == 5 && s.fills >= 3 && s.copies >= 1);
    ck_assert(s.of[0] >= 2 && s.of[1] >= 2);
    ck_assert_int_eq(times->read(ctx, dev, look, &s, &lost), SP_OK);
    ck_assert(s.n == 5 && lost == 0);
    times->close(dev);
    ck_assert_int_eq(times->open(ctx, other), SP_OK);
    type->close(other); /* lets go of it */
    ck_assert_int_eq(times->open(ctx, dev), SP_OK);
    type->graph_close(graph);
  }
  type->free(dev, SP_MEM_DEVICE, ptr);
  type->stream_close(stream);
}
END_TEST

START_TEST(counters_of_the_device) {
  const sp_counters *c = type->extension(dev, SP_EXT_COUNTERS);
  double values[SP_COUNTERS_MAX];
  ck_assert(c->n >= 1 && c->n <= SP_COUNTERS_MAX);
  if (!there(c->open(ctx, dev))) return;
  ck_assert_int_eq(c->open(ctx, dev), SP_OK);
  void *ptr = NULL;
  ck_assert_int_eq(type->alloc(ctx, dev, SP_MEM_DEVICE, 1 << 20, &ptr), SP_OK);
  c->read(dev, values);
  type->free(dev, SP_MEM_DEVICE, ptr);
  for (uint32_t i = 0; i < c->n; i++) {
    ck_assert(isnan(values[i]) || values[i] >= 0);
    if (strstr(c->names[i], "memory (MiB)")) ck_assert(values[i] >= 1);
  }
}
END_TEST

int kit_run(Suite *suite) {
  TCase *own = tcase_create("cuda");
  tcase_add_checked_fixture(own, begin, tear_down);
  tcase_add_test(own, priorities_are_kept);
  tcase_add_test(own, out_of_memory_says_how_much);
  tcase_add_test(own, an_error_left_behind_is_found);
  tcase_add_test(own, each_call_is_on_its_own_device);
  tcase_add_test(own, a_capture_spans_streams);
  tcase_add_test(own, lanes_have_handles_and_workspaces);
  tcase_add_test(own, tuned_choices_come_back);
  tcase_add_test(own, choices_of_another_process);
  tcase_add_test(own, times_of_what_graphs_hold);
  tcase_add_test(own, counters_of_the_device);
  suite_add_tcase(suite, own);
  SRunner *runner = srunner_create(suite);
  srunner_set_fork_status(runner, CK_NOFORK); /* CUDA does not survive a fork */
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
