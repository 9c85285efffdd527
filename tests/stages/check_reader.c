/* SPDX-License-Identifier: MIT
 * check_reader.c - the stage `reader` on folders and lists of files: pairs, splits, names, damage, and every
 * refusal. */
#include <fcntl.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/kit/image_files.h"
#include "tests/kit/reader_kit.h"
#include "base/util.h"
#include "tests/kit/suite.h"

static spt *reader(const char *more, int64_t n) {
  char params[1024];
  snprintf(params, sizeof params, "{ path = \"%s\", %s }", if_dir, more);
  return open_set(params, n);
}

static void read_from(spt *t, uint64_t first, int64_t n) {
  ok(t);
  for (int64_t i = 0; i < n; i++) spt_set_id(t, i, SP_ID(1, first + (uint64_t)i));
  spt_forward(t, 0);
}

static void classes_txt(void) {
  static const char names[] = "ground\ndisc\n\nsquare\nring\ncross";
  if_put("classes.txt", names, strlen(names));
}

/* ---- what is read ---- */
START_TEST(test_pairs) {
  double v;
  if_pair("b", 12, 10, 0);
  if_pair("a-1", 12, 10, 0);
  if_pair("a", 12, 10, 0);
  if_put("images/.hidden.png", "x", 1);
  if_put("images/notes.txt", "x", 1);
  if_put("masks/notes.txt", "x", 1);
  if_put("readme.txt", "x", 1);
  ck_assert(!mkdir(if_path("images/old.png"), 0777) && !mkdir(if_path("masks/old"), 0777));
  classes_txt();
  int keep = log_begin(if_path("log"));
  spt *t = reader("size = {10, 12}", 3);
  const char *log = log_end(keep, if_path("log"));
  ck_assert_msg(strstr(log, ": left out: 2 folders, 2 files of other endings, such as images/notes.txt, "
                             "1 hidden or system file (images/.hidden.png)\n"),
                "%s", log);
  read_from(t, 0, 3);
  ok(t);
  ck_assert_int_eq(spt_spec(t, SPT_OUT, 0, 0)->order, SP_CHANNELS_LAST);
  ck_assert_int_eq(spt_length(t), 3);
  ck_assert(spt_attr(t, "classes", &v) && v == 5);
  for (int i = 0; i < 3; i++) {
    uint8_t *rgb = if_picture(12, 10, (unsigned)"aab"[i]);
    ck_assert_mem_eq(image_of(t, i), rgb, 12 * 10 * 3);
    for (int k = 0; k < 120; k++) ck_assert_uint_eq(mask_of(t, i)[k], (unsigned)(k % 12 / 2 + k / 12) % 5);
    free(rgb);
  }
  spt_free(t);
}
END_TEST

START_TEST(test_resized) {
  if_pair("wide", 90, 11, 1);
  if_pair("tall", 7, 120, 1);
  if_pair("dot", 1, 1, 1);
  spt *one = reader("size = 16, classes = 5, workers = 1", 3), *more = reader("size = 16, classes = 5, workers = 8", 3);
  read_from(one, 0, 3);
  read_from(more, 0, 3);
  ok(one);
  ok(more);
  ck_assert_mem_eq(image_of(one, 0), image_of(more, 0), 3 * 3 * 16 * 16);
  ck_assert_mem_eq(mask_of(one, 0), mask_of(more, 0), 3 * 16 * 16);
  for (int y = 0; y < 16; y++) /* sorted: dot, tall, wide */
    for (int x = 0; x < 16; x++) {
      ck_assert_uint_eq(mask_of(one, 0)[y * 16 + x], 0);
      ck_assert_uint_eq(mask_of(one, 1)[y * 16 + x], (unsigned)(x * 7 / 16 / 2 + y * 120 / 16) % 5);
      ck_assert_uint_eq(mask_of(one, 2)[y * 16 + x], (unsigned)(x * 90 / 16 / 2 + y * 11 / 16) % 5);
    }
  spt_free(one);
  spt_free(more);
}
END_TEST

START_TEST(test_short_batch) {
  if_pair("a", 8, 8, 0);
  if_pair("b", 8, 8, 0);
  spt *t = reader("size = 8, classes = 5", 4);
  ok(t);
  spt_run_batch(t, 2);
  read_from(t, 0, 2);
  ok(t);
  spt_set_id(t, 1, SP_ID(0, 2));
  spt_forward(t, 1);
  says(t, SP_E_RANGE, "sample 2 was asked for, there are 2");
  spt_free(t);
}
END_TEST

START_TEST(test_split) {
  enum { N = 23 };
  char name[32];
  int seen[N] = {0};
  uint16_t label[1];
  for (int i = 0; i < N; i++) {
    snprintf(name, sizeof name, "s%02d", i);
    if_pair(name, 1, 1, 0);
    label[0] = (uint16_t)i;
    snprintf(name, sizeof name, "masks/s%02d.png", i);
    if_write(name, if_png(label, 1, 1, PNG_COLOR_TYPE_GRAY, 8, 0));
  }
  static const struct {
    const char *params;
    int n;
  } parts[] = {
      {"size = 1, classes = 23, split = \"train\", val_fraction = 0.3", 15},
      {"size = 1, classes = 23, split = \"val\", val_fraction = 0.3", 8}, /* as the names' hashes fall: about 6.9 */
  };
  for (int p = 0; p < 2; p++) {
    spt *t = reader(parts[p].params, parts[p].n);
    ok(t);
    ck_assert_int_eq(spt_length(t), parts[p].n);
    read_from(t, 0, parts[p].n);
    ok(t);
    for (int i = 0; i < parts[p].n; i++) seen[mask_of(t, i)[0]]++;
    spt_free(t);
  }
  for (int i = 0; i < N; i++) ck_assert_int_eq(seen[i], 1);
}
END_TEST

/* A pair in images/ and masks/ goes to those of a split. */
static void move_to(const char *split, const char *stem) {
  static const char *const subs[] = {"images", "masks"};
  char from[64], to[64];
  mkdir(if_path(split), 0777);
  for (int k = 0; k < 2; k++) {
    snprintf(to, sizeof to, "%s/%s", split, subs[k]);
    mkdir(if_path(to), 0777);
    snprintf(from, sizeof from, "%s/%s.png", subs[k], stem);
    snprintf(to, sizeof to, "%s/%s/%s.png", split, subs[k], stem);
    ck_assert_int_eq(rename(if_path(from), if_path(to)), 0);
  }
}

START_TEST(test_own_splits) {
  static const char *const params[] = {"split = \"train\", ", "split = \"val\", ", "", "samples = 1, "};
  static const char *const want[] = {"bc", "bx", "bcbx", "bb"};
  static const char *const stems[] = {"b", "c", "b", "x"};
  for (int k = 0; k < 4; k++) {
    if_pair(stems[k], 12, 10, 0);
    move_to(k < 2 ? "train" : "val", stems[k]);
  }
  rmdir(if_path("images"));
  rmdir(if_path("masks"));
  classes_txt();
  for (int k = 0; k < 4; k++) {
    char more[96];
    int n = (int)strlen(want[k]);
    snprintf(more, sizeof more, "%ssize = {10, 12}", params[k]);
    spt *t = reader(more, n);
    read_from(t, 0, n);
    ok(t);
    ck_assert_int_eq(spt_length(t), n);
    for (int i = 0; i < n; i++) {
      uint8_t *rgb = if_picture(12, 10, (unsigned)want[k][i]);
      ck_assert_mem_eq(image_of(t, i), rgb, 12 * 10 * 3);
      ck_assert_uint_eq(mask_of(t, i)[0], 0);
      free(rgb);
    }
    spt_free(t);
  }
  spt *t = reader("val_fraction = 0.2", 1);
  says(t, SP_E_INVALID, "has train/ and val/, which say what is for validation; leave val_fraction out");
  spt_free(t);
  ck_assert_int_eq(rename(if_path("val/masks"), if_path("val/none")), 0);
  t = reader("split = \"val\"", 1);
  says(t, SP_E_NOTFOUND, "/val/masks: No such file");
  spt_free(t);
  ck_assert_int_eq(rename(if_path("val/images"), if_path("val/nothing")), 0);
  t = reader("split = \"train\"", 1);
  says(t, SP_E_DATA, "/train holds images/ and masks/, ");
  spt_free(t);
}
END_TEST

/* A photograph that was taken upright: its mask is as large as what is seen. */
START_TEST(test_orient) {
  uint8_t exif[IF_EXIF], *rgb = if_picture(4, 6, 1);
  uint16_t *v = if_wide(rgb, 72);
  static const uint16_t labels[24] = {1};
  if_exif(exif, 6, 0);
  if_write("images/a.png", if_with_exif(if_png(v, 4, 6, PNG_COLOR_TYPE_RGB, 8, 0), exif, IF_EXIF));
  if_write("masks/a.png", if_png(labels, 6, 4, PNG_COLOR_TYPE_GRAY, 8, 0));
  spt *t = reader("classes = 2, size = {4, 6}", 1);
  read_from(t, 0, 1);
  ok(t);
  ck_assert_mem_eq(image_of(t, 0), rgb + 5 * 4 * 3, 3); /* the lower left corner is the upper left one */
  ck_assert_uint_eq(mask_of(t, 0)[0], 1);
  spt_free(t);
  t = reader("classes = 2, size = {4, 6}, orient = false", 1);
  read_from(t, 0, 1);
  says(t, SP_E_DATA, "a.png is 4 x 6 pixels, but its mask");
  spt_free(t);
  if_write("masks/a.png", if_png(labels, 4, 6, PNG_COLOR_TYPE_GRAY, 8, 0));
  t = reader("classes = 2, size = {4, 6}", 1);
  read_from(t, 0, 1);
  says(t, SP_E_DATA, "the image was turned by its EXIF orientation, orient = false leaves it as it is stored");
  spt_free(t);
  t = reader("classes = 2, size = {6, 4}, orient = false", 1);
  read_from(t, 0, 1);
  ok(t);
  ck_assert_mem_eq(image_of(t, 0), rgb, 72);
  spt_free(t);
  free(v);
  free(rgb);
}
END_TEST

/* Images and masks alike; the same bits with any number of threads. */
START_TEST(test_resize) {
  static const char *const how[] = {"squash", "crop", "pad"};
  char more[96];
  if_pair("a", 40, 16, 0);
  if_pair("b", 9, 50, 0);
  for (int k = 0; k < 3; k++) {
    spt *t[2];
    for (int i = 0; i < 2; i++) {
      snprintf(more, sizeof more, "classes = 5, size = 16, resize = \"%s\", workers = %d", how[k], 1 + 2 * i);
      t[i] = reader(more, 2);
      read_from(t[i], 0, 2);
      ok(t[i]);
    }
    ck_assert_mem_eq(image_of(t[0], 0), image_of(t[1], 0), 2 * 16 * 16 * 3);
    ck_assert_mem_eq(mask_of(t[0], 0), mask_of(t[1], 0), 2 * 16 * 16);
    /* 16 of the 40 columns, from the 12th on; or 6 rows, from the 5th on */
    if (k == 1)
      for (int i = 0; i < 256; i++) ck_assert_uint_eq(mask_of(t[0], 0)[i], (unsigned)((i % 16 + 12) / 2 + i / 16) % 5);
    for (int i = 0; i < 256; i++) {
      int border = k == 2 && (i / 16 < 5 || i / 16 >= 11);
      ck_assert_int_eq(mask_of(t[0], 0)[i] == 255, border);
      if (border) ck_assert_mem_eq(image_of(t[0], 0) + i * 3, "\0\0", 3);
    }
    spt_free(t[0]);
    spt_free(t[1]);
  }
  spt *t = reader("classes = 5, resize = \"stretch\"", 1);
  says(t, SP_E_RANGE, "\"stretch\" is none of: squash, crop, pad");
  spt_free(t);
}
END_TEST

/* The 16 rows of a become 8, its 40 columns 20; of both the middle 4: rows from the 2nd, columns from the 8th on. */
START_TEST(test_shorter) {
  if_pair("a", 40, 16, 0);
  spt *t = reader("classes = 5, size = 4, shorter = 8, interpolation = \"bicubic\"", 1);
  read_from(t, 0, 1);
  ok(t);
  for (int i = 0; i < 16; i++) ck_assert_uint_eq(mask_of(t, 0)[i], (unsigned)(i % 4 + 8 + 2 * (i / 4 + 2)) % 5);
  spt_free(t);
  t = reader("classes = 5, size = { 4, 9 }, shorter = 8", 1);
  says(t, SP_E_INVALID, "whose shorter side is 'shorter', which must not be less");
  spt_free(t);
  t = reader("classes = 5, size = 4, shorter = 8, resize = \"pad\"", 1);
  says(t, SP_E_INVALID, "two ways to fit a picture");
  spt_free(t);
  t = reader("classes = 5, size = 4, shorter = 20000", 1);
  says(t, SP_E_RANGE, "20000 is above 16384");
  spt_free(t);
}
END_TEST

START_TEST(test_first_samples_only) {
  if_pair("a", 4, 4, 0);
  if_pair("b", 4, 4, 0);
  if_pair("c", 4, 4, 0);
  spt *t = reader("size = 4, classes = 5, samples = 2", 1);
  ck_assert_int_eq(spt_length(t), 2);
  spt_free(t);
}
END_TEST

START_TEST(test_list_of_files) {
  char params[1200];
  if_pair("b", 6, 5, 0);
  if_pair("a", 6, 5, 0);
  snprintf(params, sizeof params, "{ files = { {\"%s\"}, { path = \"%s\" } }, size = {5, 6} }", if_path("images/b.png"),
           if_path("images/a.png"));
  spt *t = spt_new("reader", params, 1);
  spt_set_batch(t, 2);
  ok(t);
  spt_plan(t, 0);
  read_from(t, 0, 2);
  ok(t);
  uint8_t *rgb = if_picture(6, 5, 'b');
  ck_assert_mem_eq(image_of(t, 0), rgb, 90);
  for (int k = 0; k < 60; k++) ck_assert_uint_eq(mask_of(t, 0)[k], 255);
  free(rgb);
  spt_free(t);
  t = spt_new("reader", "{ files = { {\"/nowhere/x.png\"} } }", 1);
  says(t, SP_E_IO, "image /nowhere/x.png: No such file");
  spt_free(t);
}
END_TEST

/* classes.txt of a folder with masks: blanks around names and blank lines go. */
START_TEST(test_names_of_masks) {
  static const char text[] = "\n  ground \r\ndisc\r\n\r\n\t\nred square\n\n", bare[] = "one\ntwo";
  char params[400];
  if_pair("a", 4, 4, 0);
  snprintf(params, sizeof params, "{ path = \"%s\", size = 4 }", if_dir);
  if_put("classes.txt", text, sizeof text - 1);
  spt *t = open_set(params, 1);
  ok(t);
  ck_assert(attr(t, "classes") == 3);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "ground\ndisc\nred square");
  spt_free(t);
  if_put("classes.txt", bare, sizeof bare - 1);
  t = open_set(params, 1);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "one\ntwo");
  spt_free(t);
  if_put("classes.txt", "one\nt\033[2Jwo\n", 12);
  t = spt_new("reader", params, 1);
  says(t, SP_E_DATA, "the name of class 2 has the control character 0x1b: take it out of classes.txt");
  spt_free(t);
  t = open_set("{ path = \"shapes\", size = 4 }", 1);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "ground\ndisc\nsquare\ntriangle\nring\ncross");
  spt_free(t);
}
END_TEST

/* ---- damage ---- */
static void truncate_file(const char *name, size_t keep) {
  if_bytes b = if_read(name);
  ck_assert_uint_gt(b.n, keep);
  if_put(name, b.p, keep);
  free(b.p);
}

static void damaged_set(void) {
  char name[32];
  for (int i = 0; i < 12; i++) {
    snprintf(name, sizeof name, "%c%02d", 'a' + i, i);
    if_pair(name, 20, 20, i % 2);
  }
  truncate_file("images/d03.jpg", 300);
  truncate_file("images/e04.png", 100);
  truncate_file("masks/f05.png", 60);
  if_put("images/g06.png", "", 0);
}

START_TEST(test_broken_are_replaced) {
  damaged_set();
  spt *a = reader("size = 20, classes = 5, workers = 1", 12), *b = reader("size = 20, classes = 5, workers = 6", 12);
  read_from(a, 0, 12);
  ok(a);
  ok(b);
  for (int i = 11; i >= 0; i--) { /* another order of finding out: one at a time, backwards */
    spt_run_batch(b, 1);
    spt_set_id(b, 0, SP_ID(0, i));
    spt_forward(b, 0);
    ok(b);
    ck_assert_mem_eq(image_of(b, 0), image_of(a, i), 3 * 20 * 20);
    ck_assert_mem_eq(mask_of(b, 0), mask_of(a, i), 20 * 20);
  }
  for (int i = 3; i < 7; i++) { /* it is one of the good ones, whole */
    int found = 0;
    for (int j = 0; j < 12; j++)
      if (j < 3 || j > 6) found += !memcmp(image_of(a, i), image_of(a, j), 3 * 20 * 20);
    ck_assert_int_ge(found, 1);
  }
  read_from(a, 0, 12); /* known ones are not counted again */
  ok(a);
  spt_free(a);
  spt_free(b);
}
END_TEST

START_TEST(test_max_bad) {
  damaged_set();
  spt *t = reader("size = 20, classes = 5, max_bad = 4", 12);
  read_from(t, 0, 12);
  ok(t);
  spt_free(t);
  t = reader("size = 20, classes = 5, max_bad = 3, workers = 1", 12);
  read_from(t, 0, 12);
  says(t, SP_E_DATA, "4 broken files, and max_bad is 3; max_bad = ");
  says(t, SP_E_DATA, "images/e04.png: the file ends too early");
  spt_free(t);
  t = reader("size = 20, classes = 5, max_bad = 0, workers = 1", 12); /* none is to be counted */
  read_from(t, 0, 12);
  says(t, SP_E_DATA, "images/");
  ck_assert_msg(!strstr(spt_error(t), "broken files"), "%s", spt_error(t));
  spt_free(t);
}
END_TEST

START_TEST(test_all_broken) {
  if_pair("a", 9, 9, 0);
  if_pair("b", 9, 9, 0);
  truncate_file("images/a.png", 50);
  truncate_file("images/b.png", 50);
  spt *t = reader("size = 9, classes = 5", 1);
  read_from(t, 0, 1);
  says(t, SP_E_DATA, "are broken too; the last: ");
  spt_free(t);
}
END_TEST

/* A warning names the file, and only once. */
START_TEST(test_broken_are_named_once) {
  if_pair("a", 9, 9, 0);
  if_pair("b", 9, 9, 0);
  truncate_file("images/a.png", 50);
  spt *t = reader("size = 9, classes = 5", 2);
  int keep = log_begin(if_path("log"));
  for (int k = 0; k < 3; k++) {
    for (int i = 0; i < 2; i++) spt_set_id(t, i, SP_ID(k, i));
    spt_forward(t, 0);
  }
  const char *log = log_end(keep, if_path("log")), *first = strstr(log, "images/a.png: ");
  ok(t);
  ck_assert_msg(first != NULL, "%s", log);
  ck_assert_ptr_null(strstr(first + 1, "images/a.png"));
  ck_assert_ptr_nonnull(strstr(first, "another sample takes its place (1 of at most 16)"));
  spt_free(t);
}
END_TEST

/* ---- refusals ---- */
START_TEST(test_folder_refused) {
  spt *t = reader("classes = 5", 1);
  says(t, SP_E_NOTFOUND, "/images holds no *.jpg|jpeg|png|webp|tif|tiff");
  spt_free(t);
  if_pair("a", 4, 4, 0);
  t = reader("size = 4", 1);
  says(t, SP_E_INVALID, "Give classes = N, or put ");
  spt_free(t);
  classes_txt();
  t = reader("size = 4, classes = 7", 1);
  says(t, SP_E_INVALID, "classes = 7, but ");
  spt_free(t);
  t = reader("size = 4, split = \"val\"", 1);
  says(t, SP_E_RANGE, "1 sample is none for validation; give two or more");
  spt_free(t);
  if_put("classes.txt", "\n\n", 2);
  t = reader("size = 4", 1);
  says(t, SP_E_DATA, "classes.txt names 0 classes");
  spt_free(t);
  if_put("images/lonely.png", "x", 1);
  t = reader("classes = 5", 1);
  says(t, SP_E_DATA, "images/lonely.png has no mask: ");
  spt_free(t);
  unlink(if_path("images/lonely.png"));
  if_put("images/a.jpg", "x", 1);
  t = reader("classes = 5", 1);
  says(t, SP_E_DATA, "a.jpg and a.png have the same stem");
  spt_free(t);
  unlink(if_path("masks/a.png"));
  t = reader("classes = 5", 1);
  says(t, SP_E_NOTFOUND, "/masks holds no *.png");
  spt_free(t);
  rmdir(if_path("masks"));
  t = reader("classes = 5", 1);
  says(t, SP_E_NOTFOUND, "a data folder holds images/*.jpg|jpeg|png|webp|tif|tiff|bmp|gif|ppm and masks/*.png");
  spt_free(t);
}
END_TEST

START_TEST(test_parameters_refused) {
  static const struct {
    const char *params;
    int status;
    const char *words;
  } bad[] = {
      {"{ path = \"/nowhere/at/all\" }", SP_E_NOTFOUND, "/nowhere/at/all: No such file or directory"},
      {"{ path = \"/dev/null\" }", SP_E_NOTFOUND, "/dev/null: neither a folder nor a .csv, .tsv or .txt file"},
      {"{ }", SP_E_INVALID, "no data: give path"},
      {"{ path = \"shapes\", files = { {\"x.png\"} } }", SP_E_INVALID, "both given"},
      {"{ path = \"shapes\", classes = 4 }", SP_E_INVALID, "classes = 4, but the set shapes has 6"},
      {"{ path = \"shapes\", samples = 3, split = \"val\" }", SP_E_RANGE, "leave none for validation"},
      {"{ path = \"shapes\", size = 0 }", SP_E_RANGE, "size"},
      {"{ path = \"shapes\", workers = 65 }", SP_E_RANGE, "workers"},
      {"{ path = \"shapes\", worker = 2 }", SP_E_INVALID, "workers"},
  };
  for (size_t i = 0; i < SP_ARRAY(bad); i++) {
    spt *t = spt_new("reader", bad[i].params, 1);
    ck_assert_msg(spt_failed(t), "%s is taken", bad[i].params);
    ck_assert_msg(strstr(spt_error(t), bad[i].words), "%s: %s", bad[i].params, spt_error(t));
    if (i < 6) ck_assert_int_eq(spt_failed(t), bad[i].status);
    spt_free(t);
  }
}
END_TEST

START_TEST(test_masks_refused) {
  uint16_t v[64 * 3] = {0};
  if_pair("a", 8, 8, 1);
  if_write("masks/a.png", if_png(v, 8, 7, PNG_COLOR_TYPE_GRAY, 8, 0));
  spt *t = reader("size = 8, classes = 5", 1);
  read_from(t, 0, 1);
  says(t, SP_E_DATA, "images/a.jpg is 8 x 8 pixels, but its mask ");
  says(t, SP_E_DATA, "masks/a.png is 8 x 7 (width x height)");
  spt_free(t);
  v[9] = 300;
  if_write("masks/a.png", if_png(v, 8, 8, PNG_COLOR_TYPE_GRAY, 16, 0));
  v[9] = 0;
  t = reader("size = 8, classes = 5", 1);
  read_from(t, 0, 1);
  says(t, SP_E_DATA, "masks/a.png: the pixel at x = 1, y = 1 is 300, which is no label");
  says(t, SP_E_DATA, "mask_values = \"0=0,300=1\"");
  spt_free(t);
  if_write("masks/a.png", if_png(v, 8, 8, PNG_COLOR_TYPE_RGB, 8, 0));
  t = reader("size = 8, classes = 5", 1);
  read_from(t, 0, 1);
  says(t, SP_E_DATA, "masks/a.png: a mask must be a palette or grey PNG");
  spt_free(t);
}
END_TEST

/* The reader knows the file and the classes; the loss would know neither. */
START_TEST(test_labels_out_of_range) {
  uint16_t v[64] = {0};
  if_pair("a", 8, 8, 1);
  v[3 * 8 + 5] = 9;
  v[7 * 8 + 7] = 255;
  if_write("masks/a.png", if_png(v, 8, 8, PNG_COLOR_TYPE_PALETTE, 8, 0));
  static const int sizes[] = {8, 1}; /* at 1 x 1 the pixel is lost, but not the mistake */
  for (int k = 0; k < 2; k++) {
    char params[64];
    snprintf(params, sizeof params, "size = %d, classes = 9", sizes[k]);
    spt *t = reader(params, 1);
    read_from(t, 0, 1);
    says(t, SP_E_DATA,
         "masks/a.png: label 9 at x = 5, y = 3, but there are 9 classes (0 to 8, and 255: no label); correct the mask, "
         "or give classes = 10 or more, or as many lines in classes.txt");
    spt_free(t);
  }
  spt *t = reader("size = 8, classes = 10", 1);
  read_from(t, 0, 1);
  ok(t);
  spt_free(t);
}
END_TEST

/* A batch without any label is told once, with a file. */
START_TEST(test_no_labels) {
  uint16_t v[64];
  for (int k = 0; k < 64; k++) v[k] = 255;
  if_pair("a", 8, 8, 1);
  if_pair("b", 8, 8, 1);
  if_write("masks/b.png", if_png(v, 8, 8, PNG_COLOR_TYPE_GRAY, 8, 0));
  spt *t = reader("size = 8, classes = 5", 2);
  int keep = log_begin(if_path("log"));
  read_from(t, 0, 2);
  ck_assert_str_eq(log_end(keep, if_path("log")), "");
  spt_free(t);
  t = reader("size = 8, classes = 5", 1);
  keep = log_begin(if_path("log"));
  read_from(t, 1, 1);
  read_from(t, 1, 1);
  const char *log = log_end(keep, if_path("log")), *told = strstr(log, "every pixel of a batch is \"no label\" (255)");
  ck_assert_msg(told && strstr(told, "; its first mask is ") && strstr(told, "/masks/b.png; labels are 0 to 4\n"), "%s",
                log);
  ck_assert_ptr_null(strstr(told + 1, "every pixel"));
  spt_free(t);
}
END_TEST

/* Of several failures in a batch the first sample's is told, whatever the threads do. */
START_TEST(test_first_failure_is_told) {
  uint16_t v[64] = {0};
  char name[32];
  for (int i = 0; i < 8; i++) {
    snprintf(name, sizeof name, "p%d", i);
    if_pair(name, 8, 8, 1);
    snprintf(name, sizeof name, "masks/p%d.png", i);
    if (i > 1) if_write(name, if_png(v, 8, i - 1, PNG_COLOR_TYPE_GRAY, 8, 0));
  }
  for (int k = 0; k < 20; k++) {
    spt *t = reader("size = 8, classes = 5, workers = 8", 8);
    read_from(t, 0, 8);
    says(t, SP_E_DATA, "masks/p2.png is 8 x 1");
    spt_free(t);
  }
}
END_TEST

START_TEST(test_file_goes_away) {
  if_pair("a", 8, 8, 1);
  spt *t = reader("size = 8, classes = 5", 1);
  unlink(if_path("images/a.jpg"));
  read_from(t, 0, 1);
  says(t, SP_E_IO, "images/a.jpg: No such file or directory");
  spt_free(t);
}
END_TEST

int main(void) {
  Suite *s = suite_create("reader");
  TCase *c = tcase_create("reader");
  tcase_set_timeout(c, 60);
  tcase_add_checked_fixture(c, if_begin, if_end);
  tcase_add_test(c, test_pairs);
  tcase_add_test(c, test_resized);
  tcase_add_test(c, test_short_batch);
  tcase_add_test(c, test_split);
  tcase_add_test(c, test_own_splits);
  tcase_add_test(c, test_orient);
  tcase_add_test(c, test_resize);
  tcase_add_test(c, test_shorter);
  tcase_add_test(c, test_first_samples_only);
  tcase_add_test(c, test_list_of_files);
  tcase_add_test(c, test_names_of_masks);
  tcase_add_test(c, test_broken_are_replaced);
  tcase_add_test(c, test_max_bad);
  tcase_add_test(c, test_all_broken);
  tcase_add_test(c, test_broken_are_named_once);
  tcase_add_test(c, test_folder_refused);
  tcase_add_test(c, test_parameters_refused);
  tcase_add_test(c, test_masks_refused);
  tcase_add_test(c, test_labels_out_of_range);
  tcase_add_test(c, test_no_labels);
  tcase_add_test(c, test_first_failure_is_told);
  tcase_add_test(c, test_file_goes_away);
  suite_add_tcase(s, c);
  return suite_run(s);
}
