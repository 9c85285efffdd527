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
    {"im1", "im2"},
    {"img1", "img2"},
    {"image1", "image2"},
    {"images1", "images2"},
    {"imagea", "imageb"},
    {"imagesa", "imagesb"},
    {"left", "right"},
    {"first", "second"},
    {"old", "new"},
    {"leftimages", "rightimages"},
    {"leftimg8bit", "rightimg8bit"},
    {"predisaster", "postdisaster"},
};
const int rd_n_two_words = (int)(sizeof words / sizeof *words);

/* Beside those that folders of masks have. */
static const char *const labels_too[] = {"out",        "change",  "changes", "changemap", "changemaps",
                                         "changemask", "cd",      "cm",      "label1",    "label2",
                                         "labels1",    "labels2", "mask1",   "mask2",     NULL};

static void plain(const char *s, size_t n, char to[64]) {
  size_t k = 0;
  for (size_t i = 0; i < n && k < 63; i++)
    if (isalnum((unsigned char)s[i])) to[k++] = (char)tolower((unsigned char)s[i]);
  to[k] = 0;
}

static int role_of(const char *s, size_t n, int row, const char *labels) {
  char word[64];
  plain(s, n, word);
  for (int k = 0; k < 2; k++)
    if (!strcmp(word, words[row][k])) return RD_TWO_FIRST + k;
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

rd_two_name rd_read_two_name(const char *name, int row, const char *labels) {
  size_t n = strlen(name);
  rd_two_name out = {RD_NO_PART, role_of(name, n, row, labels)};
  if (labels && !strcmp(name, labels)) out.role = RD_TWO_LABELS;
  rd_folder_name is = rd_read_folder_name(name);
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
