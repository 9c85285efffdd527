/* SPDX-License-Identifier: MIT
 * check_reader_layouts.c - the stage `reader` on PASCAL VOC's layout, on CSV files, masks in colour, and with another
 * folder for validation. */
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

/* NAME below if_dir, with the folders above it. */
static const char *below(const char *name) {
  static char rel[512];
  snprintf(rel, sizeof rel, "%s", name);
  for (char *p = strchr(rel, '/'); p; p = strchr(p + 1, '/')) {
    *p = 0;
    ck_assert(!mkdir(if_path(rel), 0777) || errno == EEXIST);
    *p = '/';
  }
  return rel;
}

/* One grey dot: an image that tells its file, or a mask of one label. */
static void dot(const char *name, int grey) {
  uint16_t v[1] = {(uint16_t)grey};
  if_write(below(name), if_png(v, 1, 1, PNG_COLOR_TYPE_GRAY, 8, 0));
}

static void text(const char *name, const char *words) { if_put(below(name), words, strlen(words)); }

static spt *set(const char *sub, const char *more, int64_t n) {
  char params[1400];
  snprintf(params, sizeof params, "{ path = \"%s\", size = 1, %s }", if_path(sub), more);
  return open_set(params, n);
}

static spt *classes(const char *sub, const char *more, int64_t n) {
  char with[900];
  snprintf(with, sizeof with, "target = \"class\", %s", more);
  return set(sub, with, n);
}

/* The samples are these: grey values of the images, labels of images or masks. Frees t. */
static void holds(spt *t, int n, const int want[][2]) {
  make(t, 0, n);
  ck_assert_int_eq(spt_length(t), n);
  for (int i = 0; i < n; i++) {
    int label = label_of(t, i) == 255 ? mask_of(t, i)[0] : label_of(t, i);
    ck_assert_msg(image_of(t, i)[0] == want[i][0] && label == want[i][1], "sample %d is %d, label %d", i,
                  image_of(t, i)[0], label);
  }
  spt_free(t);
}

static void refuses(spt *t, int status, const char *words) {
  says(t, status, words);
  spt_free(t);
}

static void tells(const spt *t, const char *layout, const char *splits, const char *counts, const char *left_out) {
  ck_assert_str_eq(spt_attr_text(t, "layout"), layout);
  ck_assert_str_eq(spt_attr_text(t, "splits"), splits);
  ck_assert_str_eq(spt_attr_text(t, "counts"), counts);
  ck_assert_str_eq(spt_attr_text(t, "left_out"), left_out);
}

/* ---- PASCAL VOC ---- */
static void voc_pair(const char *stem, int grey, int label) {
  char name[64];
  snprintf(name, sizeof name, "voc/JPEGImages/%s.jpg", stem); /* told by content */
  dot(name, grey);
  snprintf(name, sizeof name, "voc/SegmentationClass/%s.png", stem);
  dot(name, label);
}

static void voc(void) {
  voc_pair("b", 20, 2);
  voc_pair("a.1", 10, 1);
  voc_pair("c", 30, 255);
  dot("voc/JPEGImages/boxes.jpg", 40);
  text("voc/Annotations/b.xml", "<x/>");
  text("voc/ImageSets/Segmentation/train.txt", "c\r\n\n  a.1 \n");
  text("voc/ImageSets/Segmentation/val.txt", "b");
  text("voc/ImageSets/Segmentation/trainval.txt", "a.1\nb\nc\n");
}

START_TEST(test_voc) {
  static const int want[3][2] = {{30, 255}, {10, 1}, {20, 2}}, sorted[3][2] = {{10, 1}, {20, 2}, {30, 255}};
  voc();
  int keep = log_begin(if_path("log"));
  spt *t = set("voc", "split = \"train\"", 2);
  const char *log = log_end(keep, if_path("log"));
  ck_assert_msg(strstr(log, "voc: the classes are PASCAL VOC's 21\n"), "%s", log);
  ck_assert_msg(strstr(log, "voc: left out: 1 image that no list names, such as JPEGImages/boxes.jpg\n"), "%s", log);
  ck_assert(attr(t, "classes") == 21);
  ck_assert_ptr_nonnull(strstr(spt_attr_text(t, "class_names"), "background\naeroplane\nbicycle\n"));
  ck_assert_ptr_nonnull(strstr(spt_attr_text(t, "class_names"), "\ntrain\ntvmonitor"));
  tells(t, "voc", "train 2 val 1", "", "1 image that no list names, such as JPEGImages/boxes.jpg");
  holds(t, 2, want);
  holds(set("voc", "split = \"val\"", 1), 1, want + 2);
  holds(set("voc", "", 3), 3, want);
  text("voc/classes.txt", "none\none\ntwo\n");
  t = set("voc", "classes = 3", 3);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "none\none\ntwo");
  holds(t, 3, want);
  unlink(if_path("voc/ImageSets/Segmentation/train.txt"));
  unlink(if_path("voc/ImageSets/Segmentation/val.txt"));
  holds(set("voc", "", 3), 3, sorted);
  t = set("voc", "split = \"val\", val_fraction = 0.34", 1);
  ck_assert_int_eq(spt_length(t), 1);
  spt_free(t);
}
END_TEST

START_TEST(test_voc_refused) {
  voc();
  refuses(classes("voc", "", 1), SP_E_UNSUPPORTED,
          "voc is laid out as PASCAL VOC, whose lists in ImageSets/Main name "
          "several classes an image: not for target = \"class\"");
  refuses(set("voc", "classes = 3", 1), SP_E_INVALID, "classes = 3, but without ");
  refuses(set("voc", "val_fraction = 0.3", 1), SP_E_INVALID,
          "has ImageSets/Segmentation/train.txt and val.txt, which say what is for validation; leave val_fraction out");
  refuses(set("voc", "val_path = \"/\"", 1), SP_E_INVALID, "leave val_path out");
  static const struct {
    const char *list, *words;
  } bad[] = {
      {"b\nz\n", "val.txt line 2: z has no file in JPEGImages; put "},
      {"boxes\n", "val.txt line 1: boxes has no file in SegmentationClass; put STEM.png there"},
      {"b\n\nb\n", "val.txt line 3: b is there twice; take one of them out"},
      {"b\nc\n", "val.txt line 2: c is in train.txt as well; take one of them out"},
      {"b  1\n", "val.txt line 1: b  1 is more than a name; lists of ImageSets/Segmentation are read"},
      {"\n", "val.txt names no images; one stem a line"},
  };
  for (size_t i = 0; i < SP_ARRAY(bad); i++) {
    text("voc/ImageSets/Segmentation/val.txt", bad[i].list);
    refuses(set("voc", "split = \"train\"", 1), SP_E_DATA, bad[i].words);
  }
  unlink(if_path("voc/ImageSets/Segmentation/val.txt"));
  refuses(set("voc", "", 1), SP_E_NOTFOUND, "voc/ImageSets/Segmentation/val.txt is missing; the splits are ");
  ck_assert_int_eq(rename(if_path("voc/SegmentationClass"), if_path("voc/SegmentationObject")), 0);
  refuses(set("voc", "", 1), SP_E_UNSUPPORTED, "voc is laid out as PASCAL VOC without SegmentationClass: boxes and ");
}
END_TEST

/* ---- CSV ---- */
static void pictures(void) {
  dot("csv/in/a.png", 10);
  dot("csv/in/b, c.png", 20);
  dot("csv/in/d\"e.png", 30);
  dot("csv/out/a.png", 40);
  dot("csv/masks/1.png", 1);
  dot("csv/masks/2.png", 2);
}

START_TEST(test_csv) {
  static const int want[4][2] = {{40, 2}, {20, 0}, {30, 2}, {10, 1}},
                   parts[4][2] = {{10, 1}, {30, 0}, {40, 1}, {20, 0}}, masks[2][2] = {{10, 2}, {40, 1}};
  pictures();
  /* a mark, CR LF, quotes, a comma and a line break within a field, blank lines, blanks around names of columns */
  text("csv/labels.csv", "\xEF\xBB\xBF\"label\", note ,file\r\n"
                         "zebra,x,out/a.png\r\n\r\n\"cat, grey\",\"1\r\n2\",\"in/b, c.png\"\r\n"
                         "zebra,\"\"\"y\"\"\",\"in/d\"\"e.png\"\r\ndog,,in/../in/a.png");
  for (int k = 0; k < 2; k++) {
    spt *t = classes(k ? "csv" : "csv/labels.csv", "", 4);
    ok(t);
    ck_assert_str_eq(spt_attr_text(t, "class_names"), "cat, grey\ndog\nzebra");
    tells(t, "csv", "train 2 val 2", "1 1 2", "");
    holds(t, 4, want);
  }
  text("csv/classes.txt", "zebra\nunused\ndog #010203\n");
  refuses(classes("csv", "", 1), SP_E_DATA, "classes.txt: line 3 has a colour, line 1 has none");
  text("csv/classes.txt", "dog\ncat\nbird");
  text("csv/labels.csv", "file,label,split\nin/a.png,1,train\nout/a.png,cat,val\nin/d\"\"e.png,dog,train\n");
  refuses(classes("csv", "", 1), SP_E_DATA, "labels.csv line 4, column 1: a quote within a field without quotes");
  text("csv/labels.csv", "file,label,split\nin/a.png,1,train\nout/a.png,cat,val\n\"in/d\"\"e.png\",dog, train\n"
                         "\"in/b, c.png\",dog,val");
  holds(classes("csv", "", 4), 4, parts);
  holds(classes("csv", "split = \"train\"", 2), 2, parts);
  spt *t = classes("csv", "split = \"val\"", 2);
  tells(t, "csv", "train 2 val 2", "1 1 0", "");
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "dog\ncat\nbird");
  holds(t, 2, parts + 2);
  t = set("csv", "target = \"class\", samples = 1", 2);
  ck_assert_str_eq(spt_attr_text(t, "splits"), "train 1 val 1");
  spt_free(t);
  text("csv/labels.csv", "file,mask\nin/a.png,masks/2.png\nout/a.png,masks/1.png\n");
  holds(set("csv", "", 2), 2, masks);
}
END_TEST

START_TEST(test_csv_of_numbers) {
  static const int want[2][2] = {{40, 7}, {10, 0}};
  pictures();
  text("csv/labels.csv", "file,label\nout/a.png,7\nin/a.png,00\n");
  spt *t = classes("csv", "", 2);
  ck_assert(attr(t, "classes") == 8);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "");
  holds(t, 2, want);
  t = classes("csv", "classes = 9", 2);
  ck_assert(attr(t, "classes") == 9);
  holds(t, 2, want);
  refuses(classes("csv", "classes = 7", 1), SP_E_DATA,
          "labels.csv line 2, column 2 (label): label 7, but there are 7 classes (0 to 6): correct it, or give classes "
          "= 8");
}
END_TEST

/* What a run of its own would order by accident: more labels and folders than the first tables hold. */
START_TEST(test_csv_with_many) {
  char rows[16384] = "file,label\n", name[64];
  int at = (int)strlen(rows);
  for (int i = 0; i < 600; i++) {
    snprintf(name, sizeof name, "csv/%d/x.png", i % 300);
    if (i < 300) dot(name, i % 200);
    at += sprintf(rows + at, "%s,c%03d\n", name + 4, 599 - i);
  }
  text("csv/labels.csv", rows);
  spt *t = classes("csv", "repeats = \"keep\"", 600);
  make(t, 0, 600);
  ck_assert(attr(t, "classes") == 600);
  const int32_t *labels = spt_raw(t, SPT_OUT, 2, 0);
  for (int i = 0; i < 600; i++) ck_assert(labels[i] == 599 - i && image_of(t, i)[0] == i % 300 % 200);
  spt_free(t);
}
END_TEST

START_TEST(test_csv_refused) {
  static const struct {
    const char *text, *words;
  } bad[] = {
      {"a;b\nin/a.txt;x\n", "labels.csv line 1: no column 'file'; for target = \"class\" the first line names "},
      {"file,mask\n", "labels.csv line 1: no column 'label'; for target = \"class\""},
      {"", "labels.csv is empty; a row for each image"},
      {"file,label\n", "labels.csv has a header, but no rows; one for each image"},
      {"file,label\nin/a.png,x\nin/z.png,x\n", "line 3, column 1 (file): "},
      {"file,label\nin/a.png,x\nin/z.png,x\n", "csv/in/z.png: No such file or directory; files are looked for from "},
      {"file,label\n,x\n", "line 2, column 1 (file): it is empty"},
      {"file,label\nin/a.png,\n",
       "line 2, column 2 (label): it is empty; write the name or the number of a class, or missing = \"skip\" leaves "},
      {"file,label\nin/a.png,\"a\nb\"\n", "line 2, column 2 (label): it is empty, or too long, or has a line break"},
      {"file,label\nin/a.png\n", "line 2: 1 fields, but the header has 2; put fields with commas in quotes"},
      {"a,file,label\n\"1\n2\",in/a.png,x\n\"1\",in/a.png,x,\n", "line 4: 4 fields, but the header has 3"},
      {"file,label\n\"in/a.png,x\n", "line 2, column 1: the quote that begins here has no end; put one behind"},
      {"file,label\n\"in/a.png\"x,x\n", "line 2, column 1: text behind a closing quote"},
      {"file,label,split\nin/a.png,x,other\n", "line 2, column 3 (split): it is neither train nor val"},
      {"file,label\nin/a.png,x\nin/../in/a.png,y\n", "/in/a.png is \"x\" in "},
      {"file,label,split\nin/a.png,x,train\n", "labels.csv: no row's split is val; without that column val_fraction "},
      {"file,label\nin/a.png,1000000\n", "column 2 (label): label 1000000 would make more than 1000000 classes"},
      {"file,label\nin/a.png,1\nout/a.png,x\n", "line 2, column 2 (label): the label is the number 1, but at "},
  };
  pictures();
  for (size_t i = 0; i < SP_ARRAY(bad); i++) {
    text("csv/labels.csv", bad[i].text);
    refuses(classes("csv/labels.csv", "", 1), SP_E_DATA, bad[i].words);
  }
  if_put("csv/labels.csv", "file,label\nin/a\0png,x\n", 22);
  refuses(classes("csv/labels.csv", "", 1), SP_E_DATA, "labels.csv: line 2: a byte 0: this is no text");
  if_put("csv/labels.csv",
         "\xFF\xFE"
         "f\0",
         4);
  refuses(classes("csv/labels.csv", "", 1), SP_E_DATA, "labels.csv line 1: no column 'file'");
  text("csv/labels.csv", "file,label\nin/a.png,x\xE9\n");
  refuses(classes("csv/labels.csv", "", 1), SP_E_DATA,
          "line 2, column 2 (label): it is no UTF-8, but perhaps Latin-1");
  text("csv/classes.txt", "caf\xE9\n");
  text("csv/labels.csv", "file,label\nin/a.png,x\n");
  refuses(classes("csv/labels.csv", "", 1), SP_E_DATA,
          "classes.txt line 1: the byte 0xe9 is no UTF-8, of Latin-1 perhaps");
  unlink(if_path("csv/classes.txt"));
  text("csv/labels.csv", "file,label,split\nin/a.png,x,train\nout/a.png,x,val\n");
  refuses(classes("csv", "val_fraction = 0.5", 1), SP_E_INVALID, "csv has a column split, which says what is for ");
  text("csv/classes.txt", "y\nz");
  refuses(classes("csv", "", 1), SP_E_DATA, "column 2 (label): the label is \"x\", but ");
  text("csv/classes.txt", "x\nz\nx");
  refuses(classes("csv", "", 1), SP_E_DATA, "csv/classes.txt names 'x' twice");
}
END_TEST

/* A file that is about something else does not make a folder a layout of its own. */
START_TEST(test_other_csv) {
  static const int want[2][2] = {{10, 0}, {20, 1}};
  dot("tree/a/x.png", 10);
  dot("tree/b/x.png", 20);
  text("tree/notes.csv", "who,when\nme,now\n");
  holds(classes("tree", "", 2), 2, want);
  text("tree/labels.csv", "file,label\nb/x.png,1\na/x.png,0\n");
  holds(classes("tree", "", 2), 2, want); /* two of them: none is meant */
  dot("own/train/a/x.png", 10);
  dot("own/val/b/x.png", 20);
  text("own/train/labels.csv", "file,label\na/x.png,1\n"); /* of a part: the whole is folders */
  holds(classes("own", "", 2), 2, want);
}
END_TEST

/* ---- masks in colour ---- */
static void colours(const uint16_t rgb[6]) {
  uint16_t grey[2] = {0};
  if_write("images/a.png", if_png(grey, 2, 1, PNG_COLOR_TYPE_GRAY, 8, 0));
  if_write("masks/a.png", if_png(rgb, 2, 1, PNG_COLOR_TYPE_RGB, 8, 0));
}

static spt *two_pixels(void) {
  char params[400];
  snprintf(params, sizeof params, "{ path = \"%s\", size = {1, 2} }", if_dir);
  spt *t = open_set(params, 1);
  if (!spt_failed(t)) spt_forward(t, 0);
  return t;
}

START_TEST(test_colours) {
  static const uint16_t road_sky[] = {128, 64, 128, 70, 130, 180}, none[] = {224, 224, 192, 128, 64, 128},
                        other[] = {128, 64, 128, 1, 2, 3};
  if_put("classes.txt", "road 128 64 128\nbig sky\t#4682B4\nvoid #e0e0c0\nvoid 0 0 0\n", 57);
  colours(road_sky);
  spt *t = two_pixels();
  ok(t);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "road\nbig sky");
  ck_assert(attr(t, "classes") == 2 && mask_of(t, 0)[0] == 0 && mask_of(t, 0)[1] == 1);
  spt_free(t);
  colours(none);
  t = two_pixels();
  ok(t);
  ck_assert(mask_of(t, 0)[0] == 255 && mask_of(t, 0)[1] == 0);
  spt_free(t);
  colours(other);
  refuses(two_pixels(), SP_E_DATA,
          "masks/a.png: the pixel at x = 1, y = 0 has the colour #010203, which no class in classes.txt has; add it");
  uint16_t labels[2] = {1, 255}; /* of a palette or grey: as they are */
  if_write("masks/a.png", if_png(labels, 2, 1, PNG_COLOR_TYPE_GRAY, 8, 0));
  t = two_pixels();
  ok(t);
  ck_assert(mask_of(t, 0)[0] == 1 && mask_of(t, 0)[1] == 255);
  spt_free(t);
}
END_TEST

/* A mask of these values: grey ones, or with `rgb` indices of a palette of these colours. */
static spt *valued(const char *list, const uint16_t v[2], const char *more) {
  uint16_t grey[2] = {0};
  char params[700];
  if (list) text("classes.txt", list);
  else unlink(if_path("classes.txt"));
  if_write("images/a.png", if_png(grey, 2, 1, PNG_COLOR_TYPE_GRAY, 8, 0));
  if_write("masks/a.png", if_png(v, 2, 1, PNG_COLOR_TYPE_GRAY, 8, 0));
  snprintf(params, sizeof params, "{ path = \"%s\", size = {1, 2}, %s }", if_dir, more);
  spt *t = open_set(params, 1);
  if (!spt_failed(t)) spt_forward(t, 0);
  return t;
}

static void labels_are(spt *t, int first, int second, const char *names) {
  ok(t);
  ck_assert_msg(mask_of(t, 0)[0] == first && mask_of(t, 0)[1] == second, "labels %d and %d", mask_of(t, 0)[0],
                mask_of(t, 0)[1]);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), names);
  spt_free(t);
}

START_TEST(test_mask_values) {
  static const uint16_t ends[2] = {0, 255}, soft[2] = {100, 200}, one[2] = {1, 2}, red[6] = {255, 0, 0, 0, 0, 0},
                        grey[6] = {255, 255, 255, 0, 0, 0};
  if_put("masks/x", "", 0);
  labels_are(valued("bg\nfg", ends, "mask_values = \"0=bg,255=fg\""), 0, 1, "bg\nfg");
  labels_are(valued("bg\nfg", ends, "mask_values = \" 255 = fg , 0 = bg \""), 0, 1, "bg\nfg");
  labels_are(valued("bg\nfg", ends, "mask_values = \"0=0,255=1\""), 0, 1, "bg\nfg");
  labels_are(valued(NULL, ends, "mask_values = \"0=bg,255=fg\""), 0, 1, "bg\nfg");
  labels_are(valued(NULL, ends, "mask_values = \"0=fg,255=ignore,7=bg\""), 0, 255, "fg\nbg");
  labels_are(valued(NULL, ends, "mask_values = \"0=2,255=0\""), 2, 0, "");
  labels_are(valued("a\nb", soft, "mask_values = \"0-127=a,128-255=b\""), 0, 1, "a\nb");
  labels_are(valued("a\nb", one, "mask_values = \"1=a,2=b\""), 0, 1, "a\nb");
  refuses(valued("a\nb", one, "mask_values = \"1=a\""), SP_E_DATA,
          "masks/a.png: the pixel at x = 1, y = 0 has the value 2, which mask_values has not; add it, as 2=ignore if ");
  for (int k = 0; k < 2; k++) { /* in colour; grey values that are stored as colours */
    spt *t = valued("a\nb", ends, "mask_values = \"0=a,255=b\"");
    spt_free(t);
    if_write("masks/a.png", if_png(k ? grey : red, 2, 1, PNG_COLOR_TYPE_RGB, 8, 0));
    char params[600];
    snprintf(params, sizeof params, "{ path = \"%s\", size = {1, 2}, mask_values = \"%s\" }", if_dir,
             k ? "0=a,255=b" : "#FF0000=b,#000000=a");
    t = open_set(params, 1);
    spt_forward(t, 0);
    labels_are(t, 1, 0, "a\nb");
  }
}
END_TEST

START_TEST(test_mask_values_refused) {
  static const uint16_t v[2] = {0, 1};
  static const struct {
    const char *values, *words;
  } bad[] = {
      {"0", "mask_values = \"0\": 0 has no =; entries are VALUE=CLASS with a comma between, such as "},
      {"0=", "0= ends with no name of a class"},
      {"=a", "=a begins with no value and no range of values"},
      {"x=a", "x=a begins with no value"},
      {"5-2=a", "5-2=a begins with no value and no range"},
      {"0=a,0=b", "0=b names a value that has a class already"},
      {"0-9=a,5=b", "5=b names a value that has a class already"},
      {"0=c", "0=c ends with a name that classes.txt has not"},
      {"0=2", "0=2 ends with a name that classes.txt has not"},
      {"#12=a", "#12=a begins with no colour, which is # and six digits"},
      {"#000000=a,#000000=b", "names a colour that has a class already"},
      {"#000000=a,1=b", "has numbers and colours; one kind is possible"},
  };
  if_put("masks/x", "", 0);
  for (size_t i = 0; i < SP_ARRAY(bad); i++) {
    char more[200];
    snprintf(more, sizeof more, "mask_values = \"%s\"", bad[i].values);
    refuses(valued("a\nb", v, more), SP_E_INVALID, bad[i].words);
  }
  refuses(valued(NULL, v, "mask_values = \"0=ignore\""), SP_E_INVALID, "names no class");
  refuses(valued(NULL, v, "mask_values = \"0=a,1=b\", classes = 3"), SP_E_INVALID, "classes = 3, but ");
}
END_TEST

/* With colours in classes.txt the colour of a value decides, unless none has a class. */
START_TEST(test_own_colours) {
  static const uint16_t ends[2] = {0, 255}, low[2] = {0, 1}, two[2] = {1, 1}, mixed[2] = {1, 255}, odd[2] = {1, 7};
  static const char black_white[] = "bg #000000\nfg #ffffff", swapped[] = "a #010101\nb #000000";
  if_put("masks/x", "", 0);
  labels_are(valued(black_white, ends, ""), 0, 1, "bg\nfg");
  labels_are(valued(black_white, low, ""), 0, 1,
             "bg\nfg"); /* 1 has no colour of the list, and 0 the same label by both */
  labels_are(valued(black_white, two, ""), 1, 1, "bg\nfg");
  labels_are(valued(swapped, low, ""), 1, 0, "a\nb");
  refuses(
      valued(black_white, mixed, ""), SP_E_DATA,
      "the value 255 has the colour #ffffff, which classes.txt gives to 'fg', but as a label it is no label; and the "
      "value 1 has #010101, which no class has: add that to classes.txt, or take the colours out of it");
  refuses(valued(swapped, odd, ""), SP_E_DATA,
          "the value 1 has the colour #010101, which classes.txt gives to 'a', but as a label it is 'b'");
}
END_TEST

/* Labels that no class has are named for what they look like. */
START_TEST(test_odd_labels) {
  static const uint16_t half[2] = {0, 128}, one[2] = {1, 2}, many[2] = {0, 3};
  if_put("masks/x", "", 0);
  refuses(valued("a\nb", half, ""), SP_E_DATA,
          "its values are other numbers: say which class each is, mask_values = \"0=a,128=b\"");
  refuses(valued("a\nb", one, ""), SP_E_DATA,
          "other numbers, counted from 1: say which class each is, mask_values = \"1=a,2=b\"");
  refuses(valued("a\nb", many, ""), SP_E_DATA,
          "correct the mask, or give classes = 4 or more, or as many lines in classes.txt");
}
END_TEST

START_TEST(test_colours_refused) {
  static const uint16_t rgb[6] = {0};
  static const struct {
    const char *text, *words;
  } bad[] = {
      {"a #000000\nb\n", "classes.txt: line 1 has a colour, line 2 has none; give one to each or to none"},
      {"a 0 0 0\nb #000000\n", "classes.txt line 2: the colour #000000 has a class already"},
      {"a\nb\n",
       "masks/a.png: a mask must be a palette or grey PNG whose values are the labels, this one is in colour; "
       "for masks in colour give each class in classes.txt its colour, NAME #rrggbb, or say what each means: "
       "mask_values = "
       "\"#000000=0\""},
      {"void #000000\n", "classes.txt names 0 classes"},
  };
  colours(rgb);
  for (size_t i = 0; i < SP_ARRAY(bad); i++) {
    text("classes.txt", bad[i].text);
    refuses(two_pixels(), SP_E_DATA, bad[i].words);
  }
  text("classes.txt", "a 0 0 256\n#000000\nvoid\n"); /* names, all three */
  spt *t = two_pixels();
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "a 0 0 256\n#000000\nvoid");
  spt_free(t);
}
END_TEST

/* ---- images and masks, whatever they are called ---- */
/* Dots at the places that are named, an image or, of class 1, a mask. */
static void dots(const char *names) {
  char all[600], name[128];
  snprintf(all, sizeof all, "%s", names);
  for (char *p = all, *one; (one = strsep(&p, " "));) {
    int mask = *one == '=';
    snprintf(name, sizeof name, "pairs/%s", one + mask);
    dot(name, mask ? 1 : 9);
  }
  text("pairs/classes.txt", "bg\nfg\n");
}

static void clear_pairs(void) {
  char line[500];
  snprintf(line, sizeof line, "rm -rf '%s'", if_path("pairs"));
  ck_assert_int_eq(system(line), 0);
}

START_TEST(test_pairs_by_name) {
  static const struct {
    const char *files, *more, *splits, *note; /* files: masks with = in front */
  } cases[] = {
      {"images/1.png =labels/1.png images/2.png =labels/2.png", "", "train 1 val 1", ""},
      {"imgs/1.png =masks/1.png", "", NULL, ""},
      {"img/1.png =gt/1.png", "", NULL, ""},
      {"JPEGImages/1.png =SegmentationClass/1.png", "", NULL, ""},
      {"Images/1.PNG =Ground_Truth/1.PNG", "", NULL, ""},
      {"images/train/1.png images/val/2.png =masks/train/1.png =masks/val/2.png", "", "train 1 val 1", ""},
      {"images/training/1.png images/validation/2.png =annotations/training/1.png =annotations/validation/2.png", "",
       "train 1 val 1", ""},
      {"train/images/1.png =train/masks/1.png valid/images/2.png =valid/masks/2.png test/images/3.png", "",
       "train 1 val 1", ""},
      {"train/1.png =trainannot/1.png val/2.png =valannot/2.png test/3.png =testannot/3.png", "", "train 1 val 1", ""},
      {"train_images/1.png =train_masks/1.png val_images/2.png =val_masks/2.png", "", "train 1 val 1", ""},
      {"imagesTr/1.png =labelsTr/1.png imagesTs/2.png =labelsTs/2.png", "", "train 1 val 1",
       "there is no val/, so imagesTs/ validates; `val_fraction = 0.1` takes a part of imagesTr/ "
       "instead"},
      {"set/images/1.png =set/masks/1.png", "", NULL, "the data lies in set/"},
      {"images/1.png =masks/1_mask.png images/2.png =masks/2_mask.png", "", NULL,
       "each image has its mask by mask_name = \"*_mask\": 1.png and 1_mask.png"},
      {"images/1.png =masks/1.mask.png", "", NULL,
       "each image has its mask by mask_name = \"*.mask\": 1.png and 1.mask.png"},
      {"images/1.png images/10.png =masks/1_L.png =masks/10_L.png", "", NULL,
       "each image has its mask by mask_name = \"*_L\": 1.png and 1_L.png"},
      {"images/1_rgb.png =masks/1_gt.png", "", NULL,
       "each image has its mask by mask_name = \"*_rgb=*_gt\": 1_rgb.png and 1_gt.png"},
      {"images/img_1.png =masks/mask_1.png", "", NULL,
       "each image has its mask by mask_name = \"img_*=mask_*\": img_1.png and mask_1.png"},
      {"images/1.png =masks/1_a.png masks/1_b.png", "mask_name = \"*_a\"", NULL, ""},
      {"images/x1.png =masks/y1.png", "mask_name = \"x*=y*\"", NULL, ""},
      {"images/1.png =masks/1.png masks/1_color.png", "", NULL, ""},
  };
  for (size_t i = 0; i < SP_ARRAY(cases); i++) {
    dots(cases[i].files);
    spt *t = set("pairs", cases[i].more, 1);
    ck_assert_msg(!spt_failed(t), "%s: %s", cases[i].files, spt_error(t));
    ck_assert_str_eq(spt_attr_text(t, "layout"), "pairs");
    if (cases[i].splits) ck_assert_str_eq(spt_attr_text(t, "splits"), cases[i].splits);
    ck_assert_str_eq(spt_attr_text(t, "notes"), cases[i].note);
    make(t, 0, 1);
    ck_assert_int_eq(mask_of(t, 0)[0], 1);
    spt_free(t);
    clear_pairs();
  }
}
END_TEST

START_TEST(test_pairs_refused) {
  static const struct {
    const char *files, *more, *words;
  } cases[] = {
      {"images/1.png images/2.png =masks/1.png =masks/2_mask.png", "", "images/2.png has no mask: "},
      {"images/1.png images/2.png =masks/1.png =masks/2_mask.png", "",
       "masks/2_mask.png is there, but not each image has one called so (mask_name = \"*_mask\" would want that)"},
      {"images/a.png =masks/A.png", "", "masks/A.png is nearly that: rename it"},
      {"images/a.png =masks/b.png", "", "a.png is missing; the first mask there is b.png: where names differ by more"},
      {"images/1.png =masks/10.png", "", "1.png is missing; the first mask there is 10.png"},
      {"images/1.png =masks/1_labelIds.png =masks/1_instanceIds.png", "",
       "say which are meant: mask_name = \"*_instanceIds\" or mask_name = \"*_labelIds\""},
      {"images/1.png =masks/1.jpg", "",
       "1.jpg is there: labels are read of PNG, TIFF and .npy files, since others (JPEG) change them"},
      {"images/1.png =masks/1.png", "mask_name = \"mask\"",
       "mask_name = \"mask\": * stands once for the stem of an image"},
      {"images/1.png =labels/1.png =gt/1.png", "", "pairs holds gt/ and labels/, and both may be meant; call the one "},
      {"images/1.png =masks/1.png train/images/1.png =train/masks/1.png", "",
       "pairs holds images/, which is of no part, and "},
      {"val/images/1.png =val/masks/1.png", "",
       "pairs holds val/, which is not to be trained on by its name, and no train/"},
      {"train/images/1.png =train/masks/1.png val/images/2.png", "", "/val/masks: No such file or directory"},
      {"a/1.png =b/1.png", "", "pairs holds a folder for each class, which is for target = \"class\" (train_cls.lua)"},
  };
  for (size_t i = 0; i < SP_ARRAY(cases); i++) {
    dots(cases[i].files);
    spt *t = set("pairs", cases[i].more, 1);
    ck_assert_msg(spt_failed(t) && strstr(spt_error(t), cases[i].words), "%s: %s", cases[i].files,
                  spt_failed(t) ? spt_error(t) : "was read");
    spt_free(t);
    clear_pairs();
  }
}
END_TEST

/* ---- another folder for validation ---- */
static spt *with_val(spt *(*of)(const char *sub, const char *more, int64_t n), const char *more, int64_t n) {
  char params[700];
  snprintf(params, sizeof params, "val_path = \"%s\", %s", if_path("other"), more);
  return of("one", params, n);
}

START_TEST(test_val_path) {
  static const int want[4][2] = {{10, 0}, {20, 2}, {30, 1}, {40, 2}};
  dot("one/a/x.png", 10);
  dot("one/c/x.png", 20);
  dot("other/b/x.png", 30);
  dot("other/c/x.png", 40);
  int keep = log_begin(if_path("log"));
  spt *t = with_val(classes, "", 4);
  const char *log = log_end(keep, if_path("log"));
  ck_assert_msg(strstr(log, "/one: 1 of the classes is in /") && strstr(log, "/one and not in /") &&
                    strstr(log, "/other, such as a\n"),
                "%s", log);
  ck_assert_str_eq(spt_attr_text(t, "class_names"), "a\nb\nc");
  tells(t, "classes", "train 2 val 2", "1 1 2", "");
  holds(t, 4, want);
  holds(with_val(classes, "split = \"train\"", 2), 2, want);
  holds(with_val(classes, "split = \"val\"", 2), 2, want + 2);
  refuses(with_val(classes, "val_fraction = 0.2", 1), SP_E_INVALID, "both say what is for validation; leave one out");
  text("one.csv", "file,label\none/a/x.png,p\none/c/x.png,r\n");
  text("other.csv", "file,label\nother/b/x.png,q\nother/c/x.png,r\n");
  char more[400];
  snprintf(more, sizeof more, "val_path = \"%s\"", if_path("other.csv"));
  holds(classes("one.csv", more, 4), 4, want);
  snprintf(more, sizeof more, "val_path = \"%s\"", if_path("one"));
  refuses(classes("one", more, 1), SP_E_INVALID, "/one\" is path itself; it names other samples");
  refuses(classes("one", "val_path = \"/nowhere\"", 1), SP_E_NOTFOUND,
          "/nowhere: No such file or directory; val_path ");
  refuses(open_set("{ path = \"shapes\", val_path = \"/\" }", 1), SP_E_INVALID, "goes with a path to a folder of data");
  dot("parts/train/a/x.png", 1);
  dot("parts/val/a/x.png", 2);
  snprintf(more, sizeof more, "val_path = \"%s\"", if_path("other"));
  refuses(classes("parts", more, 1), SP_E_INVALID,
          "has train/ and val/, which say what is for validation; leave val_path");
}
END_TEST

START_TEST(test_val_path_of_masks) {
  static const int want[2][2] = {{10, 1}, {20, 2}};
  dot("one/images/x.png", 10);
  dot("one/masks/x.png", 1);
  dot("other/images/x.png", 20);
  refuses(with_val(set, "classes = 5", 1), SP_E_NOTFOUND, "/other/masks: No such file");
  dot("other/masks/x.png", 2);
  dot("other/masks/y.png", 2);
  int keep = log_begin(if_path("log"));
  spt *t = with_val(set, "classes = 5", 2);
  tells(t, "pairs", "train 1 val 1", "", "");
  holds(t, 2, want);
  const char *log = log_end(keep, if_path("log"));
  ck_assert_msg(strstr(log, ": 1 of the files in /") && strstr(log, "/other/masks have no image"), "%s", log);
  text("other/classes.txt", "a\nb\nc\n");
  holds(with_val(set, "classes = 5", 2), 2, want);
  text("one/classes.txt", "a\n b\n\nc");
  holds(with_val(set, "", 2), 2, want);
  text("one/classes.txt", "a\nc\nb\n");
  refuses(with_val(set, "", 1), SP_E_DATA, "/other/classes.txt name other classes; give both the same lines");
  ck_assert_int_eq(rename(if_path("other/images"), if_path("other/nothing")), 0);
  ck_assert_int_eq(rename(if_path("other/masks"), if_path("other/none")), 0);
  refuses(with_val(set, "classes = 5", 1), SP_E_DATA, "does not; give both the same layout");
}
END_TEST

int main(void) {
  Suite *s = suite_create("reader_layouts");
  TCase *c = tcase_create("reader_layouts");
  tcase_set_timeout(c, 600);
  tcase_add_checked_fixture(c, if_begin, if_end);
  tcase_add_test(c, test_voc);
  tcase_add_test(c, test_voc_refused);
  tcase_add_test(c, test_csv);
  tcase_add_test(c, test_csv_of_numbers);
  tcase_add_test(c, test_csv_with_many);
  tcase_add_test(c, test_csv_refused);
  tcase_add_test(c, test_other_csv);
  tcase_add_test(c, test_colours);
  tcase_add_test(c, test_mask_values);
  tcase_add_test(c, test_mask_values_refused);
  tcase_add_test(c, test_own_colours);
  tcase_add_test(c, test_odd_labels);
  tcase_add_test(c, test_colours_refused);
  tcase_add_test(c, test_pairs_by_name);
  tcase_add_test(c, test_pairs_refused);
  tcase_add_test(c, test_val_path);
  tcase_add_test(c, test_val_path_of_masks);
  suite_add_tcase(s, c);
  return suite_run(s);
}
