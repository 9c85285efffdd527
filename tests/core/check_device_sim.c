/* SPDX-License-Identifier: MIT
 * check_device_sim.c - the devices sim and simmock alone: their seeds, and operations that wait inside themselves. What
 * holds for every device is in check_device.c. */
#include <string.h>

#include "device/cpu.h"
#include "device/place.h"
#include "tests/kit/device_kit.h"

#include <spcore/checksum.h>

static uint64_t order_of(uint64_t seed) {
  sp_device_sim_seed(seed);
  set_up(&sp_device_sim);
  void *s[3] = {stream_new("a"), stream_new("b"), stream_new("c")};
  log_begin();
  for (int i = 0; i < 10; i++)
    for (int k = 0; k < 3; k++) submit_log(s[k], k);
  for (int k = 0; k < 3; k++) sync_ok(s[k]);
  for (int k = 0; k < 3; k++) type->stream_close(s[k]);
  tear_down();
  return sp_fnv64(SP_FNV64, log_of, 30 * sizeof log_of[0]);
}

START_TEST(a_seed_is_a_timing) {
  int different = 0;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    uint64_t h = order_of(seed);
    ck_assert_uint_eq(h, order_of(seed));
    different += h != order_of(seed + 100);
  }
  ck_assert_int_ge(different, 19);
}
END_TEST

static void *cycle_stream;
static int inner_status;

static int op_sync_other(void *arg, void *native) {
  sp_ctx_holder h;
  sp_err *inner = arg;
  (void)native;
  inner_status = type->stream_sync(sp_ctx_for(&h, "device", inner), cycle_stream);
  return inner_status;
}

static int op_sync_event(void *arg, void *native) {
  sp_ctx_holder h;
  static sp_err inner;
  (void)native;
  return type->event_sync(sp_ctx_for(&h, "device", &inner), arg);
}

/* Two operations that wait for each other's streams, but not in a circle: nested in one thread they would block. */
START_TEST(behind_a_border_an_operation_waits_in_its_stream) {
  int status = SP_E_IO;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    sp_device_sim_seed(seed);
    set_up(&sp_device_simmock);
    void *a = stream_new("reader"), *b = stream_new("copies"), *c = stream_new("train");
    void *e[2] = {event_new(0), event_new(0)};
    log_begin();
    submit_log(c, 0);
    record(e[0], c);
    submit(a, op_sync_event, e[0]);
    submit_log(a, 1);
    record(e[1], a);
    submit(b, op_sync_event, e[1]);
    submit_log(b, 2);
    sync_ok(b);
    ck_assert_int_eq(atomic_load(&log_n), 3);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(log_of[i], i);
    submit_failure(c, &status);
    record(e[0], c);
    submit(a, op_sync_event, e[0]);
    submit_log(a, 3);
    ck_assert_int_ne(type->stream_sync(ctx, a), SP_OK);
    ck_assert_int_eq(atomic_load(&log_n), 3); /* the failure came along */
    type->stream_close(a);
    type->stream_close(b);
    type->stream_close(c);
    for (int i = 0; i < 2; i++) type->event_close(e[i]);
    tear_down();
  }
}
END_TEST

START_TEST(a_cycle_is_named) {
  static sp_err inner;
  static int count;
  set_up(&sp_device_sim);
  void *a = stream_new("reader"), *b = stream_new("train"), *e = event_new(0);
  cycle_stream = b;
  submit(a, op_sync_other, &inner); /* waits for b, which waits for what is recorded behind this operation */
  record(e, a);
  await(b, e);
  submit(b, op_add, &count);
  ck_assert_int_eq(type->stream_sync(ctx, a), SP_E_STATE);
  ck_assert_int_eq(inner_status, SP_E_STATE);
  ck_assert_ptr_nonnull(strstr(inner.msg, "deadlock"));
  ck_assert_ptr_nonnull(strstr(inner.msg, "'reader' is inside"));
  ck_assert_ptr_nonnull(strstr(inner.msg, "'train' waits for an event of stream 'reader'"));
  type->stream_close(a);
  type->stream_close(b);
  type->event_close(e);
  tear_down();
}
END_TEST

/* Of memory that the host cannot read: the device's own, and that of a copy where it makes none. */
START_TEST(checksums_of_a_place) {
  enum { N = 70001 };
  static unsigned char data[N];
  for (int i = 0; i < N; i++) data[i] = (unsigned char)(i * 7 + i / 251);
  for (int own = 0; own < 2; own++) {
    sp_device_type copy = sp_device_simmock;
    sp_place place;
    sp_err why;
    uint64_t sum[2];
    void *memory;
    if (!own) copy.stream_hash = NULL;
    ck_assert_int_eq(sp_place_open(&place, &copy, 0, &why), SP_OK);
    ck_assert(!sp_place_is_host(&place));
    ck_assert_int_eq(sp_place_alloc(&place, N, "weights", &memory, &why), SP_OK);
    ck_assert_int_eq(sp_place_upload(&place, memory, data, N, &why), SP_OK);
    ck_assert_int_eq(sp_place_checksum(&place, memory, N, "weights", &sum[0], &why), SP_OK);
    ck_assert_int_eq(sp_place_checksum(&place, memory, 5, "weights", &sum[1], &why), SP_OK);
    ck_assert_uint_eq(sum[0], sp_checksum(data, N));
    ck_assert_uint_eq(sum[1], sp_checksum(data, 5));
    sp_place_free(&place, memory);
    sp_place_close(&place);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("device sim");
  TCase *sim = tcase_create("sim");
  tcase_add_test(sim, a_seed_is_a_timing);
  tcase_add_test(sim, a_cycle_is_named);
  tcase_add_test(sim, behind_a_border_an_operation_waits_in_its_stream);
  tcase_add_test(sim, checksums_of_a_place);
  suite_add_tcase(suite, sim);
  return kit_run(suite);
}
