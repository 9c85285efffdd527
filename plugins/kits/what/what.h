/* SPDX-License-Identifier: MIT
 * what.h - what a file is by its first bytes, for words about one that is not what was asked for. */
#ifndef SP_PLUGINS_WHAT_H
#define SP_PLUGINS_WHAT_H

#include <stddef.h>

enum { WHAT_WORDS = 160, WHAT_BYTES = 512 }; /* of the answer; so many of the file's bytes say all */

/* "it is a zip archive; unpack it": what to do about it where that is known. p: the file's first n bytes, or all; fewer than
 * WHAT_BYTES are all of it. 0: nothing is known of it, and `to` is "". */
int what_is(const void *p, size_t n, char to[WHAT_WORDS]);
/* The same of a file; errno where it cannot be read does not matter. */
int what_is_file(const char *path, char to[WHAT_WORDS]);

#endif
