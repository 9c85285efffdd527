/* SPDX-License-Identifier: MIT
 * layout_kit.h - short words for tests of the stage `reader` on small folders of files. */
#ifndef SP_TESTS_LAYOUT_KIT_H
#define SP_TESTS_LAYOUT_KIT_H

#include <errno.h>
#include <png.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/kit/image_files.h"
#include "tests/kit/reader_kit.h"

/* NAME below if_dir, with the folders above it. */
KIT const char *below(const char *name) {
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
KIT void dot(const char *name, int grey) {
  uint16_t v[1] = {(uint16_t)grey};
  if_write(below(name), if_png(v, 1, 1, PNG_COLOR_TYPE_GRAY, 8, 0));
}

KIT void text(const char *name, const char *words) { if_put(below(name), words, strlen(words)); }

KIT spt *set(const char *sub, const char *more, int64_t n) {
  char params[1400];
  snprintf(params, sizeof params, "{ path = \"%s\", size = 1, %s }", if_path(sub), more);
  return open_set(params, n);
}

KIT spt *classes(const char *sub, const char *more, int64_t n) {
  char with[900];
  snprintf(with, sizeof with, "target = \"class\", %s", more);
  return set(sub, with, n);
}

/* The samples are these: grey values of the images, labels of images or masks. Frees t. */
KIT void holds(spt *t, int n, const int want[][2]) {
  make(t, 0, n);
  ck_assert_int_eq(spt_length(t), n);
  for (int i = 0; i < n; i++) {
    int label = label_of(t, i) == 255 ? mask_of(t, i)[0] : label_of(t, i);
    ck_assert_msg(image_of(t, i)[0] == want[i][0] && label == want[i][1], "sample %d is %d, label %d", i,
                  image_of(t, i)[0], label);
  }
  spt_free(t);
}

KIT void refuses(spt *t, int status, const char *words) {
  says(t, status, words);
  spt_free(t);
}

KIT void tells(const spt *t, const char *layout, const char *splits, const char *counts, const char *left_out) {
  ck_assert_str_eq(spt_attr_text(t, "layout"), layout);
  ck_assert_str_eq(spt_attr_text(t, "splits"), splits);
  ck_assert_str_eq(spt_attr_text(t, "counts"), counts);
  ck_assert_str_eq(spt_attr_text(t, "left_out"), left_out);
}

#endif
