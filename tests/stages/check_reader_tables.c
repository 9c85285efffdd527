/* SPDX-License-Identifier: MIT
 * check_reader_tables.c - the stage `reader` with several labels or numbers for each image: what it gives, and that
 * it gives the same from a listing that was kept as a file. */
#include <dirent.h>
#include <fcntl.h>
#include <png.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/kit/image_files.h"
#include "tests/kit/reader_kit.h"
#include "tests/kit/suite.h"

enum { MANY = 10000 }; /* from here on a listing is kept */

static void begin(void) {
  uint16_t grey[1] = {9};
  if_begin();
  setenv("SPCORE_CACHE", if_path("cache"), 1);
  if_write("dot.png", if_png(grey, 1, 1, PNG_COLOR_TYPE_GRAY, 8, 0));
}

static void table(const char *text) {
  const struct timespec old[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1500000000}};
  if_put("d.csv", text, strlen(text));
  ck_assert_int_eq(utimensat(AT_FDCWD, if_path("d.csv"), old, 0), 0);
}

static spt *set(const char *target, const char *more, int64_t n) {
  char params[700];
  snprintf(params, sizeof params, "{ path = \"%s\", target = \"%s\", size = 1, repeats = \"keep\"%s%s }",
           if_path("d.csv"), target, *more ? ", " : "", more);
  return open_set(params, n);
}

static void refuses(spt *t, int status, const char *words) {
  says(t, status, words);
  spt_free(t);
}

static const float *values_of(spt *t) {
  ck_assert_int_eq(spt_spec(t, SPT_OUT, 2, 0)->dtype, SP_F32);
  ck_assert_int_eq(spt_spec(t, SPT_OUT, 2, 0)->ndim, 2);
  return spt_raw(t, SPT_OUT, 2, 0);
}

static void gives(spt *t, int64_t n, int64_t width, const float *want) {
  make(t, 0, n);
  ck_assert_int_eq(spt_spec(t, SPT_OUT, 2, 0)->shape[1], width);
  const float *v = values_of(t);
  for (int64_t i = 0; i < n * width; i++) ck_assert_msg(v[i] == want[i], "value %d: %g, not %g", (int)i, v[i], want[i]);
  make(t, 0, n); /* what was there is gone */
  ck_assert(!memcmp(values_of(t), want, (size_t)(n * width) * sizeof *want));
  spt_free(t);
}

static void links(int n) {
  char name[32];
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "%d.png", i);
    ck_assert_int_eq(link(if_path("dot.png"), if_path(name)), 0);
  }
}

START_TEST(test_labels) {
  links(4);
  table("file,label\n0.png,b|a\n1.png,\n2.png,c\n3.png,a|c|a\n");
  gives(set("labels", "", 4), 4, 3, (float[]){1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1});
  spt *t = set("labels", "", 4);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "a\nb\nc");
  ck_assert_str_eq(spt_attr_text(t, "counts"), "2 1 2");
  spt_free(t);
  table("file,z,y\n0.png,1,0\n1.png,0,0\n2.png,1,1\n3.png,0,1\n");
  gives(set("labels", "", 4), 4, 2, (float[]){1, 0, 0, 0, 1, 1, 0, 1});
  if_put("classes.txt", "y\nx\nz\n", 6);
  gives(set("labels", "", 4), 4, 3, (float[]){0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0, 0});
}
END_TEST

START_TEST(test_numbers) {
  links(2);
  table("file,x,z\n0.png,1.5,-200\n1.png,2,1e3\n");
  gives(set("numbers", "", 2), 2, 2, (float[]){1.5F, -200, 2, 1000});
  gives(set("numbers", "columns = \"z,x\"", 2), 2, 2, (float[]){-200, 1.5F, 1000, 2});
  gives(set("numbers", "mean = {1, 100}, std = {0.5, 300}", 2), 2, 2, (float[]){1, -1, 2, 3});
  gives(set("numbers", "std = 0.5", 2), 2, 2, (float[]){3, -400, 4, 2000});
  refuses(set("numbers", "mean = {1, 2, 3}", 2), SP_E_INVALID, "mean has 3 numbers, but ");
  spt *t = set("numbers", "", 2);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "x\nz");
  ck_assert(attr(t, "figures") == 2 && attr(t, "classes") == 2);
  spt_free(t);
}
END_TEST

/* The one file in the cache. */
static const char *index_file(void) {
  static char name[300];
  DIR *d = opendir(if_path("cache"));
  *name = 0;
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') snprintf(name, sizeof name, "cache/%.250s", e->d_name);
  if (d) closedir(d);
  ck_assert_str_ne(name, "");
  return name;
}

/* Files that are gone are not missed where the listing is kept. */
static void kept(const char *target, const char *head, const char *a, const char *b, const float want[4]) {
  char *rows = malloc(MANY * 32 + 64);
  int at = sprintf(rows, "%s", head);
  for (int i = 0; i < MANY; i++) at += sprintf(rows + at, "%d.png,%s\n", i % 2, i % 2 ? b : a);
  table(rows);
  gives(set(target, "", 2), 2, 2, want);
  ck_assert_int_eq(rename(if_path("1.png"), if_path("away.png")), 0);
  spt *t = set(target, "", 1); /* else the list names what is not there */
  ok(t);
  make(t, 0, 1);
  ck_assert(!memcmp(values_of(t), want, 2 * sizeof *want));
  spt_free(t);
  if_bytes all = if_read(index_file());
  all.p[all.n - 2] ^= 0x40; /* of the last cell: the sum tells */
  if_put(index_file(), all.p, all.n);
  free(all.p);
  refuses(set(target, "", 1), SP_E_DATA, "1.png: No such file");
  ck_assert_int_eq(rename(if_path("away.png"), if_path("1.png")), 0);
  unlink(if_path(index_file()));
  free(rows);
}

START_TEST(test_kept) {
  links(2);
  kept("labels", "file,label\n", "x", "x|y", (float[]){1, 0, 1, 1});
  kept("numbers", "file,p,q\n", "1,2", "3,4.5", (float[]){1, 2, 3, 4.5F});
}
END_TEST

int main(void) {
  Suite *s = suite_create("reader_tables");
  TCase *c = tcase_create("all");
  tcase_add_checked_fixture(c, begin, if_end);
  tcase_add_test(c, test_labels);
  tcase_add_test(c, test_numbers);
  tcase_add_test(c, test_kept);
  suite_add_tcase(s, c);
  return suite_run(s);
}
