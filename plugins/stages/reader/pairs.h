/* SPDX-License-Identifier: MIT
 * pairs.h - what layouts of folders with images and masks share. */
#ifndef SP_PLUGINS_READER_PAIRS_H
#define SP_PLUGINS_READER_PAIRS_H

#include "table.h"

/* The pictures in a folder, which is stamped; rel: where in the path the name below the data's folder begins. */
int rd_list_pictures(rd_listing *l, const char *path, size_t rel, int is_masks, rd_names *out, rd_left *left);
/* The same of all folders below it: names are paths from it on. */
int rd_list_below(rd_listing *l, const char *path, size_t rel, int is_masks, rd_names *out, rd_left *left);
/* nested.c: where the folders of images and of masks hold no pictures themselves. rel: from `base` on, and perhaps
 * changed; is_deep: both have folders of the same names, to be listed with all below. */
int rd_look_nested(rd_listing *l, const char *base, char rel[2][1024], int *is_deep);
/* Fails where two have one stem; the list is sorted by stem. */
int rd_check_stems(sp_ctx *ctx, const char *where, const rd_names *images);
/* Other files than PNG, TIFF and .npy are none that labels can be taken from as they are. */
int rd_check_ending(rd_listing *l, const char *const where[2], const char *image, const char *mask);
/* images, masks: sources. SP_OK or SP_E_NOMEM. */
int rd_add_pair(rd_table *t, uint32_t images, uint32_t masks, const char *image, const char *mask);
/* one_folder.c: the images are the first and the second of samples, as the parameter second_name says. */
int rd_add_twos(rd_listing *l, const char *const where[2], const rd_names *images, const rd_names *masks);
int rd_settle_pairs(sp_ctx *ctx, rd_self *self);

#endif
