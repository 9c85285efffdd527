/* SPDX-License-Identifier: MIT
 * check_reader_layouts.c - the stage `reader` on PASCAL VOC's layout, on CSV files, and with another folder for
 * validation. */
#include <stdio.h>
#include <unistd.h>

#include "base/util.h"
#include "tests/kit/layout_kit.h"
#include "tests/kit/suite.h"

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
  static const int want[2][2] = {{10, 0}, {20, 1}}, parts[3][2] = {{10, 0}, {20, 1}, {30, 1}};
  dot("tree/a/x.png", 10);
  dot("tree/b/x.png", 20);
  text("tree/notes.csv", "who,when\nme,now\n");
  holds(classes("tree", "", 2), 2, want);
  text("tree/labels.csv", "file,label\nb/x.png,1\na/x.png,0\n");
  refuses(classes("tree", "", 2), SP_E_DATA, "and labels.csv, whose column file names images");
  holds(classes("tree", "folders = \"classes\"", 2), 2, want);
  dot("own/train/a/x.png", 10);
  dot("own/train/b/x.png", 20);
  dot("own/val/b/x.png", 30);
  text("own/train/labels.csv", "file,label\na/x.png,1\n"); /* of a part: the whole is folders */
  holds(classes("own", "", 3), 3, parts);
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
  tcase_add_test(c, test_val_path);
  tcase_add_test(c, test_val_path_of_masks);
  suite_add_tcase(s, c);
  return suite_run(s);
}
