/* SPDX-License-Identifier: MIT
 * check_reader_shards.c - the stage `reader` on tar files: samples, splits, patterns, compressed shards, and archives
 * that are damaged or lie. */
#include <fcntl.h>
#include <png.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_ARCHIVE
#include <archive.h>
#include <archive_entry.h>
#endif

#include "tests/kit/image_files.h"
#include "tests/kit/reader_kit.h"
#include "tests/kit/suite.h"

static spt *reader(const char *path, const char *more, int64_t n) {
  char params[1024];
  snprintf(params, sizeof params, "{ path = \"%s\", size = 1, %s }", if_path(path), more);
  return open_set(params, n);
}

#define CLASS "target = \"class\""

#ifdef HAVE_ARCHIVE
/* ---- tar files, in memory ---- */
typedef struct tape {
  uint8_t p[1 << 16];
  size_t n;
} tape;
static tape t;

enum { BLOCK = 512, SIZE = 124, SUM = 148, TYPE = 156, LINK = 157 }; /* where a header has what */

static void sum_up(uint8_t *h) {
  unsigned sum = 0;
  memset(h + SUM, ' ', 8);
  for (int i = 0; i < BLOCK; i++) sum += h[i];
  snprintf((char *)h + SUM, 8, "%06o", sum);
}

/* A member whose header is to say `size`; returns the header. */
static uint8_t *add(const char *name, const void *bytes, size_t n, char type, unsigned long long size) {
  uint8_t *h = t.p + t.n;
  ck_assert_uint_lt(t.n + n + 3 * BLOCK, sizeof t.p);
  memset(h, 0, BLOCK + (n + BLOCK - 1) / BLOCK * BLOCK);
  snprintf((char *)h, 100, "%s", name);
  memcpy(h + 100, "0000644", 7);
  snprintf((char *)h + SIZE, 12, "%011llo", size);
  memcpy(h + 136, "00000000000", 11);
  memcpy(h + 257, "ustar\00000", 8);
  h[TYPE] = (uint8_t)type;
  sum_up(h);
  if (n) memcpy(h + BLOCK, bytes, n);
  t.n += BLOCK + (n + BLOCK - 1) / BLOCK * BLOCK;
  return h;
}

static void add_text(const char *name, const char *text) { add(name, text, strlen(text), '0', strlen(text)); }

static if_bytes dot_png(int grey, int colour) {
  uint16_t v[3] = {(uint16_t)grey, (uint16_t)grey, (uint16_t)grey};
  return if_png(v, 1, 1, colour, 8, 0);
}

static void add_dot(const char *name, int grey) {
  if_bytes b = dot_png(grey, PNG_COLOR_TYPE_RGB);
  add(name, b.p, b.n, '0', b.n);
  free(b.p);
}

static void add_mask(const char *name, int label) {
  if_bytes b = dot_png(label, PNG_COLOR_TYPE_GRAY);
  add(name, b.p, b.n, '0', b.n);
  free(b.p);
}

static void write_tar(const char *name) {
  memset(t.p + t.n, 0, 2 * BLOCK);
  if_put(name, t.p, t.n + 2 * BLOCK);
  t.n = 0;
}

static void begin(void) {
  if_begin();
  t.n = 0;
  ck_assert(!mkdir(if_path("set"), 0777) && !setenv("TMPDIR", if_dir, 1));
}

/* Image and label, by the number of a sample. */
static void add_sample(const char *folder, int i, const char *label) {
  char name[64];
  snprintf(name, sizeof name, "%s%04d.png", folder, i);
  add_dot(name, i);
  snprintf(name, sizeof name, "%s%04d.cls", folder, i);
  add_text(name, label);
}

static void expect(spt *r, int first, int n, const int *greys, const int *labels) {
  make(r, (uint64_t)first, n);
  for (int i = 0; i < n; i++) {
    ck_assert_int_eq(image_of(r, i)[0], greys[i]);
    ck_assert_int_eq(label_of(r, i), labels[i]);
  }
}

static int refused(const char *path, const char *more, int status, const char *words) {
  spt *r = reader(path, more, 1);
  says(r, status, words);
  spt_free(r);
  return 1;
}

/* ---- what is read ---- */
START_TEST(test_samples) {
  add_text("__index__.json", "{}");
  add("x", NULL, 0, '5', 0); /* a folder */
  add_dot("x/b.png", 1);
  add_text("x/b.json", "{}");
  add_text("x/b.CLS", " 2\n");
  add_text("x/.hidden", "");
  add_text("x/a.c.d.cls", "0"); /* another ending than .cls */
  add_text("x.y/a.cls", "0");   /* the dot of a folder is none of the name's */
  add_dot("x.y/a.png", 2);
  add_dot("c.PNG", 3);
  add_text("c.cls", "2");
  add_text("lone.cls", "1");
  write_tar("set/one.tar");
  if_put("set/notes.txt", "x", 1);
  int keep = log_begin(if_path("log"));
  spt *r = reader("set", CLASS, 3);
  const char *log = log_end(keep, if_path("log"));
  ck_assert_msg(
      strstr(log, ": left out: 3 files of other endings, such as __index__.json, 1 hidden or system file (.hidden), "
                  "1 label or mask without an image (lone.cls), 1 member with a dot in its key (a.c.d.cls; a key ends "
                  "at the first dot of a name)\n"),
      "%s", log);
  ck_assert_int_eq(spt_length(r), 3);
  ck_assert_double_eq(attr(r, "classes"), 3);
  expect(r, 0, 3, (int[]){2, 1, 3}, (int[]){0, 2, 2}); /* by class, then as they lie */
  spt_free(r);
}
END_TEST

START_TEST(test_masks) {
  static const char names[] = "a\nb\nc\nd";
  for (int k = 0; k < 2; k++) {
    add_dot(k ? "q.jpeg" : "p.png", k + 1); /* an image is what its bytes are */
    add_mask(k ? "q.mask.png" : "p.seg.PNG", 3 - k);
  }
  write_tar("set/one.tar");
  if_put("set/classes.txt", names, strlen(names));
  for (int k = 0; k < 2; k++) { /* a file as a folder */
    spt *r = reader(k ? "set/one.tar" : "set", "", 2);
    make(r, 0, 2);
    ck_assert_double_eq(attr(r, "classes"), 4);
    for (int i = 0; i < 2; i++) {
      ck_assert_int_eq(image_of(r, i)[0], i + 1);
      ck_assert_int_eq(mask_of(r, i)[0], 3 - i);
    }
    spt_free(r);
  }
  if_put("set/classes.txt", names, 5);
  spt *r = reader("set", "workers = 1", 2);
  ok(r);
  for (int i = 0; i < 2; i++) spt_set_id(r, i, (uint64_t)i);
  spt_forward(r, 0);
  says(r, SP_E_DATA,
       "set/one.tar: p.seg.PNG: label 3 at x = 0, y = 0, but there are 3 classes (0 to 2, and 255: no label)");
  spt_free(r);
}
END_TEST

START_TEST(test_names_of_classes) {
  static const char *const words[] = {"dog", "ant", "cat", "ant"};
  for (int i = 0; i < 4; i++) add_sample("", i, words[i]);
  write_tar("set/one.tar");
  spt *r = reader("set", CLASS, 4);
  expect(r, 0, 4, (int[]){1, 3, 2, 0}, (int[]){0, 0, 1, 2});
  ck_assert_str_eq(spt_attr_text(r, "class_names"), "ant\ncat\ndog");
  spt_free(r);
  if_put("set/classes.txt", "dog\nant\ncat\neel", 15);
  r = reader("set", CLASS, 4);
  expect(r, 0, 4, (int[]){0, 1, 3, 2}, (int[]){0, 1, 1, 2});
  spt_free(r);
  refused("set", CLASS ", classes = 3", SP_E_INVALID, "classes = 3, but the labels of");
  if_put("set/classes.txt", "dog\nant\n3", 9);
  refused("set", CLASS, SP_E_DATA, "set/one.tar: 0002.cls: the label is \"cat\", but ");
  if_put("set/classes.txt", "dog\nant\ndog", 11);
  refused("set", CLASS, SP_E_DATA, "classes.txt names 'dog' twice");
  unlink(if_path("set/classes.txt"));
  add_sample("", 7, "12");
  write_tar("set/two.tar");
  refused("set", CLASS, SP_E_DATA, "set/two.tar: 0007.cls: the label is the number 12, but at ");
}
END_TEST

START_TEST(test_numbers_of_classes) {
  static const struct {
    const char *label, *params, *words;
  } bad[] = {
      {"-1", CLASS, "0000.cls: label -1; classes are counted from 0"},
      {"5", CLASS ", classes = 5", "0000.cls: label 5, but there are 5 classes (0 to 4)"},
      {"2000000000", CLASS, "0000.cls: label 2000000000 would make more than 1000000 classes"},
      {" \n", CLASS, "0000.cls is empty, or no single line of UTF-8; a label is a number, or the name of a class"},
      {"1\n2", CLASS, "0000.cls has 2 labels, so it is for target = \"labels\""}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    add_sample("", 0, bad[i].label);
    write_tar("set/one.tar");
    refused("set", bad[i].params, SP_E_DATA, bad[i].words);
  }
  add_sample("", 0, "3");
  write_tar("set/one.tar");
  spt *r = reader("set", CLASS ", classes = 300", 1);
  expect(r, 0, 1, (int[]){0}, (int[]){3});
  ck_assert_double_eq(attr(r, "classes"), 300);
  spt_free(r);
}
END_TEST

static int64_t length(const char *path, const char *more) {
  spt *r = reader(path, more, 1);
  ok(r);
  int64_t n = spt_length(r);
  spt_free(r);
  return n;
}

START_TEST(test_splits) {
  for (int k = 0; k < 4; k++) {
    static const char *const names[] = {"train-000.tar", "train-001.tar", "val-000.tar", "test-0.tar"};
    char name[64];
    for (int i = 0; i <= k; i++) add_sample("", 10 * k + i, "0");
    snprintf(name, sizeof name, "set/%s", names[k]);
    write_tar(name);
  }
  ck_assert_int_eq(length("set", CLASS ", split = \"train\""), 3);
  ck_assert_int_eq(length("set", CLASS ", split = \"val\""), 3);
  spt *r = reader("set", CLASS, 1);
  ok(r);
  ck_assert_int_eq(spt_length(r), 6);
  ck_assert_str_eq(spt_attr_text(r, "left_out"), "1 file of another ending, such as test-0.tar");
  spt_free(r);
  refused("set", CLASS ", val_fraction = 0.2", SP_E_INVALID, "shards named train-* and val-*, which say");
  /* a pattern of one split is all of the set */
  ck_assert_int_eq(length("set/train-{000..001}.tar", CLASS ", split = \"train\", val_fraction = 0.3"), 2);
  ck_assert_int_eq(length("set/{train-000,train-001,val-000}.tar", CLASS ", split = \"val\""), 3);
  ck_assert(!mkdir(if_path("parts"), 0777) && !mkdir(if_path("parts/train"), 0777) &&
            !mkdir(if_path("parts/val"), 0777));
  ck_assert(!rename(if_path("set/train-001.tar"), if_path("parts/train/x.tar")));
  ck_assert(!rename(if_path("set/test-0.tar"), if_path("parts/val/y.tar")));
  ck_assert_int_eq(length("parts", CLASS ", split = \"train\""), 2);
  ck_assert_int_eq(length("parts", CLASS ", split = \"val\""), 4);
}
END_TEST

/* A shard's sample is on the side of the split that the same file has in a folder of its class. */
START_TEST(test_split_by_name) {
  enum { N = 40 };
  char name[64];
  ck_assert(!mkdir(if_path("tree"), 0777) && !mkdir(if_path("tree/a"), 0777) && !mkdir(if_path("tree/b.c"), 0777));
  for (int i = 0; i < N; i++) {
    add_sample("some/folder/", i, i % 2 ? "a" : "b.c");
    snprintf(name, sizeof name, "tree/%s/%04d.png", i % 2 ? "a" : "b.c", i);
    if_write(name, dot_png(i, PNG_COLOR_TYPE_RGB));
    if (i == N / 3) write_tar("set/0.tar");
  }
  write_tar("set/1.tar");
  static const char *const params[] = {CLASS ", split = \"val\", val_fraction = 0.3", CLASS ", samples = 12"};
  for (int k = 0; k < 2; k++) {
    spt *shards = reader("set", params[k], 12), *tree = reader("tree", params[k], 12);
    make(shards, 0, 12);
    make(tree, 0, 12);
    for (int i = 0; i < 12; i++) {
      ck_assert_int_eq(image_of(shards, i)[0], image_of(tree, i)[0]);
      ck_assert_int_eq(label_of(shards, i), label_of(tree, i));
    }
    spt_free(shards);
    spt_free(tree);
  }
}
END_TEST

START_TEST(test_patterns) {
  for (int i = 8; i < 11; i++) {
    char name[64];
    add_sample("", i, "0");
    snprintf(name, sizeof name, "set/s%d.tar", i);
    write_tar(name);
  }
  ck_assert_int_eq(length("set/s{8..10}.tar", CLASS), 3);
}
END_TEST

START_TEST(test_bad_patterns) {
  static const struct {
    const char *path, *words;
  } bad[] = {{"set/s{8..11.tar", "a brace lacks its other one"},
             {"set/s}.tar", "a brace lacks its other one"},
             {"set/{s{8,9},x}.tar", "a brace lacks its other one"},
             {"set/s{9..8}.tar", "a range ends below its beginning"},
             {"set/s{0..999999}{0..9}.tar", "it names more than a million files"},
             {"set/s{08..11}.tar", "set/s08.tar: No such file or directory"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    spt *r = reader(bad[i].path, CLASS, 1);
    ck_assert_int_ne(spt_failed(r), 0);
    says(r, spt_failed(r), bad[i].words);
    spt_free(r);
  }
}
END_TEST

/* ---- compressed ---- */
static void compress(const char *from, const char *to, int zstd) {
  if_bytes b = if_read(from);
  struct archive *a = archive_write_new();
  struct archive_entry *e = archive_entry_new();
  ck_assert(a && e && !(zstd ? archive_write_add_filter_zstd(a) : archive_write_add_filter_gzip(a)));
  archive_entry_set_filetype(e, AE_IFREG);
  ck_assert(!archive_write_set_format_raw(a) && !archive_write_open_filename(a, if_path(to)));
  ck_assert(!archive_write_header(a, e) && archive_write_data(a, b.p, b.n) == (la_ssize_t)b.n);
  ck_assert(!archive_write_close(a));
  archive_write_free(a);
  archive_entry_free(e);
  free(b.p);
  unlink(if_path(from));
}

static void three_shards(void) {
  for (int k = 0; k < 3; k++) {
    static const char *const names[] = {"set/0.tar", "set/1.plain", "set/2.plain"};
    for (int i = 0; i < 4; i++) add_sample("", 10 * k + i, "0");
    write_tar(names[k]);
  }
  compress("set/1.plain", "set/1.tar.gz", 0);
  compress("set/2.plain", "set/2.tzst", 1);
}

START_TEST(test_compressed) {
  three_shards();
  int keep = log_begin(if_path("log"));
  spt *r = reader("set", CLASS, 12), *again = reader("set", CLASS, 12);
  const char *log = log_end(keep, if_path("log"));
  const char *told = strstr(log, ": unpacked 2 shards, ");
  ck_assert_msg(told && strstr(told, " KiB, into ") && strstr(told, if_dir), "%s", log);
  ck_assert_msg(!strstr(told + 4, "unpacked"), "unpacked again for the second reader: %s", log);
  int labels[12] = {0}, greys[12];
  for (int i = 0; i < 12; i++) greys[i] = i / 4 * 10 + i % 4;
  spt_free(again);
  expect(r, 0, 12, greys, labels);
  spt_free(r);
  char command[600];
  snprintf(command, sizeof command, "test -z \"$(ls -d '%s'/spcore-* 2>/dev/null)\"", if_dir);
  ck_assert_msg(!system(command), "a file is left behind");
}
END_TEST

START_TEST(test_cannot_unpack) {
  three_shards();
  if_bytes b = if_read("set/1.tar.gz");
  if_put("set/1.tar.gz", b.p, b.n / 2);
  refused("set", CLASS, SP_E_DATA, "set/1.tar.gz cannot be unpacked: ");
  if_put("set/1.tar.gz", b.p, b.n);
  setenv("TMPDIR", if_path("none"), 1);
  refused("set", CLASS, SP_E_IO, "none: No such file or directory; let TMPDIR name a folder");
  setenv("TMPDIR", if_dir, 1);
  signal(SIGXFSZ, SIG_IGN); /* as a full disk */
  ck_assert(!setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096}));
  refused("set", CLASS, SP_E_IO, "let TMPDIR name a folder with more room, or unpack it to a plain .tar once");
  free(b.p);
}
END_TEST

/* ---- damage and lies ---- */
START_TEST(test_truncated) {
  add_sample("", 1, "0");
  add_sample("", 2, "0");
  write_tar("set/one.tar");
  if_bytes b = if_read("set/one.tar");
  if_put("set/one.tar", b.p, 2 * BLOCK + BLOCK + 20); /* in a label */
  refused("set", CLASS, SP_E_DATA, "set/one.tar");
  if_put("set/one.tar", b.p, BLOCK + 20);
  refused("set", CLASS, SP_E_DATA, "set/one.tar: 0001.png has ");
  if_put("set/one.tar", b.p, 4 * BLOCK + 100); /* in a header */
  refused("set", CLASS, SP_E_DATA, "set/one.tar, behind 0001.cls: ");
  if_put("set/one.tar", b.p, 0);
  refused("set", CLASS, SP_E_DATA, "set/one.tar is no tar, or its first header is damaged");
  int keep = log_begin(if_path("log"));
  if_put("set/one.tar", b.p, 4 * BLOCK); /* between two members: nothing that is there is hurt */
  ck_assert_int_eq(length("set", CLASS), 1);
  const char *log = log_end(keep, if_path("log"));
  ck_assert_msg(strstr(log, "one.tar does not end as a tar does; members may be missing behind 0001.cls"), "%s", log);
  free(b.p);
}
END_TEST

START_TEST(test_damaged) {
  add_sample("", 1, "0");
  uint8_t *h = t.p + t.n;
  add_sample("", 2, "0");
  h[0] ^= 1;
  write_tar("set/one.tar");
  refused("set", CLASS, SP_E_DATA, "set/one.tar, behind 0001.cls: ");
  add_sample("", 1, "0");
  t.p[0] ^= 1;
  write_tar("set/one.tar");
  refused("set", CLASS, SP_E_DATA, "set/one.tar is no tar, or its first header is damaged");
}
END_TEST

START_TEST(test_samples_refused) {
  static const struct {
    const char *names[4], *words;
  } bad[] = {
      {{"a.png", "a.cls", "a.png"}, "set/one.tar: a.png is there twice; pack it again"},
      {{"a.png", "a.cls", "b.png", "a.cls"}, "set/one.tar: a.cls is there twice"},
      {{"a.png", "a.cls", "a.jpg"}, "set/one.tar: a.png and a.jpg have the same name up to the first dot"},
      {{"a.png", "a.cls", "b.png"}, "set/one.tar: b.png has no label: there is no b.cls"},
      {{"a.cls", "b.txt"}, "the shards hold no sample: KEY.jpg|jpeg|png|webp|tif|tiff|bmp|gif|ppm with KEY.cls"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    for (int k = 0; k < 4 && bad[i].names[k]; k++) {
      if (strstr(bad[i].names[k], ".cls")) add_text(bad[i].names[k], "0");
      else add_dot(bad[i].names[k], k);
    }
    write_tar("set/one.tar");
    refused("set", CLASS, SP_E_DATA, bad[i].words);
  }
  add_dot("a.png", 1);
  write_tar("set/one.tar");
  refused("set", "classes = 2", SP_E_DATA, "set/one.tar: a.png has no mask: there is no a.seg.png or .mask.png");
  add_dot("a.png", 1);
  memcpy(add("a.cls", NULL, 0, '1', 0) + LINK, "b.cls", 5);
  sum_up(t.p + t.n - BLOCK);
  write_tar("set/one.tar");
  refused("set", CLASS, SP_E_DATA,
          "set/one.tar: a.cls is a link; pack a copy of the files without links, as `cp -rL FOLDER COPY`");
}
END_TEST

/* Sizes that no file has: refused before anything is allocated. */
START_TEST(test_sizes_that_lie) {
  static const uint8_t huge[12] = {0x80, 0, 0, 0, 0x7F, 255, 255, 255, 255, 255, 255, 255},
                       negative[12] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  ck_assert(!setrlimit(RLIMIT_AS, &(struct rlimit){UINT64_C(4) << 30, UINT64_C(4) << 30}));
#endif
  for (int k = 0; k < 5; k++) {
    uint8_t *h = add("a.png", "x", 1, '0', k == 0 ? 077777777777ull : k == 1 ? 2 * BLOCK + 513 : 1);
    if (k == 2) memcpy(h + SIZE, huge, 12);
    if (k == 3) memcpy(h + SIZE, negative, 12);
    if (k == 4) h = add("b", "17 size=9999999999\n", 19, 'x', 077777777777ull); /* of a header before a header */
    sum_up(h);
    write_tar("set/one.tar");
    spt *r = reader("set", CLASS, 1);
    ck_assert_msg(spt_failed(r) == SP_E_DATA, "%d: %s", k, spt_error(r));
    ck_assert_msg(strstr(spt_error(r), "set/one.tar") && !strchr(spt_error(r), '\n'), "%s", spt_error(r));
    spt_free(r);
  }
  static const uint8_t label[40000];
  add("a.cls", label, sizeof label, '0', sizeof label);
  add_dot("a.png", 1);
  write_tar("set/one.tar");
  refused("set", CLASS, SP_E_DATA, "set/one.tar: a.cls has 40000 bytes; a label is a number, or the name of a class");
  add_text("a.json", "{\n\"label\": \"\\u0\n\"}"); /* what jansson says of it has the line break */
  add_dot("a.png", 1);
  write_tar("set/one.tar");
  refused("set", CLASS, SP_E_DATA, "set/one.tar: a.json");
}
END_TEST

/* GNU tar's old form of a file with a hole: 1 MiB by its header, one block in the archive. */
START_TEST(test_holes) {
  static const uint8_t piece[BLOCK];
  uint8_t *h = add("a.png", piece, BLOCK, 'S', BLOCK);
  memcpy(h + 257, "ustar  ", 8);
  snprintf((char *)h + 386, 12, "%011o", 0); /* the piece: place, bytes */
  snprintf((char *)h + 398, 12, "%011o", BLOCK);
  snprintf((char *)h + 483, 12, "%011o", 1 << 20);
  sum_up(h);
  add_text("a.cls", "0");
  write_tar("set/one.tar");
  refused("set", CLASS, SP_E_DATA, "set/one.tar: a.png ");
}
END_TEST

/* Whatever a byte becomes, the reader reads or says why not. */
START_TEST(test_any_damage) {
  for (int i = 0; i < 3; i++) add_sample("some/folder/", i, "1");
  size_t n = t.n;
  write_tar("whole");
  if_bytes b = if_read("whole");
  unsigned r = 1;
  for (int i = 0; i < 300; i++) {
    size_t at[3];
    uint8_t was[3];
    for (int k = 0; k < 3; k++) {
      r = r * 1664525u + 1013904223u;
      at[k] = (r >> 8) % n / BLOCK * BLOCK + (r >> 3) % 345; /* headers more than data */
      if (at[k] >= n) at[k] = 0;
      was[k] = b.p[at[k]];
      b.p[at[k]] = (uint8_t)(r >> 24);
    }
    for (size_t h = 0; h < n && i % 3; h += BLOCK)
      if (!memcmp(b.p + h + 257, "ustar", 5)) sum_up(b.p + h); /* so that more than the sum is looked at */
    if_put("set/one.tar", b.p, b.n);
    spt *s = reader("set", CLASS ", max_bad = 100", 1);
    if (!spt_failed(s)) {
      spt_set_id(s, 0, 0);
      spt_forward(s, 0);
    }
    ck_assert(!spt_failed(s) || (*spt_error(s) && !strchr(spt_error(s), '\n')));
    spt_free(s);
    for (int k = 3; k-- > 0;) b.p[at[k]] = was[k];
    for (size_t h = 0; h < n; h += BLOCK)
      if (!memcmp(b.p + h + 257, "ustar", 5)) sum_up(b.p + h);
  }
  free(b.p);
}
END_TEST

START_TEST(test_broken_images) {
  for (int i = 0; i < 3; i++) add_sample("", i, "0");
  add_text("9.png", "no picture");
  add_text("9.cls", "0");
  add_text("8.png", "");
  add_text("8.cls", "0");
  write_tar("set/one.tar");
  int keep = log_begin(if_path("log"));
  spt *r = reader("set", CLASS, 5);
  make(r, 0, 5);
  const char *log = log_end(keep, if_path("log"));
  ck_assert_msg(strstr(log, "set/one.tar: 9.png: neither JPEG nor PNG, nor another format that is read: it is text"),
                "%s", log);
  ck_assert_msg(strstr(log, "set/one.tar: 8.png: the file is empty; another sample"), "%s", log);
  spt_free(r);
}
END_TEST

START_TEST(test_shard_changes) {
  add_sample("", 1, "0");
  write_tar("set/one.tar");
  spt *r = reader("set", CLASS, 1);
  make(r, 0, 1);
  add_sample("", 2, "0");
  add_sample("", 3, "0");
  write_tar("set/one.tar");
  spt_set_id(r, 0, 0);
  spt_forward(r, 0);
  says(r, SP_E_IO, "set/one.tar: 0001.png: the archive has changed since it was opened; start again");
  spt_free(r);
}
END_TEST

/* A large listing is kept as a file, and holds while the shards and classes.txt are what they were. */
START_TEST(test_kept) {
  enum { N = 10000 };
  static const struct timespec past[2] = {{1000000000, 0}, {1000000000, 0}};
  char name[32];
  ck_assert(!setenv("SPCORE_CACHE", if_path("cache"), 1));
  FILE *f = fopen(if_path("set/one.tar"), "w");
  ck_assert_ptr_nonnull(f);
  for (int i = 0; i <= N; i++) {
    t.n = 0;
    snprintf(name, sizeof name, "%d.png", i);
    if (i < N) add_text(name, "no picture");
    snprintf(name, sizeof name, "%d.cls", i);
    if (i < N) add_text(name, "a");
    memset(t.p + t.n, 0, 2 * BLOCK);
    ck_assert_uint_eq(fwrite(t.p, 1, i < N ? t.n : 2 * BLOCK, f), i < N ? t.n : 2 * BLOCK);
  }
  ck_assert(!fclose(f));
  for (int k = 0; k < 2; k++) ck_assert(!utimensat(AT_FDCWD, if_path(k ? "set" : "set/one.tar"), past, 0));
  spt *r = reader("set", CLASS, 1);
  ck_assert_int_eq(spt_length(r), N);
  spt_free(r);
  char command[600];
  snprintf(command, sizeof command, "ls '%s'/index-* >/dev/null", if_path("cache"));
  ck_assert(!system(command));
  r = reader("set", CLASS, 1);
  ck_assert_int_eq(spt_length(r), N);
  ck_assert_str_eq(spt_attr_text(r, "class_names"), "a");
  spt_set_id(r, 0, 0); /* from the file: the place leads to the member */
  spt_forward(r, 0);
  says(r, SP_E_DATA, "set/one.tar: ");
  says(r, SP_E_DATA, ".png: neither JPEG nor PNG");
  spt_free(r);
  if_put("set/classes.txt", "b\na", 3);
  r = reader("set", CLASS, 1);
  ck_assert_str_eq(spt_attr_text(r, "class_names"), "b\na");
  spt_free(r);
}
END_TEST

/* More shards than a process may have open. */
START_TEST(test_many_shards) {
  enum { N = 60 };
  char name[64];
  ck_assert(!setrlimit(RLIMIT_NOFILE, &(struct rlimit){40, 40}));
  for (int i = 0; i < N; i++) {
    add_sample("", i, "0");
    snprintf(name, sizeof name, "set/%02d.tar", i);
    write_tar(name);
  }
  spt *r = reader("set", CLASS, N);
  make(r, 0, N);
  for (int i = 0; i < N; i++) ck_assert_int_eq(image_of(r, i)[0], i);
  spt_free(r);
}
END_TEST

#else

static void begin(void) { if_begin(); }

START_TEST(test_without_libarchive) {
  if_put("one.tar", "x", 1);
  spt *r = reader("one.tar", CLASS, 1);
  says(r, SP_E_UNSUPPORTED,
       "one.tar is a tar, and this spcore was built without libarchive; install that (Debian: libarchive-dev), "
       "configure "
       "and build again");
  spt_free(r);
}
END_TEST
#endif

int main(void) {
  Suite *s = suite_create("reader_shards");
  TCase *c = tcase_create("reader_shards");
  tcase_set_timeout(c, 600);
  tcase_add_checked_fixture(c, begin, if_end);
#ifdef HAVE_ARCHIVE
  tcase_add_test(c, test_samples);
  tcase_add_test(c, test_masks);
  tcase_add_test(c, test_names_of_classes);
  tcase_add_test(c, test_numbers_of_classes);
  tcase_add_test(c, test_splits);
  tcase_add_test(c, test_split_by_name);
  tcase_add_test(c, test_patterns);
  tcase_add_test(c, test_bad_patterns);
  tcase_add_test(c, test_compressed);
  tcase_add_test(c, test_cannot_unpack);
  tcase_add_test(c, test_truncated);
  tcase_add_test(c, test_damaged);
  tcase_add_test(c, test_samples_refused);
  tcase_add_test(c, test_sizes_that_lie);
  tcase_add_test(c, test_holes);
  tcase_add_test(c, test_any_damage);
  tcase_add_test(c, test_broken_images);
  tcase_add_test(c, test_shard_changes);
  tcase_add_test(c, test_kept);
  tcase_add_test(c, test_many_shards);
#else
  tcase_add_test(c, test_without_libarchive);
#endif
  suite_add_tcase(s, c);
  return suite_run(s);
}
