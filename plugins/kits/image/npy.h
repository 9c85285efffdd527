/* SPDX-License-Identifier: MIT
 * npy.h - what the header of a .npy file says. */
#ifndef SP_PLUGINS_IMAGE_NPY_H
#define SP_PLUGINS_IMAGE_NPY_H

#include <stddef.h>
#include <stdint.h>

enum { IM_NPY_DIMS = 8, IM_NPY_HEADER = 65536 /* bytes, at most; NumPy's have some hundred */ };

/* type: 'u', 'i', 'b' or another of NumPy's letters; item: bytes of an element. */
typedef struct im_npy {
  int ndim, item, big_endian;
  char type;
  int64_t shape[IM_NPY_DIMS];
} im_npy;

/* What the text of a header says, which ends with a 0. NULL, or what is wrong. */
const char *im_npy_parse(const char *header, im_npy *out);

/* The bytes in front of the header's text, from the file's first 12, and of the text; NULL, or what is wrong. */
const char *im_npy_begin(const uint8_t *first, size_t n, size_t *at, size_t *bytes, char *words, size_t n_words);

/* Bytes of all elements, or -1: more than there can be. */
int64_t im_npy_bytes(const im_npy *a);

/* "3 x 480 x 640 of uint8", for words. */
void im_npy_words(const im_npy *a, char *to, size_t size);

/* One of IM_U8 ... (image.h), or -1: none of them. */
int im_npy_type(const im_npy *a);

#endif
