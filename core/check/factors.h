/* SPDX-License-Identifier: MIT
 * factors.h - a stage whose gradients are made of factors beside one whose gradients are not:
 * rule 9 of spcore/plugin.h. */
#ifndef SP_CORE_CHECK_FACTORS_H
#define SP_CORE_CHECK_FACTORS_H

#include "check/rig.h"

#define FACTORS_SHARDS 3 /* a full one, a short one and one without samples */

typedef void (*factors_fn)(void *arg, bool good, const char *what, const char *words);

/* Both have memory, the same inputs and weights; `cut` was planned with FACTORS_SHARDS and has factors. exact: products
 * are of float32. Tells of up to three rules; ends where one is broken. */
void factors_check(rig *whole, rig *cut, bool exact, factors_fn told, void *arg);

#endif
