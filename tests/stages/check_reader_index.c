/* SPDX-License-Identifier: MIT
 * check_reader_index.c - the stage `reader` where its listing is kept: by readers of one process, and as a file. What
 * is kept is told from what is listed anew by a file that is added while the folder's time stays what it was. */
#include <dirent.h>
#include <fcntl.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/kit/image_files.h"
#include "tests/kit/reader_kit.h"
#include "base/util.h"
#include "tests/kit/suite.h"

enum { LARGE = 10000 };

static void old_time(const char *folder, int64_t seconds) {
  struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1500000000 + seconds, .tv_nsec = 7}};
  ck_assert_int_eq(utimensat(AT_FDCWD, if_path(folder), t, 0), 0);
}

/* n files in each of the classes a and b. */
static void two_classes(int n) {
  char name[64];
  uint16_t grey[1] = {9};
  if_write("dot.png", if_png(grey, 1, 1, PNG_COLOR_TYPE_GRAY, 8, 0));
  ck_assert(!mkdir(if_path("set"), 0777) && !mkdir(if_path("set/a"), 0777) && !mkdir(if_path("set/b"), 0777));
  for (int i = 0; i < 2 * n; i++) {
    snprintf(name, sizeof name, "set/%c/%05d.png", 'a' + i / n, i);
    ck_assert_int_eq(link(if_path("dot.png"), if_path(name)), 0);
  }
  for (int k = 0; k < 3; k++) old_time((const char *[]){"set", "set/a", "set/b"}[k], 0);
}

static spt *set(void) {
  char params[600];
  snprintf(params, sizeof params, "{ path = \"%s\", target = \"class\", size = 1 }", if_path("set"));
  spt *t = open_set(params, 1);
  ok(t);
  return t;
}

static int length(void) {
  spt *t = set();
  int n = (int)spt_length(t);
  make(t, (uint64_t)n - 1, 1);
  ck_assert(label_of(t, 0) == 1 && attr(t, "classes") == 2);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "a\nb");
  spt_free(t);
  return n;
}

/* One more file, which the folder's time does not tell. */
static void add(const char *name) {
  ck_assert_int_eq(link(if_path("dot.png"), if_path(name)), 0);
  old_time("set/a", 0);
}

/* The one file in the cache; "": there is none. */
static const char *index_file(void) {
  static char name[300];
  DIR *d = opendir(if_path("cache"));
  *name = 0;
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') {
      ck_assert_str_eq(name, "");
      snprintf(name, sizeof name, "cache/%s", e->d_name);
    }
  if (d) closedir(d);
  return name;
}

static void begin(void) {
  if_begin();
  setenv("SPCORE_CACHE", if_path("cache"), 1);
}

START_TEST(test_kept_as_a_file) {
  two_classes(LARGE / 2);
  ck_assert_int_eq(length(), LARGE);
  ck_assert_str_ne(index_file(), "");
  add("set/a/x.png");
  ck_assert_int_eq(length(), LARGE);
  old_time("set/a", 1);
  ck_assert_int_eq(length(), LARGE + 1);
  add("set/a/y.png");
  ck_assert_int_eq(length(), LARGE + 2); /* the time is another again */
  add("set/a/z.png");
  ck_assert_int_eq(length(), LARGE + 2);
  setenv("SPCORE_CACHE", "/proc/none", 1);
  ck_assert_int_eq(length(), LARGE + 3);
  ck_assert_int_eq(length(), LARGE + 3);
}
END_TEST

/* Each is as good as none, and is replaced. */
START_TEST(test_damaged_file) {
  two_classes(LARGE / 2);
  ck_assert_int_eq(length(), LARGE);
  if_bytes whole = if_read(index_file());
  for (int k = 0; k < 6; k++) {
    char name[64];
    if_bytes b = if_read(index_file());
    snprintf(name, sizeof name, "set/a/x%d.png", k);
    add(name);
    ck_assert_int_eq(length(), LARGE + k);
    if (k < 3) b.p[(size_t[]){9, 300, b.n - 100}[k]] ^= 1;
    if (k == 3) b.n /= 2;
    if (k == 4) b.n = 0;
    if (k == 5) memset(b.p, 'x', b.n);
    if_put(index_file(), b.p, b.n);
    ck_assert_int_eq(length(), LARGE + k + 1);
    free(b.p);
  }
  if_put(index_file(), whole.p, whole.n); /* whole, and still true by the times */
  ck_assert_int_eq(length(), LARGE);
  free(whole.p);
}
END_TEST

START_TEST(test_not_kept) {
  two_classes(LARGE / 2 - 1);
  ck_assert_int_eq(length(), LARGE - 2);
  ck_assert_str_eq(index_file(), "");
  link(if_path("dot.png"), if_path("set/a/x.png"));
  link(if_path("dot.png"), if_path("set/a/y.png"));
  const struct timespec soon[2] = {{.tv_nsec = UTIME_OMIT},
                                   {.tv_sec = time(NULL) + 3600}}; /* however long this takes */
  ck_assert_int_eq(utimensat(AT_FDCWD, if_path("set/a"), soon, 0), 0);
  ck_assert_int_eq(length(), LARGE); /* changed just now: it could change again in the same instant */
  ck_assert_str_eq(index_file(), "");
}
END_TEST

/* However small: while one reads it. */
START_TEST(test_shared) {
  two_classes(3);
  spt *t = set();
  add("set/a/x.png");
  ck_assert_int_eq(length(), 6);
  old_time("set/b", 1);
  ck_assert_int_eq(length(), 7);
  old_time("set/b", 0);
  ck_assert_int_eq(length(), 6);
  make(t, 5, 1);
  spt_free(t);
  ck_assert_int_eq(length(), 7);
}
END_TEST

static void list(const char *name, const char *text) {
  if_put(name, text, strlen(text));
  old_time(name, 0);
}

/* A list holds while its size and time do, and classes.txt while it is as it was, or not there. */
START_TEST(test_lists) {
  char params[600];
  two_classes(3);
  list("set.csv", "file,label\nset/a/00000.png,x\nset/b/00003.png,y\n");
  snprintf(params, sizeof params, "{ path = \"%s\", target = \"class\", size = 1 }", if_path("set.csv"));
  static const struct {
    const char *name, *text, *names;
    int n;
  } steps[] = {{"set.csv", "file,label\nset/a/00000.png,x\nset/b/00003.png,y\n", "x\ny", 2},
               {"set.csv", "file,label\nset/a/00000.png,v\nset/b/00003.png,w\n", "x\ny", 2},
               {"set.csv", "file,label\nset/a/00000.png,v\nset/b/00003.png,w\nset/a/00000.png,v\n", "v\nw", 3},
               {"classes.txt", "w\nv\n", "w\nv", 3},
               {"classes.txt", "w\nu\nv\n", "w\nu\nv", 3}};
  spt *t[SP_ARRAY(steps)];
  for (size_t i = 0; i < SP_ARRAY(steps); i++) {
    list(steps[i].name, steps[i].text);
    t[i] = open_set(params, 1);
    ok(t[i]);
    ck_assert_int_eq(spt_length(t[i]), steps[i].n);
    ck_assert_str_eq(spt_attr_text(t[i], "class_names"), steps[i].names);
  }
  for (size_t i = 0; i < SP_ARRAY(steps); i++) spt_free(t[i]);
}
END_TEST

int main(void) {
  Suite *s = suite_create("reader_index");
  TCase *c = tcase_create("reader_index");
  tcase_set_timeout(c, 600);
  tcase_add_checked_fixture(c, begin, if_end);
  tcase_add_test(c, test_kept_as_a_file);
  tcase_add_test(c, test_damaged_file);
  tcase_add_test(c, test_not_kept);
  tcase_add_test(c, test_shared);
  tcase_add_test(c, test_lists);
  suite_add_tcase(s, c);
  return suite_run(s);
}
