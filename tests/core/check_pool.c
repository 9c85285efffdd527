/* SPDX-License-Identifier: MIT
 * check_pool.c - the pinned pool: reuse, sizes, cap, words. */
#include <check.h>
#include <string.h>

#include "device/cpu.h"
#include "device/pool.h"
#include "host/stage.h"
#include "tests/kit/suite.h"

/* The processor, whose blocks are counted. */
static sp_device_type counting;
static const sp_device_type *type = &counting;
static struct {
  void *ptr;
  size_t bytes;
} held[8];
static size_t allocs;
static void *dev;
static sp_err err;
static sp_ctx_holder holder;
static sp_ctx *ctx;

static int count_alloc(sp_ctx *c, void *device, int kind, size_t bytes, void **ptr) {
  size_t i = 0;
  int status = sp_device_cpu.alloc(c, device, kind, bytes, ptr);
  while (i < SP_ARRAY(held) && held[i].ptr) i++;
  ck_assert(i < SP_ARRAY(held));
  if (!status) held[i].ptr = *ptr, held[i].bytes = bytes, allocs++;
  return status;
}

static void count_free(void *device, int kind, void *ptr) {
  for (size_t i = 0; i < SP_ARRAY(held); i++)
    if (held[i].ptr == ptr) held[i].ptr = NULL, held[i].bytes = 0;
  sp_device_cpu.free(device, kind, ptr);
}

static size_t held_bytes(void) {
  size_t bytes = 0;
  for (size_t i = 0; i < SP_ARRAY(held); i++) bytes += held[i].bytes;
  return bytes;
}

static void set_up(void) {
  counting = sp_device_cpu;
  counting.alloc = count_alloc;
  counting.free = count_free;
  ctx = sp_ctx_for(&holder, "device", &err);
  ck_assert_int_eq(type->open(ctx, 0, &dev), SP_OK);
}

static void tear_down(void) { type->close(dev); }

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

static void put(sp_pool *pool, void *p) { ck_assert_int_eq(sp_pool_put(pool, p, &err), SP_OK); }

START_TEST(reuses_by_size) {
  sp_pool *pool = pool_new(0);
  void *a = get(pool, 5000), *b = get(pool, 100);
  ck_assert_uint_eq(held_bytes(), 8192 + 4096);
  put(pool, a);
  put(pool, b);
  ck_assert_uint_eq(held_bytes(), 8192 + 4096);
  ck_assert_ptr_eq(get(pool, 8192), a);
  ck_assert_ptr_eq(get(pool, 1), b);
  ck_assert_uint_eq(allocs, 2);
  ck_assert_int_eq(sp_pool_put(pool, &allocs, &err), SP_E_INVALID);
  put(pool, b);
  ck_assert_int_eq(sp_pool_put(pool, b, &err), SP_E_INVALID); /* twice */
  sp_pool_free(pool);
  ck_assert_uint_eq(held_bytes(), 0);
}
END_TEST

START_TEST(at_the_cap_it_takes_a_larger_block_or_frees_smaller_ones) {
  sp_pool *pool = pool_new(16384);
  void *a = get(pool, 8192), *b = get(pool, 4096), *c = get(pool, 4096);
  put(pool, a);
  ck_assert_ptr_eq(get(pool, 4096), a);
  put(pool, a);
  put(pool, b);
  put(pool, c);
  void *d = get(pool, 16384);
  ck_assert_uint_eq(held_bytes(), 16384); /* the others are freed */
  put(pool, d);
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

int main(void) {
  Suite *suite = suite_create("pool");
  TCase *tc = tcase_create("pinned");
  tcase_set_timeout(tc, 20);
  tcase_add_checked_fixture(tc, set_up, tear_down);
  tcase_add_test(tc, reuses_by_size);
  tcase_add_test(tc, at_the_cap_it_takes_a_larger_block_or_frees_smaller_ones);
  tcase_add_test(tc, exhausted_says_why);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
