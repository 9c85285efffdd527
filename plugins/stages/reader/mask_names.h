/* SPDX-License-Identifier: MIT
 * mask_names.h - which mask belongs to which image, by their names. */
#ifndef SP_PLUGINS_READER_MASK_NAMES_H
#define SP_PLUGINS_READER_MASK_NAMES_H

#include "table.h"

/* Sets out[i], a name of `masks`, for each image i; both lists are sorted by stem. By the parameter mask_name, else by
 * equal stems, else by the one rule, such as *_mask, by which each image has a mask, and then a note says so. Fails
 * where there are several rules, and where there is none: the first image without a mask is named, with the mask that
 * comes near. where: the two folders, for messages. */
int rd_match_masks(rd_listing *l, const char *const where[2], const rd_names *images, const rd_names *masks,
                   const char **out);

#endif
