/* SPDX-License-Identifier: MIT
 * check_reader_class.c - the stage `reader` on folders of classes: torchvision's order, links, splits, damage, and
 * every refusal. */
#include <errno.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/kit/image_files.h"
#include "tests/kit/reader_kit.h"
#include "base/util.h"
#include "tests/kit/suite.h"

static char tree_dir[400];

static void begin(void) {
  if_begin();
  snprintf(tree_dir, sizeof tree_dir, "%s", if_path("tree"));
  ck_assert_int_eq(mkdir(tree_dir, 0777), 0);
}

/* tree/NAME, with the folders above it. */
static const char *in_tree(const char *name) {
  static char rel[512];
  snprintf(rel, sizeof rel, "tree/%s", name);
  for (char *p = strchr(rel + 5, '/'); p; p = strchr(p + 1, '/')) {
    *p = 0;
    ck_assert(!mkdir(if_path(rel), 0777) || errno == EEXIST);
    *p = '/';
  }
  return rel;
}

/* One grey dot, which tells the file. */
static void dot(const char *name, int grey) {
  uint16_t v[3] = {(uint16_t)grey, (uint16_t)grey, (uint16_t)grey};
  uint8_t rgb[3] = {(uint8_t)grey, (uint8_t)grey, (uint8_t)grey};
  int png = strstr(name, ".png") || strstr(name, ".PNG");
  if_write(in_tree(name), png ? if_png(v, 1, 1, PNG_COLOR_TYPE_RGB, 8, 0) : if_jpeg(rgb, 1, 1, 1));
}

static spt *tree(const char *more, int64_t n) {
  char params[1024];
  snprintf(params, sizeof params, "{ path = \"%s\", target = \"class\", size = 1, max_bad = 100, %s }", tree_dir, more);
  return open_set(params, n);
}

/* As torchvision.datasets.ImageFolder lists them: classes by name, their folders by path, files by name, bytewise. */
static const struct {
  const char *name;
  int label;
} in_order[] = {
    {"Zebra/B.JPG", 0}, {"Zebra/a.png", 0},  {"Zebra/b.jpeg", 0},     {"_x/1.jpg", 1},        {"a/z.jpg", 2},
    {"a/B/2.jpg", 2},   {"a/b/1.PNG", 2},    {"a/b-c/0.jpg", 2},      {"a/b/c/0.jpg", 2},     {"a-b/10.jpg", 3},
    {"a-b/9.jpg", 3},   {"a.b/only.Png", 4}, {"b/deep/er/x.jpeg", 5}, {"\xC3\xA9t/q.jpg", 6},
};
enum { FILES = sizeof in_order / sizeof *in_order };

START_TEST(test_order_and_labels) {
  for (int k = FILES; k-- > 0;) dot(in_order[k].name, 10 + 15 * k); /* made in another order than read */
  if_put(in_tree("notes.txt"), "x", 1);
  if_put(in_tree("stray.jpg"), "x", 1);
  if_put(in_tree("a/.hidden.jpg"), "x", 1);
  if_put(in_tree("a/.hidden/x.jpg"), "x", 1);
  if_put(in_tree(".git/x.jpg"), "x", 1);
  if_put(in_tree("a/x.xcf"), "x", 1);
  if_put(in_tree("a/jpg"), "x", 1);
  ck_assert_int_eq(mkdir(if_path(in_tree("a/dir.jpg")), 0777), 0);
  ck_assert_int_eq(mkfifo(if_path(in_tree("a/pipe.jpg")), 0600), 0);
  spt *t = tree("workers = 3, classes = 7", FILES);
  make(t, 0, FILES);
  ck_assert(attr(t, "classes") == 7 && spt_length(t) == FILES);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "Zebra\n_x\na\na-b\na.b\nb\n\xC3\xA9t");
  ck_assert_int_eq(spt_spec(t, SPT_OUT, 2, 0)->dtype, SP_U8);
  for (int k = 0; k < FILES; k++) {
    ck_assert_msg(abs(image_of(t, k)[0] - 10 - 15 * k) < 4, "%s: %d", in_order[k].name, image_of(t, k)[0]);
    ck_assert_msg(label_of(t, k) == in_order[k].label, "%s: %d", in_order[k].name, label_of(t, k));
    ck_assert_uint_eq(mask_of(t, k)[0], 255);
  }
  spt_free(t);
}
END_TEST

START_TEST(test_links_are_followed) {
  dot("a/x.png", 1);
  dot("b/y.png", 2);
  if_put("outside.png", "", 0);
  if_write("outside.png", if_png((const uint16_t[]){3, 3, 3}, 1, 1, PNG_COLOR_TYPE_RGB, 8, 0));
  ck_assert_int_eq(symlink(if_path("outside.png"), if_path(in_tree("a/z.png"))), 0);
  ck_assert_int_eq(symlink(if_path("tree/b"), if_path(in_tree("c"))), 0);
  spt *t = tree("", 4);
  make(t, 0, 4);
  static const int want[4][2] = {{1, 0}, {3, 0}, {2, 1}, {2, 2}};
  for (int i = 0; i < 4; i++) ck_assert(image_of(t, i)[0] == want[i][0] && label_of(t, i) == want[i][1]);
  spt_free(t);
}
END_TEST

/* 256 classes fit into bytes, 257 do not. */
START_TEST(test_many_classes) {
  char name[32];
  for (int k = 0; k < 257; k++) {
    snprintf(name, sizeof name, "c%03d/x.png", k);
    dot(name, k % 256);
    if (k < 255) continue;
    spt *t = tree("", k + 1);
    make(t, 0, k + 1);
    ck_assert_int_eq(spt_spec(t, SPT_OUT, 2, 0)->dtype, k == 255 ? SP_U8 : SP_I32);
    for (int i = 0; i <= k; i++) ck_assert(label_of(t, i) == i && image_of(t, i)[0] == i % 256);
    spt_free(t);
  }
}
END_TEST

static void ten_by_five(void) {
  char name[32];
  for (int k = 0; k < 50; k++) {
    snprintf(name, sizeof name, "%c/%02d.png", 'a' + k / 10, k % 10);
    dot(name, k);
  }
}

/* Which of the 50 images a reader has: 1 + `mark` for each. More than these are not looked at. */
static void mark(const char *more, int mark, int side[50]) {
  spt *t = tree(more, 1);
  ok(t);
  for (int i = 0, n = (int)spt_length(t); i < n; i++) {
    make(t, (uint64_t)i, 1);
    int k = image_of(t, 0)[0];
    if (k >= 50) continue;
    ck_assert_int_eq(label_of(t, 0), k / 10);
    ck_assert_int_eq(side[k], 0); /* each once */
    side[k] = 1 + mark;
  }
  spt_free(t);
}

/* Both parts hold each image once, with its label, and each class by its share;
 * what more files bring changes few sides. */
START_TEST(test_split) {
  int side[2][50] = {{0}}, moved = 0;
  ten_by_five();
  for (int more = 0; more < 2; more++) {
    mark("split = \"train\", val_fraction = 0.3", 0, side[more]);
    mark("split = \"val\", val_fraction = 0.3", 1, side[more]);
    for (int c = 0; c < 5; c++) {
      int n = 0;
      for (int k = 10 * c; k < 10 * c + 10; k++) n += side[more][k] == 2;
      ck_assert_msg(more || (n >= 2 && n <= 4), "class %d: %d of 10 for validation", c, n);
    }
    for (int k = 0; k < 50; k++) ck_assert(side[more][k] == 1 || side[more][k] == 2);
    for (int k = 0; k < 50; k++) moved += more && side[0][k] != side[1][k];
    for (int k = 0; k < 3; k++) dot((const char *[]){"a/new.png", "c/new.png", "e/new.png"}[k], 100 + k);
  }
  ck_assert_int_le(moved, 3);
}
END_TEST

/* A class of two samples is in both parts. */
START_TEST(test_split_of_few) {
  dot("a/1.png", 1);
  dot("b/1.png", 2);
  dot("b/2.png", 3);
  for (int k = 0; k < 20; k++) {
    char name[32];
    snprintf(name, sizeof name, "c/%d.png", k);
    dot(name, 10 + k);
  }
  spt *t = tree("split = \"val\", val_fraction = 0.1", 1);
  ok(t);
  const char *counts = spt_attr_text(t, "counts");
  ck_assert_msg(!strncmp(counts + 1, " 1 ", 3) && atoi(counts + 4) >= 1 && atoi(counts + 4) <= 3, "%s", counts);
  spt_free(t);
}
END_TEST

/* Each sample is in one fold, each class in all by its share. */
START_TEST(test_folds) {
  int side[50] = {0}, train[50] = {0};
  ten_by_five();
  for (int f = 1; f <= 5; f++) {
    char more[64];
    snprintf(more, sizeof more, "split = \"val\", folds = 5, fold = %d", f);
    mark(more, f, side);
    for (int c = 0; c < 5; c++) {
      int n = 0;
      for (int k = 10 * c; k < 10 * c + 10; k++) n += side[k] == 1 + f;
      ck_assert_int_eq(n, 2);
    }
  }
  for (int k = 0; k < 50; k++) ck_assert_int_gt(side[k], 0);
  mark("split = \"train\", folds = 5, fold = 3", 3, train);
  for (int k = 0; k < 50; k++) ck_assert_int_eq(train[k] == 4, side[k] != 4);
  static const struct {
    const char *more, *words;
  } bad[] = {
      {"folds = 5", "fold = 0, but the folds are 1 to 5: fold = 1"},
      {"folds = 5, fold = 6", "fold = 6, but the folds are 1 to 5"},
      {"fold = 1", "fold = 1 wants the number of folds, too: folds = 5"},
      {"folds = 1, fold = 1", "folds = 1: one fold would be all samples"},
      {"folds = 5, fold = 1, val_fraction = 0.1", "val_fraction and folds both say what is for validation"},
      {"folds = 100, fold = 60, split = \"val\"", "50 samples leave none for validation in fold 60 of 100"},
  };
  for (size_t i = 0; i < SP_ARRAY(bad); i++) {
    spt *t = tree(bad[i].more, 1);
    ck_assert_msg(spt_failed(t) && strstr(spt_error(t), bad[i].words), "%s: %s", bad[i].more, spt_error(t));
    spt_free(t);
  }
}
END_TEST

/* A limit takes each class by its share, and a smaller one takes some of the same. */
START_TEST(test_limit) {
  int ten[50] = {0}, twenty[50] = {0};
  ten_by_five();
  mark("limit = 10", 0, ten);
  mark("limit = 20", 0, twenty);
  for (int c = 0; c < 5; c++) {
    int n[2] = {0};
    for (int k = 10 * c; k < 10 * c + 10; k++) {
      n[0] += ten[k];
      n[1] += twenty[k];
      ck_assert(!ten[k] || twenty[k]);
    }
    ck_assert(n[0] == 2 && n[1] == 4);
  }
  spt *t = tree("limit = 1000", 1);
  ck_assert_int_eq((int)spt_length(t), 50);
  spt_free(t);
}
END_TEST

START_TEST(test_some_samples) {
  int seen[5] = {0}, last = -1;
  ten_by_five();
  spt *t = tree("samples = 25", 25);
  ck_assert(spt_length(t) == 25 && attr(t, "classes") == 5);
  make(t, 0, 25);
  for (int i = 0; i < 25; i++) {
    int k = image_of(t, i)[0];
    ck_assert_int_gt(k, last);
    ck_assert_int_eq(label_of(t, i), k / 10);
    seen[k / 10]++;
    last = k;
  }
  for (int c = 0; c < 5; c++) ck_assert_int_gt(seen[c], 0);
  spt_free(t);
}
END_TEST

/* The label is that of the picture that is there instead, whoever finds out first. */
START_TEST(test_broken_are_replaced) {
  ten_by_five();
  for (int k = 0; k < 50; k += 6) {
    char name[32];
    snprintf(name, sizeof name, "%c/%02d.png", 'a' + k / 10, k % 10);
    if_put(in_tree(name), "no picture", k % 4 ? 10 : 0);
  }
  spt *a = tree("workers = 1", 50), *b = tree("workers = 6", 1);
  int other = 0;
  make(a, 0, 50);
  for (int i = 49; i >= 0; i--) {
    int k = image_of(a, i)[0];
    ck_assert_int_ne(k % 6, 0);
    if (i % 6) ck_assert_int_eq(k, i);
    ck_assert_int_eq(label_of(a, i), k / 10);
    other += label_of(a, i) != i / 10;
    make(b, (uint64_t)i, 1);
    ck_assert(image_of(b, 0)[0] == k && label_of(b, 0) == k / 10);
  }
  ck_assert_int_gt(other, 0);
  spt_free(a);
  spt_free(b);
}
END_TEST

/* In one line. */
START_TEST(test_left_out) {
  static const char *const files[] = {"notes.txt", "stray.jpg",    "a/.hidden.txt", ".git/x",
                                      "a/x.xcf",   "b/deep/y.XCF", "z.md"};
  dot("a/x.png", 1);
  dot("b/deep/x.png", 1);
  for (int k = 0; k < 2; k++) {
    int keep = log_begin(if_path("log"));
    spt *t = tree("", 1);
    const char *log = log_end(keep, if_path("log"));
    ok(t);
    spt_free(t);
    if (!k) ck_assert_msg(!strstr(log, "left out"), "%s", log);
    for (size_t i = 0; !k && i < SP_ARRAY(files); i++) if_put(in_tree(files[i]), "x", 1);
    if (!k) continue;
    const char *line =
        strstr(log, "tree: left out: 1 image outside of the classes' folders, 2 files of other endings, "
                    "such as notes.txt, 2 files of Photoshop or GIMP, such as a/x.xcf, to be converted: "
                    "magick FILE FILE.png, of ImageMagick, 2 hidden or system files, such as .git\n");
    ck_assert_msg(line && !strstr(line + 12, "left out"), "%s", log);
  }
}
END_TEST

/* ---- splits of its own ---- */
static void two_splits(void) {
  static const char *const names[] = {"train/b/x.png", "train/a/y.png", "train/a/z.png",   "train/d/w.png",
                                      "val/a/x.png",   "val/c/q.png",   "val/b/deep/x.png"};
  for (int k = 0; k < 7; k++) dot(names[k], 10 * k);
  dot("test/a/x.png", 200);
  dot("stray.png", 201);
  dot("train/stray.png", 202);
}

/* Grey values and labels of all samples, in order. What is left out of both splits is told once, by the first. */
static void holds(const char *more, int n, const int want[][2]) {
  static int told;
  int keep = log_begin(if_path("log"));
  spt *t = tree(more, n);
  const char *log = log_end(keep, if_path("log"));
  ck_assert_str_eq(spt_attr_text(t, "left_out"),
                   "1 folder, 2 images outside of the classes' folders, such as stray.png");
  bool now = strstr(log, "tree: left out: 1 folder, 2 images outside of") != NULL, first = told++ == 0;
  ck_assert_msg(now == first, "%s", log);
  make(t, 0, n);
  ck_assert_int_eq(spt_length(t), n);
  ck_assert(attr(t, "classes") == 4);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "a\nb\nc\nd");
  for (int i = 0; i < n; i++)
    ck_assert_msg(image_of(t, i)[0] == want[i][0] && label_of(t, i) == want[i][1], "%s: sample %d is %d, label %d",
                  more, i, image_of(t, i)[0], label_of(t, i));
  spt_free(t);
}

START_TEST(test_own_splits) {
  static const int want[7][2] = {{10, 0}, {20, 0}, {0, 1}, {30, 3}, {40, 0}, {60, 1}, {50, 2}};
  two_splits();
  holds("split = \"train\"", 4, want);
  holds("split = \"val\"", 3, want + 4);
  holds("", 7, want);
  holds("classes = 4, samples = 4", 7, want);
  spt *t = tree("samples = 2", 4); /* two of each */
  make(t, 0, 4);
  ck_assert_int_eq(spt_length(t), 4);
  ck_assert(image_of(t, 1)[0] < 40 && image_of(t, 2)[0] >= 40);
  spt_free(t);
}
END_TEST

/* Names of classes: what `tree` reads with these parameters. */
static void names_classes(const char *more, const char *classes, const char *splits) {
  spt *t = tree(more, 1);
  ok(t);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), classes);
  if (splits) ck_assert_str_eq(spt_attr_text(t, "splits"), splits);
  spt_free(t);
}

/* Takes away what a case has made. */
static void clear(void) {
  char line[500];
  snprintf(line, sizeof line, "rm -rf '%s'/*", tree_dir);
  ck_assert_int_eq(system(line), 0);
}

/* Folders are parts by their names in any spelling, however deep they lie, and parts are no classes. */
START_TEST(test_parts_by_name) {
  static const struct {
    const char *files, *more, *splits, *note;
  } cases[] = {
      {"train/a/1.png train/b/1.png valid/a/2.png test/b/3.png", "", "train 2 val 1", ""},
      {"Training/a/1.png Training/b/1.png VALIDATION/a/2.png", "", "train 2 val 1", ""},
      {"train_images/a/1.png train_images/b/1.png dev-images/a/2.png", "", "train 2 val 1", ""},
      {"train2017/a/1.png train2017/b/1.png val2017/a/2.png", "", "train 2 val 1", ""},
      {"set/inner/train/a/1.png set/inner/train/b/1.png set/inner/val/a/2.png", "", "train 2 val 1",
       "the data lies in set/inner/"},
      {"set/a/1.png set/b/1.png set/b/2.png __MACOSX/a/1.png", "", "train 1 val 2", "the data lies in set/"},
      {"train/a/1.png train/b/1.png testing/a/2.png", "", "train 2 val 1",
       "there is no val/, so testing/ validates; `val_fraction = 0.1` takes a part of train/ "
       "instead"},
      {"train/a/1.png train/b/1.png test/a/2.png", "val_fraction = 0.5", "train 1 val 1",
       "test/ is left out: it is not trained on, and something else validates"},
      {"train/a/1.png train/b/1.png test/9.png", "val_fraction = 0.5", "train 1 val 1", ""},
      {"train/a/1.png train/b/1.png", "val_fraction = 0.5", "train 1 val 1", ""},
      {"train/a/deep/1.png train/b/deep/1.png val/a/2.png", "", "train 2 val 1", ""},
      {"a/1.png a/2.png train/1.png b/1.png", "folders = \"classes\", val_fraction = 0.5", NULL, ""},
      {"train/a/1.png train/b/1.png val/a/2.png photos/9.png", "folders = \"parts\"", "train 2 val 1", ""},
      {"a/1.png b/1.png test/9.png", "folders = \"parts\", val_fraction = 0.5", "train 1 val 1", ""},
      {"a/train/1.png a/test/2.png b/train/1.png", "folders = \"classes\"", NULL, ""},
  };
  for (size_t i = 0; i < SP_ARRAY(cases); i++) {
    char files[200];
    snprintf(files, sizeof files, "%s", cases[i].files);
    for (char *p = files, *name; (name = strsep(&p, " "));) dot(name, 1);
    spt *t = tree(cases[i].more, 1);
    ck_assert_msg(!spt_failed(t), "%s: %s", cases[i].files, spt_error(t));
    ck_assert_str_eq(spt_attr_text(t, "notes"), cases[i].note);
    spt_free(t);
    names_classes(cases[i].more, cases[i].splits || strchr(cases[i].more, ',') == NULL ? "a\nb" : "a\nb\ntrain",
                  cases[i].splits);
    clear();
  }
}
END_TEST

/* Where there are two readings, both are named, and the parameter that chooses. */
START_TEST(test_parts_refused) {
  static const struct {
    const char *files, *more, *words;
  } cases[] = {
      {"train/a/1.png cat/1.png", "",
       "tree holds train/, a part by its name, and cat/, a class by its name: is train a class, "},
      {"train/1.png cat/1.png", "",
       "class, too, folders = \"classes\", or a part, so that train/ is left out, folders = \"parts\"?"},
      {"valid/1.png invalid/1.png", "", "tree holds valid/, a part by its name, and invalid/, a class by its name"},
      {"train/1.png val/1.png", "",
       "tree/train holds pictures, but no folder for each class: a part by its name wants one"},
      {"train/1.png test/1.png", "", "if train is a class, give folders = \"classes\""},
      {"val/a/1.png test/a/1.png", "", "tree holds val/, which is not to be trained on by its name, and no train/"},
      {"test/a/1.png test/b/1.png", "",
       "/tree holds test/, which is not to be trained on by its name, and no train/; name"},
      {"train/a/1.png training/a/1.png val/a/1.png", "",
       "holds train/ and training/, and both would be the part train"},
      {"a/train/1.png a/test/1.png b/train/1.png", "",
       "/tree/a holds train/ and test/: parts within a class are not told "},
      {"imgs/1.png labels/1.png", "",
       "holds imgs/ and labels/, which are images and masks by their names, for target = "},
      {"img/1.png gt/1.png", "", "if these two are classes, give folders = \"classes\""},
      {"images/train/1.png masks/train/1.png", "",
       "tree holds images/ and masks/, which are images and masks by their"},
      {"train/images/1.png train/masks/1.png", "",
       "tree/train holds images/ and masks/, which are images and masks by"},
      {"train_images/1.png train_masks/1.png", "",
       "holds train_images/ and train_masks/, which are images and masks by"},
      {"train/1.png trainannot/1.png", "", "holds train/ and trainannot/, which are images and masks by their names"},
      {"train/a/1.png val/a/1.png", "folds = 2, fold = 1", "folds = 2, but "},
  };
  for (size_t i = 0; i < SP_ARRAY(cases); i++) {
    char files[200];
    snprintf(files, sizeof files, "%s", cases[i].files);
    for (char *p = files, *name; (name = strsep(&p, " "));) dot(name, 1);
    spt *t = tree(cases[i].more, 1);
    ck_assert_msg(spt_failed(t) && strstr(spt_error(t), cases[i].words), "%s: %s", cases[i].files,
                  spt_failed(t) ? spt_error(t) : "was read");
    spt_free(t);
    clear();
  }
}
END_TEST

/* Folders without a picture, and what systems leave, are no classes. */
START_TEST(test_empty_and_junk) {
  dot("a/1.png", 1);
  dot("b/1.png", 1);
  for (size_t i = 0; i < 6; i++)
    if_put(in_tree((const char *[]){"bare/notes", ".ipynb_checkpoints/1.png", "__MACOSX/a/1.png", "a/Thumbs.db",
                                    "b/._1.png", ".DS_Store"}[i]),
           "x", 1);
  spt *t = tree("", 2);
  make(t, 0, 2);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "a\nb");
  ck_assert_str_eq(spt_attr_text(t, "left_out"),
                   "1 folder without a picture that is read (bare/notes), 5 hidden or system files, such as .DS_Store");
  spt_free(t);
}
END_TEST

/* ---- refusals ---- */
static void refuses(spt *t, int status, const char *words) {
  says(t, status, words);
  spt_free(t);
}

static const char layouts[] =
    "holds neither images/ and masks/ (target = \"mask\": images/*.jpg|jpeg|png|webp|tif|tiff|bmp|gif|ppm, masks/*.png "
    "of "
    "the same names) nor subfolders with *.jpg|jpeg|png|webp|tif|tiff|bmp|gif|ppm (target = \"class\": one for "
    "each class)";

static spt *as_masks(const char *dir) {
  char params[512];
  snprintf(params, sizeof params, "{ path = \"%s\", classes = 2 }", dir);
  return open_set(params, 1);
}

START_TEST(test_layouts_refused) {
  refuses(tree("", 1), SP_E_NOTFOUND, layouts);
  refuses(as_masks(tree_dir), SP_E_NOTFOUND, layouts);
  dot("flat.jpg", 1); /* pictures without a class */
  refuses(tree("", 1), SP_E_NOTFOUND, layouts);
  refuses(as_masks(tree_dir), SP_E_NOTFOUND, layouts);
  if_put(in_tree("a/notes.txt"), "x", 1);
  if_put(in_tree("b/deep/notes.txt"), "x", 1);
  refuses(tree("", 1), SP_E_NOTFOUND, layouts);
  refuses(as_masks(tree_dir), SP_E_NOTFOUND, layouts);
  dot("b/x.jpg", 1);
  spt *t = tree("", 1);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "b");
  spt_free(t);
  refuses(
      as_masks(tree_dir), SP_E_INVALID,
      "tree holds a folder for each class, which is for target = \"class\" (train_cls.lua); target = \"mask\" wants "
      "images/ and masks/");
  dot("a/x.jpg", 1);
  refuses(tree("classes = 3", 1), SP_E_INVALID, "tree has 2 subfolders, one for each class");
  t = tree("split = \"val\"", 1); /* two samples: one on each side */
  ck_assert_int_eq((int)spt_length(t), 1);
  spt_free(t);
  t = tree("", 1);
  make(t, 0, 1);
  spt_free(t);
  snprintf(tree_dir, sizeof tree_dir, "%s", if_dir);
  if_pair("a", 4, 4, 0);
  refuses(tree("", 1), SP_E_INVALID,
          "holds images/ and masks/, which are images and masks by their names, for target = \"mask\" (train_seg.lua); "
          "target = \"class\" wants");
}
END_TEST

START_TEST(test_splits_refused) {
  two_splits();
  refuses(tree("split = \"val\", val_fraction = 0.1", 1), SP_E_INVALID, "val_fraction = 0.1, but ");
  refuses(tree("split = \"val\", val_fraction = 0.1", 1), SP_E_INVALID,
          "tree has train/ and val/, which say what is for validation; leave val_fraction out");
  refuses(tree("classes = 3", 1), SP_E_INVALID, "tree has 4 subfolders, one for each class");
  refuses(as_masks(tree_dir), SP_E_INVALID, "tree holds a folder for each class, which is for target = \"class\"");
  unlink(if_path("tree/val/a/x.png"));
  unlink(if_path("tree/val/c/q.png"));
  unlink(if_path("tree/val/b/deep/x.png"));
  refuses(tree("split = \"train\"", 1), SP_E_DATA, "tree/train holds a folder for each class, ");
  refuses(tree("split = \"val\"", 1), SP_E_DATA,
          "tree/val does not; give both the same layout, or other names if they are no splits");
}
END_TEST

START_TEST(test_odd_folders_refused) {
  char deep[400] = "a/";
  dot("a/x.jpg", 1);
  ck_assert_int_eq(symlink(tree_dir, if_path(in_tree("a/up"))), 0);
  refuses(tree("", 1), SP_E_DATA, "tree/a/up is a link to a folder that holds it");
  unlink(if_path(in_tree("a/up")));
  ck_assert_int_eq(symlink("/nowhere/at/all.jpg", if_path(in_tree("a/gone.jpg"))), 0);
  refuses(tree("", 1), SP_E_IO, "tree/a/gone.jpg: No such file");
  unlink(if_path(in_tree("a/gone.jpg")));
  dot("two\nlines/x.jpg", 1);
  refuses(tree("", 1), SP_E_DATA, "has a line break; rename it");
  unlink(if_path(in_tree("two\nlines/x.jpg")));
  rmdir(if_path("tree/two\nlines"));
  for (int k = 0; k < 65; k++) strcat(deep, "d/");
  in_tree(deep);
  refuses(tree("", 1), SP_E_DATA, "lies more than 64 folders deep");
}
END_TEST

START_TEST(test_file_goes_away) {
  dot("a/x.png", 1);
  spt *t = tree("", 1);
  ok(t);
  unlink(if_path(in_tree("a/x.png")));
  spt_forward(t, 0);
  refuses(t, SP_E_IO, "tree/a/x.png: No such file or directory");
}
END_TEST

START_TEST(test_parameters_refused) {
  static const struct {
    const char *params;
    int status;
    const char *words;
  } bad[] = {
      {"{ path = \"/nowhere/at/all\", target = \"class\" }", SP_E_NOTFOUND,
       "/nowhere/at/all: No such file or directory"},
      {"{ path = \"/dev/null\", target = \"class\" }", SP_E_NOTFOUND,
       "/dev/null: neither a folder nor a .csv, .tsv or .txt file"},
      {"{ target = \"class\" }", SP_E_INVALID, "with a subfolder for each class"},
      {"{ path = \"shapes\", target = \"class\", classes = 6 }", SP_E_INVALID,
       "classes = 6, but the set shapes has 5 with target = \"class\""},
      {"{ path = \"random\", classes = 256 }", SP_E_RANGE, "at most 255, or target = \"class\""},
      {"{ path = \"random\", target = \"label\" }", SP_E_RANGE, "\"label\" is none of: mask, class"},
  };
  for (size_t i = 0; i < SP_ARRAY(bad); i++) refuses(spt_new("reader", bad[i].params, 1), bad[i].status, bad[i].words);
}
END_TEST

int main(void) {
  Suite *s = suite_create("reader_class");
  TCase *c = tcase_create("reader_class");
  tcase_set_timeout(c, 600);
  tcase_add_checked_fixture(c, begin, if_end);
  tcase_add_test(c, test_order_and_labels);
  tcase_add_test(c, test_links_are_followed);
  tcase_add_test(c, test_many_classes);
  tcase_add_test(c, test_split);
  tcase_add_test(c, test_split_of_few);
  tcase_add_test(c, test_folds);
  tcase_add_test(c, test_limit);
  tcase_add_test(c, test_some_samples);
  tcase_add_test(c, test_broken_are_replaced);
  tcase_add_test(c, test_left_out);
  tcase_add_test(c, test_own_splits);
  tcase_add_test(c, test_parts_by_name);
  tcase_add_test(c, test_parts_refused);
  tcase_add_test(c, test_empty_and_junk);
  tcase_add_test(c, test_layouts_refused);
  tcase_add_test(c, test_splits_refused);
  tcase_add_test(c, test_odd_folders_refused);
  tcase_add_test(c, test_file_goes_away);
  tcase_add_test(c, test_parameters_refused);
  suite_add_tcase(s, c);
  return suite_run(s);
}
