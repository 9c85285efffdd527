/* SPDX-License-Identifier: MIT
 * check_device.c - the conformance suite of devices: the rules of spcore/device.h, which hold for every device.
 *
 * The tests use the device's interface alone. DEVICE memory is reached through copies, never by the host directly, and
 * operations are functions of the host only where the device runs such (all built-in ones do). It is also a part of
 * tests/cuda/check_device, on the device cuda: device_kit.h says what differs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/device_kit.h"

#include <spcore/checksum.h>

static const sp_device_type *const *devices;

static int op_nap(void *arg, void *native) {
  (void)native;
  nap(*(int *)arg);
  return SP_OK;
}

/* ---- the tests; each gets the device by its index ---------------------------------------------------------------- */

START_TEST(describes_itself) {
  set_up(devices[_i]);
  int n = 0;
  sp_device_info info = {.size = sizeof info};
  ck_assert_int_eq(type->count(ctx, &n), SP_OK);
  ck_assert_int_ge(n, 1);
  ck_assert_int_eq(type->describe(ctx, 0, &info), SP_OK);
  ck_assert(info.name[0] && info.detail[0]);
  ck_assert_int_ge(info.units, 1);
  ck_assert(info.memory > 0 && info.free_memory > 0 && info.free_memory <= info.memory);
  ck_assert_int_ne(type->describe(ctx, n, &info), SP_OK);
  void *other;
  ck_assert_int_ne(type->open(ctx, n, &other), SP_OK);
  ck_assert_ptr_nonnull(strstr(err.msg, "device"));
  tear_down();
}
END_TEST

START_TEST(copies) {
  set_up(devices[_i]);
  enum { N = 100000 };
  void *s = stream_new("copy"), *d = memory(SP_MEM_DEVICE, N), *d2 = memory(SP_MEM_DEVICE, N);
  unsigned char *a = memory(SP_MEM_PINNED, N), *b = memory(SP_MEM_PINNED, N);
  for (int i = 0; i < N; i++) a[i] = (unsigned char)(i * 7);
  memset(b, 0, N);
  ck_assert_int_eq(type->stream_copy(ctx, s, d, a, N), SP_OK);
  ck_assert_int_eq(type->stream_copy(ctx, s, (unsigned char *)d + 50, a, 100), SP_OK); /* after the first one */
  ck_assert_int_eq(type->stream_copy(ctx, s, d2, d, N), SP_OK);
  ck_assert_int_eq(type->stream_copy(ctx, s, b, d2, N), SP_OK);
  ck_assert_int_eq(type->stream_copy(ctx, s, d, NULL, 0), SP_OK);
  sync_ok(s);
  for (int i = 0; i < N; i++) ck_assert_int_eq(b[i], a[i < 50 || i >= 150 ? i : i - 50]);
  type->stream_close(s);
  type->free(dev, SP_MEM_DEVICE, d);
  type->free(dev, SP_MEM_DEVICE, d2);
  type->free(dev, SP_MEM_PINNED, a);
  type->free(dev, SP_MEM_PINNED, b);
  tear_down();
}
END_TEST

/* How a device copies may hang on size and alignment. */
START_TEST(copies_a_little) {
  set_up(devices[_i]);
  enum { N = 70000, EDGE = 16 };
  static const size_t sizes[] = {1, 3, 4, 16, 100, 4096, 16384, 16385, 65536};
  void *s = stream_new("copy");
  unsigned char *d = memory(SP_MEM_DEVICE, N), *a = memory(SP_MEM_PINNED, N), *b = memory(SP_MEM_PINNED, N);
  for (int i = 0; i < N; i++) a[i] = (unsigned char)(i * 7 + i / 256);
  ck_assert_int_eq(type->stream_copy(ctx, s, d, a, N), SP_OK);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (size_t to = 0; to <= 4; to += to ? 3 : 1)
      for (size_t from = 0; from <= 4; from += from ? 3 : 1) {
        sync_ok(s);
        memset(b, 0xee, N);
        ck_assert_int_eq(type->stream_copy(ctx, s, b + EDGE + to, d + from, sizes[i]), SP_OK);
        sync_ok(s);
        ck_assert_mem_eq(b + EDGE + to, a + from, sizes[i]);
        for (size_t k = 0; k < EDGE; k++) ck_assert(b[to + k] == 0xee && b[EDGE + to + sizes[i] + k] == 0xee);
      }
  type->stream_close(s);
  type->free(dev, SP_MEM_DEVICE, d);
  type->free(dev, SP_MEM_PINNED, a);
  type->free(dev, SP_MEM_PINNED, b);
  tear_down();
}
END_TEST

START_TEST(refuses_impossible_memory) {
  set_up(devices[_i]);
  void *p = NULL;
  ck_assert_int_eq(type->alloc(ctx, dev, SP_MEM_DEVICE, SIZE_MAX - 3, &p), SP_E_NOMEM);
  ck_assert_ptr_nonnull(strstr(err.msg, "bytes"));
  ck_assert_int_eq(type->alloc(ctx, dev, 7, 16, &p), SP_E_INVALID);
  p = memory(SP_MEM_PINNED, 0);
  type->free(dev, SP_MEM_PINNED, p);
  tear_down();
}
END_TEST

START_TEST(runs_in_order) {
  set_up(devices[_i]);
  void *s = stream_new("a name longer than any limit of the system");
  log_begin();
  for (int i = 0; i < 64; i++) submit_log(s, i);
  sync_ok(s);
  ck_assert_int_eq(atomic_load(&log_n), 64);
  for (int i = 0; i < 64; i++) ck_assert_int_eq(log_of[i], i);
  type->stream_close(s);
  tear_down();
}
END_TEST

START_TEST(close_waits_for_all) {
  set_up(devices[_i]);
  static int count, ms = 2;
  count = 0;
  void *s = stream_new("s");
  submit(s, op_nap, &ms);
  for (int i = 0; i < 2000; i++) submit(s, op_add, &count);
  type->stream_close(s);
  ck_assert_int_eq(count, 2000);
  tear_down();
}
END_TEST

START_TEST(streams_are_independent) {
  set_up(devices[_i]);
  static int count;
  count = 0;
  atomic_int *gate = kit_gate();
  void *a = stream_new("a"), *b = stream_new("b");
  shut(a, gate);
  for (int i = 0; i < kit_many; i++) submit(a, op_add, &count);
  log_begin();
  submit_log(b, 1);
  sync_ok(b); /* while a's gate is shut */
  ck_assert_int_eq(atomic_load(&log_n), 1);
  atomic_store(gate, 1);
  sync_ok(a);
  ck_assert_int_eq(count, kit_many);
  type->stream_close(a);
  type->stream_close(b);
  tear_down();
}
END_TEST

START_TEST(wait_orders_streams) {
  set_up(devices[_i]);
  atomic_int *gate = kit_gate();
  void *a = stream_new("a"), *b = stream_new("b"), *e = event_new(0);
  log_begin();
  ck_assert_int_eq(complete(e), 1); /* never recorded */
  await(b, e);
  shut(a, gate);
  submit_log(a, 1);
  record(e, a);
  await(b, e);
  submit_log(b, 2);
  if (kit_holds(type)) {
    nap(5);
    ck_assert_int_eq(complete(e), 0);
    ck_assert_int_eq(atomic_load(&log_n), 0);
  }
  atomic_store(gate, 1);
  sync_ok(b);
  ck_assert_int_eq(complete(e), 1);
  ck_assert_int_eq(log_of[0], 1);
  ck_assert_int_eq(log_of[1], 2);
  type->stream_close(a);
  type->stream_close(b);
  type->event_close(e);
  tear_down();
}
END_TEST

/* A wait means the record before it, even when the event is recorded again meanwhile. */
START_TEST(wait_means_the_latest_record) {
  set_up(devices[_i]);
  atomic_int *gate = kit_gate();
  void *a = stream_new("a"), *b = stream_new("b"), *c = stream_new("c"), *e = event_new(0);
  log_begin();
  submit_log(a, 1);
  record(e, a);
  await(b, e); /* for a's first record, not for what is behind the gate */
  submit_log(b, 2);
  shut(a, gate);
  record(e, a);
  sync_ok(b);
  ck_assert_int_eq(atomic_load(&log_n), 2);
  await(b, e); /* now for the one behind the gate */
  submit_log(b, 4);
  submit_log(c, 3);
  record(e, c); /* recorded by another stream: sync means c's, although a's is not through */
  ck_assert_int_eq(type->event_sync(ctx, e), SP_OK);
  if (kit_holds(type)) {
    nap(3);
    ck_assert_int_eq(atomic_load(&log_n), 3);
    ck_assert_int_eq(log_of[2], 3);
  }
  atomic_store(gate, 1);
  sync_ok(b);
  ck_assert_int_eq(atomic_load(&log_n), 4);
  type->stream_close(a);
  type->stream_close(b);
  type->stream_close(c);
  type->event_close(e);
  tear_down();
}
END_TEST

START_TEST(query_loops_end) {
  set_up(devices[_i]);
  static int count;
  count = 0;
  void *s = stream_new("s"), *e = event_new(0);
  for (int i = 0; i < 100; i++) submit(s, op_add, &count);
  record(e, s);
  while (!complete(e)) continue;
  ck_assert_int_eq(count, 100);
  type->stream_close(s);
  type->event_close(e);
  tear_down();
}
END_TEST

START_TEST(failure_is_sticky_and_travels) {
  set_up(devices[_i]);
  static int count, first = SP_E_DATA, second = SP_E_IO;
  count = 0;
  void *a = stream_new("a"), *b = stream_new("b"), *c = stream_new("other"), *e = event_new(0), *e2 = event_new(0);
  submit_failure(a, &first);
  submit_failure(a, &second);
  submit(a, op_add, &count);
  record(e, a);
  await(b, e);
  submit_failure(b, &second);
  submit(b, op_add, &count);
  record(e2, b);
  submit(c, op_nap, &count);
  ck_assert_int_eq(type->event_sync(ctx, e2), SP_E_DATA);
  ck_assert_int_eq(complete(e), 1);
  ck_assert_int_eq(type->event_sync(ctx, e), SP_E_DATA);
  ck_assert_int_eq(type->stream_sync(ctx, b), SP_E_DATA);
  ck_assert_int_eq(type->stream_sync(ctx, a), SP_E_DATA);
  err = (sp_err){0};
  ck_assert_int_eq(type->stream_sync(ctx, a), SP_E_DATA); /* sticky */
  ck_assert_ptr_nonnull(strstr(err.msg, "'a'"));
  ck_assert_int_eq(count, 0);
  sync_ok(c);
  await(a, e2); /* waits and records of a failed stream end too */
  record(e, a);
  ck_assert_int_eq(type->event_sync(ctx, e), SP_E_DATA);
  await(c, e);
  ck_assert_int_eq(type->stream_sync(ctx, c), SP_E_DATA);
  type->stream_close(a);
  type->stream_close(b);
  type->stream_close(c);
  type->event_close(e);
  type->event_close(e2);
  tear_down();
}
END_TEST

START_TEST(an_event_forgets_a_failure_when_recorded_again) {
  set_up(devices[_i]);
  static int first = SP_E_DATA;
  void *a = stream_new("a"), *b = stream_new("b"), *e = event_new(0);
  submit_failure(a, &first);
  record(e, a);
  ck_assert_int_eq(type->event_sync(ctx, e), SP_E_DATA);
  record(e, b);
  ck_assert_int_eq(type->event_sync(ctx, e), SP_OK);
  type->stream_close(a);
  type->stream_close(b);
  type->event_close(e);
  tear_down();
}
END_TEST

START_TEST(measures_time) {
  set_up(devices[_i]);
  static int ms = 20;
  double took = -1;
  void *s = stream_new("s"), *plain = event_new(0);
  void *from = event_new(SP_EVENT_TIMING), *to = event_new(SP_EVENT_TIMING);
  ck_assert_int_eq(type->event_elapsed(ctx, from, to, &took), SP_E_STATE); /* never recorded */
  record(from, s);
  submit(s, op_nap, &ms);
  record(to, s);
  record(plain, s);
  sync_ok(s);
  ck_assert_int_eq(type->event_elapsed(ctx, from, to, &took), SP_OK);
  ck_assert(took >= 19 && took < 20000);
  ck_assert_int_eq(type->event_elapsed(ctx, from, plain, &took), SP_E_STATE);
  type->stream_close(s);
  type->event_close(from);
  type->event_close(to);
  type->event_close(plain);
  tear_down();
}
END_TEST

START_TEST(captures) {
  set_up(devices[_i]);
  if (!(type->flags & SP_DEVICE_CAPTURE)) return tear_down();
  enum { N = 1000 };
  static int count, failure = SP_E_RANGE;
  count = 0;
  void *s = stream_new("s"), *t = stream_new("t"), *e = event_new(0), *graph = NULL, *bad = NULL;
  void *d = memory(SP_MEM_DEVICE, N);
  unsigned char *p = memory(SP_MEM_PINNED, N), *fives = memory(SP_MEM_PINNED, N);
  memset(p, 0, N);
  memset(fives, 5, N);
  ck_assert_int_eq(type->capture_end(ctx, s, &graph), SP_E_STATE);
  ck_assert_int_eq(type->capture_begin(ctx, s), SP_OK);
  submit(s, op_add, &count);
  ck_assert_int_eq(type->stream_copy(ctx, s, d, fives, N), SP_OK);
  ck_assert_int_eq(type->stream_copy(ctx, s, p, d, N), SP_OK);
  ck_assert_int_eq(type->stream_wait(ctx, s, e), SP_E_STATE);
  if (!(type->flags & SP_DEVICE_FORK)) ck_assert_int_eq(type->event_record(ctx, e, s), SP_E_STATE);
  ck_assert_int_eq(type->stream_sync(ctx, s), SP_E_STATE);
  ck_assert_int_eq(type->capture_begin(ctx, s), SP_E_STATE);
  ck_assert_int_eq(type->capture_end(ctx, s, &graph), SP_OK);
  sync_ok(s);
  ck_assert_int_eq(count, 0); /* kept, not run */
  for (int i = 0; i < 3; i++) ck_assert_int_eq(type->graph_launch(ctx, graph, s), SP_OK);
  sync_ok(s);
  ck_assert_int_eq(type->graph_launch(ctx, graph, t), SP_OK); /* any stream may launch it */
  sync_ok(t);
  ck_assert_int_eq(count, 4);
  for (int i = 0; i < N; i++) ck_assert_int_eq(p[i], 5);

  ck_assert_int_eq(type->capture_begin(ctx, s), SP_OK);
  submit_failure(s, &failure);
  submit(s, op_add, &count);
  ck_assert_int_eq(type->capture_end(ctx, s, &bad), SP_OK);
  ck_assert_int_eq(type->graph_launch(ctx, bad, s), SP_OK);
  ck_assert_int_eq(type->stream_sync(ctx, s), SP_E_RANGE);
  ck_assert_int_eq(count, 4);
  ck_assert_int_eq(type->capture_begin(ctx, t), SP_OK); /* closed before its end: nothing leaks */
  submit(t, op_add, &count);
  type->stream_close(s);
  type->stream_close(t);
  type->graph_close(graph);
  type->graph_close(bad);
  type->event_close(e);
  type->free(dev, SP_MEM_DEVICE, d);
  type->free(dev, SP_MEM_PINNED, p);
  type->free(dev, SP_MEM_PINNED, fives);
  tear_down();
}
END_TEST

/* ---- checksums ---- */

enum { HASHED = 70000 };

typedef struct hashing {
  void *s, *d;
  unsigned char *a, *b; /* what is copied into d */
  uint64_t *sum;
} hashing;

static hashing hashing_new(void) {
  hashing h = {stream_new("hashes"), memory(SP_MEM_DEVICE, HASHED), memory(SP_MEM_PINNED, HASHED),
               memory(SP_MEM_PINNED, HASHED), memory(SP_MEM_PINNED, 64 * sizeof(uint64_t))};
  for (int i = 0; i < HASHED; i++) {
    h.a[i] = (unsigned char)(i * 7 + i / 251);
    h.b[i] = (unsigned char)(i * 3 + 1);
  }
  memset(h.sum, 0, 64 * sizeof(uint64_t));
  return h;
}

static void hashing_free(hashing *h) {
  type->stream_close(h->s);
  type->free(dev, SP_MEM_DEVICE, h->d);
  type->free(dev, SP_MEM_PINNED, h->a);
  type->free(dev, SP_MEM_PINNED, h->b);
  type->free(dev, SP_MEM_PINNED, h->sum);
}

static void hash_all(const hashing *h, const void *from, uint64_t *sum) {
  if (from) ck_assert_int_eq(type->stream_copy(ctx, h->s, h->d, from, HASHED), SP_OK);
  ck_assert_int_eq(type->stream_hash(ctx, h->s, h->d, HASHED, sum), SP_OK);
}

/* Any number of bytes anywhere, and the value that every other device has. */
START_TEST(hashes_have_one_value) {
  set_up(devices[_i]);
  if (!type->stream_hash) return tear_down();
  static const size_t sizes[] = {0, 1, 4, 7, 8, 9, 31, 8191, 32768, 65543}, places[] = {0, 1, 4, 6, 8, 264};
  hashing h = hashing_new();
  size_t n = 0;
  ck_assert_int_eq(type->stream_copy(ctx, h.s, h.d, h.a, HASHED), SP_OK);
  for (size_t i = 0; i < SP_ARRAY(sizes); i++)
    for (size_t k = 0; k < SP_ARRAY(places); k++)
      ck_assert_int_eq(type->stream_hash(ctx, h.s, (char *)h.d + places[k], sizes[i], &h.sum[n++]), SP_OK);
  ck_assert_int_eq(type->stream_hash(ctx, h.s, NULL, 0, &h.sum[n]), SP_OK);
  sync_ok(h.s);
  ck_assert_uint_eq(h.sum[n], sp_checksum(NULL, 0));
  n = 0;
  for (size_t i = 0; i < SP_ARRAY(sizes); i++)
    for (size_t k = 0; k < SP_ARRAY(places); k++, n++)
      ck_assert_msg(h.sum[n] == sp_checksum(h.a + places[k], sizes[i]), "%zu bytes at %zu", sizes[i], places[k]);
  hashing_free(&h);
  tear_down();
}
END_TEST

/* Of memory as it is when the stream gets there; waited for as any operation. */
START_TEST(hashes_are_operations_of_their_stream) {
  set_up(devices[_i]);
  if (!type->stream_hash) return tear_down();
  static int failure = SP_E_DATA;
  hashing h = hashing_new();
  void *other = stream_new("other"), *e = event_new(0);
  uint64_t a = sp_checksum(h.a, HASHED), b = sp_checksum(h.b, HASHED);
  atomic_int *gate = kit_gate();
  hash_all(&h, h.a, &h.sum[4]); /* code that CUDA loads when it is first needed waits for all streams */
  sync_ok(h.s);
  shut(h.s, gate);
  hash_all(&h, h.a, &h.sum[0]);
  hash_all(&h, h.b, &h.sum[1]);
  record(e, h.s);
  await(other, e);
  ck_assert_int_eq(type->stream_hash(ctx, other, h.d, HASHED, &h.sum[2]), SP_OK);
  if (kit_holds(type)) {
    nap(2);
    ck_assert_uint_eq(h.sum[0], 0);
  }
  atomic_store(gate, 1);
  sync_ok(other);
  ck_assert(a != b && h.sum[0] == a && h.sum[1] == b && h.sum[2] == b);

  h.sum[3] = 5;
  submit_failure(h.s, &failure);
  hash_all(&h, NULL, &h.sum[3]);
  ck_assert_int_eq(type->stream_sync(ctx, h.s), SP_E_DATA);
  ck_assert_uint_eq(h.sum[3], 5); /* dropped */
  type->stream_close(other);
  type->event_close(e);
  hashing_free(&h);
  tear_down();
}
END_TEST

START_TEST(hashes_are_captured) {
  set_up(devices[_i]);
  if (!type->stream_hash || !(type->flags & SP_DEVICE_CAPTURE)) return tear_down();
  hashing h = hashing_new();
  void *graph = NULL;
  hash_all(&h, h.b, &h.sum[1]); /* nothing is recorded in a loop's first step either */
  sync_ok(h.s);
  ck_assert_int_eq(type->capture_begin(ctx, h.s), SP_OK);
  hash_all(&h, h.a, &h.sum[0]);
  ck_assert_int_eq(type->capture_end(ctx, h.s, &graph), SP_OK);
  sync_ok(h.s);
  ck_assert_uint_eq(h.sum[0], 0); /* kept, not run */
  for (int i = 0; i < 3; i++) {
    h.a[i] ^= 1;
    ck_assert_int_eq(type->graph_launch(ctx, graph, h.s), SP_OK);
    sync_ok(h.s);
    ck_assert_uint_eq(h.sum[0], sp_checksum(h.a, HASHED));
  }
  type->graph_close(graph);
  hashing_free(&h);
  tear_down();
}
END_TEST

/* The numbers that a run folder holds, and that two words which change places change them. */
START_TEST(checksums_are_what_they_were) {
  const uint64_t words[2] = {1, 2}, turned[2] = {2, 1};
  ck_assert_uint_eq(sp_checksum("", 0), 0);
  ck_assert_uint_eq(sp_checksum(words, sizeof words), 0x8b384412e0e4e7cbu);
  ck_assert_uint_eq(sp_checksum("spcore", 6), 0xf7dc191266592dceu);
  ck_assert_uint_ne(sp_checksum(turned, sizeof turned), sp_checksum(words, sizeof words));
  ck_assert_uint_ne(sp_checksum("a\0", 2), sp_checksum("a", 1));
}
END_TEST

/* Three streams pass a value round through events, as lanes do: every step sees the one before. */
START_TEST(ring_of_streams) {
  set_up(devices[_i]);
  enum { STREAMS = 3, STEPS = 1500 };
  static int count;
  count = 0;
  void *s[STREAMS], *e[STREAMS];
  for (int i = 0; i < STREAMS; i++) {
    s[i] = stream_new("ring");
    e[i] = event_new(0);
  }
  for (int t = 0; t < STEPS; t++) {
    int i = t % STREAMS;
    await(s[i], e[(i + STREAMS - 1) % STREAMS]);
    submit(s[i], op_add, &count); /* not atomic: TSan sees a missing wait */
    record(e[i], s[i]);
  }
  for (int i = 0; i < STREAMS; i++) sync_ok(s[i]);
  ck_assert_int_eq(count, STEPS);
  for (int i = 0; i < STREAMS; i++) {
    type->stream_close(s[i]);
    type->event_close(e[i]);
  }
  tear_down();
}
END_TEST

static void some_steps(void *const s[2], void *const e[2], int *count, void *mem, const void *from) {
  for (int t = 0; t < 200; t++) {
    await(s[0], e[1]);
    submit(s[0], op_add, count);
    record(e[0], s[0]);
    await(s[1], e[0]);
    ck_assert_int_eq(type->stream_copy(ctx, s[1], mem, from, 64), SP_OK);
    submit(s[1], op_add, count);
    record(e[1], s[1]);
    if (t % 20 == 19) sync_ok(s[1]);
  }
}

/* Memory in use is the same after 200 and after 2000 steps. */
START_TEST(allocates_nothing_once_warm) {
  set_up(devices[_i]);
  static int count;
  void *s[2] = {stream_new("a"), stream_new("b")}, *e[2] = {event_new(0), event_new(0)};
  void *mem = memory(SP_MEM_DEVICE, 64), *from = memory(SP_MEM_PINNED, 64);
  memset(from, 1, 64);
  some_steps(s, e, &count, mem, from);
  size_t before = kit_memory();
  for (int i = 0; i < 9; i++) some_steps(s, e, &count, mem, from);
  ck_assert_uint_eq(kit_memory(), before);
  for (int i = 0; i < 2; i++) {
    type->stream_close(s[i]);
    type->event_close(e[i]);
  }
  type->free(dev, SP_MEM_DEVICE, mem);
  type->free(dev, SP_MEM_PINNED, from);
  tear_down();
}
END_TEST

int main(void) {
  int n;
  devices = kit_devices(&n);
  Suite *suite = suite_create("device");
  TCase *all = tcase_create("every device");
  tcase_set_timeout(all, 30);
  tcase_add_loop_test(all, describes_itself, 0, n);
  tcase_add_loop_test(all, copies, 0, n);
  tcase_add_loop_test(all, copies_a_little, 0, n);
  tcase_add_loop_test(all, refuses_impossible_memory, 0, n);
  tcase_add_loop_test(all, runs_in_order, 0, n);
  tcase_add_loop_test(all, close_waits_for_all, 0, n);
  tcase_add_loop_test(all, streams_are_independent, 0, n);
  tcase_add_loop_test(all, wait_orders_streams, 0, n);
  tcase_add_loop_test(all, wait_means_the_latest_record, 0, n);
  tcase_add_loop_test(all, query_loops_end, 0, n);
  tcase_add_loop_test(all, failure_is_sticky_and_travels, 0, n);
  tcase_add_loop_test(all, an_event_forgets_a_failure_when_recorded_again, 0, n);
  tcase_add_loop_test(all, measures_time, 0, n);
  tcase_add_loop_test(all, captures, 0, n);
  tcase_add_loop_test(all, hashes_have_one_value, 0, n);
  tcase_add_loop_test(all, hashes_are_operations_of_their_stream, 0, n);
  tcase_add_loop_test(all, hashes_are_captured, 0, n);
  tcase_add_test(all, checksums_are_what_they_were);
  tcase_add_loop_test(all, ring_of_streams, 0, n);
  tcase_add_loop_test(all, allocates_nothing_once_warm, 0, n);
  suite_add_tcase(suite, all);
  return kit_run(suite);
}
