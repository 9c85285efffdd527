/* SPDX-License-Identifier: MIT
 * what.h - what a file is by its first bytes, for words about one that is not what was asked for. */
#ifndef SP_PLUGINS_WHAT_H
#define SP_PLUGINS_WHAT_H

#include <stddef.h>

enum { WHAT_WORDS = 160, WHAT_BYTES = 512 }; /* of the answer; so many of the file's bytes say all */

/* "it is a zip archive; unpack it": what to do about it where that is known. p: the file's first n bytes, or all; fewer
 * than WHAT_BYTES are all of it. 0: nothing is known of it, and `to` is "". */
int what_is(const void *p, size_t n, char to[WHAT_WORDS]);
/* The same of a file; errno where it cannot be read does not matter. */
int what_is_file(const char *path, char to[WHAT_WORDS]);

/* Formats of pictures, films and arrays that are not read, by the ending of the name. */
enum { WHAT_FORMATS = 16 };

typedef struct what_format {
  const char *one, *many; /* "HEIC image", "HEIC images" */
  const char *cure;       /* "heif-convert FILE.heic FILE.png, of libheif" */
} what_format;

/* Which one the name of a file ends as; -1: none. */
int what_ending(const char *name);
const what_format *what_of(int i);

#endif
