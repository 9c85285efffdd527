/* SPDX-License-Identifier: MIT
 * digest.h - what tells the data of two processes apart. */
#ifndef SP_PLUGINS_READER_DIGEST_H
#define SP_PLUGINS_READER_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* The items of the attribute `digest`: 0 of names, sizes and labels, 1 of times. arg: an rd_self with a table. */
int rd_digest(const void *arg, uint64_t i, char *to, size_t size);

#endif
