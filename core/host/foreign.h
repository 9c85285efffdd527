/* SPDX-License-Identifier: MIT
 * foreign.h - files of weights that are another program's. */
#ifndef SP_HOST_FOREIGN_H
#define SP_HOST_FOREIGN_H

#include <stdbool.h>

#include "base/text.h"

/* What a file that no plugin reads is by its first bytes and its ending, and what converts it; false: not known. */
bool sp_foreign_words(const char *path, sp_sb *sb);

#endif
