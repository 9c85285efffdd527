/* SPDX-License-Identifier: MIT
 * device_kit.h - short words for tests that use a device through its interface, and what differs between the devices
 * whose operations are functions of the host and CUDA. */
#ifndef SP_TESTS_DEVICE_KIT_H
#define SP_TESTS_DEVICE_KIT_H

#include <check.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "base/ctx.h"
#include "base/util.h"

#include <spcore/device.h>

/* ---- what differs: device_host.c, of libkit, and for CUDA tests/cuda/check_device.c, which defines all of it ---- */

/* The devices that the suite is about. Ends the program as skipped, with the reason, where there is none. */
const sp_device_type *const *kit_devices(int *n);

/* Begins a test: what the calls below handed out before is used again. */
void kit_begin(void);

/* Has the stream call fn(arg, NULL) on the host when its turn comes; on CUDA the status that it returns is lost. */
int kit_submit(sp_ctx *ctx, const sp_device_type *type, void *stream, sp_op_fn fn, void *arg);
extern const int kit_many; /* so many at once are not too many for a stream, and more than its queue holds at first */

/* Holds the stream until *open is not 0, unless kit_holds() is false: sim has no thread and runs operations in any
 * order anyhow, and the emulator's streams run at once. On CUDA a host function would hold all other streams too. */
bool kit_holds(const sp_device_type *type);
int kit_shut(sp_ctx *ctx, const sp_device_type *type, void *stream, atomic_int *open);
atomic_int *kit_gate(void); /* shut; the device can read it */

/* Bytes that the process has allocated; always 0 where nobody counts them. */
size_t kit_memory(void);

/* Runs the suite, with the tests that are of this device alone if there are any; for main() to return. */
int kit_run(Suite *suite);

/* ---- short words; nearly all are about `type`, opened as `dev` ---- */

#define KIT __attribute__((unused)) static /* not every test needs every word */

static const sp_device_type *type;
static void *dev;
static sp_err err;
static sp_ctx_holder holder;
static sp_ctx *ctx;

KIT void set_up(const sp_device_type *t) {
  type = t;
  kit_begin();
  ctx = sp_ctx_for(&holder, "device", &err);
  ck_assert_int_eq(type->open(ctx, 0, &dev), SP_OK);
}

KIT void tear_down(void) { type->close(dev); }

KIT void *stream_of(const char *name, int priority) {
  void *s = NULL;
  ck_assert_int_eq(type->stream_open(ctx, dev, name, priority, &s), SP_OK);
  return s;
}

KIT void *stream_new(const char *name) { return stream_of(name, 0); }

KIT void *event_new(uint32_t flags) {
  void *e = NULL;
  ck_assert_int_eq(type->event_open(ctx, dev, flags, &e), SP_OK);
  return e;
}

KIT void *memory(int kind, size_t bytes) {
  void *p = NULL;
  ck_assert_int_eq(type->alloc(ctx, dev, kind, bytes, &p), SP_OK);
  ck_assert_uint_eq((uintptr_t)p % SP_ALIGN, 0);
  return p;
}

KIT void nap(int ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
  while (nanosleep(&t, &t) && errno == EINTR) continue;
}

KIT void submit(void *s, sp_op_fn fn, void *arg) { ck_assert_int_eq(kit_submit(ctx, type, s, fn, arg), SP_OK); }
KIT void shut(void *s, atomic_int *gate) { ck_assert_int_eq(kit_shut(ctx, type, s, gate), SP_OK); }
KIT void record(void *e, void *s) { ck_assert_int_eq(type->event_record(ctx, e, s), SP_OK); }
KIT void await(void *s, void *e) { ck_assert_int_eq(type->stream_wait(ctx, s, e), SP_OK); }
KIT void sync_ok(void *s) { ck_assert_msg(type->stream_sync(ctx, s) == SP_OK, "%s", err.msg); }

KIT int complete(void *e) {
  int c = -1;
  ck_assert_int_eq(type->event_query(ctx, e, &c), SP_OK);
  return c;
}

/* ---- operations ---- */

static atomic_int log_n;
static int log_of[64];

KIT void log_begin(void) { atomic_store(&log_n, 0); }

static int op_log(void *arg, void *native) {
  (void)native;
  log_of[atomic_fetch_add(&log_n, 1)] = *(int *)arg;
  return SP_OK;
}

/* Writes `number` into the log when its turn comes. */
KIT void submit_log(void *s, int number) {
  static int numbers[SP_ARRAY(log_of)];
  ck_assert_uint_lt((size_t)number, SP_ARRAY(numbers));
  numbers[number] = number;
  submit(s, op_log, &numbers[number]);
}

KIT int op_add(void *arg, void *native) {
  (void)native;
  ++*(int *)arg;
  return SP_OK;
}

static int op_fail(void *arg, void *native) {
  (void)native;
  return *(int *)arg;
}

/* The stream fails with *status, which stays where it is. */
KIT void submit_failure(void *s, int *status) { ck_assert_int_eq(type->stream_submit(ctx, s, op_fail, status), SP_OK); }

#endif
