/* SPDX-License-Identifier: MIT
 * check_reader_masks.c - the stage `reader` on masks: in colour, by values, and whatever the files are called. */
#include <stdio.h>
#include <unistd.h>

#include "base/util.h"
#include "tests/kit/layout_kit.h"
#include "tests/kit/suite.h"

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

int main(void) {
  Suite *s = suite_create("reader_masks");
  TCase *c = tcase_create("reader_masks");
  tcase_set_timeout(c, 600);
  tcase_add_checked_fixture(c, if_begin, if_end);
  tcase_add_test(c, test_colours);
  tcase_add_test(c, test_mask_values);
  tcase_add_test(c, test_mask_values_refused);
  tcase_add_test(c, test_own_colours);
  tcase_add_test(c, test_odd_labels);
  tcase_add_test(c, test_colours_refused);
  tcase_add_test(c, test_pairs_by_name);
  tcase_add_test(c, test_pairs_refused);
  suite_add_tcase(s, c);
  return suite_run(s);
}
