/* SPDX-License-Identifier: MIT
 * two_names.h - what names of folders and files say of two images a sample. */
#ifndef SP_PLUGINS_READER_TWO_NAMES_H
#define SP_PLUGINS_READER_TWO_NAMES_H

#include <stddef.h>

enum { RD_TWO_FIRST = 1, RD_TWO_SECOND, RD_TWO_LABELS };

typedef struct rd_two_name {
  int part, role; /* 0: the name says nothing of it */
} rd_two_name;

extern const int rd_n_two_words;
int rd_is_stereo(int row);
/* RD_TWO_FIRST or RD_TWO_SECOND where these letters and digits, without regard to case and signs,
 * are a word of that row; else 0. */
int rd_two_word(const char *s, size_t n, int row);
/* By the two words of that row, in any case, with a part in front or behind: A, train_A, Before. labels: the one
 * folder of labels, NULL: whatever is called so. of_maps: RD_TWO_LABELS are folders that are called as those of maps
 * are. */
rd_two_name rd_read_two_name(const char *name, int row, const char *labels, int of_maps);
/* The same of a column: before, image_before, "left path". */
int rd_read_two_column(const char *name, int row);
/* The stem of `name`; that of the second image where this is the first (x_pre.png: x_post); that without the word which
 * says so (x). 0: the name has no such word, or is too long. */
enum { RD_STEM_SAME, RD_STEM_OTHER, RD_STEM_BARE };
int rd_stem_as(const char *name, int how, char stem[256]);

#endif
