/* SPDX-License-Identifier: MIT
 * contents.h - what the samples of a set are: how large, of which classes, and which are there more than once. */
#ifndef SP_PLUGINS_READER_CONTENTS_H
#define SP_PLUGINS_READER_CONTENTS_H

#include "reader.h"

/* Items of attributes, as snprintf. One thread asks; i counts the samples of the reader's split. */
/* "WIDTH HEIGHT" of the image by its header alone, turned as orient says; "! " and why it cannot be told. */
int rd_size_item(const void *self, uint64_t i, char *to, size_t size);
/* With check: "INDEX PART LABEL..." of the sample: which of the whole set it is, 0 for training or 1 for validation,
 * and its class, or the labels that its mask has; "INDEX PART ! " and why where the mask is wrong. */
int rd_class_item(const void *self, uint64_t i, char *to, size_t size);
/* With check, of all images that were read: "COUNT\tFIRST\tSECOND", see RD_TWINS; a count of 0 has no names. */
enum {
  RD_TWIN_ACROSS, /* images for validation that are in the part for training, too */
  RD_TWIN_TRAIN,  /* images for training that are there before */
  RD_TWIN_VAL,    /* the same for validation */
  RD_TWIN_LABELS, /* images that are there before with another class */
  RD_TWINS
};
int rd_twin_item(const void *self, uint64_t i, char *to, size_t size);

/* What an image's pixels are in one number; equal pixels of equal size have equal ones. Never 0. */
uint64_t rd_hash_pixels(const void *px, size_t bytes, int w, int h);

#endif
