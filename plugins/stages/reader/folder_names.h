/* SPDX-License-Identifier: MIT
 * folder_names.h - what the name of a folder says of it. */
#ifndef SP_PLUGINS_READER_FOLDER_NAMES_H
#define SP_PLUGINS_READER_FOLDER_NAMES_H

enum { RD_NO_PART, RD_TRAIN_PART, RD_VAL_PART, RD_TEST_PART, RD_PARTS };
enum { RD_NO_KIND, RD_IMAGES, RD_MASKS };

typedef struct rd_folder_name {
  int part, kind;
} rd_folder_name;

/* In any case, with digits and signs between the words: Train, valid, test-2, train_images, labelsTr. Where a word is
 * none of those that are known, the name says nothing. */
rd_folder_name rd_read_folder_name(const char *name);
/* What some word of the name says, whatever the others are: cars_train, ISIC_Training_GroundTruth. */
rd_folder_name rd_read_hints(const char *name);
/* As rd_read_folder_name(), where RD_MASKS are maps: depth, train_disparity. */
rd_folder_name rd_read_map_folder_name(const char *name);
/* What systems and tools leave behind, hidden names among it: none of it is data. */
int rd_is_junk(const char *name);

#endif
