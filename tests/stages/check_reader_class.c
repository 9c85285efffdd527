/* SPDX-License-Identifier: MIT
 * check_reader_class.c - the stage `reader` with one class an image: labels of the built-in sets, folders of classes in
 * torchvision's order, damage, outputs that nobody reads, and every refusal. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/kit/harness.h"
#include "tests/kit/image_files.h"
#include "base/util.h"

static spt *open_set(const char *params, int64_t n) {
  spt *t = spt_new("reader", params, 4);
  ck_assert_ptr_nonnull(t);
  spt_set_batch(t, n);
  if (!spt_failed(t)) spt_plan(t, 0);
  return t;
}

static void ok(spt *t) { ck_assert_msg(!spt_failed(t), "%s", spt_error(t)); }

static void says(spt *t, int status, const char *words) {
  int good = spt_failed(t) == status && strstr(spt_error(t), words);
  ck_assert_msg(good, "status %d, \"%s\" in: %s", spt_failed(t), words, spt_error(t));
  ck_assert_ptr_null(strchr(spt_error(t), '\n'));
}

static void make(spt *t, uint64_t first, int64_t n) {
  ok(t);
  for (int64_t i = 0; i < n; i++) spt_set_id(t, i, SP_ID(2, first + (uint64_t)i));
  spt_forward(t, 0);
  ok(t);
}

static const uint8_t *image_of(spt *t, int64_t i) {
  const sp_spec *s = spt_spec(t, SPT_OUT, 0, 0);
  return (const uint8_t *)spt_raw(t, SPT_OUT, 0, 0) + i * 3 * s->shape[2] * s->shape[3];
}

static const uint8_t *mask_of(spt *t, int64_t i) {
  const sp_spec *s = spt_spec(t, SPT_OUT, 1, 0);
  return (const uint8_t *)spt_raw(t, SPT_OUT, 1, 0) + i * s->shape[1] * s->shape[2];
}

static int label_of(spt *t, int64_t i) {
  const void *v = spt_raw(t, SPT_OUT, 2, 0);
  return spt_spec(t, SPT_OUT, 2, 0)->dtype == SP_U8 ? ((const uint8_t *)v)[i] : ((const int32_t *)v)[i];
}

static double attr(spt *t, const char *name) {
  double v = -1;
  ck_assert(spt_attr(t, name, &v));
  return v;
}

static uint64_t hash_of(spt *t) {
  uint64_t h = SP_FNV64;
  for (int port = 0; port < 3; port++)
    h = sp_fnv64(h, spt_raw(t, SPT_OUT, port, 0), (size_t)sp_spec_bytes(spt_spec(t, SPT_OUT, port, 0)));
  return h;
}

/* ---- the built-in sets ---- */
static const struct {
  const char *params;
  uint64_t hash;
} frozen[] = {
    {"{ path = \"shapes\", target = \"class\", size = 64 }", UINT64_C(0x1559DC95C5E00857)},
    {"{ path = \"shapes\", target = \"class\", size = {33, 121}, data_seed = 7 }", UINT64_C(0x26F4503659122BD5)},
    {"{ path = \"random\", target = \"class\", size = 16 }", UINT64_C(0x1E0243F9CB289E6A)},
    {"{ path = \"random\", target = \"class\", size = {5, 7}, classes = 1000 }", UINT64_C(0xD6827C7E34D6419D)},
};

START_TEST(test_same_bits_as_ever) {
  spt *t = open_set(frozen[_i].params, 4);
  make(t, 5, 4);
  uint64_t h = hash_of(t);
  ck_assert_msg(h == frozen[_i].hash, "%s: 0x%016llX", frozen[_i].params, (unsigned long long)h);
  spt_free(t);
}
END_TEST

static const char *const sets[] = {"shapes", "random"};

START_TEST(test_workers_and_batch_do_not_matter) {
  char params[128];
  spt *t[3];
  static const int workers[] = {1, 7, 2};
  for (int k = 0; k < 3; k++) {
    snprintf(params, sizeof params, "{ path = \"%s\", target = \"class\", size = 40, workers = %d }", sets[_i],
             workers[k]);
    t[k] = open_set(params, k < 2 ? 8 : 1);
    make(t[k], k < 2 ? 100 : 103, k < 2 ? 8 : 1);
  }
  ck_assert_uint_eq(hash_of(t[0]), hash_of(t[1]));
  ck_assert_mem_eq(image_of(t[2], 0), image_of(t[0], 3), 40 * 40 * 3);
  ck_assert_mem_eq(mask_of(t[2], 0), mask_of(t[0], 3), 40 * 40);
  ck_assert_int_eq(label_of(t[2], 0), label_of(t[0], 3));
  for (int k = 0; k < 3; k++) spt_free(t[k]);
}
END_TEST

START_TEST(test_random_labels) {
  static const int classes[] = {2, 256, 257, 5000}, dtypes[] = {SP_U8, SP_U8, SP_I32, SP_I32};
  char params[128];
  spt *masks = open_set("{ path = \"random\", size = 4, samples = 20000 }", 20000);
  make(masks, 0, 20000);
  for (int k = 0; k < 4; k++) {
    snprintf(params, sizeof params,
             "{ path = \"random\", target = \"class\", size = 4, samples = 20000, classes = %d }", classes[k]);
    spt *t = open_set(params, 20000);
    int *seen = calloc((size_t)classes[k], sizeof *seen), some = 0;
    double mean = 0;
    make(t, 0, 20000);
    ck_assert_int_eq(spt_spec(t, SPT_OUT, 2, 0)->dtype, dtypes[k]);
    ck_assert_int_eq(spt_spec(t, SPT_OUT, 2, 0)->ndim, 1);
    ck_assert(attr(t, "classes") == classes[k]);
    ck_assert_str_eq(spt_attr_text(t, "class_names"), "");
    for (int i = 0; i < 20000; i++) {
      int label = label_of(t, i);
      ck_assert(label >= 0 && label < classes[k]);
      some += !seen[label]++;
      mean += (label + 0.5) / classes[k] / 20000;
    }
    ck_assert_double_eq_tol(mean, 0.5, 0.01);
    ck_assert_int_gt(some, classes[k] * 95 / 100);
    ck_assert_mem_eq(image_of(t, 0), image_of(masks, 0), 20000 * 48);
    free(seen);
    spt_free(t);
  }
  spt_free(masks);
}
END_TEST

/* The mask is 1 + label on the shape and 0 elsewhere. The label tells nothing of how much of the picture that is. */
START_TEST(test_shapes) {
  enum { MANY = 1500, SIDE = 48, PIXELS = SIDE * SIDE };
  spt *t = open_set("{ path = \"shapes\", target = \"class\", size = 48 }", MANY);
  double n[5] = {0}, area[5] = {0}, all = 0;
  make(t, 0, MANY);
  ck_assert(attr(t, "classes") == 5 && spt_length(t) == 2048);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "cross\ndisc\nring\nsquare\ntriangle");
  for (int i = 0; i < MANY; i++) {
    const uint8_t *m = mask_of(t, i);
    int label = label_of(t, i), on = 0;
    ck_assert(label >= 0 && label < 5);
    for (int k = 0; k < PIXELS; k++) {
      if (m[k] != 0 && m[k] != 1 + label) ck_abort_msg("pixel %d of class %d has %d", k, label, m[k]);
      on += m[k] > 0;
    }
    for (int k = 0; k < SIDE; k++) /* whole: no shape reaches over an edge */
      if (m[k] && m[PIXELS - 1 - k] && m[k * SIDE] && m[k * SIDE + SIDE - 1]) ck_abort_msg("at all edges, %d", k);
    ck_assert_msg(on > 0.06 * PIXELS && on < 0.24 * PIXELS, "sample %d of class %d has %d pixels", i, label, on);
    n[label]++;
    area[label] += on;
    all += (double)on / MANY;
  }
  for (int c = 0; c < 5; c++) {
    ck_assert_msg(n[c] > 0.16 * MANY && n[c] < 0.24 * MANY, "%g of class %d", n[c], c);
    ck_assert_double_eq_tol(area[c] / n[c] / all, 1, 0.05);
  }
  spt_free(t);
}
END_TEST

static const char *const sizes[] = {"{1, 1}", "{1, 300}", "{300, 1}", "{7, 3}", "{2, 1000}", "{1, 16384}"};

START_TEST(test_any_size) {
  char params[96];
  snprintf(params, sizeof params, "{ path = \"shapes\", target = \"class\", size = %s }", sizes[_i]);
  spt *t = open_set(params, 3);
  make(t, 0, 3);
  const sp_spec *s = spt_spec(t, SPT_OUT, 1, 0);
  for (int64_t k = 0; k < s->shape[1] * s->shape[2]; k++)
    ck_assert(mask_of(t, 0)[k] == 0 || mask_of(t, 0)[k] == 1 + label_of(t, 0));
  spt_free(t);
}
END_TEST

/* ---- folders of classes ---- */
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
  if_put(in_tree("a/x.gif"), "x", 1);
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

/* Both parts hold each image once, with its label; what more files bring changes few sides. */
START_TEST(test_split) {
  int side[50] = {0}, moved = 0;
  ten_by_five();
  for (int more = 0; more < 2; more++) {
    for (int part = 0; part < 2; part++) {
      spt *t = tree(part ? "split = \"val\", val_fraction = 0.3" : "split = \"train\", val_fraction = 0.3", 1);
      int n = (int)spt_length(t);
      if (!more) ck_assert_int_eq(n, part ? 15 : 35);
      for (int i = 0; i < n; i++) {
        make(t, (uint64_t)i, 1);
        int k = image_of(t, 0)[0];
        if (k >= 50) continue;
        ck_assert_int_eq(label_of(t, 0), k / 10);
        if (!more) side[k] += 1 + part;
        else moved += side[k] != 1 + part;
      }
      spt_free(t);
    }
    for (int k = 0; k < 50 && !more; k++) ck_assert(side[k] == 1 || side[k] == 2);
    for (int k = 0; k < 3; k++) dot((const char *[]){"a/new.png", "c/new.png", "e/new.png"}[k], 100 + k);
  }
  ck_assert_int_le(moved, 3);
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

/* ---- outputs that nobody reads, and that are not there ---- */
static const char *const both_ways[] = {
    "{ path = \"random\", size = 16, samples = 9 }",
    "{ path = \"random\", target = \"class\", size = 16, samples = 9 }",
    "{ path = \"shapes\", size = 16, samples = 9 }",
    "{ path = \"shapes\", target = \"class\", size = 16, samples = 9 }",
};

START_TEST(test_not_wanted) {
  spt *all = open_set(both_ways[_i], 6), *some = open_set(both_ways[_i], 6);
  make(all, 1, 6);
  for (int hide = 1; hide < 4; hide++) {
    spt_want(some, SPT_OUT, 1, 0, !(hide & 1));
    spt_want(some, SPT_OUT, 2, 0, !(hide & 2));
    make(some, 1, 6);
    ck_assert_mem_eq(image_of(some, 0), image_of(all, 0), 6 * 3 * 256);
    if (!(hide & 1)) ck_assert_mem_eq(mask_of(some, 0), mask_of(all, 0), 6 * 256);
    if (!(hide & 2)) ck_assert_mem_eq(spt_raw(some, SPT_OUT, 2, 0), spt_raw(all, SPT_OUT, 2, 0), 6);
  }
  spt_free(all);
  spt_free(some);
}
END_TEST

/* A mask that is not wanted is not even opened. */
START_TEST(test_mask_not_wanted) {
  char params[400];
  if_pair("a", 8, 8, 0);
  if_put("masks/a.png", "broken", 6);
  snprintf(params, sizeof params, "{ path = \"%s\", size = 8, classes = 5 }", if_dir);
  spt *t = open_set(params, 1);
  spt_want(t, SPT_OUT, 1, 0, 0);
  make(t, 0, 1);
  uint8_t *rgb = if_picture(8, 8, 'a');
  ck_assert_mem_eq(image_of(t, 0), rgb, 192);
  free(rgb);
  spt_want(t, SPT_OUT, 1, 0, 1);
  spt_forward(t, 0);
  says(t, SP_E_DATA, "are broken too");
  spt_free(t);
}
END_TEST

/* It says "no label", and a warning tells, once. */
START_TEST(test_not_there) {
  int keep = dup(2), log = open(if_path("log"), O_WRONLY | O_CREAT, 0600);
  ck_assert(keep >= 0 && log >= 0);
  fflush(stderr);
  dup2(log, 2);
  spt *t = open_set("{ path = \"shapes\", size = 8 }", 3);
  spt_plan(t, 0);
  make(t, 0, 3);
  for (int i = 0; i < 3; i++) ck_assert_int_eq(label_of(t, i), 255);
  spt_free(t);
  t = open_set("{ path = \"random\", target = \"class\", size = 8 }", 3);
  make(t, 0, 3);
  for (int k = 0; k < 192; k++) ck_assert_uint_eq(mask_of(t, 0)[k], 255);
  spt_free(t);
  fflush(stderr);
  dup2(keep, 2);
  close(keep);
  close(log);
  if_bytes b = if_read("log");
  b.p[b.n] = 0;
  const char *words = "output 'label' is read, but shapes with target = \"mask\" has none: all of it is \"no label\" "
                      "(255); read 'mask' "
                      "instead, or give target = \"class\"";
  const char *first = strstr((char *)b.p, words);
  ck_assert_msg(first != NULL, "%s", (char *)b.p);
  ck_assert_ptr_null(strstr(first + 1, words));
  ck_assert_ptr_nonnull(strstr(first, "output 'mask' is read, but random with target = \"class\" has none"));
  free(b.p);
}
END_TEST

/* A list of files has no labels by nature: a byte or, where 255 may be a class, -1. */
START_TEST(test_files_have_no_label) {
  char params[600];
  static const struct {
    const char *more;
    int dtype, none;
  } cases[] = {{"classes = 5", SP_U8, 255},
               {"target = \"class\"", SP_U8, 255},
               {"target = \"class\", classes = 255", SP_U8, 255},
               {"target = \"class\", classes = 256", SP_I32, -1}};
  if_pair("a", 4, 4, 0);
  for (size_t k = 0; k < SP_ARRAY(cases); k++) {
    snprintf(params, sizeof params, "{ files = { {\"%s\"} }, size = 4, %s }", if_path("images/a.png"), cases[k].more);
    spt *t = open_set(params, 1);
    make(t, 0, 1);
    ck_assert_int_eq(spt_spec(t, SPT_OUT, 2, 0)->dtype, cases[k].dtype);
    ck_assert_int_eq(label_of(t, 0), cases[k].none);
    ck_assert_uint_eq(mask_of(t, 0)[7], 255);
    spt_free(t);
  }
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
  t = open_set("{ path = \"shapes\", size = 4 }", 1);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "ground\ndisc\nsquare\ntriangle\nring\ncross");
  spt_free(t);
}
END_TEST

/* ---- refusals ---- */
static void refuses(spt *t, int status, const char *words) {
  says(t, status, words);
  spt_free(t);
}

static const char layouts[] =
    "holds neither images/ and masks/ (target = \"mask\": images/*.jpg|jpeg|png, masks/*.png of "
    "the same names) nor subfolders with .jpg, .jpeg or .png files (target = \"class\": one for "
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
  refuses(tree("", 1), SP_E_DATA, "tree/a holds no .jpg, .jpeg or .png file; every subfolder is a class");
  refuses(as_masks(tree_dir), SP_E_INVALID,
          "tree holds a folder for each class, which is for target = \"class\"; target = \"mask\" wants images/ and "
          "masks/");
  dot("a/x.jpg", 1);
  refuses(tree("classes = 3", 1), SP_E_INVALID, "tree has 2 subfolders, one for each class");
  refuses(tree("split = \"val\"", 1), SP_E_RANGE, "leave none for validation");
  spt *t = tree("", 1);
  make(t, 0, 1);
  spt_free(t);
  snprintf(tree_dir, sizeof tree_dir, "%s", if_dir);
  if_pair("a", 4, 4, 0);
  refuses(tree("", 1), SP_E_INVALID,
          "holds images/ and masks/, which are for target = \"mask\"; target = \"class\" wants");
}
END_TEST

START_TEST(test_odd_folders_refused) {
  char deep[400] = "a/";
  dot("a/x.jpg", 1);
  ck_assert_int_eq(symlink(tree_dir, if_path(in_tree("a/up"))), 0);
  refuses(tree("", 1), SP_E_DATA, "tree/a/up/a is a link to one that it lies in");
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
      {"{ path = \"/dev/null\", target = \"class\" }", SP_E_NOTFOUND, "/dev/null: not a folder"},
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
  tcase_add_loop_test(c, test_same_bits_as_ever, 0, (int)SP_ARRAY(frozen));
  tcase_add_loop_test(c, test_workers_and_batch_do_not_matter, 0, (int)SP_ARRAY(sets));
  tcase_add_test(c, test_random_labels);
  tcase_add_test(c, test_shapes);
  tcase_add_loop_test(c, test_any_size, 0, (int)SP_ARRAY(sizes));
  tcase_add_test(c, test_order_and_labels);
  tcase_add_test(c, test_links_are_followed);
  tcase_add_test(c, test_many_classes);
  tcase_add_test(c, test_split);
  tcase_add_test(c, test_some_samples);
  tcase_add_test(c, test_broken_are_replaced);
  tcase_add_loop_test(c, test_not_wanted, 0, (int)SP_ARRAY(both_ways));
  tcase_add_test(c, test_mask_not_wanted);
  tcase_add_test(c, test_not_there);
  tcase_add_test(c, test_files_have_no_label);
  tcase_add_test(c, test_names_of_masks);
  tcase_add_test(c, test_layouts_refused);
  tcase_add_test(c, test_odd_folders_refused);
  tcase_add_test(c, test_file_goes_away);
  tcase_add_test(c, test_parameters_refused);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
