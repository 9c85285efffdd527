/* SPDX-License-Identifier: MIT
 * folder_names.c - what the name of a folder says of it: that it is a part of a set (train, valid, test_images), holds
 * images or masks (imgs, labels), or is none of the data at all (__MACOSX). */
#include "folder_names.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Words as they stand in names, in lower case, without digits. */
static const char *const parts[][12] = {
    [RD_TRAIN_PART] = {"train", "training", "trn", "trainval", "trainset", NULL},
    [RD_VAL_PART] = {"val", "valid", "validation", "validate", "dev", "eval", "valset", NULL},
    [RD_TEST_PART] = {"test", "testing", "tst", "testset", NULL},
};
static const char *const glued[][3] = {/* a part in front of or behind a kind only: labelsTr */
                                       [RD_TRAIN_PART] = {"tr", NULL},
                                       [RD_VAL_PART] = {"vl", NULL},
                                       [RD_TEST_PART] = {"ts", NULL}};
static const char *const kinds[][40] = {
    [RD_IMAGES] = {"images",   "image",    "imgs",    "img",     "im",     "ims",   "jpegimages", "jpegs", "photos",
                   "photo",    "pictures", "picture", "pics",    "pic",    "rgb",   "inputs",     "input", "originals",
                   "original", "orig",     "raw",     "leftimg", "frames", "tiles", "scans",      NULL},
    [RD_MASKS] =
        {"masks",      "mask",   "labels",      "label",   "lbl",           "lbls",         "annotations",
         "annotation", "annots", "annot",       "annos",   "anno",          "ann",          "anns",
         "gt",         "gts",    "groundtruth", "truth",   "segmentations", "segmentation", "segmentationclass",
         "segs",       "seg",    "segm",        "targets", "target",        "gtfine",       "gtcoarse",
         "labelids",   "manual", "semantic",    "stuffthingmaps", "parsing", NULL},
};
static const char *const maps[] = {"depth",     "depths",      "depthmap",  "depthmaps", "map",     "maps",
                                   "disparity", "disparities", "disp",      "height",    "heights", "heightmap",
                                   "elevation", "dem",         "dsm",       "ndsm",      "values",  "range",
                                   "ranges",    "distance",    "distances", NULL};
static const char *const fillers[] = {"set", "sets", "split", "data", "dataset", "folder", "part",  "subset", "bit",
                                      "png", "jpg",  "jpeg",  "all",  "new",     "ground", "class", NULL};

static int is_one(const char *const *words, const char *s, size_t n) {
  for (; *words; words++)
    if (strlen(*words) == n && !memcmp(*words, s, n)) return 1;
  return 0;
}

static int part_of(const char *s, size_t n) {
  for (int k = RD_TRAIN_PART; k <= RD_TEST_PART; k++)
    if (is_one(parts[k], s, n)) return k;
  return RD_NO_PART;
}

static int glued_part_of(const char *s, size_t n) {
  for (int k = RD_TRAIN_PART; k <= RD_TEST_PART; k++)
    if (is_one(glued[k], s, n)) return k;
  return part_of(s, n);
}

/* Where maps are looked for, they stand where masks would. */
static int kind_of(const char *s, size_t n, int of_maps) {
  if (is_one(kinds[RD_IMAGES], s, n)) return RD_IMAGES;
  return is_one(of_maps ? maps : kinds[RD_MASKS], s, n) ? RD_MASKS : RD_NO_KIND;
}

/* Part and kind in one word: trainannot, imagesTr. */
static int take_both(const char *s, size_t n, int of_maps, rd_folder_name *to) {
  for (size_t i = 2; i + 2 <= n; i++) {
    int front = glued_part_of(s, i), back = glued_part_of(s + i, n - i);
    int kind = front ? kind_of(s + i, n - i, of_maps) : back ? kind_of(s, i, of_maps) : RD_NO_KIND;
    if (!kind) continue;
    *to = (rd_folder_name){front ? front : back, kind};
    return 1;
  }
  return 0;
}

/* One word more; 0: the name says something else. A mask is meant where a name has both kinds: label_images. */
static int take_word(const char *s, size_t n, int of_maps, rd_folder_name *out) {
  rd_folder_name w = {part_of(s, n), kind_of(s, n, of_maps)};
  if (!w.part && !w.kind && !take_both(s, n, of_maps, &w)) return is_one(fillers, s, n);
  if (w.part && out->part && w.part != out->part) return 0;
  if (w.part) out->part = w.part;
  if (w.kind > out->kind) out->kind = w.kind;
  return 1;
}

enum { OF_MAPS = 1, ANY_WORDS = 2 };

static rd_folder_name read_name(const char *name, int how) {
  rd_folder_name out = {RD_NO_PART, RD_NO_KIND};
  char low[64];
  size_t n = strlen(name);
  if (n >= sizeof low) return out;
  for (size_t i = 0; i <= n; i++) low[i] = (char)tolower((unsigned char)name[i]);
  for (const char *p = low; *p;) {
    size_t k = 0;
    while (isalpha((unsigned char)p[k]) || (unsigned char)p[k] >= 128) k++;
    if (k && !take_word(p, k, how & OF_MAPS, &out) && !(how & ANY_WORDS))
      return (rd_folder_name){RD_NO_PART, RD_NO_KIND};
    p += k ? k : 1;
  }
  return out;
}

rd_folder_name rd_read_folder_name(const char *name) { return read_name(name, 0); }
rd_folder_name rd_read_map_folder_name(const char *name) { return read_name(name, OF_MAPS); }
rd_folder_name rd_read_hints(const char *name) { return read_name(name, ANY_WORDS); }

int rd_is_junk(const char *name) {
  static const char *const names[] = {
      "__MACOSX",   "Thumbs.db",   "desktop.ini", "@eaDir", "$RECYCLE.BIN", "System Volume Information",
      "lost+found", "__pycache__", "ehthumbs.db", "Icon\r"};
  if (*name == '.') return 1;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcasecmp(name, names[i])) return 1;
  return 0;
}
