/* SPDX-License-Identifier: MIT
 * check_pool.c - the pinned pool: reuse behind an event, sizes, cap, words. */
#include <check.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device_cpu.h"
#include "pool.h"
#include "stage.h"

static const sp_device_type *type = &sp_device_cpu;
static void *dev, *stream;
static sp_err err;
static sp_ctx_holder holder;
static sp_ctx *ctx;
static atomic_int gate;

static int op_gate(void *arg, void *native) {
  (void)arg;
  (void)native;
  while (!atomic_load(&gate)) nanosleep(&(struct timespec){0, 200000}, NULL);
  return SP_OK;
}

static int op_open_soon(void *arg, void *native) {
  (void)native;
  nanosleep(&(struct timespec){0, 5000000}, NULL);
  atomic_store((atomic_int *)arg, 1);
  return SP_OK;
}

static int op_fail(void *arg, void *native) {
  (void)arg;
  (void)native;
  return SP_E_DATA;
}

static void set_up(void) {
  ctx = sp_ctx_for(&holder, "device", &err);
  atomic_store(&gate, 0);
  ck_assert_int_eq(type->open(ctx, 0, &dev), SP_OK);
  ck_assert_int_eq(type->stream_open(ctx, dev, "copy", 0, &stream), SP_OK);
}

static void tear_down(void) {
  type->stream_close(stream);
  type->close(dev);
}

static sp_pool *pool_new(size_t cap) {
  sp_pool *pool = NULL;
  ck_assert_int_eq(sp_pool_new(&pool, type, dev, cap, "--pinned", &err), SP_OK);
  return pool;
}

static void *get(sp_pool *pool, size_t bytes) {
  void *p = NULL;
  ck_assert_msg(sp_pool_get(pool, bytes, &p, &err) == SP_OK, "%s", err.msg);
  memset(p, 1, bytes);
  return p;
}

static void put(sp_pool *pool, void *p, void *s) { ck_assert_int_eq(sp_pool_put(pool, p, s, &err), SP_OK); }

static size_t allocs(const sp_pool *pool) {
  size_t n;
  sp_pool_stats(pool, NULL, NULL, &n);
  return n;
}

START_TEST(reuses_by_size) {
  sp_pool *pool = pool_new(0);
  size_t in_use, kept;
  void *a = get(pool, 5000), *b = get(pool, 100);
  sp_pool_stats(pool, &in_use, &kept, NULL);
  ck_assert_uint_eq(in_use, 8192 + 4096);
  ck_assert_uint_eq(kept, 0);
  put(pool, a, NULL);
  put(pool, b, NULL);
  sp_pool_stats(pool, &in_use, &kept, NULL);
  ck_assert_uint_eq(in_use, 0);
  ck_assert_uint_eq(kept, 8192 + 4096);
  ck_assert_ptr_eq(get(pool, 8192), a);
  ck_assert_ptr_eq(get(pool, 1), b);
  ck_assert_uint_eq(allocs(pool), 2);
  ck_assert_int_eq(sp_pool_put(pool, &in_use, NULL, &err), SP_E_INVALID);
  put(pool, b, NULL);
  ck_assert_int_eq(sp_pool_put(pool, b, NULL, &err), SP_E_INVALID); /* twice */
  sp_pool_free(pool);
}
END_TEST

START_TEST(reuse_waits_for_the_event) {
  sp_pool *pool = pool_new(0);
  void *a = get(pool, 4096);
  ck_assert_int_eq(type->stream_submit(ctx, stream, op_gate, NULL), SP_OK);
  put(pool, a, stream);
  void *b = get(pool, 4096);
  ck_assert_ptr_ne(a, b); /* the stream may still read a */
  atomic_store(&gate, 1);
  ck_assert_int_eq(type->stream_sync(ctx, stream), SP_OK);
  ck_assert_ptr_eq(get(pool, 4096), a);
  put(pool, a, stream);
  put(pool, b, NULL);
  ck_assert_int_eq(type->stream_sync(ctx, stream), SP_OK);
  sp_pool_free(pool);
}
END_TEST

START_TEST(at_the_cap_it_waits) {
  sp_pool *pool = pool_new(4096);
  atomic_int passed = 0;
  void *a = get(pool, 4096);
  ck_assert_int_eq(type->stream_submit(ctx, stream, op_open_soon, &passed), SP_OK);
  put(pool, a, stream);
  ck_assert_ptr_eq(get(pool, 10), a);
  ck_assert_int_eq(atomic_load(&passed), 1);
  sp_pool_free(pool);
}
END_TEST

START_TEST(at_the_cap_it_takes_a_larger_block_or_frees_smaller_ones) {
  sp_pool *pool = pool_new(16384);
  void *a = get(pool, 8192), *b = get(pool, 4096), *c = get(pool, 4096);
  put(pool, a, NULL);
  ck_assert_ptr_eq(get(pool, 4096), a);
  put(pool, a, NULL);
  put(pool, b, stream);
  put(pool, c, NULL);
  void *d = get(pool, 16384);
  size_t in_use, kept;
  sp_pool_stats(pool, &in_use, &kept, NULL);
  ck_assert_uint_eq(in_use, 16384);
  ck_assert_uint_eq(kept, 0);
  put(pool, d, NULL);
  sp_pool_free(pool);
}
END_TEST

START_TEST(exhausted_says_why) {
  sp_pool *pool = pool_new(10000);
  void *p = NULL;
  get(pool, 8000);
  ck_assert_int_eq(sp_pool_get(pool, 5000, &p, &err), SP_E_NOMEM);
  ck_assert_ptr_nonnull(strstr(err.msg, "5000 bytes"));
  ck_assert_ptr_nonnull(strstr(err.msg, "8192 in use"));
  ck_assert_ptr_nonnull(strstr(err.msg, "10000 allowed"));
  ck_assert_ptr_nonnull(strstr(err.msg, "--pinned"));
  ck_assert_int_eq(sp_pool_get(pool, SIZE_MAX, &p, &err), SP_E_NOMEM);
  sp_pool_free(pool);
  pool = pool_new(0);
  ck_assert_int_eq(sp_pool_get(pool, SIZE_MAX, &p, &err), SP_E_NOMEM);
  ck_assert_int_eq(sp_pool_get(pool, SIZE_MAX / 4, &p, &err), SP_E_NOMEM);
  sp_pool_free(pool);
}
END_TEST

START_TEST(a_failed_stream_keeps_no_block) {
  sp_pool *pool = pool_new(4096);
  void *a = get(pool, 4096);
  ck_assert_int_eq(type->stream_submit(ctx, stream, op_fail, NULL), SP_OK);
  put(pool, a, stream);
  ck_assert_ptr_eq(get(pool, 4096), a);
  sp_pool_free(pool);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("pool");
  TCase *tc = tcase_create("pinned");
  tcase_set_timeout(tc, 20);
  tcase_add_checked_fixture(tc, set_up, tear_down);
  tcase_add_test(tc, reuses_by_size);
  tcase_add_test(tc, reuse_waits_for_the_event);
  tcase_add_test(tc, at_the_cap_it_waits);
  tcase_add_test(tc, at_the_cap_it_takes_a_larger_block_or_frees_smaller_ones);
  tcase_add_test(tc, exhausted_says_why);
  tcase_add_test(tc, a_failed_stream_keeps_no_block);
  suite_add_tcase(suite, tc);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
