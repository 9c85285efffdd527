/* SPDX-License-Identifier: MIT
 * fuzz_sets.c - damaged sets of several files: arrays, tar files, maps, masks, classes.txt, folders of odd names: read,
 * or refused in one line. PROGRAM ROUNDS SEED SET takes one kind of set alone: see `sets`. */
#include "fuzz_files.h"
#include "fuzz_reader.h"
#include "plugins/kits/image/image.h"

enum { MOST_FILES = 24, MOST_BYTES = 1 << 14, N = 4 /* samples */, W = 3, H = 2 };

static fz f;

static const char *one_of(const char *const *words, size_t n) { return words[fz_below(&f, (uint32_t)n)]; }
#define ONE_OF(words) one_of(words, sizeof(words) / sizeof *(words))

/* ---- files of this round ---- */
static char files[MOST_FILES][128];
static int n_files;
static uint8_t bytes[MOST_BYTES];

/* With the folders that it is in. */
static void put(const char *name, const void *p, size_t n) {
  char path[128];
  FZ_CHECK(n_files < MOST_FILES, "too many files");
  snprintf(path, sizeof path, "%s", name);
  for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
    *slash = 0;
    FZ_CHECK(!mkdir(path, 0777) || errno == EEXIST, "%s cannot be made", path);
    *slash = '/';
  }
  fzr_put(name, p, n);
  snprintf(files[n_files++], sizeof files[0], "%s", name);
}

/* bytes[n], damaged one time of two. */
static void put_damaged(const char *name, size_t n) {
  FZ_CHECK(n <= sizeof bytes, "a file of %zu bytes", n);
  if (fz_below(&f, 2)) n = fz_mutate(&f, bytes, n);
  put(name, bytes, n);
}

static void put_damaged_text(const char *name, const char *text) {
  memcpy(bytes, text, strlen(text));
  put_damaged(name, strlen(text));
}

static void remove_all(void) {
  while (n_files > 0) {
    char *path = files[--n_files];
    FZ_CHECK(!unlink(path), "%s is not there", path);
    for (char *slash; (slash = strrchr(path, '/'));) {
      *slash = 0;
      if (rmdir(path) && errno != ENOENT) break;
    }
  }
}

/* ---- arrays ---- */
typedef struct array {
  const char *descr, *shape;
  size_t n;
  int item, way; /* 0: any bytes, 1: 0 and 1, 2: one 1 a row, 3: small numbers */
} array;

static size_t lay_out(const array *a) {
  size_t n = fz_npy(bytes, a->descr, a->shape, a->n * (size_t)a->item);
  uint8_t *p = bytes + FZ_NPY_HEAD;
  for (size_t i = 0; a->way && i < a->n; i++, p += a->item) {
    unsigned v = a->way == 3 ? (unsigned)i % 5 : a->way == 2 ? i % 3 == (i / 3) % 3 : (i * i >> 1) % 3 == 0;
    memset(p, 0, (size_t)a->item);
    if (a->descr[1] != 'f') p[*a->descr == '>' ? a->item - 1 : 0] = (uint8_t)v;
    else if (a->item == 4) memcpy(p, &(const float){(float)v / (a->way == 3 ? 2 : 1)}, 4);
    else memcpy(p, &(const double){v}, 8);
  }
  return n;
}

static const char *const targets[] = {"class", "labels", "numbers"};
static const char *const label_options[] = {"",
                                            "cells = \"name\"",
                                            "cells = \"vector\"",
                                            "missing = \"skip\"",
                                            "classes = 3",
                                            "mean = {1, 2, 3}, std = {2, 2, 2}"};

/* Of 2 x 5 pixels; returns what the reader must be told of them. */
static const char *put_images(void) {
  static const array images[] = {{"|u1", "(4, 2, 5, 3)", 120, 1, 0},
                                 {"|u1", "(4, 2, 5)", 40, 1, 0},
                                 {"|u1", "(4, 3, 2, 5)", 120, 1, 0},
                                 {"<f4", "(4, 2, 5)", 40, 4, 0}};
  uint32_t k = fz_below(&f, 12) ? fz_below(&f, 3) : 3;
  size_t n = lay_out(&images[k]);
  if (fz_below(&f, 4)) put("images.npy", bytes, n);
  else put_damaged("images.npy", n);
  return k == 3 ? "dtype = \"float32\"" : "grey = false";
}

static void array_labels(char *params, size_t size) {
  static const array labels[] = {
      {"|u1", "(4,)", 4, 1, 3},      {"<i8", "(4,)", 4, 8, 3},    {">i2", "(4, 1)", 4, 2, 3},
      {"<f4", "(4,)", 4, 4, 3},      {"<f8", "(4,)", 4, 8, 1},    {"<f2", "(4, 3)", 12, 2, 0},
      {"|b1", "(4, 3)", 12, 1, 1},   {"|u1", "(4, 3)", 12, 1, 2}, {"|i1", "(4, 3)", 12, 1, 3},
      {"<f4", "(4, 3)", 12, 4, 3},   {"<f8", "(4, 3)", 12, 8, 2}, {"<f4", "(4, 1, 3)", 12, 4, 1},
      {"<u4", "(4, 1, 1)", 4, 4, 3}, {"<i4", "(4, 3)", 12, 4, 1}, {"<f4", "(4, 3)", 12, 4, 0}};
  const char *of = put_images();
  put_damaged("labels.npy", lay_out(&labels[fz_below(&f, sizeof labels / sizeof *labels)]));
  if (!fz_below(&f, 4)) put_damaged_text("classes.txt", "ant\nbee\ncow\n");
  snprintf(params, size, "path = \".\", target = \"%s\", %s, %s", ONE_OF(targets), of, ONE_OF(label_options));
}

static const char *const map_options[] = {"",
                                          "map_nodata = \"0\"",
                                          "map_nodata = \"none\"",
                                          "map_nodata = \"none\", map_scale = \"1/256\", map_offset = -3",
                                          "map_nodata = \"-999\", map_range = \"-100,80\"",
                                          "map_nodata = \"none\", mean = {1}, std = {2}"};
static const char *const mask_options[] = {"", "mask_values = \"0=a,1=b,2-255=ignore\"",
                                           "mask_values = \"#000000=a,#252525=b,#250000=b\"",
                                           "mask_values = \"0=a,37=b,74=b,111=a,148=b,185=a\"", "classes = 3"};

static void array_masks(char *params, size_t size) {
  static const array masks[] = {{"|u1", "(4, 2, 5)", 40, 1, 0},     {"<i8", "(4, 2, 5)", 40, 8, 3},
                                {"|b1", "(4, 2, 5)", 40, 1, 1},     {"<f4", "(4, 2, 5)", 40, 4, 3},
                                {"|u1", "(4, 2, 5, 3)", 120, 1, 2}, {"<f4", "(4, 3, 2, 5)", 120, 4, 1},
                                {">u2", "(4, 2, 5)", 40, 2, 0},     {"<f2", "(4, 2, 5)", 40, 2, 0}};
  int maps = (int)fz_below(&f, 2);
  const char *of = put_images();
  put_damaged(maps ? "depth.npy" : "masks.npy", lay_out(&masks[fz_below(&f, 8)]));
  if (!fz_below(&f, 2)) put_damaged_text("classes.txt", "a #000000\nb 37 37 37\nc\n");
  snprintf(params, size, "path = \".\", target = \"%s\", %s, %s", maps ? "map" : "mask", of,
           maps ? ONE_OF(map_options) : ONE_OF(mask_options));
}

/* ---- tar files ---- */
enum { BLOCK = 512, SIZE_AT = 124, SUM_AT = 148, TYPE_AT = 156 };

static void sum_up(uint8_t *h) {
  unsigned sum = 0;
  memset(h + SUM_AT, ' ', 8);
  for (int i = 0; i < BLOCK; i++) sum += h[i];
  snprintf((char *)h + SUM_AT, 8, "%06o", sum & 0777777);
}

static size_t add_member(size_t at, const char *name, const void *p, size_t n) {
  uint8_t *h = bytes + at;
  size_t whole = BLOCK + (n + BLOCK - 1) / BLOCK * BLOCK;
  FZ_CHECK(at + whole <= sizeof bytes, "too many members");
  memset(h, 0, whole);
  snprintf((char *)h, 100, "%s", name);
  memcpy(h + 100, "0000644", 7);
  snprintf((char *)h + SIZE_AT, 12, "%011zo", n);
  memcpy(h + 257, "ustar\00000", 8);
  h[TYPE_AT] = '0';
  sum_up(h);
  memcpy(h + BLOCK, p, n);
  return at + whole;
}

static const char pixels[] = "P5\n3 2\n255\n\0\1\2\0\1\2";

/* Headers are put right now and then, so that the damage gets past their sums. */
static void shard_labels(char *params, size_t size) {
  static const char *const classes[] = {"ant",
                                        "1\n",
                                        "ant\nbee\n",
                                        "[]",
                                        "[\"a,b\", \"c\"]",
                                        "1.5 -2e3;7\n",
                                        "[0.25, 3, 1]",
                                        "true",
                                        " b\xC3\xA9"
                                        "e \r\n"};
  static const char *const fields[] = {"{\"label\": 3}",
                                       "{\"label\": \"ant\", \"caption\": \"x\"}",
                                       "{\"labels\": [\"a\", \"b\"], \"x\": null}",
                                       "{\"a\": 1, \"b\": false, \"c\": true}",
                                       "{\"label\": {\"a\": 1, \"b\": 0}}",
                                       "[1.5, -2, 3e4]",
                                       "7",
                                       "\"ant\"",
                                       "{\"cls\": 1, \"class\": 2}",
                                       "{\"x\": 0.5, \"y\": 1e300, \"label\": [[1]]}",
                                       "{\"a\": \"\\u0000\", \"b\": {}}"};
  static const char *const columns[] = {"",
                                        "",
                                        "columns = \"label\"",
                                        "columns = \"label=cls\"",
                                        "columns = \"a,b\"",
                                        "columns = \"x,y\"",
                                        "columns = \"a,b,c\"",
                                        "label_separator = \"|\"",
                                        "cells = \"list\""};
  int json = (int)fz_below(&f, 2), mixed = !fz_below(&f, 4), bare = !fz_below(&f, 6); /* the folders are the classes */
  const char *first = json ? ONE_OF(fields) : ONE_OF(classes);
  size_t at = 0;
  for (int i = 0; i < N; i++) {
    char name[64], text[256];
    const char *label = mixed ? json ? ONE_OF(fields) : ONE_OF(classes) : first;
    size_t n = strlen(label);
    snprintf(name, sizeof name, "%s%d.png", i % 2 ? "x.y/" : bare ? "./ant/" : "", i);
    at = add_member(at, name, pixels, sizeof pixels - 1);
    if (bare) continue;
    snprintf(name, sizeof name, "%s%d.%s", i % 2 ? "x.y/" : "", i, json ? "json" : "cls");
    memcpy(text, label, n);
    if (!fz_below(&f, 3)) n = fz_mutate(&f, (uint8_t *)text, n);
    at = add_member(at, name, text, n);
  }
  memset(bytes + at, 0, 2 * BLOCK);
  at += 2 * BLOCK;
  if (!fz_below(&f, 4)) {
    at = fz_mutate(&f, bytes, at);
    for (size_t k = 0; fz_below(&f, 2) && k + BLOCK <= at; k += BLOCK) sum_up(bytes + k);
  } else if (!fz_below(&f, 4)) {
    uint8_t *h = bytes + fz_below(&f, (uint32_t)(at / BLOCK)) * BLOCK;
    fz_mutate(&f, h, fz_below(&f, 2) ? BLOCK : 160);
    sum_up(h);
  }
  put("0.tar", bytes, at);
  if (!fz_below(&f, 4)) put_damaged_text("classes.txt", "ant\nbee\ncow\n");
  snprintf(params, size, "path = \"%s\", target = \"%s\", %s", fz_below(&f, 2) ? "0.tar" : ".", ONE_OF(targets),
           ONE_OF(columns));
}

/* ---- folders of images, and of masks or maps ---- */
static size_t png16(void) {
  uint16_t px[W * H];
  im_encoder e = {0};
  for (int i = 0; i < W * H; i++) px[i] = (uint16_t)(i * 9973 * (int)fz_below(&f, 2));
  FZ_CHECK(!im_grey16_to_png(&e, px, W, H), "%s", e.why);
  size_t n = e.n;
  memcpy(bytes, e.out, n);
  im_encoder_free(&e);
  return n;
}

static void maps(char *params, size_t size) {
  static const fz_tiff_of tiffs[] = {
      {32, 3, 1, 0, 0}, {16, 1, 1, 0, 16}, {64, 3, 1, 0, 0}, {32, 3, 1, 0, 16}, {8, 2, 1, 0, 0}};
  static const char *const endings[] = {"png", "tif", "npy"};
  static const char large[FZ_TIFF_W * FZ_TIFF_H + 11] = "P5\n9 8\n255\n";
  int kind = (int)fz_below(&f, 3), two = !fz_below(&f, 3);
  const char *image = kind == 1 ? large : pixels;
  size_t image_size = kind == 1 ? sizeof large : sizeof pixels - 1;
  for (int i = 0; i < 2; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s/%d.png", two ? "left" : "images", i);
    put(name, image, image_size);
    snprintf(name, sizeof name, "right/%d.png", i);
    if (two) put(name, image, image_size);
    snprintf(name, sizeof name, "%s/%d.%s", two ? "disparity" : "depth", i, endings[kind]);
    put_damaged(name, kind == 0   ? png16()
                      : kind == 1 ? fz_tiff(bytes, &tiffs[fz_below(&f, 5)])
                                  : fz_npy(bytes, fz_below(&f, 2) ? "<f4" : ">u2", "(2, 3)", 24));
  }
  snprintf(params, size, "path = \".\", target = \"map\", max_pixels = 40000, %s", ONE_OF(map_options));
}

/* A palette's or in colour; bytes has it. */
static size_t mask(void) {
  uint8_t px[3 * W * H];
  im_encoder e = {0};
  int colour = (int)fz_below(&f, 2);
  for (int k = 0; k < 3 * W * H; k++) px[k] = (uint8_t)(37 * (k / (colour ? 3 : 1) % 2));
  FZ_CHECK(!(colour ? im_to_png(&e, px, W, H) : im_labels_to_png(&e, px, W, H)), "%s", e.why);
  size_t n = e.n;
  memcpy(bytes, e.out, n);
  im_encoder_free(&e);
  return n;
}

static void masks(char *params, size_t size) {
  static const char *const names[] = {"a\nb\nc\n", "a #000000\nb #252525\n", "a 0 0 0\r\nb 37 37 37\r\n", "0 a\n1 b\n",
                                      "\xEF\xBB\xBFname,r,g,b\na,0,0,0\nb,37,37,37\n"};
  for (int i = 0; i < 2; i++) {
    char name[64];
    snprintf(name, sizeof name, "images/%d.png", i);
    put(name, pixels, sizeof pixels - 1);
    snprintf(name, sizeof name, "masks/%d.png", i);
    put_damaged(name, mask());
  }
  put_damaged_text("classes.txt", ONE_OF(names));
  snprintf(params, size, "path = \".\", target = \"mask\", max_pixels = 40000, %s", ONE_OF(mask_options));
}

/* Names as people give them to folders and files, one within the other. */
static void names(char *params, size_t size) {
  static const char *const folders[] = {"images",
                                        "masks",
                                        "A",
                                        "B",
                                        "label",
                                        "left",
                                        "right",
                                        "disparity",
                                        "train",
                                        "val",
                                        "valid",
                                        "test",
                                        "t1",
                                        "t2",
                                        "pre",
                                        "ant",
                                        "bee",
                                        "images2",
                                        "depth",
                                        "maps",
                                        "JPEGImages",
                                        "SegmentationClass",
                                        "ImageSets/Segmentation",
                                        "train2017",
                                        "folds",
                                        "cars_train",
                                        "cars_test",
                                        "annotations/trimaps",
                                        "images/aachen",
                                        "masks/aachen",
                                        "SegmentationClassAug",
                                        "meta",
                                        ".x"};
  static const char *const stems[] = {"0",   "1",    "0_mask", "0_before", "0_after", "0_L",
                                      "0_R", "0_t1", "train",  "classes",  "\xC3\xA9"};
  static const char *const endings[] = {".png", ".PNG", ".jpg", ".npy", ".txt", ".tif", ".csv", ".depth.png"};
  static const char *const all[] = {"mask", "class", "labels", "numbers", "map"};
  static const char *const options[] = {"",
                                        "mask_name = \"*_mask\"",
                                        "mask_folder = \"label\"",
                                        "mask_folder = \"trimaps\"",
                                        "mask_folder = \"SegmentationClassAug\"",
                                        "second_name = \"_before=_after\"",
                                        "folders = \"classes\"",
                                        "folders = \"parts\"",
                                        "val_path = \"train\"",
                                        "dtype = \"float32\""};
  uint32_t n = 2 + fz_below(&f, MOST_FILES - 4);
  char front[64];
  for (uint32_t i = 0; i < n; i++) {
    char name[128];
    if (!i || !fz_below(&f, 3))
      snprintf(front, sizeof front, "%s%s%s", ONE_OF(folders), fz_below(&f, 2) ? "/" : "",
               fz_below(&f, 2) ? "" : ONE_OF(folders));
    snprintf(name, sizeof name, "%s/%s%s", front, ONE_OF(stems), ONE_OF(endings));
    if (!access(name, F_OK)) continue;
    if (strstr(name, ".txt") && fz_below(&f, 2))
      put_damaged_text(name, "/JPEGImages/0.jpg /SegmentationClass/0.png\n1\n0_mask 1\n");
    else put(name, pixels, fz_below(&f, 9) ? sizeof pixels - 1 : 0);
  }
  snprintf(params, size, "path = \".\", target = \"%s\", %s", ONE_OF(all), ONE_OF(options));
}

/* ---- all of them ---- */
static const struct {
  const char *name;
  void (*make)(char *params, size_t size);
} sets[] = {{"array_labels", array_labels},
            {"array_masks", array_masks},
            {"shard_labels", shard_labels},
            {"maps", maps},
            {"masks", masks},
            {"names", names}};
enum { SETS = sizeof sets / sizeof *sets };

int main(int argc, char **argv) {
  long rounds = fz_begin(&f, argc, argv, 1200), taken[SETS] = {0}, made[SETS] = {0};
  int from = 0, to = SETS;
  for (int k = 0; argc > 3 && k < SETS; k++)
    if (!strcmp(argv[3], sets[k].name)) from = k, to = k + 1;
  FZ_CHECK(argc <= 3 || to == from + 1, "there is no set %s", argv[3]);
  fzr_begin();
  for (long r = 0; r < rounds; r++) {
    char given[500], params[600];
    int k = from + (int)(r % (to - from));
    sets[k].make(given, sizeof given);
    snprintf(params, sizeof params, "{ size = {2, 3}, workers = 1, %s }", given);
    int good = fzr_take(params, 2);
    FZ_CHECK(good >= 0, "round %ld, %s: %s: refused as '%s'", r, sets[k].name, params, fzr_words);
    taken[k] += good;
    made[k]++;
    remove_all();
  }
  fzr_end();
  for (int k = from; k < to; k++) {
    printf("%s: %ld rounds, %ld taken\n", sets[k].name, made[k], taken[k]);
    FZ_CHECK(made[k] < 200 || taken[k] > made[k] / 50, "the mutations are too harsh");
  }
  return 0;
}
