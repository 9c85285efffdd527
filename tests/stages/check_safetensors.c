/* SPDX-License-Identifier: MIT
 * check_safetensors.c - weight files: round trip, alignment, and each way in which a file can be wrong. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <check.h>

#include "host/stage.h"
#include "tests/kit/harness.h"
#include "tests/kit/suite.h"

static char dir[256], path[300];
static sp_err err;
static sp_ctx_holder holder;
static const sp_format_type *st;

static void setup(void) {
  const char *tmp = getenv("TMPDIR");
  snprintf(dir, sizeof dir, "%s/sp_stXXXXXX", tmp && strlen(tmp) < 200 ? tmp : "/tmp");
  ck_assert_ptr_nonnull(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/a.safetensors", dir);
  ck_assert_msg(!spt_format(path, &st, &err), "%s", err.msg);
}

static void teardown(void) {
  unlink(path);
  ck_assert_msg(rmdir(dir) == 0, "something was left beside the file");
}

static sp_ctx *ctx(void) { return sp_ctx_for(&holder, "safetensors", &err); }

static void put(const void *data, size_t n) {
  FILE *f = fopen(path, "wb");
  ck_assert_ptr_nonnull(f);
  ck_assert_uint_eq(fwrite(data, 1, n, f), n);
  ck_assert_int_eq(fclose(f), 0);
}

/* Length, header, `data` zero bytes. */
static void put_header(const char *header, size_t data) {
  size_t n = strlen(header);
  uint8_t *b = calloc(1, 8 + n + data);
  ck_assert_ptr_nonnull(b);
  for (int i = 0; i < 8; i++) b[i] = (uint8_t)((uint64_t)n >> 8 * i);
  memcpy(b + 8, header, n);
  put(b, 8 + n + data);
  free(b);
}

static size_t get(uint8_t *dst, size_t cap) {
  FILE *f = fopen(path, "rb");
  ck_assert_ptr_nonnull(f);
  size_t n = fread(dst, 1, cap, f);
  fclose(f);
  return n;
}

static int try_open(void) {
  void *file = NULL;
  err = (sp_err){0};
  int rc = st->open(ctx(), path, &file);
  if (!rc) st->close(file);
  return rc;
}

static void refused(const char *words) {
  int rc = try_open();
  ck_assert_msg(rc == SP_E_FORMAT, "'%s' was taken", words);
  ck_assert_msg(strstr(err.msg, words) && strstr(err.msg, path), "'%s' is not in '%s'", words, err.msg);
}

static sp_entry entry(const char *name, int dtype, int ndim, int64_t a, int64_t b, void *data) {
  return (sp_entry){name, {.dtype = dtype, .ndim = ndim, .shape = {a, b}}, data};
}

static float f32[6] = {1, 2, 3, 4, 5, 6};
static int64_t i64[1] = {12};
static uint8_t u8[3] = {7, 8, 9};

static void write_sample(void) {
  sp_entry e[] = {entry("z", SP_U8, 1, 3, 0, u8), entry("b.weight", SP_F32, 2, 2, 3, f32),
                  entry("a.weight", SP_F32, 1, 2, 0, f32), entry("step", SP_I64, 0, 0, 0, i64),
                  entry("none", SP_F32, 2, 0, 3, NULL)};
  sp_meta m[] = {{"format", "pt"}, {"made by", "\"a test\""}};
  ck_assert_msg(!st->write(ctx(), path, e, SP_ARRAY(e), m, SP_ARRAY(m)), "%s", err.msg);
}

START_TEST(round_trip) {
  const char *const names[] = {"step", "a.weight", "b.weight", "none", "z"};
  const sp_entry *e;
  const sp_meta *m;
  size_t n, n_meta;
  void *file;
  uint8_t raw[64];
  write_sample();
  ck_assert_msg(!st->open(ctx(), path, &file), "%s", err.msg);
  st->entries(file, &e, &n, &m, &n_meta);
  ck_assert_uint_eq(n, 5);
  bool seen[5] = {false};
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < 5; k++) seen[k] |= !strcmp(e[i].name, names[k]);
  for (size_t k = 0; k < 5; k++) ck_assert_msg(seen[k], "%s", names[k]);
  ck_assert_str_eq(e[0].name, "step");
  ck_assert_int_eq(e[0].spec.ndim, 0);
  ck_assert_str_eq(e[n - 1].name, "z");
  ck_assert_uint_eq(n_meta, 2);
  ck_assert_str_eq(m[1].value, "\"a test\"");
  for (size_t i = 0; i < n; i++) {
    size_t bytes = (size_t)sp_spec_bytes(&e[i].spec);
    ck_assert_int_eq(st->read(ctx(), file, i, raw, bytes), SP_OK);
    if (!strcmp(e[i].name, "b.weight")) ck_assert_mem_eq(raw, f32, sizeof f32);
    if (!strcmp(e[i].name, "z")) ck_assert_mem_eq(raw, u8, sizeof u8);
    if (!strcmp(e[i].name, "step")) ck_assert_mem_eq(raw, i64, sizeof i64);
  }
  ck_assert_int_eq(st->read(ctx(), file, 0, raw, 4), SP_E_SHAPE);
  ck_assert_int_eq(st->read(ctx(), file, 5, raw, 4), SP_E_NOTFOUND);
  st->close(file);
}
END_TEST

START_TEST(layout) {
  uint8_t b[1024];
  write_sample();
  size_t n = get(b, sizeof b);
  uint64_t header = 0;
  for (int i = 7; i >= 0; i--) header = header << 8 | b[i];
  ck_assert_uint_eq(header % 8, 0);
  ck_assert_uint_eq(n, 8 + header + 8 + 8 + 24 + 3);
  ck_assert_int_eq(b[8], '{');
  ck_assert_mem_eq(b + 8 + header, i64, 8);       /* alignment 8 first */
  ck_assert_mem_eq(b + 8 + header + 8, f32, 8);   /* then by name: a.weight */
  ck_assert_mem_eq(b + 8 + header + 16, f32, 24); /* b.weight */
  ck_assert_mem_eq(b + 8 + header + 40, u8, 3);
}
END_TEST

/* The same contents give the same bytes, whatever the order they are listed in. */
START_TEST(order_of_entries_does_not_matter) {
  uint8_t a[1024], b[1024];
  sp_entry e[] = {entry("x", SP_F32, 1, 6, 0, f32), entry("y", SP_F32, 1, 6, 0, f32)};
  ck_assert_int_eq(st->write(ctx(), path, e, 2, NULL, 0), SP_OK);
  size_t n = get(a, sizeof a);
  sp_entry swapped[] = {e[1], e[0]};
  ck_assert_int_eq(st->write(ctx(), path, swapped, 2, NULL, 0), SP_OK);
  ck_assert_uint_eq(get(b, sizeof b), n);
  ck_assert_mem_eq(a, b, n);
}
END_TEST

START_TEST(truncated_at_every_byte) {
  uint8_t b[1024];
  write_sample();
  size_t n = get(b, sizeof b);
  for (size_t i = 0; i < n; i++) {
    put(b, i);
    ck_assert_msg(try_open() == SP_E_FORMAT, "%zu of %zu bytes were taken", i, n);
    ck_assert_ptr_nonnull(strstr(err.msg, path));
  }
  put(b, n);
  ck_assert_int_eq(try_open(), SP_OK);
  b[n] = 0;
  put(b, n + 1);
  refused("1 bytes at the end belong to no tensor");
}
END_TEST

START_TEST(every_byte_of_the_header_changed) {
  uint8_t b[1024], c[1024];
  write_sample();
  size_t n = get(b, sizeof b);
  for (size_t i = 0; i < n; i++)
    for (int bit = 0; bit < 8; bit++) {
      memcpy(c, b, n);
      c[i] ^= (uint8_t)(1 << bit);
      put(c, n);
      int rc = try_open(); /* some changes are harmless: a name, a number in metadata */
      ck_assert(rc == SP_OK || rc == SP_E_FORMAT);
    }
}
END_TEST

START_TEST(lengths_that_lie) {
  static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 8, UINT64_C(1) << 63, (UINT64_C(16) << 20) + 1};
  for (size_t k = 0; k < SP_ARRAY(lengths); k++) {
    uint8_t b[10] = {0};
    for (int i = 0; i < 8; i++) b[i] = (uint8_t)(lengths[k] >> 8 * i);
    put(b, sizeof b);
    refused("header too long");
  }
  uint8_t b[10] = {0, 0, 0, 1};
  put(b, sizeof b);
  refused("truncated: the header needs 16777224 bytes, the file has 10");
  put("\1\2\3\4\5\6\7", 7);
  refused("too short: 7 bytes");
}
END_TEST

/* Each is named for what it is, not for what its first eight bytes would say. */
START_TEST(files_of_other_kinds) {
  static const struct {
    const char *bytes, *words;
  } kinds[] = {{"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
               {"<!DOCTYPE html><html>", "a page of the web"},
               {"\x80\2}q", "a file of PyTorch (a pickle)"},
               {"PK\3\4--------------------------archive/data.pkl", "a file of PyTorch (a pickle)"},
               {"PK\3\4--------------------------readme.txt", "a zip archive"},
               {"\x93NUMPY\1", "a NumPy array"}};
  for (size_t k = 0; k < SP_ARRAY(kinds); k++) {
    put(kinds[k].bytes, strlen(kinds[k].bytes));
    refused(kinds[k].words);
  }
  put("", 0);
  refused("an empty file");
}
END_TEST

#define T(dtype, shape, from, to) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

static const struct {
  const char *header;
  size_t data;
  const char *words;
} malformed[] = {
    {"", 0, "header is not proper JSON"},
    {"{", 0, "header is not proper JSON"},
    {"{}x", 0, "header is not proper JSON"},
    {"[]", 0, "header is not a JSON object"},
    {"7", 0, "header is not proper JSON"},
    {"{\"a\xff\":1}", 0, "header is not proper JSON"},
    {"{\"a\\u0000\":1}", 0, "header is not proper JSON"},
    {"{\"a\":" T("F32", "[1]", "0", "4") ",\"a\":" T("F32", "[1]", "0", "4") "}", 4, "header is not proper JSON"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__: 'a' is not a string"},
    {"{\"a\":1}", 0, "tensor 'a' is not described by an object"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor 'a': no dtype"},
    {"{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor 'a': no dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "tensor 'a': no shape"},
    {"{\"a\":" T("F32", "1", "0", "4") "}", 4, "tensor 'a': no shape"},
    {"{\"a\":" T("F32", "[1.0]", "0", "4") "}", 4, "shape[0] is not a number from 0 on"},
    {"{\"a\":" T("F32", "[1,-1]", "0", "4") "}", 4, "shape[1] is not a number from 0 on"},
    {"{\"a\":" T("F32", "[\"1\"]", "0", "4") "}", 4, "shape[0] is not a number from 0 on"},
    {"{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "9 dimensions, at most 8 are taken"},
    {"{\"a\":" T("F32", "[99999999999999999999]", "0", "4") "}", 4, "header is not proper JSON"},
    {"{\"a\":" T("F32", "[4294967296,4294967296]", "0", "0") "}", 0, "impossible shape of type F32"},
    {"{\"a\":" T("F64", "[2305843009213693952]", "0", "0") "}", 0, "impossible shape of type F64"},
    {"{\"a\":" T("F4", "[3]", "0", "2") "}", 2, "impossible shape of type F4"}, /* no whole bytes */
    {"{\"a\":" T("U8", "[9223372036854775807,1]", "0", "9223372036854775807") "}", 8, "truncated: tensor 'a' ends"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets is not [begin, end]"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "data_offsets is not [begin, end]"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 8, "data_offsets is not [begin, end]"},
    {"{\"a\":" T("F32", "[1]", "4", "0") "}", 4, "data_offsets is not [begin, end]"},
    {"{\"a\":" T("F32", "[1]", "-4", "0") "}", 4, "data_offsets is not [begin, end]"},
    {"{\"a\":" T("F32", "[1]", "0.0", "4") "}", 4, "data_offsets is not [begin, end]"},
    {"{\"a\":" T("F32", "[2]", "0", "4") "}", 4, "shape and dtype need 8 bytes, data_offsets has 4"},
    {"{\"a\":" T("F32", "[]", "0", "8") "}", 8, "shape and dtype need 4 bytes, data_offsets has 8"},
    {"{\"a\":" T("F32", "[1]", "4", "8") "}", 8, "4 bytes before tensor 'a' belong to no tensor"},
    {"{\"a\":" T("F32", "[1]", "0", "4") ",\"b\":" T("F32", "[1]", "8", "12") "}", 12,
     "4 bytes before tensor 'b' belong to no tensor"},
    {"{\"a\":" T("F32", "[2]", "0", "8") ",\"b\":" T("F32", "[1]", "4", "8") "}", 8, "tensor 'b' overlaps tensor 'a'"},
    {"{\"a\":" T("F32", "[1]", "0", "4") "}", 3, "truncated: tensor 'a' ends at byte 4 of the data, which has 3"},
    {"{\"a\":" T("F32", "[1]", "0", "4") "}", 5, "1 bytes at the end belong to no tensor"},
    {"{}", 1, "1 bytes at the end belong to no tensor"},
};

START_TEST(malformed_headers) {
  put_header(malformed[_i].header, malformed[_i].data);
  refused(malformed[_i].words);
}
END_TEST

START_TEST(deeply_nested) {
  char *h = malloc(1 << 20);
  ck_assert_ptr_nonnull(h);
  memset(h, '[', (1 << 20) - 1);
  h[(1 << 20) - 1] = 0;
  memcpy(h, "{\"a\":", 5);
  put_header(h, 0);
  refused("header is not proper JSON");
  free(h);
}
END_TEST

START_TEST(well_formed) {
  static const struct {
    const char *header;
    size_t data;
  } good[] = {{"{}", 0},
              {"{}        ", 0},
              {"{\"__metadata__\":{}}", 0},
              {"{\"b\":" T("F32", "[1]", "4", "8") ",\"a\":" T("BF16", "[2]", "0", "4") "}", 8},
              {"{\"a\":" T("F32", "[0]", "0", "0") ",\"b\":" T("F16", "[0,5]", "0", "0") "}", 0},
              {"{\"\":" T("I8", "[]", "0", "1") "}", 1}};
  for (size_t i = 0; i < SP_ARRAY(good); i++) {
    put_header(good[i].header, good[i].data);
    ck_assert_msg(!try_open(), "%s: %s", good[i].header, err.msg);
  }
}
END_TEST

/* The others of such a file can be read, and places are checked all the same. */
START_TEST(types_that_we_have_not) {
  static const struct {
    const char *word, *end;
    size_t bytes;
  } types[] = {{"BOOL", "4", 4},    {"U16", "8", 8},         {"I16", "8", 8},     {"U32", "16", 16},
               {"U64", "32", 32},   {"C64", "32", 32},       {"F8_E4M3", "4", 4}, {"F8_E5M2", "4", 4},
               {"F8_E8M0", "4", 4}, {"F8_E4M3FNUZ", "4", 4}, {"F4", "2", 2},      {"F6_E2M3", "3", 3},
               {"F31", "7", 7}};
  for (size_t i = 0; i < SP_ARRAY(types); i++) {
    char header[160];
    snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"%s\",\"shape\":[4],\"data_offsets\":[0,%s]}}", types[i].word,
             types[i].end);
    put_header(header, types[i].bytes);
    ck_assert_msg(!try_open(), "%s: %s", header, err.msg);
    put_header(header, types[i].bytes + 1);
    refused("1 bytes at the end belong to no tensor");
  }
}
END_TEST

START_TEST(what_can_not_be_opened) {
  unlink(path);
  ck_assert_int_eq(try_open(), SP_E_NOTFOUND);
  ck_assert_ptr_nonnull(strstr(err.msg, path));
  ck_assert_int_eq(mkdir(path, 0700), 0);
  ck_assert_int_eq(try_open(), SP_E_IO);
  ck_assert_ptr_nonnull(strstr(err.msg, "not a regular file"));
  rmdir(path);
  ck_assert_int_eq(mkfifo(path, 0600), 0);
  ck_assert_int_eq(try_open(), SP_E_IO); /* does not wait for a writer */
}
END_TEST

static void not_written(const sp_entry *e, size_t n, const sp_meta *m, size_t n_meta, const char *words) {
  uint8_t before[1024], after[1024];
  size_t size = get(before, sizeof before);
  ck_assert_msg(st->write(ctx(), path, e, n, m, n_meta) != SP_OK, "'%s' was written", words);
  ck_assert_msg(strstr(err.msg, words) && strstr(err.msg, path), "'%s' is not in '%s'", words, err.msg);
  ck_assert_uint_eq(get(after, sizeof after), size);
  ck_assert_mem_eq(before, after, size);
}

START_TEST(a_failed_write_leaves_the_old_file) {
  sp_entry twice[] = {entry("a", SP_F32, 1, 1, 0, f32), entry("a", SP_F32, 1, 2, 0, f32)};
  sp_entry e = entry("a", SP_F32, 1, 1, 0, f32);
  sp_meta m = {"key", "\xff"};
  write_sample();
  not_written(twice, 2, NULL, 0, "two tensors are named 'a'");
  not_written(&e, 1, &m, 1, "metadata 'key' is not UTF-8");
  e.name = "\xff";
  not_written(&e, 1, NULL, 0, "is not UTF-8");
  e.name = "__metadata__";
  not_written(&e, 1, NULL, 0, "can't be named '__metadata__'");
  e.name = "a", e.data = NULL;
  not_written(&e, 1, NULL, 0, "has no data");
  e.data = f32, e.spec.order = SP_CHANNELS_LAST;
  not_written(&e, 1, NULL, 0, "is not row-major");
  e.spec.order = 0, e.spec.dtype = 6000;
  not_written(&e, 1, NULL, 0, "has no known dtype");
  e.spec.dtype = SP_F32, e.spec.shape[0] = -1;
  not_written(&e, 1, NULL, 0, "impossible shape");
}
END_TEST

START_TEST(write_replaces_and_obeys_umask) {
  struct stat s;
  put("old", 3);
  mode_t old = umask(027);
  write_sample();
  umask(old);
  ck_assert_int_eq(stat(path, &s), 0);
  ck_assert_int_eq(s.st_mode & 0777, 0640);
  ck_assert_int_eq(try_open(), SP_OK);
  char none[400];
  snprintf(none, sizeof none, "%s/none/a.safetensors", dir);
  ck_assert_int_eq(st->write(ctx(), none, NULL, 0, NULL, 0), SP_E_IO);
  ck_assert_msg(strstr(err.msg, "can't be written") && strstr(err.msg, none), "%s", err.msg);
}
END_TEST

START_TEST(file_cut_while_open) {
  void *file;
  float x[6];
  sp_entry e = entry("a", SP_F32, 1, 6, 0, f32);
  ck_assert_int_eq(st->write(ctx(), path, &e, 1, NULL, 0), SP_OK);
  ck_assert_int_eq(st->open(ctx(), path, &file), SP_OK);
  ck_assert_int_eq(truncate(path, 80), 0);
  ck_assert_int_eq(st->read(ctx(), file, 0, x, sizeof x), SP_E_IO);
  ck_assert_ptr_nonnull(strstr(err.msg, "became shorter"));
  st->close(file);
}
END_TEST

int main(void) {
  Suite *s = suite_create("safetensors");
  TCase *c = tcase_create("safetensors");
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_add_test(c, round_trip);
  tcase_add_test(c, layout);
  tcase_add_test(c, order_of_entries_does_not_matter);
  tcase_add_test(c, truncated_at_every_byte);
  tcase_add_test(c, every_byte_of_the_header_changed);
  tcase_add_test(c, lengths_that_lie);
  tcase_add_test(c, files_of_other_kinds);
  tcase_add_loop_test(c, malformed_headers, 0, (int)SP_ARRAY(malformed));
  tcase_add_test(c, deeply_nested);
  tcase_add_test(c, well_formed);
  tcase_add_test(c, types_that_we_have_not);
  tcase_add_test(c, what_can_not_be_opened);
  tcase_add_test(c, a_failed_write_leaves_the_old_file);
  tcase_add_test(c, write_replaces_and_obeys_umask);
  tcase_add_test(c, file_cut_while_open);
  tcase_set_timeout(c, 30);
  suite_add_tcase(s, c);
  return suite_run(s);
}
