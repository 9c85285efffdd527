/* SPDX-License-Identifier: MIT
 * two_names.c - what names of folders and files say of two images a sample. */
#include "two_names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "folder_names.h"
#include "names.h"

/* The words as they stand in names, in lower case, without signs. */
static const char *const words[][2] = {
    {"a", "b"},
    {"before", "after"},
    {"pre", "post"},
    {"t1", "t2"},
    {"t0", "t1"},
    {"time1", "time2"},
    {"im0", "im1"},
    {"im1", "im2"},
    {"img0", "img1"},
    {"img1", "img2"},
    {"image0", "image1"},
    {"image1", "image2"},
    {"images1", "images2"},
    {"imagea", "imageb"},
    {"imagesa", "imagesb"},
    {"left", "right"},
    {"l", "r"},
    {"imageleft", "imageright"},
    {"leftimage", "rightimage"},
    {"first", "second"},
    {"old", "new"},
    {"leftimages", "rightimages"},
    {"leftimg8bit", "rightimg8bit"},
    {"predisaster", "postdisaster"},
    {"file1", "file2"},
    {"path1", "path2"},
    {"filea", "fileb"},
    {"patha", "pathb"},
    {"photo1", "photo2"},
};
const int rd_n_two_words = (int)(sizeof words / sizeof *words);

/* Beside those that folders of masks have. */
static const char *const labels_too[] = {"out",        "change",  "changes", "changemap", "changemaps",
                                         "changemask", "cd",      "cm",      "label1",    "label2",
                                         "labels1",    "labels2", "mask1",   "mask2",     NULL};

/* The two are one scene seen from two places at once, so that what is left in one is so in the other. */
int rd_is_stereo(int row) { return row >= 0 && (*words[row][0] == 'l' || !strcmp(words[row][0], "imageleft")); }

static void plain(const char *s, size_t n, char to[64]) {
  size_t k = 0;
  for (size_t i = 0; i < n && k < 63; i++)
    if (isalnum((unsigned char)s[i])) to[k++] = (char)tolower((unsigned char)s[i]);
  to[k] = 0;
}

int rd_two_word(const char *s, size_t n, int row) {
  char word[64];
  plain(s, n, word);
  for (int k = 0; k < 2; k++)
    if (!strcmp(word, words[row][k])) return RD_TWO_FIRST + k;
  return 0;
}

static int role_of(const char *s, size_t n, int row, const char *labels) {
  char word[64];
  int role = rd_two_word(s, n, row);
  if (role) return role;
  plain(s, n, word);
  for (int i = 0; !labels && labels_too[i]; i++)
    if (!strcmp(word, labels_too[i])) return RD_TWO_LABELS;
  return 0;
}

static int part_of(const char *s, size_t n) {
  char word[64];
  snprintf(word, sizeof word, "%.*s", (int)(n < 63 ? n : 63), s);
  rd_folder_name is = rd_read_folder_name(word);
  return is.kind ? RD_NO_PART : is.part;
}

rd_two_name rd_read_two_name(const char *name, int row, const char *labels, int of_maps) {
  size_t n = strlen(name);
  rd_two_name out = {RD_NO_PART, of_maps ? rd_two_word(name, n, row) : role_of(name, n, row, labels)};
  if (labels && !strcmp(name, labels)) out.role = RD_TWO_LABELS;
  rd_folder_name is = of_maps ? rd_read_map_folder_name(name) : rd_read_folder_name(name);
  if (out.role) return out;
  for (size_t i = 1; i + 1 < n; i++) {
    if (isalnum((unsigned char)name[i])) continue;
    const char *back = name + i + 1;
    rd_two_name split = {part_of(name, i), role_of(back, n - i - 1, row, labels)};
    if (!split.part || !split.role) split = (rd_two_name){part_of(back, n - i - 1), role_of(name, i, row, labels)};
    if (split.part && split.role) return split;
  }
  out.part = is.part;
  if (is.kind == RD_MASKS && !labels) out.role = RD_TWO_LABELS;
  return is.kind == RD_IMAGES ? (rd_two_name){0, 0} : out;
}

static const char *const generic[] = {"image", "images", "img",  "imgs", "path",     "paths",    "file", "files",
                                      "name",  "photo",  "pic",  "rgb",  "filename", "filepath", "url",  "frame",
                                      "view",  "scene",  "tile", "time", "picture",  "id",       NULL};

int rd_read_two_column(const char *name, int row) {
  int role = rd_two_word(name, strlen(name), row);
  if (role) return role;
  for (const char *p = name; *p;) { /* image_before, left path: one word of the two, the others say nothing */
    size_t n = 0;
    char word[64];
    while (isalnum((unsigned char)p[n])) n++;
    if (n) {
      int says = rd_two_word(p, n, row), known = 0;
      plain(p, n, word);
      for (int i = 0; generic[i]; i++) known |= !strcmp(word, generic[i]);
      if ((!says && !known) || (says && role)) return 0;
      role += says;
    }
    p += n ? n : 1;
  }
  return role;
}

/* Puts words[row][1], in capitals where those are, instead of n letters at s; or nothing, without the sign beside
 * them. */
static int exchange(const char *name, size_t stem_n, const char *s, size_t n, int row, int how, char stem[256]) {
  char to[32] = "";
  int capitals = isupper((unsigned char)*s), all = capitals && (n == 1 || isupper((unsigned char)s[1]));
  if (how == RD_STEM_OTHER) snprintf(to, sizeof to, "%s", words[row][1]);
  for (char *p = to; *p; p++)
    if (all || (capitals && p == to)) *p = (char)toupper((unsigned char)*p);
  size_t front = (size_t)(s - name), back = front + n;
  if (how == RD_STEM_BARE && front) front--;
  else if (how == RD_STEM_BARE && back < stem_n) back++;
  return snprintf(stem, 256, "%.*s%s%.*s", (int)front, name, to, (int)(stem_n - back), name + back) < 256 && *stem;
}

int rd_stem_as(const char *name, int how, char stem[256]) {
  size_t n = rd_stem_length(name);
  if (how == RD_STEM_SAME) return snprintf(stem, 256, "%.*s", (int)n, name) < 256;
  for (size_t end = n; end > 0;) { /* words from the last one on */
    size_t from = end;
    while (from > 0 && isalnum((unsigned char)name[from - 1])) from--;
    for (int row = 0; row < rd_n_two_words && from < end; row++)
      if (strlen(words[row][0]) == end - from && !strncasecmp(name + from, words[row][0], end - from))
        return exchange(name, n, name + from, end - from, row, how, stem);
    end = from ? from - 1 : 0;
  }
  return 0;
}
